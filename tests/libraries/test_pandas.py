"""pandas takes distributed arrays as columns and operands, and ours take its series."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import distarray as da

pd = pytest.importorskip("pandas", reason="pandas is in the extra 'test'")

HOST = np.arange(24.0).reshape(6, 4)
CALLS: dict[str, Callable[[Any], Any]] = {
    "frame": lambda x: pd.DataFrame(x).sum(),
    "columns": lambda x: pd.DataFrame({"a": x[:, 0], "b": x[:, 1]}).mean(),
    "assigned": lambda x: pd.DataFrame(HOST).assign(z=x[:, 0])["z"],
    "series": lambda x: pd.Series(x[0]),
    "series + x": lambda x: pd.Series(HOST[0]) + x[0],
    "x + series": lambda x: x[0] + pd.Series(HOST[0]),
    "add": lambda x: np.add(x[0], pd.Series(HOST[0])),
    "index": lambda x: pd.Index(x[0]),
    "cut": lambda x: pd.cut(x[0], 2).codes,
    "dates": lambda x: pd.to_datetime(x[0]),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str, four: Any) -> None:
    found, wanted = CALLS[name](da.asarray(HOST, layout=da.blocks(0))), CALLS[name](HOST)
    assert type(found) is type(wanted)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))


def test_frames_and_series_are_distributed(four: Any) -> None:
    np.testing.assert_array_equal(da.asarray(pd.DataFrame(HOST), layout=da.blocks(0)).get(), HOST)
    np.testing.assert_array_equal(da.asarray(pd.Series(HOST[0])).get(), HOST[0])
