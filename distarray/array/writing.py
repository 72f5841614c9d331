"""Writing into arrays: ``out=``, and assignments to views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from distarray.array.place import as_operand, nested
from distarray.array.shapes import PYTHON_SCALARS, broadcast_shape, fits
from distarray.array.state import DistributedArray, same_context
from distarray.errors import ReadOnlyError
from distarray.fusion.demand import write
from distarray.fusion.expr import Leaf, warn_complex
from distarray.geometry import ViewMap


def check_out(out: tuple[Any, ...], shape: tuple[int, ...]) -> None:
    whole = broadcast_shape(shape, *(target.shape for target in out if target is not None))
    for target in out:
        if target is None:
            continue
        if target.shape != whole:
            raise ValueError(
                f"non-broadcastable output operand with shape {target.shape} doesn't match the broadcast shape {whole}"
            )
        if isinstance(target, DistributedArray) and not target._writable:
            raise ReadOnlyError("output array is read-only: it stands where NumPy would have a view; pass x.copy()")


def store(value: DistributedArray, target: Any, operands: Sequence[Any] = ()) -> Any:
    """Write a recorded result into an ``out=`` array of either kind, and return that array.

    `operands` are those of its call alone: where they are what is written to, as in ``np.add(x, 1, out=x)``, that may be
    overwritten as it is read.
    """
    if isinstance(target, np.ndarray):
        target[...] = value.get()
        return target
    storage = target._own()
    private = sum(type(a) is Leaf and a.version is storage.version and a.view == target._view for a in operands)
    write(storage, target._view, value._arg(), private=private)
    return target


def assign(x: DistributedArray, view: ViewMap, value: Any) -> None:
    """Write `value`, broadcast to the view's shape, into a view of the array's storage."""
    storage = x._own()
    if not x._writable:
        write(storage, view, None, writable=False)
    if isinstance(value, (list, tuple)):
        value = nested(value, x._dtype)
    if isinstance(value, (*PYTHON_SCALARS, np.generic)):
        filled = np.empty((), x._dtype)
        filled[...] = value
        source: Any = filled[()]
    else:
        array = as_operand(x._context, value, view.shape)
        if array._context is not x._context:
            same_context((x, array))
        while array.ndim > len(view.shape) and array.shape[0] == 1:
            array = array[0, ...]
        if array.shape != view.shape and not fits(array.shape, view.shape):
            raise ValueError(f"could not broadcast input array from shape {array.shape} into shape {view.shape}")
        if array._dtype.kind == "c" and x._dtype.kind not in "cb":
            warn_complex()
        source = array._arg()
    plain = None if view.is_identity and view.base == storage.version.layout.shape else view
    write(storage, plain, source)
