"""Small partial values that every GPU has a whole copy of, as reductions leave them: each GPU gets all copies and folds them by
itself, in one kernel and in the order of the chunks, so that all get the same bits.

To fold a part each and to tell all others takes two rounds, which for small values cost far more than their bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from distarray.comm.base import Message, Signature
from distarray.devices import Chunk
from distarray.devices.partials import MOST, fold_kernel, launch_folds
from distarray.layout import Layout
from distarray.storage import Operand
from distarray.transfer.ledger import watching
from distarray.transfer.partial_numbers import folds_wide
from distarray.transfer.round import site

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = ["folded_everywhere"]

LARGEST = 1 << 19
"""Bytes of a copy above which parts are folded apart."""


class _Way(NamedTuple):
    """Who holds the copies, in the order in which they are folded, and who gets the result."""

    kernel: Any
    blocks: int
    numbers: int
    givers: tuple[int, ...]
    takers: tuple[int, ...]
    detail: str


def folded_everywhere(context: Context, source: Operand, target: Layout, operation: str) -> list[Chunk | None] | None:
    """The chunks of `target`, where partial values on GPUs are such; None, and nothing is done, of others.

    Communication: between processes one round, in which each sends its copy to all others.
    """
    if context.kind == "host" or context.debug or watching.get() is not None:
        return None
    key = ("everywhere", source.layout, target, source.dtype)
    found: Any = context.layouts.remembered(key)
    if found is None:
        found = context.layouts.remember(key, (_way(context, source.layout, target, source.dtype),))
    way: _Way | None = found[0]
    if way is None:
        return None
    by_id: dict[int, Any] = context.by_id
    with context.reporting():
        fresh: list[Chunk | None] = [
            by_id[taker].empty(target.shape, source.dtype, operation)
            if by_id[taker].process == context.process
            else None
            for taker in way.takers
        ]
        outs = [(by_id[chunk.device.id].ordinal, chunk.array.data.ptr) for chunk in fresh if chunk is not None]
        if context.communicator is None:
            parts = [array.data.ptr for array in source.arrays]
            givers = list(dict.fromkeys([by_id[giver].ordinal for giver in way.givers]))
    if context.communicator is not None:
        copies = _told(context, way, source, operation)
        parts = [array.data.ptr for array in copies]
        givers = [outs[0][0]]
    with context.reporting():
        device: Any = context.local_devices[0]
        launch_folds(device.runtime, way.kernel, way.blocks, way.numbers, parts, outs, givers)
    return fresh


def _way(context: Context, layout: Layout, target: Layout, dtype: Any) -> _Way | None:
    fold, size, by_id = layout.mode.fold, layout.index_map.size, context.by_id
    if fold is None or target.is_partial or not 0 < size * dtype.itemsize <= LARGEST:
        return None
    if not layout.mode.exact_identity(dtype) or (folds_wide(layout.mode, dtype)):
        return None
    givers, takers = _holders(layout), _holders(target)
    if givers is None or takers is None or not 1 < len(givers) <= MOST:
        return None
    if context.communicator is None:
        if not _readable(context, givers, takers):
            return None
    elif not sorted(givers) == sorted(takers) == sorted(by_id) or len(by_id) != context.process_count:
        return None
    device: Any = context.local_devices[0]
    with device.active():
        found = fold_kernel(device.lib, fold.__name__, dtype, len(givers), size)
    if found is None:
        return None
    return _Way(*found, givers, takers, f"plan of {layout.digest.hex()} {dtype}")


def _holders(layout: Layout) -> tuple[int, ...] | None:
    """The devices of a layout's chunks, where each has one that is whole."""
    if any(shape != layout.shape for shape in layout.index_map.shapes):
        return None
    devices = tuple([device for device, _ in layout.chunks])
    return devices if len(set(devices)) == len(devices) else None


def _readable(context: Context, givers: Sequence[int], takers: Sequence[int]) -> bool:
    """Whether the GPUs of this process read each other's memory."""
    ordinals = {context.by_id[device].ordinal for device in (*givers, *takers)}  # type: ignore[attr-defined]
    device: Any = context.local_devices[0]
    return all(device.runtime.reaches(one, other) for one in ordinals for other in ordinals)


def _told(context: Context, way: _Way, source: Operand, operation: str) -> list[Any]:
    """The copies of all processes, in their order: one of each process, on its one GPU."""
    communicator, me, by_id = context.communicator, context.process, context.by_id
    assert communicator is not None
    device = context.local_devices[0]
    with context.reporting():
        room = device.empty((len(way.givers), *source.shape), source.dtype, operation)
    copies, sends, receives = [], [], []
    for i, giver in enumerate(way.givers):
        process = by_id[giver].process
        if process == me:
            mine = source.arrays[i]
            copies.append(mine)
        else:
            copies.append(room.array[i])
            receives.append(Message(process, room.array[i]))
    for giver in way.givers:
        if by_id[giver].process != me:
            sends.append(Message(by_id[giver].process, mine))
    with device.active():
        communicator.exchange(sends, receives, Signature(operation, way.detail, site()))
    return copies
