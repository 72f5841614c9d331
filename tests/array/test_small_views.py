"""Small whole arrays: views in other shapes and orders of axes, writes through them, and results that no device counts yet."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import distarray as da
from distarray.array.shown import UNCOUNTED

WHOLE = 1 << 16
"""Elements of the least part: tests here are of arrays that stay whole."""
LAYOUTS = [None, da.blocks(0), da.replicated()]


def _view(data: st.DataObject, a: np.ndarray[Any, Any]) -> Any:
    """A step from one array to a view of it, a copy, or a result."""
    order = tuple(data.draw(st.permutations(range(a.ndim))))
    shapes = [(-1,), a.shape[::-1], (1, *a.shape), (a.size, 1)]
    part = tuple(
        slice(data.draw(st.sampled_from([None, 0, 1])), None, data.draw(st.sampled_from([None, 2, -1])))
        for _ in a.shape
    )
    return data.draw(
        st.sampled_from(
            [
                *[lambda v, s=shape: v.reshape(s) for shape in shapes],
                lambda v: v.transpose(order),
                lambda v: v.T,
                lambda v: v[part],
                lambda v: v[..., None],
            ]
        )
    )


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_views_and_writes(data: st.DataObject) -> None:
    n, layout = data.draw(st.integers(1, 4)), data.draw(st.sampled_from(LAYOUTS))
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    host = np.arange(float(np.prod(shape))).reshape(shape)
    with da.init(devices=n, kind="host", minimum_chunk=data.draw(st.sampled_from([WHOLE, WHOLE, 1]))):
        pairs: list[tuple[Any, Any]] = [(host, da.asarray(host, layout=layout))]
        for _ in range(data.draw(st.integers(2, 9))):
            a, x = data.draw(st.sampled_from(pairs))
            kind = data.draw(st.sampled_from(["view", "view", "new", "write", "shift", "add"]))
            if kind == "view":
                step = _view(data, a)
                pairs.append((step(a), step(x)))
            elif kind == "new":  # what an operation makes is in C order
                pairs.append((np.array(a + 1, order="C"), x + 1))
            elif not x.flags.writeable:
                continue
            elif kind == "write":
                a[...] = x[...] = data.draw(st.integers(-9, 9)) + np.arange(a.size).reshape(a.shape)
            elif kind == "shift" and a.ndim and len(a) > 1:
                a[1:] = a[:-1]
                x[1:] = x[:-1]
            else:
                a += 2
                x += 2
            for one, other in pairs:
                assert np.array_equal(one, other.get())


def test_reshapes_within_one_block_go_by_the_whole() -> None:
    """What one block shows side by side need not lie so in the whole array: NumPy copies it."""
    with da.init(devices=2, kind="host", minimum_chunk=1):
        host = np.arange(16.0).reshape(4, 4)
        x = da.asarray(host, layout=da.blocks(1))
        for columns, rows in ((slice(2), slice(None)), (slice(2, None), slice(1, 3))):
            part = x[rows, columns].reshape(-1)
            part[0] = -1
            assert part.base is None
            assert part.get().tolist() == [-1, *host[rows, columns].ravel()[1:]]
            assert np.array_equal(x.get(), host)
        row = x[2, 2:].reshape(2, 1)  # a view in both
        row[1] = 7
        assert x[2, 3] == 7


def test_folds_take_the_arguments_of_functions() -> None:
    a = np.arange(12.0).reshape(3, 4)
    with da.init(devices=2, kind="host", minimum_chunk=WHOLE):
        x = da.asarray(a)
        for f in (np.sum, np.prod, np.max, np.min, np.any, np.all):
            mine = getattr(da, f.__name__)
            for call in (
                lambda f, v: f(v),
                lambda f, v: f(v, 1),
                lambda f, v: f(v, axis=(0, 1), keepdims=True),
                lambda f, v: f(v, -1, keepdims=False),
            ):
                for found in (call(f, x), call(mine, x)):
                    expected = call(f, a)
                    assert found.dtype == expected.dtype
                    assert np.array_equal(found.get(), expected)
            for bad in (lambda f, v: f(v, 0, axis=1), lambda f, v: f(v, 0, nothing=1), lambda f, v: f(v, 7)):
                with pytest.raises((TypeError, ValueError)) as theirs:
                    bad(f, a)
                with pytest.raises(type(theirs.value)):
                    bad(mine, x)
        assert np.sum(x, initial=5.0).get() == 71.0
        assert np.add.outer(x[0], x[:, 1]).get().tolist() == np.add.outer(a[0], a[:, 1]).tolist()


def test_results_count_once_something_holds_them() -> None:
    with da.init(devices=2, kind="host", minimum_chunk=WHOLE) as context:
        device = context.devices[0]
        x = da.ones(100)
        before = device.allocated
        y = x + 1
        assert device.allocated == before
        view = y[1:]
        assert device.allocated == before + 800
        large = (da.ones(UNCOUNTED // 8 + 1) + 1).evaluate()
        assert sum(d.allocated for d in context.devices) >= before + 800 + large.nbytes
        assert view.get().tolist() == [2.0] * 99
    with da.init(devices=2, kind="host", minimum_chunk=WHOLE, memory_limit=1 << 20) as context:
        x = da.ones(100)
        before = context.devices[0].allocated
        y = x + 1
        assert context.devices[0].allocated == before + y.nbytes
