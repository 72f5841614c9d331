"""Variances along lines that are cut: joined from parts, each taken from its own first element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import distarray as da
from distarray.algorithms.spreads import joined_source

LAYOUTS = {
    "rows": da.blocks(0),
    "columns": da.blocks(1),
    "cyclic": da.cyclic(0, 100),
    "uneven": {0: slice(0, 3), 1: slice(3, 700), 2: slice(700, 1000)},
    "overlapping": {0: slice(0, 600), 1: slice(400, 1000), 2: slice(0, 1000)},
    "replicated": da.replicated(),
    "on one": {1: slice(0, 1000)},
}


@pytest.mark.parametrize("parts", [1, 2, 16])
def test_sources_declare_what_they_are_passed(parts: int) -> None:
    for root in (False, True):
        source, fields = joined_source(parts, root)
        assert source.count("{") == source.count("}") and source.count("(") == source.count(")")
        assert fields == "P" * parts + "Pqd" + "d" * parts and f"n{parts - 1}" in source


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shift", [0.0, 3e4])
def test_variances_of_cut_lines(ctx: Any, layout: str, shift: float) -> None:
    host = (np.random.default_rng(3).standard_normal((1000, 37)) + shift).astype("f4")
    with ctx(3):
        x = da.asarray(host, layout=LAYOUTS[layout])
        exact = host.astype("f8")
        for axis in (None, 0, 1, (0, 1)):
            for keepdims in (False, True):
                for ddof in (0, 1):
                    for name in ("var", "std"):
                        mine = getattr(x, name)(axis=axis, keepdims=keepdims, ddof=ddof)
                        wanted = getattr(exact, name)(axis=axis, keepdims=keepdims, ddof=ddof)
                        assert mine.dtype == np.float32 and mine.shape == np.shape(wanted)
                        np.testing.assert_allclose(mine.get(), wanted, rtol=2e-2 if shift else 2e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_no_number_stays_none_and_equal_numbers_vary_by_nothing(ctx: Any, layout: str) -> None:
    host = np.full((1000, 6), 0.1, "f4")
    host[500, 1], host[0, 2], host[999, 3], host[:, 4] = np.nan, np.inf, -np.inf, 1e30
    with ctx(3) as context, np.errstate(all="ignore"):
        x = da.asarray(host, layout=LAYOUTS[layout])
        found = x.var(axis=0).get()
        assert np.isnan(found[1:4]).all()
        if context.kind == "cuda":  # in single precision NumPy's own mean of equal numbers is not quite theirs
            np.testing.assert_array_equal(found[[0, 4, 5]], 0)
