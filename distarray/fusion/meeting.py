"""Operands whose layouts meet in far more pieces than they have: block-cyclic ones of unlike blocks, mostly. Aligned piece
by piece, an element-wise call would cost more than the data; so they are brought into one layout first, as ``reshard``
would bring them. Which, is decided from metadata alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from distarray.fusion.align import lifted
from distarray.fusion.expr import Leaf
from distarray.geometry import IndexMap, ViewMap, blocks
from distarray.layout import Layout
from distarray.storage import Version
from distarray.transfer.execute import redistribute, resolved_operand
from distarray.transfer.plan import waypoint

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = ["brought", "meeting_place"]

MEETINGS = 1 << 10
"""Layouts that meet in fewer pieces are aligned in place: a piece to compute costs more than a piece to move."""

Described = Sequence[tuple[Layout, ViewMap | None]]


def meeting_place(
    context: Context, shape: tuple[int, ...], leaves: Described, target: Layout | None
) -> tuple[Layout | None, tuple[Layout | None, ...]]:
    """The layout in which an expression is evaluated, and for each leaf the layout that it is moved from to that one first.

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
    `target`, and None for each leaf, where operands are aligned in place, as nearly always. Else the layout that needs the
    fewest moves: of an operand, the first of several, or blocks; operands that broadcast stay.
    """
    key = ("meeting", shape, tuple(leaves), target)
    found = context.layouts.remembered(key)
    if found is None:
        found = context.layouts.remember(key, _met(context, shape, leaves, target))
    return found  # type: ignore[no-any-return]


def _met(
    context: Context, shape: tuple[int, ...], leaves: Described, target: Layout | None
) -> tuple[Layout | None, tuple[Layout | None, ...]]:
    nothing = (None,) * len(leaves)
    maps = [lifted(context, layout, view, shape) if _shape(layout, view) == shape else None for layout, view in leaves]
    distinct = list(dict.fromkeys(m for m in maps if m is not None))
    known: dict[frozenset[IndexMap], IndexMap | None] = {}

    def way(a: IndexMap, b: IndexMap) -> IndexMap | None:
        pair = frozenset((a, b))
        if len(pair) > 1 and pair not in known:
            known[pair] = waypoint(a, b, least=MEETINGS, factor=1)
        return known.get(pair)

    if target is not None:
        chosen = target.index_map
        if all(way(m, chosen) is None for m in distinct):
            return target, nothing
    else:
        middles = [middle for a, b in combinations(distinct, 2) if (middle := way(a, b)) is not None]
        if not middles:
            return None, nothing
        axis = max(range(len(shape)), key=shape.__getitem__)
        candidates = [*distinct, blocks(axis).resolve(shape, context.group.ids)]
        held = [m for m in maps if m is not None]
        moves = [sum((m != c) + (way(m, c) is not None) for m in held) for c in candidates]
        chosen = candidates[moves.index(min(moves))]
    layout = context.layout(chosen)
    away = [None if m is None or m == chosen else context.layout(m) for m in maps]
    return layout, tuple(away)


def _shape(layout: Layout, view: ViewMap | None) -> tuple[int, ...]:
    return layout.shape if view is None else view.shape


def brought(
    context: Context, operation: str, shape: tuple[int, ...], leaves: Sequence[Leaf], target: Layout | None
) -> tuple[Sequence[Leaf], Layout | None]:
    """The resolved leaves of an expression where they are evaluated, and that layout: see `meeting_place`.

    Communication: what `meeting_place` names is moved, by way of blocks where that is cheaper.
    """
    held = [(leaf.version.layout, leaf.view) for leaf in leaves]
    place, away = meeting_place(context, shape, held, target)
    if place is None or not any(away):
        return leaves, target
    moved = []
    for leaf, origin in zip(leaves, away, strict=True):
        if origin is not None:
            found = resolved_operand(context, leaf.version, leaf.view, operation)
            fresh = redistribute(context, found, place, operation=operation)
            leaf = Leaf(Version(place, fresh, leaf.dtype), None, leaf.shape)
        moved.append(leaf)
    return moved, place
