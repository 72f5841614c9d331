"""Masks on host devices, in blocks whose positions stay in cache.

NumPy's own ``x[mask]`` and ``x[mask] = values`` go through the whole array once for its positions, into fresh memory, and again
for the elements. A block's positions cost no memory, and the elements go where they belong: into pooled memory, or straight into
the array that is written.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from distarray.fusion.native.vectors import compressed

__all__ = ["Pieces", "by_position", "compress", "scatter"]

BLOCK = 1 << 15
"""Elements whose positions are found at a time: 256 KiB of them."""

DENSE = 1 << 17
"""Elements that are written by a mask of mostly True at a time."""


def by_position(mask: np.ndarray[Any, Any], count: int) -> bool:
    """Whether indexing by the positions of a mask's True elements is faster than by the mask itself, whose loop is good at
    long runs alone."""
    return bool(mask.ndim == 1 and 5 * count < 4 * mask.size)


def compress(array: np.ndarray[Any, Any], mask: np.ndarray[Any, Any], out: np.ndarray[Any, Any]) -> None:
    """``out[...] = array[mask]``, the mask over leading axes."""
    if mask.ndim != 1:
        if not (mask.flags.c_contiguous and array.flags.c_contiguous):
            out[...] = array[mask]
            return
        array = array.reshape(mask.size, *array.shape[mask.ndim :])
        mask = mask.reshape(-1)
    if compressed(array, mask, out):
        return
    rows = max(1, BLOCK // prod(array.shape[1:]))
    at = 0
    for low in range(0, mask.size, rows):
        part, flags = array[low : low + rows], mask[low : low + rows]
        index = flags.nonzero()[0]
        into = out[at : at + index.size]
        at += index.size
        if index.size == flags.size:
            np.copyto(into, part)
        elif index.size:
            part.take(index, axis=0, out=into, mode="clip")  # in range; "raise" would copy twice


class Pieces:
    """Values one behind the other that lie in several arrays."""

    def __init__(self, arrays: Sequence[Any]) -> None:
        self._arrays = arrays
        self._starts = [0]
        for array in arrays:
            self._starts.append(self._starts[-1] + array.shape[0])

    def part(self, low: int, count: int) -> Any:
        """So many values from one on: a view, or a copy where they lie in several arrays."""
        i = bisect_right(self._starts, low, hi=len(self._arrays)) - 1
        found: list[Any] = []
        while count > 0 or not found:
            piece = self._arrays[i][low - self._starts[i] : low - self._starts[i] + count]
            found.append(piece)
            low, count, i = low + piece.shape[0], count - piece.shape[0], i + 1
        return found[0] if len(found) == 1 else np.concatenate(found)


def scatter(target: np.ndarray[Any, Any], mask: np.ndarray[Any, Any], count: int, values: Pieces, at: int = 0) -> None:
    """``target[mask] = values`` for one value each of `count` True, in C order; the first stands at `at`."""
    if mask.ndim != 1:
        target[mask] = values.part(at, count)
        return
    sparse = by_position(mask, count)
    rows = max(1, (BLOCK if sparse else DENSE) // prod(target.shape[1:]))
    for low in range(0, mask.size, rows):
        flags = mask[low : low + rows]
        index = flags.nonzero()[0] if sparse else flags
        here: int = index.size if sparse else int(np.count_nonzero(flags))
        target[low : low + rows][index] = values.part(at, here)
        at += here
