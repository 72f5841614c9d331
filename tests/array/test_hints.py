"""Hints on loops over elements."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import distarray as da
from distarray.array.hints import MANY


@pytest.mark.parametrize("layout", [None, da.blocks(0)])
def test_a_line_that_reads_elements_is_named_once(monkeypatch: Any, layout: Any) -> None:
    monkeypatch.setenv("DISTARRAY_HINTS", "1")
    with da.init(devices=2, kind="host", minimum_chunk=1 << 16), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        x = da.asarray(np.ones((3, 4)), layout=layout)
        for _ in range(2 * MANY):
            x[1, 2]
        x[0] += 1
    (hint,) = caught
    assert hint.category is da.errors.PerformanceHint
    assert hint.filename == __file__
    assert "[1, 2]" in str(hint.message)
    assert "x[:, :]" in str(hint.message)


def test_no_hint_unless_asked_for() -> None:
    with da.init(devices=2, kind="host"):
        x = da.asarray(np.ones(3))
        for _ in range(MANY + 1):  # a warning is an error here
            x[1] = 2
        assert x.get().tolist() == [1, 2, 1]


def test_slices_give_no_hint(monkeypatch: Any) -> None:
    monkeypatch.setenv("DISTARRAY_HINTS", "1")
    with da.init(devices=2, kind="host", minimum_chunk=1 << 16):
        x = da.asarray(np.ones((3, 4)))
        for _ in range(MANY + 1):
            x[1]
