"""Sorts of structured elements by their fields, and the positions that ``searchsorted`` takes from a sorter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import distarray as da
from conformance.contexts import context

RECORD = np.dtype([("a", "i4"), ("b", "f8"), ("c", "i2", (2,))])


def records(*shape: int) -> Any:
    rng = np.random.default_rng(0)
    a = np.zeros(shape, RECORD)
    for name in ("a", "b"):
        a[name] = rng.integers(0, 3, shape)
    a["c"] = rng.integers(0, 2, (*shape, 2))
    return a


@pytest.mark.parametrize("order", [None, "b", ["b", "a"], ["c", "b"], ("a",)])
@pytest.mark.parametrize("axis", [0, 1, None])
def test_structured_elements_are_sorted_by_the_fields_that_are_named(order: Any, axis: Any) -> None:
    a = records(12, 3)
    with da.init(devices=3, kind="host"):  # GPUs refuse structures
        x = da.asarray(a, layout=da.blocks(0))
        expected = np.sort(a, axis, order=order)
        np.testing.assert_array_equal(np.sort(x, axis, order=order).get(), expected)
        at = np.argsort(x, axis, order=order)
        line = (x.get().ravel(), -1) if axis is None else (a, axis)
        np.testing.assert_array_equal(np.take_along_axis(line[0], at.get(), line[1]), expected)
        place = np.partition(x, 2, axis, order=order)
        assert place.dtype == RECORD
        third = np.take(expected, 2, -1 if axis is None else axis)
        np.testing.assert_array_equal(np.take(place.get(), 2, -1 if axis is None else axis), third)
        at = np.argpartition(x, 2, axis, order=order).get()
        np.testing.assert_array_equal(np.take(np.take_along_axis(line[0], at, line[1]), 2, line[1]), third)
        if axis is not None:
            x.sort(axis, order=order)
            np.testing.assert_array_equal(x.get(), expected)


def test_fields_that_do_not_exist_are_refused() -> None:
    with da.init(devices=2, kind="host"):
        x = da.asarray(records(5))
        for order in ("z", ["a", "a"], ["a", "z"]):
            with pytest.raises(ValueError, match="field"):
                np.sort(x, order=order)
        with pytest.raises(ValueError, match="order"):
            np.sort(x["a"], order="a")


@pytest.mark.parametrize("place", [-1, 5])
def test_a_sorter_out_of_range_is_refused(place: int) -> None:
    with context(3):
        x = da.asarray(np.arange(5), layout=da.blocks(0))
        sorter = np.array([0, 1, place, 3, 4])
        with pytest.raises(ValueError, match="Sorter index out of range"):
            np.searchsorted(x, [2, 3], sorter=da.asarray(sorter, layout=da.blocks(0)))
        assert np.searchsorted(x, np.zeros(0), sorter=sorter).shape == (0,)
