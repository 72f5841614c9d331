"""Arrays of other libraries that give and take parts by slices: zarr arrays, HDF5 datasets, Dask arrays.

Every device reads and writes its own part, so that no process holds the whole array.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from distarray.array.agreement import agreed
from distarray.array.aliases import ArrayLike, DeviceLike, LayoutLike, Sliceable
from distarray.array.dtypes import check_dtype
from distarray.array.layouts import resolve_layout
from distarray.array.state import DistributedArray, from_chunks
from distarray.current import current
from distarray.devices import Chunk
from distarray.errors import UnsupportedError
from distarray.geometry import blocks
from distarray.ops.chunks import local_chunks
from distarray.ops.convert import asarray

__all__ = ["from_array", "from_dask", "store", "to_dask"]


def from_array(source: Sliceable, *, layout: LayoutLike = None, device: DeviceLike = None) -> DistributedArray:
    """The array of an object that gives its parts by slices, such as a zarr array or an HDF5 dataset.

    Parameters
    ----------
    source : object
        With `shape` and `dtype`, and ``source[slices]`` that NumPy takes for an array.
    layout : specification, dict, IndexMap or Layout, optional
        Default: blocks of rows; small arrays are replicated.
    device : Group, int or list of int, optional
        The devices to use. Default: all of the current context.

    Returns
    -------
    DistributedArray

    Raises
    ------
    TypeError
        `source` has no shape, no dtype, or no items; or a dtype that distributed arrays do not hold.
    RemoteError
        Another process could not read its part.

    Notes
    -----
    Communication: none: every device reads its own part, so all processes must be able to. Memory: the parts.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):  # an h5py.Dataset or a zarr.Array in the place of this one
    ...     da.from_array(np.arange(4), layout=da.blocks(0)).tolist()
    [0, 1, 2, 3]
    """
    return _read(source, layout, device, "from_array", lambda keys: [source[key] for key in keys])


def from_dask(array: Sliceable, *, layout: LayoutLike = None, device: DeviceLike = None) -> DistributedArray:
    """The values of a Dask array, computed now: each device's part, in one pass over the graph of a process.

    Parameters
    ----------
    array : dask.array.Array
        Of known shape.
    layout : specification, dict, IndexMap or Layout, optional
        Default: blocks of rows; small arrays are replicated.
    device : Group, int or list of int, optional
        The devices to use. Default: all of the current context.

    Returns
    -------
    DistributedArray

    Raises
    ------
    TypeError
        `array` is no Dask array, or has a dtype that distributed arrays do not hold.
    ValueError
        A length of the shape is not known.
    RemoteError
        The graph failed on another process.

    Notes
    -----
    Communication: none: every process computes what its devices' parts need.
    """
    if not hasattr(array, "__dask_graph__"):
        raise TypeError(f"from_dask takes a Dask array, not {type(array).__name__}: pass dask.array.asarray(x)")
    if any(math.isnan(n) for n in array.shape):
        raise ValueError(f"the shape {array.shape} has unknown lengths: call array.compute_chunk_sizes() before")

    def computed(keys: Sequence[Any]) -> Sequence[Any]:
        import dask

        return dask.compute(*[array[key] for key in keys])  # type: ignore[no-any-return]

    return _read(array, layout, device, "from_dask", computed)


def _read(
    source: Any, layout: LayoutLike, device: DeviceLike, operation: str, parts: Callable[[Sequence[Any]], Sequence[Any]]
) -> DistributedArray:
    for name in ("shape", "dtype", "__getitem__"):
        if not hasattr(source, name):
            raise TypeError(f"{operation} takes an array with shape, dtype and items, and {type(source)} has no {name}")
    context = current()
    shape = tuple([int(n) for n in source.shape])
    dtype = check_dtype(np.dtype(source.dtype)).newbyteorder("=")
    target = resolve_layout(context, layout, shape, device=device, itemsize=dtype.itemsize)
    chunks: list[Chunk | None] = [None] * len(target.chunks)

    def read() -> None:
        own = [
            (number, context.by_id[device_id], region)
            for number, (device_id, region) in enumerate(target.chunks)
            if context.by_id[device_id].process == context.process
        ]
        for (number, place, region), part in zip(own, parts([region.key for *_, region in own]), strict=True):
            values = np.asarray(part).reshape(region.shape)
            chunks[number] = place.from_host(values, dtype, operation)

    agreed(context, operation, read)
    return from_chunks(context, target, chunks, dtype)


def store(
    x: ArrayLike,
    target: Any,  # whatever takes slices
) -> None:
    """Write an array into an object that takes parts by slices, such as a zarr array or an HDF5 dataset.

    Parameters
    ----------
    x : array_like
    target : object
        With `shape`, and ``target[slices] = values``.

    Raises
    ------
    TypeError
        The target has no shape.
    ValueError
        The shapes differ.
    RemoteError
        Another process could not write its part.

    Notes
    -----
    Communication: what evaluates the array; then every process writes its devices' parts, one process after the other, so
    that two never write to one chunk of the target at once.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> target = np.zeros(4, int)  # an h5py.Dataset or a zarr.Array in the place of this one
    >>> with da.init(devices=2, kind="host"):
    ...     da.store(da.arange(4), target)
    >>> target.tolist()
    [0, 1, 2, 3]
    """
    array = asarray(x)
    if not hasattr(target, "shape"):
        raise TypeError(
            f"store writes into an object with a shape, such as an HDF5 dataset, not {type(target).__name__!r}"
        )
    if tuple(target.shape) != array.shape:
        raise ValueError(f"store writes an array of shape {array.shape}, and the target's is {tuple(target.shape)}")
    context = array._context
    found = array._operand("store")

    def write(process: int) -> None:
        if process != context.process:
            return
        for device in context.local_devices:
            for chunk, region in found.layout.index_map.first_owned(device.id):
                if region.size:
                    part = found.arrays[chunk][found.layout.chunks[chunk][1].locate(region).key]
                    target[region.key] = device.to_host(part)

    for process in sorted({device.process for device in context.by_id.values()}):
        agreed(context, "store", lambda process=process: write(process))  # type: ignore[misc]


def to_dask(x: ArrayLike) -> Any:
    """A Dask array of the values as they are now, a block for each part of the rows.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    dask.array.Array
        Of host arrays.

    Raises
    ------
    UnsupportedError
        The array lies in several processes, of which Dask knows nothing.
    ImportError
        Dask is not installed.

    Notes
    -----
    Communication: what brings the array to blocks of rows. Memory: a copy on the host.
    """
    import dask.array

    array = asarray(x)
    context = array._context
    if len({device.process for device in context.by_id.values()}) > 1:
        raise UnsupportedError("to_dask can't show Dask what other processes hold: use dask.array.asarray(x.get())")
    if not array.ndim or not array.size:
        return dask.array.from_array(np.asarray(array.get()), chunks=-1)
    parts = local_chunks(array.reshard(blocks(0)))
    whole = [np.array(context.by_id[part.device].to_host(part.data)) for part in parts if part.region.size]
    return dask.array.concatenate([dask.array.from_array(part, chunks=-1) for part in whole])
