"""Linear algebra: factorizations, systems, eigenvalues and einsum against NumPy, for stacks and matrices in any layout.

Factors are not unique, so they are judged by their residuals and their orthogonality, held to the size of NumPy's own
for the same matrix. ``spread`` makes small matrices go the way of large ones, over all devices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import distarray as da
from conformance.checking import assert_same, both, check_invariants
from conformance.contexts import context, examples, spread
from conformance.strategies import COMPLEX, FLOATS, arrays, device_counts, dtypes, pairs

INEXACT = FLOATS + COMPLEX
KINDS = ["random", "graded", "deficient", "ill"]


def made(data: st.DataObject, shape: tuple[int, ...], dtype: Any, kinds: Any = KINDS) -> np.ndarray:
    """A matrix, or a stack: random, with rows of very different size, of low rank, or nearly singular: as far as the dtype
    tells that from singular."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**20)))
    kind = data.draw(st.sampled_from(kinds))

    def draw(*shape: int) -> np.ndarray:
        a = rng.standard_normal(shape)
        return a + 1j * rng.standard_normal(shape) if dtype.kind == "c" else a

    m, n = shape[-2:]
    k = min(m, n)
    if kind == "random" or not k:
        return draw(*shape).astype(dtype)
    if kind == "graded":
        return (draw(*shape) * np.logspace(0, -10, m)[:, None]).astype(dtype)
    rank = max(k // 2, 1) if kind == "deficient" else k
    u = np.linalg.qr(draw(*shape[:-2], m, k))[0][..., :rank]
    v = np.linalg.qr(draw(*shape[:-2], n, k))[0][..., :rank]
    least = -8 if np.finfo(dtype).eps < 1e-10 else -5
    s = np.logspace(0, least if kind == "ill" else 0, k)[:rank]
    return ((u * s) @ np.swapaxes(v, -1, -2)).astype(dtype)


def size(a: Any) -> float:
    return float(np.linalg.norm(np.asarray(a).astype(np.complex128))) if np.asarray(a).size else 0.0


def small(got: Any, ref: Any, whole: Any, *, times: float = 10) -> None:
    """A residual is at most ten times NumPy's, or a few units of rounding of the whole."""
    whole = np.asarray(whole)
    unit = float(np.finfo(whole.dtype).eps) * max(*whole.shape[-2:], 1)
    bound = times * max(size(ref), unit * max(size(whole), 1e-30))
    assert size(got) <= bound, f"residual {size(got)}, NumPy's {size(ref)}, allowed {bound}"


def h(a: Any) -> Any:
    return np.conjugate(np.swapaxes(np.asarray(a), -1, -2))


def same_form(got: Any, ref: Any) -> None:
    assert isinstance(got, da.DistributedArray)
    assert got.shape == ref.shape
    assert got.dtype == ref.dtype


def shape_of(data: st.DataObject, *, is_square: bool = False, top: int = 13) -> tuple[int, ...]:
    m = data.draw(st.sampled_from([3, 1, 2, 5, 8, top, 0]))
    n = m if is_square else data.draw(st.sampled_from([3, 1, 2, 5, 8, top, 0]))
    return (*data.draw(st.sampled_from([(), (), (2,), (3, 2), (0,), (5,)])), m, n)


def way(data: st.DataObject, c: Any) -> Any:
    """Over all devices, some columns at a time; or as the bounds say."""
    panel = data.draw(st.sampled_from([0, 1, 2, 3, 5]))
    return spread(c, panel) if panel else spread(c, 4, 64)


@examples(2)
@given(data=st.data(), n=device_counts)
def test_cholesky(data, n):
    shape, dtype = shape_of(data, is_square=True), data.draw(dtypes(INEXACT))
    a = made(data, shape, dtype, ["random"])
    a = (a @ h(a) + np.eye(shape[-1]) * max(shape[-1], 1)).astype(dtype)
    upper = data.draw(st.booleans())
    with context(n) as c, way(data, c):
        x = data.draw(pairs(a, n)).x
        got, ref = np.linalg.cholesky(x, upper=upper), np.linalg.cholesky(a, upper=upper)
        same_form(got, ref)
        low, g = (h(ref), h(got)) if upper else (ref, np.asarray(got))
        small(g @ h(g) - a, low @ h(low) - a, a)
        assert not np.triu(g, 1).any()
        check_invariants(got)


@examples(3)
@given(data=st.data(), n=device_counts)
def test_qr(data, n):
    shape, dtype = shape_of(data), data.draw(dtypes(INEXACT))
    if data.draw(st.booleans()):
        shape = (40, 4) if len(shape) == 2 else shape
    a = made(data, shape, dtype)
    mode = data.draw(st.sampled_from(["reduced", "complete", "r", "raw", "none"]))
    with context(n) as c, way(data, c):
        x = data.draw(pairs(a, n)).x
        if mode == "none":
            both(lambda: np.linalg.qr(a, mode), lambda: np.linalg.qr(x, mode))
            return
        got, ref = np.linalg.qr(x, mode), np.linalg.qr(a, mode)
        if mode == "r":
            same_form(got, ref)
            g = np.asarray(got)
            small(h(g) @ g - h(a) @ a, h(ref) @ ref - h(a) @ a, h(a) @ a)
            assert not np.tril(g, -1).any()
            return
        for one, other in zip(got, ref):
            same_form(one, other)
            check_invariants(one)
        if mode == "raw":
            r, q = (np.triu(np.swapaxes(np.asarray(v[0]), -1, -2)) for v in (got, ref))
            small(h(r) @ r - h(a) @ a, h(q) @ q - h(a) @ a, h(a) @ a)
            return
        q, r = (np.asarray(v) for v in got)
        small(q @ r - a, ref[0] @ ref[1] - a, a)
        one = np.eye(q.shape[-1], dtype=dtype)
        small(h(q) @ q - one, h(ref[0]) @ ref[0] - one, one)
        assert not np.tril(r, -1).any()


@examples(3)
@given(data=st.data(), n=device_counts)
def test_svd(data, n):
    is_hermitian = data.draw(st.sampled_from([False, False, True]))
    shape, dtype = shape_of(data, is_square=is_hermitian), data.draw(dtypes(INEXACT))
    if not is_hermitian and data.draw(st.booleans()):
        shape = data.draw(st.sampled_from([(40, 4), (3, 30), (13, 13)])) if len(shape) == 2 else shape
    a = made(data, shape, dtype)
    if is_hermitian:
        a = (a + h(a)).astype(dtype)
    full, vectors = data.draw(st.booleans()), data.draw(st.sampled_from([True, True, False]))
    how = {"full_matrices": full, "compute_uv": vectors, "hermitian": is_hermitian}
    with context(n) as c, way(data, c):
        x = data.draw(pairs(a, n)).x
        got, ref = np.linalg.svd(x, **how), np.linalg.svd(a, **how)
        values, expected = (got.S, ref.S) if vectors else (got, ref)
        same_form(values, expected)
        small(np.asarray(values) - expected, 0, a)
        assert (np.diff(np.asarray(values), axis=-1) <= 0).all()
        if not vectors:
            assert_same(np.linalg.svdvals(x), np.linalg.svdvals(a), exact=False, ulps=1e3, scale=size(a))
            return
        u, s, vh = (np.asarray(v) for v in got)
        for one, other in zip(got, ref):
            same_form(one, other)
            check_invariants(one)
        k = s.shape[-1]
        product = (u[..., :k] * s[..., None, :]) @ vh[..., :k, :]
        small(product - a, (ref[0][..., :k] * ref[1][..., None, :]) @ ref[2][..., :k, :] - a, a)
        for q, p in ((u, ref[0]), (h(vh), h(ref[2]))):
            one = np.eye(q.shape[-1], dtype=dtype)
            small(h(q) @ q - one, h(p) @ p - one, one)


@examples(3)
@given(data=st.data(), n=device_counts)
def test_eigh(data, n):
    shape, dtype = shape_of(data, is_square=True), data.draw(dtypes(INEXACT))
    a = made(data, shape, dtype)
    a = (a + h(a)).astype(dtype)
    uplo = data.draw(st.sampled_from(["L", "U", "l"]))
    garbage = a + (np.triu if uplo in "Ll" else np.tril)(np.ones_like(a), *((1,) if uplo in "Ll" else (-1,)))
    with context(n) as c, way(data, c):
        x = data.draw(pairs(garbage.astype(dtype), n)).x
        got, ref = np.linalg.eigh(x, uplo), np.linalg.eigh(garbage.astype(dtype), uplo)
        for one, other in zip(got, ref):
            same_form(one, other)
            check_invariants(one)
        w, v = (np.asarray(part) for part in got)
        assert (np.diff(w, axis=-1) >= 0).all()
        small(a @ v - v * w[..., None, :], a @ ref[1] - ref[1] * ref[0][..., None, :], a)
        one = np.eye(shape[-1], dtype=dtype)
        small(h(v) @ v - one, h(ref[1]) @ ref[1] - one, one)
        small(np.asarray(np.linalg.eigvalsh(x, uplo)) - ref[0], 0, a)


@examples(2)
@given(data=st.data(), n=device_counts)
def test_eig(data, n):
    shape, dtype = shape_of(data, is_square=True, top=4), data.draw(dtypes(INEXACT))
    a = made(data, shape, dtype, ["random"])
    if data.draw(st.booleans()):
        a = (a + h(a)).astype(dtype)
    with context(n):
        x = data.draw(pairs(a, n)).x
        got, ref = np.linalg.eig(x), np.linalg.eig(a)
        for one, other in zip(got, ref):
            same_form(one, other)
        w, v = (np.asarray(part) for part in got)
        small(a @ v - v * w[..., None, :], a @ ref[1] - ref[1] * ref[0][..., None, :], a)
        same_form(np.linalg.eigvals(x), np.linalg.eigvals(a))
        both(lambda: np.linalg.eig(a / 0), lambda: np.linalg.eig(x / 0)) if a.size else None


@examples(3)
@given(data=st.data(), n=device_counts)
def test_solve_inv_det(data, n):
    shape, dtype = shape_of(data, is_square=True), data.draw(dtypes(INEXACT))
    a = made(data, shape, dtype, ["random", "ill", "graded"])
    size_n = shape[-1]
    rhs = data.draw(st.sampled_from([(size_n,), (size_n, 1), (size_n, 3), (2, size_n, 2), (size_n, 0), (size_n, 9)]))
    if len(shape) > 2 and len(rhs) == 3:
        rhs = rhs[1:]
    b = data.draw(arrays(rhs, data.draw(st.sampled_from([dtype, np.dtype("float32")])), extreme=False))
    with context(n) as c, way(data, c):
        x = data.draw(pairs(a, n)).x
        y = data.draw(st.sampled_from([b, data.draw(pairs(b, n)).x]))
        got, ref = np.linalg.solve(x, y), np.linalg.solve(a, b)
        same_form(got, ref)
        g = np.asarray(got)
        columns, exact = (g[..., None], ref[..., None]) if b.ndim == 1 else (g, ref)
        right = b[:, None] if b.ndim == 1 else b
        unit = np.finfo(ref.dtype).eps * size_n * size(a) * max(size(ref), 1e-30)
        assert size(a @ columns - right) <= 10 * max(size(a @ exact - right), unit)
        check_invariants(got)
        inverse, known = np.linalg.inv(x), np.linalg.inv(a)
        same_form(inverse, known)
        one = np.eye(size_n)
        unit = np.finfo(dtype).eps * size_n * size(a) * size(known)
        assert size(a @ np.asarray(inverse) - one) <= 10 * max(size(a @ known - one), unit)
        for f in (np.linalg.slogdet, lambda v: (np.linalg.det(v),)):
            for one, other in zip(f(x), f(a)):
                same_form(one, np.asarray(other))
        sign, log = np.linalg.slogdet(a)
        loose = np.finfo(dtype).eps * 100 * max(float(np.linalg.cond(a).max(initial=1)) if a.size else 1, 1)
        if loose < 1e-2:
            assert np.allclose(np.asarray(np.linalg.slogdet(x)[1]), log, rtol=loose, atol=loose)
            assert np.allclose(np.asarray(np.linalg.slogdet(x)[0]), sign, rtol=loose, atol=loose)


@examples(2)
@given(data=st.data(), n=device_counts)
def test_least_squares_and_rank(data, n):
    shape, dtype = shape_of(data)[-2:], data.draw(dtypes(INEXACT))
    a = made(data, shape, dtype, ["random", "deficient"])
    b = data.draw(arrays(data.draw(st.sampled_from([(shape[0],), (shape[0], 2)])), dtype, extreme=False))
    with context(n) as c, way(data, c):
        x, y = data.draw(pairs(a, n)).x, data.draw(pairs(b, n)).x
        got, ref = np.linalg.lstsq(x, y), np.linalg.lstsq(a, b)
        assert got[2] == ref[2]
        for one, other in zip((*got[:2], got[3]), (*ref[:2], ref[3])):
            assert_same(one, other, exact=False, ulps=3e4, scale=max(size(b), 1) * max(size(other), 1))
        assert_same(np.linalg.matrix_rank(x), np.linalg.matrix_rank(a))
        both(
            lambda: np.linalg.pinv(a, rtol=1e-4), lambda: np.linalg.pinv(x, rtol=1e-4), exact=False, ulps=3e4, scale=10
        )
        if a.size:
            p = data.draw(st.sampled_from([None, 2, -2, 1, np.inf, "fro"]))
            with np.errstate(all="ignore"):
                expect = np.linalg.cond(a, p) if p in (None, 2, -2) or shape[0] == shape[1] else None
            if expect is not None and np.linalg.cond(a) < 1e3:
                assert_same(np.linalg.cond(x, p), expect, exact=False, ulps=1e5)


@examples(2)
@given(data=st.data(), n=device_counts)
def test_powers(data, n):
    shape, dtype = shape_of(data, is_square=True, top=4), data.draw(dtypes([*INEXACT, np.dtype("int64")]))
    a = data.draw(arrays(shape, dtype, extreme=False))
    power = data.draw(st.sampled_from([0, 1, 2, 3, 5]))
    with context(n):
        x = data.draw(pairs(a, n)).x
        both(lambda: np.linalg.matrix_power(a, power), lambda: np.linalg.matrix_power(x, power),
             exact=False, ulps=1e3, scale=float(100.0**power))  # fmt: skip
        both(lambda: np.linalg.matrix_power(a, 1.5), lambda: np.linalg.matrix_power(x, 1.5))


@examples(2)
@given(data=st.data(), n=device_counts)
def test_diagonals_and_cross(data, n):
    shape = data.draw(st.sampled_from([(3, 3), (4, 6), (2, 5, 3), (3, 2, 4, 3), (0, 3), (3,)]))
    a = data.draw(arrays(shape, data.draw(dtypes())))
    offset = data.draw(st.integers(-4, 4))
    first, second = (data.draw(st.integers(-len(shape), len(shape))) for _ in range(2))
    with context(n):
        x = data.draw(pairs(a, n)).x
        both(lambda: np.diagonal(a, offset, first, second), lambda: np.diagonal(x, offset, first, second))
        both(lambda: np.linalg.diagonal(a, offset=offset), lambda: np.linalg.diagonal(x, offset=offset))
        loose = {"exact": False, "ulps": 32, "scale": 100.0}
        if np.isfinite(a.astype(complex)).all():
            both(lambda: np.trace(a, offset, first, second), lambda: np.trace(x, offset, first, second), **loose)
            both(lambda: np.linalg.trace(a, offset=offset), lambda: np.linalg.trace(x, offset=offset), **loose)
            b = data.draw(arrays((3,), a.dtype, extreme=False))
            if a.dtype.kind != "b":
                y = data.draw(pairs(b, n)).x
                both(lambda: np.cross(a, b), lambda: np.cross(x, y), exact=False, ulps=8, scale=200.0)
                both(lambda: np.linalg.cross(a, b), lambda: np.linalg.cross(x, y), exact=False, ulps=8, scale=200.0)


EINSUMS = {
    "product": "ij,jk->ik", "chain": "ij,jk,kl->il", "diagonal": "ii->i", "trace": "ii", "sum": "ij->", "transpose": "ij->ji",
    "element-wise": "ij,ij->ij", "diagonal times": "iij,jk->ik", "outer": "ij,kl->kjil", "dot": "i,i", "vector": "ij,j",
    "batch": "...j,jk->...k", "triangle": "ij,jk,ki->", "two diagonals": "iijj->ij", "three": "ij,ik,il->jkl",
    "sum of one": "ij,k->k", "ellipsis": "i...->...",
}  # fmt: skip


@pytest.mark.parametrize("name", EINSUMS)
@examples(0.3)
@given(data=st.data(), n=device_counts)
def test_einsum(name, data, n):
    subscripts = EINSUMS[name]
    lengths = {label: data.draw(st.sampled_from([3, 1, 2, 4, 0])) for label in "ijkl"}
    refs, ours = [], []
    with context(n):
        for number, labels in enumerate(subscripts.partition("->")[0].split(",")):
            shape = tuple(lengths[label] for label in labels.replace("...", "kl"))
            a = data.draw(
                arrays(shape, data.draw(dtypes(INEXACT + [np.dtype("int32"), np.dtype(bool)])), extreme=False)
            )
            refs.append(a)
            ours.append(a if number and data.draw(st.sampled_from([False, True])) else data.draw(pairs(a, n)).x)
        how = data.draw(st.sampled_from([{}, {"optimize": True}, {"optimize": "greedy"}, {"dtype": "complex128"}]))
        coarse = max((a.dtype for a in refs if a.dtype.kind in "fc"), key=lambda t: np.finfo(t).eps, default=None)
        # on an optimized path NumPy sums bools and integers in their own dtype first, where an operand is wider
        plain = {key: value for key, value in how.items() if key != "optimize"}
        both(lambda: np.einsum(subscripts, *refs, **plain), lambda: np.einsum(subscripts, *ours, **how),
             exact=False, ulps=1e3, scale=9.0 ** len(refs) * 64, unit=coarse)  # fmt: skip


@examples(1)
@given(data=st.data(), n=device_counts)
def test_multi_dot(data, n):
    sizes = [data.draw(st.sampled_from([3, 1, 5, 2])) for _ in range(data.draw(st.integers(3, 5)))]
    shapes = [(a, b) for a, b in zip(sizes, sizes[1:])]
    if data.draw(st.booleans()):
        shapes[0], shapes[-1] = shapes[0][1:], shapes[-1][:1]
    refs = [data.draw(arrays(shape, "float64", extreme=False)) for shape in shapes]
    with context(n):
        ours = [data.draw(pairs(a, n)).x for a in refs]
        both(lambda: np.linalg.multi_dot(refs), lambda: np.linalg.multi_dot(ours), exact=False, ulps=1e3, scale=1e5)
        both(lambda: np.linalg.multi_dot(refs[:1]), lambda: np.linalg.multi_dot(ours[:1]))


REFUSED = {
    "cholesky of a vector": lambda x: np.linalg.cholesky(x[0]),
    "cholesky of no square": lambda x: np.linalg.cholesky(x),
    "cholesky of an indefinite": lambda x: np.linalg.cholesky(-(x @ x.T)),
    "inv of no square": lambda x: np.linalg.inv(x),
    "inv of a singular": lambda x: np.linalg.inv(x[:, :3] * 0),
    "solve of a singular": lambda x: np.linalg.solve(x[:, :3] * 0, x),
    "solve with other rows": lambda x: np.linalg.solve(x[:, :3], x.T),
    "solve with a number": lambda x: np.linalg.solve(x[:, :3], 3.0),
    "float16": lambda x: np.linalg.qr(x.astype("float16")),
    "datetime": lambda x: np.linalg.inv(x[:, :3].astype("M8[s]")),
    "norm axis": lambda x: np.linalg.norm(x, axis=[0, 1]),
    "norm order": lambda x: np.linalg.norm(x, "fro", axis=1),
    "norm of three axes": lambda x: np.linalg.norm(x, axis=(0, 1, 2)),
    "vector norm order": lambda x: np.linalg.vector_norm(x, ord="fro"),
    "vector norm axis": lambda x: np.linalg.vector_norm(x, axis=1.5),
    "matrix norm of nothing": lambda x: np.linalg.matrix_norm(x[:0], ord=-2),
    "qr mode": lambda x: np.linalg.qr(x, "other"),
    "UPLO": lambda x: np.linalg.eigh(x[:, :3], "A"),
    "eigh of no square": lambda x: np.linalg.eigh(x),
    "svd of a vector": lambda x: np.linalg.svd(x[0]),
    "svd of NaN": lambda x: np.linalg.svd(x * np.nan),
    "singular values of NaN": lambda x: np.linalg.svd(x * np.nan, compute_uv=False),
    "values of one NaN": lambda x: np.linalg.svd(np.where(x == x[0, 0], np.nan, x), compute_uv=False),
    "eig of inf": lambda x: np.linalg.eig(x[:, :3] * np.inf),
    "lstsq of a stack": lambda x: np.linalg.lstsq(x[None], x),
    "lstsq with other rows": lambda x: np.linalg.lstsq(x, x.T),
    "rank twice": lambda x: np.linalg.matrix_rank(x, 1e-3, rtol=1e-3),
    "pinv twice": lambda x: np.linalg.pinv(x, 1e-3, rtol=1e-3),
    "cond of nothing": lambda x: np.linalg.cond(x[:0]),
    "tensorinv": lambda x: np.linalg.tensorinv(x, 0),
    "tensorsolve": lambda x: np.linalg.tensorsolve(x, x[0]),
    "power": lambda x: np.linalg.matrix_power(x, 2),
    "einsum labels": lambda x: np.einsum("ij,jk", x, x),
    "einsum output": lambda x: np.einsum("ij->k", x),
    "einsum without the ellipsis": lambda x: np.einsum("...j->j", x[None]),
    "einsum order": lambda x: np.einsum("ij->ji", x, order="Z"),
    "einsum out of another dtype": lambda x: np.einsum("ij->ji", x, out=np.zeros((4, 3), "float32")),
    "einsum out of other axes": lambda x: np.einsum("ij->", x, out=np.zeros(1)),
    "einsum labels twice": lambda x: np.einsum("ii", x[:1]),
    "tensordot pairs": lambda x: np.tensordot(x, x, ([0], [0, 1])),
    "einsum axes": lambda x: np.einsum("ijk", x),
    "einsum letters": lambda x: np.einsum("i$", x),
    "einsum casting": lambda x: np.einsum("ij->ji", x, dtype="int32"),
}


@pytest.mark.parametrize("p", [None, -2, "nuc", 1, "fro"])
@pytest.mark.parametrize("large", [False, True])
def test_conditions_of_odd_matrices(p, large):
    odd, zero = np.eye(4), np.zeros((4, 4))
    odd[1, 2] = np.nan
    with context(3) as c, spread(c, 2, 1 if large else 64):
        for a in (odd, zero, np.stack([odd, np.eye(4), zero])):
            both(lambda a=a: np.linalg.cond(a, p), lambda a=a: np.linalg.cond(da.asarray(a), p), exact=False, ulps=64)


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("large", [False, True])
def test_refused_as_in_numpy(name, large):
    a = np.arange(12.0).reshape(3, 4)
    with context(3) as c, spread(c, 2, 1 if large else 64):
        both(lambda: REFUSED[name](a), lambda: REFUSED[name](da.asarray(a, layout=da.blocks(0))))


def test_tensor_equations():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 3, 6)), rng.standard_normal((2, 3))
    with context(3):
        x, y = da.asarray(a, layout=da.blocks(1)), da.asarray(b, layout=da.blocks(0))
        close = {"exact": False, "ulps": 1e4, "scale": 1.0}
        assert_same(np.linalg.tensorsolve(x, y), np.linalg.tensorsolve(a, b), **close)
        assert_same(np.linalg.tensorinv(x, 2), np.linalg.tensorinv(a, 2), **close)


def test_split_stacks_move_nothing():
    rng = np.random.default_rng(0)
    a = rng.standard_normal((8, 5, 5))
    s = a @ np.swapaxes(a, -1, -2) + np.eye(5)
    with context(4):
        x, y = da.asarray(a, layout=da.blocks(0)), da.asarray(s, layout=da.blocks(0))
        with da.ledger() as log, da.no_implicit_communication():
            for f in (np.linalg.inv, np.linalg.qr, np.linalg.svd, np.linalg.det, np.linalg.slogdet, np.linalg.svdvals):
                f(x)
            for f in (np.linalg.cholesky, np.linalg.eigh, np.linalg.eigvalsh):
                f(y)
            np.linalg.solve(x, y)
        assert log.bytes_moved == 0


def test_many_right_hand_sides_stay_where_they_are():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((8, 8)), rng.standard_normal((8, 1000))
    with context(4):
        x, y = da.asarray(a, layout=da.replicated()), da.asarray(b, layout=da.blocks(1))
        with da.no_implicit_communication():
            found = np.linalg.solve(x, y)
        assert_same(found, np.linalg.solve(a, b), exact=False, ulps=1e4, scale=1.0)


def test_eig_gathers_and_says_so():
    a = np.random.default_rng(0).standard_normal((40, 40))
    with context(4):
        x = da.asarray(a, layout=da.blocks(0))
        with pytest.raises(da.ImplicitCommunicationError), da.no_implicit_communication():
            np.linalg.eig(x)
        with da.ledger() as log:
            np.linalg.eigvals(x)
        assert log.bytes_moved >= a.nbytes * 3 // 4


def test_host_operands_of_einsum_are_added_up_whole():
    a = np.arange(9.0).reshape(3, 3)
    with context(3):
        x = da.asarray(a, layout=da.blocks(0))
        for text, given, known in (
            ("be,a->", (x, np.arange(3)), (a, np.arange(3))),
            ("a,be->b", (np.arange(3), x), (np.arange(3), a)),
            ("a,be,->e", (np.arange(3), x, 2.0), (np.arange(3), a, 2.0)),
        ):
            assert_same(np.einsum(text, *given), np.asarray(np.einsum(text, *known)))


def test_einsum_assigns_products_into_out():
    """NumPy takes any cast into ``out=`` where it optimizes and adds up products; else the rules of casting hold."""
    a = np.arange(6.0).reshape(2, 3)
    with context(2):
        x = da.asarray(a, layout=da.blocks(0))
        for text, optimize, casting in (
            ("ij,kj->ik", True, "safe"), ("ij,ij->", "optimal", "safe"), ("ij,ij->ij", True, "safe"), ("ij,ij->ij", True, "unsafe"),
            ("ij->i", True, "safe"), ("ij->i", True, "unsafe"), ("ij,ij->", False, "safe"),
        ):  # fmt: skip
            shape = np.einsum(text, *[a] * (1 + text.count(","))).shape
            known, out = np.full(shape, -1), da.full(shape, -1)
            given = [a] * (1 + text.count(","))
            try:
                np.einsum(text, *given, out=known, optimize=optimize, casting=casting)
            except TypeError:
                with pytest.raises(TypeError):
                    np.einsum(text, *[x] * len(given), out=out, optimize=optimize, casting=casting)
                assert (out.get() == -1).all()
            else:
                np.einsum(text, *[x] * len(given), out=out, optimize=optimize, casting=casting)
                assert_same(out, known)
