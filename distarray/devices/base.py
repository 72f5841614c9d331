"""What a device is, so that every layer above can hold chunks and move them without knowing the array library.

A device is a place that holds chunks and computes on them. A chunk is one region's data on one device, and carries the
accounting: bytes count from the moment a chunk exists until it is collected, so that limits and peaks are exact without
anyone calling ``free``.

The counters take no lock. They change inside a finaliser, which the collector may run in any thread at almost any
point, also inside a block that holds the lock and in a forked child whose lock died with its holder: a lock there is a
deadlock waiting to happen. ``x += n`` on an attribute holds CPython's interpreter lock from the read to the store.

An interrupt (Ctrl-C) may stop a finaliser before its first line, so that its bytes stay counted. The truth is therefore
the chunks themselves: a device knows them weakly, and counts them anew where its count is read or would refuse room.
"""

from __future__ import annotations

import abc
import operator
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cached_property
from typing import Any
from weakref import WeakSet, ref

import numpy as np
import numpy.typing as npt

from distarray.devices.arrays import AnyDType, DeviceArray
from distarray.errors import DeviceError, DeviceMemoryError

__all__ = ["Alias", "Chunk", "Device", "arrays_of", "as_int", "bytes_text"]


def _nothing() -> None:
    pass


def bytes_text(nbytes: int) -> str:
    """A byte count for people: ``"1.5 GiB"``."""
    value = float(nbytes)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} TiB"


def as_int(value: object, name: str, least: int, fix: str) -> int:
    """`value` as an int of at least `least`; Python and NumPy integers pass, bools and floats do not.

    Raises
    ------
    DeviceError
        Naming the argument and what was given, and ending with `fix`.
    """
    if not isinstance(value, bool | np.bool_):
        try:
            number = operator.index(value)  # type: ignore[arg-type]
        except TypeError:
            pass
        else:
            if number >= least:
                return number
    raise DeviceError(f"{name} must be an integer of at least {least}, not {value!r}; {fix}")


class Chunk:
    """One region's data on one device.

    Attributes
    ----------
    device : Device
        Where the data lives; its ``allocated`` counts this chunk until the chunk is collected.
    array : array
        A plain NumPy or CuPy array.
    nbytes : int
        The bytes accounted: ``array.nbytes`` at construction.
    shared : bool
        Set, and never cleared, once a second storage holds this chunk: whoever writes copies first.
    place : int
        Its number among the chunks that were made at once (see `Device.empties`).
    address : int
        Where it lies, in C order and aligned; 0 where that is not known, -1 of arrays that lie otherwise.
    """

    __slots__ = ("__weakref__", "address", "array", "device", "nbytes", "place", "shared")

    array: Any
    device: Device
    nbytes: int
    place: int
    shared: bool
    address: int

    def __init__(self, device: Device, array: DeviceArray, place: int = 0) -> None:
        self.device = device
        self.place = place
        self.address = 0
        self.nbytes = nbytes = array.nbytes
        self.shared = False
        device.chunks[id(self)] = ref(self)
        # Counted and with an array, or neither: no interrupt and no other thread comes between lines without a call.
        device.count += nbytes
        self.array = array
        if device.count > device.peak:
            device.peak = device.count

    def __del__(self) -> None:
        try:
            array = self.array
        except AttributeError:  # the constructor was left before it counted anything
            return
        device = self.device
        # A weak reference in another thread may still revive the chunk here. Without its array that fails loudly,
        # where an array whose memory went back to a pool would be overwritten.
        del self.array
        device.count -= self.nbytes
        device.chunks.pop(id(self), None)
        device.dispose(self.nbytes, array, self.address)

    def counted(self) -> bool:
        """Whether its bytes are counted: it is neither being made nor ending."""
        return hasattr(self, "array")

    def __repr__(self) -> str:
        shared = ", shared" if self.shared else ""
        return f"Chunk({self.device.name}, shape={tuple(self.array.shape)}, dtype={self.array.dtype}{shared})"


def arrays_of(chunks: Iterable[Chunk | None]) -> list[Any]:
    """The arrays of chunks; None for those of other processes."""
    return [None if chunk is None else chunk.array for chunk in chunks]


class Alias(Chunk):
    """A chunk on another chunk's memory, or on a part of it, with a shape and dtype of its own. The other counts the bytes."""

    __slots__ = ("origin",)

    def __init__(self, origin: Chunk, array: DeviceArray) -> None:
        self.device, self.origin, self.array = origin.device, origin, array
        self.place, self.nbytes, self.shared, self.address = -1, 0, False, 0

    def __del__(self) -> None:
        pass


class Device(abc.ABC):
    """A place that holds chunks and computes on them.

    Parameters
    ----------
    id : int
        Unique over all processes.
    process : int
        The rank of the process that owns the device.
    memory_limit : int, optional
        The most bytes that chunks may hold here; None for no limit but the machine's.

    Attributes
    ----------
    allocated, peak : int
        Bytes that chunks hold now, and the most that they held since the start or since ``reset_peak()``.
    count, chunks
        For `Chunk` alone: the running count of bytes, and the chunks that live, by their ids.
    spares
        What holds chunks only to save work. Its `clear()` lets go of them where there is no room for others.
    """

    kind: str

    def __init__(self, id: int, *, process: int = 0, memory_limit: int | None = None) -> None:
        self.id = as_int(id, "a device's id", 0, "number devices 0, 1, 2, ...")
        self.process = as_int(process, "a device's process", 0, "pass the rank of the process that owns it")
        self.memory_limit = memory_limit
        if memory_limit is not None:
            self.memory_limit = as_int(memory_limit, "memory_limit", 1, "pass bytes, or None for no limit")
        self.count = 0
        self.peak = 0
        self.chunks: dict[int, ref[Chunk]] = {}
        self.spares: WeakSet[Any] = WeakSet()

    # -- identity

    @property
    def name(self) -> str:
        return f"{self.kind}:{self.id}"

    def __repr__(self) -> str:
        limit = "" if self.memory_limit is None else f", memory_limit={self.memory_limit}"
        return f"{type(self).__name__}({self.id}, process={self.process}{limit})"

    def __reduce__(self) -> Any:
        raise TypeError(f"device {self.name} belongs to this process and cannot be pickled or copied; pass its id")

    @cached_property
    @abc.abstractmethod
    def xp(self) -> Any:
        """The array API namespace of this device's arrays (array-api-compat's)."""

    @cached_property
    @abc.abstractmethod
    def lib(self) -> Any:
        """The array library itself: the module ``numpy`` or ``cupy``."""

    @cached_property
    @abc.abstractmethod
    def lapack(self) -> Any:
        """The steps of linear algebra that the libraries' LAPACKs do differently: see ``lapack``."""

    # -- accounting

    @property
    def allocated(self) -> int:
        """Bytes that chunks hold now, summed over those that live: an interrupt may have left the running count wrong."""
        for _ in range(8):  # anew where another thread makes or ends a chunk meanwhile
            before = self.count
            held = 0
            for key, weak in list(self.chunks.items()):
                chunk = weak()
                if chunk is None:
                    with suppress(KeyError):
                        if self.chunks[key] is weak:  # no call between: the id may soon be another chunk's
                            del self.chunks[key]
                elif chunk.counted():
                    held += chunk.nbytes
            chunk = None
            if self.count == before:
                self.count = held
                return held
        return self.count

    def dispose(self, nbytes: int, array: DeviceArray, address: int) -> None:  # noqa: B027 - nothing to do where arrays free themselves
        """Disposes of the array of a chunk that ends."""

    def reset_peak(self) -> None:
        self.peak = self.allocated

    def check(self, nbytes: int, label: str, shape: Sequence[int], dtype: AnyDType) -> None:
        """Refuses `nbytes` more where they would pass the limit.

        Raises
        ------
        DeviceMemoryError
        """
        limit = self.memory_limit
        if limit is not None and self.count + nbytes > limit and self.allocated + nbytes > limit:
            self.relieve()
            if self.allocated + nbytes > limit:
                raise self.memory_error(nbytes, label, shape, dtype)

    def room(self) -> int | None:
        """The bytes that chunks may still take; None where nothing is known to limit them."""
        return None if self.memory_limit is None else self.memory_limit - self.allocated

    def relieve(self) -> None:
        """Lets go of the chunks that are held only to save work."""
        for spare in list(self.spares):
            spare.clear()
        self.spares.clear()

    def memory_error(self, nbytes: int, label: str, shape: Sequence[int], dtype: AnyDType) -> DeviceMemoryError:
        """The error of an allocation that does not fit, to be raised."""
        what = f"{label} " if label else ""
        limit = "none" if self.memory_limit is None else bytes_text(self.memory_limit)
        return DeviceMemoryError(
            f"cannot allocate {what}(shape {tuple(shape)}, dtype {dtype}) on device {self.id} ({self.kind}): "
            f"{bytes_text(nbytes)} asked, {bytes_text(self.allocated)} in use, limit {limit}; delete arrays that are "
            "no longer needed, spread the array over more devices, or raise the limit with da.init(memory_limit=...)"
        )

    # -- chunks

    @abc.abstractmethod
    def empty(self, shape: Sequence[int], dtype: npt.DTypeLike, label: str = "") -> Chunk:
        """A chunk of uninitialised memory in C order; `label` names it in the error.

        Raises
        ------
        DeviceMemoryError
            Before anything is allocated, where the limit would be passed; or where the machine has no memory left.
        """

    def empties(self, shapes: Sequence[Sequence[int]], dtype: npt.DTypeLike, label: str = "") -> list[Chunk]:
        """Chunks of uninitialised memory in C order, one for each shape.

        Raises
        ------
        DeviceMemoryError
        """
        return [self.empty(shape, dtype, label) for shape in shapes]

    def joined(self, chunks: Sequence[Chunk]) -> Any:
        """The elements of chunks as one flat array, in their order, without a copy; None where they do not lie so.

        What `empties` made on the host does: many small chunks then cost one call of the library.
        """
        return None

    def rows(self, arrays: Sequence[Any]) -> Any:
        """The arrays of chunks that `empties` made together as a few matrices, a flat row for each, in their order and without
        a copy; None where they do not lie so."""
        return None

    def full(self, shape: Sequence[int], dtype: npt.DTypeLike, value: object, label: str = "") -> Chunk:
        """A chunk whose every element is `value`, cast to `dtype` as ``numpy.full`` casts it."""
        chunk = self.empty(shape, dtype, label)
        self.fill(chunk.array, value)
        return chunk

    @abc.abstractmethod
    def fill(self, array: DeviceArray, value: object) -> None:
        """Sets every element of `array`, which may be strided, to the scalar `value`."""

    def adopt(self, array: DeviceArray, label: str = "") -> Chunk:
        """A chunk around an array that a function of the array library returned. Nothing is copied.

        The limit is checked after the fact: the array exists already, and is dropped where it is refused.

        Raises
        ------
        DeviceMemoryError
        """
        if self.memory_limit is not None:
            self.check(array.nbytes, label, array.shape, array.dtype)
        return Chunk(self, array)

    def part_of(self, chunk: Chunk, low: int, high: int) -> Chunk:
        """A chunk of some of another's rows, in the same memory; the other is not used any more."""
        return Chunk(self, chunk.array[low:high])

    @abc.abstractmethod
    def from_host(self, array: npt.ArrayLike, dtype: npt.DTypeLike | None = None, label: str = "") -> Chunk:
        """A chunk in C order with a copy of host data, cast to `dtype`. The source may change after the call."""

    @abc.abstractmethod
    def from_foreign(self, array: DeviceArray, label: str = "") -> Chunk:
        """A chunk in C order with a copy of an array of this device's library that a user holds.

        The user may write to it after the call: on a GPU the copy is ordered with the user's current stream.
        """

    @abc.abstractmethod
    def to_host(self, array: DeviceArray) -> npt.NDArray[Any]:
        """A fresh NumPy array in C order with this device's `array`. Waits for the work that the array depends on."""

    def to_hosts(self, arrays: Sequence[Any], devices: Sequence[Device]) -> list[npt.NDArray[Any]]:
        """As `to_host`, of several arrays: each is on the device beside it, of the kind of this one."""
        return [device.to_host(array) for array, device in zip(arrays, devices, strict=True)]

    @abc.abstractmethod
    def copy(self, dst_array: DeviceArray, src_array: DeviceArray, src_device: Device) -> None:
        """Copies `src_array`, on `src_device` of the same process, to `dst_array`, on this device.

        Both may be strided views; their shapes and dtypes are equal. Work queued before on either device comes first,
        and work queued later on either device comes after; the host does not wait between GPUs.
        """

    def multiply(self, left: DeviceArray, right: DeviceArray, into: DeviceArray) -> None:
        """``into = left @ right``, of matrices or stacks of them, of one dtype, while the device is active."""
        self.lib.matmul(left, right, out=into)

    # -- running

    @abc.abstractmethod
    def active(self) -> AbstractContextManager[Any]:
        """Makes the device and its compute stream current inside a ``with`` block."""

    def independent(self) -> AbstractContextManager[None]:
        """A block of copies, on all devices of the context, of which none needs what another brings."""
        return nullcontext()

    def ahead(self) -> AbstractContextManager[Callable[[], None]]:
        """As `independent`, but the copies need to be there only once what the block gives has been called, as it has to be: work
        that is queued until then runs beside them."""
        return nullcontext(_nothing)

    @abc.abstractmethod
    def synchronize(self) -> None:
        """Waits until all work queued on the device is done."""

    def shares_memory(self, other: Device) -> bool:
        """Whether this device computes on the other's arrays as they are: one host, or one physical GPU."""
        same = other.kind == self.kind and other.process == self.process
        return same and getattr(other, "ordinal", None) == getattr(self, "ordinal", None)

    @abc.abstractmethod
    def owns(self, array: DeviceArray) -> bool:
        """Whether `array` is of this device's library and lies in its physical memory."""

    def _match(self, dst_array: DeviceArray, src_array: DeviceArray, src_device: Device) -> None:
        """Refuses a copy between arrays that do not match: broadcasting or casting here would hide a wrong plan."""
        if dst_array.shape != src_array.shape or dst_array.dtype != src_array.dtype:
            raise DeviceError(
                f"cannot copy shape {src_array.shape}, dtype {src_array.dtype} to shape {dst_array.shape}, dtype "
                f"{dst_array.dtype} on device {self.id}; pass views of equal shape and dtype"
            )
        if src_device.process != self.process:
            raise DeviceError(
                f"cannot copy from device {src_device.id} of process {src_device.process} to device {self.id} of "
                f"process {self.process}; send it through a communicator"
            )
