"""Planning of products: which device multiplies what, decided from layouts alone.

Every product here (``matmul``, ``dot``, ``tensordot``, ``vecdot``, …) is one contraction of two operands over four groups
of labels: *batch* (in both operands and in the result), *m* (first and result), *k* (both, summed) and *n* (second and
result). A plan cuts the box of all labels into tasks, each done by one device, so that every product of two elements is
formed exactly once. It exists apart from the functions so that it can be cached by layouts and tested without data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import prod
from typing import NamedTuple

from distarray.geometry import IndexMap, Range, Region
from distarray.layout import Layout

__all__ = ["Contraction", "Job", "Piece", "Problem", "needed", "plan"]

COMMON = 1 << 16
"""Products of replicated operands with results of at most so many bytes are computed on every device …"""
LIGHT = 1 << 26
"""… where they take at most so many multiplications; others are shared between the devices."""
PAIRS = 1 << 14
"""So many pairs of cells are looked at for devices that hold both; with more, one operand stays where it is."""

Task = tuple[int, Region]
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


class Piece(NamedTuple):
    """An operand of a job: part `key` (None: all) of chunk `index` of the operand, or of what is brought for it."""

    brought: bool
    index: int
    key: tuple[slice, ...] | None


class Job(NamedTuple):
    """One local product, stored in a chunk of the result or (`add`) added to what is there."""

    chunk: int
    add: bool
    a: Piece
    b: Piece


class Contraction(NamedTuple):
    """The plan of one product.

    Attributes
    ----------
    index_map : IndexMap
        The result's chunks.
    partial : bool
        The chunks are partial sums, to be added where they overlap.
    bring : pair of IndexMap or None
        What devices need of the two operands and do not hold in one chunk.
    jobs : tuple of (int, tuple of Job)
        For each device its products, in order.
    work : int
        Multiplications in all.
    """

    index_map: IndexMap
    partial: bool
    bring: tuple[IndexMap | None, IndexMap | None]
    jobs: tuple[tuple[int, tuple[Job, ...]], ...]
    work: int


def plan(problem: Problem, a: Layout, b: Layout, itemsizes: tuple[int, int, int]) -> Contraction:
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
    """
    maps = (a.index_map, b.index_map)
    if a.is_replicated and b.is_replicated and (common := sorted(set(a.devices) & set(b.devices))):
        tasks = shared(problem, common, itemsizes[2])
        return _lay_out(problem, tasks, maps, replicas=_is_redundant(problem, len(common), itemsizes[2]))
    best: tuple[tuple[int, int], list[Task]] | None = None
    for candidate in (lambda: stays(problem, maps[0], problem.a), lambda: stays(problem, maps[1], problem.b), lambda: _pairs(problem, maps)):
        tasks = candidate()
        if not tasks:
            continue
        tasks = _merged(tasks, lambda task: _homes(problem, maps, task))
        cost = _cost(problem, tasks, maps, itemsizes)
        if best is None or cost < best[0]:
            best = cost, tasks
        if cost[0] == 0:
            break
    assert best is not None
    return _lay_out(problem, best[1], maps)


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


def stays(problem: Problem, index_map: IndexMap, labels: tuple[int, ...]) -> list[Task]:
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


def shared(problem: Problem, devices: Iterable[int], itemsize: int) -> list[Task]:
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


def _pairs(problem: Problem, maps: tuple[IndexMap, IndexMap]) -> list[Task]:
    """Each pair of cells of the operands on a device that holds both: of several, the one with the least work so far."""
    first, second = maps
    if len(first.cells) * len(second.cells) > PAIRS:
        return []
    load: dict[int, int] = {}
    tasks: list[Task] = []
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


def _home(index_map: IndexMap, device: int, region: Region) -> int:
    """The chunk of a device that holds all of a region, or -1."""
    chunks, own = index_map.chunks, index_map.chunk_ids(device)
    if len(own) > 16:
        size = region.size
        found = (i for i, part in index_map.query(region) if i in own and part.size == size)
    else:
        found = (i for i in own if chunks[i][1].covers(region))
    return next(found, -1)


def _homes(problem: Problem, maps: tuple[IndexMap, IndexMap], task: Task) -> tuple[int, int]:
    device, box = task
    return (
        _home(maps[0], device, Region([box[label] for label in problem.a])),
        _home(maps[1], device, Region([box[label] for label in problem.b])),
    )


def _merged(tasks: list[Task], homes: Callable[[Task], tuple[int, int]]) -> list[Task]:
    """Fewer and larger tasks: neighbours of one device fused, where what they read lies in the same chunks."""
    by_device: dict[int, list[Region]] = {}
    for device, box in tasks:
        by_device.setdefault(device, []).append(box)
    result: list[Task] = []
    for device in sorted(by_device):
        boxes = by_device[device]
        for axis in range(len(boxes[0]) if len(boxes) > 1 else 0):
            boxes = _fused(boxes, axis, lambda box: homes((device, box)))  # noqa: B023
        result.extend((device, box) for box in sorted(boxes))
    return result


def _fused(boxes: list[Region], axis: int, homes: Callable[[Region], tuple[int, int]]) -> list[Region]:
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
            if both is not None and homes(at(both)) == homes(at(run)) == homes(at(r)):
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


def _cost(
    problem: Problem, tasks: list[Task], maps: tuple[IndexMap, IndexMap], itemsizes: tuple[int, int, int]
) -> tuple[int, int]:
    """Bytes moved and bytes of partial results beyond the result; then the work of the busiest device."""
    moved = 0
    load: dict[int, int] = {}
    for device, box in tasks:
        load[device] = load.get(device, 0) + box.size
    for labels, index_map, itemsize in zip((problem.a, problem.b), maps, itemsizes):
        for device, region in {(d, Region([box[label] for label in labels])) for d, box in tasks}:
            if _home(index_map, device, region) < 0:
                held = [part.size for own in index_map.regions(device) if (part := own.intersect(region)) is not None]
                moved += max(region.size - sum(held), 0) * itemsize
    sizes = sum([region.size for _, region in {(d, problem.result(box)) for d, box in tasks}])
    return moved + (sizes - prod(problem.shape)) * itemsizes[2], max(load.values())


def _lay_out(
    problem: Problem, tasks: list[Task], maps: tuple[IndexMap, IndexMap], *, replicas: bool = False
) -> Contraction:
    """The result's chunks, what must be brought, and each device's jobs."""
    regions: dict[int, dict[Region, None]] = {}
    for device, box in tasks:
        regions.setdefault(device, {})[problem.result(box)] = None
    index_map = IndexMap(problem.shape, regions)
    place = {chunk: i for i, chunk in enumerate(index_map.chunks)}
    found: list[list[tuple[int, Region, int]]] = []
    bring: list[IndexMap | None] = []
    for labels, held in zip((problem.a, problem.b), maps):
        rows = []
        missing: dict[int, list[Region]] = {}
        for device, box in tasks:
            region = Region([box[label] for label in labels])
            home = _home(held, device, region)
            if home < 0:
                missing.setdefault(device, []).append(region)
            rows.append((device, region, home))
        found.append(rows)
        bring.append(IndexMap(held.shape, missing) if missing else None)
    pieces = [list(_pieces(rows, held, new)) for rows, held, new in zip(found, maps, bring)]
    jobs: dict[int, list[Job]] = {}
    begun: set[int] = set()
    for (device, box), a, b in zip(tasks, *pieces):
        chunk = place[device, problem.result(box)]
        jobs.setdefault(device, []).append(Job(chunk, chunk in begun, a, b))
        begun.add(chunk)
    partial = not replicas and sum([region.size for _, region in index_map.chunks]) > prod(problem.shape)
    work = sum([box.size for _, box in tasks])
    return Contraction(index_map, partial, (bring[0], bring[1]), tuple((d, tuple(j)) for d, j in jobs.items()), work)


def _pieces(rows: list[tuple[int, Region, int]], held: IndexMap, brought: IndexMap | None) -> Iterator[Piece]:
    fetched = {} if brought is None else {chunk: i for i, chunk in enumerate(brought.chunks)}
    for device, region, home in rows:
        if home < 0:
            yield Piece(True, fetched[device, region], None)
        else:
            whole = held.chunks[home][1]
            yield Piece(False, home, None if whole == region else whole.locate(region).slices)
