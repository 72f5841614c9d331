"""Copies that stand for views show what is written to their origin, and may be written to once nobody can miss the write."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import distarray as da
from conformance.ranks import on_ranks


@pytest.fixture
def uneven(four: Any) -> Any:
    """300 elements in 4 parts of 75, which no row of 6 ends with."""
    return da.arange(300.0, layout=da.blocks(0))


def test_a_copy_is_read_only_while_its_origin_is_held(uneven: Any) -> None:
    y = uneven.reshape(50, 3, 2)
    assert not y.flags.writeable
    with pytest.raises(da.ReadOnlyError, match="copy"):
        y[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        y.flags.writeable = True
    np.testing.assert_array_equal(y.get(), np.arange(300.0).reshape(50, 3, 2))


def test_it_can_be_written_to_when_the_origin_is_gone(four: Any) -> None:
    x = da.arange(300.0, layout=da.blocks(0))
    x = x.reshape(50, 3, 2)
    assert x.flags.writeable
    x[1] = -1
    x[:, 0] += 2
    expected = np.arange(300.0).reshape(50, 3, 2)
    expected[1] = -1
    expected[:, 0] += 2
    np.testing.assert_array_equal(x.get(), expected)


def test_a_view_of_the_origin_counts(four: Any) -> None:
    x = da.arange(300.0, layout=da.blocks(0))
    head = x[:3]
    x = x.reshape(50, 3, 2)
    assert not x.flags.writeable
    with pytest.raises(da.ReadOnlyError):
        x += 1
    del head
    x += 1
    np.testing.assert_array_equal(x.get(), np.arange(300.0).reshape(50, 3, 2) + 1)


def test_views_of_the_copy_follow_it(four: Any) -> None:
    x = da.arange(300.0, layout=da.blocks(0))
    y = x.reshape(50, 3, 2)
    row = y[4]
    assert not row.flags.writeable
    del x
    row[...] = 0
    assert not y.get()[4].any()


def test_every_step_back_counts(four: Any) -> None:
    x = da.arange(300.0, layout=da.blocks(0))
    z = x.reshape(50, 3, 2).reshape(20, 15)
    gc.collect()
    assert not z.flags.writeable, "NumPy's would be a view of x"
    del x
    assert z.flags.writeable


def test_what_was_read_only_stays_so(four: Any) -> None:
    x = da.arange(300.0, layout=da.blocks(0))
    x.flags.writeable = False
    y = x.reshape(50, 3, 2)
    del x
    assert not y.flags.writeable


def test_a_pending_expression_of_the_origin_is_not_the_origin(four: Any) -> None:
    x = da.arange(300.0, layout=da.blocks(0))
    later = x * 2
    x = x.reshape(50, 3, 2)
    x[...] = 7
    np.testing.assert_array_equal(later.get(), np.arange(300.0) * 2)
    assert (x == 7).all()


@pytest.mark.parametrize("shares", [(4,), (2, 2), (1, 3)])
def test_processes_agree(shares: tuple[int, ...]) -> None:
    def program() -> Any:
        x = da.arange(300.0, layout=da.blocks(0))
        x = x.reshape(50, 3, 2)
        x[1] = -1
        return x.get()

    expected = np.arange(300.0).reshape(50, 3, 2)
    expected[1] = -1
    for found in on_ranks(shares, program):
        np.testing.assert_array_equal(found, expected)


def test_writes_of_every_kind_are_seen(four: Any) -> None:
    x, h = da.arange(300.0, layout=da.blocks(0)), np.arange(300.0)
    pairs = [(x.reshape(50, 3, 2), h.reshape(50, 3, 2))]
    pairs += [(v[2:].reshape(12, -1), g[2:].reshape(12, -1)) for v, g in pairs] + [(v[4], g[4]) for v, g in pairs]
    windows = np.lib.stride_tricks.sliding_window_view
    pairs.append((windows(x, 3), windows(h, 3)))  # type: ignore[arg-type]
    writes: list[Any] = [
        lambda a: a.__setitem__(slice(30, None), a[30:] + 1), lambda a: a.__setitem__(0, 5),
        lambda a: a.__setitem__([1, 2, 77], 9), lambda a: a.__setitem__(a > 200, 0), lambda a: a.__imul__(2),
        lambda a: np.add(a, 1, out=a), lambda a: np.copyto(a, a[::-1].copy()), lambda a: a.sort(),
        lambda a: np.put(a, [3], 7), lambda a: a.flat.__setitem__(5, 1), lambda a: np.add.at(a, [1, 1], 2),
        lambda a: np.place(a, a == 7, [1]), lambda a: np.putmask(a, a == 1, [4.0]), lambda a: a[2:9].fill(3),
        lambda a: a[::3].__iadd__(1), lambda a: np.random.default_rng(0) and a.fill(2),
    ]  # fmt: skip
    for number, write in enumerate(writes):
        write(x)
        write(h)
        for stand, mine in pairs:
            np.testing.assert_array_equal(stand.get(), mine, str(number))


def test_a_write_is_seen_when_the_origin_has_gone_since(uneven: Any) -> None:
    y = uneven.reshape(50, 3, 2)
    other = da.arange(300.0, layout=da.blocks(0))
    z = other.reshape(50, 3, 2)
    other[7] = -5
    del other
    z[0] = 1
    assert z.get().ravel()[:8].tolist() == [1, 1, 1, 1, 1, 1, 6, -5]
    before = y + 0
    uneven[0] = 9
    assert before[0, 0, 0] == 0 and y[0, 0, 0] == 9


def test_parts_diagonals_and_other_dtypes_are_seen(four: Any) -> None:
    h = np.arange(12) * (1 + 1j)
    x = da.asarray(h, layout=da.blocks(0, [5, 4, 3, 0]))
    y, imag = x.reshape(2, 6), x.imag.reshape(2, 6)
    x.real[3] = 50
    x[4] = 7 + 8j
    h.real[3], h[4] = 50, 7 + 8j
    np.testing.assert_array_equal(y.get(), h.reshape(2, 6))
    np.testing.assert_array_equal(imag.get(), h.imag.reshape(2, 6))
    m = da.asarray(np.arange(9.0).reshape(3, 3), layout=da.blocks(0))
    d = m.diagonal()
    m[1, 1] = 77
    assert d.tolist() == [0, 77, 8] and not d.flags.writeable


def test_buffers_that_were_handed_out_are_filled_again(uneven: Any) -> None:
    y = uneven.reshape(50, 3, 2)
    held = y.all_chunks()
    uneven[0] = 9
    assert y[0, 0, 0] == 9
    assert held[0][0][0, 0, 0] == 9


def test_what_numpy_copies_is_no_view_of_anything(four: Any) -> None:
    x = da.arange(300.0, layout=da.blocks(0))
    copies = [x.reshape(50, 3, 2).flatten(), np.roll(x.reshape(50, 3, 2), 1), x.reshape(50, 3, 2).copy(),
              da.reshape(x, (50, 3, 2), copy=True), x.reshape(50, 3, 2).T.ravel()]  # fmt: skip
    before = [a.get() for a in copies]
    x[:] = -1
    for a, b in zip(copies, before, strict=True):
        np.testing.assert_array_equal(a.get(), b)
        a[...] = 0


def test_the_shape_can_be_set_where_the_layout_cuts(four: Any) -> None:
    x, h = da.arange(10.0, layout=da.blocks(0)), np.arange(10.0)
    x.shape = 5, 2
    x[1, 1] = 100
    assert x.shape == (5, 2) and x.get().ravel().tolist() == [0, 1, 2, 100, 4, 5, 6, 7, 8, 9]
    y = da.asarray(h, layout=da.blocks(0))
    head = y[:3]
    y.shape = 5, 2
    head[0] = 42
    assert y[0, 0] == 42
    with pytest.raises(da.ReadOnlyError):
        y[0] = 1
    with pytest.raises(AttributeError, match="in-place"):
        da.asarray(h.reshape(5, 2), layout=da.blocks(0)).T.shape = 10
    assert y.shape == (5, 2)


@pytest.mark.parametrize("shares", [(4,), (2, 2), (1, 3)])
def test_processes_see_writes_alike(shares: tuple[int, ...]) -> None:
    def program() -> Any:
        x = da.arange(300.0, layout=da.blocks(0))
        y = x.reshape(50, 3, 2)
        x[7] = -1  # one process's short way, the others' long one
        found = [y.get()]
        for value in ("no number", np.zeros(7)):
            with pytest.raises((TypeError, ValueError)):
                x[7] = value
        found.append(y.get())
        x[200:] += 1
        del x
        y[0] = 3
        return [*found, y.get()]

    h = np.arange(300.0).reshape(50, 3, 2)
    h.reshape(-1)[7] = -1
    expected = [h.copy(), h.copy()]
    h.reshape(-1)[200:] += 1
    h[0] = 3
    for found in on_ranks(shares, program):
        for a, b in zip(found, [*expected, h], strict=True):
            np.testing.assert_array_equal(a, b)
