"""Programs under a real torchrun: who they are, where they meet without MPI, and what is refused.

torchrun may be of another environment than the one under test: it starts this one's interpreter.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

TORCHRUN = shutil.which("torchrun", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
PROGRAM = str(Path(__file__).with_name("store_program.py"))

needs_torchrun = pytest.mark.skipif(TORCHRUN is None, reason="no torchrun: pip install torch, or put one on PATH")
pytestmark = pytest.mark.timeout(300)  # torchrun takes seconds to come and to go


def free_port() -> int:
    """A port that is free, and the next one too; below the ephemeral ones, as a person chooses."""
    for port in range(20000 + os.getpid() % 10000, 32000):
        try:
            with socket.create_server(("127.0.0.1", port)), socket.create_server(("127.0.0.1", port + 1)):
                return port
        except OSError:
            continue
    raise AssertionError("no free port")


def environment(root: Path, **more: str) -> dict[str, str]:
    path = os.pathsep.join([str(root), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "DISTARRAY_BOOTSTRAP_TIMEOUT": "40", **more}


def torchrun(root: Path, *arguments: str, **more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(TORCHRUN), "--nproc-per-node", "2", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=root, env=environment(root, **more),
    )  # fmt: skip


def said(*running: subprocess.Popen[str]) -> list[dict[str, object]]:
    """What the processes of some torchruns printed, by rank."""
    try:
        done = [one.communicate(timeout=120) for one in running]
    finally:
        for one in running:
            one.kill()
    assert all(one.returncode == 0 for one in running), "\n".join(err for _, err in done)
    lines = [json.loads(line) for out, _ in done for line in out.splitlines()]
    return sorted(lines, key=lambda line: line["rank"])


def names(locals_: list[int]) -> list[str]:
    return [f"torchrun {rank} {local}" for rank, local in enumerate(locals_)]


@needs_torchrun
@pytest.mark.parametrize("how", ["by itself", "standalone", "port", "torch's own"])
def test_processes_of_one_node_meet(root: Path, how: str) -> None:
    options = {
        "by itself": [],
        "standalone": ["--standalone"],
        "port": ["--master-port", str(free_port())],
        "torch's own": ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{free_port()}"],
    }[how]
    own = ["torch's own"] if how == "torch's own" else []
    variables = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"} if own else {}
    lines = said(torchrun(root, *options, "--no-python", sys.executable, PROGRAM, *own, **variables))
    assert [line["met"] for line in lines] == [names([0, 1])] * 2


@needs_torchrun
@pytest.mark.parametrize("rendezvous", ["static", "c10d"])
def test_processes_of_two_agents_meet(root: Path, rendezvous: str) -> None:
    port = str(free_port())
    running = []
    for node in ("0", "1"):
        where = ["--node-rank", node, "--master-addr", "127.0.0.1", "--master-port", port]
        if rendezvous == "c10d":
            where = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{port}", "--rdzv-id", "test"]
        running.append(torchrun(root, "--nnodes", "2", *where, "--no-python", sys.executable, PROGRAM))
    lines = said(*running)
    assert [line["met"] for line in lines] == [names([0, 1, 0, 1])] * 4


REFUSED = """
import os, distarray as da
from distarray.groups.base import init_process_group
try:
    {call}
except {error} as error:  # caught, for torchrun ends the others as soon as one has failed
    os.write(1, f"refused: {{error}}\\n".encode())
"""


@needs_torchrun
def test_a_host_group_is_refused_at_once_on_all_ranks(root: Path) -> None:
    start = time.monotonic()
    code = REFUSED.format(call="da.init(kind='host')", error="da.errors.CommunicationError")
    running = torchrun(root, "--no-python", sys.executable, "-c", code)
    out, err = running.communicate(timeout=120)
    assert running.returncode == 0, err
    assert out.count("refused: host data moves between processes through MPI, and torchrun started 2") == 2
    assert time.monotonic() - start < 30, "well before any deadline"


@needs_torchrun
def test_the_process_group_on_mpi_is_refused(root: Path) -> None:
    pytest.importorskip("mpi4py", reason="without mpi4py another message says so")
    code = REFUSED.format(call="init_process_group(2, int(os.environ['RANK']), backend='mpi')", error="ValueError")
    running = torchrun(root, "--no-python", sys.executable, "-c", code)
    out, err = running.communicate(timeout=120)
    assert running.returncode == 0, err
    assert out.count("torchrun starts processes without MPI; start the program with mpiexec -n 2") == 2


def test_neighbours_that_hold_ports_do_not_matter(root: Path) -> None:
    """Two jobs by torch's variables at once, on ports side by side; each one's agent listens at its MASTER_PORT."""
    port = free_port()
    running = []
    with socket.create_server(("127.0.0.1", port)), socket.create_server(("127.0.0.1", port + 1)):
        for job in (port, port + 1):
            for rank in ("1", "0"):
                variables = {"RANK": rank, "WORLD_SIZE": "2", "LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1",
                             "MASTER_PORT": str(job), "TORCHELASTIC_USE_AGENT_STORE": "True"}  # fmt: skip
                running.append(subprocess.Popen(
                    [sys.executable, PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=root,
                    env=environment(root, **variables),
                ))  # fmt: skip
        lines = said(*running)
    assert [line["met"] for line in lines] == [names([0, 1])] * 4
