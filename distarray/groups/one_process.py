"""One process, a communicator a GPU: `init_all` and what it returns.

The calls of all GPUs are issued from one thread, so each collective must stand for every GPU inside one `group` block:
alone, the first would wait on its GPU for the others, which this thread never reaches.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from distarray.comm.deadlines import bootstrap_timeout, collective_timeout
from distarray.comm.nccl.binding import TYPE, Binding, Calls, find_binding
from distarray.errors import CommunicationError, DeviceError, PeerLostError, UnsupportedError
from distarray.groups.nccl import NcclEngine

__all__ = ["GroupCalls", "LocalCommunicator", "communicators"]


class _Open:
    """The group block that this process is in: NCCL counts them itself, but not what is to be done when one ends."""

    def __init__(self) -> None:
        self.depth = 0
        self.finish: list[Callable[[], None]] = []
        self.splits: list[tuple[object, int, int, int, LocalCommunicator]] = []  # (family, color, key, rank, child)


_OPEN = _Open()


class GroupCalls:
    """``with group():`` NCCL calls in it are issued together at the end. Blocks may stand in one another."""

    def __enter__(self) -> None:
        self._binding = find_binding()
        self._binding.group_start()
        _OPEN.depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _OPEN.depth -= 1
        finish: list[Callable[[], None]] = []
        if not _OPEN.depth:
            finish, _OPEN.finish = _OPEN.finish, []
        try:
            self._binding.group_end()
        except self._binding.errors as problem:
            if error is None:
                raise CommunicationError(f"the calls of this group failed in NCCL: {problem}") from problem
            return
        if error is None:
            for each in finish:
                each()


def communicators(devices: Any = None) -> list[LocalCommunicator]:
    """A communicator for each GPU; see `distarray.init_all`."""
    binding = find_binding()
    import cupy

    chosen = _devices(devices, int(cupy.cuda.runtime.getDeviceCount()))
    if not chosen:
        return []
    before = cupy.cuda.runtime.getDevice()
    try:
        calls = binding.connect_all(chosen)
    except binding.errors as error:
        raise CommunicationError(
            f"NCCL could not be set up on GPUs {chosen}: {error}; NCCL_DEBUG=WARN says more"
        ) from error
    finally:
        cupy.cuda.runtime.setDevice(before)
    family = object()
    return [
        LocalCommunicator(binding, each, rank, len(chosen), chosen[rank], family) for rank, each in enumerate(calls)
    ]


def _devices(devices: Any, count: int) -> list[int]:
    if devices is None:
        return list(range(count))
    if isinstance(devices, (str, bytes)):
        raise TypeError(
            f"devices is {devices!r}; a number of GPUs or a sequence of their numbers is needed, such as [0, 1]"
        )
    try:
        if not isinstance(devices, Sequence) and not hasattr(devices, "__iter__"):
            n = operator.index(devices)
            if n < 0:
                raise DeviceError(f"devices = {n}; a number of GPUs cannot be negative: use None for all {count}")
            chosen = list(range(n))
        else:
            chosen = [operator.index(device) for device in devices]
    except TypeError:
        raise TypeError(
            f"devices is {devices!r}; a number of GPUs or a sequence of their numbers is needed, such as [0, 1]"
        ) from None
    absent = [device for device in chosen if not 0 <= device < count]
    if absent:
        raise DeviceError(
            f"GPU {absent[0]} is not there: {count} are visible, 0 to {count - 1}; look at CUDA_VISIBLE_DEVICES"
        )
    repeated = [device for device in chosen if chosen.count(device) > 1]
    if repeated:
        raise DeviceError(
            f"GPU {repeated[0]} stands in {chosen} more than once, which NCCL does not allow; name each once"
        )
    return chosen


class LocalCommunicator(NcclEngine):
    """One GPU's communicator among those of this process; made by `init_all`.

    It has the dense collectives of `ProcessGroup`, to be called inside `group`. Sparse matrices and `barrier` are for
    processes and refused.

    Attributes
    ----------
    rank, nranks : int
        Its number, and how many there are.
    device : int
        Its GPU.
    """

    def __init__(self, binding: Binding, calls: Calls, rank: int, size: int, device: int, family: object) -> None:
        self._binding = binding
        self._family = family  # what those of one init_all, or of one color of a split, have in common
        self.rank, self.size = rank, size
        self.deadline = collective_timeout()
        self._prepare(calls, device)
        self._gone = ""

    @property
    def nranks(self) -> int:
        return self.size

    def __repr__(self) -> str:
        state = f", {self._gone}" if self._gone else ""
        return f"<LocalCommunicator rank {self.rank} of {self.size} on GPU {self.device}{state}>"

    # ---- life

    def split(self, color: int | None, key: int = 0) -> LocalCommunicator | None:
        """The communicator of those with the same color, ranked by key; None for color None. All call it, in a `group`.

        The rank and size of the result are known when the group has ended.
        """
        self._together("split")
        if color is not None and color < 0:
            raise ValueError(f"color = {color} must be 0 or more, or None to be in no communicator")
        made = self.calls.split(color, key, time.monotonic() + bootstrap_timeout())
        if made is None or color is None:
            return None
        child = LocalCommunicator(self._binding, made, -1, 0, self.device, (self._family, color))
        _OPEN.splits.append((self._family, color, key, self.rank, child))
        self._later(_number_splits)
        return child

    def finalize(self) -> None:
        """Complete what is queued and say goodbye to the others; in a `group` where there are several."""
        if not self._gone:
            self._guard(self.calls.finalize)

    def destroy(self) -> None:
        """Free the communicator. May be called again."""
        if not self._gone:
            self._gone = "destroyed"
            self._guard(self.calls.destroy)

    def abort(self) -> None:
        """Stop what runs on the GPU and free the communicator."""
        if not self._gone:
            self._gone = "aborted"
            self._guard(self.calls.abort)

    def stop(self) -> None:
        self.destroy()

    def barrier(self) -> None:
        raise UnsupportedError(
            "one process needs no barrier between its GPUs; wait for one with cupy.cuda.Device(i).synchronize()"
        )

    # ---- engine

    def _guard(self, call: Callable[[], None]) -> None:
        before = self._cupy.cuda.runtime.getDevice()
        try:
            with self._cupy.cuda.Device(self.device):
                call()
        except self._binding.errors as error:
            raise CommunicationError(f"NCCL failed on GPU {self.device}: {error}") from error
        finally:
            self._cupy.cuda.runtime.setDevice(before)

    def _call(self, issue: Callable[[], Any], key: Any, stream: int, operation: str) -> None:
        self._together(operation)
        if key is None or key[1]:
            self._guard(issue)

    def _together(self, operation: str) -> None:
        """Refuses a call that would wait for the other GPUs of this very thread."""
        self._usable()
        if self.size > 1 and not _OPEN.depth:
            raise CommunicationError(
                f"{operation} of rank {self.rank} stands alone, and would wait for {self.size - 1} other GPU(s) of this process; "
                "call it for every communicator inside `with group():`"
            )

    def _later(self, finish: Callable[[], None]) -> None:
        if _OPEN.depth:
            _OPEN.finish.append(finish)
        else:
            finish()

    def _messages(
        self,
        sends: Sequence[tuple[int, int, int]],
        receives: Sequence[tuple[int, int, int]],
        stream: int,
        operation: str,
    ) -> None:
        def issue() -> None:
            self._binding.group_start()
            try:
                for peer, address, nbytes in sends:
                    self.calls.send(address, nbytes, TYPE["uint8"], peer, stream)
                for peer, address, nbytes in receives:
                    self.calls.recv(address, nbytes, TYPE["uint8"], peer, stream)
            finally:
                self._binding.group_end()

        self._call(issue, None, stream, operation)

    def _post(self, peer: int, payload: bytes) -> None:
        raise UnsupportedError(
            "communicators of init_all take no sparse matrices; use init_process_group, or send their arrays"
        )

    def _fetch(self, peer: int) -> bytes:
        raise UnsupportedError(
            "communicators of init_all take no sparse matrices; use init_process_group, or send their arrays"
        )

    def _abandon(self, error: BaseException) -> None:
        self.abort()

    def _usable(self) -> None:
        if self._gone:
            raise PeerLostError(f"the communicator of GPU {self.device} was {self._gone}; make new ones with init_all")


def _number_splits() -> None:
    """Give the communicators of the splits that have just ended their rank and size, as NCCL ranks them."""
    splits, _OPEN.splits = _OPEN.splits, []
    for family, color, key, rank, child in splits:
        members = sorted((k, r) for f, c, k, r, _ in splits if (f, c) == (family, color))
        child.size, child.rank = len(members), members.index((key, rank))
