"""The way out to code that knows nothing of distribution: the local chunks of an array, and a function applied to each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from distarray.array.agreement import gathered
from distarray.array.aliases import ArrayLike, DTypeLike
from distarray.array.dtypes import check_dtype, dtype_name, dtype_named
from distarray.array.place import as_array
from distarray.array.shapes import PYTHON_SCALARS, broadcast_shape
from distarray.array.state import DistributedArray, from_chunks, same_context
from distarray.context import Context
from distarray.devices import Device, arrays_of
from distarray.devices.arrays import AnyDType
from distarray.fusion.demand import demand
from distarray.fusion.expr import ASTYPE, record
from distarray.geometry import IndexMap, Region
from distarray.layout import Layout
from distarray.ops.convert import asarray
from distarray.storage import Operand
from distarray.transfer.execute import allocate, redistribute

__all__ = ["LocalChunk", "local_chunks", "map_chunks"]


class LocalChunk(NamedTuple):
    """One chunk of an array: where it lives, which elements it holds, and its data.

    Parameters
    ----------
    device : int
        The device's id.
    region : Region
        The elements that the chunk holds, with methods of sets.
    index : tuple of slice
        ``x.get()[index]`` are the elements that the chunk holds.
    data : array
        A live NumPy or CuPy array of the shape of the region: writing to it writes the array.
    """

    device: int
    region: Region
    index: tuple[slice, ...]  # type: ignore[assignment]  # hides tuple.index, which nobody looks for here
    data: Any


def local_chunks(x: ArrayLike) -> list[LocalChunk]:
    """The chunks of an array that this process holds, with their regions.

    Where chunks overlap, whoever writes to one must write the others too. In a partial mode the data are partial values.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    list of LocalChunk

    Notes
    -----
    Communication: where expressions are still to be evaluated, what they move; else none. Called by all processes, also by
    those that need no chunk: from then on expressions that read the array are evaluated at once, as after
    ``x.all_chunks()``, and a process that did not call it would come to other communications than those that did.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.arange(5, layout=da.blocks(0))
    ...     for chunk in da.local_chunks(x):
    ...         print(chunk.device, chunk.region, chunk.data)
    0 [0:3] [0 1 2]
    1 [3:5] [3 4]
    """
    x = asarray(x)
    held = x.all_chunks()
    index_map = x.layout.index_map
    found = []
    for device, own in held.items():
        for region, data in zip(index_map.regions(device), own, strict=True):
            if data is not None:
                found.append(LocalChunk(device, region, region.slices, data))
    return found


def map_chunks(f: Callable[..., Any], x: ArrayLike, *others: ArrayLike, dtype: DTypeLike = None) -> DistributedArray:
    """Apply a function of NumPy or CuPy arrays to each chunk.

    Parameters
    ----------
    f : callable
        Takes one chunk of each array and returns an array of the same shape. It sees chunks and not the whole array: it
        gives what it would on the whole only where it works element by element, or within axes that are not split.
        It must not write to what it is given; empty chunks are not passed to it, unless there are no others.
    x : array_like
        Its layout is that of the result.
    *others : array_like
        More arguments of `f`: arrays that broadcast to the shape of `x`, which are brought to its layout; Python and
        NumPy scalars are passed as they are.
    dtype : dtype, optional
        Of the result. Default: what `f` returns for the first chunk.

    Returns
    -------
    DistributedArray
        In the layout of `x`. Of overlapping chunks, the first one that holds an element decides its value.

    Raises
    ------
    ValueError
        `f` returns another shape than the chunk's: take ``local_chunks(x)`` and build the result's own layout.
    TypeError
        `f` returns another dtype for one chunk than for the first, and no `dtype` is given.

    Notes
    -----
    Communication: what aligns the other arrays with `x`, and the overlaps of chunks that are not replicas of the whole.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.map_chunks(np.cumsum, da.ones(4, layout=da.blocks(0)))
    DistributedArray([1., 2., 1., 2.])
    """
    return over_chunks(lambda *chunks: (f(*chunks),), asarray(x), others, [dtype])[0]


def over_chunks(
    f: Callable[..., Sequence[Any]], array: DistributedArray, others: Sequence[ArrayLike], dtypes: Sequence[DTypeLike]
) -> list[DistributedArray]:
    """What `f` returns for the chunks: one array for each dtype, which None leaves to `f`."""
    context = array._context
    source = array._operand("map_chunks")
    layout = source.layout
    given: list[Any] = [source.arrays]
    for other in others:
        if isinstance(other, (*PYTHON_SCALARS, np.generic)):
            given.append(other)
            continue
        aligned = as_array(context, other)
        same_context((array, aligned))
        if broadcast_shape(array.shape, aligned.shape) != array.shape:
            raise ValueError(
                f"map_chunks got an array of shape {aligned.shape} beside one of shape {array.shape}: the others must "
                f"broadcast to the first"
            )
        node = record(context, ASTYPE, (aligned._arg(),), {"dtype": aligned.dtype}, array.shape)
        given.append(arrays_of(demand(node, layout).chunks))
    wanted = {i for i, (_, region) in enumerate(layout.chunks) if region.size} or set(range(len(layout.chunks)))
    results: dict[int, list[Any]] = {}
    tasks = []
    for device in context.local_devices:
        mine = [i for i in layout.index_map.chunk_ids(device.id) if i in wanted]
        tasks.append(partial(_called, f, device, layout, given, mine, results))
    with context.guarding("map_chunks", fallible=True):
        context.workers.run(tasks, array.nbytes * (1 + len(others)))
    made = []
    for number, dtype in enumerate(dtypes):
        made.append(_held(context, layout, {i: found[number] for i, found in results.items()}, dtype, array.dtype))
    return made


def _held(
    context: Context, layout: Layout, results: dict[int, Any], dtype: DTypeLike, fallback: AnyDType
) -> DistributedArray:
    """The array whose chunks have these values."""
    kind = _kind(context, layout, results, dtype, fallback)
    with context.reporting():
        chunks = allocate(context, layout, kind, label="map_chunks")
    for i, found in results.items():
        if (chunk := chunks[i]) is not None:
            with chunk.device.active():
                chunk.array[...] = found.astype(kind)
    results.clear()
    index_map = layout.index_map
    if index_map.is_disjoint or index_map.is_replicated:
        return from_chunks(context, layout, chunks, kind)
    deciding: dict[tuple[int, Region], Any] = {}
    regions: dict[int, list[Region]] = {device_id: [] for device_id in layout.devices}
    for device_id in layout.devices:
        for i, part in index_map.first_owned(device_id):
            chunk = chunks[i]
            deciding[device_id, part] = None if chunk is None else chunk.array[layout.chunks[i][1].locate(part).key]
            regions[device_id].append(part)
    first = context.layout(IndexMap(layout.shape, regions))
    values = Operand(first, [deciding[chunk] for chunk in first.chunks], kind)
    return from_chunks(context, layout, redistribute(context, values, layout, operation="map_chunks"), kind)


def _called(
    f: Callable[..., Sequence[Any]],
    device: Device,
    layout: Layout,
    given: list[Any],
    mine: list[int],
    results: dict[int, list[Any]],
) -> None:
    """Call `f` on the chunks `mine` of one device."""
    for i in mine:
        shape = layout.chunks[i][1].shape
        arguments = []
        for argument in given:
            chunk = argument[i][...] if isinstance(argument, list) else argument
            if isinstance(argument, list) and isinstance(chunk, np.ndarray):
                chunk.flags.writeable = False
            arguments.append(chunk)
        with device.active():
            results[i] = [device.lib.asarray(part) for part in f(*arguments)]
        for found in results[i]:
            check_dtype(found.dtype)
            if found.shape != shape:
                raise ValueError(
                    f"the function of map_chunks returned shape {found.shape} for a chunk of shape {shape}, and must keep "
                    f"it: for other shapes, take the chunks from distarray.local_chunks(x)"
                )


def _kind(
    context: Context, layout: Layout, results: dict[int, Any], dtype: DTypeLike, fallback: AnyDType
) -> np.dtype[Any]:
    """The dtype of the result: what `f` returned for the first chunk, agreed between the processes."""
    if dtype is not None:
        return check_dtype(dtype)
    mine = [[i, dtype_name(found.dtype)] for i, found in results.items()]
    names = dict(sorted(pair for said in gathered(context, mine, "map_chunks") for pair in said))
    first = next(iter(names.values()), None)
    if first is None:
        return np.dtype(fallback)
    for i, name in names.items():
        if name != first:
            raise TypeError(
                f"the function of map_chunks returned dtype {name} for {layout.chunks[i][1]} and {first} for the first "
                f"chunk: pass dtype="
            )
    return dtype_named(first)
