"""`init_all` on devices of the CPU: the program of GPUs, from one thread in a group block and from a thread for each rank."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from distarray import group, init_all
from distarray.errors import CollectiveMismatchError, CommunicationError, DeviceError, PeerLostError, UnsupportedError

from . import array_cases, test_process_group


@pytest.fixture(autouse=True)
def deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISTARRAY_TIMEOUT", "20")


def in_threads(n: int, program: Callable[[Any], object]) -> list[Any]:
    """What each rank's program returned, or raised."""
    comms = init_all(n, kind="host")
    found: list[Any] = [None] * n

    def run(rank: int) -> None:
        try:
            found[rank] = program(comms[rank])
        except BaseException as error:
            found[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found


def in_a_block(comms: Sequence[Any], call: Callable[[Any], object]) -> None:
    with group():
        for comm in comms:
            call(comm)


@pytest.mark.parametrize("devices", [1, 3, [0], [4, 2, 7], range(2), np.int64(2)])
def test_what_it_takes(devices: Any) -> None:
    comms = init_all(devices, kind="host")
    numbers = list(range(int(devices))) if np.ndim(devices) == 0 else list(devices)
    assert [comm.device for comm in comms] == numbers
    assert [comm.rank for comm in comms] == list(range(len(comms)))
    assert {comm.nranks for comm in comms} == {len(comms)} == {comm.size for comm in comms}
    assert repr(comms[-1]) == f"<HostCommunicator rank {len(comms) - 1} of {len(comms)} on host device {numbers[-1]}>"


def test_none_of_them_needs_nothing() -> None:
    for kind in (None, "cuda", "host"):
        assert init_all(0, kind=kind) == [] == init_all([], kind=kind) == init_all((), kind=kind)
    assert init_all(kind="host")


def test_what_it_refuses() -> None:
    for wrong in ("0", 1.5, [0.5]):
        with pytest.raises(TypeError, match="a number of devices or a sequence"):
            init_all(wrong, kind="host")
    with pytest.raises(DeviceError, match="negative"):
        init_all(-1, kind="host")
    with pytest.raises(DeviceError, match="device -1 is not there"):
        init_all([-1], kind="host")
    with pytest.raises(DeviceError, match="more than once"):
        init_all([1, 1], kind="host")
    with pytest.raises(ValueError, match="'gpu'"):
        init_all(1, kind="gpu")


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("case", array_cases.CASES)
def test_every_array(case: Callable[[Any, Any], None], n: int) -> None:
    assert in_threads(n, lambda comm: case(comm, np)) == [None] * n


@pytest.mark.parametrize(
    "name",
    ["all_reduce_every_dtype_and_op", "all_reduce_gives_every_process_the_same_bits", "broadcast_from_each_root",
     "reduce_to_each_root", "reduce_scatter_and_all_gather", "send_and_recv_in_a_ring", "scatter_gather_all_to_all"],
)  # fmt: skip
def test_the_cases_of_processes(name: str) -> None:
    def program(comm: Any) -> None:
        test_process_group.CASES[name](comm)

    assert in_threads(2, program) == [None] * 2


@pytest.mark.parametrize("n", [1, 2, 3, 7])
@pytest.mark.parametrize("name", ["all_reduce", "reduce_scatter", "all_gather", "all_to_all"])
def test_a_block_of_one_thread(name: str, n: int) -> None:
    comms = init_all(n, kind="host")
    made = [array_cases.Call(comm).of(name) for comm in comms]
    outs = [np.zeros_like(want) for _, want, _ in made]
    with group(), group():
        for (given, _, make), out in zip(made, outs):
            make(given, out)
        assert not any(out.any() for out in outs)  # they are made together, at the end
    for (_, want, _), out in zip(made, outs):
        np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("order", ["C", "F"])
def test_messages_of_a_block_do_not_wait_for_one_another(order: Any) -> None:
    n = 3
    comms = init_all(n, kind="host")
    parts = [np.arange(6.0).reshape(2, 3) + i for i in range(n)]
    outs = [np.zeros((2, 3), order=order) for _ in comms]
    totals = [np.zeros((2, 3)) for _ in comms]
    with group():
        for comm, part, out, total in zip(comms, parts, outs, totals):
            comm.recv(out, (comm.rank - 1) % n)
            comm.all_reduce(part, total)
            comm.send(part, (comm.rank + 1) % n)
    for rank, (out, total) in enumerate(zip(outs, totals)):
        np.testing.assert_array_equal(out, parts[rank - 1])
        np.testing.assert_array_equal(total, sum(parts))


def test_alone_it_would_wait_for_ever() -> None:
    comms, x = init_all(2, kind="host"), np.ones(2)
    with pytest.raises(CommunicationError, match="inside `with group"):
        comms[0].all_reduce(x, x)
    with pytest.raises(UnsupportedError, match="barrier"):
        comms[0].barrier()
    [only] = init_all(1, kind="host")
    only.all_reduce(x, x)
    np.testing.assert_array_equal(x, 1)


def test_split_as_on_gpus() -> None:
    comms = init_all(5, kind="host")
    with group():
        children = [comm.split(comm.rank % 2, -comm.rank) for comm in comms]
        with pytest.raises(CommunicationError, match="has ended"):
            children[0].broadcast(np.ones(1))
    assert [child.rank for child in children] == [2, 1, 1, 0, 0]
    assert [child.nranks for child in children] == [3, 2, 3, 2, 3]
    assert [child.device for child in children] == list(range(5))
    values = [np.full(2, comm.rank) for comm in comms]
    with group():
        for child, value in zip(children, values):
            child.broadcast(value, 0)
    assert [value[0] for value in values] == [4, 3, 4, 3, 4]
    with group():
        nobody = [comm.split(None if comm.rank else 7) for comm in comms]
    assert nobody[1:] == [None] * 4 and nobody[0].nranks == 1
    with pytest.raises(ValueError, match="color = -1"):
        comms[0].split(-1)
    assert [child.nranks for child in in_threads(3, lambda comm: comm.split(0))] == [3] * 3


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda comm: comm.all_reduce(np.ones(2 + comm.rank), np.ones(2 + comm.rank)), r"\(2,\).*all_reduce|\(3,\)"),
        (lambda comm: comm.all_reduce(np.ones(2), np.ones(2), "sum" if comm.rank else "max"), "max"),
        (lambda comm: comm.broadcast(np.ones(2), comm.rank), "root"),
        (lambda comm: comm.broadcast(np.ones(2, "f4" if comm.rank else "f8")), "float32"),
        (lambda comm: comm.gather(np.ones(2), np.ones((2, 2))) if comm.rank else comm.all_gather(np.ones(2), np.ones((2, 2)), 2),
         "'gather'"),
        (lambda comm: comm.send(np.ones(3), 1) if not comm.rank else comm.recv(np.ones(2), 0), "3 elements"),
    ],
)  # fmt: skip
def test_calls_that_differ_are_told_at_once(call: Callable[[Any], None], text: str) -> None:
    start = time.monotonic()
    comms = init_all(2, kind="host")
    with pytest.raises(CollectiveMismatchError, match=text):
        in_a_block(comms, call)
    assert time.monotonic() - start < 10
    with pytest.raises(CommunicationError):
        comms[0].broadcast(np.ones(2))
    assert {type(found) for found in in_threads(2, call)} == {CollectiveMismatchError}


def test_who_does_not_come_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISTARRAY_TIMEOUT", "0.3")
    comms, x = init_all(2, kind="host"), np.ones(2)
    with pytest.raises(PeerLostError, match=r"rank 0 waited 0.3 s in 'all_reduce'.* for rank 1"), group():
        comms[0].all_reduce(x, x)


def test_an_exception_leaves_the_calls_unmade() -> None:
    comms, x = init_all(2, kind="host"), np.ones(2)
    with pytest.raises(TypeError, match="is a list"):
        in_a_block(comms, lambda comm: comm.all_reduce([1.0] if comm.rank else x, x))
    with group():
        for comm in comms:
            comm.broadcast(x)
    np.testing.assert_array_equal(x, 1)


def test_abort_frees_those_who_wait() -> None:
    def program(comm: Any) -> None:
        if comm.rank:
            time.sleep(0.2)
            comm.abort()
            comm.abort()
        comm.all_reduce(np.ones(2), np.ones(2))

    one, other = in_threads(2, program)
    assert isinstance(one, PeerLostError) and isinstance(other, PeerLostError)
    assert "rank 1 of init_all was aborted" in str(one) and "host device 1 was aborted" in str(other)
    [only] = init_all(1, kind="host")
    only.finalize()
    only.destroy()
    with pytest.raises(PeerLostError, match="destroyed"):
        only.all_reduce(np.ones(2), np.ones(2))
