"""Arrays put together from others: joined, stacked, appended. Each source is written straight into its
place in the result; nothing is gathered."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from distarray.array.aliases import ArrayLike, Arrays, DTypeLike, Out
from distarray.array.documented import described_as
from distarray.array.dtypes import check_dtype
from distarray.array.functions import implements
from distarray.array.layouts import resolve_layout
from distarray.array.place import as_array, devices_of
from distarray.array.shapes import PYTHON_SCALARS
from distarray.array.state import DistributedArray, from_chunks, same_context
from distarray.array.writing import check_out
from distarray.context import Context
from distarray.current import current
from distarray.devices.arrays import AnyDType
from distarray.fusion.expr import Leaf, warn_complex
from distarray.fusion.write import write
from distarray.geometry import IndexMap, Range, Region, blocks
from distarray.layout import Layout
from distarray.ops.convert import asarray
from distarray.ops.manipulation import atleast_1d, atleast_2d, atleast_3d, expand_dims
from distarray.ops.reshaping import reshape
from distarray.storage import operand
from distarray.transfer.execute import allocate, copy_into

__all__ = ["append", "block", "column_stack", "concat", "concatenate", "dstack", "hstack", "stack", "vstack"]

PlacedPiece = tuple[tuple[slice, ...], DistributedArray]
"""A part of the result, and the array that fills it."""


# --- assembling -------------------------------------------------------------------------------------------------------


def target_layout(
    context: Context, shape: tuple[int, ...], sources: Sequence[DistributedArray], dtype: AnyDType, axis: int
) -> Layout:
    """The result's layout: that of the largest source that is split, stretched along `axis`; where it is split along that
    axis, even blocks; where no source is split, the default layout on the devices that they have between them."""
    split = []
    for x in sources:
        if x.ndim != len(shape):
            continue
        seen = operand(x._context, x._own().version, x._view)
        if seen is None or not x.size or seen.layout.index_map.is_replicated or not seen.layout.index_map.covers:
            continue
        split.append((x.size, seen.layout))
    apart = len(split) > 1 and len({_home(context, layout) for _, layout in split}) > 1
    for _, layout in sorted(split, key=lambda pair: -pair[0]):
        key = ("joined", layout, shape, axis, apart)
        found: Any = context.layouts.remembered(key)
        if found is None:
            even = apart and _home(context, layout) is not None
            found = context.layouts.remember(key, (_stretched(context, layout.index_map, shape, axis, even),))
        if found[0] is not None:
            return found[0]  # type: ignore[no-any-return]
    return resolve_layout(context, None, shape, device=devices_of(sources), itemsize=dtype.itemsize)


def _home(context: Context, layout: Layout) -> int | None:
    """The device that has all of an array; None where several have parts."""
    key = ("home", layout)
    found: Any = context.layouts.remembered(key)
    if found is None:
        homes = {device for device, region in layout.chunks if region.size}
        found = context.layouts.remember(key, (homes.pop() if len(homes) == 1 else None,))
    return found[0]  # type: ignore[no-any-return]


def _stretched(context: Context, index_map: IndexMap, shape: tuple[int, ...], axis: int, even: bool) -> Layout | None:
    """A source's layout, stretched along `axis` to a result of `shape`, or `even` blocks, so that one device does not get what
    others have; None where the other lengths differ."""
    whole = Region.full(index_map.shape)
    if even or any(region[axis] != whole[axis] for _, region in index_map.chunks):
        return context.layout(blocks(axis).resolve(shape, index_map.devices))
    if any(n != m for i, (n, m) in enumerate(zip(index_map.shape, shape, strict=True)) if i != axis):
        return None
    long = Range.full(shape[axis])
    stretched = {
        device: [Region((*r[:axis], long, *r[axis + 1 :])) for r in index_map.regions(device)]
        for device in index_map.devices
    }
    return context.layout(IndexMap(shape, stretched))


def shown_map(x: DistributedArray) -> IndexMap | None:
    """The index map that an array shows; None where partial values stand in the way."""
    seen = operand(x._context, x._own().version, x._view)
    return None if seen is None else seen.layout.index_map


def assemble(target: DistributedArray, pieces: Iterable[PlacedPiece], *, fresh: bool = True) -> DistributedArray:
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


def unfilled(context: Context, layout: Layout, dtype: AnyDType) -> DistributedArray:
    return from_chunks(context, layout, allocate(context, layout, dtype, label="a joined array"), dtype)


def _common(arrays: Sequence[Any], dtype: Any = None) -> tuple[Context, list[DistributedArray], Any]:
    """Context, distributed operands, and the dtype that NumPy promotes them to, where `dtype` asks for none."""
    known = [a for a in arrays if isinstance(a, DistributedArray)]
    context = same_context(known) if known else current()
    if len(known) == len(arrays):
        if dtype is not None:
            return context, known, dtype
        dtypes = [a._dtype for a in known]
        dtype = dtypes[0]
        if any(other != dtype for other in dtypes) or dtype.kind not in "biufc" or not dtype.isnative:
            dtype = np.result_type(*dtypes)
        return context, known, dtype
    beside = devices_of(known)
    arrays = [a if type(a) in PYTHON_SCALARS else as_array(context, a, beside) for a in arrays]
    if dtype is None:
        dtype = np.result_type(*[a if type(a) in PYTHON_SCALARS else a.dtype for a in arrays])
    none = np.empty(0, dtype)  # NumPy itself converts Python numbers, or refuses them
    arrays = [np.concatenate([none, a], axis=None).reshape(()) if type(a) in PYTHON_SCALARS else a for a in arrays]
    return context, [as_array(context, a, beside) for a in arrays], dtype


@implements(np.concatenate)
def concatenate(
    arrays: Arrays, axis: int | None = 0, out: Out = None, dtype: DTypeLike = None, casting: str | None = None
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
    if out is not None:
        check_out(out)
    wanted = dtype if out is None else out.dtype
    context, sources, common = _common(given, wanted)
    if axis is None:
        sources, axis = [reshape(x, -1) for x in sources], 0
    first = sources[0]
    if any(x.ndim == 0 for x in sources):
        raise ValueError("zero-dimensional arrays cannot be concatenated: use stack")
    axis = normalize_axis_index(operator.index(axis), first.ndim)
    for i, x in enumerate(sources):
        if x.ndim != first.ndim:
            raise ValueError(
                f"all the input arrays must have same number of dimensions, but the array at index 0 has {first.ndim} "
                f"dimension(s) and the array at index {i} has {x.ndim} dimension(s)"
            )
        for d, (n, m) in enumerate(zip(first.shape, x.shape, strict=True)):
            if n != m and d != axis:
                raise ValueError(
                    f"all the input array dimensions except for the concatenation axis must match exactly, but along "
                    f"dimension {d}, the array at index 0 has size {n} and the array at index {i} has size {m}"
                )
    total = sum(x.shape[axis] for x in sources)
    shape = (*first.shape[:axis], total, *first.shape[axis + 1 :])
    kind = check_dtype(common) if out is None else out.dtype
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
        return assemble(unfilled(context, target_layout(context, shape, sources, kind, axis), kind), pieces)
    if out.shape != shape:
        raise ValueError(f"Output array is the wrong shape: it has {out.shape}, the result has {shape}")
    if isinstance(out, DistributedArray):
        return assemble(out, pieces, fresh=False)
    out[...] = assemble(unfilled(context, target_layout(context, shape, sources, kind, axis), kind), pieces).get()
    return out


@described_as(concatenate)
def concat(
    arrays: Arrays,
    /,
    axis: int | None = 0,
    out: Out = None,
    *,
    dtype: DTypeLike = None,
    casting: str | None = None,
) -> Any:
    """The standard's name of :func:`concatenate`."""
    return concatenate(arrays, axis, out, dtype, casting)


@implements(np.stack)
@described_as(concatenate)
def stack(
    arrays: Arrays, axis: int = 0, out: Out = None, *, dtype: DTypeLike = None, casting: str | None = None
) -> Any:
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
    if out is not None:
        check_out(out)
    # Python numbers are arrays here, with dtypes of their own
    _, sources, _ = _common(
        [np.asarray(a) if type(a) in PYTHON_SCALARS else a for a in given], dtype if out is None else out.dtype
    )
    if len({x.shape for x in sources}) > 1:
        raise ValueError(f"all input arrays must have the same shape, got {[x.shape for x in sources]}")
    axis = normalize_axis_index(operator.index(axis), sources[0].ndim + 1)
    return concatenate([expand_dims(x, axis) for x in sources], axis, out, dtype, casting)


def _listed(found: Any) -> list[DistributedArray]:
    return [*found] if isinstance(found, tuple) else [found]


@implements(np.vstack)
@described_as(concatenate)
def vstack(tup: Arrays, *, dtype: DTypeLike = None, casting: str = "same_kind") -> Any:
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
def hstack(tup: Arrays, *, dtype: DTypeLike = None, casting: str = "same_kind") -> Any:
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
def dstack(tup: Arrays) -> Any:
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
def column_stack(tup: Arrays) -> Any:
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
def block(arrays: ArrayLike) -> DistributedArray:
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

    def depth(item: ArrayLike) -> int:
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

    def widest(item: ArrayLike) -> int:
        return max(map(widest, item)) if isinstance(item, list) else int(np.ndim(item))

    deep = depth(arrays)
    ndim = max(deep, widest(arrays))

    def joined(item: ArrayLike, level: int) -> Any:
        if isinstance(item, list):
            return concatenate([joined(inner, level - 1) for inner in item], -level)
        x = asarray(item)
        return x[(None,) * (ndim - x.ndim) + (...,)]

    result = joined(arrays, deep)
    return result if deep else result.copy()  # type: ignore[no-any-return]


@implements(np.append)
@described_as(concatenate)
def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Any:
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
    known = devices_of([a for a in (arr, values) if isinstance(a, DistributedArray)])
    return concatenate(
        [a if isinstance(a, DistributedArray) else asarray(a, device=known) for a in (arr, values)], axis
    )
