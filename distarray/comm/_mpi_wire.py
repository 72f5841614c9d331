"""Bytes between the processes of a process group through mpi4py: non-blocking calls, each with a deadline.

The tag of a message says which method sent it, and its size is compared with what was expected, so that a process that
is at another method is named instead of waited for. A message that timed out cannot be called back: its buffers are
kept for good and the wire is given up.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..cluster import detect, why_apart
from ..errors import (
    CollectiveMismatchError,
    CommunicationError,
    PeerLostError,
    RemoteError,
    RendezvousError,
    UnsupportedError,
)
from ._mpi_exit import GRAVEYARD, forget, load_mpi, register
from ._record import Recorder
from .base import Signature
from .deadlines import bootstrap_timeout, collective_timeout
from .mpi import duplicated

__all__ = ["MpiWire", "connect_mpi"]

TAGS = (
    "mail", "control", "all_reduce", "reduce", "broadcast", "reduce_scatter", "all_gather", "send", "send_recv", "scatter",
    "gather", "all_to_all", "sparse", "left",
)  # fmt: skip
TAG = {name: number for number, name in enumerate(TAGS, 1)}
PIECE = 1 << 30
"""Bytes in one message: MPI libraries before MPI-4 count in 32 bits."""
SPIN = 0.002
"""Seconds that a wait polls without sleeping: a sleep costs more than most messages."""
LOOK = 0.05
"""Seconds between looks at what else a silent process may have sent."""
SURE = 1.0
"""Seconds that such a message must lie there: one that is being received may be overtaken by the next for a moment."""


def connect_mpi(n_devices: int, rank: int, deadline: float) -> MpiWire:
    """The wire between all processes of ``MPI.COMM_WORLD``, once they agree on who they are.

    Raises
    ------
    RuntimeError
        mpi4py is missing.
    ValueError
        The processes are not those that MPI started.
    """
    try:
        mpi = load_mpi()
    except UnsupportedError as error:
        raise RuntimeError(
            f"{error.__cause__ or error}: mpi4py cannot be used, and MPI was asked for; pip install 'distarray[mpi]' "
            'beside an MPI library (pip install mpich), or use backend="nccl" without use_mpi=True'
        ) from error
    world = mpi.COMM_WORLD
    if world.Get_size() != n_devices:
        with contextlib.suppress(RendezvousError):
            launch = detect()
            if launch.size == n_devices > world.Get_size() == 1:
                raise ValueError(
                    f"n_devices = {n_devices}, and {launch.launcher} started as many processes, but MPI started 1 "
                    f"process(es): {why_apart(launch)}"
                )
        raise ValueError(
            f"n_devices = {n_devices}, but MPI started {world.Get_size()} process(es); start the program with "
            f"mpiexec -n {n_devices}, or pass n_devices={world.Get_size()}"
        )
    if world.Get_rank() != rank:
        raise ValueError(
            f"rank = {rank}, but this process is rank {world.Get_rank()} of MPI.COMM_WORLD; pass "
            f"rank={world.Get_rank()} (MPI.COMM_WORLD.Get_rank())"
        )
    wire = MpiWire(mpi, duplicated(world, bootstrap_timeout()), deadline)
    register(wire)
    return wire


class MpiWire:
    """One process's end. `sequence` counts the calls of this process; those that all make together are counted apart.

    Parameters
    ----------
    mpi : module
        ``mpi4py.MPI``.
    comm : mpi4py.MPI.Comm
        A communicator of this wire alone.
    deadline : float
        Seconds that a call waits.
    """

    def __init__(self, mpi: Any, comm: Any, deadline: float | None = None) -> None:
        self._mpi = mpi
        self._comm = comm
        self.rank: int = comm.Get_rank()
        self.size: int = comm.Get_size()
        self.deadline = collective_timeout() if deadline is None else deadline
        self.sequence = 0
        self._together = 0  # calls of all_gather: sends and receives are not made by all processes
        self.record = Recorder(self.rank, self.size)
        self._broken = ""
        self._closed = False
        self._mail: list[tuple[Any, bytes]] = []  # posted, and perhaps still on its way
        self.hosts = [self.rank_name(i, "") for i in range(self.size)]
        names = self.all_gather(mpi.Get_processor_name().encode()[:255], Signature("init_process_group"))
        self.hosts = [self.rank_name(i, name.decode(errors="replace")) for i, name in enumerate(names)]

    @staticmethod
    def rank_name(rank: int, host: str) -> str:
        return f"rank {rank} on {host}" if host else f"rank {rank}"

    # ---- messages

    def exchange(
        self, sends: Sequence[tuple[int, Any]], receives: Sequence[tuple[int, Any]], operation: str, detail: str = ""
    ) -> None:
        """Send and receive 1-d contiguous arrays, all at once; returns when all are sent and filled."""
        self._usable()
        self.sequence += 1
        call = self.record.begin(self.sequence, "exchange", Signature(operation, detail))
        tag = TAG[operation]
        waiting: list[tuple[Any, int, int]] = []  # (request, peer, bytes expected; -1 for a send)
        try:
            for peer, array in receives:
                waiting += [(self._comm.Irecv(self._spec(p), peer, tag), peer, p.nbytes) for p in _pieces(array)]
            for peer, array in sends:
                waiting += [(self._comm.Isend(self._spec(p), peer, tag), peer, -1) for p in _pieces(array)]
            self._wait(waiting, tag, operation, (sends, receives))
        except BaseException:
            call.finish("failed")
            raise
        call.finish()

    def post(self, peer: int, payload: bytes, tag: str = "mail") -> None:
        """Send bytes without waiting for the peer."""
        self._usable()
        self._mail = [entry for entry in self._mail if not entry[0].Test()]
        self._mail.append((self._comm.Isend([payload, self._mpi.BYTE], peer, TAG[tag]), payload))

    def fetch(self, peer: int, operation: str = "sparse", tag: str = "mail") -> bytes:
        """The next bytes that `peer` posted."""
        self._usable()
        status = self._mpi.Status()
        found: list[Any] = []

        def arrived() -> bool:
            message = self._comm.Improbe(peer, TAG[tag], status)
            if message is None:
                return False
            found.append(message)
            return True

        self._poll(arrived, lambda: [peer], TAG[tag], operation, None)
        payload = bytearray(status.Get_count(self._mpi.BYTE))
        found[0].Recv([payload, self._mpi.BYTE])
        return bytes(payload)

    # ---- what the NCCL communicator needs of its control channel

    def all_gather(self, payload: bytes, signature: Signature) -> list[bytes]:
        """Every process's bytes, in rank order."""
        self._usable()
        self.sequence += 1
        self._together += 1
        here = f"{signature.operation} (call {self._together} of all processes together)"
        head = here.encode() + b"\0"
        others = [peer for peer in range(self.size) if peer != self.rank]
        for peer in others:
            self.post(peer, head + payload, "control")
        result = [payload] * self.size
        for peer in others:
            theirs, _, body = self.fetch(peer, signature.operation, "control").partition(b"\0")
            if theirs + b"\0" != head:
                raise self._mismatch(peer, theirs.decode(errors="replace"), here)
            result[peer] = body
        return result

    def barrier(self, signature: Signature) -> None:
        """Wait until every process has come here."""
        self.all_gather(b"", signature)

    def report(self, error: BaseException) -> None:
        """Tell the others that this process failed: those that wait for it raise RemoteError. Never raises."""
        if self._broken or self._closed:
            return
        text = f"{type(error).__name__}: {error}"[:2000]
        with contextlib.suppress(self._mpi.Exception):
            for peer in range(self.size):
                if peer != self.rank:
                    self.post(peer, text.encode(), "left")
        self._broken = f"this process itself failed with {text}"

    def abort(self, reason: str) -> None:
        """Give the wire up without waiting for anyone."""
        self._broken = self._broken or reason

    def close(self) -> None:
        """Release the communicator, once all processes have come; not after a failure, when they may not."""
        if self._closed:
            return
        self._closed = True
        if self._broken:
            GRAVEYARD.append((self._comm, self._mail))
            return
        try:
            for request, _ in self._mail:
                self._poll(request.Test, list, 0, "stop", None)
            done = self._comm.Ibarrier()
            self._poll(done.Test, list, 0, "stop", done)
        except CommunicationError:
            return  # someone did not come: leave the communicator to the end of the process
        self._comm.Free()
        forget(self)

    def farewell(self, text: str, clean: bool) -> None:
        """The process comes to its end; `close` says so."""

    def leave(self) -> bool:
        """Whether MPI may be finalized."""
        self.close()
        return not self._broken

    # ---- waiting

    def _usable(self) -> None:
        if self._closed:
            raise CommunicationError("this process group was stopped; make a new one with init_process_group")
        if self._broken:
            raise PeerLostError(f"this process group was given up: {self._broken}")

    def _spec(self, array: Any) -> list[Any]:
        return [array, self._mpi.BYTE]

    def _wait(self, waiting: list[tuple[Any, int, int]], tag: int, operation: str, keep: Any) -> None:
        requests = [request for request, _, _ in waiting]
        statuses = [self._mpi.Status() for _ in requests]

        def silent() -> list[int]:
            return sorted({peer for request, peer, _ in waiting if not request.Get_status()})

        def done() -> bool:
            try:
                return bool(self._mpi.Request.Testall(requests, statuses))
            except self._mpi.Exception:
                for status, (_, peer, _) in zip(statuses, waiting):
                    if status.Get_error() and self._mpi.Get_error_class(status.Get_error()) == self._mpi.ERR_TRUNCATE:
                        raise self._size_error(peer, operation, "more came than the array here holds") from None
                raise

        self._poll(done, silent, tag, operation, (requests, keep))
        for status, (_, peer, expected) in zip(statuses, waiting):
            if expected >= 0 and (got := status.Get_count(self._mpi.BYTE)) != expected:
                raise self._size_error(peer, operation, f"{got} bytes came where {expected} were expected")

    def _poll(
        self, done: Callable[[], bool], silent: Callable[[], list[int]], tag: int, operation: str, keep: Any
    ) -> None:
        start = time.monotonic()
        look = start + LOOK
        suspects: dict[int, float] = {}
        try:
            while not done():
                now = time.monotonic()
                if now - start > SPIN:
                    time.sleep(0 if now - start < 10 * SPIN else 0.0002)
                if now > look and tag:
                    look = now + LOOK
                    self._compare(silent(), tag, operation, suspects)
                if now - start > self.deadline:
                    raise self._lost(silent(), operation)
        except self._mpi.Exception as error:
            GRAVEYARD.append((self._comm, keep))
            self._broken = f"MPI failed in {operation!r}: {error}"
            raise PeerLostError(f"{operation!r} failed in MPI: {error}; a process has probably died") from error
        except CommunicationError:
            GRAVEYARD.append((self._comm, keep))
            raise

    def _compare(self, silent: list[int], tag: int, operation: str, suspects: dict[int, float]) -> None:
        """Raises where a process that is waited for has sent for another method: messages of a pair keep their order."""
        now = time.monotonic()
        for peer in silent:
            status = self._mpi.Status()
            if not self._comm.Iprobe(peer, self._mpi.ANY_TAG, status) or status.Get_tag() == tag:
                suspects.pop(peer, None)
            elif now - suspects.setdefault(peer, now) <= SURE:
                continue
            elif status.Get_tag() == TAG["left"]:
                payload = bytearray(status.Get_count(self._mpi.BYTE))
                self._comm.Recv([payload, self._mpi.BYTE], peer, TAG["left"])
                self._broken = f"{self.hosts[peer]} failed with {payload.decode(errors='replace')}"
                raise RemoteError(f"{self._broken}, while rank {self.rank} waited for it in {operation!r}")
            else:
                raise self._mismatch(peer, TAGS[status.Get_tag() - 1], operation)

    def _mismatch(self, peer: int, theirs: str, ours: str) -> CollectiveMismatchError:
        self._broken = f"{self.hosts[peer]} came to {theirs!r}, this process to {ours!r}"
        self.record.dump(self._broken)
        return CollectiveMismatchError(
            f"{self.hosts[peer]} came to {theirs!r} while rank {self.rank} came to {ours!r}; all processes must call the same "
            "methods in the same order: look for a branch on the rank before this call"
        )

    def _size_error(self, peer: int, operation: str, what: str) -> CollectiveMismatchError:
        self._broken = f"{self.hosts[peer]} sent another size in {operation!r}"
        return CollectiveMismatchError(
            f"{operation!r}: {self.hosts[peer]} sent an array of another size: {what}; give the same dtype and number of "
            "elements on all processes"
        )

    def _lost(self, silent: list[int], operation: str) -> PeerLostError:
        who = ", ".join(self.hosts[peer] for peer in silent) or "another process"
        self._broken = f"{who} did not come to {operation!r} within {self.deadline:g} s"
        self.record.dump(self._broken)
        return PeerLostError(
            f"{self._broken} (rank {self.rank} waited); it has died, is stopped, or is at another call. Restart the "
            "processes, or raise DISTARRAY_TIMEOUT if it is only slow"
        )


def _pieces(array: Any) -> list[Any]:
    data = np.asarray(array).view(np.uint8)
    if data.nbytes <= PIECE:
        return [data]
    return [data[i : i + PIECE] for i in range(0, data.nbytes, PIECE)]
