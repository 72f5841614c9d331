"""What each process of a chaos run runs: ``chaos_program.py kind seed deadline``.

All processes make the same random operations on two arrays, beside NumPy models, and check every result. At one of them
one process, the victim, is stopped or killed, sleeps past the deadline, runs other code, or fails inside the operation.
The others, and the victim where it lives, end by themselves: they write what they were told and how long it took, check
that their chunks are those of their last finished operation, and exit.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

import distarray as da

STEPS = 12
ROWS, COLUMNS = 12, 40


class Run:
    """The program's state: the arrays, their models, and what is about to happen."""

    def __init__(self, kind: str, seed: int, deadline: float) -> None:
        self.kind, self.deadline = kind, deadline
        self.rng = random.Random(f"{kind} {seed}")  # the same in every process
        self.rank, self.size = da.process_index(), da.process_count()
        self.victim = self.rng.randrange(self.size)
        self.at = self.rng.randrange(1, STEPS)
        self.delay = self.rng.choice([0.0, 0.0, 1e-4, 1e-3, 3e-3])
        self.a = np.random.default_rng(seed).integers(0, 50, (ROWS, COLUMNS)).astype(np.float64)
        self.x = da.asarray(self.a, layout=da.blocks(0))
        self.a_done, self.x_done = self.a.copy(), self.x
        self.doing = "?"
        self.struck = False

    def operations(self) -> list[tuple[str, Callable[[Any, Any], Any]]]:
        """Names and functions of (array, library): each gives a new array, or a value, for both alike."""
        shift = 1 if self.kind == "shape" else self.rng.randint(1, 3)
        return [
            ("assign", lambda x, lag=0: _assigned(x, shift + lag)),
            ("stencil", lambda x, lag=0: np.concatenate([x[shift:] + x[:-shift], x[:shift]])),
            ("transpose", lambda x, lag=0: _moved(x.T).T + 1),
            ("roll", lambda x, lag=0: np.roll(x, shift, axis=0) * 1),
            ("maximum", lambda x, lag=0: x - np.sum(x, axis=0).max() % 7),
            ("mask", lambda x, lag=0: x + float(np.sum(x[x > 20]) > 0)),
            ("value", lambda x, lag=0: x + float(x[shift, 0]) % 3 + int(np.asarray(x[:, 0]).sum() > 10)),
        ]

    def strike(self) -> None:
        """What befalls the victim, before its operation or in the middle of it."""
        self.struck = True
        if self.kind in ("stop", "kill"):
            number = signal.SIGSTOP if self.kind == "stop" else signal.SIGKILL
            if self.delay:
                threading.Timer(self.delay, os.kill, (os.getpid(), number)).start()
            else:
                os.kill(os.getpid(), number)
        elif self.kind == "sleep":
            time.sleep(self.deadline + 1.0)
        elif self.kind == "extra":
            np.asarray(self.x)
        elif self.kind == "raise":
            device = self.x._context.local_devices[0]

            def empty(*_: Any, **__: Any) -> Any:
                raise MemoryError("the victim has no memory")

            device.empty = empty  # type: ignore[method-assign]

    def step(self, number: int) -> None:
        among = self.operations()
        if self.kind == "shape" and number == self.at:
            among = among[:1]  # where another extent is another message
        name, function = self.rng.choice(among)
        self.doing = f"{number} {name}"
        lag = 0
        if self.rank == self.victim and number == self.at:
            if self.kind == "shape":
                lag = 2
                self.struck = True
            else:
                self.strike()
        new = function(self.x, lag=lag).reshard(da.blocks(0))  # so that each operation has something to move
        a = function(self.a)
        if not lag:
            check(new, a, self.doing)
        self.x, self.a = new, a
        self.x_done, self.a_done = new, a.copy()

    def lost_shape(self) -> bool:
        return self.kind == "shape" and self.rank == self.victim and self.struck


def _assigned(x: Any, lag: int) -> Any:
    new = x.copy()
    new[lag:] = x[:-lag]
    return new


def _moved(x: Any) -> Any:
    return x.reshard(da.blocks(0)) if isinstance(x, da.DistributedArray) else x


def check(x: Any, a: np.ndarray, doing: str) -> None:
    """The chunks of this process have the model's values."""
    held = x.index_map
    for device, chunks in x.all_chunks().items():
        for region, chunk in zip(held[device], chunks, strict=True):
            assert np.array_equal(chunk, a[region]), f"wrong result of {doing} in {region}"


def say(**what: Any) -> None:
    """One write: lines of several processes do not mix."""
    os.write(1, ("CHAOS " + json.dumps(what) + "\n").encode())


def main() -> int:
    kind, seed, deadline = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    run = Run(kind, seed, deadline)
    say(about="start", rank=run.rank, victim=run.victim, at=run.at, pid=os.getpid())
    start = time.monotonic()
    said: dict[str, Any] = {"about": "end", "rank": run.rank, "victim": run.victim}
    code = 0
    try:
        for number in range(STEPS + 1):
            start = time.monotonic()
            run.step(number)
            if number % 4 == 0:
                start = time.monotonic()
                value = np.asarray(run.x)
                if not run.lost_shape():
                    assert np.array_equal(value, run.a), f"wrong result of {run.doing}"
    except AssertionError as error:
        if not run.lost_shape():
            say(**said, error="WRONG", text=str(error)[:500])
            return 1
        say(**said, error="victim", text=str(error)[:200])
        return 1
    except Exception as error:
        took = time.monotonic() - start
        said |= {"error": type(error).__name__, "text": str(error)[:3000], "took": took, "doing": run.doing}
        frames = traceback.extract_tb(error.__traceback__)[-6:]
        said["where"] = [f"{frame.filename.rpartition('distarray/')[2]}:{frame.lineno}" for frame in frames]
        code = 2
    if code:
        try:
            if not run.lost_shape():
                check(run.x_done, run.a_done, "the last finished operation")
            said["readable"] = True
        except Exception as error:
            said["readable"] = f"{type(error).__name__}: {error}"[:300]
    say(**said)
    return code


if __name__ == "__main__":
    sys.exit(main())
