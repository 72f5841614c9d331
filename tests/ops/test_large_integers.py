"""Python integers that no dtype holds, and dates beside numbers, in functions that look for elements: NumPy's answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import distarray as da

ARRAYS = {
    "i8": np.array([-(2**63), 0, 3, 2**63 - 1]),
    "u1": np.array([0, 7, 200, 255], "u1"),
    "u8": np.array([0, 1, 2**63, 2**64 - 1], "u8"),
    "f8": np.array([-np.inf, 0.0, 2.0**64, 2.0**70, 1e300, np.inf, np.nan]),
    "f2": np.array([0, 1, 6e4, np.inf], "f2"),
    "?": np.array([False, True]),
}
INTEGERS: list[Any] = [
    2**64,
    [2**64, 1],
    [[2**64 + 1], [3]],
    -(2**63) - 1,
    [-(2**70), 2**70, 0],
    10**400,
    [-(10**400), 2**64],
]
CALLS = {
    "isin": lambda a, v: np.isin(a, v),
    "none of them": lambda a, v: np.isin(a, v, invert=True),
    "the other way": lambda a, v: np.isin(v, a),
    "searchsorted": lambda a, v: np.searchsorted(a, v),
    "on the right": lambda a, v: a.searchsorted(v, "right"),
    "with a sorter": lambda a, v: np.searchsorted(a, v, sorter=np.arange(len(a))),
    "setdiff1d": lambda a, v: np.setdiff1d(a, v),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("dtype", ARRAYS)
def test_python_integers_of_any_size(call: str, dtype: str) -> None:
    a = ARRAYS[dtype]
    with da.init(devices=3, kind="host", minimum_chunk=1):
        for value in INTEGERS:
            expected = CALLS[call](a, value)
            for layout in (da.blocks(0), da.replicated(), None):
                found = CALLS[call](da.asarray(a, layout=layout), value)
                assert isinstance(found, da.DistributedArray)
                assert found.dtype == expected.dtype
                np.testing.assert_array_equal(found.get(), expected)


def test_places_and_points_of_any_size() -> None:
    a = np.array([0.0, 1.0, 5.0])
    with da.init(devices=2, kind="host", minimum_chunk=1):
        x = da.asarray(a, layout=da.blocks(0))
        for points in (2**70, [2**70, 1], [-(2**70), 3]):
            np.testing.assert_array_equal(np.asarray(np.interp(points, x, x)), np.interp(points, a, a))
        with pytest.raises(TypeError, match="object"):  # objects would come of it
            np.intersect1d(x, [2**64])
        with pytest.raises(TypeError, match="object"):
            np.searchsorted(x, [2**64, None])


DATES = np.array(["2000-01-01", "NaT"], "M8[D]")


@pytest.mark.parametrize("other", [np.arange(3), np.arange(3.0), np.array([True]), np.array([1j]), [1], 1.5])
def test_no_date_is_a_number(other: Any) -> None:
    with da.init(devices=2, kind="host", minimum_chunk=1):
        x = da.asarray(DATES, layout=da.blocks(0))
        assert np.isin(x, other).tolist() == [False, False]
        assert np.isin(x, other, invert=True).tolist() == [True, True]
        assert np.isin(other, x).tolist() == np.zeros(np.shape(other), bool).tolist()
        np.testing.assert_array_equal(np.setdiff1d(x, other).get(), np.setdiff1d(DATES, other))


@pytest.mark.parametrize("function", [np.union1d, np.intersect1d, np.setxor1d])
def test_dates_and_time_spans_are_no_set(function: Any) -> None:
    spans = np.array([1, 2], "m8[s]")
    with da.init(devices=2, kind="host", minimum_chunk=1):
        for one, other in ((DATES, spans), (spans, DATES)):
            for arrays in ((one, other), (da.asarray(one), da.asarray(other))):
                with pytest.raises(TypeError):
                    function(*arrays)
