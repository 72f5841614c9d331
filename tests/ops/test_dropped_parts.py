"""Imaginary parts that are dropped are said, as by NumPy, whatever function drops them and wherever it runs from."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import distarray as da

H = np.array([[1 + 1j, 2], [3, 4 - 2j]])
UNSAFE: dict[str, Any] = {"casting": "unsafe"}
DROPS: dict[str, Callable[[Any, Any], Any]] = {
    "concatenate": lambda x, z: np.concatenate([x, x], dtype=float, **UNSAFE),
    "concatenate into": lambda x, z: np.concatenate([x[:1], x[1:]], out=z, **UNSAFE),
    "stack": lambda x, z: np.stack([x, z], dtype="f4", **UNSAFE),
    "vstack": lambda x, z: np.vstack([x, x], dtype=int, **UNSAFE),
    "linspace": lambda x, z: np.linspace(x[0], x[1], 3, dtype=float),
    "cov": lambda x, z: np.cov(x, dtype=float),
    "corrcoef": lambda x, z: np.corrcoef(x, dtype=float),
    "sum": lambda x, z: np.sum(x, axis=0, dtype=float),
    "cumsum": lambda x, z: np.cumsum(x, dtype=float),
    "copyto": lambda x, z: np.copyto(z, x, "unsafe"),
    "element": lambda x, z: z.__setitem__((0, 1), x[0, 1, ...]),
    "row": lambda x, z: z.__setitem__(0, x[0]),
    "positions": lambda x, z: z.__setitem__([1, 0], x),
    "mask": lambda x, z: z.__setitem__(z == 0, x.reshape(-1)),
    "astype": lambda x, z: x.astype("i4"),
    "multiply": lambda x, z: np.multiply(x, 1, dtype=float, **UNSAFE),
    "out=": lambda x, z: np.multiply(x, 1, out=z, **UNSAFE),
    "reduced into": lambda x, z: np.add.reduce(x, out=z[0]),
    "accumulated into": lambda x, z: np.multiply.accumulate(x, out=z),
    "averaged into": lambda x, z: np.mean(x, axis=0, out=z[0]),
    "added at": lambda x, z: np.add.at(z, [0, 0], x),
    "multiplied at": lambda x, z: np.multiply.at(z, ([0, 0, 1], [1, 1, 0]), 1j),
    "a host number": lambda x, z: z.__setitem__((0, 1), np.complex64(1 + 2j)),
    "host numbers": lambda x, z: z.__setitem__(0, [np.complex64(1 + 2j), 3]),
    "numbers in a list": lambda x, z: z.__setitem__(0, [x[0, 0], x[0, 1]]),
    "a number into a host array": lambda x, z: np.asarray(np.full(2, x[0, 0], dtype=float)),
    "float": lambda x, z: np.float64(float(x[0, 0]) + int(x[0, 1])),
}


@pytest.mark.parametrize("name", DROPS)
@pytest.mark.parametrize("layout", [None, da.blocks(0), da.cyclic(1), da.replicated()], ids=str)
def test_as_numpy_says(name: str, layout: Any) -> None:
    def said(x: Any, z: Any) -> Any:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = DROPS[name](x, z)
        return {(w.category, w.filename) for w in caught}, np.asarray(z if result is None else result)

    with da.init(devices=3, kind="host", minimum_chunk=1):
        expected, values = said(H.copy(), np.zeros((2, 2)))
        found, got = said(da.asarray(H, layout=layout), da.zeros((2, 2), layout=layout))
    assert (
        {category for category, _ in found} == {np.exceptions.ComplexWarning} == {category for category, _ in expected}
    )
    assert {file for _, file in found} == {__file__}
    np.testing.assert_allclose(got, values)
    assert got.dtype == values.dtype
