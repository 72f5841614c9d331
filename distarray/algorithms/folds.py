"""How one device folds its own chunks, and how a fold is carried from device to device.

``ufunc.reduce`` and ``ufunc.accumulate`` need the same two things: a local fold that NumPy and CuPy chunks share, and,
for ufuncs whose folds can't be taken apart, an order in which the devices along an axis take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappush
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from distarray.algorithms.short_rows import sum_short_rows
from distarray.array.functions import NOTHING
from distarray.devices import Chunk, Device, arrays_of, in_turn
from distarray.devices.arrays import AnyDType, DeviceArray, Library
from distarray.fusion import gpu_ufuncs
from distarray.fusion.conditions import WarningOnce
from distarray.fusion.folded import PendingFold
from distarray.fusion.kernels import reductions
from distarray.fusion.kernels.pending import as_array
from distarray.geometry import IndexMap, Range, Region
from distarray.storage import Operand
from distarray.transfer.execute import redistribute

if TYPE_CHECKING:
    from distarray.context import Context
    from distarray.layout import Layout

__all__ = [
    "ASSOCIATIVE", "UNFOLDED", "Relay", "Segment", "carry", "chain", "fold_on", "item_dtype", "local_reduce", "relay", "run_tasks",
    "ufunc_of",
]  # fmt: skip

ASSOCIATIVE = frozenset("bitwise_and bitwise_or bitwise_xor logical_and logical_or logical_xor gcd fmax fmin".split())
"""Folds that may be taken apart without a change in any bit, besides those that modes name."""

UNFOLDED = frozenset({np.power, np.arctan2, np.ldexp})
"""Ufuncs of which NumPy 2.4's own ``reduce`` is wrong along a contiguous axis: its loops read ahead of the running value."""

_LIBRARY = {
    "add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_or": "any", "logical_and": "all",
}  # fmt: skip

_BLOCK = 1 << 16
"""Elements of the axis that a carried fold copies at a time."""


def ufunc_of(device: Device, ufunc: np.ufunc) -> Any:
    """The ufunc of the device's own library."""
    if device.kind == "host":
        return ufunc
    return gpu_ufuncs.function_of(device.lib, ufunc)


def item_dtype(ufunc: np.ufunc, dtype: np.dtype[Any], other: np.dtype[Any], given: np.dtype[Any] | None) -> Any:
    """The dtype to which a fold whose running value has `dtype` converts the next elements, of dtype `other`."""
    kwargs: Any = {} if given is None else {"signature": (np.dtype(given), None, None)}
    try:
        return ufunc.resolve_dtypes((dtype, other, None), reduction=True, casting="unsafe", **kwargs)[1]
    except TypeError:  # a dtype= that is not the loop's: logical_or, less
        return ufunc.resolve_dtypes((dtype, other, None), reduction=True, casting="unsafe")[1]


def run_tasks(
    context: Context,
    tasks: Sequence[Callable[[], None]],
    nbytes: int,
    name: str,
    *,
    fallible: bool = False,
    behind: Callable[[], None] | None = None,
) -> None:
    """Run one task for each device. Floating-point warnings come once each, from the caller's line, as NumPy's do.

    `fallible`: data can make NumPy or a user's function raise; then, and under ``np.errstate("raise")``, all processes raise
    where one does.
    `behind` is called once the tasks have ended, before the warnings.
    """
    if context.kind != "host" and context.communicator is None:  # no conditions to report, nobody to agree with
        context.workers.run(tasks, nbytes)
        return
    guard = context.guarding(name, fallible=fallible or None)  # by the error state outside
    with WarningOnce(context, name), guard:
        context.workers.run(tasks, nbytes)
        if behind is not None:
            behind()


def local_reduce(
    device: Device,
    ufunc: np.ufunc,
    array: Any,  # an array, or an expression that stands for one
    out: Any,  # NumPy's or CuPy's, for functions of either
    axes: tuple[int, ...],
    given: Any,  # what NumPy takes as a dtype, None for its own choice
    initial: object,
    mask: DeviceArray | None,
) -> None:
    """``ufunc.reduce(array, axes, dtype=given, out=out, initial=initial, where=mask)`` with the axes kept or dropped as
    `out` has them. `array` is not empty along the axes. `initial` None starts from the first element."""
    if type(array) is PendingFold:
        array.fold(ufunc, given, out)
        return
    keepdims = out.ndim == array.ndim
    if device.kind == "host" and ufunc not in UNFOLDED:
        axis: Any = axes[0] if len(axes) == 1 else axes
        plain = ufunc is np.add and mask is None and initial is NOTHING and given in (None, array.dtype)
        if plain and axis == array.ndim - 1 and sum_short_rows(array, out):
            return
        where = True if mask is None else mask
        ufunc.reduce(array, axis=axis, dtype=given, out=out, keepdims=keepdims, initial=initial, where=where)
        return
    lib = device.lib
    name = _LIBRARY.get(ufunc.__name__)
    own = name is not None and bool(axes) and mask is None
    if own and reductions.reduce(lib, ufunc.__name__, array, out, axes):
        name = ""
    else:
        stored = as_array(array)
        if own and stored is not array and reductions.reduce(lib, ufunc.__name__, stored, out, axes):
            name = ""
        array = stored
    if name is None or not axes:
        _reduce_by_slices(device, ufunc, array, out, axes, given, initial, mask)
        return
    if mask is not None:
        idle = initial if ufunc.identity is None else ufunc.identity
        array = lib.where(mask, array.astype(out.dtype), gpu_ufuncs.constant(lib, idle, out.dtype))
    if name:
        kwargs = {"dtype": out.dtype} if name in ("sum", "prod") else {}
        if (
            kwargs and array.dtype.kind == "c" and out.dtype.kind != "c"
        ):  # CuPy's kernels make no bool of a complex number
            array = array != 0 if out.dtype.kind == "b" else array.real
        out[...] = getattr(lib, name)(array, axis=axes, keepdims=keepdims, **kwargs)
    if initial is not NOTHING and initial is not None:
        ufunc_of(device, ufunc)(out, gpu_ufuncs.constant(lib, initial, out.dtype), out=out)


def _reduce_by_slices(
    device: Device,
    ufunc: np.ufunc,
    array: DeviceArray,
    out: DeviceArray,
    axes: tuple[int, ...],
    given: AnyDType | None,
    initial: object,
    mask: DeviceArray | None,
) -> None:
    """A reduction for libraries without ``reduce``: slice by slice, in order."""
    lib, call = device.lib, ufunc_of(device, ufunc)
    rest = tuple(axis for axis in range(array.ndim) if axis not in axes)
    shape = tuple(array.shape[axis] for axis in rest)
    flat = array.transpose((*axes, *rest)).reshape((-1, *shape))
    flags = None if mask is None else lib.broadcast_to(mask, array.shape).transpose((*axes, *rest)).reshape(flat.shape)
    start = ufunc.identity if initial is NOTHING else initial
    first = 0
    if start is None:
        value, first = flat[0].astype(out.dtype), 1
    else:
        value = lib.empty(shape, out.dtype)
        gpu_ufuncs.fill(lib, value, start)
    flat = flat.astype(item_dtype(ufunc, out.dtype, array.dtype, given), copy=False)
    for i in range(first, flat.shape[0]):
        value = _step(lib, call, value, flat[i], None if flags is None else flags[i], out.dtype)
    out[...] = value.reshape(out.shape)


def _step(
    lib: Library,
    call: Callable[..., Any],
    value: object,
    item: DeviceArray,
    flag: DeviceArray | None,
    dtype: np.dtype[Any],
) -> Any:
    if flag is None:
        return call(value, item).astype(dtype)
    if lib is not np:
        return lib.where(flag, call(value, item).astype(dtype), value)
    result = np.array(value, dtype)  # what the mask leaves out is not computed: it may fail, as integer powers do
    result[flag] = call(np.asarray(value)[flag], np.asarray(item)[flag]).astype(dtype)
    return result


LONGEST = 8
"""Segments a device that a chain has at most: each is a turn for all, and in blocks there is one a device."""


class Segment(NamedTuple):
    """A part of one chunk that a carried fold passes through: `key` cuts it out of the array of chunk `chunk`."""

    chunk: int
    key: tuple[slice, ...]
    device: int


def chain(index_map: IndexMap, axis: int, *, bounded: bool = True) -> list[tuple[Region, list[Segment]]] | None:
    """The order in which chunks take turns along an axis: for each part of the rest, segments that tile the axis.

    Parts are regions of the array with a full range along `axis`. None where the chunks along the axis are strided, so
    that nobody holds a run of it; `bounded`: also where a value would be passed on more often than moving the array into
    blocks is worth.
    """
    shape, n = index_map.shape, index_map.shape[axis]
    whole = Range.full(n)

    def flat(region: Region) -> Region:
        return Region((*region[:axis], whole, *region[axis + 1 :]))

    held: dict[int, set[Region]] = {}
    for device, region in index_map.chunks:
        if region.size:
            if region[axis].step != 1:
                return None
            held.setdefault(device, set()).add(flat(region))
    result = []
    for cell in IndexMap(shape, held).cells:
        segments: list[Segment] = []
        runs = sorted((part[axis].start, part[axis].stop, i) for i, part in index_map.query(cell.region))
        reached: dict[int, list[tuple[int, int]]] = {}  # by device, the runs that have begun: (-stop, chunk), a heap
        every: list[tuple[int, int]] = []
        place, last, seen = 0, -1, 0
        while place < n:
            while seen < len(runs) and runs[seen][0] <= place:
                _, stop, i = runs[seen]
                heappush(reached.setdefault(index_map.chunks[i][0], []), (-stop, i))
                heappush(every, (-stop, i))
                seen += 1
            own = reached.get(last)  # the device goes on where it can; else whoever reaches farthest
            best = own[0] if own and -own[0][0] > place else every[0] if every else (0, 0)
            stop, i = -best[0], best[1]
            if stop <= place or (bounded and len(segments) >= LONGEST * len(index_map.devices)):
                return None
            device = index_map.chunks[i][0]
            taken = Region((*cell.region[:axis], Range.of(place, 1, stop - place), *cell.region[axis + 1 :]))
            segments.append(Segment(i, index_map.chunks[i][1].locate(taken).slices, device))
            place, last = stop, device
        result.append((cell.region, segments))
    return result


class Relay(NamedTuple):
    """The chains along an axis: where the running value of each stands in an array whose length along the axis is 1, its
    segments, and for each turn how the running values lie while their devices work on them."""

    chains: list[tuple[Region, list[Segment]]]
    turns: list[Layout]


def relay(context: Context, layout: Layout, axis: int) -> Relay | None:
    """The chains of a layout, with their turns; None where :func:`chain` gives none."""
    key = ("relay", layout, axis)
    found: Any = context.layouts.remembered(key)
    if found is None:
        parts = chain(layout.index_map, axis)
        found = context.layouts.remember(key, (None if parts is None else _turns(context, layout.shape, parts, axis),))
    return found[0]  # type: ignore[no-any-return]


def _turns(context: Context, shape: tuple[int, ...], parts: list[tuple[Region, list[Segment]]], axis: int) -> Relay:
    first = Range(0, 1, 1)
    chains = [(Region((*cell[:axis], first, *cell[axis + 1 :])), segments) for cell, segments in parts]
    turns = []
    for turn in range(max((len(segments) for _, segments in parts), default=1)):
        homes: dict[int, list[Region]] = {}
        for region, segments in chains:
            homes.setdefault(segments[min(turn, len(segments) - 1)].device, []).append(region)
        turns.append(context.layout(IndexMap((*shape[:axis], 1, *shape[axis + 1 :]), homes)))
    return Relay(chains, turns)


def carry(
    context: Context,
    name: str,
    way: Relay,
    dtype: np.dtype[Any],
    step: Callable[[Device, Segment, Any, Any], None],
    *,
    fallible: bool = False,
) -> tuple[Layout, list[Chunk | None]]:
    """Pass running values along chains of devices, all chains side by side. Every process walks all chains, and takes the
    steps of its own devices.

    Parameters
    ----------
    way : Relay
        The chains.
    step : callable
        ``step(device, segment, before, after)`` writes into `after` what becomes of the running value `before` (None at
        the first segment) behind a segment.
    fallible : bool
        As for `run_tasks`.

    Returns
    -------
    Layout, list of Chunk or None
        The last values, where the chains ended.

    Notes
    -----
    Communication: the running values, wherever a chain goes on on another device.
    """
    values: dict[Region, Chunk] = {}  # on this process's devices
    for turn, layout in enumerate(way.turns):
        before_it = way.turns[max(0, turn - 1)]
        if layout is not before_it:
            held = [values.get(region) for _, region in before_it.chunks]
            source = Operand(before_it, arrays_of(held), dtype)
            moved = redistribute(context, source, layout, operation=name, chunks=held)
            values = {
                region: chunk for (_, region), chunk in zip(layout.chunks, moved, strict=True) if chunk is not None
            }
        tasks: dict[int, list[Callable[[], None]]] = {}
        nbytes = 0
        with context.guarding(name, fallible=fallible or None):
            for region, segments in way.chains:
                if turn >= len(segments):
                    continue
                segment = segments[turn]
                device = context.by_id[segment.device]
                if device.process != context.process:
                    continue
                fresh = device.empty(region.shape, dtype, name)
                before = values[region].array if turn else None
                tasks.setdefault(device.id, []).append(partial(step, device, segment, before, fresh.array))
                values[region] = fresh
                nbytes += fresh.nbytes
            context.workers.run([partial(in_turn, work) for work in tasks.values()], nbytes)
    last = way.turns[-1]
    return last, [values.get(region) for _, region in last.chunks]


def fold_on(
    device: Device,
    ufunc: np.ufunc,
    before: DeviceArray,
    array: DeviceArray,
    after: DeviceArray,
    axis: int,
    given: AnyDType | None,
    mask: DeviceArray | None,
) -> None:
    """``after = fold(before, array[0], array[1], …)`` along an axis, from the left; `before` and `after` keep the axis."""
    lib, call = device.lib, ufunc_of(device, ufunc)
    n = array.shape[axis]
    head = (slice(None),) * axis
    if (
        device.kind == "host"
        and ufunc not in UNFOLDED
        and mask is None
        and item_dtype(ufunc, after.dtype, array.dtype, given) == after.dtype
    ):
        value = before
        rows = max(1, _BLOCK // max(1, after.size))
        for low in range(0, n, rows):
            block = array[(*head, slice(low, low + rows))]
            joined = np.concatenate([value, block], axis=axis, dtype=after.dtype, casting="unsafe")
            value = ufunc.reduce(joined, axis=axis, dtype=given, keepdims=True, initial=None)
        after[...] = value
        return
    value = before
    array = array.astype(item_dtype(ufunc, after.dtype, array.dtype, given), copy=False)
    for i in range(n):
        key = (*head, slice(i, i + 1))
        value = _step(lib, call, value, array[key], None if mask is None else mask[key], after.dtype)
    after[...] = value
