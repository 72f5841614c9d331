"""Copies between GPUs as CUDA makes them best: of rows, on a stream for each direction, beside what the GPUs compute.

A copy engine moves rows of a strided array straight into place, at the speed of the link where rows are not narrow. Each
pair of GPUs has a stream of its own in each direction, so that links carry both ways at once, and what stays on one GPU
is copied meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any, NamedTuple, Protocol

from distarray.devices.arrays import DeviceArray

__all__ = ["Batch", "StreamOrder", "Rows", "rows_between", "rows_of"]

NARROWEST_ROW = 64
"""Rows of fewer bytes are packed by a kernel: a copy engine moves narrow rows far below its bandwidth."""

WIDEST_PITCH = (1 << 31) - 1
"""CUDA's limit on the bytes between two rows of a 2-d copy."""


class Rows(NamedTuple):
    """A 2-d copy: bytes of a row, how many rows, and the bytes from one to the next on either side."""

    width: int
    height: int
    dst_pitch: int
    src_pitch: int


def rows_of(shape: Sequence[int], itemsize: int, dst: Sequence[int], src: Sequence[int]) -> Rows | None:
    """One 2-d copy between two strided views, or None where it takes several.

    `dst` and `src` are the strides. Neighbouring axes that lie one behind the other in both views count as one.
    """
    axes: list[tuple[int, int, int]] = []  # (length, dst stride, src stride), outermost first
    for length, to, frm in zip(shape, dst, src):
        if length == 1:
            continue
        if axes and axes[-1][1] == length * to and axes[-1][2] == length * frm:
            axes[-1] = (axes[-1][0] * length, to, frm)
        else:
            axes.append((length, to, frm))
    width = itemsize
    if axes and axes[-1][1:] == (itemsize, itemsize):
        width *= axes.pop()[0]
    if not axes:
        return Rows(width, 1, width, width)
    if len(axes) > 1:
        return None
    height, to, frm = axes[0]
    if min(to, frm) < width or max(to, frm) > WIDEST_PITCH:
        return None  # a flip, a broadcast, overlapping rows, or rows too far apart
    return Rows(width, height, to, frm)


def rows_between(dst: DeviceArray, src: DeviceArray) -> Rows | None:
    """The same of two arrays; None too where rows are narrow."""
    rows = rows_of(dst.shape, dst.dtype.itemsize, dst.strides, src.strides)
    return None if rows is None or (rows.height > 1 and rows.width < NARROWEST_ROW) else rows


class _Runtime(Protocol):
    """What a batch asks of the CUDA devices' runtime."""

    streams: dict[int, Any]

    def lane(self, to: int, frm: int) -> Any: ...
    def record(self, ordinal: int, stream: Any) -> Any: ...
    def wait(self, ordinal: int, stream: object, event: object) -> None: ...
    def reuse(self, ordinal: int, event: object) -> None: ...
    def move(self, dst: DeviceArray, to: int, src: DeviceArray, frm: int, rows: Rows, stream: object) -> None: ...


class Batch:
    """Transfers that start from what the compute streams had queued when the first of them was; once it is closed, the compute
    streams at both ends wait for them."""

    def __init__(self, runtime: _Runtime) -> None:
        self.runtime = runtime
        self._lanes: dict[tuple[int, int], Any] = {}
        self._begun: dict[int, Any] = {}  # for each GPU, the event of what was queued before
        self._later: list[tuple[Any, int, Any, Rows]] = []  # copies within a GPU: links are to be busy first

    def copy(self, dst: DeviceArray, to: int, src: DeviceArray, frm: int, rows: Rows | None) -> bool:
        """Queue a copy, where it is one of rows; others are left to the compute streams."""
        if rows is None:
            return False
        if to == frm:
            self._later.append((dst, to, src, rows))
        else:
            self._queue(dst, to, src, frm, rows)
        return True

    def _queue(self, dst: DeviceArray, to: int, src: DeviceArray, frm: int, rows: Rows) -> None:
        runtime = self.runtime
        lane = self._lanes.get((to, frm))
        if lane is None:
            lane = self._lanes[to, frm] = runtime.lane(to, frm)
            for end in {to, frm}:
                if end not in self._begun:
                    self._begun[end] = runtime.record(end, runtime.streams[end])
                runtime.wait(to, lane, self._begun[end])
        runtime.move(dst, to, src, frm, rows, lane)

    def flush(self) -> None:
        """Queue what was left for last."""
        for dst, on, src, rows in self._later:
            self._queue(dst, on, src, on, rows)
        self._later.clear()

    def close(self) -> None:
        """Make the compute streams wait, so that buffers may be read, written and freed in their order."""
        self.flush()
        runtime = self.runtime
        for end, event in self._begun.items():
            runtime.reuse(end, event)
        self._begun.clear()
        for (to, frm), lane in self._lanes.items():
            event = runtime.record(to, lane)
            for end in {to, frm}:
                runtime.wait(end, runtime.streams[end], event)
            runtime.reuse(to, event)
        self._lanes.clear()


FEW = 4
"""GPUs up to which each waits for all others; of more, one for all, and they for that one."""


class StreamOrder:
    """The order between the compute streams of some GPUs, before and after work in which they read each other's memory.

    Parameters
    ----------
    runtime : CudaRuntime
    gpus : iterable of int
    """

    def __init__(self, runtime: ModuleType, gpus: Iterable[int]) -> None:
        self._runtime = runtime
        ordinals = sorted(set(gpus))
        events = {ordinal: runtime.new_event(ordinal) for ordinal in ordinals} if len(ordinals) > 1 else {}
        hub = ordinals[0]
        self._recorded = list(events.items())
        self._awaited = [
            (ordinal, [events[other] for other in ordinals if other != ordinal])
            for ordinal in reversed(ordinals)
            if events and (len(ordinals) <= FEW or ordinal == hub)
        ]
        self._hub = None if len(ordinals) <= FEW else (hub, runtime.new_event(hub), ordinals[1:])

    def keep(self) -> None:
        """Let what is queued on any of them from now on run after all that is queued on all of them now."""
        if not self._recorded:
            return
        runtime = self._runtime
        api, streams = runtime.api, runtime.streams
        switch, wait = api.setDevice, api.streamWaitEvent
        here = runtime.current()
        try:
            for ordinal, event in self._recorded:
                switch(ordinal)
                api.eventRecord(event.ptr, streams[ordinal].ptr)
            for ordinal, events in self._awaited:
                switch(ordinal)
                for event in events:
                    wait(streams[ordinal].ptr, event.ptr, 0)
            if self._hub is not None:
                hub, event, others = self._hub
                api.eventRecord(event.ptr, streams[hub].ptr)
                for ordinal in others:
                    switch(ordinal)
                    wait(streams[ordinal].ptr, event.ptr, 0)
        finally:
            switch(here)
