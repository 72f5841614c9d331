"""When a program runs as one kernel: the entrance for the evaluator.

Fused and step by step give the same bits, so that the choice is free. A small array gains little, and a kernel has to be
compiled first: there, a program is compiled when it comes again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from distarray.devices.arrays import DeviceArray, Library
from distarray.devices.kernels import Kernels
from distarray.devices.transposes import transposed_copy
from distarray.fusion.kernels import elementwise
from distarray.fusion.kernels.element import element_of
from distarray.fusion.program import Program

__all__ = ["fused"]

LEAST = 1 << 16
"""Elements from which a program is compiled when it first comes."""

OFTEN = 3
"""Times that it comes with fewer elements before it is compiled."""

_ASKED = Kernels(4096)


def fused(
    lib: Library,
    program: Program,
    operands: Sequence[Any],
    out: DeviceArray,
    stored: tuple[int, ...] = (),
    stores: Sequence[Any] = (),
) -> bool:
    """Compute `out` in one kernel on the current device, and the values of the steps `stored` into `stores`; False, and nothing is
    done, where the steps have to."""
    if program.result[0] == "const":
        return False
    if program.result[0] == "leaf":
        (source,) = operands
        if source.dtype == out.dtype and source.shape == out.shape and transposed_copy(lib, out, source):
            return True
    bound = element_of(lib, program, tuple([a.dtype for a in operands]), out.dtype, stored)
    if bound is None:
        return False
    if out.size < LEAST:
        asked: list[None] = _ASKED.get(bound.element.key, list)
        if len(asked) < OFTEN - 1:
            asked.append(None)
            return False
    return elementwise.launch(lib, bound, operands, out, stores)
