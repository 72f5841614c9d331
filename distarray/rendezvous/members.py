"""What the rendezvous store decides: which ranks are there, what was set, who waits for what, and who survives.

The server's one thread keeps these books, which know no sockets and take no locks; their clock is time.monotonic(). Requests
that wait are answered when what they wait for comes, or at their deadline with the names of the ranks that are missing. Where
several are released at once rank 0 comes last, because its process may end as soon as it is, and the server with it.
"""

from __future__ import annotations

import heapq
import itertools
import struct
import time
from collections.abc import Iterable
from typing import Any

from distarray.rendezvous.connection import Answers, Connection
from distarray.rendezvous.frames import LENGTH, MAX_KEY, MAX_MEETING, MAX_VALUE, Frame, Op, WireError

__all__ = ["Members"]

MAX_STORED = 64 << 20
MAX_TEXT = 4000
MAX_WAIT = 7 * 24 * 3600.0


class _Waiter:
    """A request that is not answered yet."""

    def __init__(self, connection: Connection, message: Frame, subject: tuple[Any, ...], seconds: float) -> None:
        self.connection = connection
        self.request = message.request
        self.op = message.op
        self.subject = subject
        self.seconds = seconds
        self.source = -1  # the only rank that can set what a GET waits for, if that is known
        self.value = b""  # what it brought to a meeting
        self.done = False

    @property
    def rank(self) -> int:
        return self.connection.rank


class Members:
    """The state of one group, from its start to the end of rank 0."""

    def __init__(self, size: int, where: str, server: Answers) -> None:
        self.size = size
        self.where = where
        self.group = tuple(range(size))  # who counts: all, later the survivors
        self.failure: tuple[int, str] | None = None
        self._server = server
        self._values: dict[str, tuple[bytes, bytes]] = {}
        self._stored = 0
        self._here: dict[int, Connection] = {}
        self._names: dict[int, str] = {}
        self._gone: dict[int, str] = {}  # those that were here, with the reason
        self._lost: set[int] = set()  # those of them that did not take their leave
        self._waiting: dict[tuple[Any, ...], dict[int, _Waiter]] = {}  # by rank
        self._by_rank: dict[int, _Waiter] = {}
        self._dues: list[tuple[float, int, _Waiter]] = []
        self._order = itertools.count()
        self._agreed: dict[int, tuple[int, ...]] = {}
        self._agreements: dict[int, float] = {}

    # -- what the server calls -------------------------------------------------------------------------------------------

    def handle(self, connection: Connection, message: Frame) -> None:
        """One message of an authenticated connection; WireError drops it."""
        if not connection.joined:
            if message.op is not Op.JOIN:
                raise WireError("a request before joining")
            self._join(connection, message)
            return
        handlers = {
            Op.SET: self._set, Op.GET: self._get, Op.WAIT: self._wait, Op.MEET: self._meet, Op.FAIL: self._fail,
            Op.AGREE: self._agree, Op.LEAVE: self._leave,
        }  # fmt: skip
        if message.op not in handlers:
            raise WireError(f"{message.op.name} is no request")
        handlers[message.op](connection, message)

    def lose(self, connection: Connection, reason: str) -> None:
        """A member's connection is gone."""
        rank = connection.rank
        if self._here.get(rank) is connection:
            del self._here[rank]
            self._gone[rank] = f"lost: its connection {reason}"
            self._lost.add(rank)
            self._changed(rank)

    def next_due(self) -> float | None:
        while self._dues and self._dues[0][2].done:
            heapq.heappop(self._dues)
        return self._dues[0][0] if self._dues else None

    def expire(self, now: float) -> None:
        """Answer the requests whose deadline has passed."""
        while (due := self.next_due()) is not None and due <= now:
            waiter = heapq.heappop(self._dues)[2]
            if waiter.op is Op.AGREE:
                self._fix(waiter.subject[1])
            else:
                self._answer(waiter, Op.ERROR, self._late(waiter).encode())

    def everyone_told(self) -> bool:
        """Whether nobody is left to hear of a failure."""
        return self.failure is None or all(rank in self._names for rank in self.group)

    @staticmethod
    def numbers(fields: tuple[bytes, ...], layout: str) -> tuple[Any, ...]:
        """The numbers in a message's first field."""
        try:
            return struct.unpack(layout, fields[0])
        except (IndexError, struct.error):
            raise WireError("a request without its numbers") from None

    # -- requests --------------------------------------------------------------------------------------------------------

    def _join(self, connection: Connection, message: Frame) -> None:
        rank = connection.rank
        name = _text(message.fields[0] if message.fields else b"", 300)
        problem = ""
        if connection.size != self.size:
            problem = (
                f"this process says that the group has {connection.size} processes, rank 0 at {self.where} says "
                f"{self.size}; start all with the same number"
            )
        elif not 0 <= rank < self.size:
            problem = f"there is no rank {rank} in a group of {self.size}; ranks are 0 to {self.size - 1}"
        elif rank in self._names:
            problem = (
                f"two processes say that they are rank {rank} of the store at {self.where}: {self._names[rank]} and {name}; "
                "give each process its own rank, or two jobs on one machine their own DISTARRAY_PORT"
            )
            if len(self._names) < self.size:  # who is the right one cannot be known: no group must form around either
                self._record(rank, problem)
        if problem:
            self._server.reply(connection, Op.ERROR, message.request, problem.encode())
            self._server.finish(connection)
            return
        connection.joined = True
        self._here[rank] = connection
        self._names[rank] = name
        self._server.reply(connection, Op.DONE, message.request)
        if self.failure is not None:
            self._server.reply(connection, Op.FAILURE, 0, self.failure[1].encode())
        self._changed(rank)

    def _set(self, connection: Connection, message: Frame) -> None:
        if len(message.fields) != 3 or message.fields[1] not in (b"v", b"e"):
            raise WireError("a SET of another form")
        key, kind, value = _key(message.fields[0]), message.fields[1], message.fields[2]
        if len(value) > MAX_VALUE:
            raise WireError("a value above the bound")
        old = len(self._values[key][1]) if key in self._values else 0
        if self._stored - old + len(value) > MAX_STORED:
            self._error(
                connection, message, f"the store holds {self._stored} bytes and takes no more; it is for small values"
            )
            return
        self._stored += len(value) - old
        if kind == b"e":
            value = f"{self.name(connection.rank)} set an error as {key!r}: {_text(value, MAX_TEXT)}".encode()
        self._values[key] = (kind, value)
        self._server.reply(connection, Op.DONE, message.request)
        for waiter in self._released(("get", key)):
            self._answer(waiter, Op.DONE if kind == b"v" else Op.ERROR, value)

    def _get(self, connection: Connection, message: Frame) -> None:
        seconds, source = self.numbers(message.fields, "!dq")
        if len(message.fields) != 2:
            raise WireError("a GET of another form")
        key = _key(message.fields[1])
        if key in self._values:
            kind, value = self._values[key]
            self._server.reply(connection, Op.DONE if kind == b"v" else Op.ERROR, message.request, value)
        elif source in self._gone:
            self._error(connection, message, f"{key!r} will not come: {self.name(source)}")
        else:
            waiter = self._enlist(connection, message, ("get", key), seconds)
            if waiter is not None:
                waiter.source = source

    def _wait(self, connection: Connection, message: Frame) -> None:
        (seconds,) = self.numbers(message.fields, "!d")
        if self._enlist(connection, message, ("wait",), seconds) is not None:
            self._check_wait()

    def _meet(self, connection: Connection, message: Frame) -> None:
        (seconds,) = self.numbers(message.fields, "!d")
        if len(message.fields) != 4 or len(message.fields[2]) % 4:
            raise WireError("a MEET of another form")
        value = message.fields[3]
        if len(value) > MAX_VALUE:
            raise WireError("a value above the bound")
        ranks = struct.unpack(f"!{len(message.fields[2]) // 4}I", message.fields[2]) or self.group
        if connection.rank not in ranks:
            self._error(
                connection, message, f"rank {connection.rank} is at a barrier of ranks {_list(ranks)}, not its own"
            )
            return
        subject = ("barrier", _key(message.fields[1]), ranks)
        waiter = self._enlist(connection, message, subject, seconds)
        if waiter is not None:
            waiter.value = value
            self._check_meeting(subject)

    def _fail(self, connection: Connection, message: Frame) -> None:
        text = _text(message.fields[0] if message.fields else b"", MAX_TEXT)
        self._record(connection.rank, f"{self.name(connection.rank)} failed: {text}")

    def _agree(self, connection: Connection, message: Frame) -> None:
        epoch, seconds = self.numbers(message.fields, "!qd")
        if epoch in self._agreed:
            self._server.reply(connection, Op.DONE, message.request, _ranks(self._agreed[epoch]))
            return
        if not 0 <= seconds <= MAX_WAIT:
            raise WireError(f"a wait of {seconds} s")
        if connection.rank not in self.group:
            self._error(
                connection, message, f"{self.name(connection.rank)} is no longer in the group of {_list(self.group)}"
            )
            return
        if ("agree", epoch) not in self._waiting:
            self._agreements[epoch] = time.monotonic() + _shortened(seconds)  # the first to report starts the clock
        due = self._agreements[epoch]
        self._enlist(connection, message, ("agree", epoch), seconds, due)
        self._check_agreement(epoch)

    def _leave(self, connection: Connection, message: Frame) -> None:
        rank = connection.rank
        if self._here.get(rank) is connection:
            del self._here[rank]
            self._gone[rank] = "it has closed the store"
            self._changed(rank)  # no answer: nobody reads it any more

    # -- waiting ---------------------------------------------------------------------------------------------------------

    def _enlist(
        self,
        connection: Connection,
        message: Frame,
        subject: tuple[Any, ...],
        seconds: float,
        due: float | None = None,
    ) -> _Waiter | None:
        """Note a request that waits; None where a failure already answers it. A rank waits for one thing at a time."""
        if self.failure is not None and message.op is not Op.AGREE:
            self._error(connection, message, self.failure[1])
            return None
        if connection.rank in self._by_rank:  # its deadline passed on its own side: it no longer listens
            self._retire(self._by_rank[connection.rank])
        if not 0 <= seconds <= MAX_WAIT:
            raise WireError(f"a wait of {seconds} s")
        waiter = _Waiter(connection, message, subject, seconds)
        self._waiting.setdefault(subject, {})[connection.rank] = waiter
        self._by_rank[connection.rank] = waiter
        heapq.heappush(self._dues, (due or time.monotonic() + _shortened(seconds), next(self._order), waiter))
        return waiter

    def _retire(self, waiter: _Waiter) -> None:
        waiter.done = True
        if self._by_rank.get(waiter.rank) is waiter:
            del self._by_rank[waiter.rank]
        rest = self._waiting.get(waiter.subject, {})
        if rest.get(waiter.rank) is waiter:
            del rest[waiter.rank]
        if not rest:
            self._waiting.pop(waiter.subject, None)

    def _answer(self, waiter: _Waiter, op: Op, *fields: bytes) -> None:
        self._retire(waiter)
        self._server.reply(waiter.connection, op, waiter.request, *fields)

    def _error(self, connection: Connection, message: Frame, text: str) -> None:
        self._server.reply(connection, Op.ERROR, message.request, text.encode())

    def _released(self, subject: tuple[Any, ...]) -> list[_Waiter]:
        """Who waits for it, rank 0 last."""
        return [waiter for _, waiter in sorted(self._waiting.get(subject, {}).items(), reverse=True)]

    def _changed(self, rank: int) -> None:
        """A rank came or went: answer what that decides."""
        if rank in self._gone and rank in self._by_rank:
            self._retire(self._by_rank[rank])
        self._check_wait()
        for subject in list(self._waiting):
            if subject[0] == "barrier":
                self._check_meeting(subject)
            elif subject[0] == "agree":
                self._check_agreement(subject[1])
            elif subject[0] == "get" and rank in self._gone:
                for waiter in self._released(subject):
                    if waiter.source == rank:
                        self._answer(waiter, Op.ERROR, f"{subject[1]!r} will not come: {self.name(rank)}".encode())

    def _check_wait(self) -> None:
        self._settle(("wait",), self.group, set(self._names) - self._lost)

    def _check_meeting(self, subject: tuple[Any, ...]) -> None:
        """All get the values of all in one answer: who then leaves, rank 0 too, takes nothing from the others."""
        waiting = self._waiting.get(subject, {})
        if len(waiting) < len(subject[2]) and not self._gone:
            return
        values = {rank: waiter.value for rank, waiter in waiting.items()}
        size = sum(LENGTH.size + len(value) for value in values.values())
        if size > MAX_MEETING:
            text = f"{_what(subject)}: its values have over {MAX_MEETING} bytes together; send arrays through a communicator"
            for waiter in self._released(subject):
                self._answer(waiter, Op.ERROR, text.encode())
            return
        self._settle(subject, subject[2], set(values), tuple(values[rank] for rank in subject[2] if rank in values))

    def _settle(
        self, subject: tuple[Any, ...], ranks: tuple[int, ...], present: set[int], answer: tuple[bytes, ...] = ()
    ) -> None:
        """Release those who wait when all are present, or tell them that one never will be."""
        gone = [rank for rank in ranks if rank in self._gone and rank not in present]
        if gone:
            text = f"{_what(subject)}: {'; '.join(map(self.name, gone))}; restart the job, or agree on the survivors"
            for waiter in self._released(subject):
                self._answer(waiter, Op.ERROR, text.encode())
        elif all(rank in present for rank in ranks):
            for waiter in self._released(subject):
                self._answer(waiter, Op.DONE, *answer)

    def _check_agreement(self, epoch: int) -> None:
        reported = self._waiting.get(("agree", epoch), {})
        if reported and all(rank in reported for rank in self._here if rank in self.group):
            self._fix(epoch)

    def _fix(self, epoch: int) -> None:
        """Those who have reported are the survivors, for everyone and for good; what failed before them is over."""
        waiters = self._released(("agree", epoch))
        self._agreed[epoch] = tuple(sorted(waiter.rank for waiter in waiters))
        self.group = self._agreed[epoch]
        self.failure = None
        for waiter in waiters:
            self._answer(waiter, Op.DONE, _ranks(self.group))

    def _record(self, rank: int, text: str) -> None:
        """The first failure answers every wait, and is sent to all, so that they have it even when rank 0 ends next."""
        if self.failure is not None:
            return
        self.failure = (rank, text)
        for subject in list(self._waiting):
            for waiter in self._released(subject):
                if waiter.op is not Op.AGREE:
                    self._answer(waiter, Op.ERROR, text.encode())
        for other, connection in sorted(self._here.items(), reverse=True):
            if other != rank:
                self._server.reply(connection, Op.FAILURE, 0, text.encode())

    # -- words -----------------------------------------------------------------------------------------------------------

    def name(self, rank: int) -> str:
        """A rank with where it is and how it fares."""
        if rank not in self._names:
            return f"rank {rank} (never connected)"
        state = f": {self._gone[rank]}" if rank in self._gone else ""
        return f"rank {rank} ({self._names[rank]}{state})"

    def _late(self, waiter: _Waiter) -> str:
        """The message of a wait that ended at its deadline."""
        what = f"{_what(waiter.subject)} ended at its deadline of {waiter.seconds:.3g} s"
        absent = [rank for rank in self.group if rank not in self._names or rank in self._gone]
        if waiter.op is Op.GET:
            if absent:
                return f"{what}: nobody has set it; missing: {self._several(absent)}; start them, or raise the deadline"
            return f"{what}: nobody has set it, though all {len(self.group)} ranks came; see what the rank that sets it does"
        if waiter.op is Op.WAIT:
            reach = "; only this machine can reach that address" if self.where.startswith(("127.", "[::1]")) else ""
            return (
                f"{what}: missing {self._several(absent)}; the store listens at {self.where}{reach}; see whether they were "
                "started and reach it, or raise DISTARRAY_BOOTSTRAP_TIMEOUT"
            )
        came = {waiter.rank, *self._waiting.get(waiter.subject, {})}
        ranks = waiter.subject[2]
        missing = [rank for rank in ranks if rank not in came]
        return (
            f"{what}: {len(came)} of {len(ranks)} came, missing {self._several(missing)}; "
            "see what those do, or raise the deadline"
        )

    def _several(self, ranks: list[int]) -> str:
        shown = ", ".join(map(self.name, ranks[:8]))
        return f"{shown} and {len(ranks) - 8} more: ranks {_list(ranks[8:])}" if len(ranks) > 8 else shown


def _what(subject: tuple[Any, ...]) -> str:
    if subject[0] == "wait":
        return "waiting for all ranks"
    return f"get({subject[1]!r})" if subject[0] == "get" else f"barrier({subject[1]!r})"


def _shortened(seconds: float) -> float:
    """When to answer a wait: a little early, so that the answer is there by the deadline."""
    return seconds - min(0.5, seconds / 10)


def _list(ranks: Iterable[int]) -> str:
    """Ranks as text, runs shortened: 0, 2-5, 9."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and runs[-1][1] == rank - 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _ranks(ranks: tuple[int, ...]) -> bytes:
    return struct.pack(f"!{len(ranks)}I", *ranks)


def _text(data: bytes, bound: int) -> str:
    text = data.decode("utf-8", "replace")
    return text if len(text) <= bound else text[:bound] + " ..."


def _key(data: bytes) -> str:
    try:
        if len(data) <= MAX_KEY:
            return data.decode()
    except UnicodeDecodeError:
        pass
    raise WireError("a key that is too long or not UTF-8")
