"""What a launch environment tells a process: which rank it is, of how many, and where rank 0 can be met.

One adapter for each launcher, all behind `Launcher`; `distarray.cluster.detect` asks them in this order and takes the
first that is complete:

1. explicit: DISTARRAY_RANK and its like, which a person set for this program and nobody else reads;
2. torchrun: its workers may themselves run under Slurm or MPI, once a node, and are what counts;
3. Open MPI: ``mpirun`` inside a Slurm job starts its daemons by ``srun``, whose variables the ranks inherit;
4. Slurm: before PMI, because ``srun --mpi=pmi2`` sets both, and Slurm also knows the hosts. It steps back where the PMI
   variables give other numbers: then ``mpiexec`` of MPICH runs inside Slurm's step;
5. PMI: MPICH, Intel MPI, Cray and MVAPICH.

A launcher that is there only in part is passed over for one that is complete, and is an error when none is: a guess would
start n groups of one process. Where there is nothing at all, the program is one process. Nothing here talks to anyone:
the environment is read and that is all. This file and the adapters import only errors and the standard library.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

from distarray.errors import DeviceError, RendezvousError

__all__ = ["MPI_LAUNCHERS", "Launch", "Launcher", "derived_port", "local_device", "why_apart"]

#: Adapters whose processes MPI may join into one world.
MPI_LAUNCHERS = frozenset({"openmpi", "pmi", "slurm"})


class Launch(NamedTuple):
    """How this process was started.

    Attributes
    ----------
    launcher : str
        "none" for a single process, else the adapter's name.
    rank, size : int
        This process's number and how many there are.
    local_rank : int or None
        Its number among those on its host; None where the launcher does not say.
    host : str or None
    port : int or None
        Where rank 0 serves the rendezvous store; None where MPI does the bootstrap or the defaults hold.
    """

    launcher: str
    rank: int
    size: int
    local_rank: int | None
    host: str | None = None
    port: int | None = None


class Launcher(abc.ABC):
    """Reads one launcher's variables. Subclasses give three short methods, or five, and the variables that they need."""

    name: ClassVar[str]
    #: Without all of these the launch cannot be understood.
    needs: ClassVar[tuple[str, ...]]

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = environ

    def is_present(self) -> bool:
        """Whether this launcher started this process, as far as can be seen: some of its variables may be missing."""
        return any(self.environ.get(variable) for variable in self.needs)

    @abc.abstractmethod
    def rank(self) -> int:
        """This process's number."""

    @abc.abstractmethod
    def size(self) -> int:
        """How many processes were started."""

    @abc.abstractmethod
    def local_rank(self) -> int | None:
        """This process's number among those on its host, or None."""

    def address(self) -> tuple[str | None, int | None]:
        """Host and port at which rank 0 can be met; None for what the launcher does not say."""
        return None, None  # MPI does the bootstrap, or DISTARRAY_HOST and DISTARRAY_PORT say it for every launcher

    def missing(self) -> list[str]:
        """Those of the needed variables that are not set."""
        return [variable for variable in self.needs if not self.environ.get(variable)]

    def launch(self) -> Launch:
        """All of it, checked. DISTARRAY_HOST and DISTARRAY_PORT take precedence over what the launcher says."""
        rank, size, local = self.rank(), self.size(), self.local_rank()
        if not 0 <= rank < size:
            raise RendezvousError(
                f"{self.name} says that this is rank {rank} of {size}, but ranks are 0 to size - 1; "
                f"see {' and '.join(self.needs)}"
            )
        host, port = self.address()
        if self.environ.get("DISTARRAY_PORT"):
            port = self.integer("DISTARRAY_PORT", 0, 65535)
        return Launch(self.name, rank, size, local, self.environ.get("DISTARRAY_HOST") or host, port)

    def integer(self, variable: str, least: int = 0, most: int = 1 << 31) -> int:
        """A variable's value as a number; RendezvousError names the variable and what it holds."""
        text = self.environ.get(variable, "")
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= most:
            raise RendezvousError(
                f"{variable}={text!r} (launcher {self.name}), but a whole number from {least} is needed; "
                "set it, or unset it where this process was not launched so"
            )
        return value

    def first_of(self, *variables: str) -> int | None:
        """The value of the first variable that is set; None where none is."""
        return next((self.integer(variable) for variable in variables if self.environ.get(variable)), None)


def derived_port(number: int) -> int:
    """A port that every rank computes from a number that the launcher gave all of them.

    It is above Linux's range of ephemeral ports, so that no outgoing connection takes it by chance. Numbers that differ
    by less than 4096 get different ports.
    """
    return 61440 + number % 4096


def local_device(launch: Launch, visible: int) -> int:
    """Which of the visible GPUs this process takes.

    The only one, where exactly one is visible (Slurm's ``--gpus-per-task``, Dask and Ray hide the others); else the one
    of the local rank, counted round where there are fewer GPUs than local ranks. NCCL's communicator then finds
    out whether two processes took the same.

    Raises
    ------
    DeviceError
        With no GPU visible, or with several where the launcher did not say which local rank this is.
    """
    if visible < 1:
        raise DeviceError(
            f"rank {launch.rank} sees no GPU; check CUDA_VISIBLE_DEVICES and what the launcher gives each process, "
            "or use kind='host'"
        )
    if visible == 1 or launch.size == 1:
        return 0
    if launch.local_rank is None:
        raise DeviceError(
            f"rank {launch.rank} sees {visible} GPUs, and the launcher ({launch.launcher}) does not say which process of "
            "its host this is; set DISTARRAY_LOCAL_RANK, or make one GPU visible to each process (CUDA_VISIBLE_DEVICES)"
        )
    return launch.local_rank % visible


def why_apart(launch: Launch) -> str:
    """Why MPI does not see the processes that the launcher started as one world, and what to do: part of a message."""
    own = f"mpiexec -n {launch.size} of the MPI that mpi4py uses"
    if launch.launcher == "slurm":
        return (
            "srun did not serve the PMI that mpi4py's MPI speaks; start the program with srun --mpi=pmi2 for MPICH and "
            f"Intel MPI, with srun --mpi=pmix for Open MPI (srun --mpi=list shows what this Slurm has), or with {own}"
        )
    if launch.launcher in MPI_LAUNCHERS:
        return f"mpi4py uses another MPI than the launcher's; start the program with {own}"
    return (
        f"{launch.launcher} starts processes without MPI; start the program with {own}, or use GPUs, which NCCL serves"
    )
