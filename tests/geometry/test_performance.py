"""Guards against quadratic behaviour: generous multiples of what the operations take, far below what n**2 would. Processor
time of the thread, since others share the machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from distarray.geometry import IndexMap, Range, Region, ViewMap, blocks, cyclic, grid, replicated, reshape_map

N = 10_000


def seconds(work: Callable[[], Any]) -> float:
    """The better of two runs."""
    best = float("inf")
    for _ in range(2):
        begin = time.thread_time()
        work()
        best = min(best, time.thread_time() - begin)
    return best


def fresh(m: IndexMap) -> IndexMap:
    """The same map with nothing computed yet."""
    return IndexMap(m.shape, {d: m.regions(d) for d in m.devices})


def test_construct_10000():
    assert seconds(lambda: blocks(0).resolve((7 * N,), range(N))) < 0.75


def test_intersect_maps_of_10000_blocks():
    a = blocks(0).resolve((7 * N,), range(N))
    b = blocks(0, sizes=[6] + [7] * (N - 2) + [8]).resolve((7 * N,), range(N))
    hits = sum(len(list(b.query(r))) for _, r in a.chunks)
    assert hits == 2 * N - 1

    def work() -> None:
        other = fresh(b)
        for _, r in a.chunks:
            list(other.query(r))

    assert seconds(work) < 2.25


def test_rows_to_columns():
    n = 4096
    rows, columns = blocks(0).resolve((n, n), range(n)), blocks(1).resolve((n, n), range(n))
    assert len(list(columns.query(rows.chunks[7][1]))) == n
    assert seconds(lambda: list(columns.query(rows.chunks[7][1]))) < 0.25
    few = Region.from_index((7, slice(100, 110)), (n, n))
    assert len(list(columns.query(few))) == 10
    assert seconds(lambda: [list(columns.query(few)) for _ in range(100)]) < 0.25


def halo(n: int) -> IndexMap:
    rows = [Region((Range(max(0, 10 * d - 1), 1, 12 - (d in (0, n - 1))),)) for d in range(n)]
    return IndexMap((10 * n,), {d: [r] for d, r in enumerate(rows)})


def with_full(m: IndexMap) -> IndexMap:
    return IndexMap(m.shape, {9999: [Region.full(m.shape)], **{d: m.regions(d) for d in m.devices}})


@pytest.mark.parametrize(
    ("make", "cells"),
    [
        (lambda: blocks(0).resolve((7 * N,), range(N)), N),
        (lambda: grid((64, 64)).resolve((640, 640), range(4096)), 4096),
        (lambda: cyclic(0).resolve((1024 * 100,), range(1024)), 1024),
        (lambda: replicated().resolve((1000, 1000), range(1024)), 1),
        (lambda: halo(4096), 2 * 4096 - 1),
        (lambda: with_full(blocks(0).resolve((7 * 4096,), range(4096))), 4096),
        (lambda: with_full(cyclic(0).resolve((1024 * 100,), range(1024))), 1024),
        (lambda: with_full(cyclic(0).resolve((1021 * 64,), range(1021))), 1021),
    ],
    ids=["blocks", "grid", "cyclic", "replicated", "halo", "full-blocks", "full-cyclic", "full-cyclic-prime"],
)
@pytest.mark.parametrize("ask", ["cells", "is_disjoint", "covers", "owned", "first_owned"])
def test_near_linear(make, cells, ask):
    m = make()

    def work() -> None:
        asked = fresh(m)
        if ask == "cells":
            assert len(asked.cells) == cells
        elif ask == "covers":
            assert asked.covers
        elif ask == "is_disjoint":
            assert asked.is_disjoint == (len(asked.chunks) == cells)
        else:
            sizes = [sum(r.size for _, r in getattr(asked, ask)(d)) for d in asked.devices]
            assert sum(sizes) == asked.size

    assert seconds(work) < 3.75


def test_query_through_a_long_region():
    """One region that overlaps all others must not make every query look at them."""
    m = with_full(blocks(0).resolve((7 * 8000,), range(8000)))
    queries = [r for _, r in m.chunks[:8000]]
    assert len(list(m.query(queries[5]))) == 2
    assert seconds(lambda: [list(m.query(r)) for r in queries]) < 2


def test_views_and_reshapes_of_many_chunks():
    m = blocks(0).resolve((4096, 6), range(4096))
    view = ViewMap.identity(m.shape).index((slice(None, None, -1), slice(1, 4))).transpose()
    assert seconds(lambda: [view.pull(r) for _, r in m.chunks]) < 0.75
    assert seconds(lambda: reshape_map(m, (4096, 2, 3))) < 0.75


def test_completing_a_map_of_many_gaps():
    m = IndexMap((10 * 8000,), {0: [Region([Range.of(10 * i, 1, 9)]) for i in range(8000)]})
    assert seconds(lambda: fresh(m).completed()) < 2.5
