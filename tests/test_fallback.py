"""Functions without an implementation run on the host where the user asks for it, once warned, and only then."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy._core.overrides import ARRAY_FUNCTIONS, array_function_dispatch

import distarray as da
from conformance.contexts import context


@array_function_dispatch(lambda a, *others, scale=None: (a, *others), module="numpy")
def peculiar(a: Any, *others: Any, scale: int = 1) -> Any:
    """A function of NumPy's kind that no table knows."""
    assert all(type(x) is np.ndarray for x in (a, *others))
    return np.asarray(a) * scale, [x.sum() for x in others], "text"


ARRAY_FUNCTIONS.discard(peculiar)  # other tests go through all that NumPy lists


def test_only_where_asked(monkeypatch):
    with context(3):
        x = da.asarray(np.arange(6.0), layout=da.blocks(0))
        with pytest.raises(TypeError, match="host_fallback"):
            peculiar(x)
        with da.ledger() as log, da.host_fallback():
            with pytest.warns(da.HostFallbackWarning, match="peculiar.*96 bytes"):
                first, sums, text = peculiar(x, x + 1, scale=2)
            assert log.bytes_to_host == 96
            peculiar(x)  # the warning comes once
        assert isinstance(first, da.DistributedArray)
        assert np.array_equal(first.get(), np.arange(6.0) * 2)
        assert [float(s) for s in sums] == [21.0]
        assert text == "text"
        with da.host_fallback(), da.no_implicit_communication(), pytest.raises(da.ImplicitCommunicationError):
            peculiar(x)
        with pytest.raises(TypeError, match="host_fallback"):
            peculiar(x)
        monkeypatch.setenv("DISTARRAY_HOST_FALLBACK", "1")
        assert peculiar(x)[2] == "text"
