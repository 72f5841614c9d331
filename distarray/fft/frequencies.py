"""What goes with the transforms: the frequencies of their elements, and shifts that bring frequency zero to the middle."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from distarray.array.aliases import ArrayLike, Axis, DeviceLike, DTypeLike, LayoutLike
from distarray.array.documented import described_as
from distarray.array.functions import implements
from distarray.array.state import DistributedArray
from distarray.devices.arrays import AnyDType
from distarray.ops.convert import asarray
from distarray.ops.repeating import roll
from distarray.ops.sequences import arange

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]


def fftfreq(
    n: int, d: float = 1.0, *, dtype: DTypeLike = None, device: DeviceLike = None, layout: LayoutLike = None
) -> Any:
    """The sample frequencies of a transform of length `n`, in the order of its elements.

    Parameters
    ----------
    n : int
        The length of the transform.
    d : float
        The time between samples; frequencies are in cycles per unit of it.
    dtype : real floating dtype, optional
        Default: ``float64``.
    device, layout : optional
        As for :func:`distarray.arange`.

    Returns
    -------
    DistributedArray
        ``[0, 1, ..., (n - 1) // 2, -(n // 2), ..., -1] / (d n)``, of shape ``(n,)``.

    Raises
    ------
    ValueError
        `n` is no integer, or `dtype` not a real floating one.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.fft.fftfreq(4, d=0.5).get()
    array([ 0. ,  0.5, -1. , -0.5])
    """
    n, kind = _checked(n, dtype)
    i = arange(n, dtype=np.int64, layout=layout, device=device)
    return _scaled(i - n * (i > (n - 1) // 2), n, d, kind)


@described_as(fftfreq)
def rfftfreq(
    n: int, d: float = 1.0, *, dtype: DTypeLike = None, device: DeviceLike = None, layout: LayoutLike = None
) -> Any:
    """The sample frequencies of a real transform of length `n`.

    Returns
    -------
    DistributedArray
        ``[0, 1, ..., n // 2] / (d n)``.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.fft.rfftfreq(5, d=0.5).get()
    array([0. , 0.4, 0.8])
    """
    n, kind = _checked(n, dtype)
    return _scaled(arange(n // 2 + 1, dtype=np.int64, layout=layout, device=device), n, d, kind)


def _checked(n: object, dtype: DTypeLike) -> tuple[int, Any]:
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise ValueError(f"n should be an integer, and is {n!r}")
    kind = np.dtype(np.float64 if dtype is None else dtype)
    if kind.kind != "f":
        raise ValueError(f"frequencies have a real floating dtype, and dtype= is {kind}: pass float32 or float64")
    return operator.index(n), kind


def _scaled(numbers: DistributedArray, n: int, d: float, dtype: AnyDType) -> Any:
    scaled = numbers * (1.0 / (n * d))
    return scaled if scaled.dtype == dtype else scaled.astype(dtype)


@implements(np.fft.fftshift)
def fftshift(x: ArrayLike, axes: Axis = None) -> DistributedArray:
    """Roll the element of frequency zero to the middle of the axes.

    Parameters
    ----------
    x : array_like
    axes : int or sequence of int, optional
        Default: all.

    Returns
    -------
    DistributedArray

    Notes
    -----
    Communication: the elements that change their device. The result has the array's layout.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.fft.fftshift(da.fft.fftfreq(4, d=0.25)).get()
    array([-2., -1.,  0.,  1.])
    """
    return _shifted(x, axes, lambda n: n // 2)


@implements(np.fft.ifftshift)
@described_as(fftshift)
def ifftshift(x: ArrayLike, axes: Axis = None) -> DistributedArray:
    """The inverse of :func:`fftshift`, for odd lengths too.

    Notes
    -----
    Communication: as for :func:`fftshift`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.fft.ifftshift(da.fft.fftshift(da.arange(5))).tolist()
    [0, 1, 2, 3, 4]
    """
    return _shifted(x, axes, lambda n: -(n // 2))


def _shifted(x: ArrayLike, axes: Axis, by: Callable[..., Any]) -> DistributedArray:
    array = asarray(x)
    if axes is None:
        axes = tuple(range(array.ndim))
        shift: Any = tuple([by(n) for n in array.shape])
    elif isinstance(axes, (int, np.integer)):
        shift = by(array.shape[axes])
    else:
        shift = [by(array.shape[axis]) for axis in axes]
    return roll(array, shift, axes)
