"""One process, a communicator a GPU: what `init_all` returns on GPUs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from distarray.comm.deadlines import bootstrap_timeout, collective_timeout
from distarray.comm.nccl.binding import TYPE, Binding, Calls, find_binding, needs_nccl4py
from distarray.errors import CommunicationError, UnsupportedError
from distarray.groups.nccl import Messages, NcclEngine
from distarray.groups.one_process import BLOCK, OneProcess, Queued, check_color, check_devices

__all__ = ["LocalCommunicator", "communicators"]

UNBORN = "not made yet: the group block of its split ends first"
"""What is wrong with a communicator before that."""


def communicators(wanted: Sequence[int] | None) -> list[LocalCommunicator]:
    """A communicator for each of these GPUs, or for all; see `distarray.init_all`."""
    binding = find_binding()
    import cupy

    count = int(cupy.cuda.runtime.getDeviceCount())
    chosen = list(range(count) if wanted is None else wanted)
    check_devices(chosen, count, "GPU")
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


class LocalCommunicator(OneProcess, NcclEngine):
    """One GPU's communicator among those of this process; made by `init_all`. See `OneProcess`."""

    place = "GPU"

    def __init__(self, binding: Binding, calls: Calls, rank: int, size: int, device: int, family: object) -> None:
        self._binding = binding
        self._family = family  # what those of one init_all, or of one color of a split, have in common
        self.rank, self.size = rank, size
        self.deadline = collective_timeout()
        self._prepare(calls, device)

    # ---- life

    def split(self, color: int | None, key: int = 0) -> LocalCommunicator | None:
        """The communicator of those with the same color, ranked by key; None for color None. All call it, in a `group`.

        The rank and size of the result are known when the group has ended.
        """
        check_color(color)
        if (
            not self._binding.splits_in_blocks
        ):  # at the block's end the calls of the other GPUs would wait for this one's
            raise needs_nccl4py("split")
        due = time.monotonic() + bootstrap_timeout()
        child = None
        if color is not None:
            child = LocalCommunicator(self._binding, self.calls, -1, 0, self.device, (self._family, color))
            child._gone = UNBORN

        def issue() -> None:
            made = self.calls.split(color, key, due)
            if child is not None and made is not None:
                child.calls, child._gone = made, ""

        self._issue(issue, "split")
        if child is not None and color is not None:
            BLOCK.splits.append((self._family, color, key, self.rank, child))
            self._later(_number_splits)
        return child

    def finalize(self) -> None:
        """Complete what is queued and say goodbye to the others; in a `group` where there are several."""
        if self._gone:
            return
        if BLOCK.depth:
            BLOCK.queue.append(Queued(self, partial(self._guard, self.calls.finalize)))
        else:
            self._guard(self.calls.finalize)

    def barrier(self) -> None:
        raise UnsupportedError(
            "one process needs no barrier between its GPUs; wait for one with cupy.cuda.Device(i).synchronize()"
        )

    # ---- engine

    def _end(self, how: str) -> None:
        if not self._gone:
            self._gone = how
            self._guard(self.calls.abort if how == "aborted" else self.calls.destroy)

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
        if key is None or key[1]:
            self._issue(issue, operation)

    def _issue(self, issue: Callable[[], Any], operation: str) -> None:
        """Make a call now, or at the end of the block; refuses one that would wait for the other GPUs of this very thread."""
        self._usable()
        if BLOCK.depth:
            BLOCK.queue.append(Queued(self, partial(self._guard, issue)))
        elif self.size > 1:
            raise self._alone(operation)
        else:
            self._guard(issue)

    @staticmethod
    def _make_all(queue: Sequence[Queued]) -> None:
        binding = find_binding()
        try:
            binding.group_start()
            try:
                for _, call in queue:
                    call()
            finally:
                binding.group_end()
        except binding.errors as problem:
            raise CommunicationError(f"the calls of this group failed in NCCL: {problem}") from problem

    def _messages(self, sends: Messages, receives: Messages, stream: int, operation: str) -> None:
        def issue() -> None:
            self._binding.group_start()
            try:
                for peer, array in sends:
                    self.calls.send(array.data.ptr, array.nbytes, TYPE["uint8"], peer, stream)
                for peer, array in receives:
                    self.calls.recv(array.data.ptr, array.nbytes, TYPE["uint8"], peer, stream)
            finally:
                self._binding.group_end()

        self._call(issue, None, stream, operation)


def _number_splits() -> None:
    """Give the communicators of the splits that have just ended their rank and size, as NCCL ranks them."""
    splits, BLOCK.splits = BLOCK.splits, []
    for family, color, key, rank, child in splits:
        members = sorted((k, r) for f, c, k, r, _ in splits if (f, c) == (family, color))
        child.size, child.rank = len(members), members.index((key, rank))
