"""Arrays repeated or rolled: ``tile``, ``repeat``, ``roll``. Each piece is written straight into its place in the result."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import product
from typing import Any, cast

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from distarray.array.aliases import ArrayLike, Axis, ShapeLike
from distarray.array.functions import implements
from distarray.array.layouts import resolve_layout
from distarray.array.standing import settled
from distarray.array.state import DistributedArray, from_chunks
from distarray.devices import Chunk, arrays_of
from distarray.geometry import IndexMap, Range, Region, blocks
from distarray.ops.convert import asarray
from distarray.ops.creation import empty
from distarray.ops.joining import assemble, concatenate, shown_map, unfilled
from distarray.ops.reshaping import reshape
from distarray.storage import Operand
from distarray.transfer.execute import redistribute
from distarray.transfer.to_host import gather_to_host

__all__ = ["repeat", "roll", "tile"]


@implements(np.tile)
def tile(A: ArrayLike, reps: ShapeLike) -> DistributedArray:
    """The array repeated along each axis.

    Parameters
    ----------
    A : array_like
    reps : int or sequence of int
        How often along each axis, the last axis last.

    Returns
    -------
    DistributedArray
        A copy.

    Raises
    ------
    ValueError
        A number is negative.

    Notes
    -----
    Communication: as of :func:`concatenate`, once for each doubling.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.tile(da.arange(2), (2, 2)).tolist()
    [[0, 1, 0, 1], [0, 1, 0, 1]]
    """
    try:
        counts = tuple([operator.index(n) for n in cast("Sequence[int]", reps)])
    except TypeError:
        counts = (operator.index(cast("int", reps)),)
    x = asarray(A)
    if any(n < 0 for n in counts):
        raise ValueError(f"negative dimensions are not allowed: got reps {counts}")
    counts = (1,) * (x.ndim - len(counts)) + counts
    x = x[(None,) * (len(counts) - x.ndim) + (...,)]
    if all(n == 1 for n in counts):
        return x.copy()
    shape = tuple([n * length for n, length in zip(counts, x.shape, strict=True)])
    if np.broadcast_to(np.empty((), x.dtype), shape).nbytes > LARGE:  # or NumPy's error, where there is no such array
        empty(shape, x.dtype)  # memory that is not there is missed before any is filled
    for axis, n in enumerate(counts):
        if n != 1:
            x = _tiled(x, n, axis)
    return x


LARGE = 1 << 30
"""Bytes of a result whose memory is asked for before it is built up by parts."""


def _tiled(x: DistributedArray, n: int, axis: int) -> DistributedArray:
    """`x` `n` times along an axis, by doubling, so that the number of writes grows with the logarithm of `n`."""
    if n == 0:
        return concatenate([x[(slice(None),) * axis + (slice(0, 0),)]], axis, dtype=x.dtype)  # type: ignore[no-any-return]
    if n <= 4:
        return concatenate([x] * n, axis, dtype=x.dtype)  # type: ignore[no-any-return]
    half = _tiled(x, n // 2, axis)
    return concatenate([half, half, *([x] * (n % 2))], axis, dtype=x.dtype)  # type: ignore[no-any-return]


@implements(np.repeat)
def repeat(a: ArrayLike, repeats: ArrayLike, axis: int | None = None) -> DistributedArray:
    """Each element repeated along an axis, or of the flattened array.

    Parameters
    ----------
    a : array_like
    repeats : int or array of int
        How often, for all elements or for each along the axis.
    axis : int, optional
        Default: of the flattened array.

    Returns
    -------
    DistributedArray

    Raises
    ------
    ValueError
        Numbers are negative, or not as many as there are elements along the axis.
    TypeError
        Numbers are no integers.

    Notes
    -----
    Communication: none where each chunk's part of the axis is contiguous; otherwise each element moves once into blocks.
    Distributed `repeats` are read, since they decide the shape.

    Memory on each device: with an array of `repeats` two numbers for each of its elements, and its part of the result once more.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.repeat(da.arange(3), [1, 0, 2]).tolist()
    [0, 2, 2]
    """
    x = asarray(a)
    axis = None if axis is None else normalize_axis_index(operator.index(axis), max(x.ndim, 1))
    if axis is None or not x.ndim:
        x, axis = reshape(x, -1), 0
    counts = _counts(repeats, x.shape[axis])
    context, source = x._context, x._operand("repeat")
    ends = np.cumsum(counts)
    if any(region[axis].step != 1 for _, region in source.layout.chunks):
        target = context.layout(blocks(axis).resolve(x.shape, source.layout.devices))
        moved = redistribute(context, source, target, operation="repeat")
        source = Operand(target, arrays_of(moved), source.dtype)
    shape = (*x.shape[:axis], _before(counts, ends, x.shape[axis]), *x.shape[axis + 1 :])
    made: dict[tuple[int, Region], Chunk | None] = {}
    regions: dict[int, list[Region]] = {device: [] for device in source.layout.devices}
    for (device_id, region), array in zip(source.layout.chunks, source.arrays, strict=True):
        r = region[axis]
        low, high = _before(counts, ends, r.start), _before(counts, ends, r.start + r.size)
        grown = Region((*region[:axis], Range.of(low, 1, high - low), *region[axis + 1 :]))
        if (device_id, grown) in made:
            continue
        regions[device_id].append(grown)
        made[device_id, grown] = None
        device = context.by_id[device_id]
        if device.process != context.process:
            continue
        with context.reporting(), device.active():
            chunk = device.empty(grown.shape, x.dtype, "repeat")
            if counts.ndim == 0:
                split = (*array.shape[: axis + 1], int(counts), *array.shape[axis + 1 :])
                chunk.array.reshape(split)[...] = device.lib.expand_dims(array, axis + 1)
            else:
                own = counts[r.start : r.start + r.size]
                chunk.array[...] = device.lib.repeat(array, own if device.kind == "host" else own.tolist(), axis)
        made[device_id, grown] = chunk
    layout = context.layout(IndexMap(shape, regions))
    return from_chunks(context, layout, [made[key] for key in layout.chunks], x.dtype)


def _before(counts: np.ndarray, ends: np.ndarray, i: int) -> int:
    """How many elements of the result come from those before the `i`-th."""
    return int(counts) * i if counts.ndim == 0 else int(ends[i - 1]) if i else 0


def _counts(repeats: ArrayLike, n: int) -> np.ndarray:
    """How often each of `n` elements is repeated; without axes where that is the same for all."""
    if isinstance(repeats, DistributedArray):
        repeats = gather_to_host(repeats._context, repeats._operand("repeat"))
    counts = (
        np.asarray(repeats) if hasattr(repeats, "dtype") else np.asarray(repeats, np.intp)
    )  # 1.5 is cut, text refused
    if counts.dtype.kind not in "biu" and not (counts.size == 0 and isinstance(repeats, (list, tuple))):
        raise TypeError(f"Cannot cast array data from {counts.dtype!r} to {np.dtype(np.intp)!r}: pass integer repeats")
    if counts.ndim > 1:
        raise ValueError(f"object too deep for desired array: repeats has {counts.ndim} axes; pass an int or one axis")
    if counts.ndim == 1 and counts.size != 1 and counts.size != n:
        raise ValueError(f"operands could not be broadcast together with shape ({n},) ({counts.size},)")
    if (counts < 0).any():
        raise ValueError("repeats may not contain negative values.")
    return counts.reshape(()).astype(np.intp) if counts.size == 1 else counts.astype(np.intp)


@implements(np.roll)
def roll(a: ArrayLike, shift: int | Sequence[int], axis: Axis = None) -> DistributedArray:
    """Elements shifted along axes, or through the flattened array; those that leave come in at the other end.

    Parameters
    ----------
    a : array_like
    shift : int or tuple of int
        How far, along each axis.
    axis : int or tuple of int, optional
        Default: through the flattened array.

    Returns
    -------
    DistributedArray

    Notes
    -----
    Communication: the elements that change their device. The result has the array's layout.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.roll(da.arange(5), 2).tolist()
    [3, 4, 0, 1, 2]
    """
    x = asarray(a)
    if axis is None:
        flat = x if x.ndim == 1 else reshape(x, -1)
        return settled(reshape(_rolled(flat, _shifts(flat, shift, 0)), x.shape))
    return _rolled(x, _shifts(x, shift, axis))


def _shifts(x: DistributedArray, shift: ArrayLike, axis: Any) -> list[int]:
    axes = normalize_axis_tuple(axis, x.ndim, allow_duplicate=True)
    if isinstance(shift, DistributedArray):
        shift = shift.get()
    pairs = np.broadcast(shift, axes)
    if pairs.ndim > 1:
        raise ValueError("'shift' and 'axis' should be scalars or 1D sequences")
    total = [0] * x.ndim
    for by, along in pairs:
        total[along] += int(by)
    return [by % n if n else 0 for by, n in zip(total, x.shape, strict=True)]


def _rolled(x: DistributedArray, shifts: Sequence[int]) -> DistributedArray:
    context = x._context
    index_map = shown_map(x)
    if index_map is None or not index_map.covers:
        index_map = resolve_layout(context, None, x.shape, itemsize=x.dtype.itemsize).index_map
    cuts = []
    for by, n in zip(shifts, x.shape, strict=True):
        whole = [(slice(0, n), slice(0, n))]
        cuts.append([(slice(by, n), slice(0, n - by)), (slice(0, by), slice(n - by, n))] if by else whole)
    pieces = []
    for parts in product(*cuts):
        pieces.append((tuple(to for to, _ in parts), x[(*(frm for _, frm in parts), ...)]))
    return assemble(unfilled(context, context.layout(index_map), x.dtype), pieces)
