"""Masks on host devices, in blocks whose positions stay in cache.

NumPy's own ``x[mask]`` and ``x[mask] = values`` go through the whole array once for its positions, into fresh memory, and again
for the elements. A block's positions cost no memory, and the elements go where they belong: into pooled memory, or straight into
the array that is written.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

__all__ = ["by_position", "compress", "scatter"]

BLOCK = 1 << 15
"""Elements whose positions are found at a time: 256 KiB of them."""


def by_position(mask: Any, count: int) -> bool:
    """Whether indexing by the positions of a mask's True elements is faster than by the mask itself, whose loop is good at
    long runs alone."""
    return bool(mask.ndim == 1 and 5 * count < 4 * mask.size)


def compress(array: Any, mask: Any, out: Any) -> None:
    """``out[...] = array[mask]``, the mask over leading axes."""
    if mask.ndim != 1:
        if not (mask.flags.c_contiguous and array.flags.c_contiguous):
            out[...] = array[mask]
            return
        array = array.reshape(mask.size, *array.shape[mask.ndim :])
        mask = mask.reshape(-1)
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


def scatter(target: Any, mask: Any, count: int, values: Any) -> None:
    """``target[mask] = values`` for one value each of `count` True, in C order."""
    if not by_position(mask, count):
        target[mask] = values
        return
    rows = max(1, BLOCK // prod(target.shape[1:]))
    at = 0
    for low in range(0, mask.size, rows):
        index = mask[low : low + rows].nonzero()[0]
        target[low : low + rows][index] = values[at : at + index.size]
        at += index.size
