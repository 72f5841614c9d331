"""CuPy's ufuncs with NumPy's results: one table of corrections, for whoever calls a ufunc on GPU chunks.

CuPy takes most ufuncs from CUDA as they are. Where it lacks one, has no loop for a dtype, or answers otherwise than NumPy
(division by zero and by infinity, complex comparisons with NaN, shifts by more bits than there are, denormal numbers), the
table holds a function that answers as NumPy does. What still differs is listed in ``docs/gpu.md``. The functions that are
not in C use only what NumPy has too, so that the host tests check them; the C code is compiled there for the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from distarray.devices.arrays import AnyDType, DeviceArray, Library
from distarray.errors import UnsupportedError
from distarray.fusion.expr import real_part
from distarray.fusion.program import Instruction

__all__ = ["CORRECTIONS", "KERNELS", "constant", "evaluate", "fill", "function_of"]

_INFINITE = """
        auto a = x.real();
        auto b = x.imag();
        z = (isinf(a) && isnan(b)) || (isnan(a) && isinf(b)) ? T(fabs(isinf(a) ? a : b), nan("")) : y;"""
"""The logarithm of a number with an infinite part is infinite, whatever the other part."""

KERNELS = {
    "floor_divide": ("T x, T y", "T z", """
        T r = fmod(x, y);
        if (y == T(0)) {
            z = x / y;
        } else {
            T q = (x - r) / y;
            if (r != T(0) && (y < T(0)) != (r < T(0))) q -= T(1);
            if (q != T(0)) {
                z = floor(q);
                if (q - z > T(0.5)) z += T(1);
            } else {
                z = copysign(T(0), x / y);
            }
        }"""),
    "remainder": ("T x, T y", "T z", """
        z = fmod(x, y);
        if (y != T(0)) {
            if (z == T(0)) z = copysign(T(0), y);
            else if ((y < T(0)) != (z < T(0))) z += y;
        }"""),
    "fmod": ("T x, T y", "T z", """
        bool flips = T(-1) < T(0) && y == T(-1);
        z = y == T(0) || flips ? T(0) : T(x % y);"""),
    "left_shift": ("T x, T y", "T z", "z = y >= T(0) && y < T(8 * sizeof(T)) ? T(x << y) : T(0);"),
    "right_shift": ("T x, T y", "T z", """
        z = y >= T(0) && y < T(8 * sizeof(T)) ? T(x >> y) : T(x < T(0) ? -1 : 0);"""),
    "lcm": ("T x, T y", "T z", """
        unsigned long long a = (unsigned long long)x, b = (unsigned long long)y;
        if (x < T(0)) a = 0ull - a;
        if (y < T(0)) b = 0ull - b;
        unsigned long long p = a, q = b;
        while (q) {
            unsigned long long r = p % q;
            p = q;
            q = r;
        }
        z = p ? T(a / p * b) : T(0);"""),
    "sign": ("T x", "T z", """
        auto a = x.real();
        auto b = x.imag();
        auto n = hypot(a, b);
        if (isinf(n)) {
            bool p = isinf(a), q = isinf(b);
            auto both = n - n;
            a = !p ? decltype(n)(0) : q ? both : copysign(decltype(n)(1), a);
            b = !q ? decltype(n)(0) : p ? both : copysign(decltype(n)(1), b);
        } else if (n == decltype(n)(0)) {
            a = b = decltype(n)(0);
        } else {
            a /= n;
            b /= n;
        }
        z = T(a, b);"""),
    "multiply": ("T x, T y", "T z", """
        z = T(x.real() * y.real() - x.imag() * y.imag(), x.real() * y.imag() + x.imag() * y.real());"""),
    "square": ("T x", "T z", """
        z = T(x.real() * x.real() - x.imag() * x.imag(), x.real() * x.imag() + x.imag() * x.real());"""),
    "divide": ("T x, T y", "T z", """
        auto a = y.real();
        auto b = y.imag();
        typedef decltype(a) R;
        if (a == R(0) && b == R(0)) {
            z = T(x.real() / R(0), x.imag() / R(0));
        } else if (fabs(a) >= fabs(b)) {
            R r = b / a, s = R(1) / (a + b * r);
            z = T((x.real() + x.imag() * r) * s, (x.imag() - x.real() * r) * s);
        } else {
            R r = a / b, s = R(1) / (b + a * r);
            z = T((x.real() * r + x.imag()) * s, (x.imag() * r - x.real()) * s);
        }"""),
    "reciprocal": ("T x", "T z", """
        auto a = x.real();
        auto b = x.imag();
        typedef decltype(a) R;
        if (fabs(b) <= fabs(a)) {
            R r = b / a, d = a + b * r;
            z = T(R(1) / d, -r / d);
        } else {
            R r = a / b, d = a * r + b;
            z = T(r / d, -R(1) / d);
        }"""),
    "power": ("T x, T y", "T z", """
        if (y == T(0)) z = T(1);
        else if (x != T(0)) z = pow(x, y);
        else if (y.real() > 0) z = T(0);
        else z = T(nan(""), nan(""));"""),
    "log": ("T x, T y", "T z", _INFINITE),
    "log10": ("T x, T y", "T z", _INFINITE),
    "log1p": ("T x, T y", "T z", _INFINITE),
    "arccosh": ("T x, T y", "T z", """
        z = x.real() == 0 && isnan(x.imag()) ? T(nan(""), acos(x.real())) : y;"""),
    "tanh": ("T x, T y", "T z", """
        z = x.real() == 0 && x.imag() - x.imag() != 0 ? T(x.real(), nan("")) : y;"""),
}  # fmt: skip
"""C code: parameters, results, and what is done for each element. Of functions of one argument that have two parameters here,
the second is CuPy's own result."""

UNCONTRACTED = ("--fmad=false",)
"""Each product and sum of them rounds, as in the kernels of whole expressions, which then have the same bits."""

Correction = Callable[[Any, np.ufunc, Sequence[Any], Any], Any]
"""``(lib, ufunc, inputs, dtype=)`` → the result, or None where the library's own answers as NumPy does."""


# --- what callers use -------------------------------------------------------------------------------------------------


def function_of(lib: Library, ufunc: Callable[..., Any]) -> Callable[..., Any]:
    """The function of `lib` for a ufunc (or ``clip``, ``around``), corrected: it takes inputs, ``out=`` and ``dtype=``.

    Raises
    ------
    UnsupportedError
        The library has none.
    """
    name = ufunc.__name__
    correction = CORRECTIONS.get(name)
    own = getattr(lib, name, None)
    if correction is not None:
        return partial(_corrected, lib, ufunc, correction, own)
    if own is None:
        raise UnsupportedError(
            f"{lib.__name__} has no {name}: run it on host devices, with x.get() and NumPy, or write it with the "
            f"functions that {lib.__name__} has"
        )
    return own  # type: ignore[no-any-return]


def evaluate(
    lib: Library,
    step: Any,  # an Instruction, or what stands for one
    args: Sequence[Any],
    into: DeviceArray | None,
) -> Any:
    """One step of a program on `lib`'s arrays; the result lies in `into`, where that is given.

    Of a masked step, the last two arguments are the mask and what stands where it is False.
    """
    dtype, inputs = step.dtype, list(args)
    if not step.masked:
        return _evaluated(lib, step, inputs, into)
    *inputs, mask, initial = inputs
    if step.ufunc is np.power and dtype.kind == "i":
        loop = _loop(step.ufunc, inputs, step.kwargs.get("dtype"))
        inputs = _cast(lib, inputs, loop)
        inputs[1] = lib.where(mask, inputs[1], loop[1].type(0))  # an exponent that isn't used may be negative
    chosen = _evaluated(lib, step, inputs, None)
    result = lib.where(mask, chosen, constant(lib, real_part(initial, dtype), dtype))
    if into is None:
        return result.astype(dtype, copy=False)
    into[...] = result
    return into


def fill(lib: Library, array: DeviceArray, value: object) -> None:
    """Write a scalar into an array, with NumPy's casting. CuPy's own ``fill`` makes -0.0 a zero without a sign."""
    scalar = np.asarray(value).astype(array.dtype)[()]
    if scalar == 0 and any(scalar.tobytes()):
        array[...] = lib.where(lib.ones(array.shape, bool), scalar, scalar)
    else:
        array[...] = scalar


def constant(
    lib: Library,
    value: Any,  # a number of any kind
    dtype: AnyDType,
) -> Any:
    """A scalar as an operand of `dtype`: a NumPy scalar, which CuPy passes on bit for bit; a 0-d array stays one."""
    if hasattr(value, "strides") and not isinstance(value, (np.ndarray, np.generic)):
        return value.astype(dtype, copy=False)
    with np.errstate(all="ignore"):
        scalar = np.asarray(value).astype(dtype)
    return lib.asarray(scalar) if scalar.dtype.kind == "V" else scalar[()]


# --- how they are called ----------------------------------------------------------------------------------------------


def _evaluated(lib: Library, step: Instruction, inputs: list[Any], into: DeviceArray | None) -> Any:
    dtype = step.dtype
    if step.ufunc.__name__ == "astype":
        source = real_part(inputs[0], dtype)
        if isinstance(source, (bool, int, float, complex, np.generic)):
            result = lib.empty((), dtype) if into is None else into
            fill(lib, result, source)
            return result
        if into is None:
            return source.astype(dtype)
        into[...] = source
        return into
    kwargs = {} if step.kwargs.get("dtype") is None else {"dtype": step.kwargs["dtype"]}
    if any([type(a) is int and not 0 <= a < 128 for a in inputs]):  # noqa: C419 - a list takes half the time of a generator
        inputs = _fitting(lib, step.ufunc, inputs, kwargs.get("dtype"))
    function = function_of(lib, step.ufunc)
    if into is not None:
        return function(*inputs, out=into, **kwargs)
    result = function(*inputs, **kwargs)
    return result if result.dtype == dtype else result.astype(dtype)


def _fitting(lib: Library, ufunc: np.ufunc, inputs: list[Any], dtype: AnyDType | None) -> list[Any]:
    """The inputs, with Python integers in the dtype in which NumPy computes, where an array's own has no room for them: the
    library would take those for numbers of that, wrap or refuse them."""
    limits = [np.iinfo(a.dtype) for a in inputs if hasattr(a, "dtype") and a.dtype.kind in "iu"] or [np.iinfo(np.int64)]
    least, most = max([limit.min for limit in limits]), min([limit.max for limit in limits])
    if all(type(a) is not int or least <= a <= most for a in inputs) or not isinstance(ufunc, np.ufunc):
        return inputs
    return [
        constant(lib, a, t) if type(a) is int else a for a, t in zip(inputs, _loop(ufunc, inputs, dtype), strict=False)
    ]


def _corrected(
    lib: Library,
    ufunc: Any,
    correction: Correction,
    own: Any,
    /,
    *inputs: Any,
    out: DeviceArray | None = None,
    dtype: object = None,
    casting: object = None,
) -> Any:
    """A call; its `casting` has been checked where it was recorded."""
    found = correction(lib, ufunc, inputs, dtype)
    if found is None:
        kwargs = {} if dtype is None else {"dtype": dtype}
        return own(*inputs, **kwargs) if out is None else own(*inputs, out=out, **kwargs)
    if out is None:
        return found
    if isinstance(found, tuple):
        for target, result in zip(out, found, strict=True):
            target[...] = result
    else:
        out[...] = real_part(found, out.dtype)
    return out


def _type_of(value: DeviceArray) -> Any:
    if isinstance(value, (int, float, complex)) and not isinstance(value, (bool, np.generic)):
        return type(value)
    return np.dtype(bool) if isinstance(value, bool) else value.dtype


@lru_cache(maxsize=1024)
def loop_of(ufunc: np.ufunc, types: tuple[Any, ...], dtype: AnyDType) -> tuple[Any, ...]:
    kwargs: Any = {} if dtype is None else {"signature": (*[None] * len(types), *[np.dtype(dtype)] * ufunc.nout)}
    return ufunc.resolve_dtypes((*types, *[None] * ufunc.nout), casting="unsafe", **kwargs)


def _loop(ufunc: np.ufunc, inputs: Sequence[Any], dtype: object) -> tuple[Any, ...]:
    """The dtypes in which NumPy computes."""
    return loop_of(ufunc, tuple([_type_of(a) for a in inputs]), dtype)


def _cast(lib: Library, inputs: Sequence[Any], dtypes: Sequence[Any]) -> list[Any]:
    """The inputs in the dtypes of a loop; scalars stay scalars."""
    return [
        constant(lib, a, t) if isinstance(a, (bool, int, float, complex, np.generic)) else a.astype(t, copy=False)
        for a, t in zip(inputs, dtypes, strict=False)
    ]


def _has(kinds: str, inputs: Sequence[Any], dtype: npt.DTypeLike | None = None) -> bool:
    """Whether an input, or the dtype asked for, is of one of the kinds; a quick look before a loop is resolved."""
    found = [getattr(a, "dtype", None) or np.min_scalar_type(a) for a in inputs]
    return any(t.kind in kinds for t in found) or (dtype is not None and np.dtype(dtype).kind in kinds)


@cache
def _kernel(lib: Library, name: str) -> Any:
    return lib.ElementwiseKernel(*KERNELS[name], f"distarray_{name}", options=UNCONTRACTED)


def _compiled(name: str, kinds: str, wide: bool = False) -> Correction:
    """The C code of a ufunc, for loops of `kinds`. Half precision is computed in single; with `wide`, all in double."""

    def call(lib: Library, ufunc: np.ufunc, inputs: Sequence[Any], dtype: AnyDType | None) -> Any:
        loop = _loop(ufunc, inputs, dtype)
        kind = loop[0].kind
        if kind not in kinds:
            return None
        if wide:
            work = np.dtype("complex128" if kind == "c" else "float64")
        else:
            work = np.dtype("float32") if kind in "fV" and loop[0].itemsize == 2 else loop[0]
        result = _kernel(lib, name)(*_cast(lib, _cast(lib, inputs, loop), [work] * ufunc.nin))
        return result.astype(loop[-1], copy=False)

    return call


def _amended(name: str) -> Correction:
    """CuPy's own function of complex numbers, with C99's values where one part is zero or infinite and the other no number."""

    def call(lib: Library, ufunc: np.ufunc, inputs: Sequence[Any], dtype: AnyDType | None) -> Any:
        loop = _loop(ufunc, inputs, dtype)
        if loop[0].kind != "c":
            return None
        (x,) = _cast(lib, inputs, loop)
        return _kernel(lib, name)(x, getattr(lib, name)(x))

    return call


def _log2(lib: Library, ufunc: np.ufunc, inputs: Sequence[Any], dtype: AnyDType) -> Any:
    """Complex logarithms to base 2, by the natural ones: CuPy divides those by a complex number."""
    loop = _loop(ufunc, inputs, dtype)
    if loop[0].kind != "c":
        return None
    found = function_of(lib, np.log)(*_cast(lib, inputs, loop))
    scale = found.real.dtype.type(1 / np.log(2))
    result = lib.empty(found.shape, loop[-1])
    result.real, result.imag = found.real * scale, found.imag * scale
    return result


# --- corrections ------------------------------------------------------------------------------------------------------


def _divmod(lib: Library, ufunc: np.ufunc, inputs: Sequence[Any], dtype: AnyDType) -> Any:
    loop = _loop(ufunc, inputs, dtype)
    if loop[0].kind not in "fV":
        return None
    operands = _cast(lib, inputs, loop)
    return tuple([function_of(lib, f)(*operands) for f in (np.floor_divide, np.remainder)])


def _truth(a: DeviceArray) -> Any:
    if isinstance(a, (bool, int, float, complex, np.generic)):
        return np.bool_(bool(a))
    return a != 0 if a.dtype.kind == "c" else a


def _logical(lib: Library, ufunc: np.ufunc, inputs: Sequence[Any], dtype: AnyDType) -> Any:
    """Logical functions by the truth of operands: CuPy has no complex loops, and compares mixed integers in one type of its own."""
    if not _has("c", inputs) and len({a.dtype for a in inputs if hasattr(a, "dtype")}) < 2:
        return None
    return getattr(lib, ufunc.__name__)(*[a != 0 if hasattr(a, "dtype") and a.ndim else _truth(a) for a in inputs])


def _compare(lib: Library, ufunc: np.ufunc, inputs: Sequence[Any], dtype: AnyDType) -> Any:
    """NumPy orders complex numbers by both parts, and none with a NaN part."""
    name = ufunc.__name__
    if name in ("equal", "not_equal") or not _has("c", inputs, None):
        return None
    first, second = _cast(lib, inputs, _loop(ufunc, inputs, dtype))
    return getattr(lib, name)(first, second) & ~(lib.isnan(first) | lib.isnan(second))


def _extreme(lib: Library, ufunc: np.ufunc, inputs: Sequence[Any], dtype: AnyDType) -> Any:
    """Extrema of complex numbers: NumPy's order, and a NaN with both of its parts."""
    if not _has("c", inputs, dtype):
        return None
    name = ufunc.__name__
    first, second = _cast(lib, inputs, _loop(ufunc, inputs, dtype))
    before = np.greater_equal if "max" in name else np.less_equal
    skipped = lib.isnan(second if name.startswith("f") else first)
    return lib.where(function_of(lib, before)(first, second) | skipped, first, second)


def _power(lib: Library, ufunc: np.ufunc, inputs: Sequence[Any], dtype: AnyDType) -> Any:
    """Complex powers, and NumPy's refusal of negative integer ones."""
    loop = _loop(ufunc, inputs, dtype)
    if loop[0].kind == "c":
        return _complex_power(lib, ufunc, inputs, dtype)
    if loop[0].kind == "i":
        exponent = inputs[1]
        negative = exponent < 0
        if bool(negative.any()) if hasattr(negative, "any") else negative:
            raise ValueError("Integers to negative integer powers are not allowed.")
    return None


_complex_power = _compiled("power", "c", wide=True)


def _degrees(lib: Library, ufunc: np.ufunc, inputs: Sequence[Any], dtype: AnyDType) -> Any:
    """Conversions of angles, in the precision of NumPy's constants: single where the operand is half or single."""
    loop = _loop(ufunc, inputs, dtype)
    if loop[0].kind != "f" or loop[0].itemsize > 4:
        return None
    single, turn, pi = np.dtype("float32"), np.float32(180), np.float32(np.pi)
    factor = turn / pi if ufunc in (np.degrees, np.rad2deg) else pi / turn
    (x,) = _cast(lib, _cast(lib, inputs, loop), [single])
    return (x * factor).astype(loop[0], copy=False)


_BITS: dict[int, Any] = {2: np.int16, 4: np.int32, 8: np.int64}


def _nextafter(lib: Library, ufunc: np.ufunc, inputs: Sequence[Any], dtype: AnyDType) -> Any:
    """The next number, found on the bits: CuPy's kernels take denormal single-precision numbers for zero."""
    loop = _loop(ufunc, inputs, dtype)
    if loop[0].kind != "f":
        return None
    bits = _BITS[loop[0].itemsize]
    x, y = [lib.asarray(a) for a in _cast(lib, inputs, loop)]
    low = bits(np.iinfo(bits).min)
    i, j = x.view(bits), y.view(bits)
    here, there = (lib.where(b < 0, lib.subtract(low, b), b) for b in (i, j))  # in order; both zeros are 0
    step = (there > here).astype(bits) - (there < here).astype(bits)
    moved = here + step
    found = lib.where(moved < 0, lib.subtract(low, moved), moved)
    found = lib.where((moved == 0) & (here < 0), low, found)  # back to zero from below: -0.0
    same = i if loop[0].itemsize == 2 else j  # NumPy's halves differ in which of two equal zeros they return
    found = lib.where(step == 0, same, found).astype(bits, copy=False).view(loop[0])
    return lib.where(lib.isnan(x) | lib.isnan(y), loop[0].type(np.nan), found)


def _spacing(lib: Library, ufunc: np.ufunc, inputs: Sequence[Any], dtype: AnyDType) -> Any:
    """The spacing, from the exponent's bits. That of halves has no sign, and is the lesser one at negative powers of two."""
    loop = _loop(ufunc, inputs, dtype)[0]
    bits, digits = _BITS[loop.itemsize], np.finfo(loop).nmant
    (x,) = [lib.asarray(a) for a in _cast(lib, inputs, [loop])]
    i = x.view(bits)
    low = bits(np.iinfo(bits).min)
    magnitude = i & ~low
    exponent = magnitude >> bits(digits)
    half = loop.itemsize == 2
    if half:
        exponent = exponent - ((i < 0) & ((magnitude & bits(2**digits - 1)) == 0)).astype(bits)
    places = lib.maximum(lib.minimum(exponent, bits(digits)) - bits(1), bits(0))
    denormal = lib.left_shift(bits(1), places)
    found = lib.where(exponent > bits(digits), (exponent - bits(digits)) << bits(digits), denormal)
    top, infinite = np.finfo(loop).max.view(bits), loop.type(np.inf).view(bits)
    found = lib.where((i if half else magnitude) == top, infinite, found)
    if not half:
        found = found | (i & lib.where(magnitude == 0, bits(0), low))
    found = found.astype(bits, copy=False).view(loop)
    return lib.where(lib.isfinite(x), found, loop.type(np.nan))


_complex_reciprocal = _compiled("reciprocal", "c")


def _reciprocal(lib: Library, ufunc: np.ufunc, inputs: Sequence[Any], dtype: AnyDType) -> Any:
    """The integer 1 / 0 has no value; this is what NumPy's compiler made of it."""
    loop = _loop(ufunc, inputs, dtype)[0]
    if loop.kind == "c":
        return _complex_reciprocal(lib, ufunc, inputs, dtype)
    if loop.kind not in "iu":
        return None
    (x,) = _cast(lib, inputs, [loop])
    with np.errstate(all="ignore"):
        return lib.where(x == 0, np.reciprocal(np.zeros(1, loop))[0], lib.reciprocal(x))


def _ldexp(lib: Library, ufunc: np.ufunc, inputs: Sequence[Any], dtype: AnyDType) -> Any:
    limits = np.iinfo(np.int32)
    x, exponent = inputs
    if isinstance(exponent, (int, np.integer, np.bool_)):
        exponent = np.int32(min(max(int(exponent), limits.min), limits.max))
    elif exponent.dtype.kind in "iu" and exponent.dtype.itemsize > 4:
        exponent = lib.minimum(lib.maximum(exponent, limits.min), limits.max)
    exponent = exponent.astype(np.int32)
    return lib.ldexp(*_cast(lib, [x], _loop(ufunc, inputs, dtype)), exponent)


def _frexp(lib: Library, ufunc: np.ufunc, inputs: Sequence[Any], dtype: AnyDType) -> Any:
    """The exponent of infinities and NaN is 0; CUDA leaves it open."""
    mantissa, exponent = lib.frexp(inputs[0])
    return mantissa, lib.where(lib.isfinite(inputs[0]), exponent, np.int32(0))


def _of_complex(name: str) -> Correction:
    """The C code of a ufunc for complex loops, with a quick look at the others."""
    compiled = _compiled(name, "c")
    return lambda lib, ufunc, inputs, dtype: compiled(lib, ufunc, inputs, dtype) if _has("c", inputs, dtype) else None


_complex_sign = _compiled("sign", "c")


def _sign(lib: Library, ufunc: np.ufunc, inputs: Sequence[Any], dtype: AnyDType) -> Any:
    if inputs[0].dtype.kind == "V":  # ml_dtypes, which gives NumPy its bfloat16, keeps the sign of zero
        return lib.copysign(lib.sign(inputs[0]), inputs[0])
    return _complex_sign(lib, ufunc, inputs, dtype) if _has("c", inputs, dtype) else None


def _clip(lib: Library, ufunc: np.ufunc, inputs: Sequence[Any], dtype: AnyDType) -> Any:
    """NaN bounds make NaN; a bound may be None; complex numbers have bounds too."""
    a, low, high = inputs
    given = [a, *[b for b in (low, high) if b is not None]]
    if dtype is None:
        dtype = np.result_type(*[v if isinstance(v, (bool, int, float, complex)) else v.dtype for v in given])
    value, *bounds = _cast(lib, given, [dtype] * len(given))
    for bound, function in zip(bounds, [np.minimum] if low is None else [np.maximum, np.minimum], strict=False):
        value = function_of(lib, function)(value, bound)
    return value


def _around(lib: Library, ufunc: np.ufunc, inputs: Sequence[Any], dtype: AnyDType) -> Any:
    """Rounding by NumPy's own steps, in the array's precision."""
    a, decimals = inputs
    kind = a.dtype.kind
    if kind not in "fciu" or (kind in "iu" and decimals >= 0):
        return None
    if kind == "c":
        found = lib.empty(a.shape, a.dtype)
        found.real = _around(lib, ufunc, (a.real, decimals), dtype)
        found.imag = _around(lib, ufunc, (a.imag, decimals), dtype)
        return found
    if decimals == 0:
        return lib.rint(a)
    work = a.dtype if kind == "f" else np.dtype("float64")
    x = a.astype(work, copy=False)
    with np.errstate(all="ignore"):
        factor = np.asarray(10.0 ** abs(decimals)).astype(work)[()]
    if decimals > 0:
        return lib.rint(x * factor) / factor
    return (lib.rint(x / factor) * factor).astype(a.dtype, copy=False)


CORRECTIONS: dict[str, Correction] = {
    "floor_divide": _compiled("floor_divide", "fV"),
    "remainder": _compiled("remainder", "fV"),
    "divmod": _divmod,
    "divide": _of_complex("divide"),  # Smith's method, as NumPy divides: CuPy's has NaN where the divisor is infinite
    "multiply": _of_complex("multiply"),
    "square": _of_complex("square"),
    "fmod": _compiled("fmod", "iu"),
    "left_shift": _compiled("left_shift", "iu"),
    "right_shift": _compiled("right_shift", "iu"),
    "lcm": _compiled("lcm", "iu"),
    "float_power": _compiled("power", "c", wide=True),
    "power": _power,
    "sign": _sign,
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor", "logical_not"), _logical),
    **dict.fromkeys(("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"), _compare),
    **dict.fromkeys(("maximum", "minimum", "fmax", "fmin"), _extreme),
    **dict.fromkeys(("degrees", "rad2deg", "radians", "deg2rad"), _degrees),
    "nextafter": _nextafter,
    "spacing": _spacing,
    "reciprocal": _reciprocal,
    "ldexp": _ldexp,
    "frexp": _frexp,
    **{name: _amended(name) for name in ("log", "log10", "log1p", "arccosh", "tanh")},
    "log2": _log2,
    "clip": _clip,
    "around": _around,
}
"""By the name of a ufunc: what to call instead of CuPy's own."""
