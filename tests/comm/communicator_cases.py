"""What every communicator must do, one program a case: all ranks of a group run it, simulated ones or real processes.

The cases of `Healthy` leave the communicator usable and can follow each other; each of `Failing` ends it, and asserts on
every rank what that rank must see. Nothing here imports pytest: the processes of an ``mpiexec`` run it bare.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from distarray.comm.base import Communicator, Message, Numbers, Signature
from distarray.errors import (
    CollectiveMismatchError,
    CommunicationError,
    LayoutError,
    PeerLostError,
    ReadOnlyError,
    RemoteError,
    UnsupportedError,
)

HERE = Signature("redistribute", "float32 (4, 4)", "program.py:12")


def raised(kind: type[BaseException], function: Callable[[], object], *words: str) -> str:
    """The text of the error that a call must raise, of exactly that kind, with these words in it."""
    caught: BaseException | None = None
    try:
        function()
    except kind as error:
        caught = error
    assert caught is not None, f"{kind.__name__} was not raised"
    text = str(caught)
    assert type(caught) is kind, f"{type(caught).__name__}: {text}"
    for word in words:
        assert word in text, f"no {word!r} in: {text}"
    return text


def pattern(source: int, target: int, shape: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """What `source` sends to `target`: the same wherever it is computed."""
    generator = np.random.default_rng([source, target])
    return generator.integers(0, 2 if np.dtype(dtype) == bool else 100, shape).astype(dtype)


def swap(comm: Communicator, size_of: Callable[[int, int], Any], dtype: Any = np.float64, own: bool = True) -> None:
    """Everyone sends to everyone; what arrives is checked."""
    peers = [peer for peer in range(comm.size) if own or peer != comm.rank]
    sends = [Message(peer, pattern(comm.rank, peer, size_of(comm.rank, peer), dtype)) for peer in peers]
    receives = [Message(peer, np.zeros(size_of(peer, comm.rank), dtype)) for peer in peers]
    comm.exchange(sends, receives, HERE)
    for peer, buffer in receives:
        expected = pattern(peer, comm.rank, size_of(peer, comm.rank), dtype)
        assert buffer.tobytes() == expected.tobytes(), (peer, comm.rank)


class Healthy:
    """Cases after which the communicator goes on."""

    @staticmethod
    def all_pairs(comm: Communicator) -> None:
        before = comm.sequence
        swap(comm, lambda source, target: (3, 5))
        assert comm.sequence == before + 1

    @staticmethod
    def uneven(comm: Communicator) -> None:
        swap(comm, lambda source, target: 1 + 17 * source + 5 * target)

    @staticmethod
    def empty_messages(comm: Communicator) -> None:
        swap(comm, lambda source, target: 0 if (source + target) % 2 else 7)
        swap(comm, lambda source, target: (0, 3))

    @staticmethod
    def nothing_at_all(comm: Communicator) -> None:
        for _ in range(3):
            comm.exchange([], [], HERE)

    @staticmethod
    def to_itself(comm: Communicator) -> None:
        data, into = np.arange(6), np.zeros(6, int)
        comm.exchange([Message(comm.rank, data)], [Message(comm.rank, into)], HERE)
        assert (into == data).all()

    @staticmethod
    def a_ring(comm: Communicator) -> None:
        for lap in range(20):
            into = np.empty((), np.int64)
            there, back = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
            comm.exchange([Message(there, np.array(100 * lap + comm.rank))], [Message(back, into)], HERE)
            assert into == 100 * lap + back

    @staticmethod
    def some_take_no_part(comm: Communicator) -> None:
        for lap in range(10):
            into = np.full(3, -1)
            sends = [Message(1, np.arange(3) + lap)] if comm.rank == 0 else []
            receives = [Message(0, into)] if comm.rank == 1 else []
            comm.exchange(sends, receives, HERE)
            assert comm.rank != 1 or (into == np.arange(3) + lap).all()

    @staticmethod
    def dtypes(comm: Communicator) -> None:
        for dtype in (
            "?",
            "i1",
            "u2",
            "i2",
            "u4",
            "i8",
            "f2",
            "f4",
            "f8",
            "c8",
            "c16",
            "M8[s]",
            "S5",
            ml_dtypes.bfloat16,
        ):
            swap(comm, lambda source, target: (2, 1 + source), dtype)

    @staticmethod
    def large(comm: Communicator) -> None:
        swap(comm, lambda source, target: 300_001 + source, own=False)

    @staticmethod
    def in_segments(comm: Communicator) -> None:
        if hasattr(comm, "segment"):
            kept, comm.segment = comm.segment, 1000
            swap(comm, lambda source, target: 124 + 125 * source + target)
            data = bytes(range(256)) * 20
            assert comm.all_gather(data[comm.rank :], HERE) == [data[rank:] for rank in range(comm.size)]
            comm.segment = kept
            comm.barrier(HERE)

    @staticmethod
    def in_order(comm: Communicator) -> None:
        """Many rounds of changing sizes: nothing overtakes."""
        for lap in range(60):
            swap(comm, lambda source, target, lap=lap: (lap * 37 + source) % 500, np.int32, own=False)

    @staticmethod
    def gathers(comm: Communicator) -> None:
        for length in (0, 1, 247, 248, 249, 5000):
            payload = bytes([comm.rank]) * (length * (comm.rank + 1))
            assert comm.all_gather(payload, HERE) == [
                bytes([rank]) * (length * (rank + 1)) for rank in range(comm.size)
            ]

    @staticmethod
    def numbers(comm: Communicator) -> None:
        """A few numbers of each process are told to all, between other calls and by processes that come late."""
        ranks = range(comm.size)
        kinds: list[tuple[str, Callable[[int, int], tuple[Any, ...]]]] = [
            ("d", lambda rank, lap: (rank / 3 + lap,)), ("q", lambda rank, lap: (rank - lap * 2**40,)),
            ("?", lambda rank, lap: (rank == lap,)), ("32s", lambda rank, lap: (bytes([rank, lap] * 16),)),
            ("2d", lambda rank, lap: (float(rank), -0.0)),
        ]  # fmt: skip
        for lap in range(12):
            for form, value in kinds:
                if lap == 3 and comm.rank == 0:
                    time.sleep(0.003)
                numbers = Numbers("a number", f"form {form}", form)
                told = comm.tell_numbers(numbers, value(comm.rank, lap), "program.py:12")
                assert [row[2:] for row in told] == [value(rank, lap) for rank in ranks]
            comm.barrier(HERE)
            swap(comm, lambda source, target: 3)

    @staticmethod
    def barriers(comm: Communicator) -> None:
        for _ in range(5):
            comm.barrier(HERE)
        start = time.monotonic()
        if comm.rank == 0:
            time.sleep(0.05)
        comm.barrier(HERE)
        assert comm.rank == 0 or time.monotonic() - start < 5

    @staticmethod
    def bad_arguments(comm: Communicator) -> None:
        """Refused before anything is sent, and before the call counts."""
        before, peer = comm.sequence, (comm.rank + 1) % comm.size
        square, frozen = np.zeros((4, 4)), np.zeros(4)
        frozen.flags.writeable = False
        for kind, sends, receives in (
            (LayoutError, [Message(comm.size, square)], []),
            (LayoutError, [Message(peer, square), Message(peer, square)], []),
            (LayoutError, [Message(peer, square[:, 1])], []),
            (ReadOnlyError, [], [Message(peer, frozen)]),
            (UnsupportedError, [Message(peer, [1, 2])], []),
            (UnsupportedError, [Message(peer, np.array([None]))], []),
        ):
            raised(kind, lambda s=sends, r=receives: comm.exchange(s, r, HERE))  # type: ignore[misc]
        assert comm.sequence == before
        comm.barrier(HERE)


class Failing:
    """Cases that end the communicator. The deadline is that of `comm`, a few seconds."""

    @staticmethod
    def another_call(comm: Communicator) -> None:
        """The last rank comes to a barrier where the others gather: all see it, with both calls, before the deadline."""
        start = time.monotonic()
        if comm.rank == comm.size - 1:
            text = raised(CollectiveMismatchError, lambda: comm.barrier(Signature("synchronize", site="other.py:7")))
        else:
            text = raised(CollectiveMismatchError, lambda: comm.all_gather(b"x", HERE))
        assert "other.py:7" in text and "program.py:12" in text
        assert time.monotonic() - start < comm.deadline
        raised(CollectiveMismatchError, lambda: comm.barrier(HERE))

    @staticmethod
    def another_operation(comm: Communicator) -> None:
        """Both exchange, with sizes that fit, for different operations: the data must not arrive."""
        peer = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        into = np.zeros(4)
        signature = HERE if comm.rank else Signature("sum", "float64", "other.py:7")

        def program() -> None:
            comm.exchange([Message(peer[0], np.ones(4))], [Message(peer[1], into)], signature)
            comm.barrier(HERE)

        text = raised(CollectiveMismatchError, program)
        assert "'sum'" in text and "'redistribute'" in text
        if comm.rank == 0 or peer[1] == 0:
            assert not into.any()

    @staticmethod
    def another_plan(comm: Communicator) -> None:
        """The same operation with the same sizes, for arrays of another shape: found without debug mode too."""
        peer = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        into = np.zeros(4)
        signature = HERE if comm.rank else HERE._replace(detail="plan of another shape", site="other.py:7")

        def program() -> None:
            comm.exchange([Message(peer[0], np.ones(4))], [Message(peer[1], into)], signature)
            comm.barrier(HERE)

        raised(CollectiveMismatchError, program, "plan of another shape", "'redistribute'")
        if comm.rank == 0 or peer[1] == 0:
            assert not into.any()

    @staticmethod
    def another_number(comm: Communicator) -> None:
        """Numbers of another kind, of the same length: found at that call, which has no result."""
        mine = "mean" if comm.rank else "sum"
        site = "program.py:12" if comm.rank else "other.py:7"

        def program() -> None:
            comm.tell_numbers(Numbers("a number", f"plan of a {mine}", "d"), (1.0,), site)
            raise AssertionError("it was told")

        text = raised(CollectiveMismatchError, program, "plan of a sum", "plan of a mean")
        assert "other.py:7" in text and "program.py:12" in text
        raised(CollectiveMismatchError, lambda: comm.barrier(HERE))

    @staticmethod
    def a_number_too_few(comm: Communicator) -> None:
        """The last rank has made a call more, in which it met nobody: what it tells belongs to another call."""

        def program() -> None:
            if comm.rank == comm.size - 1:
                comm.exchange([], [], HERE)
            comm.tell_numbers(Numbers("a number", "plan of a sum", "d"), (1.0,), "other.py:7")
            raise AssertionError("it was told")

        raised(CollectiveMismatchError, program, "'a number'")

    @staticmethod
    def a_number_or_an_exchange(comm: Communicator) -> None:
        """One rank exchanges where the others tell a number."""
        start = time.monotonic()

        def program() -> None:
            if comm.rank:
                comm.tell_numbers(Numbers("a number", "plan of a sum", "d"), (1.0,), "other.py:7")
            else:
                swap(comm, lambda source, target: 8, own=False)
            raise AssertionError("it was told")

        raised(CollectiveMismatchError, program, "'redistribute'", "'a number'")
        assert time.monotonic() - start < comm.deadline

    @staticmethod
    def another_size(comm: Communicator) -> None:
        def program() -> None:
            sends = [Message(1, np.ones(4))] if comm.rank == 0 else []
            receives = [Message(0, np.empty(8))] if comm.rank == 1 else []
            comm.exchange(sends, receives, HERE)
            comm.barrier(HERE)

        raised(CollectiveMismatchError, program, "32 bytes", "64", "'redistribute'")

    @staticmethod
    def more_than_expected(comm: Communicator) -> None:
        def program() -> None:
            sends = [Message(1, np.ones(400))] if comm.rank == 0 else []
            receives = [Message(0, np.empty(8))] if comm.rank == 1 else []
            comm.exchange(sends, receives, HERE)
            comm.barrier(HERE)

        raised(CollectiveMismatchError, program, "64", "'redistribute'")

    @staticmethod
    def one_call_missing(comm: Communicator) -> None:
        """Rank 0 skips a round that only concerns it and rank 1."""

        def program() -> None:
            if comm.rank:
                comm.exchange([], [Message(0, np.empty(4))] if comm.rank == 1 else [], HERE)
            comm.barrier(Signature("synchronize"))

        raised(CollectiveMismatchError, program, "'synchronize'", "'redistribute'")

    @staticmethod
    def an_exception(comm: Communicator) -> None:
        """A rank fails in local work: the others hear of it at their next call, wherever that is."""
        start = time.monotonic()
        if comm.rank == 1:
            comm.report(MemoryError("no room for 7 bytes"))
            raised(RemoteError, lambda: comm.barrier(HERE), "itself failed")
        else:
            raised(RemoteError, lambda: comm.barrier(HERE), "rank 1", "MemoryError", "no room for 7 bytes")
            raised(RemoteError, lambda: comm.exchange([], [], HERE), "rank 1")
        assert time.monotonic() - start < comm.deadline / 2

    @staticmethod
    def one_returns(comm: Communicator) -> None:
        """A rank that ends early is lost at once, not after the deadline."""
        comm.barrier(HERE)
        start = time.monotonic()
        if comm.rank != 1:
            raised(PeerLostError, lambda: comm.barrier(HERE), "rank 1", "host ", "'redistribute'")
            assert time.monotonic() - start < comm.deadline / 2

    @staticmethod
    def one_is_late(comm: Communicator) -> None:
        """The others raise by the deadline and name it, also those that wait for it only through another rank."""
        comm.barrier(HERE)
        late, start = comm.size - 1, time.monotonic()
        if comm.rank == late:
            time.sleep(1.5 * comm.deadline)
            raised(PeerLostError, lambda: [comm.barrier(HERE) for _ in range(2)])  # the first may find all it needs
            return
        text = raised(PeerLostError, lambda: comm.barrier(HERE), f"rank {late} (host ", "'redistribute'", "call ")
        assert time.monotonic() - start < comm.deadline + 0.5
        assert "program.py:12" in text
        raised(PeerLostError, lambda: comm.barrier(HERE))

    @staticmethod
    def aborted(comm: Communicator) -> None:
        if comm.rank == 0:
            comm.abort("the user asked")
            raised(PeerLostError, lambda: comm.barrier(HERE), "the user asked", "shrink")
        else:
            raised(PeerLostError, lambda: comm.barrier(HERE), "rank 0", "the user asked")

    @staticmethod
    def shrunk(comm: Communicator) -> None:
        """The survivors of a failure go on in a new group, renumbered; the first one stays given up."""
        if comm.size > 2 and comm.rank == 1:
            comm.report(ValueError("broken"))
            raised(PeerLostError, lambda: comm.shrink([0]))
            return
        survivors = [rank for rank in range(comm.size) if comm.size == 2 or rank != 1]
        if comm.size > 2:
            raised(RemoteError, lambda: comm.barrier(HERE))
        smaller = comm.shrink(survivors)
        assert (smaller.rank, smaller.size, smaller.sequence >= 0) == (survivors.index(comm.rank), len(survivors), True)
        for case in (Healthy.all_pairs, Healthy.gathers, Healthy.barriers):
            case(smaller)
        again = smaller.shrink([0]) if smaller.rank == 0 else None
        if again is not None:
            Healthy.all_pairs(again)
        if comm.size > 2:
            raised(RemoteError, lambda: comm.barrier(HERE))

    @staticmethod
    def closed(comm: Communicator) -> None:
        comm.barrier(HERE)
        comm.close()
        comm.close()
        raised(PeerLostError, lambda: comm.barrier(HERE), "closed")

    @staticmethod
    def debug_details(comm: Communicator) -> None:
        """With DISTARRAY_DEBUG=1: the first rank whose call differs is named, with both call sites."""
        comm.barrier(HERE)
        odd = comm.size - 1
        other = Signature("redistribute", "float32 (4, 5)", "elsewhere.py:99")

        def program() -> None:
            comm.exchange([], [], other if comm.rank == odd else HERE)
            comm.barrier(HERE)

        raised(
            CollectiveMismatchError,
            program,
            f"rank {odd} ",
            "elsewhere.py:99",
            "program.py:12",
            "(4, 4)",
            "(4, 5)",
        )


def names(cases: type) -> list[str]:
    return [name for name in vars(cases) if not name.startswith("_")]


__all__ = ["CommunicationError", "Failing", "Healthy", "names", "raised"]
