"""Plans: the moves that turn one layout into another.

A plan is a pure value, computed from two layouts without touching data, the same on every process. Each target element
is produced exactly once in every chunk that holds it: copied from the nearest holder, or folded, exactly once, from all
the partial values. One device's own part of a plan is found without building the others'.

The plan has two rounds. The first copies and folds out of the source's chunks; the second forwards folded values from
the chunk that folded them to the target's other copies. Together they are a reduce-scatter followed by an all-gather
where everything overlaps, and plain point-to-point moves where nothing does.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from distarray.errors import LayoutComplexityError, LayoutError
from distarray.geometry import IndexMap, Range, Region, Slices, blocks
from distarray.geometry._spatial import MAX_PIECES
from distarray.layout import Layout
from distarray.modes import Mode

__all__ = ["Forward", "Plan", "Step", "plan", "waypoint"]

SPLIT_ELEMENTS = 4096
"""A fold of fewer elements stays on one device: splitting it would cost more in messages than it saves in bytes."""


MEETINGS = 1 << 14
"""A move of fewer pieces of `PIECE` elements is never made by way of another map, which would cost a second copy of the data…"""

PIECE = 1 << 12
"""…and one of smaller pieces, each of which costs more than copying its elements, where there are…"""

SOME = 1 << 9
"""…at most so many."""

FEW = 8
"""Folds of at most so many elements, to at most so many chunks, take one round: each chunk gets all partial values."""

SAMPLE = 32
"""So many regions of a map are asked first in how many pieces they meet another map."""


class Step(NamedTuple):
    """Round one: `target[key] = fold(sources)`, or with `accumulate`, `target[key] = fold(target[key], sources)`."""

    target: int
    key: Slices
    sources: tuple[tuple[int, Slices], ...]
    accumulate: bool
    size: int


class Forward(NamedTuple):
    """Round two: `target[key] = origin[origin_key]`, both chunks of the *target* layout."""

    target: int
    key: Slices
    origin: int
    origin_key: Slices
    size: int


class Plan(NamedTuple):
    """The moves from `source` to `target`.

    Attributes
    ----------
    fill : Mode or None
        Target chunks start as this mode's identity, since the steps do not write every element.
    alias : dict of int to int
        Target chunks that are a whole source chunk of the same device: shareable instead of copied.
    steps, forwards : tuple
        The first and second round.
    moving : bool
        Whether anything has to be done but to share chunks.
    """

    source: Layout
    target: Layout
    fill: Mode | None
    alias: dict[int, int]
    steps: tuple[Step, ...]
    forwards: tuple[Forward, ...]
    moving: bool

    @property
    def forwarding(self) -> bool:
        """Whether there may be a second round. Like `moving` it is the same for a part of the plan as for the whole."""
        partial = self.source.is_partial and self.source.mode is not self.target.mode
        return self.moving and partial and not _at_once(self.target)

    @property
    def rounds(self) -> int:
        first, second = self.messages(1)
        return bool(first) + bool(second)

    def messages(self, itemsize: int) -> tuple[dict[tuple[int, int], int], dict[tuple[int, int], int]]:
        """Bytes for each `(sending device, receiving device)`, for the two rounds."""
        first: dict[tuple[int, int], int] = {}
        second: dict[tuple[int, int], int] = {}
        source, target = self.source.chunks, self.target.chunks
        for step in self.steps:
            receiver = target[step.target][0]
            for chunk, _ in step.sources:
                if (sender := source[chunk][0]) != receiver:
                    pair = (sender, receiver)
                    first[pair] = first.get(pair, 0) + step.size * itemsize
        for forward in self.forwards:
            pair = (target[forward.origin][0], target[forward.target][0])
            if pair[0] != pair[1]:
                second[pair] = second.get(pair, 0) + forward.size * itemsize
        return first, second

    def bytes_moved(self, itemsize: int) -> int:
        """Bytes that leave one device for another."""
        first, second = self.messages(itemsize)
        return sum(first.values()) + sum(second.values())


def plan(source: Layout, target: Layout, devices: Collection[int] | None = None) -> Plan:
    """The moves that turn an array of layout `source` into the same array in layout `target`.

    Parameters
    ----------
    source, target : Layout
        Layouts of one shape, any index maps and modes.
    devices : collection of int, optional
        Plan only the moves that send from, or arrive at, these devices, in the order that they have in the whole plan. Costs
        in proportion to their own moves.

    Raises
    ------
    LayoutError
        The shapes differ.
    LayoutComplexityError
        More than 200,000 moves would be needed, and more than there are pairs of devices.
    """
    if source.shape != target.shape:
        raise LayoutError(
            f"cannot move an array of shape {source.shape} into a layout of shape {target.shape}: build the layout for "
            f"the array's own shape, or pass a specification such as distarray.blocks(0), which fits any shape"
        )
    wanted = None if devices is None else frozenset(devices)
    if source is target or (source.mode is target.mode and source.index_map == target.index_map):
        alias = {i: i for i in range(len(target.chunks))}
        return Plan(source, target, None, alias, (), (), moving=False)
    if source.is_partial and source.mode is target.mode:
        return _spread(source, target, wanted)
    if source.index_map == target.index_map and not source.is_partial and target.mode.idempotent:
        alias = {i: i for i in range(len(target.chunks))}
        return Plan(source, target, None, alias, (), (), moving=False)
    return _resolve(source, target, wanted)


def waypoint(source: IndexMap, target: IndexMap, least: int | None = None, factor: int = 2) -> IndexMap | None:
    """Blocks to move by way of, where two maps meet in far more pieces than each of them meets blocks in: in more than
    `least`, and than `factor` times as many.

    That is so for block-cyclic maps of unlike blocks: of `a` and `b` strided regions a device, on k devices, up to
    ``k*k*a*b`` pairs meet, and ``k*k*(a + b)`` by way of blocks.
    """
    if least is None:
        least = min(MEETINGS, max(SOME, math.prod(source.shape) // PIECE))
    most = max((len(source.regions(d)) for d in source.devices), default=0)
    most *= max((len(target.regions(d)) for d in target.devices), default=0)
    strided = any(r[1] > 1 for index_map in (source, target) for _, region in index_map.chunks for r in region)
    if most < least // 16 or not strided:
        return None
    few = max(least, factor * len(target.devices) * (len(source.chunks) + len(target.chunks)))
    sample = source.chunks[:: max(1, len(source.chunks) // SAMPLE)]
    # a sample of the regions tells for regular maps; for others, where the sample meets few, all are counted
    if not (_more(sample, target, few * len(sample) // len(source.chunks)) or _more(source.chunks, target, few)):
        return None
    axis = max(range(source.ndim), key=lambda a: source.shape[a])
    return blocks(axis).resolve(source.shape, target.devices)


def _more(chunks: Sequence[tuple[int, Region]], target: IndexMap, few: int) -> bool:
    """Whether chunks meet `target` in more than `few` pieces; looks at little more than so many."""
    for _, region in chunks:
        few -= sum(1 for _ in target.query(region))
        if few < 0:
            return True
    return False


def _resolve(source: Layout, target: Layout, wanted: frozenset[int] | None) -> Plan:
    """REPLICA or partial source → values, in every target chunk (or in one, where the target is SUM or PROD)."""
    src, dst = source.chunks, target.chunks
    steps: list[Step] = []
    forwards: list[Forward] = []
    alias: dict[int, int] = {}
    for regions, takers in _targets(source, target, wanted):
        cells = {cell_id: part for region in regions for cell_id, part in source.index_map.query_cells(region)}
        for cell_id, part in sorted(cells.items()) if len(regions) > 1 else cells.items():
            holders = source.index_map.cells[cell_id].holders
            if source.is_partial and len(holders) > 1:
                _fold(source, target, part, holders, takers, cell_id, wanted, steps, forwards)
                continue
            for taker in takers:
                device, whole = dst[taker]
                giver = _nearest(src, holders, device, target.index_map)
                if wanted is not None and device not in wanted and src[giver][0] not in wanted:
                    continue
                if src[giver][0] == device and src[giver][1] == whole == part:
                    alias[taker] = giver
                    continue
                keys = ((giver, src[giver][1].locate(part).key),)
                steps.append(Step(taker, whole.locate(part).key, keys, False, part.size))
        _limit(source, target, len(steps) + len(forwards))
    fill: Mode | None = None
    if target.mode in (Mode.SUM, Mode.PROD) and not target.index_map.is_disjoint:
        fill = target.mode
    elif source.is_partial and not source.index_map.covers:
        fill = source.mode
    return Plan(source, target, fill, alias, tuple(steps), tuple(forwards), moving=True)


def _limit(source: Layout, target: Layout, count: int) -> None:
    if count > MAX_PIECES and count > len(source.devices) * len(target.devices):
        raise LayoutComplexityError(
            f"a move from {len(source.chunks)} regions to {len(target.chunks)} needs more than {MAX_PIECES} pieces: go by way of "
            "blocks, with x.reshard(distarray.blocks(0)).reshard(layout), or use larger or fewer regions"
        )


def _targets(
    source: Layout, target: Layout, wanted: frozenset[int] | None
) -> Iterator[tuple[Sequence[Region], tuple[int, ...]]]:
    """`(regions, target chunks that want them)`, the parts of the target between which no fold is shared."""
    index_map = target.index_map
    if target.mode in (Mode.SUM, Mode.PROD):
        for device in index_map.devices:
            for chunk, region in index_map.first_owned(device):
                if _relevant(source.index_map, wanted, region, device):
                    yield (region,), (chunk,)
    elif source.is_partial:
        for cell in index_map.cells:
            takers = cell.holders
            if wanted is None or any(index_map.chunks[t][0] in wanted for t in takers):
                yield (cell.region,), takers
            elif _relevant(source.index_map, wanted, cell.region, -1):
                yield (cell.region,), takers
    elif wanted is None:
        for chunk, (_, region) in enumerate(index_map.chunks):
            if region.size:
                yield (region,), (chunk,)
    else:
        yield from _own_targets(source.index_map, index_map, wanted)


def _own_targets(
    source: IndexMap, target: IndexMap, wanted: frozenset[int]
) -> Iterator[tuple[Sequence[Region], tuple[int, ...]]]:
    """What the wanted devices receive, whole; and what others might receive from them, cut to what they hold. In order of
    the target's chunks."""
    found: dict[int, list[Region]] = {}
    for device in wanted:
        if device in target.devices:
            for chunk in target.chunk_ids(device):
                if target.chunks[chunk][1].size:
                    found[chunk] = [target.chunks[chunk][1]]
    for device in wanted:
        if device in source.devices:
            for region in source.regions(device):
                for chunk, part in target.query(region):
                    if target.chunks[chunk][0] not in wanted:
                        found.setdefault(chunk, []).append(part)
    for chunk, regions in sorted(found.items()):
        yield regions, (chunk,)


def _relevant(source: IndexMap, wanted: frozenset[int] | None, region: Region, device: int) -> bool:
    if wanted is None or device in wanted:
        return True
    return any(
        held.intersect(region) is not None for d in sorted(wanted) if d in source.devices for held in source.regions(d)
    )


def _nearest(chunks: tuple[tuple[int, Region], ...], holders: tuple[int, ...], device: int, target: IndexMap) -> int:
    """The holder a device reads from: its own chunk, else its share of the holders in turn."""
    if len(holders) == 1:
        return holders[0]
    for holder in holders:
        if chunks[holder][0] == device:
            return holder
    return holders[bisect_left(target.devices, device) % len(holders)]


def _at_once(target: Layout) -> bool:
    """Whether every taker folds for itself: of so little, for so few, a second round would cost more than it saves."""
    return len(target.chunks) <= FEW and math.prod(target.shape) <= FEW


def _fold(
    source: Layout,
    target: Layout,
    part: Region,
    holders: tuple[int, ...],
    takers: tuple[int, ...],
    turn: int,
    wanted: frozenset[int] | None,
    steps: list[Step],
    forwards: list[Forward],
) -> None:
    """Fold the partial values of one part, in chunk order, in one taker a piece; then forward to the other takers."""
    src, dst = source.chunks, target.chunks
    homes = {src[h][0] for h in holders}
    folders = tuple(t for t in takers if dst[t][0] in homes) or takers
    if _at_once(target):
        for taker in takers:
            device, whole = dst[taker]
            if wanted is None or device in wanted or any(src[h][0] in wanted for h in holders):
                sources = tuple((h, src[h][1].locate(part).key) for h in holders)
                steps.append(Step(taker, whole.locate(part).key, sources, False, part.size))
        return
    if part.size < SPLIT_ELEMENTS or len(folders) == 1:
        pieces: Iterable[tuple[int, Region]] = ((folders[turn % len(folders)], part),)
    else:
        pieces = zip(folders, split(part, len(folders)), strict=False)
    for folder, piece in pieces:
        device, whole = dst[folder]
        if wanted is None or device in wanted or any(src[h][0] in wanted for h in holders):
            sources = tuple((h, src[h][1].locate(piece).key) for h in holders)
            steps.append(Step(folder, whole.locate(piece).key, sources, False, piece.size))
        for taker in takers:
            if taker != folder and (wanted is None or device in wanted or dst[taker][0] in wanted):
                key, origin_key = dst[taker][1].locate(piece).key, whole.locate(piece).key
                forwards.append(Forward(taker, key, folder, origin_key, piece.size))


def _spread(source: Layout, target: Layout, wanted: frozenset[int] | None) -> Plan:
    """Partial → the same partial mode elsewhere: each partial value arrives in exactly one target chunk."""
    src, dst = source.chunks, target.chunks
    steps: list[Step] = []
    written: dict[int, list[Region]] | None = None if source.index_map.is_disjoint else {}
    for giver, (device, held) in enumerate(src):
        rest = [held] if held.size else []
        placed: list[tuple[int, Region]] = []
        if device in target.devices:
            own = target.index_map.chunk_ids(device)
            for taker in [chunk for chunk, _ in target.index_map.query(held) if chunk in own]:
                rest = _take(rest, dst[taker][1], taker, placed)
                _limit(source, target, len(rest) + len(placed))
        for region in rest:
            for cell_id, part in target.index_map.query_cells(region):
                placed.append((target.index_map.cells[cell_id].holders[0], part))
        for taker, part in placed:
            for piece, accumulate in _fresh(part, taker, written):
                if wanted is None or device in wanted or dst[taker][0] in wanted:
                    keys = ((giver, held.locate(piece).key),)
                    steps.append(Step(taker, dst[taker][1].locate(piece).key, keys, accumulate, piece.size))
        _limit(source, target, len(steps))
    return Plan(source, target, target.mode, {}, tuple(steps), (), moving=True)


def _fresh(part: Region, taker: int, written: dict[int, list[Region]] | None) -> Iterator[tuple[Region, bool]]:
    """`part` as pieces, each with whether the taker already holds a partial value there that it must be folded into."""
    if written is None:
        yield part, False
        return
    earlier = written.setdefault(taker, [])
    rest = [part]
    for old in earlier:
        placed: list[tuple[int, Region]] = []
        rest = _take(rest, old, taker, placed)
        for _, piece in placed:
            yield piece, True
    for piece in rest:
        earlier.append(piece)
        yield piece, False


def _take(rest: list[Region], whole: Region, taker: int, placed: list[tuple[int, Region]]) -> list[Region]:
    """Move what `whole` covers of `rest` to `placed`; return what remains."""
    left: list[Region] = []
    for region in rest:
        part = region.intersect(whole)
        if part is None:
            left.append(region)
        else:
            placed.append((taker, part))
            left.extend(region.difference(whole))
    return left


def split(region: Region, count: int) -> list[Region]:
    """`region` cut into at most `count` even, non-empty pieces along its longest axis."""
    axis = max(range(region.ndim), key=lambda a: (region[a].size, -a))
    size = region[axis].size
    count = min(count, size)
    bounds = [size * i // count for i in range(count + 1)]
    pieces = []
    for low, high in zip(bounds, bounds[1:], strict=False):
        part = region[axis].compose(Range.of(low, 1, high - low))
        pieces.append(Region((*region[:axis], part, *region[axis + 1 :])))
    return pieces
