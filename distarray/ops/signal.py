"""Neighbours along an axis: ``convolve`` and ``correlate``, ``gradient``, ``trapezoid``, ``unwrap``, and ``interp``.

Differences are taken of shifted views, of which only halos travel.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from distarray.algorithms.local import arrays_in, everywhere, mapped
from distarray.algorithms.toeplitz import convolved
from distarray.array.aliases import ArrayLike, Axis
from distarray.array.documented import described_as
from distarray.array.functions import implements
from distarray.array.place import as_array, host_values, number_of
from distarray.array.state import DistributedArray, same_context
from distarray.array.writing import deliver
from distarray.context import Context
from distarray.geometry import IndexMap, Range, Region, blocks
from distarray.layout import Layout
from distarray.ops import reductions
from distarray.ops.choosing import where
from distarray.ops.complex_numbers import conj
from distarray.ops.convert import asarray
from distarray.ops.creation import empty_like
from distarray.ops.large_integers import large_integers
from distarray.ops.scans import cumsum

__all__ = ["convolve", "correlate", "gradient", "interp", "trapezoid", "unwrap"]


def _distributed(*items: Any) -> tuple[Context, list[DistributedArray]]:
    context = same_context([x for x in items if isinstance(x, DistributedArray)])
    return context, [as_array(context, x) for x in items]


# --- convolution ------------------------------------------------------------------------------------------------------


_ONE = np.ones(1)


def _window(mode: Any, n: int, m: int, swapped: bool) -> tuple[int, int]:
    """The part of the full convolution, of n + m - 1 elements with m ≤ n, that a mode asks for."""
    np.convolve(_ONE, _ONE, mode)  # NumPy refuses, or warns of, what is no mode
    modes = {"valid": 0, "same": 1, "full": 2, "v": 0, "s": 1, "f": 2, 0: 0, 1: 1, 2: 2}
    number = modes[mode]
    if number == 2:
        return 0, n + m - 1
    if number == 0:
        return m - 1, n
    low = m - 1 - m // 2
    return (m // 2, m // 2 + n) if swapped else (low, low + n)


def _convolved(
    name: str, a: DistributedArray, v: DistributedArray, mode: str | int, *, reverse: bool
) -> DistributedArray:
    """The convolution of two arrays of one axis; `reverse` says that the second was reversed, as a correlation needs."""
    if not a.size:
        raise ValueError("first array argument cannot be empty" if reverse else "a cannot be empty")
    if not v.size:
        raise ValueError("second array argument cannot be empty" if reverse else "v cannot be empty")
    context = a._context
    swap = v.size > a.size
    long, short = (v, a) if swap else (a, v)
    n, m = long.size, short.size
    start, stop = _window(mode, n, m, swap and reverse)
    dtype = np.convolve(np.zeros(1, a.dtype), np.zeros(1, v.dtype)).dtype
    with context.lock:
        source, kernel = long._operand(name), short._operand(name)
        target, halo = _halos(context, source.layout, n, m, start, stop)
        parts = arrays_in(context, source, halo, name)
        weights = arrays_in(context, kernel, everywhere(context, (m,), kernel.layout.devices), name)
        if kernel.layout.devices != target.devices:
            weights = arrays_in(context, kernel, everywhere(context, (m,), target.devices), name)
        places = {device: i for i, device in enumerate(target.devices)}
        each = [weights[places[device]] for device, _ in target.chunks]
        cuts = [
            slice(start + out[0].start - part[0].start, start + out[0].start - part[0].start + out[0].size)
            for (_, out), (_, part) in zip(target.chunks, halo.chunks, strict=True)
        ]

        def local(lib: Any, part: Any, weight: Any, cut: slice, out: Any) -> Any:
            if cut.start == cut.stop or (lib is np and convolved(part, weight, cut.start, out)):
                return None
            return _full(lib, part, weight)[cut]

        with context.workers.limit_blas():  # products of small matrices
            return mapped(context, [parts, each, cuts], target, dtype, local, name, into=True)


def _full(lib: Any, part: Any, weight: Any) -> Any:
    """The full convolution by the library; CuPy's Fourier transforms would spread infinities and NaN over all of it."""
    dtype = lib.result_type(part, weight)
    if lib is np or dtype.kind not in "fc" or bool(lib.isfinite(part).all() & lib.isfinite(weight).all()):
        return lib.convolve(part, weight, "full")
    long, short = (part, weight) if part.size >= weight.size else (weight, part)
    found = lib.zeros(long.size + short.size - 1, dtype)
    for i in range(short.size):
        found[i : i + long.size] += long * short[i]
    return found


def _halos(context: Context, layout: Layout, n: int, m: int, start: int, stop: int) -> tuple[Layout, Layout]:
    """The layout of elements start … stop of the full convolution, and that of what each of its chunks needs."""
    size = stop - start
    split = blocks(0).resolve((size,), layout.devices)
    if layout.index_map.is_replicated:
        split = everywhere(context, (size,), layout.devices).index_map
    elif (
        all(region[0].step == 1 for _, region in layout.chunks)
        and layout.index_map.is_disjoint
        and all(len(layout.index_map.regions(device)) == 1 for device in layout.devices)
    ):  # a result stays on the device of the element in the middle of its window
        shift = start - (m - 1) // 2
        mapping = {}
        for device, region in layout.chunks:
            low, high = (min(max(i - shift, 0), size) for i in (region[0].start, region[0].stop))
            low = 0 if region[0].start == 0 and region[0].size else low
            high = size if region[0].stop == n else high
            mapping[device] = [Region([Range.of(low, 1, max(high - low, 0))])]
        split = IndexMap((size,), mapping)
    target = context.layout(split)
    needed: dict[int, list[Region]] = {device: [] for device in split.devices}
    for device, region in split.chunks:
        low, high = start + region[0].start, start + region[0].stop
        first, last = max(low - m + 1, 0), min(high, n)
        needed[device].append(Region([Range.of(first, 1, last - first if region[0].size else 0)]))
    return target, context.layout(IndexMap((n,), needed))


@implements(np.convolve)
def convolve(a: ArrayLike, v: ArrayLike, mode: str = "full") -> DistributedArray:
    """Discrete convolution of two arrays of one axis.

    Parameters
    ----------
    a, v : array_like
        Of one axis.
    mode : {"full", "valid", "same"}
        All of the convolution, what needs no elements beyond the ends, or as much as the longer array.

    Returns
    -------
    DistributedArray
        Of one axis.

    Raises
    ------
    ValueError
        An array is empty, or has more than one axis.

    Notes
    -----
    Communication: the longer array's halos, of the shorter one's length less one; the shorter array whole to each device.

    Memory on each device: the shorter array, and its part of the longer one.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     np.convolve(da.asarray([1, 2, 3], layout=da.blocks(0)), [0, 1]).get()
    array([0, 1, 2, 3])
    """
    _, (x, y) = _distributed(a, v)
    x, y = (item if item.ndim else item[None] for item in (x, y))
    _one_axis(x, y)
    return _convolved("convolve", x, y, mode, reverse=False)


@implements(np.correlate)
@described_as(convolve)
def correlate(a: ArrayLike, v: ArrayLike, mode: str = "valid") -> DistributedArray:
    """Cross-correlation of two arrays of one axis: of one with the conjugate of the other.

    Notes
    -----
    Communication: as of :func:`convolve`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.correlate(da.asarray([1, 2, 3]), [0, 1, 0.5]).tolist()
    [3.5]
    """
    _, (x, y) = _distributed(a, v)
    x, y = (item if item.ndim else item[None] for item in (x, y))
    _one_axis(x, y)
    y = y[::-1]
    return _convolved("correlate", x, conj(y) if y.dtype.kind == "c" else y, mode, reverse=True)


def _one_axis(*arrays: DistributedArray) -> None:
    for x in arrays:
        if x.ndim != 1:
            raise ValueError(f"object too deep for desired array: it has {x.ndim} axes, and may have one")


# --- differences ------------------------------------------------------------------------------------------------------


def _spacings(f: DistributedArray, axes: tuple[int, ...], varargs: tuple[Any, ...]) -> list[Any]:
    """The distance along each axis: a scalar, or the differences of coordinates."""
    if not varargs:
        return [1.0] * len(axes)
    if len(varargs) == 1 and np.ndim(varargs[0]) == 0:
        return [number_of(varargs[0])] * len(axes)
    if len(varargs) != len(axes):
        raise TypeError("invalid number of arguments")
    found: list[Any] = []
    for axis, given in zip(axes, varargs, strict=True):
        if np.ndim(given) == 0:
            found.append(number_of(given))
            continue
        if np.ndim(given) != 1:
            raise ValueError("distances must be either scalars or 1d")
        if len(given) != f.shape[axis]:
            raise ValueError("when 1d, distances must match the length of the corresponding dimension")
        x = as_array(f._context, given)
        x = x.astype(np.float64) if x.dtype.kind in "iu" else x
        steps = x[1:] - x[:-1]
        if not steps.size:
            raise IndexError(
                "index 0 is out of bounds for axis 0 with size 0: coordinates are those of two points at least"
            )
        if bool(reductions.all(steps == steps[:1])):
            found.append(steps[0].get()[()])
        else:
            found.append(steps)
    return found


@implements(np.gradient)
def gradient(f: ArrayLike, *varargs: ArrayLike, axis: Axis = None, edge_order: int = 1) -> Any:
    """Central differences inside, one-sided ones at the edges, along each axis.

    Parameters
    ----------
    f : array_like
    *varargs : scalar or array_like
        The distances: one scalar for all axes, or for each axis a scalar or its coordinates.
    axis : int or tuple of int, optional
        Default: all axes.
    edge_order : {1, 2}
        The order of the differences at the edges.

    Returns
    -------
    DistributedArray, or a tuple of them
        In the layout of `f`.

    Raises
    ------
    ValueError
        An axis is too short, or coordinates don't fit.

    Notes
    -----
    Communication: halos of one element.

    Memory on each device: its part of the result.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     np.gradient(da.asarray([1.0, 2.0, 4.0, 7.0], layout=da.blocks(0))).get()
    array([1. , 1.5, 2.5, 3. ])
    """
    _, (x,) = _distributed(f)
    axes = tuple(range(x.ndim)) if axis is None else normalize_axis_tuple(axis, x.ndim)
    steps = _spacings(x, axes, varargs)
    if edge_order > 2:
        raise ValueError("'edge_order' greater than 2 not supported")
    if x.dtype.kind == "M":
        x = x.view(f"m8{x.dtype.str[3:]}")  # times differ as time spans do
    elif x.dtype.kind in "iu":
        x = x.astype(np.float64)  # differences of bools NumPy refuses
    found = []
    for number, step in zip(axes, steps, strict=True):
        if x.shape[number] < edge_order + 1:
            raise ValueError(
                "Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) elements are required."
            )
        found.append(_gradient(x, number, step, edge_order))
    return found[0] if len(found) == 1 else tuple(found)


def _gradient(
    x: DistributedArray, axis: int, step: Any, order: int
) -> DistributedArray:  # step: a number or an array of them
    head = (slice(None),) * axis
    tail = (None,) * (x.ndim - axis - 1)

    def part(low: int | None, high: int | None) -> DistributedArray:
        return x[(*head, slice(low, high))]

    out = empty_like(x)
    uniform = np.ndim(step) == 0
    inner: Any
    if uniform:
        inner = (part(2, None) - part(None, -2)) / (2.0 * step)
    else:
        a, b = (s[(slice(None), *tail)] for s in (step[:-1], step[1:]))
        inner = (-b / (a * (a + b))) * part(None, -2) + ((b - a) / (a * b)) * part(1, -1)
        inner = inner + (a / (b * (a + b))) * part(2, None)
    if x.shape[axis] > 2:
        out[(*head, slice(1, -1))] = inner
    n = x.shape[axis]
    ends: list[Any]
    if order == 1:
        first, last = (step, step) if uniform else (number_of(step[0]), number_of(step[-1]))
        ends = [(part(1, 2) - part(0, 1)) / first, (part(n - 1, n) - part(n - 2, n - 1)) / last]
    else:
        if uniform:
            low = (-1.5 / step, 2.0 / step, -0.5 / step)
            high = (0.5 / step, -2.0 / step, 1.5 / step)
        else:
            p, q, r, s = (number_of(step[i]) for i in (0, 1, -2, -1))
            low = (-(2.0 * p + q) / (p * (p + q)), (p + q) / (p * q), -p / (q * (p + q)))
            high = (s / (r * (r + s)), -(s + r) / (r * s), (2.0 * s + r) / (s * (r + s)))
        ends = [
            low[0] * part(0, 1) + low[1] * part(1, 2) + low[2] * part(2, 3),
            high[0] * part(n - 3, n - 2) + high[1] * part(n - 2, n - 1) + high[2] * part(n - 1, n),
        ]
    out[(*head, slice(0, 1))] = ends[0]
    out[(*head, slice(n - 1, n))] = ends[1]
    return out


@implements(np.trapezoid)
def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1) -> Any:
    """Integral along an axis by the trapezoidal rule.

    Parameters
    ----------
    y : array_like
    x : array_like, optional
        Coordinates: of one axis, or of the shape of `y`.
    dx : scalar
        The distance, where no coordinates are given.
    axis : int
        The axis to integrate along.

    Returns
    -------
    DistributedArray

    Notes
    -----
    Communication: halos of one element; the result stays in SUM mode where the axis is split.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     float(da.trapezoid(da.asarray([1.0, 2.0, 3.0])))
    4.0
    """
    _, (values, *coordinates) = _distributed(y) if x is None else _distributed(y, x)
    axis = normalize_axis_index(axis, values.ndim)
    head = (slice(None),) * axis
    after, before = (*head, slice(1, None)), (*head, slice(None, -1))
    step: Any = dx
    for places in coordinates:
        if places.ndim == 1:
            step = (places[1:] - places[:-1])[(slice(None), *(None,) * (values.ndim - axis - 1))]
        else:
            step = places[after] - places[before]
    return reductions.sum(step * (values[after] + values[before]) / 2.0, axis)


@implements(np.unwrap)
def unwrap(
    p: ArrayLike, discont: float | None = None, axis: int = -1, *, period: float = 2 * np.pi
) -> DistributedArray:
    """Phases with multiples of the period added, so that no jump is larger than half of one.

    Parameters
    ----------
    p : array_like
    discont : float, optional
        The largest jump that stays. Default, and least: half the period.
    axis : int
        The axis along which phases follow each other.
    period : float
        That of the phases.

    Returns
    -------
    DistributedArray

    Notes
    -----
    Communication: halos of one element, and that of a :func:`cumsum`.

    Memory on each device: two arrays of the size of its part.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.unwrap(da.asarray([0, 3, 0, 3]), period=4).tolist()
    [0, -1, 0, -1]
    """
    _, (x,) = _distributed(p)
    axis = normalize_axis_index(axis, x.ndim)
    head = (slice(None),) * axis
    after, before = (*head, slice(1, None)), (*head, slice(None, -1))
    jumps: Any = np.not_equal(x[after], x[before]) if x.dtype == bool else x[after] - x[before]
    discont = period / 2 if discont is None else discont
    dtype = np.result_type(jumps.dtype, period)
    if dtype.kind in "iu":
        high, rest = divmod(period, 2)
        ambiguous = rest == 0
    else:
        high, ambiguous = period / 2, True
    wrapped = np.mod(jumps - -high, period) + -high
    if ambiguous:
        wrapped = where((wrapped == -high) & (jumps > 0), wrapped.dtype.type(high), wrapped)
    correction = wrapped - jumps
    correction = where(abs(jumps) < discont, correction.dtype.type(0), correction)
    result = x.astype(dtype)
    if x.shape[axis] > 1:
        result[after] = x[after] + cumsum(correction, axis)
    return result


# --- interpolation ----------------------------------------------------------------------------------------------------


@implements(np.interp)
def interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: ArrayLike,
    left: complex | None = None,
    right: complex | None = None,
    period: float | None = None,
) -> DistributedArray:
    """Linear interpolation between the points (xp, fp), at `x`.

    Parameters
    ----------
    x : array_like
        Real; of any shape.
    xp, fp : array_like
        Of one axis and one length; `xp` ascending, unless there is a `period`.
    left, right : scalar, optional
        Values outside. Default: the first and the last of `fp`.
    period : scalar, optional
        Of `xp`.

    Returns
    -------
    DistributedArray
        Of the shape of `x`: ``float64``, or ``complex128`` where `fp` is complex.

    Raises
    ------
    ValueError
        The points are none, or not as many in `xp` as in `fp`.

    Notes
    -----
    Communication: the points go whole to each device. A distributed `xp` or `fp` is fetched to the host first.

    Memory on each device: the points, and its part of the result.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.interp(da.asarray([0.5, 3.0]), [0, 1, 2], [0, 10, 20]).tolist()
    [5.0, 20.0]
    """
    if (integers := large_integers(x)) is not None:
        x = integers.astype(float)
    _, (places,) = _distributed(x) if isinstance(x, DistributedArray) else (None, [asarray(x)])
    given: tuple[Any, ...] = (xp, fp, left, right)
    xp, fp, left, right = (host_values(a) if isinstance(a, DistributedArray) else a for a in given)
    interpolate: Any = np.interp
    model = interpolate(np.zeros(1 if places.size else 0, places.dtype), xp, fp, left, right, period)
    if period is not None:  # points are sorted and continued by one on each side here, once, and not for each chunk
        period = abs(period)
        xp, fp, left, right = np.asarray(xp, float) % period, np.asarray(fp, model.dtype), None, None
        order = np.argsort(xp)
        xp, fp = xp[order], fp[order]
        xp = np.concatenate((xp[-1:] - period, xp, xp[:1] + period))
        fp = np.concatenate((fp[-1:], fp, fp[:1]))
    xp, fp = np.asarray(xp, float), np.asarray(fp, model.dtype)
    context = places._context
    with context.lock:
        source = places._operand("interp")

        def local(lib: Any, part: Any) -> Any:
            at_ = part if period is None else part.astype(float) % period
            return lib.interp(lib.ascontiguousarray(at_), lib.asarray(xp), lib.asarray(fp), left, right)

        return deliver(mapped(context, [source.arrays], source.layout, model.dtype, local, "interp"), None)  # type: ignore[no-any-return]
