"""Sums of rows of a few elements on host devices: NumPy calls its loop for each row, which costs more than the additions.

Added in the order in which NumPy adds such a row, the bits are its own: by a kernel, or column by column.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from distarray.fusion.native.vectors import rows_summed

__all__ = ["sum_short_rows"]

LONGEST = 8
"""Up to here NumPy adds one by one, and eight in pairs."""

BLOCK_BYTES = 1 << 19
"""Of rows that are added at a time: they are read from cache for each column. Of smaller blocks threads wait for the interpreter
more than they add."""

START = float(np.add.reduce(np.array([-0.0])))
"""What NumPy adds a row to: it shows in the sign of a zero."""

LEAST = 1024
"""Fewer rows are NumPy's."""


def sum_short_rows(array: np.ndarray[Any, Any], out: np.ndarray[Any, Any]) -> bool:
    """``np.add.reduce(array, axis=-1, out=out)``; False where that does not serve."""
    dtype = array.dtype
    if array.ndim < 2 or not 2 <= array.shape[-1] <= LONGEST or array.size < LEAST * array.shape[-1]:
        return False
    if dtype.kind != "f" or dtype.itemsize not in (4, 8) or not dtype.isnative or out.dtype != dtype:
        return False
    if not array.flags.c_contiguous or not out.flags.c_contiguous or "raise" in np.geterr().values():
        return False
    n = array.shape[-1]
    rows, sums = array.reshape(-1, n), out.reshape(-1)
    if rows_summed(rows, sums, START):
        return True
    most = BLOCK_BYTES // (n * dtype.itemsize)
    for low in range(0, sums.size, most):
        columns = rows[low : low + most].T
        total = sums[low : low + most]
        if n < LONGEST:
            np.add(columns[0], columns[1], out=total)
            for column in columns[2:]:
                np.add(total, column, out=total)
        else:
            pairs = [np.add(columns[i], columns[i + 1]) for i in range(0, n, 2)]
            np.add(np.add(pairs[0], pairs[1], out=total), np.add(pairs[2], pairs[3], out=pairs[2]), out=total)
        np.add(total, dtype.type(START), out=total)
    return True
