"""The corrections of CuPy's ufuncs against NumPy's own results: those written with array functions run on NumPy arrays,
and the C code is compiled for the host."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from conformance.strategies import NUMPY, extremes
from distarray.errors import UnsupportedError
from distarray.fusion import gpu_ufuncs
from distarray.fusion.gpu_ufuncs import CORRECTIONS, KERNELS

C_TYPES = {
    "i1": "signed char", "i2": "short", "i4": "int", "i8": "long long", "u1": "unsigned char", "u2": "unsigned short",
    "u4": "unsigned", "u8": "unsigned long long", "f4": "float", "f8": "double", "c8": "std::complex<float>",
    "c16": "std::complex<double>",
}  # fmt: skip
REAL, INTEGER, COMPLEX = ["f4", "f8"], [t for t in C_TYPES if t[0] in "iu"], ["c8", "c16"]
KINDS = {
    "floor_divide": REAL,
    "remainder": REAL,
    "sign": COMPLEX,
    "divide": COMPLEX,
    "multiply": COMPLEX,
    "square": COMPLEX,
    "reciprocal": COMPLEX,
    "power": ["c16"],
    **dict.fromkeys(("log", "log10", "log1p", "arccosh", "tanh"), COMPLEX),
}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """All kernels, as loops over arrays of the host."""
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    lines = ["#include <cmath>", "#include <complex>", "using namespace std;"]
    for name, (given, _, code) in KERNELS.items():
        two = "y" in given
        for dtype in KINDS.get(name, INTEGER):
            inputs = "T x = xs[i]; " + ("T y = ys[i]; " if two else "")
            lines.append(
                f'extern "C" void {name}_{dtype}({C_TYPES[dtype]} *xs, {C_TYPES[dtype]} *ys, {C_TYPES[dtype]} *zs, int n) '
                f"{{ typedef {C_TYPES[dtype]} T; for (int i = 0; i < n; i++) {{ {inputs} T &z = zs[i]; {code} }} }}"
            )
    folder = tmp_path_factory.mktemp("kernels")
    (folder / "kernels.cpp").write_text("\n".join(lines))
    command = [
        compiler,
        "-O1",
        "-w",
        "-fwrapv",
        "-ffp-contract=off",
        "-shared",
        "-fPIC",
        "-o",
        "kernels.so",
        "kernels.cpp",
    ]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "kernels.so"))


@pytest.fixture
def lib(compiled: Any) -> Any:
    """NumPy, with an ``ElementwiseKernel`` like CuPy's."""

    def kernel(given: str, _: str, code: str, name: str, options: Any) -> Any:
        def call(*arrays: Any) -> Any:
            operands = [np.array(a, order="C") for a in np.broadcast_arrays(*arrays)]
            (dtype,) = {a.dtype for a in operands}
            out = np.empty_like(operands[0])
            pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in (operands[0], operands[-1], out)]
            function = getattr(compiled, f"{name.removeprefix('distarray_')}_{dtype.str[1:]}")
            function(*pointers, ctypes.c_int(out.size))
            return out

        return call

    module = ModuleType("library")
    vars(module).update(vars(np), ElementwiseKernel=kernel)
    return module


def values(dtype: np.dtype, seed: int = 0) -> np.ndarray:
    """Ordinary and extreme values, denormal ones too."""
    rng = np.random.default_rng(seed)
    if dtype.kind == "b":
        return rng.random(40) < 0.5
    a = rng.integers(-9 if dtype.kind != "u" else 0, 9, 40).astype(dtype)
    if dtype.kind in "fc":
        a = (a * rng.random(40)).astype(dtype)
    a = np.concatenate([a, extremes(dtype), rng.integers(0, 3, 10).astype(dtype)])
    if dtype.kind == "c":
        a = a + (1j * rng.integers(-3, 3, a.size)).astype(dtype) * (np.arange(a.size) < 40)
    if dtype.kind == "f":
        tiny = np.finfo(dtype).smallest_subnormal
        a = np.concatenate([a, np.array([tiny, -tiny, np.finfo(dtype).tiny, np.finfo(dtype).max, -2, 0.25], dtype)])
    return a.astype(dtype)


def equal(got: Any, ref: Any, **near: Any) -> None:
    for g, r in zip(got, ref, strict=True) if isinstance(ref, tuple) else [(got, ref)]:
        assert g.dtype == r.dtype
        if near:
            np.testing.assert_allclose(g, r, **near)
            continue
        assert np.array_equal(g, r, equal_nan=r.dtype.kind in "fc"), (g, r)
        if r.dtype.kind == "f":
            known = ~np.isnan(r)
            assert np.array_equal(np.signbit(g)[known], np.signbit(r)[known]), (g, r)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", ["log", "log10", "log1p", "arccosh", "tanh"])
@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex_functions_of_infinities_have_c99s_values(name: str, dtype: str, lib: Any) -> None:
    """Where the library has no number in either part."""
    special = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]
    x = np.array([complex(a, b) for a in special for b in special], dtype)
    ref = getattr(np, name)(x)
    setattr(lib, name, lambda a: np.where(np.isfinite(ref), ref, a.dtype.type(complex(np.nan, np.nan))))
    got = gpu_ufuncs.function_of(lib, getattr(np, name))(x)
    wanted = {
        "arccosh": (x.real == 0) & np.isnan(x.imag),
        "tanh": (x.real == 0) & ~np.isfinite(x.imag),
    }.get(name, (np.isinf(x.real) & np.isnan(x.imag)) | (np.isnan(x.real) & np.isinf(x.imag)))
    assert wanted.any()
    np.testing.assert_allclose(got.real[wanted], ref.real[wanted], rtol=1e-6)
    np.testing.assert_allclose(np.abs(got.imag[wanted]), np.abs(ref.imag[wanted]), rtol=1e-6)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", [n for n in CORRECTIONS if n not in ("clip", "around")])
def test_every_correction_is_numpys_ufunc(name: str, lib: Any) -> None:
    ufunc = getattr(np, name)
    function = gpu_ufuncs.function_of(lib, ufunc)
    for dtype in NUMPY:
        x = values(dtype)
        operands = [x, np.roll(x, 7)] if ufunc.nin == 2 else [x]
        if name == "ldexp":
            operands[1] = values(np.dtype("int64"))[: x.size]
            operands[0] = x[: operands[1].size]
        try:
            ref = ufunc(*operands)
        except TypeError:
            continue
        except ValueError:
            with pytest.raises(ValueError, match="negative integer powers"):
                function(*operands)
            continue
        if name.endswith("power") and dtype.kind == "c":
            usual = np.abs(operands[0]) < 100
            usual &= np.abs(operands[1]) < 100
            operands = [a[usual] for a in operands]
            equal(function(*operands), ufunc(*operands), rtol=1e-4 if dtype.itemsize == 8 else 1e-12)
            continue
        if (
            name in ("divide", "reciprocal", "multiply", "square") and dtype.kind == "c"
        ):  # NumPy may fuse multiplications and additions
            finite = np.isfinite(ref)
            got = function(*operands)
            assert np.array_equal(np.isfinite(got), finite)
            equal(got[finite], ref[finite], rtol=8 * np.finfo(dtype).eps)
            continue
        # NumPy's own vector and scalar code disagree about the sign of zero
        unsigned = (
            (np.abs(ref), np.abs(function(*operands))) if name in ("fmax", "fmin", "maximum", "minimum") else None
        )
        if unsigned is not None and dtype.kind == "f":
            equal(unsigned[1], unsigned[0])
            continue
        equal(function(*operands), ref)
        if ufunc.nin == 2 and dtype.kind != "b":
            scalar = operands[1].flat[3]
            if name != "power":
                equal(function(operands[0], scalar), ufunc(operands[0], scalar))
            out = np.empty_like(ref[0] if isinstance(ref, tuple) else ref)
            if ufunc.nout == 1:
                assert function(*operands, out=out) is out
                equal(out, ref)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", ["nextafter", "spacing"])
def test_every_half(name: str) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    ufunc = getattr(np, name)
    for y in ([],) if name == "spacing" else ([np.roll(x, 1)], [np.full_like(x, np.inf)], [-x]):
        found, expected = gpu_ufuncs.function_of(np, ufunc)(x, *y), ufunc(x, *y)
        for result in (found, expected):  # of two equal zeros NumPy's versions return the one or the other
            result[result == 0] = 0
        equal(found, expected)


@pytest.mark.parametrize(
    "name", ["divide", "arctan2", "copysign", "hypot", "logical_and", "logical_xor", "float_power"]
)
def test_python_integers_that_an_array_has_no_room_for_come_in_the_loops_dtype(name: str, lib: Any) -> None:
    """The library would wrap them, or refuse them."""
    x, ufunc, given = np.array([0, 2, 255], np.uint8), getattr(np, name), []

    def called(*args: Any, **kwargs: Any) -> Any:
        given.extend(args)
        with np.errstate(all="ignore"):
            return ufunc(*args, **kwargs)

    setattr(lib, name, called)
    for number in (-1, 300):
        with np.errstate(all="ignore"):
            expected = ufunc(x, number)
        step: Any = SimpleNamespace(ufunc=ufunc, kwargs={}, dtype=expected.dtype, masked=False)
        equal(gpu_ufuncs.evaluate(lib, step, [x, number], None), expected)
    assert len(given) == 4
    assert not any(type(a) is int for a in given)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_clip_and_around() -> None:
    clip, around = gpu_ufuncs.function_of(np, np.clip), gpu_ufuncs.function_of(np, np.around)
    for dtype in NUMPY:
        x = values(dtype)
        for low, high in ((x[3], None), (None, x[5]), (x[::-1].copy(), x[2]), (x[7], x[::-1].copy())):
            equal(np.abs(clip(x, low, high)), np.abs(np.clip(x, low, high)))
        small = x[np.abs(x) < 1e9] if dtype.kind != "b" else x
        for decimals in range(-2, 4):
            if dtype.kind != "b" and dtype.itemsize > 1:
                equal(around(small, decimals), np.around(small, decimals))


def test_fill_and_constants_keep_the_sign_of_zero() -> None:
    out = np.ones(3)
    gpu_ufuncs.fill(np, out, -0.0)
    assert np.signbit(out).all()
    gpu_ufuncs.fill(np, out, 2)
    assert (out == 2).all()
    assert np.signbit(gpu_ufuncs.constant(np, -0.0, np.dtype("float32")))


def test_a_ufunc_that_the_library_lacks() -> None:
    bare = SimpleNamespace(__name__="bare")
    with pytest.raises(UnsupportedError, match=r"bare has no sin: .*x\.get\(\)"):
        gpu_ufuncs.function_of(bare, np.sin)
