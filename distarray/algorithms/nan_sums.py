"""Sums and counts of what is not NaN, in one pass over each chunk on host devices.

A block that fits the core's cache is looked through, copied with zeros in the place of NaN, counted and added, before the next one
is read: NumPy's own way takes the whole array through memory once for each of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from distarray.algorithms.folds import run_tasks
from distarray.algorithms.local import arrays_in
from distarray.algorithms.reduction import Reduction, fold_sources, whole_lines
from distarray.array.functions import NOTHING
from distarray.array.state import DistributedArray, from_chunks
from distarray.context import Context
from distarray.devices import Device, in_turn
from distarray.geometry import IndexMap, Region
from distarray.layout import Layout
from distarray.modes import Mode
from distarray.transfer.execute import allocate

__all__ = ["counts_and_sums", "squares_apart"]

BLOCK = 1 << 14
"""Elements of a block."""

LEAST = 1 << 15
"""Smaller arrays take the general way."""


class _NanPlan(NamedTuple):
    """Who folds what: the layout of the results, for each of its chunks the parts of chunks it is made of, and where the means
    that these parts need lie: their layout, and the number of its chunk for each part."""

    layout: Layout
    sources: tuple[tuple[tuple[int, Any, int], ...], ...]
    means: Layout


def _planned(context: Context, layout: Layout, axes: tuple[int, ...], keepdims: bool, dtype: Any) -> _NanPlan:
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


def counts_and_sums(
    context: Context, a: DistributedArray, axes: tuple[int, ...], keepdims: bool
) -> tuple[DistributedArray, DistributedArray] | None:
    """How many elements are not NaN along axes, and their sum in the dtype of `a`; None where this is not the way."""
    if not _serves(context, a):
        return None
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
            for chunk, key, _ in course.sources[number]:
                _add(found.arrays[chunk][key], axes, total.array, count.array)

        _run(context, course, sums, 2 * a.nbytes, fold, "reduce")
        return from_chunks(context, course.layout, counts, np.dtype(np.intp)), from_chunks(
            context, course.layout, sums, a.dtype
        )


def squares_apart(
    context: Context, a: DistributedArray, mean: DistributedArray, axes: tuple[int, ...], keepdims: bool
) -> DistributedArray | None:
    """Sums of the squared distances from `mean`, which has the axes kept and the dtype of `a`, of what is not NaN; None where this
    is not the way."""
    if not _serves(context, a) or mean.dtype != a.dtype:
        return None
    with context.lock:
        context.check()
        found = a._operand("nanvar")
        course = _planned(context, found.layout, axes, keepdims, a.dtype)
        means = arrays_in(context, mean._operand("nanvar"), course.means, "nanvar")
        with context.reporting():
            sums = allocate(context, course.layout, a.dtype, label="nanvar")

        def fold(number: int) -> None:
            total = sums[number]
            assert total is not None
            total.array[...] = 0
            for chunk, key, place in course.sources[number]:
                _add(found.arrays[chunk][key], axes, total.array, None, means[place])

        _run(context, course, sums, 2 * a.nbytes, fold, "subtract")
        return from_chunks(context, course.layout, sums, a.dtype)


def _run(context: Context, course: _NanPlan, chunks: Any, nbytes: int, fold: Any, name: str) -> None:
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


def _add(array: Any, axes: tuple[int, ...], total: Any, count: Any, mean: Any = None) -> None:
    """Add the sums of an array's elements that are not NaN along axes to `total`, and their number to `count`; with a `mean`,
    of the squares of their distances from it."""
    whole = len(axes) == array.ndim
    shape = tuple([1 if axis in axes else n for axis, n in enumerate(array.shape)])
    if whole and array.flags.c_contiguous:
        array, shape, axes = array.reshape(-1), (1,), (0,)
        mean = None if mean is None else mean.reshape(1)
    total, count = total.reshape(shape), None if count is None else count.reshape(shape)
    size = min(array.size, BLOCK)
    flags, room = np.empty(size, bool), np.empty(size, array.dtype)
    parts: list[Any] = []  # of a whole array: added at the end, pairwise
    for key in _blocks(array.shape):
        block = array[key]
        missing = flags[: block.size].reshape(block.shape)
        values = room[: block.size].reshape(block.shape)
        np.isnan(block, out=missing)
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
            continue
        total[into] += np.add.reduce(values, axis=axes, keepdims=True)
        if count is not None:
            each = prod([block.shape[axis] for axis in axes])
            count[into] += each
            if blank:
                count[into] -= np.add.reduce(missing, axis=axes, keepdims=True, dtype=np.intp)
    if whole:
        total += np.add.reduce(np.array(parts, array.dtype))
