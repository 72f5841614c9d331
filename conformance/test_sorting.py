"""Sorting, searching in sorted arrays, and sets: the values and orders of NumPy's stable sorts over every layout, mode and
dtype; what moves, and what it takes in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import distarray as da
from conformance.checking import assert_same, both, check_invariants, on_gpu
from conformance.contexts import context, examples, kind
from conformance.ranks import SHARES, on_ranks
from conformance.strategies import BFLOAT16, NUMPY, arrays, axes, device_counts, dtypes, layouts, pairs, shapes
from distarray.algorithms import lookup, sample_sort, sorting
from distarray.devices import ordering

SORTED_DTYPES = NUMPY if not on_gpu() else [t for t in NUMPY if t.kind != "c"]


@contextmanager
def few_samples() -> Iterator[None]:
    """Small arrays take the ways of large ones, and splitters are far off."""
    kept = (sample_sort.SAMPLES, sorting.SHORT, lookup.FEW_BYTES, ordering._FEW)
    sample_sort.SAMPLES, sorting.SHORT, lookup.FEW_BYTES, ordering._FEW = 2, 0, 0, 1
    try:
        yield
    finally:
        sample_sort.SAMPLES, sorting.SHORT, lookup.FEW_BYTES, ordering._FEW = kept


def both_ways(test: Callable[..., None]) -> Callable[..., None]:
    """The test runs with rounds of few samples, and as the thresholds are set. They hold for it alone, in whatever order tests run:
    a fixture for each test would be none to hypothesis."""

    @pytest.mark.parametrize("way", [few_samples, nullcontext], ids=["rounds of few samples", "as set"])
    @wraps(test)
    def run(way: Any, **given_: Any) -> None:
        with way():
            test(**given_)

    names = signature(test).parameters.values()
    run.__signature__ = Signature(
        [Parameter("way", Parameter.KEYWORD_ONLY), *(p.replace(kind=Parameter.KEYWORD_ONLY) for p in names)]
    )
    return run


@st.composite
def keys(draw: st.DrawFn, shape: Any = None, dtype: Any = None, top: int | None = None) -> np.ndarray:
    """An array with equal elements among its keys, and extreme ones."""
    shape = draw(shapes(max_dims=3)) if shape is None else shape
    dtype = draw(dtypes(SORTED_DTYPES)) if dtype is None else np.dtype(dtype)
    top = draw(st.sampled_from([1, 3, 100])) if top is None else top
    a = draw(arrays(shape, dtype, top=top))
    return a if a.dtype.kind == "b" else np.asarray(np.where(a == a, np.trunc(a.real), a)).astype(dtype)


# --- sort, argsort ------------------------------------------------------------------------------------------------------


@both_ways
@examples(3)
@given(data=st.data(), n=device_counts)
def test_sort_and_argsort(data: st.DataObject, n: int) -> None:
    """Values, and the order of equal keys, bit for bit, in both directions."""
    pair = data.draw(pairs(data.draw(keys()), n))
    x, a = pair.x, pair.ref
    axis = data.draw(st.none() | axes(a.ndim)) if a.ndim else data.draw(st.sampled_from([None, -1]))
    down = data.draw(st.booleans())

    def order(v: np.ndarray) -> np.ndarray:
        if not down:
            return np.argsort(v, axis=axis, kind="stable")
        if axis is None:
            v = v.reshape(-1)
        at = 0 if axis is None or not v.ndim else axis
        if v.dtype.kind in "fc":  # NaN come last
            return np.argsort(-v, axis=at, kind="stable")
        length = v.shape[at] if v.ndim else 1
        return length - 1 - np.flip(np.argsort(np.flip(v, at) if v.ndim else v, axis=at, kind="stable"), at)

    def values(v: np.ndarray) -> np.ndarray:
        if not down:
            return np.sort(v, axis=axis, kind="stable")
        found = np.sort(v, axis=axis, kind="stable")  # raises as it does
        at = 0 if axis is None else axis
        if v.dtype.kind in "fc":
            return -np.sort(-(v.reshape(-1) if axis is None else v), at, kind="stable")
        return np.flip(np.sort(np.flip(v.reshape(-1) if axis is None else v, at), at, kind="stable"), at).reshape(
            found.shape
        )

    with context(n):
        both(lambda: values(a), lambda: da.sort(x, axis, descending=down))
        both(lambda: order(a), lambda: da.argsort(x, axis, descending=down))
        if not down:
            both(lambda: np.sort(a, axis, stable=True), lambda: np.sort(x, axis, stable=True))


@both_ways
@given(data=st.data(), n=device_counts)
def test_results_are_well_laid_out(data: st.DataObject, n: int) -> None:
    a = data.draw(keys(shape=data.draw(shapes(min_dims=1, max_dims=2))))
    with context(n):
        x = data.draw(pairs(a, n)).x
        axis = data.draw(axes(a.ndim))
        for result in (da.sort(x, axis), da.argsort(x, axis)):
            if a.ndim == 1 and a.size and not sorting.is_whole(x.layout, 0):
                sizes = {d: sum(r[0].stop - r[0].start for r in own) for d, own in result.index_map.items()}
                assert max(sizes.values()) - min(sizes.values()) <= 1
                assert set(sizes) == set(x.devices)
            check_invariants(result)


@both_ways
@given(data=st.data(), n=device_counts)
def test_sort_in_place(data: st.DataObject, n: int) -> None:
    """A view sorts what it shows."""
    pair = data.draw(pairs(data.draw(keys(shape=data.draw(shapes(min_dims=1)))), n))
    axis = data.draw(axes(pair.ref.ndim))
    with context(n):
        assert pair.x.sort(axis) is None
        pair.ref.sort(axis, kind="stable")
        assert_same(pair.x, pair.ref)
        assert_same(pair.base_x, pair.base_ref)


@pytest.mark.skipif(on_gpu(), reason="CuPy has no bfloat16")
def test_bfloat16() -> None:
    a = np.array([1, np.nan, -2, np.inf, 0.5, 1, np.nan, -np.inf, -0.0, 0, 3] * 4).astype(BFLOAT16)
    with context(3):
        x = da.asarray(a, layout=da.blocks(0))
        order = np.argsort(a.astype(np.float32), kind="stable")
        assert_same(da.argsort(x), order)
        assert_same(da.sort(x), a[order])
        assert_same(da.unique(x), np.unique(a.astype(np.float32)).astype(BFLOAT16))


@both_ways
@given(data=st.data(), n=device_counts)
def test_lexsort(data: st.DataObject, n: int) -> None:
    shape = data.draw(shapes(max_dims=2))
    pieces = [data.draw(pairs(data.draw(keys(shape=shape, top=2)), n)) for _ in range(data.draw(st.integers(1, 3)))]
    axis = data.draw(axes(max(len(shape), 1)))
    with context(n):
        both(lambda: np.lexsort([p.ref for p in pieces], axis), lambda: np.lexsort(tuple([p.x for p in pieces]), axis))


@both_ways
@given(data=st.data(), n=device_counts)
def test_partitions(data: st.DataObject, n: int) -> None:
    pair = data.draw(pairs(data.draw(keys()), n))
    a, x = pair.ref, pair.x
    axis = data.draw(st.none() | axes(a.ndim)) if a.ndim else None
    length = a.size if axis is None else a.shape[axis]

    def rank(v: Any) -> Any:
        return np.searchsorted(np.sort(a, None), v)

    kth = data.draw(st.integers(-length - 1, length)) if length else 0
    with context(n):
        fine = both(
            lambda: np.zeros_like(np.partition(a, kth, axis)), lambda: np.zeros_like(np.partition(x, kth, axis))
        )
        both(lambda: np.argpartition(a, kth, axis) * 0, lambda: np.argpartition(x, kth, axis) * 0)
        if not (fine and a.size):  # of an empty array NumPy takes any `kth`
            return
        ref = np.sort(a, axis)
        at = 0 if axis is None else axis
        flat = a.reshape(-1) if axis is None else a
        for places in ([kth % length], sorted({kth % length, length // 2, 0})):
            parted = np.asarray(np.partition(x, places, axis))
            taken = np.take_along_axis(flat, np.asarray(np.argpartition(x, places, axis)), at)
            for values in (parted, taken):
                assert np.array_equal(rank(np.sort(values, at)), rank(ref))
                lines = np.moveaxis(rank(values), at, -1)
                for place in places:
                    assert np.array_equal(lines[..., place], rank(np.take(ref, place, at)))
                    middle = lines[..., place : place + 1]
                    assert (lines[..., :place] <= middle).all() and (lines[..., place:] >= middle).all()


def best(a: Any, k: int, axis: int | None, mode: str) -> tuple[Any, Any]:
    """What ``top_k`` returns, by a stable sort of all."""
    if axis is None or not a.ndim:
        a, axis = a.reshape(-1), 0
    if not 0 <= k <= a.shape[axis]:
        raise ValueError("k")
    if mode == "largest":
        order = a.shape[axis] - 1 - np.flip(np.argsort(np.flip(a, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(a, axis, kind="stable")
    order = np.take(order, np.arange(k), axis)
    return np.take_along_axis(a, order, axis), order


@both_ways
@given(data=st.data(), n=device_counts)
def test_top_k(data: st.DataObject, n: int) -> None:
    pair = data.draw(pairs(data.draw(keys()), n))
    a, x = pair.ref, pair.x
    axis = data.draw(st.none() | axes(a.ndim)) if a.ndim else None
    length = a.size if axis is None else a.shape[axis]
    k, mode = data.draw(st.integers(-1, length + 1)), data.draw(st.sampled_from(["largest", "smallest"]))
    with context(n):
        both(lambda: best(a, k, axis, mode)[0], lambda: da.top_k(x, k, axis=axis, mode=mode)[0])
        both(lambda: best(a, k, axis, mode)[1], lambda: da.top_k(x, k, axis=axis, mode=mode)[1])


def test_the_best_of_long_lines_move_alone() -> None:
    a = np.random.default_rng(0).integers(0, 1000, 40_000).astype(np.float32)
    with context(4):
        x = da.asarray(a, layout=da.blocks(0))
        for mode in ("largest", "smallest"):
            with da.ledger() as log:
                values, order = da.top_k(x, 100, mode=mode)
            assert log.bytes_moved <= (4 + 4) * 100 * (4 + 8)
            assert_same(values, best(a, 100, 0, mode)[0])
            assert_same(order, best(a, 100, 0, mode)[1])
        with da.ledger() as log:
            np.partition(x, [5, 20_000, 30_000])
        assert log.bytes_moved <= 1.1 * a.nbytes + 4 * 1024 * 4 * 4
        with da.ledger() as log:
            np.argpartition(x, [5, 20_000, 30_000])
        assert log.bytes_moved <= 8 * len(a)


ERRORS = {
    "axis": lambda xp, x: xp.sort(x, 2),
    "axis of argsort": lambda xp, x: xp.argsort(x, -3),
    "kind": lambda xp, x: xp.sort(x, kind="bubble"),
    "kind and stable": lambda xp, x: xp.argsort(x, kind="stable", stable=True),
    "order": lambda xp, x: xp.sort(x, order="f0"),
    "no keys": lambda xp, x: xp.lexsort([]),
    "keys of two shapes": lambda xp, x: xp.lexsort([x, x[0]]),
    "axis of lexsort": lambda xp, x: xp.lexsort([x, x], 2),
    "kth": lambda xp, x: xp.partition(x, 9),
    "kth of bool": lambda xp, x: xp.partition(x, True),
    "kth of float": lambda xp, x: xp.argpartition(x, 1.0),
    "kind of partition": lambda xp, x: xp.partition(x, 1, kind="quick"),
    "deep": lambda xp, x: xp.searchsorted(x, 3),
    "side": lambda xp, x: xp.searchsorted(x[0], 3, side="middle"),
    "sorter of floats": lambda xp, x: xp.searchsorted(x[0], 3, sorter=[0.0, 1.0, 2.0]),
    "short sorter": lambda xp, x: xp.searchsorted(x[0], 3, sorter=[0, 1]),
    "axis of unique": lambda xp, x: xp.unique(x, axis=2),
    "kind of isin": lambda xp, x: xp.isin(x, [1], kind="hash"),
    "table of floats": lambda xp, x: xp.isin(x, [1.5], kind="table"),
    "negative n": lambda xp, x: xp.diff(x, -1),
    "axis of diff": lambda xp, x: xp.diff(x, axis=2),
    "0-d diff": lambda xp, x: xp.diff(xp.asarray(3.0)),
    "ediff1d cast": lambda xp, x: xp.ediff1d(x.astype(int), to_end=2.5),
    "method axis": lambda xp, x: x.sort(2),
    "method without axis": lambda xp, x: x.sort(None),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_numpys(name: str) -> None:
    a = np.arange(6.0).reshape(2, 3)
    with context(2):
        x = da.asarray(a, layout=da.blocks(1))
        assert not both(lambda: ERRORS[name](np, a), lambda: ERRORS[name](da, x))
        assert_same(x, a)


def test_read_only_arrays_stay_as_they_are() -> None:
    with context(2):
        x = np.broadcast_to(da.asarray([3, 1]), (2, 2))
        with pytest.raises(ValueError, match="read-only"):
            x.sort(0)


# --- searchsorted, isin -------------------------------------------------------------------------------------------------


@both_ways
@examples(2)
@given(data=st.data(), n=device_counts)
def test_searchsorted(data: st.DataObject, n: int) -> None:
    dtype = data.draw(dtypes(SORTED_DTYPES))
    a = data.draw(keys(shape=(data.draw(st.integers(0, 40)),), dtype=dtype))
    v = data.draw(pairs(data.draw(keys(dtype=data.draw(st.sampled_from([dtype, dtype, np.dtype("float64")])))), n))
    side = data.draw(st.sampled_from(["left", "right"]))
    with context(n):
        x = data.draw(pairs(np.sort(a), n)).x
        both(lambda: np.searchsorted(np.sort(a), v.ref, side), lambda: np.searchsorted(x, v.x, side))
        y = da.asarray(a, layout=data.draw(layouts(a.shape, n)))
        order = np.argsort(a, kind="stable")
        both(lambda: a.searchsorted(v.ref, side, order), lambda: y.searchsorted(v.x, side, da.asarray(order)))


@both_ways
@examples(2)
@given(data=st.data(), n=device_counts)
def test_isin(data: st.DataObject, n: int) -> None:
    one = data.draw(pairs(data.draw(keys()), n))
    other = data.draw(pairs(data.draw(keys()), n))
    invert = data.draw(st.booleans())
    if {one.ref.dtype, other.ref.dtype} & {np.dtype("uint64")}:
        return  # NumPy's answer depends on how it finds it
    with context(n):
        # of integers and floats NumPy compares what it makes of both; two that become one pass for found without this
        common = np.result_type(one.ref, other.ref)
        a, b = one.ref.astype(common), other.ref.astype(common)
        both(lambda: np.isin(a, b, invert=invert), lambda: np.isin(one.x, other.x, invert=invert))


def test_integers_without_a_common_dtype() -> None:
    with context(2):
        x = da.asarray(np.array([-1, 0, 5, 2**62 + 1]), layout=da.blocks(0))
        y = da.asarray(np.array([2**64 - 1, 2**62, 2**62 + 1, 5], np.uint64), layout=da.blocks(0))
        assert da.isin(x, y).tolist() == [False, False, True, True]
        assert da.isin(y, x).tolist() == [False, False, True, True]


# --- sets ---------------------------------------------------------------------------------------------------------------


def told_apart(a: np.ndarray) -> np.ndarray:
    """The values, with one NaN and one zero."""
    a = np.array(a)
    if a.dtype.kind in "fc":
        a[a != a] = np.nan
        a[a == 0] = 0
    return a


@both_ways
@examples(3)
@given(data=st.data(), n=device_counts)
def test_unique(data: st.DataObject, n: int) -> None:
    pair = data.draw(pairs(data.draw(keys()), n))
    a, x = pair.ref, pair.x
    equal_nan = data.draw(st.booleans())
    wishes = [data.draw(st.booleans()) for _ in range(3)]
    full = np.unique(a, True, True, True, equal_nan=equal_nan)
    with context(n):
        found = da.unique(x, *wishes, equal_nan=equal_nan)
        parts = found if any(wishes) else (found,)
        assert_same(parts[0], told_apart(full[0]), zero_sign=False, one_nan=True)
        for part, (name, ref) in zip(
            parts[1:], [item for item, wish in zip(zip("abc", full[1:]), wishes, strict=True) if wish], strict=True
        ):
            if name == "b" and not (equal_nan or wishes[0]):  # any of the NaNs
                assert_same(da.take(parts[0], part) if a.size else x, a, zero_sign=False, one_nan=True)
            else:
                assert_same(part, ref)
            check_invariants(part)


@both_ways
@examples(2)
@given(data=st.data(), n=device_counts)
def test_unique_along_an_axis(data: st.DataObject, n: int) -> None:
    a = data.draw(keys(shape=data.draw(shapes(min_dims=1, max_dims=3)), top=1))
    if a.dtype.kind in "fc":
        a = np.nan_to_num(a)  # NumPy's structured order has no place for every NaN
    pair = data.draw(pairs(a, n))
    axis = data.draw(axes(a.ndim))
    with context(n):
        both(
            lambda: np.unique(pair.ref, True, True, True, axis),
            lambda: np.unique(pair.x, True, True, True, axis),
            zero_sign=False,
        )


@both_ways
@given(data=st.data(), n=device_counts)
def test_the_standards_forms(data: st.DataObject, n: int) -> None:
    pair = data.draw(pairs(data.draw(keys(dtype=data.draw(dtypes([t for t in SORTED_DTYPES if t.kind in "biu"])))), n))
    with context(n):
        for name in ("unique_all", "unique_counts", "unique_inverse", "unique_values"):
            ref, got = getattr(np, name)(pair.ref), getattr(np, name)(pair.x)
            assert_same(got, np.sort(ref) if name == "unique_values" else tuple(ref))
            if name != "unique_values":
                assert got._fields == ref._fields


SETS = {
    "intersect1d": np.intersect1d,
    "intersect1d with indices": lambda a, b: np.intersect1d(a, b, return_indices=True),
    "union1d": np.union1d,
    "setdiff1d": np.setdiff1d,
    "setdiff1d of distinct": lambda a, b: np.setdiff1d(np.unique(a), np.unique(b), assume_unique=True),
    "setxor1d": np.setxor1d,
}


@both_ways
@examples(2)
@given(data=st.data(), n=device_counts, name=st.sampled_from(sorted(SETS)))
def test_set_functions(data: st.DataObject, n: int, name: str) -> None:
    dtype = data.draw(dtypes([t for t in SORTED_DTYPES if t.kind != "c"]))
    one, other = (data.draw(pairs(data.draw(keys(shape=data.draw(shapes(max_dims=2)), dtype=dtype)), n)) for _ in "ab")
    with context(n):
        both(lambda: SETS[name](one.ref, other.ref), lambda: SETS[name](one.x, other.x), zero_sign=False, one_nan=True)


# --- differences --------------------------------------------------------------------------------------------------------


@both_ways
@given(data=st.data(), n=device_counts)
def test_diff(data: st.DataObject, n: int) -> None:
    a = data.draw(arrays(data.draw(shapes(min_dims=1, max_dims=3)), data.draw(dtypes())))
    pair = data.draw(pairs(a, n))
    axis = data.draw(axes(a.ndim))
    how = data.draw(st.sampled_from([{}, {"n": 2}, {"n": 0}, {"prepend": 1}, {"append": a, "n": 3}]))
    with context(n):
        both(lambda: np.diff(pair.ref, axis=axis, **how), lambda: np.diff(pair.x, axis=axis, **how))
        if "n" not in how:
            both(
                lambda: np.ediff1d(a, to_begin=how.get("prepend")),
                lambda: np.ediff1d(pair.x, to_begin=how.get("prepend")),
            )


# --- several processes --------------------------------------------------------------------------------------------------

RANKS = {
    "sort": lambda x: da.sort(x, axis=0),
    "flat sort": lambda x: np.sort(x, axis=None),
    "descending": lambda x: np.flip(da.sort(x, axis=None, descending=True)),
    "argsort": lambda x: np.argsort(x, axis=0, kind="stable"),
    "flat argsort": lambda x: np.argsort(x, axis=None, kind="stable"),
    "lexsort": lambda x: np.lexsort((x[:, 0], x[:, 1] % 2)),
    "unique": lambda x: np.unique(x % 5, return_index=True, return_inverse=True, return_counts=True),
    "rows": lambda x: np.unique(x % 2, axis=0, return_inverse=True),
    "searchsorted": lambda x: np.searchsorted(np.sort(x[:, 0]), x % 5, side="right"),
    "isin": lambda x: np.isin(x, x[2:5] + 1),
    "setxor1d": lambda x: np.setxor1d(x, x[:3] * 2),
    "diff": lambda x: np.diff(x, axis=0, prepend=0),
}


@both_ways
@pytest.mark.parametrize("name", RANKS)
@given(data=st.data(), shares=st.sampled_from(SHARES))
@examples(0.2)
def test_on_ranks(name: str, data: st.DataObject, shares: tuple[int, ...]) -> None:
    a = np.random.default_rng(3).integers(0, 9, (12, 4)).astype(data.draw(st.sampled_from(["i8", "f4"])))
    layout = data.draw(layouts(a.shape, sum(shares)))
    ref = {"descending": lambda: np.sort(a, axis=None)}.get(name, lambda: None)()
    if ref is None:
        ref = np.sort(a, axis=0) if name == "sort" else RANKS[name](a)

    def program() -> Any:
        got = RANKS[name](da.asarray(a, layout=layout))
        return tuple(part.get() for part in got) if isinstance(got, tuple) else got.get()

    for got in on_ranks(shares, program):
        assert_same(got, tuple(ref) if isinstance(ref, tuple) else ref, local=True)


# --- what moves, and what it takes --------------------------------------------------------------------------------------


def large(n: int, distinct: int, dtype: str = "float64") -> np.ndarray:
    return np.random.default_rng(n).integers(0, distinct, n).astype(dtype)


@pytest.mark.parametrize("distinct", [1, 7, 1 << 40])
@pytest.mark.parametrize("layout", [da.blocks(0), da.blocks(0, sizes=[10, 400_000, 0, 1 << 19])])
def test_a_sort_moves_the_data_once(distinct: int, layout: Any) -> None:
    n = 10 + 400_000 + (1 << 19)
    a = large(n, distinct)
    with context(4):
        x = da.asarray(a, layout=layout)
        with da.ledger() as log:
            result = da.sort(x)
        assert log.bytes_moved <= 1.1 * a.nbytes
        assert_same(result, np.sort(a))
        with da.ledger() as log:
            order = da.argsort(x)
        assert log.bytes_moved <= 1.1 * 2 * a.nbytes
        assert_same(order, np.argsort(a, kind="stable"))
        with da.ledger() as log:
            da.unique(x, return_inverse=True, return_counts=True)
        assert log.bytes_moved <= (4.2 if distinct > n else 0.01) * a.nbytes


@pytest.mark.parametrize("call", [lambda x: da.sort(x, axis=1), lambda x: da.argsort(x, axis=1), lambda x: da.diff(x)])
def test_axes_that_are_not_split_move_nothing(call: Any) -> None:
    with context(4):
        x = da.asarray(large(1 << 16, 100).reshape(256, 256), layout=da.blocks(0))
        with da.no_implicit_communication():
            call(x)


def test_many_lines_move_once() -> None:
    with context(4):
        a = large(1 << 16, 100).reshape(256, 256)
        x = da.asarray(a, layout=da.blocks(0))
        with da.ledger() as log:
            result = da.sort(x, axis=0)
        assert log.bytes_moved <= a.nbytes
        assert_same(result, np.sort(a, axis=0))


SKEWED = {
    "searchsorted": lambda a, v: np.searchsorted(a, v, "right"),
    "isin": lambda a, v: np.isin(v, a),
}


@pytest.mark.parametrize("name", SKEWED)
@pytest.mark.parametrize("values", ["equal", "near"])
def test_values_that_belong_on_one_device_go_there_in_turns(name: str, values: str) -> None:
    n = 1 << 17
    a = np.sort(np.random.default_rng(0).random(n))
    v = np.full(n, a[3]) if values == "equal" else np.random.default_rng(1).permutation(a)[:n] * 1e-3
    ref = SKEWED[name](a, v)
    with da.init(devices=4, kind=kind(), memory_limit=int(2.5 * (a.nbytes + v.nbytes + ref.nbytes) / 4)):
        x, y = da.asarray(a, layout=da.blocks(0)), da.asarray(v, layout=da.blocks(0))
        assert_same(SKEWED[name](x, y), ref)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: da.sort(x),
        lambda x: da.argsort(x),
        lambda x: da.unique(x),
        lambda x: da.sort(x.reshape(1024, -1), axis=0),
    ],
    ids=["sort", "argsort", "unique", "lines"],
)
@pytest.mark.parametrize("distinct", [1, 1 << 40])
def test_memory_within_bounds(call: Any, distinct: int) -> None:
    """Two and a half times the fair share of operand and result."""
    n = 1 << 20
    a = np.sort(large(n, distinct))[::-1].copy()
    with da.init(devices=4, kind=kind(), memory_limit=int(2.5 * 2 * a.nbytes / 4)):
        call(da.asarray(a, layout=da.blocks(0))).get()


OF_TWO: dict[str, tuple[Any, float]] = {
    "isin": (np.isin, 3.0),
    "searchsorted": (np.searchsorted, 2.5),
    "lexsort": (lambda x, y: da.lexsort((x, y)), 2.5),
    "union1d": (np.union1d, 3.0),
    "setdiff1d": (np.setdiff1d, 4.0),
    "setxor1d": (np.setxor1d, 5.0),
    "intersect1d": (np.intersect1d, 4.0),
}
"""What they hold on a device, as their docstrings say it, in shares of operands and result."""


@pytest.mark.parametrize("operands", ["random", "ascending", "descending", "many and few", "few and many"])
@pytest.mark.parametrize("name", OF_TWO)
def test_memory_of_functions_of_two_arrays(name: str, operands: str) -> None:
    f, bound = OF_TWO[name]
    n = 1 << 16
    a, b = np.random.default_rng(0).random((2, n))
    if operands in ("ascending", "descending"):
        a, b = np.arange(n, dtype=float), np.arange(n, dtype=float) + n // 2
    if operands == "descending":
        a = a[::-1].copy()
    if operands[:3] in ("man", "few") and name != "lexsort":
        a, b = (a, b[: n // 25]) if operands[:3] == "man" else (a[: n // 25], b)
    if name == "searchsorted":
        a = np.sort(a)
    ref = np.lexsort((a, b)) if name == "lexsort" else f(a, b)
    limit = int(bound * (a.nbytes + b.nbytes + ref.nbytes) / 4) + (1 << 16)  # samples, and counts
    with da.init(devices=4, kind=kind(), memory_limit=limit):
        assert_same(f(da.asarray(a, layout=da.blocks(0)), da.asarray(b, layout=da.blocks(0))), ref)
