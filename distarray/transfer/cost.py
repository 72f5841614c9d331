"""The cost model: constants, never measurements, so that every process predicts and decides the same."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["LINKS", "predicted_seconds"]

LINKS: dict[str, tuple[float, float]] = {
    "host": (5e-6, 10e9),
    "cuda": (10e-6, 300e9),
}
"""Kind of device → (seconds for a message, bytes a second out of one device)."""


def predicted_seconds(rounds: Sequence[dict[tuple[int, int], int]], kind: str) -> float:
    """Seconds for rounds of messages ``(source, target) → bytes``: each round takes as long as its busiest device."""
    latency, bandwidth = LINKS[kind]
    total = 0.0
    for messages in rounds:
        busy: dict[tuple[str, int], float] = {}
        for (source, target), nbytes in messages.items():
            for end in (("out", source), ("in", target)):
                busy[end] = busy.get(end, 0.0) + latency + nbytes / bandwidth
        total += max(busy.values(), default=0.0)
    return total
