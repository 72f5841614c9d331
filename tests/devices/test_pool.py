"""Pooled host memory: reused when nothing can read it, and only then."""

from __future__ import annotations

import ctypes
import sys
import threading

import numpy as np
import pytest

from distarray.devices import HostDevice, HostPool
from distarray.devices.pool import ALIGNMENT, LEAST, default_limit, size_class

N = 1 << 20


def address(array):
    return array.__array_interface__["data"][0]


@pytest.fixture
def pool():
    return HostPool(8 * N)


@pytest.fixture
def host(pool):
    return HostDevice(0, pool=pool)


def test_memory_is_reused_and_aligned(host, pool):
    chunk = host.empty((N,), np.uint8)
    first = address(chunk.array)
    assert first % ALIGNMENT == 0
    del chunk
    assert pool.idle == size_class(N)
    again = host.empty((N // 4,), np.float32)
    assert address(again.array) == first
    assert pool.idle == 0


def test_devices_of_a_context_share_the_pool(host, pool):
    first = address(host.empty((N,), np.uint8).array)
    assert address(HostDevice(1, pool=pool).empty((N,), np.uint8).array) == first


def test_small_arrays_and_objects_are_not_pooled(host, pool):
    host.empty((LEAST - 1,), np.uint8)
    host.empty((LEAST,), object)
    assert pool.idle == 0


@pytest.mark.parametrize(
    "reader",
    [
        lambda a: a,
        lambda a: a[3:7],
        lambda a: a.reshape(2, -1).T[::-1],
        lambda a: a.view(np.uint16),
        lambda a: a[5:][:3].view(type("Sub", (np.ndarray,), {})),
        memoryview,
        lambda a: memoryview(a)[10:20],
        lambda a: np.frombuffer(a, np.uint8),
        lambda a: np.from_dlpack(a),
        lambda a: a.__dlpack__(),
        lambda a: np.lib.stride_tricks.as_strided(a, (3,), (2,)),
        lambda a: np.nditer(a),
        lambda a: iter(a),
        lambda a: a.flat,
        lambda a: (ctypes.c_char * 10).from_buffer(a),
        lambda a: a.base,
        lambda a: a.fill,
        lambda a: [a[1:]],
    ],
)
def test_not_reused_while_anything_can_read_it(host, pool, reader):
    for _ in range(20):  # also with the interpreter's call sites specialised
        chunk = host.empty((N,), np.uint8)
        held = reader(chunk.array)
        del chunk
        assert pool.idle == 0
        assert host.allocated == 0
        other = host.empty((N,), np.uint8)
        other.array[:] = 7
        del held, other
        pool.clear()


def test_a_view_keeps_its_values(host):
    chunk = host.full((N,), np.uint8, 3)
    view = chunk.array[::2]
    del chunk
    host.full((N,), np.uint8, 9)
    assert (view == 3).all()


def test_two_chunks_of_one_array(host, pool):
    first = host.empty((N,), np.uint8)
    second = host.adopt(first.array)
    del first
    assert pool.idle == 0
    del second
    assert pool.idle == size_class(N)


def test_an_adopted_view_of_a_chunk(host, pool):
    for order in (0, 1):
        chunks = [host.empty((N,), np.uint8)]
        chunks.append(host.adopt(chunks[0].array[LEAST:]))
        del chunks[order]
        assert pool.idle == 0
        chunks.clear()
        pool.clear()


def test_adopted_memory_is_not_pooled(host, pool):
    host.adopt(np.zeros(N, np.uint8))
    host.adopt(np.zeros(N, np.uint8)[10:])
    assert pool.idle == 0


def test_under_a_tracer_memory_is_still_not_reused_too_early():
    """A Python tracer holds references to locals: counts taken under it must not become the measure."""
    previous = sys.gettrace()
    sys.settrace(lambda frame, event, arg: lambda *_: None)
    try:
        pool = HostPool(8 * N)
    finally:
        sys.settrace(previous)
    assert pool.alone == HostPool(0).alone
    host = HostDevice(0, pool=pool)
    chunk = host.empty((N,), np.uint8)
    view = chunk.array[1:]
    del chunk
    assert pool.idle == 0
    assert view.size == N - 1


def test_bounded_and_the_longest_unused_make_room(host, pool):
    chunks = [host.empty((N,), np.uint8) for _ in range(20)]
    del chunks
    assert pool.idle == 8 * N
    host.empty((4 * N,), np.uint8)
    assert pool.idle == 8 * N
    before = pool.hits
    host.empty((4 * N,), np.uint8)
    assert pool.hits == before + 1
    host.empty((9 * N,), np.uint8)  # larger than the whole pool
    assert pool.idle == 8 * N
    pool.clear()
    assert pool.idle == 0


def test_no_pool_of_limit_zero():
    host = HostDevice(0, pool=HostPool(0))
    host.empty((N,), np.uint8)
    assert host.pool.idle == 0


def test_size_classes():
    for n in [*range(1, 5000), LEAST, LEAST + 1, N - 1, N, N + 1, (1 << 40) + 1]:
        size = size_class(n)
        assert n <= size <= n * 9 / 8
        assert size_class(size) == size
    assert len({size_class(n) for n in range(N, 2 * N, 997)}) <= 9


def test_default_limit():
    assert 0 < default_limit() <= 2 << 30


def test_threads_never_share_a_buffer(pool):
    devices = [HostDevice(i, pool=pool) for i in range(4)]
    wrong = []

    def churn(device):
        for i in range(300):
            chunk = device.full((LEAST * (1 + i % 3),), np.uint8, device.id)
            view = chunk.array[::1024] if i % 5 == 0 else None
            if not (chunk.array[::512] == device.id).all():
                wrong.append(i)
            del chunk
            if view is not None and not (view == device.id).all():
                wrong.append(i)

    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=churn, args=(device,)) for device in devices]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(switch)
    assert wrong == []
    assert [device.allocated for device in devices] == [0] * 4
    assert pool.idle == sum(size * len(stack) for size, stack in pool._free.items())
