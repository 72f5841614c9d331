"""Expressions as operands of reductions, not stored: ``(a * b).sum()`` then reads its operands once and writes nothing.

That holds on GPUs, for an expression whose operands lie where it would be evaluated. The second time that an expression is
asked for it is evaluated and kept, so that nothing is computed a third time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from distarray.fusion.compiled import alignment_of, compile_expression, resolve_leaves
from distarray.fusion.demand import operands_of
from distarray.fusion.expr import Node
from distarray.fusion.kept import shortened
from distarray.fusion.kernels.element import element_of
from distarray.fusion.kernels.pending import PendingProgram
from distarray.fusion.meeting import meeting_place
from distarray.storage import Operand

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = ["unstored"]


def unstored(context: Context, node: Node) -> Operand | None:
    """The value of a recorded expression as chunks that are not stored, or None where it has to be evaluated.

    Decided from metadata alone, but for whether the devices' kernels know its steps, which is the same on all processes.
    """
    if context.kind == "host" or context.eager or node.version is not None or node.read or not node.shape:
        return None
    node.read = True
    program, leaves = compile_expression(node)
    settled = resolve_leaves(context, program, leaves)
    place, _, stores = meeting_place(context, node.shape, [(leaf.version.layout, leaf.view) for leaf in settled], None)
    if place is not None or any(stores):
        return None
    al = alignment_of(context, program, settled, None)
    if al.fetches or any(len(cells) != 1 or cells[0].key is not None for cells in al.cells):
        return None
    lib = context.local_devices[0].lib
    if element_of(lib, program, tuple([leaf.dtype for leaf in settled]), node.dtype) is None:
        return None
    program, picks, kept = shortened(program, len(settled), al.layout)
    versions = tuple([leaf.version for leaf in settled])
    arrays: list[Any] = []
    for i, ((device_id, region), (cell,)) in enumerate(zip(al.layout.chunks, al.cells, strict=True)):
        device = context.by_id[device_id]
        if device.process != context.process:
            arrays.append(None)
            continue
        with device.active():
            operands = operands_of(settled, al, (), cell, wait=True)
            if kept:
                held = [chunk.array for each in kept if (chunk := each[i]) is not None]
                operands = [*[operands[k] for k in picks], *held]
        pending = PendingProgram(lib, program, operands, region.shape, node.dtype)
        pending.versions = versions
        arrays.append(pending)
    return Operand(al.layout, arrays, node.dtype)
