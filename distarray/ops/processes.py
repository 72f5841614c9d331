"""Arrays from what processes hold: one process's array scattered to all, and local chunks joined into a global array.

In a context of one process these functions do the same with nothing to exchange.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

import numpy as np

from distarray.array import DistributedArray
from distarray.comm.base import Signature
from distarray.context import Context, current
from distarray.devices import Chunk
from distarray.errors import CollectiveMismatchError, LayoutError
from distarray.geometry import IndexMap, Region
from distarray.modes import Mode
from distarray.ops.convert import check_dtype, from_chunks, host_or_device_array, place, resolve_layout
from distarray.registry import method
from distarray.transfer.execute import allocate
from distarray.transfer.wire import Round

__all__ = ["from_local_chunks"]


def gathered(context: Context, value: Any, operation: str) -> list[Any]:
    """A small JSON value of every process, in rank order."""
    if context.communicator is None:
        return [value]
    said = context.communicator.all_gather(json.dumps(value).encode(), Signature(operation))
    return [json.loads(answer) for answer in said]


@method("scattered")
def scattered(obj: Any, root: int, dtype: Any, layout: Any, device: Any) -> DistributedArray:
    """``asarray(obj, root=…)``: the array of process `root`, each process receiving its chunks."""
    context = current()
    if not 0 <= root < context.process_count:
        raise ValueError(f"root={root} is no process: pass a number below process_count(), {context.process_count}")
    mine = context.process == root
    source = None
    with context.reporting():
        if mine:
            source = host_or_device_array(obj, dtype)
            source = source if isinstance(source, np.ndarray) else source.get()
    told = None if source is None else [list(source.shape), source.dtype.str]
    shape_list, name = gathered(context, told, "asarray(root=)")[root]
    shape, dtype = tuple(shape_list), check_dtype(np.dtype(name))
    target = resolve_layout(context, layout, shape, device=device, itemsize=dtype.itemsize)
    if context.communicator is None:
        return place(context, source, target)
    with context.reporting():
        chunks = allocate(context, target, dtype, label="asarray(root=)")
    wire = Round(context)
    wire.mark(root, target.digest.hex(), dtype)
    slots = []
    for device_id, region in target.chunks:
        part = None
        if source is not None:
            part = context.local_devices[0].from_host(source[region.key]).array
        slots.append(wire.carry(root, context.by_id[device_id].process, part, region.shape, dtype))
    wire.run("asarray(root=)")
    for chunk, slot, (_, region) in zip(chunks, slots, target.chunks, strict=True):
        if chunk is None:
            continue
        if slot >= 0:
            chunk.device.copy(chunk.array, wire.received(slot), chunk.device)
        else:
            assert source is not None
            piece = chunk.device.from_host(source[region.key])
            chunk.device.copy(chunk.array, piece.array, chunk.device)
    return from_chunks(context, target, chunks, dtype)


def from_local_chunks(
    chunks: Mapping[Any, Any] | Iterable[tuple[Any, Any]],
    shape: Iterable[int] | None = None,
    *,
    mode: Mode | str | None = Mode.REPLICA,
) -> DistributedArray:
    """The global array of the chunks that each process holds.

    Called by every process with its own chunks; a process may have none.

    Parameters
    ----------
    chunks : mapping of Region to array, or iterable of (index, array)
        Indices are global: a ``Region``, a slice, or a tuple of slices. They go to this process's devices in turn.
    shape : iterable of int, optional
        Of the global array. Default: what the chunks of all processes reach.
    mode : Mode or str
        How overlapping chunks combine. In REPLICA, overlapping chunks must be equal; they are not compared.

    Raises
    ------
    ValueError
        A chunk's shape is not its region's, or dtypes differ between chunks or processes. Every process raises.
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
    """
    context = current()
    pairs = list(chunks.items() if isinstance(chunks, Mapping) else chunks)
    arrays = [host_or_device_array(array, None) for _, array in pairs]
    indices = [_bounds(index, array.shape) for (index, _), array in zip(pairs, arrays, strict=True)]
    told: dict[str, Any] = {"indices": indices, "shapes": [list(a.shape) for a in arrays]}
    told["dtypes"] = sorted({a.dtype.str for a in arrays})
    told["shape"] = None if shape is None else [int(n) for n in shape]
    answers = gathered(context, told, "from_local_chunks")
    full, dtype = _agreed(answers)
    regions: dict[int, list[Region]] = {d.id: [] for d in context.devices}
    local: dict[tuple[int, Region], Any] = {}
    for rank, answer in enumerate(answers):
        owners = [d.id for d in context.devices if d.process == rank]
        for turn, (index, chunk_shape) in enumerate(zip(answer["indices"], answer["shapes"], strict=True)):
            region = Region.from_index(tuple(slice(*bound) for bound in index), full)
            if region.shape != tuple(chunk_shape):
                raise ValueError(
                    f"process {rank} gives a chunk of shape {tuple(chunk_shape)} for {region}, which has shape "
                    f"{region.shape} in an array of shape {full}: give the chunk or the index its right extent"
                )
            owner = owners[turn % len(owners)]
            regions[owner].append(region)
            if rank == context.process:
                local[owner, region] = arrays[turn]
    layout = resolve_layout(context, IndexMap(full, regions), full, mode=Mode.of(mode))
    held: list[Chunk | None] = []
    with context.reporting():
        for device_id, region in layout.chunks:
            array = local.get((device_id, region))
            device = context.by_id[device_id]
            if array is None:
                held.append(None)
            else:
                held.append(device.from_host(array) if isinstance(array, np.ndarray) else device.from_foreign(array))
    return from_chunks(context, layout, held, dtype)


def _bounds(index: Any, shape: tuple[int, ...]) -> list[list[int | None]]:
    """An index as JSON: (start, stop, step) for each axis of its chunk."""
    if isinstance(index, Region):
        index = index.slices
    axes = index if isinstance(index, tuple) else (index,)
    if not all(isinstance(a, slice) for a in axes) or len(axes) > len(shape):
        raise ValueError(f"index {index!r} of a chunk of shape {shape} must be slices, at most one for each axis")
    axes = (*axes, *[slice(None)] * (len(shape) - len(axes)))
    return [[a.start, a.stop, a.step] for a in axes]


def _agreed(answers: list[dict[str, Any]]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """The global shape and dtype that all processes' answers mean, or an error that every process raises."""
    dtypes = {name: rank for rank, answer in enumerate(answers) for name in answer["dtypes"]}
    if len(dtypes) != 1:
        said = ", ".join(f"{np.dtype(name)} on process {rank}" for name, rank in sorted(dtypes.items())) or "no chunk"
        raise ValueError(f"the chunks of all processes need one dtype, and there is {said}: convert them with astype")
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
        return full, np.dtype(next(iter(dtypes)))
    reach = [0] * next(iter(ndims))
    for answer in answers:
        for index, chunk_shape in zip(answer["indices"], answer["shapes"], strict=True):
            for axis, ((start, stop, _), n) in enumerate(zip(index, chunk_shape, strict=True)):
                reach[axis] = max(reach[axis], (start or 0) + n if stop is None else stop)
    return tuple(reach), np.dtype(next(iter(dtypes)))


@method("compare_host")
def compare_host(context: Context, array: Any) -> None:
    """In debug mode, compare a host operand between processes, so that one that differs is named and not computed with.

    Raises
    ------
    CollectiveMismatchError
        Naming the processes that differ.
    """
    data = np.ascontiguousarray(array)
    name = blake2b(f"{data.shape}{data.dtype.str}".encode() + data.tobytes(), digest_size=16).hexdigest()
    names = gathered(context, name, "comparing a host operand")
    wrong = [rank for rank, other in enumerate(names) if other != names[0]]
    if wrong:
        raise CollectiveMismatchError(
            f"a host array of shape {data.shape} has other values on process {wrong[0]} than on process 0, and all "
            f"processes must give the same: seed random numbers alike, or scatter one process's array with "
            f"distarray.asarray(x, root=0)"
        )
