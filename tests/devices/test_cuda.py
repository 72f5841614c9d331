"""CUDA devices: the same contract as host devices, and the order between streams, GPUs and users' own CuPy code."""

from __future__ import annotations

import gc
import itertools

import numpy as np
import pytest

import distarray as da
from distarray.devices import CudaDevice, HostDevice, make_devices
from distarray.errors import DeviceError, DeviceMemoryError

pytestmark = pytest.mark.cuda

MIB = 1 << 20

SPIN = r"""
extern "C" __global__ void spin(long long cycles) {
    long long start = clock64();
    while (clock64() - start < cycles) { }
}
"""


@pytest.fixture
def cupy(cuda_devices):
    return cuda_devices[0].lib


@pytest.fixture
def delay(cupy):
    """Keeps the current stream of the current GPU busy for a while: order that is not enforced shows."""
    kernel = cupy.RawKernel(SPIN, "spin")
    return lambda: kernel((1,), (1,), (np.int64(100_000_000),))


@pytest.fixture(params=["same device", "same GPU", "other GPU"])
def pair(request, cuda_devices):
    """(destination, source)"""
    first = cuda_devices[0]
    if request.param == "same device":
        return first, first
    same = request.param == "same GPU"
    for device in cuda_devices[1:]:
        if (device.ordinal == first.ordinal) == same:
            return device, first
    pytest.skip("needs two GPUs")


def test_devices_share_gpus_neighbours_first(cuda_devices):
    ordinals = [device.ordinal for device in cuda_devices]
    assert ordinals == sorted(ordinals)
    assert all(ordinals.count(o) == 2 for o in ordinals)
    assert len({id(device.runtime) for device in cuda_devices}) == 1
    assert [device.name for device in cuda_devices[:2]] == ["cuda:0", "cuda:1"]


def test_make_devices(cuda_devices):
    gpus = cuda_devices[0].runtime.count
    assert [d.kind for d in make_devices()] == ["cuda"] * gpus
    assert [d.ordinal for d in make_devices("cuda", ordinals=[gpus - 1, 0])] == [gpus - 1, 0]
    assert [d.ordinal for d in make_devices("cuda", 4, ordinals=[gpus - 1])] == [gpus - 1] * 4
    with pytest.raises(DeviceError, match="there is no GPU"):
        make_devices("cuda", ordinals=[gpus])
    with pytest.raises(DeviceError, match="ordinal must be"):
        make_devices("cuda", ordinals=[True])
    with pytest.raises(DeviceError, match="ordinals is empty"):
        make_devices("cuda", ordinals=[])


@pytest.mark.parametrize("dtype", ["?", "i1", "f2", "f8", "c16"])
def test_full_and_round_trip(cuda_devices, dtype):
    shapes = [(), (0,), (3, 0, 5), (1,), (7, 3), (300, 4000)]
    for device, shape in itertools.product(cuda_devices, shapes):
        chunk = device.full(shape, dtype, 1)
        assert device.owns(chunk.array)
        np.testing.assert_array_equal(device.to_host(chunk.array), np.full(shape, 1, dtype), strict=True)
        values = (np.arange(np.prod(shape)) % 100).reshape(shape).astype(dtype)
        copied = device.from_host(values)
        assert copied.array.flags.c_contiguous
        fetched = device.to_host(copied.array)
        assert fetched.flags.owndata
        np.testing.assert_array_equal(fetched, values, strict=True)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16"])
def test_full_keeps_the_sign_of_zero(cuda_devices, dtype):
    device = cuda_devices[-1]
    for value, shape in itertools.product((-0.0, 0.0, np.nan, np.inf), [(), (1,), (5,), (4, 6)]):
        values = device.to_host(device.full(shape, dtype, value).array)
        assert values.tobytes() == np.full(shape, value, dtype).tobytes()
    grid = device.full((4, 6), dtype, 1)
    device.fill(grid.array[::2, 1::2], -0.0)
    expected = np.full((4, 6), 1, dtype)
    expected[::2, 1::2] = -0.0
    assert device.to_host(grid.array).tobytes() == expected.tobytes()


@pytest.mark.parametrize("size", [100, 4 * MIB])
def test_the_host_source_may_change_after_the_call(cuda_devices, delay, size):
    device = cuda_devices[-1]
    source = np.full(size, 1, np.uint8)
    with device.active():
        delay()
    chunk = device.from_host(source)
    source[:] = 2
    assert (device.to_host(chunk.array) == 1).all()


def test_to_host_of_views(cuda_devices):
    device = cuda_devices[-1]
    values = np.arange(60.0).reshape(3, 4, 5)
    array = device.from_host(values).array
    for index in (np.s_[::-1], np.s_[:, 1:3, ::2], np.s_[1], np.s_[..., 0]):
        np.testing.assert_array_equal(device.to_host(array[index]), values[index], strict=True)
    np.testing.assert_array_equal(device.to_host(array.T), values.T, strict=True)


def test_limits_and_accounting(cuda_devices):
    runtime = cuda_devices[0].runtime
    device = CudaDevice(5, 0, memory_limit=MIB, runtime=runtime)
    kept = device.empty((MIB // 2,), np.uint8)
    with pytest.raises(DeviceMemoryError, match=r"device 5 \(cuda\)"):
        device.empty((1 << 50,), np.uint8, "x")
    with pytest.raises(DeviceMemoryError):
        device.from_host(np.zeros(MIB, np.uint8))
    with device.active():
        array = device.lib.zeros(MIB, np.uint8)
    with pytest.raises(DeviceMemoryError):
        device.adopt(array)
    assert device.allocated == MIB // 2 == device.peak
    del kept
    assert device.allocated == 0
    adopted = device.adopt(array)
    assert adopted.array is array
    assert device.allocated == MIB


def test_a_gpu_without_memory_is_a_device_memory_error(cuda_devices):
    device = cuda_devices[0]
    with pytest.raises(DeviceMemoryError, match="limit none"):
        device.empty((1 << 50,), np.uint8)
    gc.collect()


def test_active_restores_the_device_and_the_stream(cuda_devices, cupy):
    before = cupy.cuda.runtime.getDevice()
    for device in cuda_devices:
        with cupy.cuda.Device(device.ordinal), cupy.cuda.Stream(non_blocking=True) as theirs:
            for inner in cuda_devices:
                with inner.active():
                    assert cupy.cuda.runtime.getDevice() == inner.ordinal
                    assert cupy.cuda.get_current_stream().ptr == 0
                    assert device.runtime.on(inner.ordinal) is device.runtime.on(inner.ordinal)  # free when current
                assert cupy.cuda.runtime.getDevice() == device.ordinal
                assert cupy.cuda.get_current_stream().ptr == theirs.ptr
            with pytest.raises(ZeroDivisionError), cuda_devices[0].active():
                1 / 0  # noqa: B018 - raises, inside the block
            assert cupy.cuda.get_current_stream().ptr == theirs.ptr
    assert cupy.cuda.runtime.getDevice() == before


def test_owns(cuda_devices):
    first, last = cuda_devices[0], cuda_devices[-1]
    array = first.empty((3,), "f4").array
    assert first.owns(array)
    assert cuda_devices[1].owns(array)  # the same GPU
    assert last.owns(array) == (last.ordinal == first.ordinal)
    assert not first.owns(np.zeros(3))


VIEWS = {
    "whole": lambda a: a,
    "rows": lambda a: a[32:64],
    "every other row": lambda a: a[::2],
    "columns": lambda a: a[:, 16:48],
    "transposed": lambda a: a.swapaxes(0, 1),
    "flipped": lambda a: a[::-1, ::-1],
    "inner": lambda a: a[..., 1:3],
    "one column": lambda a: a[:, 5:6],
    "narrow columns": lambda a: a[:, 3:4, 1:2],
    "other rows": lambda a: a[::-2],
}
SHAPE = (64, 64, 4)
PAIRS = [
    (one, other)
    for one, other in itertools.product(VIEWS, VIEWS)
    if VIEWS[one](np.empty(SHAPE)).shape == VIEWS[other](np.empty(SHAPE)).shape
]


@pytest.mark.parametrize("dtype", ["u1", "f4", "c16"])
def test_copy_every_pair_of_views(pair, dtype):
    for dst_name, src_name in PAIRS:
        check_copy(*pair, dst_name, src_name, dtype)


def check_copy(to, frm, dst_name, src_name, dtype):
    case = f"{src_name} -> {dst_name}, {dtype}"
    values = (np.arange(np.prod(SHAPE)) % 251).reshape(SHAPE).astype(dtype)
    source, target = frm.from_host(values), to.full(SHAPE, dtype, 255)
    to.copy(VIEWS[dst_name](target.array), VIEWS[src_name](source.array), frm)
    expected = np.full(SHAPE, 255, dtype)
    VIEWS[dst_name](expected)[...] = VIEWS[src_name](values)
    np.testing.assert_array_equal(to.to_host(target.array), expected, case, strict=True)
    np.testing.assert_array_equal(frm.to_host(source.array), values, case, strict=True)


def test_copy_of_nothing_and_of_points(pair):
    to, frm = pair
    to.copy(to.empty((0, 3), "f4").array, frm.empty((0, 3), "f4").array, frm)
    target = to.full((), "f4", 0)
    to.copy(target.array, frm.full((), "f4", 7).array, frm)
    assert to.to_host(target.array) == 7


@pytest.mark.parametrize("view", ["whole", "columns", "flipped"])
def test_a_copy_waits_for_the_source_and_holds_up_its_next_writer(pair, delay, view):
    to, frm = pair
    shape = (1024, 1024)
    for round_ in range(3):
        source, target = frm.full(shape, "f4", -1), to.full(shape, "f4", -2)
        with frm.active():
            delay()
            source.array[...] = round_  # late: a copy that does not wait takes -1
        with to.active():
            delay()  # the copy itself is late: a writer that does not wait spoils its source
        to.copy(VIEWS[view](target.array), VIEWS[view](source.array), frm)
        with frm.active():
            source.array[...] = -3
        got = VIEWS[view](to.to_host(target.array))
        assert (got == round_).all()


def test_a_source_dropped_at_once_is_not_reused_too_early(pair, delay):
    to, frm = pair
    target = to.full((1 << 20,), "f4", 0)
    source = frm.full((1 << 20,), "f4", 5)
    with to.active():
        delay()
    to.copy(target.array, source.array, frm)
    del source
    spoilers = [frm.full((1 << 20,), "f4", 9) for _ in range(4)]
    assert (to.to_host(target.array) == 5).all()
    del spoilers


def test_copy_between_host_and_gpu(cuda_devices):
    host, device = HostDevice(99), cuda_devices[-1]
    values = np.arange(24.0).reshape(4, 6)
    source = host.from_host(values)
    target = device.full((4, 6), "f8", 0)
    device.copy(target.array, source.array, host)
    np.testing.assert_array_equal(device.to_host(target.array), values)
    device.copy(target.array[::2, 1::2], source.array[::-2, :3], host)
    expected = values.copy()
    expected[::2, 1::2] = values[::-2, :3]
    np.testing.assert_array_equal(device.to_host(target.array), expected)
    back = host.full((6, 4), "f8", 0)
    host.copy(back.array.T, target.array, device)
    np.testing.assert_array_equal(back.array, expected.T)


def test_from_foreign_orders_with_the_users_stream(pair, cupy, delay):
    to, frm = pair
    with cupy.cuda.Device(frm.ordinal), cupy.cuda.Stream(non_blocking=True) as theirs:
        array = cupy.full((512, 512), -1, "f4")
        theirs.synchronize()
        delay()
        array[...] = 3
        with to.active():
            delay()
        chunk = to.from_foreign(array.T)
        array[...] = 4  # waits until the copy has read
    assert chunk.array.flags.c_contiguous
    assert to.owns(chunk.array)
    assert (to.to_host(chunk.array) == 3).all()
    assert chunk.array.data.ptr != array.data.ptr


def test_plain_cupy_code_on_the_default_stream_is_ordered_with_ours(cuda_devices, cupy, delay):
    device = cuda_devices[-1]
    chunk = device.full((1 << 20,), "f4", 1)
    with cupy.cuda.Device(device.ordinal):
        delay()
        chunk.array += 1
    assert (device.to_host(chunk.array) == 2).all()


def test_operations_do_not_wait_on_the_host(pair, cupy, delay):
    to, frm = pair
    source, target = frm.full((1024, 1024), "f4", 1), to.full((1024, 1024), "f4", 0)
    small = np.ones(10)

    def operations() -> None:
        to.copy(target.array[:, ::-1], source.array, frm)
        to.copy(target.array[:, :512], source.array[:, 512:], frm)
        to.from_host(small)
        frm.full((3,), "f4", 2)

    operations()  # compiles each kernel, and allocates: either takes the host as long as the delay, the first time
    with frm.active():
        delay()
    to.synchronize()
    frm.synchronize()
    event = cupy.cuda.Event(disable_timing=True)
    with frm.active():
        delay()
        event.record(frm.stream)
    operations()
    assert not event.done
    to.synchronize()
    frm.synchronize()
    assert event.done


def test_staged_memory_and_events_are_given_back(cuda_devices):
    device = cuda_devices[0]
    for _ in range(50):
        device.from_host(np.ones(10))
    device.synchronize()
    device.from_host(np.ones(10))
    device.synchronize()
    device.from_host(np.ones(10))
    assert len(device.runtime._staged) <= 1


def test_xp(cuda_devices, cupy):
    device = cuda_devices[0]
    assert device.lib is cupy
    assert device.xp.__name__ == "array_api_compat.cupy"


@pytest.mark.parametrize("dtype", ["M8[D]", "m8[s]", [("a", "f4"), ("b", "i8")]], ids=str)
def test_gpus_refuse_times_and_structures(dtype):
    """CuPy has no such dtypes: a TypeError says what to do."""
    with da.init(devices=2, kind="cuda"):
        for make in (lambda: da.asarray(np.zeros(4, dtype)), lambda: da.zeros(4, dtype)):
            with pytest.raises(TypeError, match="use devices of kind 'host'"):
                make()
