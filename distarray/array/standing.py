"""Copies that stand where NumPy has a view and the layout allows none: they show what is later written to the array.

A write to the array tells its copies that they are out of date, on all processes alike; the next read copies again. What was
told holds the array, so that the write is seen when nobody else does. A copy of a copy follows both. Written to it can be
once nobody holds what it was copied from (`distarray.storage.Apart`): a write has no way back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

from distarray.array.memory_model import model
from distarray.array.state import DistributedArray, copy_array
from distarray.layout import Layout
from distarray.storage import Apart, Storage, Version
from distarray.transfer.execute import moved

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = ["settled", "stand_for"]

StandingStep = Callable[[Storage], Version]


def stand_for(
    x: DistributedArray,
    make: Callable[[DistributedArray], DistributedArray],
    like: Callable[[Any], Any],
    *,
    writable: bool = True,
) -> DistributedArray:
    """``make(x)``, a copy, as what stands for a view of `x`.

    Parameters
    ----------
    x : DistributedArray
    make : function
        It holds no array, since it is kept to copy again.
    like : function
        NumPy's own, from an array with the strides of `x` to the view.
    writable : bool
        Whether NumPy's view can be written to.

    Returns
    -------
    DistributedArray

    Notes
    -----
    Communication: that of ``make(x)``, now and at the first read after each write to `x`.
    """
    storage = x._own()
    version = _copied(make, x)
    stand = StandIn(x._context, version, tuple(like(model(x)).strides))
    place, shape, dtype, view, context = storage.maker(), x._shape, x._dtype, x._view, x._context

    def again(root: Storage) -> Version:
        return _copied(make, DistributedArray._make(context, shape, dtype, None, place(root), view))

    stand.follow(storage.root, again)
    can = Apart(storage, x._writable) if writable else False
    return DistributedArray._make(context, version.layout.shape, version.dtype, None, stand, None, can)


def settled(x: DistributedArray) -> DistributedArray:
    """A copy that stands for a view, now as a copy of its own."""
    return x._make(x._context, x._shape, x._dtype, None, Storage(x._context, x._own().version), x._view)


def _copied(make: Callable[[DistributedArray], DistributedArray], x: DistributedArray) -> Version:
    made = make(x)
    storage = made._own()
    if made._view is not None or storage.root is not storage:
        storage = copy_array(made)._own()
    return storage.version


class StandIn(Storage):
    """The storage of such a copy."""

    __slots__ = ("_current", "_origins", "_stale", "_strides")

    def __init__(self, context: Context, version: Version, strides: tuple[int, ...]) -> None:
        self._strides = strides
        self._stale: tuple[Storage, tuple[StandingStep, ...]] | None = None
        self._origins: list[ref[Storage]] = []
        super().__init__(context, version)

    @property
    def version(self) -> Version:
        if self._stale is not None:
            self._renew()
        return self._current

    @version.setter
    def version(self, version: Version) -> None:
        self._current = version

    @property
    def layout(self) -> Layout:
        return self._current.layout

    def byte_strides(self) -> tuple[int, ...]:
        return self._strides

    def follow(self, origin: Storage, step: StandingStep) -> None:
        """Copy again when `origin` is written to, or what that is a copy of."""
        self._listen(origin, (step,))
        if isinstance(origin, StandIn):
            for each in origin._origins:
                before = each()
                if before is not None and before.copies is not None:
                    self._listen(before, (*before.copies[origin], step))

    def _listen(self, origin: Storage, steps: tuple[StandingStep, ...]) -> None:
        if origin.copies is None:
            origin.copies = WeakKeyDictionary()
        origin.copies[self] = steps
        self._origins.append(ref(origin))

    def outdated(self, origin: Storage, steps: tuple[StandingStep, ...]) -> None:
        """Know that `origin`, of which `steps` make the copy, is written to."""
        self._stale = origin, steps
        self.outdate()

    def _renew(self) -> None:
        with self.context.lock:
            if self._stale is None:
                return
            storage, steps = self._stale
            layout = self._current.layout
            for step in steps:
                storage = Storage(self.context, step(storage))
            version = storage.version
            if version.layout is not layout:
                version = moved(storage, layout, "reshape")
            if self.exposed:  # others hold the buffers
                for held, fresh in zip(self._current.chunks, version.chunks, strict=True):
                    if held is not None and fresh is not None:
                        held.device.copy(held.array, fresh.array, held.device)
            else:
                self.replace(version)
            self._stale = None
