"""How the processes of an MPI communicator wait for messages, and how they find out why one does not come.

Waits spin for 50 µs, yield while the bytes could still be on their way, then sleep for a part of the time they have
waited, 1 ms at most, so that two processes on one core make way for each other. Whoever waits also reads what
`control` brings, asks the others where they are when it takes long, and judges from their answers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from distarray.comm.base import Signature
from distarray.comm.mpi import verdict
from distarray.comm.mpi.control import TEXT, ControlMessages, Status, Tags, alive
from distarray.comm.mpi.exit import GRAVEYARD
from distarray.comm.record import Bytes, Call, Recorder, debug_mode, in_words
from distarray.errors import CollectiveMismatchError, CommunicationError, PeerLostError, RemoteError

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["Channel", "Pending", "Standing"]

SPIN = 50e-6
"""Seconds a wait spins: what a small message between two idle cores takes, several times over."""
SLOWEST = 1e9
"""Bytes a second that memory moves at least: a wait yields, but does not sleep, for as long as its bytes need."""
SLEEP = 50e-6, 1e-3
"""The first sleep and the longest."""
LISTEN = 2e-3
"""Seconds between looks at control messages."""
ASK = 0.5
"""Seconds after which a wait asks the others where they are."""
AWAY = 0.05
"""Seconds between two calls after which a process listens longer before it goes on."""
SETTLE = 0.25
"""Seconds that data may still be under way from a peer that said it has sent it."""
SEGMENT = 1 << 30
"""Bytes of the longest MPI message: libraries before MPI-4 count in 31 bits."""


class Pending:
    """One MPI message under way."""

    __slots__ = ("buffer", "done", "peer", "receiving", "request")

    def __init__(
        self,
        request: Any,  # mpi4py's, which has no types
        peer: int,
        buffer: Any,  # memory that MPI reads or writes
        receiving: bool,
    ) -> None:
        self.request = request
        self.peer = peer
        self.buffer = buffer
        self.receiving = receiving
        self.done = False


class Standing:
    """Messages of one length from each process to all others whose requests are made once, for what is told again and again.

    Attributes
    ----------
    mine : bytearray
        What this process tells.
    frames : list of bytearray
        What every process told, in rank order.
    """

    TAG = 8  # no slot of a call, and no control message
    LENGTH = 64

    def __init__(self, mpi: ModuleType, comm: MPI.Intracomm, rank: int, size: int) -> None:
        self.mine = bytearray(self.LENGTH)
        self.frames = [self.mine if peer == rank else bytearray(self.LENGTH) for peer in range(size)]
        self.peers = [peer for peer in range(size) if peer != rank]
        arriving = [
            Pending(comm.Recv_init([self.frames[peer], mpi.BYTE], peer, self.TAG), peer, self.frames[peer], True)
            for peer in self.peers
        ]
        leaving = [
            Pending(comm.Send_init([self.mine, mpi.BYTE], peer, self.TAG), peer, self.mine, False)
            for peer in self.peers
        ]
        self.items = [*arriving, *leaving]
        self.requests = [item.request for item in self.items]
        self.begin, self.test = mpi.Prequest.Startall, mpi.Request.Testall
        self.error = mpi.Exception

    def set_done(self, done: bool) -> None:
        """Take down that no message is under way, or that all are."""
        for item in self.items:
            item.done = done

    def free(self) -> None:
        """Give the requests back to MPI, where none is under way."""
        if all(item.done for item in self.items):
            for request in self.requests:
                request.Free()


class Channel:
    """Messages between the processes of one MPI communicator, and the failure that ended it, if one did."""

    TURNS = 14  # bits of a tag for the sequence number
    REMEDY = "go on with shrink(survivors)"

    def __init__(self, mpi: ModuleType, comm: MPI.Intracomm, deadline: float) -> None:
        comm.Set_errhandler(mpi.ERRORS_RETURN)
        self._mpi = mpi
        self._comm = comm
        self.deadline = deadline
        self.sequence = 0
        self.rank, self.size = int(comm.Get_rank()), int(comm.Get_size())
        self.hosts = ["?"] * self.size
        self.record = Recorder(self.rank, self.size)
        self._tags = Tags(int(comm.Get_attr(mpi.TAG_UB) or 32767), self.TURNS)
        self._control = ControlMessages(mpi, comm)
        self._standing: Standing | None = None
        self._status = mpi.Status()
        self._failure: tuple[type[CommunicationError], str] | None = None
        self._statuses: dict[int, Status] = {}
        self._left: dict[int, tuple[str, float]] = {}
        self._goodbyes: dict[int, bool] = {}
        self._lost: set[int] = set()
        self._busy = 0.0  # when the last call began
        self._closed = False
        self._dead: set[int] = set()
        self._pids = [0] * self.size
        self._seen: set[int] = set()  # whose processes can be looked at from here
        self.debug = debug_mode()
        self.segment = SEGMENT  # equal on all ranks; tests set it low

    def who(self, rank: int) -> str:
        """A rank with its host, for messages."""
        return f"rank {rank} (host {self.hosts[rank]})"

    def know(self, introductions: Sequence[bytes]) -> None:
        """Take down who the ranks are: a process number and a host each."""
        for rank, payload in enumerate(introductions):
            pid, _, host = payload.decode(errors="replace").partition("\0")
            self._pids[rank], self.hosts[rank] = int(pid), host
        # in a container of its own a peer of this host may not be seen at all
        self._seen = {r for r in range(self.size) if self.hosts[r] == self.hosts[self.rank] and alive(self._pids[r])}

    # Its calls

    def begin(self, kind: str, signature: Signature, listens: bool = False) -> Call:
        """Record a call under the next sequence number, and admit it."""
        call = self.record.begin(self.sequence, kind, signature)
        self.sequence += 1
        self.admit(call, listens)
        return call

    def admit(self, call: Call, listens: bool = False) -> None:
        """Hear, before a call, whether a process has failed, and raise what it failed with. `listens`: the call waits for all
        others, and hears it then."""
        if self._statuses:
            self._statuses = {}
        try:
            away = call.start - self._busy > AWAY
            if self._failure is None and (away or not listens):
                self.listen(call, [])
                if away:  # MPI reads what has piled up only bit by bit
                    for _ in range(8):
                        self.listen(call, [])
            self._busy = call.start
            self.check()
        except BaseException as error:
            call.finish(f"failed with {type(error).__name__}")
            raise

    def check(self) -> None:
        """Raise the failure that ended this communicator, if one did."""
        if self._failure is not None:
            kind, text = self._failure
            raise kind(text)

    def transfer_slot(
        self,
        call: Call,
        pending: list[Pending],
        peer: int,
        buffer: Any,  # memory that MPI reads or writes
        receiving: bool,
        slot: int,
    ) -> None:
        """Start a message of a call. Its tag says which call, and which slot of it."""
        self.transfer(call, pending, peer, buffer, receiving, self._tags.tag(slot, call.sequence, call.signature))

    def transfer(
        self,
        call: Call,
        pending: list[Pending],
        peer: int,
        buffer: Any,  # memory that MPI reads or writes
        receiving: bool,
        tag: int,
    ) -> None:
        """Start a message, and add it to those under way."""
        item = Pending(None, peer, buffer, receiving)
        pending.append(item)  # first: an interrupt from here on must not lose a buffer that MPI writes into
        try:
            start = self._comm.Irecv if receiving else self._comm.Isend
            item.request = start([buffer, self._mpi.BYTE], peer, tag)
        except self._mpi.Exception as error:
            item.done = True
            self.translate(call, error, peer)

    def transfer_segments(
        self, call: Call, pending: list[Pending], peer: int, view: Bytes, receiving: bool, slot: int = Tags.EXCHANGE
    ) -> None:
        """A message in pieces that MPI can count; an empty one, whose size both sides know, does not travel.

        The number of pieces is part of the tag of an exchange: both sides cut alike, or don't meet.
        """
        if view.size <= self.segment:
            if view.size:
                self.transfer_slot(call, pending, peer, view, receiving, slot)
            return
        if slot == Tags.EXCHANGE:
            slot += (-(-view.size // self.segment) - 1) % 3
        for start in range(0, view.size, self.segment):
            self.transfer_slot(call, pending, peer, view[start : start + self.segment], receiving, slot)

    # How it waits

    def complete(self, call: Call, pending: list[Pending], first: int = 0, listening: bool = True) -> None:
        """Wait for all messages from `first` on, one after the other: MPI moves all of them whichever one is tested."""
        clock = time.perf_counter
        start = clock()
        spin = start + SPIN
        for item in pending[first:]:
            while not (item.done or self._is_done(call, item)):
                if clock() >= spin:
                    self._wait(call, pending, first, listening, start)
                    return

    def _wait(self, call: Call, pending: list[Pending], first: int, listening: bool, start: float) -> None:
        """The rest of a wait that began at `start` and was no short one."""
        clock = time.perf_counter
        listen = start + LISTEN
        drowsy = start + 4 * SPIN + sum([len(one.buffer) for one in pending[first:]]) / SLOWEST
        asking = [start + min(ASK, self.deadline / 4), start + self.deadline - min(1.0, self.deadline / 8)]
        for item in pending[first:]:
            while not self._is_done(call, item):
                now = clock()
                if now >= listen:
                    listen = now + LISTEN
                    self._look_around(call, pending, now, start, asking if listening else None)
                if now < drowsy:
                    os.sched_yield()
                else:
                    time.sleep(min(max((now - start) / 4, SLEEP[0]), SLEEP[1]))

    def _is_done(self, call: Call, item: Pending) -> bool:
        """Whether a message has gone through. The test is also what moves it on."""
        if not item.done:
            try:
                if item.request.Test(self._status):
                    self._received(call, item)
            except self._mpi.Exception as error:
                self.translate(call, error, item.peer, item)
        return item.done

    def _look_around(
        self, call: Call, pending: list[Pending], now: float, start: float, asking: list[float] | None
    ) -> None:
        """Hear what the others say of a wait that takes long, judge, and ask them where they are when it is time.

        `asking` holds the times to ask at: the first, and the last, which leaves time for the answers; None hears nobody.
        """
        waiting = self._sweep(call, pending)
        if asking is not None:
            self.listen(call, waiting)
            self.judge(call, waiting)
            if asking and now >= asking[0]:
                asking[:] = [due for due in asking[1:] if due > asking[0]]
                for peer in range(self.size):
                    if peer != self.rank:
                        self._control.send(peer, "where", **self.position(call, waiting))
        if waiting and now - start >= self.deadline:
            self._late(call, waiting)

    def _received(self, call: Call, item: Pending) -> None:
        """Mark a message as done. A received one must have the size that was expected."""
        item.done = True
        if item.receiving and (count := self._status.Get_count(self._mpi.BYTE)) != len(item.buffer):
            self._sizes_differ(
                call, item.peer, f"sent {count} bytes where rank {self.rank} receives {len(item.buffer)}"
            )

    def _sizes_differ(self, call: Call, peer: int, what: str) -> NoReturn:
        self.fail(
            CollectiveMismatchError, f"{self.who(peer)} {what}, in {call}. Both must plan the same "
            "moves: look for metadata (shape, dtype, layout) that depends on the rank."
        )  # fmt: skip

    def _sweep(self, call: Call, pending: list[Pending]) -> list[int]:
        """Test every message, and return the peers of those that are still under way."""
        for item in pending:
            self._is_done(call, item)
        return sorted({item.peer for item in pending if not item.done})

    def listen(self, call: Call, waiting: list[int]) -> None:
        """Read the control messages that are there, answer questions, and raise if one says that a process failed."""
        try:
            while (received := self._control.receive()) is not None:
                peer, message = received
                about, text = message["about"], str(message.get("text", ""))
                if about in ("where", "here"):
                    self._statuses[peer] = Status(message, time.perf_counter())
                    if about == "where":
                        self._control.send(peer, "here", **self.position(call, waiting, message, peer))
                elif about in ("left", "bye"):
                    self.note_left(peer, message)
                elif self._failure is not None:
                    continue
                elif about == "error":
                    self._failure = RemoteError, f"{self.who(peer)} failed with {text}. This rank was at {call}."
                elif about == "failed":
                    self._lost.update(int(rank) for rank in message["lost"])
                    self._failure = verdict.told(self.rank, peer, message, call)
        except self._mpi.Exception as error:
            self.translate(call, error, None)
        self.check()

    def judge(self, call: Call, waiting: list[int]) -> None:
        """Fail where what the others said proves that what this rank waits for will never come."""
        if not waiting:
            return
        now = time.perf_counter()
        for peer, status in self._statuses.items():
            what = self.conflict(call, peer, peer in waiting and now - status.seen > SETTLE, status)
            if what:
                text = verdict.mismatch(self.who(self.rank), str(call), self.who(peer), status.text, what)
                self.fail(CollectiveMismatchError, text)
        gone = [peer for peer in waiting if peer in self._left and now - self._left[peer][1] > SETTLE]
        if gone:
            told = "; ".join(f"{self.who(peer)} {self._left[peer][0]}" for peer in gone)
            self.fail(PeerLostError, verdict.left(self.rank, call, told), lost=gone)

    def _late(self, call: Call, waiting: list[int]) -> NoReturn:
        """Fail because the deadline has passed: the error says who is missing, or who is at another call."""
        call.finish("timed out")
        known = self._statuses
        silent = verdict.silent(waiting, known, self.rank)
        for peer in silent:  # data of a later call says that it passed this one
            if self._comm.Iprobe(peer, self._mpi.ANY_TAG, self._status):
                at = self.passed(call, int(self._status.Get_tag()))
                if at:
                    text = verdict.mismatch(
                        self.who(self.rank), str(call), self.who(peer), at, "it has sent data of that call already"
                    )
                    self.fail(CollectiveMismatchError, text)
        self.record.dump(f"{self.who(self.rank)} timed out in {call}")
        ring = self.record.format(last=8)
        if silent:
            names = ", ".join(f"{self.who(peer)}" for peer in silent)
            self.fail(
                PeerLostError, verdict.late(self.rank, call, self.deadline, names, self.REMEDY, ring), lost=silent
            )
        peer = waiting[0]
        place = known[peer].text if peer in known else str(call)
        what = f"each waits for the other, and after {self.deadline:g} s nothing has come"
        text = verdict.mismatch(self.who(self.rank), str(call), self.who(peer), place, what)
        self.fail(CollectiveMismatchError, f"{text}\n{ring}")

    # What another kind of calls says differently, besides `who`, `admit` and `judge`

    def position(
        self, call: Call, waiting: list[int], asked: dict[str, Any] | None = None, by: int = -1
    ) -> dict[str, Any]:
        """Where this rank is: sent along when it asks a peer where that is, and as the answer to a peer that asked."""
        return Status.of(call, waiting)

    def note_left(self, peer: int, message: dict[str, Any]) -> None:
        """Take down that a peer gave the communicator up, or that it came to its end."""
        self._left.setdefault(peer, (str(message["text"]), time.perf_counter()))
        if message["about"] == "bye":
            self._goodbyes[peer] = bool(message["clean"])

    def conflict(self, call: Call, peer: int, settled: bool, status: Status) -> str:
        """Why a peer's place shows that programs differ, or "". `settled`: none of its data can be under way any more."""
        if settled and status.sequence > call.sequence:
            return "it passed that call without this rank's message"
        return "the calls differ" if status.differs(call) else ""

    def passed(self, call: Call, tag: int) -> str:
        """The call that data with this tag belongs to, or "" where it does not come after `call`."""
        at = self._tags.sequence(tag, call.sequence)
        return f"call {at}" if tag & 7 and at > call.sequence else ""

    def told_late(self, peer: int, message: dict[str, Any]) -> tuple[type[CommunicationError], str]:
        """The failure that a peer told of when this rank had made its last call."""
        return PeerLostError, "another rank failed"

    def answer_late(self, peer: int, message: dict[str, Any]) -> None:
        """Answer a peer that asks where this rank is after its last call."""

    def unsaid(self) -> str:
        """The failure that this rank heard of after its last call, so that its program has not seen it; "" without one."""
        return ""

    def shown(self, call: Call) -> tuple[Call, int]:
        """What a rank is at while it compares a call, and the tag of what it shows."""
        shown = Call(call.sequence, call.kind, Signature("compare", "", call.signature.site))
        return shown, self._tags.tag(Tags.DEBUG, shown.sequence, shown.signature)

    # How it fails

    def translate(self, call: Call, error: MPI.Exception, peer: int | None, item: Pending | None = None) -> NoReturn:
        """Fail with what an error of the MPI library means."""
        mpi, kind = self._mpi, error.Get_error_class()
        if kind == mpi.ERR_TRUNCATE and item is not None:
            item.done = True
            wanted = f"more than the {len(item.buffer)} bytes that rank {self.rank} receives"
            self._sizes_differ(call, item.peer, f"sent {wanted}")
        lost = verdict.failed_ranks(mpi, self._comm) if kind in verdict.failure_classes(mpi) else []
        lost = lost or ([] if peer is None else [peer])
        names = ", ".join(f"{self.who(one)}" for one in lost) or "a process"
        self.fail(
            PeerLostError,
            f"{names} was lost: MPI says '{error}', in {call}; {self.REMEDY}, or start a new job.",
            lost=lost,
        )

    def fail(self, kind: type[CommunicationError], text: str, lost: Sequence[int] = ()) -> NoReturn:
        """Give the communicator up, tell the others so that they don't wait for their own deadlines, and raise."""
        if self._failure is None:
            self._failure = kind, text
            self._lost.update(lost)
            short = text.partition("\n")[0][:TEXT]
            self.tell("failed", type=kind.__name__, text=short, lost=sorted(self._lost)[:256])
        raise kind(text)

    def broke(self, call: Call, pending: list[Pending], error: BaseException) -> None:
        """Give the communicator up after an error in a call, an interrupt too. Messages under way keep their buffers."""
        if not call.end:
            call.finish(f"failed with {type(error).__name__}")
        GRAVEYARD.extend(item for item in pending if not item.done)
        if self._failure is None:
            self.failed_here(error)

    def failed_here(self, error: BaseException) -> None:
        """Take down that this process itself failed, and tell the others."""
        text = in_words(error)[:TEXT]
        if self._failure is None:
            self._failure = RemoteError, f"this communicator is given up since this rank itself failed with {text}"
            self.tell("error", text=text)

    def tell(self, about: str, **content: Any) -> None:
        """Send a control message to every other rank. It waits for none of them."""
        for peer in range(self.size):
            if peer != self.rank:
                self._control.send(peer, about, **content)

    def report(self, error: BaseException) -> None:
        """Tell the others that this process itself failed. They are told once."""
        self.failed_here(error)

    def abort(self, reason: str) -> None:
        """Give the communicator up without waiting for anyone."""
        text = f"rank {self.rank} gave this communicator up: {reason or 'no reason was given'}."
        self._failure = PeerLostError, f"{text} {self.REMEDY.capitalize()}, or make a new one."
        self.tell("left", text=f"aborted the communicator ({reason})"[:TEXT], clean=False)

    # What stands from call to call

    @property
    def standing(self) -> Standing:
        """The requests of what is told again and again, made when they are first used."""
        if self._standing is None:
            self._standing = Standing(self._mpi, self._comm, self.rank, self.size)
        return self._standing

    def free_standing(self) -> None:
        """Give them back to MPI, which counts them when it ends."""
        standing, self._standing = self._standing, None
        if standing is not None and self._failure is None:
            standing.free()

    # How it ends

    def farewell(self, text: str, clean: bool) -> None:
        """Tell the peers that this process has come to its end; called by the exit handler."""
        self.free_standing()
        self.tell("bye", text=text[:TEXT], clean=clean)

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
                    self.hear(peer)
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

    def hear(self, peer: int) -> None:
        """At the end: a peer's goodbye, if it is there, or its failure."""
        try:
            while (received := self._control.receive(peer)) is not None:
                if received[1]["about"] in ("left", "bye"):
                    self.note_left(*received)
                elif received[1]["about"] in ("error", "failed"):
                    self._failure = self._failure or self.told_late(*received)
                elif received[1]["about"] == "where":
                    self.answer_late(*received)
        except self._mpi.Exception:
            self._dead.add(peer)

    def _is_dead(self, peer: int) -> bool:
        """Whether nothing more is to be expected of a peer. Of a stopped one, and of another host's, only once it is late."""
        if peer in self._dead:
            return True
        return peer in self._lost and not (peer in self._seen and self._can_end(peer))

    def _can_end(self, peer: int) -> bool:
        """False where a peer of this host is seen to be stopped or gone."""
        return peer not in self._seen or alive(self._pids[peer])
