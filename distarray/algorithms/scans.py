"""Scans: what ``ufunc.accumulate`` and ``ufunc.reduceat`` of any binary ufunc do on devices.

Results are as large as the operand and stay where it is: along a split axis only one running slice passes from each device to the
next. Runs of elements that are reduced are dealt to devices where no device holds them whole.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from distarray.algorithms.folds import (
    UNFOLDED,
    Relay,
    Segment,
    carry,
    item_dtype,
    local_reduce,
    relay,
    run_tasks,
    ufunc_of,
)
from distarray.algorithms.reduction import in_blocks
from distarray.array.dtypes import loop_dtype
from distarray.array.layouts import resolve_layout
from distarray.array.place import place
from distarray.array.state import DistributedArray, from_chunks
from distarray.context import Context
from distarray.devices import Device, arrays_of, in_turn
from distarray.devices.arrays import DeviceArray
from distarray.fusion.conditions import WarningOnce
from distarray.fusion.kernels import scans as kernels
from distarray.fusion.native.vectors import accumulated
from distarray.geometry import IndexMap, Range, Region
from distarray.layout import Layout
from distarray.storage import Operand
from distarray.transfer.execute import allocate, redistribute

__all__ = ["Accumulation", "reduced_at", "scanned"]

STRETCH = 1 << 14
"""Elements of a vector that are scanned at once on a host device, where something comes before them."""


class Accumulation(NamedTuple):
    """A call whose arguments have been checked."""

    ufunc: np.ufunc
    axis: int
    dtype: Any
    given: Any


def scanned(context: Context, call: Accumulation, a: DistributedArray) -> DistributedArray:
    """``ufunc.accumulate`` along an axis: lines that a device holds whole there, others carried from device to device."""
    name = f"{call.ufunc.__name__}.accumulate"
    with context.lock:
        context.check()
        if not a.size:
            layout = resolve_layout(context, None, a.shape, itemsize=call.dtype.itemsize)
            return place(context, np.empty(a.shape, call.dtype), layout)
        ufunc_of(context.local_devices[0], call.ufunc)  # refuses a ufunc that the devices lack, on every process
        found = a._operand(name)
        if _is_whole(found, call.axis):
            return _scan_lines(context, call, found, name)
        way = _scan_way(context, found.layout, call.axis)
        if way is None:
            found, _ = in_blocks(context, found, None, call.axis, name)
            if _is_whole(found, call.axis):
                return _scan_lines(context, call, found, name)
            way = _scan_way(context, found.layout, call.axis)
            assert way is not None
        return _scan_carried(context, call, found, way, name)


def _is_whole(found: Operand, axis: int) -> bool:
    """Whether every chunk holds whole lines along an axis."""
    n = found.shape[axis]
    return all(region[axis].size == n or not region.size for _, region in found.layout.chunks)


def _scan_lines(context: Context, call: Accumulation, found: Operand, name: str) -> DistributedArray:
    """Every device scans its own lines."""
    with context.reporting():
        chunks = allocate(context, found.layout, call.dtype, label=name)
    tasks: dict[int, list[Callable[[], None]]] = {}
    nbytes = 0
    for (device_id, region), array, chunk in zip(found.layout.chunks, found.arrays, chunks, strict=True):
        if region.size and chunk is not None:
            task = partial(_scan_here, chunk.device, call, region[call.axis].size, None, array, chunk.array)
            tasks.setdefault(device_id, []).append(task)
            nbytes += array.nbytes
    _run_dealt(context, call, tasks, nbytes, "accumulate")
    return from_chunks(context, found.layout, chunks, call.dtype)


def _run_dealt(
    context: Context, call: Accumulation, tasks: dict[int, list[Callable[[], None]]], nbytes: int, name: str
) -> None:
    """The tasks of each device one after the other, those of all devices side by side."""
    dealt = [partial(in_turn, work) for work in tasks.values()]
    run_tasks(context, dealt, nbytes, name, fallible=call.ufunc is np.power)


class _ScanWay(NamedTuple):
    """The chains of a scan along a split axis, the layout of its result, and by the identity of a segment its part of that."""

    relay: Relay
    layout: Layout
    regions: dict[int, Region]


def _scan_way(context: Context, layout: Layout, axis: int) -> _ScanWay | None:
    """How a scan goes along a split axis of a layout; None where nobody holds runs of it that are long enough."""
    key = ("scan", layout, axis)
    found: Any = context.layouts.remembered(key)
    if found is None:
        way = relay(context, layout, axis)
        found = context.layouts.remember(key, (None if way is None else _ways(context, layout, way),))
    return found[0]  # type: ignore[no-any-return]


def _ways(context: Context, layout: Layout, way: Relay) -> _ScanWay:
    homes: dict[int, list[Region]] = {}
    regions: dict[int, Region] = {}
    for _, segments in way.chains:
        for segment in segments:
            whole = layout.chunks[segment.chunk][1]
            key = Region([Range.from_slice(s, n) for s, n in zip(segment.key, whole.shape, strict=True)])
            region = regions[id(segment)] = whole.compose(key)
            homes.setdefault(segment.device, []).append(region)
    return _ScanWay(way, context.layout(IndexMap(layout.shape, homes)), regions)


def _scan_carried(context: Context, call: Accumulation, found: Operand, way: _ScanWay, name: str) -> DistributedArray:
    """The devices along the axis scan in turn, each from the last slice of the one before."""
    axis, shape = call.axis, found.shape
    layout, regions = way.layout, way.regions
    with context.reporting():
        chunks = allocate(context, layout, call.dtype, label=name)
    done = dict(zip(layout.chunks, chunks, strict=True))
    exact = context.kind == "host" and call.ufunc is np.add and call.dtype.kind in "iu" and found.dtype.kind in "biu"
    later: dict[
        int, list[Callable[[], None]]
    ] = {}  # integers add in any order: the devices' sums are carried first, then all devices scan at once

    def step(device: Device, segment: Segment, before: DeviceArray, after: DeviceArray) -> None:
        array = found.arrays[segment.chunk][segment.key]
        chunk = done[device.id, regions[id(segment)]]
        assert chunk is not None
        target = chunk.array
        if exact:
            total = np.add.reduce(array, axis=axis, dtype=loop_dtype(call.dtype), keepdims=True)
            after[...] = total if before is None else before + total
            carried = None if before is None else before.copy()
            later.setdefault(device.id, []).append(partial(_scan_integers, call, carried, array, target))
            return
        with device.active():
            _scan_here(device, call, shape[axis], before, array, target)
            after[...] = target[(*(slice(None),) * axis, slice(-1, None))]

    with WarningOnce(context, "accumulate"):
        carry(context, name, way.relay, call.dtype, step, fallible=call.ufunc is np.power)
    nbytes = sum(chunk.array.nbytes for chunk in chunks if chunk is not None)
    context.run([partial(in_turn, tasks) for tasks in later.values()], nbytes)
    return from_chunks(context, layout, chunks, call.dtype)


def _scan_integers(call: Accumulation, before: Any, array: Any, out: Any) -> None:
    """Running sums of integers, which wrap alike in any order, from a running slice where there is one."""
    np.add.accumulate(array, axis=call.axis, dtype=loop_dtype(call.dtype), out=out)
    if before is not None:
        np.add(out, before, out=out)


def _scan_stretches(call: Accumulation, before: Any, array: DeviceArray, out: DeviceArray) -> None:
    """Scan a long vector from an element `before`, in stretches that stay in cache: each begins with the last one's end, so
    that elements are taken one after the other as NumPy takes them."""
    given = np.empty(2 * STRETCH + 1, call.dtype)
    found = np.empty_like(given)
    given[0] = before[0]
    low = 0
    while low < array.size:
        high = low + STRETCH if array.size - low >= 2 * STRETCH else array.size  # none is a single element
        count = high - low
        given[1 : count + 1] = array[low:high]
        call.ufunc.accumulate(given[: count + 1], dtype=loop_dtype(call.dtype), out=found[: count + 1])
        out[low:high] = found[1 : count + 1]
        given[0] = found[count]
        low = high


def _scan_here(device: Device, call: Accumulation, total: int, before: Any, array: Any, out: Any) -> None:
    """Scan a chunk into `out`, from a running slice `before` where there is one; the whole axis has length `total`."""
    lib, ufunc, axis = device.lib, ufunc_of(device, call.ufunc), call.axis
    head = (slice(None),) * axis
    with device.active():
        rows = array.shape[axis] + (before is not None)
        lonely = rows == 2 and total > 2  # NumPy's loops over one step and over several may round differently
        if device.kind == "host" and call.given in (None, call.dtype) and accumulated(ufunc, before, array, out):
            return
        if device.kind == "host" and before is None and not lonely:
            ufunc.accumulate(array, axis=axis, dtype=call.given, out=out)
            return
        wanted = item_dtype(call.ufunc, call.dtype, array.dtype, call.given)
        scans = {"add": "cumsum", "multiply": "cumprod"}
        if wanted == call.dtype and (device.kind == "host" or call.ufunc.__name__ in scans):
            if device.kind != "host" and kernels.scan(lib, call.ufunc.__name__, array, out, axis, before):
                return
            if device.kind == "host" and array.ndim == 1 and before is not None and array.size > 2 * STRETCH:
                _scan_stretches(call, before, array, out)
                return
            # a GPU multiplies blocks first, which may overflow halves where no product from the start does
            halves = device.kind != "host" and call.dtype == np.float16
            work = np.dtype(np.float32) if halves else call.dtype
            joined = lib.ones((*out.shape[:axis], 3 if lonely else rows, *out.shape[axis + 1 :]), work)
            if before is not None:
                joined[(*head, slice(0, 1))] = before
            mine = (*head, slice(rows - array.shape[axis], rows))
            joined[mine] = array.astype(call.dtype)
            if device.kind == "host":
                joined = ufunc.accumulate(joined, axis=axis, dtype=loop_dtype(call.dtype))
            else:
                joined = getattr(lib, scans[call.ufunc.__name__])(joined, axis=axis)
            out[...] = joined[mine]
            return
        value = before
        later = array.astype(wanted, copy=False)
        for i in range(array.shape[axis]):
            key = (*head, slice(i, i + 1))
            value = array[key].astype(call.dtype) if value is None else ufunc(value, later[key]).astype(call.dtype)
            out[key] = value


def reduced_at(
    context: Context, call: Accumulation, a: DistributedArray, runs: list[Range], shape: tuple[int, ...]
) -> DistributedArray:
    """``ufunc.reduceat``: each run of elements along an axis reduced to one."""
    name, at = f"{call.ufunc.__name__}.reduceat", call.axis
    ufunc_of(context.local_devices[0], call.ufunc)  # refuses a ufunc that the devices lack, on every process
    found = a._operand(name)
    shares: list[tuple[int, Region, list[int], list[Range]]] = []  # device, result region, source chunks, their ranges
    if _is_whole(found, at):
        for i, (device_id, region) in enumerate(found.layout.chunks):
            if region.size:
                result = Region((*region[:at], Range.full(len(runs)), *region[at + 1 :]))
                shares.append((device_id, result, [i], [region[at]]))
    else:
        found, shares = _dealt(context, found, at, runs, shape, name)
    homes: dict[int, list[Region]] = {}
    for device_id, result, _, _ in shares:
        homes.setdefault(device_id, []).append(result)
    layout = context.layout(IndexMap(shape, homes))
    with context.reporting():
        chunks = allocate(context, layout, call.dtype, label=name)
    waiting = {row: chunk for row, chunk in zip(layout.chunks, chunks, strict=True) if chunk is not None}
    tasks: dict[int, list[Callable[[], None]]] = {}
    for device_id, result, sources, held in shares:
        chunk = waiting.pop((device_id, result), None)
        if chunk is None:
            continue
        mine = [runs[i] for i in range(result[at].start, result[at].start + result[at].size)]
        arrays = [found.arrays[i] for i in sources]
        task = partial(_reduce_runs, chunk.device, call, arrays, held, mine, chunk.array)
        tasks.setdefault(device_id, []).append(task)
    nbytes = sum([array.nbytes for array in found.arrays if array is not None])
    _run_dealt(context, call, tasks, nbytes, "reduceat")
    return from_chunks(context, layout, chunks, call.dtype)


def _dealt(
    context: Context, found: Operand, at: int, runs: list[Range], shape: tuple[int, ...], name: str
) -> tuple[Operand, list[tuple[int, Region, list[int], list[Range]]]]:
    """The operand moved so that each device holds all that an even share of the runs needs."""
    ids = context.group.ids
    bounds = [len(runs) * i // len(ids) for i in range(len(ids) + 1)]
    full = Region.full(found.shape)
    homes: dict[int, list[Region]] = {}
    for k, device_id in enumerate(ids):
        pieces: list[Range] = []
        for run in sorted(set(runs[bounds[k] : bounds[k + 1]])):
            if pieces and run.start <= pieces[-1].stop:
                last = pieces[-1]
                stop = last.stop if last.stop > run.stop else run.stop
                pieces[-1] = Range.of(last.start, 1, stop - last.start)
            else:
                pieces.append(run)
        homes[device_id] = [Region((*full[:at], piece, *full[at + 1 :])) for piece in pieces]
    index_map = IndexMap(found.shape, homes)
    layout = context.layout(index_map)
    moved = Operand(layout, arrays_of(redistribute(context, found, layout, operation=name)), found.dtype)
    shares = []
    for k, device_id in enumerate(ids):
        count = bounds[k + 1] - bounds[k]
        if count:
            result = Region((*full[:at], Range.of(bounds[k], 1, count), *full[at + 1 :]))
            sources = list(index_map.chunk_ids(device_id))
            shares.append((device_id, result, sources, [index_map.chunks[i][1][at] for i in sources]))
    return moved, shares


def _reduce_runs(
    device: Device, call: Accumulation, arrays: list[Any], held: list[Range], runs: list[Range], out: Any
) -> None:
    """Reduce each run of a share, which lies in one of the arrays held."""
    head = (slice(None),) * call.axis
    with device.active():
        library = device.kind == "host" and call.ufunc not in UNFOLDED
        if library and len(held) == 1 and _in_a_row(runs, held[0].stop):
            starts = [run.start - held[0].start for run in runs]
            call.ufunc.reduceat(arrays[0], starts, axis=call.axis, dtype=call.given, out=out)
            return
        for i, run in enumerate(runs):
            j = next(j for j, own in enumerate(held) if own.covers(run))
            low = run.start - held[j].start
            part = arrays[j][(*head, slice(low, low + run.size))]
            target = out[(*head, slice(i, i + 1))]
            if library:
                call.ufunc.reduceat(part, [0], axis=call.axis, dtype=call.given, out=target)
            else:
                local_reduce(device, call.ufunc, part, target, (call.axis,), call.given, None, None)


def _in_a_row(runs: list[Range], stop: int) -> bool:
    """Whether each run ends where the next begins, and the last at `stop`."""
    return all(a.stop == b for a, b in zip(runs, [*[run.start for run in runs[1:]], stop], strict=True))
