"""Bits as bytes and back: ``packbits`` and ``unpackbits``."""

from __future__ import annotations

import operator

import numpy as np

from distarray.array.aliases import ArrayLike
from distarray.array.functions import implements
from distarray.array.state import DistributedArray
from distarray.ops import reductions
from distarray.ops.convert import asarray
from distarray.ops.creation import zeros
from distarray.ops.editing import along
from distarray.ops.joining import concatenate
from distarray.ops.reshaping import ravel, reshape

__all__ = ["packbits", "unpackbits"]


def _check_bits(x: DistributedArray, bitorder: str, unpack: bool) -> None:
    if not isinstance(bitorder, str):
        raise TypeError(f"bitorder must be str, not {type(bitorder).__name__}")
    if bitorder not in ("big", "little"):
        raise ValueError("'order' must be either 'little' or 'big'")
    if unpack and x.dtype != np.uint8:
        raise TypeError("Expected an input array of unsigned byte data type")
    if not unpack and x.dtype.kind not in "iub":
        raise TypeError("Expected an input array of integer or boolean data type")


@implements(np.packbits)
def packbits(a: ArrayLike, /, axis: int | None = None, bitorder: str = "big") -> DistributedArray:
    """Bools, eight to a byte.

    Parameters
    ----------
    a : array_like of int or bool
    axis : int, optional
        Default: of the flattened array.
    bitorder : {"big", "little"}
        Which of eight comes first.

    Returns
    -------
    DistributedArray
        Of ``uint8``, an eighth as long along the axis.

    Raises
    ------
    TypeError
        `a` has neither integers nor bools.

    Notes
    -----
    Communication: what brings each byte's bits to one device.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.packbits(da.asarray([1, 0, 0, 0, 0, 0, 1, 1])).tolist()
    [131]
    """
    x = asarray(a)
    _check_bits(x, bitorder, False)
    x, axis = along(x if x.ndim else ravel(x), axis)
    n = x.shape[axis]
    bits = x != 0
    if n % 8:
        shape = (*x.shape[:axis], -n % 8, *x.shape[axis + 1 :])
        bits = concatenate((bits, zeros(shape, bool)), axis=axis)
    split = reshape(bits, (*x.shape[:axis], -(-n // 8), 8, *x.shape[axis + 1 :]))
    worth = 1 << np.arange(8, dtype=np.uint8)
    worth = (worth[::-1] if bitorder == "big" else worth).reshape((8,) + (1,) * (x.ndim - axis - 1))
    return reductions.sum(split * worth, axis=axis + 1, dtype=np.uint8)  # type: ignore[no-any-return]


@implements(np.unpackbits)
def unpackbits(
    a: ArrayLike, /, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> DistributedArray:
    """The bits of bytes, as an array of 0 and 1.

    Parameters
    ----------
    a : array_like of uint8
    axis : int, optional
        Default: of the flattened array.
    count : int, optional
        How many bits of each line: cut, or filled with zeros; a negative number is left out at the end.
    bitorder : {"big", "little"}
        Which bit of a byte comes first.

    Returns
    -------
    DistributedArray
        Of ``uint8``, eight times as long along the axis, or `count`.

    Raises
    ------
    TypeError
        `a` has another dtype than ``uint8``.

    Notes
    -----
    Communication: none where bytes stay in their layout; as of :func:`concatenate` where zeros are added.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.unpackbits(da.asarray([3], dtype=da.uint8)).tolist()
    [0, 0, 0, 0, 0, 0, 1, 1]
    """
    x = asarray(a)
    _check_bits(x, bitorder, True)
    x, axis = along(x if x.ndim else ravel(x), axis)
    places = np.arange(8, dtype=np.uint8)
    places = (places[::-1] if bitorder == "big" else places).reshape((8,) + (1,) * (x.ndim - axis - 1))
    spread = x[(*(slice(None),) * (axis + 1), None)]
    n = x.shape[axis] * 8
    bits = reshape((spread >> places) & np.uint8(1), (*x.shape[:axis], n, *x.shape[axis + 1 :]))
    if count is None:
        return bits
    count = operator.index(count)
    if count < -n:
        raise ValueError(f"-count larger than number of elements {n}")
    if count <= n:
        return bits[(*(slice(None),) * axis, slice(0, count if count >= 0 else n + count))]
    return concatenate((bits, zeros((*x.shape[:axis], count - n, *x.shape[axis + 1 :]), np.uint8)), axis=axis)  # type: ignore[no-any-return]
