"""What NumPy converts, and what it refuses first: of two mistakes the same one is named, and nothing is written."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import distarray as da
from conformance.checking import on_gpu

pytestmark = pytest.mark.usefixtures("four")

LAYOUTS = [da.blocks(0), da.blocks(1), da.cyclic(0), da.replicated()]


def outcome(call: Any, h: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            value = call(h)
        except (ValueError, TypeError, IndexError, OverflowError) as error:
            return next(t for t in (TypeError, OverflowError, IndexError, ValueError) if isinstance(error, t)), str(
                error
            )[:30]
        value = h if value is None else value
        found = value.get() if isinstance(value, da.DistributedArray) else np.asarray(value)
    return found.dtype, found.tolist(), {w.category for w in caught}


def same(call: Any, dtype: str = "f8") -> None:
    h = np.arange(12.0).reshape(4, 3).astype(dtype)
    expected = outcome(call, h.copy())
    for layout in LAYOUTS:
        found = outcome(call, da.asarray(h, layout=layout))
        if isinstance(expected[0], type):
            assert found[0] is expected[0], (found, expected)
        elif on_gpu():
            np.testing.assert_array_equal(found[1], expected[1])
        else:
            assert found[0] == expected[0] and found[2] == expected[2]
            np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ([9], np.zeros(5)), (([0, 1], [0, 9]), np.zeros(5)), ([9], np.zeros((0, 3))), ([9], np.ones(3)), ([-9], np.zeros(5)),
        ([9], "a"), ([9], [[1], [1, 2]]), ([9], np.ones(3) * 1j), (np.zeros(0, int), np.zeros(5)), (([0], [0, 1, 2]), 1),
        (([0, 1], [0, 1, 2]), np.zeros(9)), (np.ones(5, bool), np.zeros(7)), (9, np.zeros(5)),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["f8", "i8"])
def test_a_value_that_does_not_fit_is_named_before_an_index(key: Any, value: Any, dtype: str) -> None:
    same(lambda a: a.__setitem__(key, value), dtype)


@pytest.mark.parametrize(
    "arguments",
    [
        (1, np.zeros(5), 0), ([1, 2], np.zeros((3, 3)), 0), ([1, 9], np.zeros((3, 3)), 0), (9, np.zeros(5), 0), (1, 1j, 0),
        (1, [1j], 0), (1, np.nan, 0), (1, [np.nan, 1, 2], 0), ([], np.zeros(7), 0), (slice(1, 3), np.zeros(7), 0),
        (1, np.zeros((2, 2, 2)), 0), (1, [5, 6], None), (1, 300, 0), ([0, 2], [[7], [8]], 0), (1, 2.5, 1),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["f8", "i8", "u1"])
def test_insert(arguments: Any, dtype: str) -> None:
    same(lambda a: np.insert(a, *arguments), dtype)


@pytest.mark.parametrize(
    "values",
    [1j, 1 + 0j, np.array([1j, 2]), np.complex128(1j), ((1j, 2), (3, 4)), None, 2.5, -1, 300, 1e300, (1, 2), -0.0,
     ((1, 2), (3, 300)), (1, 2, 3)],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["f8", "i8", "u1", "c16", "f2"])
def test_pad(values: Any, dtype: str) -> None:
    if on_gpu() and (values is None or (isinstance(values, float) and values == 1e300)):
        pytest.skip("conversions that C leaves undefined")
    same(lambda a: np.pad(a, 1, constant_values=values), dtype)


def test_a_border_of_negative_zeros() -> None:
    assert np.signbit(np.pad(da.zeros(3), 1, constant_values=-0.0).get()).tolist() == [True, False, False, False, True]


CASTS: list[Any] = [
    lambda x: x.astype("f4"), lambda x: (x * 2).astype("i4"), lambda x: da.asarray(x, dtype="f4"), lambda x: np.array(x, "f4"),
    lambda x: da.array(x, dtype="i8"), lambda x: np.asarray(x, dtype="f4"), lambda x: da.asarray(x.get(), dtype="f4"),
    lambda x: np.cumsum(x, dtype="f4").get(), lambda x: x[1:].astype("f4").get(), lambda x: x.to_numpy("f4"),
    lambda x: da.zeros(4).__setitem__(slice(None), x), lambda x: da.linspace(1j, 2, 4, dtype="f4").get(),
    lambda x: np.linspace(x, 2 * x, 4, dtype="f4").get(),
]  # fmt: skip


@pytest.mark.parametrize("devices", [1, 4])
@pytest.mark.parametrize("number", range(len(CASTS)))
def test_a_dropped_imaginary_part_is_warned_of_once_at_the_callers_line(number: int, devices: int) -> None:
    with da.init(devices=devices, kind="host"):
        for layout in (da.blocks(0), da.replicated()):
            x = da.asarray(np.array([1j, 2, 3, 5]), layout=layout)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                CASTS[number](x)
            assert [(w.category, w.filename) for w in caught] == [(np.exceptions.ComplexWarning, __file__)]


def test_numbers_are_weak_in_choose() -> None:
    number, x = np.array([0, 1, 0]), np.ones(3, "f4")
    for choices in ([x, 0.1], [x.astype("u1"), 300], [x.astype("i1"), 2.5], [x, 1j], [x.astype("f2"), np.float64(1)]):
        expected = np.choose(number, choices)
        found = np.choose(da.asarray(number), [da.asarray(c) if isinstance(c, np.ndarray) else c for c in choices])
        assert found.dtype == expected.dtype  # type: ignore[attr-defined]
        np.testing.assert_array_equal(np.asarray(found), expected)


@pytest.mark.parametrize("devices", [1, 3])
@pytest.mark.parametrize("dtype", "u1 i1 i4 u8 f2 f4".split())
def test_one_number_is_converted_or_refused_wherever_it_is_written(dtype: str, devices: int) -> None:
    """Also by the short ways, of whole arrays and of what lies in one chunk."""
    if on_gpu():
        pytest.skip("conversions that C leaves undefined")
    keys: list[Any] = [
        0,
        slice(0, 2),
        slice(None),
        (slice(0, 2), 0),
        (0, 0),
        [0, 1],
        np.array([True, False, True, False]),
    ]
    values = [
        300,
        -1,
        2**70,
        1.5,
        np.nan,
        1e300,
        1j,
        None,
        np.int64(300),
        np.float64(1e300),
        np.array(300),
        np.array([300]),
    ]
    with da.init(devices=devices, kind="host"):
        for layout, value in ((layout, value) for layout in (None, da.blocks(0)) for value in values):
            writes = [lambda a, key=key, value=value: a.__setitem__(key, value) for key in keys]
            writes += [lambda a, value=value: a.fill(value), lambda a, value=value: np.fill_diagonal(a, value)]
            for write in writes:
                h = np.zeros((4, 3), dtype)
                expected, found = outcome(write, h.copy()), outcome(write, da.asarray(h, layout=layout))
                assert isinstance(expected[0], type) == isinstance(found[0], type), (value, expected, found)
                assert found[0] == expected[0]
                if not isinstance(expected[0], type):
                    np.testing.assert_array_equal(found[1], expected[1])


def test_host_arrays_of_objects_that_are_floats_are_operands() -> None:
    """Matplotlib makes some of lists of arrays. Distributed numbers among them would be fetched one by one: refused, as are
    integers, which never wrap as objects, and what no distributed array holds."""
    numbers = np.array([1, 2.5, np.float32(3), True], object)
    others = np.empty((7, 4), object)
    others[:] = 1.0
    others[0, 3] = None
    others[2] = [4, 3, 2, np.int64(1)]
    others[3] = True
    others[4, 0] = np.longdouble(1)
    others[5, 0] = 2**60 + 1
    others[6, 0] = np.timedelta64(1, "s")
    for layout in LAYOUTS[::2]:
        x = da.asarray(np.arange(4.0), layout=layout)
        for found in (x * numbers, numbers * x):
            assert found.dtype == np.float64
            np.testing.assert_array_equal(found.get(), [0, 2.5, 6, 3])
        others[1, 3] = x[0]
        for refused in others:
            with da.ledger() as log, pytest.raises(TypeError, match="object"):
                _ = x * refused
            assert not log.moves
