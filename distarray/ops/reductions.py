"""The reductions of NumPy and the array API: ``sum``, ``prod``, ``min``, ``max``, ``any``, ``all``, ``mean``, ``var``,
``std``, ``count_nonzero`` and ``ptp``.

Each is NumPy's own definition in terms of ``ufunc.reduce``, so that what is special about distributed arrays stands in
one place, ``algorithms/reduction.py``, and the rules for dtypes, empty slices and degrees of freedom stand here.
"""

from __future__ import annotations

import builtins
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from distarray.algorithms.reduction import (
    Reduction,
    Spread,
    as_taken,
    computed_in,
    moments,
    normalized,
    place_operand,
    reduced,
    small,
)
from distarray.algorithms.spreads import split_spread
from distarray.array.aliases import ArrayLike, Axis, DTypeLike
from distarray.array.documented import described_as
from distarray.array.functions import NOTHING, given, implements
from distarray.array.shapes import as_mask
from distarray.array.state import DistributedArray, astype_node, same_context
from distarray.array.writing import check_out, deliver, single
from distarray.fusion.expr import call_site, warn_at
from distarray.geometry import replicated
from distarray.ops.convert import asarray

__all__ = ["all", "amax", "amin", "any", "count_nonzero", "max", "mean", "min", "prod", "ptp", "std", "sum", "var"]


@implements(np.sum)
def sum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: Any = None,
    keepdims: bool = NOTHING,
    initial: Any = NOTHING,
    where: ArrayLike = NOTHING,
) -> Any:
    """Sum of the elements along axes.

    Parameters
    ----------
    a : array_like
    axis : int or tuple of int, optional
        The axes that are reduced. Default: all of them.
    dtype : dtype, optional
        Of the computation and the result. Default: that of `a`; of integers shorter than ``int64`` and bools, ``int64``
        or ``uint64``.
    out : DistributedArray or numpy.ndarray, optional
        Where to put the result.
    keepdims : bool, optional
        Keep the reduced axes, with length 1.
    initial : scalar, optional
        The value to begin with.
    where : array_like of bool, optional
        The elements to include.

    Returns
    -------
    DistributedArray
        Without the reduced axes, or with `keepdims` of length 1 along them.

    Notes
    -----
    Communication: none. Where a summed axis is split over devices, each keeps its partial sum and the result is in SUM
    mode until its values are needed.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.asarray(np.arange(6).reshape(2, 3), layout=da.blocks(0))
    ...     y = da.sum(x, axis=0)
    ...     y.layout, y.get()
    (Layout(SUM, {0: [0:3]; 1: [0:3]}), array([3, 5, 7]))
    """
    return reduce(np.add, asarray(a), axis, dtype, out, given(keepdims, False), initial, where)


@implements(np.prod)
@described_as(sum)
def prod(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: Any = None,
    keepdims: bool = NOTHING,
    initial: Any = NOTHING,
    where: ArrayLike = NOTHING,
) -> Any:
    """Product of the elements along axes.

    Notes
    -----
    Communication: none. Where an axis is split over devices, the result stays in PROD mode.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     int(da.prod(da.asarray([2, 3, 4])))
    24
    """
    return reduce(np.multiply, asarray(a), axis, dtype, out, given(keepdims, False), initial, where)


@implements(np.max, np.amax)
@described_as(sum)
def max(
    a: ArrayLike,
    axis: Axis = None,
    out: Any = None,
    keepdims: bool = NOTHING,
    initial: Any = NOTHING,
    where: ArrayLike = NOTHING,
) -> Any:
    """Largest element along axes, NaN where there is one.

    Parameters
    ----------
    initial : scalar, optional
        The least value of the result; needed where there are no elements.

    Raises
    ------
    ValueError
        There is no element and no `initial`.

    Notes
    -----
    Communication: none. Where an axis is split over devices, the result stays in MAX mode.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     int(da.max(da.asarray([2, 4, 3])))
    4
    """
    return reduce(np.maximum, asarray(a), axis, None, out, given(keepdims, False), initial, where)


@implements(np.min, np.amin)
@described_as(sum)
def min(
    a: ArrayLike,
    axis: Axis = None,
    out: Any = None,
    keepdims: bool = NOTHING,
    initial: Any = NOTHING,
    where: ArrayLike = NOTHING,
) -> Any:
    """Smallest element along axes, NaN where there is one.

    Parameters
    ----------
    initial : scalar, optional
        The greatest value of the result; needed where there are no elements.

    Raises
    ------
    ValueError
        There is no element and no `initial`.

    Notes
    -----
    Communication: none. Where an axis is split over devices, the result stays in MIN mode.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     int(da.min(da.asarray([2, 4, 3])))
    2
    """
    return reduce(np.minimum, asarray(a), axis, None, out, given(keepdims, False), initial, where)


amax, amin = max, min


@implements(np.any)
@described_as(sum)
def any(
    a: ArrayLike, axis: Axis = None, out: Any = None, keepdims: bool = NOTHING, *, where: ArrayLike = NOTHING
) -> Any:
    """Whether any element along axes is true.

    Returns
    -------
    DistributedArray
        Of bool, without the reduced axes, or with `keepdims` of length 1 along them.

    Notes
    -----
    Communication: none. Where an axis is split over devices, the result stays in MAX mode.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     bool(da.any(da.asarray([0, 4, 3]) > 3))
    True
    """
    return reduce(np.logical_or, asarray(a), axis, None, out, given(keepdims, False), NOTHING, where)


@implements(np.all)
@described_as(any)
def all(
    a: ArrayLike, axis: Axis = None, out: Any = None, keepdims: bool = NOTHING, *, where: ArrayLike = NOTHING
) -> Any:
    """Whether all elements along axes are true.

    Notes
    -----
    Communication: none. Where an axis is split over devices, the result stays in MIN mode.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     bool(da.all(da.asarray([0, 4, 3]) > 3))
    False
    """
    return reduce(np.logical_and, asarray(a), axis, None, out, given(keepdims, False), NOTHING, where)


@implements(np.count_nonzero)
@described_as(sum)
def count_nonzero(a: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> Any:
    """How many elements along axes are not zero.

    Returns
    -------
    DistributedArray
        Of ``int64``, without the reduced axes, or with `keepdims` of length 1 along them.

    Notes
    -----
    Communication: none. Where an axis is split over devices, the result stays in SUM mode.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     int(da.count_nonzero(da.asarray([0, 4, 3])))
    2
    """
    x = asarray(a)
    x = x.view(np.int64) if x.dtype.kind in "mM" else x  # NaT is not zero
    return reduce(np.add, x != 0, axis, np.intp, None, keepdims)


@implements(np.ptp)
@described_as(max)
def ptp(a: ArrayLike, axis: Axis = None, out: Any = None, keepdims: bool = NOTHING) -> Any:
    """Largest less smallest element along axes.

    Notes
    -----
    Communication: none at the call; the extremes are brought together, with the size of the result, at the demand.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     int(da.ptp(da.asarray([2, 4, 7])))
    5
    """
    array = asarray(a)
    top, bottom = max(array, axis, keepdims=keepdims), min(array, axis, keepdims=keepdims)
    if out is not None:
        return np.subtract(top, bottom, out=out)
    return deliver(np.subtract(top, bottom), None)


def _count(a: DistributedArray, axis: Any, keepdims: bool, where: Any) -> Any:
    """How many elements each result is made of: an int, or an array where a mask says which."""
    if where is True:
        count = 1
        for i in normalized(axis, a.ndim):
            count *= a.shape[i]
        return np.intp(count)
    if isinstance(where, DistributedArray):
        return reduce(np.add, where._viewed(where._view_map().broadcast_to(a.shape)), axis, np.intp, None, keepdims)
    axes = normalized(axis, a.ndim)
    mask: Any = np.broadcast_to(np.asarray(where), a.shape)
    return mask.sum(axis=axes, dtype=np.intp, keepdims=keepdims)


def _mask(where: Any) -> Any:
    return True if where is NOTHING or where is True else as_mask(where)


def _warn(count: Any, least: Any, message: str) -> None:
    """Warn where a count is not above what the result needs."""
    few = count <= least
    if bool(any(few) if isinstance(few, DistributedArray) else np.any(few)):
        warn_at(call_site(), message)


def _cast(a: Any, dtype: Any) -> Any:
    return a if a.dtype == dtype else DistributedArray._of_node(astype_node(a, dtype))


def _total(a: Any, axis: Any, dtype: Any, out: Any, keepdims: bool, where: Any) -> Any:
    """The sum that an average is made of, in the dtype that it would have as it lands in ``out=``."""
    if out is None:
        return reduce(np.add, a, axis, dtype, None, keepdims, NOTHING, where)
    check_out(out)
    total = reduce(np.add, a, axis, computed_in(np.add, a.dtype, out.dtype) if dtype is None else dtype, None, keepdims,
                   NOTHING, where)  # fmt: skip
    if tuple(out.shape) != total.shape:
        raise ValueError(
            f"output parameter for reduction operation add has shape {tuple(out.shape)}, and the result has shape "
            f"{total.shape}: pass an out= of that shape"
        )
    return _cast(total, out.dtype)


def _wide(dtype: Any) -> Any:
    """The dtype in which NumPy averages integers and bools."""
    return np.dtype(np.float64) if dtype.kind in "biu" else None


@implements(np.mean)
@described_as(sum)
def mean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: Any = None,
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
    array, keepdims, where = asarray(a), bool(given(keepdims, False)), _mask(where)
    _check_axis(axis, array.ndim)
    half = dtype is None and array.dtype == np.float16
    inner = np.dtype(np.float32) if half else _wide(array.dtype) if dtype is None else dtype
    total = _total(array, axis, inner, out, keepdims, where)
    count = _count(array, axis, keepdims, where)
    _warn(count, 0, "Mean of empty slice")
    value = _cast(np.true_divide(total, count), np.dtype(np.float16) if half and out is None else total.dtype)
    return deliver(value, out)


def _check_axis(axis: Any, ndim: int) -> None:
    """A mean counts the elements along its axes, so that 0-d arrays have none, although a sum allows axis 0 there."""
    if axis is not None:
        normalize_axis_tuple(axis, ndim)


def _variance(
    a: Any,
    axis: Any,
    dtype: Any,
    out: Any,
    ddof: Any,
    keepdims: Any,
    where: Any,
    mean: Any,
    correction: Any,
    root: bool,
) -> tuple[Any, bool]:
    """The variance as it lands in ``out=``, not yet stored; or with True the deviation, where `root` asks for it and it cost
    nothing more."""
    if correction is not NOTHING:
        if ddof != 0:
            raise ValueError("ddof and correction can't be provided simultaneously.")
        ddof = correction
    array, keepdims, where = asarray(a), bool(given(keepdims, False)), _mask(where)
    _check_axis(axis, array.ndim)
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
    total = _total(apart, axis, inner, out, keepdims, where)
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
        first = first.reshard(replicated())  # of lines that are cut, each device needs it
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
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = NOTHING,
    *,
    where: ArrayLike = NOTHING,
    mean: Any = NOTHING,
    correction: Any = NOTHING,
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
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = NOTHING,
    *,
    where: ArrayLike = NOTHING,
    mean: Any = NOTHING,
    correction: Any = NOTHING,
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


def reduce(
    ufunc: np.ufunc,
    array: Any,
    axis: Any = 0,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = NOTHING,
    where: Any = True,
) -> Any:
    """``ufunc.reduce(array, axis, dtype, out, keepdims, initial, where)`` for any binary ufunc.

    Notes
    -----
    Communication: none where no reduced axis is split, nor for add, multiply, maximum, minimum, logical_or and
    logical_and, whose results stay in a partial mode. Other ufuncs pass running values of the result's size along the
    devices of an axis; where the axis is strided over devices, the array is cut into blocks first.
    """
    out = single(out)
    where = _mask(where)
    known = [item for item in (array, out, where, initial) if isinstance(item, DistributedArray)]
    context = same_context(known) if known else asarray(array)._context
    if isinstance(initial, DistributedArray):
        initial = initial.get()[()]
    a = as_taken(ufunc, array if isinstance(array, DistributedArray) else place_operand(context, array), dtype)
    plain = out is None and where is True and initial is NOTHING and (dtype is None or isinstance(dtype, np.dtype))
    if plain and type(keepdims) is bool and (axis is None or type(axis) is int):
        call = _accepted(ufunc, a.shape, a.dtype, axis, dtype, keepdims)
    else:
        call = _checked(ufunc, a, axis, dtype, out, keepdims, initial, where)
    result = reduced(context, call, a, where)
    return deliver(result, out)


@lru_cache(maxsize=2048)
def _accepted(
    ufunc: np.ufunc, shape: tuple[int, ...], dtype: Any, axis: int | None, given: Any, keepdims: bool
) -> Reduction:
    """A call with the plainest arguments, after NumPy itself has accepted or refused one like it."""
    with np.errstate(all="ignore"):
        result = np.asarray(ufunc.reduce(small(shape, dtype), axis=axis, dtype=given, keepdims=keepdims))
    return Reduction(ufunc, normalized(axis, len(shape)), keepdims, result.dtype, given, NOTHING)


def _checked(
    ufunc: np.ufunc, a: DistributedArray, axis: Any, dtype: Any, out: Any, keepdims: bool, initial: Any, where: Any
) -> Reduction:
    """The call, after NumPy itself has accepted or refused one like it."""
    model = small(a.shape, a.dtype)
    kwargs: dict[str, Any] = {"axis": axis, "dtype": dtype, "keepdims": keepdims, "initial": initial}
    if where is not True:
        if np.broadcast_shapes(where.shape, a.shape) != a.shape:
            raise ValueError(
                f"non-broadcastable operand: where= of {ufunc.__name__}.reduce has shape {where.shape}, which doesn't "
                f"broadcast to the array's shape {a.shape}: pass a mask that does"
            )
        kwargs["where"] = small(where.shape, where.dtype)
    with np.errstate(all="ignore"):
        result = np.asarray(ufunc.reduce(model, **kwargs))
        computed = result.dtype
        if out is not None:
            check_out(out)
            target = np.zeros([n and 1 for n in out.shape], out.dtype)
            ufunc.reduce(model, out=target, **kwargs)
            if dtype is None:
                computed = computed_in(ufunc, a.dtype, out.dtype)
    axes = normalized(axis, a.ndim)
    call = Reduction(ufunc, axes, bool(keepdims), computed, dtype, initial)
    if out is not None and tuple(out.shape) != call.shape(a.shape):
        raise ValueError(
            f"output parameter for reduction operation {ufunc.__name__} has shape {tuple(out.shape)}, and the result has "
            f"shape {call.shape(a.shape)}: pass an out= of that shape"
        )
    if initial is not NOTHING and initial is not None:
        value = np.empty((), computed)
        value[...] = initial
        call = call._replace(initial=value[()])
    return call
