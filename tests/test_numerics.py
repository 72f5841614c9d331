"""Right values where arithmetic breaks or NumPy is lenient: half precisions, infinities, weak numbers, empty values, scalars."""

import copy
import math
import operator
import pickle
import statistics
import warnings

import ml_dtypes
import numpy as np
import pytest

import distarray as da
from conformance.checking import on_gpu
from distarray.testing import run_ranks

HALVES = [np.dtype("f2"), np.dtype(ml_dtypes.bfloat16)]
LAYOUTS = [da.replicated(), da.blocks(0), da.cyclic(0), {0: slice(0, 1), 2: slice(1, None)}]


@pytest.fixture(autouse=True)
def context(four):
    return four


def near_the_top(dtype):
    return dtype.type(4e4 if dtype == np.float16 else 3e38)


# --- partial values ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_nothing_is_added_to_partial_values_of_half_precision(dtype):
    top = near_the_top(dtype)
    h = np.array([[top], [-top]], dtype)
    s = da.asarray(h, layout=da.blocks(0)).sum(axis=0)
    for result in (s + s, s * 2, s - s, s + s + s, np.add(s, s, out=da.zeros(1, dtype=dtype))):
        np.testing.assert_array_equal(result.get().astype(float), [0.0])


@pytest.mark.parametrize("devices", [2, 3, 7])
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_sums_products_and_matrix_products_do_not_overflow_on_the_way(dtype, devices):
    top = near_the_top(dtype)
    with da.init(devices=devices, kind="host"):
        x = da.asarray(np.array([top, top, -top, -top], dtype), layout=da.blocks(0))
        totals = [x.sum(), x.mean(), np.add.reduce(x), x.sum(initial=0), x.sum(where=[1, 0, 0, 1])]
        if dtype == np.float16:  # NumPy multiplies matrices of bfloat16 in float32
            row = da.asarray(np.array([[top, top, -top, -top]], dtype), layout=da.blocks(1))
            totals += [x @ np.ones(4, dtype), (row @ np.ones((4, 1), dtype))[0, 0]]
        assert [float(total) for total in totals] == [0] * len(totals)
        y = da.asarray(np.array([300, 300, 1e-4, 1e-4], dtype), layout=da.blocks(0))
        assert float(y.prod()) == pytest.approx(9e-4, rel=0.02)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_several_partial_values_fold_in_a_wider_dtype(dtype):
    top = near_the_top(dtype)
    values = [top, top, -top, -top]
    x = da.distributed_array(np.zeros(3, dtype), {d: slice(None) for d in range(4)}, "sum")
    for (chunk,), value in zip(x.all_chunks().values(), values, strict=True):
        chunk[...] = value
    folded = [
        x,
        x.change_mode("replica"),
        x.reshard(da.blocks(0)),
        x.reshard({1: slice(None)}),
        x + x,
        x.change_mode("max"),
    ]
    for result in folded:
        np.testing.assert_array_equal(result.get().astype(float), np.zeros(3))


def test_modes_are_their_names():
    x = da.asarray(np.ones((4, 2)), layout=da.blocks(0)).sum(axis=0)
    assert x.mode == "sum"
    assert x.mode == da.SUM
    assert {"sum": 1, "replica": 2}[x.mode] == 1
    assert {da.MAX: 1}["max"] == 1
    assert (f"{x.mode}", repr(x.mode), str(da.MIN)) == ("sum", "SUM", "min")
    assert pickle.loads(pickle.dumps(da.PROD)) is da.PROD


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16", "i4"])
def test_uncovered_elements_of_a_sum_are_zero(dtype):
    h = np.array([-0.0, 1, 2, 3]).astype(dtype)
    x = da.distributed_array(h, {0: slice(0, 2), 1: slice(1, 2)}, "sum")
    expected = np.where([True, True, False, False], h, np.zeros((), dtype))
    results = [x, x.change_mode("replica"), x.reshard(da.blocks(0)), x.reshard({2: slice(None), 3: slice(0, 3)})]
    for result in [*results, np.positive(x), x.copy()]:
        np.testing.assert_array_equal(result.get(), expected)
        np.testing.assert_array_equal(np.signbit(result.get().real), np.signbit(expected.real))


# --- norms ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("order", [None, 0, 1, 2, 3, -1, np.inf, -np.inf, np.float64(0.5)])
def test_norms_of_infinities_and_nans_do_not_depend_on_layouts(layout, order):
    random = np.random.default_rng(5)
    special = np.array([0, 1, -2, np.inf, -np.inf, np.nan])
    with np.errstate(all="ignore"):
        for dtype in ("f4", "f8", "c8", "c16"):
            for shape in ((5,), (3, 2)):
                h = np.empty(shape, dtype)
                h.real[...] = random.choice(special, shape)
                if dtype[0] == "c":
                    h.imag[...] = random.choice(special, shape)
                x = da.asarray(h, layout=layout)
                for axis in (None, 0, -1):
                    if axis is None and len(shape) == 2 and order not in (None, 1, np.inf):
                        continue
                    got, expected = np.linalg.norm(x, order, axis), np.linalg.norm(h, order, axis)
                    assert got.dtype == expected.dtype
                    np.testing.assert_allclose(got.get(), expected, rtol=1e-5)
                vectors = np.linalg.vector_norm(x, ord=2 if order is None else order, axis=0)
                np.testing.assert_allclose(
                    vectors.get(), np.linalg.vector_norm(h, ord=2 if order is None else order, axis=0), rtol=1e-5
                )
        z = da.asarray(np.array([np.inf + 0j, 1]), layout=layout)
        assert float(np.linalg.norm(z)) == np.inf


# --- Python numbers ---------------------------------------------------------------------------------------------------


def outcome(call):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return np.asarray(call())
        except (TypeError, ValueError, OverflowError) as error:
            return type(error).__mro__[-4 if isinstance(error, OverflowError) else -3]


@pytest.mark.parametrize("dtype", ["?", "u1", "i1", "i4", "f2", "f4", "f8", "c8"])
@pytest.mark.parametrize(
    "number", [0.1, 1, -3, 300, 2**40, True, 2j, np.float64(0.1), np.int64(300), math.nan, math.inf], ids=repr
)
def test_python_numbers_are_weak_as_in_numpy(dtype, number):
    h = np.array([1, 0, 2]).astype(dtype)
    calls = {
        "where": lambda x: np.where(x != 0, number, x),
        "where second": lambda x: np.where(x != 0, x, number),
        "isclose": lambda x: np.isclose(x, number, rtol=1e-9, atol=0),
        "isclose first": lambda x: np.isclose(number, x),
        "isclose tolerance": lambda x: np.isclose(x, x + 1, rtol=number),
        "allclose": lambda x: np.allclose(x, number, rtol=1e-9),
        "clip": lambda x: np.clip(x, number, None),
        "clip method": lambda x: x.clip(0, max=number),
        "full_like": lambda x: np.full_like(x, number),
        "concatenate": lambda x: np.concatenate([x, number], axis=None),
        "stack": lambda x: np.stack([x[0], number]),
        "copyto": lambda x: (np.copyto(x, number), x)[1],
        "mask": lambda x: (operator.setitem(x, x == x[0], number), x)[1],
        "index": lambda x: (operator.setitem(x, [0, 1], number), x)[1],
        "real": lambda x: (setattr(x, "real", number), x)[1],
    }
    for name, call in calls.items():
        expected = outcome(lambda call=call: call(h.copy()))
        got = outcome(lambda call=call: call(da.asarray(h.copy(), layout=da.blocks(0))))
        if isinstance(expected, type) or isinstance(got, type):
            assert expected is got, (name, expected, got)
            continue
        assert got.dtype == expected.dtype, name
        np.testing.assert_array_equal(got, expected, err_msg=name)


@pytest.mark.parametrize(
    "tolerance", [{"rtol": math.nan}, {"atol": math.inf}, {"atol": np.array([0, np.nan])}], ids=repr
)
def test_invalid_tolerances_are_warned_of(tolerance):
    x = da.asarray(np.ones(2, "f4"), layout=da.blocks(0))
    with pytest.warns(RuntimeWarning, match="One of rtol or atol is not valid") as caught:
        np.isclose(x, 1.0, **tolerance)
    assert caught[0].filename == __file__
    with np.errstate(invalid="raise"), pytest.raises(FloatingPointError, match="rtol or atol"):
        np.allclose(x, 1.0, **tolerance)
    with np.errstate(invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        np.isclose(x, 1.0, **tolerance)


# --- values without elements ------------------------------------------------------------------------------------------

KEYS = [
    (None, None, np.array(0), slice(None), [0]), ([],), (np.zeros((1, 0), int),), (slice(None), [0]), (False,),
    (np.zeros((0, 2), int), 0), (Ellipsis, [0], [0]), (True, [0]),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=str)
@pytest.mark.parametrize("shape", [(1, 0, 1), (2, 1, 0), (0, 2, 1)])
def test_values_of_size_0_must_broadcast_too(key, shape):
    for given in [(), (0,), (1,), (2, 1, 0), (0, 1), (3, 0), (1, 1, 0), (0, 0, 1), (1, 0, 1, 1)]:
        results = []
        for x in (np.zeros(shape, int), da.asarray(np.zeros(shape, int), layout=da.blocks(1))):
            try:
                x[key] = np.zeros(given, int)
                results.append(None)
            except (ValueError, IndexError) as error:
                results.append(error)
        ref, got = results
        assert (ref is None) == (got is None), (given, ref, got)
        if ref is not None and not isinstance(got, IndexError):  # NumPy may look at the shapes first
            assert str(got) == str(ref) or type(got) is type(ref)


# --- warnings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [{}, {"__name__": None}, {"__name__": "elsewhere"}], ids=repr)
@pytest.mark.parametrize("code", ["x.astype(float)", "r[...] = x", "r[:2] = x[:2]", "(x / 0).evaluate()", "e.mean()"])
def test_warnings_reach_code_without_a_module(names, code):
    if on_gpu() and "/" in code:
        pytest.skip("GPUs record no floating-point conditions")
    scope = {"x": da.asarray(np.ones(4, complex)), "r": da.zeros(4), "e": da.zeros(0), **names}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(compile(code, "a notebook", "exec"), scope)
    assert caught
    assert {w.filename for w in caught} == {"a notebook"}


# --- folds that no mode names -----------------------------------------------------------------------------------------

UFUNCS = [
    u for u in {u.__name__: u for u in vars(np).values() if isinstance(u, np.ufunc)}.values()
    if (u.nin, u.nout, u.signature) == (2, 1, None)
]  # fmt: skip


@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda u: u.__name__)
def test_every_fold_takes_dtype(ufunc):
    random = np.random.default_rng(8)
    for source in "?bBldD":
        for given in (None, *"?Bled"):
            h = random.integers(0, 3, (5, 3)).astype(source)
            mask = random.integers(0, 2, (5, 3)).astype(bool)
            for kwargs in ({}, {"keepdims": True}, {"initial": 1, "where": mask}):
                with np.errstate(all="ignore"), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        expected = ufunc.reduce(h, dtype=given, **kwargs)
                    except (TypeError, ValueError):
                        continue
                    got = ufunc.reduce(da.asarray(h, layout=da.blocks(0)), dtype=given, **kwargs)
                    assert got.dtype == expected.dtype
                    tolerance = 1e-2 if expected.dtype == np.float16 else 1e-5
                    np.testing.assert_allclose(got.get(), expected, rtol=tolerance)


# --- what NumPy takes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "where", [[1, 0, 1], 1, 0, None, 1.0, "yes", np.float64(1), np.int8(0), [True, False, True], (0, 0, 0)], ids=repr
)
def test_where_takes_what_has_truth_values(where):
    h = np.arange(3.0) + 1
    x = da.asarray(h, layout=da.blocks(0))
    out = np.add(x, 1, where=where, out=da.zeros(3))
    np.testing.assert_array_equal(out.get(), np.add(h, 1, where=where, out=np.zeros(3)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        means = (
            () if where is None or isinstance(where, str) else ("mean",)
        )  # NumPy counts with the mask as it was given
        for name in ("sum", "prod", "any", "all", *means):
            np.testing.assert_array_equal(getattr(np, name)(x, where=where).get(), getattr(np, name)(h, where=where))
        np.testing.assert_array_equal(np.max(x, where=where, initial=0).get(), np.max(h, where=where, initial=0))
    with pytest.raises(TypeError, match="rule 'safe'"):
        np.add(x, 1, where=np.array([1, 0, 1]), out=da.zeros(3))


@pytest.mark.parametrize(("ufunc", "shapes", "kwargs"), [
    (np.matmul, [(2, 5, 3), (3, 5, 7)], {"axes": [(0, 2), (0, 2), (0, 1)]}),
    (np.matmul, [(2, 5, 3), (3, 5, 7)], {"axes": [(0, 2), (0, 2), (2, 0)]}),
    (np.matmul, [(2, 5, 3), (3,)], {"axes": [(0, 2), 0, 0]}),
    (np.matmul, [(2, 3), (3, 2)], {"axes": [(0, 0), (0, 1), (0, 1)]}),
    (np.matmul, [(2, 3), (3, 2)], {"axis": 0}),
    (np.matmul, [(2, 3), (3, 2)], {"keepdims": True}),
    (np.matmul, [(2, 3), (3, 2)], {"axes": [(0, 1)]}),
    (np.vecdot, [(2, 3, 4), (2, 3, 4)], {"axis": 1, "keepdims": True}),
    (np.vecdot, [(2, 3, 4), (2, 3, 4)], {"axes": [0, 0, 1], "keepdims": True}),
    (np.vecdot, [(2, 3, 4), (3, 2, 4)], {"axes": [0, 1]}),
    (np.vecdot, [(2, 3), (3,)], {"keepdims": True}),
    (np.vecdot, [(2, 3), (2, 3)], {"axis": 5}),
    (np.matvec, [(5, 2, 3), (2, 3)], {"axes": [(0, 1), 0, 1]}),
    (np.matvec, [(5, 2, 3), (2, 3)], {"axes": [(1, 0), 0, -1]}),
    (np.vecmat, [(2, 3), (2, 5, 3)], {"axes": [0, (0, 1), 0]}),
], ids=str)  # fmt: skip
def test_products_take_axes_and_keepdims(ufunc, shapes, kwargs):
    a, b = (np.arange(math.prod(s), dtype=float).reshape(s) + 1 for s in shapes)
    for layouts in ((da.blocks(0), da.blocks(len(shapes[1]) - 1)), (da.replicated(), da.cyclic(0))):
        x, y = (da.asarray(h, layout=layout) for h, layout in zip((a, b), layouts, strict=True))
        try:
            expected = ufunc(a, b, **kwargs)
        except (TypeError, ValueError) as error:
            with pytest.raises(type(error)):
                ufunc(x, y, **kwargs)
            continue
        np.testing.assert_allclose(ufunc(x, y, **kwargs).get(), expected)
        out = da.zeros(expected.shape)
        assert ufunc(x, y, out=out, **kwargs) is out
        np.testing.assert_allclose(out.get(), expected)


def test_the_forms_of_clip():
    h = np.arange(6.0)
    x = da.asarray(h, layout=da.blocks(0))
    np.testing.assert_array_equal(x.clip(2, max=4).get(), h.clip(2, max=4))
    np.testing.assert_array_equal(x.clip(min=2).get(), h.clip(min=2))
    np.testing.assert_array_equal(da.clip(x, 2, max=4).get(), h.clip(2, 4))
    np.testing.assert_array_equal(np.clip(x, min=1, max=3).get(), np.clip(h, 1, 3))
    np.testing.assert_array_equal(np.clip(x, a_min=1, a_max=None).get(), np.clip(h, 1, None))
    out = da.zeros(6)
    assert np.clip(x, 2, 3, out=out, where=h > 1) is out
    np.testing.assert_array_equal(out.get(), np.clip(h, 2, 3, out=np.zeros(6), where=h > 1))
    np.testing.assert_array_equal(x.clip(1, 3, dtype=int, casting="unsafe").get(), [1, 1, 2, 3, 3, 3])
    for call in (lambda a: np.clip(a, 1), lambda a: np.clip(a, 1, max=2)):
        with pytest.raises(TypeError) as theirs:
            call(h)
        with pytest.raises(TypeError, match="missing 1 required") as ours:
            call(x)
        assert str(ours.value) == str(theirs.value)
    with pytest.raises(ValueError, match="forbidden"):
        np.clip(x, 1, 2, min=1)


def test_astype_takes_numpys_arguments():
    x = da.asarray(np.arange(3.0), layout=da.blocks(0))
    assert x.astype(dtype="f4", subok=False).dtype == np.float32
    assert x.astype("i4", "C", "unsafe", False, True).dtype == np.int32
    assert x.astype("f8", copy=False) is x
    with pytest.raises(ValueError, match="order"):
        x.astype("f4", order="Z")
    with pytest.raises(TypeError, match="Cannot cast"):
        x.astype("i4", casting="safe")


def test_get_takes_cupys_arguments():
    h = np.arange(6.0).reshape(2, 3)
    x = da.asarray(h, layout=da.blocks(0))
    assert x.get(order="F").flags.f_contiguous
    np.testing.assert_array_equal(x.get(order="F", blocking=True), h)
    out = np.zeros((3, 2)).T
    assert x.get(out=out, blocking=False) is out
    np.testing.assert_array_equal(out, h)
    frozen = np.zeros((2, 3))
    frozen.flags.writeable = False
    for bad, kind in [
        (np.zeros(3), ValueError),
        (np.zeros((2, 3), "f4"), TypeError),
        ([0], TypeError),
        (frozen, ValueError),
    ]:
        with pytest.raises(kind, match=r"out="):
            x.get(out=bad)
    with pytest.raises(ValueError, match="order"):
        x.get(order="K")
    with pytest.raises(TypeError, match="stream"):
        x.get(stream=1)


# --- numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [da.blocks(0), da.replicated()], ids=str)
@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f2", "f4", "f8", "c8", "c16", ml_dtypes.bfloat16], ids=str)
def test_results_that_are_numbers_behave_as_numpys_scalars(dtype, layout):
    h = np.array([[2.625, 1.5], [0, 7]]).astype(dtype)
    x = da.asarray(h, layout=layout)
    functions = [round, lambda v: round(v, 1), operator.index, lambda v: divmod(7, v), lambda v: v < 3]
    functions += [] if h.dtype.kind == "c" else [math.floor, math.ceil, int, float, lambda v: f"{float(v):.3f}"]
    for ref, ours in [
        (h[0, 0], x[0, 0]),
        (h.sum(), x.sum()),
        (h.max(), x.max()),
        (h[0, 1] + h[0, 1], x[0, 1] + x[0, 1]),
    ]:
        assert isinstance(ours, da.DistributedArray)
        assert hash(ours) == hash(ref)
        assert {ours: 1}[ref.item()] == {ref.item(): 1}[ours] == 1
        assert format(ours) == format(ref)
        for other in (copy.copy(ours), copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
            assert hash(other) == hash(ref)
        for function in functions:
            try:
                expected = function(ref)
            except TypeError:
                with pytest.raises(TypeError):
                    function(ours)
                continue
            got = function(ours)
            assert all(np.asarray(got, object).ravel() == np.asarray(expected, object).ravel())


def test_arrays_are_no_numbers():
    x = da.asarray(np.ones((2, 2)), layout=da.blocks(0))
    for array in (x, x[0], da.asarray(1.0), x[0, 0, ...]):
        for function in (hash, round, math.trunc):
            with pytest.raises(TypeError):
                function(array)
    with pytest.raises(TypeError, match="not built by its constructor"):
        da.DistributedArray([1.0])


def test_the_class_makes_arrays_of_a_shape_as_numpys_does():
    for args, kwargs in (
        ((3,), {"dtype": "i4"}),
        (((3, 4),), {}),
        (([2, 3], "f4"), {}),
        ((), {"shape": 5}),
        (((), int), {}),
    ):
        found, wanted = da.ndarray(*args, **kwargs), np.ndarray(*args, **kwargs)
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    with pytest.raises(TypeError, match="asarray"):
        da.ndarray((2,), buffer=b"12")


def test_statistics_of_arrays():
    h = np.array([[1.0, 2, 4], [3, 3, 3]])
    x = da.asarray(h, layout=da.blocks(1))
    for name in ("mean", "fmean", "median", "stdev", "variance", "mode"):
        found = getattr(statistics, name)(x[0])
        assert float(found) == pytest.approx(float(getattr(statistics, name)(h[0])))
    assert isinstance(statistics.mean(x[0]), da.DistributedArray)
    assert math.trunc(x[0, 2]) == 4
    assert x[0, 2].as_integer_ratio() == (4, 1)
    assert x[0, 2].is_integer()


@pytest.mark.parametrize("sequence", [[0, 1], (2,), "ab", b"ab", bytearray(b"x")], ids=repr)
def test_numbers_repeat_sequences(sequence):
    three = da.asarray([3, 4], layout=da.blocks(0))[0]
    assert sequence * three == three * sequence == sequence * 3
    assert three.bit_count() == 2
    with pytest.raises(TypeError):
        sequence * da.asarray([2.5])[0]
    np.testing.assert_array_equal((da.asarray(3) * [1, 2]).get(), [3, 6])  # an array, as NumPy's of no axes


@pytest.mark.parametrize("layout", [da.replicated(), da.blocks(2), da.blocks(0)], ids=str)
@pytest.mark.parametrize("new", [(0,), (2, 0), (0, 3, 1)], ids=str)
def test_reshapes_of_nothing_copy_nothing(layout, new):
    x = da.asarray(np.zeros((4, 0, 2), "f4"), layout=layout)
    for view in (x, x.T, x[::-1].swapaxes(0, 2), da.asarray(np.zeros((3, 5)), layout=da.blocks(0))[:, 5:].T):
        assert da.reshape(view, new, copy=False).shape == new
        same = view[...]
        same.shape = new
        assert same.get().shape == new
        same[...] = 1


@pytest.mark.parametrize("value", [[[1, 2]], ((1, 2),), [[[]]], [np.ones((1, 2))]], ids=repr)
def test_lists_with_more_axes_than_what_they_are_assigned_to(value):
    h = np.zeros(4)
    x = da.asarray(h, layout=da.blocks(0))
    for a in (h, x):
        with pytest.raises(ValueError, match="setting an array element with a sequence"):
            a[:2] = value
        with pytest.raises(ValueError, match="setting an array element with a sequence"):
            a[0] = [1]
    assert not x.get().any()


TOPS = {"f8": 1e308, "c16": 1e308, "c8": 1e38, "i8": 9, "f2": 9}
SEVERAL_TIMES = [
    (lambda x: np.divmod(x, 0), "f8"),
    (lambda x: np.divmod(7, x), "i8"),
    (lambda x: x @ x, "f8"),
    (lambda x: x[:1] @ x[:, :1], "f8"),
    (lambda x: np.tensordot(x, x, 1), "f8"),
    (lambda x: np.divide.at(x, 0, 0.0), "f8"),
    (lambda x: np.linalg.det(np.where(x[:2, :2] > 0, 1, np.inf)), "f8"),
    (lambda x: x.sum(dtype="f4"), "c8"),
    (lambda x: x.mean(axis=0, dtype="f8"), "c16"),
    (lambda x: np.cumsum(x, axis=0, dtype="f4"), "c8"),
    (lambda x: np.add.reduceat(x, [0, 2], dtype="f8"), "c16"),
    (lambda x: np.add(x, 1, dtype="f4", casting="unsafe"), "c8"),
    (lambda x: np.where(x > 0, 70000, x), "f2"),
    (lambda x: np.minimum(x, 70000), "f2"),
    (lambda x: x == 2**70, "f2"),
    (lambda x: x.fill(70000), "f2"),
    (lambda x: x.__setitem__(0, 70000), "f2"),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("number", range(len(SEVERAL_TIMES)))
def test_each_condition_is_warned_of_once_at_the_callers_line(number, layout):
    if on_gpu():
        pytest.skip("GPUs record no floating-point conditions")
    function, dtype = SEVERAL_TIMES[number]
    h = np.diag([TOPS[dtype], 0, TOPS[dtype], 1]).astype(dtype)
    given = {}
    for name, a in (("numpy", h.copy()), ("ours", da.asarray(h, layout=layout))):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = function(a)
            for part in result if isinstance(result, tuple) else (result,):
                np.asarray(part)
        assert name == "numpy" or {w.filename for w in caught} == {__file__}
        given[name] = sorted({(w.category, str(w.message).partition(" encountered")[0]) for w in caught}, key=str)
        if name == "ours":
            assert len(caught) == len(given[name])
    assert given["ours"] == given["numpy"]
    assert given["ours"]


# --- processes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("processes", [2, 3])
def test_processes_agree(processes):
    def program(communicator):
        with da.current.scoped(da.context.join(communicator, 1)):
            top = np.float16(4e4)
            s = da.asarray(np.array([[top], [-top]] * processes, "f2"), layout=da.blocks(0)).sum(axis=0)
            x = da.asarray(np.array([np.inf + 0j, 1, 2]), layout=da.blocks(0))
            i = da.asarray(np.arange(6, dtype="i1"), layout=da.blocks(0))
            n = da.asarray(np.arange(6.0), layout=da.blocks(0))
            partial = da.distributed_array(np.arange(4.0), {0: slice(0, 2), 1: slice(1, 2)}, "sum")
            return (
                float((s + s)[0]), float(np.linalg.norm(x)), int(np.subtract.reduce(i, dtype="uint8")),
                hash(n.sum()), round(n.mean(), 1).get().item(), np.clip(n, 1, 2).get().tolist(), partial.get().tolist(),
            )  # fmt: skip

    expected = (0.0, np.inf, 241, 15, 2.5, [1, 1, 2, 2, 2, 2], [0, 1, 0, 0])
    assert run_ranks(processes, program) == [expected] * processes


def test_bfloat16_is_compared_by_value(four):
    """Its kind is that of structures, and it has no fields: neither bits nor NaN may be equal by them."""
    host = np.array([0.0, -0.0, np.nan, 1.5], ml_dtypes.bfloat16)
    for layout in (da.blocks(0), da.cyclic(0), da.replicated()):
        x, y = da.asarray(host, layout=layout), da.asarray(host[[1, 0, 2, 3]], layout=da.blocks(0))
        for other, theirs in ((y, host[[1, 0, 2, 3]]), (x, host), (1.5, 1.5), (host, host), (x[3], host[3])):
            np.testing.assert_array_equal((x == other).get(), host == theirs)
            np.testing.assert_array_equal((x != other).get(), host != theirs)
