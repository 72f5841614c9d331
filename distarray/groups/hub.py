"""What the threads of one process share to make the calls of a host group: two mailboxes for each ordered pair of ranks,
one for what all ranks make and one for messages of two.

A message is handed over by reference and copied once, by its receiver; the sender waits until that is done. Calls that
all ranks make are numbered, and compared as each rank comes to them, so that ranks at different calls are told so at
once. The first failure is everyone's.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple

from distarray.comm.base import Signature
from distarray.devices.arrays import DeviceArray
from distarray.errors import CollectiveMismatchError, CommunicationError, PeerLostError, UnsupportedError
from distarray.groups.compared import DIFFER, What

__all__ = ["Hub", "ThreadWire"]

BETWEEN_TWO = ("send", "recv", "send_recv")


class _Parcel:
    """A message that lies in a mailbox."""

    __slots__ = ("array", "number", "signature", "taken")

    def __init__(self, array: DeviceArray, number: int, signature: Signature) -> None:
        self.array, self.number, self.signature = array, number, signature
        self.taken = False

    def is_taken(self) -> bool:
        return self.taken


class _Awaited(NamedTuple):
    """A message that is to come, and where to."""

    peer: int
    array: Any
    number: int
    signature: Signature


class _Met(NamedTuple):
    """A call of all ranks: what the first of them made, and who has come."""

    what: What
    first: int
    came: set[int]


class Hub:
    """The state that the ranks share; everything in it is read and written under one lock.

    Parameters
    ----------
    size : int
        How many ranks.
    maker : int
        The thread that made them all: alone, it can't make a call of one of them.
    """

    def __init__(self, size: int, maker: int) -> None:
        self.size = size
        self.maker = maker
        self.lock = threading.Lock()
        self.wake: defaultdict[int, threading.Condition] = defaultdict(lambda: threading.Condition(self.lock))
        self.boxes: defaultdict[tuple[int, int, bool], deque[_Parcel]] = defaultdict(deque)
        self.calls: dict[int, _Met] = {}
        self.values: dict[int, dict[int, Any]] = {}
        self.failure: tuple[type[CommunicationError], str] | None = None

    def fail(self, kind: type[CommunicationError], text: str) -> CommunicationError:
        """Give everything up, unless that has been done, and return the error to raise here."""
        with self.lock:
            return self.failed(kind, text)

    def failed(self, kind: type[CommunicationError], text: str) -> CommunicationError:
        """Give everything up, as `fail` does, where the lock is held already."""
        if self.failure is None:
            self.failure = kind, text
            self.notify()
        return kind(text)

    def notify(self) -> None:
        for rank in range(self.size):
            self.wake[rank].notify()

    def check(self) -> None:
        if self.failure is not None:
            kind, text = self.failure
            raise kind(text)


class ThreadWire:
    """One rank's end. It is used by one thread at a time.

    Parameters
    ----------
    hub : Hub
        What it shares with the other ranks.
    rank : int
        Its number.
    deadline : float
        Seconds that a call waits.
    """

    def __init__(self, hub: Hub, rank: int, deadline: float) -> None:
        self.hub, self.rank, self.deadline = hub, rank, deadline
        self._calls = 0
        self._signature = Signature("")
        self._numbers = 0, 0
        self.together = False  # messages of two do not wait for one another
        self._sent: list[tuple[int, _Parcel]] = []
        self._awaited: list[_Awaited] = []

    # ---- calls

    def count(self, method: str) -> None:
        """Do nothing: calls are numbered when they are made."""

    def count_message(self, method: str, peer: int, out: bool, into: bool) -> None:
        """Do nothing, as `count`."""

    def making(self, what: What, inward: int | None = None) -> ThreadWire:
        """Begin a call; a block of rounds follows."""
        self._signature, number = what
        self._numbers = number, number if inward is None else inward
        with self.hub.lock:
            self.hub.check()
            if self._signature.operation not in BETWEEN_TWO:
                self._come(what)
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.hub.fail(
                PeerLostError, f"rank {self.rank} failed in {self._here()} with {type(error).__name__}: {error}"
            )

    def usable(self) -> None:
        """Raise where the ranks have given up."""
        self.hub.check()

    def round(self, sends: Sequence[tuple[int, Any]], receives: Sequence[tuple[int, Any]]) -> None:
        """Send and receive 1-d contiguous arrays, all at once; returns when all are sent and filled.

        Messages of two are left to `settle` where they are `together`.
        """
        hub, two = self.hub, self._signature.operation in BETWEEN_TWO
        sent = [(peer, _Parcel(array, self._numbers[0], self._signature)) for peer, array in sends]
        awaited = [_Awaited(peer, array, self._numbers[1], self._signature) for peer, array in receives]
        with hub.lock:
            hub.check()
            for peer, parcel in sent:
                hub.boxes[self.rank, peer, two].append(parcel)
                hub.wake[peer].notify()
        if two and self.together:
            self._sent += sent
            self._awaited += awaited
        else:
            self._complete(sent, awaited, two)

    def settle(self) -> None:
        """Complete the messages that stood together."""
        sent, self._sent, awaited, self._awaited = self._sent, [], self._awaited, []
        with self:
            self._complete(sent, awaited, True)

    def _complete(self, sent: Sequence[tuple[int, _Parcel]], awaited: Sequence[_Awaited], two: bool) -> None:
        hub, due = self.hub, time.monotonic() + self.deadline
        for each in awaited:
            self._signature = each.signature
            box = hub.boxes[each.peer, self.rank, two]
            with hub.lock:
                self._until(box.__len__, due, each.peer)
                parcel = box.popleft()
            self._accept(parcel, each)
            each.array[...] = parcel.array
            with hub.lock:
                parcel.taken = True
                hub.wake[each.peer].notify()
        with hub.lock:
            for peer, parcel in sent:
                self._signature = parcel.signature
                self._until(parcel.is_taken, due, peer)

    def gather(self, value: object, signature: Signature) -> dict[int, Any]:
        """Every rank's value, by reference."""
        hub, due = self.hub, time.monotonic() + self.deadline
        with hub.lock:
            hub.check()
            number = self._come((signature, 0))
            said = hub.values.setdefault(number, {})
            said[self.rank] = value
            hub.notify()
            for peer in range(hub.size):
                self._until(partial(said.__contains__, peer), due, peer)
            hub.values.pop(number, None)
        return said

    def letter(self, peer: int, payload: bytes) -> None:
        raise UnsupportedError("threads of one process send each other arrays only")

    def read(self, peer: int) -> bytes:
        raise UnsupportedError("threads of one process send each other arrays only")

    # ---- helpers, under the lock but for `_accept`

    def _come(self, what: What) -> int:
        """This rank comes to a call of all ranks; its number."""
        hub, number = self.hub, self._calls
        self._calls += 1
        self._signature = what[0]
        met = hub.calls.setdefault(number, _Met(what, self.rank, set()))
        if met.what != what:
            raise self.hub.failed(*self._mismatch(met.first, met.what[0]))
        met.came.add(self.rank)
        if len(met.came) == hub.size:
            del hub.calls[number]
        return number

    def _accept(self, parcel: _Parcel, here: _Awaited) -> None:
        if parcel.number != here.number or parcel.array.dtype != here.array.dtype:
            raise self.hub.fail(*self._mismatch(here.peer, parcel.signature))
        if parcel.array.size != here.array.size:
            raise self.hub.fail(
                CollectiveMismatchError,
                f"rank {here.peer} sends {parcel.array.size} elements in {_text(parcel.signature)}, where rank {self.rank} "
                f"receives {here.array.size}; give both arrays of one size",
            )

    def _until(self, done: Callable[[], object], due: float, peer: int) -> None:
        while not done():
            self.hub.check()
            left = due - time.monotonic()
            if left <= 0:
                raise self.hub.failed(
                    PeerLostError,
                    f"rank {self.rank} waited {self.deadline:g} s in {self._here()} for rank {peer}, which did not come; "
                    "make the call for every communicator inside one `with group():`, or raise DISTARRAY_TIMEOUT",
                )
            self.hub.wake[self.rank].wait(left)

    def _mismatch(self, peer: int, theirs: Signature) -> tuple[type[CommunicationError], str]:
        return CollectiveMismatchError, (
            f"rank {self.rank} is at {self._here()}, rank {peer} at {_text(theirs)}: {DIFFER}. Make the same calls for all "
            "communicators, in the same order"
        )

    def _here(self) -> str:
        return _text(self._signature)


def _text(signature: Signature) -> str:
    return f"'{signature.operation}'" + (f" ({signature.detail})" if signature.detail else "")
