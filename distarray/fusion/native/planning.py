"""Which steps of a program are compiled, and in which order: exact ones together, between those that stay NumPy's.

A step belongs to the first stretch of exact steps in which its operands are known; calls of NumPy's stand between stretches. So a
program without transcendental functions is one kernel, and another has as few passes as its longest chain of such calls asks for.
What one part hands to another lies in a register of the thread, a block at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from distarray.devices.arrays import AnyDType
from distarray.devices.kernels import Kernels
from distarray.fusion.native.element import Line, NativeElement, exact, literal_type
from distarray.fusion.native.operations import PARTS, is_known, may_raise
from distarray.fusion.program import Instruction, Program

__all__ = ["Part", "NativePlan", "plan_of", "scalars_of", "settled_scalars"]


class Part(NamedTuple):
    """A kernel, or (`element` None) one call of NumPy's.

    Attributes
    ----------
    step : int
        Of a call of NumPy's.
    reads, writes : tuple of int
        Values: leaves first, then steps, then the result in its own dtype.
    scalars : tuple of (step, argument, dtype)
        Where the kernel's scalars stand.
    """

    element: NativeElement | None
    step: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    scalars: tuple[tuple[int, int, Any], ...]


class NativePlan:
    """How a program is computed by kernels.

    Attributes
    ----------
    parts : list of Part
    registers : dict of int to int
        For each value that lies in a register, which.
    dtypes : dict of int to dtype
        Of the values in registers.
    raising : list of (condition, step or None)
        What compiled steps may report; None stands for the conversion of the result.
    spent : int
        Steps times elements that have been asked for so far: what compiling is weighed against.
    given_up : int
        How often most blocks had to be computed again by NumPy.
    mixed : bool
        Whether NumPy's calls are among the parts.
    kernels : list of dict
        For each part what calls and packs its kernels, by how the arrays lie.
    """

    __slots__ = ("dtypes", "given_up", "itemsize", "kernels", "mixed", "parts", "raising", "registers", "spent")

    def __init__(self, parts: list[Part], dtypes: dict[int, Any], raising: list[tuple[str, int | None]]) -> None:
        self.parts = parts
        self.mixed = any(part.element is None for part in parts)
        self.dtypes = dtypes
        self.raising = raising
        self.registers = _registers(parts, dtypes)
        self.itemsize = max([t.itemsize for t in dtypes.values()], default=1)
        self.kernels: list[dict[str, tuple[Any, Any]]] = [{} for _ in parts]
        self.spent = 0
        self.given_up = 0


def _registers(parts: Sequence[Part], dtypes: dict[int, Any]) -> dict[int, int]:
    ends = {value: i for i, part in enumerate(parts) for value in (*part.writes, *part.reads)}
    found: dict[int, int] = {}
    free: list[int] = []
    count = 0
    for i, part in enumerate(parts):
        for value in part.writes:
            if value in dtypes:
                if not free:
                    free.append(count)
                    count += 1
                found[value] = free.pop()
        free.extend([found[v] for v in {*part.reads, *part.writes} if v in found and ends[v] == i])
    return found


_PLANS = Kernels(4096)


def plan_of(
    program: Program, leaves: tuple[Any, ...], dtype: AnyDType, stored: tuple[int, ...], single: bool = False
) -> NativePlan | None:
    """The plan of a program whose result is stored as `dtype`, and the steps `stored` in arrays of their own; None where kernels
    gain nothing. `single`: none but a plan of one kernel, which may be of one step."""
    if program.result[0] != "step":
        return None
    key: list[Any] = [dtype, leaves, stored, single]
    for step in program.steps:
        args = tuple([(k, literal_type(v)) if k == "const" else (k, v) for k, v in step.args])
        key.append((step.ufunc, args, step.dtype, step.masked, step.loud, step.kwargs.get("dtype"), len(step.kwargs)))
    plan: NativePlan | None = _PLANS.get(tuple(key), lambda: _planned(program, leaves, dtype, stored, single))
    return plan


Exact: TypeAlias = Sequence[tuple[Any, tuple[Any, ...]] | None]
"""For each step of a program the dtypes in which kernels compute it, None where NumPy does."""


def _planned(
    program: Program, leaves: tuple[Any, ...], dtype: AnyDType, stored: tuple[int, ...], single: bool
) -> NativePlan | None:
    steps, first = program.steps, len(leaves)
    last = len(steps) - 1
    if not is_known(dtype) or any(step.loud for step in steps):
        return None
    staged = _staged(steps, leaves)
    if staged is None:
        return None
    found, stages = staged
    if found[last] is None and (steps[last].dtype != dtype or last in stored):
        return None
    if single and None in found:
        return None
    parts = _parts(program, leaves, dtype, stored, found, stages)
    if parts is None:
        return None
    saved = sum([len(part.element.lines) - 1 for part in parts if part.element is not None])
    saved += sum([step.masked or step.dtype != dtype for step in steps])
    saved += sum([any(t != how[0] for t in how[1]) for how in found if how is not None])  # NumPy converts in pieces
    if saved < 1 and not single:
        return None
    written = [v - first for part in parts for v in part.writes if v <= first + last]
    dtypes = {first + i: steps[i].dtype for i in written if i not in stored}
    return NativePlan(parts, dtypes, _raising(steps, found, dtype))


def _staged(steps: Sequence[Instruction], leaves: tuple[Any, ...]) -> tuple[Exact, list[int]] | None:
    """The exact steps, and for each step after how many changes between kernels and NumPy's own calls it can be computed; None
    where kernels do not serve."""
    found: list[tuple[Any, tuple[Any, ...]] | None] = []
    stages: list[int] = []
    for step in steps:
        types = tuple(
            [leaves[v] if k == "leaf" else steps[v].dtype if k == "step" else literal_type(v) for k, v in step.args]
        )
        how = exact(step, types)
        before = [v for k, v in step.args if k == "step"]
        if how is None:
            if not before or step.dtype.kind not in "biufc":
                return None  # the same in every block, or too costly to read twice
            stages.append(max(stages[v] for v in before))
        else:
            stages.append(max([stages[v] + (found[v] is None) for v in before], default=0))
        found.append(how)
    return found, stages


def _parts(
    program: Program,
    leaves: tuple[Any, ...],
    dtype: AnyDType,
    stored: tuple[int, ...],
    found: Exact,
    stages: Sequence[int],
) -> list[Part] | None:
    """The stages in their order, each a kernel for its exact steps and then NumPy's calls; None where kernels do not serve."""
    steps, first = program.steps, len(leaves)
    last = len(steps) - 1
    parts: list[Part] = []
    for stage in range(max(stages) + 1):
        mine = [i for i in range(len(steps)) if stages[i] == stage and found[i] is not None]
        if mine:
            part = _kernel(program, leaves, dtype, stored, found, stages, mine)
            if part is None:
                return None
            parts.append(part)
        for i, step in enumerate(steps):
            if stages[i] == stage and found[i] is None:
                reads = tuple([v if k == "leaf" else first + v for k, v in step.args if k != "const"])
                writes = (first + last + 1 if i == last and i not in stored else first + i,)
                parts.append(Part(None, i, reads, writes, ()))
    return parts


def _raising(steps: Sequence[Instruction], found: Exact, dtype: AnyDType) -> list[tuple[str, int | None]]:
    """The floating-point conditions that kernels may meet, and at which step; None is the conversion to the result's dtype."""
    raising: list[tuple[str, int | None]] = []
    for i, (step, how) in enumerate(zip(steps, found, strict=True)):
        if how is not None:
            raising += [(kind, i) for kind in may_raise(step.ufunc.__name__, how[0], step.dtype)]
            if step.masked:
                raising += [(kind, i) for kind in may_raise("astype", how[1][-1], step.dtype)]
    return raising + [(kind, None) for kind in may_raise("astype", steps[-1].dtype, dtype)]


def _kernel(
    program: Program,
    leaves: tuple[Any, ...],
    dtype: AnyDType,
    stored: tuple[int, ...],
    found: Exact,
    stages: Sequence[int],
    mine: Sequence[int],
) -> Part | None:
    """The part of the exact steps of one stage."""
    steps, first = program.steps, len(leaves)
    last = len(steps) - 1
    here = {i: n for n, i in enumerate(mine)}
    reads: dict[int, int] = {}
    scalars: list[tuple[int, int, Any]] = []
    lines = []
    for i in mine:
        step, how = steps[i], found[i]
        assert how is not None
        loop, types = how
        picks = []
        settled = []
        for place, ((kind, value), t) in enumerate(zip(step.args, types, strict=True)):
            if kind == "const":
                want = loop if place < len(types) - (2 if step.masked else 0) else t
                picks.append(("scalar", len(scalars)))
                scalars.append((i, place, want))
                settled.append(want)
            elif kind == "step" and value in here:
                picks.append(("line", here[value]))
                settled.append(t)
            else:
                number = value if kind == "leaf" else first + value
                picks.append(("array", reads.setdefault(number, len(reads))))
                settled.append(t)
        lines.append(Line(step.ufunc.__name__, tuple(picks), tuple(settled), loop, step.dtype, step.masked))
    wanted = {v for j, step in enumerate(steps) if j not in here for k, v in step.args if k == "step" and v in here}
    wanted.update([i for i in mine if i in stored])
    results = [(("line", here[i]), steps[i].dtype, steps[i].dtype) for i in sorted(wanted)]
    writes = [first + i for i in sorted(wanted)]
    if last in here:
        results.append((("line", here[last]), steps[last].dtype, dtype))
        writes.append(first + last + 1)
    arrays = tuple([leaves[v] if v < first else steps[v - first].dtype for v in reads])
    element = NativeElement(arrays, tuple([t for _, _, t in scalars]), tuple(lines), tuple(results))
    if not element.is_possible():
        return None
    return Part(element, -1, tuple(reads), tuple(writes), tuple(scalars))


def scalars_of(program: Program, part: Part) -> list[Any] | None:
    """The values of a kernel's scalars; None where one has no room in its dtype, which NumPy would say something about."""
    return settled_scalars([(program.steps[step].args[place][1], dtype) for step, place, dtype in part.scalars])


def settled_scalars(numbers: Sequence[tuple[Any, Any]]) -> list[Any] | None:
    """Numbers as a kernel takes them in the dtypes beside them; None where one has no room."""
    found: list[Any] = []
    for value, dtype in numbers:
        if type(value) is float and dtype.kind == "f" and (value == 0 or 1e-30 < abs(value) < 1e30):
            found.append(value)
        elif dtype.kind in "iu":
            info = np.iinfo(dtype)
            if not isinstance(value, (bool, int, np.integer, np.bool_)) or not info.min <= value <= info.max:
                return None
            found.append(int(value))
        elif dtype.kind == "b":
            found.append(bool(value))
        else:
            held = PARTS.get(dtype, dtype)
            for number in (value.real, value.imag) if dtype.kind == "c" else (value,):
                with np.errstate(all="ignore"):
                    cast = float(np.asarray(number).astype(held))
                if (cast in (np.inf, -np.inf) or cast == 0) and cast != number:
                    return None
                found.append(cast)
    return found
