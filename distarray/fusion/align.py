"""Alignment: in which layout an expression is evaluated, what has to be fetched for it, and how each chunk is cut so that
in each cell every operand is one local view.

The decision is taken for a whole expression at its demand, from metadata alone. Operands that read one storage through
several views (a stencil) share what they fetch: only the elements that a device lacks travel, once, in one round.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from distarray.errors import LayoutComplexityError
from distarray.geometry import IndexMap, Pull, Range, Region, Slices, ViewMap
from distarray.geometry._spatial import MAX_PIECES, RegionIndex, remainder, split_at
from distarray.layout import Layout, Visible

if TYPE_CHECKING:
    from distarray.context import Context
    from distarray.storage import Version

__all__ = ["Alignment", "Tile", "Fetch", "Source", "align", "lifted"]


class Source(NamedTuple):
    """Where an operand of one cell is read: `array[key]` of a visible chunk, or of a fetched buffer, by `number`."""

    fetched: bool
    number: int
    key: Slices | None


class Tile(NamedTuple):
    """A part of one result chunk: its key in the chunk (None: all of it), and one source for each leaf."""

    key: Slices | None
    sources: tuple[Source, ...]


class Fetch(NamedTuple):
    """A buffer on `device` for `region` of a group's storage, put together from `parts`: (chunk, its key, buffer key).

    `shapes` are the chunks' shapes where the group's views rely on a reshape.
    """

    group: int
    device: int
    region: Region
    parts: tuple[tuple[int, Slices, Slices], ...]


class Alignment(NamedTuple):
    """How an expression is evaluated.

    Attributes
    ----------
    layout : Layout
        Of the result.
    seen : tuple of Visible or None
        For each leaf, what its view shows of its storage; None is the identity.
    fetches : tuple of Fetch
        Buffers to fill before any cell is computed.
    pulls : tuple of dict
        For each leaf, its view of the fetched buffers: fetch index → Pull.
    bases : dict
        For each group of leaves, what its base shows of the storage; None where that is the storage as it is.
    cells : tuple of tuple of Tile
        For each result chunk.
    messages : dict
        Elements for each (sender, receiver, group).
    mark : int
        A checksum of the fetches, equal in all processes.
    plain : bool
        Every operand lies as the result does: cell by cell it is the same chunk of all.
    """

    layout: Layout
    seen: tuple[Visible | None, ...]
    fetches: tuple[Fetch, ...]
    pulls: tuple[dict[int, Pull], ...]
    bases: dict[int, Visible | None]
    cells: tuple[tuple[Tile, ...], ...]
    messages: dict[tuple[int, int, int], int]
    mark: int
    plain: bool = False

    def giver(self, fetch: Fetch, number: int, version: Version) -> tuple[int, Any]:
        """The device that gives a part of a fetch, and its chunk in the base's coordinates; None on other processes."""
        seen = self.bases[fetch.group]
        place = number if seen is None else seen.sources[number]
        chunk = version.chunks[place]
        array = None if chunk is None else chunk.array
        if seen is not None and chunk is not None:
            array = seen.show(number, array, chunk.device.xp)
        return version.layout.chunks[place][0], array


class _Seen(NamedTuple):
    """What alignment knows of a leaf: no data."""

    layout: Layout
    view: ViewMap
    group: int


class _MetRegions:
    """Regions in order; `meeting` finds those that meet another one without looking at all of them."""

    __slots__ = ("index", "places", "regions")

    FEW = 8

    def __init__(self, regions: Sequence[Region]) -> None:
        self.regions = regions
        self.places = {region: place for place, region in reversed(list(enumerate(regions)))}
        self.index: RegionIndex | None = None  # built when it is needed

    def meeting(self, region: Region) -> Sequence[int]:
        """The places of the regions that meet `region`, ascending; where there are few, of all."""
        if len(self.regions) <= self.FEW:
            return range(len(self.regions))
        if self.index is None:
            self.index = RegionIndex(enumerate(self.regions))
        return [place for place, _ in self.index.query(region)]

    def lacks(self, region: Region, stop: int | None = None) -> list[Region]:
        """What is in `region` and in none of the regions (of those before `stop`), in disjoint pieces."""
        near = self.meeting(region)
        if stop is not None:
            near = [place for place in near if place < stop]
        return remainder(region, self.regions, near) if near else [region]


class _Operands:
    """What alignment asks of the leaves of an expression, found once."""

    def __init__(self, context: Context, shape: tuple[int, ...], leaves: Sequence[_Seen]) -> None:
        self.shape = shape
        self.leaves = leaves
        self.bases = [_base_map(leaf, _based(context, leaf)) for leaf in leaves]
        self._held: dict[tuple[IndexMap, int], _MetRegions] = {}

    def held(self, leaf: int, device: int) -> _MetRegions:
        """The regions of the base of a leaf that a device holds."""
        key = (self.bases[leaf], device)
        found = self._held.get(key)
        if found is None:
            found = self._held[key] = _MetRegions(self.bases[leaf].regions(device))
        return found


Needs = Sequence[tuple[int, int, Region]]
"""``(group, device, region of the base)`` of all that devices lack, disjoint within a group and device."""


def align(
    context: Context,
    shape: tuple[int, ...],
    nbytes: int,
    leaves: Sequence[tuple[Layout, ViewMap | None, int]],
    target: Layout | None,
) -> Alignment:
    """The cached alignment of an expression.

    Parameters
    ----------
    shape, nbytes
        Of the result.
    leaves : sequence of (layout, view, group)
        REPLICA layouts of the storages, the view of each leaf (its shape broadcasts to `shape`), and an integer that is
        equal for leaves of one version.
    target : Layout, optional
        Evaluate into this layout. Default: the layout of an operand or the middle of all, whichever moves the fewest bytes.
    """
    key = ("align", shape, tuple(leaves), target)
    found = context.layouts.remembered(key)
    if found is None:
        full = [_Seen(lo, ViewMap.identity(lo.shape) if v is None else v, g) for lo, v, g in leaves]
        operands = _Operands(context, shape, full)
        needs: Needs | None = None
        if target is None:
            target, needs = _choose(context, operands, nbytes)
        if all(_is_plain(leaf, target) for leaf in full):
            found = _in_place(full, target)
        else:
            found = _build(context, operands, target, _needs(operands, target.index_map) if needs is None else needs)
        context.layouts.remember(key, found)
    return found  # type: ignore[no-any-return]


# --- which layout -----------------------------------------------------------------------------------------------------


def _is_plain(leaf: _Seen, target: Layout) -> bool:
    """Whether an operand lies as the result does, chunk by chunk."""
    view, layout = leaf.view, leaf.layout
    return layout.index_map is target.index_map and view.is_identity and view.base == layout.shape


def _in_place(leaves: Sequence[_Seen], target: Layout) -> Alignment:
    """Of operands that all lie as the result does: each chunk is computed whole, and nothing is looked for."""
    cells = tuple(
        [
            (Tile(None, (Source(False, i, None),) * len(leaves)),) if r.size else ()
            for i, (_, r) in enumerate(target.chunks)
        ]
    )
    seen: tuple[Visible | None, ...] = (None,) * len(leaves)
    pulls: tuple[dict[int, Pull], ...] = ({},) * len(leaves)
    return Alignment(target, seen, (), pulls, {leaf.group: None for leaf in leaves}, cells, {}, 0, True)


def _choose(context: Context, operands: _Operands, nbytes: int) -> tuple[Layout, Needs | None]:
    """The candidate that moves the fewest elements, and its needs where they were found on the way. Ties go to the most even
    candidate, then to the middle, then to the earliest operand's."""
    shape, leaves = operands.shape, operands.leaves
    candidates: list[IndexMap] = []
    replicated: list[IndexMap] = []
    for leaf in leaves:
        lifted = _lift_map(context, leaf, shape)
        if lifted is None:
            continue
        pool = replicated if lifted.is_replicated else candidates
        if lifted not in pool:
            pool.append(lifted)
    grown = all(math.prod(leaf.view.shape) < math.prod(shape) for leaf in leaves)
    worth = context.minimum_chunk > 1 and math.prod(shape) >= 2 * context.minimum_chunk
    if grown and worth and all(leaf.layout.is_whole for leaf in leaves):  # none is cut, and the result is worth it
        candidates, replicated = [], []
    if not candidates:
        if replicated and not (grown and nbytes > context.SMALL):
            return context.layout(replicated[0]), None
        devices = sorted({device for leaf in leaves for device in leaf.layout.devices})
        candidates.append(
            context.default_map(shape, tuple(devices or context.group.ids), nbytes // max(1, math.prod(shape)))
        )
    if len(candidates) == 1:
        return context.layout(candidates[0]), None
    middle = _middle(shape, candidates)
    if middle is not None and middle not in candidates:
        candidates.insert(0, middle)
    costs = []
    found = []
    for turn, candidate in enumerate(candidates):
        needs = _needs(operands, candidate)
        moved = sum(region.size for _, _, region in needs)
        uneven = sum(region.size**2 for _, region in candidate.chunks)
        costs.append((moved, uneven, turn))
        found.append(needs)
    best = min(costs)[2]
    return context.layout(candidates[best]), found[best]


def _middle(shape: tuple[int, ...], candidates: Sequence[IndexMap]) -> IndexMap | None:
    """Halfway between maps that differ by shifts of their bounds, as those of a stencil's operands do.

    There a halo travels half from each side, and the chunks at both ends give up alike: in ``a[:-2] + a[2:]`` each result
    is computed where ``a[1:-1]`` is.
    """
    first = candidates[0]
    owners = [device for device, _ in first.chunks]
    if any([device for device, _ in other.chunks] != owners for other in candidates[1:]):
        return None
    regions: dict[int, list[Region]] = {device: [] for device in first.devices}
    for device, *places in zip(owners, *([region for _, region in each.chunks] for each in candidates), strict=True):
        axes = []
        for ranges in zip(*places, strict=True):
            if any(r.step != 1 or not r.size for r in ranges):
                return None
            starts, stops = [r.start for r in ranges], [r.start + r.size for r in ranges]
            start = (min(starts) + max(starts)) // 2
            axes.append(Range.of(start, 1, max((min(stops) + max(stops)) // 2 - start, 0)))
        regions[device].append(Region(axes))
    middle = IndexMap(shape, regions)
    return middle if middle.covers and middle.is_disjoint else None


def lifted(context: Context, layout: Layout, view: ViewMap | None, shape: tuple[int, ...]) -> IndexMap | None:
    """What a view shows of a layout, in the coordinates of a result of `shape`; None where some of it is nowhere."""
    return _lift_map(context, _Seen(layout, ViewMap.identity(layout.shape) if view is None else view, 0), shape)


def _lift_map(context: Context, leaf: _Seen, shape: tuple[int, ...]) -> IndexMap | None:
    """A leaf's layout in the result's coordinates: regions stretch along the axes that broadcast."""
    if (
        leaf.view.is_identity
        and leaf.view.base == leaf.layout.shape == shape
        and all(region.size for _, region in leaf.layout.chunks)
    ):
        return leaf.layout.index_map
    seen = context.layouts.visible(leaf.layout, leaf.view)
    assert seen is not None
    if leaf.view.shape == shape:
        return seen.layout.index_map
    if not seen.layout.index_map.covers:
        return None
    regions: dict[int, list[Region]] = {}
    for device in seen.layout.devices:
        regions[device] = [
            _lift(region, leaf.view.shape, Region.full(shape)) for region in seen.layout.index_map.regions(device)
        ]
    return IndexMap(shape, regions)


def _lift(region: Region, own: tuple[int, ...], cell: Region) -> Region:
    """`region` of an operand of shape `own`, as the part of `cell` (result coordinates) that it serves."""
    extra = len(cell) - len(own)
    axes = list(cell[:extra])
    for k, n in enumerate(own):
        axes.append(cell[extra + k] if n == 1 and region[k].size else region[k])
    return Region(axes)


def _drop(region: Region, own: tuple[int, ...]) -> Region:
    """What an operand of shape `own` needs for a region of the result."""
    extra = len(region) - len(own)
    axes = []
    for k, n in enumerate(own):
        r = region[extra + k]
        axes.append(_ONE if n == 1 and r.size else r)
    return Region(axes)


_ONE = Range.of(0, 1, 1)


# --- what is fetched --------------------------------------------------------------------------------------------------


def _needs(operands: _Operands, target: IndexMap) -> Needs:
    """What devices lack of the operands of a result in `target`.

    Raises
    ------
    LayoutComplexityError
        If it is more than ``MAX_PIECES`` pieces.
    """
    lacking: dict[tuple[int, int], dict[Region, None]] = {}
    count = 0
    for device, region in target.chunks:
        if not region.size:
            continue
        for k, leaf in enumerate(operands.leaves):
            whole = leaf.view.image(_drop(region, leaf.view.shape))
            held = operands.held(k, device)
            if whole in held.places:
                continue
            if wanted := held.lacks(whole):
                lacking.setdefault((leaf.group, device), {}).update(dict.fromkeys(wanted))
                count += len(wanted)
                _limit(operands, count)
    needs: list[tuple[int, int, Region]] = []
    for (group, device), regions in lacking.items():
        known = _MetRegions(tuple(regions))
        for i, region in enumerate(known.regions):
            needs.extend((group, device, piece) for piece in known.lacks(region, i))
            _limit(operands, len(needs))
    return needs


def _limit(operands: _Operands, count: int) -> None:
    if count > MAX_PIECES:
        sizes = " and ".join(str(len(base.chunks)) for base in dict.fromkeys(operands.bases))
        raise LayoutComplexityError(
            f"the operands' layouts, of {sizes} regions, differ in more than {MAX_PIECES} pieces of the result of "
            f"shape {operands.shape}: bring one operand into the other's layout first, with x.reshard(y.layout)"
        )


def _based(context: Context, leaf: _Seen) -> Visible | None:
    """What the base of the leaf's view shows of the storage; None where that is the storage as it is."""
    view = leaf.view
    if view.inner is None and view.base == leaf.layout.shape:
        return None
    return context.layouts.visible(leaf.layout, ViewMap.identity(view.base, view.inner))


def _base_map(leaf: _Seen, based: Visible | None) -> IndexMap:
    """The index map of the storage in the coordinates of the base."""
    return leaf.layout.index_map if based is None else based.layout.index_map


def _build(context: Context, operands: _Operands, target: Layout, needs: Needs) -> Alignment:
    leaves = operands.leaves
    seen = tuple(
        None if leaf.view.is_identity and leaf.view.base == leaf.layout.shape
        else context.layouts.visible(leaf.layout, leaf.view)
        for leaf in leaves
    )  # fmt: skip
    by_group = {leaf.group: leaf for leaf in leaves}
    bases = {group: _based(context, leaf) for group, leaf in by_group.items()}
    fetches: list[Fetch] = []
    messages: dict[tuple[int, int, int], int] = {}
    for group, device, region in needs:
        index_map = _base_map(by_group[group], bases[group])
        turn = bisect_left(target.devices, device)
        parts = []
        for cell_id, part in index_map.query_cells(region):
            holders = index_map.cells[cell_id].holders
            giver = holders[turn % len(holders)]
            sender, whole = index_map.chunks[giver]
            parts.append((giver, whole.locate(part).key, region.locate(part).key))
            pair = (sender, device, group)
            messages[pair] = messages.get(pair, 0) + part.size
        fetches.append(Fetch(group, device, region, tuple(parts)))
    pulls: list[dict[int, Pull]] = []
    for leaf in leaves:
        mine: dict[int, Pull] = {}
        for i, fetch in enumerate(fetches):
            if fetch.group == leaf.group and (pull := leaf.view.pull(fetch.region)) is not None:
                mine[i] = pull
        pulls.append(mine)
    shown = [leaf.layout.index_map if s is None else s.layout.index_map for leaf, s in zip(leaves, seen, strict=True)]
    offers: dict[tuple[int, int], tuple[list[tuple[bool, int]], _MetRegions]] = {}
    for k, index_map in enumerate(shown):
        numbers: dict[int, list[tuple[bool, int]]] = {
            d: [(False, c) for c in index_map.chunk_ids(d)] for d in target.devices
        }
        for i in pulls[k]:
            numbers[fetches[i].device].append((True, i))
        for d, own in numbers.items():
            regions = [pulls[k][i].region if fetched else index_map.chunks[i][1] for fetched, i in own]
            offers[k, d] = own, _MetRegions(regions)
    cells = []
    count = 0
    for device, region in target.chunks:
        cells.append(_cells(device, region, leaves, offers))
        count += len(cells[-1])
        _limit(operands, count)
    mark = crc32(repr(fetches).encode()) if fetches else 0
    return Alignment(target, seen, tuple(fetches), tuple(pulls), bases, tuple(cells), messages, mark)


# --- how chunks are cut -----------------------------------------------------------------------------------------------


def _cells(
    device: int,
    region: Region,
    leaves: Sequence[_Seen],
    everything: dict[tuple[int, int], tuple[list[tuple[bool, int]], _MetRegions]],
) -> tuple[Tile, ...]:
    """Cut one result chunk so that in each cell every leaf is one view of one local chunk or buffer."""
    if not region.size:
        return ()
    open_cells: list[tuple[Region, list[tuple[bool, int, Region]]]] = [(region, [])]
    for k, leaf in enumerate(leaves):
        own = leaf.view.shape
        numbers, offered = everything[k, device]
        same = _drop(region, own)
        exact = offered.places.get(same)
        if exact is not None and len(open_cells) == 1:
            open_cells[0][1].append((*numbers[exact], same))
            continue
        done: list[tuple[Region, list[tuple[bool, int, Region]]]] = []
        for whole, chosen in open_cells:
            todo = [(whole, offered.meeting(_drop(whole, own)))]
            while todo:
                cell, places = todo.pop()
                need = _drop(cell, own)
                places = [place for place in places if need.intersect(offered.regions[place]) is not None]
                if not places:
                    raise AssertionError(f"alignment left {cell} of {region} on device {device} without leaf {k}")
                turn = next((i for i, place in enumerate(places) if offered.regions[place] == same), split_at(places))
                place = places.pop(turn)
                common = need.intersect(offered.regions[place])
                assert common is not None
                inside = cell if common == need else _lift(common, own, cell)
                done.append((inside, [*chosen, (*numbers[place], offered.regions[place])]))
                if inside is not cell:
                    todo.extend((piece, places) for piece in reversed(cell.difference(inside)))
        open_cells = done
    result = []
    for cell, chosen in open_cells:
        sources = []
        for leaf, (fetched, index, held) in zip(leaves, chosen, strict=True):
            need = _drop(cell, leaf.view.shape)
            sources.append(Source(fetched, index, None if need == held else held.locate(need).key))
        result.append(Tile(None if cell == region else region.locate(cell).key, tuple(sources)))
    return tuple(result)
