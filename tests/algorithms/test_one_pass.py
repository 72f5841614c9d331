"""What reads a chunk once, block by block, gives what NumPy gives, wherever the blocks end."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import distarray as da
from conformance.contexts import kind
from conformance.ranks import on_ranks
from distarray.algorithms import counting, nan_sums, toeplitz

LAYOUTS = [
    da.blocks(0),
    da.blocks(1),
    da.cyclic(0, 2),
    da.replicated(),
    {0: [slice(0, 9)], 1: [slice(0, 5)], 3: [slice(3, None)]},
]


def outcome(call: Any) -> tuple[Any, set[str]]:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        found = np.asarray(call())
    return found, {str(warning.message) for warning in heard}


@pytest.mark.parametrize(("layout", "dtype"), [*[(layout, "f8") for layout in LAYOUTS], (LAYOUTS[0], "f4")], ids=str)
def test_nan_moments(layout: Any, dtype: str, four: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nan_sums, "LEAST", 1)
    monkeypatch.setattr(nan_sums, "BLOCK", 7)
    rng = np.random.default_rng(0)
    a = rng.standard_normal((9, 4, 5)).astype(dtype)
    a[rng.random(a.shape) < 0.2] = np.nan
    a[2], a[3:6, 1, 2] = np.nan, [np.inf, np.inf, 1]
    x = da.asarray(a, layout=layout)
    for y, b in ((x, a), (x.T[::-1], a.T[::-1])):
        for axis in (None, 0, -1, (0, 2)):
            for call, kwargs in ((np.nanmean, {}), (np.nanvar, {"keepdims": True}), (np.nanstd, {})):
                found, heard = outcome(lambda: call(y, axis=axis, **kwargs))  # noqa: B023 - called at once
                wanted, known = outcome(lambda: call(b, axis=axis, **kwargs))  # noqa: B023
                assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
                assert heard == known or kind() == "cuda"  # GPUs record no floating-point conditions
                np.testing.assert_allclose(found, wanted, rtol=1e-5 if dtype == "f4" else 1e-12, atol=1e-6)


@pytest.mark.parametrize("shares", [(1, 1), (2, 1)])
def test_nan_moments_on_ranks(shares: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nan_sums, "LEAST", 1)
    a = np.where(np.arange(60.0) % 7, np.arange(60.0), np.nan).reshape(10, 6)

    def program() -> Any:
        x = da.asarray(a, layout=da.blocks(0))
        return [f(x, axis=axis).get() for f in (np.nanmean, np.nanstd) for axis in (None, 0, 1)]

    wanted = [f(a, axis=axis) for f in (np.nanmean, np.nanstd) for axis in (None, 0, 1)]
    for found in on_ranks(shares, program):
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other)


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("bad", [None, np.inf, np.nan])
def test_convolution(bad: Any, dtype: str, four: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toeplitz, "ROWS", 4)
    rng = np.random.default_rng(0)
    for n, m in ((4001, 40), (2100, 129)):
        a, v = rng.standard_normal(n).astype(dtype), rng.standard_normal(m).astype(dtype)
        if bad is not None:
            a[n // 3] = bad
        for layout in (da.blocks(0), da.replicated(), da.cyclic(0, 900)):
            for call in (np.convolve, np.correlate):
                for mode in ("full", "same", "valid"):
                    found, wanted = call(da.asarray(a, layout=layout), v, mode), call(a, v, mode)
                    assert found.dtype == wanted.dtype
                    np.testing.assert_allclose(found.get(), wanted, rtol=1e-4, atol=1e-4 if dtype == "f4" else 1e-11)


@pytest.mark.parametrize("dtype", ["i8", "u1", "?"])
@pytest.mark.parametrize("top", [2, 30, 200])
def test_bincount(top: int, dtype: str, four: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "BLOCK", 10)
    monkeypatch.setattr(counting, "QUICK", 100)
    rng = np.random.default_rng(0)
    a, w = rng.integers(0, top, 120).astype(dtype), rng.random(120)
    for layout in (da.blocks(0), da.cyclic(0, 7), da.replicated()):
        x = da.asarray(a, layout=layout)
        for args in ((), (None, 150), (w,), (w, 150)):
            found, wanted = np.bincount(x, *args), np.bincount(a, *args)
            assert found.dtype == wanted.dtype
            np.testing.assert_allclose(found.get(), wanted)
    with pytest.raises(ValueError, match="negative"):
        np.bincount(da.asarray(np.append(np.arange(150), -1), layout=da.blocks(0)))
