"""The plugin for the public suite makes the contexts of one process and of several; the suite itself is run by
``conformance/standard.py``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from conformance.launching import MPIEXEC, mpiexec, outside

PROGRAM = """
from conformance import standard_namespace as xp
x = xp.asarray([[3.0, 1.0], [2.0, 4.0]])
assert len(xp.current.current().by_id) == 4
assert (xp.sort(x, axis=0) == xp.asarray([[2.0, 1.0], [3.0, 4.0]])).all()
"""


@pytest.mark.parametrize("setup", ["scattered", "mpi"])
def test_the_plugin_makes_its_contexts(setup: str) -> None:
    if setup == "mpi" and not MPIEXEC:
        pytest.skip("there is no mpiexec")
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM]
    found = subprocess.run(
        [*mpiexec(3), *command] if setup == "mpi" else command,
        cwd=Path(__file__).resolve().parents[2],
        env=outside() | {"STANDARD_SETUP": setup, "PYTHONPATH": "."},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr
