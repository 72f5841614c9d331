"""Views of arrays: axes permuted, added, removed, flipped, repeated or cut. They exist as pure changes of a view map, so
that none of them moves data and a write through any of them reaches the base."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from distarray.array.aliases import ArrayLike, Axis, ShapeLike
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


def permute_dims(x: ArrayLike, /, axes: Any) -> DistributedArray:
    """The standard's name of :func:`transpose`."""
    return transpose(x, axes)


def _transpose_method(x: DistributedArray, *axes: Any) -> DistributedArray:
    """``x.transpose()``, ``x.transpose(1, 0)`` or ``x.transpose((1, 0))``."""
    if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
        return transpose(x, axes[0])
    return transpose(x, axes or None)


@implements(np.matrix_transpose)
def matrix_transpose(x: ArrayLike, /) -> DistributedArray:
    """The last two axes exchanged: a view. Communication: none."""
    array = asarray(x)
    if array.ndim < 2:
        raise ValueError(
            f"Input array must be at least 2-dimensional, but it is {array.ndim}-dimensional: add axes with expand_dims"
        )
    return array.mT


@implements(np.swapaxes)
def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> DistributedArray:
    """Two axes exchanged: a view. Communication: none."""
    x = asarray(a)
    first, second = normalize_axis_index(axis1, x.ndim), normalize_axis_index(axis2, x.ndim)
    order = list(range(x.ndim))
    order[first], order[second] = second, first
    return _permuted(x, order)


@implements(np.moveaxis)
def moveaxis(a: ArrayLike, source: Any, destination: Any) -> DistributedArray:
    """Axes moved to other positions, the others in their order: a view. Communication: none."""
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
    """An axis moved before the axis `start`: a view. Communication: none."""
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
    """Axes of length 1 removed, all of them or those named: a view. Communication: none."""
    x = asarray(a)
    if not x.ndim and not isinstance(axis, (tuple, list)) and axis in (0, -1):
        axis = None  # NumPy lets these through for 0-d arrays
    axes = None if axis is None else normalize_axis_tuple(axis, x.ndim)
    return x._viewed(x._view_map().squeeze(axes))


@implements(np.expand_dims)
def expand_dims(a: ArrayLike, axis: Any) -> DistributedArray:
    """Axes of length 1 put in at the positions `axis` of the result: a view. Communication: none."""
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
    """Each array with at least one axis, as views; a tuple where several are given. Communication: none."""
    return _at_least(1, arys)


@implements(np.atleast_2d)
def atleast_2d(*arys: Any) -> Any:
    """Each array with at least two axes; see :func:`atleast_1d`."""
    return _at_least(2, arys)


@implements(np.atleast_3d)
def atleast_3d(*arys: Any) -> Any:
    """Each array with at least three axes; see :func:`atleast_1d`."""
    return _at_least(3, arys)


# --- broadcast --------------------------------------------------------------------------------------------------------


@implements(np.broadcast_to)
def broadcast_to(array: Any, shape: ShapeLike, subok: bool = False) -> DistributedArray:
    """The array stretched to a shape: a read-only view.

    Raises
    ------
    ValueError
        The shapes are not compatible.

    Notes
    -----
    Communication: none.
    """
    x = asarray(array)
    return x._viewed(x._view_map().broadcast_to(as_shape(shape)), writable=False)


@implements(np.broadcast_arrays)
def broadcast_arrays(*args: Any, subok: bool = False) -> tuple[DistributedArray, ...]:
    """The arrays stretched to their common shape: views, read-only where they are stretched. Communication: none."""
    arrays = [asarray(a) for a in args]
    shape = broadcast_shape(*[x.shape for x in arrays]) if arrays else ()
    return tuple([x if x.shape == shape else broadcast_to(x, shape) for x in arrays])


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape that shapes broadcast to. Communication: none."""
    return np.broadcast_shapes(*shapes)


# --- flipped ----------------------------------------------------------------------------------------------------------


@implements(np.flip)
def flip(m: Any, axis: Axis = None) -> DistributedArray:
    """The order of elements reversed along all axes or those named: a view. Communication: none."""
    x = asarray(m)
    axes = None if axis is None else normalize_axis_tuple(axis, x.ndim)
    return x._viewed(x._view_map().flip(axes))


@implements(np.flipud)
def flipud(m: Any) -> DistributedArray:
    """The order reversed along the first axis: a view. Communication: none."""
    x = asarray(m)
    if x.ndim < 1:
        raise ValueError("Input must be >= 1-d: pass an array with an axis to flip")
    return flip(x, 0)


@implements(np.fliplr)
def fliplr(m: Any) -> DistributedArray:
    """The order reversed along the second axis: a view. Communication: none."""
    x = asarray(m)
    if x.ndim < 2:
        raise ValueError("Input must be >= 2-d: pass an array with two axes, or use flip")
    return flip(x, 1)


@implements(np.rot90)
def rot90(m: Any, k: int = 1, axes: Any = (0, 1)) -> DistributedArray:
    """The array turned by `k` times 90 degrees in the plane of two axes: a view. Communication: none."""
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

    Notes
    -----
    Communication: none.
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
def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[DistributedArray]:
    """The array cut along an axis in equal sections, or at the indices given; see :func:`array_split`.

    Raises
    ------
    ValueError
        The axis is no multiple of the number of sections: :func:`array_split` allows that.
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
def hsplit(ary: Any, indices_or_sections: Any) -> list[DistributedArray]:
    """:func:`split` along the second axis, or the only one."""
    x = asarray(ary)
    if x.ndim == 0:
        raise ValueError("hsplit only works on arrays of 1 or more dimensions, got a 0-d array")
    return split(x, indices_or_sections, 1 if x.ndim > 1 else 0)


@implements(np.vsplit)
def vsplit(ary: Any, indices_or_sections: Any) -> list[DistributedArray]:
    """:func:`split` along the first axis of at least two."""
    x = asarray(ary)
    if x.ndim < 2:
        raise ValueError(f"vsplit only works on arrays of 2 or more dimensions, got {x.ndim}: use split")
    return split(x, indices_or_sections, 0)


@implements(np.dsplit)
def dsplit(ary: Any, indices_or_sections: Any) -> list[DistributedArray]:
    """:func:`split` along the third axis."""
    x = asarray(ary)
    if x.ndim < 3:
        raise ValueError(f"dsplit only works on arrays of 3 or more dimensions, got {x.ndim}: use split")
    return split(x, indices_or_sections, 2)


@implements(np.unstack)
def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[DistributedArray, ...]:
    """The array cut in slices along an axis, without that axis: views. Communication: none."""
    x = asarray(x)
    if x.ndim == 0:
        raise ValueError("Input array must be at least 1-d, got a 0-d array: there is no axis to cut")
    return tuple(moveaxis(x, axis, 0))
