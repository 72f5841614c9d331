"""What the rendezvous store says on the wire: the handshake, the frames, and reading and writing them by a deadline.

Nothing here is unpickled or evaluated: messages are a code and byte fields, each length checked before anything is read.

The handshake is a challenge and response in both directions (the form of ISO/IEC 9798-4, mutual, with HMAC-SHA256)::

    client -> server   hello: magic, rank, size, nonce
    server -> client   challenge: magic, nonce
    client -> server   HMAC(secret, "client proof", hello, challenge)
    server -> client   HMAC(secret, "server proof", hello, challenge)

Both nonces are fresh, so a recorded answer fits no other connection; the labels keep one direction's answer from serving
as the other's. Every later frame carries a MAC over its number and content, by a key of this connection and direction:
bytes cannot be inserted, repeated, reordered or taken from another connection. Content is not encrypted.
"""

from __future__ import annotations

import contextlib
import enum
import hmac
import os
import secrets
import selectors
import socket
import struct
import time
import weakref
from typing import NamedTuple, Protocol

from distarray.comm.deadlines import left

__all__ = [
    "CHALLENGE", "HELLO", "MAGIC", "MAX_FRAME", "MAX_KEY", "MAX_MEETING", "MAX_VALUE", "NONCE", "TAG", "VERDICT",
    "SealedChannel", "Closed", "Keys", "Late", "Frame", "Op", "Opener", "Refused", "Sealer", "WireError",
    "challenge_for", "greet", "keys_of", "pack", "receive", "send", "track", "unpack",
]  # fmt: skip

MAGIC = b"distarr\x01"  # the last byte is the protocol's version
NONCE = 32
TAG = 32
HELLO = struct.Struct(f"!{len(MAGIC)}sII{NONCE}s")
CHALLENGE = struct.Struct(f"!{len(MAGIC)}s{NONCE}s")
VERDICT = struct.Struct(f"!c{TAG}s")
LENGTH = struct.Struct("!I")
CODE = struct.Struct("!BI")
NUMBER = struct.Struct("!QI")

MAX_KEY = 512
MAX_VALUE = 1 << 20
#: What the values of all ranks at one meeting may have together.
MAX_MEETING = 64 << 20
MAX_FRAME = MAX_MEETING + 8192


class WireError(ValueError):
    """The other side sent what no distarray process sends."""


class Refused(Exception):
    """The handshake ended in a no: trying again is no use."""


class Closed(ConnectionError):
    """The other side closed the connection, or it broke."""


class Late(TimeoutError):
    """The deadline passed."""


class Op(enum.IntEnum):
    """What a message is."""

    JOIN = 1
    SET = 2
    GET = 3
    WAIT = 4
    MEET = 5
    FAIL = 6
    AGREE = 7
    LEAVE = 8
    DONE = 32  # replies
    ERROR = 33
    FAILURE = 34  # unasked: a rank has failed


class Frame(NamedTuple):
    op: Op
    request: int
    fields: tuple[bytes, ...]


def pack(op: Op, request: int, *fields: bytes) -> bytes:
    """A message's bytes: code, number of the request, and each field after its length."""
    return b"".join([CODE.pack(op, request), *(part for field in fields for part in (LENGTH.pack(len(field)), field))])


def unpack(data: bytes) -> Frame:
    """A message from its bytes; WireError unless they are exactly one."""
    if len(data) < CODE.size:
        raise WireError(f"a message of {len(data)} bytes has no code")
    code, request = CODE.unpack_from(data)
    try:
        op = Op(code)
    except ValueError:
        raise WireError(f"unknown code {code}") from None
    fields = []
    at = CODE.size
    while at < len(data):
        if at + LENGTH.size > len(data):
            raise WireError("a field's length is cut off")
        (size,) = LENGTH.unpack_from(data, at)
        at += LENGTH.size
        if size > len(data) - at:
            raise WireError(f"a field of {size} bytes in the {len(data) - at} that are left")
        fields.append(data[at : at + size])
        at += size
    return Frame(op, request, tuple(fields))


# -- authentication ------------------------------------------------------------------------------------------------------


class Keys(NamedTuple):
    """What secret and both nonces give: a proof and a key of frames for each direction."""

    client_proof: bytes
    server_proof: bytes
    client_frames: bytes
    server_frames: bytes


def keys_of(secret: bytes, hello: bytes, challenge: bytes) -> Keys:
    """Proofs and keys of one connection; all inputs but the secret have fixed lengths, the labels end with a NUL."""
    labels = (b"client proof\0", b"server proof\0", b"client frames\0", b"server frames\0")
    return Keys(
        *(hmac.digest(secret, b"distarray rendezvous " + label + hello + challenge, "sha256") for label in labels)
    )


def challenge_for(hello: bytes) -> bytes:
    """The server's answer to a hello; WireError for what is none."""
    magic, _, _, _ = HELLO.unpack(hello)
    if magic != MAGIC:
        raise WireError("not a hello of this version of distarray")
    return CHALLENGE.pack(MAGIC, secrets.token_bytes(NONCE))


class Sealer:
    """Numbers and signs the frames of one direction."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._number = 0

    def seal(self, payload: bytes) -> bytes:
        tag = hmac.digest(self._key, NUMBER.pack(self._number, len(payload)) + payload, "sha256")
        self._number += 1
        return LENGTH.pack(len(payload)) + payload + tag


class Opener:
    """Checks the frames of one direction."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._number = 0

    @staticmethod
    def size(header: bytes) -> int:
        """Bytes that follow a frame's header; WireError above the bound, before any of them is read."""
        (length,) = LENGTH.unpack(header)
        if not CODE.size <= length <= MAX_FRAME:
            raise WireError(f"a frame of {length} bytes, outside {CODE.size} to {MAX_FRAME}")
        return int(length) + TAG

    def open(self, body: bytes) -> bytes:
        payload, tag = body[:-TAG], body[-TAG:]
        want = hmac.digest(self._key, NUMBER.pack(self._number, len(payload)) + payload, "sha256")
        if not hmac.compare_digest(want, tag):
            raise WireError("a frame's signature does not fit")
        self._number += 1
        return payload


def greet(sock: socket.socket, secret: bytes, rank: int, size: int, due: float) -> tuple[Sealer, Opener]:
    """The client's side of the handshake on a connected, non-blocking socket.

    Raises
    ------
    Refused
        The server refused the proof, or could not prove that it knows the secret itself.
    Closed, Late, WireError
        The connection ended, the deadline passed, or something else listens there.
    """
    hello = HELLO.pack(MAGIC, rank, size, secrets.token_bytes(NONCE))
    send(sock, hello, due)
    challenge = receive(sock, CHALLENGE.size, due)
    if challenge[: len(MAGIC)] != MAGIC:
        raise WireError("what listens there is not a store of this version of distarray")
    keys = keys_of(secret, hello, challenge)
    send(sock, keys.client_proof, due)
    answer, proof = VERDICT.unpack(receive(sock, VERDICT.size, due))
    if answer != b"Y":
        raise Refused("the store there does not accept this process's secret")
    if not hmac.compare_digest(proof, keys.server_proof):
        raise Refused("what listens there does not know this job's secret")
    return Sealer(keys.client_frames), Opener(keys.server_frames)


# -- sockets -------------------------------------------------------------------------------------------------------------


def ready(sock: socket.socket, event: int, due: float) -> None:
    """Wait until a non-blocking socket can be read or written."""
    with selectors.DefaultSelector() as selector:
        selector.register(sock, event)
        if not selector.select(left(due)):
            raise Late("the deadline passed")


def send(sock: socket.socket, data: bytes, due: float) -> None:
    """Write all of it."""
    view = memoryview(data)
    while view:
        try:
            view = view[sock.send(view) :]
        except BlockingIOError:
            ready(sock, selectors.EVENT_WRITE, due)
        except OSError as error:
            raise Closed(error.strerror or str(error)) from error


def receive(sock: socket.socket, size: int, due: float) -> bytes:
    """Read exactly so many bytes. Late means that none had come: what stops in the middle counts as closed."""
    data = bytearray()
    while len(data) < size:
        try:
            part = sock.recv(min(size - len(data), 1 << 16))
        except BlockingIOError:
            if data and time.monotonic() > due:  # a sender of one byte at a time must not stretch the deadline
                raise Closed("a message stopped in the middle") from None
            try:
                ready(sock, selectors.EVENT_READ, due)
            except Late as error:
                if data:
                    raise Closed("a message stopped in the middle") from error
                raise
            continue
        except OSError as error:
            raise Closed(error.strerror or str(error)) from error
        if not part:
            raise Closed("the other side closed the connection")
        data += part
    return bytes(data)


class SealedChannel:
    """A connection after its handshake, as the client holds it."""

    def __init__(self, sock: socket.socket, sealer: Sealer, opener: Opener) -> None:
        self.sock = sock
        self._sealer = sealer
        self._opener = opener
        track(self)

    def send(self, message: bytes, due: float) -> None:
        send(self.sock, self._sealer.seal(message), due)

    def receive(self, due: float) -> Frame:
        """The next message. A deadline between two frames leaves the channel usable; one inside a frame breaks it."""
        header = receive(self.sock, LENGTH.size, due)
        try:
            return unpack(self._opener.open(receive(self.sock, self._opener.size(header), due)))
        except Late as error:
            raise Closed("a message stopped in the middle") from error

    def forget(self) -> None:
        """Close this process's end, saying nothing."""
        with contextlib.suppress(OSError):
            self.sock.close()


class _Forgetful(Protocol):
    def forget(self) -> None: ...


#: What holds sockets: a forked child closes its copies, else they would keep a dead process's connections open.
_tracked: weakref.WeakSet[_Forgetful] = weakref.WeakSet()


def track(holder: _Forgetful) -> None:
    """Have ``holder.forget()`` called in forked children."""
    _tracked.add(holder)


def _in_child() -> None:
    for holder in list(_tracked):
        holder.forget()
    _tracked.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
