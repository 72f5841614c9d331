"""Host arrays between processes, through mpi4py: non-blocking point-to-point messages, each wait with a deadline.

No MPI collective is called once the communicator stands: one that a lost process never joins can't be cancelled, and
can't say who is missing. How a wait goes on and what ends it is in `channel`; how the process ends, in `exit`.

After the first error the communicator is given up: every later call raises the same, and `shrink` gives a new one.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from distarray.comm.base import Communicator, Message, Signature, chosen_survivors
from distarray.comm.deadlines import seconds
from distarray.comm.mpi import verdict
from distarray.comm.mpi.channel import SLEEP, Channel, Pending
from distarray.comm.mpi.control import TEXT, Tags, alive
from distarray.comm.mpi.exit import GRAVEYARD, forget, load_mpi, register
from distarray.comm.mpi.forming import duplicated
from distarray.comm.record import Call, byte_views, collective_deadline, debug_mode, fingerprint
from distarray.errors import CollectiveMismatchError, CommunicationError, PeerLostError

__all__ = ["MpiCommunicator"]

FRAME = 256
"""Bytes of the first message of an all-gather; longer payloads send the rest in a second one."""
DEBUG_FRAME = 1024


class MpiCommunicator(Channel, Communicator):
    """The processes of an MPI communicator.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm, optional
        Whose processes; ``MPI.COMM_WORLD``. It is duplicated: messages here never meet the caller's.
    deadline : float, optional
        Seconds that a call waits; ``DISTARRAY_TIMEOUT``, by default 120.

    Attributes
    ----------
    hosts : list of str
        The host of each rank.
    record : Recorder
        This rank's last 64 calls.

    Raises
    ------
    UnsupportedError
        mpi4py or an MPI library is missing.
    PeerLostError
        A process did not come to form the communicator.
    """

    def __init__(self, comm: Any = None, deadline: float | None = None, *, duplicate: bool = True) -> None:
        mpi = load_mpi()
        limit = collective_deadline() if deadline is None else seconds(deadline)
        if duplicate:
            comm = duplicated(mpi.COMM_WORLD if comm is None else comm, limit)
        super().__init__(mpi, comm, limit)
        self._debug = debug_mode()
        self._closed = False
        self._dead: set[int] = set()
        self._shrinks: dict[tuple[int, ...], int] = {}
        self._pids = [0] * self.size
        me = f"{os.getpid()}\0{socket.gethostname()}".encode()
        for rank, payload in enumerate(self.all_gather(me, Signature("form the communicator"))):
            pid, _, host = payload.decode(errors="replace").partition("\0")
            self._pids[rank], self.hosts[rank] = int(pid), host
        # in a container of its own a peer of this host may not be seen at all
        self._seen = {r for r in range(self.size) if self.hosts[r] == self.hosts[self.rank] and alive(self._pids[r])}
        register(self)

    # The calls

    def exchange(self, sends: Sequence[Message], receives: Sequence[Message], signature: Signature) -> None:
        outgoing = byte_views(sends, self.size, receiving=False)
        incoming = byte_views(receives, self.size, receiving=True)
        call = self._start("exchange", signature)
        pending: list[Pending] = []
        try:
            mine, own = outgoing.pop(self.rank, None), incoming.pop(self.rank, None)
            for peer, view in incoming.items():
                self._segments(call, pending, peer, view, True)
            for peer, view in outgoing.items():
                self._segments(call, pending, peer, view, False)
            if mine is not None or own is not None:
                self._copy_own(call, pending, mine, own)
            self._complete(call, pending)
        except BaseException as error:
            self._broke(call, pending, error)
            raise
        call.finish()

    def all_gather(self, payload: bytes, signature: Signature) -> list[bytes]:
        call = self._start("all_gather", signature)
        pending: list[Pending] = []
        try:
            return self._gather(call, pending, bytes(payload))
        except BaseException as error:
            self._broke(call, pending, error)
            raise

    def barrier(self, signature: Signature) -> None:
        call = self._start("barrier", signature)
        pending: list[Pending] = []
        try:
            step = 1
            while step < self.size:  # dissemination: after k steps each has heard of 2**k
                first = len(pending)
                self._post(call, pending, (self.rank - step) % self.size, bytearray(1), True, Tags.GATHER)
                self._post(call, pending, (self.rank + step) % self.size, b"b", False, Tags.GATHER)
                self._complete(call, pending, first)
                step *= 2
        except BaseException as error:
            self._broke(call, pending, error)
            raise
        call.finish()

    def report(self, error: BaseException) -> None:
        self._failed_here(error)

    def abort(self, reason: str) -> None:
        text = f"rank {self.rank} gave this communicator up: {reason or 'no reason was given'}."
        self._failure = PeerLostError, f"{text} Go on with shrink(survivors) of it, or a new one."
        self._tell("left", text=f"aborted the communicator ({reason})"[:TEXT], clean=False)

    def shrink(self, survivors: Sequence[int]) -> MpiCommunicator:
        chosen = chosen_survivors(self, survivors)
        turn = self._shrinks[chosen] = self._shrinks.get(chosen, -1) + 1
        call = self.record.begin(turn, "shrink", Signature(f"shrink to ranks {list(chosen)}"))
        pending: list[Pending] = []
        try:  # first see that all of them are there: the creation that follows can't be given up half way
            for peer in chosen:
                if peer != self.rank:
                    self._post(call, pending, peer, bytearray(1), True, Tags.SHRINK)
                    self._post(call, pending, peer, b"s", False, Tags.SHRINK)
            self._complete(call, pending, listening=False)
            created = self._created(chosen, call)
        except BaseException as error:
            self._broke(call, pending, error)
            raise
        call.finish()
        return MpiCommunicator(created, self.deadline, duplicate=False)

    def close(self) -> None:
        if self._closed:
            return
        if self._failure is None:
            self.barrier(Signature("close"))
            if self._control.settle():
                forget(self)
                self._comm.Free()
        self._closed = True
        self._failure = self._failure or (PeerLostError, f"rank {self.rank} closed this communicator; make a new one.")

    # How they are made

    def _start(self, kind: str, signature: Signature) -> Call:
        call = self._begin(kind, signature)
        if self._debug and self.size > 1:
            self._compare(call)
        return call

    def _gather(self, call: Call, pending: list[Pending], payload: bytes) -> list[bytes]:
        others = [(self.rank + step) % self.size for step in range(1, self.size)]
        head = (len(payload).to_bytes(8, "little") + payload[: FRAME - 8]).ljust(FRAME, b"\0")
        frames = {peer: bytearray(FRAME) for peer in others}
        for peer in others:
            self._post(call, pending, peer, frames[peer], True, Tags.GATHER)
        for peer in others:
            self._post(call, pending, peer, head, False, Tags.GATHER)
        self._complete(call, pending)
        lengths = {peer: int.from_bytes(frames[peer][:8], "little") for peer in others}
        rests = {peer: np.empty(max(lengths[peer] - FRAME + 8, 0), np.uint8) for peer in others}
        first = len(pending)
        for peer, rest in rests.items():
            self._segments(call, pending, peer, rest, True, Tags.REST)
        mine = np.frombuffer(payload, np.uint8)[FRAME - 8 :]
        for peer in others:
            self._segments(call, pending, peer, mine, False, Tags.REST)
        self._complete(call, pending, first)
        call.finish()
        gathered = {peer: bytes(frames[peer][8:][: lengths[peer]]) + rests[peer].tobytes() for peer in others}
        gathered[self.rank] = payload
        return [gathered[rank] for rank in range(self.size)]

    def _compare(self, call: Call) -> None:
        """Debug mode: every rank shows what it is about to do; the first that differs from rank 0 is named."""
        text = str(call).encode()[: DEBUG_FRAME - 16]
        mine = (fingerprint(call.sequence, call.kind, call.signature) + text).ljust(DEBUG_FRAME, b"\0")
        frames = [bytearray(mine) for _ in range(self.size)]
        shown, tag = self._shown(call)
        pending: list[Pending] = []
        try:
            for peer in range(self.size):
                if peer != self.rank:
                    self._place(shown, pending, peer, frames[peer], True, tag)
                    self._place(shown, pending, peer, mine, False, tag)
            self._complete(shown, pending)
        except BaseException as error:
            self._broke(call, pending, error)
            raise
        for rank, frame in enumerate(frames):
            if frame[:16] != frames[0][:16]:
                said = [bytes(one[16:]).rstrip(b"\0").decode(errors="replace") for one in (frames[0], frame)]
                differ = verdict.mismatch(self.who(rank), said[1], self.who(0), said[0], "their fingerprints differ")
                self._fail(CollectiveMismatchError, differ)

    def _shown(self, call: Call) -> tuple[Call, int]:
        """What a rank is at while it compares a call, and the tag of what it shows."""
        shown = Call(call.sequence, call.kind, Signature("compare", "", call.signature.site))
        return shown, self._tags.tag(Tags.DEBUG, shown.sequence, shown.signature)

    def _created(self, chosen: tuple[int, ...], call: Call) -> Any:
        """The survivors' MPI communicator. MPI creates it in one blocking call: on a thread, to be left at the deadline."""
        made: list[Any] = []

        def create() -> None:
            mpi = self._mpi
            try:
                group = self._comm.Get_group().Incl(list(chosen))
                if verdict.failure_classes(mpi):  # ULFM: nothing can be created from a communicator with a dead member
                    name = f"distarray {list(chosen)} {call.sequence}"
                    made.append(mpi.Intracomm.Create_from_group(group, name, errhandler=mpi.ERRORS_RETURN))
                else:
                    made.append(self._comm.Create_group(group, 0))
            except (mpi.Exception, NotImplementedError) as error:
                made.append(error)

        if self._mpi.Query_thread() == self._mpi.THREAD_MULTIPLE:
            thread = threading.Thread(target=create, name="distarray-shrink", daemon=True)
            thread.start()
            thread.join(self.deadline)
        else:
            create()
        if not made or isinstance(made[0], Exception):
            if not made:
                GRAVEYARD.append(made)
            why = made[0] if made else f"it took more than {self.deadline:g} s"
            raise PeerLostError(
                f"shrink to ranks {list(chosen)} failed: {why}; agree on the survivors again, and retry."
            )
        return made[0]

    # How it ends

    def farewell(self, text: str, clean: bool) -> None:
        """Tell the peers that this process has come to its end; called by the exit handler."""
        self._tell("bye", text=text[:TEXT], clean=clean)

    def leave(self) -> bool:
        """Wait until the peers have come to their end too; whether MPI may be finalized.

        As long as nothing went wrong there is no limit to that: a peer may compute by itself for hours, and to leave it
        would have the launcher kill it. A peer of this host that was stopped or died in that time is given the deadline.
        Once something went wrong the deadline holds for all, so that those given up as late see it before they are killed.
        """
        start = late = time.monotonic()
        pause = SLEEP[0]
        others = [peer for peer in range(self.size) if peer != self.rank]
        while True:
            for peer in others:
                if peer not in self._goodbyes:
                    self._hear(peer)
            missing = [peer for peer in others if peer not in self._goodbyes and not self._is_dead(peer)]
            healthy = self._failure is None and not self._lost and all(self._goodbyes.values())
            now = time.monotonic()
            spent = now - start
            if healthy and all(self._can_end(peer) for peer in missing):
                late = now
            if not missing:
                sent = self._control.settle()
                if sent and len(self._goodbyes) == len(others) and not self._dead:
                    return all(self._goodbyes.values())
                if sent or spent > 1:
                    break
            if now - late > self.deadline:
                break
            time.sleep(pause)
            pause = min(2 * pause, 10e-3)
        self._control.bury()
        return False

    def _hear(self, peer: int) -> None:
        """At the end: a peer's goodbye, if it is there, or its failure."""
        try:
            while (received := self._control.receive(peer)) is not None:
                if received[1]["about"] in ("left", "bye"):
                    self._note_left(*received)
                elif received[1]["about"] in ("error", "failed"):
                    self._failure = self._failure or self._told_late(*received)
                elif received[1]["about"] == "where":
                    self._answer_late(*received)
        except self._mpi.Exception:
            self._dead.add(peer)

    def _told_late(self, peer: int, message: dict[str, Any]) -> tuple[type[CommunicationError], str]:
        """The failure that a peer told of when this rank had made its last call."""
        return PeerLostError, "another rank failed"

    def _answer_late(self, peer: int, message: dict[str, Any]) -> None:
        """A peer asks where this rank is, which has made its last call."""

    def unsaid(self) -> str:
        """A failure that this rank's program has not seen: it was told of after its last call."""
        return ""

    def _is_dead(self, peer: int) -> bool:
        """Whether nothing more is to be expected of a peer. Of a stopped one, and of another host's, only once it is late."""
        if peer in self._dead:
            return True
        return peer in self._lost and not (peer in self._seen and self._can_end(peer))

    def _can_end(self, peer: int) -> bool:
        """False where a peer of this host is seen to be stopped or gone."""
        return peer not in self._seen or alive(self._pids[peer])
