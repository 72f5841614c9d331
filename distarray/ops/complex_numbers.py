"""Parts of complex numbers: real, imaginary, conjugate, angle."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from operator import attrgetter
from typing import Any, cast

import numpy as np

from distarray.array import parts
from distarray.array.aliases import ArrayLike, Out
from distarray.array.functions import implements
from distarray.array.state import DistributedArray
from distarray.ops.convert import asarray
from distarray.ops.creation import zeros_like
from distarray.ops.recording import into
from distarray.storage import PartStorage

__all__ = ["angle", "imag", "real"]


def _part(x: DistributedArray, name: str) -> DistributedArray:
    """The view of one part of complex numbers."""
    return parts.same_shape(x, attrgetter(name), np.empty(0, x.dtype).real.dtype, name)


def set_part(x: DistributedArray, name: str, value: ArrayLike) -> None:
    """``x.real = value`` and ``x.imag = value``: one part is replaced, the other stays to the bit."""
    part = _part(x, name) if x.dtype.kind == "c" else x
    if isinstance(value, DistributedArray):
        if not _shows(value, part):  # ``x.real += 1`` has written the value before it assigns it
            part[...] = value
        return
    if isinstance(value, (int, float, complex, np.generic)):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            setattr(np.zeros(1, x.dtype), name, value)  # from NumPy 2.5 on it refuses numbers that do not fit
    part[...] = np.asarray(value)  # NumPy casts a Python number here as it does an array


def _shows(a: DistributedArray, b: DistributedArray) -> bool:
    """Whether two arrays show the same part of the same elements."""
    one, two = a._storage, b._storage
    if (
        not isinstance(one, PartStorage)
        or not isinstance(two, PartStorage)
        or one.parent is not two.parent
        or a._view != b._view
    ):
        return False
    return len(one.steps) == len(two.steps) and all(map(_same_step, one.steps, two.steps))


def _same_step(one: Callable[..., Any], two: Callable[..., Any]) -> bool:
    return one is two or (type(one) is type(two) and one.__reduce__() == two.__reduce__())


@implements(np.real)
def real(val: ArrayLike) -> DistributedArray:
    """The real part: the array itself where it is real, else a view of it.

    Parameters
    ----------
    val : array_like

    Returns
    -------
    DistributedArray

    Notes
    -----
    Communication: partial values are folded first; else none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.real(da.asarray([1 + 2j])).tolist()
    [1.0]
    """
    x = asarray(val)
    return _part(x, "real") if x.dtype.kind == "c" else x


@implements(np.imag)
def imag(val: ArrayLike) -> DistributedArray:
    """The imaginary part, a view; read-only zeros for real arrays.

    Parameters
    ----------
    val : array_like

    Returns
    -------
    DistributedArray

    Notes
    -----
    Communication: partial values are folded first; else none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.imag(da.asarray([1 + 2j])).tolist()
    [2.0]
    """
    x = asarray(val)
    if x.dtype.kind == "c":
        return _part(x, "imag")
    zeros = zeros_like(x)
    zeros._writable = False
    return zeros


def conj(x: DistributedArray, out: Out = None) -> Any:
    """The complex conjugate; recorded for complex arrays, the array itself for others.

    Parameters
    ----------
    x : DistributedArray
    out : DistributedArray or numpy.ndarray, optional
        Where to put the result.

    Returns
    -------
    DistributedArray

    Raises
    ------
    TypeError
        `x` holds dates, times or structures.

    Notes
    -----
    Communication: none.
    """
    if x.dtype.kind in "mMV":
        raise TypeError(f"cannot conjugate non-numeric dtype {x.dtype}")
    if x.dtype.kind != "c":
        return x if out is None else into(x, out)
    return into(cast("DistributedArray", np.conjugate(x)), out)


@implements(np.angle)
def angle(z: ArrayLike, deg: bool = False) -> Any:
    """The angle of complex numbers in the plane, in radians or degrees.

    Parameters
    ----------
    z : array_like
    deg : bool
        In degrees.

    Returns
    -------
    DistributedArray

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.angle(da.asarray([1j, -1.0]), deg=True).tolist()
    [90.0, 180.0]
    """
    x = asarray(z)
    found = np.arctan2(imag(x), real(x)) if x.dtype.kind == "c" else np.arctan2(0, x)
    return found * (180 / math.pi) if deg else found
