"""Held intermediates: values of recorded calls that are kept beside the recording, so that what the program still holds is
computed once, however many expressions use it.

A kept value is this process's own: the cells that it computed in the layout of one evaluation. Plans are made as if it
were absent, so that which values live, a matter of reference counts, never decides what is sent; it only replaces steps
of the local computation where the plan's layout is the one it lies in. A write never changes what a recording has read,
and so a kept value stays right for as long as its recording does.

Keeping costs a write and a read of memory, by the bytes of the value. Cheap calls are computed again until they have cost as
much; then they are kept. A mask of a byte an element, made of floating-point steps, is worth keeping at once.
Under a memory limit no value is kept that does not fit, and what is kept goes first.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, NamedTuple

from distarray.devices import Chunk
from distarray.devices.arrays import AnyDType
from distarray.errors import DeviceMemoryError
from distarray.fusion.blocks import CUT_FREE
from distarray.fusion.expr import Node
from distarray.fusion.program import Instruction, Program
from distarray.layout import Layout

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = [
    "ASSIGNED",
    "UPDATED",
    "Kept",
    "Shortened",
    "Stored",
    "is_held",
    "is_idle",
    "is_named",
    "keep",
    "shortened",
    "stored",
    "value_of",
]

WORTH = {"host": 8, "cuda": 512}
"""A value is kept once so many exact element-wise calls have been spent on it, on a host elements of its own size: about what
storing and reading it costs. A GPU does some hundreds of them in the time that memory takes, and what a kernel computes again it
mostly reads anyway."""

LEAST = {"host": 0, "cuda": 1 << 16}
"""Elements from which values are kept: on a GPU less work than that costs no more than a launch, with or without it."""

READ = 6
"""What each array counts, on a host, that is read for a value beyond the first: to read two again, and to store what comes of them
after all, costs more than storing it at once."""

INEXACT = 8
"""What a call of a transcendental function counts."""


class Kept:
    """The chunks of a value in one layout, those of this process."""

    __slots__ = ("__weakref__", "chunks", "layout")

    def __init__(self, layout: Layout, chunks: list[Chunk | None]) -> None:
        self.layout = layout
        self.chunks: list[Chunk | None] | None = chunks

    def clear(self) -> None:
        """Let go of the memory: the value is computed again where it is needed."""
        self.chunks = None


class Stored(NamedTuple):
    """A step of a program whose value is to be kept, and the chunks that it is written to."""

    step: int
    chunks: list[Chunk | None]


class Shortened(NamedTuple):
    """A program that reads kept values. `picks`: which of the leaves it still reads; `kept` are the operands behind those."""

    program: Program
    picks: Sequence[int]
    kept: list[list[Chunk | None]]


def value_of(node: Node, layout: Layout) -> list[Chunk | None] | None:
    """The kept chunks of a recorded call, where they lie in a layout."""
    kept: Kept | None = node.kept
    if kept is None or kept.layout.index_map is not layout.index_map:
        return None
    return kept.chunks


def shortened(program: Program, leaves: int, layout: Layout) -> Shortened:
    """What is left of a program of so many leaves that is evaluated in a layout."""
    steps = program.steps
    found: dict[int, list[Chunk | None]] = {}
    for i, step in enumerate(steps):
        if step.node.kept is not None and (chunks := value_of(step.node, layout)) is not None:
            found[i] = chunks
    if not found:
        return Shortened(program, range(leaves), [])
    needed = {program.result[1]}  # a program with steps has a step as its result
    picks: set[int] = set()
    for i in range(len(steps) - 1, -1, -1):
        if i in needed and i not in found:
            for kind, value in steps[i].args:
                if kind == "step":
                    needed.add(value)
                elif kind == "leaf":
                    picks.add(value)
    order = sorted(picks)
    places: dict[tuple[str, int], tuple[str, int]] = {("leaf", leaf): ("leaf", n) for n, leaf in enumerate(order)}
    kept: list[list[Chunk | None]] = []
    fresh: list[Instruction] = []
    for i, step in enumerate(steps):
        if i not in needed:
            continue
        if i in found:
            places["step", i] = ("leaf", len(order) + len(kept))
            kept.append(found[i])
        else:
            places["step", i] = ("step", len(fresh))
            fresh.append(step._replace(args=tuple([a if a[0] == "const" else places[a] for a in step.args])))
    return Shortened(program._replace(steps=tuple(fresh), result=places[program.result]), order, kept)


def _references(step: Instruction) -> int:
    return sys.getrefcount(step.node)


class _Unreferenced:
    """An object that an instruction alone refers to."""


_ALONE = _references(Instruction(None, (), {}, None, {}, ("", 0, {}), False, False, _Unreferenced()))


class _Statement:
    """What counts the references to the value of a statement where arrays' methods do: in ``x[...] = v``, and in ``x += v`` two
    calls below."""

    counted = 0

    def __setitem__(self, key: object, value: object) -> None:
        self.counted = _count(value)

    def __iadd__(self, other: object) -> _Statement:
        return _called(self, other)


def _called(statement: _Statement, other: object) -> _Statement:
    return _called_below(statement, other)


def _called_below(statement: _Statement, other: object) -> _Statement:
    statement.counted = _count(other)
    return statement


def _count(value: object) -> int:
    return sys.getrefcount(value)


def _nameless() -> tuple[int, int]:
    statement = _Statement()
    statement[0] = _Unreferenced()
    assigned = statement.counted
    statement += _Unreferenced()
    return assigned, statement.counted


ASSIGNED, UPDATED = _nameless()
"""References to a value that nothing but the statement refers to, which assigns it or updates an array by it."""


def is_named(value: object, nameless: int) -> bool:
    """Whether the program refers to a statement's value beyond it. A Python that borrows the references of local variables
    (3.14) does not tell: then False, and such a value is kept when it comes again."""
    return sys.getrefcount(value) > nameless


def is_held(program: Program) -> list[bool]:
    """For each step of a program but its last, whether more refers to it than the program."""
    steps = program.steps
    uses = _uses(steps)
    return [_references(step) - _ALONE > used for step, used in zip(steps[:-1], uses, strict=False)]


def is_idle(program: Program) -> bool:
    """Whether no step has a kept value, and the program holds none below the last."""
    return not any(is_held(program)) and all(step.node.kept is None for step in program.steps)


def _uses(steps: Sequence[Instruction]) -> list[int]:
    uses = [0] * len(steps)
    for step in steps:
        for kind, value in step.args:
            if kind == "step":
                uses[value] += 1
    return uses


def stored(
    context: Context, program: Program, layout: Layout, lent: Container[int], *, root: bool, programs: int = 1
) -> list[Stored]:
    """The steps whose values are to be kept, with memory for them.

    Parameters
    ----------
    lent : container of int
        Ids of recorded calls that a statement may hold for its own time alone: they are kept when they come again.
    root : bool
        Whether the last step may be kept. Where it makes an array, that one holds the value.
    programs : int
        How many programs have these steps.
    """
    steps = program.steps
    if not layout.shape or (len(steps) < 2 and not root) or math.prod(layout.shape) < LEAST[context.kind]:
        return []
    worth, weighed = WORTH[context.kind], context.kind == "host"
    uses = _uses(steps)
    spent: list[int] = []
    read: list[frozenset[int]] = []
    found = []
    for i, step in enumerate(steps):
        itemsize, cost = step.dtype.itemsize, 0
        mine: frozenset[int] = frozenset()
        for kind, value in step.args:
            if kind == "step":
                cost += spent[value]
                mine |= read[value]
                itemsize = max(itemsize, steps[value].dtype.itemsize)
            elif kind == "leaf":
                mine |= {value}
        cost += (itemsize if weighed else 1) * (1 if step.ufunc.__name__ in CUT_FREE else INEXACT)
        spent.append(cost)
        read.append(mine)
        if weighed:
            cost += READ * itemsize * max(0, len(mine) - 1)
        if _references(step) - _ALONE <= uses[i] + programs - 1 or step.loud or (i == len(steps) - 1 and not root):
            continue
        node = step.node
        before = node.spent
        node.spent = before + cost
        least = worth * step.dtype.itemsize if weighed else worth
        if node.spent < least or node.shape != layout.shape or (not before and id(node) in lent):
            continue
        chunks = _room(context, layout, step.dtype)
        if chunks is not None:
            found.append(Stored(i, chunks))
            spent[i] = 0
            read[i] = frozenset()
    return found


def _room(context: Context, layout: Layout, dtype: AnyDType) -> list[Chunk | None] | None:
    """Memory for a value in a layout on the devices of this process; None where that is more than is left."""
    chunks: list[Chunk | None] = []
    for device_id in layout.devices:
        device = context.by_id[device_id]
        regions = layout.index_map.regions(device_id)
        if device.process != context.process:
            chunks += [None] * len(regions)
            continue
        limit = device.memory_limit
        if limit is not None:
            nbytes = dtype.itemsize * sum([region.size for region in regions])
            if device.count + nbytes > limit:
                return None
        try:
            chunks += device.empties([region.shape for region in regions], dtype, "a value that is held")
        except DeviceMemoryError:
            return None
    return chunks


def keep(context: Context, program: Program, layout: Layout, values: Sequence[Stored]) -> None:
    """Keep what has been computed, and let the devices know of it."""
    for step, chunks in values:
        kept = program.steps[step].node.kept = Kept(layout, chunks)
        for device in context.local_devices:
            device.spares.add(kept)
