"""Factorizations of whole matrices, each on one device: of stacks that are split over the batch, and of small matrices.

Where the matrices lie whole on their devices nothing moves. Others are brought together first: a single matrix on the
device that holds most of it, a stack in equal parts along its longest batch axis. A matrix is worked on by one device, or,
where little work is to be done on a replicated operand, by every device that holds all of it: replicas are equal to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from distarray.context import Context
from distarray.devices import Chunk, Device, arrays_of, in_turn
from distarray.fusion.conditions import WarningOnce
from distarray.geometry import IndexMap, Region, blocks
from distarray.layout import Layout
from distarray.storage import Operand
from distarray.transfer.execute import redistribute

__all__ = ["apply", "sent"]

LIGHT = 1 << 18
"""Replicated operands whose work, in multiplications, is at most so much are worked on by every device."""

Output = tuple[tuple[int, ...], Any]


class _Homes(NamedTuple):
    """Which device works on which part of the batch, and whether the first operand lay there already."""

    batch: IndexMap
    settled: bool


def homes(layout: Layout, core: int, work: int) -> _Homes:
    """Where matrices of the last `core` axes are worked on; `work`: multiplications in all."""
    shape = layout.shape
    split = len(shape) - core
    batch = shape[:split]
    full = Region.full(shape[split:])
    if 0 in shape:
        return _Homes(IndexMap(batch, {device: [Region.full(batch)] for device in layout.devices}), True)
    regions = [(device, region) for device, region in layout.chunks if region.size]
    if all(Region(region[split:]) == full for _, region in regions):
        if layout.is_replicated and (work <= LIGHT or len(layout.devices) == 1):
            return _Homes(IndexMap(batch, {device: [Region.full(batch)] for device in layout.devices}), True)
        if not layout.is_replicated:
            held: dict[int, list[Region]] = {device: [] for device in layout.devices}
            for device in layout.devices:
                held[device] = [Region(region[:split]) for _, region in layout.index_map.first_owned(device)]
            return _Homes(IndexMap(batch, held), True)
    if prod(batch) > 1:
        longest = max(range(split), key=lambda axis: batch[axis])
        return _Homes(blocks(longest).resolve(batch, layout.devices), False)
    sizes = dict.fromkeys(layout.devices, 0)
    for device, region in regions:
        sizes[device] += region.size
    most = max(sizes, key=lambda device: (sizes[device], -device))
    return _Homes(IndexMap(batch, {most: [Region.full(batch)]}), False)


def lifted(batch: IndexMap, core: Sequence[int]) -> IndexMap:
    """The map of an array with these batch regions and whole last axes."""
    full = Region.full(core)
    mapping = {device: [Region((*r, *full)) for r in batch.regions(device)] for device in batch.devices}
    return IndexMap((*batch.shape, *core), mapping)


def apply(
    context: Context,
    name: str,
    operands: Sequence[Operand],
    function: Callable[..., Any],
    outputs: Sequence[Output],
    cores: Sequence[int],
    *,
    shared: Sequence[Operand] = (),
    fallible: bool = False,
) -> tuple[bool, list[tuple[Layout, list[Chunk | None]]]]:
    """`function` of every matrix of a stack, the first operand deciding where; whether it had to be moved, and the results.

    `function` takes the device and the operands' arrays, of one batch shape, and returns as many arrays as there are
    `outputs`, each the shape that follows the batch and the dtype. `cores` counts the operands' axes that follow it. Each device
    gets all of the `shared` operands, which `function` takes last.
    """
    split = len(operands[0].shape) - cores[0]
    matrices = [operand.shape[split:] for operand in operands]
    sizes = [n for shape in matrices for n in shape]
    work = prod(operands[0].shape) * max([*sizes, 1])
    key = ("stack", operands[0].layout, cores[0], work)
    where: _Homes | None = context.layouts.remembered(key)
    if where is None:
        where = context.layouts.remember(key, homes(operands[0].layout, cores[0], work))
        assert where is not None
    inputs: list[list[Any]] = []
    for operand, core in zip(operands, matrices):
        target = context.layout(lifted(where.batch, core))
        if target is operand.layout or target == operand.layout:
            inputs.append(list(operand.arrays))
        else:
            brought = redistribute(context, operand, target, operation=name)
            inputs.append(arrays_of(brought))
    commons = [_everywhere(context, name, operand, where.batch.devices) for operand in shared]
    layouts = [context.layout(lifted(where.batch, core)) for core, _ in outputs]
    results: list[list[Chunk | None]] = [[None] * len(layout.chunks) for layout in layouts]
    tasks: dict[int, list[Callable[[], None]]] = {}
    for number, (device_id, _) in enumerate(layouts[0].chunks):
        device = context.by_id[device_id]
        if device.process == context.process:
            own = [*(arrays[number] for arrays in inputs), *(arrays[device_id] for arrays in commons)]
            task = partial(_one, device, function, own, outputs, results, number, name)
            tasks.setdefault(device_id, []).append(task)
    guard = context.guarding(name, fallible=fallible or None)  # by the error state outside
    with WarningOnce(context, name), guard:
        context.workers.run([partial(in_turn, own) for own in tasks.values()], work, blas=True)
    return not where.settled, list(zip(layouts, results))


def _everywhere(context: Context, name: str, operand: Operand, devices: Sequence[int]) -> dict[int, Any]:
    """All of an operand on each of the devices: device of this process -> array."""
    target = context.layout(IndexMap(operand.shape, {device: [Region.full(operand.shape)] for device in devices}))
    arrays = operand.arrays
    if target != operand.layout:
        arrays = arrays_of(redistribute(context, operand, target, operation=name))
    return {device: array for (device, _), array in zip(target.chunks, arrays) if array is not None}


def _one(
    device: Device,
    function: Callable[..., Any],
    arrays: Sequence[Any],
    outputs: Sequence[Output],
    results: list[list[Chunk | None]],
    number: int,
    name: str,
) -> None:
    with device.active():
        found = function(device, *arrays)
        for result, (_, dtype), array in zip(results, outputs, found if isinstance(found, tuple) else (found,)):
            # LAPACK's results may be views in Fortran order
            array = device.lib.ascontiguousarray(device.lib.asarray(array, dtype)).reshape(np.shape(array))
            result[number] = device.adopt(array, name)


def sent(
    context: Context, name: str, layout: Layout, chunks: Sequence[Chunk | None], dtype: np.dtype[Any], target: Layout
) -> list[Chunk | None]:
    """Results in another layout; chunks that stay are not copied."""
    arrays = arrays_of(chunks)
    return redistribute(context, Operand(layout, arrays, np.dtype(dtype)), target, operation=name, chunks=chunks)
