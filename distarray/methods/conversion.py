"""Methods that give the values to Python, to files and to other dtypes, and those on the memory behind them."""

from __future__ import annotations

import operator
import sys
from typing import Any

import numpy as np

from distarray.array.aliases import DeviceLike, DTypeLike, File
from distarray.array.documented import described_as
from distarray.array.state import DistributedArray
from distarray.ops import (
    convert,
    memory,
    saving,
)
from distarray.protocols import as_numpy
from distarray.transfer.asking import ensure_asked

__all__ = ["ConversionMethods"]


class ConversionMethods(DistributedArray):
    """Given to the array by ``distributed_array.py``."""

    __slots__ = ()

    # --- to Python -------------------------------------------------------------------------------------------------------

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

    # --- conversion ------------------------------------------------------------------------------------------------------

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

    # --- memory ----------------------------------------------------------------------------------------------------------

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
        """The whole array that this one is a view of; None for one that is no view."""
        return memory.base(self)
