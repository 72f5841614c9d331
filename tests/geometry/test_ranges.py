"""Range operations against Python sets and ``range``."""

from __future__ import annotations

import pytest
from geometry_strategies import indices, is_canonical, ranges
from hypothesis import given
from hypothesis import strategies as st

from distarray.errors import DistArrayError, IndexMapError, LayoutError
from distarray.geometry import Range

N = 30
BOUND = st.none() | st.integers(-N - 5, N + 5)
STEP = st.none() | st.integers(-9, 9).filter(bool)


@given(BOUND, BOUND, STEP, st.integers(0, N))
def test_from_slice_is_slice_indices(start, stop, step, n):
    r = Range.from_slice(slice(start, stop, step), n)
    assert is_canonical(r)
    assert indices(r) == set(range(n)[slice(start, stop, step)])
    assert set(range(n)[r.as_slice()]) == indices(r)


@given(ranges(N), ranges(N))
def test_equal_sets_are_equal_ranges(a, b):
    assert (indices(a) == indices(b)) == (a == b)
    if a == b:
        assert hash(a) == hash(b)


def test_equal_sets_written_differently():
    assert Range.from_slice(slice(0, 10, 3), 12) == Range.from_slice(slice(0, 12, 3), 12)
    assert Range.from_slice(slice(None, None, -1), 5) == Range.full(5)
    assert Range.from_slice(slice(3, 1), 9) == Range.full(0) == Range.of(7, 3, 0) == (0, 1, 0)
    assert Range.of(4, 9, 1) == (4, 1, 1)


@given(st.integers(0, 40), st.integers(-6, 6), st.integers(0, 6))
def test_of(start, step, size):
    walked = [start + i * step for i in range(size)]
    if (size > 1 and step == 0) or (walked and min(walked) < 0):
        with pytest.raises(LayoutError):
            Range.of(start, step, size)
    else:
        r = Range.of(start, step, size)
        assert is_canonical(r)
        assert indices(r) == set(walked)


def test_of_refuses_a_negative_size():
    with pytest.raises(LayoutError, match="size -1"):
        Range.of(0, 1, -1)


@given(ranges(N), st.integers(-3, N + 3))
def test_last_stop_holds(r, i):
    members = indices(r)
    assert r.last == max(members, default=-1)
    assert r.stop == r.last + 1
    assert r.holds(i) == (i in members)


@given(ranges(N), ranges(N))
def test_intersect(a, b):
    common = a.intersect(b)
    assert is_canonical(common)
    assert indices(common) == indices(a) & indices(b)
    assert b.intersect(a) == common


@given(st.integers(0, 10**12), st.integers(1, 10**6), st.integers(0, 10**12), st.integers(1, 10**6))
def test_intersect_of_huge_ranges(s1, d1, s2, d2):
    common = Range.of(s1, d1, 10**9).intersect(Range.of(s2, d2, 10**9))
    if common.size:
        for i in (common.start, common.last):
            assert (i - s1) % d1 == 0
            assert (i - s2) % d2 == 0
        # nothing smaller and nothing larger: one step further leaves one of the two
        step = common.step if common.size > 1 else d1 * d2
        for i in (common.start - step, common.last + step):
            assert not (Range.of(s1, d1, 10**9).holds(i) and Range.of(s2, d2, 10**9).holds(i))


@given(ranges(N), ranges(N))
def test_difference(a, b):
    pieces = a.difference(b)
    assert all(is_canonical(p) and p.size for p in pieces)
    assert list(pieces) == sorted(pieces)
    assert sum(p.size for p in pieces) == len(indices(a) - indices(b))
    assert set().union(*map(indices, pieces)) == indices(a) - indices(b)


def test_difference_takes_the_fewer_pieces():
    full = Range.full(1000)
    assert full.difference(Range.of(0, 2, 500)) == (Range.of(1, 2, 500),)
    assert full.difference(Range.of(0, 3, 334)) == (Range.of(1, 3, 333), Range.of(2, 3, 333))
    assert full.difference(Range.of(0, 999, 2)) == (Range.of(1, 1, 998),)
    assert full.difference(Range.of(100, 300, 3)) == (
        Range.of(0, 1, 100),
        Range.of(101, 1, 299),
        Range.of(401, 1, 299),
        Range.of(701, 1, 299),
    )
    assert len(full.difference(Range.of(400, 2, 100))) == 3


@given(ranges(N), st.data())
def test_compose_and_locate(r, data):
    inner = data.draw(ranges(r.size))
    members = sorted(indices(r))
    outer = r.compose(inner)
    assert is_canonical(outer)
    assert indices(outer) == {members[i] for i in indices(inner)}
    assert r.locate(outer) == inner


@given(ranges(N), ranges(N))
def test_covers_and_locate_agree(a, b):
    inside = indices(b) <= indices(a)
    assert a.covers(b) == inside
    if inside:
        assert a.compose(a.locate(b)) == b
    else:
        with pytest.raises(IndexMapError, match="subset"):
            a.locate(b)


def test_compose_beyond_the_end():
    with pytest.raises(IndexMapError, match="beyond the 3 elements"):
        Range.of(0, 2, 3).compose(Range.of(1, 1, 3))
    assert issubclass(IndexMapError, (IndexError, DistArrayError))
