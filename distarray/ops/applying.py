"""Functions of lines and windows: ``apply_along_axis``, ``apply_over_axes`` and ``sliding_window_view``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from distarray.algorithms.local import arrays_in, everywhere, mapped, replaced, whole_along
from distarray.array import parts
from distarray.array.agreement import gathered
from distarray.array.aliases import ArrayLike, Axis, ShapeLike
from distarray.array.dtypes import check_dtype, dtype_name, dtype_named
from distarray.array.functions import implements
from distarray.array.standing import stand_for
from distarray.array.state import DistributedArray
from distarray.devices.arrays import DeviceArray, Library
from distarray.errors import UnsupportedError
from distarray.geometry import Region
from distarray.ops.convert import asarray
from distarray.ops.joining import stack
from distarray.ops.manipulation import expand_dims

__all__ = ["apply_along_axis", "apply_over_axes", "sliding_window_view"]

NOT_CUPY = (TypeError, AttributeError, NotImplementedError)
"""What a function written for NumPy raises when it gets a CuPy array: CuPy takes no lists beside it, and converts none."""


@implements(np.apply_along_axis)
def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: Any, **kwargs: Any
) -> DistributedArray:
    """The results of a function of each line along an axis, put together.

    Parameters
    ----------
    func1d : callable
        Takes one line, and returns an array or a scalar: of the same shape and dtype for each line. Each device calls it
        for its own lines. On GPUs it is tried with a line that is a CuPy array; where it does not take that, it gets NumPy
        arrays, and the lines cross to the host and back.
    axis : int
        The axis that lines run along.
    arr : array_like
    *args, **kwargs
        Passed to the function.

    Returns
    -------
    DistributedArray
        With the axes of the function's result in place of `axis`.

    Raises
    ------
    ValueError
        There is no line, or results differ in shape.

    Notes
    -----
    Communication: none where lines are whole; else each element once. The shape and dtype of a result are agreed, and
    whether GPUs pass NumPy arrays.

    Memory on each device: its lines, and its part of the result.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.asarray([[3, 1], [4, 5]], layout=da.blocks(0))
    ...     np.apply_along_axis(lambda line: line.max() - line.min(), 1, x).get()
    array([2, 1])
    """
    x = asarray(arr)
    axis = normalize_axis_index(axis, x.ndim)
    context = x._context
    if 0 in (*x.shape[:axis], *x.shape[axis + 1 :]):
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    with context.lock:
        source = x._operand("apply_along_axis")
        layout = whole_along(context, source.layout, (axis,))
        if not x.size:  # chunks need not cover lines without elements, whose results have elements
            layout = everywhere(context, x.shape, source.layout.devices)
        arrays = arrays_in(context, source, layout, "apply_along_axis")

        def called(lib: Any, part: Any, hosted: bool) -> Any:
            if hosted:
                return lib.asarray(np.apply_along_axis(func1d, axis, part.get(), *args, **kwargs))
            return lib.apply_along_axis(func1d, axis, part, *args, **kwargs)

        def model() -> Any:
            key = tuple([slice(None) if i == axis else slice(0, 1) for i in range(x.ndim)])
            for (device_id, _), array in zip(layout.chunks, arrays, strict=True):
                if array is None or not array.size:
                    continue
                device = context.by_id[device_id]
                hosted = False
                with device.active():
                    try:
                        found = called(device.lib, array[key], False)
                    except NOT_CUPY:
                        if device.kind == "host":
                            raise
                        found, hosted = called(device.lib, array[key], True), True
                inner = list(found.shape[axis : axis + found.ndim - x.ndim + 1])
                return [inner, dtype_name(check_dtype(found.dtype)), hosted]
            return None

        with context.guarding("apply_along_axis", fallible=True):
            mine = model()
        said = [answer for answer in gathered(context, mine, "apply_along_axis") if answer is not None]
        if not said:  # no device holds a line where lines have no elements: an empty one tells the shape
            found = np.asarray(func1d(np.empty(x.shape[axis], x.dtype), *args, **kwargs))
            said = [[list(found.shape), dtype_name(check_dtype(found.dtype)), False]]
        inner, dtype, hosted = tuple(said[0][0]), dtype_named(said[0][1]), any(answer[2] for answer in said)
        target, order = replaced(context, layout, axis, inner)

        def local(lib: Library, part: DeviceArray, region: Region) -> Any:
            return called(lib, part, hosted) if region.size else lib.empty(region.shape, dtype)

        regions = [region for _, region in target.chunks]
        sources = [[arrays[i] for i in order], regions]
        return mapped(context, sources, target, dtype, local, "apply_along_axis", fallible=True)


@implements(np.apply_over_axes)
def apply_over_axes(func: Callable[..., Any], a: ArrayLike, axes: Axis) -> DistributedArray:
    """A function applied over one axis after another.

    Parameters
    ----------
    func : callable
        Called as ``func(a, axis)``; its result keeps the axis or lacks it.
    a : array_like
    axes : int or sequence of int
        The axes, in this order.

    Returns
    -------
    DistributedArray
        With as many axes as `a`.

    Raises
    ------
    ValueError
        A result has another number of axes.

    Notes
    -----
    Communication: that of `func`, which gets distributed arrays.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.apply_over_axes(da.sum, da.ones((2, 3)), [0, 1]).tolist()
    [[6.0]]
    """
    result = asarray(a)
    ndim = result.ndim
    for axis in np.atleast_1d(np.asarray(axes)).tolist():
        number = axis + ndim if axis < 0 else axis
        found = func(result, number)
        if found.ndim != result.ndim:
            found = expand_dims(found, number)
            if found.ndim != result.ndim:
                raise ValueError("function is not returning an array of the correct shape")
        result = found
    return result


@implements(np.lib.stride_tricks.sliding_window_view)
def sliding_window_view(
    x: ArrayLike, window_shape: ShapeLike, axis: Axis = None, *, subok: bool = False, writeable: bool = False
) -> DistributedArray:
    """All windows of an array, along new last axes: a view where each chunk holds the axes whole, else a read-only copy.

    Parameters
    ----------
    x : array_like
    window_shape : int or tuple of int
        The windows' lengths, one for each of the axes.
    axis : int or tuple of int, optional
        The axes that the windows slide along. Default: all.
    subok : bool
        There are no subclasses.
    writeable : bool
        Whether the view may be written to.

    Returns
    -------
    DistributedArray
        With the number of windows in place of each axis, then the windows' axes.

    Raises
    ------
    ValueError
        A window is larger than the array, or negative, or their number is not that of the axes.
    UnsupportedError
        With ``writeable=True`` where the result is a copy.

    Notes
    -----
    Communication: none for a view; else halos of the window's length less one, and again at the first read after a write to `x`.

    Memory on each device: none for a view; else its part of `x` times the size of a window; where that is too much, reduce
    shifted views instead.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     np.lib.stride_tricks.sliding_window_view(da.arange(4), 2).get().tolist()
    [[0, 1], [1, 2], [2, 3]]
    """
    result = asarray(x)
    window = tuple(window_shape) if np.iterable(window_shape) else (window_shape,)
    if any(n < 0 for n in window):
        raise ValueError("`window_shape` cannot contain negative values")
    if axis is None:
        axes = tuple(range(result.ndim))
        if len(window) != len(axes):
            raise ValueError(
                f"Since axis is None, must provide window_shape for all dimensions of `x`; got {len(window)} window_shape "
                f"elements and `x.ndim` is {result.ndim}."
            )
    else:
        axes = normalize_axis_tuple(axis, result.ndim, allow_duplicate=True)
        if len(window) != len(axes):
            raise ValueError(
                f"Must provide matching length window_shape and axis; got {len(window)} window_shape elements and "
                f"{len(axes)} axes elements."
            )
    step = partial(np.lib.stride_tricks.sliding_window_view, window_shape=window, axis=axes, writeable=True)
    if len(set(axes)) == len(axes) and result._context.kind == "host":
        if any(n > result.shape[number] for number, n in zip(axes, window, strict=True)):
            raise ValueError("window shape cannot be larger than input array shape")
        shown = parts.windows(result, step, list(zip(axes, window, strict=True)), "sliding_window_view")
        if shown is not None:
            shown._writable = bool(writeable) and shown._writable
            return shown
    if writeable:
        raise UnsupportedError(
            "windows of an array whose windowed axes are cut are a copy, which a write would not leave: bring the axes together, "
            "as with x.reshard(distarray.blocks(0)) for windows along axis 1, or pass writeable=False"
        )
    lengths = list(result.shape)
    for number, n in zip(axes, window, strict=True):
        lengths[number] += 1 - n
        if lengths[number] < 1:
            raise ValueError("window shape cannot be larger than input array shape")
    return stand_for(result, partial(_windows, axes=axes, window=window), step, writable=False)


def _windows(result: DistributedArray, axes: Sequence[int], window: Sequence[int]) -> DistributedArray:
    """Windows as a copy."""
    for number, n in zip(axes, window, strict=True):
        length = result.shape[number] - n + 1
        head = (slice(None),) * number
        if n:
            result = stack([result[(*head, slice(i, i + length))] for i in range(n)], axis=-1, dtype=result.dtype)
        else:
            wide = result[(*head, slice(0, 0))] if not result.shape[number] else result
            shape = (*result.shape[:number], length, *result.shape[number + 1 :], 0)
            result = asarray(np.empty(shape, wide.dtype))
    return result.copy() if not window else result
