"""Sums and counts of what is not NaN, and their spread, in one pass over each chunk on host devices.

A block that fits the core's cache is looked through, copied with zeros in the place of NaN, counted and added, before the next one
is read: NumPy's own way takes the whole array through memory once for each of these. Over all axes the squared distances are taken
in the same pass, from the block's own mean, and joined when the mean of all is known, after Chan, Golub & LeVeque, "Algorithms for
computing the sample variance" (The American Statistician 37, 1983).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from math import isfinite, prod
from typing import Any, NamedTuple

import numpy as np

from distarray.algorithms.fold_plans import Reduction, fold_sources, whole_lines
from distarray.algorithms.folds import run_tasks
from distarray.algorithms.local import arrays_in
from distarray.array.functions import NOTHING
from distarray.array.state import DistributedArray, from_chunks
from distarray.context import Context
from distarray.devices import Chunk, Device, in_turn
from distarray.devices.arrays import AnyDType, DeviceArray
from distarray.fusion.blocks import REGISTERS
from distarray.geometry import IndexMap, Region
from distarray.layout import Layout
from distarray.modes import Mode
from distarray.transfer.execute import allocate

__all__ = ["Sums", "counts_and_sums", "squares_apart"]

BLOCK = 1 << 16
"""Elements of a block, which a register holds: of smaller ones the calls cost too much, and the interpreter lock where two threads
work."""

LEAST = 1 << 15
"""Smaller arrays take the general way."""


class _NanPlan(NamedTuple):
    """Who folds what: the layout of the results, for each of its chunks the parts of chunks it is made of, and where the means
    that these parts need lie: their layout, and the number of its chunk for each part."""

    layout: Layout
    sources: tuple[tuple[tuple[int, Any, int], ...], ...]
    means: Layout


def _planned(context: Context, layout: Layout, axes: tuple[int, ...], keepdims: bool, dtype: AnyDType) -> _NanPlan:
    key = ("nan sums", layout, axes, keepdims)
    found = context.layouts.remembered(key)
    if found is not None:
        return found  # type: ignore[no-any-return]
    call = Reduction(np.add, axes, keepdims, dtype, None, NOTHING)
    kept = call._replace(keepdims=True)
    pieces = whole_lines(call, layout)
    mode = Mode.SUM if pieces is None else None
    pieces = fold_sources(call, layout) if pieces is None else pieces
    homes: dict[int, list[Region]] = {device: [] for device in layout.devices}
    needed: dict[int, list[Region]] = {device: [] for device in layout.devices}
    for (device, part), own in pieces.items():
        homes[device].append(part)
        needed[device].extend(kept.project(piece.region) for piece in own)
    index_map = IndexMap(call.shape(layout.shape), homes)
    means = IndexMap(kept.shape(layout.shape), needed)
    number = {row: i for i, row in enumerate(means.chunks)}
    sources = []
    for device, part in index_map.chunks:
        sources.append(tuple(
            (piece.chunk, (*layout.chunks[piece.chunk][1].locate(piece.region).slices, ...),
             number[device, kept.project(piece.region)])
            for piece in pieces.get((device, part), ())
        ))  # fmt: skip
    target = context.layout(index_map, Mode.of(None if index_map.is_disjoint else mode))
    made = _NanPlan(target, tuple(sources), context.layout(means))
    context.layouts.remember(key, made)
    return made


def _serves(context: Context, a: DistributedArray) -> bool:
    """Whether this is the way: from metadata alone."""
    return context.kind == "host" and a.dtype in (np.float32, np.float64) and a.dtype.isnative and a.size >= LEAST


class Sums(NamedTuple):
    """How many elements are not NaN, and their sum in the array's dtype; and where squares were taken in the same pass, for each
    chunk of both the count, mean and sum of squared distances of its blocks."""

    counts: DistributedArray
    totals: DistributedArray
    blocks: Mapping[int, list[tuple[int, float, float]]]


def counts_and_sums(
    context: Context, a: DistributedArray, axes: tuple[int, ...], keepdims: bool, squares: bool = False
) -> Sums | None:
    """Counts and sums of what is not NaN along axes; None where this is not the way.

    `squares`: those that `squares_apart` adds are wanted next.
    """
    if not _serves(context, a):
        return None
    # where a caller wants to hear of small numbers, squares are taken from the mean that NumPy takes them from
    squares = squares and len(axes) == a.ndim and np.geterr()["under"] == "ignore"
    blocks: dict[int, list[tuple[int, float, float]]] = {}
    with context.lock:
        context.check()
        found = a._operand("nansum")
        course = _planned(context, found.layout, axes, keepdims, a.dtype)
        with context.reporting():
            counts = allocate(context, course.layout, np.dtype(np.intp), label="nansum")
            sums = allocate(context, course.layout, a.dtype, label="nansum")

        def fold(number: int) -> None:
            total, count = sums[number], counts[number]
            assert total is not None and count is not None
            total.array[...] = 0
            count.array[...] = 0
            own: list[tuple[int, float, float]] | None = [] if squares else None
            for chunk, key, _ in course.sources[number]:
                _add(found.arrays[chunk][key], axes, total.array, count.array, blocks=own)
            if own is not None and all(isfinite(square) for _, _, square in own):
                blocks[number] = own

        _run(context, course, sums, 2 * a.nbytes, fold, "reduce")
        return Sums(
            from_chunks(context, course.layout, counts, np.dtype(np.intp)),
            from_chunks(context, course.layout, sums, a.dtype),
            blocks,
        )


def squares_apart(
    context: Context, a: DistributedArray, mean: DistributedArray, axes: tuple[int, ...], keepdims: bool, sums: Sums
) -> DistributedArray | None:
    """Sums of the squared distances from `mean`, which has the axes kept and the dtype of `a`, of what is not NaN; None where this
    is not the way. `sums` are those of the same array and axes."""
    if not _serves(context, a) or mean.dtype != a.dtype:
        return None
    with context.lock:
        context.check()
        found = a._operand("nanvar")
        course = _planned(context, found.layout, axes, keepdims, a.dtype)
        means = arrays_in(context, mean._operand("nanvar"), course.means, "nanvar")
        with context.reporting():
            squares = allocate(context, course.layout, a.dtype, label="nanvar")

        def fold(number: int) -> None:
            total = squares[number]
            assert total is not None
            if number in sums.blocks:
                middle = [float(means[place].item()) for _, _, place in course.sources[number][:1]]
                apart = [(n, m - middle[0], square) for n, m, square in sums.blocks[number]]
                joined = a.dtype.type(sum([square + n * (m * m) for n, m, square in apart]))
                if isfinite(joined):  # else NumPy warns, of what it meets
                    total.array[...] = joined
                    return
            total.array[...] = 0
            for chunk, key, place in course.sources[number]:
                _add(found.arrays[chunk][key], axes, total.array, None, means[place])

        quick = len(sums.blocks) == len([chunk for chunk in squares if chunk is not None])
        _run(context, course, squares, 0 if quick else 2 * a.nbytes, fold, "subtract")
        return from_chunks(context, course.layout, squares, a.dtype)


def _run(
    context: Context, course: _NanPlan, chunks: Sequence[Chunk | None], nbytes: int, fold: object, name: str
) -> None:
    tasks: dict[int, list[Any]] = {}
    for number, (device, _) in enumerate(course.layout.chunks):
        if chunks[number] is not None:
            tasks.setdefault(device, []).append(partial(_active, context.by_id[device], fold, number))
    run_tasks(context, [partial(in_turn, own) for own in tasks.values()], nbytes, name)


def _active(device: Device, fold: Any, number: int) -> None:
    with device.active():
        fold(number)


def _blocks(shape: tuple[int, ...]) -> Iterator[tuple[slice, ...]]:
    """Keys of boxes of at most `BLOCK` elements, in C order, that make up an array: runs along one axis, whole behind it."""
    axis, behind = len(shape) - 1, 1
    while axis > 0 and behind * shape[axis] <= BLOCK:
        behind *= shape[axis]
        axis -= 1
    step = max(1, BLOCK // behind)
    for before in product(*[range(n) for n in shape[:axis]]):
        for first in range(0, shape[axis], step):
            yield (*[slice(i, i + 1) for i in before], slice(first, min(first + step, shape[axis])))


def _add(
    array: DeviceArray,
    axes: tuple[int, ...],
    total: DeviceArray,
    count: DeviceArray | None,
    mean: DeviceArray | None = None,
    blocks: list[tuple[int, float, float]] | None = None,
) -> None:
    """Add the sums of an array's elements that are not NaN along axes to `total`, and their number to `count`; with a `mean`,
    of the squares of their distances from it. `blocks`, over all axes, takes each block's count, mean and squares."""
    whole = len(axes) == array.ndim
    shape = tuple([1 if axis in axes else n for axis, n in enumerate(array.shape)])
    if whole and array.flags.c_contiguous:
        array, shape, axes = array.reshape(-1), (1,), (0,)
        mean = None if mean is None else mean.reshape(1)
    total, count = total.reshape(shape), None if count is None else count.reshape(shape)
    registers = REGISTERS.take(2)
    room, flags = registers[0].view(array.dtype), registers[1].view(bool)
    parts: list[Any] = []  # of a whole array: added at the end, pairwise
    for key in _blocks(array.shape):
        block = array[key]
        missing = flags[: block.size].reshape(block.shape)
        values = room[: block.size].reshape(block.shape)
        np.not_equal(block, block, out=missing)  # isnan leaves elements of views unwritten, see fusion.notes.GAPPED
        blank = np.count_nonzero(missing)
        into = tuple([slice(None) if n == 1 else part for n, part in zip(shape, key, strict=False)])
        if mean is not None:
            np.subtract(block, mean[into], out=values)
        elif blank:
            np.copyto(values, block)
        else:
            values = block
        if blank:
            np.copyto(values, 0, where=missing)
        if mean is not None:
            np.multiply(values, values, out=values)
        if whole:
            parts.append(np.add.reduce(values, axis=None))
            if count is not None:
                count += values.size - blank
            if blocks is not None and blank < values.size:
                blocks.append(_block(values, missing if blank else None, room, values.size - blank, parts[-1]))
            continue
        total[into] += np.add.reduce(values, axis=axes, keepdims=True)
        if count is not None:
            each = prod([block.shape[axis] for axis in axes])
            count[into] += each
            if blank:
                count[into] -= np.add.reduce(missing, axis=axes, keepdims=True, dtype=np.intp)
    REGISTERS.give(registers)
    if whole:
        total += np.add.reduce(np.array(parts, array.dtype))


def _block(
    values: DeviceArray, missing: DeviceArray | None, room: DeviceArray, kept: int, total: Any
) -> tuple[int, float, float]:
    """The count of a block's elements, their mean, and the sum of the squares of their distances from it. `values` has zeros where
    elements are `missing`; `room` is overwritten. The squares are no number where the mean is none: then nobody was warned."""
    middle = float(total) / kept
    with np.errstate(all="ignore"):
        apart = np.subtract(values, values.dtype.type(middle), out=room[: values.size].reshape(values.shape))
        if missing is not None:
            np.copyto(apart, 0, where=missing)
        np.multiply(apart, apart, out=apart)
        return kept, float(values.dtype.type(middle)), float(np.add.reduce(apart, axis=None))
