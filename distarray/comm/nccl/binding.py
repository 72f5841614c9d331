"""The two ways to call NCCL from Python, behind one small surface: nccl4py where it is installed, else CuPy's own.

nccl4py gives what a safe time-out needs. Set-up runs on a non-blocking communicator, which can be watched and aborted;
calls run on a blocking child of it, made by split, since NCCL starts a thread for each call of a non-blocking one. Calls
go to nccl4py's low-level functions with plain integers: its documented methods cost 28 µs a call, these under 6.

CuPy's binding has neither configuration nor a way to stop a set-up: that runs in a thread which is left behind at the
deadline, and so is every call that may make a new connection.
"""

from __future__ import annotations

import abc
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from distarray.devices.gpus import gpu_report, no_gpu

__all__ = ["OP", "TYPE", "Binding", "Calls", "InProgress", "find_binding", "needs_nccl4py"]

TYPE = {
    "int8": 0, "uint8": 1, "int32": 2, "uint32": 3, "int64": 4, "uint64": 5, "float16": 6, "float32": 7, "float64": 8,
    "bfloat16": 9,
}  # fmt: skip
"""NCCL's numbers of its data types (ncclDataType_t), which are part of its ABI."""
OP = {"sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4}

IN_PROGRESS = 7
VARIABLE = "DISTARRAY_NCCL_BINDING"


class InProgress(Exception):
    """A non-blocking step of NCCL did not end by its deadline."""


class Calls(abc.ABC):
    """One communicator's functions, on addresses, counts and NCCL's numbers. Streams are addresses, 0 the default one."""

    all_reduce: Callable[[int, int, int, int, int, int], Any]  # send, receive, count, type, op, stream
    reduce: Callable[[int, int, int, int, int, int, int], Any]  # send, receive, count, type, op, root, stream
    broadcast: Callable[[int, int, int, int, int, int], Any]  # send, receive, count, type, root, stream
    reduce_scatter: Callable[[int, int, int, int, int, int], Any]  # send, receive, count received, type, op, stream
    all_gather: Callable[[int, int, int, int, int], Any]  # send, receive, count sent, type, stream
    send: Callable[[int, int, int, int, int], Any]  # address, count, type, peer, stream
    recv: Callable[[int, int, int, int, int], Any]

    @abc.abstractmethod
    def async_error(self) -> str:
        """What went wrong since, or ""."""

    @abc.abstractmethod
    def split(self, color: int | None, key: int, due: float) -> Calls | None:
        """The communicator of the ranks with this color; None for those without one. All ranks call it."""

    @abc.abstractmethod
    def shrink(self, exclude: Sequence[int], due: float) -> Calls:
        """The communicator without these ranks, after `abort_calls`; the others call it."""

    @abc.abstractmethod
    def finalize(self) -> None: ...

    @abc.abstractmethod
    def destroy(self) -> None: ...

    @abc.abstractmethod
    def abort(self) -> None:
        """Stop what runs on the GPU and free the communicator, without the other ranks."""

    @abc.abstractmethod
    def abort_calls(self) -> None:
        """The same for what carries calls, keeping what `shrink` needs."""


class Binding(abc.ABC):
    """How NCCL is called in this process."""

    name: str
    version: int
    stoppable: bool  # whether a set-up can be aborted
    splits_in_blocks: bool  # whether the communicators of one process can be split
    errors: tuple[type[BaseException], ...]
    group_start: Callable[[], Any]
    group_end: Callable[[], Any]

    @abc.abstractmethod
    def unique_id(self) -> bytes: ...

    @abc.abstractmethod
    def connect(self, size: int, rank: int, unique_id: bytes, due: float) -> Calls:
        """Join a communicator on the current GPU; InProgress at the deadline."""

    @abc.abstractmethod
    def connect_all(self, devices: list[int]) -> list[Calls]:
        """A communicator for each GPU of this process."""


class _LowLevel(Calls):
    """On nccl4py: `life` is the non-blocking communicator, `hot` its blocking child; one and the same after init_all."""

    def __init__(self, binding: _Nccl4py, life: Any, hot: Any) -> None:
        self._binding, self._life, self._hot = binding, life, hot
        low, comm = binding.low, hot._comm
        all_reduce, reduce, broadcast = low.all_reduce, low.reduce, low.broadcast
        reduce_scatter, all_gather, send, recv = low.reduce_scatter, low.all_gather, low.send, low.recv
        self.all_reduce = lambda s, r, n, t, op, stream: all_reduce(s, r, n, t, op, comm, stream)
        self.reduce = lambda s, r, n, t, op, root, stream: reduce(s, r, n, t, op, root, comm, stream)
        self.broadcast = lambda s, r, n, t, root, stream: broadcast(s, r, n, t, root, comm, stream)
        self.reduce_scatter = lambda s, r, n, t, op, stream: reduce_scatter(s, r, n, t, op, comm, stream)
        self.all_gather = lambda s, r, n, t, stream: all_gather(s, r, n, t, comm, stream)
        self.send = lambda p, n, t, peer, stream: send(p, n, t, peer, comm, stream)
        self.recv = lambda p, n, t, peer, stream: recv(p, n, t, peer, comm, stream)

    def async_error(self) -> str:
        for comm in {id(self._hot): self._hot, id(self._life): self._life}.values():
            if comm.is_valid:
                status = int(comm.get_async_error())
                if status not in (0, IN_PROGRESS):
                    return f"{self._binding.low.get_error_string(status)} ({comm.get_last_error()})"
        return ""

    def split(self, color: int | None, key: int, due: float) -> Calls | None:
        child = self._life.split(color, key)
        if self._life is self._hot:  # made by init_all: blocking, inside a group that ends later
            return None if color is None else _Deferred(self._binding, child)
        self._binding.wait(self._life, due)
        if color is None:
            return None
        self._binding.wait(child, due)
        return self._binding.with_calls(child, key, due)

    def shrink(self, exclude: Sequence[int], due: float) -> Calls:
        child = self._life.shrink(list(exclude), self._binding.core.NCCLConfig(blocking=False))
        self._binding.wait(self._life, due)
        self._binding.wait(child, due)
        return self._binding.with_calls(child, 0, due)

    def finalize(self) -> None:
        for comm in self._both():
            comm.finalize()

    def destroy(self) -> None:
        for comm in self._both():
            comm.destroy()

    def abort(self) -> None:
        for comm in self._both():
            comm.abort()

    def abort_calls(self) -> None:
        if self._hot is not self._life and self._hot.is_valid:
            self._hot.abort()

    def _both(self) -> list[Any]:
        """The child first."""
        found = [self._hot] if self._hot is self._life else [self._hot, self._life]
        return [comm for comm in found if comm.is_valid]


class _Deferred(_LowLevel):
    """A child whose handle NCCL fills in when the group around its split ends: nccl4py's object is one cell for it."""

    def __init__(self, binding: _Nccl4py, child: Any) -> None:
        super().__init__(binding, child, child)


class _Nccl4py(Binding):
    name = "nccl4py"
    splits_in_blocks = True
    stoppable = True

    def __init__(self) -> None:
        import nccl.core
        from nccl.bindings import nccl as low

        self.core: Any = nccl.core
        self.low: Any = low
        self.version = int(low.get_version())
        self.errors = (low.NCCLError,)
        self.group_start, self.group_end = low.group_start, low.group_end

    def unique_id(self) -> bytes:
        return bytes(self.core.get_unique_id())

    def connect(self, size: int, rank: int, unique_id: bytes, due: float) -> Calls:
        core = self.core
        uid = core.UniqueId.from_bytes(bytearray(unique_id))
        life = core.Communicator.init(size, rank, uid, core.NCCLConfig(blocking=False))
        self.wait(life, due)
        return self.with_calls(life, rank, due)

    def with_calls(self, life: Any, key: int, due: float) -> Calls:
        """Give a non-blocking communicator its blocking child."""
        hot = life.split(0, key, self.core.NCCLConfig(blocking=True))
        self.wait(life, due)
        return _LowLevel(self, life, hot)

    def wait(self, comm: Any, due: float) -> None:
        """Watch a non-blocking step end; abort it at the deadline or where it fails."""
        pause = 1e-4
        while (status := int(comm.get_async_error())) == IN_PROGRESS:
            if time.monotonic() > due:
                comm.abort()
                raise InProgress
            time.sleep(pause)
            pause = min(2 * pause, 5e-3)
        if status:
            comm.abort()
            raise self.low.NCCLError(status)

    def connect_all(self, devices: list[int]) -> list[Calls]:
        return [_LowLevel(self, comm, comm) for comm in self.core.Communicator.init_all(devices)]


class _CupyCalls(Calls):
    """On cupy.cuda.nccl, whose methods have these very arguments."""

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        self.all_reduce, self.reduce, self.broadcast = comm.allReduce, comm.reduce, comm.broadcast
        self.reduce_scatter, self.all_gather, self.send, self.recv = (
            comm.reduceScatter,
            comm.allGather,
            comm.send,
            comm.recv,
        )

    def async_error(self) -> str:
        try:
            self._comm.check_async_error()
        except Exception as error:
            return str(error)
        return ""

    def split(self, color: int | None, key: int, due: float) -> Calls | None:
        if not hasattr(self._comm, "commSplit"):
            raise needs_nccl4py("split")
        child = self._comm.commSplit(-1 if color is None else color, key)
        if child is None and color is not None:  # inside a group CuPy returns before NCCL has made it
            raise needs_nccl4py("split")
        return None if color is None else _CupyCalls(child)

    def shrink(self, exclude: Sequence[int], due: float) -> Calls:
        raise needs_nccl4py("shrink")

    def finalize(self) -> None:
        """NCCL's destroy finalizes."""

    def destroy(self) -> None:
        self._comm.destroy()

    def abort(self) -> None:
        self._comm.abort()

    def abort_calls(self) -> None:
        self._comm.abort()


class _Cupy(Binding):
    name = "cupy.cuda.nccl"
    splits_in_blocks = False
    stoppable = False

    def __init__(self) -> None:
        from cupy.cuda import nccl

        self.nccl: Any = nccl
        self.version = int(nccl.get_version())
        self.errors = (nccl.NcclError,)
        self.group_start, self.group_end = nccl.groupStart, nccl.groupEnd

    def unique_id(self) -> bytes:
        uid = self.nccl.get_unique_id()
        return uid if isinstance(uid, bytes) else bytes(byte & 255 for byte in uid)

    def connect(self, size: int, rank: int, unique_id: bytes, due: float) -> Calls:
        uid: Any = unique_id
        if not isinstance(self.nccl.get_unique_id(), bytes):  # before CuPy 14: a tuple of C chars
            uid = tuple(byte - 256 if byte > 127 else byte for byte in unique_id)
        return _CupyCalls(self.nccl.NcclCommunicator(size, uid, rank))

    def connect_all(self, devices: list[int]) -> list[Calls]:
        return [_CupyCalls(comm) for comm in self.nccl.NcclCommunicator.initAll(devices)]


def needs_nccl4py(what: str) -> RuntimeError:
    return RuntimeError(f"{what} needs nccl4py, and NCCL is called through CuPy here; pip install nccl4py")


_FOUND: dict[str, Binding] = {}  # by what was wanted


def find_binding() -> Binding:
    """The way to call NCCL: nccl4py where it can be imported, else CuPy's; ``DISTARRAY_NCCL_BINDING`` picks one.

    Raises
    ------
    RuntimeError
        "NCCL is not available", with what is missing.
    """
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", "nccl4py", "cupy"):
        raise RuntimeError(
            f'{VARIABLE} is {wanted!r}; it must be "nccl4py" or "cupy", or unset for the first that works'
        )
    if wanted in _FOUND:
        return _FOUND[wanted]
    count, reason = gpu_report()
    if not count:
        raise RuntimeError(f'NCCL is not available: {no_gpu(reason)}, and backend="mpi"')
    missing: list[str] = []
    if wanted != "cupy":
        try:
            return _FOUND.setdefault(wanted, _Nccl4py())
        except Exception as error:  # ImportError, or its loader's own errors where libnccl is missing
            missing.append(f"nccl4py cannot be used ({type(error).__name__}: {error})")
    if wanted != "nccl4py":
        try:
            from cupy.cuda import nccl

            if not nccl.available:
                raise ImportError("CuPy was installed without NCCL")
            return _FOUND.setdefault(wanted, _Cupy())
        except Exception as error:
            missing.append(f"cupy.cuda.nccl cannot be used ({type(error).__name__}: {error})")
    raise RuntimeError(
        f"NCCL is not available: {'; '.join(missing)}. pip install nccl4py nvidia-nccl-cu13 (or -cu12), to match your CUDA"
    )
