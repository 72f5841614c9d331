"""Sample sort: gives every device the elements between two keys, out of what all devices hold, in one exchange.

It exists apart from sorting because whatever brings equal keys together does the same steps: sorts, sets, and searches in
sorted arrays. Devices show samples of their elements; from these every process finds the same splitters; each device cuts
its elements at them; the sizes of the pieces are agreed; and every element moves once, to the device whose part of the
order it is in. Splitters name an element, not only its key, so that many equal keys are cut evenly, too.

The samples are regular where a device's elements are sorted (X. Li et al., "On the versatility of parallel sorting by
regular sampling", Parallel Computing 19, 1993), and random where they are not yet (W. D. Frazer and A. C. McKellar,
"Samplesort", J. ACM 17, 1970): then each device only halves its elements at the splitters, or brings each to its
part by a kernel (P. Sanders and S. Winkel, "Super scalar sample sort", ESA 2004), and sorts once, afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from distarray.devices import Chunk, Device, ordering
from distarray.devices.arrays import DeviceArray, Library
from distarray.fusion.native import vectors
from distarray.geometry import IndexMap, Range, Region
from distarray.layout import Layout
from distarray.storage import Operand
from distarray.transfer.execute import copy_into
from distarray.transfer.to_host import gather_to_host

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = [
    "Exchange",
    "Contribution",
    "agreed",
    "counted",
    "held_once",
    "in_intervals",
    "intervals",
    "on_devices",
    "sample_splitters",
    "spread",
]

SAMPLES = 1024
"""Samples for each device: of random ones, p devices leave parts that are uneven by about sqrt(p) / 32."""

KeysOf = Callable[[Any, Sequence[Any]], list[Any]]
"""``keys_of(lib, arrays)``: the key columns of the arrays that are moved."""


class Contribution(NamedTuple):
    """What one device puts in: chunks of `size` rows each; None where another process has them.

    Once they have moved they are taken out of the list, so that their memory is free. `given` is an array of keys that is
    not in order yet, and stays as it is: the first chunk is made of it.
    """

    device: int
    size: int
    chunks: list[Chunk | None] | None
    given: Any = None

    def array(self, number: int) -> Any:
        """The array of one of the chunks; None where another process has it."""
        if not self.chunks:
            return self.given
        chunk = self.chunks[number]
        return None if chunk is None else chunk.array


class Splitter(NamedTuple):
    """The first element of a part of the order: a key, and whose element it is, at which place."""

    key: tuple[Any, ...]
    part: int
    place: int


# --- small agreements and layouts of rows -------------------------------------------------------------------------------


def intervals(
    context: Context, pieces: Sequence[tuple[int, int, int]], tail: tuple[int, ...] = ()
) -> tuple[Layout, list[int]]:
    """The layout of rows in intervals ``(device, start, size)``, of which those that are not empty become chunks, and for
    each chunk the number of its piece."""
    homes: dict[int, list[Region]] = {}
    numbers: dict[tuple[int, Region], int] = {}
    rest = Region.full(tail)
    for i, (device, start, size) in enumerate(pieces):
        own = homes.setdefault(device, [])
        if size:
            region = Region((Range.of(start, 1, size), *rest))
            own.append(region)
            numbers[device, region] = i
    layout = context.layout(IndexMap((sum([size for _, _, size in pieces]), *tail), homes))
    return layout, [numbers[chunk] for chunk in layout.chunks]


def in_intervals(sizes: Sequence[int], devices: Sequence[int]) -> list[tuple[int, int, int]]:
    """``(device, start, size)`` of intervals that follow one another."""
    starts = accumulate(sizes, initial=0)
    return [(device, start, size) for device, start, size in zip(devices, starts, sizes)]


def agreed(context: Context, devices: Sequence[int], rows: Sequence[Sequence[int] | None], width: int) -> Any:
    """One row of integers for each device, the same on all processes; those of other processes are given as None.

    Communication: the rows.
    """
    full = Range.full(width)
    index_map = IndexMap((len(devices), width), {d: [Region([Range(i, 1, 1), full])] for i, d in enumerate(devices)})
    numbers = {device: i for i, device in enumerate(devices)}
    arrays: list[Any] = []
    with context.reporting():
        for device_id, _ in index_map.chunks:
            row = rows[numbers[device_id]]
            if row is None:
                arrays.append(None)
            else:
                device = context.by_id[device_id]
                arrays.append(device.from_host(np.asarray(row, np.int64).reshape(1, width), label="counts").array)
    return gather_to_host(context, Operand(context.layout(index_map), arrays, np.dtype(np.int64)))


def held_once(context: Context, source: Operand) -> Operand:
    """A REPLICA operand cut so that each element is in one chunk. Nothing moves."""
    index_map = source.layout.index_map
    if index_map.is_disjoint:
        return source
    homes: dict[int, list[Region]] = {}
    parts: dict[tuple[int, Region], Any] = {}
    for device in index_map.devices:
        homes[device] = []
        for chunk, region in index_map.owned(device):
            array = source.arrays[chunk]
            homes[device].append(region)
            parts[device, region] = None if array is None else array[index_map.chunks[chunk][1].locate(region).key]
    layout = context.layout(IndexMap(source.shape, homes))
    return Operand(layout, [parts[chunk] for chunk in layout.chunks], source.dtype)


def on_devices(context: Context, tasks: Sequence[Callable[[], None]], nbytes: int) -> None:
    """Run one task for each device that sorts or searches `nbytes` in all: several times the work of a copy."""
    with context.reporting():
        context.run(tasks, 8 * nbytes)


# --- splitters ----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _random_places(size: int, count: int) -> Any:
    """One random place in each of `count` equal stretches. Always the same, on all processes."""
    shifts = np.random.default_rng(count).random(count)
    return np.minimum(((np.arange(count) + shifts) * (size / count)).astype(np.int64), size - 1)


def _places(size: int, count: int, is_sorted: bool) -> Any:
    if count >= size:
        return np.arange(size)
    return (2 * np.arange(count) + 1) * size // (2 * count) if is_sorted else _random_places(size, count)


def sample_splitters(
    context: Context,
    parts: Sequence[Contribution],
    heads: Sequence[Any],
    keys_of: KeysOf,
    ranks: Sequence[int],
    is_sorted: bool,
) -> list[Splitter | None]:
    """Elements that stand in the order of all about where `ranks` say; None where a rank is behind all.

    Parameters
    ----------
    heads : sequence of (dtype, shape of a row)
        Of the first arrays of each part, which the keys are made of.

    Notes
    -----
    Communication: the samples, :data:`SAMPLES` for each device. Where these are all there is, the ranks are exact.
    """
    total = sum([part.size for part in parts])
    wanted = SAMPLES * len(parts)
    places = [_places(p.size, -(-wanted * p.size // total) if total else 0, is_sorted) for p in parts]
    pieces = in_intervals([len(own) for own in places], [part.device for part in parts])
    found = []
    for number, (dtype, tail) in enumerate(heads):
        layout, order = intervals(context, pieces, tail)
        arrays: list[Any] = []
        with context.reporting():
            for i in order:
                array = parts[i].array(number)
                if array is None:
                    arrays.append(None)
                    continue
                device = context.by_id[parts[i].device]
                with device.active():
                    arrays.append(array[device.lib.asarray(places[i])])
        found.append(gather_to_host(context, Operand(layout, arrays, dtype)))
    keys = keys_of(np, found)
    order = ordering.argsort(np, keys)
    owner = np.repeat(np.arange(len(parts)), [len(own) for own in places])[order]
    place = np.concatenate([np.empty(0, np.int64), *places])[order]
    weight = np.array([p.size / max(len(own), 1) for p, own in zip(parts, places)])[owner]
    rank = np.cumsum(weight) - (weight + 1) / 2
    splitters: list[Splitter | None] = []
    for wish in ranks:
        if wish >= total:
            splitters.append(None)
            continue
        i = int(np.searchsorted(rank, wish))
        if i == len(rank) or (i and wish - rank[i - 1] < rank[i] - wish):
            i -= 1
        splitters.append(Splitter(tuple([key[order[i]] for key in keys]), int(owner[i]), int(place[i])))
    return splitters


# --- cuts ---------------------------------------------------------------------------------------------------------------


def _cuts_of_sorted(
    lib: Library, keys: Sequence[Any], size: int, number: int, splitters: Sequence[Splitter | None]
) -> Any:
    """Where the sorted keys of part `number` are cut."""
    named = [s for s in splitters if s is not None]
    if len(keys) == 1 and named:
        probe = lib.asarray(np.array([s.key[0] for s in named], keys[0].dtype))
        sides = [lib.searchsorted(keys[0], probe, side=side).tolist() for side in ("left", "right")]
    else:
        sides = [[ordering.bisect(lib, keys, s.key, side) for s in named] for side in ("left", "right")]
    cuts = [s.place if s.part == number else sides[number < s.part][i] for i, s in enumerate(named)]
    return [*cuts, *[size] * (len(splitters) - len(named))]


def _cuts_of_unsorted(
    lib: Library, array: DeviceArray, part: Contribution, number: int, splitters: Sequence[Splitter | None]
) -> tuple[Any, bool]:
    """Fill `array` with the keys of part `number`, so that they can be cut, and where; and whether equal ones differ."""
    wanted: list[tuple[Any, int | None]] = []
    for s in splitters:
        if s is None:
            break
        (value,) = s.key
        if s.part == number:
            before = part.given[: s.place]
            wanted.append((value, int(lib.count_nonzero(before == value if value == value else before != before))))
        else:
            wanted.append((value, None if number < s.part else 0))
    parted = vectors.parted(part.given, array, wanted) if lib is np else None
    cuts, differ = ordering.cut_at(lib, array, wanted, part.given) if parted is None else (parted, False)
    return [*cuts, *[part.size] * (len(splitters) - len(cuts))], differ


# --- the exchange -------------------------------------------------------------------------------------------------------


class Exchange:
    """Rows that moved to the devices that the splitters give them to.

    Attributes
    ----------
    targets : list of int
        Devices, in the order of the keys.
    sizes : list of int
        How many rows each has now.
    arrays : list of (list of Chunk or None)
        For each target one chunk for each array that moved: in the order of the parts, and of each part as it was.
    differ : bool
        Whether equal keys may be told apart.

    Parameters
    ----------
    even : sequence of int, optional
        How many rows each target has in the end: there is room for them, and :meth:`evened` moves what is missing.
    """

    def __init__(
        self,
        context: Context,
        parts: Sequence[Contribution],
        targets: Sequence[int],
        counts: np.ndarray[Any, Any],
        differ: bool = True,
        even: Sequence[int] | None = None,
    ) -> None:
        self.differ = differ
        self.context = context
        self._parts = [(part.device, part.size) for part in parts]
        self.targets = list(targets)
        self.sizes = [int(n) for n in counts.sum(axis=0)]
        self._cuts = np.concatenate([np.zeros((len(parts), 1), np.int64), np.cumsum(counts, axis=1)], axis=1)
        ahead = np.cumsum(self.sizes) - self.sizes
        starts = ahead + np.cumsum(counts, axis=0) - counts
        self._pieces = [
            (part.device, int(starts[i, j]), int(counts[i, j]))
            for i, part in enumerate(parts)
            for j in range(len(targets))
        ]
        self.arrays: list[list[Chunk | None]] = [[] for _ in targets]
        self._own = _spans(self.sizes)
        self._even = self._own if even is None else _spans(even)
        self._rooms = [
            (min(a, low), max(b, high)) if high > low else (a, b)
            for (a, b), (low, high) in zip(self._own, self._even, strict=True)
        ]

    def _slices(self, order: Sequence[int], arrays: Sequence[Any]) -> list[Any]:
        """The pieces of the parts' arrays, in the order of a layout's chunks."""
        width = len(self.targets)
        out = []
        for number in order:
            i, j = divmod(number, width)
            array = arrays[i]
            out.append(None if array is None else array[self._cuts[i, j] : self._cuts[i, j + 1]])
        return out

    def move(self, arrays: Sequence[Any], dtype: np.dtype[Any], tail: tuple[int, ...], operation: str) -> None:
        """Move one array of every part."""
        source, order = intervals(self.context, self._pieces, tail)
        target, numbers = intervals(self.context, in_intervals(self.sizes, self.targets), tail)
        operand = Operand(source, self._slices(order, arrays), dtype)
        fresh: list[Chunk | None] = []
        with self.context.reporting():
            for device_id, (low, high) in zip(self.targets, self._rooms):
                device = self.context.by_id[device_id]
                mine = device.process == self.context.process
                fresh.append(device.empty((high - low, *tail), dtype, operation) if mine else None)
        for held, chunk in zip(self.arrays, fresh):
            held.append(chunk)
        copy_into(self.context, operand, target, [self._rows(i, fresh[i]) for i in numbers], operation=operation)

    def _rows(self, number: int, chunk: Chunk | None, span: tuple[int, int] | None = None) -> Any:
        """The rows that a target received, or a span of rows of the whole, out of a chunk of its."""
        low, high = span or self._own[number]
        start = self._rooms[number][0]
        return None if chunk is None else chunk.array[low - start : high - start]

    def received(self, number: int) -> list[Any]:
        """The arrays of a target, those of this process."""
        return [self._rows(number, chunk) for chunk in self.arrays[number] if chunk is not None]

    def evened(self, dtype: np.dtype[Any], operation: str) -> list[Chunk | None]:
        """The first array of each target, made as long as was asked for.

        Communication: the rows that are on a neighbour yet.
        """
        context = self.context
        chunks = [held[0] for held in self.arrays]
        layout, numbers = intervals(context, in_intervals(self.sizes, self.targets))
        source = Operand(layout, [self._rows(i, chunks[i]) for i in numbers], dtype)
        homes: dict[int, list[Region]] = {device: [] for device in self.targets}
        places: dict[tuple[int, Region], Any] = {}
        for i, (device_id, (low, high), (first, last)) in enumerate(zip(self.targets, self._even, self._own)):
            for a, b in ((low, min(high, first)), (max(low, last), high)) if last > first else ((low, high),):
                if b > a:
                    piece = Region([Range.of(a, 1, b - a)])
                    homes[device_id].append(piece)
                    places[device_id, piece] = self._rows(i, chunks[i], (a, b))
        missing = IndexMap(layout.shape, homes)
        copy_into(
            context, source, context.layout(missing), [places[key] for key in missing.chunks], operation=operation
        )
        with context.reporting():
            for i, (chunk, (low, high)) in enumerate(zip(chunks, self._even)):
                if chunk is not None:
                    start = self._rooms[i][0]
                    chunks[i] = chunk.device.part_of(chunk, low - start, high - start)
        return chunks

    def back(self, answers: Sequence[Any], dtype: np.dtype[Any], operation: str) -> list[Any]:
        """What the targets answer to each row, an array for each part in its own order of rows.

        Communication: the answers go the way back that the rows came.
        """
        context = self.context
        source, numbers = intervals(context, in_intervals(self.sizes, self.targets))
        target, order = intervals(context, self._pieces)
        with context.reporting():
            out = []
            for device_id, size in self._parts:
                device = context.by_id[device_id]
                mine = device.process == context.process
                out.append(device.empty((size,), dtype, operation).array if mine else None)
        operand = Operand(source, [answers[i] for i in numbers], dtype)
        copy_into(context, operand, target, self._slices(order, out), operation=operation)
        return out


def _spans(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Where intervals that follow one another start and stop."""
    stops = list(accumulate(sizes))
    return [(stop - size, stop) for size, stop in zip(sizes, stops)]


class Counts(NamedTuple):
    """How many rows go from each part to each target, and whether equal keys may be told apart."""

    rows: Any
    differ: bool


def counted(
    context: Context,
    parts: Sequence[Contribution],
    moved: Sequence[tuple[Any, tuple[int, ...]]],
    keys_of: KeysOf,
    targets: Sequence[int],
    splitters: Sequence[Splitter | None],
    *,
    is_sorted: bool,
    operation: str,
) -> Counts:
    """Cut the parts as :func:`spread` does, and agree on how many rows go where.

    Communication: the numbers.
    """
    rows: list[Any] = [None] * len(parts)

    def cut(device: Device, number: int, part: Contribution) -> None:
        differ = True
        with device.active():
            if is_sorted:
                arrays = [part.array(i) for i in range(len(moved))]
                cuts = _cuts_of_sorted(device.lib, keys_of(device.lib, arrays), part.size, number, splitters)
            else:
                assert part.chunks is not None
                part.chunks.append(device.empty(part.given.shape, part.given.dtype, operation))
                cuts, differ = _cuts_of_unsorted(device.lib, part.array(0), part, number, splitters)
        # cuts may go back where rows are not sorted as the caller says: results are undefined then, but nothing fails
        rows[number] = [*np.diff(np.maximum.accumulate([0, *cuts, part.size])), differ]

    local = [(i, part) for i, part in enumerate(parts) if part.chunks is not None]
    nbytes = sum([part.array(0).nbytes for _, part in local])
    on_devices(context, [partial(cut, context.by_id[part.device], i, part) for i, part in local], nbytes)
    counts = agreed(context, [part.device for part in parts], rows, len(targets) + 1)
    return Counts(counts[:, :-1], bool(counts[:, -1].any()))


def spread(
    context: Context,
    parts: Sequence[Contribution],
    moved: Sequence[tuple[Any, tuple[int, ...]]],
    keys_of: KeysOf,
    targets: Sequence[int],
    splitters: Sequence[Splitter | None],
    *,
    is_sorted: bool,
    operation: str,
    even: Sequence[int] | None = None,
    counts: Counts | None = None,
) -> Exchange:
    """Give each target the rows from its splitter (the first: from the start) up to the next.

    Parameters
    ----------
    parts : sequence of Contribution
        In an order in which equal keys of an earlier part come first. Sorted, or, where `is_sorted` is False, of one
        `given` array of keys.
    moved : sequence of (dtype, shape of a row)
        Of each array of a part.
    splitters : sequence of Splitter or None
        One for each target but the first, ascending.
    even : sequence of int, optional
        As for :class:`Exchange`.
    counts : Counts, optional
        What :func:`counted` found.

    Notes
    -----
    Communication: the sizes of the pieces; then each row once, unless it is there already.
    """
    rows, differ = counts or counted(
        context, parts, moved, keys_of, targets, splitters, is_sorted=is_sorted, operation=operation
    )
    exchange = Exchange(context, parts, targets, rows, differ, even)
    for number, (dtype, tail) in enumerate(moved):
        exchange.move([part.array(number) for part in parts], dtype, tail, operation)
        for part in parts:
            if part.chunks is not None:
                part.chunks[number] = None
    return exchange
