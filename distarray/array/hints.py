"""Hints (``DISTARRAY_HINTS=1``): a line that touches single elements again and again is told once of the array form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from distarray.array.aliases import Key
from distarray.errors import PerformanceHint
from distarray.sites import call_site, warn_at

if TYPE_CHECKING:
    from distarray.array.state import DistributedArray

__all__ = ["MANY", "touched"]

MANY = 1000
"""So many elements, one by one, are a loop over an array."""


def touched(x: DistributedArray, key: Key, verb: str) -> None:
    """Count an index that names one element, by the line that names it; the thousandth time, say what would do as well."""
    counts = x._context.hints
    index = key if type(key) is tuple else (key,)
    if counts is None or len(index) != len(x._shape) or not all(hasattr(i, "__index__") for i in index):
        return
    site = call_site()
    place = site[:2]
    counts[place] = count = counts.get(place, 0) + 1
    if count == MANY:
        colons = ", ".join(":" * len(index))
        text = (
            f"this line has {verb} single elements of an array {MANY:,} times, the last at [{', '.join(map(str, index))}]: one "
            f"operation on slices, such as x[{colons}], does the same for all of them in one call"
        )
        warn_at(site, text, PerformanceHint)
