"""Fixtures of the device tests: host devices, and GPUs where there are some."""

from __future__ import annotations

import pytest

from distarray.devices import CudaDevice, HostDevice, Workers, make_devices
from distarray.devices.gpus import gpu_report


@pytest.fixture
def host():
    return HostDevice(0)


@pytest.fixture
def workers():
    """Two threads whatever the machine, and nothing so small that it runs inline."""
    pool = Workers(cores=2, inline_bytes=0)
    yield pool
    pool.shutdown()


@pytest.fixture
def cuda_devices() -> tuple[CudaDevice, ...]:
    """Two logical devices on each GPU, of one runtime."""
    count, reason = gpu_report()
    if not count:
        pytest.skip(reason)
    devices = make_devices("cuda", 2 * count)
    return tuple(device for device in devices if isinstance(device, CudaDevice))
