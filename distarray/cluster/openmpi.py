"""``mpirun`` and ``mpiexec`` of Open MPI, also inside a Slurm job."""

from __future__ import annotations

from distarray.cluster.base import Launcher

__all__ = ["OpenMPI"]


class OpenMPI(Launcher):
    """OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE and OMPI_COMM_WORLD_LOCAL_RANK. MPI does the bootstrap: no address."""

    name = "openmpi"
    needs = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK")

    def rank(self) -> int:
        return self.integer("OMPI_COMM_WORLD_RANK")

    def size(self) -> int:
        return self.integer("OMPI_COMM_WORLD_SIZE", 1)

    def local_rank(self) -> int | None:
        return self.integer("OMPI_COMM_WORLD_LOCAL_RANK")
