"""How a program comes to a process group: one process for each device, or one process for all of them."""

from __future__ import annotations

import operator
import os
from typing import Any

from distarray.groups import one_process
from distarray.groups.base import ProcessGroup
from distarray.groups.mpi import MpiGroup
from distarray.groups.nccl import NcclGroup

__all__ = ["group", "init_all", "init_process_group"]

BACKENDS = ("nccl", "mpi")
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 13333


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


def init_all(devices: Any = None) -> list[one_process.LocalCommunicator]:
    """One process, a communicator for each GPU.

    Parameters
    ----------
    devices : int or sequence of int, optional
        The first so many GPUs, or these; all that are visible by default. The i-th communicator has rank i.

    Returns
    -------
    list of LocalCommunicator
        With ``rank``, ``nranks``, ``device``, the collectives of `ProcessGroup`, ``finalize``, ``destroy``, ``split`` and
        ``abort``. The current GPU is left as it was.

    Raises
    ------
    DeviceError
        A GPU that is not there, or named twice.
    RuntimeError
        NCCL is not available.

    Examples
    --------
    >>> comms = init_all()  # doctest: +SKIP
    >>> with group():  # doctest: +SKIP
    ...     for comm, x in zip(comms, arrays):
    ...         comm.all_reduce(x, x)

    Notes
    -----
    Collectives must be called for all communicators inside one `group`, since each waits for the others on the GPUs.
    """
    return one_process.communicators(devices)


def group() -> one_process.GroupCalls:
    """A ``with`` block whose NCCL calls are issued together at its end; for communicators of `init_all`."""
    return one_process.GroupCalls()


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
