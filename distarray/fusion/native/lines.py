"""Whole chunks that each lie in one line, computed by kernels: the common case of a large expression, at the least cost before
its kernels run.

Operands and result lie alike, chunk by chunk, and the result is new memory: so nothing has to be said of how a chunk's arrays
meet but where each begins, and how far its elements lie apart. What differs, cells that are parts of chunks, targets that are
operands too, small chunks, is left to :mod:`distarray.fusion.native.run`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from distarray.devices import Chunk
from distarray.devices.arrays import DeviceArray
from distarray.fusion import blocks
from distarray.fusion.native import run
from distarray.fusion.native.planning import NativePlan, plan_of, scalars_of
from distarray.fusion.native.run import NEAR, NativeCell, function_of, is_due, packing
from distarray.fusion.native.source import elementwise_text
from distarray.fusion.program import Program

__all__ = ["line_cells", "line_places"]


def line_cells(
    program: Program,
    operands: Sequence[Sequence[Chunk | None]],
    stored: tuple[int, ...],
    targets: Sequence[Sequence[Chunk | None]],
) -> list[NativeCell] | None:
    """For each chunk of this process what computes it; None where this way does not serve. `targets`: the chunks of the steps
    `stored`, then those of the result, which nothing else shows."""
    if program.result[0] != "step" or not run.is_offered():
        return None
    found, total = _lines(zip(*operands, *targets, strict=True))
    if not found:
        return None
    first = len(operands)
    dtypes = [chunk.array.dtype for chunk in found[0]]
    plan = plan_of(program, tuple(dtypes[:first]), dtypes[-1], stored, single=len(program.steps) == 1)
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
    block = min(run.BLOCK, blocks.REGISTER_BYTES // plan.itemsize) if plan.registers else run.BLOCK
    known: dict[tuple[int, ...], list[Any] | None] = {}
    cells: list[NativeCell] = []
    for row in found:
        places = line_places(row, itemsizes)
        if places is None:
            return None
        addresses, steps = places
        key = tuple(steps)
        if key not in known:
            dense = {v: step == item for v, step, item in zip(numbers, steps, itemsizes, strict=True)}
            known[key] = _calls(plan, dense, scalars, spent)
        calls = known[key]
        if calls is None:
            return None
        arrays = [chunk.array for chunk in row]
        held = dict(zip(numbers, arrays, strict=True))
        cell = NativeCell(
            program,
            plan,
            held,
            first,
            numbers[first:],
            [1, arrays[-1].size],
            dict(zip(numbers, addresses, strict=True)),
        )
        cell.steps = {v: [0, step] for v, step in zip(numbers, steps, strict=True)}
        cell.calls = calls
        cell.block = block
        cells.append(cell)
    plan.spent = spent
    return cells


def _lines(columns: Iterable[tuple[Chunk | None, ...]]) -> tuple[list[tuple[Any, ...]], int]:
    """The chunks of this process that have elements, each with what lies beside it, and their elements; none of them where a
    chunk has too few."""
    found: list[tuple[Any, ...]] = []
    total = 0
    for chunks in columns:
        last = chunks[-1]
        if last is None or not (size := last.array.size):
            continue
        if size < run.LEAST:
            return [], 0
        total += size
        found.append(chunks)
    return found, total


def line_places(row: Sequence[Chunk], itemsizes: Sequence[int]) -> tuple[list[int], list[int]] | None:
    """Where the array of each chunk begins, and how far its elements lie apart; None where they are in no line."""
    places, steps = [], []
    for chunk, item in zip(row, itemsizes, strict=True):
        place, step = chunk.address, item
        if place <= 0:
            step = _step(chunk.array, item)
            if not step:
                return None
            place = chunk.array.__array_interface__["data"][0]
            if step == item:
                chunk.address = place
        places.append(place)
        steps.append(step)
    return places, steps


def _step(array: DeviceArray, itemsize: int) -> int:
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
