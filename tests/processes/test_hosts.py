"""Several hosts on one machine: two network namespaces with host names of their own, joined by a cable; MPI talks over TCP.

The cable is cut in the middle: each side must be told by the deadline, keep what it holds, and end by itself.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from conformance.launching import MPIEXEC, is_open_mpi, outside
from tests.processes.test_chaos import kill, marked

ROOT = Path(__file__).resolve().parents[2]
DEADLINE = 3.0
MARGIN = 2.5  # seconds beyond the deadline: cores are few

#: What mpiexec runs in place of ssh: skips its options, and runs the command in the namespace of the address.
LAUNCHER = """#!/bin/sh
while case $1 in -*) true;; *) false;; esac; do shift; done
case $1 in 10.231.7.1) name={0};; *) name={1};; esac
shift
exec ip netns exec $name unshare --uts sh -c "hostname $name; $*"
"""

pytestmark = [
    pytest.mark.skipif(os.environ.get("DISTARRAY_TEST_KIND", "host") != "host", reason="host data moves through MPI"),
    pytest.mark.skipif(MPIEXEC is None, reason="no mpiexec: pip install mpich mpi4py"),
    pytest.mark.skipif(MPIEXEC is not None and is_open_mpi(MPIEXEC), reason="starts its hosts by MPICH's options"),
    pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="needs mpi4py"),
    pytest.mark.timeout(120),
]


def received(name: str) -> int:
    """Bytes that came over the cable."""
    shown = subprocess.run(
        ["ip", "-n", name, "-s", "-j", "link", "show", "eth0"], check=True, capture_output=True, text=True, timeout=20
    )
    return int(json.loads(shown.stdout)[0]["stats64"]["rx"]["bytes"])


def await_files(folder: Path, what: str, process: subprocess.Popen[str], seconds: float) -> list[dict[str, Any]]:
    """What both ranks wrote under this name."""
    due = time.monotonic() + seconds
    paths = [folder / f"{what}.{rank}" for rank in range(2)]
    while not all(path.exists() for path in paths):
        if time.monotonic() > due or (process.poll() is not None and what == "met"):
            raise AssertionError(f"no {what!r} of both ranks: {sorted(os.listdir(folder))}")
        time.sleep(0.02)
    return [json.loads(path.read_text()) for path in paths]


def test_two_hosts_over_tcp_and_the_cable_cut(two_hosts: tuple[str, str], tmp_path: Path) -> None:
    launcher = tmp_path / "launcher"
    launcher.write_text(LAUNCHER.format(*two_hosts))
    launcher.chmod(0o755)
    mark = str(uuid.uuid4())
    environment = outside()
    environment |= {
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "DISTARRAY_KIND": "host",
    }
    environment |= {"DISTARRAY_TIMEOUT": str(DEADLINE), "DISTARRAY_CHAOS": mark}
    # the two could share memory, as real hosts cannot
    environment |= {
        "MPIR_CVAR_CH4_NETMOD": "ofi",
        "FI_PROVIDER": "tcp",
        "FI_TCP_IFACE": "eth0",
        "MPIR_CVAR_NOLOCAL": "1",
    }
    process = subprocess.Popen(
        ["ip", "netns", "exec", two_hosts[0], str(MPIEXEC), "-launcher", "ssh", "-launcher-exec", str(launcher),
         "-iface", "eth0", "-hosts", "10.231.7.1,10.231.7.2", "-ppn", "1", "-n", "2",
         sys.executable, str(Path(__file__).with_name("hosts_program.py")), str(tmp_path)],
        env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        assert await_files(tmp_path, "met", process, 60) == [{"right": True}] * 2
        assert received(two_hosts[0]) > 2_000_000, "half of the array crossed the cable each way"
        subprocess.run(["ip", "-n", two_hosts[1], "link", "set", "eth0", "down"], check=True, timeout=20)
        (tmp_path / "go").touch()
        for rank, end in enumerate(await_files(tmp_path, "end", process, DEADLINE + 30)):
            assert end["error"] == "PeerLostError", end
            assert f"rank {1 - rank} (host " in end["text"] and "reshard" in end["text"]
            assert end["took"] < DEADLINE + MARGIN
            assert end["readable"] == [True], "its own half, as the last finished operation left it"
        due = time.monotonic() + 15
        while (left := programs(mark)) and time.monotonic() < due:
            time.sleep(0.05)
        assert not left, "both programs end by themselves"
    finally:
        kill(marked(f"DISTARRAY_CHAOS={mark}"))  # the launcher's own parts wait for the cable
        print(process.communicate()[0])


def programs(mark: str) -> list[int]:
    """The Python processes of this test that still run."""
    return [pid for pid in marked(f"DISTARRAY_CHAOS={mark}") if arguments(pid)[:1] == [sys.executable]]


def arguments(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:  # it has ended
        return []
