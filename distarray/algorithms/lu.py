"""LU with partial pivoting of matrices that are spread over devices, and what is solved with it.

Right-looking, over panels (see ``panels``): a panel is factorized by the device that has it, its pivots are whole columns
and need no communication, and is sent to the devices that have columns to its right. While these are brought up to date,
the owner of the next panel does that one first and factorizes it. Right-hand sides are columns further to the right.

Where devices have no room for a copy of the matrix, only L is kept, half of it. Columns are then copied a strip at a time,
brought up to date with all panels so far, factorized, and dropped but for L; what is solved makes them again, the last
strip first: at most half as much work again.

Communication of the factorization: each panel once to each other device, n²/2 elements to each (those that the panels to
the right still need), the bound of the algorithm; of the back-substitution the same, to the devices with right-hand sides.
With strips each panel moves once for each strip to its right, and to solve once more.

References
----------
G. H. Golub and C. F. Van Loan, "Matrix Computations", 4th edition, sections 3.2.11 and 3.6.
P. Strazdins, "A comparison of lookahead and algorithmic blocking techniques for parallel matrix factorization", 1998.
J. J. Dongarra, S. Hammarling and D. W. Walker, "Key concepts for parallel out-of-core LU factorization", Parallel
Computing 23(1-2), 1997 (strips).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from distarray.algorithms.panels import (
    TILE,
    Panels,
    diagonal,
    run,
    send,
    shown,
    solve_triangular,
    subtract,
    taking_part,
    width_for,
)
from distarray.array.agreement import gathered
from distarray.context import Context
from distarray.devices import Chunk, Device
from distarray.devices.arrays import DeviceArray
from distarray.geometry import IndexMap, Range, Region, ViewMap
from distarray.storage import Operand
from distarray.transfer.to_host import gather_to_host

__all__ = ["LU"]


class RowSwaps(NamedTuple):
    """An exchange of rows, counted from a panel's first: which come first, as many as the panel is wide; and below these
    where rows go, and which come there.
    """

    first: Any
    to: Any
    come: Any


class _Dealing(NamedTuple):
    """How a matrix is dealt out: to which devices, panels of how many columns, and strips; one is all of it."""

    devices: tuple[int, ...]
    width: int
    strips: list[tuple[int, int]]


class _Kept(NamedTuple):
    """A panel of L with its exchanges of rows: whose it is, where its columns begin, its shape, and its data if they are here."""

    owner: int
    low: int
    shape: tuple[int, int]
    chunk: Chunk | None


def _cut(context: Context, source: Operand, name: str) -> _Dealing:
    """The strips of a square matrix whose transpose is `source`: as wide as the fullest device has room for.

    Communication: what room there is, one number.
    """
    n, itemsize = source.shape[0], source.dtype.itemsize
    devices = taking_part(source.layout)
    width = width_for(context, n, len(devices))
    line = n * itemsize
    share = -(-n // (width * len(devices))) * width
    wanted = (share + min(share // 4, TILE) + 2 * width) * line  # a copy, a product, and two panels
    room = min([room for room in gathered(context, _room(context, wanted), name) if room is not None], default=wanted)
    if room >= wanted:
        return _Dealing(devices, width, [(0, n)])
    # beside L a device has its part of a strip, a product of a quarter of it, two panels, and the first device half a panel
    # more of L; strips of a matrix that lies strided may come by way of another layout
    columns = int(room // line - n // (2 * len(devices)))
    width = min(width, max(columns // 8, 1))
    times = 2.25 if any(r.step > 1 for _, region in source.layout.chunks for r in region) else 1.25
    strip = max(int((columns - 2.5 * width) / (times * width)), 1) * width * len(devices)
    return _Dealing(devices, width, [(low, min(low + strip, n)) for low in range(0, n, strip)])


def _room(context: Context, wanted: int) -> int | None:
    """What the fullest device of this process has room for; None where nothing is known to limit it."""
    rooms = []
    for device in context.local_devices:
        room = device.room()
        if room is not None and room < wanted:
            device.relieve()
            room = device.room()
        if room is not None:
            rooms.append(room)
    return min(rooms, default=None)


class LU:
    """The factors of a square matrix, of which they replace a copy, or of which only L is kept.

    Parameters
    ----------
    source : Operand
        The transposed matrix.
    sides : Panels, optional
        Right-hand sides, which become ``inv(L) @ P @ sides``.
    """

    def __init__(self, context: Context, source: Operand, label: str, sides: Panels | None = None) -> None:
        self.context = context
        self.sides = sides
        self._source = source
        self._how = how = _cut(context, source, label)
        self._label = label
        self._kept: list[_Kept] = []
        self._is_odd = False
        self._strip: Panels | None = None
        self.diagonal = np.concatenate([self._next(low, high) for low, high in how.strips])

    @property
    def is_singular(self) -> bool:
        """Whether a pivot is exactly zero; the same on all processes."""
        return bool((self.diagonal == 0).any())

    def _next(self, low: int, high: int) -> Any:
        """Factorize a strip when those to its left are done; returns the diagonal of U."""
        self._strip = None  # whose memory is the next one's
        self._strip = strip = self._taken(low, high)
        for panel in self._kept:
            self._catch_up(strip, panel)
        odd: dict[int, Any] = {}
        self._factorize(strip, low, odd)
        self._is_odd ^= _any_odd(strip, odd)
        return diagonal(strip, low)

    def _taken(self, low: int, high: int) -> Panels:
        """A copy of some columns, in panels."""
        how, source = self._how, self._source
        if len(how.strips) > 1:
            source = shown(self.context, source, ViewMap.identity(source.shape).index((slice(low, high),)))
        return Panels.of(source, self.context, how.width, self._label, how.devices)

    def _factorize(self, a: Panels, first: int, odd: dict[int, Any]) -> None:
        """Factorize a strip, which begins in column `first` and is up to date with what is left of it."""
        context = self.context
        panels: dict[int, Chunk] = {}
        if a.context.owns(a.owner(0)):
            run(context, {a.owner(0): partial(self._panel, a, first, 0, panels, odd)}, a.rows * a.width**2)
        for k in range(len(a.bounds)):
            self._pass_on(a, first, k, panels, odd)

    def _pass_on(self, a: Panels, first: int, k: int, panels: dict[int, Chunk], odd: dict[int, Any]) -> None:
        """Bring what is to the right of a panel up to date with it, and factorize the next one."""
        context, sides = self.context, self.sides
        low, high = (first + column for column in a.bounds[k])
        owner, chunk = a.owner(k), panels.pop(k, None)
        shape = (high - low, a.rows - low + 1)
        takers = [d for d in a.devices if a.has_after(d, k) or (sides is not None and sides.stores_on(d))]
        there = send(context, None if chunk is None else chunk.array, shape, a.dtype, owner, takers, a.label)
        tasks: dict[int, Callable[[], None]] = {}
        work = 0
        exchange = None
        for device in takers:
            if a.context.owns(device):
                exchange = exchange or self._exchange(device, there)
                tasks[device] = partial(self._update, device, a, first, k, there[device][:, :-1], exchange, panels, odd)
                work += (a.rows - low) * (high - low) * (a.columns + first - low) // len(a.devices)
        run(context, tasks, work, a.owner(k + 1) if k + 1 < len(a.bounds) else None)
        if len(self._how.strips) > 1:
            self._kept.append(_Kept(owner, low, shape, chunk))

    def _exchange(self, device: int, there: dict[int, Any]) -> RowSwaps:
        return _exchange(self.context.by_id[device].to_host(there[device][:, -1]).real)

    def _panel(self, a: Panels, first: int, k: int, panels: dict[int, Chunk], odd: dict[int, Any]) -> None:
        """Factorize a panel, all of whose columns are here. What is sent has the exchanges of rows as its last column."""
        device = self.context.by_id[a.owner(k)]
        lib, part = device.lib, a.panel(k)[:, first + a.bounds[k][0] :]
        swaps = device.lapack.lu_columns(part)
        odd[k] = (swaps != lib.arange(len(swaps))).sum(dtype=np.int64).reshape(1)
        panels[k] = device.empty((len(part), part.shape[1] + 1), part.dtype, a.label)
        panels[k].array[:, :-1] = part
        panels[k].array[:, -1] = swaps.astype(part.real.dtype)

    def _update(
        self, device_id: int, a: Panels, first: int, k: int, panel: DeviceArray, exchange: RowSwaps, panels: dict[int, Chunk],
        odd: dict[int, Any],
    ) -> None:  # fmt: skip
        sides = self.sides
        device, low = self.context.by_id[device_id], first + a.bounds[k][0]
        store, begin = a.stores[device_id].array, a.after(device_id, k)
        if k + 1 < len(a.bounds) and a.owner(k + 1) == device_id:
            end = a.slot(k + 1).stop
            _eliminate(device, low, store[begin:end], panel, exchange)
            self._panel(a, first, k + 1, panels, odd)
            begin = end
        _eliminate(device, low, store[begin:], panel, exchange)
        if sides is not None and device_id in sides.stores:
            _eliminate(device, low, sides.stores[device_id].array, panel, exchange)

    def _catch_up(self, a: Panels, kept: _Kept, behind: int | None = None) -> None:
        """Bring a strip, or what is behind one of its panels, up to date with a panel that is kept."""
        takers = [d for d in a.devices if a.stores_on(d) and (behind is None or a.has_after(d, behind))]
        array = None if kept.chunk is None else kept.chunk.array
        there = send(self.context, array, kept.shape, a.dtype, kept.owner, takers, a.label) if takers else {}
        tasks: dict[int, Callable[[], None]] = {}
        exchange = None
        for device in takers:
            if a.context.owns(device):
                exchange = exchange or self._exchange(device, there)
                columns = a.stores[device].array[0 if behind is None else a.after(device, behind) :]
                owner, panel = self.context.by_id[device], there[device][:, :-1]
                tasks[device] = partial(_eliminate, owner, kept.low, columns, panel, exchange)
        run(self.context, tasks, kept.shape[0] * kept.shape[1] * a.columns)

    def solve(self) -> None:
        """Replace the right-hand sides by ``inv(U)`` of them: the solutions. The factors go."""
        how = self._how
        for low, high in reversed(how.strips):
            strip = self._strip
            if strip is None:
                strip = self._taken(low, high)
                for number, kept in enumerate(self._kept):
                    own = number - low // how.width
                    self._catch_up(strip, kept, own if own >= 0 else None)
                    if kept.chunk is not None and own >= 0:  # the triangle of U that was factorized
                        with kept.chunk.device.active():
                            width, place = kept.shape[0], kept.low
                            strip.panel(own)[:, place : place + width] = kept.chunk.array[:, :width]
            for k in reversed(range(len(strip.bounds))):
                self._substitute(strip, low, k)
            del self._kept[low // how.width :]
            self._strip = None
            del strip

    def _substitute(self, a: Panels, first: int, k: int) -> None:
        """Solve for the rows of a panel, and take their part from the rows above."""
        context, sides = self.context, self.sides
        assert sides is not None
        takers = [d for d in sides.devices if sides.stores_on(d)]
        low, high = (first + column for column in a.bounds[k])
        owner = a.owner(k)
        upper = a.panel(k)[:, :high] if a.context.owns(owner) else None
        there = send(context, upper, (high - low, high), a.dtype, owner, takers, a.label)
        tasks = {
            d: partial(_substitute, context.by_id[d], low, there[d], sides.stores[d].array)
            for d in takers
            if a.context.owns(d)
        }
        run(context, tasks, high * (high - low) * sides.columns)

    def slogdet(self) -> tuple[Any, Any]:
        """Sign and logarithm of the determinant's absolute value, on the host, the same on all processes."""
        real = self.diagonal.real.dtype
        with np.errstate(all="ignore"):
            size = np.abs(self.diagonal)
            if (size == 0).any():
                return self.diagonal.dtype.type(0), real.type(-np.inf)
            # of real numbers NaN and infinities have a sign too
            signs = self.diagonal / size if self.diagonal.dtype.kind == "c" else np.where(self.diagonal < 0, -1, 1)
            sign = np.prod(signs, dtype=self.diagonal.dtype)
            return sign * (-1 if self._is_odd else 1), np.sum(np.log(size), dtype=real)


def _any_odd(a: Panels, odd: dict[int, Any]) -> bool:
    """Whether the rows were exchanged an odd number of times, the same on all processes."""
    regions: dict[int, list[Region]] = {device: [] for device in a.devices}
    for k in range(len(a.bounds)):
        regions[a.owner(k)].append(Region((Range.of(k, 1, 1),)))
    layout = a.context.layout(IndexMap((len(a.bounds),), regions))
    arrays = [odd[region.first[0]] if a.context.owns(device) else None for device, region in layout.chunks]
    return int(gather_to_host(a.context, Operand(layout, arrays, np.dtype(np.int64))).sum()) % 2 == 1


def _eliminate(device: Device, low: int, columns: DeviceArray, panel: DeviceArray, exchange: RowSwaps) -> None:
    """Bring columns (rows of memory) up to date with a panel whose rows begin at `low`."""
    if not columns.size:
        return
    lib, high = device.lib, low + len(panel)
    first = lib.take(columns, lib.asarray(low + exchange.first), axis=1)
    if len(exchange.to):
        columns[:, lib.asarray(low + exchange.to)] = columns[:, lib.asarray(low + exchange.come)]
    solve_triangular(device, panel[:, : high - low].T, first.T, lower=True, unit=True)
    columns[:, low:high] = first
    subtract(device, columns[:, high:], first, panel[:, high - low :])


def _substitute(device: Device, low: int, panel: DeviceArray, columns: DeviceArray) -> None:
    high = low + len(panel)
    solve_triangular(device, panel[:, low:high].T, columns[:, low:high].T, lower=False)
    subtract(device, columns[:, :low], columns[:, low:high], panel[:, :low])


def _exchange(swaps: DeviceArray) -> RowSwaps:
    """LAPACK's successive exchanges of rows as one."""
    moved: dict[int, int] = {}
    for i, j in enumerate(swaps.astype(np.int64).tolist()):
        if i != j:
            moved[i], moved[j] = moved.get(j, j), moved.get(i, i)
    width = len(swaps)
    rows = [(to, come) for to, come in sorted(moved.items()) if to >= width and to != come]
    first = np.array([moved.get(i, i) for i in range(width)], np.intp)
    return RowSwaps(first, np.array([to for to, _ in rows], np.intp), np.array([come for _, come in rows], np.intp))
