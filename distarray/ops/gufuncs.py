"""Generalised ufuncs that have no implementation of their own: others' (``numba.guvectorize``), and what their axes mean."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from distarray.algorithms.loops import CoreSignature, loop_over
from distarray.algorithms.product import view
from distarray.array.place import as_array
from distarray.array.state import DistributedArray, same_context
from distarray.array.writing import check_out, overwrite
from distarray.errors import UnsupportedError

__all__ = ["call_general"]

_NAMED = ("axes", "axis", "keepdims")


def call_general(ufunc: np.ufunc, inputs: tuple[Any, ...], out: tuple[Any, ...] | None, kwargs: dict[str, Any]) -> Any:
    """A call: each device goes over its part of the loop axes, with the core axes whole. NumPy itself checks a small call first."""
    if "?" in (ufunc.signature or ""):
        raise UnsupportedError(
            f"{ufunc.__name__} has core axes that may be missing, {ufunc.signature}, and is not distributed; nothing was "
            f"gathered. To run it on one host, call it on x.get()"
        )
    signature = CoreSignature.of((ufunc.signature or "").replace("|1", ""))
    context = same_context([x for x in (*inputs, *(out or ())) if isinstance(x, DistributedArray)])
    operands = [as_array(context, x) for x in inputs]
    targets: Sequence[Any] = out or [None] * ufunc.nout
    for target in targets:
        if target is not None:
            check_out(target, "return arrays must be of ArrayType, and out= is of type {}")
    places = _places(signature, operands, targets, kwargs)
    models = [_model(x, axes) for x, axes in zip(operands, places, strict=False)]
    outs = tuple(
        [None if t is None else _model(t, axes) for t, axes in zip(targets, places[len(models) :], strict=True)]
    )
    with np.errstate(all="ignore"):
        found = ufunc(*models, **kwargs, **({} if out is None else {"out": outs}))
    shaped = found if isinstance(found, tuple) else (found,)
    moved = [_last(x, axes) for x, axes in zip(operands, places, strict=False)]
    counts = [len(axes) for axes in signature.inputs]
    ends = [_last(np.asarray(part), axes) for part, axes in zip(shaped, places[len(models) :], strict=True)]
    cores = [end.shape[end.ndim - len(names) :] for end, names in zip(ends, signature.outputs, strict=True)]
    plain = {key: value for key, value in kwargs.items() if key not in _NAMED}

    def function(loops: tuple[int, ...], *parts: Any) -> tuple[Any, ...]:
        made = tuple([np.empty((*loops, *core), end.dtype) for core, end in zip(cores, ends, strict=True)])
        ufunc(*parts, out=made, **plain)
        return made

    results = loop_over(
        context, function, moved, counts, [(c, e.dtype) for c, e in zip(cores, ends, strict=True)], ufunc.__name__
    )
    given = []
    for result, target, names, axes in zip(results, targets, signature.outputs, places[len(models) :], strict=True):
        value: Any = result
        if kwargs.get("keepdims"):
            value = np.expand_dims(value, tuple(range(-len(axes), 0)))
        if axes and (names or kwargs.get("keepdims")):
            value = np.moveaxis(value, range(-len(axes), 0), axes)
        value._detached = not value.ndim
        if target is not None and tuple(target.shape) != value.shape:
            raise ValueError(
                f"{ufunc.__name__}: out= has shape {tuple(target.shape)}, and the result has shape {value.shape}"
            )
        given.append(value if target is None else overwrite(target, value))
    return given[0] if len(given) == 1 else tuple(given)


def _places(
    signature: CoreSignature, operands: Sequence[Any], targets: Sequence[Any], kwargs: dict[str, Any]
) -> list[Any]:
    """The core axes of each operand and result, from ``axes=``, ``axis=`` or, by default, the last ones."""
    names = [*signature.inputs, *signature.outputs]
    axis, axes, keepdims = (kwargs.get(name) for name in ("axis", "axes", "keepdims"))
    kept = len(signature.inputs[0]) if keepdims else 0
    if axes is not None:
        listed = [tuple(map(operator.index, each)) if np.iterable(each) else (operator.index(each),) for each in axes]
        missing = len(names) - len(listed)
        return [*listed, *[tuple(range(-kept, 0)) if kept else ()] * missing]
    if axis is not None:
        return [
            (operator.index(axis),) if own or (keepdims and i >= len(operands)) else () for i, own in enumerate(names)
        ]
    return [tuple(range(-(len(own) or (kept if i >= len(operands) else 0)), 0)) for i, own in enumerate(names)]


def _model(x: DistributedArray, core: Sequence[int]) -> Any:
    """Zeros with the length of the core axes, and no turn of the loops."""
    whole = {axis % x.ndim for axis in core} if x.ndim else set()
    return np.zeros([n if i in whole else 0 for i, n in enumerate(x.shape)], x.dtype)


def _last(x: Any, core: Sequence[int]) -> Any:
    """A view with the core axes behind the others."""
    if not core:
        return x
    last = [axis % x.ndim for axis in core]
    return view(x, transpose=(*[i for i in range(x.ndim) if i not in last], *last))
