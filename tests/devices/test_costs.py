"""Guards against a cost that grows by an order of magnitude; benchmarks/ measure, these only watch.

Bounds are ten times what an idle 2-core machine takes, so that a busy one passes.
"""

from __future__ import annotations

import timeit

import numpy as np
import pytest

from distarray.devices import Chunk, HostDevice, Workers

HOST = HostDevice(0)
LIMITED = HostDevice(1, memory_limit=1 << 40)
SMALL = np.empty((4, 256), np.float32)
FLOAT32 = np.dtype(np.float32)
WORKERS = Workers(2)
TASKS = [lambda: None] * 2


def limit_blas():
    with WORKERS.limit_blas(2):
        pass


@pytest.mark.parametrize(
    ("name", "call", "microseconds"),
    [
        ("chunk, made and ended", lambda: Chunk(HOST, SMALL), 0.4),
        ("empty, small", lambda: HOST.empty((4, 256), FLOAT32), 0.9),
        ("empty, small, limited", lambda: LIMITED.empty((4, 256), FLOAT32), 1.0),
        ("empty, pooled", lambda: HOST.empty((1024, 1024), FLOAT32), 2.2),
        ("run, inline", lambda: WORKERS.run(TASKS, 1), 0.5),
        ("run, threaded", lambda: WORKERS.run(TASKS, 1 << 30), 20.0),
        ("limit_blas", limit_blas, 16.0),  # 4 a library: NumPy's, SciPy's, those that other tests have loaded
        ("limit_blas, inline", lambda: WORKERS.limit_blas(1), 0.2),
    ],
)
def test_cost(name, call, microseconds):
    took = min(timeit.repeat(call, number=200, repeat=20)) / 200 * 1e6
    assert took < 10 * microseconds, f"{name}: {took:.2f} us"
