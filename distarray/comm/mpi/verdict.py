"""What MPI processes say when they give a communicator up: the texts of errors, and who is to blame for a wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from distarray.comm.mpi.control import Status
from distarray.comm.record import Call
from distarray.errors import CollectiveMismatchError, CommunicationError, PeerLostError

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["failed_ranks", "failure_classes", "late", "left", "mismatch", "silent", "told"]


def mismatch(one: str, at: str, other: str, there: str, what: str) -> str:
    """Two ranks are at different calls."""
    return (
        f"{one} is at {at}; {other} at {there}: {what}. All ranks must make the same calls in the same order: look "
        "for a branch on the rank, on local values or on timing before these lines, or set DISTARRAY_DEBUG=1 to compare "
        "every call."
    )


def left(rank: int, call: Call, said: str) -> str:
    """A peer has ended, or given the communicator up, while this rank waits for it."""
    return (
        f"{said}, while rank {rank} waits for it in {call}. Every rank must make every call: look for a return, an exception "
        "that was swallowed, or a branch on the rank."
    )


def late(rank: int, call: Call, deadline: float, names: str, remedy: str, ring: str) -> str:
    """A peer did not answer by the deadline."""
    return (
        f"rank {rank} waited {deadline:g} s in {call}; {names} did not answer. It died, was stopped, or is busy elsewhere: "
        f"look at what it does, {remedy}, or raise the deadline (DISTARRAY_TIMEOUT) if it is only "
        f"slow.\n{ring}"
    )


def told(rank: int, peer: int, message: Mapping[str, Any], call: Call) -> tuple[type[CommunicationError], str]:
    """The failure that a peer told this rank of."""
    if rank in message["lost"]:
        return PeerLostError, (
            f"the others gave rank {rank} up, since it did not answer in time: rank {peer} found '{message['text']}'. This "
            f"rank came to {call} too late; it can't go on with them."
        )
    kind = CollectiveMismatchError if message["type"] == "CollectiveMismatchError" else PeerLostError
    return kind, f"rank {peer} found, while rank {rank} was at {call}: {message['text']}"


def silent(waiting: Sequence[int], known: Mapping[int, Status], rank: int) -> list[int]:
    """Of those that this rank waits for, and those that they wait for in turn: who did not say where it is."""
    reached: set[int] = set()
    front = list(waiting)
    while front:
        peer = front.pop()
        if peer in reached or peer == rank:
            continue
        reached.add(peer)
        if peer in known:
            front.extend(known[peer].awaits)
    return sorted(peer for peer in reached if peer not in known)


def failure_classes(mpi: ModuleType) -> set[int]:
    """The error classes of a lost process, in a library that has them (ULFM)."""
    names = ("ERR_PROC_FAILED", "ERR_PROC_FAILED_PENDING", "ERR_REVOKED")
    return {getattr(mpi, name, mpi.ERR_UNKNOWN) for name in names} - {mpi.ERR_UNKNOWN, mpi.ERR_OTHER}


def failed_ranks(mpi: ModuleType, comm: MPI.Intracomm) -> list[int]:
    """The ranks that the library knows to have failed."""
    try:
        failed = comm.Get_failed()
        ranks = mpi.Group.Translate_ranks(failed, list(range(failed.Get_size())), comm.Get_group())
    except (mpi.Exception, NotImplementedError, AttributeError):
        return []
    return sorted(int(rank) for rank in ranks if rank >= 0)
