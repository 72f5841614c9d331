"""Arrays divided at a key: the order that the kernels compare in, without a GPU; with one, what they give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from conformance.checking import on_gpu
from distarray.devices import ordering
from distarray.devices.divisions import divide, ordinal, sources

FLOATS = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1, -1, 1.5, 3e-5, -3e-5]
KINDS = ["?", "i1", "u1", "i2", "u2", "f2", "i4", "u4", "f4", "i8", "u8", "f8"]


def values(dtype: str) -> Any:
    kind = np.dtype(dtype)
    if kind.kind == "f":
        info = np.finfo(kind)
        return np.array(
            [*FLOATS, info.max, info.min, info.tiny, info.smallest_subnormal, -info.smallest_subnormal], kind
        )
    if kind.kind == "b":
        return np.array([False, True])
    return np.array([np.iinfo(kind).min, np.iinfo(kind).max, 0, 1, 7], kind)


@pytest.mark.parametrize("dtype", KINDS)
def test_ordinals_are_in_numpys_order(dtype: str) -> None:
    given = values(dtype)
    places = np.array([ordinal(value, given.dtype) for value in given], np.uint64)
    np.testing.assert_array_equal(np.argsort(places, kind="stable"), np.argsort(given, kind="stable"))
    assert ordinal(given[0], given.dtype) < 1 << 8 * given.itemsize


@pytest.mark.parametrize(("kind", "itemsize"), [("u", 1), ("i", 8), ("f", 2), ("f", 4)])
def test_sources_declare_what_they_are_passed(kind: str, itemsize: int) -> None:
    found = sources(kind, itemsize)
    assert {name: len(fields) for name, (_, fields) in found.items()} == {"count": 5, "write": 8}
    for source, _ in found.values():
        assert source.count("{") == source.count("}") and source.count("(") == source.count(")")


@pytest.mark.skipif(not on_gpu(), reason="kernels of GPUs")
@pytest.mark.parametrize("dtype", KINDS)
def test_what_comes_before_a_key_comes_first(dtype: str) -> None:
    import cupy

    rng = np.random.default_rng(5)
    choice = values(dtype)
    for n in (1, 4095, 4097, 70_001):
        given = choice[rng.integers(0, len(choice), n)]
        for value in choice:
            before = given < value if value == value else given == given
            same = np.flatnonzero(given == value if value == value else given != given)
            for equals in (None, 0, len(same) // 2, len(same) + 3):
                left = before.copy()
                left[same[:equals]] = True
                wanted = np.concatenate([given[left], given[~left]])
                source, out = cupy.asarray(given), cupy.empty(n, given.dtype)
                assert divide(cupy, source, out, value, equals) == (before.sum(), left.sum())
                assert cupy.asnumpy(out).tobytes() == wanted.tobytes()
                assert divide(cupy, source, None, value, rank=int(left.sum())) == (before.sum(), left.sum())
                assert cupy.asnumpy(source).tobytes() == wanted.tobytes()


@pytest.mark.skipif(not on_gpu(), reason="sorts of GPUs")
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4", "u8", "?"])
def test_sorts_are_stable_and_nan_come_last(dtype: str) -> None:
    import cupy

    rng = np.random.default_rng(6)
    choice = values(dtype)
    for shape in ((50_000,), (3, 700), (1,)):
        given = choice[rng.integers(0, len(choice), shape)]
        order = np.argsort(given, axis=-1, kind="stable")
        wanted = np.take_along_axis(given, order, axis=-1)
        beside, itself = cupy.empty(shape, given.dtype), cupy.asarray(given)
        ordering.sort_lines(cupy, beside, itself)
        ordering.sort_lines(cupy, itself, itself)
        assert cupy.asnumpy(beside).tobytes() == wanted.tobytes() == cupy.asnumpy(itself).tobytes()
        np.testing.assert_array_equal(cupy.asnumpy(ordering.argsort(cupy, [cupy.asarray(given)])), order)


@pytest.mark.skipif(not on_gpu(), reason="sorts of GPUs")
@pytest.mark.parametrize("dtype", ["f4", "i8"])
def test_several_cuts_of_one_array(dtype: str) -> None:
    import cupy

    rng = np.random.default_rng(7)
    given = rng.integers(-3, 4, 30_000).astype(dtype)
    cuts: list[tuple[Any, int | None]] = [(given.dtype.type(v), e) for v in (-2, 0, 1) for e in (0, 100, None)]
    for source in (None, cupy.asarray(given), cupy.asarray(np.repeat(given, 2))[::2]):
        array = cupy.asarray(given) if source is None else cupy.empty_like(cupy.asarray(given))
        places, _ = ordering.cut_at(cupy, array, cuts, source)
        found = cupy.asnumpy(array)
        for place, (value, equals) in zip(places, cuts, strict=True):
            same = int((given == value).sum())
            assert place == (given < value).sum() + (same if equals is None else min(equals, same))
            assert (found[:place] <= value).all() and (found[place:] >= value).all()
