"""Numbers that processes hold in parts: folded in the order of the chunks, to NumPy's bits, without a warning."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import distarray as da
from conformance.ranks import on_ranks
from distarray.transfer import partial_numbers

FOLDS = {np.sum: np.add, np.prod: np.multiply, np.min: np.minimum, np.max: np.maximum}
PARTS: list[Sequence[float]] = [
    (0.1, 0.2, 0.3), (1e8, 1, -1e8), (-0.0, -0.0, -0.0), (3e38, 3e38, -3e38), (-3e38, -2e38, 1), (1.7e308, 1.7e308, 1),
    (np.inf, 1, -np.inf), (np.nan, 1, 2), (1, 2, np.nan), (1e-45, 1e-45, 1e-45), (16777216, 1, 1e-9),
]  # fmt: skip


@pytest.mark.parametrize("call", FOLDS, ids=lambda call: str(call.__name__))
@pytest.mark.parametrize("shares", [(1, 1, 1), (2, 1), (3,)], ids=str)
def test_numbers_in_parts_have_the_bits_of_the_fold_in_order(call: Any, shares: tuple[int, ...]) -> None:
    def program() -> list[tuple[Any, float]]:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = []
            for h in hosts:
                x = da.asarray(h, layout=da.blocks(0))
                found.append((call(x).get(), float(call(x))))
            return found

    with np.errstate(all="ignore"):
        hosts = [np.array(values).astype(dtype) for values in PARTS for dtype in ("float32", "float64")]
        fold = FOLDS[call]
        parts = [[fold.reduce(h[i : i + 1]) for i in range(3)] for h in hosts]  # NumPy's sum of -0.0 alone is 0.0
        expected = [fold(fold(first, second), third) for first, second, third in parts]
    for found in on_ranks(shares, program):
        for (value, number), wanted in zip(found, expected, strict=True):
            assert value.dtype == wanted.dtype
            if np.isnan(wanted):
                assert np.isnan(value) and np.isnan(number)
            else:
                assert value.tobytes() == wanted.tobytes()
                assert np.float64(number).tobytes() == np.float64(wanted).tobytes()


def test_an_overflow_raises_where_it_was_asked_for() -> None:
    def program() -> str:
        x = da.asarray(np.array([3e38, 3e38], np.float32), layout=da.blocks(0))
        with np.errstate(over="raise"), pytest.raises(FloatingPointError) as caught:
            float(x.sum())
        return str(caught.value)

    assert on_ranks((1, 1), program) == ["overflow encountered in add"] * 2


def test_sums_that_do_not_overflow_are_added_without_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    folded = partial_numbers._folded

    def noted(context: Any, fold: Any, parts: Any) -> Any:
        ways.append(fold)
        return folded(context, fold, parts)

    def program() -> tuple[float, float]:
        x = da.asarray(np.array([0.1, 0.2], np.float32), layout=da.blocks(0))
        return float(x.sum()), float(x.max())

    ways: list[Any] = []
    monkeypatch.setattr(partial_numbers, "_folded", noted)
    total = float(np.float32(0.1) + np.float32(0.2))
    assert on_ranks((1, 1), program) == [(total, float(np.float32(0.2)))] * 2
    assert set(ways) == {np.maximum}
