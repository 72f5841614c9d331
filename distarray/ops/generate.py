"""How creation functions make their chunks: each on its own device, from its region's coordinates, so that no array of
the global size exists anywhere but spread over the devices."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from distarray.array.aliases import DeviceLike, LayoutLike, ShapeLike
from distarray.array.layouts import resolve_layout
from distarray.array.shown import is_short
from distarray.array.state import DistributedArray, fresh_array, from_chunks
from distarray.context import Context
from distarray.current import current
from distarray.devices import Chunk, Device
from distarray.devices.arrays import AnyDType, Library
from distarray.geometry import Range, Region
from distarray.layout import Layout
from distarray.modes import Mode
from distarray.transfer.execute import allocate

__all__ = ["Maker", "as_shape", "generate", "indices_of", "lengths_of", "placement"]

Maker = Callable[[Device, Region, Any], None]
"""Writes the values of a region into an array of the region's shape, on a device that is active."""


def lengths_of(shape: ShapeLike) -> tuple[int, ...]:
    """A shape argument, an int or a sequence of ints, as a tuple; lengths may be negative."""
    given: Any = shape
    try:
        given = (operator.index(given),) if type(given) is not bool else None
    except TypeError:
        if isinstance(given, Mapping) or not hasattr(given, "__getitem__") or not hasattr(given, "__len__"):
            given = None
    if given is None or bool in map(type, given):
        raise TypeError(
            f"expected a sequence of integers or a single integer, got {shape!r}: pass a shape such as (4, 3)"
        )
    return tuple([operator.index(n) for n in given])


def as_shape(shape: ShapeLike) -> tuple[int, ...]:
    """A shape argument, an int or a sequence of ints, as a tuple."""
    lengths = lengths_of(shape)
    if any(n < 0 for n in lengths):
        raise ValueError(f"negative dimensions are not allowed: got shape {lengths}; every length is at least 0")
    return lengths


def indices_of(lib: Library, r: Range) -> Any:
    """The global indices of a range, as int64."""
    return lib.arange(r.start, r.start + r.size * r.step, r.step, dtype=np.int64)


def generate(
    context: Context,
    layout: Layout,
    dtype: AnyDType,
    make: Maker,
    label: str,
    *,
    by_cell: bool = False,
    fallible: bool = False,
) -> DistributedArray:
    """The array whose elements `make` computes region by region; in SUM and PROD each element in its first chunk only.

    With `by_cell`, the holders of an element all compute it as part of the same region: the bits may depend on the cut.
    `fallible`: `make` calls a user's function, and where that raises on one process all raise.
    """
    # where chunks with partial values overlap, only one of them may hold an element's value
    single = layout.mode in (Mode.SUM, Mode.PROD) and not layout.index_map.is_disjoint
    if is_short(layout, math.prod(layout.shape) * dtype.itemsize) and dtype.kind in "biufc":
        array = np.empty(layout.shape, dtype)
        with context.guarding(label, fallible=fallible or None):
            _make_all(layout.keeper, [(layout.chunks[layout.home][1], array)], make)
        return fresh_array(context, layout, array)
    chunks: list[Chunk | None] = allocate(context, layout, dtype, layout.mode if single else None, label)
    tasks: list[Callable[[], None]] = []
    for device_id in layout.devices:
        device = context.by_id[device_id]
        parts: list[tuple[Region, Any]] = []
        whole = [(i, layout.chunks[i][1]) for i in layout.index_map.chunk_ids(device_id)]
        if single:
            whole = list(layout.index_map.first_owned(device_id))
        elif by_cell and not layout.index_map.is_disjoint:
            whole = [(i, cell) for i, region in whole for _, cell in layout.index_map.query_cells(region)]
        for i, part in whole:
            if (chunk := chunks[i]) is not None:
                parts.append((part, chunk.array[layout.chunks[i][1].locate(part).key]))
        tasks.append(partial(_make_all, device, parts, make))
    with context.guarding(label, fallible=fallible or None):
        context.workers.run(tasks, sum(c.nbytes for c in chunks if c is not None))
    return from_chunks(context, layout, chunks, cast("Any", dtype))


def _make_all(device: Device, parts: Sequence[tuple[Region, Any]], make: Maker) -> None:
    if not parts:
        return
    with device.active():
        for region, out in parts:
            if region.size:
                make(device, region, out)


def placement(
    shape: tuple[int, ...], dtype: np.dtype[Any], layout: LayoutLike, device: DeviceLike
) -> tuple[Context, Layout]:
    """The current context, and the layout that the arguments of a creation function mean there."""
    context = current()
    return context, resolve_layout(context, layout, shape, device=device, itemsize=dtype.itemsize)
