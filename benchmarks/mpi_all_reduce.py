"""The process group's all_reduce beside mpi4py's own Allreduce, turn by turn in one run, and the cost of an exchange.

    mpiexec -n 2 python benchmarks/mpi_all_reduce.py [--megabytes 64] [--repeats 15]

Prints medians; the bar is 0.7 times Allreduce at 64 MB on 2 ranks, and 60 µs for an exchange of 4 KB each way.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

from distarray.comm.base import Message, Signature
from distarray.comm.mpi.communicator import MpiCommunicator
from distarray.groups.join import init_process_group


def timed(comm: MpiCommunicator, function: Callable[[], object]) -> float:
    comm.barrier(Signature("benchmark"))
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=64)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    comm = MpiCommunicator()
    from mpi4py import MPI  # after distarray, which sees to how the process ends

    group = init_process_group(comm.size, comm.rank, backend="mpi")
    source = np.random.default_rng(comm.rank).random(int(options.megabytes * 2**20) // 8)
    ours, theirs = np.empty_like(source), np.empty_like(source)
    times: dict[str, list[float]] = {"distarray": [], "mpi4py Allreduce": []}
    for _ in range(options.repeats + 2):
        times["distarray"].append(timed(comm, lambda: group.all_reduce(source, ours)))
        times["mpi4py Allreduce"].append(timed(comm, lambda: MPI.COMM_WORLD.Allreduce(source, theirs)))
    assert np.allclose(ours, theirs)
    peer = comm.rank ^ 1
    there = [peer] if peer < comm.size else []
    out, into = np.zeros(512), np.zeros(512)
    laps = []
    for _ in range(3000):
        start = time.perf_counter()
        comm.exchange([Message(p, out) for p in there], [Message(p, into) for p in there], Signature("halo"))
        laps.append(time.perf_counter() - start)
    if comm.rank == 0:
        medians = {name: statistics.median(values[2:]) for name, values in times.items()}
        for name, value in medians.items():
            least = min(times[name][2:]) * 1e3
            what = f"all_reduce {options.megabytes:g} MB, {comm.size} ranks, {name}"
            print(f"{what}: median {value * 1e3:.1f} ms, least {least:.1f}")
        ratio = medians["distarray"] / medians["mpi4py Allreduce"]
        print(f"ratio {ratio:.2f} (bar 0.70): {'met' if ratio <= 0.7 else 'NOT met'}")
        print(f"exchange of 4 KB each way: median {statistics.median(laps) * 1e6:.1f} µs (bar 60)")
    group.stop()
    comm.close()


if __name__ == "__main__":
    main()
