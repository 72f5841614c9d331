"""Strided index ranges, the one-dimensional letters of which regions and index maps are written. They exist apart from
Python's ``range`` and ``slice`` because equal sets must be equal values (so that layouts can be compared, hashed and
interned), and because intersection, difference and composition must stay closed and exact for any step."""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

from distarray.errors import IndexMapError, LayoutError

__all__ = ["EMPTY", "Range"]

_new = tuple.__new__


class Range(NamedTuple):
    """The set ``{start + i*step : 0 <= i < size}`` of non-negative indices, in canonical form.

    The empty set is ``(0, 1, 0)`` and a single index has step 1; ``start >= 0`` and ``step >= 1`` always. Build one
    with `of`, `full` or `from_slice`: the plain constructor does not canonicalise.

    Parameters
    ----------
    start : int
        The smallest index; 0 when empty.
    step : int
        The distance between neighbours.
    size : int
        How many indices there are.

    Examples
    --------
    >>> Range.from_slice(slice(None, None, -3), 12)
    Range(start=2, step=3, size=4)
    >>> Range.of(0, 2, 8).intersect(Range.of(1, 3, 5))
    Range(start=4, step=6, size=2)
    """

    start: int
    step: int
    size: int

    @classmethod
    def of(cls, start: int, step: int, size: int) -> Range:
        """Canonical range of `size` indices from `start`; a negative step gives the same set walked forward.

        Parameters
        ----------
        start, step, size : int
            The first index, the distance to the next, and how many there are.

        Returns
        -------
        Range

        Raises
        ------
        LayoutError
            If the size is negative, an index would be negative, or several indices would coincide (step 0).
        """
        if size <= 1:
            if size == 0:
                return EMPTY
            if size < 0:
                raise LayoutError(
                    f"Range.of got size {size}; a size is >= 0: pass Range.of(0, 1, 0) for an empty range"
                )
            step = 1
        elif step < 0:
            start += (size - 1) * step
            step = -step
        elif step == 0:
            raise LayoutError(
                f"Range.of got step 0 with size {size}; indices of a range differ: pass a step other than 0"
            )
        if start < 0:
            raise LayoutError(
                f"Range.of would hold the index {start}; indices are >= 0: wrap it first, as from_slice does"
            )
        return _new(Range, (start, step, size))

    @classmethod
    def full(cls, n: int) -> Range:
        """All indices of an axis of length `n`.

        Parameters
        ----------
        n : int
            The length.

        Returns
        -------
        Range
        """
        return _new(Range, (0, 1, n))

    @classmethod
    def from_slice(cls, s: slice, n: int) -> Range:
        """The indices that slice `s` selects on an axis of length `n`; a negative step gives the set walked forward.

        Parameters
        ----------
        s : slice
            Read as Python reads it, negative bounds included.
        n : int
            The length of the axis.

        Returns
        -------
        Range
        """
        start, stop, step = s.indices(n)
        if step == 1:
            return _new(Range, (start, 1, stop - start)) if start < stop else EMPTY
        return Range.of(start, step, len(range(start, stop, step)))

    @property
    def last(self) -> int:
        """The largest index; -1 when empty."""
        start, step, size = self
        return start + (size - 1) * step

    @property
    def stop(self) -> int:
        """One past the largest index; 0 when empty."""
        start, step, size = self
        return start + (size - 1) * step + 1

    def as_slice(self) -> slice:
        """The slice ``start:stop:step`` that selects exactly these indices.

        Returns
        -------
        slice
        """
        start, step, size = self
        return slice(start, start + (size - 1) * step + 1, step)

    def holds(self, i: int) -> bool:
        """Whether index `i` belongs to the range.

        Parameters
        ----------
        i : int
            An index.

        Returns
        -------
        bool
        """
        start, step, size = self
        k, rest = divmod(i - start, step)
        return rest == 0 and 0 <= k < size

    def intersect(self, other: Range) -> Range:
        """The indices in both ranges (Chinese remainder theorem for steps other than 1).

        Parameters
        ----------
        other : Range
            The other range.

        Returns
        -------
        Range
            Empty where they share none.
        """
        s1, d1, n1 = self
        s2, d2, n2 = other
        if d1 == 1 and d2 == 1:
            lo = s1 if s1 > s2 else s2
            e1 = s1 + n1
            e2 = s2 + n2
            n = (e1 if e1 < e2 else e2) - lo
            if n <= 0:
                return EMPTY
            if n == n1:
                return self
            return other if n == n2 else _new(Range, (lo, 1, n))
        if not n1 or not n2:
            return EMPTY
        g = gcd(d1, d2)
        k, rest = divmod(s2 - s1, g)
        if rest:
            return EMPTY
        period = d2 // g
        lcm = d1 * period
        x = s1 if period == 1 else s1 + k * pow(d1 // g, -1, period) % period * d1
        if x < s2:
            x += -((x - s2) // lcm) * lcm
        last = min(s1 + (n1 - 1) * d1, s2 + (n2 - 1) * d2)
        if x > last:
            return EMPTY
        size = (last - x) // lcm + 1
        return _new(Range, (x, lcm if size > 1 else 1, size))

    def difference(self, other: Range) -> tuple[Range, ...]:
        """The indices of this range that are not in `other`, as disjoint ranges sorted by start.

        Of the two ways to write what is left, by residue classes or by the gaps between removed indices, the one with
        fewer pieces is taken (gaps when equal).

        Parameters
        ----------
        other : Range
            What is taken away.

        Returns
        -------
        tuple of Range
        """
        size = self[2]
        common = self.intersect(other)
        if not common[2]:
            return (self,) if size else ()
        if common[2] == size:
            return ()
        first, stride, count = self.locate(common)
        last = first + (count - 1) * stride
        before, after = first, size - 1 - last
        if stride == 1:
            pieces = [(0, 1, before), (last + 1, 1, after)]
        else:
            lead, trail = first // stride, after // stride  # whole strides outside: what the removed class has left
            n_gaps = (before > 0) + (after > 0) + count - 1
            n_classes = stride - 1 + (lead > 0) + (trail > 0)
            if n_gaps <= n_classes:
                pieces = [(0, 1, before), (last + 1, 1, after)]
                pieces += [(p + 1, 1, stride - 1) for p in range(first, last, stride)]
            else:
                own = first % stride
                pieces = [(own, stride, lead), (last + stride, stride, trail)]
                pieces += [(r, stride, (size - r + stride - 1) // stride) for r in range(stride) if r != own]
        start, step, _ = self
        return tuple(sorted(Range.of(start + p * step, d * step, n) for p, d, n in pieces if n > 0))

    def compose(self, inner: Range) -> Range:
        """The indices of this range at the positions `inner`.

        Parameters
        ----------
        inner : Range
            Positions in this range, from 0.

        Returns
        -------
        Range

        Raises
        ------
        IndexMapError
            If a position lies beyond the range.
        """
        start, step, size = self
        at, stride, n = inner
        if at + (n - 1) * stride >= size:
            raise IndexMapError(
                f"positions {_text(inner)} lie beyond the {size} elements of range {_text(self)}: "
                f"intersect them with Range.full({size}) first"
            )
        if step == 1:
            return inner if start == 0 else (_new(Range, (start + at, stride, n)) if n else EMPTY)
        if n <= 1:
            return _new(Range, (start + at * step, 1, 1)) if n else EMPTY
        return _new(Range, (start + at * step, stride * step, n))

    def locate(self, sub: Range) -> Range:
        """The positions in this range of the indices `sub`, which must be a subset: the inverse of `compose`.

        Parameters
        ----------
        sub : Range
            Indices of this range.

        Returns
        -------
        Range

        Raises
        ------
        IndexMapError
            If `sub` is not a subset.
        """
        start, step, size = self
        first, stride, n = sub
        if not n:
            return EMPTY
        at, rest = divmod(first - start, step)
        if rest or at < 0 or first + (n - 1) * stride > start + (size - 1) * step or (n > 1 and stride % step):
            raise IndexMapError(
                f"range {_text(sub)} is not a subset of range {_text(self)}: intersect the two before calling locate"
            )
        return _new(Range, (at, stride // step if n > 1 else 1, n))

    def covers(self, other: Range) -> bool:
        """Whether every index of `other` is in this range.

        Parameters
        ----------
        other : Range
            The other range.

        Returns
        -------
        bool
        """
        start, step, size = self
        first, stride, n = other
        if not n:
            return True
        if first < start or first + (n - 1) * stride > start + (size - 1) * step:
            return False
        return step == 1 or ((first - start) % step == 0 and (n == 1 or stride % step == 0))

    def __str__(self) -> str:
        return _text(self)


def _text(r: Range) -> str:
    return f"{r.start}:{r.stop}" if r.step == 1 else f"{r.start}:{r.stop}:{r.step}"


EMPTY = Range(0, 1, 0)
"""The empty range, equal to every other empty range."""
