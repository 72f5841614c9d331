"""What results that are numbers do as NumPy's scalars do: hash, round, and whatever else Python asks of a number.

A result is a number where NumPy returns a scalar (``x[i, j]``, ``x.sum()``): a detached 0-d array. It stands apart from the
operators because all of it brings the value to Python, and arrays refuse it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from distarray.operators import Operators

__all__ = ["Scalars"]


class Scalars(Operators):
    """The methods of numbers. A NumPy scalar answers for the value, so that errors and results are NumPy's."""

    __slots__ = ()

    def _number(self, method: str) -> Any:
        """The value as a NumPy scalar; TypeError for what is an array in NumPy too."""
        if not self._detached:
            raise TypeError(
                f"type DistributedArray doesn't define {method} for arrays, only for results that are numbers, such as "
                f"x[0, 0] and x.sum(): use the function of numpy, or x[()]"
            )
        return self.get()[()]

    def __hash__(self) -> int:  # type: ignore[override]
        if not self._detached:
            raise TypeError("unhashable type: 'DistributedArray'")
        return hash(self._number("__hash__"))

    def __round__(self, ndigits: Any = None) -> Any:
        value = self._number("__round__")
        if ndigits is None:
            return round(value)
        round(value, ndigits)  # refused here where NumPy's scalar refuses it
        return np.round(self, ndigits)  # type: ignore[call-overload]

    def __trunc__(self) -> int:
        return math.trunc(self._number("__trunc__").item())

    def __floor__(self) -> int:
        return math.floor(self._only("floor").item())

    def __ceil__(self) -> int:
        return math.ceil(self._only("ceil").item())

    def as_integer_ratio(self) -> tuple[int, int]:
        """The number as a pair of integers with exactly that ratio, as of ``numpy.float64``; ``statistics`` asks for it."""
        ratio: tuple[int, int] = self._number("as_integer_ratio").item().as_integer_ratio()
        return ratio

    def is_integer(self) -> bool:
        """Whether the number is a whole one, as of ``numpy.float64``."""
        return bool(self._number("is_integer").is_integer())
