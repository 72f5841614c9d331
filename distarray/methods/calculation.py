"""Methods that compute: element by element, products, reductions."""

from __future__ import annotations

from typing import Any

from distarray.array.aliases import ArrayLike, Axis, DTypeLike, Out
from distarray.array.documented import described_as
from distarray.array.functions import NOTHING
from distarray.array.state import DistributedArray
from distarray.linalg import dots
from distarray.ops import (
    choosing,
    complex_numbers,
    diagonals,
    moments,
    reductions,
    scans,
    searching,
)

__all__ = ["CalculationMethods"]


class CalculationMethods(DistributedArray):
    """Given to the array by ``distributed_array.py``."""

    __slots__ = ()

    # --- element-wise ----------------------------------------------------------------------------------------------------

    @property
    def real(self) -> DistributedArray:
        """The real part; of complex arrays a view."""
        return complex_numbers.real(self)

    @real.setter
    def real(self, value: ArrayLike) -> None:
        complex_numbers.set_part(self, "real", value)

    @property
    def imag(self) -> DistributedArray:
        """The imaginary part: a view, or read-only zeros where the array is real."""
        return complex_numbers.imag(self)

    @imag.setter
    def imag(self, value: ArrayLike) -> None:
        if self._dtype.kind != "c":
            raise TypeError("array does not have imaginary part to set")
        complex_numbers.set_part(self, "imag", value)

    @described_as(complex_numbers.conj)
    def conj(self, out: Out = None) -> Any:
        """The complex conjugate; recorded for complex arrays, the array itself for others."""
        return complex_numbers.conj(self, out)

    @described_as(complex_numbers.conj)
    def conjugate(self, out: Out = None) -> Any:
        """The complex conjugate; recorded for complex arrays, the array itself for others."""
        return complex_numbers.conj(self, out)

    @described_as(choosing.clip)
    def clip(
        self,
        min: ArrayLike | None = None,
        max: ArrayLike | None = None,
        out: Out = None,
        *,
        where: ArrayLike = True,
        casting: str = "same_kind",
        dtype: DTypeLike = None,
        order: str = "K",
        subok: bool = True,
    ) -> Any:
        """Elements brought into an interval; see :func:`distarray.clip`."""
        return choosing.clip(self, min, max, out, where=where, casting=casting, dtype=dtype)

    @described_as(choosing.round)
    def round(self, decimals: int = 0, out: Out = None) -> Any:
        """Elements rounded to a number of decimals, halves to even."""
        return choosing.round(self, decimals, out)

    # --- products and reductions -----------------------------------------------------------------------------------------

    def dot(self, other: ArrayLike, /, out: Out = None) -> Any:
        """Dot product over the last axis and the last but one (or only) of `other`; see :func:`distarray.dot`.

        Parameters
        ----------
        other : array_like
            The second factor.
        out : DistributedArray or numpy.ndarray, optional
            Where to put the result.

        Returns
        -------
        DistributedArray

        Raises
        ------
        ValueError
            The lengths along the summed axes differ.

        Notes
        -----
        Communication: as for :func:`distarray.dot`.
        """
        return dots.dot(self, other, out)

    @described_as(diagonals.diagonal)
    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> DistributedArray:
        """Diagonals, a read-only copy; see :func:`distarray.diagonal`."""
        return diagonals.diagonal(self, offset, axis1, axis2)

    @described_as(diagonals.trace)
    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike = None, out: Out = None) -> Any:
        """Sums of diagonals; see :func:`distarray.trace`."""
        return diagonals.trace(self, offset, axis1, axis2, dtype, out)

    @described_as(reductions.sum)
    def sum(
        self,
        axis: Axis = None,
        dtype: DTypeLike = None,
        out: Out = None,
        keepdims: bool = NOTHING,
        initial: ArrayLike | None = NOTHING,
        where: ArrayLike = NOTHING,
    ) -> Any:
        """Sum of the elements along axes; see :func:`distarray.sum`."""
        return reductions.sum(self, axis, dtype, out, keepdims, initial, where)

    @described_as(reductions.prod)
    def prod(
        self,
        axis: Axis = None,
        dtype: DTypeLike = None,
        out: Out = None,
        keepdims: bool = NOTHING,
        initial: ArrayLike | None = NOTHING,
        where: ArrayLike = NOTHING,
    ) -> Any:
        """Product of the elements along axes; see :func:`distarray.prod`."""
        return reductions.prod(self, axis, dtype, out, keepdims, initial, where)

    @described_as(reductions.max)
    def max(
        self,
        axis: Axis = None,
        out: Out = None,
        keepdims: bool = NOTHING,
        initial: ArrayLike | None = NOTHING,
        where: ArrayLike = NOTHING,
    ) -> Any:
        """Largest element along axes; see :func:`distarray.max`."""
        return reductions.max(self, axis, out, keepdims, initial, where)

    @described_as(reductions.min)
    def min(
        self,
        axis: Axis = None,
        out: Out = None,
        keepdims: bool = NOTHING,
        initial: ArrayLike | None = NOTHING,
        where: ArrayLike = NOTHING,
    ) -> Any:
        """Smallest element along axes; see :func:`distarray.min`."""
        return reductions.min(self, axis, out, keepdims, initial, where)

    @described_as(reductions.any)
    def any(self, axis: Axis = None, out: Out = None, keepdims: bool = NOTHING, *, where: ArrayLike = NOTHING) -> Any:
        """Whether any element along axes is not zero; see :func:`distarray.any`."""
        return reductions.any(self, axis, out, keepdims, where=where)

    @described_as(reductions.all)
    def all(self, axis: Axis = None, out: Out = None, keepdims: bool = NOTHING, *, where: ArrayLike = NOTHING) -> Any:
        """Whether all elements along axes are not zero; see :func:`distarray.all`."""
        return reductions.all(self, axis, out, keepdims, where=where)

    @described_as(moments.mean)
    def mean(
        self,
        axis: Axis = None,
        dtype: DTypeLike = None,
        out: Out = None,
        keepdims: bool = NOTHING,
        *,
        where: ArrayLike = NOTHING,
    ) -> Any:
        """Mean of the elements along axes; see :func:`distarray.mean`."""
        return moments.mean(self, axis, dtype, out, keepdims, where=where)

    @described_as(moments.var)
    def var(
        self,
        axis: Axis = None,
        dtype: DTypeLike = None,
        out: Out = None,
        ddof: float = 0,
        keepdims: bool = NOTHING,
        *,
        where: ArrayLike = NOTHING,
        mean: ArrayLike = NOTHING,
        correction: float = NOTHING,
    ) -> Any:
        """Variance of the elements along axes; see :func:`distarray.var`."""
        return moments.var(self, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction)

    @described_as(moments.std)
    def std(
        self,
        axis: Axis = None,
        dtype: DTypeLike = None,
        out: Out = None,
        ddof: float = 0,
        keepdims: bool = NOTHING,
        *,
        where: ArrayLike = NOTHING,
        mean: ArrayLike = NOTHING,
        correction: float = NOTHING,
    ) -> Any:
        """Standard deviation of the elements along axes; see :func:`distarray.std`."""
        return moments.std(self, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction)

    @described_as(searching.argmax)
    def argmax(self, axis: int | None = None, out: Out = None, *, keepdims: bool = NOTHING) -> Any:
        """Position of the largest element along an axis; see :func:`distarray.argmax`."""
        return searching.argmax(self, axis, out, keepdims=keepdims)

    @described_as(searching.argmin)
    def argmin(self, axis: int | None = None, out: Out = None, *, keepdims: bool = NOTHING) -> Any:
        """Position of the smallest element along an axis; see :func:`distarray.argmin`."""
        return searching.argmin(self, axis, out, keepdims=keepdims)

    @described_as(scans.cumsum)
    def cumsum(self, axis: int | None = None, dtype: DTypeLike = None, out: Out = None) -> Any:
        """Sums of all elements up to each one along an axis; see :func:`distarray.cumsum`."""
        return scans.cumsum(self, axis, dtype, out)

    @described_as(scans.cumprod)
    def cumprod(self, axis: int | None = None, dtype: DTypeLike = None, out: Out = None) -> Any:
        """Products of all elements up to each one along an axis; see :func:`distarray.cumprod`."""
        return scans.cumprod(self, axis, dtype, out)
