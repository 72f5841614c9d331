"""Backend "nccl": the process group on arrays of a GPU, and what its arrays become for NCCL.

NCCL knows no bool, 16-bit integers or complex numbers. They move as bytes or as twice the real numbers; bool reduces as
bytes of 0 and 1 with maximum for *or* and minimum for *and*, 16-bit integers in 32 bits, whose low half is the 16-bit
result, and complex sums are sums of their parts.

A call with nothing unusual about it, CuPy arrays of a type that NCCL knows, has a short way of its own in `all_reduce`:
it costs little more than NCCL's own function.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from distarray.comm.base import Signature
from distarray.comm.deadlines import collective_timeout
from distarray.comm.nccl.binding import OP, TYPE, Calls, find_binding
from distarray.comm.nccl.communicator import NcclCommunicator
from distarray.devices.arrays import DeviceArray
from distarray.devices.cuda import Activation
from distarray.groups import buffers
from distarray.groups.base import ProcessGroup
from distarray.groups.buffers import GroupArray, Stream, View
from distarray.groups.mpi_calls import MpiWire, connect_mpi
from distarray.rendezvous.control import StoreControl, store_control

__all__ = ["Messages", "NcclEngine", "NcclGroup", "stream_address"]

Messages: TypeAlias = Sequence[tuple[int, Any]]
"""Contiguous arrays, each with the process that it goes to or comes from."""

WIDE = {"int16": "int32", "uint16": "uint32"}
PARTS = {"complex64": "float32", "complex128": "float64"}


class Folding(NamedTuple):
    """How NCCL reduces a data type: its number, numbers an element, the operation, and a type to convert to first."""

    type: int
    factor: int
    op: int
    wide: str


def plan_of(dtype: np.dtype[Any], op: str) -> Folding:
    name = dtype.name
    if name == "bool":
        return Folding(TYPE["uint8"], 1, OP["max" if op in ("sum", "max") else "min"], "")
    if name in WIDE:
        return Folding(TYPE[WIDE[name]], 1, OP[op], WIDE[name])
    if name in PARTS:
        return Folding(TYPE[PARTS[name]], 2, OP[op], "")
    return Folding(TYPE[name], 1, OP[op], "")


def stream_address(stream: object) -> int:
    """A stream's address: CuPy's and cuda.core's streams, PyTorch's, or the number itself."""
    if isinstance(stream, int):
        return stream
    for attribute in ("ptr", "cuda_stream", "handle"):
        if hasattr(stream, attribute):
            return int(getattr(stream, attribute))
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    raise TypeError(
        f"stream is a {type(stream).__name__}; a CUDA stream is needed, such as cupy.cuda.Stream(), or None"
    )


class NcclEngine(ProcessGroup):
    """The dense collectives on NCCL, for a communicator over processes and for one of `init_all` alike."""

    device: int
    calls: Calls

    def _prepare(self, calls: Calls, device: int) -> None:
        import cupy

        self._cupy: Any = cupy
        self._ndarray: Any = cupy.ndarray
        self._stream: Callable[[], Any] = cupy.cuda.get_current_stream
        self.calls = calls
        self.device = device
        self._plans: dict[tuple[np.dtype[Any], str], Folding] = {}

    @abc.abstractmethod
    def _call(self, issue: Callable[[], Any], key: Any, stream: int, operation: str) -> None:
        """Make an NCCL call, with what watches over it; `issue` holds the arrays."""

    # ---- collectives

    def _view(self, value: GroupArray, name: str, write: bool, stream: Stream) -> View:
        if isinstance(value, self._ndarray):
            return buffers.as_view(buffers.device_array(value, name, self.device, write=write), name)
        with self._on(self._address_of(stream)):  # DLPack orders the owner's stream with the current one
            return buffers.as_view(buffers.device_array(value, name, self.device, write=write), name)

    def _all_reduce(self, src: View, dst: View, op: str, stream: Stream) -> None:
        plan, where = self._plan(src.dtype, op), self._address_of(stream)
        source, target, finish = self._widened(plan, src.flat, dst.flat, where)
        n = source.size * plan.factor
        self._call(
            lambda: self.calls.all_reduce(source.data.ptr, target.data.ptr, n, plan.type, plan.op, where),
            self._key("all_reduce", n),
            where,
            "all_reduce",
        )
        self._finish(finish)

    def _reduce(self, src: View, dst: View | None, op: str, root: int, stream: Stream) -> None:
        plan, where = self._plan(src.dtype, op), self._address_of(stream)
        source, target, finish = self._widened(plan, src.flat, None if dst is None else dst.flat, where)
        n = source.size * plan.factor
        into = source if target is None else target
        self._call(
            lambda: self.calls.reduce(source.data.ptr, into.data.ptr, n, plan.type, plan.op, root, where),
            self._key("reduce", n, root),
            where,
            "reduce",
        )
        self._finish(finish)

    def _broadcast(self, view: View, root: int, stream: Stream) -> None:
        where, array, n = self._address_of(stream), view.array, view.array.nbytes
        self._call(
            lambda: self.calls.broadcast(array.data.ptr, array.data.ptr, n, TYPE["uint8"], root, where),
            self._key("broadcast", n, root),
            where,
            "broadcast",
        )

    def _reduce_scatter(self, src: View, dst: View, count: int, op: str, stream: Stream) -> None:
        plan, where = self._plan(src.dtype, op), self._address_of(stream)
        source, target, finish = self._widened(plan, src.flat[: count * self.size], dst.flat[:count], where)
        n = count * plan.factor
        self._call(
            lambda: self.calls.reduce_scatter(source.data.ptr, target.data.ptr, n, plan.type, plan.op, where),
            self._key("reduce_scatter", n),
            where,
            "reduce_scatter",
        )
        self._finish(finish)

    def _all_gather(self, src: View, dst: View, count: int, stream: Stream) -> None:
        where, n = self._address_of(stream), count * src.dtype.itemsize
        source, target = src.array, dst.array
        self._call(
            lambda: self.calls.all_gather(source.data.ptr, target.data.ptr, n, TYPE["uint8"], where),
            self._key("all_gather", n),
            where,
            "all_gather",
        )

    def _send(self, view: View, peer: int, stream: Stream) -> None:
        self._messages([(peer, view.array)], [], self._address_of(stream), "send")

    def _recv(self, view: View, peer: int, stream: Stream) -> None:
        self._messages([], [(peer, view.array)], self._address_of(stream), "recv")

    def _exchange(
        self,
        sends: Sequence[tuple[int, Any]],
        receives: Sequence[tuple[int, Any]],
        operation: str,
        stream: Stream,
        part: View | None = None,
        root: int = -1,
    ) -> None:
        where = self._address_of(stream)
        inner = [array for peer, array in sends if peer == self.rank]
        with self._on(where):
            for target, source in zip((array for peer, array in receives if peer == self.rank), inner):
                target[...] = source
        outgoing = [(peer, array) for peer, array in sends if peer != self.rank and array.nbytes]
        incoming = [(peer, array) for peer, array in receives if peer != self.rank and array.nbytes]
        if outgoing or incoming:
            self._messages(outgoing, incoming, where, operation)

    @abc.abstractmethod
    def _messages(self, sends: Messages, receives: Messages, stream: int, operation: str) -> None:
        """Make one round of messages, each a peer and a contiguous array."""

    def _address(self, array: DeviceArray) -> int:
        return int(array.data.ptr)

    def _libraries(self) -> tuple[Any, Any]:
        import cupyx.scipy.sparse

        return self._cupy, cupyx.scipy.sparse

    # ---- helpers

    def _plan(self, dtype: np.dtype[Any], op: str) -> Folding:
        plan = self._plans.get((dtype, op))
        if plan is None:
            # NCCL averages one rank's data wrongly where the count is odd (2.28.9 left the last elements 0)
            plan = self._plans[dtype, op] = plan_of(dtype, "sum" if op == "avg" and self.size == 1 else op)
        return plan

    def _key(self, *facts: Any) -> tuple[Any, ...]:
        """What calls have in common that share NCCL's connections: those depend on its algorithm, and that on the size."""
        return tuple(fact.bit_length() if i == 1 else fact for i, fact in enumerate(facts))

    def _address_of(self, stream: Stream) -> int:
        return int(self._stream().ptr) if stream is None else stream_address(stream)

    def _at(self, stream: Stream) -> AbstractContextManager[Any]:
        return self._on(self._address_of(stream))

    def _on(self, stream: int) -> AbstractContextManager[Any]:
        """A block in which this GPU and a stream are current."""
        current = self._cupy.cuda.Stream.null if stream == 0 else _external(self._cupy, stream)
        return Activation(self._cupy.cuda.Device(self.device), current)

    def _widened(
        self, plan: Folding, source: DeviceArray, target: DeviceArray | None, stream: int
    ) -> tuple[Any, Any, Callable[[], None] | None]:
        """The arrays that NCCL gets, and how the result comes into `target` where they are others."""
        if not plan.wide:
            return source, target, None
        with self._on(stream):
            wide = source.astype(plan.wide)
            if target is None:
                return wide, None, None
            result = self._cupy.empty(target.size, plan.wide)

        def finish() -> None:
            with self._on(stream):
                target[...] = result.astype(target.dtype)  # wraps, as sums and products in 16 bits do

        return wide, result, finish

    def _finish(self, finish: Callable[[], None] | None) -> None:
        if finish is not None:
            self._later(finish)


def _external(cupy: ModuleType, address: int) -> Any:
    """A stream made elsewhere; newer CuPy takes any object that speaks the CUDA stream protocol."""
    if not hasattr(cupy.cuda.Stream, "from_external"):
        return cupy.cuda.ExternalStream(address)
    return cupy.cuda.Stream.from_external(_Address(address))


class _Address:
    """A stream's address, in the CUDA stream protocol."""

    def __init__(self, address: int) -> None:
        self._address = address

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._address


class NcclGroup(NcclEngine):
    """A process group on the GPU that is current when it is made; see `ProcessGroup`.

    Attributes
    ----------
    device : int
        The GPU.
    communicator : NcclCommunicator
        What carries it; ``communicator.wait(stream)`` waits on the host with the deadline.
    """

    def __init__(self, n_devices: int, rank: int, host: str, port: int, *, use_mpi: bool) -> None:
        find_binding()
        deadline = collective_timeout()
        control: StoreControl | MpiWire
        if use_mpi:
            control = connect_mpi(n_devices, rank, deadline)
        else:
            control = store_control(n_devices, rank, host, port, deadline)
        try:
            self.communicator = NcclCommunicator(control)
        except BaseException as error:
            if not isinstance(error, Exception):  # an interrupt: wait for nobody
                control.report(error)
                control.abort(f"{type(error).__name__}: {error}")
            control.close()  # the others have the same error, or were told of it
            raise
        self._control = control
        self.rank, self.size = rank, n_devices
        self.deadline = deadline
        self._prepare(self.communicator.calls, self.communicator.device)
        self.met = self.communicator.met
        self._get_device: Callable[[], int] = self._cupy.cuda.runtime.getDevice

    def all_reduce(
        self,
        in_array: Any,  # CuPy's, or of any library
        out_array: Any,  # as `in_array`
        op: str = "sum",
        stream: Stream = None,
    ) -> None:
        if type(in_array) is type(out_array) is self._ndarray and not self.communicator.broken:
            dtype = in_array.dtype
            plan = self._plans.get((dtype, op))
            src, dst = in_array.data, out_array.data
            if (
                plan is not None
                and not plan.wide
                and out_array.dtype == dtype
                and in_array.shape == out_array.shape
                and in_array._c_contiguous
                and out_array._c_contiguous
                and src.device_id == dst.device_id == self.device
            ):
                n = in_array.size * plan.factor
                p, q = src.ptr, dst.ptr
                if (
                    n
                    and (self.size == 1 or ("all_reduce", n.bit_length()) in self.met)
                    and (p == q or abs(p - q) >= in_array.nbytes)
                ):
                    where = self._stream().ptr if stream is None else stream_address(stream)
                    if self._get_device() == self.device:
                        try:
                            self.calls.all_reduce(p, q, n, plan.type, plan.op, where)
                        except self.communicator.binding.errors as error:
                            raise self.communicator.lost(f"'all_reduce' failed in NCCL: {error}") from error
                        return
        super().all_reduce(in_array, out_array, op, stream)

    def barrier(self) -> None:
        self._usable()
        self._control.barrier(Signature("barrier"))

    def stop(self) -> None:
        self.communicator.close()

    def _abandon(self, error: BaseException) -> None:
        self._control.report(error)
        self.communicator.abort(f"this process left with {type(error).__name__}: {error}")

    def _call(self, issue: Callable[[], Any], key: Any, stream: int, operation: str) -> None:
        self._usable()
        if not key[1]:  # no elements, on any process
            return
        communicator = self.communicator
        communicator.sequence += 1
        call = communicator.record.begin(communicator.sequence, "collective", Signature(operation))
        communicator.call(issue, key, stream, operation)
        call.finish("queued")

    def _messages(self, sends: Messages, receives: Messages, stream: int, operation: str) -> None:
        self._usable()
        communicator = self.communicator
        communicator.sequence += 1
        call = communicator.record.begin(communicator.sequence, "messages", Signature(operation))
        outgoing = [(peer, array.data.ptr, array.nbytes) for peer, array in sends]
        incoming = [(peer, array.data.ptr, array.nbytes) for peer, array in receives]
        communicator.point_to_point(outgoing, incoming, stream, operation)
        call.finish("queued")

    def _post(self, peer: int, payload: bytes) -> None:
        self._control.post(peer, payload)

    def _fetch(self, peer: int) -> bytes:
        return self._control.fetch(peer)

    def _usable(self) -> None:
        self.communicator._usable()
