"""array-api-strict as a second oracle: values, dtypes and refusals of the functions that it and distarray both have.

NumPy is more lenient than the standard (it adds booleans, for one). What only the standard refuses may be refused with
TypeError or answered as NumPy does; what NumPy refuses as well must raise TypeError.
"""

from __future__ import annotations

import warnings
from typing import Any

import array_api_strict as xp
import numpy as np
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

import distarray as da
from conformance.checking import allowed, assert_same, on_gpu
from conformance.contexts import context, examples
from conformance.strategies import (
    COMPLEX,
    FLOATS,
    STANDARD,
    arrays,
    axes,
    axis_sets,
    broadcastable,
    device_counts,
    dtypes,
    pairs,
    shapes,
)

UNARY = """
    abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite isinf isnan log
    log10 log1p log2 logical_not negative positive real reciprocal round sign signbit sin sinh sqrt square tan tanh
    trunc
"""
BINARY = """
    add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal
    floor_divide greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum
    minimum multiply nextafter not_equal pow remainder subtract
"""
STATISTICAL = "sum prod mean var std max min any all argmax argmin count_nonzero cumulative_sum cumulative_prod"
MANIPULATION = """
    reshape permute_dims squeeze expand_dims flip roll moveaxis broadcast_to concat stack matrix_transpose tile
"""
#: what ends in rounded values
ROUNDED = set(UNARY.split()) | {"pow", "atan2", "hypot", "logaddexp", "multiply", "divide", "sum", "prod", "mean",
                                "var", "std", "cumulative_sum", "cumulative_prod"}  # fmt: skip


def shared(names: str) -> list[str]:
    """The names that both namespaces have."""
    return [name for name in names.split() if hasattr(xp, name) and hasattr(da, name)]


def compare(name: str, n: int, call: Any, operands: list[tuple[Any, np.ndarray]], **how: Any) -> None:
    """Make the same call in both namespaces; `call` takes a namespace, a function and that namespace's arrays."""
    event(name)
    strict = [xp.asarray(a) for _, a in operands]
    namespace = operands[0][0].__array_namespace__()
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ref, error = call(xp, getattr(xp, name), strict), None
        except TypeError as refused:
            ref, error = None, refused
        if error is not None:
            try:
                plain = call(np, getattr(np, name), [a for _, a in operands])
            except (TypeError, AttributeError):
                with pytest.raises(TypeError):
                    call(namespace, getattr(namespace, name), [x for x, _ in operands])
                return
            try:
                got = call(namespace, getattr(namespace, name), [x for x, _ in operands])
            except TypeError:
                return
            assert_same(got, np.asarray(plain), **how)
            return
        got = call(namespace, getattr(namespace, name), [x for x, _ in operands])
        assert_same(got, np.asarray(ref), **how)


def how(name: str, *dtypes_: np.dtype) -> dict[str, Any]:
    loose = name in ROUNDED or any(t.kind == "c" for t in dtypes_)
    compared = {"exact": not loose, "ulps": 32, "zero_sign": name not in ("maximum", "minimum", "max", "min")}
    return allowed(name, compared)


@pytest.mark.skipif(not shared(UNARY), reason="the two namespaces share no function of this kind")
@examples(6)
@given(data=st.data(), n=device_counts)
def test_unary(data, n):
    name = data.draw(st.sampled_from(shared(UNARY)))
    a = data.draw(arrays(dtype=data.draw(dtypes(STANDARD))))
    assume(
        name != "sign" or a.dtype.kind != "c" or np.isfinite(a).all()
    )  # NumPy's sign(-inf) is -1, the standard's NaN
    with context(n):
        x = data.draw(pairs(a, n)).x
        compare(name, n, lambda _, f, values: f(*values), [(x, a)], **how(name, a.dtype))


@pytest.mark.skipif(not shared(BINARY), reason="the two namespaces share no function of this kind")
@examples(8)
@given(data=st.data(), n=device_counts)
def test_binary(data, n):
    """Operands of one kind: what mixed kinds give, the standard leaves open."""
    name = data.draw(st.sampled_from(shared(BINARY)))
    dtype = data.draw(dtypes(STANDARD))
    other = data.draw(st.sampled_from([t for t in STANDARD if t.kind == dtype.kind]))
    with context(n):
        values = [data.draw(arrays(s, t)) for s, t in zip(data.draw(broadcastable()), (dtype, other))]
        if "shift" in name or (name == "pow" and dtype.kind in "iu"):  # negative ones are undefined
            values[1] = np.clip(values[1], 0, 7) if dtype.kind in "iu" else np.zeros_like(values[1])
        pairs_ = [(data.draw(pairs(v, n)).x, v) for v in values]
        compare(name, n, lambda _, f, v: f(*v), pairs_, **how(name, dtype))


@pytest.mark.skipif(not shared(STATISTICAL), reason="the two namespaces share no function of this kind")
@examples(6)
@given(data=st.data(), n=device_counts)
def test_statistical(data, n):
    name = data.draw(st.sampled_from(shared(STATISTICAL)))
    dtype = data.draw(dtypes(STANDARD))
    shape = data.draw(shapes(max_dims=3, max_size=60).filter(lambda s: 0 not in s))
    a = data.draw(arrays(shape, dtype, extreme=dtype.kind in "biu", top=2))
    kw: dict[str, Any] = {}
    if name.startswith("cumulative"):
        kw["axis"] = data.draw(axes(a.ndim)) if a.ndim else 0
        if data.draw(st.booleans()):
            kw["include_initial"] = True
    elif name.startswith("arg"):
        kw["axis"] = data.draw(axes(a.ndim)) if a.ndim else None
    else:
        kw["axis"] = data.draw(axis_sets(a.ndim))
        kw["keepdims"] = data.draw(st.booleans())
    if name in ("var", "std"):
        kw["correction"] = data.draw(st.sampled_from([0, 0.0, 0.5]))
    if a.ndim == 0 and name.startswith("cumulative"):
        return
    top = float(np.abs(a.astype(complex if dtype.kind == "c" else float)).max(initial=8)) if dtype.kind in "biu" else 8
    rounding = how(name, dtype) | {"ulps": 32 * max(a.size, 1), "scale": top**2 if name == "var" else top}
    if on_gpu() and name.startswith("cumulative"):  # in another order
        rounding |= {"exact": False}
    with context(n):
        x = data.draw(pairs(a, n)).x
        compare(name, n, lambda _, f, values: f(*values, **kw), [(x, a)], **rounding)


@pytest.mark.skipif(not shared(MANIPULATION), reason="the two namespaces share no function of this kind")
@examples(4)
@given(data=st.data(), n=device_counts)
def test_manipulation(data, n):
    name = data.draw(st.sampled_from(shared(MANIPULATION)))
    shape = data.draw(shapes(min_dims=2 if name == "matrix_transpose" else 1))
    a = data.draw(arrays(shape, data.draw(dtypes(STANDARD))))
    axis = data.draw(axes(a.ndim))
    perm = tuple(data.draw(st.permutations(range(a.ndim))))
    unit = tuple(i for i, s in enumerate(a.shape) if s == 1)
    calls = {
        "reshape": lambda f, x: f(x, (*a.shape, 1)),
        "permute_dims": lambda f, x: f(x, perm),
        "squeeze": lambda f, x: f(x, unit),
        "expand_dims": lambda f, x: f(x, axis=axis),
        "flip": lambda f, x: f(x, axis=axis),
        "roll": lambda f, x: f(x, 2, axis=axis),
        "moveaxis": lambda f, x: f(x, axis, 0),
        "broadcast_to": lambda f, x: f(x, (2, *a.shape)),
        "concat": lambda f, x: f([x, x], axis=axis),
        "stack": lambda f, x: f([x, x], axis=axis),
        "matrix_transpose": lambda f, x: f(x),
        "tile": lambda f, x: f(x, (2,)),
    }
    with context(n):
        x = data.draw(pairs(a, n)).x
        compare(name, n, lambda _, f, values: calls[name](f, *values), [(x, a)])


@given(data=st.data(), n=device_counts)
def test_where_and_astype(data, n):
    dtype = data.draw(dtypes(FLOATS + COMPLEX))
    a, b = (data.draw(arrays(s, dtype)) for s in data.draw(broadcastable()))
    with context(n):
        x, y = data.draw(pairs(a, n)).x, data.draw(pairs(b, n)).x
        compare("where", n, lambda ns, f, v: f(ns.isnan(v[0]), *v), [(x, a), (y, b)])
        wide = {"f": "float64", "c": "complex128"}[dtype.kind]
        compare("astype", n, lambda ns, f, v: f(v[0], getattr(ns, wide)), [(x, a)])


def test_the_namespace_is_the_package():
    with context(2):
        x = da.asarray(np.arange(4.0))
        assert x.__array_namespace__() is da
        assert x.__array_namespace__(api_version=None) is da
