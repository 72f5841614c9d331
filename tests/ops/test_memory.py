"""What an array says of its memory, and element by element: flags, strides, view, resize, byteswap, flat, put, compress."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import distarray as da
from conformance.checking import assert_same, both
from conformance.contexts import context, examples
from conformance.ranks import SHARES, on_ranks
from conformance.strategies import NUMPY, arrays, device_counts, dtypes, operands


@given(st.data(), device_counts)
def test_flags_and_strides(data: st.DataObject, n: int) -> None:
    with context(n):
        pair = data.draw(operands(n))
        x, ref = pair.x, pair.ref
        assert tuple(x.strides) == ref.strides or not ref.size or 1 in ref.shape
        if 1 not in ref.shape:
            for name in ("c_contiguous", "f_contiguous", "fnc", "forc", "writeable", "aligned", "behaved", "carray"):
                assert getattr(x.flags, name) == getattr(ref.flags, name), name
            assert x.flags["C"] == ref.flags["C"]
        if x.base is not None:
            assert_same(x.base, pair.base_ref)


@given(st.data(), device_counts)
@examples(2)
def test_flat(data: st.DataObject, n: int) -> None:
    with context(n):
        pair = data.draw(operands(n))
        x, ref = pair.x, pair.ref
        size = ref.size
        place = st.integers(-size - 1, size)
        key = data.draw(
            st.one_of(
                place,
                st.slices(size + 1),
                st.just(Ellipsis),
                st.lists(place, max_size=6),
                st.lists(st.booleans(), min_size=size, max_size=size).map(lambda b: np.array(b, bool)),
            )
        )
        if isinstance(key, list):
            key = np.array(key, np.int64)
        both(lambda: ref.flat[key], lambda: x.flat[key])
        values = data.draw(st.sampled_from([1, [1], [1, 0], [1, 0, 1]]))
        if isinstance(key, int) and isinstance(values, list):
            values = values[0]

        def write(a: Any) -> Any:
            a.flat[key] = values
            return a

        both(lambda: write(ref), lambda: write(x))
        assert_same(pair.base_x, pair.base_ref)
        assert len(x.flat) == size
        np.testing.assert_array_equal([*x.flat], [*ref.flat])
        for (i, got), (j, expected) in zip(da.ndenumerate(x), np.ndenumerate(ref), strict=True):
            assert i == j
            np.testing.assert_array_equal(got, expected)


@given(st.data(), device_counts, st.sampled_from(NUMPY))
def test_view_and_byteswap(data: st.DataObject, n: int, target: np.dtype) -> None:
    with context(n):
        pair = data.draw(operands(n, dtype=data.draw(dtypes(NUMPY))))
        x, ref = pair.x, pair.ref
        if target.kind == "b":
            target = np.dtype(np.uint8)
        try:
            got = x.view(target)
        except ValueError as error:
            if "the chunk" in str(error):  # what a layout can't do
                return
            with pytest.raises(ValueError):
                ref.view(target)
            return
        if ref.size and 1 not in ref.shape:
            assert_same(got, ref.view(target))
        same_size = target.itemsize == ref.dtype.itemsize
        assert not same_size or got.flags.writeable == x.flags.writeable
        if same_size and got.flags.writeable and ref.flags.writeable:
            got[...] = 1
            ref.view(target)[...] = 1
            assert_same(pair.base_x, pair.base_ref)
        if ref.dtype.kind != "b":
            assert x.byteswap().get().tobytes() == ref.byteswap().tobytes()


@given(st.data(), device_counts)
def test_put_compress_resize(data: st.DataObject, n: int) -> None:
    with context(n):
        a = data.draw(arrays())
        pair = data.draw(operands(n, shape=a.shape, dtype=a.dtype))
        x, ref = pair.x, pair.ref

        def put(y: Any) -> Any:
            y.put([0, -1, 5], [1, 0], mode="wrap")
            return y

        both(lambda: put(ref), lambda: put(x))
        if ref.ndim:
            axis = data.draw(st.integers(-ref.ndim, ref.ndim - 1))
            mask = data.draw(st.lists(st.booleans(), max_size=ref.shape[axis]))
            both(lambda: ref.compress(mask, axis), lambda: x.compress(mask, axis))
        shape = data.draw(st.lists(st.integers(0, 4), max_size=3).map(tuple))
        y, mine = ref.copy(), x.copy()
        y = np.array(y, order="C")
        y.resize(shape, refcheck=False)
        mine.resize(shape)
        assert_same(mine, y)
        assert_same(x, ref)


def test_views_share_memory_of_other_dtypes_too(four: Any) -> None:
    x = da.zeros((4, 2), layout=da.blocks(0))
    x.view()[1] = 5
    assert x[1, 0] == 5
    bits = x.view(np.int64)
    bits[0] = np.float64(7.0).view(np.int64)
    assert x[0, 1] == 7
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        x.view(np.int64)[...] = 0
    with pytest.raises(ValueError, match="the chunk"):
        da.zeros((2, 6), "f4", layout=da.cyclic(1, 1)).view(np.float64)
    with pytest.raises(TypeError, match=r"x\.get"):
        x.view(np.ndarray)


def test_writing_can_be_switched_off_and_on(four: Any) -> None:
    x = da.zeros(4)
    x.setflags(write=False)
    assert not x.flags.writeable
    assert not x.writable
    for write in (lambda: x.fill(1), lambda: x.put([0], [1]), lambda: x.sort(), lambda: np.add(x, 1, out=x)):
        with pytest.raises(ValueError, match="read-only"):
            write()
    with pytest.raises(ValueError, match="read-only"):
        x += 1
    with pytest.raises(ValueError, match="read-only"):
        x.flat[1] = 3
    assert float(x.sum()) == 0
    x.flags["WRITEABLE"] = True
    x += 1
    assert float(x.sum()) == 4
    with pytest.raises(ValueError, match="cannot delete"):
        del x[0]
    with pytest.raises(ValueError, match="does not own"):
        x[1:].resize(2)


def test_what_stays_numpys_alone(four: Any) -> None:
    for name in ("data", "ctypes", "getfield", "setfield"):
        with pytest.raises(AttributeError, match="nothing was gathered"):
            getattr(da.zeros(2), name)


def test_broadcast(four: Any) -> None:
    a, b = np.arange(6).reshape(2, 3), np.arange(3)
    got, expected = da.broadcast(da.asarray(a), b), np.broadcast(a, b)
    for name in ("shape", "size", "ndim", "nd", "numiter"):
        assert getattr(got, name) == getattr(expected, name)
    assert [*got] == [*expected]
    with pytest.raises(ValueError, match="broadcast"):
        da.broadcast(da.zeros(2), da.zeros(3))


@pytest.mark.parametrize("shares", SHARES)
def test_on_several_processes(shares: Any) -> None:
    a = np.arange(24.0).reshape(6, 4)

    def program(*_: Any) -> list[Any]:
        results: list[Any] = []
        for layout in (da.blocks(0), da.blocks(1), da.cyclic(0, 1)):
            x = da.asarray(a, layout=layout)
            half, thirds = np.frompyfunc(lambda v: v / 2, 1, 1), da.vectorize(lambda v, w: v // 3 + w)
            results += [half(x).get(), thirds(x, x[0]).get(), da.r_[x[:, 0], 5, 0:3].get(), da.mgrid[0:3, 0:2].get()]
            results += [x.byteswap().byteswap().get(), x.view(np.int64).get(), [*x.flat], x.flat[3:9].get()]
            x.flat[[1, 2]] = 7
            x.flat[4:20:3] = [1, 2]
            y = x.copy()
            y.resize((5, 3))
            results += [x.get(), y.get(), da.add.outer(x[0], x[1]).get()]
        return results

    x = a.copy()
    x.flat[[1, 2]] = 7
    x.flat[4:20:3] = [1, 2]
    expected: list[Any] = [
        a / 2,
        a // 3 + a[0],
        np.r_[a[:, 0], 5, 0:3],
        np.mgrid[0:3, 0:2],
        a,
        a.view(np.int64),
        [*a.flat],
    ]
    expected += [a.flat[3:9], x, np.resize(x, (5, 3)), np.add.outer(x[0], x[1])]
    for results in on_ranks(shares, program):
        for got, want in zip(results, expected * 3, strict=True):
            np.testing.assert_array_equal(got, want)


def test_the_base_of_a_view_is_the_array_itself() -> None:
    with da.init(devices=3, kind="host"):
        x = da.zeros((4, 3), layout=da.blocks(0))
        y = x + 1
        assert x[1:].base is x.T[::2].base is x.view("i8").base is x
        assert (v := y[1:]).base is y
        assert (y * 1j).imag.base is not y
        del y
        assert v.base is v.base
        assert x.copy()[:2].base is not x
        assert x[[1, 2]].base is None


def test_what_was_resized_is_no_view() -> None:
    with da.init(devices=3, kind="host"):
        x = da.asarray(np.arange(4).reshape(2, 2), layout=da.blocks(0))
        for shape in ((2, 1), (1, 1), (2, 3)):
            x.resize(shape)
            assert x.base is None
        assert x.tolist() == [[0, 0, 0], [0, 0, 0]]
