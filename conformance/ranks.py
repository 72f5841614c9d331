"""Programs on simulated processes: every rank runs the same function on the same host data, and must find what NumPy
finds. The ranks are threads of this process, so that hypothesis can shrink what fails; under ``--mpi``, its processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import distarray as da
from conformance import mpi
from distarray.context import join
from distarray.testing import run_ranks

SHARES = mpi.shares_to_draw() or [(1, 1), (2, 1), (1, 1, 1), (1, 2, 1), (2, 2)]
"""How many devices each process owns."""


def on_ranks(
    shares: Sequence[int], program: Callable[[], Any], *, deadline: float = 20.0, minimum_chunk: int = 1
) -> list[Any]:
    """Run ``program()`` on ``len(shares)`` processes, each in a context of its own with its share of the devices.

    Returns what each rank returned. A rank's exception is raised here.
    """

    session = mpi.session()
    if session is not None:
        with da.current.scoped(session.context(shares, minimum_chunk)):
            return session.gather(program())

    def rank_program(communicator: Any) -> Any:
        with da.current.scoped(join(communicator, shares[communicator.rank], minimum_chunk=minimum_chunk)):
            return program()

    return run_ranks(len(shares), rank_program, deadline=deadline)
