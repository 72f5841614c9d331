"""What an array shows of the one chunk of this process that holds all of it, if one does: the gate of the short way.

``state.py`` needs it to hand out values, and ``whole.py`` to compute on them. An array's slots are read directly here: at
this place every look-up counts.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from distarray.devices import Chunk
from distarray.devices.arrays import DeviceArray
from distarray.layout import follow

if TYPE_CHECKING:
    from distarray.context import Context
    from distarray.geometry import ViewMap
    from distarray.layout import Layout
    from distarray.storage import Storage

__all__ = ["UNCOUNTED", "chunk_of", "fresh_chunks", "is_short", "seen"]

UNCOUNTED = 1 << 15
"""A result of so many bytes is a chunk, which its device counts, when it is first viewed, written to or moved, unless memory is
limited: until then most are read once and gone."""


class State(Protocol):
    """What is read here of an array's state."""

    _context: Context
    _fresh: Any
    _home: int
    _kin: Layout | None
    _reach: tuple[Any, ...] | None
    _storage: Storage | None

    @property
    def _view(self) -> ViewMap | None: ...


def seen(x: State) -> Any:
    """A NumPy view of the chunk, or a scalar; None where this process holds no chunk, or several, or not all."""
    layout = x._kin
    if layout is None:
        layout = _found(x)
        if layout is None:
            return None
    fresh = x._fresh
    if fresh is not None:
        return fresh.array if type(fresh) is Chunk else fresh
    array = x._storage.version.chunks[x._home].array  # type: ignore[union-attr]
    for step in x._reach:  # type: ignore[union-attr]
        array = step(array)
    return array


def _found(x: State) -> Layout | None:
    """The layout of an array's storage where it has a home. The array then remembers it, and how to get from the home to
    what it shows: both are the same for all values that the storage will have."""
    storage = x._storage
    if storage is None:
        return None
    layout = storage.version.layout
    home = layout.home
    if home < 0:
        return None
    if x._reach is None:
        view = x._view
        if view is None:
            x._reach = ()
        else:
            shown = x._context.layouts.visible(layout, view)
            if shown is None or shown.twins or home not in shown.sources:
                return None
            x._reach = (partial(follow, shown.paths[shown.sources.index(home)], xp=np),)
    x._home = home
    x._kin = layout
    return layout


def is_short(layout: Layout, nbytes: int) -> bool:
    """Whether an array of so many bytes lies whole and small in this process, where its device counts it when it is first needed
    as a chunk (`UNCOUNTED`)."""
    if layout.home < 0 or not layout.small or nbytes > UNCOUNTED:
        return False
    return layout.keeper.kind == "host" and layout.keeper.memory_limit is None


def chunk_of(layout: Layout, array: DeviceArray) -> Chunk:
    """The chunk of this process for a whole array."""
    device = layout.keeper
    if device.memory_limit is None:
        return Chunk(device, array)
    found: Chunk = device.adopt(array, "a small result")
    return found


def fresh_chunks(layout: Layout, fresh: object) -> list[Chunk | None]:
    """The chunks of an array that has been in no storage yet: a chunk, its array alone, or a scalar."""
    chunks: list[Chunk | None] = [None] * len(layout.chunks)
    chunks[layout.home] = fresh if type(fresh) is Chunk else chunk_of(layout, np.asarray(fresh))
    return chunks
