"""The executor on real chunks: all 25 conversions on random maps, what is shared, and what the ledger sees."""

from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import distarray as da
from conformance.strategies import layouts
from distarray.errors import UnsupportedError
from distarray.testing import run_ranks
from distarray.transfer import execute

MODES = ["replica", "min", "max", "sum", "prod"]


@settings(max_examples=150)
@given(data=st.data(), first=st.sampled_from(MODES), second=st.sampled_from(MODES))
def test_conversions(ctx, data, first, second):
    shape = data.draw(st.sampled_from([(), (5,), (0, 3), (4, 6)]))
    dtype = data.draw(st.sampled_from(["i1", "u8", "f4", "f8", "c16", "?"]))
    h = np.random.default_rng(data.draw(st.integers(0, 9))).integers(0, 3, shape).astype(dtype)
    with ctx(4):
        a = da.distributed_array(h, data.draw(layouts(shape, 4)), first)
        b = a.change_mode(second)
        np.testing.assert_array_equal(b.get(), h)
        c = b.reshard(data.draw(layouts(shape, 4)))
        assert c.mode is da.Mode.of(second)
        np.testing.assert_array_equal(c.get(), h)
        np.testing.assert_array_equal(c.change_mode("replica").get(), h)
        np.testing.assert_array_equal(a.get(), h)


def test_special_values_survive_every_fold(four):
    special = np.array([-0.0, 0.0, np.inf, -np.inf, np.nan, 5e-324, -1.5, 1.7e308])
    layout = {0: slice(0, 6), 1: slice(2, 8), 2: slice(None, None, 3)}
    for mode in MODES[1:]:
        got = da.distributed_array(special, layout, mode).change_mode("replica").get()
        np.testing.assert_array_equal(got, special)
        np.testing.assert_array_equal(np.signbit(got[~np.isnan(got)]), np.signbit(special[~np.isnan(special)]))
    complex_special = np.array([complex(np.inf, 0), complex(0, -np.inf), complex(-0.0, -0.0), 1 + 2j])
    for mode in MODES[1:]:
        got = da.distributed_array(complex_special, da.replicated(), mode).change_mode("replica").get()
        np.testing.assert_array_equal(got, complex_special)


def test_uncovered_elements_are_the_identity(four):
    x = da.distributed_array([1, 2, 3, 4], {0: slice(0, 2), 1: slice(1, 2)}, "sum")
    np.testing.assert_array_equal(x.get(), [1, 2, 0, 0])
    np.testing.assert_array_equal(x.change_mode("max").get()[:2], [1, 2])
    y = da.distributed_array([5, 6], {0: slice(0, 1)}, "prod")
    np.testing.assert_array_equal(y.get(), [5, 1])
    with pytest.raises(da.CoverageError, match=r"element \(2,\)"):
        da.distributed_array([1, 2, 3], {0: slice(0, 2)})


def test_what_stays_is_shared_and_moves_nothing(four):
    x = da.asarray(np.arange(8.0), layout=da.blocks(0))
    with da.ledger() as log:
        y = x.reshard({0: slice(0, 2), 1: slice(2, 4), 2: slice(4, 8)})
    assert log.bytes_moved == 16
    x[0] = 99
    np.testing.assert_array_equal(y.get(), np.arange(8.0))
    y[2] = -1
    assert x.get()[2] == 2


def test_resolving_happens_once_for_all_views(four):
    x = da.distributed_array(np.ones((4, 400)), da.replicated(), "sum")
    v = x[1:3]
    with da.ledger() as first:
        (v + 1).evaluate()
    with da.ledger() as second:
        (x + 1).evaluate()
    assert first.bytes_moved > 0
    assert second.bytes_moved == 0
    assert x.mode is da.REPLICA


def test_explain_says_what_happens(four):
    x = da.asarray(np.ones((64, 64)), layout=da.blocks(0))
    said = da.explain(x, da.blocks(1))
    with da.ledger() as log:
        x.reshard(da.blocks(1))
    assert said.bytes_moved == log.bytes_moved
    assert "round 1: 12 messages" in repr(said)
    e = x[1:] + x[:-1]
    said = da.explain(e)
    with da.ledger() as log:
        e.evaluate()
    assert said.bytes_moved == log.bytes_moved
    assert da.explain(e).bytes_moved == 0


def test_what_comes_to_python_is_counted_apart(four):
    x = da.asarray(np.ones((8, 8)), layout=da.blocks(0))
    with da.ledger() as log:
        x.get()
        float(x[3, 3])
    assert (log.bytes_moved, log.bytes_to_host) == (0, x.nbytes + 8)


def test_a_move_by_way_of_blocks_is_explained_and_counted(four):
    h = np.arange(150_000.0)
    x = da.asarray(h, layout=da.cyclic(0, 63))
    layout = da.cyclic(0, 100)
    told = da.explain(x, layout).bytes_moved
    with da.ledger() as log:
        y = x.reshard(layout)
    np.testing.assert_array_equal(y.get(), h)
    assert log.bytes_moved == told > 0
    assert y.layout.index_map == da.zeros(h.shape, layout=layout).layout.index_map


def test_operands_that_meet_in_too_many_pieces_are_refused(four, monkeypatch):
    monkeypatch.setattr("distarray.fusion.align.MAX_PIECES", 100)
    x, y = da.ones(2000, layout=da.cyclic(0, 7)), da.ones(2000, layout=da.cyclic(0, 9))
    with pytest.raises(da.LayoutComplexityError, match=r"more than 100 pieces .* x\.reshard\(y\.layout\)"):
        (x + y).evaluate()
    assert (x.reshard(y.layout) + y).sum() == 4000


@pytest.mark.parametrize("block", [2, 3, 5, 40])
@pytest.mark.parametrize("axis", [0, 1])
def test_block_cyclic_arrays_compute_as_others_do(ctx, axis, block):
    h = np.random.default_rng(0).integers(0, 9, (61, 83)).astype(float)
    for n in (1, 3, 7):
        with ctx(n):
            x = da.asarray(h, layout=da.cyclic(axis, block))
            np.testing.assert_array_equal((x[:-2, 1:] * 2 + x[2:, :-1]).get(), h[:-2, 1:] * 2 + h[2:, :-1])
            np.testing.assert_array_equal(x.reshard(da.blocks(1 - axis)).get(), h)
            np.testing.assert_array_equal(
                da.asarray(h, layout=da.blocks(axis)).reshard(da.cyclic(axis, block)).get(), h
            )
            for over in (None, 0, 1):
                np.testing.assert_array_equal(np.asarray(x.sum(axis=over)), h.sum(axis=over))
                np.testing.assert_array_equal(np.asarray(x.argmax(axis=over)), h.argmax(axis=over))
            np.testing.assert_array_equal(x.cumsum(axis=axis).get(), h.cumsum(axis=axis))
            x[3:-1:2, ::-3] = -1
            expected = h.copy()
            expected[3:-1:2, ::-3] = -1
            np.testing.assert_array_equal(x.get(), expected)


def test_the_cost_of_block_cyclic_arrays_is_not_that_of_their_blocks(four):
    x = da.zeros(2_000_000, layout=da.cyclic(0, 3))
    assert sum(len(held) for held in x.index_map.values()) == 12
    y = da.ones(8_000, layout=da.cyclic(0, 3))
    z = (y[:-2] - 2 * y[1:-1] + y[2:]).evaluate()
    assert sum(len(held) for held in z.index_map.values()) <= 3 * 12
    with pytest.raises(da.LayoutError, match="block"):
        da.zeros(8, layout=da.cyclic(0, -3))


def test_a_type_without_an_identity_is_refused_before_any_process_begins():
    value = np.arange(6).astype("M8[s]")
    overlapping = {0: [slice(0, 4)], 1: [slice(3, 5)], 2: [slice(2, 6)]}

    def program(communicator):
        with da.current.scoped(da.context.join(communicator, 1)):
            x = da.asarray(value, layout=overlapping)
            with pytest.raises(UnsupportedError, match="has no sum"):
                x.change_mode("sum")
            return x.get(), float(da.ones(6, layout=da.blocks(0)).sum())

    for found, total in run_ranks(3, program):
        np.testing.assert_array_equal(found, value)
        assert total == 6


@pytest.mark.parametrize("dtype", ["c8", "c16"])
@pytest.mark.parametrize("mode", [da.Mode.MIN, da.Mode.MAX])
def test_extrema_of_complex_numbers_on_other_libraries_keep_both_parts(mode, dtype):
    """As NumPy orders them, and with NumPy's NaN: another library's own would make one NaN of both parts."""
    other = ModuleType("other")
    vars(other).update({k: v for k, v in vars(np).items() if k not in ("minimum", "maximum")})
    special = [0.0, 1.0, -2.0, np.inf, -np.inf, np.nan]
    values = np.array([complex(a, b) for a in special for b in special], dtype)
    first, second = (a.ravel() for a in np.meshgrid(values, values))
    want = mode.fold(first, second)
    into = first.copy()
    with np.errstate(all="ignore"):  # GPUs record no conditions
        execute.combine(other, mode, into, second)
    for got, ref in ((into.real, want.real), (into.imag, want.imag)):
        np.testing.assert_array_equal(got, ref)
