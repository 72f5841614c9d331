"""NumPy's functions that read elements chosen by index or condition, on top of advanced indexing: ``take``, ``compress``,
``extract``, ``take_along_axis``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from distarray.algorithms.fancy import Fancy, wrapped
from distarray.algorithms.local import arrays_in
from distarray.algorithms.masks import mask_read
from distarray.array.aliases import ArrayLike, Out
from distarray.array.functions import implements
from distarray.array.place import as_array, fetched, host_values
from distarray.array.state import DistributedArray, from_chunks, same_context
from distarray.array.writing import check_out, overwrite
from distarray.context import Context
from distarray.devices import Chunk
from distarray.geometry import IndexMap, Range, Region, blocks
from distarray.layout import Layout
from distarray.ops.convert import asarray
from distarray.ops.indexing import read
from distarray.storage import Operand
from distarray.transfer.to_host import gather_to_host

__all__ = ["compress", "extract", "take", "take_along_axis"]


def _distributed(a: ArrayLike, *others: Any) -> DistributedArray:
    """`a` as an array of the context of whichever argument is distributed, or of the current one."""
    if isinstance(a, DistributedArray):
        return a
    context = same_context([o for o in others if isinstance(o, DistributedArray)])
    result: DistributedArray = as_array(context, a)
    return result


def _shape(obj: ArrayLike) -> tuple[int, ...]:
    return obj.shape if isinstance(obj, DistributedArray) else np.shape(obj)


def host_indices(
    indices: Any,  # anything that becomes an array
) -> Any:
    """Indices as a host array of integers; distributed ones are fetched."""
    if isinstance(indices, DistributedArray):
        indices = host_values(indices)
    elif not isinstance(indices, np.ndarray):
        return np.asarray(indices, np.int64)
    if not np.can_cast(indices.dtype, np.int64, "safe"):
        raise TypeError(
            f"Cannot cast array data from {indices.dtype!r} to {np.dtype(np.int64)!r} according to the rule 'safe'"
        )
    return np.asarray(indices, np.int64)


def moded(indices: np.ndarray[Any, Any], size: int, axis: int, mode: str) -> Any:
    """Indices brought in range by one of take's modes."""
    if mode == "raise":
        return wrapped(indices, size, axis)
    if mode == "wrap":
        return indices % size
    if mode == "clip":
        return np.clip(indices, 0, size - 1)
    raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")


def flat_key(x: DistributedArray, flat: np.ndarray[Any, Any]) -> Fancy:
    """Flat C-order indices, of any shape, as indices of every axis."""
    view = x._view_map()
    if not x.ndim:
        view = view.expand_dims(0)
    shape = view.shape
    if not flat.size:
        return Fancy(view, tuple(range(len(shape))), (flat.reshape(-1),) * len(shape), flat.shape, 0)
    return Fancy(view, tuple(range(len(shape))), tuple(np.unravel_index(flat.reshape(-1), shape)), flat.shape, 0)


@implements(np.take)
def take(a: ArrayLike, indices: ArrayLike, axis: int | None = None, out: Out = None, mode: str = "raise") -> Any:
    """Elements of an array along an axis, or of the array flattened.

    Parameters
    ----------
    a : array_like
    indices : array_like of int
    axis : int, optional
        Default: the array is taken flat, in C order.
    out : DistributedArray or numpy.ndarray, optional
        Where to put the result.
    mode : {"raise", "wrap", "clip"}
        What becomes of indices out of range.

    Returns
    -------
    DistributedArray
        With the axes of `indices` in place of `axis`.

    Raises
    ------
    IndexError
        Out of range, with ``mode="raise"``; or from an empty axis.

    Notes
    -----
    Communication: none where every device holds the axis whole; else the elements that a device lacks, once.
    Distributed indices are fetched to the host.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.asarray(np.arange(6).reshape(2, 3), layout=da.blocks(0))
    ...     np.take(x, [2, 0], axis=1).get()
    array([[2, 0],
           [5, 3]])
    """
    x = _distributed(a, indices, out)
    where = None if axis is None else normalize_axis_index(axis, x.ndim) if x.ndim or axis not in (0, -1) else 0
    host = host_indices(indices)
    size = x.size if where is None or not x.ndim else x.shape[where]
    outer = 1 if where is None else math.prod(x.shape[:where])
    inner = 1 if where is None else math.prod(x.shape[where + 1 :])
    if host.size and not size and outer * inner:
        raise IndexError("cannot do a non-empty take from an empty axes.")
    # NumPy checks the indices once for each of the slices before the axis: without a slice it checks none
    chosen = moded(host, size, where or 0, mode) if outer and (size or mode == "raise") else host
    if out is not None:
        check_out(out)
    single = not chosen.ndim
    flat = chosen.reshape(-1)
    if where is None or not x.ndim:
        fancy = flat_key(x, flat)._replace(shape=chosen.shape or (1,))
    else:
        fancy = Fancy(x._view_map(), (where,), (flat,), chosen.shape or (1,), where)
    result = read(x, fancy, "take")
    if single:
        key = (slice(None),) * fancy.at + (0, ...)
        result = result[key]
        result._detached = not result.shape and out is None
    return result if out is None else _into(result, out)


def _into(result: DistributedArray, out: Any) -> Any:
    """Write a result into take's or compress's ``out=``, under NumPy's conditions."""
    if out.shape != result.shape:
        raise ValueError(
            f"output array does not match result of ndarray.take: it has shape {out.shape}, the result {result.shape}"
        )
    if not np.can_cast(out.dtype, result.dtype, "safe"):
        raise TypeError(f"Cannot cast array data from {out.dtype!r} to {result.dtype!r} according to the rule 'safe'")
    return overwrite(out, result)


@implements(np.compress)
def compress(condition: ArrayLike, a: ArrayLike, axis: int | None = None, out: Out = None) -> Any:
    """The slices of an array along an axis where a 1-d condition holds; of the array flattened by default.

    Parameters
    ----------
    condition : array_like of bool
        Of one axis; slices behind its end are left out.
    a : array_like
    axis : int, optional
        Default: of the flattened array.
    out : DistributedArray or numpy.ndarray, optional
        Where to put the result.

    Returns
    -------
    DistributedArray

    Raises
    ------
    ValueError
        The condition has not one axis.

    Notes
    -----
    Communication: that of ``x[condition]`` for a distributed condition of a whole 1-d array; otherwise a distributed
    condition is fetched to the host, and the communication is that of :func:`take`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.compress([True, False, True], da.arange(3)).tolist()
    [0, 2]
    """
    x = _distributed(a, condition, out)
    if len(_shape(condition)) != 1:
        raise ValueError("condition must be a 1-d array")
    if isinstance(condition, DistributedArray):
        if x.ndim == 1 and condition.shape == x.shape:
            if out is not None:
                check_out(out)
            result = mask_read(x, condition if condition.dtype.kind == "b" else condition != 0)
            return result if out is None else _into(result, out)
        condition = host_values(condition)
    return take(x, np.nonzero(np.asarray(condition))[0], axis, out)


@implements(np.extract)
def extract(condition: ArrayLike, arr: ArrayLike) -> Any:
    """The elements of an array where a condition holds, both flattened in C order.

    Parameters
    ----------
    condition : array_like of bool
    arr : array_like

    Returns
    -------
    DistributedArray
        Of one axis.

    Notes
    -----
    Communication: that of ``x[condition]`` where the shapes are equal; otherwise that of :func:`compress`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.arange(5)
    ...     da.extract(x % 2 == 1, x).tolist()
    [1, 3]
    """
    x = _distributed(arr, condition)
    if _shape(condition) == x.shape and x.ndim:
        return mask_read(x, mask_of(x, condition))
    if isinstance(condition, DistributedArray):
        condition = host_values(condition)
    return compress(np.ravel(condition), x)


def mask_of(x: DistributedArray, condition: ArrayLike) -> Any:
    """A condition as booleans, distributed or on the host."""
    if isinstance(condition, DistributedArray):
        same_context([x, condition])
        return condition if condition.dtype.kind == "b" else condition != 0
    return np.asarray(condition).astype(bool)


# --- take_along_axis --------------------------------------------------------------------------------------------------


@implements(np.take_along_axis)
def take_along_axis(arr: ArrayLike, indices: ArrayLike, axis: int | None = -1) -> Any:
    """Elements along an axis at indices that differ from one 1-d slice to the next, as ``argsort`` gives them.

    Parameters
    ----------
    arr, indices : array_like
        One of them distributed; with as many axes, of which all but `axis` broadcast together.
    axis : int, optional
        None: both are taken flat; `indices` then has one axis.

    Returns
    -------
    DistributedArray
        Of the broadcast shape, with the length of `indices` along `axis`.

    Raises
    ------
    IndexError
        Out of range, or indices that are not integers.

    Notes
    -----
    Communication: none where array and indices lie in the same places and every device holds `axis` whole. Otherwise the
    indices, and the array where its axis is cut, are brought there. With one axis only, the indices are fetched.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.asarray([[3, 1], [2, 4]])
    ...     da.take_along_axis(x, da.argsort(x, axis=1), 1).tolist()
    [[1, 3], [2, 4]]
    """
    x = _distributed(arr, indices)
    if not isinstance(indices, DistributedArray):
        indices = np.asarray(indices)
    if indices.dtype.kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    if axis is None:
        if indices.ndim != 1:
            raise ValueError("when axis=None, `indices` must have a single dimension.")
        host = fetched(indices)
        flat = wrapped(host, x.size, 0)
        return read(x, flat_key(x, flat), "take_along_axis")
    if x.ndim != indices.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    axis = normalize_axis_index(axis, x.ndim)
    lead = common_shape(x.shape, indices.shape, axis)
    if x.ndim == 1:
        host = fetched(indices)
        flat = wrapped(host, x.shape[0], 0)
        return read(x, Fancy(x._view_map(), (0,), (flat,), flat.shape, 0), "take_along_axis")
    context = x._context
    wide = x._viewed(x._view_map().broadcast_to((*lead[:axis], x.shape[axis], *lead[axis + 1 :])))
    chosen = _distributed(indices, x) if isinstance(indices, DistributedArray) else asarray(indices, device=x.device)
    chosen = chosen._viewed(chosen._view_map().broadcast_to((*lead[:axis], indices.shape[axis], *lead[axis + 1 :])))
    return _along(context, wide, chosen, axis)


def common_shape(shape: tuple[int, ...], other: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """The shape that two broadcast to along all axes but one; there, 1."""
    one, two = ((*s[:axis], 1, *s[axis + 1 :]) for s in (shape, other))
    try:
        return np.broadcast_shapes(one, two)
    except ValueError:
        raise IndexError(
            f"shape mismatch: indexing arrays could not be broadcast together with shapes {one} {other}"
        ) from None


def _whole_along(context: Context, layout: Layout, axis: int) -> Layout:
    """The layout itself where its chunks hold an axis whole; else blocks of the longest other one."""
    n = layout.shape[axis]
    if all(region[axis].size == n for _, region in layout.chunks if region.size) and layout.index_map.size:
        return layout
    other = max((a for a in range(len(layout.shape)) if a != axis), key=lambda a: (layout.shape[a], -a))
    return context.layout(blocks(other).resolve(layout.shape, layout.devices))


def _along(context: Context, x: DistributedArray, chosen: DistributedArray, axis: int) -> DistributedArray:
    same_context([x, chosen])
    name = "take_along_axis"
    if chosen.size and not x.shape[axis]:
        wrapped(host_values(chosen[(slice(0, 1),) * chosen.ndim]), 0, axis)
    with context.lock:
        source, places = x._operand(name), chosen._operand(name)
        target = _whole_along(context, source.layout, axis)
        size = Range.full(chosen.shape[axis])
        mapping: dict[int, list[Region]] = {}
        for owner in target.devices:
            held = [r for r in target.index_map.regions(owner) if r.size or not chosen.size]
            mine = [Region((*r[:axis], size, *r[axis + 1 :])) for r in held]
            mapping[owner] = [r for r in mine if r.size] if chosen.size else mine[:1]
        layout = context.layout(IndexMap(chosen.shape, mapping))
        index = arrays_in(context, places, layout, name)
        _check_range(context, Operand(layout, index, chosen.dtype), x.shape[axis], axis)
        arrays = arrays_in(context, source, target, name)
        by_place = {
            (d, Region((*r[:axis], *r[axis + 1 :]))): part
            for (d, r), part in zip(target.chunks, arrays, strict=True)
            if r.size
        }
        chunks: list[Chunk | None] = [None] * len(layout.chunks)
        with context.reporting():
            for i, device, region in context.local_regions(layout):
                if not region.size:
                    chunks[i] = device.empty(region.shape, x.dtype, name)
                    continue
                array = by_place[device.id, Region((*region[:axis], *region[axis + 1 :]))]
                with device.active():
                    taken = device.lib.take_along_axis(array, index[i].astype(np.int64), axis)
                    chunks[i] = device.adopt(device.lib.ascontiguousarray(taken), name)
        return from_chunks(context, layout, chunks, x.dtype)


def _check_range(context: Context, index: Operand, size: int, axis: int) -> None:
    """Raise where an index is out of range: the least and the greatest of each chunk are fetched."""
    mapping: dict[int, list[Region]] = {}
    ends: list[Any] = []
    with context.reporting():
        for (device_id, region), array in zip(index.layout.chunks, index.arrays, strict=True):
            if not region.size:
                continue
            mapping.setdefault(device_id, []).append(Region([Range(len(ends), 1, 1), Range.full(2)]))
            if array is None:
                ends.append(None)
                continue
            device = context.by_id[device_id]
            with device.active():
                ends.append(device.lib.stack([array.min(), array.max()]).reshape(1, 2))
    if not ends:
        return
    small = context.layout(IndexMap((len(ends), 2), mapping))
    wrapped(gather_to_host(context, Operand(small, ends, index.dtype)), size, axis)
