"""The server of the rendezvous store: one daemon thread in rank 0's process that owns every connection and all state.

One thread with non-blocking sockets needs no locks, and nothing is joined at exit; a connection costs no thread, so that
strangers cannot use them up. Until it has proved that it knows the secret a connection may send 80 bytes in 5 seconds, and
there are at most 256 such; when another comes, the oldest goes. What the members ask for is decided in members.py.
"""

from __future__ import annotations

import collections
import contextlib
import errno
import hmac
import selectors
import socket
import threading
import time
from typing import Any

from distarray.rendezvous.connection import Connection
from distarray.rendezvous.frames import (
    HELLO,
    LENGTH,
    MAX_FRAME,
    TAG,
    VERDICT,
    Frame,
    Op,
    Opener,
    Sealer,
    WireError,
    challenge_for,
    keys_of,
    pack,
    track,
    unpack,
)  # fmt: skip
from distarray.rendezvous.members import Members

__all__ = ["HANDSHAKE_SECONDS", "MAX_STRANGERS", "Server"]

HANDSHAKE_SECONDS = 5.0
FRAME_SECONDS = 10.0
MAX_STRANGERS = 256
#: What a member may leave unread before it is given up.
MAX_UNREAD = 4 * MAX_FRAME
_ACCEPTS = 64  # a turn of the loop, so that members are heard between strangers
_READS = 8
_FULL = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class Server:
    """Accepts, authenticates, reads and writes; hands messages to the group's members."""

    def __init__(self, listener: socket.socket, local: Connection, secret: bytes, size: int, where: str) -> None:
        self._listener = listener
        self._local = local
        self._secret = secret
        self.counts: collections.Counter[str] = collections.Counter()
        self.members = Members(size, where, self)
        self._selector = selectors.DefaultSelector()
        self._strangers: dict[Connection, None] = {}  # by age
        self._all: set[Connection] = {local}
        self._accept_at: float | None = None
        self._stop_at: float | None = None
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ, None)
        self._selector.register(local.sock, selectors.EVENT_READ, local)
        self.thread = threading.Thread(target=self._run, name=f"distarray-store-{where}", daemon=True)
        track(self)

    def forget(self) -> None:
        """In a forked child: close its copies. (Closing them does not touch what the parent's selector watches.)"""
        self._selector.close()
        for held in (self._listener, *(connection.sock for connection in list(self._all))):
            with contextlib.suppress(OSError):
                held.close()

    # -- the loop --------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._finished():
                for key, mask in sorted(self._selector.select(self._pause()), key=_members_first):
                    if key.data is None:
                        self._accept()
                    elif not key.data.closed:
                        self._serve(key.data, mask)
                self._tidy()
        finally:
            self.forget()

    def _pause(self) -> float | None:
        """Until the next deadline; None when there is none."""
        dues = [due for due in (self.members.next_due(), self._accept_at, self._stop_at) if due is not None]
        if self._strangers:
            dues.append(next(iter(self._strangers)).since + HANDSHAKE_SECONDS)
        if self._stop_at is not None:
            dues.append(time.monotonic() + 0.05)
        elif any(one.halfway for one in self._all):
            dues.append(time.monotonic() + 1.0)
        return max(0.0, min(dues) - time.monotonic()) if dues else None

    def _finished(self) -> bool:
        if self._stop_at is None:
            return False
        told = self.members.everyone_told() and not any(one.outbox for one in self._all)
        return told or time.monotonic() >= self._stop_at

    def _tidy(self) -> None:
        """What time alone brings: strangers that took too long, members that stopped inside a message, waits that end."""
        now = time.monotonic()
        while self._strangers and (oldest := next(iter(self._strangers))).since + HANDSHAKE_SECONDS <= now:
            self.drop(oldest, "too slow")
        for one in [one for one in self._all if one.halfway and one.since + FRAME_SECONDS <= now]:
            self.drop(one, "stopped inside a message")
        if self._accept_at is not None and self._accept_at <= now:
            self._accept_at = None
            self._selector.register(self._listener, selectors.EVENT_READ, None)
        self.members.expire(now)

    def _accept(self) -> None:
        for _ in range(_ACCEPTS):
            try:
                sock, _address = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _FULL:  # no descriptors left: look again shortly, not at once and for ever
                    if self._strangers:
                        self.drop(next(iter(self._strangers)), "crowded out")
                    self._selector.unregister(self._listener)
                    self._accept_at = time.monotonic() + 0.05
                    return
                continue  # a connection that ended before it was accepted
            self.counts["connections"] += 1
            if len(self._strangers) >= MAX_STRANGERS:
                self.drop(next(iter(self._strangers)), "crowded out")
            sock.setblocking(False)
            with contextlib.suppress(OSError):  # already reset by its peer
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = Connection(sock, "hello")
            self._all.add(connection)
            self._strangers[connection] = None
            self._selector.register(sock, selectors.EVENT_READ, connection)
            self._serve(connection, selectors.EVENT_READ)  # the hello has often come already

    def _serve(self, connection: Connection, mask: int) -> None:
        try:
            if mask & selectors.EVENT_WRITE:
                self._flush(connection)
            if mask & selectors.EVENT_READ:
                self._read(connection)
        except WireError as error:
            self.drop(connection, "malformed" if connection.opener is None else f"sent nonsense ({error})")
        except OSError as error:
            self.drop(connection, error.strerror or str(error))

    def _read(self, connection: Connection) -> None:
        """Read what is expected, never more: a stranger cannot make the server hold what it sends."""
        for _ in range(_READS):
            if connection.closed or connection.closing:
                return
            try:
                part = connection.sock.recv(connection.need - len(connection.inbox))
            except BlockingIOError:
                return
            if not part:
                self.drop(connection, "ended")
                return
            if not connection.inbox and connection.opener is not None and connection.expects == "header":
                connection.since = time.monotonic()
            connection.inbox += part
            if len(connection.inbox) == connection.need:
                data = bytes(connection.inbox)
                connection.inbox.clear()
                self._take(connection, data)

    def _take(self, connection: Connection, data: bytes) -> None:
        """A complete piece: hello, proof, a frame's header, or its body."""
        if connection.expects == "hello":
            connection.hello, connection.challenge = data, challenge_for(data)
            _, connection.rank, connection.size, _ = HELLO.unpack(data)
            connection.expects, connection.need = "proof", TAG
            self.write(connection, connection.challenge)
        elif connection.expects == "proof":
            keys = keys_of(self._secret, connection.hello, connection.challenge)
            if not hmac.compare_digest(data, keys.client_proof):
                self.write(connection, VERDICT.pack(b"N", bytes(TAG)))
                self.drop(connection, "wrong secret")
                return
            connection.opener, connection.sealer = Opener(keys.client_frames), Sealer(keys.server_frames)
            connection.expects, connection.need = "header", LENGTH.size
            self._strangers.pop(connection, None)
            self.counts["authenticated"] += 1
            self.write(connection, VERDICT.pack(b"Y", keys.server_proof))
        elif connection.expects == "header":
            connection.expects, connection.need = "body", Opener.size(data)
        else:
            assert connection.opener is not None
            connection.expects, connection.need = "header", LENGTH.size
            self._handle(connection, unpack(connection.opener.open(data)))

    def _handle(self, connection: Connection, message: Frame) -> None:
        if message.op is Op.LEAVE and connection is self._local:
            # Rank 0 goes, and the store with it: what is written still goes out, and a failure is still told.
            (linger,) = self.members.numbers(message.fields, "!d")
            self._stop_at = time.monotonic() + max(1.0, min(linger, 60.0))
        self.members.handle(connection, message)

    # -- for the members -------------------------------------------------------------------------------------------------

    def reply(self, connection: Connection, op: Op, request: int, *fields: bytes) -> None:
        """Send a message to a member; one that is lost on the way is found out by the loop."""
        if connection.closed or connection.sealer is None:
            return
        with contextlib.suppress(OSError):
            self.write(connection, connection.sealer.seal(pack(op, request, *fields)))

    def finish(self, connection: Connection) -> None:
        """Close a connection once it has been told why."""
        connection.closing = True
        if not connection.outbox:
            self.drop(connection, "refused")

    def drop(self, connection: Connection, reason: str) -> None:
        """Close a connection and forget it; the members learn it where it was one of theirs."""
        if connection.closed:
            return
        connection.closed = True
        if connection.opener is None:
            self.counts[reason] += 1
        self._strangers.pop(connection, None)
        self._all.discard(connection)
        with contextlib.suppress(KeyError, ValueError, OSError):
            self._selector.unregister(connection.sock)
        connection.sock.close()
        if connection.joined:
            self.members.lose(connection, reason)
        if connection is self._local and self._stop_at is None:
            self._stop_at = time.monotonic()

    def write(self, connection: Connection, data: bytes) -> None:
        connection.outbox += data
        if len(connection.outbox) > MAX_UNREAD:
            self.drop(connection, "does not read what it asks for")
            return
        self._flush(connection)

    def _flush(self, connection: Connection) -> None:
        try:
            while connection.outbox:
                del connection.outbox[: connection.sock.send(connection.outbox)]
        except BlockingIOError:
            pass
        want = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.outbox else 0)
        if self._selector.get_key(connection.sock).events != want:
            self._selector.modify(connection.sock, want, connection)
        if connection.closing and not connection.outbox:
            self.drop(connection, "refused")


def _members_first(ready: tuple[selectors.SelectorKey, int]) -> int:
    connection: Any = ready[0].data
    return 2 if connection is None else 0 if connection.opener is not None else 1
