"""Folds of expressions by kernels: ``(a * b).sum()`` in one pass over its operands, with NumPy's bits for the stored value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from distarray.devices.arrays import AnyDType, DeviceArray
from distarray.fusion.native.machine import CONDITIONS, is_offered
from distarray.fusion.native.planning import NativePlan, plan_of, scalars_of
from distarray.fusion.native.run import LEAST, function_of, is_due, packing
from distarray.fusion.native.source import FOLDS, fold_text
from distarray.fusion.program import Program

__all__ = ["BLOCK", "NativeFold", "fold_of"]

BLOCK = 1 << 17
"""The most elements of a block, whose conditions are looked at together."""


class NativeFold:
    """A kernel that folds a program over a part of its operands."""

    __slots__ = ("_call", "_pack", "_scalars", "plan", "reads", "steps")

    def __init__(
        self,
        plan: NativePlan,
        call: Callable[..., Any],
        pack: Callable[..., Any],
        scalars: Sequence[Any],
        steps: Sequence[int],
    ) -> None:
        self.plan = plan
        self.reads = plan.parts[0].reads
        self.steps = steps
        self._call, self._pack, self._scalars = call, pack, scalars

    def parts(
        self, operands: Sequence[Any], sizes: Sequence[int], ufunc: np.ufunc, out: DeviceArray, errors: dict[str, Any],
        program: Program, again: Callable[[int, int], Any],
    ) -> Iterator[Any]:  # fmt: skip
        """The folds of blocks of these sizes. `again` folds a block, from an element on, by NumPy's calls: where a condition was
        met that somebody wants to hear of."""
        mask = 0
        for kind, bit in CONDITIONS.items():
            heard = out.dtype.kind == "f" and errors[kind] != "ignore"
            if heard or any(
                k == kind and i is not None and program.steps[i].errors[k] != "ignore" for k, i in self.plan.raising
            ):
                mask |= bit
        result = np.empty(1, out.dtype)
        address = result.__array_interface__["data"][0]
        places = [operands[v].__array_interface__["data"][0] for v in self.reads]
        steps = [self.steps[v] for v in self.reads]
        decided = {"logical_or": True, "logical_and": False}.get(ufunc.__name__) if not mask else None
        low = met = 0
        for done, size in enumerate(sizes, 1):
            words = [size, 1]
            for place, step in zip(places, steps, strict=True):
                words += (place + low * step, 0, step)
            if size < 8 or 4 * met > 8 + done:
                yield again(low, size)
            elif self._call(self._pack(*words, address, 0, 0, *self._scalars)) & mask:
                met += 1
                yield again(low, size)
            else:
                yield result[0]
                if decided is not None and bool(result[0]) is decided:
                    return
            low += size


def fold_of(
    program: Program, operands: Sequence[Any], size: int, held: AnyDType, ufunc: np.ufunc, result: AnyDType
) -> NativeFold | None:
    """The kernel for one chunk, whose operands lie in C order or have one element; None where NumPy folds it."""
    if size < LEAST or ufunc.__name__ not in FOLDS or not is_offered():
        return None
    plan = plan_of(program, tuple([a.dtype for a in operands]), held, (), single=True)
    if plan is None:
        return None
    plan.spent += size * (1 + len(program.steps))
    element, part = plan.parts[0].element, plan.parts[0]
    if not is_due(plan.spent) or element is None or not all(a.flags.aligned and a.dtype.isnative for a in operands):
        return None
    kinds = "".join(["s" if operands[v].size == 1 else "v" for v in part.reads])
    scalars = scalars_of(program, part)
    if scalars is None:
        return None
    name = ufunc.__name__
    call = function_of((element, kinds, name, result), lambda: fold_text(element, kinds, name, result), plan.spent)
    if call is None:
        return None
    steps = [0 if a.size == 1 else a.dtype.itemsize for a in operands]
    return NativeFold(plan, call, packing(element, len(kinds) + 1), scalars, steps)
