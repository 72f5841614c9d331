"""``==`` and ``!=`` give an array whatever an array is compared with, as NumPy's do."""

from __future__ import annotations

import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import distarray as da

ARRAYS = {
    "float": np.arange(4.0),
    "int": np.arange(4, dtype="i4"),
    "bool": np.arange(4) > 1,
    "complex": np.arange(4) + 1j,
    "span": np.arange(4).astype("m8[s]"),
    "days": np.arange(4).astype("m8[D]"),
    "time": np.arange(4).astype("M8[s]"),
    "date": np.arange(4).astype("M8[D]"),
}
OTHERS: list[Any] = [
    *ARRAYS.values(), np.array(["a", "b", "c", "d"]), np.array([b"a"] * 4), np.timedelta64(1, "s"), np.str_("a"), "a", None,
    {}, {1}, Fraction(1), Fraction(1, 2), Fraction(1, 3), Decimal(2), Decimal("0.1"), Decimal("NaN"), Decimal("Infinity"),
    datetime.timedelta(seconds=1), datetime.timedelta(1), datetime.date(1970, 1, 2), datetime.datetime(1970, 1, 1, 0, 0, 2),
    [0, 1, 2, 5], ["a", "b", "c", "d"], np.arange(3), np.ones((2, 1)), np.array(["a", "b", "c"]),
]  # fmt: skip


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("layout", [da.blocks(0), da.cyclic(0), da.replicated()], ids=str)
def test_as_numpy_compares(name: str, layout: Any) -> None:
    h = ARRAYS[name]
    with da.init(devices=3, kind="host", minimum_chunk=1):
        x = da.asarray(h, layout=layout)
        for other in OTHERS:
            operands = [other]
            if isinstance(other, np.ndarray) and other.dtype.kind not in "US":
                operands.append(da.asarray(other, layout=layout))
            for operand in operands:
                try:
                    expected: Any = (h == other, h != other)
                except ValueError:
                    with pytest.raises(ValueError, match="broadcast"):
                        x == operand  # noqa: B015
                    continue
                for found, right in zip((x == operand, x != operand), expected, strict=True):
                    assert isinstance(found, da.DistributedArray), other
                    np.testing.assert_array_equal(found.get(), right, err_msg=repr(other), strict=True)
        assert not np.array_equal(x, da.asarray(ARRAYS["time" if name != "time" else "float"]))


def test_what_has_other_ideas_is_asked() -> None:
    class Anything:
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    with da.init(devices=2, kind="host"):
        x = da.arange(3)
        assert x == Anything()
        with pytest.raises(TypeError, match="object"):
            x == np.array([1, None, 2], object)  # noqa: B015
