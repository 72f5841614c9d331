"""Views, reshapes, joins and the element-wise functions that are no ufuncs, against NumPy on random layouts and views."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import distarray as da
from conformance.checking import assert_same, both, check_invariants, on_gpu
from conformance.contexts import context, examples
from conformance.ranks import on_ranks
from conformance.strategies import (
    NUMPY,
    arrays,
    axes,
    broadcastable,
    device_counts,
    dtypes,
    layouts,
    operands,
    pairs,
    scalars,
    shapes,
)
from conformance.test_manipulation import factorings
from distarray.ops import choosing, joining, manipulation, reshaping

Call = Callable[[Any], Any]


def views(data: st.DataObject, ndim: int) -> tuple[str, Call]:
    """A function of NumPy that makes views, with arguments that may be wrong now and then."""
    a = data.draw(st.integers(-ndim - 1, ndim))
    b = data.draw(st.integers(-ndim - 1, ndim))
    k = data.draw(st.integers(-5, 5))
    cuts = data.draw(st.sampled_from([1, 2, 3, 0, [1, 2], [0, 3, 2], [-1], []]))
    table: dict[str, Call] = {
        "swapaxes": lambda x: np.swapaxes(x, a, b),
        "moveaxis": lambda x: np.moveaxis(x, (a, b), (b, a)),
        "rollaxis": lambda x: np.rollaxis(x, a, b),
        "squeeze": lambda x: np.squeeze(x, a),
        "expand_dims": lambda x: np.expand_dims(x, (a, b)),
        "flip": lambda x: np.flip(x, a),
        "flipud": np.flipud,
        "fliplr": np.fliplr,
        "rot90": lambda x: np.rot90(x, k, (a, b)),
        "matrix_transpose": np.matrix_transpose,
        "permute_dims": lambda x: np.permute_dims(x, [(i + k) % x.ndim for i in range(x.ndim)]),
        "atleast_1d": np.atleast_1d,
        "atleast_2d": np.atleast_2d,
        "atleast_3d": np.atleast_3d,
        "broadcast_to": lambda x: np.broadcast_to(x, (2, *x.shape)),
        "unstack": lambda x: np.unstack(x, axis=a),
        "split": lambda x: np.split(x, cuts, a),
        "array_split": lambda x: np.array_split(x, cuts, a),
        "hsplit": lambda x: np.hsplit(x, cuts),
        "vsplit": lambda x: np.vsplit(x, cuts),
        "dsplit": lambda x: np.dsplit(x, cuts),
    }
    name = data.draw(st.sampled_from(sorted(table)))
    return name, table[name]


def parts(found: Any) -> list[Any]:
    return list(found) if isinstance(found, (tuple, list)) else [found]


@examples(10)
@given(data=st.data(), n=device_counts)
def test_views_move_nothing_and_write_through(data: st.DataObject, n: int) -> None:
    pair = data.draw(operands(n, dtype=data.draw(dtypes())))
    with context(n):
        pair.x.change_mode(None)
        name, call = views(data, pair.ref.ndim)
        pair.x._operand("test")  # folds partial values, which is not the view's doing
        with da.no_implicit_communication():
            try:
                if not both(lambda: tuple(parts(call(pair.ref))), lambda: tuple(parts(call(pair.x)))):
                    return
            except da.ImplicitCommunicationError:
                pytest.fail(f"{name} moves data")
            got, ref = parts(call(pair.x)), parts(call(pair.ref))
        one = np.ones((), pair.ref.dtype)
        for x, a in zip(got, ref, strict=True):
            if isinstance(a, np.generic):
                continue
            if not a.flags.writeable:
                with pytest.raises(ValueError, match=r"read-only.*copy\(\)"):
                    x[...] = one
                continue
            a[...] = one
            x[...] = one
        assert_same(pair.base_x, pair.base_ref)


def test_broadcast_arrays(four: Any) -> None:
    x, y = da.asarray(np.arange(3)), da.asarray(np.arange(2.0)[:, None])
    for got, ref in zip(np.broadcast_arrays(x, y), np.broadcast_arrays(x.get(), y.get()), strict=True):
        assert_same(got, ref)


# --- reshape ----------------------------------------------------------------------------------------------------------


@examples(8)
@given(data=st.data(), n=device_counts)
def test_reshape(data: st.DataObject, n: int) -> None:
    """A view, a read-only copy or a copy, as NumPy has a view or a copy; in one move, without a whole array anywhere."""
    pair = data.draw(operands(n, dtype=data.draw(dtypes())))
    shape = data.draw(factorings(pair.ref.size))
    order = data.draw(st.sampled_from(["C", "C", "F", "A"]))
    resolved = data.draw(st.booleans())
    with context(n):
        if resolved:
            pair.x._operand("test")
        with da.ledger() as log:
            got = np.reshape(pair.x, shape, order=order)
        assert log.rounds <= (1 if resolved else 2)  # a fold of partial values may forward them in a second round
        ref = np.reshape(pair.ref, shape, order=order)
        assert_same(got, ref)
        shared = np.may_share_memory(ref, pair.base_ref)
        one = np.ones((), ref.dtype)
        if got.writable:
            got[...] = one
            ref[...] = one
            assert_same(got, ref)
        else:
            assert shared
            with pytest.raises(ValueError, match=r"copy\(\)"):
                got[...] = one
        assert_same(pair.base_x, pair.base_ref)
        check_invariants(got)


@examples(3)
@given(data=st.data(), n=device_counts)
def test_ravel_and_copies(data: st.DataObject, n: int) -> None:
    pair = data.draw(operands(n, dtype="int32"))
    order = data.draw(st.sampled_from("CFAK"))
    shape = data.draw(factorings(pair.ref.size))
    with context(n):
        assert_same(np.ravel(pair.x, order), np.ravel(pair.ref, order))
        for copy in (pair.x.flatten(), pair.x.reshape(shape, copy=True), np.reshape(pair.x, shape, copy=True)):
            assert_same(copy, pair.ref.reshape(copy.shape))
            copy[...] = 77
        assert_same(pair.base_x, pair.base_ref)


@examples(2)
@given(data=st.data(), n=device_counts)
def test_reshape_of_a_partial_that_leaves_elements_out(data: st.DataObject, n: int) -> None:
    shape = data.draw(shapes(min_dims=1, max_dims=3))
    a = data.draw(arrays(shape, "int64"))
    key = tuple(slice(data.draw(st.integers(0, 2)), None, data.draw(st.integers(1, 2))) for _ in shape)
    mode = data.draw(st.sampled_from(["sum", "max", "min", "prod"]))
    with context(n):
        x = da.distributed_array(a, {n - 1: key}, mode)
        ref = np.full(shape, da.Mode.of(mode).identity(a.dtype))
        ref[key] = a[key]
        new = data.draw(factorings(a.size))
        assert_same(x.reshape(new), ref.reshape(new))


def test_reshape_keeps_a_partial_mode(four: Any) -> None:
    a = np.arange(12).reshape(4, 3)
    x = da.distributed_array(a, {0: slice(0, 3), 1: slice(1, 4)}, "sum")
    with da.no_implicit_communication():
        y, z = x.reshape(12), x[:, None].reshape(4, 3, 1)
    assert y.mode is z.mode is da.SUM
    y[5] = -1
    z[0, 0] = 9
    a[1, 2], a[0, 0] = -1, 9
    assert_same(x, a)
    assert_same(y, a.reshape(-1))


def test_reshape_keeps_every_device_small() -> None:
    n = 1 << 16
    with da.init(devices=4, kind="host", memory_limit=5 * n) as made:  # a float64 array of n is 2 n bytes a device
        x = da.asarray(np.arange(float(n)).reshape(256, 256), layout=da.blocks(1))
        with da.ledger() as log:
            y = x.reshape(-1)
        assert log.rounds == 1
        assert log.bytes_moved == 8 * n * 3 // 4
        assert not y.writable
        assert max(d.peak for d in made.devices) <= 4 * n + 1024
        assert np.array_equal(y.get(), np.arange(float(n)))


@pytest.mark.parametrize("shape", [(5,), (-1, -1), (2, -1, 5), (-2, 6), (0, -1), (2.5,)])
def test_reshape_refuses(shape: tuple[int, ...], four: Any) -> None:
    both(lambda: np.arange(12).reshape(shape), lambda: da.asarray(np.arange(12)).reshape(shape))
    with pytest.raises(ValueError, match="copy=None"):
        da.asarray(np.arange(24).reshape(3, 8), layout=da.blocks(1)).reshape(24, copy=False)


# --- joins ------------------------------------------------------------------------------------------------------------


@examples(5)
@given(data=st.data(), n=device_counts)
def test_joins(data: st.DataObject, n: int) -> None:
    name = data.draw(st.sampled_from(["vstack", "hstack", "dstack", "column_stack", "concatenate", "stack", "append",
                                      "block"]))  # fmt: skip
    shape = data.draw(shapes(min_dims=0, max_dims=3, max_size=80))
    refs = [data.draw(arrays(shape, data.draw(dtypes()))) for _ in range(data.draw(st.integers(1, 3)))]
    with context(n):
        ours = [data.draw(pairs(a, n)).x for a in refs]
        if name == "append":
            axis = data.draw(st.sampled_from([None, 0, -1]))
            both(lambda: np.append(refs[0], refs[-1], axis), lambda: np.append(ours[0], ours[-1], axis))
        elif name == "block":
            both(lambda: np.block([refs, refs[::-1]]), lambda: np.block([ours, ours[::-1]]))
        elif name in ("concatenate", "stack"):
            kw = {"dtype": data.draw(dtypes()), "casting": data.draw(st.sampled_from(["same_kind", "safe", "unsafe"]))}
            tame = all(np.can_cast(a.dtype, kw["dtype"], "same_kind") for a in refs)
            assume(tame or kw["casting"] != "unsafe")
            both(lambda: getattr(np, name)(refs, **kw), lambda: getattr(np, name)(ours, **kw))
        else:
            both(lambda: getattr(np, name)(refs), lambda: getattr(np, name)(ours))


@examples(3)
@given(data=st.data(), n=device_counts)
def test_concatenate_out(data: st.DataObject, n: int) -> None:
    """The sources are read as they were before the first write, where they are views of the target too."""
    length = data.draw(st.integers(1, 9))
    cut = data.draw(st.integers(0, length))
    pair = data.draw(operands(n, shape=(length, 2), dtype="int64"))
    with context(n):
        got = np.concatenate((pair.x[cut:], pair.x[:cut]), out=pair.x)
        assert got is pair.x
        pair.ref[...] = np.concatenate((pair.ref[cut:], pair.ref[:cut]))
        assert_same(pair.x, pair.ref)
        assert_same(pair.base_x, pair.base_ref)
        both(lambda: np.concatenate([pair.ref], out=pair.ref[:0]), lambda: np.concatenate([pair.x], out=pair.x[:0]))


def test_concatenate_along_another_axis_moves_nothing(four: Any) -> None:
    x = da.asarray(np.arange(24.0).reshape(4, 6), layout=da.blocks(1))
    with da.no_implicit_communication():
        y = np.concatenate([x, x + 1, x[:2]])
        z = np.stack([x, x], axis=0)
    assert [c.shape for c in y.all_chunks()[0]] == [(10, 2)]
    assert np.array_equal(y.get(), np.concatenate([x.get(), x.get() + 1, x.get()[:2]]))
    assert z.index_map[0] == [(slice(0, 2, 1), slice(0, 4, 1), slice(0, 2, 1))]


def test_joins_keep_every_device_small() -> None:
    n = 1 << 16
    with da.init(devices=4, kind="host", memory_limit=9 * n) as made:
        x = da.asarray(np.arange(float(n)), layout=da.blocks(0))  # 2 n bytes a device
        y = np.concatenate([x, x])
        assert max(d.peak for d in made.devices) <= 6 * n + 1024  # the array and the result
        assert np.array_equal(y.get()[n:], np.arange(float(n)))


def test_concatenate_sends_few_messages(four: Any) -> None:
    x = da.asarray(np.arange(4000.0), layout=da.blocks(0))
    with da.ledger() as log:
        y = np.concatenate([x, x])
    assert log.messages <= 2 * 4
    assert y.devices == (0, 1, 2, 3)
    assert log.bytes_moved <= y.nbytes


@examples(5)
@given(data=st.data(), n=device_counts)
def test_repeat_tile_roll_pad(data: st.DataObject, n: int) -> None:
    pair = data.draw(operands(n, dtype=data.draw(st.sampled_from(["int64", "float32", "bool"]))))
    a, x = pair.ref, pair.x
    ndim = a.ndim
    name = data.draw(st.sampled_from(["repeat", "repeats", "tile", "roll", "pad"]))
    with context(n):
        if name == "repeat":
            count, axis = data.draw(st.integers(0, 3)), data.draw(st.none() | st.integers(-ndim - 1, ndim))
            both(lambda: np.repeat(a, count, axis), lambda: np.repeat(x, count, axis))
        elif name == "repeats" and ndim:
            axis = data.draw(axes(ndim))
            counts = data.draw(st.lists(st.integers(0, 3), min_size=a.shape[axis], max_size=a.shape[axis]))
            counts_x = da.asarray(np.array(counts, int)) if data.draw(st.booleans()) else counts
            both(lambda: np.repeat(a, np.array(counts, int), axis), lambda: np.repeat(x, counts_x, axis))
        elif name == "tile":
            reps = data.draw(st.integers(0, 6) | st.lists(st.integers(0, 3), max_size=3))
            both(lambda: np.tile(a, reps), lambda: np.tile(x, reps))
        elif name == "roll":
            axis = data.draw(st.none() | st.integers(-ndim - 1, ndim))
            if ndim and data.draw(st.booleans()):
                axis = tuple(data.draw(st.lists(axes(ndim), min_size=1, max_size=3)))
            shift: Any = data.draw(st.integers(-9, 9))
            if isinstance(axis, tuple):
                shift = tuple(data.draw(st.integers(-9, 9)) for _ in axis)
            if both(lambda: np.roll(a, shift, axis), lambda: np.roll(x, shift, axis)):
                y = np.roll(x, shift, axis)
                y[...] = 0
                assert_same(x, a)
        else:
            width = data.draw(st.integers(0, 3) | st.tuples(st.integers(0, 2), st.integers(0, 2)))
            kw = {"constant_values": data.draw(st.sampled_from([0, 1, (1, 0)]))} if data.draw(st.booleans()) else {}
            both(lambda: np.pad(a, width, **kw), lambda: np.pad(x, width, **kw))


# --- element-wise -----------------------------------------------------------------------------------------------------


@examples(5)
@given(data=st.data(), n=device_counts)
def test_where_and_clip(data: st.DataObject, n: int) -> None:
    dtype = data.draw(dtypes())
    name = data.draw(st.sampled_from(["where", "clip"]))
    refs: list[Any] = []
    ours: list[Any] = []
    with context(n):
        for number, shape in enumerate(data.draw(broadcastable(3))):
            if number and data.draw(st.sampled_from([False, False, True])):
                refs.append(data.draw(scalars(dtype) | (st.none() if name == "clip" else st.nothing())))
                ours.append(refs[-1])
                continue
            a = data.draw(arrays(shape, data.draw(st.sampled_from([dtype, dtype, np.dtype(bool), np.dtype("int16")]))))
            refs.append(a)
            ours.append(data.draw(pairs(a, n)).x)
        f = getattr(np, name)
        zero_sign = not (name == "clip" and on_gpu())
        both(lambda: f(*refs), lambda: f(*ours), zero_sign=zero_sign)
        both(lambda: f(*refs) + 1, lambda: f(*ours) + 1)


@examples(3)
@given(data=st.data(), n=device_counts)
def test_round_and_parts(data: st.DataObject, n: int) -> None:
    pair = data.draw(operands(n, dtype=data.draw(dtypes(NUMPY))))
    a, x = pair.ref, pair.x
    assume(
        not on_gpu() or a.dtype.kind != "c" or not np.isnan(a).any()
    )  # extrema lose a complex NaN's other part there
    decimals = data.draw(st.integers(-2, 3))
    with context(n):
        assume(a.dtype.kind not in "iu" or decimals >= 0 or np.abs(a.astype(float)).max(initial=0) < 2**53)
        both(lambda: np.round(a, decimals), lambda: np.round(x, decimals))
        both(lambda: np.real(a), lambda: np.real(x))
        both(lambda: np.imag(a), lambda: np.imag(x))
        both(lambda: a.conj(), lambda: x.conj())
        both(lambda: np.angle(a, deg=True), lambda: np.angle(x, deg=True), exact=False, ulps=4)
        assert np.shape(x) == a.shape
        assert np.ndim(x) == a.ndim
        assert np.size(x) == a.size
        assert np.iscomplexobj(x) == np.iscomplexobj(a)


@examples(4)
@given(data=st.data(), n=device_counts)
def test_copyto_and_fill(data: st.DataObject, n: int) -> None:
    pair = data.draw(operands(n, dtype=data.draw(dtypes())))
    src = data.draw(arrays(pair.ref.shape[data.draw(st.integers(0, pair.ref.ndim)) :], data.draw(dtypes())))
    mask = data.draw(arrays(pair.ref.shape, "bool"))
    casting = data.draw(st.sampled_from(["same_kind", "safe"]))
    with context(n):
        source, chosen = data.draw(pairs(src, n)).x, data.draw(st.sampled_from([True, data.draw(pairs(mask, n)).x]))
        where = True if chosen is True else mask
        both(lambda: np.copyto(pair.ref, src, casting, where), lambda: np.copyto(pair.x, source, casting, chosen))
        assert_same(pair.base_x, pair.base_ref)
        one = np.ones((), pair.ref.dtype)[()]
        pair.ref.fill(one)
        pair.x.fill(one)
        assert_same(pair.base_x, pair.base_ref)


@examples(3)
@given(data=st.data(), n=device_counts)
def test_closeness(data: st.DataObject, n: int) -> None:
    first, second = data.draw(broadcastable(2))
    a = data.draw(arrays(first, data.draw(dtypes())))
    b = data.draw(arrays(second, data.draw(dtypes())))
    nan = data.draw(st.booleans())
    with context(n):
        x, y = data.draw(pairs(a, n)).x, data.draw(pairs(b, n)).x
        both(lambda: np.isclose(a, b, equal_nan=nan), lambda: np.isclose(x, y, equal_nan=nan))
        both(lambda: np.allclose(a, b, equal_nan=nan), lambda: np.allclose(x, y, equal_nan=nan))
        both(lambda: np.array_equal(a, b, nan), lambda: np.array_equal(x, y, nan))
        assert np.array_equal(x, a, equal_nan=a.dtype.kind in "fc")
        both(lambda: np.array_equiv(a, b), lambda: np.array_equiv(x, y))


@given(data=st.data(), n=device_counts)
def test_every_name_takes_host_arrays(data: st.DataObject, n: int) -> None:
    """The namespace's functions distribute what they are given."""
    a = data.draw(arrays((2, 3), "float64"))
    layout = data.draw(layouts(a.shape, n))
    with context(n):
        for x in (a, da.asarray(a, layout=layout)):
            assert_same(manipulation.permute_dims(x, (1, 0)), a.T)
            assert_same(da.asarray(x).transpose(np.array([1, 0])), a.T)
            assert_same(reshaping.reshape(x, (3, 2)), a.reshape(3, 2))
            assert_same(joining.concat([x, x], axis=1), np.concatenate([a, a], 1))
            assert_same(choosing.where(a > 0, x, 0.0), np.where(a > 0, a, 0.0))
            assert_same(choosing.clip(x, min=0.0), np.clip(a, 0.0, None), zero_sign=not on_gpu())
        assert math.prod(a.shape) == 6


@pytest.mark.parametrize("mode", [None, "sum", "max"])
@pytest.mark.parametrize(
    ("shape", "layout", "call"),
    [
        ((1, 10), da.replicated(), lambda x: x.T.reshape(2, -1)),
        ((10,), da.replicated(), lambda x: x[1:9].reshape(2, 4)),
        ((10,), {0: slice(None)}, lambda x: x[::-1].reshape(5, 2)[1:, 0].reshape(2, 2)),
        ((4, 6), da.replicated(), lambda x: x[1:3].reshape(3, 4)[::-1].T),
        ((4, 6), da.replicated(), lambda x: x[:, ::2].reshape(-1)),
        ((4, 6), da.blocks(0), lambda x: x[::-1, 2:].reshape(4, 2, 2)),
        ((4, 6), da.blocks(0), lambda x: x.T.reshape(2, 3, 4)),
        ((4, 6), da.cyclic(0), lambda x: x.reshape(4, 2, 3)[:, 1].reshape(4, 3, 1)),
        ((6, 4), da.blocks(1), lambda x: x[1:].reshape(5, 2, 2)[:, :, 0]),
        ((6, 4), {0: [slice(0, 2), slice(2, 6)], 1: slice(2, 4)}, lambda x: x[:, 1:3].T.reshape(2, 3, 2)),
        ((2, 6), da.blocks(0, sizes=[0, 1, 1]), lambda x: x[:, 1:5].reshape(2, 2, 2, order="F")),
        ((4, 3, 2), da.blocks(0), lambda x: x[1:].reshape(3, 6)[:, 1:4].reshape(3, 3, 1)),
    ],
)
def test_reshape_is_a_view_where_chunks_hold_the_axes(shape: Any, layout: Any, call: Any, mode: Any) -> None:
    """A write through it reaches the array, and nothing moves."""
    with da.init(devices=3, kind="host"):
        host = np.arange(float(np.prod(shape))).reshape(shape)
        x = da.asarray(host, layout=layout)
        x = x if mode is None else x.change_mode(mode)
        later = x + 1
        seen, expected = call(x), call(host)
        before = expected.copy()
        assert np.shares_memory(expected, host)
        with da.no_implicit_communication():
            np.testing.assert_array_equal(seen.get(), before)
        seen[...] = -seen
        expected[...] = -expected
        np.testing.assert_array_equal(seen.get(), expected)
        np.testing.assert_array_equal(x.get(), host)
        np.testing.assert_array_equal(later.get(), np.arange(float(np.prod(shape))).reshape(shape) + 1)
        values = da.asarray(
            np.arange(float(seen.size)).reshape(seen.shape), layout=da.blocks(-1) if seen.ndim else None
        )
        seen += values  # which come from other devices
        expected += values.get()
        np.testing.assert_array_equal(x.get(), host)


def test_the_shape_is_set_in_place(four: Any) -> None:
    x = da.asarray(np.arange(6), layout=da.replicated())
    x.shape = 2, 3
    assert x.shape == (2, 3)
    x[1] = 0
    x.shape = -1
    np.testing.assert_array_equal(x.get(), [0, 1, 2, 0, 0, 0])
    y = x + 1  # recorded
    y.shape = (3, 2)
    assert y.get().tolist() == [[1, 2], [3, 1], [1, 1]]
    with pytest.raises(ValueError, match="cannot reshape array of size 6"):
        x.shape = 4
    t = x.reshape(2, 3).T
    with pytest.raises(AttributeError, match=r"(?i)incompatible shape for in-place modification.*reshape"):
        t.shape = 6
    z = da.asarray(np.arange(24).reshape(4, 6), layout=da.blocks(1))
    z.shape = 24  # where the layout cuts, the elements move
    assert z.shape == (24,) and z.tolist() == list(range(24))


@pytest.mark.parametrize("shares", [(2, 1), (1, 1, 1)])
@pytest.mark.parametrize("mode", [None, "sum"])
def test_reshaped_views_on_several_processes(shares: Any, mode: Any) -> None:
    """Values that come from other processes, a write through the view, and where both are, agree on all."""
    host = np.arange(24.0).reshape(4, 6)
    layouts = [da.blocks(0), da.replicated(), {0: slice(0, 3), 2: [slice(1, 2), slice(2, 4)]}]

    def program() -> Any:
        found = []
        for layout in layouts:
            x = da.asarray(host, layout=layout).change_mode(mode)
            before = x * 2
            view = x[:, 1:5].reshape(4, 2, 2)[:, ::-1]
            other = da.asarray(np.ones((4, 2, 2)), layout=da.blocks(1))
            view += other
            view[1:] = view[:-1] + other[1:]
            found.append((x.get(), before.get(), (view - other).get(), x.device.ids, (view + other).device.ids))
        return found

    expected = host.copy()
    view = expected[:, 1:5].reshape(4, 2, 2)[:, ::-1]
    view += 1
    view[1:] = view[:-1] + 1
    ranks = on_ranks(shares, program)
    for found in ranks:
        for x, before, difference, *_ in found:
            np.testing.assert_array_equal(x, expected)
            np.testing.assert_array_equal(before, host * 2)
            np.testing.assert_array_equal(difference, view - 1)
        assert [places for *_, a, b in found for places in (a, b)] == [p for *_, a, b in ranks[0] for p in (a, b)]


@pytest.mark.parametrize("devices", [2, 4])
def test_what_is_joined_of_slices_is_spread(devices: int) -> None:
    """A slice that lies on one device does not bring the others' elements there."""
    n = 40_000
    host = np.arange(2 * n).reshape(n, 2)
    with da.init(devices=devices, kind="host"):
        x = da.asarray(host, layout=da.blocks(0))
        for place in (0, 5, n // devices, n // 2, n - 1):
            for found, expected in (
                (np.delete(x, place, axis=0), np.delete(host, place, axis=0)),
                (np.insert(x, place, 7, axis=0), np.insert(host, place, 7, axis=0)),
                (np.concatenate([x[:place], x[place:]]), host),
            ):
                assert max(region.size for _, region in found.layout.chunks) <= 2 * (n // devices + 1)
                np.testing.assert_array_equal(found.get(), expected)
        ends = n // devices
        with da.ledger() as ledger:
            together = np.concatenate([x[: ends // 2], x[ends // 2 : ends]]).evaluate()
        assert ledger.bytes_moved == 0
        assert {device for device, region in together.layout.chunks if region.size} == {0}


def test_elements_in_memory_order_pass_over_axes_of_one_element() -> None:
    """Their strides say nothing, as to NumPy's iterator."""
    a = np.broadcast_to(np.arange(4.0).reshape(1, 4).T[:, None], (4, 3, 1))
    with da.init(devices=3, kind="host", minimum_chunk=1):
        x = np.broadcast_to(da.asarray(np.arange(4.0).reshape(1, 4)).swapaxes(1, 0)[:, None], (4, 3, 1))
        assert x.ravel("K").tolist() == x.flatten("K").tolist() == a.ravel("K").tolist()
        assert a.ravel("K").tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
