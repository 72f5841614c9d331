"""Communicators: what moves bytes between processes.

Importing the package imports neither MPI nor NCCL. Where the program has imported MPI already, its end is put in order
now: a process that fails must be able to leave although its peers cannot answer.
"""

import sys

if "mpi4py.MPI" in sys.modules:
    from distarray.comm.mpi import forming

    forming.watch()
