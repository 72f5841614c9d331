"""The NCCL process group, communicator and init_all on the GPUs of this machine, in one process.

The cases are those of nccl_program.py, here with one process; ``mpirun -n 2 python tests/groups/nccl_program.py mpi`` runs
them with more.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from distarray.devices.gpus import gpu_count
from distarray.errors import CommunicationError, DeviceError, PeerLostError, UnsupportedError
from distarray.groups.join import group as nccl_group
from distarray.groups.join import init_all, init_process_group

PROGRAM = Path(__file__).with_name("nccl_program.py")
HAVE_NCCL4PY = importlib.util.find_spec("nccl") is not None


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("nccl_program", PROGRAM)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


program = _load()
cuda = pytest.mark.cuda
needs_gpu = pytest.mark.skipif(gpu_count() == 0, reason="needs a GPU")
pytestmark = [cuda, needs_gpu]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def made(binding: str = "") -> Any:
    with pytest.MonkeyPatch.context() as patch:
        if binding:
            patch.setenv("DISTARRAY_NCCL_BINDING", binding)
        patch.setenv("DISTARRAY_SECRET", "a secret of this test alone")
        return init_process_group(1, 0, host="127.0.0.1", port=free_port())


@pytest.fixture(params=["nccl4py", "cupy"], scope="module")
def one(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A group of one process, through each binding."""
    if request.param == "nccl4py" and not HAVE_NCCL4PY:
        pytest.skip("nccl4py is not installed")
    with made(request.param) as group:
        assert request.param in group.communicator.binding.name
        yield group


@pytest.mark.parametrize("name", list(program.CASES))
def test_case(one: Any, name: str) -> None:
    program.CASES[name](one)


def test_attributes(one: Any) -> None:
    assert (one.rank, one.size, one.n_devices, one.device) == (0, 1, 1, 0)
    assert one.communicator.binding.stoppable is (one.communicator.binding.name == "nccl4py")


def test_a_call_costs_little(one: Any) -> None:
    """Beside NCCL's own function through the same binding, in turns, so that whatever else runs delays both."""
    cost, bare = program.call_costs(one)
    print(f"\nall_reduce of 4 KiB through {one.communicator.binding.name}: {cost:.2f} µs a call, {bare:.2f} bare")
    assert cost <= 2 * bare


def test_stop_twice_and_use_after() -> None:
    import cupy

    group = made()
    x = cupy.ones(3)
    group.stop()
    group.stop()
    with pytest.raises(PeerLostError, match="closed"):
        group.all_reduce(x, x)
    with pytest.raises(PeerLostError, match="closed"):
        group.barrier()


def test_abort_stops_at_once_and_says_why() -> None:
    import cupy

    group = made()
    x = cupy.ones(3)
    group.all_reduce(x, x)
    group.communicator.abort("this test says so")
    with pytest.raises(PeerLostError, match="this test says so"):
        group.all_reduce(x, x)
    with pytest.raises(PeerLostError, match="this test says so"):
        group.communicator.wait()
    group.stop()
    assert int(cupy.ones(5).sum()) == 5  # the GPU is none the worse


@pytest.mark.skipif(not HAVE_NCCL4PY, reason="needs nccl4py")
def test_set_up_is_non_blocking_and_calls_are_not() -> None:
    """The life of the communicator is on a non-blocking one; its child for calls has ended its set-up too."""
    group = made("nccl4py")
    calls = group.communicator.calls
    assert calls._life is not calls._hot
    assert calls._life.is_valid and calls._hot.is_valid
    assert calls.async_error() == ""
    assert (calls._hot.rank, calls._hot.nranks) == (0, 1)
    group.stop()
    assert not calls._life.is_valid and not calls._hot.is_valid


@pytest.mark.skipif(not HAVE_NCCL4PY, reason="needs nccl4py")
def test_split_of_the_calls() -> None:
    import time

    import cupy

    group = made("nccl4py")
    child = group.communicator.calls.split(0, 0, time.monotonic() + 30)
    x = cupy.ones(4, "f4")
    child.all_reduce(x.data.ptr, x.data.ptr, 4, 7, 0, 0)
    assert group.communicator.calls.split(None, 0, time.monotonic() + 30) is None
    assert cupy.asnumpy(x).tolist() == [1.0] * 4
    child.destroy()
    group.stop()


def test_left_by_an_exception() -> None:
    with pytest.raises(KeyError), made() as group:
        raise KeyError("mine")
    with pytest.raises(PeerLostError, match="KeyError"):
        group.barrier()


def test_current_device_is_left_alone() -> None:
    import cupy

    before = cupy.cuda.runtime.getDevice()
    comms = init_all()
    assert len(comms) == gpu_count()
    assert cupy.cuda.runtime.getDevice() == before
    with nccl_group():
        for comm in comms:
            comm.finalize()
    for comm in comms:
        comm.destroy()
        comm.destroy()
    assert cupy.cuda.runtime.getDevice() == before


@pytest.mark.parametrize("devices", [None, 1, [0], range(1), np.int64(1)])
def test_init_all_takes(devices: Any) -> None:
    import cupy

    comms = init_all(devices)
    assert [comm.rank for comm in comms] == list(range(len(comms)))
    assert [comm.device for comm in comms] == list(range(len(comms)))
    assert {comm.nranks for comm in comms} == {len(comms)}
    assert "on GPU 0" in repr(comms[0])
    for comm in comms:
        comm.abort()
    with pytest.raises(PeerLostError, match="aborted"):
        comms[0].all_reduce(cupy.ones(2), cupy.empty(2))


def test_init_all_refuses() -> None:
    assert init_all(0) == [] and init_all([]) == []
    count = gpu_count()
    with pytest.raises(DeviceError, match=f"GPU {count} is not there"):
        init_all(count + 1)
    with pytest.raises(DeviceError, match="GPU -1 is not there"):
        init_all([-1])
    with pytest.raises(DeviceError, match="more than once"):
        init_all([0, 0])
    with pytest.raises(DeviceError, match="negative"):
        init_all(-1)
    for wrong in ("0", 1.5, [0.5]):
        with pytest.raises(TypeError, match="a number of GPUs or a sequence"):
            init_all(wrong)


def test_init_all_collectives() -> None:
    import cupy

    comms = init_all()
    n = len(comms)
    for name in program.DTYPES:
        dtype = program.dtype_of(name)
        parts = [program.host(i, (33,), dtype) for i in range(n)]
        arrays, outs, parting = [], [], []
        for comm in comms:
            with cupy.cuda.Device(comm.device):
                arrays.append(cupy.asarray(parts[comm.rank]))
                outs.append(cupy.zeros_like(arrays[-1]))
                parting.append(cupy.zeros((n, 33), dtype))
                cupy.cuda.get_current_stream().synchronize()
        with nccl_group():
            for comm, x, y in zip(comms, arrays, outs):
                comm.all_reduce(x, y)
        with nccl_group():
            for comm, x, z in zip(comms, arrays, parting):
                comm.all_gather(x, z, 33)
        for comm, y, z in zip(comms, outs, parting):
            with cupy.cuda.Device(comm.device):
                cupy.cuda.Device().synchronize()
                program.same(y, program.expected("sum", parts), name)
                program.same(z, np.stack(parts), name)
    if n > 1:
        with pytest.raises(CommunicationError, match="inside `with group"):
            comms[0].all_reduce(arrays[0], outs[0])
    with pytest.raises(UnsupportedError, match="barrier"):
        comms[0].barrier()
    if not HAVE_NCCL4PY:
        with pytest.raises(RuntimeError, match="split needs nccl4py"), nccl_group():
            _ = [comm.split(0) for comm in comms]
        children = []
    else:
        children = split_and_talk(comms, outs)
    for comm in [*children, *comms]:
        comm.abort()


def split_and_talk(comms: Any, outs: Any) -> Any:
    n = len(comms)
    with nccl_group():
        children = [comm.split(0, -comm.rank) for comm in comms]
    assert [child.rank for child in children] == list(range(n))[::-1]
    assert {child.nranks for child in children} == {n}
    with nccl_group():
        for child, x in zip(children, outs):
            child.broadcast(x, 0)
    with nccl_group():
        nobody = [comm.split(None) for comm in comms]
    assert nobody == [None] * n
    return children


def test_the_bindings_are_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISTARRAY_NCCL_BINDING", "gloo")
    with pytest.raises(RuntimeError, match="nccl4py"):
        init_process_group(1, 0)


def test_an_unclosed_group_does_not_hold_the_exit() -> None:
    script = (
        "import cupy, sys\n"
        "from distarray.groups.join import init_process_group\n"
        f"group = init_process_group(1, 0, port={free_port()})\n"
        "x = cupy.ones(3); group.all_reduce(x, x)\n"
    )
    environment = dict(os.environ, DISTARRAY_SECRET="a secret of this test alone")
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60, env=environment)


@pytest.mark.parametrize("dtype", ["int16", "uint16", "float32"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_several_calls_in_a_block_keep_what_they_read(dtype: str, order: str) -> None:
    """Calls are made when the block ends, on arrays that nobody else holds by then: given ones, widened ones, copies in C order."""
    import cupy

    comms, outs = init_all(), []
    n = len(comms)
    with nccl_group():
        for turn in range(4):
            for comm in comms:
                with cupy.cuda.Device(comm.device):
                    out = cupy.zeros((30, 40), dtype, order=order)
                    comm.all_reduce(cupy.full((30, 40), turn + 1, dtype, order=order), out)
                    outs.append((comm, n * (turn + 1), out))
    for comm, want, out in outs:
        with cupy.cuda.Device(comm.device):
            assert bool((out == want).all())
    for comm in comms:
        comm.destroy()


def test_a_block_left_with_an_exception_makes_none_of_its_calls() -> None:
    import cupy

    comms = init_all()
    ones, out = [], []
    for comm in comms:
        with cupy.cuda.Device(comm.device):
            ones.append(cupy.ones(3))
            out.append(cupy.zeros(3))

    def leave() -> None:
        with nccl_group():
            for comm, x, y in zip(comms, ones, out):
                comm.all_reduce(x, y)
            comms[-1].all_reduce([1.0], out[-1])

    with pytest.raises(TypeError, match="is a list"):
        leave()
    for turn in range(2):
        for comm, y in zip(comms, out):
            with cupy.cuda.Device(comm.device):
                assert y.tolist() == [turn * len(comms)] * 3
        with nccl_group():
            for comm, x, y in zip(comms, ones, out):
                comm.all_reduce(x, y)
    for comm in comms:
        comm.destroy()
