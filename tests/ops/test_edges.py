"""Edge cases that NumPy's own tests found (``conformance/numpy_tests.py``): shapes, dtypes and errors at functions' borders."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from numpy._core import _umath_tests as umath

import distarray as da

NEW = np.lib.NumpyVersion(np.__version__) >= "2.4.0"
RNG = np.random.default_rng(7)


@pytest.fixture(params=[1, None], ids=["cut", "whole"], autouse=True)
def context(request: pytest.FixtureRequest) -> Iterator[Any]:
    with da.init(devices=3, kind="host", minimum_chunk=request.param) as context:
        yield context


def raises_like(function: Callable[[Any], Any], *hosts: Any) -> None:
    """The same exception of host arrays and of distributed ones, with NumPy's words where it is no older than these tests."""
    with pytest.raises(Exception) as theirs:
        function(*hosts)
    with pytest.raises(type(theirs.value), match=re.escape(str(theirs.value).rstrip(".")) if NEW else None):
        function(*[da.asarray(host) for host in hosts])


@pytest.mark.parametrize(
    ("shape", "indices", "axis"),
    [
        ((3, 4, 1), (1, 2, 5), 1),
        ((1, 4), (3, 6), 1),
        ((4, 1), (5, 3), 0),
        ((1, 5, 1, 2), (3, 4, 2, 2), 1),
        ((1, 3, 1), (2, 2, 0), 1),
        ((1, 3), (0, 2), 1),
    ],
)
def test_indices_broadcast_an_array_that_is_put_along(shape: Any, indices: Any, axis: int) -> None:
    host, index = RNG.random(shape), RNG.integers(-shape[axis], shape[axis], indices)
    values = RNG.random(np.broadcast_shapes((*shape[:axis], 1, *shape[axis + 1 :]), indices))
    x = da.asarray(host)
    np.put_along_axis(x, index, values, axis)
    np.put_along_axis(host, index, values, axis)
    np.testing.assert_array_equal(x.get(), host)


@pytest.mark.parametrize("dtype", ["M8[s]", "m8[ms]", "f4,i2", "g"])
@pytest.mark.parametrize("function", [np.tril, np.triu])
def test_triangles_of_every_dtype(dtype: str, function: Any) -> None:
    host = (
        np.array([(i / 3, -i) for i in range(1, 13)], dtype)  # no NaN: it differs from itself
        if dtype == "f4,i2"
        else np.arange(1, 13).astype(dtype)
    )
    host = np.nan_to_num(host) if dtype == "g" else host
    found = function(da.asarray(host.reshape(4, 3)))
    assert found.dtype == host.dtype
    np.testing.assert_array_equal(found.get(), function(host.reshape(4, 3)))


@pytest.mark.parametrize("dtype", ["M8[s]", "m8[ms]"])
def test_diagonal_matrices_of_times(dtype: str) -> None:
    host = np.arange(1, 5).astype(dtype)
    np.testing.assert_array_equal(np.diag(da.asarray(host), 1).get(), np.diag(host, 1))


def test_complex_numbers_of_every_precision_are_sorted() -> None:
    for char in "bhilqBHILQefdgFDG":
        host = np.asarray([3, 1, 2], char)
        found = np.sort_complex(da.asarray(host))
        assert found.dtype == np.sort_complex(host).dtype


A, B, V = RNG.random((2, 3)), RNG.random((3, 4)), RNG.random(3)


@pytest.mark.parametrize(
    "call",
    [
        lambda a, b, v: np.unique(v, axis=0.0, equal_nan=False),
        lambda a, b, v: np.concatenate([a, v]),
        lambda a, b, v: np.fft.fft(v, out=""),
        lambda a, b, v: np.linalg.matrix_transpose(v),
        lambda a, b, v: np.einsum(a, [0, 52], b, [52, 2], [0, 2]),
        lambda a, b, v: np.einsum(a, [-1, 5], b, [5, 2], [-1, 2]),
        lambda a, b, v: np.einsum(a, [0, 1], b, [1, 2], [0, 52]),
        lambda a, b, v: np.einsum(a, [0, 1.5], b, [1, 2], [0, 2]),
        lambda a, b, v: np.einsum("a,a,a->a", v, v, v, optimize=["einsum_path", (1,), (0, 1)]),
        lambda a, b, v: np.einsum("ij,jk->ik", a, b, optimize=["einsum_path", (1,), (0,)]),
        lambda a, b, v: np.einsum("a,a,a->a", v, v, v, optimize=["einsum_path", (0, 5), (0, 1)]),
    ],
)
def test_errors_are_those_of_numpy(call: Callable[..., Any]) -> None:
    raises_like(call, A, B, V)


def test_generalised_ufuncs_of_others() -> None:
    """Each loop runs where its part of the first operand lies; NumPy's own checks come first."""
    a, b = RNG.random((5, 3, 4)), RNG.random((5, 4, 2))
    x, y = da.asarray(a), da.asarray(b)
    np.testing.assert_allclose(umath.matrix_multiply(x, y).get(), umath.matrix_multiply(a, b))
    np.testing.assert_allclose(umath.matrix_multiply(x[0], b).get(), umath.matrix_multiply(a[0], b))
    turned = {"axes": [(1, 0), (-2, -1), (0, 1)]}
    np.testing.assert_allclose(
        umath.matrix_multiply(da.asarray(a.T.copy()), y, **turned).get(), umath.matrix_multiply(a.T, b, **turned)
    )
    np.testing.assert_allclose(umath.innerwt(x, x, x, axis=0).get(), umath.innerwt(a, a, a, axis=0))
    out, pairs = da.zeros((5, 3, 2)), da.zeros(3)
    assert umath.matrix_multiply(x, y, out=out) is out
    np.testing.assert_allclose(out.get(), umath.matrix_multiply(a, b))
    umath.euclidean_pdist(x[0], pairs)
    np.testing.assert_allclose(pairs.get(), umath.euclidean_pdist(a[0], np.zeros(3)))
    value = umath.inner1d(x[0, 0], a[0, 1])
    assert value.shape == ()
    assert float(value) == pytest.approx(a[0, 0] @ a[0, 1])


@pytest.mark.parametrize(
    "call",
    [
        lambda a, b: umath.matrix_multiply(a, a),
        lambda a, b: umath.matrix_multiply(a[0], b),
        lambda a, b: umath.euclidean_pdist(a),
        lambda a, b: umath.innerwt(a, a, a, axis=4),
        lambda a, b: umath.inner1d(a, a, keepdims=1, axes=[0]),
    ],
)
def test_errors_of_generalised_ufuncs_are_those_of_numpy(call: Callable[..., Any]) -> None:
    raises_like(call, A, B)


def test_truth_of_structures_and_times() -> None:
    host = np.zeros(6, "i1,i8,(2,)f4")
    host["f1"][2], host["f2"][4, 1] = 1, 2
    assert np.count_nonzero(da.asarray(host)) == 2
    assert np.nonzero(da.asarray(host))[0].tolist() == [2, 4]
    times = np.array([1, 2, "NaT"], "m8[s]")
    assert np.array_equal(da.asarray(times), times, equal_nan=True)
    assert not np.array_equal(da.asarray(times), times)
    assert np.allclose(da.asarray(times), times, atol=np.timedelta64(1, "ns"), equal_nan=True)


@pytest.mark.parametrize("mode", ["v", -1, None, 2.0])
@pytest.mark.parametrize("function", [np.convolve, np.correlate])
def test_modes_of_convolution_are_numpys(function: Any, mode: Any) -> None:
    try:
        function(V, V, mode)
    except (ValueError, TypeError):
        raises_like(lambda v: function(v, v, mode), V)


def test_objects_are_refused_in_products() -> None:
    for function in (np.vecdot, np.matmul, np.dot, np.inner):
        with pytest.raises(da.UnsupportedError, match="dtype object"):
            function(V.astype(object), da.asarray(V))


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("kind", ["m8[s]", "M8[D]"])
def test_medians_of_times_leave_nat_out(kind: str, axis: int | None) -> None:
    host = np.array([[1, "NaT", 4], [3, 5, "NaT"], ["NaT", "NaT", "NaT"], [1, 4, 4]], kind)
    x = da.asarray(host)
    calls: list[Callable[[Any], Any]] = [
        lambda x: np.nanquantile(x, 0.5, axis=axis, method="lower"),
        lambda x: np.nanmin(x, axis),
    ]
    if kind[0] == "m":
        calls += [lambda x: np.nanmedian(x, axis=axis), lambda x: np.nanpercentile(x, [30, 50], axis=axis)]
    for call in calls:
        with warnings.catch_warnings(record=True) as theirs:
            warnings.simplefilter("always")
            wanted = call(host)
        with warnings.catch_warnings(record=True) as ours:
            warnings.simplefilter("always")
            found = call(x)
        np.testing.assert_array_equal(found.get(), wanted)
        assert found.dtype == wanted.dtype
        said, told = (
            {str(w.message) for w in caught if w.category is not DeprecationWarning}  # NumPy's own, of bare integers
            for caught in (theirs, ours)
        )
        assert said == told


def test_outer_of_too_many_axes() -> None:
    raises_like(lambda x: np.add.outer(x, x), np.ones((1,) * 33))


def test_lines_without_elements_that_no_chunk_covers():
    with da.init(devices=3, kind="host"):
        for layout in ({0: (slice(0, 0), slice(1, 2))}, {1: [(slice(0, 0), slice(0, 0))]}, da.blocks(1)):
            x = da.asarray(np.zeros((0, 2), "i1"), layout=layout)
            found = np.apply_along_axis(lambda line: line.sum() + 3, 0, x)
            np.testing.assert_array_equal(found.get(), [3, 3])


@pytest.mark.parametrize("n", [1, 2, 7])
def test_differences_of_bools_are_refused_by_gradient_too(n: int) -> None:
    host = np.arange(n) % 2 == 0
    raises_like(np.gradient, host)
    raises_like(lambda x: np.gradient(x, np.arange(float(n))), host)


@pytest.mark.parametrize("dtype", ["f2", "f4", "c8"])
def test_a_number_without_room_overflows_in_the_cast(dtype: str) -> None:
    """Evaluated at the call or later, alone or in a chain: NumPy converts it before the operation, and says so."""
    host = np.ones(40, dtype)
    calls: list[Callable[[Any], Any]] = [
        lambda x: x + 1e300, lambda x: (x * 2 + 1e300) * 3, lambda x: np.isclose(x, 1e300), lambda x: x * 3e38 * 3e38,
        lambda x: np.add(x, 1e300, where=np.ones(40, bool), out=np.zeros_like(x)),
    ]  # fmt: skip
    for call in calls:
        said = []
        for x in (host, da.asarray(host, layout=da.blocks(0)), da.asarray(host)):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                np.asarray(call(x))
            said.append({str(w.message) for w in caught})
        assert said[0] == said[1] == said[2]


def test_medians_into_out_as_numpy_writes_them() -> None:
    """With keepdims NumPy writes the first elements of a longer ``out=``; nanmedian and nanquantile broadcast into it."""
    host = np.array([[4.0, np.nan, 1, 3], [2, 6, 5, np.nan], [7, 8, 9, 1]])
    calls: list[Callable[..., Any]] = [
        np.median, np.nanmedian, lambda a, **kw: np.quantile(a, 0.3, **kw), lambda a, **kw: np.nanquantile(a, [0.2, 0.6], **kw),
    ]  # fmt: skip
    for call in calls:
        for axis in (None, 0, 1):
            for keepdims in (False, True):
                for shape in ((), (4,), (1, 4), (3, 4), (5, 1), (2, 5, 4), (2, 1, 1)):
                    written = []
                    for a in (
                        host,
                        da.asarray(host, layout=da.blocks(1)),
                        da.asarray(np.nan_to_num(host, nan=2).astype(int)),
                    ):
                        source = np.nan_to_num(host, nan=2).astype(int) if a.dtype.kind == "i" else host
                        for out, given in ((np.full(shape, -7.0), source), (da.full(shape, -7.0), a)):
                            with suppress(ValueError, IndexError):
                                call(given, axis=axis, keepdims=keepdims, out=out)
                            written.append(np.asarray(out))
                    np.testing.assert_array_equal(written[0], written[1])
                    np.testing.assert_array_equal(written[2], written[3])
                    np.testing.assert_array_equal(written[4], written[5])


@pytest.mark.filterwarnings("ignore:All-NaN slice")
@pytest.mark.parametrize("value", [complex(np.inf, 1), complex(1, np.inf), complex(-np.inf, np.inf), 1 + 2j])
def test_nanmedian_of_one_complex_number_is_numpys_quotient(value: complex) -> None:
    for host in (np.array([value]), np.array([[value, np.nan]]), np.array([[value, 1, 2]])):
        for axis in (None, 0, -1):
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(
                    np.nanmedian(da.asarray(host), axis=axis).get(), np.nanmedian(host, axis=axis)
                )


@pytest.mark.parametrize("mode", ["sum", "prod", "min", "max"])
def test_elements_of_an_array_that_no_device_holds(mode: str) -> None:
    x = da.distributed_array(np.arange(6.0), {}, mode)
    identity = {"sum": 0.0, "prod": 1.0, "min": np.inf, "max": -np.inf}[mode]
    mask = np.array([1, 0, 1, 1, 0, 1], bool)
    for found in (x, x[mask], x[[0, 5, 2]], x[1:5], np.sort(x), x.copy(), x.reshape(2, 3), np.concatenate([x, x])):
        np.testing.assert_array_equal(found.get(), np.full(found.shape, identity))


def test_medians_between_infinities_are_no_lines_of_nan() -> None:
    host = np.array([[np.inf, -np.inf], [np.inf, -np.inf], [1, np.inf]])
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        for axis in (None, 1):
            for call in (np.nanmedian, lambda a, axis: np.nanquantile(a, 0.4, axis=axis)):
                np.testing.assert_array_equal(call(da.asarray(host), axis=axis).get(), call(host, axis=axis))
    with np.errstate(all="ignore"), pytest.warns(RuntimeWarning, match="All-NaN slice"):
        np.nanmedian(da.asarray([[np.nan, np.nan], [np.inf, -np.inf]]), axis=1)


def test_round_without_out_takes_none(four: Any) -> None:
    x = da.asarray(np.arange(8.0) / 3, layout=da.blocks(0))
    np.testing.assert_array_equal(np.round(x, 1, None), np.round(np.arange(8.0) / 3, 1))


def numbers_chosen(given: Any, layout: Any = None) -> Any:
    choice, default, dtype = given
    h = np.arange(6.0).astype(dtype)
    if layout is None:
        return np.select([h > 3, h < 2], [h, choice], default)
    x = da.asarray(h, layout=layout)
    return da.select([x > 3, x < 2], [x, choice], default)


@pytest.mark.parametrize("dtype", ["u1", "i8", "u8", "f2", "f8", "?", "c8"])
@pytest.mark.parametrize("number", [2**63, 2**64, 2**70, -1, -(2**63), 300, 1.5, 1e400, 1j, True])
def test_select_takes_numbers_as_numpy_does(number: Any, dtype: str) -> None:
    for given in ((number, 0, dtype), (1, number, dtype)):
        said = []
        for layout in (None, da.blocks(0), da.replicated()):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    found: Any = np.asarray(numbers_chosen(given, layout))
                except (TypeError, OverflowError) as error:
                    found = type(error)
            said.append((found, {(str(w.message), layout is None or w.filename) for w in caught}))
        for found, warned in said[1:]:
            assert {text for text, _ in warned} == {text for text, _ in said[0][1]}
            assert {file for _, file in warned} <= {__file__}
            if isinstance(said[0][0], type):
                assert found is said[0][0]
            else:
                np.testing.assert_array_equal(found, said[0][0], strict=True)


@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
@pytest.mark.parametrize("values", [[1, 0, 1, 1], [0, 0, 1, 0], [0, 1], [0], [0, 1, 0, 0, 0]])
@pytest.mark.parametrize("dtype", [bool, "m8[s]", "f2"])
def test_odd_reflections(mode: Any, values: Any, dtype: Any) -> None:
    h = np.array(values).astype(dtype)
    for width in ((2, 5), (0, 9), (11, 3), (1, 1)):
        expected = np.pad(h, width, mode=mode, reflect_type="odd")
        for layout in (da.blocks(0), da.cyclic(0), da.replicated()):
            found = np.pad(da.asarray(h, layout=layout), width, mode=mode, reflect_type="odd")
            np.testing.assert_array_equal(found.get(), expected, strict=True)


def test_ramps_of_half_precision_are_rounded_once() -> None:
    h = np.array([1, 0, 1], "f2")
    np.testing.assert_array_equal(np.pad(da.asarray(h), 7, mode="linear_ramp").get(), np.pad(h, 7, mode="linear_ramp"))


def test_an_infinity_spoils_its_column_of_a_least_squares_solution() -> None:
    a, b = RNG.normal(size=(12, 2)), RNG.normal(size=(12, 3))
    expected = np.linalg.lstsq(a, b)
    b[4, 1] = -np.inf
    for layout in (da.blocks(0), da.blocks(1), da.replicated()):
        found = np.linalg.lstsq(da.asarray(a, layout=layout), da.asarray(b, layout=layout))
        for got, right in zip(found[:2], expected[:2], strict=True):
            assert np.isnan(got[..., 1].get()).all()
            np.testing.assert_allclose(got[..., ::2].get(), right[..., ::2])
        line = np.polyfit(da.arange(12.0, layout=layout if layout != da.blocks(1) else None), da.asarray(b[:, 1]), 1)
        assert np.isnan(line.get()).all()


@pytest.mark.skipif(not NEW, reason="NumPy warns of where= without out= from 2.4")
@pytest.mark.parametrize("call", [np.sqrt, np.isnan, np.frexp, lambda x, where: np.divmod(x, 2, where=where)])
def test_where_without_out_is_warned_of_at_the_callers_line(call: Any) -> None:
    x = da.arange(6.0)
    with pytest.warns(UserWarning, match="'where' used without 'out'") as caught:
        call(x, where=x > 2)
    assert {w.filename for w in caught} == {__file__}


def test_covariances_of_too_few_observations_warn_at_the_callers_line() -> None:
    with pytest.warns(RuntimeWarning) as caught:
        np.cov(da.ones((3, 1)))
    assert {w.filename for w in caught} == {__file__}
    assert {str(w.message) for w in caught} >= {
        "Degrees of freedom <= 0 for slice",
        "divide by zero encountered in divide",
    }


BINS: dict[str, Callable[[Any, Any], Any]] = {
    "bincount": lambda x, i: np.bincount(i, weights=x, minlength=12),
    "histogram": lambda x, i: np.histogram(x[:0], 5, (0, 20), weights=x[:0])[0],
    "histogram2d": lambda x, i: np.histogram2d(x[:0], x[:0], 3, ((0, 20), (0, 20)))[0],
    "histogramdd": lambda x, i: np.histogramdd(x[:0, None], [3], [(0, 20)])[0],
}


@pytest.mark.parametrize("name", BINS)
def test_empty_bins_have_no_sign(name: str) -> None:
    host = -np.zeros(9)
    places = np.arange(9)
    found = BINS[name](da.asarray(host), da.asarray(places)).get()
    expected = BINS[name](host, places)
    assert not np.signbit(expected).any()
    assert np.array_equal(found, expected)
    assert not np.signbit(found).any()


@pytest.mark.parametrize(
    "host", [np.arange(3), np.arange(4.0).reshape(2, 2).T, np.array([True, False]), np.array(5), np.zeros(0)]
)
def test_bytes_are_those_of_the_memory(host: Any) -> None:
    """Python takes an array without ``__bytes__`` for a sequence of numbers below 256."""
    assert bytes(da.asarray(host)) == bytes(host)
    if host.ndim == 1:
        assert bytes(da.asarray(host)[-1:]) == bytes(host[-1:])


@pytest.mark.parametrize("call", [
    lambda x: np.concatenate([x, x], out=1), lambda x: np.stack([x, x], 0, 1), lambda x: np.take(x, [1], out=1),
    lambda x: np.choose([0], [x[:1]], out=1), lambda x: np.compress([True], x, out=1), lambda x: np.einsum("i,i", x, x, out=1),
])  # fmt: skip
def test_outputs_are_arrays(call: Callable[[Any], Any]) -> None:
    for x in (np.arange(4.0), da.asarray(np.arange(4.0))):
        with pytest.raises(TypeError):
            call(x)


def test_what_has_no_axes_takes_axis_0_where_numpy_says_so() -> None:
    for axis in (0, -1):
        for name in ("nanmean", "nanvar", "nanstd"):
            assert getattr(np, name)(da.asarray(3.0), axis=axis) == getattr(np, name)(np.float64(3), axis=axis)
        assert np.var(da.asarray(3.0), axis=axis, where=np.True_) == 0
        assert np.packbits(da.asarray(True), axis=axis).tolist() == [128]
        assert np.unpackbits(da.asarray(np.uint8(5)), axis=axis, count=-2).tolist() == [0, 0, 0, 0, 0, 1]
    with pytest.raises(np.exceptions.AxisError):
        np.mean(da.asarray(3.0), axis=0)
    with pytest.raises(np.exceptions.AxisError):
        np.nanmean(da.asarray(3.0), axis=1)


def test_no_quantiles_of_weighted_elements() -> None:
    for name in ("quantile", "nanquantile"):
        found = getattr(np, name)(da.ones((3, 2)), [], axis=0, method="inverted_cdf", weights=np.ones(3))
        assert found.shape == (0, 2)


def test_infinities_of_dates_are_refused() -> None:
    for function in (np.isposinf, np.isneginf):
        with pytest.raises(TypeError, match="ambiguous"):
            function(da.asarray(np.array([3], "m8[s]")))


def test_the_standards_names_take_numpys_arguments() -> None:
    x = da.reshape(da.arange(6), (2, 3))
    assert da.permute_dims(x).shape == (3, 2)
    assert da.concat([x, x], 1, dtype="f4", casting="unsafe").dtype == np.float32
    out = da.zeros((4, 3), int)
    assert da.concat([x, x], out=out) is out
    assert out.tolist() == x.tolist() * 2


@pytest.mark.parametrize("dtype", ["f8", "f2", "i4"])
def test_two_results_where_a_mask_holds_warn_of_what_is_computed(dtype: str) -> None:
    a, b, masks = (
        np.arange(6).astype(dtype),
        np.array([0, 1, 0, 1, 1, 0], dtype),
        (np.arange(6) % 3 < 2, np.arange(6) == 0),
    )
    for mask in (*masks, b != 0):
        outs = [[np.full(6, 7, dtype) for _ in range(2)] for _ in range(2)]
        x, y, ours = (da.asarray(v, layout=da.blocks(0)) for v in (a, b, mask))
        said = []
        for call in (
            lambda mask=mask, outs=outs: np.divmod(a, b, out=tuple(outs[0]), where=mask),
            lambda x=x, y=y, ours=ours, outs=outs: np.divmod(x, y, out=tuple(map(da.asarray, outs[1])), where=ours),
        ):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                found = call()
            said.append({str(w.message) for w in caught})
            np.testing.assert_array_equal([np.asarray(v) for v in found], outs[0])
        assert said[0] == said[1]


def test_rounded_into_another_dtype() -> None:
    for dtype, decimals in (("f4", 2), ("f4", -1), ("f2", 1), ("?", 1)):
        host = (RNG.normal(size=20) * 30).astype(dtype)
        for kind in ("f8", "c16", "f4"):
            mine, theirs = da.zeros(20, kind), np.zeros(20, kind)
            np.round(da.asarray(host), decimals, out=mine)
            np.testing.assert_array_equal(mine.get(), np.round(host, decimals, out=theirs))


def test_a_mean_of_time_spans_lands_in_out() -> None:
    host = np.array([[19, 7], [9, 15]], "m8[s]")
    mine, theirs = da.zeros(2, "m8[s]"), np.zeros(2, "m8[s]")
    np.mean(da.asarray(host), axis=0, out=mine)
    assert mine.get().tolist() == np.mean(host, axis=0, out=theirs).tolist()


def test_joins_convert_what_has_no_common_dtype() -> None:
    hosts = [np.array([3], "m8[s]"), np.array([2.5], "f4")]
    for join in (np.stack, np.concatenate):
        found = join([da.asarray(h) for h in hosts], dtype="f8", casting="unsafe")
        assert found.tolist() == join(hosts, dtype="f8", casting="unsafe").tolist()
        raises_like(lambda *arrays, join=join: join(arrays), *hosts)


def test_a_product_in_place_needs_a_matrix() -> None:
    for left, right in (((3,), (3,)), ((2, 3), (3,)), ((3, 3), ())):
        raises_like(lambda a, b: a.__imatmul__(b), np.ones(left), np.ones(right))


def test_imaginary_parts_dropped_under_a_mask_are_warned_of() -> None:
    x = da.zeros(3, "f4")
    with pytest.warns(np.exceptions.ComplexWarning):
        np.copyto(x, da.asarray([1, 2, 3j]), casting="unsafe", where=np.array([True, False, True]))
    assert x.tolist() == [1, 0, 0]


@pytest.mark.parametrize("name", ["sum", "prod", "min", "max", "nansum", "nanmin"])
def test_reductions_begin_with_what_initial_is_in_out(name: str) -> None:
    for dtype, kind, initial in (
        ("u1", "f8", -2.5),
        ("f8", "i8", -2.5),
        ("c8", "i8", -2.5),
        ("i4", "u1", 300),
        ("?", "f4", 2),
    ):
        host = (np.arange(12) % 5 + 1).reshape(4, 3).astype(dtype)
        mine, theirs = da.zeros(3, kind), np.zeros(3, kind)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
            getattr(np, name)(host, axis=0, out=theirs, initial=initial)
            getattr(np, name)(da.asarray(host, layout=da.blocks(0)), axis=0, out=mine, initial=initial)
        np.testing.assert_array_equal(mine.get(), theirs)


def test_a_reduction_with_dtype_out_and_initial_is_computed_in_dtype() -> None:
    host = np.array([200, 100], "u1")
    for dtype in ("u1", "f4", "i8"):
        mine, theirs = da.zeros((), "f8"), np.zeros((), "f8")
        np.sum(host, dtype=dtype, out=theirs, initial=2)
        np.sum(da.asarray(host), dtype=dtype, out=mine, initial=2)
        assert mine == theirs
