"""CUDA kernels of the package's own: compiled once from their source, launched with one packed argument.

A kernel takes one structure by value (pointers, sizes, strides, scalars), so that a launch packs bytes and calls the driver:
nothing is looked up or converted by argument. The memory that it packs into is used again, and so is the driver's handle of the
function on each GPU. Compiled code is kept by CuPy, in memory and in its cache on disk; what this process has loaded is kept
here, up to a bound.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable
from math import prod
from struct import Struct
from time import perf_counter
from typing import Any

import numpy as np

from distarray.devices.arrays import DeviceArray, Library
from distarray.errors import PerformanceHint
from distarray.sites import call_site, warn_at

__all__ = ["OPTIONS", "Kernel", "Kernels", "collapse", "extent", "steps_of", "tell_compiled"]

OPTIONS = ("-std=c++17", "--fmad=false")
"""No contraction: a fused chain then has the bits of its steps, each of which rounds. (CuPy adds -ftz=true, as for its own.)"""

MOST = 2048
"""Kernels that stay loaded."""

NOTICED = 0.05
"""Seconds of compiling that a hint names: what CuPy's cache holds comes faster."""


class Kernel:
    """One compiled function and the layout of its argument.

    Parameters
    ----------
    lib : module
        CuPy.
    source : str
        CUDA C++ that defines ``extern "C" __global__ void kernel(const __grid_constant__ Args a)``.
    fields : str
        The members of ``Args``, as the module ``struct`` writes native types.
    """

    __slots__ = ("_current", "_function", "_handles", "_idle", "_launch", "_pack", "_refused", "_size", "_stream")

    def __init__(self, lib: Library, source: str, fields: str) -> None:
        start = perf_counter()
        self._function = lib.RawModule(code=source, options=OPTIONS).get_function("kernel")
        tell_compiled(perf_counter() - start)
        packed = Struct(f"@{fields}0q")  # to its full size, which the launch copies
        self._pack = packed.pack_into
        self._size = packed.size
        self._idle: list[tuple[Any, int, Any]] = []
        self._handles: dict[int, int] = {}
        self._current = lib.cuda.runtime.getDevice
        self._stream = lib.cuda.get_current_stream
        self._launch = lib.cuda.driver.launchKernel
        self._refused = lib.cuda.driver.CUDADriverError

    def __call__(self, blocks: int, threads: int, *values: Any) -> None:
        """Launch on the current device and stream."""
        self.launch(self._current(), self._stream().ptr, blocks, threads, *values)

    def launch(self, ordinal: int, stream: int, blocks: int, threads: int, *values: Any) -> None:
        """Launch on a stream of the GPU `ordinal`, which is the current one."""
        try:  # each launch has memory of its own: the driver copies it before it returns, but threads may launch at once
            slot = self._idle.pop()
        except IndexError:
            memory = np.empty(self._size, np.uint8)
            places = np.array([memory.ctypes.data], np.uintp)
            slot = memory, places.ctypes.data, places
        self._pack(slot[0], 0, *values)
        handle = self._handles.get(ordinal)
        if handle is None:
            handle = self._handles[ordinal] = self._function.kernel.ptr
        try:
            self._launch(handle, blocks, 1, 1, threads, 1, 1, 0, stream, slot[1], 0)
        except self._refused:  # a thread that the driver sees first: CuPy's way makes the GPU current for it
            self._function((blocks,), (threads,), (slot[0].view(f"V{self._size}"),))
        self._idle.append(slot)


def tell_compiled(seconds: float) -> None:
    """Hint (``DISTARRAY_HINTS=1``), at the caller's line, that it waited for a compiler."""
    if seconds < NOTICED or os.environ.get("DISTARRAY_HINTS", "0") in ("", "0"):
        return
    text = (
        f"this line waited {seconds:.2f} s for a kernel to be compiled, as the first of its kind: others of these calls and "
        "dtypes, and later programs, find it compiled"
    )
    warn_at(call_site(), text, PerformanceHint)


class Kernels:
    """A bounded table of what was compiled: the oldest that was not asked for makes room."""

    def __init__(self, most: int = MOST) -> None:
        self._held: OrderedDict[Any, Any] = OrderedDict()
        self._most = most

    def get(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """The kernel under a key. The first call makes it."""
        try:
            found = self._held[key]
            self._held.move_to_end(key)
        except KeyError:  # or another thread has just taken it out
            found = self._held[key] = make()
            while len(self._held) > self._most:
                self._held.popitem(last=False)
        return found


def collapse(
    shape: tuple[int, ...], strides: list[tuple[int, ...]], apart: int = 0
) -> tuple[list[int], list[list[int]]]:
    """Sizes and strides with axes of length 1 dropped and axes joined that lie one behind the other in every array.

    `strides` are those of every array, for the axes of `shape`. A join never crosses the first axes `apart`.
    """
    sizes: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for axis, n in enumerate(shape):
        if n == 1:
            continue
        own = [s[axis] for s in strides]
        if sizes and axis != apart and all(s[-1] == n * mine for s, mine in zip(steps, own, strict=True)):
            sizes[-1] *= n
            for s, mine in zip(steps, own, strict=True):
                s[-1] = mine
            continue
        sizes.append(n)
        for s, mine in zip(steps, own, strict=True):
            s.append(mine)
    return sizes, steps


def steps_of(array: DeviceArray, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """An array's strides in elements as it broadcasts to a shape; None where they are no multiples of an element."""
    item = array.dtype.itemsize
    if any(s % item for s in array.strides):
        return None
    own = [0 if n == 1 else s // item for n, s in zip(array.shape, array.strides, strict=True)]
    return (*[0] * (len(shape) - len(own)), *own)


def extent(sizes: list[int], steps: list[int]) -> int:
    """How far from its first element an array reaches, in the unit of its strides."""
    return sum((n - 1) * abs(s) for n, s in zip(sizes, steps, strict=True)) if prod(sizes) else 0
