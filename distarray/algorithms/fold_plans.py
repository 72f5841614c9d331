"""Who folds what: a checked call of a reduction, and its plan, from the layout of the operand alone.

One rule decides: what a device holds of each line along the reduced axes. Where devices hold whole lines, each is folded by one of
them; where lines are split, each value is folded once, on the device that holds it, into a partial result.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from distarray.context import Context
from distarray.geometry import IndexMap, Range, Region
from distarray.layout import Layout
from distarray.modes import Mode

__all__ = [
    "COUNTED",
    "FoldPlan",
    "Piece",
    "Reduction",
    "Spread",
    "fold_sources",
    "plan_of_pieces",
    "planned",
    "whole_lines",
]

MODES: dict[Any, Mode] = {
    np.add: Mode.SUM, np.multiply: Mode.PROD, np.maximum: Mode.MAX, np.minimum: Mode.MIN, np.logical_or: Mode.MAX,
    np.logical_and: Mode.MIN,
}  # fmt: skip
COUNTED = (Mode.SUM, Mode.PROD)


class Reduction(NamedTuple):
    """One call, checked: what every device needs to know of it.

    Attributes
    ----------
    axes : tuple of int
        Distinct and not negative.
    dtype : numpy.dtype
        Of the computation and the result.
    given : dtype or None
        What the caller asked for.
    initial : scalar, None or NOTHING
    squares : bool
        Sums of numbers and of their squares, one behind the other along a new first axis.
    spread : Spread or None
        What is made of such sums, instead of a sum.
    """

    ufunc: np.ufunc
    axes: tuple[int, ...]
    keepdims: bool
    dtype: Any
    given: Any
    initial: Any
    squares: bool = False
    spread: Any = None

    @property
    def mode(self) -> Mode | None:
        """The mode that partial results combine in, if there is one."""
        return MODES.get(self.ufunc)

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The result's shape."""
        kept = tuple([1 if axis in self.axes else n for axis, n in enumerate(shape)])
        if not self.keepdims:
            kept = tuple([n for axis, n in enumerate(shape) if axis not in self.axes])
        return (2, *kept) if self.squares else kept

    def project(self, region: Region) -> Region:
        """The part of the result that a region of the operand contributes to."""
        kept = [Range(0, 1, 1) if axis in self.axes else r for axis, r in enumerate(region)]
        if not self.keepdims:
            kept = [r for axis, r in enumerate(region) if axis not in self.axes]
        return Region([Range.full(2), *kept] if self.squares else kept)

    def lift(self, region: Region, shape: tuple[int, ...]) -> Region:
        """The whole lines of an operand of `shape` that a part of the result is reduced from."""
        rest = iter(region[1:] if self.squares else region)
        ranges = []
        for axis, n in enumerate(shape):
            if axis in self.axes:
                ranges.append(Range.full(n))
                if self.keepdims:
                    next(rest)
            else:
                ranges.append(next(rest))
        return Region(ranges)


class Piece(NamedTuple):
    """Part of one chunk of the operand that a chunk of the result is folded from; `region` in the operand's coordinates."""

    chunk: int
    region: Region


class Spread(NamedTuple):
    """What sums and sums of squares are for: ``"variance"`` or ``"deviation"``, of how many elements, divided by what, in what
    dtype."""

    name: str
    elements: int
    divisor: float
    dtype: Any


PieceTable = dict[tuple[int, Region], list[Piece]]
"""``(device, region of the result) → what it is folded from``, on that device."""


def whole_lines(call: Reduction, layout: Layout) -> PieceTable | None:
    """PieceTable that hold whole lines along the reduced axes and yield each element of the result; None if there are none.

    Where bits may depend on the cut, each element gets one owner, except where all devices hold the same whole operand.
    """
    shape = layout.shape
    if layout.is_partial and not layout.index_map.is_disjoint:
        return None
    sources: PieceTable = {}
    homes: dict[int, list[Region]] = {device: [] for device in layout.devices}
    for i, (device, region) in enumerate(layout.chunks):
        if region.size and all(region[axis].size == shape[axis] for axis in call.axes):
            part = call.project(region)
            if (device, part) not in sources:
                sources[device, part] = [Piece(i, region)]
                homes[device].append(part)
    index_map = IndexMap(call.shape(shape), homes)
    if not index_map.covers:
        return None
    by_slices = call.mode is None and len(call.axes) < 2
    if call.dtype.kind in "biu" or by_slices or index_map.is_disjoint or index_map.is_replicated:
        return sources
    owned: PieceTable = {}
    for device in index_map.devices:
        for chunk, part in index_map.owned(device):
            (source,) = sources[device, index_map.chunks[chunk][1]]
            region = call.lift(part, shape)
            owned[device, part] = [Piece(source.chunk, region)]
    return owned


def fold_sources(call: Reduction, layout: Layout) -> PieceTable:
    """PieceTable that hold every value once (or, where folding twice is harmless, whole chunks)."""
    index_map = layout.index_map
    pieces: PieceTable = {}
    for device in index_map.devices:
        if layout.is_partial or call.mode not in COUNTED:
            held = [(i, index_map.chunks[i][1]) for i in index_map.chunk_ids(device)]
        else:
            held = list(index_map.owned(device))
        for i, region in held:
            if region.size:
                pieces.setdefault((device, call.project(region)), []).append(Piece(i, region))
    return pieces


class FoldPlan(NamedTuple):
    """Who folds what, for every call of one kind.

    Attributes
    ----------
    layout : Layout
        Of the result.
    mode : Mode or None
        The mode that partial results combine in; None where every device folds whole lines.
    sources : tuple
        For each chunk of the result, what it is folded from: ``(chunk of the operand, key into it)``, the key None for all.
    steady : bool
        Whether devices compute the same result, which must have the same bits.
    """

    layout: Layout
    mode: Mode | None
    sources: tuple[tuple[tuple[int, Any], ...], ...]
    steady: bool


def planned(context: Context, call: Reduction, layout: Layout) -> FoldPlan | None:
    """The plan of a call, kept for others of its kind; None where values have to be passed on along the axis."""
    exact = call.dtype.kind in "biu"
    key = ("fold", call.axes, call.keepdims, call.squares, call.mode, exact, layout)
    found = context.layouts.remembered(key)
    if found is None:
        pieces, mode = whole_lines(call, layout), None
        if pieces is None and call.mode is not None:
            pieces, mode = fold_sources(call, layout), call.mode
        found = context.layouts.remember(
            key, (None if pieces is None else plan_of_pieces(context, call, layout, pieces, mode),)
        )
    return found[0]  # type: ignore[no-any-return]


def plan_of_pieces(
    context: Context, call: Reduction, operand: Layout, pieces: PieceTable, mode: Mode | None
) -> FoldPlan:
    homes: dict[int, list[Region]] = {device: [] for device in operand.devices}
    for device_id, part in pieces:
        homes[device_id].append(part)
    index_map = IndexMap(call.shape(operand.shape), homes)
    partial_mode = None if index_map.is_disjoint else mode
    sources = []
    for row in index_map.chunks:
        own: list[tuple[int, Any]] = []
        for piece in pieces.get(row, ()):
            whole = operand.chunks[piece.chunk][1]
            own.append((piece.chunk, None if whole == piece.region else (*whole.locate(piece.region).slices, ...)))
        sources.append(tuple(own))
    alone = len(homes) == 1
    steady = partial_mode is None and index_map.is_replicated and not alone and call.dtype.kind not in "biu"
    return FoldPlan(context.layout(index_map, Mode.of(partial_mode)), mode, tuple(sources), steady)
