"""The rendezvous store among strangers: whatever they send, none is accepted and the group forms.

10,000 hostile connections during one bootstrap with DISTARRAY_DEEP=1, 1,500 without.
"""

from __future__ import annotations

import collections
import contextlib
import os
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from conformance.launching import DEEP
from distarray.errors import RendezvousError
from distarray.rendezvous import frames, server
from distarray.rendezvous.frames import CHALLENGE, HELLO, LENGTH, MAGIC, TAG, VERDICT, Op, Opener, Refused, Sealer
from distarray.rendezvous.store import Store, connect, serve

SECRET = b"the secret of these tests"
HOSTILE = 10_000 if DEEP else 1_500


@pytest.fixture
def zero() -> Iterator[Store]:
    """Rank 0 of two."""
    with contextlib.closing(serve(port=0, size=2, secret=SECRET, deadline=20)) as made:
        yield made
        made.close(linger=0)


def dial(port: int) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port), timeout=10)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def read(sock: socket.socket, size: int = 1 << 16) -> bytes:
    """Up to so many bytes, or what came before the end."""
    data = b""
    with contextlib.suppress(ConnectionError, TimeoutError):
        while len(data) < size and (part := sock.recv(size - len(data))):
            data += part
    return data


def is_closed(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except ConnectionError:
        return True


def hello(rank: int = 1, size: int = 2, nonce: bytes | None = None) -> bytes:
    return HELLO.pack(MAGIC, rank, size, nonce or os.urandom(32))


def member(port: int, rank: int = 1, secret: bytes = SECRET) -> tuple[socket.socket, Sealer, Opener]:
    """A connection that has proved itself, and can now send what it likes."""
    sock = dial(port)
    sock.setblocking(False)
    sealer, opener = frames.greet(sock, secret, rank, 2, time.monotonic() + 10)
    sock.settimeout(10)
    return sock, sealer, opener


def well(zero: Store) -> None:
    """The store still works: the real rank 1 connects and both meet."""
    with connect(port=zero.port, rank=1, size=2, secret=SECRET, deadline=10) as one:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda store: store.barrier(), (zero, one)))
        one.set("k", b"v")
        assert zero.get("k") == b"v"


# -- the handshake -------------------------------------------------------------------------------------------------------


def test_wrong_secret(zero: Store) -> None:
    began = time.monotonic()
    with pytest.raises(RendezvousError, match=r"does not accept this process's secret.*DISTARRAY_SECRET"):
        connect(port=zero.port, rank=1, size=2, secret=b"not the secret of these", deadline=10)
    assert time.monotonic() - began < 2, "at once: trying again is no use"
    well(zero)  # by then the server has counted
    assert zero.connections["wrong secret"] == 1 and zero.connections["authenticated"] == 1


def recorded(zero: Store) -> tuple[bytes, bytes]:
    """All that a real rank 1 says and hears, from the wire."""
    said, heard = b"", b""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def relay() -> None:
            nonlocal said, heard
            with listener.accept()[0] as inner, dial(zero.port) as outer:

                def pump(a: socket.socket, b: socket.socket) -> bytes:
                    data = b""
                    with contextlib.suppress(ConnectionError):
                        while part := a.recv(4096):
                            data += part
                            b.sendall(part)
                    with contextlib.suppress(OSError):
                        b.shutdown(socket.SHUT_WR)
                    return data

                with ThreadPoolExecutor(2) as pool:
                    one, other = pool.submit(pump, inner, outer), pool.submit(pump, outer, inner)
                    said, heard = one.result(), other.result()

        thread = threading.Thread(target=relay)
        thread.start()
        with connect(port=listener.getsockname()[1], rank=1, size=2, secret=SECRET, deadline=10) as one:
            one.set("k", b"original")
        thread.join()
    return said, heard


def test_a_recorded_conversation_is_worth_nothing(zero: Store) -> None:
    said, _ = recorded(zero)
    zero.set("k", b"newer")
    assert zero.connections["authenticated"] == 1
    for size in (len(said), HELLO.size + TAG):
        with dial(zero.port) as sock:
            sock.sendall(said[:size])
            answer = read(sock)
            assert len(answer) <= CHALLENGE.size + VERDICT.size
            assert answer[CHALLENGE.size : CHALLENGE.size + 1] in (b"N", b"")
    assert zero.connections["authenticated"] == 1
    assert zero.get("k") == b"newer"


def test_a_recorded_server_is_worth_nothing(zero: Store) -> None:
    """Nor does a client believe a server that only repeats one, or that says yes without a proof."""
    _, heard = recorded(zero)
    for answers in (heard, heard[: CHALLENGE.size] + VERDICT.pack(b"Y", bytes(TAG))):
        with socket.create_server(("127.0.0.1", 0)) as fake, ThreadPoolExecutor(1) as pool:
            client = pool.submit(connect, port=fake.getsockname()[1], rank=1, size=2, secret=SECRET, deadline=5)
            with fake.accept()[0] as sock:
                sock.sendall(answers)
                read(sock)
            with pytest.raises(RendezvousError, match="does not know this job's secret"):
                client.result()


def test_a_proof_reflected_to_its_maker_is_worth_nothing(zero: Store) -> None:
    """The server's proof for one connection is no client's proof for another, with the very same nonces."""
    mine = hello()
    theirs = CHALLENGE.pack(MAGIC, os.urandom(32))
    keys = frames.keys_of(SECRET, mine, theirs)
    assert len(set(keys)) == 4
    with dial(zero.port) as sock:
        sock.sendall(mine)
        challenge = read(sock, CHALLENGE.size)
        sock.sendall(frames.keys_of(SECRET, mine, challenge).server_proof)
        assert read(sock, VERDICT.size)[:1] == b"N"
    seen = set()
    for _ in range(50):
        with dial(zero.port) as sock:
            sock.sendall(mine)
            seen.add(read(sock, CHALLENGE.size))
    assert len(seen) == 50, "nonces are fresh"


def test_a_hello_changed_on_the_way_fails(zero: Store) -> None:
    """Rank and size are part of what is proved."""
    mine = hello(rank=1)
    with dial(zero.port) as sock:
        sock.sendall(HELLO.pack(MAGIC, 0, 2, mine[-32:]))
        challenge = read(sock, CHALLENGE.size)
        sock.sendall(frames.keys_of(SECRET, mine, challenge).client_proof)
        assert read(sock, VERDICT.size)[:1] == b"N"


@pytest.mark.parametrize("cut", [0, 1, HELLO.size - 1, HELLO.size, HELLO.size + 1, HELLO.size + TAG - 1])
def test_truncated_handshakes(zero: Store, cut: int) -> None:
    with dial(zero.port) as sock:
        data = (hello() + bytes(TAG))[:cut]
        for byte in data:  # one byte at a time: the server completes what it reads
            sock.sendall(bytes([byte]))
    well(zero)


def test_something_else_listens() -> None:
    for answer in (b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", b"\0" * 100, b""):
        with socket.create_server(("127.0.0.1", 0)) as other, ThreadPoolExecutor(1) as pool:
            client = pool.submit(connect, port=other.getsockname()[1], rank=1, size=2, secret=SECRET, deadline=0.8)
            other.settimeout(0.2)
            while not client.done():
                with contextlib.suppress(TimeoutError), other.accept()[0] as sock:
                    sock.settimeout(0.2)
                    read(sock, HELLO.size)
                    sock.sendall(answer)
            with pytest.raises(RendezvousError, match=r"not a store|closed the connection|reset"):
                client.result()


def test_a_server_that_says_nothing_costs_no_more_than_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        began = time.monotonic()
        with pytest.raises(RendezvousError, match=r"within 0\.6 s"):
            connect(port=other.getsockname()[1], rank=1, size=2, secret=SECRET, deadline=0.6)
        assert time.monotonic() - began < 1.2


# -- frames --------------------------------------------------------------------------------------------------------------


JOIN = frames.pack(Op.JOIN, 1, b"test")


@pytest.mark.parametrize(
    "payload",
    [
        b"", b"\1", b"\xff" * 5, b"\x63\0\0\0\1", JOIN[:-1], JOIN + b"\0", JOIN + LENGTH.pack(5) + b"1234",
        JOIN + LENGTH.pack(0xFFFFFFFF), frames.pack(Op.DONE, 1), frames.pack(Op.GET, 1, b"k"),
    ],
)  # fmt: skip
def test_malformed_first_messages(zero: Store, payload: bytes) -> None:
    """Signed, as by a process that has the secret and is broken."""
    sock, sealer, _ = member(zero.port)
    with sock:
        sock.sendall(sealer.seal(payload))
        assert is_closed(sock)
    well(zero)


@pytest.mark.parametrize(
    "payload",
    [
        frames.pack(Op.GET, 2), frames.pack(Op.GET, 2, b"12345678"), frames.pack(Op.GET, 2, struct.pack("!dq", 1, -1)),
        frames.pack(Op.GET, 2, struct.pack("!dq", 1, -1), b"\xff"), frames.pack(Op.GET, 2, struct.pack("!dq", 1, -1), b"k" * 513),
        frames.pack(Op.GET, 2, struct.pack("!dq", float("nan"), -1), b"k"),
        frames.pack(Op.GET, 2, struct.pack("!dq", -1, -1), b"k"), frames.pack(Op.WAIT, 2, struct.pack("!d", float("inf"))),
        frames.pack(Op.AGREE, 2, struct.pack("!qd", 1, float("nan"))), frames.pack(Op.SET, 2, b"k", b"p", b"pickle"),
        frames.pack(Op.SET, 2, b"k"), frames.pack(Op.SET, 2, b"k", b"v", bytes(frames.MAX_VALUE + 1)),
        frames.pack(Op.MEET, 2, struct.pack("!d", 1), b"", b"123", b""), frames.pack(Op.MEET, 2, struct.pack("!d", 1), b"", b""),
        frames.pack(Op.MEET, 2, struct.pack("!d", 1), b"", b"", bytes(frames.MAX_VALUE + 1)),
        frames.pack(Op.JOIN, 2, b"again"), frames.pack(Op.FAILURE, 0),
    ],
)  # fmt: skip
def test_malformed_requests(zero: Store, payload: bytes) -> None:
    sock, sealer, _ = member(zero.port)
    with sock:
        sock.sendall(sealer.seal(JOIN))
        read(sock, LENGTH.size + 5 + TAG)
        sock.sendall(sealer.seal(payload))
        assert is_closed(sock)
    with pytest.raises(RendezvousError, match=r"rank 1 \(test: lost: its connection sent nonsense"):
        zero.barrier()
    zero.set("k", b"v")
    assert zero.get("k") == b"v"


@pytest.mark.parametrize("length", [0, 1, frames.MAX_FRAME + 1, 0x7FFFFFFF, 0xFFFFFFFF])
def test_lengths_are_checked_before_anything_is_read(zero: Store, length: int) -> None:
    sock, _, _ = member(zero.port)
    with sock:
        sock.sendall(LENGTH.pack(length))
        assert is_closed(sock)
    well(zero)


def test_frames_cannot_be_forged_repeated_or_reordered(zero: Store) -> None:
    def attempts() -> Iterator[Callable[[Sealer], bytes]]:
        yield lambda sealer: Sealer(bytes(32)).seal(JOIN)  # another key
        yield lambda sealer: sealer.seal(JOIN)[:-1] + b"\0"  # a changed signature
        yield lambda sealer: (sealer.seal(b"\0" * 5), sealer.seal(JOIN))[1]  # one left out
        yield lambda sealer: sealer.seal(JOIN).replace(b"test", b"tent")  # changed content

    for make in attempts():
        sock, sealer, _ = member(zero.port)
        with sock:
            frame = make(sealer)
            sock.sendall(frame)
            assert is_closed(sock)
    sock, sealer, _ = member(zero.port)
    with sock:
        frame = sealer.seal(JOIN)
        sock.sendall(frame + frame)  # the first joins, the second is a repetition
        read(sock)
    with pytest.raises(RendezvousError, match="signature does not fit"):
        zero.barrier()


def test_bytes_put_into_a_connection_break_it(zero: Store) -> None:
    """A man in the middle who relays the handshake cannot change an answer: the client notices."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def relay() -> None:
            with listener.accept()[0] as inner, dial(zero.port) as outer:
                for size in (HELLO.size, TAG):
                    outer.sendall(read(inner, size))
                    inner.sendall(read(outer, CHALLENGE.size if size == HELLO.size else VERDICT.size))
                outer.sendall(inner.recv(4096))
                answer = bytearray(outer.recv(4096))
                answer[-TAG - 1] ^= 1  # the number of the request that is answered
                inner.sendall(answer)
                read(inner)

        thread = threading.Thread(target=relay)
        thread.start()
        with pytest.raises(RendezvousError, match="signature does not fit"):
            connect(port=listener.getsockname()[1], rank=1, size=2, secret=SECRET, deadline=5)
        thread.join()


# -- many and slow -------------------------------------------------------------------------------------------------------


def test_slow_strangers_are_dropped(zero: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte now and then does not hold a connection open."""
    monkeypatch.setattr(server, "HANDSHAKE_SECONDS", 0.5)
    with dial(zero.port) as sock:
        began = time.monotonic()
        with contextlib.suppress(OSError):
            for byte in hello():
                sock.sendall(bytes([byte]))
                time.sleep(0.05)
        assert is_closed(sock)
        assert time.monotonic() - began < 3
    assert zero.connections["too slow"] == 1
    well(zero)


def test_a_member_that_stops_inside_a_message_is_dropped(zero: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "FRAME_SECONDS", 0.5)
    for part in (2, 4, 20):
        sock, sealer, _ = member(zero.port)
        with sock:
            sock.sendall(sealer.seal(JOIN)[:part])
            assert is_closed(sock)
    well(zero)


def test_idle_strangers_cannot_use_up_the_server(zero: Store) -> None:
    """More than it holds, all silent: the oldest go, and a real rank gets in."""
    with contextlib.ExitStack() as stack:
        for _ in range(server.MAX_STRANGERS + 100):
            stack.enter_context(dial(zero.port))
        began = time.monotonic()
        well(zero)
        assert time.monotonic() - began < 2
        assert zero.connections["crowded out"] >= 100


def garbage(sock: socket.socket, rng: random.Random, said: bytes) -> None:
    sock.sendall(rng.randbytes(rng.randint(1, 300)))


def truncated(sock: socket.socket, rng: random.Random, said: bytes) -> None:
    sock.sendall(said[: rng.randint(0, HELLO.size + TAG)])


def oversized(sock: socket.socket, rng: random.Random, said: bytes) -> None:
    sock.sendall(hello() + LENGTH.pack(0xFFFFFFFF) + bytes(100_000))
    read(sock)


def replayed(sock: socket.socket, rng: random.Random, said: bytes) -> None:
    sock.sendall(said)
    read(sock)


def wrong_secret(sock: socket.socket, rng: random.Random, said: bytes) -> None:
    sock.setblocking(False)
    with pytest.raises((Refused, OSError)):
        frames.greet(sock, rng.randbytes(32), rng.randint(0, 9), 8, time.monotonic() + 10)


def slow(sock: socket.socket, rng: random.Random, said: bytes) -> None:
    sock.sendall(hello()[:7])
    time.sleep(0.02)
    sock.sendall(b"x")


#: Connections that are held open, the oldest given up for each new one.
held: collections.deque[socket.socket] = collections.deque()


def idle(sock: socket.socket, rng: random.Random, said: bytes) -> None:
    held.append(sock.dup())
    if len(held) > 150:
        held.popleft().close()


KINDS = (garbage, truncated, oversized, replayed, wrong_secret, slow, idle)


def test_a_bootstrap_among_thousands_of_strangers() -> None:
    """Rank 0 and seven others find each other while every kind of hostile connection comes as fast as it can.

    The ranks start at different times, so that the bootstrap lasts as long as the attack.
    """
    with contextlib.closing(serve(port=0, size=2, secret=SECRET, deadline=20)) as earlier:
        said, _ = recorded(earlier)
    zero = serve(port=0, size=8, secret=SECRET, deadline=60)
    count = [0] * len(KINDS)

    def attack(worker: int) -> None:
        rng = random.Random(worker)
        for i in range(worker, HOSTILE, 16):
            kind = i % len(KINDS)
            with contextlib.suppress(OSError), dial(zero.port) as sock:
                count[kind] += 1
                KINDS[kind](sock, rng, said)

    def bootstrap(rank: int) -> float:
        while sum(count) < HOSTILE * rank / 8:
            time.sleep(0.001)
        began = time.monotonic()
        with connect(port=zero.port, rank=rank, size=8, secret=SECRET, deadline=60) as one:
            connected = time.monotonic() - began
            one.wait_ranks()
            for _ in range(5):
                one.barrier()
            assert one.get("k") == b"v"
            one.barrier("end")
        return connected

    began = time.monotonic()
    with ThreadPoolExecutor(16) as attackers, ThreadPoolExecutor(8) as ranks:
        attacks = [attackers.submit(attack, worker) for worker in range(16)]
        others = [ranks.submit(bootstrap, rank) for rank in range(1, 8)]
        zero.set("k", b"v")
        zero.wait_ranks()
        for _ in range(5):
            zero.barrier()
        zero.barrier("end")
        slowest = max(one.result() for one in others)
        for one in attacks:
            one.result()
    took = time.monotonic() - began
    time.sleep(0.1)
    seen = zero.connections
    zero.close()
    while held:
        held.pop().close()
    print(f"\n{sum(count)} hostile connections in {took:.1f} s, slowest rank connected in {slowest:.3f} s: {seen}")
    assert sum(count) >= HOSTILE * 0.99
    assert seen["authenticated"] == 7, "the seven ranks and nobody else"
    assert took < 120 * HOSTILE / 1000
    assert slowest < 10
