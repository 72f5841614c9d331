"""What goes wrong in cupyx.distributed, each with the right answer: wrong results, races, and needless errors.

The numbers are those of the list of its holes (2.1: wrong results; 2.2: races; 2.3: errors where it should work).
"""

from __future__ import annotations

import copy
import pickle
import threading
import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import distarray as da
from conformance.checking import as_dict, assert_same, check_invariants
from conformance.contexts import context

pytestmark = pytest.mark.usefixtures("four")

OVERLAP = {0: [slice(0, 3), slice(2, 4)], 1: slice(1, 4), 2: slice(None, None, 2)}
SQUARE = np.arange(16.0).reshape(4, 4)


def spread(a: Any, layout: Any = None) -> Any:
    return da.asarray(np.asarray(a), layout=da.blocks(0) if layout is None else layout)


# 2.1 wrong results without an error


@pytest.mark.parametrize("mode", [da.SUM, da.PROD, da.MIN, da.MAX])
@pytest.mark.parametrize("index_map", [{0: slice(None)}, {0: slice(0, 2), 1: slice(2, 4)}, OVERLAP])
def test_1_creation_in_a_mode_keeps_the_data(mode, index_map):
    a = np.array([3, -2, 5, 7])
    x = da.distributed_array(a, index_map, mode)
    assert_same(x, a)
    assert_same(x.change_mode(da.REPLICA), a)
    assert a.tolist() == [3, -2, 5, 7]


@pytest.mark.cuda
def test_1_and_2_from_a_cupy_array():
    cupy = pytest.importorskip("cupy", reason="needs CuPy")
    for mode in (da.REPLICA, da.SUM, da.PROD):
        a = cupy.arange(1, 5)
        x = da.distributed_array(a, {0: slice(None)}, mode)
        assert_same(x, np.arange(1, 5))
        a[...] = 0
        assert_same(x, np.arange(1, 5))


def test_2_the_source_is_never_aliased():
    a = np.arange(4.0)
    x = da.distributed_array(a, {0: slice(None)})
    y = da.asarray(a)
    z = spread(np.ones(4)) + a
    a[...] = -1
    assert_same(x, np.arange(4.0))
    assert_same(y, np.arange(4.0))
    assert_same(z, np.arange(4.0) + 1)


@pytest.mark.parametrize(
    "shapes", [((4, 4), (1, 4)), ((1, 4), (4, 4)), ((4, 4), (4,)), ((4,), (4, 4)), ((4, 1), (1, 3))]
)
def test_3_broadcasting(shapes):
    a, b = (np.arange(np.prod(s), dtype=float).reshape(s) for s in shapes)
    for first in (da.replicated(), {0: [()], 3: [()]}, None):
        for second in (da.replicated(), {1: [()]}, None):
            assert_same(da.asarray(a, layout=first) + da.asarray(b, layout=second), a + b)


def test_3_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"4.*3|3.*4"):
        spread(np.ones(4)) + spread(np.ones(3))
    x = da.asarray(np.ones(4), layout={0: slice(None)})
    y = da.asarray(np.ones(3), layout={0: slice(None)})
    with pytest.raises(ValueError):
        x + y


@pytest.mark.parametrize("index_map", [{0: slice(0, 3)}, {}, {0: []}, {0: slice(0, 2), 1: slice(3, 4)}])
def test_4_and_5_an_uncovered_element_is_an_error_that_names_it(index_map):
    a = np.arange(4.0)
    missing = r"\b2\b" if len(index_map) == 2 else r"\b3\b" if index_map.get(0) else r"\b0\b"
    with pytest.raises(ValueError, match=missing):
        da.distributed_array(a, index_map)
    with pytest.raises(ValueError, match=missing):
        da.asarray(a, layout=index_map)
    x = da.asarray(a, layout=da.blocks(0))
    with pytest.raises(ValueError, match=missing):
        x.reshard(index_map)
    assert_same(x, a)


@pytest.mark.parametrize("axis", [-1, -2, 0, 1, (0, 1), (-1, 0), (), None])
def test_6_axes(axis):
    assert_same(spread(SQUARE).sum(axis=axis), SQUARE.sum(axis=axis))
    assert_same(np.max(spread(SQUARE, da.grid((2, 2))), axis=axis), np.max(SQUARE, axis=axis))


def test_7_in_place_does_not_reach_what_was_resharded_before():
    d, e = spread(np.arange(4.0)), spread(np.ones(4))
    resharded = d.reshard(da.replicated())
    d += e
    assert_same(resharded, np.arange(4.0))
    assert_same(d, np.arange(4.0) + 1)


def test_7_in_place_does_not_reach_converted_arrays_of_one_chunk():
    d = da.asarray(np.arange(4.0), layout={0: slice(None)})
    converted = d.change_mode(da.SUM)
    same = d.change_mode(da.REPLICA)
    d += 1
    assert_same(converted, np.arange(4.0))
    assert_same(same, np.arange(4.0))


@pytest.mark.parametrize("mode", [da.REPLICA, da.SUM, da.MAX])
def test_7_out_is_written(mode):
    a, out = spread(np.arange(4.0)), spread(np.zeros(4), OVERLAP).change_mode(mode)
    view = out[1:]
    result = np.add(a, 1, out=out)
    assert result is out
    assert_same(out, np.arange(4.0) + 1)
    assert_same(view, np.arange(1.0, 4) + 1)


def test_8_partial_integers_wrap_like_whole_ones():
    a = np.array([[100, 1], [100, 1]], np.int8)
    partial = spread(a).sum(axis=0, dtype=np.int8)
    whole = a.sum(axis=0, dtype=np.int8)
    assert_same(partial.sum(), whole.sum())
    assert int(spread(a).sum(axis=0, dtype=np.int8).change_mode(da.REPLICA).sum()) == -54
    assert_same(partial.astype(np.int64), whole.astype(np.int64))
    assert_same(partial * 2.5, whole * 2.5)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex128"])
def test_9_negative_zero_survives_a_sum(dtype):
    a = np.array([-0.0, 0.0, -0.0, 1.0], dtype)
    for layout in (OVERLAP, da.blocks(0), da.replicated()):
        assert_same(da.asarray(a, layout=layout).change_mode(da.SUM), a)
        assert_same(da.asarray(a, layout=layout).change_mode(da.SUM).change_mode(da.REPLICA), a)
        assert_same(da.asarray(a, layout=layout).change_mode(da.SUM).reshard(da.blocks(0)), a)


def test_10_negative_indices_in_a_map_wrap():
    x = da.asarray(np.arange(4.0), layout={0: slice(0, 3), 1: -1})
    assert as_dict(x.index_map)[1] == [(slice(3, 4, 1),)]
    assert_same(x, np.arange(4.0))
    check_invariants(x)


def test_11_functions_of_the_index_see_global_indices():
    x = da.fromfunction(lambda i, j: 10 * i + j, (4, 4), dtype=np.int64, layout=da.blocks(0))
    assert_same(x, np.fromfunction(lambda i, j: 10 * i + j, (4, 4), dtype=np.int64))


def test_12_no_numpy_function_gathers_in_silence():
    """Each either has an implementation or raises TypeError: a plain NumPy array never comes back, except from the
    functions that are asked to make one."""
    x = spread(SQUARE + 1)
    wrong = []
    conversions = {"array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray", "require"}
    for function in np.testing.overrides.get_overridable_numpy_array_functions():
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                result = function(x)
            except Exception:
                continue
        parts = result if isinstance(result, tuple) else (result,)
        wrong += [function.__name__ for part in parts if isinstance(part, np.ndarray) and part.size > 1]
    assert not set(wrong) - conversions


def test_12_an_unsupported_function_is_named():
    for function in (np.is_busday, np.datetime_as_string, np.busday_offset):
        arguments = (spread(SQUARE), 1) if function is np.busday_offset else (spread(SQUARE),)
        with pytest.raises(TypeError, match=function.__name__):
            function(*arguments)


def test_13_pending_transfers_are_seen_by_every_path():
    a = spread(SQUARE)
    moved = a.reshard(da.blocks(1))
    again = moved.reshard({0: [()], 1: (slice(0, 2),)})
    for got, want in [(again + a, SQUARE * 2), (again.sum(axis=0), SQUARE.sum(axis=0)), (again @ a, SQUARE @ SQUARE),
                      (again.change_mode(da.SUM) + moved, SQUARE * 2), (again[1:], SQUARE[1:])]:  # fmt: skip
        assert_same(got, want)


# 2.2 races and lifetimes; 2.1 14 (a copy that does not wait for its source)


def test_races_of_temporaries_and_transfers():
    """Buffers are reused while transfers may still read them: many short-lived arrays between devices."""
    a = np.arange(64.0 * 48).reshape(64, 48) / 1000
    want = np.cos(a * a) + a
    x = spread(a)
    for step in range(20):
        layout = [da.blocks(1), da.grid((2, 2)), {1: (), 0: [(slice(0, 32), slice(0, 40)), (slice(16, 64),)]}][step % 3]
        y = np.cos(x * x.reshard(layout)) + x.reshard(da.cyclic(0, 3))
        assert_same(y, want, exact=False, ulps=8)


def test_two_threads_share_an_array():
    a = np.arange(400.0).reshape(20, 20)
    x = spread(a).reshard(da.grid((2, 2))).change_mode(da.SUM)
    failures: list[Exception] = []

    def work() -> None:
        try:
            for layout in (da.blocks(1), da.blocks(0), da.replicated()) * 3:
                assert_same(x.reshard(layout) + x, a + a)
                assert_same(x.sum(axis=0), a.sum(axis=0), exact=False, ulps=64)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures


def test_an_error_inside_an_operation_leaves_everything_usable():
    x = spread(np.arange(4))
    with pytest.raises(ValueError):
        (x ** np.array([1, 2, -1, 3])).get()
    assert_same(x + x.reshard(da.replicated()), np.arange(4) * 2)


# 2.3 errors where users expect it to work


def test_scalar_and_numpy_operands():
    a, d = SQUARE + 1, spread(SQUARE + 1)
    for f in (lambda x: x + 1, lambda x: 2 - x, lambda x: x**2, lambda x: x * np.float64(3), lambda x: x * a[0],
              lambda x: a[:, :1] + x, lambda x: np.add(x, 1, dtype=np.float32, casting="same_kind")):  # fmt: skip
        assert_same(f(d), f(a))
    assert_same(d**0.5, a**0.5, exact=False)


def test_several_outputs():
    a, d = SQUARE / 3, spread(SQUARE / 3)
    for f in (np.modf, np.frexp, lambda x: divmod(x, 2), lambda x: np.divmod(x, a + 1)):
        assert_same(f(d), f(a))


def test_dtype_of_sum_and_prod():
    a = np.array([[100, 2], [100, 3]], np.int8)
    for dtype in (np.int8, np.int16, np.float64, np.complex64):
        assert_same(spread(a).sum(axis=0, dtype=dtype), a.sum(axis=0, dtype=dtype))
        assert_same(spread(a).prod(axis=-1, dtype=dtype), a.prod(axis=-1, dtype=dtype))


REDUCTIONS = ["sum", "prod", "max", "min", "any", "all", "mean", "var", "std", "argmax", "argmin", "count_nonzero"]


@pytest.mark.parametrize("name", REDUCTIONS)
def test_all_reductions(name):
    a, d = SQUARE.copy(), spread(SQUARE)
    f = getattr(np, name)
    loose: dict[str, Any] = {"exact": False, "ulps": 64}
    assert_same(f(d), f(a), **loose)
    assert_same(f(d, axis=1, keepdims=True), f(a, axis=1, keepdims=True), **loose)
    if name != "count_nonzero":
        ref = f(a, axis=0)
        out = da.zeros(ref.shape, dtype=ref.dtype)
        assert f(d, axis=0, out=out) is out
        assert_same(out, ref, **loose)


def test_bool_complex_and_bfloat16_max_and_min():
    for a in (np.array([True, False, True]), np.array([1 + 2j, 1 - 1j, complex(np.nan, 0)]), np.array([2j, 1, -3 + 1j]),
              np.array([1.5, -2, 3]).astype(ml_dtypes.bfloat16), np.array([1.5, -2, 3], np.float16)):  # fmt: skip
        for layout in (da.blocks(0), {0: slice(0, 2), 1: slice(1, 3)}):
            x = da.asarray(a, layout=layout)
            assert_same(x.max(axis=0), a.max(axis=0))
            assert_same(np.min(x), np.min(a))
            for mode in (da.MIN, da.MAX):
                assert_same(x.change_mode(mode), a)
                assert_same(x.change_mode(mode).change_mode(da.REPLICA), a)


@pytest.mark.parametrize("dtype", [np.int16, np.uint16, np.bool_, ml_dtypes.bfloat16, np.float16, np.complex64])
def test_every_dtype_travels(dtype):
    a = (np.arange(16) % 3).reshape(4, 4).astype(dtype)
    x = spread(a)
    assert_same(x.reshard(da.blocks(1)), a)
    assert_same((x == x.T).reshard(da.replicated()), a == a.T)
    for mode in (da.SUM, da.MAX):
        assert_same(x.change_mode(mode).reshard(da.grid((2, 2))), a)


@pytest.mark.parametrize("shape", [(0,), (0, 4), (4, 0), (2, 0, 3)])
def test_zero_size(shape):
    a = np.zeros(shape, np.float32)
    for layout in (None, da.replicated(), {0: [()]}, da.blocks(0), da.blocks(-1)):
        x = da.asarray(a, layout=layout)
        assert_same(x, a)
        assert_same(x + 1, a + 1)
        assert_same(x.sum(axis=0), a.sum(axis=0))
        assert_same(x.reshard(da.blocks(0)).change_mode(da.SUM), a)
        check_invariants(x)
        with pytest.raises(ValueError):
            x.max()


def test_zero_dimensions():
    for layout in (None, da.replicated(), {0: ()}, {1: [()], 2: ()}):
        x = da.asarray(np.array(3.0), layout=layout)
        assert_same(x * 2 + 1, np.array(7.0))
        assert x.change_mode(da.SUM).shape == ()
        for chunks in x.all_chunks().values():
            assert all(chunk.shape == () for chunk in chunks)
        check_invariants(x)


def test_operands_with_different_layouts():
    a, layouts = SQUARE, (da.blocks(0), da.blocks(1), da.grid((2, 2)), da.cyclic(1, 1), da.replicated(), {3: ()})
    for first in layouts:
        for second in layouts:
            x, y = da.asarray(a, layout=first), da.asarray(a.T, layout=second)
            assert_same(np.hypot(x, y), np.hypot(a, a.T), exact=False)
            assert_same(np.add(x, y, where=x > y, out=x.copy()), np.add(a, a.T, where=a > a.T, out=a.copy()))
            assert_same(np.where(x > y, x, y), np.where(a > a.T, a, a.T))


def test_matrix_times_a_resharded_vector():
    v = np.arange(4.0)
    x = spread(v).reshard({0: slice(None), 1: slice(1, 3)})
    assert_same(spread(SQUARE) @ x, SQUARE @ v)
    assert_same(x @ spread(SQUARE), v @ SQUARE)


@pytest.mark.parametrize(("name", "mode"), [("sum", da.SUM), ("max", da.MAX), ("min", da.MIN), ("prod", da.PROD),
                                            ("replica", da.REPLICA), (None, da.REPLICA)])  # fmt: skip
def test_modes_by_name(name, mode):
    for layout in ({0: slice(None)}, OVERLAP):
        assert da.distributed_array(np.arange(4.0), layout, name).mode == mode
        x = da.asarray(np.arange(4.0), layout=layout)
        assert x.change_mode(name).mode == mode
        for bad in ("mean", 3):
            with pytest.raises((ValueError, TypeError)):
                x.change_mode(bad)


def test_the_map_of_a_product_is_canonical():
    x = spread(SQUARE)
    product = x @ da.asarray(SQUARE, layout=da.replicated())
    for held in as_dict(product.index_map).values():
        assert len(held) == len({str(region) for region in held}), "k-partials of a device are one chunk"
    assert as_dict(product.index_map) == as_dict(x.index_map)


def test_dtype_is_kept_without_any_data():
    x = da.asarray(np.zeros((0, 3), np.int16), layout={0: [slice(0, 0)]})
    assert (x + x).dtype == np.int16
    assert x.get().dtype == np.int16


def test_the_rest_of_an_arrays_life():
    a, d = SQUARE.copy(), spread(SQUARE)
    d[1:, ::2] = 5
    a[1:, ::2] = 5
    for f in (lambda x: x[1:3], lambda x: x.reshape(2, 8), lambda x: x.T, lambda x: x.astype(np.int8), copy.copy,
              copy.deepcopy, lambda x: np.ravel(x), lambda x: x.dot(x), lambda x: np.clip(x, 2, 5)):  # fmt: skip
        assert_same(f(d), f(a))
    assert len(d) == 4
    assert [float(row.sum()) for row in d] == [float(row.sum()) for row in a]
    assert_same(pickle.loads(pickle.dumps(d)), a)
    assert da.asarray(1.0, device=d.device).shape == ()
    assert da.zeros((5, 5), device=d.device).device == d.device


def test_fortran_order():
    a = np.asfortranarray(np.arange(24.0).reshape(4, 6))
    for layout in (da.blocks(0), da.blocks(1), {0: ()}):
        x = da.asarray(a, layout=layout)
        assert_same(x, a)
        assert_same(x.reshape(3, 8), a.reshape(3, 8))
        assert_same(da.asarray(a.T, layout=layout), a.T)


# bad index maps and layouts: what was given, what was needed


@pytest.mark.parametrize(("bad", "kind", "says"), [
    ({0: (slice(None), slice(None), 0)}, IndexError, "2"),
    ({0: 4, 1: ()}, IndexError, "4"),
    ({0: (0, -5), 1: ()}, IndexError, "-5"),
    ({0: slice(None, None, 0)}, ValueError, "step"),
    ({0: "rows"}, (TypeError, ValueError), "rows"),
    ({0: 1.5, 1: ()}, (TypeError, ValueError), "1.5"),
    ({9: ()}, ValueError, "9"),
    ({-1: ()}, ValueError, "-1"),
    (da.blocks(2), ValueError, "2"),
    (da.blocks(0, sizes=[1, 1, 1]), ValueError, "3"),
    (da.blocks(0, sizes=[1, 1, 1, 2]), ValueError, "5"),
    (da.grid((3, 2)), ValueError, "3"),
    ("rows", (TypeError, ValueError), "rows"),
])  # fmt: skip
def test_bad_layouts(bad, kind, says):
    with pytest.raises(kind, match=says):
        da.asarray(SQUARE, layout=bad)
    with pytest.raises(kind, match=says):
        spread(SQUARE).reshard(bad)


def test_memory_limits_refuse_before_anything_is_written():
    with context(4):
        pass
    with da.init(devices=2, kind="host", memory_limit=4096):
        x = da.zeros(512, dtype=np.float64, layout=da.blocks(0))
        with pytest.raises(MemoryError):
            da.zeros(4096, dtype=np.float64, layout=da.blocks(0))
        with pytest.raises(MemoryError):
            x.reshard(da.replicated()).get()
        x += 1
        assert_same(x, np.ones(512))
