"""Chaos: in a program on three processes, one of them, at a random operation, is stopped, sleeps past the deadline, runs
other code, fails inside an operation, or is killed. Every other process must end by itself, by the deadline, with an error
that names it, its arrays as its last finished operation left them; nothing hangs, no result is wrong, no process stays.

Ten runs; ``DISTARRAY_DEEP=1``: a hundred, and a quarter as many kills. MPICH's launcher kills the survivors of a kill, so
that those run under Open MPI with ULFM: ``DISTARRAY_OMPI_PYTHON`` names the Python of an environment that has it.
"""

from __future__ import annotations

import collections
import contextlib
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from conformance.launching import DEEP, MPIEXEC, mpiexec, outside

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("chaos_program.py")
OMPI = os.environ.get("DISTARRAY_OMPI_PYTHON", "")
SIZE = 3
DEADLINE = 2.0
MARGIN = 2.5  # seconds beyond the deadline: cores are few, and several runs share them
LIMIT = 40.0  # seconds after which a run counts as hung
ALLOWED = {
    "stop": {"PeerLostError"}, "sleep": {"PeerLostError"}, "kill": {"PeerLostError"}, "raise": {"RemoteError"},
    "extra": {"CollectiveMismatchError"}, "shape": {"CollectiveMismatchError"},
}  # fmt: skip
"""What survivors may be told for each kind of misfortune."""

pytestmark = [
    pytest.mark.skipif(os.environ.get("DISTARRAY_TEST_KIND", "host") != "host", reason="host data moves through MPI"),
    pytest.mark.timeout(900 if DEEP else 240),
]


def launch(kind: str, seed: int) -> tuple[str, bool, list[int]]:
    """One run: its output, whether it hung, and the processes that it left behind."""
    mark = f"DISTARRAY_CHAOS={uuid.uuid4()}"
    environment = outside()
    environment |= {
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "DISTARRAY_KIND": "host",
    }
    environment |= {"DISTARRAY_TIMEOUT": str(DEADLINE), "DISTARRAY_CHAOS": mark.partition("=")[2]}
    if kind == "kill":
        environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        command = [str(Path(OMPI).with_name("mpiexec")), "--oversubscribe", "--with-ft", "ulfm", "-n", str(SIZE), OMPI]
    else:
        command = [*mpiexec(SIZE), sys.executable]
    process = subprocess.Popen(
        [*command, str(PROGRAM), kind, str(seed), str(DEADLINE)], env=environment, cwd=ROOT, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    hung = False
    try:
        output, _ = process.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        hung = True
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
    due = time.monotonic() + 5
    while (left := marked(mark)) and time.monotonic() < due:
        time.sleep(0.05)
    kill(left)
    return output, hung, left


def kill(pids: list[int]) -> None:
    """End processes, of which some may have ended by themselves since they were seen."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def marked(mark: str) -> list[int]:
    """The processes that have the mark in their environment and are not dead."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                found += [int(folder.name)] if state not in "ZX" else []
        except OSError:
            continue
    return found


def faults(kind: str, seed: int) -> tuple[list[str], collections.Counter[str]]:
    """What is wrong with one run, and what its survivors were told."""
    output, hung, left = launch(kind, seed)
    wrong = ["it hung"] if hung else []
    wrong += [f"processes {left} stayed"] if left else []
    said: list[dict[str, Any]] = [json.loads(line) for line in re.findall(r"^CHAOS (.*)$", output, re.MULTILINE)]
    victims = {each["victim"] for each in said}
    ends = {each["rank"]: each for each in said if each["about"] == "end"}
    tally: collections.Counter[str] = collections.Counter()
    if len(victims) != 1:
        return [*wrong, f"ranks start with victims {victims}:\n{output}"], tally
    victim = victims.pop()
    for rank in range(SIZE):
        end = ends.get(rank)
        if rank == victim:  # what it was told itself; it may have been stopped or killed
            if kind in ("sleep", "extra", "shape", "raise") and (end is None or "error" not in end):
                wrong.append(f"the victim did not end with an error: {end}")
            continue
        if end is None:
            wrong.append(f"rank {rank} did not come to its end")
            continue
        error, text = end.get("error", "nothing"), end.get("text", "")
        tally[error] += 1
        if error not in ALLOWED[kind]:
            wrong.append(f"rank {rank} got {error}")
        if f"rank {victim} " not in text or not re.search(r"call \d+, (exchange|all_gather|barrier) for '", text):
            wrong.append(f"rank {rank}'s error does not name rank {victim} and the operation")
        if "(host " not in text:
            wrong.append(f"rank {rank}'s error does not name the host")
        if not end.get("took", 0) < DEADLINE + MARGIN:
            wrong.append(f"rank {rank} was told after {end['took']:.1f} s")
        if end.get("readable") is not True:
            wrong.append(f"rank {rank}'s arrays: {end.get('readable')}")
    return [f"{kind} {seed}: {each}\n{output}" for each in wrong], tally


def runs(kinds: list[str]) -> None:
    """Some runs at a time; all must be without fault."""
    wrong: list[str] = []
    tally: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    numbers = collections.Counter(kinds)
    with ThreadPoolExecutor(4 if DEEP else 3) as pool:
        for kind, (found, told) in zip(kinds, pool.map(faults, kinds, range(len(kinds)))):
            wrong += found
            tally[kind] += told
    for kind, told in tally.items():
        print(f"{kind}: {numbers[kind]} runs, survivors told {dict(told)}")
    assert not wrong, f"{len(wrong)} faults in {len(kinds)} runs\n" + "\n".join(wrong[:5])


@pytest.mark.skipif(MPIEXEC is None, reason="no mpiexec: pip install mpich mpi4py")
@pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="needs mpi4py")
def test_a_process_that_stops_sleeps_errs_or_fails_is_named() -> None:
    kinds = ["stop", "sleep", "extra", "raise", "shape"]
    runs([kinds[number % len(kinds)] for number in range(100 if DEEP else 5)])


@pytest.mark.skipif(not OMPI, reason="DISTARRAY_OMPI_PYTHON names no Python with mpi4py over Open MPI (with ULFM)")
def test_a_killed_process_is_named() -> None:
    runs(["kill"] * (25 if DEEP else 3))
