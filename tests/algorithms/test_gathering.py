"""Positions are found by the boxes that hold them, whatever the boxes' steps."""

from __future__ import annotations

import numpy as np
import pytest

import distarray as da
from distarray.algorithms.gathering import IndexedBoxes, Order
from distarray.fusion.native import vectors
from distarray.geometry import IndexMap, Range, Region, cyclic


def lines(*ranges: tuple[int, int, int]) -> list[Region]:
    return [Region([Range.of(*r)]) for r in ranges]


@pytest.mark.parametrize("boxes", [
    lines((0, 1, 5), (5, 1, 5), (20, 1, 3)),
    lines((0, 4, 6), (1, 4, 6), (2, 4, 3), (14, 4, 3), (3, 4, 1), (7, 4, 5)),
    lines((0, 3, 4), (1, 2, 4), (20, 1, 4)),
    lines((0, 2, 12), (4, 1, 9)),
    lines((3, 1, 1), (3, 1, 1)),
    lines((0, 1, 24)),
    lines(),
    [Region([Range.of(i, 2, 6), Range.of(j, 1, 3)]) for i in (0, 1, 12, 13) for j in (0, 3)],
], ids=str)  # fmt: skip
def test_every_box_finds_its_positions(boxes: list[Region]) -> None:
    ndim = max((len(box) for box in boxes), default=1)
    index = tuple(np.random.default_rng(axis).integers(0, (26, 7)[axis], 60) for axis in range(ndim))
    expected = []
    for i, box in enumerate(boxes):
        inside = [p for p in range(60) if all(r.holds(int(a[p])) for r, a in zip(box, index, strict=True))]
        if inside:
            expected.append((i, inside))
    found = Order(index).select(boxes)
    assert sorted((i, positions.tolist()) for i, positions in found) == expected
    assert Order(tuple(a[:0] for a in index)).select(boxes) == []


def test_the_blocks_of_cyclic_layouts_share_positions_out() -> None:
    layout = IndexMap((24_000,), {d: cyclic(0, 50).resolve((24_000,), range(4)).regions(d) for d in range(4)})
    boxes = [region for _, region in layout.chunks]
    positions = np.random.default_rng(0).permutation(24_000)
    dealt = IndexedBoxes(boxes).deal(positions)
    assert dealt is not None
    assert sum(len(places) for _, places in dealt[0]) == 24_000


def test_all_that_is_asked_for_is_weighed_against_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel is for rows that all devices ask for, whichever of them asks first."""
    asked = []
    monkeypatch.setattr(vectors, "_function", lambda key, text, elements: asked.append(elements))
    with da.init(devices=4, kind="host", minimum_chunk=1):
        rows, index = np.arange(4000.0).reshape(1000, 4), np.arange(1000)[::-1].copy()
        np.testing.assert_array_equal(da.asarray(rows)[da.asarray(index)].get(), rows[index])
    assert asked == [1000] * 4
