"""Ufunc calls: ``np.add(x, y)`` and every other element-wise ufunc of NumPy, through ``__array_ufunc__``."""

from __future__ import annotations

from typing import Any

import numpy as np

from distarray.array import calls, whole
from distarray.array.aliases import ArrayLike
from distarray.array.functions import FUNCTIONS
from distarray.array.place import as_operand
from distarray.array.shapes import as_mask
from distarray.array.state import DistributedArray
from distarray.ops.gufuncs import call_general
from distarray.ops.vectorizing import call_python, is_python

__all__: list[str] = []


def call(
    ufunc: np.ufunc, *inputs: Any, out: tuple[Any, ...] | None = None, where: ArrayLike = True, **kwargs: Any
) -> Any:
    """``ufunc(*inputs, **kwargs)``; generalised ufuncs (``matmul``, ``vecdot``) have implementations of their own."""
    if where is True and not kwargs and ufunc.nout == 1 and ufunc.ntypes > 1 and ufunc.signature is None:
        if out is None:
            ready = whole.call(ufunc, inputs)
            if ready is not NotImplemented:
                return ready
        elif type(out[0]) is DistributedArray and whole.update(ufunc, inputs, out[0]):
            return out[0]
    return beyond(ufunc, inputs, out, where, kwargs)


def beyond(
    ufunc: np.ufunc, inputs: tuple[Any, ...], out: tuple[Any, ...] | None, where: ArrayLike, kwargs: dict[str, Any]
) -> Any:
    """A call where the short way does not serve."""
    if out is not None and any(target is Ellipsis for target in out):
        raise TypeError("must use `...` as `out=...` and not per-operand/in a tuple")
    if not all(calls.known(x) for x in (*inputs, *(out or ())) if x is not None) or not calls.known(as_mask(where)):
        return NotImplemented
    if ufunc.signature is not None:
        implementation = FUNCTIONS.get(ufunc)
        if implementation is None:
            return call_general(ufunc, inputs, out, kwargs)
        if out is not None:
            kwargs["out"] = out[0]
        return implementation(*inputs, **kwargs)
    if ufunc.ntypes == 1 and is_python(ufunc):
        return call_python(ufunc, inputs, out, where, kwargs)
    if out is None and where is True and not kwargs and ufunc.ntypes > 1:
        return calls.apply(ufunc, inputs)
    return whole.apply(ufunc, inputs, out, where, **kwargs)


def outer(ufunc: np.ufunc, a: ArrayLike, b: ArrayLike, /, **kwargs: Any) -> Any:
    """``ufunc.outer(a, b)``: every element of `a` with every one of `b`. Communication: what broadcasting needs."""
    if ufunc.signature is not None:
        raise TypeError("method outer is not allowed in ufunc with non-trivial signature")
    if ufunc.nin != 2:
        raise ValueError("outer product only supported for binary functions")
    if type(a) is type(b) is DistributedArray and not kwargs and not is_python(ufunc):
        ready = whole.outer(ufunc, a, b)
        if ready is not NotImplemented:
            return ready
    context = next(x for x in (a, b) if isinstance(x, DistributedArray))._context
    first, second = (as_operand(context, x) for x in (a, b))
    if np.ndim(first) + np.ndim(second) > 64:
        raise ValueError(
            f"maximum supported dimension for an ndarray is 64, but `{ufunc.__name__}.outer()` result would have "
            f"{np.ndim(first) + np.ndim(second)}"
        )
    if isinstance(first, DistributedArray) and isinstance(second, DistributedArray):
        view = first._view_map()
        first = first._viewed(view.expand_dims(tuple(range(first.ndim, first.ndim + second.ndim))))
    return call(ufunc, first, second, **kwargs)
