"""One connection to the rendezvous store, as the server and the members see it.

The server reads and writes it; the members decide what is answered, through `Answers`, and know no sockets.
"""

from __future__ import annotations

import socket
import time
from typing import Protocol

from distarray.rendezvous.frames import HELLO, LENGTH, TAG, Op, Opener, Sealer

__all__ = ["Answers", "Connection"]


class Connection:
    """One accepted connection: first a stranger, a member once it has proved itself and joined."""

    def __init__(self, sock: socket.socket, expects: str) -> None:
        self.sock = sock
        self.expects = expects  # "hello", "proof", "header" or "body"
        self.need = {"hello": HELLO.size, "proof": TAG, "header": LENGTH.size}[expects]
        self.inbox = bytearray()
        self.outbox = bytearray()
        self.since = time.monotonic()  # when the message that is now expected began
        self.hello = b""
        self.challenge = b""
        self.rank = -1
        self.size = 0
        self.opener: Opener | None = None
        self.sealer: Sealer | None = None
        self.joined = False
        self.closing = False  # once the outbox is empty
        self.closed = False

    @property
    def halfway(self) -> bool:
        """Whether a message has begun and not ended."""
        return bool(self.inbox) or self.expects == "body"


class Answers(Protocol):
    """What the members ask of the server."""

    def reply(self, connection: Connection, op: Op, request: int, *fields: bytes) -> None:
        """Send a message to a member."""

    def finish(self, connection: Connection) -> None:
        """Close a connection once it has been told why."""
