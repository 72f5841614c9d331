"""A recorded program as one C function of one element: ``element(operands…, scalars…)``.

This is where an expression becomes source code, so that the kernels of every shape (whole arrays, rows, reductions) are
written once, around a function that they call.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from distarray.devices.arrays import AnyDType, Library
from distarray.devices.kernels import Kernels
from distarray.fusion import gpu_ufuncs
from distarray.fusion.expr import Conversion
from distarray.fusion.kernels.formulas import HALVES, TYPES, Formula, formula_of, knows, literal_type
from distarray.fusion.kernels.quick import quick_code
from distarray.fusion.program import Instruction, Program

__all__ = ["PACKS", "PLAIN", "Bound", "Element", "converted", "element_of", "flat", "headers_of", "is_reciprocal"]


def headers_of(dtypes: set[Any]) -> str:
    """CuPy's own headers, as its element-wise kernels include them."""
    names = ["complex.cuh", "carray.cuh", "atomics.cuh", "math_constants.h"]
    if any(t.name in HALVES for t in dtypes):
        names.insert(2, "float16.cuh")
    if any(t.name == "bfloat16" for t in dtypes):
        names.insert(3, "bfloat16.cuh")
    return "".join([f"#include <cupy/{name}>\n" for name in names])


CHEAP = frozenset(
    """add subtract multiply negative positive absolute fabs square maximum minimum fmax fmin greater greater_equal less
    less_equal equal not_equal logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor invert
    left_shift right_shift astype sign signbit copysign isnan isinf isfinite floor ceil trunc rint conjugate""".split()
)
"""Ufuncs of few instructions."""

PACKS = """
template <typename T, int N> struct alignas(sizeof(T) * N) Pack { T v[N]; };
"""


class Element(NamedTuple):
    """The function of a program.

    Attributes
    ----------
    leaves : tuple of dtype
        Of the operands, in their order.
    scalars : tuple of (step, argument, dtype)
        Where the program's scalars stand, and what the kernel takes them as.
    result : dtype
        Of the function.
    stored : tuple of dtype
        Of the steps whose values it hands out too, through references behind its scalars.
    source : str
        Its definition, with what it needs before it.
    key : str
        Names the function among others.
    function : str
        Its definition alone.
    preambles : tuple of str
        What its steps need before it.
    used : frozenset of dtype
        Whose headers it needs.
    dear : int
        How many of its steps divide, or are functions of many instructions.
    quick : str
        Where there is one, the definition of ``quick``: the function with an argument more, which ends low where the result is not
        to be used (:mod:`distarray.fusion.kernels.quick` has what it calls); and of ``exact``, which is the function, called.
    """

    leaves: tuple[Any, ...]
    scalars: tuple[tuple[int, int, Any], ...]
    result: Any
    stored: tuple[Any, ...]
    source: str
    key: str
    function: str
    preambles: tuple[str, ...]
    used: frozenset[Any]
    dear: int
    quick: str

    def scalar_members(self, name: str = "c") -> tuple[list[str], str]:
        """The members of a kernel's argument that its scalars are passed in, in C and as the module ``struct`` writes them."""
        members, fields = [], ""
        for i, (_, _, t) in enumerate(self.scalars):
            text, kind = _packed_as(t)
            fields += kind
            members += [f"{text} {name}{i}{part};" for part in (("_re", "_im") if t.kind == "c" else ("",))]
        return members, fields

    def scalar_names(self, name: str = "c") -> list[str]:
        """The scalars, as the function takes them from a kernel's argument ``a``."""
        found = []
        for i, (_, _, t) in enumerate(self.scalars):
            place = f"a.{name}{i}"
            if t.kind == "c":
                place = f"{TYPES[t]}({place}_re, {place}_im)"
            found.append(f"bfloat16::from_bits({place})" if t.kind == "V" else place)
        return found


def _packed_as(dtype: AnyDType) -> tuple[str, str]:
    """The type in C of the members that a scalar is passed in, and how ``struct`` writes them: complex numbers in two parts,
    ``bfloat16`` as bits."""
    if dtype.kind == "c":
        return ("float", "ff") if dtype.itemsize == 8 else ("double", "dd")
    return ("unsigned short", "H") if dtype.kind == "V" else (TYPES[dtype], dtype.char)


def cast(value: str, source: AnyDType, target: AnyDType) -> str:
    """C code that converts a value between dtypes, as NumPy does; what is dropped of a complex one is its imaginary part."""
    if source == target:
        return value
    text = TYPES[target]
    if target.kind == "c":
        if source.kind != "c":
            value = f"{_packed_as(target)[0]}({value})"
        return f"{text}({value})"
    if source.kind == "c":
        return f"({value} != {TYPES[source]}(0))" if target.kind == "b" else f"({text})(({value}).real())"
    return f"({text})({value})"


class Bound(NamedTuple):
    """A program's function and the values of its scalars, as a kernel takes them."""

    element: Element
    scalars: tuple[Any, ...]


_ELEMENTS = Kernels(4096)
PLAIN = 1 << 53
"""Numbers below this in size are what they are in double precision, and round once on their way to single."""


def element_of(
    lib: Library,
    program: Program,
    leaves: tuple[Any, ...],
    dtype: AnyDType,
    stored: tuple[int, ...] = (),
    fixed: bool = True,
) -> Bound | None:
    """The function of a program whose operands have the dtypes `leaves` and whose result is stored as `dtype`; it hands out the
    values of the steps `stored` too. None where a step has no formula. Of `fixed` numbers, the 1 of ``1 / x`` is written into it:
    a reciprocal takes half the instructions of a quotient, with the same bits."""
    parts: list[Any] = [program.result if program.result[0] != "const" else None, dtype, leaves, stored]
    for step in program.steps:
        args = tuple([(k, literal_type(v)) if k == "const" else (k, v) for k, v in step.args])
        if fixed and _is_reciprocal(step):
            args = (("one", args[0][1]), *args[1:])
        parts.append((step.ufunc, args, step.dtype, step.masked, step.kwargs.get("dtype")))
    element = _ELEMENTS.get((lib, *parts), lambda: _written(lib, program, leaves, dtype, stored, fixed))
    if element is None:
        return None
    steps = program.steps
    values = [converted(steps[i].args[j][1], t) for i, j, t in element.scalars]
    return Bound(element, tuple(flat(values)))


def flat(values: list[Any]) -> list[Any]:
    """Scalars with complex ones in their two parts."""
    if not any([type(value) is complex for value in values]):  # noqa: C419 - a list takes half the time of a generator
        return values
    found = []
    for value in values:
        found += [value.real, value.imag] if type(value) is complex else [value]
    return found


def is_reciprocal(ufunc: object, dtype: AnyDType, first: object) -> bool:
    """Whether a call is ``1 / x`` of real floating numbers; `first`: its first argument, where that is a number."""
    if ufunc is not np.divide or dtype.kind != "f" or dtype.itemsize < 4:
        return False
    return type(first) in (int, float) and first == 1


def _is_reciprocal(step: Instruction) -> bool:
    kind, value = step.args[0]
    return kind == "const" and is_reciprocal(step.ufunc, step.dtype, value)


def converted(value: object, dtype: AnyDType) -> Any:
    """A scalar as the kernel takes it; the plainest kinds need no conversion but that of packing."""
    kind = dtype.kind
    if type(value) is float and kind == "f" and dtype.itemsize >= 4 and -PLAIN < value < PLAIN:
        return value
    if type(value) is int and (kind in "iu" or (kind == "f" and dtype.itemsize >= 4 and -PLAIN < value < PLAIN)):
        return value
    scalar = gpu_ufuncs.constant(np, value, dtype)
    return int(np.asarray(value).astype(dtype).view(np.uint16)) if kind == "V" else scalar.item()


def _written(
    lib: Library, program: Program, leaves: tuple[Any, ...], dtype: AnyDType, stored: tuple[int, ...], fixed: bool
) -> Element | None:
    """Write the function; None where that can't be."""
    if not knows(dtype) or not all(map(knows, leaves)) or program.result[0] == "const":
        return None
    writer = _Writer(lib, leaves, fixed)
    for number, step in enumerate(program.steps):
        if not writer.step(number, step):
            return None
    kind, place = program.result
    value = f"l{place}" if kind == "leaf" else f"s{place}"
    source_type = leaves[place] if kind == "leaf" else writer.types[place]
    if source_type.kind == "c" and dtype.kind not in "cb":  # nothing is dropped unless a step says so
        return None
    names = [f"const {TYPES[t]} l{i}" for i, t in enumerate(leaves)]
    names += [f"const {TYPES[t]} c{i}" for i, (_, _, t) in enumerate(writer.scalars)]
    names += [f"{TYPES[writer.types[step]]}& w{i}" for i, step in enumerate(stored)]
    last = [*[f"w{i} = s{step};" for i, step in enumerate(stored)], f"return {cast(value, source_type, dtype)};"]
    function = _defined("element", dtype, names, [*writer.lines, *last])
    quick = ""
    if writer.quick and not stored:
        lines = [writer.quick.get(i, line) for i, line in enumerate(writer.lines)]
        quick = _defined("quick", dtype, [*names, "float& least"], [*lines, *last])
        quick += _defined("exact", dtype, names, [*writer.lines, *last]).replace("__forceinline__", "__noinline__")
    used = {*leaves, dtype, *writer.used}
    preambles = tuple(dict.fromkeys(writer.preambles))
    source = headers_of(used) + "\n".join(preambles) + PACKS + function
    key = blake2b(source.encode(), digest_size=16).hexdigest()
    kept = tuple([writer.types[step] for step in stored])
    dear = sum([step.ufunc.__name__ not in CHEAP for step in program.steps])
    return Element(
        leaves, tuple(writer.scalars), dtype, kept, source, key, function, preambles, frozenset(used), dear, quick
    )


def _defined(name: str, dtype: Any, parameters: list[str], lines: list[str]) -> str:
    """A function of an element."""
    head = f"__device__ __forceinline__ {TYPES[dtype]} {name}({', '.join(parameters)})"
    return f"{head} {{\n{chr(10).join(lines)}\n}}\n"


class _Writer:
    """The lines of the function, and what they need."""

    def __init__(self, lib: Library, leaves: tuple[Any, ...], fixed: bool) -> None:
        self.lib = lib
        self.fixed = fixed
        self.leaves = leaves
        self.lines: list[str] = []
        self.quick: dict[int, str] = {}  # the lines that another function has in the place of its own
        self.preambles: list[str] = []
        self.scalars: list[tuple[int, int, Any]] = []
        self.used: set[Any] = set()
        self.types: list[Any] = []

    def _type(self, arg: tuple[str, Any]) -> Any:
        kind, value = arg
        if kind == "leaf":
            return self.leaves[value]
        return self.types[value] if kind == "step" else literal_type(value)

    def _scalar(self, number: int, place: int, dtype: AnyDType) -> str:
        self.scalars.append((number, place, dtype))
        return f"c{len(self.scalars) - 1}"

    def _value(self, number: int, place: int, arg: tuple[str, Any], dtype: AnyDType) -> str:
        kind, value = arg
        if kind == "const":
            return self._scalar(number, place, dtype)
        return f"l{value}" if kind == "leaf" else f"s{value}"

    def step(self, number: int, step: Instruction) -> bool:
        """Write one step."""
        args = step.args
        if any(k == "const" and not isinstance(v, (bool, int, float, complex, np.generic)) for k, v in args):
            return False
        given = None if isinstance(step.ufunc, Conversion) else step.kwargs.get("dtype")
        inputs = args[:-2] if step.masked else args
        formula = formula_of(self.lib, step.ufunc, tuple([self._type(a) for a in inputs]), step.dtype, given)
        if formula is None or len(formula.operands) != len(inputs):
            return False
        dtype = step.dtype
        one = self.fixed and _is_reciprocal(step)
        values = [
            "1"
            if one and i == 0
            else cast(self._value(number, i, arg, t), t if arg[0] == "const" else self._type(arg), t)
            for i, (arg, t) in enumerate(zip(inputs, formula.operands, strict=True))
        ]
        result = f"s{number}"
        self.lines.append(f"{TYPES[dtype]} {result};")
        quick = quick_code(step.ufunc, dtype, one) if {*formula.operands, formula.result} == {dtype} else None
        if quick is not None:
            self.quick[len(self.lines)] = _called(formula._replace(code=quick), values, result, dtype)
        self.lines.append(_called(formula, values, result, dtype))
        self.used |= {*formula.operands, formula.result, dtype}
        if formula.preamble:
            self.preambles.append(formula.preamble)
        if step.masked:
            mask, initial = args[-2:]
            if mask[0] != "const" and self._type(mask) != np.dtype(bool):
                return False
            held = dtype if initial[0] == "const" else self._type(initial)
            if not knows(held):
                return False
            flag = self._value(number, len(inputs), mask, np.dtype(bool))
            other = self._value(number, len(inputs) + 1, initial, dtype)
            self.lines.append(f"{result} = {flag} ? {result} : {cast(other, held, dtype)};")
        self.types.append(dtype)
        return True


def _called(formula: Formula, values: list[str], result: str, dtype: AnyDType) -> str:
    """One application of a formula, in a block of its own."""
    lines = ["{"]
    for i, (value, t) in enumerate(zip(values, formula.operands, strict=True)):
        lines.append(f"typedef {TYPES[t]} in{i}_type; const in{i}_type in{i} = in{i}_type({value});")
    lines.append(f"typedef {TYPES[formula.result]} out0_type; out0_type out0;")
    lines.append(formula.code)
    lines.append(f"{result} = {cast('out0', formula.result, dtype)};")
    lines.append("}")
    return "\n".join(lines)
