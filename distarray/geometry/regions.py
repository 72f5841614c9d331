"""Regions, n-dimensional boxes of strided ranges: which elements of a logical array one chunk holds. A region is a
tuple of ranges so that comparing, hashing and sorting run in C; everything else is one range operation for each
axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from distarray.errors import IndexMapError, LayoutError
from distarray.geometry._keys import expand_key
from distarray.geometry.ranges import EMPTY, Range

__all__ = ["Region", "Slices"]

Slices: TypeAlias = tuple[slice, ...]
"""What selects a region of an array: a slice an axis."""


class Region(tuple[Range, ...]):
    """A box of strided ranges, one for each axis; ``Region(())`` is the 0-d point, of size 1.

    A region with an empty range is empty (size 0) but keeps the lengths of its other axes: its chunk has that shape.
    Two regions meet only where both have the same number of axes: else methods raise LayoutError.

    Parameters
    ----------
    iterable : iterable of Range, optional
        One range for each axis.

    Examples
    --------
    >>> r = Region.from_index((slice(0, 4), slice(None, None, 2)), (8, 8))
    >>> print(r, r.shape)
    [0:4, 0:7:2] (4, 4)
    >>> print(r.intersect(Region.from_index((-5, ...), (8, 8))))
    [3:4, 0:7:2]
    """

    __slots__ = ()

    @classmethod
    def full(cls, shape: Sequence[int]) -> Region:
        """All elements of an array of `shape`.

        Parameters
        ----------
        shape : sequence of int
            Of the array.

        Returns
        -------
        Region
        """
        return Region([Range.full(n) for n in shape])

    @classmethod
    def from_index(cls, index: object, shape: Sequence[int]) -> Region:
        """The elements that `index` selects: an int (negative wraps), slice, Ellipsis, or a tuple of them.

        An int keeps its axis, with one element. Negative steps select the same set. Missing axes are taken whole.

        Parameters
        ----------
        index : int, slice, Ellipsis or tuple of them
            As for a NumPy array.
        shape : sequence of int
            Of the array.

        Returns
        -------
        Region

        Raises
        ------
        IndexMapError
            If an int is out of bounds, there are more indices than axes, or an index is of another type.
        """
        ranges = []
        for axis, (item, n) in enumerate(zip(expand_key(index, len(shape), newaxis=False), shape, strict=True)):
            if isinstance(item, slice):
                try:
                    ranges.append(Range.from_slice(item, n))
                except (TypeError, ValueError) as error:
                    raise IndexMapError(
                        f"Invalid index on axis {axis}: {error}, got {item!r}; pass integers or None, and a step other "
                        "than 0"
                    ) from None
            else:
                assert item is not None
                if not -n <= item < n:
                    raise IndexMapError(
                        f"Index {item} is out of bounds for axis {axis} with size {n}: "
                        + (f"pass an index from {-n} to {n - 1}" if n else "pass a slice, as the axis has no elements")
                    )
                ranges.append(Range(item % n, 1, 1))
        return Region(ranges)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of elements along each axis."""
        return tuple([r[2] for r in self])

    @property
    def size(self) -> int:
        """Number of elements."""
        size = 1  # asked for at every turn, and a loop takes half of what math.prod does
        for r in self:
            size *= r[2]
        return size

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self)

    @property
    def slices(self) -> tuple[slice, ...]:
        """The slices that select the region from the logical array."""
        return tuple([r.as_slice() for r in self])

    @property
    def key(self) -> tuple[Any, ...]:
        """The index that selects the region from an array as a view, also in 0 dimensions, where slices give a scalar."""
        return self.slices or (...,)

    @property
    def first(self) -> tuple[int, ...]:
        """The smallest index on each axis: the region's first element in C order (0 on empty axes)."""
        return tuple([r[0] for r in self])

    def intersect(self, other: Region) -> Region | None:
        """The elements in both regions; None when there are none.

        Parameters
        ----------
        other : Region
            The other region.

        Returns
        -------
        Region or None
        """
        if len(self) != len(other):
            raise self._mismatch(other)
        out = []
        for a, b in zip(self, other):
            r = a.intersect(b)
            if not r[2]:
                return None
            out.append(r)
        return Region(out)

    def difference(self, other: Region) -> list[Region]:
        """The elements of this region that are not in `other`, as disjoint regions.

        Parameters
        ----------
        other : Region
            What is taken away.

        Returns
        -------
        list of Region
        """
        common = self.intersect(other)
        if common is None:
            return [self] if self.size else []
        out = []
        for axis, (mine, shared) in enumerate(zip(self, common)):
            if mine == shared:
                continue
            head, tail = common[:axis], self[axis + 1 :]
            out += [Region((*head, piece, *tail)) for piece in mine.difference(shared)]
        return out

    def compose(self, inner: Region) -> Region:
        """The elements of this region at the positions `inner` of its chunk.

        Parameters
        ----------
        inner : Region
            Positions in the chunk, from 0.

        Returns
        -------
        Region

        Raises
        ------
        IndexMapError
            If a position lies beyond the chunk.
        """
        if len(self) != len(inner):
            raise self._mismatch(inner)
        return Region([a.compose(b) for a, b in zip(self, inner)])

    def locate(self, sub: Region) -> Region:
        """The positions in this region's chunk of the elements `sub`, a subset: the inverse of `compose`.

        Parameters
        ----------
        sub : Region
            Elements of this region.

        Returns
        -------
        Region

        Raises
        ------
        IndexMapError
            If `sub` is not a subset along some axis.
        """
        if len(self) != len(sub):
            raise self._mismatch(sub)
        return Region([a.locate(b) for a, b in zip(self, sub)])

    def covers(self, other: Region) -> bool:
        """Whether every element of `other` is in this region.

        Parameters
        ----------
        other : Region
            The other region.

        Returns
        -------
        bool
        """
        if len(self) != len(other):
            raise self._mismatch(other)
        for a, b in zip(self, other):
            if not a.covers(b):
                return EMPTY in other
        return True

    def holds(self, element: Sequence[int]) -> bool:
        """Whether the region contains the element with these coordinates.

        Parameters
        ----------
        element : sequence of int
            An index for each axis.

        Returns
        -------
        bool
            False too where their number is not that of the axes.
        """
        return len(self) == len(element) and all(r.holds(i) for r, i in zip(self, element))

    def __str__(self) -> str:
        return "[" + (", ".join(map(str, self)) or "()") + "]"

    def __repr__(self) -> str:
        return f"Region({self})"

    def _mismatch(self, other: Region) -> LayoutError:
        return LayoutError(
            f"regions {self} and {other} have {len(self)} and {len(other)} axes; both must index the same array: "
            "build them with Region.from_index(index, shape) of one shape"
        )
