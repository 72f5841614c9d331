"""One process, a communicator a device of the CPU: what `init_all` returns with ``kind="host"``, on NumPy arrays.

The program of `init_all` on GPUs runs unchanged where there is none. The calls of a `group` block are queued and made at
its end, a thread for each communicator, between which the arrays really move. Outside a block a call is made at once,
and needs a thread for each communicator too: the one that made them all is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from distarray.comm.base import Signature
from distarray.comm.deadlines import collective_timeout
from distarray.devices import cpu_count
from distarray.errors import CommunicationError, PeerLostError, UnsupportedError
from distarray.groups.buffers import Stream, View
from distarray.groups.host import HostEngine
from distarray.groups.hub import Hub, ThreadWire
from distarray.groups.one_process import BLOCK, OneProcess, Queued, check_color, check_devices

__all__ = ["HostCommunicator", "communicators"]


def communicators(wanted: Sequence[int] | None) -> list[HostCommunicator]:
    """A communicator for each of these devices of the CPU, or one for each core; see `distarray.init_all`."""
    chosen = list(range(cpu_count()) if wanted is None else wanted)
    check_devices(chosen, None, "device")
    hub = Hub(len(chosen), threading.get_ident())
    made = [HostCommunicator(device) for device in chosen]
    for rank, one in enumerate(made):
        one._join(hub, rank)
    return made


class HostCommunicator(OneProcess, HostEngine):
    """One device's communicator among those of this process; made by `init_all`. See `OneProcess`."""

    place = "host device"

    def __init__(self, device: int) -> None:
        self.device = device
        self.deadline = collective_timeout()
        self._join(Hub(0, 0), -1)  # until it is known whom with

    def _join(self, hub: Hub, rank: int) -> None:
        self.rank, self.size = rank, hub.size
        self._hub = hub
        self._thread = ThreadWire(hub, rank, self.deadline)
        self._prepare(self._thread)

    # ---- life

    def split(self, color: int | None, key: int = 0) -> HostCommunicator | None:
        """The communicator of those with the same color, ranked by key; None for color None. All call it, in a `group`.

        The rank and size of the result are known when the group has ended.
        """
        self._usable()
        check_color(color)
        child = None if color is None else HostCommunicator(self.device)
        self._issue("split", partial(self._split, color, key, child))
        return child

    def _split(self, color: int | None, key: int, child: HostCommunicator | None) -> None:
        said = self._thread.gather((color, key, Hub(0, self._hub.maker)), Signature("split"))
        if child is not None:
            members = sorted((k, rank) for rank, (c, k, _) in said.items() if c == color)
            shared: Hub = said[members[0][1]][2]  # the first member's
            shared.size = len(members)
            child._join(shared, members.index((key, self.rank)))

    def finalize(self) -> None:
        """Nothing is under way once a call has returned."""

    def barrier(self) -> None:
        raise UnsupportedError("one process needs no barrier between its devices: a `group` ends when its calls have")

    def _end(self, how: str) -> None:
        if not self._gone:
            self._gone = how
            if self.size > 1:
                self._hub.fail(PeerLostError, f"rank {self.rank} of init_all was {how}; make new ones with init_all")

    # ---- engine

    def _usable(self) -> None:
        super()._usable()
        if self.rank < 0:
            raise CommunicationError("this communicator can be used when the group block of its split has ended")
        self._hub.check()

    def _enter(self, method: str, to: int = -1, source: int = -1) -> None:
        self._usable()

    def _issue(self, operation: str, call: Callable[[], None]) -> None:
        """Make a call now, or at the end of the block."""
        if BLOCK.depth:
            BLOCK.queue.append(Queued(self, call))
        elif self.size > 1 and threading.get_ident() == self._hub.maker:
            raise self._alone(operation)
        else:
            call()

    def _make(self, calls: Sequence[Callable[[], None]]) -> None:
        """The calls of a block; messages of two stand together, as in a group of NCCL."""
        self._thread.together = True
        try:
            for call in calls:
                call()
            self._thread.settle()
        finally:
            self._thread.together = False

    @staticmethod
    def _make_all(queue: Sequence[Queued]) -> None:
        """Make the calls of a block, those of each communicator in their order, all communicators at once."""
        programs: dict[HostCommunicator, list[Callable[[], None]]] = {}
        for each in queue:
            assert isinstance(each.owner, HostCommunicator)
            programs.setdefault(each.owner, []).append(each.call)
        if len(programs) == 1:
            for owner, calls in programs.items():
                owner._make(calls)
            return
        errors: list[BaseException] = []

        def make(owner: HostCommunicator, calls: list[Callable[[], None]]) -> None:
            try:
                owner._make(calls)
            except BaseException as error:
                errors.append(error)

        threads = [
            threading.Thread(target=make, args=program, name=f"distarray-group-{program[0].rank}", daemon=True)
            for program in programs.items()
        ]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException as error:  # an interrupt: nobody waits any longer
            for owner in programs:
                owner._hub.fail(PeerLostError, f"a group was left with {type(error).__name__}")
            raise
        if errors:
            raise errors[0]

    def _all_reduce(self, src: View, dst: View, op: str, stream: Stream) -> None:
        self._issue("all_reduce", partial(super()._all_reduce, src, dst, op, stream))

    def _reduce(self, src: View, dst: View | None, op: str, root: int, stream: Stream) -> None:
        self._issue("reduce", partial(super()._reduce, src, dst, op, root, stream))

    def _broadcast(self, view: View, root: int, stream: Stream) -> None:
        self._issue("broadcast", partial(super()._broadcast, view, root, stream))

    def _reduce_scatter(self, src: View, dst: View, count: int, op: str, stream: Stream) -> None:
        self._issue("reduce_scatter", partial(super()._reduce_scatter, src, dst, count, op, stream))

    def _all_gather(self, src: View, dst: View, count: int, stream: Stream) -> None:
        self._issue("all_gather", partial(super()._all_gather, src, dst, count, stream))

    def _send(self, view: View, peer: int, stream: Stream) -> None:
        self._issue("send", partial(super()._send, view, peer, stream))

    def _recv(self, view: View, peer: int, stream: Stream) -> None:
        self._issue("recv", partial(super()._recv, view, peer, stream))

    def _send_recv(self, src: View, dst: View, peer: int, stream: Stream) -> None:
        self._issue("send_recv", partial(super()._send_recv, src, dst, peer, stream))

    def _exchange(
        self,
        sends: Sequence[tuple[int, Any]],
        receives: Sequence[tuple[int, Any]],
        operation: str,
        stream: Stream,
        part: View | None = None,
        root: int = -1,
    ) -> None:
        self._issue(operation, partial(super()._exchange, sends, receives, operation, stream, part, root))
