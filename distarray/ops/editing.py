"""Arrays with parts taken out, put in, chosen or packed: ``delete``, ``insert``, ``trim_zeros``, ``resize``, ``choose``,
``select``, ``piecewise``, ``put_along_axis``, ``packbits``, and indices made from others."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from distarray.algorithms.local import aligned, at, mapped, whole_along
from distarray.array.functions import implements
from distarray.array.place import as_array, host_values
from distarray.array.shapes import broadcast_shape
from distarray.array.state import DistributedArray, copy_array, same_context
from distarray.geometry import IndexMap, Range, Region
from distarray.ops import reductions
from distarray.ops.choosing import where
from distarray.ops.convert import asarray
from distarray.ops.creation import zeros, zeros_like
from distarray.ops.joining import concatenate
from distarray.ops.manipulation import broadcast_arrays, broadcast_to, moveaxis
from distarray.ops.recording import into
from distarray.ops.reshaping import ravel, reshape
from distarray.ops.searching import argmax, nonzero
from distarray.ops.taking import _axis, _common, _on_host_arrays, _target, take

__all__ = [
    "choose", "delete", "insert", "ix_", "packbits", "piecewise", "put_along_axis", "ravel_multi_index", "resize", "select",
    "trim_zeros", "unpackbits", "unravel_index",
]  # fmt: skip


def _host(value: Any) -> Any:
    return host_values(value) if isinstance(value, DistributedArray) else value


def _along(arr: Any, axis: Any) -> tuple[DistributedArray, int]:
    """The array and the axis; without one, the array flattened."""
    x = asarray(arr)
    if axis is None:
        return ravel(x), 0
    return x, normalize_axis_index(axis, x.ndim)


# --- out and in -------------------------------------------------------------------------------------------------------


@implements(np.delete)
def delete(arr: Any, obj: Any, axis: int | None = None) -> DistributedArray:
    """A copy without some slices along an axis.

    Parameters
    ----------
    arr : array_like
    obj : int, slice, or array_like of int or bool
        Which to leave out.
    axis : int, optional
        Default: of the flattened array.

    Returns
    -------
    DistributedArray

    Raises
    ------
    IndexError
        There is no such slice.

    Notes
    -----
    Communication: what makes the result's blocks even, as of :func:`concatenate` for one slice or a row of them, and of
    :func:`take` otherwise. A distributed `obj` is fetched.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.delete(da.arange(5), [0, 3]).tolist()
    [1, 2, 4]
    """
    x, axis = _along(arr, axis)
    n = x.shape[axis]
    head = (slice(None),) * axis
    obj = _host(obj)
    if isinstance(obj, slice):
        chosen = range(*obj.indices(n))
        if not len(chosen):
            return copy_array(x)
        if abs(chosen.step) == 1:
            low, high = min(chosen), max(chosen) + 1
            return concatenate((x[(*head, slice(0, low))], x[(*head, slice(high, None))]), axis=axis)  # type: ignore[no-any-return]
        places = np.array(chosen)
    else:
        places = np.asarray(obj)
        if not places.size and not isinstance(obj, np.ndarray):
            places = places.astype(np.intp)
        single = places.dtype.kind in "ui" and places.size == 1 and not isinstance(obj, bool)
        if single:
            index = places.item()
            if not -n <= index < n:
                raise IndexError(f"index {index} is out of bounds for axis {axis} with size {n}")
            index %= n
            return concatenate((x[(*head, slice(0, index))], x[(*head, slice(index + 1, None))]), axis=axis)  # type: ignore[no-any-return]
    if places.dtype == bool:
        if places.shape != (n,):
            raise ValueError(
                f"boolean array argument obj to delete must be one dimensional and match the axis length of {n}"
            )
        kept = ~places
    else:
        kept = np.ones(n, bool)
        kept[places,] = False
    return take(x, np.flatnonzero(kept), axis=axis)  # type: ignore[no-any-return]


def _shorter(x: DistributedArray, ndim: int) -> DistributedArray:
    """The array without leading axes of length 1 that are too many."""
    while x.ndim > ndim and x.shape[0] == 1:
        x = x[0, ...]
    return x


@implements(np.insert)
def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> DistributedArray:
    """A copy with values put before some slices along an axis.

    Parameters
    ----------
    arr : array_like
    obj : int, slice, or array_like of int or bool
        Before which slices.
    values : array_like
        Broadcast to what is put in, and converted to the dtype of `arr`.
    axis : int, optional
        Default: of the flattened array.

    Returns
    -------
    DistributedArray
        Of the dtype of `arr`.

    Raises
    ------
    IndexError
        There is no such place.

    Notes
    -----
    Communication: as of :func:`concatenate` for one place; for more, also of :func:`take`. A distributed `obj` is fetched.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.insert(da.arange(4), 2, 9).tolist()
    [0, 1, 9, 2, 3]
    """
    x, axis = _along(arr, axis)
    n = x.shape[axis]
    head = (slice(None),) * axis
    obj = _host(obj)
    if isinstance(obj, slice):
        places = np.arange(*obj.indices(n), dtype=np.intp)
    else:
        places = np.array(obj)
        if places.dtype == bool:
            if places.ndim != 1:
                raise ValueError("boolean array argument obj to insert must be one dimensional")
            places = np.flatnonzero(places)
        elif places.ndim > 1:
            raise ValueError("index array argument obj to insert must be one dimensional or scalar")
    new: DistributedArray = as_array(x._context, values)
    if new.dtype != x.dtype:
        new = new.astype(x.dtype)
    if places.size == 1:
        index = operator.index(places.item())
        if not -n <= index <= n:
            raise IndexError(f"index {obj} is out of bounds for axis {axis} with size {n}")
        index += n if index < 0 else 0
        new = new[(*(None,) * (x.ndim - new.ndim), ...)]
        if not places.ndim:
            new = moveaxis(new, 0, axis)
        new = _shorter(new, x.ndim)
        new = broadcast_to(new, (*x.shape[:axis], new.shape[axis], *x.shape[axis + 1 :]))
        return concatenate((x[(*head, slice(0, index))], new, x[(*head, slice(index, None))]), axis=axis)  # type: ignore[no-any-return]
    places = places.astype(np.intp) if not places.size and not isinstance(obj, np.ndarray) else places
    if places.dtype.kind not in "iu":
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    places = np.where(places < 0, places + n, places)
    for place in places.tolist():
        if not 0 <= place <= n:
            raise IndexError(f"index {place} is out of bounds for axis {axis} with size {n}")
    new = broadcast_to(_shorter(new, x.ndim), (*x.shape[:axis], len(places), *x.shape[axis + 1 :]))
    order = np.argsort(np.concatenate([places, np.arange(n)]), kind="stable")
    joined = concatenate((new, x), axis=axis)
    return take(joined, order, axis=axis)  # type: ignore[no-any-return]


@implements(np.trim_zeros)
def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> DistributedArray:
    """The array without leading and trailing zeros along each axis: a view.

    Parameters
    ----------
    filt : array_like
    trim : {"fb", "f", "b"}
        Whether leading ("f") zeros go, trailing ones ("b"), or both.
    axis : int or tuple of int, optional
        Default: all.

    Returns
    -------
    DistributedArray

    Raises
    ------
    ValueError
        An unknown `trim`.

    Notes
    -----
    Communication: where along each axis there is something, an array of bools of its length.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.trim_zeros(da.asarray([0, 1, 0, 2, 0])).tolist()
    [1, 0, 2]
    """
    x = asarray(filt)
    trim = trim.lower()
    if trim not in ("fb", "bf", "f", "b"):
        raise ValueError(f"unexpected character(s) in `trim`: {trim!r}")
    axes = tuple(range(x.ndim)) if axis is None else normalize_axis_tuple(axis, x.ndim, argname="axis")
    if not axes:
        return x
    key = [slice(None)] * x.ndim
    for i in axes:
        some = reductions.any(x != 0, axis=tuple(a for a in range(x.ndim) if a != i))
        low, high = 0, 0
        if x.size and bool(reductions.any(some)):
            low, high = int(argmax(some)), some.shape[0] - int(argmax(some[::-1]))
            low, high = low if "f" in trim else 0, high if "b" in trim else x.shape[i]
        key[i] = slice(low, high)
    return x[tuple(key)]


@implements(np.resize)
def resize(a: Any, new_shape: Any) -> DistributedArray:
    """A copy in another shape, with the elements repeated, in C order, to fill it.

    Parameters
    ----------
    a : array_like
    new_shape : int or sequence of int

    Returns
    -------
    DistributedArray
        Zeros where `a` has no elements.

    Raises
    ------
    ValueError
        A length is negative.

    Notes
    -----
    Communication: as of :func:`concatenate` of the repeated array, and what the new shape needs.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.resize(da.arange(3), (2, 4)).tolist()
    [[0, 1, 2, 0], [1, 2, 0, 1]]
    """
    x = ravel(asarray(a))
    shape = (operator.index(new_shape),) if np.ndim(new_shape) == 0 else tuple(operator.index(n) for n in new_shape)
    if any(n < 0 for n in shape):
        raise ValueError("all elements of `new_shape` must be non-negative")
    size = math.prod(shape)
    if not x.size or not size:
        return zeros_like(x, shape=shape)
    copies, rest = divmod(size, x.size)
    return reshape(concatenate([x] * copies + [x[:rest]]), shape)


# --- choosing ---------------------------------------------------------------------------------------------------------


@implements(np.choose)
def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    """From several arrays, the element of the one whose number `a` has there.

    Parameters
    ----------
    a : array_like of int
    choices : sequence of array_like, or array_like
        They and `a` are broadcast. Of an array, the choices are along its first axis.
    out : DistributedArray or numpy.ndarray, optional
        Where to put the result.
    mode : {"raise", "wrap", "clip"}
        What becomes of numbers without a choice.

    Returns
    -------
    DistributedArray
        Of the broadcast shape, in the choices' common dtype.

    Raises
    ------
    ValueError
        A number has no choice, with ``mode="raise"``.

    Notes
    -----
    Communication: what aligns the choices with `a`; with ``mode="raise"`` the extremes of `a`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.choose(da.asarray([0, 1, 0]), [10, [1, 2, 3]]).tolist()
    [10, 2, 10]
    """
    found = list(choices)
    context = same_context([x for x in (a, *found, out) if isinstance(x, DistributedArray)])
    number: Any = as_array(context, a)
    if not found:
        raise ValueError("0-length sequence.")
    if not np.can_cast(number.dtype, np.intp, "same_kind"):
        raise TypeError(
            f"Cannot cast array data from {number.dtype!r} to {np.dtype(np.intp)!r} according to the rule 'safe'"
        )
    n = len(found)
    arrays = [as_array(context, x) for x in found]
    dtype = np.result_type(*[x.dtype for x in arrays])
    broadcast_shape(number.shape, *[x.shape for x in arrays])
    if mode == "raise":
        if number.size and not (int(reductions.min(number)) >= 0 and int(reductions.max(number)) < n):
            raise ValueError("invalid entry in choice array")
    elif mode == "wrap":
        number = np.mod(number.astype(np.intp), n)
    elif mode == "clip":
        number = np.clip(number, 0, n - 1)
    else:
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    shape = broadcast_shape(number.shape, *[x.shape for x in arrays])
    result = broadcast_to(arrays[-1].astype(dtype), shape)
    for i in range(n - 2, -1, -1):
        result = where(number == i, arrays[i].astype(dtype), result)
    return into(result if n > 1 else copy_array(result), out, "unsafe")


@implements(np.select)
def select(condlist: Any, choicelist: Any, default: Any = 0) -> DistributedArray:
    """For each element the choice of the first condition that holds there, or the default.

    Parameters
    ----------
    condlist : list of array_like of bool
        The conditions, which are broadcast with all choices.
    choicelist : list of array_like
        As many choices.
    default : scalar or array_like
        What stands where no condition holds.

    Returns
    -------
    DistributedArray
        Of the broadcast shape, in the choices' common dtype.

    Raises
    ------
    ValueError, TypeError
        Lists of other lengths; conditions that are no bools.

    Notes
    -----
    Communication: none where the arrays have one layout; otherwise what aligns them, when the value is needed.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.arange(5)
    ...     da.select([x < 2, x > 3], [-x, x * 10], 7).tolist()
    [0, -1, 7, 7, 40]
    """
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if not len(condlist):
        raise ValueError("select with an empty condition list is not possible")
    context = same_context([x for x in (*condlist, *choicelist, default) if isinstance(x, DistributedArray)])
    scalars = (int, float, complex)
    choices = [x if type(x) in scalars else as_array(context, x) for x in (*choicelist, default)]
    dtype = np.result_type(*[x if type(x) in scalars else x.dtype for x in choices])
    conditions = [as_array(context, x) for x in condlist]
    for i, condition in enumerate(conditions):
        if condition.dtype != bool:
            raise TypeError(f"invalid entry {i} in condlist: should be boolean ndarray")
    parts = [x.astype(dtype) if isinstance(x, DistributedArray) else dtype.type(x) for x in choices]
    shape = broadcast_shape(*[c.shape for c in conditions], *[np.shape(x) for x in parts])
    result = parts[-1] if isinstance(parts[-1], DistributedArray) else asarray(parts[-1])
    result = broadcast_to(result, shape)
    for condition, part in zip(conditions[::-1], parts[-2::-1], strict=True):
        result = where(condition, part, result)
    return result


@implements(np.piecewise)
def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> DistributedArray:
    """A function given piece by piece: where a condition holds, a constant or a function of the elements there.

    Parameters
    ----------
    x : array_like
    condlist : list of array_like of bool, or one
        Each of the shape of `x`.
    funclist : list of callable or scalar
        One for each condition, and one more where none holds.
    *args, **kw
        Passed to the functions, which get a DistributedArray of one axis.

    Returns
    -------
    DistributedArray
        Of the shape and dtype of `x`.

    Raises
    ------
    ValueError
        There are neither as many functions as conditions, nor one more.

    Notes
    -----
    Communication: that of ``x[condition]`` and of writing there.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.arange(5)
    ...     da.piecewise(x, [x < 2], [0, lambda part: part * 10]).tolist()
    [0, 0, 20, 30, 40]
    """
    a = asarray(x)
    context = a._context
    lone = isinstance(condlist, (DistributedArray, np.ndarray)) and condlist.ndim == a.ndim
    if np.isscalar(condlist) or lone or (not isinstance(condlist[0], (list, np.ndarray, DistributedArray)) and a.ndim):
        condlist = [condlist]
    conditions = [as_array(context, c).astype(bool) for c in condlist]
    n = len(conditions)
    if n == len(funclist) - 1:
        some = conditions[0]
        for condition in conditions[1:]:
            some = some | condition
        conditions.append(~some)
    elif n != len(funclist):
        raise ValueError(f"with {n} condition(s), either {n} or {n + 1} functions are expected")
    result = zeros_like(a)
    for condition, function in zip(conditions, funclist, strict=True):
        if not callable(function):
            result[condition] = function
            continue
        chosen = a[condition]
        if chosen.size:
            result[condition] = function(chosen, *args, **kw)
    return result


@_on_host_arrays
@implements(np.put_along_axis)
def put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None) -> None:
    """Write values along an axis at indices that differ from one 1-d slice to the next, in place.

    Parameters
    ----------
    arr : DistributedArray
    indices : array_like of int
        With as many axes; all but `axis` broadcast.
    values : array_like
        Broadcast to the indices.
    axis : int or None
        None: `arr` is taken flat; `indices` then has one axis.

    Raises
    ------
    IndexError
        Out of range, or indices that are not integers.

    Notes
    -----
    Communication: none where every device holds `axis` whole and indices and values lie beside the array; else what brings
    them there, and back. With one axis only, indices and values are fetched.

    Memory on each device: its part of the array, once more.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.zeros((2, 3), int)
    ...     da.put_along_axis(x, [[0], [2]], 5, axis=1)
    ...     x.tolist()
    [[5, 0, 0], [0, 0, 5]]
    """
    x = _target("put_along_axis", arr)
    context = x._context
    index = indices if isinstance(indices, DistributedArray) else np.asarray(indices)
    if index.dtype.kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    if axis is None:
        if index.ndim != 1:
            raise ValueError("when axis=None, `indices` must have a single dimension.")
        places = np.where(_host(index) < 0, _host(index) + x.size, _host(index))
        if places.size and (places.min() < 0 or places.max() >= x.size):
            raise IndexError(f"index out of bounds for an array of size {x.size}")
        x[np.unravel_index(places, x.shape)] = values
        return
    if x.ndim != index.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    axis = _axis(axis, x.ndim)
    lead = _common(x.shape, index.shape, axis)
    if x.ndim == 1:
        x[_host(index)] = values
        return
    if (*x.shape[:axis], 1, *x.shape[axis + 1 :]) != lead:
        raise IndexError(f"shape mismatch: indices of shape {index.shape} don't fit an array of shape {x.shape}")
    shape = (*lead[:axis], index.shape[axis], *lead[axis + 1 :])
    n = x.shape[axis]
    chosen = broadcast_to(as_array(context, index).astype(np.intp), shape)
    if chosen.size:
        low, high = int(reductions.min(chosen)), int(reductions.max(chosen))
        if low < -n or high >= n:
            raise IndexError(f"index {high if high >= n else low} is out of bounds for axis {axis} with size {n}")
    new = as_array(context, values)
    broadcast_shape_fits = np.broadcast_shapes(new.shape, shape) == shape
    if not broadcast_shape_fits:
        raise ValueError(f"shape mismatch: value array of shape {new.shape} could not be broadcast to {shape}")
    new = new if new.dtype == x.dtype else new.astype(x.dtype)
    with context.lock:
        source = x._operand("put_along_axis")
        target = whole_along(context, source.layout, (axis,))
        beside = IndexMap(
            shape,
            {
                d: [
                    Region((*r[:axis], Range.full(shape[axis] if r.size else 0), *r[axis + 1 :]))
                    for r in target.index_map.regions(d)
                ]
                for d in target.devices
            },
        )
        layout = context.layout(beside)
        order = {chunk: i for i, chunk in enumerate(layout.chunks)}
        numbers = [
            order[d, Region((*r[:axis], Range.full(shape[axis] if r.size else 0), *r[axis + 1 :]))]
            for d, r in target.chunks
        ]
        at_, held = aligned(chosen, layout), aligned(broadcast_to(new, shape), layout)

        def local(lib: Any, part: Any, where_: Any, what: Any) -> Any:
            copied = lib.array(part)
            if where_.size:
                lib.put_along_axis(copied, where_, what, axis)
            return copied

        arrays = at(context, source, target, "put_along_axis")
        result = mapped(
            context,
            [arrays, [at_[i] for i in numbers], [held[i] for i in numbers]],
            target,
            x.dtype,
            local,
            "put_along_axis",
        )
    x[...] = result


# --- indices ----------------------------------------------------------------------------------------------------------


@implements(np.ix_)
def ix_(*args: Any) -> tuple[DistributedArray, ...]:
    """Indices of one axis each, shaped so that together they index an open mesh.

    Parameters
    ----------
    *args : array_like of int or bool
        Of one axis each.

    Returns
    -------
    tuple of DistributedArray
        Integers, each of as many axes as there are arguments.

    Raises
    ------
    ValueError
        An argument has not one axis.

    Notes
    -----
    Communication: none; that of :func:`nonzero` for bools.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     [i.shape for i in da.ix_([0, 2], [1, 3, 4])]
    [(2, 1), (1, 3)]
    """
    context = same_context([x for x in args if isinstance(x, DistributedArray)])
    found = []
    for k, item in enumerate(args):
        new = item if isinstance(item, (DistributedArray, np.ndarray)) else np.asarray(item)
        if not isinstance(item, (DistributedArray, np.ndarray)) and not new.size:
            new = new.astype(np.intp)
        if new.ndim != 1:
            raise ValueError("Cross index must be 1 dimensional")
        x = as_array(context, new)
        if x.dtype == bool:
            (x,) = nonzero(x)
        found.append(x[tuple(slice(None) if i == k else None for i in range(len(args)))])
    return tuple(found)


@implements(np.unravel_index)
def unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[DistributedArray, ...]:
    """Flat indices as one array of indices for each axis.

    Parameters
    ----------
    indices : array_like of int
        Positions in the flat array.
    shape : int or sequence of int
        The array's.
    order : {"C", "F"}
        The order in which elements are counted.

    Returns
    -------
    tuple of DistributedArray
        Of ``int64``, each of the shape of `indices`.

    Raises
    ------
    ValueError
        An index is out of range.
    TypeError
        Indices are no integers.

    Notes
    -----
    Communication: the extremes of the indices.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     [i.tolist() for i in da.unravel_index(da.asarray([1, 5]), (2, 3))]
    [[0, 1], [1, 2]]
    """
    if isinstance(indices, (list, tuple)) and not np.size(indices):
        raise TypeError(
            "indices must be integral: the provided empty sequence was inferred as float. Wrap it with np.array(…, int)"
        )
    x = asarray(indices)
    lengths = (operator.index(shape),) if np.ndim(shape) == 0 else tuple(operator.index(n) for n in shape)
    if x.dtype.kind not in "iu":
        raise TypeError("only int indices permitted")
    if order not in ("C", "F"):
        raise ValueError("only 'C' or 'F' order is permitted")
    size = math.prod(lengths)
    if size > np.iinfo(np.intp).max:
        raise ValueError(
            "dimensions are too large; arrays and shapes with a total size greater than 'intp' are not supported."
        )
    if not lengths and x.ndim:
        raise ValueError("multiple indices are not supported for 0d array")
    if x.size and (int(reductions.min(x)) < 0 or int(reductions.max(x)) >= size):
        raise ValueError(f"index out of bounds for array with size {size}")
    rest, found = x.astype(np.intp), []
    for n in lengths[::-1] if order == "C" else lengths:
        found.append(rest % max(n, 1))
        rest = rest // max(n, 1)
    return tuple(found[::-1] if order == "C" else found)


@implements(np.ravel_multi_index)
def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> DistributedArray:
    """Flat indices from one array of indices for each axis.

    Parameters
    ----------
    multi_index : tuple of array_like of int, or array_like
        The indices along each axis, which are broadcast.
    dims : tuple of int
        The array's shape.
    mode : {"raise", "wrap", "clip"}, or a tuple of them
        What becomes of indices out of range.
    order : {"C", "F"}
        The order in which elements are counted.

    Returns
    -------
    DistributedArray
        Of ``int64``, in the broadcast shape.

    Raises
    ------
    ValueError
        An index is out of range, with ``mode="raise"``.

    Notes
    -----
    Communication: what aligns the indices; with ``mode="raise"`` their extremes.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.ravel_multi_index((da.asarray([0, 1]), [1, 2]), (2, 3)).tolist()
    [1, 5]
    """
    parts = list(multi_index)
    lengths = (operator.index(dims),) if np.ndim(dims) == 0 else tuple(operator.index(n) for n in dims)
    modes = (mode,) * len(lengths) if isinstance(mode, str) else tuple(mode)
    if len(parts) != len(lengths):
        raise ValueError(f"parameter multi_index must be a sequence of length {len(lengths)}")
    if order not in ("C", "F"):
        raise ValueError("only 'C' or 'F' order is permitted")
    arrays = broadcast_arrays(*parts) if parts else ()
    flat: Any = None
    if 0 in lengths and arrays and arrays[0].size:
        raise ValueError("cannot unravel if shape has zero entries")
    pairs = list(zip(arrays, lengths, modes, strict=True))
    for x, n, how in pairs if order == "C" else pairs[::-1]:
        if x.dtype.kind not in "iu":
            raise TypeError("only int indices permitted")
        index: Any = x.astype(np.intp)
        if how == "raise":
            if index.size and (int(reductions.min(index)) < 0 or int(reductions.max(index)) >= n):
                raise ValueError("invalid entry in coordinates array")
        elif how == "wrap":
            index = index % n
        elif how == "clip":
            index = np.clip(index, 0, n - 1)
        else:
            raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {how!r})")
        flat = index if flat is None else flat * n + index
    return flat  # type: ignore[no-any-return]


# --- bits -------------------------------------------------------------------------------------------------------------


def _check_bits(x: DistributedArray, bitorder: str, unpack: bool) -> None:
    if not isinstance(bitorder, str):
        raise TypeError(f"bitorder must be str, not {type(bitorder).__name__}")
    if bitorder not in ("big", "little"):
        raise ValueError("'order' must be either 'little' or 'big'")
    if unpack and x.dtype != np.uint8:
        raise TypeError("Expected an input array of unsigned byte data type")
    if not unpack and x.dtype.kind not in "iub":
        raise TypeError("Expected an input array of integer or boolean data type")


@implements(np.packbits)
def packbits(a: Any, /, axis: int | None = None, bitorder: str = "big") -> DistributedArray:
    """Bools, eight to a byte.

    Parameters
    ----------
    a : array_like of int or bool
    axis : int, optional
        Default: of the flattened array.
    bitorder : {"big", "little"}
        Which of eight comes first.

    Returns
    -------
    DistributedArray
        Of ``uint8``, an eighth as long along the axis.

    Raises
    ------
    TypeError
        `a` has neither integers nor bools.

    Notes
    -----
    Communication: what brings each byte's bits to one device.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.packbits(da.asarray([1, 0, 0, 0, 0, 0, 1, 1])).tolist()
    [131]
    """
    x = asarray(a)
    _check_bits(x, bitorder, False)
    x, axis = _along(x, axis)
    n = x.shape[axis]
    bits = x != 0
    if n % 8:
        shape = (*x.shape[:axis], -n % 8, *x.shape[axis + 1 :])
        bits = concatenate((bits, zeros(shape, bool)), axis=axis)
    split = reshape(bits, (*x.shape[:axis], -(-n // 8), 8, *x.shape[axis + 1 :]))
    worth = 1 << np.arange(8, dtype=np.uint8)
    worth = (worth[::-1] if bitorder == "big" else worth).reshape((8,) + (1,) * (x.ndim - axis - 1))
    return reductions.sum(split * worth, axis=axis + 1, dtype=np.uint8)  # type: ignore[no-any-return]


@implements(np.unpackbits)
def unpackbits(a: Any, /, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> DistributedArray:
    """The bits of bytes, as an array of 0 and 1.

    Parameters
    ----------
    a : array_like of uint8
    axis : int, optional
        Default: of the flattened array.
    count : int, optional
        How many bits of each line: cut, or filled with zeros; a negative number is left out at the end.
    bitorder : {"big", "little"}
        Which bit of a byte comes first.

    Returns
    -------
    DistributedArray
        Of ``uint8``, eight times as long along the axis, or `count`.

    Raises
    ------
    TypeError
        `a` has another dtype than ``uint8``.

    Notes
    -----
    Communication: none where bytes stay in their layout; as of :func:`concatenate` where zeros are added.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.unpackbits(da.asarray([3], dtype=da.uint8)).tolist()
    [0, 0, 0, 0, 0, 0, 1, 1]
    """
    x = asarray(a)
    _check_bits(x, bitorder, True)
    x, axis = _along(x, axis)
    places = np.arange(8, dtype=np.uint8)
    places = (places[::-1] if bitorder == "big" else places).reshape((8,) + (1,) * (x.ndim - axis - 1))
    spread = x[(*(slice(None),) * (axis + 1), None)]
    n = x.shape[axis] * 8
    bits = reshape((spread >> places) & np.uint8(1), (*x.shape[:axis], n, *x.shape[axis + 1 :]))
    if count is None:
        return bits
    count = operator.index(count)
    if count < -n:
        raise ValueError(f"-count larger than number of elements {n}")
    if count <= n:
        return bits[(*(slice(None),) * axis, slice(0, count if count >= 0 else n + count))]
    return concatenate((bits, zeros((*x.shape[:axis], count - n, *x.shape[axis + 1 :]), np.uint8)), axis=axis)  # type: ignore[no-any-return]
