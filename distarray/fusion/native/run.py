"""Cells of host arrays computed by kernels: block by block, so that one that met a floating-point condition can be computed
again by NumPy, which says where it was met.

A kernel writes to the result itself. Where the result is an operand too, the block of that operand is copied before, so that
computing again reads what stood there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from copy import copy
from functools import partial
from itertools import product
from struct import Struct
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from distarray.devices.arrays import DeviceArray
from distarray.devices.kernels import Kernels, collapse, steps_of, tell_compiled
from distarray.fusion import blocks
from distarray.fusion.native.element import NativeElement
from distarray.fusion.native.machine import CONDITIONS, is_loaded, is_offered, machine
from distarray.fusion.native.planning import NativePlan, Part, plan_of, scalars_of
from distarray.fusion.native.source import elementwise_text
from distarray.fusion.notes import Notes, call_numpy
from distarray.fusion.program import Program

__all__ = [
    "COMPILED",
    "KEPT",
    "LEAST",
    "LOADED",
    "NEAR",
    "NativeCell",
    "function_of",
    "is_due",
    "is_offered",
    "native_cells",
    "unmet",
]

LEAST = 1 << 14
"""Elements of a cell from which kernels are thought of: less is done before a plan is found."""

KEPT = 1 << 21
"""Steps times elements, in all calls so far, from which a kernel is looked for on disk."""

LOADED = 1 << 25
"""Steps times elements of one program, in all calls so far, for which the compiler is loaded."""

COMPILED = 1 << 24
"""Steps times elements, in all calls so far, from which a kernel is compiled: about what that costs."""

BLOCK = 1 << 17
"""Elements of a block where nothing lies in registers."""

NEAR = 4
"""The longest stride along rows, in elements, that kernels read with."""

SHORT = 64
"""Rows of at most so many elements that are broadcast are repeated to the length of a longer one: a kernel's loop over each
would cost more than its elements."""

TILE = 1 << 12
"""Elements of the longer row, which stays in the cache nearest to the core."""

_FUNCTIONS = Kernels()


class _Entry:
    """A kernel's text, and its function once there is one."""

    __slots__ = ("call", "looked", "owner", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.owner: Any = None
        self.call: Any = None
        self.looked = False


def is_due(spent: int) -> bool:
    """Whether a kernel is worth looking for."""
    return spent >= (KEPT if is_loaded() else LOADED)


def function_of(key: Hashable, text: Callable[[], str], spent: int) -> Any:
    """The function of a kernel, or None while compiling it costs more than has been spent without."""
    entry = _FUNCTIONS.get(key, lambda: _Entry(text()))
    if entry.call is None:
        found = machine()
        if found is None:
            return None
        if not entry.looked:
            entry.looked = True
            entry.owner = found.kept(entry.text)
        if entry.owner is None:
            if spent < COMPILED:
                return None
            start = perf_counter()
            entry.owner = found.compiled(entry.text)
            tell_compiled(perf_counter() - start)
        entry.call = entry.owner.call
    return entry.call


_CODES = {"b": "?7x", "f4": "f4x", "f8": "d", "i": "q", "u": "Q", "c8": "f4xf4x", "c16": "dd"}


def packing(element: NativeElement, arrays: int) -> Callable[..., bytes]:
    """What packs a kernel's arguments."""
    codes = [_CODES.get(t.kind) or _CODES[f"{t.kind}{t.itemsize}"] for t in element.scalars]
    return Struct(f"@{2 + 3 * arrays}q{''.join(codes)}").pack


class NativeCell:
    """One cell, with the kernels that compute it."""

    __slots__ = (
        "aliased",
        "arrays",
        "block",
        "calls",
        "leaves",
        "places",
        "plan",
        "program",
        "sizes",
        "span",
        "steps",
        "tail",
        "targets",
    )

    def __init__(
        self,
        program: Program,
        plan: NativePlan,
        arrays: dict[int, Any],
        leaves: int,
        targets: list[int],
        sizes: list[int],
        places: dict[int, int] | None = None,
    ) -> None:
        self.program = program
        self.plan = plan
        self.arrays = arrays
        self.leaves = leaves
        self.targets = targets
        self.sizes = sizes
        self.steps: dict[int, list[int]] = {}
        if places is None:
            places = {v: array.__array_interface__["data"][0] for v, array in arrays.items()}
        self.places = places
        self.aliased: list[int] = []
        self.calls: list[Any] = []
        self.block = BLOCK
        self.span = (0, sizes[-1])
        self.tail: NativeCell | None = None  # what is left where the elements fill no last row

    def cut(self, parts: int) -> list[NativeCell]:
        """The cell as so many, which share its rows' elements."""
        start, stop = self.span
        step = -(-(stop - start) // parts)
        found = []
        for low in range(start, stop, step):
            part = copy(self)
            part.span = (low, min(low + step, stop))
            found.append(part)
        return found

    def run(self, notes: Notes, again: Callable[[Sequence[Any], Any, Sequence[Any]], None], strict: bool) -> None:
        """Compute all blocks; `again` computes one by NumPy."""
        count = 1 + max(self.plan.registers.values(), default=-1)
        registers = blocks.REGISTERS.take(count + len(self.aliased))
        try:
            work = _CellRun(self, notes, again, strict, registers)
            done = met = 0
            for block in self._blocks():
                done += 1
                if 4 * met > 8 + done:  # most blocks meet something: NumPy alone costs less
                    work.repeat(block, copied=False)
                elif work.compute(block):
                    met += 1
            if 4 * met > 8 + done:
                self.plan.given_up += 1
        finally:
            blocks.REGISTERS.give(registers)
        if self.tail is not None:
            self.tail.run(notes, again, strict)

    def _blocks(self) -> Iterator[tuple[tuple[int, ...], int, int, int, int]]:
        """Leading indices, the first row and how many, the first element of rows and how many."""
        *lead, rows, _ = self.sizes
        start, stop = self.span
        wide = min(stop - start, self.block)
        high = max(1, self.block // wide)
        for index in product(*[range(k) for k in lead]):
            for row in range(0, rows, high):
                for low in range(start, stop, wide):
                    yield index, row, min(high, rows - row), low, min(wide, stop - low)


class _CellRun:
    """The run of one cell in one thread."""

    def __init__(
        self, cell: NativeCell, notes: Notes, again: Callable[..., Any], strict: bool, registers: Sequence[Any]
    ) -> None:
        self.cell = cell
        self.notes = notes
        self.again = again
        self.strict = strict
        self.registers = registers
        plan = cell.plan
        count = len(registers) - len(cell.aliased)
        self.held = {v: registers[r] for v, r in plan.registers.items()}
        self.copies = dict(zip(cell.aliased, registers[count:], strict=True))
        self.dtypes = {**plan.dtypes, **{v: cell.arrays[v].dtype for v in cell.aliased}}
        self.at = {v: r.__array_interface__["data"][0] for v, r in (*self.held.items(), *self.copies.items())}
        self.views: dict[int, Any] = {}
        self.shaped: dict[int, Any] = {}
        self.shape = (0, 0)

    def compute(self, block: tuple[Any, ...]) -> bool:
        """Compute one block; whether NumPy had to compute it again."""
        cell = self.cell
        plan, program = cell.plan, cell.program
        index, row, rows, low, n = block
        if self.shape != (rows, n):
            self.shape = (rows, n)
            self.shaped = {
                v: np.ndarray((rows, n), self.dtypes[v], memory)
                for v, memory in (*self.held.items(), *self.copies.items())
            }
        for v in cell.aliased:
            np.copyto(self.shaped[v], self.view(v, block))
        for part, (call, pack, scalars) in zip(plan.parts, cell.calls, strict=True):
            if part.element is None:
                self._numpy(part, block)
                continue
            words = [n, rows]
            for v in (*part.reads, *part.writes):
                if v in self.at:
                    item = self.dtypes[v].itemsize
                    words += (self.at[v], n * item, item)
                else:
                    *lead, between, along = cell.steps[v]
                    place = cell.places[v] + row * between + low * along
                    for i, step in zip(index, lead, strict=True):
                        place += i * step
                    words += (place, between, along)
            flags = call(pack(*words, *scalars))
            if flags and unmet(plan, program, flags, self.notes):
                self.repeat(block)
                return True
        return False

    def _numpy(self, part: Part, block: Sequence[Any]) -> None:
        step = self.notes.step = self.cell.program.steps[part.step]
        reads = iter([self.value(v, block) for v in part.reads])
        args = [value if kind == "const" else next(reads) for kind, value in step.args]
        if self.strict:
            args = [np.ascontiguousarray(a) if isinstance(a, np.ndarray) else a for a in args]
        into = self.value(part.writes[0], block)
        call_numpy(step, args, into)

    def value(self, v: int, block: Any) -> Any:
        found = self.shaped.get(v)
        return self.view(v, block) if found is None else found

    def view(self, v: int, block: Any) -> Any:
        """What of an array meets a block."""
        whole = self.views.get(v)
        if whole is None:
            cell = self.cell
            whole = self.views[v] = np.lib.stride_tricks.as_strided(cell.arrays[v], cell.sizes, cell.steps[v])
        index, row, rows, low, n = block
        return whole[(*index, slice(row, row + rows), slice(low, low + n))]

    def repeat(self, block: tuple[Any, ...], *, copied: bool = True) -> None:
        """Compute a block by NumPy's calls, from operands as they were."""
        cell = self.cell
        given = []
        for v in range(cell.leaves):
            given.append(self.shaped[v] if copied and v in self.copies else self.view(v, block))
        *stores, out = [self.view(v, block) for v in cell.targets]
        self.again(given, out, stores)


def unmet(plan: NativePlan, program: Program, flags: int, notes: Notes) -> bool:
    """Whether there is more to be said of floating-point conditions than has been noted."""
    for kind, i in plan.raising:
        if flags & CONDITIONS[kind]:
            if i is None:
                if notes.now[kind] != "ignore":
                    return True
            else:
                step = program.steps[i]
                if step.errors[kind] != "ignore" and (_WORDS[kind], id(step)) not in notes.seen:
                    return True
    return False


_WORDS = {kind: words for words, kind in Notes.WORDS.items()}


def native_cells(
    program: Program, jobs: Sequence[tuple[Any, Sequence[Any]]], stored: tuple[int, ...]
) -> list[list[NativeCell | None]] | None:
    """For each device's cells what computes them by kernels, or None where all are NumPy's."""
    total = 0
    for _, cells in jobs:
        for out, _, _ in cells:
            if out.size >= LEAST:
                total += out.size
    if not total or not program.steps or total * len(program.steps) < LEAST or not is_offered():
        return None
    found: list[list[NativeCell | None]] = []
    kind: Any = None
    plan: NativePlan | None = None
    scalars: list[list[Any]] = []
    for _, cells in jobs:
        mine: list[NativeCell | None] = []
        for out, operands, stores in cells:
            cell = None
            if out.size >= LEAST:
                dtypes = (tuple([a.dtype for a in operands]), out.dtype)
                if dtypes != kind:
                    plan = plan_of(program, *dtypes, stored)
                    if plan is None or plan.given_up > 2:
                        return None
                    if kind is None:
                        plan.spent += total * len(program.steps)
                    kind = dtypes
                    scalars = [scalars_of(program, part) for part in plan.parts]  # type: ignore[misc]
                    if not is_due(plan.spent) or None in scalars:
                        return None
                assert plan is not None
                cell = _cell(program, plan, operands, out, stored, stores, scalars)
            mine.append(cell)
        found.append(mine)
    return found


class _Lie(NamedTuple):
    """How a cell's arrays lie: the axes that are left, each array's strides along them in bytes, and how each runs along the
    last. `line`: the length of `rows`, the arrays that are one short row, repeated here."""

    sizes: list[int]
    steps: list[list[int]]
    kinds: list[str]
    line: int = 0
    rows: tuple[int, ...] = ()


_LIES = Kernels(4096)


def _lie(arrays: Sequence[Any], mixed: bool) -> _Lie | None:
    """How arrays lie, the last of which has the shape of all; None where kernels do not take them so."""
    out = arrays[-1]
    order = sorted(range(out.ndim), key=lambda axis: -abs(out.strides[axis]))
    strides = []
    for array in arrays:
        own = steps_of(array, out.shape)
        if own is None:
            return None
        strides.append(tuple([own[axis] for axis in order]))
    sizes, steps = collapse(tuple([out.shape[axis] for axis in order]), strides)
    while len(sizes) < 2:
        sizes.insert(0, 1)
        for step in steps:
            step.insert(0, 0)
    if sizes[-1] * sizes[-2] < LEAST:
        return None
    if len(sizes) == 2 and not mixed and (tiled := _tiled(arrays, sizes, steps)) is not None:
        return tiled
    if sizes[-1] < 8:
        return None
    if any(abs(step[-1]) > NEAR for step in steps):
        return None
    first = -2 if sizes[-2] > 1 else -1
    if mixed and any(0 in step[first:] and a.size > 1 for step, a in zip(steps, arrays, strict=True)):
        return None  # NumPy's calls would be made for more elements than there are
    kinds = ["v" if s[-1] == 1 else "s" if s[-1] == 0 else "x" for s in steps]
    return _Lie(sizes, [[k * a.dtype.itemsize for k in s] for s, a in zip(steps, arrays, strict=True)], kinds)


def _tiled(arrays: Sequence[Any], sizes: Sequence[int], steps: Sequence[Sequence[int]]) -> _Lie | None:
    """The same for short rows that meet arrays without gaps: in rows of about `TILE` elements. None of others."""
    line = sizes[-1]
    rows = tuple([k for k, step in enumerate(steps) if list(step) == [0, 1]])
    if sizes[0] == 1 or not 1 < line <= SHORT or not rows:
        return None
    if any(list(step) not in ([line, 1], [0, 1], [0, 0]) for step in steps):
        return None
    long = TILE // line * line
    items = [a.dtype.itemsize for a in arrays]
    dense = [step[-1] for step in steps]
    between = [long * item if step[0] else 0 for step, item in zip(steps, items, strict=True)]
    found = [[b, item * d] for b, item, d in zip(between, items, dense, strict=True)]
    return _Lie([sizes[0] * line // long, long], found, ["v" if d else "s" for d in dense], line, rows)


def _in_line(array: DeviceArray, size: int, step: int) -> Any:
    """So many elements of an array from its first on, a step of bytes apart."""
    return np.lib.stride_tricks.as_strided(array, [size], [step])


def _tail(cell: NativeCell, size: int) -> NativeCell | None:
    """What a cell in long rows leaves of so many elements."""
    rows, long = cell.sizes
    done = rows * long
    if done == size:
        return None
    tail = copy(cell)
    tail.sizes, tail.span = [1, size - done], (0, size - done)
    tail.steps = {v: [0, along] for v, (_, along) in cell.steps.items()}
    tail.arrays = {}
    for v, array in cell.arrays.items():
        between, along = cell.steps[v]
        tail.arrays[v] = _in_line(array, size, along)[done:] if between else array
    tail.places = {v: array.__array_interface__["data"][0] for v, array in tail.arrays.items()}
    return tail


def _cell(
    program: Program,
    plan: NativePlan,
    operands: Sequence[Any],
    out: DeviceArray,
    stored: tuple[int, ...],
    stores: Sequence[Any],
    scalars: Sequence[Sequence[Any]],
) -> NativeCell | None:
    """One cell's arrays as kernels take them; None where they do not."""
    first = len(operands)
    every = [*operands, *stores, out]
    mixed = len(plan.parts) > 1
    key = (LEAST, mixed, *[(a.dtype, a.shape, a.strides) for a in every])
    lie: _Lie | None = _LIES.get(key, lambda: _lie(every, mixed))
    if lie is None or not all(a.flags.aligned and a.dtype.isnative for a in every):
        return None
    numbers = [*range(first), *[first + i for i in stored], first + len(program.steps)]
    cell = NativeCell(program, plan, dict(zip(numbers, every, strict=True)), first, numbers[first:], lie.sizes)
    cell.steps = dict(zip(numbers, lie.steps, strict=True))
    for k in lie.rows:
        row = _in_line(every[k], lie.line, lie.steps[k][-1])
        tile = cell.arrays[numbers[k]] = np.tile(row, TILE // lie.line)
        cell.places[numbers[k]] = tile.__array_interface__["data"][0]
    for v, array in enumerate(operands):
        for target, written in zip(cell.targets, every[first:], strict=True):
            if np.may_share_memory(array, written):
                if v in lie.rows or cell.places[v] != cell.places[target] or cell.steps[v] != cell.steps[target]:
                    return None
                if (plan.raising or mixed) and v not in cell.aliased:
                    cell.aliased.append(v)
    kinds = dict(zip(numbers, lie.kinds, strict=True))
    if plan.registers or cell.aliased:
        itemsize = max([plan.itemsize, *[operands[v].dtype.itemsize for v in cell.aliased]])
        cell.block = min(BLOCK, blocks.REGISTER_BYTES // itemsize)
        kinds.update(dict.fromkeys([*plan.registers, *cell.aliased], "v"))
    for part, given, known in zip(plan.parts, scalars, plan.kernels, strict=True):
        if part.element is None:
            cell.calls.append((None, None, ()))
            continue
        mine = "".join([kinds[v] for v in (*part.reads, *part.writes)])
        kernel = known.get(mine)
        if kernel is None:
            element = part.element
            call = function_of((element, mine), partial(elementwise_text, element, mine), plan.spent)
            if call is None:
                return None
            kernel = known[mine] = (call, packing(element, len(mine)))
        cell.calls.append((*kernel, given))
    if lie.rows:
        cell.tail = _tail(cell, out.size)
    return cell
