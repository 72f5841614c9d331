"""xarray's objects hold distributed arrays: reductions that leave NaN out, groups, windows, coordinates, files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import distarray as da

xr = pytest.importorskip("xarray", reason="xarray is in the extra 'test'")
pd = pytest.importorskip("pandas", reason="pandas is in the extra 'test'")

pytestmark = pytest.mark.filterwarnings(
    "ignore:All-NaN slice", "ignore:Mean of empty slice", "ignore:Degrees of freedom"
)

HOST = np.random.default_rng(0).random((12, 6))
HOST[2, 3], HOST[5] = np.nan, np.nan
TIMES = pd.date_range("2020", periods=12, freq="MS")

CALLS: dict[str, Callable[[Any], Any]] = {
    "sel": lambda d: d.sel(t="2020-03"),
    "sel nearest": lambda d: d.sel(x=2.2, method="nearest"),
    "isel": lambda d: d.isel(t=[0, 2], x=1),
    "mask": lambda d: d[:, d.x.values > 2],
    "where": lambda d: d.where(d > 0.5, -1),
    "where drop": lambda d: d.where(d.x > 2, drop=True),
    "fillna": lambda d: d.fillna(0),
    "dropna": lambda d: d.dropna("t", how="all"),
    "diff": lambda d: d.diff("t"),
    "shift": lambda d: d.shift(t=1),
    "roll": lambda d: d.roll(t=2),
    "cumsum": lambda d: d.cumsum("t"),
    "quantile": lambda d: d.quantile([0.1, 0.5], "t"),
    "differentiate": lambda d: d.differentiate("x"),
    "integrate": lambda d: d.integrate("x"),
    "dot": lambda d: xr.dot(d.fillna(0), d.fillna(0), dim="t"),
    "stack": lambda d: d.stack(z=("t", "x")).unstack("z"),
    "concat": lambda d: xr.concat([d[:3], d[3:]], "t"),
    "arithmetic": lambda d: (d * 2 + d.mean("t")) ** 2,
    "alignment": lambda d: d[:8] + d[4:],
    "ufunc": np.sin,
    "apply_ufunc": lambda d: xr.apply_ufunc(lambda a: a.mean(-1), d, input_core_dims=[["t"]]),
    "weighted": lambda d: d.weighted(d.x + 1).mean("x"),
    "anomaly": lambda d: d.groupby("t.season") - d.groupby("t.season").mean(),
    "groupby map": lambda d: d.groupby("t.month").map(lambda g: g - g.mean()),
    "groupby_bins": lambda d: d.groupby_bins("x", [0, 2, 6]).mean(),
    "rolling construct": lambda d: d.rolling(t=3).construct("w"),
    "rolling of two": lambda d: d.rolling(t=3, x=2).mean(),
    "sortby": lambda d: d.sortby("x", ascending=False),
    "idxmax": lambda d: d.idxmax("x"),
    "clip": lambda d: d.clip(0.2, 0.8),
    "pad": lambda d: d.pad(x=(1, 2), mode="edge"),
    "reindex": lambda d: d.reindex(x=[0.0, 7.0]),
    "corr": lambda d: xr.corr(d, d * 2 + 1, "t"),
    "polyfit": lambda d: d.fillna(0).polyfit("x", 1).polyfit_coefficients,
    "dataset": lambda d: xr.Dataset({"a": d, "b": d * 2}).sum()["b"],
}
for _name in "mean sum min max std var median prod count".split():
    CALLS[_name] = lambda d, n=_name: getattr(d, n)()
    CALLS[f"{_name} t"] = lambda d, n=_name: getattr(d, n)("t")
    CALLS[f"groupby {_name}"] = lambda d, n=_name: getattr(d.groupby("t.season"), n)()
    CALLS[f"rolling {_name}"] = lambda d, n=_name: getattr(d.rolling(t=3), n)()
    CALLS[f"resample {_name}"] = lambda d, n=_name: getattr(d.resample(t="QS"), n)()
    CALLS[f"coarsen {_name}"] = lambda d, n=_name: getattr(d.coarsen(t=3), n)()

XARRAYS_OWN: dict[str, Callable[[Any], Any]] = {
    "interp": lambda d: d.interp(x=[0.5, 1.5]),
    "interp of time": lambda d: d.interp(t=TIMES[:3] + pd.Timedelta("1D")),
    "interpolate_na": lambda d: d.interpolate_na("t"),
}
"""What xarray computes with NumPy and SciPy, whatever it was given: the values are right, and NumPy's."""


def held(host: Any) -> Any:
    return xr.DataArray(host, dims=("t", "x"), coords={"t": TIMES, "x": np.arange(6.0)}, name="v")


@pytest.fixture
def ours(four: Any) -> Any:
    return held(da.asarray(HOST, layout=da.blocks(0)))


@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str, ours: Any) -> None:
    found, wanted = CALLS[name](ours), CALLS[name](held(HOST))
    assert isinstance(found.variable._data, da.DistributedArray)
    xr.testing.assert_allclose(found.copy(data=found.values), wanted)


@pytest.mark.parametrize("name", XARRAYS_OWN)
def test_interpolation_is_numpys(name: str, ours: Any) -> None:
    xr.testing.assert_allclose(XARRAYS_OWN[name](ours), XARRAYS_OWN[name](held(HOST)))


def test_items_are_set(ours: Any) -> None:
    wanted = held(HOST.copy())
    for each in (ours, wanted):
        each[0:2, 0] = 9.0
        each.loc[{"x": 2.0}] = 7.0
    np.testing.assert_array_equal(ours.values, wanted.values)


@pytest.mark.parametrize("chunks", [None, (5, 4)])
def test_files(chunks: Any, tmp_path: Any, ours: Any) -> None:
    pytest.importorskip("zarr", reason="zarr is in the extra 'test'")
    ours.to_dataset().to_zarr(
        tmp_path / "x.zarr", encoding={"v": {"chunks": chunks}} if chunks else {}, consolidated=False
    )
    found = xr.open_zarr(tmp_path / "x.zarr", chunks=None, consolidated=False)
    np.testing.assert_array_equal(found.v.values, HOST)
    ours.to_netcdf(tmp_path / "x.nc", engine="scipy")
    np.testing.assert_array_equal(xr.open_dataset(tmp_path / "x.nc", engine="scipy").v.values, HOST)


def test_vectorized_indexing_is_refused_by_xarray(ours: Any) -> None:
    """Of every array with a namespace of the array API."""
    with pytest.raises(TypeError, match="Vectorized indexing is not supported"):
        ours.isel(t=xr.DataArray([0, 1], dims="p"), x=xr.DataArray([2, 3], dims="p"))
