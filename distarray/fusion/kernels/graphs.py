"""Launches that come again with the same addresses and numbers, as one CUDA graph.

To launch a graph takes less than half the time of a kernel, however many kernels it holds, but what they are passed is fixed in
it. A loop that frees what it no longer needs gets the same memory again and again, so that few graphs serve it; launches that
never repeat are left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from distarray.devices.cuda import CudaDevice

__all__ = ["Graphs", "KernelLaunch", "Turn", "turns_of"]

OFTEN = 4
"""Times that launches come before they are recorded, which takes as long as several of them."""

MOST = 16
"""Graphs of one expression or call: a loop has a few sets of buffers in turn."""

TRIED = 64
"""So many launches that differ are counted; if none has come often enough by then, none will."""

KernelLaunch = tuple[Any, int, int, tuple[Any, ...]]
"""A kernel, its blocks and threads, and what it is passed."""


Turn = tuple[Any, int, int, int]
"""Graphs, a device, and the first and the last of the launches that are made on its GPU together."""


def turns_of(by_id: Mapping[int, Any], devices: Sequence[int]) -> list[Turn]:
    """How launches are made, of which each is for the device that is named: those of neighbours on one GPU together."""
    turns: list[Turn] = []
    for i, device in enumerate(devices):
        if turns and by_id[turns[-1][1]].shares_memory(by_id[device]):
            turns[-1] = (*turns[-1][:3], i + 1)
        else:
            turns.append((Graphs(), device, i, i + 1))
    return turns


class Graphs:
    """The graphs of one expression, or of one call, on one GPU."""

    __slots__ = ("_known", "_made")

    def __init__(self) -> None:
        self._known: dict[Any, Any] | None = {}
        self._made = 0

    def run(self, device: CudaDevice, launches: Sequence[KernelLaunch]) -> None:
        """KernelLaunch kernels on the null stream of a device's GPU, one after the other."""
        runtime, ordinal = device.runtime, device.ordinal
        here = runtime.current()
        if here != ordinal:
            switch = runtime.api.setDevice
            switch(ordinal)
            try:
                self._run(device, launches)
            finally:
                switch(here)
            return
        known = self._known
        if known is not None and len(launches) == 1:
            found = known.get(launches[0][3])
            if found is not None and type(found) is not int:
                found.launch(runtime.streams[ordinal])
                return
        self._run(device, launches)

    def _run(self, device: CudaDevice, launches: Sequence[KernelLaunch]) -> None:
        known = self._known
        if known is None:
            _issue(device.ordinal, 0, launches)
            return
        key = launches[0][3] if len(launches) == 1 else tuple([launch[3] for launch in launches])
        found = known.get(key)
        if found is None or type(found) is int:
            _issue(device.ordinal, 0, launches)
            self._count(known, key, (found or 0) + 1, device, launches)
        else:
            found.launch(device.runtime.streams[device.ordinal])

    def _count(
        self,
        known: dict[Any, Any],
        key: Sequence[Any],
        times: int,
        device: CudaDevice,
        launches: Sequence[KernelLaunch],
    ) -> None:
        if times >= OFTEN and self._made < MOST:
            graph = _recorded(device, launches)
            if graph is None:
                self._known = None
            else:
                known[key] = graph
                self._made += 1
            return
        if len(known) >= TRIED:
            if not self._made:
                self._known = None
                return
            known.clear()
            self._made = 0
        known[key] = times


def _issue(ordinal: int, stream: int, launches: Sequence[KernelLaunch]) -> None:
    """KernelLaunch kernels on a stream of a GPU, which is the current one."""
    for kernel, blocks, threads, values in launches:
        if blocks:
            kernel.launch(ordinal, stream, blocks, threads, *values)


def _recorded(device: CudaDevice, launches: Sequence[KernelLaunch]) -> Any:
    """The launches as a graph; None where CUDA makes none of them."""
    stream = device.runtime.lane(device.ordinal, device.ordinal)
    refused = device.runtime.cupy.cuda.runtime.CUDARuntimeError
    try:
        with stream:
            stream.begin_capture()
            try:
                _issue(device.ordinal, stream.ptr, launches)
            finally:
                graph = stream.end_capture()
            return graph
    except refused:
        return None
