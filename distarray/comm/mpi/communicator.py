"""Host arrays between processes, through mpi4py: non-blocking point-to-point messages, each wait with a deadline.

No MPI collective is called once the communicator stands: one that a lost process never joins can't be cancelled, and
can't say who is missing. How a wait goes on and what ends it is in `channel`; small values are in `telling`, and how the process
ends, in `exit`.

After the first error the communicator is given up: every later call raises the same, and `shrink` gives a new one.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray.comm.base import Communicator, Message, Numbers, Signature, chosen_survivors
from distarray.comm.deadlines import seconds
from distarray.comm.mpi import verdict
from distarray.comm.mpi.channel import Channel, Pending
from distarray.comm.mpi.control import Tags
from distarray.comm.mpi.exit import GRAVEYARD, forget, load_mpi
from distarray.comm.mpi.forming import duplicated
from distarray.comm.mpi.telling import all_gather, barrier, introduce, start, tell_numbers
from distarray.comm.record import Bytes, Call, byte_views, collective_deadline
from distarray.errors import CollectiveMismatchError, PeerLostError

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["MpiCommunicator"]


class MpiCommunicator(Channel, Communicator):
    """The processes of an MPI communicator.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm, optional
        Whose processes; ``MPI.COMM_WORLD``. It is duplicated: messages here never meet the caller's.
    deadline : float, optional
        Seconds that a call waits; ``DISTARRAY_TIMEOUT``, by default 120.

    Attributes
    ----------
    hosts : list of str
        The host of each rank.
    record : Recorder
        This rank's last 64 calls.

    Raises
    ------
    UnsupportedError
        mpi4py or an MPI library is missing.
    PeerLostError
        A process did not come to form the communicator.
    """

    def __init__(
        self, comm: MPI.Intracomm | None = None, deadline: float | None = None, *, duplicate: bool = True
    ) -> None:
        mpi = load_mpi()
        limit = collective_deadline() if deadline is None else seconds(deadline)
        if duplicate:
            comm = duplicated(mpi.COMM_WORLD if comm is None else comm, limit)
        assert comm is not None
        super().__init__(mpi, comm, limit)
        self._shrinks: dict[tuple[int, ...], int] = {}
        introduce(self)

    # The calls

    def exchange(self, sends: Sequence[Message], receives: Sequence[Message], signature: Signature) -> None:
        outgoing = byte_views(sends, self.size, receiving=False)
        incoming = byte_views(receives, self.size, receiving=True)
        call = start(self, "exchange", signature)
        pending: list[Pending] = []
        try:
            mine, own = outgoing.pop(self.rank, None), incoming.pop(self.rank, None)
            for peer, view in incoming.items():
                self.transfer_segments(call, pending, peer, view, True)
            for peer, view in outgoing.items():
                self.transfer_segments(call, pending, peer, view, False)
            if mine is not None or own is not None:
                self._copy_own(call, mine, own)
            self.complete(call, pending)
        except BaseException as error:
            self.broke(call, pending, error)
            raise
        call.finish()

    def tell_numbers(self, numbers: Numbers, mine: Sequence[Any], site: str) -> list[tuple[Any, ...]]:
        return tell_numbers(self, numbers, mine, site)

    def all_gather(self, payload: bytes, signature: Signature) -> list[bytes]:
        return all_gather(self, payload, signature)

    def barrier(self, signature: Signature) -> None:
        barrier(self, signature)

    def shrink(self, survivors: Sequence[int]) -> MpiCommunicator:
        chosen = chosen_survivors(self, survivors)
        turn = self._shrinks[chosen] = self._shrinks.get(chosen, -1) + 1
        call = self.record.begin(turn, "shrink", Signature(f"shrink to ranks {list(chosen)}"))
        pending: list[Pending] = []
        try:  # first see that all of them are there: the creation that follows can't be given up half way
            for peer in chosen:
                if peer != self.rank:
                    self.transfer_slot(call, pending, peer, bytearray(1), True, Tags.SHRINK)
                    self.transfer_slot(call, pending, peer, b"s", False, Tags.SHRINK)
            self.complete(call, pending, listening=False)
            created = self._created(chosen, call)
        except BaseException as error:
            self.broke(call, pending, error)
            raise
        call.finish()
        return MpiCommunicator(created, self.deadline, duplicate=False)

    def close(self) -> None:
        if self._closed:
            return
        if self._failure is None:
            self.barrier(Signature("close"))
            self.free_standing()
            if self._control.settle():
                forget(self)
                self._comm.Free()
        self._closed = True
        self._failure = self._failure or (PeerLostError, f"rank {self.rank} closed this communicator; make a new one.")

    # Steps of the calls

    def _copy_own(self, call: Call, mine: Bytes | None, own: Bytes | None) -> None:
        """Copy the message of this rank to itself, whose sizes must agree."""
        sent, wanted = (0 if view is None else view.size for view in (mine, own))
        if sent != wanted:
            self.fail(
                CollectiveMismatchError, f"rank {self.rank} sends itself {sent} bytes and receives {wanted} in {call}; they "
                "must be equal.",
            )  # fmt: skip
        if mine is not None and own is not None:
            np.copyto(own, mine)

    def _created(self, chosen: tuple[int, ...], call: Call) -> Any:
        """The survivors' MPI communicator. MPI creates it in one blocking call, made on a thread that can be left behind."""
        made: list[Any] = []

        def create() -> None:
            mpi = self._mpi
            try:
                group = self._comm.Get_group().Incl(list(chosen))
                if verdict.failure_classes(mpi):  # ULFM: nothing can be created from a communicator with a dead member
                    name = f"distarray {list(chosen)} {call.sequence}"
                    made.append(mpi.Intracomm.Create_from_group(group, name, errhandler=mpi.ERRORS_RETURN))
                else:
                    made.append(self._comm.Create_group(group, 0))
            except (mpi.Exception, NotImplementedError) as error:
                made.append(error)

        if self._mpi.Query_thread() == self._mpi.THREAD_MULTIPLE:
            thread = threading.Thread(target=create, name="distarray-shrink", daemon=True)
            thread.start()
            thread.join(self.deadline)
        else:
            create()
        if not made or isinstance(made[0], Exception):
            if not made:
                GRAVEYARD.append(made)
            why = made[0] if made else f"it took more than {self.deadline:g} s"
            raise PeerLostError(
                f"shrink to ranks {list(chosen)} failed: {why}; agree on the survivors again, and retry."
            )
        return made[0]
