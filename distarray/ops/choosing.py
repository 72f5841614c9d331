"""Element-wise functions of NumPy that are no ufuncs: choosing, clipping, rounding, parts of complex numbers, comparing.
They record the same expressions as ufuncs do, so that they align and fuse with them."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from distarray.array.functions import implements
from distarray.array.place import as_operand
from distarray.array.shapes import PYTHON_SCALARS, as_mask, broadcast_shape
from distarray.array.state import DistributedArray, from_chunks, same_context
from distarray.array.writing import check_writable, overwrite, single
from distarray.context import Context, current
from distarray.fusion.expr import ASTYPE, Node, call_site, record, warn_at
from distarray.modes import Mode
from distarray.ops import reductions
from distarray.ops.convert import asarray
from distarray.ops.creation import zeros_like
from distarray.ops.searching import nonzero
from distarray.storage import Operand
from distarray.transfer.execute import allocate, resolved_operand

__all__ = [
    "allclose", "angle", "around", "array_equal", "array_equiv", "clip", "copyto", "imag", "isclose", "real", "round", "where",
]  # fmt: skip


# --- recording --------------------------------------------------------------------------------------------------------


def _context_of(values: Sequence[Any]) -> Context:
    known = [v for v in values if isinstance(v, DistributedArray)]
    return same_context(known) if known else current()


def _arguments(context: Context, values: Sequence[Any]) -> list[Any]:
    """Operands of an expression: arrays of the context, scalars as they are."""
    return [v if v is None or isinstance(v, PYTHON_SCALARS) else as_operand(context, v, None) for v in values]


def _shape_of(arguments: Sequence[Any]) -> tuple[int, ...]:
    shapes = [a.shape for a in arguments if isinstance(a, DistributedArray)]
    return broadcast_shape(*shapes) if shapes else ()


def _plain(value: Any) -> Any:
    return value._arg() if isinstance(value, DistributedArray) else value


def _recorded(function: Any, values: Sequence[Any], **kwargs: Any) -> DistributedArray:
    """A call of an element-wise function of NumPy that takes ``out=`` and that CuPy has under the same name."""
    context = _context_of(values)
    arguments = _arguments(context, values)
    if not any(isinstance(a, DistributedArray) for a in arguments):
        arguments[0] = as_operand(context, arguments[0], ())
    node = record(context, function, tuple([_plain(a) for a in arguments]), kwargs, _shape_of(arguments))
    return _scalar(DistributedArray._of_node(node))


def _given(value: DistributedArray, out: Any, casting: str = "same_kind") -> Any:
    """`value`, written into `out` where there is one."""
    if out is None:
        return value
    out = single(out)
    if not isinstance(out, (DistributedArray, np.ndarray)):
        raise TypeError(f"return arrays must be of ArrayType, and out= is of type {type(out).__name__}")
    if broadcast_shape(out.shape, value.shape) != out.shape:
        raise ValueError(
            f"non-broadcastable output operand with shape {out.shape} doesn't match the broadcast shape {value.shape}"
        )
    if not np.can_cast(value.dtype, out.dtype, casting):  # type: ignore[arg-type]
        raise TypeError(f"Cannot cast output from {value.dtype!r} to {out.dtype!r} with casting rule {casting!r}")
    check_writable(out)
    return overwrite(out, value)


# --- choosing ---------------------------------------------------------------------------------------------------------


_MISSING = object()


@implements(np.where)
def where(condition: Any, x: Any = _MISSING, y: Any = _MISSING, /) -> Any:
    """Elements of `x` where the condition holds, of `y` elsewhere; recorded like a ufunc.

    Parameters
    ----------
    condition : array_like
        Of any dtype: what is not zero holds.
    x, y : array_like, optional
        Both or neither; the three broadcast. Without them: the indices of ``np.nonzero(condition)``.

    Notes
    -----
    Communication: none where the operands have one layout; otherwise what aligns them, when the value is needed.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.arange(4)
    ...     da.where(x > 1, x, -1)
    DistributedArray([-1, -1,  2,  3])
    """
    if x is _MISSING and y is _MISSING:
        return nonzero(asarray(condition))
    if x is _MISSING or y is _MISSING:
        raise ValueError("either both or neither of x and y should be given")
    context = _context_of((condition, x, y))
    mask, first, second = _arguments(context, (condition, x, y))
    # NumPy itself converts Python numbers, or refuses them: versions differ about those that the dtype has no room for
    stand = [v if isinstance(v, PYTHON_SCALARS) else np.zeros((), v.dtype) for v in (first, second)]
    chosen = [np.where(np.bool_(turn), *stand)[()] for turn in (True, False)]
    dtype = chosen[0].dtype
    first, second = (c if isinstance(v, PYTHON_SCALARS) else v for v, c in zip((first, second), chosen, strict=True))
    if not any(isinstance(v, DistributedArray) for v in (mask, first, second)):
        mask = as_operand(context, np.asarray(mask), ())
    node = _chosen(context, mask, first, second, dtype, _shape_of((mask, first, second)))
    return DistributedArray._of_node(node)


def _chosen(context: Context, mask: Any, first: Any, second: Any, dtype: Any, shape: tuple[int, ...]) -> Node:
    """``where(mask, first, second)`` in a dtype, as a masked conversion."""
    if isinstance(mask, DistributedArray):
        if mask.dtype != np.dtype(bool):
            mask = DistributedArray._of_node(
                record(context, ASTYPE, (mask._arg(),), {"dtype": np.dtype(bool)}, mask.shape)
            )
    else:
        mask = np.bool_(mask)
    return record(context, ASTYPE, (_plain(first),), {"dtype": dtype}, shape, (_plain(mask), _plain(second)))


@implements(np.copyto)
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """Write `src` into `dst`, both broadcast, where the mask holds.

    Raises
    ------
    TypeError
        The dtypes can't be cast by the rule.
    ValueError
        `dst` is read-only, or the shapes do not fit.

    Notes
    -----
    Communication: what aligns `src` with `dst`. Into a NumPy array, `src` comes to the host.
    """
    if not isinstance(dst, DistributedArray):
        if not isinstance(dst, np.ndarray):
            raise TypeError(f"copyto() argument 1 must be numpy.ndarray, not {type(dst).__name__}")
        host = [v.get() if isinstance(v, DistributedArray) else v for v in (src, where)]
        np.copyto(dst, host[0], casting=cast("Any", casting), where=host[1])
        return
    source, mask = _arguments(dst._context, (src, where if where is True else as_mask(where)))
    while isinstance(source, DistributedArray) and source.ndim > dst.ndim and source.shape[0] == 1:
        source = source[0, ...]  # as an assignment does
    if isinstance(source, PYTHON_SCALARS):
        source = np.asarray(source, np.result_type(source, dst.dtype))[()]
    if not np.can_cast(source.dtype, dst.dtype, casting):  # type: ignore[arg-type]
        raise TypeError(
            f"Cannot cast array data from {source.dtype!r} to {dst.dtype!r} according to the rule {casting!r}"
        )
    kind = np.asarray(mask).dtype if isinstance(mask, PYTHON_SCALARS) else mask.dtype
    if kind != np.dtype(bool):
        raise TypeError(f"Cannot cast array data from {kind!r} to dtype('bool') according to the rule 'safe'")
    shape = _shape_of((dst, source, mask))
    if shape != dst.shape:
        raise ValueError(f"could not broadcast input array from shape {shape} into shape {dst.shape}")
    if isinstance(source, np.generic):
        source = np.asarray(source).astype(dst.dtype)[()]
    if not isinstance(mask, DistributedArray):
        if mask:
            dst[...] = source
        return
    dst[...] = DistributedArray._of_node(_chosen(dst._context, mask, source, dst, dst.dtype, dst.shape))


def fill(x: DistributedArray, value: Any) -> None:
    """Write one value into every element. Communication: none."""
    if np.ndim(value):
        raise ValueError(
            "setting an array element with a sequence: fill takes a scalar; assign arrays with x[...] = value"
        )
    x[...] = value


# --- clipping and rounding --------------------------------------------------------------------------------------------


@implements(np.clip)
def _numpy_clip(a: Any, *bounds: Any, **kwargs: Any) -> Any:
    """``numpy.clip``, which wants both bounds or neither, in its words."""
    given = {name: None if value is None else 0.0 for name, value in kwargs.items() if name in _BOUNDS}
    limits: list[Any] = [None if bound is None else 0.0 for bound in bounds[:2]]
    np.clip(np.empty(0), *limits, **cast("Any", given))
    return clip(a, *bounds, **kwargs)


_BOUNDS = ("a_min", "a_max", "min", "max")


def clip(
    a: Any,
    a_min: Any = None,
    a_max: Any = None,
    out: Any = None,
    *,
    min: Any = None,
    max: Any = None,
    where: Any = True,
    casting: str = "same_kind",
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
) -> Any:
    """Elements brought into an interval; recorded like a ufunc.

    Parameters
    ----------
    a : array_like
    a_min, a_max : array_like or None
        The bounds; None for none.
    out : DistributedArray or numpy.ndarray, optional
    min, max : array_like or None
        The standard's names of the bounds.
    where : array_like of bool
        Where to clip; elsewhere stands what `out` holds, or zero.
    casting, dtype
        As of a ufunc.
    order, subok
        Accepted for NumPy's sake.

    Notes
    -----
    Communication: none where the operands have one layout; otherwise what aligns them, when the value is needed.
    """
    if (min is not None and a_min is not None) or (max is not None and a_max is not None):
        raise ValueError("Passing `min` or `max` keyword argument when `a_min` and `a_max` are provided is forbidden.")
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    x = as_operand(_context_of((a, low, high)), a, ())
    kwargs: dict[str, Any] = {} if dtype is None else {"dtype": np.dtype(dtype)}
    if casting != "same_kind":
        kwargs["casting"] = casting
    if low is None and high is None:
        value = cast("DistributedArray", np.positive(x, **kwargs))
    else:
        value = _recorded(np.clip, (x, low, high), **kwargs)
    if where is not True:
        target = out[0] if isinstance(out, tuple) else out
        kept = np.zeros((), value.dtype)[()] if target is None else target
        value = cast("DistributedArray", np.where(as_mask(where), cast("Any", value), kept))
    return _given(value, out, casting)


class _Rounding:
    """``np.round`` of integers to tens or hundreds, which refuses an ``out=`` of their own dtype."""

    __name__ = "around"

    def __call__(self, a: Any, decimals: int, out: Any = None) -> Any:
        if out is None:
            return np.round(a, decimals)
        np.copyto(out, np.round(a, decimals), casting="unsafe")
        return out


_ROUND_INTEGERS = _Rounding()


@implements(np.round, np.around)
def round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """Elements rounded to a number of decimals, halves to even; recorded like a ufunc. Communication: none."""
    x = as_operand(_context_of((a,)), a, ())
    function = _ROUND_INTEGERS if x.dtype.kind in "iu" else np.around
    return _given(_recorded(function, (x, operator.index(decimals))), out)


around = round


# --- complex numbers --------------------------------------------------------------------------------------------------


def _part(x: DistributedArray, name: str) -> DistributedArray:
    """A part of each chunk; partial sums keep their mode, for the part of a sum is the sum of the parts."""
    context, storage = x._context, x._own()
    with context.lock:
        keeps = storage.version.layout.mode is Mode.SUM
        source: Operand = resolved_operand(context, storage.version, x._view, name, partial_ok=keeps)
    dtype = np.empty(0, x.dtype).real.dtype
    chunks = allocate(context, source.layout, dtype, label=name)
    for chunk, array in zip(chunks, source.arrays, strict=True):
        if chunk is not None:
            with chunk.device.active():
                chunk.array[...] = getattr(array, name)
    part = from_chunks(context, source.layout, chunks, dtype)
    part._writable = False  # a write would be lost, where NumPy's reaches the complex array
    part._detached = x._detached
    return part


def set_part(x: DistributedArray, name: str, value: Any) -> None:
    """``x.real = value`` and ``x.imag = value``: one part is replaced, the other stays to the bit."""
    value = value if isinstance(value, DistributedArray) else np.asarray(value)  # a Python number is not weak here
    if x.dtype.kind != "c":
        x[...] = value
        return
    x._operand(name)  # partial values are folded first: both parts are then where the array is
    parts = {"real": _part(x, "real"), "imag": _part(x, "imag")}
    parts[name]._writable = True
    parts[name][...] = value
    halves = {part: array._operand(name) for part, array in parts.items()}
    layout = halves[name].layout
    chunks = allocate(x._context, layout, x.dtype, label=name)
    for i, chunk in enumerate(chunks):
        if chunk is not None:
            with chunk.device.active():
                chunk.array.real[...] = halves["real"].arrays[i]
                chunk.array.imag[...] = halves["imag"].arrays[i]
    x[...] = from_chunks(x._context, layout, chunks, x.dtype)


@implements(np.real)
def real(val: Any) -> DistributedArray:
    """The real part: the array itself where it is real, else a read-only copy (NumPy has a view). Communication: none."""
    x = asarray(val)
    return _part(x, "real") if x.dtype.kind == "c" else x


@implements(np.imag)
def imag(val: Any) -> DistributedArray:
    """The imaginary part, a read-only copy (NumPy has a view); zeros for real arrays. Communication: none."""
    x = asarray(val)
    if x.dtype.kind == "c":
        return _part(x, "imag")
    zeros = zeros_like(x)
    zeros._writable = False
    return zeros


def conj(x: DistributedArray, out: Any = None) -> Any:
    """The complex conjugate; recorded for complex arrays, the array itself for others. Communication: none."""
    if x.dtype.kind != "c":
        return x if out is None else _given(x, out)
    return _given(cast("DistributedArray", np.conjugate(x)), out)


@implements(np.angle)
def angle(z: Any, deg: bool = False) -> Any:
    """The angle of complex numbers in the plane, in radians or degrees. Communication: none."""
    x = asarray(z)
    found = np.arctan2(imag(x), real(x)) if x.dtype.kind == "c" else np.arctan2(0, x)
    return found * (180 / math.pi) if deg else found


# --- comparing --------------------------------------------------------------------------------------------------------


@implements(np.isclose)
def isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """Where ``abs(a - b) <= atol + rtol * abs(b)``, infinities and, if asked for, NaNs equal to themselves.

    Python numbers are weak, as in every operation of NumPy: beside a float32 array they are float32.

    Warns
    -----
    RuntimeWarning
        A tolerance is not finite. Under ``np.errstate(invalid="raise")`` it is a FloatingPointError.

    Notes
    -----
    Communication: none where the operands have one layout; otherwise what aligns them, when the value is needed. Of a
    tolerance that is a distributed array, one boolean a device at the call.
    """
    context = _context_of((a, b, rtol, atol))
    x, y, rtol, atol = _arguments(context, (a, b, rtol, atol))
    if hasattr(y, "dtype"):
        y = y.astype(np.result_type(y.dtype, 1.0), copy=False)  # abs of the least integer is itself
    elif isinstance(y, int):
        y = float(y)
    _check_tolerances(rtol, atol)
    with np.errstate(invalid="ignore"):
        result = (abs(x - y) <= atol + rtol * abs(y)) & np.isfinite(y) | (x == y)
        if equal_nan:
            result = result | (np.isnan(x) & np.isnan(y))
    if not isinstance(result, DistributedArray):
        result = as_operand(context, result, ())
    return _scalar(result)


def _check_tolerances(rtol: Any, atol: Any) -> None:
    """Warn, raise or print, as ``np.errstate`` says, where a tolerance is not finite."""
    finite = [np.isfinite(tolerance) for tolerance in (rtol, atol)]
    if all(_all(each) if isinstance(each, DistributedArray) else bool(each) for each in finite):
        return
    text = f"One of rtol or atol is not valid, atol: {atol}, rtol: {rtol}"
    how = np.geterr()["invalid"]
    if how == "warn":
        warn_at(call_site(), text)
    elif how == "raise":
        raise FloatingPointError(text)
    elif how == "print":
        print(text)


def _scalar(value: DistributedArray) -> DistributedArray:
    """A result without axes is a value of its own, as NumPy's scalars are."""
    if not value.ndim:
        value._detached = True
    return value


@implements(np.allclose)
def allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> bool:
    """Whether all elements are close; see :func:`isclose`. Every process gets the same answer.

    Notes
    -----
    Communication: that of :func:`isclose`, and one boolean a device.
    """
    return _all(isclose(a, b, rtol, atol, equal_nan))


def _all(x: Any) -> bool:
    return bool(reductions.all(x))


def _pair(a1: Any, a2: Any) -> tuple[DistributedArray, DistributedArray] | None:
    """Two arrays to compare; None where one of the objects is no array of numbers."""
    context = _context_of((a1, a2))
    try:
        return as_operand(context, a1, ()), as_operand(context, a2, ())
    except (TypeError, ValueError):
        return None


@implements(np.array_equal)
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    """Whether two arrays have one shape and equal elements. Communication: what aligns them, and one boolean a device."""
    pair = _pair(a1, a2)
    if pair is None or pair[0].shape != pair[1].shape:
        return False
    x, y = pair
    same = x == y
    if equal_nan and x.dtype.kind in "fcV" and y.dtype.kind in "fcV":
        same = same | (np.isnan(x) & np.isnan(y))
    return _all(same)


@implements(np.array_equiv)
def array_equiv(a1: Any, a2: Any) -> bool:
    """Whether two arrays broadcast and have equal elements; see :func:`array_equal`."""
    pair = _pair(a1, a2)
    if pair is None:
        return False
    x, y = pair
    try:
        broadcast_shape(x.shape, y.shape)
    except ValueError:
        return False
    return _all(x == y)


# --- what metadata answers --------------------------------------------------------------------------------------------


@implements(np.shape)
def _shape(a: DistributedArray) -> tuple[int, ...]:
    return a.shape


@implements(np.ndim)
def _ndim(a: DistributedArray) -> int:
    return a.ndim


@implements(np.size)
def _size(a: DistributedArray, axis: Any = None) -> int:
    if axis is None:
        return a.size
    return math.prod(a.shape[i] for i in np.lib.array_utils.normalize_axis_tuple(axis, a.ndim))


@implements(np.iscomplexobj)
def _iscomplexobj(x: DistributedArray) -> bool:
    return bool(x.dtype.kind == "c")


@implements(np.isrealobj)
def _isrealobj(x: DistributedArray) -> bool:
    return bool(x.dtype.kind != "c")


@implements(np.min_scalar_type)
def _min_scalar_type(a: DistributedArray) -> Any:
    return np.min_scalar_type(a.get()) if a.ndim == 0 else a.dtype


@implements(np.common_type)
def _common_type(*arrays: Any) -> Any:
    return np.common_type(*[np.empty(0, a.dtype) if isinstance(a, DistributedArray) else a for a in arrays])
