"""all_reduce of the process group beside NCCL called directly, turn by turn in the same two processes.

Times are those of nccl-tests: calls issued one behind the other, divided by their number; algbw is bytes over time, and
busbw algbw times 2 (n - 1) / n. ``--kind host`` tries the process group's half on CPUs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import common
import numpy as np

from distarray.groups.base import init_process_group


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=("cuda", "host"), default="cuda")
    parser.add_argument("--scale", type=int, default=1, help="divides the largest size")
    options = parser.parse_args()
    rank = int(os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("PMI_RANK") or "0")
    size = int(os.environ.get("OMPI_COMM_WORLD_SIZE") or os.environ.get("PMI_SIZE") or "1")
    lib: Any = np
    if options.kind == "cuda":
        import cupy

        lib = cupy
        cupy.cuda.Device(rank).use()
    with init_process_group(size, rank, backend="nccl" if lib is not np else "mpi", use_mpi=True) as group:
        team = common.Team.mpi()
        ways: dict[str, Callable[[Any, Any], Any]] = {"distarray": group.all_reduce}
        direct: Any = None
        if lib is not np:
            from cupy.cuda import nccl

            uid = team.share(nccl.get_unique_id() if rank == 0 else None)[0]
            direct = nccl.NcclCommunicator(size, uid, rank)
            ways["NCCL"] = lambda x, y: direct.allReduce(
                x.data.ptr, y.data.ptr, x.size, nccl.NCCL_FLOAT32, nccl.NCCL_SUM, cupy.cuda.Stream.null.ptr
            )
        report = common.Report("all_reduce", team)
        for name, nbytes, turns in (
            ("4 KiB", 1 << 12, 300),
            ("4 MiB", 1 << 22, 100),
            ("1 GiB", (1 << 30) // options.scale, 8),
        ):

            def measured(nbytes: int = nbytes, turns: int = turns) -> dict[str, Any]:
                return compare(team, lib, ways, nbytes, turns)

            report.row(name, measured, "all_reduce")
        if direct is not None:
            team.share()
            direct.destroy()


def compare(
    team: common.Team, lib: Any, ways: dict[str, Callable[[Any, Any], Any]], nbytes: int, turns: int
) -> dict[str, Any]:
    """Microseconds a call of each way; medians over rounds that alternate."""
    n = nbytes // 4
    source = (lib.arange(n, dtype="int32") % 64 + team.rank).astype("float32")
    out = lib.zeros_like(source)
    right = True
    for call in ways.values():
        out[...] = 0
        call(source, out)
        want = lib.arange(n, dtype="int32")[::1009] % 64 * team.size + team.size * (team.size - 1) // 2
        right = right and bool((out[::1009] == want).all()) and float(out[-1]) == (n - 1) % 64 * team.size + 1
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(11):
        for name, call in ways.items():
            wait(lib)
            team.share()
            start = time.perf_counter()
            for _ in range(turns):
                call(source, out)
            wait(lib)
            times[name].append((time.perf_counter() - start) / turns)
    shared = team.share(times)
    medians = {
        name: statistics.median(max(each) for each in zip(*(one[name] for one in shared))) * 1e6 for name in ways
    }
    return {"bytes": nbytes, "us": medians, "ok": all(team.share(right))}


def wait(lib: Any) -> None:
    if lib is not np:
        lib.cuda.Stream.null.synchronize()


if __name__ == "__main__":
    main()
