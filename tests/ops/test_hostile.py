"""Arguments that no program should pass, and some do: NumPy's exception, at once, and nothing computed or allocated before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import distarray as da

H = np.arange(12.0).reshape(3, 4)
HUGE = 2**62

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "tile a column": lambda x, a: x.tile(a, HUGE),
    "tile both": lambda x, a: x.tile(a, (2**46, 2**46)),
    "tile more than there is": lambda x, a: x.tile(a, 2**46),
    "tile beyond int64": lambda x, a: x.tile(a, 2**64),
    "sections": lambda x, a: x.array_split(a, HUGE),
    "sections beyond int64": lambda x, a: x.array_split(a, 2**64),
    "a shape that is True": lambda x, a: x.zeros(True),
    "a length that is True": lambda x, a: x.ones((True, 3)),
    "a shape that is a dict": lambda x, a: x.empty({}),
    "a shape that is a set": lambda x, a: x.full(set(), 1),
    "a shape that is an iterator": lambda x, a: x.zeros(iter([3])),
    "reshaped to True": lambda x, a: x.reshape(a, True),
    "reshaped to a length that is True": lambda x, a: x.reshape(a, (True, 12)),
    "reshaped to a dict": lambda x, a: x.reshape(a, {}),
    "a matrix without rows": lambda x, a: x.tri(-1),
    "a matrix without columns": lambda x, a: x.tri(3, -2),
    "an order that is none": lambda x, a: x.asarray(a, None, object()),
    "Fortran order without axes": lambda x, a: x.asfortranarray(a[0, 0]),
    "a result that is an ellipsis": lambda x, a: x.add(a, a, out=...),
    "too many outputs": lambda x, a: x.add(a, a, a, a),
    "an output twice": lambda x, a: x.add(a, a, a, out=a),
    "one output of two": lambda x, a: x.frexp(a, a)[1],
}


@pytest.mark.parametrize("name", CALLS)
def test_numpys_answer(name: str) -> None:
    call = CALLS[name]
    with da.init(devices=3, kind="host", minimum_chunk=1):
        x = da.asarray(H, layout=da.blocks(0))
        try:
            wanted = call(np, H.copy())
        except MemoryError:
            with pytest.raises(
                (MemoryError, ValueError)
            ):  # which of the two depends on which length is looked at first
                call(da, x)
        except (ValueError, OverflowError):
            with pytest.raises((ValueError, OverflowError)):
                call(da, x)
        except TypeError:
            with pytest.raises(TypeError):
                call(da, x)
        else:
            assert np.array_equal(call(da, x).get(), wanted)
            return
        assert np.array_equal(x.get(), H)
