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
from collections.abc import Callable, Sequence
from itertools import zip_longest
from operator import add, and_, eq, ge, gt, le, lshift, lt, mul, ne, or_, rshift, sub, truediv, xor
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray.array import calls, recorded
from distarray.array.aliases import ArrayLike
from distarray.array.shown import UNCOUNTED, chunk_of, seen
from distarray.array.state import DistributedArray
from distarray.devices.arrays import DeviceArray
from distarray.fusion.notes import GAPPED
from distarray.sites import call_site, warn_at
from distarray.storage import Storage, writable_chunks
from distarray.transfer.ledger import watching

if TYPE_CHECKING:
    from distarray.context import Context
    from distarray.layout import Layout

__all__ = [
    "COMPLEX", "KINDS", "NUMBERS", "REAL", "apply", "binary", "call", "cast", "declined", "fits", "in_place", "meet", "outer",
    "report", "small_values", "unshared", "update", "wrapped",
]  # fmt: skip

_PYTHON = frozenset((bool, int, float, complex))
NUMBERS = _PYTHON | {
    np.bool, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float16, np.float32,
    np.float64, np.complex64, np.complex128,
}  # fmt: skip
"""Types of scalars that NumPy takes as they are."""

COMPLEX = frozenset((complex, np.complex64, np.complex128))
REAL = NUMBERS - COMPLEX
_WHOLE = frozenset(kind for kind in REAL if issubclass(kind, (int, np.bool, np.integer)))
_COMPARED: dict[Any, Any] = {
    np.less: lt, np.less_equal: le, np.greater: gt, np.greater_equal: ge, np.equal: eq, np.not_equal: ne
}  # fmt: skip
_SCALAR: dict[Any, Any] = {
    np.add: add, np.subtract: sub, np.multiply: mul, np.divide: truediv, np.bitwise_and: and_, np.bitwise_or: or_,
    np.bitwise_xor: xor, **_COMPARED
}  # fmt: skip
"""What NumPy's numbers compute faster than its ufuncs do, with the same bits."""
_BITS: dict[Any, Any] = {
    np.bitwise_and: and_, np.bitwise_or: or_, np.bitwise_xor: xor, np.left_shift: lshift, np.right_shift: rshift,
    **_COMPARED
}  # fmt: skip
"""What meets no floating-point condition on whole numbers."""
KINDS = frozenset("biufc")
_array = np.ndarray
_new = object.__new__
_WORDS = {"divide by zero": "divide", "overflow": "over", "underflow": "under", "invalid value": "invalid"}


def report(met: Sequence[tuple[str, int]], name: str) -> None:
    """Do about the conditions of a finished write what the caller's ``np.errstate`` asks for, as NumPy does."""
    state: dict[str, Any] = dict(np.geterr())
    for condition, flag in met:
        how = state[_WORDS[condition]]
        text = f"{condition} encountered in {name}"
        if how == "raise":
            raise FloatingPointError(text)
        if how == "warn":
            warn_at(call_site(), text)
        elif how == "print":
            sys.stderr.write(f"Warning: {text}\n")
        elif how != "ignore":
            handler: Any = np.geterrcall()
            if how == "call":
                handler(condition, flag)
            else:
                handler.write(f"Warning: {text}\n")


# --- calls ------------------------------------------------------------------------------------------------------------


def wrapped(
    like: DistributedArray,
    layout: Layout,
    result: Any,  # what NumPy's function returned
    plain: bool = False,
) -> Any:
    """A result of NumPy as an array that lies as `layout`, whole; a scalar as a detached value. `plain`: it is in C order."""
    dtype = result.dtype
    if dtype is not like._dtype and dtype.kind not in KINDS and dtype.name != "bfloat16":
        return NotImplemented
    found: DistributedArray = _new(DistributedArray)
    found._context = context = like._context
    if type(result) is _array:
        found._shape = shape = result.shape
        here = layout.kin.get(shape)
        if here is None:
            here = context.layouts.of_shape(layout, shape)
        found._kin = here
        if not plain and not result.flags.c_contiguous:
            result = np.ascontiguousarray(result)
        found._fresh = (
            result if result.nbytes <= UNCOUNTED and here.keeper.memory_limit is None else chunk_of(here, result)
        )
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


def small_values(inputs: Sequence[Any], limit: int) -> tuple[list[Any], DistributedArray] | None:
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
                if not meet(item, first._context, first._kin):
                    return None
                if value.size > largest:
                    first = item
            largest = max(largest, value.size)
        elif kind in NUMBERS:
            value = item
        elif kind is _array and item.dtype.kind in KINDS and item.size <= limit:
            value = item
        else:
            return None
        values.append(value)
    return None if first is None else (values, first)


def fits(ufunc: np.ufunc, values: Sequence[Any], limit: int) -> bool:
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
    if len(shapes) < 2 or shapes.count(shapes[0]) == len(shapes):
        return True
    lengths = zip_longest(*[shape[::-1] for shape in shapes], fillvalue=1)  # of shapes that do not fit NumPy says so
    size: int = math.prod(map(max, lengths))
    return size <= limit


def _of_numbers(
    ufunc: np.ufunc,
    left: Any,  # told apart by its class
    right: Any,  # told apart by its class
    array: DistributedArray,
) -> Any:
    """A ufunc of two real numbers, of which `array` is one; None where the other one is something else, or far, and where there
    is something to say."""
    layout, a = array._kin, array._fresh
    other = right if left is array else left
    if type(other) is DistributedArray:
        if not other._detached or other._kin is not layout:
            return None
        other = other._fresh
    if type(a) not in REAL or type(other) not in REAL:
        return None
    bits = type(a) in _WHOLE and type(other) in _WHOLE and ufunc in _BITS
    function = _BITS[ufunc] if bits else _SCALAR.get(ufunc)
    if function is None:
        return None
    quiet = array._context.quiet
    runner = quiet.take()
    try:
        result = runner[0](function, a, other) if left is array else runner[0](function, other, a)
    except Exception:  # the general way raises the error in full
        result = None
    if runner[1]:
        result = None
        runner[1].clear()
    quiet.spare.append(runner)
    return None if result is None else wrapped(array, layout, result)  # type: ignore[arg-type]


def binary(
    ufunc: np.ufunc,
    left: Any,  # told apart by its class
    right: Any,  # told apart by its class
    array: DistributedArray,
    general: Callable[..., Any] = calls.binary,
) -> Any:
    """A ufunc of two operands, of which `array` is one, at the least cost: loops run through here. `general` does it where the
    gate does not open."""
    if array._context.kind != "host":
        found = recorded.binary(ufunc, left, right, array)
        return general(ufunc, left, right, array) if found is None else found
    if array._detached and (made := _of_numbers(ufunc, left, right, array)) is not None:
        return made
    a = fresh if type(fresh := array._fresh) is _array else seen(array)
    if a is None:
        return general(ufunc, left, right, array)
    layout: Any = array._kin
    context = array._context
    other = right if left is array else left
    kind = type(other)
    plain = not array._reach  # in C order
    if kind is DistributedArray:
        b = fresh if type(fresh := other._fresh) is _array else seen(other)
        if b is None:
            return general(ufunc, left, right, array)
        kin = other._kin
        ready = kin is layout or kin.kin is layout.kin
        if not ready and meet(other, context, layout):
            ready, layout = True, kin if b.size > a.size else layout
        if array._shape == other._shape:
            if not layout.small and not kin.small:
                ready = ready and a.size <= context.small
        elif not 0 < a.size * b.size <= context.small:
            ready = ready and fits(ufunc, (a, b), context.small)
        plain = plain and not other._reach
    elif kind in NUMBERS:
        b = other
        ready = layout.small or a.size <= context.small
    else:
        b, plain = other, False
        ready = kind is _array and b.dtype.kind in KINDS and fits(ufunc, (a, b), context.small)
    if ready:
        quiet = context.quiet
        try:
            runner = quiet.spare.pop()
        except IndexError:
            runner = quiet.take()
        run, met = runner
        try:
            result = run(ufunc, a, b) if left is array else run(ufunc, b, a)
        except Exception:  # the general way raises the error in full
            ready = False
        if met:
            ready = False
            met.clear()
        quiet.spare.append(runner)
        if ready:
            made = wrapped(array, layout, result, plain)
            if made is not NotImplemented:
                return made
    return general(ufunc, left, right, array)


def declined(*_: object) -> Any:
    """In the place of a general way: none."""
    return NotImplemented


def call(ufunc: np.ufunc, inputs: Sequence[Any]) -> Any:
    """A ufunc of one output, called by NumPy on whole operands; NotImplemented where the general way has to do it."""
    for array in inputs:
        if type(array) is DistributedArray:
            break
    else:
        return NotImplemented
    context = array._context
    if len(inputs) == 2:
        if ufunc.signature is None or ufunc is np.matmul:
            return binary(ufunc, inputs[0], inputs[1], array, declined)
        return NotImplemented
    if context.kind != "host":
        made = recorded.binary(ufunc, inputs[0], recorded.ALONE, array) if len(inputs) == 1 else None
        return NotImplemented if made is None else made
    if len(inputs) == 1:
        value = seen(array)
        if value is None or value.size > context.small or ufunc.signature is not None:
            return NotImplemented
        quiet = context.quiet
        runner = quiet.take()
        try:
            result = runner[0](ufunc, value)
        except Exception:
            result = None
        if runner[1]:
            result = None
            runner[1].clear()
        quiet.spare.append(runner)
        return NotImplemented if result is None else wrapped(array, array._kin, result)  # type: ignore[arg-type]
    found = small_values(inputs, context.small)
    if found is None or not fits(ufunc, found[0], context.small):
        return NotImplemented
    values, first = found
    try:
        result, met = context.quiet(ufunc, *values)
    except Exception:
        return NotImplemented
    return NotImplemented if met else wrapped(first, first._kin, result)  # type: ignore[arg-type]


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


def _into_host(ufunc: np.ufunc, inputs: Sequence[Any], target: DeviceArray) -> bool:
    """A ufunc called by NumPy on whole operands and into an array of the host's; False where nothing was done."""
    array = next((item for item in inputs if type(item) is DistributedArray), None)
    if (
        array is None
        or ufunc.signature is not None
        or ufunc is np.power
        or ufunc in GAPPED
        or watching.get() is not None
    ):
        return False  # what goes to the host is counted, or refused, by the general way
    found = small_values(inputs, array._context.small)
    if found is None:
        return False
    try:
        _, met = array._context.quiet(ufunc, *found[0], out=target)
    except Exception:  # of dtypes and shapes, before the first element
        return False
    if met:
        report(met, ufunc.__name__)
    return True


def outer(ufunc: np.ufunc, first: DistributedArray, second: DistributedArray) -> Any:
    """``ufunc.outer`` of two arrays, by NumPy where they are whole and small; NotImplemented where the general way has to do it."""
    context = first._context
    if context.kind != "host" or ufunc.nout > 1:
        return NotImplemented
    a, b = seen(first), seen(second)
    if a is None or b is None or a.size * b.size > context.small or not meet(second, context, first._kin):
        return NotImplemented
    try:
        result, met = context.quiet(ufunc.outer, a, b)
    except Exception:
        return NotImplemented
    return NotImplemented if met else wrapped(first, first._kin, result)  # type: ignore[arg-type]


def in_place(
    ufunc: np.ufunc,
    array: DistributedArray,
    other: Any,  # told apart by its class
) -> Any:
    """``array op= other``."""
    if array._detached:
        return binary(ufunc, array, other, array)
    if update(ufunc, (array, other), array):
        return array
    return calls.in_place(ufunc, array, other)


def update(ufunc: np.ufunc, inputs: Sequence[Any], target: DistributedArray) -> bool:
    """A ufunc of one output, called by NumPy on whole operands and into a whole array; False where nothing was done."""
    if (
        target._detached
        or not target._writable
        or seen(target) is None
        or ufunc.signature is not None
        or ufunc in GAPPED
    ):
        return False
    if ufunc is np.power and any(getattr(item, "dtype", target._dtype).kind in "biu" for item in (*inputs, target)):
        return False  # a negative exponent may raise when some elements are written
    context = target._context
    found = small_values((*inputs, target), context.small)
    if found is None:
        return False
    storage = target._storage
    if storage is not None:
        if storage.exposed:
            return False
        if unshared(storage, target._home):  # operands that showed the old chunk show the copy now
            found = small_values((*inputs, target), context.small)
            assert found is not None
    try:
        *values, into = found[0]
        _, met = context.quiet(ufunc, *values, out=into)
    except Exception:  # of dtypes and shapes, before the first element
        return False
    if storage is not None and storage.copies:
        storage.outdate()
    if met:
        report(met, ufunc.__name__)
    return True


def unshared(storage: Storage, home: int) -> bool:
    """Make one chunk of a storage safe to write to in part; whether it is another one now."""
    version = storage.version
    if not version.pinned() and not version.chunks[home].shared:  # type: ignore[union-attr]
        return False
    with storage.context.lock:
        writable_chunks(storage, (home,))
    return True


# --- conversions and the gate ---------------------------------------------------------------------------------------


def cast(x: DistributedArray, dtype: np.dtype[Any]) -> Any:
    """A whole array converted to another dtype; NotImplemented where the general way has to do it."""
    value = seen(x)
    if value is None or value.size > x._context.small or (value.dtype.kind == "c" and dtype.kind not in "cb"):
        return NotImplemented  # of an imaginary part that is dropped the general way warns, at the caller's line
    result, met = x._context.quiet(value.astype, dtype)
    return NotImplemented if met else wrapped(x, x._kin, result)  # type: ignore[arg-type]


def meet(item: DistributedArray, context: Context, layout: Layout | None) -> bool:
    """Whether an operand lies as `layout` does, or where nobody counts what goes from one device of the host to another."""
    if item._kin.kin is layout.kin:  # type: ignore[union-attr]
        return True
    return item._context is context and context.process_count == 1 and watching.get() is None
