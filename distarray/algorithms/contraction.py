"""Planning of products: which device multiplies what, decided from layouts alone.

Every product here (``matmul``, ``dot``, ``tensordot``, ``vecdot``, …) is one contraction of two operands over four groups
of labels: *batch* (in both operands and in the result), *m* (first and result), *k* (both, summed) and *n* (second and
result). A plan cuts the box of all labels into tasks, each done by one device, so that every product of two elements is
formed exactly once. It exists apart from the functions so that it can be cached by layouts and tested without data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod
from typing import NamedTuple

from distarray.geometry import IndexMap, Range, Region
from distarray.layout import Layout

__all__ = [
    "Contraction",
    "Factor",
    "Holders",
    "LocalProduct",
    "Problem",
    "Stage",
    "ProductTask",
    "chosen",
    "cost_of",
    "cut_alike",
    "laid_out",
    "merged",
    "needed",
    "plan",
]

COMMON = 1 << 16
"""Products of replicated operands with results of at most so many bytes are computed on every device …"""
LIGHT = 1 << 26
"""… where they take at most so many multiplications; others are shared between the devices."""
MANY = 16
"""Of more chunks on a device than these, those that meet a region are looked up; fewer are all looked at."""
PAIRS = 1 << 12
"""So many pairs of cells are looked at for devices that hold both; with more, one operand stays where it is."""

ProductTask = tuple[int, Region]
"""A device, and the part of the box of all labels that it multiplies."""


class Problem(NamedTuple):
    """What is contracted: the sizes of the labels (batch, m, k, n in this order), how many there are of each group, and
    the label of each axis of the operands. A batch label that an operand lacks is one along which it is broadcast.
    """

    sizes: tuple[int, ...]
    counts: tuple[int, int, int, int]
    a: tuple[int, ...]
    b: tuple[int, ...]

    @property
    def bounds(self) -> tuple[int, int, int]:
        """Where the m, k and n labels begin."""
        batch, m, k, _ = self.counts
        return batch, batch + m, batch + m + k

    @property
    def shape(self) -> tuple[int, ...]:
        """The result's shape: batch, m and n."""
        _, k, n = self.bounds
        return (*self.sizes[:k], *self.sizes[n:])

    def result(self, box: Region) -> Region:
        """The part of the result that a box of labels contributes to."""
        _, k, n = self.bounds
        return Region((*box[:k], *box[n:]))

    def lift(self, region: Region, labels: tuple[int, ...]) -> Region:
        """The box of labels that an operand's region takes part in."""
        box = list(Region.full(self.sizes))
        for label, r in zip(labels, region):
            box[label] = r
        return Region(box)


class Factor(NamedTuple):
    """An operand of a job: part `key` (None: all) of a chunk of the operand, or of what is brought for it."""

    brought: bool
    chunk: int
    key: tuple[slice, ...] | None


class LocalProduct(NamedTuple):
    """One local product, stored in part `key` (None: all) of a chunk of the result or (`add`) added to what is there."""

    chunk: int
    add: bool
    a: Factor
    b: Factor
    key: tuple[slice, ...] | None = None


class Stage(NamedTuple):
    """Some of the work: what devices need of the two operands and do not hold in one chunk, for each device its products,
    in order, and the multiplications in all.
    """

    bring: tuple[IndexMap | None, IndexMap | None]
    jobs: tuple[tuple[int, tuple[LocalProduct, ...]], ...]
    work: int


class Contraction(NamedTuple):
    """The plan of one product.

    Attributes
    ----------
    index_map : IndexMap
        The result's chunks.
    partial : bool
        The chunks are partial sums, to be added where they overlap.
    steps : tuple of Stage
        One after the other; what a step brings is gone when the next begins.
    ahead : bool
        What the next step brings may come while a step is done: there is room for both.
    """

    index_map: IndexMap
    partial: bool
    steps: tuple[Stage, ...]
    ahead: bool = False

    @property
    def added(self) -> bool:
        """Whether elements of the result are sums of products that are formed apart."""
        return self.partial or any(job.add for step in self.steps for _, jobs in step.jobs for job in jobs)


def cut_alike(
    problem: Problem, a: Layout, b: Layout, itemsizes: tuple[int, int, int], least: int
) -> Contraction | None:
    """The plan of a product whose operands are cut in the same places along one summed label, and nowhere else: what all ways of
    `chosen` come to, found without a look at them. None of other products, and where a device holds more bytes than `least`."""
    first, second = a.index_map, b.index_map
    if len(first.chunks) < 2 or len(first.chunks) != len(second.chunks):
        return None
    summed = range(problem.bounds[1], problem.bounds[2])
    label = next((v for v, (r, n) in zip(problem.a, zip(first.chunks[0][1], first.shape)) if r.size != n), -1)
    if label not in summed or label not in problem.b:
        return None
    i, j = problem.a.index(label), problem.b.index(label)
    result = Region.full(problem.shape)
    jobs = []
    work = done = 0
    for number, ((device, part), (other, own)) in enumerate(zip(first.chunks, second.chunks)):
        if (
            device != other
            or part[i] != own[j]
            or not part[i].size
            or (number and device == first.chunks[number - 1][0])
        ):
            return None
        if part.size != prod(first.shape) // first.shape[i] * part[i].size:
            return None
        if own.size != prod(second.shape) // second.shape[j] * own[j].size:
            return None
        if part.size * itemsizes[0] + own.size * itemsizes[1] + prod(problem.shape) * itemsizes[2] > least:
            return None
        done += part[i].size
        work += prod(problem.sizes) // first.shape[i] * part[i].size
        jobs.append((device, (LocalProduct(number, False, Factor(False, number, None), Factor(False, number, None)),)))
    if done != first.shape[i] or not first.is_disjoint:
        return None
    homes = {device: [result] for device, _ in jobs}
    return Contraction(IndexMap(problem.shape, homes), True, (Stage((None, None), tuple(jobs), work),))


def plan(problem: Problem, a: Layout, b: Layout, itemsizes: tuple[int, int, int]) -> Contraction:
    """The plan of a product in one step: see :func:`chosen`."""
    held = (Holders(a.index_map, problem.a), Holders(b.index_map, problem.b))
    tasks, replicas = chosen(problem, a, b, held, itemsizes)
    return laid_out(problem, tasks, [[box for _, box in tasks]], held, replicas=replicas)


def chosen(
    problem: Problem, a: Layout, b: Layout, held: tuple[Holders, Holders], itemsizes: tuple[int, int, int]
) -> tuple[list[ProductTask], bool]:
    """The cheapest of these ways to cut a product of two REPLICA operands without an empty axis:

    - each device keeps its part of the first operand and multiplies it by what that meets of the second;
    - the same with the operands exchanged;
    - each pair of cells of the two goes to a device that holds both, and where none does, to the one that has the larger.

    The cost is the bytes that must move, and the bytes of partial results beyond the result itself, which have to be
    folded later. Whole replicas of both operands are multiplied on every device where that is little work, so that the
    result is replicated too; otherwise the devices share the longest axis of the result.

    Parameters
    ----------
    itemsizes : tuple of int
        Of the first operand, the second, and the result.

    Returns
    -------
    tasks : list of ProductTask
    replicas : bool
        Whether every device has the whole product as its task.
    """
    maps = (a.index_map, b.index_map)
    if a.is_replicated and b.is_replicated and (common := sorted(set(a.devices) & set(b.devices))):
        tasks = shared(problem, common, itemsizes[2])
        return tasks, _is_redundant(problem, len(common), itemsizes[2])
    best: tuple[tuple[int, int, int], list[ProductTask]] | None = None
    for tasks in _candidates(problem, maps):
        tasks = merged(tasks, held)
        cost = cost_of(problem, tasks, held, itemsizes, None if best is None else best[0][0])
        if best is None or cost < best[0]:
            best = cost, tasks
        if cost[0] == 0:
            break
    assert best is not None
    return best[1], False


def _candidates(problem: Problem, maps: tuple[IndexMap, IndexMap]) -> Iterator[list[ProductTask]]:
    yield stays(problem, maps[0], problem.a)
    yield stays(problem, maps[1], problem.b)
    if len(maps[0].cells) * len(maps[1].cells) <= PAIRS:
        yield _pairs(problem, maps)


def needed(problem: Problem, held: Layout, first: bool, itemsize: int) -> IndexMap:
    """Where the other operand should be placed, when it can be placed anywhere and the first (or second) stays."""
    labels, others = (problem.a, problem.b) if first else (problem.b, problem.a)
    if held.is_replicated:
        tasks = shared(problem, held.devices, itemsize)
    else:
        tasks = stays(problem, held.index_map, labels)
    regions: dict[int, list[Region]] = {}
    for device, box in tasks:
        regions.setdefault(device, []).append(Region([box[label] for label in others]))
    return IndexMap([problem.sizes[label] for label in others], regions)


def stays(problem: Problem, index_map: IndexMap, labels: tuple[int, ...]) -> list[ProductTask]:
    """Each device multiplies what it owns of one operand."""
    return [
        (device, problem.lift(region, labels))
        for device in index_map.devices
        for _, region in index_map.owned(device)
        if region.size
    ]


def _is_redundant(problem: Problem, devices: int, itemsize: int) -> bool:
    light = prod(problem.shape) * itemsize <= COMMON and prod(problem.sizes) <= LIGHT
    return devices > 1 and light


def shared(problem: Problem, devices: Iterable[int], itemsize: int) -> list[ProductTask]:
    """The whole product on every device where it is light, else a fair part of one axis of the result for each."""
    ids = list(devices)
    box = Region.full(problem.sizes)
    if _is_redundant(problem, len(ids), itemsize):
        return [(device, box) for device in ids]
    _, k, n = problem.bounds
    labels = [*range(k), *range(n, len(box))]
    axis = max(labels, key=lambda label: (box[label].size, -label), default=-1)
    if axis < 0 or box[axis].size < len(ids):
        axis = max(range(len(box)), key=lambda label: (box[label].size, -label), default=-1)
    if axis < 0:
        return [(ids[0], box)]
    size = box[axis].size
    tasks = []
    for i, device in enumerate(ids):
        low, high = size * i // len(ids), size * (i + 1) // len(ids)
        if low < high:
            tasks.append((device, Region((*box[:axis], Range.of(low, 1, high - low), *box[axis + 1 :]))))
    return tasks


def _pairs(problem: Problem, maps: tuple[IndexMap, IndexMap]) -> list[ProductTask]:
    """Each pair of cells of the operands on a device that holds both: of several, the one with the least work so far."""
    first, second = maps
    load: dict[int, int] = {}
    tasks: list[ProductTask] = []
    for cell in first.cells:
        box = problem.lift(cell.region, problem.a)
        mine = {first.chunks[h][0] for h in cell.holders}
        for number, part in second.query_cells(Region([box[label] for label in problem.b])):
            theirs = {second.chunks[h][0] for h in second.cells[number].holders}
            both = problem.lift(part, problem.b).intersect(box)
            assert both is not None
            if not (able := mine & theirs):
                able = mine if _size(both, problem.a) >= part.size else theirs
            device = min(able, key=lambda d: (load.get(d, 0), d))
            load[device] = load.get(device, 0) + both.size
            tasks.append((device, both))
    return tasks


def _size(box: Region, labels: tuple[int, ...]) -> int:
    return prod([box[label].size for label in labels])


class Holders:
    """Which chunk of an operand holds all of a region on a device; asked again and again while a plan is made."""

    def __init__(self, index_map: IndexMap, labels: tuple[int, ...]) -> None:
        self.index_map = index_map
        self.labels = labels
        self._known: dict[tuple[int, Region], int] = {}
        self._largest: dict[int, list[int]] = {}

    def region(self, box: Region) -> Region:
        """What a box of labels meets of the operand."""
        return Region([box[label] for label in self.labels])

    def home(self, device: int, region: Region) -> int:
        """The chunk, or -1 where no one chunk holds the region."""
        found = self._known.get((device, region))
        if found is None:
            chunks, own = self.index_map.chunks, self.index_map.chunk_ids(device)
            size = region.size
            if len(own) > MANY:
                if device not in self._largest:
                    self._largest[device] = [max(sizes) for sizes in zip(*[chunks[i][1].shape for i in own])]
                if any(n > most for n, most in zip(region.shape, self._largest[device])):
                    self._known[device, region] = -1
                    return -1
                fits = (i for i, part in self.index_map.query(region) if i in own and part.size == size)
            else:
                fits = (i for i in own if chunks[i][1].covers(region))
            found = self._known[device, region] = next(fits, -1)
        return found

    def held(self, device: int, region: Region) -> int:
        """How many elements of a region a device has; those in several chunks count for each."""
        own = self.index_map.chunk_ids(device)
        if len(own) > MANY:
            return sum([part.size for i, part in self.index_map.query(region) if i in own])
        parts = (self.index_map.chunks[i][1].intersect(region) for i in own)
        return sum([part.size for part in parts if part is not None])

    def homes(self, device: int) -> Callable[[Region], int]:
        return lambda box: self.home(device, self.region(box))


def merged(tasks: list[ProductTask], held: tuple[Holders, Holders]) -> list[ProductTask]:
    """Fewer and larger tasks: neighbours of one device fused, where what they read lies in the same chunks."""
    by_device: dict[int, list[Region]] = {}
    for device, box in tasks:
        by_device.setdefault(device, []).append(box)
    result: list[ProductTask] = []
    for device in sorted(by_device):
        boxes = by_device[device]
        for axis in range(len(boxes[0]) if len(boxes) > 1 else 0):
            boxes = _fused(boxes, axis, held[0].homes(device), held[1].homes(device))
        result.extend((device, box) for box in sorted(boxes))
    return result


def _fused(
    boxes: list[Region], axis: int, first: Callable[[Region], int], second: Callable[[Region], int]
) -> list[Region]:
    rows: dict[tuple[Range, ...], list[Range]] = {}
    for box in boxes:
        rows.setdefault((*box[:axis], *box[axis + 1 :]), []).append(box[axis])
    out: list[Region] = []
    for rest, ranges in rows.items():
        ranges.sort()

        def at(r: Range, rest: tuple[Range, ...] = rest) -> Region:
            return Region((*rest[:axis], r, *rest[axis:]))

        run = ranges[0]
        for r in ranges[1:]:
            both = _union(run, r)
            if both is not None and all(home(at(both)) == home(at(run)) == home(at(r)) for home in (first, second)):
                run = both
            else:
                out.append(at(run))
                run = r
        out.append(at(run))
    return out


def _union(low: Range, high: Range) -> Range | None:
    """Two disjoint ranges as one, where their union is a range."""
    step = low.step if low.size > 1 else high.step
    if high.start == low.last + step and (high.size == 1 or high.step == step):
        return Range.of(low.start, step, low.size + high.size)
    return None


def cost_of(
    problem: Problem,
    tasks: list[ProductTask],
    held: tuple[Holders, Holders],
    itemsizes: tuple[int, int, int],
    limit: int | None,
) -> tuple[int, int, int]:
    """Bytes moved and bytes of partial results beyond the result (counted until they pass `limit`); then the bytes moved
    alone, and the work of the busiest device.
    """
    sizes = sum([region.size for _, region in {(d, problem.result(box)) for d, box in tasks}])
    excess = (sizes - prod(problem.shape)) * itemsizes[2]
    moved = 0
    load: dict[int, int] = {}
    for device, box in tasks:
        load[device] = load.get(device, 0) + box.size
    for operand, itemsize in zip(held, itemsizes):
        for device, region in {(d, operand.region(box)) for d, box in tasks}:
            if limit is not None and excess + moved > limit:
                break
            if operand.home(device, region) < 0:
                moved += max(region.size - operand.held(device, region), 0) * itemsize
    return excess + moved, moved, max(load.values())


def laid_out(
    problem: Problem,
    tasks: Sequence[ProductTask],
    steps: Sequence[Sequence[Region | None]],
    held: tuple[Holders, Holders],
    *,
    replicas: bool = False,
) -> Contraction:
    """The result's chunks, what must be brought, and each device's jobs. `steps`: of each task the part that is done in
    each step; None where nothing is.
    """
    regions: dict[int, dict[Region, None]] = {}
    for device, box in tasks:
        regions.setdefault(device, {})[problem.result(box)] = None
    index_map = IndexMap(problem.shape, regions)
    place = {chunk: i for i, chunk in enumerate(index_map.chunks)}
    begun: set[tuple[int, Region]] = set()
    done = []
    for boxes in steps:
        parts = [(device, part, problem.result(box)) for (device, box), part in zip(tasks, boxes) if part is not None]
        first, second = (_factors([(device, part) for device, part, _ in parts], operand) for operand in held)
        jobs: dict[int, list[LocalProduct]] = {}
        for (device, box, chunk), a, b in zip(parts, first[0], second[0]):
            number, part = place[device, chunk], problem.result(box)
            key = None if part == chunk else chunk.locate(part).slices
            jobs.setdefault(device, []).append(LocalProduct(number, (number, part) in begun, a, b, key))
            begun.add((number, part))
        work = sum([part.size for _, part, _ in parts])
        done.append(Stage((first[1], second[1]), tuple((d, tuple(j)) for d, j in jobs.items()), work))
    partial = not replicas and sum([region.size for _, region in index_map.chunks]) > prod(problem.shape)
    return Contraction(index_map, partial, tuple(done))


def _factors(tasks: Sequence[ProductTask], operand: Holders) -> tuple[list[Factor], IndexMap | None]:
    """What each task reads of an operand, and what must be brought for them."""
    rows = []
    missing: dict[int, list[Region]] = {}
    for device, box in tasks:
        region = operand.region(box)
        home = operand.home(device, region)
        if home < 0:
            missing.setdefault(device, []).append(region)
        rows.append((device, region, home))
    brought = IndexMap(operand.index_map.shape, missing) if missing else None
    return list(_pieces(rows, operand.index_map, brought)), brought


def _pieces(rows: list[tuple[int, Region, int]], held: IndexMap, brought: IndexMap | None) -> Iterator[Factor]:
    fetched = {} if brought is None else {chunk: i for i, chunk in enumerate(brought.chunks)}
    for device, region, home in rows:
        if home < 0:
            yield Factor(True, fetched[device, region], None)
        else:
            whole = held.chunks[home][1]
            yield Factor(False, home, None if whole == region else whole.locate(region).slices)
