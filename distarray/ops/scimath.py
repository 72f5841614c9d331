"""``distarray.emath``: functions whose results are complex where real arguments have no real one. NumPy's of ``numpy.emath``
dispatch here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from distarray.array.aliases import ArrayLike
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

    def function(x: ArrayLike) -> Any:
        return ufunc(_widened(asarray(x), outside))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""``{name}`` of each element; complex where an element is {domain}.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    DistributedArray
        Complex where any element is {domain}.

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
def logn(n: ArrayLike, x: ArrayLike) -> Any:
    """Logarithm to a base; complex where an element or a base is negative.

    Parameters
    ----------
    n : array_like
        The base.
    x : array_like

    Returns
    -------
    DistributedArray
        Of the broadcast shape.

    Notes
    -----
    Communication: whether any element is negative.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.emath.logn(2, da.asarray([8.0, 2.0])).tolist()
    [3.0, 1.0]
    """
    return np.log(_widened(asarray(x), _negative)) / np.log(_widened(asarray(n), _negative))


@implements(np.emath.power)
def power(x: ArrayLike, p: ArrayLike) -> Any:
    """Elements to a power; complex where an element is negative, floating where an exponent is.

    Parameters
    ----------
    x : array_like
    p : array_like
        The exponent.

    Returns
    -------
    DistributedArray
        Of the broadcast shape.

    Notes
    -----
    Communication: whether any element is negative.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.emath.power(da.asarray([2, 3]), -1).round(3).tolist()
    [0.5, 0.333]
    """
    exponent = asarray(p)
    if exponent.dtype.kind in "iu" and bool(reductions.any(exponent < 0)):
        exponent = exponent * 1.0
    return np.power(_widened(asarray(x), _negative), exponent)
