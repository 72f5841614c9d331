"""Edge cases that NumPy's own tests found (``conformance/numpy_tests.py``): shapes, dtypes and errors at functions' borders."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import distarray as da

RNG = np.random.default_rng(7)


@pytest.fixture(params=[1, None], ids=["cut", "whole"], autouse=True)
def context(request: pytest.FixtureRequest) -> Iterator[Any]:
    with da.init(devices=3, kind="host", minimum_chunk=request.param) as context:
        yield context


def raises_like(function: Callable[[Any], Any], *hosts: Any) -> None:
    """The same exception, with NumPy's words, of host arrays and of distributed ones."""
    with pytest.raises(Exception) as theirs:
        function(*hosts)
    with pytest.raises(type(theirs.value), match=re.escape(str(theirs.value).rstrip("."))):
        function(*[da.asarray(host) for host in hosts])


@pytest.mark.parametrize(
    ("shape", "indices", "axis"),
    [
        ((3, 4, 1), (1, 2, 5), 1),
        ((1, 4), (3, 6), 1),
        ((4, 1), (5, 3), 0),
        ((1, 5, 1, 2), (3, 4, 2, 2), 1),
        ((1, 3, 1), (2, 2, 0), 1),
        ((1, 3), (0, 2), 1),
    ],
)
def test_indices_broadcast_an_array_that_is_put_along(shape: Any, indices: Any, axis: int) -> None:
    host, index = RNG.random(shape), RNG.integers(-shape[axis], shape[axis], indices)
    values = RNG.random(np.broadcast_shapes((*shape[:axis], 1, *shape[axis + 1 :]), indices))
    x = da.asarray(host)
    np.put_along_axis(x, index, values, axis)
    np.put_along_axis(host, index, values, axis)
    np.testing.assert_array_equal(x.get(), host)


@pytest.mark.parametrize("dtype", ["M8[s]", "m8[ms]", "f4,i2", "g"])
@pytest.mark.parametrize("function", [np.tril, np.triu])
def test_triangles_of_every_dtype(dtype: str, function: Any) -> None:
    host = (
        np.frombuffer(RNG.bytes(12 * np.dtype(dtype).itemsize), dtype)
        if dtype == "f4,i2"
        else np.arange(1, 13).astype(dtype)
    )
    host = np.nan_to_num(host) if dtype == "g" else host
    found = function(da.asarray(host.reshape(4, 3)))
    assert found.dtype == host.dtype
    np.testing.assert_array_equal(found.get(), function(host.reshape(4, 3)))


@pytest.mark.parametrize("dtype", ["M8[s]", "m8[ms]"])
def test_diagonal_matrices_of_times(dtype: str) -> None:
    host = np.arange(1, 5).astype(dtype)
    np.testing.assert_array_equal(np.diag(da.asarray(host), 1).get(), np.diag(host, 1))


def test_complex_numbers_of_every_precision_are_sorted() -> None:
    for char in "bhilqBHILQefdgFDG":
        host = np.asarray([3, 1, 2], char)
        found = np.sort_complex(da.asarray(host))
        assert found.dtype == np.sort_complex(host).dtype


A, B, V = RNG.random((2, 3)), RNG.random((3, 4)), RNG.random(3)


@pytest.mark.parametrize(
    "call",
    [
        lambda a, b, v: np.unique(v, axis=0.0, equal_nan=False),
        lambda a, b, v: np.concatenate([a, v]),
        lambda a, b, v: np.einsum(a, [0, 52], b, [52, 2], [0, 2]),
        lambda a, b, v: np.einsum(a, [-1, 5], b, [5, 2], [-1, 2]),
        lambda a, b, v: np.einsum(a, [0, 1], b, [1, 2], [0, 52]),
        lambda a, b, v: np.einsum(a, [0, 1.5], b, [1, 2], [0, 2]),
        lambda a, b, v: np.einsum("a,a,a->a", v, v, v, optimize=["einsum_path", (1,), (0, 1)]),
        lambda a, b, v: np.einsum("ij,jk->ik", a, b, optimize=["einsum_path", (1,), (0,)]),
        lambda a, b, v: np.einsum("a,a,a->a", v, v, v, optimize=["einsum_path", (0, 5), (0, 1)]),
    ],
)
def test_errors_are_those_of_numpy(call: Callable[..., Any]) -> None:
    raises_like(call, A, B, V)
