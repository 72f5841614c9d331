"""The distributed factorizations: bytes moved, memory, and backward errors beside LAPACK's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import distarray as da
from conformance.contexts import kind, spread

P, N, PANEL = 4, 192, 12
LARGE = 1024  # where a panel and a tile are small beside a device's share
DTYPES = ["float64", "float32", "complex128", "complex64"]


@pytest.fixture
def four() -> Iterator[Any]:
    with da.init(devices=P, kind=kind()) as context, spread(context, PANEL):
        yield context


def random(*shape: int, dtype: Any = "float64") -> Any:
    rng = np.random.default_rng(1)
    a = rng.standard_normal(shape)
    return (a + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else a).astype(dtype)


def definite(n: int, dtype: Any = "float64") -> Any:
    a = random(n, n, dtype=dtype)
    return (a @ a.conj().T + n * np.eye(n)).astype(dtype)


def elements(log: Any, itemsize: int = 8) -> float:
    return log.bytes_moved / itemsize


DEALT = N * N * (P - 1) / P  # rows become panels of columns, or the other way


@pytest.mark.parametrize("f", [np.linalg.det, np.linalg.slogdet])
def test_lu_moves_its_panels_once(four, f):
    x = da.asarray(random(N, N), layout=da.blocks(0))
    with da.ledger() as log:
        f(x)
    textbook = N * N / 2 * (P - 1)
    assert elements(log) <= DEALT + 1.2 * textbook


def test_cholesky_moves_its_panels_once(four):
    x = da.asarray(definite(N), layout=da.blocks(0))
    with da.ledger() as log:
        np.linalg.cholesky(x)
    assert elements(log) <= 2 * DEALT + 1.2 * N * N / 2 * (P - 1)


def test_solving_for_one_vector_moves_little_more(four):
    x = da.asarray(random(N, N), layout=da.blocks(0))
    with da.ledger() as log:
        np.linalg.solve(x, np.ones(N))
    assert elements(log) <= DEALT + 1.2 * N * N / 2 * (P - 1) + 1.2 * N * N / 2


@pytest.mark.parametrize(("mode", "passes"), [("r", 1), ("reduced", 2)])
def test_tsqr_sends_triangles_along_a_tree(four, mode, passes):
    n = 16
    x = da.asarray(random(2000, n), layout=da.blocks(0))
    with da.ledger() as log:
        np.linalg.qr(x, mode)
    sent: Counter[int] = Counter()
    for move in log.moves:
        sent[move.source] += move.nbytes // 8
    result = n * n * (P - 1)  # R, from the root to every device, as small arrays are laid out
    assert max(sent.values()) <= passes * n * n * np.log2(P) + result
    assert sum(sent.values()) <= passes * n * n * (P - 1) + result


def test_qr_moves_its_panels_once_each_way(four):
    x = da.asarray(random(N, N), layout=da.blocks(0))
    with da.ledger() as log:
        np.linalg.qr(x)
    assert elements(log) <= 3 * DEALT + 2 * 1.2 * N * N / 2 * (P - 1) + 2 * N * PANEL * P


#: name -> (operand, function, matrices as large as the operand among operands and results)
BOUNDED: dict[str, tuple[Any, Callable[[Any], Any], float]] = {
    "cholesky": (definite(N), np.linalg.cholesky, 2),
    "upper cholesky": (definite(N), lambda x: np.linalg.cholesky(x, upper=True), 2),
    "det": (random(LARGE, LARGE), np.linalg.det, 1),
    "solve": (random(LARGE, LARGE), lambda x: np.linalg.solve(x, np.ones(LARGE)), 1),
    "inv": (random(N, N), np.linalg.inv, 2),
    "qr": (random(N, N), np.linalg.qr, 3),
    "r": (random(N, N), lambda x: np.linalg.qr(x, "r"), 2),
    "tall qr": (random(40 * N, N // 4), np.linalg.qr, 2),
    "tall svd": (random(40 * N, N // 4), lambda x: np.linalg.svd(x, full_matrices=False), 2),
    "svd": (random(N, N), np.linalg.svd, 3),
    "eigh": (definite(N), np.linalg.eigh, 2),
    "upper eigh": (definite(N), lambda x: np.linalg.eigh(x, "U"), 2),
    "eigvalsh": (definite(N), np.linalg.eigvalsh, 1),
    "svdvals": (random(N, N), np.linalg.svdvals, 1),
    "complex svdvals": (random(N, 2 * N, dtype="complex64"), np.linalg.svdvals, 1),
    "matrix_rank": (random(N, N), np.linalg.matrix_rank, 1),
    "cond": (random(N, N), np.linalg.cond, 1),
    "nuclear norm": (random(N, N), lambda x: np.linalg.norm(x, "nuc"), 1),
    "pinv": (random(N, N), np.linalg.pinv, 2),
    "complex pinv": (random(N, N, dtype="complex64"), np.linalg.pinv, 2),
    "lstsq": (random(N, N), lambda x: np.linalg.lstsq(x, x), 3),
    "lstsq of a vector": (random(N, N), lambda x: np.linalg.lstsq(x, np.ones(N)), 4.3 / 2.5),
    "matrix_power": (random(N, N) / 20, lambda x: np.linalg.matrix_power(x, 7), 2),
}
"""What a device holds, at most two and a half times its share of; of `lstsq` of a vector 4.3 times, as its docstring says."""


@pytest.mark.parametrize("name", BOUNDED)
def test_memory_is_bounded_on_each_device(name):
    operand, f, matrices = BOUNDED[name]
    share = operand.nbytes / P
    with da.init(devices=P, kind="host", memory_limit=int(2.5 * matrices * share)) as context:
        context.WHOLE, context.PANEL = 1, len(operand) // 32 if operand.shape == (LARGE, LARGE) else PANEL
        x = da.asarray(operand, layout=da.blocks(0))
        found = f(x)
        del found


#: what LU does beside a matrix that is held, in which dtype
FILLED: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "slogdet": ("complex64", np.linalg.slogdet),
    "solve": ("float64", lambda x: np.linalg.solve(x, random(FULL, 3))),
}
FULL = 384


@pytest.mark.parametrize("name", FILLED)
def test_lu_of_a_matrix_that_fills_the_devices_for_the_most_part(name):
    """60 % of all devices' limits: there is no room for a copy."""
    dtype, f = FILLED[name]
    a = random(FULL, FULL, dtype=dtype) / 16
    with da.init(devices=P, kind="host", memory_limit=int(a.nbytes / P / 0.6)) as context:
        context.WHOLE = 1
        x = da.asarray(a, layout=da.blocks(0))
        with da.ledger() as log:
            found = f(x)
        assert log.bytes_moved <= (24 if "solve" in name else 12) * a.nbytes / 2 * (P - 1)  # of a dozen strips
        for got, ref in zip(*(v if isinstance(v, tuple) else (v,) for v in (found, f(a)))):
            loose = 1e4 * np.finfo(dtype).eps
            np.testing.assert_allclose(np.asarray(got), ref, rtol=loose, atol=loose * np.abs(ref).max())


def graded(n: int, dtype: Any) -> Any:
    return random(n, n, dtype=dtype) * np.logspace(0, -12, n, dtype=np.dtype(dtype).type(0).real.dtype)[:, None]


def valued(n: int, dtype: Any, values: Any) -> Any:
    q, r = (np.linalg.qr(random(n, n, dtype="complex128") + i)[0] for i in range(2))
    if np.dtype(dtype).kind != "c":
        q, r = (np.linalg.qr(np.random.default_rng(i).standard_normal((n, n)))[0] for i in range(2))
    return ((q * values) @ r).astype(dtype)


def matrices(dtype: Any, n: int = 60) -> dict[str, Any]:
    return {
        "random": random(n, n, dtype=dtype),
        "graded": graded(n, dtype),
        "deficient": valued(n, dtype, np.where(np.arange(n) < n // 3, 1.0, 0.0)),
        "ill": valued(n, dtype, np.logspace(0, -14, n)),
        "clustered": valued(n, dtype, np.where(np.arange(n) < n // 2, 1.0, 1e-3)),
        "triangle": np.triu(np.ones((n, n), dtype)),
        "zero": np.zeros((n, n), dtype),
    }


def h(a: Any) -> Any:
    return a.conj().T


def close(got: Any, ref: Any, scale: Any, dtype: Any) -> None:
    """At most ten times LAPACK's error in the same precision, or of what is a unit of rounding in each column."""
    unit = float(np.finfo(dtype).eps) * max(float(np.linalg.norm(scale)), 1e-300)
    assert np.linalg.norm(got) <= 10 * max(float(np.linalg.norm(ref)), 2 * unit)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", list(matrices("float64", 6)))
def test_backward_errors(four, dtype, kind):
    a = matrices(dtype)[kind]
    wide = np.dtype(dtype)
    x = da.asarray(a, layout=da.blocks(0))
    n = len(a)
    one = np.eye(n)
    q, r = (np.asarray(v) for v in np.linalg.qr(x))
    p, t = scipy.linalg.qr(a)
    close(q @ r - a, p @ t - a, a, wide)
    close(h(q) @ q - one, h(p) @ p - one, one, wide)
    u, s, vh = (np.asarray(v) for v in np.linalg.svd(x))
    w, z, yh = scipy.linalg.svd(a)
    close((u * s) @ vh - a, (w * z) @ yh - a, a, wide)
    for values in (s, np.asarray(np.linalg.svdvals(x))):
        assert np.abs(values - z).max() <= 10 * np.finfo(wide).eps * np.sqrt(n) * z.max()
    close(h(u) @ u - one, h(w) @ w - one, one, wide)
    close(vh @ h(vh) - one, yh @ h(yh) - one, one, wide)
    b = a + h(a)
    values, vectors = (np.asarray(v) for v in np.linalg.eigh(da.asarray(b, layout=da.blocks(1))))
    w, z = scipy.linalg.eigh(b, driver="evd")
    close(b @ vectors - vectors * values, b @ z - z * w, b, wide)
    close(h(vectors) @ vectors - one, h(z) @ z - one, one, wide)
    if kind in ("random", "graded", "ill"):
        rhs = random(n, 3, dtype=dtype)
        got, ref = np.asarray(np.linalg.solve(x, rhs)), np.linalg.solve(a, rhs)
        backward = np.linalg.norm(a @ got - rhs) / (np.linalg.norm(a) * np.linalg.norm(got))
        known = np.linalg.norm(a @ ref - rhs) / (np.linalg.norm(a) * np.linalg.norm(ref))
        assert backward <= 10 * max(known, float(np.finfo(wide).eps))
        c = (b @ h(b) / np.linalg.norm(b @ h(b)) + np.finfo(wide).eps * 100 * one).astype(dtype)
        low, known_low = np.asarray(np.linalg.cholesky(da.asarray(c, layout=da.blocks(0)))), np.linalg.cholesky(c)
        close(low @ h(low) - c, known_low @ h(known_low) - c, c, wide)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", list(matrices("float64", 6)))
def test_backward_errors_of_least_squares(four, dtype, kind):
    """The error that the normal equations are left with, and that of the pseudo-inverse, of what counts as not zero."""
    shape = [(60, 60), (60, 40), (40, 60)][(DTYPES.index(dtype) + len(kind)) % 3]
    a = matrices(dtype)[kind][: shape[0], : shape[1]]
    b = random(shape[0], 2, dtype=dtype)
    x, y = da.asarray(a, layout=da.blocks(0)), da.asarray(b, layout=da.blocks(0))
    limit, eps = (1e-8, 2.3e-16) if np.finfo(dtype).eps < 1e-10 else (1e-4, 1.2e-7)
    u, s, vh = np.linalg.svd(a.astype("complex128"), full_matrices=False)
    kept = (u * np.where(s > limit * s.max(), s, 0)) @ vh
    whole = float(np.linalg.norm(a))

    def left(solution: Any) -> float:
        rest = np.linalg.norm(h(kept) @ (b - a.astype("complex128") @ solution))
        size = whole * float(np.linalg.norm(solution)) + float(np.linalg.norm(b))
        return float(rest) / max(whole * size, 1e-300)

    got, ref = (
        np.linalg.lstsq(x, y, limit),
        scipy.linalg.lstsq(a, b, limit),
    )  # which stays in single precision, as LAPACK
    assert got[2] == ref[2]
    assert left(np.asarray(got[0])) <= 10 * max(left(ref[0]), eps)
    wide, inverses = a.astype("complex128"), [np.asarray(np.linalg.pinv(x, limit)), scipy.linalg.pinv(a, rtol=limit)]
    unit = eps * whole * float(np.linalg.norm(inverses[1]))
    back, known = (np.linalg.norm(wide @ p @ wide - kept) for p in inverses)
    assert back <= 10 * max(known, unit * whole)
    for product in (lambda p: wide @ p, lambda p: p @ wide):  # Hermitian as far as the matrix's condition lets them be
        mine, known = (np.linalg.norm(h(product(p)) - product(p)) for p in inverses)
        assert mine <= 10 * max(known, unit * np.sqrt(len(a)))


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("where", [0, 3, 5])
def test_nan_stay_in_a_cholesky_factor_and_negative_pivots_raise(where: int, upper: bool) -> None:
    a = 4 * np.eye(6)
    a[5, where] = a[where, 5] = np.nan
    with da.init(devices=3, kind="host") as context, spread(context, 2):
        found = np.linalg.cholesky(da.asarray(a, layout=da.blocks(0)), upper=upper)
        np.testing.assert_array_equal(found.get(), np.linalg.cholesky(a, upper=upper))
        a = 4 * np.eye(6)
        a[where, where] = -1
        with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
            np.linalg.cholesky(da.asarray(a, layout=da.blocks(0)), upper=upper)


@pytest.mark.parametrize("value", [np.inf, np.nan])
@pytest.mark.parametrize("shape", [(6, 2), (2, 6), (6, 6)])
def test_least_squares_of_what_has_no_singular_values_raise(shape: tuple[int, int], value: float) -> None:
    a = np.full(shape, value)
    with da.init(devices=3, kind="host", minimum_chunk=1), pytest.raises(np.linalg.LinAlgError, match="Linear Least"):
        np.linalg.lstsq(da.asarray(a, layout=da.blocks(0)), np.ones(shape[0]))


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
@pytest.mark.parametrize("shape", [(12, 12), (40, 4), (4, 40)])
def test_singular_values_of_infinities_are_nan_and_of_nan_raise(shape: tuple[int, int], dtype: str) -> None:
    """As LAPACK says where it comes to an end; with vectors it may not."""
    a = random(*shape, dtype=dtype)
    a[1, 2] = np.inf
    with da.init(devices=3, kind="host", minimum_chunk=1) as context:
        for is_spread in (False, True):
            with spread(context, 2) if is_spread else nullcontext():
                x = da.asarray(a, layout=da.blocks(0))
                for part in (*np.linalg.svd(x), np.linalg.svdvals(x), np.linalg.pinv(x), np.linalg.norm(x, "nuc")):
                    assert np.isnan(part).all()
                assert np.linalg.cond(x) == np.inf
                assert np.linalg.matrix_rank(x) == 0
                x[2, 2] = np.nan
                for f in (np.linalg.svd, np.linalg.svdvals, np.linalg.pinv, np.linalg.cond, np.linalg.matrix_rank):
                    with pytest.raises(np.linalg.LinAlgError, match="did not converge"):
                        f(x)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_determinants_of_what_is_not_finite_have_a_sign(value: float) -> None:
    a = random(12, 12)
    a[3, 4] = value
    with da.init(devices=3, kind="host", minimum_chunk=1) as context, spread(context, 2):
        x = da.asarray(a, layout=da.blocks(0))
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(np.array([v.get() for v in np.linalg.slogdet(x)]), np.linalg.slogdet(a))


@pytest.mark.parametrize("dtype", ["float64", "complex64"])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_eigenvalues_of_what_is_not_finite_are_nan_with_vectors_and_raise_without(value: float, dtype: str) -> None:
    """As LAPACK's of more than 25 rows."""
    a = random(30, 30, dtype=dtype)
    a = a + h(a)
    with da.init(devices=3, kind="host", minimum_chunk=1) as context:
        for is_spread in (False, True):
            for place in ((2, 2), (5, 3)):
                b = a.copy()
                b[place] = value
                with spread(context, 2) if is_spread else nullcontext():
                    x = da.asarray(b, layout=da.blocks(0))
                    assert np.isnan(np.linalg.eigh(x).eigenvalues).any()
                    assert np.isnan(np.linalg.svd(x, hermitian=True).S).any()
                    for f in (np.linalg.eigvalsh, lambda x: np.linalg.matrix_rank(x, hermitian=True)):
                        with pytest.raises(np.linalg.LinAlgError, match="did not converge"):
                            f(x)
                    other = np.linalg.eigh(x, "U")  # whose triangle has none
                    if place != (2, 2):
                        np.testing.assert_allclose(other.eigenvalues, np.linalg.eigvalsh(b, "U"), rtol=0, atol=1e-4)


@pytest.mark.parametrize("junk", [np.nan, np.inf, 1e300])
@pytest.mark.parametrize("factor", [1e-303, 1, 1e303])
def test_eigenvalues_do_not_depend_on_the_other_triangle(four: Any, factor: float, junk: float) -> None:
    b = random(30, 30, dtype="complex128")
    b = (b + h(b)) * factor
    values = np.linalg.eigvalsh(b) / factor
    for uplo in "LU":
        a = np.where(np.tri(30, dtype=bool) if uplo == "L" else ~np.tri(30, k=-1, dtype=bool), b, junk)
        np.fill_diagonal(a.imag, junk)
        x = da.asarray(a, layout=da.blocks(0))
        for found in (np.linalg.eigh(x, uplo).eigenvalues, np.linalg.eigvalsh(x, uplo)):
            np.testing.assert_allclose(found / factor, values, rtol=0, atol=1e-12)


@pytest.mark.parametrize("factor", [1e-300, 1e-200, 1e-90, 1e90, 1e200, 1e300])
@pytest.mark.parametrize("dtype", ["float64", "complex64"])
def test_numbers_whose_squares_are_lost_or_infinite_are_scaled(four: Any, factor: float, dtype: str) -> None:
    if dtype == "complex64":
        factor = factor ** (1 / 9)
    a = (random(40, 40, dtype="complex128" if dtype[0] == "c" else dtype) * factor).astype(dtype)
    b, near = a + h(a), 1e3 * float(np.finfo(dtype).eps)
    x, y = da.asarray(a, layout=da.blocks(0)), da.asarray(b, layout=da.blocks(0))
    u, s, vh = (np.asarray(v) for v in np.linalg.svd(x))
    np.testing.assert_allclose(((u * (s / factor)) @ vh), a / factor, rtol=0, atol=near)
    np.testing.assert_allclose(np.linalg.svdvals(x) / factor, np.linalg.svdvals(a) / factor, rtol=0, atol=near)
    values, vectors = (np.asarray(v) for v in np.linalg.eigh(y))
    np.testing.assert_allclose(values / factor, np.linalg.eigvalsh(b) / factor, rtol=0, atol=near)
    np.testing.assert_allclose((vectors * (values / factor)) @ h(vectors), b / factor, rtol=0, atol=near)
    assert np.linalg.matrix_rank(x) == 40
    np.testing.assert_allclose(np.linalg.cond(x), np.linalg.cond(a), rtol=near * 100)
