"""Scans against NumPy: bit for bit, and one slice for each border between devices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import distarray as da
from conformance.checking import assert_same, both, check_invariants, on_gpu
from conformance.contexts import context, examples
from conformance.ranks import SHARES, on_ranks
from conformance.strategies import arrays, axes, device_counts, dtypes, layouts, modes, pairs, shapes


def same(x, ref):
    """Whether the values are equal; fetched, since NumPy's comparisons of whole arrays don't dispatch."""
    return np.array_equal(np.asarray(x), ref)


UFUNCS = (
    np.add,
    np.multiply,
    np.maximum,
    np.subtract,
    np.divide,
    np.logaddexp,
    np.bitwise_xor,
    np.power,
    np.logical_or,
)


@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda u: u.__name__)
@given(data=st.data(), n=device_counts)
def test_accumulate(ufunc, data, n):
    a = data.draw(arrays(data.draw(shapes(min_dims=1, max_size=120)), data.draw(dtypes()), top=2))
    if a.dtype.kind == "c":
        a = np.nan_to_num(a, posinf=1, neginf=-1).astype(a.dtype)
    kw = {"axis": data.draw(axes(a.ndim))}
    if data.draw(st.booleans()) and a.dtype.kind in "biu" and ufunc in (np.add, np.multiply, np.subtract):
        kw["dtype"] = data.draw(st.sampled_from([np.int16, np.float64]))
    with context(n):
        x = data.draw(pairs(a, n)).x
        got = []

        def ours():
            got.append(ufunc.accumulate(x, **kw))
            return got[0]

        # NumPy rounds complex products by strides; a GPU adds and multiplies in another order
        loose = {"exact": a.dtype.kind != "c" and not on_gpu(), "ulps": 1024, "scale": 100.0}
        assume(not on_gpu() or ufunc is not np.power or a.dtype.kind in "biu")  # rounding is magnified without a bound
        if both(lambda: ufunc.accumulate(a, **kw), ours, **loose):
            check_invariants(got[0])


@given(data=st.data(), n=device_counts)
@examples(3)
def test_reduceat(data, n):
    ufunc = data.draw(st.sampled_from([np.add, np.multiply, np.maximum, np.subtract, np.gcd]))
    a = data.draw(arrays(data.draw(shapes(min_dims=1, max_size=100)), data.draw(dtypes()), extreme=False, top=2))
    axis = data.draw(axes(a.ndim))
    size = a.shape[axis]
    indices = data.draw(st.lists(st.integers(0, max(size - 1, 0)), max_size=6))
    if data.draw(st.booleans()):
        indices = sorted(set(indices))
    indices = np.array(indices, int) if indices or data.draw(st.booleans()) else indices
    with context(n):
        x = data.draw(pairs(a, n)).x
        loose = {"exact": False, "ulps": 64.0, "scale": 200.0}
        both(lambda: ufunc.reduceat(a, indices, axis), lambda: ufunc.reduceat(x, indices, axis), **loose)


@given(data=st.data(), n=device_counts)
@examples(2)
def test_cumulative_functions(data, n):
    a = data.draw(arrays(data.draw(shapes(max_dims=3, max_size=80)), data.draw(dtypes()), extreme=False, top=2))
    name = data.draw(st.sampled_from(["cumsum", "cumprod", "cumulative_sum", "cumulative_prod"]))
    kw = {}
    if a.ndim != 1 or data.draw(st.booleans()):
        kw["axis"] = data.draw(axes(a.ndim)) if a.ndim else None
    if name.startswith("cumulative"):
        kw["include_initial"] = data.draw(st.booleans())
    with context(n):
        x = data.draw(pairs(a, n)).x
        call = getattr(np, name)
        loose = {"exact": a.dtype.kind != "c" and not on_gpu(), "ulps": 1024, "scale": 100.0}
        both(lambda: call(a, **kw), lambda: call(x, **kw), **loose)


def test_flat_scans_and_out():
    a = np.arange(12).reshape(3, 4)
    with context(3):
        x = da.asarray(a, layout=da.blocks(0))
        assert same(np.cumsum(x), np.cumsum(a))
        out, host = da.asarray(np.zeros((3, 4)), layout=da.blocks(1)), np.zeros((3, 4))
        assert np.add.accumulate(x, out=out) is out
        assert np.cumsum(x, axis=0, out=host) is host
        assert same(out, np.cumsum(a, axis=0))
        assert same(host, np.cumsum(a, axis=0))
        with pytest.raises(ValueError, match="pass an out="):
            np.add.accumulate(x, out=np.zeros(3))
        with pytest.raises(IndexError, match="out-of-bounds"):
            np.add.reduceat(x, [0, 3])
        with pytest.raises(TypeError):
            np.add.accumulate(da.asarray(1.0))
        with pytest.raises(ValueError, match="axis"):
            np.cumulative_sum(x)


@pytest.mark.parametrize("n", [2, 4])
def test_one_slice_a_border(n):
    a = np.random.default_rng(0).normal(size=(8 * n, 50))
    with context(n):
        x = da.asarray(a, layout=da.blocks(0))
        with da.no_implicit_communication():
            across = np.add.accumulate(x, axis=1)
        with da.ledger() as log:
            along = np.add.accumulate(x, axis=0)
        assert log.bytes_moved == (n - 1) * 50 * 8
        assert along.layout == across.layout == x.layout
        equal = np.allclose if on_gpu() else np.array_equal
        assert equal(along.get(), np.cumsum(a, axis=0))
        assert equal(across.get(), np.cumsum(a, axis=1))
        with da.no_implicit_communication():
            np.add.reduceat(x, [0, 3, 9], axis=1)


def settled(x):
    """The value, after each process has compared the replicas that it holds with it."""
    value = x.get()
    if x.mode is da.REPLICA:
        held = x._operand("a test")
        for (_, region), array in zip(held.layout.chunks, held.arrays, strict=True):
            if array is not None:
                assert_same(array, np.asarray(value[region.key]).reshape(array.shape), local=True)
    return value


CALLS = {
    "add": lambda x, axis: np.add.accumulate(x, axis),
    "multiply": lambda x, axis: np.multiply.accumulate(x, axis),
    "subtract": lambda x, axis: np.subtract.accumulate(x, axis),
    "logaddexp": lambda x, axis: np.logaddexp.accumulate(x, axis),
    "fmin": lambda x, axis: np.fmin.accumulate(x, axis),
    "cumsum": lambda x, axis: np.cumsum(x, axis),
    "cumulative_sum": lambda x, axis: np.cumulative_sum(x, axis=axis, include_initial=True),
    "cumulative_prod": lambda x, axis: np.cumulative_prod(x, axis=axis, include_initial=True),
    "reduceat": lambda x, axis: np.add.reduceat(x, [i for i in (2, 0, 4, 1) if i < x.shape[axis]], axis),
    "ordered reduceat": lambda x, axis: np.subtract.reduceat(x, range(0, x.shape[axis], 2), axis),
}


@pytest.mark.parametrize("name", CALLS)
@given(data=st.data(), shares=st.sampled_from(SHARES))
@examples(0.5)
def test_scans_on_several_processes(name, data, shares):
    a = data.draw(arrays(data.draw(shapes(min_dims=1, max_dims=3, max_size=80)), data.draw(dtypes()), extreme=False))
    axis, flipped = data.draw(axes(a.ndim)), data.draw(st.booleans())
    layout, mode = data.draw(layouts(a.shape, sum(shares))), data.draw(modes(a.dtype))

    def program():
        x = da.distributed_array(a, layout, mode)
        with np.errstate(all="ignore"):
            try:
                return settled(CALLS[name](x[::-1] if flipped else x, axis))
            except TypeError as error:
                return error

    def ours(got):
        if isinstance(got, Exception):
            raise got
        return got

    for got in on_ranks(shares, program):
        loose = {"exact": name != "reduceat" and a.dtype.kind != "c", "ulps": 1024, "scale": 100.0}
        both(lambda: CALLS[name](a[::-1] if flipped else a, axis), lambda got=got: ours(got), local=True, **loose)


def test_fine_cyclic_layouts_take_few_rounds():
    """Where a running value would pass from device to device for every few elements, the array moves into blocks."""
    with context(4):
        h = np.arange(1, 4001) % 7
        x = da.asarray(h, layout=da.cyclic(0, 10))
        with da.ledger() as log:
            assert_same(np.cumsum(x), np.cumsum(h))
        assert log.rounds <= 4
        with da.ledger() as log:
            assert_same(np.cumsum(da.asarray(h, layout=da.blocks(0))), np.cumsum(h))
        assert log.bytes_moved == 3 * 8  # in blocks the running values alone


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
@pytest.mark.parametrize("over", [0, 1, 2])
def test_long_vectors_are_summed_one_after_the_other(dtype, over):
    h = (np.random.default_rng(0).random(3 * (1 << 15) + over) * 9).astype(dtype)
    with context(3):
        x = da.asarray(h, layout=da.blocks(0, sizes=(5, (1 << 15) + over, (1 << 16) - 5)))
        if on_gpu():
            assert_same(np.cumsum(x), np.cumsum(h), exact=False, ulps=64)
        else:
            assert_same(np.cumsum(x), np.cumsum(h))
            assert_same(np.maximum.accumulate(x), np.maximum.accumulate(h))
