"""``import distarray as np``: the names of NumPy's namespace, ufuncs that are objects, and small programs."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import distarray as da
from distarray.ops import elementwise
from distarray.ops.numpy_names import ELSEWHERE, NUMPYS

PUBLIC = [name for name in dir(np) if not name.startswith("_")]


def host(value: Any) -> Any:
    """A result with host arrays in it."""
    if isinstance(value, da.DistributedArray):
        return value.get()
    return type(value)(host(v) for v in value) if type(value) in (tuple, list) else value


def same(got: Any, expected: Any) -> None:
    if isinstance(expected, (tuple, list)):
        assert len(got) == len(expected)
        for g, e in zip(got, expected, strict=True):
            same(g, e)
        return
    got = host(got)
    assert np.shape(got) == np.shape(expected)
    assert np.asarray(got).dtype == np.asarray(expected).dtype
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-14)


# --- names ------------------------------------------------------------------------------------------------------------


def test_every_name_of_numpy_is_there_or_says_why_not() -> None:
    for name in PUBLIC:
        if f"distarray.{name}" in sys.modules:  # a module of ours, once something has imported it
            continue
        if name in ELSEWHERE:
            with pytest.raises(AttributeError) as caught:
                getattr(da, name)
            assert ELSEWHERE[name] in str(caught.value)
            assert f"numpy.{name}" in str(caught.value)
        else:
            assert hasattr(da, name), name


def test_types_are_numpys_own(four: Any) -> None:
    x = da.ones(3)
    assert da.float64 is np.float64
    assert da.float64 == x.dtype
    assert x.dtype == da.float64
    assert da.float64(1.5) == 1.5
    assert da.dtype("f4") == da.float32
    assert da.isdtype(da.float64, "real floating")
    assert da.issubdtype(x.dtype, da.floating)
    assert x.astype(da.int8).dtype == da.int8
    assert float(da.float32(x[0])) == 1.0
    assert isinstance(x, da.ndarray)
    assert isinstance(da.add, da.ufunc)
    assert da.finfo(da.float32).tiny == np.finfo(np.float32).tiny
    assert da.iinfo(da.int8).kind == "i"
    assert all(getattr(da, name) is getattr(np, name) for name in NUMPYS if hasattr(np, name))
    assert da.DistributedArray[Any, np.dtype[np.float64]].__origin__ is da.DistributedArray


def test_dtypes_that_are_no_numbers_are_refused(four: Any) -> None:
    for values in (["a"], [object()], np.zeros(2, "i4,O"), np.zeros(2, "V3")):
        with pytest.raises(TypeError):
            da.asarray(values)


def test_testing_and_printing(four: Any) -> None:
    x = da.arange(6.0).reshape(2, 3)
    da.testing.assert_allclose(x, np.arange(6.0).reshape(2, 3))
    da.testing.assert_array_equal(x, x)
    with pytest.raises(AssertionError):
        da.testing.assert_allclose(x, x + 1)
    with da.printoptions(precision=2), da.errstate(all="ignore"):
        assert da.array2string(x / 3) == np.array2string(x.get() / 3, precision=2)


def test_positional_dtypes(four: Any) -> None:
    for m in (np, da):
        assert m.asarray([1, 2], m.float32, "C").dtype == np.float32
        assert m.asanyarray([1, 2], float).dtype == np.float64
        assert m.ascontiguousarray(3).shape == (1,)
        assert m.require([1, 2], float, ["C", "W"]).dtype == np.float64
        assert m.asfortranarray([[1, 2]]).shape == (1, 2)
        with pytest.raises(ValueError, match="infs or NaNs"):
            m.asarray_chkfinite([1.0, m.nan])


# --- grids ------------------------------------------------------------------------------------------------------------

V, M = np.arange(5.0), np.arange(6).reshape(2, 3)
GRIDS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "mgrid": lambda m, v, a: m.mgrid[0:3, 1:9:2], "mgrid points": lambda m, v, a: m.mgrid[0:1:5j, -1:1:3j],
    "mgrid one": lambda m, v, a: m.mgrid[0:7], "mgrid points one": lambda m, v, a: m.mgrid[-1:1:9j],
    "mgrid empty": lambda m, v, a: m.mgrid[3:3, 0:2], "mgrid floats": lambda m, v, a: m.mgrid[0:1:0.3, 2:4, :2],
    "mgrid single point": lambda m, v, a: m.mgrid[2:5:1j, 0:2],
    "ogrid": lambda m, v, a: m.ogrid[0:3, 1:9:2], "ogrid points": lambda m, v, a: m.ogrid[0:1:5j, 0:2, 3:4],
    "ogrid one": lambda m, v, a: m.ogrid[1:4:0.5],
    "indices": lambda m, v, a: m.indices((3, 4)), "indices sparse": lambda m, v, a: m.indices((3, 4), sparse=True),
    "indices float": lambda m, v, a: m.indices((2, 0, 3), dtype=float), "indices none": lambda m, v, a: m.indices(()),
    "kaiser": lambda m, v, a: [m.kaiser(n, 14.0) for n in (0, 1, 2, 11)],
    "mask_indices": lambda m, v, a: m.mask_indices(4, m.triu, 1),
    "r_": lambda m, v, a: m.r_[v, 0, 0, v], "r_ slices": lambda m, v, a: m.r_[0:3, 5, v, -1:1:5j],
    "r_ rows": lambda m, v, a: m.r_[a, a], "r_ axis": lambda m, v, a: m.r_["-1", a, a],
    "r_ axis 0": lambda m, v, a: m.r_["0,2", v, v],
    "r_ places": lambda m, v, a: m.r_["0,2,0", v, v], "r_ three": lambda m, v, a: m.r_["1,3,1", v, v, 0:5],
    "r_ weak": lambda m, v, a: m.r_[a.astype("f4")[0], 1.5, 2], "r_ numbers": lambda m, v, a: m.r_[1, 2.5, 3],
    "r_ lists": lambda m, v, a: m.r_[[1, 2], v], "c_": lambda m, v, a: m.c_[v, v], "c_ mixed": lambda m, v, a: m.c_[a, [[7], [8]]],
    "c_ slices": lambda m, v, a: m.c_[0:5, v], "c_ one": lambda m, v, a: m.c_[v],
    **{w: lambda m, v, a, w=w: [getattr(m, w)(n) for n in (0, 1, 2, 11)] for w in ("bartlett", "blackman", "hamming", "hanning")},
}  # fmt: skip


@pytest.mark.parametrize("name", GRIDS)
def test_grids_and_joins(name: str, four: Any) -> None:
    expected = GRIDS[name](np, V, M)
    for layout in (da.blocks(0), da.cyclic(0, 1), da.replicated()):
        same(GRIDS[name](da, da.asarray(V, layout=layout), da.asarray(M, layout=layout)), expected)


def test_joins_gather_nothing(four: Any) -> None:
    x = da.arange(4000.0, layout=da.blocks(0))
    with da.ledger() as moves:
        joined = da.r_[x, 1.0, x].evaluate()
    assert joined.layout.index_map.is_disjoint
    assert moves.bytes_to_host == 0


@pytest.mark.parametrize("key", ["r", "c", ("spam", V), (V, "r"), ()])
def test_what_r_refuses(key: Any, four: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        da.r_[key]


# --- ufuncs -----------------------------------------------------------------------------------------------------------


def test_ufuncs_say_what_numpys_say() -> None:
    for name in elementwise.NAMES:
        ours, numpys = getattr(da, name), getattr(np, name)
        for attribute in ("nin", "nout", "nargs", "ntypes", "types", "identity", "signature", "__name__"):
            assert getattr(ours, attribute) == getattr(numpys, attribute)
        assert repr(ours) == repr(numpys)
        assert pickle.loads(pickle.dumps(ours)) is ours is copy.deepcopy(ours)
        assert not {n for n in dir(numpys) if not n.startswith("_")} - set(dir(ours))
        assert "Communication" in ours.__doc__


METHODS: dict[str, Callable[[Any, Any], Any]] = {
    "reduce": lambda m, a: m.add.reduce(a), "reduce axes": lambda m, a: m.maximum.reduce(a, axis=(0, 1), keepdims=True),
    "accumulate": lambda m, a: m.maximum.accumulate(a, axis=1), "reduceat": lambda m, a: m.add.reduceat(a, [0, 2, 1], axis=1),
    "outer": lambda m, a: m.subtract.outer(a, [1, 2]),
    "resolve": lambda m, a: m.add.resolve_dtypes((a.dtype, a.dtype, None))[2].num,
    "two": lambda m, a: m.divmod(a, 4), "out": lambda m, a: m.add(a, 1, m.empty(a.shape, a.dtype)),
    "where": lambda m, a: m.add(a, 1, out=m.zeros(a.shape, a.dtype), where=a > 2),
    "dtype": lambda m, a: m.add(a, 1, dtype=m.float32),
}  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_methods_of_ufuncs(name: str, four: Any) -> None:
    a = np.arange(12).reshape(3, 4)
    expected = METHODS[name](np, a)
    same(METHODS[name](da, a), expected)
    for layout in (da.blocks(0), da.blocks(1)):
        same(METHODS[name](da, da.asarray(a, layout=layout)), expected)


def test_at_writes(four: Any) -> None:
    for x in (da.zeros(4), np.zeros(4)):
        da.add.at(x, [0, 0, 2], [1.0, 2.0, 5.0])
        same(x, np.array([3.0, 0, 5, 0]))


@pytest.mark.parametrize("name", ["matmul", "vecdot", "matvec", "vecmat"])
def test_products_say_what_numpys_say(name: str, four: Any) -> None:
    ours, numpys = getattr(da, name), getattr(np, name)
    assert isinstance(ours, da.ufunc)
    for attribute in ("nin", "nout", "nargs", "ntypes", "types", "identity", "signature", "__name__"):
        assert getattr(ours, attribute) == getattr(numpys, attribute)
    assert pickle.loads(pickle.dumps(ours)) is ours is copy.deepcopy(ours)
    assert "Communication" in ours.__doc__
    a = np.ones((3, 3))
    for method, arguments in (
        ("reduce", (a,)), ("accumulate", (a,)), ("reduceat", (a, [0])), ("outer", (a, a)), ("at", (a, [0], a)),
    ):  # fmt: skip
        with pytest.raises((RuntimeError, TypeError)) as theirs:
            getattr(numpys, method)(*arguments)
        with pytest.raises(theirs.type):
            getattr(ours, method)(*arguments)
        with pytest.raises(theirs.type):
            getattr(numpys, method)(da.asarray(a), *arguments[1:])


def test_wrong_calls_of_ufuncs(four: Any) -> None:
    with pytest.raises(TypeError):
        da.add(1)
    with pytest.raises(TypeError):
        da.add(1, 2, 3, 4)
    with pytest.raises(ValueError, match="outer product"):
        da.sin.outer([1], [2])
    with pytest.raises(AttributeError, match="has no attribute 'spam'"):
        da.add.spam  # noqa: B018 - the look-up is what raises


def _pair(a: float) -> tuple[float, int]:
    return a / 2, int(a) % 2


@pytest.mark.parametrize("layout", [da.blocks(0), da.blocks(1), da.replicated(), {0: [slice(0, 2)], 1: [slice(1, 3)]}])
def test_python_functions_run_chunk_by_chunk(layout: Any, four: Any) -> None:
    a = np.arange(12.0).reshape(3, 4)
    x = da.asarray(a, layout=layout)
    add = np.frompyfunc(lambda p, q: p + 2 * q, 2, 1)
    same(add(x, a[0]), add(a, a[0]).astype(float))
    same(add(x[0], x), add(a[0], a).astype(float))
    same(add(x, 3), add(a, 3).astype(float))
    same(da.frompyfunc(_pair, 1, 2)(x)[1], np.frompyfunc(_pair, 1, 2)(a)[1].astype(int))
    for options in ({}, {"otypes": "d"}, {"excluded": {1}}):
        function = [m.vectorize(lambda p, q: p * 2.5 if p > q else q, **options) for m in (np, da)]
        same(function[1](x, 4.0), function[0](a, 4.0))
    same(da.vectorize(_pair)(x), np.vectorize(_pair)(a))
    same(da.vectorize(lambda p, k=1: p + k)(x, k=x[0]), np.vectorize(lambda p, k=1: p + k)(a, k=a[0]))

    @da.vectorize(otypes=[float])
    def half(p: float) -> float:
        """Half of it."""
        return p / 2

    same(half(x), a / 2)
    same(half(x[:0]), a[:0])
    assert half.__doc__ == "Half of it."


def test_python_functions_that_return_no_numbers_are_refused(four: Any) -> None:
    x = da.arange(3)
    with pytest.raises(TypeError, match="hold numbers"):
        np.frompyfunc(str, 1, 1)(x)
    with pytest.raises(TypeError, match="hold numbers"):
        da.vectorize(str)(x)
    with pytest.raises(ValueError, match="size 0"):
        da.vectorize(abs)(x[:0])
    with pytest.raises(ValueError, match="size 0"):
        da.vectorize(sum, signature="(n)->()")(da.ones((0, 3)))
    with pytest.raises(ValueError, match="inconsistent size"):
        da.vectorize(np.dot, signature="(n),(n)->()")(x, x[1:])
    with pytest.raises(ValueError, match="not have enough dimensions"):
        da.vectorize(np.dot, signature="(n),(n)->()")(x, 1.0)
    with pytest.raises(TypeError, match="expected 2, got 1"):
        da.vectorize(np.dot, signature="(n),(n)->()")(x)
    with pytest.raises(TypeError, match="hold numbers"):
        da.vectorize(lambda v: str(v), signature="(n)->()")(x)


# --- programs ---------------------------------------------------------------------------------------------------------


def heat(np: Any) -> Any:
    """A plate that cools: stencils in place, a loop on a residual."""
    u = np.zeros((24, 24), dtype=np.float64)
    u[0, :], u[:, -1] = 1.0, np.linspace(1, 0, 24)
    steps = 0
    while True:
        new = u.copy()
        new[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
        change = np.abs(new - u).max()
        u, steps = new, steps + 1
        if change < np.float64(5e-3):
            return u, np.array(steps, dtype=np.int64)


def mandelbrot(np: Any) -> Any:
    """Open grids, masks, complex numbers, where=."""
    y, x = np.ogrid[-1.2:1.2:20j, -2:0.6:26j]
    c = x + 1j * y
    z, count = np.zeros(c.shape, dtype=np.complex128), np.zeros(c.shape, dtype=np.int32)
    for _ in range(12):
        alive = np.abs(z) <= 2
        z = np.where(alive, z * z + c, z)
        np.add(count, 1, out=count, where=alive)
    assert isinstance(count, np.ndarray)
    assert np.issubdtype(count.dtype, np.integer)
    return count, z.real.sum(), np.maximum.accumulate(count, axis=0)[-1]


def fit(np: Any) -> Any:
    """A polynomial by least squares: joins, products, solving, flat, index expressions."""
    t = np.r_[0:1:40j, 1.5]
    noise = np.sin(17 * t) * 0.01
    y = 3 - 2 * t + 0.5 * t**2 + noise
    a = np.c_[np.ones_like(t), t, np.square(t)]
    weights = np.vectorize(lambda v: 1.0 if v < 1 else 0.5)(t)
    normal = (a * weights[:, np.newaxis]).T @ a
    beta = np.linalg.solve(normal, a.T @ (weights * y))
    residual = y - a @ beta
    worst = np.argsort(np.abs(residual))[np.s_[-3:]]
    a.flat[::4] = 0
    table = np.multiply.outer(beta, np.array([1, 10], dtype=np.float32))
    with np.errstate(divide="ignore"):
        logs = np.log(np.maximum(np.abs(residual), np.finfo(np.float64).tiny))
    return beta, residual[worst], a, table, logs.mean(), np.pi * np.e, np.add.reduce(a, axis=1)


@pytest.mark.parametrize("program", [heat, mandelbrot, fit])
def test_programs_run_unchanged(program: Callable[[Any], Any], four: Any) -> None:
    for got, expected in zip(program(da), program(np), strict=True):
        got = host(got)
        assert np.asarray(got).dtype == np.asarray(expected).dtype
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)
