"""The order of what one device holds: NumPy's stable order, whatever the way to it."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from distarray.devices import ordering


def close(n: int, rng: np.random.Generator) -> Any:
    """Numbers that differ in their last bits alone, beside some that are far off."""
    a = 1 + rng.integers(0, 50, n) * 2.0**-52
    a[:: max(n // 20, 1)] = rng.standard_normal(len(a[:: max(n // 20, 1)])) * 1e300
    return a


def extremes(dtype: str, n: int, rng: np.random.Generator) -> Any:
    kind = np.dtype(dtype)
    if kind.kind == "f":
        values = np.array(
            [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, np.finfo(kind).max, np.finfo(kind).tiny, 1], kind
        )
    else:
        values = np.array([np.iinfo(kind).min, np.iinfo(kind).max, 0, 1, 7], kind)
    return values[rng.integers(0, len(values), n)]


@pytest.mark.parametrize("length", [1, 2, 255, 256, 5000])
@pytest.mark.parametrize("dtype", ["i4", "u4", "i8", "u8", "f4", "f8"])
def test_argsort_is_stable(dtype: str, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "_FEW", 0)
    rng = np.random.default_rng(length)
    kind = np.dtype(dtype)
    wide = rng.integers(np.iinfo("i8").min, np.iinfo("i8").max, length)
    for a in (
        extremes(dtype, length, rng),
        (rng.standard_normal(length) * 1e3 if kind.kind == "f" else wide.view(np.uint64)).astype(kind),
        (rng.random(length) * 5).astype(kind),
        np.where(rng.random(length) < 0.5, extremes(dtype, length, rng), (rng.random(length) * 9).astype(kind)),
        close(length, rng).astype(kind) if dtype == "f8" else np.ones(length, kind),
    ):
        np.testing.assert_array_equal(ordering.argsort(np, [a]), np.argsort(a, kind="stable"))
        lines = np.stack([a, a[::-1], np.roll(a, 3)])
        for these in (lines, np.asfortranarray(lines)):
            np.testing.assert_array_equal(ordering.argsort(np, [these]), np.argsort(these, axis=-1, kind="stable"))


@pytest.mark.parametrize("few", [20, 2000])
def test_keys_that_differ_in_their_last_bits(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few of them are mended, many sorted by NumPy."""
    monkeypatch.setattr(ordering, "_FEW", 0)
    rng = np.random.default_rng(few)
    a = rng.standard_normal(5000) * 10.0 ** rng.integers(-300, 300, 5000)
    a[rng.permutation(5000)[:few]] = 1 + rng.integers(0, 9, few) * 2.0**-52
    assert (ordering._packed_argsort(a, 13) is None) == (few > 625)
    np.testing.assert_array_equal(ordering.argsort(np, [a]), np.argsort(a, kind="stable"))


@pytest.mark.parametrize("dtype", [">f8", ">i4", "M8[s]", "m8[ms]", "longdouble", "f2", "?"])
def test_other_keys_are_left_to_numpy(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "_FEW", 0)
    a = np.random.default_rng(0).integers(0, 9, 300).astype(dtype)
    if a.dtype.kind in "mM":
        a[::7] = "NaT"
    np.testing.assert_array_equal(ordering.argsort(np, [a]), np.argsort(a, kind="stable"))


def test_a_cut_leaves_nothing_to_the_garbage_collector() -> None:
    """Whatever refers to itself would keep the arrays that were cut."""
    a = np.random.default_rng(2).standard_normal(5000)
    gc.collect()
    gc.disable()
    try:
        ordering.cut_at(np, np.empty_like(a), [(np.float64(v), None) for v in (-1, 0, 1)], a)
        assert gc.collect() == 0
    finally:
        gc.enable()
