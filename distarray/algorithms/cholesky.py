"""Cholesky factors of matrices that are spread over devices: blocked, right-looking, over panels (see ``panels``).

A panel of L is computed by the device that has it and sent to the devices that have columns to its right, which subtract
its product from them; the owner of the next panel does that one first. Only the lower triangle is read and written.

Communication: each panel once to each other device that has columns to its right, n²/2 elements to each.

References
----------
G. H. Golub and C. F. Van Loan, "Matrix Computations", 4th edition, section 4.2.9.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from distarray.algorithms.panels import Panels, diagonal, run, send, solve_triangular, subtract
from distarray.context import Context
from distarray.devices.arrays import DeviceArray

__all__ = ["factorize"]


def factorize(context: Context, a: Panels) -> bool:
    """Replace a Hermitian matrix in panels, of which the lower triangle is read, by L, with zeros above.

    Returns whether it is positive definite, the same on all processes; of a matrix with NaN nobody knows, and its factor has them.
    """
    n, last = a.rows, len(a.bounds) - 1
    panels: dict[int, Any] = {}
    if a.context.owns(a.owner(0)):
        run(context, {a.owner(0): partial(_panel, context, a, 0, panels)}, n * a.width**2)
    for k, (low, high) in enumerate(a.bounds):
        takers = [device for device in a.devices if a.has_after(device, k)]
        shape = (high - low, n - high)
        there = send(context, panels.pop(k, None), shape, a.dtype, a.owner(k), takers, a.label) if takers else {}
        tasks: dict[int, Callable[[], None]] = {}
        for device in takers:
            if a.context.owns(device):
                tasks[device] = partial(_update, context, a, device, k, there[device], panels)
        run(context, tasks, (n - high) ** 2 * (high - low) // 2, a.owner(k + 1) if k < last else None)
    return not bool((diagonal(a).real < 0).any())


def _panel(context: Context, a: Panels, k: int, panels: dict[int, Any]) -> None:
    """A panel of L from a panel that is up to date; NaN behind a negative number where the matrix is not positive definite."""
    low, high = a.bounds[k]
    device = context.by_id[a.owner(k)]
    lib, part = device.lib, a.panel(k)
    corner, below = part[:, low:high], part[:, high:]
    device.lapack.cholesky_columns(corner)
    part[:, :low] = 0
    if below.size:
        solve_triangular(device, lib.conjugate(corner).T, below, lower=True)
    panels[k] = lib.ascontiguousarray(below)


def _update(context: Context, a: Panels, device_id: int, k: int, panel: DeviceArray, panels: dict[int, Any]) -> None:
    device = context.by_id[device_id]
    start = a.bounds[k][1]
    left = device.lib.conjugate(panel) if a.dtype.kind == "c" else panel
    for j in range(k + 1, len(a.bounds)):
        if a.owner(j) == device_id:
            low, high = a.bounds[j]
            subtract(device, a.panel(j)[:, low:], left[:, low - start : high - start].T, panel[:, low - start :])
            if j == k + 1:
                _panel(context, a, j, panels)
