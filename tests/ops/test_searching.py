"""Positions of extremes and of true elements, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import distarray as da
from conformance.checking import assert_same, both, check_invariants
from conformance.contexts import context, examples
from conformance.ranks import SHARES, on_ranks
from conformance.strategies import arrays, axes, device_counts, dtypes, layouts, modes, pairs, shapes


def same(x, ref):
    """Whether the values are equal; fetched, since NumPy's comparisons of whole arrays don't dispatch."""
    return np.array_equal(np.asarray(x), ref)


@given(data=st.data(), n=device_counts)
@examples(4)
def test_argmin_and_argmax(data, n):
    a = data.draw(arrays(data.draw(shapes(max_size=150)), data.draw(dtypes()), top=1))
    if a.dtype.kind == "f":
        a = np.round(a)
    kw = {"axis": data.draw(st.none() | axes(a.ndim)) if a.ndim else None, "keepdims": data.draw(st.booleans())}
    call = data.draw(st.sampled_from([np.argmin, np.argmax]))
    with context(n):
        x = data.draw(pairs(a, n)).x
        if both(lambda: call(a, **kw), lambda: call(x, **kw)):
            check_invariants(call(x, **kw))


@given(data=st.data(), n=device_counts)
@examples(3)
def test_nonzero(data, n):
    a = data.draw(arrays(data.draw(shapes(max_size=150)), data.draw(dtypes()), top=1))
    if a.dtype.kind == "f":
        a = np.round(a)
    call = data.draw(st.sampled_from([np.nonzero, np.argwhere, np.flatnonzero]))
    with context(n):
        x = data.draw(pairs(a, n)).x
        if both(lambda: call(a), lambda: call(x)):
            result = call(x)
            for item in result if isinstance(result, tuple) else (result,):
                check_invariants(item)


def test_what_moves():
    a = np.random.default_rng(0).normal(size=(12, 1000))
    with context(4):
        x = da.asarray(a, layout=da.blocks(0))
        with da.no_implicit_communication():
            rows = np.argmax(x, axis=1)
            hits = np.nonzero(x > 0)
        assert same(rows, np.argmax(a, axis=1))
        assert all(same(got, ref) for got, ref in zip(hits, np.nonzero(a > 0)))
        with da.ledger() as log:
            first = np.argmax(x)
            assert int(first) == np.argmax(a)
        assert log.bytes_moved <= 2 * 2 * 3 * 8
        with da.ledger() as log:
            columns = np.argmin(x, axis=0)
        assert log.bytes_moved == 2 * 3 * 8000
        assert columns.mode is da.MIN
        assert same(columns, np.argmin(a, axis=0))


def test_out_and_refusals():
    a = np.arange(6.0).reshape(2, 3)
    with context(2):
        x = da.asarray(a, layout=da.blocks(0))
        out, host = da.asarray(np.zeros(3, int)), np.zeros(3, int)
        assert np.argmax(x, axis=0, out=out) is out
        assert np.argmax(x, axis=0, out=host) is host
        assert out.get().tolist() == host.tolist() == [1, 1, 1]
        with pytest.raises(ValueError, match="does not match"):
            np.argmax(x, axis=0, out=np.zeros(2, int))
        with pytest.raises(TypeError):
            np.argmax(x, axis=0, out=np.zeros(3))
        with pytest.raises(ValueError, match="0d arrays"):
            np.nonzero(da.asarray(1.0))


def settled(x):
    """The value, after each process has compared the replicas that it holds with it."""
    value = x.get()
    if x.mode is da.REPLICA:
        held = x._operand("a test")
        for (_, region), array in zip(held.layout.chunks, held.arrays, strict=True):
            if array is not None:
                assert_same(array, np.asarray(value[region.key]).reshape(array.shape), local=True)
    return value


@pytest.mark.parametrize(
    "call", [np.argmin, np.argmax, np.nonzero, np.argwhere, np.flatnonzero], ids=lambda f: f.__name__
)
@given(data=st.data(), shares=st.sampled_from(SHARES))
@examples(1)
def test_on_several_processes(call, data, shares):
    a = data.draw(arrays(data.draw(shapes(max_dims=3, max_size=80)), data.draw(dtypes()), top=1))
    a = np.round(a) if a.dtype.kind == "f" else a
    turned = data.draw(st.booleans())
    layout, mode = data.draw(layouts(a.shape, sum(shares))), data.draw(modes(a.dtype))
    kw = {}
    if call in (np.argmin, np.argmax) and a.ndim:
        kw = {"axis": data.draw(st.none() | axes(a.ndim)), "keepdims": data.draw(st.booleans())}

    def program():
        x = da.distributed_array(a, layout, mode)
        try:
            found = call(x.T if turned else x, **kw)
        except ValueError as error:
            return error
        return tuple([settled(part) for part in found]) if isinstance(found, tuple) else settled(found)

    def ours(got):
        if isinstance(got, Exception):
            raise got
        return got

    for got in on_ranks(shares, program):
        both(lambda: call(a.T if turned else a, **kw), lambda got=got: ours(got), local=True)


def test_several_processes_move_what_one_does():
    a = np.random.default_rng(0).normal(size=(12, 50))

    def program():
        x = da.asarray(a, layout=da.blocks(0))
        with da.ledger() as log:
            int(np.argmax(x))
            np.nonzero(x > 0)
        return log.bytes_moved

    with context(4):
        alone = program()
    assert on_ranks((2, 2), program) == [alone, alone]
