"""Diagonals and what needs nothing but them: ``diagonal`` and ``trace``; and the cross product."""

from __future__ import annotations

import operator
import warnings
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from distarray.array.aliases import ArrayLike, DTypeLike, Out
from distarray.array.functions import implements
from distarray.array.place import arrays
from distarray.array.shown import is_short, seen
from distarray.array.standing import stand_for
from distarray.array.state import DistributedArray, fresh_array, from_chunks
from distarray.devices import Chunk
from distarray.geometry import IndexMap, Range, Region
from distarray.layout import Layout
from distarray.sites import call_site, warn_at

__all__ = ["cross", "diagonal", "trace"]


@implements(np.diagonal)
def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> DistributedArray:
    """Diagonals of an array, as ``numpy.diagonal``: a read-only copy, which shows later writes to `a`.

    Parameters
    ----------
    a : array_like
    offset : int
        Above (positive) or below the main diagonal.
    axis1, axis2 : int
        The axes of the matrices; the diagonals are the result's last axis.

    Returns
    -------
    DistributedArray
        Read-only.

    Raises
    ------
    ValueError
        `a` has fewer than two axes, or the two are one.
    AxisError
        An axis is out of bounds.

    Notes
    -----
    Communication: none; each device keeps what it holds of the diagonals, and the mode stays. Again
    at the first read after a write to `a`.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.asarray(np.arange(9).reshape(3, 3), layout=da.blocks(0))
    ...     np.diagonal(x, 1).get().tolist()
    [1, 5]
    """
    x = arrays(a)[1][0]
    offset = operator.index(offset)
    if x.ndim < 2:
        raise ValueError(f"diag requires an array of at least two dimensions, and this has {x.ndim}")
    rows, columns = (normalize_axis_index(axis, x.ndim) for axis in (axis1, axis2))
    if rows == columns:
        raise ValueError(f"axis1 and axis2 cannot be the same, and both are {rows}")
    rest = [axis for axis in range(x.ndim) if axis not in (rows, columns)]
    x = x.transpose((*rest, rows, columns))
    like = partial(np.diagonal, offset=offset, axis1=-2, axis2=-1)
    return stand_for(x, partial(_copied, offset=offset), like, writable=False)


def _copied(x: DistributedArray, offset: int) -> DistributedArray:
    """A diagonal of the last two axes, in new chunks."""
    context, low, right = x._context, max(-offset, 0), max(offset, 0)
    length = max(min(x.shape[-2] - low, x.shape[-1] - right), 0)
    if type(shown := seen(x)) is np.ndarray:
        here = context.layouts.of_shape(x._kin, (*x.shape[:-2], length))  # type: ignore[arg-type]
        if is_short(here, shown.nbytes):
            return fresh_array(context, here, np.array(shown.diagonal(offset, -2, -1), order="C"))
    with context.lock:
        context.check()
        found = x._operand("diagonal", partial_ok=True)
        picks = _picks(found.layout, low, right, length)
        if picks is None:  # partial values of one device that would coincide have to be folded first
            found = x._operand("diagonal")
            picks = _picks(found.layout, low, right, length)
            assert picks is not None
        layout = context.layout(IndexMap((*x.shape[:-2], length), picks), found.layout.mode)
        chunks: list[Chunk | None] = []
        with context.reporting():
            for device_id, region in layout.chunks:
                number, key = picks[device_id][region]
                array, device = found.arrays[number], context.by_id[device_id]
                if array is None:
                    chunks.append(None)
                    continue
                chunk = device.empty(region.shape, x.dtype, "diagonal")
                with device.active():
                    device.copy(chunk.array, device.lib.diagonal(array[key], 0, -2, -1), device)
                chunks.append(chunk)
    return from_chunks(context, layout, chunks, x.dtype)


Picks = dict[int, dict[Region, tuple[int, tuple[Any, ...]]]]


def _picks(layout: Layout, low: int, right: int, length: int) -> Picks | None:
    """For each device the parts of the diagonals that it holds, and where: the chunk, and the key of the square around it.
    None where two partial chunks of a device show one part.
    """
    picks: Picks = {device: {} for device in layout.devices}
    for number, (device, region) in enumerate(layout.chunks):
        along = _moved(region[-2], -low).intersect(_moved(region[-1], -right)).intersect(Range.full(length))
        part = Region((*region[:-2], along))
        if not part.size:
            continue
        if part in picks[device] and layout.is_partial:
            return None
        around = Region((*region[:-2], _moved(along, low), _moved(along, right)))
        picks[device][part] = number, region.locate(around).key
    return picks


def _moved(r: Range, by: int) -> Range:
    """The range with every index moved; those that would be negative are left out."""
    if by >= 0 or not r.size:
        return Range.of(r.start + by, r.step, r.size) if r.size else r
    skipped = max(-((r.start + by) // r.step), 0)
    return Range.of(r.start + by + skipped * r.step, r.step, r.size - skipped) if skipped < r.size else Range.full(0)


@implements(np.linalg.diagonal)
def _diagonal(x: ArrayLike, /, *, offset: int = 0) -> DistributedArray:
    """The diagonals of matrices, in the last two axes: a read-only copy.

    Parameters
    ----------
    x : array_like
        Of two axes or more.
    offset : int
        Above (positive) or below the main diagonal.

    Returns
    -------
    DistributedArray
        With the diagonals as its last axis.

    Raises
    ------
    ValueError
        `x` has fewer than two axes.

    Notes
    -----
    Communication: none; the mode stays.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.linalg.diagonal(da.eye(2)).tolist()
    [1.0, 1.0]
    """
    return diagonal(x, offset, -2, -1)


@implements(np.trace)
def trace(
    a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike = None, out: Out = None
) -> Any:
    """Sums of diagonals, as ``numpy.trace``.

    Parameters
    ----------
    a : array_like
    offset : int
        Above (positive) or below the main diagonal.
    axis1, axis2 : int
        The axes of the matrices.
    dtype : dtype, optional
        Of the sums, as for :func:`sum`.
    out : DistributedArray or numpy.ndarray, optional
        Where to put the result.

    Returns
    -------
    DistributedArray
        With the axes of `a` but those two.

    Raises
    ------
    ValueError
        `a` has fewer than two axes, or the two are one.

    Notes
    -----
    Communication: that of a sum over the diagonals' last axis; the result is left partial.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     int(np.trace(da.asarray(np.arange(9).reshape(3, 3), layout=da.blocks(0))))
    12
    """
    return np.sum(diagonal(a, offset, axis1, axis2), axis=-1, dtype=cast("Any", dtype), out=cast("Any", out))


@implements(np.linalg.trace)
def _trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike = None) -> Any:
    """The traces of matrices, in the last two axes.

    Parameters
    ----------
    x : array_like
        Of two axes or more.
    offset : int
        Above (positive) or below the main diagonal.
    dtype : dtype, optional
        Of the sums, as for :func:`distarray.sum`.

    Returns
    -------
    DistributedArray

    Raises
    ------
    ValueError
        `x` has fewer than two axes.

    Notes
    -----
    Communication: that of a sum over the diagonals; the result is left partial.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     float(da.linalg.trace(da.eye(3)))
    3.0
    """
    return trace(x, offset, -2, -1, dtype=dtype)


@implements(np.cross)
def cross(
    a: ArrayLike, b: ArrayLike, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Any:
    """Cross products of vectors of three elements (or two, for which the third is zero), as ``numpy.cross``.

    Parameters
    ----------
    a, b : array_like
        Their other axes broadcast.
    axisa, axisb, axisc : int
        The axes of the vectors in `a`, in `b` and in the result.
    axis : int, optional
        In all three.

    Returns
    -------
    DistributedArray
        Of the broadcast shape, with the vectors along `axisc`; of two pairs of elements, their third elements alone.

    Raises
    ------
    ValueError
        An operand has no axes, or its vectors have neither two nor three elements.
    AxisError
        An axis is out of bounds.

    Notes
    -----
    Communication: that of element-wise products of views, and of a stack.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     np.cross(da.asarray([1, 0, 0]), [0, 1, 0]).get().tolist()
    [0, 0, 1]
    """
    _, (x, y) = arrays(a, b)
    if axis is not None:
        axisa, axisb, axisc = axis, axis, axis
    if not x.ndim or not y.ndim:
        raise ValueError("At least one array has zero dimension: pass vectors of three elements")
    x = np.moveaxis(x, normalize_axis_index(axisa, x.ndim, "axisa"), -1)
    y = np.moveaxis(y, normalize_axis_index(axisb, y.ndim, "axisb"), -1)
    sizes = x.shape[-1], y.shape[-1]
    if not {*sizes} <= {2, 3}:
        raise ValueError(
            f"incompatible dimensions for cross product (dimension must be 2 or 3): the vectors have {sizes} elements"
        )
    if 2 in sizes:
        with warnings.catch_warnings():  # from 2.5 on NumPy refuses them
            warnings.simplefilter("ignore")
            np.cross(np.zeros(sizes[0]), np.zeros(sizes[1]))
        warn_at(
            call_site(),
            "Arrays of 2-dimensional vectors are deprecated. Use arrays of 3-dimensional vectors instead. (deprecated in "
            "NumPy 2.0)",
            DeprecationWarning,
        )
    dtype = np.promote_types(x.dtype, y.dtype)
    x, y = (v if v.dtype == dtype else v.astype(dtype) for v in (x, y))
    x0, x1, x2 = (_component(x, i) for i in range(3))
    y0, y1, y2 = (_component(y, i) for i in range(3))
    last = _minus(x0, y1, x1, y0)
    if sizes == (2, 2):
        return last
    axisc = normalize_axis_index(axisc, last.ndim + 1, "axisc")
    return np.stack([_minus(x1, y2, x2, y1), _minus(x2, y0, x0, y2), last], axis=axisc)


def _component(x: DistributedArray, i: int) -> Any:
    """The elements `i` of vectors in the last axis, or None where they have fewer."""
    return None if i >= x.shape[-1] else x[..., i]


def _minus(a: ArrayLike, b: ArrayLike, c: Any, d: Any) -> Any:
    """``a * b - c * d``, of which factors that are None are zeros."""
    first = None if a is None or b is None else np.multiply(a, b)
    second = None if c is None or d is None else np.multiply(c, d)
    if first is None:
        return np.negative(second)  # type: ignore[arg-type]
    return first if second is None else np.subtract(first, second)


@implements(np.linalg.cross)
def _cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Any:
    """Cross products of vectors of three elements.

    Parameters
    ----------
    x1, x2 : array_like
        Their other axes broadcast.
    axis : int
        The axis of the vectors.

    Returns
    -------
    DistributedArray

    Raises
    ------
    ValueError
        The vectors do not have three elements: :func:`distarray.cross` takes two, too.

    Notes
    -----
    Communication: that of element-wise products of views, and of a stack.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.linalg.cross(da.asarray([1, 0, 0]), [0, 1, 0]).tolist()
    [0, 0, 1]
    """
    _, (x, y) = arrays(x1, x2)
    for array in (x, y):
        if array.shape[normalize_axis_index(axis, array.ndim)] != 3:
            raise ValueError(
                f"Both input arrays must be (arrays of) 3-dimensional vectors, but they are {x.shape} and {y.shape} along "
                f"axis {axis}: use numpy.cross"
            )
    return cross(x, y, axis=axis)
