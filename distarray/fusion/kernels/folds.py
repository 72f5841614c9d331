"""What a reduction kernel keeps while it folds: C definitions of the running value of each fold, by name and dtype.

``A`` is the running value, ``none()`` that of no elements, ``lift(x, i)`` that of the element `x` at position `i`,
``join(a, b)`` that of two runs, the earlier one first; ``store(out, place, count, a, n, divisor)`` writes the result, one of
`count`, each of `n` elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from distarray.devices.arrays import AnyDType
from distarray.fusion.kernels.formulas import TYPES

__all__ = ["FOLDS", "MOMENTS", "Fold", "fold_of"]

MOMENTS = frozenset({"moments", "variance", "deviation"})
"""``moments`` is the sum of numbers, and behind it that of their squares; the others are what is made of the two."""

FOLDS = MOMENTS | {"add", "multiply", "maximum", "minimum", "logical_or", "logical_and", "argmax", "argmin"}
"""By the name of their ufunc or function."""


_MOMENTS = """
typedef double E;
struct alignas(16) A { double s, q; };
__device__ __forceinline__ A none() { A a; a.s = a.q = 0; return a; }
__device__ __forceinline__ A lift(E x, long long i) { A a; a.s = x; a.q = x * x; return a; }
__device__ __forceinline__ A join(A a, A b) { a.s += b.s; a.q += b.q; return a; }
"""

_STORE = """
__device__ __forceinline__ void
store(void* out, long long place, long long count, A a, double n, double divisor)"""

_STORED = {
    "moments": "((double*)out)[place] = a.s; ((double*)out)[count + place] = a.q;",
    "variance": "((O*)out)[place] = variance(a, n, divisor);",
    "deviation": "((O*)out)[place] = O(sqrt(variance(a, n, divisor)));",
}
"""What becomes of sums of distances from one number, and of their squares."""

_VARIANCE = """
__device__ __forceinline__ O variance(A a, double n, double divisor) {
    const double all = a.q - a.s * (a.s / n);
    return O((all < 0 ? 0.0 : all) / divisor);
}
"""


class Fold(NamedTuple):
    """One fold of elements of dtype `element` to results of dtype `result`; `size` is that of ``A`` in bytes."""

    name: str
    element: Any
    result: Any
    size: int
    source: str


def fold_of(name: str, dtype: AnyDType, result: AnyDType) -> Fold | None:
    """The fold of elements of `dtype`, or None where there is none.

    Sums and products are computed in the dtype of the result, those of ``float16`` in single precision, as CuPy computes
    them; extremes in the dtype of the elements.
    """
    if name in MOMENTS:
        return _moments(name, result)
    if name not in FOLDS or dtype not in TYPES or result not in TYPES or {dtype.kind, result.kind} & {"V"}:
        return None
    if "c" in (dtype.kind, result.kind) and name != "add":
        return None
    if name in ("maximum", "minimum") and dtype != result:
        return None
    element = {"add": result, "multiply": result, "logical_or": np.dtype(bool), "logical_and": np.dtype(bool)}.get(
        name, dtype
    )
    work = np.dtype("float32") if element == np.float16 else element
    size, body = _BODIES[name](name, work)
    head = f"typedef {TYPES[element]} E; typedef {TYPES[work]} V; typedef {TYPES[result]} O;\n"
    return Fold(name, element, result, size, head + body)


def _moments(name: str, result: AnyDType) -> Fold | None:
    """Sums of numbers and of their squares, stored as they are or as what is made of them."""
    if result not in TYPES or result.kind != "f" or (name == "moments" and result != np.float64):
        return None
    source = f"typedef {TYPES[result]} O;{_MOMENTS}" + ("" if name == "moments" else _VARIANCE)
    return Fold(name, np.dtype(np.float64), result, 16, f"{source}{_STORE} {{ {_STORED[name]} }}\n")


def _plain(value: str, none: str, lift: str, join: str) -> str:
    """A fold whose running value is one of type `value`, and is stored as it is."""
    return f"""
typedef {value} A;
__device__ __forceinline__ A none() {{ return {none}; }}
__device__ __forceinline__ A lift(E x, long long i) {{ return {lift}; }}
__device__ __forceinline__ A join(A a, A b) {{ return {join}; }}
{_STORE} {{ ((O*)out)[place] = O(a); }}
"""


def _sum(name: str, work: AnyDType) -> tuple[int, str]:
    """A sum or product: the bytes of a running value, and its definition."""
    sign, truth, start = ("+", "||", "0") if name == "add" else ("*", "&&", "1")
    return work.itemsize, _plain("V", f"A({start})", "A(x)", f"a {truth if work.kind == 'b' else sign} b")


def _logical(name: str, work: AnyDType) -> tuple[int, str]:
    """Whether any or all elements are true."""
    sign, start = ("||", "false") if name == "logical_or" else ("&&", "true")
    return work.itemsize, _plain("bool", start, "x", f"a {sign} b")


_BETTER = """
__device__ __forceinline__ float better(float a, float b) {{
#if __CUDA_ARCH__ >= 800
    float r;
    asm("{0}.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
#else
    return {1};
#endif
}}
"""
"""One instruction where there is one."""


def _extreme(name: str, work: AnyDType) -> tuple[int, str]:
    """The largest or smallest element, NaN before all others."""
    more = ">" if name == "maximum" else "<"
    better = f"a {more} b ? a : b"
    if work.kind == "f":
        better = f"a != a ? a : b != b ? b : {better}"
    if work != np.float32:
        return work.itemsize, _plain("V", _least(work, more), "A(x)", better)
    return 4, _BETTER.format("max" if more == ">" else "min", better) + _plain(
        "V", _least(work, more), "A(x)", "better(a, b)"
    )


def _position(name: str, work: AnyDType) -> tuple[int, str]:
    """The position of the first of the largest or smallest elements, of the first NaN before all others."""
    more, missing = (">" if name == "argmax" else "<"), ("true" if work.kind == "f" else "false")
    return (
        16,
        f"""
struct alignas(16) A {{ V v; long long i; }};
__device__ __forceinline__ A none() {{ A a; a.v = V(0); a.i = -1; return a; }}
__device__ __forceinline__ A lift(E x, long long i) {{ A a; a.v = V(x); a.i = i; return a; }}
__device__ __forceinline__ A join(A a, A b) {{
    if (b.i < 0) return a;
    if (a.i < 0) return b;
    if ({missing}) {{
        const bool p = a.v != a.v, q = b.v != b.v;
        if (p || q) return p && (!q || a.i < b.i) ? a : b;
    }}
    if (a.v == b.v) return a.i < b.i ? a : b;
    return a.v {more} b.v ? a : b;
}}
{_STORE} {{ ((O*)out)[place] = O(a.i); }}
""",
    )


def _least(dtype: AnyDType, more: str) -> str:
    """The value that every other one replaces, as C."""
    if dtype.kind == "b":
        return "false" if more == ">" else "true"
    if dtype.kind == "f":
        return ("-" if more == ">" else "") + ("CUDART_INF" if dtype.itemsize == 8 else "CUDART_INF_F")
    limits = np.iinfo(dtype)
    value = int(limits.min if more == ">" else limits.max)
    if dtype.kind == "u":
        return f"V({value}ull)"
    return f"V({value + 1}ll - 1)" if value < 0 else f"V({value}ll)"


_BODIES: dict[str, Callable[[str, Any], tuple[int, str]]] = {
    "add": _sum,
    "multiply": _sum,
    "logical_or": _logical,
    "logical_and": _logical,
    "maximum": _extreme,
    "minimum": _extreme,
    "argmax": _position,
    "argmin": _position,
}
"""What defines a fold's running value: the bytes that it takes, and C."""
