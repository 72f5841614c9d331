"""Region operations against sets of elements, and the indices a region is built from."""

from __future__ import annotations

import numpy as np
import pytest
from geometry_strategies import elements, is_canonical, regions, shapes
from hypothesis import given
from hypothesis import strategies as st

from distarray.errors import IndexMapError, LayoutError
from distarray.geometry import Range, Region


@st.composite
def pairs(draw):
    shape = draw(shapes())
    return draw(regions(shape)), draw(regions(shape))


@given(pairs())
def test_intersect_difference_covers(pair):
    a, b = pair
    common = a.intersect(b)
    assert (set() if common is None else elements(common)) == elements(a) & elements(b)
    assert common is None or common.size
    pieces = a.difference(b)
    assert all(type(p) is Region and p.size for p in pieces)
    assert sum(p.size for p in pieces) == len(elements(a) - elements(b))
    assert set().union(*map(elements, pieces)) == elements(a) - elements(b)
    assert a.covers(b) == (elements(b) <= elements(a))


@given(shapes(), st.data())
def test_size_shape_first_slices(shape, data):
    region = data.draw(regions(shape))
    array = np.arange(int(np.prod(shape))).reshape(shape)
    part = array[region.slices]
    assert part.shape == region.shape
    assert part.size == region.size == len(elements(region))
    assert region.ndim == len(shape)
    assert {int(array[e]) for e in elements(region)} == set(part.ravel().tolist())
    if region.size:
        assert region.first == min(elements(region))
        assert array[region.first] == part.ravel()[0]


@given(shapes(), st.data())
def test_compose_and_locate(shape, data):
    region = data.draw(regions(shape))
    inner = data.draw(regions(region.shape))
    array = np.arange(int(np.prod(shape))).reshape(shape)
    outer = region.compose(inner)
    np.testing.assert_array_equal(array[outer.slices], array[region.slices][inner.slices])
    assert region.locate(outer) == inner
    assert region.holds(outer.first) or not outer.size


@given(pairs())
def test_order_and_hash_follow_the_ranges(pair):
    a, b = pair
    assert (a == b) == (tuple(a) == tuple(b))
    assert (a < b) == (tuple(a) < tuple(b))
    if a == b:
        assert hash(a) == hash(b)


def test_zero_d():
    point = Region(())
    assert (point.size, point.shape, point.ndim, point.first, point.slices) == (1, (), 0, (), ())
    assert point.intersect(point) == point
    assert point.difference(point) == []
    assert point.covers(point)
    assert Region.from_index((), ()) == Region.from_index(..., ()) == Region.full(()) == point
    assert str(point) == "[()]"


SHAPE = (8, 9, 5)
ITEM = st.sampled_from(
    [0, -1, 3, np.int64(2), np.uint8(4), slice(None), slice(1, 4), slice(None, None, -2), slice(-3, None), slice(5, 2)]
)


@given(st.lists(ITEM, max_size=3), st.integers(0, 3) | st.none())
def test_from_index_selects_what_numpy_selects(items, at):
    key = list(items)
    if at is not None:
        key.insert(min(at, len(key)), Ellipsis)
    region = Region.from_index(tuple(key), SHAPE)
    array = np.arange(8 * 9 * 5).reshape(SHAPE)
    assert set(array[region.slices].ravel().tolist()) == set(np.ravel(array[tuple(key)]).tolist())
    assert all(is_canonical(r) for r in region)
    assert len(region) == 3
    if at is None and len(items) == 1:
        assert Region.from_index(items[0], SHAPE) == region


def test_an_int_keeps_its_axis():
    assert Region.from_index(-1, (4, 3)) == Region((Range(3, 1, 1), Range(0, 1, 3)))


@pytest.mark.parametrize("bad", [True, np.True_, None, 1.0, "a", [0, 1], np.arange(2), (0, True), np.array([True])])
def test_from_index_refuses(bad):
    with pytest.raises(IndexMapError, match="Invalid index on axis"):
        Region.from_index(bad, (4, 4))


@pytest.mark.parametrize("bad", [slice(None, None, 0), slice(1.5), slice("a", None)])
def test_from_index_refuses_slices(bad):
    with pytest.raises(IndexMapError, match="Invalid index on axis 1: slice"):
        Region.from_index((0, bad), (4, 4))


def test_from_index_messages():
    with pytest.raises(IndexMapError, match="Index 4 is out of bounds for axis 1 with size 4"):
        Region.from_index((0, 4), (4, 4))
    with pytest.raises(IndexMapError, match=r"Index -5 is out of bounds for axis 0 with size 4: pass .* -4 to 3"):
        Region.from_index(-5, (4, 4))
    with pytest.raises(IndexMapError, match="Index 0 is out of bounds for axis 0 with size 0: pass a slice"):
        Region.from_index(0, (0,))
    with pytest.raises(IndexMapError, match="too many indices for array: array is 1-dimensional, but 2 were indexed"):
        Region.from_index((0, 0), (4,))
    with pytest.raises(IndexMapError, match="single ellipsis"):
        Region.from_index((..., ...), (4,))


@pytest.mark.parametrize("operation", ["intersect", "difference", "covers", "compose", "locate"])
def test_different_numbers_of_axes(operation):
    with pytest.raises(LayoutError, match="2 and 1 axes"):
        getattr(Region.full((2, 2)), operation)(Region.full((2,)))


def test_str():
    assert str(Region.from_index((slice(0, 4), slice(None, None, 2)), (8, 8))) == "[0:4, 0:7:2]"
    assert repr(Region.from_index(slice(2, 2), (8,))) == "Region([0:0])"
