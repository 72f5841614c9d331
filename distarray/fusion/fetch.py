"""What an alignment says must come from elsewhere: entered in the ledger, then brought to the devices that need it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from distarray.devices import Chunk, in_turn
from distarray.fusion.align import Alignment
from distarray.fusion.compiled import leaf_by_group, message_itemsizes
from distarray.fusion.expr import Leaf
from distarray.fusion.program import Program
from distarray.transfer.execute import is_uncounted
from distarray.transfer.ledger import note
from distarray.transfer.round import Round

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = ["fetch_operands"]


def fetch_operands(context: Context, program: Program, leaves: Sequence[Leaf], al: Alignment) -> list[Chunk | None]:
    """Bring what an alignment fetches: a buffer for each fetch, None where another process receives it. Host devices of one process
    read what lies in one piece where it lies, unless a ledger is open."""
    if is_uncounted(context):
        return _lent(context, program, leaves, al)
    by_group = leaf_by_group(leaves)
    sizes = message_itemsizes(leaves)
    messages: dict[tuple[int, int], int] = {}
    for (sender, receiver, group), count in al.messages.items():
        pair = (sender, receiver)
        messages[pair] = messages.get(pair, 0) + count * sizes[group]
    held: dict[int, int] = {}
    for fetch in al.fetches:
        held[fetch.device] = held.get(fetch.device, 0) + fetch.region.size * sizes[fetch.group]
    note(messages, 1, program.name, explicit=False, temporary=max(held.values()))
    me = context.process
    buffers: list[Chunk | None] = []
    with context.reporting():
        for fetch in al.fetches:
            device = context.by_id[fetch.device]
            if device.process != me:
                buffers.append(None)
                continue
            label = f"an operand of {program.name}"
            buffers.append(device.empty(fetch.region.shape, by_group[fetch.group].dtype, label))
    arrived = _exchange(context, program, by_group, al, buffers) if context.communicator is not None else {}
    work: dict[int, list[Any]] = {}
    for number, fetch in enumerate(al.fetches):
        buffer = buffers[number]
        if buffer is None:
            continue
        device = buffer.device
        version = by_group[fetch.group].version
        for turn, (giver, key, place) in enumerate(fetch.parts):
            if (number, turn) in arrived:
                if arrived[number, turn] is None:
                    continue
                part, origin = arrived[number, turn], context.local_devices[0]
            else:
                device_id, array = al.giver(fetch, giver, version)
                part, origin = array[key], context.by_id[device_id]
            work.setdefault(fetch.device, []).append(partial(device.copy, buffer.array[place], part, origin))
    with context.reporting():
        context.run([partial(in_turn, tasks) for tasks in work.values()], sum(held.values()), independent=True)
    return buffers


def _lent(context: Context, program: Program, leaves: Sequence[Leaf], al: Alignment) -> list[Chunk | None]:
    """The buffers of host devices of this process, to be read and dropped: parts of other chunks, or copies."""
    by_group = leaf_by_group(leaves)
    label = f"an operand of {program.name}"
    buffers: list[Chunk | None] = []
    work: dict[int, list[Any]] = {}
    nbytes = 0
    for fetch in al.fetches:
        version, device = by_group[fetch.group].version, context.by_id[fetch.device]
        if len(fetch.parts) == 1:
            ((giver, key, _),) = fetch.parts
            _, array = al.giver(fetch, giver, version)
            part = array[key]
            if part.flags.carray:  # of what lies otherwise ufuncs may give other bits than of a buffer
                buffers.append(device.adopt(part, label))
                continue
        buffer = device.empty(fetch.region.shape, version.dtype, label)
        for giver, key, place in fetch.parts:
            device_id, array = al.giver(fetch, giver, version)
            copy = partial(device.copy, buffer.array[place], array[key], context.by_id[device_id])
            work.setdefault(fetch.device, []).append(copy)
        nbytes += buffer.nbytes
        buffers.append(buffer)
    if work:
        context.run([partial(in_turn, tasks) for tasks in work.values()], nbytes, independent=True)
    return buffers


def _exchange(
    context: Context, program: Program, by_group: dict[int, Leaf], al: Alignment, buffers: Sequence[Chunk | None]
) -> dict[tuple[int, int], Any]:
    """Exchange between processes what the fetches need: (fetch, part number) → the piece that arrived, None where it was
    received in its buffer."""
    wire = Round(context)
    wire.mark(al.mark, *[leaf.version.dtype for leaf in by_group.values()])
    slots: dict[tuple[int, int], int] = {}
    places: dict[tuple[int, int], Any] = {}
    needed = False
    for number, fetch in enumerate(al.fetches):
        version = by_group[fetch.group].version
        receiver = context.by_id[fetch.device].process
        for turn, (giver, key, place) in enumerate(fetch.parts):
            device_id, array = al.giver(fetch, giver, version)
            sender = context.by_id[device_id].process
            if sender == receiver:
                continue
            needed = True
            data = array[key] if sender == context.process else None
            shape = tuple(len(range(k.start, k.stop, k.step)) for k in place if isinstance(k, slice))
            into = None
            if (buffer := buffers[number]) is not None:
                into = places[number, turn] = buffer.array[place]
            slot = wire.carry(sender, receiver, data, shape, version.dtype, into)
            if slot >= 0:
                slots[number, turn] = slot
    if needed:
        wire.run(program.name)
    arrived = {place: wire.received(slot) for place, slot in slots.items()}
    return {place: None if part is places.get(place) else part for place, part in arrived.items()}
