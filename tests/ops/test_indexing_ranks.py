"""Advanced indexing on several processes: random keys, layouts, modes and views on simulated ranks, against NumPy.

Every rank draws nothing: what it does is drawn before, so that all ranks run one program.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import distarray as da
from conformance import strategies as sts
from conformance.checking import assert_same
from conformance.contexts import examples
from conformance.ranks import SHARES, on_ranks
from tests.ops.test_indexing import index_arrays, keys, lone_masks

VIEWS: list[Any] = [
    lambda a: a,
    lambda a: a[::-1] if a.ndim else a,
    lambda a: a.T,
    lambda a: a[1::2, ...] if a.ndim else a[None],
]


@st.composite
def hosts(draw: st.DrawFn, a: Any, n: int) -> Any:
    """A function that gives `a`: NumPy's as it is, or distributed in a layout."""
    if not isinstance(a, np.ndarray) or draw(st.booleans()):
        return lambda: a
    layout = draw(sts.layouts(a.shape, n))
    return lambda: da.asarray(a, layout=layout)


@st.composite
def keys_of(draw: st.DrawFn, key: Any, n: int) -> Any:
    """A function that gives a key, some of its arrays distributed."""
    if not isinstance(key, tuple):
        return draw(hosts(key, n))
    items = [draw(hosts(item, n)) for item in key]
    return lambda: tuple([item() for item in items])


@st.composite
def bases(draw: st.DrawFn, n: int, dtype: np.dtype) -> tuple[np.ndarray, Any]:
    """An array, and a function that distributes it in any layout and mode."""
    base = draw(sts.arrays(dtype=dtype, extreme=False))
    layout = draw(sts.layouts(base.shape, n))
    mode = draw(st.sampled_from(["replica", "replica", "max", "sum"]))

    def make() -> Any:
        x = da.asarray(base, layout=layout)
        return x if mode == "replica" or dtype.kind == "b" else x.change_mode(mode)

    return base, make


def check_copies(x: Any) -> None:
    """This rank's chunks hold the array's value to the bit."""
    value = x.get()
    held = x._operand("a check", partial_ok=True)
    if held.layout.is_partial:
        return
    for (device, region), array in zip(held.layout.chunks, held.arrays, strict=True):
        assert (array is not None) == (x._context.by_id[device].process == x._context.process)
        if array is not None:
            assert array.shape == region.shape
            assert array.tobytes() == value[region.slices].tobytes()


DTYPES = [np.dtype(t) for t in ("int64", "float64", "bool", "complex64")]


@examples(4)
@given(st.data(), st.sampled_from(SHARES), st.sampled_from(DTYPES))
def test_read_and_write(data: st.DataObject, shares: tuple[int, ...], dtype: np.dtype) -> None:
    n = sum(shares)
    base, make = data.draw(bases(n, dtype))
    view = data.draw(st.sampled_from(VIEWS))
    ref = view(base).copy()
    key = data.draw(st.one_of(keys(ref.shape), lone_masks(ref.shape)))
    key_of = data.draw(keys_of(key, n))
    try:
        found = np.array(ref[key])
    except IndexError:
        found = None
    what = data.draw(st.sampled_from(["scalar", "values", "at"]))
    value: Any = np.dtype(dtype).type(1)
    if what == "values" and found is not None:
        value = data.draw(sts.arrays(found.shape, dtype, extreme=False))
    value_of = data.draw(hosts(value, n))
    after = base.copy()
    if found is not None:
        if what == "at":
            np.add.at(view(after), key, value)
        else:
            view(after)[key] = value

    def program() -> None:
        x = make()
        mine = view(x)
        if found is None:
            with pytest.raises(IndexError):
                mine[key_of()]
            return
        got = mine[key_of()]
        assert_same(got.get(), found, local=True)
        check_copies(got)
        pending = x * 1
        if what == "at":
            np.add.at(mine, key_of(), value)
        else:
            mine[key_of()] = value_of()
        assert_same(x.get(), after, local=True)
        assert_same(pending.get(), base * 1, local=True)
        check_copies(x)

    on_ranks(shares, program)


@examples(2)
@given(st.data(), st.sampled_from(SHARES))
def test_take_along_axis(data: st.DataObject, shares: tuple[int, ...]) -> None:
    n = sum(shares)
    base, make = data.draw(bases(n, np.dtype("int64")))
    if not base.ndim:
        return
    axis = data.draw(sts.axes(base.ndim))
    shape = list(base.shape)
    shape[axis] = 3
    index = np.asarray(data.draw(index_arrays(base.shape[axis], tuple(shape)))).astype(int).reshape(shape)
    index_of = data.draw(hosts(index, n))
    try:
        found = np.take_along_axis(base, index, axis)
    except IndexError:
        found = None

    def program() -> None:
        x, places = make(), index_of()
        if found is None:
            with pytest.raises(IndexError):
                np.take_along_axis(x, places, axis)
            return
        got = np.take_along_axis(x, places, axis)
        assert_same(got.get(), found, local=True)
        check_copies(got)

    on_ranks(shares, program)


def test_aligned_masks_exchange_nothing() -> None:
    """Masks that lie as the array does: only counts are exchanged, and none for a mask that every process has."""

    def program() -> None:
        ref = np.arange(640.0).reshape(64, 10) - 100
        x = da.asarray(ref, layout=da.blocks(0))
        with da.no_implicit_communication():
            x[x < 0] = 0
            picked = x[x > 3]
            calls = _rounds(x)
            host = x[ref % 3 == 0]
            x[ref > 500] = 7
            x[[0, 63], :] = 6
            columns = x[:, [3, -1]]
            assert _rounds(x) == calls
        ref[ref < 0] = 0
        assert_same(picked.get(), ref[ref > 3], local=True)
        assert host.shape == (np.count_nonzero((np.arange(640) - 100) % 3 == 0),)
        ref[ref > 500] = 7
        ref[[0, 63]] = 6
        assert_same(columns.get(), ref[:, [3, -1]], local=True)
        assert_same(x.get(), ref, local=True)

    with warnings.catch_warnings():
        warnings.simplefilter("default")  # where warnings are errors processes agree on those too
        on_ranks((2, 1), program)


def _rounds(x: Any) -> int:
    """How many calls this process's communicator has made."""
    return int(x._context.communicator.sequence)


def test_memory_that_lacks_on_one_rank_is_told_to_the_others() -> None:
    def program() -> str:
        x = da.asarray(np.arange(1200.0).reshape(100, 12), layout=da.blocks(0))
        if x._context.process == 1:
            x._context.local_devices[0].memory_limit = 100
        try:
            x[np.arange(100)[::-1]].get()
        except (MemoryError, da.RemoteError) as error:
            return f"{type(error).__name__}: {error}"
        return "nothing"

    told, mine = on_ranks((1, 1), program)
    assert told.startswith("RemoteError")
    assert "DeviceMemoryError" in told
    assert mine.startswith("DeviceMemoryError")
