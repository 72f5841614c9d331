"""einops takes distributed arrays, whichever of the two is imported first."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import distarray as da

einops = pytest.importorskip("einops", reason="einops is in the extra 'test'")

HOST = np.arange(2 * 6 * 4.0).reshape(2, 6, 4)
CALLS: dict[str, Callable[[Any], Any]] = {
    "permute": lambda x: einops.rearrange(x, "a b c -> c a b"),
    "split": lambda x: einops.rearrange(x, "a (b k) c -> (a k) b c", k=3),
    "merge": lambda x: einops.rearrange(x, "a b c -> (a c) b"),
    "new axis": lambda x: einops.rearrange(x, "a b c -> a 1 (b c)"),
    "list": lambda x: einops.rearrange([x, x + 1], "n a b c -> (n a) b c"),
    "mean": lambda x: einops.reduce(x, "a (b k) c -> a b", "mean", k=2),
    "max": lambda x: einops.reduce(x, "a b c -> c", "max"),
    "repeat": lambda x: einops.repeat(x, "a b c -> a (b k) c n", k=2, n=3),
    "einsum": lambda x: einops.einsum(x, x, "a b c, a b d -> c d"),
    "pack": lambda x: einops.pack([x, x[:, 0]], "a * c")[0],
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("layout", [da.blocks(0), da.blocks(1), da.replicated()], ids=str)
def test_calls(name: str, layout: Any, four: Any) -> None:
    found, wanted = CALLS[name](da.asarray(HOST, layout=layout)), CALLS[name](HOST)
    assert isinstance(found, da.DistributedArray)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found.get(), wanted)


@pytest.mark.parametrize("order", ["einops, distarray", "distarray, einops"])
def test_either_is_imported_first(order: str) -> None:
    code = f"""
import {order}
import sys
x = distarray.zeros((2, 3))
assert einops.rearrange(x, "a b -> b a").shape == (3, 2)
assert not any("distarray" in type(finder).__module__ for finder in sys.meta_path)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
