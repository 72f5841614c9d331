"""An operand on the way through several steps of an algorithm, and tasks that are each one device's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np

from distarray.context import Context
from distarray.devices import Chunk, arrays_of, in_turn
from distarray.layout import Layout
from distarray.storage import Operand
from distarray.transfer.execute import redistribute

__all__ = ["Held", "run_by_device"]


class Held(NamedTuple):
    """An operand, with the chunks that its arrays are of where it owns them: they count on their devices as long."""

    operand: Operand
    chunks: Sequence[Chunk | None] | None = None

    @classmethod
    def of(cls, layout: Layout, chunks: Sequence[Chunk | None], dtype: np.dtype[Any]) -> Self:
        return cls(Operand(layout, arrays_of(chunks), dtype), chunks)

    def moved(self, context: Context, target: Layout, name: str) -> Self:
        """The same values in another layout."""
        found = self.operand
        if target is found.layout and self.chunks is not None:
            return self
        chunks = redistribute(context, found, target, operation=name, chunks=self.chunks)
        return self.of(target, chunks, found.dtype)


def run_by_device(
    context: Context, tasks: Sequence[tuple[int, Callable[[], None]]], nbytes: int, *, guarded: bool = False
) -> None:
    """Run tasks that are each a device's, those of one device in order.

    `guarded`: the caller sees to it that the processes agree on what fails; else a failure here reaches the others.
    """
    work: dict[int, list[Callable[[], None]]] = {}
    for device_id, task in tasks:
        work.setdefault(device_id, []).append(task)
    with nullcontext() if guarded else context.reporting(), np.errstate(all="ignore"):
        context.workers.run([partial(in_turn, own) for own in work.values()], nbytes)
