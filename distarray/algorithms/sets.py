"""Distinct elements: each device finds its own, and only these move, to the device that has their part of the order.

It is apart from sorting because what moves are the distinct elements and not the array, and because answers go back: each
element's number among the distinct ones, which is how an inverse gets the layout of the operand without another sort.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from distarray.algorithms.sample_sort import (
    Contribution,
    Exchange,
    Splitter,
    agreed,
    held_once,
    in_intervals,
    intervals,
    on_devices,
    sample_splitters,
    spread,
)
from distarray.algorithms.sorting import INDEX, Sorted
from distarray.devices import Chunk, Device, arrays_of, ordering
from distarray.devices.arrays import AnyDType, DeviceArray, Library
from distarray.geometry import IndexMap, Region, blocks
from distarray.layout import Layout
from distarray.storage import Operand
from distarray.transfer.execute import redistribute

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = ["Distinct", "distinct"]


class Wanted(NamedTuple):
    """What a caller wants to know."""

    indices: bool
    inverse: bool
    counts: bool
    equal_nan: bool


class Distinct(NamedTuple):
    """The distinct elements in ascending order, and, where wanted, where each comes first, which one each element of the
    operand is, and how many of each there are."""

    values: Sorted
    indices: Sorted | None
    inverse: Sorted | None
    counts: Sorted | None


class _Own(NamedTuple):
    """What one device found: its distinct elements with their numbers, and for its elements, one after the other, which
    of them each is."""

    values: Any
    indices: Any
    counts: Any
    inverse: Any


def distinct(
    context: Context,
    source: Operand,
    *,
    rows: bool,
    indices: bool,
    inverse: bool,
    counts: bool,
    equal_nan: bool,
    name: str,
) -> Distinct:
    """The distinct elements of an operand, or with `rows` those along its first axis.

    Notes
    -----
    Communication: none of elements where every device holds the whole operand. Otherwise each device's distinct elements
    once, with the first position and the count of each where these are wanted; samples and counts; for an inverse one
    number back for each. Rows that are split are brought together first.

    The result's chunks are as long as what each device found; the inverse is laid out as the operand.
    """
    wanted = Wanted(indices, inverse, counts, equal_nan and not rows)  # NaN in a row makes it like no other
    if rows and not (_has_whole_rows(source.layout) and source.layout.index_map.is_disjoint):
        target = context.layout(blocks(0).resolve(source.shape, source.layout.devices))
        fresh = redistribute(context, source, target, operation=name)
        source = Operand(target, arrays_of(fresh), source.dtype)
    given, whole = source.layout, source.layout.is_replicated
    if not whole:
        source = held_once(context, source)
    layout = source.layout
    tail = (math.prod(source.shape[1:]),) if rows else ()
    devices = [d for d in layout.devices if any(region.size for region in layout.index_map.regions(d))]
    found = _find_here(context, source, devices, tail, wanted)
    if whole or len(devices) == 1:
        sizes = agreed(context, devices, [None if own is None else [own.values.shape[0]] for own in found], 1)
        result = _kept(context, source, given.devices, devices, found, int(sizes[0, 0]), tail, wanted, name)
    else:
        result = _united(context, source, devices, found, tail, wanted, name)
    if result.inverse is not None and not rows and layout is not given:
        there = Operand(layout, arrays_of(result.inverse.chunks), INDEX)
        fresh = redistribute(context, there, given, operation=name, chunks=result.inverse.chunks)
        result = result._replace(inverse=Sorted(given, fresh, INDEX))
    return result


def _has_whole_rows(layout: Layout) -> bool:
    return all(r.size == n for _, region in layout.chunks if region.size for r, n in zip(region[1:], layout.shape[1:]))


# --- on one device ------------------------------------------------------------------------------------------------------


def _keys(lib: Library, values: DeviceArray) -> list[Any]:
    """Key columns of elements or rows."""
    if values.ndim == 1:
        return ordering.columns(lib, values)
    if not values.shape[1]:
        return [lib.zeros(values.shape[0], np.int8)]
    return [column for j in range(values.shape[1]) for column in ordering.columns(lib, values[:, j])]


def _keys_of(indices: bool) -> Any:
    """The keys of rows that move: equal elements by where they come first, if that is known."""
    return lambda lib, arrays: [*_keys(lib, arrays[0]), *arrays[1 : 1 + indices]]


def _find_here(
    context: Context, source: Operand, devices: Sequence[int], tail: tuple[int, ...], wanted: Wanted
) -> list[_Own | None]:
    found: list[_Own | None] = [None] * len(devices)
    layout = source.layout

    def work(device: Device, number: int) -> None:
        lib = device.lib
        with device.active():
            # a chunk without elements may still stand at some rows
            ids = [i for i in layout.index_map.chunk_ids(device.id) if layout.chunks[i][1].size]
            arrays = [source.arrays[i].reshape(-1, *tail) if tail else source.arrays[i].reshape(-1) for i in ids]
            rows = [layout.chunks[i][1] for i in ids]
            values = arrays[0] if len(arrays) == 1 else lib.concatenate(arrays)
            places = None
            if wanted.indices:
                places = _joined(lib, [_positions(lib, region, layout.shape, bool(tail)) for region in rows])
            found[number] = _distinct_here(lib, values, places, wanted)

    tasks = []
    nbytes = 0
    for number, device_id in enumerate(devices):
        device = context.by_id[device_id]
        if device.process == context.process:
            tasks.append(partial(work, device, number))
            nbytes += sum([source.arrays[i].nbytes for i in layout.index_map.chunk_ids(device_id)])
    on_devices(context, tasks, nbytes)
    return found


def _joined(lib: Library, arrays: Sequence[Any]) -> Any:
    return arrays[0] if len(arrays) == 1 else lib.concatenate(arrays)


def _positions(lib: Library, region: Region, shape: Sequence[int], rows: bool) -> Any:
    """Positions in the flattened array, or of rows."""
    ranges, lengths = (region[:1], shape[:1]) if rows else (region, shape)
    flat = lib.zeros((1,), np.int64)
    for r, n in zip(ranges, lengths, strict=True):
        along = r.start + r.step * lib.arange(r.size, dtype=np.int64)
        flat = (flat[:, None] * n + along[None, :]).reshape(-1)
    return flat


def _distinct_here(lib: Library, values: DeviceArray, places: DeviceArray | None, wanted: Wanted) -> _Own:
    """The distinct elements of an array, at positions that need not ascend."""
    inverse = counts = indices = None
    if values.ndim == 1 and not wanted.inverse and places is None:
        ordered = lib.empty(values.shape, values.dtype)
        ordering.sort_lines(lib, ordered, values)
        order = None
    else:
        keys = _keys(lib, values)
        ascending = places is None or bool((places[1:] >= places[:-1]).all())
        order = ordering.argsort(lib, keys if ascending else [*keys, places])
        ordered = values[order]
    first = ordering.begins(lib, ordered, wanted.equal_nan)
    starts = lib.flatnonzero(first)
    if wanted.counts:
        counts = _sums(lib, starts, None, values.shape[0])
    if places is not None:
        indices = places[order][starts]
    if wanted.inverse:
        inverse = lib.empty(first.shape, np.int64)
        inverse[order] = lib.cumsum(first, dtype=np.int64) - 1
    return _Own(ordered[starts], indices, counts, inverse)


def _sums(lib: Library, starts: DeviceArray, weights: DeviceArray | None, size: int) -> Any:
    """The sum of weights, or their number, from each start up to the next."""
    if weights is None:
        ends = lib.concatenate([starts[1:], lib.full(min(starts.shape[0], 1), size, starts.dtype)])
        return (ends - starts).astype(np.int64, copy=False)
    running = lib.concatenate([lib.zeros(1, np.int64), lib.cumsum(weights, dtype=np.int64)])
    ends = lib.concatenate([starts[1:], lib.full(min(starts.shape[0], 1), size, starts.dtype)])
    return running[ends] - running[starts]


# --- of all devices -----------------------------------------------------------------------------------------------------


def _kept(
    context: Context, source: Operand, among: Sequence[int], devices: Sequence[int], found: Sequence[_Own | None], size: int,
    tail: tuple[int, ...], wanted: Wanted, name: str,
) -> Distinct:  # fmt: skip
    """Each device's own findings, where each holds everything; the others of `among` hold nothing of the result."""

    def placed(tail: tuple[int, ...]) -> tuple[Layout, Sequence[int]]:
        whole = Region.full((size, *tail))
        regions = {d: [whole] if d in devices else [] for d in among}
        return context.layout(IndexMap(whole.shape, regions)), range(len(devices))

    inverse = None
    if wanted.inverse:
        inverse = _inverse(
            context, source, devices, [None if own is None else own.inverse for own in found], bool(tail), name
        )
    return _assembled(context, source.dtype, tail, devices, found, placed, inverse, wanted, name)


def _united(
    context: Context, source: Operand, devices: Sequence[int], found: Sequence[_Own | None], tail: tuple[int, ...],
    wanted: Wanted, name: str,
) -> Distinct:  # fmt: skip
    """The findings of all devices, united: each device those in one part of the order."""
    exchange = _exchanged(context, source, devices, found, tail, wanted, name)
    found = [None if own is None else own._replace(values=None, indices=None, counts=None) for own in found]
    united = _merge_here(context, devices, exchange, source.dtype, wanted)
    totals = agreed(context, devices, [None if own is None else [own.values.shape[0]] for own in united], 1)[:, 0]
    places = in_intervals([int(n) for n in totals], devices)

    inverse = None
    if wanted.inverse:
        inverse = _numbered(context, source, devices, found, exchange, united, places, bool(tail), name)
    placed = partial(intervals, context, places)
    return _assembled(context, source.dtype, tail, devices, united, placed, inverse, wanted, name)


def _assembled(
    context: Context, dtype: np.dtype[Any], tail: tuple[int, ...], devices: Sequence[int], found: Sequence[_Own | None],
    placed: Callable[[tuple[int, ...]], tuple[Layout, Sequence[int]]], inverse: Sorted | None, wanted: Wanted, name: str,
) -> Distinct:  # fmt: skip
    """The result, made of what devices found; `placed` tells the layout of a column, and whose array each chunk is."""

    def column(number: int, dtype: np.dtype[Any], tail: tuple[int, ...]) -> Sorted:
        layout, order = placed(tail)
        chunks: list[Chunk | None] = []
        with context.reporting():
            for i in order:
                own, device = found[i], context.by_id[devices[i]]
                if own is None:
                    chunks.append(None)
                    continue
                with device.active():
                    chunks.append(device.adopt(device.lib.ascontiguousarray(own[number]), name))
        return Sorted(layout, chunks, dtype)

    return Distinct(
        column(0, dtype, tail),
        column(1, INDEX, ()) if wanted.indices else None,
        inverse,
        column(2, INDEX, ()) if wanted.counts else None,
    )


def _exchanged(
    context: Context, source: Operand, devices: Sequence[int], found: Sequence[_Own | None], tail: tuple[int, ...],
    wanted: Wanted, name: str,
) -> Exchange:  # fmt: skip
    """Each device's distinct elements, brought to the devices that have their parts of the order."""
    moved: list[tuple[Any, tuple[int, ...]]] = [(source.dtype, tail)]
    moved += [(INDEX, ())] * (wanted.indices + wanted.counts)
    sizes = agreed(context, devices, [None if own is None else [own.values.shape[0]] for own in found], 1)[:, 0]
    parts = []
    with context.reporting():
        for device_id, own, size in zip(devices, found, sizes, strict=True):
            chunks: list[Chunk | None] | None = None
            if own is not None:
                device = context.by_id[device_id]
                columns = [own.values, *[own.indices] * wanted.indices, *[own.counts] * wanted.counts]
                chunks = [device.adopt(column, name) for column in columns]
            parts.append(Contribution(device_id, int(size), chunks))
    total, count = int(sizes.sum()), len(devices)
    ranks = [total * i // count for i in range(1, count)]
    keys_of = _keys_of(wanted.indices)
    splitters = sample_splitters(context, parts, moved[: 1 + wanted.indices], keys_of, ranks, True)
    together = [None if s is None else _whole_group(s, source.dtype, bool(tail), wanted) for s in splitters]
    return spread(context, parts, moved, keys_of, devices, together, is_sorted=True, operation=name)


def _merge_here(
    context: Context, devices: Sequence[int], exchange: Exchange, dtype: AnyDType, wanted: Wanted
) -> list[_Own | None]:
    """What each device of this process finds in what came to it."""
    united: list[_Own | None] = [None] * len(devices)
    keys_of = _keys_of(wanted.indices)

    def unite(device: Device, number: int) -> None:
        lib = device.lib
        with device.active():
            arrays = [chunk.array for chunk in exchange.arrays[number] if chunk is not None]
            order = ordering.merge(lib, keys_of(lib, arrays))
            ordered = arrays[0][order]
            first = ordering.begins(lib, ordered, wanted.equal_nan)
            starts = lib.flatnonzero(first)
            indices = arrays[1][order][starts] if wanted.indices else None
            counts = _sums(lib, starts, arrays[-1][order], ordered.shape[0]) if wanted.counts else None
            numbers = None
            if wanted.inverse:
                numbers = lib.empty(first.shape, np.int64)
                numbers[order] = lib.cumsum(first, dtype=np.int64) - 1
            united[number] = _Own(ordered[starts], indices, counts, numbers)

    local = [(i, context.by_id[d]) for i, d in enumerate(devices) if context.by_id[d].process == context.process]
    nbytes = sum([exchange.sizes[i] for i, _ in local]) * dtype.itemsize
    on_devices(context, [partial(unite, device, i) for i, device in local], nbytes)
    return united


def _whole_group(splitter: Splitter, dtype: AnyDType, rows: bool, wanted: Wanted) -> Splitter:
    """The splitter before all elements that are equal to its own, so that equal ones meet on one device."""
    key = splitter.key[: len(splitter.key) - wanted.indices]
    lost = dtype.kind == "c" and not rows and key[0] > 0  # a complex NaN: its class, and what parts it has
    if not wanted.equal_nan and (lost or any(part != part for part in key)):
        return splitter  # a NaN is equal to no other element here
    if lost:
        key = (1, -np.inf, -np.inf)
    return splitter._replace(key=(*key, *[-1] * wanted.indices), part=-1)


def _numbered(
    context: Context, source: Operand, devices: Sequence[int], found: Sequence[_Own | None], exchange: Exchange,
    united: Sequence[_Own | None], places: Sequence[tuple[int, int, int]], rows: bool, name: str,
) -> Sorted:  # fmt: skip
    """Which of all distinct elements each element of the operand is."""
    answers: list[Any] = []
    with context.reporting():
        for own, (device_id, start, _) in zip(united, places, strict=True):
            if own is None:
                answers.append(None)
                continue
            with context.by_id[device_id].active():
                answers.append(own.inverse + start)
    numbers = exchange.back(answers, INDEX, name)
    flat: list[Any] = []
    with context.reporting():
        for own, held, device_id in zip(found, numbers, devices, strict=True):
            if own is None:
                flat.append(None)
                continue
            with context.by_id[device_id].active():
                flat.append(held[own.inverse])
    return _inverse(context, source, devices, flat, rows, name)


def _inverse(
    context: Context, source: Operand, devices: Sequence[int], flat: Sequence[Any], rows: bool, name: str
) -> Sorted:
    """Each device's numbers, one chunk after the other, as chunks of the operand's layout (with `rows`, of its rows')."""
    layout = source.layout
    if rows:
        index_map = layout.index_map
        layout = context.layout(
            IndexMap(
                layout.shape[:1],
                {d: [Region(r[:1]) for r in index_map.regions(d) if r.size] for d in index_map.devices},
            )
        )
    held = dict(zip(devices, flat, strict=True))
    starts = dict.fromkeys(devices, 0)
    chunks: list[Chunk | None] = [None] * len(layout.chunks)
    with context.reporting():
        for i, device, region in context.local_regions(layout):
            if not region.size:
                chunks[i] = device.empty(region.shape, INDEX, name)
                continue
            start = starts[device.id]
            starts[device.id] += region.size
            chunks[i] = device.adopt(held[device.id][start : start + region.size].reshape(region.shape), name)
    return Sorted(layout, chunks, INDEX)
