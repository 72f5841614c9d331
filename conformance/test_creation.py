"""Creation with a layout: filled arrays, ranges, `fromfunction` by regions, the like-forms, asarray's many sources."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import distarray as da
from conformance.checking import as_dict, assert_same, both, check_invariants
from conformance.contexts import context, examples
from conformance.strategies import ALL, STANDARD, arrays, device_counts, dtypes, layouts, pairs, shapes

ROUNDED = {"exact": False, "ulps": 4, "scale": 100}


@examples(3)
@given(data=st.data(), n=device_counts)
def test_filled(data, n):
    name = data.draw(st.sampled_from(["zeros", "ones", "full", "empty"]))
    shape = data.draw(shapes())
    given_shape = shape[0] if len(shape) == 1 and data.draw(st.booleans()) else shape
    kw = {"dtype": data.draw(dtypes(ALL))} if data.draw(st.booleans()) else {}
    args: tuple[Any, ...] = (given_shape,)
    if name == "full":
        args += (data.draw(st.sampled_from([0, 1, True])),)
    with context(n):
        x = getattr(da, name)(*args, layout=data.draw(layouts(shape, n)), **kw)
        ref = getattr(np, name)(*args, **kw)
        if name == "empty":
            assert (x.shape, x.dtype) == (ref.shape, ref.dtype)
            x[...] = ref[...] = np.ones((), ref.dtype)
        assert_same(x, ref)
        check_invariants(x)


@examples(2)
@given(data=st.data(), n=device_counts)
def test_like(data, n):
    name = data.draw(st.sampled_from(["zeros_like", "ones_like", "full_like", "empty_like"]))
    pair = data.draw(pairs(data.draw(arrays()), n))
    args = (1,) if name == "full_like" else ()
    kw = {"dtype": data.draw(dtypes(ALL))} if data.draw(st.booleans()) else {}
    with context(n):
        module = np if data.draw(st.booleans()) else da
        x = getattr(module, name)(pair.x, *args, **kw)
        ref = getattr(np, name)(pair.ref, *args, **kw)
        if name == "empty_like":
            x[...] = ref[...] = np.ones((), ref.dtype)
        assert_same(x, ref)
        x[...] = np.zeros((), ref.dtype)
        assert_same(pair.x, pair.ref)


@examples(2)
@given(data=st.data(), n=device_counts)
def test_arange(data, n):
    whole = st.integers(-20, 20)
    parts = st.sampled_from([0.5, -0.25, 3.0, 7.75])
    args = data.draw(st.sampled_from([(whole,), (whole, whole), (whole, whole, st.sampled_from([1, 2, -3])),
                                      (parts, whole, st.sampled_from([0.5, -1.25]))]))  # fmt: skip
    values = tuple(data.draw(a) for a in args)
    kinds = ["float32", "float64"] if any(isinstance(v, float) for v in values) else ["int32", "int64", "float32"]
    kw = {"dtype": data.draw(st.sampled_from(kinds))} if data.draw(st.booleans()) else {}
    ref = np.arange(*values, **kw)
    with context(n):
        x = da.arange(*values, layout=data.draw(layouts(ref.shape, n)), **kw)
        assert_same(x, ref, **ROUNDED)
        check_invariants(x)


@examples(2)
@given(data=st.data(), n=device_counts)
def test_linspace(data, n):
    start, stop = (data.draw(st.integers(-10, 10) | st.sampled_from([0.5, -2.25])) for _ in range(2))
    kw: dict[str, Any] = {"endpoint": data.draw(st.booleans())} if data.draw(st.booleans()) else {}
    if data.draw(st.booleans()):
        kw["dtype"] = data.draw(st.sampled_from(["float32", "float64", "complex128"]))
    count = data.draw(st.integers(0, 20))
    with context(n):
        x = da.linspace(start, stop, count, layout=data.draw(layouts((count,), n)), **kw)
        ref = np.linspace(start, stop, count, **kw)
        assert_same(x, ref, **ROUNDED)
        if count and kw.get("endpoint", True):
            assert complex(x[0]) == complex(ref[0])
            assert count == 1 or complex(x[-1]) == complex(ref[-1]), "the end is exact"


@given(data=st.data(), n=device_counts)
def test_eye(data, n):
    rows, columns = data.draw(st.integers(0, 8)), data.draw(st.none() | st.integers(0, 8))
    k = data.draw(st.integers(-9, 9))
    kw = {"dtype": data.draw(dtypes(STANDARD))} if data.draw(st.booleans()) else {}
    shape = (rows, rows if columns is None else columns)
    with context(n):
        x = da.eye(rows, columns, k=k, layout=data.draw(layouts(shape, n)), **kw)
        assert_same(x, np.eye(rows, columns, k, **kw))


@examples(2)
@given(data=st.data(), n=device_counts)
def test_fromfunction_sees_global_indices(data, n):
    shape = data.draw(shapes(min_dims=1, max_dims=3))
    weights = range(1, 1 + len(shape))

    def f(*index: Any) -> Any:
        return sum(w * i for w, i in zip(weights, index)) + 1

    with context(n):
        x = da.fromfunction(f, shape, dtype=np.int64, layout=data.draw(layouts(shape, n)))
        assert_same(x, np.asarray(np.fromfunction(f, shape, dtype=np.int64)))
        check_invariants(x)


@given(data=st.data(), n=device_counts)
def test_fromfunction_evaluates_only_regions(data, n):
    """No device is asked for more than its part."""
    shape = (8, 3)
    asked: list[int] = []

    def f(i: Any, j: Any) -> Any:
        asked.append(int((i + j).size))
        return i + j

    with context(n):
        x = da.fromfunction(f, shape, dtype=np.int64, layout=da.blocks(0))
        assert_same(x, np.fromfunction(lambda i, j: i + j, shape, dtype=np.int64))
        assert max(asked) <= 3 * -(-8 // n)


@examples(2)
@given(data=st.data(), n=device_counts)
def test_asarray_of_python_objects(data, n):
    source = data.draw(st.sampled_from([3, 2.5, True, 1j, [], [1, 2, 3], [[1.5, 2], [3, 4]], [[True], [False]],
                                        (1, 2j), [[]], np.float32(2), np.int8(3), range(5),
                                        [np.arange(3), np.arange(3)]]))  # fmt: skip
    kw = {"dtype": np.complex128} if data.draw(st.booleans()) else {}
    ref = np.asarray(source, **kw)
    with context(n):
        assert_same(da.asarray(source, layout=data.draw(layouts(ref.shape, n)), **kw), ref)
        assert_same(da.asarray(source, **kw), ref)


@pytest.mark.parametrize("bad", [[[1, 2], [3]], object(), "text", [None], np.array(["a"]), np.array([None])])
def test_asarray_refuses(bad):
    with context(2), pytest.raises((TypeError, ValueError)):
        da.asarray(bad)


@given(data=st.data(), n=device_counts)
def test_asarray_of_a_distributed_array(data, n):
    pair = data.draw(pairs(data.draw(arrays(extreme=False)), n))
    layout = data.draw(layouts(pair.ref.shape, n, default=False))
    with context(n):
        assert_same(da.asarray(pair.x), pair.ref)
        y = da.asarray(pair.x, layout=layout)
        assert_same(y, pair.ref)
        assert as_dict(y.index_map) == as_dict(pair.x.reshard(layout).index_map)
        if pair.ref.dtype.kind != "c":
            assert_same(da.asarray(pair.x, dtype=np.float64), pair.ref.astype(np.float64))
        for mode in (da.SUM, da.MAX):
            z = da.distributed_array(pair.x, as_dict(y.index_map), mode)
            assert z.mode == mode
            assert_same(z, pair.ref)


@given(data=st.data(), n=device_counts)
def test_dlpack(data, n):
    class Exporter:
        """Nothing but DLPack."""

        def __init__(self, array: np.ndarray) -> None:
            self.array = array

        def __dlpack__(self, **kw: Any) -> Any:
            return self.array.__dlpack__(**kw)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    a = data.draw(arrays(dtype=data.draw(dtypes(STANDARD)), extreme=False))
    with context(n):
        x = da.asarray(Exporter(a), layout=data.draw(layouts(a.shape, n)))
        assert_same(x, a)


@given(data=st.data(), n=device_counts)
def test_map_chunks(data, n):
    a = data.draw(arrays(data.draw(shapes(min_dims=1)), "float64", extreme=False))
    with context(n):
        x = da.asarray(a, layout=data.draw(layouts(a.shape, n)))
        y = da.map_chunks(lambda chunk: chunk * 2 + 1, x)
        assert_same(y, a * 2 + 1)
        assert as_dict(y.index_map) == as_dict(x.index_map)


@pytest.mark.parametrize("shape", [(-1,), (2, -3), (2.5,), "ab"])
def test_bad_shapes(shape):
    with context(2):
        both(lambda: np.zeros(shape), lambda: da.zeros(shape))
