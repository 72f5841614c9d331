"""``repr`` beside NumPy's, of a class of NumPy's arrays that has the same name."""

from __future__ import annotations

import numpy as np
import pytest

import distarray as da

HAS_SHAPES = np.lib.NumpyVersion(np.__version__) >= "2.2.0"
"""From NumPy 2.2 on the shape is printed where elements are left out."""


class DistributedArray(np.ndarray):
    pass


@pytest.mark.parametrize("options", [{}, {"threshold": 5, "linewidth": 50}, {"precision": 3, "edgeitems": 1}])
def test_repr(options: dict[str, int]) -> None:
    arrays = [
        np.arange(3).astype("M8[D]"), np.arange(7).astype("M8[m]"), np.array(3, "m8[s]"), np.zeros(0, "M8[D]"), np.zeros((0, 3)),
        np.arange(3, dtype=">i8"), np.arange(40, dtype="f4").reshape(4, 10), np.zeros(3, [("a", "i4"), ("b", "f8")]),
        np.arange(10.0) ** 9, np.zeros(30, "u1"), np.array(2j), np.arange(3000).reshape(30, 100), np.arange(2000).astype("M8[s]"),
    ]  # fmt: skip
    with da.init(devices=3, kind="host"), np.printoptions(**options):
        for a in arrays:
            if HAS_SHAPES or a.size <= np.get_printoptions()["threshold"]:
                assert repr(da.asarray(a)) == repr(a.view(DistributedArray))
