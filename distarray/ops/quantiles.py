"""Medians, percentiles and quantiles, in all of NumPy's methods, with NaN passed on or left out, and with weights."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from distarray.algorithms.quantile_positions import POSITIONS, between, places
from distarray.algorithms.selection import candidates, selected
from distarray.array.aliases import ArrayLike, Axis, Out
from distarray.array.documented import described_as
from distarray.array.functions import NOTHING, given, implements
from distarray.array.place import fetched
from distarray.array.shapes import fits
from distarray.array.state import DistributedArray
from distarray.array.writing import check_out, check_reduced, check_writable, deliver
from distarray.devices.arrays import DeviceArray, Library
from distarray.ops import moments, reductions
from distarray.ops.choosing import where
from distarray.ops.convert import asarray
from distarray.ops.manipulation import broadcast_to
from distarray.ops.nans import can_miss, missing, nanmean
from distarray.ops.ranked_lines import RankedLines
from distarray.ops.reshaping import reshape
from distarray.ops.scans import cumsum
from distarray.ops.sorting import argsort
from distarray.ops.statistics import fitting_weights
from distarray.ops.taking import take_along_axis
from distarray.sites import call_site, warn_at

__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]

WARNINGS = 100
"""The most that one call gives of lines that are all NaN. NumPy gives one for each."""


_RULES = {"reduce": "unsafe", "take": "same_kind", "ufunc": "same_kind", "assign": "unsafe"}
"""How NumPy's functions of this file write into ``out=``, and what they convert: as reductions and as `take`, which broadcast
nothing; as ufuncs; by ``out[...] =``."""


def _delivered(
    lines: RankedLines, value: DistributedArray, lead: tuple[int, ...], keepdims: bool, out: Out, rule: str
) -> Any:
    """A result, whose first axis has the shape `lead`, as NumPy returns it: in ``out=`` by one of `_RULES`.

    Of an ``out=`` that is longer along the axes kept with length 1 NumPy writes the first elements.
    """
    if out is None:
        return deliver(lines.shaped(value, lead, keepdims), None)
    check_out(out)
    place = target = cast("Any", out)
    if keepdims:
        place = target[(..., *(0 if i in lines.axes else slice(None) for i in range(lines.x.ndim)))]
    value = lines.shaped(value, lead, False)
    if rule in ("reduce", "take") or not fits(value.shape, tuple(place.shape)):
        check_reduced(place, value.shape, "add")
    if not np.can_cast(value.dtype, out.dtype, _RULES[rule]):  # type: ignore[arg-type]
        raise TypeError(
            f"Cannot cast output from {value.dtype!r} to {out.dtype!r} with casting rule 'same_kind': pass an out= of "
            f"{value.dtype!r}"
        )
    value._detached = (
        rule == "assign" and not value.ndim
    )  # a number, which NumPy refuses to make an integer where it is NaN
    if isinstance(out, DistributedArray):
        check_writable(out)
        place[...] = value
    else:
        place[...] = value.get()[()] if value._detached else value.get()
    return out


def _warn_of_missing(lines: RankedLines, value: DistributedArray, most: int = 1) -> None:
    """NumPy's warning, for each line that holds nothing but NaN, at most so many: a value is NaN between infinities too."""
    if not bool(reductions.any(np.isnan(value))):
        return
    missing = int(reductions.sum(reductions.all(np.isnan(lines.x), axis=lines.axes)))
    for _ in range(min(missing, most)):
        warn_at(call_site(), "All-NaN slice encountered")


# --- medians ----------------------------------------------------------------------------------------------------------


@implements(np.median)
def median(
    a: ArrayLike, axis: Axis = None, out: Out = None, overwrite_input: bool = False, keepdims: bool = False
) -> Any:
    """The middle element along axes, or the mean of the two in the middle.

    Parameters
    ----------
    a : array_like
    axis : int or tuple of int, optional
        Default: all.
    out : DistributedArray or numpy.ndarray, optional
        Where to put the result.
    overwrite_input : bool
        For NumPy's sake: nothing is overwritten.
    keepdims : bool
        Keep the reduced axes, with length 1.

    Returns
    -------
    DistributedArray
        NaN where a line holds NaN.

    Warns
    -----
    RuntimeWarning
        "Mean of empty slice".

    Notes
    -----
    Communication: none where lines are whole. Of fewer split lines than devices, samples and counts of a few rounds, and at
    most 8,192 candidates a line; else each element once.

    Memory on each device: a copy of its lines; of split ones, what the candidates leave: a few hundredths of its part.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     float(np.median(da.asarray([3, 1, 2, 10], layout=da.blocks(0))))
    2.5
    """
    return _median(asarray(a), axis, bool(keepdims), out, "reduce")


def _median(x: DistributedArray, axis: Axis, keepdims: bool, out: Out, rule: str) -> Any:
    lines = RankedLines(x, axis, "median")
    if not lines.n or not x.size:
        return _delivered(lines, moments.mean(x, lines.axes)[None], (), keepdims, out, rule)
    context = x._context
    middle = [lines.n // 2] if lines.n % 2 else [lines.n // 2 - 1, lines.n // 2]
    with context.lock:
        layout = x._operand("median").layout
        found = lines.ranked(middle, layout)
    value = moments.mean(found[:-1], axis=0)
    if can_miss(x.dtype):
        last = found[-1]
        value = where(np.isnan(last), last, value)
    return _delivered(lines, value[None], (), keepdims, out, rule)


@implements(np.nanmedian)
@described_as(median)
def nanmedian(
    a: ArrayLike, axis: Axis = None, out: Out = None, overwrite_input: bool = False, keepdims: bool = NOTHING
) -> Any:
    """The median of the elements that are not NaN along axes.

    Returns
    -------
    DistributedArray
        NaN where a line holds nothing else.

    Warns
    -----
    RuntimeWarning
        "All-NaN slice encountered", once for each (a hundred at most): there the result is NaN.

    Notes
    -----
    Communication: as of :func:`median`; how many lines are NaN alone.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.nanmedian(da.asarray([4, np.nan, 3, 2])).tolist()
    3.0
    """
    x = asarray(a)
    keepdims = bool(given(keepdims, False))
    if not x.size:
        return nanmean(x, axis, out=out, keepdims=keepdims)
    if not can_miss(x.dtype):
        return _median(x, axis, keepdims, out, "assign")
    lines = RankedLines(x, axis, "nanmedian")
    context = x._context

    def middle(lib: Library, part: DeviceArray) -> Any:
        ordered = lib.sort(part, axis=0)
        count = (~lib.isnan(part)).sum(axis=0)
        low, high = (
            lib.take_along_axis(ordered, lib.maximum(i, 0)[None].astype(np.intp), axis=0)
            for i in ((count - 1) // 2, count // 2 * (count > 0))
        )
        one = lib.stack([low]).mean(axis=0) if part.dtype.kind == "c" else low  # a quotient is NaN beside infinities
        return lib.where(count % 2 == 1, one, lib.stack([low, high]).mean(axis=0))

    with context.lock:
        layout = x._operand("nanmedian").layout
        if lines.few(layout):
            row = []
            for line in lines.each():
                found = candidates(context, line._operand("nanmedian"))
                n = found.total
                wanted = sorted({(n - 1) // 2, n // 2}) if n else []
                values = selected(found, wanted)
                row.append(np.mean(np.array(list(values.values()), x.dtype)) if n else missing(x.dtype))
            value = asarray(np.array(row, x.dtype).reshape(1, *lines.shape), device=x.device)
        else:
            value = lines.mapped(middle, 1, x.dtype)
    _warn_of_missing(lines, value, WARNINGS)
    return _delivered(lines, value, (), keepdims, out, "assign")


# --- quantiles --------------------------------------------------------------------------------------------------------


def _checked(x: DistributedArray, q: ArrayLike, name: str) -> Any:
    if x.dtype.kind == "c":
        raise TypeError("a must be an array of real numbers")
    q = np.asarray(q)
    if q.size and not (q.min() >= 0 and q.max() <= 1):
        raise ValueError(f"{name} must be in the range [0, {100 if name == 'Percentiles' else 1}]")
    if q.ndim > 2:
        raise ValueError("q must be a scalar or 1d")
    return q


def _method(method: str, weights: ArrayLike | None) -> None:
    if weights is not None:
        if method != "inverted_cdf":
            raise ValueError(f"Only method 'inverted_cdf' supports weights. Got: {method}.")
    elif method not in POSITIONS:
        raise ValueError(f"{method!r} is not a valid method. Use one of: {POSITIONS.keys()}")


def _quantile(
    name: str,
    a: ArrayLike,
    q: Any,
    weak: bool,
    axis: Axis,
    out: Any,
    method: str,
    keepdims: Any,
    weights: ArrayLike | None,
    skip: bool,
) -> Any:
    """Quantiles of an array, without its NaN where `skip` says so."""
    x = asarray(a)
    q = _checked(x, q, name)
    _method(method, weights)
    keepdims = bool(given(keepdims, False))
    if skip and not x.size:
        return nanmean(x, axis, out=out, keepdims=keepdims)
    rule = "assign" if skip else "ufunc"
    lines = RankedLines(x, axis, "quantile")
    if weights is not None:
        weighted = _weighted(lines, q, None if axis is None else lines.axes, weights, skip)
        return _delivered(lines, weighted, q.shape, keepdims, out, rule)
    if not lines.n:
        raise IndexError("index -1 is out of bounds for axis 0 with size 0")
    flat = q.reshape(-1)
    if skip and can_miss(x.dtype):
        value = _of_the_rest(lines, flat, weak, method)
        _warn_of_missing(lines, value)
    else:
        value = _of_all(lines, flat, weak, method)
    if not skip and places(method, 2, flat)[2] is None:
        rule = "take"
    return _delivered(lines, value, q.shape, keepdims, out, rule)


def _of_all(lines: RankedLines, q: np.ndarray[Any, Any], weak: bool, method: str) -> DistributedArray:
    x = lines.x
    previous, following, t = places(method, lines.n, q)
    unique = sorted({*previous.tolist(), *following.tolist()})
    with x._context.lock:
        found = lines.ranked(unique, x._operand("quantile").layout)

    def picked(places: DeviceArray) -> DistributedArray:
        at_ = [unique.index(i) for i in places.tolist()]
        return found[at_[0] : at_[0] + 1] if len(at_) == 1 else found[np.array(at_, np.intp)]

    value = picked(previous)
    if t is not None:
        t = float(t[0]) if weak else t.reshape(-1, *(1,) * len(lines.shape))
        value = between(value, picked(following), t, where) if not weak else _weakly(value, picked(following), t)
    if can_miss(x.dtype):
        last = found[-1:]
        value = where(np.isnan(last), last, value)
    return value


def _weakly(a: DistributedArray, b: DistributedArray, t: float) -> Any:
    return b - (b - a) * (1 - t) if t >= 0.5 else a + (b - a) * t


def _of_the_rest(lines: RankedLines, q: DeviceArray, weak: bool, method: str) -> DistributedArray:
    x = lines.x
    context = x._context
    _, _, t = places(method, 2, q)
    dtype = x.dtype if t is None or weak or x.dtype.kind in "mM" else np.result_type(x.dtype, t.dtype)
    weight = np.dtype(np.float64) if dtype.kind in "mM" else dtype

    def local(lib: Library, part: DeviceArray) -> Any:
        count = (~lib.isnan(part)).sum(axis=0)
        ordered = lib.sort(part, axis=0)
        low, high, gamma = places(method, lib.maximum(count, 1), lib.asarray(q).reshape(-1, *(1,) * count.ndim), lib)
        a = lib.take_along_axis(ordered, low, axis=0)
        if gamma is None:
            return a
        b = lib.take_along_axis(ordered, high, axis=0)
        return between(a, b, gamma.astype(weight), lib.where)

    with context.lock:
        if not lines.few(x._operand("quantile").layout):
            return lines.mapped(local, len(q), dtype)
        columns = []
        for line in lines.each():
            found = candidates(context, line._operand("quantile"))
            if not found.total:
                columns.append(np.full(len(q), missing(dtype), dtype))
                continue
            low, high, gamma = places(method, found.total, q)
            values = selected(found, sorted({*low.tolist(), *high.tolist()}))
            a, b = (np.array([values[i] for i in places.tolist()], x.dtype) for places in (low, high))
            columns.append(a if gamma is None else between(a, b, gamma.astype(weight), np.where))
    return asarray(np.array(columns, dtype).T.reshape(len(q), *lines.shape), device=x.device)


def _weighted(
    lines: RankedLines, q: Any, axes: tuple[int, ...] | None, weights: ArrayLike, skip: bool
) -> DistributedArray:
    """The inverse of the weighted distribution function: the first element at which the sum of weights reaches the part."""
    x = lines.x
    w = fitting_weights(weights, x, axes)
    if bool(reductions.any(w < 0)):
        raise ValueError("Weights must be non-negative.")
    w = broadcast_to(w, x.shape).astype(np.float64)
    if skip and can_miss(x.dtype):
        w = where(np.isnan(x), 0.0, w)
    order = (*lines.axes, *lines.kept)
    flat, w = (reshape(v.transpose(order), (lines.n, *lines.shape)) for v in (x, w))
    turn = argsort(flat, axis=0)
    flat, w = take_along_axis(flat, turn, axis=0), take_along_axis(w, turn, axis=0)
    sums = cumsum(w, axis=0)
    with np.errstate(invalid="ignore"):
        sums = sums / sums[-1:]
    if not skip and bool(reductions.any(np.isnan(sums[-1]))):
        raise ValueError("Weights included NaN, inf or were all zero.")
    if q.dtype.kind == "f" and q.dtype != sums.dtype:
        sums = sums.astype(q.dtype)
    sums = where(sums == 0, sums.dtype.type(-1), sums)
    rows = [] if q.size else [flat[:0]]
    for part in q.reshape(-1):
        place = reductions.sum(sums < part, axis=0, keepdims=True)
        place = np.minimum(place, lines.n - 1)
        rows.append(take_along_axis(flat, place, axis=0))
    value = rows[0] if len(rows) == 1 else _joined(rows)
    if can_miss(x.dtype) and not skip:
        last = flat[-1:]
        value = where(np.isnan(last), last, value)
    return value


def _joined(rows: list[DistributedArray]) -> DistributedArray:
    return np.concatenate(rows, axis=0)  # type: ignore[return-value]


def _is_weak(q: ArrayLike) -> bool:
    return type(q) in (int, float)


@implements(np.quantile)
def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: Out = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Any:
    """The elements, or values between them, below which given parts of the elements along axes lie.

    Parameters
    ----------
    a : array_like
        Of real numbers.
    q : array_like of float
        Parts, from 0 to 1.
    axis : int or tuple of int, optional
        Default: all.
    out : DistributedArray, optional
    overwrite_input : bool
        For NumPy's sake: nothing is overwritten.
    method : str
        One of NumPy's thirteen.
    keepdims : bool
    weights : array_like, optional
        What elements count, with ``method="inverted_cdf"``.

    Returns
    -------
    DistributedArray
        The axes of `q`, then those that are left of `a`. NaN where a line holds NaN.

    Raises
    ------
    TypeError, ValueError
        As NumPy does.

    Notes
    -----
    Communication: as of :func:`median`; with weights, of an :func:`argsort`, of taking along the axis, and of a
    :func:`cumsum`. A distributed `q` is fetched.

    Memory on each device: as of :func:`median`.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     np.quantile(da.asarray([4, 1, 3, 2], layout=da.blocks(0)), [0.5, 1.0]).get()
    array([2.5, 4. ])
    """
    return _quantile("Quantiles", a, fetched(q), _is_weak(q), axis, out, method, keepdims, weights, False)


@implements(np.percentile)
@described_as(quantile)
def percentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: Out = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: ArrayLike | None = None,
) -> Any:
    """Quantiles of parts in hundredths, from 0 to 100.

    Parameters
    ----------
    q : array_like of float
        Hundredths, from 0 to 100.

    Notes
    -----
    Communication: as of :func:`quantile`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.percentile(da.asarray([4, 1, 3, 2]), 50).tolist()
    2.5
    """
    parts = np.asarray(np.true_divide(fetched(q), 100))
    return _quantile("Percentiles", a, parts, _is_weak(q), axis, out, method, keepdims, weights, False)


@implements(np.nanquantile)
@described_as(quantile)
def nanquantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: Out = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = NOTHING,
    *,
    weights: ArrayLike | None = None,
) -> Any:
    """Quantiles of the elements that are not NaN.

    Returns
    -------
    DistributedArray
        The axes of `q`, then those that are left of `a`. NaN where a line holds nothing else.

    Warns
    -----
    RuntimeWarning
        "All-NaN slice encountered".

    Notes
    -----
    Communication: as of :func:`quantile`.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.nanquantile(da.asarray([4, np.nan, 3, 2]), 0.5).tolist()
    3.0
    """
    return _quantile("Quantiles", a, fetched(q), _is_weak(q), axis, out, method, keepdims, weights, True)


@implements(np.nanpercentile)
@described_as(nanquantile)
def nanpercentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axis = None,
    out: Out = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = NOTHING,
    *,
    weights: ArrayLike | None = None,
) -> Any:
    """Quantiles, in hundredths, of the elements that are not NaN.

    Parameters
    ----------
    q : array_like of float
        Hundredths, from 0 to 100.

    Notes
    -----
    Communication: as of :func:`quantile`.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.nanpercentile(da.asarray([4, np.nan, 3, 2]), 50).tolist()
    3.0
    """
    parts = np.asarray(np.true_divide(fetched(q), 100))
    return _quantile("Percentiles", a, parts, _is_weak(q), axis, out, method, keepdims, weights, True)
