"""What rearranges an array at random refuses axes, shapes and dtypes as NumPy's generator does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import distarray as da

CALLS: dict[str, Any] = {
    "shuffle, axis": lambda r, x: r.shuffle(x, axis=1),
    "shuffle, negative axis": lambda r, x: r.shuffle(x, axis=-2),
    "shuffle, no integer": lambda r, x: r.shuffle(x, axis=1.5),
    "shuffle, bool": lambda r, x: r.shuffle(x, axis=True),
    "shuffle, 0-d": lambda r, x: r.shuffle(x[0, ...]),
    "permutation, axis": lambda r, x: r.permutation(x, axis=1),
    "permutation, None": lambda r, x: r.permutation(x, axis=None),
    "permutation, 0-d": lambda r, x: r.permutation(x[0, ...]),
    "permutation, negative": lambda r, x: r.permutation(-1),
    "permuted, axis": lambda r, x: r.permuted(x, axis=-2),
    "permuted, 0-d": lambda r, x: r.permuted(x[0, ...]),
    "permuted, shape": lambda r, x: r.permuted(x, out=x[:3]),
    "permuted, dtype": lambda r, x: r.permuted(x, out=x.astype("f4")),
    "choice, 0-d": lambda r, x: r.choice(x[0, ...], 2),
    "choice, nothing of nothing": lambda r, x: r.choice(x[:0], 0),
    "choice, nothing": lambda r, x: r.choice(x[:0], 2),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("layout", [da.blocks(0), da.replicated()], ids=str)
def test_as_numpy_refuses(name: str, layout: Any) -> None:
    def done(generator: Any, x: Any) -> Any:
        try:
            result = CALLS[name](generator, x)
        except Exception as error:
            return type(error)
        return None if result is None else (result.shape, result.dtype)

    h = np.arange(6.0)
    with da.init(devices=3, kind="host", minimum_chunk=1):
        assert done(da.random.default_rng(0), da.asarray(h, layout=layout)) == done(np.random.default_rng(0), h)
