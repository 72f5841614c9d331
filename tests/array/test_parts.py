"""Parts of elements as views: real and imaginary parts, fields, other dtypes, windows; beside NumPy, in several layouts."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import distarray as da

LAYOUTS = [
    None,
    da.blocks(0),
    da.blocks(1),
    da.cyclic(0),
    da.replicated(),
    {0: [slice(0, 5)], 1: [slice(3, 8)], 2: [slice(6, 8)]},
]

STRUCTURE = np.dtype([("a", "f8"), ("b", "i4"), ("c", "f4", (2,))])


def _swap(x: Any) -> None:
    x.real[...] = x.imag[::-1] if isinstance(x, da.DistributedArray) else x.imag[::-1].copy()


def _reverse(x: Any) -> None:
    x.real[...] = x.real[::-1] if isinstance(x, da.DistributedArray) else x.real[::-1].copy()


def _before(x: Any) -> Any:
    kept = x.real * 2  # recorded: it keeps what it read
    x.imag[...] = 1
    x.real[0] = 7
    return kept


def _live(x: Any) -> Any:
    part = x.imag
    x *= 2
    part += 1
    return part


def _nested(x: Any) -> Any:
    x.view("f8").view("i8")[2] = 5
    return x.T.imag[1:].copy()


def _add(x: Any) -> None:
    x.real += 1
    x.imag[2:5, ::2] *= 3


def _copied(x: Any) -> Any:
    y, z = x.copy(), x.real.copy()
    y.real[...] = 0
    x.real[1] = 4
    return y, z


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("program", [_swap, _reverse, _before, _live, _nested, _add, _copied])
def test_complex_parts(layout: Any, program: Callable[[Any], Any]) -> None:
    rng = np.random.default_rng(1)
    data = rng.normal(size=(8, 12)) + 1j * rng.normal(size=(8, 12))
    with da.init(devices=3, kind="host"):
        x = da.asarray(data, layout=layout)
        found, wanted = program(x), program(data)
        for mine, theirs in zip([x, *_several(found)], [data, *_several(wanted)], strict=True):
            np.testing.assert_array_equal(mine.get(), theirs)


def _several(result: Any) -> list[Any]:
    return [] if result is None else list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_fields(layout: Any) -> None:
    rng = np.random.default_rng(1)
    data = np.zeros((8, 12), STRUCTURE)
    data["a"] = rng.normal(size=(8, 12))
    with da.init(devices=3, kind="host"):
        x = da.asarray(data.copy(), layout=layout)
        for y in (x, data):
            y["b"] = 5
            y["c"][..., 1] = y["a"]
            y["a"][2:4] += 1
            y[["a", "b"]][0, 1]["b"]
            y[3] = y[4]
        np.testing.assert_array_equal(x.get(), data)
        np.testing.assert_array_equal(
            x["a"].sum(axis=0).get(), da.asarray(data["a"].copy(), layout=x.layout).sum(axis=0).get()
        )
        np.testing.assert_array_equal(x[3:5]["c"].get(), data[3:5]["c"])
        np.testing.assert_array_equal(x[x["a"] > 0].get(), data[data["a"] > 0])
        assert x["c"].strides == data["c"].strides
        assert x["a"].base is not None
        assert x["a"].base.dtype == STRUCTURE
        assert np.shares_memory(x, x["a"])
        assert not np.shares_memory(x["a"], x["b"])
        for bad, error in [
            (lambda y: y["zz"], ValueError),
            (lambda y: y["a"]["b"], IndexError),
            (lambda y: y + 1, TypeError),
        ]:
            for y in (data, x):
                with pytest.raises(error):
                    bad(y)


@pytest.mark.parametrize("layout", [None, da.blocks(0), da.cyclic(0)], ids=str)
def test_other_sizes(layout: Any) -> None:
    data = np.random.default_rng(1).normal(size=(8, 12))
    with da.init(devices=3, kind="host"):
        x = da.asarray(data.copy(), layout=layout)
        for y in (x, data):
            y.view("f4")[:, 3] = 9
            y.view("c16")[:, 2].imag[...] = 2
            y[1:5, 2:8].view("c16")[1] = 1 + 5j
        np.testing.assert_array_equal(x.get(), data)
        assert x.view("c16").imag.strides == data.view("c16").imag.strides


def test_a_chunk_that_would_be_cut() -> None:
    with da.init(devices=4, kind="host"):
        x = da.zeros((8, 12), layout=da.blocks(1))
        with pytest.raises(ValueError, match="cuts them"):
            x.view("c16")


def test_windows() -> None:
    data = np.arange(40.0).reshape(4, 10)
    window = np.lib.stride_tricks.sliding_window_view
    with da.init(devices=2, kind="host"):
        x = da.asarray(data.copy(), layout=da.blocks(0))
        shown = window(x, 3, axis=1)
        np.testing.assert_array_equal(shown.get(), window(data, 3, axis=1))
        with pytest.raises(ValueError, match="read-only"):
            shown[...] = 0
        window(x, 3, axis=1, writeable=True)[1, 2] = -1
        window(data, 3, axis=1, writeable=True)[1, 2] = -1
        np.testing.assert_array_equal(x.get(), data)
        np.testing.assert_array_equal(shown.get(), window(data, 3, axis=1))
        assert np.shares_memory(x, shown)
    with da.init(devices=2, kind="host"):
        x = da.asarray(np.arange(40.0), layout=da.blocks(0))
        np.testing.assert_array_equal(window(x, 3).get(), window(np.arange(40.0), 3))
        with pytest.raises(TypeError, match="reshard"):
            window(x, 3, writeable=True)
