"""The order between GPUs that read each other's memory, on streams that only take note of what they wait for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from distarray.devices.moves import StreamOrder


class Streams:
    """A runtime whose streams know the work that each comes after: the GPUs whose work until now it has waited for."""

    def __init__(self, count: int) -> None:
        self.after = {ordinal: {ordinal} for ordinal in range(count)}
        self.events: dict[int, set[int]] = {}
        self.at = 0
        self.calls = 0
        self.streams = {ordinal: SimpleNamespace(ptr=ordinal) for ordinal in range(count)}
        self.api = SimpleNamespace(setDevice=self.switch, eventRecord=self.record, streamWaitEvent=self.wait)

    def current(self) -> int:
        return self.at

    def switch(self, ordinal: int) -> None:
        self.at = ordinal

    def new_event(self, ordinal: int) -> Any:
        self.events[len(self.events)] = set()
        return SimpleNamespace(ptr=len(self.events) - 1)

    def record(self, event: int, stream: int) -> None:
        assert stream == self.at
        self.calls += 1
        self.events[event] = set(self.after[stream])

    def wait(self, stream: int, event: int, flags: int) -> None:
        assert stream == self.at and not flags
        self.calls += 1
        self.after[stream] |= self.events[event]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 64])
def test_all_come_after_all(count: int) -> None:
    runtime = Streams(count + 2)
    runtime.at = count + 1
    meeting = StreamOrder(runtime, [ordinal % count for ordinal in range(2 * count)])
    for _ in range(2):
        runtime.after = {ordinal: {ordinal} for ordinal in runtime.after}
        runtime.calls = 0
        meeting.keep()
        assert all(runtime.after[ordinal] == set(range(count)) for ordinal in range(count))
        assert runtime.after[count] == {count} and runtime.at == count + 1
        assert runtime.calls <= 4 * count and (count > 1 or not runtime.calls)
