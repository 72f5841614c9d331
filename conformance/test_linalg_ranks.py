"""Linear algebra on several processes, the same programs on simulated ranks: values, errors on all of them, and no hang."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import distarray as da
from conformance.contexts import examples, spread
from conformance.ranks import SHARES, on_ranks
from conformance.strategies import layouts

N = 12
RNG = np.random.default_rng(3)
A = RNG.standard_normal((N, N))
S = A @ A.T + N * np.eye(N)
Z = A + 1j * RNG.standard_normal((N, N))
TALL = RNG.standard_normal((60, 3))


def rebuilt_qr(x: Any, mode: str = "reduced") -> Any:
    q, r = np.linalg.qr(x, mode)
    return q @ r


def rebuilt_svd(x: Any, full: bool = False) -> Any:
    u, s, vh = np.linalg.svd(x, full_matrices=full)
    k = s.shape[0]
    return (u[:, :k] * s) @ vh[:k]


def rebuilt_eigh(x: Any) -> Any:
    w, v = np.linalg.eigh(x)
    return (v * w) @ np.conjugate(v.mT)


#: name -> (operand, program, what NumPy has)
PROGRAMS: dict[str, tuple[Any, Any, Any]] = {
    "cholesky": (S, np.linalg.cholesky, np.linalg.cholesky(S)),
    "solve": (A, lambda x: np.linalg.solve(x, A[:, :2]), np.linalg.solve(A, A[:, :2])),
    "inv": (Z, np.linalg.inv, np.linalg.inv(Z)),
    "det": (A, np.linalg.det, np.linalg.det(A)),
    "slogdet": (A, lambda x: np.linalg.slogdet(x)[1], np.linalg.slogdet(A)[1]),
    "qr": (Z, rebuilt_qr, Z),
    "complete qr": (A[:, :5], lambda x: rebuilt_qr(x, "complete"), A[:, :5]),
    "raw qr": (A, lambda x: np.linalg.qr(x, "raw")[1], np.linalg.qr(A, "raw")[1]),
    "tall qr": (TALL, rebuilt_qr, TALL),
    "svd": (Z, rebuilt_svd, Z),
    "tall svd": (TALL, rebuilt_svd, TALL),
    "full svd": (A[:, :5], lambda x: rebuilt_svd(x, True), A[:, :5]),
    "svdvals": (A, np.linalg.svdvals, np.linalg.svdvals(A)),
    "eigh": (S, rebuilt_eigh, S),
    "eigvalsh": (S, np.linalg.eigvalsh, np.linalg.eigvalsh(S)),
    "eigvals": (S, lambda x: np.sort(np.linalg.eigvals(x).get()), np.sort(np.linalg.eigvals(S))),
    "lstsq": (TALL, lambda x: np.linalg.lstsq(x, TALL[:, 0] + 1)[0], np.linalg.lstsq(TALL, TALL[:, 0] + 1)[0]),
    "rank": (TALL, np.linalg.matrix_rank, np.linalg.matrix_rank(TALL)),
    "pinv": (TALL, np.linalg.pinv, np.linalg.pinv(TALL)),
    "cond": (A, np.linalg.cond, np.linalg.cond(A)),
    "power": (A, lambda x: np.linalg.matrix_power(x, -3), np.linalg.matrix_power(A, -3)),
    "diagonal": (A, lambda x: np.diagonal(x, 1), np.diagonal(A, 1)),
    "stack": (S.reshape(3, 4, 12)[:, :, :4], np.linalg.inv, np.linalg.inv(S.reshape(3, 4, 12)[:, :, :4])),
    "einsum": (A, lambda x: np.einsum("ij,jk,kl->il", x, x, x), A @ A @ A),
    "norm": (A, lambda x: np.linalg.norm(x, "nuc"), np.linalg.norm(A, "nuc")),
    "infinities": (A, lambda x: np.linalg.svdvals(np.where(x == x[1, 2], np.inf, x)), np.full(len(A), np.nan)),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("large", [True, False])
@examples(0.05)
@given(data=st.data())
def test_results(name, large, data):
    operand, f, ref = PROGRAMS[name]
    shares = data.draw(st.sampled_from(SHARES))
    layout = data.draw(layouts(operand.shape, sum(shares)))
    panel = data.draw(st.sampled_from([2, 3, 5]))

    def program() -> Any:
        x = da.asarray(operand, layout=layout)
        with spread(x._context, panel, 1 if large else 64):
            return np.asarray(f(x))

    found = on_ranks(shares, program)
    for got in found:
        np.testing.assert_allclose(got, ref, rtol=1e-8, atol=1e-8)
        assert got.tobytes() == found[0].tobytes()


def test_lu_in_strips_where_one_process_lacks_room():
    """All processes cut the matrix alike, by the device that has the least room; one has a limit, the others have none."""
    n = 48
    a, b = np.random.default_rng(0).standard_normal((2, n, n))

    def program() -> Any:
        x, y = da.asarray(a, layout=da.blocks(0)), da.asarray(b[:, :3], layout=da.blocks(0))
        context = x._context
        device = context.local_devices[0]
        if context.process == 1:
            device.memory_limit = device.allocated + n * 8 * (n // 8 + 16)
        try:
            with spread(context, 4), da.ledger() as log:
                found = np.asarray(np.linalg.solve(x, y)), float(np.linalg.slogdet(x)[1])
        finally:
            device.memory_limit = None
        return *found, log.bytes_moved

    for solution, logarithm, moved in on_ranks((1, 2, 1), program):
        np.testing.assert_allclose(solution, np.linalg.solve(a, b[:, :3]), rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(logarithm, np.linalg.slogdet(a)[1], rtol=1e-10)
        assert moved > 3 * a.nbytes  # more than panels move that move once for each function


FAILING = {
    "cholesky": lambda x: np.linalg.cholesky(-x),
    "inv": lambda x: np.linalg.inv(x * 0),
    "solve": lambda x: np.linalg.solve(x * 0, x),
    "svd": lambda x: np.linalg.svd(x / 0 * 0),
    "eig": lambda x: np.linalg.eig(x * np.inf),
    "lstsq of infinities": lambda x: np.linalg.lstsq(np.where(x == x[0, 0], np.inf, x), x),
    "pinv of NaN": lambda x: np.linalg.pinv(np.where(x == x[0, 0], np.nan, x)),
    "values of NaN": lambda x: np.linalg.svd(x * np.nan, compute_uv=False),
    "rank of NaN": lambda x: np.linalg.matrix_rank(x * np.nan),
    "one of a stack": lambda x: np.linalg.inv(np.stack([x, x * 0, x])),
}


@pytest.mark.parametrize("name", FAILING)
@pytest.mark.parametrize("large", [True, False])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_fails_fails_on_all_processes_and_they_go_on(name, large):
    def program() -> Any:
        x = da.asarray(S, layout=da.blocks(0))
        small = spread(x._context, 4, 1 if large else 64)
        with small, np.errstate(all="ignore"), pytest.raises(np.linalg.LinAlgError):
            FAILING[name](x)
        return np.asarray(np.linalg.det(x))

    for got in on_ranks((1, 2, 1), program):
        np.testing.assert_allclose(got, np.linalg.det(S), rtol=1e-10)


@pytest.mark.parametrize("large", [True, False])
def test_eigenvalues_of_nan_are_alike_on_all_processes_and_they_go_on(large):
    """LAPACK says of small matrices that they did not converge, and finds NaN in others."""

    def program() -> tuple[str, bool]:
        x = da.asarray(S, layout=da.blocks(0))
        with spread(x._context, 4, 1 if large else 64), np.errstate(all="ignore"):
            try:
                values, vectors = np.linalg.eigh(x * np.nan)
                said = "NaN" if np.isnan(values.get()).all() and np.isnan(vectors.get()).all() else "numbers"
            except np.linalg.LinAlgError:
                said = "raised"
        return said, bool(np.isclose(float(x.sum()), S.sum()))

    assert set(on_ranks((1, 2, 1), program)) == {("NaN" if large else "raised", True)}
