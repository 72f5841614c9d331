"""``numpy.testing`` takes distributed arrays, and results that are numbers, as it takes NumPy's."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import distarray as da

HOST = np.arange(6.0).reshape(3, 2)
ASSERTIONS = [
    np.testing.assert_equal, np.testing.assert_almost_equal, np.testing.assert_array_equal, np.testing.assert_allclose,
    np.testing.assert_array_almost_equal, np.testing.assert_array_less, np.testing.assert_array_max_ulp,
]  # fmt: skip
PAIRS: dict[str, tuple[Any, Any]] = {
    "equal": (HOST, HOST),
    "one apart": (HOST, np.where(HOST == 3, 9, HOST)),
    "shapes": (HOST, HOST[:2]),
    "dtypes": (HOST.astype("i4"), HOST),
    "nan": (np.where(HOST > 3, np.nan, HOST),) * 2,
    "a nan": (np.where(HOST > 3, np.nan, HOST), HOST),
    "complex": (HOST + 1j, HOST + 2j),
    "bool": (HOST > 3, HOST > 2),
    "empty": (HOST[:0], HOST[:0]),
    "times": (HOST.astype("M8[s]"), HOST.astype("M8[s]")),
    "a number": (np.ones(3), 1.0),
    "lists": ([HOST, HOST], [HOST, HOST + 1]),
    "dicts": ({"a": HOST}, {"a": HOST}),
}


@pytest.fixture(params=[1, None], ids=["cut", "whole"], autouse=True)
def context(request: pytest.FixtureRequest) -> Iterator[Any]:
    with da.init(devices=3, kind="host", minimum_chunk=request.param) as context:
        yield context


def spread(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return da.asarray(value, layout=da.blocks(0))
    if isinstance(value, dict):
        return {key: spread(item) for key, item in value.items()}
    return [spread(item) for item in value] if isinstance(value, list) else value


def outcome(function: Any, *args: Any, **kwargs: Any) -> Any:
    try:
        function(*args, **kwargs)
    except Exception as error:
        return type(error), str(error).splitlines()[:2]
    return None


@pytest.mark.parametrize(
    ("check", "name"),
    [(check, name) for check in ASSERTIONS for name in PAIRS if name != "dicts" or check in ASSERTIONS[:1]],
)
def test_arrays(check: Any, name: str) -> None:
    actual, desired = PAIRS[name]
    for kwargs in ({}, {"err_msg": "said"}) if "ulp" not in check.__name__ else ({},):
        expected = outcome(check, actual, desired, **kwargs)
        for pair in ((spread(actual), spread(desired)), (spread(actual), desired), (actual, spread(desired))):
            found = outcome(check, *pair, **kwargs)
            assert found == expected or (found and expected and found[0] is expected[0] is not AssertionError)


@pytest.mark.parametrize("check", ASSERTIONS[:2])
@pytest.mark.parametrize("desired", [15.0, 14.0, np.float64(15), np.nan, 15, np.array(15.0), [15.0], None])
def test_results_that_are_numbers(check: Any, desired: Any) -> None:
    for change in (lambda x: x, lambda x: x * np.nan, lambda x: x + 1j, lambda x: x.astype(int), lambda x: -x * 0):
        expected = outcome(check, change(HOST).sum(), desired)
        found = outcome(check, change(spread(HOST)).sum(), desired)
        assert (found and found[0]) == (expected and expected[0])


def test_nobody_else_is_told_so() -> None:
    x = spread(HOST)
    assert x.__class__ is type(x) is da.DistributedArray
    assert not isinstance(x, np.ndarray)
    assert not np.isscalar(x.sum())
    assert x.mean() == pytest.approx(2.5)
    assert x == pytest.approx(HOST)
    assert type(copy.deepcopy(x)) is type(pickle.loads(pickle.dumps(x))) is da.DistributedArray
