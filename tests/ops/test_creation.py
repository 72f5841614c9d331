"""Creation: NumPy's values to the bit, on any layout, with no device holding more than its part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import distarray as da
from conformance.checking import assert_same, both, check_invariants, on_gpu
from conformance.contexts import context, examples
from conformance.strategies import ALL, NUMPY, arrays, device_counts, dtypes, layouts, operands, pairs, shapes
from distarray.ops import coordinates, creation, sequences

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
BOUNDS = st.integers(-30, 30) | st.floats(-9, 9, width=32) | st.sampled_from(
    [0.1, 1e-3, np.float32(0.7), np.int8(5), np.float64(2.5), 2**63, 1e300, True]
)  # fmt: skip
STEPS = st.sampled_from([1, 2, -1, -3, 0.1, 0.7, -0.3, 2.5, np.float32(0.3), 1e-300, 0, 1e299, 7])


def short(call: Callable[[], Any]) -> bool:
    """Whether NumPy's result has few elements."""
    try:
        return bool(abs(call()) < 200)
    except (ZeroDivisionError, TypeError, OverflowError):
        return True


@examples(10)
@given(data=st.data(), n=device_counts)
def test_arange_is_numpys_to_the_bit(data: st.DataObject, n: int) -> None:
    start, stop, step = data.draw(BOUNDS), data.draw(BOUNDS), data.draw(STEPS)
    with np.errstate(all="ignore"):
        if not short(lambda: (stop - start) / step):
            return
        args: tuple[Any, ...] = (start, stop, step)
        if data.draw(st.booleans()) and -200 < stop < 200:
            args = data.draw(st.sampled_from([(stop,), (start, stop)]))
            if len(args) == 2 and not short(lambda: stop - start):
                return
        kw = {"dtype": data.draw(dtypes([*NUMPY, BFLOAT16]))} if data.draw(st.booleans()) else {}
        with context(n):
            try:
                size = len(np.arange(*args, **kw))
            except (TypeError, ValueError, OverflowError, ZeroDivisionError):
                size = 0
            layout = data.draw(layouts((size,), n)) if size else None
            both(lambda: np.arange(*args, **kw), lambda: sequences.arange(*args, layout=layout, **kw), exact=True)


@examples(6)
@given(data=st.data(), n=device_counts)
def test_linspace_is_numpys_to_the_bit(data: st.DataObject, n: int) -> None:
    ends = st.integers(-9, 9) | st.sampled_from(
        [0.1, -7.3, 1e-320, 5e-324, np.float32(0.1), np.float16(3), 1 + 2j, 2**60]
    )
    start, stop, num = data.draw(ends), data.draw(ends), data.draw(st.integers(0, 40))
    kw: dict[str, Any] = {"endpoint": data.draw(st.booleans())}
    if data.draw(st.booleans()):
        kw["dtype"] = data.draw(st.sampled_from(["float32", "float64", "int64", "complex128", "float16"]))
        if isinstance(start, complex) or isinstance(stop, complex) or kw["dtype"] == "float16":
            del kw["dtype"]
    with context(n), np.errstate(all="ignore"):
        layout = data.draw(layouts((num,), n))
        retstep = data.draw(st.booleans())
        ref = np.linspace(start, stop, num, retstep=retstep, **kw)
        got = sequences.linspace(start, stop, num, retstep=retstep, layout=layout, **kw)
        if retstep:
            assert np.array_equal(got[1], ref[1], equal_nan=True)
            got, ref = got[0], ref[0]
        assert_same(got, ref, exact=True)


@examples(2)
@given(data=st.data(), n=device_counts)
def test_linspace_between_arrays(data: st.DataObject, n: int) -> None:
    a = data.draw(arrays((2, 3), "float64", extreme=False))
    b = data.draw(arrays((3,), "float64", extreme=False))
    num, axis, end = data.draw(st.integers(0, 6)), data.draw(st.integers(-3, 2)), data.draw(st.booleans())
    with context(n):
        x = data.draw(st.sampled_from([a, data.draw(pairs(a, n)).x]))
        both(lambda: np.linspace(a, b, num, end, axis=axis), lambda: sequences.linspace(x, b, num, end, axis=axis))


@examples(6)
@given(data=st.data(), n=device_counts)
def test_constants_in_any_mode(data: st.DataObject, n: int) -> None:
    shape, dtype = data.draw(shapes()), data.draw(dtypes(ALL))
    mode = data.draw(st.sampled_from(["sum", "max", "min", None] + (["prod"] if dtype.kind != "c" else [])))
    name = data.draw(st.sampled_from(["zeros", "ones", "full", "arrays", "eye", "tri", "identity"]))
    with context(n):
        if name in ("eye", "tri", "identity"):
            rows, columns, k = data.draw(st.integers(0, 6)), data.draw(st.integers(0, 6)), data.draw(st.integers(-7, 7))
            args: tuple[Any, ...] = (rows, columns, k) if name != "identity" else (rows,)
            ref = getattr(np, name)(*args, dtype=dtype)
        else:
            shape = shape or (1,)
            value: Any = {"zeros": (), "ones": (), "full": (3,), "arrays": (np.ones(shape[-1:]),)}[name]
            name = "full" if name == "arrays" else name
            args = (shape, *value)
            ref = getattr(np, name)(*args, dtype=dtype)
        plain = da.asarray(ref, layout=data.draw(layouts(ref.shape, n)))
        layout = plain._context.layout(plain.layout.index_map, da.Mode.of(mode))
        f = getattr(creation, name, None) or getattr(coordinates, name)
        x = f(*args, dtype=dtype, layout=layout)
        assert x.mode is da.Mode.of(mode)
        assert_same(x, ref)
        check_invariants(x)


@examples(3)
@given(data=st.data(), n=device_counts)
def test_like_keeps_the_layout(data: st.DataObject, n: int) -> None:
    pair = data.draw(operands(n))
    with context(n):
        x = np.zeros_like(pair.x, dtype="int8")
        assert_same(x, np.zeros_like(pair.ref, dtype="int8"))
        layout = pair.x.layout  # where partial values of one device coincide, asking for the layout folds them
        if not layout.is_partial:
            assert np.zeros_like(pair.x).layout.index_map == layout.index_map
        check_invariants(np.empty_like(pair.x))
        assert_same(np.full_like(pair.x, 2, shape=(3, 2)), np.full_like(pair.ref, 2, shape=(3, 2)))
        assert (
            np.ones_like(pair.x, dtype=float).layout == creation.ones_like(pair.x, dtype=float, layout=x.layout).layout
        )


@examples(3)
@given(data=st.data(), n=device_counts)
def test_triangles(data: st.DataObject, n: int) -> None:
    pair = data.draw(operands(n))
    k = data.draw(st.integers(-4, 4))
    with context(n):
        both(lambda: np.tril(pair.ref, k), lambda: np.tril(pair.x, k))
        both(lambda: np.triu(pair.ref, k), lambda: np.triu(pair.x, k))


@examples(2)
@given(data=st.data(), n=device_counts)
def test_meshgrid(data: st.DataObject, n: int) -> None:
    refs = [
        data.draw(arrays(data.draw(shapes(max_dims=1, max_size=9)), "int64"))
        for _ in range(data.draw(st.integers(1, 3)))
    ]
    kw = {name: data.draw(st.booleans()) for name in ("sparse", "copy")}
    indexing = data.draw(st.sampled_from(["xy", "ij"]))
    with context(n):
        ours = [data.draw(pairs(a, n)).x for a in refs]
        both(lambda: tuple(np.meshgrid(*refs, indexing=indexing, **kw)),
             lambda: tuple(np.meshgrid(*ours, indexing=indexing, **kw)))  # fmt: skip


@examples(2)
@given(data=st.data(), n=device_counts)
def test_fromfunction(data: st.DataObject, n: int) -> None:
    shape = data.draw(shapes(max_dims=3))
    with context(n):
        x = coordinates.fromfunction(
            lambda *i: np.cos(sum(i)) if i else 1.0, shape, layout=data.draw(layouts(shape, n))
        )
        ref = np.asarray(np.fromfunction(lambda *i: np.cos(sum(i)) if i else 1.0, shape))
        assert_same(x, ref, exact=not on_gpu())
        check_invariants(x)


def test_fromfunction_refuses(four: Any) -> None:
    with pytest.raises(ValueError, match="region by region"):
        coordinates.fromfunction(lambda i: np.zeros(3), 8, layout=da.blocks(0))
    with pytest.raises(TypeError, match="astype"):
        coordinates.fromfunction(lambda i: i if i.max() < 3 else i.astype(bool), 8, layout=da.blocks(0))


def test_like_dispatches(four: Any) -> None:
    x = da.asarray(np.arange(3.0))
    assert_same(np.zeros((2,), like=x), np.zeros(2))
    assert_same(np.ones((2,), "int8", like=x), np.ones(2, "int8"))
    assert_same(np.full((2,), 7, like=x), np.full(2, 7))
    assert_same(np.arange(1, 7, 2, like=x), np.arange(1, 7, 2))
    assert_same(np.eye(3, 4, 1, like=x), np.eye(3, 4, 1))
    assert_same(np.identity(3, like=x), np.identity(3))
    assert_same(np.tri(3, like=x), np.tri(3))
    assert_same(np.asarray([1, 2], like=x), np.asarray([1, 2]))
    assert_same(np.array([1, 2], ndmin=2, like=x), np.array([1, 2], ndmin=2))
    assert_same(np.fromfunction(lambda i, j: i - j, (2, 3), like=x), np.fromfunction(lambda i, j: i - j, (2, 3)))
    assert np.empty((2, 3), like=x).shape == (2, 3)


@pytest.mark.parametrize("make", [
    lambda n: creation.zeros(n), lambda n: creation.ones(n), lambda n: creation.full(n, 2.5), lambda n: creation.empty(n),
    lambda n: sequences.arange(n, dtype=float), lambda n: sequences.linspace(0, 1, n),
    lambda n: coordinates.eye(256, n // 256), lambda n: coordinates.tri(256, n // 256),
    lambda n: creation.zeros_like(creation.empty(n, dtype="int8")),
    lambda n: coordinates.fromfunction(lambda i: i, (n,)),
])  # fmt: skip
def test_no_device_holds_more_than_its_part(make: Callable[[int], Any]) -> None:
    n = 1 << 16
    with da.init(devices=4, kind="host", memory_limit=3 * n) as made, da.no_implicit_communication():
        x = make(n)  # 2 n bytes a device
        assert x.size == n
        assert max(d.peak for d in made.devices) < 3 * n


@pytest.mark.parametrize("call", [
    lambda f: f.zeros(-1), lambda f: f.zeros((2, -3)), lambda f: f.zeros(2.5), lambda f: f.full((2,), [1, 2, 3]),
    lambda f: f.linspace(0, 1, -1), lambda f: f.linspace(0, 1, 2.5), lambda f: f.arange(), lambda f: f.ones(3, "int300"),
])  # fmt: skip
def test_what_numpy_refuses(call: Callable[[Any], Any], four: Any) -> None:
    assert not both(lambda: call(np), lambda: call(da))


@pytest.mark.parametrize("k", [2**63, -(2**63), 2**70, -(2**70), 2**31])
def test_diagonals_may_have_any_number(k):
    a = np.arange(1.0, 13.0).reshape(3, 4)
    with da.init(devices=3, kind="host", minimum_chunk=1):
        x = da.asarray(a, layout=da.blocks(0))
        assert not da.eye(3, 4, k).any()
        assert np.array_equal(da.tri(3, 4, k).get(), np.full((3, 4), float(k > 0)))
        assert np.array_equal(np.tril(x, k).get(), a if k > 0 else a * 0)
        assert np.array_equal(np.triu(x, k).get(), a * 0 if k > 0 else a)
