"""Operands whose layouts meet in far more pieces than they have: block-cyclic ones of unlike blocks, mostly, and layouts of
many small chunks that are read through several views. Aligned piece by piece, an element-wise call would cost more than
the data; so they are brought into one layout first, as ``reshard`` would bring them. Which, is decided from metadata alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from distarray.fusion.align import lifted
from distarray.fusion.expr import Leaf
from distarray.geometry import IndexMap, ViewMap, blocks
from distarray.layout import Layout
from distarray.storage import Version
from distarray.transfer.execute import redistribute, resolved_operand
from distarray.transfer.plan import waypoint

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = ["Meeting", "brought", "meeting_place"]

MEETINGS = 1 << 10
"""Layouts that meet in fewer pieces are aligned in place: a piece to compute costs more than a piece to move."""

CROWD = 16
"""A layout of fewer chunks a device is never moved for their number."""

CHUNK = 1 << 14
"""Nor is one whose chunks have more elements on the average: to move a chunk would cost more than to compute on its pieces."""

Described = Sequence[tuple[Layout, ViewMap | None]]


class Meeting(NamedTuple):
    """Where an expression is evaluated, and what is moved first.

    Attributes
    ----------
    place : Layout or None
        Where it is evaluated; None where alignment decides.
    away : tuple of Layout or None
        For each leaf, the layout of what it shows, where that is moved to `place` first.
    stores : tuple of Layout or None
        For each leaf, the layout that its whole storage is moved to first, to be seen there through the leaf's view.
    """

    place: Layout | None
    away: tuple[Layout | None, ...]
    stores: tuple[Layout | None, ...]


def meeting_place(context: Context, shape: tuple[int, ...], leaves: Described, target: Layout | None) -> Meeting:
    """Where the operands of an expression meet.

    Parameters
    ----------
    shape
        Of the result.
    leaves : sequence of (layout, view)
        The REPLICA layouts of the storages, and what is seen of them.
    target : Layout, optional
        Where the result is wanted.

    Returns
    -------
    Meeting
        `target`, and nothing to move, where operands are aligned in place, as nearly always. Where layouts meet in many
        pieces, the layout that needs the fewest moves: of an operand, the first of several, or blocks; operands that
        broadcast stay. Where the views of layouts of many small chunks lie unlike each other, or unlike `target`, those
        storages are moved to blocks, and the result comes to `target` afterwards.
    """
    key = ("meeting", shape, tuple(leaves), target)
    found = context.layouts.remembered(key)
    if found is None:
        found = context.layouts.remember(key, _met(context, shape, leaves, target))
    return found  # type: ignore[no-any-return]


def _met(context: Context, shape: tuple[int, ...], leaves: Described, target: Layout | None) -> Meeting:
    nothing = (None,) * len(leaves)
    crowded = [is_crowd(layout) for layout, _ in leaves]
    crowd = any(crowded) or (target is not None and is_crowd(target))
    if crowd and _lie_alike(context, shape, leaves, target):
        return Meeting(target, nothing, nothing)
    whole = all(view is None and layout.shape == shape for layout, view in leaves)
    if crowd and not whole:
        stores = tuple(
            _store(context, layout) if many and _shows_storage(layout, view) else None
            for many, (layout, view) in zip(crowded, leaves, strict=True)
        )
        if any(stores) or not any(crowded):
            return Meeting(None, nothing, stores)
    maps = [lifted(context, layout, view, shape) if _shape(layout, view) == shape else None for layout, view in leaves]
    distinct = list(dict.fromkeys(m for m in maps if m is not None))
    known: dict[frozenset[IndexMap], IndexMap | None] = {}

    def way(a: IndexMap, b: IndexMap) -> IndexMap | None:
        pair = frozenset((a, b))
        if len(pair) > 1 and pair not in known:
            known[pair] = waypoint(a, b, least=MEETINGS, factor=1)
        return known.get(pair)

    together = crowd and whole
    if target is not None:
        chosen = target.index_map
        if not together and all(way(m, chosen) is None for m in distinct):
            return Meeting(target, nothing, nothing)
    else:
        far = any(way(a, b) is not None for a, b in combinations(distinct, 2))
        if not far and not together:
            return Meeting(None, nothing, nothing)
        axis = max(range(len(shape)), key=shape.__getitem__)
        candidates = [*distinct, blocks(axis).resolve(shape, context.group.ids)]
        held = [m for m in maps if m is not None]
        if far:
            moves = [(sum((m != c) + (way(m, c) is not None) for m in held), 0) for c in candidates]
        else:  # of layouts that need as many pieces, that of the fewest chunks
            moves = [(sum(len(m.chunks) + len(c.chunks) for m in held if m != c), len(c.chunks)) for c in candidates]
        chosen = candidates[moves.index(min(moves))]
    layout = context.layout(chosen)
    away = [None if m is None or m == chosen else context.layout(m) for m in maps]
    return Meeting(layout, tuple(away), nothing)


def is_crowd(layout: Layout) -> bool:
    """Whether a layout has many small chunks on each device, no two of the same elements."""
    count, size = len(layout.chunks), math.prod(layout.shape)
    if not size or count < CROWD * len(layout.devices) or size > count * CHUNK:
        return False
    return sum(region.size for _, region in layout.chunks) == size


def _lie_alike(context: Context, shape: tuple[int, ...], leaves: Described, target: Layout | None) -> bool:
    """Whether all operands that are cut show the same of the same layout, and that lies as `target` does."""
    cut = {(layout, view) for layout, view in leaves if not layout.is_whole}
    if len(cut) > 1 or not cut or target is None:
        return len(cut) < 2
    layout, view = cut.pop()
    return _shape(layout, view) == shape and lifted(context, layout, view, shape) == target.index_map


def _shows_storage(layout: Layout, view: ViewMap | None) -> bool:
    """Whether a view indexes a storage as it is: any layout of the storage allows that."""
    return view is None or (view.inner is None and view.base == layout.shape)


def _store(context: Context, layout: Layout) -> Layout:
    """Blocks on the devices that hold something of a layout."""
    shape, index_map = layout.shape, layout.index_map
    holders = [device for device in layout.devices if any(region.size for region in index_map.regions(device))]
    cut = blocks(max(range(len(shape)), key=shape.__getitem__)).resolve(shape, holders)
    return context.layout(IndexMap(shape, {device: cut.regions(device) for device in layout.devices}))


def _shape(layout: Layout, view: ViewMap | None) -> tuple[int, ...]:
    return layout.shape if view is None else view.shape


def brought(
    context: Context, operation: str, shape: tuple[int, ...], leaves: Sequence[Leaf], target: Layout | None
) -> tuple[Sequence[Leaf], Layout | None]:
    """The resolved leaves of an expression where they are evaluated, and that layout: see `meeting_place`. It is None, where a
    target is given, if the result is to be moved there.

    Communication: what `meeting_place` names is moved, by way of blocks where that is cheaper.
    """
    held = [(leaf.version.layout, leaf.view) for leaf in leaves]
    place, away, stores = meeting_place(context, shape, held, target)
    if not any(away) and not any(stores):
        return leaves, place
    moved = []
    known: dict[int, Version] = {}
    for leaf, origin, store in zip(leaves, away, stores, strict=True):
        version = leaf.version
        if store is not None:
            if (there := known.get(id(version))) is None:
                found = resolved_operand(context, version, None, operation)
                there = Version(store, redistribute(context, found, store, operation=operation), leaf.dtype)
                known[id(version)] = there
            leaf = Leaf(there, leaf.view, leaf.shape)
        elif origin is not None:
            assert place is not None
            found = resolved_operand(context, version, leaf.view, operation)
            fresh = redistribute(context, found, place, operation=operation)
            leaf = Leaf(Version(place, fresh, leaf.dtype), None, leaf.shape)
        moved.append(leaf)
    return moved, place
