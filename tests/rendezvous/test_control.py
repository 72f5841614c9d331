"""The control channel of groups without MPI, on the rendezvous store; this file is also what its processes run."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from distarray.comm.base import Signature
from distarray.errors import CollectiveMismatchError, PeerLostError
from distarray.rendezvous.control import store_control


def store_program(rank: int, size: int, port: int) -> None:
    control = store_control(size, rank, "127.0.0.1", port, 3.0)
    for turn in range(5):
        got = control.all_gather(f"{rank} {turn}".encode(), Signature("turn"))
        assert got == [f"{i} {turn}".encode() for i in range(size)]
    for peer in range(size):
        for turn in range(3):
            control.post(peer, bytes([rank, turn]))
    for peer in range(size):
        assert [control.fetch(peer) for _ in range(3)] == [bytes([peer, turn]) for turn in range(3)]
    control.barrier(Signature("barrier"))
    with pytest.raises(CollectiveMismatchError, match="look for a branch on the rank"):
        control.all_gather(b"", Signature("left" if rank else "right"))
    with pytest.raises(PeerLostError, match="given up"):
        control.barrier(Signature("barrier"))
    control.close()
    print("SEEN control")


def test_store_control() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = dict(os.environ, DISTARRAY_SECRET="a secret of this test alone")
    started = [
        subprocess.Popen(
            [sys.executable, __file__, str(rank), "3", str(port)],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for rank in range(3)
    ]
    ended = [(process.communicate(timeout=60)[0], process.returncode) for process in started]
    assert ended == [("SEEN control\n", 0)] * 3


if __name__ == "__main__":
    store_program(*map(int, sys.argv[1:]))
