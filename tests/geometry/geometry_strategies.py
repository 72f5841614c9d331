"""Hypothesis strategies for small geometry, where sets of elements can be enumerated."""

from __future__ import annotations

from itertools import product

from hypothesis import strategies as st

from distarray.geometry import IndexMap, Range, Region


@st.composite
def ranges(draw, n: int):
    """A range within an axis of length `n`."""
    if n == 0:
        return Range.full(0)
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return Range.full(n)
    start, stop = draw(st.integers(0, n)), draw(st.integers(0, n))
    step = draw(st.sampled_from([1, 1, 1, 2, 2, 3, 4, 5, 6, 7]))
    if kind > 1:
        start, stop = min(start, stop), max(start, stop)
    return Range.from_slice(slice(start, stop, step), n)


def shapes(max_ndim=3, max_side=6, min_side=0):
    return st.lists(st.integers(min_side, max_side), max_size=max_ndim).map(tuple)


def regions(shape):
    return st.tuples(*[ranges(n) for n in shape]).map(Region)


@st.composite
def index_maps(draw, shape, max_chunks=4):
    devices = draw(st.lists(st.integers(0, 9), max_size=4, unique=True))
    mapping = {d: draw(st.lists(regions(shape), max_size=max_chunks)) for d in devices}
    if draw(st.booleans()) and len(devices) > 1:
        mapping[devices[0]] = list(mapping[devices[1]])  # replicas
    if draw(st.integers(0, 3)) == 0 and devices:
        mapping[devices[-1]] = [Region.full(shape)]
    return IndexMap(shape, mapping)


@st.composite
def maps(draw, max_ndim=3, max_side=6):
    return draw(index_maps(draw(shapes(max_ndim, max_side))))


@st.composite
def covering_maps(draw, shape):
    """A map that covers `shape`: what random chunks leave out goes to one more device."""
    m = draw(index_maps(shape))
    rest = [Region.full(shape)]
    for _, region in m.chunks:
        rest = [piece for old in rest for piece in old.difference(region)]
    return IndexMap(shape, {**{d: m.regions(d) for d in m.devices}, 10: rest})


def indices(r: Range) -> set[int]:
    """The set a range stands for, straight from its definition."""
    return {r.start + i * r.step for i in range(r.size)}


def elements(region: Region) -> set[tuple[int, ...]]:
    return set(product(*[sorted(indices(r)) for r in region]))


def is_canonical(r: Range) -> bool:
    return (
        type(r) is Range
        and all(type(v) is int for v in r)
        and r.start >= 0
        and r.step >= 1
        and r.size >= 0
        and (r.size > 1 or (r.step == 1 and (r.size == 1 or r.start == 0)))
    )
