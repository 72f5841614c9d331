"""Backend "mpi": the process group on host arrays, over point-to-point messages of mpi4py."""

from __future__ import annotations

from distarray.comm.base import Signature
from distarray.comm.deadlines import collective_timeout
from distarray.groups.host import HostEngine
from distarray.groups.mpi_calls import connect_mpi

__all__ = ["MpiGroup"]


class MpiGroup(HostEngine):
    """A process group on host arrays; see `ProcessGroup`."""

    def __init__(self, n_devices: int, rank: int) -> None:
        self._calls = connect_mpi(n_devices, rank, collective_timeout())
        self._prepare(self._calls)
        self.rank = rank
        self.size = n_devices
        self.deadline = self._calls.deadline

    def barrier(self) -> None:
        self._calls.barrier(Signature("barrier"))

    def stop(self) -> None:
        self._calls.close()

    def _abandon(self, error: BaseException) -> None:
        self._calls.report(error)
