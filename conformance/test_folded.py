"""A reduction that reads an expression block by block gives the bits, and the warnings, of one that reads it stored."""

import warnings
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import distarray as da
from conformance.checking import on_gpu
from distarray.fusion import blocks, folded

pytestmark = pytest.mark.skipif(on_gpu(), reason="kernels fold expressions on GPUs")

CHAINS = {
    "product": lambda x, y: x * y,
    "square of a difference": lambda x, y: (x - 3) ** 2,
    "choice": lambda x, y: np.where(x > y, x, y),
    "comparison": lambda x, y: x > y + 1,
    "quotient": lambda x, y: x / y,
    "cast": lambda x, y: (x + y).astype(np.float32),
    "shifted": lambda x, y: x[1:] * y[:-1],
    "scalar": lambda x, y: x + y[0],
}
FOLDS = [np.sum, np.any, np.all, np.max, np.min, np.mean, np.prod, np.var]


@contextmanager
def small_blocks(nbytes):
    """Blocks of so many bytes."""
    before = blocks.REGISTER_BYTES, blocks.REGISTERS
    blocks.REGISTER_BYTES, blocks.REGISTERS = nbytes, blocks._Registers()
    try:
        yield
    finally:
        blocks.REGISTER_BYTES, blocks.REGISTERS = before


def heard(call):
    """What a call returns, and the texts that it warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = call()
        bits = np.asarray(value.get() if isinstance(value, da.DistributedArray) else value)
    return bits.dtype, bits.shape, bits.tobytes(), [str(w.message) for w in caught]


@pytest.mark.parametrize("devices", [1, 3])
@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(list(CHAINS)),
    st.sampled_from(FOLDS),
    st.sampled_from(["f4", "f8", "i4", "u1", "c8", "?"]),
    st.integers(1, 3000),
    st.sampled_from([1024, 1500, 4096]),
    st.sampled_from(["plain", "large", "special"]),
    st.booleans(),
    st.integers(0, 99),
)
def test_folds_of_blocks_are_those_of_stored_values(devices, name, fold, dtype, n, nbytes, kind, keepdims, seed):
    if name == "cast" and dtype == "c8":  # warns of what it drops, when it is recorded
        return
    rng = np.random.default_rng(seed)
    hosts = [(rng.random(n + 1) * 9 - 4) * (1e38 if kind == "large" and dtype[0] == "f" else 1) for _ in range(2)]
    if kind == "special" and dtype[0] in "fc":
        for host in hosts:
            host[rng.integers(0, n, 3)] = rng.choice([np.inf, -0.0, 0.0, np.nan, -np.inf], 3)
    with da.init(devices=devices, kind="host", minimum_chunk=1), np.errstate(all="ignore"):
        x, y = (da.asarray(np.abs(host).astype(dtype) if dtype == "u1" else host.astype(dtype)) for host in hosts)
        x._context.workers.inline_bytes = 0
        try:
            CHAINS[name](np.ones(2, dtype), np.ones(2, dtype))
        except TypeError:
            return
        stored = CHAINS[name](x, y).evaluate()
        with small_blocks(nbytes), np.errstate(all="warn", under="ignore"):
            try:
                expected = heard(lambda: fold(stored, keepdims=keepdims))
            except TypeError:
                return
            quiet = heard(lambda: CHAINS[name](x, y).evaluate())[3]
            found = heard(lambda: fold(CHAINS[name](x, y), keepdims=keepdims))
    assert found[:2] == expected[:2]
    if not np.isnan(np.frombuffer(expected[2], expected[0])).any():
        assert found[2] == expected[2]
    else:
        np.testing.assert_array_equal(np.frombuffer(found[2], found[0]), np.frombuffer(expected[2], expected[0]))
    steps = len(quiet)  # of one step they come in the order in which blocks meet them
    assert sorted(found[3][:steps]) == sorted(quiet) and found[3][steps:] == expected[3]


def test_what_is_folded_is_not_stored_and_what_comes_again_is():
    with da.init(devices=2, kind="host") as group:
        n = 1 << 20
        x = da.asarray(np.linspace(0, 1, n))

        def in_use():
            return sum(device.allocated for device in group.devices)

        before = in_use()
        square = x * x
        assert float(square.sum()) == float((x * x).evaluate().sum())
        assert in_use() == before
        square.sum()
        assert in_use() == before + square.nbytes
        held = x + 1
        assert float((held * held).sum()) == float(
            (held.get() ** 2)[: n // 2].sum() + (held.get() ** 2)[n // 2 :].sum()
        )


def test_a_tree_of_blocks_is_numpys():
    rng = np.random.default_rng(0)
    for size in [*range(1, 600), 4096, 5000, 12345]:
        array = rng.random(size)
        for most in (128, 130, 1000):
            sizes = []
            folded._leaves(size, most, sizes)
            assert sum(sizes) == size and max(sizes) <= most
            cuts = np.cumsum([0, *sizes])
            parts = [np.add.reduce(array[low:high]) for low, high in zip(cuts, cuts[1:], strict=False)]
            assert folded._added(np.add, size, most, parts, 0) == (np.add.reduce(array), len(sizes))


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["f4", "f8"]),
    st.integers(2, 9),
    st.sampled_from(["plain", "zeros", "special"]),
    st.booleans(),
    st.integers(1, 3),
    st.integers(0, 99),
)
def test_sums_of_short_rows_are_numpys(dtype, n, kind, keepdims, devices, seed):
    rng = np.random.default_rng(seed)
    host = ((rng.random((3500, n)) - 0.5) * 10.0 ** rng.integers(-9, 9, (3500, n))).astype(dtype)
    if kind != "plain":
        host[rng.random(host.shape) < 0.8] = -0.0
    if kind == "special":
        host[rng.integers(0, 3500, 9), rng.integers(0, n, 9)] = rng.choice([np.inf, -np.inf, np.nan], 9)
    with da.init(devices=devices, kind="host", minimum_chunk=1), np.errstate(all="warn"):
        x = da.asarray(host)
        found, expected = (
            heard(lambda: x.sum(axis=1, keepdims=keepdims)),
            heard(lambda: host.sum(axis=1, keepdims=keepdims)),
        )
    assert found[:2] + found[3:] == expected[:2] + expected[3:]
    found, expected = (np.frombuffer(bits, dtype) for bits in (found[2], expected[2]))
    np.testing.assert_array_equal(found, expected)
    there = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[there], np.signbit(expected)[there])


@pytest.mark.parametrize("n", [2, 3, 8, 20])
def test_rows_that_meet_a_matrix_are_numpys(n):
    """Short rows are repeated to the length of a block; what is made of rows alone is computed once."""
    host = np.random.default_rng(n).random((9000, n))
    row = host[5] * 2
    with da.init(devices=2, kind="host", minimum_chunk=1):
        x, r = da.asarray(host), da.asarray(row)
        with small_blocks(4096):
            np.testing.assert_array_equal(((x - r) ** 2).get(), (host - row) ** 2)
            np.testing.assert_array_equal(((x - r) * (r + 1)).get(), (host - row) * (row + 1))
            np.testing.assert_array_equal(((x[:, :1] - r) + x).get(), (host[:, :1] - row) + host)
            np.testing.assert_array_equal(((r - x) * x[0, 0] + r).get(), (row - host) * host[0, 0] + row)
