"""The array's methods: the doors that stand above all functions, each a line that opens one.

What an array is stands in ``array/state.py``, its operators in ``array/operators.py``, and what Python and NumPy call in
``protocols.py``. The code is short: most of the file is NumPy's signatures and docstrings, where ``help`` and type checkers look.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from distarray.array import elements
from distarray.array.aliases import ArrayLike, Arrays, Axis, DeviceLike, DTypeLike, Fields, File, Out, ShapeLike
from distarray.array.documented import described_as
from distarray.array.functions import NOTHING
from distarray.array.methods import array_methods
from distarray.array.operators import Operators
from distarray.array.scalars import Scalars, new
from distarray.array.state import DistributedArray
from distarray.linalg import dots
from distarray.ops import (
    choosing,
    complex_numbers,
    convert,
    diagonals,
    manipulation,
    memory,
    moments,
    placing,
    reductions,
    repeating,
    reshaping,
    saving,
    scans,
    searching,
    selecting,
    sorting,
    taking,
)
from distarray.ops import flat as flats
from distarray.protocols import Protocols, as_numpy
from distarray.transfer.asking import ensure_asked

__all__ = ["DistributedArray"]


class Methods(DistributedArray):
    """Given to the array below."""

    __slots__ = ()

    # --- indexing -----------------------------------------------------------------------------------------------------

    @property
    def T(self) -> DistributedArray:
        """The array with its axes reversed: a view."""
        return elements.transposed(self)

    @property
    def flat(self) -> flats.Flat:
        """The elements in C order: iterate over them, read ``x.flat[key]``, write ``x.flat[key] = value``.

        Notes
        -----
        Communication: iterating brings them to every process; slices as :func:`distarray.ravel`, index arrays as
        :func:`distarray.take` and :func:`distarray.put`.
        """
        return flats.Flat(self)

    @flat.setter
    def flat(self, value: ArrayLike) -> None:
        flats.set_flat(self, value)

    @described_as(choosing.fill)
    def fill(self, value: ArrayLike) -> None:
        """Write one value into every element."""
        choosing.fill(self, value)

    @described_as(taking.take)
    def take(self, indices: ArrayLike, /, axis: int | None = None, out: Out = None, mode: str = "raise") -> Any:
        """Elements along an axis, or of the flattened array; see :func:`distarray.take`."""
        return taking.take(self, indices, axis, out, mode)

    @described_as(placing.put)
    def put(self, indices: ArrayLike, values: ArrayLike, /, mode: str = "raise") -> None:
        """Write values to positions in C order; see :func:`distarray.put`.

        Parameters
        ----------
        indices : array_like of int
            Positions in C order.
        values : array_like
            Repeated where there are fewer.
        """
        placing.put(self, indices, values, mode)

    @described_as(taking.compress)
    def compress(self, condition: ArrayLike, /, axis: int | None = None, out: Out = None) -> Any:
        """The slices along an axis where a condition holds; see :func:`distarray.compress`."""
        return taking.compress(condition, self, axis, out)

    @described_as(selecting.choose)
    def choose(self, choices: Arrays, /, out: Out = None, mode: str = "raise") -> Any:
        """Elements of the arrays whose numbers this array holds; see :func:`distarray.choose`."""
        return selecting.choose(self, choices, out, mode)

    @described_as(repeating.repeat)
    def repeat(self, repeats: ArrayLike, /, axis: int | None = None) -> DistributedArray:
        """Each element repeated along an axis, or of the flattened array; see :func:`distarray.repeat`."""
        return repeating.repeat(self, repeats, axis)

    @described_as(searching.nonzero)
    def nonzero(self) -> tuple[DistributedArray, ...]:
        """Positions of the elements that are not zero, one array for each axis; see :func:`distarray.nonzero`."""
        return searching.nonzero(self)

    @described_as(sorting.sort_in_place)
    def sort(
        self,
        axis: int = -1,
        kind: str | None = None,
        order: Fields = None,
        *,
        stable: bool | None = None,
        descending: bool = False,
    ) -> None:
        """Sort in place along an axis, stably; see :func:`distarray.sort`."""
        sorting.sort_in_place(self, axis, kind, order, stable=stable, descending=descending)

    @described_as(sorting.argsort)
    def argsort(
        self,
        axis: int | None = -1,
        kind: str | None = None,
        order: Fields = None,
        *,
        stable: bool | None = None,
        descending: bool = False,
    ) -> DistributedArray:
        """The positions that sort the array along an axis; see :func:`distarray.argsort`."""
        return sorting.argsort(self, axis, kind, order, stable=stable, descending=descending)

    @described_as(sorting.partition_in_place)
    def partition(self, kth: ArrayLike, /, axis: int = -1, kind: str = "introselect", order: Fields = None) -> None:
        """Put the elements at `kth` in their places, in place; see :func:`distarray.partition`."""
        sorting.partition_in_place(self, kth, axis, kind, order)

    @described_as(sorting.argpartition)
    def argpartition(
        self,
        kth: ArrayLike,
        /,
        axis: int | None = -1,
        kind: str = "introselect",
        order: Fields = None,
    ) -> DistributedArray:
        """Positions that partition the array along an axis; see :func:`distarray.argpartition`."""
        return sorting.argpartition(self, kth, axis, kind, order)

    @described_as(sorting.searchsorted)
    def searchsorted(self, v: ArrayLike, /, side: str = "left", sorter: ArrayLike | None = None) -> DistributedArray:
        """Where values belong in the array, which is sorted; see :func:`distarray.searchsorted`."""
        return sorting.searchsorted(self, v, side, sorter)

    # --- to Python ----------------------------------------------------------------------------------------------------

    def to_numpy(self, dtype: DTypeLike = None) -> Any:
        """The global value as a new ``numpy.ndarray``: what plotting libraries look for.

        Parameters
        ----------
        dtype : dtype, optional
            Default: the array's.

        Returns
        -------
        numpy.ndarray

        Notes
        -----
        Communication: as for :meth:`get`.
        """
        ensure_asked(sys._getframe(1), self.nbytes)
        return as_numpy(self, dtype)

    def item(self, *args: Any) -> Any:
        """One element as a Python scalar.

        Parameters
        ----------
        *args : int or tuple of int
            Where: a position in C order, or an index for each axis. Of an array of one element, nothing.

        Returns
        -------
        scalar
            A Python number.

        Raises
        ------
        ValueError
            Without an index, the array has more than one element; or there are not as many indices as axes.
        IndexError
            The index is out of bounds.

        Notes
        -----
        Communication: the element, to every process.
        """
        if args:
            index = args if len(args) > 1 else args[0]
            if isinstance(index, tuple):
                index = tuple(operator.index(i) for i in index)
                if len(index) != self.ndim:
                    raise ValueError(f"incorrect number of indices for array: {len(index)} for {self.ndim} axes")
            else:
                flat = operator.index(index)
                if not -self.size <= flat < self.size:
                    raise IndexError(f"index {flat} is out of bounds for size {self.size}")
                index = np.unravel_index(flat % self.size, self._shape) if self._shape else ()
            return self[tuple(map(int, index))].get().item()
        if self.size != 1:
            raise ValueError("can only convert an array of size 1 to a Python scalar")
        return self.get().item()

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers.

        Returns
        -------
        list, or a number for a 0-d array

        Notes
        -----
        Communication: as for :meth:`get`.
        """
        return self.get().tolist()

    def tobytes(self, order: str | None = "C") -> bytes:
        """The values' bytes, in C or Fortran order.

        Parameters
        ----------
        order : {"C", "F", "A"}
            The order of the elements.

        Returns
        -------
        bytes

        Notes
        -----
        Communication: as for :meth:`get`.
        """
        return self.get().tobytes(order)  # type: ignore[no-any-return]

    @described_as(saving.tofile)
    def tofile(self, fid: File, sep: str = "", format: str = "%s") -> None:
        """Write the elements to a file, every device its own; see :func:`distarray.tofile`."""
        saving.tofile(self, fid, sep, format)

    def dump(self, file: File) -> None:
        """Pickle the array to a file.

        Parameters
        ----------
        file : str, path or binary file
            Where to write; NumPy's array, not a distributed one.

        Notes
        -----
        Communication: as for :meth:`get`.
        """
        self.get().dump(file)

    def dumps(self) -> bytes:
        """The array's value as a pickle.

        Returns
        -------
        bytes
            Of NumPy's array, not a distributed one.

        Notes
        -----
        Communication: as for :meth:`get`.
        """
        return self.get().dumps()  # type: ignore[no-any-return]

    # --- conversion ---------------------------------------------------------------------------------------------------

    @described_as(convert.copy)
    def copy(self, order: str = "C") -> DistributedArray:
        """A copy in the layout that the view shows; it shares buffers until one of the two is written to."""
        return convert.copy(self, order)

    @described_as(convert.converted)
    def astype(
        self,
        dtype: DTypeLike,
        order: str = "K",
        casting: str = "unsafe",
        subok: bool = True,
        copy: bool = True,
        *,
        device: DeviceLike = None,
    ) -> DistributedArray:
        """The array converted to another dtype; recorded, not evaluated. See :func:`distarray.astype`.

        Parameters
        ----------
        device : Group, int or list of int, optional
            Where the result lives: by default where the array does.
        """
        result: DistributedArray = convert.converted(self, dtype, order, casting, subok, copy)
        return result if device is None else convert.asarray(result, device=device)

    @described_as(convert.to_device)
    def to_device(self, device: DeviceLike | str, /, *, stream: object = None) -> Any:
        """The array on other devices of its context; on ``"cpu"`` as a NumPy array."""
        return convert.to_device(self, device, stream=stream)

    # --- memory -------------------------------------------------------------------------------------------------------

    @described_as(memory.view)
    def view(self, dtype: DTypeLike = None, type: type[Any] | None = None) -> DistributedArray:
        """Another view of the array, with another dtype one of the same bytes.

        Where the size of an element differs, and the array is a view of a reshaped one, it is a read-only copy.
        """
        return memory.view(self, dtype, type)

    @described_as(memory.byteswap)
    def byteswap(self, inplace: bool = False) -> DistributedArray:
        """The elements with the order of their bytes reversed."""
        return memory.byteswap(self, inplace)

    @property
    def flags(self) -> memory.Flags:
        """What NumPy says of an array's memory, of one array in C order; ``x.flags.writeable`` can be set."""
        return memory.Flags(self)

    @described_as(memory.set_flags)
    def setflags(self, write: bool | None = None, align: bool | None = None, uic: bool | None = None) -> None:
        """Set whether the array may be written to. A copy that stands for a view of NumPy's stays read-only."""
        memory.set_flags(self, write, align, uic)

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next along each axis, in one array in C order that would hold them all."""
        return memory.strides(self)

    @property
    def base(self) -> DistributedArray | None:
        """The whole array that this one is a view of, a new object; None for one that is no view."""
        return memory.base(self)

    # --- shape --------------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes; set it to reshape the array in place, where that needs no copy."""
        return self._shape

    @shape.setter
    def shape(self, shape: ShapeLike) -> None:
        reshaping.set_shape(self, shape)

    @described_as(memory.resize)
    def resize(self, *new_shape: Any, refcheck: bool = True) -> None:
        """Change the shape in place, by cutting elements off at the end or adding zeros.

        Views of the array keep the old one.
        """
        memory.resize(self, *new_shape, refcheck=refcheck)

    def reshape(self, *shape: ShapeLike, order: str = "C", copy: bool | None = None) -> DistributedArray:
        """The elements in another shape: ``x.reshape(2, 3)`` or ``x.reshape((2, 3))``; see :func:`distarray.reshape`.

        Parameters
        ----------
        *shape : int, or one sequence of int
            One length may be -1: it follows from the others.
        order : {"C", "F", "A"}
            In which order elements are read and put.
        copy : bool, optional
            True: always a copy. False: never; an error where one is needed.

        Returns
        -------
        DistributedArray
            A view, or a copy that is read-only where NumPy would have a view.

        Raises
        ------
        ValueError
            The sizes differ, or ``copy=False`` and a copy is needed.

        Notes
        -----
        Communication: none for a view. Otherwise each element moves at most once.
        """
        if len(shape) == 1 and not isinstance(shape[0], int):
            return reshaping.reshape(self, shape[0], order, copy=copy)
        lengths: Any = shape
        return reshaping.reshape(self, lengths, order, copy=copy)

    @described_as(reshaping.ravel)
    def ravel(self, order: str = "C") -> DistributedArray:
        """The elements in one axis; see :func:`distarray.ravel`."""
        return reshaping.ravel(self, order)

    @described_as(reshaping.flatten)
    def flatten(self, order: str = "C") -> DistributedArray:
        """A copy of the elements in one axis; see :func:`distarray.ravel`."""
        return reshaping.flatten(self, order)

    def transpose(self, *axes: int | Sequence[int] | None) -> DistributedArray:
        """Axes permuted, a view: ``x.transpose()``, ``x.transpose(1, 0)`` or ``x.transpose((1, 0))``.

        Parameters
        ----------
        *axes : int, or one sequence of int
            The axis of the array that each axis of the result is. Default: all reversed.

        Returns
        -------
        DistributedArray

        Raises
        ------
        ValueError
            The axes are no permutation.

        Notes
        -----
        Communication: none.
        """
        if len(axes) == 1 and (axes[0] is None or np.iterable(axes[0])):
            return manipulation.transpose(self, axes[0])
        return manipulation.transpose(self, cast("Sequence[int] | None", axes or None))

    @described_as(manipulation.swapaxes)
    def swapaxes(self, axis1: int, axis2: int, /) -> DistributedArray:
        """Two axes exchanged: a view."""
        return manipulation.swapaxes(self, axis1, axis2)

    @described_as(manipulation.squeeze)
    def squeeze(self, axis: Axis = None) -> DistributedArray:
        """Axes of length 1 removed, all of them or those named: a view."""
        return manipulation.squeeze(self, axis)

    # --- element-wise -------------------------------------------------------------------------------------------------

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

    # --- products and reductions --------------------------------------------------------------------------------------

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


for _methods in (Operators, Scalars, Protocols, Methods):
    array_methods(_methods)
DistributedArray.__new__ = new  # type: ignore[method-assign, assignment]
