"""What moves bytes between processes, as the layers above see it.

There is one small interface, and a file for each engine. Everything here is called by all processes of a group in the same order,
decided from metadata alone; the sequence number of a call is the number of calls before it, and travels with every
message, so that a process that runs other code is found out instead of feeding the others wrong data.

Every wait has a deadline. A call either completes, or raises on the processes that wait; buffers of a call that timed out
belong to the communicator until it is aborted.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from struct import Struct
from typing import Any, NamedTuple, Protocol
from zlib import crc32

import numpy as np

from distarray.devices.arrays import DeviceArray
from distarray.errors import PeerLostError

__all__ = ["Communicator", "Control", "Message", "Numbers", "Signature", "chosen_survivors"]


class Message(NamedTuple):
    """A contiguous buffer to send to, or receive from, a process: a NumPy array, or a CuPy array for NCCL."""

    peer: int
    buffer: Any


class Signature(NamedTuple):
    """What a call is: operation and detail must be equal in all processes, the site is for messages."""

    operation: str
    detail: str = ""
    site: str = ""


class Numbers:
    """A kind of call in which each process tells a few numbers to all: what it is, and how they are packed.

    Parameters
    ----------
    operation, detail : str
        Equal in all processes.
    form : str
        How the numbers are packed, in the letters of :mod:`struct`: 48 bytes at most.
    """

    __slots__ = ("detail", "form", "name", "operation")

    LONGEST = 64

    def __init__(self, operation: str, detail: str, form: str) -> None:
        self.operation = operation
        self.detail = detail
        self.name = crc32(detail.encode(), crc32(operation.encode()))
        self.form = Struct(f"=QQ{form}")  # the number of the call and its name come first
        assert self.form.size <= self.LONGEST


class Communicator(abc.ABC):
    """A group of processes that exchange buffers.

    Attributes
    ----------
    rank, size : int
        This process's number in the group, and how many there are.
    sequence : int
        Calls made so far; equal on all processes that run the same program.
    deadline : float
        Seconds that a call waits before it raises.
    """

    rank: int
    size: int
    sequence: int
    deadline: float

    @abc.abstractmethod
    def exchange(self, sends: Sequence[Message], receives: Sequence[Message], signature: Signature) -> None:
        """One round: all sends and receives at once, at most one message for each ordered pair of processes.

        Called by every process of the group, also by those with nothing to send or receive in this round. Returns when
        this process's buffers are sent and filled (for GPU buffers: when that is queued on the compute stream).

        Raises
        ------
        PeerLostError
            A peer died or did not answer by the deadline; names its rank, its host and the operation.
        CollectiveMismatchError
            A peer is at another call; names both.
        RemoteError
            A peer failed inside an operation; carries the type and text of its exception.
        """

    def tell_numbers(self, numbers: Numbers, mine: Sequence[Any], site: str) -> list[tuple[Any, ...]]:
        """Tell all processes a few numbers, and hear theirs: of each process its call, the call's name and its numbers, in rank
        order. The call is ordered and checked as an exchange is."""
        form = numbers.form
        frames = np.empty((self.size, form.size), np.uint8)
        frames[self.rank] = np.frombuffer(form.pack(self.sequence, numbers.name, *mine), np.uint8)
        self.gather(frames[self.rank], frames, Signature(numbers.operation, numbers.detail, site))
        return [form.unpack(frame.tobytes()) for frame in frames]

    def gather(self, part: DeviceArray, room: DeviceArray, signature: Signature) -> None:
        """Bring the arrays `part` of all processes, which have one size, into the memory of `room`, one behind the other. Where
        this process's own would lie, nothing needs to be written. The call is ordered and checked as an exchange is."""
        peers = [peer for peer in range(self.size) if peer != self.rank]
        sends, receives = ([Message(peer, room[peer] if into else part) for peer in peers] for into in (False, True))
        self.exchange(sends, receives, signature)

    def wait(self) -> None:  # noqa: B027 - nothing to wait for where exchanges are complete when they return
        """Wait on the host until queued exchanges are through, never longer than the deadline. Called before a host read."""

    @abc.abstractmethod
    def all_gather(self, payload: bytes, signature: Signature) -> list[bytes]:
        """Every process's payload, in rank order: for small values that all processes must agree on."""

    @abc.abstractmethod
    def barrier(self, signature: Signature) -> None:
        """Wait until every process has come here."""

    @abc.abstractmethod
    def report(self, error: BaseException) -> None:
        """Tell the others that this process failed inside an operation: their next call raises RemoteError. Never raises."""

    @abc.abstractmethod
    def abort(self, reason: str) -> None:
        """Give the communicator up without waiting for anyone. Later calls raise PeerLostError with the reason."""

    @abc.abstractmethod
    def shrink(self, survivors: Sequence[int]) -> Communicator:
        """A communicator of the surviving ranks, which all of them call with the same list; ranks are renumbered in order."""

    @abc.abstractmethod
    def close(self) -> None:
        """Release what the communicator holds. Called once, by every process, when nothing is in flight."""


def chosen_survivors(communicator: Communicator, survivors: Sequence[int]) -> tuple[int, ...]:
    """The ranks that ``communicator.shrink(survivors)`` names, ascending.

    Raises
    ------
    PeerLostError
        They are no ranks of the communicator, or this process is not among them.
    """
    chosen = tuple(sorted(set(survivors)))
    if communicator.rank not in chosen or not 0 <= chosen[0] <= chosen[-1] < communicator.size:
        raise PeerLostError(
            f"rank {communicator.rank} of {communicator.size} called shrink with survivors {list(survivors)}; the "
            "survivors, and only they, call it, with the same list."
        )
    return chosen


class Control(Protocol):
    """What an NCCL communicator needs of another channel between its processes. A `Communicator` is one."""

    rank: int
    size: int
    deadline: float

    def all_gather(self, payload: bytes, signature: Signature) -> list[bytes]: ...

    def barrier(self, signature: Signature) -> None: ...

    def report(self, error: BaseException) -> None: ...

    def abort(self, reason: str) -> None: ...

    def close(self) -> None: ...
