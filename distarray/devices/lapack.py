"""What the array libraries' LAPACKs do differently: the few local steps of which NumPy and CuPy have different calls.

Everything that both have under one name (``lib.linalg.qr``, ``svd``, ``eigh`` …) is called there. On the host the steps
come from SciPy and release the interpreter's lock, which SciPy's triangular solvers hold: these go through ``blas``.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from distarray.devices.arrays import DeviceArray

from . import blas

__all__ = ["CudaLapack", "HostLapack"]


class HostLapack:
    """LAPACK of the host."""

    def load(self) -> None:
        """Load the libraries, before the threads of those that are loaded are counted."""
        import scipy.linalg.cython_blas  # noqa: F401 - for what it loads

    def raising(self) -> AbstractContextManager[Any]:
        """A block in which ``lib.linalg`` raises LinAlgError, as NumPy always does."""
        return nullcontext()

    def cholesky(self, a: DeviceArray) -> Any:
        """The lower factor of a Hermitian matrix; LinAlgError where it is not positive definite."""
        return np.linalg.cholesky(a)

    def lu(self, a: DeviceArray) -> tuple[Any, Any]:
        """L and U of a matrix in one, in Fortran order, and LAPACK's row exchanges on the host."""
        from scipy.linalg import get_lapack_funcs

        (getrf,) = get_lapack_funcs(("getrf",), (a,))
        factors, swaps, _ = getrf(a)
        return factors, swaps

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

    def cholesky(self, a: DeviceArray) -> Any:
        """The lower factor of a Hermitian matrix; LinAlgError where it is not positive definite."""
        import cupy

        with self.raising():
            return cupy.linalg.cholesky(a)

    def lu(self, a: DeviceArray) -> tuple[Any, Any]:
        """L and U of a matrix in one, in Fortran order, and LAPACK's row exchanges on the host."""
        import warnings

        from cupyx.scipy.linalg import lu_factor

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an exact zero on the diagonal, which the caller looks for
            factors, swaps = lu_factor(a, check_finite=False)
        return factors, swaps.get()

    def solve_triangular(self, a: DeviceArray, b: DeviceArray, *, lower: bool, unit: bool = False) -> Any:
        """``inv(a) @ b`` for a triangular matrix; what lies beyond the triangle is not read. The memory of `b` may be used."""
        from cupyx.scipy.linalg import solve_triangular

        return solve_triangular(a, b, lower=lower, unit_diagonal=unit, check_finite=False)

    def subtract(self, into: DeviceArray, left: DeviceArray, right: DeviceArray) -> bool:
        """False: CuPy has no call that adds to a part of a matrix."""
        return False
