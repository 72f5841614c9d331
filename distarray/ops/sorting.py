"""Sorting: ``sort``, ``argsort``, ``lexsort``, ``sort_complex`` and ``searchsorted``.

They check as NumPy does, then leave the work to :mod:`distarray.algorithms`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from distarray.algorithms.lookup import look_up
from distarray.algorithms.reduction import small
from distarray.algorithms.sorting import sort_along
from distarray.array.aliases import ArrayLike, Arrays, Fields
from distarray.array.documented import described_as
from distarray.array.functions import implements
from distarray.array.layouts import resolve_layout
from distarray.array.place import as_array, devices_of, place
from distarray.array.state import DistributedArray, from_chunks, same_context
from distarray.array.writing import check_writable, deliver
from distarray.errors import UnsupportedError
from distarray.ops.convert import asarray, astype
from distarray.ops.large_integers import large_integers, nearest
from distarray.ops.reshaping import ravel
from distarray.ops.taking import take

__all__ = ["argsort", "lexsort", "searchsorted", "sort", "sort_complex"]


def flat_line(x: DistributedArray) -> DistributedArray:
    """All elements along one axis, as ``axis=None`` asks for; of a number, which has no axis, the one that it is."""
    return ravel(x) if x.ndim else x._viewed(x._view_map().expand_dims(0))


def sorted_along(
    keys: Sequence[DistributedArray],
    axis: int,
    name: str,
    *,
    positions: bool,
    descending: bool = False,
    kth: Sequence[int] = (),
) -> DistributedArray:
    """Keys of one shape, the most significant first, sorted along an axis that they have."""
    x = keys[0]
    context, axis = x._context, operator.index(axis) % x.ndim
    context.check()
    if descending:  # the mirror image is sorted and mirrored back, so that equal elements keep their order
        keys = [key._viewed(key._view_map().flip(axis)) for key in keys]
    with context.lock:
        operands = [key._operand(name) for key in keys]
        found = sort_along(context, operands, axis, positions=positions, name=name, backward=descending, kth=kth)
        result = from_chunks(context, found.layout, found.chunks, found.dtype)
    if not descending:
        return result
    result = result._viewed(result._view_map().flip(axis))
    return x.shape[axis] - 1 - result if positions else result


def by_fields(x: DistributedArray, order: Fields) -> DistributedArray:
    """The array, or of structured elements a view whose fields come in the order in which they are compared."""
    names = x.dtype.names
    if order is None or names is None:
        return x
    first = [order] if isinstance(order, str) else list(order)
    names = (*first, *[name for name in names if name not in first])
    formats, offsets = zip(*[cast("Any", x.dtype.fields)[name][:2] for name in names])
    dtype = np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": x.dtype.itemsize})
    return cast("DistributedArray", cast("Any", x).view(dtype))


def with_fields(x: DistributedArray, found: DistributedArray) -> DistributedArray:
    """What was sorted of `x`, with its fields."""
    return found if found.dtype == x.dtype else cast("DistributedArray", cast("Any", found).view(x.dtype))


def _negated(x: DistributedArray) -> DistributedArray:
    """What sorts the other way, but for NaN, which come last in both."""
    return cast("DistributedArray", np.negative(x))


@implements(np.sort)
def sort(
    a: ArrayLike,
    axis: int | None = -1,
    kind: str | None = None,
    order: Fields = None,
    *,
    stable: bool | None = None,
    descending: bool = False,
) -> DistributedArray:
    """A sorted copy of an array.

    Parameters
    ----------
    a : array_like
    axis : int, optional
        None: of the flattened array.
    kind : {"quicksort", "mergesort", "heapsort", "stable"}, optional
        For NumPy's sake: every sort is stable.
    order : str or sequence of str, optional
        Of structured elements: the fields to compare first, in this order; the others follow in that of the dtype.
    stable : bool, optional
        For NumPy's sake, as `kind`.
    descending : bool, optional
        The largest first. Equal elements stay in the order that they have in `a`.

    Returns
    -------
    DistributedArray
        Of the shape of `a`; NaN last, complex numbers in NumPy's order. In the layout of `a`
        where that does not split the axis, and otherwise in even blocks: of whole lines where there are two for each
        device, else along the axis.

    Raises
    ------
    AxisError
        There is no such axis.
    ValueError
        Both `kind` and `stable`, an unknown `kind`, or an `order` of what has no such fields.

    Notes
    -----
    Communication: none where the axis is not split. Many lines: each element once. Few: a sample sort, each element once,
    besides samples, counts, and a few hundredths to make the blocks even; before, what brings the axis into blocks, where
    it lies otherwise.

    Memory on each device, besides its parts of operand and result: twice its part, where the axis is split.

    References
    ----------
    W. D. Frazer and A. C. McKellar, "Samplesort: a sampling approach to minimal storage tree sorting", J. ACM 17, 1970.
    X. Li et al., "On the versatility of parallel sorting by regular sampling", Parallel Computing 19, 1993.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.sort(da.asarray([3, 1, 2, 0], layout=da.blocks(0))).get()
    array([0, 1, 2, 3])
    """
    x = asarray(a)
    np.sort(small(x.shape, x.dtype), axis=axis, kind=kind, order=order, stable=stable)  # type: ignore[arg-type]
    if axis is None:
        x, axis = flat_line(x), 0
    if descending and x.dtype.kind in "fc":  # NaN come last
        return _negated(sorted_along([_negated(x)], axis, "sort", positions=False))
    return with_fields(
        x, sorted_along([by_fields(x, order)], axis, "sort", positions=False, descending=bool(descending))
    )


@implements(np.argsort)
@described_as(sort)
def argsort(
    a: ArrayLike,
    axis: int | None = -1,
    kind: str | None = None,
    order: Fields = None,
    *,
    stable: bool | None = None,
    descending: bool = False,
) -> DistributedArray:
    """The positions that sort an array; of equal elements, the first comes first.

    Parameters
    ----------
    a : array_like

    Returns
    -------
    DistributedArray
        Of int64, laid out as :func:`sort` says.

    Notes
    -----
    Communication: as for :func:`sort`; elements of an axis that is split move with their positions.

    Memory on each device, besides its parts of operand and result: twice its part with its positions.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.argsort(da.asarray([3, 1, 2, 0], layout=da.blocks(0)), descending=True).get()
    array([0, 2, 1, 3])
    """
    x = asarray(a)
    np.argsort(small(x.shape, x.dtype), axis=axis, kind=kind, order=order, stable=stable)  # type: ignore[arg-type]
    if not x.ndim:
        return place(x._context, np.zeros(1, np.int64), resolve_layout(x._context, None, (1,)))
    if axis is None:
        x, axis = flat_line(x), 0
    if descending and x.dtype.kind in "fc":  # NaN come last
        return sorted_along([_negated(x)], axis, "argsort", positions=True)
    return sorted_along([by_fields(x, order)], axis, "argsort", positions=True, descending=bool(descending))


@implements(np.lexsort)
def lexsort(keys: Arrays, axis: int = -1) -> DistributedArray:
    """The positions that sort by several keys, of which the last is the most significant.

    Parameters
    ----------
    keys : array_like, or sequence of array_like
        Keys of one shape; of an array, along its first axis.
    axis : int, optional
        The axis to sort along.

    Returns
    -------
    DistributedArray
        Of int64, laid out as :func:`sort` says of the last key.

    Raises
    ------
    TypeError
        There is no key.
    ValueError
        Keys differ in shape.
    AxisError
        There is no such axis.

    Notes
    -----
    Communication: what brings the keys into the last one's layout; then as for :func:`argsort`.

    Memory on each device: 2.5 times its share of the keys and the result.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.lexsort([da.asarray([1, 0, 1, 0], layout=da.blocks(0)), da.asarray([2, 2, 1, 1])]).get()
    array([3, 2, 1, 0])
    """
    if isinstance(keys, (DistributedArray, np.ndarray)):
        if not keys.ndim:
            raise TypeError("need sequence of keys with len > 0 in lexsort")
        keys = [keys[i, ...] for i in range(keys.shape[0])]
    try:
        count = len(keys)
    except TypeError:
        count = 0
    if not count:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    known = [key for key in keys if isinstance(key, DistributedArray)]
    context = same_context(known) if known else asarray(next(iter(keys)))._context
    arrays = [as_array(context, key) for key in keys]
    if len({key.shape for key in arrays}) > 1:
        raise ValueError(f"all keys need to be the same shape: got {[key.shape for key in arrays]}")
    x = arrays[-1]
    np.lexsort([small(x.shape, key.dtype) for key in arrays], axis)
    if not x.ndim:
        return place(context, np.zeros((), np.int64), resolve_layout(context, None, ()))
    return sorted_along(arrays[::-1], axis, "lexsort", positions=True)


@implements(np.sort_complex)
def sort_complex(a: ArrayLike) -> DistributedArray:
    """The array sorted along its last axis, as complex numbers.

    Parameters
    ----------
    a : array_like

    Returns
    -------
    DistributedArray
        ``complex64`` for integers of at most 16 bits, ``clongdouble`` for ``longdouble``, ``complex128`` for other real numbers.

    Notes
    -----
    Communication: as for :func:`sort`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.sort_complex(da.asarray([2, 1])).tolist()
    [(1+0j), (2+0j)]
    """
    result = sort(a)
    if result.dtype.kind == "c":
        return result
    return astype(result, {**dict.fromkeys("bhBH", "F"), "g": "G"}.get(result.dtype.char, "D"))  # type: ignore[no-any-return]


@implements(np.searchsorted)
def searchsorted(a: ArrayLike, v: ArrayLike, side: str = "left", sorter: ArrayLike | None = None) -> DistributedArray:
    """Where values belong in a sorted array: before equal elements (``"left"``) or behind them (``"right"``).

    Parameters
    ----------
    a : array_like
        Of one axis; ascending, or put in order by `sorter`.
    v : array_like
        Of any shape.
    side : {"left", "right"}
    sorter : array_like of integers, optional
        Positions that sort `a`, as of :func:`argsort`.

    Returns
    -------
    DistributedArray
        Of int64, in the shape and layout of `v`.

    Raises
    ------
    ValueError
        `a` has not one axis, `side` is unknown, or `sorter` has another length than `a` or places out of range.
    TypeError
        `sorter` has no integers.

    Notes
    -----
    Communication: none where the devices that hold `v` all hold the whole of `a`. Where `a` is short, or shorter than `v`,
    it goes to all of them; otherwise each value goes to the device that holds its place, and the place back. With
    `sorter` before that what :func:`take` moves.

    Memory on each device: 2.5 times its share of the operands and the result. Where many values belong in the part of `a` of
    one device, it receives them in turns, about its share at a time.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.searchsorted(da.asarray([1, 3, 5, 7], layout=da.blocks(0)), [0, 3, 8]).get()
    array([0, 1, 4])
    """
    known = [item for item in (a, v, sorter) if isinstance(item, DistributedArray)]
    context = same_context(known) if known else asarray(a)._context
    beside = devices_of(known)
    x: DistributedArray = as_array(context, a, beside)
    try:
        values: DistributedArray = as_array(context, v, beside)
    except UnsupportedError:
        integers = large_integers(v)
        close = None if integers is None or x.dtype.kind == "c" else nearest(integers, x.dtype)
        if close is None:
            raise
        at, beyond = (np.asarray(part) for part in close)
        left, right = (searchsorted(x, at, one, sorter) for one in ("left", "right"))
        places: Any = np.where((beyond > 0) | ((beyond == 0) & (side == "right")), right, left)
        return deliver(places, None)  # type: ignore[no-any-return]
    np.searchsorted(small(x.shape, x.dtype), small(values.shape, values.dtype), side)  # type: ignore[call-overload]
    if sorter is not None:
        order: DistributedArray = as_array(context, sorter)
        if order.dtype.kind not in "iu":
            raise TypeError("sorter must only contain integers")
        if order.shape != x.shape:
            raise ValueError(f"sorter.size must equal len of input: it has shape {order.shape}, and a {x.shape}")
        if values.size and not bool(np.all((order >= 0) & (order < len(x)))):
            raise ValueError(f"Sorter index out of range.: pass places of {len(x)} elements, as of argsort")
        x = take(x, order) if values.size else x
    common = np.promote_types(x.dtype, values.dtype)
    x, values = astype(x, common), astype(values, common)
    with context.lock:
        context.check()
        found = look_up(context, x._operand("searchsorted"), values._operand("searchsorted"), str(side), "searchsorted")
        result = from_chunks(context, *found)
    return deliver(result, None)  # type: ignore[no-any-return]


# --- methods ------------------------------------------------------------------------------------------------------------


def in_place(x: DistributedArray, name: str, values: Callable[..., Any]) -> None:
    """Write what `values` computes of an array over it; refused before anything moves where it can't be written to."""
    check_writable(x, f"{name}: the array", f"sort x.copy(), or use distarray.{name}(x)")
    x[...] = values(x)


def sort_in_place(
    x: DistributedArray,
    axis: int = -1,
    kind: str | None = None,
    order: Fields = None,
    *,
    stable: bool | None = None,
    descending: bool = False,
) -> None:
    """Sort the array in place; arguments as for :func:`sort`.

    Parameters
    ----------
    x : DistributedArray
    axis : int
    kind : {"quicksort", "mergesort", "heapsort", "stable"}, optional
        For NumPy's sake: every sort is stable.
    order : str or sequence of str, optional
        Of structured elements: the fields to compare first, in this order; the others follow in that of the dtype.
    stable : bool, optional
        For NumPy's sake, as `kind`.
    descending : bool
        The largest first.

    Raises
    ------
    ReadOnlyError
        The array is read-only: it stands where NumPy would have a view.
    AxisError
        There is no such axis.

    Notes
    -----
    Communication: as for :func:`sort`, and what brings the result back into the array's layout.
    """
    if axis is None:
        raise TypeError("'NoneType' object cannot be interpreted as an integer: x.sort needs an axis")
    in_place(x, "sort", lambda y: sort(y, axis, kind, order, stable=stable, descending=descending))
