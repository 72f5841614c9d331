"""Convolution with a kernel of some dozens to hundreds of elements as matrix products.

A row of results is a longer row of the array times one small matrix, whose columns hold the kernel, each one element lower
than the one before: a Toeplitz matrix. The products multiply by its zeros too, and take half the time of one scalar product for
each result, since BLAS keeps what it reads in registers. Where infinities and NaN stand, zeros would spread them: there the
library convolves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from distarray.devices.arrays import DeviceArray

__all__ = ["convolved"]

WIDTH = 128
"""Results in a row."""

ROWS = 256
"""Rows multiplied at once: what is read and written stays in the core's cache."""

LEAST, MOST = 32, 512
"""Lengths of kernels: shorter and longer ones are faster by scalar products."""


def convolved(part: np.ndarray[Any, Any], kernel: np.ndarray[Any, Any], start: int, out: np.ndarray[Any, Any]) -> bool:
    """Fill `out` with the elements from `start` on of the full convolution of two host arrays; False where that is not the way."""
    m, step, dtype, stop = kernel.size, ROWS * WIDTH, out.dtype, start + out.size
    if dtype not in (np.float32, np.float64) or not LEAST <= m <= MOST or out.size < step:
        return False
    part, kernel = part.astype(dtype, copy=False), kernel.astype(dtype, copy=False)
    if not np.isfinite(kernel).all():
        return False
    matrix = np.zeros((WIDTH + m - 1, WIDTH), dtype)
    for column in range(WIDTH):
        matrix[column : column + m, column] = kernel[::-1]
    rows = np.empty((ROWS, WIDTH + m - 1), dtype)
    for first in range(start, stop, step):
        read = _with_zeros(part, first - m + 1, step + m - 1)
        into = out[first - start : first - start + step]
        if not np.isfinite(read).all():
            into[...] = np.convolve(read, kernel, "valid")[: into.size]
            continue
        rows[...] = np.lib.stride_tricks.sliding_window_view(read, rows.shape[1])[::WIDTH]
        if into.size == step:
            np.dot(rows, matrix, out=into.reshape(ROWS, WIDTH))
        else:
            into[...] = np.dot(rows, matrix).reshape(-1)[: into.size]
    return True


def _with_zeros(part: DeviceArray, first: int, size: int) -> Any:
    """Elements from `first` on, with zeros where the array has none."""
    if first >= 0 and first + size <= part.size:
        return part[first : first + size]
    padded = np.zeros(size, part.dtype)
    low, high = max(first, 0), min(first + size, part.size)
    padded[low - first : high - first] = part[low:high]
    return padded
