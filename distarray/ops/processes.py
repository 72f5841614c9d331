"""Arrays from what processes hold: one process's array scattered to all, and local chunks joined into a global array.

In a context of one process these functions do the same with nothing to exchange. What one process alone can get wrong is
found before anything moves, and told to all, so that none waits for a call that another never makes.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterable, Mapping
from typing import Any, SupportsIndex

import numpy as np

from distarray.array.agreement import agreed
from distarray.array.aliases import DeviceLike, DTypeLike, LayoutLike, ShapeLike
from distarray.array.dtypes import check_dtype, dtype_name, dtype_named
from distarray.array.layouts import resolve_layout
from distarray.array.place import host_or_device_array, place
from distarray.array.state import DistributedArray, from_chunks
from distarray.context import Context
from distarray.current import current
from distarray.devices import Chunk, Device
from distarray.devices.arrays import DeviceArray
from distarray.errors import IndexMapError, LayoutError
from distarray.geometry import IndexMap, Region
from distarray.layout import Layout
from distarray.modes import Mode
from distarray.transfer.execute import allocate, fold_into
from distarray.transfer.ledger import note
from distarray.transfer.partial_numbers import quiet
from distarray.transfer.round import Round

__all__ = ["from_local_chunks"]

SCATTER = "asarray(root=)"


def _own_array(obj: Any, dtype: Any, what: str) -> Any:
    """An object of this process alone as a NumPy or CuPy array; nothing that all processes would have to evaluate."""
    if _holds_distributed(obj):
        instead = "call asarray without root" if what == SCATTER else "give the data of distarray.local_chunks(x)"
        raise TypeError(
            f"{what} takes data of one process, and got a DistributedArray, which all processes hold: {instead}, or give "
            f"the value of x.get(), which all processes call before"
        )
    array = host_or_device_array(obj, dtype)
    check_dtype(array.dtype)
    return array


def _holds_distributed(obj: Any) -> bool:
    if isinstance(obj, (list, tuple)):
        return any(map(_holds_distributed, obj))
    return isinstance(obj, DistributedArray)


def scattered(
    obj: object, root: int, dtype: DTypeLike, layout: LayoutLike, device: DeviceLike, copy: bool | None
) -> DistributedArray:
    """``asarray(obj, root=…)``: the array of process `root`, each process receiving its chunks."""
    context = current()
    found: list[Any] = []

    def read() -> list[Any]:
        number = _process(context, root)
        if copy is False:
            raise ValueError("copy=False, and a scatter copies the array to the devices: pass copy=None with root=")
        if number != context.process:
            return [number, None, None]
        source = _own_array(obj, dtype, SCATTER)
        if context.communicator is not None and not isinstance(source, np.ndarray):
            source = source.get()
        found.append(source)
        return [number, list(source.shape), dtype_name(source.dtype)]

    answers = agreed(context, SCATTER, read)
    roots = {answer[0]: rank for rank, answer in enumerate(answers)}
    if len(roots) > 1:
        said = ", ".join(f"root={number} on process {rank}" for number, rank in sorted(roots.items()))
        raise ValueError(f"processes give different roots, {said}: pass the same root everywhere")
    root, lengths, name = answers[answers[0][0]]
    shape = tuple(lengths)
    kind: list[np.dtype[Any]] = []
    targets: list[Layout] = []

    def resolve() -> str:
        kind.append(check_dtype(dtype_named(name)))
        targets.append(resolve_layout(context, layout, shape, device=device, itemsize=kind[0].itemsize))
        return targets[0].digest.hex()

    digests = agreed(context, SCATTER, resolve)
    for rank, digest in enumerate(digests):
        if digest != digests[0]:
            raise LayoutError(
                f"process {rank} gives another layout than process 0 for the array of shape {shape}: pass the same "
                f"layout and device everywhere"
            )
    if context.communicator is None:
        return place(context, found[0], targets[0])
    return _scatter(context, found[0] if found else None, root, targets[0], kind[0])


def _process(context: Context, root: SupportsIndex) -> int:
    """`root` as the number of a process."""
    number = None
    if not isinstance(root, (bool, np.bool_)):
        with contextlib.suppress(TypeError):
            number = operator.index(root)
    if number is None:
        raise TypeError(
            f"root={root!r} of type {type(root).__name__} must be an integer process number: pass one below "
            f"process_count(), {context.process_count}, such as root=0"
        )
    if not 0 <= number < context.process_count:
        raise ValueError(f"root={root} is no process: pass a number below process_count(), {context.process_count}")
    return int(number)


def _scatter(context: Context, source: Any, root: int, target: Layout, dtype: np.dtype[Any]) -> DistributedArray:
    """Send the chunks of `source`, which process `root` has, to their devices."""
    mode, index_map, me = target.mode, target.index_map, context.process
    single = mode in (Mode.SUM, Mode.PROD) and not index_map.is_disjoint  # these keep each value once, as `place` does
    if single:
        pieces = [piece for device_id in target.devices for piece in index_map.first_owned(device_id)]
    else:
        pieces = [(number, region) for number, (_, region) in enumerate(target.chunks)]
    pieces = [(number, part) for number, part in pieces if part.size]
    owners = [context.by_id[target.chunks[number][0]] for number, _ in pieces]
    first = next(d for d in context.devices if d.process == root)
    messages: dict[tuple[int, int], int] = {}
    for owner, (_, part) in zip(owners, pieces, strict=True):
        if owner.process != root:
            pair = (first.id, owner.id)
            messages[pair] = messages.get(pair, 0) + part.size * dtype.itemsize
    note(messages, int(bool(messages)), SCATTER, explicit=True)
    chunks = allocate(context, target, dtype, mode if single else None, label=SCATTER)
    wire, stage = Round(context), context.local_devices[0]
    wire.mark(root, target.digest.hex(), dtype)
    slots = []
    with context.reporting():
        for owner, (_, part) in zip(owners, pieces, strict=True):
            sent = None
            if source is not None and owner.process != me:
                sent = stage.from_host(source[part.key], label=SCATTER).array
            slots.append(wire.carry(root, owner.process, sent, part.shape, dtype))
    wire.run(SCATTER)
    with context.reporting():
        for owner, (number, part), slot in zip(owners, pieces, slots, strict=True):
            chunk = chunks[number]
            if chunk is None:
                continue
            view = chunk.array[target.chunks[number][1].locate(part).key]
            if slot >= 0:
                owner.copy(view, wire.received(slot), stage)
            else:
                owner.copy(view, owner.from_host(source[part.key], label=SCATTER).array, owner)
    return from_chunks(context, target, chunks, dtype)


def from_local_chunks(
    chunks: Mapping[Any, Any] | Iterable[tuple[Any, Any]],
    shape: int | Iterable[int] | None = None,
    *,
    mode: Mode | str | None = Mode.REPLICA,
) -> DistributedArray:
    """The global array of the chunks that each process holds.

    Called by every process with its own chunks; a process may have none.

    Parameters
    ----------
    chunks : mapping of Region to array, or iterable of (index, array)
        Indices are global: a ``Region``, a slice, or a tuple of slices, which read as in ``x[index] = array``. They go to
        this process's devices in turn.
    shape : int or iterable of int, optional
        Of the global array. Default: what the chunks of all processes reach.
    mode : Mode or str
        How overlapping chunks combine. In REPLICA, overlapping chunks must be equal; they are not compared, and a process
        gives a region once. In the other modes chunks of one region that come to one device are folded there.

    Returns
    -------
    DistributedArray

    Raises
    ------
    ValueError
        A chunk's shape is not its region's; a process gives a region twice in REPLICA; or dtypes, shapes or modes differ
        between processes. Every process raises, and goes on with the next operation.
    IndexMapError
        An index is not made of slices of integers. A ValueError.
    TypeError
        `chunks` is not made of pairs, or an object can't become an array of this process.
    RemoteError
        Another process raised one of these for what it alone gave. All go on with the next operation.
    CoverageError
        REPLICA, and an element is in no chunk.

    Notes
    -----
    Communication: regions, shapes and dtypes, a few hundred bytes a process; the chunks stay where they are.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.from_local_chunks([(slice(0, 2), [1, 2]), (slice(2, 5), [3, 4, 5])])
    DistributedArray([1, 2, 3, 4, 5])
    >>> with da.init(devices=1, kind="host"):
    ...     da.from_local_chunks([(slice(0, 3), [1, 2, 3]), (slice(None, None, -1), [10, 20, 30])], mode="sum")
    DistributedArray([31, 22, 13])
    """
    context = current()
    arrays: list[Any] = []
    answers = agreed(context, "from_local_chunks", lambda: _told(context, chunks, shape, mode, arrays))
    full, dtype, common = _agreed(answers)
    regions: dict[int, list[Region]] = {d.id: [] for d in context.devices}
    local: dict[tuple[int, Region], list[Any]] = {}
    for rank, answer in enumerate(answers):
        owners = [d.id for d in context.devices if d.process == rank]
        for turn, region in enumerate(_regions(rank, answer, full, common)):
            owner = owners[turn % len(owners)]
            regions[owner].append(region)
            if rank == context.process:
                local.setdefault((owner, region), []).append(arrays[turn])
    layout = resolve_layout(context, IndexMap(full, regions), full, mode=common)
    held: list[Chunk | None] = [None] * len(layout.chunks)
    with context.guarding("from_local_chunks"), np.errstate(**quiet()):
        for i, device, region in context.local_regions(layout):
            given, *others = local[device.id, region]
            chunk = _copied(device, given)
            if layout.is_partial:
                for other in others:
                    fold_into(device, chunk.array, [(device, _copied(device, other).array)], common, True)
            held[i] = chunk
    return from_chunks(context, layout, held, dtype)


def _copied(device: Device, array: DeviceArray) -> Chunk:
    return device.from_host(array) if isinstance(array, np.ndarray) else device.from_foreign(array)


def _told(context: Context, chunks: Any, shape: Any, mode: Any, arrays: list[Any]) -> dict[str, Any]:
    """What a process says of its chunks, as JSON; their data are added to `arrays`, in the order of their regions."""
    told: dict[str, Any] = {"mode": Mode.of(mode).value, "shape": _lengths(shape), "indices": [], "shapes": []}
    if not isinstance(chunks, Iterable):
        raise TypeError(f"chunks is {chunks!r}, and must hold (index, array) pairs: pass [] where a process has none")
    names = set()
    for pair in chunks.items() if isinstance(chunks, Mapping) else chunks:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"chunks hold {pair!r}, and must hold (index, array) pairs: pass [(slice(0, 2), [1, 2])]")
        index, obj = pair
        array = _own_array(obj, None, "from_local_chunks")
        if context.kind == "host" and not isinstance(array, np.ndarray):
            array = array.get()
        bounds = _bounds(index, array.shape)
        told["indices"].append(bounds)
        told["shapes"].append(list(array.shape))
        names.add(dtype_name(array.dtype))
        backward = [step is not None and step < 0 for _, _, step in bounds]
        if any(backward):  # regions are sets, which are walked forward
            array = array[tuple([slice(None, None, -1 if back else 1) for back in backward])]
        arrays.append(array)
    told["dtypes"] = sorted(names)
    return told


def _lengths(shape: ShapeLike | None) -> list[int] | None:
    """`shape` as JSON."""
    if shape is None:
        return None
    try:
        lengths = [int(operator.index(n)) for n in (shape if isinstance(shape, Iterable) else (shape,))]
    except TypeError:
        raise TypeError(f"shape {shape!r} must be made of integers: pass for example (4, 3)") from None
    if any(n < 0 for n in lengths):
        raise ValueError(f"shape {tuple(lengths)} has a negative length: pass integers >= 0")
    return lengths


def _bounds(index: Any, shape: tuple[int, ...]) -> list[list[int | None]]:
    """An index as JSON: (start, stop, step) for each axis of its chunk."""
    if isinstance(index, Region):
        index = index.slices
    axes = index if isinstance(index, tuple) else (index,)
    if not all(isinstance(a, slice) for a in axes) or len(axes) > len(shape):
        raise IndexMapError(
            f"index {index!r} of a chunk of shape {shape} must be slices, at most one for each axis: pass slice(i, i + 1) "
            f"for an integer i"
        )
    axes = (*axes, *[slice(None)] * (len(shape) - len(axes)))
    try:
        bounds = [[None if n is None else int(operator.index(n)) for n in (a.start, a.stop, a.step)] for a in axes]
    except TypeError:
        raise IndexMapError(
            f"index {index!r} of a chunk of shape {shape} has a bound that is no integer: pass integers or None"
        ) from None
    if any(step == 0 for _, _, step in bounds):
        raise IndexMapError(f"index {index!r} of a chunk of shape {shape} has step 0: pass another step, or None for 1")
    return bounds


def _regions(rank: int, answer: dict[str, Any], full: tuple[int, ...], mode: Mode) -> list[Region]:
    """The regions that a process gives, checked; the same errors on all processes."""
    found = []
    seen = set()
    for index, lengths in zip(answer["indices"], answer["shapes"], strict=True):
        region = Region.from_index(tuple(slice(*bound) for bound in index), full)
        if region.shape != tuple(lengths):
            raise ValueError(
                f"process {rank} gives a chunk of shape {tuple(lengths)} for {region}, which has shape {region.shape} in "
                f"an array of shape {full}: give the chunk or the index its right extent, or pass the array's shape="
            )
        if mode is Mode.REPLICA and region.size and region in seen:
            raise ValueError(
                f"process {rank} gives {region} twice, and in mode 'replica' one of the two would be lost: give each "
                f"region once (x.reshard makes copies for other devices), or have them folded, as with mode='sum'"
            )
        seen.add(region)
        found.append(region)
    return found


def _agreed(answers: list[dict[str, Any]]) -> tuple[tuple[int, ...], np.dtype[Any], Mode]:
    """The global shape, dtype and mode that all processes' answers mean, or an error that every process raises."""
    modes: dict[str, int] = {}
    for rank, answer in enumerate(answers):
        modes.setdefault(answer["mode"], rank)
    if len(modes) > 1:
        said = ", ".join(f"{name!r} on process {rank}" for name, rank in modes.items())
        raise ValueError(f"processes give different modes, {said}: pass the same mode everywhere")
    mode = Mode.of(next(iter(modes)))
    dtypes = {name: rank for rank, answer in enumerate(answers) for name in answer["dtypes"]}
    if len(dtypes) != 1:
        said = ", ".join(f"{_shown(name)} on process {rank}" for name, rank in sorted(dtypes.items())) or "no chunk"
        raise ValueError(f"the chunks of all processes need one dtype, and there is {said}: convert them with astype")
    dtype = dtype_named(next(iter(dtypes)))
    shapes = {tuple(answer["shape"]): rank for rank, answer in enumerate(answers) if answer["shape"] is not None}
    if len(shapes) > 1:
        raise ValueError(
            f"processes give different shapes, {', '.join(map(str, shapes))}: pass the same shape everywhere"
        )
    ndims = {len(index): rank for rank, answer in enumerate(answers) for index in answer["indices"]}
    if len(ndims) != 1:
        raise ValueError(
            f"chunks have {', '.join(map(str, sorted(ndims)))} axes: give all chunks the global array's axes"
        )
    if shapes:
        full = next(iter(shapes))
        if len(full) not in ndims:
            raise LayoutError(f"shape {full} and chunks of {next(iter(ndims))} axes do not fit: pass the global shape")
        return full, dtype, mode
    reach = [0] * next(iter(ndims))
    for answer in answers:
        for index, lengths in zip(answer["indices"], answer["shapes"], strict=True):
            for axis, (bound, n) in enumerate(zip(index, lengths, strict=True)):
                reach[axis] = max(reach[axis], _reach(bound, n))
    return tuple(reach), dtype, mode


def _shown(name: str) -> str:
    return name if name == "bfloat16" else str(np.dtype(name))


def _reach(bound: list[int | None], n: int) -> int:
    """The length of the shortest axis on which ``start:stop:step`` can be `n` elements, if there is one."""
    start, stop, step = bound[0], bound[1], bound[2] or 1
    span = (n - 1) * abs(step) + 1 if n else 0
    if (start or 0) < 0 or (stop or 0) < 0:
        return span  # counted from an end that only `shape` tells
    if step > 0:
        return (start or 0) + span if stop is None else stop
    if start is not None:
        return start + 1
    return span if stop is None else stop + 1 + span
