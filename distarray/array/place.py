"""From objects to arrays: what host, GPU and nested values become when they are operands or are placed in a layout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from distarray.array.agreement import compare_host
from distarray.array.dtypes import check_dtype
from distarray.array.layouts import resolve_layout
from distarray.array.shapes import PYTHON_SCALARS
from distarray.array.shown import is_short
from distarray.array.state import DistributedArray, fresh_array, from_chunks, same_context
from distarray.context import Context
from distarray.devices import Chunk, from_dlpack
from distarray.devices.arrays import DeviceArray
from distarray.fusion.expr import warn_complex
from distarray.layout import Layout
from distarray.modes import Mode
from distarray.transfer.execute import allocate
from distarray.transfer.to_host import gather_to_host


def host_or_device_array(
    obj: Any,  # anything that becomes an array
    dtype: np.dtype[Any] | None,
) -> Any:
    """A NumPy or CuPy array of an object's values; no copy where it is one already.

    Raises
    ------
    TypeError
        A masked array with masked elements, whose mask would be lost; an object that is no array to NumPy.
    """
    if is_masked(obj):
        raise TypeError(
            "a masked array loses its mask as a distributed array, or an operand of one: pass m.filled(value)"
        )
    if is_cupy(obj):
        return obj if dtype is None else obj.astype(dtype, copy=False)
    if not isinstance(obj, (np.ndarray, np.generic, list, tuple, *PYTHON_SCALARS)) and not hasattr(obj, "__array__"):
        if hasattr(obj, "__dlpack__"):
            obj = from_dlpack(obj)
            if is_cupy(obj):
                return obj if dtype is None else obj.astype(dtype, copy=False)
        elif not isinstance(obj, Sequence) and not converts(obj):
            raise TypeError(
                f"can't make an array of {type(obj).__name__}: pass numbers, nested lists, a NumPy or CuPy array, or an "
                f"object with __dlpack__"
            )
    if isinstance(obj, (list, tuple)):
        obj = _nested(obj) if dtype is None else _reals(_nested(obj), check_dtype(dtype))
    array = np.asarray(obj, dtype=None if dtype is None else check_dtype(dtype))
    check_dtype(array.dtype)
    return array


def _nested(obj: object) -> Any:
    """Lists with distributed scalars in them, as lists of NumPy values. Tuples stay: they may be structures."""
    if isinstance(obj, (list, tuple)):
        found = [_nested(item) for item in obj]
        return found if isinstance(obj, list) else tuple(found)
    return obj.get() if isinstance(obj, DistributedArray) else obj


def converts(obj: object) -> bool:
    """Whether NumPy makes an array of an object's values by its type's protocol: one for arrays, or that of a sequence."""
    kind = type(obj)
    if any(hasattr(kind, name) for name in ("__array__", "__array_interface__", "__array_struct__")):
        return True
    sequence = hasattr(kind, "__len__") and hasattr(kind, "__getitem__") and not hasattr(kind, "__array_priority__")
    return sequence and not isinstance(obj, (str, bytes, Mapping))


def _reals(
    values: Any,  # nested lists of whatever becomes an array
    dtype: np.dtype[Any],
) -> Any:
    """Nested lists, with complex numbers of NumPy's as their real parts where `dtype` has no room for more: warned of once."""
    if dtype.kind not in "iuf":
        return values
    dropped = False

    def real(item: Any) -> Any:
        nonlocal dropped
        if isinstance(item, (list, tuple)):
            return type(item)(map(real, item)) if type(item) in (list, tuple) else item
        if isinstance(item, (np.generic, np.ndarray)) and item.dtype.kind == "c":
            dropped = True
            return item.real
        return item

    values = real(values)
    if dropped:
        warn_complex()
    return values


def is_cupy(obj: object) -> bool:
    """Whether an object is a CuPy array, without importing CuPy."""
    return type(obj).__module__.partition(".")[0] == "cupy" and hasattr(obj, "data") and hasattr(obj, "shape")


def place(
    context: Context,
    source: Any,  # NumPy's or CuPy's array
    layout: Layout,
) -> DistributedArray:
    """Copy a NumPy or CuPy array's values into a layout: each chunk its part; partial modes keep each value once."""
    index_map, mode, dtype = layout.index_map, layout.mode, source.dtype
    if context.debug and context.communicator is not None:
        compare_host(context, source if isinstance(source, np.ndarray) else source.get())
    on_gpu = not isinstance(source, np.ndarray)
    if on_gpu and context.kind == "host":
        source, on_gpu = source.get(), False
    if is_short(layout, source.nbytes) and dtype.kind in "biufc":
        return fresh_array(context, layout, np.array(source, order="C"))
    chunks: list[Chunk | None] = [None] * len(layout.chunks)
    single = mode in (Mode.SUM, Mode.PROD) and not index_map.is_disjoint
    with context.reporting():
        if context.kind == "host" and not single:
            chunks = allocate(context, layout, dtype)
            for chunk, (_, region) in zip(chunks, layout.chunks, strict=True):
                if chunk is not None:
                    np.copyto(chunk.array, source[region.key])
            return from_chunks(context, layout, chunks, dtype)
        for i, device, region in context.local_regions(layout):
            if single:
                chunks[i] = device.full(region.shape, dtype, mode.identity(dtype))
            elif on_gpu:
                chunks[i] = device.from_foreign(source[region.key])
            else:
                chunks[i] = device.from_host(source[region.key])
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


_INEXACT = (float, complex, np.inexact)


def as_operand(context: Context, obj: object) -> Any:
    """An operand of an operation: our arrays and NumPy's scalars as they are, 0-d host arrays as such scalars, others placed."""
    if isinstance(obj, (DistributedArray, np.generic)):
        return obj
    if isinstance(obj, np.ndarray) and obj.dtype.kind == "O":
        obj = _numbers(obj)
    source = host_or_device_array(obj, None)
    return source[()] if source.ndim == 0 and isinstance(source, np.ndarray) else _placed(context, source)


def _numbers(array: np.ndarray[Any, Any]) -> object:
    """An array of objects that are floats, as one of floats: matplotlib makes some of lists of arrays, for error bars.

    Integers are taken among them alone, and where floats hold them: Python's never wrap, as NumPy's would.
    """
    items = array.ravel().tolist()
    if any(isinstance(item, _INEXACT) for item in items) and all(
        isinstance(item, (*_INEXACT, bool)) or (isinstance(item, (int, np.integer)) and abs(int(item)) <= 2**53)
        for item in items
    ):
        found = np.asarray(items)
        if found.dtype.char in "efdFD":
            return found.reshape(array.shape)
    return array


def arrays(*items: Any) -> tuple[Context, list[Any]]:
    """The context, and the items as distributed arrays of it; host arrays are placed in the default layout."""
    context = same_context([item for item in items if isinstance(item, DistributedArray)])
    found = []
    for item in items:
        if not isinstance(item, DistributedArray):
            item = as_array(context, item)
        found.append(item)
    return context, found


def as_array(context: Context, obj: object, devices: Sequence[int] | None = None) -> DistributedArray:
    """An object as an array, 0-d ones too: ours as they are, others placed, on all devices or on these."""
    return obj if isinstance(obj, DistributedArray) else _placed(context, host_or_device_array(obj, None), devices)


def _placed(context: Context, source: DeviceArray, devices: Sequence[int] | None = None) -> DistributedArray:
    layout = resolve_layout(context, None, source.shape, device=devices, itemsize=source.dtype.itemsize)
    return place(context, source, layout)


def devices_of(arrays: Iterable[DistributedArray]) -> list[int] | None:
    """The devices that arrays lie on between them; None of no arrays. Recorded expressions are evaluated."""
    return sorted({device for x in arrays for device in x._own().layout.devices}) or None


def is_masked(obj: object) -> bool:
    """Whether an object is a masked array with masked elements."""
    plain = type(obj) is np.ndarray or not isinstance(obj, np.ndarray)
    return not plain and isinstance(obj, np.ma.MaskedArray) and bool(np.ma.is_masked(obj))


def is_foreign_array(obj: object) -> bool:
    """Whether an object is an array that operators take and copy: CuPy's."""
    return is_cupy(obj)


def host_values(array: DistributedArray) -> Any:
    """The values of a distributed index array, fetched once: all processes must agree on them."""
    return gather_to_host(array._context, array._operand("an index array"))


def fetched(value: object) -> Any:
    """The values of a distributed array on the host; anything else as it is."""
    return host_values(value) if isinstance(value, DistributedArray) else value


def number_of(value: object) -> Any:
    """The NumPy scalar of an array without axes; anything else as it is."""
    return value.get()[()] if isinstance(value, DistributedArray) else value


def host_nested(item: object) -> Any:
    if isinstance(item, (list, tuple)):
        return [host_nested(i) for i in item]
    return fetched(item)


def nested(value: object, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Nested lists that are assigned to elements of `dtype`: each number is converted as NumPy does, or refused."""
    if dtype.names is not None:  # a tuple is one element
        return np.asarray(value, dtype)
    return np.asarray(_reals(host_nested(value), dtype), dtype)
