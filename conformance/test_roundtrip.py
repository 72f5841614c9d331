"""Values survive every way in, through and out: layouts, all 25 mode conversions, resharding, copies, pickles."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import distarray as da
from conformance.checking import as_dict, assert_same, check_invariants, eps
from conformance.contexts import context, examples
from conformance.strategies import ALL, STANDARD, arrays, device_counts, dtypes, layouts, modes, pairs, raw_maps, shapes

MODES = [da.REPLICA, da.MIN, da.MAX, da.SUM, da.PROD]


@examples(4)
@given(data=st.data(), n=device_counts)
def test_what_goes_in_comes_out(data, n):
    a = data.draw(arrays(dtype=data.draw(dtypes(ALL))))
    layout = data.draw(layouts(a.shape, n))
    with context(n):
        x = da.asarray(a, layout=layout)
        assert_same(x, a)
        assert_same(x.get(), a, local=True)
        assert (x.shape, x.dtype, x.ndim, x.size, x.nbytes) == (a.shape, a.dtype, a.ndim, a.size, a.nbytes)
        assert x.mode == da.REPLICA
        check_invariants(x)


@examples(2)
@given(data=st.data(), n=device_counts)
def test_the_source_is_copied(data, n):
    a = data.draw(arrays(dtype=data.draw(dtypes(ALL))))
    kept = a.copy()
    with context(n):
        x = da.asarray(a, layout=data.draw(layouts(a.shape, n)))
        y = da.distributed_array(a, data.draw(raw_maps(a.shape, n)), data.draw(modes(a.dtype)))
        a[...] = 1
        assert_same(x, kept)
        assert_same(y, kept)


@examples(4)
@given(data=st.data(), n=device_counts)
def test_creation_in_a_mode(data, n):
    a = data.draw(arrays(dtype=data.draw(dtypes(ALL))))
    mode = data.draw(modes(a.dtype))
    with context(n):
        x = da.distributed_array(a, data.draw(raw_maps(a.shape, n)), mode)
        assert x.mode == mode
        assert_same(x, a)
        assert_same(x.change_mode(da.REPLICA), a)
        if mode in (da.REPLICA, da.MIN, da.MAX):
            check_invariants(x)


@pytest.mark.parametrize("first", MODES, ids=lambda m: m.name)
@pytest.mark.parametrize("second", MODES, ids=lambda m: m.name)
@given(data=st.data(), n=device_counts)
def test_all_mode_conversions(first, second, data, n):
    lossy = da.PROD in (first, second)  # no complex number is a bit-exact identity of the product
    a = data.draw(arrays(dtype=data.draw(dtypes([t for t in ALL if t.kind != "c"] if lossy else ALL))))
    layout = data.draw(layouts(a.shape, n))
    with context(n):
        x = da.asarray(a, layout=layout)
        y = x.change_mode(first)
        z = y.change_mode(second)
        assert (y.mode, z.mode) == (first, second)
        assert as_dict(z.index_map) == as_dict(x.index_map)
        for each in (z, y, x, z.change_mode(da.REPLICA)):
            assert_same(each, a)


@pytest.mark.parametrize("mode", [da.MIN, da.MAX, da.SUM], ids=lambda m: m.name)
@given(data=st.data(), n=device_counts)
def test_complex_products_convert_within_equality(mode, data, n):
    a = data.draw(arrays(dtype="complex128", extreme=False))
    with context(n):
        x = da.asarray(a, layout=data.draw(layouts(a.shape, n)))
        for other in (x.change_mode(da.PROD).change_mode(mode), x.change_mode(mode).change_mode(da.PROD)):
            assert_same(other, a, exact=False, ulps=2)


@given(data=st.data(), n=device_counts)
def test_modes_go_by_their_names(data, n):
    a = data.draw(arrays(extreme=False))
    with context(n):
        x = da.asarray(a, layout=data.draw(layouts(a.shape, n)))
        for name in ("sum", "min", "max", "replica"):
            y = x.change_mode(name)
            assert y.mode == da.REPLICA if name == "replica" else y.mode == getattr(da, name.upper())
            assert_same(y, a)


@examples(4)
@given(data=st.data(), n=device_counts)
def test_reshard(data, n):
    a = data.draw(arrays(dtype=data.draw(dtypes(ALL))))
    pair = data.draw(pairs(a, n))
    first, second = (data.draw(layouts(a.shape, n, default=False)) for _ in range(2))
    with context(n):
        y = pair.x.reshard(first)
        z = y.reshard(second)
        direct = pair.x.reshard(second)
        assert y.mode == z.mode == pair.x.mode
        assert as_dict(z.index_map) == as_dict(direct.index_map)
        for each in (z, y, direct, pair.x):
            assert_same(each, a)
        if z.mode == da.REPLICA:
            check_invariants(z)


@examples(2)
@given(data=st.data(), n=device_counts)
def test_results_of_reshard_and_change_mode_are_values(data, n):
    """Writing to one array never shows in what was resharded or converted from it, nor the other way round."""
    a = data.draw(arrays(shape=data.draw(shapes(min_dims=1)), extreme=False))
    pair = data.draw(pairs(a, n))
    layout = data.draw(layouts(a.shape, n, default=False))
    mode = data.draw(modes(a.dtype))
    one = np.ones((), a.dtype)
    with context(n):
        x = pair.x
        y, z, w = x.reshard(layout), x.change_mode(mode), x.copy()
        x[...] = one
        for each in (y, z, w):
            assert_same(each, a)
        y[...] = one
        assert_same(z, a)
        assert_same(w, a)
        z[:1] = one
        assert_same(w, a)
        assert_same(x, np.ones_like(a))


@pytest.mark.parametrize("how", ["copy", "copy.copy", "deepcopy", "asarray", "pickle", "np.copy"])
@given(data=st.data(), n=device_counts)
def test_copies(how, data, n):
    a = data.draw(arrays(dtype=data.draw(dtypes(ALL))))
    pair = data.draw(pairs(a, n))
    x = pair.x
    with context(n):
        y = {
            "copy": lambda: x.copy(),
            "copy.copy": lambda: copy.copy(x),
            "deepcopy": lambda: copy.deepcopy(x),
            "asarray": lambda: da.asarray(x, copy=True),
            "pickle": lambda: pickle.loads(pickle.dumps(x)),
            "np.copy": lambda: np.copy(x),
        }[how]()
        assert_same(y, a)
        y[...] = np.ones((), a.dtype)
        assert_same(x, a)


@given(data=st.data(), n=device_counts)
def test_an_expression_pickles_as_its_value(data, n):
    a = data.draw(arrays(dtype="float64"))
    pair = data.draw(pairs(a, n))
    with context(n), np.errstate(all="ignore"):
        y = pickle.loads(pickle.dumps(pair.x * 2 + 1))
        assert_same(y, np.asarray(a * 2 + 1))


@given(data=st.data(), n=device_counts)
def test_python_conversions(data, n):
    a = data.draw(arrays(shape=(), dtype=data.draw(dtypes(STANDARD)), extreme=False))
    pair = data.draw(pairs(a, n))
    x = pair.x
    assert bool(x) == bool(a)
    if a.dtype.kind != "c":
        assert float(x) == float(a)
        assert int(x) == int(a)
    assert complex(x) == complex(a)
    if a.dtype.kind in "iu":
        assert range(20)[x % 20] == range(20)[a % 20]
    else:
        with pytest.raises(TypeError):
            x.__index__()
    with pytest.raises(TypeError):
        len(x)
    with pytest.raises(TypeError):
        iter(x)
    with pytest.raises(TypeError):
        hash(x)


@given(data=st.data(), n=device_counts)
def test_length_iteration_and_truth(data, n):
    a = data.draw(arrays(shape=data.draw(shapes(min_dims=1, max_dims=2, max_size=30))))
    pair = data.draw(pairs(a, n))
    x = pair.x
    assert len(x) == len(a)
    rows = list(x)
    assert len(rows) == len(a)
    for got, ref in zip(rows, a):
        assert_same(got, ref)
    if a.size > 1:
        for convert in (bool, float, int):
            with pytest.raises((ValueError, TypeError)):
                convert(x)
    assert isinstance(repr(x), str)


@given(data=st.data(), n=device_counts)
def test_array_protocol(data, n):
    a = data.draw(arrays(dtype=data.draw(dtypes(STANDARD)), extreme=False))
    x = data.draw(pairs(a, n)).x
    taken = np.asarray(x)
    assert type(taken) is np.ndarray
    assert_same(taken, a, local=True)
    if a.dtype.kind != "c":
        assert_same(np.asarray(x, dtype=np.float64), a.astype(np.float64), local=True)
    taken = np.array(x)  # always a copy, and writable
    taken[...] = 1
    assert_same(x, a)


@given(data=st.data(), n=device_counts)
def test_float_sum_of_partials_is_near(data, n):
    """Partial values made by hand (several non-identity copies of an element) fold to their sum."""
    a = data.draw(arrays(shape=(6,), dtype="float64", extreme=False))
    with context(n):
        x = da.asarray(a, layout=da.replicated())
        total = sum((da.asarray(a, layout=data.draw(layouts((6,), n))).change_mode(da.SUM) for _ in range(2)), x)
        assert_same(total, a + a + a, exact=False, ulps=4, scale=9 * 3)
        assert eps(a.dtype) < 1e-15
