"""Sequences, ``arange``, ``linspace``, ``logspace`` and ``geomspace``; and what reads or makes values on the host and spreads them:
NumPy's ``frombuffer``, ``fromiter``, ``loadtxt`` and their kin with ``like=``."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial
from inspect import Parameter, Signature, signature
from typing import Any

import numpy as np

from distarray.array.aliases import ArrayLike, DeviceLike, DTypeLike, LayoutLike
from distarray.array.documented import described_as
from distarray.array.dtypes import check_dtype
from distarray.array.functions import implements
from distarray.array.place import fetched
from distarray.array.shapes import PYTHON_SCALARS
from distarray.array.state import DistributedArray
from distarray.devices import Device
from distarray.devices.arrays import AnyDType, DeviceArray
from distarray.fusion.expr import real_part, warn_complex
from distarray.geometry import Region
from distarray.ops import reductions
from distarray.ops.convert import asarray
from distarray.ops.creation import empty
from distarray.ops.generate import generate, indices_of, placement
from distarray.ops.manipulation import expand_dims, moveaxis

__all__ = [
    "arange",
    "frombuffer",
    "fromiter",
    "fromstring",
    "genfromtxt",
    "geomspace",
    "linspace",
    "loadtxt",
    "logspace",
]


def _bound(value: object) -> Any:
    """A bound of ``arange`` or ``linspace`` as a scalar; distributed 0-d values come to the host."""
    if isinstance(value, DistributedArray):
        value = value.get()
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    return value


@implements(np.arange)
@described_as(empty)
def arange(
    start: ArrayLike | None = None,
    stop: ArrayLike | None = None,
    step: ArrayLike | None = None,
    dtype: DTypeLike = None,
    *,
    layout: LayoutLike = None,
    device: DeviceLike = None,
) -> DistributedArray:
    """Evenly spaced values in the half-open interval [start, stop), to the bit as NumPy computes them.

    Parameters
    ----------
    start, stop, step : scalar
        ``arange(stop)``, ``arange(start, stop)`` or ``arange(start, stop, step)``.
    dtype : dtype, optional
        Default: as NumPy infers it.

    Raises
    ------
    ValueError
        The length is not finite, or more than an array holds.

    Notes
    -----
    Communication: none. Element i is ``first + i * (second - first)`` in the result's dtype.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.arange(2, 12, 3, layout=da.blocks(0))
    DistributedArray([ 2,  5,  8, 11])
    """
    start, stop, step = _bound(start), _bound(stop), _bound(step)
    if start is None and stop is None:
        raise TypeError("arange() requires stop to be specified: pass arange(stop) or arange(start, stop)")
    if stop is None:
        if np.asarray(start).dtype.kind == "M":
            raise ValueError("arange requires both a start and a stop for NumPy datetime64 ranges")
        start, stop = 0, start
    start = 0 if start is None else start
    if any(np.asarray(v).dtype.kind in "mMU" for v in (start, stop, step)) or (
        dtype is not None and np.dtype(dtype).kind in "mM"
    ):
        return _times(start, stop, step, dtype, layout, device)
    step = 1 if step is None else step
    if dtype is None:
        for value in (start, stop, step):
            if isinstance(value, np.ndarray):
                raise TypeError("only 0-dimensional arrays can be converted to Python scalars: pass scalar bounds")
        dtype = np.result_type(np.intp, *[np.asarray(value).dtype for value in (start, stop, step)])
    dtype = check_dtype(dtype)
    try:
        n, second = _length(start, stop, step)
    except OverflowError:
        raise ValueError("Maximum allowed size exceeded: pass bounds that fit the dtype") from None
    if dtype.kind == "b" and n > 2:
        raise TypeError(
            "arange() is only supported for booleans when the result has at most length 2: use an integer dtype"
        )
    firsts = np.zeros(2, dtype)
    for i, value in enumerate((start, second)[:n]):
        firsts[i] = value.item() if isinstance(value, np.number) else value  # checked as NumPy checks Python numbers
    context, target = placement((n,), dtype, layout, device)
    context.traced("arange", n, firsts)
    return generate(context, target, dtype, partial(_arithmetic, firsts), "arange")


def _times(
    start: ArrayLike, stop: ArrayLike, step: ArrayLike, dtype: DTypeLike, layout: LayoutLike, device: DeviceLike
) -> DistributedArray:
    """``arange`` of dates or of time spans, by the integers that they are in the unit that NumPy gives the result."""
    numpy_arange: Any = np.arange
    given = numpy_arange(
        start, start, step, dtype
    )  # a call without elements raises NumPy's errors, and tells the dtype
    first = np.array([start], given.dtype.type if given.dtype.kind == "M" else None)
    last = (
        np.array([stop])
        if np.asarray(stop).dtype.kind in "miu"
        else np.array([stop], given.dtype.type if given.dtype.kind == "M" else None)
    )
    span = np.array([1 if step is None else step])
    unit = given.dtype if dtype is not None and np.datetime_data(given.dtype)[0] != "generic" else None
    if unit is None:
        timed = [v.dtype for v in (first, last, span) if v.dtype.kind in "mM"]
        finest = np.datetime_data(
            np.result_type(*[np.dtype(f"m8[{np.datetime_data(t)[1]}{np.datetime_data(t)[0]}]") for t in timed])
        )
        unit = np.dtype(f"{'M' if given.dtype.kind == 'M' else 'm'}8[{finest[1]}{finest[0]}]")
    apart = np.dtype(f"m8{unit.str[3:]}")

    def number(value: DeviceArray) -> int:
        kind = apart if value.dtype.kind in "miu" else unit
        return int(value.astype(kind).view(np.int64)[0])

    low = number(first)
    high = number(last) + (low if unit.kind == "M" and last.dtype.kind != "M" else 0)
    return arange(low, high, number(span), np.int64, layout=layout, device=device).view(unit)


def _length(start: Any, stop: Any, step: Any) -> tuple[int, Any]:
    """How many elements ``arange`` has, and the second of them: as NumPy computes both, with Python's operators."""
    span = stop - start
    ratio = span / step
    if isinstance(ratio, complex):
        n = min(math.ceil(ratio.real), math.ceil(ratio.imag))
    elif ratio == 0 and span != 0:
        n = 0 if math.copysign(1.0, ratio) < 0 else 1
    elif math.isnan(ratio):
        raise ValueError("arange: cannot compute length: the bounds or the step are NaN; pass finite numbers")
    elif math.isinf(ratio) or ratio >= 2**63:
        raise ValueError("Maximum allowed size exceeded: pass finite bounds, and a step that is not 0")
    else:
        n = math.ceil(ratio)
    return max(n, 0), start + step if n > 0 else None


def _arithmetic(firsts: DeviceArray, device: Device, region: Region, out: DeviceArray) -> None:
    """``firsts[0] + i * (firsts[1] - firsts[0])`` for a region, as NumPy's fill functions compute it."""
    lib, r, dtype = device.lib, region[0], out.dtype
    kind = dtype.kind
    if kind in "biu":
        wide, origin, delta = np.uint64, int(firsts[0]), int(firsts[1]) - int(firsts[0])
        begin, stride = (origin + r.start * delta) % 2**64, (delta * r.step) % 2**64
        out[...] = (lib.arange(r.size, dtype=wide) * wide(stride) + wide(begin)).astype(dtype)
    elif kind == "c":
        real = np.empty(0, dtype).real.dtype
        i = indices_of(lib, r).astype(real)
        out.real[...] = firsts[0].real + i * (firsts[1].real - firsts[0].real)
        out.imag[...] = firsts[0].imag + i * (firsts[1].imag - firsts[0].imag)
    else:
        work = dtype if dtype.itemsize >= 4 else np.dtype(np.float32)
        first, second = work.type(firsts[0]), work.type(firsts[1])
        out[...] = (first + indices_of(lib, r).astype(work) * (second - first)).astype(dtype)
    for i in (0, 1):
        if r.holds(i):
            device.fill(out[(i - r.start) // r.step, ...], firsts[i])


@implements(np.linspace)
@described_as(empty)
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: DTypeLike = None,
    axis: int = 0,
    *,
    layout: LayoutLike = None,
    device: DeviceLike = None,
) -> Any:
    """`num` evenly spaced values from `start` to `stop`, to the bit as NumPy computes them.

    Parameters
    ----------
    start, stop : scalar or array_like
        Arrays give an array of sequences, along `axis`.
    num : int
        How many values.
    endpoint : bool
        Whether `stop` is the last value.
    retstep : bool
        Return ``(values, step)``.
    dtype : dtype, optional
        Default: as NumPy infers it, never an integer dtype.
    axis : int
        Of arrays: the axis of the result along which values follow each other.

    Returns
    -------
    DistributedArray, or a tuple of it and the step

    Raises
    ------
    ValueError
        `num` is negative.

    Notes
    -----
    Communication: none for scalars. With distributed arrays, what aligns them.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.linspace(0, 1, 5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    num = operator.index(num)
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    start, stop = (v if isinstance(v, DistributedArray) and v.ndim else _bound(v) for v in (start, stop))
    start, stop = (np.asarray(v)[()] if isinstance(v, (list, tuple)) else v for v in (start, stop))
    div = num - 1 if endpoint else num
    kinds = [v.dtype if hasattr(v, "dtype") else v for v in (start, stop)]
    dt = np.result_type(*kinds, 0.0)
    target_dtype = check_dtype(dt if dtype is None else dtype)
    if dt.kind == "c" and target_dtype.kind not in "cb":
        warn_complex()
    if all(isinstance(v, PYTHON_SCALARS) for v in (start, stop)):
        start, stop = np.asarray(start)[()], np.asarray(stop)[()]
    delta = np.subtract(stop, start, dtype=dt)
    step = delta / div if div > 0 else math.nan
    if np.ndim(delta):
        result = _line(start, stop, delta, step, num, div, dt, layout, device, endpoint)
        if axis:
            result = np.moveaxis(result, 0, axis)
        if np.issubdtype(target_dtype, np.integer):
            result = np.floor(result)
        if result.dtype.kind == "c" and target_dtype.kind not in "cb":  # warned of above
            result = result.real
        result = asarray(result, dtype=target_dtype, layout=layout, device=device)
    else:
        context, target = placement((num,), target_dtype, layout, device)
        context.traced("linspace", start, stop, num)

        def make(device: Device, region: Region, out: DeviceArray) -> None:
            r = region[0]
            y = indices_of(device.lib, r).astype(dt)
            if div <= 0:
                y *= delta
            elif step == 0:
                y /= div
                y *= delta
            else:
                y *= step
            y += start
            if endpoint and num > 1 and r.holds(num - 1):
                y[(num - 1 - r.start) // r.step] = stop
            if np.issubdtype(target_dtype, np.integer):
                y = device.lib.floor(y)
            out[...] = real_part(y, target_dtype).astype(target_dtype)

        result = generate(context, target, target_dtype, make, "linspace")
    return (result, step) if retstep else result


def _line(
    start: Any,
    stop: ArrayLike,
    delta: Any,
    step: Any,
    num: int,
    div: int,
    dt: AnyDType,
    layout: LayoutLike,
    device: DeviceLike,
    endpoint: bool,
) -> Any:
    """``linspace`` between arrays, along a new first axis, with NumPy's operations on distributed arrays."""
    y = arange(0, num, dtype=dt, device=device)[(slice(None), *(None,) * np.ndim(delta))]
    if div > 0 and not bool((step == 0).any()):
        y = y * step
    elif div > 0:
        y = (y / div) * delta
    else:
        y = y * delta
    y = asarray(y + start, dtype=dt).copy()
    if endpoint and num > 1:
        y[-1, ...] = stop
    return y


@implements(np.logspace)
@described_as(linspace)
def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    base: ArrayLike = 10.0,
    dtype: DTypeLike = None,
    axis: int = 0,
) -> DistributedArray:
    """Powers of a base whose exponents are evenly spaced.

    Parameters
    ----------
    start, stop : scalar or array_like
        The first and the last exponent.
    endpoint : bool
        Whether `stop` is the last exponent.
    base : scalar or array_like
    dtype : dtype, optional
        Default: as NumPy infers it.

    Returns
    -------
    DistributedArray

    Notes
    -----
    Communication: none for scalars. With distributed arrays, what aligns them.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.logspace(0, 2, 3).tolist()
    [1.0, 10.0, 100.0]
    """
    if np.ndim(base):
        base, start, stop = (asarray(v) for v in (base, start, stop))
        ndim = max(v.ndim for v in (base, start, stop))
        start, stop, base = (v[(*(None,) * (ndim - v.ndim), ...)] for v in (start, stop, base))
        base = expand_dims(base, axis)
    found = np.power(base, linspace(start, stop, num=num, endpoint=endpoint, axis=axis))
    return found if dtype is None else found.astype(dtype)  # type: ignore[no-any-return]


@implements(np.geomspace)
@described_as(linspace)
def geomspace(
    start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, dtype: DTypeLike = None, axis: int = 0
) -> DistributedArray:
    """Numbers each of which is the same multiple of the one before.

    Parameters
    ----------
    dtype : dtype, optional
        Default: as NumPy infers it.

    Returns
    -------
    DistributedArray

    Raises
    ------
    ValueError
        An end is zero.

    Notes
    -----
    Communication: none for scalars. With distributed arrays, what aligns them, and whether an end is zero.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.geomspace(1, 8, 4).round(6).tolist()
    [1.0, 2.0, 4.0, 8.0]
    """
    first, last = (v if isinstance(v, DistributedArray) and v.ndim else np.asarray(fetched(v)) for v in (start, stop))
    if any(bool(reductions.any(v == 0)) if isinstance(v, DistributedArray) else (v == 0).any() for v in (first, last)):
        raise ValueError("Geometric sequence cannot include zero")
    work = np.result_type(first.dtype, last.dtype, float(num), np.zeros((), dtype).dtype)
    first, last = first.astype(work), last.astype(work)
    sign = np.sign(first)
    first, last = first / sign, last / sign
    found = logspace(np.log10(first), np.log10(last), num=num, endpoint=endpoint, base=10.0, dtype=work).copy()
    if num > 0:
        found[0, ...] = first
        if num > 1 and endpoint:
            found[-1, ...] = last
    found = found * sign
    if axis:
        found = moveaxis(found, 0, axis)
    return found.astype(np.dtype(work if dtype is None else dtype))


def _signature(function: Callable[..., Any]) -> Signature:
    """What `help` shows of a function that hands its arguments to NumPy's, but for ``like=``, which brought the call here."""
    try:
        shown = signature(function)
    except ValueError:  # compiled, and silent: fromstring
        keywords = Parameter.POSITIONAL_OR_KEYWORD
        given = {"dtype": float, "count": -1}
        first = Parameter("string", Parameter.POSITIONAL_ONLY)
        rest = [Parameter(name, keywords, default=default) for name, default in given.items()]
        shown = Signature([first, *rest, Parameter("sep", Parameter.KEYWORD_ONLY, default="")])
    return shown.replace(
        parameters=[p for p in shown.parameters.values() if p.name != "like"], return_annotation=DistributedArray
    )


def _spread(name: str) -> Callable[..., DistributedArray]:
    function = getattr(np, name)

    def read(*args: Any, **kwargs: Any) -> DistributedArray:
        return asarray(function(*args, **kwargs))

    read.__name__ = read.__qualname__ = name
    shown = _signature(function)
    read.__signature__ = shown  # type: ignore[attr-defined]
    read.__doc__ = f"""``numpy.{name}`` on each process, of which each keeps its part.

    Parameters
    ----------
    {", ".join(shown.parameters)} : object
        As for ``numpy.{name}``.

    Returns
    -------
    DistributedArray
        In the default layout.

    Notes
    -----
    Communication: none. Every process makes the whole array on the host first.
    """
    return implements(function)(read)


frombuffer = _spread("frombuffer")
fromiter = _spread("fromiter")
fromstring = _spread("fromstring")
genfromtxt = _spread("genfromtxt")
loadtxt = _spread("loadtxt")
