"""The memory behind one array and all its views, and what keeps old values readable while a writer changes them.

A :class:`Storage` holds a :class:`Version`: a layout and its chunks. Recorded expressions hold the version that they
read, not the storage. A writer that finds its version held by others gives the storage a new one, with copies of only
the chunks that it writes in part; so a pending expression keeps its values, and no communication depends on it.

Resolving a partial mode replaces a version's layout and chunks once, for everyone who holds it: the value is the same.

What was copied where NumPy would have a view (:mod:`distarray.array.standing`) is told of each write, and copies again when it
is read. Every write comes to :meth:`Storage.prepare` or :meth:`Storage.outdate`, on all processes alike.

A :class:`PartStorage` shows the chunks of another storage as arrays of another kind: the real parts of complex numbers, a field of
structured elements, the same bytes as another dtype. It holds no memory: its version is always made from the other's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary, WeakSet, ref

import numpy as np

from distarray.devices import Alias, Chunk
from distarray.devices.arrays import DeviceArray
from distarray.geometry import ViewMap
from distarray.layout import Layout

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = ["Apart", "Copy", "Operand", "PartStorage", "Storage", "Version", "writable_chunks"]


class Version:
    """A value: a layout and its chunks, one entry for each chunk of the layout (None where another process owns it).

    Whoever reads the version later holds its `token` too; :meth:`pinned` counts them. Who reads it soon, and rather at once
    than that a writer copies, is among its `readers`.
    """

    __slots__ = ("__weakref__", "chunks", "dtype", "form", "layout", "parts", "readers", "token")

    def __init__(self, layout: Layout, chunks: list[Chunk | None], dtype: np.dtype[Any]) -> None:
        self.layout = layout
        self.chunks = chunks
        self.dtype = dtype
        self.token = _Token()
        self.parts: WeakSet[_PartVersion] | None = None  # what shows parts of these chunks
        self.readers: Any = None
        self.form: Any = None  # on GPUs, what it shares with others of its kind: `fusion.forms`

    def pinned(self, *, by_writer: int = 0) -> bool:
        """Whether anyone reads this version later: holds its token, besides the version itself, the storage that it is the
        current value of, and the leaves that a write itself made (`by_writer`). Never decides communication."""
        if self.readers is None and self.parts is None:
            return sys.getrefcount(self.token) - _ALONE - 1 > by_writer
        for version in (self, *(self.parts or ())):
            if version.readers is not None:
                version.readers.run()
        count = sys.getrefcount(self.token) - _ALONE - 1
        if self.parts:
            count += sum([sys.getrefcount(part.token) - _ALONE for part in self.parts])
        return count > by_writer


class _PartVersion(Version):
    """A version of parts of another version's chunks. Whoever reads it later reads the other too."""

    __slots__ = ("held", "origin")

    def __init__(self, origin: Version, layout: Layout, show: Callable[[Any], Any], dtype: np.dtype[Any]) -> None:
        super().__init__(layout, [None if c is None else Alias(c, show(c.array)) for c in origin.chunks], dtype)
        self.origin = origin
        self.held = list(origin.chunks)
        if origin.parts is None:
            origin.parts = WeakSet()
        origin.parts.add(self)

    def is_current(self, origin: Version) -> bool:
        """Whether `origin` is what this was made from, and its chunks are those of then."""
        return self.origin is origin and all(a is b for a, b in zip(self.held, origin.chunks, strict=True))

    def pinned(self, *, by_writer: int = 0) -> bool:
        return self.origin.pinned(by_writer=by_writer)


class _Token:
    """An object to count references to."""

    __slots__ = ()


def _baseline() -> int:
    probe = Version(None, [], None)  # type: ignore[arg-type]
    return sys.getrefcount(probe.token)


_ALONE = _baseline()


def contiguous_bytes(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """The strides in bytes of an array in C order."""
    steps, jump = [], itemsize
    for n in reversed(shape):
        steps.append(jump)
        jump *= max(n, 1)
    return tuple(steps[::-1])


class Storage:
    """The memory of an array and its views.

    Attributes
    ----------
    version : Version
        The current value.
    exposed : bool
        Buffers were handed out (``all_chunks``) or imported without a copy: others may write to them at any time, so
        expressions that read this storage are evaluated at once, and its chunks are never shared.
    copies : WeakKeyDictionary of Copy to steps, or None
        The copies that stand for views of it, and how each is made.
    whole : callable or None
        A weak reference to the array that shows all of it: the `base` of its views.
    """

    __slots__ = ("__weakref__", "context", "copies", "exposed", "token", "version", "whole")

    def __init__(self, context: Context, version: Version, exposed: bool = False) -> None:
        self.context = context
        self.version = version
        self.token = version.token
        self.exposed = exposed
        self.copies: WeakKeyDictionary[Copy, Any] | None = None
        self.whole: Callable[[], Any] | None = None

    @property
    def layout(self) -> Layout:
        """How the current value lies. Moves nothing."""
        return self.version.layout

    def byte_strides(self) -> tuple[int, ...]:
        """The strides in bytes that NumPy's array would have."""
        return contiguous_bytes(self.layout.shape, self.version.dtype.itemsize)

    @property
    def volatile(self) -> bool:
        """Whether others may write to the buffers unseen."""
        return self.exposed

    @property
    def root(self) -> Storage:
        """The storage whose memory this is."""
        return self

    def prepare(self, by_writer: int) -> None:
        """Called before a write, whose own leaves are `by_writer` of those that read the current version."""
        self.outdate()

    def outdate(self) -> None:
        """Tell the copies that stand for views of this that it is written to."""
        if self.copies:
            for copy, steps in list(self.copies.items()):
                copy.outdated(self, steps)

    def maker(self) -> Callable[[Storage], Storage]:
        """What makes the like of this storage of its root. It holds neither."""
        return _itself

    def expose(self) -> None:
        """Give the storage chunks that no other version holds, since the buffers are handed out."""
        if not self.exposed:
            self.unshare()
            self.exposed = True

    def replace(self, version: Version) -> None:
        """Make `version` the current value."""
        self.version = version
        self.token = version.token

    def rewrite(self, version: Version, chunks: list[Chunk | None], fresh: bool) -> None:
        """Have `chunks` hold the value after a write to `version`, the current one: in its place, or (`fresh`) beside it,
        where it is still read."""
        if not fresh:
            version.chunks = chunks
            return
        after = Version(version.layout, chunks, version.dtype)
        if any(a is b is not None for a, b in zip(chunks, version.chunks, strict=True)):
            share(version)
        self.replace(after)

    def unshare(self) -> None:
        """Give the storage chunks that no other version holds."""
        version = self.version
        if version.pinned():
            version = Version(version.layout, list(version.chunks), version.dtype)
            share(version)
        for i, chunk in enumerate(version.chunks):
            if chunk is not None and chunk.shared:
                version.chunks[i] = duplicate(chunk)
        self.replace(version)


def _itself(root: Storage) -> Storage:
    return root


class Copy(Protocol):
    """A storage that is a copy of what a view would show of another one."""

    def outdated(self, origin: Storage, steps: tuple[Any, ...]) -> None:
        """`origin` is written to; `steps` make the copy of it."""


class Apart:
    """Whether a copy that stands for a view may be written to: once nobody holds the memory it was copied from, no write can be
    missed there. It must have been writable itself.

    Parameters
    ----------
    origin : Storage
        What was copied.
    writable : bool, Apart or None
        Whether the array that was copied could be written to.
    """

    __slots__ = ("_before", "_origin")

    def __init__(self, origin: Storage, writable: bool | Apart | None) -> None:
        self._origin = ref(origin.root)
        self._before = writable

    def __bool__(self) -> bool:
        return self._origin() is None and bool(self._before)


class PartStorage(Storage):
    """What steps such as ``attrgetter("real")`` show of the chunks of another storage, of which no value is partial.

    A write is one to the other storage's buffers, made safe first (`prepare`), and goes through them: so `exposed` is set.

    Attributes
    ----------
    parent : Storage
        No part itself.
    steps : tuple of functions
        Applied to a chunk's array one after the other; each returns a view.
    """

    __slots__ = ("_dtype", "_last", "_layout", "parent", "steps")

    def __init__(
        self, parent: Storage, steps: tuple[Callable[[Any], Any], ...], layout: Layout, dtype: np.dtype[Any]
    ) -> None:
        self.context = parent.context
        self.parent = parent
        self.steps = steps
        self.exposed = True
        self.copies = None
        self._layout = layout
        self._dtype = dtype
        self._last: _PartVersion | None = None

    @property
    def version(self) -> Version:  # type: ignore[override]
        origin = self.parent.version
        if self._last is None or not self._last.is_current(origin):
            self._last = _PartVersion(origin, self._layout, self.show, self._dtype)
        return self._last

    def show(self, array: DeviceArray | None) -> Any:
        """The part of a chunk's array."""
        for step in self.steps:
            array = step(array)
        return array

    @property
    def layout(self) -> Layout:
        return self._layout

    def byte_strides(self) -> tuple[int, ...]:
        whole = self.parent
        unit = np.empty(1, whole.version.dtype)  # never read
        made = np.lib.stride_tricks.as_strided(unit, whole.layout.shape, whole.byte_strides(), writeable=False)
        return tuple(self.show(made).strides)

    @property
    def volatile(self) -> bool:
        return self.parent.exposed

    @property
    def root(self) -> Storage:
        return self.parent

    def prepare(self, by_writer: int) -> None:
        parent = self.parent
        parent.outdate()
        if not parent.exposed:
            version = parent.version
            if version.pinned(by_writer=by_writer) or any(c is not None and c.shared for c in version.chunks):
                parent.unshare()

    def maker(self) -> Callable[[Storage], Storage]:
        return partial(_part, self.steps, self._layout, self._dtype)

    def expose(self) -> None:
        self.parent.expose()

    def unshare(self) -> None:
        """Do nothing: no other version holds chunks of a part."""


def _part(steps: tuple[Callable[[Any], Any], ...], layout: Layout, dtype: np.dtype[Any], root: Storage) -> Storage:
    return PartStorage(root, steps, layout, dtype)


def writable_chunks(storage: Storage, chunk_ids: Iterable[int]) -> Version:
    """Make chunks of a storage safe to write to in part, and return the version that they are in: the current one.

    Chunks that another version holds, or that a pending expression still reads, are replaced by copies, all allocated
    before any of them is written. A storage whose buffers were handed out keeps them: nothing else reads it later.
    """
    storage.prepare(0)
    version = storage.version
    if storage.exposed:
        return version
    pinned = version.pinned()
    chunks = list(version.chunks)
    for i in sorted(set(chunk_ids)):
        chunk = chunks[i]
        if chunk is not None and (pinned or chunk.shared):
            chunks[i] = duplicate(chunk)
    if not pinned:
        version.chunks = chunks
        return version
    after = Version(version.layout, chunks, version.dtype)
    if any(a is b for a, b in zip(chunks, version.chunks, strict=True)):
        share(version)
    storage.replace(after)
    return after


def share(version: Version) -> None:
    """Mark the chunks as held by more than one version: whoever writes first copies. The mark stays."""
    for chunk in version.chunks:
        if chunk is not None:
            chunk.shared = True


def duplicate(chunk: Chunk) -> Chunk:
    """A copy of a chunk on its own device."""
    device = chunk.device
    fresh = device.empty(chunk.array.shape, chunk.array.dtype, "a copy on write")
    device.copy(fresh.array, chunk.array, device)
    return fresh


class Operand(NamedTuple):
    """An array's values as the functions in ``ops/`` see them: a layout in the array's own coordinates, and one NumPy or
    CuPy array for each chunk of it (None where another process owns it). The arrays may be views: never write to them.
    """

    layout: Layout
    arrays: list[Any]
    dtype: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return self.layout.shape


def operand(context: Context, version: Version, view: ViewMap | None) -> Operand | None:
    """The chunks that a view shows; None where the version has to be resolved first."""
    if view is None:
        arrays = [None if chunk is None else chunk.array for chunk in version.chunks]
        return Operand(version.layout, arrays, version.dtype)
    seen = context.layouts.visible(version.layout, view)
    if seen is None:
        return None
    arrays = []
    for i, source in enumerate(seen.sources):
        chunk = version.chunks[source]
        arrays.append(None if chunk is None else seen.show(i, chunk.array, chunk.device.xp))
    return Operand(seen.layout, arrays, version.dtype)
