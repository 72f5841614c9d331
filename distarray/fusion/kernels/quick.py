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

__all__ = ["ENOUGH", "FUNCTIONS", "quick_code", "quick_lines"]

FUNCTIONS = """
__device__ __forceinline__ float lowered(float least, float x) {  // by the size of x
#if __CUDA_ARCH__ >= 800
    float r;
    asm("{ .reg .f32 n; abs.f32 n, %2; min.NaN.ftz.f32 %0, %1, n; }" : "=f"(r) : "f"(least), "f"(x));
    return r;
#else
    return x != x || fabsf(x) < least ? fabsf(x) : least;
#endif
}
__device__ __forceinline__ float more(float c, float a, float b) {  // c + a * b, which may be smaller than what is taken for zero
    float r;
    asm("fma.rn.f32 %0, %2, %3, %1;" : "=f"(r) : "f"(c), "f"(a), "f"(b));
    return r;
}
__device__ __forceinline__ float less(float c, float a, float b) {  // c - a * b, the same
    float r;
    asm("{ .reg .f32 n; neg.f32 n, %2; fma.rn.f32 %0, n, %3, %1; }" : "=f"(r) : "f"(c), "f"(a), "f"(b));
    return r;
}
__device__ __forceinline__ float quick_inverse(float b) {
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(b));
    return more(r, r, less(1.0f, b, r));
}
__device__ __forceinline__ float quick_reciprocal(float b, float& least) {
    const float found = quick_inverse(b);
    least = lowered(least, found);
    return found;
}
__device__ __forceinline__ float quick_quotient(float a, float b, float& least) {
    const float r = quick_inverse(b), q = a * r;
    const bool nothing = a == 0;  // whose quotients are as frequent as they are easy, but for their sign
    const float found = nothing ? q : more(q, r, less(a, b, q));
    least = lowered(least, nothing ? found + 1.0f : lowered(fabsf(a), found));
    return found;
}
__device__ __forceinline__ float quick_root(float x, float& least) {
    float r;
    asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    const float g = x * r, found = more(g, less(x, g, g), r * 0.5f);
    least = lowered(lowered(least, x), found);
    return found;
}
"""
"""The reciprocals and roots that the GPU starts with are those that the compiler's own steps start with."""

ENOUGH = "0x1p-100f"
"""Operands and results above this leave remainders that are multiples of 2 ** -149, the smallest number there is."""

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


def quick_lines(each: str, pack: str, given: str) -> list[str]:
    """Lines that compute the elements `k` of a pack, over which `each` goes, with ``quick``, and again with ``exact`` where that
    fails; `given` is what they are called with."""
    return [
        f"unsigned again = 0; {each} {{ float least = 1; {pack}.v[k] = quick({given}, least);",
        f"if (!(least >= {ENOUGH})) again |= 1u << k; }}",
        f"if (again) {each} if (again >> k & 1u) {pack}.v[k] = exact({given});",
    ]
