"""What a backend supplies to a process group: arrays of its library, the collectives on them, and a few bytes from host to host.

The public methods (`base`) and those on sparse matrices (`sparse`) are written against this class alone. Arguments have
been checked when its methods are called, except for those of `_enter` and `_view`, which is where they are.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from distarray.devices.arrays import DeviceArray
from distarray.groups.buffers import GroupArray, Stream, View

__all__ = ["Engine"]


class Engine(abc.ABC):
    """One process's end of a group.

    Attributes
    ----------
    rank, size : int
        This process's number, and how many there are.
    """

    rank: int
    size: int
    compares_order = False  # whether processes whose arrays lie in memory in another order find that out

    def _at(self, stream: Stream) -> AbstractContextManager[Any]:
        """A block in which arrays are copied on a stream, where there are streams."""
        return nullcontext()

    def _later(self, finish: Callable[[], None]) -> None:
        """Do something once the call just made is queued."""
        finish()

    def _enter(self, method: str, to: int = -1, source: int = -1) -> None:  # noqa: B027 - not all engines count
        """A call begins: a collective, or messages to and from a process. It counts, also if its arguments are refused."""

    def _making_sparse(self, method: str, op: str = "", root: int = -1) -> AbstractContextManager[None]:
        """A block in which the messages of a call on sparse matrices are sent and received."""
        return nullcontext()

    @abc.abstractmethod
    def _view(self, value: GroupArray, name: str, write: bool, stream: Stream) -> View:
        """The argument as an array of the engine's library, or the exception that says what is wrong with it."""

    @abc.abstractmethod
    def _all_reduce(self, src: View, dst: View, op: str, stream: Stream) -> None: ...

    @abc.abstractmethod
    def _reduce(self, src: View, dst: View | None, op: str, root: int, stream: Stream) -> None: ...

    @abc.abstractmethod
    def _broadcast(self, view: View, root: int, stream: Stream) -> None: ...

    @abc.abstractmethod
    def _reduce_scatter(self, src: View, dst: View, count: int, op: str, stream: Stream) -> None: ...

    @abc.abstractmethod
    def _all_gather(self, src: View, dst: View, count: int, stream: Stream) -> None: ...

    @abc.abstractmethod
    def _send(self, view: View, peer: int, stream: Stream) -> None: ...

    @abc.abstractmethod
    def _recv(self, view: View, peer: int, stream: Stream) -> None: ...

    def _send_recv(self, src: View, dst: View, peer: int, stream: Stream) -> None:
        self._exchange([(peer, src.flat)], [(peer, dst.flat)], "send_recv", stream)

    @abc.abstractmethod
    def _exchange(
        self,
        sends: Sequence[tuple[int, Any]],
        receives: Sequence[tuple[int, Any]],
        operation: str,
        stream: Stream,
        part: View | None = None,
        root: int = -1,
    ) -> None:
        """All sends and receives of 1-d arrays at once; those from this process to itself are copies.

        `part` is what the processes must have alike: each one's part or, without a root, the array of all parts.
        """

    @abc.abstractmethod
    def _post(self, peer: int, payload: bytes) -> None:
        """Send a few bytes from host to host; does not wait for the peer."""

    @abc.abstractmethod
    def _fetch(self, peer: int) -> bytes:
        """The next bytes that `peer` posted to this process."""

    @abc.abstractmethod
    def _libraries(self) -> tuple[Any, Any]:
        """The array library, and its sparse matrices."""

    @abc.abstractmethod
    def _address(self, array: DeviceArray) -> int:
        """Where an array begins in memory."""

    @abc.abstractmethod
    def _abandon(self, error: BaseException) -> None:
        """This process gives up with an exception: tell the others where that can be done. Never raises."""
