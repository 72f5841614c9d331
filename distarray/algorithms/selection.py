"""Order statistics without sorting: the elements of given ranks among all that the devices hold.

Each device keeps candidates. In each round a sample of them gives two pivots between which the wanted rank lies with high
probability; devices count what is below and between, all add the counts up, and keep the part that holds the rank. When few
candidates are left, they are gathered and sorted. (R. W. Floyd and R. L. Rivest, "Expected time bounds for selection",
Communications of the ACM 18, 1975; one round here is one step of theirs on all devices at once.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from distarray.algorithms.folds import run_tasks
from distarray.algorithms.local import told
from distarray.context import Context
from distarray.devices import Device
from distarray.storage import Operand

__all__ = ["Candidates", "candidates", "selected"]

SAMPLE = FEW = 8192
"""The size of a round's sample; so many candidates are gathered and sorted."""

GROUPS = 8
"""For so many groups of ranks the candidates are gone through once each; of more, the candidates are parted."""

BLOCK = 1 << 16
"""The elements that a host compares at a time, so that masks stay in its cache."""

Parts = dict[int, list[Any]]
"""For each local device, flat arrays of its candidates."""


class Candidates:
    """The elements that may still have a wanted rank.

    Attributes
    ----------
    counts : dict of int to int
        How many each device holds, those of other processes included.
    parts : dict of int to list of array
        Those of local devices.
    """

    def __init__(self, context: Context, devices: Sequence[int], dtype: np.dtype[Any], parts: Parts) -> None:
        self.context = context
        self.devices = tuple(devices)
        self.dtype = dtype
        self.parts = parts
        self._ordered: Any = None
        sizes = {device: np.array([sum(a.size for a in arrays)], np.int64) for device, arrays in parts.items()}
        self.counts = dict(
            zip(
                self.devices,
                told(self.context, sizes, dict.fromkeys(devices, 1), np.dtype(np.int64)).tolist(),
                strict=True,
            )
        )
        self.total = sum(self.counts.values())

    def sample(self, size: int) -> Any:
        """About `size` of the candidates, evenly from all devices; all of them where there are no more."""
        stride = max(-(-self.total // size), 1)
        lengths = {device: -(-count // stride) for device, count in self.counts.items()}
        taken: dict[int, Any] = {}
        with self.context.reporting():
            for device, arrays in self.parts.items():
                if lengths[device]:
                    owner = self.context.by_id[device]
                    with owner.active():
                        found, skipped = [], 0
                        for array in arrays:
                            found.append(array[skipped::stride])
                            skipped = (skipped - array.size) % stride
                        taken[device] = owner.lib.concatenate(found) if len(found) > 1 else owner.lib.array(found[0])
        return told(self.context, taken, lengths, self.dtype)

    def ordered_sample(self) -> Any:
        """About 8,192 of the candidates, or all where there are no more, in order."""
        if self._ordered is None:
            self._ordered = np.sort(self.sample(SAMPLE))
        return self._ordered

    def cut(self, low: object, high: object) -> tuple[int, Candidates]:
        """How many are below `low`, and the candidates from `low` to `high`."""
        below: dict[int, Any] = {}
        inside: Parts = {}
        self._each(partial(_between, low=low, high=high, below=below, inside=inside))
        kept = Candidates(self.context, self.devices, self.dtype, inside)
        counted = {device: np.array([below[device]], np.int64) for device in self.parts}
        return int(told(self.context, counted, dict.fromkeys(self.devices, 1), np.dtype(np.int64)).sum()), kept

    def beyond(self, bound: object, above: bool) -> Candidates:
        """The candidates above or below a bound."""
        kept: Parts = {}
        self._each(partial(_outside, bound=bound, above=above, kept=kept))
        return Candidates(self.context, self.devices, self.dtype, kept)

    def _each(self, task: Callable[..., None]) -> None:
        tasks = [partial(task, self.context.by_id[device], arrays) for device, arrays in self.parts.items()]
        run_tasks(self.context, tasks, sum(a.nbytes for arrays in self.parts.values() for a in arrays), "a selection")


def _blocks(device: Device, arrays: Sequence[Any]) -> Any:
    for array in arrays:
        step = BLOCK if device.kind == "host" else max(array.size, 1)
        for start in range(0, array.size, step):
            yield array[start : start + step]


def _between(
    device: Device, arrays: Sequence[Any], *, low: Any, high: Any, below: dict[int, Any], inside: Parts
) -> None:
    count, kept = 0, []
    with device.active():
        for block in _blocks(device, arrays):
            less = block < low
            count += int(device.lib.count_nonzero(less))
            kept.append(block[less != (block <= high)])
        inside[device.id] = [device.lib.concatenate(kept)] if kept else []
    below[device.id] = count


def _outside(device: Device, arrays: Sequence[Any], *, bound: Any, above: bool, kept: Parts) -> None:
    with device.active():
        kept[device.id] = [b[b > bound if above else b < bound] for b in _blocks(device, arrays)]


def candidates(context: Context, source: Operand) -> Candidates:
    """All elements of an operand that are not NaN, each once."""
    layout = source.layout
    parts: Parts = {device.id: [] for device in context.local_devices if device.id in layout.devices}

    def collect(device: Device, found: list[Any]) -> None:
        with device.active():
            for i, part in layout.index_map.owned(device.id):
                if not part.size:
                    continue
                array = source.arrays[i][layout.chunks[i][1].locate(part).key].reshape(-1)
                if source.dtype.kind in "fmM" and bool(device.lib.isnan(array.min())):
                    array = array[~device.lib.isnan(array)]
                found.append(array)

    tasks = [partial(collect, context.by_id[device], found) for device, found in parts.items()]
    run_tasks(context, tasks, sum(a.nbytes for a in source.arrays if a is not None), "a selection")
    return Candidates(context, layout.devices, source.dtype, parts)


def selected(found: Candidates, ranks: Sequence[int]) -> dict[int, Any]:
    """The elements of given ranks, in order and each less than the number of candidates, as NumPy scalars, by rank.

    Notes
    -----
    Communication: a few rounds, each of a sample and one count a device.
    """
    if not ranks:
        return {}
    sample = found.ordered_sample()
    if found.total <= FEW:
        return {rank: sample[rank] for rank in ranks}
    near = _neighbours(ranks, found.total)
    chosen = (
        near if len(near) <= GROUPS else [near[len(near) // 2]]
    )  # the middle group parts the candidates, where groups are many
    results: dict[int, Any] = {}
    outside: set[int] = set(ranks).difference(*chosen)
    low, high = sample[0], sample[0]
    below, inside = 0, found
    for group in chosen:
        for spread in (2 * int(len(sample) ** 0.5), 0):
            scale = len(sample) / found.total
            low = sample[max(int(group[0] * scale) - spread, 0)]
            high = sample[min(int(group[-1] * scale) + spread, len(sample) - 1)] if spread else low
            below, inside = found.cut(low, high)
            if inside.total < found.total or low == high:
                break  # else few values repeat: the next pivots hold only one of them
        within = [rank for rank in group if below <= rank < below + inside.total]
        outside.update(set(group).difference(within))
        if low == high:
            results |= dict.fromkeys(within, low)
        else:
            results |= {rank + below: value for rank, value in selected(inside, [r - below for r in within]).items()}
    if outside:
        after = below + inside.total
        under, over = sorted(r for r in outside if r < below), sorted(r for r in outside if r >= after)
        results |= selected(found.beyond(low, False), under) if under else {}
        if over:
            rest = selected(found.beyond(high, True), [rank - after for rank in over])
            results |= {rank + after: value for rank, value in rest.items()}
        between = sorted(outside.difference(under, over))
        results |= selected(found, between)
    return results


def _neighbours(ranks: Sequence[int], total: int) -> list[list[int]]:
    """Ranks in groups that one pair of pivots can hold with little between them."""
    groups: list[list[int]] = []
    for rank in ranks:
        if groups and rank - groups[-1][0] <= total // 64:
            groups[-1].append(rank)
        else:
            groups.append([rank])
    return groups
