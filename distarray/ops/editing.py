"""Arrays with parts taken out, put in or repeated: ``delete``, ``insert``, ``trim_zeros``, ``resize``."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from distarray.algorithms.masks import assignable, mismatch
from distarray.array.aliases import ArrayLike, Axis, ShapeLike
from distarray.array.functions import implements
from distarray.array.place import as_array, devices_of, fetched, nested
from distarray.array.shapes import PYTHON_SCALARS, fits
from distarray.array.state import DistributedArray, copy_array
from distarray.ops import reductions
from distarray.ops.convert import asarray
from distarray.ops.creation import zeros_like
from distarray.ops.joining import concatenate
from distarray.ops.manipulation import broadcast_to, moveaxis
from distarray.ops.reshaping import ravel, reshape
from distarray.ops.searching import argmax
from distarray.ops.taking import take

__all__ = ["delete", "insert", "resize", "trim_zeros"]


def along(arr: ArrayLike, axis: int | None) -> tuple[DistributedArray, int]:
    """The array and the axis; without one, the array flattened."""
    x = asarray(arr)
    if axis is None:
        return ravel(x), 0
    return x, normalize_axis_index(axis, x.ndim)


# --- deleting and inserting --------------------------------------------------------------------------------------------


@implements(np.delete)
def delete(arr: ArrayLike, obj: slice | ArrayLike, axis: int | None = None) -> DistributedArray:
    """A copy without some slices along an axis.

    Parameters
    ----------
    arr : array_like
    obj : int, slice, or array_like of int or bool
        Which to leave out.
    axis : int, optional
        Default: of the flattened array.

    Returns
    -------
    DistributedArray

    Raises
    ------
    IndexError
        There is no such slice.

    Notes
    -----
    Communication: what makes the result's blocks even, as of :func:`concatenate` for one slice or a row of them, and of
    :func:`take` otherwise. A distributed `obj` is fetched.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.delete(da.arange(5), [0, 3]).tolist()
    [1, 2, 4]
    """
    x, axis = along(arr, axis)
    n = x.shape[axis]
    head = (slice(None),) * axis
    obj = fetched(obj)
    if isinstance(obj, slice):
        chosen = range(*obj.indices(n))
        if not len(chosen):
            return copy_array(x)
        if abs(chosen.step) == 1:
            low, high = min(chosen), max(chosen) + 1
            ends = (x[(*head, slice(0, low))], x[(*head, slice(high, None))])
            return concatenate(ends, axis=axis, dtype=x.dtype)  # type: ignore[no-any-return]
        places = np.array(chosen)
    else:
        places = np.asarray(obj)
        if not places.size and not isinstance(obj, np.ndarray):
            places = places.astype(np.intp)
        single = places.dtype.kind in "ui" and places.size == 1 and not isinstance(obj, bool)
        if single:
            index = places.item()
            if not -n <= index < n:
                raise IndexError(f"index {obj!s} is out of bounds for axis {axis} with size {n}")
            index %= n
            pieces = (x[(*head, slice(0, index))], x[(*head, slice(index + 1, None))])
            return concatenate(pieces, axis=axis, dtype=x.dtype)  # type: ignore[no-any-return]
    if places.dtype == bool:
        if places.shape != (n,):
            raise ValueError(
                f"boolean array argument obj to delete must be one dimensional and match the axis length of {n}"
            )
        kept = ~places
    else:
        kept = np.ones(n, bool)
        kept[places,] = False
    return take(x, np.flatnonzero(kept), axis=axis)  # type: ignore[no-any-return]


def _shorter(x: DistributedArray, ndim: int) -> DistributedArray:
    """The array with at most `ndim` axes, where those before them have length 1."""
    while x.ndim > ndim and x.shape[0] == 1:
        x = x[0, ...]
    return x


@implements(np.insert)
def insert(arr: ArrayLike, obj: slice | ArrayLike, values: ArrayLike, axis: int | None = None) -> DistributedArray:
    """A copy with values put before some slices along an axis.

    Parameters
    ----------
    arr : array_like
    obj : int, slice, or array_like of int or bool
        Before which slices.
    values : array_like
        Broadcast to what is put in, and converted to the dtype of `arr`.
    axis : int, optional
        Default: of the flattened array.

    Returns
    -------
    DistributedArray
        Of the dtype of `arr`.

    Raises
    ------
    IndexError
        There is no such place.

    Notes
    -----
    Communication: as of :func:`concatenate` for one place; for more, also of :func:`take`. A distributed `obj` is fetched.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.insert(da.arange(4), 2, 9).tolist()
    [0, 1, 9, 2, 3]
    """
    x, axis = along(arr, axis)
    n = x.shape[axis]
    head = (slice(None),) * axis
    obj = fetched(obj)
    if isinstance(obj, slice):
        places = np.arange(*obj.indices(n), dtype=np.intp)
    else:
        places = np.array(obj)
        if places.dtype == bool:
            if places.ndim != 1:
                raise ValueError("boolean array argument obj to insert must be one dimensional")
            places = np.flatnonzero(places)
        elif places.ndim > 1:
            raise ValueError("index array argument obj to insert must be one dimensional or scalar")
    if isinstance(values, (list, tuple)):
        values = nested(values, x.dtype)
    elif isinstance(values, PYTHON_SCALARS):
        values = np.array(values, x.dtype)  # converted, or refused, as NumPy does it
    new: DistributedArray = as_array(x._context, values, devices_of([x]))
    if new.dtype != x.dtype:
        new = new.astype(x.dtype)
    if places.size == 1:
        index = operator.index(places.item())
        if not -n <= index <= n:
            raise IndexError(f"index {obj!s} is out of bounds for axis {axis} with size {n}")
        index += n if index < 0 else 0
        new = new[(*(None,) * (x.ndim - new.ndim), ...)]
        if not places.ndim:
            new = moveaxis(new, 0, axis)
        shape = (*x.shape[:axis], new.shape[axis], *x.shape[axis + 1 :])
        new, given = _shorter(new, x.ndim), new.shape
        if not fits(new.shape, shape):
            raise ValueError(f"could not broadcast input array from shape {_listed(given)} into shape {_listed(shape)}")
        new = broadcast_to(new, shape)
        parts = (x[(*head, slice(0, index))], new, x[(*head, slice(index, None))])
        return concatenate(parts, axis=axis, dtype=x.dtype)  # type: ignore[no-any-return]
    places = places.astype(np.intp) if not places.size and not isinstance(obj, np.ndarray) else places
    if places.dtype.kind not in "iu":
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    places = np.where(places < 0, places + n, places)
    shape = (*x.shape[:axis], len(places), *x.shape[axis + 1 :])
    for place in places.tolist():
        if not 0 <= place <= n:
            raise IndexError(f"index {place} is out of bounds for axis {axis} with size {n}")
    if not assignable(new.shape, shape):
        raise mismatch(new.shape, shape)
    new = broadcast_to(_shorter(new, x.ndim), shape)
    order = np.argsort(np.concatenate([places, np.arange(n)]), kind="stable")
    joined = concatenate((new, x), axis=axis, dtype=x.dtype)
    return take(joined, order, axis=axis)  # type: ignore[no-any-return]


def _listed(shape: tuple[int, ...]) -> str:
    return str(shape).replace(" ", "")


@implements(np.trim_zeros)
def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: Axis = None) -> DistributedArray:
    """The array without leading and trailing zeros along each axis: a view.

    Parameters
    ----------
    filt : array_like
    trim : {"fb", "f", "b"}
        Whether leading ("f") zeros go, trailing ones ("b"), or both.
    axis : int or tuple of int, optional
        Default: all.

    Returns
    -------
    DistributedArray

    Raises
    ------
    ValueError
        An unknown `trim`.

    Notes
    -----
    Communication: where along each axis there is something, an array of bools of its length.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.trim_zeros(da.asarray([0, 1, 0, 2, 0])).tolist()
    [1, 0, 2]
    """
    x = asarray(filt)
    trim = trim.lower()
    if trim not in ("fb", "bf", "f", "b"):
        raise ValueError(f"unexpected character(s) in `trim`: {trim!r}")
    axes = tuple(range(x.ndim)) if axis is None else normalize_axis_tuple(axis, x.ndim, argname="axis")
    if not axes:
        return x
    key = [slice(None)] * x.ndim
    for i in axes:
        some = reductions.any(x != 0, axis=tuple(a for a in range(x.ndim) if a != i))
        low, high = 0, 0
        if x.size and bool(reductions.any(some)):
            low, high = int(argmax(some)), some.shape[0] - int(argmax(some[::-1]))
            low, high = low if "f" in trim else 0, high if "b" in trim else x.shape[i]
        key[i] = slice(low, high)
    return x[tuple(key)]


@implements(np.resize)
def resize(a: ArrayLike, new_shape: ShapeLike) -> DistributedArray:
    """A copy in another shape, with the elements repeated, in C order, to fill it.

    Parameters
    ----------
    a : array_like
    new_shape : int or sequence of int

    Returns
    -------
    DistributedArray
        Zeros where `a` has no elements.

    Raises
    ------
    ValueError
        A length is negative.

    Notes
    -----
    Communication: as of :func:`concatenate` of the repeated array, and what the new shape needs.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.resize(da.arange(3), (2, 4)).tolist()
    [[0, 1, 2, 0], [1, 2, 0, 1]]
    """
    x = ravel(asarray(a))
    lengths: Any = new_shape
    shape = (operator.index(lengths),) if np.ndim(lengths) == 0 else tuple(operator.index(n) for n in lengths)
    if any(n < 0 for n in shape):
        raise ValueError("all elements of `new_shape` must be non-negative")
    size = math.prod(shape)
    if not x.size or not size:
        return zeros_like(x, shape=shape)
    copies, rest = divmod(size, x.size)
    return reshape(concatenate([x] * copies + [x[:rest]]), shape)
