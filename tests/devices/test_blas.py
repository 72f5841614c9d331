"""The host's BLAS on matrices in every order, with gaps and without, and the count of threads that it may use."""

from __future__ import annotations

import itertools
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from distarray.devices import blas

LAYS = ("rows", "columns", "rows of more", "columns of more", "strided", "backwards")
TOLERANCE = {"f": 1e-3, "F": 1e-3, "d": 1e-11, "D": 1e-11}


def laid(a: np.ndarray, lay: str) -> np.ndarray:
    """The same values, lying in another way."""
    m, n = a.shape
    if lay == "columns":
        return a.copy(order="F")
    if lay == "rows of more":
        wide = np.zeros((m + 3, n + 5), a.dtype)
        found = wide[1 : m + 1, 2 : n + 2]
    elif lay == "columns of more":
        found = np.zeros((n + 5, m + 3), a.dtype)[2 : n + 2, 1 : m + 1].T
    elif lay == "strided":
        found = np.zeros((2 * m, 3 * n), a.dtype)[::2, ::3]
    elif lay == "backwards":
        found = np.zeros((m, n), a.dtype)[::-1]
    else:
        found = np.empty((m, n), a.dtype)
    found[...] = a
    return found


def made(rng: np.random.Generator, shape: tuple[int, int], dtype: str) -> Any:
    a = rng.standard_normal(shape)
    return (a + 1j * rng.standard_normal(shape) if dtype in "FD" else a).astype(dtype)


@pytest.mark.parametrize("dtype", "fdFD")
@pytest.mark.parametrize(("m", "k", "n"), [(3, 4, 5), (1, 4, 5), (3, 1, 5), (3, 4, 1), (1, 1, 1), (2, 0, 3)])
def test_a_product_is_subtracted_where_the_matrix_lies(dtype: str, m: int, k: int, n: int) -> None:
    rng = np.random.default_rng(m + k + n)
    into, left, right = (made(rng, shape, dtype) for shape in ((m, n), (m, k), (k, n)))
    wanted = into - left @ right
    for first, second, third in itertools.product(LAYS, repeat=3):
        target = laid(into, third)
        done = blas.subtract(target, laid(left, first), laid(right, second))
        assert done or third in ("strided", "backwards")
        np.testing.assert_allclose(target, wanted if done else into, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def test_what_lies_beside_a_matrix_is_not_written() -> None:
    wide = np.ones((6, 7))
    assert blas.subtract(wide[1:4, 2:5], np.full((3, 2), 2.0), np.full((2, 3), 3.0))
    assert (wide[1:4, 2:5] == -11).all()
    wide[1:4, 2:5] = 1
    assert (wide == 1).all()


def test_integers_are_not_subtracted() -> None:
    into = np.ones((2, 2), int)
    assert not blas.subtract(into, into.copy(), into.copy())
    assert (into == 1).all()


@pytest.mark.parametrize("dtype", "fdFD")
@pytest.mark.parametrize("shape", [(4, 5), (1, 3), (5, 1), (1, 1)])
def test_triangular_matrices_are_solved_with_in_every_order(dtype: str, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(sum(shape))
    a, b = made(rng, (shape[0], shape[0]), dtype) + 5 * np.eye(shape[0], dtype=dtype), made(rng, shape, dtype)
    for lower, unit in itertools.product((False, True), repeat=2):
        triangle = np.tril(a) if lower else np.triu(a)
        if unit:
            np.fill_diagonal(triangle, 1)
        wanted = np.linalg.solve(triangle, b)
        for first, second in itertools.product(LAYS, repeat=2):
            sides = laid(b, second)
            found = blas.solve_triangular(laid(a, first), sides, lower=lower, unit=unit)
            assert found is sides or second in ("strided", "backwards")
            np.testing.assert_allclose(found, wanted, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


def test_a_library_that_comes_later_is_limited_too() -> None:
    program = (
        "import sys, numpy as np\n"
        "from threadpoolctl import ThreadpoolController, threadpool_info\n"
        "from distarray.devices.workers import Workers\n"
        "workers = Workers(cores=2)\n"
        "with workers.limit_blas(2): assert 'scipy.linalg' not in sys.modules\n"
        "import scipy.linalg\n"
        "for library in ThreadpoolController().lib_controllers: library.set_num_threads(2)\n"
        "with workers.limit_blas(2):\n"
        "    found = [library['num_threads'] for library in threadpool_info() if library['user_api'] == 'blas']\n"
        "assert set(found) == {1}, found\n"
        "after = [library['num_threads'] for library in threadpool_info() if library['user_api'] == 'blas']\n"
        "assert set(after) == {2}, after\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
