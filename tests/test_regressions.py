"""Bugs that were found by use: one test a bug, named for what must hold."""

from __future__ import annotations

import gc
import operator
import os
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import distarray as da
from conformance.checking import on_gpu
from distarray.errors import DeviceError, ForkError, UnsupportedError
from distarray.geometry import Region

pytestmark = pytest.mark.usefixtures("four")


def test_copyto_drops_leading_axes_of_length_one_as_an_assignment_does() -> None:
    x = da.zeros(3)
    np.copyto(x, da.asarray([[1.0, 2.0, 3.0]]))
    np.copyto(x[1:], np.array([[[5.0]]]))
    assert x.tolist() == [1.0, 5.0, 5.0]


def test_item_takes_flat_indices_from_either_end_and_refuses_others_as_numpy_does() -> None:
    h = np.arange(6).reshape(2, 3)
    x = da.asarray(h)
    for index in ((), (4,), (-1,), (-6,), (1, 2), (-1, -1), ((1, 0),), (6,), (-7,), (0, 0, 0), (2, 0)):
        try:
            expected: Any = h.item(*index)
        except (IndexError, ValueError) as error:
            with pytest.raises(type(error)):
                x.item(*index)
        else:
            assert x.item(*index) == expected
    assert da.asarray(3).item(0) == da.asarray(3).item(-1) == 3


def test_format_of_an_array_refuses_a_specification_with_numpys_type() -> None:
    x = da.asarray([1.5, 2.5])
    with pytest.raises(TypeError, match=r"\.2f"):
        format(x, ".2f")
    assert f"{x}" == "[1.5 2.5]"
    assert f"{x[0]:.2f}" == "1.50"


@pytest.mark.parametrize("other", [None, "a", b"a"])
def test_comparison_with_none_or_text_is_element_wise(other: Any) -> None:
    for x in (da.asarray([1.0, np.nan, 0.0]), da.asarray(np.zeros((0, 2)))):
        assert np.array_equal((x == other).get(), np.zeros(x.shape, bool))
        assert np.array_equal((x != other).get(), np.ones(x.shape, bool))
    assert not np.array_equal(da.asarray([1.0]), other)
    assert not np.array_equiv(da.asarray([1.0]), other)


def test_results_of_dtypes_that_cannot_be_distributed_are_refused() -> None:
    x = da.asarray([1, 2])
    for call in (
        lambda: np.add(x, 1, dtype=object),
        lambda: x.astype("U3"),
        lambda: x.astype(object),
    ):
        with pytest.raises(UnsupportedError, match="can't be distributed"):
            call()


def test_a_masked_operand_is_refused_and_not_taken_without_its_mask() -> None:
    x = da.asarray([1.0, 2.0])
    masked = np.ma.array([1.0, 2.0], mask=[False, True])
    for call in (lambda: x + masked, lambda: np.add(x, masked), lambda: x.__iadd__(masked)):
        with pytest.raises(TypeError, match="mask"):
            call()
    assert (x + np.ma.array([1.0, 2.0])).tolist() == [2.0, 4.0]


def test_products_with_a_numpy_matrix_are_refused_where_it_means_another_thing() -> None:
    x = da.asarray(np.eye(2))
    with pytest.warns(PendingDeprecationWarning):
        m = np.matrix([[1.0, 2.0], [3.0, 4.0]])
    for op in (operator.mul, operator.pow):
        with pytest.raises(TypeError, match=r"np\.matrix"):
            op(x, m)
    with pytest.raises(TypeError, match=r"np\.matrix"):
        m * x
    assert (x @ m).tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_subclasses_with_a_protocol_of_their_own_are_asked_first() -> None:
    class Unit(np.ndarray):
        def __array_ufunc__(self, *args: Any, **kwargs: Any) -> Any:
            return "ufunc"

        def __array_function__(self, *args: Any) -> Any:
            return "function"

    class Plain(np.ndarray):
        pass

    x, unit = da.asarray([1.0, 2.0]), np.ones(2).view(Unit)
    assert x + unit == unit + x == np.add(x, unit) == "ufunc"
    assert np.concatenate([x, unit]) == "function"
    x += unit
    assert x == "ufunc"
    y = da.asarray([1.0, 2.0])
    assert (y + np.ones(2).view(Plain)).tolist() == [2.0, 3.0]


def test_writes_refuse_arrays_of_another_context() -> None:
    x = da.zeros(6)
    with da.init(devices=3, kind="host"):
        other = da.ones(6)
    for write in (
        lambda: x.__setitem__(slice(None), other),
        lambda: x.__iadd__(other),
        lambda: np.copyto(x, other),
    ):
        with pytest.raises(DeviceError, match="different contexts"):
            write()
    assert x.tolist() == [0.0] * 6


def test_array2string_heeds_its_own_threshold_and_edgeitems() -> None:
    h = np.arange(3000.0)
    x = da.asarray(h)
    for options in ({"threshold": 10**6}, {"edgeitems": 5}, {"threshold": 5}, {"threshold": 10, "edgeitems": 1}):
        assert np.array2string(x, **options) == np.array2string(h, **options)  # type: ignore[call-overload]


def test_array_str_and_array_repr_heed_their_options() -> None:
    h = np.array([1.23456, 2e-8])
    x = da.asarray(h)
    assert np.array_str(x, precision=2) == np.array_str(h, precision=2)
    assert np.array_str(x, 10, 3, True) == np.array_str(h, 10, 3, True)
    assert np.array_repr(x, precision=2).split("(")[1] == np.array_repr(h, precision=2).split("(")[1]


@pytest.mark.parametrize("function", [np.dot, np.inner, np.vdot, np.tensordot])
def test_products_that_numpy_makes_of_python_objects_are_refused(function: Any) -> None:
    x = da.asarray(np.ones((2, 2), ml_dtypes.bfloat16))
    with pytest.raises(UnsupportedError, match="Python objects"):
        function(x, np.ones((2, 2), np.int64))


@pytest.mark.parametrize("order", [None, 1, 2, 3, np.inf])
def test_norms_of_bfloat16_are_taken_in_float64(order: Any) -> None:
    h = np.arange(6).astype(ml_dtypes.bfloat16)
    found = np.linalg.norm(da.asarray(h, layout=da.blocks(0)), order)
    assert found.dtype == np.float64
    assert np.allclose(float(found), np.linalg.norm(h, order))


@pytest.mark.parametrize("block", [da.ledger, da.no_implicit_communication])
def test_a_block_that_watches_does_not_keep_evaluated_values_alive(block: Any) -> None:
    x = da.ones((1000, 64), layout=da.blocks(0))
    devices = x.device.context.devices
    gc.collect()
    before = sum(d.allocated for d in devices)
    with block():
        for _ in range(10):
            y = (x + 1).evaluate()
            y = (y * 2).evaluate()
        assert sum(d.allocated for d in devices) <= before + y.nbytes


def test_what_a_ledger_block_recorded_is_still_counted_once() -> None:
    x = da.ones((8, 1000), layout=da.blocks(0))
    with da.ledger() as log:
        y = x[:-1] + x[1:]
        with da.ledger() as inner:
            y.evaluate()
    assert log.bytes_moved == inner.bytes_moved == 24000


def intersections(monkeypatch: pytest.MonkeyPatch, call: Callable[[], Any]) -> int:
    """How many pairs of regions `call` looks at."""
    count = 0
    plain = Region.intersect

    def counted(self: Region, other: Region) -> Region | None:
        nonlocal count
        count += 1
        return plain(self, other)

    with monkeypatch.context() as patch:
        patch.setattr(Region, "intersect", counted)
        call()
    return count


def test_aligning_many_small_blocks_takes_time_in_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    def pairs(n: int) -> int:
        x, y = da.zeros(n, layout=da.cyclic(0, 2)), da.zeros(n, layout=da.cyclic(0, 3))
        return intersections(monkeypatch, (x + y).evaluate)

    assert pairs(4800) < 6 * pairs(1200)  # 16 times where every piece looks at all others


def test_products_of_block_cyclic_operands_are_planned_in_time_in_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    def pairs(n: int) -> int:
        x, y = da.zeros(n, layout=da.cyclic(0, 10)), da.zeros(n, layout=da.cyclic(0, 13))
        return intersections(monkeypatch, lambda: np.vecdot(x, y))

    assert pairs(9600) < 8 * pairs(2400)  # 16 times where every piece looks at all others


def test_all_chunks_refuses_a_forked_child_as_everything_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    x = da.ones(3)
    monkeypatch.setattr(x.device.context, "pid", -1)
    with pytest.raises(ForkError):
        x.all_chunks()


def test_in_place_operators_refuse_a_masked_operand_too() -> None:
    x = da.asarray([1.0, 2.0])
    with pytest.raises(TypeError, match="mask"):
        x += np.ma.array([1.0, 2.0], mask=[False, True])
    assert x.tolist() == [1.0, 2.0]


def test_a_long_row_of_blocks_is_cut_in_time_in_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    def pairs(n: int) -> int:
        x = da.zeros(n, layout=da.cyclic(0, 2))
        return intersections(monkeypatch, np.add.outer(x[:4], x).evaluate)

    assert pairs(4800) < 8 * pairs(1200)


def test_an_element_of_bool_takes_the_truth_value_of_an_array_of_one_element() -> None:
    for value in (np.array([7]), np.array([[0]]), da.asarray(np.array([7]))):
        for shape, key in (((), ()), ((3,), 0)):
            x, h = da.zeros(shape, dtype=bool), np.zeros(shape, bool)
            x[key] = value
            h[key] = np.asarray(value)
            np.testing.assert_array_equal(x.get(), h)
    with pytest.raises(ValueError, match="setting an array element with a sequence"):
        da.zeros(3, dtype=bool)[0] = np.array([7, 8])


@pytest.mark.parametrize("dtype", "bool int8 int64 uint8 float16 float32 float64 complex64 complex128".split())
def test_the_power_operator_takes_numpys_short_ways(dtype: str) -> None:
    wide = np.array([0, -0.0, 1, -1, 2, -3, 5e4, -7, np.inf, -np.inf, np.nan, 1e-30])
    with np.errstate(all="ignore"):
        h = (
            np.r_[wide, wide[::-1]].astype(dtype)
            if np.dtype(dtype).kind in "fc"
            else wide[:6].astype("i8").astype(dtype)
        )
        for exponent in (2, 2.0, 0.5, -1, -1.0, 1, 0, True, np.float64(2), np.int8(2)):
            for function in (operator.pow, operator.ipow):
                try:
                    expected: Any = function(h.copy(), exponent)
                except (ValueError, TypeError, OverflowError) as error:
                    with pytest.raises(type(error)):
                        function(da.asarray(h, layout=da.blocks(0)), exponent)
                    continue
                got = function(da.asarray(h, layout=da.blocks(0)), exponent)
                assert got.dtype == expected.dtype
                values, told = got.get(), np.full(h.shape, True)
                if on_gpu() and np.dtype(dtype).kind == "c":
                    told = np.isfinite(h) & np.isfinite(expected)  # of infinities docs/gpu.md promises nothing
                if np.dtype(dtype).kind == "c" and (on_gpu() or not isinstance(exponent, int)):
                    close = {"rtol": 1e-6, "atol": 1e-6 if on_gpu() else 0}
                    np.testing.assert_allclose(values[told], expected[told], **close)
                elif on_gpu() and expected.dtype.kind == "f":  # their roots and quotients round differently
                    rtol, tiny = 4 * np.finfo(expected.dtype).eps, np.finfo(expected.dtype).tiny
                    np.testing.assert_allclose(values, expected, rtol=rtol, atol=tiny)
                else:
                    np.testing.assert_array_equal(values, expected)


def test_reductions_that_numpys_own_loops_get_wrong() -> None:
    """NumPy 2.4 reduces power and arctan2 wrongly along a contiguous axis; the truth here is the loop."""
    h = np.array([[2.0, 3, 2], [1, 2, 1], [3, 2, 3], [3, 2, 1], [2, 1, 2], [1, 2, 1], [2, 2, 2]])
    doubled = [[1, 2, 3], [1, 2, 1], [1, 0, 2]]
    x = da.asarray(np.array(doubled, dtype="i2"), layout=da.cyclic(0))
    assert np.ldexp.reduce(x, axis=0).tolist() == [4.0, 8.0, 24.0]
    for ufunc in (np.power, np.arctan2):
        expected = h[0]
        for row in h[1:]:
            expected = ufunc(expected, row)
        for layout in (da.blocks(0), da.blocks(-1), da.cyclic(0), da.replicated()):
            x = da.asarray(h, layout=layout)
            np.testing.assert_allclose(ufunc.reduce(x, axis=0).get(), expected)
            np.testing.assert_allclose(ufunc.reduce(x.T, axis=1).get(), expected)
            np.testing.assert_allclose(ufunc.reduce(da.asarray(h[:, 0].copy(), layout=layout)).get(), expected[0])
            np.testing.assert_allclose(ufunc.reduceat(x.T, [0], axis=1).get()[:, 0], expected)


def test_the_parts_of_complex_numbers_are_written_or_refuse_it() -> None:
    h = np.arange(3) * (1 + 1j)
    x = da.asarray(h, layout=da.cyclic(0))
    with pytest.raises(da.ReadOnlyError, match="copy"):
        da.zeros(3).imag[0] = 9
    for part, mine in ((x.real, h.real), (x.imag, h.imag), (np.real(x), np.real(h))):
        part[0] += 9
        mine[0] += 9
        np.testing.assert_array_equal(x.get(), h)
    x.real, h.real = 9, 9
    x.imag, h.imag = [1, 2, 3], [1, 2, 3]
    np.testing.assert_array_equal(x.get(), h)
    y = da.zeros(3)
    y.real[1] = 4
    y.real += 1
    assert y.tolist() == [1.0, 5.0, 1.0]
    with pytest.raises(TypeError, match="imaginary part to set"):
        y.imag = 1


def test_numbers_in_lists_are_converted_or_refused_one_by_one() -> None:
    x = da.zeros(4, dtype="u1", layout=da.blocks(0))
    writes: list[Callable[[], Any]] = [
        lambda: x.__setitem__(slice(1, 3), [300, 1]), lambda: x.__setitem__([0, 1], [300, 1]),
        lambda: x.__setitem__(x >= 0, [300]), lambda: np.put(x, [0], [-1]), lambda: np.place(x, x >= 0, [300]),
        lambda: np.putmask(x, x >= 0, [300]),
    ]  # fmt: skip
    for write in writes:
        with pytest.raises(OverflowError):
            write()
    with pytest.raises(ValueError, match="NaN"):
        x[:2] = [np.nan, 1]
    assert not x.get().any()
    x[1:3] = [2.5, True]
    assert x.tolist() == [0, 2, 1, 0]


@pytest.mark.parametrize("write", [np.putmask, np.place])
def test_arrays_that_lose_something_are_refused_by(write: Any) -> None:
    x = da.zeros(3, layout=da.blocks(0))
    for values in (np.array([1 + 5j]), da.asarray([1 + 5j])):
        with pytest.raises(TypeError, match="'safe'"):
            write(x, [True, False, True], values)
    assert not x.get().any()


@pytest.mark.skipif(os.environ.get("DISTARRAY_TEST_KIND") == "cuda", reason="GPUs report no floating-point conditions")
def test_casts_warn_as_numpys_do_and_an_operator_that_raises_has_written_everything() -> None:
    y = da.asarray(np.array([1, np.nan, 2]), layout=da.blocks(0))
    x = da.zeros(3, dtype=int, layout=da.blocks(0))
    with pytest.warns(RuntimeWarning, match="invalid value encountered in cast") as caught:
        x[:] = y
    assert caught[0].filename == __file__
    with pytest.warns(RuntimeWarning, match="invalid value encountered in cast"):
        y.astype(int).evaluate()
    h, z = np.arange(6.0), da.arange(6.0, layout=da.blocks(0))
    for array in (h, z):
        with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="overflow encountered in power"):
            array **= 1e300
    np.testing.assert_array_equal(z.get(), h)


def test_what_stands_for_a_scalar_is_not_written_through_another_name() -> None:
    x = da.arange(4, layout=da.blocks(0))
    for total in (x.sum(), x.sum() * 2, np.add(x.sum(), 1), x[1] + 0, divmod(x[3], 2)[1], -x.max()):
        before = int(total)
        other, view = total, total[None]
        other += 1
        view[0] = 77
        assert (int(total), int(other)) == (before, before + 1)
    zero = alias = da.asarray(np.array(3))  # an array, as NumPy's of no axes
    alias += 1
    assert int(zero) == 4


def test_an_unknown_object_equals_no_element() -> None:
    x = da.zeros(3)
    assert (x == object()).tolist() == [False] * 3
    assert (x != object()).tolist() == [True] * 3


def test_out_that_is_an_operand_is_overwritten_as_it_is_read() -> None:
    with da.init(devices=4, kind=os.environ.get("DISTARRAY_TEST_KIND", "host"), memory_limit=3_000_000):
        big = da.ones(1_000_000, layout=da.blocks(0))
        np.add(big, 1, out=big)
        np.multiply(big, big, out=big)
        np.negative(big, big)
        assert float(big.sum()) == -4e6
    x = da.arange(4.0, layout=da.blocks(0))
    later = x * 2  # reads what stands there now
    np.add(x, 1, out=x)
    assert later.tolist() == [0.0, 2.0, 4.0, 6.0]


def test_a_part_of_complex_numbers_is_replaced_and_the_other_stays_to_the_bit() -> None:
    h = np.array([complex(1, np.inf), 2 + 2j, complex(3, np.nan)])
    for name, value in (("real", 5), ("imag", [np.inf, np.nan, -0.0]), ("real", np.arange(3.0)), ("imag", 2)):
        for mode in (da.Mode.REPLICA, da.Mode.SUM):
            x, g = da.distributed_array(h, da.blocks(0).resolve((3,), range(4)), mode), h.copy()
            setattr(x, name, value)
            setattr(g, name, value)
            np.testing.assert_array_equal(x.get().view(float), g.view(float))


@pytest.mark.skipif(os.environ.get("DISTARRAY_TEST_KIND") == "cuda", reason="GPUs report no floating-point conditions")
def test_an_operator_that_raises_has_written_every_copy() -> None:
    kept = []
    for layout in (da.replicated(), {0: [slice(0, 4), slice(2, 6)], 1: slice(0, 6)}, da.blocks(0)):
        for pin in (False, True):
            x = da.asarray(np.ones(6), layout=layout)
            if pin:
                kept.append(x + 1)  # an expression that reads the old value
            view = x[2:4]
            with np.errstate(all="raise"), pytest.raises(FloatingPointError):
                view /= 0
            for device, chunks in x.all_chunks().items():
                for region, chunk in zip(x.layout.index_map.regions(device), chunks, strict=True):
                    np.testing.assert_array_equal(chunk, np.array([1, 1, np.inf, np.inf, 1, 1])[region.slices])
    assert all(y.tolist() == [2.0] * 6 for y in kept)
    found = set()
    for pin in (False, True):
        x = da.asarray(np.ones(6, "f4"), layout=da.replicated())
        if pin:
            kept.append(x + 1)
        with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="cast"):
            x[da.asarray(np.arange(6) > 2, layout=da.replicated())] = da.asarray(np.array(1e300))
        found |= {tuple(chunk.tolist()) for chunks in x.all_chunks().values() for chunk in chunks}
    assert len(found) == 1  # written or not: every copy alike, whoever still reads the old value


def test_an_integer_power_that_fails_writes_nothing() -> None:
    x = da.asarray(np.arange(1, 7), layout=da.replicated())
    with pytest.raises(ValueError, match="negative integer powers"):
        x **= da.asarray(np.array([2, 2, 2, 2, 2, -1]), layout=da.blocks(0))
    assert x.tolist() == [1, 2, 3, 4, 5, 6]
    assert len({tuple(chunk.tolist()) for chunks in x.all_chunks().values() for chunk in chunks}) == 1


def test_an_object_that_is_an_array_to_numpy_is_compared_by_element() -> None:
    class Wrapped:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.arange(3.0)

    assert (da.arange(3.0) == Wrapped()).tolist() == [True] * 3
    assert (Wrapped() - da.ones(3)).tolist() == [-1.0, 0.0, 1.0]


def test_reshaped_views_are_operands_as_they_are_seen(four: Any) -> None:
    """A reshaped view that shows all of its storage lies in another shape than the storage does."""
    h = np.arange(24.0)
    g = h.reshape(4, 6)
    for layout in (da.replicated(), da.blocks(0), None):
        x = da.asarray(h, layout=layout).reshape(4, 6)
        assert np.array_equal((x + 1).get(), g + 1)
        assert np.array_equal((x * x.T.reshape(4, 6)).get(), g * g.T.reshape(4, 6))
        x += x
        assert np.array_equal(x.get(), g * 2)


def test_rows_of_a_chunk_without_elements_are_not_counted() -> None:
    h = np.array([[1], [0], [1]])
    everything, nothing = (slice(0, 3), slice(0, 1)), (slice(0, 3), slice(1, 1))
    for layout in (
        {0: [everything, nothing]},
        {0: [everything], 1: [nothing]},
        {0: [nothing], 1: [nothing, everything]},
    ):
        x = da.asarray(h, layout=layout)
        for found, expected in zip(np.unique(x, True, True, True, axis=0), np.unique(h, True, True, True, axis=0)):
            np.testing.assert_array_equal(found, expected)


def test_a_chunk_without_lines_gives_no_result() -> None:
    h = np.array([[7, 3]])
    for layout in (da.grid((4, 1)), da.grid((2, 2)), da.blocks(0)):
        x = da.asarray(h, layout=layout)
        for function in (np.sum, np.sort, np.ptp):
            found = np.apply_along_axis(function, 0, x)
            for chunk in (found.get(), found.reshard(da.replicated()).get()):
                np.testing.assert_array_equal(chunk, np.apply_along_axis(function, 0, h))
            assert found.layout.index_map.is_disjoint


def test_distributed_parameters_of_draws_keep_their_dtype() -> None:
    trials = da.asarray(np.arange(1, 9))
    assert np.all(np.asarray(da.random.default_rng(0).binomial(trials, 0.5)) <= np.arange(1, 9))
    assert np.all(np.asarray(da.random.default_rng(0).hypergeometric(trials, 4, 1)) <= 1)


def test_convolutions_of_a_device_with_two_chunks_beside_an_idle_one() -> None:
    a, v = np.array([7]), np.array([7, 3, 5, 4])
    for layout in ({0: [slice(0, 1), slice(1, 4)], 1: []}, {1: [slice(0, 2), slice(2, 4)], 2: [slice(0, 0)]}):
        x = da.asarray(v, layout=layout)[::-1]
        for function in (np.convolve, np.correlate):
            for mode in ("full", "same", "valid"):
                for w in (a, np.array([1, 2, -1])):
                    np.testing.assert_array_equal(function(x, w, mode), function(v[::-1], w, mode))
                    np.testing.assert_array_equal(function(w, x, mode), function(w, v[::-1], mode))
