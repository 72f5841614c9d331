"""Forming the group: from how the process was launched to the communicator and the devices it owns.

MPI carries host data and NCCL carries GPU data; MPI, or the rendezvous store where there is no MPI, brings NCCL up.
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from distarray.cluster import MPI_LAUNCHERS, Launch, local_device, why_apart
from distarray.comm.base import Communicator
from distarray.comm.deadlines import collective_timeout
from distarray.devices import gpu_count
from distarray.errors import CommunicationError

__all__ = ["Formed", "form_group", "is_child"]


class Formed(NamedTuple):
    """This process's part of a group: who carries its data, and which devices it owns."""

    communicator: Communicator
    kind: str
    devices: int
    ordinals: tuple[int, ...] | None


_MARK = "DISTARRAY_PROCESS"
"""In the environment of a process that is in a group, and of its children: its pid, and how it was launched."""


def is_child(launch: Launch) -> bool:
    """Whether this process was forked, or started by Python (multiprocessing, subprocess), from one that a launcher started.

    It inherits the launcher's variables but has no part in the group: a second process of the same rank would take the
    messages of the first, or end the job.
    """
    pid, _, launched = os.environ.get(_MARK, "").partition(" ")
    if not pid.isdecimal() or int(pid) == os.getpid() or launched != repr(launch):  # a launcher of its own started it
        return False
    parent = os.getppid()
    return parent == int(pid) or (
        _is_python(parent) and _parent_of(parent) == int(pid)
    )  # multiprocessing's fork server


def _is_python(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/comm", encoding="ascii", errors="replace") as file:
            return file.read().startswith("python")
    except OSError:
        return False


def _parent_of(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def form_group(launch: Launch, kind: str | None, devices: int | None) -> Formed:
    """The communicator and devices of a process that a launcher started beside others.

    Parameters
    ----------
    launch : Launch
        Of size two or more.
    kind : {"host", "cuda"}, optional
        Default: "cuda" where this process sees a GPU.
    devices : int, optional
        How many devices this process owns. Default: one; on GPUs the one of its local rank.

    Raises
    ------
    CommunicationError
        Host data without MPI, or an MPI that did not come up with the launcher's size: no transport of our own is used.
    """
    os.environ[_MARK] = f"{os.getpid()} {launch!r}"
    visible = gpu_count() if kind != "host" else 0
    kind = kind or ("cuda" if visible else "host")
    if kind == "host":
        return Formed(_mpi(launch), kind, 1 if devices is None else devices, None)
    from distarray.comm.nccl.communicator import NcclCommunicator

    ordinal = local_device(launch, visible)
    control: Any
    if launch.launcher in MPI_LAUNCHERS and _has_mpi():
        control = _mpi(launch)
    else:
        control = _store(launch)
    count = 1 if devices is None else devices
    return Formed(NcclCommunicator(control, ordinal), kind, count, (ordinal,))


def _has_mpi() -> bool:
    import importlib.util

    return importlib.util.find_spec("mpi4py") is not None


def _mpi(launch: Launch) -> Communicator:
    if launch.launcher not in MPI_LAUNCHERS:
        raise CommunicationError(
            f"host data moves between processes through MPI, and {launch.launcher} started {launch.size} processes without "
            f"it: start them with mpiexec -n {launch.size}, or use GPUs, which NCCL serves, with distarray.init(kind='cuda')"
        )
    if not _has_mpi():
        raise CommunicationError(
            f"{launch.launcher} started {launch.size} processes, and mpi4py, which moves host data between them, is not "
            f"installed: pip install 'distarray[mpi]'"
        )
    from distarray.comm.mpi.communicator import MpiCommunicator

    communicator = MpiCommunicator()
    if communicator.size != launch.size:
        raise CommunicationError(
            f"{launch.launcher} started {launch.size} processes and MPI sees {communicator.size}: {why_apart(launch)}"
        )
    return communicator


def _store(launch: Launch) -> Any:
    from distarray.rendezvous.control import store_control

    if launch.host is None or launch.port is None:
        raise CommunicationError(
            f"{launch.launcher} names no address for the processes to meet at: set DISTARRAY_HOST and DISTARRAY_PORT to "
            f"the host of rank 0 and a free port there, or install mpi4py"
        )
    return store_control(launch.size, launch.rank, launch.host, launch.port, collective_timeout())
