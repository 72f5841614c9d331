"""Views of arrays: axes permuted, added, removed, flipped, repeated or cut. They exist as pure changes of a view map, so
that none of them moves data and a write through any of them reaches the base."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from distarray.array.aliases import ArrayLike, Axis, ShapeLike
from distarray.array.documented import described_as
from distarray.array.functions import implements
from distarray.array.shapes import broadcast_shape
from distarray.array.state import DistributedArray
from distarray.ops.convert import asarray
from distarray.ops.generate import as_shape

__all__ = [
    "array_split", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_shapes", "broadcast_to",
    "dsplit", "expand_dims", "flip", "fliplr", "flipud", "hsplit", "matrix_transpose", "moveaxis", "permute_dims",
    "rollaxis", "rot90", "split", "squeeze", "swapaxes", "transpose", "unstack", "vsplit",
]  # fmt: skip


# --- axes permuted ----------------------------------------------------------------------------------------------------


def _permuted(x: DistributedArray, order: Sequence[int]) -> DistributedArray:
    return x._viewed(x._view_map().transpose(order))


@implements(np.transpose, np.permute_dims)
def transpose(a: ArrayLike, axes: Any = None) -> DistributedArray:
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
def permute_dims(x: ArrayLike, /, axes: Any) -> DistributedArray:
    """The standard's name of :func:`transpose`.

    Parameters
    ----------
    x : array_like
    axes : sequence of int
        Axis `i` of the result is axis ``axes[i]`` of `x`.
    """
    return transpose(x, axes)


def _transpose_method(x: DistributedArray, *axes: Any) -> DistributedArray:
    """``x.transpose()``, ``x.transpose(1, 0)`` or ``x.transpose((1, 0))``."""
    if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
        return transpose(x, axes[0])
    return transpose(x, axes or None)


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
    first, second = normalize_axis_index(axis1, x.ndim), normalize_axis_index(axis2, x.ndim)
    order = list(range(x.ndim))
    order[first], order[second] = second, first
    return _permuted(x, order)


@implements(np.moveaxis)
def moveaxis(a: ArrayLike, source: Any, destination: Any) -> DistributedArray:
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
def expand_dims(a: ArrayLike, axis: Any) -> DistributedArray:
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
def atleast_1d(*arys: Any) -> Any:
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
def atleast_2d(*arys: Any) -> Any:
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
def atleast_3d(*arys: Any) -> Any:
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
def broadcast_to(array: Any, shape: ShapeLike, subok: bool = False) -> DistributedArray:
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
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[DistributedArray, ...]:
    """The arrays stretched to their common shape: views, read-only where they are stretched.

    Parameters
    ----------
    *args : array_like
    subok : bool
        Accepted for NumPy's sake.

    Returns
    -------
    tuple of DistributedArray

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
    arrays = [asarray(a) for a in args]
    shape = broadcast_shape(*[x.shape for x in arrays]) if arrays else ()
    return tuple([x if x.shape == shape else broadcast_to(x, shape) for x in arrays])


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
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


# --- flipped ----------------------------------------------------------------------------------------------------------


@implements(np.flip)
def flip(m: Any, axis: Axis = None) -> DistributedArray:
    """The order of elements reversed along all axes or those named: a view.

    Parameters
    ----------
    m : array_like
    axis : int or tuple of int, optional
        Default: all.

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
    ...     da.flip(da.arange(3)).tolist()
    [2, 1, 0]
    """
    x = asarray(m)
    axes = None if axis is None else normalize_axis_tuple(axis, x.ndim)
    return x._viewed(x._view_map().flip(axes))


@implements(np.flipud)
def flipud(m: Any) -> DistributedArray:
    """The order reversed along the first axis: a view.

    Parameters
    ----------
    m : array_like
        Of one axis or more.

    Returns
    -------
    DistributedArray

    Raises
    ------
    ValueError
        `m` has no axes.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.flipud(da.eye(2)).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    x = asarray(m)
    if x.ndim < 1:
        raise ValueError("Input must be >= 1-d: pass an array with an axis to flip")
    return flip(x, 0)


@implements(np.fliplr)
def fliplr(m: Any) -> DistributedArray:
    """The order reversed along the second axis: a view.

    Parameters
    ----------
    m : array_like
        Of two axes or more.

    Returns
    -------
    DistributedArray

    Raises
    ------
    ValueError
        `m` has fewer than two axes.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.fliplr(da.eye(2)).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    x = asarray(m)
    if x.ndim < 2:
        raise ValueError("Input must be >= 2-d: pass an array with two axes, or use flip")
    return flip(x, 1)


@implements(np.rot90)
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> DistributedArray:
    """The array turned by `k` times 90 degrees in the plane of two axes: a view.

    Parameters
    ----------
    m : array_like
    k : int
        How often; negative to turn back.
    axes : pair of int
        The plane: the array turns from the first of them to the second.

    Returns
    -------
    DistributedArray

    Raises
    ------
    ValueError
        The axes are not two different ones of the array.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.rot90(da.asarray([[1, 2], [3, 4]])).tolist()
    [[2, 4], [1, 3]]
    """
    x = asarray(m)
    if len(axes) != 2:
        raise ValueError(f"len(axes) must be 2, got {axes!r}")
    if axes[0] == axes[1] or abs(axes[0] - axes[1]) == x.ndim:
        raise ValueError(f"Axes must be different, got {axes!r}")
    if any(not -x.ndim <= axis < x.ndim for axis in axes):
        raise ValueError(f"Axes={axes} out of range for array of ndim={x.ndim}.")
    first, second = (operator.index(axis) for axis in axes)
    turns = operator.index(k) % 4
    if turns == 0:
        return x[...]
    if turns == 2:
        return flip(x, (first, second))
    if turns == 1:
        return swapaxes(flip(x, second), first, second)
    return flip(swapaxes(x, first, second), second)


# --- cut --------------------------------------------------------------------------------------------------------------


def _pieces(x: DistributedArray, bounds: Sequence[Any], axis: int) -> list[DistributedArray]:
    head = (slice(None),) * axis
    return [x[(*head, slice(low, high))] for low, high in zip(bounds, bounds[1:], strict=False)]


@implements(np.array_split)
def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[DistributedArray]:
    """The array cut along an axis, in so many sections or at the indices given: views.

    Sections may differ in length by one. Indices are small host values; distributed ones are read.

    Parameters
    ----------
    ary : array_like
    indices_or_sections : int or sequence of int
        How many sections, or where they begin.
    axis : int

    Returns
    -------
    list of DistributedArray

    Raises
    ------
    ValueError
        The number of sections is not positive.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     [x.tolist() for x in da.array_split(da.arange(5), 2)]
    [[0, 1, 2], [3, 4]]
    """
    x = asarray(ary)
    axis = normalize_axis_index(axis, x.ndim)
    n = x.shape[axis]
    points = _points(indices_or_sections)
    if isinstance(points, list):
        return _pieces(x, [0, *points, n], axis)
    if points <= 0:
        raise ValueError(f"number sections must be larger than 0, got {points}")
    each, more = divmod(n, points)
    bounds = [i * each + min(i, more) for i in range(points + 1)]
    return _pieces(x, bounds, axis)


def _points(indices_or_sections: Any) -> Any:
    """The indices as a list, or the number of sections."""
    if isinstance(indices_or_sections, DistributedArray):
        indices_or_sections = indices_or_sections.get()
    if np.ndim(indices_or_sections):
        return [operator.index(i) for i in indices_or_sections]
    return int(indices_or_sections)


@implements(np.split)
@described_as(array_split)
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[DistributedArray]:
    """The array cut along an axis in equal sections, or at the indices given: views.

    Raises
    ------
    ValueError
        The axis is no multiple of the number of sections: :func:`array_split` allows that.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     [x.tolist() for x in da.split(da.arange(6), [2, 3])]
    [[0, 1], [2], [3, 4, 5]]
    """
    x = asarray(ary)
    points = _points(indices_or_sections)
    if not isinstance(points, list):
        n = x.shape[normalize_axis_index(axis, x.ndim)]
        if points == 0 or n % points:
            if points == 0:
                raise ZeroDivisionError("integer modulo by zero: a split needs at least one section")
            raise ValueError(
                f"array split does not result in an equal division: {n} elements in {points} sections; use array_split"
            )
    return array_split(x, points, axis)


@implements(np.hsplit)
@described_as(split)
def hsplit(ary: Any, indices_or_sections: Any) -> list[DistributedArray]:
    """The array cut along the second axis, or the only one: views.

    Raises
    ------
    ValueError
        The array has no axes, or is not to be cut in equal sections.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     [x.tolist() for x in da.hsplit(da.eye(2), 2)]
    [[[1.0], [0.0]], [[0.0], [1.0]]]
    """
    x = asarray(ary)
    if x.ndim == 0:
        raise ValueError("hsplit only works on arrays of 1 or more dimensions, got a 0-d array")
    return split(x, indices_or_sections, 1 if x.ndim > 1 else 0)


@implements(np.vsplit)
@described_as(split)
def vsplit(ary: Any, indices_or_sections: Any) -> list[DistributedArray]:
    """The array cut along the first axis: views.

    Raises
    ------
    ValueError
        The array has fewer than two axes, or is not to be cut in equal sections.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     [x.tolist() for x in da.vsplit(da.eye(2), 2)]
    [[[1.0, 0.0]], [[0.0, 1.0]]]
    """
    x = asarray(ary)
    if x.ndim < 2:
        raise ValueError(f"vsplit only works on arrays of 2 or more dimensions, got {x.ndim}: use split")
    return split(x, indices_or_sections, 0)


@implements(np.dsplit)
@described_as(split)
def dsplit(ary: Any, indices_or_sections: Any) -> list[DistributedArray]:
    """The array cut along the third axis: views.

    Raises
    ------
    ValueError
        The array has fewer than three axes, or is not to be cut in equal sections.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     [x.shape for x in da.dsplit(da.zeros((1, 2, 4)), 2)]
    [(1, 2, 2), (1, 2, 2)]
    """
    x = asarray(ary)
    if x.ndim < 3:
        raise ValueError(f"dsplit only works on arrays of 3 or more dimensions, got {x.ndim}: use split")
    return split(x, indices_or_sections, 2)


@implements(np.unstack)
def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[DistributedArray, ...]:
    """The array cut in slices along an axis, without that axis: views.

    Parameters
    ----------
    x : array_like
    axis : int

    Returns
    -------
    tuple of DistributedArray

    Raises
    ------
    ValueError
        `x` has no axes.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     [x.tolist() for x in da.unstack(da.eye(2))]
    [[1.0, 0.0], [0.0, 1.0]]
    """
    x = asarray(x)
    if x.ndim == 0:
        raise ValueError("Input array must be at least 1-d, got a 0-d array: there is no axis to cut")
    return tuple(moveaxis(x, axis, 0))
