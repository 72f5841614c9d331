"""From objects to distributed arrays and back: ``asarray``, layouts from what users write, copies, pickles, DLPack."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from distarray.array import whole
from distarray.array.aliases import ArrayLike, DeviceLike, DTypeLike, LayoutLike, SupportsDLPack
from distarray.array.dtypes import check_dtype
from distarray.array.functions import implements
from distarray.array.layouts import resolve_layout
from distarray.array.memory_model import lies_in
from distarray.array.place import host_or_device_array, place
from distarray.array.shapes import memory_order
from distarray.array.state import DistributedArray, astype_node, copy_array, detach, from_chunks
from distarray.context import group_ids
from distarray.current import current
from distarray.devices import from_dlpack as foreign_array
from distarray.errors import UnsupportedError
from distarray.fusion.expr import warn_complex
from distarray.geometry import Region
from distarray.layout import Layout
from distarray.modes import Mode
from distarray.ops.processes import scattered

__all__ = ["asarray", "astype", "copy", "distributed_array", "from_dlpack"]


def asarray(
    obj: ArrayLike | SupportsDLPack,
    /,
    dtype: DTypeLike = None,
    order: str | None = None,
    *,
    layout: LayoutLike = None,
    device: DeviceLike = None,
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
    order : str, optional
        Accepted for NumPy's sake: chunks are C-contiguous.
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
    memory_order(order)
    if root is not None:
        return scattered(obj, root, dtype, layout, device, copy)
    if isinstance(obj, DistributedArray):
        result = obj
        if layout is not None or (device is not None and obj.device != list(group_ids(obj._context, device))):
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
            if obj.dtype.kind == "c" and np.dtype(dtype).kind not in "cb":
                warn_complex()
            return DistributedArray._of_node(astype_node(result, check_dtype(dtype)))
        if result is obj and (copy or not lies_in(obj, order)):
            return copy_array(obj)
        return result
    if copy is False:
        raise ValueError(
            f"copy=False, and an object of type {type(obj).__name__} must be copied to the devices: pass copy=None"
        )
    context = current()
    if dtype is not None and isinstance(obj, np.ndarray) and obj.dtype.kind == "c" and np.dtype(dtype).kind not in "cb":
        warn_complex()  # at the caller's line
        obj = obj.real
    source = host_or_device_array(obj, cast("Any", dtype))
    return place(
        context, source, resolve_layout(context, layout, source.shape, device=device, itemsize=source.dtype.itemsize)
    )


def from_dlpack(x: SupportsDLPack, /, *, device: DeviceLike = None, copy: bool | None = None) -> DistributedArray:
    """An array of any library with DLPack as a distributed array.

    Parameters
    ----------
    x : object with ``__dlpack__`` and ``__dlpack_device__``
        In the host's memory, or on a GPU. A DistributedArray stays as it is where it may.
    device : Group, int or list of int, optional
        The devices to use. Default: all of the current context.
    copy : bool, optional
        True, or None: the values are copied to the devices. False: the array's own memory becomes the one chunk, which one
        device of its kind allows; what others write to it then shows.

    Returns
    -------
    DistributedArray

    Raises
    ------
    TypeError
        `x` has no DLPack.
    BufferError
        ``copy=False``, and a copy is needed.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.from_dlpack(np.arange(3)).get()
    array([0, 1, 2])
    """
    if not (hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__")):
        raise TypeError(f"from_dlpack takes objects with __dlpack__ and __dlpack_device__, not {type(x).__name__}")
    if isinstance(x, DistributedArray):
        try:
            return asarray(x, device=device, copy=copy)
        except ValueError as error:
            raise BufferError(str(error)) from None
    context = current()
    source = foreign_array(x)
    ids = group_ids(context, device)
    if copy is not False:
        layout = resolve_layout(context, None, source.shape, device=device, itemsize=check_dtype(source.dtype).itemsize)
        return place(context, source, layout)
    owner = context.by_id[ids[0]]
    if len(ids) > 1 or owner.process != context.process or not owner.owns(source) or not source.flags.c_contiguous:
        raise BufferError(
            f"copy=False, and an array of shape {source.shape} must be copied to devices {list(ids)}: pass copy=None, or "
            f"device= one device whose memory the array is in, in C order"
        )
    check_dtype(source.dtype)
    layout = resolve_layout(context, None, source.shape, device=device, itemsize=source.dtype.itemsize)
    result = from_chunks(context, layout, [owner.adopt(source, "from_dlpack")], source.dtype)
    result._own().exposed = True
    result._writable = not isinstance(source, np.ndarray) or bool(source.flags.writeable)
    return result


def distributed_array(
    array: ArrayLike, index_map: Mapping[int, Any], mode: Mode | str | None = Mode.REPLICA
) -> DistributedArray:
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

    Returns
    -------
    DistributedArray

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
    where: Any = index_map.index_map if isinstance(index_map, Layout) else index_map
    return place(context, source, resolve_layout(context, where, source.shape, mode=target))


@implements(np.copy)
def copy(a: ArrayLike, order: str = "K", subok: bool = False) -> DistributedArray:
    """A copy of an array, in the layout that its view shows. Communication: none.

    The copy shares buffers with a whole array until one of them is written to.

    `order` and `subok` have no effect: chunks are C-contiguous, and there are no subclasses.

    Parameters
    ----------
    a : array_like
    order : str
        Accepted for NumPy's sake.
    subok : bool
        Accepted for NumPy's sake.

    Returns
    -------
    DistributedArray

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.arange(3)
    ...     y = da.copy(x)
    ...     y[0] = 9
    ...     x.tolist(), y.tolist()
    ([0, 1, 2], [9, 1, 2])
    """
    memory_order(order)
    return copy_array(a) if isinstance(a, DistributedArray) else asarray(a)


@implements(np.astype)
def astype(x: ArrayLike, dtype: DTypeLike, /, *, copy: bool = True, device: DeviceLike = None) -> Any:
    """The array converted to another dtype; recorded, not evaluated.

    Parameters
    ----------
    x : array_like
    dtype : dtype
        Of the result.
    copy : bool
        False: an array that has the dtype already is returned as it is.
    device : Group, int or list of int, optional
        Where the result lives: by default where `x` does. To other devices its elements move.

    Returns
    -------
    DistributedArray
        `x` itself where nothing changes and `copy` is False.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.astype(da.arange(3), float).tolist()
    [0.0, 1.0, 2.0]
    """
    result = converted(x, dtype, copy=copy)
    return result if device is None else asarray(result, device=device)


def converted(
    x: ArrayLike, /, dtype: DTypeLike, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
) -> Any:
    """The array converted to another dtype, with the arguments of NumPy's method; recorded, not evaluated.

    Parameters
    ----------
    x : array_like
    dtype : dtype
        Of the result.
    order : str
        Accepted for NumPy's sake.
    casting : {"no", "equiv", "safe", "same_kind", "unsafe", "same_value"}
        Which conversions are allowed; the last, from NumPy 2.4 on, those that keep every value.
    subok : bool
        Accepted for NumPy's sake.
    copy : bool
        False: an array that has the dtype already is returned as it is.

    Returns
    -------
    DistributedArray

    Raises
    ------
    TypeError
        The rule forbids the conversion.
    ValueError
        A value would change, and `casting` is ``"same_value"``.

    Warns
    -----
    ComplexWarning
        Imaginary parts are dropped.

    Notes
    -----
    Communication: none, and with ``casting="same_value"`` one number.
    """
    target = check_dtype(dtype)
    np.empty(0, bool).astype(bool, order, cast("Any", casting), subok, copy)  # type: ignore[call-overload]
    x = asarray(x)
    if casting == "same_value":
        return _same_value(x, target, copy)
    if not np.can_cast(x.dtype, target, casting=casting):  # type: ignore[arg-type]
        raise TypeError(f"Cannot cast array data from {x.dtype!r} to {target!r} according to the rule {casting!r}")
    if target == x.dtype:
        return x if not copy else detach(x) if x._detached else copy_array(x)
    if x.dtype.kind == "c" and target.kind not in "cb":
        warn_complex()
    ready = whole.cast(x, target)
    if ready is not NotImplemented:
        return ready
    result = DistributedArray._of_node(astype_node(x, target))
    result._detached = x._detached
    return result


def _same_value(x: DistributedArray, target: np.dtype[Any], copy: bool) -> Any:
    """The array in another dtype that has all its values."""
    np.empty(0, x.dtype).astype(target, casting=cast("Any", "same_value"))  # what NumPy refuses, whatever the values
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
        result = converted(x, target, copy=copy)
        back = converted(result, x.dtype)
        kept = (result == x) & (back == x)
        if x.dtype.kind in "fc":
            kept |= np.isnan(x) & np.isnan(back)
        is_kept = target.kind == "b" or bool(np.all(kept))
    if not is_kept:
        raise ValueError(f"could not cast 'same_value' {x.dtype} to {target}: a value would change")
    return result


def pickled(a: DistributedArray) -> tuple[Any, ...]:
    """The global value and its layout."""
    return (_unpickled, (a.get(), a.index_map, a.mode.value, a._detached))


def _unpickled(value: ArrayLike, index_map: Mapping[int, Any], mode: str, detached: bool = False) -> DistributedArray:
    context = current()
    known = set(index_map) <= set(context.by_id)
    result = distributed_array(value, dict(index_map), mode) if known else asarray(value)
    result._detached = detached
    return result


def to_device(x: DistributedArray, device: DeviceLike | str, /, *, stream: object = None) -> Any:
    """The array on other devices of its context; on ``"cpu"``, the device of NumPy's arrays, as a NumPy array.

    Parameters
    ----------
    x : DistributedArray
    device : Group, int, list of int, or "cpu"
        The devices.
    stream : None
        Nothing else: devices order their own work.

    Returns
    -------
    DistributedArray or numpy.ndarray
        The array itself where it lives there.

    Raises
    ------
    UnsupportedError
        A `stream` was passed.

    Notes
    -----
    Communication: the elements that a device lacks; to ``"cpu"`` all, to every process.
    """
    if stream is not None:
        raise UnsupportedError("to_device takes no stream: devices order their own work; pass stream=None")
    if isinstance(device, str) and device == "cpu":
        return x.get()
    target = cast("DeviceLike", device)
    return x if x.device == list(group_ids(x._context, target)) else asarray(x, device=target)


def dlpack_device(x: DistributedArray) -> tuple[int, int]:
    """The device of a DLPack export: the host's memory, (1, 0)."""
    return (1, 0)


def dlpack(
    x: DistributedArray,
    *,
    stream: object = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """Export the global value, copied to the host, or the one chunk that holds all of it. DLPack knows no arrays on several
    devices."""
    wanted = (1, 0) if dl_device is None else tuple(map(int, dl_device))
    if copy is False or wanted != (1, 0):
        told = max_version is not None and max_version[0] >= 1  # older consumers can't be told that memory is read-only
        whole = None if copy else _whole_chunk(x, wanted, told)
        if whole is None:
            raise BufferError(
                f"no chunk of this process holds the whole array on DLPack's device {wanted}: pass copy=None and "
                f"dl_device=(1, 0) for a copy on the host, or export x.all_chunks() device by device"
            )
        return whole.__dlpack__(max_version=max_version, **({} if stream is None else {"stream": stream}))
    return x.get().__dlpack__(max_version=max_version)


def _whole_chunk(x: DistributedArray, device: tuple[int, ...], told: bool) -> Any:
    """The live chunk of this process that holds all of an array, on a device of DLPack's; None where there is none.

    It is read-only where the array is, and, if the consumer can be `told` so, where others hold copies that writes to it
    would leave behind: those who write to what they got write to every chunk, as with ``x.all_chunks()``.
    """
    layout = x.layout
    full = Region.full(x.shape)
    holders = [device_id for device_id, region in layout.chunks if region.size]
    if layout.is_partial and len(holders) > 1:
        return None
    held = x.all_chunks()
    for device_id, region in layout.chunks:
        if region == full and device_id in held:
            chunk = held[device_id][layout.index_map.regions(device_id).index(region)]
            if tuple(map(int, chunk.__dlpack_device__())) != device:
                continue
            if isinstance(chunk, np.ndarray) and ((told and len(holders) > 1) or not x._writable):
                chunk = chunk.view()
                chunk.flags.writeable = False
            return chunk
    return None
