"""Large copies of rows within a GPU, and between GPUs in both directions at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from distarray.devices import row_copies
from distarray.devices.cuda import BESIDE


def test_the_source_declares_what_it_is_passed() -> None:
    for across in (32, 256):
        source, fields = row_copies.source_of(across)
        assert source.count("{") == source.count("}") and len(fields) == 7


VIEWS = {
    "left half": lambda a: a[:, : a.shape[1] // 2],
    "right columns": lambda a: a[:, -a.shape[1] // 2 :],
    "odd columns": lambda a: a[:, 1:-2],
    "every other row": lambda a: a[::2],
    "narrow": lambda a: a[:, 4:40],
}


@pytest.mark.cuda
@pytest.mark.parametrize("view", sorted(VIEWS))
@pytest.mark.parametrize("shape", [(3000, 1032), (64, 70000), (40000, 96), (2, 5000000)])
@pytest.mark.parametrize("into", [True, False])
def test_rows_are_copied(cuda_devices: Any, view: str, shape: tuple[int, int], into: bool) -> None:
    device = cuda_devices[0]
    host = np.arange(np.prod(shape), dtype="f4").reshape(shape)
    shown = np.ascontiguousarray(VIEWS[view](host))
    if into:  # from all of an array into a part of one
        target, source = device.from_host(host), device.from_host(shown * 2)
        device.copy(VIEWS[view](target.array), source.array, device)
        VIEWS[view](host)[...] = shown * 2
        np.testing.assert_array_equal(device.to_host(target.array), host)
    else:
        source, target = device.from_host(host), device.empty(shown.shape, "f4")
        device.copy(target.array, VIEWS[view](source.array), device)
        np.testing.assert_array_equal(device.to_host(target.array), shown)


@pytest.mark.cuda
def test_copies_of_a_block_run_beside_each_other_and_in_order(cuda_devices: Any) -> None:
    """What was queued before comes first, and what is queued afterwards comes after, on all GPUs."""
    first, last = cuda_devices[0], cuda_devices[-1]
    rows = 2 * BESIDE // 4096
    for turn in range(4):
        a, b = first.full((rows, 2048), "f4", turn), last.full((rows, 2048), "f4", turn + 10)
        c, d = first.empty((rows, 2048), "f4"), last.empty((rows, 2048), "f4")
        with first.ahead() as arrived:
            first.copy(c.array[:, :1024], a.array[:, 1024:], first)
            first.copy(c.array[:, 1024:], b.array[:, 1024:], last)
            last.copy(d.array[:, :1024], b.array[:, :1024], last)
            last.copy(d.array[:, 1024:], a.array[:, :1024], first)
        arrived()
        for device, found in ((first, c), (last, d)):
            with device.active():
                found.array[...] += 1
        for device, found, halves in ((first, c, (turn, turn + 10)), (last, d, (turn + 10, turn))):
            got = device.to_host(found.array)
            assert (got[:, :1024] == halves[0] + 1).all() and (got[:, 1024:] == halves[1] + 1).all()
