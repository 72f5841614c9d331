"""Threads that run the devices of one process side by side, and the BLAS thread count that goes with them.

Handing work to a thread costs tens of microseconds, so small work runs inline. The calling thread takes part in large
work: nothing waits for a thread to wake up that has nothing left to do, and a call from inside a worker cannot
deadlock.
"""

from __future__ import annotations

import contextvars
import itertools
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from queue import SimpleQueue
from typing import Any

from distarray.errors import ForkError

__all__ = ["INLINE_BYTES", "Process", "Workers", "cpu_count", "cpu_set", "in_turn"]

INLINE_BYTES = 1 << 20
"""Work on fewer bytes in all runs in the calling thread: a core streams a MiB in about what a handover costs."""

_NO_LIMIT: AbstractContextManager[None] = nullcontext()

Task = Callable[[], object]


class Process:
    """Which process this is, known without a call of the system: a forked child learns it before its program goes on."""

    id = os.getpid()

    @classmethod
    def renew(cls) -> None:
        cls.id = os.getpid()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=Process.renew)


def in_turn(tasks: Iterable[Task]) -> None:
    """Run the tasks of one device in their order."""
    for task in tasks:
        task()


def cpu_count() -> int:
    """The cores that this process may run on."""
    try:
        return len(os.sched_getaffinity(0)) or 1
    except (AttributeError, OSError):
        return os.cpu_count() or 1


def cpu_set() -> str:
    """The cores that this process may run on, by name: launchers may give processes of one host their own."""
    try:
        return ",".join(map(str, sorted(os.sched_getaffinity(0))))
    except (AttributeError, OSError):
        return "all"


class _Job:
    """One call of ``run``: its tasks, which threads claim in order, and how many threads are at work on them."""

    __slots__ = ("active", "claim", "closed", "count", "errors", "idle", "lock", "tasks")

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.tasks: Sequence[Task] = tasks
        self.count = len(tasks)
        self.claim = itertools.count().__next__  # one C call: two threads never claim the same index
        self.errors: list[tuple[int, BaseException]] = []
        self.lock = threading.Lock()
        self.active = 0  # helpers inside; the caller does not count itself
        self.closed = False
        self.idle: SimpleQueue[None] = SimpleQueue()

    def work(self) -> None:
        while not self.errors and (index := self.claim()) < self.count:
            try:
                self.tasks[index]()
            except BaseException as error:
                self.errors.append((index, error))

    def help(self) -> None:
        with self.lock:
            if self.closed:
                return
            self.active += 1
        try:
            self.work()
        finally:
            with self.lock:
                self.active -= 1
                if self.closed and not self.active:
                    self.idle.put(None)

    def close(self) -> None:
        """Returns when no helper is inside and none can enter, also where the wait is interrupted."""
        while True:
            try:
                with self.lock:
                    self.closed = True
                while self.active:
                    self.idle.get()
                self.tasks = ()  # a helper that wakes up late must not keep buffers alive
                return
            except BaseException as error:
                self.errors.append((-1, error))


def _serve(queue: SimpleQueue[tuple[contextvars.Context, _Job] | None], local: threading.local) -> None:
    local.inside = True
    while (item := queue.get()) is not None:
        context, job = item
        context.run(job.help)
        del item, context, job  # not held while waiting for the next


def _stop(queue: SimpleQueue[Any], threads: list[threading.Thread]) -> None:
    for _ in threads:
        queue.put(None)


class Workers:
    """The threads of one context, started when first needed.

    Parameters
    ----------
    cores : int, optional
        The most threads that run at once, the caller's included; the cores that this process may use by default.
    inline_bytes : int, optional
        Work on fewer bytes in all runs in the calling thread.
    sharers : int
        How many devices, those of other processes of the host too, share these cores.
    asynchronous : bool
        Tasks queue work on devices, and return: one thread queues it all sooner than several that wait for each other's
        turn in Python. Tasks that call BLAS, which on devices wait for results, are spread all the same.
    """

    def __init__(
        self, cores: int | None = None, inline_bytes: int = INLINE_BYTES, sharers: int = 1, asynchronous: bool = False
    ) -> None:
        self.cores = cpu_count() if cores is None else cores
        self.sharers = sharers
        self.asynchronous = asynchronous
        self.inline_bytes = inline_bytes
        self._pid = Process.id
        self._lock = threading.Lock()
        self._local = threading.local()
        self._queue: SimpleQueue[tuple[contextvars.Context, _Job] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._closed = False
        # Threads hold no reference to this object: they end when it is collected. Never waited for at exit.
        self._finalizer = weakref.finalize(self, _stop, self._queue, self._threads)
        self._finalizer.atexit = False

    def threads_for(self, tasks: int, nbytes: int) -> int:
        """How many threads ``run`` would use, the caller's included; 1 is inline."""
        if tasks < 2 or nbytes < self.inline_bytes or self._closed or getattr(self._local, "inside", False):
            return 1
        return min(tasks, self.cores)

    def run(self, tasks: Sequence[Task], nbytes: int, *, blas: bool = False) -> None:
        """Runs `tasks`, which touch `nbytes` in all, and returns when all have ended.

        Tasks see the caller's context variables, NumPy's errstate included. They start in order; where one fails, those
        not yet started are left out, those running are waited for, and the error of the first in order is raised.

        Parameters
        ----------
        blas : bool
            Whether tasks call BLAS: its own threads are then limited to a device's share of the host's cores, inline too.
            BLAS rounds differently with other numbers of threads, and so the bits of a product are a matter of the layout
            alone, not of how many processes have the devices.

        Raises
        ------
        ForkError
            In a forked child: the threads live in its parent.
        """
        if Process.id != self._pid:
            raise ForkError(
                f"this context belongs to process {self._pid}, whose threads and devices process {Process.id}, "
                "forked from it, does not have; create a new context in the child with da.init()"
            )
        threads = 1 if self.asynchronous and not blas else self.threads_for(len(tasks), nbytes)
        with self.limit_blas(max(threads, self.sharers)) if blas else _NO_LIMIT:
            if threads == 1:
                for task in tasks:
                    task()
            else:
                self._spread(tasks, threads)

    def _spread(self, tasks: Sequence[Task], threads: int) -> None:
        job = _Job(tasks)
        self._local.inside = True
        try:
            for _ in range(self._start(threads - 1)):
                self._queue.put((contextvars.copy_context(), job))
            job.work()
        except BaseException as error:  # an interrupt between two tasks
            job.errors.append((-1, error))
        finally:
            job.close()  # first: an interrupt between the tasks and this would leave helpers at work
            self._local.inside = False
        if job.errors:
            failure = min(job.errors, key=lambda item: item[0])[1]
            job.errors.clear()
            try:
                raise failure
            finally:
                del failure  # the traceback holds this frame: without this they would keep each other alive

    def _start(self, count: int) -> int:
        """Starts threads until `count` run, and returns how many do."""
        if len(self._threads) < count:
            with self._lock:
                while len(self._threads) < count and not self._closed:
                    thread = threading.Thread(
                        target=_serve,
                        args=(self._queue, self._local),
                        name=f"distarray-worker-{len(self._threads)}",
                        daemon=True,
                    )
                    try:
                        thread.start()
                    except RuntimeError:  # the system gives no more threads, or the interpreter is going down
                        break
                    self._threads.append(thread)
        return min(count, len(self._threads))

    def limit_blas(self, threads: int | None = None) -> AbstractContextManager[None]:
        """Inside the block BLAS calls use at most ``max(1, cores // threads)`` threads each.

        `threads` is how many threads call BLAS side by side, by default all cores; 1 is inline and changes nothing.
        The setting is the process's, and so are its nesting and its restoring: see ``_BlasThreads``.
        """
        threads = self.cores if threads is None else threads
        if threads < 2 or getattr(self._local, "inside", False):
            return _NO_LIMIT
        return _BLAS.limit(max(1, self.cores // threads))

    def shutdown(self) -> None:
        """Ends the threads and waits for them. Later calls of ``run`` are inline."""
        with self._lock:
            self._closed = True
            threads, self._threads[:] = list(self._threads), []
        if Process.id == self._pid:
            _stop(self._queue, threads)
            for thread in threads:
                if thread is not threading.current_thread():
                    thread.join()


_WITH_BLAS = ("scipy.linalg",)
"""Modules that bring a BLAS of their own, and that this package imports when it needs them."""


class _BlasThreads:
    """The thread count of the loaded BLAS libraries: lowered by the first block that enters, restored by the last out.

    The count is one setting of the whole process. Blocks of several contexts that each put back what they found would
    put back each other's limit.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._libraries: list[Any] = []
        self._modules = -1
        self._found: list[int] = []
        self._limits: list[int] = []

    def _apply(self) -> None:
        for library, found in zip(self._libraries, self._found):
            library.set_num_threads(min([found, *self._limits]))

    def _list(self) -> None:
        """Find the libraries; again where a module that brings one of its own has been imported."""
        modules = sum(name in sys.modules for name in _WITH_BLAS)
        if modules != self._modules:
            from threadpoolctl import ThreadpoolController

            self._libraries = list(ThreadpoolController().select(user_api="blas").lib_controllers)
            self._modules = modules

    @contextmanager
    def limit(self, count: int) -> Iterator[None]:
        with self._lock:
            if not self._limits:
                self._list()
                self._found = [library.num_threads for library in self._libraries]
            self._limits.append(count)
            self._apply()
        try:
            yield
        finally:
            with self._lock:
                self._limits.remove(count)
                self._apply()


_BLAS = _BlasThreads()  # the one piece of module-level state here: it mirrors state that the process has only once
