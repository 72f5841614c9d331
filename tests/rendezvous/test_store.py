"""The rendezvous store among processes that mean well: values, barriers, deadlines, failures, start methods, secrets.

Each hole of cupyx.distributed's TCP store is a test here, in test_store_processes.py (start methods, ends of processes) or in
test_store_hostile.py (strangers, short reads).
"""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from distarray.comm.deadlines import bootstrap_timeout, collective_timeout
from distarray.errors import CommunicationError, RendezvousError
from distarray.rendezvous import members, store
from distarray.rendezvous.secret import Secret, find_secret
from distarray.rendezvous.store import Store, connect, serve

SECRET = "0123456789abcdef of these tests"


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISTARRAY_SECRET", SECRET)


@pytest.fixture
def group() -> Iterator[Callable[..., list[Store]]]:
    """``group(n)``: the n stores of a group, all in this process."""
    with contextlib.ExitStack() as stack:

        def make(n: int, deadline: float = 20.0) -> list[Store]:
            first = stack.enter_context(contextlib.closing(serve(port=0, size=n, deadline=deadline)))
            rest = [connect(port=first.port, rank=rank, size=n, deadline=deadline) for rank in range(1, n)]
            for one in rest:
                stack.enter_context(contextlib.closing(one))
            return [first, *rest]

        yield make


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def together(*calls: Callable[[], Any]) -> list[Any]:
    """What the calls return or raise, made at once by a thread each."""

    def one(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(one, calls))


# -- values --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", [b"", b"\0", b"a\0b", bytes(range(256)), bytes(1 << 20), bytearray(b"x"), memoryview(b"y")]
)
def test_values(group: Callable[..., list[Store]], value: Any) -> None:
    a, b = group(2)
    b.set("kéy", value)
    assert a.get("kéy") == bytes(value)
    a.set("kéy", b"newer")
    assert b.get("kéy") == b"newer"


def test_values_of_other_kinds_are_refused(group: Callable[..., list[Store]]) -> None:
    (a,) = group(1)
    for value in (1, -1, 1.5, "text", None):
        with pytest.raises(TypeError, match="bytes or an exception"):
            a.set("k", value)  # type: ignore[arg-type]
    for key in (1, b"k", None):
        with pytest.raises(TypeError, match="str is needed"):
            a.get(key)  # type: ignore[arg-type]
    for bad in ("k" * 513, "\ud800"):
        with pytest.raises(RendezvousError):
            a.set(bad, b"")
    with pytest.raises(RendezvousError, match="1048577 bytes"):
        a.set("k", bytes((1 << 20) + 1))
    a.set("k", b"it still works")
    assert a.get("k") == b"it still works"


def test_the_store_has_a_bound(group: Callable[..., list[Store]]) -> None:
    (a,) = group(1)
    for i in range(64):
        a.set(str(i), bytes(1 << 20))
    with pytest.raises(RendezvousError, match="takes no more"):
        a.set("one more", b"x")
    a.set("0", b"replacing frees")
    a.set("small", b"fits again")


def test_get_waits(group: Callable[..., list[Store]]) -> None:
    a, b, c = group(3)

    def later() -> None:
        time.sleep(0.2)
        a.set("k", b"v")

    assert together(lambda: b.get("k"), lambda: c.get("k"), later) == [b"v", b"v", None]


def test_get_names_key_and_missing_ranks() -> None:
    with serve(port=0, size=4) as a, connect(port=a.port, rank=2, size=4) as b:
        began = time.monotonic()
        with pytest.raises(RendezvousError) as raised:
            b.get("nccl/0", 1.5)
        assert time.monotonic() - began < 1.9
        for part in ("'nccl/0'", "1.5 s", "rank 1 (never connected)", "rank 3 (never connected)"):
            assert part in str(raised.value)
        assert "rank 0" not in str(raised.value)


def test_an_error_in_place_of_a_value(group: Callable[..., list[Store]]) -> None:
    a, b = group(2)
    a.set("nccl/0", MemoryError("no memory for the id"))
    with pytest.raises(RendezvousError, match=r"rank 0 .* set an error .*MemoryError: no memory for the id"):
        b.get("nccl/0")


def test_get_from_a_lost_source_ends_at_once(group: Callable[..., list[Store]]) -> None:
    a, b, c = group(3)
    waits = [lambda: a.get("k", 10, source=2), lambda: (time.sleep(0.2), c._channel.forget())]
    began = time.monotonic()
    raised = together(*waits)[0]
    assert isinstance(raised, RendezvousError) and "rank 2" in str(raised) and "lost" in str(raised)
    with pytest.raises(RendezvousError, match="rank 2"):
        b.get("k", 10, source=2)
    assert time.monotonic() - began < 2
    b.set("k", b"v")  # what is set can be read, whoever is lost
    assert a.get("k", source=2) == b"v"


# -- barriers ------------------------------------------------------------------------------------------------------------


def test_barrier_stress(group: Callable[..., list[Store]]) -> None:
    """Eight clients, 200 times: the old store stuck at the second barrier. Nobody leaves before all have come."""
    stores = group(8)
    came = [0] * 8

    def run(one: Store) -> None:
        for i in range(200):
            came[one.rank] = i
            one.barrier("x" if i % 3 else "")
            assert min(came) >= i

    assert together(*(lambda one=one: run(one) for one in stores)) == [None] * 8


def test_barriers_of_some_ranks(group: Callable[..., list[Store]]) -> None:
    stores = group(4)
    done = together(
        *(lambda one=one: [one.barrier(ranks=[one.rank % 2, 2 + one.rank % 2]) for _ in range(20)] for one in stores)
    )
    assert done == [[None] * 20] * 4
    for ranks in ([], [4], [-1, 0]):
        with pytest.raises(RendezvousError, match="ranks are 0 to 3"):
            stores[0].barrier(ranks=ranks)
    with pytest.raises(RendezvousError, match="not its own"):
        stores[0].barrier(ranks=[1, 2])


def test_meetings_bring_every_rank_the_values_of_all(
    group: Callable[..., list[Store]], monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = group(4)
    for turn in range(3):
        values = [bytes([rank, turn]) * rank for rank in range(4)]
        assert (
            together(*(lambda one=one, value=value: one.meet("m", value) for one, value in zip(stores, values)))
            == [values] * 4
        )
    odd = together(*(lambda one=one: one.meet("m", bytes([one.rank]), ranks=[1, 3]) for one in stores[1::2]))
    assert odd == [[b"\1", b"\3"]] * 2
    with pytest.raises(RendezvousError, match="the store takes 1048576"):
        stores[1].meet("m", bytes((1 << 20) + 1))
    assert together(*(lambda one=one: len(one.meet("m", bytes(1 << 19))) for one in stores)) == [4] * 4
    monkeypatch.setattr(members, "MAX_MEETING", 4 << 20)
    many = together(*(lambda one=one: one.meet("m", bytes(1 << 20)) for one in stores))
    assert all(isinstance(error, RendezvousError) and "over 4194304 bytes together" in str(error) for error in many)
    assert together(*(lambda one=one: one.barrier() for one in stores)) == [None] * 4


def test_a_meeting_outlasts_rank_0(group: Callable[..., list[Store]]) -> None:
    """Rank 0 may end the store as soon as it has its own answer: those of the others are on their way already."""
    for _ in range(20):
        stores = group(3)

        def leave(zero: Store = stores[0]) -> list[bytes]:
            got = zero.meet("m", b"0")
            zero.close()
            return got

        def late(one: Store) -> list[bytes]:
            return one.meet("m", bytes(str(one.rank), "ascii"))

        assert together(leave, *(lambda one=one: late(one) for one in stores[1:])) == [[b"0", b"1", b"2"]] * 3


def test_barrier_names_the_missing_and_can_be_used_again(group: Callable[..., list[Store]]) -> None:
    stores = group(4)
    late = together(*(lambda one=one: one.barrier("step", 1.0) for one in stores[:2]))
    for error in late:
        assert isinstance(error, RendezvousError)
        for part in ("'step'", "of 4 came", "rank 2 (", "rank 3 ("):
            assert part in str(error)
    assert any("2 of 4 came" in str(error) and "rank 0 (" not in str(error) for error in late)
    assert together(*(lambda one=one: one.barrier("step") for one in stores)) == [None] * 4


def test_wait_ranks() -> None:
    with serve(port=0, size=3) as a, connect(port=a.port, rank=1, size=3) as b:
        with pytest.raises(RendezvousError) as raised:
            a.wait_ranks(1.0)
        assert "rank 2 (never connected)" in str(raised.value) and "127.0.0.1" in str(raised.value)
        with connect(port=a.port, rank=2, size=3) as c:
            assert together(a.wait_ranks, b.wait_ranks, c.wait_ranks) == [None] * 3
        a.wait_ranks()  # rank 2 was there and took its leave: that is no failure
        with pytest.raises(RendezvousError, match=r"rank 2 \(.*has closed the store"):
            a.barrier()


def test_stores_are_not_sent_to_other_processes(group: Callable[..., list[Store]]) -> None:
    with pytest.raises(TypeError, match="connect"):
        pickle.dumps(group(1)[0])


# -- failures ------------------------------------------------------------------------------------------------------------


def test_any_failure_answers_every_wait(group: Callable[..., list[Store]]) -> None:
    stores = group(4)

    def fail() -> None:
        time.sleep(0.2)
        with pytest.raises(ValueError), stores[3]:
            raise ValueError("a bad chunk")

    began = time.monotonic()
    raised = together(stores[0].wait_ranks, lambda: stores[1].get("k"), stores[2].barrier, fail)
    assert raised[0] is None and raised[3] is None
    for error in raised[1:3]:
        assert isinstance(error, RendezvousError) and "rank 3" in str(error) and "ValueError: a bad chunk" in str(error)
    with pytest.raises(RendezvousError, match="a bad chunk"):
        stores[0].barrier()
    assert time.monotonic() - began < 2


def test_closing_ends_the_wait_of_another_thread(group: Callable[..., list[Store]]) -> None:
    _, b = group(2)
    began = time.monotonic()
    raised = together(lambda: b.get("k", 10), lambda: (time.sleep(0.2), b.close()))[0]
    assert isinstance(raised, RendezvousError)
    assert time.monotonic() - began < 2


def test_a_failure_is_sent_while_another_thread_waits(group: Callable[..., list[Store]]) -> None:
    a, b = group(2)
    raised = together(
        lambda: a.barrier(deadline=5), lambda: b.get("k", 5), lambda: (time.sleep(0.2), b.fail(OSError("gone")))
    )
    assert all("OSError: gone" in str(error) for error in raised[:2])


def test_nothing_listens() -> None:
    began = time.monotonic()
    with pytest.raises(RendezvousError, match=r"rank 1 found no store at 127.0.0.1:\d+ within 0.5 s .*refused"):
        connect(port=free_port(), rank=1, size=2, deadline=0.5)
    assert 0.4 < time.monotonic() - began < 1.5
    with pytest.raises(RendezvousError, match=r"no-such-host\.invalid"):
        connect("no-such-host.invalid", 1, rank=1, size=2, deadline=0.3)


def test_a_socket_connected_to_itself_is_no_store() -> None:
    """TCP allows it, and a rank that tries a port in the ephemeral range long enough will meet it."""
    port = free_port()
    original = socket.socket.connect

    def bound(sock: socket.socket, address: Any) -> None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):
            sock.bind(address)
        original(sock, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", bound)
        with pytest.raises(RendezvousError, match="nothing listens there"):
            connect(port=port, rank=1, size=2, deadline=0.4)
    serve(port=port, size=1).close()  # and the port is left free


# -- survivors -----------------------------------------------------------------------------------------------------------


def test_survivors_of_a_kill(group: Callable[..., list[Store]]) -> None:
    stores = group(5)
    stores[3]._channel.forget()
    stores[1].fail(RuntimeError("rank 3 is gone"))
    began = time.monotonic()
    alive = [stores[i] for i in (0, 1, 2, 4)]
    assert together(*(lambda one=one: one.agree_survivors(1, 10) for one in alive)) == [[0, 1, 2, 4]] * 4
    assert time.monotonic() - began < 2, "all that are connected have reported: no need to wait"
    assert together(*(lambda one=one: (one.wait_ranks(), one.barrier()) for one in alive)) == [(None, None)] * 4
    stores[4]._channel.forget()
    assert together(*(lambda one=one: one.agree_survivors(2, 10) for one in alive[:3])) == [[0, 1, 2]] * 3


def test_survivors_without_one_that_is_stopped(group: Callable[..., list[Store]]) -> None:
    stores = group(4)
    began = time.monotonic()
    assert together(*(lambda one=one: one.agree_survivors(1, 1.0) for one in stores[:3])) == [[0, 1, 2]] * 3
    assert 0.8 < time.monotonic() - began < 1.6
    assert stores[3].agree_survivors(1, 1.0) == [0, 1, 2], "who comes too late gets the same list, without itself"
    assert together(*(lambda one=one: one.barrier() for one in stores[:3])) == [None] * 3
    with pytest.raises(RendezvousError, match="no longer in the group"):
        stores[3].agree_survivors(2, 1.0)
    with pytest.raises(RendezvousError, match="not its own"):
        stores[3].barrier()


# -- addresses and secrets -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]"])
def test_loopback_addresses(host: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On one machine no configuration is needed."""
    monkeypatch.delenv("DISTARRAY_SECRET")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    if ":" in host:
        try:
            socket.create_server(("::1", 0), family=socket.AF_INET6).close()
        except OSError as error:
            pytest.skip(f"no IPv6 on loopback: {error}")
    with serve(host, 0, size=2) as a, connect(host, a.port, rank=1, size=2) as b:
        together(a.barrier, b.barrier)
        assert b.host == host.strip("[]")
    assert (tmp_path / "distarray" / "secret").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_other_addresses_need_a_secret(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DISTARRAY_SECRET")
    with pytest.raises(RendezvousError, match=r"export DISTARRAY_SECRET="):
        serve(host, 0, size=2)
    with pytest.raises(RendezvousError, match=r"export DISTARRAY_SECRET="):
        connect(host, 1, rank=1, size=2)


def test_a_taken_port() -> None:
    """An error on rank 0; its other ranks do not talk to the job that has the port."""
    with serve(port=0, size=2) as a:
        with pytest.raises(RendezvousError, match=rf"127\.0\.0\.1:{a.port}.*DISTARRAY_PORT"):
            serve(port=a.port, size=2)
        with pytest.raises(RendezvousError, match="same secret"):
            connect(port=a.port, rank=1, size=2, secret="another job's secret")
        with pytest.raises(RendezvousError, match="3 processes"):
            connect(port=a.port, rank=1, size=3)
        with connect(port=a.port, rank=1, size=2):
            with pytest.raises(RendezvousError, match="two processes say that they are rank 1"):
                connect(port=a.port, rank=1, size=2)
            a.wait_ranks()
            a.set("k", b"the group was complete: the stranger does not disturb it")


def test_two_processes_of_one_rank_before_the_group_is_complete() -> None:
    with serve(port=0, size=3) as a, connect(port=a.port, rank=1, size=3):
        with pytest.raises(RendezvousError, match="two processes"):
            connect(port=a.port, rank=1, size=3)
        with pytest.raises(RendezvousError, match="two processes"):
            a.wait_ranks()
        a.close(linger=0)  # rank 2 does not come to hear of it


def test_rank_and_size_are_checked() -> None:
    for rank, size in ((0, 2), (2, 2), (-1, 2), (1.0, 2), ("1", 2)):
        with pytest.raises(RendezvousError, match="ranks 1 to 1"):
            connect(rank=rank, size=size)  # type: ignore[arg-type]
    for bad in (0, -1, 1.5, True, None):
        with pytest.raises(RendezvousError, match="positive number"):
            serve(size=bad)  # type: ignore[arg-type]
    for port in (-1, 65536, "x"):
        with pytest.raises(RendezvousError, match="0 to 65535"):
            serve(port=port, size=1)  # type: ignore[arg-type]


def test_address_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    monkeypatch.setenv("DISTARRAY_HOST", "localhost")
    monkeypatch.setenv("DISTARRAY_PORT", str(port))
    with serve(size=2) as a, connect(rank=1, size=2) as b:
        assert (a.port, b.port, a.host) == (port, port, "localhost")
    assert store.DEFAULT_PORT == 13333


def test_secrets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def find(given: Any = None, loopback: bool = False) -> Secret:
        return find_secret(given, loopback=loopback, where="there:1")

    assert find().key == SECRET.encode() and find("an argument wins").key == b"an argument wins"
    assert SECRET not in repr(find())
    for short in (b"fifteen bytes..", "x" * 5000, ""):
        with pytest.raises(RendezvousError, match="16 to 4096"):
            find(short)
    monkeypatch.delenv("DISTARRAY_SECRET")
    path = tmp_path / "secret"
    monkeypatch.setenv("DISTARRAY_SECRET_FILE", str(path))
    with pytest.raises(RendezvousError, match="cannot be read"):
        find()
    path.write_text("a secret in a file\n")
    for mode in (0o644, 0o640, 0o604, 0o660, 0o700):
        path.chmod(mode)
        if mode & 0o077:
            with pytest.raises(RendezvousError, match=f"0{mode:o}.*chmod 600"):
                find()
    path.chmod(0o600)
    assert find().key == b"a secret in a file"
    link = tmp_path / "link"
    link.symlink_to(path)
    for other, said in ((link, "cannot be read"), (tmp_path, "not a regular file")):
        monkeypatch.setenv("DISTARRAY_SECRET_FILE", str(other))
        with pytest.raises(RendezvousError, match=said):
            find()
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)
        monkeypatch.setenv("DISTARRAY_SECRET_FILE", str(path))
        with pytest.raises(RendezvousError, match="belongs to user 12345"):
            find()


def test_the_users_own_secret_is_made_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DISTARRAY_SECRET")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    gate = threading.Barrier(16)

    def find() -> bytes:
        gate.wait()
        return find_secret(None, loopback=True, where="").key

    keys = together(*[find] * 16)
    assert len(set(keys)) == 1 and len(keys[0]) == 64
    assert [one.name for one in (tmp_path / "distarray").iterdir()] == ["secret"]
    (tmp_path / "distarray").chmod(0o777)
    with pytest.raises(RendezvousError, match="this user alone"):
        find_secret(None, loopback=True, where="")


def test_deadlines() -> None:
    assert (bootstrap_timeout({}), collective_timeout({})) == (60.0, 120.0)
    assert bootstrap_timeout({"DISTARRAY_BOOTSTRAP_TIMEOUT": " 2.5 "}) == 2.5
    assert collective_timeout({"DISTARRAY_TIMEOUT": "7"}) == 7.0
    for text in ("0", "-1", "inf", "nan", "soon", "1 s"):
        with pytest.raises(CommunicationError, match=f"DISTARRAY_TIMEOUT='{text}'"):
            collective_timeout({"DISTARRAY_TIMEOUT": text})
    for value in (0, -1, float("inf"), float("nan"), "x", [1]):
        with pytest.raises(CommunicationError, match="positive, finite"):
            serve(port=0, size=1, deadline=value)  # type: ignore[arg-type]


def test_threads_and_sockets_are_given_back() -> None:
    before = threading.active_count()
    handles = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(20):
        with serve(port=0, size=2) as a, connect(port=a.port, rank=1, size=2):
            a.wait_ranks()
    with pytest.raises(RendezvousError, match="closed store"):
        a.get("k")
    assert threading.active_count() == before
    if handles:
        assert len(os.listdir("/proc/self/fd")) <= handles + 1
