"""Modes: names, folds, identities of every dtype, and how the table of homomorphisms is asked."""

from __future__ import annotations

import functools
import itertools
import pickle
import timeit
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from distarray import modes
from distarray.errors import DistArrayError
from distarray.modes import MAX, MIN, PROD, REPLICA, SUM, Mode, preserved
from distarray.modes import ModeOperand as Operand

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [np.dtype(c) for c in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "c8", "c16", "f2")]
DTYPES += [BFLOAT16, np.dtype("longdouble"), np.dtype("clongdouble"), np.dtype(">i4"), np.dtype(">f8")]
PARTIAL = (MIN, MAX, SUM, PROD)


def every_value(dtype: np.dtype[Any]) -> np.ndarray:
    """All values of small dtypes; of others the extremes and random bits."""
    rng = np.random.default_rng(7)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.itemsize <= 2:
        return np.arange(2 ** (8 * dtype.itemsize)).astype(f"u{dtype.itemsize}").view(dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.array([limits.min, limits.min + 1, 0, 1, limits.max - 1, limits.max, *range(2, 99)], dtype)
    real = np.dtype(dtype.type(0).real.dtype)
    limits = np.finfo(real)
    some = [0, limits.smallest_subnormal, limits.tiny, limits.eps, 1, limits.max, np.inf, np.nan]
    part = np.array([*some, *(-x for x in some)], real)
    if dtype.kind == "c":
        out = np.empty((len(part), len(part)), dtype)
        out.real, out.imag = part[:, None], part
        return out.ravel()
    random = rng.integers(256, size=80_000, dtype=np.uint8).view(dtype) if dtype.itemsize <= 8 else part
    return np.concatenate([part, random]).astype(dtype)


def identical(a: np.ndarray, b: np.ndarray) -> bool:
    def same(x: np.ndarray, y: np.ndarray) -> bool:
        if x.dtype.kind in "biu":
            return bool((x == y).all())
        return bool(((np.isnan(x) & np.isnan(y)) | ((x == y) & (np.signbit(x) == np.signbit(y)))).all())

    return same(a.real, b.real) and same(a.imag, b.imag) if a.dtype.kind == "c" else same(a, b)


def test_names() -> None:
    assert [Mode.of(name) for name in ("replica", "Min", "MAX", "sum", "pRoD")] == list(Mode)
    assert Mode.of(None) is REPLICA
    assert all(Mode.of(mode) is mode for mode in Mode)
    assert [repr(mode) for mode in Mode] == ["REPLICA", "MIN", "MAX", "SUM", "PROD"]
    assert f"{SUM}" == str(SUM) == "sum"
    assert pickle.loads(pickle.dumps(SUM)) is SUM
    assert set(modes.__all__) <= set(vars(modes))


@pytest.mark.parametrize("wrong", ["mean", "", 1, np.add, max])
def test_unknown_name(wrong: Any) -> None:
    with pytest.raises(ValueError, match="'replica', 'min', 'max', 'sum', 'prod'") as caught:
        Mode.of(wrong)
    assert isinstance(caught.value, DistArrayError)
    assert repr(wrong) in str(caught.value)


def test_folds() -> None:
    assert [mode.fold for mode in Mode] == [None, np.minimum, np.maximum, np.add, np.multiply]
    assert [mode.idempotent for mode in Mode] == [True, True, True, False, False]


@pytest.mark.parametrize("mode", PARTIAL)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_identity_is_exact(mode: Mode, dtype: np.dtype[Any]) -> None:
    identity = mode.identity(dtype)
    assert isinstance(identity, np.generic)
    assert type(identity) is dtype.type
    assert mode.fold is not None
    xs = every_value(dtype)
    whole = np.full(xs.shape, identity, dtype)
    with np.errstate(all="ignore"):
        if mode.exact_identity(dtype):
            assert identical(mode.fold(whole, xs), xs)
            assert identical(mode.fold(xs, whole), xs)
        else:
            assert (mode, dtype.kind) == (PROD, "c")
            assert not identical(mode.fold(whole, xs), xs)
            finite = xs[np.isfinite(xs)]
            np.testing.assert_array_equal(mode.fold(whole[: len(finite)], finite), finite)


def test_no_identity_of_complex_products_is_exact() -> None:
    parts = [0.0, -0.0, 1.0, -1.0, 5e-324, np.inf, -np.inf, np.nan]
    with np.errstate(all="ignore"):
        for a, b in itertools.product(parts, repeat=2):
            product = np.complex128(complex(a, b)) * np.complex128(complex(np.inf, 0.0))
            assert not (product.real == np.inf and product.imag == 0)


@pytest.mark.parametrize(
    ("mode", "dtype", "value"),
    [
        (SUM, "f4", "-0.0"),
        (SUM, "c8", "-0-0j"),
        (SUM, "?", "False"),
        (PROD, "?", "True"),
        (MIN, "?", "True"),
        (MAX, "?", "False"),
        (MIN, "u1", "255"),
        (MAX, "u1", "0"),
        (MAX, "i8", str(-(2**63))),
        (MIN, "f2", "inf"),
        (MAX, "c16", "-inf-infj"),
        (MIN, BFLOAT16, "inf"),
        (PROD, "c16", "1+0j"),
    ],
)
def test_identities(mode: Mode, dtype: Any, value: str) -> None:
    identity = mode.identity(dtype)
    assert str(identity).strip("()") == value


@pytest.mark.parametrize("dtype", ["O", "U3", "S2", "V4", [("a", "i4")]])
@pytest.mark.parametrize("mode", PARTIAL)
def test_dtypes_without_folds(mode: Mode, dtype: Any) -> None:
    for call in (mode.identity, mode.exact_identity):
        with pytest.raises(TypeError, match=r"cannot be folded.*astype") as caught:
            call(dtype)
        assert isinstance(caught.value, DistArrayError)
    assert preserved("positive", [Operand(mode, np.dtype(dtype))], covered=True) is None


def test_replica_folds_nothing() -> None:
    with pytest.raises(ValueError, match="REPLICA folds nothing"):
        REPLICA.identity("f8")
    with pytest.raises(ValueError, match="REPLICA folds nothing"):
        REPLICA.exact_identity("f8")


def scalar(value: Any) -> Operand:
    return Operand(None, scalar=value)


F4, F8, I4, I8, U1 = (np.dtype(c) for c in ("f4", "f8", "i4", "i8", "u1"))


@pytest.mark.parametrize(
    ("name", "operands", "result"),
    [
        ("add", [Operand(SUM, I8), Operand(SUM, I8)], SUM),
        ("add", [Operand(SUM, F8), Operand(SUM, F8)], SUM),
        ("add", [Operand(SUM, I8), Operand(MAX, I8)], None),
        ("add", [Operand(SUM, I8), Operand(SUM, I4)], None),
        ("add", [Operand(SUM, I8), Operand(REPLICA, I8)], None),
        ("positive", [Operand(REPLICA, I8)], None),
        ("negative", [Operand(MAX, F8)], MIN),
        ("negative", [Operand(MAX, I8)], None),
        ("logical_not", [Operand(MAX, np.dtype(bool))], MIN),
        ("invert", [Operand(MIN, I8)], MAX),
        ("maximum", [Operand(MAX, F8), Operand(MAX, F8)], MAX),
        ("maximum", [Operand(MIN, F8), Operand(MIN, F8)], None),
        ("sqrt", [Operand(MIN, F8)], MIN),
        ("sqrt", [Operand(MAX, F8)], None),
        ("astype:float64", [Operand(MAX, F4)], MAX),
        ("astype:int32", [Operand(SUM, I8)], SUM),
        ("astype:int64", [Operand(SUM, I4)], None),
        ("astype:bfloat16", [Operand(MAX, BFLOAT16)], MAX),
        ("astype:nonsense", [Operand(MAX, F4)], None),
        ("astype:object", [Operand(MAX, F4)], None),
        ("astype:int32", [Operand(SUM, I8), Operand(SUM, I8)], None),
        ("no such function", [Operand(SUM, I8)], None),
        ("add", [], None),
        ("add", [scalar(1), scalar(2)], None),
    ],
)
def test_rows(name: str, operands: list[Operand], result: Mode | None) -> None:
    assert preserved(name, operands) is result


@pytest.mark.parametrize(
    ("mode", "dtype", "name", "value", "result"),
    [
        (SUM, I8, "multiply", -3, SUM),
        (SUM, I8, "multiply", np.int8(-3), SUM),
        (SUM, I8, "multiply", np.array(3), SUM),
        (SUM, I8, "multiply", True, SUM),
        (SUM, I8, "multiply", 1.0, None),
        (SUM, I8, "multiply", 2**64, None),
        (SUM, I4, "multiply", np.int64(2), None),
        (SUM, U1, "multiply", -1, None),
        (SUM, U1, "multiply", 256, None),
        (SUM, F8, "multiply", 2.0, None),
        (MAX, F4, "multiply", 2, MAX),
        (MAX, F4, "multiply", -2, MIN),
        (MAX, F4, "multiply", 0.5, None),
        (MAX, F4, "multiply", np.float64(2), None),
        (MAX, F4, "multiply", 1e300, None),
        (MAX, F4, "multiply", 1j, None),
        (MAX, F4, "divide", 2, None),
        (MAX, F4, "divide", 0.5, MAX),
        (MAX, F4, "divide", -0.5, MIN),
        (MAX, F4, "divide", 0.0, None),
        (MAX, F4, "add", np.inf, None),
        (MAX, F4, "add", np.nan, None),
        (MAX, F4, "add", -0.0, MAX),
        (MAX, BFLOAT16, "add", 1, MAX),
        (MAX, BFLOAT16, "add", ml_dtypes.bfloat16(np.nan), None),
        (MAX, F4, "add", "1", None),
        (MAX, F4, "add", None, None),
        (MAX, F4, "add", object(), None),
        (MAX, F4, "add", np.array([1.0], "f4"), None),
    ],
)
def test_scalars(mode: Mode, dtype: np.dtype[Any], name: str, value: Any, result: Mode | None) -> None:
    assert preserved(name, [Operand(mode, dtype), scalar(value)]) is result
    if name != "divide":
        assert preserved(name, [scalar(value), Operand(mode, dtype)]) is result


def test_equal_scalars_of_other_meaning_are_not_confused() -> None:
    peak = Operand(MAX, F8)
    assert preserved("subtract", [scalar(0.0), peak]) is MIN
    assert preserved("multiply", [peak, scalar(1)]) is preserved("multiply", [peak, scalar(1.0)]) is MAX
    total = Operand(SUM, I8)
    assert preserved("multiply", [total, scalar(1)]) is SUM
    assert preserved("multiply", [total, scalar(1.0)]) is None
    assert preserved("multiply", [total, scalar(True)]) is SUM


@pytest.mark.parametrize(
    ("name", "operands", "result"),
    [
        ("maximum", [Operand(MAX, F8), scalar(0.0)], MAX),
        ("clip", [Operand(MIN, F8), scalar(0.0), scalar(1)], MIN),
        ("less", [Operand(MAX, F8), scalar(1e-6)], MIN),
        ("greater", [Operand(MAX, I8), scalar(3)], MAX),
        ("astype:float64", [Operand(MAX, I8)], MAX),
    ],
)
def test_elements_without_a_holder_are_identities(name: str, operands: list[Operand], result: Mode) -> None:
    assert preserved(name, operands) is None
    assert preserved(name, operands, covered=True) is result


def test_asking_is_cheap() -> None:
    total, three = Operand(SUM, I8), scalar(3)
    for operands in ([total, total], [total, three]):
        timer = timeit.Timer(functools.partial(preserved, "multiply", operands))
        assert min(timer.repeat(5, 200)) / 200 < 1e-4
