"""What NumPy's arrays say of their memory and do with it: strides, flags, other dtypes over the same bytes, resizing in place.

The answers are those of one logical array in C order, of which a storage is one: how chunks lie in memory is the layout's matter.
"""

from __future__ import annotations

import inspect
import math
import operator
from functools import partial
from operator import itemgetter, methodcaller
from typing import Any, cast
from weakref import ref

import numpy as np

from distarray.array import parts
from distarray.array.aliases import DTypeLike
from distarray.array.dtypes import check_dtype
from distarray.array.memory_model import byte_strides
from distarray.array.standing import stand_for
from distarray.array.state import DistributedArray, copy_array, detach, from_chunks
from distarray.devices.arrays import AnyDType
from distarray.errors import UnsupportedError
from distarray.geometry import IndexMap, Range, Region
from distarray.ops.creation import zeros
from distarray.ops.joining import concatenate
from distarray.ops.reshaping import ravel, reshape
from distarray.transfer.execute import allocate

__all__ = ["ELSEWHERE", "Flags"]

_CHUNKS = "its memory is that of many chunks, which distarray.local_chunks(x) gives"
_FIELDS = "parts of elements are x['name'], or those of x.view(dtype)"

ELSEWHERE = {"ctypes": _CHUNKS, "data": _CHUNKS, "getfield": _FIELDS, "setfield": _FIELDS}
"""Public attributes of NumPy's arrays that distributed ones do not have → why."""


def strides(x: DistributedArray) -> tuple[int, ...]:
    """Bytes from one element to the next along each axis, in one array in C order. Nothing is evaluated."""
    return byte_strides(x)


def base(x: DistributedArray) -> DistributedArray | None:
    """The whole array that `x` is a view of; None where it is one itself. Communication: none."""
    if not _is_view(x):
        return None
    storage = x._own().root
    whole = None if storage.whole is None else storage.whole()
    if whole is not None and whole._storage is storage and whole._map is None:  # `resize` gives an array other storage
        return cast("DistributedArray", whole)
    version = storage.version
    whole = x._make(x._context, version.layout.shape, version.dtype, None, storage, None, x._writable)
    storage.whole = ref(whole)
    return whole


def _is_view(x: DistributedArray) -> bool:
    return x._storage is not None and (x._view is not None or x._storage.root is not x._storage)


class Flags:
    """The flags of an array, as ``numpy.ndarray.flags``: attributes, or items in capitals."""

    _NAMES = ("c_contiguous", "f_contiguous", "owndata", "writeable", "aligned", "writebackifcopy")
    _SHORT = (
        ("C", "c_contiguous"), ("CONTIGUOUS", "c_contiguous"), ("F", "f_contiguous"), ("FORTRAN", "f_contiguous"),
        ("O", "owndata"), ("W", "writeable"), ("A", "aligned"), ("X", "writebackifcopy"), ("FNC", "fnc"), ("FORC", "forc"),
        ("B", "behaved"), ("BEHAVED", "behaved"), ("CA", "carray"), ("CARRAY", "carray"), ("FA", "farray"), ("FARRAY", "farray"),
    )  # fmt: skip
    _ITEMS = {name.upper(): name for name in _NAMES} | dict(_SHORT)

    def __init__(self, array: DistributedArray) -> None:
        self._array = array
        steps = strides(array)
        unit = np.empty(1, np.dtype((np.void, max(array.itemsize, 1))))  # memory of one element, which is never read
        model = np.lib.stride_tricks.as_strided(unit, array.shape, steps, writeable=False)
        self.c_contiguous, self.f_contiguous = bool(model.flags.c_contiguous), bool(model.flags.f_contiguous)
        self.owndata = not _is_view(array)
        self.aligned, self.writebackifcopy = True, False
        self.fnc = self.f_contiguous and not self.c_contiguous
        self.forc = self.f_contiguous or self.c_contiguous
        self.contiguous = self.c_contiguous
        self.fortran = self.f_contiguous

    @property
    def writeable(self) -> bool:
        """Whether the array may be written to."""
        return bool(self._array._writable)

    @writeable.setter
    def writeable(self, value: bool) -> None:
        set_writable(self._array, bool(value))

    @property
    def behaved(self) -> bool:
        """Aligned and writable."""
        return self.writeable

    @property
    def carray(self) -> bool:
        """Writable and contiguous in C order."""
        return self.writeable and self.c_contiguous

    @property
    def farray(self) -> bool:
        """Writable and contiguous in Fortran order, and not in C order."""
        return self.writeable and self.fnc

    @property
    def num(self) -> int:
        """The flags as bits."""
        bits = {"c_contiguous": 1, "f_contiguous": 2, "owndata": 4, "aligned": 0x100, "writeable": 0x400}
        return sum(bit for name, bit in bits.items() if getattr(self, name))

    def __getitem__(self, key: str) -> bool:
        if key not in self._ITEMS:
            raise KeyError("Unknown flag")
        return bool(getattr(self, self._ITEMS[key]))

    def __setitem__(self, key: str, value: bool) -> None:
        if key not in ("W", "WRITEABLE"):
            raise KeyError("Unknown flag" if key not in self._ITEMS else f"flag {key} can't be set: only WRITEABLE can")
        self.writeable = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Flags) and self.num == other.num

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "".join(f"  {name.upper()} : {getattr(self, name)}\n" for name in self._NAMES)


def set_writable(x: DistributedArray, value: bool) -> None:
    """``x.flags.writeable = value``. What stands for a view of NumPy's as a read-only copy stays read-only.

    None, beside True and False, is what was made read-only here, and may be made writable again.
    """
    if not value:
        x._writable = None if x._writable else x._writable
    elif not x._writable and x._writable is not None:
        raise ValueError(
            "cannot set WRITEABLE flag to True of this array: it stands for a view of NumPy's, or is a broadcast one; use x.copy()"
        )
    else:
        x._writable = True


def set_flags(
    x: DistributedArray, write: bool | None = None, align: bool | None = None, uic: bool | None = None
) -> None:
    """Set whether the array may be written to.

    Parameters
    ----------
    x : DistributedArray
    write : bool, optional
        Default: as it is.
    align : bool, optional
        Has no effect: chunks are aligned.
    uic : bool, optional
        Only False.

    Raises
    ------
    ValueError
        ``write=True`` of a copy that stands for a view of NumPy's, or of a broadcast array; ``uic=True``.

    Notes
    -----
    Communication: none.
    """
    if uic:
        raise ValueError("cannot set WRITEBACKIFCOPY flag to True")
    if write is not None:
        set_writable(x, bool(write))


def resize(x: DistributedArray, *new_shape: Any, refcheck: bool = True) -> None:
    """Change the shape in place, by cutting elements off at the end or adding zeros, in C order.

    Parameters
    ----------
    x : DistributedArray
    *new_shape : int, or one sequence of int
        Default: the shape as it is.
    refcheck : bool
        Has no effect: views keep the old shape.

    Raises
    ------
    ValueError
        The array is a view or read-only, or a length is negative.

    Notes
    -----
    Communication: what joins the zeros to the array, or makes the new shape.
    """
    if len(new_shape) == 1 and (new_shape[0] is None or not isinstance(new_shape[0], (int, np.integer))):
        shape = x.shape if new_shape[0] is None else tuple([operator.index(n) for n in new_shape[0]])
    else:
        shape = tuple([operator.index(n) for n in new_shape]) if new_shape else x.shape
    if any(n < 0 for n in shape):
        raise ValueError("negative dimensions not allowed")
    if shape == x.shape:
        return
    if _is_view(x):
        raise ValueError("cannot resize this array: it does not own its data")
    if not x._writable:
        raise ValueError("cannot resize this array: it is read-only")
    size, flat = math.prod(shape), ravel(x)
    if size < x.size:
        flat = copy_array(flat[:size])
    elif size > x.size:
        flat = concatenate([flat, zeros(size - x.size, x.dtype)], dtype=x.dtype)
    reshaped = reshape(flat, shape)
    x._take(copy_array(reshaped) if _is_view(reshaped) or not reshaped._writable else reshaped)


def byteswap(x: DistributedArray, inplace: bool = False) -> DistributedArray:
    """The elements with the order of their bytes reversed, in the same dtype.

    Parameters
    ----------
    x : DistributedArray
    inplace : bool
        Write them to the array itself.

    Returns
    -------
    DistributedArray
        A new array, or the array itself with `inplace`.

    Notes
    -----
    Communication: none; partial values are resolved first.
    """
    unit = x.itemsize // 2 if x.dtype.kind == "c" else x.itemsize
    source = x._operand("byteswap")
    chunks = allocate(x._context, source.layout, x.dtype, label="byteswap")
    for chunk, array in zip(chunks, source.arrays, strict=True):
        if chunk is not None:
            with chunk.device.active():
                chunk.array[...] = array
                if chunk.array.size:
                    data = chunk.array.reshape(-1).view(np.uint8).reshape(-1, unit)
                    data[...] = data[:, ::-1].copy()
    swapped = from_chunks(x._context, source.layout, chunks, x.dtype)
    if not inplace:
        return swapped
    x[...] = swapped
    return x


def view(x: DistributedArray, dtype: DTypeLike = None, type: type[Any] | None = None) -> DistributedArray:
    """A view of the array, for another dtype one of the same bytes.

    Elements of another size, in a view of a reshaped array, are a read-only copy.

    Parameters
    ----------
    x : DistributedArray
    dtype : dtype, optional
        Default: the array's.
    type : type, optional
        None but the array's own class.

    Returns
    -------
    DistributedArray

    Raises
    ------
    ValueError
        The dtype has another size, and the last axis, or a chunk of it, does not hold whole elements of it.
    UnsupportedError
        Another class is asked for.

    Notes
    -----
    Communication: none; partial values are resolved first.
    """
    if inspect.isclass(dtype) and issubclass(dtype, (DistributedArray, np.ndarray)):
        dtype, type = None, dtype
    if type is not None and type is not DistributedArray:
        raise UnsupportedError(f"view can't make a {type!r} of a distributed array: call it on x.get()")
    target = x.dtype if dtype is None else np.dtype(dtype)
    if not (target.kind == "V" and target.names is None and target.itemsize == x.itemsize):  # bytes alone are compared
        target = check_dtype(target)
    if target == x.dtype:
        return x._viewed(x._view_map())
    old, new = x.itemsize, target.itemsize
    step = methodcaller("view", target)
    if old == new:
        return parts.same_shape(x, step, target, "view")
    if not x.ndim:
        raise ValueError("Changing the dtype of a 0d array is only supported if the itemsize is unchanged")
    if strides(x)[-1] != old and x.shape[-1] != 1 and x.size:
        raise ValueError("To change to a dtype of a different size, the last axis must be contiguous")
    if new > old and (new % old or x.shape[-1] * old % new):
        raise ValueError(
            "When changing to a larger dtype, its size must be a divisor of the total size in bytes of the last axis of the "
            "array."
        )
    if old % new and new < old:
        raise ValueError("When changing to a smaller dtype, its size must be a divisor of the size of original dtype")
    shown = parts.rescaled(x, step, target, "view")
    if shown is not None:
        return shown
    result = stand_for(x, partial(_copied, target=target), step) if x.size else _copied(x, target)
    result._detached = x._detached
    return result


def _copied(x: DistributedArray, target: AnyDType) -> DistributedArray:
    """The bytes of each chunk as elements of another size, in a copy that can't be written to."""
    old, new = x.itemsize, target.itemsize
    source = x._operand("view")
    regions: dict[int, list[Region]] = {device: [] for device in source.layout.devices}
    for device, region in source.layout.chunks:
        last = region[-1]
        start, size = last.start * old, last.size * old
        if last.step != 1 or start % new or size % new:
            raise ValueError(
                f"view can't make elements of {new} bytes of those of {old} in the chunk {region}, which cuts them or has "
                f"gaps: bring the last axis together, as with x.reshard(distarray.blocks(0))"
            )
        regions[device].append(Region((*region[:-1], Range.of(start // new, 1, size // new))))
    layout = x._context.layout(IndexMap((*x.shape[:-1], x.shape[-1] * old // new), regions))  # chunks keep their order
    chunks = allocate(x._context, layout, target, label="view")
    for chunk, array in zip(chunks, source.arrays, strict=True):
        if chunk is not None and array.size:
            with chunk.device.active():
                chunk.array.reshape(-1).view(x.dtype)[...] = array.reshape(-1)
    return from_chunks(x._context, layout, chunks, target)


def attached(x: DistributedArray) -> DistributedArray:
    """The 0-d array that a scalar of a structure is, over the same storage; any other array as it is."""
    if not x._detached:
        return x
    return x._make(x._context, x.shape, x.dtype, None, x._own(), x._view, x._writable)


def field(x: DistributedArray, key: str | list[str]) -> DistributedArray:
    """``x["f"]`` and ``x[["f", "g"]]``: the view of one field or several of structured elements.

    Raises
    ------
    IndexError
        The elements have no fields.
    ValueError, KeyError
        None of this name, as NumPy raises them.
    """
    shown = np.empty(0, x.dtype)[key]
    step = itemgetter(key)
    whole = attached(x)
    if shown.ndim > 1:
        return parts.with_axes(whole, step, shown.dtype, shown.shape[1:], "a field")
    found = parts.same_shape(whole, step, shown.dtype, "a field")
    if x._detached and shown.dtype.kind != "V":
        return detach(found)
    found._detached = x._detached  # a structure in a scalar of one is a view, as that is
    return found
