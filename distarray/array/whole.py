"""The short way of small work: where this process holds all that a call reads in one chunk, the call is NumPy's own.

Arrays that no layout was named for and that are worth no cutting are whole (``Context.default_map``): every process holds
one copy. What is computed of them is one call of NumPy on that copy, without recording, alignment or messages, and the
result is whole again. Everything else that a call needs is decided by its gate, :func:`seen`: the operands lie alike, are
small, and nobody listens. Where the gate does not open, or NumPy raises or finds a floating-point condition, nothing has
happened yet, and the general way does the call again, so that errors and warnings have one source.

Writes pass the same gate. They copy first where another value or a recorded expression holds the chunk, as all writes do.
"""

from __future__ import annotations

import operator
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray.devices import Chunk
from distarray.fusion.expr import call_site
from distarray.layout import follow
from distarray.storage import Storage, Version, writable_chunks

if TYPE_CHECKING:
    from distarray.array.state import DistributedArray
    from distarray.context import Context
    from distarray.layout import Layout

__all__ = ["assign", "call", "item", "seen", "update", "value_chunks"]
_PYTHON = frozenset((bool, int, float, complex))
_NUMBERS = _PYTHON | {
    np.bool, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float16, np.float32,
    np.float64, np.complex64, np.complex128,
}  # fmt: skip
"""Types of scalars that NumPy takes as they are."""

_KINDS = frozenset("biufc")
_WORDS = {"divide by zero": "divide", "overflow": "over", "underflow": "under", "invalid value": "invalid"}
DEEP = 6
"""So many keys one after the other reach what a view shows; beyond, its map is worked out."""


def report(met: Sequence[tuple[str, int]], name: str) -> None:
    """Do about the conditions of a finished write what the caller's ``np.errstate`` asks for, as NumPy does."""
    state: dict[str, Any] = dict(np.geterr())
    for condition, flag in met:
        how = state[_WORDS[condition]]
        text = f"{condition} encountered in {name}"
        if how == "raise":
            raise FloatingPointError(text)
        if how == "warn":
            file, line, names = call_site()
            registry = names.setdefault("__warningregistry__", {})
            module = names.get("__name__") or "__main__"
            warnings.warn_explicit(text, RuntimeWarning, file, line, module=module, registry=registry)
        elif how == "print":
            sys.stderr.write(f"Warning: {text}\n")
        elif how != "ignore":
            handler: Any = np.geterrcall()
            if how == "call":
                handler(condition, flag)
            else:
                handler.write(f"Warning: {text}\n")


# --- what an array shows ----------------------------------------------------------------------------------------------


def seen(x: DistributedArray) -> Any:
    """What an array shows of the one chunk of this process that holds all of it: a NumPy view, or a scalar; else None."""
    scalar = x._scalar
    if scalar is not None:
        return scalar
    storage = x._storage
    if storage is None:
        return None
    version = storage.version
    home = version.layout.home
    if home < 0:
        return None
    reach = x._reach
    if reach is None:
        reach = _reach(x, version)
        if reach is None:
            return None
    array = version.chunks[home].array  # type: ignore[union-attr]
    for step in reach:
        array = step(array)
    return array


def _reach(x: DistributedArray, version: Version) -> tuple[Any, ...] | None:
    """The steps from the chunk to what the view shows; they are the same for every chunk that holds all of the storage."""
    view = x._view
    if view is None:
        x._reach = ()
        return ()
    shown = x._context.layouts.visible(version.layout, view)
    home = version.layout.home
    if shown is None or shown.twins or home not in shown.sources:
        return None
    x._reach = (partial(follow, shown.paths[shown.sources.index(home)], xp=np),)
    return x._reach


def _lies(x: DistributedArray) -> Layout:
    """The layout of an array that `seen` gave a value of."""
    return x._kin if x._scalar is not None else x._storage.version.layout  # type: ignore[union-attr,return-value]


def value_chunks(context: Context, layout: Layout, array: Any) -> list[Chunk | None]:
    """The chunks of a whole array: this process's alone."""
    device = context.by_id[layout.chunks[layout.home][0]]
    chunk = Chunk(device, array) if device.memory_limit is None else device.adopt(array, "a small result")
    count = len(layout.chunks)
    if count == 1:
        return [chunk]
    chunks: list[Chunk | None] = [None] * count
    chunks[layout.home] = chunk
    return chunks


def _wrapped(like: DistributedArray, layout: Layout, result: Any) -> Any:
    """A result of NumPy as an array that lies as `layout`, whole; a scalar as a detached value."""
    cls = type(like)
    context = like._context
    dtype = result.dtype
    if dtype.kind not in _KINDS and dtype.name != "bfloat16":
        return NotImplemented
    if type(result) is not np.ndarray:
        found: DistributedArray = object.__new__(cls)
        found._context = context
        found._shape = ()
        found._dtype = dtype
        found._node = None
        found._storage = None
        found._map = None
        found._reach = ()
        found._writable = True
        found._detached = True
        found._scalar = result
        found._kin = layout
        return found
    shape = result.shape
    if shape != layout.shape:
        layout = layout.kin.get(shape) or context.layouts.of_shape(layout, shape)
    if not result.flags.c_contiguous:
        result = np.ascontiguousarray(result)
    version = Version(layout, value_chunks(context, layout, result), dtype)
    return cls._make(context, shape, dtype, None, Storage(context, version))


# --- calls ------------------------------------------------------------------------------------------------------------


def _values(inputs: Sequence[Any], layout: Layout | None, limit: int) -> tuple[list[Any], Layout, Any] | None:
    """The operands as NumPy takes them, where they lie alike and are small; the layout of the first array, and that array."""
    values = []
    first: Any = None
    for item in inputs:
        kind = type(item)
        if kind in _NUMBERS:
            values.append(item)
            continue
        if kind is np.ndarray:
            if item.dtype.kind not in _KINDS or item.size > limit:
                return None
            values.append(item)
            continue
        if not hasattr(kind, "_kin"):
            return None
        value = seen(item)
        if value is None or value.size > limit:
            return None
        own = _lies(item)
        if layout is None:
            layout = own
        elif own is not layout and own.kin is not layout.kin:
            return None
        if first is None:
            first = item
        values.append(value)
    return None if layout is None else (values, layout, first)


def _fits(ufunc: np.ufunc, values: Sequence[Any], limit: int) -> bool:
    """Whether a result is small too."""
    shapes = {value.shape for value in values if isinstance(value, np.ndarray) and value.ndim}
    if len(shapes) < 2 and ufunc.signature is None:
        return True
    if ufunc.signature is None:
        try:
            shape = np.broadcast_shapes(*shapes)
        except ValueError:
            return False
    elif ufunc is np.matmul and len(values) == 2 and all(isinstance(value, np.ndarray) for value in values):
        a, b = values
        rows = a.size // max(1, a.shape[-1]) if a.ndim else 1
        columns = b.size // max(1, b.shape[-2]) if b.ndim > 1 else 1
        return rows * columns <= limit
    else:
        return False
    size = 1
    for n in shape:
        size *= n
    return size <= limit


def call(ufunc: np.ufunc, inputs: Sequence[Any], context: Context) -> Any:
    """A ufunc of one output, called by NumPy on whole operands; NotImplemented where the general way has to do it."""
    limit = context.small
    found = _values(inputs, None, limit)
    if found is None:
        return NotImplemented
    values, layout, first = found
    if len(values) > 1 and not _fits(ufunc, values, limit):
        return NotImplemented
    try:
        result, met = context.quiet(ufunc, *values)
    except Exception:
        return NotImplemented
    return NotImplemented if met else _wrapped(first, layout, result)


def update(ufunc: np.ufunc, inputs: Sequence[Any], target: DistributedArray) -> bool:
    """A ufunc of one output, called by NumPy on whole operands and into a whole array; False where nothing was done."""
    storage = target._storage
    if storage is None or storage.exposed or not target._writable or target._detached:
        return False
    version = storage.version
    if version.layout.home < 0 or (ufunc is np.power and target._dtype.kind in "iu"):
        return False
    context = target._context
    # found twice: a copy on write gives the storage another chunk
    if (ufunc.signature is not None) or _values((target, *inputs), None, context.small) is None:
        return False
    _unshared(storage, version)
    found = _values((target, *inputs), None, context.small)
    if found is None:
        return False
    (into, *values), _, _ = found
    try:
        _, met = context.quiet(ufunc, *values, into)
    except Exception:  # of dtypes and shapes, before the first element
        return False
    if met:
        report(met, ufunc.__name__)
    return True


def _unshared(storage: Storage, version: Version) -> None:
    """Make the one chunk of a storage safe to write to in part."""
    home = version.layout.home
    if version.pinned() or version.chunks[home].shared:  # type: ignore[union-attr]
        with storage.context.lock:
            writable_chunks(storage, (home,))


# --- indexing ---------------------------------------------------------------------------------------------------------


def _basic(key: Any) -> bool:
    """Whether a key, of Python's own integers and slices of them, needs no look at its parts."""
    kind = type(key)
    if kind is int:
        return True
    for part in key if kind is tuple else (key,):
        kind = type(part)
        if kind is int:
            continue
        if kind is slice:
            for bound in (part.start, part.stop, part.step):
                if bound is not None and type(bound) is not int:
                    return False
        elif part is not None and part is not Ellipsis:
            return False
    return True


def item(x: DistributedArray, key: Any) -> Any:
    """``x[key]`` of a whole array for a basic key: a view, or a detached scalar; NotImplemented where it isn't so."""
    storage = x._storage
    if storage is None or x._detached or not _basic(key):
        return NotImplemented
    array = seen(x)
    if array is None:
        return NotImplemented
    try:
        shown = array[key]
    except IndexError:
        return NotImplemented
    if type(shown) is not np.ndarray:
        return _wrapped(x, storage.version.layout, shown)
    reach = x._reach
    assert reach is not None
    found = x._make(x._context, shown.shape, x._dtype, None, storage, None, x._writable)
    found._map = (x._map, x._shape, key, storage.version.layout.shape)
    found._reach = (*reach, operator.itemgetter(key))
    if len(reach) >= DEEP:
        found._reach = None if found._view is not None else ()
    return found


def assign(x: DistributedArray, key: Any, value: Any) -> bool:
    """``x[key] = value`` of a whole array for a basic key; False where nothing was done."""
    storage = x._storage
    if storage is None or storage.exposed or not x._writable or x._detached or not _basic(key):
        return False
    version = storage.version
    if version.layout.home < 0:
        return False
    found = _values((x, value), None, sys.maxsize)
    if found is None:
        return False
    given = found[0][1]
    single = not isinstance(given, np.ndarray)
    if x._dtype.kind != "c" and (
        type(given) is complex if single and type(given) in _PYTHON else given.dtype.kind == "c"
    ):
        return False
    _unshared(storage, version)
    array = seen(x)
    if not single:  # it may show the same chunk
        given = seen(value) if hasattr(type(value), "_kin") else value
    try:
        if not single and given.ndim and type(array[key]) is not np.ndarray:
            return False
        _, met = x._context.quiet(operator.setitem, array, key, given)
    except Exception:  # of positions, shapes and numbers that do not fit, before the first element
        return False
    if met:
        report(met, "cast")
    return True
