"""Launchers that speak PMI: ``mpiexec`` of MPICH and Intel MPI (Hydra), of MVAPICH, and Cray's PALS."""

from __future__ import annotations

from distarray.cluster.base import Launcher

__all__ = ["PMI"]


class PMI(Launcher):
    """PMI_RANK and PMI_SIZE. MPI does the bootstrap: no address.

    The local rank has a name of its own in each: MPI_LOCALRANKID (MPICH, Intel), MV2_COMM_WORLD_LOCAL_RANK (MVAPICH),
    PALS_LOCAL_RANKID (Cray), PMI_LOCAL_RANK (others); where none is set it is unknown, not an error.
    """

    name = "pmi"
    needs = ("PMI_RANK", "PMI_SIZE")

    def rank(self) -> int:
        return self.integer("PMI_RANK")

    def size(self) -> int:
        return self.integer("PMI_SIZE", 1)

    def local_rank(self) -> int | None:
        return self.first_of("MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK", "PALS_LOCAL_RANKID", "PMI_LOCAL_RANK")
