"""Bars of several processes, each beside its peer in one run.

mpiexec -n 2 python benchmarks/processes.py
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import distarray as da


def median(function: Callable[[], Any], repeats: int, barrier: Callable[[], None]) -> float:
    """Median seconds of a call that all processes begin together; the slowest process counts."""
    from mpi4py import MPI

    for _ in range(min(5, repeats)):
        function()
    times = []
    for _ in range(repeats):
        barrier()
        start = time.perf_counter()
        function()
        times.append(MPI.COMM_WORLD.allreduce(time.perf_counter() - start, MPI.MAX))
    return statistics.median(times)


def alone(function: Callable[[], Any], repeats: int) -> float:
    """Median seconds of a call that needs no other process."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    da.init()
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    n = da.process_count()

    def row(what: str, measured: str, peer: str, bar: str, met: bool) -> None:
        if world.rank == 0:
            print(f"{what} | {measured} | {peer} | {bar} | {'yes' if met else 'NO'}", flush=True)

    rng = np.random.default_rng(0)
    h = rng.random(1024).astype("f4")
    x, y = (da.asarray(h, layout=da.blocks(0)) for _ in range(2))
    (x + y).evaluate()
    with da.ledger() as log:
        (x + y).evaluate()
    seconds = alone(lambda: (x + y).evaluate(), 3000)
    row(f"x + y, 1,024 float32, {n} ranks", f"{seconds * 1e6:.1f} µs, {log.messages} messages", "", "≤ 40 µs, 0 messages",
        seconds <= 40e-6 and log.messages == 0)  # fmt: skip

    v, part, whole = da.asarray(rng.random(1024), layout=da.blocks(0)), np.ones(1), np.empty(1)
    ours = median(lambda: float(v.sum()), 3000, world.Barrier)
    peer = median(lambda: world.Allreduce(part, whole), 3000, world.Barrier)
    row(f"float(v.sum()), 1,024 float64, {n} ranks", f"{ours * 1e6:.1f} µs", f"Allreduce {peer * 1e6:.1f} µs",
        "≤ 40 µs over it", ours - peer <= 40e-6)  # fmt: skip

    a = da.asarray(rng.random((512, 512)), layout=da.blocks(0))
    own = a.all_chunks()
    chunk = next(c for chunks in own.values() for c in chunks)
    a = da.asarray(rng.random((512, 512)), layout=da.blocks(0))
    with da.ledger() as log:
        (a[:-2] + a[2:]).evaluate()
    halo = median(lambda: (a[:-2] + a[2:]).evaluate(), 300, world.Barrier)
    local = median(lambda: chunk[:-2] + chunk[2:], 300, world.Barrier)
    row("a[:-2] + a[2:], 512² float64", f"{halo * 1e6:.0f} µs, {log.messages} messages of {log.bytes_moved} bytes",
        f"local part {local * 1e6:.0f} µs", "≤ 150 µs over local", halo - local <= 150e-6)  # fmt: skip

    big = rng.random((8192, 8192)).astype("f4")
    b = da.asarray(big, layout=da.blocks(0))
    rows = np.array_split(big, n)[world.rank].copy()
    del big
    ours = median(lambda: b.reshard(da.blocks(1)), 5, world.Barrier)

    def by_hand() -> Any:
        width = rows.shape[1] // n
        send = np.ascontiguousarray(rows.reshape(rows.shape[0], n, width).transpose(1, 0, 2))
        receive = np.empty_like(send)
        world.Alltoall(send, receive)
        return receive.reshape(-1, width)

    peer = median(by_hand, 5, world.Barrier)
    row("reshard 256 MB, rows → columns", f"{ours * 1e3:.0f} ms", f"hand-packed Alltoall {peer * 1e3:.0f} ms", "≤ 1.2 ×",
        ours <= 1.2 * peer)  # fmt: skip


if __name__ == "__main__":
    main()
