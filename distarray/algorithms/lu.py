"""LU with partial pivoting of matrices that are spread over devices, and what is solved with it.

Right-looking, over panels (see ``panels``): a panel is factorized by the device that has it, its pivots are whole columns
and need no communication, and is sent to the devices that have columns to its right. While these are brought up to date,
the owner of the next panel does that one first and factorizes it. Right-hand sides are columns further to the right.

Communication of the factorization: each panel once to each other device, n²/2 elements to each (those that the panels to
the right still need), the bound of the algorithm; of the back-substitution the same, to the devices with right-hand sides.

References
----------
G. H. Golub and C. F. Van Loan, "Matrix Computations", 4th edition, sections 3.2.11 and 3.6.
P. Strazdins, "A comparison of lookahead and algorithmic blocking techniques for parallel matrix factorization", 1998.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from distarray.algorithms.panels import Panels, diagonal, run, send, subtract
from distarray.context import Context
from distarray.geometry import IndexMap, Range, Region
from distarray.storage import Operand
from distarray.transfer.execute import gather_to_host

__all__ = ["LU"]


class RowSwaps(NamedTuple):
    """An exchange of rows, counted from a panel's first: which come first, as many as the panel is wide; and below these
    where rows go, and which come there.
    """

    first: Any
    to: Any
    come: Any


class LU:
    """The factors of a square matrix in panels, which they replace. `sides`: right-hand sides in panels, which become
    ``inv(L) @ P @ sides``.
    """

    def __init__(self, context: Context, a: Panels, sides: Panels | None = None) -> None:
        self.context = context
        self.a = a
        self.sides = sides
        self._odd: dict[int, int] = {}
        self._factorize()
        self.diagonal = diagonal(a)

    @property
    def is_singular(self) -> bool:
        """Whether a pivot is exactly zero; the same on all processes."""
        return bool((self.diagonal == 0).any())

    def _factorize(self) -> None:
        context, a = self.context, self.a
        n, last = a.rows, len(a.bounds) - 1
        panels: dict[int, Any] = {}
        if a.is_mine(a.owner(0)):
            run(context, {a.owner(0): partial(self._panel, 0, panels)}, n * a.width**2)
        for k, (low, high) in enumerate(a.bounds):
            owner, width = a.owner(k), high - low
            takers = [d for d in a.devices if a.has_after(d, k) or (self.sides is not None and self.sides.stores_on(d))]
            there = send(context, panels.pop(k, None), (width, n - low + 1), a.dtype, owner, takers, a.label)
            tasks: dict[int, Callable[[], None]] = {}
            work = 0
            exchange = None
            for device in takers:
                if a.is_mine(device):
                    exchange = exchange or _exchange(context.by_id[device].to_host(there[device][:, -1]).real)
                    tasks[device] = partial(self._update, device, k, there[device][:, :-1], exchange, panels)
                    work += (n - low) * width * (n - low) // len(a.devices)
            run(context, tasks, work, a.owner(k + 1) if k < last else None)

    def _panel(self, k: int, panels: dict[int, Any]) -> None:
        """Factorize a panel, all of whose columns are here. What is sent has the exchanges of rows as its last column."""
        low, _ = self.a.bounds[k]
        device = self.context.by_id[self.a.owner(k)]
        lib, part = device.lib, self.a.panel(k)[:, low:]
        factors, swaps = device.lapack.lu(part.T)
        part[...] = factors.T
        self._odd[k] = int(np.count_nonzero(swaps != np.arange(len(swaps)))) % 2
        panels[k] = lib.empty((len(part), part.shape[1] + 1), part.dtype)
        panels[k][:, :-1] = factors.T
        panels[k][:, -1] = lib.asarray(swaps.astype(part.real.dtype))

    def _update(self, device_id: int, k: int, panel: Any, exchange: RowSwaps, panels: dict[int, Any]) -> None:
        a, sides = self.a, self.sides
        device = self.context.by_id[device_id]
        store, begin = a.stores[device_id].array, a.after(device_id, k)
        if k + 1 < len(a.bounds) and a.owner(k + 1) == device_id:
            end = a.slot(k + 1).stop
            self._eliminate(device, k, store[begin:end], panel, exchange)
            self._panel(k + 1, panels)
            begin = end
        self._eliminate(device, k, store[begin:], panel, exchange)
        if sides is not None and device_id in sides.stores:
            self._eliminate(device, k, sides.stores[device_id].array, panel, exchange)

    def _eliminate(self, device: Any, k: int, columns: Any, panel: Any, exchange: RowSwaps) -> None:
        """Bring columns (rows of memory) up to date with panel `k`."""
        if not columns.size:
            return
        low, high = self.a.bounds[k]
        lib = device.lib
        first = lib.take(columns, lib.asarray(low + exchange.first), axis=1)
        if len(exchange.to):
            columns[:, lib.asarray(low + exchange.to)] = columns[:, lib.asarray(low + exchange.come)]
        found = device.lapack.solve_triangular(panel[:, : high - low].T, first.T, lower=True, unit=True).T
        columns[:, low:high] = found
        subtract(device, columns[:, high:], found, panel[:, high - low :])

    def solve(self) -> None:
        """Replace the right-hand sides by ``inv(U)`` of them: the solutions."""
        context, a, sides = self.context, self.a, self.sides
        assert sides is not None
        takers = [d for d in sides.devices if sides.stores_on(d)]
        for k in reversed(range(len(a.bounds))):
            low, high = a.bounds[k]
            owner = a.owner(k)
            upper = a.panel(k)[:, :high] if a.is_mine(owner) else None
            there = send(context, upper, (high - low, high), a.dtype, owner, takers, a.label)
            tasks = {d: partial(self._substitute, d, k, there[d]) for d in takers if a.is_mine(d)}
            run(context, tasks, high * (high - low) * sides.columns)

    def _substitute(self, device_id: int, k: int, panel: Any) -> None:
        assert self.sides is not None
        device, columns = self.context.by_id[device_id], self.sides.stores[device_id].array
        low, high = self.a.bounds[k]
        found = columns[:, low:high]
        found[...] = device.lapack.solve_triangular(panel[:, low:high].T, found.T, lower=False).T
        subtract(device, columns[:, :low], found, panel[:, :low])

    def slogdet(self) -> tuple[Any, Any]:
        """Sign and logarithm of the determinant's absolute value, on the host, the same on all processes."""
        real = self.diagonal.real.dtype
        with np.errstate(all="ignore"):
            size = np.abs(self.diagonal)
            if (size == 0).any():
                return self.diagonal.dtype.type(0), real.type(-np.inf)
            sign = np.prod(self.diagonal / size, dtype=self.diagonal.dtype)
            return sign * (-1 if self._is_odd() else 1), np.sum(np.log(size), dtype=real)

    def _is_odd(self) -> bool:
        """Whether the rows were exchanged an odd number of times."""
        a = self.a
        regions: dict[int, list[Region]] = {device: [] for device in a.devices}
        for k in range(len(a.bounds)):
            regions[a.owner(k)].append(Region((Range.of(k, 1, 1),)))
        layout = self.context.layout(IndexMap((len(a.bounds),), regions))
        arrays = [
            self.context.by_id[device].lib.asarray([self._odd[region.first[0]]], dtype=np.int64)
            if a.is_mine(device)
            else None
            for device, region in layout.chunks
        ]
        return int(gather_to_host(self.context, Operand(layout, arrays, np.dtype(np.int64))).sum()) % 2 == 1


def _exchange(swaps: Any) -> RowSwaps:
    """LAPACK's successive exchanges of rows as one."""
    moved: dict[int, int] = {}
    for i, j in enumerate(swaps.astype(np.int64).tolist()):
        if i != j:
            moved[i], moved[j] = moved.get(j, j), moved.get(i, i)
    width = len(swaps)
    rows = [(to, come) for to, come in sorted(moved.items()) if to >= width and to != come]
    first = np.array([moved.get(i, i) for i in range(width)], np.intp)
    return RowSwaps(first, np.array([to for to, _ in rows], np.intp), np.array([come for _, come in rows], np.intp))
