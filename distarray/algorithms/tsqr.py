"""QR of tall matrices in blocks of rows: each device factorizes its own, and the triangles are reduced along a tree.

Householder's factorization in every node keeps it as stable as LAPACK's. What is sent up the tree are triangles of n rows
and columns, and down the tree, where Q is wanted, the parts of Q that belong to them: each device sends at most n² log p
elements up, and as many down.

References
----------
J. Demmel, L. Grigori, M. Hoemmen and J. Langou, "Communication-optimal parallel and sequential QR and LU factorizations",
SIAM Journal on Scientific Computing 34(1), 2012.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from distarray.algorithms.panels import run, taking_part
from distarray.context import Context
from distarray.devices import Chunk, arrays_of
from distarray.devices.arrays import DeviceArray
from distarray.geometry import IndexMap, Range, Region, blocks
from distarray.layout import Layout
from distarray.storage import Operand
from distarray.transfer.execute import redistribute

__all__ = ["TSQR", "is_tall"]


def is_tall(layout: Layout) -> bool:
    """Whether a matrix has rows enough for each of its devices to keep only a triangle."""
    m, n = layout.shape
    return m >= n * len(taking_part(layout)) and n > 0


class _Merge(NamedTuple):
    """One meeting in the tree: the leaf that stays, the one whose triangle comes, and their rows."""

    stays: int
    comes: int
    rows: tuple[int, int]


class TSQR:
    """The factorization of a tall matrix, `a`. Afterwards `r` is on the device `root`.

    Attributes
    ----------
    layout : Layout
        Of Q: that of `a` where its devices have rows as wholes in one chunk each, else equal blocks of rows.
    """

    def __init__(self, context: Context, a: Operand, label: str) -> None:
        self.context = context
        self.label = label
        self.dtype = a.dtype
        self.columns = a.shape[1]
        self.layout = _rows(context, a.layout)
        if self.layout is not a.layout:
            chunks = redistribute(context, a, self.layout, operation=label)
            a = Operand(self.layout, arrays_of(chunks), a.dtype)
        self._leaves = [(i, device, region) for i, (device, region) in enumerate(self.layout.chunks) if region.size]
        self.devices = [device for _, device, _ in self._leaves]
        self.root = self.devices[0]
        self._q: dict[int, Any] = {}
        self._r: dict[int, Any] = {}
        self._inner: dict[tuple[int, int], Any] = {}
        self._levels = self._plan()
        self._up(a)

    def _plan(self) -> list[list[_Merge]]:
        heights = [min(region.shape[0], self.columns) for _, _, region in self._leaves]
        levels, step = [], 1
        while step < len(heights):
            level = []
            for i in range(0, len(heights) - step, 2 * step):
                level.append(_Merge(i, i + step, (heights[i], heights[i + step])))
                heights[i] = min(heights[i] + heights[i + step], self.columns)
            levels.append(level)
            step *= 2
        return levels

    @property
    def r(self) -> Operand:
        """R, whole on the root."""
        layout = self.context.layout(IndexMap((self.columns,) * 2, {self.root: [Region.full((self.columns,) * 2)]}))
        return Operand(layout, [self._r.get(0)], self.dtype)

    def r_chunks(self) -> list[Chunk | None]:
        """R's one chunk, in the layout of `r`."""
        root = self.context.by_id[self.root]
        return [
            root.adopt(root.lib.ascontiguousarray(self._r[0]), self.label) if self.context.owns(self.root) else None
        ]

    def _up(self, a: Operand) -> None:
        context, n = self.context, self.columns
        tasks = {
            device: partial(self._leaf, leaf, device, a.arrays[i])
            for leaf, (i, device, _) in enumerate(self._leaves)
            if self.context.owns(device)
        }
        run(context, tasks, 2 * a.shape[0] * n * n, waits=True)
        for number, level in enumerate(self._levels):
            come = self._exchange([(n.comes, n.stays, n.rows[1]) for n in level], self._r)
            meetings = {
                self.devices[node.stays]: partial(self._meet, number, node, come.get(node.stays))
                for node in level
                if self.context.owns(self.devices[node.stays])
            }
            run(context, meetings, 4 * n**3 * len(level), waits=True)

    def _leaf(self, leaf: int, device: int, array: DeviceArray) -> None:
        self._q[leaf], self._r[leaf] = self.context.by_id[device].lapack.qr(array)

    def _meet(self, number: int, node: _Merge, come: object) -> None:
        device = self.context.by_id[self.devices[node.stays]]
        inner, self._r[node.stays] = device.lapack.qr(device.lib.concatenate([self._r[node.stays], come]))
        self._inner[number, node.stays] = inner

    def _exchange(self, moves: list[tuple[int, int, int]], arrays: dict[int, Any]) -> dict[int, Any]:
        """Move arrays of n columns between leaves, in one round: (from, to, rows) each; leaf → what came."""
        sources: dict[int, list[Region]] = {}
        targets: dict[int, list[Region]] = {}
        senders: dict[int, Any] = {}
        total = 0
        for source, target, rows in moves:
            region = Region((Range.of(total, 1, rows), Range.full(self.columns)))
            sources[self.devices[source]], targets[self.devices[target]] = [region], [region]
            if self.context.owns(self.devices[source]):
                senders[self.devices[source]] = arrays[source]
            total += rows
        shape = (total, self.columns)
        held = self.context.layout(IndexMap(shape, sources))
        wanted = self.context.layout(IndexMap(shape, targets))
        operand = Operand(held, [senders.get(device) for device, _ in held.chunks], self.dtype)
        chunks = redistribute(self.context, operand, wanted, operation=self.label)
        leaf = {device: i for i, device in enumerate(self.devices)}
        return {leaf[device]: c.array for (device, _), c in zip(wanted.chunks, chunks) if c is not None}

    def q(self, right: DeviceArray | None = None) -> list[Chunk | None]:
        """The chunks of Q, or of ``Q @ right``, an array of the root with n rows and columns; in `layout`."""
        context = self.context
        parts: dict[int, Any] = {}
        if self.context.owns(self.root):
            root = context.by_id[self.root]
            with root.active():
                parts[0] = root.lib.eye(self.columns, dtype=self.dtype) if right is None else right
        for number, level in reversed(list(enumerate(self._levels))):
            tasks: dict[int, Callable[[], None]] = {}
            going: dict[int, Any] = {}
            for node in level:
                if self.context.owns(self.devices[node.stays]):
                    tasks[self.devices[node.stays]] = partial(self._part, number, node, parts, going)
            run(context, tasks, 2 * self.columns**3 * len(level), waits=True)
            moves = [(node.stays, node.comes, node.rows[1]) for node in level]
            parts |= self._exchange(moves, going)
        chunks: list[Chunk | None] = [None] * len(self.layout.chunks)
        products = {
            device: partial(self._product, leaf, i, device, parts, chunks)
            for leaf, (i, device, _) in enumerate(self._leaves)
            if self.context.owns(device)
        }
        run(context, products, self.layout.shape[0] * self.columns**2, waits=True)
        for i, (device, region) in enumerate(self.layout.chunks):
            if chunks[i] is None and self.context.owns(device):
                chunks[i] = context.by_id[device].empty(region.shape, self.dtype, self.label)
        return chunks

    def _part(self, number: int, node: _Merge, parts: dict[int, Any], going: dict[int, Any]) -> None:
        """The rows of Q that two subtrees get."""
        device = self.context.by_id[self.devices[node.stays]]
        both = device.lib.matmul(self._inner[number, node.stays], parts[node.stays])
        parts[node.stays], going[node.stays] = both[: node.rows[0]], both[node.rows[0] :]

    def _product(self, leaf: int, i: int, device_id: int, parts: dict[int, Any], chunks: list[Chunk | None]) -> None:
        device = self.context.by_id[device_id]
        chunk = device.empty((self._leaves[leaf][2].shape[0], self.columns), self.dtype, self.label)
        device.lib.matmul(self._q[leaf], parts[leaf], out=chunk.array)
        chunks[i] = chunk


def _rows(context: Context, layout: Layout) -> Layout:
    """The layout itself where each device has whole rows in one chunk, that no other has; else equal blocks of rows."""
    full = Range.full(layout.shape[1])
    held = [(device, region) for device, region in layout.chunks if region.size]
    once = len({device for device, _ in held}) == len(held)
    if once and layout.index_map.is_disjoint and all(region[1] == full for _, region in held):
        return layout
    return context.layout(blocks(0).resolve(layout.shape, taking_part(layout)))
