"""Exact steps of a program as one function of an element, in LLVM's language: what kernels of every form are written around."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from distarray.devices.arrays import AnyDType
from distarray.fusion import gpu_ufuncs
from distarray.fusion.expr import Conversion
from distarray.fusion.native.operations import BOOL, PARTS, Pair, Value, Writer, is_known, operation_of
from distarray.fusion.program import Instruction

__all__ = ["NativeElement", "Line", "exact", "literal_type"]


class Line(NamedTuple):
    """One step. `picks`: of its operands, ``("array", k)``, ``("scalar", k)`` or ``("line", k)``; of a masked one the last two are
    the mask, and what stands where it is False. `types`: what the operands are; `loop`: in what they are computed."""

    name: str
    picks: tuple[tuple[str, int], ...]
    types: tuple[Any, ...]
    loop: Any
    result: Any
    masked: bool


class NativeElement(NamedTuple):
    """A function of an element.

    Attributes
    ----------
    arrays, scalars : tuple of dtype
        What it reads.
    lines : tuple of Line
    results : tuple of (pick, dtype held, dtype)
        What it hands out, and in what dtype.
    """

    arrays: tuple[Any, ...]
    scalars: tuple[Any, ...]
    lines: tuple[Line, ...]
    results: tuple[tuple[tuple[str, int], Any, Any], ...]

    @property
    def lanes(self) -> int:
        """Elements to compute at a time: they fill two registers of the widest dtype, or one of a long program."""
        sizes: list[int] = [t.itemsize for t in (*self.arrays, *[line.loop for line in self.lines])]
        sizes += [t.itemsize for _, _, t in self.results]
        return max(4, (64 if len(self.lines) <= 12 else 32) // max(sizes))

    def still(self, kinds: str) -> list[bool]:
        """For each line, whether it is the same for all elements of a row: nothing that it reads runs along rows."""
        found: list[bool] = []
        for line in self.lines:
            found.append(all(k == "scalar" or (kinds[v] == "s" if k == "array" else found[v]) for k, v in line.picks))
        return found

    def write(
        self,
        w: Writer,
        arrays: Mapping[int, Value],
        scalars: Sequence[Value],
        lines: dict[int, Value],
        those: Sequence[bool],
    ) -> None:
        """Write `those` lines; `lines` gets the names of their values, beside those that are in it."""
        held: dict[str, Any] = {"array": arrays, "scalar": scalars, "line": lines}
        for number, line in enumerate(self.lines):
            if not those[number]:
                continue
            given = [held[kind][place] for kind, place in line.picks]
            inputs = given[:-2] if line.masked else given
            if line.name == "astype":
                result = w.cast(inputs[0], line.types[0], line.result)
            else:
                cast = [w.cast(v, t, line.loop) for v, t in zip(inputs, line.types, strict=False)]
                result = self._operated(w, line, cast)
            assert result is not None
            if line.masked:
                other = w.cast(given[-1], line.types[-1], line.result)
                assert other is not None
                result = w.select(given[-2], line.result, result, other)
            lines[number] = result

    def found(self, w: Writer, arrays: Mapping[int, Value], lines: Mapping[int, Value]) -> list[Value]:
        """Lines that convert the results; their names."""
        held = {"array": arrays, "line": lines}
        return [w.cast(held[kind][place], own, t) for (kind, place), own, t in self.results]

    @staticmethod
    def _operated(w: Writer, line: Line, values: Sequence[Any]) -> Any:
        operation = operation_of(line.name, line.loop)
        return None if operation is None else operation(w, PARTS.get(line.loop, line.loop), values)

    def is_possible(self) -> bool:
        """Whether every line can be written."""
        for line in self.lines:
            w = Writer(2, "")
            inputs = line.types[:-2] if line.masked else line.types
            if line.name == "astype":
                result = w.cast(_dummy(inputs[0]), inputs[0], line.result)
            else:
                cast = [w.cast(_dummy(t), t, line.loop) for t in inputs]
                result = None if None in cast else self._operated(w, line, cast)
            if result is None or (line.masked and w.cast(_dummy(line.types[-1]), line.types[-1], line.result) is None):
                return False
        return all(Writer(2, "").cast(_dummy(own), own, dtype) is not None for _, own, dtype in self.results)


def _dummy(dtype: AnyDType) -> Value:
    return Pair("%0", "%0") if dtype in PARTS else "%0"


def literal_type(value: object) -> Any:
    """What NumPy's promotion takes a scalar for: a Python type, which is weak, or a dtype; None of what is no number."""
    if type(value) in (int, float, complex):
        return type(value)
    if isinstance(value, bool):
        return BOOL
    return value.dtype if isinstance(value, np.generic) else None


def exact(step: Instruction, types: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]] | None:
    """The dtype in which an exact step is computed, and its operands' dtypes where weak scalars have become something; None where
    a step is not exact, or not known here. `types`: dtypes, or a scalar's `literal_type`."""
    inputs = types[:-2] if step.masked else types
    if step.loud or not is_known(step.dtype) or any(t is None for t in types):
        return None
    settled: tuple[Any, ...]
    if isinstance(step.ufunc, Conversion):
        source = step.dtype if isinstance(inputs[0], type) else inputs[0]
        loop, settled = source, (source,)
        if is_known(source) and Writer(2, "").cast(_dummy(source), source, step.dtype) is None:
            return None
    else:
        name = step.ufunc.__name__
        if step.kwargs or type(step.ufunc) is not np.ufunc or len(inputs) != step.ufunc.nin:
            return None
        try:
            found = gpu_ufuncs.loop_of(step.ufunc, inputs, None)
        except TypeError:
            return None
        if found[-1] != step.dtype or any(t != found[0] for t in found[:-1]):
            return None
        loop = found[0]
        if operation_of(name, loop) is None:
            return None
        settled = tuple([loop if isinstance(t, type) else t for t in inputs])
    if step.masked:
        mask, other = types[-2:]
        if mask != BOOL:
            return None
        settled = (*settled, mask, step.dtype if isinstance(other, type) else other)
    if any(not is_known(t) or not t.isnative for t in (loop, *settled)):
        return None
    return loop, settled
