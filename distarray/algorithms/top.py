"""The k best elements of lines: each device finds the best of its own, and only these move.

What is among the k best of a line is among the k best of the part that a device holds. So each chunk gives at most k
candidates a line, with their positions; these meet, few lines on one device and many on all that have some; and the best of
them are the result.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np

from distarray.algorithms.sample_sort import held_once, on_devices
from distarray.array.layouts import resolve_layout
from distarray.context import Context
from distarray.devices import Chunk, Device, arrays_of, ordering
from distarray.devices.arrays import DeviceArray
from distarray.geometry import IndexMap, Range, Region, blocks
from distarray.layout import Layout
from distarray.storage import Operand
from distarray.transfer.execute import allocate, redistribute

__all__ = ["few_enough", "top"]

INDEX = np.dtype(np.int64)

Found = tuple[Layout, list[Chunk | None], Any]
"""A result: its layout, its chunks in the layout's order, and their dtype."""


def few_enough(layout: Layout, axis: int, k: int) -> bool:
    """Whether all candidates for the k best are at most half of what a device has on average, or few."""
    shape = layout.shape
    lines = prod(shape) // shape[axis]
    chunks = sum(region.size > 0 for _, region in layout.chunks)
    return lines * k * chunks <= max(prod(shape) // (2 * len(layout.devices)), 1 << 12)


def top(context: Context, source: Operand, axis: int, k: int, largest: bool) -> tuple[Found, Found]:
    """Values and positions of the k largest or smallest elements along an axis of at least k; k is at least 1."""
    source = _in_slabs(context, source, axis)
    layout, shape = source.layout, source.shape
    order = sorted(range(len(layout.chunks)), key=lambda i: layout.chunks[i][1][axis].start)
    order = [i for i in order if layout.chunks[i][1].size]
    homes: dict[int, list[Region]] = {device: [] for device in layout.devices}
    numbers: dict[tuple[int, Region], int] = {}
    start = 0
    whole = all(layout.chunks[i][1][axis].size == shape[axis] for i in order)
    for i in order:
        owner, region = layout.chunks[i]
        count = min(k, region[axis].size)
        part = Region((*region[:axis], Range.of(0 if whole else start, 1, count), *region[axis + 1 :]))
        start += count
        homes[owner].append(part)
        numbers[owner, part] = i
    length = k if whole else start
    few = context.layout(IndexMap((*shape[:axis], length, *shape[axis + 1 :]), homes))
    with context.reporting():
        values, places = (allocate(context, few, dtype, label="top_k") for dtype in (source.dtype, INDEX))
    tasks: list[Callable[[], None]] = []
    for number, chunk in enumerate(few.chunks):
        device = context.by_id[chunk[0]]
        if device.process == context.process:
            array, run = source.arrays[numbers[chunk]], layout.chunks[numbers[chunk]][1][axis]
            tasks.append(partial(_candidates, device, array, run, axis, largest, values[number], places[number]))
    _run(context, tasks, source)
    if whole:
        return (few, values, source.dtype), (few, places, INDEX)
    return _best(context, (few, values, source.dtype), (few, places, INDEX), axis, k, largest)


def _in_slabs(context: Context, source: Operand, axis: int) -> Operand:
    """The operand with each element once, where chunks hold whole lines, or all lines cut at the same places."""
    layout, shape = source.layout, source.shape
    regions = [region for _, region in layout.chunks if region.size]
    if layout.index_map.is_disjoint:
        lines = all(region[axis].size == shape[axis] for region in regions)
        if lines or all(r.size == n for region in regions for a, (r, n) in enumerate(zip(region, shape)) if a != axis):
            return source
    elif all(region[axis].size == shape[axis] for region in regions) or len(shape) == 1:
        return _in_slabs(context, held_once(context, source), axis)
    target = context.layout(blocks(axis).resolve(shape, layout.devices))
    chunks = redistribute(context, source, target, operation="top_k")
    return Operand(target, arrays_of(chunks), source.dtype)


def _run(context: Context, tasks: list[Callable[[], None]], source: Operand) -> None:
    on_devices(context, tasks, sum([array.nbytes for array in source.arrays if array is not None]))


def _candidates(
    device: Device, array: DeviceArray, run: Range, axis: int, largest: bool, values: Chunk | None, places: Chunk | None
) -> None:
    assert values is not None and places is not None
    lib = device.lib
    with device.active():
        lines = array if array.ndim == 1 else lib.moveaxis(array, axis, -1)
        order = ordering.first(lib, lines, values.array.shape[axis], largest)
        values.array[...] = lib.moveaxis(ordering.take(lib, lines, order), -1, axis)
        places.array[...] = lib.moveaxis(run.start + run.step * order, -1, axis)


def _best(context: Context, values: Found, places: Found, axis: int, k: int, largest: bool) -> tuple[Found, Found]:
    """The best of candidates: all of a line's on one device, then the result in the default layout."""
    few, shape = values[0], (*values[0].shape[:axis], k, *values[0].shape[axis + 1 :])
    lines = prod(shape) // k
    others = [a for a in range(len(shape)) if a != axis]
    if lines < len(few.devices) or not others:
        meeting = IndexMap(few.shape, {few.devices[0]: [Region.full(few.shape)]})
        target = IndexMap(shape, {few.devices[0]: [Region.full(shape)]})
    else:
        longest = max(others, key=lambda a: (shape[a], -a))
        meeting, target = (blocks(longest).resolve(each, few.devices) for each in (few.shape, shape))
    met = []
    for layout, chunks, dtype in (values, places):
        operand = Operand(layout, arrays_of(chunks), dtype)
        met.append(redistribute(context, operand, context.layout(meeting), operation="top_k"))
    kept = context.layout(target)
    with context.reporting():
        outs = [allocate(context, kept, dtype, label="top_k") for dtype in (values[2], INDEX)]
    tasks: list[Callable[[], None]] = []
    for i, chunk in enumerate(kept.chunks):
        device = context.by_id[chunk[0]]
        if device.process == context.process and chunk[1].size:
            tasks.append(partial(_merge, device, met[0][i], met[1][i], axis, largest, outs[0][i], outs[1][i]))
    _run(context, tasks, Operand(few, arrays_of(values[1]), values[2]))
    found = []
    for chunks, dtype in zip(outs, (values[2], INDEX)):
        final = resolve_layout(context, None, shape, itemsize=dtype.itemsize)
        operand = Operand(kept, arrays_of(chunks), dtype)
        found.append((final, redistribute(context, operand, final, operation="top_k", chunks=chunks), dtype))
    return found[0], found[1]


def _merge(
    device: Device,
    values: Chunk | None,
    places: Chunk | None,
    axis: int,
    largest: bool,
    value: Chunk | None,
    place: Chunk | None,
) -> None:
    assert values is not None and places is not None and value is not None and place is not None
    lib = device.lib
    with device.active():
        lines, where = (lib.moveaxis(chunk.array, axis, -1) for chunk in (values, places))
        # of equal elements the first in the array come first, whatever the order of the candidates
        order = ordering.argsort(lib, [*ordering.columns(lib, lines), -where if largest else where])
        order = (order[..., ::-1] if largest else order)[..., : value.array.shape[axis]]
        value.array[...] = lib.moveaxis(ordering.take(lib, lines, order), -1, axis)
        place.array[...] = lib.moveaxis(ordering.take(lib, where, order), -1, axis)
