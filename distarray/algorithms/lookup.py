"""Searches in a sorted array that is spread over devices: values go to the device whose run they belong in, and answers
go back the way that they came.

It exists apart from sorting because nothing is sorted but the values asked for: the first elements of the runs are the
splitters, and the exchange is the sample sort's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from distarray.algorithms.sample_sort import (
    Contribution,
    Exchange,
    Splitter,
    counted,
    held_once,
    in_intervals,
    intervals,
    on_devices,
    spread,
)
from distarray.algorithms.sorting import INDEX, Sorted, in_blocks
from distarray.devices import Chunk, Device, arrays_of, ordering
from distarray.devices.arrays import AnyDType, DeviceArray, Library
from distarray.devices.base import Alias
from distarray.geometry import IndexMap, Region
from distarray.layout import Layout
from distarray.storage import Operand
from distarray.transfer.execute import redistribute
from distarray.transfer.to_host import gather_to_host

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = ["look_up"]

FEW_BYTES = 1 << 16
"""A sorted array of at most so many bytes is copied to everyone who asks, and so many are asked of one device at once."""

_BOOL = np.dtype(bool)


def look_up(context: Context, within: Operand, values: Operand, question: str, name: str) -> Sorted:
    """Ask of each value where it belongs in a sorted operand of one axis (``"left"``, ``"right"``: before or behind its
    equals), or whether it is there (``"member"``).

    Both operands are REPLICA and of one dtype; the result has the layout of `values`.

    Notes
    -----
    Communication: none where the devices that ask hold all of the sorted array. Where that is short, or there are more
    values than elements and devices, it goes to all of them. Otherwise each value that another device has to answer goes
    there, and its answer back: in turns where many go to one device, so that it receives about its share at a time.
    """
    dtype = _BOOL if question == "member" else INDEX
    mine, pieces, _ = held_once(context, values)
    if not within.shape[0]:
        return _delivered(context, values.layout, mine, pieces, dtype, name, lambda device, array: device.lib.zeros(
            array.shape, dtype))  # fmt: skip
    whole = Region.full(within.shape)
    holders = [d for d in within.layout.devices if whole in within.layout.index_map.regions(d)]
    if not set(mine.devices) <= set(holders):
        size = within.shape[0]
        if size * within.dtype.itemsize > FEW_BYTES and size * len(mine.devices) > mine.index_map.size:
            answers = _routed(context, within, mine, pieces, question, name)
            return _delivered(context, values.layout, mine, answers, dtype, name, lambda device, array: array)
        everywhere = context.layout(IndexMap(within.shape, {d: [whole] for d in mine.devices}))
        chunks = redistribute(context, within, everywhere, operation=name)
        held = {d: None if c is None else c.array for (d, _), c in zip(everywhere.chunks, chunks, strict=True)}
    else:
        held = {d: a for (d, r), a in zip(within.layout.chunks, within.arrays, strict=True) if r == whole}
    return _delivered(
        context, values.layout, mine, pieces, dtype, name,
        lambda device, array: _answer(device.lib, held[device.id], array, question),
    )  # fmt: skip


def _answer(lib: Library, within: Any, values: DeviceArray, question: str) -> Any:
    flat = values.reshape(-1)
    found = (
        ordering.is_member(lib, within, flat) if question == "member" else ordering.search(lib, within, flat, question)
    )
    return found.reshape(values.shape)


def _delivered(
    context: Context,
    wanted: Layout,
    layout: Layout,
    arrays: Sequence[Any],
    dtype: np.dtype[Any],
    name: str,
    answer: Callable[[Device, Any], Any],
) -> Sorted:
    """Every device answers for its own values; then everyone gets what it asked for."""
    chunks: list[Chunk | None] = [None] * len(arrays)

    def work(device: Device, numbers: Sequence[int]) -> None:
        with device.active():
            for i in numbers:
                array = answer(device, arrays[i])
                chunks[i] = device.adopt(device.lib.ascontiguousarray(array).reshape(arrays[i].shape), name)

    mine: dict[int, list[int]] = {}
    nbytes = 0
    for i, (device_id, region) in enumerate(layout.chunks):
        if context.by_id[device_id].process == context.process:
            mine.setdefault(device_id, []).append(i)
            nbytes += region.size * dtype.itemsize
    on_devices(context, [partial(work, context.by_id[d], numbers) for d, numbers in mine.items()], nbytes)
    if layout is not wanted:
        found = Operand(layout, arrays_of(chunks), dtype)
        chunks = redistribute(context, found, wanted, operation=name, chunks=chunks)
    return Sorted(wanted, chunks, dtype)


def _keys_of(lib: Library, arrays: Sequence[Any]) -> list[Any]:
    return ordering.columns(lib, arrays[0])


def _routed(
    context: Context, within: Operand, layout: Layout, arrays: Sequence[Any], question: str, name: str
) -> list[Any]:
    """The answers to the values of a disjoint layout, from the devices that hold the runs they belong in."""
    within, order = in_blocks(context, within, name)
    runs = [within.layout.chunks[i] for i in order]
    blocks = [within.arrays[i] for i in order]
    asked = _asked(context, layout, arrays, within.dtype, name)
    parts = [part for part, _, _ in asked]
    side = len(parts) if question == "left" else -1  # elements equal to a run's first go before the run, or into it
    splitters = _first_elements(context, within.dtype, runs, blocks, side)
    moved, targets = [(within.dtype, ())], [device for device, _ in runs]
    counts = counted(context, parts, moved, _keys_of, targets, splitters, is_sorted=True, operation=name)
    received = counts.rows.sum(axis=0)
    most, total = int(received.max()), int(received.sum())
    is_skewed = most * within.dtype.itemsize > FEW_BYTES  # or short enough to go at once
    turns = max(round(most * len(runs) / total), 1) if is_skewed else 1
    dtype = _BOOL if question == "member" else INDEX
    results: list[Any] = [
        None if array is None or array.size else array.astype(dtype) for array in arrays
    ]  # those of arrays with elements are filled in below
    straight: list[Any] = [None] * len(asked)
    for turn in range(turns):
        asking = parts if turns == 1 else [_every(part, turn, turns) for part in parts]
        exchange = spread(
            context, asking, moved, _keys_of, targets, splitters, is_sorted=True, operation=name,
            counts=counts if turns == 1 else None,
        )  # fmt: skip
        replies = _replies(context, runs, blocks, exchange, question, name)
        answers = exchange.back(replies, dtype, name)
        del exchange, replies
        for number, ((part, _, permutation), found) in enumerate(zip(asked, answers, strict=True)):
            if permutation is not None:
                device = context.by_id[part.device]
                with context.reporting(), device.active():
                    if straight[number] is None:
                        straight[number] = device.lib.empty(permutation.shape, dtype)
                    straight[number][permutation[turn::turns]] = found
    for (part, own, permutation), found in zip(asked, straight, strict=True):
        if permutation is None:
            continue
        device = context.by_id[part.device]
        with context.reporting(), device.active():
            start = 0
            for i in own:
                shape = layout.chunks[i][1].shape
                size = layout.chunks[i][1].size
                results[i] = found[start : start + size].reshape(shape)
                start += size
    return results


def _every(part: Contribution, first: int, step: int) -> Contribution:
    """Some of what a device asks, from all over it."""
    size = len(range(first, part.size, step))
    if part.chunks is None:
        return part._replace(size=size)
    (chunk,) = part.chunks
    assert chunk is not None
    return part._replace(size=size, chunks=[Alias(chunk, chunk.array[first::step])])


class _Asked(NamedTuple):
    """What one device asks: its values in order, the chunks that they are of, and (of this process) how they were ordered."""

    part: Contribution
    numbers: list[int]
    order: Any


def _asked(context: Context, layout: Layout, arrays: Sequence[Any], dtype: AnyDType, name: str) -> list[_Asked]:
    """The values of each device that has any, sorted."""
    asked: list[_Asked] = []
    tasks: list[Callable[[], None]] = []

    def prepare(device: Device, number: int, mine: Sequence[Any]) -> None:
        lib = device.lib
        with device.active():
            flat = [array.reshape(-1) for array in mine]
            joined = flat[0] if len(flat) == 1 else lib.concatenate(flat)
            order = ordering.argsort(lib, ordering.columns(lib, joined))
            part, own, _ = asked[number]
            asked[number] = _Asked(part._replace(chunks=[device.adopt(joined[order], name)]), own, order)

    for device_id in layout.devices:
        own = [i for i in layout.index_map.chunk_ids(device_id) if layout.chunks[i][1].size]
        if not own:
            continue
        asked.append(_Asked(Contribution(device_id, sum([layout.chunks[i][1].size for i in own]), None), own, None))
        if context.by_id[device_id].process == context.process:
            mine = [arrays[i] for i in own]
            tasks.append(partial(prepare, context.by_id[device_id], len(asked) - 1, mine))
    on_devices(context, tasks, sum([part.size for part, _, _ in asked]) * dtype.itemsize)
    return asked


def _first_elements(
    context: Context, dtype: AnyDType, runs: Sequence[tuple[int, Region]], blocks: Sequence[Any], side: int
) -> list[Splitter]:
    """What parts the order: the first element of every run but the first."""
    pieces, chosen = intervals(context, in_intervals([1] * len(runs), [device for device, _ in runs]))
    firsts = Operand(pieces, [None if blocks[i] is None else blocks[i][:1] for i in chosen], dtype)
    heads = ordering.columns(np, gather_to_host(context, firsts))
    return [Splitter(tuple([head[i] for head in heads]), side, 0) for i in range(1, len(runs))]


def _replies(
    context: Context,
    runs: Sequence[tuple[int, Region]],
    blocks: Sequence[Any],
    exchange: Exchange,
    question: str,
    name: str,
) -> list[Any]:
    """Every device's answers to the values that came to it."""
    answers: list[Any] = [None] * len(runs)

    def reply(device: Device, number: int) -> None:
        (chunk,) = exchange.arrays[number]
        assert chunk is not None
        with device.active():
            found = _answer(device.lib, blocks[number], chunk.array, question)
            if question != "member":
                found += runs[number][1][0].start
        answers[number] = device.adopt(found, name).array

    local = [(i, context.by_id[d]) for i, (d, _) in enumerate(runs) if context.by_id[d].process == context.process]
    on_devices(context, [partial(reply, device, i) for i, device in local], sum(exchange.sizes) * INDEX.itemsize)
    return answers
