"""Quotients and roots without branches: compiled for the host, against NumPy's; on a GPU, kernels against their steps."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from typing import Any

import numpy as np
import pytest

import distarray as da
from conformance.checking import on_gpu
from distarray.fusion.kernels.quick import ENOUGH, FUNCTIONS

HEAD = """
#include <cmath>
#include <cstring>
#define __device__
#define __forceinline__ inline
static int off;
static float near(double x, float from) {
    unsigned bits;
    memcpy(&bits, &from, 4);
    float r = x;
    if ((bits & 0x7FFFFFu) == 0x7FFFFFu || std::isinf(from)) return r;
    if (off > 0 ? r < x : off < 0 && r > x) r = nextafterf(r, off > 0 ? INFINITY : -INFINITY);
    return r;
}
"""
"""A GPU's own reciprocals and roots are wrong by less than a unit in the last place: `near` is the next number above or below, as
`off` says, but for mantissas of ones, where Newton's step needs the right one. GPUs have that, and the compiler's own code rests on
it: another test sees it."""

INSTRUCTIONS = {
    "rcp": "r = near(1.0 / b, b);", "rsqrt": "r = near(1.0 / std::sqrt((double)x), x);",
    "fma": "r = fmaf(a, b, c);", "neg": "r = fmaf(-a, b, c);",
    "abs": "r = std::isnan(x) || std::isnan(least) ? NAN : fminf(least, fabsf(x));",
}  # fmt: skip

LOOPS = """
extern "C" void run(int by, const float *a, const float *b, float *out, float *least, long n) {
    off = by;
    for (long i = 0; i < n; ++i) {
        for (int k = 0; k < 3; ++k) least[3 * i + k] = 1;
        out[3 * i] = quick_quotient(a[i], b[i], least[3 * i]);
        out[3 * i + 1] = quick_reciprocal(b[i], least[3 * i + 1]);
        out[3 * i + 2] = quick_root(a[i], least[3 * i + 2]);
    }
}
"""


def operands(n: int) -> tuple[Any, Any]:
    """Pairs of all sizes, many with mantissas at the ends of a binade, and the values that are none."""
    rng = np.random.default_rng(5)
    values = rng.integers(0, 1 << 32, (2, n), dtype=np.uint32)
    edge = rng.random((2, n)) < 0.3
    values[edge] = (values[edge] & 0xFF80000F) | rng.choice(np.array([0, 0x7FFFF0], np.uint32), edge.sum())
    middle = rng.random((2, n)) < 0.7
    values[middle] = (values[middle] & 0x807FFFFF) | (rng.integers(87, 167, middle.sum(), dtype=np.uint32) << 23)
    found = values.view(np.float32)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-38, 3e38, 2.0**-78, 2.0**126], np.float32)
    pairs = np.stack(np.meshgrid(special, special)).reshape(2, -1)
    found[:, : pairs.shape[1]] = pairs
    return found[0], found[1]


def test_they_round_correctly_where_they_say_so(tmp_path: Any) -> None:
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    body = re.sub(r'asm\("(?:\{[^;]*; )?(\w+)[^"]*" :[^;]*;', lambda found: INSTRUCTIONS[found[1]], FUNCTIONS)
    (tmp_path / "quick.cpp").write_text(HEAD + body + LOOPS)
    subprocess.run(
        [compiler, "-O1", "-w", "-ffp-contract=off", "-shared", "-fPIC", "-o", "quick.so", "quick.cpp"],
        cwd=tmp_path,
        check=True,
    )
    run = ctypes.CDLL(str(tmp_path / "quick.so")).run
    a, b = operands(400_000)
    with np.errstate(all="ignore"):
        wanted = np.stack([a / b, np.float32(1) / b, np.sqrt(a)], axis=1)
    out, least = np.empty((2, a.size, 3), np.float32)
    for off in (-1, 0, 1):
        run(off, *[ctypes.c_void_p(x.ctypes.data) for x in (a, b, out, least)], ctypes.c_long(a.size))
        used = least >= float.fromhex(ENOUGH.rstrip("f"))
        assert 0.5 < used.mean() < 0.95
        assert (out[used].view(np.uint32) == wanted[used].view(np.uint32)).all()


def same_as_steps(work: Any, *operands: Any) -> None:
    """A kernel's bits are those of its steps."""
    found = []
    for eager in (False, True):
        with da.init(kind="cuda", eager=eager):
            found.append(work(*[da.asarray(x) for x in operands]).get())
    one, two = found
    numbers = ~np.isnan(two)
    assert (numbers == ~np.isnan(one)).all() and (one.view(np.uint32) == two.view(np.uint32))[numbers].all()


@pytest.mark.skipif(not on_gpu(), reason="kernels of GPUs")
def test_kernels_that_have_them_have_the_bits_of_their_steps() -> None:
    def work(x: Any, y: Any) -> Any:
        return np.sqrt(np.abs(x / y)) + 1.0 / (y + 1.0) - np.reciprocal(x) / 0.3

    def others(x: Any) -> Any:
        return np.sqrt(np.sqrt(np.sqrt(x))) * 0.0

    same_as_steps(work, *operands(1 << 17))
    every = np.arange(0x3F800000, 0x40800000, dtype=np.uint32).view(
        np.float32
    )  # mantissas, with an even exponent and an odd
    same_as_steps(lambda x: 1.0 / x + others(x), every)
    same_as_steps(lambda x: np.sqrt(x) + others(x), every)


@pytest.mark.skipif(not on_gpu(), reason="kernels of GPUs")
@pytest.mark.parametrize("scale", [1.0, 60.0, 1e30])
def test_a_softmax_has_the_bits_of_its_steps(scale: float) -> None:
    x = (np.random.default_rng(2).standard_normal((300, 4096)) * scale).astype(np.float32)
    x[5] = -np.inf
    x[6, ::2] = -np.inf
    x[7, 3] = np.nan

    def work(x: Any) -> Any:
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    same_as_steps(work, x)
