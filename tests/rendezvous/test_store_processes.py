"""The rendezvous store among processes: start-up, start methods, ends and deaths of ranks, two hosts on one cable."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from conformance.launching import DEEP
from distarray.errors import RendezvousError
from distarray.rendezvous.store import connect, serve

ROOT = Path(__file__).resolve().parents[2]
SECRET = "0123456789abcdef of these tests"

PRELUDE = """
import os, signal, sys, time
from distarray.rendezvous.store import connect, serve
rank, size, port = map(int, sys.argv[1:4])
host = os.environ.get("TEST_HOST", "127.0.0.1")
def member(deadline=20):
    return serve(host, port, size=size, deadline=deadline) if rank == 0 else \\
        connect(host, port, rank=rank, size=size, deadline=deadline)
print("up", flush=True)
"""


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISTARRAY_SECRET", SECRET)


class Process:
    """A rank in a process of its own."""

    def __init__(self, code: str, rank: int, size: int, port: int, *prefix: str, **environ: str) -> None:
        self.popen = subprocess.Popen(
            [*prefix, sys.executable, "-c", PRELUDE + code, str(rank), str(size), str(port)],
            cwd=ROOT, env={**os.environ, **environ}, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )  # fmt: skip

    def line(self) -> str:
        assert self.popen.stdout is not None
        return self.popen.stdout.readline().strip()

    def go(self) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write("\n")
        self.popen.stdin.flush()

    def end(self, timeout: float = 30.0) -> tuple[int, str, str]:
        out, err = self.popen.communicate(timeout=timeout)
        return self.popen.returncode, out, err


@pytest.fixture
def start() -> Iterator[Callable[..., Process]]:
    """``start(code, rank, size, port)``: a process; all are gone when the test ends."""
    started: list[Process] = []

    def make(*arguments: Any, **environ: str) -> Process:
        started.append(Process(*arguments, **environ))
        return started[-1]

    yield make
    for one in started:
        one.popen.kill()
        one.popen.communicate()


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


def test_eight_ranks_are_up_in_two_seconds(start: Callable[..., Process]) -> None:
    code = "sys.stdin.readline(); s = member(); s.wait_ranks(); s.barrier(); print('met', flush=True); s.close()"
    port = free_port()
    ranks = [start(code, rank, 8, port) for rank in range(8)]
    assert [one.line() for one in ranks] == ["up"] * 8
    began = time.monotonic()
    for one in reversed(ranks):  # rank 0 last
        one.go()
    assert [one.line() for one in ranks] == ["met"] * 8
    took = time.monotonic() - began
    print(f"\nbootstrap of 8 local ranks: {took:.3f} s")
    assert [one.end()[::2] for one in ranks] == [(0, "")] * 8
    assert took <= 2.0


METHODS = """
import multiprocessing, sys
from distarray.rendezvous.store import connect, serve

def child(port, rank):
    with connect(port=port, rank=rank, size=4) as s:
        s.wait_ranks()
        for _ in range(20):
            s.barrier()
        assert s.get("k") == b"v"
        s.barrier("end")

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    with serve(port=0, size=4) as s:
        children = [context.Process(target=child, args=(s.port, rank)) for rank in (1, 2, 3)]
        for one in children:
            one.start()
        s.set("k", b"v")
        for _ in range(20):
            s.barrier()
        s.barrier("end")
        for one in children:
            one.join()
        print([one.exitcode for one in children])
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_start_methods(method: str, tmp_path: Path) -> None:
    script = tmp_path / "main.py"
    script.write_text(METHODS)
    done = subprocess.run(
        [sys.executable, str(script), method], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "[0, 0, 0]"), done.stderr


def test_a_forked_child_cannot_use_or_break_its_parents_store(start: Callable[..., Process]) -> None:
    code = """
from distarray.errors import ForkError
s = serve(port=0, size=2); c = connect(port=s.port, rank=1, size=2)
pid = os.fork()
if not pid:
    try:
        c.barrier()
    except ForkError:
        s.close(); c.fail(ValueError()); c.close(); os._exit(7)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
s.set("k", b"v"); assert c.get("k") == b"v"
"""
    assert start(code, 0, 1, 0).end()[0] == 0


def test_a_forked_child_does_not_keep_a_dead_rank_alive(start: Callable[..., Process]) -> None:
    code = """
s = member()
child = os.fork()
if not child:
    time.sleep(60)
print(child, flush=True)
time.sleep(60)
"""
    with serve(port=0, size=2) as a:
        one = start(code, 1, 2, a.port)
        assert one.line() == "up"
        child = int(one.line())
        one.popen.kill()
        try:
            began = time.monotonic()
            with pytest.raises(RendezvousError, match=r"rank 1 .*lost"):
                a.barrier(deadline=10)
            assert time.monotonic() - began < 2
        finally:
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("waiting", [False, True])
def test_rank_0_exits_cleanly_without_stop(waiting: bool, start: Callable[..., Process]) -> None:
    port = free_port()
    zero = start("s = member(); sys.stdin.readline()", 0, 2, port)
    zero.line()
    other = connect(port=port, rank=1, size=2, deadline=10) if waiting else None
    zero.go()
    began = time.monotonic()
    if other is not None:
        with contextlib.closing(other), pytest.raises(RendezvousError, match=r"rank 0|gone"):
            other.barrier()
    code, _, err = zero.end(10)
    assert (code, err) == (0, "")
    assert time.monotonic() - began < 5


def test_all_leave_a_barrier_though_rank_0_ends_right_after(start: Callable[..., Process]) -> None:
    code = "s = member(); s.barrier(); os._exit(0) if rank == 0 else None"
    for _ in range(3 if DEEP else 1):
        port = free_port()
        ranks = [start(code, rank, 4, port) for rank in range(4)]
        assert [one.end()[::2] for one in ranks] == [(0, "")] * 4


def test_a_failing_rank_0_is_told_to_those_who_wait_and_those_who_come(start: Callable[..., Process]) -> None:
    """By nothing but an exception that nobody catches."""
    port = free_port()
    zero = start("s = member(); sys.stdin.readline(); raise MemoryError('no room on rank 0')", 0, 3, port)
    zero.line()
    with contextlib.closing(connect(port=port, rank=1, size=3, deadline=10)) as one:

        def late() -> None:
            time.sleep(0.5)
            with contextlib.closing(connect(port=port, rank=2, size=3, deadline=10)) as two:
                two.barrier()

        zero.go()
        for error in together(lambda: one.get("id"), late):
            assert isinstance(error, RendezvousError)
            assert "rank 0" in str(error) and "MemoryError: no room on rank 0" in str(error)
    assert zero.end(10)[0] == 1


def test_rank_0_killed(start: Callable[..., Process]) -> None:
    port = free_port()
    zero = start("s = member(); time.sleep(60)", 0, 2, port)
    with contextlib.closing(connect(port=port, rank=1, size=2, deadline=10)) as one:
        began = time.monotonic()
        raised = together(one.barrier, lambda: (time.sleep(0.2), zero.popen.kill()))[0]
        assert isinstance(raised, RendezvousError) and "rank 0" in str(raised)
        assert time.monotonic() - began < 2
        with pytest.raises(RendezvousError, match="rank 0"):
            one.agree_survivors(1, 2)


def test_rank_0_stopped(start: Callable[..., Process]) -> None:
    port = free_port()
    zero = start("s = member(); time.sleep(60)", 0, 3, port)
    with contextlib.closing(connect(port=port, rank=1, size=3, deadline=10)) as one:
        zero.popen.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(RendezvousError, match="did not answer within 1 s; rank 0 is stopped"):
            one.barrier(deadline=1)
        with pytest.raises(RendezvousError, match="within 1 s"):
            connect(port=port, rank=2, size=3, deadline=1)
        assert time.monotonic() - began < 3
        zero.popen.send_signal(signal.SIGCONT)
        one.set("k", b"v")  # the answer that came too late is not taken for this one's
        assert one.get("k") == b"v"


def test_a_killed_rank_is_named(start: Callable[..., Process]) -> None:
    with serve(port=0, size=3) as a, connect(port=a.port, rank=1, size=3) as b:
        two = start("s = member(); print('in', flush=True); s.barrier()", 2, 3, a.port)
        assert [two.line(), two.line()] == ["up", "in"]
        began = time.monotonic()
        waits = together(lambda: b.barrier(deadline=10), lambda: (time.sleep(0.2), two.popen.kill()))
        assert f"rank 2 ({socket.gethostname()}, pid {two.popen.pid}: lost" in str(waits[0])
        assert time.monotonic() - began < 2


# -- two hosts -----------------------------------------------------------------------------------------------------------


def test_two_hosts_and_one_cut_off(two_hosts: tuple[str, str], start: Callable[..., Process]) -> None:
    code = """
s = member()
s.wait_ranks(); s.barrier()
if rank == 0: s.set("k", b"v")
assert s.get("k") == b"v"
print("met", flush=True)
sys.stdin.readline()
began = time.monotonic()
try:
    s.barrier("cut", 2)
except Exception as error:
    print(f"{time.monotonic() - began:.2f} {type(error).__name__} {error}", flush=True)
"""
    ranks = [
        start(code, rank, 2, 5555, "ip", "netns", "exec", name, TEST_HOST="10.231.7.1")
        for rank, name in enumerate(two_hosts)
    ]
    assert [one.line() for _ in range(2) for one in ranks] == ["up", "up", "met", "met"]
    subprocess.run(["ip", "-n", two_hosts[1], "link", "set", "eth0", "down"], check=True, timeout=20)
    for one in ranks:
        one.go()
    for one, said in zip(ranks, ("missing rank 1 (", "did not answer within 2 s; rank 0 is stopped, or the network")):
        line = one.line()
        assert line.split()[1] == "RendezvousError" and said in line
        assert float(line.split()[0]) <= 2.3
    began = time.monotonic()
    assert [one.end()[0] for one in ranks] == [0, 0], "and they end"
    assert time.monotonic() - began < 8
