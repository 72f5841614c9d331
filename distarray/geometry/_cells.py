"""The common refinement of overlapping regions: disjoint cells, each with the set of regions that hold it.

Each region yields the cells of which it is the first holder, so only its neighbours (found by a spatial index) take
part. It is halved, or split in residue classes, until every neighbour covers a piece or misses it; the split comes from
the neighbour in the middle, which keeps the work near-linear for blocks, grids and cyclic sets alike. Strided regions
that overlap at random have exponentially many cells, hence the stated bound."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from math import prod

from distarray.errors import LayoutComplexityError
from distarray.geometry._spatial import MAX_PIECES, RegionIndex
from distarray.geometry.ranges import Range
from distarray.geometry.regions import Region

__all__ = ["MAX_BITS", "MAX_PIECES", "first_gap", "refine"]

MAX_BITS = 1 << 24
"""How many elements an array may have for its coverage to be decided by a bitmap."""

Neighbours = list[tuple[int, Region]]


def refine(regions: Sequence[Region], limit: int = MAX_PIECES) -> list[tuple[Region, tuple[int, ...]]]:
    """Disjoint regions that cover the same elements as `regions` (distinct, non-empty), each with its holders'
    positions.

    Raises
    ------
    LayoutComplexityError
        If more than `limit` pieces would be needed.
    """
    index = RegionIndex(enumerate(regions))
    out: list[tuple[Region, tuple[int, ...]]] = []
    made = 0
    for own, region in enumerate(regions):
        near = [hit for hit in index.query(region) if hit[0] != own]
        if not near:
            out.append((region, (own,)))
            continue
        stack: list[tuple[Region, tuple[int, ...], Neighbours]] = [(region, (own,), near)]
        while stack:
            piece, holders, near = stack.pop()
            partial: Neighbours = []
            more: list[int] = []
            for hit in near:
                if hit[1] != piece:
                    partial.append(hit)
                elif hit[0] > own:
                    more.append(hit[0])
                else:
                    break  # an earlier region holds the whole piece, which is its to give
            else:
                if more:
                    holders = (*holders, *more)
                if partial:
                    parts = _split(piece, partial, own)
                    made += len(parts)
                    if made > limit:
                        raise LayoutComplexityError(
                            f"the {len(regions)} distinct regions of the index map overlap in more than {limit} "
                            "pieces; "
                            "strided regions that overlap must share few steps: use blocks or equal steps, or fewer "
                            "regions"
                        )
                    stack += [(part, holders, inside) for part, inside in parts]
                else:
                    out.append((piece, tuple(sorted(holders))))
    return out


def _split(piece: Region, near: Neighbours, own: int) -> list[tuple[Region, Neighbours]]:
    """`piece` in parts along one axis, each with what of its neighbours lies in it (`near` holds intersections)."""
    pivot = near[len(near) // 2][1]
    if near[0][0] < own:  # an earlier region that takes most of the piece away comes first
        size, _, taken = max([(hit[1].size, -hit[0], hit[1]) for hit in near if hit[0] < own])
        if 2 * size >= piece.size:
            pivot = taken
    axis = next(a for a in range(len(piece)) if pivot[a] != piece[a])
    whole = piece[axis]
    at = whole.locate(pivot[axis])
    if at.step == 1:
        cut = at.start if at.start else at.size
    else:
        prime = _least_prime(at.step)
        if at.size > prime or _gains(whole, axis, prime, near):
            return _classes(piece, axis, prime, near)
        if at.start:
            cut = at.start
        elif at.last + 1 < whole.size:
            cut = at.last + 1
        else:
            cut = at.start + at.size // 2 * at.step
    low = whole.compose(Range.of(0, 1, cut))
    high = whole.compose(Range.of(cut, 1, whole.size - cut))
    edge = high.start
    below: Neighbours = []
    above: Neighbours = []
    for hit in near:
        r = hit[1][axis]
        if r.last < edge:
            below.append(hit)
        elif r.start >= edge:
            above.append(hit)
        else:
            below.append((hit[0], _put(hit[1], axis, r.intersect(low))))
            above.append((hit[0], _put(hit[1], axis, r.intersect(high))))
    return [(_put(piece, axis, low), below), (_put(piece, axis, high), above)]


def _gains(whole: Range, axis: int, prime: int, near: Neighbours) -> bool:
    """Whether residue classes modulo `prime` make fewer pieces than cutting at every index of the neighbours."""
    indices = 0
    for _, region in near:
        at = whole.locate(region[axis])
        if at.step % prime == 0:
            indices += at.size
            if indices > prime:
                return True
    return False


def _classes(piece: Region, axis: int, prime: int, near: Neighbours) -> list[tuple[Region, Neighbours]]:
    """`piece` split along `axis` in the residue classes of its positions modulo `prime`."""
    whole = piece[axis]
    n = whole.size
    parts = [whole.compose(Range.of(k, prime, (n - k + prime - 1) // prime)) for k in range(min(prime, n))]
    inside: list[Neighbours] = [[] for _ in parts]
    for id_, region in near:
        r = region[axis]
        at = whole.locate(r)
        if at.step % prime == 0:
            inside[at.start % prime].append((id_, region))
        else:
            period = min(prime, at.size)  # a step prime to the modulus visits the classes one after the other
            for k in {(at.start + i * at.step) % prime for i in range(period)}:
                inside[k].append((id_, _put(region, axis, r.intersect(parts[k]))))
    return [(_put(piece, axis, part), hits) for part, hits in zip(parts, inside)]


def _put(region: Region, axis: int, r: Range) -> Region:
    return Region((*region[:axis], r, *region[axis + 1 :]))


def _least_prime(n: int) -> int:
    """The smallest prime factor of ``n >= 2``."""
    if n % 2 == 0:
        return 2
    p = 3
    while p * p <= n:
        if n % p == 0:
            return p
        p += 2
    return n


def first_gap(regions: Iterable[Region], shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The first element in C order of an array of `shape`, of at most `MAX_BITS` elements, that no region holds."""
    strides = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
    held = bytearray(prod(shape))
    for region in regions:
        axis = max(range(len(region)), key=lambda a: region[a].size, default=-1)
        if axis < 0:
            return None
        start, step, size = region[axis]
        jump = step * strides[axis]
        reach = (size - 1) * jump + 1
        row = b"\1" * size
        lead = [[i * stride for i in range(r.start, r.stop, r.step)] for r, stride in zip(region, strides)]
        lead[axis] = [start * strides[axis]]
        for offsets in product(*lead):
            at = sum(offsets)
            held[at : at + reach : jump] = row
    at = held.find(0)
    if at < 0:
        return None
    return tuple([at // stride % n for stride, n in zip(strides, shape)])
