"""What NumPy's ``==`` and ``!=`` do that is no ufunc call: whole structured elements are compared field by field, and what has no
common dtype, or is no number at all, differs everywhere."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from distarray.array.state import DistributedArray
from distarray.devices.arrays import AnyDType

__all__ = ["compare"]


def compare(
    ufunc: np.ufunc,
    x: DistributedArray,
    other: Any,  # told apart by its class
) -> Any:
    """``x == other`` or ``x != other`` of structured elements: field by field, recorded, as booleans.

    Parameters
    ----------
    ufunc : numpy.ufunc
        ``equal`` or ``not_equal``.
    x : DistributedArray
        Of a structured dtype.
    other : DistributedArray, numpy.ndarray or numpy.void
        The same, with the same names.

    Raises
    ------
    TypeError
        In NumPy's words: `other` has no fields, or others.

    Notes
    -----
    Communication: what aligns the operands, when the value is needed.
    """
    dtype = getattr(other, "dtype", None)
    if dtype is None or dtype.type is not np.void:
        raise TypeError("Cannot compare structured or void to non-void arrays.")
    if x.dtype.names is None:
        if dtype != x.dtype:
            raise TypeError("Cannot compare unstructured voids of different length. Use `.view()` to compare.")
        word = next(size for size in (8, 4, 2, 1) if dtype.itemsize % size == 0)
        words = np.dtype([(f"f{i}", f"u{word}") for i in range(dtype.itemsize // word)])
        return _compared(ufunc, x.view(words), other.view(words))
    if dtype.names != x.dtype.names or not _promotes(x.dtype, dtype):
        raise TypeError(
            "Cannot compare structured arrays unless they have a common dtype.  I.e. `np.result_type(arr1, arr2)` must be "
            "defined."
        )
    return _compared(ufunc, x, other)


def _promotes(first: AnyDType, second: AnyDType) -> bool:
    try:
        np.result_type(first, second)
    except TypeError:
        return False
    return True


def _compared(ufunc: np.ufunc, x: DistributedArray, other: Any) -> Any:
    joined = np.logical_and if ufunc is np.equal else np.logical_or
    return functools.reduce(joined, [_field(ufunc, x, other, name) for name in x.dtype.names])


def _field(ufunc: np.ufunc, x: DistributedArray, other: Any, name: str) -> Any:
    """The comparison of one field; where it is an array itself, of all its elements."""
    a, b = x[name], other[name]
    found = _compared(ufunc, a, b) if a.dtype.names is not None else ufunc(a, b)
    own = tuple(range(x.ndim - a.ndim, 0))
    if not own:
        return found
    return (np.logical_and if ufunc is np.equal else np.logical_or).reduce(found, axis=own)
