"""The value of an array in one piece on the host, on every process: what NumPy, Python and small agreements ask for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray.devices.arrays import AnyDType
from distarray.layout import Layout
from distarray.modes import roomy
from distarray.storage import Operand
from distarray.transfer.execute import CALM, combine, global_pieces
from distarray.transfer.ledger import note_to_host
from distarray.transfer.partial_numbers import folded_number, folds_wide, quiet
from distarray.transfer.round import Round

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = ["gather_to_host"]


def gather_to_host(context: Context, source: Operand) -> Any:
    """The global value as a NumPy array of the host, on every process; partial values are folded there, in chunk order.

    Between processes each element travels from its lowest holder (all holders, where they are partial) to every other
    process, in one round.
    """
    layout, dtype = source.layout, source.dtype
    if layout.is_partial and not layout.shape and (number := folded_number(context, source)) is not None:
        note_to_host(dtype.itemsize)
        return np.asarray(number)
    wide = layout.is_partial and folds_wide(layout.mode, dtype)
    out = np.empty(layout.shape, roomy(dtype) if wide else dtype)
    if layout.is_partial and not layout.index_map.covers:
        out[...] = layout.mode.unheld(dtype)
    note_to_host(out.size * dtype.itemsize)
    pieces = global_pieces(context, layout)
    parts: list[Any] = [None if source.arrays[c] is None else source.arrays[c][key] for _, _, _, c, key in pieces]
    if context.communicator is not None:
        _exchange_pieces(context, layout, pieces, parts, dtype)
        context.communicator.wait()
    if context.kind != "host":
        mine = context.local_devices[0]
        held = [context.by_id[device_id] for _, _, device_id, _, _ in pieces]
        parts[:] = mine.to_hosts(parts, [device if device.process == context.process else mine for device in held])
    with np.errstate(**quiet()) if layout.is_partial else CALM:
        for (region, turn, _, _, _), part in zip(pieces, parts, strict=True):
            if turn == 0:
                out[region.key] = part
            else:
                combine(np, layout.mode, out[region.key], part)
        return out.astype(dtype) if wide else out


def _exchange_pieces(
    context: Context, layout: Layout, pieces: Sequence[Any], parts: list[Any], dtype: AnyDType
) -> None:
    """Give every process the parts that it lacks."""
    wire = Round(context)
    wire.mark(layout.digest.hex(), dtype)
    slots = [-1] * len(pieces)
    for number, (region, _, device_id, _, _) in enumerate(pieces):
        device = context.by_id[device_id]
        if device.process != context.process:
            slots[number] = wire.carry(device.process, context.process, None, region.shape, dtype)
            continue
        for receiver in range(context.process_count):
            wire.carry(context.process, receiver, parts[number], region.shape, dtype)
    wire.run("a value for Python")
    for number, slot in enumerate(slots):
        if slot >= 0:
            parts[number] = wire.received(slot)
