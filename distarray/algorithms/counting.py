"""Counts of integers: each device counts its own elements into bins that all agree on.

Few bins stand on every device, in SUM mode, until they are added up. Where there are far more bins than elements, that would
take a multiple of the memory of a result that is nearly empty: then each device says which bins it fills and how, and has a
part of the result, as every array of that size.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from distarray.algorithms.folds import run_tasks
from distarray.algorithms.local import everywhere, told
from distarray.array.state import DistributedArray, from_chunks
from distarray.context import Context
from distarray.devices import Chunk, Device
from distarray.devices.arrays import AnyDType, DeviceArray, Library
from distarray.fusion.native.vectors import integers_counted
from distarray.geometry import blocks
from distarray.layout import Layout
from distarray.modes import Mode

__all__ = ["EVEN_BLOCK", "counted_evenly", "counted_integers", "counted_sparsely", "is_sparse"]

Number = Callable[..., tuple[Any, ...]]
"""The bins of elements, with the library and the sources as arguments, and the weights of those that have one."""

SPARSE = 4
"""More bins than so many times the elements are filled in parts…"""

FEW = 1 << 16
"""…where they are more than these."""

BLOCK = 1 << 18
"""Elements that the host counts while they are in its cache; of fewer, threads would wait for the interpreter lock…"""

QUICK = 1 << 12
"""…where there are fewer bins than these: then their number need not be known beforehand."""


EVEN_BLOCK = 1 << 16
"""Elements of a host whose bins are found together: of more, scratch leaves the cache; of fewer, threads wait for each other."""


def counted_evenly(part: np.ndarray, edges: np.ndarray) -> Any:
    """How many elements of a host array, all of which lie within, stand in each of the bins of one width between `edges`.

    As in ``numpy.histogram`` each element is brought near its bin by its distance from the first edge, and then to where the edges
    say; in a third of its passes, since nothing is left out. None where rounding could bring one farther from its bin than to
    the next, or the dtype is none of those whose elements are compared as they are.
    """
    with np.errstate(over="ignore"):
        bins, width = len(edges) - 1, edges[-1] - edges[0]
    is_exact = part.dtype == edges.dtype or (part.dtype.kind in "biu" and part.dtype.itemsize <= 4)
    if not is_exact or edges.dtype.kind != "f" or edges.dtype.itemsize < 4 or bins > QUICK or not 0 < width < np.inf:
        return None
    with np.errstate(over="ignore"):
        scale = edges.dtype.type(bins) / width
    if not np.isfinite(scale):
        return None
    above = edges[1:].copy()
    above[-1] = np.inf
    total = np.zeros(bins, np.intp)
    flat, size = part.reshape(-1), min(part.size, EVEN_BLOCK)
    scratch, places, wrong = np.empty(size, edges.dtype), np.empty(size, np.intp), np.empty(size, bool)
    for first in range(0, flat.size, EVEN_BLOCK):
        block = flat[first : first + EVEN_BLOCK]
        near, place, misses = scratch[: block.size], places[: block.size], wrong[: block.size]
        np.multiply(np.subtract(block, edges[0], out=near), scale, out=near)
        np.copyto(place, near, casting="unsafe")
        np.minimum(place, bins - 1, out=place)
        np.less(block, edges.take(place, out=near, mode="clip"), out=misses)
        if misses.any():
            place[misses] -= 1
        np.greater_equal(block, above.take(place, out=near, mode="clip"), out=misses)
        if misses.any():
            place[misses] += 1
        total += np.bincount(place, minlength=bins)
    return total


def counted_integers(
    context: Context, layout: Layout, sources: Sequence[list[Any]], least: int, dtype: AnyDType
) -> DistributedArray:
    """How often each integer from 0 on stands in an array of `layout`, or the sum of its weights; `least` bins or more.

    `sources` are the chunks of the array, and of the weights where there are any.
    """
    tops: dict[int, Any] = {}
    totals: dict[int, Any] = {}
    devices = [device for device in context.local_devices if device.id in layout.devices]
    nbytes = sum(a.nbytes for a in sources[0] if a is not None)
    tasks = [partial(_begin, device, layout, sources, dtype, tops, totals) for device in devices]
    run_tasks(context, tasks, nbytes, "bincount", fallible=True)
    found = told(context, tops, dict.fromkeys(layout.devices, 1), np.dtype(np.int64))
    length = max(least, int(found.max(initial=0)))
    if length > sys.maxsize // dtype.itemsize:
        raise ValueError(
            f"array is too big: {length} bins of {dtype}; the largest element, or minlength, asks for so many"
        )
    if is_sparse(length, layout):
        return counted_sparsely(context, layout, sources, (length,), dtype, _as_they_are, "bincount")
    target = everywhere(context, (length,), layout.devices, Mode.SUM)
    chunks: list[Chunk | None] = [None] * len(target.chunks)
    tasks = [
        partial(_count, device, layout, target, sources, dtype, chunks, totals.get(device.id)) for device in devices
    ]
    run_tasks(context, tasks, 0 if len(totals) == len(devices) else nbytes, "bincount")
    return from_chunks(context, target, chunks, dtype)


def _owned(device: Device, layout: Layout, sources: Sequence[list[Any]]) -> list[list[Any]]:
    """The elements that a device counts, each of the array's once: flat parts of each of the sources."""
    found = []
    for i, part in layout.index_map.owned(device.id):
        if part.size:
            key = layout.chunks[i][1].locate(part).key
            found.append([source[i][key].reshape(-1) for source in sources])
    return found


def _top(device: Device, layout: Layout, array: list[Any], tops: dict[int, Any]) -> None:
    """How many bins a device needs; negative elements raise as NumPy does."""
    top = 0
    with device.active():
        for (part,) in _owned(device, layout, [array]):
            low, high = device.to_host(device.lib.stack([part.min(), part.max()])).tolist()
            if low < 0:
                np.bincount([low])
            top = max(top, min(high + 1, sys.maxsize))  # both are far too many
    tops[device.id] = np.array([top])


def _begin(
    device: Device,
    layout: Layout,
    sources: Sequence[list[Any]],
    dtype: AnyDType,
    tops: dict[int, Any],
    totals: dict[int, Any],
) -> None:
    """How many bins a device needs; and the counts themselves on the host, where the bins are few."""
    if device.kind != "host":
        _top(device, layout, sources[0], tops)
        return
    total: Any = np.zeros(0, dtype)
    for parts in _owned(device, layout, sources):
        counts = integers_counted(parts[0], QUICK) if len(parts) == 1 else None
        if counts is not None:
            total = _joined(total, counts[: int(counts.nonzero()[0][-1]) + 1])
            continue
        for first in range(0, parts[0].size, BLOCK):
            block = [part[first : first + BLOCK] for part in parts]
            if int(block[0].max()) >= QUICK:
                _top(device, layout, sources[0], tops)
                return
            total = _joined(total, np.bincount(*block))
    tops[device.id] = np.array([total.size])
    totals[device.id] = total


def _joined(total: Any, more: Any) -> Any:
    """Two sequences of counts added up, in the longer one's memory."""
    if more.size > total.size:
        total, more = more, total
    total[: more.size] += more
    return total


def _count(
    device: Device,
    layout: Layout,
    target: Layout,
    sources: Sequence[list[Any]],
    dtype: AnyDType,
    chunks: list[Any],
    counted: DeviceArray | None,
) -> None:
    """Count into whole bins, where that was not done when their number was found."""
    (place,) = target.index_map.chunk_ids(device.id)
    total = device.full(target.shape, dtype, 0)  # of an empty bin NumPy says 0.0, no -0.0
    chunks[place] = total
    if counted is not None:
        total.array[: counted.size] += counted
        return
    with device.active():
        for parts in _owned(device, layout, sources):
            more = device.lib.bincount(*parts)
            total.array[: more.size] += more


def is_sparse(bins: int, layout: Layout) -> bool:
    """Whether there are so many more bins than elements of a layout that they are filled in parts."""
    return bins > max(SPARSE * layout.index_map.size, FEW)


def _as_they_are(lib: Library, *sources: Any) -> tuple[Any, ...]:
    return sources


def counted_sparsely(
    context: Context,
    layout: Layout,
    sources: Sequence[list[Any]],
    shape: tuple[int, ...],
    dtype: AnyDType,
    number: Number,
    operation: str,
) -> DistributedArray:
    """Count into the bins that are not empty, tell all devices, and fill in parts of the result.

    `number` gives the elements' bins, which are numbered in C order of `shape`; what it leaves out counts nowhere.
    """
    devices = [device for device in context.local_devices if device.id in layout.devices]
    mine: dict[int, tuple[Any, Any]] = {}
    nbytes = sum(a.nbytes for source in sources for a in source if a is not None)
    tasks = [partial(_bins, device, layout, sources, dtype, number, mine) for device in devices]
    run_tasks(context, tasks, nbytes, operation)
    once = dict.fromkeys(layout.devices, 1)
    sizes = told(context, {d: np.array([len(bins)]) for d, (bins, _) in mine.items()}, once, np.dtype(np.int64))
    lengths = dict(zip(layout.devices, sizes.tolist(), strict=True))
    bins = told(context, {d: found[0] for d, found in mine.items()}, lengths, np.dtype(np.int64))
    counts = told(context, {d: found[1] for d, found in mine.items()}, lengths, dtype)
    target = context.layout(blocks(0).resolve(shape, layout.devices))
    row = math.prod(shape[1:])
    chunks: list[Chunk | None] = [None] * len(target.chunks)
    with context.reporting():
        for i, device, region in context.local_regions(target):
            start, stop = region[0].start * row, region[0].stop * row
            here = (bins >= start) & (bins < stop)
            places, which = np.unique(bins[here] - start, return_inverse=True)
            sums = np.zeros(places.size, dtype)
            np.add.at(sums, which, counts[here])
            if device.kind == "host":  # memory that is only asked for costs nothing where nothing is counted
                chunk = device.adopt(np.zeros(region.shape, dtype), operation)
            else:
                chunk = device.full(region.shape, dtype, 0)
            with device.active():
                chunk.array.reshape(-1)[device.lib.asarray(places)] = device.lib.asarray(sums)
            chunks[i] = chunk
    return from_chunks(context, target, chunks, dtype)


def _bins(
    device: Device,
    layout: Layout,
    sources: Sequence[list[Any]],
    dtype: AnyDType,
    number: Number,
    mine: dict[int, tuple[Any, Any]],
) -> None:
    """The bins that a device fills, ascending, and what it adds to them."""
    lib = device.lib
    with device.active():
        owned = _owned(device, layout, sources)
        if not owned:
            mine[device.id] = np.empty(0, np.int64), np.empty(0, dtype)
            return
        elements, *weights = number(lib, *(lib.concatenate(parts) for parts in zip(*owned, strict=True)))
        bins, places = lib.unique(elements, return_inverse=True)
        count = partial(lib.bincount, places.reshape(-1), minlength=bins.size)
        if weights and weights[0].dtype.kind == "c":
            counts = count(weights[0].real) + 1j * count(weights[0].imag)
        else:
            counts = count(*weights)
        mine[device.id] = bins.astype(np.int64), counts.astype(dtype)
