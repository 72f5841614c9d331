"""The host's BLAS on matrices where they lie: rows of a larger matrix, in either order, written in place.

SciPy's functions of these names want matrices without gaps, copy all others, and some hold the interpreter's lock. But
``scipy.linalg.cython_blas`` exports the same BLAS as function pointers with their C signatures, which is what this file
calls, through ctypes, which lets other threads go on.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from distarray.devices.arrays import DeviceArray, Library

__all__ = ["PREFIXES", "Lay", "lay_of", "lying", "solve_triangular", "subtract"]

PREFIXES = {"f": "s", "d": "d", "F": "c", "D": "z"}
"""The letter that BLAS puts before its names for each type of elements."""


class Lay(NamedTuple):
    """How a matrix lies: whether its rows, not its columns, are without gaps, and how far apart these are, in elements."""

    by_rows: bool
    apart: int


def lay_of(a: DeviceArray) -> Lay | None:
    """None where BLAS can't read it."""
    (rows, columns), (down, along), size = a.shape, a.strides, a.itemsize
    if (along == size or columns == 1) and (rows == 1 or (down >= columns * size and not down % size)):
        return Lay(True, max(columns, 1) if rows == 1 else down // size)
    if (down == size or rows == 1) and (columns == 1 or (along >= rows * size and not along % size)):
        return Lay(False, max(rows, 1) if columns == 1 else along // size)
    return None


def lying(lib: Library, a: DeviceArray) -> tuple[Any, Lay]:
    """The matrix, copied where BLAS can't read it, and how it lies."""
    lay = lay_of(a)
    return (lib.ascontiguousarray(a), Lay(True, max(a.shape[1], 1))) if lay is None else (a, lay)


class _Function(NamedTuple):
    """A function of BLAS, which takes pointers alone, and its integers."""

    call: Callable[..., None]
    integer: Any


@cache
def _function(name: str) -> _Function:
    from scipy.linalg import cython_blas

    capsule = cython_blas.__pyx_capi__[name]
    api = ctypes.pythonapi
    told = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))
    given = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
    signature = told(capsule)
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (signature.count(b",") + 1))
    return _Function(kind(given(capsule, signature)), ctypes.c_int if b" int *" in signature else ctypes.c_int64)


def _called(name: str, *arguments: Any) -> None:
    """Call it: bytes are its letters, integers its sizes, arrays their memory."""
    function = _function(name)
    pointers: list[Any] = []
    for argument in arguments:
        if isinstance(argument, int):
            pointers.append(ctypes.byref(function.integer(argument)))
        else:
            pointers.append(argument if isinstance(argument, bytes) else argument.ctypes.data)
    function.call(*pointers)


def subtract(into: DeviceArray, left: DeviceArray, right: DeviceArray) -> bool:
    """``into -= left @ right`` in one pass; False, and nothing is done, where BLAS can't write it.

    All are of one type, and `into` shares no memory with the others.
    """
    prefix, lay = PREFIXES.get(into.dtype.char), lay_of(into)
    if prefix is None or lay is None:
        return False
    if not lay.by_rows:
        into, left, right = into.T, right.T, left.T
    (left, first), (right, second) = lying(np, left), lying(np, right)
    (rows, columns), inner = into.shape, left.shape[1]
    # BLAS counts columns: the memory of a matrix by rows is to it that of its transpose
    _called(
        f"{prefix}gemm", b"N" if second.by_rows else b"T", b"N" if first.by_rows else b"T", columns, rows, inner,
        np.array(-1, into.dtype), right, second.apart, left, first.apart, np.array(1, into.dtype), into, lay.apart,
    )  # fmt: skip
    return True


def solve_triangular(a: DeviceArray, b: DeviceArray, *, lower: bool, unit: bool) -> Any:
    """``inv(a) @ b`` for a triangular matrix of the type of `b`, in the memory of `b` where BLAS can write that.

    What lies beyond the triangle is not read, nor is its diagonal where it counts as ones.
    """
    (a, first), (found, second) = lying(np, a), lying(np, b)
    rows, columns = found.shape
    size = (columns, rows) if second.by_rows else (rows, columns)
    _called(
        f"{PREFIXES[found.dtype.char]}trsm", b"R" if second.by_rows else b"L", b"L" if lower is not first.by_rows else b"U",
        b"N" if first.by_rows is second.by_rows else b"T", b"U" if unit else b"N", *size,
        np.array(1, found.dtype), a, first.apart, found, second.apart,
    )  # fmt: skip
    return found
