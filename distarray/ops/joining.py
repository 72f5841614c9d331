"""Arrays put together from others: joined, stacked, repeated, rolled. Each source is written straight into its
place in the result; nothing is gathered."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from itertools import accumulate, product
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from distarray.array.aliases import ArrayLike, Axis, DTypeLike
from distarray.array.documented import described_as
from distarray.array.dtypes import check_dtype
from distarray.array.functions import implements
from distarray.array.layouts import resolve_layout
from distarray.array.place import as_array
from distarray.array.shapes import PYTHON_SCALARS
from distarray.array.state import DistributedArray, from_chunks, same_context
from distarray.array.writing import check_writable
from distarray.context import Context
from distarray.current import current
from distarray.devices import Chunk
from distarray.fusion.expr import Leaf, warn_complex
from distarray.fusion.write import write
from distarray.geometry import IndexMap, Range, Region, blocks
from distarray.layout import Layout
from distarray.ops.convert import asarray
from distarray.ops.manipulation import atleast_1d, atleast_2d, atleast_3d, expand_dims
from distarray.ops.reshaping import reshape
from distarray.storage import Operand, operand
from distarray.transfer.execute import allocate, copy_into, gather_to_host, redistribute

__all__ = [
    "append", "block", "column_stack", "concat", "concatenate", "dstack", "hstack", "repeat", "roll", "stack", "tile",
    "vstack",
]  # fmt: skip

Piece = tuple[tuple[slice, ...], DistributedArray]
"""Where in the result, and what."""


# --- assembling -------------------------------------------------------------------------------------------------------


def _target(
    context: Context, shape: tuple[int, ...], sources: Sequence[DistributedArray], dtype: Any, axis: int
) -> Layout:
    """The result's layout: that of the first source that is split, stretched along `axis`; where it is split along that
    axis, even blocks; the default layout where no source is split."""
    for x in sources:
        if x.ndim != len(shape):
            continue
        index_map = _seen(x)
        if index_map is None or index_map.is_replicated or not x.size or not index_map.covers:
            continue
        whole = Region.full(x.shape)
        if all(region[axis] == whole[axis] for _, region in index_map.chunks):
            if all(n == m for i, (n, m) in enumerate(zip(x.shape, shape, strict=True)) if i != axis):
                stretched = {
                    device: [
                        Region((*r[:axis], Range.full(shape[axis]), *r[axis + 1 :])) for r in index_map.regions(device)
                    ]
                    for device in index_map.devices
                }
                return context.layout(IndexMap(shape, stretched))
            continue
        return context.layout(blocks(axis).resolve(shape, index_map.devices))
    return resolve_layout(context, None, shape, itemsize=dtype.itemsize)


def _seen(x: DistributedArray) -> IndexMap | None:
    """The index map that an array shows; None where partial values stand in the way."""
    seen = operand(x._context, x._own().version, x._view)
    return None if seen is None else seen.layout.index_map


def assemble(target: DistributedArray, pieces: Iterable[Piece], *, fresh: bool = True) -> DistributedArray:
    """Write each piece into its part of `target`; all sources are read as they were before the first write.

    Whole values go straight to their place; `fresh` says that nothing else reads the target's memory. Recorded
    expressions, partial values and other dtypes are evaluated into it.
    """
    context, storage, whole = target._context, target._own(), target._view_map()
    held = [(whole.index((*key, ...)), source, source._arg()) for key, source in pieces]
    with context.lock:
        for view, source, argument in held:
            if 0 in view.shape:
                continue
            version = storage.version
            seen = context.layouts.visible(version.layout, view)
            found = None
            if (
                fresh
                and seen is not None
                and not seen.twins
                and type(argument) is Leaf
                and source.dtype == target.dtype
            ):
                found = operand(context, argument.version, argument.view)
            if found is not None and seen is not None and not found.layout.is_partial:
                chunks = [version.chunks[i] for i in seen.sources]
                places = [None if c is None else seen.show(i, c.array, c.device.xp) for i, c in enumerate(chunks)]
                copy_into(context, found, seen.layout, places, operation="a join")
            else:
                plain = None if view.is_identity and view.base == version.layout.shape else view
                write(storage, plain, argument)
    return target


def _fresh(context: Context, layout: Layout, dtype: Any) -> DistributedArray:
    return from_chunks(context, layout, allocate(context, layout, dtype, label="a joined array"), dtype)


def _common(arrays: Sequence[Any]) -> tuple[Context, list[DistributedArray], Any]:
    """Context, distributed operands, and the dtype that NumPy promotes them to."""
    known = [a for a in arrays if isinstance(a, DistributedArray)]
    context = same_context(known) if known else current()
    arrays = [a if type(a) in PYTHON_SCALARS else as_array(context, a) for a in arrays]
    dtype = np.result_type(*[a if type(a) in PYTHON_SCALARS else a.dtype for a in arrays])
    none = np.empty(0, dtype)  # NumPy itself converts Python numbers, or refuses them
    arrays = [np.concatenate([none, a], axis=None).reshape(()) if type(a) in PYTHON_SCALARS else a for a in arrays]
    return context, [as_array(context, a) for a in arrays], dtype


@implements(np.concatenate)
def concatenate(
    arrays: Any, axis: int | None = 0, out: Any = None, dtype: DTypeLike = None, casting: str | None = None
) -> Any:
    """Arrays joined along an existing axis.

    Parameters
    ----------
    arrays : sequence of array_like
        Equal shapes except along `axis`.
    axis : int or None
        None joins them flattened.
    out : DistributedArray or numpy.ndarray, optional
        Where to put the result.
    dtype : dtype, optional
        Of the result, not together with `out`. Default: NumPy's common dtype.
    casting : str, optional
        The rule by which dtypes are converted. Default: ``"same_kind"``.

    Returns
    -------
    DistributedArray

    Raises
    ------
    ValueError
        No arrays, or shapes that do not fit.
    TypeError
        The dtypes can't be cast by the rule.

    Notes
    -----
    Communication: none where the arrays have one layout, split along another axis: the result is laid out like them.
    Otherwise each element moves at most once to the blocks along `axis` that the result gets.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.zeros((2, 3), layout=da.blocks(1))
    ...     da.concatenate([x, x]).index_map
    {0: [(slice(0, 4, 1), slice(0, 2, 1))], 1: [(slice(0, 4, 1), slice(2, 3, 1))]}
    """
    given = list(arrays)
    if not given:
        raise ValueError("need at least one array to concatenate")
    if out is not None and dtype is not None:
        raise TypeError("concatenate() only takes `out` or `dtype` as an argument, but both were provided.")
    context, sources, common = _common(given)
    if axis is None:
        sources, axis = [reshape(x, -1) for x in sources], 0
    first = sources[0]
    if any(x.ndim == 0 for x in sources):
        raise ValueError("zero-dimensional arrays cannot be concatenated: use stack")
    axis = normalize_axis_index(operator.index(axis), first.ndim)
    for i, x in enumerate(sources):
        if x.ndim != first.ndim:
            raise ValueError(
                f"all the input array dimensions must match: the array at index 0 has {first.ndim} dimension(s) and the "
                f"array at index {i} has {x.ndim}"
            )
        for d, (n, m) in enumerate(zip(first.shape, x.shape, strict=True)):
            if n != m and d != axis:
                raise ValueError(
                    f"all the input array dimensions except for the concatenation axis must match exactly, but along "
                    f"dimension {d}, the array at index 0 has size {n} and the array at index {i} has size {m}"
                )
    total = sum(x.shape[axis] for x in sources)
    shape = (*first.shape[:axis], total, *first.shape[axis + 1 :])
    kind = check_dtype(common if dtype is None else dtype) if out is None else out.dtype
    for x in sources:
        if not np.can_cast(x.dtype, kind, casting or "same_kind"):  # type: ignore[arg-type]
            raise TypeError(f"Cannot cast array data from {x.dtype!r} to {kind!r} according to the rule {casting!r}")
    for x in sources:
        if x.dtype.kind == "c" and kind.kind not in "cb":
            warn_complex()
    ends = [0, *accumulate(x.shape[axis] for x in sources)]
    head = (slice(None),) * axis
    pieces = [((*head, slice(low, low + x.shape[axis])), x) for low, x in zip(ends, sources, strict=False)]
    if out is None:
        return assemble(_fresh(context, _target(context, shape, sources, kind, axis), kind), pieces)
    if out.shape != shape:
        raise ValueError(f"Output array is the wrong shape: it has {out.shape}, the result has {shape}")
    if isinstance(out, DistributedArray):
        check_writable(out)
        return assemble(out, pieces, fresh=False)
    out[...] = assemble(_fresh(context, _target(context, shape, sources, kind, axis), kind), pieces).get()
    return out


@described_as(concatenate)
def concat(arrays: Any, /, *, axis: int | None = 0) -> Any:
    """The standard's name of :func:`concatenate`."""
    return concatenate(arrays, axis)


@implements(np.stack)
@described_as(concatenate)
def stack(arrays: Any, axis: int = 0, out: Any = None, *, dtype: DTypeLike = None, casting: str | None = None) -> Any:
    """Arrays of one shape joined along a new axis.

    Parameters
    ----------
    arrays : sequence of array_like
        Of one shape.
    axis : int
        The new axis in the result.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.stack([da.arange(2), [5, 6]], axis=1).tolist()
    [[0, 5], [1, 6]]
    """
    given = list(arrays)
    if not given:
        raise ValueError("need at least one array to stack")
    # Python numbers are arrays here, with dtypes of their own
    _, sources, _ = _common([np.asarray(a) if type(a) in PYTHON_SCALARS else a for a in given])
    if len({x.shape for x in sources}) > 1:
        raise ValueError(f"all input arrays must have the same shape, got {[x.shape for x in sources]}")
    axis = normalize_axis_index(operator.index(axis), sources[0].ndim + 1)
    return concatenate([expand_dims(x, axis) for x in sources], axis, out, dtype, casting)


def _listed(found: Any) -> list[DistributedArray]:
    return [*found] if isinstance(found, tuple) else [found]


@implements(np.vstack)
@described_as(concatenate)
def vstack(tup: Any, *, dtype: DTypeLike = None, casting: str = "same_kind") -> Any:
    """Arrays joined along the first axis, those with one axis as rows.

    Parameters
    ----------
    tup : sequence of array_like
        Equal shapes except along the first axis.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.vstack([da.arange(2), [[5, 6]]]).tolist()
    [[0, 1], [5, 6]]
    """
    return concatenate(_listed(atleast_2d(*tup)), 0, None, dtype, casting)


@implements(np.hstack)
@described_as(concatenate)
def hstack(tup: Any, *, dtype: DTypeLike = None, casting: str = "same_kind") -> Any:
    """Arrays joined along the second axis, those with one axis along it.

    Parameters
    ----------
    tup : sequence of array_like
        Equal shapes except along the second axis.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.hstack([da.arange(2), [5, 6]]).tolist()
    [0, 1, 5, 6]
    """
    arrays = _listed(atleast_1d(*tup))
    return concatenate(arrays, 0 if arrays and arrays[0].ndim == 1 else 1, None, dtype, casting)


@implements(np.dstack)
@described_as(concatenate)
def dstack(tup: Any) -> Any:
    """Arrays joined along the third axis, which those with fewer axes get.

    Parameters
    ----------
    tup : sequence of array_like
        Equal shapes except along the third axis.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.dstack([da.arange(2), [5, 6]]).tolist()
    [[[0, 5], [1, 6]]]
    """
    return concatenate(_listed(atleast_3d(*tup)), 2)


@implements(np.column_stack)
@described_as(concatenate)
def column_stack(tup: Any) -> Any:
    """Arrays joined along the second axis, those with one axis as columns.

    Parameters
    ----------
    tup : sequence of array_like
        Equal shapes except along the second axis.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.column_stack([da.arange(2), [5, 6]]).tolist()
    [[0, 5], [1, 6]]
    """
    arrays = [asarray(a) for a in tup]
    return concatenate([x if x.ndim >= 2 else expand_dims(atleast_1d(x), 1) for x in arrays], 1)


@implements(np.block)
@described_as(concatenate)
def block(arrays: Any) -> DistributedArray:
    """An array from nested lists of blocks; the innermost are joined along the last axis.

    Parameters
    ----------
    arrays : nested list of array_like
        Lists of one depth.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.block([[da.eye(1), 2], [3, 4]]).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """

    def depth(item: Any) -> int:
        if isinstance(item, tuple):
            raise TypeError(
                "arrays is a tuple. Only lists can be used to arrange blocks, and np.block does not allow it"
            )
        if not isinstance(item, list):
            return 0
        if not item:
            raise ValueError("List at arrays cannot be empty")
        depths = {depth(inner) for inner in item}
        if len(depths) > 1:
            raise ValueError("List depths are mismatched: nest every block equally deep")
        return 1 + depths.pop()

    def widest(item: Any) -> int:
        return max(map(widest, item)) if isinstance(item, list) else int(np.ndim(item))

    deep = depth(arrays)
    ndim = max(deep, widest(arrays))

    def joined(item: Any, level: int) -> Any:
        if isinstance(item, list):
            return concatenate([joined(inner, level - 1) for inner in item], -level)
        x = asarray(item)
        return x[(None,) * (ndim - x.ndim) + (...,)]

    result = joined(arrays, deep)
    return result if deep else result.copy()  # type: ignore[no-any-return]


@implements(np.append)
@described_as(concatenate)
def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    """An array's elements with others behind them, both flattened without an `axis`.

    Parameters
    ----------
    arr : array_like
    values : array_like
        Of the shape of `arr` except along `axis`.
    axis : int, optional
        Default: both are flattened.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.append(da.arange(2), [5, 6]).tolist()
    [0, 1, 5, 6]
    """
    return concatenate((asarray(arr), asarray(values)), axis)


# --- repeated ---------------------------------------------------------------------------------------------------------


@implements(np.tile)
def tile(A: Any, reps: Any) -> DistributedArray:
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
        counts = tuple([operator.index(n) for n in reps])
    except TypeError:
        counts = (operator.index(reps),)
    x = asarray(A)
    if any(n < 0 for n in counts):
        raise ValueError(f"negative dimensions are not allowed: got reps {counts}")
    counts = (1,) * (x.ndim - len(counts)) + counts
    x = x[(None,) * (len(counts) - x.ndim) + (...,)]
    if all(n == 1 for n in counts):
        return x.copy()
    for axis, n in enumerate(counts):
        if n != 1:
            x = _tiled(x, n, axis)
    return x


def _tiled(x: DistributedArray, n: int, axis: int) -> DistributedArray:
    """`x` `n` times along an axis, by doubling, so that the number of writes grows with the logarithm of `n`."""
    if n == 0:
        return concatenate([x[(slice(None),) * axis + (slice(0, 0),)]], axis)  # type: ignore[no-any-return]
    if n <= 4:
        return concatenate([x] * n, axis)  # type: ignore[no-any-return]
    half = _tiled(x, n // 2, axis)
    return concatenate([half, half, *([x] * (n % 2))], axis)  # type: ignore[no-any-return]


@implements(np.repeat)
def repeat(a: ArrayLike, repeats: Any, axis: int | None = None) -> DistributedArray:
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
    whole = [0, *accumulate(counts)]
    if any(region[axis].step != 1 for _, region in source.layout.chunks):
        target = context.layout(blocks(axis).resolve(x.shape, source.layout.devices))
        moved = redistribute(context, source, target, operation="repeat")
        source = Operand(target, [None if c is None else c.array for c in moved], source.dtype)
    shape = (*x.shape[:axis], whole[-1], *x.shape[axis + 1 :])
    made: dict[tuple[int, Region], Chunk | None] = {}
    regions: dict[int, list[Region]] = {device: [] for device in source.layout.devices}
    for (device_id, region), array in zip(source.layout.chunks, source.arrays, strict=True):
        r = region[axis]
        low, high = whole[r.start], whole[r.start + r.size]
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
            chunk.array[...] = device.lib.repeat(array, counts[r.start : r.start + r.size], axis)
        made[device_id, grown] = chunk
    layout = context.layout(IndexMap(shape, regions))
    return from_chunks(context, layout, [made[key] for key in layout.chunks], x.dtype)


def _counts(repeats: Any, n: int) -> list[int]:
    """How often each of `n` elements is repeated."""
    if isinstance(repeats, DistributedArray):
        repeats = gather_to_host(repeats._context, repeats._operand("repeat"))
    counts = np.asarray(repeats)
    if counts.dtype.kind not in "biu" and not (counts.size == 0 and isinstance(repeats, (list, tuple))):
        raise TypeError(f"Cannot cast array data from {counts.dtype!r} to {np.dtype(np.intp)!r}: pass integer repeats")
    if counts.ndim > 1:
        raise ValueError(f"object too deep for desired array: repeats has {counts.ndim} axes; pass an int or one axis")
    if counts.ndim == 1 and counts.size != 1 and counts.size != n:
        raise ValueError(f"operands could not be broadcast together with shape ({n},) ({counts.size},)")
    if (counts < 0).any():
        raise ValueError("repeats may not contain negative values.")
    return [int(c) for c in np.broadcast_to(counts, (n,))]


# --- moved within -----------------------------------------------------------------------------------------------------


@implements(np.roll)
def roll(a: ArrayLike, shift: Any, axis: Axis = None) -> DistributedArray:
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
        result = reshape(_rolled(flat, _shifts(flat, shift, 0)), x.shape)
        result._writable = True
        return result
    return _rolled(x, _shifts(x, shift, axis))


def _shifts(x: DistributedArray, shift: Any, axis: Any) -> list[int]:
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
    index_map = _seen(x)
    if index_map is None or not index_map.covers:
        index_map = resolve_layout(context, None, x.shape, itemsize=x.dtype.itemsize).index_map
    cuts = []
    for by, n in zip(shifts, x.shape, strict=True):
        whole = [(slice(0, n), slice(0, n))]
        cuts.append([(slice(by, n), slice(0, n - by)), (slice(0, by), slice(n - by, n))] if by else whole)
    pieces = []
    for parts in product(*cuts):
        pieces.append((tuple(to for to, _ in parts), x[(*(frm for _, frm in parts), ...)]))
    return assemble(_fresh(context, context.layout(index_map), x.dtype), pieces)
