"""Gathering along indexed axes: which elements each device lacks for a list of positions, and bringing them there.

It exists so that integer-array reads, writes and ``ufunc.at`` share one plan: positions are sorted once, each piece of a
source layout finds its own by bisection, and what is not on the device already travels packed, in one round.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from distarray.context import Context
from distarray.devices import Chunk, Device, in_turn
from distarray.devices.arrays import DeviceArray, Library
from distarray.fusion.blocks import REGISTERS
from distarray.fusion.kernels import selections
from distarray.fusion.native import vectors
from distarray.geometry import IndexMap, Region
from distarray.layout import Layout
from distarray.storage import Operand
from distarray.transfer.execute import is_uncounted
from distarray.transfer.ledger import note, watching
from distarray.transfer.round import Round

__all__ = ["IndexedBoxes", "Order", "Request", "fetch", "local_index", "project", "split_target"]

TAKEN_BYTES = 1 << 17
"""How much a host device takes before it puts it in its places."""

Index = tuple[Any, ...]
"""One flat int64 array for each indexed axis, all of one length, values in range."""


class Request(NamedTuple):
    """`device` wants the elements at the positions `index` of the indexed axes, for `rest` of the other axes."""

    device: int
    indices: Index
    rest: Region


class Portion(NamedTuple):
    """Part of a request: positions `places` of it, for `part` of the other axes, out of the source's chunk `giver`."""

    places: Any
    part: Region
    giver: int


class IndexedBoxes:
    """Boxes along the indexed axes, and in which order they lie along the first: the same for all positions."""

    def __init__(self, regions: Sequence[Region]) -> None:
        self.regions = tuple(regions)
        held = [(i, box[0]) for i, box in enumerate(self.regions) if box.size]
        ranges = {r for _, r in held}
        self.held = held
        self.alone = len(ranges) < 2
        steps = {r.step for r in ranges if r.size > 1}
        self.step = steps.pop() if len(steps) == 1 else 1
        self.last = max([r.last for r in ranges], default=0)
        self.rows = self._ordered(self.last) if self.step == 1 and not self.alone else None

    def _ordered(self, last: int) -> tuple[Any, list[tuple[int, int]], bool] | None:
        """Where the ranges start, in order; each box with its place among them; and whether they leave nothing out. Positions go
        up to `last`. None where ranges lie in each other's way.

        Ranges of one step do not: they are intervals, once numbers are ordered by their remainder first.
        """
        step, bound = self.step, last + 1
        if step * bound > np.iinfo(np.int64).max:
            return None
        intervals = {r: (r.start % step * bound + r.start, r.start % step * bound + r.last) for _, r in self.held}
        ordered = sorted(intervals.items(), key=lambda item: item[1])
        pairs = list(zip(ordered, ordered[1:], strict=False))
        if any(one[1] >= two[0] for (_, one), (_, two) in pairs):
            return None
        number = {r: k for k, (r, _) in enumerate(ordered)}
        starts = np.array([start for _, (start, _) in ordered], np.int64)
        full = step == 1 and starts[0] == 0 and all(one[1] + 1 == two[0] for (_, one), (_, two) in pairs)
        return starts, [(i, number[r]) for i, r in self.held], full

    def deal(self, first: DeviceArray) -> tuple[list[tuple[int, Any]], bool] | None:
        """For each box the positions next to it, and whether they lie within it along the first axis; None where boxes lie in
        each other's way."""
        if self.alone:
            everything = np.arange(first.size)
            return [(i, everything) for i, _ in self.held], False
        step = self.step
        rows, last = self.rows, self.last
        if step > 1:
            last = max(last, int(first.max(initial=0)))
            rows = self._ordered(last)
        if rows is None:
            return None
        starts, places, full = rows
        place: Any = starts.searchsorted(first if step == 1 else first % step * (last + 1) + first, "right") - 1
        if first.size == 1:
            here = int(place[0])
            return [(i, np.zeros(1, np.intp)) for i, k in places if k == here], full and int(first[0]) <= last
        if len(starts) < 1 << 15:
            place = place.astype(np.int16)  # short integers are sorted by their digits
        order = place.argsort(kind="stable")
        cuts = place[order].searchsorted(np.arange(len(starts) + 1)).tolist()
        near = [(i, order[cuts[k] : cuts[k + 1]]) for i, k in places if cuts[k] < cuts[k + 1]]
        return near, full and int(first.max(initial=0)) <= last


class Order:
    """Positions, to be found by the boxes that hold them.

    Where the boxes' ranges along the first indexed axis are disjoint, and of one step, positions are dealt out to them in
    linear time; otherwise they are sorted along that axis, and each box bisects.
    """

    def __init__(self, index: Index) -> None:
        self.index = index

    def select(self, boxes: Sequence[Region] | IndexedBoxes) -> list[tuple[int, Any]]:
        """``(i, positions in ascending order)`` of the boxes that hold at least one position."""
        if not isinstance(boxes, IndexedBoxes):
            boxes = IndexedBoxes(boxes)
        dealt = boxes.deal(self.index[0])
        near, exact = (self._bisected(boxes.regions), False) if dealt is None else dealt
        if exact and len(self.index) == 1:
            return near
        found = [(i, self._inside(boxes.regions[i], candidates)) for i, candidates in near]
        return [(i, positions) for i, positions in found if positions.size]

    def _bisected(self, boxes: Sequence[Region]) -> list[tuple[int, Any]]:
        first = self.index[0]
        order = np.argsort(first, kind="stable")
        ordered = first[order]
        low = np.searchsorted(ordered, np.array([box[0].start for box in boxes], np.int64), "left")
        high = np.searchsorted(ordered, np.array([box[0].stop for box in boxes], np.int64), "left")
        return [(int(i), np.sort(order[low[i] : high[i]])) for i in np.nonzero(high > low)[0]]

    def _inside(self, box: Region, candidates: DeviceArray) -> Any:
        """Those candidates that lie in the box."""
        for r, values in zip(box, self.index, strict=True):
            offset = values[candidates] - r.start
            keep = (offset >= 0) & (offset <= r.last - r.start)
            if r.step > 1:
                keep &= offset % r.step == 0
            if not keep.all():
                candidates = candidates[keep]
        return candidates


def project(region: Region, axes: Sequence[int]) -> Region:
    """The ranges of `region` along `axes`, in that order."""
    return Region([region[a] for a in axes])


def rest_axes(ndim: int, axes: Sequence[int]) -> tuple[int, ...]:
    """The axes that are not in `axes`."""
    return tuple([a for a in range(ndim) if a not in axes])


def local_index(index: Index, region: Region, places: DeviceArray | None = None) -> Index:
    """Indices along a whole axis as indices into a chunk that holds `region` of it."""
    chosen = index if places is None else tuple([i[places] for i in index])
    return tuple(
        [i if r.start == 0 and r.step == 1 else (i - r.start) // r.step for i, r in zip(chosen, region, strict=True)]
    )


def upload(device: Device, index: Index) -> Index:
    """Host index arrays on a device."""
    if device.lib is np:
        return index
    return tuple([device.from_host(i, label="indices").array for i in index])


def take(lib: Library, array: DeviceArray, index: Index) -> Any:
    """``array[index]`` for integer arrays of one shape along the leading axes."""
    if len(index) == 1:
        if lib is not np:
            out = lib.empty((index[0].size, *array.shape[1:]), array.dtype)
            if selections.take_rows(lib, array, index[0], out):
                return out
        return lib.take(array, index[0], axis=0)
    return array[index]


class _Groups(NamedTuple):
    """The cells of a layout by where they lie on the indexed axes."""

    boxes: IndexedBoxes
    cells: tuple[tuple[tuple[Region, tuple[int, ...]], ...], ...]  # for each box: (region of the other axes, holders)


def _groups(context: Context, layout: Layout, axes: tuple[int, ...]) -> _Groups:
    key = ("gather", layout, axes)
    found = context.layouts.remembered(key)
    if found is None:
        others = rest_axes(len(layout.shape), axes)
        by_box: dict[Region, list[tuple[Region, tuple[int, ...]]]] = {}
        for cell in layout.index_map.cells:
            by_box.setdefault(project(cell.region, axes), []).append((project(cell.region, others), cell.holders))
        boxes = tuple(sorted(by_box))
        found = context.layouts.remember(key, _Groups(IndexedBoxes(boxes), tuple(tuple(by_box[box]) for box in boxes)))
    return found  # type: ignore[no-any-return]


def _pieces(context: Context, layout: Layout, axes: tuple[int, ...], request: Request, turn: int) -> list[Portion]:
    """Where each element of a request comes from: the device's own chunks first, else its share of the holders."""
    chunks = layout.chunks
    others = rest_axes(len(layout.shape), axes)
    everything = np.arange(request.indices[0].size)
    for own in layout.index_map.chunk_ids(request.device):
        region = chunks[own][1]
        whole = all(region[a].size == layout.shape[a] for a in axes)
        if whole and project(region, others).covers(request.rest):
            return [Portion(everything, request.rest, own)]
    groups = _groups(context, layout, axes)
    found: dict[tuple[Region, int], list[Any]] = {}
    for i, positions in Order(request.indices).select(groups.boxes):
        for region, holders in groups.cells[i]:
            part = region.intersect(request.rest)
            if part is None:
                continue
            giver = next((h for h in holders if chunks[h][0] == request.device), holders[turn % len(holders)])
            found.setdefault((part, giver), []).append(positions)
    return [Portion(p[0] if len(p) == 1 else np.concatenate(p), part, giver) for (part, giver), p in found.items()]


def fetch(
    context: Context, source: Operand, axes: tuple[int, ...], requests: Sequence[Request], operation: str
) -> list[Chunk | None]:
    """What the requests ask of a REPLICA operand: on each device an array of shape ``(positions, *rest.shape)``.

    Every process gives all requests, in the same order; those for devices of other processes give None.

    Communication: the elements that a device lacks travel to it once, packed, in one round.
    """
    taken = _taken_here if context.kind == "host" else _taken_near
    near = taken(context, source, axes, requests, operation)
    if near is not None:
        return near
    layout = source.layout
    itemsize = source.dtype.itemsize
    devices = sorted({request.device for request in requests})
    plans = [_pieces(context, layout, axes, r, devices.index(r.device)) for r in requests]
    messages: dict[tuple[int, int], int] = {}
    received: dict[int, int] = {}
    for request, pieces in zip(requests, plans, strict=True):
        for piece in pieces:
            nbytes = piece.places.size * piece.part.size * itemsize
            sender = layout.chunks[piece.giver][0]
            if sender != request.device and nbytes:
                pair = (sender, request.device)
                messages[pair] = messages.get(pair, 0) + nbytes
                received[request.device] = received.get(request.device, 0) + nbytes
    note(messages, bool(messages), operation, explicit=False, temporary=max(received.values(), default=0))
    outs: list[Chunk | None] = []
    with context.reporting():
        for request in requests:
            device = context.by_id[request.device]
            shape = (request.indices[0].size, *request.rest.shape)
            outs.append(device.empty(shape, source.dtype, operation) if device.process == context.process else None)
    arrived = {}
    if context.communicator is not None:
        arrived = _exchange(context, source, axes, requests, plans, operation)
    work: dict[int, list[Any]] = {}
    for number, (request, pieces, out) in enumerate(zip(requests, plans, outs, strict=True)):
        if out is not None:
            parts = [arrived.get((number, turn)) for turn in range(len(pieces))]
            work.setdefault(request.device, []).append(
                partial(_fill, context, source, axes, request, pieces, parts, out)
            )
    with context.reporting():
        context.workers.run(
            [partial(in_turn, tasks) for tasks in work.values()], sum(o.array.nbytes for o in outs if o)
        )
    return outs


def _taken_near(
    context: Context, source: Operand, axes: tuple[int, ...], requests: Sequence[Request], operation: str
) -> list[Chunk | None] | None:
    """What the requests ask of rows that lie in blocks on one GPU, whichever logical device they are of: each request in one
    launch. None of others, and where a ledger is open."""
    if context.communicator is not None or axes != (0,) or watching.get() is not None:
        return None
    blocks = _row_blocks(source.layout, requests, selections.PIECES)
    if blocks is None:
        return None
    gpu: Device = context.by_id[blocks[0].device]
    if not all(gpu.shares_memory(context.by_id[block.device]) for block in blocks):
        return None
    rest = Region(Region.full(source.layout.shape)[1:])
    arrays = [source.arrays[block.number] for block in blocks]
    outs: list[Chunk | None] = []
    for request in requests:
        device = context.by_id[request.device]
        if not device.shares_memory(gpu) or not request.indices[0].size:
            return None
        out = device.empty((request.indices[0].size, *rest.shape), source.dtype, operation)
        with device.active():
            (index,) = upload(device, request.indices)
            if not selections.take_rows_of(device.lib, arrays, index, out.array):
                return None
        outs.append(out)
    return outs


def _taken_here(
    context: Context, source: Operand, axes: tuple[int, ...], requests: Sequence[Request], operation: str
) -> list[Chunk | None] | None:
    """The same of rows that lie in blocks on the host devices of this process, where a kernel takes them."""
    if not is_uncounted(context) or axes != (0,) or not sum([request.indices[0].size for request in requests]):
        return None
    blocks = _row_blocks(source.layout, requests, vectors.PIECES)
    if blocks is None:
        return None
    arrays = [source.arrays[block.number] for block in blocks]
    starts = [block.start for block in blocks]
    rest = source.layout.shape[1:]
    calls = []
    for request in requests:  # all of them: what they ask for is weighed against compiling
        call = vectors.rows_taken(arrays, starts, request.indices[0], (request.indices[0].size, *rest))
        calls.append(call)
    if None in calls:
        return None
    with context.reporting():
        outs = [
            context.by_id[request.device].empty((request.indices[0].size, *rest), source.dtype, operation)
            for request in requests
        ]
    tasks = [partial(call, out.array) for call, out in zip(calls, outs, strict=True) if call is not None]
    context.workers.run(tasks, sum([out.nbytes for out in outs]))
    return list(outs)


class _RowBlock(NamedTuple):
    """Whole rows of an array: the first, the chunk's number, and the device."""

    start: int
    number: int
    device: int


def _row_blocks(layout: Layout, requests: Sequence[Request], most: int) -> list[_RowBlock] | None:
    """The chunks of a layout in order, where they are at most so many blocks of whole rows, as all requests ask for."""
    if len(layout.chunks) > most:
        return None
    rest = Region(Region.full(layout.shape)[1:])
    if any(request.rest != rest for request in requests):
        return None
    found = []
    for i, (device, region) in enumerate(layout.chunks):
        if region.size:
            if region[0].step != 1 or region[1:] != tuple(rest):
                return None
            found.append(_RowBlock(region[0].start, i, device))
    found.sort()
    end = 0
    for block in found:
        if block.start != end:
            return None
        end = layout.chunks[block.number][1][0].stop
    return found or None


def _exchange(
    context: Context,
    source: Operand,
    axes: tuple[int, ...],
    requests: Sequence[Request],
    plans: Sequence[Sequence[Portion]],
    operation: str,
) -> dict[tuple[int, int], Any]:
    """Exchange between processes what the requests need: (request, piece number) → the elements that arrived."""
    wire = Round(context)
    slots: dict[tuple[int, int], int] = {}
    needed = False
    with context.reporting():
        for number, (request, pieces) in enumerate(zip(requests, plans, strict=True)):
            receiver = context.by_id[request.device].process
            for turn, piece in enumerate(pieces):
                sender = context.by_id[source.layout.chunks[piece.giver][0]].process
                if sender == receiver:
                    continue
                needed = True
                wire.mark(sender, receiver, piece.places.size, piece.part.shape, source.dtype)
                data = None
                if sender == context.process:
                    device, held, index = _given(context, source, axes, request, piece)
                    data = _packed(device, held, index)
                slot = wire.carry(sender, receiver, data, (piece.places.size, *piece.part.shape), source.dtype)
                if slot >= 0:
                    slots[number, turn] = slot
    if needed:
        wire.run(operation)
    return {place: wire.received(slot) for place, slot in slots.items()}


def _given(
    context: Context, source: Operand, axes: tuple[int, ...], request: Request, piece: Portion
) -> tuple[Device, Any, Index]:
    """Who gives a piece, its data with the indexed axes first and cut along the others, and the positions in it."""
    others = rest_axes(len(source.layout.shape), axes)
    sender, region = source.layout.chunks[piece.giver]
    held = source.arrays[piece.giver].transpose((*axes, *others))
    held = held[(*[slice(None)] * len(axes), *project(region, others).locate(piece.part).slices)]
    return context.by_id[sender], held, local_index(request.indices, project(region, axes), piece.places)


def _packed(device: Device, held: DeviceArray, index: Index) -> Any:
    with device.active():
        return take(device.lib, held, upload(device, index))


def _fill(
    context: Context,
    source: Operand,
    axes: tuple[int, ...],
    request: Request,
    pieces: Sequence[Portion],
    parts: Sequence[Any],
    out: Chunk,
) -> None:
    """Put a request together; `parts` are the pieces that arrived from other processes, None for those given here."""
    count = request.indices[0].size
    device = out.device
    for piece, packed in zip(pieces, parts, strict=True):
        places = piece.places
        whole = places.size == count and piece.part == request.rest and bool((places[1:] > places[:-1]).all())
        sender = context.local_devices[0]  # where what arrives is staged
        if packed is None:
            sender, held, index = _given(context, source, axes, request, piece)
            if whole and len(index) == 1 and device.lib is np and device.shares_memory(sender):
                # in range already; "raise" would copy twice
                np.take(held, index[0], axis=0, out=out.array, mode="clip")
                continue
            near = device.kind != "host" and len(index) == 1 and piece.part == request.rest
            if (
                near
                and device.shares_memory(sender)
                and _taken(device, held, index[0], out.array, None if whole else places)
            ):
                continue
            if len(index) == 1 and device.lib is np and device.shares_memory(sender) and held.flags.c_contiguous:
                into = out.array[(slice(None), *request.rest.locate(piece.part).slices)]
                _placed(held, index[0], into, places)
                continue
            packed = _packed(sender, held, index)
        if whole:
            device.copy(out.array, packed, sender)
            continue
        if not device.shares_memory(sender):
            arrived = device.empty(packed.shape, packed.dtype, "received elements")
            device.copy(arrived.array, packed, sender)
            packed = arrived.array
        if piece.part == request.rest and _taken(device, packed, None, out.array, places):
            continue
        with device.active():
            out.array[(*upload(device, (places,)), *request.rest.locate(piece.part).slices)] = packed


def _placed(held: DeviceArray, index: DeviceArray, out: DeviceArray, places: DeviceArray) -> None:
    """``out[places] = held[index]`` on the host, some rows at a time: what is taken stays in cache until it is put."""
    nbytes = held[:1].nbytes
    rows = max(1, TAKEN_BYTES // max(1, nbytes))
    if held.ndim > 1 and 8 < nbytes <= TAKEN_BYTES and out.flags.c_contiguous and not held.dtype.hasobject:
        item = np.dtype((np.void, nbytes))  # a row as one element: NumPy has a loop for those
        whole, target = held.reshape(-1).view(item), out.reshape(-1).view(item)
        (memory,) = taken = REGISTERS.take(1)
        try:
            for low in range(0, index.size, rows):
                into = places[low : low + rows]
                row = np.ndarray(into.size, item, memory)
                target[into] = np.take(whole, index[low : low + rows], mode="clip", out=row)
        finally:
            REGISTERS.give(taken)
        return
    for low in range(0, index.size, rows):
        out[places[low : low + rows]] = np.take(held, index[low : low + rows], axis=0, mode="clip")


def _taken(
    device: Device, held: DeviceArray, index: DeviceArray | None, out: DeviceArray, places: DeviceArray | None
) -> bool:
    """``out[places] = held[index]``, rows of a GPU array straight into place, where a kernel takes them so; None: all rows."""
    if device.kind == "host" or not selections.takes_rows(held, out):
        return False
    lists = [each for each in (index, places) if each is not None]
    with device.active():
        numbers = iter(device.from_host(np.stack(lists), label="indices").array)
        return selections.take_rows(
            device.lib,
            held,
            None if index is None else next(numbers),
            out,
            None if places is None else next(numbers),
        )


def split_target(
    context: Context, source: Layout, axes: tuple[int, ...], shape: tuple[int, ...], at: int
) -> tuple[Layout, list[tuple[int, Region, Region]]]:
    """The layout of ``x[indices]``, the index dimensions of `shape` standing at position `at` among the other axes.

    Where every chunk holds the indexed axes whole, each device indexes its own chunks. Otherwise the longest index
    dimension is cut in even blocks, over the devices that hold one and the same part of the other axes.

    Returns
    -------
    layout : Layout
    chunks : list of (device, region of the index dimensions, region of the other axes)
        In the layout's order.
    """
    key = ("split", source, axes, shape, at)
    found = context.layouts.remembered(key)
    if found is None:
        found = context.layouts.remember(key, _split(context, source, axes, shape, at))
    return found  # type: ignore[no-any-return]


def _split(
    context: Context, source: Layout, axes: tuple[int, ...], shape: tuple[int, ...], at: int
) -> tuple[Layout, list[tuple[int, Region, Region]]]:
    others = rest_axes(len(source.shape), axes)
    rest_shape = tuple([source.shape[a] for a in others])
    held: dict[Region, list[int]] = {}
    local = True
    for device, region in source.chunks:
        if not region.size:
            continue
        local = local and all(region[a].size == source.shape[a] for a in axes)
        who = held.setdefault(project(region, others), [])
        if device not in who:
            who.append(device)
    whole = Region.full(shape)
    parts: list[tuple[int, Region, Region]] = []
    if local:
        parts = [(device, whole, rest) for rest, who in held.items() for device in who]
    else:
        if not IndexMap(rest_shape, {0: list(held)}).is_disjoint:
            held = {Region.full(rest_shape): sorted({d for who in held.values() for d in who})}
        axis = max(range(len(shape)), key=lambda a: (shape[a], -a))
        for rest, who in held.items():
            bounds = [shape[axis] * i // len(who) for i in range(len(who) + 1)]
            for device, low, high in zip(sorted(who), bounds, bounds[1:], strict=False):
                if low < high:
                    cut = Region.from_index((*[slice(None)] * axis, slice(low, high)), shape)
                    parts.append((device, cut, rest))
    full = (*rest_shape[:at], *shape, *rest_shape[at:])
    mapping: dict[int, list[Region]] = {device: [] for device in source.devices}
    placed: dict[tuple[int, Region], tuple[int, Region, Region]] = {}
    for device, cut, rest in parts:
        region = Region((*rest[:at], *cut, *rest[at:]))
        mapping[device].append(region)
        placed[device, region] = (device, cut, rest)
    layout = context.layout(IndexMap(full, mapping))
    return layout, [placed[chunk] for chunk in layout.chunks]
