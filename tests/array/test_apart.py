"""Copies that stand for views may be written to once nobody can miss the write."""

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
