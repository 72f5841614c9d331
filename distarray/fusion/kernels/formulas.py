"""What a recorded step computes for one element, as C: the formulas that the steps have when they run one by one.

A formula is CuPy's own for the ufunc and the dtypes (read out of its ufunc objects), or the correction that
``fusion/gpu_ufuncs.py`` has for it, so that a fused kernel gives the values of the unfused steps. A step that has none here
(a ``dtype=`` of a ufunc, corrections that are no C, functions of which contracted code has other bits) leaves its expression to
the steps.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from distarray.devices.arrays import AnyDType, Library
from distarray.fusion import gpu_ufuncs

__all__ = ["COMPLEX", "CONTRACTED", "HALVES", "TYPES", "Formula", "formula_of", "knows", "literal_type"]

TYPES: dict[Any, str] = {
    np.dtype(name): text
    for name, text in {
        "bool": "bool", "int8": "signed char", "uint8": "unsigned char", "int16": "short", "uint16": "unsigned short",
        "int32": "int", "uint32": "unsigned int", "int64": "long long", "uint64": "unsigned long long",
        "float16": "float16", "float32": "float", "float64": "double", "complex64": "complex<float>",
        "complex128": "complex<double>",
    }.items()
}  # fmt: skip
"""The dtypes that kernels know, and their names in C (``float16`` and ``complex`` are CuPy's classes). ``bfloat16``, which NumPy
does not know by itself, is among them from when it is first met (`knows`)."""

HALVES = frozenset(("float16", "bfloat16"))
"""Computed in single precision."""


def knows(dtype: AnyDType) -> bool:
    """Whether kernels know a dtype."""
    if dtype in TYPES:
        return True
    if getattr(dtype, "name", "") != "bfloat16":
        return False
    TYPES[dtype] = "bfloat16"
    return True


CONTRACTED = frozenset(
    """power float_power log log2 log10 log1p exp2 arccos acos arccosh acosh arcsinh asinh arctanh atanh logaddexp
    logaddexp2 pow""".split()
)
"""Ufuncs that contain double-precision products and sums which CuPy's compiler contracts. Kernels are compiled without
contraction, for the sake of every other step, so that these would get other bits: with double-precision operands (two of
them with any) they stay with CuPy. Found by comparing the machine code of every formula with and without contraction."""

_CORRECTED_KINDS = {
    "floor_divide": "fV", "remainder": "fV", "fmod": "iu", "left_shift": "iu", "right_shift": "iu", "lcm": "iu", "multiply": "c",
    "square": "c", "divide": "c", "reciprocal": "c", "sign": "c",
}  # fmt: skip

COMPLEX = frozenset(
    "add subtract negative positive conjugate absolute equal not_equal isnan isinf isfinite rint exp sqrt".split()
)
"""CuPy's own functions of complex numbers that have the same bits with contraction and without, by their machine code."""

_LOGICAL = {
    "logical_and": "out0 = in0 != in0_type(0) && in1 != in1_type(0);",
    "logical_or": "out0 = in0 != in0_type(0) || in1 != in1_type(0);",
    "logical_xor": "out0 = (in0 != in0_type(0)) != (in1 != in1_type(0));",
    "logical_not": "out0 = in0 == in0_type(0);",
}
_DEGREES = frozenset({"degrees", "rad2deg", "radians", "deg2rad"})
_REFUSED = frozenset({"nextafter", "spacing", "ldexp", "frexp", "around", "clip", "logaddexp2", "float_power"})
"""Ufuncs that the table of corrections computes in several steps of the library."""


class Formula(NamedTuple):
    """C code for one element: arguments ``in0``, ``in1``, … of the dtypes `operands`, the result ``out0`` of dtype `result`;
    ``in0_type`` and so on name the types. `preamble` holds the functions that it calls."""

    operands: tuple[Any, ...]
    result: Any
    code: str
    preamble: str = ""


def literal_type(value: object) -> Any:
    """What NumPy's promotion takes a scalar for: a Python type, which is weak, or a dtype; None for what is no number, as a bound
    that a clip lacks."""
    if type(value) in (int, float, complex):
        return type(value)
    return np.dtype(bool) if isinstance(value, bool) else getattr(value, "dtype", None)


@lru_cache(maxsize=4096)
def formula_of(
    lib: Library, ufunc: Callable[..., Any], types: tuple[Any, ...], dtype: AnyDType, given: object = None
) -> Formula | None:
    """The formula of a step, or None where there is none.

    Parameters
    ----------
    lib : module
        CuPy.
    types : tuple
        For each argument, its dtype; the type of a Python scalar.
    dtype
        Of the step's result.
    given
        The call's own ``dtype=``.
    """
    name = ufunc.__name__
    if not knows(dtype):
        return None
    if name == "astype":
        source = dtype if isinstance(types[0], type) else types[0]
        return Formula((source,), source, "out0 = in0;") if knows(source) else None
    if given is not None or name in _REFUSED or not isinstance(ufunc, np.ufunc) or ufunc.nout != 1:
        return None
    try:
        loop = gpu_ufuncs.loop_of(ufunc, types, None)
    except TypeError:
        return None
    if not all(map(knows, loop)) or loop[-1] != dtype:
        return None
    actual = tuple([t if isinstance(k, type) else k for t, k in zip(loop, types, strict=False)])
    if not all(map(knows, actual)):
        return None
    if name in _LOGICAL:
        return Formula(actual, dtype, _LOGICAL[name])
    if name in _DEGREES and loop[0].itemsize <= 4:
        single, turn, pi = np.dtype("float32"), np.float32(180), np.float32(np.pi)
        factor = turn / pi if ufunc in (np.degrees, np.rad2deg) else pi / turn
        return Formula((single,), single, f"out0 = in0 * {float(factor)!r}f;")
    if loop[0].kind in _CORRECTED_KINDS.get(name, ""):
        return _corrected(name, loop)
    if name == "sign" and loop[0].kind == "V":  # which keeps the sign of zero
        return None
    if (name == "reciprocal" and loop[0].kind != "f") or (name == "power" and loop[0].kind in "iub"):
        return None
    return _own(lib, name, actual, dtype)


def _corrected(name: str, loop: tuple[Any, ...]) -> Formula:
    """C code of the table of corrections, in the dtypes that it is called with there."""
    parameters, _, code = gpu_ufuncs.KERNELS[name]
    work = np.dtype("float32") if loop[0].name in HALVES else loop[0]
    words = ["T z;", *[f"const T {p.split()[1]} = in{i};" for i, p in enumerate(parameters.split(","))]]
    return Formula((work,) * len(loop[:-1]), work, f"typedef in0_type T; {' '.join(words)} {code} out0 = z;")


def _own(lib: Library, name: str, actual: tuple[Any, ...], dtype: AnyDType) -> Formula | None:
    """CuPy's own: the first of its loops that takes the arguments without loss, as it chooses itself."""
    function = getattr(lib, name, None)
    if not isinstance(function, lib.ufunc):
        return None
    for loop in function._ops.ops:
        wanted, results = loop.in_types, loop.out_types
        wanted = tuple([np.dtype(t) for t in wanted])
        if all(np.can_cast(a, b) for a, b in zip(actual, wanted, strict=True)):
            found = tuple([np.dtype(t) for t in (*wanted, *results)])
            if not isinstance(loop.routine, str) or not all(map(knows, found)):
                return None
            if name not in COMPLEX and any(t.kind == "c" for t in found):
                return None
            if name in CONTRACTED and found[0] == np.float64:
                return None
            preamble = "\n".join([t for t in (function._preamble, function._loop_prep) if t])
            return Formula(found[:-1], found[-1], f"{loop.routine};", preamble)
    return None
