"""What each process of an ``mpiexec`` runs for `test_forming`: rank 1 ends before MPI has started in it."""

from __future__ import annotations

import os

from distarray.cluster import detect

if detect().rank == 1:
    os._exit(0)

import distarray as da

da.init(kind="host")
print("formed")
