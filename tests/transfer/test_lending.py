"""Copies that are only read: one for all devices that share memory, and one for each where that is counted."""

from __future__ import annotations

import numpy as np
import pytest

import distarray as da
from distarray.errors import DeviceMemoryError
from distarray.geometry import IndexMap, Region
from distarray.transfer.lending import lent

VALUE = np.arange(12.0).reshape(4, 3)
HALVES = [Region.from_index(slice(low, low + 2), VALUE.shape) for low in (0, 2)]


def borrowed(context, regions):
    x = da.asarray(VALUE, layout={0: HALVES[0], 1: HALVES[1]})
    source = x._operand("test")
    target = context.layout(IndexMap(VALUE.shape, regions))
    return source, target, lent(context, source, target, operation="test")


def test_devices_of_one_process_read_one_copy():
    with da.init(devices=3, kind="host") as context:
        source, target, chunks = borrowed(context, {0: [Region.full((4, 3))], 1: HALVES, 2: [Region.full((4, 3))]})
        for chunk, (device, region) in zip(chunks, target.chunks, strict=True):
            assert chunk.device.id == device
            np.testing.assert_array_equal(chunk.array, VALUE[region.key])
        assert chunks[0].array is chunks[3].array
        assert chunks[1].array is source.arrays[0]
        assert chunks[2].array is source.arrays[1]
        assert context.by_id[2].allocated == VALUE.nbytes  # counted as a copy of its own


def test_memory_goes_back_when_the_last_reader_ends():
    with da.init(devices=2, kind="host") as context:
        big = np.ones(1 << 17)
        x = da.asarray(big, layout={0: [slice(0, 9)], 1: [slice(9, None)]})
        target = context.layout(IndexMap(big.shape, {key: [Region.full(big.shape)] for key in (0, 1)}))
        chunks = lent(context, x._operand("test"), target, operation="test")
        address = chunks[0].array.ctypes.data
        kept = chunks.pop()
        del chunks
        other = context.by_id[0].empty(big.shape, float)
        assert other.array.ctypes.data != address
        np.testing.assert_array_equal(kept.array, big)
        del kept
        assert context.by_id[1].empty(big.shape, float).array.ctypes.data == address


def test_a_limit_counts_what_is_lent():
    with da.init(devices=3, kind="host", memory_limit=VALUE.nbytes - 1) as context, pytest.raises(DeviceMemoryError):
        borrowed(context, {2: [Region.full((4, 3))]})


def test_a_ledger_sees_every_copy():
    with da.init(devices=3, kind="host") as context, da.ledger() as log:
        _, _, chunks = borrowed(context, {key: [Region.full((4, 3))] for key in (0, 1, 2)})
        assert len({id(chunk.array) for chunk in chunks}) == 3
        assert sum(move.nbytes for move in log.moves) == 2 * VALUE.nbytes
