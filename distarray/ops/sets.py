"""Sets: ``unique`` in every form, ``isin``, and intersections, unions and differences of arrays taken as sets.

The first two stand on :mod:`distarray.algorithms`; the set functions are made of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from distarray.algorithms.lookup import look_up
from distarray.algorithms.sets import distinct
from distarray.algorithms.sorting import Sorted
from distarray.array.aliases import ArrayLike
from distarray.array.calls import unlike
from distarray.array.functions import implements
from distarray.array.layouts import resolve_layout
from distarray.array.place import as_array, place
from distarray.array.shapes import PYTHON_SCALARS
from distarray.array.state import DistributedArray, from_chunks, same_context
from distarray.context import Context
from distarray.devices import arrays_of
from distarray.devices.arrays import AnyDType
from distarray.errors import UnsupportedError
from distarray.ops.convert import asarray, astype
from distarray.ops.joining import concatenate
from distarray.ops.large_integers import large_integers, nearest
from distarray.ops.reshaping import ravel, reshape
from distarray.ops.sorting import sort
from distarray.storage import Operand
from distarray.transfer.execute import redistribute

__all__ = [
    "intersect1d", "isin", "setdiff1d", "setxor1d", "union1d", "unique", "unique_all", "unique_counts", "unique_inverse",
    "unique_values",
]  # fmt: skip


class UniqueAllResult(NamedTuple):
    """What :func:`unique_all` returns."""

    values: DistributedArray
    indices: DistributedArray
    inverse_indices: DistributedArray
    counts: DistributedArray


class UniqueCountsResult(NamedTuple):
    """What :func:`unique_counts` returns."""

    values: DistributedArray
    counts: DistributedArray


class UniqueInverseResult(NamedTuple):
    """What :func:`unique_inverse` returns."""

    values: DistributedArray
    inverse_indices: DistributedArray


def _settled(context: Context, found: Sorted, devices: tuple[int, ...], name: str) -> DistributedArray:
    """A result in the default layout, on the devices of its operand."""
    layout, chunks = found.layout, found.chunks
    if not layout.is_replicated:
        size = found.dtype.itemsize
        layout = resolve_layout(context, None, layout.shape, device=list(devices), itemsize=size)
        source = Operand(found.layout, arrays_of(chunks), found.dtype)
        chunks = redistribute(context, source, layout, operation=name, chunks=chunks)
    return from_chunks(context, layout, chunks, found.dtype)


@implements(np.unique)
def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    """The distinct elements of an array, ascending.

    Parameters
    ----------
    ar : array_like
    return_index : bool, optional
        Also where each comes first: in the flattened array, or along `axis`.
    return_inverse : bool, optional
        Also, of each element, which of the distinct ones it is: in the shape and layout of `ar`, or one axis with `axis`.
    return_counts : bool, optional
        Also how many there are of each.
    axis : int, optional
        The distinct subarrays along an axis, in lexicographic order.
    equal_nan : bool, optional
        All NaNs are one. Subarrays along an `axis` that have some are never equal.
    sorted : bool, optional
        For NumPy's sake: the result is always sorted.

    Returns
    -------
    DistributedArray, or tuple of DistributedArray
        In the default layout, but the inverse.

    Raises
    ------
    AxisError
        There is no such axis.

    Notes
    -----
    Communication: none where every device holds the whole array. Otherwise each device's distinct elements, once, with
    what else is asked for of them; samples and counts; then what brings the results into the default layout. With `axis`
    before that what makes the subarrays whole.

    Memory on each device: 2.5 times its share of the array and the results.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     values, counts = da.unique(da.asarray([3, 1, 3, 2], layout=da.blocks(0)), return_counts=True)
    ...     values.get(), counts.get()
    (array([1, 2, 3]), array([1, 1, 2]))
    """
    x = asarray(ar)
    if axis is not None:
        at = normalize_axis_index(axis, x.ndim)
        if x.ndim == 1:
            axis = None
        x = x._viewed(x._view_map().transpose((at, *[i for i in range(x.ndim) if i != at])))
    context = x._context
    inverse: DistributedArray | None
    if not x.size:
        found = np.unique(np.empty(x.shape, x.dtype), True, True, True, axis=None if axis is None else 0)
        empty = [place(context, part, resolve_layout(context, None, part.shape)) for part in found]
        values, indices, inverse, counts = empty
    else:
        context.check()
        with context.lock:
            made = distinct(
                context, x._operand("unique"), rows=axis is not None, indices=return_index, inverse=return_inverse,
                counts=return_counts, equal_nan=equal_nan, name="unique",
            )  # fmt: skip
            devices = x.layout.devices

            def settled(part: Sorted | None) -> Any:
                return None if part is None else _settled(context, part, devices, "unique")

            values, indices, counts = settled(made.values), settled(made.indices), settled(made.counts)
            inverse = None if made.inverse is None else from_chunks(context, *made.inverse)
        if axis is not None:
            values = reshape(values, (values.shape[0], *x.shape[1:]))
    if axis is not None:
        order = [i + 1 if i < at else 0 if i == at else i for i in range(x.ndim)]
        values = values._viewed(values._view_map().transpose(tuple(order)))
    chosen = [
        part for part, wish in ((indices, return_index), (inverse, return_inverse), (counts, return_counts)) if wish
    ]
    return (values, *chosen) if chosen else values


@implements(np.unique_all)
def unique_all(x: ArrayLike, /) -> UniqueAllResult:
    """Distinct elements, where each comes first, which one each element is, and how many there are; NaNs are distinct.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    UniqueAllResult
        With the fields `values`, `indices`, `inverse_indices` and `counts`.

    Notes
    -----
    Communication: as for :func:`unique`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.unique_all(da.asarray([3, 1, 3])).counts.tolist()
    [1, 2]
    """
    return UniqueAllResult(*unique(x, True, True, True, equal_nan=False))


@implements(np.unique_counts)
def unique_counts(x: ArrayLike, /) -> UniqueCountsResult:
    """Distinct elements, and how many there are of each; NaNs are distinct.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    UniqueCountsResult
        With the fields `values` and `counts`.

    Notes
    -----
    Communication: as for :func:`unique`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.unique_counts(da.asarray([3, 1, 3])).values.tolist()
    [1, 3]
    """
    return UniqueCountsResult(*unique(x, return_counts=True, equal_nan=False))


@implements(np.unique_inverse)
def unique_inverse(x: ArrayLike, /) -> UniqueInverseResult:
    """Distinct elements, and which of them each element is, in the layout of `x`; NaNs are distinct.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    UniqueInverseResult
        With the fields `values` and `inverse_indices`.

    Notes
    -----
    Communication: as for :func:`unique`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.unique_inverse(da.asarray([3, 1, 3])).inverse_indices.tolist()
    [1, 0, 1]
    """
    return UniqueInverseResult(*unique(x, return_inverse=True, equal_nan=False))


@implements(np.unique_values)
def unique_values(x: ArrayLike, /) -> DistributedArray:
    """Distinct elements, ascending; NaNs are distinct.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    DistributedArray
        Of one axis.

    Notes
    -----
    Communication: as for :func:`unique`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.unique_values(da.asarray([3, 1, 3])).tolist()
    [1, 3]
    """
    result: DistributedArray = unique(x, equal_nan=False)
    return result


# --- membership ---------------------------------------------------------------------------------------------------------


def _operands(*given: Any) -> list[DistributedArray]:
    """Arguments as arrays of one context."""
    known = [item for item in given if isinstance(item, DistributedArray)]
    context = same_context(known) if known else asarray(given[0])._context
    return [as_array(context, item) for item in given]


def _with_members(x: Any, members: Any) -> list[DistributedArray]:
    """Two arguments as arrays, the second without Python's integers that no element of the first may equal."""
    try:
        return _operands(x, members)
    except UnsupportedError:
        integers = large_integers(members)
        if integers is None:
            raise
        (one,) = _operands(x)
        close = nearest(integers, one.dtype)
        if close is None:
            raise
        return [one, as_array(one._context, close[0][close[1] == 0])]


def _mixed(one: AnyDType, other: AnyDType) -> bool:
    """Whether two dtypes are integers that no integer dtype holds both."""
    return one.kind in "iu" and other.kind in "iu" and np.promote_types(one, other).kind == "f"


@implements(np.isin)
def isin(
    element: ArrayLike,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: str | None = None,
) -> DistributedArray:
    """Of each element, whether it is one of others. NaN is none.

    Parameters
    ----------
    element, test_elements : array_like
    assume_unique : bool, optional
        For NumPy's sake.
    invert : bool, optional
        Whether it is none of them.
    kind : {None, "sort", "table"}, optional
        For NumPy's sake; it is always sorting.

    Returns
    -------
    DistributedArray
        Of bool, in the shape and layout of `element`.

    Raises
    ------
    ValueError
        `kind` is unknown, or ``"table"`` for what are no integers.
    RuntimeError
        `kind` is ``"table"``, and the range of `test_elements` is larger than the largest number of their dtype.

    Notes
    -----
    Communication: that of sorting `test_elements`, and with ``kind="table"`` of their extremes. Short ones then go to all
    devices; otherwise, unless these hold them all, each element goes to the device with its part of the order, and its
    answer back.

    Memory on each device: up to three times its share of the operands and the result.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.isin(da.asarray([0, 1, 2, 5], layout=da.blocks(0)), [5, 1]).get()
    array([False,  True, False,  True])
    """
    if kind not in (None, "sort", "table"):
        raise ValueError(f"Invalid kind: '{kind}'. Please use None, 'sort' or 'table'.")
    if isinstance(test_elements, DistributedArray) and (integers := large_integers(element)) is not None:
        close = nearest(integers, test_elements.dtype)
        if close is not None:
            found_ = np.logical_and(isin(close[0], test_elements, kind=kind), close[1] == 0)
            return np.logical_not(found_) if invert else found_  # type: ignore[no-any-return]
    x, tests = _with_members(element, test_elements)
    if kind == "table" and not (x.dtype.kind in "biu" and tests.dtype.kind in "biu"):
        raise ValueError(
            "The 'table' method is only supported for boolean or integer arrays. Please select 'sort' or None for kind."
        )
    if (
        kind == "table"
        and tests.size
        and _reach(tests) > np.iinfo(tests.dtype if tests.dtype.kind != "b" else np.uint8).max
    ):
        raise RuntimeError(
            "You have specified kind='table', but the range of values in `ar2` or `ar1` exceed the maximum integer of the "
            "datatype. Please set `kind` to None or 'sort'."
        )
    if _are_unlike(x.dtype, tests.dtype):
        nowhere = unlike(np.equal, x)
        return np.logical_not(nowhere) if invert else nowhere  # type: ignore[no-any-return]
    mixed = _mixed(x.dtype, tests.dtype)
    common = np.dtype(np.uint64) if mixed else np.result_type(x.dtype, tests.dtype)
    context = x._context
    ordered = sort(astype(tests, common), None)
    wanted = astype(x, common)
    with context.lock:
        context.check()
        found = look_up(context, ordered._operand("isin"), wanted._operand("isin"), "member", "isin")
        result = from_chunks(context, *found)
    member: Any = result
    if mixed:  # an element that the other dtype lacks wraps around, and is not in the set
        member = np.logical_and(result, x >= 0 if x.dtype.kind == "i" else x <= np.uint64(np.iinfo(np.int64).max))
    return np.logical_not(member) if invert else member  # type: ignore[no-any-return]


def _are_unlike(one: AnyDType, other: AnyDType) -> bool:
    """Whether dtypes are dates, time spans or numbers that are never joined."""
    try:
        np.concatenate((np.empty(0, one), np.empty(0, other)))
    except TypeError:
        return "V" not in (one.kind, other.kind)
    return False


def _reach(x: DistributedArray) -> int:
    """How far the largest integer is from the least."""
    return int(np.max(x)) - int(np.min(x))


# --- set functions ------------------------------------------------------------------------------------------------------


def _alike(*arrays: DistributedArray) -> list[DistributedArray]:
    """Arrays in the dtype that they have when they are joined."""
    common = np.concatenate([np.empty(0, array.dtype) for array in arrays]).dtype  # refuses dates and time spans
    return [astype(array, common) for array in arrays]


@implements(np.intersect1d)
def intersect1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False, return_indices: bool = False) -> Any:
    """The distinct elements that two arrays have both, ascending.

    Parameters
    ----------
    ar1, ar2 : array_like
        Taken as flat.
    assume_unique : bool, optional
        For NumPy's sake.
    return_indices : bool, optional
        Also where each comes first in either.

    Returns
    -------
    DistributedArray, or tuple of three

    Notes
    -----
    Communication: that of :func:`unique` of both, and of :func:`isin`.

    Memory on each device: up to four times its share of the operands and the result: both sets of distinct elements are
    beside them, each in order, what is asked of other devices and what comes from them.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.intersect1d(da.asarray([1, 3, 4, 3], layout=da.blocks(0)), [3, 1, 2, 1]).get()
    array([1, 3])
    """
    one, other = _alike(*_operands(ar1, ar2))
    if not return_indices:
        values = unique(one)
        return values[isin(values, other)]
    (values, first), (others, second) = unique(one, return_index=True), unique(other, return_index=True)
    here, there = isin(values, others), isin(others, values)
    return values[here], first[here], second[there]


@implements(np.union1d)
def union1d(ar1: ArrayLike, ar2: ArrayLike) -> DistributedArray:
    """The distinct elements of two arrays, ascending.

    Parameters
    ----------
    ar1, ar2 : array_like
        Taken as flat.

    Returns
    -------
    DistributedArray
        Of one axis.

    Notes
    -----
    Communication: that of joining the two, flattened, and of :func:`unique`.

    Memory on each device: up to three times its share of the operands and the result.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.union1d(da.asarray([3, 1]), [2, 3]).tolist()
    [1, 2, 3]
    """
    weak = isinstance(ar1, PYTHON_SCALARS) != isinstance(ar2, PYTHON_SCALARS)  # it takes the other's dtype, as in NumPy
    parts = (ar1, ar2) if weak else _operands(ar1, ar2)
    result: DistributedArray = unique(concatenate(list(parts), axis=None))
    return result


@implements(np.setdiff1d)
def setdiff1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False) -> DistributedArray:
    """The distinct elements of one array that another has not, ascending; with `assume_unique` as they come.

    Parameters
    ----------
    ar1, ar2 : array_like
        Taken as flat.
    assume_unique : bool, optional
        The elements of `ar1` are distinct: they stay in their order.

    Returns
    -------
    DistributedArray
        Of one axis.

    Notes
    -----
    Communication: that of :func:`unique` of the first, and of :func:`isin`.

    Memory on each device: up to four times its share of the operands and the result; 2.5 times where elements lie in no order.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.setdiff1d(da.asarray([3, 1, 2]), [2]).tolist()
    [1, 3]
    """
    one, other = _with_members(ar1, ar2)
    values = ravel(one) if assume_unique else unique(one)
    result: DistributedArray = values[isin(values, other, invert=True)]
    return result


@implements(np.setxor1d)
def setxor1d(ar1: ArrayLike, ar2: ArrayLike, assume_unique: bool = False) -> DistributedArray:
    """The distinct elements that only one of two arrays has, ascending.

    Parameters
    ----------
    ar1, ar2 : array_like
        Taken as flat.
    assume_unique : bool, optional
        For NumPy's sake.

    Returns
    -------
    DistributedArray
        Of one axis.

    Notes
    -----
    Communication: that of :func:`unique` of both, of :func:`isin`, and of sorting the result.

    Memory on each device: up to five times its share of the operands and the result: both sets of distinct elements are beside
    them; 2.5 times where elements lie in no order and both have as many.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.setxor1d(da.asarray([3, 1]), [2, 3]).tolist()
    [1, 2]
    """
    one, other = [unique(array) for array in _alike(*_operands(ar1, ar2))]
    return sort(concatenate([one[isin(one, other, invert=True)], other[isin(other, one, invert=True)]]))
