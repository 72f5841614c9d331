"""Creation functions: constants, sequences, and arrays like another one, made chunk by chunk where they stay.

NumPy's ``like=`` (NEP 35) dispatches here without passing the array on: the current context is used.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from distarray.array.aliases import ArrayLike, DTypeLike, LayoutLike, ShapeLike
from distarray.array.documented import described_as
from distarray.array.dtypes import check_dtype, filler
from distarray.array.functions import implements
from distarray.array.layouts import resolve_layout
from distarray.array.shapes import PYTHON_SCALARS, broadcast_shape
from distarray.array.state import DistributedArray, from_chunks
from distarray.context import Context, group_ids
from distarray.devices import Chunk, Device
from distarray.fusion.expr import warn_complex
from distarray.geometry import Region
from distarray.layout import Layout
from distarray.modes import Mode
from distarray.ops.convert import asarray
from distarray.ops.generate import as_shape, generate, indices_of, placement
from distarray.storage import operand
from distarray.transfer.execute import allocate, fill_all

__all__ = [
    "arange", "empty", "empty_like", "full", "full_like", "linspace", "ones", "ones_like", "zeros", "zeros_like",
]  # fmt: skip


def _filled(context: Context, target: Layout, dtype: Any, value: Any, label: str) -> DistributedArray:
    if target.mode in (Mode.SUM, Mode.PROD) and not target.index_map.is_disjoint:
        return generate(context, target, dtype, lambda device, _, out: device.fill(out, value), label)
    chunks = allocate(context, target, dtype, label=label)
    tasks = []
    for device in context.local_devices:
        span = target.index_map.chunk_ids(device.id)
        own = [chunk for chunk in chunks[span.start : span.stop] if chunk is not None]
        tasks.append(partial(_fill, device, own, value))
    with context.reporting():
        context.workers.run(tasks, sum(c.nbytes for c in chunks if c is not None))
    return from_chunks(context, target, chunks, dtype)


def _fill(device: Device, chunks: Sequence[Chunk], value: Any) -> None:
    with device.active():
        fill_all(device, chunks, value)


def _uninitialised(context: Context, target: Layout, dtype: Any) -> DistributedArray:
    """Memory as it is, except where copies of an element overlap: those have to be equal."""
    if not target.index_map.is_disjoint:
        return _filled(context, target, dtype, filler(dtype, 0), "empty")
    return from_chunks(context, target, allocate(context, target, dtype, label="empty"), dtype)


# --- constant values --------------------------------------------------------------------------------------------------


@implements(np.empty)
def empty(
    shape: ShapeLike, dtype: DTypeLike = None, order: str = "C", *, layout: LayoutLike = None, device: Any = None
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
    shape, dtype = as_shape(shape), check_dtype(dtype)
    return _uninitialised(*placement(shape, dtype, layout, device), dtype)


@implements(np.zeros)
@described_as(empty)
def zeros(
    shape: ShapeLike, dtype: DTypeLike = None, order: str = "C", *, layout: LayoutLike = None, device: Any = None
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
    shape, dtype = as_shape(shape), check_dtype(dtype)
    return _filled(*placement(shape, dtype, layout, device), dtype, filler(dtype, 0), "zeros")


@implements(np.ones)
@described_as(empty)
def ones(
    shape: ShapeLike, dtype: DTypeLike = None, order: str = "C", *, layout: LayoutLike = None, device: Any = None
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
    shape, dtype = as_shape(shape), check_dtype(dtype)
    return _filled(*placement(shape, dtype, layout, device), dtype, filler(dtype, 1), "ones")


@implements(np.full)
@described_as(empty)
def full(
    shape: ShapeLike,
    fill_value: Any,
    dtype: DTypeLike = None,
    order: str = "C",
    *,
    layout: LayoutLike = None,
    device: Any = None,
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
    shape, fill_value = as_shape(shape), _fill_value(fill_value)
    dtype = check_dtype(_dtype_of(fill_value) if dtype is None else dtype)
    return _full(*placement(shape, dtype, layout, device), dtype, fill_value)


def _fill_value(value: Any) -> Any:
    return value if isinstance(value, (DistributedArray, np.generic, *PYTHON_SCALARS)) else np.asarray(value)


def _dtype_of(value: Any) -> Any:
    return value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype


def _full(context: Context, target: Layout, dtype: Any, value: Any) -> DistributedArray:
    if isinstance(value, DistributedArray) or (isinstance(value, np.ndarray) and value.ndim):
        shape = target.shape
        if broadcast_shape(value.shape, shape) != shape:
            raise ValueError(f"could not broadcast input array from shape {value.shape} into shape {shape}")
        result = _uninitialised(context, context.layout(target.index_map), dtype)
        result[...] = value
        return result if target.mode is Mode.REPLICA else result.change_mode(target.mode)
    scalar = np.empty((), dtype)
    np.copyto(scalar, value, casting="unsafe")
    context.traced("full", target.shape, scalar)
    return _filled(context, target, dtype, scalar[()], "full")


# --- like another array -----------------------------------------------------------------------------------------------


def _like(a: Any, dtype: Any, shape: Any, layout: Any, device: Any) -> tuple[Context, Layout, Any]:
    """Context, layout and dtype for an array like `a`: the layout of `a`, unless another one or a shape is given."""
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
    return context, resolve_layout(context, layout, shape, device=device, itemsize=dtype.itemsize), dtype


@implements(np.empty_like)
def empty_like(
    a: ArrayLike,
    dtype: DTypeLike = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    layout: LayoutLike = None,
    device: Any = None,
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
    return _uninitialised(*_like(a, dtype, shape, layout, device))


@implements(np.zeros_like)
@described_as(empty_like)
def zeros_like(
    a: ArrayLike,
    dtype: DTypeLike = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    layout: LayoutLike = None,
    device: Any = None,
) -> DistributedArray:
    """An array of zeros with the shape, dtype and layout of `a`, each unless it is given.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.zeros_like(da.arange(3)).tolist()
    [0, 0, 0]
    """
    context, target, kind = _like(a, dtype, shape, layout, device)
    return _filled(context, target, kind, filler(kind, 0), "zeros_like")


@implements(np.ones_like)
@described_as(empty_like)
def ones_like(
    a: ArrayLike,
    dtype: DTypeLike = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    layout: LayoutLike = None,
    device: Any = None,
) -> DistributedArray:
    """An array of ones with the shape, dtype and layout of `a`, each unless it is given.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.ones_like(da.arange(3)).tolist()
    [1, 1, 1]
    """
    context, target, kind = _like(a, dtype, shape, layout, device)
    return _filled(context, target, kind, filler(kind, 1), "ones_like")


@implements(np.full_like)
@described_as(empty_like)
def full_like(
    a: ArrayLike,
    fill_value: Any,
    dtype: DTypeLike = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    layout: LayoutLike = None,
    device: Any = None,
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
    context, target, dtype = _like(a, dtype, shape, layout, device)
    return _full(context, target, dtype, _fill_value(fill_value))


# --- sequences --------------------------------------------------------------------------------------------------------


def _bound(value: Any) -> Any:
    """A bound of ``arange`` or ``linspace`` as a scalar; distributed 0-d values come to the host."""
    if isinstance(value, DistributedArray):
        value = value.get()
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    return value


@implements(np.arange)
@described_as(empty)
def arange(
    start: Any = None,
    stop: Any = None,
    step: Any = None,
    dtype: DTypeLike = None,
    *,
    layout: LayoutLike = None,
    device: Any = None,
) -> DistributedArray:
    """Evenly spaced values in the half-open interval [start, stop), to the bit as NumPy computes them.

    Parameters
    ----------
    start, stop, step : scalar
        ``arange(stop)``, ``arange(start, stop)`` or ``arange(start, stop, step)``.
    dtype : dtype, optional
        Default: as NumPy infers it.

    Raises
    ------
    ValueError
        The length is not finite, or more than an array holds.

    Notes
    -----
    Communication: none. Element i is ``first + i * (second - first)`` in the result's dtype.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.arange(2, 12, 3, layout=da.blocks(0))
    DistributedArray([ 2,  5,  8, 11])
    """
    start, stop, step = _bound(start), _bound(stop), _bound(step)
    if start is None and stop is None:
        raise TypeError("arange() requires stop to be specified: pass arange(stop) or arange(start, stop)")
    if stop is None:
        start, stop = 0, start
    start, step = 0 if start is None else start, 1 if step is None else step
    if any(np.asarray(v).dtype.kind in "mMU" for v in (start, stop, step)) or (
        dtype is not None and np.dtype(dtype).kind in "mM"
    ):
        return _times(start, stop, step, dtype, layout, device)
    if dtype is None:
        for value in (start, stop, step):
            if isinstance(value, np.ndarray):
                raise TypeError("only 0-dimensional arrays can be converted to Python scalars: pass scalar bounds")
        dtype = np.result_type(np.intp, *[np.asarray(value).dtype for value in (start, stop, step)])
    dtype = check_dtype(dtype)
    try:
        n, second = _length(start, stop, step)
    except OverflowError:
        raise ValueError("Maximum allowed size exceeded: pass bounds that fit the dtype") from None
    if dtype.kind == "b" and n > 2:
        raise TypeError(
            "arange() is only supported for booleans when the result has at most length 2: use an integer dtype"
        )
    firsts = np.zeros(2, dtype)
    for i, value in enumerate((start, second)[:n]):
        firsts[i] = value.item() if isinstance(value, np.number) else value  # checked as NumPy checks Python numbers
    context, target = placement((n,), dtype, layout, device)
    context.traced("arange", n, firsts)
    return generate(context, target, dtype, partial(_arithmetic, firsts), "arange")


def _times(start: Any, stop: Any, step: Any, dtype: Any, layout: Any, device: Any) -> DistributedArray:
    """``arange`` of dates or of time spans, by the integers that they are in the unit that NumPy gives the result."""
    numpy_arange: Any = np.arange
    given = numpy_arange(start, start, step, dtype)  # NumPy's errors and dtype, of as good as nothing
    first = np.array([start], given.dtype.type if given.dtype.kind == "M" else None)
    last = (
        np.array([stop])
        if np.asarray(stop).dtype.kind in "miu"
        else np.array([stop], given.dtype.type if given.dtype.kind == "M" else None)
    )
    span = np.array([step])
    unit = given.dtype if dtype is not None and np.datetime_data(given.dtype)[0] != "generic" else None
    if unit is None:
        timed = [v.dtype for v in (first, last, span) if v.dtype.kind in "mM"]
        finest = np.datetime_data(
            np.result_type(*[np.dtype(f"m8[{np.datetime_data(t)[1]}{np.datetime_data(t)[0]}]") for t in timed])
        )
        unit = np.dtype(f"{'M' if given.dtype.kind == 'M' else 'm'}8[{finest[1]}{finest[0]}]")
    apart = np.dtype(f"m8{unit.str[3:]}")

    def number(value: Any) -> int:
        kind = apart if value.dtype.kind in "miu" else unit
        return int(value.astype(kind).view(np.int64)[0])

    low = number(first)
    high = number(last) + (low if unit.kind == "M" and last.dtype.kind != "M" else 0)
    return arange(low, high, number(span), np.int64, layout=layout, device=device).view(unit)


def _length(start: Any, stop: Any, step: Any) -> tuple[int, Any]:
    """How many elements ``arange`` has, and the second of them: as NumPy computes both, with Python's operators."""
    span = stop - start
    ratio = span / step
    if isinstance(ratio, complex):
        n = min(math.ceil(ratio.real), math.ceil(ratio.imag))
    elif ratio == 0 and span != 0:
        n = 0 if math.copysign(1.0, ratio) < 0 else 1
    elif math.isnan(ratio):
        raise ValueError("arange: cannot compute length: the bounds or the step are NaN; pass finite numbers")
    elif math.isinf(ratio) or ratio >= 2**63:
        raise ValueError("Maximum allowed size exceeded: pass finite bounds, and a step that is not 0")
    else:
        n = math.ceil(ratio)
    return max(n, 0), start + step if n > 0 else None


def _arithmetic(firsts: Any, device: Device, region: Region, out: Any) -> None:
    """``firsts[0] + i * (firsts[1] - firsts[0])`` for a region, as NumPy's fill functions compute it."""
    lib, r, dtype = device.lib, region[0], out.dtype
    kind = dtype.kind
    if kind in "biu":
        wide, origin, delta = np.uint64, int(firsts[0]), int(firsts[1]) - int(firsts[0])
        begin, stride = (origin + r.start * delta) % 2**64, (delta * r.step) % 2**64
        out[...] = (lib.arange(r.size, dtype=wide) * wide(stride) + wide(begin)).astype(dtype)
    elif kind == "c":
        real = np.empty(0, dtype).real.dtype
        i = indices_of(lib, r).astype(real)
        out.real[...] = firsts[0].real + i * (firsts[1].real - firsts[0].real)
        out.imag[...] = firsts[0].imag + i * (firsts[1].imag - firsts[0].imag)
    else:
        work = dtype if dtype.itemsize >= 4 else np.dtype(np.float32)
        first, second = work.type(firsts[0]), work.type(firsts[1])
        out[...] = (first + indices_of(lib, r).astype(work) * (second - first)).astype(dtype)
    for i in (0, 1):
        if r.holds(i):
            device.fill(out[(i - r.start) // r.step, ...], firsts[i])


@implements(np.linspace)
@described_as(empty)
def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike = None,
    axis: int = 0,
    *,
    layout: LayoutLike = None,
    device: Any = None,
) -> Any:
    """`num` evenly spaced values from `start` to `stop`, to the bit as NumPy computes them.

    Parameters
    ----------
    start, stop : scalar or array_like
        Arrays give an array of sequences, along `axis`.
    num : int
        How many values.
    endpoint : bool
        Whether `stop` is the last value.
    retstep : bool
        Return ``(values, step)``.
    dtype : dtype, optional
        Default: as NumPy infers it, never an integer dtype.
    axis : int
        Of arrays: the axis of the result along which values follow each other.

    Returns
    -------
    DistributedArray, or a tuple of it and the step

    Raises
    ------
    ValueError
        `num` is negative.

    Notes
    -----
    Communication: none for scalars. With distributed arrays, what aligns them.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.linspace(0, 1, 5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    num = operator.index(num)
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    start, stop = (v if isinstance(v, DistributedArray) and v.ndim else _bound(v) for v in (start, stop))
    start, stop = (np.asarray(v)[()] if isinstance(v, (list, tuple)) else v for v in (start, stop))
    div = num - 1 if endpoint else num
    kinds = [v.dtype if hasattr(v, "dtype") else v for v in (start, stop)]
    dt = np.result_type(*kinds, 0.0)
    target_dtype = check_dtype(dt if dtype is None else dtype)
    if dt.kind == "c" and target_dtype.kind not in "cb":
        warn_complex()
    if all(isinstance(v, PYTHON_SCALARS) for v in (start, stop)):
        start, stop = np.asarray(start)[()], np.asarray(stop)[()]
    delta = np.subtract(stop, start, dtype=dt)
    step = delta / div if div > 0 else math.nan
    if np.ndim(delta):
        result = _line(start, stop, delta, step, num, div, dt, layout, device, endpoint)
        if axis:
            result = np.moveaxis(result, 0, axis)
        if np.issubdtype(target_dtype, np.integer):
            result = np.floor(result)
        result = asarray(result, dtype=target_dtype, layout=layout, device=device)
    else:
        context, target = placement((num,), target_dtype, layout, device)
        context.traced("linspace", start, stop, num)

        def make(device: Device, region: Region, out: Any) -> None:
            r = region[0]
            y = indices_of(device.lib, r).astype(dt)
            if div <= 0:
                y *= delta
            elif step == 0:
                y /= div
                y *= delta
            else:
                y *= step
            y += start
            if endpoint and num > 1 and r.holds(num - 1):
                y[(num - 1 - r.start) // r.step] = stop
            if np.issubdtype(target_dtype, np.integer):
                y = device.lib.floor(y)
            out[...] = y.astype(target_dtype)

        result = generate(context, target, target_dtype, make, "linspace")
    return (result, step) if retstep else result


def _line(
    start: Any, stop: Any, delta: Any, step: Any, num: int, div: int, dt: Any, layout: Any, device: Any, endpoint: bool
) -> Any:
    """``linspace`` between arrays, along a new first axis, with NumPy's operations on distributed arrays."""
    y = arange(0, num, dtype=dt, device=device)[(slice(None), *(None,) * np.ndim(delta))]
    if div > 0 and not bool((step == 0).any()):
        y = y * step
    elif div > 0:
        y = (y / div) * delta
    else:
        y = y * delta
    y = asarray(y + start, dtype=dt).copy()
    if endpoint and num > 1:
        y[-1, ...] = stop
    return y
