"""Folds of rows that wait for the expression that uses them: ``e / e.sum(axis=1, keepdims=True)`` then reads its operands once.

A reduction along whole last axes makes a chunk whose array is computed when it is first asked for. An expression that is
evaluated over such chunks asks the kernel of rows first (:mod:`distarray.fusion.kernels.rows`), which folds and uses a row while
it holds it. Nothing else knows of them: whoever reads ``chunk.array`` gets values.

What waits reads the chunks of a version, and must not keep them from being written or freed: the version knows its
`readers`, which run before it is written and when it is let go of.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

from distarray.devices import Chunk, Device
from distarray.devices.arrays import AnyDType, DeviceArray
from distarray.fusion.program import Program

__all__ = ["Later", "LaterChunk", "Readers", "lazily", "settled"]


class Later:
    """One fold of the rows of one chunk.

    Attributes
    ----------
    name : str
        Of the ufunc that folds.
    program : Program
    operands : tuple
        Arrays, and chunks that wait themselves.
    shape : tuple of int
        Of what is folded, along its last axis.
    dtype : dtype
        In which elements are folded.
    out : array
        Where the fold goes, with the axis kept.
    """

    __slots__ = ("__weakref__", "_task", "dtype", "name", "operands", "out", "program", "shape")

    def __init__(
        self, name: str, program: Program, operands: Sequence[Any], shape: tuple[int, ...], dtype: AnyDType, out: DeviceArray,
        task: Callable[[], None],
    ) -> None:  # fmt: skip
        self.name = name
        self.program = program
        self.operands = tuple(operands)
        self.shape = shape
        self.dtype = dtype
        self.out = out
        self._task: Callable[[], None] | None = task

    @property
    def waits(self) -> bool:
        """Whether it has not been computed yet."""
        return self._task is not None

    def run(self) -> None:
        """Compute it by itself."""
        task = self._task
        if task is not None:
            task()
            self.done()

    def done(self) -> None:
        """Take note that it is computed, and let go of what it reads."""
        self._task = None
        self.operands = ()


class LaterChunk(Chunk):
    """A chunk whose array is computed when it is first asked for."""

    __slots__ = ("later",)

    def __init__(self, device: Device, later: Later) -> None:
        self.later: Later | None = later
        super().__init__(device, later.out)

    @property
    def array(self) -> Any:
        later = self.later
        if later is not None:
            later.run()
            self.later = None
        return _held.__get__(self)

    @array.setter
    def array(self, value: object) -> None:
        _held.__set__(self, value)

    @array.deleter
    def array(self) -> None:
        _held.__delete__(self)

    def counted(self) -> bool:
        try:
            _held.__get__(self)
        except AttributeError:
            return False
        return True

    def __del__(self) -> None:
        self.later = None  # what nobody asks for is not computed
        super().__del__()


_held: Any = Chunk.__dict__["array"]


class Readers:
    """The folds that read a version and wait."""

    __slots__ = ("_folds",)

    def __init__(self) -> None:
        self._folds: list[ref[Later]] = []

    def add(self, later: Later) -> None:
        """One more; those that are gone or done make room."""
        self._folds = [held for held in self._folds if (fold := held()) is not None and fold.waits]
        self._folds.append(ref(later))

    def run(self) -> None:
        """Compute them all."""
        folds, self._folds = self._folds, []
        for held in folds:
            later = held()
            if later is not None:
                later.run()

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self.run()


def lazily(chunk: Chunk) -> Any:
    """A chunk that waits, as it is; else its array."""
    if type(chunk) is LaterChunk and chunk.later is not None and chunk.later.waits:
        return chunk
    return chunk.array


def settled(operands: Sequence[Any]) -> list[Any]:
    """Arrays, with those that wait computed."""
    return [item.array if type(item) is LaterChunk else item for item in operands]
