"""Small arrays of a GPU that nothing uses any more, kept as they are for the next chunk of their shape and dtype.

CuPy's pool finds memory and builds an array in several microseconds, which is half of what a call on a small array may
cost. What comes back here is used again as it is: all work of a device is in the order of one stream, so that what still
reads it comes before what writes it next. Large arrays are left to CuPy's pool, which cuts and joins memory.

An array is kept only where nobody else can reach its memory: a view, a capsule or a pointer shows as a reference above those
of an array that its chunk alone held. They are counted as `pool` counts those of host memory.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from sys import getrefcount
from typing import Any

from distarray.devices.arrays import AnyDType, DeviceArray
from distarray.devices.base import Chunk

__all__ = ["IdleArrays", "LARGEST"]

LARGEST = 1 << 18
"""Bytes of an array above which it goes back to CuPy."""

MOST = 1 << 24
"""Bytes that are kept in all. The kinds (shape and dtype) longest in the table make room."""


def _references(array: DeviceArray) -> tuple[int, int, int]:
    data = array.data
    return getrefcount(array), getrefcount(data), getrefcount(data.mem)


class _StandIn:
    """An object in the place of an array, of its pointer and of its memory."""

    __slots__ = ("data", "mem", "nbytes")

    data: Any
    mem: Any

    def __init__(self) -> None:
        self.nbytes = 0


class _CountingDevice:
    """An object in the place of a device, which counts the references to arrays that end with their chunks."""

    def __init__(self) -> None:
        self.counts: list[tuple[int, int, int]] = [(5, 4, 3)]  # never more than the references that can be named
        self.count = self.peak = 0
        self.chunks: dict[int, Any] = {}
        self.dispose = self.measure

    def measure(self, nbytes: int, array: DeviceArray, address: int) -> None:
        """Count the references to an array from where `IdleArrays.give` counts them."""
        self.counts.append(_references(array))


def _alone() -> tuple[int, int, int]:
    probe = _CountingDevice()
    device: Any = probe
    for _ in range(32):  # enough for the interpreter to specialise the call sites
        array: Any = _StandIn()
        array.data = _StandIn()
        array.data.mem = _StandIn()
        chunk = Chunk(device, array)
        del array
        del chunk
    return min(probe.counts)


class IdleArrays:
    """The idle arrays of one device.

    Parameters
    ----------
    pooled : type
        Of the memory that CuPy's own pool makes: only such is kept.
    """

    def __init__(self, pooled: type) -> None:
        # Without the interpreter lock a reference count read by one thread proves nothing about the others.
        locked = getattr(sys, "_is_gil_enabled", lambda: True)()
        self._largest = LARGEST if locked else 0
        self._pooled = pooled
        self._alone = _alone()
        self._idle: OrderedDict[Any, list[Any]] = OrderedDict()
        self.nbytes = 0

    def take(self, shape: tuple[int, ...], dtype: AnyDType) -> tuple[Any, int] | None:
        """An array of this kind with any content, in C order, and where it lies; or None."""
        stack = self._idle.get((shape, dtype))
        if not stack:
            return None
        try:
            found: tuple[Any, int] = stack.pop()
        except IndexError:  # another thread took it
            return None
        self.nbytes -= found[0].nbytes
        return found

    def give(self, nbytes: int, array: DeviceArray, address: int) -> None:
        """Keep the array of a chunk that ends, where nothing else refers to it and it lies in C order: a device's ``dispose``."""
        if not 0 < nbytes <= self._largest or array.base is not None:
            return
        if address <= 0:
            if address or not array.flags.c_contiguous or array.data.ptr & 15:
                return
            address = array.data.ptr
        if type(array.data.mem) is not self._pooled or _references(array) != self._alone or array.nbytes != nbytes:
            return
        key = (array.shape, array.dtype)
        stack = self._idle.get(key)
        if stack is None:
            stack = self._idle[key] = []
        stack.append((array, address))
        self.nbytes += nbytes
        if self.nbytes > MOST:
            self._make_room()

    def _make_room(self) -> None:
        try:
            while self.nbytes > MOST:
                oldest = next(iter(self._idle))
                stack = self._idle[oldest]
                if stack:
                    self.nbytes -= stack.pop()[0].nbytes
                else:
                    del self._idle[oldest]
        except (StopIteration, KeyError, IndexError, RuntimeError):  # another thread made room
            pass
