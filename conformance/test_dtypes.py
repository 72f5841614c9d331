"""Dates, time spans and structures in any layout, on any number of devices and on simulated ranks, against NumPy."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import distarray as da
from conformance.contexts import context, kind
from conformance.ranks import SHARES, on_ranks
from conformance.strategies import basic_indices, device_counts, layouts, pairs, shapes

pytestmark = pytest.mark.skipif(kind() != "host", reason="GPUs refuse these dtypes: tests/devices/test_cuda.py")

TIMES = [np.dtype(f"{kind}8[{unit}]") for kind in "Mm" for unit in ("D", "s", "ns")]
STRUCTURES = [
    np.dtype([("a", "f4"), ("b", "i8")]),
    np.dtype([("x", "f8", (2,)), ("t", "M8[s]"), ("in", [("z", "c8"), ("k", "?")])]),
]
DAY = np.timedelta64(1, "D")


def values(data: Any, dtype: np.dtype, shape: tuple[int, ...] | None = None) -> Any:
    """An array of the dtype, one element of ten not a time."""
    shape = data.draw(shapes(max_size=120)) if shape is None else shape
    rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    return drawn(rng, dtype, shape)


def drawn(rng: Any, dtype: np.dtype, shape: tuple[int, ...]) -> Any:
    if dtype.names is not None:
        found = np.zeros(shape, dtype)
        for name in dtype.names:
            field = dtype[name]
            found[name] = drawn(rng, field.base, (*shape, *field.shape))
        return found
    if dtype.kind in "mM":
        found = np.asarray(rng.integers(-1000, 1000, shape)).astype(dtype)
        return np.where(rng.random(shape) < 0.1, dtype.type("NaT", np.datetime_data(dtype)[0]), found)
    return np.asarray(rng.integers(0, 5, shape)).astype(dtype)


def compare(found: Any, wanted: Any) -> None:
    if isinstance(wanted, tuple):
        for f, w in zip(found, wanted, strict=True):
            compare(f, w)
        return
    got = np.asarray(found)
    assert (got.dtype, got.shape) == (np.asarray(wanted).dtype, np.shape(wanted))
    if got.dtype.names is None:
        np.testing.assert_array_equal(got, wanted)
        return
    for name in got.dtype.names:  # NumPy's comparison of structures holds two times that are not times unequal
        compare(got[name], wanted[name])


ANY: dict[str, Callable[[Any, Any], Any]] = {
    "itself": lambda x, y: x, "transposed": lambda x, y: x.T, "reversed": lambda x, y: x[::-1],
    "ravel": lambda x, y: x.ravel(), "copy": lambda x, y: x.copy(), "equal": lambda x, y: x == y, "unequal": lambda x, y: x != y,
    "array_equal": lambda x, y: np.array_equal(x, x.copy()) if x.dtype.kind == "V" else np.array_equal(x, y),
    "concatenate": lambda x, y: np.concatenate([x, y]), "stack": lambda x, y: np.stack([x, y], axis=-1),
    "where": lambda x, y: np.where(np.arange(x.shape[-1]) % 2 == 0, x, y), "mask": lambda x, y: x[np.arange(x.shape[0]) % 2 == 0],
    "rows": lambda x, y: x[[0, -1, 0]], "take": lambda x, y: np.take(x, [0, -1]), "repeat": lambda x, y: np.repeat(x, 2, axis=0),
    "roll": lambda x, y: np.roll(x, 1), "tile": lambda x, y: np.tile(x, 2), "zeros_like": lambda x, y: np.zeros_like(x),
    "broadcast": lambda x, y: np.broadcast_to(x[:1], x.shape),
}  # fmt: skip
TIMED: dict[str, Callable[[Any, Any], Any]] = {
    "difference": lambda x, y: x - y, "later": lambda x, y: x + DAY, "less": lambda x, y: x < y,
    "minimum": lambda x, y: np.minimum(x, y), "fmax": lambda x, y: np.fmax(x, y), "isnat": lambda x, y: np.isnat(x),
    "min": lambda x, y: x.min(axis=0), "max": lambda x, y: x.max(), "argmin": lambda x, y: x.argmin(axis=-1),
    "sort": lambda x, y: np.sort(x, axis=0), "argsort": lambda x, y: np.argsort(x, axis=-1, kind="stable"),
    "unique": lambda x, y: np.unique(x), "diff": lambda x, y: np.diff(x, axis=-1),
    "days": lambda x, y: x.astype(f"{x.dtype.kind}8[D]"),
    "integers": lambda x, y: x.view("i8"), "running": lambda x, y: np.maximum.accumulate(x, axis=0),
    "nanmax": lambda x, y: np.nanmax(x, axis=0), "isin": lambda x, y: np.isin(x, y), "count": lambda x, y: np.count_nonzero(x),
}  # fmt: skip


def outcome(call: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call()
        except (TypeError, ValueError, IndexError) as error:
            return type(error)


def agree(call: Any, x: Any, y: Any, a: Any, b: Any) -> None:
    wanted = outcome(lambda: call(a, b))
    found = outcome(lambda: call(x, y))
    if isinstance(wanted, type):
        assert isinstance(found, type), f"NumPy raises {wanted}"
        assert issubclass(found, wanted)
    else:
        assert not isinstance(found, type), found
        compare(found, wanted)


@pytest.mark.parametrize("name", [*ANY, *TIMED])
@given(data=st.data(), n=device_counts)
def test_calls(name, data, n):
    dtype = data.draw(st.sampled_from(TIMES + STRUCTURES if name in ANY else TIMES))
    a = values(data, dtype)
    b = values(data, dtype, a.shape)
    with context(n):
        agree(
            (ANY | TIMED)[name], data.draw(pairs(a, n, partial=False)).x, data.draw(pairs(b, n, partial=False)).x, a, b
        )


@given(data=st.data(), n=device_counts)
def test_writes(data, n):
    dtype = data.draw(st.sampled_from(TIMES + STRUCTURES))
    a = values(data, dtype)
    key = data.draw(basic_indices(a.shape))
    with context(n):
        pair = data.draw(pairs(a, n, partial=False))
        try:
            target = pair.ref[key]
        except IndexError:
            with pytest.raises(IndexError):
                pair.x[key] = a
            return
        value = values(data, dtype, np.shape(target))
        placed = data.draw(st.sampled_from([value, da.asarray(value, layout=data.draw(layouts(value.shape, n)))]))
        pair.ref[key] = value
        pair.x[key] = placed
        compare(pair.base_x, pair.base_ref)
        if dtype.names is not None:
            name = data.draw(st.sampled_from(dtype.names))
            pair.ref[name], pair.x[name] = a[name], a[name]
            compare(pair.x[name], pair.ref[name])
            compare(pair.base_x, pair.base_ref)


@pytest.mark.parametrize("shares", SHARES)
@pytest.mark.parametrize("dtype", TIMES[:1] + TIMES[4:5] + STRUCTURES, ids=["dates", "spans", "flat", "nested"])
def test_ranks(shares, dtype):
    rng = np.random.default_rng(1)
    a, b = drawn(rng, dtype, (9, 4)), drawn(rng, dtype, (9, 4))
    calls = ANY if dtype.names is not None else ANY | TIMED

    def program() -> Any:
        x, y = da.asarray(a, layout=da.blocks(0)), da.asarray(b, layout=da.blocks(1))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = [np.asarray(call(x, y)) for call in calls.values()]
            x[2:5] = y[1:4]
            return [*found, x.get()]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = [np.asarray(call(a, b)) for call in calls.values()]
    written = a.copy()
    written[2:5] = b[1:4]
    for got in on_ranks(shares, program):
        for found, right in zip(got, [*wanted, written], strict=True):
            compare(found, right)
