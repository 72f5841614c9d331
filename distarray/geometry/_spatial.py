"""The spatial index behind index-map queries: which of many regions meet a given one, without looking at all of them.

Regions are split by their range along one axis (the one with most distinct starts), then each range's regions along the
next, so that grids cost what their axes cost. Along an axis, ranges are kept by step, residue of the start (two steps
meet only in residues equal modulo their gcd) and order of magnitude of their length (so that one long range does not
make all short ones candidates), and within that sorted by start with the running maximum of their ends."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from math import gcd

from distarray.errors import LayoutComplexityError
from distarray.geometry.ranges import Range
from distarray.geometry.regions import Region

__all__ = ["MAX_PIECES", "RegionIndex", "are_apart", "remainder", "split_at"]

MAX_PIECES = 200_000
"""How many regions a map may have, and how many pieces the regions of maps may be split into where they meet."""

_SCAN = 8  # up to this many entries a plain scan is as fast as any structure

Entry = tuple[int, Region]


class RegionIndex:
    """An index over ``(id, non-empty region)`` pairs with distinct ids; `query` finds those that meet a region."""

    __slots__ = ("_root",)

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._root = _node([e for e in entries if e[1].size])

    def query(self, region: Region) -> list[tuple[int, Region]]:
        """The ids of the regions that meet `region`, ascending, each with the intersection."""
        if not region.size:
            return []
        out: list[tuple[int, Region]] = []
        self._root.query(region, out)
        out.sort()
        return out


def remainder(region: Region, taken: Sequence[Region], places: Sequence[int]) -> list[Region]:
    """What is in `region` and in none of `taken` at `places`, in disjoint pieces; `places` name at least those that meet it.

    O((n + k) log n) for n blocks that leave k pieces.

    Raises
    ------
    LayoutComplexityError
        If strided regions leave more than 200,000 pieces.
    """
    left: list[Region] = []
    todo = [(region, places)]
    while todo:
        piece, near = todo.pop()
        near = [place for place in near if piece.intersect(taken[place]) is not None]
        if not near:
            left.append(piece)
            if len(left) + len(todo) > MAX_PIECES:
                raise LayoutComplexityError(
                    f"what {len(places)} regions leave of {region} needs more than {MAX_PIECES} pieces; strided regions that "
                    "overlap must share few steps: use blocks or equal steps, or fewer regions"
                )
            continue
        rest = piece.difference(taken[near.pop(split_at(near))])
        todo.extend((part, near) for part in reversed(rest))
    return left


def split_at(places: Sequence[int]) -> int:
    """Which of the regions that meet another one is cut off first: of many that in the middle, so that each piece is left
    with half of them."""
    return 0 if len(places) <= _SCAN else len(places) // 2


def are_apart(regions: Iterable[Region]) -> bool:
    """Whether distinct regions are seen to be disjoint axis by axis: along each, their ranges are equal or disjoint.

    True of the blocks of a grid, of cyclic sets and of their products; other disjoint regions may give False.
    """
    for ranges in map(set, zip(*regions)):
        if len({r[1] for r in ranges}) > 1:
            return False
        ends: dict[int, int] = {}
        for start, step, size in sorted(ranges):
            residue = start % step
            if ends.get(residue, -1) >= start:
                return False
            ends[residue] = start + (size - 1) * step
    return True


class _Scan:
    """Few regions, or identical ones: each distinct region with its ids."""

    __slots__ = ("groups",)

    def __init__(self, entries: Sequence[Entry]) -> None:
        groups: dict[Region, list[int]] = {}
        for id_, region in entries:
            groups.setdefault(region, []).append(id_)
        self.groups = list(groups.items())

    def query(self, q: Region, out: list[tuple[int, Region]]) -> None:
        for region, ids in self.groups:
            common = q.intersect(region)
            if common is not None:
                if len(ids) == 1:
                    out.append((ids[0], common))
                else:
                    out += [(id_, common) for id_ in ids]


class _Split:
    """Many regions, split by their ranges along `axis`."""

    __slots__ = ("axis", "steps")

    def __init__(self, axis: int, entries: Sequence[Entry]) -> None:
        self.axis = axis
        by_range: dict[Range, list[Entry]] = {}
        for entry in entries:
            by_range.setdefault(entry[1][axis], []).append(entry)
        buckets: dict[tuple[int, int, int], list[Range]] = {}
        for r in by_range:
            buckets.setdefault((r.step, r.start % r.step, (r.stop - r.start).bit_length()), []).append(r)
        steps: dict[int, dict[int, list[_Bucket]]] = {}
        for (step, residue, _), ranges in sorted(buckets.items()):
            ranges.sort()
            bucket = _Bucket(ranges, [_node(by_range[r]) for r in ranges])
            steps.setdefault(step, {}).setdefault(residue, []).append(bucket)
        self.steps = list(steps.items())

    def query(self, q: Region, out: list[tuple[int, Region]]) -> None:
        r = q[self.axis]
        first, last = r[0], r.last
        for step, residues in self.steps:
            if step == 1:
                for bucket in residues[0]:
                    bucket.query(r, first, last, q, out)
            else:
                for residue in _meeting(r, step, residues):
                    for bucket in residues[residue]:
                        bucket.query(r, first, last, q, out)


class _Bucket:
    """Ranges of one step and residue, sorted by start, each with the node of its regions."""

    __slots__ = ("children", "lasts", "plain", "ranges", "starts")

    def __init__(self, ranges: list[Range], children: list[_Scan | _Split]) -> None:
        self.ranges = ranges
        self.children = children
        self.starts = [r.start for r in ranges]
        self.lasts = list(accumulate([r.last for r in ranges], max))
        self.plain = ranges[0].step == 1

    def query(self, r: Range, first: int, last: int, q: Region, out: list[tuple[int, Region]]) -> None:
        lo = bisect_left(self.lasts, first)
        hi = bisect_right(self.starts, last)
        if self.plain and r[1] == 1:
            for k in range(lo, hi):
                if self.ranges[k].last >= first:
                    self.children[k].query(q, out)
        else:
            for k in range(lo, hi):
                if self.ranges[k].intersect(r)[2]:
                    self.children[k].query(q, out)


def _node(entries: Sequence[Entry]) -> _Scan | _Split:
    if len(entries) > _SCAN:
        counts = [len({e[1][axis] for e in entries}) for axis in range(len(entries[0][1]))]
        most = max(counts, default=1)
        if most > 1:
            return _Split(counts.index(most), entries)
    return _Scan(entries)


def _meeting(r: Range, step: int, residues: dict[int, list[_Bucket]]) -> Iterator[int]:
    """The residues modulo `step` that hold an index of `r`, found along the shortest of three ways."""
    g = gcd(step, r.step)
    wanted = step // g
    if len(residues) <= min(wanted, r.size):
        if g == 1:
            yield from residues
        else:
            own = r.start % g
            for residue in residues:
                if residue % g == own:
                    yield residue
    elif wanted <= r.size:
        for residue in range(r.start % g, step, g):
            if residue in residues:
                yield residue
    else:
        for i in range(r.start, r.stop, r.step):
            if i % step in residues:
                yield i % step
