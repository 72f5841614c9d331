"""Interrupts (Ctrl-C) may stop Python code anywhere, constructors and finalisers too: what devices count stays true."""

from __future__ import annotations

import gc
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import copy_context

import numpy as np
import pytest

import distarray as da
from distarray.devices import HostDevice
from distarray.errors import DeviceMemoryError

pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers"),
    # an interrupt inside a finaliser is reported, not raised
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def storm() -> Iterator[Callable[[Callable[[], None], int], int]]:
    """``storm(work, times)``: runs `work` again and again until so many real interrupts have hit it, or for some seconds;
    how many did."""
    hits, armed = 0, False

    def interrupt(number: int, frame: object) -> None:
        nonlocal hits, armed
        if armed:
            armed = False
            hits += 1
            raise KeyboardInterrupt

    def run(work: Callable[[], None], times: int) -> int:
        nonlocal armed
        due = time.monotonic() + 8
        turn = 0
        while hits < times and time.monotonic() < due:
            turn += 1
            with suppress(KeyboardInterrupt):
                armed = True
                signal.setitimer(signal.ITIMER_REAL, 1e-5 + turn % 97 * 2e-6)
                copy_context().run(work)  # an interrupted np.errstate is not undone: that is NumPy's own
                armed = False
        return hits

    before = signal.signal(signal.SIGALRM, interrupt)
    hook = sys.unraisablehook
    sys.unraisablehook = lambda _: None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield run
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        sys.unraisablehook = hook


def test_interrupted_chunks_are_not_counted_for_ever(storm):
    host = HostDevice(0, memory_limit=1 << 20)
    kept = host.empty((100,), np.uint8)
    full = host.empty((1 << 19,), np.uint8)

    def work() -> None:
        for _ in range(20):
            host.empty((1000,), np.uint8)

    assert storm(work, 2000) > 100
    gc.collect()
    assert host.allocated == 100 + (1 << 19)
    del full
    assert host.allocated == 100
    exact = host.empty(((1 << 20) - 100,), np.uint8)  # nothing that was interrupted stands in its way
    with pytest.raises(DeviceMemoryError):
        host.empty((1,), np.uint8)
    del exact, kept
    assert host.allocated == 0 == len(host.chunks)
    host.reset_peak()
    assert host.peak == 0


def test_what_an_interrupted_finaliser_left_does_not_refuse_room():
    """The running count is wrong in the way that an interrupt makes it: room is refused only by a true one."""
    host = HostDevice(0, memory_limit=1000)
    host.count += 990
    assert host.empty((500,), np.uint8).nbytes == 500
    assert host.allocated == 0


def test_interrupted_programs_leave_every_array_usable(storm):
    with da.init(devices=3, kind="host", memory_limit=1 << 22) as context:
        h = np.arange(3000.0)
        x = da.asarray(h, layout=da.blocks(0))
        z = x.copy()

        def work(z: da.DistributedArray = z) -> None:
            z[...] = x
            (x[:-2] + x[2:]).evaluate()
            z += 1

        assert storm(work, 300) > 20
        np.testing.assert_array_equal(x.get(), h)
        assert set(np.unique(z.get() - h)) <= {0.0, 1.0, 2.0}
        z[...] = x
        np.testing.assert_array_equal(z.get(), h)
        del z, work
        gc.collect()
        held = sum(device.allocated for device in context.devices)
        assert x.nbytes <= held <= 8 * x.nbytes
        np.testing.assert_array_equal((x * 2).get(), 2 * h)
