"""Partitions of a line that is split over devices: no element is compared but with those that belong at the wanted places.

These are selected (see ``selection``). Every device then groups its elements, by counting, into those before, equal to and
between them; the sizes of the groups are agreed; and each element, or its position, moves once, to where its group stands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray.algorithms.sample_sort import agreed, held_once, intervals, on_devices
from distarray.algorithms.selection import candidates, selected
from distarray.devices import Chunk, Device, ordering
from distarray.devices.arrays import AnyDType, DeviceArray
from distarray.geometry import Range
from distarray.layout import Layout
from distarray.storage import Operand
from distarray.transfer.execute import redistribute

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = ["can_part", "part_line"]

MANY = 32
"""For more places than this a line is sorted: elements are compared with each of the selected ones."""

INDEX = np.dtype(np.int64)


def can_part(dtype: AnyDType, kth: Sequence[int]) -> bool:
    """Whether a line of this dtype is parted at these places, rather than sorted."""
    return dtype.kind in "biuf" and 0 < len(kth) <= MANY


def part_line(
    context: Context, source: Operand, kth: Sequence[int], target: Layout, positions: bool, name: str
) -> list[Chunk | None]:
    """The elements of a line, or their positions, in a layout, with what belongs at places `kth`, ascending, there.

    Notes
    -----
    Communication: a few rounds of small samples and counts; each element, or position, once.
    """
    source = held_once(context, source)
    found = candidates(context, source)
    chosen = selected(found, [k for k in kth if k < found.total])
    values = np.unique(np.array(list(chosen.values()), source.dtype))
    dtype = INDEX if positions else source.dtype
    devices = source.layout.devices
    width = 2 * len(values) + 2
    rows: list[Any] = [None] * len(devices)
    grouped: list[Any] = [None] * len(devices)
    tasks: list[Callable[[], None]] = []
    for number, device_id in enumerate(devices):
        device = context.by_id[device_id]
        if device.process == context.process:
            own = [source.layout.index_map.chunks[i][1][0] for i in source.layout.index_map.chunk_ids(device_id)]
            arrays = [source.arrays[i] for i in source.layout.index_map.chunk_ids(device_id)]
            tasks.append(partial(_group, device, own, arrays, values, dtype, positions, name, number, rows, grouped))
    on_devices(context, tasks, sum([array.nbytes for array in source.arrays if array is not None]))
    counts = agreed(context, devices, rows, width)
    starts = np.cumsum(counts.T.ravel()).reshape(counts.T.shape).T - counts
    pieces = [
        (device, int(starts[i, group]), int(counts[i, group]))
        for i, device in enumerate(devices)
        for group in range(width)
    ]
    layout, order = intervals(context, pieces)
    ends = np.cumsum(counts, axis=1)
    arrays = []
    for number in order:
        i, group = divmod(number, width)
        chunk = grouped[i]
        arrays.append(None if chunk is None else chunk.array[ends[i, group] - counts[i, group] : ends[i, group]])
    return redistribute(context, Operand(layout, arrays, dtype), target, operation=name)


def _group(
    device: Device,
    runs: Sequence[Range],
    arrays: Sequence[Any],
    values: DeviceArray,
    dtype: AnyDType,
    positions: bool,
    name: str,
    number: int,
    rows: list[Any],
    grouped: list[Any],
) -> None:
    """Group what one device has: before the first value, equal to it, between it and the next, …, and NaN."""
    lib, width = device.lib, 2 * len(values) + 2
    with device.active():
        chunk = device.empty((sum([run.size for run in runs]),), dtype, name)
        grouped[number] = chunk
        if not positions:
            if arrays:
                lib.concatenate(arrays, out=chunk.array)
            bounds = [(value, equals) for value in values for equals in (0, None)]
            missing = [(lib.nan, 0)] if dtype.kind == "f" else []
            cuts, _ = ordering.cut_at(lib, chunk.array, [*bounds, *missing])
            ends = [0, *cuts, *[chunk.array.size] * (width - len(cuts))]
            rows[number] = np.diff(ends)
            return
        array = arrays[0] if len(arrays) == 1 else lib.concatenate([lib.empty(0, values.dtype), *arrays])
        group = lib.zeros(array.shape, np.int8)
        for value in values:
            group += array >= value
            group += array > value
        if array.dtype.kind == "f":
            group[array != array] = width - 1
        rows[number] = device.to_host(lib.bincount(group, minlength=width))
        places = [lib.arange(run.start, run.start + run.step * run.size, run.step, dtype=INDEX) for run in runs]
        place = places[0] if len(places) == 1 else lib.concatenate([lib.empty(0, INDEX), *places])
        lib.take(place, ordering.argsort(lib, [group]), out=chunk.array)
