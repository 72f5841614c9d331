"""``distarray.emath``: functions whose results are complex where real arguments have no real one. NumPy's of ``numpy.emath``
dispatch here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from distarray.array.functions import implements
from distarray.array.state import DistributedArray
from distarray.ops import reductions
from distarray.ops.convert import asarray

__all__ = ["arccos", "arcsin", "arctanh", "log", "log10", "log2", "logn", "power", "sqrt"]


def _widened(x: DistributedArray, outside: Callable[[DistributedArray], Any]) -> DistributedArray:
    """The array as complex numbers where any element lies outside a function's real domain."""
    if x.dtype.kind == "c" or not bool(reductions.any(outside(x))):
        return x
    single = x.dtype.name in ("float32", "int8", "int16", "uint8", "uint16")
    return x.astype(np.complex64 if single else np.complex128)


def _negative(x: DistributedArray) -> Any:
    return x < 0


def _beyond_one(x: DistributedArray) -> Any:
    return abs(x) > 1


def _function(name: str, outside: Callable[[DistributedArray], Any], domain: str) -> Callable[[Any], Any]:
    ufunc = getattr(np, name)

    def function(x: Any) -> Any:
        return ufunc(_widened(asarray(x), outside))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""``{name}`` of each element; complex where an element is {domain}.

    Notes
    -----
    Communication: whether any element is {domain}.
    """
    return implements(getattr(np.emath, name))(function)


sqrt = _function("sqrt", _negative, "negative")
log = _function("log", _negative, "negative")
log2 = _function("log2", _negative, "negative")
log10 = _function("log10", _negative, "negative")
arccos = _function("arccos", _beyond_one, "beyond ±1")
arcsin = _function("arcsin", _beyond_one, "beyond ±1")
arctanh = _function("arctanh", _beyond_one, "beyond ±1")


@implements(np.emath.logn)
def logn(n: Any, x: Any) -> Any:
    """Logarithm to base `n`; complex where an element or a base is negative.

    Notes
    -----
    Communication: whether any element is negative.
    """
    return np.log(_widened(asarray(x), _negative)) / np.log(_widened(asarray(n), _negative))


@implements(np.emath.power)
def power(x: Any, p: Any) -> Any:
    """`x` to the power `p`; complex where an element of `x` is negative, floating where one of `p` is.

    Notes
    -----
    Communication: whether any element is negative.
    """
    exponent = asarray(p)
    if exponent.dtype.kind in "iu" and bool(reductions.any(exponent < 0)):
        exponent = exponent * 1.0
    return np.power(_widened(asarray(x), _negative), exponent)
