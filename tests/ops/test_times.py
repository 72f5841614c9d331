"""Dates and time spans beside NumPy, in several layouts: arithmetic, NaT in extremes and sorts, casts, printing."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import distarray as da

LAYOUTS = [None, da.blocks(0), da.blocks(1), da.cyclic(0), da.replicated()]

DAY, HOUR = np.timedelta64(1, "D"), np.timedelta64(1, "h")

BOTH: dict[str, Callable[[Any], Any]] = {
    "add": lambda x: x + 3 * HOUR,
    "subtract": lambda x: x - x[::-1],
    "in place": lambda x: x.__iadd__(DAY),
    "less": lambda x: x < x.T[:1, :1],
    "isnat": np.isnat,
    "min": lambda x: x.min(),
    "max": lambda x: x.max(axis=1),
    "min down": lambda x: x.min(axis=0),
    "argmin": lambda x: x.argmin(),
    "argmax": lambda x: x.argmax(axis=0),
    "fmax": lambda x: np.fmax.reduce(x, axis=0),
    "nanmax": np.nanmax,
    "nanmin": lambda x: np.nanmin(x, axis=0),
    "sort": lambda x: np.sort(x, axis=0),
    "sort all": lambda x: np.sort(x, axis=None),
    "argsort": lambda x: np.argsort(x, axis=0, kind="stable"),
    "unique": np.unique,
    "searchsorted": lambda x: np.searchsorted(np.sort(x[0]), x[1]),
    "diff": lambda x: np.diff(x, axis=0),
    "gradient": lambda x: np.gradient(x, axis=0),
    "maximum.accumulate": lambda x: np.maximum.accumulate(x, axis=0),
    "ptp": lambda x: np.ptp(x, axis=0),
    "median": lambda x: np.quantile(x, 0.5, axis=0, method="nearest"),
    "percentile": lambda x: np.percentile(x, 30),
    "where": lambda x: np.where(np.isnat(x), x[::-1], x),
    "mask": lambda x: x[np.isnat(x)],
    "concatenate": lambda x: np.concatenate([x, x.astype(f"{x.dtype.kind}8[h]")]),
    "nanoseconds": lambda x: x.astype(f"{x.dtype.kind}8[ns]"),
    "integers": lambda x: x.astype(np.int64),
    "view": lambda x: x.view(np.int64),
    "zeros_like": np.zeros_like,
    "pad": lambda x: np.pad(x, 1),
    "count_nonzero": np.count_nonzero,
    "nonzero": lambda x: np.nonzero(x)[0],
    "str": str,
    "item": lambda x: x[0, 0].item(),
    "set text": lambda x: (x.__setitem__((0, 0), "NaT"), x)[1],
    "initial": lambda x: x.max(axis=0, where=~np.isnat(x), initial=x.dtype.type(-100, "D")),
    "equal": lambda x: np.array_equal(x, x),
}
SPANS: dict[str, Callable[[Any], Any]] = {
    "multiply": lambda x: x * 1.5,
    "divide": lambda x: x / HOUR,
    "floor_divide": lambda x: x // (5 * HOUR),
    "remainder": lambda x: x % (5 * DAY),
    "negative": lambda x: -abs(x),
    "sum": lambda x: x.sum(),
    "sum down": lambda x: x.sum(axis=0),
    "mean": lambda x: x.mean(axis=0),
    "nansum": lambda x: np.nansum(x, axis=0),
    "cumsum": lambda x: np.cumsum(x, axis=0),
    "median of spans": np.median,
}
REFUSED: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp,
    "prod": lambda x: x.prod(),
    "multiply": lambda x: x * x,
    "text": lambda x: da.asarray(x.astype("U10")) if isinstance(x, np.ndarray) else x.astype("U10"),
    "float": lambda x: x.__setitem__(0, 1.5),
}


def _data(kind: str, missing: bool) -> Any:
    rng = np.random.default_rng(3)
    spans = rng.integers(-50, 50, size=(6, 8)).astype("m8[D]")
    if missing:
        spans[rng.random((6, 8)) < 0.15] = "NaT"
    return spans if kind == "m" else np.datetime64("2020-01-01", "D") + spans


def _compare(found: Any, wanted: Any) -> None:
    if isinstance(wanted, (np.ndarray, np.generic)):
        found = np.asarray(found)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted, strict=isinstance(wanted, np.ndarray))
    else:
        assert found == wanted


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("kind", "mM")
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.filterwarnings("ignore:invalid value encountered")
def test_as_numpy(layout: Any, kind: str, missing: bool) -> None:
    with da.init(devices=3, kind="host"):
        for name, call in (BOTH | (SPANS if kind == "m" else {})).items():
            data = _data(kind, missing)
            x = da.asarray(data, layout=layout)
            try:
                _compare(call(x), call(data))
            except Exception as error:
                error.add_note(name)
                raise


@pytest.mark.parametrize("kind", "mM")
def test_refused(kind: str) -> None:
    with da.init(devices=2, kind="host"):
        for call in REFUSED.values():
            if kind == "m" and call is REFUSED["float"]:
                continue
            data = _data(kind, False)
            with pytest.raises((TypeError, ValueError)):
                call(data)
            x = da.asarray(data, layout=da.blocks(0))
            with pytest.raises((TypeError, ValueError)):
                call(x)
            np.testing.assert_array_equal(x.get(), data)


@pytest.mark.parametrize(
    ("args", "options"),
    [
        (("2000-01", "2000-05"), {"dtype": "M8[M]"}),
        (("2000-01-01", "2000-01-20", 3), {"dtype": "M8[D]"}),
        ((np.datetime64("2000-01-01"), np.datetime64("2000-01-05T12")), {}),
        ((np.datetime64("2000-01-01"), np.datetime64("2000-01-05"), 12 * HOUR), {}),
        ((np.datetime64("2000-01-01"), 10), {}),
        ((0, 10), {"dtype": "m8[s]"}),
        ((5 * DAY,), {}),
    ],
)
def test_arange(args: Any, options: Any) -> None:
    with da.init(devices=3, kind="host"):
        with warnings.catch_warnings(record=True) as theirs:
            warnings.simplefilter("always")
            expected = np.arange(*args, **options)
        with warnings.catch_warnings(record=True) as ours:
            warnings.simplefilter("always")
            found = da.arange(*args, **options)
        assert bool(ours) <= bool(theirs)
        _compare(found, expected)


@pytest.mark.parametrize("data", [np.array(["a"]), np.array([b"a"]), np.array([None]), np.zeros(2, [("a", "U3")])])
def test_text_and_objects_are_refused(data: Any) -> None:
    with da.init(devices=2, kind="host"), pytest.raises(TypeError, match="can't be distributed"):
        da.asarray(data)


@pytest.mark.filterwarnings("ignore:The 'generic' unit:DeprecationWarning")  # NumPy's own, of bare integers
@pytest.mark.parametrize("other", [1, 1.5, True, None, np.int64(3), np.arange(12.0).reshape(4, 3), [[1, 2, 3]]])
@pytest.mark.parametrize("dtype", ["M8[D]", "m8[h]"])
def test_dates_equal_no_number(dtype: str, other: Any) -> None:
    data = np.arange(12).reshape(4, 3).astype(dtype)
    data[1, 1] = "NaT"
    with da.init(devices=3, kind="host"):
        x = da.asarray(data, layout=da.blocks(0))
        _compare(x == other, np.asarray(data == other))
        _compare(x != other, np.asarray(data != other))
        assert (other is None or np.ndim(other) > 0) or (other in x) == (other in data)
        with pytest.raises(TypeError, match="cannot conjugate"):
            x.conj()
