"""What the array libraries' LAPACKs do differently: the few local steps of which NumPy and CuPy have different calls.

Everything that both have under one name (``lib.linalg.qr``, ``svd``, ``eigh`` …) is called there. On the host the steps
come from SciPy and release the interpreter's lock, which SciPy's triangular solvers hold: these go through ``getrs``, with
the identity as the other factor.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

__all__ = ["CudaLapack", "HostLapack"]


class HostLapack:
    """LAPACK of the host."""

    def raising(self) -> AbstractContextManager[Any]:
        """A block in which ``lib.linalg`` raises LinAlgError, as NumPy always does."""
        return nullcontext()

    def cholesky(self, a: Any) -> Any:
        """The lower factor of a Hermitian matrix; LinAlgError where it is not positive definite."""
        return np.linalg.cholesky(a)

    def lu(self, a: Any) -> tuple[Any, Any]:
        """L and U of a matrix in one, in Fortran order, and LAPACK's row exchanges on the host."""
        from scipy.linalg import get_lapack_funcs

        (getrf,) = get_lapack_funcs(("getrf",), (a,))
        factors, swaps, _ = getrf(a)
        return factors, swaps

    def solve_triangular(self, a: Any, b: Any, *, lower: bool, unit: bool = False) -> Any:
        """``inv(a) @ b`` for a triangular matrix; what lies beyond the triangle is not read."""
        from scipy.linalg import get_lapack_funcs

        (getrs,) = get_lapack_funcs(("getrs",), (a, b))
        still = np.arange(len(a), dtype=np.int32)
        if not lower:
            return getrs(np.asfortranarray(np.triu(a)), still, b)[0]
        if unit:
            factors = np.tril(a, -1)
            np.fill_diagonal(factors, 1)
            return getrs(np.asfortranarray(factors), still, b)[0]
        return getrs(np.asfortranarray(np.tril(a).T), still, b, trans=1)[0]


class CudaLapack:
    """cuSOLVER through CuPy."""

    def raising(self) -> AbstractContextManager[Any]:
        """A block in which ``lib.linalg`` raises LinAlgError, as NumPy always does."""
        import cupyx

        return cupyx.errstate(linalg="raise")  # type: ignore[no-any-return]

    def cholesky(self, a: Any) -> Any:
        """The lower factor of a Hermitian matrix; LinAlgError where it is not positive definite."""
        import cupy

        with self.raising():
            return cupy.linalg.cholesky(a)

    def lu(self, a: Any) -> tuple[Any, Any]:
        """L and U of a matrix in one, in Fortran order, and LAPACK's row exchanges on the host."""
        import warnings

        from cupyx.scipy.linalg import lu_factor

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an exact zero on the diagonal, which the caller looks for
            factors, swaps = lu_factor(a, check_finite=False)
        return factors, swaps.get()

    def solve_triangular(self, a: Any, b: Any, *, lower: bool, unit: bool = False) -> Any:
        """``inv(a) @ b`` for a triangular matrix; what lies beyond the triangle is not read."""
        from cupyx.scipy.linalg import solve_triangular

        return solve_triangular(a, b, lower=lower, unit_diagonal=unit, check_finite=False)
