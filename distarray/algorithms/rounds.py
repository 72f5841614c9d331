"""Products in bounded memory: what a product brings to devices is cut into rounds, so that none holds much more than a share.

The plan of a product (see ``contraction``) says which device multiplies what, and brings what is missing at once. Here it
is looked at what that takes of each device. Where it is more than 2.5 times a fair share of operands and result, the
products are formed in rounds: panels of the operands move, are multiplied, and go. A panel is a part of the result's
columns (or rows) where one operand moves, and a part of the summed axis where both do. Where the result alone is too
much for a device, which happens to partial sums, or to operands that lie on few devices, the devices share the result
in blocks, and every operand comes to them in panels. Partial sums count twice, since they are folded later beside
what they become.

References
----------
R. A. van de Geijn and J. Watts, "SUMMA: scalable universal matrix multiplication algorithm", Concurrency: Practice and
Experience 9(4), 1997.
M. D. Schatz, R. A. van de Geijn and J. Poulson, "Parallel matrix multiplication: a systematic journey", SIAM Journal on
Scientific Computing 38(6), 2016.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod

from distarray.algorithms.contraction import (
    Contraction,
    Holders,
    Problem,
    ProductTask,
    chosen,
    cost_of,
    cut_alike,
    laid_out,
    merged,
)
from distarray.geometry import IndexMap, Range, Region
from distarray.layout import Layout

__all__ = ["BOUND", "FEW_ROWS", "is_bearable", "plan"]

BOUND = 2.5
"""A device may hold so many times its fair share of operands and result."""

NARROW = 32
"""A panel of the result is at least so wide."""

FEW_ROWS = 64
"""Of a product that is added to others so many rows are formed at once, or more."""


PANELS = (0, 1, 4, 8)
"""Where the panels of an operand that comes while others are multiplied begin and end, in eighths: the first is waited for."""

WORTH = 1 << 25
"""Bytes from which what is brought to a device comes so …"""

PAIRS_A_BYTE = 500
"""… where as many multiplications are done with each: GPUs do about twice as many in the time in which a link brings a byte."""

BROAD = 512
"""An eighth of the result is at least so wide then."""


def plan(
    problem: Problem,
    a: Layout,
    b: Layout,
    itemsizes: tuple[int, int, int],
    least: int,
    *,
    ahead: bool = False,
    bound: float = BOUND,
) -> Contraction:
    """The cheapest plan of a product of two REPLICA operands without an empty axis, in as many rounds as memory asks for.

    Parameters
    ----------
    itemsizes : tuple of int
        Of the first operand, the second, and the result.
    least : int
        Where no device holds more bytes, memory is not looked at.
    ahead : bool
        Whether devices receive while they multiply: what is large then comes in panels, also where there is room for all of it.
    bound : float
        How many fair shares a device may hold, where others are kept for the caller.
    """
    together = cut_alike(problem, a, b, itemsizes, least)
    if together is not None:
        return together
    held = (Holders(a.index_map, problem.a), Holders(b.index_map, problem.b))
    tasks, replicas = chosen(problem, a, b, held, itemsizes)
    if not replicas:
        devices = sorted({device for layout in (a, b) for device, region in layout.chunks if region.size})
        fair = _fair(problem, itemsizes, len(devices))
        use = _Use(problem, held, itemsizes, bound)
        if use.most(tasks) > max(bound * fair, least):
            if use.is_lopsided(tasks, fair, len(devices)):
                tasks = min(
                    [tasks, *[merged(grid, held) for grid in _grids(problem, devices)]],
                    key=lambda found: (
                        use.is_lopsided(found, fair, len(devices)), cost_of(problem, found, held, itemsizes, None)
                    ),
                )  # fmt: skip
            room = max(bound * fair - use.kept(tasks) - use.scratch(tasks), fair / 8)
            steps = _cut(problem, tasks, use, room)
            return laid_out(problem, tasks, steps, held)
        if ahead and (panels := _panels(problem, tasks, use)) is not None:
            return laid_out(problem, tasks, panels, held)._replace(ahead=True)
    return laid_out(problem, tasks, [[box for _, box in tasks]], held, replicas=replicas)


def is_bearable(problem: Problem, placed: Layout, held: Layout, itemsizes: tuple[int, int], least: int) -> bool:
    """Whether an operand in layout `placed` is at most what a device may hold beside the other one, in `held`."""
    most = max([_held(placed.index_map, device) for device in placed.devices], default=0) * itemsizes[0]
    whole = (placed.shape, held.shape, problem.shape)
    total = prod(whole[0]) * itemsizes[0] + (prod(whole[1]) + prod(whole[2])) * itemsizes[1]
    return most <= max((BOUND - 1) * total / max(len(held.devices), 1), least)


def _fair(problem: Problem, itemsizes: Sequence[int], devices: int) -> float:
    """The bytes of operands and result that a device would have, were all in equal parts."""
    shapes = [[problem.sizes[label] for label in labels] for labels in (problem.a, problem.b)]
    return sum([prod(shape) * size for shape, size in zip((*shapes, problem.shape), itemsizes)]) / max(devices, 1)


def _held(index_map: IndexMap, device: int) -> int:
    return sum([region.size for region in index_map.regions(device)])


class _Use:
    """What tasks take of the devices' memory, in bytes."""

    def __init__(
        self, problem: Problem, held: tuple[Holders, Holders], itemsizes: tuple[int, int, int], bound: float
    ) -> None:
        self.bound = bound
        self.problem = problem
        self.held = held
        self.itemsizes = itemsizes

    def brought(self, tasks: Sequence[ProductTask]) -> tuple[dict[int, int], dict[int, int]]:
        """Of each operand what devices receive."""
        found: list[dict[int, int]] = []
        for operand, itemsize in zip(self.held, self.itemsizes):
            sizes: dict[int, int] = {}
            for device, region in {(device, operand.region(box)) for device, box in tasks}:
                if operand.home(device, region) < 0:
                    sizes[device] = sizes.get(device, 0) + region.size * itemsize
            found.append(sizes)
        return found[0], found[1]

    def result(self, tasks: Sequence[ProductTask]) -> dict[int, int]:
        """What devices have of the result; where parts of it are partial sums, with what these are folded to."""
        sizes: dict[int, int] = {}
        for device, region in {(device, self.problem.result(box)) for device, box in tasks}:
            sizes[device] = sizes.get(device, 0) + region.size
        times = self.itemsizes[2] * (2 if sum(sizes.values()) > prod(self.problem.shape) else 1)
        return {device: size * times for device, size in sizes.items()}

    def scratch(self, tasks: Sequence[ProductTask]) -> float:
        """The most that a product takes that is added to others: a quarter of what it is added to, and of few rows all."""
        sizes = []
        for _, box in tasks:
            region = self.problem.result(box)
            rows = region[0].size if len(region) else 1
            sizes.append(region.size * self.itemsizes[2] * min(max(FEW_ROWS / rows, 0.25), 1))
        return max(sizes)

    def is_lopsided(self, tasks: Sequence[ProductTask], fair: float, devices: int) -> bool:
        """Whether the result is too much for a device: beside its operands, or, where these are, for a fair share of it."""
        enough = 1.25 * prod(self.problem.shape) * self.itemsizes[2] / devices
        result = self.result(tasks)
        return any(size > max(0.8 * self.bound * fair - self._operands(d), enough) for d, size in result.items())

    def kept(self, tasks: Sequence[ProductTask]) -> int:
        """The most that a device has of operands and result."""
        result = self.result(tasks)
        return max([self._operands(device) + result[device] for device in result])

    def most(self, tasks: Sequence[ProductTask]) -> int:
        """The most that a device has of operands, what is brought, and result."""
        result, (first, second) = self.result(tasks), self.brought(tasks)
        return max([self._operands(d) + result[d] + first.get(d, 0) + second.get(d, 0) for d in result])

    def _operands(self, device: int) -> int:
        return sum([_held(o.index_map, device) * size for o, size in zip(self.held, self.itemsizes)])


def _grids(problem: Problem, devices: Sequence[int]) -> Iterator[list[ProductTask]]:
    """The result in blocks, one for each device: cut along one axis, or along two."""
    box = Region.full(problem.sizes)
    _, k, n = problem.bounds
    labels = [label for label in (*range(k), *range(n, len(box))) if box[label].size > 1]
    p = len(devices)
    for high in range(1, p + 1):
        if p % high or (high == 1 and p > 1):
            continue
        for first in labels:
            for second in labels if high < p else labels[:1]:
                if high < p and (first == second or box[second].size < p // high):
                    continue
                if box[first].size < high:
                    continue
                tasks = []
                for number, device in enumerate(devices):
                    i, j = divmod(number, p // high)
                    part = _part(box, first, i, high)
                    if part is not None and high < p:
                        part = _part(part, second, j, p // high)
                    if part is not None:
                        tasks.append((device, part))
                yield tasks


def _part(box: Region, label: int, number: int, count: int) -> Region | None:
    """One of `count` equal parts of a box along a label; None where it is empty."""
    whole = box[label]
    low, high = whole.size * number // count, whole.size * (number + 1) // count
    if low == high:
        return None
    return Region((*box[:label], whole.compose(Range.of(low, 1, high - low)), *box[label + 1 :]))


def _cut(problem: Problem, tasks: Sequence[ProductTask], use: _Use, room: float) -> list[list[Region | None]]:
    """The parts of the tasks that are done in each round, so that what is brought for it fits the room."""
    first, second = use.brought(tasks)
    most = max([first.get(device, 0) + second.get(device, 0) for device, _ in tasks])
    count = -int(-most // room)
    label = _label(problem, tasks, bool(first), bool(second), count) if count > 1 else None
    if label is None:
        return [[box for _, box in tasks]]
    count = min(count, max([box[label].size for _, box in tasks]))
    return [[_part(box, label, number, count) for _, box in tasks] for number in range(count)]


def _panels(problem: Problem, tasks: Sequence[ProductTask], use: _Use) -> list[list[Region | None]] | None:
    """The parts of the tasks that are done while more is brought; None where that gains little."""
    first, second = use.brought(tasks)
    if bool(first) is bool(second):
        return None
    most = max((first or second).values())
    if most < WORTH or max([box.size for _, box in tasks]) < PAIRS_A_BYTE * most:
        return None
    _, k, n = problem.bounds
    label = _label(problem, tasks, bool(first), bool(second), PANELS[-1])
    if label is None or k <= label < n or min([box[label].size for _, box in tasks]) < PANELS[-1] * BROAD:
        return None
    return [[_span(box, label, low, high) for _, box in tasks] for low, high in pairwise(PANELS)]


def _span(box: Region, label: int, low: int, high: int) -> Region:
    """A part of a box along a label, between eighths, at columns that GPUs multiply fast."""
    whole = box[label]
    begin, end = (
        whole.size if part == PANELS[-1] else whole.size * part // PANELS[-1] // 64 * 64 for part in (low, high)
    )
    return Region((*box[:label], whole.compose(Range.of(begin, 1, end - begin)), *box[label + 1 :]))


def _label(problem: Problem, tasks: Sequence[ProductTask], first: bool, second: bool, count: int) -> int | None:
    """The label that rounds are cut along: one of the result where that leaves panels of some width, else a summed one.

    Only the first label of a group is one of the result's to choose: the others' parts are no matrices in memory.
    """
    moving = set(problem.a if first else problem.b) & set(problem.b if second else problem.a)
    m, k, n = problem.bounds
    size = {label: min([box[label].size for _, box in tasks]) for label in sorted(moving)}
    outer = [label for label in size if label < m or (label in (m, n) and not k <= label < n)]
    wide = [label for label in outer if size[label] >= count * (1 if label < m else NARROW)]
    summed = [label for label in size if k <= label < n]
    return max(wide or summed or outer, key=lambda label: (size[label], -label), default=None)
