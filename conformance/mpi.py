"""The suite under a real mpiexec (``mpiexec -n 3 python -m pytest conformance --mpi``): one pytest session a rank. With
``--kind=cuda`` each rank has the GPU of its local rank, as one or several devices, and NCCL carries the data.

Every rank runs the same tests and draws the same examples, as the profile is derandomized. What could set the ranks'
hypothesis engines apart is agreed between them: the verdict of each example, so that all fail alike and shrink alike; the
choices drawn, compared after each example; and, once a test has failed, every single draw, as a rank that fails draws no
more while the others still do. (Such a test starts again from its first example with the draws agreed.) What decides by
the clock in hypothesis's engine is switched off. The verdicts travel on an MPI communicator of their own, by plain
mpi4py, never through the communicators under test.
"""

from __future__ import annotations

import functools
import os
import pickle
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from itertools import chain, cycle, islice, repeat
from types import SimpleNamespace
from typing import Any, NamedTuple, NoReturn

import pytest

SINGLE_PROCESS = {
    "test_survivors_go_on_in_a_context_of_their_own": "a rank ends early",
    "test_two_threads_share_an_array": "threads come to communicating operations in an order that processes cannot share",
    "test_12_no_numpy_function_gathers_in_silence": "it calls NumPy's functions in the order of a set, another in each process",
    "test_memory_limits_refuse_before_anything_is_written": "a process without memory is a failure that ends its group",
    "test_a_failure_of_one_rank_reaches_the_others": "it leaves its ranks without a communicator; tests/processes/test_chaos.py "
    "has failures under MPI",
    "test_kernels_are_used_and_one_pass_serves_a_chain": "it counts the kernels of all devices",
    "test_compiled_sequences_are_those_of_numpy_calls": "its devices are those of one process",
    "test_sequences_are_compiled": "it looks for the kernels of all devices",
    "test_sorts_part_their_elements_by_kernels": "it looks for the kernels of all devices",
    "test_sums_of_short_rows_have_numpys_bits": "it waits for the warning of a device that is another process's",
    "test_a_loop_is_planned_once": "it counts the kernels of all devices",
    "test_conditions_are_told_as_of_old": "it counts the warnings of all devices",
    "test_a_limit_of_memory_is_kept": "it counts the kernels of all devices",
    "test_what_is_folded_is_not_stored_and_what_comes_again_is": "expressions are folded unstored in one process only",
}  # fmt: skip
"""Tests that only one process can run, each with the reason."""


class Restart(BaseException):
    """A test has failed: it starts again, and now the ranks meet at every draw."""


class PeerFailed(BaseException):
    """Another rank has failed where this one met it: this rank goes to the verdict."""


class Verdict(NamedTuple):
    """What a rank found in an example: passed, control (hypothesis's own exceptions, skips) or failed."""

    kind: str
    place: str
    choices: str = ""
    exception: str = ""
    line: str = ""
    text: str = ""
    secondary: int = 0  # 1: an error of communication, which another's may have caused; 2: told by another


class Session:
    """This process's part in a session under MPI."""

    def __init__(self, deadline: float, kind: str) -> None:
        from distarray.comm.mpi.exit import load_mpi

        self._mpi = load_mpi()
        self._kind = kind
        self._ordinals: tuple[int, ...] | None = None
        self._verdicts = self._mpi.COMM_WORLD.Dup()
        self.rank, self.size = int(self._verdicts.Get_rank()), int(self._verdicts.Get_size())
        self.deadline = deadline
        self._control: Any = None
        self.communicator: Any = self._formed()
        self.careful = False
        self._inside = False
        self._turn = 0
        self._examples = 0
        self._contexts: dict[tuple[tuple[int, ...], int], Any] = {}
        self._failures: dict[tuple[str, str], type[AssertionError]] = {}

    # contexts

    def shares(self, n: int) -> tuple[int, ...]:
        """How many of n devices each rank owns: at least one, unevenly where there are more devices than ranks."""
        extra = islice(cycle(chain([1 % self.size], range(1, self.size), [0])), max(n - self.size, 0))
        found = [1] * self.size
        for rank in extra:
            found[rank] += 1
        return tuple(found)

    def context(self, shares: Sequence[int], least: int = 1) -> Any:
        """The context in which each rank owns so many devices, and arrays are cut into parts of at least so many elements.

        All contexts share one communicator.
        """
        from distarray.context import join

        key = tuple(shares), least
        if key not in self._contexts:
            self._contexts[key] = join(
                self.communicator, shares[self.rank], self._kind, ordinals=self._ordinals, minimum_chunk=least
            )
        return self._contexts[key]

    def _formed(self) -> Any:
        """A new communicator for the contexts: MPI itself, or NCCL with MPI beside it."""
        from distarray.comm.mpi.communicator import MpiCommunicator

        self._control = MpiCommunicator(self._verdicts, self.deadline)
        if self._kind == "host":
            return self._control
        from distarray.cluster import detect, local_device
        from distarray.comm.nccl.communicator import NcclCommunicator
        from distarray.devices import gpu_count

        self._ordinals = (local_device(detect(), gpu_count()),)
        return NcclCommunicator(self._control, self._ordinals[0], self.deadline)

    # meeting the others

    def meet(self, kind: str, content: Any = None) -> list[tuple[str, Any]]:
        """What every rank has to say at this point, in rank order.

        Every pair exchanges a message: with them, all that was sent before them has arrived too.
        """
        self._turn += 1
        tag = self._turn % 32000
        data = pickle.dumps((kind, content))
        mpi, comm, status = self._mpi, self._verdicts, self._mpi.Status()
        waiting = {peer for peer in range(self.size) if peer != self.rank}
        sends = [comm.Isend([data, mpi.BYTE], peer, tag) for peer in sorted(waiting)]
        said: dict[int, tuple[str, Any]] = {self.rank: (kind, content)}
        start = time.monotonic()
        while waiting or not all(request.Test() for request in sends):
            for peer in sorted(waiting):
                if comm.Iprobe(peer, tag, status):
                    buffer = bytearray(status.Get_count(mpi.BYTE))
                    comm.Recv([buffer, mpi.BYTE], peer, tag)
                    said[peer] = pickle.loads(buffer)
                    waiting.discard(peer)
            spent = time.monotonic() - start
            if spent > 2 * self.deadline + 10:
                self.die(f"ranks {sorted(waiting)} did not come to '{kind}' within {spent:.0f} s")
            if waiting:
                time.sleep(min(max(spent / 4, 20e-6), 1e-3))
        return [said[rank] for rank in range(self.size)]

    def gather(self, value: Any) -> list[Any]:
        """A value of every rank, inside a test."""
        said = self.meet("data", value)
        self._stop_where_others_failed(said, "data")
        return [content for _, content in said]

    def check_in(self) -> None:
        """Before a draw of a test that has failed before: if a rank has failed since, this one draws no more either."""
        if self.careful and self._inside:
            self._stop_where_others_failed(self.meet("draw"), "draw")

    def _stop_where_others_failed(self, said: list[tuple[str, Any]], mine: str) -> None:
        kinds = [kind for kind, _ in said]
        if "failed" in kinds:
            raise PeerFailed
        if set(kinds) != {mine}:
            self.die(f"the ranks are at different points of the same example: {kinds}")

    def die(self, text: str) -> NoReturn:
        """The ranks' sessions have come apart, which nothing mends: end this one, with the reason."""
        sys.__stderr__.write(f"rank {self.rank}, in {os.environ.get('PYTEST_CURRENT_TEST', 'no test')}: {text}\n")
        sys.__stderr__.flush()
        os._exit(70)

    # verdicts

    def agreed(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a test, once; it fails here if it fails on any rank, on all of them with one exception from one line."""
        self._examples += 1
        place = f"{name} #{self._examples}"
        error: BaseException | None = None
        self._inside = True
        try:
            with self._telling():
                function(*args, **kwargs)
                self._end_of_example()
        except BaseException as caught:
            error = caught
        finally:
            self._inside = False
        mine = self._verdict(place, error)
        found = self._agree(mine)
        failed = [(v.secondary, rank, v) for rank, v in enumerate(found) if v.kind == "failed"]
        if failed:
            self._renew()
            if not self.careful and _choices():
                raise Restart
            _, rank, verdict = min(failed)
            raise self._failure(rank, verdict, [r for _, r, _ in failed]) from None
        if len(set(found)) > 1:
            self.die("the ranks differ in an example that did not fail:\n" + "\n".join(map(str, found)))
        if error is not None:
            raise error
        return None

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            if not isinstance(error, (PeerFailed, *_control())):
                self.communicator.report(error)
            raise

    def _end_of_example(self) -> None:
        """A rank that still waits inside the example finds here, soon, that this one has passed it."""
        from distarray.comm.base import Signature

        self.communicator.barrier(Signature("the end of the example"))

    def _verdict(self, place: str, error: BaseException | None) -> Verdict:
        if error is None or isinstance(error, _control()):
            kind = "passed" if error is None else f"control {type(error).__name__}"
            return Verdict(kind, place, blake2b(repr(_choices()).encode(), digest_size=8).hexdigest())
        from distarray.errors import CommunicationError

        last = traceback.extract_tb(error.__traceback__)[-1]
        text = "".join(traceback.format_exception(error))
        secondary = 2 if isinstance(error, PeerFailed) else int(isinstance(error, CommunicationError))
        return Verdict("failed", place, "", type(error).__name__, f"{last.filename}:{last.lineno}", text, secondary)

    def _agree(self, mine: Verdict) -> list[Verdict]:
        while True:
            said = self.meet(mine.kind, mine)
            elsewhere = [rank for rank, (_, content) in enumerate(said) if not isinstance(content, Verdict)]
            if not elsewhere:
                found = [content for _, content in said]
                if len({v.place for v in found}) > 1:
                    self.die(f"the ranks are at different examples: {[v.place for v in found]}")
                return found
            if mine.kind != "failed" and not any(kind == "failed" for kind, _ in said):
                self.die(f"ranks {elsewhere} are still inside the example that rank {self.rank} has passed")

    def _failure(self, rank: int, verdict: Verdict, failed: list[int]) -> AssertionError:
        """The exception that stands for a rank's. Each error has a type of its own, so that hypothesis tells them apart;
        errors of communication have one: which rank finds what, and where, is a matter of time."""
        key = ("CommunicationError", "") if verdict.secondary else (verdict.exception, verdict.line)
        if key not in self._failures:
            self._failures[key] = type(key[0], (AssertionError,), {"__module__": __name__})
        return self._failures[key](f"rank {rank} failed (of ranks {failed}):\n{verdict.text}")

    # after a failure

    def _renew(self) -> None:
        """New communicators for the contexts: the ranks have made different numbers of calls."""
        from distarray.comm.mpi.exit import forget

        old = self._control
        if self._kind != "host":
            self.communicator.abort("an example failed")
        if self._drained(old):
            self.meet("drained")
            self._drained(old)
            old._comm.Free()
        else:
            self.meet("drained")
        forget(old)
        self.communicator = self._formed()
        for context in self._contexts.values():
            context.communicator = self.communicator

    def _drained(self, old: Any) -> bool:
        """Take what is still under way on a communicator that all ranks have given up; whether nothing is left."""
        from distarray.comm.mpi.exit import GRAVEYARD

        mpi, status = self._mpi, self._mpi.Status()
        left = [item for item in GRAVEYARD if getattr(item, "receiving", None) is not None]
        for item in left:
            if item.receiving and not item.done:
                item.request.Cancel()
        due = time.monotonic() + 1
        while True:
            while old._comm.Iprobe(mpi.ANY_SOURCE, mpi.ANY_TAG, status):
                buffer = bytearray(status.Get_count(mpi.BYTE))
                old._comm.Recv([buffer, mpi.BYTE], status.Get_source(), status.Get_tag())
            left = [item for item in left if not item.request.Test()]
            settled = old._control.settle()
            if not left and settled:
                GRAVEYARD[:] = [item for item in GRAVEYARD if getattr(item, "receiving", None) is None]
                return True
            if time.monotonic() > due:
                return False
            time.sleep(1e-4)


def _control() -> tuple[type[BaseException], ...]:
    """Exceptions that end an example without a verdict on it."""
    from hypothesis.errors import StopTest, UnsatisfiedAssumption

    return StopTest, UnsatisfiedAssumption, pytest.skip.Exception


def _choices() -> Any:
    """What hypothesis has drawn in this example; None in a plain test."""
    from hypothesis.control import _current_build_context

    build = _current_build_context.value
    return None if build is None else build.data.choices


# the session of this process, and how tests are brought into it

_SESSION: list[Session] = []


def session() -> Session | None:
    """This process's session under MPI; None where the suite runs in one process."""
    return _SESSION[0] if _SESSION else None


def start(kind: str) -> Session:
    """Begin the session: called by every rank, before tests are collected."""
    from hypothesis.internal.conjecture import data, engine

    found = Session(float(os.environ.get("DISTARRAY_TIMEOUT", "20")), kind)
    _SESSION.append(found)
    engine.time = SimpleNamespace(perf_counter=lambda: 0.0, monotonic=lambda: 0.0)  # nothing is decided by the clock
    for name in ("draw", "_draw"):
        setattr(data.ConjectureData, name, _checking_in(getattr(data.ConjectureData, name), found))
    _bring_state_machines(found)
    return found


def _checking_in(draw: Callable[..., Any], session: Session) -> Callable[..., Any]:
    @functools.wraps(draw)
    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        session.check_in()
        return draw(self, *args, **kwargs)

    return checked


def _bring_state_machines(session: Session) -> None:
    from hypothesis import stateful

    make = stateful.get_state_machine_test

    def made(machine: Any, **kwargs: Any) -> Callable[[], None]:
        test = make(machine, **kwargs)
        bring(test, machine.__name__)
        return lambda: run(test)

    stateful.get_state_machine_test = made


def bring(test: Any, name: str) -> None:
    """Have each example of a hypothesis test agreed."""
    inner = test.hypothesis.inner_test
    if getattr(inner, "is_agreed", False):
        return

    @functools.wraps(inner)
    def example(*args: Any, **kwargs: Any) -> None:
        found = session()
        assert found is not None
        found.agreed(name, inner, *args, **kwargs)

    example.is_agreed = True  # type: ignore[attr-defined]
    test.hypothesis.inner_test = example


def run(test: Callable[..., Any], **arguments: Any) -> None:
    """Run a hypothesis test; a second time, with its draws agreed, where it fails."""
    found = session()
    assert found is not None
    try:
        test(**arguments)
    except Restart:
        found.careful = True
    if not found.careful:
        return
    try:
        test(**arguments)
    finally:
        found.careful = False


def run_item(item: Any) -> None:
    """Run a test function of pytest's, as `pytest_pyfunc_call` does."""
    found = session()
    assert found is not None
    arguments = {name: item.funcargs[name] for name in item._fixtureinfo.argnames}
    if hasattr(item.obj, "hypothesis"):
        bring(item.obj, item.originalname)
        run(item.obj, **arguments)
    else:
        found.agreed(item.name, item.obj, **arguments)


def every_chunk(x: Any) -> dict[int, list[Any]]:
    """``x.all_chunks()`` with the chunks of all processes: those of the others as copies."""
    chunks: dict[int, list[Any]] = x.all_chunks()
    found = session()
    if found is not None:
        for other in found.gather(chunks):
            chunks = other | chunks
    return chunks


def shares_to_draw() -> list[tuple[int, ...]] | None:
    """How many devices each rank may own, for programs that run on all of them; None where ranks are simulated."""
    found = session()
    if found is None:
        return None
    even = tuple(repeat(1, found.size))
    return list(
        dict.fromkeys(
            [even, tuple(2 if rank == 1 % found.size else 1 for rank in range(found.size)), (2,) * found.size]
        )
    )
