"""Layout specifications: ways to spread an array that are stated before its shape is known, and resolved to an index
map for a shape and a list of devices. They exist so that creation functions, settings and users speak of "block rows"
or "cyclic columns" once, for arrays of every shape."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from math import prod

from distarray.errors import DeviceError, IndexMapError, LayoutComplexityError, LayoutError
from distarray.geometry._keys import as_int
from distarray.geometry._spatial import MAX_PIECES
from distarray.geometry.index_map import IndexMap
from distarray.geometry.ranges import Range
from distarray.geometry.regions import Region

__all__ = [
    "Blocks",
    "Cyclic",
    "Listed",
    "Given",
    "Grid",
    "Replicated",
    "Spec",
    "as_spec",
    "blocks",
    "cyclic",
    "grid",
    "make_2d_index_map",
    "replicated",
]


class Spec(ABC):
    """A way to spread arrays of any shape over devices."""

    @abstractmethod
    def resolve(self, shape: Sequence[int], devices: Sequence[int]) -> IndexMap:
        """The index map for an array of `shape` on `devices`, used in the order given.

        Parameters
        ----------
        shape : sequence of int
            Of the array.
        devices : sequence of int
            Device ids, all different.

        Returns
        -------
        IndexMap

        Raises
        ------
        LayoutError
            If the specification does not fit the shape or the number of devices.
        DeviceError
            If it names a device that is not among `devices`, or `devices` is empty or has repeats.
        """


@dataclass(frozen=True)
class Blocks(Spec):
    """Contiguous blocks along one axis; see `blocks`."""

    axis: int = 0
    sizes: tuple[int, ...] | None = None

    def resolve(self, shape: Sequence[int], devices: Sequence[int]) -> IndexMap:
        shape, devices = tuple(shape), _checked(devices)
        if not shape and self.axis == 0 and self.sizes is None:
            return Replicated().resolve(shape, devices)
        axis = _axis("blocks", self.axis, shape)
        n = shape[axis]
        if self.sizes is None:
            cuts = _even(n, len(devices))
        else:
            if len(self.sizes) != len(devices):
                raise LayoutError(
                    f"blocks(axis={self.axis}, sizes={self.sizes}) gives {len(self.sizes)} sizes for {len(devices)} "
                    "devices "
                    f"{_some(devices)}: give one size for each device (0 for none)"
                )
            if sum(self.sizes) != n:
                raise LayoutError(
                    f"blocks(axis={self.axis}, sizes={self.sizes}) gives {sum(self.sizes)} elements for axis {axis} of "
                    "shape "
                    f"{shape}, which has {n}: make the sizes sum to {n}, or leave `sizes` out"
                )
            cuts, start = [], 0
            for size in self.sizes:
                cuts.append(Range.of(start, 1, size))
                start += size
        return IndexMap(shape, {device: [_along(shape, axis, r)] for device, r in zip(devices, cuts)})


@dataclass(frozen=True)
class Grid(Spec):
    """Blocks along several leading axes at once; see `grid`."""

    shape: tuple[int, ...]

    def resolve(self, shape: Sequence[int], devices: Sequence[int]) -> IndexMap:
        shape, devices = tuple(shape), _checked(devices)
        if len(self.shape) > len(shape):
            raise LayoutError(
                f"grid({self.shape}) has {len(self.shape)} axes for an array of shape {shape} with {len(shape)}: "
                "give at most one number for each axis of the array"
            )
        needed = prod(self.shape)
        if needed > len(devices):
            raise LayoutError(
                f"grid({self.shape}) needs {needed} devices, there are {len(devices)} {_some(devices)}: "
                f"choose a grid with a product of at most {len(devices)}"
            )
        rest = tuple(Region.full(shape[len(self.shape) :]))
        boxes = product(*[_even(n, k) for n, k in zip(shape, self.shape)])
        mapping: dict[int, list[Region]] = {device: [] for device in devices}
        for device, box in zip(devices, boxes):
            mapping[device].append(Region((*box, *rest)))
        return IndexMap(shape, mapping)


@dataclass(frozen=True)
class Cyclic(Spec):
    """Elements or small blocks dealt out in turn along one axis; see `cyclic`."""

    axis: int = 0
    block: int = 1

    def resolve(self, shape: Sequence[int], devices: Sequence[int]) -> IndexMap:
        shape, devices = tuple(shape), _checked(devices)
        axis = _axis("cyclic", self.axis, shape)
        n, k, block = shape[axis], len(devices), self.block
        count = min(len(devices) * block, -(-n // block))
        if count > MAX_PIECES:
            raise LayoutComplexityError(
                f"cyclic(axis={self.axis}, block={block}) of {n} elements on {k} devices has {count} regions, and at most "
                f"{MAX_PIECES} are planned for: choose a block of at least {-(-n // MAX_PIECES)}, or of at most "
                f"{max(MAX_PIECES // k, 1)}"
            )
        mapping: dict[int, list[Region]] = {}
        for turn, device in enumerate(devices):
            mapping[device] = [_along(shape, axis, r) for r in _dealt(n, turn * block, block, k * block)]
        return IndexMap(shape, mapping)


@dataclass(frozen=True)
class Replicated(Spec):
    """The whole array on every device; see `replicated`."""

    def resolve(self, shape: Sequence[int], devices: Sequence[int]) -> IndexMap:
        full = Region.full(tuple(shape))
        return IndexMap(shape, {device: [full] for device in _checked(devices)})


@dataclass(frozen=True)
class Listed(Spec):
    """A raw dict, ``{device: index or list of indices}``, kept as pairs; see `as_spec`."""

    chunks: tuple[tuple[int, tuple[object, ...]], ...]

    def resolve(self, shape: Sequence[int], devices: Sequence[int]) -> IndexMap:
        shape, devices = tuple(shape), _checked(devices)
        _known([device for device, _ in self.chunks], devices)
        mapping: dict[int, list[Region]] = {}
        for device, indices in self.chunks:
            regions = mapping[device] = []
            for index in indices:
                try:
                    regions.append(Region.from_index(index, shape))
                except IndexMapError as error:
                    raise IndexMapError(f"{error} (index {index!r} of device {device}, array shape {shape})") from None
        return IndexMap(shape, mapping)

    def __hash__(self) -> int:
        return hash(tuple([(device, len(indices)) for device, indices in self.chunks]))  # slices have no hash in 3.11


@dataclass(frozen=True)
class Given(Spec):
    """An index map that is resolved already, which fits arrays of its own shape only."""

    index_map: IndexMap

    def resolve(self, shape: Sequence[int], devices: Sequence[int]) -> IndexMap:
        shape, devices = tuple(shape), _checked(devices)
        if shape != self.index_map.shape:
            raise LayoutError(
                f"the index map is for arrays of shape {self.index_map.shape}, the array has shape {shape}: "
                "use a specification such as blocks(0), which fits any shape"
            )
        _known(self.index_map.devices, devices)
        return self.index_map


def blocks(axis: int = 0, sizes: Iterable[int] | None = None) -> Blocks:
    """Contiguous blocks along `axis`, one for each device, as even as possible.

    Parameters
    ----------
    axis : int
        Negative counts from the back. Arrays without axes are replicated by ``blocks(0)``.
    sizes : iterable of int, optional
        The length of each device's block. By default the first ``n % k`` of k devices get one element more, and
        devices beyond the length of the axis get an empty region.

    Returns
    -------
    Blocks
        A layout for arrays of any shape that has the axis.

    Raises
    ------
    LayoutError
        If `axis` is no integer, or a size is no integer >= 0.

    Examples
    --------
    >>> blocks(0).resolve((5, 2), devices=[0, 1])
    IndexMap(shape=(5, 2), {0: [[0:3, 0:2]], 1: [[3:5, 0:2]]})
    >>> blocks(1, sizes=[1, 3]).resolve((2, 4), devices=[0, 1])
    IndexMap(shape=(2, 4), {0: [[0:2, 0:1]], 1: [[0:2, 1:4]]})
    """
    kept = None if sizes is None else tuple([_number("blocks", "a size", size, 0) for size in sizes])
    return Blocks(_number("blocks", "axis", axis), kept)


def grid(shape: Iterable[int]) -> Grid:
    """A grid of devices over the leading axes, blocks along each; devices beyond its size hold nothing.

    Parameters
    ----------
    shape : iterable of int
        How many blocks there are along each axis. An int stands for one axis.

    Returns
    -------
    Grid
        A layout for arrays of at least so many axes, on at least as many devices as there are blocks.

    Raises
    ------
    LayoutError
        If a length is no integer >= 1.

    Examples
    --------
    >>> grid((2, 2)).resolve((3, 4), devices=[0, 1, 2, 3])
    IndexMap(shape=(3, 4), {0: [[0:2, 0:2]], 1: [[0:2, 2:4]], 2: [[2:3, 0:2]], 3: [[2:3, 2:4]]})
    """
    single = as_int(shape)
    return Grid(tuple([_number("grid", "a length", n, 1) for n in ([single] if single is not None else shape)]))


def cyclic(axis: int = 0, block: int = 1) -> Cyclic:
    """Blocks of `block` elements along `axis`, dealt to the devices in turn; with 1, one strided region for each.

    A device's share is written by its blocks, or by the places within a block (strided regions), whichever are fewer: at
    most ``sqrt(n / k) + 1`` regions a device, for an axis of n elements on k devices. More than 200,000 regions in all are
    refused (`LayoutComplexityError`) before they are made.

    Parameters
    ----------
    axis : int
        Negative counts from the back.
    block : int
        The length of a block; 1 deals out single elements.

    Returns
    -------
    Cyclic
        A layout for arrays of any shape that has the axis.

    Raises
    ------
    LayoutError
        If `axis` is no integer, or `block` no integer >= 1.

    Examples
    --------
    >>> cyclic(0).resolve((5,), devices=[0, 1])
    IndexMap(shape=(5,), {0: [[0:5:2]], 1: [[1:4:2]]})
    >>> cyclic(0, block=2).resolve((5,), devices=[0, 1])
    IndexMap(shape=(5,), {0: [[0:2], [4:5]], 1: [[2:4]]})
    >>> cyclic(0, block=2).resolve((14,), devices=[0, 1])
    IndexMap(shape=(14,), {0: [[0:13:4], [1:14:4]], 1: [[2:11:4], [3:12:4]]})
    """
    return Cyclic(_number("cyclic", "axis", axis), _number("cyclic", "block", block, 1))


def replicated() -> Replicated:
    """The whole array on every device.

    Returns
    -------
    Replicated
        A layout for arrays of any shape.

    Examples
    --------
    >>> replicated().resolve((4,), devices=[0, 1])
    IndexMap(shape=(4,), {0: [[0:4]], 1: [[0:4]]})
    """
    return Replicated()


def as_spec(obj: object) -> Spec:
    """A specification from what users write: a specification, an `IndexMap`, or a dict.

    A dict has the form of cupyx, ``{device: index or list of indices}``. Only a list means several chunks; a tuple is
    one index with several axes. An int takes one element and keeps the axis; negative ints and steps are allowed.
    Regions may stand where indices do.

    Parameters
    ----------
    obj : Spec, IndexMap or dict
        What the user gave.

    Returns
    -------
    Spec

    Raises
    ------
    LayoutError
        If `obj` is none of these, or a device id is not an int >= 0.

    Examples
    --------
    >>> as_spec({0: slice(0, 2), 1: [slice(2, 3), -1]}).resolve((4,), devices=[0, 1])
    IndexMap(shape=(4,), {0: [[0:2]], 1: [[2:3], [3:4]]})
    """
    if isinstance(obj, Spec):
        return obj
    if isinstance(obj, IndexMap):
        return Given(obj)
    if isinstance(obj, Mapping):
        chunks: dict[int, tuple[object, ...]] = {}
        for key, value in obj.items():
            device = as_int(key)
            if device is None or device < 0:
                raise IndexMapError(f"device id {key!r} is not an integer >= 0: key an index map by device ids")
            if device in chunks:
                raise IndexMapError(f"device {device} is given twice: give each device one list of indices")
            indices = value if isinstance(value, list) else [value]
            chunks[device] = tuple([index.slices if isinstance(index, Region) else index for index in indices])
        return Listed(tuple(sorted(chunks.items(), key=lambda item: item[0])))
    raise LayoutError(
        f"cannot read {obj!r} of type {type(obj).__name__} as a layout: pass blocks(), grid(), cyclic(), replicated(), "
        "an IndexMap, or a dict from device id to an index or a list of indices"
    )


def make_2d_index_map(
    i_partitions: Sequence[int], j_partitions: Sequence[int], devices: Sequence[Sequence[Iterable[int]]]
) -> dict[int, list[tuple[slice, ...]]]:
    """A dict that spreads a matrix in blocks: block (i, j) on each of the devices ``devices[i][j]``.

    Parameters
    ----------
    i_partitions, j_partitions : sequence of int
        The boundaries along each axis, from 0 to its length, increasing.
    devices : nested sequence of sets of int
        For each row of blocks, for each block in it, the ids of the devices that hold the block.

    Returns
    -------
    dict
        From device id to a list of ``(rows, columns)``, two slices a block: a layout as it stands.

    Raises
    ------
    LayoutError
        If boundaries do not begin at 0 and increase, or `devices` is not nested to fit them.

    Examples
    --------
    >>> make_2d_index_map([0, 2, 4], [0, 3], [[{0}], [{0, 1}]])[1]
    [(slice(2, 4, None), slice(0, 3, None))]
    """
    rows, columns = _intervals("i_partitions", i_partitions), _intervals("j_partitions", j_partitions)
    if len(devices) != len(rows):
        raise LayoutError(
            f"devices has {len(devices)} rows, i_partitions {list(i_partitions)} makes {len(rows)}: give one list for "
            "each"
        )
    out: dict[int, list[tuple[slice, ...]]] = {}
    for i, (row, places) in enumerate(zip(rows, devices)):
        if len(places) != len(columns):
            raise LayoutError(
                f"devices[{i}] has {len(places)} entries, j_partitions {list(j_partitions)} makes {len(columns)} "
                "columns: "
                "give one set of device ids for each"
            )
        for j, (column, ids) in enumerate(zip(columns, places)):
            if as_int(ids) is not None or not isinstance(ids, Iterable):
                raise LayoutError(f"devices[{i}][{j}] is {ids!r}: give a set of device ids, for example {{0}}")
            for device in sorted(
                {_number("make_2d_index_map", f"a device id of devices[{i}][{j}]", d, 0) for d in ids}
            ):
                out.setdefault(device, []).append((row, column))
    return out


def _intervals(name: str, bounds: Sequence[int]) -> list[slice]:
    numbers = [_number("make_2d_index_map", f"a boundary of {name}", b, 0) for b in bounds]
    if len(numbers) < 2 or numbers[0] != 0 or any(a >= b for a, b in pairwise(numbers)):
        raise LayoutError(
            f"make_2d_index_map got {name}={numbers}; boundaries begin with 0, increase, and end with the axis length: "
            f"pass for example [0, {max(numbers, default=0) or 8}]"
        )
    return [slice(a, b) for a, b in pairwise(numbers)]


def _even(n: int, k: int) -> list[Range]:
    """An axis of length `n` in `k` blocks, the first ``n % k`` of them one longer."""
    size, more = divmod(n, k)
    return [Range.of(i * size + min(i, more), 1, size + (i < more)) for i in range(k)]


def _dealt(n: int, first: int, block: int, period: int) -> list[Range]:
    """One device's share of an axis of length `n`: `block` elements from `first`, and again after each `period`.

    Of the two ways to write it, by blocks or by the places within a block, the one with fewer ranges is taken (blocks when
    equal): on k devices at most ``sqrt(n / k) + 1``, however many blocks there are.
    """
    starts = range(first, n, period)
    if len(starts) <= block:
        ranges = [Range.of(start, 1, min(block, n - start)) for start in starts]
    else:
        ranges = [Range.of(place, period, len(range(place, n, period))) for place in range(first, first + block)]
    return ranges or [Range.full(0)]


def _along(shape: tuple[int, ...], axis: int, r: Range) -> Region:
    return Region((*Region.full(shape[:axis]), r, *Region.full(shape[axis + 1 :])))


def _number(call: str, what: str, value: object, least: int | None = None) -> int:
    number = as_int(value)
    if number is None or (least is not None and number < least):
        kind = "an integer" if least is None else f"an integer >= {least}"
        raise LayoutError(f"{call}: {what} is {value!r}, needed is {kind}: pass for example {least or 0}")
    return number


def _axis(call: str, axis: int, shape: tuple[int, ...]) -> int:
    if not -len(shape) <= axis < len(shape):
        fix = f"choose an axis from {-len(shape)} to {len(shape) - 1}" if shape else "use replicated()"
        raise LayoutError(f"{call}(axis={axis}) is out of bounds for an array of shape {shape} ({len(shape)}-d): {fix}")
    return axis % len(shape)


def _checked(devices: Sequence[int]) -> tuple[int, ...]:
    out = tuple(devices)
    if not out:
        raise DeviceError("no devices to spread an array over: pass at least one device id")
    if len(set(out)) < len(out):
        raise DeviceError(f"devices {_some(out)} has repeats: name each device once")
    return out


def _known(named: Iterable[int], devices: tuple[int, ...]) -> None:
    there = set(devices)
    for device in named:
        if device not in there:
            raise DeviceError(
                f"the index map names device {device}, which is not among the devices {_some(devices)}: "
                "use those ids, or create the array on a group that has it"
            )


def _some(devices: Sequence[int]) -> str:
    """Device ids for a message, shortened."""
    ids: Iterator[str] = map(str, devices)
    if len(devices) > 12:
        ids = iter([*map(str, devices[:8]), "...", *map(str, devices[-2:])])
    return f"[{', '.join(ids)}]"
