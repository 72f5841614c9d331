"""Products of matrices on a GPU into rows of a larger one: cuBLAS writes them where they belong, CuPy by way of a copy."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from distarray.devices.arrays import DeviceArray, Library

__all__ = ["multiply_rows"]


class _Kind(NamedTuple):
    """cuBLAS's numbers for the elements and for the precision in which it adds, and 1 and 0 as it reads them."""

    elements: int
    added: int
    scalars: Any


_KINDS = {
    np.dtype("float16"): _Kind(2, 68, np.array([1, 0], np.float32)),
    np.dtype("float32"): _Kind(0, 68, np.array([1, 0], np.float32)),
    np.dtype("float64"): _Kind(1, 70, np.array([1, 0], np.float64)),
}
"""CUDA_R_16F, CUDA_R_32F, CUDA_R_64F; CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_64F: what CuPy's own products are computed in."""

_ANY = -1


def _lay(a: DeviceArray) -> tuple[int, int] | None:
    """Whether cuBLAS, which counts by columns, takes a matrix of this memory as it is (0) or transposed (1), and how far apart its
    rows or columns lie; None where it can't read it."""
    (rows, columns), (down, along), size = a.shape, a.strides, a.itemsize
    if along == size and not down % size and down >= columns * size:
        return 0, down // size
    if down == size and not along % size and along >= rows * size:
        return 1, along // size
    return None


def multiply_rows(lib: Library, left: DeviceArray, right: DeviceArray, into: DeviceArray) -> bool:
    """``into = left @ right`` on the current device; False, and nothing is done, where cuBLAS does not read or write it."""
    kind = _KINDS.get(into.dtype)
    lies = [_lay(a) for a in (left, right, into)] if kind is not None and left.size and right.size else [None]
    if kind is None or None in lies or not left.dtype == right.dtype == into.dtype:
        return False
    (first, first_apart), (second, second_apart), (turned, apart) = lies  # type: ignore[misc]
    if turned:
        return False
    rows, columns = into.shape
    one = kind.scalars.ctypes.data
    # of memory by rows it sees the transpose: the product of the transposes, in the other order, is that of the result
    lib.cuda.cublas.gemmEx(
        lib.cuda.device.get_cublas_handle(), second, first, columns, rows, left.shape[1], one, right.data.ptr, kind.elements,
        second_apart, left.data.ptr, kind.elements, first_apart, one + kind.scalars.itemsize, into.data.ptr, kind.elements,
        apart, kind.added, _ANY,
    )  # fmt: skip
    return True
