"""Users' Python functions: called once for each element, folded in NumPy's order, and failing on all processes alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import distarray as da
from conformance.ranks import on_ranks

HOST = np.arange(24.0).reshape(4, 3, 2)
LAYOUTS = [da.blocks(0), da.blocks(1), da.cyclic(0), da.grid((1, 1, 3)), da.replicated(), None]
"""Layouts of an array of three axes: lines whole, cut, strided."""


def plus(a: Any, b: Any) -> Any:
    return a + 2 * b


def near(a: Any, b: Any) -> Any:
    """Not associative, and an int for some elements and a float for others."""
    return b if b % 2 else int(a) - int(b)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("function", [plus, near])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_folds_of_python_functions(layout, function, axis):
    ufunc = np.frompyfunc(function, 2, 1)
    with da.init(devices=3, kind="host"):
        x = da.asarray(HOST, layout=layout)
        for name, rest in (("reduce", ()), ("accumulate", ()), ("reduceat", ([0, 1, 0],))):
            found = getattr(ufunc, name)(x, *rest, axis=axis)
            wanted = getattr(ufunc, name)(HOST, *rest, axis=axis)
            assert found.dtype == np.array(wanted.tolist()).dtype
            np.testing.assert_array_equal(found.get(), wanted.astype(found.dtype))


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_arguments_of_folds(layout):
    ufunc, whole = np.frompyfunc(plus, 2, 1), np.frompyfunc(lambda a, b: a + b, 2, 1, identity=0)
    with da.init(devices=3, kind="host"):
        x = da.asarray(HOST, layout=layout)
        for axis in (None, (0, 2), (2, 0), 1):
            assert (
                whole.reduce(x, axis=axis, keepdims=True).tolist()
                == whole.reduce(HOST, axis=axis, keepdims=True).tolist()
            )
        assert ufunc.reduce(x, axis=1, initial=7).tolist() == ufunc.reduce(HOST, axis=1, initial=7).tolist()
        assert ufunc.reduce(x[:0], initial=7).tolist() == ufunc.reduce(HOST[:0], initial=7).tolist()
        assert ufunc.accumulate(x[:, :0], axis=1).shape == (4, 0, 2)
        for wrong in (
            lambda a: ufunc.reduce(a, axis=None), lambda a: ufunc.reduce(a[:0]), lambda a: ufunc.reduce(a, axis=3),
            lambda a: ufunc.accumulate(a, axis=3), lambda a: ufunc.reduceat(a, [9]),
        ):  # fmt: skip
            with pytest.raises(Exception) as theirs:  # NumPy's own, whatever it is
                wrong(HOST)
            with pytest.raises(theirs.type):
                wrong(x)
        with pytest.raises(da.UnsupportedError, match="takes no out="):
            ufunc.reduce(x, dtype=float)


def test_a_function_of_several_results_is_called_once_for_each_element():
    calls: list[float] = []

    def both(v: float) -> tuple[float, int]:
        calls.append(v)
        return v + 1, len(calls)

    with da.init(devices=3, kind="host"):
        x = da.asarray(HOST, layout=da.blocks(0))
        for function in (np.frompyfunc(both, 1, 2), da.vectorize(both, otypes=[float, int])):
            calls.clear()
            first, second = function(x)
            np.testing.assert_array_equal(first.get(), HOST + 1)
            assert sorted(second.get().ravel().tolist()) == list(range(1, 25)) == list(range(1, len(calls) + 1))
        lines = da.vectorize(lambda v: both(v[0]), otypes=[float, int], signature="(n)->(),()")
        calls.clear()
        first, second = lines(x)
        np.testing.assert_array_equal(first.get(), HOST[..., 0] + 1)
        assert sorted(second.get().ravel().tolist()) == list(range(2, 14))  # the first call tells the shapes
        assert len(calls) == 13


def _last(v: Any) -> Any:
    if np.max(v) == 23:
        raise KeyError("no twenty-three")
    return v + 1


def _with(a: Any, b: Any) -> Any:
    return _last(b)


def _border(line: Any, widths: Any, axis: int, kwargs: Any) -> None:
    line[0] = _last(line)[1]


def _coordinates(i: Any) -> Any:
    return _last(i)


DOORS = {
    "map_chunks": lambda x: da.map_chunks(_last, x),
    "vectorize": lambda x: da.vectorize(_last)(x),
    "vectorize of lines": lambda x: da.vectorize(_last, signature="(n)->(n)")(x),
    "frompyfunc": lambda x: np.frompyfunc(_last, 1, 1)(x),
    "reduce": lambda x: np.frompyfunc(_with, 2, 1).reduce(x, axis=-1),
    "accumulate": lambda x: np.frompyfunc(_with, 2, 1).accumulate(x, axis=-1),
    "reduceat": lambda x: np.frompyfunc(_with, 2, 1).reduceat(x, [0], axis=-1),
    "outer": lambda x: np.frompyfunc(_with, 2, 1).outer(1, x),
    "at": lambda x: np.frompyfunc(_last, 1, 1).at(x.copy(), -1),
    "apply_along_axis": lambda x: np.apply_along_axis(_last, -1, x),
    "apply_over_axes": lambda x: np.apply_over_axes(lambda a, axis: np.apply_along_axis(_last, axis, a), x, [1]),
    "piecewise": lambda x: np.piecewise(x, [x > -1], [_last]),
    "pad": lambda x: np.pad(x, 1, _border),
    "fromfunction": lambda x: da.fromfunction(_coordinates, (24,), layout=da.blocks(0)),
}
"""Functions that take a user's function, which raises for one element, on the process that has it."""


@pytest.mark.parametrize("door", DOORS)
def test_where_it_raises_on_one_process_all_raise_and_go_on(door):
    def program() -> tuple[str, str, float]:
        x = da.asarray(HOST, layout=da.blocks(0))
        with pytest.raises(KeyError) as caught:
            DOORS[door](x)
        return caught.typename, str(caught.value), float(x.sum())

    assert on_ranks((1, 1, 2), program) == [("KeyError", "'no twenty-three'", HOST.sum())] * 3


def test_an_exception_that_others_can_t_make_is_its_nearest_base_there():
    class OwnError(ValueError):
        pass

    def fails(v: Any) -> Any:
        if v.max() == 23:
            raise OwnError("mine")
        return v

    def program() -> str:
        with pytest.raises(ValueError, match="mine") as caught:
            da.map_chunks(fails, da.asarray(HOST, layout=da.blocks(0)))
        return caught.typename

    assert on_ranks((1, 1, 2), program) == ["ValueError", "ValueError", "OwnError"]


def test_results_that_one_process_can_t_hold_are_refused_on_all():
    def program() -> float:
        x = da.asarray(HOST, layout=da.blocks(0))
        with pytest.raises(TypeError, match="can't be distributed"):
            da.map_chunks(lambda v: v.astype("U4") if v.max() == 23 else v, x)
        with pytest.raises(ValueError, match="must keep it"):
            da.map_chunks(lambda v: v[:0] if v.max() == 23 else v, x)
        return float(x.sum())

    assert on_ranks((1, 1, 2), program) == [HOST.sum()] * 3


def test_chunks_of_times_go_through_functions_on_processes():
    times = np.array("2020-01-01", "M8[D]") + np.arange(6)

    def program() -> list[Any]:
        x = da.asarray(times, layout=da.blocks(0))
        return [da.map_chunks(lambda v: v - times[0], x).get().tolist(), str(da.map_chunks(lambda v: v, x).dtype)]

    assert on_ranks((1, 2), program) == [[(times - times[0]).tolist(), "datetime64[D]"]] * 2


@pytest.mark.parametrize("shape", [(0,), (0, 1), (3, 0), (2, 2)])
def test_python_functions_of_nothing(shape: tuple[int, ...]) -> None:
    function = np.frompyfunc(lambda a, b: 2 * a + b, 2, 1)
    with da.init(devices=3, kind="host"):
        for layout in (None, da.blocks(0), da.cyclic(0)):
            x = da.asarray(np.ones(shape, int), layout=layout)
            found = function(x, x)
            assert found.shape == shape
            assert found.get().tolist() == np.full(shape, 3).tolist()
