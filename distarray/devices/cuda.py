"""Devices on GPUs: CuPy arrays, ordered by streams and events, with no wait on the host.

All work of a GPU runs on its legacy default stream, ``cupy.cuda.Stream.null``: what users launch with plain CuPy is
ordered with it, memory that CuPy's pool hands out again was last used on the same stream, and a chunk may be dropped
while kernels that read it are still queued. A copy between GPUs runs on the destination's stream, which first waits for
the source's; the source's stream then waits until the copy has read.

CuPy is imported when a device is made, never with this module.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from math import prod
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from distarray.devices.arrays import DeviceArray
from distarray.devices.base import Chunk, Device, as_int
from distarray.devices.gpu_blas import multiply_rows
from distarray.devices.gpus import gpu_report, no_gpu
from distarray.devices.idle import IdleArrays
from distarray.devices.lapack import CudaLapack
from distarray.devices.moves import Batch, Rows, rows_between
from distarray.devices.row_copies import copied_rows
from distarray.devices.small_products import multiply_small
from distarray.devices.transposes import transposed_copy
from distarray.errors import DeviceError

__all__ = ["CudaDevice", "CudaRuntime"]

STAGED_BYTES = 1 << 20
"""Host data up to this size is copied once more, so that the call need not wait until the GPU has read it."""

STAGE_BYTES = 1 << 16
"""What goes to the host through pinned memory: more is copied at once faster than by way of it."""

BESIDE = 1 << 22
"""Bytes from which a copy on one GPU is left to its copy engines, inside a batch beside transfers between GPUs."""

WIDE_ROW = 512
"""Rows of fewer bytes are copied by a kernel within a GPU."""

_ALWAYS_ACTIVE: AbstractContextManager[None] = nullcontext()
_PEER_ALREADY_ENABLED = 704


class Activation:
    """The block in which a GPU and a stream are current; puts back what was."""

    __slots__ = ("_device", "_stream")

    def __init__(self, device: AbstractContextManager[Any], stream: AbstractContextManager[Any]) -> None:
        self._device = device
        self._stream = stream

    def __enter__(self) -> None:
        self._device.__enter__()
        try:
            self._stream.__enter__()
        except BaseException:
            self._device.__exit__(None, None, None)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._stream.__exit__(kind, error, trace)
        finally:
            self._device.__exit__(kind, error, trace)


class _Switched:
    """The block in which a GPU is current: for one whose current stream is its compute stream already."""

    __slots__ = ("_before", "_ordinal", "_set")

    def __init__(self, setter: Callable[[int], object], before: int, ordinal: int) -> None:
        self._set = setter
        self._before = before
        self._ordinal = ordinal

    def __enter__(self) -> None:
        self._set(self._ordinal)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._set(self._before)


class CudaRuntime:
    """What the CUDA devices of one context share: streams, idle events, and which GPUs reach each other.

    Raises
    ------
    DeviceError
        Where CuPy or a GPU is missing.
    """

    def __init__(self) -> None:
        self.count, reason = gpu_report()
        if not self.count:
            raise DeviceError(no_gpu(reason))
        import cupy

        self.cupy: Any = cupy
        self.api: Any = cupy.cuda.runtime
        self.current = cupy.cuda.runtime.getDevice
        self._stream_of = cupy.cuda.get_current_stream
        # the null stream is one object for all GPUs: it means the one of the current GPU
        self.streams: dict[int, Any] = dict.fromkeys(range(self.count), cupy.cuda.Stream.null)
        self._events: dict[int, list[Any]] = {ordinal: [] for ordinal in range(self.count)}
        self._peers: set[tuple[int, int]] = set()
        self._reached: dict[tuple[int, int], bool] = {}
        self._lanes: dict[tuple[int, int], Any] = {}  # (to, from) → a stream for transfers between those GPUs
        self._batch: Batch | None = None
        # pinned host memory that nobody uses: where it is, its bytes, and its first number as one of each dtype that was asked for
        self._stages: list[tuple[int, npt.NDArray[np.uint8], dict[Any, npt.NDArray[Any]]]] = []
        self._staged: deque[tuple[int, Any, Any]] = deque()  # (ordinal, event, host memory that a GPU may still read)

    def on(self, ordinal: int) -> AbstractContextManager[Any]:
        """Makes a GPU and its compute stream current in a ``with`` block; free where they are already."""
        stream = self.streams[ordinal]
        before = self.current()
        current = self._stream_of(ordinal)
        if current is stream or current.ptr == stream.ptr:
            return _ALWAYS_ACTIVE if before == ordinal else _Switched(self.api.setDevice, before, ordinal)
        return Activation(self.cupy.cuda.Device(ordinal), stream)

    def event(self, ordinal: int) -> Any:
        """An event of a GPU, which must be current."""
        try:
            return self._events[ordinal].pop()
        except IndexError:
            return self.cupy.cuda.Event(disable_timing=True)

    def new_event(self, ordinal: int) -> Any:
        """An event of a GPU that its owner keeps."""
        with self._at(ordinal):
            return self.cupy.cuda.Event(disable_timing=True)

    def reuse(self, ordinal: int, event: object) -> None:
        """Gives an event back. A wait holds what was recorded when it was queued: recording again leaves it be."""
        self._events[ordinal].append(event)

    def order(self, first: int, first_stream: object, then: int, then_stream: object) -> None:
        """What is queued on `then_stream` from now on runs after all that is queued on `first_stream` now."""
        event = self.record(first, first_stream)
        self.wait(then, then_stream, event)
        self.reuse(first, event)

    def record(self, ordinal: int, stream: object) -> Any:
        """An event of a GPU, of what is queued on a stream of it now."""
        with self._at(ordinal):
            event = self.event(ordinal)
            event.record(stream)
        return event

    def wait(self, ordinal: int, stream: Any, event: object) -> None:  # CuPy's stream, which has no types
        """Let a stream of a GPU wait for an event, of any GPU."""
        with self._at(ordinal):
            stream.wait_event(event)

    def _at(self, ordinal: int) -> AbstractContextManager[Any]:
        before = self.current()
        return _ALWAYS_ACTIVE if before == ordinal else _Switched(self.api.setDevice, before, ordinal)

    def connect(self, ordinal: int, peer: int) -> None:
        """Lets two GPUs reach each other's memory, where the hardware can; copies go through the host otherwise."""
        for one, other in ((ordinal, peer), (peer, ordinal)):
            if (one, other) in self._peers:
                continue
            if self.api.deviceCanAccessPeer(one, other):
                with self._at(one):
                    try:
                        self.api.deviceEnablePeerAccess(other)
                    except self.api.CUDARuntimeError as error:
                        if error.status != _PEER_ALREADY_ENABLED:
                            raise
            self._peers.add((one, other))

    def reaches(self, ordinal: int, peer: int) -> bool:
        """Whether kernels of a GPU read what lies on another one."""
        found = self._reached.get((ordinal, peer))
        if found is None:
            found = ordinal == peer or bool(self.api.deviceCanAccessPeer(ordinal, peer))
            if ordinal != peer and found:
                self.connect(ordinal, peer)
            self._reached[ordinal, peer] = found
        return found

    def hold(self, ordinal: int, memory: object) -> None:
        """Keeps host memory alive until the work now queued on a GPU, which must be current, has read it."""
        event = self.event(ordinal)
        event.record(self.streams[ordinal])
        self._staged.append((ordinal, event, memory))
        while True:
            try:
                entry = self._staged.popleft()
            except IndexError:
                return
            if not entry[1].done:
                self._staged.appendleft(entry)
                return
            self.reuse(entry[0], entry[1])

    def _stage(self) -> tuple[int, npt.NDArray[np.uint8], dict[Any, npt.NDArray[Any]]]:
        """Pinned memory that nobody uses: where it is, its bytes, which keep it, and its first number."""
        try:
            return self._stages.pop()
        except IndexError:
            memory = self.cupy.cuda.alloc_pinned_memory(STAGE_BYTES)
            return memory.ptr, np.frombuffer(memory, np.uint8, STAGE_BYTES), {}

    def number(self, address: int, dtype: np.dtype[Any], ordinal: int) -> Any:
        """What stands at an address of a GPU, as a NumPy scalar: the shortest way to the host."""
        stage = self._stage()
        api = self.api
        if self.current() == ordinal:  # on the compute stream, and it waits
            api.memcpy(stage[0], address, dtype.itemsize, api.memcpyDeviceToHost)
        else:
            with self._at(ordinal):
                api.memcpy(stage[0], address, dtype.itemsize, api.memcpyDeviceToHost)
        first = stage[2].get(dtype)
        if first is None:
            first = stage[2][dtype] = stage[1][: dtype.itemsize].view(dtype)
        found = first[0]
        self._stages.append(stage)
        return found

    def numbers(self, addresses: Sequence[int], ordinals: Sequence[int], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """What stands at addresses, each of the GPU of that ordinal."""
        stage = self._stage()
        api, size, place = self.api, dtype.itemsize, stage[0]
        kind, last = api.memcpyDeviceToHost, len(addresses) - 1
        for i, (address, ordinal) in enumerate(zip(addresses, ordinals, strict=True)):
            waits = i == last or ordinal not in ordinals[i + 1 :]  # the last of each GPU waits for all before it
            with self._at(ordinal):
                if waits:
                    api.memcpy(place, address, size, kind)
                else:
                    api.memcpyAsync(place, address, size, kind, self.streams[ordinal].ptr)
            place += size
        found = stage[1][: len(addresses) * size].view(dtype).copy()
        self._stages.append(stage)
        return found

    def read(self, arrays: Sequence[Any], ordinals: Sequence[int]) -> list[npt.NDArray[Any]] | None:
        """Small arrays in C order as NumPy arrays of the host: copied to pinned memory one behind the other, with one wait for
        each GPU. None where they are others."""
        sizes = [-(-array.nbytes // 64) * 64 for array in arrays]
        ordered = [array.size == 1 or array.flags.c_contiguous for array in arrays]
        if sum(sizes) > STAGE_BYTES or not all(ordered):
            return None
        stage = self._stage()
        place = 0
        for array, ordinal, size in zip(arrays, ordinals, sizes, strict=True):
            if size:
                with self.on(ordinal):
                    kind, stream = self.api.memcpyDeviceToHost, self.streams[ordinal].ptr
                    self.api.memcpyAsync(stage[0] + place, array.data.ptr, array.nbytes, kind, stream)
            place += size
        for ordinal in set(ordinals):
            with self.on(ordinal):
                self.api.streamSynchronize(self.streams[ordinal].ptr)
        found = []
        place = 0
        for array, size in zip(arrays, sizes, strict=True):
            found.append(stage[1][place : place + array.nbytes].view(array.dtype).reshape(array.shape).copy())
            place += size
        self._stages.append(stage)
        return found

    def copy(self, dst: DeviceArray, to: int, src: DeviceArray, frm: int) -> None:
        """Copies between arrays of equal shape and dtype on the GPUs `to` and `frm`, on the compute stream of `to`.

        Straight into place where CUDA copies it as rows; else packed on the source, moved, and unpacked.
        """
        if not dst.size:
            return
        if to == frm:
            self._within(dst, src, to)
            return
        self.connect(to, frm)
        rows = rows_between(dst, src)
        if self._batch is not None and self._batch.copy(dst, to, src, frm, rows):
            return
        if rows is None and not src.flags.c_contiguous:
            with self.on(frm):
                src = self.cupy.ascontiguousarray(src)
            rows = rows_between(dst, src)
        self.order(frm, self.streams[frm], to, self.streams[to])
        with self.on(to):
            if rows is None:
                packed = self.cupy.empty(src.shape, src.dtype)
                self.move(packed, to, src, frm, rows_between(packed, src), self.streams[to])
                dst[...] = packed
            else:
                self.move(dst, to, src, frm, rows, self.streams[to])
        self.order(to, self.streams[to], frm, self.streams[frm])

    def _within(self, dst: DeviceArray, src: DeviceArray, ordinal: int) -> None:
        """A copy on one GPU: a large one inside a batch runs beside the transfers."""
        rows = rows_between(dst, src) if dst.nbytes >= BESIDE else None
        if rows is not None and rows.height > 1 and rows.width < WIDE_ROW:
            rows = None
        if rows is not None and self._batch is not None and self._batch.copy(dst, ordinal, src, ordinal, rows):
            return
        with self.on(ordinal):
            if rows is not None:
                self.move(dst, ordinal, src, ordinal, rows, self.streams[ordinal])
            elif not transposed_copy(self.cupy, dst, src):
                dst[...] = src

    def move(
        self,
        dst: DeviceArray,
        to: int,
        src: DeviceArray,
        frm: int,
        rows: Rows | None,
        stream: Any,  # CuPy's, which has no types
    ) -> None:
        """Queue a 2-d copy on a stream of the GPU `to`."""
        assert rows is not None
        api = self.api
        with self._at(to):
            if to == frm and rows.height > 1 and copied_rows(self.cupy, to, dst, src, rows, stream.ptr):
                return
            if rows.height > 1:
                api.memcpy2DAsync(
                    dst.data.ptr, rows.dst_pitch, src.data.ptr, rows.src_pitch, rows.width, rows.height,
                    api.memcpyDeviceToDevice, stream.ptr,
                )  # fmt: skip
            elif to == frm:
                api.memcpyAsync(dst.data.ptr, src.data.ptr, rows.width, api.memcpyDeviceToDevice, stream.ptr)
            else:
                api.memcpyPeerAsync(dst.data.ptr, to, src.data.ptr, frm, rows.width, stream.ptr)

    @contextmanager
    def independent(self) -> Iterator[None]:
        """Copies between GPUs inside the block do not wait for each other, so that links carry both ways at once.

        Nothing inside may compute on what another copy of the block brings. Not for several threads at once.
        """
        if self.count == 1:
            yield
            return
        with self.ahead() as arrived:
            yield
        arrived()

    @contextmanager
    def ahead(self) -> Iterator[Callable[[], None]]:
        """As `independent`; but compute streams wait for the copies only once what the block gives is called, as it has to be: work
        that is queued until then runs beside them. What they read and write has to live until then."""
        if self._batch is not None:
            yield _nothing
            return
        self._batch = batch = Batch(self)
        try:
            yield batch.close
            batch.flush()
        except BaseException:
            batch.close()
            raise
        finally:
            self._batch = None

    def lane(self, to: int, frm: int) -> Any:
        """The stream for transfers from one GPU into another."""
        if (to, frm) not in self._lanes:
            with self._at(to):
                self._lanes[to, frm] = self.cupy.cuda.Stream(non_blocking=True)
        return self._lanes[to, frm]


def _nothing() -> None:
    pass


class CudaDevice(Device):
    """A logical device on a GPU. Several may share one.

    Parameters
    ----------
    ordinal : int
        The GPU's number, as CUDA counts those visible to this process.
    runtime : CudaRuntime, optional
        Shared with the context's other CUDA devices; one of its own by default.

    Raises
    ------
    DeviceError
        Where CuPy or the GPU is missing.
    """

    kind = "cuda"

    def __init__(
        self,
        id: int,
        ordinal: int,
        *,
        process: int = 0,
        memory_limit: int | None = None,
        runtime: CudaRuntime | None = None,
    ) -> None:
        super().__init__(id, process=process, memory_limit=memory_limit)
        self.runtime = CudaRuntime() if runtime is None else runtime
        self.ordinal = as_int(ordinal, "a GPU's ordinal", 0, "number GPUs as CUDA does: 0, 1, 2, ...")
        if self.ordinal >= self.runtime.count:
            raise DeviceError(
                f"there is no GPU {self.ordinal}: this process sees {self.runtime.count}; pass an ordinal below that, "
                "or make more visible with CUDA_VISIBLE_DEVICES"
            )
        self._cupy = self.runtime.cupy
        self._idle = IdleArrays(self._cupy.cuda.memory.PooledMemory)
        self.dispose = self._idle.give  # type: ignore[method-assign]

    @cached_property
    def xp(self) -> Any:
        import array_api_compat.cupy as xp

        return xp

    @cached_property
    def lib(self) -> Any:
        return self._cupy

    @cached_property
    def lapack(self) -> CudaLapack:
        return CudaLapack()

    @property
    def stream(self) -> Any:
        """The compute stream: CuPy's null stream, of this GPU while this GPU is current."""
        return self.runtime.streams[self.ordinal]

    def room(self) -> int:
        """The bytes that chunks may still take: of the limit, and of the GPU's memory."""
        with self.active():
            free: int = self._cupy.cuda.runtime.memGetInfo()[0] + self._cupy.get_default_memory_pool().free_bytes()
        limit = super().room()
        return free if limit is None else min(free, limit)

    def empty(self, shape: Sequence[int], dtype: npt.DTypeLike, label: str = "") -> Chunk:
        dtype = np.dtype(dtype)
        shape = tuple(shape)
        if self.memory_limit is None and (idle := self._idle.take(shape, dtype)) is not None:
            chunk = Chunk(self, idle[0])
            chunk.address = idle[1]
            return chunk
        if dtype.char in "gG" and dtype.itemsize > 8 * (1 + (dtype.kind == "c")):
            narrow = "complex128" if dtype.kind == "c" else "float64"
            raise TypeError(f"GPUs have no {dtype.name}: use x.astype({narrow!r}), or devices of kind 'host'")
        if not dtype.isnative:
            raise TypeError(
                f"GPUs have no numbers of another byte order ({dtype.str}): use x.astype({dtype.newbyteorder('=').str[1:]!r})"
            )
        if dtype.kind in "mM" or dtype.names is not None:
            raise TypeError(
                f"GPUs have no {dtype}: use devices of kind 'host', or one array for each field, and x.view('int64')"
            )
        nbytes = prod(shape) * dtype.itemsize
        if self.memory_limit is not None:
            self.check(nbytes, label, shape, dtype)
            if (idle := self._idle.take(shape, dtype)) is not None:
                chunk = Chunk(self, idle[0])
                chunk.address = idle[1]
                return chunk
        try:
            with self.active():
                return Chunk(self, self._cupy.empty(shape, dtype))
        except self._cupy.cuda.memory.OutOfMemoryError as error:  # CuPy has emptied its pool and tried again
            raise self.memory_error(nbytes, label, shape, dtype) from error

    def fill(self, array: DeviceArray, value: object) -> None:
        # NumPy casts, as numpy.full does: CuPy's own rules for Python scalars have changed between versions
        scalar = np.full((), value, array.dtype)
        with self.active():
            if scalar == 0 and any(scalar.tobytes()):
                # ndarray.fill clears memory for whatever equals 0, and would lose the sign of -0.0
                source = self._cupy.empty((), array.dtype)
                self._upload(source, scalar)
                array[...] = source
            else:
                array.fill(scalar[()])

    def from_host(self, array: npt.ArrayLike, dtype: npt.DTypeLike | None = None, label: str = "") -> Chunk:
        source = np.asarray(array)
        chunk = self.empty(source.shape, source.dtype if dtype is None else dtype, label)
        self._upload(chunk.array, source)
        return chunk

    def _upload(self, dst: Any, source: npt.NDArray[Any]) -> None:
        """Copies host data to an array in C order. The source may change as soon as this returns."""
        if not dst.size:
            return
        ready = source.dtype == dst.dtype and source.flags.c_contiguous
        wait = dst.nbytes > STAGED_BYTES
        if not (ready and wait):
            source = np.array(source, dtype=dst.dtype, order="C")
        with self.active():
            dst.set(source)
            if wait:
                self.stream.synchronize()
            else:
                self.runtime.hold(self.ordinal, source)

    def to_host(self, array: Any) -> npt.NDArray[Any]:  # CuPy's or NumPy's
        if array.nbytes <= STAGE_BYTES and (found := self.runtime.read([array], [self.ordinal])) is not None:
            return found[0]
        result: npt.NDArray[Any] = np.empty(array.shape, array.dtype)
        if not array.size:
            return result
        with self.active():
            if array.nbytes <= STAGED_BYTES and array.flags.c_contiguous:
                # the call that CuPy's own ends in, which waits too
                address = result.__array_interface__["data"][0]
                self.runtime.api.memcpy(address, array.data.ptr, array.nbytes, self.runtime.api.memcpyDeviceToHost)
            else:
                array.get(out=result)
        return result

    def to_hosts(self, arrays: Sequence[Any], devices: Sequence[Device]) -> list[npt.NDArray[Any]]:
        ordinals = [device.ordinal for device in devices if isinstance(device, CudaDevice)]
        found = self.runtime.read(arrays, ordinals)
        return super().to_hosts(arrays, devices) if found is None else found

    def duplicate(self, chunk: Chunk) -> Chunk:
        """A copy of a chunk of this device, in C order as that one."""
        fresh = self.empty(chunk.array.shape, chunk.array.dtype, "a copy on write")
        with self.active():
            source = chunk.array
            kind = self.runtime.api.memcpyDeviceToDevice
            self.runtime.api.memcpyAsync(fresh.array.data.ptr, source.data.ptr, source.nbytes, kind, self.stream.ptr)
        return fresh

    def copy(self, dst_array: DeviceArray, src_array: DeviceArray, src_device: Device) -> None:
        self._match(dst_array, src_array, src_device)
        if isinstance(src_device, CudaDevice):
            self.runtime.copy(dst_array, self.ordinal, src_array, src_device.ordinal)
        elif dst_array.flags.c_contiguous:
            self._upload(dst_array, src_device.to_host(src_array))
        else:
            with self.active():
                packed = self._cupy.empty(dst_array.shape, dst_array.dtype)
                self._upload(packed, src_device.to_host(src_array))
                dst_array[...] = packed

    def from_foreign(self, array: DeviceArray, label: str = "") -> Chunk:
        """A chunk in C order with a copy of a user's CuPy array, from any GPU of the process and any stream.

        The copy waits for what the user's current stream on that GPU has queued, and that stream waits for the copy.
        """
        chunk = self.empty(array.shape, array.dtype, label)
        frm = int(array.device.id)
        ours = self.runtime.streams[frm]
        theirs = self._cupy.cuda.get_current_stream(frm)
        foreign = theirs.ptr != ours.ptr
        if foreign:
            self.runtime.order(frm, theirs, frm, ours)
        self.runtime.copy(chunk.array, self.ordinal, array, frm)
        if foreign:
            self.runtime.order(self.ordinal, self.stream, frm, theirs)
        return chunk

    def multiply(self, left: DeviceArray, right: DeviceArray, into: DeviceArray) -> None:
        if multiply_small(self._cupy, left, right, into):
            return
        if into.ndim != 2 or into.flags.c_contiguous or not multiply_rows(self._cupy, left, right, into):
            super().multiply(left, right, into)

    def active(self) -> AbstractContextManager[Any]:
        return self.runtime.on(self.ordinal)

    def independent(self) -> AbstractContextManager[None]:
        return self.runtime.independent()

    def ahead(self) -> AbstractContextManager[Callable[[], None]]:
        return self.runtime.ahead()

    def synchronize(self) -> None:
        with self.active():
            self.stream.synchronize()

    def owns(self, array: DeviceArray) -> bool:
        return isinstance(array, self._cupy.ndarray) and int(array.device.id) == self.ordinal
