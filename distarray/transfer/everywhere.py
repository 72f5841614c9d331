"""Small partial values that every GPU has a whole copy of, as reductions leave them: each GPU gets all copies and folds them by
itself, in one kernel and in the order of the chunks, so that all get the same bits.

To fold a part each and to tell all others takes two rounds, which for small values cost far more than their bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from distarray.comm.base import Signature
from distarray.devices import Chunk
from distarray.devices.arrays import AnyDType
from distarray.devices.partials import MOST, Folds, fold_kernel
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
    """Who gets the result, and how it is folded; between processes, the process of each copy, in the order of the fold."""

    folds: Folds
    takers: tuple[int, ...]
    processes: tuple[int, ...]
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
    by_id, me = context.by_id, context.process
    fresh: list[Chunk | None] = []
    outs: list[int] = []
    with context.reporting():
        for taker in way.takers:
            device = by_id[taker]
            if device.process != me:
                fresh.append(None)
                continue
            chunk: Any = device.empty(target.shape, source.dtype, operation)
            outs.append(chunk.address or chunk.array.data.ptr)
            fresh.append(chunk)
        if context.communicator is None:
            way.folds.run([array.data.ptr for array in source.arrays], outs)
            return fresh
        device = context.local_devices[0]
        room: Any = device.empty((len(way.processes), *source.shape), source.dtype, operation)
        mine: Any = next(array for array in source.arrays if array is not None)
    context.communicator.gather(mine, room.array, Signature(operation, way.detail, site()))
    first, nbytes = room.address or room.array.data.ptr, mine.nbytes
    with context.reporting():
        way.folds.run([mine.data.ptr if p == me else first + p * nbytes for p in way.processes], outs)
    return fresh


def _way(context: Context, layout: Layout, target: Layout, dtype: AnyDType) -> _Way | None:
    fold, size = layout.mode.fold, layout.index_map.size
    by_id: dict[int, Any] = context.by_id
    if fold is None or target.is_partial or not 0 < size * dtype.itemsize <= LARGEST:
        return None
    if not layout.mode.exact_identity(dtype) or folds_wide(layout.mode, dtype):
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
    near, far = ([by_id[d].ordinal for d in each if by_id[d].process == context.process] for each in (givers, takers))
    processes = tuple([by_id[giver].process for giver in givers])
    return _Way(Folds(device.runtime, *found, near, far), takers, processes, f"plan of {layout.digest.hex()} {dtype}")


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
