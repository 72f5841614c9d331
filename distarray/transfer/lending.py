"""Copies that are only read. Host devices of one process read the same memory, so that one copy serves all of them.

Apart from ``execute``, whose moves give each device a chunk of its own. Where a ledger is open or processes take part, copies are
made here too: what is sent is what separate machines would send. Limits count every device's copy always.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from distarray.devices import Chunk
from distarray.geometry import IndexMap, Region
from distarray.layout import Layout
from distarray.storage import Operand
from distarray.transfer.execute import is_uncounted, redistribute

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = ["lent"]


class _Loan(NamedTuple):
    """What is copied, each region once, and for each chunk of the target its place among the source's chunks and the copies."""

    copied: Layout | None
    places: tuple[int, ...]


def _loan(context: Context, source: Layout, target: Layout) -> _Loan:
    held = {region: i for i, (_, region) in reversed(list(enumerate(source.chunks)))}
    first: dict[Region, int] = {}
    for device, region in target.chunks:
        if region not in held:
            first.setdefault(region, device)
    regions: dict[int, list[Region]] = {}
    for region, device in first.items():
        regions.setdefault(device, []).append(region)
    copied = context.layout(IndexMap(target.shape, regions)) if regions else None
    if copied is not None:
        held |= {region: len(source.chunks) + i for i, (_, region) in enumerate(copied.chunks)}
    return _Loan(copied, tuple(held[region] for _, region in target.chunks))


def lent(context: Context, source: Operand, target: Layout, *, operation: str) -> list[Chunk | None]:
    """Chunks that hold `source` in a REPLICA layout, to be read and dropped while nobody writes the source."""
    if not is_uncounted(context) or source.layout.is_partial:
        return redistribute(context, source, target, operation=operation)
    key = ("loan", source.layout, target)
    loan: _Loan = context.layouts.remembered(key) or context.layouts.remember(
        key, _loan(context, source.layout, target)
    )
    fresh: list[Chunk | None] = []
    if loan.copied is not None:
        fresh = redistribute(context, source, loan.copied, operation=operation)
    found: list[Chunk | None] = []
    with context.reporting():
        for (device_id, _), place in zip(target.chunks, loan.places):
            chunk = fresh[place - len(source.arrays)] if place >= len(source.arrays) else None
            if chunk is None or chunk.device.id != device_id:
                array = source.arrays[place] if chunk is None else chunk.array
                chunk = context.by_id[device_id].adopt(array, operation)
            found.append(chunk)
    return found
