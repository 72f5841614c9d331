"""Programs under a real srun, where a Slurm cluster answers: one world, or a refusal that says which srun serves it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

PROGRAM = str(Path(__file__).with_name("store_program.py"))
TOTAL = """
import os, distarray as da
with da.init(kind="host"):
    x = da.arange(10.0)
    os.write(1, f"{da.process_index()} of {da.process_count()}: {float(x.sum())}\\n".encode())
"""

pytestmark = pytest.mark.timeout(300)


@cache
def answers() -> bool:
    """Whether a cluster starts two processes for us, soon."""
    try:
        done = subprocess.run(["srun", "-n", "2", "true"], capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


@pytest.fixture(autouse=True)
def _cluster() -> None:
    if shutil.which("srun") is None:
        pytest.skip("no srun: Slurm is not installed")
    if not answers():
        pytest.skip("srun is here, but no Slurm cluster starts two processes")


def srun(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(root), *filter(None, [os.environ.get("PYTHONPATH")])])
    variables = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "DISTARRAY_BOOTSTRAP_TIMEOUT": "40"}
    return subprocess.run(
        ["srun", "-K", "-n", "2", *arguments], capture_output=True, text=True, timeout=120, cwd=root, env=variables,
        check=False,
    )  # fmt: skip


def test_processes_meet_without_mpi(root: Path) -> None:
    done = srun(root, sys.executable, PROGRAM)
    if "is no address of this machine" in done.stderr:
        pytest.skip("Slurm's names of the nodes are not known to the resolver, and DISTARRAY_HOST is not set")
    if "there is no secret" in done.stderr:
        pytest.skip("the nodes' addresses are not loopback, and DISTARRAY_SECRET is not set")
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(line["rank"] for line in lines) == [0, 1]
    assert all([one.split()[:2] for one in line["met"]] == [["slurm", "0"], ["slurm", "1"]] for line in lines)


def test_one_world_with_the_pmi_of_the_mpi_library(root: Path) -> None:
    pytest.importorskip("mpi4py", reason="needs mpi4py")
    ask = "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; print(MPI.Get_library_version())"
    library = subprocess.run(
        [sys.executable, "-c", ask], capture_output=True, text=True, timeout=60, check=False
    ).stdout
    kind = "pmix" if "Open MPI" in library else "pmi2"
    types = subprocess.run(["srun", "--mpi=list"], capture_output=True, text=True, timeout=30, check=False)
    if kind not in types.stdout + types.stderr:
        pytest.skip(f"this Slurm has no --mpi={kind}")
    done = srun(root, f"--mpi={kind}", sys.executable, "-c", TOTAL)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["0 of 2: 45.0", "1 of 2: 45.0"]


def test_without_a_pmi_nothing_is_computed_twice(root: Path) -> None:
    pytest.importorskip("mpi4py", reason="needs mpi4py")
    done = srun(root, "--mpi=none", sys.executable, "-c", TOTAL)
    assert done.returncode != 0
    assert "45.0" not in done.stdout
    assert "slurm started 2 processes and MPI sees 1: srun did not serve the PMI" in done.stderr
    assert "srun --mpi=pmi2 for MPICH" in done.stderr
