"""Random values in blocks that depend on nothing but their place in the array.

An array is flat, in C order, and cut into blocks of a fixed length, whoever holds them. Each block of each call has a
stream of its own, whose first state is what a counter-based generator gives (Philox: J. K. Salmon et al., Parallel random
numbers: as easy as 1, 2, 3, SC 2011): the counter is the number of the call and that of the block. So every device computes
what it holds, and the same seed gives the same array on 1 device and on 64. From there a block's numbers are SFC64's
(C. Doty-Humphrey, PractRand), which takes half of Philox's time for a number: states of 256 random bits meet nowhere.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from distarray.algorithms.held import run_by_device
from distarray.array.aliases import DTypeLike
from distarray.context import Context
from distarray.devices import Chunk, Device
from distarray.geometry import IndexMap, Range, Region
from distarray.geometry.reshape import reshape_region
from distarray.layout import Layout

__all__ = ["BLOCK", "CountedPhilox", "Draw", "RandomStream", "aligned", "fill", "flat_intervals"]

BLOCK = 2**15
"""Values a block: the start of a stream costs as much as some thousand values, threads that draw shorter ones wait for each
other's turn in Python, and a block lies in a core's own cache until it is scaled."""

_ANY_SEED = np.random.SeedSequence(0)
"""What a bit generator is made with whose state is set afterwards: to mix a seed costs as much as some hundred values."""

Seed: TypeAlias = int | Sequence[int] | np.random.SeedSequence | np.random.BitGenerator | np.random.Generator | None
"""What a sequence of values begins with; None for a fresh seed."""

Draw = Callable[[np.random.Generator, int, int, Any], Any]
"""``draw(generator, start, stop, out)``: the values at the flat places [start, stop), of which `start` begins a block; they may be
drawn into `out`, which is for all of them, or None."""


class RandomStream(NamedTuple):
    """The streams of one call: the generator's key, and how many calls came before."""

    key: tuple[int, int]
    call: int

    def blocks(self, first: int, stop: int) -> Iterator[np.random.Generator]:
        """The generators of the blocks [first, stop), in order; each is done with when the next is asked for."""
        if first >= stop:
            return
        counter = np.array([first, 0, 0, self.call], np.uint64)
        states = np.random.Philox(key=np.array(self.key, np.uint64), counter=counter).random_raw(4 * (stop - first))
        bits: Any = np.random.SFC64(_ANY_SEED)
        generator = np.random.Generator(bits)
        for state in states.reshape(-1, 4):
            bits.state = {"bit_generator": "SFC64", "state": {"state": state}, "has_uint32": 0, "uinteger": 0}
            yield generator


class CountedPhilox:
    """Where a generator stands: its seed, and how many calls were made.

    Parameters
    ----------
    seed : int, sequence of int, SeedSequence or BitGenerator
        Of a bit generator its seed counts, not how far it went.
    """

    def __init__(self, seed: int | Sequence[int] | np.random.SeedSequence | np.random.BitGenerator) -> None:
        source: Any = seed.seed_seq if isinstance(seed, np.random.BitGenerator) else seed
        self._begin(source if isinstance(source, np.random.SeedSequence) else np.random.SeedSequence(source), 0)

    def _begin(self, seed: np.random.SeedSequence, calls: int) -> None:
        first, second = seed.generate_state(2, np.uint64)
        self.seed_seq = seed
        self._key = (int(first), int(second))
        self._calls = calls

    def __repr__(self) -> str:
        seed = self.seed_seq
        return f"Philox, entropy={seed.entropy}, spawn_key={seed.spawn_key}, calls={self._calls}"

    def next(self) -> RandomStream:
        """The streams of the next call."""
        self._calls += 1
        return RandomStream(self._key, self._calls - 1)

    @property
    def state(self) -> dict[str, Any]:
        """The seed and the number of calls as plain values; a state that was read can be set again, in any process."""
        seed = self.seed_seq
        entropy = seed.entropy if seed.entropy is None or isinstance(seed.entropy, int) else list(seed.entropy)
        place = {
            "entropy": entropy,
            "spawn_key": list(seed.spawn_key),
            "pool_size": seed.pool_size,
            "n_children_spawned": seed.n_children_spawned,
            "calls": self._calls,
        }
        return {"bit_generator": "distarray.Philox", "state": place}

    @state.setter
    def state(self, value: Mapping[str, Any]) -> None:
        if not isinstance(value, Mapping) or value.get("bit_generator") != "distarray.Philox":
            raise ValueError(
                "state must be one that a generator of distarray gave: NumPy's draw other values. Begin with a seed: "
                "distarray.random.default_rng(seed)"
            )
        place = dict(value["state"])
        calls = operator.index(place.pop("calls"))
        self._begin(np.random.SeedSequence(**place), calls)


def flat_intervals(layout: Layout, items: tuple[int, ...], tail: tuple[int, ...]) -> list[range] | None:
    """For each chunk the flat interval of items that it holds; None where one is no interval.

    An item is one value, or an array of shape `tail` that is drawn at once.
    """
    size = math.prod(items)
    found = []
    for _, region in layout.chunks:
        if not region.size:
            found.append(range(0))
            continue
        run = reshape_region(region, layout.shape, (size, *tail))
        if run is None or run[0].step != 1 or run.shape[1:] != tail:
            return None
        found.append(range(run[0].start, run[0].stop))
    return found


def aligned(context: Context, devices: Sequence[int], size: int, tail: tuple[int, ...]) -> Layout:
    """`size` items in whole blocks, shared evenly by the devices."""
    blocks = -(-size // BLOCK)
    cuts = [min(size, blocks * i // len(devices) * BLOCK) for i in range(len(devices) + 1)]
    rest = tuple(Region.full(tail))
    homes = {d: [Region((Range.of(a, 1, b - a), *rest))] for d, a, b in zip(devices, cuts, cuts[1:], strict=False)}
    return context.layout(IndexMap((size, *tail), homes))


def fill(
    context: Context,
    stream: RandomStream,
    layout: Layout,
    places: Sequence[range],
    tail: tuple[int, ...],
    dtype: DTypeLike,
    draw: Draw,
) -> list[Chunk | None]:
    """The chunks of a layout, each drawn where it lies."""
    chunks: list[Chunk | None] = [None] * len(layout.chunks)
    tasks = []
    nbytes = 0
    for i, (device_id, region) in enumerate(layout.chunks):
        device = context.by_id[device_id]
        if device.process == context.process:
            tasks.append(
                (
                    device_id,
                    partial(_fill, device, chunks, i, region, stream, places[i], tail, cast("Any", dtype), draw),
                )
            )
            nbytes += 8 * region.size * np.dtype(dtype).itemsize  # a value costs more than a copy
    run_by_device(context, tasks, nbytes, guarded=True)
    return chunks


def _fill(
    device: Device,
    chunks: list[Chunk | None],
    i: int,
    region: Region,
    stream: RandomStream,
    place: range,
    tail: tuple[int, ...],
    dtype: np.dtype[Any],
    draw: Draw,
) -> None:
    host = device.kind == "host"
    chunk = device.empty(region.shape, dtype, "random") if host else None
    values = np.empty((len(place), *tail), dtype) if chunk is None else chunk.array.reshape(len(place), *tail)
    blocks = range(place.start // BLOCK, -(-place.stop // BLOCK))
    for number, generator in zip(blocks, stream.blocks(blocks.start, blocks.stop), strict=True):
        first = number * BLOCK
        stop = min(first + BLOCK, place.stop)
        start = max(first, place.start)
        part = values[start - place.start : stop - place.start]
        drawn = draw(generator, first, stop, part if start == first else None)
        if drawn is not part:  # what comes later in the block does not change what comes before
            part[...] = drawn[start - first :]
    chunks[i] = device.from_host(values.reshape(region.shape)) if chunk is None else chunk
