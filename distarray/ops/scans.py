"""Scans: ``ufunc.accumulate`` and ``ufunc.reduceat`` of every binary ufunc, and the cumulative sums and products.

They are apart from the reductions because their results are as large as the array, and stay where it is: along a split
axis only one running slice passes from each device to the next.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from distarray.algorithms.folds import (
    UNFOLDED,
    Relay,
    Segment,
    carry,
    item_dtype,
    local_reduce,
    relay,
    run_tasks,
    ufunc_of,
)
from distarray.algorithms.reduction import arrays_of, as_taken, computed_in, in_blocks, normalized, place_operand, small
from distarray.array.aliases import ArrayLike, Axis, DTypeLike, Out
from distarray.array.documented import described_as
from distarray.array.dtypes import loop_dtype
from distarray.array.functions import implements
from distarray.array.layouts import resolve_layout
from distarray.array.place import place
from distarray.array.state import DistributedArray, from_chunks, same_context
from distarray.array.writing import check_out, deliver, single
from distarray.context import Context
from distarray.devices import Chunk, Device, in_turn
from distarray.fusion.conditions import WarningOnce
from distarray.fusion.kernels import scans as kernels
from distarray.fusion.native.vectors import accumulated
from distarray.geometry import IndexMap, Range, Region
from distarray.layout import Layout
from distarray.ops.convert import asarray
from distarray.ops.reshaping import reshape
from distarray.storage import Operand
from distarray.transfer.execute import allocate, redistribute

__all__ = ["cumprod", "cumsum", "cumulative_prod", "cumulative_sum"]


STRETCH = 1 << 14
"""Elements of a vector that are scanned at once on a host device, where something comes before them."""


class _Accumulation(NamedTuple):
    """A call whose arguments have been checked."""

    ufunc: np.ufunc
    axis: int
    dtype: Any
    given: Any


def _start(array: Any, out: Any) -> tuple[Context, DistributedArray, Any]:
    """The context, the operand and the target of a ufunc's method."""
    out = single(out)
    known = [item for item in (array, out) if isinstance(item, DistributedArray)]
    context = same_context(known) if known else asarray(array)._context
    return context, array if isinstance(array, DistributedArray) else place_operand(context, array), out


def _checked(
    name: str, ufunc: np.ufunc, a: DistributedArray, axis: Any, dtype: Any, out: Any, *indices: Any
) -> _Accumulation:
    """The call, after NumPy itself has accepted or refused one like it."""
    if out is None and dtype is None and not indices and type(axis) is int:
        at, computed = _accepted(name, ufunc, a.dtype, tuple([n and 1 for n in a.shape]), axis)
        return _Accumulation(ufunc, at, computed, None)
    model = small(a.shape, a.dtype)
    function = getattr(ufunc, name)
    with np.errstate(all="ignore"):
        result = function(model, *indices, axis=axis, dtype=dtype)
        computed = result.dtype
        if out is not None:
            check_out(out)
            function(model, *indices, axis=axis, dtype=dtype, out=np.zeros(result.shape, out.dtype))
            if dtype is None:
                computed = computed_in(ufunc, a.dtype, out.dtype)
    (at,) = normalized(axis, a.ndim)
    return _Accumulation(ufunc, at, computed, dtype)


@lru_cache(1024)
def _accepted(name: str, ufunc: np.ufunc, dtype: Any, shape: tuple[int, ...], axis: int) -> tuple[int, Any]:
    """The axis and the dtype of a call on an array of at most one element."""
    with np.errstate(all="ignore"):
        computed = getattr(ufunc, name)(np.ones(shape, dtype), axis=axis).dtype
    (at,) = normalized(axis, len(shape))
    return at, computed


def _fits(name: str, out: Any, shape: tuple[int, ...]) -> None:
    if out is not None and tuple(out.shape) != shape:
        raise ValueError(
            f"provided out has shape {tuple(out.shape)}, and the result of {name} has shape {shape}: pass an out= of that "
            f"shape"
        )


# --- accumulate ---------------------------------------------------------------------------------------------------------


def accumulate(ufunc: np.ufunc, array: ArrayLike, axis: Axis = 0, dtype: DTypeLike = None, out: Out = None) -> Any:
    """``ufunc.accumulate(array, axis, dtype, out)`` for any binary ufunc, element after element as NumPy does.

    Notes
    -----
    On host devices the bits are NumPy's, but for complex products, which NumPy rounds by how an array lies in memory.

    Communication: none where the axis is not split. Else one slice from each device to the next along the axis; where the
    axis is strided over devices, the array is cut into blocks first.
    """
    context, a, out = _start(array, out)
    a = as_taken(ufunc, a, dtype)
    call = _checked("accumulate", ufunc, a, axis, dtype, out)
    _fits(f"{ufunc.__name__}.accumulate", out, a.shape)
    return deliver(_accumulated(context, call, a), out)


def _accumulated(context: Context, call: _Accumulation, a: DistributedArray) -> DistributedArray:
    name = f"{call.ufunc.__name__}.accumulate"
    with context.lock:
        context.check()
        if not a.size:
            layout = resolve_layout(context, None, a.shape, itemsize=call.dtype.itemsize)
            return place(context, np.empty(a.shape, call.dtype), layout)
        ufunc_of(context.local_devices[0], call.ufunc)  # refuses a ufunc that the devices lack, on every process
        found = a._operand(name)
        if _is_whole(found, call.axis):
            return _scan_lines(context, call, found, name)
        way = _scan_way(context, found.layout, call.axis)
        if way is None:
            found, _ = in_blocks(context, found, None, call.axis, name)
            if _is_whole(found, call.axis):
                return _scan_lines(context, call, found, name)
            way = _scan_way(context, found.layout, call.axis)
            assert way is not None
        return _scan_carried(context, call, found, way, name)


def _is_whole(found: Operand, axis: int) -> bool:
    """Whether every chunk holds whole lines along an axis."""
    n = found.shape[axis]
    return all(region[axis].size == n or not region.size for _, region in found.layout.chunks)


def _scan_lines(context: Context, call: _Accumulation, found: Operand, name: str) -> DistributedArray:
    """Every device scans its own lines."""
    with context.reporting():
        chunks = allocate(context, found.layout, call.dtype, label=name)
    tasks: dict[int, list[Callable[[], None]]] = {}
    nbytes = 0
    for (device_id, region), array, chunk in zip(found.layout.chunks, found.arrays, chunks, strict=True):
        if region.size and chunk is not None:
            task = partial(_scan_here, chunk.device, call, region[call.axis].size, None, array, chunk.array)
            tasks.setdefault(device_id, []).append(task)
            nbytes += array.nbytes
    run_tasks(
        context,
        [partial(in_turn, work) for work in tasks.values()],
        nbytes,
        "accumulate",
        fallible=call.ufunc is np.power,
    )
    return from_chunks(context, found.layout, chunks, call.dtype)


class _ScanWay(NamedTuple):
    """The chains of a scan along a split axis, the layout of its result, and by the identity of a segment its part of that."""

    relay: Relay
    layout: Layout
    regions: dict[int, Region]


def _scan_way(context: Context, layout: Layout, axis: int) -> _ScanWay | None:
    """How a scan goes along a split axis of a layout; None where nobody holds runs of it that are long enough."""
    key = ("scan", layout, axis)
    found: Any = context.layouts.remembered(key)
    if found is None:
        way = relay(context, layout, axis)
        found = context.layouts.remember(key, (None if way is None else _ways(context, layout, way),))
    return found[0]  # type: ignore[no-any-return]


def _ways(context: Context, layout: Layout, way: Relay) -> _ScanWay:
    homes: dict[int, list[Region]] = {}
    regions: dict[int, Region] = {}
    for _, segments in way.chains:
        for segment in segments:
            whole = layout.chunks[segment.chunk][1]
            key = Region([Range.from_slice(s, n) for s, n in zip(segment.key, whole.shape, strict=True)])
            region = regions[id(segment)] = whole.compose(key)
            homes.setdefault(segment.device, []).append(region)
    return _ScanWay(way, context.layout(IndexMap(layout.shape, homes)), regions)


def _scan_carried(context: Context, call: _Accumulation, found: Operand, way: _ScanWay, name: str) -> DistributedArray:
    """The devices along the axis scan in turn, each from the last slice of the one before."""
    axis, shape = call.axis, found.shape
    layout, regions = way.layout, way.regions
    with context.reporting():
        chunks = allocate(context, layout, call.dtype, label=name)
    done = dict(zip(layout.chunks, chunks, strict=True))
    exact = context.kind == "host" and call.ufunc is np.add and call.dtype.kind in "iu" and found.dtype.kind in "biu"
    later: dict[
        int, list[Callable[[], None]]
    ] = {}  # integers add in any order: the devices' sums are carried first, then all devices scan at once

    def step(device: Device, segment: Segment, before: Any, after: Any) -> None:
        array = found.arrays[segment.chunk][segment.key]
        chunk = done[device.id, regions[id(segment)]]
        assert chunk is not None
        target = chunk.array
        if exact:
            total = np.add.reduce(array, axis=axis, dtype=loop_dtype(call.dtype), keepdims=True)
            after[...] = total if before is None else before + total
            carried = None if before is None else before.copy()
            later.setdefault(device.id, []).append(partial(_scan_integers, call, carried, array, target))
            return
        with device.active():
            _scan_here(device, call, shape[axis], before, array, target)
            after[...] = target[(*(slice(None),) * axis, slice(-1, None))]

    with WarningOnce(context, "accumulate"):
        carry(context, name, way.relay, call.dtype, step, fallible=call.ufunc is np.power)
    nbytes = sum(chunk.array.nbytes for chunk in chunks if chunk is not None)
    context.run([partial(in_turn, tasks) for tasks in later.values()], nbytes)
    return from_chunks(context, layout, chunks, call.dtype)


def _scan_integers(call: _Accumulation, before: Any, array: Any, out: Any) -> None:
    """Running sums of integers, which wrap alike in any order, from a running slice where there is one."""
    np.add.accumulate(array, axis=call.axis, dtype=loop_dtype(call.dtype), out=out)
    if before is not None:
        np.add(out, before, out=out)


def _scan_stretches(call: _Accumulation, before: Any, array: Any, out: Any) -> None:
    """Scan a long vector from an element `before`, in stretches that stay in cache: each begins with the last one's end, so
    that elements are taken one after the other as NumPy takes them."""
    given = np.empty(2 * STRETCH + 1, call.dtype)
    found = np.empty_like(given)
    given[0] = before[0]
    low = 0
    while low < array.size:
        high = low + STRETCH if array.size - low >= 2 * STRETCH else array.size  # none is a single element
        count = high - low
        given[1 : count + 1] = array[low:high]
        call.ufunc.accumulate(given[: count + 1], dtype=loop_dtype(call.dtype), out=found[: count + 1])
        out[low:high] = found[1 : count + 1]
        given[0] = found[count]
        low = high


def _scan_here(device: Device, call: _Accumulation, total: int, before: Any, array: Any, out: Any) -> None:
    """Scan a chunk into `out`, from a running slice `before` where there is one; the whole axis has length `total`."""
    lib, ufunc, axis = device.lib, ufunc_of(device, call.ufunc), call.axis
    head = (slice(None),) * axis
    with device.active():
        rows = array.shape[axis] + (before is not None)
        lonely = rows == 2 and total > 2  # NumPy's loops over one step and over several may round differently
        if device.kind == "host" and call.given in (None, call.dtype) and accumulated(ufunc, before, array, out):
            return
        if device.kind == "host" and before is None and not lonely:
            ufunc.accumulate(array, axis=axis, dtype=call.given, out=out)
            return
        wanted = item_dtype(call.ufunc, call.dtype, array.dtype, call.given)
        scans = {"add": "cumsum", "multiply": "cumprod"}
        if wanted == call.dtype and (device.kind == "host" or call.ufunc.__name__ in scans):
            if device.kind != "host" and kernels.scan(lib, call.ufunc.__name__, array, out, axis, before):
                return
            if device.kind == "host" and array.ndim == 1 and before is not None and array.size > 2 * STRETCH:
                _scan_stretches(call, before, array, out)
                return
            # a GPU multiplies blocks first, which may overflow halves where no product from the start does
            halves = device.kind != "host" and call.dtype == np.float16
            work = np.dtype(np.float32) if halves else call.dtype
            joined = lib.ones((*out.shape[:axis], 3 if lonely else rows, *out.shape[axis + 1 :]), work)
            if before is not None:
                joined[(*head, slice(0, 1))] = before
            mine = (*head, slice(rows - array.shape[axis], rows))
            joined[mine] = array.astype(call.dtype)
            if device.kind == "host":
                joined = ufunc.accumulate(joined, axis=axis, dtype=loop_dtype(call.dtype))
            else:
                joined = getattr(lib, scans[call.ufunc.__name__])(joined, axis=axis)
            out[...] = joined[mine]
            return
        value = before
        later = array.astype(wanted, copy=False)
        for i in range(array.shape[axis]):
            key = (*head, slice(i, i + 1))
            value = array[key].astype(call.dtype) if value is None else ufunc(value, later[key]).astype(call.dtype)
            out[key] = value


# --- cumulative functions -----------------------------------------------------------------------------------------------


def _cumulated(ufunc: np.ufunc, a: Any, axis: Any, dtype: Any, out: Any) -> Any:
    array = asarray(a)
    if axis is not None:
        axis = operator.index(axis)
    if axis is None and array.ndim != 1:
        array, axis = reshape(array, -1), 0
    elif not array.ndim:
        normal = np.empty(0)
        np.cumsum(normal, axis=axis)
        array = array._viewed(array._view_map().expand_dims(0))
    return accumulate(ufunc, array, 0 if axis is None else axis, dtype, out)


@implements(np.cumsum)
def cumsum(a: ArrayLike, axis: Axis = None, dtype: DTypeLike = None, out: Out = None) -> Any:
    """Cumulative sum along an axis, or over the flattened array.

    Parameters
    ----------
    a : array_like
    axis : int, optional
        Default: the array is taken as flat, in C order.
    dtype : dtype, optional
        Of the result. Default: that of `a`; of shorter integers and bools, ``int64`` or ``uint64``.
    out : DistributedArray or numpy.ndarray, optional
        Where to put the result.

    Returns
    -------
    DistributedArray
        Of the shape of `a`, or of one axis without `axis`.

    Notes
    -----
    Communication: one slice from each device to the next along a split axis; with ``axis=None`` also what the reshape of
    the array moves.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.cumsum(da.asarray([1, 2, 3, 4], layout=da.blocks(0))).get()
    array([ 1,  3,  6, 10])
    """
    return _cumulated(np.add, a, axis, dtype, out)


@implements(np.cumprod)
@described_as(cumsum)
def cumprod(a: ArrayLike, axis: Axis = None, dtype: DTypeLike = None, out: Out = None) -> Any:
    """Cumulative product along an axis, or over the flattened array.

    Notes
    -----
    Communication: as for :func:`cumsum`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.cumprod(da.asarray([1, 2, 3])).tolist()
    [1, 2, 6]
    """
    return _cumulated(np.multiply, a, axis, dtype, out)


@implements(np.cumulative_sum)
@described_as(cumsum)
def cumulative_sum(
    x: ArrayLike, /, *, axis: Axis = None, dtype: DTypeLike = None, out: Out = None, include_initial: bool = False
) -> Any:
    """Cumulative sum along an axis, as in the array API.

    Parameters
    ----------
    x : array_like
    axis : int, optional
        May be left out for arrays of one axis.
    dtype : dtype, optional
        Of the result. Default: that of `x`; of shorter integers and bools, ``int64`` or ``uint64``.
    include_initial : bool, optional
        Begin with the sum of no elements, 0.

    Returns
    -------
    DistributedArray
        Of the shape of `x`, with `include_initial` longer by one along the axis.

    Raises
    ------
    ValueError
        `axis` is left out, and `x` has more than one.

    Notes
    -----
    Communication: one slice from each device to the next along a split axis.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.cumulative_sum(da.asarray([1, 2, 3]), include_initial=True).tolist()
    [0, 1, 3, 6]
    """
    return _cumulative(np.add, x, axis, dtype, out, include_initial)


@implements(np.cumulative_prod)
@described_as(cumulative_sum)
def cumulative_prod(
    x: ArrayLike, /, *, axis: Axis = None, dtype: DTypeLike = None, out: Out = None, include_initial: bool = False
) -> Any:
    """Cumulative product along an axis, as in the array API.

    Parameters
    ----------
    include_initial : bool, optional
        Begin with the product of no elements, 1.

    Notes
    -----
    Communication: as for :func:`cumulative_sum`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.cumulative_prod(da.asarray([1, 2, 3])).tolist()
    [1, 2, 6]
    """
    return _cumulative(np.multiply, x, axis, dtype, out, include_initial)


def _cumulative(ufunc: np.ufunc, x: Any, axis: Any, dtype: Any, out: Any, include_initial: bool) -> Any:
    a = asarray(x)
    if not a.ndim:
        a = a._viewed(a._view_map().expand_dims(0))
    if axis is None:
        if a.ndim > 1:
            raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
        axis = 0
    a = as_taken(ufunc, a, dtype)
    call = _checked("accumulate", ufunc, a, axis, dtype, out)
    if not include_initial:
        return accumulate(ufunc, a, axis, dtype, out)
    at = call.axis
    shape = (*a.shape[:at], a.shape[at] + 1, *a.shape[at + 1 :])
    _fits(f"cumulative {ufunc.__name__}", out, shape)
    context = a._context
    if not a.size:
        full = np.broadcast_to(np.full((), ufunc.identity, call.dtype), shape)
        result = place(context, full, resolve_layout(context, None, shape, itemsize=call.dtype.itemsize))
    else:
        result = _after_initial(context, call, _accumulated(context, call, a), shape)
    return deliver(result, out)


def _after_initial(
    context: Context, call: _Accumulation, scan: DistributedArray, shape: tuple[int, ...]
) -> DistributedArray:
    """A scan moved on by one along its axis; who held the first slice also holds the initial one."""
    at, head = call.axis, (slice(None),) * call.axis
    found = scan._operand("accumulate")
    homes: dict[int, list[Region]] = {device: [] for device in found.layout.devices}
    chunks: dict[tuple[int, Region], Chunk] = {}
    with context.reporting():
        for (device_id, region), array in zip(found.layout.chunks, found.arrays, strict=True):
            device, run = context.by_id[device_id], region[at]
            if not region.size:
                continue
            leads = run.start == 0
            moved = Range(0, 1, run.size + 1) if leads else Range.of(run.start + 1, run.step, run.size)
            grown = Region((*region[:at], moved, *region[at + 1 :]))
            homes[device_id].append(grown)
            if device.process != context.process:
                continue
            chunk = device.empty(grown.shape, call.dtype, "accumulate")
            device.copy(chunk.array[(*head, slice(1 if leads else 0, None))], array, device)
            if leads:
                device.fill(chunk.array[(*head, slice(0, 1))], call.ufunc.identity)
            chunks[device_id, grown] = chunk
    index_map = IndexMap(shape, homes)
    return from_chunks(context, context.layout(index_map), [chunks.get(row) for row in index_map.chunks], call.dtype)


# --- reduceat -----------------------------------------------------------------------------------------------------------


def reduceat(
    ufunc: np.ufunc,
    array: ArrayLike,
    index: ArrayLike,
    /,
    axis: int = 0,
    dtype: DTypeLike = None,
    out: Out = None,
    indices: ArrayLike | None = None,
) -> Any:
    """``ufunc.reduceat(array, indices, axis, dtype, out)`` for any binary ufunc. NumPy passes ``indices=`` twice.

    Notes
    -----
    Communication: none where the axis is not split. Else each device takes an even share of the indices, and the slices
    that it lacks for them move to it.
    """
    context, a, out = _start(array, out)
    indices = index.get() if isinstance(index, DistributedArray) else index
    places = indices if isinstance(indices, np.ndarray) else np.array(indices, np.intp)
    zeros = np.zeros([n and 1 for n in places.shape], places.dtype)
    np.add.reduceat(np.ones([1] * a.ndim), zeros, axis=axis)
    (at,) = normalized(axis, a.ndim)
    n = a.shape[at]
    for i in places.tolist():
        if not 0 <= i < n:
            raise IndexError(f"index {i} out-of-bounds in {ufunc.__name__}.reduceat [0, {n})")
    a = as_taken(ufunc, a, dtype)
    call = _checked("reduceat", ufunc, a, axis, dtype, out, zeros)
    shape = (*a.shape[:at], len(places), *a.shape[at + 1 :])
    _fits(f"{ufunc.__name__}.reduceat", out, shape)
    ends = [*places.tolist()[1:], n]
    runs = [Range.of(low, 1, high - low if high > low else 1) for low, high in zip(places.tolist(), ends, strict=False)]
    with context.lock:
        context.check()
        if not a.size or not runs:
            layout = resolve_layout(context, None, shape, itemsize=call.dtype.itemsize)
            return deliver(place(context, np.empty(shape, call.dtype), layout), out)
        return deliver(_reduced_at(context, call, a, runs, shape), out)


def _reduced_at(
    context: Context, call: _Accumulation, a: DistributedArray, runs: list[Range], shape: tuple[int, ...]
) -> DistributedArray:
    name, at = f"{call.ufunc.__name__}.reduceat", call.axis
    ufunc_of(context.local_devices[0], call.ufunc)  # refuses a ufunc that the devices lack, on every process
    found = a._operand(name)
    shares: list[tuple[int, Region, list[int], list[Range]]] = []  # device, result region, source chunks, their ranges
    if _is_whole(found, at):
        for i, (device_id, region) in enumerate(found.layout.chunks):
            if region.size:
                result = Region((*region[:at], Range.full(len(runs)), *region[at + 1 :]))
                shares.append((device_id, result, [i], [region[at]]))
    else:
        found, shares = _dealt(context, found, at, runs, shape, name)
    homes: dict[int, list[Region]] = {}
    for device_id, result, _, _ in shares:
        homes.setdefault(device_id, []).append(result)
    layout = context.layout(IndexMap(shape, homes))
    with context.reporting():
        chunks = allocate(context, layout, call.dtype, label=name)
    waiting = {row: chunk for row, chunk in zip(layout.chunks, chunks, strict=True) if chunk is not None}
    tasks: dict[int, list[Callable[[], None]]] = {}
    for device_id, result, sources, held in shares:
        chunk = waiting.pop((device_id, result), None)
        if chunk is None:
            continue
        mine = [runs[i] for i in range(result[at].start, result[at].start + result[at].size)]
        arrays = [found.arrays[i] for i in sources]
        task = partial(_reduce_runs, chunk.device, call, arrays, held, mine, chunk.array)
        tasks.setdefault(device_id, []).append(task)
    nbytes = sum([array.nbytes for array in found.arrays if array is not None])
    run_tasks(
        context,
        [partial(in_turn, work) for work in tasks.values()],
        nbytes,
        "reduceat",
        fallible=call.ufunc is np.power,
    )
    return from_chunks(context, layout, chunks, call.dtype)


def _dealt(
    context: Context, found: Operand, at: int, runs: list[Range], shape: tuple[int, ...], name: str
) -> tuple[Operand, list[tuple[int, Region, list[int], list[Range]]]]:
    """The operand moved so that each device holds all that an even share of the runs needs."""
    ids = context.group.ids
    bounds = [len(runs) * i // len(ids) for i in range(len(ids) + 1)]
    full = Region.full(found.shape)
    homes: dict[int, list[Region]] = {}
    for k, device_id in enumerate(ids):
        pieces: list[Range] = []
        for run in sorted(set(runs[bounds[k] : bounds[k + 1]])):
            if pieces and run.start <= pieces[-1].stop:
                last = pieces[-1]
                stop = last.stop if last.stop > run.stop else run.stop
                pieces[-1] = Range.of(last.start, 1, stop - last.start)
            else:
                pieces.append(run)
        homes[device_id] = [Region((*full[:at], piece, *full[at + 1 :])) for piece in pieces]
    index_map = IndexMap(found.shape, homes)
    layout = context.layout(index_map)
    moved = Operand(layout, arrays_of(redistribute(context, found, layout, operation=name)), found.dtype)
    shares = []
    for k, device_id in enumerate(ids):
        count = bounds[k + 1] - bounds[k]
        if count:
            result = Region((*full[:at], Range.of(bounds[k], 1, count), *full[at + 1 :]))
            sources = list(index_map.chunk_ids(device_id))
            shares.append((device_id, result, sources, [index_map.chunks[i][1][at] for i in sources]))
    return moved, shares


def _reduce_runs(
    device: Device, call: _Accumulation, arrays: list[Any], held: list[Range], runs: list[Range], out: Any
) -> None:
    """Reduce each run of a share, which lies in one of the arrays held."""
    head = (slice(None),) * call.axis
    with device.active():
        library = device.kind == "host" and call.ufunc not in UNFOLDED
        if library and len(held) == 1 and _in_a_row(runs, held[0].stop):
            starts = [run.start - held[0].start for run in runs]
            call.ufunc.reduceat(arrays[0], starts, axis=call.axis, dtype=call.given, out=out)
            return
        for i, run in enumerate(runs):
            j = next(j for j, own in enumerate(held) if own.covers(run))
            low = run.start - held[j].start
            part = arrays[j][(*head, slice(low, low + run.size))]
            target = out[(*head, slice(i, i + 1))]
            if library:
                call.ufunc.reduceat(part, [0], axis=call.axis, dtype=call.given, out=target)
            else:
                local_reduce(device, call.ufunc, part, target, (call.axis,), call.given, None, None)


def _in_a_row(runs: list[Range], stop: int) -> bool:
    """Whether each run ends where the next begins, and the last at `stop`."""
    return all(a.stop == b for a, b in zip(runs, [*[run.start for run in runs[1:]], stop], strict=True))
