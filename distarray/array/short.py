"""The short way of NumPy's functions that are no ufuncs: those of the table ``SHORT`` are NumPy's own on small whole arrays.

What ``whole.py`` does for ufuncs, and by the same gate. A function that says by its rule what bounds its result is asked before
it computes. Those that send or fetch something in the general way, as a count or an index, take the short way only where
nobody counts that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from distarray.array.functions import NOTHING, SHORT, TOLD, ShortWay
from distarray.array.shown import seen
from distarray.array.state import DistributedArray
from distarray.array.whole import COMPLEX, REAL, binary, declined, fits, small_values, wrapped
from distarray.transfer.ledger import watching

__all__ = ["function"]

_array = np.ndarray


def function(called: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """One of NumPy's functions, called on whole arrays; NotImplemented where the general way has to do it."""
    count, rule = SHORT[called]
    if count == 1 and args and type(args[0]) is DistributedArray:
        return _of_one(called, args, kwargs)
    if rule == "product" and len(args) == 2 and not kwargs and _are_vectors(*args):
        return binary(called, args[0], args[1], args[0], declined)  # type: ignore[arg-type]
    inputs: Any = args[:count]
    listed = type(inputs[0]) in (list, tuple) if inputs else False
    if listed:
        inputs = inputs[0]
    if any(map(_is_written, args[count:])) or any(map(_is_written, kwargs.values())):
        return NotImplemented
    for array in inputs:
        if type(array) is DistributedArray:
            break
    else:
        return NotImplemented
    context = array._context
    found = None if context.kind != "host" else small_values(inputs, context.small)
    if found is None:
        return NotImplemented
    values, first = found
    cast = kwargs.get("dtype") is not None or len(args) > count + 1
    for value in values:
        if type(value) is _array:
            if not value.size or (cast and value.dtype.kind == "c"):
                return NotImplemented
        elif cast and type(value) in COMPLEX:
            return NotImplemented  # as in `cast`
    if called in TOLD and not _unheard(called, values):
        return NotImplemented
    if not _bounded(rule, values, args, kwargs, context.small):
        return NotImplemented
    try:
        given = (values, *args[1:]) if listed else (*values, *args[count:])
        result, met = context.quiet(called, *given, **kwargs)
    except Exception:
        return NotImplemented
    return NotImplemented if met else _new(first, result, values)


def _are_vectors(a: object, b: object) -> bool:
    """Whether both are arrays of one axis, on the host, the first with elements."""
    if type(a) is not DistributedArray or type(b) is not DistributedArray:
        return False
    return len(a._shape) == len(b._shape) == 1 and a._shape[0] > 0 and a._context.kind == "host"


def _new(
    like: DistributedArray,
    result: Any,  # what NumPy's function returned
    values: Sequence[Any],
) -> Any:
    """A result, or a tuple of them, in new arrays; NotImplemented of one that is large, or something else."""
    if type(result) is _array:
        if result.size > like._context.small:
            return NotImplemented
        if result.base is not None or any(result is value for value in values):
            result = result.copy()
    elif type(result) is tuple:
        found = [_new(like, item, values) for item in result]
        return NotImplemented if not all(type(item) is DistributedArray for item in found) else tuple(found)
    elif type(result) is int:
        result = np.intp(result)
    elif not isinstance(result, np.generic):
        return NotImplemented
    return wrapped(like, like._kin, result)  # type: ignore[arg-type]


def _unheard(called: Callable[..., Any], values: Sequence[Any]) -> bool:
    """Whether nobody counts what a function fetches in the general way."""
    if called is np.where and len(values) == 3:
        return True
    return watching.get() is None


_FOLDS: dict[Any, tuple[np.ufunc, tuple[str, ...]]] = {
    **{f: (u, ("axis", "dtype", "out", "keepdims", "initial", "where")) for f, u in ((np.sum, np.add), (np.prod, np.multiply))},
    **{f: (u, ("axis", "out", "keepdims", "initial", "where")) for f, u in (
        (np.max, np.maximum), (np.amax, np.maximum), (np.min, np.minimum), (np.amin, np.minimum)
    )},
    **{f: (u, ("axis", "out", "keepdims")) for f, u in ((np.any, np.logical_or), (np.all, np.logical_and))},
}  # fmt: skip
"""The ufunc of which a function is the reduction, and the names of its arguments behind the array, in order."""
_REDUCED = {called: ufunc.reduce for called, (ufunc, _) in _FOLDS.items()}
_AXES = frozenset((int, tuple, type(None)))
_DEFAULT = frozenset((id(None), id(NOTHING)))


def _axis_alone(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a fold is asked for nothing but an axis, if that: by its place or its name, others as they are by default."""
    if kwargs:
        return len(kwargs) == len(args) == 1 and type(kwargs.get("axis", NOTHING)) in _AXES
    if len(args) > 1 and type(args[1]) not in _AXES:
        return False
    return _DEFAULT.issuperset(map(id, args[2:]))


def _asked(names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a function that folds as its ufunc's ``reduce`` takes them, which begins with another axis."""
    if len(args) > len(names) + 1 or (kwargs and not kwargs.keys().isdisjoint(names[: len(args) - 1])):
        raise TypeError  # the general way says it
    asked = {"axis": None}
    for given in (zip(names, args[1:], strict=False), kwargs.items()):
        for name, value in given:
            if value is not NOTHING and (value is not None or name in ("initial", "where")):
                asked[name] = value
    return asked


def _of_one(called: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function of one array, its other arguments no arrays: what `function` does, at the least cost."""
    x = args[0]
    context = x._context
    if context.kind != "host":
        return NotImplemented
    value = seen(x)
    if value is None or not 0 < value.size <= context.small:
        return NotImplemented
    reduced = _REDUCED.get(called)
    if reduced is not None and _axis_alone(args, kwargs):
        runner = context.quiet.take()
        try:
            result = runner[0](reduced, value, args[1] if len(args) > 1 else kwargs.get("axis"))
        except Exception:
            result = NotImplemented
        met: object = bool(runner[1])
        if met:
            runner[1].clear()
        context.quiet.spare.append(runner)
    else:
        result, met = _called(called, x, value, args, kwargs)
    return NotImplemented if met or result is NotImplemented else _new(x, result, (value,))


def _called(
    called: Callable[..., Any],
    x: DistributedArray,
    value: Any,  # what the array shows, NumPy's
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[Any, object]:
    """What NumPy's function gives, NotImplemented where it does not serve, and the conditions that were met."""
    context = x._context
    rule = SHORT[called][1]
    if any(map(_is_written, args[1:])) or any(map(_is_written, kwargs.values())):
        return NotImplemented, None
    if value.dtype.kind == "c" and (kwargs.get("dtype") is not None or len(args) > 2):
        return NotImplemented, None  # as in `whole.cast`
    if rule and not _bounded(rule, (value,), args, kwargs, context.small):
        return NotImplemented, None
    if called in TOLD and watching.get() is not None:
        return NotImplemented, None
    fold = _FOLDS.get(called)
    try:
        if fold is None:
            return context.quiet(called, value, *args[1:], **kwargs)
        return context.quiet(fold[0].reduce, value, **_asked(fold[1], args, kwargs))
    except Exception:  # the general way raises it in full
        return NotImplemented, None


ShortWay.call = staticmethod(function)


def _is_written(item: Any) -> bool:
    """Whether an argument is an array, to which a function may write."""
    return type(item) is DistributedArray or type(item) is _array


def _bounded(rule: str, values: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any], limit: int) -> bool:
    """Whether a function's result is small, and its arguments what NumPy's own function takes as the general way does."""
    if rule == "broadcast":
        return fits(np.add, values, limit)
    if rule == "product":
        return all(np.ndim(value) < 2 for value in values) or fits(np.matmul, values, limit)
    if rule == "outer":
        return math.prod([np.size(value) for value in values]) <= limit
    return _RULES[rule](values, args, kwargs, limit) if rule else True


def _of_take(values: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any], limit: int) -> bool:
    array, positions = values
    axis = args[2] if len(args) > 2 else kwargs.get("axis")
    if not isinstance(array, _array) or (
        axis is not None and not (type(axis) is int and -array.ndim <= axis < array.ndim)
    ):
        return False
    kept = 1 if axis is None else array.size // array.shape[axis]
    return bool(kept * np.size(positions) <= limit)


def _of_repeat(values: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any], limit: int) -> bool:
    times = args[1] if len(args) > 1 else None
    return type(times) is int and times >= 0 and isinstance(values[0], _array) and values[0].size * times <= limit


def _of_bins(values: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any], limit: int) -> bool:
    value = values[0]
    if len(args) > 1 or kwargs or value.ndim != 1 or value.dtype.kind not in "iu":
        return False
    return int(value.min()) >= 0 and int(value.max()) < limit


def _of_enough(values: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any], limit: int) -> bool:
    """Whether there are elements enough: of fewer NumPy warns, which the general way does at the caller's line."""
    if len(args) > 4 or "where" in kwargs:
        return False
    taken = kwargs.get("ddof") or kwargs.get("correction")
    return not taken or (type(taken) is int and taken < min(values[0].shape, default=1))


_RULES: dict[str, Callable[..., bool]] = {
    "line": lambda values, args, kwargs, limit: values[0].ndim == len(args) == 1 and not kwargs and values[0].size ** 2 <= limit,
    "sorted": lambda values, args, kwargs, limit: np.ndim(values[0]) == 1 and len(args) == 2 and kwargs.keys() <= {"side"},
    "axes": lambda values, args, kwargs, limit: values[0].ndim > 0,
    "at": lambda values, args, kwargs, limit: values[0].ndim == 1 and len(args) > 1 and type(args[1]) is int
                                              and all(type(item) in REAL for item in args[2:]) and not kwargs,
    "take": _of_take, "repeat": _of_repeat, "bins": _of_bins, "enough": _of_enough,
}  # fmt: skip
"""What the rules of the table ask, besides those of `_bounded`: of the arrays, the arguments, those by name, and the limit."""
