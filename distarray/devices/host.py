"""Devices on the CPU: NumPy arrays in pooled memory. With nothing but ``pip install`` they stand in for GPUs.

Every host device shares the machine's memory and cores. What makes it a device is that it owns its chunks: programs,
plans and limits behave as they would on separate machines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from itertools import groupby
from math import prod
from sys import getrefcount
from typing import Any

import numpy as np
import numpy.typing as npt

from distarray.devices.arrays import DeviceArray
from distarray.devices.base import Chunk, Device
from distarray.devices.lapack import HostLapack
from distarray.devices.pool import LEAST, Buffer, HostPool
from distarray.devices.workers import Workers, cpu_count

__all__ = ["HostDevice", "HostPool", "Workers", "cpu_count"]

MANY = 4
"""Fewer chunks than this are made one by one, each with memory of its own that can be reused as soon as it ends."""

COLUMNS = 16
"""The least columns of a transposed matrix that are copied at a time: two lines of the cache for each row."""

PATCH = 1 << 16
"""Elements of a transposed matrix of few rows that are copied at a time."""

HELD = 500
"""NumPy's matmul lets other threads run only where the product has at least so many elements, however long the sums are."""

LONG = 1 << 14
"""A factor of fewer elements is multiplied before another thread would have begun."""

_ALWAYS_ACTIVE: AbstractContextManager[None] = nullcontext()


class HostDevice(Device):
    """A virtual device on the CPU.

    Parameters
    ----------
    pool : HostPool, optional
        The memory shared with the context's other host devices; one of its own by default.
    """

    kind = "host"

    def __init__(
        self, id: int, *, process: int = 0, memory_limit: int | None = None, pool: HostPool | None = None
    ) -> None:
        super().__init__(id, process=process, memory_limit=memory_limit)
        self.pool = HostPool() if pool is None else pool
        self._alone = self.pool.alone

    @cached_property
    def xp(self) -> Any:
        import array_api_compat.numpy as xp

        return xp

    @cached_property
    def lib(self) -> Any:
        return np

    @cached_property
    def lapack(self) -> HostLapack:
        return HostLapack()

    def dispose(
        self,
        nbytes: int,
        array: DeviceArray,
        address: int = 0,
        # bound here, since module globals may be gone when the interpreter shuts down
        _refs: Callable[[object], int] = getrefcount,
    ) -> None:
        buffer = array.base
        if type(buffer) is Buffer and (_refs(array), _refs(buffer)) == self._alone:
            self.pool.give(buffer)

    def empty(self, shape: Sequence[int], dtype: npt.DTypeLike, label: str = "") -> Chunk:
        dtype = np.dtype(dtype)
        nbytes = prod(shape) * dtype.itemsize
        if self.memory_limit is not None:
            self.check(nbytes, label, shape, dtype)
        try:
            if nbytes < LEAST or dtype.hasobject:
                return Chunk(self, np.empty(shape, dtype))
            chunk = Chunk(self, self.pool.array(shape, dtype, nbytes))
            chunk.address = chunk.array.base.start
            return chunk
        except MemoryError:
            self.relieve()
            self.pool.clear()
        try:
            return Chunk(self, np.empty(shape, dtype))
        except MemoryError as error:
            raise self.memory_error(nbytes, label, shape, dtype) from error

    def empties(self, shapes: Sequence[Sequence[int]], dtype: npt.DTypeLike, label: str = "") -> list[Chunk]:
        dtype = np.dtype(dtype)
        if len(shapes) < MANY or dtype.hasobject:
            return super().empties(shapes, dtype, label)
        sizes = [prod(shape) * dtype.itemsize for shape in shapes]
        nbytes = sum(sizes)
        if self.memory_limit is not None:
            self.check(nbytes, label, (nbytes // dtype.itemsize,), dtype)
        try:
            buffer = self.pool.take(nbytes)
        except MemoryError:
            self.relieve()
            self.pool.clear()
            return super().empties(shapes, dtype, label)
        buffer.parts = len(shapes)
        at = buffer.offset
        chunks = []
        for place, (shape, size) in enumerate(zip(shapes, sizes, strict=True)):
            chunk = Chunk(self, np.ndarray(shape, dtype, buffer, at), place)
            chunk.address = buffer.start + at - buffer.offset
            chunks.append(chunk)
            at += size
        return chunks

    def joined(self, chunks: Sequence[Chunk]) -> npt.NDArray[Any] | None:
        first = chunks[0].array
        buffer = first.base
        if type(buffer) is not Buffer or buffer.parts != len(chunks):
            return None
        size = 0
        for place, chunk in enumerate(chunks):
            array = chunk.array
            if chunk.place != place or array.base is not buffer:
                return None
            size += array.size
        return np.ndarray((size,), first.dtype, buffer, buffer.offset)

    def rows(self, arrays: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]] | None:
        first = arrays[0]
        buffer = first.base
        if type(buffer) is not Buffer or buffer.parts != len(arrays) or any(a.base is not buffer for a in arrays):
            return None
        found = []
        at = buffer.offset
        for size, run in groupby([array.size for array in arrays]):
            matrix = np.ndarray((len(list(run)), size), first.dtype, buffer, at)
            found.append(matrix)
            at += matrix.nbytes
        return found

    def fill(
        self,
        array: Any,  # what the device made
        value: Any,  # a number of any kind
    ) -> None:
        np.copyto(array, value, casting="unsafe")

    def adopt(self, array: DeviceArray, label: str = "") -> Chunk:
        # NumPy's functions return scalars where the result has no axes
        return super().adopt(array if isinstance(array, np.ndarray) else np.asarray(array), label)

    def part_of(self, chunk: Chunk, low: int, high: int) -> Chunk:
        rows = chunk.array[low:high]
        buffer = chunk.array.base
        if type(buffer) is Buffer:  # a view of the buffer itself, which goes back to the pool in the end
            start = rows.__array_interface__["data"][0] - buffer.start + buffer.offset if rows.size else buffer.offset
            rows = np.ndarray(rows.shape, rows.dtype, buffer, start)
        return Chunk(self, rows)

    def from_host(self, array: npt.ArrayLike, dtype: npt.DTypeLike | None = None, label: str = "") -> Chunk:
        source = np.asarray(array)
        chunk = self.empty(source.shape, source.dtype if dtype is None else dtype, label)
        np.copyto(chunk.array, source, casting="unsafe")
        return chunk

    def from_foreign(self, array: DeviceArray, label: str = "") -> Chunk:
        return self.from_host(array, label=label)

    def to_host(self, array: DeviceArray) -> npt.NDArray[Any]:
        return np.array(array, order="C")

    def copy(
        self,
        dst_array: Any,  # NumPy's, whose methods are used
        src_array: Any,  # of the source, whose library is not known here
        src_device: Device,
    ) -> None:
        self._match(dst_array, src_array, src_device)
        if src_device.kind != self.kind:
            src_array = src_device.to_host(src_array)
        if (
            dst_array.ndim == 2
            and dst_array.nbytes >= LEAST
            and min(dst_array.shape) > 1
            and abs(src_array.strides[0]) < abs(src_array.strides[1])
        ):
            _transpose(dst_array, src_array)
        else:
            np.copyto(dst_array, src_array)

    def multiply(self, left: DeviceArray, right: DeviceArray, into: DeviceArray) -> None:
        many = into.size >= HELD or (left.size < LONG and right.size < LONG)
        if many or not _dotted(left, right, into):  # type: ignore[arg-type]
            self.lib.matmul(left, right, out=into)

    def active(self) -> AbstractContextManager[None]:
        return _ALWAYS_ACTIVE

    def synchronize(self) -> None:
        pass

    def owns(self, array: DeviceArray) -> bool:
        return isinstance(array, np.ndarray)


def _dotted(left: npt.NDArray[Any], right: npt.NDArray[Any], into: npt.NDArray[Any]) -> bool:
    """``into = left @ right`` of matrices by `numpy.dot`, which makes the same calls of BLAS and lets other threads run meanwhile.

    False where it does not serve, or where there may be something to say of floating-point conditions, which is matmul's to say. Of
    those an underflow alone leaves no trace in a sum: all others leave an infinity or NaN.
    """
    dtype = into.dtype
    if into.ndim != 2 or dtype.char not in "fdFD" or not (left.dtype == right.dtype == dtype) or not dtype.isnative:
        return False
    if not (left.flags.forc and right.flags.forc and into.flags.c_contiguous) or np.geterr()["under"] != "ignore":
        return False
    with np.errstate(all="ignore"):
        np.dot(left, right, out=into)
    return bool(np.isfinite(into).all())


def _transpose(dst: npt.NDArray[Any], src: npt.NDArray[Any]) -> None:
    """Copy a matrix that lies the other way round, some columns at a time: NumPy's own order reads a line of the cache
    for each element."""
    columns = max(COLUMNS, PATCH // dst.shape[0])
    for low in range(0, dst.shape[1], columns):
        dst[:, low : low + columns] = src[:, low : low + columns]
