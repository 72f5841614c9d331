"""Scans: ``ufunc.accumulate`` and ``ufunc.reduceat`` of every binary ufunc, and the cumulative sums and products.

They are apart from the reductions because their results are as large as the array, and stay where it is: along a split
axis only one running slice passes from each device to the next.
"""

from __future__ import annotations

import operator
from functools import lru_cache
from typing import Any

import numpy as np

from distarray.algorithms.reduction import as_taken, computed_in, normalized, place_operand, real_out, small
from distarray.algorithms.scans import Accumulation, reduced_at, scanned
from distarray.array.aliases import ArrayLike, Axis, DTypeLike, Out
from distarray.array.documented import described_as
from distarray.array.functions import implements
from distarray.array.layouts import resolve_layout
from distarray.array.place import place
from distarray.array.state import DistributedArray, from_chunks, same_context
from distarray.array.writing import check_out, deliver, single
from distarray.context import Context
from distarray.devices import Chunk
from distarray.devices.arrays import AnyDType
from distarray.geometry import IndexMap, Range, Region
from distarray.ops.convert import asarray
from distarray.ops.reshaping import reshape
from distarray.ops.vectorizing import fold_python, is_python

__all__ = ["cumprod", "cumsum", "cumulative_prod", "cumulative_sum"]


def _start(array: ArrayLike, out: Out) -> tuple[Context, DistributedArray, Any]:
    """The context, the operand and the target of a ufunc's method."""
    out = single(out)
    known = [item for item in (array, out) if isinstance(item, DistributedArray)]
    context = same_context(known) if known else asarray(array)._context
    return context, array if isinstance(array, DistributedArray) else place_operand(context, array), out


def _checked(
    name: str, ufunc: np.ufunc, a: DistributedArray, axis: Axis, dtype: DTypeLike, out: Out, *indices: Any
) -> Accumulation:
    """The call, after NumPy itself has accepted or refused one like it."""
    if out is None and dtype is None and not indices and type(axis) is int:
        at, computed = _accepted(name, ufunc, a.dtype, tuple([n and 1 for n in a.shape]), axis)
        return Accumulation(ufunc, at, computed, None)
    model = small(a.shape, a.dtype)
    function = getattr(ufunc, name)
    with np.errstate(all="ignore"):
        try:
            result = function(model, *indices, axis=axis, dtype=dtype)
        except TypeError:  # bools are subtracted in other dtypes alone
            if not isinstance(out, (np.ndarray, DistributedArray)) or dtype is not None:
                raise
            result = function(model.astype(out.dtype), *indices, axis=axis)
        computed = result.dtype
        if out is not None:
            check_out(out)
            function(model, *indices, axis=axis, dtype=dtype, out=np.zeros(result.shape, real_out(computed, out.dtype)))
            if dtype is None:
                computed = computed_in(ufunc, a.dtype, out.dtype)
    (at,) = normalized(axis, a.ndim)
    return Accumulation(ufunc, at, computed, dtype)


@lru_cache(1024)
def _accepted(name: str, ufunc: np.ufunc, dtype: AnyDType, shape: tuple[int, ...], axis: int) -> tuple[int, Any]:
    """The axis and the dtype of a call on an array of at most one element."""
    with np.errstate(all="ignore"):
        computed = getattr(ufunc, name)(np.ones(shape, dtype), axis=axis).dtype
    (at,) = normalized(axis, len(shape))
    return at, computed


def _fits(name: str, out: Out, shape: tuple[int, ...]) -> None:
    if out is not None and tuple(out.shape) != shape:
        raise ValueError(
            f"provided out has shape {tuple(out.shape)}, and the result of {name} has shape {shape}: pass an out= of that "
            f"shape"
        )


# --- accumulate ---------------------------------------------------------------------------------------------------------


def accumulate(ufunc: np.ufunc, array: ArrayLike, axis: Axis = 0, dtype: DTypeLike = None, out: Out = None) -> Any:
    """``ufunc.accumulate(array, axis, dtype, out)`` for any binary ufunc, element after element as NumPy does.

    Notes
    -----
    On host devices the bits are NumPy's, but for complex products, which NumPy rounds by how an array lies in memory.

    Communication: none where the axis is not split. Else one slice from each device to the next along the axis; where the
    axis is strided over devices, the array is cut into blocks first.
    """
    context, a, out = _start(array, out)
    if ufunc.ntypes == 1 and is_python(ufunc):
        return fold_python("accumulate", ufunc, a, axis, refused=(out is not None, dtype is not None))
    a = as_taken(ufunc, a, dtype)
    call = _checked("accumulate", ufunc, a, axis, dtype, out)
    _fits(f"{ufunc.__name__}.accumulate", out, a.shape)
    return deliver(scanned(context, call, a), out)


def _cumulated(ufunc: np.ufunc, a: ArrayLike, axis: Any, dtype: DTypeLike, out: Out) -> Any:
    array = asarray(a)
    if axis is not None:
        axis = operator.index(axis)
    if axis is None and array.ndim != 1:
        array, axis = reshape(array, -1), 0
    elif not array.ndim:
        normal = np.empty(0)
        np.cumsum(normal, axis=axis)
        array = array._viewed(array._view_map().expand_dims(0))
    return accumulate(ufunc, array, 0 if axis is None else axis, dtype, out)


@implements(np.cumsum)
def cumsum(a: ArrayLike, axis: Axis = None, dtype: DTypeLike = None, out: Out = None) -> Any:
    """Cumulative sum along an axis, or over the flattened array.

    Parameters
    ----------
    a : array_like
    axis : int, optional
        Default: the array is taken as flat, in C order.
    dtype : dtype, optional
        Of the result. Default: that of `a`; of shorter integers and bools, ``int64`` or ``uint64``.
    out : DistributedArray or numpy.ndarray, optional
        Where to put the result.

    Returns
    -------
    DistributedArray
        Of the shape of `a`, or of one axis without `axis`.

    Notes
    -----
    Communication: one slice from each device to the next along a split axis; with ``axis=None`` also what the reshape of
    the array moves.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.cumsum(da.asarray([1, 2, 3, 4], layout=da.blocks(0))).get()
    array([ 1,  3,  6, 10])
    """
    return _cumulated(np.add, a, axis, dtype, out)


@implements(np.cumprod)
@described_as(cumsum)
def cumprod(a: ArrayLike, axis: Axis = None, dtype: DTypeLike = None, out: Out = None) -> Any:
    """Cumulative product along an axis, or over the flattened array.

    Notes
    -----
    Communication: as for :func:`cumsum`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.cumprod(da.asarray([1, 2, 3])).tolist()
    [1, 2, 6]
    """
    return _cumulated(np.multiply, a, axis, dtype, out)


@implements(np.cumulative_sum)
@described_as(cumsum)
def cumulative_sum(
    x: ArrayLike, /, *, axis: Axis = None, dtype: DTypeLike = None, out: Out = None, include_initial: bool = False
) -> Any:
    """Cumulative sum along an axis, as in the array API.

    Parameters
    ----------
    x : array_like
    axis : int, optional
        May be left out for arrays of one axis.
    dtype : dtype, optional
        Of the result. Default: that of `x`; of shorter integers and bools, ``int64`` or ``uint64``.
    include_initial : bool, optional
        Begin with the sum of no elements, 0.

    Returns
    -------
    DistributedArray
        Of the shape of `x`, with `include_initial` longer by one along the axis.

    Raises
    ------
    ValueError
        `axis` is left out, and `x` has more than one.

    Notes
    -----
    Communication: one slice from each device to the next along a split axis.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.cumulative_sum(da.asarray([1, 2, 3]), include_initial=True).tolist()
    [0, 1, 3, 6]
    """
    return _cumulative(np.add, x, axis, dtype, out, include_initial)


@implements(np.cumulative_prod)
@described_as(cumulative_sum)
def cumulative_prod(
    x: ArrayLike, /, *, axis: Axis = None, dtype: DTypeLike = None, out: Out = None, include_initial: bool = False
) -> Any:
    """Cumulative product along an axis, as in the array API.

    Parameters
    ----------
    include_initial : bool, optional
        Begin with the product of no elements, 1.

    Notes
    -----
    Communication: as for :func:`cumulative_sum`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.cumulative_prod(da.asarray([1, 2, 3])).tolist()
    [1, 2, 6]
    """
    return _cumulative(np.multiply, x, axis, dtype, out, include_initial)


def _cumulative(ufunc: np.ufunc, x: ArrayLike, axis: Axis, dtype: DTypeLike, out: Out, include_initial: bool) -> Any:
    a = asarray(x)
    if not a.ndim:
        a = a._viewed(a._view_map().expand_dims(0))
    if axis is None:
        if a.ndim > 1:
            raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
        axis = 0
    a = as_taken(ufunc, a, dtype)
    call = _checked("accumulate", ufunc, a, axis, dtype, out)
    if not include_initial:
        return accumulate(ufunc, a, axis, dtype, out)
    at = call.axis
    shape = (*a.shape[:at], a.shape[at] + 1, *a.shape[at + 1 :])
    _fits(f"cumulative {ufunc.__name__}", out, shape)
    context = a._context
    if not a.size:
        full = np.broadcast_to(np.full((), ufunc.identity, call.dtype), shape)
        result = place(context, full, resolve_layout(context, None, shape, itemsize=call.dtype.itemsize))
    else:
        result = _after_initial(context, call, scanned(context, call, a), shape)
    return deliver(result, out)


def _after_initial(
    context: Context, call: Accumulation, scan: DistributedArray, shape: tuple[int, ...]
) -> DistributedArray:
    """A scan moved on by one along its axis; who held the first slice also holds the initial one."""
    at, head = call.axis, (slice(None),) * call.axis
    found = scan._operand("accumulate")
    homes: dict[int, list[Region]] = {device: [] for device in found.layout.devices}
    chunks: dict[tuple[int, Region], Chunk] = {}
    with context.reporting():
        for (device_id, region), array in zip(found.layout.chunks, found.arrays, strict=True):
            device, run = context.by_id[device_id], region[at]
            if not region.size:
                continue
            leads = run.start == 0
            moved = Range(0, 1, run.size + 1) if leads else Range.of(run.start + 1, run.step, run.size)
            grown = Region((*region[:at], moved, *region[at + 1 :]))
            homes[device_id].append(grown)
            if device.process != context.process:
                continue
            chunk = device.empty(grown.shape, call.dtype, "accumulate")
            device.copy(chunk.array[(*head, slice(1 if leads else 0, None))], array, device)
            if leads:
                device.fill(chunk.array[(*head, slice(0, 1))], call.ufunc.identity)
            chunks[device_id, grown] = chunk
    index_map = IndexMap(shape, homes)
    return from_chunks(context, context.layout(index_map), [chunks.get(row) for row in index_map.chunks], call.dtype)


# --- reduceat -----------------------------------------------------------------------------------------------------------


def reduceat(
    ufunc: np.ufunc,
    array: ArrayLike,
    index: ArrayLike,
    /,
    axis: int = 0,
    dtype: DTypeLike = None,
    out: Out = None,
    indices: ArrayLike | None = None,
) -> Any:
    """``ufunc.reduceat(array, indices, axis, dtype, out)`` for any binary ufunc. NumPy passes ``indices=`` twice.

    Notes
    -----
    Communication: none where the axis is not split. Else each device takes an even share of the indices, and the slices
    that it lacks for them move to it.
    """
    context, a, out = _start(array, out)
    indices = index.get() if isinstance(index, DistributedArray) else index
    places = indices if isinstance(indices, np.ndarray) else np.array(indices, np.intp)
    zeros = np.zeros([n and 1 for n in places.shape], places.dtype)
    np.add.reduceat(np.ones([1] * a.ndim), zeros, axis=axis)
    (at,) = normalized(axis, a.ndim)
    n = a.shape[at]
    for i in places.tolist():
        if not 0 <= i < n:
            raise IndexError(f"index {i} out-of-bounds in {ufunc.__name__}.reduceat [0, {n})")
    if ufunc.ntypes == 1 and is_python(ufunc):
        return fold_python("reduceat", ufunc, a, axis, places, refused=(out is not None, dtype is not None))
    a = as_taken(ufunc, a, dtype)
    call = _checked("reduceat", ufunc, a, axis, dtype, out, zeros)
    shape = (*a.shape[:at], len(places), *a.shape[at + 1 :])
    _fits(f"{ufunc.__name__}.reduceat", out, shape)
    ends = [*places.tolist()[1:], n]
    runs = [Range.of(low, 1, high - low if high > low else 1) for low, high in zip(places.tolist(), ends, strict=False)]
    with context.lock:
        context.check()
        if not a.size or not runs:
            layout = resolve_layout(context, None, shape, itemsize=call.dtype.itemsize)
            return deliver(place(context, np.empty(shape, call.dtype), layout), out)
        return deliver(reduced_at(context, call, a, runs, shape), out)
