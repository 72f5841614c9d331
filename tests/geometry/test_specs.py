"""Layout specifications: what they resolve to, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from geometry_strategies import elements, shapes
from hypothesis import given
from hypothesis import strategies as st

from distarray.errors import DeviceError, IndexMapError, LayoutError
from distarray.geometry import IndexMap, Region, as_spec, blocks, cyclic, grid, make_2d_index_map, replicated

DEVICES = st.lists(st.integers(0, 20), min_size=1, max_size=7, unique=True)


def sections(m: IndexMap, devices, axis: int) -> list[list[int]]:
    """For each device, the indices it holds along `axis`."""
    return [sorted(i for r in m.regions(d) for i in range(*r[axis].as_slice().indices(10**9))) for d in devices]


@given(shapes(min_side=0, max_side=20), DEVICES, st.data())
def test_blocks_are_numpys_array_split(shape, devices, data):
    if not shape:
        assert blocks(0).resolve((), devices) == replicated().resolve((), devices)
        return
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    m = blocks(axis).resolve(shape, devices)
    expected = [part.tolist() for part in np.array_split(np.arange(shape[axis]), len(devices))]
    assert sections(m, devices, axis % len(shape)) == expected
    assert all(len(m.regions(d)) == 1 for d in devices)
    assert m.is_disjoint
    assert m.covers
    others = [n for i, n in enumerate(shape) if i != axis % len(shape)]
    assert all([n for i, n in enumerate(r.shape) if i != axis % len(shape)] == others for _, r in m.chunks)


def test_blocks_with_sizes():
    m = blocks(1, sizes=[3, 0, 1]).resolve((2, 4), [5, 6, 7])
    assert sections(m, [5, 6, 7], 1) == [[0, 1, 2], [], [3]]
    assert m.regions(6)[0].shape == (2, 0)
    with pytest.raises(LayoutError, match=r"gives 3 elements for axis 0 of shape \(4,\), which has 4"):
        blocks(0, sizes=[1, 2]).resolve((4,), [0, 1])
    with pytest.raises(LayoutError, match=r"gives 2 sizes for 3 devices \[0, 1, 2\]"):
        blocks(0, sizes=[1, 3]).resolve((4,), [0, 1, 2])
    with pytest.raises(LayoutError, match="a size is -1"):
        blocks(0, sizes=[-1, 5])
    with pytest.raises(LayoutError, match=r"axis is 1\.5, needed is an integer"):
        blocks(1.5)
    with pytest.raises(LayoutError, match="axis is True"):
        blocks(True)
    assert blocks(np.int64(0), np.array([1, 2])) == blocks(0, (1, 2))


@pytest.mark.parametrize("spec", [blocks(2), blocks(-3), cyclic(2), cyclic(-3)])
def test_axis_out_of_bounds(spec):
    with pytest.raises(LayoutError, match=r"out of bounds for an array of shape \(4, 4\) \(2-d\): .* from -2 to 1"):
        spec.resolve((4, 4), [0])


@pytest.mark.parametrize("spec", [blocks(1), blocks(-1), blocks(0, sizes=[1]), cyclic(0)])
def test_zero_d_has_no_axis(spec):
    with pytest.raises(LayoutError, match=r"use replicated\(\)"):
        spec.resolve((), [0])


@given(shapes(min_side=0, max_side=9), st.data())
def test_grid(shape, data):
    parts = tuple(data.draw(st.integers(1, 3)) for _ in range(data.draw(st.integers(0, len(shape)))))
    size = int(np.prod(parts))
    devices = list(range(size + data.draw(st.integers(0, 2))))
    m = grid(parts).resolve(shape, devices)
    assert m.covers
    assert m.is_disjoint
    assert m.devices == tuple(devices)
    assert all(m.regions(d) == () for d in devices[size:])
    for d, at in zip(devices, np.ndindex(*parts)):
        (region,) = m.regions(d)
        for axis, (i, k) in enumerate(zip(at, parts)):
            expected = np.array_split(np.arange(shape[axis]), k)[i].tolist()
            assert list(range(region[axis].start, region[axis].stop)) == expected


def test_grid_errors():
    with pytest.raises(LayoutError, match=r"grid\(\(2, 3\)\) needs 6 devices, there are 4 \[0, 1, 2, 3\]"):
        grid((2, 3)).resolve((8, 8), range(4))
    with pytest.raises(LayoutError, match=r"has 2 axes for an array of shape \(8,\)"):
        grid((2, 2)).resolve((8,), range(4))
    with pytest.raises(LayoutError, match="a length is 0, needed is an integer >= 1"):
        grid((2, 0))
    assert grid(3) == grid([3])


@given(shapes(min_side=0, max_side=20), DEVICES, st.integers(1, 4), st.data())
def test_cyclic(shape, devices, block, data):
    if not shape:
        return
    axis = data.draw(st.integers(0, len(shape) - 1))
    m = cyclic(axis, block).resolve(shape, devices)
    k = len(devices)
    expected = [[i for i in range(shape[axis]) if i // block % k == turn] for turn in range(k)]
    assert sections(m, devices, axis) == expected
    assert m.covers
    assert m.is_disjoint
    assert all(m.regions(d) for d in devices)  # an empty region where there is nothing to deal
    blocks_each = [len({i // block for i in held}) for held in expected]
    assert [len(m.regions(d)) for d in devices] == [max(min(n, block), 1) for n in blocks_each]


@pytest.mark.parametrize("n", [0, 1, 7, 8000, 2_000_000, 2_000_001, 10**9])
@pytest.mark.parametrize("block", [1, 2, 3, 64, 1000, 10**6])
def test_cyclic_takes_few_regions_however_many_blocks_there_are(n, block):
    for devices in ([0], [3, 1], range(4), range(7)):
        m = cyclic(-1, block).resolve((2, n), devices)
        assert max(len(m.regions(d)) for d in devices) <= (n / len(devices)) ** 0.5 + 1
        assert sum(r.size for _, r in m.chunks) == 2 * n
        for i in [i for i in {0, n // 2, n - 1, block - 1, block} if 0 <= i < n]:
            (found,) = m.query(Region.from_index((slice(None), i), m.shape))
            assert m.chunks[found[0]][0] == devices[i // block % len(devices)]


def test_cyclic_errors():
    with pytest.raises(LayoutError, match="block is 0, needed is an integer >= 1"):
        cyclic(0, block=0)


@given(shapes(), DEVICES)
def test_replicated(shape, devices):
    m = replicated().resolve(shape, devices)
    assert m.is_replicated
    assert m.devices == tuple(sorted(devices))


@pytest.mark.parametrize("spec", [blocks(), grid((1,)), cyclic(), replicated(), as_spec({0: slice(None)})])
def test_devices_are_checked(spec):
    with pytest.raises(DeviceError, match="at least one device"):
        spec.resolve((4,), [])
    with pytest.raises(DeviceError, match=r"\[0, 0\] has repeats"):
        spec.resolve((4,), [0, 0])


def test_specs_are_values():
    assert blocks(0) == blocks(0) != blocks(1)
    assert len({blocks(0), blocks(0), cyclic(0), grid((2,)), replicated()}) == 4
    raw = {1: [slice(2), 3], 0: slice(4)}
    assert as_spec(raw) == as_spec(dict(reversed(raw.items())))
    assert hash(as_spec(raw)) == hash(as_spec(raw))
    assert as_spec(raw) != as_spec({0: slice(4)})
    spec = as_spec(raw)
    raw[1].append(5)
    assert spec == as_spec({1: [slice(2), 3], 0: slice(4)})  # the caller's dict may change
    with pytest.raises(AttributeError):
        blocks(0).axis = 1
    assert as_spec(spec) is spec


def test_raw_dict():
    shape = (6, 4)
    rows = (slice(0, 3), slice(None, None, 2))
    spec = as_spec({2: rows, 0: [slice(3, None), (-6, 1), 5], 1: [], 3: ..., np.int64(4): 0})
    m = spec.resolve(shape, [4, 3, 2, 1, 0])
    array = np.arange(24).reshape(shape)

    def held(d: int) -> list[list[int]]:
        return [array[r.slices].ravel().tolist() for r in m.regions(d)]

    assert m.devices == (0, 1, 2, 3, 4)
    assert held(2) == [array[0:3, ::2].ravel().tolist()]
    assert sorted(held(0)) == sorted([array[3:].ravel().tolist(), [1], array[5].tolist()])
    assert held(1) == []
    assert held(3) == [list(range(24))]
    assert m.regions(4) == (Region.from_index(0, shape),)
    backwards = as_spec({0: slice(None, None, -2)}).resolve((7,), [0])
    assert backwards.regions(0) == (Region.from_index(slice(0, 7, 2), (7,)),)
    assert as_spec({0: ()}).resolve((), [0]).regions(0) == (Region(()),)
    assert as_spec({0: Region.full(shape)}).resolve(shape, [0]).covers
    assert as_spec({0: slice(3, 1)}).resolve((7,), [0]).regions(0)[0].size == 0


def test_raw_dict_errors():
    with pytest.raises(IndexMapError, match=r"Index 6 is out of bounds for axis 0 with size 6.*of device 3"):
        as_spec({3: [slice(0, 2), 6]}).resolve((6,), [3])
    with pytest.raises(
        IndexMapError, match=r"too many indices for array: array is 1-dimensional, but 2 were indexed.*of device 1"
    ):
        as_spec({1: (0, 0)}).resolve((6,), [1])
    with pytest.raises(IndexMapError, match="Invalid index on axis 0: got True"):
        as_spec({1: True}).resolve((6,), [1])
    with pytest.raises(DeviceError, match=r"names device 9, which is not among the devices \[0, 1\]"):
        as_spec({0: slice(2), 9: slice(2)}).resolve((6,), [0, 1])
    with pytest.raises(IndexMapError, match="device id 'a'"):
        as_spec({"a": slice(2)})
    with pytest.raises(IndexMapError, match="device id -1"):
        as_spec({-1: slice(2)})
    for bad in (None, 3, "blocks", [slice(2)]):
        with pytest.raises(LayoutError, match="as a layout: pass blocks"):
            as_spec(bad)


def test_given_map():
    m = blocks(0).resolve((6,), [0, 1])
    assert as_spec(m).resolve((6,), [2, 1, 0]) is m
    with pytest.raises(LayoutError, match=r"for arrays of shape \(6,\), the array has shape \(7,\)"):
        as_spec(m).resolve((7,), [0, 1])
    with pytest.raises(DeviceError, match="names device 1"):
        as_spec(m).resolve((6,), [0])


def test_make_2d_index_map():
    got = make_2d_index_map([0, 10, 20], [0, 5, 15], [[{0}, {1, 0}], [{2}, [1]]])
    a, b, c, d = slice(0, 10), slice(10, 20), slice(0, 5), slice(5, 15)
    assert got == {0: [(a, c), (a, d)], 1: [(a, d), (b, d)], 2: [(b, c)]}
    m = as_spec(got).resolve((20, 15), [0, 1, 2])
    assert m.covers
    assert sum(len(elements(r)) for _, r in m.chunks) == 300 + 100


@pytest.mark.parametrize(
    ("i", "j", "devices", "match"),
    [
        ([0, 10, 5], [0, 5], [[{0}], [{1}]], r"i_partitions=\[0, 10, 5\]; boundaries begin with 0, increase"),
        ([0, 10], [0, 5, 5], [[{0}, {1}]], r"j_partitions=\[0, 5, 5\]"),
        ([1, 10], [0, 5], [[{0}]], r"i_partitions=\[1, 10\]"),
        ([0], [0, 5], [], r"i_partitions=\[0\]"),
        ([0, 2.5], [0, 5], [[{0}]], r"a boundary of i_partitions is 2.5"),
        ([0, 5, 10], [0, 5], [[{0}]], r"devices has 1 rows, i_partitions \[0, 5, 10\] makes 2"),
        ([0, 5], [0, 5], [[{0}, {1}]], r"devices\[0\] has 2 entries, j_partitions \[0, 5\] makes 1 columns"),
        ([0, 5], [0, 5], [[0]], r"devices\[0\]\[0\] is 0: give a set of device ids"),
        ([0, 5], [0, 5], [[{-1}]], r"a device id of devices\[0\]\[0\] is -1"),
    ],
)
def test_make_2d_index_map_errors(i, j, devices, match):
    with pytest.raises(LayoutError, match=match):
        make_2d_index_map(i, j, devices)
