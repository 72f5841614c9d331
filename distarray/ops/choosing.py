"""Choosing, clipping and rounding: element-wise functions of NumPy that are no ufuncs.

They record the same expressions as ufuncs do, so that they align and fuse with them.
"""

from __future__ import annotations

import operator
from typing import Any, cast

import numpy as np

from distarray.array.aliases import AnyArray, ArrayLike, DTypeLike, Out
from distarray.array.calls import recordable
from distarray.array.functions import implements
from distarray.array.place import as_array
from distarray.array.shapes import PYTHON_SCALARS, as_mask, memory_order
from distarray.array.state import DistributedArray
from distarray.array.writing import ASSIGNED, check_out, check_writable, element_of
from distarray.context import Context
from distarray.devices.arrays import AnyDType
from distarray.fusion.conditions import WarningOnce
from distarray.fusion.expr import ASTYPE, Node, real_for, record, warn_complex
from distarray.ops.convert import asarray
from distarray.ops.recording import arguments_of, context_of, into, recorded, shape_of
from distarray.ops.searching import nonzero

__all__ = ["around", "clip", "copyto", "round", "where"]


# --- choosing ---------------------------------------------------------------------------------------------------------


_MISSING: Any = object()


@implements(np.where)
def where(condition: ArrayLike, x: ArrayLike = _MISSING, y: ArrayLike = _MISSING, /) -> Any:
    """Elements of `x` where a condition holds, of `y` elsewhere; recorded like a ufunc.

    Parameters
    ----------
    condition : array_like
        Of any dtype: what is not zero holds.
    x, y : array_like, optional
        Both or neither; the three broadcast. Without them: the indices of ``np.nonzero(condition)``.

    Returns
    -------
    DistributedArray, or tuple of DistributedArray
        Of the broadcast shape, in NumPy's common dtype; without `x` and `y`, the indices.

    Raises
    ------
    ValueError
        Only one of `x` and `y` is given, or the shapes do not fit.

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
    context = context_of((condition, x, y))
    mask, first, second = arguments_of(context, (condition, *[np.asarray(v) if v is None else v for v in (x, y)]))
    if isinstance(first, DistributedArray) and isinstance(second, DistributedArray) and first.dtype == second.dtype:
        dtype = first.dtype if first.dtype.isnative else np.result_type(first.dtype)
    else:
        # NumPy itself converts Python numbers, or refuses them: versions differ about those that the dtype has no room for
        stand = [v if isinstance(v, PYTHON_SCALARS) else np.zeros((), v.dtype) for v in (first, second)]
        with WarningOnce(context, "cast"):
            chosen = [np.where(np.bool_(turn), *stand)[()] for turn in (True, False)]
        dtype = chosen[0].dtype
        first, second = (
            c if isinstance(v, PYTHON_SCALARS) else v for v, c in zip((first, second), chosen, strict=True)
        )
    if not any(isinstance(v, DistributedArray) for v in (mask, first, second)):
        mask = as_array(context, np.asarray(mask))
    node = _chosen(context, mask, first, second, dtype, shape_of((mask, first, second)))
    return DistributedArray._of_node(node)


def _chosen(
    context: Context,
    mask: DistributedArray,
    first: ArrayLike,
    second: ArrayLike,
    dtype: AnyDType,
    shape: tuple[int, ...],
) -> Node:
    """``where(mask, first, second)`` in a dtype, as a masked conversion."""
    if isinstance(mask, DistributedArray):
        if mask.dtype != np.dtype(bool):
            mask = DistributedArray._of_node(
                record(context, ASTYPE, (mask._arg(),), {"dtype": np.dtype(bool)}, mask.shape)
            )
    else:
        mask = np.bool_(mask)
    return record(
        context, ASTYPE, (recordable(first),), {"dtype": dtype}, shape, (recordable(mask), recordable(second))
    )


@implements(np.copyto)
def copyto(dst: AnyArray, src: ArrayLike, casting: str = "same_kind", where: ArrayLike = True) -> None:
    """Write `src` into `dst`, both broadcast, where the mask holds.

    Parameters
    ----------
    dst : DistributedArray or numpy.ndarray
        Written to.
    src : array_like
    casting : {"no", "equiv", "safe", "same_kind", "unsafe"}
        Which conversions of dtypes are allowed.
    where : array_like of bool
        Where to write.

    Raises
    ------
    TypeError
        The dtypes can't be cast by the rule.
    ValueError
        `dst` is read-only, or the shapes do not fit.

    Notes
    -----
    Communication: what aligns `src` with `dst`. Into a NumPy array, `src` comes to the host.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.arange(4)
    ...     da.copyto(x, -1, where=x > 1)
    ...     x.tolist()
    [0, 1, -1, -1]
    """
    if not isinstance(dst, DistributedArray):
        if not isinstance(dst, np.ndarray):
            raise TypeError(f"copyto() argument 1 must be numpy.ndarray, not {type(dst).__name__}")
        check_writable(dst)
        host = [v.get() if isinstance(v, DistributedArray) else v for v in (src, where)]
        if casting == "unsafe":
            host[0] = real_for(host[0], dst.dtype)
        np.copyto(dst, host[0], casting=cast("Any", casting), where=host[1])
        return
    if not isinstance(src, DistributedArray) and not np.ndim(src):
        element = np.empty((), dst.dtype)
        src = real_for(src, dst.dtype) if casting == "unsafe" else src
        np.copyto(element, src, casting=cast("Any", casting))  # converted, or refused, as NumPy does it
        src = element[()]
    source, mask = arguments_of(dst._context, (src, where if where is True else as_mask(where)))
    while isinstance(source, DistributedArray) and source.ndim > dst.ndim and source.shape[0] == 1:
        source = source[0, ...]  # an assignment drops leading axes of length 1, too
    if not np.can_cast(source.dtype, dst.dtype, casting):  # type: ignore[arg-type]
        raise TypeError(
            f"Cannot cast array data from {source.dtype!r} to {dst.dtype!r} according to the rule {casting!r}"
        )
    kind = np.asarray(mask).dtype if isinstance(mask, PYTHON_SCALARS) else mask.dtype
    if kind != np.dtype(bool):
        raise TypeError(f"Cannot cast array data from {kind!r} to dtype('bool') according to the rule 'safe'")
    shape = shape_of((dst, source, mask))
    if shape != dst.shape:
        raise ValueError(f"could not broadcast input array from shape {shape} into shape {dst.shape}")
    if isinstance(source, np.generic):
        source = np.asarray(source).astype(dst.dtype)[()]
    if not isinstance(mask, DistributedArray):
        if mask:
            dst[...] = source
        return
    if source.dtype.kind == "c" and dst.dtype.kind not in "cb":
        warn_complex()
    dst[...] = DistributedArray._of_node(_chosen(dst._context, mask, source, dst, dst.dtype, dst.shape))


def fill(x: DistributedArray, value: ArrayLike) -> None:
    """Write one value into every element.

    Parameters
    ----------
    x : DistributedArray
    value : scalar
        Converted to the array's dtype.

    Raises
    ------
    ValueError, TypeError
        `value` is no scalar, or no number.

    Notes
    -----
    Communication: none.
    """
    check_writable(x, *ASSIGNED)
    x[...] = element_of(x, value)


# --- clipping and rounding --------------------------------------------------------------------------------------------


@implements(np.clip)
def _numpy_clip(a: DistributedArray, *bounds: Any, **kwargs: Any) -> Any:
    """``numpy.clip``, which wants both bounds or neither, in its words."""
    if kwargs or len(bounds) < 2 or bounds[0] is None or bounds[1] is None:
        given = {name: None if value is None else 0.0 for name, value in kwargs.items() if name in _BOUNDS}
        limits: list[Any] = [None if bound is None else 0.0 for bound in bounds[:2]]
        np.clip(np.empty(0), *limits, **cast("Any", given))
    kwargs.update(zip(("a_min", "a_max", "out"), bounds, strict=False))
    return clip(a, **kwargs)


_BOUNDS = ("a_min", "a_max", "min", "max")


def clip(
    a: ArrayLike,
    min: ArrayLike | None = None,
    max: ArrayLike | None = None,
    out: Out = None,
    *,
    a_min: ArrayLike | None = None,
    a_max: ArrayLike | None = None,
    where: ArrayLike = True,
    casting: str = "same_kind",
    dtype: DTypeLike = None,
    order: str = "K",
    subok: bool = True,
) -> Any:
    """Elements brought into an interval; recorded like a ufunc.

    Parameters
    ----------
    a : array_like
    min, max : array_like or None
        The bounds; None for none.
    out : DistributedArray or numpy.ndarray, optional
        Where to put the result.
    a_min, a_max : array_like or None
        Other names of the bounds.
    where : array_like of bool
        Where to clip; elsewhere stands what `out` holds, or zero.
    casting : str
        The rule for casts.
    dtype : dtype, optional
        Of the computation.
    order : str
        Accepted for NumPy's sake.
    subok : bool
        Accepted for NumPy's sake.

    Returns
    -------
    DistributedArray
        Of the broadcast shape.

    Raises
    ------
    ValueError
        A bound is given by both names.

    Notes
    -----
    Communication: none where the operands have one layout; otherwise what aligns them, when the value is needed.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.clip(da.arange(5), 1, 3).tolist()
    [1, 1, 2, 3, 3]
    """
    if (min is not None and a_min is not None) or (max is not None and a_max is not None):
        raise ValueError("Passing `min` or `max` keyword argument when `a_min` and `a_max` are provided is forbidden.")
    memory_order(order)
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    x = as_array(context_of((a, low, high)), a)
    kwargs: dict[str, Any] = {} if dtype is None else {"dtype": np.dtype(dtype)}
    if casting != "same_kind":
        kwargs["casting"] = casting
    if x.dtype.kind in "iu":  # Python integers that the dtype does not hold bound nothing
        least, most = np.iinfo(x.dtype).min, np.iinfo(x.dtype).max
        low = None if type(low) is int and low <= least else low
        high = None if type(high) is int and high >= most else high
    if low is None and high is None:
        value = cast("DistributedArray", np.positive(x, **kwargs))
    else:
        value = recorded(np.clip, (x, low, high), **kwargs)
    if where is not True:
        target = out[0] if isinstance(out, tuple) else out
        kept: Any = np.zeros((), value.dtype)[()] if target is None else target
        value = cast("DistributedArray", np.where(as_mask(where), cast("Any", value), kept))
    return into(value, out, casting)


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
def round(a: ArrayLike, decimals: int = 0, out: Out = None) -> Any:
    """Elements rounded to a number of decimals, halves to even; recorded like a ufunc.

    Parameters
    ----------
    a : array_like
    decimals : int
        Negative ones round to tens, hundreds and so on.
    out : DistributedArray or numpy.ndarray, optional
        Where to put the result.

    Returns
    -------
    DistributedArray
        Of the dtype of `a`.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.round(da.asarray([0.5, 1.5, 2.26]), 1).tolist()
    [0.5, 1.5, 2.3]
    """
    x, decimals = as_array(context_of((a,)), a), operator.index(decimals)
    if x.dtype.kind == "f" and not decimals and not x.dtype.isnative:
        x = x.astype(np.result_type(x.dtype))
    function = _ROUND_INTEGERS if x.dtype.kind in "iu" else np.around
    if out is not None:
        check_out(out)
        if tuple(out.shape) != x.shape:
            raise ValueError(f"invalid output shape: out= has {tuple(out.shape)}, and the result has {x.shape}")
        if decimals and x.dtype.kind in "bf" and out.dtype != x.dtype and out.dtype.kind in "fc":
            return into(_rounded_in(x, decimals, out.dtype), out)
    return into(recorded(function, (x, decimals)), out)


def _rounded_in(x: Any, decimals: int, dtype: np.dtype[Any]) -> Any:
    """Scaled in its own dtype and rounded in that of an ``out=``, as NumPy does it."""
    scale = 10.0 ** abs(decimals)
    there, back = (np.multiply, np.true_divide) if decimals > 0 else (np.true_divide, np.multiply)
    return back(np.rint(there(x, scale).astype(dtype)), scale)


around = round
