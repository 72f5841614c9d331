"""Methods that choose elements, order them, and write to them: NumPy's "item selection and manipulation"."""

from __future__ import annotations

from typing import Any

from distarray.array import elements
from distarray.array.aliases import ArrayLike, Arrays, Fields, Out
from distarray.array.documented import described_as
from distarray.array.state import DistributedArray
from distarray.ops import (
    choosing,
    partitioning,
    placing,
    repeating,
    searching,
    selecting,
    sorting,
    taking,
)
from distarray.ops import flat as flats

__all__ = ["ItemMethods"]


class ItemMethods(DistributedArray):
    """Given to the array by ``distributed_array.py``."""

    __slots__ = ()

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
    def take(self, indices: ArrayLike, axis: int | None = None, out: Out = None, mode: str = "raise") -> Any:
        """Elements along an axis, or of the flattened array; see :func:`distarray.take`."""
        return taking.take(self, indices, axis, out, mode)

    @described_as(placing.put)
    def put(self, indices: ArrayLike, values: ArrayLike, mode: str = "raise") -> None:
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
    def compress(self, condition: ArrayLike, axis: int | None = None, out: Out = None) -> Any:
        """The slices along an axis where a condition holds; see :func:`distarray.compress`."""
        return taking.compress(condition, self, axis, out)

    @described_as(selecting.choose)
    def choose(self, choices: Arrays, out: Out = None, mode: str = "raise") -> Any:
        """Elements of the arrays whose numbers this array holds; see :func:`distarray.choose`."""
        return selecting.choose(self, choices, out, mode)

    @described_as(repeating.repeat)
    def repeat(self, repeats: ArrayLike, axis: int | None = None) -> DistributedArray:
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

    @described_as(partitioning.partition_in_place)
    def partition(self, kth: ArrayLike, axis: int = -1, kind: str = "introselect", order: Fields = None) -> None:
        """Put the elements at `kth` in their places, in place; see :func:`distarray.partition`."""
        partitioning.partition_in_place(self, kth, axis, kind, order)

    @described_as(partitioning.argpartition)
    def argpartition(
        self,
        kth: ArrayLike,
        /,
        axis: int | None = -1,
        kind: str = "introselect",
        order: Fields = None,
    ) -> DistributedArray:
        """Positions that partition the array along an axis; see :func:`distarray.argpartition`."""
        return partitioning.argpartition(self, kth, axis, kind, order)

    @described_as(sorting.searchsorted)
    def searchsorted(self, v: ArrayLike, side: str = "left", sorter: ArrayLike | None = None) -> DistributedArray:
        """Where values belong in the array, which is sorted; see :func:`distarray.searchsorted`."""
        return sorting.searchsorted(self, v, side, sorter)
