"""Devices: the places that hold chunks and compute on them. Importing this imports neither CuPy nor starts a thread."""

from __future__ import annotations

from collections.abc import Sequence

from distarray.devices.base import Alias, Chunk, Device, arrays_of, as_int
from distarray.devices.cuda import CudaDevice, CudaRuntime
from distarray.devices.gpus import cupy_available, from_dlpack, gpu_count, gpu_report, no_gpu
from distarray.devices.host import HostDevice
from distarray.devices.pool import HostPool
from distarray.devices.quiet import Quiet, error_states
from distarray.devices.remote import RemoteDevice
from distarray.devices.workers import INLINE_BYTES, Process, Workers, cpu_count, cpu_set, in_turn
from distarray.errors import DeviceError

__all__ = [
    "arrays_of",
    "as_int",
    "INLINE_BYTES",
    "Alias",
    "Chunk",
    "CudaDevice",
    "CudaRuntime",
    "Device",
    "HostDevice",
    "HostPool",
    "Quiet",
    "RemoteDevice",
    "Process",
    "Workers",
    "error_states",
    "cpu_count",
    "cpu_set",
    "cupy_available",
    "from_dlpack",
    "gpu_count",
    "in_turn",
    "make_devices",
]

MOST = 1 << 20
"""Devices of one process: more fill memory before anything is computed."""


def make_devices(
    kind: str | None = None,
    count: int | None = None,
    memory_limit: int | None = None,
    ordinals: Sequence[int] | None = None,
    *,
    first_id: int = 0,
    process: int = 0,
) -> tuple[Device, ...]:
    """The devices of one process.

    Parameters
    ----------
    kind : {"host", "cuda"}, optional
        By default "cuda" where CuPy finds a GPU, else "host".
    count : int, optional
        By default every GPU, or one host device for each core this process may use. Where it exceeds the number of
        GPUs, several logical devices share a GPU, neighbours first.
    memory_limit : int, optional
        Bytes that the chunks of each device may hold.
    ordinals : sequence of int, optional
        The GPUs to use, as CUDA numbers those visible; all by default.
    first_id, process : int, optional
        The id of the first device, and the rank of the process that owns them.

    Raises
    ------
    DeviceError
        For an unknown kind, a count that is not a positive integer, or GPUs asked for where none can be used: the
        message says what was found.
    """
    if kind is None:
        kind = "cuda" if ordinals is not None or gpu_count() else "host"
    elif not isinstance(kind, str) or kind not in ("host", "cuda"):
        raise DeviceError(f"there is no device kind {kind!r}; pass kind='host', kind='cuda', or None to choose")
    if count is not None:
        count = as_int(count, "count", 1, "pass how many devices to make, or None for all there are")
        if count > MOST:
            raise DeviceError(
                f"{count} devices are asked for, and a process makes at most {MOST}: pass how many there are to use"
            )
    first_id = as_int(first_id, "first_id", 0, "pass the id of the process's first device")

    if kind == "host":
        if ordinals is not None:
            raise DeviceError(
                f"ordinals={ordinals!r} names GPUs, and host devices have none; pass kind='cuda', or count for how many"
            )
        pool = HostPool()
        return tuple(
            HostDevice(first_id + i, process=process, memory_limit=memory_limit, pool=pool)
            for i in range(count or cpu_count())
        )

    gpus, reason = gpu_report()
    if not gpus:
        raise DeviceError(no_gpu(reason))
    use = list(range(gpus)) if ordinals is None else list(ordinals)
    if not use:
        raise DeviceError("ordinals is empty; name at least one GPU, or pass None for all")
    if count is None:
        count = len(use)
    runtime = CudaRuntime()
    return tuple(
        CudaDevice(
            first_id + i,
            use[i if count <= len(use) else i * len(use) // count],
            process=process,
            memory_limit=memory_limit,
            runtime=runtime,
        )
        for i in range(count)
    )
