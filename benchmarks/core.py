"""The core's bars, each measured beside its peer in one run. Every figure includes evaluation.

    python benchmarks/core.py                 # host devices
    python benchmarks/core.py --kind cuda     # one GPU as two logical devices

Prints one row a bar: what, measured, peer, bar, and whether it is met.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import distarray as da
from distarray.geometry import blocks
from distarray.layout import Layout
from distarray.modes import REPLICA
from distarray.transfer.plan import plan

ROWS: list[tuple[str, str, str, str, str]] = []


def median(function: Callable[[], Any], repeats: int, sync: Callable[[], None] | None = None) -> float:
    """Median seconds of a call."""
    for _ in range(min(repeats, 20)):
        function()
    times = []
    for turn in range(repeats):
        if sync is not None and turn % 100 == 0:
            sync()
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    if sync is not None:
        sync()
    return statistics.median(times)


def best(function: Callable[[], Any], repeats: int = 5) -> float:
    """The least seconds of a call: for large work, where other processes only add."""
    times = []
    for _ in range(repeats):
        gc.collect()
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def row(what: str, measured: str, peer: str, bar: str, met: bool) -> None:
    ROWS.append((what, measured, peer, bar, "yes" if met else "NO"))
    print(" | ".join(ROWS[-1]), flush=True)


def small_calls() -> None:
    with da.init(devices=4, kind="host"):
        a, b = (np.random.default_rng(i).random(1024).astype("f4") for i in range(2))
        x, y = (da.asarray(h, layout=da.blocks(0)) for h in (a, b))
        other = da.asarray(b, layout={0: slice(0, 100), 1: slice(100, 600), 2: slice(600, 800), 3: slice(800, None)})
        peer = median(lambda: a + b, 5000)
        chunks = [(c, d) for c, d in zip(np.split(a, 4), np.split(b, 4), strict=True)]
        four = median(lambda: [c + d for c, d in chunks], 5000)
        note = f"NumPy {peer * 1e6:.1f} µs whole, {four * 1e6:.1f} µs as 4 chunks"
        seconds = median(lambda: (x + y).evaluate(), 5000)
        row("x + y, 1,024 float32, 4 devices, one layout", f"{seconds * 1e6:.1f} µs", note, "≤ 35 µs", seconds <= 35e-6)
        seconds = median(lambda: (x + other).evaluate(), 3000)
        row("x + y, different layouts, plan cached", f"{seconds * 1e6:.1f} µs", note, "≤ 150 µs", seconds <= 150e-6)


def planning() -> None:
    def own_part(n: int) -> float:
        shape, devices = (n, n), range(n)
        rows = Layout(blocks(0).resolve(shape, devices), REPLICA)
        columns = Layout(blocks(1).resolve(shape, devices), REPLICA)
        start = time.perf_counter()
        plan(rows, columns, devices=[n // 2])
        return time.perf_counter() - start

    small = statistics.median(own_part(1024) for _ in range(5))
    large = statistics.median(own_part(4096) for _ in range(5))
    row("rows → columns, 1,024 devices, one device's own part", f"{small * 1e3:.1f} ms", "", "≤ 50 ms", small <= 0.05)
    row(
        "the same for 4,096, against 1,024",
        f"{large / small:.1f} ×",
        f"{large * 1e3:.1f} ms",
        "≤ 6 ×",
        large <= 6 * small,
    )
    n = 10_000
    a = blocks(0).resolve((3 * n,), range(n))
    b = blocks(0, sizes=[2] + [3] * (n - 2) + [4]).resolve((3 * n,), range(n))
    start = time.perf_counter()
    found = sum(1 for _, region in a.chunks for _ in b.query(region))
    seconds = time.perf_counter() - start
    row(
        "intersecting two maps of 10,000 blocks",
        f"{seconds:.3f} s",
        f"{found} intersections",
        "≤ 0.3 s",
        seconds <= 0.3,
    )


def stencil() -> None:
    with da.init(devices=4, kind="host"):
        h = np.random.default_rng(0).random((4096, 4096))
        a = da.asarray(h, layout=da.blocks(0))

        def step(x: Any) -> Any:
            return x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * x[1:-1, 1:-1]

        with da.ledger() as log:
            step(a).evaluate()
        measured = f"{log.messages} messages, {log.rounds} round, {log.peak_temporary} bytes fetched on a device"
        numpy_time = best(lambda: step(h), 3)
        ours = best(lambda: step(a).evaluate(), 3)
        row(
            "5-point stencil, 4096² float64, 4 devices", measured,
            f"{ours * 1e3:.0f} ms; NumPy {numpy_time * 1e3:.0f} ms", "6 messages, 1 round, no large temporary",
            (log.messages, log.rounds) == (6, 1) and log.peak_temporary <= 2 * h[0].nbytes,
        )  # fmt: skip


def crowds() -> None:
    """Layouts of many small chunks: first calls include the plan."""

    def tiles(n: int, size: int) -> dict[int, list[tuple[slice, slice]]]:
        found: dict[int, list[tuple[slice, slice]]] = {}
        for i in range(0, n, size):
            for j in range(0, n, size):
                device = i // size % 2 * 2 + j // size % 2
                found.setdefault(device, []).append((slice(i, i + size), slice(j, j + size)))
        return found

    def points(x: Any) -> Any:
        return x[1:-1, 1:-1] + x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2]

    def two(x: Any) -> Any:
        return x[:-2] + x[2:]

    wide, flat = tiles(4096, 64), da.cyclic(0, 1000)
    cases: list[tuple[str, Any, list[Any], Callable[..., Any], float, float]] = [
        ("x[:-2] + x[2:], 2,000,000, cyclic(0, 1000)", (2_000_000,), [flat], two, 0.3, 15),
        (
            "x + z, 2,000,000, cyclic(0, 1000) and blocks",
            (2_000_000,),
            [flat, da.blocks(0)],
            lambda x, z: x + z,
            0.3,
            15,
        ),
        ("5-point stencil, 4096², tiles of 64²", (4096, 4096), [wide], points, 1.5, 3),
    ]
    for name, shape, layouts, program, bar, ratio in cases:
        with da.init(devices=4, kind="host"):
            h = np.ones(shape)
            ours = [da.asarray(h, layout=layout) for layout in layouts]
            start = time.perf_counter()
            program(*ours).evaluate()
            first = time.perf_counter() - start
            again = best(lambda ours=ours, program=program: program(*ours).evaluate(), 3)
            peer = best(lambda h=h, ours=ours, program=program: program(*[h] * len(ours)), 3)
            row(
                name, f"first {first * 1e3:.0f} ms, again {again * 1e3:.0f} ms", f"NumPy {peer * 1e3:.0f} ms",
                f"first ≤ {bar * 1e3:.0f} ms, again ≤ {ratio} ×", first <= bar and again <= ratio * peer,
            )  # fmt: skip


def resharding() -> None:
    with da.init(devices=4, kind="host"):
        h = np.random.default_rng(0).random((8192, 8192)).astype("f4")
        x = da.asarray(h, layout=da.blocks(0))
        peer = best(lambda: h.copy(), 7)
        ours = best(lambda: x.reshard(da.blocks(1)), 7)
        row(
            "reshard 256 MB, rows → columns", f"{ours * 1e3:.0f} ms", f"NumPy copy {peer * 1e3:.0f} ms", "≤ 1.0 ×",
            ours <= peer,
        )  # fmt: skip


def sums() -> None:
    for n in (2, 4, 7):
        with da.init(devices=n, kind="host"):
            x = da.asarray(np.random.default_rng(0).random((n * 3, 10_000)), layout=da.blocks(0))
            with da.ledger() as log:
                x.sum(axis=0).change_mode("replica")
            result = 10_000 * 8
            up = down = (n - 1) * result
            row(
                f"sum over the split axis, then REPLICA, {n} devices", f"{log.bytes_moved} bytes",
                f"{log.messages} messages, {log.rounds} rounds", f"≤ {up + down} bytes (up + down)",
                log.bytes_moved <= up + down,
            )  # fmt: skip


def gpu() -> None:
    import cupy

    with da.init(devices=2, kind="cuda") as context:
        h = np.random.default_rng(0).random((64, 64)).astype("f4")
        x, y = (da.asarray(h, layout=da.blocks(0)) for _ in range(2))
        half = cupy.asarray(h[:32])
        peer = median(lambda: (half + half, half + half), 5000, context.synchronize)
        seconds = median(lambda: (x + y).evaluate(), 5000, context.synchronize)
        row(
            "a + b, 64 × 64, one GPU as 2 devices", f"{seconds * 1e6:.1f} µs", f"two CuPy adds {peer * 1e6:.1f} µs",
            "≤ 45 µs", seconds <= 45e-6,
        )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=("host", "cuda"), default="host")
    if parser.parse_args().kind == "cuda":
        gpu()
        return
    small_calls()
    planning()
    stencil()
    crowds()
    resharding()
    sums()


if __name__ == "__main__":
    main()
