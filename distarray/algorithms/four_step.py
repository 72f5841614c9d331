"""The Fourier transform along one axis that is cut over devices, where no other axis is long enough to be cut instead.

A transform of length n = r m is r-point transforms across pieces of length m, a multiplication by roots of unity, and
m-point transforms of what comes out: the four-step method (D. H. Bailey, J. Supercomputing 4 (1990), 23-35), which
moves the data twice. Element k = k1 + r k2 of the result comes out on the device of k1: with r the number of devices,
the result is cyclic over them, and the inverse takes it from there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from distarray.algorithms.held import Held, run_by_device
from distarray.context import Context
from distarray.devices import Chunk, Device
from distarray.devices.arrays import DeviceArray
from distarray.geometry import IndexMap, Range, Region, blocks, cyclic
from distarray.layout import Layout
from distarray.storage import Operand
from distarray.transfer.execute import copy_into, redistribute

__all__ = ["SPLIT_FROM", "SplitCall", "complex_sums", "factor", "is_long", "local_library", "real_sums", "rearranged"]

SPLIT_FROM = 2**16
"""Arrays of fewer elements go to one device rather than through a distributed transform of a split axis."""

BLOCK = 2**15
"""Elements of a block that a core's cache holds beside what is made of it."""

LONG = 2**23
"""Lines of the host of as many bytes are transformed in blocks: the library passes over all of a line many times."""


def local_library(device: Device) -> Any:
    """The module whose one-dimensional transforms run on a device's arrays: SciPy's, CuPy's."""
    if device.kind == "host":
        import scipy.fft

        return scipy.fft
    return device.lib.fft


def is_long(shape: Sequence[int], n: int, devices: Sequence[int]) -> bool:
    """Whether a split axis is worth a distributed transform of its own."""
    return len(devices) > 1 and math.prod(shape) >= SPLIT_FROM and n >= len(devices) ** 2


class SplitCall(NamedTuple):
    """What all steps of one call share."""

    context: Context
    devices: tuple[int, ...]
    axis: int
    name: str

    def cut(self, shape: Sequence[int], axis: int) -> Layout:
        """Blocks along an axis."""
        return self.context.layout(blocks(axis).resolve(shape, self.devices))

    def natural(self, shape: Sequence[int]) -> Layout:
        """Blocks along the transformed axis."""
        return self.cut(shape, self.axis)

    def folded(self, shape: Sequence[int], rows: int, columns: int) -> tuple[int, ...]:
        """A shape with the transformed axis in two."""
        return (*shape[: self.axis], rows, columns, *shape[self.axis + 1 :])

    def at(self, *keys: Any) -> tuple[Any, ...]:
        """An index of the transformed axis, or of the two in its place."""
        return (*(slice(None),) * self.axis, *keys)


def factor(n: int, devices: int, at_least: int = 1) -> int | None:
    """A divisor r of n, with r and n / r no smaller than the number of devices: that number, or `at_least` times it, or
    the least one from there on that divides; None where none below 64 times that does."""
    low = devices * at_least
    for r in range(low, min(64 * low, n // devices) + 1):
        if n % r == 0:
            return r
    return None


def complex_sums(call: SplitCall, held: Held, n: int, sign: int, scale: float, dtype: np.dtype[Any]) -> Held:
    """The sums of x[j] exp(sign 2 pi i j k / n), times `scale`."""
    shape = held.operand.shape
    full = (*shape[: call.axis], n, *shape[call.axis + 1 :])
    dealt = call.context.layout(cyclic(call.axis).resolve(full, call.devices))
    devices = len(call.devices)
    if held.operand.layout is dealt and n % devices == 0:
        return _from_cyclic(call, held, n, sign, scale, dtype)
    rows = devices if n % devices == 0 else factor(n, devices, at_least=8) or factor(n, devices)  # shares much alike
    assert rows is not None
    columns = n // rows
    wide = _unrolled(call, held, rows, columns)
    wide = _across(call, wide, "fft" if sign < 0 else "ifft", rows, columns, sign, scale, dtype)
    wide = wide.moved(call.context, call.cut(wide.operand.shape, call.axis), call.name)
    wide = _along(call, wide, call.axis + 1, sign, dtype)
    return _strided(call, wide, full, rows)


def _unrolled(call: SplitCall, held: Held, rows: int, columns: int) -> Held:
    """The axis as a matrix of `rows` by `columns` in C order, zeros where it ends early, cut along the columns."""
    found, axis = held.operand, call.axis
    shape = call.folded(found.shape, rows, columns)
    layout = call.cut(shape, axis + 1)
    short = rows * columns > found.shape[axis]
    chunks: list[Chunk | None] = []
    with call.context.reporting():
        for device_id, region in layout.chunks:
            device = call.context.by_id[device_id]
            own = device.process == call.context.process
            chunk = device.empty(region.shape, found.dtype, call.name) if own else None
            if chunk is not None and short:
                device.fill(chunk.array, 0)
            chunks.append(chunk)
    homes: dict[int, list[Region]] = {}
    places: dict[tuple[int, Region], Any] = {}
    head, tail = Region.full(found.shape[:axis]), Region.full(found.shape[axis + 1 :])
    for (device_id, region), chunk in zip(layout.chunks, chunks, strict=True):
        run = region[axis + 1]
        homes[device_id] = []
        for row in range(rows) if run.size else ():
            start = row * columns + run.start
            size = max(0, min(run.size, found.shape[axis] - start))
            if size:
                piece = Region((*head, Range.of(start, 1, size), *tail))
                homes[device_id].append(piece)
                places[device_id, piece] = None if chunk is None else chunk.array[call.at(row, slice(0, size))]
    index_map = IndexMap(found.shape, homes)
    arrays = [places[place] for place in index_map.chunks]
    copy_into(call.context, found, call.context.layout(index_map), arrays, operation=call.name)
    return Held.of(layout, chunks, found.dtype)


def _across(
    call: SplitCall, wide: Held, kind: str, rows: int, columns: int, sign: int, scale: float, dtype: np.dtype[Any]
) -> Held:
    """Transform down the columns, which are whole, and multiply by the roots of unity that lead to the rows. Complex
    numbers stay in their chunks."""
    found, axis = wide.operand, call.axis
    height = rows // 2 + 1 if kind == "rfft" else rows
    shape = (*found.shape[:axis], height, *found.shape[axis + 1 :])
    layout = call.cut(shape, axis + 1)
    assert wide.chunks is not None
    results: list[Chunk | None] = [None] * len(layout.chunks)
    tasks = []
    for i, ((device_id, region), chunk) in enumerate(zip(layout.chunks, wide.chunks, strict=True)):
        if chunk is not None:
            task = partial(_down, call, chunk, kind, rows * columns, region, sign, scale, dtype, results, i)
            tasks.append((device_id, task))
    run_by_device(call.context, tasks, math.prod(shape) * dtype.itemsize)
    return Held.of(layout, results, dtype)


def _down(
    call: SplitCall,
    chunk: Chunk,
    kind: str,
    n: int,
    region: Region,
    sign: int,
    scale: float,
    dtype: np.dtype[Any],
    results: list[Chunk | None],
    place: int,
) -> None:
    device, array, run = chunk.device, chunk.array, region[call.axis + 1]
    if not region.size:
        results[place] = device.empty(region.shape, dtype, call.name)
        return
    norm = "forward" if kind == "ifft" else "backward"  # neither scales
    with device.active():
        transform = partial(getattr(local_library(device), kind), axis=call.axis, norm=norm)
        if device.kind == "host" and array.ndim == 2:
            results[place] = out = chunk if array.dtype == dtype else device.empty(region.shape, dtype, call.name)
            _down_blocks(array, out.array, transform, n, run.start, sign, scale)
            return
        work = device.lib.ascontiguousarray(transform(array).astype(dtype, copy=False))
        _turn(call, device, work, range(region[call.axis].size), run, n, sign, scale)
    results[place] = device.adopt(work, call.name)


def _down_blocks(array: Any, out: Any, transform: Any, n: int, start: int, sign: int, scale: float) -> None:
    """The same on the host, so many columns at a time as a cache holds; `out` may be `array`."""
    height, columns = out.shape
    width = max(BLOCK // len(array), 64)
    row = np.arange(height, dtype=np.int64)[:, None]
    angle = sign * 2j * np.pi / n
    fine = np.exp(angle * (row * np.arange(min(width, columns)) % n)) * scale
    for low in range(0, columns, width):
        high = min(low + width, columns)
        turns = fine[:, : high - low] * np.exp(angle * (row * (start + low) % n))
        part = transform(array[:, low:high])
        np.multiply(part, turns.astype(out.dtype, copy=False), out=out[:, low:high])


def _turn(
    call: SplitCall, device: Device, work: DeviceArray, rows: Sequence[int], run: Range, n: int, sign: int, scale: float
) -> None:
    """Multiply element (row, column) by scale exp(sign 2 pi i row column / n), for the columns of `run`, in place.

    The angles are products of two short tables, each exact to the last bit or two.
    """
    lib, after = device.lib, work.ndim - call.axis - 2
    block = max(1, math.isqrt(run.size))
    coarse = np.arange(-(-run.size // block), dtype=np.int64) * block + run.start
    fine = np.arange(block, dtype=np.int64)
    for place, row in enumerate(rows):
        tables = [np.exp(sign * 2j * np.pi / n * (row * table % n)) for table in (coarse, fine)]
        tables[0] *= scale
        first, second = (lib.asarray(table) for table in tables)
        turns = (first[:, None] * second[None, :]).reshape(-1)[: run.size].astype(work.dtype, copy=False)
        part = work[call.at(place)]
        part *= turns.reshape(run.size, *(1,) * after)


def _along(call: SplitCall, wide: Held, axis: int, sign: int, dtype: np.dtype[Any]) -> Held:
    """Transform along an axis that is whole, unscaled."""
    found = wide.operand
    results: dict[int, Chunk] = {}
    length = found.shape[axis]
    is_long_line = length * dtype.itemsize >= LONG and math.prod(found.shape[axis + 1 :]) == 1
    rows = _near_root(length) if is_long_line else None

    def step(device: Device, array: DeviceArray) -> None:
        if not array.size:
            results[device.id] = device.empty(array.shape, dtype, call.name)
            return
        library = local_library(device)
        if rows is not None and device.kind == "host":
            results[device.id] = chunk = device.empty(array.shape, dtype, call.name)
            lines = zip(array.reshape(-1, length), chunk.array.reshape(-1, length), strict=True)
            for line, out in lines:
                own = line if wide.chunks is not None and line.dtype == dtype else line.astype(dtype)
                _long_line(own, out, rows, sign)
            return
        with device.active():
            transform, norm = (library.fft, "backward") if sign < 0 else (library.ifft, "forward")
            work = device.lib.ascontiguousarray(transform(array, axis=axis, norm=norm).astype(dtype, copy=False))
        results[device.id] = device.adopt(work, call.name)

    tasks = [
        (device_id, partial(step, call.context.by_id[device_id], array))
        for (device_id, _), array in zip(found.layout.chunks, found.arrays, strict=True)
        if array is not None
    ]
    run_by_device(call.context, tasks, math.prod(found.shape) * dtype.itemsize)
    return Held.of(found.layout, [results.get(device_id) for device_id, _ in found.layout.chunks], dtype)


def _near_root(n: int) -> int | None:
    """The largest divisor of n up to its square root; None where it is so small that blocks of lines save nothing."""
    return next((r for r in range(math.isqrt(n), 63, -1) if n % r == 0), None)


def _long_line(line: DeviceArray, out: DeviceArray, rows: int, sign: int) -> None:
    """Transform a line of the host that no cache holds, by the four steps again, each in blocks that one does. The line is
    overwritten."""
    import scipy.fft

    n = len(line)
    columns = n // rows
    transform, norm = (scipy.fft.fft, "backward") if sign < 0 else (scipy.fft.ifft, "forward")
    matrix = line.reshape(rows, columns)
    _down_blocks(matrix, matrix, partial(transform, axis=0, norm=norm), n, 0, sign, 1.0)
    found = out.reshape(columns, rows)
    height = max(BLOCK // columns, 1)
    for low in range(0, rows, height):
        found[:, low : low + height] = transform(matrix[low : low + height], axis=1, norm=norm).T


def _strided(call: SplitCall, wide: Held, full: tuple[int, ...], rows: int) -> Held:
    """The result whose element k1 + rows k2 stands at (k1, k2), cut along k1: cyclic, or moved to blocks."""
    found, axis = wide.operand, call.axis
    columns = found.shape[axis + 1]
    head, tail = Region.full(full[:axis]), Region.full(full[axis + 1 :])
    if rows == len(call.devices):
        layout = call.context.layout(cyclic(axis).resolve(full, call.devices))
        chunks: list[Chunk | None] = []
        for (device_id, region), array in zip(layout.chunks, found.arrays, strict=True):
            device = call.context.by_id[device_id]
            chunks.append(None if array is None else device.adopt(array.reshape(region.shape), call.name))
        return Held.of(layout, chunks, found.dtype)
    homes: dict[int, list[Region]] = {device: [] for device in call.devices}
    places: dict[tuple[int, Region], Any] = {}
    for (device_id, region), array in zip(found.layout.chunks, found.arrays, strict=True):
        run = region[axis]
        for row in range(run.start, run.stop):
            piece = Region((*head, Range.of(row, rows, columns), *tail))
            homes[device_id].append(piece)
            places[device_id, piece] = None if array is None else array[call.at(row - run.start)]
    layout = call.context.layout(IndexMap(full, homes))
    strided = Held(Operand(layout, [places[place] for place in layout.chunks], found.dtype), wide.chunks)
    return rearranged(call, strided, call.natural(full))


def rearranged(call: SplitCall, held: Held, target: Layout) -> Held:
    """Views of chunks, moved to chunks of their own."""
    found = held.operand
    return Held.of(target, redistribute(call.context, found, target, operation=call.name), found.dtype)


def _from_cyclic(call: SplitCall, held: Held, n: int, sign: int, scale: float, dtype: np.dtype[Any]) -> Held:
    """The same sums from a cyclic layout: along what each device has first, then across. The result is in blocks."""
    found, axis = held.operand, call.axis
    rows = len(call.devices)
    columns = n // rows
    shape = call.folded(found.shape, rows, columns)
    layout = call.cut(shape, axis)
    arrays = [
        None if array is None else array.reshape(region.shape)
        for array, (_, region) in zip(found.arrays, layout.chunks, strict=True)
    ]
    wide = _along(call, Held(Operand(layout, arrays, found.dtype)), call.axis + 1, sign, dtype)
    tasks = []
    for (device_id, region), array in zip(layout.chunks, wide.operand.arrays, strict=True):
        if array is not None:
            device = call.context.by_id[device_id]
            row, run = region[axis], Range.full(columns)
            task = partial(_turned, call, device, array, range(row.start, row.stop), run, n, sign, scale)
            tasks.append((device_id, task))
    run_by_device(call.context, tasks, math.prod(shape) * dtype.itemsize)
    wide = wide.moved(call.context, call.cut(shape, axis + 1), call.name)
    wide = _along(call, wide, axis, sign, dtype)
    wide = wide.moved(call.context, call.cut(shape, axis), call.name)
    full = (*shape[:axis], n, *shape[axis + 2 :])
    natural = call.natural(full)
    chunks: list[Chunk | None] = []
    for (device_id, region), array in zip(natural.chunks, wide.operand.arrays, strict=True):
        device = call.context.by_id[device_id]
        chunks.append(None if array is None else device.adopt(array.reshape(region.shape), call.name))
    return Held.of(natural, chunks, dtype)


def _turned(
    call: SplitCall, device: Device, work: DeviceArray, rows: Sequence[int], run: Range, n: int, sign: int, scale: float
) -> None:
    with device.active():
        _turn(call, device, work, rows, run, n, sign, scale)


def real_sums(call: SplitCall, held: Held, n: int, rows: int, scale: float, dtype: np.dtype[Any]) -> Held:
    """The first half of the sums for real data: half of the rows are computed, the others are their mirror images."""
    axis, columns = call.axis, n // rows
    wide = _unrolled(call, held, rows, columns)
    wide = _across(call, wide, "rfft", rows, columns, -1, scale, dtype)
    wide = wide.moved(call.context, call.cut(wide.operand.shape, axis), call.name)
    wide = _along(call, wide, call.axis + 1, -1, dtype)
    found = wide.operand
    half = n // 2
    full = (*found.shape[:axis], half + 1, *found.shape[axis + 2 :])
    head, tail = Region.full(full[:axis]), Region.full(full[axis + 1 :])
    homes: dict[int, list[Region]] = {device: [] for device in call.devices}
    places: dict[tuple[int, Region], Any] = {}
    for (device_id, region), array in zip(found.layout.chunks, found.arrays, strict=True):
        device, run = call.context.by_id[device_id], region[axis]
        for row in range(run.start, run.stop):
            for residue in {row, (rows - row) % rows}:
                size = (half - residue) // rows + 1
                if residue > half or (residue == 0 and row):
                    continue
                piece = Region((*head, Range.of(residue, rows, size), *tail))
                homes[device_id].append(piece)
                if array is None:
                    places[device_id, piece] = None
                elif residue == row:
                    places[device_id, piece] = array[call.at(row - run.start, slice(0, size))]
                else:  # X[n - k] is the conjugate of X[k]
                    with device.active():
                        mirror = array[
                            call.at(
                                row - run.start, slice(columns - 1, columns - 1 - size if size < columns else None, -1)
                            )
                        ]
                        places[device_id, piece] = mirror.conj()
    layout = call.context.layout(IndexMap(full, homes))
    strided = Held(Operand(layout, [places[place] for place in layout.chunks], dtype), wide.chunks)
    return rearranged(call, strided, call.natural(full))
