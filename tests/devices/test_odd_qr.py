"""QR of matrices with infinities and NaN: cuSOLVER alone goes on for ever where they stand below zeros."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import distarray as da
from conformance.contexts import spread
from distarray.devices import gpu_blas

MODES = ("reduced", "complete", "r", "raw")


def odd_matrices() -> Iterator[np.ndarray]:
    for m, n in [(1, 1), (1, 3), (2, 1), (2, 2), (3, 2), (2, 3), (4, 3)]:
        for i, j, dtype, bad in itertools.product(range(m), range(n), ("f4", "f8", "c16"), (np.nan, np.inf, 0)):
            for base in (np.eye(m, n), np.zeros((m, n)), np.arange(1.0, m * n + 1).reshape(m, n) ** 2):
                a = base.astype(dtype)
                a[i, j] = bad
                yield a
    stack = np.stack([np.eye(3), np.arange(9.0).reshape(3, 3), np.zeros((3, 3))])
    stack[1, 2, 1] = np.nan
    stack[2, 1, 0] = np.inf
    yield stack


def parts(found: Any) -> list[Any]:
    return [np.asarray(x.get() if hasattr(x, "get") else x) for x in (found if isinstance(found, tuple) else [found])]


@pytest.mark.parametrize("mode", MODES)
def test_what_lapack_loses_is_nan_and_the_rest_as_it_was(mode):
    for a in odd_matrices():
        before = a.copy()
        with np.errstate(all="ignore"):
            found, wanted = parts(gpu_blas.qr(np, a, mode)), parts(np.linalg.qr(a, mode))
        np.testing.assert_array_equal(a, before)
        for mine, its in zip(found, wanted, strict=True):
            assert mine.shape == its.shape and mine.dtype == its.dtype
            kept = np.isfinite(mine)
            assert np.isfinite(its)[kept].all()
            dense = a.dtype.kind != "c" and a.shape[-2] > 1 and a.all() and not np.isinf(a).any()
            if dense:  # LAPACK keeps more of others
                np.testing.assert_array_equal(kept, np.isfinite(its), str(a))
            np.testing.assert_allclose(mine[kept], its[kept], rtol=1e-4, atol=1e-5)


@pytest.mark.cuda
@pytest.mark.timeout(60)
@pytest.mark.parametrize("mode", MODES)
def test_gpus_end_with_what_lapack_has(mode):
    import cupy

    for a in odd_matrices():
        with np.errstate(all="ignore"):
            found = parts(gpu_blas.qr(cupy, cupy.asarray(a), mode))
            for mine, its in zip(found, parts(gpu_blas.qr(np, a, mode)), strict=True):
                assert mine.shape == its.shape and mine.dtype == its.dtype
                np.testing.assert_array_equal(np.isfinite(mine), np.isfinite(its), str(a))
                kept = np.isfinite(mine)
                np.testing.assert_allclose(mine[kept], its[kept], rtol=1e-3, atol=1e-4)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("whole", [1, 64], ids=["spread", "whole"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_matrices_with_zeros_above_them_end(ctx, whole, bad):
    square, tall = np.eye(8), np.zeros((24, 2))
    square[5, 2] = tall[3, 0] = bad
    tall[:, 1] = 1
    with ctx(3) as c, spread(c, 2, whole):
        for a in (square, tall):
            x = da.asarray(a, layout=da.blocks(0))
            assert not np.isfinite(np.linalg.qr(x).R.get()[:, 0 if a is tall else 2]).all()
            with suppress(np.linalg.LinAlgError):  # which NumPy raises for NaN
                assert not np.isfinite(np.linalg.svd(x, compute_uv=False).get()).any()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_equations_with_odd_matrices_give_nan(ctx, bad):
    stack = np.stack([np.full((3, 3), bad), np.eye(3), np.diag([1, bad, 2])])
    with ctx(2):
        for a in (stack, stack[0], stack[2], np.full((1, 1), bad)):
            x = da.asarray(a, layout=da.replicated())
            for found, wanted in (
                (np.linalg.inv(x), np.linalg.inv(a)),
                (np.linalg.solve(x, np.ones(a.shape[-1])), np.linalg.solve(a, np.ones(a.shape[-1]))),
                (
                    np.linalg.solve(x, np.ones((2, 1, *a.shape[-2:]))),
                    np.linalg.solve(a, np.ones((2, 1, *a.shape[-2:]))),
                ),
            ):
                assert found.shape == wanted.shape and found.dtype == wanted.dtype
                kept = np.isfinite(found.get())
                np.testing.assert_allclose(found.get()[kept], wanted[kept])
            if a.ndim == 2:
                with pytest.raises(np.linalg.LinAlgError, match="ingular"):
                    np.linalg.inv(da.asarray(np.zeros(a.shape)))
