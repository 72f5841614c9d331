"""How tests start an ``mpiexec``: which one, with which options and environment. It exists so that all of them run under
MPICH and under Open MPI, as root too, and start from an environment that says nothing of a launch that they are part of."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

__all__ = ["DEEP", "MPIEXEC", "is_open_mpi", "mpiexec", "outside"]

DEEP = os.environ.get("DISTARRAY_DEEP", "") not in ("", "0")
"""Whether every variant is run, for hours, and not the one or two that find most."""

MPIEXEC = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
"""The launcher beside this Python, else the one on the path; None where there is none."""

#: What launchers tell the processes that they start. Open MPI's leave for root to run it stays: it is the user's.
LAUNCHERS = ("DISTARRAY_", "OMPI_COMM_", "OMPI_UNIVERSE_", "PMI", "PYTEST")


@cache
def is_open_mpi(launcher: str) -> bool:
    """Whether an ``mpiexec`` is Open MPI's."""
    said = subprocess.run([launcher, "--version"], capture_output=True, text=True, timeout=60, check=False).stdout
    return "Open MPI" in said or "OpenRTE" in said


def mpiexec(size: int) -> list[str]:
    """The command that starts `size` processes, more than there are cores too."""
    assert MPIEXEC, "there is no mpiexec: pip install mpich mpi4py"
    return [MPIEXEC, *(["--oversubscribe"] if is_open_mpi(MPIEXEC) else []), "-n", str(size)]


def outside() -> dict[str, str]:
    """This environment without what says that this process was launched, and without settings of the package."""
    return {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
