"""Discrete Fourier transforms with NumPy's arguments and errors: each says which lines are transformed, and
``algorithms.pencils`` does it, whole lines on the devices that hold them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex

import numpy as np

from distarray.algorithms.pencils import OPPOSITE, LineTransform, transform
from distarray.array.aliases import ArrayLike, Axis, Out
from distarray.array.documented import described_as
from distarray.array.functions import implements
from distarray.array.state import DistributedArray, from_chunks
from distarray.array.whole import report
from distarray.array.writing import check_out, deliver, single
from distarray.devices.arrays import AnyDType
from distarray.fusion.expr import is_loud
from distarray.ops.convert import asarray
from distarray.ops.creation import zeros

__all__ = [
    "fft", "fft2", "fftn", "hfft", "ifft", "ifft2", "ifftn", "ihfft", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftn",
]  # fmt: skip


@implements(np.fft.fft)
def fft(a: ArrayLike, n: int | None = None, axis: Axis = -1, norm: str | None = None, out: Out = None) -> Any:
    """One-dimensional discrete Fourier transform.

    Parameters
    ----------
    a : array_like
        Real or complex, of any layout. Computed in its precision; integers in double precision.
    n : int, optional
        The length of the transform: `a` is cropped, or padded with zeros, to it. Default: that of the axis.
    axis : int
        The axis of the lines that are transformed.
    norm : {"backward", "ortho", "forward"}
        Which direction is scaled: by ``1/n`` the inverse one, both by ``1/sqrt(n)``, or the forward one.
    out : DistributedArray or numpy.ndarray, optional
        Where to put the result.

    Returns
    -------
    DistributedArray
        Complex. In the layout of `a` where no device has but a part of a line; else in blocks along the longest other axis;
        of an array with no other axis to cut, cyclic along `axis` where the number of devices divides `n` (the inverse
        takes it from there), else in blocks along it.

    Raises
    ------
    ValueError
        `n` is less than 1, `norm` unknown, or `out` of another shape.
    numpy.exceptions.AxisError, IndexError
        There is no such axis, as NumPy says it.
    TypeError
        `n` is no integer, or `out` can't hold the result.

    Notes
    -----
    Communication: none where `axis` is not split. Where it is, the data once, to blocks along another axis. Where there is
    no other axis to cut, by the four-step method, the data twice (three times where the number of devices does not divide
    `n`). Lengths without suitable factors, primes for instance, take a convolution, for which the data move eight times;
    arrays of fewer than 65536 elements are transformed on one device and spread again. Each device's lines go through SciPy's
    or CuPy's library.

    Memory on each device: at most 2.5 times its share of operand and result.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.asarray([[1.0, 2.0], [3.0, 4.0]], layout=da.blocks(0))
    ...     with da.no_implicit_communication():
    ...         y = da.fft.fft(x)
    ...     y.dtype, y.real.get().tolist()
    (dtype('complex128'), [[3.0, -1.0], [7.0, -1.0]])
    """
    return _single("fft", np.fft.fft, a, n, axis, norm, out)


@implements(np.fft.ifft)
@described_as(fft)
def ifft(a: ArrayLike, n: int | None = None, axis: Axis = -1, norm: str | None = None, out: Out = None) -> Any:
    """Inverse of :func:`fft`.

    A cyclic result of :func:`fft` is taken as it is, and its inverse comes out in blocks.

    Notes
    -----
    Communication: as for :func:`fft`.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.fft.ifft(da.fft.fft(da.asarray([1.0, 2.0, 4.0]))).real.round(12).get()
    array([1., 2., 4.])
    """
    return _single("ifft", np.fft.ifft, a, n, axis, norm, out)


@implements(np.fft.rfft)
@described_as(fft)
def rfft(a: ArrayLike, n: int | None = None, axis: Axis = -1, norm: str | None = None, out: Out = None) -> Any:
    """Transform of real data: the elements up to ``n // 2``, of which the others are mirror images.

    Arguments as for :func:`fft`; complex data are refused with TypeError.

    Parameters
    ----------
    a : array_like
        Real. Computed in its precision; integers in double precision.

    Raises
    ------
    TypeError
        `a` is complex.
    ValueError
        `n` is less than 1, `norm` unknown, or `out` of another shape.

    Notes
    -----
    Communication: as for :func:`fft`; where one split axis is all there is, the (real) data three times, by a convolution
    eleven times, and the result is in blocks.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.fft.rfft(da.asarray([1.0, 2.0, 4.0, 3.0])).get()
    array([10.+0.j, -3.+1.j,  0.+0.j])
    """
    return _single("rfft", np.fft.rfft, a, n, axis, norm, out)


@implements(np.fft.irfft)
@described_as(fft)
def irfft(a: ArrayLike, n: int | None = None, axis: Axis = -1, norm: str | None = None, out: Out = None) -> Any:
    """Inverse of :func:`rfft`: real data of length `n`, by default ``2 (m - 1)`` for `m` elements along the axis.

    Returns
    -------
    DistributedArray
        Real.

    Notes
    -----
    Communication: as for :func:`fft`; where one split axis is all there is, the data three times, by a convolution eleven
    times; the result is in blocks.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.fft.irfft(da.fft.rfft(da.asarray([1.0, 2.0, 4.0, 3.0]))).round(6).get()
    array([1., 2., 4., 3.])
    """
    return _single("irfft", np.fft.irfft, a, n, axis, norm, out)


@implements(np.fft.hfft)
@described_as(irfft)
def hfft(a: ArrayLike, n: int | None = None, axis: Axis = -1, norm: str | None = None, out: Out = None) -> Any:
    """Real transform of data that are Hermitian symmetric, given up to their middle.

    Notes
    -----
    Communication: as for :func:`irfft`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.fft.hfft(da.asarray([1.0, 2.0, 1.0])).round(6).get()
    array([ 6.,  0., -2.,  0.])
    """
    return _single("hfft", np.fft.hfft, a, n, axis, norm, out)


@implements(np.fft.ihfft)
@described_as(rfft)
def ihfft(a: ArrayLike, n: int | None = None, axis: Axis = -1, norm: str | None = None, out: Out = None) -> Any:
    """Inverse of :func:`hfft`.

    Notes
    -----
    Communication: as for :func:`rfft`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.fft.ihfft(da.asarray([6.0, 0.0, -2.0, 0.0])).round(6).get()
    array([1.-0.j, 2.-0.j, 1.-0.j])
    """
    return _single("rfft", np.fft.ihfft, a, n, axis, norm, out)


@implements(np.fft.fftn)
@described_as(fft)
def fftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
    out: Out = None,
) -> Any:
    """Transform along several axes.

    Parameters
    ----------
    a : array_like
    s : sequence of int, optional
        The length of the transform along each of `axes`; -1 keeps that of the axis.
    axes : sequence of int, optional
        Default: all, or with `s` the last ``len(s)``. An axis named twice is transformed twice.

    Returns
    -------
    DistributedArray
        In the layout of `a` where no axis of `axes` is split; else in blocks along the axis that was transformed first.

    Raises
    ------
    ValueError, IndexError, AxisError
        As NumPy does.

    Notes
    -----
    Communication: none where no axis of `axes` is split; else the data once, where one cut leaves the axes whole that were
    split ("pencils"): the axes that are whole are transformed before. The inverse of the result moves them back, once.

    Memory on each device: where the data move, its part of them once more.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.asarray(np.eye(4), layout=da.blocks(0))
    ...     y = da.fft.fftn(x)
    ...     y.layout == da.zeros((4, 4), layout=da.blocks(1)).layout, bool(np.allclose(da.fft.ifftn(y), x))
    (True, True)
    """
    return _several("fftn", a, s, axes, norm, out)


@implements(np.fft.ifftn)
@described_as(fftn)
def ifftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
    out: Out = None,
) -> Any:
    """Inverse of :func:`fftn`.

    Notes
    -----
    Communication: as for :func:`fftn`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.fft.ifftn(da.fft.fftn(da.eye(2))).real.round(6).get()
    array([[1., 0.],
           [0., 1.]])
    """
    return _several("ifftn", a, s, axes, norm, out)


@implements(np.fft.rfftn)
@described_as(fftn)
def rfftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
    out: Out = None,
) -> Any:
    """Transform of real data along several axes, the last of them first and halved as by :func:`rfft`.

    Parameters
    ----------
    a : array_like
        Real.

    Notes
    -----
    Communication: as for :func:`fftn`; where the last of `axes` is split, the data once more before.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.fft.rfftn(da.eye(2)).real.round(6).get()
    array([[2., 0.],
           [0., 2.]])
    """
    return _several("rfftn", a, s, axes, norm, out)


@implements(np.fft.irfftn)
@described_as(fftn)
def irfftn(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
    out: Out = None,
) -> Any:
    """Inverse of :func:`rfftn`: real; the last of `axes` is transformed last, as by :func:`irfft`.

    Returns
    -------
    DistributedArray
        Real.

    Notes
    -----
    Communication: as for :func:`fftn`; where another of `axes` is split, the data once more: the last is transformed last.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.fft.irfftn(da.fft.rfftn(da.eye(2))).round(6).get()
    array([[1., 0.],
           [0., 1.]])
    """
    return _several("irfftn", a, s, axes, norm, out)


@implements(np.fft.fft2)
@described_as(fftn)
def fft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = (-2, -1),
    norm: str | None = None,
    out: Out = None,
) -> Any:
    """Transform along two axes.

    Parameters
    ----------
    axes : sequence of int
        The axes, two by default.

    Notes
    -----
    Communication: as for :func:`fftn`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.fft.fft2(da.eye(2)).real.round(6).get()
    array([[2., 0.],
           [0., 2.]])
    """
    return _several("fftn", a, s, axes, norm, out, two=True)


@implements(np.fft.ifft2)
@described_as(fft2)
def ifft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = (-2, -1),
    norm: str | None = None,
    out: Out = None,
) -> Any:
    """Inverse of :func:`fft2`.

    Notes
    -----
    Communication: as for :func:`fftn`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.fft.ifft2(da.fft.fft2(da.eye(2))).real.round(6).get()
    array([[1., 0.],
           [0., 1.]])
    """
    return _several("ifftn", a, s, axes, norm, out, two=True)


@implements(np.fft.rfft2)
@described_as(rfftn)
def rfft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = (-2, -1),
    norm: str | None = None,
    out: Out = None,
) -> Any:
    """Transform of real data along two axes, the last of them first and halved as by :func:`rfft`.

    Parameters
    ----------
    axes : sequence of int
        The axes, two by default.

    Notes
    -----
    Communication: as for :func:`rfftn`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.fft.rfft2(da.eye(2)).real.round(6).get()
    array([[2., 0.],
           [0., 2.]])
    """
    return _several("rfftn", a, s, axes, norm, out, two=True)


@implements(np.fft.irfft2)
@described_as(irfftn)
def irfft2(
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = (-2, -1),
    norm: str | None = None,
    out: Out = None,
) -> Any:
    """Inverse of :func:`rfft2`.

    Parameters
    ----------
    axes : sequence of int
        The axes, two by default.

    Notes
    -----
    Communication: as for :func:`irfftn`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.fft.irfft2(da.fft.rfft2(da.eye(2))).round(6).get()
    array([[1., 0.],
           [0., 1.]])
    """
    return _several("irfftn", a, s, axes, norm, out, two=True)


def _model(array: DistributedArray) -> Any:
    """An array of the same axes and dtype that NumPy can refuse, or transform, at no cost."""
    return np.zeros([min(size, 2) for size in array.shape], array.dtype)


def _shorter(n: SupportsIndex | None) -> Any:
    """A length that NumPy accepts or refuses as it does `n`, at no cost."""
    return n if n is None else min(operator.index(n), 2)


def _as_precise(array: DistributedArray, out: Out) -> DistributedArray:
    """The array, in the precision of ``out=`` where that is greater: NumPy computes in it."""
    dtype = getattr(single(out), "dtype", array.dtype)
    if array.dtype.kind not in "fc" or dtype.kind not in "fc":
        return array
    return array.astype(np.promote_types(array.dtype, np.empty(0, dtype).real.dtype), copy=False)


def _single(
    kind: str, function: Callable[..., Any], a: ArrayLike, n: Any, axis: Any, norm: str | None, out: Out
) -> Any:
    array = _as_precise(asarray(a), out)
    dtype = function(_model(array), _shorter(n), axis, norm).dtype
    at = operator.index(axis) % array.ndim
    hermitian = function in (np.fft.hfft, np.fft.ihfft)
    scaled = OPPOSITE[norm or "backward"] if hermitian else norm or "backward"
    length = operator.index(n) if n is not None else array.shape[at]
    if n is None and kind in ("irfft", "hfft"):
        length = 2 * (length - 1)
    line = LineTransform(kind, at, length, scaled)
    result = _run(array, [[line]], function.__name__, dtype, out if function is not np.fft.ihfft else None)
    if function is np.fft.ihfft:
        result = np.conjugate(result)
        return result if out is None else deliver(result, _fitting(out, result.shape, dtype))
    return result


def _several(
    name: str,
    a: ArrayLike,
    s: Sequence[int] | None,
    axes: Sequence[int] | None,
    norm: str | None,
    out: Out,
    *,
    two: bool = False,
) -> Any:
    array = _as_precise(asarray(a), out)
    function = getattr(np.fft, name)
    small = None if s is None else [_shorter(n) for n in s]
    dtype = function(_model(array), small, axes, norm).dtype
    if axes is None:
        axes = range(array.ndim) if s is None else range(-len(s), 0)
    order = [operator.index(axis) % array.ndim for axis in axes]
    whole = [array.shape[axis] for axis in order]
    lengths = list(whole)
    if s is not None:
        lengths = [size if n == -1 or n is None else operator.index(n) for n, size in zip(s, whole, strict=True)]
    if name == "irfftn" and (s is None or s[-1] is None):
        lengths[-1] = 2 * (whole[-1] - 1)
    kinds = [{"rfftn": "fft", "irfftn": "ifft"}.get(name, name[:-1])] * len(order)
    if order and name in ("rfftn", "irfftn"):
        kinds[-1] = name[:-1]
    lines = [LineTransform(*row, norm or "backward") for row in zip(kinds, order, lengths, strict=True)]
    return _run(array, _stages(lines, name), name[:-1] + "2" if two else name, dtype, out)


def _stages(lines: Sequence[LineTransform], name: str) -> list[list[LineTransform]]:
    """The lines in the groups whose order matters, each of distinct axes, in NumPy's order."""
    order = list(lines) if name == "irfftn" else list(reversed(lines))
    stages: list[list[LineTransform]] = []
    for line in order:
        last = stages[-1] if stages else None
        free = line.kind in ("fft", "ifft")
        if last and free and last[0].kind == line.kind and line.axis not in [other.axis for other in last]:
            last.append(line)
        else:
            stages.append([line])
    return stages


def _run(array: DistributedArray, stages: list[list[LineTransform]], name: str, dtype: AnyDType, out: Out) -> Any:
    shape = array.shape
    for stage in stages:
        for line in stage:
            shape = line.shape(shape)
    if out is not None:
        out = _fitting(out, shape, dtype)
    context = array._context
    if not stages:
        return deliver(array.astype(dtype, copy=True), out)
    with context.lock:
        context.check()
        if 0 in shape or 0 in array.shape:
            return deliver(zeros(shape, dtype=dtype), out)
        held = transform(context, array._operand(name), stages, name)
        assert held.chunks is not None
        result = from_chunks(context, held.operand.layout, held.chunks, held.operand.dtype)
    if context.kind == "host" and is_loud(dict(np.geterr())):
        _report(array, result, [line.axis for stage in stages for line in stage], stages[0][0].kind)
    return deliver(result if result.dtype == dtype else result.astype(dtype), out)


def _report(array: DistributedArray, result: DistributedArray, axes: Sequence[int], name: str) -> None:
    """Do what the error state asks about an overflow. The library that transforms tells of none: what is not finite in lines of
    finite elements has overflowed, and a NaN from lines without NaN was an invalid operation."""
    along = tuple(sorted(set(axes)))

    def some(found: Any) -> Any:
        return np.any(found, axis=along)

    overflowed = ~some(~np.isfinite(array)) & some(~np.isfinite(result))
    invalid = ~some(np.isnan(array)) & some(np.isnan(result))
    conditions = {"overflow": (overflowed, 2), "invalid value": (invalid, 8)}
    report([(condition, flag) for condition, (lines, flag) in conditions.items() if bool(np.any(lines))], name)


def _fitting(out: Out, shape: tuple[int, ...], dtype: AnyDType) -> Any:
    """An ``out=`` that the result fits, or NumPy's errors."""
    out = single(out)
    check_out(out, "return arrays must be of ArrayType, and out= is of type {}")
    if tuple(out.shape) != shape:
        raise ValueError(f"output array has wrong shape: it is {tuple(out.shape)}, and the result's is {shape}")
    if not np.can_cast(dtype, out.dtype, "same_kind"):
        raise TypeError(f"Cannot cast the result from {dtype!r} to {out.dtype!r} with casting rule 'same_kind'")
    return out
