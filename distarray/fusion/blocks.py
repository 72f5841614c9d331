"""A program over host arrays in one pass: block by block, each step into memory that the thread has touched before.

A step that allocates its result pays page faults on every block, which cost more than the arithmetic. So the steps'
results are given registers, as a compiler gives them: as few as live at once, each of a fixed number of bytes, kept by
the thread from one evaluation to the next. What is the same for all blocks is computed once, the last step writes the
result itself. NumPy's own ufuncs do the work: its bits.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from distarray.devices.arrays import AnyDType, DeviceArray
from distarray.devices.pool import ALIGNMENT
from distarray.fusion.expr import ASTYPE, Conversion, real_part
from distarray.fusion.notes import GAPPED, Notes, call_numpy, is_same
from distarray.fusion.program import Instruction, Program

__all__ = [
    "CUT_FREE",
    "LIGHT_BYTES",
    "REGISTERS",
    "REGISTER_BYTES",
    "Schedule",
    "fold_blocks",
    "is_light",
    "run_blocks",
    "schedule",
    "worth_blocks",
]

REGISTER_BYTES = 1 << 19
"""Of a register. Its blocks are 2¹⁶ float64: of smaller ones the calls cost too much, and the interpreter lock where two threads
work."""

KEPT = 12
"""The most registers that a thread keeps: 6 MiB."""

SHORT = 64
"""Elements of the longest rows that are repeated to the length of a block."""

CUT_FREE = frozenset(
    """add subtract multiply divide true_divide negative positive absolute fabs sqrt square reciprocal floor ceil trunc rint
    conjugate sign maximum minimum fmax fmin equal not_equal less less_equal greater greater_equal logical_and logical_or
    logical_xor logical_not bitwise_and bitwise_or bitwise_xor invert left_shift right_shift isnan isinf isfinite signbit
    copysign astype floor_divide remainder fmod divmod modf nextafter spacing gcd lcm bitwise_count""".split()
)
"""Ufuncs whose result for an element is the same bits however the array is strided; the others (exp, sin, …) may take
another code path for strided data, so that overlapping chunks feed them contiguous data."""

LIGHT = frozenset(
    """add subtract multiply negative positive absolute square maximum minimum equal not_equal less less_equal greater
    greater_equal logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor invert""".split()
)
"""Ufuncs that take no longer than memory, or the cache, hands them their operands."""

LIGHT_BYTES = 1 << 23
"""A few such calls on fewer bytes in all, operands and results, end before other threads have taken up their part."""


def is_light(ufunc: np.ufunc | Conversion, dtype: np.dtype[Any]) -> bool:
    """Whether a call with a result of this dtype is one of `LIGHT`, and computed as fast as that."""
    return ufunc.__name__ in LIGHT and dtype.kind in "biuf" and (dtype.kind != "f" or dtype.itemsize in (4, 8))


def _register() -> Any:
    memory = np.empty(REGISTER_BYTES + ALIGNMENT, np.uint8)
    start = -memory.__array_interface__["data"][0] % ALIGNMENT
    return memory[start : start + REGISTER_BYTES]


class _Registers(threading.local):
    """Memory of one thread. Taken and given back, since a handler of floating-point conditions may evaluate too."""

    def __init__(self) -> None:
        self.free: list[Any] = []

    def take(self, count: int) -> list[Any]:
        taken: list[Any] = []
        while len(taken) < count:
            taken.append(self.free.pop() if self.free else _register())
        return taken

    def give(self, taken: Sequence[Any]) -> None:
        self.free.extend(taken[: max(0, KEPT - len(self.free))])


REGISTERS = _Registers()
"""Scratch of each thread, of at most `KEPT` registers between calls, whatever the context: it holds no values."""


class Schedule(NamedTuple):
    """A program's steps as `run_blocks` calls them.

    Attributes
    ----------
    picks : tuple of tuple of int
        For each step, where its arguments stand: leaves first, then constants, then steps' results.
    constants : tuple
    registers : tuple of int
        For each step, the number of its register; -1 where it writes the result.
    needed : int
        How many registers.
    itemsize : int
        Of the largest element that a register holds.
    stored : tuple of int
        Steps that write to arrays of the result's shape, which are kept.
    """

    program: Program
    leaves: int
    picks: tuple[tuple[int, ...], ...]
    constants: tuple[Any, ...]
    registers: tuple[int, ...]
    needed: int
    itemsize: int
    stored: tuple[int, ...] = ()


def schedule(program: Program, leaves: int, dtype: AnyDType, stored: tuple[int, ...] = ()) -> Schedule:
    """Give every step a register that is free while its value lives. `dtype`: of the array that is written."""
    steps = program.steps
    direct = steps[-1].dtype == dtype
    constants = [v for step in steps for k, v in step.args if k == "const"]
    first = leaves + len(constants)
    picks: list[tuple[int, ...]] = []
    ends = list(range(len(steps)))
    number = leaves
    for i, step in enumerate(steps):
        mine = []
        for kind, value in step.args:
            if kind == "leaf":
                mine.append(value)
            elif kind == "const":
                mine.append(number)
                number += 1
            else:
                mine.append(first + value)
                ends[value] = i
        picks.append(tuple(mine))
    ends[-1] = len(steps)  # where the result is of another dtype, it is read once more
    registers: list[int] = []
    free: list[int] = []
    count = 0
    for i, step in enumerate(steps):
        inputs = {v for k, v in step.args if k == "step" and ends[v] == i and registers[v] >= 0}
        same = [v for v in inputs if steps[v].dtype == step.dtype]
        if i in stored or (direct and i == len(steps) - 1):
            registers.append(-1)
        elif same and not step.masked and step.ufunc.__name__ in CUT_FREE and step.ufunc.__name__ != "astype":
            registers.append(registers[same[0]])
            inputs.remove(same[0])
        elif free:
            registers.append(free.pop())
        else:
            registers.append(count)
            count += 1
        free.extend([registers[v] for v in inputs])
    itemsize = max(step.dtype.itemsize for step in steps)
    return Schedule(program, leaves, tuple(picks), tuple(constants), tuple(registers), count, itemsize, stored)


def worth_blocks(program: Program, out: DeviceArray) -> bool:
    """Whether blocks gain anything: there are temporaries, and they are large."""
    steps = program.steps
    if program.result[0] != "step" or not out.ndim or out.nbytes <= REGISTER_BYTES:
        return False
    return len(steps) > 1 or steps[0].masked or steps[0].dtype != out.dtype


def _flat(arrays: Sequence[Any]) -> list[Any] | None:
    """The arrays in one axis, where all of more than one element lie in C order in one shape."""
    shape = arrays[0].shape
    for array in arrays:
        if array.ndim and (array.shape != shape or not array.flags.c_contiguous):
            return None
    return [array.reshape(-1) if array.ndim else array for array in arrays]


def _cut(shape: Sequence[int], strides: Sequence[int], most: int) -> Iterator[tuple[slice, ...]]:
    """Blocks of at most `most` elements, cut along the axes of the largest strides. Given no array: a generator that is not
    run to its end would keep it."""
    order = sorted([a for a in range(len(shape)) if shape[a] > 1], key=lambda a: -abs(strides[a]))
    return _cut_along(order, shape, [slice(None)] * len(shape), prod(shape), most)


def _cut_along(
    order: Sequence[int], shape: Sequence[int], key: list[slice], size: int, most: int
) -> Iterator[tuple[slice, ...]]:
    """Blocks of the part of `size` elements that `key` leaves. No closure that calls itself: such a cycle keeps what it
    refers to until the collector comes."""
    if size <= most or not order:
        yield tuple(key)
        return
    axis = order[0]
    n = shape[axis]
    line = size // n
    rows = max(1, most // line)
    for low in range(0, n, rows):
        key[axis] = slice(low, min(low + rows, n))
        if rows == 1:
            yield from _cut_along(order[1:], shape, key, line, most)
        else:
            yield tuple(key)
    key[axis] = slice(None)


def _part(array: DeviceArray, key: tuple[slice, ...], moving: Sequence[int]) -> Any:
    """What of an operand meets a block of the result; `moving` are the operand's axes that are not broadcast."""
    lead = len(key) - array.ndim
    return array[tuple([key[lead + a] if a in moving else slice(None) for a in range(array.ndim)])]


def _like(args: Sequence[Any], shape: tuple[int, ...], dtype: Any, buffer: Any) -> Any:
    """An array in a register, in the order of axes in which NumPy itself would allocate the result."""
    arrays = [a for a in args if isinstance(a, np.ndarray) and a.ndim]
    if len(shape) < 2 or all(a.flags.c_contiguous and a.shape == shape for a in arrays):
        return np.ndarray(shape, dtype, buffer)
    flags: Any = [["readonly"]] * len(arrays) + [["writeonly", "allocate"]]
    dtypes: Any = [None] * len(arrays) + [dtype]
    model = np.nditer([*arrays, None], order="K", op_flags=flags, op_dtypes=dtypes)
    strides = model.operands[-1].strides
    order = sorted(range(len(shape)), key=lambda a: -abs(strides[a]))
    found = np.ndarray([shape[a] for a in order], dtype, buffer)
    return found.transpose([order.index(a) for a in range(len(order))])


_WORDS = {n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)}


def _selected(args: Sequence[Any], into: Any) -> bool:
    """Choose between two arrays or scalars of one dtype by a mask: ``y ^ ((x ^ y) & -mask)`` on their bits, which costs a
    quarter of a masked copy; for pairs of words half of it goes to NumPy's ``where`` and a copy. False where it does not serve."""
    x, mask, y = args
    word = _WORDS.get(into.dtype.itemsize)
    if (word is None and into.dtype.itemsize != 16) or np.shape(mask) != into.shape:
        return False
    for value in (x, y):
        if not isinstance(value, (np.ndarray, np.generic)) or value.dtype != into.dtype:
            return False
        if value.ndim and value.shape != into.shape:
            return False
    if word is None:
        np.copyto(into, np.where(mask, x, y))
        return True
    if isinstance(y, np.ndarray) and np.may_share_memory(y, into) and not is_same(y, into):
        return False
    taken = REGISTERS.take(2)
    try:
        holds = np.ndarray(into.shape, bool, taken[1])
        bits, differ = (_like((into,), into.shape, word, register) for register in taken)
        np.not_equal(mask.view(np.uint8), 0, out=holds)
        np.negative(holds.view(np.uint8), out=bits, dtype=word, casting="unsafe")
        first, second = x.view(word), y.view(word)
        np.bitwise_xor(first, second, out=differ)
        np.bitwise_and(differ, bits, out=differ)
        np.bitwise_xor(differ, second, out=into.view(word))
    finally:
        REGISTERS.give(taken)
    return True


def run_blocks(
    plan: Schedule, operands: Sequence[Any], out: DeviceArray, strict: bool, notes: Notes, stores: Sequence[Any] = ()
) -> None:
    """Compute a program into `out`, and the steps that are kept into `stores`."""
    taken = REGISTERS.take(plan.needed)
    try:
        _Pass(plan, operands, out, strict, notes, taken, stores).run()
    finally:
        REGISTERS.give(taken)


def fold_blocks(
    plan: Schedule, operands: Sequence[Any], sizes: Sequence[int], dtype: AnyDType, notes: Notes
) -> Iterator[Any]:
    """The values of a program over operands in one axis, in blocks of these sizes, each in memory that the next overwrites.
    What the steps meet is noted; the caller, between blocks, has its own floating-point state."""
    taken = REGISTERS.take(plan.needed + 1)
    try:
        work = _Pass(plan, operands, None, False, notes, taken, ())
        low = 0
        for size in sizes:
            block = np.ndarray(size, dtype, taken[-1])
            with notes.listening(plan.program):
                work.block((slice(low, low + size),), block)
            yield block
            low += size
    finally:
        REGISTERS.give(taken)


class _Pass:
    """One program over one cell."""

    def __init__(
        self,
        plan: Schedule,
        operands: Sequence[Any],
        out: DeviceArray | None,
        strict: bool,
        notes: Notes,
        registers: Sequence[Any],
        stores: Sequence[Any],
    ) -> None:
        self.plan, self.strict, self.notes, self.registers = plan, strict, notes, registers
        self.first = plan.leaves + len(plan.constants)
        arrays = [out, *operands, *stores]
        self.rows: dict[int, Any] = {}
        self.line = 1
        if out is not None:
            arrays = _flat(arrays) or self._flat_rows(arrays) or arrays
        self.out, *arrays = arrays
        self.operands, stores = arrays[: len(operands)], arrays[len(operands) :]
        self.stores = dict(zip(plan.stored, stores, strict=True))
        last = plan.program.steps[-1]
        self.direct = out is None or (out.dtype == last.dtype and len(plan.program.steps) - 1 not in self.stores)
        self.values: list[Any] = [None] * (self.first + len(plan.program.steps))
        self.values[plan.leaves : self.first] = plan.constants

        self.moving: dict[int, list[int]] = {}
        for k, array in enumerate(self.operands):
            axes = [a for a in range(array.ndim) if array.shape[a] > 1]
            if axes or k in self.rows:
                self.moving[k] = axes
            else:
                self.values[k] = array
        self.varying: list[int] | None = None
        self.shape: tuple[int, ...] | None = None

    def run(self) -> None:
        most = max(1, REGISTER_BYTES // self.plan.itemsize)
        if self.rows:
            most -= most % self.line
            for k, row in self.rows.items():
                self.operands[k] = np.tile(row, min(most, self.out.size) // self.line)
        for key in _cut(self.out.shape, self.out.strides, most):
            self.block(key, self.out[key])

    def block(self, key: tuple[slice, ...], block: Any) -> None:
        """Compute what lies at `key` of the result into `block`."""
        values, first = self.values, self.first
        varying = self.varying
        if varying is None:
            varying = self.varying = self._hoisted(self.moving)
        for k, axes in self.moving.items():
            array = self.operands[k]
            values[k] = array[: block.size] if k in self.rows else _part(array, key, axes)
        for i, array in self.stores.items():
            if i in varying:
                values[first + i] = array[key]
        if self.direct:
            values[-1] = block
        if block.shape != self.shape:
            self.shape = block.shape
            self._furnish(varying)
        self._block(varying)
        if not self.direct:
            self.notes.cast(block, real_part(values[-1], block.dtype))

    def _flat_rows(self, arrays: Sequence[Any]) -> list[Any] | None:
        """The arrays in one axis, where all lie in C order but for short rows that are broadcast: those are repeated to the length
        of a block, once, since NumPy calls its loop for each row. Rows that meet no other array in a step are left as they are."""
        out = arrays[0]
        line = out.shape[-1] if out.ndim > 1 else 0
        if not 1 < line <= SHORT or 2 * line * self.plan.itemsize > REGISTER_BYTES or self.strict:
            return None
        rows = {k: array for k, array in enumerate(arrays[1:]) if array.size == line and array.shape[-1] == line}
        leaves = self.plan.leaves
        for picks in self.plan.picks:
            if not rows.keys().isdisjoint(picks) and all(
                p in rows or (p < leaves and not arrays[1 + p].ndim) or leaves <= p < self.first for p in picks
            ):
                return None
        flat = _flat([array for k, array in enumerate(arrays, -1) if k not in rows])
        if not rows or flat is None:
            return None
        self.rows, self.line = {k: row.reshape(-1) for k, row in rows.items()}, line
        rest = iter(flat)
        return [self.rows[k] if k in rows else next(rest) for k in range(-1, len(arrays) - 1)]

    def _hoisted(self, moving: dict[int, list[int]]) -> list[int]:
        """The steps that differ from block to block. The others are computed, once."""
        plan = self.plan
        steps = plan.program.steps
        changing = set(moving)
        varying = []
        for i, step in enumerate(steps):
            last = i == len(steps) - 1
            if last or not changing.isdisjoint(plan.picks[i]):
                changing.add(self.first + i)
                varying.append(i)
            else:
                self.notes.step = step
                self.values[self.first + i] = call_numpy(step, self._args(i, step), None)
                if i in self.stores:
                    np.copyto(self.stores[i], self.values[self.first + i])
        return varying

    def _args(self, i: int, step: Instruction) -> list[Any]:
        args = [self.values[p] for p in self.plan.picks[i]]
        if self.strict and step.ufunc.__name__ not in CUT_FREE:
            args = [np.ascontiguousarray(a) if isinstance(a, np.ndarray) and a.ndim else a for a in args]
        return args

    def _furnish(self, varying: Sequence[int]) -> None:
        """Views of the registers for blocks of a new shape."""
        plan = self.plan
        steps = plan.program.steps
        for i in varying:
            if i in self.stores or (self.direct and i == len(steps) - 1):
                continue
            args = self._args(i, steps[i])
            shape = np.broadcast_shapes(*[np.shape(a) for a in args])
            self.values[self.first + i] = _like(args, shape, steps[i].dtype, self.registers[plan.registers[i]])

    def _block(self, varying: Sequence[int]) -> None:
        plan, values, first, notes = self.plan, self.values, self.first, self.notes
        steps, picks, strict = plan.program.steps, plan.picks, self.strict
        for i in varying:
            step = notes.step = steps[i]
            into = values[first + i]
            if step.masked or step.loud or strict or step.ufunc in GAPPED:
                args = self._args(i, step)
                if step.loud:
                    notes.loudly(step, args, into)
                elif step.ufunc is not ASTYPE or not step.masked or not _selected(args, into):
                    call_numpy(step, args, into)
            else:
                step.ufunc(*[values[p] for p in picks[i]], out=into, **step.kwargs)
