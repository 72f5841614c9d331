"""How an array would lie in one memory in NumPy, which decides whether a reshape is a view there, and what contiguous means.

A storage is one array in C order; parts (``x.real``) and copies that stand for views (``x.diagonal()``) have gaps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from distarray.array.shapes import memory_order
from distarray.array.state import DistributedArray
from distarray.storage import contiguous_bytes

__all__ = ["byte_strides", "lies_in", "model"]


def byte_strides(x: DistributedArray) -> tuple[int, ...]:
    """Bytes from one element to the next along each axis. Nothing is evaluated."""
    storage = x._storage
    if 0 in x._shape and (storage is None or 0 in storage.layout.shape):  # NumPy makes arrays of nothing so
        return (0,) * len(x._shape)
    if storage is None:
        return contiguous_bytes(x._shape, x._dtype.itemsize)
    found = x._view_map().strides_over(storage.layout.shape, storage.byte_strides())
    return contiguous_bytes(x._shape, x._dtype.itemsize) if found is None else found


def model(x: DistributedArray) -> np.ndarray[Any, Any]:
    """A NumPy array with the strides of `x`. It has no memory: never read it."""
    return np.lib.stride_tricks.as_strided(np.empty(1, x._dtype), x._shape, byte_strides(x), writeable=False)


def lies_in(x: DistributedArray, order: str | None) -> bool:
    """Whether NumPy would take an array as it is where this order is asked for."""
    letter = memory_order(order, default="K")
    if letter not in ("C", "F"):
        return True
    flags = model(x).flags
    return bool(flags.c_contiguous if letter == "C" else flags.f_contiguous)
