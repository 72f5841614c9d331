"""Python integers that no dtype holds, beside arrays: NumPy makes objects of them, and finds none that is equal, or the place where
they belong. Here they become the nearest values of the array's dtype, with the word whether they are those."""

from __future__ import annotations

from typing import Any

import numpy as np

from distarray.array.state import DistributedArray
from distarray.devices.arrays import AnyDType

__all__ = ["large_integers", "nearest"]


def large_integers(
    value: Any,  # anything that becomes an array
) -> np.ndarray[Any, np.dtype[Any]] | None:
    """An array of objects that are all integers, where NumPy makes one of the value; else None."""
    if isinstance(value, DistributedArray):
        return None
    found = np.asarray(value)
    if found.dtype != object or not all(isinstance(item, (int, np.integer)) for item in found.flat):
        return None
    return found


def nearest(integers: np.ndarray[Any, np.dtype[Any]], dtype: AnyDType) -> tuple[Any, Any] | None:
    """The values of a dtype nearest to integers, and where these lie: -1 below, 0 there, 1 above. None of what is no number."""
    flat = [int(item) for item in integers.flat]
    if dtype.kind in "biu":
        least, most = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        near = np.array([min(max(item, int(least)), int(most)) for item in flat], dtype)
        taken = [int(item) for item in near]
    elif dtype.kind in "fc":
        with np.errstate(over="ignore"):
            near = np.array([_as_float(item) for item in flat]).astype(dtype)
        taken = [float(item) for item in near.real]  # type: ignore[misc]  # an infinity is beyond every integer
    else:
        return None
    side = [(item > other) - (item < other) for item, other in zip(flat, taken, strict=True)]
    return near.reshape(integers.shape), np.array(side, np.int8).reshape(integers.shape)


def _as_float(item: int) -> float:
    try:
        return float(item)
    except OverflowError:
        return float("inf") if item > 0 else float("-inf")
