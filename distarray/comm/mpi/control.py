"""The small messages by which MPI processes find out why one of them waits.

They travel beside the data, on tag 0, as JSON of bounded length: that a process failed, where it is and whom it waits
for, that it gave up, that it left. A process sends them without waiting and reads them whenever it waits for data, so
that one of them that stops for good is told apart from those that only wait for it.
"""

from __future__ import annotations

import json
import os
import zlib
from functools import lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from distarray.comm.base import Signature
from distarray.comm.mpi.exit import GRAVEYARD
from distarray.comm.record import Call

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["ControlMessages", "Status", "Tags", "alive"]

LONGEST = 16384
"""Bytes of a control message: short enough for every library to send eagerly."""
TEXT = 1200
"""Characters of a text in one."""


class Tags:
    """How a message's tag tells what it belongs to: a slot, a hash of the operation and its detail, and the sequence number.

    Processes that came to different operations, or to other plans of one, have different tags, so that one's data never
    lands in the other's buffers. Where the library's tags are short, the hash is left out.

    Parameters
    ----------
    upper : int
        The library's largest tag.
    turns : int
        Bits of the sequence number, whose higher part goes into the hash; the rest are the hash's.
    """

    EXCHANGE, GATHER, REST, DEBUG, SHRINK = 1, 4, 5, 6, 7  # 0 is control; 1 to 3 exchange, by the number of segments

    def __init__(self, upper: int, turns: int = 14) -> None:
        bits = min((upper + 1).bit_length() - 1, 30) - 3
        self.hashes = 1 << (bits - turns) if bits >= turns + 6 else 1
        self.range = (1 << bits) // self.hashes

    @staticmethod
    def number(signature: Signature) -> int:
        """The number that an operation and its detail are hashed to."""
        return _number(signature.operation, signature.detail)

    def tag(self, slot: int, sequence: int, signature: Signature) -> int:
        """The tag of a message in a slot of a call."""
        return self.join(slot, sequence, self.number(signature))

    def join(self, slot: int, sequence: int, number: int) -> int:
        """A tag of its three parts. What of the sequence number has no room changes the hash."""
        turn, low = divmod(sequence, self.range)
        return (low * self.hashes + (number + turn) % self.hashes) * 8 + slot

    def sequence(self, tag: int, near: int) -> int:
        """The sequence number of a tag: the one nearest to `near` that it may mean."""
        low = tag // 8 // self.hashes
        return low + round((near - low) / self.range) * self.range


@lru_cache(1 << 10)
def _number(operation: str, detail: str) -> int:
    return zlib.crc32(detail.encode(), zlib.crc32(operation.encode()))


class Status:
    """Where a peer said that it is."""

    __slots__ = ("asked", "awaits", "detail", "kind", "operation", "pair", "seen", "sequence", "text", "then")

    def __init__(self, message: dict[str, Any], seen: float) -> None:
        self.sequence = int(message["sequence"])
        self.kind = str(message["kind"])
        self.operation = str(message["operation"])
        self.detail = str(message["detail"])
        self.text = str(message["text"])
        self.awaits = [int(rank) for rank in message["awaits"]]
        self.pair = [
            int(number) for number in message.get("pair", ())
        ]  # of a message between two: see `groups.mpi_calls`
        self.asked = float(message.get("asked", 0))  # when the one who asked did so
        self.then = str(message.get("then", ""))  # in an answer: its own call of the number that it was asked about
        self.seen = seen

    @staticmethod
    def of(call: Call, awaits: list[int]) -> dict[str, Any]:
        """The content of a message that says at which call a rank is, and whom it waits for."""
        signature = call.signature
        return {
            "sequence": call.sequence, "kind": call.kind, "operation": signature.operation[:TEXT],
            "detail": signature.detail[:TEXT], "text": str(call)[:TEXT], "awaits": awaits[:256],
        }  # fmt: skip

    def differs(self, call: Call) -> bool:
        """Whether the peer is at another call with the same number."""
        signature = call.signature
        ours = call.kind, signature.operation[:TEXT], signature.detail[:TEXT]
        return self.sequence == call.sequence and (self.kind, self.operation, self.detail) != ours


class ControlMessages:
    """Sends and reads control messages of one MPI communicator. Sending never blocks and never raises."""

    TAG = 0

    def __init__(self, mpi: ModuleType, comm: MPI.Intracomm) -> None:
        self._mpi = mpi
        self._comm = comm
        self._status = mpi.Status()
        self._sent: list[tuple[Any, bytes]] = []

    def send(self, peer: int, about: str, **content: Any) -> None:
        """Send a message to a peer, or drop it where the peer is gone."""
        data = json.dumps({"about": about, **content}).encode()[:LONGEST]
        try:
            self._sent = [(request, kept) for request, kept in self._sent if not request.Test()]
            self._sent.append((self._comm.Isend([data, self._mpi.BYTE], peer, self.TAG), data))
        except self._mpi.Exception:  # the peer is gone, which others will tell
            pass

    def receive(self, source: int | None = None) -> tuple[int, dict[str, Any]] | None:
        """The next message that is there: its source and content.

        Raises
        ------
        mpi4py.MPI.Exception
            The library reports that a process failed.
        """
        mpi, comm, status = self._mpi, self._comm, self._status
        while comm.Iprobe(mpi.ANY_SOURCE if source is None else source, self.TAG, status):
            data = bytearray(status.Get_count(mpi.BYTE))
            peer = status.Get_source()
            comm.Recv([data, mpi.BYTE], peer, self.TAG)
            try:
                message = json.loads(data)
                if isinstance(message, dict) and isinstance(message.get("about"), str):
                    return peer, message
            except ValueError:  # not ours
                continue
        return None

    def settle(self) -> bool:
        """Whether all that was sent has gone out. What has not is kept until the process ends."""
        try:
            self._sent = [(request, kept) for request, kept in self._sent if not request.Test()]
        except self._mpi.Exception:
            return False
        return not self._sent

    def bury(self) -> None:
        """Keep the messages that have not gone out until the process ends: MPI may still read them."""
        GRAVEYARD.extend(self._sent)


def alive(pid: int) -> bool:
    """Whether a process of this host can still come to its end by itself: not stopped, not dead. True when unknown."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "TtZXx"
    except FileNotFoundError:
        return not os.path.exists("/proc/self/stat")
    except (OSError, IndexError):
        return True
