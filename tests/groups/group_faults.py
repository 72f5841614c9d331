"""What each process of an ``mpiexec`` runs for `test_process_group` where a group is to fail: ``group_faults.py KIND NAME …``.

A process prints ``OK name rank`` once its assertions held, and goes on to the next name with a new group.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from distarray.comm.base import Signature
from distarray.comm.mpi.exit import GRAVEYARD
from distarray.errors import CollectiveMismatchError, PeerLostError, RemoteError
from distarray.groups.base import ProcessGroup
from distarray.groups.compared import message
from distarray.groups.join import init_process_group
from distarray.groups.mpi_calls import PAIR

FAULTS: dict[str, Callable[[ProcessGroup], None]] = {}
DIFFERING: dict[str, tuple[str, Callable[[ProcessGroup, bool], None]]] = {}
DEBUG = os.environ.get("DISTARRAY_DEBUG", "") == "1"


def fault(function: Callable[[ProcessGroup], None]) -> Callable[[ProcessGroup], None]:
    FAULTS[function.__name__] = function
    return function


departs = fault  # the last process ends early, and says nothing


def differing(*words: str) -> Callable[[Callable[[ProcessGroup, bool], None]], Callable[[ProcessGroup, bool], None]]:
    """A call that the last process makes otherwise; the words are what each says of its own."""

    def add(function: Callable[[ProcessGroup, bool], None]) -> Callable[[ProcessGroup, bool], None]:
        DIFFERING[function.__name__] = words, function
        return function

    return add


def raised(kind: type[BaseException], call: Callable[[], object], *words: str, within: float) -> str:
    start = time.monotonic()
    with pytest.raises(kind) as caught:
        call()
    spent, text = time.monotonic() - start, str(caught.value)
    assert spent < within, f"{spent:.2f} s until {text}"
    for word in words:
        assert word in text, f"{word!r} is not in: {text}"
    return text


def last(group: ProcessGroup) -> bool:
    return group.rank == group.size - 1


def given_up(group: ProcessGroup) -> None:
    raised(PeerLostError, group.barrier, "given up", within=0.5)


# ---- calls that are one off


@fault
def refused_on_one(group: ProcessGroup) -> None:
    """An argument error on one process: its next call does not meet the others' of before it."""
    a, outs = np.arange(4.0), [np.zeros(4) for _ in range(4)]
    if last(group):
        try:
            group.all_reduce(a[::2], outs[0])
        except ValueError:
            first = 1
        else:
            raise AssertionError("the argument was not refused")
    else:
        first = 0
    raised(CollectiveMismatchError, lambda: group.all_reduce(a + first, outs[first]),
           f"rank {group.size - 1} on", "call 1, collective for 'all_reduce' (sum float64 (4,))",
           within=group.deadline)  # fmt: skip
    assert not np.any(outs), outs
    given_up(group)


@fault
def refused_says_what_was_refused(group: ProcessGroup) -> None:
    group.barrier()
    if last(group):
        try:
            group.all_gather(np.zeros(4), np.zeros(4), 3)
        except ValueError:
            time.sleep(0.3)
    raised(CollectiveMismatchError, lambda: group.all_gather(np.zeros(4), np.zeros(4 * group.size), 3),
           "its arguments were refused, and it sent nothing", within=group.deadline)  # fmt: skip


@fault
def refused_receiver_of_broadcasts(group: ProcessGroup) -> None:
    """The root waits for nobody: what it sent for the refused call must not come out of the next."""
    frozen, seen = np.zeros(4), []
    frozen.flags.writeable = False
    if last(group):
        try:
            group.broadcast(frozen, 0)
        except ValueError:
            time.sleep(0.3)

    def calls() -> None:
        for turn in range(1 if last(group) else 0, 4):
            mine = np.full(4, float(turn)) if group.rank == 0 else np.full(4, -1.0)
            group.broadcast(mine, 0)
            seen.append((turn, mine))
        group.barrier()

    raised(CollectiveMismatchError, calls, "'broadcast'", within=group.deadline + 1)
    for turn, mine in seen:
        assert set(mine) == {float(turn)}, seen


@fault
def skipped_by_one(group: ProcessGroup) -> None:
    out = np.zeros(5)
    if not last(group):
        raised(
            CollectiveMismatchError, lambda: group.all_reduce(np.ones(5), out), "(5,)", "(7,)", within=group.deadline
        )
        assert not out.any()
    else:
        raised(CollectiveMismatchError, lambda: group.all_reduce(np.ones(7), np.zeros(7)), "(5,)", "(7,)",
               within=group.deadline)  # fmt: skip


@fault
def one_call_too_few(group: ProcessGroup) -> None:
    """Equal calls can't be told apart, but at the end one is missing."""

    def calls() -> None:
        for _ in range(2 if last(group) else 3):
            group.all_reduce(np.ones(5), np.zeros(5))
        group.barrier()

    raised(CollectiveMismatchError, calls, "'all_reduce'", "'barrier'", within=group.deadline)


@fault
def refused_send(group: ProcessGroup) -> None:
    out = np.zeros(4)

    def calls() -> None:
        if group.rank == 0:
            for array in (np.arange(8.0)[::2], np.full(4, 5.0)):
                try:
                    group.send(array, 1)
                except ValueError:
                    continue
        elif group.rank == 1:
            group.recv(out, 0)
        group.barrier()

    raised(
        CollectiveMismatchError,
        calls,
        *["message 0 to rank 1", "refused", "'recv'"] * (group.rank == 1),
        within=group.deadline,
    )
    assert not out.any()


@fault
def refused_recv(group: ProcessGroup) -> None:
    out = np.zeros(8)

    def calls() -> None:
        if group.rank == 0:
            group.send(np.full(4, 5.0), 1)
            group.send(np.full(4, 6.0), 1)
        elif group.rank == 1:
            for array in (out[::2], out[:4]):
                try:
                    group.recv(array, 0)
                except ValueError:
                    time.sleep(0.2)
        group.barrier()

    raised(CollectiveMismatchError, calls, within=group.deadline)
    assert not out.any() or (group.rank == 1 and set(out[:4]) == {6.0})


@fault
def messages_against_collectives(group: ProcessGroup) -> None:
    """Each waits for what the other never sends: found before the deadline."""

    def calls() -> None:
        if group.rank == 0:
            group.recv(np.zeros(3), 1)
        else:
            group.all_reduce(np.zeros(3), np.zeros(3))

    raised(CollectiveMismatchError, calls, "'recv'", "'all_reduce'", within=group.deadline * 0.6)


@fault
def work_is_not_taken_for_a_mismatch(group: ProcessGroup) -> None:
    """Slow processes between messages and collectives: whoever waits long asks, and the answers prove nothing."""
    big, out = np.ones(1 << 20), np.zeros(1 << 20)
    for slow in range(group.size):
        if group.rank == slow:
            time.sleep(1.2)
        if group.rank == 0:
            group.send(big, 1)
        elif group.rank == 1:
            group.recv(out, 0)
            time.sleep(1.2)  # at work when rank 0, which has asked and was answered, comes to the collective
        group.reduce(big[:8], out[:8], 0)
        if group.rank == 0:
            time.sleep(1.2)
            group.recv(out, 1)
        elif group.rank == 1:
            group.send(big, 0)
        group.broadcast(out[:4], 0)  # the root does not wait
        group.all_reduce(big, out)
    for turn in range(5000):  # one runs ahead of the others
        group.broadcast(out[:4], 0)
        if group.rank and turn == 0:
            time.sleep(0.5)
    group.barrier()


@fault
def both_receive(group: ProcessGroup) -> None:
    if group.rank < 2:
        raised(CollectiveMismatchError, lambda: group.recv(np.zeros(3), group.rank ^ 1), "'recv'", "each waits",
               within=group.deadline * 0.6)  # fmt: skip
    else:
        raised(CollectiveMismatchError, group.barrier, within=group.deadline)


@fault
def another_type_of_message(group: ProcessGroup) -> None:
    out = np.zeros(3, "i8")

    def calls() -> None:
        if group.rank == 0:
            group.send(np.ones(3), 1)
        elif group.rank == 1:
            group.recv(out, 0)
        group.barrier()

    raised(CollectiveMismatchError, calls, *["float64", "int64"] * (group.rank == 1), within=group.deadline)
    assert not out.any()


# ---- calls that differ


@differing("max", "sum")
def op(group: ProcessGroup, otherwise: bool) -> None:
    group.all_reduce(np.full(4, 1.0 + group.rank), np.zeros(4), "max" if otherwise else "sum")


@differing("min", "sum")
def op_of_reduce(group: ProcessGroup, otherwise: bool) -> None:
    group.reduce(np.ones(4), np.zeros(4), 0, "min" if otherwise else "sum")


@differing("prod", "sum")
def op_of_reduce_scatter(group: ProcessGroup, otherwise: bool) -> None:
    group.reduce_scatter(np.ones(4 * group.size), np.zeros(4), 4, "prod" if otherwise else "sum")


@differing("int64", "float64")
def dtype(group: ProcessGroup, otherwise: bool) -> None:
    kind = "i8" if otherwise else "f8"
    group.all_reduce(np.ones(4, kind), np.zeros(4, kind))


@differing("int64", "float64")
def dtype_of_large(group: ProcessGroup, otherwise: bool) -> None:
    kind = "i8" if otherwise else "f8"
    group.all_reduce(np.ones(1 << 18, kind), np.zeros(1 << 18, kind))


@differing("uint32", "float32")
def dtype_of_scatter(group: ProcessGroup, otherwise: bool) -> None:
    kind = "u4" if otherwise else "f4"
    group.scatter(np.ones((group.size, 3), kind), np.zeros(3, kind), 0)


@differing("uint32", "float32")
def dtype_of_all_to_all(group: ProcessGroup, otherwise: bool) -> None:
    kind = "u4" if otherwise else "f4"
    group.all_to_all(np.ones((group.size, 3), kind), np.zeros((group.size, 3), kind))


@differing("root 1", "root 0")
def root(group: ProcessGroup, otherwise: bool) -> None:
    group.broadcast(np.full(4, float(group.rank)), 1 if otherwise else 0)


@differing("root 1", "root 0")
def root_of_gather(group: ProcessGroup, otherwise: bool) -> None:
    group.gather(np.ones(4), np.zeros((group.size, 4)), 1 if otherwise else 0)


@differing("root 1", "root 0")
def root_of_a_sparse_broadcast(group: ProcessGroup, otherwise: bool) -> None:
    import scipy.sparse

    group.broadcast(scipy.sparse.csr_matrix(np.eye(3) * (1 + group.rank)), 1 if otherwise else 0)


@differing("prod", "sum")
def op_of_a_sparse_reduction(group: ProcessGroup, otherwise: bool) -> None:
    import scipy.sparse

    matrix = scipy.sparse.csr_matrix(np.eye(3))
    group.all_reduce(matrix, matrix.copy(), "prod" if otherwise else "sum")


@differing("sparse", "float64")
def sparse_against_dense(group: ProcessGroup, otherwise: bool) -> None:
    import scipy.sparse

    group.broadcast(scipy.sparse.csr_matrix(np.eye(3)) if otherwise else np.eye(3), 0)


@differing("F-contiguous", "(3, 5)")
def order(group: ProcessGroup, otherwise: bool) -> None:
    group.all_reduce(
        np.ones((3, 5), order="F" if otherwise else "C"), np.zeros((3, 5), order="F" if otherwise else "C")
    )


@differing("(5, 2)", "(2, 5)")
def shape(group: ProcessGroup, otherwise: bool) -> None:
    group.broadcast(np.ones((5, 2) if otherwise else (2, 5)), 0)


@differing("(2, 3)", "(3, 2)")
def shape_of_reduce(group: ProcessGroup, otherwise: bool) -> None:
    shape = (2, 3) if otherwise else (3, 2)
    group.reduce(np.ones(shape), np.zeros(shape), 0)


@differing("'gather'", "'scatter'")
def method(group: ProcessGroup, otherwise: bool) -> None:
    whole, part = np.ones((group.size, 3)), np.ones(3)
    group.gather(part, whole, 0) if otherwise else group.scatter(whole, part, 0)


@differing("count 3", "count 4")
def count(group: ProcessGroup, otherwise: bool) -> None:
    group.all_gather(np.ones(4), np.zeros(4 * group.size), 3 if otherwise else 4)


def calls_differ(group: ProcessGroup, name: str) -> None:
    """All processes raise, and both calls are named: at the call, or where a process has only to send, at a later one, once
    what nobody takes has arrived."""
    words, call = DIFFERING[name]

    def calls() -> None:
        call(group, last(group))
        for _ in range(0 if DEBUG else 100):
            group.barrier()
            time.sleep(0.01)

    raised(CollectiveMismatchError, calls, *words, "rank ", " on ", within=group.deadline * 0.8)
    given_up(group)


# ---- the control channel of NCCL


@fault
def control(group: ProcessGroup) -> None:
    wire: Any = group._wire  # type: ignore[attr-defined]
    others = [peer for peer in range(group.size) if peer != group.rank]
    for turn in range(5):
        got = wire.all_gather(f"{group.rank} {turn}".encode(), Signature("turn"))
        assert got == [f"{i} {turn}".encode() for i in range(group.size)]
    for peer in others:
        for turn in range(3):
            wire.post(peer, bytes([group.rank, turn]))
    for peer in others:
        assert [wire.fetch(peer) for _ in range(3)] == [bytes([peer, turn]) for turn in range(3)]
    wire.barrier(Signature("barrier"))
    meet = lambda: wire.all_gather(b"", Signature("left" if last(group) else "right"))
    raised(CollectiveMismatchError, meet, "'left'", "'right'", "look for a branch on the rank", within=group.deadline)
    given_up(group)
    wire.close()


# ---- interrupts and ends


@fault
def another_size(group: ProcessGroup) -> None:
    if group.rank == 0:
        group.send(np.zeros(3), 1)
    elif group.rank == 1:
        receive = lambda: group.recv(np.zeros(5), 0)
        raised(CollectiveMismatchError, receive, "rank 0 on", "24 bytes", "40", within=1)
        given_up(group)


@fault
def one_is_late_to_stop(group: ProcessGroup) -> None:
    """It computes by itself for longer than the deadline: those that have stopped wait for it at their end."""
    x = np.ones(4)
    group.all_reduce(x, x)
    if group.rank == 0:
        time.sleep(group.deadline + 3)
    group.stop()


@fault
def nobody_comes(group: ProcessGroup) -> None:
    group.barrier()
    if last(group):
        time.sleep(group.deadline + 2)
        return
    call = lambda: group.all_gather(np.zeros(1), np.zeros(group.size), 1)
    raised(PeerLostError, call, "waited 4 s", "'all_gather'", f"rank {group.size - 1} on", "did not answer",
           within=group.deadline + 1)  # fmt: skip


@fault
def a_stopped_process(group: ProcessGroup) -> None:
    pids = np.zeros(group.size, "i8")
    group.all_gather(np.array([os.getpid()]), pids, 1)
    group.barrier()
    if last(group):
        time.sleep(1)  # stopped in here
        return
    try:
        time.sleep(0.3)  # the barrier of the others needs it
        if group.rank == 0:
            os.kill(int(pids[-1]), signal.SIGSTOP)
        call = lambda: group.all_reduce(np.zeros(1_000_000), np.zeros(1_000_000))
        raised(PeerLostError, call, f"rank {group.size - 1} on", within=group.deadline + 1)
    finally:
        if group.rank == 0:
            time.sleep(0.5)
            os.kill(int(pids[-1]), signal.SIGCONT)


@fault
def wrong_rank(group: ProcessGroup) -> None:
    n, rank = group.size, group.rank
    other = (rank + 1) % n
    raised(ValueError, lambda: init_process_group(n, other, backend="mpi"),
           f"rank = {other}, but this process is rank {rank} of", within=1)  # fmt: skip
    raised(ValueError, lambda: init_process_group(n + 1, rank, backend="mpi"), f"MPI started {n} process", within=1)


@fault
def all_leave_by_an_exception(group: ProcessGroup) -> None:
    def block() -> None:
        with group:
            group.barrier()
            time.sleep(0.3)  # the first to leave a barrier may leave it before the others
            raise KeyError("mine")

    raised(KeyError, block, "mine", within=1.3)
    raised(RuntimeError, group.barrier, "stopped", within=0.5)
    raised(RuntimeError, lambda: group.send_recv(np.ones(1), np.ones(1), group.rank), "stopped", within=0.5)


@fault
def interrupted(group: ProcessGroup) -> None:
    """What was being received does not come into memory that has gone to another array."""
    group.barrier()
    if group.rank == 0:
        buffer = np.zeros(1000)
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        raised(KeyboardInterrupt, lambda: group.recv(buffer, 1), within=1)
        del buffer
        gc.collect()
        arrays = [np.zeros(1000) for _ in range(200)]
        raised(PeerLostError, group.barrier, "given up", "KeyboardInterrupt", within=0.5)
        time.sleep(1.5)
        assert not any(7.0 in array for array in arrays)
        return
    if group.rank == 1:
        time.sleep(1)
        send = lambda: group.send(np.full(1000, 7.0), 0)
        raised(RemoteError, send, "rank 0 on", "KeyboardInterrupt", within=0.5)
    else:
        raised(RemoteError, group.barrier, "rank 0 on", "KeyboardInterrupt", within=1.5)


@fault
def interrupted_while_it_arrives(group: ProcessGroup) -> None:
    """The same, by a sender that has not heard of it: it sends without entering the group."""
    group.barrier()
    wire: Any = group._wire  # type: ignore[attr-defined]
    if group.rank == 1:
        time.sleep(1)
        data = np.full(1000, 7.0)
        wire._comm.Send([data, wire._mpi.BYTE], 0, wire._tags.join(PAIR, 0, message("send", data.dtype, 1000)[1]))
        time.sleep(0.7)
    elif group.rank == 0:
        buffer = np.zeros(1000)
        watched = buffer.__array_interface__["data"][0]
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        raised(KeyboardInterrupt, lambda: group.recv(buffer, 1), within=1)
        del buffer
        gc.collect()
        arrays = [np.zeros(1000) for _ in range(200)]
        assert watched not in {array.__array_interface__["data"][0] for array in arrays}  # it is kept
        due = time.monotonic() + 1.5
        while time.monotonic() < due:
            wire._comm.Iprobe()  # MPI moves what has come
            time.sleep(0.01)
        assert not any(7.0 in array for array in arrays)
        kept = [np.asarray(item.buffer) for item in GRAVEYARD if getattr(item, "receiving", False)]
        assert any(7.0 in data.view("f8") for data in kept if data.nbytes % 8 == 0), "it did not come at all"


@departs
def left_by_an_exception(group: ProcessGroup) -> None:
    if last(group):
        with group:
            raise MemoryError("no room for the chunk")
    call = lambda: group.all_reduce(np.ones(3), np.zeros(3))
    raised(RemoteError, call, f"rank {group.size - 1} on", "MemoryError: no room for the chunk", within=1)


@departs
def left_by_an_exception_in_a_loop(group: ProcessGroup) -> None:
    """The block is the last of the program, as in most: the process ends at once."""

    def program() -> None:
        with group:
            for turn in range(10):
                if turn == 5 and last(group):
                    raise MemoryError("no room for the chunk")
                group.all_reduce(np.ones(3), np.zeros(3))

    if last(group):
        program()
    raised(RemoteError, program, f"rank {group.size - 1} on", "MemoryError: no room for the chunk", within=1)


def ends_early(group: ProcessGroup, end: Callable[[], object], *words: str) -> None:
    group.barrier()
    if last(group):
        end()
    call = lambda: group.all_reduce(np.ones(3), np.zeros(3))
    raised(PeerLostError, call, f"rank {group.size - 1} on", *words, within=1.5)


@departs
def uncaught(group: ProcessGroup) -> None:
    def end() -> None:
        raise KeyError("the reason")

    ends_early(group, end, "KeyError: 'the reason'")


@departs
def exits(group: ProcessGroup) -> None:
    ends_early(group, lambda: sys.exit(0), "ended its program")


@departs
def exits_in_the_block(group: ProcessGroup) -> None:
    group.barrier()
    if last(group):
        time.sleep(0.3)  # until the others are through it
        with group:
            sys.exit(0)
    raised(RemoteError, group.barrier, f"rank {group.size - 1} on", "SystemExit", within=1.5)


def main() -> None:
    names = ("PMI_RANK", "PMI_SIZE") if "PMI_RANK" in os.environ else ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")
    rank, n = (int(os.environ[name]) for name in names)  # mpi4py.MPI comes after distarray, as in most programs
    kind, *names = sys.argv[1:]
    for name in names:
        group = init_process_group(n, rank, backend="mpi")  # a new one, after that which failed
        if kind == "differ":
            calls_differ(group, name)
        else:
            FAULTS[name](group)
        os.write(1, f"OK {name} {rank}\n".encode())


if __name__ == "__main__":
    main()
