"""Arrays cut along an axis, as views: ``split`` in its forms, and ``unstack``."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from distarray.array.aliases import ArrayLike
from distarray.array.documented import described_as
from distarray.array.functions import implements
from distarray.array.state import DistributedArray
from distarray.ops.convert import asarray
from distarray.ops.manipulation import moveaxis

__all__ = ["array_split", "dsplit", "hsplit", "split", "unstack", "vsplit"]


def _pieces(x: DistributedArray, bounds: Sequence[Any], axis: int) -> list[DistributedArray]:
    head = (slice(None),) * axis
    return [x[(*head, slice(low, high))] for low, high in zip(bounds, bounds[1:], strict=False)]


@implements(np.array_split)
def array_split(ary: ArrayLike, indices_or_sections: ArrayLike, axis: int = 0) -> list[DistributedArray]:
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
    lengths = [each + 1] * more + [each] * (points - more)  # of too many sections: MemoryError, as NumPy's
    return _pieces(x, [0, *accumulate(lengths)], axis)


def _points(indices_or_sections: Any) -> Any:
    """The indices as a list, or the number of sections."""
    if isinstance(indices_or_sections, DistributedArray):
        indices_or_sections = indices_or_sections.get()
    if np.ndim(indices_or_sections) or isinstance(indices_or_sections, (str, bytes)):
        return [operator.index(i) for i in indices_or_sections]
    return int(indices_or_sections)


@implements(np.split)
@described_as(array_split)
def split(ary: ArrayLike, indices_or_sections: ArrayLike, axis: int = 0) -> list[DistributedArray]:
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
        points = (
            indices_or_sections if isinstance(indices_or_sections, float) else points
        )  # 1.5 divides what it divides
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
def hsplit(ary: ArrayLike, indices_or_sections: ArrayLike) -> list[DistributedArray]:
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
def vsplit(ary: ArrayLike, indices_or_sections: ArrayLike) -> list[DistributedArray]:
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
def dsplit(ary: ArrayLike, indices_or_sections: ArrayLike) -> list[DistributedArray]:
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
