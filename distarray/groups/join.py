"""How a program comes to a process group: one process for each device, or one process for all of them."""

from __future__ import annotations

import operator
import os
from collections.abc import Sequence
from typing import Any

from distarray.devices.gpus import gpu_count
from distarray.groups import local_host, local_nccl
from distarray.groups.base import ProcessGroup
from distarray.groups.local_host import HostCommunicator
from distarray.groups.local_nccl import LocalCommunicator
from distarray.groups.mpi import MpiGroup
from distarray.groups.nccl import NcclGroup
from distarray.groups.one_process import GroupCalls, wanted_devices
from distarray.rendezvous.store import DEFAULT_PORT

__all__ = ["group", "init_all", "init_process_group"]

BACKENDS = ("nccl", "mpi")
KINDS = ("cuda", "host")
DEFAULT_HOST = "127.0.0.1"


def init_process_group(
    n_devices: int,
    rank: int,
    *,
    backend: str = "nccl",
    host: str | None = None,
    port: int | None = None,
    use_mpi: bool = False,
) -> ProcessGroup:
    """Join this process to a group of `n_devices` processes; all of them call it.

    Parameters
    ----------
    n_devices : int
        Processes in the group, each with one device.
    rank : int
        This process's number, from 0; all different.
    backend : {"nccl", "mpi"}
        "nccl" moves arrays of the GPU that is current now, and needs CuPy with NCCL. "mpi" moves host arrays through
        mpi4py; `rank` must be the process's rank in ``MPI.COMM_WORLD`` and `n_devices` its size.
    host, port : str and int, optional
        Where rank 0 serves the rendezvous of backend "nccl"; else ``DISTARRAY_HOST`` and ``DISTARRAY_PORT``, else cupyx's
        ``CUPYX_DISTRIBUTED_HOST`` and ``CUPYX_DISTRIBUTED_PORT``, else 127.0.0.1 and 13333. Not used with MPI.
    use_mpi : bool
        Whether the processes of backend "nccl" find each other through mpi4py.

    Returns
    -------
    ProcessGroup

    Raises
    ------
    ValueError
        A number of devices, rank or backend that cannot be.
    RuntimeError
        What the backend needs is missing.
    RendezvousError
        The processes did not find each other by the deadline.

    Notes
    -----
    Communication: an exchange of names between all processes, and NCCL's set-up.
    """
    n_devices, rank = _as_int(n_devices, "n_devices"), _as_int(rank, "rank")
    if n_devices <= 0:
        raise ValueError(f"Invalid number of devices {n_devices}; a group has 1 or more: one process for each device")
    if not 0 <= rank < n_devices:
        raise ValueError(f"Invalid number of rank {rank} {n_devices}; ranks go from 0 to {n_devices - 1}")
    if backend not in BACKENDS:
        raise ValueError(
            f'{backend} is not supported; use backend="nccl" for GPU arrays or backend="mpi" for host arrays'
        )
    if backend == "mpi":
        return MpiGroup(n_devices, rank)
    return NcclGroup(n_devices, rank, *_address(host, port), use_mpi=use_mpi)


def init_all(
    devices: int | Sequence[int] | None = None, *, kind: str | None = None
) -> list[LocalCommunicator] | list[HostCommunicator]:
    """One process, a communicator for each device.

    Parameters
    ----------
    devices : int or sequence of int, optional
        The first so many devices, or these; by default all GPUs that are visible, or one for each core. The i-th
        communicator has rank i. None of them: an empty list.
    kind : {"cuda", "host"}, optional
        "cuda", the default: GPUs, through NCCL, on CuPy arrays. "host": devices of the CPU, on NumPy arrays, which need
        no GPU.

    Returns
    -------
    list of LocalCommunicator or HostCommunicator
        With ``rank``, ``nranks``, ``device``, the collectives of `ProcessGroup`, ``finalize``, ``destroy``, ``split`` and
        ``abort``. The current GPU is left as it was.

    Raises
    ------
    DeviceError
        A device that is not there, or named twice.
    RuntimeError
        NCCL is not available.

    Notes
    -----
    Communication: none; that of the collectives when their `group` block ends. They must be called for all communicators
    inside one block, since each waits for the others. Those of the host may instead be called from a thread for each.

    Examples
    --------
    >>> import numpy as np
    >>> comms = init_all(3, kind="host")
    >>> arrays = [np.full(2, comm.rank) for comm in comms]
    >>> with group():
    ...     for comm, x in zip(comms, arrays):
    ...         comm.all_reduce(x, x)
    >>> arrays[0]
    array([3, 3])
    """
    if kind not in (None, *KINDS):
        raise ValueError(f'kind is {kind!r}; use "cuda" for GPUs or "host" for NumPy arrays')
    wanted = wanted_devices(devices, "device" if kind == "host" else "GPU")
    if wanted is not None and not wanted:
        return []
    if kind == "host":
        return local_host.communicators(wanted)
    try:
        return local_nccl.communicators(wanted)
    except RuntimeError as error:
        if gpu_count():
            raise
        raise RuntimeError(f'{error}; on the CPU use init_all(..., kind="host")') from error


def group() -> GroupCalls:
    """A ``with`` block whose calls are issued together at its end; for communicators of `init_all`.

    Returns
    -------
    GroupCalls
        A context manager. A call's arguments are checked where it stands; what it moves is there after the block. An
        exception that leaves the block leaves its calls unmade.

    Notes
    -----
    Communication: that of the calls.
    """
    return GroupCalls()


def _as_int(value: Any, name: str) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}") from None


def _address(host: str | None, port: int | None) -> tuple[str, int]:
    get = os.environ.get
    if host is None:
        host = get("DISTARRAY_HOST") or get("CUPYX_DISTRIBUTED_HOST") or DEFAULT_HOST
    if port is None:
        text = get("DISTARRAY_PORT") or get("CUPYX_DISTRIBUTED_PORT") or str(DEFAULT_PORT)
        try:
            port = int(text)
        except ValueError:
            raise ValueError(f"the port in the environment is {text!r}; it must be a number, such as 13333") from None
    return host, port
