"""What NumPy's ``==`` and ``!=`` do that is no ufunc call: they give an array for whatever an array is compared with. What has no
common dtype, or is no number at all, differs everywhere."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from distarray.array.shapes import broadcast_shape
from distarray.array.state import DistributedArray, astype_node
from distarray.array.whole import apply, binary
from distarray.devices.arrays import AnyDType

__all__ = ["unknown", "unmatched"]

_OBJECTS = frozenset(("builtins", "collections", "datetime", "decimal", "fractions"))
"""Modules whose objects leave it to an array what it equals."""


def unmatched(
    ufunc: np.ufunc,
    x: DistributedArray,
    other: Any,  # told apart by its class
    error: TypeError,
) -> Any:
    """``x == other`` or ``x != other`` after the ufunc refused the dtypes.

    Parameters
    ----------
    ufunc : numpy.ufunc
        ``equal`` or ``not_equal``.
    x : DistributedArray
    other : array_like
        Text or, beside numbers, dates: no element equals any.
    error : TypeError
        What the ufunc raised.

    Raises
    ------
    TypeError
        That, where it is not for the dtypes that nothing compares; `other` is an array of objects.
    ValueError
        The shapes do not broadcast.

    Notes
    -----
    Communication: what aligns the operands, when the value is needed.
    """
    given = other if isinstance(other, (DistributedArray, np.ndarray, np.generic)) else np.asarray(other)
    if given.dtype.kind in "OV" or _has_loop(ufunc, x.dtype, given.dtype):
        raise error
    return _apart(ufunc, x, given)


def unknown(
    ufunc: np.ufunc,
    x: DistributedArray,
    other: Any,  # told apart by its class
) -> Any:
    """``x == other`` or ``x != other`` for objects that no ufunc takes: dicts, sets, fractions, decimals, Python's dates.

    Parameters
    ----------
    ufunc : numpy.ufunc
        ``equal`` or ``not_equal``.
    x : DistributedArray
    other : object

    Returns
    -------
    DistributedArray, or NotImplemented
        NotImplemented where the object's class may know better.

    Notes
    -----
    Communication: none.
    """
    if type(other).__module__ not in _OBJECTS:
        return NotImplemented
    value = _scalar(x.dtype, other)
    return _apart(ufunc, x, np.False_) if value is None else binary(ufunc, x, value, x)


def _has_loop(ufunc: np.ufunc, first: AnyDType, second: AnyDType) -> bool:
    try:
        ufunc(np.empty(0, first), np.empty(0, second))
    except TypeError:
        return False
    return True


def _apart(ufunc: np.ufunc, x: DistributedArray, other: Any) -> Any:
    """False for each pair of elements, or True for ``!=``."""
    broadcast_shape(x.shape, other.shape)
    pair = [
        DistributedArray._of_node(astype_node(a, np.dtype(bool)))
        if isinstance(a, DistributedArray)
        else np.zeros(a.shape, bool)[()]
        for a in (x, other)
    ]
    never = apply(np.logical_and, (apply(np.logical_and, pair), False))
    return never if ufunc is np.equal else apply(np.logical_not, (never,))


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
