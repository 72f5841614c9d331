"""The short way of small work: where this process holds all that a call reads in one chunk, the call is NumPy's own.

Arrays that no layout was named for and that are worth no cutting are whole (``Context.default_map``): every process holds
one copy. What is computed of them is one call of NumPy on that copy, without recording, alignment or messages, and the
result is whole again. Everything else that a call needs is decided by its gate, :func:`seen`: the operands lie alike, are
small, and nobody listens. Where the gate does not open, or NumPy raises or finds a floating-point condition, nothing has
happened yet, and the general way does the call again, so that errors and warnings have one source.

Writes pass the same gate. They copy first where another value or a recorded expression holds the chunk, as all writes do.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Sequence
from operator import add, and_, itemgetter, mul, or_, setitem, sub, xor
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray.array import calls
from distarray.array.aliases import ArrayLike
from distarray.array.functions import SHORT, ShortWay
from distarray.array.shown import chunk_of, seen
from distarray.array.state import DistributedArray
from distarray.fusion.expr import call_site
from distarray.storage import Storage, writable_chunks
from distarray.transfer.ledger import watching

if TYPE_CHECKING:
    from distarray.context import Context
    from distarray.layout import Layout

__all__ = ["apply", "assign", "binary", "call", "cast", "function", "in_place", "item", "update"]
_PYTHON = frozenset((bool, int, float, complex))
_NUMBERS = _PYTHON | {
    np.bool, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float16, np.float32,
    np.float64, np.complex64, np.complex128,
}  # fmt: skip
"""Types of scalars that NumPy takes as they are."""

_COMPLEX = frozenset((complex, np.complex64, np.complex128))
_ALONE = _NUMBERS - _COMPLEX
_REAL = frozenset("biuf")
_TAKEN: dict[Any, frozenset[type]] = {
    np.dtype(np.float64): _NUMBERS - _COMPLEX,
    np.dtype(np.complex128): _NUMBERS,
    np.dtype(np.int64): frozenset((bool, int, np.bool, np.int8, np.int16, np.int32, np.int64)),
    np.dtype(np.bool): _NUMBERS,
}
"""Scalars that go into an element of a dtype without a floating-point condition."""
_SCALAR: dict[Any, Any] = {
    np.add: add, np.subtract: sub, np.multiply: mul, np.bitwise_and: and_, np.bitwise_or: or_, np.bitwise_xor: xor
}  # fmt: skip
"""What NumPy's numbers compute faster than its ufuncs do, with the same bits."""
_KINDS = frozenset("biufc")
_array = np.ndarray
_new = object.__new__
_WORDS = {"divide by zero": "divide", "overflow": "over", "underflow": "under", "invalid value": "invalid"}
DEEP = 6
"""At most so many keys are followed one after the other to what a view shows; for more, its map is worked out."""


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


# --- calls ------------------------------------------------------------------------------------------------------------


def _wrapped(like: DistributedArray, layout: Layout, result: Any, plain: bool = False) -> Any:
    """A result of NumPy as an array that lies as `layout`, whole; a scalar as a detached value. `plain`: it is in C order."""
    dtype = result.dtype
    if dtype is not like._dtype and dtype.kind not in _KINDS and dtype.name != "bfloat16":
        return NotImplemented
    found: DistributedArray = _new(DistributedArray)
    found._context = like._context
    if type(result) is _array:
        found._shape = shape = result.shape
        here = layout.kin.get(shape)
        if here is None:
            here = like._context.layouts.of_shape(layout, shape)
        found._kin = here
        if not plain and not result.flags.c_contiguous:
            result = np.ascontiguousarray(result)
        found._fresh = chunk_of(here, result)
        found._detached = False
    else:
        found._shape = ()
        found._kin = layout
        found._fresh = result
        found._detached = True
    found._dtype = dtype
    found._node = found._storage = found._map = None
    found._home = -1
    found._reach = ()
    found._writable = True
    return found


def _values(inputs: Sequence[Any], limit: int) -> tuple[list[Any], DistributedArray] | None:
    """The operands as NumPy takes them, where they lie alike and are small, and the first array among them."""
    values = []
    first: DistributedArray | None = None
    largest = 0
    for item in inputs:
        kind = type(item)
        if kind is DistributedArray:
            value = seen(item)
            if value is None or value.size > limit:
                return None
            if first is None:
                first = item
            elif item._kin is not first._kin:
                if not _meet(item, first._context, first._kin):
                    return None
                if value.size > largest:
                    first = item
            largest = max(largest, value.size)
        elif kind in _NUMBERS:
            value = item
        elif kind is _array and item.dtype.kind in _KINDS and item.size <= limit:
            value = item
        else:
            return None
        values.append(value)
    return None if first is None else (values, first)


def _fits(ufunc: np.ufunc, values: Sequence[Any], limit: int) -> bool:
    """Whether a result is small too."""
    if ufunc is np.matmul and len(values) == 2:
        a, b = values
        if not (isinstance(a, _array) and isinstance(b, _array)):
            return False
        rows = a.size // max(1, a.shape[-1]) if a.ndim else 1
        columns = b.size // max(1, b.shape[-2]) if b.ndim > 1 else 1
        return rows * columns <= limit
    if ufunc.signature is not None:
        return False
    shapes = [value.shape for value in values if type(value) is _array]
    if len(shapes) < 2 or all(shape == shapes[0] for shape in shapes):
        return True
    try:
        return math.prod(np.broadcast_shapes(*shapes)) <= limit
    except ValueError:
        return False


def binary(ufunc: np.ufunc, left: Any, right: Any, array: DistributedArray) -> Any:
    """An operator of two operands, of which `array` is one. What `call` does, at the least cost: loops run through here."""
    a = seen(array)
    if a is None:
        return calls.binary(ufunc, left, right, array)
    layout: Any = array._kin
    context = array._context
    other = right if left is array else left
    kind = type(other)
    plain = not array._reach  # in C order
    function: Any = ufunc
    if kind is DistributedArray:
        b = seen(other)
        if b is None:
            return calls.binary(ufunc, left, right, array)
        kin = other._kin
        fits = kin is layout or kin.kin is layout.kin
        if not fits and _meet(other, context, layout):
            fits = True
            if b.size > a.size:
                layout = kin
        if array._shape == other._shape:
            if not array._shape:
                if type(a) in _ALONE and type(b) in _ALONE:
                    function = _SCALAR.get(ufunc, ufunc)
            elif not layout.small and not kin.small:
                fits = fits and a.size <= context.small
        else:
            fits = fits and _fits(ufunc, (a, b), context.small)
        plain = plain and not other._reach
    elif kind in _NUMBERS:
        b = other
        fits = layout.small or a.size <= context.small
        if type(a) in _ALONE and kind in _ALONE:
            function = _SCALAR.get(ufunc, ufunc)
    elif kind is _array:
        b, plain = other, False
        fits = b.dtype.kind in _KINDS and _fits(ufunc, (a, b), context.small)
    else:
        fits = False
    if fits:
        runner = context.quiet.take()
        try:
            result = runner[0](function, a, b) if left is array else runner[0](function, b, a)
        except Exception:  # the general way raises the error in full
            fits = False
        if runner[1]:
            fits = False
            runner[1].clear()
        context.quiet.spare.append(runner)
        if fits:
            ready = _wrapped(array, layout, result, plain)
            if ready is not NotImplemented:
                return ready
    return calls.binary(ufunc, left, right, array)


def call(ufunc: np.ufunc, inputs: Sequence[Any]) -> Any:
    """A ufunc of one output, called by NumPy on whole operands; NotImplemented where the general way has to do it."""
    array = next((item for item in inputs if type(item) is DistributedArray), None)
    if array is None:
        return NotImplemented
    context = array._context
    found = _values(inputs, context.small)
    if found is None:
        return NotImplemented
    values, first = found
    if len(values) > 1 and not _fits(ufunc, values, context.small):
        return NotImplemented
    try:
        result, met = context.quiet(ufunc, *values)
    except Exception:
        return NotImplemented
    return NotImplemented if met else _wrapped(first, first._kin, result)  # type: ignore[arg-type]


def apply(
    ufunc: np.ufunc, inputs: Sequence[Any], out: tuple[Any, ...] | None = None, where: ArrayLike = True, **kwargs: Any
) -> Any:
    """Any call of an element-wise ufunc."""
    if where is True and not kwargs and ufunc.nout == 1:
        if out is None or out[0] is None:
            ready = call(ufunc, inputs)
            if ready is not NotImplemented:
                return ready
        elif type(out[0]) is DistributedArray and update(ufunc, inputs, out[0]):
            return out[0]
        elif type(out[0]) is _array and _into_host(ufunc, inputs, out[0]):
            return out[0]
    return calls.apply(ufunc, inputs, out, where, **kwargs)


def _into_host(ufunc: np.ufunc, inputs: Sequence[Any], target: Any) -> bool:
    """A ufunc called by NumPy on whole operands and into an array of the host's; False where nothing was done."""
    array = next((item for item in inputs if type(item) is DistributedArray), None)
    if array is None or ufunc.signature is not None or ufunc is np.power:
        return False
    found = _values(inputs, array._context.small)
    if found is None:
        return False
    try:
        _, met = array._context.quiet(ufunc, *found[0], out=target)
    except Exception:  # of dtypes and shapes, before the first element
        return False
    if met:
        report(met, ufunc.__name__)
    return True


def in_place(ufunc: np.ufunc, array: DistributedArray, other: Any) -> Any:
    """``array op= other``."""
    if array._detached:
        return binary(ufunc, array, other, array)
    if update(ufunc, (array, other), array):
        return array
    return calls.in_place(ufunc, array, other)


def update(ufunc: np.ufunc, inputs: Sequence[Any], target: DistributedArray) -> bool:
    """A ufunc of one output, called by NumPy on whole operands and into a whole array; False where nothing was done."""
    if target._detached or not target._writable or seen(target) is None or ufunc.signature is not None:
        return False
    if ufunc is np.power and any(getattr(item, "dtype", target._dtype).kind in "biu" for item in (*inputs, target)):
        return False  # a negative exponent may raise when some elements are written
    context = target._context
    found = _values((*inputs, target), context.small)
    if found is None:
        return False
    storage = target._storage
    if storage is not None:
        if storage.exposed:
            return False
        if _unshared(storage, target._home):  # operands that showed the old chunk show the copy now
            found = _values((*inputs, target), context.small)
            assert found is not None
    try:
        *values, into = found[0]
        _, met = context.quiet(ufunc, *values, out=into)
    except Exception:  # of dtypes and shapes, before the first element
        return False
    if met:
        report(met, ufunc.__name__)
    return True


def _unshared(storage: Storage, home: int) -> bool:
    """Make one chunk of a storage safe to write to in part; whether it is another one now."""
    version = storage.version
    if not version.pinned() and not version.chunks[home].shared:  # type: ignore[union-attr]
        return False
    with storage.context.lock:
        writable_chunks(storage, (home,))
    return True


# --- functions --------------------------------------------------------------------------------------------------------


def function(called: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """One of NumPy's functions, called on whole arrays; NotImplemented where the general way has to do it."""
    count, rule = SHORT[called]
    inputs: Any = args[:count]
    listed = type(inputs[0]) in (list, tuple) if inputs else False
    if listed:
        inputs = inputs[0]
    array = next((item for item in inputs if type(item) is DistributedArray), None)
    if array is None or any(type(item) in _WRITTEN for item in (*args[count:], *kwargs.values())):
        return NotImplemented
    context = array._context
    found = _values(inputs, context.small)
    if found is None:
        return NotImplemented
    values, first = found
    if not all(value.size for value in values if type(value) is _array) or not _bounded(rule, values, context.small):
        return NotImplemented
    try:
        given = (values, *args[1:]) if listed else (*values, *args[count:])
        result, met = context.quiet(called, *given, **kwargs)
    except Exception:
        return NotImplemented
    if met or not isinstance(result, (_array, np.generic)) or result.size > context.small:
        return NotImplemented
    if type(result) is _array and (result.base is not None or any(result is value for value in values)):
        result = result.copy()
    return _wrapped(first, first._kin, result)  # type: ignore[arg-type]


ShortWay.call = staticmethod(function)
_WRITTEN = frozenset((DistributedArray, np.ndarray))


def _bounded(rule: str, values: Sequence[Any], limit: int) -> bool:
    """Whether a function's result is small, by what bounds it."""
    if rule == "broadcast":
        return _fits(np.add, values, limit)
    if rule == "product":
        return all(np.ndim(value) < 2 for value in values) or _fits(np.matmul, values, limit)
    return not rule or math.prod([np.size(value) for value in values]) <= limit


def cast(x: DistributedArray, dtype: np.dtype[Any]) -> Any:
    """A whole array converted to another dtype; NotImplemented where the general way has to do it."""
    value = seen(x)
    if value is None or value.size > x._context.small:
        return NotImplemented
    result, met = x._context.quiet(value.astype, dtype)
    return NotImplemented if met else _wrapped(x, x._kin, result)  # type: ignore[arg-type]


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
    """``x[key]`` for a basic key that one chunk here shows all of: a view, or a detached scalar; else NotImplemented."""
    if x._detached:
        return NotImplemented
    if not _basic(key):
        key = _plain(key)
        if key is None:
            return NotImplemented
        if type(key) is _array:
            return _chosen(x, key)
    if x._dtype.kind == "V":  # NumPy's scalar of a structure is a view
        return NotImplemented
    array = seen(x)
    layout, home, reach, inner = x._kin, x._home, x._reach, key
    if array is None:
        found = _within(x, key)
        if found is None:
            return NotImplemented
        layout, home, inner = found
        array = x._storage.version.chunks[home].array  # type: ignore[union-attr]
        reach = ()
    try:
        shown = array[inner]
    except IndexError:
        return NotImplemented
    if type(shown) is not _array:
        return _wrapped(x, layout, shown)  # type: ignore[arg-type]
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


def _plain(key: Any) -> Any:
    """A key of integers that are values here (NumPy's, or detached ones of ours) as Python's, an array that is an index or a
    mask as NumPy's; None for what the general way has to read."""
    if watching.get() is not None:  # what goes to Python is counted
        return None
    if type(key) is DistributedArray and not key._detached:
        return seen(key) if key._dtype.kind in "iub" else None
    parts: list[Any] = []
    for part in key if type(key) is tuple else (key,):
        if type(part) is slice:
            bounds = [_number(bound) for bound in (part.start, part.stop, part.step)]
            if _ABSENT in bounds:
                return None
            parts.append(slice(*bounds))
        elif part is None or part is Ellipsis:
            parts.append(part)
        else:
            number = _number(part)
            if number is _ABSENT:
                return None
            parts.append(number)
    return tuple(parts)


_ABSENT = object()


def _number(bound: Any) -> Any:
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
    if key.size * (array.size // array.shape[0] if key.dtype.kind != "b" else 1) > limit:
        return NotImplemented
    try:
        return _wrapped(x, x._kin, array[key])  # type: ignore[arg-type]
    except IndexError:
        return NotImplemented


def _within(x: DistributedArray, key: Any) -> tuple[Layout, int, Any] | None:
    """Of an array that is cut into few boxes, all in this process: the chunk that holds all that a key shows, the key in it,
    and the layout of a value on its device; None where there is no such chunk."""
    storage = x._storage
    context = x._context
    if storage is None or x._map is not None or context.process_count > 1 or context.kind != "host":
        return None
    layout = storage.version.layout
    boxes = None if layout.is_partial else context.layouts.boxes(layout)
    if boxes is None:
        return None
    parts = key if type(key) is tuple else (key,)
    shape = x._shape
    if len(parts) > len(shape):
        return None
    bounds = []
    for part, n in zip(parts, shape, strict=False):
        if type(part) is int:
            low = part + n if part < 0 else part
            if not 0 <= low < n:
                return None
            bounds.append((low, low + 1, 0))
        elif type(part) is slice:
            low, high, step = part.indices(n)
            if step < 1 or high <= low:
                return None
            bounds.append((low, high, step))
        else:
            return None
    bounds.extend((0, n, 1) for n in shape[len(parts) :])
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


def assign(x: DistributedArray, key: Any, value: Any) -> bool:
    """``x[key] = value`` for a basic key that one chunk here shows all of; False where nothing was done."""
    if x._detached or not x._writable:
        return False
    if not _basic(key):
        key = _plain(key)
        if type(key) is not tuple:
            return False
    array = seen(x)
    home, layout = x._home, x._kin
    storage = x._storage
    inner = key
    if array is None:
        found = _within(x, key)
        if found is None:
            return False
        layout, home, inner = found
    given = value
    kind = type(value)
    if kind is DistributedArray:
        given = seen(value)
        if given is None or not _meet(value, x._context, layout):
            return False
        kind = type(given)
    if storage is not None:
        if storage.exposed:
            return False
        if _unshared(storage, home) and kind is _array and value is not given:
            given = seen(value)
        array = storage.version.chunks[home].array if array is None else seen(x)  # type: ignore[union-attr]
    try:
        if kind in _TAKEN.get(x._dtype, ()):  # whatever the number, or with an exception
            array[inner] = given
            return True
        if kind in _NUMBERS:
            if kind in _COMPLEX and x._dtype.kind != "c":
                return False
        elif kind is not _array or (given.dtype.kind not in (_KINDS if x._dtype.kind == "c" else _REAL)):
            return False
        elif given.ndim and type(array[inner]) is not _array:
            return False
        if kind is not _array or not given.ndim:  # one value, which NumPy converts before it writes
            given, met = x._context.quiet(np.asarray(given).astype, x._dtype)
            if met:
                return False
        _, met = x._context.quiet(setitem, array, inner, given)
    except Exception:  # of positions, shapes and numbers that do not fit, before the first element
        return False
    if met:
        report(met, "cast")
    return True


def _meet(item: DistributedArray, context: Context, layout: Layout | None) -> bool:
    """Whether an operand lies as `layout` does, or where nobody counts what goes from one device of the host to another."""
    if item._kin.kin is layout.kin:  # type: ignore[union-attr]
        return True
    return item._context is context and context.process_count == 1 and watching.get() is None
