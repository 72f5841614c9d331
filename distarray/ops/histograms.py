"""Counting: ``histogram`` in one and more dimensions, and ``histogram_bin_edges``.

Each device counts its own elements into bins that all agree on; the counts stay in SUM mode until their values are needed.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence, Sized
from functools import partial
from typing import Any, cast

import numpy as np

from distarray.algorithms.counting import EVEN_BLOCK, counted_evenly, counted_sparsely, is_sparse
from distarray.algorithms.local import aligned, counted
from distarray.array.aliases import ArrayLike, Arrays
from distarray.array.documented import described_as
from distarray.array.functions import implements
from distarray.array.place import as_array, fetched, number_of
from distarray.array.state import DistributedArray, same_context
from distarray.devices.arrays import DeviceArray, Library
from distarray.ops import moments, reductions
from distarray.ops.convert import asarray
from distarray.ops.quantiles import percentile
from distarray.ops.reshaping import ravel
from distarray.sites import call_site, warn_at

__all__ = ["histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]


# --- bins -------------------------------------------------------------------------------------------------------------


def _outer(a: DistributedArray, range: Sequence[float] | None) -> tuple[Any, Any]:
    """The first and the last edge."""
    if range is not None:
        first, last = range
        if first > last:
            raise ValueError("max must be larger than min in range parameter.")
        if not (np.isfinite(first) and np.isfinite(last)):
            raise ValueError(f"supplied range of [{first}, {last}] is not finite")
    elif not a.size:
        first, last = 0, 1
    else:
        low, high = reductions.min(a), reductions.max(a)
        first, last = low.get()[()], high.get()[()]
        if not (np.isfinite(first) and np.isfinite(last)):
            raise ValueError(f"autodetected range of [{first}, {last}] is not finite")
    if first == last:
        first, last = first - 0.5, last + 0.5
    return first, last


def _spread(a: DistributedArray) -> Any:
    high, low = number_of(reductions.max(a)), number_of(reductions.min(a))
    return int(high) - int(low) if a.dtype.kind in "iu" else high - low


def _sqrt(a: DistributedArray, ends: tuple[Any, Any]) -> Any:
    return _spread(a) / np.sqrt(a.size)


def _sturges(a: DistributedArray, ends: tuple[Any, Any]) -> Any:
    return _spread(a) / (np.log2(a.size) + 1.0)


def _rice(a: DistributedArray, ends: tuple[Any, Any]) -> Any:
    return _spread(a) / (2.0 * a.size ** (1.0 / 3))


def _scott(a: DistributedArray, ends: tuple[Any, Any]) -> Any:
    return (24.0 * np.pi**0.5 / a.size) ** (1.0 / 3.0) * number_of(moments.std(a))


def _doane(a: DistributedArray, ends: tuple[Any, Any]) -> Any:
    if a.size <= 2:
        return 0.0
    expected = np.sqrt(6.0 * (a.size - 2) / ((a.size + 1.0) * (a.size + 3)))
    sigma = number_of(moments.std(a))
    if not sigma > 0.0:
        return 0.0
    skew = number_of(moments.mean(((a - moments.mean(a)) / sigma) ** 3))
    return _spread(a) / (1.0 + np.log2(a.size) + np.log2(1.0 + np.absolute(skew) / expected))


def _freedman_diaconis(a: DistributedArray, ends: tuple[Any, Any]) -> Any:
    low, high = percentile(a, [25, 75]).get()
    return 2.0 * (high - low) * a.size ** (-1.0 / 3.0)


def _auto(a: DistributedArray, ends: tuple[Any, Any]) -> Any:
    return min(max(_freedman_diaconis(a, ends), _sqrt(a, ends) / 2), _sturges(a, ends))


def _stone(a: DistributedArray, ends: tuple[Any, Any]) -> Any:
    n, width = a.size, _spread(a)
    if n <= 1 or width == 0:
        return 0

    def loss(bins: int) -> Any:
        share = number_of(histogram(a, bins=bins, range=ends)[0]) / n
        return (2 - (n + 1) * share.dot(share)) / (width / bins)

    most = max(100, int(np.sqrt(n)))
    best = min(range(1, most + 1), key=loss)
    if best == most:
        warn_at(call_site(), "The number of bins estimated may be suboptimal.")
    return width / best


_ESTIMATORS: dict[str, Callable[[DistributedArray, Any], Any]] = {
    "auto": _auto, "doane": _doane, "fd": _freedman_diaconis, "rice": _rice, "scott": _scott, "sqrt": _sqrt,
    "stone": _stone, "sturges": _sturges,
}  # fmt: skip


def _estimated(a: DistributedArray, name: str, range: Any, weights: ArrayLike) -> tuple[int, tuple[Any, Any]]:
    """The number of bins that an estimator of NumPy's finds, and the outer edges."""
    if name not in _ESTIMATORS:
        raise ValueError(f"{name!r} is not a valid estimator for `bins`")
    if weights is not None:
        raise TypeError("Automated estimation of the number of bins is not supported for weighted data")
    first, last = _outer(a, range)
    if range is not None:
        kept = (a >= first) & (a <= last)
        if not bool(reductions.all(kept)):
            a = a[kept]
    width = _ESTIMATORS[name](a, (first, last)) if a.size else 0
    if not width:
        return 1, (first, last)
    if a.dtype.kind in "iu" and width < 1:
        width = 1
    return math.ceil((int(last) - int(first) if a.dtype.kind in "iu" and range is None else last - first) / width), (
        first,
        last,
    )


def _edges(a: DistributedArray, bins: Any, range: Any, weights: Any) -> tuple[Any, Any, Any]:
    """The edges as a host array, and what a local ``histogram`` takes as ``bins`` and ``range`` to use the same ones."""
    if isinstance(bins, str):
        count, ends = _estimated(a, bins, range, weights)
    elif np.ndim(bins) == 0:
        try:
            count = operator.index(bins)
        except TypeError:
            raise TypeError("`bins` must be an integer, a string, or an array") from None
        if count < 1:
            raise ValueError("`bins` must be positive, when an integer")
        ends = _outer(a, range)
    else:
        edges = np.asarray(fetched(bins))
        if edges.ndim != 1:
            raise ValueError("`bins` must be 1d, when an array")
        if (edges[:-1] > edges[1:]).any():
            raise ValueError("`bins` must increase monotonically, when an array")
        return edges, edges, None
    return np.histogram_bin_edges(np.empty(0, a.dtype), count, ends), count, ends


def _sample(a: ArrayLike, *others: Any) -> DistributedArray:
    context = same_context([x for x in (a, *others) if isinstance(x, DistributedArray)])
    x: DistributedArray = as_array(context, a)
    if x.dtype != bool:
        return x
    warn_at(call_site(), f"Converting input from {x.dtype} to {np.uint8} for compatibility.")
    return x.astype(np.uint8)


@implements(np.histogram_bin_edges)
def histogram_bin_edges(
    a: ArrayLike, bins: ArrayLike = 10, range: ArrayLike | None = None, weights: ArrayLike | None = None
) -> DistributedArray:
    """The edges that :func:`histogram` would use.

    Parameters
    ----------
    a : array_like
        Of any shape.
    bins : int, sequence of scalar, or str
        How many of equal width; or their edges; or the name of one of NumPy's estimators.
    range : pair of float, optional
        The outer edges. Default: the extremes.
    weights : array_like, optional
        Of the shape of `a`; only checked.

    Returns
    -------
    DistributedArray

    Notes
    -----
    Communication: the extremes, where `range` is not given; with an estimator's name what it needs, which is that of
    :func:`percentile` for "fd" and "auto", and of 100 histograms or more for "stone".

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.histogram_bin_edges(da.arange(5), 2).tolist()
    [0.0, 2.0, 4.0]
    """
    x = _flat(_sample(a, weights))
    if weights is not None:
        _check_weights(x, a, weights)
    return asarray(_edges(x, bins, range, weights)[0])


def _flat(x: DistributedArray) -> DistributedArray:
    """A sample as it lies: the order of its elements does not matter."""
    return x if x.ndim else ravel(x)


def _check_weights(x: DistributedArray, a: ArrayLike, weights: ArrayLike | None) -> DistributedArray:
    w: DistributedArray = as_array(x._context, weights)
    if w.shape != x.shape and not (w.ndim == 0 and x.shape == (1,)):
        raise ValueError("weights should have the same shape as a.")
    return w if w.ndim else ravel(w)


@implements(np.histogram)
def histogram(
    a: ArrayLike,
    bins: ArrayLike = 10,
    range: ArrayLike | None = None,
    density: bool | None = None,
    weights: ArrayLike | None = None,
) -> tuple[DistributedArray, DistributedArray]:
    """How many elements lie in each of a row of bins.

    Parameters
    ----------
    a : array_like
        Of any shape.
    bins : int, sequence of scalar, or str
        How many of equal width; or their edges; or the name of one of NumPy's estimators.
    range : pair of float, optional
        The outer edges. Default: the extremes.
    density : bool, optional
        The probability density instead of counts.
    weights : array_like, optional
        Of the shape of `a`: what each element counts.

    Returns
    -------
    hist : DistributedArray
        Of ``int64``; with weights of their dtype, with `density` of ``float64``.
    bin_edges : DistributedArray
        One more than there are bins.

    Raises
    ------
    ValueError, TypeError
        As NumPy does, of bins that are none and of a range that is not finite.

    Notes
    -----
    Communication: the extremes, where no range and no edges are given, and what aligns the weights. The counts stay in SUM
    mode until they are needed.

    Memory on each device: its counts; where there are far more bins than elements, its part of them.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     counts, edges = np.histogram(da.asarray([1, 2, 2, 4], layout=da.blocks(0)), bins=3)
    ...     counts.get(), edges.get()
    (array([1, 2, 1]), array([1., 2., 3., 4.]))
    """
    x = _flat(_sample(a, weights))
    w = None if weights is None else _check_weights(x, a, weights)
    edges, count, ends = _edges(x, bins, range, weights)
    context = x._context
    with context.lock:
        source = x._operand("histogram")
        sources = [source.arrays] if w is None else [source.arrays, aligned(w, source.layout)]
        dtype = np.dtype(np.intp) if w is None else w.dtype
        shape = (len(edges) - 1,)
        is_whole_range = range is None and ends is not None and w is None  # no element lies outside

        def local(lib: Library, part: DeviceArray, weight: DeviceArray | None = None) -> Any:
            if is_whole_range and isinstance(part, np.ndarray):
                even = counted_evenly(part, edges)
                if even is not None:
                    return even
            chosen = count if ends is not None else lib.asarray(edges)
            found = lib.histogram(part, chosen, ends, weights=weight)[0]
            return found.astype(dtype, copy=False)

        if is_sparse(shape[0], source.layout):
            number = partial(_numbered, [edges])
            counts = counted_sparsely(context, source.layout, sources, shape, dtype, number, "histogram")
        else:
            counts = counted(context, sources, source.layout, shape, dtype, local, "histogram")
    if density:
        return np.true_divide(counts / np.diff(edges).astype(float), reductions.sum(counts)), asarray(edges)
    return counts, asarray(edges)


def _numbered(edges: Sequence[Any], lib: Library, *sources: Any) -> tuple[Any, ...]:
    """The bins of points, in C order of the grid, and the weights behind the coordinates, of those that lie in a bin."""
    inside: Any = True
    number: Any = 0
    for given, part in zip(edges, sources, strict=False):
        edge = lib.asarray(given)
        inside = inside & (part >= edge[0]) & (part <= edge[-1])
        bins = len(given) - 1
        number = number * bins + lib.clip(lib.searchsorted(edge, part, side="right") - 1, 0, bins - 1)
    return number[inside], *(weight[inside] for weight in sources[len(edges) :])


@implements(np.histogramdd)
def histogramdd(
    sample: Arrays,
    bins: ArrayLike = 10,
    range: ArrayLike | None = None,
    density: bool | None = None,
    weights: ArrayLike | None = None,
) -> tuple[DistributedArray, tuple[DistributedArray, ...]]:
    """How many points of D coordinates lie in each of a grid of bins.

    Parameters
    ----------
    sample : array_like of shape (N, D), or sequence of D arrays of N
    bins : int, sequence of int, or sequence of arrays
        For each dimension, or for all.
    range : sequence of pairs, optional
        The outer edges of each dimension. Default: the extremes.
    density : bool, optional
        The probability density instead of counts.
    weights : array_like, optional
        Of N elements: what each point counts.

    Returns
    -------
    hist : DistributedArray of ``float64`` and D axes
    edges : tuple of DistributedArray

    Notes
    -----
    Communication: extremes, where no range and no edges are given, and what aligns coordinates and weights. The counts stay
    in SUM mode.

    Memory on each device: one whole array of counts; where there are far more than points, its part of it.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     counts, edges = da.histogramdd(da.asarray([[0.0, 0.0], [1.0, 1.0]]), bins=2)
    ...     counts.tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if isinstance(sample, (DistributedArray, np.ndarray)):
        columns = [asarray(sample)]
        if columns[0].ndim == 2:
            columns = [columns[0][:, i] for i in np.arange(columns[0].shape[1]).tolist()]
        elif columns[0].ndim > 2:
            raise ValueError("too many values to unpack (expected 2): sample has more than two axes")
        elif not columns[0].ndim:
            columns = [ravel(columns[0])]
    else:
        context = same_context([x for x in sample if isinstance(x, DistributedArray)])
        columns = [as_array(context, x) for x in sample]
        if columns and not columns[0].ndim:
            columns = [ravel(asarray(cast("ArrayLike", sample)))]
    dimensions = len(columns)
    each: Any = bins
    try:
        if len(each) != dimensions:
            raise ValueError("The dimension of bins must be equal to the dimension of the sample x.")
    except TypeError:
        each = [bins] * dimensions
    ranges: Any = (None,) * dimensions if range is None else range
    if len(ranges) != dimensions:
        raise ValueError("range argument must have one entry per dimension")
    edges = [_grid_edges(i, *given) for i, given in enumerate(zip(columns, each, ranges, strict=True))]
    first = columns[0]
    context = first._context
    with context.lock:
        source = first._operand("histogramdd")
        sources = [source.arrays, *(aligned(x, source.layout) for x in columns[1:])]
        w = None
        if weights is not None:
            w = as_array(context, weights)
            if not np.can_cast(w.dtype, np.float64):
                raise TypeError(
                    f"Cannot cast array data from {w.dtype!r} to {np.dtype(float)!r} according to the rule 'safe'"
                )
            if w.shape != first.shape:
                raise ValueError("The weights and list don't have the same length.")
            sources.append(aligned(w, source.layout))
        shape = tuple([len(e) - 1 for e in edges])

        local = partial(_grid_counts, edges)
        if is_sparse(math.prod(shape), source.layout):
            number, kind = partial(_numbered, edges), np.dtype(float)
            counts = counted_sparsely(context, source.layout, sources, shape, kind, number, "histogramdd")
        else:
            counts = counted(context, sources, source.layout, shape, np.dtype(float), local, "histogramdd")
    if density:
        total = reductions.sum(counts)
        for i, e in enumerate(edges):
            counts = counts / np.diff(e).reshape([-1 if i == axis else 1 for axis in np.arange(dimensions).tolist()])
        counts = counts / total
    return counts, tuple([asarray(e) for e in edges])


def _grid_counts(edges: Sequence[np.ndarray], lib: Library, *parts: DeviceArray) -> Any:
    """The counts of a chunk's points: its coordinates, and their weights where it has some; on the host by blocks."""
    flat, dimensions, total = [part.reshape(-1) for part in parts], len(edges), 0.0
    size = EVEN_BLOCK if isinstance(flat[0], np.ndarray) else max(flat[0].size, 1)
    limits = [lib.asarray(e) for e in edges]
    for start in np.arange(0, flat[0].size, size).tolist():
        block = [part[start : start + size] for part in flat]
        weights = block[dimensions] if len(block) > dimensions else None
        total = total + lib.histogramdd(lib.stack(block[:dimensions], axis=-1), limits, weights=weights)[0]
    return total


def _grid_edges(i: int, column: DistributedArray, bins: Any, range: Sequence[float] | None) -> Any:
    if np.ndim(bins) == 0:
        if bins < 1:
            raise ValueError(f"`bins[{i}]` must be positive, when an integer")
        low, high = _outer(column, range)
        try:
            count = operator.index(bins)
        except TypeError:
            raise TypeError(f"`bins[{i}]` must be an integer, when a scalar") from None
        return np.linspace(low, high, count + 1)
    edges = np.asarray(fetched(bins))
    if edges.ndim != 1:
        raise ValueError(f"`bins[{i}]` must be a scalar or 1d array")
    if (edges[:-1] > edges[1:]).any():
        raise ValueError(f"`bins[{i}]` must be monotonically increasing, when an array")
    return edges


@implements(np.histogram2d)
@described_as(histogramdd)
def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: ArrayLike = 10,
    range: ArrayLike | None = None,
    density: bool | None = None,
    weights: ArrayLike | None = None,
) -> tuple[DistributedArray, DistributedArray, DistributedArray]:
    """How many points (x, y) lie in each of a grid of bins.

    Parameters
    ----------
    x, y : array_like
        Of one length.
    bins : int, pair of int, array_like, or pair of array_like
        How many for each dimension, or for both; or their edges.

    Returns
    -------
    hist : DistributedArray
        Of ``float64`` and two axes.
    x_edges, y_edges : DistributedArray
        Of ``float64``, or as they were given.

    Notes
    -----
    Communication: as of :func:`histogramdd`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.histogram2d(da.asarray([0, 1, 1]), [0, 1, 1], bins=2)[0].tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    if len(cast("Sized", x)) != len(cast("Sized", y)):
        raise ValueError("x and y must have the same length.")
    try:
        count = len(cast("Sized", bins))
    except TypeError:
        count = 1
    if count not in (1, 2):
        bins = [np.asarray(fetched(bins))] * 2
    counts, edges = histogramdd([x, y], bins, range, density, weights)
    return counts, edges[0], edges[1]


# --- counting integers ------------------------------------------------------------------------------------------------
