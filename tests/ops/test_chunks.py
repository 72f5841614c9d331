"""Local chunks, and functions applied to each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import distarray as da
from conformance.checking import assert_same, check_invariants, put, to_numpy
from conformance.contexts import context, examples
from conformance.strategies import arrays, broadcastable, device_counts, operands, pairs
from distarray.ops.chunks import local_chunks, map_chunks


@examples(2)
@given(data=st.data(), n=device_counts)
def test_local_chunks(data: st.DataObject, n: int) -> None:
    pair = data.draw(operands(n, dtype="int64"))
    with context(n):
        seen = np.zeros(pair.ref.shape, bool)
        chunks = local_chunks(pair.x)
        for device, region, index, array in chunks:
            assert device in pair.x.devices
            assert array.shape == region.shape == pair.ref[index].shape
            seen[index] = True
            if not pair.x.layout.is_partial:
                assert np.array_equal(to_numpy(array), pair.ref[index])
        assert seen.all()
        if not pair.x.layout.is_partial:
            for chunk in chunks:
                put(chunk.data, 5)
            pair.ref[...] = 5
            assert_same(pair.x, pair.ref)
            assert_same(pair.base_x, pair.base_ref)


@examples(4)
@given(data=st.data(), n=device_counts)
def test_map_chunks(data: st.DataObject, n: int) -> None:
    shape, other = data.draw(broadcastable(2))
    if np.broadcast_shapes(shape, other) != shape:
        shape, other = other, shape
    if np.broadcast_shapes(shape, other) != shape:
        return
    a, b = data.draw(arrays(shape, "float64")), data.draw(arrays(other, "int32"))
    with context(n), np.errstate(all="ignore"):
        x, y = data.draw(pairs(a, n)).x, data.draw(st.sampled_from([b, data.draw(pairs(b, n)).x]))
        got = map_chunks(lambda p, q, s: p * 2 - q + s, x, y, 0.5)
        assert_same(got, np.asarray(a * 2 - b + 0.5))
        assert got.layout.index_map == x.layout.index_map
        assert_same(map_chunks(lambda p: p, x, dtype="float32"), a.astype("float32"))
        assert_same(x, a)
        check_invariants(got)


@examples(2)
@given(data=st.data(), n=device_counts)
def test_copies_agree_whatever_the_function(data: st.DataObject, n: int) -> None:
    """A function that depends on the cut gives one value for each element all the same."""
    pair = data.draw(operands(n, dtype="int64", extreme=False))
    with context(n):
        check_invariants(map_chunks(lambda p: p + p.size, pair.x))


def test_moves_nothing_between_equal_layouts(four: Any) -> None:
    x = da.asarray(np.arange(800.0), layout=da.blocks(0))
    with da.no_implicit_communication():
        y = map_chunks(np.add, x, x + 1)
    assert np.array_equal(y.get(), 2 * np.arange(800.0) + 1)


def test_refusals(four: Any) -> None:
    x = da.asarray(np.arange(8.0), layout=da.blocks(0))
    with pytest.raises(ValueError, match="local_chunks"):
        map_chunks(np.sum, x)
    with pytest.raises(ValueError, match="broadcast"):
        map_chunks(np.add, x, np.zeros((2, 8)))
    with pytest.raises(TypeError, match="dtype="):
        map_chunks(lambda p: p if p[0] < 3 else p.astype(int), x)

    def careless(p: Any) -> Any:
        p[...] = 0
        return p

    if four.kind == "host":
        with pytest.raises(ValueError, match="read-only"):
            map_chunks(careless, x)
        assert np.array_equal(x.get(), np.arange(8.0))
