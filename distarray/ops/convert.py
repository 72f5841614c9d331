"""From objects to distributed arrays and back: ``asarray``, layouts from what users write, copies, pickles, DLPack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from distarray.array import DistributedArray
from distarray.context import Context, current, group_ids
from distarray.devices import Chunk, from_dlpack
from distarray.errors import CoverageError, LayoutError, UnsupportedError
from distarray.fusion.expr import warn_complex
from distarray.geometry import as_spec, blocks, replicated
from distarray.layout import Layout
from distarray.modes import Mode
from distarray.operators import PYTHON_SCALARS, astype_node
from distarray.registry import METHODS, implements, method
from distarray.storage import Version
from distarray.transfer.execute import allocate

__all__ = ["asarray", "copy", "distributed_array", "from_chunks", "resolve_layout"]


@method("resolve_layout")
def resolve_layout(
    context: Context,
    layout: Any,
    shape: tuple[int, ...],
    *,
    mode: Mode = Mode.REPLICA,
    device: Any = None,
    itemsize: int = 8,
) -> Layout:
    """The layout that a user's ``layout=`` argument means for an array of this shape.

    Raises
    ------
    CoverageError
        A REPLICA layout leaves an element out; the message names one.
    """
    ids = group_ids(context, device)
    if isinstance(layout, Layout):
        mode, layout = layout.mode, layout.index_map
    if layout is None:
        size = itemsize
        for n in shape:
            size *= n
        spec = replicated() if size <= context.SMALL or not shape else blocks(0)
        index_map = spec.resolve(shape, ids)
    else:
        index_map = as_spec(layout).resolve(shape, ids)
    for d in index_map.devices:
        if d not in context.by_id:
            raise LayoutError(
                f"the layout names device {d}, and the context has devices {list(context.group.ids)}: use one of these, "
                f"or make more with distarray.init(devices={d + 1})"
            )
    if mode is Mode.REPLICA and not index_map.covers:
        raise CoverageError(
            f"the index map leaves element {index_map.uncovered()} of shape {shape} on no device, and a REPLICA array "
            f"needs every element somewhere: add it to a device's chunks, or use mode 'sum', 'min', 'max' or 'prod'"
        )
    return context.layout(index_map, mode)


def from_chunks(
    context: Context, layout: Layout, chunks: Sequence[Chunk | None], dtype: Any, *, detached: bool = False
) -> DistributedArray:
    """The array of a layout's chunks, in its global order."""
    return DistributedArray._of_version(context, Version(layout, list(chunks), np.dtype(dtype)), detached=detached)


def check_dtype(dtype: Any) -> np.dtype[Any]:
    dtype = np.dtype(dtype)
    if dtype.kind not in "biufc" and dtype.name != "bfloat16":
        raise UnsupportedError(
            f"dtype {dtype} can't be distributed: use a bool, integer, floating or complex dtype, for instance with "
            f"np.asarray(x, dtype=float)"
        )
    return dtype  # type: ignore[no-any-return]


def dtype_name(dtype: Any) -> str:
    """The text that names a dtype to other processes, with its byte order; :func:`dtype_named` reads it."""
    dtype = np.dtype(dtype)
    return "bfloat16" if dtype.name == "bfloat16" else dtype.str  # ml_dtypes' types all say "<V" and their size


def dtype_named(name: str) -> np.dtype[Any]:
    """The dtype that another process named.

    Raises
    ------
    UnsupportedError
        This process has no ml_dtypes, which brings bfloat16.
    """
    if name != "bfloat16":
        return np.dtype(name)
    try:
        import ml_dtypes  # NumPy knows the name only from here on
    except ImportError:
        raise UnsupportedError(
            "another process has bfloat16 data, and this one has no ml_dtypes to read them: pip install ml_dtypes"
        ) from None
    dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return dtype


def asarray(
    obj: Any,
    /,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    copy: bool | None = None,
    root: int | None = None,
) -> DistributedArray:
    """Convert an object to a distributed array.

    Parameters
    ----------
    obj : array_like
        A NumPy or CuPy array, nested lists, a scalar, any object with DLPack, or a DistributedArray.
    dtype : dtype, optional
        Default: as NumPy infers it.
    layout : specification, dict, IndexMap or Layout, optional
        Such as ``distarray.blocks(0)``. Default: blocks of rows; small arrays are replicated. A DistributedArray keeps
        its layout.
    device : Group, int or list of int, optional
        The devices to use. Default: all of the current context.
    copy : bool, optional
        True: always a copy. False: never, which only a DistributedArray that stays as it is allows, without `root`.
    root : int, optional
        Only this process gives the array, and the others receive their chunks; the `obj` and `dtype` that they pass are
        ignored. All pass the same `root`, `layout` and `device`. Default: every process gives the whole array and takes
        its own part.

    Returns
    -------
    DistributedArray

    Raises
    ------
    ValueError
        ``copy=False`` where a copy is needed. `root` is no process, or not the same on all.
    TypeError
        `obj` can't become an array. `root` is no integer, or given with a DistributedArray, which is all processes' already.
    LayoutError, IndexMapError, CoverageError
        The layout does not fit the shape.
    RemoteError
        With `root`: another process raised one of these, in its own call. All go on with the next operation.

    Notes
    -----
    Communication: none between devices, except where a DistributedArray changes its layout. With `root`, its first device
    sends the devices of other processes their chunks, after two small rounds in which the processes agree.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.asarray(np.arange(6.0), layout=da.blocks(0))
    ...     x.index_map
    {0: [(slice(0, 3, 1),)], 1: [(slice(3, 6, 1),)]}
    """
    if root is not None:
        return METHODS["scattered"](obj, root, dtype, layout, device, copy)  # type: ignore[no-any-return]
    if isinstance(obj, DistributedArray):
        result = obj
        if layout is not None or (device is not None and group_ids(obj._context, device) != obj._context.group.ids):
            target = resolve_layout(obj._context, layout, obj.shape, mode=obj.mode, device=device)
            if target != obj.layout:
                if copy is False:
                    raise ValueError(
                        "copy=False, and the layout changes: call x.reshard(layout), which copies what moves"
                    )
                result = obj.reshard(target)
        if dtype is not None and np.dtype(dtype) != obj.dtype:
            if copy is False:
                raise ValueError(
                    f"copy=False, and the dtype changes from {obj.dtype} to {np.dtype(dtype)}: use x.astype"
                )
            return DistributedArray._of_node(astype_node(result, check_dtype(dtype)))
        if copy and result is obj:
            return copy_array(obj)
        return result
    if copy is False:
        raise ValueError(
            f"copy=False, and an object of type {type(obj).__name__} must be copied to the devices: pass copy=None"
        )
    context = current()
    source = host_or_device_array(obj, dtype)
    return place(
        context, source, resolve_layout(context, layout, source.shape, device=device, itemsize=source.dtype.itemsize)
    )


def host_or_device_array(obj: Any, dtype: Any) -> Any:
    """A NumPy or CuPy array of an object's values; no copy where it is one already."""
    if is_cupy(obj):
        return obj if dtype is None else obj.astype(dtype, copy=False)
    if not isinstance(obj, (np.ndarray, np.generic, list, tuple, *PYTHON_SCALARS)) and not hasattr(obj, "__array__"):
        if hasattr(obj, "__dlpack__"):
            obj = from_dlpack(obj)
            if is_cupy(obj):
                return obj if dtype is None else obj.astype(dtype, copy=False)
        elif not isinstance(obj, Sequence):
            raise TypeError(
                f"can't make an array of {type(obj).__name__}: pass numbers, nested lists, a NumPy or CuPy array, or an "
                f"object with __dlpack__"
            )
    if isinstance(obj, (list, tuple)):
        obj = _nested(obj)
    array = np.asarray(obj, dtype=None if dtype is None else check_dtype(dtype))
    check_dtype(array.dtype)
    return array


def _nested(obj: Any) -> Any:
    """Lists with distributed scalars in them, as lists of NumPy values."""
    if isinstance(obj, (list, tuple)):
        return [_nested(item) for item in obj]
    return obj.get() if isinstance(obj, DistributedArray) else obj


def is_cupy(obj: Any) -> bool:
    """Whether an object is a CuPy array, without importing CuPy."""
    return type(obj).__module__.partition(".")[0] == "cupy" and hasattr(obj, "data") and hasattr(obj, "shape")


def place(context: Context, source: Any, layout: Layout) -> DistributedArray:
    """Copy a NumPy or CuPy array's values into a layout: each chunk its part; partial modes keep each value once."""
    index_map, mode, dtype = layout.index_map, layout.mode, source.dtype
    if context.debug and context.communicator is not None:
        METHODS["compare_host"](context, source if isinstance(source, np.ndarray) else source.get())
    on_gpu = not isinstance(source, np.ndarray)
    if on_gpu and context.kind == "host":
        source, on_gpu = source.get(), False
    chunks: list[Chunk | None] = []
    single = mode in (Mode.SUM, Mode.PROD) and not index_map.is_disjoint
    with context.reporting():
        for device_id, region in layout.chunks:
            device = context.by_id[device_id]
            if device.process != context.process:
                chunks.append(None)
            elif single:
                chunks.append(device.full(region.shape, dtype, mode.identity(dtype)))
            elif on_gpu:
                chunks.append(device.from_foreign(source[region.key]))
            else:
                chunks.append(device.from_host(source[region.key]))
        if single:
            for device_id in layout.devices:
                for chunk_id, part in index_map.first_owned(device_id):
                    chunk = chunks[chunk_id]
                    if chunk is None:
                        continue
                    piece = (
                        chunk.device.from_foreign(source[part.key])
                        if on_gpu
                        else chunk.device.from_host(source[part.key])
                    )
                    key = layout.chunks[chunk_id][1].locate(part).key
                    chunk.device.copy(chunk.array[key], piece.array, chunk.device)
    return from_chunks(context, layout, chunks, dtype)


def distributed_array(array: Any, index_map: Any, mode: Mode | str | None = Mode.REPLICA) -> DistributedArray:
    """Distribute an array by an index map, as ``cupyx.distributed.array.distributed_array`` does.

    Parameters
    ----------
    array : array_like or DistributedArray
    index_map : dict of int to index or list of index, or a layout specification
        Which elements each device holds. An index is an int, a slice, Ellipsis, or a tuple of these; a list holds
        several chunks. Regions may overlap, stride and differ in size.
    mode : Mode or str
        REPLICA copies each element to all its chunks. SUM and PROD keep it in the first chunk that holds it and fill the
        others with the identity; MIN and MAX keep it everywhere. In these modes elements may be left out: they read as
        the identity.

    Raises
    ------
    IndexMapError, DeviceError, CoverageError
        Naming the device, the axis and the element.

    Notes
    -----
    Communication: none for a host or CuPy array; for a DistributedArray that of ``change_mode`` and ``reshard``.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.distributed_array([3, -2, 5, 7], {0: slice(0, 3), 1: slice(1, 4)}, "sum")
    ...     x.all_chunks()
    {0: [array([ 3, -2,  5])], 1: [array([0, 0, 7])]}
    """
    target = Mode.of(mode)
    if isinstance(array, DistributedArray):
        layout = resolve_layout(array._context, index_map, array.shape, mode=target)
        changed = array if array.mode is target else array.change_mode(target)
        return changed.reshard(layout)
    context = current()
    source = host_or_device_array(array, None)
    if isinstance(index_map, Layout):
        index_map = index_map.index_map
    return place(context, source, resolve_layout(context, index_map, source.shape, mode=target))


@method("as_operand")
def as_operand(context: Context, obj: Any, shape: tuple[int, ...] | None) -> Any:
    """An operand of an operation: arrays of this context as they are, 0-d host arrays as NumPy scalars, others placed.

    `shape`, where given, says that the result must be an array (0-d ones too).
    """
    if isinstance(obj, DistributedArray):
        return obj
    if isinstance(obj, np.generic) and shape is None:
        return obj
    if shape is None and is_masked(obj):
        raise TypeError("a masked array loses its mask as an operand of a distributed array: pass m.filled(value)")
    source = host_or_device_array(obj, None)
    if shape is None and source.ndim == 0 and isinstance(source, np.ndarray):
        return source[()]
    return place(context, source, resolve_layout(context, None, source.shape, itemsize=source.dtype.itemsize))


@method("is_masked")
def is_masked(obj: Any) -> bool:
    """Whether an object is a masked array with masked elements."""
    plain = type(obj) is np.ndarray or not isinstance(obj, np.ndarray)
    return not plain and isinstance(obj, np.ma.MaskedArray) and bool(np.ma.is_masked(obj))


@method("is_foreign_array")
def is_foreign_array(obj: Any) -> bool:
    """Whether an object is an array that operators take and copy: CuPy's."""
    return is_cupy(obj)


@method("copy")
@implements(np.copy)
def copy(a: Any, order: str = "K", subok: bool = False) -> DistributedArray:
    """A copy of an array, in the layout that its view shows. Communication: none.

    The copy shares buffers with a whole array until one of them is written to.
    """
    return copy_array(a)


def copy_array(a: DistributedArray) -> DistributedArray:
    """A copy that shares what it can until one of the two is written to."""
    context = a._context
    if a._node is not None and a._node.version is None:
        return DistributedArray._of_node(a._node)
    storage = a._own()
    with context.lock:
        if a._view is None and not storage.exposed:
            return DistributedArray._of_version(context, storage.version)
        found = a._operand("copy", partial_ok=True)
        chunks = allocate(context, found.layout, a.dtype, label="a copy")
        for chunk, array in zip(chunks, found.arrays, strict=True):
            if chunk is not None:
                chunk.device.copy(chunk.array, array, chunk.device)
        return from_chunks(context, found.layout, chunks, a.dtype)


@method("detach")
def detach(a: DistributedArray) -> DistributedArray:
    """A 0-d value of its own, as NumPy's scalars are: in-place operators rebind it. Communication: none."""
    result = copy_array(a)
    result._detached = True
    return result


@implements(np.astype)
def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    """The array converted to another dtype; recorded, not evaluated. Communication: none.

    Parameters
    ----------
    dtype : dtype
    copy : bool
        False: an array that has the dtype already is returned as it is.
    device : Group, int or list of int, optional
        Where the result lives: by default where `x` does. To other devices its elements move.
    """
    result = _converted(x, dtype, copy=copy)
    return result if device is None else asarray(result, device=device)


@method("number")
def number(value: Any) -> DistributedArray:
    """A Python number, fractions and decimals among them, as a result that is one."""
    result = asarray(value if isinstance(value, (int, float, complex, np.generic)) else float(value))
    result._detached = True
    return result


@method("astype")
def _converted(
    x: Any, /, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
) -> Any:
    """The method, with the arguments of NumPy's. `order` and `subok` are accepted for NumPy's sake."""
    target = check_dtype(dtype)
    np.empty(0, bool).astype(bool, order, cast("Any", casting), subok, copy)  # type: ignore[call-overload]
    if not np.can_cast(x.dtype, target, casting=casting):  # type: ignore[arg-type]
        raise TypeError(f"Cannot cast array data from {x.dtype!r} to {target!r} according to the rule {casting!r}")
    if target == x.dtype:
        return x if not copy else detach(x) if x._detached else copy_array(x)
    if x.dtype.kind == "c" and target.kind not in "cb":
        warn_complex()
    result = DistributedArray._of_node(astype_node(x, target))
    result._detached = x._detached
    return result


@method("pickled")
def pickled(a: DistributedArray) -> tuple[Any, ...]:
    """The global value and its layout."""
    return (_unpickled, (a.get(), a.index_map, a.mode.value, a._detached))


def _unpickled(value: Any, index_map: Mapping[int, Any], mode: str, detached: bool = False) -> DistributedArray:
    context = current()
    known = set(index_map) <= set(context.by_id)
    result = distributed_array(value, dict(index_map), mode) if known else asarray(value)
    result._detached = detached
    return result


@method("to_device")
def to_device(x: DistributedArray, device: Any, /, *, stream: Any = None) -> DistributedArray:
    """The array on other devices of its context."""
    if stream is not None:
        raise UnsupportedError("to_device takes no stream: devices order their own work; pass stream=None")
    if group_ids(x._context, device) == x._context.group.ids:
        return x
    return asarray(x, device=device)


@method("__dlpack_device__")
def dlpack_device(x: DistributedArray) -> tuple[int, int]:
    """The device of a DLPack export: the host's memory, (1, 0)."""
    return (1, 0)


@method("__dlpack__")
def dlpack(
    x: DistributedArray,
    *,
    stream: Any = None,
    max_version: Any = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """Export the global value, copied to the host. DLPack knows no arrays on several devices."""
    if copy is False or (dl_device is not None and tuple(map(int, dl_device)) != (1, 0)):
        raise BufferError(
            "a distributed array is exported through DLPack only as a copy on the host: pass copy=None and "
            "dl_device=(1, 0), or export x.all_chunks() device by device"
        )
    return x.get().__dlpack__(max_version=max_version)
