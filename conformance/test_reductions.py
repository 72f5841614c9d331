"""Reductions over any axis or axes, with keepdims, dtype, out, where and initial, as functions and as methods."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import distarray as da
from conformance.checking import assert_same, both, is_exact
from conformance.contexts import context, examples
from conformance.strategies import BFLOAT16, NUMPY, arrays, axes, axis_sets, device_counts, dtypes, pairs, shapes

#: name -> the keywords it takes besides axis and keepdims
TABLE = {
    "sum": ("dtype", "out", "initial", "where"),
    "prod": ("dtype", "out", "initial", "where"),
    "min": ("out", "initial", "where"),
    "max": ("out", "initial", "where"),
    "any": ("out", "where"),
    "all": ("out", "where"),
    "mean": ("dtype", "out", "where"),
    "var": ("dtype", "out", "ddof", "where"),
    "std": ("dtype", "out", "ddof", "where"),
    "argmin": ("out",),
    "argmax": ("out",),
    "count_nonzero": (),
}
ROUNDED = ("sum", "prod", "mean", "var", "std")


def styles(name: str) -> list[str]:
    """A function dispatched by NumPy, one of the namespace, or a method."""
    return ["np", "da"] if name == "count_nonzero" else ["np", "method", "da"]


def call(style: str, name: str, x: Any, kwargs: dict[str, Any]) -> Any:
    if style == "method":
        return getattr(x, name)(**kwargs)
    return getattr(np if style == "np" else da, name)(x, **kwargs)


def tolerance(name: str, a: np.ndarray, dtype: Any) -> dict[str, Any]:
    """Sums may be rounded in another order: the error is relative to the size of what is added, not of the result."""
    if name in ("min", "max"):
        return {"zero_sign": False, "one_nan": True}  # which of several complex NaNs is found depends on the order
    if name not in ROUNDED:
        return {}
    if dtype is not None and is_exact(np.dtype(dtype)):
        return {}
    with np.errstate(all="ignore"):
        finite = np.where(np.isfinite(a), a, 0).astype(np.complex128)
        top = np.abs(finite).max(initial=1.0)
    scale = {"sum": top, "prod": 0, "mean": top, "var": top**2, "std": top**2}[name]
    # the elements are squared and added in their own dtype or in ``dtype=``, whatever the dtype of ``out=``
    unit = a.dtype if dtype is None else np.dtype(dtype)
    return {"exact": False, "ulps": 16 * max(a.size, 1), "scale": scale, "unit": unit, "squared": name == "std"}


def draw_input(data: st.DataObject, name: str, shape: tuple[int, ...]) -> np.ndarray:
    dtype = data.draw(dtypes(NUMPY))
    # products of complex infinities and half-precision overflow depend on the order: keep away from both
    tame = name in ROUNDED and (dtype.kind == "c" or dtype.itemsize == 2)
    return data.draw(arrays(shape, dtype, extreme=not tame, top=1 if tame and name == "prod" else 3))


@pytest.mark.parametrize("name", TABLE)
@examples(3)
@given(data=st.data(), n=device_counts)
def test_axis_and_keepdims(name, data, n):
    shape = data.draw(shapes(max_size=200))
    a = draw_input(data, name, shape)
    assume(name != "prod" or a.dtype.itemsize > 2 or a.size <= 30)
    kwargs: dict[str, Any] = {}
    if data.draw(st.sampled_from([True, True, False])):
        one = name.startswith("arg")
        kwargs["axis"] = data.draw(axes(a.ndim) if one and a.ndim else st.none() if one else axis_sets(a.ndim))
    if data.draw(st.booleans()):
        kwargs["keepdims"] = data.draw(st.booleans())
    style = data.draw(st.sampled_from(styles(name)))
    with context(n):
        x = data.draw(pairs(a, n)).x
        reference = "np" if style == "da" else style
        both(lambda: call(reference, name, a, kwargs), lambda: call(style, name, x, kwargs), **tolerance(name, a, None))


@pytest.mark.parametrize("name", [name for name in TABLE if TABLE[name]])
@examples(3)
@given(data=st.data(), n=device_counts)
def test_other_keywords(name, data, n):
    shape = data.draw(shapes(max_dims=3, max_size=100))
    a = draw_input(data, name, shape)
    assume(name != "prod" or a.dtype.itemsize > 2 or a.size <= 30)
    ref_kw: dict[str, Any] = {}
    one = name.startswith("arg")
    ref_kw["axis"] = data.draw(axes(a.ndim) if one and a.ndim else st.none() if one else axis_sets(a.ndim))
    if data.draw(st.booleans()):
        ref_kw["keepdims"] = True
    chosen = data.draw(st.sets(st.sampled_from(TABLE[name]), min_size=1))
    if "dtype" in chosen:
        ref_kw["dtype"] = data.draw(st.sampled_from([np.float64, np.complex128] if name in ("mean", "var", "std") else
                                                    [np.float64, np.int32, np.int8, np.float32]))  # fmt: skip
        wide = np.dtype(ref_kw["dtype"]).kind
        assume(a.dtype.kind in "biu" or wide in "fc")  # float to int is undefined out of range
        assume(a.dtype.kind != "c" or wide == "c")
        assume(wide != "c" or a.dtype.kind in "cf")
        # a product that overflows on the way to 0 is 0 or NaN by the order of its factors
        assume(name != "prod" or wide != "f" or not np.abs(np.nan_to_num(a.astype(float))).max(initial=0) >= 1e3)
    if "initial" in chosen:
        ref_kw["initial"] = data.draw(st.sampled_from([0, 1, 2]))
    if "ddof" in chosen:
        ref_kw["ddof"] = data.draw(st.sampled_from([1, 0, 0.5]))
    our_kw = dict(ref_kw)
    with context(n):
        x = data.draw(pairs(a, n)).x
        if "where" in chosen:
            where = data.draw(arrays(data.draw(st.sampled_from([shape, shape[-1:], ()])), bool))
            ref_kw["where"] = where
            our_kw["where"] = data.draw(pairs(where, n)).x if data.draw(st.booleans()) else where
        compare = tolerance(name, a, ref_kw.get("dtype"))
        target = None
        if "out" in chosen:
            try:
                with np.errstate(all="ignore"), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    result = np.asarray(getattr(np, name)(np.ones_like(a), **ref_kw))
            except (TypeError, ValueError):
                result = np.zeros(())
            kind = data.draw(st.sampled_from([result.dtype, result.dtype, np.dtype(np.float64), np.dtype(np.int64)]))
            assume(kind.kind not in "iu" or result.dtype.kind in "biu" or kind == result.dtype)
            assume(kind != np.int64 or a.dtype != np.uint64 or a.max(initial=0) < 2**63)  # NumPy goes through float64
            bad = data.draw(st.sampled_from([False] * 9 + [True]))
            target = data.draw(pairs(np.zeros((2, *result.shape) if bad else result.shape, kind), n, partial=False))
            ref_kw["out"], our_kw["out"] = target.ref, target.x
            assume(kind.itemsize >= result.dtype.itemsize)
        style = data.draw(st.sampled_from(["np", "method"]))  # the namespace's own take the standard's keywords
        got: list[Any] = []

        def ours() -> Any:
            got.append(call(style, name, x, our_kw))
            return got[0]

        if both(lambda: call(style, name, a, ref_kw), ours, **compare) and target is not None:
            assert got[0] is target.x
        if target is not None:
            assert_same(target.base_x, target.base_ref, **compare)


@examples(2)
@given(data=st.data(), n=device_counts)
def test_axes_out_of_range_and_repeated(data, n):
    name = data.draw(st.sampled_from(sorted(TABLE)))
    shape = data.draw(shapes(max_dims=2, max_size=20).filter(lambda s: 0 not in s))
    a = data.draw(arrays(shape, "int64", extreme=False))
    axis = data.draw(st.sampled_from([a.ndim, -a.ndim - 1, (0, 0), (0, -a.ndim), (0, a.ndim), 1.0, "x"]))
    assume(not (name.startswith("arg") and isinstance(axis, tuple)))
    with context(n):
        x = data.draw(pairs(a, n)).x
        both(lambda: getattr(np, name)(a, axis=axis), lambda: getattr(np, name)(x, axis=axis))


@examples(2)
@given(data=st.data(), n=device_counts)
def test_ties_and_nans_of_argmin_argmax(data, n):
    """The first of equal values, the first NaN: whatever device holds it."""
    dtype = data.draw(dtypes(NUMPY))
    a = data.draw(arrays(data.draw(shapes(min_dims=1, max_dims=3, max_size=100)), dtype, top=1))
    if dtype.kind in "f":
        a = np.round(a)
    axis = data.draw(st.none() | axes(a.ndim))
    with context(n):
        x = data.draw(pairs(a, n)).x
        for name in ("argmin", "argmax"):
            both(lambda: getattr(np, name)(a, axis=axis), lambda: getattr(np, name)(x, axis=axis))  # noqa: B023 - called at once


@given(data=st.data(), n=device_counts)
def test_bfloat16(data, n):
    name = data.draw(st.sampled_from(["min", "max", "any", "all", "sum"]))
    a = data.draw(arrays(data.draw(shapes(max_dims=2, max_size=30)), BFLOAT16, top=2))
    axis = data.draw(axis_sets(a.ndim))
    with context(n):
        x = data.draw(pairs(a, n)).x
        f = getattr(np, name)
        both(lambda: f(a, axis=axis), lambda: f(x, axis=axis), **tolerance(name, a, None))


@examples(2)
@given(data=st.data(), n=device_counts)
def test_reductions_of_partial_arrays_and_expressions(data, n):
    """A reduction after a reduction, or of a recorded expression, folds each value once."""
    a = data.draw(arrays(data.draw(shapes(min_dims=2, max_dims=3, max_size=120)), data.draw(dtypes(NUMPY[1:9]))))
    first, second = data.draw(axes(a.ndim)), data.draw(axes(a.ndim - 1))
    f, g = (data.draw(st.sampled_from(["sum", "max", "min", "prod"])) for _ in range(2))
    with context(n):
        x = data.draw(pairs(a, n)).x
        both(
            lambda: getattr(np, g)(getattr(np, f)(a + 1, axis=first), axis=second),
            lambda: getattr(np, g)(getattr(np, f)(x + 1, axis=first), axis=second),
        )
        both(
            lambda: getattr(np, f)(a, axis=first) * 2 - 1,
            lambda: getattr(np, f)(x, axis=first) * 2 - 1,
        )


@given(data=st.data(), n=device_counts)
def test_results_do_not_alias(data, n):
    """A reduction over nothing (an axis of length one, no axes) is a new array all the same."""
    a = data.draw(arrays((1, *data.draw(shapes(min_dims=1, max_dims=1))), "int64"))
    name = data.draw(st.sampled_from(["sum", "max", "prod"]))
    axis = data.draw(st.sampled_from([0, ()]))
    with context(n):
        pair = data.draw(pairs(a, n))
        y = getattr(pair.x, name)(axis=axis)
        y[...] = 7
        assert_same(pair.base_x, pair.base_ref)
