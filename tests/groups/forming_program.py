"""What each process of an ``mpiexec`` runs for `test_forming`: ``forming_program.py NAME``. Prints what became of it."""

from __future__ import annotations

import os
import sys
import time

from mpi4py import MPI

import distarray as da
from distarray.errors import DistArrayError


def main() -> None:
    name, size, rank = sys.argv[1], MPI.COMM_WORLD.Get_size(), MPI.COMM_WORLD.Get_rank()
    start = time.monotonic()
    if rank == 1:
        if name == "raises":
            raise KeyError("the reason")
        if name == "wrong rank":
            da.init_process_group(size, 0, backend="mpi")
        if name == "stays away":
            time.sleep(12)
            os._exit(0)
    try:
        if name == "arrays":
            if rank:
                sys.exit("no part in it")
            da.init(kind="host")
        else:
            da.init_process_group(size, rank, backend="mpi").stop()
        said = "formed"
    except DistArrayError as error:
        said = f"{type(error).__name__}: {error}"
    os.write(1, f"rank {rank} after {time.monotonic() - start:.1f} s: {said}\n".encode())
    time.sleep(1)  # the launcher kills the others when the first has ended


if __name__ == "__main__":
    main()
