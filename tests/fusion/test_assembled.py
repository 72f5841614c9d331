"""Small cut arrays: writes without a plan give what planned ones give, and no plan is made for a window that moves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import distarray as da
from conformance.checking import on_gpu
from distarray.fusion import align, assembled, compiled

LAYOUTS = [da.blocks(0), da.blocks(1), da.grid((2, 2)), da.replicated(), da.cyclic(0), da.blocks(0, sizes=[5, 0, 0, 2])]


def programs(x, w, bounds):
    """Writes of every kind at the given bounds."""
    i, j, k, step = bounds
    held = x * 1
    x[i : i + 3, j : j + 4 : step] += 0.5
    x[i : i + 2, :] = w[j : j + 2, ::-1]
    x[1:] = x[:-1]
    x[:, j] = x[:, k]
    x[i] -= x[i, k] * w[k % 7]
    x[1:-1, 1:-1] = 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])
    x.T[k] /= 3
    x[..., None][i:] *= w[i:, :, None]
    x[i:, j] = 7
    return held


@settings(max_examples=60)
@given(data=st.data())
def test_writes_without_a_plan_equal_planned_ones(ctx, data):
    h, g = (np.random.default_rng(seed).random((7, 9)) for seed in (0, 1))
    one, other = (data.draw(st.sampled_from(LAYOUTS)) for _ in range(2))
    bounds = data.draw(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 8), st.integers(1, 3)))
    most = data.draw(
        st.sampled_from([assembled.ELEMENTS, 40, 12])
    )  # of larger arrays only what slices show is put together
    with ctx(4), pytest.MonkeyPatch.context() as patch:
        patch.setattr(assembled, "ELEMENTS", most)
        x, y = da.asarray(h, layout=one), da.asarray(h, layout=one)
        w = da.asarray(g, layout=other)
        held = programs(x, w, bounds)
        with da.ledger():  # what is counted is planned
            kept = programs(y, w, bounds)
        expected = h.copy()
        before = programs(expected, g, bounds)
        for got, value in ((x, expected), (y, expected), (held, before), (kept, before)):
            np.testing.assert_array_equal(got.get(), value)
        assert x.layout is y.layout
        for a, b in zip(x.all_chunks().values(), y.all_chunks().values(), strict=True):
            for chunk, twin in zip(a, b, strict=True):
                np.testing.assert_array_equal(*[c.get() if hasattr(c, "get") else c for c in (chunk, twin)])


def test_a_window_that_moves_makes_no_plans(four, monkeypatch):
    h = np.arange(400.0).reshape(20, 20)
    x = da.asarray(h, layout=da.blocks(0))
    if four.kind != "host":
        pytest.skip("GPUs' arrays are not put together on the host")
    monkeypatch.setattr(compiled, "align", None)
    monkeypatch.setattr(align, "_build", None)
    known = len(four.layouts._derived)
    for i in range(16):  # what is kept is of the layout, and of a value on each device
        x[i : i + 3, i : i + 4] *= 2
        x[:, i] = x[:, i + 1]
        h[i : i + 3, i : i + 4] *= 2
        h[:, i] = h[:, i + 1]
    assert len(four.layouts._derived) <= known + 2 + 4
    monkeypatch.undo()
    np.testing.assert_array_equal(x.get(), h)


@pytest.mark.skipif(on_gpu(), reason="GPUs report no floating-point conditions")
def test_conditions_casts_and_sharing_of_small_cut_arrays(four):
    h = np.arange(12.0)
    x = da.asarray(h, layout=da.blocks(0))
    y = x.reshard(da.blocks(0, sizes=[3, 3, 6, 0]))  # shares chunks
    with pytest.warns(RuntimeWarning, match="divide by zero") as caught:
        x[1:] /= x[:-1]
    assert len(caught) == 1
    with np.errstate(divide="ignore"):
        expected = h.copy()
        expected[1:] /= h[:-1].copy()
    np.testing.assert_array_equal(x.get(), expected)
    np.testing.assert_array_equal(y.get(), h)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        y[1:] /= y[:-1]
    np.testing.assert_array_equal(y.get(), expected)  # written, and then raised
    z = da.asarray(np.arange(12), layout=da.blocks(0))
    with pytest.raises(TypeError, match="same_kind"):
        z[2:] += 0.5
    with pytest.raises(ValueError, match="Integers to negative integer powers"):
        z[2:] **= -1
    with pytest.warns(np.exceptions.ComplexWarning):
        z[1:5] = da.asarray(np.full(4, 2 + 1j), layout=da.blocks(0))
    np.testing.assert_array_equal(z.get(), [0, 2, 2, 2, 2, *range(5, 12)])
