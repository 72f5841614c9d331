"""Dask arrays beside ours: each made of the other, part by part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import distarray as da

dask = pytest.importorskip("dask.array", reason="dask is in the extra 'test'")

HOST = np.arange(24.0).reshape(6, 4)


@pytest.mark.parametrize("layout", [None, da.blocks(0), da.blocks(1), da.cyclic(1), da.replicated()], ids=str)
def test_each_is_made_of_the_other(layout: Any, four: Any) -> None:
    theirs = dask.from_array(HOST, chunks=(4, 3))
    x = da.from_dask(theirs * 2, layout=layout)
    np.testing.assert_array_equal(x.get(), HOST * 2)
    back = da.to_dask(x)
    x[...] = 0
    assert back.chunks[0] == (2, 2, 1, 1) or sum(back.chunks[0]) == 6
    np.testing.assert_array_equal(back.compute(), HOST * 2)


def test_what_is_no_dask_array_is_refused(four: Any) -> None:
    with pytest.raises(TypeError, match="Dask"):
        da.from_dask(HOST)
    with pytest.raises(ValueError, match="unknown"):
        da.from_dask(dask.from_array(HOST, chunks=2)[dask.from_array(HOST, chunks=2) > 3])


def test_operands_are_computed(four: Any) -> None:
    """An expression with both is one of ours: Dask leaves arrays that it does not know to them."""
    x, theirs = da.asarray(HOST, layout=da.blocks(0)), dask.from_array(HOST * 3, chunks=(4, 3))
    for found, wanted in (
        (x + theirs, HOST * 4),
        (theirs + x, HOST * 4),
        (theirs - x[0], HOST * 3 - HOST[0]),
        (np.maximum(x, theirs), HOST * 3),
        (np.multiply(theirs, x), HOST * HOST * 3),
        (x < theirs, HOST < HOST * 3),
    ):
        assert isinstance(found, da.DistributedArray)
        np.testing.assert_array_equal(found.get(), wanted)
    x += theirs
    np.testing.assert_array_equal(x.get(), HOST * 4)
