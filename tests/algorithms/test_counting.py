"""Counts of integers, with few bins on every device and with many in parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import distarray as da
from conformance.ranks import SHARES, on_ranks
from distarray.algorithms import counting
from distarray.devices.kernels import Kernels
from distarray.fusion.native import run, vectors

LAYOUTS = [da.blocks(0), da.cyclic(0), da.replicated(), {0: [slice(0, 6), slice(4, 9)], 2: slice(2, 11)}]


@pytest.fixture(params=[1 << 16, 0], ids=["whole", "in parts"])
def few(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "FEW", request.param)
    if not request.param:
        monkeypatch.setattr(counting, "SPARSE", 0)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("dtype", ["i8", "u1", "i2", "?"])
def test_counts(layout: Any, dtype: str) -> None:
    a = np.array([1, 0, 1, 90, 7, 7, 0, 1, 60, 61, 7]).astype(dtype)
    w = np.linspace(-1, 2, 11)
    with da.init(devices=3, kind="host"):
        x = da.asarray(a, layout=layout)
        for weights, least in ((None, 0), (None, 200), (w, 0), (da.asarray(w), 200)):
            host = w if weights is not None else None
            got = np.bincount(x, weights, least)
            assert got.dtype == np.bincount(a, host, least).dtype
            np.testing.assert_allclose(got.get(), np.bincount(a, host, least), rtol=1e-15)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("shares", SHARES)
def test_processes_count_together(shares: tuple[int, ...]) -> None:
    def program() -> Any:
        x = da.asarray(np.array([5, 0, 5, 41, 2, 2]), layout=da.blocks(0))
        counts = np.bincount(x).get().tolist(), np.bincount(x, np.arange(6) / 4, 60).get().tolist()
        with pytest.raises(ValueError, match="negative"):
            np.bincount(x - 2)
        with pytest.raises(ValueError, match="too big"):
            np.bincount(x + (2**62 + 5))
        return counts

    x = np.array([5, 0, 5, 41, 2, 2])
    expected = np.bincount(x).tolist(), np.bincount(x, np.arange(6) / 4, 60).tolist()
    assert all(found == expected for found in on_ranks(shares, program))


def test_bins_that_are_nearly_all_empty_take_the_memory_of_the_result() -> None:
    n = 1 << 20
    with da.init(devices=4, kind="host", memory_limit=n * 8 // 4 + 4096) as c:
        counts = np.bincount(da.asarray(np.array([3, n - 1, 3]), layout=da.blocks(0)))
        assert [region.size for _, region in counts.layout.chunks] == [n // 4] * 4
        assert counts.mode is da.REPLICA
        assert int(counts[3]) == 2
        assert int(counts[n - 1]) == 1
        assert c.devices
        with pytest.raises(MemoryError, match="limit"):
            np.bincount(da.asarray(np.array([3, 4 * n]), layout=da.blocks(0)))


@pytest.mark.skipif(not run.is_offered(), reason="kernels are compiled where llvmlite is installed, on x86-64")
@pytest.mark.parametrize("n", [0, 1, 3, 4, 1000, 20_003])
@pytest.mark.parametrize("layout", LAYOUTS[:3], ids=str)
def test_compiled_counts(monkeypatch: pytest.MonkeyPatch, n: int, layout: Any) -> None:
    asked = []
    compiled = vectors._counts_text
    monkeypatch.setattr(vectors, "_counts_text", lambda: asked.append(n) or compiled())
    monkeypatch.setattr(run, "LEAST", 1)
    monkeypatch.setattr(run, "KEPT", 0)
    monkeypatch.setattr(run, "LOADED", 0)
    monkeypatch.setattr(run, "COMPILED", 0)
    monkeypatch.setattr(run, "_FUNCTIONS", Kernels())
    rng = np.random.default_rng(n)
    with da.init(devices=3, kind="host"):
        for top in (1, 7, counting.QUICK, counting.QUICK + 1):
            a = rng.integers(0, top, n)
            a[n // 2 : n // 2 + 1] = top - 1
            for host in (a, np.repeat(a, 2)[::2]):
                x = da.asarray(host, layout=layout)
                got = np.bincount(x).get()
                assert got.dtype == np.intp
                assert got.tolist() == np.bincount(host).tolist()
        for place in {0, n // 2, n - 1} if n else ():
            for bad, message in ((-1, "negative"), (-(2**63), "negative"), (2**63 - 1, "too big")):
                a = rng.integers(0, 5, n)
                a[place] = bad
                with pytest.raises(ValueError, match=message):
                    np.bincount(da.asarray(a, layout=layout))
    assert asked or not n


@pytest.mark.parametrize("dtype", ["f8", "f4", "u1", "i4"])
@pytest.mark.parametrize("bins", [1, 3, 10, 255, 1000])
def test_bins_of_one_width_are_numpys(dtype: str, bins: int) -> None:
    """Elements on edges, and beside them by one rounding, are where NumPy has them."""
    rng = np.random.default_rng(bins)
    edges = np.linspace(-3.0, 7.3, bins + 1)
    near = np.concatenate([edges, np.nextafter(edges, -9), np.nextafter(edges, 9), rng.normal(size=500) * 5]).astype(
        dtype
    )
    counts, found = np.histogram(near, bins)
    assert np.array_equal(counting.counted_evenly(near, found), counts)
    with da.init(devices=3, kind="host"):
        ours = np.histogram(da.asarray(near, layout=da.blocks(0)), bins)
        assert np.array_equal(ours[0].get(), counts)
        assert np.array_equal(ours[1].get(), found)


@pytest.mark.parametrize("ends", [(0.0, 5e-324), (-1.7e308, 1.7e308), (0.0, 1e-310)])
def test_bins_whose_width_is_no_number_are_left_to_numpy(ends: tuple[float, float]) -> None:
    assert counting.counted_evenly(np.array(ends), np.array([ends[0], ends[1] / 2, ends[1]])) is None
