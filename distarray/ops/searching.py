"""Searching: ``argmin``, ``argmax``, ``nonzero``, ``argwhere`` and ``flatnonzero``.

They are apart from the reductions because their results are positions: each device finds positions in its own chunks, and
only best values, partial positions or counts, which are small, ever move.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np

from distarray.algorithms.fold_plans import Reduction, fold_sources, whole_lines
from distarray.algorithms.folds import chain, ufunc_of
from distarray.algorithms.reduction import in_blocks, normalized, small
from distarray.array.aliases import ArrayLike, Axis, Out
from distarray.array.documented import described_as
from distarray.array.functions import NOTHING, given, implements
from distarray.array.layouts import resolve_layout
from distarray.array.place import place
from distarray.array.state import DistributedArray, from_chunks
from distarray.array.writing import check_out, deliver
from distarray.context import Context
from distarray.devices import Chunk, Device, arrays_of, in_turn
from distarray.devices.arrays import DeviceArray, Library
from distarray.fusion.kernels import reductions as kernels
from distarray.geometry import IndexMap, Range, Region
from distarray.layout import Layout
from distarray.modes import Mode
from distarray.ops.convert import asarray
from distarray.ops.reductions import is_true
from distarray.storage import Operand
from distarray.transfer.execute import allocate, redistribute
from distarray.transfer.to_host import gather_to_host

__all__ = ["argmax", "argmin", "argwhere", "flatnonzero", "nonzero"]

_FAR = np.iinfo(np.intp).max
"""A position behind all others."""


@implements(np.argmax)
def argmax(a: ArrayLike, axis: Axis = None, out: Out = None, *, keepdims: bool = NOTHING) -> Any:
    """Position of the largest element along an axis, or in the flattened array: the first of equals, the first NaN.

    Parameters
    ----------
    a : array_like
    axis : int, optional
        Default: the array is taken as flat, in C order.
    out : DistributedArray or numpy.ndarray, optional
        Where to put the result.
    keepdims : bool, optional
        Keep the reduced axes, with length 1.

    Returns
    -------
    DistributedArray
        Of ``int64``.

    Raises
    ------
    ValueError
        There is no element.

    Notes
    -----
    Communication: none where the axis is not split. Else the best values are brought together at the call, with the size
    of the result, and the positions stay in MIN mode until they are needed.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     int(da.argmax(da.asarray([3, 9, 4, 9], layout=da.blocks(0))))
    1
    """
    return _best(np.argmax, np.maximum, a, axis, out, bool(given(keepdims, False)))


@implements(np.argmin)
@described_as(argmax)
def argmin(a: ArrayLike, axis: Axis = None, out: Out = None, *, keepdims: bool = NOTHING) -> Any:
    """Position of the smallest element along an axis, or in the flattened array: the first of equals, the first NaN.

    Notes
    -----
    Communication: as for :func:`argmax`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     int(da.argmin(da.asarray([3, 1, 4, 1])))
    1
    """
    return _best(np.argmin, np.minimum, a, axis, out, bool(given(keepdims, False)))


def _best(function: Callable[..., Any], ufunc: np.ufunc, obj: ArrayLike, axis: Axis, out: Out, keepdims: bool) -> Any:
    a = asarray(obj)
    context = a._context
    model = small(a.shape, a.dtype)
    function(model, axis=axis, keepdims=keepdims)
    axes = normalized(axis, a.ndim)
    call = Reduction(ufunc, axes, keepdims, np.dtype(np.intp), None, NOTHING)
    shape = call.shape(a.shape)
    if out is not None:
        check_out(out)
        if tuple(out.shape) != shape:
            raise ValueError(
                f"output array does not match result of np.{function.__name__}: it has shape {tuple(out.shape)}, and the "
                f"result has shape {shape}; pass an out= of that shape"
            )
        function(model, axis=axis, keepdims=keepdims, out=np.zeros([n and 1 for n in shape], out.dtype))
    with context.lock:
        context.check()
        if not a.size:
            layout = resolve_layout(context, None, shape, itemsize=call.dtype.itemsize)
            result = place(context, np.empty(shape, call.dtype), layout)
        else:
            result = _find(context, function.__name__, call, a)
    return deliver(result, out)


def _find(context: Context, name: str, call: Reduction, a: DistributedArray) -> DistributedArray:
    found = a._operand(name, partial_ok=True)
    if found.layout.is_partial and (found.layout.mode is not call.mode or not found.layout.index_map.covers):
        found = a._operand(name)
    pieces, alone, layout = _searched(context, call, found.layout)
    index_map = layout.index_map
    tasks: dict[int, list[Any]] = {}
    nbytes = sum([array.nbytes for array in found.arrays if array is not None])
    with context.reporting():
        places = allocate(context, layout, call.dtype, label=name)
        values = places if alone else allocate(context, layout, found.dtype, label=name)
        for row, mine, position in zip(layout.chunks, values, places, strict=True):
            if mine is not None and position is not None:
                own = [(found.arrays[p.chunk], found.layout.chunks[p.chunk][1]) for p in pieces[row]]
                task = partial(_find_here, mine.device, name, call, own, found.shape, mine.array, position.array, alone)
                tasks.setdefault(row[0], []).append(task)
        context.workers.run([partial(in_turn, work) for work in tasks.values()], nbytes)
    if alone or index_map.is_disjoint:
        return from_chunks(context, layout, places, call.dtype)
    partial_values = Operand(context.layout(index_map, Mode.of(call.mode)), arrays_of(values), found.dtype)
    best = redistribute(context, partial_values, layout, operation=name)
    with context.reporting():
        for mine, top, position in zip(values, best, places, strict=True):
            if mine is not None and top is not None and position is not None:
                with mine.device.active():
                    position.array[...] = _kept(mine.device.lib, mine.array, top.array, position.array)
    return from_chunks(context, context.layout(index_map, Mode.MIN), places, call.dtype)


def _searched(context: Context, call: Reduction, layout: Layout) -> tuple[Any, bool, Layout]:
    """Who searches what, whether in whole lines, and the layout of the result; kept for calls of one kind."""
    key = ("search", call.axes, call.keepdims, call.mode, layout)
    known = context.layouts.remembered(key)
    if known is None:
        pieces = whole_lines(call, layout)
        alone = pieces is not None
        if pieces is None:
            pieces = fold_sources(call, layout)
        homes: dict[int, list[Region]] = {device: [] for device in layout.devices}
        for device_id, part in pieces:
            homes[device_id].append(part)
        result = context.layout(IndexMap(call.shape(layout.shape), homes))
        known = context.layouts.remember(key, (pieces, alone, result))
    return known  # type: ignore[no-any-return]


def _find_here(
    device: Device,
    name: str,
    call: Reduction,
    own: Sequence[Any],
    shape: tuple[int, ...],
    values: DeviceArray,
    places: DeviceArray,
    alone: bool,
) -> None:
    """Best value and its position in the whole array, over the chunks of one device that share a part of the result.
    `alone`: only the position is asked for."""
    lib = device.lib
    with device.active():
        for turn, (array, region) in enumerate(own):
            if alone:  # one piece, of whole lines
                if lib is np or not kernels.reduce(lib, name, array, places, call.axes):
                    axis = call.axes[0] if len(call.axes) == 1 else None
                    places[...] = lib.asarray(_first(lib, name, array, axis)).reshape(places.shape)
                continue
            if len(call.axes) == 1:
                (axis,) = call.axes
                at = lib.expand_dims(_first(lib, name, array, axis), axis)
                value = lib.take_along_axis(array, at, axis)
                at = region[axis].start + at * region[axis].step
            else:
                at = lib.asarray(_first(lib, name, array, None))
                value, at = array.reshape(-1)[at], _flat(lib, at, region, shape)
            value, at = value.reshape(values.shape), at.reshape(values.shape)
            if turn == 0:
                values[...], places[...] = value, at
                continue
            top = ufunc_of(device, call.ufunc)(values, value)
            places[...] = lib.minimum(_kept(lib, values, top, places), _kept(lib, value, top, at))
            values[...] = top


def _first(lib: Library, name: str, array: DeviceArray, axis: int | None) -> Any:
    """``argmin`` or ``argmax``: the first NaN where there are some. CuPy returns any of them."""
    if lib is not np:
        axes = tuple(range(array.ndim)) if axis is None else (axis,)
        found = lib.empty([n for a, n in enumerate(array.shape) if a not in axes], np.intp)
        if kernels.reduce(lib, name, array, found, axes):
            return found
    places = getattr(lib, name)(array, axis=axis)
    if lib is np or array.dtype.kind in "biu":
        return places
    missing = array != array
    return lib.where(missing.any(axis=axis), lib.argmax(missing, axis=axis), places)


def _flat(lib: Library, at: DeviceArray, region: Region, shape: tuple[int, ...]) -> Any:
    """Positions in a chunk of `region`, taken as flat, as positions in the flat array of `shape`."""
    result, weight = lib.zeros_like(at), 1
    for own, n in zip(region[::-1], shape[::-1], strict=True):
        result = result + (own.start + at % own.size * own.step) * weight
        at, weight = at // own.size, weight * n
    return result


def _kept(lib: Library, value: DeviceArray, top: object, places: DeviceArray) -> Any:
    """The positions of values that are the best; those of others move behind all."""
    same = value == top
    if value.dtype.kind not in "biu":
        same = same | ((value != value) & (top != top))
    return lib.where(same, places, _FAR)


# --- where something is true --------------------------------------------------------------------------------------------


class _Hits:
    """The positions of true elements: a layout of the list of them, and for each chunk, one array for each axis."""

    def __init__(self, context: Context, a: DistributedArray, name: str) -> None:
        self.context = context
        self.shape = a.shape
        found = is_true(a)._operand(name)
        self.among = found.layout.devices
        if found.layout.is_replicated:
            owners = [(device, (slice(None),) * a.ndim, i) for i, (device, _) in enumerate(found.layout.chunks)]
            starts = [(0, 0)] * len(owners)
        else:
            lead = next((i for i, n in enumerate(a.shape) if n > 1), 0)
            parts = chain(found.layout.index_map, lead, bounded=False)  # only counts are passed on, all at once
            if parts is None or len(parts) > 1:
                found, _ = in_blocks(context, found, None, lead, name, cut=lead)
                parts = chain(found.layout.index_map, lead, bounded=False)
                assert parts is not None
            segments = parts[0][1]
            owners = [(s.device, s.key, s.chunk) for s in segments]
            starts = []
            for s in segments:
                run = found.layout.chunks[s.chunk][1][lead]
                starts.append((lead, run.start + s.key[lead].start))
        local: list[tuple[Device, list[Any] | None]] = []
        with context.reporting():
            for (device_id, key, chunk), (axis, start) in zip(owners, starts, strict=True):
                device = context.by_id[device_id]
                if device.process != context.process:
                    local.append((device, None))
                    continue
                with device.active():
                    hits = list(device.lib.nonzero(found.arrays[chunk][key]))
                    if start:
                        hits[axis] = hits[axis] + start
                local.append((device, hits))
        self._gather(local, found.layout.is_replicated)

    def _gather(self, local: list[tuple[Device, list[Any] | None]], replicated: bool) -> None:
        """Agree on the counts; put the pieces in order."""
        context = self.context
        homes: dict[int, list[Region]] = {}
        for i, (device, _) in enumerate(local):
            homes.setdefault(device.id, []).append(Region([Range(i, 1, 1)]))
        index_map = IndexMap((len(local),), homes)
        counts: list[Any] = []
        with context.reporting():
            for _, region in index_map.chunks:
                device, hits = local[region[0].start]
                if hits is None:
                    counts.append(None)
                    continue
                with device.active():
                    counts.append(device.lib.full((1,), hits[0].shape[0], np.int64))
        agreed = gather_to_host(context, Operand(context.layout(index_map), counts, np.dtype(np.int64))).tolist()
        bounds = [0] * len(local) if replicated else [0, *accumulate(agreed)]
        self.total = agreed[0] if replicated else sum(agreed)
        rows: dict[int, list[tuple[Region, int]]] = {}
        for i, (device, _) in enumerate(local):
            region = Region([Range.of(bounds[i], 1, agreed[0] if replicated else agreed[i])])
            mine = rows.setdefault(device.id, [])
            if mine and not mine[-1][0].size:  # an empty one only where the device has no other
                mine.pop()
            if region.size or not mine:
                mine.append((region, i))
        regions: dict[int, list[Region]] = {device: [] for device in self.among}  # the operand's, the idle ones too
        regions.update({device: [r for r, _ in own] for device, own in rows.items()})
        self.index_map = IndexMap((self.total,), regions)
        where = {(device, region): i for device, own in rows.items() for region, i in own}
        self.chunks = [local[where[row]] for row in self.index_map.chunks]

    def column(self, axis: int) -> DistributedArray:
        """The positions along one axis."""
        return self._made((), lambda device, hits: hits[axis])

    def rows(self) -> DistributedArray:
        """The positions, one a row."""
        return self._made((len(self.shape),), lambda device, hits: device.lib.stack(hits, axis=1))

    def flat(self) -> DistributedArray:
        """The positions in the flattened array."""

        def combined(device: Device, hits: list[Any]) -> Any:
            total, weight = device.lib.zeros_like(hits[0]), 1
            for n, position in zip(self.shape[::-1], hits[::-1], strict=True):
                total, weight = total + position * weight, weight * n
            return total

        return self._made((), combined)

    def _made(self, tail: tuple[int, ...], join: Callable[[Device, list[Any]], Any]) -> DistributedArray:
        """An array of what `join` makes of the positions along each axis, on every device."""
        context, index_map = self.context, self.index_map
        if tail:
            full = [Range.full(n) for n in tail]
            regions = {d: [Region((*r, *full)) for r in index_map.regions(d)] for d in index_map.devices}
            index_map = IndexMap((self.total, *tail), regions)
        chunks: list[Chunk | None] = []
        with context.reporting():
            for device, hits in self.chunks:
                if hits is None:
                    chunks.append(None)
                    continue
                with device.active():
                    array = device.lib.ascontiguousarray(join(device, hits), dtype=np.int64)
                chunks.append(device.adopt(array, "nonzero"))
        return from_chunks(context, context.layout(index_map), chunks, np.dtype(np.int64))


def _hits(a: DistributedArray, name: str) -> _Hits:
    with a._context.lock:
        a._context.check()
        return _Hits(a._context, a, name)


def _none(a: DistributedArray, shape: tuple[int, ...]) -> DistributedArray:
    return place(a._context, np.empty(shape, np.int64), resolve_layout(a._context, None, shape))


@implements(np.nonzero)
def nonzero(a: ArrayLike) -> tuple[DistributedArray, ...]:
    """Positions of the elements that are not zero, in C order: one array for each axis.

    Parameters
    ----------
    a : array_like

    Returns
    -------
    tuple of DistributedArray
        Of ``int64``, and one axis each.

    Raises
    ------
    ValueError
        The array has no axes.

    Notes
    -----
    Communication: the counts; and, unless the array is replicated or in blocks of rows, one byte an element to bring it
    into C order. Each device keeps the positions that it finds.

    Memory on each device: its part of the result, once more.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     (i,) = da.nonzero(da.asarray([0, 3, 0, 5], layout=da.blocks(0)))
    ...     i.get()
    array([1, 3])
    """
    array = asarray(a)
    if not array.ndim:
        raise ValueError(
            "Calling nonzero on 0d arrays is not allowed. Use np.atleast_1d(scalar).nonzero() instead. If the context of "
            "this error is of the form `arr[nonzero(cond)]`, just use `arr[cond]`."
        )
    if not array.size:
        return tuple([_none(array, (0,)) for _ in range(array.ndim)])
    hits = _hits(array, "nonzero")
    return tuple([hits.column(axis) for axis in range(array.ndim)])


@implements(np.argwhere)
def argwhere(a: ArrayLike) -> DistributedArray:
    """Positions of the elements that are not zero, in C order: one a row.

    Parameters
    ----------
    a : array_like

    Returns
    -------
    DistributedArray
        Of ``int64``: a row for each element found, a column for each axis.

    Notes
    -----
    Communication: as for :func:`nonzero`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.argwhere(da.eye(2)).tolist()
    [[0, 0], [1, 1]]
    """
    array = asarray(a)
    if not array.ndim:
        count = int(bool(array))
        return _none(array, (count, 0))
    if not array.size:
        return _none(array, (0, array.ndim))
    return _hits(array, "argwhere").rows()


@implements(np.flatnonzero)
def flatnonzero(a: ArrayLike) -> DistributedArray:
    """Positions in the flattened array of the elements that are not zero.

    Parameters
    ----------
    a : array_like

    Returns
    -------
    DistributedArray
        Of ``int64``, and one axis.

    Notes
    -----
    Communication: as for :func:`nonzero`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.flatnonzero(da.asarray([0, 3, 0, 5])).tolist()
    [1, 3]
    """
    array = asarray(a)
    if not array.ndim:
        array = array._viewed(array._view_map().expand_dims(0))
    if not array.size:
        return _none(array, (0,))
    return _hits(array, "flatnonzero").flat()
