"""Edges of bins that have NaN among them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import distarray as da


@pytest.mark.parametrize("edges", [
    [1, 2, np.nan], [np.nan, 2, 1], [1, 1, 1], [np.nan, 1], [1, 2, 1], [3, 2, 2], [np.nan, np.nan], [2, np.nan, 1, 3], [1, 1, 2, 0],
    [],
    [2.0],
])  # fmt: skip
def test_edges_with_nan_are_in_order_where_numpys_are(edges: Any) -> None:
    points, bins = np.array([0, 1, 2.5, 9, np.nan]), np.array(edges, float)
    with da.init(devices=3, kind="host", minimum_chunk=1):
        found = lambda: np.digitize(da.asarray(points, layout=da.blocks()), da.asarray(bins, layout=da.blocks()))  # noqa: E731
        try:
            wanted = np.digitize(points, bins)
        except ValueError as error:
            with pytest.raises(ValueError, match=str(error)):
                found()
        else:
            assert found().tolist() == wanted.tolist()
