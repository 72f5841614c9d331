"""Creation functions: constants, and arrays like another one, made chunk by chunk where they stay.

NumPy's ``like=`` (NEP 35) dispatches here without passing the array on: the current context is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from distarray.array.aliases import ArrayLike, DeviceLike, DTypeLike, LayoutLike, ShapeLike
from distarray.array.documented import described_as
from distarray.array.dtypes import check_dtype, filler
from distarray.array.functions import implements
from distarray.array.layouts import resolve_layout
from distarray.array.shapes import PYTHON_SCALARS, broadcast_shape, memory_order
from distarray.array.shown import is_short
from distarray.array.state import DistributedArray, fresh_array, from_chunks
from distarray.context import Context, group_ids
from distarray.devices import Chunk, Device
from distarray.devices.arrays import AnyDType
from distarray.fusion.expr import real_for
from distarray.layout import Layout
from distarray.modes import Mode
from distarray.ops.generate import as_shape, generate, placement
from distarray.storage import operand
from distarray.transfer.execute import allocate, fill_all

__all__ = ["empty", "empty_like", "full", "full_like", "ones", "ones_like", "zeros", "zeros_like"]


def _filled(context: Context, target: Layout, dtype: AnyDType, value: object, label: str) -> DistributedArray:
    if target.mode in (Mode.SUM, Mode.PROD) and not target.index_map.is_disjoint:
        return generate(context, target, dtype, lambda device, _, out: device.fill(out, value), label)
    if dtype.kind in "biufc" and is_short(target, math.prod(target.shape) * dtype.itemsize):
        return fresh_array(context, target, np.full(target.shape, value, dtype))
    chunks = allocate(context, target, dtype, label=label)
    tasks = []
    for device in context.local_devices:
        span = target.index_map.chunk_ids(device.id)
        own = [chunk for chunk in chunks[span.start : span.stop] if chunk is not None]
        tasks.append(partial(_fill, device, own, value))
    with context.reporting():
        context.workers.run(tasks, sum(c.nbytes for c in chunks if c is not None))
    return from_chunks(context, target, chunks, dtype)


def _fill(device: Device, chunks: Sequence[Chunk], value: object) -> None:
    with device.active():
        fill_all(device, chunks, value)


def _uninitialised(context: Context, target: Layout, dtype: AnyDType) -> DistributedArray:
    """Memory as it is, except where copies of an element overlap: those have to be equal."""
    if not target.index_map.is_disjoint:
        return _filled(context, target, dtype, filler(dtype, 0), "empty")
    return from_chunks(context, target, allocate(context, target, dtype, label="empty"), dtype)


# --- constant values --------------------------------------------------------------------------------------------------


@implements(np.empty)
def empty(
    shape: ShapeLike, dtype: DTypeLike = None, order: str = "C", *, layout: LayoutLike = None, device: DeviceLike = None
) -> DistributedArray:
    """An array of uninitialised memory; elements that several chunks hold are zero.

    Parameters
    ----------
    shape : int or sequence of int
    dtype : dtype, optional
        Default: float64.
    order : str
        Accepted for NumPy's sake: chunks are C-contiguous.
    layout : specification, dict, IndexMap or Layout, optional
        Default: blocks of rows; small arrays are replicated.
    device : Group, int or list of int, optional
        The devices to use. Default: all of the current context.

    Returns
    -------
    DistributedArray

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.empty((4, 2), layout=da.blocks(0)).index_map
    {0: [(slice(0, 2, 1), slice(0, 2, 1))], 1: [(slice(2, 4, 1), slice(0, 2, 1))]}
    """
    memory_order(order, "CFA")
    shape, dtype = as_shape(shape), check_dtype(dtype)
    return _uninitialised(*placement(shape, dtype, layout, device), dtype)


@implements(np.zeros)
@described_as(empty)
def zeros(
    shape: ShapeLike, dtype: DTypeLike = None, order: str = "C", *, layout: LayoutLike = None, device: DeviceLike = None
) -> DistributedArray:
    """An array of zeros.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.zeros((4, 2), layout=da.blocks(0)).layout
    Layout(REPLICA, {0: [0:2, 0:2]; 1: [2:4, 0:2]})
    """
    memory_order(order, "CFA")
    shape, dtype = as_shape(shape), check_dtype(dtype)
    return _filled(*placement(shape, dtype, layout, device), dtype, filler(dtype, 0), "zeros")


@implements(np.ones)
@described_as(empty)
def ones(
    shape: ShapeLike, dtype: DTypeLike = None, order: str = "C", *, layout: LayoutLike = None, device: DeviceLike = None
) -> DistributedArray:
    """An array of ones.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.ones(3, int).tolist()
    [1, 1, 1]
    """
    memory_order(order, "CFA")
    shape, dtype = as_shape(shape), check_dtype(dtype)
    return _filled(*placement(shape, dtype, layout, device), dtype, filler(dtype, 1), "ones")


@implements(np.full)
@described_as(empty)
def full(
    shape: ShapeLike,
    fill_value: ArrayLike,
    dtype: DTypeLike = None,
    order: str = "C",
    *,
    layout: LayoutLike = None,
    device: DeviceLike = None,
) -> DistributedArray:
    """An array of one value, or of an array's values broadcast to the shape.

    Parameters
    ----------
    fill_value : scalar or array_like
    dtype : dtype, optional
        Default: that of `fill_value`.

    Raises
    ------
    ValueError
        `fill_value` does not broadcast to the shape.

    Notes
    -----
    Communication: none for scalars and host arrays; a distributed `fill_value` sends each device what it lacks.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.full((2, 2), [1, 2]).tolist()
    [[1, 2], [1, 2]]
    """
    memory_order(order, "CFA")
    shape, fill_value = as_shape(shape), _fill_value(fill_value)
    dtype = check_dtype(_dtype_of(fill_value) if dtype is None else dtype)
    return _full(*placement(shape, dtype, layout, device), dtype, fill_value)


def _fill_value(value: ArrayLike) -> Any:
    return value if isinstance(value, (DistributedArray, np.generic, *PYTHON_SCALARS)) else np.asarray(value)


def _dtype_of(value: object) -> Any:
    return value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype


def _full(context: Context, target: Layout, dtype: Any, value: Any) -> DistributedArray:
    if isinstance(value, DistributedArray) or (isinstance(value, np.ndarray) and value.ndim):
        shape = target.shape
        while value.ndim > len(shape) and value.shape[0] == 1:
            value = value[0, ...]  # an assignment drops leading axes of length 1
        if broadcast_shape(value.shape, shape) != shape:
            raise ValueError(f"could not broadcast input array from shape {value.shape} into shape {shape}")
        result = _uninitialised(context, context.layout(target.index_map), dtype)
        result[...] = value
        return result if target.mode is Mode.REPLICA else result.change_mode(target.mode)
    if 0 in target.shape and not isinstance(value, PYTHON_SCALARS):  # nothing is converted
        return _uninitialised(context, target, dtype)
    scalar = np.empty((), dtype)
    value = real_for(np.asarray(value) if isinstance(value, complex) else value, scalar.dtype)
    np.copyto(scalar, value, casting="unsafe")
    context.traced("full", target.shape, scalar)
    return _filled(context, target, dtype, scalar[()], "full")


# --- like another array -----------------------------------------------------------------------------------------------


def _like(a: Any, dtype: Any, order: object, shape: Any, layout: Any, device: Any) -> tuple[Context, Layout, Any]:
    """Context, layout and dtype for an array like `a`: its layout, or of another shape its devices, unless others are given."""
    memory_order(order)
    if not isinstance(a, DistributedArray):
        a = a if hasattr(a, "dtype") else np.asarray(a)
        dtype = check_dtype(a.dtype if dtype is None else dtype)
        return *placement(a.shape if shape is None else as_shape(shape), dtype, layout, device), dtype
    context = a._context
    context.check()
    dtype = check_dtype(a.dtype if dtype is None else dtype)
    shape = a.shape if shape is None else as_shape(shape)
    here = device is None or a.device == list(group_ids(context, device))
    if layout is None and shape == a.shape and here:
        seen = operand(context, a._own().version, a._view)
        if seen is not None and seen.layout.index_map.covers:
            return context, context.layout(seen.layout.index_map), dtype
    if layout is None and device is None:
        device = a.device
    return context, resolve_layout(context, layout, shape, device=device, itemsize=dtype.itemsize), dtype


@implements(np.empty_like)
def empty_like(
    a: ArrayLike,
    dtype: DTypeLike = None,
    order: str = "K",
    subok: bool = True,
    shape: ShapeLike | None = None,
    *,
    layout: LayoutLike = None,
    device: DeviceLike = None,
) -> DistributedArray:
    """An array of uninitialised memory with the shape, dtype and layout of `a`, each unless it is given.

    Parameters
    ----------
    a : array_like
    dtype : dtype, optional
        Default: that of `a`.
    order : str
        Accepted for NumPy's sake: chunks are C-contiguous.
    subok : bool
        Accepted for NumPy's sake.
    shape : int or sequence of int, optional
        Default: that of `a`.
    layout : specification, dict, IndexMap or Layout, optional
        Default: that of `a`, where the shape and the devices are those of `a`.
    device : Group, int or list of int, optional
        Default: those of `a`.

    Returns
    -------
    DistributedArray

    Notes
    -----
    Communication: none but what evaluates `a`, where it is a recorded expression. A partial mode is not kept.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.zeros((4, 2), layout=da.blocks(0))
    ...     da.empty_like(x).layout == x.layout
    True
    """
    return _uninitialised(*_like(a, dtype, order, shape, layout, device))


@implements(np.zeros_like)
@described_as(empty_like)
def zeros_like(
    a: ArrayLike,
    dtype: DTypeLike = None,
    order: str = "K",
    subok: bool = True,
    shape: ShapeLike | None = None,
    *,
    layout: LayoutLike = None,
    device: DeviceLike = None,
) -> DistributedArray:
    """An array of zeros with the shape, dtype and layout of `a`, each unless it is given.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.zeros_like(da.arange(3)).tolist()
    [0, 0, 0]
    """
    context, target, kind = _like(a, dtype, order, shape, layout, device)
    return _filled(context, target, kind, filler(kind, 0), "zeros_like")


@implements(np.ones_like)
@described_as(empty_like)
def ones_like(
    a: ArrayLike,
    dtype: DTypeLike = None,
    order: str = "K",
    subok: bool = True,
    shape: ShapeLike | None = None,
    *,
    layout: LayoutLike = None,
    device: DeviceLike = None,
) -> DistributedArray:
    """An array of ones with the shape, dtype and layout of `a`, each unless it is given.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.ones_like(da.arange(3)).tolist()
    [1, 1, 1]
    """
    context, target, kind = _like(a, dtype, order, shape, layout, device)
    return _filled(context, target, kind, filler(kind, 1), "ones_like")


@implements(np.full_like)
@described_as(empty_like)
def full_like(
    a: ArrayLike,
    fill_value: ArrayLike,
    dtype: DTypeLike = None,
    order: str = "K",
    subok: bool = True,
    shape: ShapeLike | None = None,
    *,
    layout: LayoutLike = None,
    device: DeviceLike = None,
) -> DistributedArray:
    """An array of one value with the shape, dtype and layout of `a`, each unless it is given.

    Parameters
    ----------
    fill_value : scalar or array_like

    Raises
    ------
    ValueError
        `fill_value` does not broadcast to the shape.

    Notes
    -----
    Communication: as for :func:`empty_like` and :func:`full`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.full_like(da.arange(3), 7).tolist()
    [7, 7, 7]
    """
    context, target, dtype = _like(a, dtype, order, shape, layout, device)
    return _full(context, target, dtype, _fill_value(fill_value))
