"""joblib runs calls on distributed arrays in threads, keeps what they return, and dumps arrays to files."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import distarray as da

joblib = pytest.importorskip("joblib", reason="joblib is in the extra 'test'")

HOST = np.arange(24.0).reshape(6, 4)


def total(x: Any) -> float:
    return float(x.sum())


@pytest.mark.parametrize("backend", ["sequential", "threading"])
def test_parallel_calls(backend: str, four: Any) -> None:
    x = da.asarray(HOST, layout=da.blocks(0))
    found = joblib.Parallel(2, backend=backend)(joblib.delayed(total)(x * i) for i in range(6))
    assert found == [HOST.sum() * i for i in range(6)]


@pytest.mark.parametrize("compress", [0, 3])
def test_dump_and_load(compress: int, tmp_path: Any, four: Any) -> None:
    x = da.asarray(HOST, layout=da.blocks(0))
    joblib.dump({"a": x, "b": [x[1:]]}, tmp_path / "x.pkl", compress=compress)
    found = joblib.load(tmp_path / "x.pkl")
    assert isinstance(found["a"], da.DistributedArray)
    np.testing.assert_array_equal(found["a"].get(), HOST)
    np.testing.assert_array_equal(found["b"][0].get(), HOST[1:])


def test_memory_knows_equal_arrays(tmp_path: Any, four: Any) -> None:
    calls = []

    def double(x: Any) -> Any:
        calls.append(1)
        return x * 2

    kept = joblib.Memory(tmp_path, verbose=0).cache(double)
    for factor in (1, 1, 3):
        found = kept(da.asarray(HOST * factor, layout=da.blocks(0)))
        np.testing.assert_array_equal(found.get(), HOST * factor * 2)
    assert len(calls) == 2
