"""``pad``: an array with a border, in all of NumPy's modes.

The border of an axis is written to the result's edges, axis after axis, from what stands there already, so that corners
come out as NumPy's do. Only borders and what they are made of travel, besides the array on its way into the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from distarray.array.aliases import ArrayLike
from distarray.array.dtypes import filler
from distarray.array.functions import implements
from distarray.array.layouts import resolve_layout
from distarray.array.state import DistributedArray
from distarray.ops import moments, reductions
from distarray.ops.applying import apply_along_axis
from distarray.ops.choosing import where
from distarray.ops.convert import asarray
from distarray.ops.generate import generate
from distarray.ops.joining import assemble, target_layout
from distarray.ops.quantiles import median
from distarray.ops.sequences import arange
from distarray.ops.taking import take

__all__ = ["pad"]

_KEYWORDS: dict[str, tuple[str, ...]] = {
    "constant": ("constant_values",), "edge": (), "empty": (), "linear_ramp": ("end_values",),
    "maximum": ("stat_length",), "mean": ("stat_length",), "median": ("stat_length",), "minimum": ("stat_length",),
    "reflect": ("reflect_type",), "symmetric": ("reflect_type",), "wrap": (),
}  # fmt: skip


def _pairs(value: object, ndim: int, *, index: bool = False) -> list[tuple[Any, Any]]:
    """One pair for each axis."""
    if value is None:
        return [(None, None)] * ndim
    given = np.asarray(value)
    if index:
        given = np.round(given).astype(np.intp, copy=False)
        if given.size and given.min() < 0:
            raise ValueError("index can't contain negative values")
    return [tuple(pair) for pair in np.broadcast_to(given, (ndim, 2)).tolist()]


def _values(value: ArrayLike, ndim: int) -> list[tuple[Any, Any]]:
    """One pair of values for each axis: as NumPy writes them, which converts one or two less strictly than nested ones."""
    given = np.asarray(value)
    if value is not None and ndim and given.ndim < 3:
        if given.size == 1:
            return [(given.reshape(-1)[0],) * 2] * ndim
        if given.size == 2 and given.shape != (2, 1):
            return [tuple(given.reshape(-1))] * ndim
    return _pairs(value, ndim)


def _widths(pad_width: ArrayLike | Mapping[int, int | tuple[int, int]], ndim: int) -> list[tuple[int, int]]:
    if isinstance(pad_width, dict):
        sides: list[Any] = [(0, 0)] * ndim
        for axis, width in pad_width.items():
            sides[axis] = width if isinstance(width, tuple) else (width, width)
        pad_width = sides
    given = np.asarray(pad_width)
    if given.dtype.kind != "i":
        raise TypeError("`pad_width` must be of integral type.")
    return _pairs(given, ndim, index=True)


@implements(np.pad)
def pad(
    array: ArrayLike,
    pad_width: ArrayLike | Mapping[int, int | tuple[int, int]],
    mode: str | Callable[..., None] = "constant",
    **kwargs: Any,
) -> DistributedArray:
    """The array with a border.

    Parameters
    ----------
    array : array_like
    pad_width : int, pair, one pair for each axis, or dict
        How wide it is before and behind each axis.
    mode : str or callable
        What stands in it: "constant", "edge", "empty", "linear_ramp", "maximum", "mean", "median", "minimum", "reflect",
        "symmetric" or "wrap". A function gets each line as a NumPy array and writes its ends, as NumPy says.
    **kwargs : object
        `constant_values`, `end_values`, `stat_length` or `reflect_type`, as the mode needs, as for :func:`numpy.pad`; what a
        function takes.

    Returns
    -------
    DistributedArray
        In the layout of the array, stretched where it is not split along a padded axis; else in even blocks.

    Raises
    ------
    ValueError, TypeError
        As NumPy does.

    Notes
    -----
    Communication: what brings the array into the result's blocks; then borders, and what they are made of. With a function,
    all lines to one device each, axis after axis.

    Memory on each device: its part of the result.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     np.pad(da.asarray([1, 2, 3], layout=da.blocks(0)), 2, mode="reflect").get()
    array([3, 2, 1, 2, 3, 2, 1])
    """
    x = asarray(array)
    sides = _widths(pad_width, x.ndim)
    if not callable(mode):
        if mode not in _KEYWORDS:
            raise ValueError(f"mode '{mode}' is not supported")
        unknown = set(kwargs) - set(_KEYWORDS[mode])
        if unknown:
            raise ValueError(f"unsupported keyword arguments for mode {mode!r}: {unknown}")
    for i, (low, high) in enumerate(sides):
        if not callable(mode) and mode not in ("constant", "empty") and not x.shape[i] and (low or high):
            raise ValueError(f"can't extend empty axis {i} using modes other than 'constant' or 'empty'")
    result = _framed(x, sides)
    if callable(mode):
        return _by_function(result, sides, mode, kwargs)
    if mode == "empty" or not result.size:
        return result
    writer = _writer(mode, x.ndim, kwargs)
    nothing = mode in ("mean", "median") and 0 in np.asarray(kwargs.get("stat_length"), object)
    for axis, (low, high) in enumerate(sides):
        if low or high or nothing:  # NumPy warns of means of nothing also where they go nowhere
            later = tuple(
                slice(a, n - b) for (a, b), n in zip(sides[axis + 1 :], result.shape[axis + 1 :], strict=True)
            )
            roi = result[(*(slice(None),) * (axis + 1), *later)]
            if roi.size:
                writer(roi, axis, low, high)
    return result


def _framed(x: DistributedArray, sides: list[tuple[int, int]]) -> DistributedArray:
    """The array amid zeros."""
    shape = tuple(n + low + high for n, (low, high) in zip(x.shape, sides, strict=True))
    axis = next((i for i, (low, high) in enumerate(sides) if low or high), 0)
    context = x._context
    target = target_layout(context, shape, [x], x.dtype, axis) if x.ndim else resolve_layout(context, None, shape)
    zero = filler(x.dtype, 0)
    result = generate(context, target, x.dtype, lambda device, _, out: device.fill(out, zero), "pad")
    inner = tuple(slice(low, low + n) for n, (low, _) in zip(x.shape, sides, strict=True))
    return assemble(result, [(inner, x)])


EdgeWriter = Callable[[DistributedArray, int, int, int], None]
"""Writes the border along an axis, of these widths."""


def _at(axis: int, low: int | None, high: int | None) -> tuple[slice, ...]:
    return (*(slice(None),) * axis, slice(low, high))


def _writer(mode: str, ndim: int, kwargs: dict[str, Any]) -> EdgeWriter:
    if mode in ("constant", "linear_ramp"):
        given = kwargs.get(_KEYWORDS[mode][0], 0)
        if mode == "linear_ramp":
            ends = _pairs(given, ndim)
            return lambda roi, axis, low, high: _ramp(roi, axis, low, high, ends[axis])
        if type(given) is int and not given:
            return lambda roi, axis, low, high: None
        values = _values(given, ndim)
        return lambda roi, axis, low, high: _write(roi, axis, low, high, *values[axis])
    if mode in ("maximum", "mean", "median", "minimum"):
        lengths = _pairs(kwargs.get("stat_length"), ndim, index=True)
        if mode in ("maximum", "minimum") and any(0 in pair for pair in lengths):
            raise ValueError("stat_length of 0 yields no value for padding")
        return lambda roi, axis, low, high: _statistics(roi, axis, low, high, mode, lengths[axis])
    if mode in ("reflect", "symmetric"):
        odd = kwargs.get("reflect_type", "even") == "odd"
        return lambda roi, axis, low, high: _reflect(roi, axis, low, high, mode == "symmetric", odd)
    if mode == "wrap":
        return _wrap
    return _edge


def _write(roi: DistributedArray, axis: int, low: int, high: int, before: ArrayLike, behind: ArrayLike) -> None:
    n = roi.shape[axis]
    if low:
        roi[_at(axis, 0, low)] = before
    if high:
        roi[_at(axis, n - high, n)] = behind


def _ends(roi: DistributedArray, axis: int, low: int, high: int) -> tuple[DistributedArray, DistributedArray]:
    n = roi.shape[axis]
    return roi[_at(axis, low, low + 1)], roi[_at(axis, n - high - 1, n - high)]


def _edge(roi: DistributedArray, axis: int, low: int, high: int) -> None:
    _write(roi, axis, low, high, *_ends(roi, axis, low, high))


def _ramp(roi: DistributedArray, axis: int, low: int, high: int, ends: tuple[Any, Any]) -> None:
    ramps: list[Any] = []
    for width, edge, end, backward in zip((low, high), _ends(roi, axis, low, high), ends, (False, True), strict=True):
        if not width:
            ramps.append(None)
            continue
        kind = np.result_type(roi.dtype, np.asarray(end) * 1.0, float(width))  # as NumPy's linspace
        steps = arange(width, dtype=kind)[(slice(None), *(None,) * (roi.ndim - axis - 1))]
        first = kind.type(end)
        step = (edge.astype(kind) - first) / width
        ramp = steps * step + first
        if roi.dtype.kind in "iu":
            ramp = np.floor(ramp)
        ramp = ramp.astype(roi.dtype)
        ramps.append(ramp[(*(slice(None),) * axis, slice(None, None, -1 if backward else 1))])
    _write(roi, axis, low, high, *ramps)


_STATISTICS: dict[str, Callable[..., Any]] = {
    "maximum": reductions.max, "mean": moments.mean, "median": median, "minimum": reductions.min,
}  # fmt: skip


def _statistics(
    roi: DistributedArray, axis: int, low: int, high: int, mode: str, lengths: tuple[int | None, int | None]
) -> None:
    stop = roi.shape[axis] - high
    most = stop - low
    found: list[Any] = []
    for i, length in enumerate(lengths):
        length = most if length is None or length > most else length
        part = roi[_at(axis, low, low + length) if not i else _at(axis, stop - length, stop)]
        value = _STATISTICS[mode](part, axis=axis, keepdims=True)
        if not length:
            value.evaluate()
        found.append(
            (np.rint(value) if roi.dtype.kind in "iu" and value.dtype.kind == "f" else value).astype(roi.dtype)
        )
    _write(roi, axis, low, high, *found)


def _taken(roi: DistributedArray, axis: int, low: int, high: int, turn: Callable[[Any], Any]) -> list[Any]:
    """For each side its width of elements from inside, by positions that `turn` finds for those of the border."""
    stop = roi.shape[axis] - high
    inner = roi[_at(axis, low, stop)]
    sides = [np.arange(-low, 0), np.arange(stop - low, stop - low + high)]
    return [take(inner, turn(side), axis=axis) if len(side) else None for side in sides]


def _wrap(roi: DistributedArray, axis: int, low: int, high: int) -> None:
    n = roi.shape[axis] - low - high
    _write(roi, axis, low, high, *_taken(roi, axis, low, high, lambda at: at % n))


def _reflect(roi: DistributedArray, axis: int, low: int, high: int, twice: bool, odd: bool) -> None:
    n = roi.shape[axis] - low - high
    if n == 1 and not twice:  # nothing but the edge to reflect
        _edge(roi, axis, low, high)
        return
    period = 2 * n if twice else 2 * (n - 1)

    def turned(at: np.ndarray[Any, Any]) -> Any:
        place = at % period
        return np.where(place < n, place, period - place - (1 if twice else 0))

    found = _taken(roi, axis, low, high, turned)
    if odd:  # a reflection in a point: what is mirrored is turned over, and each period lies one rise higher
        first, last = _ends(roi, axis, low, high)
        tail = (slice(None), *(None,) * (roi.ndim - axis - 1))
        for i, positions in enumerate((np.arange(-low, 0), np.arange(n, n + high))):
            if found[i] is None:
                continue
            if roi.dtype.kind == "b":
                found[i] = found[i] | _ends_passed((first, last)[:: -1 if i else 1], positions, n, twice, tail)
                continue
            rises = asarray(positions // period * 2)[tail]
            mirrored = asarray(positions % period >= n)[tail]
            value = where(mirrored, last + last - found[i], found[i])
            found[i] = value + (rises if roi.dtype.kind == "m" else rises.astype(roi.dtype)) * (last - first)
    _write(roi, axis, low, high, *found)


def _ends_passed(
    ends: tuple[DistributedArray, ...],
    positions: np.ndarray[Any, Any],
    n: int,
    twice: bool,
    tail: tuple[slice | None, ...],
) -> DistributedArray:
    """What bools are besides their reflection: NumPy's ``2 * end - found``, as a bool, is true behind an end that is true, and
    ends come one after another from inside."""
    length = n if twice else n - 1
    left = positions[0] < 0
    passed = -(positions // length) if left else -(-(positions + twice) // length) - 1
    near, far = ends
    return near | (far & asarray(passed > 1)[tail])


def _by_function(
    result: DistributedArray, sides: list[tuple[int, int]], function: Callable[..., Any], kwargs: dict[str, Any]
) -> DistributedArray:
    for axis, widths in enumerate(sides):

        def padded(line: object, widths: object = widths, axis: int = axis) -> Any:
            line = np.array(line)
            function(line, widths, axis, kwargs)
            return line

        if result.size:
            result = apply_along_axis(padded, axis, result)
    return result
