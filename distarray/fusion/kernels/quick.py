"""Quotients, reciprocals and square roots of single precision in a straight line, for kernels that compute many of them.

CUDA's compiler gives each of them a test and a branch to a subroutine for operands near the ends of the range. The branches
keep it from mixing the work of neighbouring elements, and from computing once what all of them share, such as the reciprocal
of a number that divides all. The functions here take the compiler's own steps between its branches, which are Newton's
(Markstein, IA-64 and Elementary Functions, 2000, chapters 8 and 9) and round correctly while no remainder is so small that it
is taken for zero, and nothing overflows. Each lowers `least` to what the steps need to be large, and where they fail, to
something that is no number: an element for which it ends below `ENOUGH`, or so, is computed again by the other function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from distarray.devices.arrays import AnyDType

__all__ = ["ENOUGH", "FEWEST", "FUNCTIONS", "quick_code"]

FEWEST = 2
"""Steps of an expression that are worth it: of one, the memory's bandwidth is the limit."""

FUNCTIONS = """
__device__ __forceinline__ float lowered(float least, float x) {
    float r;
    asm("min.NaN.ftz.f32 %0, %1, %2;" : "=f"(r) : "f"(least), "f"(x));
    return r;
}
__device__ __forceinline__ float quick_inverse(float b) {
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(b));
    return __fmaf_rn(r, __fmaf_rn(-b, r, 1.0f), r);
}
__device__ __forceinline__ float quick_reciprocal(float b, float& least) {
    const float found = quick_inverse(b);
    least = lowered(least, fabsf(found));
    return found;
}
__device__ __forceinline__ float quick_quotient(float a, float b, float& least) {
    const float r = quick_inverse(b), q = __fmul_rn(a, r), found = __fmaf_rn(r, __fmaf_rn(-b, q, a), q);
    least = lowered(lowered(least, fabsf(a)), fabsf(found));
    return found;
}
__device__ __forceinline__ float quick_root(float x, float& least) {
    float r;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    const float g = __fmul_rn(x, r), found = __fmaf_rn(__fmaf_rn(-g, g, x), __fmul_rn(r, 0.5f), g);
    least = lowered(lowered(least, x), found);
    return found;
}
"""

ENOUGH = "0x1p-78f"
"""Operands and results above this leave remainders that are multiples of 2 ** -126, the smallest number that is not taken for zero."""

_CODES = {
    "divide": "out0 = quick_quotient(in0, in1, least);",
    "reciprocal": "out0 = quick_reciprocal(in0, least);",
    "sqrt": "out0 = quick_root(in0, least);",
}


def quick_code(ufunc: Callable[..., Any], dtype: AnyDType, one: bool) -> str | None:
    """C code of a step in the place of its formula, or None where there is none; `one`: of the quotient ``1 / x``."""
    if dtype != np.float32:
        return None
    return "out0 = quick_reciprocal(in1, least);" if one else _CODES.get(ufunc.__name__)
