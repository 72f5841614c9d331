"""Reshapes against NumPy's."""

from __future__ import annotations

from itertools import pairwise
from math import prod

import numpy as np
import pytest
from geometry_strategies import index_maps, regions, shapes
from hypothesis import given
from hypothesis import strategies as st

from distarray.errors import LayoutError
from distarray.geometry import (
    IndexMap,
    Region,
    blocks,
    cyclic,
    flat_blocks,
    grid,
    replicated,
    reshape_map,
    reshape_region,
)

SHAPES = [(24,), (4, 6), (6, 4), (2, 12), (2, 3, 4), (4, 3, 2), (2, 2, 6), (1, 24), (24, 1), (4, 1, 6), (2, 2, 2, 3)]
ONES = [(), (1,), (1, 1)]
ZEROS = [(0,), (0, 3), (3, 0), (2, 0, 5)]
FAMILIES = st.sampled_from([SHAPES, SHAPES, SHAPES, [(12,), (3, 4), (4, 3), (2, 6), (2, 3, 2), (1, 12)], ONES, ZEROS])


def image_of(region: Region, old: tuple[int, ...], new: tuple[int, ...]) -> Region | None:
    """By enumeration: the box of `new` with these elements in this order."""
    flat = np.arange(prod(old)).reshape(old)[region.slices].ravel()
    if not flat.size:
        return None
    coordinates = np.unravel_index(flat, new) if new else ()
    index = []
    for c in coordinates:
        values = np.unique(c)
        steps = np.unique(np.diff(values))
        if len(steps) > 1:
            return None
        index.append(slice(int(values[0]), int(values[-1]) + 1, int(steps[0]) if len(steps) else 1))
    box = Region.from_index(tuple(index), new)
    same = np.array_equal(np.arange(prod(new)).reshape(new)[box.slices].ravel(), flat)
    return box if same else None


@given(FAMILIES, st.data())
def test_reshape_region(family, data):
    old, new = data.draw(st.sampled_from(family)), data.draw(st.sampled_from(family))
    region = data.draw(regions(old))
    got = reshape_region(region, old, new)
    if region.size:
        assert got == image_of(region, old, new)
    elif got is not None:
        assert got.size == 0
        assert len(got) == len(new)
    else:
        assert new == ()


@pytest.mark.parametrize("new", SHAPES)
@pytest.mark.parametrize("old", SHAPES)
def test_reshape_region_exhaustively_along_axes(old, new):
    """Every range of one axis, the others whole: the layouts that matter."""
    seen = 0
    for axis, n in enumerate(old):
        for start in range(n):
            for stop in range(start + 1, n + 1):
                for step in range(1, 5):
                    region = Region.from_index((slice(None),) * axis + (slice(start, stop, step),), old)
                    got = reshape_region(region, old, new)
                    assert got == image_of(region, old, new)
                    seen += got is not None
    assert seen > 0


@given(FAMILIES, st.data())
def test_reshape_map(family, data):
    old, new = data.draw(st.sampled_from(family)), data.draw(st.sampled_from(family))
    m = data.draw(index_maps(old, max_chunks=3))
    got = reshape_map(m, new)
    images = {d: [reshape_region(r, old, new) for r in m.regions(d)] for d in m.devices}
    if got is None:
        assert any(None in own or any(a >= b for a, b in pairwise(own)) for own in images.values())
        return
    assert got.shape == new
    assert got.devices == m.devices
    assert [r for own in images.values() for r in own] == [r for _, r in got.chunks]
    array = np.arange(prod(old)).reshape(old)
    for (d, a), (e, b) in zip(m.chunks, got.chunks, strict=True):
        assert d == e
        np.testing.assert_array_equal(array[a.slices].reshape(b.shape), array.reshape(new)[b.slices])


def test_reshape_map_of_common_layouts():
    devices = range(4)
    rows = blocks(0).resolve((8, 6), devices)
    assert reshape_map(rows, (48,)) == blocks(0).resolve((48,), devices)
    assert reshape_map(rows, (8, 2, 3)) == blocks(0).resolve((8, 2, 3), devices)
    assert reshape_map(rows, (4, 2, 6)) == blocks(0).resolve((4, 2, 6), devices)
    assert reshape_map(rows, (8, 6)) is rows
    assert reshape_map(blocks(0).resolve((48,), devices), (8, 6)) == rows
    assert reshape_map(blocks(1).resolve((8, 6), devices), (48,)) is None
    assert reshape_map(replicated().resolve((8, 6), devices), (4, 12)).is_replicated
    assert reshape_map(replicated().resolve((0, 6), devices), (3, 0)).is_replicated
    assert reshape_map(replicated().resolve((), devices), (1, 1)).is_replicated
    assert reshape_map(cyclic(0).resolve((8, 6), devices), (8, 3, 2)) == cyclic(0).resolve((8, 3, 2), devices)
    assert reshape_map(cyclic(1).resolve((3, 8), devices), (24,)) == cyclic(0).resolve((24,), devices)
    assert reshape_map(grid((2, 2)).resolve((8, 6), devices), (8, 2, 3)) == grid((2, 2)).resolve((8, 2, 3), devices)
    few = blocks(0).resolve((2, 6), devices)  # two devices have empty chunks
    assert reshape_map(few, (2, 3, 2)) == blocks(0).resolve((2, 3, 2), devices)


def test_reshape_map_keeps_the_order_of_chunks():
    whole, sparse = Region.full((12,)), Region.from_index(slice(0, 6, 3), (12,))
    m = IndexMap((12,), {0: [whole, sparse]})
    assert m.regions(0) == (whole, sparse)
    a, b = reshape_region(whole, (12,), (2, 6)), reshape_region(sparse, (12,), (2, 6))
    assert a is not None
    assert b is not None
    assert a > b  # so chunk 0 would become chunk 1
    assert reshape_map(m, (2, 6)) is None
    assert reshape_map(IndexMap((12,), {0: [whole], 1: [sparse]}), (2, 6)) == IndexMap((2, 6), {0: [a], 1: [b]})


def test_reshape_errors():
    with pytest.raises(LayoutError, match=r"cannot reshape array of size 12 into shape \(5,\)"):
        reshape_map(blocks(0).resolve((12,), [0]), (5,))
    with pytest.raises(LayoutError, match=r"cannot reshape array of size 12 into shape \(5, 2\)"):
        reshape_region(Region.full((12,)), (12,), (5, 2))
    with pytest.raises(LayoutError, match="has 1 axes"):
        reshape_region(Region.full((12,)), (3, 4), (12,))


@given(shapes(max_ndim=4, max_side=5), st.data())
def test_flat_blocks(shape, data):
    size = prod(shape)
    bounds = sorted(data.draw(st.lists(st.integers(0, size), max_size=5)))
    flat = np.arange(size).reshape(shape)
    got = flat_blocks(shape, bounds)
    assert len(got) == max(len(bounds) - 1, 0)
    for boxes, low, high in zip(got, bounds, bounds[1:], strict=False):
        assert all(box.size for box in boxes)
        assert len(boxes) <= max(2 * len(shape) - 1, 1)
        assert [i for box in boxes for i in flat[box.slices].ravel().tolist()] == list(range(low, high))


def test_flat_blocks_errors():
    with pytest.raises(LayoutError, match="must not decrease, got 3 before 1"):
        flat_blocks((4,), [0, 3, 1])
    with pytest.raises(LayoutError, match=r"leave 0\.\.4"):
        flat_blocks((4,), [0, 5])
