"""A layout is an index map and a mode: everything about an array's placement, and nothing about its values.

Layouts are immutable, interned in a :class:`LayoutTable` (same layout, same object), and carry a digest that is equal on
all processes. They key every cached plan. This module also answers what a *view* shows of a layout.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from hashlib import blake2b
from types import ModuleType
from typing import Any, NamedTuple

from distarray.geometry import IndexMap, Pull, Region, ViewMap, contiguous_strides, reshape_region, reshape_strides
from distarray.modes import Mode

__all__ = ["Layout", "LayoutTable", "Path", "Visible", "follow"]


class Layout:
    """Where the elements of an array live and how overlapping chunks combine.

    Parameters
    ----------
    index_map : IndexMap
        Device id → regions.
    mode : Mode
        REPLICA, or the fold that combines partial values.
    """

    __slots__ = (
        "__weakref__", "_digest", "_hash", "chunks", "devices", "home", "index_map", "is_partial", "keeper", "kin", "mode",
        "shape", "small", "totals",
    )  # fmt: skip

    index_map: IndexMap
    mode: Mode
    shape: tuple[int, ...]
    """Shape of the logical array."""
    devices: tuple[int, ...]
    """The device ids, ascending; those without a chunk too."""
    chunks: tuple[tuple[int, Region], ...]
    """``(device, region)`` of every chunk, in the global order that folds follow."""
    is_partial: bool
    """True when overlapping chunks hold partial values that are still to be folded."""
    home: int
    """Where every process holds the whole array once: the number of this process's chunk; else -1. Set by the table."""
    keeper: Any
    """The device of that chunk."""
    small: bool
    """Whether it is an array of at most as many elements as the context computes without a plan."""
    kin: dict[tuple[int, ...], Layout]
    """Layouts of this and other shapes that lie on the devices as this one does, where `home` is not -1. Filled by the table."""
    totals: dict[Hashable, Any]
    """How numbers are made of all elements of arrays that lie so, where that is known: filled by ``algorithms/small_folds.py``."""

    def __init__(self, index_map: IndexMap, mode: Mode) -> None:
        object.__setattr__(self, "index_map", index_map)
        object.__setattr__(self, "mode", mode)
        object.__setattr__(self, "shape", index_map.shape)
        object.__setattr__(self, "devices", index_map.devices)
        object.__setattr__(self, "chunks", index_map.chunks)
        object.__setattr__(self, "is_partial", mode is not Mode.REPLICA)
        object.__setattr__(self, "_digest", None)
        object.__setattr__(self, "_hash", hash((index_map, mode.value)))
        object.__setattr__(self, "home", -1)
        object.__setattr__(self, "totals", {})

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
    def is_whole(self) -> bool:
        """True when no chunk holds a part only."""
        return all(region.shape == self.shape for _, region in self.chunks)

    @property
    def is_replicated(self) -> bool:
        """True when every device holds the whole array, and all copies are equal."""
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


Path = tuple[tuple[tuple[int, ...] | None, Pull], ...]
"""How a view reaches its part of a stored chunk: for each view within it, the shape that the chunk is given first (None:
its own) and what is pulled of it."""


def follow(
    path: Path,
    array: Any,  # an array of the library `xp`
    xp: ModuleType,
) -> Any:
    """What a view shows of the stored chunk `array`, by its path: a view of it."""
    for shape, pull in path:
        if shape is not None:
            array = array.reshape(shape)
        array = pull.apply(array, xp)
    return array


def _path_strides(path: Path, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of what `follow` gives of a C-contiguous chunk of `shape`, in elements."""
    strides = contiguous_strides(shape)
    for given, pull in path:
        if given is not None:
            reshaped = reshape_strides(shape, strides, given)
            assert reshaped is not None
            strides = reshaped
        shape, strides = pull.shape, pull.strides(strides)
    return strides


class Visible(NamedTuple):
    """What a view shows of a layout.

    ``layout`` is in the view's coordinates; its chunk ``i`` is reached in the stored chunk ``sources[i]`` by
    ``paths[i]``. A `twin` is a stored chunk of the same device that shows the same elements as chunk ``i``: a reader
    needs one of them, a writer writes both.
    """

    layout: Layout
    sources: tuple[int, ...]
    paths: tuple[Path, ...]
    twins: tuple[tuple[int, int, Path], ...]

    def show(
        self,
        i: int,
        array: Any,  # an array of the library `xp`
        xp: ModuleType,
    ) -> Any:
        """Chunk `i` of the view, as a view of the stored chunk's `array`."""
        return follow(self.paths[i], array, xp)


class LayoutTable:
    """Interns layouts and caches what is derived from them, bounded; one in each context."""

    LIMIT = 8192
    DEEPEST = 16
    """So many reshapes of views within each other are views; the next one is a copy."""

    def __init__(self, devices: Sequence[Any] = (), computing: int | None = None, small: int = 0) -> None:
        self._layouts: dict[tuple[IndexMap, Mode], Layout] = {}
        self._derived: dict[Hashable, Any] = {}
        self._devices = {device.id: device for device in devices}
        self._count = len({device.process for device in devices})
        self._computing = computing
        self._small = small
        self._kin: dict[Hashable, dict[tuple[int, ...], Layout]] = {}

    def get(self, index_map: IndexMap, mode: Mode) -> Layout:
        """The one layout object of this index map and mode."""
        key = (index_map, mode)
        found = self._layouts.get(key)
        if found is None:
            if len(self._layouts) >= self.LIMIT:
                self._layouts.clear()
                self._kin.clear()
            found = self._layouts.setdefault(key, self._placed(Layout(index_map, mode)))
        return found

    def _placed(self, layout: Layout) -> Layout:
        """A new layout that knows where this process holds the whole array, if every process does."""
        index_map = layout.index_map
        held = index_map.chunks
        if self._computing is None or layout.mode is not Mode.REPLICA or len(held) != self._count:
            return layout
        if any(device not in self._devices for device, _ in held):
            return layout
        homes = {self._devices[device].process: i for i, (device, _) in enumerate(held)}
        if len(homes) == self._count and all(region.shape == index_map.shape for _, region in held):
            kin = self._kin.setdefault((index_map.devices, tuple([device for device, _ in held])), {})
            object.__setattr__(layout, "home", homes[self._computing])
            object.__setattr__(layout, "keeper", self._devices[held[layout.home][0]])
            object.__setattr__(layout, "small", math.prod(index_map.shape) <= self._small)
            object.__setattr__(layout, "kin", kin)
            kin[layout.shape] = layout
        return layout

    def of_shape(self, layout: Layout, shape: tuple[int, ...]) -> Layout:
        """The layout of an array of another shape that lies as `layout`, which has a home, does."""
        found = layout.kin.get(shape)
        if found is None:
            if len(layout.kin) >= self.LIMIT:
                layout.kin.clear()
            full = Region.full(shape)
            holders = {device for device, _ in layout.chunks}
            regions = {device: [full] if device in holders else [] for device in layout.devices}
            found = layout.kin[shape] = self.get(IndexMap(shape, regions), Mode.REPLICA)
        return found

    FEW = 8
    """In so many boxes an element is looked for one by one."""

    def boxes(self, layout: Layout) -> tuple[tuple[int, tuple[tuple[int, int], ...]], ...] | None:
        """Chunk number and bounds along each axis of a layout's chunks, where they are few, disjoint and of step 1."""
        key = ("boxes", layout)
        found = self._derived.get(key, self)
        if found is self:
            held = [(i, region) for i, (_, region) in enumerate(layout.chunks) if region.size]
            plain = len(held) <= self.FEW and layout.index_map.is_disjoint
            found = None
            if plain and all(r.step == 1 for _, region in held for r in region):
                found = tuple([(i, tuple([(r.start, r.stop) for r in region])) for i, region in held])
            self.remember(key, found)
        return found  # type: ignore[no-any-return]

    def scalar_on(self, layout: Layout, device: int) -> Layout:
        """The layout of a value without axes on one of a layout's devices."""
        key = ("scalar", layout, device)
        found = self._derived.get(key)
        if found is None:
            regions = {other: [Region(())] if other == device else [] for other in layout.devices}
            found = self.remember(key, self.get(IndexMap((), regions), Mode.REPLICA))
        return found  # type: ignore[no-any-return]

    def remembered(self, key: Hashable) -> Any:
        """A value cached under `key`, or None."""
        return self._derived.get(key)

    def remember(self, key: Hashable, value: object) -> Any:
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

    def allows(self, layout: Layout, view: ViewMap) -> bool:
        """Whether each chunk of a layout can be reshaped in place as `view` is. It stays so when partial values are resolved.

        `view` is the reshape of one that the layout allows.
        """
        key = ("allows", layout, view)
        found = self._derived.get(key)
        if found is None:
            maps = {layout.index_map, layout.index_map.completed()} if layout.is_partial else {layout.index_map}
            found = self.remember(key, view.depth <= self.DEEPEST and all(self._allows(m, view) for m in maps))
        return found  # type: ignore[no-any-return]

    def _allows(self, index_map: IndexMap, view: ViewMap) -> bool:
        if view.inner is None:
            return all(
                not region.size or reshape_region(region, index_map.shape, view.base) is not None
                for _, region in index_map.chunks
            )
        seen = self.visible(self.get(index_map, Mode.REPLICA), view.inner)
        assert seen is not None
        shown = [(i, *row) for i, row in enumerate(zip(seen.sources, seen.paths, strict=True))]
        for i, source, path in (*shown, *seen.twins):
            region = seen.layout.chunks[i][1]
            image = reshape_region(region, view.inner.shape, view.base)
            strides = _path_strides(path, index_map.chunks[source][1].shape)
            if image is None or reshape_strides(region.shape, strides, image.shape) is None:
                return False
        return True

    def _visible(self, layout: Layout, view: ViewMap) -> Visible | None:
        held: list[tuple[int, Region, int, Path]]  # device, region, stored chunk, and how it shows the region
        if view.inner is None:
            shape = layout.shape
            held = [(device, region, i, ()) for i, (device, region) in enumerate(layout.chunks)]
        else:
            inner = self.visible(layout, view.inner)
            if inner is None:
                return None
            shape = view.inner.shape
            held = [
                (*inner.layout.chunks[i], source, path)
                for i, source, path in (
                    *zip(range(len(inner.sources)), inner.sources, inner.paths, strict=True),
                    *inner.twins,
                )
            ]
        rows: list[tuple[int, Region, int, Path]] = []
        for device, region, source, path in held:
            given = None
            if view.base != shape:
                if not region.size:
                    continue
                reshaped = reshape_region(region, shape, view.base)
                if reshaped is None:
                    raise AssertionError(f"{layout} does not allow the reshape to {view.base} that a view relies on")
                region, given = reshaped, reshaped.shape
            pull = view.pull(region)
            if pull is not None:
                rows.append((device, pull.region, source, (*path, (given, pull))))
        rows.sort(key=lambda row: row[:3])
        kept: list[tuple[int, Region, int, Path]] = []
        twins: list[tuple[int, int, Path]] = []
        for row in rows:
            if kept and kept[-1][:2] == row[:2]:
                if layout.is_partial:
                    return None
                twins.append((len(kept) - 1, row[2], row[3]))
                continue
            kept.append(row)
        regions: dict[int, list[Region]] = {device: [] for device in layout.devices}
        for row in kept:
            regions[row[0]].append(row[1])
        seen = self.get(IndexMap(view.shape, regions), layout.mode)
        return Visible(seen, tuple([row[2] for row in kept]), tuple([row[3] for row in kept]), tuple(twins))
