"""Index maps: which device holds which regions of a logical array. They may overlap, stride, differ in size and leave
devices or elements out, so what follows from them (who meets whom, who owns what, what is missing) is decided here
once, near-linearly for regular maps, and the same way in every process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from math import prod
from typing import Any, NamedTuple

from distarray.errors import IndexMapError, LayoutComplexityError, LayoutError
from distarray.geometry._cells import MAX_BITS, first_gap, refine
from distarray.geometry._keys import as_int
from distarray.geometry._spatial import MAX_PIECES, RegionIndex, are_apart, remainder
from distarray.geometry.ranges import Range
from distarray.geometry.regions import Region

__all__ = ["Cell", "IndexMap"]


class Cell(NamedTuple):
    """A region held entirely by the chunks `holders` (ascending chunk ids) and by no other chunk."""

    region: Region
    holders: tuple[int, ...]


class IndexMap:
    """Which regions of an array of `shape` each device holds. Immutable and hashable.

    Parameters
    ----------
    shape : iterable of int
        Of the logical array.
    mapping : mapping from device id to an iterable of Region
        Devices are kept in order of id, a device's regions sorted and without repeats, so that maps are equal when
        their devices hold equal sets of regions. A device may have no region, or an empty one.

    Raises
    ------
    IndexMapError
        If a device id is not an int >= 0, or a region does not lie in the shape.

    Examples
    --------
    >>> m = IndexMap((6,), {0: [Region.full((4,))], 1: [Region.from_index(slice(2, 6), (6,))]})
    >>> [(cell.region, cell.holders) for cell in m.cells]
    [(Region([0:2]), (0,)), (Region([2:4]), (0, 1)), (Region([4:6]), (1,))]
    >>> m.owned(1)
    ((1, Region([3:4])), (1, Region([4:6])))
    """

    __slots__ = (
        "_cell_index",
        "_cells",
        "_chunks",
        "_digest",
        "_disjoint",
        "_hash",
        "_held",
        "_index",
        "_regions",
        "_shape",
        "_shapes",
        "_spans",
        "_uncovered",
    )

    def __init__(self, shape: Iterable[int], mapping: Mapping[int, Iterable[Region]]) -> None:
        lengths: list[int] = []
        for item in shape:
            n = as_int(item)
            if n is None or n < 0:
                raise IndexMapError(f"shape holds {item!r}; a shape is made of integers >= 0: pass for example (4, 3)")
            lengths.append(n)
        self._shape = tuple(lengths)
        regions: dict[int, tuple[Region, ...]] = {}
        for key in mapping:
            device = as_int(key)
            if device is None or device < 0:
                raise IndexMapError(f"device id {key!r} is not an integer >= 0: key an index map by device ids")
            if device in regions:
                raise IndexMapError(f"device {device} is given twice: give each device one list of regions")
            regions[device] = tuple(sorted(set(self._checked(device, mapping[key]))))
        self._regions = {device: regions[device] for device in sorted(regions)}
        chunks: list[tuple[int, Region]] = []
        self._spans: dict[int, range] = {}
        for device, own in self._regions.items():
            self._spans[device] = range(len(chunks), len(chunks) + len(own))
            chunks += [(device, region) for region in own]
        if len(chunks) > MAX_PIECES:
            raise LayoutComplexityError(
                f"an index map of shape {self._shape} has {len(chunks)} regions, and at most {MAX_PIECES} are planned for: "
                "use larger blocks, or blocks() or cyclic(axis), which need one region for each device"
            )
        self._chunks = tuple(chunks)
        # Computed when first asked for; threads that race compute the same value.
        self._shapes: tuple[tuple[int, ...], ...] | None = None
        self._index: RegionIndex | None = None
        self._cells: tuple[Cell, ...] | None = None
        self._cell_index: RegionIndex | None = None
        self._held: list[list[tuple[int, int]]] | None = None
        self._disjoint: bool | None = None
        self._uncovered: tuple[tuple[int, ...] | None] | None = None
        self._digest: bytes | None = None
        self._hash: int | None = None

    def _checked(self, device: int, regions: Iterable[Region]) -> Iterator[Region]:
        shape = self._shape
        ndim = len(shape)
        for region in regions:
            if not isinstance(region, Region):
                raise IndexMapError(
                    f"device {device} has {region!r} of type {type(region).__name__} where a Region is needed: "
                    "use Region.from_index(index, shape), or as_spec(mapping).resolve(shape, devices)"
                )
            if len(region) != ndim:
                raise IndexMapError(
                    f"device {device} has region {region} with {len(region)} axes for an array of shape {shape}: "
                    "give one range for each axis"
                )
            for axis in range(ndim):
                start, step, size = region[axis]
                if start + (size - 1) * step >= shape[axis]:
                    raise IndexMapError(
                        f"device {device} has region {region}, which reaches beyond axis {axis} of the array, "
                        f"of length {shape[axis]}: clip it with Region.from_index(region.slices, {shape})"
                    )
            yield region

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the logical array."""
        return self._shape

    @property
    def ndim(self) -> int:
        """Number of axes of the logical array."""
        return len(self._shape)

    @property
    def size(self) -> int:
        """Number of elements of the logical array."""
        return prod(self._shape)

    @property
    def devices(self) -> tuple[int, ...]:
        """The device ids, ascending; those without a region too."""
        return tuple(self._regions)

    @property
    def chunks(self) -> tuple[tuple[int, Region], ...]:
        """All ``(device, region)``, by device id and then region; a chunk's id is its position here."""
        return self._chunks

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shape of each chunk, in the order of `chunks`."""
        if self._shapes is None:
            self._shapes = tuple([region.shape for _, region in self._chunks])
        return self._shapes

    def regions(self, device: int) -> tuple[Region, ...]:
        """The regions of `device`, sorted; none for a device that is not in the map.

        Parameters
        ----------
        device : int
            A device id.

        Returns
        -------
        tuple of Region
        """
        return self._regions.get(device, ())

    def chunk_ids(self, device: int) -> range:
        """The positions in `chunks` of the device's regions; empty for a device that is not in the map.

        Parameters
        ----------
        device : int
            A device id.

        Returns
        -------
        range
        """
        return self._spans.get(device, range(0))

    def query(self, region: Region) -> Iterator[tuple[int, Region]]:
        """The chunks that meet `region`, ascending, each ``(chunk id, intersection)``.

        Parameters
        ----------
        region : Region
            With one range for each axis of the array.

        Returns
        -------
        iterator of (int, Region)

        Raises
        ------
        LayoutError
            If `region` has another number of axes.
        """
        if self._index is None:
            self._index = RegionIndex([(i, chunk[1]) for i, chunk in enumerate(self._chunks)])
        self._fits(region)
        return iter(self._index.query(region))

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The disjoint refinement of the map, sorted: every held element is in exactly one cell.

        Raises
        ------
        LayoutComplexityError
            If strided regions overlap in more than 200,000 pieces (``MAX_PIECES``).
        """
        if self._cells is None and self.is_disjoint:
            self._cells = tuple(
                sorted([Cell(region, (i,)) for i, (_, region) in enumerate(self._chunks) if region.size])
            )
        elif self._cells is None:
            holders: dict[Region, list[int]] = {}
            for i, (_, region) in enumerate(self._chunks):
                if region.size:
                    holders.setdefault(region, []).append(i)
            distinct = sorted(holders)
            cells = []
            for region, who in refine(distinct):
                ids = [i for k in who for i in holders[distinct[k]]]
                cells.append(Cell(region, tuple(sorted(ids))))
            self._cells = tuple(sorted(cells))
        assert self._cells is not None
        return self._cells

    def query_cells(self, region: Region) -> Iterator[tuple[int, Region]]:
        """The cells that meet `region`, ascending, each ``(position in cells, intersection)``.

        Parameters
        ----------
        region : Region
            With one range for each axis of the array.

        Returns
        -------
        iterator of (int, Region)

        Raises
        ------
        LayoutError
            If `region` has another number of axes.
        LayoutComplexityError
            If strided regions overlap in too many pieces; see `cells`.
        """
        if self._cell_index is None:
            self._cell_index = RegionIndex([(i, cell.region) for i, cell in enumerate(self.cells)])
        self._fits(region)
        return iter(self._cell_index.query(region))

    @property
    def is_disjoint(self) -> bool:
        """Whether no element is held by two chunks."""
        if self._disjoint is None:
            if self._cells is not None:
                self._disjoint = all(len(cell.holders) == 1 for cell in self._cells)
            else:
                self._disjoint = self._find_disjoint()
        return self._disjoint

    def _find_disjoint(self) -> bool:
        regions = [region for _, region in self._chunks if region.size]
        if len(regions) < 2:
            return True
        if sum([region.size for region in regions]) > self.size or len(set(regions)) < len(regions):
            return False
        return are_apart(regions) or all(sum(1 for _ in self.query(region)) == 1 for region in regions)

    @property
    def covers(self) -> bool:
        """Whether every element of the array is held; always so for an array without elements."""
        return self.uncovered() is None

    def uncovered(self) -> tuple[int, ...] | None:
        """The first element in C order that no chunk holds; None when there is none.

        Returns
        -------
        tuple of int or None
            The element's index along each axis.
        """
        if self._uncovered is None:
            self._uncovered = (self._find_uncovered(),)
        return self._uncovered[0]

    def _find_uncovered(self) -> tuple[int, ...] | None:
        total = self.size
        if not total:
            return None
        full = Region.full(self._shape)
        distinct = {region for _, region in self._chunks}
        if full in distinct:
            return None
        strided = any(r[1] > 1 for region in distinct for r in region)
        if strided and self._cells is None and total <= MAX_BITS and not self.is_disjoint:
            return first_gap(sorted(distinct), self._shape)
        if self.is_disjoint:
            pieces = [region for _, region in self._chunks if region.size]
        else:
            pieces = [cell.region for cell in self.cells]
        if sum([piece.size for piece in pieces]) == total:
            return None
        # The pieces are disjoint, so the held elements before any plane can be counted: bisect, axis by axis.
        element: list[int] = []
        for axis, n in enumerate(self._shape):
            rest = prod(self._shape[axis + 1 :])
            weights = [(piece[axis], prod(piece.shape[axis + 1 :])) for piece in pieces]
            low, high = 0, n - 1  # planes before `low` are full, one of low..high is not
            while low < high:
                middle = (low + high) // 2
                held = sum([_count_below(r, middle + 1) * weight for r, weight in weights])
                if held == (middle + 1) * rest:
                    low = middle + 1
                else:
                    high = middle
            element.append(low)
            pieces = [piece for piece in pieces if piece[axis].holds(low)]
        return tuple(element)

    @property
    def is_replicated(self) -> bool:
        """Whether there are devices, and each holds exactly one region: the full one."""
        full = (Region.full(self._shape),)
        return bool(self._regions) and all(own == full for own in self._regions.values())

    def owned(self, device: int) -> tuple[tuple[int, Region], ...]:
        """What the chunks of `device` own when shared elements are divided fairly: ``(chunk id, region)``, disjoint.

        Over all devices every held element is owned once. A cell held by k chunks is cut in k along its longest axis;
        of cells shorter than that, each begins with another holder.

        Parameters
        ----------
        device : int
            A device id.

        Returns
        -------
        tuple of (int, Region)
            Empty for a device without regions.
        """
        cells = self.cells
        out = []
        for chunk in self.chunk_ids(device):
            for i, part in self._cells_of(chunk):
                region, holders = cells[i]
                if len(holders) == 1:
                    out.append((chunk, region))
                    continue
                axis = max(range(len(region)), key=lambda a: region[a].size, default=-1)
                n, k = (region[axis].size if axis >= 0 else 1), len(holders)
                if n < k:
                    low = (part - i * n) % k
                    high = min(low + 1, n)
                else:
                    low, high = part * n // k, (part + 1) * n // k
                if low < high:
                    if axis < 0:
                        out.append((chunk, region))
                    else:
                        mine = region[axis].compose(Range.of(low, 1, high - low))
                        out.append((chunk, Region((*region[:axis], mine, *region[axis + 1 :]))))
        return tuple(out)

    def first_owned(self, device: int) -> tuple[tuple[int, Region], ...]:
        """Like `owned`, but the first holder of a cell keeps all of it.

        Parameters
        ----------
        device : int
            A device id.

        Returns
        -------
        tuple of (int, Region)
            Chunk ids and disjoint regions; every held element is in one, over all devices.
        """
        cells = self.cells
        chunks = self.chunk_ids(device)
        return tuple([(c, cells[i].region) for c in chunks for i, part in self._cells_of(c) if part == 0])

    def _cells_of(self, chunk: int) -> list[tuple[int, int]]:
        """The cells that a chunk holds, ascending, each with the chunk's position among the holders."""
        if self._held is None:
            held: list[list[tuple[int, int]]] = [[] for _ in self._chunks]
            for i, cell in enumerate(self.cells):
                for part, holder in enumerate(cell.holders):
                    held[holder].append((i, part))
            self._held = held
        return self._held[chunk]

    def completed(self) -> IndexMap:
        """This map, with what no chunk holds added to the first device; itself where it covers the shape.

        Returns
        -------
        IndexMap
            A map without devices is returned as it is.
        """
        if self.covers or not self.devices:
            return self
        held = [region for _, region in self.chunks if region.size]
        rest = remainder(Region.full(self.shape), held, range(len(held)))
        first = self.devices[0]
        return IndexMap(self.shape, {d: (*self.regions(d), *(rest if d == first else ())) for d in self.devices})

    def to_dict(self) -> dict[int, list[tuple[slice, ...]]]:
        """The map as a plain dict of lists of slices, which `as_spec` reads back.

        Returns
        -------
        dict
            From device id to a list of tuples of slices.
        """
        return {device: [region.slices for region in own] for device, own in self._regions.items()}

    @property
    def digest(self) -> bytes:
        """16 bytes, the hash of the map's canonical text: equal in all processes."""
        if self._digest is None:
            text = [repr(self._shape)]
            for device, own in self._regions.items():
                text.append(f"{device}: {len(own)}")
                text += [";".join([f"{a},{b},{c}" for a, b, c in region]) for region in own]
            self._digest = blake2b("\n".join(text).encode(), digest_size=16).digest()
        return self._digest

    def _fits(self, region: Region) -> None:
        if len(region) != len(self._shape):
            raise LayoutError(
                f"region {region} has {len(region)} axes, the index map has shape {self._shape}: "
                f"build it with Region.from_index(index, {self._shape})"
            )

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, IndexMap):
            return NotImplemented
        return self._shape == other._shape and self._regions == other._regions

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((self._shape, tuple(self._regions), self._chunks))
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return (IndexMap, (self._shape, self._regions))

    def __repr__(self) -> str:
        shown = []
        for device, own in self._regions.items():
            shown.append(f"{device}: [{', '.join(map(str, own[:4]))}{', ...' if own[4:] else ''}]")
        if len(shown) > 8:
            shown = [*shown[:4], "...", *shown[-2:]]
        return f"IndexMap(shape={self._shape}, {{{', '.join(shown)}}})"


def _count_below(r: Range, bound: int) -> int:
    """How many indices of `r` are smaller than `bound`."""
    start, step, size = r
    return 0 if bound <= start else min(size, (bound - start + step - 1) // step)
