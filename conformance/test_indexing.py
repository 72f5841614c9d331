"""Indexing: basic indices are views that write through; assignment through every index; boolean and integer arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import distarray as da
from conformance.checking import assert_same, both
from conformance.contexts import context, examples
from conformance.strategies import (
    FLOATS,
    INTEGERS,
    NUMPY,
    Pair,
    arrays,
    basic_indices,
    device_counts,
    dtypes,
    operands,
    pairs,
    scalars,
    shapes,
)


def draw_pair(data: st.DataObject, n: int, min_dims: int = 0, **kwargs: Any) -> Pair:
    return data.draw(operands(n, shape=data.draw(shapes(min_dims=min_dims, max_size=200)), **kwargs))


@examples(5)
@given(data=st.data(), n=device_counts)
def test_basic_indices_read(data, n):
    pair = draw_pair(data, n)
    with context(n):
        first = data.draw(basic_indices(pair.ref.shape))
        if both(lambda: pair.ref[first], lambda: pair.x[first]):
            second = data.draw(basic_indices(np.shape(pair.ref[first])))
            both(lambda: np.asarray(pair.ref[first])[second], lambda: pair.x[first][second])


@examples(2)
@given(data=st.data(), n=device_counts)
def test_basic_indices_move_nothing(data, n):
    pair = data.draw(pairs(data.draw(arrays(dtype="float64")), n))
    with context(n):
        key = data.draw(basic_indices(pair.ref.shape))
        key = (*(key if isinstance(key, tuple) else (key,)),)
        key = key if Ellipsis in key else (*key, ...)  # a view, never a scalar
        with da.ledger() as log:
            y = pair.x[key]
        assert log.bytes_moved == 0
        assert_same(y, pair.ref[key])


@pytest.mark.parametrize("bad", [5, -6, (0, 9), (0, 0, 0, 0), (..., ...), 1.0, "a", (slice(None), 7), slice(0, 2.5)])
def test_bad_indices(bad):
    a = np.arange(30.0).reshape(5, 6)
    with context(3):
        x = da.asarray(a, layout=da.blocks(0))
        both(lambda: a[bad], lambda: x[bad])
        both(lambda: a.__setitem__(bad, 1), lambda: x.__setitem__(bad, 1))
        assert_same(x, a)


def value_for(data: st.DataObject, target: Pair, shape: tuple[int, ...], n: int) -> tuple[Any, Any]:
    """A value to assign: a scalar, a NumPy array, a distributed array; at times one that does not fit."""
    dtype = target.ref.dtype
    kind = data.draw(st.sampled_from(["dist", "scalar", "numpy", "dist"]))
    if kind == "scalar":
        value = data.draw(scalars(dtype))
        return value, value
    bad = data.draw(st.sampled_from([False] * 12 + [True]))
    fits = (2, *shape) if bad else shape[data.draw(st.integers(0, len(shape))) :]
    fits = tuple(1 if data.draw(st.sampled_from([False, False, True])) else s for s in fits)
    same = data.draw(st.booleans())
    safe = [t for t in NUMPY if t.kind in "biu" or dtype.kind not in "biu"]  # float to int is undefined out of range
    value = data.draw(arrays(fits, dtype if same else data.draw(dtypes(safe))))
    return value, data.draw(pairs(value, n)).x if kind == "dist" else value


@examples(6)
@given(data=st.data(), n=device_counts)
def test_basic_indices_write(data, n):
    """Assignment reaches the array, its base and every replica, and nothing else."""
    pair = draw_pair(data, n)
    with context(n):
        key = data.draw(basic_indices(pair.ref.shape))
        try:
            shape = np.shape(pair.ref[key])
        except IndexError:
            shape = ()
        ref, value = value_for(data, pair, shape, n)
        before = pair.base_ref.copy()
        done = both(lambda: pair.ref.__setitem__(key, ref), lambda: pair.x.__setitem__(key, value))
        assert_same(pair.base_x, pair.base_ref if done else before)


@examples(4)
@given(data=st.data(), n=device_counts)
def test_writes_through_views_of_views(data, n):
    pair = draw_pair(data, n, min_dims=1, dtype=data.draw(dtypes(NUMPY[1:])), extreme=False)
    with context(n):
        ref, x = pair.ref, pair.x
        for _ in range(data.draw(st.integers(1, 3))):
            key = data.draw(basic_indices(ref.shape, ints=False))
            try:
                ref, x = ref[key], x[key]
            except IndexError:
                continue
        ref[...] = 3
        x[...] = 3
        assert_same(x, ref)
        assert_same(pair.base_x, pair.base_ref)
        ref += 1
        x += 1
        assert_same(pair.base_x, pair.base_ref)


@examples(3)
@given(data=st.data(), n=device_counts)
def test_assignment_from_an_overlapping_view_of_itself(data, n):
    pair = draw_pair(data, n, min_dims=1, dtype=data.draw(dtypes(INTEGERS + FLOATS)), extreme=False)
    size = pair.ref.shape[0]
    lag = data.draw(st.integers(0, size))
    flip = slice(None, None, data.draw(st.sampled_from([1, -1])))
    scale = data.draw(st.sampled_from([None, 2]))
    with context(n):
        ref, x = pair.ref[: size - lag][flip], pair.x[: size - lag][flip]
        if scale:
            ref, x = ref * scale, x * scale
        pair.ref[lag:] = ref
        pair.x[lag:] = x
        assert_same(pair.base_x, pair.base_ref)


@st.composite
def masks(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """A key with a boolean mask: of the whole array, of leading axes, or of one axis behind a slice."""
    kind = draw(st.sampled_from(["whole", "leading", "axis"]))
    if kind == "whole" or not shape:
        return draw(arrays(shape, bool))
    if kind == "leading":
        return draw(arrays(shape[: draw(st.integers(1, len(shape)))], bool))
    axis = draw(st.integers(0, len(shape) - 1))
    return (*(slice(None),) * axis, draw(arrays((shape[axis],), bool)))


@st.composite
def integer_keys(draw: st.DrawFn, shape: tuple[int, ...], unique: bool = False) -> Any:
    """A key with integer arrays: one along an axis, or two that broadcast together; at times out of range."""
    axis = draw(st.integers(0, len(shape) - 1))

    def along(size: int) -> Any:
        if size == 0:
            return np.zeros(0, int)
        top = size - 1 if draw(st.sampled_from([True] * 12 + [False])) else size
        found = draw(st.lists(st.integers(-size, top), max_size=6))
        if unique:
            found = list(dict.fromkeys(i % size if i < size else i for i in found))
        return found if found and draw(st.booleans()) else np.array(found, draw(st.sampled_from([int, np.int32])))

    if len(shape) > 1 and not unique and draw(st.sampled_from([False, False, True])):
        first, second = np.array(along(shape[0]), int), np.array(along(shape[1]), int)
        if draw(st.booleans()):
            return first[:, None], second
        short = min(len(first), len(second))
        return first[:short], second[:short]
    return along(shape[0]) if axis == 0 else (*(slice(None),) * axis, along(shape[axis]))


def distribute_key(data: st.DataObject, key: Any, n: int) -> Any:
    """The same key with its arrays distributed."""
    if isinstance(key, tuple):
        return tuple(distribute_key(data, k, n) for k in key)
    if isinstance(key, np.ndarray) and data.draw(st.booleans()):
        return data.draw(pairs(key, n)).x
    return key


@examples(4)
@given(data=st.data(), n=device_counts)
def test_boolean_masks(data, n):
    pair = draw_pair(data, n)
    with context(n):
        key = data.draw(masks(pair.ref.shape))
        ours = distribute_key(data, key, n)
        both(lambda: pair.ref[key], lambda: pair.x[ours])
        ref, value = value_for(data, pair, pair.ref[key].shape, n)
        before = pair.base_ref.copy()
        done = both(lambda: pair.ref.__setitem__(key, ref), lambda: pair.x.__setitem__(ours, value))
        assert_same(pair.base_x, pair.base_ref if done else before)


@examples(4)
@given(data=st.data(), n=device_counts)
def test_integer_arrays_read(data, n):
    pair = draw_pair(data, n, min_dims=1)
    with context(n):
        key = data.draw(integer_keys(pair.ref.shape))
        ours = distribute_key(data, key, n)
        both(lambda: pair.ref[key], lambda: pair.x[ours])


@examples(4)
@given(data=st.data(), n=device_counts)
def test_integer_arrays_write(data, n):
    """The indices are distinct: which of two values for one element stays is not promised."""
    pair = draw_pair(data, n, min_dims=1)
    with context(n):
        key = data.draw(integer_keys(pair.ref.shape, unique=True))
        ours = distribute_key(data, key, n)
        try:
            shape = pair.ref[key].shape
        except IndexError:
            shape = ()
        ref, value = value_for(data, pair, shape, n)
        before = pair.base_ref.copy()
        done = both(
            lambda: pair.ref.__setitem__(key, ref),
            lambda: pair.x.__setitem__(ours, value),
            also=(IndexError, ValueError),
        )
        assert_same(pair.base_x, pair.base_ref if done else before)


@examples(2)
@given(data=st.data(), n=device_counts)
def test_common_forms(data, n):
    """The forms that programs are made of."""
    a = data.draw(arrays((data.draw(st.integers(1, 8)), 4), data.draw(dtypes(FLOATS + INTEGERS[:4]))))
    pair = data.draw(pairs(a, n))
    index = data.draw(st.permutations(range(4)))
    ref, x = pair.ref, pair.x
    with context(n), np.errstate(all="ignore"):
        assert_same(x[x < 0], ref[ref < 0])
        assert_same(x[:, index], ref[:, index])
        assert_same(x[0, index], ref[0, index])
        assert_same(x[np.argmin(ref[:, 0])], ref[np.argmin(ref[:, 0])])
        x[x < 0] = 0
        ref[ref < 0] = 0
        assert_same(pair.base_x, pair.base_ref)
        x[x > 1] += 1
        ref[ref > 1] += 1
        x[:, index[:2]] = x[:, index[2:]]
        ref[:, index[:2]] = ref[:, index[2:]]
        assert_same(pair.base_x, pair.base_ref)


def test_zero_d_views_and_scalars():
    a = np.arange(6.0).reshape(2, 3)
    with context(3):
        x = da.asarray(a, layout=da.blocks(1))
        view, scalar = x[1, 2, ...], x[1, 2]
        assert view.shape == scalar.shape == ()
        view[...] = 50
        assert float(x[1, 2]) == 50
        assert float(scalar) == 5
        y = da.asarray(np.array(3.0))
        y[()] = 4
        y[...] += 1
        assert float(y) == 5
