"""What `init_all` returns has in common on every kind of device: the group block, life and death, and how a split is ranked.

The calls of all devices are issued from one thread, so each collective must stand for every device inside one `group`
block: alone, the first would wait for the others, which this thread never reaches. A block's calls are kept until it ends,
with the arrays that they read and write, and are not made where an exception leaves it: part of them would wait for ever.
"""

from __future__ import annotations

import abc
import operator
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import NamedTuple

from distarray.errors import CommunicationError, DeviceError, PeerLostError, UnsupportedError
from distarray.groups.base import ProcessGroup

__all__ = ["BLOCK", "GroupCalls", "OneProcess", "Queued", "check_color", "check_devices", "wanted_devices"]


class Queued(NamedTuple):
    """A call that waits for the end of its block."""

    owner: OneProcess
    call: Callable[[], None]


class _Block(threading.local):
    """The group block that this thread is in, and what is to be done when it ends."""

    def __init__(self) -> None:
        self.depth = 0
        self.finish: list[Callable[[], None]] = []
        self.splits: list[tuple[object, int, int, int, OneProcess]] = []  # (family, color, key, rank, child)
        self.queue: list[Queued] = []


BLOCK = _Block()


class GroupCalls:
    """``with group():`` the calls in it are issued together at the end. Blocks may stand in one another."""

    def __enter__(self) -> None:
        BLOCK.depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        BLOCK.depth -= 1
        if BLOCK.depth:
            return
        finish, BLOCK.finish, queue, BLOCK.queue = BLOCK.finish, [], BLOCK.queue, []
        if error is not None:
            BLOCK.splits = []
            return
        by_kind: dict[type[OneProcess], list[Queued]] = {}
        for each in queue:
            by_kind.setdefault(type(each.owner), []).append(each)
        for owners, calls in by_kind.items():
            owners._make_all(calls)
        for done in finish:
            done()


def wanted_devices(devices: int | Sequence[int] | None, what: str) -> list[int] | None:
    """The numbers of the devices asked for, which need not be there; None for all."""
    if devices is None:
        return None
    text = f"devices is {devices!r}; a number of {what}s or a sequence of their numbers is needed, such as [0, 1]"
    if isinstance(devices, (str, bytes)):
        raise TypeError(text)
    try:
        if isinstance(devices, Sequence) or hasattr(devices, "__iter__"):
            return [operator.index(device) for device in devices]
        n = operator.index(devices)
    except TypeError:
        raise TypeError(text) from None
    if n < 0:
        raise DeviceError(f"devices = {n}; a number of {what}s cannot be negative: use None for all")
    return list(range(n))


def check_devices(chosen: Sequence[int], count: int | None, what: str) -> None:
    """Refuses a device that is not there, or stands twice."""
    absent = [device for device in chosen if device < 0 or (count is not None and device >= count)]
    if absent:
        there = (
            f"{count} are visible, 0 to {count - 1}; look at CUDA_VISIBLE_DEVICES" if count else "numbers begin with 0"
        )
        raise DeviceError(f"{what} {absent[0]} is not there: {there}")
    seen: set[int] = set()
    for device in chosen:
        if device in seen:
            why = ", which NCCL does not allow" if count is not None else ""
            raise DeviceError(f"{what} {device} stands in {list(chosen)} more than once{why}; name each once")
        seen.add(device)


def check_color(color: int | None) -> None:
    if color is not None and color < 0:
        raise ValueError(f"color = {color} must be 0 or more, or None to be in no communicator")


class OneProcess(ProcessGroup):
    """One device's communicator among those of this process.

    It has the dense collectives of `ProcessGroup`, to be called inside `group`. Sparse matrices and `barrier` are for
    processes and refused.

    Attributes
    ----------
    rank, nranks : int
        Its number, and how many there are.
    device : int
        Its device.
    """

    device: int
    place = "device"
    _gone = ""

    @property
    def nranks(self) -> int:
        return self.size

    def __repr__(self) -> str:
        state = f", {self._gone}" if self._gone else ""
        return f"<{type(self).__name__} rank {self.rank} of {self.size} on {self.place} {self.device}{state}>"

    def destroy(self) -> None:
        """Free the communicator. May be called again."""
        self._end("destroyed")

    def abort(self) -> None:
        """Stop what runs and free the communicator."""
        self._end("aborted")

    def stop(self) -> None:
        self.destroy()

    @staticmethod
    @abc.abstractmethod
    def _make_all(queue: Sequence[Queued]) -> None:
        """Make the calls of a block on communicators of this kind."""

    @abc.abstractmethod
    def _end(self, how: str) -> None:
        """Free the communicator, unless that has been done; `how` is "destroyed" or "aborted"."""

    def _abandon(self, error: BaseException) -> None:
        self.abort()

    def _usable(self) -> None:
        if self._gone:
            raise PeerLostError(
                f"the communicator of {self.place} {self.device} was {self._gone}; make new ones with init_all"
            )

    def _alone(self, operation: str) -> CommunicationError:
        return CommunicationError(
            f"{operation} of rank {self.rank} stands alone, and would wait for {self.size - 1} other {self.place}(s) of this "
            "process; call it for every communicator inside `with group():`"
        )

    def _later(self, finish: Callable[[], None]) -> None:
        """Do what ends a call: at once, or in a `group` block when the block's calls have been made."""
        if BLOCK.depth:
            BLOCK.finish.append(finish)
        else:
            finish()

    def _post(self, peer: int, payload: bytes) -> None:
        raise _no_sparse()

    def _fetch(self, peer: int) -> bytes:
        raise _no_sparse()


def _no_sparse() -> UnsupportedError:
    return UnsupportedError(
        "communicators of init_all take no sparse matrices; use init_process_group, or send their arrays"
    )
