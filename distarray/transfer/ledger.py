"""The ledger: every byte that moves between devices is seen here, and can be counted or forbidden in a block."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from distarray.errors import ImplicitCommunicationError

__all__ = ["Ledger", "Move", "Watch", "watching"]


class Move(NamedTuple):
    """One message: what one device sends to another in one round of one operation.

    Parameters
    ----------
    source, target : int
        The ids of the device that sends and of the one that receives.
    nbytes : int
        The message's length in bytes.
    operation : str
        The name of the operation.
    """

    source: int
    target: int
    nbytes: int
    operation: str


@dataclass
class Ledger:
    """What was moved between devices while a ``with distarray.ledger() as log`` block was open.

    Parameters
    ----------
    moves : list of Move
        One entry for each message (everything one device sends to another in one round).
    rounds : int
        Communication rounds: messages of one round do not wait for each other.
    bytes_to_host : int
        Bytes copied out of chunks to Python, whoever asked: ``get``, ``float``, ``repr``, or NumPy's own code that needs
        the values (``np.r_[x, x]``). Not part of `bytes_moved`.
    peak_temporary : int
        The largest receive buffer that any device needed in one operation, in bytes.
    """

    moves: list[Move] = field(default_factory=list)
    rounds: int = 0
    bytes_to_host: int = 0
    peak_temporary: int = 0

    @property
    def bytes_moved(self) -> int:
        """Bytes that left one device for another."""
        return sum(move.nbytes for move in self.moves)

    @property
    def messages(self) -> int:
        """How many messages were sent."""
        return len(self.moves)

    def __repr__(self) -> str:
        host = f", {self.bytes_to_host} bytes to the host" if self.bytes_to_host else ""
        return f"Ledger({self.bytes_moved} bytes in {self.messages} messages, {self.rounds} rounds{host})"


@dataclass
class Watch:
    """What is open around the running code: ledgers to write to, and whether implicit communication is forbidden.

    `recorded` holds the expressions recorded inside, by identity, so that the block can demand them before it closes.
    Those that have been evaluated, or taken in by others, are dropped from it and from those of the blocks around.
    """

    ledgers: tuple[Ledger, ...] = ()
    forbidden: bool = False
    outer: Watch | None = None
    recorded: dict[int, Any] = field(default_factory=dict)

    def drop(self, item: object) -> None:
        watch: Watch | None = self
        while watch is not None:
            watch.recorded.pop(id(item), None)
            watch = watch.outer


watching: ContextVar[Watch | None] = ContextVar("distarray_watch", default=None)


def note(
    messages: dict[tuple[int, int], int], rounds: int, operation: str, *, explicit: bool, temporary: int = 0
) -> None:
    """Enter one operation's messages (``(source, target) → bytes``, one dict entry a message) in the open ledgers.

    Raises
    ------
    ImplicitCommunicationError
        Where implicit communication is forbidden and the user did not ask for this move. Raised before anything moves.
    """
    watch = watching.get()
    if watch is None:
        return
    if messages and watch.forbidden and not explicit:
        total = sum(messages.values())
        raise ImplicitCommunicationError(
            f"{operation} would move {total} bytes in {len(messages)} messages between devices, inside "
            f"no_implicit_communication(). Give the operands one layout first, with x.reshard(layout) or "
            f"x.change_mode('replica'), or run {operation} outside the block."
        )
    for ledger in watch.ledgers:
        ledger.moves.extend(Move(s, t, nbytes, operation) for (s, t), nbytes in messages.items())
        ledger.rounds += rounds
        ledger.peak_temporary = max(ledger.peak_temporary, temporary)


def note_to_host(nbytes: int) -> None:
    """Enter bytes that were copied out to Python."""
    watch = watching.get()
    if watch is not None:
        for ledger in watch.ledgers:
            ledger.bytes_to_host += nbytes
