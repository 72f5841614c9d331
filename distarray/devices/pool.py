"""Host memory that was touched before, kept for reuse: the first touch of a page costs more than the arithmetic on it.

A buffer comes back only when nothing can read it any more. NumPy keeps whatever an array is a view of alive, so a view,
a memoryview or a DLPack capsule of a chunk's array shows as a reference to the array or to its buffer: a count above
that of an array nobody else holds means that somebody may still read, and then the buffer goes its ordinary way.

The lock is only ever tried, never waited for. A finaliser may run inside the locked lines (the collector runs
anywhere), or in a forked child whose lock died with its holder; then the buffer is not pooled, which is always correct.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import Any

import numpy as np
import numpy.typing as npt

from distarray.devices.arrays import DeviceArray
from distarray.devices.base import Chunk

__all__ = ["ALIGNMENT", "LEAST", "Buffer", "HostPool", "default_limit", "size_class"]

LEAST = 64 * 1024
"""Arrays of fewer bytes are not pooled: touching their pages costs less than the bookkeeping."""

ALIGNMENT = 64
"""A cache line, so that vector loads never straddle two."""


class Buffer(np.ndarray[Any, np.dtype[np.uint8]]):
    """Raw memory of the pool. A type of its own, so that it is told apart from memory that arrays came with."""

    __slots__ = ("offset", "parts", "size_class", "start")

    offset: int
    start: int  # where that is in memory
    parts: int  # how many chunks it was made for
    size_class: int


def size_class(nbytes: int) -> int:
    """`nbytes` rounded up to an eighth of a power of two: at most an eighth is slack, and its pages stay untouched."""
    step = 1 << max(nbytes.bit_length() - 4, 0)
    return -(-nbytes // step) * step


def default_limit() -> int:
    """The bytes that a pool keeps idle: 2 GiB, or an eighth of the memory that this process may use where less."""
    sizes = [16 << 30]
    try:
        sizes.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        sizes.append(2 << 30)
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            with open(path) as file:
                sizes.append(int(file.read()))
        except (OSError, ValueError):  # absent, or "max"
            continue
    return min(sizes) // 8


class _Probe:
    """Learns what the reference counts of an array that nobody else holds look like from inside ``dispose``.

    They differ between Python versions (3.14 does not count what a frame merely borrows), so they are measured by
    ending real chunks. `dispose` stays line by line what ``HostDevice.dispose`` does. A count that comes out too high
    would let memory be reused under a reader: the least of many is taken, and never more than the three references
    that can be named: two frames' and the argument's.
    """

    def __init__(self) -> None:
        self.counts = [(3, 3)]
        self.count = self.peak = 0
        self.chunks: dict[int, Any] = {}

    def dispose(
        self, nbytes: int, array: DeviceArray, address: int = 0, _refs: Callable[[object], int] = getrefcount
    ) -> None:
        buffer = array.base
        if type(buffer) is Buffer and (_refs(array), _refs(buffer)):
            self.counts.append((_refs(array), _refs(buffer)))

    def measure(self, pool: HostPool) -> tuple[int, int]:
        device: Any = self
        for _ in range(32):  # enough for the interpreter to specialise the call sites
            Chunk(device, pool.array((LEAST,), np.dtype(np.uint8), LEAST))
        return min(self.counts)


class HostPool:
    """Buffers by size class, at most `limit` bytes of them idle. One for the host devices of a context.

    Idle memory belongs to no device and counts against no device's limit.
    """

    def __init__(self, limit: int | None = None) -> None:
        # Without the interpreter lock a reference count read by one thread proves nothing about the others.
        locked = getattr(sys, "_is_gil_enabled", lambda: True)()
        self.limit = (default_limit() if limit is None else limit) if locked else 0
        self.idle = 0
        self.hits = 0
        self._free: dict[int, list[Buffer]] = {}  # size class -> buffers; the class last given back stands last
        self._lock = threading.Lock()
        self.alone = _Probe().measure(self)

    def array(self, shape: Sequence[int], dtype: np.dtype[Any], nbytes: int) -> npt.NDArray[Any]:
        """An uninitialised array in C order on a buffer of the pool, which is its ``base``."""
        buffer = self.take(nbytes)
        buffer.parts = 1
        return np.ndarray(shape, dtype, buffer, buffer.offset)

    def take(self, nbytes: int) -> Buffer:
        """A buffer of at least `nbytes` from its ``offset`` on, which is aligned.

        Raises
        ------
        MemoryError
        """
        size = size_class(nbytes)
        if self.idle and self._lock.acquire(False):
            try:
                stack = self._free.get(size)
                if stack:
                    self.idle -= size
                    self.hits += 1
                    return stack.pop()
            finally:
                self._lock.release()
        buffer = Buffer((size + ALIGNMENT,), np.uint8)
        place: int = buffer.__array_interface__["data"][0]
        buffer.offset = -place % ALIGNMENT
        buffer.start = place + buffer.offset
        buffer.size_class = size
        return buffer

    def give(self, buffer: Buffer) -> None:
        """Keeps a buffer that nothing reads any more. Buffers of the size classes longest unused make room."""
        size = buffer.size_class
        evicted = []  # freed after the lock: returning a large buffer to the system takes milliseconds
        if size > self.limit or not self._lock.acquire(False):
            return
        try:
            stack = self._free.pop(size, [])
            while self.idle + size > self.limit:
                if not self._free:
                    break
                oldest = next(iter(self._free))
                others = self._free[oldest]
                if others:
                    evicted.append(others.pop())
                    self.idle -= oldest
                if not others:
                    del self._free[oldest]
            self._free[size] = stack
            if self.idle + size <= self.limit:
                stack.append(buffer)
                self.idle += size
        finally:
            self._lock.release()
        del evicted

    def clear(self) -> None:
        """Frees every idle buffer."""
        if self._lock.acquire(False):
            try:
                free, self._free, self.idle = self._free, {}, 0
            finally:
                self._lock.release()
            del free
