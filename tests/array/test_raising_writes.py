"""What an array holds after a write that raised for a floating-point condition: what NumPy leaves there. A ufunc or a
conversion of many values is written to the end before it raises; one value is converted before anything is written. (Where the
target overlaps an operand, NumPy drops its buffer; here that is written too.)"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import distarray as da
from conformance.ranks import on_ranks

A = np.array([[7.0, 3.0, 1.0], [2.0, 0.0, 5.0]])
B = np.array([[0.0, 2.0, 4.0], [-1.0, 0.0, 3.0]])
NAN = np.array([[np.nan, 2.0, 4.0], [1.0, np.inf, 3.0]])


def rebound(x: Any, y: Any) -> None:
    x += 0 * x  # recorded, not yet computed
    x /= y


WRITES: dict[str, tuple[str, Any, Callable[[Any, Any], Any]]] = {
    "out": ("f8", B, lambda x, y: np.divide(x, y, out=x)),
    "out of another": ("f8", B, lambda x, y: np.divide(1.0, y, out=x)),
    "out where": ("f8", B, lambda x, y: np.divide(x, y, out=x, where=np.array([True, False, True]))),
    "out of less": ("f4", B, lambda x, y: np.divide(x, y, out=x, casting="same_kind")),
    "out of a view": ("f8", B, lambda x, y: np.log(y[:, 1:], out=x[:, :-1])),
    "in place": ("f8", B, lambda x, y: x.__itruediv__(y)),
    "in place, broadcast": ("f8", B, lambda x, y: x.__itruediv__(y[0])),
    "in place, recorded": ("f8", B, rebound),
    "two outputs": ("f8", B, lambda x, y: np.divmod(x, y, out=(x, y))),
    "assigned": ("i8", NAN, lambda x, y: x.__setitem__(..., y)),
    "assigned a row": ("i8", NAN, lambda x, y: x.__setitem__(..., y[0])),
    "assigned to a view": ("i8", NAN, lambda x, y: x.__setitem__((slice(None), slice(None, None, -1)), y)),
    "assigned one of a length": ("i8", NAN, lambda x, y: x.__setitem__(..., y[:1, :1])),
    "assigned a value": ("i8", NAN, lambda x, y: x.__setitem__(..., y[0, 0, ...])),
    "assigned a scalar": ("i8", NAN, lambda x, y: x.__setitem__(..., y[0, 0])),
    "assigned a scalar to an element": ("i8", NAN, lambda x, y: x.__setitem__((1, 1), y[0, 0])),
    "assigned a scalar of NumPy": ("i8", NAN, lambda x, y: x.__setitem__(..., np.float64(np.nan))),
    "narrowed": ("f2", A * 1e5, lambda x, y: x.__setitem__(..., y)),
    "narrowed value": ("f2", A * 1e5, lambda x, y: x.__setitem__(..., y[0, 0, ...])),
    "complex": ("c8", A * (1e50 + 1j), lambda x, y: x.__setitem__(..., y)),
    "complex value": ("c8", A * (1e50 + 1j), lambda x, y: x.__setitem__(0, y[0, 0, ...])),
    "copied": ("i8", NAN, lambda x, y: np.copyto(x, y, casting="unsafe")),
}  # fmt: skip
LAYOUTS = [None, da.blocks(0), da.blocks(1), da.cyclic(1), da.replicated(), {0: [slice(0, 2)], 1: [slice(1, 2)]}]


def left(name: str, x: Any, y: Any, how: str) -> Any:
    """What a write leaves in both arrays, and what it raises."""
    with np.errstate(all="raise" if how == "raise" else "warn"), warnings.catch_warnings():
        warnings.simplefilter("error")
        error: Any = None
        try:
            WRITES[name][2](x, y)
        except (FloatingPointError, RuntimeWarning, ValueError) as caught:  # the last: NumPy's of its scalars
            error = "scalar" not in name and type(caught)
    return error, np.asarray(x).tobytes(), np.asarray(y).tobytes()


@pytest.mark.parametrize("how", ["raise", "error"])
@pytest.mark.parametrize("devices", [1, 3])
@pytest.mark.parametrize("name", WRITES)
def test_numpy_leaves_the_same(name: str, devices: int, how: str) -> None:
    dtype, other, _ = WRITES[name]
    expected = left(name, A.astype(dtype), other.copy(), how)
    assert expected[0] is not None
    for least in (1, 1 << 16):
        with da.init(devices=devices, kind="host", minimum_chunk=least):
            for layout in LAYOUTS[: 5 if devices == 1 else 6]:
                for shared in (False, True):
                    x = da.asarray(A.astype(dtype), layout=layout)
                    keep = x.copy() if shared else None
                    assert left(name, x, da.asarray(other, layout=layout), how) == expected, (layout, shared, least)
                    assert keep is None or np.array_equal(keep.get(), A.astype(dtype))


@pytest.mark.parametrize(
    "name", ["out", "in place", "in place, recorded", "two outputs", "assigned", "assigned a value"]
)
def test_processes_are_left_alike(name: str) -> None:
    dtype, other, _ = WRITES[name]
    expected = left(name, A.astype(dtype), other.copy(), "raise")

    def program() -> Any:
        return left(
            name, da.asarray(A.astype(dtype), layout=da.blocks(1)), da.asarray(other, layout=da.blocks(0)), "raise"
        )

    assert all(found == expected for found in on_ranks((1, 2), program))


def test_arrays_of_the_host_are_left_as_numpy_leaves_them() -> None:
    for layout in (da.blocks(0), None):
        with da.init(devices=2, kind="host"), np.errstate(all="raise"):
            out, ref = np.zeros((2, 3)), np.zeros((2, 3))
            with pytest.raises(FloatingPointError):
                np.divide(da.asarray(A, layout=layout), B, out=out)
            with pytest.raises(FloatingPointError):
                np.divide(A, B, out=ref)
            assert out.tobytes() == ref.tobytes()


def test_integer_powers_that_raise_write_nothing() -> None:
    with da.init(devices=2, kind="host"), np.errstate(all="raise"):
        x = da.asarray(np.array([2, 3, 4]), layout=da.blocks(0))
        with pytest.raises(ValueError, match="negative integer powers"):
            np.power(x, [1, -1, 2], out=x)
        assert x.tolist() == [2, 3, 4]
