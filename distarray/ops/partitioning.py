"""Orders that are not sorted all through: ``partition``, ``argpartition`` and ``top_k``.

They check as NumPy does, then leave the work to :mod:`distarray.algorithms`, which selects instead of sorting where it can.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from distarray.algorithms.reduction import small
from distarray.algorithms.top import few_enough, top
from distarray.array.aliases import ArrayLike, Fields
from distarray.array.documented import described_as
from distarray.array.functions import implements
from distarray.array.state import DistributedArray, from_chunks
from distarray.ops.convert import asarray
from distarray.ops.sorting import by_fields, flat_line, in_place, sort, sorted_along, with_fields
from distarray.ops.taking import take_along_axis

__all__ = ["argpartition", "partition", "top_k"]


def _checked_kth(kth: object, n: int | None) -> list[int]:
    """The places that `kth` names in an axis of length `n`, ascending, after NumPy's refusals; None: where there are no
    elements."""
    places = np.asarray(kth.get() if isinstance(kth, DistributedArray) else kth)
    if places.dtype.kind == "b":
        raise ValueError("Booleans unacceptable as partition index")
    if places.dtype.kind not in "iu":
        raise TypeError("Partition index must be integer")
    if places.ndim > 1:
        raise ValueError(f"object too deep for desired array: kth has {places.ndim} axes, and may have one")
    if n is None:
        return []
    found = places.reshape(-1).tolist()
    for place_ in found:
        if not -n <= place_ < n:
            raise ValueError(f"kth(={place_ + n if place_ < 0 else place_}) out of bounds ({n})")
    return sorted({place_ % n for place_ in found})


def _partitioned(name: str, a: ArrayLike, kth: ArrayLike, axis: int | None, kind: str, order: Any) -> DistributedArray:
    x = asarray(a)
    getattr(np, name)(small(x.shape, x.dtype), 0, axis, kind, order)
    if axis is None or not x.ndim:  # of 0-d NumPy has positions
        x, axis = flat_line(x), 0
    places = _checked_kth(kth, x.shape[axis] if x.size else None)
    positions = name == "argpartition"
    found = sorted_along([by_fields(x, order)], axis, name, positions=positions, kth=places)
    return found if positions else with_fields(x, found)


@implements(np.partition)
@described_as(sort)
def partition(
    a: ArrayLike,
    kth: ArrayLike,
    axis: int | None = -1,
    kind: str = "introselect",
    order: Fields = None,
) -> DistributedArray:
    """A copy in which the elements at `kth` are where a sort would put them, smaller ones before, larger ones behind.

    Parameters
    ----------
    a : array_like
    kth : int or sequence of int
        Positions, which may be negative.
    kind : {"introselect"}, optional

    Returns
    -------
    DistributedArray
        Laid out as :func:`sort` says.

    Raises
    ------
    AxisError
        There is no such axis.
    ValueError, TypeError
        `kth` is out of bounds, or no integer.

    Notes
    -----
    Communication: as for :func:`sort`, without sorting: of few lines that are split, the elements that belong at `kth` are
    selected by the rounds of :func:`median`, and each element moves once, to where it stands among them. Of complex
    numbers, or at more than 32 places, such lines are sorted. CuPy's partition of lines that are whole is a sort.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     int(da.partition(da.asarray([3, 1, 2, 0], layout=da.blocks(0)), 2)[2])
    2
    """
    return _partitioned("partition", a, kth, axis, kind, order)


@implements(np.argpartition)
@described_as(partition)
def argpartition(
    a: ArrayLike,
    kth: ArrayLike,
    axis: int | None = -1,
    kind: str = "introselect",
    order: Fields = None,
) -> DistributedArray:
    """Positions that partition an array along an axis.

    Returns
    -------
    DistributedArray
        Of int64: positions that sort altogether.

    Notes
    -----
    Communication: as for :func:`partition`; what moves are the positions alone.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.asarray([3, 1, 2, 0])
    ...     int(x[da.argpartition(x, 0)[0]])
    0
    """
    return _partitioned("argpartition", a, kth, axis, kind, order)


def top_k(x: ArrayLike, k: int, /, *, axis: int | None = -1, mode: str = "largest") -> tuple[Any, Any]:
    """The k largest or smallest elements along an axis, in order, and their positions.

    NumPy and the standard have no such function; name and arguments are those of the standard's proposal.

    Parameters
    ----------
    x : array_like
    k : int
        How many; from 0 to the length of the axis.
    axis : int, optional
        None: of the flattened array.
    mode : {"largest", "smallest"}

    Returns
    -------
    values : DistributedArray
        The shape of `x` with `k` in place of the axis: the largest, or smallest, first. NaN is larger than any number.
    indices : DistributedArray
        Of int64; of equal elements, those that come first.

    Raises
    ------
    AxisError
        There is no such axis.
    ValueError
        `k` is negative or longer than the axis, or `mode` is another.
    TypeError
        `k` is no integer.

    Notes
    -----
    Communication: none where the axis is not split. Else each device sends the k best of its own, with their positions: of
    few lines to one device, of many to devices that share the lines; and the result comes into the default layout. Where
    k is so large that this would be more than a device's share of `x`, it is an :func:`argsort`.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     values, indices = da.top_k(da.asarray([3, 1, 7, 5], layout=da.blocks(0)), 2)
    ...     values.get().tolist(), indices.get().tolist()
    ([7, 5], [2, 3])
    """
    array = asarray(x)
    if isinstance(k, (bool, np.bool_)):
        raise TypeError(f"top_k: k must be an integer, and is {k!r}")
    k = operator.index(k)
    if mode not in ("largest", "smallest"):
        raise ValueError(f"top_k: mode must be 'largest' or 'smallest', and is {mode!r}")
    if axis is None or not array.ndim:
        np.sort(small(array.shape, array.dtype), axis=axis)  # NumPy's refusal of an axis
        array, axis = flat_line(array), 0
    axis = normalize_axis_index(operator.index(axis), array.ndim)
    if not 0 <= k <= array.shape[axis]:
        raise ValueError(f"top_k: k is {k}, and the axis has {array.shape[axis]} elements: pass from 0 to as many")
    largest = mode == "largest"
    context = array._context
    context.check()
    with context.lock:
        operand = array._operand("top_k")
        if k and array.size and few_enough(operand.layout, axis, k):
            values, positions = top(context, operand, axis, k, largest)
            return from_chunks(context, *values), from_chunks(context, *positions)
    order = sorted_along([array], axis, "top_k", positions=True, descending=largest)[
        (*[slice(None)] * axis, slice(k))
    ].copy()
    return take_along_axis(array, order, axis), order


def partition_in_place(
    x: DistributedArray,
    kth: ArrayLike,
    axis: int = -1,
    kind: str = "introselect",
    order: Fields = None,
) -> None:
    """Partition the array in place; arguments as for :func:`partition`.

    Parameters
    ----------
    x : DistributedArray
    kth : int or sequence of int
    axis : int
    kind : {"introselect"}, optional
    order : str or sequence of str, optional
        Of structured elements: the fields to compare first, in this order; the others follow in that of the dtype.

    Raises
    ------
    ReadOnlyError
        The array is read-only: it stands where NumPy would have a view.
    ValueError, TypeError
        `kth` is out of bounds, or no integer.

    Notes
    -----
    Communication: as for :func:`sort`, and what brings the result back into the array's layout.
    """
    if axis is None:
        raise TypeError("'NoneType' object cannot be interpreted as an integer: x.partition needs an axis")
    in_place(x, "partition", lambda y: partition(y, kth, axis, kind, order))
