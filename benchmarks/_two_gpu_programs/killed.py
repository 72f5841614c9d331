"""A process that is killed: the other one's wait ends in a clear error by the deadline. Starts its two processes itself,
since mpirun ends all processes when one dies."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

DEADLINE = 6.0


def rank_program(rank: int) -> None:
    import cupy

    from distarray.errors import CommunicationError
    from distarray.groups.base import init_process_group

    cupy.cuda.Device(rank).use()
    group = init_process_group(2, rank)
    x = cupy.ones(1 << 20, "f4")
    group.all_reduce(x, x)
    group.communicator.wait()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(1)
    start = time.monotonic()
    try:
        for _ in range(3):
            group.all_reduce(x, x)
        group.communicator.wait()
    except CommunicationError as error:
        took = time.monotonic() - start
        text = " ".join(f"{type(error).__name__}: {error}".split())
        fact = {
            "ok": took < DEADLINE + 4 and "rank" in text,
            "note": f"after {took:.1f} s of {DEADLINE:g}: {text[:150]}",
        }
    except Exception as error:
        fact = {
            "ok": False,
            "note": " ".join(f"{type(error).__name__} where a CommunicationError was expected: {error}".split()),
        }
    else:
        fact = {"ok": False, "note": "no error: the all_reduce with a dead process ended"}
    fact |= {"kind": "program", "column": "killed", "work": "killed rank"}
    sys.stdout.write("\nRESULT " + json.dumps(fact) + "\n")
    sys.stdout.flush()
    os._exit(0)


def main() -> None:
    if len(sys.argv) > 1:
        rank_program(int(sys.argv[1]))
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    environment = dict(
        os.environ,
        DISTARRAY_PORT=port,
        DISTARRAY_TIMEOUT=f"{DEADLINE:g}",
        DISTARRAY_SECRET="only for this test on one machine",
    )
    command = [sys.executable, str(Path(__file__).resolve())]
    children = [subprocess.Popen([*command, str(rank)], env=environment) for rank in range(2)]
    codes = [child.wait() for child in children]
    print(f"exit codes {codes}", flush=True)
    sys.exit(codes[0] != 0)


if __name__ == "__main__":
    main()
