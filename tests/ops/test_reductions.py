"""Reductions against NumPy: what they hold, what they move, and what they refuse."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import distarray as da
from conformance.checking import allowed, assert_same, both, check_invariants, on_gpu, put
from conformance.contexts import context, examples
from conformance.ranks import SHARES, on_ranks
from conformance.strategies import (
    STANDARD,
    arrays,
    axes,
    axis_sets,
    device_counts,
    dtypes,
    layouts,
    modes,
    pairs,
    shapes,
)  # fmt: skip
from distarray.algorithms import reduction
from distarray.fusion.demand import demand
from distarray.storage import operand

ORDERED = (np.subtract, np.divide, np.floor_divide, np.power, np.copysign, np.fmod, np.left_shift, np.lcm)
ANY_ORDER = (
    np.fmax, np.fmin, np.bitwise_or, np.bitwise_and, np.bitwise_xor, np.logical_xor, np.gcd, np.logaddexp, np.hypot,
)  # fmt: skip
host_only = pytest.mark.skipif(on_gpu(), reason="GPUs report no floating-point conditions")
PARTIAL = {np.add: "SUM", np.multiply: "PROD", np.maximum: "MAX", np.minimum: "MIN"}


def same(x, ref):
    """Whether the values are equal; fetched, since NumPy's comparisons of whole arrays don't dispatch."""
    return np.array_equal(np.asarray(x), ref)


def near(x, ref):
    """Whether the values are equal but for rounding."""
    return np.allclose(np.asarray(x), ref)


@pytest.mark.parametrize("ufunc", ORDERED, ids=lambda u: u.__name__)
@given(data=st.data(), n=device_counts)
@examples(0.5)
def test_ordered_folds_have_numpys_bits(ufunc, data, n):
    a = data.draw(arrays(data.draw(shapes(max_size=120)), data.draw(dtypes())))
    axis = data.draw(axis_sets(a.ndim)) if a.ndim == 0 else data.draw(axes(a.ndim))
    kw = {"axis": axis, "keepdims": data.draw(st.booleans())}
    if data.draw(st.booleans()):
        kw["initial"] = 1
    with context(n):
        x = data.draw(pairs(a, n)).x
        if "initial" in kw and data.draw(st.booleans()):
            kw["where"] = data.draw(arrays(a.shape, bool))
        compare = {"zero_sign": ufunc is not np.lcm}
        if on_gpu():  # complex quotients, and halves, which NumPy folds in single precision along contiguous axes
            assume(ufunc is not np.power or a.dtype.kind in "biu")  # powers of powers magnify rounding without a bound
            half = a.dtype == np.float16 and ufunc in (np.subtract, np.divide)
            if half or (ufunc is np.divide and a.dtype.kind == "c"):
                compare |= {"exact": False, "ulps": 64.0 * max(a.size, 1), "scale": 10.0 if half else None}
        both(lambda: ufunc.reduce(a, **kw), lambda: ufunc.reduce(x, **kw), **compare)


@pytest.mark.parametrize("ufunc", ANY_ORDER, ids=lambda u: u.__name__)
@given(data=st.data(), n=device_counts)
@examples(0.5)
def test_folds_over_several_axes(ufunc, data, n):
    a = data.draw(arrays(data.draw(shapes(max_dims=3, max_size=100)), data.draw(dtypes())))
    rounded = ufunc in (np.logaddexp, np.hypot)
    kw = {"axis": data.draw(axis_sets(a.ndim)), "keepdims": data.draw(st.booleans())}
    with context(n):
        x = data.draw(pairs(a, n)).x
        if data.draw(st.booleans()):
            kw["initial"] = 1
            kw["where"] = data.draw(arrays(a.shape, bool))
        compare = {"exact": not rounded, "ulps": 64.0 * max(a.size, 1), "zero_sign": False}
        compare = allowed(ufunc.__name__, compare)
        both(lambda: ufunc.reduce(a, **kw), lambda: ufunc.reduce(x, **kw), **compare)


@given(data=st.data(), n=device_counts)
@examples(2)
def test_partial_results_are_what_they_say(data, n):
    """Chunks of every result fit their regions, replicas are equal to the bit, partial values fold to the value."""
    a = data.draw(arrays(data.draw(shapes(max_size=150)), data.draw(dtypes()), extreme=False, top=2))
    name = data.draw(st.sampled_from(["sum", "max", "min", "any", "all", "count_nonzero"]))
    axis = data.draw(axis_sets(a.ndim))
    with context(n):
        x = data.draw(pairs(a, n)).x
        if a.size or name in ("sum", "any", "all", "count_nonzero"):
            check_invariants(getattr(np, name)(x, axis=axis))


@pytest.mark.parametrize("ufunc", PARTIAL, ids=lambda u: u.__name__)
def test_split_axes_leave_partial_results_and_move_nothing(ufunc):
    a = np.arange(1.0, 25.0).reshape(6, 4)
    with context(3):
        x = da.asarray(a, layout=da.blocks(0))
        with da.no_implicit_communication():
            kept, gone = ufunc.reduce(x, axis=1), ufunc.reduce(x, axis=0)
            part = ufunc.reduce(x, axis=0, where=a > 2, initial=1)
        assert kept.mode is da.REPLICA
        assert gone.mode.name == PARTIAL[ufunc] == part.mode.name
        assert same(kept, ufunc.reduce(a, axis=1))
        assert near(gone, ufunc.reduce(a, axis=0))
        assert near(part, ufunc.reduce(a, axis=0, where=a > 2, initial=1))


@pytest.mark.parametrize("n", [2, 4, 7])
def test_bytes_of_a_sum_along_the_split_axis(n):
    """(n - 1) times the result up, and no more than that down."""
    a = np.arange(n * 30 * 50.0).reshape(n * 30, 50)
    with context(n):
        x = da.asarray(a, layout=da.blocks(0))
        with da.ledger() as log:
            y = x.sum(axis=0)
        assert log.bytes_moved == 0
        with da.ledger() as log:
            z = y.change_mode("replica")
        assert log.bytes_moved == 2 * (n - 1) * y.nbytes
        assert log.rounds == 2
        assert near(z, a.sum(axis=0))


def test_replicated_arrays_reduce_everywhere():
    with context(4):
        x = da.asarray(np.linspace(0, 1, 999).reshape(3, 333), layout=da.replicated())
        with da.no_implicit_communication():
            y = x.sum()
            z = np.mean(x, axis=1)
        assert y.mode is z.mode is da.REPLICA
        assert y.devices == (0, 1, 2, 3)
        check_invariants(y)


def test_partial_operands_reduce_without_resolving():
    with context(3):
        a = np.arange(12).reshape(3, 4)
        x = da.asarray(a, layout=da.replicated()).change_mode("sum")
        y = da.asarray(a, layout=da.replicated()).change_mode("max")
        small = da.asarray(np.full((3, 4), 100, np.int8), layout=da.replicated()).change_mode("sum")
        with da.no_implicit_communication():
            assert x.sum(axis=0).mode is da.SUM
            assert y.max(axis=1).mode is da.MAX
        assert same(x.sum(axis=0), a.sum(axis=0))
        assert same(y.max(axis=1), a.max(axis=1))
        assert int(small.sum()) == 1200


def test_partial_values_that_wrap_are_resolved_before_they_widen():
    with context(2):
        x = da.distributed_array(np.array([100, 100], np.int8), {0: slice(None), 1: slice(None)}, "sum")
        for chunk in x.all_chunks().values():
            put(chunk[0], 100)
        assert int(x.sum()) == 2 * -56
        assert int(x.sum(dtype=np.int8)) == np.int8(2 * -56)


def test_elements_that_no_device_holds_are_identities():
    with context(2):
        for mode, ufunc in (("sum", np.add), ("prod", np.multiply), ("max", np.maximum)):
            x = da.distributed_array(np.array([[1.0, 2], [3, 4]]), {1: (slice(None), 0)}, mode)
            a = x.get()
            assert same(ufunc.reduce(x, axis=0), ufunc.reduce(a, axis=0))
            assert float(ufunc.reduce(x, axis=None)) == ufunc.reduce(a, axis=None)
            with np.errstate(invalid="ignore"):
                last, ref = np.subtract.reduce(x[:, 1]), np.subtract.reduce(a[:, 1])
            assert np.array_equal(last.get(), ref, equal_nan=True)


@given(data=st.data(), n=device_counts)
def test_negative_zero(data, n):
    """NumPy's sums begin with 0.0, unless told otherwise."""
    shape = data.draw(shapes(max_size=60))
    axis = data.draw(axis_sets(len(shape)))
    kw = {"axis": axis}
    if data.draw(st.booleans()):
        kw["initial"] = data.draw(st.sampled_from([-0.0, 0.0, None]))
    a = np.full(shape, -0.0)
    with context(n):
        x = data.draw(pairs(a, n)).x
        zero_sign = not on_gpu()  # a GPU's sums all begin with 0.0
        both(lambda: np.add.reduce(a, **kw), lambda: np.add.reduce(x, **kw), zero_sign=zero_sign)


@given(data=st.data(), n=device_counts)
def test_ptp_var_with_mean_and_correction(data, n):
    a = data.draw(arrays(data.draw(shapes(max_dims=3, max_size=80)), "float64", extreme=False))
    axis = data.draw(axis_sets(a.ndim))
    with context(n):
        x = data.draw(pairs(a, n)).x
        both(lambda: np.ptp(a, axis=axis), lambda: np.ptp(x, axis=axis))
        loose = {"exact": False, "ulps": 2.0**20, "scale": 100.0}
        if a.size:
            mean = a.mean(axis=axis, keepdims=True)
            both(lambda: np.var(a, axis=axis, mean=mean), lambda: np.var(x, axis=axis, mean=mean), **loose)
            both(lambda: np.std(a, axis=axis, correction=1), lambda: np.std(x, axis=axis, correction=1), **loose)
        with pytest.raises(ValueError, match="simultaneously"):
            np.var(x, ddof=1, correction=1)


@host_only
def test_warnings_come_once_from_the_callers_line():
    with context(2):
        x = da.asarray(np.array([1e308, 1e308, 1e308, 1e308]), layout=da.blocks(0))
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            x.sum()
        assert [(str(w.message), w.filename) for w in seen] == [("overflow encountered in reduce", __file__)]
        with pytest.warns(RuntimeWarning, match="Mean of empty slice"), np.errstate(invalid="ignore"):
            assert np.isnan(np.mean(da.asarray(np.zeros((0, 3))), axis=0).get()).all()
        with pytest.warns(RuntimeWarning, match="Degrees of freedom"), np.errstate(all="ignore"):
            np.var(x[:1], ddof=1).get()
        with np.errstate(over="raise"), pytest.raises(FloatingPointError):
            x.sum()


def test_results_without_axes_are_scalars_that_rebind():
    with context(2):
        for y in (da.asarray([1, 2]).sum(), np.mean(da.asarray([1.0])), np.argmax(da.asarray([1.0]))):
            z = y
            z += 1
            assert z is not y
            assert z.get() == y.get() + 1


def test_refusals():
    with context(2):
        x = da.asarray(np.ones((2, 3)), layout=da.blocks(0))
        for call, kind, text in (
            (lambda: np.maximum.reduce(x[:0], axis=0), ValueError, "zero-size array to reduction operation maximum"),
            (lambda: np.subtract.reduce(x, axis=(0, 1)), ValueError, "not reorderable"),
            (lambda: x.sum(axis=2), np.exceptions.AxisError, "out of bounds"),
            (lambda: x.sum(axis=(0, 0)), ValueError, "duplicate"),
            (lambda: x.max(where=[True, False, True]), ValueError, "does not have an identity"),
            (lambda: x.sum(where=np.array([1, 0, 1])), TypeError, "safe"),
            (lambda: x.sum(where=np.ones((4, 2, 3), bool)), ValueError, "broadcast"),
            (lambda: x.sum(axis=0, out=np.zeros(2)), ValueError, "pass an out="),
            (lambda: x.sum(axis=0, out=[0, 0, 0]), TypeError, "arr"),
            (lambda: np.negative.reduce(x), ValueError, "binary"),
            (lambda: np.divmod.reduce(x), ValueError, "single value"),
            (lambda: np.argmax(x[:0]), ValueError, "empty sequence"),
        ):
            with pytest.raises(kind, match=text):
                call()


@given(data=st.data(), n=device_counts)
def test_out_and_where_of_every_kind(data, n):
    a = data.draw(arrays(data.draw(shapes(min_dims=1, max_dims=3, max_size=80)), "float64", extreme=False))
    axis = data.draw(axes(a.ndim))
    ufunc = data.draw(st.sampled_from([np.add, np.subtract, np.maximum]))
    shape = tuple(np.delete(a.shape, axis))
    with context(n):
        x = data.draw(pairs(a, n)).x
        mask = data.draw(arrays(a.shape, bool))
        out, ref = data.draw(pairs(np.zeros(shape), n, partial=False)), np.zeros(shape)
        where = data.draw(pairs(mask, n)).x if data.draw(st.booleans()) else mask
        kw = {"axis": axis, "initial": 0.5}
        ufunc.reduce(a, where=mask, out=ref, **kw)
        assert ufunc.reduce(x, where=where, out=out.x, **kw) is out.x
        assert near(out.x, ref)
        host = np.zeros(shape)
        assert ufunc.reduce(x, where=where, out=host, **kw) is host
        assert near(host, ref)


def settled(x):
    """The value, after each process has compared the replicas that it holds with it."""
    value = x.get()
    if x.mode is da.REPLICA:
        held = x._operand("a test")
        for (_, region), array in zip(held.layout.chunks, held.arrays, strict=True):
            if array is not None:
                assert_same(array, np.asarray(value[region.key]).reshape(array.shape), local=True)
    return value


VIEWS = (lambda a: a, lambda a: a.T, lambda a: a[::-1], lambda a: a[1:, ...], lambda a: a[None] if a.ndim < 3 else a)
ALL = (
    np.add, np.multiply, np.maximum, np.minimum, np.logical_or, np.logical_and, np.subtract, np.divide, np.copysign,
    np.fmax, np.bitwise_or, np.gcd, np.logaddexp,
)  # fmt: skip


@pytest.mark.parametrize("ufunc", ALL, ids=lambda u: u.__name__)
@given(data=st.data(), shares=st.sampled_from(SHARES))
@examples(0.5)
def test_folds_on_several_processes(ufunc, data, shares):
    rounded = ufunc in (np.add, np.multiply, np.logaddexp)
    dtype = data.draw(dtypes(STANDARD))
    shape = data.draw(shapes(min_dims=1, max_dims=3, max_size=80))
    a = data.draw(arrays(shape, dtype, extreme=not rounded and dtype.kind != "c", top=2))
    view = data.draw(st.sampled_from(VIEWS))
    layout, mode = data.draw(layouts(a.shape, sum(shares))), data.draw(modes(a.dtype))
    ref = view(a)
    kw = {"axis": data.draw(axis_sets(ref.ndim)), "keepdims": data.draw(st.booleans())}
    mask = None
    if data.draw(st.booleans()):
        kw["initial"] = 1
        if data.draw(st.booleans()):
            mask = data.draw(arrays(ref.shape, bool))
            masks = data.draw(st.none() | layouts(ref.shape, sum(shares), default=False))

    def program():
        x = view(da.distributed_array(a, layout, mode))
        more = {}
        if mask is not None:
            more["where"] = mask if masks is None else da.asarray(mask, layout=masks)
        with np.errstate(all="ignore"):
            try:
                return settled(ufunc.reduce(x, **kw, **more))
            except (ValueError, TypeError) as error:
                return error

    how = {"zero_sign": ufunc in (np.subtract, np.divide, np.copysign)}  # others may take zeros in any order
    if rounded or dtype.kind == "c":
        how |= {"exact": False, "ulps": 1024, "scale": 100.0}
    results = on_ranks(shares, program)
    for got in results:

        def ours(got=got):
            if isinstance(got, Exception):
                raise got
            return got

        kw_ref = kw if mask is None else {**kw, "where": mask}
        both(lambda kw_ref=kw_ref: ufunc.reduce(ref, **kw_ref), ours, local=True, **how)
        if not isinstance(got, Exception):
            assert_same(got, results[0], local=True)


def test_several_processes_move_what_one_does():
    a = np.random.default_rng(0).normal(size=(12, 50))

    def program():
        x = da.asarray(a, layout=da.blocks(0))
        with da.no_implicit_communication():
            total = x.sum(axis=0)
            assert total.mode is da.SUM
        with da.ledger() as log:
            total.reshard(da.replicated()).change_mode(None)
            np.subtract.reduce(x, axis=0)
        return log.bytes_moved

    with context(4):
        alone = program()
    assert set(on_ranks((2, 2), program)) == set(on_ranks((1, 2, 1), program)) == {alone}


def test_elements_that_no_device_holds_on_several_processes():
    def program():
        for mode, ufunc in (("sum", np.add), ("prod", np.multiply), ("max", np.maximum)):
            x = da.distributed_array(np.array([[1.0, 2], [3, 4]]), {1: (slice(None), 0)}, mode)
            first, last = np.argmin(x), np.add.accumulate(x[:, 1].clip(-9, 9))
            a = x.get()
            assert same(ufunc.reduce(x, axis=0), ufunc.reduce(a, axis=0))
            assert same(first, np.argmin(a))
            assert same(last, np.add.accumulate(a[:, 1].clip(-9, 9)))
        return True

    assert on_ranks((1, 1), program) == [True, True]


@pytest.mark.parametrize("ufunc", [np.add, np.subtract])
def test_a_failure_in_a_fold_is_everyones(ufunc):
    def program():
        x = da.asarray(np.array([1.0, 1.0, -1e308, -1e308]) * (-1 if ufunc is np.subtract else 1), layout=da.blocks(0))
        with np.errstate(over="raise"), pytest.raises(FloatingPointError) as caught:
            ufunc.reduce(x)
        return str(caught.value), float(np.maximum.reduce(abs(x)))

    assert on_ranks((1, 1), program) == [("overflow encountered in reduce", 1e308)] * 2


@pytest.mark.parametrize("layout", [da.blocks(0), da.blocks(1), da.replicated(), da.grid((2, 2))], ids=str)
@pytest.mark.parametrize("reduced", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_sums_of_squares_stand_behind_sums(
    layout: Any, reduced: Any, keepdims: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What GPUs read in one pass, with the values stored first, as devices do that can't."""
    monkeypatch.setattr(reduction, "unstored", lambda context, node: operand(context, demand(node), None))
    host = np.random.default_rng(4).standard_normal((6, 10))
    with da.init(devices=4, kind="host") as context:
        x = da.asarray(host, layout=layout) * 1.0
        wanted = reduction.Spread("deviation", 60, 4.0, np.dtype(np.float32))
        found = reduction.moments(context, x, reduced, keepdims, wanted)
        assert found is not None
        at_once = found[1]
        value = found[0].get()
    size = host.sum(axis=reduced).size
    if at_once:  # each device holds whole lines
        assert value.dtype == np.float32
        expected = np.sqrt(
            ((host * host).sum(axis=reduced, keepdims=keepdims) - host.sum(axis=reduced, keepdims=keepdims) ** 2 / 60)
            / 4
        )
        np.testing.assert_allclose(value, expected, rtol=1e-6)
        return
    sums, squares = value
    assert sums.size == size
    np.testing.assert_allclose(sums, host.sum(axis=reduced, keepdims=keepdims), rtol=1e-13)
    np.testing.assert_allclose(squares, (host * host).sum(axis=reduced, keepdims=keepdims), rtol=1e-13)


@pytest.mark.parametrize("layout", [da.blocks(0), da.blocks(1), da.cyclic(0), da.replicated()], ids=str)
@pytest.mark.parametrize("call", [{}, {"axis": 0}, {"axis": 1}, {"axis": -1, "keepdims": True}], ids=str)
@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "logical_or"])
def test_what_comes_again_is_what_came_first(layout, call, name):
    rng = np.random.default_rng(3)
    fold = getattr(np, name).reduce
    if not call:
        call = {"axis": None}
    with da.init(devices=3, kind="host", minimum_chunk=1):
        for dtype in ("float64", "float32", "int8", "bool"):
            hosts = [(rng.random((9, 7)) * 3).astype(dtype) for _ in range(3)]
            arrays = [da.asarray(host, layout=layout) for host in hosts]
            first = [fold(x | False if dtype == "bool" else x + 0, **call) for x in arrays]
            for _ in range(3):
                for host, x, wanted in zip(hosts, arrays, first, strict=True):
                    found = fold(x, **call)
                    assert found.dtype == fold(host, **call).dtype
                    assert found.shape == np.shape(fold(host, **call))
                    assert found.get().tobytes() == wanted.get().tobytes()
        if name != "add":
            return
        huge = da.asarray(np.full((9, 7), 1e308), layout=layout)
        for _ in range(3):
            with pytest.warns(RuntimeWarning, match="overflow"):
                fold(huge, **call).get()


@pytest.mark.parametrize("name", ["ptp", "median", "nanmedian", "round", "choose", "percentile"])
def test_out_of_another_shape_is_refused_and_left_alone(name):
    host = np.arange(12.0).reshape(3, 4)
    calls = {
        "round": lambda np_, x, out: np_.round(x, 1, out=out),
        "choose": lambda np_, x, out: np_.choose(x.astype(int) % 2, [x, x], out=out),
        "percentile": lambda np_, x, out: np_.percentile(x, [20, 50], axis=0, out=out),
    }
    call = calls.get(name) or (lambda np_, x, out: getattr(np_, name)(x, axis=0, out=out))
    with da.init(devices=3, kind="host", minimum_chunk=1):
        x = da.asarray(host, layout=da.blocks(0))
        for shape in ((), (1,), (4,), (2, 4), (3, 4), (5, 3, 4)):
            theirs, ours = np.full(shape, 7.0), da.full(shape, 7.0)
            try:
                call(np, host, theirs)
            except (ValueError, TypeError) as error:
                with pytest.raises(type(error)):
                    call(da, x, ours)
            else:
                call(da, x, ours)
            np.testing.assert_array_equal(np.asarray(ours), theirs)


@pytest.mark.parametrize("layout", [da.blocks(0), da.replicated(), None])
def test_an_out_of_a_wider_dtype_takes_what_the_operand_does_not_hold(layout: Any) -> None:
    bools = np.array([[True, False, True], [False, False, True]])
    cases = [(np.array([[100, -100], [-100, 100]], "i1"), out) for out in ("i2", "i8", "f4", "c16")]
    cases += [
        (np.array([[2049, 0.1], [0.3, 6e4]], "f2"), "f8"),
        *((bools, out) for out in ("i1", "i8", "u8", "f4", "c16")),
    ]
    calls: list[Any] = [
        lambda a, out: np.ptp(a, axis=0, out=out),
        lambda a, out: np.subtract.reduce(a, axis=0, out=out),
    ]
    with da.init(devices=3, kind="host", minimum_chunk=1):
        for array, dtype in cases:
            for call in calls:
                expected = np.zeros(array.shape[1], dtype)
                call(array, expected)
                found, host = da.zeros(array.shape[1], dtype), np.zeros(array.shape[1], dtype)
                call(da.asarray(array, layout=layout), found)
                call(da.asarray(array, layout=layout), host)
                np.testing.assert_array_equal(found.get(), expected)
                np.testing.assert_array_equal(host, expected)
        for name in ("accumulate", "reduceat"):
            given = () if name == "accumulate" else ([0, 1],)
            expected, found = np.zeros((2, 3), "i4"), da.zeros((2, 3), "i4")
            getattr(np.subtract, name)(bools, *given, out=expected)
            getattr(np.subtract, name)(da.asarray(bools, layout=layout), *given, out=found)
            np.testing.assert_array_equal(found.get(), expected)
        for call in calls:
            with pytest.raises(TypeError):
                call(da.asarray(bools, layout=layout), da.zeros(3, bool))
        with pytest.raises(TypeError):
            np.ptp(da.asarray(bools * 1.5, layout=layout), axis=0, out=da.zeros(3, int))


WHERES: list[Any] = [
    None,
    0,
    1,
    True,
    False,
    np.bool_(True),
    np.int8(1),
    [1, 0, 1],
    [True, False, True],
    np.array(True),
]
REFUSED = [np.array(1), np.array(0), np.array(1.0), np.array([1, 0, 1]), np.array([1.0, 0, 1])]


@pytest.mark.parametrize("layout", [da.blocks(0), da.replicated(), None])
def test_where_is_a_truth_value_or_an_array_of_bool(layout: Any) -> None:
    a = np.arange(6.0).reshape(2, 3)
    calls: list[Any] = [
        lambda x, w: np.sum(x, where=w), lambda x, w: np.max(x, axis=0, initial=-1, where=w), lambda x, w: np.any(x, where=w),
        lambda x, w: x.prod(where=w), lambda x, w: np.nansum(x, where=w), lambda x, w: np.add.reduce(x, where=w),
        lambda x, w: np.add(x, 1, where=w, out=np.zeros_like(x)), lambda x, w: np.clip(x, 0, 1, where=w, out=np.zeros_like(x)),
        lambda x, w: np.divmod(x, 2, out=(np.zeros_like(x), np.zeros_like(x)), where=w)[0],
    ]  # fmt: skip
    with da.init(devices=3, kind="host"):
        x = da.asarray(a, layout=layout)
        for call in calls:
            for where in WHERES:
                np.testing.assert_array_equal(call(x, where).get(), call(a, where))
            for where in REFUSED:
                for array in (a, x):
                    with pytest.raises(TypeError):
                        call(array, where)
                with pytest.raises(TypeError):
                    call(x, da.asarray(where))
