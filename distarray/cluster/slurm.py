"""Slurm's ``srun``. A batch script and a shell of ``salloc`` also have SLURM_* variables, and are no launched step."""

from __future__ import annotations

import re

from distarray.cluster.base import Launcher, derived_port
from distarray.errors import RendezvousError

__all__ = ["Slurm", "first_host"]

#: Step numbers from here on are Slurm's own: the batch script, an interactive shell, the external step (slurm.h).
_RESERVED_STEPS = 0xFFFFFFF0


class Slurm(Launcher):
    """SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID and SLURM_STEP_NODELIST of a step that ``srun`` started.

    The sign is SLURM_STEP_ID with an ordinary number. In a batch script it is not set, though SLURM_PROCID is 0 and
    SLURM_NTASKS counts the job's tasks; in an ``salloc`` shell it is not set, or is a reserved number where the site runs
    such shells as a step. For the same reason the size is the step's, never the job's SLURM_NTASKS.

    Rank 0 is on the first node of the step; the port comes from the numbers of job and step, above Linux's range of
    ephemeral ports, so that all ranks compute the same and two steps seldom do.
    """

    name = "slurm"
    needs = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_NODELIST", "SLURM_JOB_ID")

    def is_present(self) -> bool:
        step = self.environ.get("SLURM_STEP_ID") or self.environ.get("SLURM_STEPID") or ""
        if not step.isdecimal() or int(step) >= _RESERVED_STEPS:
            return False
        inner = self.environ.get("PMI_RANK"), self.environ.get("PMI_SIZE")
        ours = self.environ.get("SLURM_PROCID"), self.environ.get("SLURM_STEP_NUM_TASKS")
        return inner in (ours, (None, None))  # others: MPICH's mpiexec inside the step

    def rank(self) -> int:
        return self.integer("SLURM_PROCID")

    def size(self) -> int:
        return self.integer("SLURM_STEP_NUM_TASKS", 1)

    def local_rank(self) -> int | None:
        return self.integer("SLURM_LOCALID")

    def address(self) -> tuple[str | None, int | None]:
        step = self.first_of("SLURM_STEP_ID", "SLURM_STEPID") or 0
        return first_host(self.environ["SLURM_STEP_NODELIST"]), derived_port(self.integer("SLURM_JOB_ID") * 31 + step)


def first_host(nodes: str) -> str:
    """The first host of Slurm's compressed list: "gpu[008-011,20],cpu1" gives "gpu008", "r[1-2]n[01-16]" gives "r1n01".

    Raises
    ------
    RendezvousError
        For what is no such list.
    """
    host = ""
    rest = nodes.strip()
    while rest and not rest.startswith(","):
        part = re.match(r"\[(\d+)(?:-\d+)?(?:,\d+(?:-\d+)?)*\]|[^\[\],\s]+", rest)
        if part is None:
            break
        host += part[1] or part[0]
        rest = rest[part.end() :]
    if not host or (rest and not rest.startswith(",")):
        raise RendezvousError(
            f"SLURM_STEP_NODELIST={nodes!r} is no list of nodes such as 'node[001-004],login1'; "
            "set DISTARRAY_HOST to the host of rank 0"
        )
    return host
