"""The work layout of the distributed factorizations: the columns of a matrix dealt to devices in turn, some at a time.

A panel is stored transposed, one row of memory for each column, which is Fortran order to LAPACK, and a device's panels
lie behind each other: everything to the right of a panel is one matrix for BLAS on each device. Dealing balances the
work as the matrix that is left shrinks, and keeps every step on a panel within one device.

References
----------
J. J. Dongarra, R. A. van de Geijn and D. W. Walker, "Scalability issues affecting the design of a dense linear algebra
library", Journal of Parallel and Distributed Computing 22(3), 1994.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from distarray.context import Context
from distarray.devices import Chunk, Device
from distarray.devices.arrays import DeviceArray
from distarray.geometry import IndexMap, Range, Region, ViewMap
from distarray.layout import Layout
from distarray.storage import Operand
from distarray.transfer.execute import copy_into, redistribute
from distarray.transfer.lending import lent
from distarray.transfer.to_host import gather_to_host

__all__ = [
    "TILE", "Panels", "diagonal", "run", "send", "shown", "solve_triangular", "subtract", "taking_part", "transposed",
    "width_for",
]  # fmt: skip

TILE = 1 << 14
"""Products that are subtracted are formed at most so many rows and columns at a time, where they need memory of their own."""

WIDEST = {"host": 192, "cuda": 512}
"""The most columns of a panel by default: enough for BLAS to work at full speed."""

NARROWEST = 32


def taking_part(layout: Layout) -> tuple[int, ...]:
    """The devices that hold elements, ascending."""
    return tuple(sorted({device for device, region in layout.chunks if region.size}))


def width_for(context: Context, columns: int, devices: int) -> int:
    """How many columns a panel has: at least three panels for each device, within what is worth a call of BLAS."""
    if context.PANEL is not None:
        return context.PANEL
    return max(NARROWEST, min(WIDEST[context.kind], columns // (3 * devices) // 8 * 8))


class Panels:
    """A matrix of `shape` (rows, columns) in panels of `width` columns, the k-th with the k-th device in turn.

    Attributes
    ----------
    bounds : list of (int, int)
        Of each panel, its first column and the one after its last.
    layout : Layout
        Of the transposed matrix.
    stores : dict of int to Chunk
        For each device of this process its panels, one below the other: (its columns, rows).
    """

    def __init__(
        self,
        context: Context,
        shape: tuple[int, int],
        dtype: np.dtype[Any],
        devices: Sequence[int],
        width: int,
        label: str,
    ) -> None:
        self.context = context
        self.rows, self.columns = shape
        self.dtype = np.dtype(dtype)
        self.devices = tuple(devices)
        self.width = width
        self.label = label
        self.bounds = [(low, min(low + width, self.columns)) for low in range(0, self.columns, width)]
        ends = dict.fromkeys(self.devices, 0)
        self._slots: list[tuple[int, int]] = []
        regions: dict[int, list[Region]] = {device: [] for device in self.devices}
        for k, (low, high) in enumerate(self.bounds):
            device = self.owner(k)
            self._slots.append((ends[device], ends[device] + high - low))
            ends[device] += high - low
            regions[device].append(Region((Range.of(low, 1, high - low), Range.full(self.rows))))
        self.layout = context.layout(IndexMap((self.columns, self.rows), regions))
        self._ends = ends
        self.stores: dict[int, Chunk] = {}
        with context.reporting():
            for device in self.devices:
                if self.context.owns(device):
                    self.stores[device] = context.by_id[device].empty((ends[device], self.rows), self.dtype, label)

    @classmethod
    def of(cls, operand: Operand, context: Context, width: int, label: str, devices: Sequence[int]) -> Panels:
        """The panels of a matrix whose transpose is `operand`."""
        columns, rows = operand.shape
        panels = cls(context, (rows, columns), operand.dtype, devices, width, label)
        copy_into(context, operand, panels.layout, panels.operand().arrays, operation=label)
        return panels

    @classmethod
    def identity(
        cls,
        context: Context,
        shape: tuple[int, int],
        dtype: np.dtype[Any],
        devices: Sequence[int],
        width: int,
        label: str,
    ) -> Panels:
        """The first columns of the identity."""
        panels = cls(context, shape, dtype, devices, width, label)
        for owner, chunk in panels.stores.items():
            context.by_id[owner].fill(chunk.array, 0)
        for k, (low, high) in enumerate(panels.bounds):
            if panels.context.owns(panels.owner(k)):
                device = context.by_id[panels.owner(k)]
                with device.active():
                    place = device.lib.arange(high - low)
                    panels.panel(k)[place, low + place] = 1
        return panels

    def owner(self, k: int) -> int:
        """The device that has panel `k`."""
        return self.devices[k % len(self.devices)]

    def slot(self, k: int) -> slice:
        """Where panel `k` lies in its owner's store."""
        return slice(*self._slots[k])

    def after(self, device: int, k: int) -> int:
        """Where the panels behind panel `k` begin in a device's store."""
        step = len(self.devices)
        mine = self.devices.index(device)
        following = k + 1 + (mine - k - 1) % step
        return self._slots[following][0] if following < len(self.bounds) else self._ends[device]

    def has_after(self, device: int, k: int) -> bool:
        """Whether a device has panels behind panel `k`."""
        return self.after(device, k) < self._ends[device]

    def stores_on(self, device: int) -> bool:
        """Whether a device has panels."""
        return device in self._ends and self._ends[device] > 0

    def panel(self, k: int) -> Any:
        """Panel `k`, transposed, on a device of this process."""
        return self.stores[self.owner(k)].array[self.slot(k)]

    def operand(self) -> Operand:
        """The transposed matrix."""
        arrays: list[Any] = []
        place = {(self.owner(k), low): k for k, (low, _) in enumerate(self.bounds)}
        for device, region in self.layout.chunks:
            arrays.append(self.panel(place[device, region.first[0]]) if self.context.owns(device) else None)
        return Operand(self.layout, arrays, self.dtype)

    def result(self, target: Layout, rows: int | None = None) -> list[Chunk | None]:
        """The matrix, or its first `rows`, in a layout."""
        operand = self.operand()
        if rows is not None and rows < self.rows:
            operand = shown(self.context, operand, ViewMap.identity(operand.shape).index((slice(None), slice(rows))))
        return redistribute(self.context, transposed(self.context, operand), target, operation=self.label)


def shown(context: Context, operand: Operand, view: ViewMap) -> Operand:
    """What a view shows of an operand in REPLICA mode."""
    seen = context.layouts.visible(operand.layout, view)
    assert seen is not None
    arrays = []
    for i, source in enumerate(seen.sources):
        array = operand.arrays[source]
        device = context.by_id[seen.layout.chunks[i][0]]
        arrays.append(None if array is None else seen.show(i, array, device.xp))
    return Operand(seen.layout, arrays, operand.dtype)


def transposed(context: Context, operand: Operand) -> Operand:
    """A matrix transposed, without a move."""
    return shown(context, operand, ViewMap.identity(operand.shape).transpose((1, 0)))


def send(
    context: Context,
    array: DeviceArray | None,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    source: int,
    targets: Iterable[int],
    label: str,
) -> dict[int, Any]:
    """An array of device `source` on each of the targets, to be read: device of this process → its copy, or the array itself."""
    full = [Region.full(shape)]
    held = context.layout(IndexMap(shape, {source: full}))
    wanted = sorted(set(targets) - {source})
    found: dict[int, Any] = {} if array is None else {source: array}
    if wanted:
        target = context.layout(IndexMap(shape, dict.fromkeys(wanted, full)))
        copies = lent(context, Operand(held, [array], np.dtype(dtype)), target, operation=label)
        found |= {device: chunk.array for (device, _), chunk in zip(target.chunks, copies) if chunk is not None}
    return found


def run(
    context: Context,
    tasks: Mapping[int, Callable[[], None]],
    work: int,
    first: int | None = None,
    *,
    waits: bool = False,
) -> None:
    """Run local work, a task a device, that of `first` before the others; `work`: multiplications in all.

    `waits`: whether tasks wait for results of a GPU. Those that only queue work are queued sooner by one thread.
    """
    order = sorted(tasks, key=lambda device: (device != first, device))
    for device in order:
        context.by_id[device].lapack.load()
    with context.reporting(), np.errstate(all="ignore"):
        context.workers.run(
            [partial(_active, context.by_id[device], tasks[device]) for device in order],
            work,
            blas=waits or context.kind == "host",
        )


def _active(device: Device, task: Callable[[], None]) -> None:
    with device.active():
        task()


def solve_triangular(device: Device, a: DeviceArray, b: DeviceArray, *, lower: bool, unit: bool = False) -> None:
    """Replace `b` by ``inv(a) @ b`` for a triangular matrix; what lies beyond the triangle is not read."""
    found = device.lapack.solve_triangular(a, b, lower=lower, unit=unit)
    if found is not b:
        b[...] = found


def subtract(device: Device, into: DeviceArray, left: DeviceArray, right: DeviceArray) -> None:
    """``into -= left @ right``: in place where BLAS can, else a tile at a time, which is never more than a quarter of a wide
    product."""
    rows, columns = into.shape
    if not into.size or device.lapack.subtract(into, left, right):
        return
    lib = device.lib
    high, wide = min(TILE, max(rows // 4, 32), rows), min(TILE, columns)
    if 4 * high > rows and columns >= NARROWEST:
        wide = min(wide, max(columns * rows // (4 * high), NARROWEST))
    scratch = device.empty((high * wide,), into.dtype, "a product").array
    for top in range(0, rows, high):
        for low in range(0, columns, wide):
            part = into[top : top + high, low : low + wide]
            product = scratch[: part.size].reshape(part.shape)
            lib.matmul(left[top : top + high], right[:, low : low + wide], out=product)
            lib.subtract(part, product, out=part)


def diagonal(panels: Panels, first: int = 0) -> Any:
    """The diagonal that begins in row `first`, on the host of every process."""
    length = min(panels.rows - first, panels.columns)
    regions: dict[int, list[Region]] = {device: [] for device in panels.devices}
    pieces: dict[tuple[int, int], Any] = {}
    for k, (low, high) in enumerate(panels.bounds):
        high = min(high, length)
        if low < high:
            device = panels.owner(k)
            regions[device].append(Region((Range.of(low, 1, high - low),)))
            if panels.context.owns(device):
                pieces[device, low] = panels.panel(k)[: high - low, first + low : first + high].diagonal()
    layout = panels.context.layout(IndexMap((length,), regions))
    arrays = [pieces.get((device, region.first[0])) for device, region in layout.chunks]
    return gather_to_host(panels.context, Operand(layout, arrays, panels.dtype))
