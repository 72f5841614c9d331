"""Sequences on logarithmic scales, ``logspace`` and ``geomspace``, and what reads or makes values on the host and spreads them:
NumPy's ``frombuffer``, ``fromiter``, ``loadtxt`` and their kin with ``like=``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from distarray.array.aliases import ArrayLike, DTypeLike
from distarray.array.documented import described_as
from distarray.array.functions import implements
from distarray.array.state import DistributedArray
from distarray.ops import reductions
from distarray.ops.convert import asarray
from distarray.ops.creation import linspace
from distarray.ops.manipulation import expand_dims, moveaxis

__all__ = ["frombuffer", "fromiter", "fromstring", "geomspace", "genfromtxt", "loadtxt", "logspace"]


@implements(np.logspace)
@described_as(linspace)
def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    base: ArrayLike = 10.0,
    dtype: DTypeLike = None,
    axis: int = 0,
) -> DistributedArray:
    """Powers of a base whose exponents are evenly spaced.

    Parameters
    ----------
    start, stop : scalar or array_like
        The first and the last exponent.
    endpoint : bool
        Whether `stop` is the last exponent.
    base : scalar or array_like
    dtype : dtype, optional
        Default: as NumPy infers it.

    Returns
    -------
    DistributedArray

    Notes
    -----
    Communication: none for scalars. With distributed arrays, what aligns them.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.logspace(0, 2, 3).tolist()
    [1.0, 10.0, 100.0]
    """
    if np.ndim(base):
        base, start, stop = (asarray(v) for v in (base, start, stop))
        ndim = max(v.ndim for v in (base, start, stop))
        start, stop, base = (v[(*(None,) * (ndim - v.ndim), ...)] for v in (start, stop, base))
        base = expand_dims(base, axis)
    found = np.power(base, linspace(start, stop, num=num, endpoint=endpoint, axis=axis))
    return found if dtype is None else found.astype(dtype)  # type: ignore[no-any-return]


@implements(np.geomspace)
@described_as(linspace)
def geomspace(
    start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, dtype: DTypeLike = None, axis: int = 0
) -> DistributedArray:
    """Numbers each of which is the same multiple of the one before.

    Parameters
    ----------
    dtype : dtype, optional
        Default: as NumPy infers it.

    Returns
    -------
    DistributedArray

    Raises
    ------
    ValueError
        An end is zero.

    Notes
    -----
    Communication: none for scalars. With distributed arrays, what aligns them, and whether an end is zero.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.geomspace(1, 8, 4).round(6).tolist()
    [1.0, 2.0, 4.0, 8.0]
    """
    first, last = (v if isinstance(v, DistributedArray) and v.ndim else np.asarray(_host(v)) for v in (start, stop))
    if any(bool(reductions.any(v == 0)) if isinstance(v, DistributedArray) else (v == 0).any() for v in (first, last)):
        raise ValueError("Geometric sequence cannot include zero")
    work = np.result_type(first.dtype, last.dtype, float(num), np.zeros((), dtype).dtype)
    first, last = first.astype(work), last.astype(work)
    sign = np.sign(first)
    first, last = first / sign, last / sign
    found = logspace(np.log10(first), np.log10(last), num=num, endpoint=endpoint, base=10.0, dtype=work).copy()
    if num > 0:
        found[0, ...] = first
        if num > 1 and endpoint:
            found[-1, ...] = last
    found = found * sign
    if axis:
        found = moveaxis(found, 0, axis)
    return found.astype(np.dtype(work if dtype is None else dtype))


def _host(value: Any) -> Any:
    return value.get() if isinstance(value, DistributedArray) else value


def _spread(name: str) -> Callable[..., DistributedArray]:
    function = getattr(np, name)

    def read(*args: Any, **kwargs: Any) -> DistributedArray:
        return asarray(function(*args, **kwargs))

    read.__name__ = read.__qualname__ = name
    read.__doc__ = f"""``numpy.{name}`` on each process, of which each keeps its part.

    Parameters
    ----------
    *args, **kwargs : object
        As for ``numpy.{name}``.

    Returns
    -------
    DistributedArray
        In the default layout.

    Notes
    -----
    Communication: none. Every process makes the whole array on the host first.
    """
    return implements(function)(read)


frombuffer = _spread("frombuffer")
fromiter = _spread("fromiter")
fromstring = _spread("fromstring")
genfromtxt = _spread("genfromtxt")
loadtxt = _spread("loadtxt")
