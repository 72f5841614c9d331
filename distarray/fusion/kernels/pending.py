"""An expression over the chunks of one device that is not stored: what a reduction may take in place of an array."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from distarray.devices.arrays import AnyDType, DeviceArray, Library
from distarray.fusion.kernels import elementwise
from distarray.fusion.kernels.element import element_of
from distarray.fusion.kernels.later import LaterChunk, settled
from distarray.fusion.program import Program

__all__ = ["WHOLE", "PendingProgram", "as_array", "in_order"]

WHOLE = Program((), ("leaf", 0), None, (), "copy")
"""The program of an array as it is."""


class PendingProgram:
    """A program and its operands on one device.

    Attributes
    ----------
    program : Program
    operands : tuple of arrays
        They broadcast to `shape`. `sources` are the same, with chunks for those that wait to be computed.
    shape, dtype
        Of the value.
    """

    __slots__ = ("_lib", "dtype", "program", "shape", "sources", "versions")

    def __init__(
        self, lib: Library, program: Program, operands: Sequence[Any], shape: tuple[int, ...], dtype: AnyDType
    ) -> None:
        self._lib = lib
        self.program = program
        self.sources = tuple(operands)
        self.shape = shape
        self.dtype = dtype
        self.versions: tuple[Any, ...] = ()

    @property
    def operands(self) -> tuple[Any, ...]:
        if any(type(item) is LaterChunk for item in self.sources):
            self.sources = tuple(settled(self.sources))
        return self.sources

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes that a pass reads."""
        return sum([array.nbytes for array in self.sources])

    def __getitem__(self, key: tuple[slice | Any, ...]) -> PendingProgram:
        """A part, cut out by slices, one for each axis; an Ellipsis behind them is taken too."""
        slices = [k for k in key if k is not Ellipsis]
        shape = tuple([len(range(*k.indices(n))) for k, n in zip(slices, self.shape, strict=True)])
        parts = []
        for array in self.operands:
            own = slices[len(slices) - array.ndim :]
            cut = tuple([slice(None) if n == 1 else k for k, n in zip(own, array.shape, strict=True)])
            parts.append(array[cut] if cut else array)
        return PendingProgram(self._lib, self.program, parts, shape, self.dtype)

    @property
    def plain(self) -> bool:
        """Whether every operand lies in C order, so that equal values lie alike."""
        return all(array.flags.c_contiguous for array in self.operands)

    def array(self) -> Any:
        """The values, stored."""
        bound = element_of(self._lib, self.program, tuple([a.dtype for a in self.operands]), self.dtype)
        assert bound is not None  # or it would not be pending
        out = self._lib.empty(self.shape, self.dtype)
        elementwise.launch(self._lib, bound, self.operands, out)
        return out


def in_order(lib: Library, item: DeviceArray) -> Any:
    """An array in C order, or an expression of such: equal values then lie alike, and reduce to the same bits."""
    if isinstance(item, PendingProgram):
        return item if item.plain else item.array()
    return item if item.flags.c_contiguous else lib.ascontiguousarray(item)


def as_array(item: object) -> Any:
    """An array, or the values of a pending expression."""
    return item.array() if isinstance(item, PendingProgram) else item
