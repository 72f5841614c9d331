"""What the programs of ``many_gpus.py`` share: reporting, timing in one process or several, and values that check themselves.

A value depends on its indices only through their residues modulo a prime, so that the expected result of every work is a
small table, and it is a multiple of 1/64 in a small range: sums of 32768 of them are exact in float32, in any order.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

ROWS, COLUMNS, SQUARE, SMALL = 32768, 16384, 16384, 64
PRIME = 97
ROW_STEP, COLUMN_STEP = 11, 7  # of the elements that are compared
WATCHDOG = 45.0
"""Seconds a row may take before the program says where it stands and ends."""


class Elsewhere(Exception):
    """Another process failed in this row, and says so itself."""


class Team:
    """The processes that run one program. Whatever they tell each other also says whether one of them failed, so that a
    failure on one side never leaves the other in a wait."""

    def __init__(self, comm: Any = None) -> None:
        self.comm = comm
        self.rank = 0 if comm is None else comm.Get_rank()
        self.size = 1 if comm is None else comm.Get_size()

    @classmethod
    def mpi(cls) -> Team:
        from mpi4py import MPI

        return cls(MPI.COMM_WORLD)

    def share(self, value: Any = None, failed: str = "") -> list[Any]:
        if self.comm is None:
            return [value]
        answers = self.comm.allgather((failed, value))
        lost = [text for text, _ in answers if text]
        if lost and not failed:
            raise Elsewhere(lost[0])
        return [value for _, value in answers]


class Report:
    """Prints one RESULT line for each row, from rank 0."""

    def __init__(self, column: str, team: Team) -> None:
        self.column, self.team = column, team

    def row(self, work: str, measured: Callable[[], dict[str, Any]], kind: str = "row") -> None:
        """Run one row. What it raises becomes its "n/a", and the rows after it still run."""
        faulthandler.dump_traceback_later(WATCHDOG, exit=True)
        try:
            found = measured()
            self.team.share("done")
        except Elsewhere as error:
            found = {"na": f"other process: {error}"}
        except Exception as error:
            traceback.print_exc()
            text = f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]
            found = {"na": text}
            self.team.share(failed=text)
        finally:
            faulthandler.cancel_dump_traceback_later()
            gc.collect()
        self.put(work, kind, **found)

    def put(self, work: str, kind: str = "row", **facts: Any) -> None:
        if self.team.rank == 0:
            sys.stdout.write(
                "\nRESULT " + json.dumps({"kind": kind, "column": self.column, "work": work, **facts}) + "\n"
            )
            sys.stdout.flush()


def nothing() -> None:
    """The synchronisation of what is synchronous."""


def large(
    team: Team, call: Callable[[], Any], sync: Callable[[], Any], seconds: float = 0.6, most: int = 40
) -> dict[str, float]:
    """Milliseconds of a call with its synchronisation: the median over turns of the slowest process.

    "issue" is how much of it the host took before it waited.
    """

    def once() -> tuple[float, float]:
        team.share()
        start = time.perf_counter()
        out = call()
        issued = time.perf_counter()
        sync()
        end = time.perf_counter()
        del out
        return end - start, issued - start

    sync()
    first, _ = once()
    if first < 2:
        once()
    typical = max(team.share(once()[0]))
    turns = min(max(int(seconds / typical), 3 if typical > 0.15 else 7), most)
    gc.collect()
    gc.disable()
    try:
        times = [once() for _ in range(turns)]
    finally:
        gc.enable()
    shared = team.share(times)
    whole = statistics.median(max(turn[0] for turn in each) for each in zip(*shared))
    issue = statistics.median(max(turn[1] for turn in each) for each in zip(*shared))
    return {"ms": whole * 1e3, "issue": issue * 1e3, "turns": turns}


def small(
    team: Team, call: Callable[[], Any], sync: Callable[[], Any], rounds: int = 9, depth: int = 300
) -> dict[str, float]:
    """Milliseconds a call, of up to `depth` calls issued one behind the other and waited for together; median of rounds."""
    for _ in range(3):
        call()
    sync()
    team.share()
    start = time.perf_counter()
    call()
    sync()
    typical = max(team.share(time.perf_counter() - start))
    batch = min(max(int(0.05 / typical), 3), depth)
    times = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            team.share()
            start = time.perf_counter()
            for _ in range(batch):
                call()
            sync()
            times.append((time.perf_counter() - start) / batch)
    finally:
        gc.enable()
    median = statistics.median(max(each) for each in zip(*team.share(times)))
    return {"ms": median * 1e3, "turns": batch * rounds}


# ---- values


def block(xp: Any, rows: tuple[int, int], columns: tuple[int, int], seed: int, dtype: str) -> Any:
    """The values of a part of the array of a seed, as an array of NumPy, CuPy or JAX."""
    i = xp.arange(*rows, dtype="int32")[:, None]
    j = xp.arange(*columns, dtype="int32")[None, :]
    residues = (i * 31 + j * 17 + seed * 5) % PRIME - 48
    return residues.astype(dtype) * np.dtype(dtype).type(1 / 64)


def values(seed: int) -> Callable[[Any, Any], Any]:
    """The expected elements at rows `i` and columns `j`."""
    return lambda i, j: ((i[:, None] * 31 + j[None, :] * 17 + seed * 5) % PRIME - 48) / 64


def total(first: int, second: int) -> Callable[[Any, Any], Any]:
    """Of the sum of two seeds' arrays."""
    return lambda i, j: values(first)(i, j) + values(second)(i, j)


def column_sums(rows: int, seed: int) -> Callable[[Any, Any], Any]:
    """Of the sum over `rows` rows, as one row."""
    residues = np.arange(PRIME)
    table = (((np.arange(rows)[:, None] * 31 + residues) % PRIME - 48) / 64).sum(axis=0)
    return lambda i, j: np.broadcast_to(table[(j * 17 + seed * 5) % PRIME], (len(i), len(j)))


def product(depth: int, first: int, second: int) -> Callable[[Any, Any], Any]:
    """Of the matrix product of two seeds' arrays, with a common axis of `depth`."""
    k, residues = np.arange(depth), np.arange(PRIME)
    left = ((residues[:, None] + k * 17 + first * 5) % PRIME - 48) / 64
    right = ((k[:, None] * 31 + residues + second * 5) % PRIME - 48) / 64
    table = left @ right
    return lambda i, j: table[(i * 31) % PRIME][:, (j * 17) % PRIME]


def verify(
    team: Team,
    blocks: Iterable[tuple[int, int, Any]],
    to_numpy: Callable[[Any], Any],
    expected: Callable[[Any, Any], Any],
    elements: int,
    tolerance: float = 0.0,
) -> dict[str, Any]:
    """Compare a result's blocks, each (first row, first column, 2-d array), on a grid of elements.

    Together they must have `elements` elements, copies counted. `tolerance` is relative to the largest value.
    """
    worst, scale, held = 0.0, 1e-30, 0
    for row, column, array in blocks:
        height, width = array.shape
        held += height * width
        i = row + np.arange(height)[::ROW_STEP]
        j = column + np.arange(width)[::COLUMN_STEP]
        want = expected(i, j)
        got = np.asarray(to_numpy(array[::ROW_STEP, ::COLUMN_STEP]), np.float64)
        difference = np.abs(got - want)
        worst = max(worst, float(difference.max()) if np.isfinite(got).all() else float("inf"))
        scale = max(scale, float(np.abs(want).max()))
    answers = team.share((worst, scale, held))
    worst, scale = max(a[0] for a in answers), max(a[1] for a in answers)
    there = sum(a[2] for a in answers)
    if there != elements:
        return {"ok": False, "note": f"{there} elements held, {elements} expected"}
    if worst > tolerance * scale:
        return {"ok": False, "note": f"off by {worst:.3g} where values reach {scale:.3g}"}
    return {"ok": True}


TOLERANCE = {"float32": 2e-5, "float16": 4e-3}
"""Of matrix products."""


def sizes(scale: int) -> Sequence[int]:
    """Rows, columns and the square's side, divided by `scale`."""
    return ROWS // scale, COLUMNS // scale, SQUARE // scale
