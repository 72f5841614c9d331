"""Expressions: what they move, when they are evaluated, what they read after a write, and what they warn."""

import os
import warnings

import numpy as np
import pytest

import distarray as da
from conformance import contexts
from distarray.array import calls


@pytest.fixture(autouse=True)
def context(four):
    return four


host_only = pytest.mark.skipif(
    os.environ.get("DISTARRAY_TEST_KIND", "host") != "host", reason="GPUs report no floating-point conditions"
)


def on_host(chunk):
    return chunk.get() if hasattr(chunk, "get") else chunk


def rows(*shape, dtype=float):
    h = np.random.default_rng(3).random(shape).astype(dtype)
    return h, da.asarray(h, layout=da.blocks(0))


def test_a_five_point_stencil_is_one_round_of_six_messages():
    h, a = rows(40, 30)
    with da.ledger() as log:
        s = a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] - 4 * a[1:-1, 1:-1]
    assert (log.messages, log.rounds, log.bytes_moved) == (6, 1, 6 * 28 * 8)
    assert log.peak_temporary == 2 * 28 * 8
    expected = h[:-2, 1:-1] + h[2:, 1:-1] + h[1:-1, :-2] + h[1:-1, 2:] - 4 * h[1:-1, 1:-1]
    np.testing.assert_array_equal(s.get(), expected)


def test_a_two_point_stencil_sends_a_row_each_way():
    h, a = rows(41, 30)
    with da.ledger() as log:
        s = (a[:-2] + a[2:]).evaluate()
    assert (log.messages, log.rounds, log.bytes_moved) == (6, 1, 6 * 30 * 8)
    assert {(move.source, move.target) for move in log.moves} == {(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)}
    np.testing.assert_array_equal(s.get(), h[:-2] + h[2:])
    with da.no_implicit_communication():
        (s - a[1:-1]).evaluate()  # each result is where the middle is


def test_a_nine_point_stencil_sends_each_halo_once():
    h, a = rows(40, 30)
    with da.ledger() as log:
        s = sum(a[i : i + 38, j : j + 28] for i in range(3) for j in range(3))
    assert (log.messages, log.rounds, log.bytes_moved) == (6, 1, 6 * 30 * 8)
    np.testing.assert_array_equal(s.get(), sum(h[i : i + 38, j : j + 28] for i in range(3) for j in range(3)))


def test_a_write_is_counted_once():
    _, a = rows(40, 30)
    with da.ledger() as log:
        a[1:-1] += a[:-2]
        a[1:-1] = a[2:] * 2
    assert log.messages == 6


def test_equal_layouts_move_nothing():
    _, a = rows(13, 3)
    with da.no_implicit_communication():
        ((a * 2 + a) / (a + 1)).evaluate()
        (a[1:-1, ::2] * -a[1:-1, ::2]).evaluate()
        (a.T + a.T).evaluate()


def test_forbidden_communication_names_the_operation_and_the_cure():
    _, a = rows(8, 8)
    with (
        pytest.raises(da.ImplicitCommunicationError, match=r"add would move \d+ bytes .*reshard"),
        da.no_implicit_communication(),
    ):
        (a + a.T).evaluate()


def test_a_block_demands_what_was_recorded_inside():
    _, a = rows(8, 8)
    with pytest.raises(da.ImplicitCommunicationError), da.no_implicit_communication():
        a + a.T


@pytest.mark.parametrize("whole", [True, False])
def test_a_pending_expression_keeps_what_it_read(whole):
    h, a = rows(10, 3)
    e = a * 2
    f = a[1:] + a[:-1]
    if whole:
        a[...] = 0
    else:
        a[3:7, 1] = 0
    np.testing.assert_array_equal(e.get(), h * 2)
    np.testing.assert_array_equal(f.get(), h[1:] + h[:-1])


def test_a_write_that_reads_its_target_sees_old_values():
    h, a = rows(10, 3)
    a[1:] = a[:-1]
    h[1:] = h[:-1].copy()
    np.testing.assert_array_equal(a.get(), h)
    a[...] = a[::-1] + 1
    np.testing.assert_array_equal(a.get(), h[::-1] + 1)


def test_an_expression_assigned_and_kept_is_not_changed_by_the_assignment():
    h, a = rows(6)
    e = a + 1
    a[...] = e
    np.testing.assert_array_equal(e.get(), h + 1)
    np.testing.assert_array_equal(a.get(), h + 1)
    a += 5
    np.testing.assert_array_equal(e.get(), h + 1)


def test_in_place_needs_no_second_buffer(context):
    _, a = rows(1000, 100)
    for device in context.devices:
        device.reset_peak()
    before = [d.peak for d in context.devices]
    a += 1
    a *= a
    assert [d.peak for d in context.devices] == before


def test_overlapping_chunks_of_one_device_are_each_updated_from_their_own_copy():
    h = np.arange(8.0)
    a = da.distributed_array(h, {0: [slice(0, 5), slice(3, 8)], 1: slice(2, 6)})
    a += 1
    a[3:5] *= 2
    h += 1
    h[3:5] *= 2
    np.testing.assert_array_equal(a.get(), h)
    for device, regions in a.index_map.items():
        for index, chunk in zip(regions, a.all_chunks()[device]):
            np.testing.assert_array_equal(on_host(chunk), h[index])


def test_exposed_buffers_are_read_at_the_call_and_written_through():
    h, a = rows(8)
    chunk = a.all_chunks()[0][0]
    e = a * 2
    chunk[0] = 99
    assert e.get()[0] == h[0] * 2
    assert a.get()[0] == 99
    a[...] = a[::-1]
    assert float(chunk[0]) == h[-1]


def test_shared_buffers_are_copied_on_write():
    h, a = rows(8)
    b = a.copy()
    c = a.change_mode("max")
    a[0] = -1
    np.testing.assert_array_equal(b.get(), h)
    np.testing.assert_array_equal(c.get(), h)
    b[1] = -2
    assert a.get()[1] == h[1]


@host_only
def test_warnings_come_once_with_the_line_of_the_operation():
    _, a = rows(10)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        e = a / (a - a)
        assert not caught
        e.evaluate()
    assert [str(w.message) for w in caught] == ["divide by zero encountered in divide"]
    assert caught[0].filename == __file__


@host_only
def test_errstate_is_that_of_the_call():
    _, a = rows(10)
    with np.errstate(all="ignore"):
        e = a / (a - a)
    e.evaluate()
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        a / (a - a)
    seen = []
    with np.errstate(divide="call", call=lambda kind, flag: seen.append(kind)):
        a / (a - a)
    assert "divide by zero" in seen


@host_only
def test_warnings_cross_threads():
    h = np.ones(2_000_000)
    a = da.asarray(h, layout=da.blocks(0))
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        (a / 0).evaluate()


def test_a_long_chain_is_evaluated_by_its_bound():
    h, a = rows(5)
    x = a
    for _ in range(500):
        x = x + 1
        h = h + 1
    np.testing.assert_array_equal(x.get(), h)
    y = a
    for _ in range(60):
        y = y + y
    np.testing.assert_array_equal(y.get(), a.get() * 2.0**60)


@host_only
def test_integer_power_fails_at_the_call():
    a = da.asarray(np.arange(1, 4), layout=da.blocks(0))
    with pytest.raises(ValueError, match="negative integer powers"):
        a ** da.asarray(np.array([1, -1, 2]))


def test_eager_and_deferred_agree(context):
    h = np.random.default_rng(0).random((9, 4))
    results = []
    for eager in (False, True):
        with da.init(devices=3, kind=context.kind, eager=eager):
            a = da.asarray(h, layout=da.blocks(0))
            b = np.sin(a[1:] * 2 - a[:-1]) ** 2
            a[1:] += b
            results.append(a.get())
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("function", [np.isnan, np.isinf, np.isfinite, np.signbit], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8"])
def test_tests_of_numbers_write_every_element(function, dtype):
    """NumPy leaves elements of such results unwritten where they do not lie side by side: held values in cells, views that are
    written to, masks, turned arrays."""
    if function is np.signbit and dtype == "c8":
        pytest.skip("complex numbers have no sign")
    host = np.linspace(-3, 3, 5 * 120).reshape(5, 120).astype(dtype)
    host[:, ::7], host[:, 3::11] = np.nan, np.inf
    other = np.arange(600).reshape(5, 120)
    want = function(host)
    with contexts.context(5):
        for rows in (da.blocks(0), da.blocks(1), da.replicated(), None):
            x, y = da.asarray(host, layout=rows), da.asarray(other, layout=da.cyclic(1))
            held = function(x + 0)
            np.testing.assert_array_equal(np.asarray(np.add(held, y)), want + other)
            np.testing.assert_array_equal(np.asarray(held), want)
            for target in (
                da.full((10, 240), True, dtype=bool, layout=rows),
                da.full((10, 240), 3, layout=da.cyclic(1)),
            ):
                target[::2, ::2] = function(x)
                np.testing.assert_array_equal(np.asarray(target[::2, ::2]), want)
                function(x.T, out=target[1::2, 1::2].T)
                np.testing.assert_array_equal(np.asarray(target[1::2, 1::2]), want)
                function(x, out=target[::2, 1::2], where=y % 2 == 0)
                even = other % 2 == 0
                np.testing.assert_array_equal(np.asarray(target[::2, 1::2])[even], want[even])
            into = np.full((5, 240), 3, bool)
            function(x, out=into[:, ::2])
            np.testing.assert_array_equal(into[:, ::2], want)
            np.testing.assert_array_equal(np.asarray(function(x.T + 0)), function(host.T + 0))
            np.testing.assert_allclose(np.asarray(np.nanmax(x.T, axis=0)), np.nanmax(host.T, axis=0))
            if dtype in ("f4", "f8"):
                kept = np.where(np.isfinite(host), host, np.nan)
                y = da.asarray(kept, layout=rows)
                np.testing.assert_allclose(np.asarray(np.nansum(y.T, axis=1)), np.nansum(kept.T, axis=1), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["u1", "i1", "u4", "i8", "u8"])
def test_comparisons_with_integers_beyond_the_dtype_are_recorded_within_it(dtype):
    """NumPy decides them by itself; a kernel takes its numbers in the array's dtype."""
    h, a = rows(9, dtype=dtype)
    limits = np.iinfo(dtype)
    for number in (limits.min - 1, limits.max + 1, 2**70, -(2**70), 1):
        for f in (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal):
            for call in (lambda x, f=f, n=number: f(x, n), lambda x, f=f, n=number: f(n, x)):
                found = call(a)
                for arg in found._node.args:
                    assert type(arg) is not int or limits.min <= arg <= limits.max
                np.testing.assert_array_equal(found.get(), call(h))
    outside = np.array([True, False, True] * 3)
    x = da.asarray(outside, layout=da.blocks(0))
    out = np.less(a, int(limits.max) + 1, out=da.zeros(9, bool), where=x)
    np.testing.assert_array_equal(out.get(), outside)


def test_dtypes_and_signatures_of_the_operands_own_loop_are_dropped():
    h, a = rows(9, dtype="i4")
    for call in (
        lambda x: np.equal(x, x + 1, dtype=bool),
        lambda x: np.isfinite(x, dtype=bool),
        lambda x: np.add(x, 1, signature="ii->i"),
        lambda x: np.divide(x, 3, dtype=float),
    ):
        found = call(a)
        assert not {"dtype", "signature"} & set(found._node.kwargs)
        np.testing.assert_array_equal(found.get(), call(h))


def test_calls_in_other_loops_convert_operands_for_libraries_that_know_no_signatures():
    """As GPUs get them: such a library would add the small integers, and convert the sum."""
    h = np.array([100, -100, 7], "i1")
    a = da.asarray(h, layout=da.blocks(0))
    for ufunc, other, asked in (
        (np.add, 100, {"signature": "hh->h"}),
        (np.add, 100, {"dtype": "i4"}),
        (np.less, 300, {"signature": "ll->?"}),
        (np.floor_divide, True, {"signature": (np.dtype("f4"), None, None)}),
    ):
        expected = ufunc(h, other, **asked)
        args, kwargs = calls._in_plain_loop(ufunc, [a, other], dict(asked), convert=True)
        assert not kwargs
        found = ufunc(*args)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found.get(), expected)
    with pytest.raises(OverflowError):
        np.less(a, 300, signature="bb->?")
    with pytest.raises(OverflowError):
        calls._in_plain_loop(np.add, [a, -1], {"dtype": np.dtype("u2"), "casting": "unsafe"}, convert=True)
