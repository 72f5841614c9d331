"""Positions of extremes and of true elements, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import distarray as da
from conformance.checking import both, check_invariants
from conformance.contexts import context, examples
from conformance.strategies import arrays, axes, device_counts, dtypes, pairs, shapes


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
