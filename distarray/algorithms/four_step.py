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

__all__ = [
    "SPLIT_FROM", "SplitCall", "complex_sums", "factor", "is_long", "local_library", "real_inverse_sums", "real_sums",
    "rearranged", "rolled", "strided_sums", "unrolled", "unrolled_sums",
]  # fmt: skip

SPLIT_FROM = 2**16
"""Arrays of fewer elements go to one device rather than through a distributed transform of a split axis."""

BLOCK = 2**15
"""Elements of a block that a core's cache holds beside what is made of it."""

UNEVEN = 1.17
"""Times its share of rows that a device may have; a few rows are fewer pieces to move than the thousands of a larger divisor."""

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


def factor(n: int, devices: int, half: bool = False) -> int | None:
    """A divisor r of n, with r and n / r no smaller than the number of devices: the least that leaves no device with more
    than `UNEVEN` times its share of r rows (`half`: of the r // 2 + 1 that real data have), else the least of all; None
    where none below 512 times the devices divides."""
    least = None
    for r in range(devices, min(512 * devices, n // devices) + 1):
        if n % r == 0:
            rows = r // 2 + 1 if half else r
            if -(-rows // devices) * devices <= UNEVEN * rows:
                return r
            least = least or r
    return least


def complex_sums(call: SplitCall, held: Held, n: int, sign: int, scale: float, dtype: np.dtype[Any]) -> Held:
    """The sums of x[j] exp(sign 2 pi i j k / n), times `scale`."""
    shape = held.operand.shape
    full = (*shape[: call.axis], n, *shape[call.axis + 1 :])
    dealt = call.context.layout(cyclic(call.axis).resolve(full, call.devices))
    devices = len(call.devices)
    if held.operand.layout is dealt and n % devices == 0:
        return rolled(call, unrolled_sums(call, held, n, sign, scale, dtype), n)
    rows = factor(n, devices)
    assert rows is not None
    return strided_sums(call, unrolled(call, held, rows, n // rows), sign, scale, dtype)


def strided_sums(call: SplitCall, wide: Held, sign: int, scale: float, dtype: np.dtype[Any]) -> Held:
    """The same sums of what is unrolled: cyclic where the rows are as many as the devices, else in blocks."""
    axis, shape = call.axis, wide.operand.shape
    rows, columns = shape[axis : axis + 2]
    wide = _across(call, wide, "fft" if sign < 0 else "ifft", rows, columns, sign, scale, dtype)
    wide = wide.moved(call.context, call.cut(wide.operand.shape, axis), call.name)
    wide = _along(call, wide, axis + 1, sign, dtype)
    return _strided(call, wide, (*shape[:axis], rows * columns, *shape[axis + 2 :]), rows)


def unrolled(call: SplitCall, held: Held, rows: int, columns: int) -> Held:
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


def unrolled_sums(call: SplitCall, held: Held, n: int, sign: int, scale: float, dtype: np.dtype[Any]) -> Held:
    """The same sums from a cyclic layout: along what each device has first, then across. The result is unrolled."""
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
    return _along(call, wide, axis, sign, dtype)


def rolled(call: SplitCall, wide: Held, length: int) -> Held:
    """The first elements of what is unrolled, along the axis again, in blocks."""
    found, axis = wide.operand, call.axis
    columns = found.shape[axis + 1]
    full = (*found.shape[:axis], length, *found.shape[axis + 2 :])
    head, tail = Region.full(full[:axis]), Region.full(full[axis + 1 :])
    homes: dict[int, list[Region]] = {device: [] for device in call.devices}
    places: dict[tuple[int, Region], Any] = {}
    for (device_id, region), array in zip(found.layout.chunks, found.arrays, strict=True):
        run = region[axis + 1]
        for row in range(found.shape[axis]) if run.size else ():
            start = row * columns + run.start
            size = min(run.size, length - start)
            if size > 0:
                piece = Region((*head, Range.of(start, 1, size), *tail))
                homes[device_id].append(piece)
                places[device_id, piece] = None if array is None else array[call.at(row, slice(0, size))]
    layout = call.context.layout(IndexMap(full, homes))
    pieces = Held(Operand(layout, [places[place] for place in layout.chunks], found.dtype), wide.chunks)
    return rearranged(call, pieces, call.natural(full))


def _turned(
    call: SplitCall, device: Device, work: DeviceArray, rows: Sequence[int], run: Range, n: int, sign: int, scale: float
) -> None:
    with device.active():
        _turn(call, device, work, rows, run, n, sign, scale)


def real_sums(call: SplitCall, held: Held, n: int, rows: int, scale: float, dtype: np.dtype[Any]) -> Held:
    """The first half of the sums for real data: half of the rows are computed, the others are their mirror images."""
    axis, columns = call.axis, n // rows
    wide = unrolled(call, held, rows, columns)
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


def real_inverse_sums(
    call: SplitCall, held: Held, n: int, rows: int, scale: float, dtype: np.dtype[Any], sign: int = 1
) -> Held:
    """The real sums of a transform of which the first half is given: the steps of :func:`real_sums` backwards, in blocks."""
    axis, columns = call.axis, n // rows
    wide = _rows_of_half(call, held, n, rows, np.result_type(dtype, np.complex64), sign)
    complex_ = wide.operand.dtype
    wide = _along(call, wide, axis + 1, 1, complex_)
    shape = wide.operand.shape
    tasks = []
    for (device_id, region), array in zip(wide.operand.layout.chunks, wide.operand.arrays, strict=True):
        if array is not None and region.size:
            own = range(region[axis].start, region[axis].stop)
            device = call.context.by_id[device_id]
            tasks.append((device_id, partial(_turned, call, device, array, own, Range.full(columns), n, 1, scale)))
    run_by_device(call.context, tasks, math.prod(shape) * complex_.itemsize)
    wide = wide.moved(call.context, call.cut(shape, axis + 1), call.name)
    layout = call.cut((*shape[:axis], rows, *shape[axis + 1 :]), axis + 1)
    results: list[Chunk | None] = [None] * len(layout.chunks)

    def down(device: Device, array: Any, region: Region, place: int) -> None:
        if not region.size:
            results[place] = device.empty(region.shape, dtype, call.name)
            return
        with device.active():
            found = local_library(device).irfft(array, n=rows, axis=axis, norm="forward")
            results[place] = device.adopt(device.lib.ascontiguousarray(found.astype(dtype, copy=False)), call.name)

    run_by_device(
        call.context,
        [
            (device_id, partial(down, call.context.by_id[device_id], array, region, place))
            for place, ((device_id, region), array) in enumerate(zip(layout.chunks, wide.operand.arrays, strict=True))
            if array is not None
        ],
        math.prod(shape) * complex_.itemsize,
    )
    return rolled(call, Held.of(layout, results, dtype), n)


def _rows_of_half(call: SplitCall, held: Held, n: int, rows: int, dtype: np.dtype[Any], sign: int) -> Held:
    """Of a transform of real data, of which the first half is given, element k1 + rows k2 at (k1, k2), for the first half of
    k1; cut along these. Elements behind the middle are mirror images of what is before it. All conjugate where `sign` is -1."""
    found, axis, columns = held.operand, call.axis, n // rows
    known = Range.full(min(found.shape[axis], n // 2 + 1))
    shape = call.folded(found.shape, rows // 2 + 1, columns)
    layout = call.cut(shape, axis)
    chunks: list[Chunk | None] = []
    homes: tuple[dict[int, list[Region]], ...] = ({}, {})
    places: tuple[dict[tuple[int, Region], Any], ...] = ({}, {})
    turned: list[tuple[Device, Any]] = []
    for device_id, region in layout.chunks:
        device = call.context.by_id[device_id]
        own = device.process == call.context.process
        with call.context.reporting():
            chunk = device.full(region.shape, dtype, 0, call.name) if own else None
        chunks.append(chunk)
        for home in homes:
            home.setdefault(device_id, [])
        for row in range(region[axis].start, region[axis].stop) if region.size else ():
            ahead = (n // 2 - row) // rows + 1  # so many are given; the others' images go down to `last`
            last = n - row - rows * (columns - 1)
            runs = Range.of(row, rows, ahead), Range.of(last, rows, columns - ahead)
            for side, run in enumerate(runs):
                taken = run.intersect(known)
                if not taken.size:
                    continue
                piece = Region((*Region.full(found.shape[:axis]), taken, *Region.full(found.shape[axis + 1 :])))
                homes[side][device_id].append(piece)
                target = None
                if chunk is not None:
                    local = row - region[axis].start
                    if side == 0:
                        target = chunk.array[call.at(local, slice(0, taken.size))]
                    else:
                        target = chunk.array[call.at(local, slice(columns - taken.size, columns))]
                    if (side == 0) is (sign < 0):
                        turned.append((device, target))
                    if side == 1:
                        target = target[call.at(slice(None, None, -1))]
                places[side][device_id, piece] = target
    source = held.operand
    if source.dtype != dtype:
        cast: list[Any] = []
        for (device_id, _), array in zip(source.layout.chunks, source.arrays, strict=True):
            if array is None:
                cast.append(None)
                continue
            with call.context.by_id[device_id].active():
                cast.append(array.astype(dtype))
        source = Operand(source.layout, cast, dtype)
    for home, place in zip(homes, places, strict=True):
        index_map = IndexMap(found.shape, home)
        arrays = [place[key] for key in index_map.chunks]
        copy_into(call.context, source, call.context.layout(index_map), arrays, operation=call.name)
    for device, target in turned:
        with device.active():
            device.lib.conjugate(target, out=target)
    _make_real(call, layout, chunks, n, rows)
    return Held.of(layout, chunks, dtype)


def _make_real(call: SplitCall, layout: Layout, chunks: Sequence[Chunk | None], n: int, rows: int) -> None:
    """Take for real what a transform of real data has real: its first element, and the middle one of an even length."""
    for (_, region), chunk in zip(layout.chunks, chunks, strict=True):
        for k in {0, n // 2} if n % 2 == 0 else {0}:
            if chunk is not None and region.size and region[call.axis].holds(k % rows):
                with chunk.device.active():
                    place = k % rows - region[call.axis].start, slice(k // rows, k // rows + 1)
                    chunk.array[call.at(*place)].imag = 0
