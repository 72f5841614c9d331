"""What results that are numbers do as NumPy's scalars do: hash, round, and whatever else Python asks of a number.

A result is a number where NumPy returns a scalar (``x[i, j]``, ``x.sum()``): a detached 0-d array. It stands apart from the
operators because all of it brings the value to Python, and arrays refuse it.
"""

from __future__ import annotations

import math
from numbers import Number
from typing import Any

import numpy as np

from distarray.array.aliases import DTypeLike, ShapeLike
from distarray.array.dtypes import check_dtype
from distarray.array.layouts import resolve_layout
from distarray.array.place import as_array, place
from distarray.array.state import DistributedArray
from distarray.current import current

__all__ = ["Scalars", "new"]


class Scalars(DistributedArray):
    """Given to the array by ``distarray/distributed_array.py``. A NumPy scalar answers for the value, so that errors and
    results are NumPy's."""

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

    def __round__(self, ndigits: int | None = None) -> Any:
        value = self._number("__round__")
        if ndigits is None:
            return round(value)
        round(value, ndigits)  # NumPy's scalar refuses what is no number of digits
        return np.round(self, ndigits)

    def __trunc__(self) -> int:
        whole: int = math.trunc(self._number("__trunc__").item())
        return whole

    def __floor__(self) -> int:
        return math.floor(self.item() if self._detached else float(self))

    def __ceil__(self) -> int:
        return math.ceil(self.item() if self._detached else float(self))

    def as_integer_ratio(self) -> tuple[int, int]:
        """The number as a pair of integers with exactly that ratio, as of ``numpy.float64``.

        ``statistics`` asks for it.

        Returns
        -------
        tuple of int
            Numerator and denominator.

        Raises
        ------
        TypeError
            The array is no scalar result.
        """
        ratio: tuple[int, int] = self._number("as_integer_ratio").item().as_integer_ratio()
        return ratio

    def bit_count(self) -> int:
        """The number of ones in an integer's absolute value, as of ``numpy.int64``.

        Returns
        -------
        int

        Raises
        ------
        TypeError
            The array is no scalar result.
        """
        count: int = int(self._number("bit_count").bit_count())
        return count

    def is_integer(self) -> bool:
        """Whether the number is a whole one, as of ``numpy.float64``.

        Returns
        -------
        bool

        Raises
        ------
        TypeError
            The array is no scalar result.
        """
        return bool(self._number("is_integer").is_integer())


def new(cls: type[DistributedArray], *args: Any, **kwargs: Any) -> DistributedArray:
    """What calling the class does: of a shape it makes an array whose values are not set, as ``numpy.ndarray``; of one Python
    number a 0-d value, since ``statistics`` makes its results of the type that it was given; fractions and decimals become
    float64. Other arrays are made by functions."""
    if not args and "shape" in kwargs:
        return new(
            cls,
            kwargs["shape"],
            kwargs.get("dtype", float),
            **{k: kwargs[k] for k in kwargs.keys() - {"shape", "dtype"}},
        )
    shaped = args and (len(args) > 1 or kwargs or isinstance(args[0], (tuple, list)))
    if shaped and len(args) < 3 and kwargs.keys() <= {"dtype", "order"} and _is_shape(args[0]):
        return _unset(*args, **kwargs)
    if kwargs or len(args) != 1 or not isinstance(args[0], Number):
        raise TypeError("DistributedArray is not built by its constructor: use distarray.asarray(obj, layout=...)")
    value = args[0] if isinstance(args[0], (int, float, complex, np.generic)) else float(args[0])  # type: ignore[arg-type]
    result: DistributedArray = as_array(current(), value)
    result._detached = True
    return result


def _is_shape(shape: ShapeLike) -> bool:
    each = shape if isinstance(shape, (tuple, list)) else (shape,)
    return all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) for n in each)


def _unset(shape: object, dtype: DTypeLike = float, order: str = "C") -> DistributedArray:
    """An array in the default layout; of zeros, since copies of an element must be equal."""
    lengths, kind = tuple(map(int, shape if isinstance(shape, (tuple, list)) else (shape,))), check_dtype(dtype)
    context = current()
    layout = resolve_layout(context, None, lengths, itemsize=kind.itemsize)
    return place(context, np.broadcast_to(np.zeros((), kind), lengths), layout)
