"""The order of elements reversed along axes, and arrays turned: views, which move nothing."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from distarray.array.aliases import ArrayLike, Axis
from distarray.array.functions import implements
from distarray.array.state import DistributedArray
from distarray.ops.convert import asarray
from distarray.ops.manipulation import swapaxes

__all__ = ["flip", "fliplr", "flipud", "rot90"]

_TURNED, _KEPT = slice(None, None, -1), slice(None)


@implements(np.flip)
def flip(m: ArrayLike, axis: Axis = None) -> DistributedArray:
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
    if not x.ndim:
        normalize_axis_tuple(() if axis is None else axis, 0)
        return x._viewed(x._view_map())
    axes = range(x.ndim) if axis is None else normalize_axis_tuple(axis, x.ndim)
    return x[tuple([_TURNED if at in axes else _KEPT for at in range(x.ndim)])]


@implements(np.flipud)
def flipud(m: ArrayLike) -> DistributedArray:
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
def fliplr(m: ArrayLike) -> DistributedArray:
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
def rot90(m: ArrayLike, k: int = 1, axes: Sequence[int] = (0, 1)) -> DistributedArray:
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
