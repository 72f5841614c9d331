"""Writing into arrays: ``out=``, and assignments to views."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from distarray.array.aliases import AnyArray, ArrayLike, Out, Shape
from distarray.array.place import as_array, host_nested, is_cupy, nested
from distarray.array.shapes import PYTHON_SCALARS, broadcast_shape, fits
from distarray.array.shown import seen
from distarray.array.state import DistributedArray, astype_node, same_context
from distarray.devices.arrays import AnyDType
from distarray.errors import read_only
from distarray.fusion.conditions import WarningOnce
from distarray.fusion.demand import demand
from distarray.fusion.expr import Leaf, Node, is_loud, real_for, small, warn_complex
from distarray.fusion.write import write
from distarray.geometry import ViewMap
from distarray.storage import Apart
from distarray.transfer.asking import refuse_host_target
from distarray.transfer.execute import is_uncounted

NO_ARRAY = "output must be an array, not {}: pass a DistributedArray or a NumPy array"


def check_out(out: Out, refusal: str = NO_ARRAY) -> None:
    """Refuse an ``out=`` that is no array, in the words of the function that takes it, or that can't be written to."""
    if not isinstance(out, (DistributedArray, np.ndarray)):
        raise TypeError(refusal.format(type(out).__name__))
    check_writable(out)


ASSIGNED = ("assignment destination", "write to x.copy() instead")
"""What `check_writable` calls the target of an assignment, and what cures it."""


def check_writable(target: AnyArray, what: str = "output array", cure: str = "pass x.copy()") -> None:
    """Refuse an array that what is written would be lost in, and a NumPy array where nothing may go to the host unasked."""
    if isinstance(target, np.ndarray):
        refuse_host_target(target.nbytes)
    if isinstance(target, DistributedArray) and not target._writable and not _alone(target):
        if isinstance(target._writable, Apart):
            raise read_only(
                what,
                "write to that array, or make the view of x.reshard(layout) with a layout that keeps the axes that are joined "
                f"or split whole, such as distarray.replicated(); or {cure}",
                "it is a copy where NumPy has a view, since the layout allows none here, and a write would not reach the array "
                "that it was made of",
            )
        raise read_only(what, cure, "it is a broadcast view, a diagonal, a view of what is read-only, or was set so")


def _alone(target: DistributedArray) -> bool:
    """Whether a copy that stands for a view was the last to hold what it was made of, to read it once more."""
    if not isinstance(target._writable, Apart):
        return False
    assert target._storage is not None
    return target._storage.version is not None and bool(target._writable)


def check_outputs(out: tuple[Any, ...], shape: Shape) -> None:
    """Refuse a ufunc's ``out=`` arrays that a result of `shape` does not fit."""
    whole = broadcast_shape(shape, *(target.shape for target in out if target is not None))
    for target in out:
        if target is None:
            continue
        if target.shape != whole:
            raise ValueError(
                f"non-broadcastable output operand with shape {target.shape} doesn't match the broadcast shape {whole}"
            )
        check_writable(target)


def check_reduced(out: Out, shape: Shape, name: str) -> None:
    """Refuse an ``out=`` of another shape than a reduction's result: nothing is broadcast there."""
    if out is not None and tuple(out.shape) != tuple(shape):
        raise ValueError(
            f"output parameter for reduction operation {name} has shape {tuple(out.shape)}, and the result has "
            f"shape {tuple(shape)}: pass an out= of that shape"
        )


def single(out: Out | tuple[Out, ...]) -> Any:
    """The one ``out=`` of a ufunc's method, which NumPy hands over as a tuple."""
    return out[0] if isinstance(out, tuple) and len(out) == 1 else out


def deliver(result: DistributedArray, out: Out) -> Any:
    """A result as NumPy returns it: in ``out=``, which has been checked, or as a scalar where it has no axes."""
    if out is not None:
        return store(result, out)
    if not result.ndim:
        result._detached = True
    return result


def store(
    value: DistributedArray | Node,
    target: Any,  # an array of either kind, told apart by its class
    operands: Sequence[Any] = (),
) -> Any:
    """Write a recorded result into an ``out=`` array of either kind, and return that array.

    A floating-point error is raised when all is written, as by NumPy.

    `operands` are those of its call alone: where they are what is written to, as in ``np.add(x, 1, out=x)``, that may be
    overwritten as it is read.
    """
    if isinstance(target, np.ndarray):
        if type(value) is Node and value.version is None and is_loud(value.errors):
            placed = as_array(value.context, target)
            try:
                store(value, placed, operands)
            finally:
                target[...] = placed.get()
        else:
            target[...] = (DistributedArray._of_node(value) if type(value) is Node else value).get()  # type: ignore[union-attr]
        return target
    storage = target._own()
    private = sum(type(a) is Leaf and a.version is storage.version and a.view == target._view for a in operands)
    write(storage, target._view, value if type(value) is Node else value._arg(), private=private)  # type: ignore[union-attr]
    return target


def overwrite(out: AnyArray, value: DistributedArray) -> Any:
    """``out[...] = value`` for an array of either kind; returns `out`."""
    if isinstance(out, DistributedArray):
        assign(out, out._view_map(), value)
    else:
        out[...] = value.get()
    return out


def _is_lossy(source: AnyDType, target: AnyDType) -> bool:
    """Whether a conversion can meet a floating-point condition."""
    return source.kind in "fcV" and target.kind not in "bmM" and not np.can_cast(source, target, "safe")


def _converted(value: DistributedArray, dtype: AnyDType) -> DistributedArray:
    """A 0-d array in another dtype, with what has to be said of it: nothing is written where that is an exception."""
    if value._dtype.kind == "c" and dtype.kind not in "cb":  # warned of by the caller
        value = value.real
    node = astype_node(value, dtype)
    demand(node)
    return DistributedArray._of_node(node)


def element_of(x: DistributedArray, value: ArrayLike) -> Any:
    """A value for one element of `x`: lists and the like are converted or refused as NumPy does it, arrays of one stay. So is
    a number that each process sees, where integers can't hold it: NaN, say."""
    if not getattr(value, "ndim", not isinstance(value, PYTHON_SCALARS)):
        if x._dtype.kind == "i" and type(value) is DistributedArray and value._detached and value._dtype.kind == "f":
            held = seen(value) if x._context.kind == "host" else None
            if held is None and is_uncounted(x._context):
                held = value.get()
            if held is not None:
                np.empty(1, x._dtype)[0] = held[()]
        return value
    if isinstance(value, DistributedArray):
        if not (x._dtype.kind in "bV" and value.size == 1):
            if x._dtype.kind == "c":
                raise TypeError("only 0-dimensional arrays can be converted to Python scalars")
            raise ValueError("setting an array element with a sequence.")
        return value
    if is_cupy(value):
        return element_of(x, as_array(x._context, value))
    element = np.empty(1, x._dtype)
    element[0] = host_nested(value) if isinstance(value, list) else real_for(value, x._dtype)
    return element[0]


def assign(x: DistributedArray, view: ViewMap, value: object, *, named: bool = False) -> None:
    """Write `value`, broadcast to the view's shape, into a view of the array's storage. `named`: the program has a name for the
    value, so that what is computed for it may be kept."""
    check_writable(x, *ASSIGNED)
    storage = x._own()
    if type(value) is DistributedArray and value._storage is storage and value._view_map() == view:
        return  # as in ``x[key] += y``, which has written there
    if x._dtype.kind in "mM" and isinstance(value, (str, datetime.date, datetime.timedelta)):
        value = np.array([value], x._dtype)[0]
    if isinstance(value, (list, tuple)):
        value = nested(value, x._dtype)
        if value.ndim > len(view.shape):
            raise ValueError(
                f"setting an array element with a sequence: the list has {value.ndim} axes, and what it is assigned to "
                f"{len(view.shape)}. Pass an array of shape {view.shape}"
            )
    if value is None or isinstance(value, (*PYTHON_SCALARS, np.generic)):
        filled = np.empty((), x._dtype)
        value = real_for(value, x._dtype)
        with nullcontext() if small(value) else WarningOnce(x._context, "cast"):
            filled[...] = value
        source: Any = filled[()]
    else:
        array = as_array(x._context, value)
        if array._context is not x._context:
            same_context((x, array))
        if array._shape != view.shape:
            while array.ndim > len(view.shape) and array.shape[0] == 1:
                array = array[0, ...]
            if not fits(array.shape, view.shape):
                raise ValueError(f"could not broadcast input array from shape {array.shape} into shape {view.shape}")
        if array._dtype.kind == "c" and x._dtype.kind not in "cb":
            warn_complex()
        if not array.ndim and _is_lossy(array._dtype, x._dtype):  # NumPy converts one value before it writes
            array = _converted(array, x._dtype)
        source = array._arg()
    plain = None if view.is_identity and view.base == storage.version.layout.shape else view
    own = int(type(source) is Leaf and source.version is storage.version)
    write(storage, plain, source, private=own, held=source if named else None)
