"""How the processes of a program were launched: found in the environment, in the order that base.py explains."""

from __future__ import annotations

import os
from collections.abc import Mapping

from distarray.cluster.base import MPI_LAUNCHERS, Launch, Launcher, local_device, why_apart
from distarray.cluster.explicit import Explicit, explicit
from distarray.cluster.openmpi import OpenMPI
from distarray.cluster.pmi import PMI
from distarray.cluster.slurm import Slurm
from distarray.cluster.torchrun import Torchrun
from distarray.errors import RendezvousError

__all__ = [
    "LAUNCHERS", "MPI_LAUNCHERS", "Launch", "Launcher", "detect", "explicit", "local_device", "why_apart",
]  # fmt: skip

LAUNCHERS: tuple[type[Launcher], ...] = (Explicit, Torchrun, OpenMPI, Slurm, PMI)


def detect(environ: Mapping[str, str] | None = None) -> Launch:
    """How this process was launched.

    Parameters
    ----------
    environ : mapping, optional
        The environment to read; this process's by default.

    Returns
    -------
    Launch
        Of the first launcher in `LAUNCHERS` that is complete; launcher "none", rank 0 of 1, where there is none.

    Raises
    ------
    RendezvousError
        When a launcher is there only in part and none is whole, with all that was tried and what each misses; when a
        variable holds no number or the rank does not fit the size.
    """
    environ = os.environ if environ is None else environ
    found = [launcher(environ) for launcher in LAUNCHERS]
    present = [one for one in found if one.is_present()]
    for one in present:
        if not one.missing():
            return one.launch()
    if present:
        tried = "; ".join(f"{one.name}: {_state(one, one in present)}" for one in found)
        raise RendezvousError(
            f"this process was launched by {present[0].name}, as it seems, but {', '.join(present[0].missing())} is not "
            f"set; tried, in order: {tried}; set what is missing, or DISTARRAY_RANK and DISTARRAY_SIZE, or unset "
            "the rest to run as one process"
        )
    return Launch("none", 0, 1, 0, environ.get("DISTARRAY_HOST") or None, None)


def _state(launcher: Launcher, present: bool) -> str:
    return f"{'in part' if present else 'absent'}, without {', '.join(launcher.missing()) or 'a step of its own'}"
