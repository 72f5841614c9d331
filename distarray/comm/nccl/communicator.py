"""NCCL for GPU buffers: the communicator of the array layer.

Calls queue work on a stream and return; nothing waits on the host but `wait`, which watches the stream, NCCL's own errors
and the deadline, and aborts the communicator when one of them says so. What has no arrays in it (identities, unique ids,
small values that all must agree on) goes over a control channel: MPI or the rendezvous store. NCCL's own connections are
neither authenticated nor encrypted: trusted networks only.

A call that meets a peer or a size for the first time may wait inside NCCL for the peer to connect. Such calls run in a
thread of their own, which is left behind at the deadline; the communicator is then given up without touching it again.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from distarray.comm.base import Communicator, Control, Message, Signature
from distarray.comm.deadlines import bootstrap_timeout
from distarray.comm.nccl.binding import TYPE, Binding, Calls, InProgress, find_binding
from distarray.comm.record import Call, Recorder, debug_mode, fingerprint
from distarray.devices.arrays import DeviceArray
from distarray.errors import (
    CollectiveMismatchError,
    CommunicationError,
    DeviceError,
    LayoutError,
    PeerLostError,
    RendezvousError,
)

__all__ = ["NcclCommunicator"]

BYTE = TYPE["uint8"]
PER_THREAD_STREAM = 2


class NcclCommunicator(Communicator):
    """The processes of a group, each with one GPU. Buffers are CuPy arrays of that GPU.

    Parameters
    ----------
    control : Control
        Another communicator of the same processes; it gives `rank` and `size`. Closed with this one.
    device : int, optional
        The GPU; the current one by default.
    deadline : float, optional
        Seconds that a wait may take; the control channel's by default.

    Attributes
    ----------
    device : int
    binding : Binding
        Through what NCCL is called; ``binding.stoppable`` says whether a hanging set-up can be aborted.
    calls : Calls
        NCCL's functions on this communicator.

    Raises
    ------
    RuntimeError
        NCCL is not available.
    DeviceError
        Two processes are on one GPU.
    RendezvousError
        The set-up failed, on this process or another.
    """

    def __init__(
        self, control: Control, device: int | None = None, deadline: float | None = None, *, _calls: Calls | None = None
    ) -> None:
        self.rank, self.size = control.rank, control.size
        self.deadline = control.deadline if deadline is None else deadline
        self.sequence = 0
        self.record = Recorder(self.rank, self.size)
        self.control = control
        self._debug = debug_mode()
        self.broken = ""
        self._stuck = False  # a thread may still be inside NCCL
        self._closed = False
        self._freed = False
        self.met: set[Any] = set()
        try:
            self.binding: Binding = find_binding()
            import cupy

            self._cupy: Any = cupy
            self.device = int(cupy.cuda.runtime.getDevice() if device is None else device)
            found = json.dumps(self._identity()).encode()
        except BaseException as error:
            control.report(error)
            raise
        self.hosts = self._refuse_shared_gpus(control.all_gather(found, Signature("form the NCCL communicator")))
        self.calls: Calls = self._connect() if _calls is None else _calls

    # ---- set-up

    def _identity(self) -> dict[str, Any]:
        """What this process tells the others of itself: its host, its GPU and its NCCL."""
        properties = self._cupy.cuda.runtime.getDeviceProperties(self.device)
        uuid = properties.get("uuid", b"")
        bus = self._cupy.cuda.runtime.deviceGetPCIBusId(self.device)
        return {
            "host": socket.gethostname(), "device": self.device, "bus": str(bus), "nccl": self.binding.version,
            "uuid": bytes(uuid).hex() if uuid else "",
        }  # fmt: skip

    def _refuse_shared_gpus(self, payloads: list[bytes]) -> list[str]:
        """The ranks' hosts, after a look at their GPUs and versions of NCCL."""
        seen: dict[tuple[str, str], int] = {}
        facts = [json.loads(payload) for payload in payloads]
        for rank, fact in enumerate(facts):
            key = ("uuid", fact["uuid"]) if fact["uuid"] else (fact["host"], fact["bus"])
            if key in seen:
                raise DeviceError(
                    f"ranks {seen[key]} and {rank} on {fact['host']} are both on GPU {fact['bus']} (UUID {fact['uuid']}), which "
                    "NCCL does not allow; give each process its own: cupy.cuda.Device(local_rank).use() before the group is "
                    "made, or its own CUDA_VISIBLE_DEVICES"
                )
            seen[key] = rank
            if fact["nccl"] // 100 != facts[0]["nccl"] // 100:
                raise RendezvousError(
                    f"rank {rank} on {fact['host']} has NCCL {fact['nccl']} and rank 0 {facts[0]['nccl']}; install one version"
                )
        return [str(fact["host"]) for fact in facts]

    def _connect(self) -> Calls:
        """Set NCCL up: rank 0 makes the unique id, and all processes connect by the deadline."""
        limit = bootstrap_timeout()
        unique_id, problem = b"", ""
        if self.rank == 0:
            try:
                unique_id = self.binding.unique_id()
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
        first = self.control.all_gather(problem.encode() or b"\0" + unique_id, Signature("NCCL unique id"))[0]
        if first[:1] != b"\0":
            raise RendezvousError(f"rank 0 on {self.hosts[0]} could not start NCCL: {first.decode(errors='replace')}")
        due = time.monotonic() + limit
        made: list[Calls] = []

        def connect() -> None:
            made.append(self.binding.connect(self.size, self.rank, first[1:], due))

        try:
            if self.binding.stoppable:
                with self._cupy.cuda.Device(self.device):
                    connect()
            else:
                self._in_thread(connect, limit)
        except (InProgress, TimeoutError):
            raise self._setup_failed(f"did not end within {limit:g} s; a process has died or is stopped") from None
        except self.binding.errors as error:
            raise self._setup_failed(f"failed: {error}") from error
        return made[0]

    def _setup_failed(self, how: str) -> RendezvousError:
        """The error of a set-up that failed. The others are told."""
        self.broken = f"NCCL's set-up {how}"
        error = RendezvousError(
            f"NCCL's set-up of {self.size} processes on rank {self.rank} {how}. NCCL_DEBUG=WARN says more; between hosts "
            "NCCL_SOCKET_IFNAME must name a network that both reach"
        )
        self.control.report(error)
        return error

    # ---- the interface of all communicators

    def exchange(self, sends: Sequence[Message], receives: Sequence[Message], signature: Signature) -> None:
        self._usable()
        outgoing, incoming = self._checked(sends), self._checked(receives)
        self.sequence += 1
        call = self.record.begin(self.sequence, "exchange", signature)
        if self._debug and self.size > 1:
            self._gather(call, b"")
        if outgoing or incoming:
            self.point_to_point(outgoing, incoming, 0, signature.operation)
        call.finish("queued")

    def gather(self, part: DeviceArray, room: DeviceArray, signature: Signature) -> None:
        self._usable()
        if not part.flags.c_contiguous or room.nbytes != self.size * part.nbytes:
            raise LayoutError(
                f"{part.nbytes} bytes of each of {self.size} processes need as many times that, contiguous"
            )
        address, into, nbytes = part.data.ptr, room.data.ptr, part.nbytes
        self.sequence += 1
        call = self.record.begin(self.sequence, "gather", signature)
        if self._debug and self.size > 1:
            self._gather(call, b"")
        all_gather = self.calls.all_gather
        key = ("all_gather", nbytes.bit_length())
        self.call(lambda: all_gather(address, into, nbytes, BYTE, 0), key, 0, signature.operation)
        call.finish("queued")

    def point_to_point(
        self,
        sends: Sequence[tuple[int, int, int]],
        receives: Sequence[tuple[int, int, int]],
        stream: int,
        operation: str,
    ) -> None:
        """One NCCL group of sends and receives, each (peer, address, bytes)."""
        calls, binding = self.calls, self.binding

        def issue() -> None:
            binding.group_start()
            try:
                for peer, address, nbytes in sends:
                    calls.send(address, nbytes, BYTE, peer, stream)
                for peer, address, nbytes in receives:
                    calls.recv(address, nbytes, BYTE, peer, stream)
            finally:
                binding.group_end()

        key = (frozenset(peer for peer, _, _ in sends), frozenset(peer for peer, _, _ in receives))
        self.call(issue, key, stream, operation)

    def call(self, issue: Callable[[], Any], key: Hashable, stream: int, operation: str) -> None:
        """Make an NCCL call on this GPU: in a thread with a deadline where it may connect, directly once it has been made."""
        try:
            if key in self.met or self.size == 1 or stream == PER_THREAD_STREAM:
                if self._cupy.cuda.runtime.getDevice() == self.device:
                    issue()
                else:
                    with self._cupy.cuda.Device(self.device):
                        issue()
            else:
                self._in_thread(issue, self.deadline)
                self.met.add(key)
        except TimeoutError:
            raise self.lost(f"{operation!r} did not connect to its peers within {self.deadline:g} s") from None
        except self.binding.errors as error:
            raise self.lost(f"{operation!r} failed in NCCL: {error}") from error

    def wait(
        self,
        stream: Any = None,  # CuPy's, which has no types
        operation: str = "",
    ) -> None:
        """Wait on the host until a stream, the default one if None, is through; never longer than the deadline.

        Raises
        ------
        PeerLostError
            NCCL met an error, or the deadline passed. The communicator is aborted, so that the stream comes to its end; the
            arrays of calls that had not ended hold anything.
        """
        self._usable()
        stream = self._cupy.cuda.Stream.null if stream is None else stream
        start = time.monotonic()
        with self._cupy.cuda.Device(self.device):
            while not stream.done:
                now = time.monotonic() - start
                if now > 0.0005:
                    if problem := self.calls.async_error():
                        raise self.lost(f"NCCL met an error in {operation or self._latest()!r}: {problem}")
                    if now > self.deadline:
                        raise self.lost(f"{operation or self._latest()!r} did not end within {self.deadline:g} s")
                    time.sleep(min(now / 20, 0.005))

    def all_gather(self, payload: bytes, signature: Signature) -> list[bytes]:
        self._usable()
        self.sequence += 1
        call = self.record.begin(self.sequence, "all_gather", signature)
        got = self._gather(call, payload)
        call.finish()
        return got

    def _gather(self, call: Call, payload: bytes) -> list[bytes]:
        """Every process's payload. It travels on the control channel, with the call that its process is at."""
        mine = fingerprint(call.sequence, call.kind, call.signature)
        frame = mine + str(call).replace("\0", " ").encode() + b"\0" + payload
        try:
            got = self.control.all_gather(frame, Signature("a call of the NCCL communicator"))
        except BaseException:
            call.finish("failed")
            raise
        for peer, message in enumerate(got):
            if message[: len(mine)] != mine:
                call.finish("failed")
                there = message[len(mine) :].partition(b"\0")[0].decode(errors="replace")
                reason = f"rank {peer} on {self.hosts[peer]} is at {there}"
                self.abort(reason)
                raise CollectiveMismatchError(
                    f"{reason}, rank {self.rank} at {call}; all processes must make the same calls in the same order: look "
                    "for a branch on the rank or on local values"
                )
        return [message[len(mine) :].partition(b"\0")[2] for message in got]

    def barrier(self, signature: Signature) -> None:
        self.all_gather(b"", signature)

    def report(self, error: BaseException) -> None:
        self.control.report(error)

    def abort(self, reason: str) -> None:
        self.broken = self.broken or reason
        self._release()
        self.control.abort(reason)

    def _release(self) -> None:
        """Free NCCL's communicators without the other ranks."""
        if not self._freed and not self._stuck:
            self._quietly(self.calls.abort)
        self._freed = True

    def shrink(self, survivors: Sequence[int]) -> NcclCommunicator:
        """A communicator of the surviving ranks: NCCL's own shrink where the binding has it, else a new set-up."""
        kept = sorted(survivors)
        if self.rank not in kept or kept[-1] >= self.size or kept[0] < 0:
            raise LayoutError(
                f"survivors = {kept}: ranks of 0 to {self.size - 1} are needed, this one ({self.rank}) among them"
            )
        smaller = getattr(self.control, "shrink", None)
        if smaller is None:
            raise CommunicationError("this control channel cannot shrink; use the store or an MPI communicator")
        control: Control = smaller(kept)
        made: list[Calls] = []
        if self.binding.stoppable and not self._stuck and not self._freed and len(kept) < self.size:
            self._quietly(self.calls.abort_calls)
            due = time.monotonic() + bootstrap_timeout()
            gone = [rank for rank in range(self.size) if rank not in kept]

            def attempt() -> None:
                made.append(self.calls.shrink(gone, due))

            self._quietly(attempt)
        agreed = control.all_gather(b"1" if made else b"0", Signature("shrink"))
        self.broken = self.broken or "it was shrunk; use the communicator that shrink returned"
        self._release()
        every = all(one == b"1" for one in agreed)
        if made and not every:
            self._quietly(made[0].abort)
        return NcclCommunicator(control, self.device, self.deadline, _calls=made[0] if made and every else None)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if not self.broken:
            try:
                self.control.barrier(Signature("close"))  # NCCL's destroy waits for the other ranks of the host
                self._freed = True
                self._quietly(self.calls.destroy)
            except CommunicationError:
                pass  # someone does not come any more
            self.broken = "it was closed"
        self._release()
        self.control.close()

    # ---- helpers

    def _checked(self, messages: Sequence[Message]) -> list[tuple[int, int, int]]:
        """Messages as (peer, address, bytes), after their checks. Empty ones are left out."""
        peers = [peer for peer, _ in messages]
        if len(set(peers)) < len(peers) or any(not 0 <= peer < self.size for peer in peers):
            raise LayoutError(
                f"messages for ranks {peers}: one for each of 0 to {self.size - 1} at most; pack or split them"
            )
        found = []
        for peer, buffer in messages:
            if not isinstance(buffer, self._cupy.ndarray) or not buffer.flags.c_contiguous:
                what = (
                    "strides " + str(buffer.strides)
                    if isinstance(buffer, self._cupy.ndarray)
                    else type(buffer).__name__
                )
                raise LayoutError(f"the message for rank {peer} has {what}; pass cupy.ascontiguousarray(buffer)")
            if buffer.data.device_id != self.device and buffer.size:
                raise DeviceError(
                    f"the message for rank {peer} is on GPU {buffer.data.device_id}; this communicator's is {self.device}"
                )
            if buffer.nbytes:
                found.append((peer, buffer.data.ptr, buffer.nbytes))
        return found

    def _usable(self) -> None:
        """Raise where the communicator has been given up."""
        if self.broken:
            raise PeerLostError(f"this NCCL communicator was given up: {self.broken}")

    def _latest(self) -> str:
        """The operation of the last call."""
        calls = self.record.calls()
        return calls[-1].signature.operation if calls else "a call"

    def lost(self, text: str) -> PeerLostError:
        """The error of a lost peer, to be raised. The others are told, and what runs on the GPU is stopped."""
        self.record.dump(text)
        error = PeerLostError(
            f"rank {self.rank} of {self.size} on {self.hosts[self.rank]}: {text}; a process has died, is stopped or is at "
            "another call. Call shrink with the survivors, or restart; NCCL_DEBUG=WARN and the ncclras tool say more"
        )
        self.control.report(error)
        self.broken = self.broken or text
        if not self._freed and not self._stuck:
            self._quietly(self.calls.abort_calls)  # what is left of it can still shrink
        return error

    def _in_thread(self, issue: Callable[[], Any], limit: float) -> None:
        """Run a call that may hang on a thread. At the deadline the thread is left behind, and TimeoutError is raised."""
        done = threading.Event()
        errors: list[BaseException] = []

        def run() -> None:
            try:
                with self._cupy.cuda.Device(self.device):
                    issue()
            except BaseException as error:
                errors.append(error)
            finally:
                done.set()

        threading.Thread(target=run, name="distarray-nccl-connect", daemon=True).start()
        if not done.wait(limit):
            self._stuck = True
            raise TimeoutError
        if errors:
            raise errors[0]

    def _quietly(self, call: Callable[[], None]) -> None:
        """Make a call of NCCL whose failure changes nothing."""
        expected: tuple[type[BaseException], ...] = (*self.binding.errors, InProgress, RuntimeError)
        with contextlib.suppress(*expected), self._cupy.cuda.Device(self.device):
            call()  # the communicator is given up whatever NCCL says
