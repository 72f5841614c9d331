"""The reductions of NumPy and the array API: ``sum``, ``prod``, ``min``, ``max``, ``any``, ``all``,
``count_nonzero`` and ``ptp``.

Each is NumPy's own definition in terms of ``ufunc.reduce``, so that what is special about distributed arrays stands in
one place, ``algorithms/reduction.py``, and NumPy's rules for arguments and dtypes stand here.
"""

from __future__ import annotations

import functools
from functools import lru_cache
from typing import Any, cast

import numpy as np

from distarray.algorithms.again import again
from distarray.algorithms.fold_plans import Reduction
from distarray.algorithms.reduction import (
    as_taken,
    computed_in,
    learn,
    normalized,
    place_operand,
    real_out,
    reduced,
    small,
)
from distarray.algorithms.small_folds import fold_again
from distarray.array.aliases import ArrayLike, Axis, DTypeLike, Out
from distarray.array.documented import described_as
from distarray.array.functions import NOTHING, given, implements
from distarray.array.shapes import as_mask
from distarray.array.state import DistributedArray, same_context
from distarray.array.writing import check_out, check_reduced, deliver, single
from distarray.devices.arrays import AnyDType
from distarray.ops.convert import asarray
from distarray.ops.vectorizing import fold_python, is_python

__all__ = ["all", "amax", "amin", "any", "count_nonzero", "max", "min", "prod", "ptp", "sum"]


@implements(np.sum)
def sum(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike = None,
    out: Out = None,
    keepdims: bool = NOTHING,
    initial: ArrayLike | None = NOTHING,
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
    out: Out = None,
    keepdims: bool = NOTHING,
    initial: ArrayLike | None = NOTHING,
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
    out: Out = None,
    keepdims: bool = NOTHING,
    initial: ArrayLike | None = NOTHING,
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
    out: Out = None,
    keepdims: bool = NOTHING,
    initial: ArrayLike | None = NOTHING,
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
    a: ArrayLike, axis: Axis = None, out: Out = None, keepdims: bool = NOTHING, *, where: ArrayLike = NOTHING
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
    a: ArrayLike, axis: Axis = None, out: Out = None, keepdims: bool = NOTHING, *, where: ArrayLike = NOTHING
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
    return reduce(np.add, is_true(asarray(a)), axis, np.intp, None, keepdims)


def is_true(x: DistributedArray) -> Any:
    """Of each element whether it is not zero; of a structure, whether a field is not."""
    if x.dtype.names is not None:
        fields = [is_true(x[name]) for name in x.dtype.names]
        flat = [any(field, tuple(range(x.ndim, field.ndim))) if field.ndim > x.ndim else field for field in fields]
        return functools.reduce(np.logical_or, flat)
    x = x.view(np.int64) if x.dtype.kind in "mM" else x  # NaT is not zero
    return x if x.dtype.kind == "b" else np.not_equal(x, 0)


@implements(np.ptp)
@described_as(max)
def ptp(a: ArrayLike, axis: Axis = None, out: Out = None, keepdims: bool = NOTHING) -> Any:
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
        check_out(out)
        check_reduced(out, top.shape, "maximum")
        if np.can_cast(top.dtype, out.dtype, "same_kind"):  # NumPy finds the largest in it, and subtracts from that
            top = top.astype(out.dtype)
        return np.subtract(top, bottom, out=cast("Any", out))
    return deliver(np.subtract(top, bottom), None)


def where_mask(where: ArrayLike) -> Any:
    return True if where is NOTHING or where is True else as_mask(where)


def reduce(
    ufunc: np.ufunc,
    array: ArrayLike,
    axis: Axis = 0,
    dtype: DTypeLike = None,
    out: Out = None,
    keepdims: bool = False,
    initial: ArrayLike | None = NOTHING,
    where: ArrayLike = True,
) -> Any:
    """``ufunc.reduce(array, axis, dtype, out, keepdims, initial, where)`` for any binary ufunc.

    Notes
    -----
    Communication: none where no reduced axis is split, nor for add, multiply, maximum, minimum, logical_or and
    logical_and, whose results stay in a partial mode. Other ufuncs pass running values of the result's size along the
    devices of an axis; where the axis is strided over devices, the array is cut into blocks first.
    """
    out = single(out)
    where = where_mask(where)
    plain = out is None and where is True and initial is NOTHING and (dtype is None or isinstance(dtype, np.dtype))
    plain = plain and type(keepdims) is bool and (axis is None or type(axis) is int)
    key = ("fold", ufunc, axis, dtype, keepdims)
    if plain and type(array) is DistributedArray:
        ready = fold_again(key, array) if array._context.kind == "host" else again(key, array)
        if ready is not None:
            return ready
    known = [item for item in (array, out, where, initial) if isinstance(item, DistributedArray)]
    context = same_context(known) if known else asarray(array)._context
    if isinstance(initial, DistributedArray):
        initial = initial.get()[()]
    a = array if isinstance(array, DistributedArray) else place_operand(context, array)
    if ufunc.ntypes == 1 and is_python(ufunc):
        given = {} if initial is NOTHING else {"initial": initial}
        refused = out is not None, where is not True, dtype is not None
        return fold_python("reduce", ufunc, a, axis, refused=refused, keepdims=keepdims, **given)
    a = as_taken(ufunc, a, dtype)
    if plain:
        call = _accepted(ufunc, a.shape, a.dtype, axis, cast("Any", dtype), keepdims)
    else:
        call = _checked(ufunc, a, axis, dtype, out, keepdims, initial, where)
    result = reduced(context, call, a, where)
    result = deliver(result, out)
    if plain and a is array:
        learn(key, call, a, result)
    return result


@lru_cache(maxsize=2048)
def _accepted(
    ufunc: np.ufunc, shape: tuple[int, ...], dtype: AnyDType, axis: int | None, given: AnyDType | None, keepdims: bool
) -> Reduction:
    """A call with the plainest arguments, after NumPy itself has accepted or refused one like it."""
    with np.errstate(all="ignore"):
        result = np.asarray(ufunc.reduce(small(shape, dtype), axis=axis, dtype=given, keepdims=keepdims))
    return Reduction(ufunc, normalized(axis, len(shape)), keepdims, result.dtype, given, NOTHING)


def _checked(
    ufunc: np.ufunc,
    a: DistributedArray,
    axis: Axis,
    dtype: Any,
    out: Out,
    keepdims: bool,
    initial: ArrayLike | None,
    where: Any,
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
        computed = a.dtype
        if out is None or initial is NOTHING or dtype is not None:  # else the dtype of `out` decides what it may be
            try:
                computed = np.asarray(ufunc.reduce(model, **kwargs)).dtype
            except TypeError:  # bools are subtracted in other dtypes alone
                if out is None or dtype is not None:
                    raise
        if out is not None:
            check_out(out)
            target = np.zeros([n and 1 for n in out.shape], real_out(computed, out.dtype))
            ufunc.reduce(model, out=target, **kwargs)
            if dtype is None:
                computed = computed_in(ufunc, a.dtype, out.dtype)
    axes = normalized(axis, a.ndim)
    call = Reduction(ufunc, axes, bool(keepdims), computed, dtype, initial)
    check_reduced(out, call.shape(a.shape), ufunc.__name__)
    if initial is not NOTHING and initial is not None:
        value = np.empty((), computed)
        value[...] = initial
        if out is not None:  # NumPy begins with it there
            with np.errstate(all="ignore"):
                begun = value.real if computed.kind == "c" and out.dtype.kind in "iuf" else value
                value = begun.astype(out.dtype).astype(computed)
        call = call._replace(initial=value[()])
    return call
