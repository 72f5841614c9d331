"""What NumPy's functions made of others move, selection among many elements, refusals, and shared memory."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing import overrides

import distarray as da
from distarray.array.functions import FUNCTIONS
from distarray.ops.refused import REFUSED

N = 40_000
RNG = np.random.default_rng(3)


@pytest.fixture
def four() -> Any:
    with da.init(devices=4, kind="host") as context:
        yield context


def spread(values: Any, axis: int = 0) -> da.DistributedArray:
    return da.asarray(values, layout=da.blocks(axis))


def test_what_is_missing_is_known():
    """Every function that NumPy lets others override dispatches here, or stands in the table of refusals."""
    elsewhere = {"ones", "full", "eye", "identity", "tri", "fromfunction", "require", "loadtxt", "genfromtxt"}
    missing = {
        f"{f.__module__}.{f.__name__}"
        for f in overrides.get_overridable_numpy_array_functions()
        if f not in FUNCTIONS
        and f.__name__ not in elsewhere  # like= stands for these under another object
        # text; overridable only where something has imported them
        and not f.__module__.startswith(("numpy.char", "numpy.strings"))
    }
    assert not missing


@pytest.mark.parametrize("function", REFUSED, ids=lambda f: f.__name__)
def test_what_means_nothing_is_refused_with_a_reason(four, function):
    with pytest.raises(TypeError, match="has no meaning for distributed arrays"):
        FUNCTIONS[function](spread(np.arange(4)))


# --- selection --------------------------------------------------------------------------------------------------------

VALUES = {
    "uniform": RNG.random(N),
    "normal": RNG.normal(size=N).astype(np.float32),
    "two": RNG.integers(0, 2, N),
    "ten": RNG.integers(0, 10, N).astype(np.int16),
    "one": np.full(N, 3.5),
    "sorted": np.arange(N, dtype=float),
    "saw": (np.arange(N) % 4).astype(float),
    "heavy tail": RNG.zipf(1.5, N),
    "infinite": np.where(RNG.random(N) < 0.6, -np.inf, RNG.random(N)),
    "nan": np.where(RNG.random(N) < 0.3, np.nan, RNG.random(N)),
    "bytes": RNG.integers(0, 255, N).astype(np.uint8),
}


@pytest.mark.parametrize("name", VALUES)
def test_selection_finds_what_sorting_finds(four, name):
    values = VALUES[name]
    q = [0, 1e-5, 0.1, 0.5, 0.50001, 0.9, 1]
    many = np.linspace(0, 1, 41)
    for layout in (da.blocks(0), {0: slice(0, N // 2 + 1000), 2: [slice(N // 2 - 1000, None)], 3: [slice(0, 0)]}):
        x = da.asarray(values, layout=layout)
        with np.errstate(invalid="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for call in (
                np.median, np.nanmedian, lambda a: np.quantile(a, q), lambda a: np.nanquantile(a, q, method="hazen"),
                lambda a: np.quantile(a, many, method="nearest"),
            ):  # fmt: skip
                found, wanted = call(x), np.asarray(call(values))
                assert found.dtype == wanted.dtype
                np.testing.assert_allclose(found.get(), wanted, rtol=1e-6)


def test_few_long_lines_are_selected(four):
    values = RNG.normal(size=(3 * N, 2))
    x = spread(values)
    np.testing.assert_allclose(np.percentile(x, [5, 50], axis=0).get(), np.percentile(values, [5, 50], axis=0))
    np.testing.assert_allclose(np.median(x, axis=0, keepdims=True).get(), np.median(values, axis=0, keepdims=True))


# --- what is moved ----------------------------------------------------------------------------------------------------


def test_selection_gathers_samples_and_candidates_only(four):
    x = spread(RNG.normal(size=1_000_000))
    with da.ledger() as log:
        float(np.median(x))
    assert log.bytes_moved + log.bytes_to_host < 4 * 8192 * 8


def test_reductions_without_nan_move_nothing(four):
    x = spread(np.where(np.arange(4000) % 7 == 0, np.nan, 1.0).reshape(400, 10))
    with da.no_implicit_communication():
        assert np.nansum(x, axis=0).mode is da.SUM
        assert np.nanprod(x, axis=0).mode is da.PROD


@pytest.mark.parametrize("function", [np.nanmin, np.nanmax])
def test_extremes_without_nan_move_results(four, function):
    values = np.where(np.arange(4000) % 7 == 0, np.nan, np.arange(4000.0)).reshape(400, 10)
    x = spread(values)
    with da.ledger() as log:
        found = function(x, axis=0)
        found.evaluate()
    assert log.bytes_moved + log.bytes_to_host <= 4 * 4 * 10 * 8
    np.testing.assert_array_equal(found.get(), function(values, axis=0))


def test_counts_move_their_own_size(four):
    x = spread(np.arange(4000) % 50)
    with da.ledger() as log:
        counts = np.bincount(x)
        assert counts.mode is da.SUM
        assert log.bytes_moved == 0
        assert counts.get().tolist() == [80] * 50
    assert log.bytes_moved <= 4 * 50 * 8
    with da.ledger() as log:
        hist, _ = np.histogram(x, 16, (0, 50))
        assert hist.mode is da.SUM
    assert log.bytes_moved == 0
    with da.ledger() as log:
        np.histogram(x, 16)[0].get()
    assert log.bytes_moved <= 4 * (16 + 2) * 8


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_convolution_moves_halos(four, mode):
    x = spread(RNG.normal(size=4000))
    kernel = np.arange(1.0, 12.0)
    with da.ledger() as log:
        found = np.convolve(x, kernel, mode)
    assert log.bytes_moved <= 3 * 10 * 8
    np.testing.assert_allclose(found.get(), np.convolve(x.get(), kernel, mode))


def test_gradient_moves_one_element_each_way(four):
    x = spread(RNG.normal(size=4000))
    with da.ledger() as log:
        np.gradient(x).evaluate()
    assert log.bytes_moved <= 3 * 2 * 8


def test_covariance_moves_its_own_size(four):
    x = spread(RNG.normal(size=(4000, 5)))
    with da.ledger() as log:
        found = np.cov(x, rowvar=False)
    assert log.bytes_moved <= 2 * 4 * (25 + 5) * 8
    np.testing.assert_allclose(found.get(), np.cov(x.get(), rowvar=False))


# --- warnings and sharing ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (np.nanmean, "Mean of empty slice"), (np.nanmax, "All-NaN slice encountered"), (np.nanmedian, "All-NaN"),
        (np.nanvar, "Degrees of freedom <= 0 for slice"),
    ],
)  # fmt: skip
def test_slices_of_nan_alone_warn(four, function, message):
    x = spread(np.array([[np.nan, np.nan], [1.0, 2.0]]))
    with pytest.warns(RuntimeWarning, match=message):
        found = function(x, axis=1)
    assert np.isnan(found.get()[0])
    assert not np.isnan(found.get()[1])


@pytest.mark.parametrize("function", [np.nanmin, np.nanmax])
@pytest.mark.parametrize(
    ("values", "extra"),
    [
        ([np.nan, complex(np.inf, 5)], {}), ([np.nan, complex(-np.inf, -5)], {}), ([np.nan, np.inf, np.inf], {}),
        ([np.nan, -np.inf, -np.inf], {}), ([np.nan, 1.0, 2.0], {"initial": np.nan}), ([3.0, 4.0], {"initial": np.nan}),
        ([np.nan, 1.0, 2.0], {"initial": -5.0}), ([np.nan, 1.0, 2.0], {"initial": 0.0, "where": [True, True, False]}),
        ([np.nan, np.nan], {"initial": 5.0}), ([np.nan, 1.0], {"initial": 2**70}),
    ],
)  # fmt: skip
def test_extremes_leave_nan_out_and_nothing_else(four, function, values, extra):
    found, wanted = function(spread(values), **extra), function(np.array(values), **extra)
    np.testing.assert_array_equal(found.get(), wanted)
    out = da.zeros((), found.dtype)
    assert function(spread(values), out=out, **extra) is out
    np.testing.assert_array_equal(out.get(), wanted)


@pytest.mark.parametrize("function", [np.nanmin, np.nanmax])
@pytest.mark.parametrize("extra", [{"initial": np.nan}, {"initial": np.nan, "where": [True, False, False]}, {}])
def test_extremes_of_nothing_are_nan(four, function, extra):
    x = spread([np.nan, 1.0, 2.0] if "where" in extra else [np.nan, np.nan, np.nan])
    for out in (None, da.zeros(()), np.zeros(())):
        with pytest.warns(RuntimeWarning, match="All-NaN slice"):
            found = function(x, out=out, **extra)
        assert np.isnan(float(found))


def test_sharing_memory(four):
    x = spread(np.arange(12.0))
    assert np.shares_memory(x, x[3:5])
    assert np.may_share_memory(x[::2], x[4:])
    assert not np.shares_memory(x[::2], x[1::2])
    assert not np.shares_memory(x, x.copy())
    assert not np.shares_memory(x, x.get())


def test_in_place(four):
    x = spread(np.array([[1.0, np.nan], [np.inf, 4.0]]))
    assert np.nan_to_num(x, copy=False, posinf=9) is x
    np.fill_diagonal(x, [7, 8])
    np.put_along_axis(x, np.array([[1], [0]]), -1, axis=1)
    assert x.get().tolist() == [[7, -1], [-1, 8]]
    host = np.zeros((2, 2))
    da.fill_diagonal(host, da.asarray([1.0, 2.0]))
    da.put_along_axis(host, np.array([[1], [0]]), 5, axis=1)
    assert host.tolist() == [[1, 5], [5, 2]]


def test_windows_are_read_only(four):
    windows = np.lib.stride_tricks.sliding_window_view(spread(np.arange(9.0)), 3)
    with pytest.raises(ValueError, match="read-only"):
        windows[0, 0] = 1
    with pytest.raises(TypeError, match="writeable=False"):
        np.lib.stride_tricks.sliding_window_view(spread(np.arange(9.0)), 3, writeable=True)


@pytest.mark.parametrize("layout", [None, da.blocks(0), da.blocks(1)], ids=str)
def test_nanmedian_warns_once_for_each_line(layout: Any) -> None:
    a = np.full((4, 3), np.nan)
    a[1] = 2
    with da.init(devices=3, kind="host"):
        x = da.asarray(a, layout=layout)
        for axis, count in ((None, 0), (0, 0), (1, 3)):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                found = np.nanmedian(x, axis=axis)
            assert [str(w.message) for w in caught] == ["All-NaN slice encountered"] * count
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                assert np.array_equal(found.get(), np.nanmedian(a, axis=axis), equal_nan=True)


@pytest.mark.parametrize("function", [np.quantile, np.nanquantile])
@pytest.mark.parametrize("method", ["linear", "lower", "inverted_cdf"])
@pytest.mark.parametrize("shape", [(1,), (2, 3), (4,), ()])
def test_quantiles_into_out(function: Any, method: str, shape: tuple[int, ...]) -> None:
    a = np.arange(12.0).reshape(4, 3)
    with da.init(devices=3, kind="host"):
        for axis in (None, 0):
            mine, theirs = da.zeros(shape), np.zeros(shape)
            try:
                function(a, 0.5, axis=axis, out=theirs, method=method)
            except ValueError:
                with pytest.raises(ValueError, match=r"shape|match|broadcast"):
                    function(da.asarray(a, layout=da.blocks(0)), 0.5, axis=axis, out=mine, method=method)
            else:
                function(da.asarray(a, layout=da.blocks(0)), 0.5, axis=axis, out=mine, method=method)
            assert np.array_equal(mine.get(), theirs)


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.4.0", reason="NumPy 2.4 brought casting='same_value'")
@pytest.mark.parametrize(("values", "dtype"), [
    ([1.0, 2.0], "i8"), ([1.5], "i8"), ([np.nan], "i8"), ([np.nan, np.inf], "f4"), ([0.1], "f4"), ([300], "u1"), ([-1], "u8"),
    ([1 + 1j], "f8"), ([1 + 0j], "f8"), ([2**63 - 1], "f8"), ([2**53 + 1], "f8"), ([1e20], "i8"), ([2], "?"), ([3], "M8[D]"),
])  # fmt: skip
def test_casts_that_keep_every_value(values: Any, dtype: str) -> None:
    a = np.array(values * 3)
    with da.init(devices=3, kind="host"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = da.asarray(a, layout=da.blocks(0))
        try:
            known = a.astype(dtype, casting="same_value")  # type: ignore[call-overload]
        except (ValueError, TypeError) as error:
            with pytest.raises(type(error), match="same_value"):
                x.astype(dtype, casting="same_value")
        else:
            assert np.array_equal(x.astype(dtype, casting="same_value").get(), known, equal_nan=dtype[0] == "f")


def test_power_series_of_integers() -> None:
    numpys, ours = np.polynomial.polynomial, da.polynomial.polynomial
    c = np.arange(6).reshape(3, 2)
    with da.init(devices=3, kind="host"):
        x = da.asarray(c, layout=da.blocks(0))
        assert ours.polyval([1, 2], x).dtype == np.float64
        assert np.array_equal(ours.polyval([1, 2], x).get(), numpys.polyval([1, 2], c))
        assert float(ours.polyval3d(1, 1, 1, c)) == numpys.polyval3d(1, 1, 1, c)


def test_tables_of_isin_that_would_be_too_large() -> None:
    with da.init(devices=3, kind="host"):
        x = da.asarray(np.arange(-2, 5, dtype="i1"), layout=da.blocks(0))
        assert np.isin(x, np.array([-1, 100], "i1"), kind="table").tolist() == [False, True, *[False] * 5]
        with pytest.raises(RuntimeError, match="exceed the maximum"):
            np.isin(x, np.array([-100, 100], "i1"), kind="table")
        assert np.isin(x, np.array([-100, 100, 4], "i1")).tolist() == [*[False] * 6, True]


@pytest.mark.parametrize("n", [20, 400_000])
def test_what_is_found_stays_on_the_devices(n):
    with da.init(devices=4, kind="host", minimum_chunk=2**16):
        x = da.asarray(np.arange(n) % 3)
        for found in (
            *da.nonzero(x),
            da.argwhere(x),
            da.flatnonzero(x),
            da.unique_values(x),
            *da.unique_inverse(x),
            np.union1d(x, x),
        ):
            assert found.device == x.device
        np.testing.assert_array_equal(da.flatnonzero(x).get(), np.flatnonzero(x.get()))
