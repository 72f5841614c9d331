"""HDF5 datasets and zarr arrays, read and written part by part, and by their own calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import distarray as da
from conformance.ranks import SHARES, on_ranks

HOST = np.arange(24.0).reshape(6, 4)
LAYOUTS = [None, da.blocks(0), da.blocks(1), da.cyclic(0), da.replicated()]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_hdf5(layout: Any, tmp_path: Any, four: Any) -> None:
    h5py = pytest.importorskip("h5py", reason="h5py is in the extra 'test'")
    x = da.asarray(HOST, layout=layout)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("made", data=x)
        file["set"] = x
        file.create_dataset("written", HOST.shape, "f8")[...] = x
        da.store(x, file.create_dataset("stored", HOST.shape, "f8", chunks=(4, 3), compression="gzip"))
        for name in file:
            np.testing.assert_array_equal(file[name][...], HOST)
            found = da.from_array(file[name], layout=layout)
            np.testing.assert_array_equal(found.get(), HOST)
        with pytest.raises(ValueError, match="target"):
            da.store(x[:3], file["made"])


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_zarr(layout: Any, tmp_path: Any, four: Any) -> None:
    zarr = pytest.importorskip("zarr", reason="zarr is in the extra 'test'")
    x = da.asarray(HOST, layout=layout)
    if layout == da.blocks(1) and zarr.__version__.startswith("3.1."):
        # it views the values as bytes in their order, which lie scattered over the devices
        with pytest.raises(ValueError, match="reshard"):
            zarr.array(x)
        x = x.reshard(da.blocks(0))
    np.testing.assert_array_equal(zarr.array(x)[...], HOST)
    target = zarr.create_array({}, shape=HOST.shape, chunks=(4, 3), dtype="f8")
    da.store(x, target)
    np.testing.assert_array_equal(target[...], HOST)
    target[1:3] = x[:2] * 2
    np.testing.assert_array_equal(target[1:3], HOST[:2] * 2)
    np.testing.assert_array_equal(da.from_array(target, layout=layout).get(), target[...])
    zarr.save(tmp_path / "x.zarr", x)
    np.testing.assert_array_equal(da.asarray(zarr.load(tmp_path / "x.zarr")).get(), HOST)


@pytest.mark.parametrize("shares", SHARES)
def test_processes_store_in_turn(shares: Any) -> None:
    target = np.zeros_like(HOST)

    def program() -> Any:
        x = da.asarray(HOST, layout=da.blocks(1))
        da.store(x, target)
        return da.from_array(HOST, layout=da.cyclic(0)).get()

    for found in on_ranks(shares, program):
        np.testing.assert_array_equal(found, HOST)
    np.testing.assert_array_equal(target, HOST)


def test_what_gives_no_parts_is_refused(four: Any) -> None:
    with pytest.raises(TypeError, match="no shape"):
        da.from_array(3)
    with pytest.raises(TypeError, match="with a shape"):
        da.store(HOST, [1, 2])
    with pytest.raises(TypeError, match="can't be distributed"):
        da.from_array(np.array(["a"]))
