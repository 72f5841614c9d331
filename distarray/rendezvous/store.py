"""The rendezvous store: how the processes of a group find each other where MPI does not do it.

Rank 0 serves it from a thread of its own process, the others connect; each holds a `Store`. It carries small values (an
NCCL id), barriers, failures, and the agreement on who survives a failure, never an array. Both sides prove that they know
the job's secret (frames.py), which on loopback may be the user's own and elsewhere must be given (secret.py).
"""

from __future__ import annotations

import ipaddress
import os
import random
import secrets
import socket
import struct
import time
from typing import Any

from distarray.comm.deadlines import bootstrap_timeout, left, seconds
from distarray.errors import RendezvousError
from distarray.rendezvous.client import Store, where
from distarray.rendezvous.connection import Connection
from distarray.rendezvous.frames import Closed, Opener, Refused, SealedChannel, Sealer, WireError, greet
from distarray.rendezvous.secret import FILE, VARIABLE, find_secret
from distarray.rendezvous.server import Server

__all__ = ["DEFAULT_PORT", "Store", "connect", "serve"]

DEFAULT_PORT = 13333  # cupyx.distributed's
_ATTEMPT = 5.0  # seconds that one attempt to connect may take


def serve(
    host: str | None = None,
    port: int | None = None,
    *,
    size: int,
    secret: bytes | str | None = None,
    deadline: float | None = None,
) -> Store:
    """Start the store in this process, which is rank 0. Returns at once: `Store.wait_ranks` waits for the others.

    Parameters
    ----------
    host : str, optional
        The name or address to listen at, IPv4 or IPv6; by default DISTARRAY_HOST, else 127.0.0.1.
    port : int, optional
        By default DISTARRAY_PORT, else 13333. 0 takes a free one, in the result's ``port``.
    size : int
        How many processes there are, this one included.
    secret : bytes or str, optional
        At least 16 bytes, the same in all processes; by default DISTARRAY_SECRET, or the file that DISTARRAY_SECRET_FILE
        names, or, on loopback, a file of this user.
    deadline : float, optional
        Seconds of every wait that names no other; by default DISTARRAY_BOOTSTRAP_TIMEOUT, else 60.

    Raises
    ------
    RendezvousError
        When the port is taken; for an address that other machines reach, without a secret.
    """
    _check_size(size)
    wait = bootstrap_timeout() if deadline is None else seconds(deadline)
    host, port = _address(host, port)
    try:
        family, address = _resolve(host, port)[0]
    except OSError as error:
        raise RendezvousError(
            f"{host!r} is no address of this machine ({error}); pass host, or set DISTARRAY_HOST"
        ) from error
    loopback = ipaddress.ip_address(address[0].partition("%")[0]).is_loopback
    key = find_secret(secret, loopback=loopback, where=where(host, port)).key
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # past connections that linger, never a listener
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise RendezvousError(
            f"rank 0 cannot listen at {where(host, port)}: {error.strerror or error}; where another program or job holds "
            "the port, give all processes of this one another port (DISTARRAY_PORT)"
        ) from error
    bound = listener.getsockname()
    ours, theirs = socket.socketpair()
    for one in (ours, theirs):
        one.setblocking(False)
    keys = secrets.token_bytes(32), secrets.token_bytes(32)
    local = Connection(theirs, "header")
    local.rank, local.size = 0, size
    local.opener, local.sealer = Opener(keys[0]), Sealer(keys[1])
    server = Server(listener, local, key, size, where(bound[0], bound[1]))
    store = Store(SealedChannel(ours, Sealer(keys[0]), Opener(keys[1])), 0, size, (host, bound[1]), wait, server)
    server.thread.start()
    store._join(wait)
    return store


def connect(
    host: str | None = None,
    port: int | None = None,
    *,
    rank: int,
    size: int,
    secret: bytes | str | None = None,
    deadline: float | None = None,
) -> Store:
    """Connect to the store of rank 0, trying until it is there.

    Parameters
    ----------
    host, port, size, secret, deadline
        As for `serve`, the same in all processes. The deadline holds for connecting too.
    rank : int
        This process's number, 1 to size - 1.

    Raises
    ------
    RendezvousError
        When nothing answers by the deadline; at once when what listens there does not know the secret, does not accept
        this process's, or has this rank already.
    """
    _check_size(size)
    if not isinstance(rank, int) or not 0 < rank < size:
        raise RendezvousError(
            f"rank={rank!r} cannot connect: ranks 1 to {size - 1} do, and rank 0 calls serve; pass its own"
        )
    wait = bootstrap_timeout() if deadline is None else seconds(deadline)
    due = time.monotonic() + wait
    host, port = _address(host, port)
    pause = 0.01
    last = "nothing was tried"
    tried = False
    while True:
        try:
            for family, address in _resolve(host, port):
                try:
                    channel = _attempt(family, address, secret, rank, size, due)
                except RendezvousError:
                    raise
                except (OSError, WireError) as error:  # Closed and Late are OSErrors
                    if not (
                        isinstance(error, TimeoutError) and tried
                    ):  # the last try, cut off, says less than those before
                        last = f"{where(*address[:2])}: {getattr(error, 'strerror', None) or error}"
                    tried = True
                except Refused as error:
                    raise RendezvousError(
                        f"rank {rank} and {where(host, port)}: {error}; give all processes of the job the same secret "
                        f"({VARIABLE} or {FILE}), and two jobs on one machine their own DISTARRAY_PORT"
                    ) from None
                else:
                    store = Store(channel, rank, size, (host, port), wait)
                    try:
                        store._join(max(left(due), 0.1))
                    except BaseException:
                        store._closed = True
                        channel.forget()
                        raise
                    return store
        except RendezvousError:
            raise
        except OSError as error:  # the name may come to be known: a container starts
            last = f"{host}: {error.strerror or error}"
        if left(due) == 0:
            raise RendezvousError(
                f"rank {rank} found no store at {where(host, port)} within {wait:g} s (last: {last}); start rank 0 there, "
                "check DISTARRAY_HOST and DISTARRAY_PORT, or raise DISTARRAY_BOOTSTRAP_TIMEOUT"
            )
        time.sleep(min(pause * random.uniform(0.5, 1.0), left(due)))
        pause = min(pause * 1.5, 0.25)


def _attempt(
    family: int, address: tuple[Any, ...], secret: bytes | str | None, rank: int, size: int, due: float
) -> SealedChannel:
    """One try at one address."""
    loopback = ipaddress.ip_address(address[0].partition("%")[0]).is_loopback
    key = find_secret(secret, loopback=loopback, where=where(*address[:2])).key
    due = min(due, time.monotonic() + _ATTEMPT)
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.settimeout(max(left(due), 0.05))
        sock.connect(address)
        if sock.getsockname() == sock.getpeername():  # TCP's simultaneous open with itself, where nobody listens
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raise Closed("nothing listens there")
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        return SealedChannel(sock, *greet(sock, key, rank, size, due))
    except BaseException:
        sock.close()
        raise


def _address(host: str | None, port: int | None) -> tuple[str, int]:
    host = host or os.environ.get("DISTARRAY_HOST") or "127.0.0.1"
    given: Any = port if port is not None else os.environ.get("DISTARRAY_PORT") or DEFAULT_PORT
    try:
        number = int(given)
    except (TypeError, ValueError):
        number = -1
    if not 0 <= number <= 65535:
        raise RendezvousError(f"port {given!r} is not a number from 0 to 65535; pass port, or set DISTARRAY_PORT")
    return host.strip("[]"), number


def _resolve(host: str, port: int) -> list[tuple[int, Any]]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(int(family), address) for family, _, _, _, address in found]


def _check_size(size: int) -> None:
    if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= 1 << 20:
        raise RendezvousError(f"size={size!r}, but a group has a positive number of processes; pass how many there are")
