"""Exact steps of a program as one function of an element, in LLVM's language: what kernels of every form are written around."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from distarray.fusion import gpu_ufuncs
from distarray.fusion.expr import Conversion
from distarray.fusion.native.operations import BOOL, OPERATIONS, TYPES, Writer
from distarray.fusion.program import Instruction

__all__ = ["Element", "Line", "exact", "literal_type"]


class Line(NamedTuple):
    """One step. `picks`: of its operands, ``("array", k)``, ``("scalar", k)`` or ``("line", k)``; of a masked one the last two are
    the mask, and what stands where it is False. `types`: what the operands are; `loop`: in what they are computed."""

    name: str
    picks: tuple[tuple[str, int], ...]
    types: tuple[Any, ...]
    loop: Any
    result: Any
    masked: bool


class Element(NamedTuple):
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

    def write(self, w: Writer, arrays: Sequence[str], scalars: Sequence[str]) -> list[str]:
        """Lines that compute it from values; the names of its results."""
        values: list[str] = []
        held: dict[str, Sequence[str]] = {"array": arrays, "scalar": scalars, "line": values}
        for line in self.lines:
            given = [held[kind][place] for kind, place in line.picks]
            inputs = given[:-2] if line.masked else given
            if line.name == "astype":
                result = w.cast(inputs[0], line.types[0], line.result)
            else:
                cast = [w.cast(v, t, line.loop) for v, t in zip(inputs, line.types, strict=False)]
                result = OPERATIONS[line.name](w, line.loop, cast)  # type: ignore[arg-type]
            assert result is not None
            if line.masked:
                other = w.cast(given[-1], line.types[-1], line.result)
                assert other is not None
                result = w.select(given[-2], line.result, result, other)
            values.append(result)
        return [w.cast(held[kind][place], own, t) for (kind, place), own, t in self.results]  # type: ignore[misc]

    def is_possible(self) -> bool:
        """Whether every line can be written."""
        for line in self.lines:
            w = Writer(2, "")
            inputs = line.types[:-2] if line.masked else line.types
            if line.name == "astype":
                result = w.cast("%0", inputs[0], line.result)
            else:
                cast = [w.cast("%0", t, line.loop) for t in inputs]
                result = None if None in cast else OPERATIONS[line.name](w, line.loop, cast)  # type: ignore[arg-type]
            if result is None or (line.masked and w.cast("%0", line.types[-1], line.result) is None):
                return False
        return all(Writer(2, "").cast("%0", own, dtype) is not None for _, own, dtype in self.results)


def literal_type(value: Any) -> Any:
    """What NumPy's promotion takes a scalar for: a Python type, which is weak, or a dtype; None of what is no number."""
    if type(value) in (int, float):
        return type(value)
    if isinstance(value, bool):
        return BOOL
    return value.dtype if isinstance(value, np.generic) else None


def exact(step: Instruction, types: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]] | None:
    """The dtype in which an exact step is computed, and its operands' dtypes where weak scalars have become something; None where
    a step is not exact, or not known here. `types`: dtypes, or a scalar's `literal_type`."""
    inputs = types[:-2] if step.masked else types
    if step.loud or step.dtype not in TYPES or any(t is None for t in types):
        return None
    settled: tuple[Any, ...]
    if isinstance(step.ufunc, Conversion):
        source = step.dtype if isinstance(inputs[0], type) else inputs[0]
        loop, settled = source, (source,)
    else:
        name = step.ufunc.__name__
        if name not in OPERATIONS or step.kwargs or type(step.ufunc) is not np.ufunc or len(inputs) != step.ufunc.nin:
            return None
        try:
            found = gpu_ufuncs.loop_of(step.ufunc, inputs, None)
        except TypeError:
            return None
        if found[-1] != step.dtype or any(t != found[0] for t in found[:-1]):
            return None
        loop = found[0]
        settled = tuple([loop if isinstance(t, type) else t for t in inputs])
    if step.masked:
        mask, other = types[-2:]
        if mask != BOOL:
            return None
        settled = (*settled, mask, step.dtype if isinstance(other, type) else other)
    if any(t not in TYPES or not t.isnative for t in (loop, *settled)):
        return None
    return loop, settled
