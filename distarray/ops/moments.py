"""The mean, and distances from it: ``mean``, ``var``, ``std``.

They are NumPy's definitions in terms of sums, with its rules for dtypes, empty slices and degrees of freedom.
"""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from distarray.algorithms.fold_plans import Spread
from distarray.algorithms.reduction import computed_in, moments, normalized, real_out
from distarray.algorithms.spreads import split_spread
from distarray.array.aliases import ArrayLike, Axis, DTypeLike, Out
from distarray.array.documented import described_as
from distarray.array.dtypes import check_dtype
from distarray.array.functions import NOTHING, implements, keeps_axes
from distarray.array.state import DistributedArray, astype_node
from distarray.array.writing import check_out, deliver
from distarray.devices.arrays import AnyDType
from distarray.geometry import replicated
from distarray.ops.convert import asarray
from distarray.ops.reductions import any, reduce, sum, where_mask
from distarray.sites import call_site, warn_at

__all__ = ["mean", "std", "var"]


def _count(a: DistributedArray, axis: Axis, keepdims: bool, where: ArrayLike) -> Any:
    """How many elements each result is made of: an int, or an array where a mask says which."""
    if where is True:
        return np.intp(math.prod([a.shape[i] for i in normalized(axis, a.ndim)]))
    if isinstance(where, DistributedArray):
        return reduce(np.add, where._viewed(where._view_map().broadcast_to(a.shape)), axis, np.intp, None, keepdims)
    axes = normalized(axis, a.ndim)
    mask: Any = np.broadcast_to(np.asarray(where), a.shape)
    return mask.sum(axis=axes, dtype=np.intp, keepdims=keepdims)


def _warn(count: ArrayLike, least: Any, message: str) -> None:
    """Warn where a count is not above what the result needs."""
    few = count <= least
    if bool(any(few) if isinstance(few, DistributedArray) else np.any(few)):
        warn_at(call_site(), message)


def _cast(a: DistributedArray, dtype: AnyDType) -> Any:
    return a if a.dtype == dtype else DistributedArray._of_node(astype_node(a, dtype))


def total_of(a: DistributedArray, axis: Axis, dtype: DTypeLike, out: Out, keepdims: bool, where: ArrayLike) -> Any:
    """The sum that an average is made of, in the dtype that it would have as it lands in ``out=``."""
    if dtype is not None:
        check_dtype(dtype)
    if out is None:
        return reduce(np.add, a, axis, dtype, None, keepdims, NOTHING, where)
    check_out(out)
    if dtype is None and a.dtype.kind != "m":  # no dtype= of NumPy's has a unit
        dtype = computed_in(np.add, a.dtype, out.dtype)
    total = reduce(np.add, a, axis, dtype, None, keepdims, NOTHING, where)
    if tuple(out.shape) != total.shape:
        raise ValueError(
            f"output parameter for reduction operation add has shape {tuple(out.shape)}, and the result has shape "
            f"{total.shape}: pass an out= of that shape"
        )
    real_out(total.dtype, out.dtype)
    return _cast(total, out.dtype)


def _wide(dtype: AnyDType) -> Any:
    """The dtype in which NumPy averages integers and bools."""
    return np.dtype(np.float64) if dtype.kind in "biu" else None


@implements(np.mean)
@described_as(sum)
def mean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: Out = None,
    keepdims: bool = NOTHING,
    *,
    where: ArrayLike = NOTHING,
) -> Any:
    """Arithmetic mean of the elements along axes.

    Parameters
    ----------
    dtype : dtype, optional
        Of the computation. Default: ``float64`` for integers and bools; ``float32``, rounded at the end, for ``float16``.

    Warns
    -----
    RuntimeWarning
        "Mean of empty slice", where there is nothing to average.

    Notes
    -----
    Communication: none at the call; partial sums are brought together at the demand, with the size of the result.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     float(da.mean(da.asarray([1, 2, 3, 6], layout=da.blocks(0))))
    3.0
    """
    array, keepdims, where = asarray(a), keeps_axes(keepdims), _counted(where)
    _check_axis(axis, array.ndim, where)
    half = dtype is None and array.dtype == np.float16
    inner = np.dtype(np.float32) if half else _wide(array.dtype) if dtype is None else dtype
    total = total_of(array, axis, inner, out, keepdims, where)
    count = _count(array, axis, keepdims, where)
    _warn(count, 0, "Mean of empty slice")
    value = _cast(np.true_divide(total, count), np.dtype(np.float16) if half and out is None else total.dtype)
    return deliver(value, out)


def _counted(where: ArrayLike) -> Any:
    """The mask of ``where=``: elements are counted by it, which None and text are nothing for, although a sum takes them."""
    if where is None or isinstance(where, (str, bytes)):
        raise TypeError(f"where= must be a mask, a bool or an integer, not {where!r}")
    return where_mask(where)


def _check_axis(axis: Axis, ndim: int, where: ArrayLike) -> None:
    """A mean counts the elements along its axes, so that 0-d arrays have none; sums and masks allow axis 0 there."""
    if axis is not None and where is True:
        normalize_axis_tuple(axis, ndim)


def _variance(
    a: ArrayLike,
    axis: Axis,
    dtype: DTypeLike,
    out: Out,
    ddof: Any,
    keepdims: bool,
    where: ArrayLike,
    mean: ArrayLike,
    correction: float,
    root: bool,
) -> tuple[Any, bool]:
    """The variance as it lands in ``out=``, not yet stored; or with True the deviation, where `root` asks for it and it cost
    nothing more."""
    if correction is not NOTHING:
        if ddof != 0:
            raise ValueError("ddof and correction can't be provided simultaneously.")
        ddof = correction
    array, keepdims, where = asarray(a), keeps_axes(keepdims), _counted(where)
    _check_axis(axis, array.ndim, where)
    inner = _wide(array.dtype) if dtype is None else dtype
    plain = where is True and dtype is None and out is None and (mean is NOTHING or mean is None)
    kind, eager = array._context.kind, array._context.eager
    if plain and array.dtype == np.float32 and array.size and kind != "host" and not (eager or array._own().exposed):
        count = _count(array, axis, keepdims, True)
        divisor = np.maximum(count - ddof, 0)
        made = Spread("deviation" if root else "variance", int(count), float(divisor), array.dtype)
        found = _squares_apart(array, normalized(axis, array.ndim), keepdims, made)
        if found is not None:
            _warn(count, ddof, "Degrees of freedom <= 0 for slice")
            return (found[0], root) if found[1] else (_cast(np.true_divide(found[0], divisor), array.dtype), False)
    if mean is NOTHING or mean is None:
        middle = reduce(np.add, array, axis, inner, None, True, NOTHING, where)
        middle = _cast(np.true_divide(middle, _count(array, axis, True, where)), middle.dtype)
    else:
        middle = mean
    count = _count(array, axis, keepdims, where)
    _warn(count, ddof, "Degrees of freedom <= 0 for slice")
    apart = np.subtract(array, middle)
    if apart.dtype.kind == "c":
        apart = np.square(apart.real) + np.square(apart.imag)
    else:
        apart = np.square(apart)
    total = total_of(apart, axis, inner, out, keepdims, where)
    return _cast(np.true_divide(total, np.maximum(count - ddof, 0)), total.dtype), False


def _squares_apart(
    array: DistributedArray, axes: tuple[int, ...], keepdims: bool, made: Spread
) -> tuple[DistributedArray, bool] | None:
    """Sums of squared distances from the mean, in one pass over a single-precision array, or with True what is made of them;
    None where that can't be.

    By sums of the distances from one element of each line, and of their squares, in double precision: a line of equal
    numbers gives 0, and what cancels is far below the rounding of the array's own precision.
    """
    if not axes:
        return None
    split = split_spread(array._context, array, axes, keepdims, made)
    if split is not None:
        return split, True
    wide = np.dtype(np.float64)
    first = array[tuple([slice(0, 1) if i in axes else slice(None) for i in range(array.ndim)])]
    regions = [region for _, region in array.layout.chunks]
    if builtins.any(region[i].size != array.shape[i] for region in regions for i in axes):
        first = first.reshard(replicated())  # each device needs the first element of the lines that it holds a part of
    apart = np.subtract(_cast(array, wide), _cast(first, wide))
    sums = moments(array._context, apart, axes, keepdims, made)
    if sums is None or sums[1]:
        return sums
    total, squares = sums[0][0], sums[0][1]
    variation: Any = np.maximum(squares - total * (total / made.elements), 0.0)
    return variation, False


@implements(np.var)
@described_as(mean)
def var(
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
    """Variance of the elements along axes: the mean of the squared distances from their mean.

    Parameters
    ----------
    ddof : int or float, optional
        The divisor is the number of elements less this.
    mean : array_like, optional
        The mean, with the reduced axes kept, where it is known already.
    correction : int or float, optional
        Another name of `ddof`: one or the other.

    Raises
    ------
    ValueError
        Both `ddof` and `correction`.

    Warns
    -----
    RuntimeWarning
        "Degrees of freedom <= 0 for slice".

    Notes
    -----
    Communication: the mean is brought together first, then the sums of squares at the demand, each with the size of the
    result.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     float(da.var(da.asarray([1.0, 2.0, 3.0, 6.0], layout=da.blocks(0))))
    3.5
    """
    value, _ = _variance(a, axis, dtype, out, ddof, keepdims, where, mean, correction, False)
    return deliver(value, out)


@implements(np.std)
@described_as(var)
def std(
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
    """Standard deviation of the elements along axes: the square root of :func:`var`.

    Notes
    -----
    Communication: as for :func:`var`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     float(da.std(da.asarray([1.0, 3.0])))
    1.0
    """
    value, done = _variance(a, axis, dtype, out, ddof, keepdims, where, mean, correction, True)
    if done:
        return deliver(value, out)
    root = np.sqrt(value)
    if (value.ndim or out is not None) and not np.can_cast(root.dtype, value.dtype, "same_kind"):
        raise TypeError(
            f"Cannot cast ufunc 'sqrt' output from {root.dtype!r} to {value.dtype!r} with casting rule 'same_kind': pass "
            f"a floating dtype= or out="
        )
    root = _cast(root, value.dtype)
    return deliver(root, out)
