"""What each process of an ``mpiexec`` runs for `test_a_last_call_that_differs`: ``last_call_program.py CALL END``.

The processes' last calls differ, or one was refused, in a way that only one of them can find; then they stop the group,
leave its block, or end. Each prints its end, since the launcher kills the rest when the first has failed.
"""

from __future__ import annotations

import os
import sys
import time

import numpy as np
from mpi4py import MPI

from distarray import init_process_group
from distarray.groups.base import ProcessGroup


def call(group: ProcessGroup, name: str) -> None:
    n, rank = group.size, group.rank
    if name == "gather":
        group.gather(np.ones(4 + (rank == 1)), np.zeros((n, 4)) if rank == 0 else None, 0)
    elif name == "scatter":
        group.scatter(np.ones((n, 4)) if rank == 0 else None, np.ones(4 + (rank == 1)), 0)
    elif name == "broadcast":
        group.broadcast(np.ones(4 + (rank == 1)), 0)
    elif name == "root":  # what is sent is small, and on its way: nobody waits
        group.broadcast(np.ones(4), int(rank == 1))
    elif name == "skipped" and rank != 1:
        group.broadcast(np.ones(4), 0)
    elif name == "reduce":
        group.reduce(np.ones(4 + (rank == 1)), np.ones(4) if rank == 0 else None, 0)
    elif name == "send" and rank == 1:
        group.send(np.ones(3), 0)
    elif name == "send" and rank == 0:
        group.recv(np.ones(4), 1)
    elif name == "sparse":
        import scipy.sparse

        matrix = scipy.sparse.csr_matrix(np.eye(3))
        group.gather(matrix.tocsc() if rank == 1 else matrix, [], 0)
    elif name == "refused":
        group.gather(np.ones(4), np.zeros((n, 3)) if rank == 0 else None, 0)


def main() -> None:
    name, end = sys.argv[1:]
    n, rank = MPI.COMM_WORLD.Get_size(), MPI.COMM_WORLD.Get_rank()
    exit_now = os._exit

    def ended(code: int) -> None:
        os.write(1, f"rank {rank} exit {code}\n".encode())
        time.sleep(1)
        exit_now(code)

    os._exit = ended  # type: ignore[assignment]
    group = init_process_group(n, rank, backend="mpi")
    try:
        if end == "block":
            with group:
                call(group, name)
        else:
            call(group, name)
            if end == "stop":
                group.stop()
    except BaseException as error:
        os.write(1, f"rank {rank} raised {type(error).__name__}: {error}\n".encode())
        if end != "end":
            time.sleep(1)
        raise


if __name__ == "__main__":
    main()
