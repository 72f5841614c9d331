"""Proves the homomorphism table of ``distarray.modes`` by brute force over extreme values.

Every claim of ``preserved`` is executed: f(fold(xs)) must equal fold(f(xs)) bit for bit (NaN payload aside) for zero
(unless the map must cover), one, two and three partial values, drawn from values where arithmetic breaks. Folds of
floats also run with each way of choosing between 0.0 and -0.0, since NumPy and GPUs choose differently.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from conformance.launching import DEEP
from distarray import modes
from distarray.modes import CASTS, MAX, MIN, PROD, REPLICA, ROWS, SUM, Mode, preserved
from distarray.modes import ModeOperand as Operand

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
INTEGERS = [np.dtype(c + n) for c in "iu" for n in "1248"]
FLOATS = [np.dtype("f2"), BFLOAT16, np.dtype("f4"), np.dtype("f8")]
DTYPES = [np.dtype("?"), *INTEGERS, *FLOATS, np.dtype("c8"), np.dtype("c16")]
PARTIAL = (MIN, MAX, SUM, PROD)
UFUNCS = {u.__name__: u for u in vars(np).values() if isinstance(u, np.ufunc) and u.nout == 1 and u.signature is None}
UFUNCS["clip"] = np._core.umath.clip
CASTS_TO = {f"astype:{dtype.name}": dtype for dtype in DTYPES}
CAP = 16_000 if DEEP else 4_000
"""Tuples of partial values tried at most in one case; fewer are tried exhaustively."""

by_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)


def is_float(dtype: np.dtype[Any]) -> bool:
    return dtype in FLOATS


@functools.cache
def values(dtype: np.dtype[Any]) -> np.ndarray:
    """Values of `dtype` at which arithmetic breaks, the identities of all folds among them."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        numbers = {low, low + 1, -3, -2, -1, 0, 1, 2, 3, 7, high // 2, high // 2 + 1, high - 1, high}
        return np.array([n for n in sorted(numbers) if low <= n <= high], dtype)
    if dtype.kind == "c":
        real = np.array([0.0, -0.0, 1, -2, np.inf, -np.inf, np.nan, np.finfo(dtype).max], np.finfo(dtype).dtype)
        out = np.empty((len(real), len(real)), dtype)
        out.real, out.imag = real[:, None], real
        return out.ravel()
    limits = ml_dtypes.finfo(dtype)
    whole = 2.0 ** (limits.nmant + 1)
    positive = [0, limits.smallest_subnormal, limits.tiny, 0.3, 0.5, 1, 1 + limits.eps, 2, whole, whole - 1, limits.max]
    numbers = np.array([*(float(x) for x in positive), np.inf])
    return np.concatenate([numbers, -numbers, [np.nan]]).astype(dtype)


@functools.cache
def scalars(dtype: np.dtype[Any]) -> tuple[Any, ...]:
    """Python numbers, scalars of `dtype` and of other dtypes."""
    plain = [True, 0, -1, 1, 2, 3, -2, 7, 63, 64, 200, 2**31, 2**70, 0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, 2.0, 1e300]
    plain += [1e-300, np.inf, -np.inf, np.nan, 1j, 1 + 0j]
    others = [np.int8(2), np.int64(3), np.uint64(1), np.float32(0.5), np.float64(2), np.complex64(1), np.array(2)]
    own = values(dtype) if dtype.kind != "c" else values(dtype)[::7]
    return (*plain, *others, *(x[()] for x in own))


def partials(dtype: np.dtype[Any], operands: int, k: int) -> np.ndarray:
    """Partial values, shape (operands, k, cases): every combination, or `CAP` random ones where there are more."""
    pool = values(dtype)
    n = operands * k
    if len(pool) ** n <= CAP:
        index = np.indices((len(pool),) * n).reshape(n, -1)
    else:
        index = np.random.default_rng(k).integers(len(pool), size=(n, CAP))
        zeros = np.flatnonzero(pool == 0)  # a third of the cases are zeros and few others: signs of zero need company
        few = np.concatenate([np.repeat(zeros, 3), np.arange(len(pool))])
        index[:, : CAP // 3] = few[np.random.default_rng(k).integers(len(few), size=(n, CAP // 3))]
    return pool[index].reshape(operands, k, -1)


def fold(mode: Mode, xs: np.ndarray, tie: str = "numpy") -> np.ndarray:
    """Fold axis 0 in order. `tie`: which of two equal values a MIN or MAX returns, which only zeros can tell."""
    assert mode.fold is not None
    if len(xs) == 0:
        return np.full(xs.shape[1:], mode.unheld(xs.dtype))
    total = xs[0]
    for x in xs[1:]:
        result = mode.fold(total, x)
        if tie != "numpy" and mode in (MIN, MAX) and is_float(xs.dtype):
            second = {"first": False, "second": True, "ordered": np.signbit(total) == (mode is MAX)}[tie]
            result = np.where(total == x, np.where(second, x, total), result)
        total = result
    return total


def parts(x: np.ndarray) -> np.ndarray:
    return np.stack([x.real, x.imag]) if x.dtype.kind == "c" else x[None]


def identical(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Element by element: same bits, but for the payload of NaN."""
    assert a.dtype == b.dtype, (a.dtype, b.dtype)
    a, b = parts(a), parts(b)
    if a.dtype.kind in "biu":
        return (a == b).all(0)
    return ((np.isnan(a) & np.isnan(b)) | ((a == b) & (np.signbit(a) == np.signbit(b)))).all(0)


def up_to_sign_of_zero(a: np.ndarray, b: np.ndarray, xs: np.ndarray, constants: list[Any]) -> np.ndarray:
    """Identical, or zeros of two signs where the operands hold zeros of two signs."""
    if not is_float(a.dtype):
        return identical(a, b)
    flat = xs.reshape(-1, xs.shape[-1])
    flat = np.concatenate([flat, *(np.full((1, flat.shape[1]), c, xs.dtype) for c in constants)])
    both = ((flat == 0) & np.signbit(flat)).any(0) & ((flat == 0) & ~np.signbit(flat)).any(0)
    return identical(a, b) | (both & (a == 0) & (b == 0))


def up_to_rounding(a: np.ndarray, b: np.ndarray, xs: np.ndarray) -> np.ndarray:
    """Few ulps of the sum of magnitudes apart; identical for zeros, infinities and NaN; unless a partial overflows."""
    eps = float(ml_dtypes.finfo(a.dtype).eps)
    good = np.ones(a.shape, bool)
    for x, y, operands in zip(parts(a), parts(b), parts(xs)):
        wide = operands.reshape(-1, xs.shape[-1]).astype(np.longdouble)
        size = np.abs(np.where(np.isfinite(wide), wide, 0)).sum(0)
        near = np.abs(x.astype(np.longdouble) - y.astype(np.longdouble)) <= 8 * eps * size
        special = ~np.isfinite(wide).all(0) | (wide == 0).all(0)
        overflows = size > float(ml_dtypes.finfo(a.dtype).max)
        good &= overflows | np.where(special, identical(x, y), near)
    return good


def counterexample(
    f: Callable[..., np.ndarray],
    dtype: np.dtype[Any],
    takes: str,
    constants: list[Any],
    mode: Mode,
    result: Mode,
    *,
    covered: bool,
    differs: str = "",
) -> str | None:
    """Return where f(fold(xs)) and fold(f(xs)) differ, or None. An exception of f is its own counterexample."""
    rest = iter(constants)
    slots = [next(rest) if t == "s" else None for t in takes]

    def call(arrays: np.ndarray) -> np.ndarray:
        given = iter(arrays)
        return np.asarray(f(*[next(given) if t == "x" else c for t, c in zip(takes, slots)]))

    rules = ["numpy", "first", "second", "ordered"] if is_float(dtype) and mode in (MIN, MAX) else ["numpy"]
    with np.errstate(all="ignore"):
        for k in range(1 if covered else 0, 4):
            xs = partials(dtype, takes.count("x"), k) if k else np.empty((takes.count("x"), 0, 1), dtype)
            try:
                applied = np.stack([call(xs[:, i]) for i in range(k)]) if k else None
                for rule in rules:
                    first = call(np.stack([fold(mode, x, rule) for x in xs]))
                    last = fold(result, np.empty((0, 1), first.dtype) if applied is None else applied, rule)
                    if differs == "rounding":
                        good = up_to_rounding(first, last, xs)
                    elif differs:
                        good = up_to_sign_of_zero(first, last, xs, constants)
                    else:
                        good = identical(first, last)
                    if not good.all():
                        bad = int(np.argmin(good))
                        return f"{xs[:, :, bad].tolist()} {constants}: {first[bad]!r} folded first, {last[bad]!r} last"
            except (TypeError, ValueError, OverflowError) as error:
                return f"{type(error).__name__}: {error}"
    return None


def function(name: str) -> Callable[..., np.ndarray]:
    if name in CASTS_TO:
        return lambda x: x.astype(CASTS_TO[name])
    return UFUNCS[name]


def questions(dtype: np.dtype[Any]) -> Iterator[tuple[str, str, list[Any]]]:
    """Every (name, operands, scalars) worth asking the table about."""
    for name in CASTS_TO:
        yield name, "x", []
    for name, ufunc in UFUNCS.items():
        if ufunc.nin == 1:
            yield name, "x", []
        elif ufunc.nin == 2:
            yield name, "xx", []
            for takes, c in itertools.product(("xs", "sx"), scalars(dtype)):
                yield name, takes, [c]
        else:
            yield name, "xxx", []
            for low, high in itertools.product(values(dtype)[::3], repeat=2):
                yield name, "xss", [low[()], high[()]]


def ask(name: str, takes: str, constants: list[Any], mode: Mode, dtype: np.dtype[Any], covered: bool) -> Mode | None:
    rest = iter(constants)
    operands = [Operand(mode, dtype) if t == "x" else Operand(None, scalar=next(rest)) for t in takes]
    return preserved(name, operands, covered=covered)


def differs_of(name: str, takes: str, mode: Mode, dtype: np.dtype[Any]) -> str:
    if name in CASTS_TO:
        return "sign of zero" if is_float(dtype) and CASTS_TO[name] != dtype else ""
    rows = modes._INDEX.get((name, takes, mode), ())
    return next((row.differs for row, _ in rows if row.allows(dtype)), "")


@by_dtype
def test_every_claim_holds(dtype: np.dtype[Any]) -> None:
    wrong = []
    claims = 0
    for (name, takes, constants), mode in itertools.product(questions(dtype), PARTIAL):
        anywhere = ask(name, takes, constants, mode, dtype, False)
        result = ask(name, takes, constants, mode, dtype, True)
        assert anywhere in (None, result), (name, mode)
        if result is None:
            continue
        claims += 1
        found = counterexample(
            function(name), dtype, takes, constants, mode, result, covered=anywhere is None,
            differs=differs_of(name, takes, mode, dtype),
        )  # fmt: skip
        if found:
            wrong.append(f"{name}({takes}) on {dtype} {mode!r} is not {result!r}: {found}")
    assert not wrong, "\n".join(wrong[:20])
    assert claims


WRONG_CLAIMS = [
    ("negative", "x", [], "i1", MAX, MIN),
    ("sqrt", "x", [], "f4", MAX, MAX),
    ("ceil", "x", [], "f4", MAX, MAX),
    ("floor", "x", [], "f8", MIN, MIN),
    ("rint", "x", [], "f8", MAX, MAX),
    ("add", "xs", [np.inf], "f8", MAX, MAX),
    ("add", "xs", [1], "i8", MAX, MAX),
    ("add", "xs", [1], "i8", SUM, SUM),
    ("multiply", "xs", [0.5], "f8", MAX, MAX),
    ("multiply", "xs", [0.0], "f8", MAX, MAX),
    ("multiply", "xs", [np.inf], "f8", SUM, SUM),
    ("multiply", "xs", [-1.0], "f8", SUM, SUM),
    ("multiply", "xs", [2.0], "f8", SUM, SUM),
    ("multiply", "xs", [0.5], "f8", SUM, SUM),
    ("subtract", "xx", [], "f8", SUM, SUM),
    ("negative", "x", [], "f8", SUM, SUM),
    ("multiply", "xx", [], "f8", PROD, PROD),
    ("square", "x", [], "f8", PROD, PROD),
    ("absolute", "x", [], "i4", PROD, PROD),
    ("add", "xx", [], "f8", MAX, MAX),
    ("conjugate", "x", [], "c16", SUM, SUM),
    ("greater", "xs", [1.0], "f8", MAX, MAX),
    ("right_shift", "xs", [1], "i4", SUM, SUM),
    ("astype:int64", "x", [], "i4", SUM, SUM),
    ("astype:int32", "x", [], "i8", MAX, MAX),
    ("astype:float32", "x", [], "f8", MAX, MAX),
    ("astype:float64", "x", [], "f4", SUM, SUM),
    ("astype:bool", "x", [], "i4", MAX, MAX),
    ("maximum", "xx", [], "c16", MAX, MAX),
]


@pytest.mark.parametrize(("name", "takes", "constants", "dtype", "mode", "result"), WRONG_CLAIMS)
def test_the_search_finds_what_intuition_misses(
    name: str, takes: str, constants: list[Any], dtype: str, mode: Mode, result: Mode
) -> None:
    where = np.dtype(dtype)
    assert ask(name, takes, constants, mode, where, True) is None
    assert counterexample(function(name), where, takes, constants, mode, result, covered=True) is not None


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{'/'.join(row.names)}-{','.join(row.takes)}")
def test_every_part_of_a_row_is_reached(row: modes.Row) -> None:
    assert row.scalar in modes._SCALARS
    for name, takes, (mode, result), kind in itertools.product(row.names, row.takes, row.modes, row.kinds):
        assert name in UFUNCS
        mine = [dtype for dtype in DTYPES if modes._kind(dtype) == kind and row.allows(dtype)]
        for dtype in mine:
            pool = scalars(dtype) if takes.count("s") == 1 else [x[()] for x in values(dtype)]
            choices = ([c] * takes.count("s") for c in pool) if "s" in takes else iter([[]])
            assert any(ask(name, takes, cs, mode, dtype, True) is result for cs in choices), (name, takes, dtype)


@pytest.mark.parametrize("cast", CASTS, ids=lambda cast: f"{cast.source}-{cast.target}-{cast.sizes}")
def test_every_cast_is_reached(cast: modes.Cast) -> None:
    fits = modes._SIZES[cast.sizes]
    pairs = [
        (a, b)
        for a, b in itertools.product(DTYPES, repeat=2)
        if modes._kind(a) in cast.source and modes._kind(b) in cast.target and fits(a, b)
    ]
    assert pairs
    for mode, (a, b) in itertools.product(cast.modes, pairs):
        assert preserved(f"astype:{b.name}", [Operand(mode, a)], covered=True) is mode


def test_operands_that_differ_are_declined() -> None:
    binary = [name for name, ufunc in UFUNCS.items() if ufunc.nin == 2]
    for name, (m, n) in itertools.product(binary, itertools.permutations(Mode, 2)):
        assert all(preserved(name, [Operand(m, d), Operand(n, d)], covered=True) is None for d in DTYPES)
    for name, mode, (a, b) in itertools.product(binary, PARTIAL, itertools.permutations(DTYPES, 2)):
        assert preserved(name, [Operand(mode, a), Operand(mode, b)], covered=True) is None
    for name, ufunc in UFUNCS.items():
        assert all(preserved(name, [Operand(REPLICA, d)] * ufunc.nin, covered=True) is None for d in DTYPES)
