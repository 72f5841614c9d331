"""NumPy's functions that write to elements chosen by index or condition: ``put``, ``place``, ``putmask``, ``put_along_axis``.

They write into NumPy arrays, too, where nothing else is distributed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from distarray.algorithms.local import aligned, arrays_in, mapped, whole_along
from distarray.algorithms.masks import assign_where, mask_count, mask_write, place_like
from distarray.array.aliases import AnyArray, ArrayLike
from distarray.array.functions import implements
from distarray.array.place import as_array, fetched, host_values, nested
from distarray.array.shapes import PYTHON_SCALARS, fits
from distarray.array.state import DistributedArray
from distarray.array.writing import ASSIGNED, check_writable
from distarray.devices.arrays import DeviceArray, Library
from distarray.geometry import IndexMap, Range, Region
from distarray.ops import reductions
from distarray.ops.convert import asarray
from distarray.ops.indexing import store, value_of
from distarray.ops.manipulation import broadcast_to, transpose
from distarray.ops.reshaping import reshape
from distarray.ops.taking import common_shape, flat_key, host_indices, mask_of, moded

__all__ = ["place", "put", "put_along_axis", "putmask"]


def _on_host_arrays(write: Callable[..., None]) -> Callable[..., None]:
    """A function that writes to its first argument, for NumPy arrays too where nothing else is distributed."""

    @wraps(write)
    def written(target: ArrayLike, *args: Any, **kwargs: Any) -> None:
        if not isinstance(target, np.ndarray) or any(
            isinstance(a, DistributedArray) for a in (*args, *kwargs.values())
        ):
            write(target, *args, **kwargs)
            return
        placed = asarray(target)
        write(placed, *args, **kwargs)
        target[...] = placed.get()

    return written


@_on_host_arrays
@implements(np.put)
def put(a: AnyArray, ind: ArrayLike, v: ArrayLike, mode: str = "raise") -> None:
    """Write values to positions in C order, in place.

    Values are repeated where there are fewer, and of values for one position the last stays.

    Parameters
    ----------
    a : DistributedArray or numpy.ndarray
        Written to.
    ind : array_like of int
        Positions in the flattened array.
    v : array_like
    mode : {"raise", "wrap", "clip"}
        What becomes of positions out of range.

    Raises
    ------
    IndexError
        A position is out of range, with ``mode="raise"``.

    Notes
    -----
    Communication: distributed indices are fetched to the host; values that are repeated, too. Otherwise the values that
    the owners lack.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.arange(5)
    ...     da.put(x, [0, -1], [10, 20])
    ...     x.tolist()
    [10, 1, 2, 3, 20]
    """
    x = _target("put", a)
    host = host_indices(ind).reshape(-1)
    if host.size and not x.size:
        raise IndexError("cannot replace elements of an empty array")
    value = value_of(x, v)
    count = 1 if isinstance(value, np.generic) else math.prod(value.shape)
    if not host.size or not count:
        return
    fancy = flat_key(x, moded(host, x.size, 0, mode))
    if not isinstance(value, np.generic) and value.shape != host.shape:
        value = np.resize(fetched(value), host.shape)
    store(x, fancy, value, "put")


def _target(name: str, a: object) -> DistributedArray:
    if not isinstance(a, DistributedArray):
        raise TypeError(
            f"{name} writes to its first argument, a {type(a).__name__}, from distributed ones: pass a DistributedArray, "
            f"or fetch the others with x.get()"
        )
    check_writable(a, *ASSIGNED)
    return a


def _safe_value(x: DistributedArray, value: object) -> Any:
    """A value to write, of which an array must fit: numbers and lists are converted, arrays only where nothing is lost."""
    if isinstance(value, (np.ndarray, DistributedArray)) and not np.can_cast(value.dtype, x.dtype, "safe"):
        raise TypeError(
            f"Cannot cast array data from {value.dtype!r} to {x.dtype!r} according to the rule 'safe'; convert it with "
            f"values.astype({str(x.dtype)!r})"
        )
    return value_of(x, value)


def _same_size(name: str, x: DistributedArray, mask: ArrayLike) -> Any:
    """The mask in the shape of the array, as NumPy pairs them: in C order."""
    condition = mask_of(x, mask)
    if condition.shape == x.shape:
        return condition
    if math.prod(condition.shape) != x.size:
        raise ValueError(f"{name}: mask and data must be the same size")
    if isinstance(condition, DistributedArray):
        condition = host_values(condition)
    return condition.reshape(x.shape)


@_on_host_arrays
@implements(np.place)
def place(arr: AnyArray, mask: ArrayLike, vals: ArrayLike) -> None:
    """Write the first values to the elements where a mask holds, in C order, repeating them where there are fewer.

    Parameters
    ----------
    arr : DistributedArray or numpy.ndarray
        Written to.
    mask : array_like of bool
        Of as many elements as `arr`.
    vals : array_like
        Taken as flat.

    Raises
    ------
    ValueError
        The sizes of `mask` and `arr` differ, or there are no values.
    TypeError
        The values' dtype does not fit that of `arr`.

    Notes
    -----
    Communication: that of ``x[mask] = values``; distributed values that are repeated or cut are fetched to the host.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.arange(5)
    ...     da.place(x, x > 2, [7, 8])
    ...     x.tolist()
    [0, 1, 2, 7, 8]
    """
    x = _target("place", arr)
    condition = _same_size("place", x, mask)
    if not x.ndim:
        x, condition = x[None], condition[None]
    value = _safe_value(x, vals)
    total = mask_count(x, condition)
    if not isinstance(value, np.generic):
        if not math.prod(value.shape) and total:
            raise ValueError("Cannot insert from an empty array!")
        if value.shape not in ((total,), (1,)) and total:
            value = fetched(value)
            value = np.resize(value.reshape(-1)[:total], (total,))
    if total:
        mask_write(x, condition, value)


@_on_host_arrays
@implements(np.putmask)
def putmask(a: AnyArray, mask: ArrayLike, values: ArrayLike) -> None:
    """Write ``values.flat[n]`` to ``a.flat[n]`` where the mask holds there, repeating values where there are fewer.

    Parameters
    ----------
    a : DistributedArray or numpy.ndarray
        Written to.
    mask : array_like of bool
        Of as many elements as `a`.
    values : array_like
        Repeated to the size of `a`.

    Raises
    ------
    ValueError
        The sizes of `mask` and `a` differ.
    TypeError
        The values' dtype does not fit that of `a`.

    Notes
    -----
    Communication: none where array, mask and values have one layout, or values are on the host; otherwise what aligns
    them. Distributed values of another shape are fetched to the host.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.arange(5)
    ...     da.putmask(x, x > 2, -1)
    ...     x.tolist()
    [0, 1, 2, -1, -1]
    """
    x = _target("putmask", a)
    condition = _same_size("putmask", x, mask)
    value = _safe_value(x, values)
    if not x.size or (not isinstance(value, np.generic) and not math.prod(value.shape)):
        return
    if isinstance(condition, np.ndarray):
        condition = place_like(x, condition, range(x.ndim))
    spread = isinstance(value, DistributedArray) and value.shape == x.shape
    if not spread and not isinstance(value, np.generic):
        host = fetched(value)
        value = place_like(x, np.resize(host, x.shape), range(x.ndim))
    with x._context.lock:
        assign_where(x, condition, value)


@_on_host_arrays
@implements(np.put_along_axis)
def put_along_axis(arr: AnyArray, indices: ArrayLike, values: ArrayLike, axis: int | None) -> None:
    """Write values along an axis at indices that differ from one 1-d slice to the next, in place.

    Parameters
    ----------
    arr : DistributedArray
    indices : array_like of int
        With as many axes; all but `axis` broadcast. Of what is written to one place the last in C order stays.
    values : array_like
        Broadcast to the indices.
    axis : int or None
        None: `arr` is taken flat; `indices` then has one axis.

    Raises
    ------
    IndexError
        Out of range, or indices that are not integers.

    Notes
    -----
    Communication: none where every device holds `axis` whole and indices and values lie beside the array; else what brings
    them there, and back. With one axis only, indices and values are fetched.

    Memory on each device: its part of the array, once more.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.zeros((2, 3), int)
    ...     da.put_along_axis(x, [[0], [2]], 5, axis=1)
    ...     x.tolist()
    [[5, 0, 0], [0, 0, 5]]
    """
    x = _target("put_along_axis", arr)
    index = indices if isinstance(indices, DistributedArray) else np.asarray(indices)
    if index.dtype.kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    if axis is None:
        if index.ndim != 1:
            raise ValueError("when axis=None, `indices` must have a single dimension.")
        places = np.where(fetched(index) < 0, fetched(index) + x.size, fetched(index))
        if places.size and (places.min() < 0 or places.max() >= x.size):
            raise IndexError(f"index out of bounds for an array of size {x.size}")
        if x.ndim:
            x[np.unravel_index(places, x.shape)] = values
        else:
            x[None][places] = values
        return
    if x.ndim != index.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    axis = normalize_axis_index(axis, x.ndim)
    if x.ndim == 1:
        x[fetched(index)] = values
        return
    chosen = _chosen(x, index, axis)
    if isinstance(values, (*PYTHON_SCALARS, list, tuple)):
        values = nested(values, x.dtype)  # converted, or refused, as NumPy does it
    new = as_array(x._context, values)
    while new.ndim > chosen.ndim and new.shape[0] == 1:
        new = new[0, ...]  # an assignment drops leading axes of length 1
    if not fits(new.shape, chosen.shape):
        raise ValueError(f"shape mismatch: value array of shape {new.shape} could not be broadcast to {chosen.shape}")
    repeated = [a for a in range(x.ndim) if a != axis and x.shape[a] == 1 != chosen.shape[a]]
    if repeated:  # several lines of indices for one line of `x`: one long one, in C order
        kept = x[tuple([0 if a in repeated else slice(None) for a in range(x.ndim)])]
        lines = [_joined(value, axis, repeated) for value in (chosen, broadcast_to(new, chosen.shape))]
        put_along_axis(kept, lines[0], lines[1], axis - sum(a < axis for a in repeated))
        return
    x[...] = _put_along(x, chosen, new if new.dtype == x.dtype else new.astype(x.dtype), axis)


def _joined(x: DistributedArray, axis: int, others: list[int]) -> DistributedArray:
    """Other axes joined with one, in whose place the joined one stands; its elements in C order."""
    joined = sorted([axis, *others])
    before, after = ([a for a in side if a not in others] for side in (range(axis), range(axis + 1, x.ndim)))
    moved = transpose(x, (*before, *joined, *after))
    return reshape(moved, (*[x.shape[a] for a in before], -1, *[x.shape[a] for a in after]))


def _chosen(x: DistributedArray, index: AnyArray, axis: int) -> DistributedArray:
    """Indices along an axis, one line of them for each line of `x` at least, after checks."""
    lead = common_shape(x.shape, index.shape, axis)
    n = x.shape[axis]
    chosen = broadcast_to(
        as_array(x._context, index).astype(np.intp), (*lead[:axis], index.shape[axis], *lead[axis + 1 :])
    )
    if chosen.size:
        low, high = int(reductions.min(chosen)), int(reductions.max(chosen))
        if low < -n or high >= n:
            raise IndexError(f"index {high if high >= n else low} is out of bounds for axis {axis} with size {n}")
    return chosen


def _put_along(x: DistributedArray, chosen: DistributedArray, new: DistributedArray, axis: int) -> DistributedArray:
    """`x` with what is new at the chosen places, in a layout whose chunks hold the axis whole."""
    context, name = x._context, "put_along_axis"

    def beside(region: Region) -> Region:
        """Where the indices for a region of `x` lie."""
        along = Range.full(chosen.shape[axis] if region.size else 0)
        return Region((*region[:axis], along, *region[axis + 1 :]))

    def local(lib: Library, part: DeviceArray, where_: DeviceArray, what: DeviceArray) -> Any:
        copied = lib.array(part)
        if where_.size:
            lib.put_along_axis(copied, where_, what, axis)
        return copied

    with context.lock:
        source = x._operand(name)
        target = whole_along(context, source.layout, (axis,))
        places = {d: [beside(r) for r in target.index_map.regions(d)] for d in target.devices}
        layout = context.layout(IndexMap(chosen.shape, places))
        order = {chunk: i for i, chunk in enumerate(layout.chunks)}
        numbers = [order[d, beside(r)] for d, r in target.chunks]
        index, held = aligned(chosen, layout), aligned(broadcast_to(new, chosen.shape), layout)
        operands = [arrays_in(context, source, target, name), [index[i] for i in numbers], [held[i] for i in numbers]]
        return mapped(context, operands, target, x.dtype, local, name)
