"""Fourier transforms say as the error state asks that they overflow, which their library does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import distarray as da

STATES = [
    {"over": "raise", "invalid": "ignore"}, {"invalid": "raise", "over": "ignore"}, {"all": "raise", "under": "ignore"},
]  # fmt: skip
NAMES = ["fft", "ifft", "rfft", "irfft", "hfft", "fft2", "rfftn"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("layout", [da.blocks(0), da.blocks(1), da.replicated()], ids=str)
def test_errors_are_raised(name: str, layout: Any) -> None:
    def said(x: Any, **state: Any) -> Any:
        try:
            with np.errstate(**state):
                getattr(np.fft, name)(x)
        except FloatingPointError as error:
            return str(error).partition(" encountered in ")[0]
        return None

    with da.init(devices=3, kind="host", minimum_chunk=1):
        for value in (1e308, 1.0, np.inf, np.nan):
            h = np.ones((6, 8)) if name.startswith("i") else np.full((6, 8), value)
            h[2, :] = value
            for state in STATES:
                assert said(da.asarray(h, layout=layout), **state) == said(h, **state), (value, state)
