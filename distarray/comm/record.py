"""What a process remembers of its calls, so that an error can say what everyone was doing.

A ring buffer of the last 64 calls of a rank is cheap enough to be always on. Its tail goes into the message of a
time-out, all of it to standard error, or to the file that ``DISTARRAY_DUMP`` names. Also here: the checks of messages
that every communicator makes before it sends anything, and the text that debug mode compares between processes.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from distarray.comm.base import Message, Signature
from distarray.comm.deadlines import COLLECTIVE, collective_timeout
from distarray.devices.arrays import DeviceArray
from distarray.errors import LayoutError, UnsupportedError, read_only

__all__ = ["Call", "Recorder", "byte_views", "collective_deadline", "debug_mode", "fingerprint", "in_words", "summary"]

RING = 64
"""Calls that a rank remembers."""

Bytes = NDArray[np.uint8]


def collective_deadline(default: float | None = None) -> float:
    """Seconds that a call waits: ``DISTARRAY_TIMEOUT`` if set, else `default`, else that of `deadlines`."""
    if default is not None and not os.environ.get(COLLECTIVE[0], "").strip():
        return default
    return collective_timeout()


def debug_mode() -> bool:
    """Whether ``DISTARRAY_DEBUG`` asks that processes compare each call before they make it."""
    return os.environ.get("DISTARRAY_DEBUG", "") not in ("", "0")


class Call:
    """One call of a communicator: what it is, when, and what became of it."""

    __slots__ = ("end", "kind", "sequence", "signature", "start", "state")

    def __init__(self, sequence: int, kind: str, signature: Signature) -> None:
        self.sequence = sequence
        self.kind = kind
        self.signature = signature
        self.start = time.monotonic()
        self.end = 0.0
        self.state = "waiting"

    def finish(self, state: str = "done") -> None:
        """Take down that the call has ended, and how."""
        self.end = time.monotonic()
        self.state = state

    def same(self, other: Call) -> bool:
        """Whether two ranks are at the same call. Sites may differ: two lines may make the same call."""
        return (self.kind, self.sequence, *self.signature[:2]) == (other.kind, other.sequence, *other.signature[:2])

    def __str__(self) -> str:
        return f"call {self.sequence}, {summary(self.kind, self.signature)}"


def summary(kind: str, signature: Signature) -> str:
    """A call in one line: ``exchange for 'redistribute' (float32 (4, 4)) at program.py:12``."""
    detail = f" ({signature.detail})" if signature.detail else ""
    site = f" at {signature.site}" if signature.site else ""
    return f"{kind} for '{signature.operation}'{detail}{site}"


def in_words(error: BaseException) -> str:
    """An exception in words: its type, and its text where it has one."""
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def fingerprint(sequence: int, kind: str, signature: Signature) -> bytes:
    """16 bytes that are equal on processes at the same call. Sites may differ: two lines may make the same call."""
    text = f"{sequence}\0{kind}\0{signature.operation}\0{signature.detail}"
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


class Recorder:
    """The last 64 calls of one rank."""

    def __init__(self, rank: int, size: int) -> None:
        self.title = f"rank {rank} of {size}"
        self._calls: list[Call | None] = [None] * RING
        self._next = 0

    def begin(self, sequence: int, kind: str, signature: Signature) -> Call:
        """Remember a call that begins now."""
        return self.add(Call(sequence, kind, signature))

    def add(self, call: Call) -> Call:
        """Remember a call in the place of the oldest one."""
        self._calls[self._next] = call
        self._next = (self._next + 1) % RING
        return call

    def calls(self) -> list[Call]:
        """The calls that are remembered, the oldest first."""
        ring = self._calls[self._next :] + self._calls[: self._next]
        return [call for call in ring if call is not None]

    def format(self, last: int = RING) -> str:
        """The last calls, a line each: how long ago, how long it took, its state, what it was."""
        calls = self.calls()[-last:]
        now = time.monotonic()
        lines = [f"last {len(calls)} calls of {self.title}:"]
        for call in calls:
            took = (call.end or now) - call.start
            lines.append(f"  {now - call.start:9.3f} s ago, {took:9.6f} s, {call.state}: {call}")
        return "\n".join(lines)

    def dump(self, reason: str) -> None:
        """Write all of it to the file of ``DISTARRAY_DUMP`` (appended), else to standard error. Never raises."""
        text = f"distarray: {reason}\n{self.format()}\n"
        try:
            path = os.environ.get("DISTARRAY_DUMP", "")
            if path:
                with open(path, "a", encoding="utf-8") as file:
                    file.write(text)
            else:
                sys.stderr.write(text)
                sys.stderr.flush()
        except (OSError, ValueError, AttributeError):
            pass


def byte_views(messages: Sequence[Message], size: int, receiving: bool) -> dict[int, Bytes]:
    """Each peer's buffer as bytes, after the checks that come before anything is sent.

    Raises
    ------
    LayoutError
        A peer that does not exist or stands twice, or a buffer that is not contiguous.
    ReadOnlyError
        A buffer to receive into that cannot be written.
    UnsupportedError
        Not a NumPy array, or one of Python objects.
    """
    views: dict[int, Bytes] = {}
    for peer, buffer in messages:
        if not 0 <= peer < size or peer in views:
            problem = f"two messages for rank {peer}" if peer in views else f"a message for rank {peer} of {size}"
            raise LayoutError(f"{problem}; one message for each ordered pair of ranks in a round: pack or split them.")
        views[peer] = _bytes(buffer, peer, receiving)
    return views


def _bytes(buffer: DeviceArray, peer: int, receiving: bool) -> Bytes:
    """A buffer as bytes, after its checks."""
    if not isinstance(buffer, np.ndarray) or buffer.dtype.hasobject:
        what = type(buffer).__name__ if not isinstance(buffer, np.ndarray) else "an array of Python objects"
        raise UnsupportedError(
            f"the message for rank {peer} is {what}; this communicator moves NumPy arrays of plain numbers: "
            "copy it with np.asarray(buffer, dtype=...)."
        )
    if not buffer.flags.c_contiguous:
        raise LayoutError(
            f"the message for rank {peer} has shape {buffer.shape} and strides {buffer.strides}; a message must be "
            "C-contiguous: pass np.ascontiguousarray(buffer)."
        )
    if receiving and not buffer.flags.writeable:
        raise read_only(f"the buffer to receive from rank {peer}", "pass one made by np.empty.")
    return buffer.reshape(-1).view(np.uint8)
