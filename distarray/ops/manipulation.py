"""Views of arrays: axes permuted, added, removed or repeated. They exist as pure changes of a view map, so
that none of them moves data and a write through any of them reaches the base."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from distarray.array import elements
from distarray.array.aliases import ArrayLike, Axis, ShapeLike
from distarray.array.documented import described_as
from distarray.array.functions import implements
from distarray.array.shapes import broadcast_shape
from distarray.array.state import DistributedArray
from distarray.ops.convert import asarray
from distarray.ops.generate import as_shape

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_shapes", "broadcast_to", "expand_dims",
    "matrix_transpose", "moveaxis", "permute_dims", "rollaxis", "squeeze", "swapaxes", "transpose",
]  # fmt: skip


# --- axes permuted ----------------------------------------------------------------------------------------------------


def _permuted(x: DistributedArray, order: Sequence[int]) -> DistributedArray:
    return elements.permuted(x, tuple(order))


@implements(np.transpose, np.permute_dims)
def transpose(a: ArrayLike, axes: Sequence[int] | None = None) -> DistributedArray:
    """The array with its axes permuted: a view.

    Parameters
    ----------
    a : array_like
    axes : sequence of int, optional
        Axis `i` of the result is axis ``axes[i]`` of `a`. Default: all axes reversed.

    Returns
    -------
    DistributedArray

    Raises
    ------
    ValueError
        `axes` is no permutation of the axes.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.transpose(da.zeros((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    x = asarray(a)
    if axes is None:
        return x.T
    order = normalize_axis_tuple(axes, x.ndim)
    if len(order) != x.ndim:
        raise ValueError(f"axes don't match array: got {axes!r} for {x.ndim} axes; pass a permutation of all of them")
    return _permuted(x, order)


@described_as(transpose)
def permute_dims(x: ArrayLike, /, axes: Sequence[int] | None = None) -> DistributedArray:
    """The standard's name of :func:`transpose`.

    Parameters
    ----------
    x : array_like
    axes : sequence of int, optional
        Axis `i` of the result is axis ``axes[i]`` of `x`. Default: all axes reversed.
    """
    return transpose(x, axes)


@implements(np.matrix_transpose)
def matrix_transpose(x: ArrayLike, /) -> DistributedArray:
    """The last two axes exchanged: a view.

    Parameters
    ----------
    x : array_like
        Of two axes or more.

    Returns
    -------
    DistributedArray

    Raises
    ------
    ValueError
        `x` has fewer than two axes.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.matrix_transpose(da.zeros((2, 3, 4))).shape
    (2, 4, 3)
    """
    array = asarray(x)
    if array.ndim < 2:
        raise ValueError(
            f"Input array must be at least 2-dimensional, but it is {array.ndim}-dimensional: add axes with expand_dims"
        )
    return array.mT


@implements(np.swapaxes)
def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> DistributedArray:
    """Two axes exchanged: a view.

    Parameters
    ----------
    a : array_like
    axis1, axis2 : int

    Returns
    -------
    DistributedArray

    Raises
    ------
    AxisError
        An axis is out of bounds.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.swapaxes(da.zeros((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    x = asarray(a)
    first, second = normalize_axis_index(axis1, x.ndim, "axis1"), normalize_axis_index(axis2, x.ndim, "axis2")
    order = list(range(x.ndim))
    order[first], order[second] = second, first
    return _permuted(x, order)


@implements(np.moveaxis)
def moveaxis(a: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int]) -> DistributedArray:
    """Axes moved to other positions, the others in their order: a view.

    Parameters
    ----------
    a : array_like
    source, destination : int or sequence of int
        Where the axes stand, and where they shall stand.

    Returns
    -------
    DistributedArray

    Raises
    ------
    AxisError
        An axis is out of bounds.
    ValueError
        `source` and `destination` differ in length, or name an axis twice.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.moveaxis(da.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    x = asarray(a)
    origin = normalize_axis_tuple(source, x.ndim, "source")
    goal = normalize_axis_tuple(destination, x.ndim, "destination")
    if len(origin) != len(goal):
        raise ValueError(
            f"`source` and `destination` arguments must have the same number of elements, got {source!r} and {destination!r}"
        )
    order = [axis for axis in range(x.ndim) if axis not in origin]
    for place, axis in sorted(zip(goal, origin, strict=True)):
        order.insert(place, axis)
    return _permuted(x, order)


@implements(np.rollaxis)
def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> DistributedArray:
    """An axis moved before the axis `start`: a view.

    Parameters
    ----------
    a : array_like
    axis : int
    start : int
        The axis before which `axis` shall stand.

    Returns
    -------
    DistributedArray

    Raises
    ------
    AxisError
        `axis` or `start` is out of bounds.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.rollaxis(da.zeros((2, 3, 4)), 2).shape
    (4, 2, 3)
    """
    x = asarray(a)
    axis = normalize_axis_index(axis, x.ndim)
    first = start + x.ndim if start < 0 else start
    if not 0 <= first <= x.ndim:
        raise np.exceptions.AxisError(
            f"'start' arg requires {-x.ndim} <= start < {x.ndim + 1}, but {start} was passed in: pass a position within"
        )
    order = [other for other in range(x.ndim) if other != axis]
    order.insert(first - 1 if axis < first else first, axis)
    return _permuted(x, order)


# --- axes added and removed -------------------------------------------------------------------------------------------


@implements(np.squeeze)
def squeeze(a: ArrayLike, axis: Axis = None) -> DistributedArray:
    """Axes of length 1 removed, all of them or those named: a view.

    Parameters
    ----------
    a : array_like
    axis : int or tuple of int, optional
        Default: all of length 1.

    Returns
    -------
    DistributedArray

    Raises
    ------
    ValueError
        An axis named has another length.
    AxisError
        An axis is out of bounds.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.squeeze(da.zeros((1, 3, 1))).shape
    (3,)
    """
    x = asarray(a)
    if not x.ndim and not isinstance(axis, (tuple, list)) and axis in (0, -1):
        axis = None  # NumPy lets these through for 0-d arrays
    axes = None if axis is None else normalize_axis_tuple(axis, x.ndim)
    return x._viewed(x._view_map().squeeze(axes))


@implements(np.expand_dims)
def expand_dims(a: ArrayLike, axis: int | tuple[int, ...]) -> DistributedArray:
    """Axes of length 1 put in at the positions `axis` of the result: a view.

    Parameters
    ----------
    a : array_like
    axis : int or tuple of int
        Positions of the new axes in the result.

    Returns
    -------
    DistributedArray

    Raises
    ------
    AxisError
        A position is out of bounds.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.expand_dims(da.zeros(3), (0, 2)).shape
    (1, 3, 1)
    """
    x = asarray(a)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    return x._viewed(x._view_map().expand_dims(normalize_axis_tuple(axis, x.ndim + count)))


def _at_least(n: int, arrays: Sequence[Any]) -> Any:
    found = [_lifted(asarray(a), n) for a in arrays]
    return found[0] if len(found) == 1 else tuple(found)


def _lifted(x: DistributedArray, n: int) -> DistributedArray:
    """`x` with at least `n` axes, added where NumPy's ``atleast_*`` functions add them."""
    if x.ndim >= n:
        return x
    if n == 3:
        new = {0: (0, 1, 2), 1: (0, 2), 2: (2,)}[x.ndim]
    else:
        new = tuple(range(n - x.ndim))
    return x._viewed(x._view_map().expand_dims(new))


@implements(np.atleast_1d)
def atleast_1d(*arys: ArrayLike) -> Any:
    """Each array with at least one axis, as views; a tuple where several are given.

    Parameters
    ----------
    *arys : array_like

    Returns
    -------
    DistributedArray, or tuple of DistributedArray
        Views.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.atleast_1d(da.asarray(5)).shape
    (1,)
    """
    return _at_least(1, arys)


@implements(np.atleast_2d)
@described_as(atleast_1d)
def atleast_2d(*arys: ArrayLike) -> Any:
    """Each array with at least two axes, as views; a tuple where several are given.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.atleast_2d(da.zeros(3)).shape
    (1, 3)
    """
    return _at_least(2, arys)


@implements(np.atleast_3d)
@described_as(atleast_1d)
def atleast_3d(*arys: ArrayLike) -> Any:
    """Each array with at least three axes, as views; a tuple where several are given.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.atleast_3d(da.zeros(3)).shape
    (1, 3, 1)
    """
    return _at_least(3, arys)


# --- broadcast --------------------------------------------------------------------------------------------------------


@implements(np.broadcast_to)
def broadcast_to(array: ArrayLike, shape: ShapeLike, subok: bool = False) -> DistributedArray:
    """The array stretched to a shape: a read-only view.

    Parameters
    ----------
    array : array_like
    shape : int or sequence of int
    subok : bool
        Accepted for NumPy's sake.

    Returns
    -------
    DistributedArray

    Raises
    ------
    ValueError
        The shapes are not compatible.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.broadcast_to(da.arange(2), (2, 2)).tolist()
    [[0, 1], [0, 1]]
    """
    x = asarray(array)
    return x._viewed(x._view_map().broadcast_to(as_shape(shape)), writable=False)


@implements(np.broadcast_arrays)
def broadcast_arrays(*args: ArrayLike, subok: bool = False) -> tuple[Any, ...]:
    """The arrays stretched to their common shape: views, read-only where they are stretched.

    Parameters
    ----------
    *args : array_like
    subok : bool
        Accepted for NumPy's sake.

    Returns
    -------
    tuple of DistributedArray
        What is neither a number nor an array of numbers (None, text) is an array of NumPy's.

    Raises
    ------
    ValueError
        The shapes are not compatible.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     [x.shape for x in da.broadcast_arrays(da.zeros((2, 1)), da.zeros(3))]
    [(2, 3), (2, 3)]
    """
    given = [np.asarray(a) if a is None or isinstance(a, (str, bytes)) else a for a in args]
    arrays: list[Any] = [a if getattr(getattr(a, "dtype", None), "kind", "-") in "OSUT" else asarray(a) for a in given]
    shape = broadcast_shape(*[x.shape for x in arrays]) if arrays else ()
    return tuple([x if x.shape == shape else np.broadcast_to(x, shape) for x in arrays])


def broadcast_shapes(*shapes: ShapeLike) -> tuple[int, ...]:
    """The shape that shapes broadcast to.

    Parameters
    ----------
    *shapes : int or tuple of int

    Returns
    -------
    tuple of int

    Raises
    ------
    ValueError
        The shapes are not compatible.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    return np.broadcast_shapes(*shapes)
