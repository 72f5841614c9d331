"""Histograms of far more bins than elements: as NumPy's, in the memory of their result."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import distarray as da
from conformance.ranks import on_ranks

RNG = np.random.default_rng(0)
SAMPLE = RNG.normal(size=300) * 50
EDGES = np.sort(np.r_[-5, RNG.normal(size=70_000), 5, 5])


@pytest.mark.parametrize(("dtype", "weight"), [("f8", None), ("i8", None), ("f8", "f8"), ("f4", "c16"), ("i2", "i4")])
@pytest.mark.parametrize(
    ("bins", "span"), [(100_000, None), (70_000, (-20, 33)), (EDGES, None)], ids=["n", "range", "edges"]
)
def test_one_dimension(four: Any, dtype: str, weight: str | None, bins: Any, span: Any) -> None:
    h, w = SAMPLE.astype(dtype), None if weight is None else (SAMPLE[::-1] / 7).astype(weight)
    x = da.asarray(h, layout=da.cyclic(0, 3))
    expected, edges = np.histogram(h, bins, span, weights=w)
    found, at = np.histogram(x, bins, span, weights=None if w is None else da.asarray(w, layout=da.blocks(0)))  # type: ignore[arg-type]
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found.get(), expected, rtol=1e-6 if dtype == "f4" else 1e-12, atol=1e-9)  # type: ignore[attr-defined]
    np.testing.assert_array_equal(at.get(), edges)  # type: ignore[attr-defined]


def test_their_memory(four: Any) -> None:
    context = da.arange(3).device.context
    x = da.asarray(SAMPLE, layout=da.blocks(0))
    for device in context.devices:
        device.reset_peak()
    before = [device.allocated for device in context.devices]
    counts = da.histogram(x, 400_000, (-200, 200))[0].evaluate()
    assert counts.sum() == 300
    most = [device.peak - old for device, old in zip(context.devices, before, strict=True)]
    assert max(most) < 8 * 400_000 * 1.6, "counts and edges are spread"


@pytest.mark.parametrize("shares", [(4,), (2, 2), (1, 2)])
def test_grids_on_processes(shares: tuple[int, ...]) -> None:
    points = RNG.normal(size=(200, 3))
    bins = (50, 60, 41)

    def program() -> Any:
        x = da.asarray(points, layout=da.blocks(0))
        w = da.asarray(points[:, 0])
        return da.histogramdd(x, bins, weights=w)[0].get(), da.histogramdd(x, bins, [(-1, 1)] * 3)[0].get()

    expected = np.histogramdd(points, bins, weights=points[:, 0])[0], np.histogramdd(points, bins, [(-1, 1)] * 3)[0]
    for found in on_ranks(shares, program):
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-12)
