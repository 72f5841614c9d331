"""Boolean masks over an array's leading axes: reads and writes that never turn the mask into index arrays.

A write of something that broadcasts over the mask is recorded as a masked assignment: with mask and array aligned,
nothing moves. A read, or a write of one value for each True, works on C-order intervals, one or more a device: only the
number of True elements in each has to be agreed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from distarray.algorithms.host_masks import Pieces, compress, scatter
from distarray.algorithms.local import arrays_in
from distarray.array.aliases import AnyArray
from distarray.array.layouts import resolve_layout
from distarray.array.place import place
from distarray.array.state import from_chunks
from distarray.array.writing import ASSIGNED, check_writable
from distarray.context import Context
from distarray.devices import Chunk, Device, in_turn
from distarray.devices.arrays import DeviceArray
from distarray.fusion.expr import ASTYPE, Node
from distarray.fusion.kernels import reductions, selections
from distarray.fusion.write import write
from distarray.geometry import IndexMap, Range, Region
from distarray.geometry.reshape import flat_blocks
from distarray.layout import Layout
from distarray.storage import Operand, Storage, writable_chunks
from distarray.transfer.execute import allocate, resolve
from distarray.transfer.ledger import watching
from distarray.transfer.to_host import gather_to_host

if TYPE_CHECKING:
    from distarray.array.state import DistributedArray

__all__ = ["check_mask", "assignable", "mask_count", "mask_read", "mask_write", "place_like"]


def check_mask(mask_shape: tuple[int, ...], shape: tuple[int, ...], first: int = 0) -> None:
    """Raise NumPy's IndexError unless a mask's shape is that of the axes from `first` on."""
    for axis, size in enumerate(mask_shape):
        if size != shape[first + axis]:
            raise IndexError(
                f"boolean index did not match indexed array along axis {first + axis}; size of axis is "
                f"{shape[first + axis]} but size of corresponding boolean axis is {size}"
            )


def check_dimensions(ndim: int) -> None:
    """Raise NumPy's TypeError unless a value may stand for the elements of a mask of all axes, given alone."""
    if ndim > 1:
        raise TypeError(
            f"NumPy boolean array indexing assignment requires a 0 or 1-dimensional input, input has {ndim} dimensions"
        )


def place_like(x: DistributedArray, value: DeviceArray, axes: Sequence[int]) -> DistributedArray:
    """A host array on the devices of `x`, cut as `x` is along the axes that its own stand for. Nothing moves between
    devices: every process has the value."""
    layout = x._operand("assignment").layout
    mapping: dict[int, list[Region]] = {}
    for device in layout.devices:
        mapping[device] = []
        for region in layout.index_map.regions(device):
            if region.size or not x.size:
                parts = [Range.full(1) if n == 1 else region[a] for a, n in zip(axes, value.shape, strict=True)]
                mapping[device].append(Region(parts))
    return place(x._context, value, x._context.layout(IndexMap(value.shape, mapping)))


def nothing(x: DistributedArray, shape: tuple[int, ...]) -> DistributedArray:
    """An array without elements, of the dtype of `x`."""
    context = x._context
    layout = resolve_layout(context, None, shape)
    return from_chunks(context, layout, allocate(context, layout, x.dtype), x.dtype)


# --- intervals --------------------------------------------------------------------------------------------------------


class _WorkLayout(NamedTuple):
    """The layout in which a mask is worked on. `order` lists its chunks by where they begin in C order; where it is
    `replicated`, each chunk is all of it."""

    layout: Layout
    order: tuple[int, ...]
    replicated: bool


def _interval(region: Region, shape: tuple[int, ...]) -> bool:
    """Whether a region is an interval of the array flattened in C order, in that order."""
    axis = 0
    while axis < len(shape) and region[axis].size == 1:
        axis += 1
    if axis < len(shape) and region[axis].step != 1:
        return False
    return all(region[a].size == shape[a] for a in range(axis + 1, len(shape)))


def _cut(layout: Layout, shape: tuple[int, ...]) -> IndexMap | None:
    """A layout's own map over its leading axes, of `shape`, where that cuts them in disjoint intervals."""
    k = len(shape)
    mapping: dict[int, list[Region]] = {}
    for device, region in layout.chunks:
        if not region.size:
            continue
        lead = Region(region[:k])
        if any(region[a].size != layout.shape[a] for a in range(k, len(region))) or not _interval(lead, shape):
            return None
        mapping.setdefault(device, []).append(lead)
    found = IndexMap(shape, mapping)
    return found if found.is_disjoint and found.covers else None


def _work(context: Context, held: Layout, shape: tuple[int, ...], mask: Layout | None) -> _WorkLayout:
    """Where to work: as the array or the mask lies, if that is in intervals; else in even intervals."""
    key = ("mask", held, shape, mask)
    found = context.layouts.remembered(key)
    if found is None:
        found = context.layouts.remember(key, _choose(context, held, shape, mask))
    return found  # type: ignore[no-any-return]


def _choose(context: Context, held: Layout, shape: tuple[int, ...], mask: Layout | None) -> _WorkLayout:
    if held.is_replicated and (mask is None or (mask.is_replicated and set(held.devices) <= set(mask.devices))):
        whole = Region.full(shape)
        layout = context.layout(IndexMap(shape, {device: [whole] for device in held.devices}))
        return _WorkLayout(layout, tuple(range(len(layout.chunks))), True)
    index_map = _cut(held, shape)
    if index_map is None and mask is not None:
        index_map = _cut(mask, shape)
    if index_map is None:
        size = math.prod(shape)
        devices = held.devices or context.group.ids[:1]  # of an array that no device holds, all of it the identity
        count = len(devices)
        boxes = flat_blocks(shape, [size * i // count for i in range(count + 1)])
        index_map = IndexMap(shape, dict(zip(devices, boxes, strict=True)))
    layout = context.layout(index_map)
    order = sorted(range(len(layout.chunks)), key=lambda i: layout.chunks[i][1].first)
    return _WorkLayout(layout, tuple(order), False)


def _grown(context: Context, layout: Layout, trailing: tuple[int, ...]) -> Layout:
    """A layout of leading axes, with whole trailing ones."""
    if not trailing:
        return layout
    rest = Region.full(trailing)
    mapping = {d: [Region((*r, *rest)) for r in layout.index_map.regions(d)] for d in layout.devices}
    return context.layout(IndexMap((*layout.shape, *trailing), mapping))


def _uploaded(context: Context, array: DeviceArray, layout: Layout, label: str) -> list[Any]:
    """A host array's part for each chunk of a layout; None for chunks of other processes."""
    parts: list[Any] = []
    with context.reporting():
        for device_id, region in layout.chunks:
            device = context.by_id[device_id]
            here = device.process == context.process
            parts.append(device.from_host(array[region.slices], label=label).array if here else None)
    return parts


class _Prepared(NamedTuple):
    """A mask where it is worked on, and how many True each chunk has, with those before it in C order."""

    work: _WorkLayout
    masks: list[Any]
    counts: tuple[int, ...]
    offsets: tuple[int, ...]
    total: int


def _prepare(x: DistributedArray, mask: Any, operation: str) -> _Prepared:
    context = x._context
    held = x._operand(operation).layout
    if isinstance(mask, np.ndarray):
        work = _work(context, held, mask.shape, None)
        parts = [mask[region.key] for _, region in work.layout.chunks]
        counts = tuple([int(np.count_nonzero(part)) for part in parts])
        if context.kind == "host":  # which read it where it lies
            masks = [part if part.flags.c_contiguous else part.copy() for part in parts]
        else:
            masks = _uploaded(context, mask, work.layout, "a mask")
    else:
        given = mask._operand(operation)
        work = _work(context, held, mask.shape, given.layout)
        masks = arrays_in(context, given, work.layout, operation)
        counts = _counts(context, work.layout, masks)
    if work.replicated:
        return _Prepared(work, masks, counts, (0,) * len(counts), counts[0])
    offsets = [0] * len(counts)
    total = 0
    for i in work.order:
        offsets[i] = total
        total += counts[i]
    return _Prepared(work, masks, counts, tuple(offsets), total)


def _counts(context: Context, layout: Layout, masks: Sequence[Any]) -> tuple[int, ...]:
    """How many True each chunk holds, agreed by all processes: one number for each chunk is fetched."""
    mapping: dict[int, list[Region]] = {}
    arrays: list[Any] = []
    with context.reporting():
        for i, ((device_id, _), mask) in enumerate(zip(layout.chunks, masks, strict=True)):
            mapping.setdefault(device_id, []).append(Region([Range(i, 1, 1)]))
            if mask is None:
                arrays.append(None)
                continue
            device = context.by_id[device_id]
            with device.active():
                total = device.lib.empty(1, np.int64)
                axes = tuple(range(mask.ndim))
                if device.kind == "host":
                    total = np.array([np.count_nonzero(mask)], np.int64)
                elif not reductions.reduce(device.lib, "add", mask, total, axes):
                    total = device.lib.sum(mask, dtype=np.int64).reshape(1)
                arrays.append(total)
    if not arrays:
        return ()
    small = context.layout(IndexMap((len(arrays),), mapping))
    return tuple([int(n) for n in gather_to_host(context, Operand(small, arrays, np.dtype(np.int64)))])


def mask_count(x: DistributedArray, mask: DeviceArray) -> int:
    """The number of True elements of a mask over the leading axes of `x`."""
    return 0 if 0 in mask.shape else _prepare(x, mask, "a boolean mask").total


def _result_layout(
    context: Context, prepared: _Prepared, trailing: tuple[int, ...]
) -> tuple[Layout, list[tuple[tuple[int, ...], int]]]:
    """The layout of the selected elements, and for each of its chunks the work chunks that make it up, with their number
    of elements. Neighbours of one device become one chunk."""
    work, counts = prepared.work, prepared.counts
    rest = Region.full(trailing)
    runs: list[tuple[int, list[int]]] = []
    for i in work.order:
        device = work.layout.chunks[i][0]
        if runs and runs[-1][0] == device and not work.replicated:
            runs[-1][1].append(i)
        else:
            runs.append((device, [i]))
    mapping: dict[int, list[Region]] = {device: [] for device in work.layout.devices}
    parts: dict[tuple[int, Region], tuple[tuple[int, ...], int]] = {}
    for device, members in runs:
        count = sum(counts[i] for i in members)
        region = Region((Range.of(prepared.offsets[members[0]], 1, count), *rest))
        mapping[device].append(region)
        parts[device, region] = (tuple(members), count)
    layout = context.layout(IndexMap((prepared.total, *trailing), mapping))
    return layout, [parts[chunk] for chunk in layout.chunks]


# --- reads and writes -------------------------------------------------------------------------------------------------


def mask_read(x: DistributedArray, mask: AnyArray) -> DistributedArray:
    """``x[mask]``: 1-d over the mask's axes, each device keeping what it selects of its C-order interval."""
    context = x._context
    with context.lock:
        trailing = x.shape[mask.ndim :]
        if 0 in mask.shape:
            return nothing(x, (0, *trailing))
        prepared = _prepare(x, mask, "a boolean mask")
        if 0 in (prepared.total, *trailing):
            return nothing(x, (prepared.total, *trailing))
        layout, parts = _result_layout(context, prepared, trailing)
        grown = _grown(context, prepared.work.layout, trailing)
        arrays = arrays_in(context, x._operand("a boolean mask"), grown, "a boolean mask")
        chunks: list[Chunk | None] = []
        tasks: dict[int, list[Callable[[], None]]] = {}
        nbytes = 0
        with context.reporting():
            for (device_id, region), (members, _) in zip(layout.chunks, parts, strict=True):
                device = context.by_id[device_id]
                if device.process != context.process:
                    chunks.append(None)
                    continue
                if device.kind == "host":
                    chunk = device.empty(region.shape, x.dtype, "a boolean mask")
                    chunks.append(chunk)
                    at = 0
                    for i in members:
                        into = chunk.array[at : at + prepared.counts[i]]
                        at += prepared.counts[i]
                        nbytes += arrays[i].nbytes
                        tasks.setdefault(device_id, []).append(partial(compress, arrays[i], prepared.masks[i], into))
                    continue
                with device.active():
                    selected = [_chosen(device, arrays[i], prepared.masks[i], prepared.counts[i]) for i in members]
                    joined = selected[0] if len(selected) == 1 else device.lib.concatenate(selected)
                    joined = device.lib.ascontiguousarray(joined)
                chunks.append(device.adopt(joined.reshape(region.shape), "a boolean mask"))
            context.workers.run([partial(in_turn, work) for work in tasks.values()], nbytes)
        return from_chunks(context, layout, chunks, x.dtype)


def _chosen(device: Device, array: DeviceArray, mask: DeviceArray, count: int) -> Any:
    """``array[mask]`` on a GPU."""
    found = selections.compress(device.lib, array, mask, count)
    return array[mask] if found is None else found


def assign_where(
    x: DistributedArray,
    mask: DistributedArray,
    value: Any,  # an array of either kind, or a number
) -> None:
    """``x = value where mask``, both broadcast to the shape of `x`: a recorded masked write."""
    check_writable(x, *ASSIGNED)
    storage = x._own()
    mask._own()
    operand = value._arg() if not isinstance(value, np.generic) else value
    args = (operand, mask._arg(), x._arg())
    node = Node(x._context, ASTYPE, args, {"dtype": x.dtype}, x.shape, x.dtype, 1, dict(np.geterr()), True)
    write(storage, x._view, node, private=1)


def _mask_array(x: DistributedArray, mask: Any) -> DistributedArray:
    """The mask as an array that broadcasts over the trailing axes of `x`."""
    k = mask.ndim
    if isinstance(mask, np.ndarray):
        return place_like(x, mask.reshape(mask.shape + (1,) * (x.ndim - k)), range(x.ndim))
    result: DistributedArray = mask
    if k < x.ndim:
        result = result._viewed(result._view_map().expand_dims(tuple(range(k, x.ndim))))
    return result


def mask_write(
    x: DistributedArray,
    mask: DeviceArray,
    value: Any,  # an array of either kind, or a number
    *,
    only: bool = True,
) -> None:
    """``x[mask] = value`` for a NumPy scalar, a host array or a distributed one. `only`: the mask is the whole key."""
    context = x._context
    trailing = x.shape[mask.ndim :]
    with context.lock:
        if not isinstance(value, np.generic):
            if only and not trailing:
                check_dimensions(value.ndim)
            given = value.shape
            while value.ndim > len(trailing) and value.shape[0] == 1:
                value = value[0, ...]
            if value.ndim > len(trailing) or not assignable(value.shape, trailing):
                prepared = None if 0 in mask.shape else _prepare(x, mask, "assignment")
                total = 0 if prepared is None else prepared.total
                if not assignable(given, (total, *trailing)):
                    _refuse(given, total, trailing, only)
                if prepared is None or 0 in (total, *trailing):
                    return
                if _scattered(x, prepared, value):
                    return
                value = _spread(x, prepared, value)
            elif isinstance(value, np.ndarray):
                value = place_like(x, value, range(x.ndim - value.ndim, x.ndim))
        if x.size:
            assign_where(x, _mask_array(x, mask), value)


def assignable(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether NumPy assigns a value of `shape` to an indexing result of shape `target`: it broadcasts, once leading axes
    have fallen away, by a reshape that keeps the size."""
    tail = shape[len(shape) - len(target) :] if len(shape) > len(target) else shape
    if prod(tail) != prod(shape):
        return False
    shape = tail
    return all(n in (1, m) for n, m in zip(shape[::-1], target[::-1], strict=False))


def _refuse(shape: tuple[int, ...], total: int, trailing: tuple[int, ...], only: bool) -> None:
    if only and not trailing:
        raise ValueError(
            f"NumPy boolean array indexing assignment cannot assign {shape[0]} input values to the {total} output values "
            "where the mask is true"
        )
    raise mismatch(shape, (total, *trailing))


def mismatch(shape: tuple[int, ...], target: tuple[int, ...]) -> ValueError:
    """NumPy's error for a value that does not fit an indexing result."""
    given, wanted = (str(s).replace(" ", "") for s in (shape, target))
    return ValueError(
        f"shape mismatch: value array of shape {given} could not be broadcast to indexing result of shape {wanted}"
    )


def _scattered(x: DistributedArray, prepared: _Prepared, value: Any) -> bool:
    """Write one value for each True straight into the chunks, where the mask lies as they do, on host devices of one process.
    False where nothing has been written: values that have to be converted go the other way."""
    context = x._context
    storage = x._own()
    if context.kind != "host" or context.communicator is not None or prepared.work.replicated or not x.writable:
        return False
    if type(storage) is not Storage or storage.exposed or watching.get() is not None or value.dtype != x.dtype:
        return False
    resolve(context, storage.version, "assignment")
    trailing = x.shape[len(prepared.work.layout.shape) :]
    seen = context.layouts.visible(storage.version.layout, x._view_map())
    if seen is None or seen.twins or not seen.layout.index_map.is_disjoint:  # every copy is written, or none
        return False
    places = {chunk: i for i, chunk in enumerate(seen.layout.chunks)}
    grown = _grown(context, prepared.work.layout, trailing)
    if any(chunk not in places for chunk in grown.chunks):
        return False
    held = [places[chunk] for chunk in grown.chunks]
    layout, parts = _result_layout(context, prepared, trailing)
    shape = (prepared.total, *trailing)
    if isinstance(value, np.ndarray):
        arrays = [np.broadcast_to(value, shape)]
    else:
        if value._own().exposed:
            return False
        source = value._viewed(value._view_map().broadcast_to(shape))._operand("assignment")
        held_in = _in_order(source)
        arrays = arrays_in(context, source, layout, "assignment") if held_in is None else held_in
    before = [chunk.array for chunk in storage.version.chunks if chunk is not None]
    arrays, masks = ([_apart(array, before) for array in each] for each in (arrays, prepared.masks))
    values = Pieces(arrays)
    with context.reporting():
        version = writable_chunks(storage, [seen.sources[i] for i in held])
        tasks: dict[int, list[Callable[[], None]]] = {}
        nbytes = 0
        for (device_id, region), (members, _) in zip(layout.chunks, parts, strict=True):
            start = region[0].start
            for i in members:
                chunk, count = version.chunks[seen.sources[held[i]]], prepared.counts[i]
                assert chunk is not None
                target = seen.show(held[i], chunk.array, chunk.device.xp)
                nbytes += target.nbytes
                tasks.setdefault(device_id, []).append(partial(scatter, target, masks[i], count, values, start))
                start += count
        context.workers.run([partial(in_turn, work) for work in tasks.values()], nbytes)
    return True


def _in_order(source: Operand) -> list[Any] | None:
    """The chunks of values whose rows lie one behind the other in them, each once; None of others."""
    shape = source.layout.shape
    rows = sorted(
        zip([region for _, region in source.layout.chunks], source.arrays, strict=True), key=lambda row: row[0][0]
    )
    if rows and rows[0][0].shape == shape:
        return [rows[0][1]]
    stop = 0
    for region, _ in rows:
        if region[0].step != 1 or region.shape[1:] != shape[1:] or (region.size and region[0].start != stop):
            return None
        stop = region[0].stop if region.size else stop
    return [array for region, array in rows if region.size] if stop == shape[0] else None


def _apart(array: DeviceArray, written: Sequence[Any]) -> Any:
    """An array, or a copy where it shares memory with what is about to be written."""
    return array.copy() if any(np.may_share_memory(array, each) for each in written) else array


def _spread(x: DistributedArray, prepared: _Prepared, value: Any) -> DistributedArray:
    """One value for each True, put where the mask is True in an array shaped as `x`; anything elsewhere."""
    context = x._context
    trailing = x.shape[len(prepared.work.layout.shape) :]
    layout, parts = _result_layout(context, prepared, trailing)
    shape = (prepared.total, *trailing)
    if isinstance(value, np.ndarray):
        arrays = _uploaded(context, np.broadcast_to(value, shape), layout, "values")
    else:
        source = value._viewed(value._view_map().broadcast_to(shape))._operand("assignment")
        arrays = arrays_in(context, source, layout, "assignment")
    grown = _grown(context, prepared.work.layout, trailing)
    with context.reporting():
        chunks = allocate(context, grown, x.dtype, label="values")
        for (device_id, _), (members, _), values in zip(layout.chunks, parts, arrays, strict=True):
            device, start = context.by_id[device_id], 0
            for i in members:
                chunk = chunks[i]
                if chunk is None:
                    continue
                mask, count = prepared.masks[i], prepared.counts[i]
                part = values[start : start + count]
                start += count
                if device.kind == "host":  # what stands elsewhere is never read
                    scatter(chunk.array, mask, count, Pieces([part]))
                    continue
                device.fill(chunk.array, 0)
                with device.active():
                    chunk.array[device.lib.nonzero(mask)] = part
    return from_chunks(context, grown, chunks, x.dtype)
