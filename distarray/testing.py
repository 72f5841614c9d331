"""Simulated ranks: the threads of one process as a group of processes, for tests and for debugging.

Stricter than a network: a message is copied only when both sides stand at the same call, every rank's call is compared
with the others', and a rank that leaves is noticed at once. A program that passes here can still time out elsewhere, but
one whose ranks diverge fails here, at the first call that differs, with both calls in the message.

What ``numpy.testing`` has is found here, too.
"""

from __future__ import annotations

import contextvars
import functools
import socket
import threading
import time
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, TypeVar

import numpy as np

from distarray.comm.base import Communicator, Message, Signature, chosen_survivors
from distarray.comm.deadlines import seconds
from distarray.comm.record import Bytes, Call, Recorder, byte_views, collective_deadline
from distarray.errors import CollectiveMismatchError, CommunicationError, PeerLostError, RemoteError

__all__ = ["InProcessCommunicator", "ranks", "run_ranks"]

T = TypeVar("T")

DEADLINE = 30.0
"""Seconds a simulated rank waits by default: threads of one process have no slow network between them."""


def __getattr__(name: str) -> Any:
    """NumPy's own tests of arrays, which stand under this name in programs written for NumPy."""
    found = getattr(np.testing, name)
    return _on_the_host(found) if name.startswith("assert_") and isinstance(found, FunctionType) else found


@functools.cache
def _on_the_host(check: Callable[..., Any]) -> Callable[..., Any]:
    """A check of NumPy's with the values of arrays, which it would take for objects of one value."""

    @functools.wraps(check)
    def call(*args: Any, **kwargs: Any) -> Any:
        return check(*[_values(a) for a in args], **{key: _values(a) for key, a in kwargs.items()})

    return call


def _values(given: object) -> Any:
    """What an array holds, also those in containers that NumPy's checks go through."""
    if type(given) is list:
        return [_values(value) for value in given]
    if type(given) is tuple:
        return tuple(_values(value) for value in given)
    if type(given) is dict:
        return {key: _values(value) for key, value in given.items()}
    is_array = hasattr(given, "__array_function__") and not isinstance(given, (np.ndarray, np.generic, type))
    return np.asarray(given)[()] if is_array else given


class _Posted:
    """A rank's call as the others see it: the messages that nobody has met yet, and how many are not yet copied."""

    __slots__ = ("call", "payload", "pending", "receives", "sends")

    def __init__(self, call: Call, sends: dict[int, Bytes], receives: dict[int, Bytes], payload: bytes | None) -> None:
        self.call = call
        self.sends = sends
        self.receives = receives
        self.payload = payload
        self.pending = len(sends) + len(receives)


class _Meeting:
    """All calls with one sequence number. It is forgotten when every rank has come."""

    __slots__ = ("first", "posted")

    def __init__(self, first: int) -> None:
        self.first = first
        self.posted: dict[int, _Posted] = {}


class _Failure:
    """Why a group is given up: the same error for every rank, raised anew for each."""

    __slots__ = ("kind", "origin", "text")

    def __init__(self, kind: type[CommunicationError], text: str, origin: int | None = None) -> None:
        self.kind = kind
        self.text = text
        self.origin = origin

    def error(self, rank: int) -> CommunicationError:
        if rank == self.origin:
            return self.kind(f"this communicator is given up since this rank itself failed: {self.text}")
        return self.kind(self.text)


class _Ranks:
    """What the simulated ranks share; everything in it is read and written under one lock."""

    def __init__(self, size: int, host: str) -> None:
        self.size = size
        self.host = host
        self.lock = threading.Lock()
        self.wake = [threading.Condition(self.lock) for _ in range(size)]
        self.rounds: dict[int, _Meeting] = {}
        self.left: dict[int, str] = {}
        self.failure: _Failure | None = None
        self.calls = 0  # of all ranks: whether anything still moves
        self.children: dict[tuple[tuple[int, ...], int], tuple[_Ranks, dict[int, int]]] = {}

    def notify(self) -> None:
        for condition in self.wake:
            condition.notify()

    def fail(self, failure: _Failure) -> _Failure:
        """Give the group up, once: the first failure is the cause, those after it are consequences."""
        if self.failure is None:
            self.failure = failure
            self.notify()
        return self.failure

    def leave(self, rank: int, reason: str) -> None:
        with self.lock:
            self.left.setdefault(rank, reason)
            self.notify()
            children = list(self.children.values())
        for child, numbers in children:
            if rank in numbers:
                child.leave(numbers[rank], reason)

    def mismatch(self, one: int, call: Call, other: int, theirs: Call, what: str) -> CommunicationError:
        text = (
            f"rank {one} is at {call}, rank {other} at {theirs}: {what}. All ranks must make the same calls in the same "
            "order: look for a branch on the rank, on local values or on timing before these lines."
        )
        return self.fail(_Failure(CollectiveMismatchError, text)).error(one)


class InProcessCommunicator(Communicator):
    """One simulated rank. Made by `ranks`, a thread each; `run_ranks` does both.

    Parameters
    ----------
    group : _Ranks
        What the ranks share.
    rank : int
        This rank's number.
    deadline : float
        Seconds that a call waits.
    """

    def __init__(self, group: _Ranks, rank: int, deadline: float) -> None:
        self.rank = rank
        self.size = group.size
        self.sequence = 0
        self.deadline = deadline
        self.record = Recorder(rank, group.size)
        self._group = group
        self._aborted = ""
        self._shrinks: dict[tuple[int, ...], int] = {}

    def exchange(self, sends: Sequence[Message], receives: Sequence[Message], signature: Signature) -> None:
        outgoing = {peer: view for peer, view in byte_views(sends, self.size, receiving=False).items() if view.size}
        incoming = {peer: view for peer, view in byte_views(receives, self.size, receiving=True).items() if view.size}
        self._make("exchange", signature, outgoing, incoming, None)

    def all_gather(self, payload: bytes, signature: Signature) -> list[bytes]:
        posted = self._make("all_gather", signature, {}, {}, bytes(payload)).posted
        return [posted[rank].payload or b"" for rank in range(self.size)]

    def barrier(self, signature: Signature) -> None:
        self._make("barrier", signature, {}, {}, b"")

    def report(self, error: BaseException) -> None:
        text = f"rank {self.rank} failed inside an operation with {type(error).__name__}: {error}"
        with self._group.lock:
            self._group.fail(_Failure(RemoteError, text, self.rank))

    def abort(self, reason: str) -> None:
        self._aborted = reason or "no reason was given"
        self._group.leave(self.rank, f"aborted the communicator ({self._aborted})")

    def shrink(self, survivors: Sequence[int]) -> InProcessCommunicator:
        chosen = chosen_survivors(self, survivors)
        turn = self._shrinks[chosen] = self._shrinks.get(chosen, -1) + 1
        with self._group.lock:
            numbers = {old: new for new, old in enumerate(chosen)}
            child, _ = self._group.children.setdefault(
                (chosen, turn), (_Ranks(len(chosen), self._group.host), numbers)
            )  # fmt: skip
            for old in chosen:
                if old in self._group.left and old != self.rank:
                    child.left.setdefault(numbers[old], self._group.left[old])
        return InProcessCommunicator(child, numbers[self.rank], self.deadline)

    def close(self) -> None:
        self._aborted = self._aborted or "it was closed"
        self._group.leave(self.rank, "closed the communicator")

    def _make(
        self,
        kind: str,
        signature: Signature,
        sends: dict[int, Bytes],
        receives: dict[int, Bytes],
        payload: bytes | None,
    ) -> _Meeting:
        """Come to a call, copy what can be copied, and wait for the rest."""
        group, rank = self._group, self.rank
        call = self.record.begin(self.sequence, kind, signature)
        mine = _Posted(call, sends, receives, payload)
        try:
            with group.lock:
                self._check()
                group.calls += 1
                step = group.rounds.setdefault(self.sequence, _Meeting(rank))
                self.sequence += 1
                copies = self._meet(step, mine)
                step.posted[rank] = mine
                if len(step.posted) == self.size:
                    del group.rounds[call.sequence]
                    if payload is not None:
                        group.notify()
            for target, source, _ in copies:
                np.copyto(target, source)
            with group.lock:
                for _, _, peer in copies:
                    mine.pending -= 1
                    theirs = step.posted[peer] if peer != rank else mine
                    theirs.pending -= 1
                    if not theirs.pending and peer != rank:
                        group.wake[peer].notify()
                self._wait(step, mine)
        except BaseException as error:
            call.finish(f"failed with {type(error).__name__}")
            raise
        call.finish()
        return step

    def _check(self) -> None:
        if self._aborted:
            raise PeerLostError(
                f"rank {self.rank} gave this communicator up: {self._aborted}. Go on with shrink(survivors) of it, or a new one."
            )
        if self._group.failure is not None:
            raise self._group.failure.error(self.rank)

    def _meet(self, step: _Meeting, mine: _Posted) -> list[tuple[Bytes, Bytes, int]]:
        """Compare this call with those that are there, and take the messages that now have both sides."""
        group, rank, call = self._group, self.rank, mine.call
        copies: list[tuple[Bytes, Bytes, int]] = []
        if step.posted:
            first = step.posted[step.first].call
            if not call.same(first):
                raise group.mismatch(rank, call, step.first, first, "the calls differ")
        for peer, theirs in [*step.posted.items(), (rank, mine)]:
            pairs = (
                [(rank, mine, peer, theirs)]
                if peer == rank
                else [(rank, mine, peer, theirs), (peer, theirs, rank, mine)]
            )
            for source, sender, target, receiver in pairs:
                out, into = sender.sends.pop(target, None), receiver.receives.pop(source, None)
                sent, wanted = (0 if view is None else view.size for view in (out, into))
                if sent != wanted:
                    what = f"rank {source} sends {sent} bytes where rank {target} receives {wanted}"
                    raise group.mismatch(rank, call, peer, theirs.call, what)
                if out is not None and into is not None:
                    copies.append((into, out, peer))
        return copies

    def _wait(self, step: _Meeting, mine: _Posted) -> None:
        """Wait, under the lock, until this rank's part is done; raise when it cannot be any more."""
        group, rank = self._group, self.rank
        limit = mine.call.start + self.deadline
        while True:
            if mine.payload is not None:
                if len(step.posted) == self.size:
                    return
                missing = [peer for peer in range(self.size) if peer not in step.posted]
            else:
                if not mine.pending:
                    return
                missing = sorted({*mine.sends, *mine.receives})
            self._check()
            gone = [peer for peer in missing if peer in group.left]
            if gone:
                reasons = "; ".join(f"rank {peer} (host {group.host}) {group.left[peer]}" for peer in gone)
                raise self._lost(
                    f"{reasons}, while rank {rank} waits for it in {mine.call}. Every rank must make every call: look for "
                    "a return, an exception that was swallowed, or a branch on the rank."
                )
            left = limit - time.monotonic()
            if left <= 0:
                raise self._late(mine.call, [peer for peer in range(self.size) if peer not in step.posted] or missing)
            group.wake[rank].wait(left)

    def _late(self, call: Call, missing: list[int]) -> CommunicationError:
        names = ", ".join(f"rank {peer} (host {self._group.host})" for peer in missing)
        call.finish("timed out")
        reason = f"rank {self.rank} waited {self.deadline:g} s in {call} for {names}"
        self.record.dump(reason)
        return self._lost(
            f"{reason}, which did not come. Look at what it does instead, or raise the deadline (DISTARRAY_TIMEOUT) if it "
            f"is only slow.\n{self.record.format(last=8)}"
        )

    def _lost(self, text: str) -> CommunicationError:
        """Give the group up, so that those who wait for this rank do not wait for their own deadlines."""
        return self._group.fail(_Failure(PeerLostError, text)).error(self.rank)


def ranks(size: int, deadline: float | None = None) -> list[InProcessCommunicator]:
    """The communicators of a group of simulated ranks, to be used by a thread each.

    Parameters
    ----------
    size : int
        How many ranks.
    deadline : float, optional
        Seconds that a call waits; ``DISTARRAY_TIMEOUT``, else 30.
    """
    if size < 1:
        raise ValueError(f"a group of {size} ranks; it must have 1 or more.")
    limit = collective_deadline(DEADLINE) if deadline is None else seconds(deadline)
    group = _Ranks(size, socket.gethostname())
    return [InProcessCommunicator(group, rank, limit) for rank in range(size)]


def run_ranks(
    size: int, function: Callable[[InProcessCommunicator], T], *, deadline: float | None = None
) -> list[T]:  # fmt: skip
    """Run ``function(communicator)`` on every simulated rank at once, a thread each, and return their results by rank.

    Parameters
    ----------
    size : int
        How many ranks.
    function : callable
        The program of one rank. It runs in a copy of the caller's context variables.
    deadline : float, optional
        Seconds that a call waits, and that a rank may go on alone after another has ended, without a call of any rank.

    Returns
    -------
    list
        What each rank returned.

    Raises
    ------
    BaseException
        The first exception that is no consequence of another rank's. The others have seen it as RemoteError.
    PeerLostError
        A rank did not end.
    """
    members = ranks(size, deadline)
    group, limit = members[0]._group, members[0].deadline
    results: dict[int, T] = {}
    failures: list[tuple[int, BaseException]] = []  # in order of time
    ended = threading.Condition()
    running = set(range(size))

    def program(member: InProcessCommunicator) -> None:
        reason = "returned"
        try:
            results[member.rank] = function(member)
        except BaseException as error:
            with ended:
                failures.append((member.rank, error))
            reason = f"ended with {type(error).__name__}: {error}"
            if not isinstance(error, CommunicationError):
                member.report(error)
        finally:
            group.leave(member.rank, reason)
            with ended:
                running.discard(member.rank)
                ended.notify()

    threads = [
        threading.Thread(
            target=contextvars.copy_context().run, args=(program, member), name=f"rank-{member.rank}", daemon=True
        )
        for member in members
    ]
    for thread in threads:
        thread.start()
    stuck = _await_end(ended, running, size, group, limit)
    if not stuck:
        for thread in threads:
            thread.join()
    causes = [failure for failure in failures if not isinstance(failure[1], CommunicationError)]
    if causes or failures:
        rank, error = (causes or failures)[0]
        failures.clear()
        error.add_note(f"raised by simulated rank {rank} of {size}")
        try:
            raise error
        finally:
            del error, causes  # no cycle of traceback, frame and exception
    if stuck:
        raise PeerLostError(
            f"ranks {stuck} still run {limit:g} s after the others ended, without a call; a rank's program must end: look "
            f"for an endless loop or a lock. Raise deadline= if it is only slow."
        )
    return [results[rank] for rank in range(size)]


def _await_end(ended: threading.Condition, running: set[int], size: int, group: _Ranks, limit: float) -> list[int]:
    """Wait until every rank has ended. Those left when `limit` seconds passed after the first end without any call."""
    with ended:
        while running:
            before = (group.calls, len(running))
            ended.wait(limit)
            if running and len(running) < size and (group.calls, len(running)) == before:
                return sorted(running)
    return []
