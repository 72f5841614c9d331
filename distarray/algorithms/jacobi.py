"""Singular values of matrices that are spread over devices: one-sided Jacobi by blocks of columns.

Each device holds two blocks of columns and makes all their columns orthogonal at once, by the singular vectors of the
triangle of their QR; then the blocks move on as in a tournament, until every block has met every other: a sweep. Only
orthogonal transformations touch the columns, so that the result is that of a matrix near to the given one, as LAPACK's
is. Hermitian matrices are shifted to be positive definite, where singular vectors are eigenvectors.

Blocks are kept transposed, a column of the matrix in a row of memory.

Communication: with p devices, 2p - 1 rounds a sweep, in each of which a device sends at most two blocks, n/2p columns
each; a few numbers a sweep, for the decision to go on; usually five to ten sweeps.

Memory: the columns, and with vectors the transformations, and a quarter of a device's share of either, since half a block
moves at a time. LAPACK's work space, which no limit counts, is twice the columns of a device.

References
----------
J. Demmel and K. Veselić, "Jacobi's method is more accurate than QR", SIAM Journal on Matrix Analysis 13(4), 1992.
R. P. Brent and F. T. Luk, "The solution of singular-value and symmetric eigenvalue problems on multiprocessor arrays",
SIAM Journal on Scientific and Statistical Computing 6(1), 1985.
Z. Drmač, "Implementation of Jacobi rotations for accurate singular value computation", the same, 18(4), 1997.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np

from distarray.algorithms.panels import run
from distarray.context import Context
from distarray.devices import Chunk, Device, arrays_of
from distarray.devices.arrays import Library
from distarray.geometry import IndexMap, Range, Region
from distarray.layout import Layout
from distarray.storage import Operand
from distarray.transfer.execute import allocate, copy_into, redistribute
from distarray.transfer.to_host import gather_to_host

__all__ = ["Jacobi"]

SWEEPS = 40
"""After so many the iteration is said not to converge; it does in about ten."""

STRIPS = 8
"""A rotation is applied to so many parts of the columns, one after the other, so that it needs little memory."""

FINEST = 3
"""In the last sweep inner products of so many units of the last place are made smaller, too: what they were left with before
adds up over all pairs of columns to ten times LAPACK's error."""


class Jacobi:
    """The columns of a matrix, transposed, made orthogonal to each other. They are `columns`, which the caller fills first.

    Parameters
    ----------
    shape : (int, int)
        Of the transposed matrix: columns, rows.
    vectors : bool
        Accumulate the transformations.

    Attributes
    ----------
    columns : (Layout, list of Chunk)
        Orthogonal columns, transposed: their norms are the singular values, in any order.
    right : (Layout, list of Chunk)
        The right singular vectors, transposed.
    """

    def __init__(
        self,
        context: Context,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        devices: Sequence[int],
        label: str,
        *,
        vectors: bool,
    ) -> None:
        self.context = context
        self.label = label
        self.dtype = dtype
        self.size, self.length = shape
        self.devices = tuple(devices)[: max(min(len(devices), self.size // 2), 1)]
        count = 4 * len(self.devices)
        self.bounds = [(self.size * i // count, self.size * (i + 1) // count) for i in range(count)]
        self._homes = self._dealt(list(range(count // 2)))
        self._players = list(range(count // 2))
        self._shift: float | None = None
        self._vectors = vectors
        self._finest = False
        self._layout = self._placed(self.length)
        self._chunks = allocate(context, self._layout, dtype, label=label)
        self._right: list[Chunk | None] | None = None
        self._largest = 0.0
        self._seen: dict[int, tuple[float, float]] = {}

    def fill(self, columns: Operand) -> None:
        """Take the columns of a matrix, of which an operand is the transpose."""
        copy_into(self.context, columns, self._layout, arrays_of(self._chunks), operation=self.label)

    @staticmethod
    def _dealt(players: Sequence[int]) -> list[list[int]]:
        """The halves of blocks that each device has, where blocks sit round a table in this order."""
        pairs = [(players[i], players[-1 - i]) for i in range(len(players) // 2)]
        return [sorted([2 * block + half for block in pair for half in (0, 1)]) for pair in pairs]

    def _placed(self, length: int) -> Layout:
        regions = {}
        for device, halves in zip(self.devices, self._homes):
            bounds = [self.bounds[half] for half in halves]
            regions[device] = [
                Region((Range.of(low, 1, high - low), Range.full(length))) for low, high in bounds if low < high
            ]
        return self.context.layout(IndexMap((self.size, length), regions))

    def _local(self, chunks: Sequence[Chunk | None]) -> dict[int, list[tuple[Region, Any]]]:
        """For each device of this process its blocks."""
        found: dict[int, list[tuple[Region, Any]]] = {}
        for (device, region), chunk in zip(self._layout.chunks, chunks):
            if chunk is not None:
                found.setdefault(device, []).append((region, chunk.array))
        return found

    def _fill(self) -> None:
        assert self._right is not None
        for device_id, blocks in self._local(self._right).items():
            device = self.context.by_id[device_id]
            with device.active():
                for region, array in blocks:
                    device.fill(array, 0)
                    place = device.lib.arange(len(array))
                    array[place, region.first[0] + place] = 1

    def scale(self, by: float) -> None:
        """Multiply the columns."""
        for device_id, blocks in self._local(self._chunks).items():
            with self.context.by_id[device_id].active():
                for _, array in blocks:
                    array *= by

    def shift(self, by: float) -> None:
        """Add to the diagonal of a Hermitian matrix, which is taken as real: the singular values are eigenvalues then."""
        self._shift = by
        for device_id, blocks in self._local(self._chunks).items():
            device = self.context.by_id[device_id]
            with device.active():
                for region, array in blocks:
                    place = device.lib.arange(len(array))
                    array[place, region.first[0] + place] = array[place, region.first[0] + place].real + by

    def converge(self) -> bool:
        """Sweep until the columns are orthogonal; whether they are, the same on all processes."""
        if self._vectors:
            self._right = allocate(self.context, self._placed(self.size), self.dtype, label=self.label)
            self._fill()
        before = np.inf
        for _ in range(SWEEPS):
            self._seen.clear()
            for _ in range(len(self._players) - 1):
                self._round()
                self._rotate()
            worst, largest = self._agreed()
            if not np.isfinite(worst) or not np.isfinite(largest):
                return False
            self._largest = largest
            if self._finest:
                return True
            if worst <= self._limit() or before / 2 < worst <= 100 * self._limit():  # what is left are rounding errors
                if self._shift is not None:
                    return True
                self._finest = True
            before = worst
        return False

    def _limit(self) -> float:
        """Inner products, relative to the longer column, that are rounding errors."""
        units = 10 + float(np.sqrt(self.length)) if self._shift is None else 5.0
        return (FINEST if self._finest else units) * float(np.finfo(self.dtype).eps) * self._largest

    def _round(self) -> None:
        right = {} if self._right is None else self._local(self._right)
        tasks = {
            device: partial(self._meet, self.context.by_id[device], blocks, right.get(device))
            for device, blocks in self._local(self._chunks).items()
        }
        width = self.size // len(self.devices)
        run(self.context, tasks, 4 * self.length * width * width * len(self.devices), waits=True)

    def _meet(self, device: Device, blocks: list[tuple[Region, Any]], right: list[tuple[Region, Any]] | None) -> None:
        """Make the columns of two blocks orthogonal, the longest first."""
        lib = device.lib
        both = lib.concatenate([array for _, array in blocks])
        # shifted columns are of one size: their inner products are accurate, and cheaper than the triangle
        triangle = device.lapack.qr(both.T, "r") if self._shift is None else both.T
        inner = lib.matmul(lib.conjugate(triangle).T, triangle)
        gram = lib.abs(inner)
        norms = lib.sqrt(lib.diagonal(gram).copy())
        place = lib.arange(len(norms))
        gram[place, place] = 0
        longer = lib.maximum(lib.maximum(norms[:, None], norms[None, :]), lib.finfo(self.dtype).tiny)
        values = device.to_host(lib.stack([(gram / longer).max(), norms.max()])).astype(np.float64)
        worst, largest = float(values[0]), float(values[1])
        before = self._seen.get(device.id, (0.0, 0.0))
        self._seen[device.id] = float(np.maximum(before[0], worst)), float(np.maximum(before[1], largest))
        if not np.isfinite(worst) or worst <= self._limit():
            return
        with device.lapack.raising():
            if self._shift is None:
                turn = lib.conjugate(lib.linalg.svd(triangle)[2])
            else:
                scale = np.finfo(self.dtype).dtype.type(
                    2.0 ** (-2 * math.frexp(largest)[1])
                )  # LAPACK does it, cuSOLVER doesn't
                turn = _eigenvectors(lib, inner * scale)[:, ::-1].T
        # one step of Newton's iteration: what LAPACK's vectors lack of being orthogonal would add up
        turn = 1.5 * turn - 0.5 * lib.matmul(lib.matmul(turn, lib.conjugate(turn).T), turn)
        del both, triangle, inner, gram, longer
        for parts in (blocks, right):
            if parts is not None:
                _turn(lib, turn, [array for _, array in parts])

    def _rotate(self) -> None:
        """Move the blocks on to their next meetings: half a block to each device at a time, one way round and then the other."""
        self._players = self._turned()
        now = {half: i for i, halves in enumerate(self._dealt(self._players)) for half in halves}
        for part in (0, 1):
            for ahead in (True, False):
                homes = [
                    (now[half] if half % 2 == part and now[half] != i and (now[half] > i) is ahead else i, half)
                    for i, halves in enumerate(self._homes)
                    for half in halves
                ]
                self._move_to([sorted([half for i, half in homes if i == j]) for j in range(len(self.devices))])

    def _move_to(self, homes: list[list[int]]) -> None:
        if homes == self._homes:
            return
        before = self._layout, self._placed(self.size)
        self._homes = homes
        self._layout = self._placed(self.length)
        self._chunks = self._moved(before[0], self._layout, self._chunks)
        if self._right is not None:
            self._right = self._moved(before[1], self._placed(self.size), self._right)

    def _turned(self) -> list[int]:
        """The blocks round the table for the next round: all but the first move on."""
        p = self._players
        return [p[0], p[-1], *p[1:-1]]

    def _moved(self, before: Layout, after: Layout, chunks: list[Chunk | None]) -> list[Chunk | None]:
        arrays = arrays_of(chunks)
        source = Operand(before, arrays, self.dtype)
        return redistribute(self.context, source, after, operation=self.label, chunks=chunks)

    def _agreed(self) -> tuple[float, float]:
        """The largest inner product that was met in the sweep, and the longest column."""
        regions = {device: [Region((Range.of(i, 1, 1), Range.full(2)))] for i, device in enumerate(self.devices)}
        layout = self.context.layout(IndexMap((len(self.devices), 2), regions))
        arrays = []
        for device, _ in layout.chunks:
            owner = self.context.by_id[device]
            mine = owner.process == self.context.process
            arrays.append(owner.from_host(np.array([self._seen[device]])).array if mine else None)
        found = gather_to_host(self.context, Operand(layout, arrays, np.dtype(np.float64)))
        return float(found[:, 0].max()), float(found[:, 1].max())

    def sizes(self, order: float | None = None) -> Any:
        """The norms of the columns, for all processes: the lengths, or with infinity the largest absolute values."""
        regions: dict[int, list[Region]] = {device: [] for device in self.devices}
        found: dict[tuple[int, Region], Any] = {}
        for (device_id, region), chunk in zip(self._layout.chunks, self._chunks):
            regions[device_id].append(Region(region[:1]))
            if chunk is not None:
                with self.context.by_id[device_id].active():
                    found[device_id, Region(region[:1])] = chunk.device.lib.linalg.norm(chunk.array, order, axis=1)
        layout = self.context.layout(IndexMap((self.size,), regions))
        arrays = [found.get(place) for place in layout.chunks]
        return gather_to_host(self.context, Operand(layout, arrays, np.empty(0, self.dtype).real.dtype))

    @property
    def columns(self) -> tuple[Layout, list[Chunk | None]]:
        return self._layout, self._chunks

    @property
    def right(self) -> tuple[Layout, list[Chunk | None]]:
        assert self._right is not None
        return self._placed(self.size), self._right


def _turn(lib: Library, turn: Any, arrays: Sequence[Any]) -> None:
    """Replace matrices that lie one below the other by a small one times them, some columns at a time."""
    ends = list(accumulate(len(array) for array in arrays))
    length = arrays[0].shape[1]
    step = max(-(-length // STRIPS), ends[-1], 1)
    for low in range(0, length, step):
        turned = lib.matmul(turn, lib.concatenate([array[:, low : low + step] for array in arrays]))
        for array, end in zip(arrays, ends, strict=True):
            array[:, low : low + step] = turned[end - len(array) : end]


def _eigenvectors(lib: Library, matrix: Any) -> Any:  # of either library
    """The eigenvectors of a small Hermitian matrix. cuSOLVER gives some up that LAPACK takes."""
    try:
        return lib.linalg.eigh(matrix)[1]
    except np.linalg.LinAlgError:
        if lib is np:
            raise
        return lib.asarray(np.linalg.eigh(matrix.get())[1])
