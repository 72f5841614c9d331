"""Sorting operands along an axis, by one key or several: in place where lines are whole, else by moving lines or by a
sample sort.

Everything sorts stably, in NumPy's order, and a line that is split ends in even blocks. Three cases, from layouts alone:
devices that hold whole lines sort those, and nothing moves; many lines are dealt out whole, and stay so; few long lines
are sorted by all devices together (see :mod:`distarray.algorithms.sample_sort`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from distarray.algorithms.parting import can_part, part_line
from distarray.algorithms.sample_sort import (
    Contribution,
    Exchange,
    in_intervals,
    intervals,
    on_devices,
    sample_splitters,
    spread,
)
from distarray.devices import Chunk, Device, arrays_of, in_turn, ordering
from distarray.devices.arrays import Library
from distarray.geometry import IndexMap, Range, Region, blocks, flat_blocks
from distarray.layout import Layout
from distarray.storage import Operand
from distarray.transfer.execute import allocate, copy_into, redistribute

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = ["Sorted", "is_whole", "ordered_blocks", "sort_along"]

SHORT = 1 << 12
"""Lines of at most so many elements go whole to one device: a sample sort's rounds would cost more."""

INDEX = np.dtype(np.int64)


class Sorted(NamedTuple):
    """A result: its layout, and its chunks in the layout's order."""

    layout: Layout
    chunks: list[Chunk | None]
    dtype: Any


def is_whole(layout: Layout, axis: int) -> bool:
    """Whether every chunk holds whole lines along an axis."""
    return all(not region.size or region[axis].size == layout.shape[axis] for _, region in layout.chunks)


def sort_along(
    context: Context,
    keys: Sequence[Operand],
    axis: int,
    *,
    positions: bool,
    name: str,
    backward: bool = False,
    kth: Sequence[int] = (),
) -> Sorted:
    """Sort along an axis by one key, or find the positions in the order of several, the most significant first.

    Parameters
    ----------
    keys : sequence of Operand
        REPLICA operands of one shape, of at least one axis.
    positions : bool
        Return each line's order as int64, instead of its values.
    backward : bool
        Give the even blocks of a line that is split to the devices in reverse order.
    kth : sequence of int
        Places, each at least 0: only what belongs there is put there, with nothing larger before it and nothing smaller
        behind. Lines of plain numbers are then parted instead of sorted; those that are split where the places are few.

    Notes
    -----
    Communication: none where the first key's lines are whole. Of many lines, each element once. Of few lines: what brings
    a line into blocks, if it lies otherwise; samples and counts; each element once, with its position where positions are
    wanted; and what makes the blocks even, a few hundredths. Of few lines that are parted: see ``parting``.

    Memory, besides operand and result: one chunk of the operand's size (of lines that are split two, and with positions as
    many again).
    """
    first = keys[0]
    shape, layout = first.shape, first.layout
    devices = layout.devices
    n = shape[axis]
    lines = math.prod(shape[:axis]) * math.prod(shape[axis + 1 :])
    if not (is_whole(layout, axis) or n * lines == 0):
        if not (len(devices) == 1 or n <= SHORT or lines >= 2 * len(devices)):
            return _sort_lines_together(context, keys, axis, positions, name, backward, kth)
        layout = _dealt(context, layout, axis)
    sorted_ = _sort_here(context, [_brought(context, key, layout, name) for key in keys], axis, positions, name, kth)
    if lines >= len(devices) or layout is first.layout:
        return sorted_
    target = _even(context, shape, axis, devices, backward)
    chunks = redistribute(context, _operand(sorted_), target, operation=name, chunks=sorted_.chunks)
    return Sorted(target, chunks, sorted_.dtype)


def _brought(context: Context, source: Operand, layout: Layout, name: str) -> Operand:
    if source.layout is layout:
        return source
    return _operand(Sorted(layout, redistribute(context, source, layout, operation=name), source.dtype))


def _operand(found: Sorted) -> Operand:
    return Operand(found.layout, arrays_of(found.chunks), found.dtype)


def _dealt(context: Context, layout: Layout, axis: int) -> Layout:
    """Whole lines, dealt out evenly in C order."""
    key = ("sort", layout, axis)
    found = context.layouts.remembered(key)
    if found is None:
        shape, devices = layout.shape, layout.devices
        others = shape[:axis] + shape[axis + 1 :]
        lines = math.prod(others)
        boxes = flat_blocks(others, [lines * i // len(devices) for i in range(len(devices) + 1)])
        full = Range.full(shape[axis])
        regions = {
            device: [Region((*box[:axis], full, *box[axis:])) for box in own] for device, own in zip(devices, boxes)
        }
        found = context.layouts.remember(key, context.layout(IndexMap(shape, regions)))
    return found  # type: ignore[no-any-return]


# --- whole lines --------------------------------------------------------------------------------------------------------


def _sort_here(
    context: Context, keys: Sequence[Operand], axis: int, positions: bool, name: str, kth: Sequence[int]
) -> Sorted:
    """Every device sorts its own lines."""
    layout = keys[0].layout
    dtype = INDEX if positions else keys[0].dtype
    with context.reporting():
        chunks = allocate(context, layout, dtype, label=name)
    tasks: dict[int, list[Callable[[], None]]] = {}
    nbytes = 0
    for i, chunk in enumerate(chunks):
        if chunk is not None and chunk.array.size:
            arrays = [key.arrays[i] for key in keys]
            task = partial(_sort_chunk, chunk.device, arrays, chunk.array, axis, positions, name, kth)
            tasks.setdefault(chunk.device.id, []).append(task)
            nbytes += chunk.array.nbytes
    on_devices(context, [partial(in_turn, own) for own in tasks.values()], nbytes)
    return Sorted(layout, chunks, dtype)


def _sort_chunk(
    device: Device, arrays: Sequence[Any], out: Any, axis: int, positions: bool, name: str, kth: Sequence[int]
) -> None:
    lib = device.lib
    with device.active():
        last = axis == out.ndim - 1
        lines = [array if last else lib.ascontiguousarray(lib.moveaxis(array, axis, -1)) for array in arrays]
        target = out if last else device.empty(lines[0].shape, out.dtype, name).array
        if kth and ordering.parts(lib, lines[0].dtype):
            if positions:
                target[...] = lib.argpartition(lines[0], kth, axis=-1)
            else:
                target[...] = lines[0]
                target.partition(kth, axis=-1)
        elif positions:
            columns = [column for line in lines for column in ordering.columns(lib, line)]
            target[...] = ordering.argsort(lib, columns)
        else:
            ordering.sort_lines(lib, target, lines[0])
        if not last:
            out[...] = lib.moveaxis(target, -1, axis)


# --- lines that are split -----------------------------------------------------------------------------------------------


def ordered_blocks(layout: Layout) -> list[int] | None:
    """The chunks of a layout of one axis in the order in which they follow one another, where each device has one run of
    elements and no other device has them, too; else None."""
    found = sorted([(region[0].start, i) for i, (_, region) in enumerate(layout.chunks) if region.size])
    place = 0
    for start, i in found:
        run = layout.chunks[i][1][0]
        if start != place or run.step != 1:
            return None
        place += run.size
    owners = {layout.chunks[i][0] for _, i in found}
    return [i for _, i in found] if len(owners) == len(found) and place == layout.shape[0] else None


def in_blocks(context: Context, source: Operand, name: str) -> tuple[Operand, list[int]]:
    """An operand of one axis where each device has one run of elements, and the order of its chunks."""
    order = ordered_blocks(source.layout)
    if order is None:
        target = context.layout(blocks(0).resolve(source.shape, source.layout.devices))
        source = _brought(context, source, target, name)
        order = ordered_blocks(target)
        assert order is not None
    return source, order


def _even(context: Context, shape: tuple[int, ...], axis: int, devices: Sequence[int], backward: bool) -> Layout:
    """Even blocks along an axis."""
    found = blocks(axis).resolve(shape, devices)
    if backward:
        sizes = [found.regions(device)[0][axis].size for device in devices]
        found = blocks(axis, sizes=sizes[::-1]).resolve(shape, devices[::-1])
    return context.layout(found)


def _sort_lines_together(
    context: Context,
    keys: Sequence[Operand],
    axis: int,
    positions: bool,
    name: str,
    backward: bool,
    kth: Sequence[int],
) -> Sorted:
    """Few long lines, one after the other, each by all devices."""
    first = keys[0]
    shape, devices = first.shape, first.layout.devices
    target = _even(context, shape, axis, devices, backward)
    even = _even(context, (shape[axis],), 0, devices, backward)
    parted = len(keys) == 1 and can_part(first.dtype, kth)
    if len(shape) == 1:
        if parted:
            return Sorted(
                target, part_line(context, first, kth, target, positions, name), INDEX if positions else first.dtype
            )
        found = _sort_line(context, keys, even, positions, name)
        chunks = redistribute(context, _operand(found), target, operation=name, chunks=found.chunks)
        return Sorted(target, chunks, found.dtype)
    dtype = INDEX if positions else first.dtype
    with context.reporting():
        chunks = allocate(context, target, dtype, label=name)
    others = shape[:axis] + shape[axis + 1 :]
    for place in np.ndindex(*others):
        index = (*place[:axis], slice(None), *place[axis:])
        own = [_line(context, key, index, axis) for key in keys]
        if parted:
            found = Sorted(even, part_line(context, own[0], kth, even, positions, name), dtype)
        else:
            found = _sort_line(context, own, even, positions, name)
        rows = [None if chunk is None else chunk.array[index] for chunk in chunks]
        held = dict(zip([device for device, _ in target.chunks], rows, strict=True))
        copy_into(context, _operand(found), even, [held[device] for device, _ in even.chunks], operation=name)
    return Sorted(target, chunks, dtype)


def _line(context: Context, source: Operand, index: tuple[Any, ...], axis: int) -> Operand:
    """One line of an operand, as an operand."""
    homes: dict[int, list[Region]] = {device: [] for device in source.layout.devices}
    held: dict[tuple[int, Region], Any] = {}
    for (device, region), array in zip(source.layout.chunks, source.arrays, strict=True):
        inside = all(r.holds(i) for a, (r, i) in enumerate(zip(region, index, strict=True)) if a != axis)
        if not (inside and region.size):
            continue
        line = Region([region[axis]])
        if (device, line) not in held:
            homes[device].append(line)
            key = [
                (i - r.start) // r.step if a != axis else i for a, (r, i) in enumerate(zip(region, index, strict=True))
            ]
            held[device, line] = None if array is None else array[tuple(key)]
    layout = context.layout(IndexMap((source.shape[axis],), homes))
    return Operand(layout, [held[chunk] for chunk in layout.chunks], source.dtype)


def _sort_line(context: Context, keys: Sequence[Operand], even: Layout, positions: bool, name: str) -> Sorted:
    """Sort one line; each device then has a run of the result: the one that it has in `even`, or one near it."""
    first, order = in_blocks(context, keys[0], name)
    others = [_brought(context, key, first.layout, name) for key in keys[1:]]
    layout = first.layout
    plain = not positions and first.dtype.kind in "biuf"
    parts: list[Contribution] = []
    tasks: list[Callable[[], None]] = []

    def prepare(device: Device, arrays: Sequence[Any], start: int, held: list[Chunk | None]) -> None:
        with device.active():
            permutation = ordering.argsort(device.lib, _key_columns(device.lib, arrays))
            held += [device.adopt(array[permutation], name) for array in arrays]
            if positions:
                permutation += start
                held.append(device.adopt(permutation, name))

    chunks: list[list[Chunk | None]] = []
    for i in order:
        device_id, region = layout.chunks[i]
        device = context.by_id[device_id]
        held: list[Chunk | None] = []
        chunks.append(held)
        if device.process == context.process:
            arrays = [key.arrays[i] for key in (first, *others)]
            if not plain:  # plain values are cut first, and sorted once, where they arrive
                tasks.append(partial(prepare, device, arrays, region[0].start, held))
    nbytes = sum([array.nbytes for array in first.arrays if array is not None])
    on_devices(context, tasks, nbytes)
    for i, held in zip(order, chunks):
        device_id, region = layout.chunks[i]
        here = context.by_id[device_id].process == context.process
        given = first.arrays[i] if plain and here else None
        parts.append(Contribution(device_id, region.size, held if here else None, given))
    moved: list[tuple[Any, tuple[int, ...]]] = [(key.dtype, ()) for key in keys]
    heads = len(keys)
    # where blocks are empty, at the end, the devices do not matter
    wanted = sorted(even.chunks, key=lambda chunk: (not chunk[1].size, chunk[1][0].start))
    targets = [device for device, _ in wanted]
    ranks = list(accumulate([region.size for _, region in wanted]))[:-1]
    keys_of = _heads_only(heads)
    splitters = sample_splitters(context, parts, moved, keys_of, ranks, not plain)
    if positions:
        moved.append((INDEX, ()))
    sizes = [region.size for _, region in wanted] if plain else None
    exchange = spread(
        context, parts, moved, keys_of, targets, splitters, is_sorted=not plain, operation=name, even=sizes
    )
    done = _finished(context, exchange, heads, positions, first.dtype, name)
    if plain:
        found = dict(zip(targets, exchange.evened(first.dtype, name), strict=True))
        return Sorted(even, [found[device] for device, _ in even.chunks], first.dtype)
    runs, numbers = intervals(context, in_intervals(exchange.sizes, exchange.targets))
    return Sorted(runs, [done[i] for i in numbers], INDEX if positions else first.dtype)


def _key_columns(lib: Library, arrays: Sequence[Any]) -> list[Any]:
    return [column for array in arrays for column in ordering.columns(lib, array)]


def _heads_only(count: int) -> Any:
    """Keys out of the first arrays of each row."""
    return lambda lib, arrays: _key_columns(lib, arrays[:count])


def _finished(
    context: Context, exchange: Exchange, heads: int, positions: bool, dtype: np.dtype[Any], name: str
) -> list[Chunk | None]:
    """Every target sorts what it received: plain values where they are."""
    plain = not positions and dtype.kind in "biuf"
    done: list[Chunk | None] = [None] * len(exchange.targets)

    def finish(number: int, device: Device) -> None:
        arrays = exchange.received(number)
        with device.active():
            if plain:
                ordering.sort_lines(device.lib, arrays[0], arrays[0], alike=not exchange.differ)
                return
            permutation = ordering.merge(device.lib, _key_columns(device.lib, arrays[:heads]))
            done[number] = device.adopt(arrays[-1][permutation], name)

    tasks, nbytes = [], 0
    for i, device_id in enumerate(exchange.targets):
        device = context.by_id[device_id]
        if device.process == context.process:
            tasks.append(partial(finish, i, device))
            nbytes += exchange.sizes[i] * dtype.itemsize
    on_devices(context, tasks, nbytes)
    return done
