"""NumPy's functions that are made of others, one row of a table each: any layout, mode and number of devices, against NumPy."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy._core import _umath_tests as gufuncs

import distarray as da
from conformance.checking import assert_same, both, on_gpu, outcome
from conformance.contexts import context, examples
from conformance.ranks import SHARES, on_ranks
from conformance.strategies import (
    BOOL,
    COMPLEX,
    FLOATS,
    INTEGERS,
    SIGNED,
    arrays,
    axes,
    axis_sets,
    device_counts,
    distributed,
    dtypes,
    layouts,
    shapes,
)

REAL = BOOL + INTEGERS + FLOATS + [np.dtype("float16")]
ANY = REAL + COMPLEX
FLOATING = FLOATS + COMPLEX + [np.dtype("float16")]

Draw = Callable[[Any], Any]
Case = tuple[list[np.ndarray], Callable[..., Any]]
"""The arrays that are placed, and the call."""

ROUNDED: dict[str, Any] = {"exact": False, "ulps": 64, "scale": 400.0}
EXACT: dict[str, Any] = {"zero_sign": False}


def listed(result: Any) -> Any:
    """A result with tuples for lists."""
    return tuple(map(listed, result)) if isinstance(result, (list, tuple)) else result


def one(draw: Draw, among: Any = ANY, min_dims: int = 0, max_dims: int = 3, **kwargs: Any) -> np.ndarray:
    """An array of any shape."""
    shape = draw(shapes(min_dims=min_dims, max_dims=max_dims, max_size=120))
    return draw(arrays(shape=shape, dtype=draw(dtypes(among)), **kwargs))


def line(draw: Draw, among: Any = ANY, low: int = 0, high: int = 24, **kwargs: Any) -> np.ndarray:
    """An array of one axis."""
    return draw(arrays(shape=(draw(st.integers(low, high)),), dtype=draw(dtypes(among)), **kwargs))


def pick(draw: Draw, *options: Any) -> Any:
    return draw(st.sampled_from(options))


# --- reductions without NaN -------------------------------------------------------------------------------------------


def reducing(name: str) -> Callable[[Draw], Case]:
    def case(draw: Draw) -> Case:
        x = one(draw, FLOATING[:-1] + INTEGERS[:3])
        axis, keep = draw(axis_sets(x.ndim)), pick(draw, True, False)
        if name.startswith("nanarg"):
            axis = axis if isinstance(axis, int) else None
        if name.startswith("nancum"):
            axis = axis if isinstance(axis, int) else None
            return [x], lambda x: getattr(np, name)(x, axis)
        return [x], lambda x: getattr(np, name)(x, axis, keepdims=keep)

    return case


def nan_masked(draw: Draw) -> Case:
    x = one(draw, FLOATS, 1)
    mask = draw(arrays(shape=x.shape, dtype=bool))
    name = pick(draw, "nansum", "nanmean", "nanvar", "nanstd", "nanmin", "nanmax")
    extra = {"initial": 2.0} if name == "nansum" else {}
    if name in ("nanmin", "nanmax"):
        extra = {"initial": pick(draw, 3.0, np.nan)}
    return [x, mask], lambda x, mask: getattr(np, name)(x, 0, where=mask, **extra)


# --- medians and quantiles --------------------------------------------------------------------------------------------

METHODS = ("inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull",
           "linear", "median_unbiased", "normal_unbiased", "lower", "higher", "midpoint", "nearest")  # fmt: skip


def medians(name: str) -> Callable[[Draw], Case]:
    def case(draw: Draw) -> Case:
        x = one(draw, INTEGERS + FLOATS + [np.dtype("float16")], extreme=False)
        if x.dtype.kind == "f" and x.size and pick(draw, True, False, False):
            x.reshape(-1)[:: draw(st.integers(1, 3))] = np.nan
        axis, keep = draw(axis_sets(x.ndim)) if x.size else None, pick(draw, True, False)
        return [x], lambda x: getattr(np, name)(x, axis, keepdims=keep)

    return case


def quantiles(name: str) -> Callable[[Draw], Case]:
    def case(draw: Draw) -> Case:
        x = one(draw, SIGNED + FLOATS, extreme=False)
        if x.dtype.kind == "f" and x.size and pick(draw, True, False, False):
            x.reshape(-1)[1 :: draw(st.integers(1, 4))] = np.nan  # where all are NaN, NumPy's dtype depends on that
        axis, keep = draw(axis_sets(x.ndim)) or None if x.size else None, pick(draw, True, False)
        many = [0.4] if name.startswith("nan") else [[0.1, 0.9]]  # NumPy moves axes wrongly there
        q = pick(draw, 0.5, [0.25], [0.0, 0.3, 1.0], many, 1, 0, np.float64(0.75))
        if isinstance(q, np.float64) and x.dtype.kind == "f" and np.isnan(x).any():
            q = float(q)  # NumPy's dtype would depend on the NaN
        q = q if "quantile" in name else np.multiply(q, 100).tolist()
        method = pick(draw, *METHODS)
        return [x], lambda x: getattr(np, name)(x, q, axis, method=method, keepdims=keep)

    return case


def weighted_quantile(draw: Draw) -> Case:
    x = one(draw, SIGNED[2:] + FLOATS, 1, extreme=False)
    axis = draw(axes(x.ndim))
    w = np.abs(draw(arrays(shape=(x.shape[axis],), dtype=pick(draw, "float64", "int64"), extreme=False))) + 1
    q = pick(draw, 0.5, [0.0, 0.3, 1.0])
    name = pick(draw, "quantile", "nanquantile")
    w = np.broadcast_to(w, x.shape).copy() if axis in (-1, x.ndim - 1) and name == "nanquantile" else w
    name = name if w.shape == x.shape else "quantile"
    return [x, w], lambda x, w: getattr(np, name)(x, q, axis, method="inverted_cdf", weights=w)


# --- statistics -------------------------------------------------------------------------------------------------------


def average(draw: Draw) -> Case:
    x = one(draw, REAL[1:-1] + COMPLEX, 1, extreme=False)
    axis = draw(axis_sets(x.ndim))
    shape = x.shape if pick(draw, True, False) or not isinstance(axis, int) else (x.shape[axis],)
    w = np.abs(draw(arrays(shape=shape, dtype=pick(draw, "float64", "int64", "float32"), extreme=False))) + 1
    returned = pick(draw, True, False)
    return [x, w], lambda x, w: np.average(x, axis, w, returned)


def covariance(draw: Draw) -> Case:
    x = draw(arrays(shape=(draw(st.integers(1, 5)), draw(st.integers(2, 9))), dtype=draw(dtypes(SIGNED[2:] + FLOATS + COMPLEX)),
                    extreme=False))  # fmt: skip
    rowvar, bias, ddof = pick(draw, True, False), pick(draw, True, False), pick(draw, None, 0, 1)
    f = np.arange(1, x.shape[1 if rowvar else 0] + 1)
    kind = pick(draw, "plain", "weights", "f", "y")
    if kind == "weights":
        return [x, f / 3], lambda x, f: np.cov(x, rowvar=rowvar, aweights=f, ddof=ddof)
    if kind == "f":
        return [x, f], lambda x, f: np.cov(x, rowvar=rowvar, fweights=f, bias=bias)
    if kind == "y":
        return [x], lambda x: np.cov(x, x[::-1], rowvar=rowvar, bias=bias)
    return [x], lambda x: np.cov(x, rowvar=rowvar, bias=bias, ddof=ddof)


def corrcoef(draw: Draw) -> Case:
    x = draw(arrays(shape=(draw(st.integers(1, 4)), 6), dtype=draw(dtypes(FLOATS + COMPLEX)), extreme=False))
    return [x], lambda x: np.corrcoef(x)


# --- histograms -------------------------------------------------------------------------------------------------------


def histogram(draw: Draw) -> Case:
    x = one(draw, INTEGERS + FLOATS, extreme=False)
    bins = pick(
        draw, 1, 7, [-3, 0, 1, 4], np.linspace(-5, 5, 6), "sqrt", "sturges", "rice", "auto", "fd", "scott", "doane"
    )
    limits = None if isinstance(bins, str) else pick(draw, None, (-4, 4), (0, 2.5))
    density = pick(draw, None, True)
    if not isinstance(bins, str) and pick(draw, True, False):
        w = draw(arrays(shape=x.shape, dtype=pick(draw, "float64", "int64", "complex128"), extreme=False))
        return [x, w], lambda x, w: np.histogram(x, bins, limits, None, w)
    return [x], lambda x: np.histogram(x, bins, limits, density)


def histogram2d(draw: Draw) -> Case:
    x, y = (draw(arrays(shape=(draw(st.just(11)),), dtype="float64", extreme=False)) for _ in range(2))
    bins = pick(draw, 3, (2, 4), [-5, 0, 5], ([-1, 0, 2], 3))
    density = pick(draw, None, True)
    return [x, y], lambda x, y: np.histogram2d(x, y, bins, None, density)


def histogramdd(draw: Draw) -> Case:
    x = draw(
        arrays(
            shape=(draw(st.integers(1, 20)), draw(st.integers(1, 3))),
            dtype=pick(draw, "float64", "int32"),
            extreme=False,
        )
    )
    w = np.arange(x.shape[0]) / 4
    return [x, w], lambda x, w: np.histogramdd(x, 3, weights=w)


def bin_edges(draw: Draw) -> Case:
    x = one(draw, INTEGERS + FLOATS, extreme=False)
    bins = pick(draw, 5, "auto", "sqrt")
    return [x], lambda x: np.histogram_bin_edges(x, bins)


def bincount(draw: Draw) -> Case:
    x = np.abs(line(draw, INTEGERS, extreme=False))
    if x.dtype.itemsize == 1 or x.dtype.kind == "i":  # of wider unsigned ones, 0 - 1 asks for gigabytes
        x = x - x.dtype.type(pick(draw, 0, 0, 1))
    least = pick(draw, 0, 3, 30, 70_000)
    if pick(draw, True, False):
        return [x, np.arange(x.size) / 8], lambda x, w: np.bincount(x, w, least)
    return [x], lambda x: np.bincount(x, minlength=least)


def digitize(draw: Draw) -> Case:
    x = one(draw, SIGNED + FLOATS, 1)
    edges = np.array(pick(draw, [-2, 0, 1.5], [3, 1, -1], [0, 0, 1], [1, 2, 0]))
    right = pick(draw, True, False)
    return [x, edges], lambda x, edges: np.digitize(x, edges, right)


# --- neighbours -------------------------------------------------------------------------------------------------------


def convolution(name: str) -> Callable[[Draw], Case]:
    def case(draw: Draw) -> Case:
        kind = draw(dtypes(BOOL + SIGNED[1:] + FLOATS + COMPLEX))
        a, v = (draw(arrays(shape=(draw(st.integers(0, top)),), dtype=kind, extreme=False)) for top in (20, 9))
        a, v = (v, a) if pick(draw, True, False, False) else (a, v)
        mode = pick(draw, "full", "same", "valid")
        return [a, v], lambda a, v: getattr(np, name)(a, v, mode)

    return case


def gradient(draw: Draw) -> Case:
    x = one(draw, INTEGERS[:4] + FLOATING, 1, extreme=False)
    axis = draw(axes(x.ndim))
    order = pick(draw, 1, 2)
    step = pick(draw, (), (2.0,), (3,), (np.cumsum(np.arange(1, x.shape[axis] + 1)) / 2,))
    return [x], lambda x: np.gradient(x, *step, axis=axis, edge_order=order)


def gradients(draw: Draw) -> Case:
    x = one(draw, FLOATS, 2, extreme=False)
    return [x], lambda x: listed(np.gradient(x))


def trapezoid(draw: Draw) -> Case:
    y = one(draw, SIGNED + FLOATS, 1, extreme=False)
    axis = draw(axes(y.ndim))
    if pick(draw, True, False):
        return [y, np.arange(y.shape[axis]) ** 2.0], lambda y, x: np.trapezoid(y, x, axis=axis)
    return [y], lambda y: np.trapezoid(y, dx=0.5, axis=axis)


def unwrap(draw: Draw) -> Case:
    x = one(draw, SIGNED[2:] + FLOATS, 1, extreme=False)
    axis = draw(axes(x.ndim))
    extra = pick(draw, {}, {"period": 4}, {"discont": 5.0}, {"period": 5.0})
    return [x], lambda x: np.unwrap(x, axis=axis, **extra)


def interp(draw: Draw) -> Case:
    x = one(draw, SIGNED + FLOATS, extreme=False)
    xp = np.array([-4.0, -1.0, 0.0, 2.5, 6.0])
    fp = pick(draw, xp**2, xp * 1j, np.arange(5))
    extra = pick(draw, {}, {"left": -7}, {"right": 1.5, "left": 0.0}, {"period": 7.0})
    return [x, fp], lambda x, fp: np.interp(x, xp, fp, **extra)


# --- matrices ---------------------------------------------------------------------------------------------------------


def diag(draw: Draw) -> Case:
    x = one(draw, ANY, 1, 2)
    k = draw(st.integers(-3, 3))
    return [x], lambda x: np.diag(x, k)


def diagflat(draw: Draw) -> Case:
    x = one(draw, ANY, 1, 2)
    return [x], lambda x: np.diagflat(x, 1) if x.size < 40 else np.diag(x.reshape(-1)[:5])


def fill_diagonal(draw: Draw) -> Case:
    n = draw(st.integers(1, 5))
    shape = pick(draw, (n, n), (n, 3), (2 * n + 3, 3), (n, n, n))
    x = draw(arrays(shape=shape, dtype=draw(dtypes(ANY)), extreme=False))
    value, wrap = pick(draw, 1, [1, 0], np.arange(2)), pick(draw, True, False)

    def call(x: Any) -> Any:
        x = x.copy()
        np.fill_diagonal(x, value, wrap)
        return x

    return [x], call


def vander(draw: Draw) -> Case:
    x = line(draw, ANY, 0, 9, extreme=False, top=3)
    n, up = pick(draw, None, 0, 1, 4), pick(draw, True, False)
    return [x], lambda x: np.vander(x, n, up)


def kron(draw: Draw) -> Case:
    kind = draw(dtypes(ANY))
    a, b = (draw(arrays(shape=draw(shapes(max_dims=2, max_size=12)), dtype=kind, extreme=False)) for _ in range(2))
    return [a, b], lambda a, b: np.kron(a, b)


def triangle_indices(draw: Draw) -> Case:
    x = one(draw, ANY, 2, 2)
    name, k = pick(draw, "tril_indices_from", "triu_indices_from"), pick(draw, 0, 1, -1)
    return [x], lambda x: getattr(np, name)(x, k)


# --- editing ----------------------------------------------------------------------------------------------------------


def delete(draw: Draw) -> Case:
    x = one(draw, ANY)
    axis = draw(axes(x.ndim)) if x.ndim and pick(draw, True, True, False) else None
    n = x.size if axis is None else x.shape[axis]
    mask = np.arange(n) % 3 == 0
    obj = pick(
        draw, 0, -1, n, slice(1, 4), slice(None, None, -2), [0, -1], [1], [], mask, slice(3, 1), np.array([0, 0])
    )
    return [x], lambda x: np.delete(x, obj, axis)


def insert(draw: Draw) -> Case:
    x = one(draw, ANY)
    axis = draw(axes(x.ndim)) if x.ndim and pick(draw, True, True, False) else None
    obj = pick(draw, 0, -1, 2, slice(0, 2), [0, 1], [1], [], [1, 1, 0])
    value = pick(draw, 1, [5, 6], [[1]])
    return [x], lambda x: np.insert(x, obj, value, axis)


def trim_zeros(draw: Draw) -> Case:
    x = one(draw, INTEGERS + FLOATS, 1, 2, top=1, extreme=False)
    if x.dtype.kind == "f":
        x = np.round(x)
    trim = pick(draw, "fb", "f", "b")
    return [x], lambda x: np.trim_zeros(x, trim)


def resize(draw: Draw) -> Case:
    x = one(draw)
    shape = pick(draw, 5, (2, 3), (0, 2), (4, 4), ())
    return [x], lambda x: np.resize(x, shape)


def choose(draw: Draw) -> Case:
    a = one(draw, SIGNED, extreme=False, top=4)
    mode = pick(draw, "wrap", "clip", "raise")
    a = a % a.dtype.type(3) if mode == "raise" else a
    return [a], lambda a: np.choose(a, [a, 10 * a.astype(float), -1], mode=mode)


def select(draw: Draw) -> Case:
    x = one(draw, SIGNED + FLOATS)
    return [x], lambda x: np.select([x > 3, x < 0], [x, x * 2], pick_default)


pick_default = 7


def piecewise(draw: Draw) -> Case:
    x = one(draw, SIGNED + FLOATS, 1, extreme=False)
    return [x], lambda x: np.piecewise(x, [x > 3, x < 0], [lambda v: v + 1, -1, lambda v: v * 2])


def put_along_axis(draw: Draw) -> Case:
    x = one(draw, ANY, 1, extreme=False)
    axis = draw(axes(x.ndim))
    n = x.shape[axis]
    turn = np.argsort(x, axis=axis)
    index = turn[tuple(slice(None, 2) if i == axis % x.ndim else slice(None) for i in range(x.ndim))]
    value = pick(draw, 1, np.array(3))
    assert n >= 0

    def call(x: Any, index: Any) -> Any:
        x = x.copy()
        np.put_along_axis(x, index, value, axis)
        return x

    return [x, index], call


def ix_(draw: Draw) -> Case:
    a, b = line(draw, SIGNED, 0, 5), line(draw, BOOL, 0, 6)
    return [a, b], lambda a, b: np.ix_(a, b)


def unravel(draw: Draw) -> Case:
    x = one(draw, SIGNED, extreme=False)
    x = np.abs(x) if pick(draw, True, True, False) else x
    order = pick(draw, "C", "F")
    return [x], lambda x: np.unravel_index(x, (2, 3, 4), order)


def ravel_multi(draw: Draw) -> Case:
    x = one(draw, SIGNED, extreme=False)
    mode, order = pick(draw, "wrap", "clip", ("clip", "wrap")), pick(draw, "C", "F")
    return [x], lambda x: np.ravel_multi_index((x, x * 2), (4, 5), mode, order)


def packbits(draw: Draw) -> Case:
    x = one(draw, BOOL + INTEGERS)
    axis = draw(axes(x.ndim)) if x.ndim and pick(draw, True, False) else None
    order = pick(draw, "big", "little")
    return [x], lambda x: np.packbits(x, axis, order)


def unpackbits(draw: Draw) -> Case:
    x = one(draw, [np.dtype("uint8")])
    axis = draw(axes(x.ndim)) if x.ndim and pick(draw, True, False) else None
    order, count = pick(draw, "big", "little"), pick(draw, None, 3, -1, 40)
    count = count if x.size else None  # NumPy returns memory as it is there
    return [x], lambda x: np.unpackbits(x, axis, count, order)


# --- borders, lines, windows ------------------------------------------------------------------------------------------


def pad(draw: Draw) -> Case:
    x = one(draw, ANY, 0, 3, extreme=False)
    widths = pick(draw, 1, (2, 0), [(draw(st.integers(0, 4)), draw(st.integers(0, 3))) for _ in range(x.ndim)], 9)
    mode, extra = pick(
        draw,
        ("constant", {}), ("constant", {"constant_values": (1, 2)}), ("edge", {}), ("linear_ramp", {}),
        ("linear_ramp", {"end_values": (2, 3)}), ("maximum", {}), ("minimum", {"stat_length": 2}), ("mean", {}),
        ("mean", {"stat_length": (1, 3)}), ("median", {}), ("reflect", {}), ("reflect", {"reflect_type": "odd"}),
        ("symmetric", {}), ("symmetric", {"reflect_type": "odd"}), ("wrap", {}), ("edge", {"stat_length": 1}),
    )  # fmt: skip
    if mode in ("reflect", "symmetric") and extra and x.dtype.kind in "b":
        extra = {}
    return [x], lambda x: np.pad(x, widths, mode, **extra)


def pad_function(draw: Draw) -> Case:
    x = one(draw, SIGNED + FLOATS, 1, 2, extreme=False)

    def border(vector: Any, widths: Any, axis: int, kwargs: Any) -> None:
        vector[: widths[0]] = axis + 5
        vector[len(vector) - widths[1] :] = vector.sum()

    return [x], lambda x: np.pad(x, ((1, 2),) * x.ndim, border)


def along(draw: Draw) -> Case:
    x = one(draw, SIGNED + FLOATS, 1, extreme=False)
    axis = draw(axes(x.ndim))
    function = pick(draw, lambda v: v[::-1], lambda v: v.sum(), lambda v: np.outer(v, [1.0, 2.0]), lambda v: v[:1] * 2)
    return [x], lambda x: np.apply_along_axis(function, axis, x)


def general_ufunc(draw: Draw) -> Case:
    """A generalised ufunc that is not of NumPy's namespace."""
    x = one(draw, FLOATS, 2, extreme=False)
    axis = draw(axes(x.ndim))
    return [x], pick(
        draw,
        lambda x: gufuncs.innerwt(x, x[:1], x, axis=axis),
        lambda x: gufuncs.matrix_multiply(x, np.swapaxes(x, -1, -2)),
    )


def over_lines(draw: Draw) -> Case:
    x = one(draw, SIGNED + FLOATS, 1, extreme=False)

    def call(x: Any) -> Any:
        library: Any = da if isinstance(x, da.DistributedArray) else np
        return library.vectorize(lambda v, w: (v.sum() + w, v[::-1]), signature="(n),()->(),(n)")(x, x[..., 0])

    return [x], call


def over_axes(draw: Draw) -> Case:
    x = one(draw, SIGNED + FLOATS, 1, extreme=False)
    which = sorted({draw(axes(x.ndim)) % x.ndim for _ in range(2)})
    return [x], lambda x: np.apply_over_axes(np.sum, x, which)


def windows(draw: Draw) -> Case:
    x = one(draw, ANY, 1)
    axis = draw(axes(x.ndim))
    width = draw(st.integers(1, 3))
    return [x], lambda x: np.lib.stride_tricks.sliding_window_view(x, width, axis)


# --- numbers ----------------------------------------------------------------------------------------------------------


def number(name: str, among: Any = ANY, **kwargs: Any) -> Callable[[Draw], Case]:
    def case(draw: Draw) -> Case:
        return [one(draw, among, **kwargs)], getattr(np, name)

    return case


def nan_to_num(draw: Draw) -> Case:
    x = one(draw)
    extra = pick(draw, {}, {"nan": 3}, {"posinf": 9, "neginf": -9})
    return [x], lambda x: np.nan_to_num(x, **extra)


def emath(name: str) -> Callable[[Draw], Case]:
    def case(draw: Draw) -> Case:
        x = one(draw, SIGNED + FLOATS + COMPLEX, extreme=False)
        return [x], getattr(np.emath, name)

    return case


def emath_two(draw: Draw) -> Case:
    x = one(draw, SIGNED[2:] + FLOATS, extreme=False)
    name = pick(draw, "logn", "power")
    if name == "logn" and on_gpu():
        x = x.astype(
            np.float64
        )  # NumPy divides a narrow logarithm in double precision, and a GPU's differs in its last bit
    return [x], lambda x: np.emath.logn(2, x) if name == "logn" else np.emath.power(x, 2)


# --- polynomials ------------------------------------------------------------------------------------------------------


def polyval(draw: Draw) -> Case:
    p, x = line(draw, SIGNED + FLOATS, 0, 5, extreme=False), one(draw, SIGNED + FLOATS, extreme=False)
    return [p, x], lambda p, x: np.polyval(p, x)


def polyfit(draw: Draw) -> Case:
    n = draw(st.integers(4, 12))
    x = np.linspace(-1, 1, n)
    y = draw(arrays(shape=pick(draw, (n,), (n, 2)), dtype="float64", extreme=False))
    w = np.arange(1, n + 1) / n
    return pick(draw, ([x, y], lambda x, y: np.polyfit(x, y, 2)), ([x, y, w], lambda x, y, w: np.polyfit(x, y, 1, w=w)))


def coefficients(draw: Draw) -> Case:
    a, b = (line(draw, SIGNED[2:] + FLOATS, 1, 5, extreme=False) for _ in range(2))
    a[0], b[0] = 1, 2
    name = pick(draw, "polyadd", "polysub", "polymul", "polydiv", "polyder", "polyint", "poly")
    if name in ("polyder", "polyint", "poly"):
        return [a], getattr(np, name)
    return [a, b], getattr(np, name)


CASES: dict[str, tuple[Callable[[Draw], Case], dict[str, Any]]] = {
    **{name: (reducing(name), ROUNDED) for name in (
        "nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmin", "nanmax", "nanargmin", "nanargmax", "nancumsum",
        "nancumprod")},
    "nan_masked": (nan_masked, ROUNDED),
    **{name: (medians(name), ROUNDED) for name in ("median", "nanmedian")},
    **{name: (quantiles(name), ROUNDED) for name in ("quantile", "percentile", "nanquantile", "nanpercentile")},
    "weighted_quantile": (weighted_quantile, ROUNDED),
    "average": (average, ROUNDED), "cov": (covariance, ROUNDED), "corrcoef": (corrcoef, {"exact": False, "ulps": 1e4}),
    "histogram": (histogram, ROUNDED), "histogram2d": (histogram2d, ROUNDED), "histogramdd": (histogramdd, ROUNDED),
    "histogram_bin_edges": (bin_edges, ROUNDED), "bincount": (bincount, ROUNDED), "digitize": (digitize, EXACT),
    "convolve": (convolution("convolve"), ROUNDED), "correlate": (convolution("correlate"), ROUNDED),
    "gradient": (gradient, ROUNDED), "gradients": (gradients, ROUNDED), "trapezoid": (trapezoid, ROUNDED),
    "unwrap": (unwrap, ROUNDED), "interp": (interp, ROUNDED),
    "diag": (diag, EXACT), "diagflat": (diagflat, EXACT), "fill_diagonal": (fill_diagonal, EXACT),
    "vander": (vander, ROUNDED), "kron": (kron, ROUNDED), "triangle_indices": (triangle_indices, EXACT),
    "delete": (delete, EXACT), "insert": (insert, EXACT), "trim_zeros": (trim_zeros, EXACT), "resize": (resize, EXACT),
    "choose": (choose, EXACT), "select": (select, EXACT), "piecewise": (piecewise, EXACT),
    "put_along_axis": (put_along_axis, EXACT), "ix_": (ix_, EXACT), "unravel_index": (unravel, EXACT),
    "ravel_multi_index": (ravel_multi, EXACT), "packbits": (packbits, EXACT), "unpackbits": (unpackbits, EXACT),
    "pad": (pad, ROUNDED), "pad_function": (pad_function, ROUNDED), "apply_along_axis": (along, ROUNDED),
    "general_ufunc": (general_ufunc, ROUNDED), "over_lines": (over_lines, ROUNDED),
    "apply_over_axes": (over_axes, ROUNDED), "sliding_window_view": (windows, EXACT),
    **{name: (number(name), EXACT) for name in ("isreal", "iscomplex", "real_if_close", "isposinf", "isneginf")},
    "fix": (number("fix", REAL), EXACT), "sinc": (number("sinc", REAL + COMPLEX, extreme=False), ROUNDED),
    "i0": (number("i0", REAL, extreme=False), ROUNDED), "nan_to_num": (nan_to_num, EXACT),
    **{f"emath.{name}": (emath(name), ROUNDED) for name in (
        "sqrt", "log", "log2", "log10", "arccos", "arcsin", "arctanh")},
    "emath.two": (emath_two, ROUNDED),
    "polyval": (polyval, {"exact": False, "ulps": 64, "scale": 1e6}),
    "polyfit": (polyfit, {"exact": False, "ulps": 1e5, "scale": 10.0}),
    "coefficients": (coefficients, {"exact": False, "ulps": 64, "scale": 400.0}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@examples(0.4)
@given(data=st.data(), n=device_counts)
def test_function(name, data, n):
    make, how = CASES[name]
    hosts, call = make(data.draw)
    placed = [data.draw(distributed(a, n)) for a in hosts]
    with context(n):
        both(lambda: listed(call(*[a.copy() for a in hosts])), lambda: listed(call(*placed)), **how)


def fetched(result: Any) -> Any:
    """Distributed results as NumPy's."""
    if isinstance(result, tuple):
        return tuple(map(fetched, result))
    return result.get() if isinstance(result, da.DistributedArray) else np.asarray(result)


@pytest.mark.parametrize("name", CASES)
@examples(0.1)
@given(data=st.data())
def test_function_on_ranks(name, data):
    """Simulated processes find what NumPy finds, or all of them raise."""
    make, how = CASES[name]
    hosts, call = make(data.draw)
    shares = data.draw(st.sampled_from(SHARES))
    placements = [data.draw(layouts(a.shape, sum(shares))) for a in hosts]

    def program() -> Any:
        placed = [da.asarray(a, layout=placement) for a, placement in zip(hosts, placements, strict=True)]
        try:
            with np.errstate(all="ignore"):
                found = fetched(listed(call(*placed)))
        except (ValueError, TypeError, IndexError, ArithmeticError) as error:
            assert float(da.ones(4).sum()) == 4.0  # and go on
            return type(error).__name__, None
        return None, found

    wanted, error = outcome(lambda: listed(call(*[a.copy() for a in hosts])))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        answers = on_ranks(shares, program)
    for raised, got in answers:
        assert (raised is None) == (error is None), f"NumPy: {error!r}, here: {raised}"
        if error is None:
            assert_same(got, wanted, local=True, **how)
