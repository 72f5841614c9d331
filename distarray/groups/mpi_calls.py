"""Bytes between the processes of a process group through mpi4py: calls of two kinds on an MPI channel.

Collectives are counted by process, messages of two processes by ordered pair, since not all processes make those; a call
whose arguments were refused counts too, or each later one would meet the one before it on another process. The count and
a hash of what the call is (method, operation, data type, root, shape) are in the tag of each message. So the data of
one call never lands in another's arrays, and what lies there unfetched says that two processes came to different calls;
each then asks the other for its own text. After any failure the wire is given up, all are told, and the buffers of what
was under way are kept for good.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from distarray.cluster import detect, why_apart
from distarray.comm.base import Signature
from distarray.comm.deadlines import BOOTSTRAP, bootstrap_timeout, seconds
from distarray.comm.mpi import verdict
from distarray.comm.mpi.channel import AWAY, SETTLE, SLEEP, Channel, Pending
from distarray.comm.mpi.control import TEXT, Status, Tags
from distarray.comm.mpi.exit import GRAVEYARD, forget, load_mpi, register
from distarray.comm.mpi.forming import Forming, duplicated
from distarray.comm.mpi.telling import all_gather, barrier, compare, introduce
from distarray.comm.record import Call, in_words, summary
from distarray.devices.arrays import DeviceArray
from distarray.errors import (
    CollectiveMismatchError,
    CommunicationError,
    PeerLostError,
    RemoteError,
    RendezvousError,
    UnsupportedError,
)
from distarray.groups.compared import DIFFER, SPARSE, What, message

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["MpiWire", "connect_mpi"]

LOOK = 0.05
"""Seconds between looks at what else a silent process may have sent."""
ANSWER = 1.0
"""Seconds that a process waits for another's text of a call."""
LETTER = 512
"""Bytes of what `letter` sends, with two for its length."""
DATA, PAIR = Tags.EXCHANGE, Tags.EXCHANGE + 1
"""The slots of tags for collectives and for messages of two processes."""
TOGETHER = (DATA, Tags.GATHER, Tags.REST)
"""The slots whose sequence number is that of a collective."""
MESSAGE = "message"

POST = message("post", None)
REFUSED = -1
"""In place of what is hashed of a call: a collective whose arguments were refused."""


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
    register(Forming(world))  # what is refused below may end this process
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
    return MpiWire(duplicated(world, bootstrap_timeout(), BOOTSTRAP[0]), deadline)


class PairCall(Call):
    """A call of two processes: the other one, and the numbers of what goes there and comes from it, -1 for nothing.

    Its sequence number is that of the next collective.
    """

    __slots__ = ("into", "out", "peer")

    def __init__(self, sequence: int, signature: Signature, peer: int, out: int, into: int) -> None:
        super().__init__(sequence, MESSAGE, signature)
        self.peer, self.out, self.into = peer, out, into

    def __str__(self) -> str:
        ways = [f"{self.out} to"] * (self.out >= 0) + [f"{self.into} from"] * (self.into >= 0)
        return summary(f"message {' and '.join(ways)} rank {self.peer}", self.signature)


class _Making:
    """``with wire.making(...)``: an exception inside gives the wire up."""

    def __init__(self, wire: MpiWire) -> None:
        self._wire = wire

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._wire._ended(error)


def _at_end(end: dict[str, Any]) -> str:
    """What a process made last, and the exception that ended it."""
    said = str(end.get("text", ""))
    return f"{end['call']}, and {said}" if " with " in said else f"{end['call']} at its end"


class MpiWire(Channel):
    """One process's end.

    A call is counted (`count`, `count_message`) before its arguments are checked, and begun (`making`) after that.

    Parameters
    ----------
    comm : mpi4py.MPI.Comm
        A communicator of this wire alone.
    deadline : float
        Seconds that a call waits.
    """

    REMEDY = "restart the processes"
    TURNS = 12  # nobody runs ahead by 2048 calls without a message to the one that lags

    def __init__(self, comm: MPI.Intracomm, deadline: float) -> None:
        size = int(comm.Get_size())
        self._sent, self._got = [0] * size, [0] * size  # messages counted to and from each process
        self._number = 0  # of the collective that was counted last
        self._pair: tuple[int, int, int] | None = None  # (peer, out, into) of the message that was counted last
        self._entered = ""  # the method that was counted and has not begun
        self._made = 0  # what was hashed of the last collective; REFUSED where its arguments were
        self._ends: dict[int, dict[str, Any]] = {}  # what each process that came to its end made last
        self._numbers = 0, 0  # what is hashed of the call being made: outward, inward
        self._tag = 0  # of its messages, if it is a collective
        self._pending: list[Pending] = []
        self._mail: list[Pending] = []  # letters that are perhaps still on their way
        self._suspects: dict[int, float] = {}  # who has sent data of a later call, since when
        self._mutual: dict[int, float] = {}  # who waits for this process while it waits for them, since when
        self._looked = 0.0
        self._block = _Making(self)
        self._unsaid: tuple[type[CommunicationError], str] | None = None
        self._call = Call(0, "collective", Signature("init_process_group"))
        super().__init__(load_mpi(), comm, seconds(deadline))
        introduce(self)

    def who(self, rank: int) -> str:
        return f"rank {rank} on {self.hosts[rank]}"

    # ---- calls

    def count(self, method: str) -> None:
        """All processes come to a collective now."""
        if self._entered:
            self._note_refused()
        self._entered, self._pair = method, None
        self._number = self.sequence
        self.sequence += 1

    def count_message(self, method: str, peer: int, out: bool, into: bool) -> None:
        """This process sends to a peer, receives from it, or both."""
        if self._entered:
            self._note_refused()
        self._entered = method
        self._pair = peer, self._sent[peer] if out else -1, self._got[peer] if into else -1
        self._sent[peer] += out
        self._got[peer] += into

    def making(self, what: What, inward: int | None = None) -> _Making:
        """Begin the call that was counted last, once its arguments are known to be good; a block of rounds follows.

        `inward` is what is hashed of the message that comes back, where it is not the one that goes.
        """
        signature, number = what
        self._numbers = number, number if inward is None else inward
        if self._pair is None:
            call = self.record.add(Call(self._number, "collective", signature))
            self._tag = self._tags.join(DATA, self._number, number)
            self._made = number
        else:
            call = self.record.add(PairCall(self.sequence, signature, *self._pair))
            self._tag = 0
        self._entered = ""
        self.admit(call)
        if self.debug and self._tag and self.size > 1:
            compare(self, call)
        self._call = call
        return self._block

    def usable(self) -> None:
        if self._closed:
            raise CommunicationError("this process group was stopped; make a new one with init_process_group")
        if self._failure is not None:
            raise PeerLostError(f"this process group was given up: {self._failure[1]}")

    def round(self, sends: Sequence[tuple[int, Any]], receives: Sequence[tuple[int, Any]]) -> None:
        """Send and receive 1-d contiguous arrays, all at once; returns when all are sent and filled."""
        call, pending = self._call, self._pending
        first = len(pending)
        for peer, array in receives:
            pieces = self._pieces(array)
            tag = self._tag or self._pair_tag(False, len(pieces))
            for piece in pieces:
                self.transfer(call, pending, peer, piece, True, tag)
        for peer, array in sends:
            pieces = self._pieces(array)
            tag = self._tag or self._pair_tag(True, len(pieces))
            for piece in pieces:
                self.transfer(call, pending, peer, piece, False, tag)
        self.complete(call, pending, first)
        del pending[first:]

    def letter(self, peer: int, payload: bytes) -> None:
        """Within a call, send a few bytes without waiting for the peer."""
        if len(payload) > LETTER - 2:
            raise ValueError(f"a letter of {len(payload)} bytes is too long; {LETTER - 2} at most, or send an array")
        self._settled()
        frame = (len(payload).to_bytes(2, "little") + payload).ljust(LETTER, b"\0")
        self.transfer(self._call, self._pending, peer, frame, False, self._tag or self._pair_tag(True))

    def read(self, peer: int) -> bytes:
        """Within a call, the peer's letter."""
        call, pending, frame = self._call, self._pending, bytearray(LETTER)
        first = len(pending)
        self.transfer(call, pending, peer, frame, True, self._tag or self._pair_tag(False))
        self.complete(call, pending, first)
        return bytes(frame[2 : 2 + int.from_bytes(frame[:2], "little")])

    def post(self, peer: int, payload: bytes) -> None:
        """Send a few bytes without waiting for the peer, where the calls are another channel's."""
        self.count_message("post", peer, True, False)
        with self.making(POST):
            self.letter(peer, payload)

    def fetch(self, peer: int) -> bytes:
        """The next bytes that `peer` posted."""
        self.count_message("fetch", peer, False, True)
        with self.making(POST):
            return self.read(peer)

    def all_gather(self, payload: bytes, signature: Signature) -> list[bytes]:
        """Every process's payload, in rank order."""
        return all_gather(self, payload, signature)

    def barrier(self, signature: Signature) -> None:
        """Wait until every process has come here."""
        barrier(self, signature)

    def _ended(self, error: BaseException | None) -> None:
        call, pending = self._call, self._pending
        if error is None:
            call.finish()
            if pending:
                self._mail += [item for item in pending if not item.done]
        else:
            self.broke(call, pending, error)
        if pending:
            self._pending = []

    def _pair_tag(self, outward: bool, pieces: int = 1) -> int:
        """The tag of a message of two. The pieces count, since the two may plan different sizes."""
        assert self._pair is not None
        sequence = self._pair[1 if outward else 2]
        return self._tags.join(PAIR, sequence, self._numbers[0 if outward else 1] + pieces - 1)

    def _pieces(self, array: DeviceArray) -> list[Any]:
        data = np.asarray(array).view(np.uint8)
        if data.nbytes <= self.segment:
            return [data]
        return [data[i : i + self.segment] for i in range(0, data.nbytes, self.segment)]

    def _note_refused(self) -> None:
        """A call was counted, and raised before it began."""
        signature = Signature(self._entered, "its arguments were refused, and it sent nothing")
        pair, self._entered = self._pair, ""
        if pair is None:
            self._made = REFUSED
        call = PairCall(self.sequence, signature, *pair) if pair else Call(self._number, "collective", signature)
        self.record.add(call).finish("refused")

    # ---- the end

    def report(self, error: BaseException) -> None:
        if not self._closed:
            super().report(error)

    def abort(self, reason: str) -> None:
        if not self._closed:
            super().abort(reason)

    def close(self) -> None:
        """Release the communicator, once all processes have come; not after a failure, when they may not.

        One that comes later than the deadline may only be busy by itself: the communicator is then left to the end of the
        process, which waits for it.
        """
        if self._closed:
            return
        if self._failure is None:
            self.tell("left", text="stopped this process group", **self._end())
            if self._all_left() and not self._differs() and self._control.settle() and self._settled():
                forget(self)
                self._comm.Free()
        self._closed = True
        unsaid, self._unsaid = self._unsaid, None
        if unsaid is not None:
            kind, text = unsaid
            raise kind(text)

    def farewell(self, text: str, clean: bool) -> None:
        error = getattr(sys, "last_value", None)
        if self._entered and error is not None and self._failure is None:
            # the others made the call that was refused here, and its exception ends this program
            self.tell("error", text=in_words(error)[:TEXT])
        self.tell("bye", text=text[:TEXT], clean=clean, **({} if self._failure is not None else self._end()))

    def _end(self) -> dict[str, Any]:
        """What this process made last, which the others compare at the end: data that nobody waits for tells of no difference."""
        if self._entered:
            self._note_refused()
        calls = (str(call) for call in reversed(self.record.calls()) if not isinstance(call, PairCall))
        self._ends[self.rank] = {"sequence": self.sequence, "made": self._made, "call": next(calls, "no call")[:LETTER]}
        return self._ends[self.rank]

    def _differs(self) -> bool:
        """At the end: whether the last collectives of the processes differ, which is then what this one has to say."""
        if self._failure is not None or self._unsaid is not None or len(self._ends) < self.size:
            return self._unsaid is not None
        first, *others = (self._ends[rank] for rank in range(self.size))
        for rank, end in enumerate(others, 1):
            if (end["sequence"], end["made"]) != (first["sequence"], first["made"]):
                self._unsaid = (
                    CollectiveMismatchError,
                    verdict.mismatch(self.who(0), _at_end(first), self.who(rank), _at_end(end), DIFFER),
                )
                return True
        return False

    def unsaid(self) -> str:
        return self._unsaid[1] if self._unsaid is not None else ""

    def _last(self) -> Call:
        calls = self.record.calls()
        return calls[-1] if calls else self._call

    def answer_late(self, peer: int, message: dict[str, Any]) -> None:
        self._control.send(peer, "here", **self.position(self._last(), [], message, peer))

    def told_late(self, peer: int, message: dict[str, Any]) -> tuple[type[CommunicationError], str]:
        call = self._last()
        if message["about"] == "failed":
            self._unsaid = verdict.told(self.rank, peer, message, call)
        else:
            text = str(message.get("text", ""))
            self._unsaid = RemoteError, f"{self.who(peer)} failed with {text}. This rank's last call was {call}."
        return self._unsaid

    def note_left(self, peer: int, message: dict[str, Any]) -> None:
        """Count a peer that has stopped the group as gone: it may have freed the communicator, and can say no goodbye in it."""
        super().note_left(peer, message)
        if "made" in message:
            self._ends.setdefault(peer, message)
        self._goodbyes.setdefault(peer, bool(message.get("clean", True)))

    def _all_left(self) -> bool:
        """Wait for all others to stop this group too, the deadline at most."""
        due, pause = time.monotonic() + self.deadline, SLEEP[0]
        while True:
            for peer in range(self.size):
                if peer != self.rank and peer not in self._left:
                    self.hear(peer)
            if len(self._left) == self.size - 1:
                return True
            if self._failure is not None or time.monotonic() > due:
                return False
            time.sleep(pause)
            pause = min(2 * pause, SLEEP[1])

    def leave(self) -> bool:
        left = super().leave()
        self._differs()
        if self._settled():
            return left
        GRAVEYARD.extend(self._mail)
        return False

    def _settled(self) -> bool:
        """Whether all letters have gone out."""
        if self._mail:
            try:
                self._mail = [item for item in self._mail if not item.request.Test()]
            except self._mpi.Exception:
                return False
        return not self._mail

    # ---- what the others are at

    def admit(self, call: Call, listens: bool = False) -> None:
        """Before a call: news, and data of an earlier call that nobody here took."""
        mpi, status = self._mpi, self._status
        try:
            self.usable()
            if self._statuses:
                self._statuses = {}
            if self._suspects or self._mutual:
                self._suspects, self._mutual = {}, {}
            try:
                found = self._comm.Iprobe(mpi.ANY_SOURCE, mpi.ANY_TAG, status)
            except mpi.Exception as error:
                self.translate(call, error, None)
            if found:  # one look for both, where there is nothing
                self._weigh(call, status.Get_source(), status.Get_tag(), [])
                self.listen(call, [])
            if call.start - self._busy > AWAY:
                for _ in range(8):
                    self.listen(call, [])
            self._busy = call.start
        except BaseException as error:
            call.finish(f"failed with {type(error).__name__}")
            raise

    def judge(self, call: Call, waiting: list[int]) -> None:
        now = time.perf_counter()
        if now - self._looked > LOOK:
            self._looked = now
            for peer in [peer for peer in self._suspects if peer not in waiting]:
                del self._suspects[peer]
            for peer in waiting:
                if self._comm.Iprobe(peer, self._mpi.ANY_TAG, self._status):
                    self._weigh(call, peer, self._status.Get_tag(), waiting)
                else:
                    self._suspects.pop(peer, None)
        super().judge(call, waiting)

    def _weigh(self, call: Call, peer: int, tag: int, waiting: list[int]) -> None:
        """Whether a message that lies here, the first of its peer, proves that the peer is at another call."""
        slot = tag & 7
        if slot == PAIR:
            ours = isinstance(call, PairCall) and call.peer == peer and call.into >= 0
            near = call.into if isinstance(call, PairCall) and ours else self._got[peer]
            rounds = range(64 if call.signature.detail == SPARSE else 0)  # dense: its receive is posted, and not met
            tags = {self._tags.join(PAIR, near, self._numbers[1] + pieces) for pieces in rounds}
        elif slot in TOGETHER:
            ours = call.kind != MESSAGE
            near = call.sequence if ours else self.sequence
            tags = {self._tags.tag(slot, near, call.signature)}
        else:
            return
        at = self._tags.sequence(tag, near)
        if at < near:
            self._clash(self._past(peer, at, slot == PAIR), call, peer, "it sent data that no call here took")
        elif at == near and ours and tag not in tags and (slot != PAIR or waiting):
            self._clash(call, call, peer, DIFFER)
        elif at > near and ours and peer in waiting:
            now = time.perf_counter()
            since = self._suspects.setdefault(peer, now)
            if since == now:
                self._control.send(peer, "where", **self.position(call, waiting))
            elif now - since > SETTLE:  # what is being received may be overtaken by the next for a moment
                self._clash(call, call, peer, "it has sent data of a later call already")
        elif peer in self._suspects:
            del self._suspects[peer]

    def _past(self, peer: int, at: int, pair: bool) -> Call:
        """The call here that data of a peer belonged to."""
        asked = {"kind": MESSAGE, "pair": [self.rank, at, -1]} if pair else {"kind": "", "sequence": at}
        found = self._recall(asked, peer)
        if found is not None:
            return found
        signature = Signature("a call", "of more than 64 calls ago")
        return PairCall(self.sequence, signature, peer, -1, at) if pair else Call(at, "collective", signature)

    def _recall(self, asked: dict[str, Any], peer: int) -> Call | None:
        """This process's call that a peer's call should have met."""
        if self._entered:
            self._note_refused()
        for call in reversed(self.record.calls()):
            if asked["kind"] != MESSAGE:
                if not isinstance(call, PairCall) and call.sequence == asked["sequence"]:
                    return call
            elif isinstance(call, PairCall) and call.peer == peer:
                _, out, into = asked["pair"]
                if (out >= 0 and call.into == out) or (into >= 0 and call.out == into):
                    return call
        return None

    def position(
        self, call: Call, waiting: list[int], asked: dict[str, Any] | None = None, by: int = -1
    ) -> dict[str, Any]:
        said = Status.of(call, waiting)
        if isinstance(call, PairCall):
            said["pair"] = [call.peer, call.out, call.into]
        if asked is None:
            said["asked"] = time.monotonic()
        else:
            said["asked"] = asked["asked"]
            said["then"] = str(self._recall(asked, by) or call)[:TEXT]
        return said

    def conflict(self, call: Call, peer: int, settled: bool, status: Status) -> str:
        theirs, ours = status.kind == MESSAGE, isinstance(call, PairCall)
        if not ours:
            if settled and status.sequence > call.sequence:
                then = f"; what it made in its place: {status.then}" if status.then not in ("", status.text) else ""
                return f"it passed that call without this rank's message{then}"
            if not theirs:
                return DIFFER if status.differs(call) else ""
        if not settled or self.rank not in status.awaits:
            return ""
        if isinstance(call, PairCall) and theirs:
            meet = status.pair[1:] == [call.into, call.out]
        else:
            meet = ours and status.sequence < call.sequence  # it still ends a collective that is done here
        if meet:
            return ""
        if peer not in self._mutual:
            # It may have got since what it waited for, and be at work: ask anew, when that must have come to it
            self._mutual[peer] = time.monotonic()
            self._control.send(peer, "where", **self.position(call, [peer]))
        elif status.then and status.asked > self._mutual[peer]:
            return "each waits for the other"
        return ""

    def passed(self, call: Call, tag: int) -> str:
        return super().passed(call, tag) if tag & 7 in TOGETHER and call.kind != MESSAGE else ""

    def _clash(self, mine: Call, call: Call, peer: int, what: str) -> NoReturn:
        """Fail, since `mine` is not the call that the peer made: the error names both."""
        theirs = self._inquire(mine, call, peer)
        text = verdict.mismatch(self.who(self.rank), str(mine), self.who(peer), theirs, what)
        self.fail(CollectiveMismatchError, text)

    def _inquire(self, mine: Call, call: Call, peer: int) -> str:
        """What a peer made in place of `mine`, in its own words. Returns soon; raises if it says that it has failed."""
        self._statuses.pop(peer, None)
        self._control.send(peer, "where", **self.position(mine, []))
        due = time.perf_counter() + min(ANSWER, self.deadline / 4)
        while time.perf_counter() < due:  # one that stops the group waits for the others, and answers
            self.listen(call, [])
            status = self._statuses.get(peer)
            if status is not None and status.then:
                return status.then
            time.sleep(SLEEP[0])
        return "another call, and it did not answer which"

    def shown(self, call: Call) -> tuple[Call, int]:
        return call, Tags.DEBUG  # whatever its number: calls that are one off are to meet
