"""Index maps against enumeration of their elements."""

from __future__ import annotations

import pickle
import subprocess
import sys
from itertools import product

import numpy as np
import pytest
from geometry_strategies import covering_maps, elements, index_maps, maps, regions, shapes
from hypothesis import given
from hypothesis import strategies as st

from distarray.errors import IndexMapError, LayoutComplexityError, LayoutError
from distarray.geometry import Cell, IndexMap, Range, Region, as_spec, blocks, cyclic, flat_blocks, grid, replicated
from distarray.geometry import _cells as cells_module
from distarray.geometry import index_map as index_map_module
from distarray.geometry._cells import first_gap, refine
from distarray.geometry._spatial import RegionIndex


def holders_of(m: IndexMap) -> dict[tuple[int, ...], tuple[int, ...]]:
    """Which chunks hold each element of the shape, by enumeration."""
    held: dict[tuple[int, ...], list[int]] = {e: [] for e in product(*map(range, m.shape))}
    for i, (_, region) in enumerate(m.chunks):
        for e in elements(region):
            held[e].append(i)
    return {e: tuple(ids) for e, ids in held.items()}


def line(*slices: slice, n: int) -> list[Region]:
    return [Region.from_index(s, (n,)) for s in slices]


@given(maps())
def test_structure(m):
    assert list(m.devices) == sorted(m.devices)
    assert m.chunks == tuple((d, r) for d in m.devices for r in m.regions(d))
    for d in m.devices:
        assert [m.chunks[i] for i in m.chunk_ids(d)] == [(d, r) for r in m.regions(d)]
        assert list(m.regions(d)) == sorted(set(m.regions(d)))
    assert m.regions(99) == ()
    assert list(m.chunk_ids(99)) == []
    assert m.size == int(np.prod(m.shape))


@given(maps())
def test_cells_are_the_exact_refinement(m):
    held = holders_of(m)
    seen: set[tuple[int, ...]] = set()
    assert list(m.cells) == sorted(m.cells)
    for cell in m.cells:
        assert type(cell) is Cell
        own = elements(cell.region)
        assert own
        assert not own & seen
        seen |= own
        assert all(held[e] == cell.holders for e in own)
    assert seen == {e for e, ids in held.items() if ids}


@given(index_maps((60,), max_chunks=3))
def test_cells_along_one_axis(m):
    """Long enough for every way to split: cuts, and classes of neighbours with other steps."""
    test_cells_are_the_exact_refinement.hypothesis.inner_test(m)


def test_cells_of_random_ranges():
    rng = np.random.default_rng(5)
    for _ in range(60):
        held = [
            Region.from_index(slice(int(rng.integers(40)), int(rng.integers(50, 240)), int(step)), (240,))
            for step in rng.choice([1, 2, 3, 4, 6, 9, 35], size=5)
        ]
        test_cells_are_the_exact_refinement.hypothesis.inner_test(IndexMap((240,), {0: held}))


@given(maps())
def test_disjoint_covers_uncovered_replicated(m):
    held = holders_of(m)
    assert m.is_disjoint == all(len(ids) <= 1 for ids in held.values())
    assert m.uncovered() == next((e for e, ids in held.items() if not ids), None)
    assert m.covers == all(held.values())
    assert m.is_replicated == (bool(m.devices) and all(m.regions(d) == (Region.full(m.shape),) for d in m.devices))
    again = IndexMap(m.shape, {d: m.regions(d) for d in m.devices})
    assert len(again.cells) == len(m.cells)  # the cells first: then disjointness comes from them
    assert again.is_disjoint == m.is_disjoint
    assert again.uncovered() == m.uncovered()


@given(maps())
def test_completed_adds_what_is_missing_once(m):
    full = m.completed()
    if m.covers or not m.devices:
        assert full is m
        return
    assert full.covers and full.devices == m.devices
    before, after = holders_of(m), holders_of(full)
    added = full.regions(m.devices[0])
    for e, ids in after.items():
        assert len(ids) == max(len(before[e]), 1)
    assert all(set(m.regions(d)) <= set(full.regions(d)) for d in m.devices)
    assert sum(r.size for r in added) == sum(r.size for r in m.regions(m.devices[0])) + sum(
        not i for i in before.values()
    )


@given(st.data())
def test_covering_maps_cover(data):
    m = data.draw(covering_maps(data.draw(shapes())))
    assert m.covers
    assert m.uncovered() is None


@given(shapes(min_side=1), st.data())
def test_uncovered_from_cells_and_from_a_bitmap(shape, data):
    """The two ways to decide coverage agree, each against enumeration."""
    m = data.draw(index_maps(shape))
    expected = next((e for e, ids in holders_of(m).items() if not ids), None)
    held = [r for _, r in m.chunks if r.size]
    assert first_gap(held, shape) == expected
    plain = IndexMap(shape, {0: held})
    assert plain.cells is plain.cells
    assert plain.uncovered() == expected


@given(maps())
def test_owned_and_first_owned_partition_what_is_held(m):
    held = holders_of(m)
    for method in (m.owned, m.first_owned):
        owner: dict[tuple[int, ...], int] = {}
        for d in m.devices:
            rows = method(d)
            assert list(rows) == sorted(rows, key=lambda row: row[0])
            for chunk, region in rows:
                assert region.size
                assert m.chunks[chunk][0] == d
                assert m.chunks[chunk][1].covers(region)
                for e in elements(region):
                    assert e not in owner
                    owner[e] = chunk
        assert owner.keys() == {e for e, ids in held.items() if ids}
        if method == m.first_owned:
            assert all(chunk == held[e][0] for e, chunk in owner.items())
        assert method(99) == ()


def test_owned_is_fair():
    m = replicated().resolve((3, 10), devices=range(4))
    assert [sum(r.size for _, r in m.owned(d)) for d in range(4)] == [6, 9, 6, 9]
    assert m.owned(0) == ((0, Region.from_index((slice(None), slice(0, 2)), (3, 10))),)
    assert [sum(r.size for _, r in m.first_owned(d)) for d in range(4)] == [30, 0, 0, 0]
    # many cells shorter than their holders: the single elements go round
    points = IndexMap((12,), {d: line(*[slice(i, i + 1) for i in range(12)], n=12) for d in range(4)})
    assert [sum(r.size for _, r in points.owned(d)) for d in range(4)] == [3, 3, 3, 3]
    scalar = replicated().resolve((), devices=range(3))
    assert [scalar.owned(d) for d in range(3)] == [((0, Region(())),), (), ()]


@given(maps(), st.data())
def test_query_is_a_scan(m, data):
    region = data.draw(regions(m.shape))
    assert list(m.query(region)) == scan([r for _, r in m.chunks], region)
    assert list(m.query_cells(region)) == scan([c.region for c in m.cells], region)


def scan(held: list[Region], region: Region) -> list[tuple[int, Region]]:
    hits = [(i, region.intersect(r)) for i, r in enumerate(held)]
    return [(i, common) for i, common in hits if common is not None]


@given(shapes(min_side=1, max_side=40, max_ndim=2), st.data())
def test_spatial_index_is_a_scan(shape, data):
    """Enough regions for every level of the index."""
    held = data.draw(st.lists(regions(shape), min_size=9, max_size=60))
    index = RegionIndex(enumerate(held))
    for region in data.draw(st.lists(regions(shape), min_size=1, max_size=4)) + [Region.full(shape)]:
        assert index.query(region) == scan(held, region)


@pytest.mark.parametrize("q", [slice(0, 960), slice(5, 400, 7), slice(3, 960, 12), slice(100, 103), slice(1, 960, 96)])
@pytest.mark.parametrize("step", [12, 96, 97])
def test_spatial_index_of_cyclic_regions(step, q):
    """Each of the three ways to find the residues that a query meets."""
    held = [Region((Range.of(k, step, len(range(k, 960, step))),)) for k in range(0, step, 1 if step < 97 else 3)]
    region = Region.from_index(q, (960,))
    expected = scan(held, region)
    assert expected
    assert RegionIndex(enumerate(held)).query(region) == expected


def test_spatial_index_of_few_residues():
    """Two residues modulo 96 that are one modulo 32, and one that is not."""
    held = [Region((Range.of(96 * k + residue, 96, 3),)) for k in range(10) for residue in (5, 37, 38)]
    region = Region((Range.of(5, 32, 30),))
    hits = RegionIndex(enumerate(held)).query(region)
    assert len(hits) == 20
    assert hits == scan(held, region)


def test_spatial_index_of_random_ranges():
    """Many ranges of like lengths and few steps, so that ends are not in the order of starts."""
    rng = np.random.default_rng(11)
    for n in (60, 1000):
        for steps in ([1], [96], [12, 18, 30], [1, 2, 64]):
            held = [
                Region((Range.of(int(rng.integers(n)), int(rng.choice(steps)), int(rng.integers(1, 16))),))
                for _ in range(80)
            ]
            index = RegionIndex(enumerate(held))
            for start, step, size in zip(
                rng.integers(0, n, 60), rng.choice([1, 1, 8, 12, 96], 60), rng.integers(1, 40, 60)
            ):
                region = Region((Range.of(int(start), int(step), int(size)),))
                assert index.query(region) == scan(held, region)


@pytest.mark.parametrize("shape", [(60,), (3, 4, 5), (1, 5, 1, 4)])
@pytest.mark.parametrize("overlap", [False, True])
def test_uncovered_is_the_first_in_c_order(shape, overlap):
    size = int(np.prod(shape))
    for end in range(size):
        (boxes, rest) = flat_blocks(shape, [0, end, end + 1])
        tail = flat_blocks(shape, [end + 1, size])[0]
        m = IndexMap(shape, {0: boxes, 1: tail, 2: boxes[:1] if overlap else []})
        assert m.is_disjoint != (overlap and end > 0)
        assert m.uncovered() == rest[0].first == np.unravel_index(end, shape)


@pytest.mark.parametrize(
    ("spec", "shape", "devices"),
    [(blocks(0), (100, 3), 40), (grid((5, 8)), (50, 80), 40), (cyclic(1), (2, 100), 40), (replicated(), (7, 7), 40)],
)
def test_cells_of_common_layouts(spec, shape, devices):
    m = spec.resolve(shape, range(devices))
    assert m.covers
    assert m.is_disjoint == (spec != replicated())
    distinct = {r for _, r in m.chunks}
    assert {c.region for c in m.cells} == distinct
    assert all(len(c.holders) == devices // len(distinct) for c in m.cells)


def test_halos_add_only_the_overlaps():
    n = 50
    m = IndexMap((10 * n,), {d: line(slice(max(0, 10 * d - 1), 10 * d + 11), n=10 * n) for d in range(n)})
    assert len(m.cells) == 2 * n - 1
    assert {len(c.holders) for c in m.cells} == {1, 2}


def test_one_overlap_in_the_plane_needs_five_cells():
    m = IndexMap((9, 9), {0: [Region.full((9, 9))], 1: [Region.from_index((slice(3, 6), slice(3, 6)), (9, 9))]})
    assert len(m.cells) == 5


def test_cells_in_residue_classes_or_gaps():
    m = IndexMap((1200,), {0: line(slice(None), n=1200), 1: line(slice(0, None, 3), n=1200)})
    assert len(m.cells) == 3
    m = IndexMap((1200,), {0: line(slice(None), n=1200), 1: line(slice(0, None, 1199), n=1200)})
    assert len(m.cells) == 3
    prime = cyclic(0).resolve((101 * 4,), range(1, 102))
    m = IndexMap(prime.shape, {0: [Region.full(prime.shape)], **{d: prime.regions(d) for d in prime.devices}})
    assert len(m.cells) == 101


def test_what_earlier_regions_hold_is_not_refined_again():
    """Each of 300 ranges overlaps all others; the bound counts the pieces made on the way to 599 cells."""
    held = [Region((Range(d, 1, 300),)) for d in range(300)]
    assert len(refine(held, limit=1200)) == 599


def test_too_complex_cells(monkeypatch):
    steps = (7, 11, 13, 17, 19, 23)
    held = line(*[slice(None, None, s) for s in steps], n=10**6)
    with pytest.raises(LayoutComplexityError, match="more than 100 pieces"):
        refine(held, limit=100)
    monkeypatch.setattr(cells_module.refine, "__defaults__", (100,))
    m = IndexMap((10**6,), {0: held})
    with pytest.raises(LayoutComplexityError, match="6 distinct regions"):
        assert m.cells
    assert m.uncovered() == (1,)  # by bitmap
    monkeypatch.setattr(index_map_module, "MAX_BITS", 1000)
    with pytest.raises(LayoutComplexityError):
        IndexMap((10**6,), {0: held}).uncovered()
    full = IndexMap((10**6,), {0: held, 1: line(slice(None), n=10**6)})
    assert full.covers  # one full region settles it


def test_empty_regions_and_devices():
    empty = Region.from_index(slice(0, 0), (4, 3))
    m = IndexMap((4, 3), {2: [empty, empty], 1: [], 0: [Region.full((4, 3))]})
    assert m.devices == (0, 1, 2)
    assert m.chunks == ((0, Region.full((4, 3))), (2, empty))
    assert m.regions(1) == ()
    assert [i for i, _ in m.query(Region.full((4, 3)))] == [0]
    assert list(m.query(empty)) == []
    assert m.cells == (Cell(Region.full((4, 3)), (0,)),)
    assert m.is_disjoint
    assert m.covers
    assert not m.is_replicated
    assert m.owned(2) == m.owned(1) == ()
    nothing = IndexMap((0, 3), {})
    assert nothing.covers
    assert nothing.is_disjoint
    assert nothing.cells == ()
    assert not nothing.is_replicated
    assert IndexMap((), {}).uncovered() == ()
    assert IndexMap((), {0: [Region(())]}).covers
    assert IndexMap((2, 2), {}).uncovered() == (0, 0)


@given(maps(), maps())
def test_equality_hash_digest(a, b):
    shuffled = IndexMap(a.shape, {d: reversed(a.regions(d) * 2) for d in reversed(a.devices)})
    assert shuffled == a
    assert hash(shuffled) == hash(a)
    assert shuffled.digest == a.digest
    same = a.shape == b.shape and a.devices == b.devices and a.chunks == b.chunks
    assert (a == b) == same == (a.digest == b.digest)
    assert a != a.chunks
    restored = pickle.loads(pickle.dumps(a))
    assert restored == a
    assert restored.digest == a.digest


def test_equality_is_of_sets_not_spellings():
    a, b = as_spec({0: slice(0, 10, 3)}), as_spec({0: slice(9, None, -3)})
    assert a.resolve((12,), [0]) == b.resolve((12,), [0])
    assert IndexMap((4,), {0: []}) != IndexMap((4,), {})
    assert IndexMap((4,), {0: []}) != IndexMap((4,), {0: line(slice(0, 0), n=4)})


def test_digest_is_the_same_in_other_processes():
    code = (
        "from distarray.geometry import *;"
        "m = as_spec({3: [slice(0, 9, 2), slice(4)], 0: slice(2, 9)}).resolve((9,), [0, 3]);"
        "print(m.digest.hex(), [(str(c.region), c.holders) for c in m.cells])"
    )
    outs = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2", "77")
    }
    assert len(outs) == 1
    m = as_spec({3: [slice(0, 9, 2), slice(4)], 0: slice(2, 9)}).resolve((9,), [0, 3])
    assert outs.pop().split()[0] == m.digest.hex()
    assert len(m.digest) == 16


@given(maps())
def test_to_dict_round_trip(m):
    assert as_spec(m.to_dict()).resolve(m.shape, m.devices or (0,)) == m
    array = np.arange(m.size).reshape(m.shape)
    for d, keys in m.to_dict().items():
        assert [array[k].shape for k in keys] == [r.shape for r in m.regions(d)]


def test_constructor_errors():
    with pytest.raises(IndexMapError, match="device id -1 is not an integer >= 0"):
        IndexMap((4,), {-1: []})
    with pytest.raises(IndexMapError, match="device id True"):
        IndexMap((4,), {True: []})
    with pytest.raises(IndexMapError, match=r"device 3 has region \[2:5\], which reaches beyond axis 0 .* of length 4"):
        IndexMap((4,), {3: line(slice(2, 5), n=9)})
    with pytest.raises(IndexMapError, match=r"device 3 has region \[2:4\] with 1 axes"):
        IndexMap((4, 4), {3: line(slice(2, 4), n=9)})
    with pytest.raises(IndexMapError, match=r"device 0 has slice.* where a Region is needed"):
        IndexMap((4,), {0: [slice(0, 2)]})
    with pytest.raises(IndexMapError, match="shape holds -1"):
        IndexMap((4, -1), {})
    m = IndexMap((np.int64(4),), {np.int64(2): line(slice(2), n=4)})
    assert [type(v) for v in (*m.shape, *m.devices)] == [int, int]
    with pytest.raises(AttributeError):
        m.shape = (5,)
    with pytest.raises(LayoutError, match="has 2 axes"):
        m.query(Region.full((2, 2)))
    with pytest.raises(LayoutError, match="has 2 axes"):
        m.query_cells(Region.full((2, 2)))


def test_repr_is_short():
    assert repr(blocks(0).resolve((4,), [0, 1])) == "IndexMap(shape=(4,), {0: [[0:2]], 1: [[2:4]]})"
    assert len(repr(blocks(0).resolve((4096,), range(4096)))) < 300
