"""Structured elements: compared whole, and written through the scalars that NumPy has as views."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import distarray as da
from conformance.checking import on_gpu

pytestmark = pytest.mark.skipif(on_gpu(), reason="GPUs refuse structures, as tests/devices/test_cuda.py shows")

DTYPE = np.dtype([("a", "f4"), ("b", "i8", (2,)), ("c", [("d", "f8"), ("e", "i2")])])
LAYOUTS = [da.blocks(0), da.cyclic(0), da.replicated(), {0: [slice(0, 4)], 2: [slice(3, 6)]}]


def values() -> Any:
    found = np.zeros(6, DTYPE)
    found["a"], found["b"][2], found["c"]["e"] = range(6), 7, 3
    return found


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_structures_are_compared_whole(layout: Any, four: Any) -> None:
    host, other = values(), values()
    other["b"][1, 1], other["c"]["e"][3], other["a"][5] = 9, 1, np.nan
    x, y = da.asarray(host, layout=layout), da.asarray(other, layout=da.blocks(0))
    for a, b, c, d in ((x, y, host, other), (y, y, other, other), (x, other, host, other), (y[1:2], x, other[1:2], host),
                       (x, host[2], host, host[2]), (x[:, None], y, host[:, None], other)):  # fmt: skip
        for found, wanted in ((a == b, c == d), (a != b, c != d)):
            assert found.dtype == bool
            np.testing.assert_array_equal(found.get(), wanted)
    assert bool(x[1] == host[1])
    assert not bool(x[1] == y[1])
    assert da.array_equal(x, host)
    assert not np.array_equal(x, y)
    assert np.array_equal(x, x.copy())


def test_comparisons_that_numpy_refuses(four: Any) -> None:
    x = da.asarray(values(), layout=da.blocks(0))
    for other in (5, None, np.arange(6), "x", x["a"], np.zeros(6, "f8,i8"), np.zeros(6, [("a", "f4")])):
        for call in (lambda o: x == o, lambda o: x != o):
            with pytest.raises(TypeError, match="Cannot compare structured"):
                call(other)
    with pytest.raises(TypeError):
        x < x  # noqa: B015 - the comparison raises


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_scalars_of_structures_are_views(layout: Any, four: Any) -> None:
    host = values()
    x = da.asarray(host, layout=layout)
    before = x.copy()
    for a in (host, x):
        a[0]["a"] = 7
        a[-1]["b"] = 5
        a[1]["b"][1] = 3
        a[2]["c"]["d"] = 8
        a[1:4][2]["a"] = 11
        for element in a:
            element["c"]["e"] += 1
        number = a[3]["a"]
        number += 100
        copied = a[4].copy()
        copied["a"] = -1
    np.testing.assert_array_equal(x.get(), host)
    np.testing.assert_array_equal(before.get(), values())
    scalar = x[0]
    assert repr(scalar.item()) == repr(host[0].item())
    x[0] = host[5]
    assert repr(scalar.tolist()) == repr(host[5].item())


def test_scalars_of_what_is_read_only_are_not_written(four: Any) -> None:
    x = da.asarray(values(), layout=da.blocks(0))
    x.setflags(write=False)
    with pytest.raises(ValueError, match="read-only"):
        x[0]["a"] = 1


@pytest.mark.parametrize("dtype", ["f8", "i2", "c16", "?"])
def test_elements_are_compared_as_bytes(dtype: str, four: Any) -> None:
    host = np.arange(24).reshape(6, 4).astype(dtype)
    other = host.copy()
    other[2, 1] = 0
    x, y = da.asarray(host, layout=da.blocks(0)), da.asarray(other, layout=da.blocks(1))
    raw = f"V{host.itemsize}"
    np.testing.assert_array_equal((x.view(raw) == y.view(raw)).get(), host.view(raw) == other.view(raw))
    assert not np.array_equal(x.view(raw), y.view(raw))
    assert np.array_equal(x.view(raw), x.copy().view(raw))
    with pytest.raises(TypeError):
        x.view(raw) == other.view(raw)[..., None].view([("a", raw)])  # noqa: B015 - the comparison raises


def test_reshaped_views_show_parts_of_elements(four: Any) -> None:
    host = np.zeros((6, 2), DTYPE)
    host["b"][2], host["a"] = 3, np.arange(12.0).reshape(6, 2)
    numbers = np.arange(24.0).reshape(6, 4)
    for layout in (da.blocks(0), da.replicated(), da.cyclic(0)):
        x, y = da.asarray(host, layout=layout), da.asarray(numbers, layout=layout)
        for shape in ((-1,), (3, 4), (3, 2, 2)):
            for name in ("a", "b", "c"):
                np.testing.assert_array_equal(x.reshape(shape)[name].get(), host.reshape(shape)[name])
        for shape in ((-1,), (3, 2, 4), (2, 12)):
            for dtype in ("u1", "c16"):
                np.testing.assert_array_equal(y.reshape(shape).view(dtype).get(), numbers.reshape(shape).view(dtype))


def test_tuples_are_structures(four: Any) -> None:
    """In lists that arrays are made of, and in what is written."""
    for given in ([(1, (2, 3), (4, 5)), (6, [7, 8], (9, 10))], [[(1, (2, 3), (4, 5))] * 2], (1, (2, 3), (4, 5))):
        found, wanted = da.array(given, dtype=DTYPE), np.array(given, dtype=DTYPE)
        assert found.shape == wanted.shape
        np.testing.assert_array_equal(found.get(), wanted)
    x, host = da.asarray(values(), layout=da.blocks(0)), values()
    for each in (x, host):
        each[0] = (7, (8, 9), (1, 2))
        each[1:3] = [(1, (2, 3), (4, 5)), (6, (7, 8), (9, 10))]
    np.testing.assert_array_equal(x.get(), host)
