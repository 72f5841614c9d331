"""Products of which an operand comes in panels while devices multiply."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import distarray as da
from distarray.algorithms import product, rounds


@pytest.fixture
def panels(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """All products that may come so do; the steps of each."""
    monkeypatch.setattr(rounds, "WORTH", 1)
    monkeypatch.setattr(rounds, "PAIRS_A_BYTE", 0)
    monkeypatch.setattr(rounds, "BROAD", 64)
    monkeypatch.setattr(product, "_several_gpus", lambda context: True)
    steps: list[int] = []
    made = product.plan

    def planned(*given: Any, **named: Any) -> Any:
        found = made(*given, **named)
        steps.append(len(found.steps) if found.ahead else 0)
        return found

    monkeypatch.setattr(product, "plan", planned)
    return steps


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", "c8"])
@pytest.mark.parametrize("devices", [2, 3])
def test_products_in_panels_are_numpys(panels: list[int], devices: int, dtype: str) -> None:
    rng = np.random.default_rng(3)
    with da.init(devices=devices, kind="host"):
        for first, second, by in ((0, 0, False), (0, 0, True), (1, 1, False)):
            a, b = (rng.integers(-4, 5, shape).astype(dtype) for shape in ((520, 40), (40, 530)))
            x, y = da.asarray(a, layout=da.blocks(first)), da.asarray(b, layout=da.blocks(second))
            if by:
                y = da.asarray(np.ascontiguousarray(b.T), layout=da.blocks(1)).T
            np.testing.assert_array_equal((x @ y).get(), a @ b)
    assert 3 in panels
