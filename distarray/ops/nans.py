"""Reductions and scans that leave NaN out: ``nansum``, ``nanmean``, ``nanmax`` and their kin.

NaN is replaced by what changes nothing, in the expression that is reduced, and elements that are left out are counted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from distarray.algorithms.nan_sums import Sums, counts_and_sums, squares_apart
from distarray.array.aliases import ArrayLike, Axis, DTypeLike, Out
from distarray.array.documented import described_as
from distarray.array.functions import NOTHING, given, implements, keeps_axes
from distarray.array.state import DistributedArray, astype_node
from distarray.array.writing import deliver
from distarray.modes import Mode
from distarray.ops import moments, reductions
from distarray.ops.choosing import copyto, where
from distarray.ops.convert import asarray
from distarray.ops.manipulation import squeeze
from distarray.ops.scans import cumprod, cumsum
from distarray.ops.searching import argmax, argmin
from distarray.sites import call_site, warn_at

__all__ = [
    "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum",
    "nanvar",
]  # fmt: skip


def holds_nan(dtype: np.dtype[Any]) -> bool:
    """Whether elements of a dtype can be NaN."""
    return dtype.kind in "fc" or dtype.name == "bfloat16"


def can_miss(dtype: np.dtype[Any]) -> bool:
    """Whether elements of a dtype can be NaN or NaT, both of which sort last."""
    return dtype.kind in "mM" or holds_nan(dtype)


def without_nan(x: DistributedArray, value: object) -> DistributedArray:
    """The array with its NaN replaced, recorded."""
    return where(np.isnan(x), x.dtype.type(value), x)  # type: ignore[no-any-return]


@implements(np.nansum)
@described_as(reductions.sum)
def nansum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: Out = None,
    keepdims: bool = NOTHING,
    initial: ArrayLike | None = NOTHING,
    where: ArrayLike = NOTHING,
) -> Any:
    """Sum of the elements that are not NaN along axes; 0 where there is none.

    Notes
    -----
    Communication: none. Where an axis is split over devices, the result stays in SUM mode.

    Memory on each device: one array of the size of its part.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     float(np.nansum(da.asarray([1.0, np.nan, 2.0], layout=da.blocks(0))))
    3.0
    """
    x = asarray(a)
    return reductions.sum(without_nan(x, 0) if holds_nan(x.dtype) else x, axis, dtype, out, keepdims, initial, where)


@implements(np.nanprod)
@described_as(reductions.prod)
def nanprod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: Out = None,
    keepdims: bool = NOTHING,
    initial: ArrayLike | None = NOTHING,
    where: ArrayLike = NOTHING,
) -> Any:
    """Product of the elements that are not NaN along axes; 1 where there is none.

    Notes
    -----
    Communication: none. Where an axis is split over devices, the result stays in PROD mode.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     float(da.nanprod(da.asarray([2.0, np.nan, 3.0])))
    6.0
    """
    x = asarray(a)
    return reductions.prod(without_nan(x, 1) if holds_nan(x.dtype) else x, axis, dtype, out, keepdims, initial, where)


def missing(dtype: np.dtype[Any]) -> Any:
    """What stands for no value: NaN, or of times NaT."""
    return np.array("NaT", dtype)[()] if dtype.kind in "mM" else dtype.type(np.nan)


def _extreme(
    function: Callable[..., Any],
    end: float,
    a: ArrayLike,
    axis: Axis,
    out: Out,
    keepdims: bool,
    initial: Any,
    where: ArrayLike,
) -> Any:
    """``nanmin`` and ``nanmax``, by the function and the value that never wins."""
    x = asarray(a)
    if not can_miss(x.dtype):
        return function(x, axis, out, keepdims, initial, where)
    none = missing(x.dtype)
    if x.dtype.kind in "mM":
        bound: Any = Mode.of("min" if function is reductions.min else "max").identity(x.dtype)
    else:
        bound = complex(end, end) if x.dtype.kind == "c" else end  # complex numbers are in the order of both parts
    begun = initial is not NOTHING and initial is not None
    blank = begun and type(initial) is not int and bool(np.isnan(initial))
    if blank:  # an initial NaN is left out too
        initial = bound
    elif out is None:  # the ordinary extreme is NaN where any element is, and costs one pass and no copy
        result = function(x, axis, None, keepdims, initial, where)
        if not bool(reductions.any(np.isnan(result))):
            return result
    result = function(_where(np.isnan(x), x.dtype.type(bound), x), axis, out, keepdims, initial, where)
    if begun and not blank:
        return result
    if not bool(reductions.any(asarray(np.isnan(result) | (result == bound)))):
        return result
    nothing = reductions.all(np.isnan(x), axis, keepdims=keepdims, where=where)
    if not bool(reductions.any(nothing)):
        return result
    warn_at(call_site(), "All-NaN slice encountered")
    if out is not None:
        copyto(out, none, where=nothing if isinstance(out, DistributedArray) else nothing.get())
        return out
    return deliver(_where(nothing, none, result), None)


_where = where


@implements(np.nanmin)
@described_as(reductions.min)
def nanmin(
    a: ArrayLike,
    axis: Axis = None,
    out: Out = None,
    keepdims: bool = NOTHING,
    initial: ArrayLike | None = NOTHING,
    where: ArrayLike = NOTHING,
) -> Any:
    """Smallest element that is not NaN along axes.

    Returns
    -------
    DistributedArray
        NaN where a line holds nothing else.

    Warns
    -----
    RuntimeWarning
        "All-NaN slice encountered": there the result is NaN.

    Notes
    -----
    Communication: the result is brought together, to see whether some of it has to be NaN.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     float(da.nanmin(da.asarray([2.0, np.nan, 3.0])))
    2.0
    """
    return _extreme(reductions.min, np.inf, a, axis, out, keepdims, initial, where)


@implements(np.nanmax)
@described_as(nanmin)
def nanmax(
    a: ArrayLike,
    axis: Axis = None,
    out: Out = None,
    keepdims: bool = NOTHING,
    initial: ArrayLike | None = NOTHING,
    where: ArrayLike = NOTHING,
) -> Any:
    """Largest element that is not NaN along axes.

    Notes
    -----
    Communication: the result is brought together, to see whether some of it has to be NaN.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     float(da.nanmax(da.asarray([2.0, np.nan, 3.0])))
    3.0
    """
    return _extreme(reductions.max, -np.inf, a, axis, out, keepdims, initial, where)


def _best(function: Callable[..., Any], bound: float, a: ArrayLike, axis: Axis, out: Out, keepdims: bool) -> Any:
    x = asarray(a)
    if not holds_nan(x.dtype):
        return function(x, axis, out, keepdims=keepdims)
    if x.size and bool(reductions.any(reductions.all(np.isnan(x), axis))):
        raise ValueError("All-NaN slice encountered")
    return function(without_nan(x, bound), axis, out, keepdims=keepdims)


@implements(np.nanargmin)
@described_as(argmin)
def nanargmin(a: ArrayLike, axis: Axis = None, out: Out = None, *, keepdims: bool = NOTHING) -> Any:
    """Position of the smallest element that is not NaN.

    Raises
    ------
    ValueError
        There are only NaN.

    Notes
    -----
    Communication: of :func:`argmin`, and whether there are lines of NaN alone.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     int(da.nanargmin(da.asarray([2.0, np.nan, 1.0])))
    2
    """
    return _best(argmin, np.inf, a, axis, out, keepdims)


@implements(np.nanargmax)
@described_as(argmax)
def nanargmax(a: ArrayLike, axis: Axis = None, out: Out = None, *, keepdims: bool = NOTHING) -> Any:
    """Position of the largest element that is not NaN.

    Raises
    ------
    ValueError
        There are only NaN.

    Notes
    -----
    Communication: of :func:`argmax`, and whether there are lines of NaN alone.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     int(da.nanargmax(da.asarray([2.0, np.nan, 1.0])))
    0
    """
    return _best(argmax, -np.inf, a, axis, out, keepdims)


@implements(np.nancumsum)
@described_as(cumsum)
def nancumsum(a: ArrayLike, axis: Axis = None, dtype: DTypeLike = None, out: Out = None) -> Any:
    """Running sums along an axis, with NaN as 0.

    Notes
    -----
    Communication: as of :func:`cumsum`.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.nancumsum(da.asarray([2.0, np.nan, 1.0])).tolist()
    [2.0, 2.0, 3.0]
    """
    x = asarray(a)
    return cumsum(without_nan(x, 0) if holds_nan(x.dtype) else x, axis, dtype, out)


@implements(np.nancumprod)
@described_as(cumprod)
def nancumprod(a: ArrayLike, axis: Axis = None, dtype: DTypeLike = None, out: Out = None) -> Any:
    """Running products along an axis, with NaN as 1.

    Notes
    -----
    Communication: as of :func:`cumprod`.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.nancumprod(da.asarray([2.0, np.nan, 3.0])).tolist()
    [2.0, 2.0, 6.0]
    """
    x = asarray(a)
    return cumprod(without_nan(x, 1) if holds_nan(x.dtype) else x, axis, dtype, out)


def _check_inexact(dtype: DTypeLike, out: Out) -> None:
    if dtype is not None and not holds_nan(np.dtype(dtype)):
        raise TypeError("If a is inexact, then dtype must be inexact")
    if out is not None and not holds_nan(out.dtype):
        raise TypeError("If a is inexact, then out must be inexact")


def _over(total: Any, count: ArrayLike) -> Any:
    """A sum divided by a count, in the dtype of the sum; silent where the count is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        value = np.true_divide(total, count)
    return value if value.dtype == total.dtype else DistributedArray._of_node(astype_node(value, total.dtype))


def _at_once(
    x: DistributedArray, axis: Axis, dtype: DTypeLike, out: Out, keepdims: bool, where: ArrayLike, squares: bool = False
) -> Sums | None:
    """Counts and sums of what is not NaN in one pass, or None where that can't be."""
    if not x.ndim or out is not None or where is not NOTHING or (dtype is not None and np.dtype(dtype) != x.dtype):
        return None
    axes = tuple(range(x.ndim)) if axis is None else normalize_axis_tuple(axis, x.ndim)
    return counts_and_sums(x._context, x, tuple(sorted(axes)), keepdims, squares) if axes else None


@implements(np.nanmean)
@described_as(moments.mean)
def nanmean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: Out = None,
    keepdims: bool = NOTHING,
    *,
    where: ArrayLike = NOTHING,
) -> Any:
    """Mean of the elements that are not NaN along axes.

    Raises
    ------
    TypeError
        `dtype` or `out` holds no NaN, and the array may.

    Warns
    -----
    RuntimeWarning
        "Mean of empty slice", where there is nothing but NaN.

    Notes
    -----
    Communication: the counts of elements are brought together; partial sums at the demand, with the size of the result.

    Memory on each device: one array of the size of its part.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     float(da.nanmean(da.asarray([2.0, np.nan, 3.0])))
    2.5
    """
    x = asarray(a)
    if not holds_nan(x.dtype):
        return moments.mean(x, axis, dtype, out, keepdims, where=where)
    _check_inexact(dtype, out)
    keepdims = keeps_axes(keepdims)
    made = _at_once(x, axis, dtype, out, keepdims, where)
    if made is not None:
        count, total = made.counts, made.totals
    else:
        count = reductions.sum(~np.isnan(x), axis, np.intp, None, keepdims, where=where)
        total = moments.total_of(without_nan(x, 0), axis, dtype, out, keepdims, given(where, True))
    if bool(reductions.any(count == 0)):
        warn_at(call_site(), "Mean of empty slice")
    value = _over(total, count)
    return deliver(value, out)


def _nanvar(
    a: ArrayLike,
    axis: Axis,
    dtype: DTypeLike,
    out: Out,
    ddof: float,
    keepdims: bool,
    where: ArrayLike,
    mean: ArrayLike,
    correction: float,
) -> Any:
    """The variance of an array that may hold NaN, as it lands in ``out=``."""
    x = asarray(a)
    if correction is not NOTHING:
        if ddof != 0:
            raise ValueError("ddof and correction can't be provided simultaneously.")
        ddof = correction
    _check_inexact(dtype, out)
    keepdims = keeps_axes(keepdims)
    made = _at_once(x, axis, dtype, out, True, where, squares=True) if mean is NOTHING or mean is None else None
    if made is not None:
        return _spread(x, axis, ddof, keepdims, made)
    left_out = np.isnan(x)
    kept = ~left_out
    if mean is NOTHING or mean is None:
        each = reductions.sum(kept, axis, np.intp, None, True, where=where)
        middle = _over(reductions.sum(without_nan(x, 0), axis, dtype, None, True, where=where), each)
    else:
        middle = asarray(mean)
    count = reductions.sum(kept, axis, np.intp, None, keepdims, where=where)
    apart = np.subtract(x, middle)
    apart = apart if apart.dtype == x.dtype else DistributedArray._of_node(astype_node(apart, x.dtype))
    apart = _where(left_out, x.dtype.type(0), apart)
    squares = np.square(apart.real) + np.square(apart.imag) if apart.dtype.kind == "c" else np.square(apart)
    total = moments.total_of(squares, axis, dtype, out, keepdims, given(where, True))
    return _freed(total, count - ddof)


def _spread(x: DistributedArray, axis: Axis, ddof: Any, keepdims: bool, sums: Sums) -> Any:
    """The variance, from counts and sums with the axes kept."""
    count = sums.counts
    axes = tuple(range(x.ndim)) if axis is None else tuple(sorted(normalize_axis_tuple(axis, x.ndim)))
    squares = squares_apart(x._context, x, asarray(_over(sums.totals, count)), axes, keepdims, sums)
    return _freed(squares, (count if keepdims else squeeze(count, axes)) - ddof)


def _freed(total: Any, free: Any) -> Any:
    """Sums of squares divided by the degrees of freedom; NaN, and a warning, where there are none."""
    value = _over(total, free)
    few = free <= 0
    if bool(reductions.any(few)):
        warn_at(call_site(), "Degrees of freedom <= 0 for slice.")
        value = _where(few, value.dtype.type(np.nan), value)
    return value


@implements(np.nanvar)
@described_as(moments.var)
def nanvar(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: Out = None,
    ddof: float = 0,
    keepdims: bool = NOTHING,
    *,
    where: ArrayLike = NOTHING,
    mean: ArrayLike = NOTHING,
    correction: float = NOTHING,
) -> Any:
    """Variance of the elements that are not NaN along axes.

    Raises
    ------
    TypeError
        `dtype` or `out` holds no NaN, and the array may.
    ValueError
        Both `ddof` and `correction`.

    Warns
    -----
    RuntimeWarning
        "Degrees of freedom <= 0 for slice.": there the result is NaN.

    Notes
    -----
    Communication: the means and the counts of elements are brought together; partial sums at the demand.

    Memory on each device: two arrays of the size of its part.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     float(da.nanvar(da.asarray([2.0, np.nan, 4.0])))
    1.0
    """
    x = asarray(a)
    if not holds_nan(x.dtype):
        return moments.var(x, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction)
    value = _nanvar(x, axis, dtype, out, ddof, keepdims, where, mean, correction)
    return deliver(value, out)


@implements(np.nanstd)
@described_as(nanvar)
def nanstd(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: Out = None,
    ddof: float = 0,
    keepdims: bool = NOTHING,
    *,
    where: ArrayLike = NOTHING,
    mean: ArrayLike = NOTHING,
    correction: float = NOTHING,
) -> Any:
    """Standard deviation of the elements that are not NaN along axes.

    Notes
    -----
    Communication: as of :func:`nanvar`.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     float(da.nanstd(da.asarray([2.0, np.nan, 4.0])))
    1.0
    """
    x = asarray(a)
    if not holds_nan(x.dtype):
        return moments.std(x, axis, dtype, out, ddof, keepdims, where=where, mean=mean, correction=correction)
    value = np.sqrt(_nanvar(x, axis, dtype, out, ddof, keepdims, where, mean, correction))
    return deliver(value, out)
