"""Which strided views are one 2-d copy: checked by doing the copy byte by byte on the CPU."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from distarray.devices.moves import WIDEST_PITCH, rows_of


def base(shape, dtype):
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


VIEWS = {
    "whole": lambda a: a,
    "rows": lambda a: a[1:5],
    "every other row": lambda a: a[::2],
    "columns": lambda a: a[:, 2:6],
    "inner columns": lambda a: a[..., 1:3],
    "every other column": lambda a: a[:, ::2],
    "one column": lambda a: a[:, 3:4],
    "one row": lambda a: a[2:3],
    "flipped": lambda a: a[::-1],
    "transposed": lambda a: a.swapaxes(0, 1),
    "broadcast": lambda a: np.broadcast_to(a[:1], a.shape),
    "point": lambda a: a[3:4, 3:4, :1],
    "other half": lambda a: a[4:],
    "half, every other row": lambda a: a[1::2],
}
SHAPE = (8, 8, 4)
PAIRS = [
    (one, other)
    for one, other in itertools.product(VIEWS, VIEWS)
    if VIEWS[one](np.empty(SHAPE)).shape == VIEWS[other](np.empty(SHAPE)).shape
]


@pytest.mark.parametrize("dtype", ["u1", "i2", "f8", "c16"])
@pytest.mark.parametrize(("dst_name", "src_name"), PAIRS)
def test_a_2d_copy_is_the_copy(dst_name, src_name, dtype):
    source, target = base(SHAPE, dtype), np.zeros(SHAPE, dtype)
    src, dst = VIEWS[src_name](source), VIEWS[dst_name](target)
    rows = rows_of(dst.shape, dst.itemsize, dst.strides, src.strides)
    if rows is None:
        assert {dst_name, src_name} & {"flipped", "transposed", "broadcast", "inner columns", "every other column"}
        return
    width, height, dst_pitch, src_pitch = rows
    assert width * height == dst.nbytes
    # what cudaMemcpy2D does, from the views' first elements on
    offset = [
        v.__array_interface__["data"][0] - w.__array_interface__["data"][0] for v, w in ((dst, target), (src, source))
    ]
    raw_dst, raw_src = target.reshape(-1).view("u1"), source.reshape(-1).view("u1")
    for row in range(height):
        to, frm = offset[0] + row * dst_pitch, offset[1] + row * src_pitch
        raw_dst[to : to + width] = raw_src[frm : frm + width]
    expected = np.zeros(SHAPE, dtype)
    VIEWS[dst_name](expected)[...] = src
    np.testing.assert_array_equal(target, expected)


def test_expected_rows():
    a = np.zeros((100, 50), "f4")
    assert rows_of(a.shape, 4, a.strides, a.strides) == (20000, 1, 20000, 20000)
    part = a[:, 10:30]
    whole = np.zeros((100, 20), "f4")
    assert rows_of(part.shape, 4, whole.strides, part.strides) == (80, 100, 80, 200)
    assert rows_of((), 8, (), ()) == (8, 1, 8, 8)
    assert rows_of((1, 1), 8, (99, 99), (1, 1)) == (8, 1, 8, 8)
    assert rows_of((5,), 8, (16,), (8,)) == (8, 5, 16, 8)
    assert rows_of((2, 4), 1, (WIDEST_PITCH, 1), (4, 1)) == (4, 2, WIDEST_PITCH, 4)
    assert rows_of((2, 4), 1, (WIDEST_PITCH + 1, 1), (4, 1)) is None
    assert rows_of((3,), 8, (-8,), (8,)) is None
    assert rows_of((3,), 8, (8,), (0,)) is None
