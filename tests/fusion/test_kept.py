"""What the program still holds is kept when an expression computes it, counted, and let go of first."""

import gc
import warnings

import numpy as np
import pytest

import distarray as da

N = 1 << 18


@pytest.fixture
def four():
    with da.init(devices=4, kind="host") as context:
        yield context


def in_use(context):
    return sum(device.allocated for device in context.devices)


def test_a_held_value_is_computed_once(four):
    x = da.asarray(np.linspace(0, 1, N))
    k = np.exp(x)
    before = in_use(four)
    y = (k * 2 + 1).evaluate()
    assert in_use(four) == before + 2 * 8 * N
    kept = [id(chunk) for chunk in k._node.kept.chunks]
    z = (k - 1).evaluate()
    assert in_use(four) == before + 3 * 8 * N
    assert [id(chunk) for chunk in k.evaluate()._storage.version.chunks] == kept
    assert in_use(four) == before + 3 * 8 * N
    np.testing.assert_array_equal(k.get(), np.exp(np.linspace(0, 1, N)))
    np.testing.assert_array_equal(z.get(), k.get() - 1)
    np.testing.assert_array_equal(y.get(), k.get() * 2 + 1)


def test_what_nobody_holds_is_not_kept(four):
    x = da.asarray(np.linspace(0, 1, N))
    before = in_use(four)
    x += np.exp(x) * 2 + 1
    y = (np.exp(x) * 2 + 1).evaluate()
    assert in_use(four) == before + y.nbytes
    k = np.exp(x)
    z = (k + 1).evaluate()
    del k
    gc.collect()
    assert in_use(four) == before + y.nbytes + z.nbytes


def test_cheap_values_are_kept_once_they_have_cost_enough(four):
    x = da.asarray(np.linspace(0, 1, N))
    k = x * 2
    before = in_use(four)
    found = [(k + i).evaluate() for i in range(7)]
    assert in_use(four) == before + 7 * 8 * N
    found.append((k + 7).evaluate())
    assert in_use(four) == before + 9 * 8 * N
    for i, y in enumerate(found):
        np.testing.assert_array_equal(y.get(), np.linspace(0, 1, N) * 2 + i)


def test_a_mask_is_kept_at_once(four):
    """A byte an element costs less to keep than floating-point steps cost to repeat."""
    x = da.asarray(np.linspace(0, 1, N))
    alive = x * x + x < 1
    before = in_use(four)
    y = np.where(alive, x * x, x).evaluate()
    assert in_use(four) == before + y.nbytes + N
    kept = [id(chunk) for chunk in alive._node.kept.chunks]
    count = (alive + 0).evaluate()
    assert in_use(four) == before + y.nbytes + N + count.nbytes
    assert [id(chunk) for chunk in alive.evaluate()._storage.version.chunks] == kept


def test_what_is_kept_goes_first_under_a_limit():
    with da.init(devices=1, kind="host", memory_limit=5 * 8 * N) as context:
        (device,) = context.devices
        x = da.asarray(np.linspace(0, 1, N))
        k = np.exp(x)
        y = (k + 1).evaluate()
        assert device.allocated == 3 * 8 * N
        more = [da.zeros(N), da.zeros(N)]
        assert device.allocated == 5 * 8 * N
        more.append(da.zeros(N))
        assert device.allocated == 5 * 8 * N
        with pytest.raises(da.DeviceMemoryError):
            da.zeros(N)
        np.testing.assert_array_equal(y.get(), np.exp(np.linspace(0, 1, N)) + 1)
        more.pop()
        np.testing.assert_array_equal((k + 2).get(), np.exp(np.linspace(0, 1, N)) + 2)  # no room to keep it


def test_a_value_is_kept_as_it_was_recorded(four):
    h = np.linspace(0, 1, N)
    x = da.asarray(h)
    k = np.exp(x)
    first = (k + x).get()
    x[...] = 7
    np.testing.assert_array_equal(first, np.exp(h) + h)
    np.testing.assert_array_equal((k + x).get(), np.exp(h) + 7)


def test_a_warning_comes_once(four):
    x = da.zeros(N)
    values = [np.log(x), 1 / x]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for k in values:
            (k + 1).evaluate()
            (k + 2).evaluate()
            k.evaluate()
    assert [str(w.message) for w in caught] == [f"divide by zero encountered in {name}" for name in ("log", "divide")]


def test_a_warning_that_is_an_error_comes_each_time(four):
    k = np.log(da.zeros(N))
    for _ in range(2):
        with pytest.raises(RuntimeWarning):
            (k + 1).evaluate()


def test_shared_values_count_once(four):
    x = da.asarray(np.linspace(0, 1, N))
    y = x
    for _ in range(40):
        y = y + y
    assert y._node.version is None
    np.testing.assert_array_equal(y.get(), np.linspace(0, 1, N) * 2.0**40)


def test_what_a_statement_writes_is_kept_where_the_program_has_a_name_for_it(four):
    h = np.linspace(0, 1, N)
    x, z = da.asarray(h), da.zeros(N)
    before = in_use(four)
    z[...] = np.exp(x)
    z += np.exp(x)
    assert in_use(four) == before
    k, total = np.exp(x), da.zeros(N)
    z[...] = k
    assert in_use(four) == before + 2 * 8 * N
    chunks = [id(chunk) for chunk in k._node.kept.chunks]
    total += k
    assert [id(chunk) for chunk in k.evaluate()._storage.version.chunks] == chunks
    slopes = [np.sin(x), np.cos(x)]
    before = in_use(four)
    total += slopes[0]
    z[...] = slopes[1]
    assert in_use(four) == before + 2 * 8 * N
    np.testing.assert_array_equal(total.get(), np.exp(h) + np.sin(h))
    np.testing.assert_array_equal((z + slopes[0] - slopes[1]).get(), np.cos(h) + np.sin(h) - np.cos(h))


@pytest.mark.parametrize("layout", [None, da.blocks(1), da.cyclic(1, 64), da.replicated()], ids=str)
@pytest.mark.parametrize(
    "kind", [da.blocks(0), da.cyclic(0, 1000), {1: slice(0, N // 3), 2: slice(N // 3, N)}], ids=str
)
def test_a_trajectory_computes_each_state_once(layout, kind, four):
    """Each state is written to a row of its own, mostly on another device than its parts, and goes on from there."""
    h = np.linspace(0, 1, N)
    y, g = da.asarray(h, layout=kind), h
    rows, wanted = da.zeros((3, N), layout=layout), np.zeros((3, N))
    for i in range(3):
        k, own = np.sin(y), np.sin(g)
        y, g = y + 0.1 * (k + np.exp(-k)), g + 0.1 * (own + np.exp(-own))
        rows[i], wanted[i] = y, g
        assert y._node.version is not None or y._node.kept is not None
    np.testing.assert_array_equal(rows.get(), wanted)
    np.testing.assert_array_equal(y.get(), g)


def test_what_is_computed_apart_is_written_as_it_was(four):
    h = np.linspace(-1, 1, N)
    x = da.asarray(h, layout=da.blocks(0))
    rows = da.zeros((2, N), dtype="f4")
    rows[0] = x * 2  # converted
    rows[1] = rows[0] * 3 + rows[1]  # reads what is written to
    with pytest.warns(RuntimeWarning, match="invalid value encountered in sqrt") as caught:
        rows[0] = np.sqrt(x)
    assert len(caught) == 1
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(rows[0].get(), np.sqrt(h).astype("f4"))
    np.testing.assert_array_equal(rows[1].get(), (h * 2).astype("f4") * 3)


def test_what_nobody_holds_is_not_kept_beside_what_is(four):
    h = np.linspace(0, 1, N)
    x = da.asarray(h)
    k = np.exp(x)
    (k + 1).evaluate()
    before = in_use(four)
    y = (k + np.sin(k) * np.cos(x)).evaluate()
    assert in_use(four) == before + y.nbytes
    z = k * np.tanh(k)
    w = (z + np.sin(z)).evaluate()
    assert in_use(four) == before + y.nbytes + w.nbytes + z.nbytes
    np.testing.assert_array_equal(w.get(), np.exp(h) * np.tanh(np.exp(h)) + np.sin(np.exp(h) * np.tanh(np.exp(h))))
