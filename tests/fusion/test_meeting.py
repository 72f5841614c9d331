"""Layouts in many pieces: values beside NumPy's, what moves, and how many steps are taken (counted, not timed)."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import distarray as da
from conformance.checking import on_gpu
from conformance.ranks import on_ranks
from distarray.devices import HostDevice
from distarray.fusion import align, evaluate
from distarray.geometry import IndexMap, Region
from distarray.geometry._spatial import RegionIndex
from distarray.transfer.plan import SAMPLE, waypoint


def tiles(n, size, rows=2, columns=2):
    """A ScaLAPACK layout: square blocks dealt to a grid of devices."""
    blocks = {d: [] for d in range(rows * columns)}
    for i in range(0, n, size):
        for j in range(0, n, size):
            device = i // size % rows * columns + j // size % columns
            blocks[device].append((slice(i, min(i + size, n)), slice(j, min(j + size, n))))
    return blocks


@pytest.fixture
def counted(monkeypatch):
    """``counted(owner, name)`` counts the calls of a function from now on."""

    def count(owner, name):
        calls = []
        inner = getattr(owner, name)

        @functools.wraps(inner)
        def outer(*args, **kwargs):
            calls.append(name)
            return inner(*args, **kwargs)

        monkeypatch.setattr(owner, name, outer)
        return calls

    return count


@settings(max_examples=60)
@given(data=st.data())
def test_block_cyclic_operands_of_any_blocks(ctx, data):
    h = np.random.default_rng(0).integers(-9, 9, data.draw(st.sampled_from([(701,), (13, 40), (64, 5)]))).astype(float)
    axes = st.integers(0, h.ndim - 1)
    layouts = st.builds(da.cyclic, axes, st.integers(1, 50))
    with ctx(data.draw(st.integers(1, 7))):
        x, y = (da.asarray(h, layout=data.draw(layouts)) for _ in range(2))
        np.testing.assert_array_equal((x * 2 + y).get(), h * 2 + h)
        np.testing.assert_array_equal((x[1:] - y[:-1]).get(), h[1:] - h[:-1])
        x += y
        np.testing.assert_array_equal(x.get(), h + h)
        x[:-2] = y[2:]
        expected = h + h
        expected[:-2] = h[2:]
        np.testing.assert_array_equal(x.get(), expected)
        assert float(x.sum()) == expected.sum()
        np.testing.assert_array_equal(np.asarray(x.max(axis=0)), expected.max(axis=0))
        np.testing.assert_array_equal(x.reshard(da.blocks(h.ndim - 1)).get(), expected)


@pytest.mark.parametrize(("first", "second"), [(64, 100), (63, 100)])
def test_unlike_block_cyclic_operands_are_brought_together(four, counted, first, second):
    h = np.arange(300_000.0)
    x, z = da.asarray(h, layout=da.cyclic(0, first)), da.asarray(h, layout=da.cyclic(0, second))
    told = da.explain(x + z)
    cut = counted(align, "_cells")
    with da.ledger() as log:
        s = (x + z).evaluate()
    np.testing.assert_array_equal(s.get(), h + h)
    assert s.layout is x.layout is told.layout
    assert log.bytes_moved == told.bytes_moved > 0
    assert not cut  # the operands lie alike when they are aligned
    with pytest.raises(da.ImplicitCommunicationError), da.no_implicit_communication():
        (x + z).evaluate()
    view = x[1:]  # a write goes where its target lies
    view[...] = z[:-1] * 2
    h2 = h.copy()
    h2[1:] = h[:-1] * 2
    np.testing.assert_array_equal(x.get(), h2)


def test_three_unlike_operands_meet_where_the_fewest_moves_lead(four):
    h = np.arange(300_000.0)
    one, two, three = (da.asarray(h, layout=da.cyclic(0, block)) for block in (64, 100, 63))
    s = (one + two + three).evaluate()
    np.testing.assert_array_equal(s.get(), 3 * h)
    assert s.layout.index_map == da.zeros(h.shape, layout=da.blocks(0)).layout.index_map
    s = (one + two + one[::-1]).evaluate()  # what is left of one layout decides
    np.testing.assert_array_equal(s.get(), 2 * h + h[::-1])


def test_unlike_operands_meet_on_several_processes():
    def program():
        h = np.arange(60_000.0)
        x, z = da.asarray(h, layout=da.cyclic(0, 64)), da.asarray(h, layout=da.cyclic(0, 100))
        x += z[::-1]
        return (x - z).get(), (x[1:] + x[:-1]).sum().get()

    h = np.arange(60_000.0)
    x = h + h[::-1]
    for got, total in on_ranks([1, 2, 1], program):
        np.testing.assert_array_equal(got, x - h)
        assert total == (x[1:] + x[:-1]).sum()


def test_a_tiled_matrix_is_computed_in_a_call_a_device(four, counted):
    if four.kind != "host":
        pytest.skip("chunks of a GPU have memory of their own")
    h = np.arange(512.0 * 512).reshape(512, 512)
    x = da.asarray(h, layout=tiles(512, 8))
    y = da.asarray(h, layout=tiles(512, 8))
    queries, runs = counted(RegionIndex, "query"), counted(evaluate, "_run_host")
    s = (x + y * 2).evaluate()
    assert (len(queries), len(runs)) == (0, 4)
    np.testing.assert_array_equal(s.get(), 3 * h)
    runs.clear()
    s += 1
    s.evaluate()
    assert len(runs) == 4
    del s
    assert float(x.sum()) == h.sum()
    np.testing.assert_array_equal(x.reshard(da.blocks(0)).get(), h)
    np.testing.assert_array_equal(x[3:-3].get(), h[3:-3])


def test_chunks_of_one_buffer_are_written_apart(four):
    h = np.arange(64.0 * 64).reshape(64, 64)
    x = da.asarray(h, layout=tiles(64, 8))
    y = x + 1
    x[5:20, 7] = -1  # some chunks are copied on write, for the expression that still reads them
    h2 = h.copy()
    h2[5:20, 7] = -1
    np.testing.assert_array_equal(y.get(), h + 1)
    np.testing.assert_array_equal((x * 2).get(), h2 * 2)
    np.testing.assert_array_equal(x.copy().get(), h2)
    before = [d.allocated for d in four.devices]
    del x, y
    assert all(d.allocated < b for d, b in zip(four.devices, before, strict=True))


def test_a_stencil_of_many_pieces_asks_a_few_questions_of_each(four, counted):
    queries = counted(RegionIndex, "query")
    made = {}
    for n in (20_000, 40_000):
        h = np.arange(float(n))
        x = da.asarray(h, layout=da.cyclic(0, 50))
        before = len(queries)
        np.testing.assert_array_equal((x[1:] - x[:-1]).get(), h[1:] - h[:-1])
        made[n] = len(queries) - before
        assert made[n] <= 20 * len(x.layout.chunks)
    assert made[40_000] <= 2.5 * made[20_000]


def test_layouts_of_too_many_regions_are_refused_at_once(four, monkeypatch):
    with pytest.raises(da.LayoutComplexityError, match=r"10000000 regions.*block of at least"):
        da.zeros(10**14, layout=da.cyclic(0, 10**7))
    monkeypatch.setattr("distarray.geometry.index_map.MAX_PIECES", 10)
    with pytest.raises(da.LayoutComplexityError, match="11 regions"):
        IndexMap((11,), {0: [Region.from_index(i, (11,)) for i in range(11)]})


def test_moves_of_too_many_pieces_are_refused(four, monkeypatch):
    x = da.ones(2003, layout=da.cyclic(0, 7))  # of a kind that no other test has planned for
    monkeypatch.setattr("distarray.transfer.plan.MAX_PIECES", 100)
    with pytest.raises(da.LayoutComplexityError, match=r"more than 100 pieces.*reshard"):
        x.reshard(da.cyclic(0, 9))
    assert float(x.sum()) == 2003


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "c16", "i8", "u1", "?"])
def test_sums_of_many_chunks_have_the_bits_of_one_after_the_other(four, monkeypatch, dtype):
    def folds(layout):
        x = da.asarray(h, layout=layout)
        return [f(x) for f in (da.sum, da.min, da.max, da.prod, lambda x: da.sum(x, initial=h[3, 3]))]

    h = (np.random.default_rng(1).random((65, 65)) * 2).astype(dtype)
    layouts = [tiles(65, 8), *[da.cyclic(axis, block) for axis in (0, 1) for block in (2, 3, 10)]]
    together = [folds(layout) for layout in layouts]
    monkeypatch.setattr(HostDevice, "rows", lambda *_: None)
    for layout, got in zip(layouts, together, strict=True):
        assert [a.get().tobytes() for a in got] == [a.get().tobytes() for a in folds(layout)]
        np.testing.assert_allclose(np.asarray(got[0]), h.sum(), rtol=1e-2 if dtype == "f2" else 1e-5)


def five_points(x):
    return x[1:-1, 1:-1] + x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2]


def test_stencils_of_many_tiles_cost_in_devices_and_in_moves_of_tiles(four, counted):
    queries, cut = counted(RegionIndex, "query"), counted(align, "_cells")
    asked = []
    for n in (128, 256):
        h = np.random.default_rng(0).random((n, n))
        x = da.asarray(h, layout=tiles(n, 8))
        before = len(queries)
        told = da.explain(five_points(x))
        with da.ledger() as log:
            got = five_points(x).evaluate()
        asked.append(len(queries) - before)
        assert asked[-1] <= 3 * len(x.layout.chunks)
        assert len(cut) <= 8  # the tiles are moved once, whole, and not cut
        cut.clear()
        assert log.bytes_moved == told.bytes_moved <= 1.1 * h.nbytes
        np.testing.assert_array_equal(got.get(), five_points(h))
        x[1:-1, 1:-1] = five_points(x)
        h[1:-1, 1:-1] = five_points(h)
        cut.clear()
        np.testing.assert_array_equal(x.get(), h)
    assert asked[1] <= 4.5 * asked[0]


@pytest.mark.parametrize("devices", [1, 3, 4])
def test_crowded_layouts_beside_others(ctx, devices):
    h = np.random.default_rng(0).random(4001)
    with ctx(devices):
        x = da.asarray(h, layout=da.cyclic(0, 50))
        y = da.asarray(2 * h, layout=da.cyclic(0, 53))
        z = da.asarray(3 * h, layout=da.blocks(0))
        np.testing.assert_array_equal((x + y + z).get(), h + 2 * h + 3 * h)
        np.testing.assert_array_equal((x[1:-1] * 2 + y[2:]).get(), h[1:-1] * 2 + 2 * h[2:])
        np.testing.assert_array_equal((x - x[::-1] + z).get(), h - h[::-1] + 3 * h)
        before, old = x + 1, h.copy()
        x[1:-1] = x[:-2] + x[2:]
        h[1:-1] = h[:-2] + h[2:]
        x[1:] += z[:-1]
        h[1:] += 3 * old[:-1]
        x[::2] = z[::2]
        h[::2] = 3 * old[::2]
        z[1:] = x[:-1]
        np.testing.assert_array_equal(x.get(), h)
        np.testing.assert_array_equal(z[1:].get(), h[:-1])
        np.testing.assert_array_equal(before.get(), old + 1)


@pytest.mark.skipif(on_gpu(), reason="GPUs report no floating-point conditions")
def test_a_write_of_too_many_pieces_is_whole_before_it_raises(four):
    h = np.arange(4000.0)
    x, z = da.asarray(h, layout=da.cyclic(0, 50)), da.asarray(h, layout=da.blocks(0))
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        x[1:] /= z[:-1]
    with np.errstate(divide="ignore"):
        h[1:] /= h[:-1].copy()
    np.testing.assert_array_equal(x.get(), h)


def test_crowded_operands_of_several_processes():
    def program():
        h = np.arange(6000.0)
        x, z = da.asarray(h, layout=da.cyclic(0, 40)), da.asarray(h, layout=da.cyclic(0, 43))
        y = (x[:-2] + z[2:]).get()
        x[1:-1] = x[:-2] + x[2:]
        return y, x.get(), (x + z).get()

    h = np.arange(6000.0)
    g = h.copy()
    g[1:-1] = h[:-2] + h[2:]
    for got in on_ranks([1, 2, 1], program):
        for a, b in zip(got, (h[:-2] + h[2:], g, g + h), strict=True):
            np.testing.assert_array_equal(a, b)


def test_unlike_maps_are_counted_from_a_few_of_their_regions(counted):
    queries = counted(RegionIndex, "query")
    a = da.blocks(0).resolve((300_000,), range(4))
    one, other = (da.cyclic(0, block).resolve(a.shape, range(4)) for block in (240, 271))
    assert waypoint(one, other, least=1024, factor=1) == a
    assert len(queries) <= SAMPLE


@pytest.mark.parametrize("shape", [(1, 30, 3), (4, 30, 3)])
@pytest.mark.parametrize("form", [lambda v: v, lambda v: v * 2.0, lambda v: v[::-1]])
def test_what_lies_in_many_chunks_is_written_where_it_broadcasts(ctx, shape, form):
    h, v = np.zeros(shape), np.arange(90).reshape(30, 3) % 2 == 0
    with ctx(3):
        x = da.asarray(h, layout=da.blocks(1))
        y = da.asarray(v, layout={0: [(slice(i, i + 1), slice(0, 3)) for i in range(30)]})
        h[()] = form(v)
        x[()] = form(y)
        np.testing.assert_array_equal(x.get(), h)
        h -= form(v) * 3
        x -= form(y) * 3
        np.testing.assert_array_equal(x.get(), h)
