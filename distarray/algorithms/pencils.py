"""Fourier transforms of an operand along several axes: each line is transformed where a device holds it whole, and the
array is re-blocked between axes so that it comes to that ("pencils").

The order of the axes is free but for real transforms, which come first or last. So the axes that are whole go first, and
one move of the data makes the others whole. Where one long axis is all there is to cut, :mod:`four_step` takes over.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from distarray.algorithms.four_step import SplitCall, is_long, local_library
from distarray.algorithms.held import Held, run_by_device
from distarray.algorithms.split_axis import along_split_axis
from distarray.context import Context
from distarray.devices import Chunk, Device
from distarray.devices.arrays import DeviceArray
from distarray.geometry import IndexMap, Range, Region, blocks, grid
from distarray.layout import Layout
from distarray.storage import Operand

__all__ = ["OPPOSITE", "LineTransform", "transform"]

OPPOSITE = {"backward": "forward", "forward": "backward", "ortho": "ortho"}
"""Whether the one direction or the other is scaled, as the other one says it."""

_ALONE = 2**16
"""A replicated operand of at most so many bytes is transformed on each of its devices; a larger one is shared out."""


class LineTransform(NamedTuple):
    """A one-dimensional transform along an axis.

    Attributes
    ----------
    kind : {"fft", "ifft", "rfft", "irfft", "hfft"}
    axis : int
        Not negative.
    n : int
        The length of the transform: of the input, cropped or padded with zeros; for ``irfft`` and ``hfft`` of the output.
    norm : {"backward", "ortho", "forward"}
        For ``hfft`` that of the ``irfft`` that it is of the conjugate.
    """

    kind: str
    axis: int
    n: int
    norm: str

    @property
    def length(self) -> int:
        """The length of the axis in the result."""
        return self.n // 2 + 1 if self.kind == "rfft" else self.n

    def shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The result's shape."""
        return (*shape[: self.axis], self.length, *shape[self.axis + 1 :])

    def dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """The result's dtype, in the precision of an operand's."""
        wide = np.result_type(dtype, np.float64 if dtype.kind in "biu" else np.float32)
        real = np.empty(0, wide).real.dtype
        return real if self.kind in ("irfft", "hfft") else np.result_type(real, np.complex64)


def transform(context: Context, found: Operand, stages: Sequence[Sequence[LineTransform]], name: str) -> Held:
    """Transform an operand along the lines of each stage; the order within a stage is free.

    Returns
    -------
    Held
        In the operand's layout where every line was whole; else in blocks along axes that were transformed before, or are
        not transformed.

    Notes
    -----
    Communication: nothing for lines that lie whole on a device. Else the data once for each set of axes that one cut
    leaves whole: once for all axes of an array of which one is cut. Source: the pencil decomposition of parallel
    multi-dimensional transforms; see D. Pekurovsky, SIAM J. Sci. Comput. 34 (2012), C192.
    """
    home = found.layout
    held = Held(found)
    if not home.index_map.is_disjoint:
        alone = home.index_map.is_replicated and found.dtype.itemsize * math.prod(found.shape) <= _ALONE
        if not alone:  # shared out: each holder takes a part of what it has
            target = _pencils(context, found, stages[0], home.devices) or _blocks(context, found, 0, home.devices)
            held = held.moved(context, target, name)
    for stage in stages:
        left = list(stage)
        while left:
            found = held.operand
            whole = [line for line in left if _is_whole(found, line.axis)]
            if whole:
                held = _local(context, held, whole, name)
                left = [line for line in left if line not in whole]
                continue
            cut = _pencils(context, found, left, home.devices)
            if cut is not None:
                held = held.moved(context, cut, name)
            elif is_long(found.shape, left[-1].n, home.devices):
                line = left.pop()
                dtype = line.dtype(found.dtype)
                call = SplitCall(context, home.devices, line.axis, name)
                held = along_split_axis(call, held, line.kind, line.n, line.norm, dtype)
            else:
                held = held.moved(context, _gathered(context, found, home.devices), name)
    found = held.operand
    if (
        _holders(found.layout) == 1 < _holders(home)
    ):  # a small operand was gathered for the transform, and goes back to its layout
        same = found.shape == home.shape and home.index_map.is_disjoint
        axis = stages[-1][-1].axis
        held = held.moved(
            context, context.layout(home.index_map) if same else _blocks(context, found, axis, home.devices), name
        )
    return held


def _is_whole(found: Operand, axis: int) -> bool:
    """Whether every chunk holds whole lines along an axis."""
    n = found.shape[axis]
    return all(region[axis].size == n for _, region in found.layout.chunks if region.size)


def _holders(layout: Layout) -> int:
    """How many devices hold elements."""
    return len({device for device, region in layout.chunks if region.size})


def _blocks(context: Context, found: Operand, axis: int, devices: Sequence[int]) -> Layout:
    return context.layout(blocks(axis).resolve(found.shape, devices))


def _gathered(context: Context, found: Operand, devices: Sequence[int]) -> Layout:
    """Everything on the first of the operand's devices; the others hold nothing."""
    first, *others = devices
    nothing = Region([Range(0, 1, 0)] * len(found.shape))
    return context.layout(IndexMap(found.shape, {first: [Region.full(found.shape)], **{d: [nothing] for d in others}}))


def _pencils(context: Context, found: Operand, lines: Sequence[LineTransform], devices: Sequence[int]) -> Layout | None:
    """The layout that leaves most of the lines whole and uses most devices; None where the other axes are too short for
    that, and only a distributed transform, or one device, can do it."""
    shape = found.shape
    axes = {line.axis for line in lines}
    free = [axis for axis in range(len(shape)) if axis not in axes]
    counts = _cuts(shape, free, len(devices))
    if math.prod(counts) < len(devices) and len(axes) > 1:  # one of the axes is left for the next move
        longest = max(axes, key=lambda axis: (shape[axis], -axis))
        counts = _cuts(shape, [longest, *free], len(devices))
    used = math.prod(counts)
    if used == 1 or (2 * used <= len(devices) and is_long(shape, lines[-1].n, devices)):
        return None
    return context.layout(grid(counts).resolve(shape, devices))


def _cuts(shape: tuple[int, ...], axes: Sequence[int], parts: int) -> list[int]:
    """In how many blocks to cut each axis, for `parts` blocks or fewer: the longest of `axes` first."""
    counts = [1] * len(shape)
    for axis in sorted(axes, key=lambda axis: (-shape[axis], axis)):
        counts[axis] = max(1, min(parts, shape[axis]))
        parts //= counts[axis]
    return counts


def _local(context: Context, held: Held, lines: Sequence[LineTransform], name: str) -> Held:
    """Every device transforms its own lines."""
    found = held.operand
    shape, dtype = found.shape, found.dtype
    for line in lines:
        shape, dtype = line.shape(shape), line.dtype(dtype)
    nothing = Region([Range(0, 1, 0)] * len(shape))
    homes: dict[int, list[Region]] = {device: [] for device in found.layout.devices}
    tasks = []
    results: dict[tuple[int, Region], Chunk] = {}
    for (device_id, region), array in zip(found.layout.chunks, found.arrays, strict=True):
        ranges = list(region)
        for line in lines:
            ranges[line.axis] = Range.full(line.length)
        target = Region(ranges) if region.size else nothing
        homes[device_id].append(target)
        if array is not None:
            device = context.by_id[device_id]
            tasks.append((device_id, partial(_transform_chunk, device, array, lines, dtype, target, results, name)))
    run_by_device(context, tasks, math.prod(shape) * dtype.itemsize)
    layout = context.layout(IndexMap(shape, homes))
    return Held.of(layout, [results.get(place) for place in layout.chunks], dtype)


def _transform_chunk(
    device: Device,
    array: DeviceArray,
    lines: Sequence[LineTransform],
    dtype: np.dtype[Any],
    region: Region,
    results: dict[tuple[int, Region], Chunk],
    name: str,
) -> None:
    if not region.size:
        results[device.id, region] = device.empty(region.shape, dtype, name)
        return
    library = local_library(device)
    with device.active():
        for line in lines:
            norm = OPPOSITE[line.norm] if line.kind == "hfft" else line.norm
            array = getattr(library, line.kind)(array, n=line.n, axis=line.axis, norm=norm)
        array = device.lib.ascontiguousarray(array.astype(dtype, copy=False))
    results[device.id, region] = device.adopt(array, name)
