"""Element-wise operations whose result IEEE 754, or integer arithmetic, fixes to the bit, as LLVM's instructions.

Each is written for `lanes` elements at a time, in LLVM's strict operations: it knows that a comparison of a square root with
itself needs no root, and with the root would go the condition that NumPy reports of it. Complex
numbers are pairs of values; their products are rounded as NumPy is found to do it on this processor, which may fuse the second
product. What is not exact (powers, transcendental functions, integer and complex division, half precision) has no entry, and
stays NumPy's. So do conversions of floating-point numbers to integers: for a number that has no room LLVM promises nothing, and
drops the condition that NumPy reports.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from distarray.devices.arrays import AnyDType

__all__ = [
    "OPERATIONS",
    "PARTS",
    "TYPES",
    "Pair",
    "Value",
    "Writer",
    "is_known",
    "may_raise",
    "memory_type",
    "operation_of",
]

BOOL = np.dtype(bool)

TYPES: dict[Any, str] = {
    np.dtype(name): text
    for name, text in {
        "bool": "i1", "int8": "i8", "uint8": "i8", "int16": "i16", "uint16": "i16", "int32": "i32", "uint32": "i32",
        "int64": "i64", "uint64": "i64", "float32": "float", "float64": "double",
    }.items()
}  # fmt: skip
"""The dtypes that kernels know, as LLVM's types of values."""


PARTS: dict[Any, Any] = {np.dtype("complex64"): np.dtype("float32"), np.dtype("complex128"): np.dtype("float64")}
"""Complex dtypes, and that of their parts."""


class Pair(NamedTuple):
    """A complex value."""

    real: str
    imag: str


Value = str | Pair
"""A name in LLVM's language, or two."""


def is_known(dtype: AnyDType) -> bool:
    return dtype in TYPES or dtype in PARTS


def memory_type(dtype: AnyDType) -> str:
    """An element as it lies in memory, or a part of a complex one."""
    return "i8" if dtype == BOOL else TYPES[PARTS.get(dtype, dtype)]


class Writer:
    """Lines of LLVM's language for `lanes` elements; names are unique within a function by `prefix`."""

    def __init__(self, lanes: int, prefix: str) -> None:
        self.lanes = lanes
        self.prefix = prefix
        self.lines: list[str] = []
        self.declared: set[str] = set()
        self._count = 0

    def name(self) -> str:
        self._count += 1
        return f"%{self.prefix}.{self._count}"

    def wide(self, scalar: str) -> str:
        """The type of a row of elements of an LLVM type."""
        return scalar if self.lanes == 1 else f"<{self.lanes} x {scalar}>"

    def of(self, dtype: AnyDType) -> str:
        return self.wide(TYPES[dtype])

    def put(self, text: str) -> str:
        """A line that defines a value; its name."""
        name = self.name()
        self.lines.append(f"{name} = {text}")
        return name

    def number(self, scalar: str, value: int | str) -> str:
        """A constant of an LLVM type in all lanes."""
        if self.lanes == 1:
            return str(value)
        return f"<{', '.join([f'{scalar} {value}'] * self.lanes)}>"

    def zero(self, dtype: AnyDType) -> str:
        if self.lanes > 1:
            return "zeroinitializer"
        return "0.0" if dtype.kind == "f" else "0"

    def call(self, function: str, dtype: AnyDType, *values: str) -> str:
        """A call of an LLVM function that is defined for the rows of a dtype."""
        own = self.of(dtype)
        full = f"@llvm.{function}.{self._suffix(dtype)}"
        self.declared.add(f"declare {own} {full}({', '.join([own] * len(values))})")
        return self.put(f"call {own} {full}({', '.join([f'{own} {v}' for v in values])})")

    def exactly(
        self, operation: str, dtype: AnyDType, *values: str, source: AnyDType | None = None, test: str = ""
    ) -> str:
        """An operation on floating-point numbers that is neither left out nor moved, whatever becomes of its result: what it meets
        is reported. `source`: of a conversion, or of a comparison, which takes quiet notice of NaN."""
        given = self.of(dtype if source is None else source)
        own = self.wide("i1") if test else self.of(dtype)
        kinds = [dtype] if source is None or test else [dtype, source]
        full = f"@llvm.experimental.constrained.{operation}.{'.'.join([self._suffix(t) for t in kinds])}"
        notes = ['metadata !"fpexcept.strict"']
        if test:
            notes.insert(0, f'metadata !"{test}"')
        elif operation != "fpext":
            notes.insert(0, 'metadata !"round.tonearest"')
        kind = ", ".join([*[given] * len(values), *["metadata"] * len(notes)])
        self.declared.add(f"declare {own} {full}({kind})")
        return self.put(f"call {own} {full}({', '.join([*[f'{given} {v}' for v in values], *notes])}) strictfp")

    def _suffix(self, dtype: AnyDType) -> str:
        suffix = {"float": "f32", "double": "f64"}.get(TYPES[dtype], TYPES[dtype])
        return suffix if self.lanes == 1 else f"v{self.lanes}{suffix}"

    def select(
        self,
        flag: str,
        dtype: AnyDType,
        yes: Any,  # names of values, or pairs of them
        no: Any,  # as `yes`
    ) -> Any:
        if dtype in PARTS:
            part = PARTS[dtype]
            return Pair(self.select(flag, part, yes.real, no.real), self.select(flag, part, yes.imag, no.imag))
        own = self.of(dtype)
        return self.put(f"select {self.wide('i1')} {flag}, {own} {yes}, {own} {no}")

    def compare(self, test: str, dtype: AnyDType, a: str, b: str) -> str:
        if dtype.kind == "f":
            return self.exactly("fcmp", dtype, a, b, test=test)
        return self.put(f"icmp {test} {self.of(dtype)} {a}, {b}")

    def truth(self, value: Value, dtype: AnyDType) -> str:
        """Whether elements are not zero."""
        if dtype in PARTS:
            parts = [self.truth(v, PARTS[dtype]) for v in value]
            return self.put(f"or {self.wide('i1')} {parts[0]}, {parts[1]}")
        name = str(value)
        if dtype == BOOL:
            return name
        return self.compare("une" if dtype.kind == "f" else "ne", dtype, name, self.zero(dtype))

    def bits(self, value: str, dtype: AnyDType) -> tuple[str, str]:
        """Floating-point numbers as integers, and their LLVM type."""
        word = f"i{8 * dtype.itemsize}"
        return self.put(f"bitcast {self.of(dtype)} {value} to {self.wide(word)}"), word

    def cast(self, value: Value, source: AnyDType, target: AnyDType) -> Any:
        """The value as NumPy converts it; None where that is not to be had here."""
        if source == target:
            return value
        if target == BOOL:
            return self.truth(value, source)
        if target in PARTS:
            part = PARTS[target]
            if source in PARTS:
                return Pair(*[self.cast(v, PARTS[source], part) for v in value])
            return Pair(self.cast(value, source, part), self.zero(part))
        if source in PARTS:
            return None
        a, b = self.of(source), self.of(target)
        if target.kind == "f":
            if source.kind == "f":
                how = "fpext" if target.itemsize > source.itemsize else "fptrunc"
                return self.exactly(how, target, str(value), source=source)
            how = "sitofp" if source.kind == "i" else "uitofp"
        elif source.kind == "f":
            return None
        elif a == b:
            return value
        elif source == BOOL or target.itemsize > source.itemsize:
            how = "sext" if source.kind == "i" else "zext"
        else:
            how = "trunc"
        return self.put(f"{how} {a} {value} to {b}")


Operation = Callable[[Writer, Any, Sequence[Any]], Any]
"""From the dtype of the operands and their values, the result; None where it is not to be had for that dtype."""

_EXPONENTS = {"float": 0x7F800000, "double": 0x7FF0000000000000}
_SIZES = {"float": 0x7FFFFFFF, "double": 0x7FFFFFFFFFFFFFFF}


def _arithmetic(floating: str, integer: str, truth: str) -> Operation:
    def write(w: Writer, t: AnyDType, values: Sequence[str]) -> str | None:
        if t.kind == "f":
            return w.exactly(floating, t, *values)
        how = truth if t == BOOL else integer
        return w.put(f"{how} {w.of(t)} {values[0]}, {values[1]}") if how else None

    return write


def _bitwise(how: str) -> Operation:
    def write(w: Writer, t: AnyDType, values: Sequence[str]) -> str | None:
        return None if t.kind == "f" else w.put(f"{how} {w.of(t)} {values[0]}, {values[1]}")

    return write


def _logical(how: str) -> Operation:
    def write(w: Writer, t: AnyDType, values: Sequence[str]) -> str:
        a, b = [w.truth(v, t) for v in values]
        return w.put(f"{how} {w.wide('i1')} {a}, {b}")

    return write


def _comparison(floating: str, integer: str) -> Operation:
    def write(w: Writer, t: AnyDType, values: Sequence[str]) -> str:
        test = floating if t.kind == "f" else integer
        if t.kind in "ub" and test[0] == "s":
            test = f"u{test[1:]}"
        return w.compare(test, t, values[0], values[1])

    return write


def _extremum(floating: str, integer: str) -> Operation:
    """NumPy's choice: of two equal numbers (zeros of either sign) the second, of NaN the first."""

    def write(w: Writer, t: AnyDType, values: Sequence[str]) -> Any:
        a, b = values
        if t.kind != "f":
            test = integer if t.kind == "i" else f"u{integer[1:]}"
            return w.select(w.compare(test, t, a, b), t, a, b)
        chosen = w.select(w.compare(floating, t, a, b), t, a, b)
        return w.select(w.compare("uno", t, a, a), t, a, chosen)

    return write


def _negative(w: Writer, t: AnyDType, values: Sequence[str]) -> str:
    if t.kind == "f":
        return w.put(f"fneg {w.of(t)} {values[0]}")
    return w.put(f"sub {w.of(t)} {w.zero(t)}, {values[0]}")


def _absolute(w: Writer, t: AnyDType, values: Sequence[str]) -> Any:
    if t.kind == "f":
        return w.call("fabs", t, values[0])
    if t.kind != "i":
        return values[0]
    return w.select(w.compare("slt", t, values[0], w.zero(t)), t, _negative(w, t, values), values[0])


def _square(w: Writer, t: AnyDType, values: Sequence[str]) -> Any:
    return OPERATIONS["multiply"](w, t, [values[0], values[0]])


def _reciprocal(w: Writer, t: AnyDType, values: Sequence[str]) -> str | None:
    return w.exactly("fdiv", t, w.number(TYPES[t], "1.0"), values[0]) if t.kind == "f" else None


def _rounding(function: str) -> Operation:
    def write(w: Writer, t: AnyDType, values: Sequence[str]) -> str | None:
        return w.call(function, t, values[0]) if t.kind == "f" else None

    return write


def _sqrt(w: Writer, t: AnyDType, values: Sequence[str]) -> str | None:
    return w.exactly("sqrt", t, values[0]) if t.kind == "f" else None


def _same(w: Writer, t: AnyDType, values: Sequence[str]) -> str:
    return values[0]


def _invert(w: Writer, t: AnyDType, values: Sequence[str]) -> str | None:
    if t.kind == "f":
        return None
    return w.put(f"xor {w.of(t)} {values[0]}, {w.number(TYPES[t], 'true' if t == BOOL else -1)}")


def _logical_not(w: Writer, t: AnyDType, values: Sequence[str]) -> str:
    return _invert(w, BOOL, [w.truth(values[0], t)])  # type: ignore[return-value]


def _isnan(w: Writer, t: AnyDType, values: Sequence[str]) -> str | None:
    return w.compare("uno", t, values[0], values[0]) if t.kind == "f" else None


def _by_exponent(test: str, part: dict[str, int]) -> Operation:
    """A test of bits: comparing NaN would raise a condition."""

    def write(w: Writer, t: AnyDType, values: Sequence[str]) -> str | None:
        if t.kind != "f":
            return None
        bits, word = w.bits(values[0], t)
        kept = w.put(f"and {w.wide(word)} {bits}, {w.number(word, part[TYPES[t]])}")
        return w.put(f"icmp {test} {w.wide(word)} {kept}, {w.number(word, _EXPONENTS[TYPES[t]])}")

    return write


def _signbit(w: Writer, t: AnyDType, values: Sequence[str]) -> str | None:
    if t.kind != "f":
        return None
    bits, word = w.bits(values[0], t)
    return w.put(f"icmp slt {w.wide(word)} {bits}, {w.number(word, 0)}")


def _copysign(w: Writer, t: AnyDType, values: Sequence[str]) -> str | None:
    return w.call("copysign", t, *values) if t.kind == "f" else None


OPERATIONS: dict[str, Operation] = {
    "add": _arithmetic("fadd", "add", "or"),
    "subtract": _arithmetic("fsub", "sub", ""),
    "multiply": _arithmetic("fmul", "mul", "and"),
    "divide": _arithmetic("fdiv", "", ""),
    "negative": _negative,
    "positive": _same,
    "conjugate": _same,
    "absolute": _absolute,
    "fabs": _absolute,
    "square": _square,
    "reciprocal": _reciprocal,
    "sqrt": _sqrt,
    "floor": _rounding("floor"),
    "ceil": _rounding("ceil"),
    "trunc": _rounding("trunc"),
    "rint": _rounding("rint"),
    "maximum": _extremum("ogt", "sgt"),
    "minimum": _extremum("olt", "slt"),
    "equal": _comparison("oeq", "eq"),
    "not_equal": _comparison("une", "ne"),
    "less": _comparison("olt", "slt"),
    "less_equal": _comparison("ole", "sle"),
    "greater": _comparison("ogt", "sgt"),
    "greater_equal": _comparison("oge", "sge"),
    "logical_and": _logical("and"),
    "logical_or": _logical("or"),
    "logical_xor": _logical("xor"),
    "logical_not": _logical_not,
    "bitwise_and": _bitwise("and"),
    "bitwise_or": _bitwise("or"),
    "bitwise_xor": _bitwise("xor"),
    "invert": _invert,
    "isnan": _isnan,
    "isfinite": _by_exponent("ne", _EXPONENTS),
    "isinf": _by_exponent("eq", _SIZES),
    "signbit": _signbit,
    "copysign": _copysign,
}
OPERATIONS["true_divide"] = OPERATIONS["divide"]


def _by_part(name: str) -> Operation:
    def write(w: Writer, t: AnyDType, values: Sequence[Any]) -> Pair:
        return Pair(*[OPERATIONS[name](w, t, parts) for parts in zip(*values, strict=True)])

    return write


def _conjugate(w: Writer, t: AnyDType, values: Sequence[Any]) -> Pair:
    return Pair(values[0].real, _negative(w, t, [values[0].imag]))


def _alike(how: str, test: str) -> Operation:
    def write(w: Writer, t: AnyDType, values: Sequence[Any]) -> str:
        a, b = values
        parts = [w.compare(test, t, x, y) for x, y in zip(a, b, strict=True)]
        return w.put(f"{how} {w.wide('i1')} {parts[0]}, {parts[1]}")

    return write


def _product(ufunc: np.ufunc) -> Operation:
    def write(w: Writer, t: AnyDType, values: Sequence[Any]) -> Pair | None:
        a, b = values[0], values[-1]
        fused = _is_fused(ufunc, t)
        if fused is None:
            return None
        real, imag = w.exactly("fmul", t, a.imag, b.imag), w.exactly("fmul", t, a.imag, b.real)
        if fused:
            less = _negative(w, t, [real])
            return Pair(w.exactly("fma", t, a.real, b.real, less), w.exactly("fma", t, a.real, b.imag, imag))
        first, second = w.exactly("fmul", t, a.real, b.real), w.exactly("fmul", t, a.real, b.imag)
        return Pair(w.exactly("fsub", t, first, real), w.exactly("fadd", t, second, imag))

    return write


@cache
def _is_fused(ufunc: np.ufunc, part: AnyDType) -> bool | None:
    """Whether NumPy's complex products fuse the first product into the sum, as its loops do where the processor can; None where
    they are neither that nor plain. Found from a product whose roundings tell them apart, wherever it stands in an array."""
    real, imag = part.type(1 + 3 * np.finfo(part).eps), part.type(1 - 5 * np.finfo(part).eps)
    plain = (real * real - imag * imag, real * imag + imag * real)
    exact = Fraction(float(real)) ** 2, Fraction(float(real)) * Fraction(float(imag))
    fused = (
        part.type(float(exact[0] - Fraction(float(imag * imag)))),
        part.type(float(exact[1] + Fraction(float(imag * real)))),
    )
    x = np.full(38, complex(real, imag), np.result_type(part, np.complex64))
    products = np.concatenate([ufunc(*[y] * ufunc.nin) for y in (x[:1], x[:2], x[:3], x[:19], x[::2])])
    ways = [bool((products.real == way[0]).all() and (products.imag == way[1]).all()) for way in (plain, fused)]
    return ways[1] if ways[0] is not ways[1] else None


_COMPLEX: dict[str, Operation] = {
    **{name: _by_part(name) for name in ("add", "subtract", "negative", "positive")},
    "conjugate": _conjugate,
    "multiply": _product(np.multiply),
    "square": _product(np.square),
    "equal": _alike("and", "oeq"),
    "not_equal": _alike("or", "une"),
}


def operation_of(name: str, dtype: AnyDType) -> Operation | None:
    """The operation of a ufunc on operands of a dtype; it is called with the dtype of parts where they are complex."""
    return (_COMPLEX if dtype in PARTS else OPERATIONS).get(name)


_RAISING = {
    "add": ("over", "under", "invalid"),
    "divide": ("divide", "over", "under", "invalid"),
    "sqrt": ("invalid",),
}
for _name, _like in {
    "subtract": "add",
    "multiply": "add",
    "square": "add",
    "true_divide": "divide",
    "reciprocal": "divide",
}.items():
    _RAISING[_name] = _RAISING[_like]


def may_raise(name: str, source: AnyDType, target: AnyDType) -> tuple[str, ...]:
    """The floating-point conditions that NumPy may report of an operation on operands of dtype `source`."""
    if source.kind not in "fc":
        return ()
    if name != "astype":
        return _RAISING.get(name, ())
    return (
        ("over", "under")
        if target.kind in "fc" and PARTS.get(target, target).itemsize < PARTS.get(source, source).itemsize
        else ()
    )
