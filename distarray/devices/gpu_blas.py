"""cuBLAS and cuSOLVER on matrices where they lie: rows of a larger matrix, in either order, written in place.

CuPy's functions of these names copy what they read or write, and some wait for the GPU to say whether it could. Here nothing is
copied and nothing is waited for, so that work for other GPUs is queued meanwhile. ``blas`` does the same on hosts.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from distarray.devices.arrays import DeviceArray, Library
from distarray.devices.blas import PREFIXES, lay_of, lying

__all__ = ["cholesky_columns", "lu_columns", "multiply_rows", "qr", "solve_triangular", "subtract"]


class _Kind(NamedTuple):
    """cuBLAS's numbers for the elements and for the precision in which it adds, and 1, 0 and -1 as it reads them."""

    elements: int
    added: int
    scalars: Any


_KINDS = {
    np.dtype("float16"): _Kind(2, 68, np.array([1, 0, -1], np.float32)),
    np.dtype("float32"): _Kind(0, 68, np.array([1, 0, -1], np.float32)),
    np.dtype("float64"): _Kind(1, 70, np.array([1, 0, -1], np.float64)),
    np.dtype("complex64"): _Kind(4, 68, np.array([1, 0, -1], np.complex64)),
    np.dtype("complex128"): _Kind(5, 70, np.array([1, 0, -1], np.complex128)),
}
"""CUDA_R_16F, CUDA_R_32F, CUDA_R_64F, CUDA_C_32F, CUDA_C_64F; CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_64F: what CuPy's own products
are computed in."""

_ANY = -1
_LOWER, _UPPER = 0, 1
_LEFT, _RIGHT = 0, 1
_AS_IS, _TRANSPOSED = 0, 1


def _multiply(lib: Library, left: DeviceArray, right: DeviceArray, into: DeviceArray, factor: int, before: int) -> bool:
    """``into = factor * (left @ right) + before * into`` for numbers by their place among a kind's scalars; False, and nothing is
    done, where cuBLAS does not read or write it."""
    kind, lay = _KINDS.get(into.dtype), lay_of(into)
    if kind is None or lay is None or not left.dtype == right.dtype == into.dtype or not (left.size and right.size):
        return False
    if not lay.by_rows:
        into, left, right = into.T, right.T, left.T
    first, second = lay_of(left), lay_of(right)
    if first is None or second is None:
        return False
    rows, columns = into.shape
    place, item = kind.scalars.ctypes.data, kind.scalars.itemsize
    # of memory by rows it sees the transpose: the product of the transposes, in the other order, is that of the result
    lib.cuda.cublas.gemmEx(
        lib.cuda.device.get_cublas_handle(), int(not second.by_rows), int(not first.by_rows), columns, rows, left.shape[1],
        place + factor * item, right.data.ptr, kind.elements, second.apart, left.data.ptr, kind.elements, first.apart,
        place + before * item, into.data.ptr, kind.elements, lay.apart, kind.added, _ANY,
    )  # fmt: skip
    return True


def multiply_rows(lib: Library, left: DeviceArray, right: DeviceArray, into: DeviceArray) -> bool:
    """``into = left @ right`` on the current device; False, and nothing is done, where cuBLAS does not read or write it."""
    return _multiply(lib, left, right, into, 0, 1)


def subtract(lib: Library, into: DeviceArray, left: DeviceArray, right: DeviceArray) -> bool:
    """``into -= left @ right`` on the current device; False, and nothing is done, where cuBLAS does not read or write it."""
    return _multiply(lib, left, right, into, 2, 0)


def solve_triangular(lib: Library, a: DeviceArray, b: DeviceArray, *, lower: bool, unit: bool) -> Any:
    """``inv(a) @ b`` for a triangular matrix of the type of `b`, in the memory of `b` where cuBLAS can write that.

    What lies beyond the triangle is not read, nor is its diagonal where it counts as ones.
    """
    (a, first), (found, second) = lying(lib, a), lying(lib, b)
    rows, columns = found.shape
    if not found.size:
        return found
    kind, prefix = _KINDS[found.dtype], PREFIXES[found.dtype.char]
    size = (columns, rows) if second.by_rows else (rows, columns)
    getattr(lib.cuda.cublas, f"{prefix}trsm")(
        lib.cuda.device.get_cublas_handle(), _RIGHT if second.by_rows else _LEFT,
        _LOWER if lower is not first.by_rows else _UPPER, _AS_IS if first.by_rows is second.by_rows else _TRANSPOSED,
        int(unit), *size, kind.scalars.ctypes.data, a.data.ptr, first.apart, found.data.ptr, second.apart,
    )  # fmt: skip
    return found


def cholesky_columns(lib: Library, columns: DeviceArray) -> None:
    """Replace the lower triangle of a Hermitian matrix, whose columns are the rows of `columns`, by its factor's, with zeros in
    the other; where it is not positive definite, by NaN behind -1."""
    n, apart = columns.shape[0], columns.strides[0] // columns.itemsize
    solver, prefix = lib.cuda.cusolver, PREFIXES[columns.dtype.char]
    handle, place = lib.cuda.device.get_cusolver_handle(), columns.data.ptr
    length = getattr(solver, f"{prefix}potrf_bufferSize")(handle, _LOWER, n, place, apart)
    room, failed = lib.empty(length, columns.dtype), lib.empty(1, np.int32)
    getattr(solver, f"{prefix}potrf")(handle, _LOWER, n, place, apart, room.data.ptr, length, failed.data.ptr)
    columns[...] = lib.where(failed != 0, columns.dtype.type(np.nan), lib.triu(columns))
    columns[0, :1] = lib.where(failed != 0, columns.dtype.type(-1), columns[0, :1])


def lu_columns(lib: Library, columns: DeviceArray) -> Any:
    """Replace a matrix, whose columns are the rows of `columns`, by L and U in one; returns LAPACK's exchanges of rows."""
    width, rows = columns.shape
    apart = columns.strides[0] // columns.itemsize
    solver, prefix = lib.cuda.cusolver, PREFIXES[columns.dtype.char]
    handle, place = lib.cuda.device.get_cusolver_handle(), columns.data.ptr
    length = getattr(solver, f"{prefix}getrf_bufferSize")(handle, rows, width, place, apart)
    room, failed = lib.empty(length, columns.dtype), lib.empty(1, np.int32)
    swaps = lib.empty(min(rows, width), np.int32)
    getattr(solver, f"{prefix}getrf")(handle, rows, width, place, apart, room.data.ptr, swaps.data.ptr, failed.data.ptr)
    swaps -= 1
    return swaps


def qr(lib: Library, a: DeviceArray, mode: str) -> Any:
    """``lib.linalg.qr``; nothing is waited for.

    cuSOLVER never ends where a column has an infinity or NaN below zeros. It reads zeros for such columns, and what LAPACK derives
    from them is NaN: these columns, and from the first on the reflectors, the rows of R and the columns of Q.
    """
    rows, columns = a.shape[-2:]
    if not a.size:
        return lib.linalg.qr(a, mode=mode)
    good = lib.isfinite(a).all(axis=-2)
    place = lib.arange(columns)
    none = max(rows, columns)
    first = lib.where(good, none, place).min(axis=-1)[..., None]
    last = rows - 1 if a.dtype.kind != "c" else rows  # a reflector of one row is the identity
    first = lib.where(first == last, none, first)
    found = lib.linalg.qr(lib.where(good[..., None], lib.swapaxes(a, -1, -2), 0).swapaxes(-1, -2), mode=mode)
    after = place >= first
    parts = list(found) if isinstance(found, tuple) else [found]
    r = parts[0] if mode == "raw" else parts[-1].swapaxes(-1, -2)  # columns, each with its rows
    down = lib.arange(r.shape[-1])
    lost = ~good[..., None] | after[..., None] & (down >= first)[..., None, :]
    if mode == "raw":
        parts[1][(after & (place != last))[..., : parts[1].shape[-1]]] = lib.nan
    else:
        lost &= place[:, None] >= down
    r[lost] = lib.nan
    if len(parts) == 2 and mode != "raw":
        q = parts[0].swapaxes(-1, -2)
        q[lib.broadcast_to(lib.arange(q.shape[-2]) >= first, q.shape[:-1])] = lib.nan
    return found
