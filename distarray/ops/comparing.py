"""Comparing arrays within tolerances, and as wholes: what every process gets the same answer to."""

from __future__ import annotations

from typing import Any

import numpy as np

from distarray.array.aliases import ArrayLike
from distarray.array.documented import described_as
from distarray.array.functions import implements
from distarray.array.place import as_array
from distarray.array.shapes import broadcast_shape
from distarray.array.state import DistributedArray
from distarray.array.writing import deliver
from distarray.ops import reductions
from distarray.ops.recording import arguments_of, context_of
from distarray.sites import call_site, warn_at

__all__ = ["allclose", "array_equal", "array_equiv", "isclose"]


@implements(np.isclose)
def isclose(
    a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08, equal_nan: bool = False
) -> Any:
    """Where ``abs(a - b) <= atol + rtol * abs(b)``, infinities and, if asked for, NaNs equal to themselves.

    Python numbers are weak, as in every operation of NumPy: beside a float32 array they are float32.

    Parameters
    ----------
    a, b : array_like
    rtol, atol : float or array_like
        The relative and the absolute tolerance.
    equal_nan : bool
        Whether NaN equals NaN.

    Returns
    -------
    DistributedArray
        Of bool, in the broadcast shape.

    Warns
    -----
    RuntimeWarning
        A tolerance is not finite. Under ``np.errstate(invalid="raise")`` it is a FloatingPointError.

    Notes
    -----
    Communication: none where the operands have one layout; otherwise what aligns them, when the value is needed. Of a
    tolerance that is a distributed array, one boolean a device at the call.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.isclose(da.asarray([1.0, 2.0]), [1.0, 2.1]).tolist()
    [True, False]
    """
    context = context_of((a, b, rtol, atol))
    x, y, rtol, atol = arguments_of(context, (a, b, rtol, atol))
    if hasattr(y, "dtype") and y.dtype.kind == "m":
        pass  # times are compared as they are
    elif hasattr(y, "dtype"):
        y = y.astype(np.result_type(y.dtype, 1.0), copy=False)  # abs of the least integer is itself
    elif isinstance(y, int):
        y = float(y)
    _check_tolerances(rtol, atol)
    with np.errstate(invalid="ignore"):
        result = (abs(x - y) <= atol + rtol * abs(y)) & np.isfinite(y) | (x == y)
        if equal_nan:
            result = result | (np.isnan(x) & np.isnan(y))
    if not isinstance(result, DistributedArray):
        result = as_array(context, result)
    return deliver(result, None)


def _check_tolerances(rtol: Any, atol: Any) -> None:
    """Warn, raise or print, as ``np.errstate`` says, where a tolerance is not finite."""
    finite = [np.isfinite(tolerance) for tolerance in (rtol, atol)]
    if all(_all(each) if isinstance(each, DistributedArray) else bool(each) for each in finite):
        return
    text = f"One of rtol or atol is not valid, atol: {atol}, rtol: {rtol}"
    how = np.geterr()["invalid"]
    if how == "warn":
        warn_at(call_site(), text)
    elif how == "raise":
        raise FloatingPointError(text)
    elif how == "print":
        print(text)


@implements(np.allclose)
@described_as(isclose)
def allclose(
    a: ArrayLike, b: ArrayLike, rtol: ArrayLike = 1e-05, atol: ArrayLike = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether all elements are close; see :func:`isclose`. Every process gets the same answer.

    Returns
    -------
    bool
        The same on every process.

    Notes
    -----
    Communication: that of :func:`isclose`, and one boolean a device.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.allclose(da.ones(3), 1.0 + 1e-9)
    True
    """
    return _all(isclose(a, b, rtol, atol, equal_nan))


def _all(x: DistributedArray) -> bool:
    return bool(reductions.all(x))


def _pair(a1: ArrayLike, a2: ArrayLike) -> tuple[DistributedArray, DistributedArray] | None:
    """Two arrays to compare; None where one of the objects is no array of numbers."""
    context = context_of((a1, a2))
    try:
        return as_array(context, a1), as_array(context, a2)
    except (TypeError, ValueError):
        return None


@implements(np.array_equal)
def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> bool:
    """Whether two arrays have one shape and equal elements.

    Parameters
    ----------
    a1, a2 : array_like
    equal_nan : bool
        Whether NaN equals NaN.

    Returns
    -------
    bool
        The same on every process; False for what is no array of numbers.

    Notes
    -----
    Communication: what aligns them, and one boolean a device.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.array_equal(da.arange(3), [0, 1, 2])
    True
    """
    pair = _pair(a1, a2)
    if pair is None or pair[0].shape != pair[1].shape:
        return False
    x, y = pair
    same = x == y
    if equal_nan and x.dtype.kind in "fcmMV" and y.dtype.kind in "fcmMV":
        same = same | (np.isnan(x) & np.isnan(y))
    return _all(same)


@implements(np.array_equiv)
@described_as(array_equal)
def array_equiv(a1: ArrayLike, a2: ArrayLike) -> bool:
    """Whether two arrays broadcast and have equal elements.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.array_equiv(da.ones((2, 3)), 1)
    True
    """
    pair = _pair(a1, a2)
    if pair is None:
        return False
    x, y = pair
    try:
        broadcast_shape(x.shape, y.shape)
    except ValueError:
        return False
    return _all(x == y)
