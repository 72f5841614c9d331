"""Runs plans: moves and folds chunk data between the devices of a context, and enters every move in the ledger.

Moves from layout to layout pass through this module, which leaves small partial values to ``everywhere`` and ``partial_numbers``.
Expressions fetch what they lack in ``fusion/fetch.py``, functions whose positions depend on data gather in ``algorithms/``, and
``to_host`` and ``ops/processes.py`` bring arrays to processes and from them: all by the rounds of ``transfer/round.py``. Targets
are allocated, and room is checked, before the first byte moves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray.devices import Chunk, Device, in_turn
from distarray.devices.arrays import AnyDType, DeviceArray, Library
from distarray.geometry import IndexMap, Region
from distarray.geometry._spatial import remainder
from distarray.layout import Layout
from distarray.modes import Mode, roomy
from distarray.storage import Operand, Storage, Version, operand, share
from distarray.transfer.everywhere import folded_everywhere
from distarray.transfer.ledger import note, watching
from distarray.transfer.partial_numbers import folded_whole, folds_wide, quiet
from distarray.transfer.plan import Plan, Step, plan, waypoint
from distarray.transfer.round import Round

if TYPE_CHECKING:
    from distarray.context import Context
    from distarray.geometry import ViewMap

__all__ = [
    "CALM", "allocate", "combine", "copy_into", "fill_all", "fold_into", "global_pieces", "halfway",
    "is_uncounted", "redistribute", "resolve", "resolved_operand",
]  # fmt: skip


PIECE = 1 << 14
"""Bytes of a piece below which threads wait for the interpreter more than they copy: such moves are the caller's alone."""


CALM: AbstractContextManager[None] = nullcontext()
"""Where nothing has to be done about floating-point conditions."""


def is_uncounted(context: Context) -> bool:
    """Whether all lies in this process's memory and no ledger is open: nothing is sent, and nobody asks what would be."""
    return context.kind == "host" and context.communicator is None and watching.get() is None


def planned(context: Context, source: Layout, target: Layout) -> Plan:
    """The cached plan of a pair of layouts: of several processes each plans its own part, but where a ledger is open."""
    whole = context.communicator is None or watching.get() is not None
    key = ("plan", source, target, whole)
    found = context.layouts.remembered(key)
    if found is None:
        own = None if whole else [device.id for device in context.local_devices]
        with context.reporting():
            found = context.layouts.remember(key, plan(source, target, own))
    return found  # type: ignore[no-any-return]


def halfway(
    context: Context, source: Layout, target: Layout, least: int | None = None, factor: int = 2
) -> Layout | None:
    """The layout that a move goes by way of (see `waypoint`); None where it goes straight, as nearly all do."""
    if target.is_partial or source.index_map == target.index_map:
        return None
    key = ("halfway", source, target, least, factor)
    if (found := context.layouts.remembered(key)) is None:
        found = context.layouts.remember(key, (waypoint(source.index_map, target.index_map, least, factor),))
    return None if found[0] is None else context.layout(found[0])


def allocate(
    context: Context, layout: Layout, dtype: AnyDType, fill: Mode | None = None, label: str = ""
) -> list[Chunk | None]:
    """A chunk for each region of a layout that this process owns (None for the others), uninitialised or filled with a
    mode's identity."""
    chunks: list[Chunk | None] = []
    index_map = layout.index_map
    shapes = index_map.shapes
    with context.reporting():
        for device_id in layout.devices:
            device = context.by_id[device_id]
            span = index_map.chunk_ids(device_id)
            if device.process != context.process:
                chunks += [None] * len(span)
                continue
            if len(span) == 1:
                own = [device.empty(shapes[span.start], dtype, label)]
            else:
                own = device.empties(shapes[span.start : span.stop], dtype, label)
            if fill is not None:
                fill_all(device, own, fill.identity(dtype))
            chunks += own
    return chunks


def fill_all(device: Device, chunks: Sequence[Chunk], value: object) -> None:
    """Set every element of chunks of one device to a scalar."""
    joined = device.joined(chunks) if chunks else None
    for array in [chunk.array for chunk in chunks] if joined is None else [joined]:
        device.fill(array, value)


def redistribute(
    context: Context,
    source: Operand,
    target: Layout,
    *,
    operation: str,
    explicit: bool = False,
    chunks: Sequence[Chunk | None] | None = None,
) -> list[Chunk | None]:
    """New chunks that hold `source` in layout `target`.

    Parameters
    ----------
    operation : str
        Named in the ledger and in errors.
    explicit : bool
        The user asked for this move, so it is allowed inside ``no_implicit_communication()``.
    chunks : sequence of Chunk, optional
        The source's own whole chunks. Where one stands unchanged in the target it is shared, not copied; the caller
        marks what is shared.
    """
    first = source.layout
    if first.is_partial and (everywhere := folded_everywhere(context, source, target, operation)) is not None:
        return everywhere
    if chunks is None and (pieces := _together(context, first, target)) is not None:
        return _dealt(context, source, target, pieces, operation)
    if first.is_partial and target.is_partial and first is not target and _values_first(first, target, source.dtype):
        values = context.layout(target.index_map)
        fresh = redistribute(context, source, values, operation=operation, explicit=explicit)
        source = Operand(values, [None if c is None else c.array for c in fresh], source.dtype)
        chunks = None
    if (middle := halfway(context, source.layout, target)) is not None:
        source, chunks = _by_way_of(context, source, middle, operation, explicit), None
    moves = planned(context, source.layout, target)
    if moves.fill is not None:
        moves.fill.identity(source.dtype)  # a type that the mode does not know is refused before any process has begun
    itemsize = source.dtype.itemsize
    _enter(moves, itemsize, operation, explicit)
    if moves.fill is None and (chunks is None or not moves.alias):
        fresh_chunks = allocate(context, target, source.dtype, label=operation)
    else:
        fresh_chunks = _beside(context, moves, source, chunks, operation)
    targets = [None if c is None else c.array for c in fresh_chunks]
    _run(context, moves, source, targets, operation, aliased=chunks is not None)
    if moves.moving and first.mode is target.mode is Mode.SUM and not first.index_map.covers:
        for i, key in _unheld(
            context, first, target
        ):  # elements that no chunk holds have the value 0, and the identity of sums is -0.0
            chunk = fresh_chunks[i]
            if chunk is not None:
                chunk.device.fill(chunk.array[key], Mode.SUM.unheld(source.dtype))
    return fresh_chunks


TOGETHER = 1 << 14
"""Elements of arrays that move by way of one array, where nobody counts what is sent: planning costs more than the copy."""

FEW = 16
"""The most chunks of either layout then."""


def _together(context: Context, source: Layout, target: Layout) -> list[Any] | None:
    """What the whole value is put together from, where a small array moves so: nothing is partial, and all is in this process."""
    if not is_uncounted(context):
        return None
    if source.is_partial or target.is_partial or len(source.chunks) > FEW or len(target.chunks) > FEW:
        return None
    if not 0 < source.index_map.size <= TOGETHER or not source.index_map.covers:
        return None
    return global_pieces(context, source)


def global_pieces(context: Context, layout: Layout) -> list[tuple[Region, int, int, int, Any]]:
    """What the global value is put together from: region, turn among the partial values of it, device, chunk, key in it."""
    key = ("gather", layout)
    found: list[tuple[Region, int, int, int, Any]] | None = context.layouts.remembered(key)
    if found is None:
        found = []
        for cell in layout.index_map.cells:
            for turn, chunk in enumerate(cell.holders if layout.is_partial else cell.holders[:1]):
                device_id, region = layout.chunks[chunk]
                found.append((cell.region, turn, device_id, chunk, region.locate(cell.region).key))
        context.layouts.remember(key, found)
    return found


def _dealt(
    context: Context, source: Operand, target: Layout, pieces: Sequence[Any], operation: str
) -> list[Chunk | None]:
    fresh = allocate(context, target, source.dtype, label=operation)
    if len(pieces) == 1:
        whole = source.arrays[pieces[0][3]][pieces[0][4]]
    else:
        whole = np.empty(source.shape, source.dtype)
        for region, _, _, chunk, key in pieces:
            whole[region.key] = source.arrays[chunk][key]
    for chunk, (_, region) in zip(fresh, target.chunks, strict=True):
        chunk.array[...] = whole[region.key]  # type: ignore[union-attr]
    return fresh


def _beside(
    context: Context, moves: Plan, source: Operand, chunks: Sequence[Chunk | None] | None, operation: str
) -> list[Chunk | None]:
    """Chunks of a plan's target, of which some are filled, or are the source's own."""
    target = moves.target
    fresh_chunks: list[Chunk | None] = []
    with context.reporting():
        for i, (device_id, region) in enumerate(target.chunks):
            device = context.by_id[device_id]
            if device.process != context.process:
                fresh_chunks.append(None)
            elif chunks is not None and i in moves.alias:
                fresh_chunks.append(chunks[moves.alias[i]])
            elif moves.fill is not None:
                stands = moves.fill.identity if target.is_partial else moves.fill.unheld
                fresh_chunks.append(device.full(region.shape, source.dtype, stands(source.dtype), operation))
            else:
                fresh_chunks.append(device.empty(region.shape, source.dtype, operation))
    return fresh_chunks


def _unheld(context: Context, source: Layout, target: Layout) -> list[tuple[int, Any]]:
    """The elements that `source` has nowhere and `target` somewhere: a chunk and a key in it for each part of them."""
    key = ("unheld", source, target)
    found: list[tuple[int, Any]] | None = context.layouts.remembered(key)
    if found is None:
        found = []
        for device in target.devices:
            for i, part in target.index_map.first_owned(device):
                held = [region for _, region in source.index_map.query(part)]
                rest = remainder(part, held, range(len(held)))
                found += [(i, target.chunks[i][1].locate(piece).key) for piece in rest if piece.size]
        context.layouts.remember(key, found)
    return found


def _values_first(source: Layout, target: Layout, dtype: AnyDType) -> bool:
    """Whether partial values are folded before they are anything in another partial layout."""
    if source.mode is not target.mode:
        return (
            not source.index_map.covers
        )  # elements that no chunk holds have the first mode's value, which is not the second's identity
    # chunks that meet in one are added up; half precisions would overflow
    return folds_wide(source.mode, dtype) and source.index_map != target.index_map


def copy_into(context: Context, source: Operand, target: Layout, arrays: Sequence[Any], *, operation: str) -> None:
    """Write `source` into existing arrays, one for each chunk of the REPLICA layout `target`, of the same dtype.

    The arrays must not overlap the source's memory.
    """
    if (middle := halfway(context, source.layout, target)) is not None:
        source = _by_way_of(context, source, middle, operation, explicit=False)
    moves = planned(context, source.layout, target)
    _enter(moves, source.dtype.itemsize, operation, explicit=False)
    _run(context, moves, source, arrays, operation, aliased=False)


def _by_way_of(context: Context, source: Operand, middle: Layout, operation: str, explicit: bool) -> Operand:
    fresh = redistribute(context, source, middle, operation=operation, explicit=explicit)
    return Operand(middle, [None if c is None else c.array for c in fresh], source.dtype)


def _enter(moves: Plan, itemsize: int, operation: str, explicit: bool) -> None:
    if watching.get() is None:
        return
    first, second = moves.messages(itemsize)
    note(first, bool(first), operation, explicit=explicit)
    if second:
        note(second, 1, operation, explicit=explicit)


def _run(
    context: Context, moves: Plan, source: Operand, targets: Sequence[Any], operation: str, *, aliased: bool
) -> None:
    src, dst = source.layout.chunks, moves.target.chunks
    devices, me = context.by_id, context.process
    itemsize = source.dtype.itemsize
    between = context.communicator is not None
    plain = not source.layout.is_partial
    arrived: dict[tuple[int, int], Any] = {}
    begun: frozenset[int] = frozenset()
    if between and moves.moving:
        begun, ended = _begun(context, moves, source, targets) if plain and context.kind != "host" else (begun, None)
        try:
            arrived = _exchange_steps(context, moves, source, targets, operation)
        finally:
            if ended is not None:
                ended()
    work: dict[int, list[Callable[[], None]]] = {}
    total = 0
    if not aliased:
        for taker, giver in moves.alias.items():
            device = devices[dst[taker][0]]
            if device.process == me:
                task = partial(device.copy, targets[taker], source.arrays[giver], device)
                work.setdefault(device.id, []).append(task)
                total += dst[taker][1].size * itemsize
    copies: dict[int, list[tuple[int, Step]]] = {}
    for number, step in enumerate(moves.steps):
        device = devices[dst[step.target][0]]
        if device.process != me or arrived.get((number, 0)) is _IN_PLACE or number in begun:
            continue
        total += step.size * itemsize * len(step.sources)
        if plain:
            copies.setdefault(device.id, []).append((number, step))
            continue
        view = targets[step.target][step.key]
        parts = []
        for turn, (chunk, key) in enumerate(step.sources):
            if (number, turn) in arrived:
                parts.append((context.local_devices[0], arrived[number, turn]))
            else:
                parts.append((devices[src[chunk][0]], source.arrays[chunk][key]))
        task = partial(fold_into, device, view, parts, source.layout.mode, step.accumulate)
        work.setdefault(device.id, []).append(task)
    for device_id, steps in copies.items():
        task = partial(_copy_steps, context, devices[device_id], steps, source, targets, arrived)
        work.setdefault(device_id, []).append(task)
    folding = between and moves.moving and source.layout.is_partial
    with context.guarding(operation) if folding else context.reporting(), CALM if plain else np.errstate(**quiet()):
        threads = total if total >= len(moves.steps) * PIECE else 0
        context.run([partial(in_turn, tasks) for tasks in work.values()], threads, independent=plain)
    if moves.forwards or (between and moves.forwarding):
        _run_forwards(context, moves, source.dtype, targets, operation)


def _begun(
    context: Context, moves: Plan, source: Operand, targets: Sequence[Any]
) -> tuple[frozenset[int], Callable[[], None]]:
    """Begin the copies of a plan that stay on GPUs of this process, to run beside its messages. Returns their numbers, and what
    lets work that is queued later wait for them."""
    src, dst, devices, me = source.layout.chunks, moves.target.chunks, context.by_id, context.process
    begun = []
    with context.reporting(), context.local_devices[0].ahead() as ended:
        for number, step in enumerate(moves.steps):
            device = devices[dst[step.target][0]]
            ((chunk, key),) = step.sources
            origin = devices[src[chunk][0]]
            if device.process == origin.process == me:
                device.copy(targets[step.target][step.key], source.arrays[chunk][key], origin)
                begun.append(number)
    return frozenset(begun), ended


def _copy_steps(
    context: Context,
    device: Device,
    steps: Sequence[tuple[int, Step]],
    source: Operand,
    targets: Sequence[Any],
    arrived: dict[tuple[int, int], Any],
) -> None:
    """The steps of a plan that only copy, of one receiving device: there may be very many, so that none makes an object."""
    src, devices = source.layout.chunks, context.by_id
    for number, (target, key, ((chunk, source_key),), _, _) in steps:
        if (number, 0) in arrived:
            part, origin = arrived[number, 0], context.local_devices[0]
        else:
            part, origin = source.arrays[chunk][source_key], devices[src[chunk][0]]
        device.copy(targets[target][key], part, origin)


def _run_forwards(context: Context, moves: Plan, dtype: AnyDType, targets: Sequence[Any], operation: str) -> None:
    dst, devices, me = moves.target.chunks, context.by_id, context.process
    wire = None if context.communicator is None else Round(context)
    slots = []
    if wire is not None:
        wire.mark("forwards", moves.source.digest.hex(), moves.target.digest.hex(), dtype)
        for move in moves.forwards:
            sender, receiver = devices[dst[move.origin][0]].process, devices[dst[move.target][0]].process
            data = targets[move.origin][move.origin_key] if sender == me else None
            slots.append(wire.carry(sender, receiver, data, _shape(move.key), dtype))
        wire.run(operation)
    work: dict[int, list[Callable[[], None]]] = {}
    total = 0
    for number, move in enumerate(moves.forwards):
        device = devices[dst[move.target][0]]
        if device.process != me:
            continue
        origin = devices[dst[move.origin][0]]
        if wire is not None and slots[number] >= 0:
            part, origin = wire.received(slots[number]), context.local_devices[0]
        else:
            part = targets[move.origin][move.origin_key]
        work.setdefault(device.id, []).append(partial(device.copy, targets[move.target][move.key], part, origin))
        total += move.size * dtype.itemsize
    with context.reporting():
        context.run([partial(in_turn, tasks) for tasks in work.values()], total, independent=True)


_IN_PLACE = object()
"""Stands for a piece that was received where it belongs."""


def _exchange_steps(
    context: Context, moves: Plan, source: Operand, targets: Sequence[Any], operation: str
) -> dict[tuple[int, int], Any]:
    """Exchange what the first round moves between processes: (step, source number) → the piece that arrived."""
    src, dst, devices, me = source.layout.chunks, moves.target.chunks, context.by_id, context.process
    wire = Round(context)
    slots: dict[tuple[int, int], int] = {}
    places: dict[int, Any] = {}
    wire.mark(moves.source.digest.hex(), moves.target.digest.hex(), source.dtype)
    for number, step in enumerate(moves.steps):
        receiver = devices[dst[step.target][0]].process
        for turn, (chunk, key) in enumerate(step.sources):
            sender = devices[src[chunk][0]].process
            if sender == receiver or me not in (sender, receiver):
                continue
            data = source.arrays[chunk][key] if sender == me else None
            into = None
            if receiver == me and len(step.sources) == 1 and not step.accumulate:
                into = places[number] = targets[step.target][step.key]
            slot = wire.carry(sender, receiver, data, _shape(step.key), source.dtype, into)
            if slot >= 0:
                slots[number, turn] = slot
    wire.run(operation)
    arrived = {place: wire.received(slot) for place, slot in slots.items()}
    return {place: _IN_PLACE if part is places.get(place[0]) else part for place, part in arrived.items()}


def _shape(key: tuple[Any, ...]) -> tuple[int, ...]:
    """The shape that a plan's key selects; its slices are canonical."""
    return tuple(len(range(k.start, k.stop, k.step)) for k in key if k is not ...)


def fold_into(
    device: Device, view: DeviceArray, parts: Sequence[tuple[Device, Any]], mode: Mode, accumulate: bool
) -> None:
    """`view = fold(parts)` on its device, in the order of the parts; with `accumulate`, folded into what is there."""
    into, rest = view, parts
    wide = folds_wide(mode, view.dtype) and len(parts) + accumulate > 2
    if wide:
        with device.active():
            into = (view if accumulate else _near(device, *parts[0])).astype(roomy(view.dtype))
        rest = parts if accumulate else parts[1:]
    elif not accumulate:
        origin, first = parts[0]
        device.copy(view, first, origin)
        rest = parts[1:]
    for origin, part in rest:
        with device.active():
            near = _near(device, origin, part)
            combine(device.lib, mode, into, near.astype(roomy(view.dtype)) if wide else near)
    if wide:
        with device.active():
            view[...] = into.astype(view.dtype)


def _near(device: Device, origin: Device, part: DeviceArray) -> Any:
    """A partial value where `device` can compute with it."""
    if device.shares_memory(origin):
        return part
    near = device.empty(part.shape, part.dtype, "a partial value to fold")
    device.copy(near.array, part, origin)
    return near.array


def combine(lib: Library, mode: Mode, into: DeviceArray, part: DeviceArray) -> None:
    """`into = fold(into, part)`, in place; `lib` is the library that both arrays belong to.

    A complex product with 1 is not exact in floating point (``1 * inf`` has a NaN part), so that identities, which stand
    where a device holds nothing, are passed over instead of multiplied.
    """
    assert mode.fold is not None
    if lib is not np and into.dtype.kind == "c" and mode in (Mode.MIN, Mode.MAX):  # CuPy makes one NaN of both parts
        before = lib.less_equal if mode is Mode.MIN else lib.greater_equal
        into[...] = lib.where(lib.isnan(into) | (before(into, part) & ~lib.isnan(part)), into, part)
        return
    if mode.exact_identity(into.dtype):
        getattr(lib, mode.fold.__name__)(into, part, out=into)
        return
    one = mode.identity(into.dtype)
    with np.errstate(all="ignore"):
        product = lib.multiply(into, part)
    into[...] = lib.where(into == one, part, lib.where(part == one, into, product))


def resolve(context: Context, version: Version, operation: str, *, explicit: bool = False) -> None:
    """Fold a version's partial values, once, for everyone who holds it. REPLICA versions are left alone."""
    layout = version.layout
    if not layout.is_partial:
        return
    index_map = layout.index_map
    if not index_map.devices:  # no device holds anything of it
        index_map = IndexMap(layout.shape, {context.group.ids[0]: [Region.full(layout.shape)]})
    target = context.layout(index_map.completed())
    arrays = [None if c is None else c.array for c in version.chunks]
    parts = Operand(layout, arrays, version.dtype)
    value = folded_whole(context, parts) if is_uncounted(context) else None
    if value is not None:
        fresh = allocate(context, target, version.dtype, label=operation)
        for chunk, (_, region) in zip(fresh, target.chunks, strict=True):
            chunk.array[...] = value[region.key]  # type: ignore[union-attr]
        version.layout, version.chunks = target, fresh
        return
    fresh = redistribute(
        context,
        parts,
        target,
        operation=operation,
        explicit=explicit,
        chunks=version.chunks,
    )
    version.layout, version.chunks = target, fresh


def resolved_operand(
    context: Context, version: Version, view: ViewMap | None, operation: str, *, partial_ok: bool = False
) -> Operand:
    """An array's chunks, resolved to REPLICA unless the caller can use partial values."""
    if version.layout.is_partial and not partial_ok:
        resolve(context, version, operation)
    found = operand(context, version, view)
    if found is None:
        resolve(context, version, operation)
        found = operand(context, version, view)
        assert found is not None
    return found


def moved(storage: Storage, target: Layout, operation: str) -> Version:
    """A version of a storage's value in another layout, sharing what need not move."""
    context, version = storage.context, storage.version
    if storage.exposed:
        storage.unshare()
        version = storage.version
    arrays = [None if c is None else c.array for c in version.chunks]
    source = Operand(version.layout, arrays, version.dtype)
    if version.layout.is_partial and (everywhere := folded_everywhere(context, source, target, operation)) is not None:
        return Version(target, everywhere, version.dtype)
    chunks = None if storage.exposed else version.chunks
    fresh = redistribute(
        context,
        source,
        target,
        operation=operation,
        explicit=True,
        chunks=chunks,
    )
    result = Version(target, fresh, version.dtype)
    mine = {id(c) for c in version.chunks}
    if any(id(c) in mine for c in fresh):
        share(version)
    return result
