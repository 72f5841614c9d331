"""Advanced indexing, ``ufunc.at`` and the take family against NumPy, over random layouts, modes, views and keys."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import distarray as da
import distarray.ops.indexing
import distarray.ops.taking
from conformance import strategies as sts
from conformance.checking import assert_same, both, check_invariants
from conformance.contexts import context, examples

N = sts.device_counts


@st.composite
def index_arrays(draw: st.DrawFn, size: int, shape: tuple[int, ...]) -> Any:
    """Indices of an axis: seldom out of range, of any integer dtype, an array or nested lists."""
    dtype = np.dtype(draw(st.sampled_from(["int64", "int32", "int8", "uint8", "uint64"])))
    low = 0 if dtype.kind == "u" else -size
    high = size - 1
    if not size or draw(st.integers(0, 25)) == 0:
        high = size
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    found = rng.integers(min(low, high), high + 1, shape).astype(dtype)
    return found.tolist() if draw(st.integers(0, 4)) == 0 and dtype.kind == "i" else found


@st.composite
def masks(draw: st.DrawFn, shape: tuple[int, ...]) -> np.ndarray:
    """A mask, at times all False or all True, seldom of a wrong shape."""
    if shape and draw(st.integers(0, 25)) == 0:
        shape = (shape[0] + 1, *shape[1:])
    share = draw(st.sampled_from([0.5, 0.2, 0.8, 0.0, 1.0]))
    rng = np.random.default_rng(draw(st.integers(0, 2**20)))
    return np.asarray(rng.random(shape) < share)


@st.composite
def keys(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """An advanced key: arrays and masks mixed with slices, ints, None and Ellipsis."""
    common = draw(st.sampled_from([(3,), (4,), (1,), (2, 3), (0,), (2, 1, 2)]))
    items: list[Any] = []
    axis = 0
    while axis < len(shape) and draw(st.integers(0, 5)):
        kind = draw(st.sampled_from(["array", "array", "array", "slice", "int", "mask", "scalar", "none", "bool"]))
        if kind == "array":
            mine = common[draw(st.integers(0, len(common) - 1)) :]
            mine = tuple(1 if draw(st.integers(0, 4)) == 0 else n for n in mine)
            items.append(draw(index_arrays(shape[axis], mine)))
        elif kind == "slice":
            items.append(slice(draw(st.none() | st.integers(-3, 3)), None, draw(st.sampled_from([None, 1, -1, 2]))))
        elif kind in ("int", "scalar") and shape[axis]:
            value = draw(st.integers(-shape[axis], shape[axis] - 1))
            items.append(value if kind == "int" else np.array(value))
        elif kind == "mask":
            count = draw(st.integers(1, len(shape) - axis))
            mask = draw(masks(shape[axis : axis + count]))
            items.append(mask.tolist() if draw(st.integers(0, 5)) == 0 and mask.size else mask)
            axis += count - 1
        elif kind == "none":
            items.append(None)
            axis -= 1
        elif kind == "bool":
            items.append(draw(st.sampled_from([True, np.True_, np.array(True), False])))
            axis -= 1
        axis += 1
    if draw(st.booleans()):
        at = draw(st.integers(0, len(items)))
        used = [i for i in items[at:] if i is not None]
        if not used or axis == len(shape):
            items.insert(at, Ellipsis)
    if len(items) == 1 and draw(st.booleans()):
        return items[0]
    return tuple(items)


@st.composite
def ours(draw: st.DrawFn, key: Any, n: int) -> Any:
    """The same key, some of its arrays distributed."""
    if isinstance(key, tuple):
        return tuple(draw(ours(item, n)) for item in key)
    if isinstance(key, np.ndarray) and draw(st.integers(0, 2)) == 0:
        return draw(sts.pairs(key, n)).x
    return key


@st.composite
def values_for(draw: st.DrawFn, shape: tuple[int, ...], dtype: np.dtype, n: int) -> tuple[Any, Any]:
    """A value that broadcasts to a shape (seldom not): NumPy's and ours."""
    if draw(st.integers(0, 3)) == 0:
        value = draw(st.sampled_from([1, True, 0, np.int8(3)]))
        return value, value
    cut = shape[draw(st.integers(0, len(shape))) :]
    cut = tuple(1 if draw(st.integers(0, 4)) == 0 else s for s in cut)
    if draw(st.integers(0, 12)) == 0:
        cut = (1, *cut)
    if cut and draw(st.integers(0, 25)) == 0:
        cut = (cut[0] + 1, *cut[1:])
    other = draw(st.sampled_from([dtype, dtype, np.dtype("int16")]))
    array = draw(sts.arrays(cut, other, extreme=False))
    if draw(st.booleans()):
        return array, draw(sts.pairs(array.copy(), n)).x
    value = array.tolist() if draw(st.integers(0, 5)) == 0 else array
    return value, value


DTYPES = [np.dtype(t) for t in ("int64", "float64", "int16", "bool", "complex64", "float32")]


@examples(6)
@given(st.data(), N)
def test_read(data: st.DataObject, n: int) -> None:
    with context(n):
        pair = data.draw(sts.operands(n, dtype=data.draw(st.sampled_from(DTYPES))))
        key = data.draw(keys(pair.ref.shape))
        mine = data.draw(ours(key, n))
        if both(lambda: pair.ref[key], lambda: pair.x[mine]):
            result = pair.x[mine]
            check_invariants(result)
            if not np.may_share_memory(pair.ref[key], pair.base_ref) and not result._detached:
                result[...] = 0  # a copy
                assert_same(pair.base_x, pair.base_ref)


def written(data: st.DataObject, n: int, key_of: Any) -> None:
    """Write through a key to both; all that was read before keeps its values, and all copies are equal."""
    pair = data.draw(sts.operands(n, dtype=data.draw(st.sampled_from(DTYPES)), extreme=False))
    key = data.draw(key_of(pair.ref.shape))
    mine = data.draw(ours(key, n))
    try:
        shape = pair.ref[key].shape
    except IndexError:
        shape = ()
    ref_value, value = data.draw(values_for(shape, pair.ref.dtype, n))
    before = data.draw(st.sampled_from(["nothing", "pending", "copy", "exposed", "reshard"]))
    old = pair.base_ref.copy()
    kept: Any = None
    chunks: dict[int, list[Any]] = {}
    if before == "pending":
        kept = pair.base_x == 0
        old = old == 0
    elif before == "copy":
        kept = pair.base_x.copy()
    elif before == "reshard":
        kept = pair.base_x.reshard(da.replicated())
    elif before == "exposed" and pair.base_x.mode is da.REPLICA:
        chunks = pair.base_x.all_chunks()
    np_error = da_error = None
    try:
        pair.ref[key] = ref_value
    except (ValueError, TypeError, IndexError) as error:
        np_error = error
    try:
        pair.x[mine] = value
    except (ValueError, TypeError, IndexError) as error:
        da_error = error
    if da_error is not None and np_error is None:
        # NumPy does not look at the shape of a value for an empty selection in every case
        assert 0 in shape, f"NumPy writes, got {da_error!r}"
    if da_error is None and np_error is not None:
        # x[0] = [1]: NumPy 2.4 refuses what it took before; basic assignment decides that, not advanced
        assert np.ndim(pair.ref[key]) == 0 == np.size(shape), f"NumPy raises {np_error!r}"
        assert np.size(ref_value) == 1
        return
    assert_same(pair.base_x, pair.base_ref)
    if kept is not None:
        assert_same(kept, old)
    if chunks:
        after = pair.base_x.all_chunks()
        assert all(a is b for d in chunks for a, b in zip(chunks[d], after[d], strict=True))
    check_invariants(pair.base_x)


@examples(6)
@given(st.data(), N)
def test_write(data: st.DataObject, n: int) -> None:
    with context(n):
        written(data, n, keys)


@st.composite
def lone_masks(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    mask = draw(masks(shape[: draw(st.integers(min(1, len(shape)), len(shape)))]))
    return draw(st.sampled_from([mask, mask, (mask,), (mask, ...)]))


@examples(4)
@given(st.data(), N)
def test_masks(data: st.DataObject, n: int) -> None:
    with context(n):
        pair = data.draw(sts.operands(n))
        key = data.draw(lone_masks(pair.ref.shape))
        mine = data.draw(ours(key, n))
        if both(lambda: pair.ref[key], lambda: pair.x[mine]):
            check_invariants(pair.x[mine])


@examples(4)
@given(st.data(), N)
def test_mask_writes(data: st.DataObject, n: int) -> None:
    with context(n):
        written(data, n, lone_masks)


@examples(2)
@given(st.data(), N)
def test_in_place_operators(data: st.DataObject, n: int) -> None:
    with context(n):
        pair = data.draw(sts.operands(n, dtype=np.dtype(float), extreme=False))
        key = data.draw(st.one_of(keys(pair.ref.shape), lone_masks(pair.ref.shape)))
        mine = data.draw(ours(key, n))
        try:
            pair.ref[key] += 1.5
        except IndexError:
            return
        pair.x[mine] += 1.5
        assert_same(pair.base_x, pair.base_ref)
        check_invariants(pair.base_x)


@examples(2)
@given(st.data(), N)
def test_values_that_read_the_target(data: st.DataObject, n: int) -> None:
    with context(n):
        shape = data.draw(sts.shapes(min_dims=1).filter(all))
        pair = data.draw(sts.pairs(data.draw(sts.arrays(shape, np.dtype("int64"))), n))
        one, two = (data.draw(index_arrays(shape[0], (5,)).filter(lambda a: np.max(a) < shape[0])) for _ in range(2))
        form = data.draw(st.sampled_from(["gather", "view", "expression", "mask"]))
        for x in (pair.ref, pair.x):
            if form == "gather":
                x[one] = x[two]
            elif form == "view":
                x[np.arange(shape[0])] = x[::-1]
            elif form == "expression":
                x[np.arange(shape[0])[::-1]] = x * 2 + 1
            else:
                x[x > x[::-1]] = 7
        assert_same(pair.base_x, pair.base_ref)


UFUNCS = [np.add, np.subtract, np.multiply, np.maximum, np.minimum, np.logical_xor]


@examples(4)
@given(st.data(), N)
def test_ufunc_at(data: st.DataObject, n: int) -> None:
    with context(n):
        pair = data.draw(sts.operands(n, dtype=data.draw(st.sampled_from(DTYPES[:3])), extreme=False))
        key = data.draw(keys(pair.ref.shape))
        mine = data.draw(ours(key, n))
        if data.draw(st.integers(0, 4)) == 0:
            ufunc, ref_values, values, shape = np.negative, (), (), ()
        else:
            try:
                shape = pair.ref[key].shape
            except IndexError:
                shape = ()
            ufunc = data.draw(st.sampled_from(UFUNCS))
            ref_value, value = data.draw(values_for(shape, pair.ref.dtype, n))
            ref_values, values = (ref_value,), (value,)
        pending = pair.base_x + 0
        old = pair.base_ref.copy()
        errors: list[Any] = []
        for x, k, v in ((pair.ref, key, ref_values), (pair.x, mine, values)):
            try:
                ufunc.at(x, k, *v)
                errors.append(None)
            except (ValueError, TypeError, IndexError) as error:
                errors.append(error)
        if errors[0] is not None or 0 not in shape:  # NumPy does not look at every value for an empty selection
            assert (errors[0] is None) == (errors[1] is None), errors
        assert_same(pair.base_x, pair.base_ref)
        assert_same(pending, old + 0)
        check_invariants(pair.base_x)


@examples(4)
@given(st.data(), N)
def test_take(data: st.DataObject, n: int) -> None:
    with context(n):
        pair = data.draw(sts.operands(n))
        axis = data.draw(st.none() | sts.axes(pair.ref.ndim)) if pair.ref.ndim else None
        size = pair.ref.size if axis is None else pair.ref.shape[axis]
        # NumPy 2.4 never returns from mode="wrap" on an empty axis with an empty result
        mode = data.draw(st.sampled_from(["raise", "clip", "wrap"] if size else ["raise", "clip"]))
        low, high = (-size, size - 1) if mode == "raise" and size else (-2 * size - 1, 2 * size + 1)
        shape = data.draw(st.sampled_from([(3,), (), (2, 2), (0,)]))
        rng = np.random.default_rng(data.draw(st.integers(0, 99)))
        idx = rng.integers(low, high + 1, shape)
        mine = data.draw(sts.pairs(idx, n)).x if data.draw(st.booleans()) else idx
        if both(lambda: np.take(pair.ref, idx, axis, mode=mode), lambda: np.take(pair.x, mine, axis, mode=mode)):
            check_invariants(pair.x.take(mine, axis=axis, mode=mode))
            want = np.take(pair.ref, idx, axis, mode=mode)
            out = da.asarray(np.zeros_like(want))
            assert np.take(pair.x, mine, axis, out, mode) is out
            assert_same(out, np.asarray(want))


@examples(3)
@given(st.data(), N)
def test_take_along_axis(data: st.DataObject, n: int) -> None:
    with context(n):
        pair = data.draw(sts.operands(n))
        axis = data.draw(st.none() | sts.axes(pair.ref.ndim)) if pair.ref.ndim else None
        size = pair.ref.size if axis is None else pair.ref.shape[axis]
        shape = [pair.ref.size if axis is None else 3] if axis is None else list(pair.ref.shape)
        if axis is not None:
            shape[axis] = data.draw(st.integers(0, 4))
            shape = [
                1 if i != axis % pair.ref.ndim and data.draw(st.integers(0, 5)) == 0 else s for i, s in enumerate(shape)
            ]
        idx = data.draw(index_arrays(size, tuple(shape)))
        idx = np.asarray(idx, None if np.size(idx) else int)
        mine = data.draw(sts.pairs(idx, n)).x if data.draw(st.booleans()) else idx
        if both(lambda: np.take_along_axis(pair.ref, idx, axis), lambda: np.take_along_axis(pair.x, mine, axis)):
            check_invariants(np.take_along_axis(pair.x, mine, axis))


@examples(4)
@given(st.data(), N)
def test_compress_extract_put_place_putmask(data: st.DataObject, n: int) -> None:
    with context(n):
        pair = data.draw(sts.operands(n, dtype=data.draw(st.sampled_from(DTYPES)), extreme=False))
        shape, size = pair.ref.shape, pair.ref.size
        name = data.draw(st.sampled_from(["compress", "extract", "put", "place", "putmask"]))
        rng = np.random.default_rng(data.draw(st.integers(0, 99)))
        if name == "compress":
            axis = data.draw(st.none() | sts.axes(len(shape))) if shape else None
            length = size if axis is None else shape[axis]
            first = rng.random(max(0, length - data.draw(st.integers(-1, 2)))) < 0.5
        elif name == "put":
            first = data.draw(index_arrays(size, (data.draw(st.integers(0, 6)),)))
        else:
            first = rng.random(shape if data.draw(st.integers(0, 3)) else (size,)) < 0.5
        mine = data.draw(sts.pairs(first, n)).x if data.draw(st.booleans()) and isinstance(first, np.ndarray) else first
        if name == "compress":
            both(lambda: np.compress(first, pair.ref, axis), lambda: np.compress(mine, pair.x, axis))
            return
        if name == "extract":
            both(lambda: np.extract(first, pair.ref), lambda: np.extract(mine, pair.x))
            return
        length = data.draw(st.sampled_from([1, 2, int(np.sum(first)) if name == "place" else size, 0]))
        values = data.draw(sts.arrays((length,), pair.ref.dtype, extreme=False))
        if name == "putmask" and length == size and data.draw(st.booleans()):
            values = values.reshape(shape)
        ours_ = data.draw(sts.pairs(values.copy(), n)).x if data.draw(st.booleans()) else values
        call = getattr(np, name)
        both(lambda: call(pair.ref, first, values), lambda: call(pair.x, mine, ours_))
        assert_same(pair.base_x, pair.base_ref)
        check_invariants(pair.base_x)


# --- errors -----------------------------------------------------------------------------------------------------------

MESSAGES = [
    ((5, 3), lambda a: a[[10]]),
    ((5, 3), lambda a: a[:, [0, -4]]),
    ((5, 3), lambda a: a[np.ones((5, 2), bool)]),
    ((5, 3), lambda a: a[np.ones((4, 3), bool)]),
    ((5, 3), lambda a: a[:, np.ones(2, bool)]),
    ((5, 3), lambda a: a[np.array([1.0])]),
    ((5, 3), lambda a: a[[1.0]]),
    ((5, 3), lambda a: a[1.5]),
    ((5, 3), lambda a: a["x"]),
    ((5, 3), lambda a: a[[0], 0, 0]),
    ((5, 3), lambda a: a[np.ones((5, 3, 1), bool)]),
    ((5, 3), lambda a: a[[0, 1], [0, 1, 2]]),
    ((5, 3), lambda a: a[..., [0], ...]),
    ((5, 3), lambda a: a[[0], 7]),
    ((5, 3), lambda a: a.__setitem__([0, 1], np.zeros((3, 3)))),
    ((5, 3), lambda a: a.__setitem__(np.ones((5, 3), bool), np.zeros(4))),
    ((5, 3), lambda a: a.__setitem__(np.ones((5, 3), bool), np.zeros((1, 15)))),
    ((5, 3), lambda a: a.__setitem__(np.ones(5, bool), np.zeros((4, 3)))),
    ((5, 3), lambda a: a.take([15])),
    ((5, 3), lambda a: a.take([5], axis=0)),
    ((0, 3), lambda a: a.take([0], axis=0)),
    ((5, 3), lambda a: np.add.at(a, [0, 1], np.zeros((5, 1, 3)))),
    ((5, 3), lambda a: np.add.at(a, [0, 1])),
    ((5, 3), lambda a: np.put(a, [15], 1)),
    ((5, 3), lambda a: np.take_along_axis(a, np.full((5, 1), 3), 1)),
    ((5, 3), lambda a: np.take_along_axis(a, np.full((5, 1), 0.5), 1)),
    ((5, 3), lambda a: np.place(a, np.ones((5, 3)), [])),
    ((5, 3), lambda a: np.putmask(a, np.ones(4), [1])),
]


@pytest.mark.parametrize("number", range(len(MESSAGES)))
@pytest.mark.parametrize("n", [1, 3])
def test_messages(number: int, n: int) -> None:
    """NumPy's exception, with NumPy's words, and nothing is written."""
    shape, call = MESSAGES[number]
    ref = np.arange(float(math.prod(shape))).reshape(shape)
    with context(n):
        x = da.asarray(ref, layout=da.blocks(0))
        with pytest.raises((IndexError, ValueError, TypeError)) as theirs:
            call(ref)
        with pytest.raises(type(theirs.value)) as mine:
            call(x)
        assert str(mine.value).startswith(str(theirs.value).strip().removesuffix("."))
        assert_same(x, ref)


def test_read_only_targets() -> None:
    with context(2):
        x = da.asarray(np.zeros(6), layout=da.blocks(0))
        x._writable = False
        for write in (lambda: x.__setitem__([0], 1), lambda: x.__setitem__(np.ones(6, bool), 1),
                      lambda: np.add.at(x, [0], 1), lambda: np.put(x, [0], 1)):  # fmt: skip
            with pytest.raises(ValueError, match="read-only"):
                write()
        assert_same(x, np.zeros(6))


def test_empty_axes() -> None:
    with context(3):
        for shape, idx, axis in (((0, 2), (1, 2), 0), ((0, 2), (0, 2), 0), ((2, 0), (1, 0), 0), ((2, 3), (0, 3), 0)):
            ref, places = np.zeros(shape), np.zeros(idx, int)
            x = da.asarray(ref, layout=da.blocks(0))
            both(lambda: np.take_along_axis(ref, places, axis), lambda: np.take_along_axis(x, places, axis))  # noqa: B023 - called at once
            both(lambda: np.take(ref, [0], axis), lambda: np.take(x, [0], axis))  # noqa: B023 - called at once


# --- what moves -------------------------------------------------------------------------------------------------------


def rows(shape: tuple[int, ...], axis: int = 0) -> tuple[np.ndarray, Any]:
    ref = np.arange(float(math.prod(shape))).reshape(shape) - 100
    return ref, da.asarray(ref, layout=da.blocks(axis))


def test_aligned_masks_move_nothing() -> None:
    with context(4):
        ref, x = rows((64, 10))
        mask, few = ref % 3 == 0, ref[:, 0] > 50
        with da.no_implicit_communication():
            x[x < 0] = 0
            x[x[:, 0] > 50] = 7
            x[few] = np.arange(10.0)
            x[mask] = -1
            found = x[x > 3]
            picked = x[mask]
            x[x > 3] += 1
        ref[ref < 0] = 0
        ref[ref[:, 0] > 50] = 7
        ref[few] = np.arange(10.0)
        ref[mask] = -1
        assert_same(found, ref[ref > 3])
        assert_same(picked, ref[mask])
        ref[ref > 3] += 1
        assert_same(x, ref)
        assert len(found.devices) == 4
        assert not found.layout.is_replicated


def test_masked_write_is_one_pass_in_place() -> None:
    with context(4):
        _, x = rows((64, 10))
        before = [id(c.array) for c in x._own().version.chunks]
        x[x < 0] = 0
        assert [id(c.array) for c in x._own().version.chunks] == before


def test_whole_axes_move_nothing() -> None:
    with context(4):
        ref, x = rows((64, 10))
        idx = np.array([[3, -1], [0, 3]])
        with da.no_implicit_communication():
            found = x[:, idx]
            x[:, [1, 1, 2]] = 5
            x[[0, 63], :] = 6
            x[[0, 63, 0]] = np.arange(3.0)[:, None]
            np.add.at(x, (slice(None), [0, 0, 9]), 1)
            np.add.at(x, [5, 5, 60], 1)
            other = x[1::2, [0, 4]]
        assert_same(found, ref[:, idx])
        for a in (ref,):
            a[:, [1, 1, 2]] = 5
            a[[0, 63], :] = 6
            a[[0, 63, 0]] = np.arange(3.0)[:, None]
            np.add.at(a, (slice(None), [0, 0, 9]), 1)
            np.add.at(a, [5, 5, 60], 1)
        assert_same(other, ref[1::2, [0, 4]])
        assert_same(x, ref)


def test_a_split_axis_moves_each_lacking_element_once() -> None:
    with context(4):
        ref, x = rows((64, 10))
        idx = np.arange(64)[::-1].copy()
        with da.ledger() as log:
            found = x[idx]
        assert_same(found, ref[idx])
        assert log.bytes_moved == 64 * 10 * 8
        assert (log.messages, log.rounds) == (4, 1)
        with da.ledger() as log:
            found = x[np.arange(64)]
        assert log.bytes_moved == 0
        assert found.layout == x.layout
        columns = da.asarray(ref, layout=da.blocks(1))
        with da.ledger() as log:
            assert_same(columns[idx], ref[idx])
        assert log.bytes_moved == 0


def test_a_distributed_value_moves_what_its_owners_lack() -> None:
    with context(4):
        ref, x = rows((64, 10))
        value = da.asarray(ref * 2, layout=da.blocks(0))
        with da.ledger() as log:
            x[np.arange(64)[::-1]] = value
        ref[np.arange(64)[::-1]] = ref * 2
        assert_same(x, ref)
        assert log.bytes_moved == 64 * 10 * 8
        with da.ledger() as log:
            x[np.zeros(64, int)] = value
        assert log.bytes_moved == 10 * 8  # only the last one counts


def test_nothing_is_gathered() -> None:
    """Each device has room for its part and little more."""
    with da.init(devices=4, kind="host", memory_limit=3 << 20):
        ref = np.arange(1 << 20, dtype=np.float64).reshape(1024, 1024)  # 8 MiB, 2 MiB a device
        x = da.asarray(ref.astype(np.float32)[:512], layout=da.blocks(0))  # 0.5 MiB a device
        model = ref.astype(np.float32)[:512].copy()
        for a in (model, x):
            a[a > 1000] = 3
            a[np.arange(512)[::-1]] = a * 2
            a[:, [1, 5]] = 0
        assert_same(x[x > 3], model[model > 3])
        assert_same(x[np.arange(0, 512, 3)], model[::3])
        assert_same(x, model)


def test_take_along_axis_moves_nothing_where_the_axis_is_whole() -> None:
    with context(4):
        ref, x = rows((64, 10))
        order = np.argsort(np.sin(ref), axis=1)
        places = da.asarray(order, layout=da.blocks(0))
        with da.no_implicit_communication():
            found = np.take_along_axis(x, places, 1)
        assert_same(found, np.take_along_axis(ref, order, 1))


def test_zero_dimensional_keys() -> None:
    with context(3):
        ref = np.arange(6.0)
        x = da.asarray(ref, layout=da.blocks(0))
        assert x[np.array(2)]._detached
        assert not x[np.array(2), ...]._detached
        for key in (np.array(2), True, False, (True, [0, 1]), np.array(True), (..., np.array(1)), da.asarray(3)):
            plain = int(key) if isinstance(key, da.DistributedArray) else key
            assert_same(x[key], np.asarray(ref[plain]))
        y = da.asarray(5.0)
        y[True] = 3
        assert_same(y, np.asarray(3.0))
        assert_same(y[np.array(True)], np.array([3.0]))


def test_many_blocks() -> None:
    """Cyclic layouts of many chunks, and grids."""
    with context(4):
        rng = np.random.default_rng(0)
        ref = rng.normal(size=(600, 12))
        for layout in (da.cyclic(0, 2), da.cyclic(0, 1), da.grid((2, 2)), da.cyclic(1, 3)):
            x = da.asarray(ref, layout=layout)
            idx = rng.integers(-600, 600, 1000)
            cols = rng.integers(-12, 12, 1000)
            assert_same(x[idx], ref[idx])
            assert_same(x[idx, cols], ref[idx, cols])
            assert_same(x[ref > 1], ref[ref > 1])
            model = ref.copy()
            x[idx, cols] = model[idx, cols] = np.arange(1000.0)
            assert_same(x, model)


def test_values_by_mask_reach_overlapping_chunks_of_one_device():
    layout = {0: [(slice(0, 3), slice(0, 2)), (slice(0, 3), slice(1, 2))]}
    with da.init(devices=2, minimum_chunk=1):
        x = da.zeros((3, 2), layout=layout)
        x[np.array([False, True, True])] = np.ones((2, 2))
        check_invariants(x)
        assert x.get().tolist() == [[0, 0], [1, 1], [1, 1]]
