"""QR of matrices that are spread over devices, by blocks of Householder reflectors over panels (see ``panels``).

The device that has a panel factorizes it with LAPACK and sends its reflectors, as V and T of ``I - V T V.mH``, to the
devices with columns to its right; the owner of the next panel brings that one up to date first. Q is formed from the last
panel to the first, on columns of the identity.

Communication: each panel once to each other device that has columns to its right, and once more where Q is formed: with
m rows and k = min(m, n), m k - k²/2 elements to each device each time, and k columns of T.

References
----------
R. Schreiber and C. Van Loan, "A storage-efficient WY representation for products of Householder transformations", SIAM
Journal on Scientific and Statistical Computing 10(1), 1989.
C. Puglisi, "Modification of the Householder method based on the compact WY representation", the same, 13(3), 1992.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from distarray.algorithms.panels import Panels, run, send, subtract
from distarray.context import Context
from distarray.devices import Device
from distarray.devices.arrays import DeviceArray
from distarray.geometry import IndexMap, Range, Region
from distarray.storage import Operand

__all__ = ["Householder"]


class Householder:
    """The reflectors and R of a matrix in panels, which they replace as LAPACK stores them."""

    def __init__(self, context: Context, a: Panels) -> None:
        self.context = context
        self.a = a
        self.size = min(a.rows, a.columns)
        self.steps = sum(low < self.size for low, _ in a.bounds)
        self._factors: dict[int, Any] = {}
        self._triangles: dict[int, Any] = {}
        self._factorize()

    def _reflectors(self, k: int) -> tuple[int, int]:
        """How many reflectors panel `k` has, and how long they are."""
        low, high = self.a.bounds[k]
        return min(high, self.size) - low, self.a.rows - low

    def _factorize(self) -> None:
        context, a = self.context, self.a
        blocks: dict[int, Any] = {}
        if self.steps and a.context.owns(a.owner(0)):
            run(context, {a.owner(0): partial(self._panel, 0, blocks)}, a.rows * a.width**2)
        for k in range(self.steps):
            count, length = self._reflectors(k)
            takers = [device for device in a.devices if a.has_after(device, k)]
            block = blocks.pop(k, None)
            there = send(context, block, (count, length + count), a.dtype, a.owner(k), takers, a.label)
            tasks: dict[int, Callable[[], None]] = {}
            for device in takers:
                if a.context.owns(device):
                    tasks[device] = partial(self._update, device, k, there[device], blocks)
            run(context, tasks, 2 * length * count * (a.columns - a.bounds[k][1]), a.owner((k + 1) % len(a.bounds)))

    def _panel(self, k: int, blocks: dict[int, Any]) -> None:
        """Factorize a panel that is up to date."""
        low, _ = self.a.bounds[k]
        device = self.context.by_id[self.a.owner(k)]
        part = self.a.panel(k)[:, low:]
        stored, factors = device.lapack.qr(part.T, "raw")
        part[...] = stored
        self._factors[k] = factors
        self._triangles[k] = self._triangle(device, self._v(device, k), factors)
        blocks[k] = self._block(device, k)

    def _v(self, device: Device, k: int) -> Any:
        """The reflectors of a panel, one a row of memory."""
        low, _ = self.a.bounds[k]
        count, _ = self._reflectors(k)
        lib = device.lib
        v = lib.triu(self.a.panel(k)[:count, low:], 1)
        place = lib.arange(count)
        v[place, place] = 1
        v[self._factors[k] == 0] = 0  # this reflector is the identity
        return v

    def _triangle(self, device: Device, v: DeviceArray, factors: DeviceArray) -> Any:
        """T, from its inverse: the upper triangle of ``V.mH @ V`` with the reciprocals of the factors as its diagonal."""
        lib = device.lib
        inverse = lib.triu(lib.matmul(lib.conjugate(v), v.T), 1)
        place = lib.arange(len(factors))
        none = factors == 0
        inverse[place, place] = 1 / lib.where(none, 1, factors)
        one = lib.eye(len(factors), dtype=inverse.dtype)
        return device.lapack.solve_triangular(inverse, one, lower=False)

    def _block(self, device: Device, k: int) -> Any:
        """V and T in one array, to be sent."""
        lib = device.lib
        return lib.ascontiguousarray(lib.concatenate([self._v(device, k), self._triangles[k]], axis=1))

    def _update(self, device_id: int, k: int, block: DeviceArray, blocks: dict[int, Any]) -> None:
        a, device = self.a, self.context.by_id[device_id]
        low, _ = a.bounds[k]
        store, begin = a.stores[device_id].array, a.after(device_id, k)
        if k + 1 < self.steps and a.owner(k + 1) == device_id:
            end = a.slot(k + 1).stop
            self._apply(device, store[begin:end, low:], block, adjoint=True)
            self._panel(k + 1, blocks)
            begin = end
        self._apply(device, store[begin:, low:], block, adjoint=True)

    def _apply(self, device: Device, columns: DeviceArray, block: DeviceArray, *, adjoint: bool) -> None:
        """``(I - V T V.mH) @ C``, or that of its adjoint, for columns C that are rows of memory."""
        if not columns.size:
            return
        lib, count = device.lib, len(block)
        v, t = block[:, :-count], block[:, -count:]
        inner = lib.matmul(columns, lib.conjugate(v).T)
        inner = lib.matmul(inner, lib.conjugate(t) if adjoint else t.T)
        subtract(device, columns, inner, v)

    def q(self, columns: int) -> Panels:
        """The first columns of Q."""
        context, a = self.context, self.a
        q = Panels.identity(context, (a.rows, columns), a.dtype, a.devices, a.width, a.label)
        for k in reversed(range(self.steps)):
            count, length = self._reflectors(k)
            owner = a.owner(k)
            block = None
            if a.context.owns(owner):
                with context.by_id[owner].active():
                    block = self._block(context.by_id[owner], k)
            takers = [device for device in q.devices if q.has_after(device, k - 1)]
            there = send(context, block, (count, length + count), a.dtype, owner, takers, a.label)
            tasks: dict[int, Callable[[], None]] = {}
            for device in takers:
                if a.context.owns(device):
                    part = q.stores[device].array[q.after(device, k - 1) :, a.bounds[k][0] :]
                    tasks[device] = partial(self._apply, context.by_id[device], part, there[device], adjoint=False)
            run(context, tasks, 2 * length * count * (columns - a.bounds[k][0]))
        return q

    def keep_r(self) -> None:
        """Clear the reflectors, so that R is left in the panels."""
        for k, (low, high) in enumerate(self.a.bounds):
            device = self.context.by_id[self.a.owner(k)]
            if self.a.context.owns(device.id):
                with device.active():
                    part = self.a.panel(k)
                    part[:, low:] = device.lib.tril(part[:, low:])
                    part[:, high:] = 0

    def factors(self) -> Operand:
        """LAPACK's factors of the reflectors."""
        a = self.a
        regions: dict[int, list[Region]] = {device: [] for device in a.devices}
        for k in range(self.steps):
            regions[a.owner(k)].append(Region((Range.of(a.bounds[k][0], 1, self._reflectors(k)[0]),)))
        layout = self.context.layout(IndexMap((self.size,), regions))
        arrays = [self._factors.get(region.first[0] // a.width) if region.size else None for _, region in layout.chunks]
        return Operand(layout, arrays, np.dtype(a.dtype))
