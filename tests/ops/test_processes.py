"""One process's array for all, and a global array from what each process holds: in one process and on simulated ranks."""

from __future__ import annotations

import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import distarray as da
from conformance.checking import assert_same
from conformance.contexts import context, examples
from conformance.ranks import on_ranks
from conformance.strategies import device_counts
from distarray.geometry import Region

BF16 = np.dtype(ml_dtypes.bfloat16)
H = np.arange(24.0).reshape(6, 4)


def rank() -> int:
    return da.process_index()


# --- chunks that hold the same region ---------------------------------------------------------------------------------

TWICE = [(slice(0, 2), [1, 2]), (slice(0, 2), [10, 20])]


@pytest.mark.parametrize(("mode", "one", "both"), [
    ("sum", [11, 22], [22, 44]), ("prod", [10, 40], [100, 1600]), ("min", [1, 2], [1, 2]), ("max", [10, 20], [10, 20]),
])  # fmt: skip
def test_a_region_given_twice_is_folded(mode: str, one: list[int], both: list[int]) -> None:
    for n in (1, 2, 3):
        with context(n):
            assert da.from_local_chunks(TWICE, mode=mode).get().tolist() == one
    for shares in ((1, 1), (2, 1)):
        for got in on_ranks(shares, lambda: da.from_local_chunks(TWICE, mode=mode).get().tolist()):
            assert got == both


def test_a_region_given_twice_has_no_meaning_in_replica() -> None:
    for n in (1, 2):
        with context(n), pytest.raises(ValueError, match=r"process 0 gives \[0:2\] twice.*mode='sum'"):
            da.from_local_chunks(TWICE)
    with context(1), pytest.raises(ValueError, match=r"\[0:2\] twice"):
        da.from_local_chunks([(slice(0, 2), [1, 2]), (slice(None, None, -1), [2, 1])])

    def alone() -> list[int]:
        with pytest.raises(ValueError, match=r"process 1 gives \[0:2\] twice"):
            da.from_local_chunks(TWICE if rank() else [])
        return da.from_local_chunks(TWICE[:1]).get().tolist()  # a copy for each process is what REPLICA means

    assert on_ranks((1, 1), alone) == [[1, 2]] * 2


def test_empty_chunks_may_be_given_twice() -> None:
    with context(1):
        x = da.from_local_chunks([(slice(0, 0), []), (slice(0, 3), [1.0, 2.0, 3.0]), (slice(3, 3), [])])
        assert x.get().tolist() == [1, 2, 3]


def test_folding_follows_numpys_error_state() -> None:
    big = [(slice(0, 1), [1e308]), (slice(0, 1), [1e308])]

    def program() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert np.isinf(da.from_local_chunks(big, mode="sum").get()).all()
        with np.errstate(over="raise"), pytest.raises(FloatingPointError):
            da.from_local_chunks(big if rank() == 0 else [], mode="sum")
        return da.from_local_chunks([(slice(0, 1), [1.0])], mode="sum").get().tolist()

    assert on_ranks((1, 1), program) == [[2.0]] * 2


# --- indices ----------------------------------------------------------------------------------------------------------


def test_numpy_integers_are_integers() -> None:
    def program() -> Any:
        bounds = np.array([0, 2, 5])
        lo, hi = bounds[rank()], bounds[rank() + 1]
        return (
            da.from_local_chunks([(slice(lo, hi, np.int32(1)), np.arange(lo, hi))], shape=np.array([5])).get().tolist()
        )

    assert on_ranks((1, 1), program) == [[0, 1, 2, 3, 4]] * 2
    with context(1):
        assert da.from_local_chunks([(slice(np.int64(0), np.uint8(2)), [1, 2])], shape=np.int64(2)).get().tolist() == [
            1,
            2,
        ]


@pytest.mark.parametrize("index", [
    slice(None, None, -1), slice(2, None, -1), slice(2, None, -2), slice(None, None, -2), slice(0, None, -1),
    slice(None, 0, -1), slice(0, None, 2), slice(0, 3, 2), slice(-1, -4, -1), slice(-3, None), slice(2, 5, 3),
])  # fmt: skip
def test_a_negative_step_reads_as_in_numpy(index: slice) -> None:
    ref = np.zeros(3)
    values = np.arange(1.0, 1 + len(ref[index]))
    ref[index] = values
    with context(1):
        rest = np.zeros(3)
        assert (
            da.from_local_chunks([(index, values), (slice(0, 3), rest)], (3,), mode="sum").get().tolist()
            == ref.tolist()
        )
    assert da.from_local_chunks([(slice(None, None, -1), [1, 2, 3])]).get().tolist() == [3, 2, 1]


@examples(2)
@given(data=st.data(), n=device_counts)
def test_slices_read_as_in_numpy(data: st.DataObject, n: int) -> None:
    """`ref[index] = values` for random slices, each element at most once."""
    shape = tuple(data.draw(st.lists(st.integers(0, 5), max_size=3)))
    index = tuple(data.draw(st.slices(length)) for length in shape)
    ref = np.zeros(shape)
    values = np.arange(1.0, 1 + ref[index].size).reshape(ref[index].shape)
    ref[index] = values
    with context(n):
        got = da.from_local_chunks([(index, values), ((), np.zeros(shape))], shape, mode="sum")
        assert_same(got, ref)


@pytest.mark.parametrize(("index", "values", "expected"), [
    (slice(None, None, 2), [1, 2, 3], [1, 0, 2, 0, 3]),  # nobody else says how long the array is
    (slice(4, None, -2), [1, 2, 3], [3, 0, 2, 0, 1]),
    (slice(None, 1, -1), [1, 2], [0, 0, 2, 1]),
])  # fmt: skip
def test_the_shape_is_what_strided_chunks_reach(index: slice, values: list[int], expected: list[int]) -> None:
    with context(2):
        assert da.from_local_chunks([(index, values)], mode="max").shape == (len(expected),)
        assert da.from_local_chunks([(index, values)], mode="sum").get().tolist() == expected


def test_regions_of_two_axes_are_flipped_axis_by_axis() -> None:
    ref = np.zeros((6, 4))
    ref[::-1, ::-1], expected = H, H[::-1, ::-1]
    with context(2):
        assert_same(da.from_local_chunks([((slice(None, None, -1), slice(None, None, -1)), H)]), expected)
        pieces = [((slice(5, 2, -1), slice(None)), H[:3]), ((slice(2, None, -1), slice(None)), H[3:])]
        assert_same(da.from_local_chunks(pieces), H[::-1])
        assert_same(da.from_local_chunks([((), np.array(3.0))]), np.array(3.0))
        assert_same(da.from_local_chunks({Region.full((6, 4)): H}), H)


# --- dtypes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [BF16, np.dtype(">f8"), np.dtype("?"), np.dtype("c8")])
def test_every_dtype_travels(dtype: np.dtype[Any]) -> None:
    h = np.arange(2000).reshape(1000, 2).astype(dtype)

    def program() -> Any:
        x = da.asarray(h if rank() == 1 else None, root=1)
        lo, hi = [(0, 300), (300, 1000)][rank()]
        y = da.from_local_chunks([(slice(lo, hi), h[lo:hi])])
        z = da.from_local_chunks([((), h)] if rank() else [])
        return [(a.dtype, a.get()) for a in (x, y, z)]

    for found in on_ranks((1, 2), program):
        for kind, value in found:
            assert kind == dtype
            assert_same(value, h, local=True)
    with context(2) as c:
        if c.kind == "cuda" and not dtype.isnative:
            with pytest.raises(TypeError, match="another byte order"):
                da.asarray(h, root=0)
            return
        for x in (da.asarray(h, root=0), da.from_local_chunks([((), h)])):
            assert x.dtype == dtype and np.array_equal(x.get(), h)


def test_bfloat16_is_named_in_errors() -> None:
    with context(1), pytest.raises(ValueError, match="bfloat16 on process 0"):
        da.from_local_chunks([(slice(0, 1), np.ones(1, BF16)), (slice(1, 2), np.ones(1))])


# --- asarray(root=) ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("root", [1.0, "0", True, [0]])
def test_a_root_is_an_integer(root: Any) -> None:
    with context(1), pytest.raises(TypeError, match="integer process number"):
        da.asarray(H, root=root)


@pytest.mark.parametrize("root", [-1, 1, 7])
def test_a_root_is_a_process(root: int) -> None:
    with context(1), pytest.raises(ValueError, match="process_count"):
        da.asarray(H, root=root)


def test_a_numpy_integer_is_a_root() -> None:
    for got in on_ranks((1, 1), lambda: da.asarray(H, root=np.int64(1)).get()):
        assert_same(got, H, local=True)


def test_a_scatter_copies() -> None:
    with context(1):
        with pytest.raises(ValueError, match="scatter copies"):
            da.asarray(H, root=0, copy=False)
        assert_same(da.asarray(H, root=0, copy=True), H)


@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: [x[0, 0], 1.0], lambda x: [[1.0], [x[0, 0]]]])
def test_a_distributed_array_belongs_to_all(wrap: Any) -> None:
    def program() -> Any:
        x = da.asarray(H, layout=da.blocks(0))
        with pytest.raises((TypeError, da.RemoteError), match="DistributedArray") as caught:
            da.asarray(wrap(x), root=0)
        with pytest.raises((TypeError, da.RemoteError), match="DistributedArray"):
            da.from_local_chunks([((), wrap(x))] if rank() == 0 else [])
        assert_same(da.asarray(H if rank() == 0 else x, root=0).get(), H, local=True)  # what the others pass is ignored
        return type(caught.value)

    with context(2):
        assert program() is TypeError
    own, other = on_ranks((1, 1), program)
    assert own is TypeError
    assert issubclass(other, da.RemoteError)
    assert issubclass(other, TypeError)


@pytest.mark.parametrize("mode", [*da.Mode])
def test_overlapping_layouts_keep_each_value_once(mode: da.Mode) -> None:
    def program() -> Any:
        like = da.distributed_array(H, {0: slice(0, 4), 1: [slice(2, 6), slice(0, 1)], 2: slice(3, 3)}, mode)
        x = da.asarray(H if rank() == 1 else None, root=1, layout=like.layout)
        assert x.layout == like.layout
        return x.get()

    for shares in ((1, 2), (2, 1)):
        for got in on_ranks(shares, program):
            assert_same(got, H, local=True)


def test_the_ledger_sees_a_scatter() -> None:
    h = np.arange(1200.0)

    def program() -> Any:
        with da.ledger() as log, da.no_implicit_communication():
            da.asarray(h if rank() == 0 else None, root=0, layout=da.blocks(0))
        with da.ledger() as other:
            da.asarray(h, root=1, layout={0: slice(0, 600), 3: [slice(600, 900), slice(900, 1200)]})
        return [[tuple(m) for m in found.moves] for found in (log, other)], log.rounds

    for (moves, others), rounds in on_ranks((2, 2), program):
        assert moves == [(0, 2, 2400, "asarray(root=)"), (0, 3, 2400, "asarray(root=)")]
        assert others == [(2, 0, 4800, "asarray(root=)")]
        assert rounds == 1
    with context(4), da.ledger() as log:
        da.asarray(h, root=0)
    assert log.messages == log.rounds == 0


def test_numbers_that_steer_a_loop_take_one_round():
    def program():
        x = da.asarray(np.arange(1.0, 9.0), layout=da.blocks(0))
        exchanges = []
        communicator = da.current.current().communicator
        inner = communicator.exchange

        def counted(*args):
            exchanges.append(args)
            return inner(*args)

        communicator.exchange = counted
        got, counts = [], []
        for value in (da.sum, da.mean, da.linalg.norm, lambda x: da.vdot(x, x), lambda x: x.max() > 3):
            exchanges.clear()
            got.append(value(x).item())
            counts.append(len(exchanges))
        del communicator.exchange
        return got, counts

    h = np.arange(1.0, 9.0)
    for got, counts in on_ranks([1, 1, 1], program):
        np.testing.assert_allclose(got, [h.sum(), h.mean(), np.linalg.norm(h), h @ h, True])
        assert counts == [1] * 5
