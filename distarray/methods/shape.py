"""Methods that arrange the elements in another shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from distarray.array.aliases import Axis, ShapeLike
from distarray.array.documented import described_as
from distarray.array.state import DistributedArray
from distarray.ops import (
    manipulation,
    memory,
    reshaping,
)

__all__ = ["ShapeMethods"]


class ShapeMethods(DistributedArray):
    """Given to the array by ``distributed_array.py``."""

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes; set it to reshape the array in place, where that needs no copy."""
        return self._shape

    @shape.setter
    def shape(self, shape: ShapeLike) -> None:
        reshaping.set_shape(self, shape)

    @described_as(memory.resize)
    def resize(self, *new_shape: ShapeLike, refcheck: bool = True) -> None:
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
