"""What NumPy's ``==`` and ``!=`` do that is no ufunc call: they give an array for whatever an array is compared with. What has no
common dtype, or is no number at all, differs everywhere."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from distarray.array.calls import unlike
from distarray.array.state import DistributedArray
from distarray.array.whole import binary
from distarray.devices.arrays import AnyDType

__all__ = ["equality"]

_OBJECTS = frozenset(("builtins", "collections", "datetime", "decimal", "fractions"))
"""Modules whose objects leave it to an array what it equals."""


def equality(
    ufunc: np.ufunc,
    x: DistributedArray,
    other: Any,  # told apart by its class
) -> Any:
    """``x == other`` or ``x != other``.

    Parameters
    ----------
    ufunc : numpy.ufunc
        ``equal`` or ``not_equal``.
    x : DistributedArray
    other : object
        Text and, beside numbers, dates equal no element; nor do objects of Python's, but for fractions, decimals and dates of
        the same value.

    Returns
    -------
    DistributedArray, or NotImplemented
        NotImplemented where the object's class may know better.

    Raises
    ------
    TypeError
        `other` is an array of objects.
    ValueError
        The shapes do not broadcast.

    Notes
    -----
    Communication: what aligns the operands, when the value is needed.
    """
    try:
        found = binary(ufunc, x, other, x)
    except TypeError:
        given = other if isinstance(other, (DistributedArray, np.ndarray, np.generic)) else np.asarray(other)
        if given.dtype.kind in "OV" or _has_loop(ufunc, x.dtype, given.dtype):
            raise
        return unlike(ufunc, x, given if isinstance(given, DistributedArray) else np.zeros(given.shape, bool))
    if found is not NotImplemented or type(other).__module__ not in _OBJECTS:
        return found
    value = _scalar(x.dtype, other)
    return unlike(ufunc, x) if value is None else binary(ufunc, x, value, x)


def _has_loop(ufunc: np.ufunc, first: AnyDType, second: AnyDType) -> bool:
    try:
        ufunc(np.empty(0, first), np.empty(0, second))
    except TypeError:
        return False
    return True


def _scalar(dtype: AnyDType, value: object) -> Any:
    """The scalar that equals an object of Python's as the elements do as Python's objects, or None."""
    if isinstance(value, (Fraction, Decimal)) and dtype.kind in "biufc":
        try:
            number: Any = int(value) if dtype.kind in "biu" else np.float64(float(value))
        except (OverflowError, ValueError):  # beyond all floats; infinite, or no number, among integers
            return None
        return number if number == value else None
    unit = np.datetime_data(dtype)[0] if dtype.kind in "mM" else ""
    if type(value) is timedelta and dtype.kind == "m" and unit in ("W", "D", "h", "m", "s", "ms", "us"):
        return np.timedelta64(value)
    if type(value) is datetime and dtype.kind == "M" and unit in ("h", "m", "s", "ms", "us") and value.tzinfo is None:
        return np.datetime64(value)
    if type(value) is date and dtype.kind == "M" and unit in ("Y", "M", "W", "D"):
        return np.datetime64(value)
    return None
