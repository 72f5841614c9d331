"""``ufunc.reduce`` of every binary ufunc: the engine of all reductions.

It exists in one place because one rule decides them all: what a device holds of each line along the reduced axes. Where
it holds whole lines, it reduces them and nothing moves. Where lines are split, the folds that a mode names leave partial
results, and nothing moves yet; the other folds are carried along the line from device to device, in order.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from distarray.algorithms.again import learn_fold, learn_waiting
from distarray.algorithms.fold_plans import COUNTED, FoldPlan, Reduction, Spread, plan_of_pieces, planned, whole_lines
from distarray.algorithms.folds import (
    ASSOCIATIVE,
    Segment,
    carry,
    fold_on,
    item_dtype,
    local_reduce,
    relay,
    run_tasks,
    ufunc_of,
)
from distarray.algorithms.small_folds import AT_ONCE, fold_all, learn_small_fold
from distarray.array.aliases import ArrayLike, Axis, DTypeLike
from distarray.array.dtypes import check_dtype, loop_dtype
from distarray.array.functions import NOTHING
from distarray.array.layouts import resolve_layout
from distarray.array.place import place
from distarray.array.state import DistributedArray, astype_node, from_chunks
from distarray.context import Context
from distarray.devices import Device, arrays_of, in_turn
from distarray.devices.arrays import DeviceArray
from distarray.fusion.conditions import WarningOnce
from distarray.fusion.demand import demand
from distarray.fusion.expr import ASTYPE, record, warn_complex
from distarray.fusion.folded import PendingFold, unfolded
from distarray.fusion.kernels.later import Later, LaterChunk, Readers
from distarray.fusion.kernels.pending import WHOLE, PendingProgram, in_order
from distarray.fusion.kernels.reductions import spread, sum_squares
from distarray.fusion.unstored import unstored
from distarray.geometry import blocks
from distarray.layout import Layout
from distarray.modes import is_half, roomy
from distarray.storage import Operand, Storage
from distarray.transfer.execute import allocate, combine, redistribute

__all__ = [
    "as_taken",
    "computed_in",
    "in_blocks",
    "learn",
    "mask_chunks",
    "moments",
    "normalized",
    "place_operand",
    "real_out",
    "reduced",
    "small",
]


def place_operand(context: Context, obj: object) -> DistributedArray:
    """A host or device array as an array of `context`."""
    source = obj if hasattr(obj, "dtype") and hasattr(obj, "shape") else np.asarray(obj)
    return place(context, source, resolve_layout(context, None, source.shape, itemsize=source.dtype.itemsize))


def small(shape: Sequence[int], dtype: np.dtype[Any]) -> Any:
    """An array with at most one element, to ask NumPy what it would do with one of `shape`."""
    return np.ones([n and 1 for n in shape], dtype)


def computed_in(ufunc: np.ufunc, dtype: np.dtype[Any], out: np.dtype[Any]) -> Any:
    """The dtype of a reduction of `dtype` into an ``out=`` of dtype `out`."""
    return ufunc.resolve_dtypes((out, dtype, None), casting="unsafe", reduction=True)[2]


def real_out(computed: np.dtype[Any], out: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of an ``out=`` to ask NumPy about: where imaginary parts are dropped, which it allows, that is warned of here."""
    if computed.kind != "c" or out.kind not in "iuf":
        return out
    warn_complex()
    return computed


def normalized(axis: Axis, ndim: int) -> tuple[int, ...]:
    """The axes that an accepted ``axis=`` names, ascending."""
    if axis is None:
        return tuple(range(ndim))
    listed = axis if isinstance(axis, tuple) else (axis,)
    return tuple(sorted([operator.index(i) % ndim for i in listed])) if ndim else ()


def as_taken(ufunc: np.ufunc, a: DistributedArray, dtype: DTypeLike) -> DistributedArray:
    """The array that a fold with this ``dtype=`` takes: of complex values their real parts, which is warned of here, once,
    and not by every chunk."""
    if dtype is not None and np.dtype(dtype).hasobject:
        check_dtype(dtype)
    if a.dtype.kind != "c" or dtype is None:
        return a
    try:
        taken = item_dtype(ufunc, np.dtype(dtype), a.dtype, cast("Any", dtype))
    except TypeError:  # the call itself will refuse this dtype
        return a
    if taken.kind not in "iuf":
        return a
    warn_complex()
    return DistributedArray._of_node(astype_node(a, taken))


def reduced(
    context: Context,
    call: Reduction,
    a: DistributedArray,
    where: Any,  # True, or a mask of either kind
) -> DistributedArray:
    with context.lock:
        context.check()
        if not a.size:
            return _of_nothing(context, call, a)
        ufunc_of(context.local_devices[0], call.ufunc)  # refuses a ufunc that the devices lack, on every process
        half = call.mode in COUNTED and is_half(call.dtype)
        found = a._operand(call.ufunc.__name__) if half else _operand(call, a, where)
        masks = None if where is True else mask_chunks(context, where, found.layout)
        plan = planned(context, call, found.layout)
        if plan is not None:
            if plan.mode is None or not half:
                storage = a._storage
                readers = () if storage is None else (storage.version,)
                exposed = storage is not None and storage.exposed
                return _fold(context, call, found, masks, plan, None if exposed else readers)
            total = _fold(context, _widened(call), found, masks, plan)
            return DistributedArray._of_node(astype_node(total, call.dtype))
        if len(call.axes) == 1:
            return _carried(context, call, found, masks)
    return _axis_by_axis(context, call, a, where)


def learn(key: tuple[Any, ...], call: Reduction, a: DistributedArray, result: DistributedArray) -> None:
    """Let calls like this one of small arrays go straight to their kernels, or NumPy: see `again` and `small_folds`."""
    storage = a._storage
    if storage is None or a._map is not None or (call.mode in COUNTED and is_half(call.dtype)):
        return
    with a._context.lock:
        layout = storage.version.layout
        plan = planned(a._context, call, layout)
        if plan is None or plan.steady:
            return
        if a._context.kind != "host":
            made = result._storage
            if made is not None and any(type(chunk) is LaterChunk for chunk in made.version.chunks):
                learn_waiting(key, a, partial(_again_later, call, plan))
            else:
                learn_fold(key, a, call, plan.sources, result)
        elif not layout.is_partial and call.ufunc is not np.power:
            learn_small_fold(key, call, a, plan.layout, plan.sources)


def _widened(call: Reduction) -> Reduction:
    """A fold of half-precision values with partial results in a wider dtype, as in NumPy's own inner loops: those of half
    precision would overflow where the whole does not."""
    wide = roomy(call.dtype)
    given = call.initial is not NOTHING and call.initial is not None
    initial = wide.type(call.initial) if given else call.initial
    return call._replace(dtype=wide, given=wide, initial=initial)


def _of_nothing(context: Context, call: Reduction, a: DistributedArray) -> DistributedArray:
    """The reduction of an array without elements: the initial value everywhere."""
    shape = call.shape(a.shape)
    value: Any = np.empty((), call.dtype)
    if 0 not in shape:
        call.ufunc.reduce(np.empty(0, a.dtype), dtype=call.given, out=value, initial=call.initial)
    layout = resolve_layout(context, None, shape, itemsize=call.dtype.itemsize)
    return place(context, np.broadcast_to(value, shape), layout)


def moments(
    context: Context, a: DistributedArray, axes: tuple[int, ...], keepdims: bool, spread: Spread
) -> tuple[DistributedArray, bool] | None:
    """Sums of a recorded double-precision expression, and of its squares, along a new first axis, read in one pass; or at once
    what is made of them, where each device holds whole lines: then with True. None where the expression has to be evaluated
    first."""
    with context.lock:
        context.check()
        found = None if a._node is None else unstored(context, a._node)
        if found is None:
            return None
        whole = Reduction(np.add, axes, keepdims, spread.dtype, None, NOTHING, spread=spread)
        plan = planned(context, whole, found.layout)
        if plan is not None and plan.mode is None:
            return _fold(context, whole, found, None, plan), True
        call = Reduction(np.add, axes, keepdims, np.dtype(np.float64), None, NOTHING, squares=True)
        plan = planned(context, call, found.layout)
        assert plan is not None
        return _fold(context, call, found, None, plan), False


def _operand(call: Reduction, a: DistributedArray, where: ArrayLike) -> Operand:
    """The operand's chunks: as partial values where folding them and reducing them may change places; as expressions that
    are not stored where kernels fold those."""
    name = call.ufunc.__name__
    if a._node is not None and call.mode is not None and where is True:
        recorded = unstored(a._context, a._node)
        if recorded is None and call.initial is NOTHING and len(call.axes) == a.ndim:
            recorded = unfolded(a._context, a._node, call.ufunc, call.dtype)
        if recorded is not None:
            return recorded
    found = a._operand(name, partial_ok=True)
    layout = found.layout
    if not layout.is_partial:
        return found
    same = layout.mode is call.mode and call.dtype == found.dtype
    if same and layout.index_map.covers and layout.mode.exact_identity(found.dtype):
        return found
    return a._operand(name)


def mask_chunks(
    context: Context,
    where: Any,  # True, or a mask of either kind
    layout: Layout,
) -> list[Any]:
    """A mask, broadcast to the layout's shape, cut as its chunks are."""
    target = context.layout(layout.index_map)
    if isinstance(where, DistributedArray):
        node = record(context, ASTYPE, (where._arg(),), {"dtype": np.dtype(bool)}, layout.shape)
        chunks = demand(node, target).chunks
    else:
        mask = place(context, np.broadcast_to(np.asarray(where), layout.shape), target)
        chunks = mask._own().version.chunks
    return arrays_of(chunks)


# --- who reduces what -------------------------------------------------------------------------------------------------


def _fold(
    context: Context,
    call: Reduction,
    found: Operand,
    masks: Sequence[Any] | None,
    plan: FoldPlan,
    readers: Sequence[Any] | None = None,
) -> DistributedArray:
    """Reduce the pieces where they are; the result is in the plan's mode, or REPLICA. `readers` are the versions that are
    read, where the fold may wait for who uses it."""
    layout, mode = plan.layout, plan.mode
    index_map = layout.index_map
    if readers is not None and masks is None and _waits(context, call, found, plan):
        return _fold_later(context, call, found, plan, readers)
    apart = mode in COUNTED and call.initial is not NOTHING and call.initial is not None
    start = call.initial
    if apart and mode is not None:
        start = None if masks is None else mode.identity(call.dtype)
    with context.reporting():
        chunks = allocate(context, layout, call.dtype, label=call.ufunc.__name__)
    if masks is None and not apart and _folded_at_once(context, call, found, plan, chunks):
        return from_chunks(context, layout, chunks, call.dtype)
    tasks: dict[int, list[Callable[[], None]]] = {}
    nbytes = 0
    for chunk, (device_id, _), sources in zip(chunks, index_map.chunks, plan.sources, strict=True):
        if chunk is None:
            continue
        operands = []
        for i, key in sources:
            array = found.arrays[i] if key is None else found.arrays[i][key]
            mask = None if masks is None else masks[i] if key is None else masks[i][key]
            operands.append((array, mask))
            nbytes += array.nbytes
        task = partial(_fold_here, chunk.device, call, operands, chunk.array, start, plan.steady)
        tasks.setdefault(device_id, []).append(task)
    for device_id in index_map.devices if apart else ():
        for i, part in index_map.first_owned(device_id):
            held = chunks[i]
            if held is not None:
                at = index_map.chunks[i][1].locate(part).slices
                tasks[device_id].append(partial(_fold_initial, held.device, call, held.array, at, mode))
    pending = next((array for array in found.arrays if type(array) is PendingFold), None)
    work = [partial(in_turn, mine) for mine in tasks.values()]
    behind = None if pending is None else pending.notes.finish
    run_tasks(context, work, nbytes, "reduce", fallible=call.ufunc is np.power, behind=behind)
    return from_chunks(context, layout, chunks, call.dtype)


def _folded_at_once(context: Context, call: Reduction, found: Operand, plan: FoldPlan, chunks: Sequence[Any]) -> bool:
    """Fold small pieces on the host, one for each chunk of the result; False where nothing was done that counts: others do it
    again, and say what NumPy says."""
    if context.kind != "host" or plan.steady or call.squares or call.spread is not None or call.ufunc is np.power:
        return False
    if context.communicator is not None and context.conditions_raise():
        return False  # processes agree on what failed
    work = []
    nbytes = 0
    for chunk, sources in zip(chunks, plan.sources, strict=True):
        if chunk is None:
            continue
        if len(sources) != 1:
            return False
        i, key = sources[0]
        array = found.arrays[i]
        if type(array) is not np.ndarray:
            return False
        nbytes += array.nbytes
        work.append((chunk, array if key is None else array[key]))
    if nbytes > AT_ONCE:
        return False
    with context.reporting():
        _, met = context.quiet(fold_all, call, work)
    return not met


_WAITING = frozenset({np.add, np.maximum, np.minimum})
WAIT_FROM = 1 << 20
"""Elements on a device from which a fold of rows waits for the expression that uses it."""


def _waits(context: Context, call: Reduction, found: Operand, plan: FoldPlan) -> bool:
    """Whether rows are folded that an expression over the same rows may fold as it reads them: the last axis, kept, and
    whole, on GPUs. From metadata and what lies here alone; nothing is communicated either way."""
    if context.kind == "host" or context.eager or plan.mode is not None or plan.steady or not call.keepdims:
        return False
    last = len(found.shape) - 1
    if last < 1 or found.layout.is_partial or call.axes != (last,) or call.ufunc not in _WAITING:
        return False
    if call.squares or call.spread is not None or call.initial is not NOTHING:
        return False
    pairs = [sources for sources in plan.sources if sources]
    return all(
        len(sources) == 1
        and sources[0][1] is None
        and (found.arrays[sources[0][0]] is None or found.arrays[sources[0][0]].size >= WAIT_FROM)
        for sources in pairs
    )


def _fold_later(
    context: Context, call: Reduction, found: Operand, plan: FoldPlan, readers: Sequence[Any]
) -> DistributedArray:
    """Chunks that are folded when they are asked for."""
    layout = plan.layout
    with context.reporting():
        chunks = allocate(context, layout, call.dtype, label=call.ufunc.__name__)
    for number, (chunk, sources) in enumerate(zip(chunks, plan.sources, strict=True)):
        if chunk is None or not sources:
            continue
        array = found.arrays[sources[0][0]]
        pending = isinstance(array, PendingProgram)
        dtype = chunk.array.dtype if call.ufunc is np.add else array.dtype
        later = Later(
            call.ufunc.__name__, array.program if pending else WHOLE, array.sources if pending else (array,), array.shape,
            dtype, chunk.array, partial(_fold_here, chunk.device, call, [(array, None)], chunk.array, call.initial, False),
        )  # fmt: skip
        chunks[number] = LaterChunk(chunk.device, later)
        for version in array.versions if pending else readers:
            if version.readers is None:
                version.readers = Readers()
            version.readers.add(later)
    return from_chunks(context, layout, chunks, call.dtype)


def _again_later(call: Reduction, plan: FoldPlan, context: Context, storage: Storage) -> DistributedArray:
    """The same of another array that lies so."""
    version = storage.version
    found = Operand(version.layout, arrays_of(version.chunks), version.dtype)
    return _fold_later(context, call, found, plan, (version,))


def _fold_here(
    device: Device, call: Reduction, operands: list[tuple[Any, Any]], out: DeviceArray, start: DeviceArray, steady: bool
) -> None:
    """Reduce all pieces of one chunk of the result. `steady`: in C order, so that every replica has the same bits."""
    if not steady and call.spread is None and _fold_rows(device, call, operands, out, start):
        return
    with device.active():
        for turn, (array, mask) in enumerate(operands):
            if steady:
                array = in_order(device.lib, array)
            target = out if turn == 0 else device.empty(out.shape, out.dtype, call.ufunc.__name__).array
            if call.spread is not None:
                made = call.spread
                spread(device.lib, made.name, array, target, call.axes, (made.elements, made.divisor))
            elif call.squares:
                sum_squares(device.lib, array, target, call.axes)
            else:
                local_reduce(device, call.ufunc, array, target, call.axes, call.given, start, mask)
            if turn == 0:
                continue
            assert call.mode is not None
            combine(device.lib, call.mode, out, target)


def _fold_rows(
    device: Device, call: Reduction, operands: list[tuple[Any, Any]], out: DeviceArray, start: DeviceArray
) -> bool:
    """Reduce whole chunks that were made together, in few calls and to the bits of one after the other; False where they are
    not such."""
    first, mask = operands[0]
    if (
        type(first) is PendingFold
        or len(operands) < 2
        or out.size != 1
        or mask is not None
        or call.squares
        or call.mode is None
    ):
        return False
    fold = call.mode.fold
    if fold is None or fold is not call.ufunc or not (first.dtype == out.dtype == (call.given or out.dtype)):
        return False
    rows = device.rows([array for array, _ in operands]) if call.mode.exact_identity(out.dtype) else None
    if rows is None:
        return False
    parts = np.concatenate([fold.reduce(each, axis=1, dtype=call.given, initial=start) for each in rows])
    out[...] = fold.accumulate(parts, dtype=loop_dtype(out.dtype))[-1]
    return True


def _fold_initial(device: Device, call: Reduction, out: DeviceArray, key: tuple[Any, ...], mode: Any) -> None:
    """Fold the initial value in, where this device is the first to hold a result."""
    with device.active():
        view = out[(*key, ...)]
        combine(device.lib, mode, view, device.lib.full(view.shape, call.initial, out.dtype))


def _carried(context: Context, call: Reduction, found: Operand, masks: Sequence[Any] | None) -> DistributedArray:
    """A fold of which the order matters, passed along the devices of its one axis."""
    (axis,) = call.axes
    name = call.ufunc.__name__
    way = relay(context, found.layout, axis)
    if way is None:
        found, masks = in_blocks(context, found, masks, axis, name)
        pieces = whole_lines(call, found.layout)
        if pieces is not None:
            return _fold(context, call, found, masks, plan_of_pieces(context, call, found.layout, pieces, None))
        way = relay(context, found.layout, axis)
        assert way is not None
    ahead = name in ASSOCIATIVE
    again = call.initial if call.ufunc.identity is None else NOTHING

    def step(device: Device, segment: Segment, before: DeviceArray | None, after: DeviceArray) -> None:
        array = found.arrays[segment.chunk][segment.key]
        mask = None if masks is None else masks[segment.chunk][segment.key]
        with device.active():
            if before is None:
                local_reduce(device, call.ufunc, array, after, (axis,), call.given, call.initial, mask)
                return
            if ahead:
                more = device.empty(after.shape, after.dtype, name)
                local_reduce(device, call.ufunc, array, more.array, (axis,), call.given, again, mask)
                array, mask = more.array, None
            fold_on(device, call.ufunc, before, array, after, axis, call.given, mask)

    with WarningOnce(context, "reduce"):
        layout, chunks = carry(context, name, way, call.dtype, step, fallible=call.ufunc is np.power)
    result = from_chunks(context, layout, chunks, call.dtype)
    return result if call.keepdims else result._viewed(result._view_map().squeeze(axis))


def in_blocks(
    context: Context,
    found: Operand,
    masks: Any,  # a list of arrays, or None
    axis: int,
    name: str,
    *,
    cut: int | None = None,
) -> tuple[Operand, Any]:
    """The operand cut into blocks along `cut`: by default its longest axis but `axis`, or that where there is no other."""
    shape = found.shape
    if cut is None:
        others = [a for a in range(len(shape)) if a != axis and shape[a] > 1]
        cut = max(others, key=lambda other: (shape[other], -other)) if others else axis
    target = context.layout(blocks(cut).resolve(shape, context.group.ids))
    moved = Operand(target, arrays_of(redistribute(context, found, target, operation=name)), found.dtype)
    if masks is not None:
        flags = Operand(context.layout(found.layout.index_map), masks, np.dtype(bool))
        masks = arrays_of(redistribute(context, flags, target, operation=name))
    return moved, masks


def _axis_by_axis(context: Context, call: Reduction, a: DistributedArray, where: ArrayLike) -> DistributedArray:
    """A fold over several axes in any order: one after the other; an initial value with the last."""
    result = a
    repeated = call.ufunc.identity is None
    for axis in call.axes[::-1]:
        last = axis == call.axes[0]
        initial = call.initial if last or repeated else NOTHING
        one = call._replace(axes=(axis,), keepdims=True, initial=initial)
        result = reduced(context, one, result, where)
        where = True
    return result if call.keepdims else result._viewed(result._view_map().squeeze(call.axes))
