"""The last of some processes is lost: the others name it by the deadline, shrink, and go on without it.

python lost_rank.py --gpus 4                            starts its own processes, a GPU each: the last is killed
mpiexec -n 4 python lost_rank.py --gpus 4 --kind host   processes of MPI, whose launcher ends all when one is killed: stopped

"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

DEADLINE = 6.0


Works = tuple[Callable[[], Any], Callable[[int], str]]
"""What all processes do together, and what those before a lost one do without it: it returns what was wrong."""


def of_group(size: int, rank: int) -> Works:
    """Collectives of the process group, a GPU each."""
    import cupy

    import distarray as da
    from distarray.comm.base import Message, Signature

    cupy.cuda.Device(rank).use()
    group: Any = da.init_process_group(size, rank)
    x = cupy.ones(1 << 20, "f4")

    def together() -> None:
        for _ in range(3):
            group.all_reduce(x, x)
        group.communicator.wait()

    def without(last: int) -> str:
        smaller = group.communicator.shrink(range(last))
        me, n = smaller.rank, smaller.size
        into = [cupy.zeros(1 << 10) for _ in range(n)]
        others = [peer for peer in range(n) if peer != me]
        sends = [Message(peer, cupy.full(1 << 10, float(10 * me + peer))) for peer in others]
        smaller.exchange(sends, [Message(peer, into[peer]) for peer in others], Signature("exchange"))
        smaller.wait()
        wrong = [peer for peer in others if not bool((into[peer] == 10 * peer + me).all())]
        return f"{n} processes instead of {last}" if n != last else f"wrong values from {wrong}" if wrong else ""

    return together, without


def of_arrays() -> Works:
    """Arrays over host devices of MPI's processes."""
    import distarray as da

    context = da.init(kind="host")
    host = np.arange(1 << 16, dtype="f8").reshape(256, 256)

    def work() -> Any:
        x = da.asarray(host, layout=da.blocks(0))
        return (x + x.reshard(da.blocks(1)).reshard(da.blocks(0))).get()

    def together() -> Any:
        with context:
            return work()

    def without(last: int) -> str:
        with context.shrink(range(last)) as smaller:
            right = np.array_equal(work(), 2 * host)
            return (
                f"{smaller.process_count} processes"
                if smaller.process_count != last
                else ""
                if right
                else "wrong values"
            )

    return together, without


def rank_program(size: int, rank: int, kind: str) -> None:
    from distarray.errors import CommunicationError

    together, without = of_group(size, rank) if kind == "cuda" else of_arrays()
    together()
    last = size - 1
    if rank == last:
        os.kill(os.getpid(), signal.SIGKILL if kind == "cuda" else signal.SIGSTOP)
    time.sleep(1)
    start = time.monotonic()
    try:
        together()
        note, took = "no error: work with a lost process ended", time.monotonic() - start
    except CommunicationError as error:
        took = time.monotonic() - start
        text = " ".join(f"{type(error).__name__}: {error}".split())
        note = "" if took < DEADLINE + 4 and f"rank {last}" in text else f"after {took:.1f} s: {text[:150]}"
    if not note and last > 1:
        try:
            note = without(last)
        except Exception as error:
            note = " ".join(f"it does not go on: {type(error).__name__}: {error}".split())[:200]
    said = note or f"named after {took:.1f} s of {DEADLINE:g}, {last} go on"
    fact = {"kind": "program", "column": "lost", "work": f"lost rank, seen by {rank}", "ok": not note, "note": said}
    os.write(1, f"\nRESULT {json.dumps(fact)}\n".encode())
    if kind == "cuda":
        os._exit(0)
    time.sleep(2 if rank == 0 else 30)  # the others speak too, before the launcher ends them and the stopped one
    os._exit(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--kind", choices=("cuda", "host"), default="cuda")
    parser.add_argument("--rank", type=int)
    options = parser.parse_args()
    os.environ["DISTARRAY_TIMEOUT"] = f"{DEADLINE:g}"
    if options.kind == "host":
        from mpi4py import MPI

        rank_program(MPI.COMM_WORLD.size, MPI.COMM_WORLD.rank, "host")
        return
    if options.rank is not None:
        rank_program(options.gpus, options.rank, "cuda")
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    environment = {**os.environ, "DISTARRAY_PORT": port}
    environment.setdefault("DISTARRAY_SECRET", "only for this test on one machine")
    command = [sys.executable, str(Path(__file__).resolve()), "--gpus", str(options.gpus), "--rank"]
    children = [subprocess.Popen([*command, str(rank)], env=environment) for rank in range(options.gpus)]
    codes = [child.wait() for child in children]
    print(f"exit codes {codes}", flush=True)
    sys.exit(any(codes[:-1]))


if __name__ == "__main__":
    main()
