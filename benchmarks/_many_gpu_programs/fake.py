"""Stands in for a step in ``many_gpus.py --dry-run``: prints what the step could print, with made-up numbers.

``MANY_GPUS_HANG=step`` lets that step and a grandchild in a session of its own ignore signals and sleep, to see them ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

WORKS = "add sum0 columns gemm32 gemm32_rows gemm16 gemm16_rows small_add small_sum".split()
COLUMNS = {
    "cupyx": ["cupyx"], "jax": ["jax_jit", "jax_eager"], "dtensor": ["dtensor"], "distarray1": ["distarray1"],
    "distarrays": ["distarrays"],
}  # fmt: skip


def put(**facts: object) -> None:
    print("RESULT " + json.dumps(facts), flush=True)


def hang() -> None:
    for number in (signal.SIGTERM, signal.SIGABRT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(600)


def main() -> None:
    name = sys.argv[1]
    if name == "hang":
        hang()
    for column in COLUMNS.get(name, []):
        for turn, work in enumerate(WORKS):
            if column == "cupyx" and work.endswith("_rows"):
                put(kind="row", column=column, work=work, na="no device holds both blocks: refused")
            else:
                ms = 90.0 if "32" in work else 0.05 if "small" in work else 2.0 + turn
                put(kind="row", column=column, work=work, ms=ms * len(column) / 8, ok=column != "dtensor" or turn != 3)
    if os.environ.get("MANY_GPUS_HANG") == name:
        subprocess.Popen([sys.executable, __file__, "hang"], start_new_session=True)
        hang()
    if name in ("distarray1", "distarrays"):
        for work in ("peer copy, one way", "NCCL exchange, 1 GiB each way")[name == "distarrays" :][:1]:
            put(kind="fact", column=name, work=work, value=390.2, unit="GB/s", ok=True, note="made up")
    if name == "collectives":
        for work, nbytes, us in (("4 KiB", 4096, 30.0), ("4 MiB", 1 << 22, 56.0), ("1 GiB", 1 << 30, 3300.0)):
            put(
                kind="collective",
                column=name,
                work=f"all_reduce {work}",
                bytes=nbytes,
                bus=1.0,
                us={"distarray": us * 1.02, "NCCL": us},
                ok=True,
            )
    if name == "programs":
        for turn in range(40):
            put(kind="program", column=name, work=f"program {turn}", ok=turn != 7, note="off by 3" if turn == 7 else "")
    if name == "lost":
        put(kind="program", column=name, work="lost rank, seen by 0", ok=True, note="after 6.0 s of 6: PeerLostError")
    if name.startswith("nccl_"):
        for rank in (0, 1):
            print(
                f"rank {rank}: messages ok\nrank {rank}: sparse_matrices {'FAILED' if name == 'nccl_mpi' and rank else 'ok'}"
            )
        sys.exit(name == "nccl_mpi")
    if name in ("suite", "suite_nccl", "init_all"):
        for turn in range(90):
            print(f"[gw{turn % 14}] [ {turn}%] PASSED conformance/test_ufuncs.py::test_call[{turn}]")
        print("[gw3] [ 99%] FAILED conformance/test_ufuncs.py::test_a name[rows to columns] ")
        print("FAILED conformance/test_ufuncs.py::test_a name[rows to columns] - AssertionError: 1 of 1")
        print("=========== 1 failed, 90 passed, 4 skipped in 94.78s (0:01:34) ============")
        sys.exit(1)


if __name__ == "__main__":
    main()
