"""Indexing of small work: elements, slices, masks and transposes of arrays of which one chunk of this process shows all that a
key names. They pass the same gate as calls (``whole.py``), and leave to the general way what does not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import itemgetter, methodcaller, setitem
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray.array.aliases import ArrayLike, Key
from distarray.array.shown import seen
from distarray.array.state import TURNED, DistributedArray, Permuted, Reshaped
from distarray.array.whole import COMPLEX, KINDS, NUMBERS, meet, report, unshared, wrapped
from distarray.fusion.forms import view_of
from distarray.storage import Storage, writable_chunks
from distarray.transfer.ledger import watching

if TYPE_CHECKING:
    from distarray.geometry import ViewMap
    from distarray.layout import Layout

__all__ = ["assign", "is_plain", "item", "named", "permuted", "reshaped", "transposed", "viewed"]

_array = np.ndarray
_share = np.may_share_memory
_new = object.__new__
_void = np.void
REAL = frozenset("biuf")
TAKEN: dict[Any, frozenset[type]] = {
    np.dtype(np.float64): NUMBERS - COMPLEX,
    np.dtype(np.complex128): NUMBERS,
    np.dtype(np.int64): frozenset((bool, int, np.bool, np.int8, np.int16, np.int32, np.int64)),
    np.dtype(np.bool): NUMBERS,
}
"""Scalars that go into an element of a dtype without a floating-point condition."""
DEEP = 6
"""At most so many keys are followed one after the other to what a view shows; for more, its map is worked out."""


def is_plain(
    key: Any,  # told apart by its class
) -> bool:
    """Whether a key, of Python's own integers and slices of them, needs no look at its parts."""
    kind = type(key)
    if kind is int:
        return True
    for part in key if kind is tuple else (key,):
        kind = type(part)
        if kind is slice:
            if (bound := part.start) is not None and type(bound) is not int:
                return False
            if (bound := part.stop) is not None and type(bound) is not int:
                return False
            if (bound := part.step) is not None and type(bound) is not int:
                return False
        elif kind is not int and part is not None and part is not Ellipsis:
            return False
    return True


def item(
    x: DistributedArray,
    key: Any,  # told apart by its class
) -> Any:
    """``x[key]`` for a basic key that one chunk here shows all of: a view, or a detached scalar; else NotImplemented."""
    if x._detached:
        return NotImplemented
    if type(key) is not int and not is_plain(key):
        key = _plain(key)
        if key is None:
            return NotImplemented
        if type(key) in _ARRAYS:
            return _chosen(x, key)
    if x._dtype.type is _void:  # NumPy's scalar of a structure is a view
        return NotImplemented
    array = fresh if type(fresh := x._fresh) is _array else seen(x)
    layout, home, reach, inner = x._kin, x._home, x._reach, key
    if array is None:
        bounds = _bounds(x._shape, key)
        found = None if bounds is None else _within(x, bounds)
        if found is None:
            shape = _shape_of(x._shape, key, bounds)
            return NotImplemented if shape is None else _seen_later(x, shape, key if bounds is None else bounds)
        layout, home, inner = found
        array = x._storage.version.chunks[home].array  # type: ignore[union-attr]
        reach = ()
    try:
        shown = array[inner]
    except IndexError:
        return NotImplemented
    if type(shown) is not _array:
        return wrapped(x, layout, shown)  # type: ignore[arg-type]
    storage = x._storage
    if storage is None:
        storage = x._own()
        home = layout.home  # type: ignore[union-attr]
    view: DistributedArray = _new(DistributedArray)
    view._context = x._context
    view._shape = shown.shape
    view._dtype = x._dtype
    view._node = view._fresh = None
    view._storage = storage
    view._kin = layout
    view._home = home
    view._map = (x._map, x._shape, key, storage.version.layout.shape)
    view._reach = (*reach, itemgetter(inner))  # type: ignore[misc]
    view._writable = x._writable
    view._detached = False
    if len(reach) >= DEEP:  # type: ignore[arg-type]
        view._kin = view._reach = None
    return view


def named(
    x: DistributedArray,
    key: Any,  # told apart by its class
) -> ViewMap:
    """What a basic key shows of an array's storage. On GPUs the same object each time: expressions know it (`fusion.forms`)."""
    if x._context.kind == "host" or not is_plain(key):
        return x._view_map().index(key)
    x._own()
    return view_of(x._context, x._view, x._shape, key)


def viewed(
    x: DistributedArray,
    key: Any,  # told apart by its class
) -> Any:
    """``x[key]`` on GPUs, for a key of Python's integers and slices: a view; NotImplemented for others, and for a scalar."""
    if x._detached or not is_plain(key) or x._dtype.kind == "V":
        return NotImplemented
    storage = x._storage
    if storage is None:
        storage = x._own()
    context = x._context
    view = view_of(context, x._view, x._shape, key)
    if not view.shape:
        return NotImplemented
    plain = None if view.base == view.shape == storage.version.layout.shape and view.is_identity else view
    return DistributedArray._make(context, view.shape, x._dtype, None, storage, plain, x._writable)


def _plain(key: object) -> Any:
    """A key of integers that are values here (NumPy's, or detached ones of ours) as Python's, an array that is an index or a
    mask as NumPy's, `_Arrays` where there are such among others; None for what the general way has to read."""
    if watching.get() is not None:  # what goes to Python is counted
        return None
    if type(key) is DistributedArray and not key._detached:
        return seen(key) if key._dtype.kind in "iub" else None
    parts: list[Any] = []
    made: type[tuple[Any, ...]] = tuple
    for part in key if type(key) is tuple else (key,):
        if type(part) is DistributedArray and not part._detached and part._dtype.kind in "iu":
            array = seen(part)
            if array is None:
                return None
            made = _Arrays
            parts.append(array)
        elif type(part) is slice:
            bounds = [_number(bound) for bound in (part.start, part.stop, part.step)]
            if _ABSENT in bounds:
                return None
            parts.append(slice(*bounds))
        elif part is None or part is Ellipsis:
            parts.append(part)
        elif type(part) is list or type(part) is _array:
            array = _listed(part)
            if array is None or (array.dtype.kind == "b" and type(key) is tuple):
                return None
            if type(key) is not tuple:
                return array
            made = _Arrays
            parts.append(array)
        else:
            number = _number(part)
            if number is _ABSENT:
                return None
            parts.append(number)
    return made(parts)


def _listed(
    part: Any,  # a list, or an array of NumPy's
) -> Any:
    """Positions, or a mask, that a list of Python's or an array of NumPy's means; None of others."""
    if type(part) is list:
        kinds = set(map(type, part))
        return np.asarray(part) if kinds == {int} or kinds == {bool} else None
    return part if part.ndim and part.dtype.kind in "iub" else None


class _Arrays(tuple[Any, ...]):
    """A key with index arrays among its parts, as NumPy takes it."""

    __slots__ = ()

    @property
    def size(self) -> int:
        """How many positions it names at most, beside those of slices."""
        return max([part.size for part in self if type(part) is _array])


_ARRAYS = (_array, _Arrays)


_ABSENT = object()


def _number(bound: object) -> Any:
    """A bound or position as a Python integer, None as it is; `_ABSENT` for others."""
    if bound is None or type(bound) is int:
        return bound
    number = bound._fresh if type(bound) is DistributedArray else bound
    return int(number) if isinstance(number, np.integer) else _ABSENT


def _chosen(x: DistributedArray, key: Any) -> Any:
    """``x[key]`` of a small whole array for an index array or a mask."""
    array = seen(x)
    limit = x._context.small
    if array is None or not array.ndim or not array.size or array.size > limit:
        return NotImplemented
    if type(key) is _Arrays:
        named = sum([type(part) in (int, _array) for part in key])
        least = key.size * math.prod(array.shape[named:]) if slice not in map(type, key) else limit + 1
    else:
        least = key.size * (array.size // array.shape[0] if key.dtype.kind != "b" else 1)
    if least > limit:
        return NotImplemented
    try:
        return wrapped(x, x._kin, array[tuple(key) if type(key) is _Arrays else key])  # type: ignore[arg-type]
    except IndexError:
        return NotImplemented


Spans = list[tuple[int, int, int]]
"""Of each axis where what a key shows begins and ends, and its step: 0 where the key names one position."""


def _bounds(shape: tuple[int, ...], key: object) -> Spans | None:
    """What a key of integers and slices with positive steps shows; None of others, and where it shows nothing."""
    parts = key if type(key) is tuple else (key,)
    if len(parts) > len(shape):
        return None
    bounds = []
    for part, n in zip(parts, shape, strict=False):
        if type(part) is slice:
            low, high, step = part.indices(n)
            if step < 1 or high <= low:
                return None
            bounds.append((low, high, step))
        elif type(part) is int:
            low = part + n if part < 0 else part
            if not 0 <= low < n:
                return None
            bounds.append((low, low + 1, 0))
        else:
            return None
    if len(bounds) < len(shape):
        bounds.extend([(0, n, 1) for n in shape[len(parts) :]])
    return bounds


def _within(x: DistributedArray, bounds: Spans) -> tuple[Layout, int, Any] | None:
    """Of an array that is cut into few boxes, all in this process: the chunk that holds all within some bounds, the key of that
    in it, and the layout of a value on its device; None where there is no such chunk."""
    storage = x._storage
    context = x._context
    if storage is None or context.process_count > 1 or context.kind != "host":
        return None
    if x._map is not None and x._view is not None:
        return None
    layout = storage.version.layout
    boxes = None if layout.is_partial else context.layouts.boxes(layout)
    if boxes is None:
        return None
    for chunk, box in boxes:
        inside: list[Any] = []
        for (low, high, step), (start, stop) in zip(bounds, box, strict=True):
            if low < start or high > stop:
                break
            inside.append(slice(low - start, high - start, step) if step else low - start)
        else:
            home = context.layouts.scalar_on(layout, layout.chunks[chunk][0])
            return None if home.home < 0 else (home, chunk, tuple(inside))
    return None


def assign(
    x: DistributedArray,
    key: Any,  # told apart by its class
    value: Any,  # told apart by its class
) -> bool:
    """``x[key] = value`` for a basic key that one chunk here shows all of; False where nothing was done."""
    if x._detached or not x._writable:
        return False
    if not is_plain(key):
        key = _plain(key)
        if type(key) in _ARRAYS:
            return _scatter(x, key, value)
        if type(key) is not tuple:
            return False
    array = seen(x)
    home, layout = x._home, x._kin
    storage = x._storage
    inner = key
    if array is None:
        bounds = _bounds(x._shape, key)
        if bounds is None:
            return False
        found = _within(x, bounds)
        if found is None:
            return _dealt(x, bounds, value)
        layout, home, inner = found
    given = value
    kind = type(value)
    if kind is DistributedArray:
        given = seen(value)
        if given is None or not (value._kin is layout or meet(value, x._context, layout)):
            return False
        kind = type(given)
    if storage is not None:
        if storage.exposed:
            return False
        changed = unshared(storage, home)
        if changed and kind is _array and value is not given:
            given = seen(value)
        if array is None:
            array = storage.version.chunks[home].array  # type: ignore[union-attr]
        elif changed:
            array = seen(x)
    try:
        if kind in TAKEN.get(x._dtype, ()):  # whatever the number, or with an exception
            array[inner] = given
            return _told(storage)
        if kind in NUMBERS:
            if kind in COMPLEX and x._dtype.kind != "c":
                return False
        elif kind is not _array or (given.dtype.kind not in (KINDS if x._dtype.kind == "c" else REAL)):
            return False
        elif given.ndim:
            shown = array[inner]
            if type(shown) is not _array:
                return False
            if given.dtype == shown.dtype:  # a copy, which meets no condition
                shown[...] = given
                return _told(storage)
    except Exception:  # of positions and shapes that do not fit, before the first element
        return False
    return _stored(x, storage, array, inner, given)


def _dealt(x: DistributedArray, bounds: Spans, value: Any) -> bool:
    """Write a number, or what bounds show of an array that is cut as this one, where it lies in the same chunks, all in this
    process: chunk by chunk. False where nothing was done."""
    storage, context = x._storage, x._context
    if storage is None or storage.exposed or x._map is not None or context.kind != "host" or context.process_count > 1:
        return False
    layout = storage.version.layout
    boxes = None if layout.is_partial or watching.get() is not None else context.layouts.boxes(layout)
    if boxes is None:
        return False
    kind, origin, theirs = type(value), storage, bounds
    if kind is DistributedArray:
        shown = value._map
        if type(shown) is not tuple or shown[0] is not None or type(shown[2]) is not list or value._dtype != x._dtype:
            return False
        origin, theirs = value._storage, shown[2]
        if origin.exposed or origin.version.layout is not layout or value._shape != _shape_of(x._shape, None, bounds):
            return False
    elif kind not in TAKEN.get(x._dtype, ()):
        return False
    pieces = []
    for number, box in boxes:
        part = _inside(bounds, box)
        other = part if theirs is bounds else _inside(theirs, box)
        if part is None is other:
            continue
        if part is None or other is None or part[1] != other[1]:  # it lies in other chunks
            return False
        pieces.append((number, part[0], other[0]))
    version = storage.version
    if version.pinned() or any(version.chunks[number].shared for number, _, _ in pieces):  # type: ignore[union-attr]
        with context.lock:
            writable_chunks(storage, [number for number, _, _ in pieces])
    into: Any = storage.version.chunks
    read: Any = origin.version.chunks
    for number, target, source in pieces:
        into[number].array[target] = read[number].array[source] if kind is DistributedArray else value
    if storage.copies:
        storage.outdate()
    return True


def _inside(bounds: Spans, box: Sequence[tuple[int, int]]) -> tuple[tuple[Any, ...], list[tuple[int, int]]] | None:
    """What bounds show of a box: its key there, and which part of what is shown it is; None of nothing."""
    key: list[Any] = []
    part = []
    for (low, high, step), (start, stop) in zip(bounds, box, strict=True):
        if not step:
            if not start <= low < stop:
                return None
            key.append(low - start)
            continue
        first = -((low - start) // step) if low < start else 0
        end = -((low - min(high, stop)) // step)
        if first >= end:
            return None
        key.append(slice(low + first * step - start, low + (end - 1) * step - start + 1, step))
        part.append((first, end))
    return tuple(key), part


def _stored(x: DistributedArray, storage: Any, array: np.ndarray[Any, Any], key: object, given: object) -> bool:
    """Write to what `array` shows of a storage that is this array's alone; False where NumPy refuses, before the first element."""
    try:
        if type(given) is not _array or not given.ndim:  # one value, which NumPy converts before it writes
            if x._dtype.kind not in KINDS:
                return False
            given, met = x._context.quiet(_one, given, x._dtype)
            if met:
                return False
        _, met = x._context.quiet(setitem, array, key, given)
    except Exception:  # of positions, shapes and numbers that do not fit
        return False
    _told(storage)
    if met:
        report(met, "cast")
    return True


def _told(storage: Storage | None) -> bool:
    """True, after the copies that stand for views of a storage have been told that it was written to."""
    if storage is not None and storage.copies:
        storage.outdate()
    return True


def _one(value: ArrayLike, dtype: np.dtype[Any]) -> Any:
    """One value as an element: refused where NumPy refuses it, as a Python number that does not fit is."""
    filled = np.empty((), dtype)
    filled[...] = value
    return filled


def _scatter(x: DistributedArray, key: Any, value: Any) -> bool:
    """``x[key] = value`` of a small whole array for an index array or a mask; False where nothing was done."""
    array = seen(x)
    if array is None or not array.ndim or max(array.size, key.size) > x._context.small:
        return False
    given = value
    if type(value) is DistributedArray:
        given = seen(value)
        if given is None or not meet(value, x._context, x._kin):
            return False
    kind = type(given)
    if kind not in NUMBERS and (kind is not _array or given.dtype.kind not in KINDS or given.size > x._context.small):
        return False
    if x._dtype.kind != "c" and (kind in COMPLEX or (kind is _array and given.dtype.kind == "c")):
        return False
    if kind is _array and np.may_share_memory(given, array):
        given = given.copy()
    if type(key) is _Arrays:
        key = tuple(
            [part.copy() if type(part) is _array and np.may_share_memory(part, array) else part for part in key]
        )
    elif np.may_share_memory(key, array):
        key = key.copy()
    storage = x._storage
    if storage is not None:
        if storage.exposed:
            return False
        if unshared(storage, x._home):
            array = seen(x)
    return _stored(x, storage, array, key, given)


def _shape_of(shape: tuple[int, ...], key: Key, bounds: Spans | None) -> tuple[int, ...] | None:
    """The shape that a plain key shows, by its bounds where it has such; None where it shows one element, or does not fit."""
    if bounds is not None:
        return tuple([(high - low + step - 1) // step for low, high, step in bounds if step]) or None
    parts = key if type(key) is tuple else (key,)
    rest = len(shape) - len(parts)
    if None in parts or Ellipsis in parts:
        rest += parts.count(None) + parts.count(Ellipsis)
    if rest < 0 or parts.count(Ellipsis) > 1:
        return None
    shown: list[int] = []
    axis = 0
    for part in parts:
        kind = type(part)
        if kind is slice:
            shown.append(len(range(*part.indices(shape[axis]))))
            axis += 1
        elif kind is int:
            if not -shape[axis] <= part < shape[axis]:
                return None
            axis += 1
        elif part is None:
            shown.append(1)
        else:
            shown.extend(shape[axis : axis + rest])
            axis += rest
    shown.extend(shape[axis:])
    return tuple(shown) or None


def _seen_later(x: DistributedArray, shape: tuple[int, ...], key: object) -> DistributedArray:
    """The view of `shape` that a key shows, or that lies within bounds. Its map is worked out by what reads it."""
    storage = x._storage
    if storage is None:
        storage = x._own()
    view: DistributedArray = _new(DistributedArray)
    view._context = x._context
    view._shape = shape
    view._dtype = x._dtype
    view._node = view._fresh = view._kin = view._reach = None
    view._storage = storage
    view._home = -1
    view._map = (x._view, x._shape, key, storage.version.layout.shape)
    view._writable = x._writable
    view._detached = False
    return view


def transposed(x: DistributedArray) -> DistributedArray:
    """``x.T``: a view, which on an array that one chunk here shows all of needs no map."""
    if x._detached:  # it has no axes, and stands for a scalar, which no view writes to
        return x._viewed(x._view_map())
    if seen(x) is None or len(x._reach) >= DEEP:  # type: ignore[arg-type]
        return _seen_later(x, x._shape[::-1], TURNED)
    return _seen_so(x, x._shape[::-1], TURNED, np.transpose)


def permuted(x: DistributedArray, order: tuple[int, ...]) -> DistributedArray:
    """``x.transpose(order)`` for an order of all axes: a view."""
    if x._context.kind != "host" or x._detached or seen(x) is None or len(x._reach) >= DEEP:  # type: ignore[arg-type]
        return x._viewed(x._view_map().transpose(order))
    shape = x._shape
    return _seen_so(x, tuple([shape[axis] for axis in order]), Permuted(order), methodcaller("transpose", order))


def reshaped(x: DistributedArray, shape: tuple[int, ...]) -> DistributedArray | None:
    """``x.reshape(shape)``, a view of an array that lies side by side in one chunk here, without a map; a copy of a small one
    that lies otherwise, where NumPy copies; None of others."""
    if x._detached or not (x._storage is None or type(x._storage) is Storage):
        return None
    array = seen(x)
    if type(array) is not _array or not array.size or len(x._reach) >= DEEP:  # type: ignore[arg-type]
        return None
    if x._map is not None and x._storage is not None:
        version = x._storage.version
        if version.chunks[x._home].array.size < math.prod(version.layout.shape):  # type: ignore[union-attr]
            return None  # elements of one block need not lie side by side in the whole
    if not array.flags.c_contiguous:
        if array.size > x._context.small:
            return None
        copied = array.reshape(shape)
        ready = NotImplemented if _share(copied, array) else wrapped(x, x._kin, copied)  # type: ignore[arg-type]
        return None if ready is NotImplemented else ready
    return _seen_so(x, shape, Reshaped(shape), methodcaller("reshape", shape))


def _seen_so(x: DistributedArray, shape: tuple[int, ...], key: Any, step: Any) -> DistributedArray:
    """The view that `step` shows of what one chunk here shows, and `key` stands for in maps."""
    storage = x._storage
    if storage is None:
        storage = x._own()
        x._kin = storage.version.layout
    view: DistributedArray = _new(DistributedArray)
    view._context = x._context
    view._shape = shape
    view._dtype = x._dtype
    view._node = view._fresh = None
    view._storage = storage
    view._kin = x._kin
    view._home = x._home
    view._map = (x._map, x._shape, key, storage.version.layout.shape)
    view._reach = (*x._reach, step)  # type: ignore[misc]
    view._writable = x._writable
    view._detached = False
    return view
