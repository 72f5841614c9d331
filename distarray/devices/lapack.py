"""What the array libraries' LAPACKs do differently: the few local steps of which NumPy and CuPy have different calls.

Everything that both have under one name (``lib.linalg.svd``, ``eigh`` …) is called there. On the host the steps
come from SciPy and release the interpreter's lock, which SciPy's triangular solvers hold: these go through ``blas``. On GPUs they
go through ``gpu_blas``.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from distarray.devices.arrays import DeviceArray

from . import blas, gpu_blas

__all__ = ["CudaLapack", "HostLapack"]


class HostLapack:
    """LAPACK of the host."""

    def load(self) -> None:
        """Load the libraries, before the threads of those that are loaded are counted."""
        import scipy.linalg.cython_blas  # noqa: F401 - for what it loads

    def raising(self) -> AbstractContextManager[Any]:
        """A block in which ``lib.linalg`` raises LinAlgError, as NumPy always does."""
        return nullcontext()

    def qr(self, a: DeviceArray, mode: str = "reduced") -> Any:
        """Q and R, or what else the mode says, as ``numpy.linalg.qr``."""
        return np.linalg.qr(a, mode)  # type: ignore[call-overload]

    def cholesky(self, a: DeviceArray) -> Any:
        """The lower factor of a Hermitian matrix; LinAlgError where it is not positive definite."""
        return np.linalg.cholesky(a)

    def cholesky_columns(self, columns: DeviceArray) -> None:
        """Replace the lower triangle of a Hermitian matrix, whose columns are the rows of `columns`, by its factor's, with zeros in
        the other; where it is not positive definite, by NaN behind -1."""
        try:
            columns[...] = np.linalg.cholesky(columns.T).T
        except np.linalg.LinAlgError:
            columns[...] = np.nan
            columns[0, 0] = -1

    def lu_columns(self, columns: DeviceArray) -> Any:
        """Replace a matrix, whose columns are the rows of `columns`, by L and U in one; returns LAPACK's exchanges of rows."""
        from scipy.linalg import get_lapack_funcs

        (getrf,) = get_lapack_funcs(("getrf",), (columns,))
        factors, swaps, _ = getrf(columns.T)
        columns[...] = factors.T
        return swaps

    def solve_triangular(self, a: DeviceArray, b: DeviceArray, *, lower: bool, unit: bool = False) -> Any:
        """``inv(a) @ b`` for a triangular matrix; what lies beyond the triangle is not read. The memory of `b` is used."""
        return blas.solve_triangular(a, b, lower=lower, unit=unit)

    def subtract(self, into: DeviceArray, left: DeviceArray, right: DeviceArray) -> bool:
        """``into -= left @ right`` without memory for the product, and True; False, and nothing done, where that can't be."""
        return blas.subtract(into, left, right)


class CudaLapack:
    """cuSOLVER through CuPy."""

    def load(self) -> None:
        """Nothing: CuPy loads its libraries."""

    def raising(self) -> AbstractContextManager[Any]:
        """A block in which ``lib.linalg`` raises LinAlgError, as NumPy always does."""
        import cupyx

        return cupyx.errstate(linalg="raise")  # type: ignore[no-any-return]

    def qr(self, a: DeviceArray, mode: str = "reduced") -> Any:
        """Q and R, or what else the mode says, as ``numpy.linalg.qr``; nothing is waited for."""
        import cupy

        return gpu_blas.qr(cupy, a, mode)

    def cholesky(self, a: DeviceArray) -> Any:
        """The lower factor of a Hermitian matrix; LinAlgError where it is not positive definite."""
        import cupy

        with self.raising():
            return cupy.linalg.cholesky(a)

    def cholesky_columns(self, columns: DeviceArray) -> None:
        """As that of the host; nothing is waited for."""
        import cupy

        gpu_blas.cholesky_columns(cupy, columns)

    def lu_columns(self, columns: DeviceArray) -> Any:
        """As that of the host; nothing is waited for."""
        import cupy

        return gpu_blas.lu_columns(cupy, columns)

    def solve_triangular(self, a: DeviceArray, b: DeviceArray, *, lower: bool, unit: bool = False) -> Any:
        """``inv(a) @ b`` for a triangular matrix; what lies beyond the triangle is not read. The memory of `b` is used."""
        import cupy

        return gpu_blas.solve_triangular(cupy, a, b, lower=lower, unit=unit)

    def subtract(self, into: DeviceArray, left: DeviceArray, right: DeviceArray) -> bool:
        """``into -= left @ right`` without memory for the product, and True; False, and nothing done, where that can't be."""
        import cupy

        return gpu_blas.subtract(cupy, into, left, right)
