"""One round of messages between processes: every piece that one process has for another, packed in one message.

Sender and receiver walk the same plan in the same order, so that a message needs no header: its pieces are where the
plan says, and a mark of the plan is in its tag. Staging buffers hold what is in flight, and only that.
"""

from __future__ import annotations

import math
import sys
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from distarray.comm.base import Message, Signature
from distarray.devices.arrays import AnyDType, DeviceArray, Library

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = ["Round", "site"]

ALIGN = 16
"""Pieces begin at multiples of this, so that every dtype can be read in place."""


class Round:
    """Collects the pieces of one round, then exchanges them.

    Every process calls :meth:`mark` with the same texts, and :meth:`carry` for its own pieces, to and from each other
    process in the same order as there; calls for pieces of others are passed over. Every process runs the round.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self.rank = context.process
        self._out: dict[int, list[Any]] = {}
        self._in: dict[int, list[tuple[tuple[int, ...], Any]]] = {}
        self._slots: list[tuple[int, int]] = []
        self._received: dict[int, list[Any]] = {}
        self._into: dict[int, Any] = {}
        self._marked = 0

    def mark(self, *what: Any) -> None:
        """Say of the round what is the same on all processes that make it, and differs where another plan is followed."""
        self._marked = crc32(" ".join(map(str, what)).encode(), self._marked)

    def carry(
        self,
        sender: int,
        receiver: int,
        array: DeviceArray | None,
        shape: tuple[int, ...],
        dtype: AnyDType,
        into: DeviceArray | None = None,
    ) -> int:
        """One piece from process `sender` to process `receiver`; `array` is the data, in the sender.

        A message of one piece needs no staging: it is sent from where it lies, if that is contiguous, and received in
        `into`, if the receiver names a contiguous array of its first device.

        Returns the number to ask :meth:`received` for, in the receiver; -1 elsewhere.
        """
        if sender == receiver:
            return -1
        if sender == self.rank:
            self._out.setdefault(receiver, []).append(array)
        elif receiver == self.rank:
            pieces = self._in.setdefault(sender, [])
            pieces.append((shape, dtype))
            self._into[sender] = into if len(pieces) == 1 and self._direct(into) else None
            self._slots.append((sender, len(pieces) - 1))
            return len(self._slots) - 1
        return -1

    def run(self, operation: str) -> None:
        """Pack, exchange and unpack. Called by every process, also by those that have no piece in the round."""
        communicator = self.context.communicator
        assert communicator is not None
        device = self.context.local_devices[0]
        lib = device.lib
        with device.active():
            with self.context.reporting():
                sends = self._packed(lib)
                receives = self._awaited(lib)
            detail = f"plan {self._marked:08x}"
            if self.context.debug:
                trace, last = self.context.trace
                detail += f", after operations {trace:08x}, the last {last}"
            communicator.exchange(sends, receives, Signature(operation, detail, site()))

    def _packed(self, lib: Library) -> list[Message]:
        stage = self.context.local_devices[0]
        sends = []
        for peer, arrays in sorted(self._out.items()):
            if len(arrays) == 1 and self._direct(arrays[0]):
                sends.append(Message(peer, _bytes_of(arrays[0])))
                continue
            total = sum(_padded(a.nbytes) for a in arrays) if len(arrays) > 1 else arrays[0].nbytes
            staging = lib.empty(total, np.uint8)
            offset = 0
            for array in arrays:
                owner = next(d for d in self.context.local_devices if d.owns(array))
                stage.copy(_cut(staging, offset, array.shape, array.dtype), array, owner)
                offset += _padded(array.nbytes)
            sends.append(Message(peer, staging))
        return sends

    def _awaited(self, lib: Library) -> list[Message]:
        receives = []
        for peer, pieces in sorted(self._in.items()):
            if (into := self._into.get(peer)) is not None:
                receives.append(Message(peer, _bytes_of(into)))
                self._received[peer] = [into]
                continue
            offset, places = 0, []
            for shape, dtype in pieces:
                places.append(offset)
                offset += _padded(_nbytes(shape, dtype))
            staging = lib.empty(offset if len(pieces) > 1 else _nbytes(*pieces[0]), np.uint8)
            receives.append(Message(peer, staging))
            self._received[peer] = [
                _cut(staging, at, shape, dtype) for at, (shape, dtype) in zip(places, pieces, strict=True)
            ]
        return receives

    def _direct(self, array: DeviceArray | None) -> bool:
        return array is not None and bool(array.flags.c_contiguous) and self.context.local_devices[0].owns(array)

    def received(self, slot: int) -> Any:
        """The array of a piece that arrived, on the process's first device."""
        sender, number = self._slots[slot]
        return self._received[sender][number]


def _nbytes(shape: tuple[int, ...], dtype: AnyDType) -> int:
    return int(dtype.itemsize) * math.prod(shape)


def _padded(nbytes: int) -> int:
    return -(-nbytes // ALIGN) * ALIGN


def _bytes_of(array: DeviceArray) -> Any:
    return array.reshape(-1).view(np.uint8)


def _cut(staging: DeviceArray, offset: int, shape: tuple[int, ...], dtype: AnyDType) -> Any:
    return staging[offset : offset + _nbytes(shape, dtype)].view(dtype).reshape(shape)


def site() -> str:
    """The caller's line, for messages about a communication that failed."""
    frame = sys._getframe(1)
    while id(code := frame.f_code) in _OURS or _is_ours(frame):
        if frame.f_back is None:
            break
        frame = frame.f_back
    return f"{code.co_filename}:{frame.f_lineno}"


_OURS: dict[int, CodeType] = {}
"""Code of this package's and NumPy's modules that a call has come through, by identity: its hash takes longer than all else."""


def _is_ours(frame: FrameType) -> bool:
    ours = str(frame.f_globals.get("__name__")).startswith(("distarray.", "numpy."))
    if ours and len(_OURS) < 1 << 13:
        _OURS[id(frame.f_code)] = frame.f_code
    return ours
