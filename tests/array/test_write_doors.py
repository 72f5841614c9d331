"""Every way to write single values and lists, against NumPy: what is converted, what is refused, and with which exception."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import distarray as da

DTYPES = ("bool", "int8", "uint64", "float16", "float32", "complex64", "M8[D]", "m8[s]", "i4,f4")
VALUES: tuple[Any, ...] = (
    [300], [1], [[1]], (1,), [], [1, 2], range(1), range(2), None, "a", {}, -1, 300, 2**70, 1.5, np.nan, np.int64(300),
    np.uint64(2**63), np.array([1]), np.array(1), np.array([1, 2]), np.array([1.5]), np.zeros((1, 1)), np.array([]),
)  # fmt: skip
DOORS: dict[str, Callable[[Any, Any], None]] = {
    "item": lambda x, v: x.__setitem__((0, 1), v),
    "item by array": lambda x, v: x.__setitem__((np.array(0), np.int8(1)), v),
    "flat": lambda x, v: x.flat.__setitem__(3, v),
    "flat, a tuple": lambda x, v: x.flat.__setitem__((3,), v),
    "flat, a slice": lambda x, v: x.flat.__setitem__(slice(0, 5), v),
    "flat, places": lambda x, v: x.flat.__setitem__([0, 2, -1], v),
    "flat, all": lambda x, v: setattr(x, "flat", v),
    "fill": lambda x, v: x.fill(v),
    "put": lambda x, v: np.put(x, [0, 3], v),
    "fill_diagonal": lambda x, v: np.fill_diagonal(x, v),
    "mask without elements": lambda x, v: x.__setitem__(np.zeros(0, bool), v),
    "mask without columns": lambda x, v: x.__setitem__(np.zeros((2, 0), bool), v),
    "mask beside a slice": lambda x, v: x.__setitem__((slice(None), np.zeros(0, bool)), v),
    "add.at": lambda x, v: np.add.at(x, ([0, 1], [1, 1]), v),
    "copyto": lambda x, v: np.copyto(x, v),
    "copyto, no": lambda x, v: np.copyto(x, v, casting="no"),
    "copyto, equiv, masked": lambda x, v: np.copyto(x, v, casting="equiv", where=np.arange(3) > 0),
    "copyto, unsafe": lambda x, v: np.copyto(x, v, casting="unsafe"),
}


def written(x: Any, door: str, value: Any) -> tuple[Any, BaseException | None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            DOORS[door](x, value)
        except Exception as error:
            return np.asarray(x), error
        return np.asarray(x), None


@pytest.mark.parametrize("layout", [None, da.blocks(0), da.cyclic(1), da.replicated()], ids=str)
@pytest.mark.parametrize("door", list(DOORS))
def test_values_are_taken_and_refused_as_by_numpy(door: str, layout: Any) -> None:
    with da.init(devices=3, kind="host", minimum_chunk=1):
        for dtype in DTYPES:
            host = (np.arange(6).reshape(2, 3) % 2).astype(dtype)
            for value in VALUES:
                mine, theirs = da.asarray(host, layout=layout), host.copy()
                want, refused = written(theirs, door, value)
                got, error = written(mine, door, value)
                told = f"{door} of {value!r} into {dtype}: NumPy {refused!r}, here {error!r}"
                if isinstance(error, da.errors.UnsupportedError):  # text and objects, which NumPy may convert
                    continue
                assert (error is None) == (refused is None), told
                if refused is None:
                    assert want.tobytes() == got.tobytes(), told
                else:
                    assert host.tobytes() == got.tobytes(), f"{told}; it was written to"
                    assert isinstance(error, (TypeError, ValueError, OverflowError, IndexError)), told


def test_a_mask_without_elements_reads_nothing() -> None:
    with da.init(devices=3, kind="host", minimum_chunk=1):
        host = np.arange(12.0).reshape(4, 3)
        for layout in (None, da.blocks(0), da.blocks(1)):
            x = da.asarray(host, layout=layout)
            for key in (
                np.zeros(0, bool), np.zeros((0, 3), bool), np.zeros((0, 0), bool), np.zeros((4, 0), bool),
                (slice(1, 3), np.zeros(0, bool)), (np.zeros(0, bool), 1), (Ellipsis, np.zeros(0, bool)),
                (None, np.zeros(0, bool)), ([], np.zeros(0, bool)),
            ):  # fmt: skip
                assert x[key].get().shape == host[key].shape
            assert x[da.zeros(0, bool)].shape == (0, 3)
            for key in (np.zeros((2, 0), bool), np.zeros((0, 2), bool), np.zeros((0, 3, 1), bool)):
                with pytest.raises(IndexError):
                    host[key]
                with pytest.raises(IndexError):
                    x[key]


@pytest.mark.parametrize(
    "given",
    [range(3), deque([3, 1, 2]), bytearray(b"abc"), memoryview(np.arange(3))],
    ids=lambda given: type(given).__name__,
)
def test_sequences_and_buffers_are_operands(given: Any) -> None:
    with da.init(devices=3, kind="host", minimum_chunk=1):
        host = np.arange(3)
        for layout in (None, da.blocks(0)):
            x = da.asarray(host, layout=layout)
            for call in (
                lambda a: a + given, lambda a: a == given, lambda a: a < given, lambda a: np.add(given, a),
                lambda a: np.minimum(a, given), lambda a: np.where(a > 1, a, given),
            ):  # fmt: skip
                want, got = call(host), call(x)
                assert isinstance(got, da.DistributedArray)
                assert want.dtype == got.dtype
                assert want.tolist() == got.tolist()
            x += given
            assert x.tolist() == (host + given).tolist()


@pytest.mark.parametrize("name", ["mean", "std", "var", "nanmean", "nanstd", "nanvar", "average", "sum", "max"])
def test_keepdims_is_an_integer(name: str) -> None:
    with da.init(devices=2, kind="host", minimum_chunk=1):
        host = np.arange(6.0).reshape(2, 3)
        x = da.asarray(host, layout=da.blocks(0))
        for wrong in (None, "yes", "", 1.5, [], np.True_):
            for array in (host, x):
                with pytest.raises(TypeError):
                    getattr(np, name)(array, axis=0, keepdims=wrong)
        for right in (2, np.int8(1), 0):
            want = getattr(np, name)(host, axis=0, keepdims=right)
            assert getattr(np, name)(x, axis=0, keepdims=right).shape == want.shape


def test_what_counts_elements_takes_no_mask_of_none() -> None:
    with da.init(devices=2, kind="host", minimum_chunk=1):
        x = da.asarray(np.arange(6), layout=da.blocks(0))
        for name in ("mean", "std", "var"):
            for array in (np.arange(6), x):
                with pytest.raises(TypeError):
                    getattr(np, name)(array, where=None)
        assert np.sum(x, where=None) == np.sum(np.arange(6), where=None)  # type: ignore[call-overload]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "logical_or", "minimum"])
def test_the_initial_value_of_nothing_has_the_dtype_of_the_output(name: str) -> None:
    ufunc = getattr(np, name)
    with da.init(devices=2, kind="host", minimum_chunk=1), np.errstate(all="ignore"):
        for dtype in ("bool", "i1", "u8", "f4", "c8", "f2"):
            for out in ("i8", "f4", "f8", "c16", "bool", dtype):
                for initial in (2.5, 7, np._NoValue):
                    host = np.zeros((3, 0), dtype)
                    ends = []
                    for array, target in ((host, np.zeros((), out)), (da.asarray(host), da.zeros((), out))):
                        try:
                            ufunc.reduce(array, axis=None, out=target, initial=initial)
                            ends.append(np.asarray(target).tolist())
                        except (TypeError, ValueError):
                            ends.append("refused")
                    assert str(ends[0]) == str(ends[1]), (dtype, out, initial, ends)


@pytest.mark.parametrize("layout", [None, da.blocks(0)], ids=str)
def test_python_objects_are_no_dtype_of_reductions(layout: Any) -> None:
    with da.init(devices=2, kind="host", minimum_chunk=1):
        x = da.asarray(np.arange(6) > 2, layout=layout)
        for call in (
            lambda: x.sum(dtype=object), lambda: np.add.reduce(x, dtype="O"), lambda: np.nansum(x, dtype="O"),
            lambda: x.mean(dtype="O"), lambda: np.cumsum(x, dtype="O"), lambda: np.add.reduceat(x, [0, 2], dtype="O"),
        ):  # fmt: skip
            with pytest.raises(TypeError, match="distributed"):
                call()


@pytest.mark.parametrize("layout", [None, da.blocks(0), da.cyclic(0), da.replicated()], ids=str)
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300, 300.0])
def test_elements_that_integers_cannot_hold_are_refused_as_numbers_are(layout, value):
    for dtype in ("i1", "i8"):
        host, given = np.zeros(5, dtype), np.array([value, 1])
        with da.init(devices=4, kind="host", minimum_chunk=1):
            x, y = da.asarray(host, layout=layout), da.asarray(given, layout=layout)
            try:
                host[1] = given[0]
            except (ValueError, OverflowError) as error:
                with pytest.raises(type(error), match=str(error)):
                    x[1] = y[0]
                with pytest.raises(type(error), match=str(error)):
                    x[1] += y[0]
            else:
                x[1] = y[0]
            np.testing.assert_array_equal(np.asarray(x), host)
