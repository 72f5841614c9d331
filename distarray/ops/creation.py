"""Creation functions: each chunk is made on its own device from its region's coordinates, so that no array of the global
size exists anywhere but spread over the devices.

NumPy's ``like=`` (NEP 35) dispatches here without passing the array on: the current context is used.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from distarray.array import DistributedArray
from distarray.context import Context, current, group_ids
from distarray.devices import Chunk, Device
from distarray.fusion.demand import demand
from distarray.fusion.expr import ASTYPE, record
from distarray.geometry import Range, Region
from distarray.layout import Layout
from distarray.modes import Mode
from distarray.operators import PYTHON_SCALARS, broadcast_shape
from distarray.ops.convert import _check_dtype, asarray, copy_array, from_chunks, resolve_layout
from distarray.registry import implements

__all__ = [
    "arange", "empty", "empty_like", "eye", "fromfunction", "full", "full_like", "identity", "linspace", "meshgrid",
    "ones", "ones_like", "tri", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip

Maker = Callable[[Device, Region, Any], None]
"""Writes the values of a region into an array of the region's shape, on a device that is active."""


# --- regions to chunks ------------------------------------------------------------------------------------------------


def as_shape(shape: Any) -> tuple[int, ...]:
    """A shape argument, an int or a sequence of ints, as a tuple."""
    try:
        lengths: tuple[int, ...] = (operator.index(shape),)
    except TypeError:
        if not hasattr(shape, "__iter__"):
            raise TypeError(
                f"expected a sequence of integers or a single integer, got {shape!r}: pass a shape such as (4, 3)"
            ) from None
        lengths = tuple([operator.index(n) for n in shape])
    if any(n < 0 for n in lengths):
        raise ValueError(f"negative dimensions are not allowed: got shape {lengths}; every length is at least 0")
    return lengths


def indices_of(lib: Any, r: Range) -> Any:
    """The global indices of a range, as int64."""
    return lib.arange(r.start, r.start + r.size * r.step, r.step, dtype=np.int64)


def generate(
    context: Context, layout: Layout, dtype: Any, make: Maker, label: str, *, by_cell: bool = False
) -> DistributedArray:
    """The array whose elements `make` computes region by region; in SUM and PROD each element in its first chunk only.

    With `by_cell`, the holders of an element all compute it as part of the same region: the bits may depend on the cut.
    """
    single = layout.mode in (Mode.SUM, Mode.PROD) and not layout.index_map.is_disjoint
    chunks: list[Chunk] = []
    tasks: list[Callable[[], None]] = []
    for device_id in layout.devices:
        device = context.by_id[device_id]
        parts: list[tuple[Region, Any]] = []
        own = layout.index_map.chunk_ids(device_id)
        for i in own:
            region = layout.chunks[i][1]
            if single:
                chunks.append(device.full(region.shape, dtype, layout.mode.identity(dtype), label))
            else:
                chunks.append(device.empty(region.shape, dtype, label))
                if by_cell and not layout.index_map.is_disjoint:
                    cells = [cell for _, cell in layout.index_map.query_cells(region)]
                    parts += [(cell, chunks[-1].array[region.locate(cell).slices]) for cell in cells]
                else:
                    parts.append((region, chunks[-1].array))
        if single:
            for i, part in layout.index_map.first_owned(device_id):
                parts.append((part, chunks[i].array[layout.chunks[i][1].locate(part).slices]))
        tasks.append(partial(_make_all, device, parts, make))
    context.workers.run(tasks, sum(c.nbytes for c in chunks))
    return from_chunks(context, layout, chunks, dtype)


def _make_all(device: Device, parts: Sequence[tuple[Region, Any]], make: Maker) -> None:
    with device.active():
        for region, out in parts:
            if region.size:
                make(device, region, out)


def _placed(shape: tuple[int, ...], dtype: Any, layout: Any, device: Any) -> tuple[Context, Layout]:
    context = current()
    return context, resolve_layout(context, layout, shape, device=device, itemsize=dtype.itemsize)


def _filled(context: Context, target: Layout, dtype: Any, value: Any, label: str) -> DistributedArray:
    return generate(context, target, dtype, lambda device, _, out: device.fill(out, value), label)


def _uninitialised(context: Context, target: Layout, dtype: Any) -> DistributedArray:
    """Memory as it is, except where copies of an element overlap: those have to be equal."""
    if not target.index_map.is_disjoint:
        return _filled(context, target, dtype, dtype.type(0), "empty")
    chunks = [context.by_id[d].empty(region.shape, dtype, "empty") for d, region in target.chunks]
    return from_chunks(context, target, chunks, dtype)


# --- constant values --------------------------------------------------------------------------------------------------


@implements(np.empty)
def empty(shape: Any, dtype: Any = None, order: str = "C", *, layout: Any = None, device: Any = None) -> DistributedArray:
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

    Notes
    -----
    Communication: none.
    """
    shape, dtype = as_shape(shape), _check_dtype(dtype)
    return _uninitialised(*_placed(shape, dtype, layout, device), dtype)


@implements(np.zeros)
def zeros(shape: Any, dtype: Any = None, order: str = "C", *, layout: Any = None, device: Any = None) -> DistributedArray:
    """An array of zeros. Parameters as for :func:`empty`.

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
    shape, dtype = as_shape(shape), _check_dtype(dtype)
    return _filled(*_placed(shape, dtype, layout, device), dtype, dtype.type(0), "zeros")


@implements(np.ones)
def ones(shape: Any, dtype: Any = None, order: str = "C", *, layout: Any = None, device: Any = None) -> DistributedArray:
    """An array of ones. Parameters as for :func:`empty`.

    Notes
    -----
    Communication: none.
    """
    shape, dtype = as_shape(shape), _check_dtype(dtype)
    return _filled(*_placed(shape, dtype, layout, device), dtype, dtype.type(1), "ones")


@implements(np.full)
def full(
    shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", *, layout: Any = None, device: Any = None
) -> DistributedArray:
    """An array of one value, or of an array's values broadcast to the shape. Parameters as for :func:`empty`.

    Notes
    -----
    Communication: none for scalars and host arrays; a distributed `fill_value` sends each device what it lacks.
    """
    shape, fill_value = as_shape(shape), _fill_value(fill_value)
    dtype = _check_dtype(_dtype_of(fill_value) if dtype is None else dtype)
    return _full(*_placed(shape, dtype, layout, device), dtype, fill_value)


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
    return _filled(context, target, dtype, scalar[()], "full")


# --- like another array -----------------------------------------------------------------------------------------------


def _like(a: Any, dtype: Any, shape: Any, layout: Any, device: Any) -> tuple[Context, Layout, Any]:
    """Context, layout and dtype for an array like `a`: the layout of `a`, unless another one or a shape is given."""
    if not isinstance(a, DistributedArray):
        a = a if hasattr(a, "dtype") else np.asarray(a)
        dtype = _check_dtype(a.dtype if dtype is None else dtype)
        return *_placed(a.shape if shape is None else as_shape(shape), dtype, layout, device), dtype
    context = a._context
    context.check()
    dtype = _check_dtype(a.dtype if dtype is None else dtype)
    shape = a.shape if shape is None else as_shape(shape)
    if layout is None and shape == a.shape and group_ids(context, device) == context.group.ids:
        storage = a._own()
        seen = context.layouts.visible(storage.version.layout, a._view_map())
        if seen is not None and seen.layout.index_map.covers:
            return context, context.layout(seen.layout.index_map), dtype
    return context, resolve_layout(context, layout, shape, device=device, itemsize=dtype.itemsize), dtype


@implements(np.empty_like)
def empty_like(
    a: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    layout: Any = None,
    device: Any = None,
) -> DistributedArray:
    """An array of uninitialised memory with the shape, dtype and layout of `a`, each unless it is given.

    Notes
    -----
    Communication: none but what evaluates `a`, where it is a recorded expression. A partial mode is not kept.
    """
    return _uninitialised(*_like(a, dtype, shape, layout, device))


@implements(np.zeros_like)
def zeros_like(
    a: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    layout: Any = None,
    device: Any = None,
) -> DistributedArray:
    """An array of zeros like `a`; see :func:`empty_like`."""
    context, target, dtype = _like(a, dtype, shape, layout, device)
    return _filled(context, target, dtype, dtype.type(0), "zeros_like")


@implements(np.ones_like)
def ones_like(
    a: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    layout: Any = None,
    device: Any = None,
) -> DistributedArray:
    """An array of ones like `a`; see :func:`empty_like`."""
    context, target, dtype = _like(a, dtype, shape, layout, device)
    return _filled(context, target, dtype, dtype.type(1), "ones_like")


@implements(np.full_like)
def full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    layout: Any = None,
    device: Any = None,
) -> DistributedArray:
    """An array of one value like `a`; see :func:`empty_like` and :func:`full`."""
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
def arange(
    start: Any = None,
    stop: Any = None,
    step: Any = None,
    dtype: Any = None,
    *,
    layout: Any = None,
    device: Any = None,
) -> DistributedArray:
    """Evenly spaced values in the half-open interval [start, stop), to the bit as NumPy computes them.

    Parameters
    ----------
    start, stop, step : scalar
        ``arange(stop)``, ``arange(start, stop)`` or ``arange(start, stop, step)``.
    dtype : dtype, optional
        Default: as NumPy infers it.
    layout, device
        As for :func:`empty`.

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
    if dtype is None:
        for value in (start, stop, step):
            if isinstance(value, np.ndarray):
                raise TypeError("only 0-dimensional arrays can be converted to Python scalars: pass scalar bounds")
        dtype = np.result_type(np.intp, *[np.asarray(value).dtype for value in (start, stop, step)])
    dtype = _check_dtype(dtype)
    n, second = _length(start, stop, step)
    if dtype.kind == "b" and n > 2:
        raise TypeError("arange() is only supported for booleans when the result has at most length 2: use an int dtype")
    firsts = np.zeros(2, dtype)
    if n:
        firsts[0] = start
    if n > 1:
        firsts[1] = second
    context, target = _placed((n,), dtype, layout, device)
    return generate(context, target, dtype, partial(_arithmetic, firsts), "arange")


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
    """``firsts[0] + i * (firsts[1] - firsts[0])`` for the indices of a region, with the loop of NumPy's fill functions."""
    lib, r, dtype = device.lib, region[0], out.dtype
    kind = dtype.kind
    if kind in "biu":
        first, delta = int(firsts[0]), int(firsts[1]) - int(firsts[0])
        wide = np.uint64
        begin, stride = (first + r.start * delta) % 2**64, (delta * r.step) % 2**64
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
def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    layout: Any = None,
    device: Any = None,
) -> Any:
    """`num` evenly spaced values from `start` to `stop`, to the bit as NumPy computes them.

    Parameters
    ----------
    start, stop : scalar or array_like
        Arrays give an array of sequences, along `axis`.
    num : int
    endpoint : bool
        Whether `stop` is the last value.
    retstep : bool
        Return ``(values, step)``.
    dtype : dtype, optional
        Default: as NumPy infers it, never an integer dtype.
    axis : int
    layout, device
        As for :func:`empty`.

    Notes
    -----
    Communication: none for scalars. With distributed arrays, what aligns them.
    """
    num = operator.index(num)
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    start, stop = (v if isinstance(v, DistributedArray) and v.ndim else _bound(v) for v in (start, stop))
    start, stop = (np.asarray(v)[()] if isinstance(v, (list, tuple)) else v for v in (start, stop))
    div = num - 1 if endpoint else num
    kinds = [v.dtype if hasattr(v, "dtype") else v for v in (start, stop)]
    dt = np.result_type(*kinds, 0.0)
    target_dtype = _check_dtype(dt if dtype is None else dtype)
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
        context, target = _placed((num,), target_dtype, layout, device)

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


# --- from coordinates -------------------------------------------------------------------------------------------------


@implements(np.eye)
def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: Any = float,
    order: str = "C",
    *,
    layout: Any = None,
    device: Any = None,
) -> DistributedArray:
    """A matrix of N × M with ones on the `k`-th diagonal and zeros elsewhere.

    Notes
    -----
    Communication: none.
    """
    shape = as_shape((N, N if M is None else M))
    dtype, k = _check_dtype(dtype), operator.index(k)

    def make(device: Device, region: Region, out: Any) -> None:
        rows, columns = (indices_of(device.lib, r) for r in region)
        out[...] = (rows[:, None] + k == columns[None, :]).astype(dtype)

    return generate(*_placed(shape, dtype, layout, device), dtype, make, "eye")


@implements(np.identity)
def identity(n: int, dtype: Any = None, *, layout: Any = None, device: Any = None) -> DistributedArray:
    """The n × n identity matrix; see :func:`eye`."""
    return eye(n, dtype=dtype, layout=layout, device=device)


def _below(lib: Any, region: Region, k: int) -> Any:
    """Where a region of a matrix lies at or below the `k`-th diagonal."""
    rows, columns = (indices_of(lib, r) for r in region)
    return rows[:, None] + k >= columns[None, :]


@implements(np.tri)
def tri(
    N: int, M: int | None = None, k: int = 0, dtype: Any = float, *, layout: Any = None, device: Any = None
) -> DistributedArray:
    """A matrix of N × M with ones at and below the `k`-th diagonal and zeros elsewhere.

    Notes
    -----
    Communication: none.
    """
    shape = as_shape((N, N if M is None else M))
    dtype, k = _check_dtype(dtype), operator.index(k)

    def make(device: Device, region: Region, out: Any) -> None:
        out[...] = _below(device.lib, region, k).astype(dtype)

    return generate(*_placed(shape, dtype, layout, device), dtype, make, "tri")


@implements(np.tril)
def tril(m: Any, k: int = 0) -> DistributedArray:
    """The array with the elements above the `k`-th diagonal of its last two axes set to zero, in its layout.

    Notes
    -----
    Communication: none; partial values are resolved first.
    """
    return _triangle(m, operator.index(k), True, "tril")


@implements(np.triu)
def triu(m: Any, k: int = 0) -> DistributedArray:
    """The array with the elements below the `k`-th diagonal of its last two axes set to zero; see :func:`tril`."""
    return _triangle(m, operator.index(k) - 1, False, "triu")


def _triangle(m: Any, k: int, lower: bool, name: str) -> DistributedArray:
    x = asarray(m)
    if not x.ndim:
        raise TypeError(f"{name} needs an array of at least one axis, got a 0-d array: pass a matrix")
    if x.ndim == 1:
        x = x._viewed(x._view_map().broadcast_to((x.shape[0], x.shape[0])))
    context, source = x._context, x._operand(name)
    chunks: list[Chunk] = []
    for (device_id, region), array in zip(source.layout.chunks, source.arrays, strict=True):
        device = context.by_id[device_id]
        chunk = device.empty(region.shape, x.dtype, name)
        with device.active():
            below = _below(device.lib, Region(region[-2:]), k)
            chunk.array[...] = device.lib.where(below if lower else ~below, array, x.dtype.type(0))
        chunks.append(chunk)
    return from_chunks(context, source.layout, chunks, x.dtype)


@implements(np.fromfunction)
def fromfunction(
    function: Callable[..., Any], shape: Any, *, dtype: Any = float, layout: Any = None, device: Any = None, **kwargs: Any
) -> DistributedArray:
    """An array from a function of the coordinates, called for each region, after a first call that finds the dtype.

    Parameters
    ----------
    function : callable
        Takes one array of coordinates for each axis, NumPy or CuPy as the device is, and returns the values there: an
        array of the same shape, or something that broadcasts to it.
    shape : int or sequence of int
    dtype : dtype
        Of the coordinates.
    layout, device
        As for :func:`empty`.
    **kwargs
        Passed to `function`.

    Raises
    ------
    ValueError
        The function returns another shape: it must work element by element.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.fromfunction(lambda i, j: 10 * i + j, (2, 3), dtype=int, layout=da.blocks(0))
    DistributedArray([[ 0,  1,  2],
                      [10, 11, 12]])
    """
    shape, dtype = as_shape(shape), _check_dtype(dtype)
    context, target = _placed(shape, dtype, layout, device)

    def values(device: Device, region: Region) -> Any:
        coordinates = []
        for axis, r in enumerate(region):
            along = indices_of(device.lib, r).astype(dtype).reshape((-1,) + (1,) * (len(region) - axis - 1))
            full = device.lib.empty(region.shape, dtype)
            full[...] = along
            coordinates.append(full)
        found = device.lib.asarray(function(*coordinates, **kwargs))
        if not _broadcasts(found.shape, region.shape):
            raise ValueError(
                f"the function of fromfunction returned shape {found.shape} for coordinates of shape {region.shape}: it is "
                f"called region by region and must return one value for each coordinate"
            )
        return found

    first = context.by_id[target.devices[0]]
    with first.active():
        result = _check_dtype(values(first, Region([Range.full(min(n, 1)) for n in shape])).dtype)

    def make(device: Device, region: Region, out: Any) -> None:
        found = values(device, region)
        if found.dtype != result:
            raise TypeError(
                f"the function of fromfunction returned dtype {found.dtype} for one region and {result} for another: "
                f"convert inside the function, with .astype(...)"
            )
        out[...] = found

    return generate(context, target, result, make, "fromfunction", by_cell=True)


def _broadcasts(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    try:
        return broadcast_shape(shape, target) == target
    except ValueError:
        return False


@implements(np.meshgrid)
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[DistributedArray, ...]:
    """Coordinate matrices from coordinate vectors.

    Notes
    -----
    Communication: none with ``copy=False`` or ``sparse=True``; else each device gets what it lacks of the vectors.
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"Valid values for `indexing` are 'xy' and 'ij', got {indexing!r}")
    vectors = [asarray(x) for x in xi]
    ndim = len(vectors)
    found = []
    for axis, x in enumerate(vectors):
        if x.ndim > 1:
            x = x.reshape(-1)
        at = 1 - axis if indexing == "xy" and ndim > 1 and axis < 2 else axis
        view = x._view_map() if x.ndim else x._view_map().expand_dims(0)
        found.append(x._viewed(view.expand_dims(tuple(a for a in range(ndim) if a != at))))
    shape = broadcast_shape(*[x.shape for x in found]) if found else ()
    if sparse:
        return tuple([copy_array(x) if copy else x for x in found])
    if not copy:
        return tuple([x._viewed(x._view_map().broadcast_to(shape)) for x in found])
    return tuple([spread(x, shape) for x in found])


def spread(x: DistributedArray, shape: tuple[int, ...]) -> DistributedArray:
    """A copy of `x` broadcast to `shape` in the default layout; each element travels once, before it is repeated."""
    context = x._context
    target = resolve_layout(context, None, shape, itemsize=x.dtype.itemsize)
    version = demand(record(context, ASTYPE, (x._arg(),), {"dtype": x.dtype}, shape), target)
    return DistributedArray._of_version(context, version)


# --- conversions with like= -------------------------------------------------------------------------------------------


@implements(np.asarray, np.asanyarray, np.ascontiguousarray)
def _asarray(
    a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: bool | None = None
) -> DistributedArray:
    """``np.asarray(a, like=x)``."""
    result = asarray(a, dtype=dtype, device=device, copy=copy)
    return result


@implements(np.array)
def _array(
    object: Any, dtype: Any = None, *, copy: bool | None = True, order: Any = None, subok: bool = False, ndmin: int = 0
) -> DistributedArray:
    """``np.array(a, like=x)``."""
    result = asarray(object, dtype=dtype, copy=copy or None)
    if result.ndim < ndmin:
        result = result._viewed(result._view_map().expand_dims(tuple(range(ndmin - result.ndim))))
    return result
