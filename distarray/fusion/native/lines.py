"""Whole chunks that each lie in one line, computed by kernels: the common case of a large expression, at the least cost before
its kernels run.

Operands and result lie alike, chunk by chunk, and the result is new memory: so nothing has to be said of how a chunk's arrays
meet but where each begins, and how far its elements lie apart. What differs, cells that are parts of chunks, targets that are
operands too, small chunks, is left to :mod:`distarray.fusion.native.run`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from distarray.devices import Chunk
from distarray.fusion import blocks
from distarray.fusion.native import run
from distarray.fusion.native.planning import NativePlan, plan_of, scalars_of
from distarray.fusion.native.run import NEAR, NativeCell, function_of, is_due, packing
from distarray.fusion.native.source import elementwise_text
from distarray.fusion.program import Program
from distarray.layout import Layout

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = ["line_cells"]


def line_cells(
    context: Context,
    program: Program,
    layout: Layout,
    operands: Sequence[Sequence[Chunk | None]],
    stored: tuple[int, ...],
    targets: Sequence[Sequence[Chunk | None]],
) -> list[NativeCell] | None:
    """For each chunk of this process, or part of one where that shares the work better, what computes it; None where this way
    does not serve. `targets`: the chunks of the steps `stored`, then those of the result, which nothing else shows."""
    if program.result[0] != "step" or not run.is_offered():
        return None
    columns = [*operands, *targets]
    found = []
    total = 0
    for i, (device, region) in enumerate(layout.chunks):
        if not region.size or context.by_id[device].process != context.process:
            continue
        if region.size < run.LEAST:
            return None
        total += region.size
        found.append((region.size, [column[i].array for column in columns]))  # type: ignore[union-attr]
    if not found:
        return None
    first = len(operands)
    dtypes = [array.dtype for array in found[0][1]]
    plan = plan_of(program, tuple(dtypes[:first]), dtypes[-1], stored)
    if plan is None or plan.given_up > 2:
        return None
    spent = plan.spent + total * len(program.steps)
    if not is_due(spent) or not all(dtype.isnative for dtype in dtypes):
        return None
    scalars: list[Any] = [scalars_of(program, part) for part in plan.parts]
    if None in scalars:
        return None
    numbers = [*range(first), *[first + i for i in stored], first + len(program.steps)]
    itemsizes = [dtype.itemsize for dtype in dtypes]
    known: dict[tuple[int, ...], list[Any] | None] = {}
    cells: list[NativeCell] = []
    for size, arrays in found:
        steps = [_step(array, item) for array, item in zip(arrays, itemsizes, strict=True)]
        if 0 in steps:
            return None
        key = tuple(steps)
        if key not in known:
            single = {v: step == item for v, step, item in zip(numbers, steps, itemsizes, strict=True)}
            known[key] = _calls(plan, single, scalars, spent)
        calls = known[key]
        if calls is None:
            return None
        cell = NativeCell(program, plan, dict(zip(numbers, arrays, strict=True)), first, numbers[first:], [1, size])
        cell.steps = {v: [0, step] for v, step in zip(numbers, steps, strict=True)}
        cell.calls = calls
        if plan.registers:
            cell.block = min(run.BLOCK, blocks.REGISTER_BYTES // plan.itemsize)
        cells.append(cell)
    plan.spent = spent
    return cells


def _step(array: Any, itemsize: int) -> int:
    """The bytes between the elements of an array in C order, if they are the same between all; else 0."""
    flags = array.flags
    if not flags.aligned:
        return 0
    if flags.c_contiguous:
        return itemsize
    shape, strides = array.shape, array.strides
    step: int = strides[-1]
    if step % itemsize or abs(step) > NEAR * itemsize:
        return 0
    own = step
    for n, stride in zip(shape[:0:-1], strides[-2::-1], strict=True):
        own *= n
        if stride != own:
            return 0
    return step


def _calls(plan: NativePlan, dense: dict[int, bool], scalars: Sequence[Any], spent: int) -> list[Any] | None:
    """For each part of a plan what calls its kernel, what packs its arguments, and its scalars. `dense`: whether the elements of
    an array lie one behind the other, as those in registers do."""
    found: list[Any] = []
    for part, given, known in zip(plan.parts, scalars, plan.kernels, strict=True):
        element = part.element
        if element is None:
            found.append((None, None, ()))
            continue
        kinds = "".join(["v" if dense.get(v, True) else "x" for v in (*part.reads, *part.writes)])
        kernel = known.get(kinds)
        if kernel is None:
            call = function_of((element, kinds), partial(elementwise_text, element, kinds), spent)
            if call is None:
                return None
            kernel = known[kinds] = (call, packing(element, len(kinds)))
        found.append((*kernel, given))
    return found
