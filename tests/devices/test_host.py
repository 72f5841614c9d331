"""Host devices: limits, accounting, copies."""

from __future__ import annotations

import copy
import gc
import pickle
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

from distarray.devices import Chunk, CudaDevice, HostDevice, cpu_count, cupy_available, gpu_count, make_devices
from distarray.devices.base import bytes_text
from distarray.errors import DeviceError, DeviceMemoryError

MIB = 1 << 20


def test_empty_is_accounted_until_it_is_collected(host):
    first = host.empty((1000,), np.float64)
    second = host.empty((512, 512), "f4", "grid")
    assert first.array.flags.c_contiguous
    assert second.array.shape == (512, 512)
    assert second.array.dtype == np.float32
    assert host.allocated == 8000 + MIB == host.peak
    del second
    assert host.allocated == 8000
    assert host.peak == 8000 + MIB
    host.reset_peak()
    assert host.peak == 8000
    del first
    assert host.allocated == 0


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (20, 1), (1, 7), (3, 5)])
def test_long_sums_have_the_bits_of_matmul(host, dtype, rows, columns):
    rng = np.random.default_rng(rows)
    for order in "CF":
        left = np.array(rng.random((rows, 20_000)) - 0.5, dtype, order=order)
        right = np.array(rng.random((20_000, columns)) - 0.5, dtype, order=order)
        into = np.empty((rows, columns), dtype)
        host.multiply(left, right, into)
        assert into.tobytes() == np.matmul(left, right).tobytes()


def test_long_sums_say_what_matmul_says(host):
    large, into = np.full((1, 20_000), 1e300), np.empty((1, 1))
    with pytest.warns(RuntimeWarning, match="overflow encountered in matmul"):
        host.multiply(large, large.T, into)
    assert np.isposinf(into)
    small = np.full((1, 20_000), 1e-200)
    with np.errstate(under="raise"), pytest.raises(FloatingPointError, match="underflow encountered in matmul"):
        host.multiply(small, small.T, into)


def test_long_sums_let_other_threads_run(host):
    left, into = np.ones((1, 40_000_000)), np.empty((1, 1))
    begun, ended = threading.Event(), threading.Event()
    seen = []
    thread = threading.Thread(target=lambda: (begun.wait(), seen.append(ended.is_set())))
    thread.start()
    begun.set()
    host.multiply(left, left.T, into)
    ended.set()
    thread.join()
    assert seen == [False]


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 5), (1,), (7, 3), (300, 400)])
@pytest.mark.parametrize("dtype", ["?", "i1", "f2", "f8", "c16"])
def test_full_and_round_trip(host, shape, dtype):
    chunk = host.full(shape, dtype, 1)
    np.testing.assert_array_equal(chunk.array, np.full(shape, 1, dtype), strict=True)
    values = (np.arange(np.prod(shape)) % 100).reshape(shape).astype(dtype)
    copied = host.from_host(values)
    fetched = host.to_host(copied.array)
    np.testing.assert_array_equal(fetched, values, strict=True)
    assert not np.shares_memory(copied.array, values)
    assert not np.shares_memory(copied.array, fetched)
    assert fetched.flags.owndata


def test_full_keeps_the_sign_of_zero(host):
    assert np.signbit(host.full((3,), "f4", -0.0).array).all()


def test_from_host_casts_and_orders(host):
    source = np.asfortranarray(np.arange(12.0).reshape(3, 4))[::-1, ::2]
    chunk = host.from_host(source, np.int16)
    assert chunk.array.flags.c_contiguous
    np.testing.assert_array_equal(chunk.array, source.astype(np.int16), strict=True)
    np.testing.assert_array_equal(host.from_host([[1, 2]]).array, np.array([[1, 2]]), strict=True)


def test_from_foreign_copies(host):
    source = np.arange(6.0).reshape(2, 3).T
    chunk = host.from_foreign(source)
    source[...] = 0
    np.testing.assert_array_equal(chunk.array, np.arange(6.0).reshape(2, 3).T)
    assert chunk.array.flags.c_contiguous


def test_limit_is_checked_before_allocating():
    host = HostDevice(3, memory_limit=MIB)
    kept = host.empty((MIB // 2,), np.uint8)
    with pytest.raises(DeviceMemoryError) as caught:
        host.empty((1 << 60,), np.uint8, "x")  # no machine could allocate this: the limit spoke first
    for part in (
        "x ",
        "shape (1152921504606846976,)",
        "dtype uint8",
        "device 3 (host)",
        "512 KiB in use",
        "limit 1 MiB",
    ):
        assert part in str(caught.value)
    assert str(caught.value).endswith("raise the limit with da.init(memory_limit=...)")
    assert isinstance(caught.value, MemoryError)
    assert host.allocated == MIB // 2
    exact = host.empty((MIB // 2,), np.uint8)
    with pytest.raises(DeviceMemoryError):
        host.empty((1,), np.uint8)
    with pytest.raises(DeviceMemoryError):
        host.from_host(np.zeros(1, np.uint8))
    with pytest.raises(DeviceMemoryError):
        host.adopt(np.zeros(1, np.uint8))
    assert host.allocated == MIB
    del kept, exact
    host.empty((MIB,), np.uint8)
    host.empty((0,), np.uint8)


def test_idle_pool_memory_does_not_count_against_the_limit():
    host = HostDevice(0, memory_limit=MIB)
    host.empty((MIB,), np.uint8)
    assert host.pool.idle >= MIB
    assert host.allocated == 0
    host.empty((MIB // 2,), np.uint8)


def test_a_machine_without_memory_is_a_device_memory_error(host):
    with pytest.raises(DeviceMemoryError, match="limit none"):
        host.empty((1 << 60,), np.uint8)
    assert host.allocated == 0


def test_adopt_wraps_what_numpy_returns(host):
    array = np.arange(5.0)
    chunk = host.adopt(array)
    assert chunk.array is array
    assert host.allocated == 40
    scalar = host.adopt(np.sum(array))
    assert type(scalar.array) is np.ndarray
    assert scalar.array.shape == ()


def test_copy_between_strided_views(host):
    other = HostDevice(1)
    source = other.from_host(np.arange(24).reshape(4, 6))
    target = host.full((4, 6), np.int64, -1)
    host.copy(target.array[::2, 1::2], source.array[::-2, :3], other)
    expected = np.full((4, 6), -1)
    expected[::2, 1::2] = np.arange(24).reshape(4, 6)[::-2, :3]
    np.testing.assert_array_equal(target.array, expected)


@pytest.mark.parametrize("shape", [(1, 40_000), (40_000, 1), (5, 20_000), (20_000, 5), (3, 30_001), (300, 301)])
def test_copy_of_a_matrix_that_lies_the_other_way_round(host, shape):
    source = np.arange(float(np.prod(shape))).reshape(shape[::-1]).T
    target = host.empty(shape, "f8")
    host.copy(target.array, source, host)
    np.testing.assert_array_equal(target.array, source)


def test_copy_refuses_what_does_not_match(host):
    target = host.empty((4,), "f8").array
    with pytest.raises(DeviceError, match="equal shape and dtype"):
        host.copy(target, np.zeros(1), HostDevice(1))
    with pytest.raises(DeviceError, match="equal shape and dtype"):
        host.copy(target, np.zeros(4, "f4"), HostDevice(1))
    with pytest.raises(DeviceError, match="communicator"):
        host.copy(target, np.zeros(4), HostDevice(1, process=1))


def test_identity(host):
    assert (host.kind, host.name, host.process) == ("host", "host:0", 0)
    assert host.lib is np
    assert host.xp.__name__ == "array_api_compat.numpy"
    assert host.xp is host.xp
    assert host.owns(np.zeros(3))
    assert not host.owns([0])
    with host.active(), host.active():
        host.synchronize()
    for duplicate in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="pass its id"):
            duplicate(host)


def test_chunk_is_weakly_referable_and_slotted(host):
    chunk = host.empty((2,), "f4")
    assert chunk.shared is False
    assert "host:0" in repr(chunk)
    reference = weakref.ref(chunk)
    with pytest.raises(AttributeError):
        chunk.other = 1
    del chunk
    assert reference() is None


def test_a_chunk_that_fails_to_construct_accounts_nothing(host):
    with pytest.raises(AttributeError):
        Chunk(host, object())
    gc.collect()
    assert host.allocated == 0


def test_accounting_is_exact_with_many_threads_and_the_collector(host):
    """Chunks in reference cycles end in whichever thread the collector runs."""
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)

    def churn():
        for i in range(3000):
            chunk = host.empty((i % 50,), np.uint8)
            cycle = [chunk]
            cycle.append(cycle)

    threads = [threading.Thread(target=churn) for _ in range(4)]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switch)
    gc.collect()
    assert host.allocated == 0


def test_chunks_left_at_interpreter_exit_are_silent():
    program = """
import numpy as np
from distarray.devices import HostDevice, Workers
host = HostDevice(0)
large, small = host.empty((1 << 20,), "u1"), host.empty((4,), "f8")
cycle = [host.empty((1 << 20,), "u1"), host.empty((2,), "f4")]
cycle.append(cycle)
class Late:
    chunk = host.empty((1 << 20,), "u1")
    def __del__(self):
        del type(self).chunk
late = Late()
workers = Workers(2, 0)
workers.run([lambda: None] * 4, 1)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (3 << 30, "3 GiB"), (5 << 40, "5 TiB")],
)
def test_bytes_text(nbytes, text):
    assert bytes_text(nbytes) == text


class TestMakeDevices:
    def test_defaults(self):
        devices = make_devices()
        if gpu_count():
            assert [d.kind for d in devices] == ["cuda"] * gpu_count()
        else:
            assert [d.kind for d in devices] == ["host"] * cpu_count()

    def test_host_devices_share_a_pool(self):
        devices = make_devices("host", np.int32(3), memory_limit=np.int64(100), first_id=6, process=2)
        assert [(d.id, d.process, d.memory_limit) for d in devices] == [(6, 2, 100), (7, 2, 100), (8, 2, 100)]
        assert len({id(d.pool) for d in devices if isinstance(d, HostDevice)}) == 1

    @pytest.mark.parametrize("count", [0, -1, True, np.True_, 2.0, "2", np.float64(2)])
    def test_bad_counts(self, count):
        with pytest.raises(DeviceError, match="count must be an integer of at least 1"):
            make_devices("host", count)

    @pytest.mark.parametrize("limit", [0, -1, True, 1.5])
    def test_bad_limits(self, limit):
        with pytest.raises(DeviceError, match="memory_limit must be"):
            make_devices("host", 1, memory_limit=limit)

    @pytest.mark.parametrize("kind", ["gpu", "", 3, ["host"]])
    def test_bad_kinds(self, kind):
        with pytest.raises(DeviceError, match="no device kind"):
            make_devices(kind)

    def test_host_devices_have_no_ordinals(self):
        with pytest.raises(DeviceError, match="host devices have none"):
            make_devices("host", ordinals=[0])

    @pytest.mark.skipif(gpu_count() > 0, reason="there is a GPU")
    def test_cuda_without_a_gpu_says_what_was_found(self):
        found = "there is no usable CUDA driver|finds no GPU" if cupy_available() else "CuPy is"
        for make in (lambda: make_devices("cuda"), lambda: make_devices(ordinals=[0]), lambda: CudaDevice(0, 0)):
            with pytest.raises(DeviceError, match=found) as caught:
                make()
            assert "pip install 'distarray[cuda12]'" in str(caught.value)
