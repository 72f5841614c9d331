"""What programs of others found: arguments that NumPy refuses or reads otherwise, dtypes that nothing joins, bytes in another
order, conditions of values that are still partial."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import distarray as da


@pytest.fixture(params=[1, None], ids=["spread", "whole"], autouse=True)
def three(request: pytest.FixtureRequest) -> Iterator[None]:
    with da.init(devices=3, kind="host", minimum_chunk=request.param):
        yield


def outcome(call: Callable[[], Any]) -> Any:
    """The value, or the builtin type of what is raised."""
    try:
        value = call()
    except Exception as error:
        return next(c for c in type(error).__mro__ if c.__module__ == "builtins")
    return (
        [np.asarray(part).tolist() for part in value]
        if isinstance(value, (tuple, list))
        else np.asarray(value).tolist()
    )


ORDERED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda m, x, o: m.add(x, 1, order=o),
    "outer": lambda m, x, o: m.add.outer(x, x, order=o),
    "frexp": lambda m, x, o: m.frexp(x, order=o),
    "matmul": lambda m, x, o: m.matmul(x, x, order=o),
    "vecdot": lambda m, x, o: m.vecdot(x, x, order=o),
    "clip": lambda m, x, o: m.clip(x, 0, 1, order=o),
    "einsum": lambda m, x, o: m.einsum("ij->ji", x, order=o),
    "zeros": lambda m, x, o: m.zeros(3, order=o),
    "ones": lambda m, x, o: m.ones(3, order=o),
    "full": lambda m, x, o: m.full(3, 1, order=o),
    "eye": lambda m, x, o: m.eye(2, order=o),
    "zeros_like": lambda m, x, o: m.zeros_like(x, order=o),
    "full_like": lambda m, x, o: m.full_like(x, 2, order=o),
    "array": lambda m, x, o: m.array(x, order=o),
    "asarray": lambda m, x, o: m.asarray(x, order=o),
    "copy": lambda m, x, o: m.copy(x, order=o),
    "x.copy": lambda m, x, o: x.copy(o),
    "ravel": lambda m, x, o: x.ravel(o),
    "flatten": lambda m, x, o: x.flatten(o),
    "reshape": lambda m, x, o: x.reshape(-1, order=o),
    "unravel_index": lambda m, x, o: m.unravel_index(m.asarray([1]), (2, 2), order=o),
    "ravel_multi_index": lambda m, x, o: m.ravel_multi_index(([1], [1]), (2, 2), order=o),
}


@pytest.mark.parametrize("name", ORDERED)
def test_a_memory_order_is_read_as_numpy_reads_it(name: str) -> None:
    call, a = ORDERED[name], np.arange(4.0).reshape(2, 2)
    for order in (None, "c", "F", "k", "CF", "", "x", 1, True, b"C", b"x"):
        expected = outcome(lambda: call(np, a, order))  # noqa: B023 - called at once
        got = outcome(lambda: call(da, da.asarray(a, layout=da.blocks(0)), order))  # noqa: B023
        assert got == expected, order


DATES, SPANS = np.arange(5).astype("M8[s]"), np.arange(5).astype("m8[s]")

JOINED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "isin": lambda m, a, b: m.isin(a, b),
    "isin of none": lambda m, a, b: m.isin(a, b, invert=True),
    "setdiff1d": lambda m, a, b: m.setdiff1d(a, b),
    "intersect1d": lambda m, a, b: m.intersect1d(a, b),
    "intersect1d, indices": lambda m, a, b: m.intersect1d(a, b, return_indices=True),
    "setxor1d": lambda m, a, b: m.setxor1d(a, b),
    "union1d": lambda m, a, b: m.union1d(a, b),
    "select": lambda m, a, b: m.select([a == a], [a], b),
}


@pytest.mark.parametrize("name", JOINED)
@pytest.mark.parametrize(
    ("one", "other"),
    [(DATES, SPANS), (SPANS, DATES), (DATES, np.arange(5)), (np.arange(5.0), DATES), (SPANS, np.arange(5, dtype="u8")),
     (SPANS, np.arange(5))],
    ids=["dates, spans", "spans, dates", "dates, integers", "floats, dates", "spans, uint64", "spans, integers"],
)  # fmt: skip
def test_dates_and_time_spans_are_never_the_same_element(name: str, one: np.ndarray, other: np.ndarray) -> None:
    call = JOINED[name]
    got = outcome(lambda: call(da, da.asarray(one, layout=da.blocks(0)), da.asarray(other, layout=da.cyclic(0))))
    assert got == outcome(lambda: call(np, one, other))


@pytest.mark.parametrize("dtype", [">f8", ">i4", ">c16", ">f2", ">M8[D]"])
def test_results_are_in_the_byte_order_that_numpy_gives_them(dtype: str) -> None:
    a = np.arange(1, 13).reshape(3, 4).astype(dtype)
    calls: list[Callable[[Any, Any], Any]] = [
        lambda m, x: m.concatenate([x, x]),
        lambda m, x: m.stack([x, x]),
        lambda m, x: m.hstack([x, x]),
        lambda m, x: m.append(x, x),
        lambda m, x: m.block([x, x]),
        lambda m, x: m.union1d(x, x),
        lambda m, x: m.where(x == x, x, x[:1]),
        lambda m, x: m.tril(x),
        lambda m, x: m.insert(x, 0, x[0], axis=0),
        lambda m, x: m.insert(x, [0, 2], x[:2], axis=0),
        lambda m, x: m.delete(x, 1, axis=0),
        lambda m, x: m.tile(x, 2),
        lambda m, x: m.diag(x[0]),
        lambda m, x: m.repeat(x, 2),
        lambda m, x: np.lib.stride_tricks.sliding_window_view(x, 2, axis=0),
    ]
    if a.dtype.kind != "M":
        calls += [lambda m, x: m.round(x), lambda m, x: m.round(x, 1), lambda m, x: m.nan_to_num(x)]
    for number, call in enumerate(calls):
        expected, got = call(np, a), call(da, da.asarray(a, layout=da.blocks(0)))
        assert got.dtype.str == expected.dtype.str == got.get().dtype.str, number
        np.testing.assert_array_equal(got.get(), expected)


@pytest.mark.parametrize("how", ["warn", "raise"])
@pytest.mark.parametrize("reduction", ["min", "max"])
def test_extrema_that_are_not_folded_yet_warn_and_raise_as_numpys_do(reduction: str, how: Any) -> None:
    big = np.finfo(float).max
    calls: list[Callable[[Any], Any]] = [
        np.sqrt, lambda v: v * 2, lambda v: v * -3, lambda v: v - big, lambda v: v / 0.25, lambda v: v + 1,
    ]  # fmt: skip
    columns = [[-1.0, 2, 3], [big, -big, 1], [big, 1, 2], [-big, -1, -big], [big, np.inf, -np.inf]]
    for column in columns:  # of [big, 1, 2] the minimum overflows nowhere, and one device's part of it does
        a = np.array(column).reshape(3, 1)
        for call in calls:
            said = []
            for x in (a, da.asarray(a, layout=da.blocks(0))):
                with np.errstate(all=how), warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    value = outcome(lambda: call(getattr(x, reduction)(axis=0)))  # noqa: B023
                said.append((value, sorted(str(w.message) for w in caught)))
            np.testing.assert_equal(said[1], said[0])


def test_what_numpy_converts_is_converted_and_what_it_refuses_is_refused() -> None:
    a = np.arange(6.0).reshape(2, 3)
    calls: list[Callable[[Any, Any], Any]] = [
        lambda m, x: m.repeat(x, 1.5),
        lambda m, x: m.repeat(x, "2"),
        lambda m, x: m.repeat(x, "a"),
        lambda m, x: m.repeat(x, np.array(1.5)),
        lambda m, x: m.triu(x, "a"),
        lambda m, x: m.split(x, 1.5),
        lambda m, x: m.split(x, "a"),
        lambda m, x: m.array_split(x, "a"),
        lambda m, x: m.linalg.vector_norm(x, keepdims=None),
        lambda m, x: m.linalg.vector_norm(x, keepdims=np.True_),
        lambda m, x: m.linalg.matrix_norm(x, keepdims=None),
        lambda m, x: m.linalg.outer(x, x),
        lambda m, x: m.linalg.outer(x[0], x[1]),
        lambda m, x: m.eye(-1),
        lambda m, x: m.eye(2, -3),
        lambda m, x: m.identity(-1),
        lambda m, x: m.arange(np.datetime64("2000")),
        lambda m, x: m.arange(np.timedelta64(3, "s")),
        lambda m, x: m.add(x, 1, casting="x"),
    ]
    for number, call in enumerate(calls):
        got = outcome(lambda: call(da, da.asarray(a, layout=da.blocks(0))))  # noqa: B023
        assert got == outcome(lambda: call(np, a)), number  # noqa: B023


def test_more_devices_than_memory_holds_are_refused_at_once() -> None:
    with pytest.raises(da.DistArrayError, match="99999999999 devices are asked for"):
        da.init(devices=99999999999, kind="host")


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (2, 0, 4), (0,)])
def test_arrays_without_elements_have_numpys_strides(shape: tuple[int, ...]) -> None:
    assert da.zeros(shape).strides == np.zeros(shape).strides


@pytest.mark.parametrize(
    ("dtype", "number"), [("u8", 2), ("u8", True), ("u1", 300), ("f4", 0.1), ("f2", 1j), ("M8[s]", 2)]
)
def test_pythons_numbers_in_a_union_take_the_arrays_dtype(dtype: str, number: Any) -> None:
    h = np.array([2**63 + 1 if dtype == "u8" else 1, 3], "u8").astype(dtype)
    with da.init(devices=2, kind="host"):
        x = da.asarray(h, layout=da.blocks(0))
        for mine, its in (((x, number), (h, number)), ((number, x), (number, h))):
            if dtype == "M8[s]":
                with pytest.raises(TypeError):
                    np.union1d(*mine)
                continue
            found, wanted = np.union1d(*mine), np.union1d(*its)
            assert found.dtype == wanted.dtype and found.get().tolist() == wanted.tolist()
