"""Keys of advanced indexing, read by NumPy's rules: a basic part, which becomes a view, and the indexed axes with host
index arrays. It exists so that reads, writes and ``ufunc.at`` understand a key in one way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from distarray.algorithms.gathering import Index, rest_axes
from distarray.algorithms.masks import check_mask
from distarray.array.aliases import AnyArray, Key
from distarray.array.place import host_nested, host_values, is_cupy
from distarray.array.state import DistributedArray
from distarray.geometry import ViewMap

__all__ = [
    "Fancy",
    "has_arrays",
    "lone_mask",
    "read_key",
    "split_key",
    "wrapped",
]

_KINDS = "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are valid indices"


class Fancy(NamedTuple):
    """A key, split: the basic part as a view, and what indexes the view's `axes`.

    Attributes
    ----------
    view : ViewMap
        With an axis for each index array.
    axes : tuple of int
        The indexed axes of the view.
    indices : tuple of numpy.ndarray
        For each, the flat indices (int64, not negative).
    shape : tuple of int
        Of the index arrays, broadcast.
    at : int
        How many of the other axes stand before the index dimensions in the result.
    """

    view: ViewMap
    axes: tuple[int, ...]
    indices: Index
    shape: tuple[int, ...]
    at: int

    @property
    def result(self) -> tuple[int, ...]:
        """The shape of the indexing result."""
        rest = [self.view.shape[a] for a in rest_axes(len(self.view.shape), self.axes)]
        return (*rest[: self.at], *self.shape, *rest[self.at :])


# --- reading keys -----------------------------------------------------------------------------------------------------


def _item(item: Any) -> Any:
    """One item of a key as None, Ellipsis, a slice, an int, a bool (a 0-d mask), or an array: NumPy's or distributed."""
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if isinstance(item, (bool, np.bool_)):
        return bool(item)
    if is_cupy(item):
        item = item.get()
    if not isinstance(item, (DistributedArray, np.ndarray)):
        if hasattr(item, "__index__"):
            return int(item.__index__())
        if isinstance(item, (list, tuple)):
            item = host_nested(item)
        item = np.asarray(item)
        if not item.size:
            item = item.astype(np.intp)
        elif item.dtype.kind not in "biu":
            raise IndexError(_KINDS)
    elif isinstance(item, np.ndarray):
        item = np.asarray(item)  # of subclasses, the values
    if item.dtype.kind not in "biu":
        raise IndexError("arrays used as indices must be of integer (or boolean) type" if item.ndim else _KINDS)
    if not item.ndim:
        value = host_values(item)[()] if isinstance(item, DistributedArray) else item[()]
        return bool(value) if item.dtype.kind == "b" else int(value)
    return item


def read_key(key: Key, shape: tuple[int, ...]) -> list[Any]:
    """The items of a key, Ellipsis kept; raises where it has too many."""
    ndim = len(shape)
    items = [_item(i) for i in (key if isinstance(key, tuple) else (key,))]
    if sum(1 for i in items if i is Ellipsis) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    used = sum(_consumed(i) for i in items)
    if used > ndim:
        raise IndexError(f"too many indices for array: array is {ndim}-dimensional, but {used} were indexed")
    if any(_is_array(i) and i.dtype.kind == "b" and 0 in i.shape for i in items):
        return _without_empty_masks(items, shape)
    return items


def _without_empty_masks(items: Sequence[Any], shape: tuple[int, ...]) -> list[Any]:
    """The items, with index arrays without elements for masks without elements: an axis of length 0 of a mask fits any."""
    found: list[Any] = []
    left = len(shape) - sum(_consumed(i) for i in items)
    at = 0
    for item in items:
        if _is_array(item) and item.dtype.kind == "b" and 0 in item.shape:
            there = shape[at : at + item.ndim]
            check_mask(tuple([m or n for m, n in zip(item.shape, there, strict=True)]), shape, at)
            found += [item] if item.shape == there else [np.zeros(0, np.intp)] * item.ndim
        else:
            found.append(item)
        at += left if item is Ellipsis else _consumed(item)
    return found


def _consumed(item: Any) -> int:
    """How many axes an item of a key uses."""
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    if isinstance(item, (slice, int)):
        return 1
    return int(item.ndim) if item.dtype.kind == "b" else 1


def _is_array(item: AnyArray) -> bool:
    return isinstance(item, (np.ndarray, DistributedArray))


def lone_mask(items: Sequence[Any]) -> Any:
    """The mask of a key that is nothing else than one mask, perhaps with an Ellipsis after it."""
    if len(items) == 1 or (len(items) == 2 and items[1] is Ellipsis):
        item = items[0]
        if _is_array(item) and item.dtype.kind == "b":
            return item
    return None


def split_key(
    x: DistributedArray, items: Sequence[Any], check: Callable[[tuple[int, ...]], None] | None = None
) -> Fancy:
    """The view and the index arrays of a key that has at least one array or 0-d mask.

    `check` gets the shape of the result before the indices are looked at: of two mistakes, NumPy sees that one.
    """
    missing = x.ndim - sum(_consumed(i) for i in items)
    basic: list[Any] = []
    axes: list[int] = []
    arrays: list[tuple[Any, int]] = []  # index array, axis of x (-1: of a 0-d mask)
    old = new = other = 0  # axes of x, of the view, and the view's not indexed ones, so far
    at, runs, inside = 0, 0, False

    def indexed() -> None:
        nonlocal at, runs, inside
        if not inside:
            runs, inside = runs + 1, True
            at = other if runs == 1 else 0

    for item in [*items, *([] if any(i is Ellipsis for i in items) else [Ellipsis])]:
        if item is Ellipsis:
            basic += [slice(None)] * missing
            old, new, other, inside = old + missing, new + missing, other + missing, False
        elif item is None or isinstance(item, slice):
            basic.append(item)
            old, new, other, inside = old + (item is not None), new + 1, other + 1, False
        elif isinstance(item, bool):
            indexed()
            basic.append(None)
            axes.append(new)
            arrays.append((np.zeros(int(item), np.int64), -1))
            new += 1
        elif isinstance(item, int):
            indexed()
            basic.append(item)
            old += 1
        else:
            indexed()
            is_mask = item.dtype.kind == "b"
            if is_mask:
                check_mask(item.shape, x.shape, old)
            values = host_values(item) if isinstance(item, DistributedArray) else item
            for array in np.nonzero(values) if is_mask else (values,):
                basic.append(slice(None))
                axes.append(new)
                arrays.append((array, old))
                old, new = old + 1, new + 1
    shape = _common([a for a, _ in arrays])
    view = x._view_map().index(tuple(basic))
    if check is not None:
        check(Fancy(view, tuple(axes), (), shape, at).result)
    index = _broadcast(x.shape, arrays, shape)
    x._context.traced("index arrays", *[crc32(array.tobytes()) for array in index] if x._context.debug else ())
    return Fancy(view, tuple(axes), index, shape, at)


def _common(arrays: Sequence[Any]) -> tuple[int, ...]:
    """The shape that index arrays are broadcast to."""
    try:
        return np.broadcast_shapes(*[a.shape for a in arrays])
    except ValueError:
        listed = " ".join(str(a.shape).replace(" ", "") for a in arrays)
        raise IndexError(
            f"shape mismatch: indexing arrays could not be broadcast together with shapes {listed} "
        ) from None


def _broadcast(shape: tuple[int, ...], arrays: Sequence[tuple[Any, int]], common: tuple[int, ...]) -> Index:
    """Index arrays broadcast together and flat, negative ones wrapped; raises where one is out of bounds."""
    if len(arrays) == 1:
        array, axis = arrays[0]
        values = wrapped(array, 1 if axis < 0 else shape[axis], axis) if array.size else np.zeros(0, np.int64)
        return (np.ascontiguousarray(values.reshape(-1)),)
    index = []
    for array, axis in arrays:
        size = 1 if axis < 0 else shape[axis]
        values = wrapped(array, size, axis) if 0 not in common else np.zeros(array.shape, np.int64)
        index.append(np.ascontiguousarray(np.broadcast_to(values, common).reshape(-1)))
    return tuple(index)


def wrapped(array: np.ndarray[Any, Any], size: int, axis: int) -> Any:
    """Indices as int64, negative ones counted from the end; raises NumPy's IndexError where one is out of bounds."""
    low = int(array.min(initial=0)) if array.dtype.kind == "i" else 0
    if low < -size or (array.size and int(array.max()) >= size):
        outside = (array >= size) | (array < -size) if array.dtype.kind == "i" else array >= size
        raise IndexError(f"index {array[outside].flat[0]} is out of bounds for axis {axis} with size {size}")
    values = array.astype(np.int64)
    return np.where(values < 0, values + size, values) if low < 0 else values


def has_arrays(items: Sequence[Any]) -> bool:
    """Whether a key has index arrays or masks, 0-d masks included."""
    return any(_is_array(i) or isinstance(i, bool) for i in items)
