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
from distarray.context import Context
from distarray.devices import Device
from distarray.geometry import IndexMap, Range, Region
from distarray.storage import Operand
from distarray.transfer.execute import gather_to_host

__all__ = ["Candidates", "candidates", "selected"]

FEW = 8192
"""So many candidates are gathered and sorted."""

SAMPLE = 8192
"""The size of a round's sample."""

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

    def __init__(self, context: Context, devices: Sequence[int], dtype: Any, parts: Parts) -> None:
        self.context = context
        self.devices = tuple(devices)
        self.dtype = dtype
        self.parts = parts
        sizes = {device: np.array([sum(a.size for a in arrays)], np.int64) for device, arrays in parts.items()}
        self.counts = dict(
            zip(self.devices, self._told(sizes, dict.fromkeys(devices, 1), np.dtype(np.int64)).tolist(), strict=True)
        )
        self.total = sum(self.counts.values())

    def _told(self, local: dict[int, Any], lengths: dict[int, int], dtype: Any) -> Any:
        """What each device has to say, one behind the other, as a host array that all processes have."""
        mapping: dict[int, list[Region]] = {}
        arrays: list[Any] = []
        start = 0
        with self.context.reporting():
            for device in self.devices:
                if lengths[device]:
                    mapping[device] = [Region([Range.of(start, 1, lengths[device])])]
                    start += lengths[device]
                    said = local.get(device)
                    if said is not None:
                        owner = self.context.by_id[device]
                        with owner.active():
                            said = owner.lib.asarray(said, dtype)
                    arrays.append(said)
        if not start:
            return np.empty(0, dtype)
        return gather_to_host(self.context, Operand(self.context.layout(IndexMap((start,), mapping)), arrays, dtype))

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
        return self._told(taken, lengths, self.dtype)

    def cut(self, low: Any, high: Any) -> tuple[int, Candidates]:
        """How many are below `low`, and the candidates from `low` to `high`."""
        below: dict[int, Any] = {}
        inside: Parts = {}
        self._each(partial(_between, low=low, high=high, below=below, inside=inside))
        kept = Candidates(self.context, self.devices, self.dtype, inside)
        counted = {device: np.array([below[device]], np.int64) for device in self.parts}
        return int(self._told(counted, dict.fromkeys(self.devices, 1), np.dtype(np.int64)).sum()), kept

    def beyond(self, bound: Any, above: bool) -> Candidates:
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
            kept.append(block[~(less | (block > high))])
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
                if source.dtype.kind == "f" and bool(device.lib.isnan(array.min())):
                    array = array[~device.lib.isnan(array)]
                found.append(array)

    tasks = [partial(collect, context.by_id[device], found) for device, found in parts.items()]
    run_tasks(context, tasks, sum(a.nbytes for a in source.arrays if a is not None), "a selection")
    return Candidates(context, layout.devices, source.dtype, parts)


def selected(found: Candidates, ranks: Sequence[int]) -> dict[int, Any]:
    """The elements of given ranks, each less than the number of candidates, as NumPy scalars, by rank.

    Notes
    -----
    Communication: a few rounds, each of a sample and one count a device.
    """
    results: dict[int, Any] = {}
    stuck = False
    while ranks:
        if found.total <= FEW:
            everything = np.sort(found.sample(FEW))
            return results | {rank: everything[rank] for rank in ranks}
        sample = np.sort(found.sample(SAMPLE))
        scale = len(sample) / found.total
        spread = 0 if stuck else 2 * int(len(sample) ** 0.5)
        first = ranks[0] if not stuck else ranks[len(ranks) // 2]
        last = _near(ranks, first, found.total) if not stuck else first
        low = sample[max(int(first * scale) - spread, 0)]
        high = sample[min(int(last * scale) + spread, len(sample) - 1)]
        below, inside = found.cut(low, high)
        within = [rank for rank in ranks if below <= rank < below + inside.total]
        under = [rank for rank in ranks if rank < below]
        over = [rank for rank in ranks if rank >= below + inside.total]
        if low == high:
            results |= dict.fromkeys(within, low)
        elif inside.total == found.total:  # few values that are often there: one at a time
            stuck = True
            continue
        elif within:
            results |= {rank + below: value for rank, value in selected(inside, [r - below for r in within]).items()}
        stuck = False
        if under and over:
            results |= selected(found.beyond(low, False), under)
            under = []
        if under:
            found, ranks = found.beyond(low, False), under
            continue
        skipped = below + inside.total
        if over:
            rest = selected(found.beyond(high, True), [rank - skipped for rank in over])
            results |= {rank + skipped: value for rank, value in rest.items()}
        return results
    return results


def _near(ranks: Sequence[int], first: int, total: int) -> int:
    """The last of the ranks that one pair of pivots can hold with little between them."""
    return max(rank for rank in ranks if rank - first <= total // 64)
