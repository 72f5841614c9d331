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
