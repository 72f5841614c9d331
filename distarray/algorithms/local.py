"""What functions made of local work share: a call for each chunk, a layout in which lines are whole, and counts that every
device makes of its own elements and leaves to be summed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from distarray.algorithms.folds import run_tasks
from distarray.array.state import DistributedArray, from_chunks
from distarray.context import Context
from distarray.devices import Chunk, Device, arrays_of
from distarray.fusion.demand import demand
from distarray.fusion.expr import ASTYPE, record
from distarray.geometry import IndexMap, Range, Region, blocks
from distarray.layout import Layout
from distarray.modes import Mode
from distarray.storage import Operand
from distarray.transfer.execute import redistribute
from distarray.transfer.to_host import gather_to_host

__all__ = ["aligned", "arrays_in", "counted", "everywhere", "mapped", "told", "whole_along"]

ChunkCall = Callable[..., Any]
"""Takes a device's array library and one array for each source, and returns an array."""


def arrays_in(context: Context, source: Operand, layout: Layout, name: str) -> list[Any]:
    """The arrays of an operand in a layout, moved there where they lie otherwise. Never write to them."""
    if source.layout is layout:
        return source.arrays
    return arrays_of(redistribute(context, source, layout, operation=name))


def aligned(x: DistributedArray, layout: Layout) -> list[Any]:
    """The arrays of `x`, broadcast to a layout's shape, in that layout."""
    node = record(x._context, ASTYPE, (x._arg(),), {"dtype": x.dtype}, layout.shape)
    return arrays_of(demand(node, layout).chunks)


def everywhere(context: Context, shape: Sequence[int], devices: Sequence[int], mode: Mode = Mode.REPLICA) -> Layout:
    """One whole copy, or one whole array of partial values, on each device."""
    full = Region.full(tuple(shape))
    return context.layout(IndexMap(tuple(shape), {device: [full] for device in devices}), mode)


def whole_along(context: Context, layout: Layout, axes: Sequence[int]) -> Layout:
    """The layout itself where its chunks hold the axes whole; else blocks of the longest other axis, or one device."""
    lengths = layout.shape
    if all(region[a].size == lengths[a] for _, region in layout.chunks if region.size for a in axes):
        return layout
    others = [a for a in range(len(lengths)) if a not in axes]
    if not others:
        return context.layout(IndexMap(lengths, {layout.devices[0]: [Region.full(lengths)]}))
    return context.layout(blocks(max(others, key=lambda a: (lengths[a], -a))).resolve(lengths, layout.devices))


def replaced(context: Context, layout: Layout, axis: int, inner: Sequence[int]) -> tuple[Layout, list[int]]:
    """The layout of results that have axes of lengths `inner` in place of an axis that chunks hold whole, and for each of
    its chunks the number of the chunk that it is made of."""
    shape = layout.shape
    mapping: dict[int, list[Region]] = {device: [] for device in layout.devices}
    numbers: dict[tuple[int, Region], int] = {}
    for number, (device, region) in enumerate(layout.chunks):
        if (math.prod(shape) and not region.size) or 0 in (*region.shape[:axis], *region.shape[axis + 1 :]):
            continue  # this chunk has no line, and its result would seem to have elements where `inner` is ()
        made = Region((*region[:axis], *[Range.full(n) for n in inner], *region[axis + 1 :]))
        mapping[device].append(made)
        numbers[device, made] = number
    target = context.layout(IndexMap((*shape[:axis], *inner, *shape[axis + 1 :]), mapping))
    return target, [numbers[chunk] for chunk in target.chunks]


def told(context: Context, local: dict[int, Any], lengths: dict[int, int], dtype: np.dtype[Any]) -> Any:
    """What devices have to say, small arrays of agreed lengths, one behind the other: a host array that all processes have.

    `local` has the arrays of this process's devices, `lengths` those of all of them, in order.
    """
    mapping: dict[int, list[Region]] = {}
    arrays: list[Any] = []
    start = 0
    with context.reporting():
        for device_id, length in lengths.items():
            if not length:
                continue
            mapping[device_id] = [Region([Range.of(start, 1, length)])]
            start += length
            said = local.get(device_id)
            if said is not None:
                device = context.by_id[device_id]
                with device.active():
                    said = device.lib.asarray(said, dtype)
            arrays.append(said)
    if not start:
        return np.empty(0, dtype)
    return gather_to_host(context, Operand(context.layout(IndexMap((start,), mapping)), arrays, dtype))


def mapped(
    context: Context,
    sources: Sequence[list[Any]],
    target: Layout,
    dtype: np.dtype[Any],
    call: ChunkCall,
    name: str,
    *,
    into: bool = False,
    fallible: bool = False,
) -> DistributedArray:
    """The array in `target` each of whose chunks is ``call(lib, *items)`` of what the sources have under its number: chunks'
    arrays, and what else the call needs to know. `into`: the call takes the
    chunk's array too, as ``out=``, and writes to that what it does not return. `fallible`: as in `run_tasks`."""
    chunks: list[Chunk | None] = [None] * len(target.chunks)
    tasks = []
    for device in context.local_devices:
        tasks.append(partial(_map_into if into else _map_here, device, target, sources, dtype, call, name, chunks))
    run_tasks(context, tasks, _bytes(sources), name, fallible=fallible)
    return from_chunks(context, target, chunks, dtype)


def _bytes(sources: Sequence[list[Any]]) -> int:
    return sum(getattr(a, "nbytes", 0) for source in sources for a in source)


def _map_here(
    device: Device,
    target: Layout,
    sources: Sequence[list[Any]],
    dtype: np.dtype[Any],
    call: ChunkCall,
    name: str,
    chunks: list[Any],
) -> None:
    for i in target.index_map.chunk_ids(device.id):
        shape = target.chunks[i][1].shape
        with device.active():
            found = call(device.lib, *[source[i] for source in sources])
            plain = device.lib.ascontiguousarray(found, dtype=dtype).reshape(shape)
            if device.kind == "host" and any(
                isinstance(a, np.ndarray) and np.may_share_memory(plain, a) for a in (source[i] for source in sources)
            ):
                plain = plain.copy()
            chunks[i] = device.adopt(plain, name)


def _map_into(
    device: Device,
    target: Layout,
    sources: Sequence[list[Any]],
    dtype: np.dtype[Any],
    call: ChunkCall,
    name: str,
    chunks: list[Any],
) -> None:
    for i in target.index_map.chunk_ids(device.id):
        chunk = chunks[i] = device.empty(target.chunks[i][1].shape, dtype, name)
        with device.active():
            found = call(device.lib, *[source[i] for source in sources], out=chunk.array)
            if found is not None:
                chunk.array[...] = found


def counted(
    context: Context,
    sources: Sequence[list[Any]],
    layout: Layout,
    shape: Sequence[int],
    dtype: np.dtype[Any],
    call: ChunkCall,
    name: str,
) -> DistributedArray:
    """The sum over all elements, each once, of what ``call(lib, *parts)`` returns for parts of the sources, in SUM mode.

    `layout` is that of the sources, and `shape` that of what `call` returns.
    """
    target = everywhere(context, shape, layout.devices, Mode.SUM)
    chunks: list[Chunk | None] = [None] * len(target.chunks)
    tasks = [
        partial(_count_here, device, layout, target, sources, dtype, call, chunks)
        for device in context.local_devices
        if device.id in layout.devices
    ]
    run_tasks(context, tasks, _bytes(sources), name)
    return from_chunks(context, target, chunks, dtype)


def _count_here(
    device: Device,
    layout: Layout,
    target: Layout,
    sources: Sequence[list[Any]],
    dtype: np.dtype[Any],
    call: ChunkCall,
    chunks: list[Any],
) -> None:
    (place,) = target.index_map.chunk_ids(device.id)
    total = device.full(target.shape, dtype, 0)  # of an empty bin NumPy says 0.0, no -0.0
    with device.active():
        for i, part in layout.index_map.owned(device.id):
            if part.size:
                key = layout.chunks[i][1].locate(part).key
                total.array[...] += call(device.lib, *[source[i][key] for source in sources])
    chunks[place] = total
