"""Products of small matrices in one launch: the kernel's source without a GPU; with one, its results and who takes it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import distarray as da
from conformance.checking import on_gpu
from distarray.devices.small_products import LONGEST, MOST, PIECES, small_product, source_of

FLOAT = np.dtype("float32")


@pytest.mark.parametrize("pieces", [1, 2, PIECES])
def test_sources_declare_what_they_are_passed(pieces: int) -> None:
    for dtype in (FLOAT, np.dtype("float64")):
        source, fields = source_of(dtype, pieces)
        assert source.count("{") == source.count("}") and source.count("(") == source.count(")")
        assert len(fields) == 2 * pieces + 4
        assert source.count("if (k >= a.e") == pieces - 1


def test_others_are_left_to_blas() -> None:
    assert small_product(None, FLOAT, MOST, 2, 1, (1,)) is None
    assert small_product(None, FLOAT, 1, 1, LONGEST + 1, (LONGEST + 1,)) is None
    assert small_product(None, np.dtype("complex64"), 2, 2, 2, (2,)) is None
    assert small_product(None, FLOAT, 0, 2, 2, (2,)) is None


@pytest.mark.skipif(not on_gpu(), reason="kernels of GPUs")
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("sizes", [(64, 64, 64), (1, 5, 3), (17, 33, 100), (40, 2, 300), (3, 200, 16)])
def test_products_are_right_and_the_same_each_time(sizes: tuple[int, int, int], dtype: str) -> None:
    rows, summed, columns = sizes
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((rows, summed)).astype(dtype), rng.standard_normal((summed, columns)).astype(dtype)
    a[0, 0] = np.inf
    close = 1e-5 if dtype == "f4" else 1e-13
    with np.errstate(invalid="ignore"):
        wanted = a @ b
    for devices in (1, 2, 5):
        with da.init(devices=devices, kind="cuda"):
            x, y = da.asarray(a, layout=da.blocks(0)), da.asarray(b, layout=da.blocks(0))
            found: list[Any] = [(x @ y).get() for _ in range(8)]  # by a plan, by what it left, as a graph
            with da.ledger() as counted:
                found.append((x @ y).get())
            assert sizes[0] != 64 or devices == 1 or counted.bytes_moved > 0
        np.testing.assert_allclose(found[0], wanted, rtol=close, atol=close)
        assert all(other.tobytes() == found[0].tobytes() for other in found[1:])


@pytest.mark.skipif(not on_gpu(), reason="kernels of GPUs")
def test_a_product_reads_what_its_factors_hold_now() -> None:
    with da.init(devices=2, kind="cuda"):
        x = da.asarray(np.ones((64, 64), "f4"), layout=da.blocks(0))
        for turn in range(8):
            x[3:5] = turn
            np.testing.assert_array_equal((x @ x).get(), x.get() @ x.get())
