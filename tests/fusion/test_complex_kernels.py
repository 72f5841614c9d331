"""Kernels of complex numbers and ``bfloat16``: their sources without a GPU; with one, an expression against its steps to the
bit, special values among them, and against NumPy."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import distarray as da
from distarray.fusion.expr import ASTYPE
from distarray.fusion.gpu_ufuncs import KERNELS
from distarray.fusion.kernels import direct, elementwise, run
from distarray.fusion.kernels.element import element_of
from distarray.fusion.kernels.folds import fold_of
from distarray.fusion.kernels.formulas import formula_of
from distarray.fusion.kernels.pending import WHOLE
from distarray.fusion.program import Instruction, Program

SINGLE, DOUBLE = np.dtype("c8"), np.dtype("c16")
GPU = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


def step(ufunc: Any, args: Any, dtype: Any) -> Instruction:
    kwargs = {"dtype": np.dtype(dtype)} if ufunc is ASTYPE else {}
    return Instruction(ufunc, tuple(args), kwargs, np.dtype(dtype), {}, ("", 0, {}), False, False)


def test_complex_numbers_are_passed_in_their_parts() -> None:
    steps = (step(np.multiply, [("leaf", 0), ("const", 2 - 0.5j)], SINGLE), step(np.square, [("step", 0)], SINGLE))
    bound = element_of(None, Program(steps, ("step", 1), SINGLE, (), "x"), (SINGLE,), SINGLE)
    assert bound is not None and bound.scalars == (2.0, -0.5)
    source, fields = elementwise.source_of(bound.element, elementwise.ElementForm("vv", 0, 2, 256, False))
    assert fields.endswith("ff") and "complex<float>(a.c0_re, a.c0_im)" in source
    assert source.count("{") == source.count("}") and source.count("(") == source.count(")")
    members = re.findall(r"struct Args \{(.*?)\};", source, re.DOTALL)[0]
    assert sum(len(line.split(",")) for line in members.split(";") if line.strip()) == len(fields)


def test_nothing_of_a_complex_number_is_dropped_unasked() -> None:
    assert element_of(None, WHOLE, (DOUBLE,), np.dtype("f8")) is None
    real = Program((step(ASTYPE, [("leaf", 0)], "f8"),), ("step", 0), np.dtype("f8"), (), "x")
    bound = element_of(None, real, (DOUBLE,), np.dtype("f8"))
    assert bound is not None and ".real()" in bound.element.function


def test_functions_that_a_contraction_would_change_are_corrected_or_left() -> None:
    for name in ("multiply", "square", "divide", "reciprocal", "sign"):
        ufunc = getattr(np, name)
        formula = formula_of(None, ufunc, (SINGLE,) * ufunc.nin, SINGLE)
        assert formula is not None and KERNELS[name][2] in formula.code
    for ufunc in (np.power, np.log, np.sin, np.tanh):
        lib = type("Library", (), {"ufunc": np.ufunc})
        assert formula_of(lib, ufunc, (SINGLE,) * ufunc.nin, SINGLE) is None


def test_only_sums_of_complex_numbers_are_folded() -> None:
    assert fold_of("add", SINGLE, SINGLE) is not None
    for name in ("maximum", "multiply", "argmax", "logical_or"):
        assert fold_of(name, SINGLE, np.dtype({"argmax": "i8", "logical_or": "?"}.get(name, "c8"))) is None


# --- on a GPU -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every expression is compiled when it first comes."""
    monkeypatch.setattr(run, "LEAST", 0)
    monkeypatch.setattr(direct, "OFTEN", {True: 1, False: 1})


SPECIAL = [0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, 3e38, 1e-30]


def values(dtype: Any, shape: tuple[int, ...], seed: int, special: bool = False) -> Any:
    rng = np.random.default_rng(seed)
    parts = [rng.standard_normal(shape) * 3 for _ in range(2)]
    if special:
        parts = [np.where(rng.random(shape) < 0.5, rng.choice(SPECIAL, shape), part) for part in parts]
    with np.errstate(all="ignore"):
        if np.dtype(dtype).kind != "c":
            return parts[0].astype(dtype)
        found = np.empty(shape, dtype)
        found.real, found.imag = parts
        return found


UNARY = [np.negative, np.conjugate, np.square, np.reciprocal, np.absolute, np.exp, np.sqrt, np.isfinite, np.sign]
BINARY = [np.add, np.subtract, np.multiply, np.divide, np.equal, np.not_equal, np.logical_and]


@st.composite
def programs(draw: Any) -> Any:
    plan = [
        (draw(st.integers(0, 3)), draw(st.integers(0, 99)), draw(st.integers(0, 99)), draw(st.sampled_from([0.5, 2, 1 - 3j, -0.0])))
        for _ in range(draw(st.integers(2, 6)))
    ]  # fmt: skip

    def ran(a: Any, b: Any) -> Any:
        held = [a, b]
        for kind, first, second, scalar in plan:
            x, y = held[first % len(held)], held[second % len(held)]
            try:
                if kind == 0:
                    held.append(UNARY[second % len(UNARY)](x))
                elif kind == 1:
                    held.append(BINARY[(first + second) % len(BINARY)](x, y))
                elif kind == 2:
                    held.append(BINARY[second % 4](x, scalar))
                else:
                    held.append(np.where(x != y, x, scalar))
            except TypeError:
                continue
        return held[-1]

    return ran


@pytest.mark.cuda
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("devices", [1, 3])
@given(
    programs(), st.sampled_from(["c8", "c16", "bfloat16"]), st.sampled_from(["c8", "c16", "f4", "i4", "bfloat16"]),
    st.booleans(), st.integers(1, 40), st.integers(1, 300),
)  # fmt: skip
@GPU
def test_fused_is_equal_to_the_steps(
    devices: int, program: Any, one: str, two: str, special: bool, m: int, n: int
) -> None:
    half = pytest.importorskip("ml_dtypes").bfloat16
    types = [np.dtype(half if name == "bfloat16" else name) for name in (one, two)]
    a, b = values(types[0], (m, n), 1, special), values(types[1], (m, n), 2, special)
    found = []
    for eager in (False, True):
        with da.init(devices=devices, kind="cuda", eager=eager), np.errstate(all="ignore"):
            x, y = da.asarray(a, layout=da.blocks(0)), da.asarray(b, layout=da.blocks(0))
            for _ in range(2):  # the second time straight to the kernel
                got = program(x, y).get()
            found.append(got)
    assert found[0].dtype == found[1].dtype
    for fused, steps in zip(_parts(found[0]), _parts(found[1]), strict=True):
        np.testing.assert_array_equal(fused, steps)
        if fused.dtype.kind == "f":
            assert (np.isnan(fused) | (np.signbit(fused) == np.signbit(steps))).all()


def _parts(a: Any) -> list[Any]:
    if a.dtype.kind == "c":
        return [a.real, a.imag]
    return [a.astype("f4") if a.dtype.name == "bfloat16" else a]


@pytest.mark.cuda
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("dtype", ["c8", "c16"])
@pytest.mark.parametrize("devices", [1, 2])
def test_complex_chains_and_sums_are_numpys(devices: int, dtype: str) -> None:
    a, b = values(dtype, (300, 257), 1), values(dtype, (300, 257), 2)
    tight = {"rtol": 64 * float(np.finfo(dtype).eps), "atol": 64 * float(np.finfo(dtype).eps)}
    with da.init(devices=devices, kind="cuda"):
        x, y = da.asarray(a, layout=da.blocks(0)), da.asarray(b, layout=da.blocks(0))
        for number in (2.0, 1 - 2j, 3):
            for _ in range(3):
                found = ((x * y + x) * number - y.conj() / (1.5 + 0.5j)).get()
                np.testing.assert_allclose(found, (a * b + a) * number - b.conj() / a.dtype.type(1.5 + 0.5j), **tight)
        np.testing.assert_allclose((x * y).sum().get(), (a * b).sum(), rtol=1e-4)
        np.testing.assert_allclose((x * y).sum(axis=0).get(), (a * b).sum(axis=0), rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose((x * y).sum(axis=1).get(), (a * b).sum(axis=1), rtol=1e-4, atol=1e-3)
        np.testing.assert_allclose(abs(x * y).max(axis=1).get(), abs(a * b).max(axis=1), rtol=1e-5)
        np.testing.assert_allclose((x - y)[:, :9].prod(axis=1).get(), (a - b)[:, :9].prod(axis=1), rtol=1e-3, atol=1e-3)
        x[1:-1] = (x[:-2] + x[2:]) * 0.5j
        a[1:-1] = (a[:-2] + a[2:]) * a.dtype.type(0.5j)
        np.testing.assert_allclose(x.get(), a, **tight)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
            np.testing.assert_array_equal(x.astype("f4").get(), x.get().real.astype("f4"))
