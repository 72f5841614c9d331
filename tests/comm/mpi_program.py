"""What each process of an ``mpiexec`` runs for `test_mpi`: ``mpi_program.py deadline program [program …]``.

Ends with a line ``OK rank`` when every assertion held, and with the exit code 10 + rank, so that the test sees that the
process came to its own end. ``mpi-first`` before the others imports ``mpi4py.MPI`` ahead of distarray.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
if "mpi-first" in sys.argv:
    import mpi4py.MPI  # noqa: F401 - MPI starts before distarray is imported

import communicator_cases as cases
import numpy as np

from distarray.comm.base import Message
from distarray.comm.mpi.communicator import MpiCommunicator
from distarray.errors import PeerLostError

HERE = cases.HERE


def tell(comm: MpiCommunicator, text: str) -> None:
    """One write: lines of several processes do not mix."""
    os.write(1, f"{text} {comm.rank}\n".encode())


def stopped(comm: MpiCommunicator) -> None:
    """The last rank is stopped: the others name it by the deadline, and go on without it."""
    comm.barrier(HERE)
    last = comm.size - 1
    if comm.rank == last:
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(
            1
        )  # Open MPI's launcher wakes it (SIGCONT) before it ends the job: it must not go on as if all were well
    start = time.monotonic()
    big = np.ones(1 << 18)

    def program() -> None:
        for _ in range(3):  # towards the stopped one as well: a send that nobody takes must not block either
            into = np.empty_like(big)
            comm.exchange(
                [Message((comm.rank + 1) % comm.size, big)], [Message((comm.rank - 1) % comm.size, into)], HERE
            )

    cases.raised(PeerLostError, program, f"rank {last} (host ", "'redistribute'")
    assert time.monotonic() - start < comm.deadline + 0.5
    if last > 1:
        smaller = comm.shrink(range(last))
        cases.Healthy.all_pairs(smaller)
        cases.Healthy.gathers(smaller)


def killed(comm: MpiCommunicator) -> None:
    """The last rank is killed, under a library that tolerates it (ULFM): the others hear of it at once."""
    comm.barrier(HERE)
    last = comm.size - 1
    if comm.rank == last:
        os.kill(os.getpid(), signal.SIGKILL)
    start = time.monotonic()
    cases.raised(PeerLostError, lambda: comm.barrier(HERE), f"rank {last} (host ", "'redistribute'")
    assert time.monotonic() - start < comm.deadline
    if last > 1:
        smaller = comm.shrink(range(last))
        cases.Healthy.all_pairs(smaller)
        cases.Healthy.barriers(smaller)


def uncaught(comm: MpiCommunicator) -> None:
    """Rank 1 ends with an exception that nobody catches: the others are told why."""
    comm.barrier(HERE)
    if comm.rank == 1:
        raise KeyError("the reason")
    start = time.monotonic()
    cases.raised(PeerLostError, lambda: comm.barrier(HERE), "rank 1 ", "KeyError", "the reason")
    assert time.monotonic() - start < comm.deadline / 2


def lingers(comm: MpiCommunicator) -> None:
    """One works on after the others ended: they wait for it, and nothing is killed."""
    if comm.rank == 0:
        time.sleep(1)


def main() -> int:
    deadline, programs = float(sys.argv[1]), [name for name in sys.argv[2:] if name != "mpi-first"]
    comm = MpiCommunicator(deadline=deadline)
    try:
        for number, name in enumerate(programs):
            if number and hasattr(cases.Failing, name):
                comm = MpiCommunicator(deadline=deadline)  # after the one that failed
            where = next((one for one in (cases.Healthy, cases.Failing) if hasattr(one, name)), None)
            (getattr(where, name) if where else globals()[name])(comm)
            tell(comm, f"HELD {name}")
    except (AssertionError, PeerLostError):
        traceback.print_exc()
        tell(comm, f"FAILED {name}")
        return 1
    tell(comm, "OK")
    return 10 + comm.rank


if __name__ == "__main__":
    sys.exit(main())
