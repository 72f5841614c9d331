"""Collectives of the process group beside NCCL called directly, turn by turn in the same processes, one a GPU.

Sizes and columns are those of nccl-tests: calls issued one behind the other, divided by their number; algbw is bytes over
time, and busbw algbw times what the busiest link carries of each byte. ``--kind host`` tries the process group's half on CPUs.
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

import distarray as da

SIZES = {
    "4 KiB": (1 << 12, 200), "64 KiB": (1 << 16, 200), "1 MiB": (1 << 20, 100), "16 MiB": (1 << 24, 40),
    "256 MiB": (1 << 28, 8), "1 GiB": (1 << 30, 4), "4 GiB": (1 << 32, 2),
}  # fmt: skip
"""Bytes, and calls in a turn."""

BUSIEST: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1.0,
    "reduce": lambda n: 1.0,
}
"""busbw is algbw times this, for n processes."""

Call = Callable[[Any, Any], Any]


def ways(group: Any, direct: Any, lib: Any) -> dict[str, dict[str, Call]]:
    """Each collective by the process group, and by NCCL: both take the larger array first where one is, then the smaller."""
    n = group.size
    ours: dict[str, Call] = {
        "all_reduce": group.all_reduce,
        "all_gather": lambda whole, part: group.all_gather(part, whole, part.size),
        "reduce_scatter": lambda whole, part: group.reduce_scatter(whole, part, part.size),
        "all_to_all": lambda whole, other: group.all_to_all(whole.reshape(n, -1), other.reshape(n, -1)),
        "broadcast": lambda whole, _: group.broadcast(whole, 0),
        "reduce": lambda whole, other: group.reduce(whole, other, 0),
    }
    if direct is None:
        return {name: {"distarray": call} for name, call in ours.items()}
    from cupy.cuda import nccl

    kind, add, stream = nccl.NCCL_FLOAT32, nccl.NCCL_SUM, lib.cuda.Stream.null.ptr

    def all_to_all(whole: Any, other: Any) -> None:
        count = whole.size // n
        nccl.groupStart()
        for peer in range(n):
            direct.send(whole.data.ptr + 4 * count * peer, count, kind, peer, stream)
            direct.recv(other.data.ptr + 4 * count * peer, count, kind, peer, stream)
        nccl.groupEnd()

    theirs: dict[str, Call] = {
        "all_reduce": lambda x, y: direct.allReduce(x.data.ptr, y.data.ptr, x.size, kind, add, stream),
        "all_gather": lambda x, y: direct.allGather(y.data.ptr, x.data.ptr, y.size, kind, stream),
        "reduce_scatter": lambda x, y: direct.reduceScatter(x.data.ptr, y.data.ptr, y.size, kind, add, stream),
        "all_to_all": all_to_all,
        "broadcast": lambda x, y: direct.broadcast(x.data.ptr, x.data.ptr, x.size, kind, 0, stream),
        "reduce": lambda x, y: direct.reduce(x.data.ptr, y.data.ptr, x.size, kind, add, 0, stream),
    }
    return {name: {"distarray": ours[name], "NCCL": theirs[name]} for name in ours}


def operands(lib: Any, name: str, elements: int, rank: int, size: int) -> tuple[Any, Any]:
    """The larger array and the other: an all_gather fills the larger, the others read it."""
    whole = (lib.arange(elements, dtype="int32") % 64 + rank).astype("float32")
    if name == "all_gather":
        part = whole[: elements // size].copy()
        whole[...] = 0
        return whole, part
    return whole, lib.zeros(elements // size if name == "reduce_scatter" else elements, "float32")


def right(lib: Any, name: str, whole: Any, other: Any, rank: int, size: int) -> bool:
    """Whether a collective of fresh operands left what it should, on a grid of elements."""
    n = whole.size
    low, block = 0, n // size
    found, offset = other, size * (size - 1) // 2
    times = size
    if name == "reduce_scatter":
        low = rank * block
    elif name == "reduce" and rank:
        return True
    elif name == "broadcast":
        found, times, offset = whole, 1, 0
    elif name in ("all_gather", "all_to_all"):
        found = (whole if name == "all_gather" else other).reshape(size, -1)
        begin = 0 if name == "all_gather" else rank * block
        steps = lib.arange(begin, begin + block, dtype="int32")[::1009] % 64
        return all(bool((row[::1009] == steps + peer).all()) for peer, row in enumerate(found))
    steps = lib.arange(low, low + found.size, dtype="int32")[::1009] % 64
    return bool((found[::1009] == steps * times + offset).all())


def compare(team: common.Team, lib: Any, name: str, calls: dict[str, Call], nbytes: int, turns: int) -> dict[str, Any]:
    """Microseconds a call of each way; medians over rounds that alternate."""
    elements = nbytes // 4 // team.size * team.size
    good = True
    for call in calls.values():
        whole, other = operands(lib, name, elements, team.rank, team.size)
        call(whole, other)
        good = right(lib, name, whole, other, team.rank, team.size) and good
    times: dict[str, list[float]] = {way: [] for way in calls}
    for _ in range(7):
        for way, call in calls.items():
            wait(lib)
            team.share()
            start = time.perf_counter()
            for _ in range(turns):
                call(whole, other)
            wait(lib)
            times[way].append((time.perf_counter() - start) / turns)
    shared = team.share(times)
    medians = {way: statistics.median(max(e) for e in zip(*(one[way] for one in shared))) * 1e6 for way in calls}
    return {
        "bytes": elements * 4, "bus": BUSIEST[name](team.size), "us": medians, "ok": all(team.share(good)), "ranks": team.size,
    }  # fmt: skip


def wait(lib: Any) -> None:
    if lib is not np:
        lib.cuda.Stream.null.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=("cuda", "host"), default="cuda")
    parser.add_argument("--most", type=int, default=1 << 32, help="bytes of the largest size")
    options = parser.parse_args()
    team = common.Team.mpi()
    lib: Any = np
    if options.kind == "cuda":
        import cupy

        lib = cupy
        cupy.cuda.Device(team.rank % cupy.cuda.runtime.getDeviceCount()).use()
    os.environ.setdefault("DISTARRAY_TIMEOUT", "40")
    with da.init_process_group(team.size, team.rank, backend="nccl" if lib is not np else "mpi", use_mpi=True) as group:
        direct: Any = None
        if lib is not np:
            from cupy.cuda import nccl

            direct = nccl.NcclCommunicator(
                team.size, team.share(nccl.get_unique_id() if team.rank == 0 else None)[0], team.rank
            )
        report = common.Report("collectives", team)
        for name, calls in ways(group, direct, lib).items():
            for label, (nbytes, turns) in SIZES.items():
                if nbytes <= options.most:

                    def measured(
                        name: str = name, calls: Any = calls, nbytes: int = nbytes, turns: int = turns
                    ) -> dict[str, Any]:
                        return compare(team, lib, name, calls, nbytes, turns)

                    report.row(f"{name} {label}", measured, "collective")
        if direct is not None:
            team.share()
            direct.destroy()


if __name__ == "__main__":
    main()
