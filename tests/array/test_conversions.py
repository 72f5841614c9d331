"""What NumPy makes an array of is an operand, in every way of calling; a masked array, whose mask would be lost, is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import distarray as da

H = np.arange(4.0)


class ByArray:
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array([1.0, 2.0, 4.0, 8.0], dtype)


class ByInterface:
    held = np.array([1.0, 2.0, 4.0, 8.0])

    @property
    def __array_interface__(self) -> Any:
        return self.held.__array_interface__


class ByStruct:
    held = ByInterface.held

    @property
    def __array_struct__(self) -> Any:
        return self.held.__array_struct__  # type: ignore[attr-defined]


class ByItems:
    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> float:
        if i >= 4:
            raise IndexError
        return 2.0**i


CALLS: list[Callable[[Any, Any], Any]] = [
    lambda a, o: a + o, lambda a, o: o - a, lambda a, o: a @ o, lambda a, o: o @ a, lambda a, o: np.add(a, o),
    lambda a, o: np.subtract(o, a), lambda a, o: a == o, lambda a, o: a < o, lambda a, o: divmod(a, o), lambda a, o: a**o,
    lambda a, o: np.where(a > 1, a, o), lambda a, o: np.concatenate([a, a[:1]]) + np.isin(a, o).sum(), lambda a, o: np.dot(a, o),
    lambda a, o: a.__iadd__(o), lambda a, o: np.maximum(a, o, out=a),
]  # fmt: skip


@pytest.mark.parametrize("kind", [ByArray, ByInterface, ByStruct, ByItems])
@pytest.mark.parametrize("number", range(len(CALLS)))
def test_what_numpy_makes_an_array_of_is_an_operand(kind: Any, number: int) -> None:
    wanted = CALLS[number](H.copy(), kind())
    with da.init(devices=3, kind="host", minimum_chunk=1):
        np.testing.assert_array_equal(da.asarray(kind()).get(), np.asarray(kind()))
        x = da.asarray(H, layout=da.blocks(0))
        found = CALLS[number](x, kind())
        for one, other in zip(
            found if type(found) is tuple else [found], wanted if type(wanted) is tuple else [wanted]
        ):
            np.testing.assert_array_equal(one.get(), other)
        x[...] = kind()
        assert x.tolist() == [1, 2, 4, 8]


MASKED = np.ma.array([1.0, 2.0, 3.0, 4.0], mask=[False, True, False, False])


@pytest.mark.parametrize("call", [
    da.asarray, da.sum, da.mean, da.sort, da.max, da.cumsum, da.fft.fft, da.linalg.norm,
    lambda m: da.distributed_array(m, da.blocks(0)),
    lambda m: da.asarray(H) @ m, lambda m: m @ da.asarray(H), lambda m: da.asarray(H) + m, lambda m: np.dot(da.asarray(H), m),
    lambda m: np.where(da.asarray(H) > 1, m, 0),
])  # fmt: skip
def test_a_mask_is_not_lost(call: Callable[[Any], Any]) -> None:
    with da.init(devices=2, kind="host", minimum_chunk=1):
        with pytest.raises(TypeError, match=r"pass m\.filled"):
            call(MASKED)
        np.testing.assert_array_equal(da.asarray(np.ma.array(H)).get(), H)
