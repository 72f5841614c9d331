"""A layout is an index map and a mode: everything about an array's placement, and nothing about its values.

Layouts are immutable, interned in a :class:`LayoutTable` (same layout, same object), and carry a digest that is equal on
all processes. They key every cached plan. This module also answers what a *view* shows of a layout.
"""

from __future__ import annotations

from collections.abc import Hashable
from hashlib import blake2b
from typing import Any, NamedTuple

from distarray.geometry import IndexMap, Pull, Region, ViewMap, reshape_map
from distarray.modes import Mode

__all__ = ["Layout", "LayoutTable", "Visible"]


class Layout:
    """Where the elements of an array live and how overlapping chunks combine.

    Attributes
    ----------
    index_map : IndexMap
        Device id → regions.
    mode : Mode
        REPLICA, or the fold that combines partial values.
    """

    __slots__ = ("__weakref__", "_digest", "_hash", "index_map", "mode")

    index_map: IndexMap
    mode: Mode

    def __init__(self, index_map: IndexMap, mode: Mode) -> None:
        object.__setattr__(self, "index_map", index_map)
        object.__setattr__(self, "mode", mode)
        object.__setattr__(self, "_digest", None)
        object.__setattr__(self, "_hash", hash((index_map, mode.value)))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Layout is immutable: cannot set {name!r}; build another with x.reshard(...)")

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Layout):
            return NotImplemented
        return self.mode is other.mode and self.index_map == other.index_map

    def __hash__(self) -> int:
        return self._hash  # type: ignore[attr-defined,no-any-return]

    def __reduce__(self) -> tuple[Any, ...]:
        return (Layout, (self.index_map, self.mode))

    @property
    def digest(self) -> bytes:
        """16 bytes that name this layout on every process."""
        if self._digest is None:  # type: ignore[attr-defined]
            text = self.index_map.digest + self.mode.value.encode()
            object.__setattr__(self, "_digest", blake2b(text, digest_size=16).digest())
        return self._digest  # type: ignore[attr-defined,no-any-return]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.index_map.shape

    @property
    def devices(self) -> tuple[int, ...]:
        return self.index_map.devices

    @property
    def chunks(self) -> tuple[tuple[int, Region], ...]:
        """``(device, region)`` of every chunk, in the global order that folds follow."""
        return self.index_map.chunks

    @property
    def is_partial(self) -> bool:
        """True when overlapping chunks hold partial values that are still to be folded."""
        return self.mode is not Mode.REPLICA

    @property
    def is_replicated(self) -> bool:
        return self.mode is Mode.REPLICA and self.index_map.is_replicated

    def __repr__(self) -> str:
        parts = []
        for device in self.devices[:8]:
            regions = ", ".join(str(r) for r in self.index_map.regions(device)[:4])
            more = ", …" if len(self.index_map.regions(device)) > 4 else ""
            parts.append(f"{device}: {regions}{more}")
        if len(self.devices) > 8:
            parts.append(f"… {len(self.devices)} devices")
        return f"Layout({self.mode.name}, {{{'; '.join(parts)}}})"


class Visible(NamedTuple):
    """What a view shows of a layout.

    ``layout`` is in the view's coordinates; its chunk ``i`` is ``pulls[i]`` of the stored chunk ``sources[i]``, which is
    first given the shape ``shapes[i]`` where the view relies on a reshape. A `twin` is a stored chunk of the same device
    that shows the same elements as chunk ``i``: a reader needs one of them, a writer writes both.
    """

    layout: Layout
    sources: tuple[int, ...]
    pulls: tuple[Pull, ...]
    shapes: tuple[tuple[int, ...], ...] | None
    twins: tuple[tuple[int, int, Pull, tuple[int, ...] | None], ...]

    def show(self, i: int, array: Any, xp: Any) -> Any:
        """Chunk `i` of the view, as a view of the stored chunk's `array`."""
        if self.shapes is not None:
            array = array.reshape(self.shapes[i])
        return self.pulls[i].apply(array, xp)


class LayoutTable:
    """Interns layouts and caches what is derived from them, bounded; one in each context."""

    LIMIT = 8192

    def __init__(self) -> None:
        self._layouts: dict[tuple[IndexMap, Mode], Layout] = {}
        self._derived: dict[Hashable, Any] = {}

    def get(self, index_map: IndexMap, mode: Mode) -> Layout:
        """The one layout object of this index map and mode."""
        key = (index_map, mode)
        found = self._layouts.get(key)
        if found is None:
            if len(self._layouts) >= self.LIMIT:
                self._layouts.clear()
            found = self._layouts.setdefault(key, Layout(index_map, mode))
        return found

    def remembered(self, key: Hashable) -> Any:
        """A value cached under `key`, or None."""
        return self._derived.get(key)

    def remember(self, key: Hashable, value: Any) -> Any:
        """Cache a pure function's value; a full table is emptied, since it can be computed again."""
        if len(self._derived) >= self.LIMIT:
            self._derived.clear()
        self._derived[key] = value
        return value

    def visible(self, layout: Layout, view: ViewMap) -> Visible | None:
        """What `view` shows of `layout`, or None where partial chunks of one device would coincide in it.

        In the None case the array has to be resolved to REPLICA first: two partial values of one device for one element
        have no place in an index map.
        """
        key = ("visible", layout, view)
        found = self._derived.get(key, self)
        if found is not self:
            return found  # type: ignore[no-any-return]
        return self.remember(key, self._visible(layout, view))  # type: ignore[no-any-return]

    def _visible(self, layout: Layout, view: ViewMap) -> Visible | None:
        index_map = layout.index_map
        if view.base != index_map.shape:
            reshaped = reshape_map(index_map, view.base)
            if reshaped is None:
                raise AssertionError(f"{layout} does not allow the reshape to {view.base} that a view relies on")
            index_map = reshaped
        rows: list[tuple[int, Region, int, Pull]] = []
        for source, (device, region) in enumerate(index_map.chunks):
            pull = view.pull(region)
            if pull is not None:
                rows.append((device, pull.region, source, pull))
        rows.sort(key=lambda row: row[:3])
        kept: list[tuple[int, Region, int, Pull]] = []
        twins: list[tuple[int, int, Pull, tuple[int, ...] | None]] = []
        for row in rows:
            if kept and kept[-1][:2] == row[:2]:
                if layout.is_partial:
                    return None
                shape = index_map.chunks[row[2]][1].shape if index_map is not layout.index_map else None
                twins.append((len(kept) - 1, row[2], row[3], shape))
                continue
            kept.append(row)
        regions: dict[int, list[Region]] = {device: [] for device in index_map.devices}
        for device, region, _, _ in kept:
            regions[device].append(region)
        seen = self.get(IndexMap(view.shape, regions), layout.mode)
        shapes = None
        if index_map is not layout.index_map:
            shapes = tuple(index_map.chunks[row[2]][1].shape for row in kept)
        return Visible(seen, tuple(row[2] for row in kept), tuple(row[3] for row in kept), shapes, tuple(twins))
