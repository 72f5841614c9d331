"""How processes come to a communicator of their own: who is waited for, who says that it will not come, who is missing.

MPI duplicates a communicator when all of its processes have asked for that, and tells nobody who has not. So a process
that ends without having come leaves a note for the others, and those that wait too long tell each other that they did:
who says nothing is missing. The notes travel on the caller's communicator, under a tag of their own, and only then.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

from distarray.comm.deadlines import COLLECTIVE
from distarray.comm.mpi.exit import GRAVEYARD, forget_all, load_mpi, register
from distarray.errors import PeerLostError

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["Forming", "duplicated", "watch"]

TAG = 29731
"""Of the notes: below 32768, which every library has."""
PAUSE = 1e-3
GRACE = 1.0
"""Seconds that a process which has waited too long listens for the others that have."""
TEXT = 400


class _Note:
    """A note under way, with its buffer."""

    receiving = done = False

    def __init__(self, request: Any, data: bytes) -> None:
        self.request, self.data = request, data


class Forming:
    """A process's part in a communicator that does not stand yet. The others are told if the process ends before it does.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        The caller's communicator.
    only_failing : bool
        Whether an end without an exception is none of the others' business.
    """

    def __init__(self, comm: MPI.Intracomm, only_failing: bool = False) -> None:
        self._mpi = load_mpi()
        self._comm = comm
        self._only_failing = only_failing
        self.size, self.rank = int(comm.Get_size()), int(comm.Get_rank())

    def tell(self, about: str, text: str = "") -> None:
        """Leave a note for all others, without waiting for any of them."""
        data = json.dumps([about, text[:TEXT]]).encode()
        for peer in range(self.size):
            if peer != self.rank:
                try:
                    GRAVEYARD.append(_Note(self._comm.Isend([data, self._mpi.BYTE], peer, TAG), data))
                except self._mpi.Exception:  # it is gone
                    continue

    def heard(self) -> dict[int, tuple[str, str]]:
        """The notes that have come, by the rank that left them."""
        mpi, status, said = self._mpi, self._mpi.Status(), {}
        while self._comm.Iprobe(mpi.ANY_SOURCE, TAG, status):
            data = bytearray(status.Get_count(mpi.BYTE))
            peer = status.Get_source()
            self._comm.Recv([data, mpi.BYTE], peer, TAG)
            about, text = json.loads(data)
            said[peer] = str(about), str(text)
        return said

    # A process's end, as the exit handler asks for it

    def farewell(self, text: str, clean: bool) -> None:
        """Tell those that may wait for this process that it will not come."""
        if not self._only_failing or getattr(sys, "last_value", None) is not None:
            self.tell("ended", text)

    def leave(self) -> bool:
        """Nothing is in flight: the process may end at once."""
        return True

    def unsaid(self) -> str:
        """There is no failure that the program has not seen."""
        return ""


def duplicated(source: MPI.Intracomm, deadline: float, variable: str = COLLECTIVE[0]) -> Any:
    """A duplicate of a communicator, whose messages never meet the caller's. It waits for the other processes until the deadline.

    Raises
    ------
    PeerLostError
        A process said that it ended, or did not come by the deadline, which `variable` sets.
    """
    forming = Forming(source)
    register(forming)
    due = time.monotonic() + deadline
    comm, request = source.Idup()
    late: set[int] = set()
    while not request.Test():
        said = forming.heard()
        ended = [f"rank {rank} {text}" for rank, (about, text) in sorted(said.items()) if about == "ended"]
        if ended:
            GRAVEYARD.append((comm, request))
            raise PeerLostError(
                f"{'; '.join(ended)}, and did not come to form the communicator of {source.Get_size()} processes; every "
                "process must make it. Look at why it ended."
            )
        late |= set(said)
        if late or time.monotonic() > due:
            GRAVEYARD.append((comm, request))
            raise PeerLostError(_missing(forming, late, deadline, variable))
        time.sleep(PAUSE)
    forget_all(Forming)
    return comm


def _missing(forming: Forming, late: set[int], deadline: float, variable: str) -> str:
    """Tell the others that this process waits no longer. The error names those that did not say the same."""
    forming.tell("late")
    end = time.monotonic() + min(GRACE, deadline)
    while len(late) < forming.size - 1 and time.monotonic() < end:
        late |= set(forming.heard())
        time.sleep(PAUSE)
    absent = [rank for rank in range(forming.size) if rank != forming.rank and rank not in late]
    shown = ", ".join(map(str, absent[:16])) + (f" and {len(absent) - 16} more" if len(absent) > 16 else "")
    who = f"rank{'s' * (len(absent) > 1)} {shown} of {forming.size}" if absent else f"a process of {forming.size}"
    return (
        f"{who} did not come to form the communicator within {deadline:g} s; every process must make it. Look for one that "
        f"failed at its start, or raise {variable}."
    )


def watch() -> None:
    """Where MPI has started already, have the others told if this process fails before it comes to a communicator."""
    mpi = load_mpi()
    if mpi.Is_initialized() and not mpi.Is_finalized() and mpi.COMM_WORLD.Get_size() > 1:
        register(Forming(mpi.COMM_WORLD, only_failing=True))
