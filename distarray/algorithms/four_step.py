"""The Fourier transform along one axis that is cut over devices, where no other axis is long enough to be cut instead.

A transform of length n = r m is r-point transforms across pieces of length m, a multiplication by roots of unity, and
m-point transforms of what comes out: the four-step method (D. H. Bailey, J. Supercomputing 4 (1990), 23-35), which
moves the data twice. Element k = k1 + r k2 of the result comes out on the device of k1: with r the number of devices,
the result is cyclic over them, and the inverse takes it from there. Lengths without a fitting factor go through a
convolution of a length that has one (L. I. Bluestein, IEEE Trans. Audio Electroacoust. 18 (1970), 451-455).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np

from distarray.context import Context
from distarray.devices import Chunk, Device
from distarray.geometry import IndexMap, Range, Region, blocks, cyclic
from distarray.layout import Layout
from distarray.storage import Operand
from distarray.transfer.execute import copy_into, redistribute

__all__ = ["SPLIT_FROM", "Call", "Held", "along_split_axis", "is_long", "local_library", "run_by_device"]

SPLIT_FROM = 2**16
"""Arrays of fewer elements go to one device rather than through a distributed transform of a split axis."""


class Held(NamedTuple):
    """An operand, with the chunks that its arrays are of where it owns them: they count on their devices as long."""

    operand: Operand
    chunks: Sequence[Chunk | None] | None = None

    @classmethod
    def of(cls, layout: Layout, chunks: Sequence[Chunk | None], dtype: Any) -> Self:
        return cls(Operand(layout, [None if c is None else c.array for c in chunks], dtype), chunks)

    def moved(self, context: Context, target: Layout, name: str) -> Self:
        """The same values in another layout."""
        found = self.operand
        if target is found.layout and self.chunks is not None:
            return self
        chunks = redistribute(context, found, target, operation=name, chunks=self.chunks)
        return self.of(target, chunks, found.dtype)


def local_library(device: Device) -> Any:
    """The module whose one-dimensional transforms run on a device's arrays: SciPy's, CuPy's."""
    if device.kind == "host":
        import scipy.fft

        return scipy.fft
    return device.lib.fft


def run_by_device(context: Context, tasks: Sequence[tuple[int, Callable[[], None]]], nbytes: int) -> None:
    """Run tasks that are each a device's, those of one device in order."""
    work: dict[int, list[Callable[[], None]]] = {}
    for device_id, task in tasks:
        work.setdefault(device_id, []).append(task)
    with context.reporting(), np.errstate(all="ignore"):
        context.workers.run([partial(_all, own) for own in work.values()], nbytes)


def _all(tasks: Sequence[Callable[[], None]]) -> None:
    for task in tasks:
        task()


def is_long(shape: Sequence[int], n: int, devices: Sequence[int]) -> bool:
    """Whether a split axis is worth a distributed transform of its own."""
    return len(devices) > 1 and math.prod(shape) >= SPLIT_FROM and n >= len(devices) ** 2


class Call(NamedTuple):
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


def along_split_axis(call: Call, held: Held, kind: str, n: int, norm: str, dtype: Any) -> Held:
    """Transform along one axis, whatever cuts it.

    Parameters
    ----------
    kind : {"fft", "ifft", "rfft", "irfft"}
    n, norm
        As for a local transform.
    dtype : numpy.dtype
        Of the result.

    Returns
    -------
    Held
        ``fft`` and ``ifft``: cyclic along the axis where the number of devices divides `n`; from there, in blocks. Else
        blocks along the axis.

    Notes
    -----
    Communication: the data twice; a third time where the number of devices does not divide `n`, and for ``rfft``, whose
    data are half as large; for ``irfft`` as for a complex transform of twice the data, mirrored first.
    """
    if kind == "irfft":
        return _real_inverse(call, held, n, norm, dtype)
    scale = _scale(kind, n, norm)
    sign = 1 if kind == "ifft" else -1
    if kind == "rfft":
        factor = _factor(n, len(call.devices), at_least=8)
        if factor is not None:
            return _real(call, held, n, factor, scale, dtype)
        length = n // 2 + 1
        whole = _complex(call, held, n, sign, scale, dtype)
        return _part(call, whole, length)
    return _complex(call, held, n, sign, scale, dtype)


def _scale(kind: str, n: int, norm: str) -> float:
    """What the sums of an unscaled transform are multiplied by."""
    if norm == "ortho":
        return 1 / math.sqrt(n)
    return 1 / n if (norm == "forward") == (kind in ("fft", "rfft")) else 1.0


def _factor(n: int, devices: int, at_least: int = 1) -> int | None:
    """A divisor r of n, with r and n / r no smaller than the number of devices: that number, or `at_least` times it, or
    the least one from there on that divides; None where none below 64 times that does."""
    low = devices * at_least
    for r in range(low, min(64 * low, n // devices) + 1):
        if n % r == 0:
            return r
    return None


def _complex(call: Call, held: Held, n: int, sign: int, scale: float, dtype: Any) -> Held:
    """The sums of x[j] exp(sign 2 pi i j k / n), times `scale`."""
    shape = held.operand.shape
    full = (*shape[: call.axis], n, *shape[call.axis + 1 :])
    dealt = call.context.layout(cyclic(call.axis).resolve(full, call.devices))
    devices = len(call.devices)
    if held.operand.layout is dealt and n % devices == 0:
        return _from_cyclic(call, held, n, sign, scale, dtype)
    rows = _factor(n, devices)
    if rows is None:
        return _convolved(call, held, n, sign, scale, dtype)
    columns = n // rows
    wide = _unrolled(call, held, rows, columns)
    wide = _across(call, wide, "fft" if sign < 0 else "ifft", rows, columns, sign, scale, dtype)
    wide = wide.moved(call.context, call.cut(wide.operand.shape, call.axis), call.name)
    wide = _along(call, wide, sign, dtype)
    return _strided(call, wide, full, rows)


def _unrolled(call: Call, held: Held, rows: int, columns: int) -> Held:
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
    call: Call, wide: Held, kind: str, rows: int, columns: int, sign: int, scale: float, dtype: Any
) -> Held:
    """Transform down the columns, which are whole, and multiply by the roots of unity that lead to the rows."""
    found, axis = wide.operand, call.axis
    height = rows // 2 + 1 if kind == "rfft" else rows
    shape = (*found.shape[:axis], height, *found.shape[axis + 1 :])
    layout = call.cut(shape, axis + 1)
    results: dict[int, Chunk] = {}
    tasks = []
    for (device_id, region), array in zip(layout.chunks, found.arrays, strict=True):
        if array is not None:
            device = call.context.by_id[device_id]
            task = partial(_down, call, device, array, kind, rows * columns, region, sign, scale, dtype, results)
            tasks.append((device_id, task))
    run_by_device(call.context, tasks, math.prod(shape) * dtype.itemsize)
    return Held.of(layout, [results.get(device_id) for device_id, _ in layout.chunks], dtype)


def _down(
    call: Call,
    device: Device,
    array: Any,
    kind: str,
    n: int,
    region: Region,
    sign: int,
    scale: float,
    dtype: Any,
    results: dict[int, Chunk],
) -> None:
    run = region[call.axis + 1]
    if not region.size:
        results[device.id] = device.empty(region.shape, dtype, call.name)
        return
    with device.active():
        norm = "forward" if kind == "ifft" else "backward"  # neither scales
        work = getattr(local_library(device), kind)(array, axis=call.axis, norm=norm)
        work = device.lib.ascontiguousarray(work.astype(dtype, copy=False))
        _turn(call, device, work, range(region[call.axis].size), run, n, sign, scale)
    results[device.id] = device.adopt(work, call.name)


def _turn(
    call: Call, device: Device, work: Any, rows: Sequence[int], run: Range, n: int, sign: int, scale: float
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


def _along(call: Call, wide: Held, sign: int, dtype: Any) -> Held:
    """Transform along the rows, which are whole, unscaled."""
    found = wide.operand
    results: dict[int, Chunk] = {}

    def step(device: Device, array: Any) -> None:
        if not array.size:
            results[device.id] = device.empty(array.shape, dtype, call.name)
            return
        library = local_library(device)
        with device.active():
            if sign < 0:
                work = library.fft(array, axis=call.axis + 1)
            else:
                work = library.ifft(array, axis=call.axis + 1, norm="forward")
            work = device.lib.ascontiguousarray(work.astype(dtype, copy=False))
        results[device.id] = device.adopt(work, call.name)

    tasks = [
        (device_id, partial(step, call.context.by_id[device_id], array))
        for (device_id, _), array in zip(found.layout.chunks, found.arrays, strict=True)
        if array is not None
    ]
    run_by_device(call.context, tasks, math.prod(found.shape) * dtype.itemsize)
    return Held.of(found.layout, [results.get(device_id) for device_id, _ in found.layout.chunks], dtype)


def _strided(call: Call, wide: Held, full: tuple[int, ...], rows: int) -> Held:
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
    return _rearranged(call, strided, call.natural(full))


def _rearranged(call: Call, held: Held, target: Layout) -> Held:
    """Views of chunks, moved to chunks of their own."""
    found = held.operand
    return Held.of(target, redistribute(call.context, found, target, operation=call.name), found.dtype)


def _from_cyclic(call: Call, held: Held, n: int, sign: int, scale: float, dtype: Any) -> Held:
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
    wide = _along(call, Held(Operand(layout, arrays, found.dtype)), sign, dtype)
    tasks = []
    for (device_id, region), array in zip(layout.chunks, wide.operand.arrays, strict=True):
        if array is not None:
            device = call.context.by_id[device_id]
            row, run = region[axis], Range.full(columns)
            task = partial(_turned, call, device, array, range(row.start, row.stop), run, n, sign, scale)
            tasks.append((device_id, task))
    run_by_device(call.context, tasks, math.prod(shape) * dtype.itemsize)
    wide = wide.moved(call.context, call.cut(shape, axis + 1), call.name)
    results: dict[int, Chunk] = {}

    def across(device: Device, array: Any) -> None:
        if not array.size:
            results[device.id] = device.empty(array.shape, dtype, call.name)
            return
        library = local_library(device)
        with device.active():
            kind, norm = (library.fft, "backward") if sign < 0 else (library.ifft, "forward")
            work = device.lib.ascontiguousarray(kind(array, axis=axis, norm=norm).astype(dtype, copy=False))
        results[device.id] = device.adopt(work, call.name)

    found = wide.operand
    run_by_device(
        call.context,
        [
            (device_id, partial(across, call.context.by_id[device_id], array))
            for (device_id, _), array in zip(found.layout.chunks, found.arrays, strict=True)
            if array is not None
        ],
        math.prod(shape) * dtype.itemsize,
    )
    wide = Held.of(found.layout, [results.get(device_id) for device_id, _ in found.layout.chunks], dtype)
    wide = wide.moved(call.context, call.cut(shape, axis), call.name)
    full = (*shape[:axis], n, *shape[axis + 2 :])
    natural = call.natural(full)
    chunks: list[Chunk | None] = []
    for (device_id, region), array in zip(natural.chunks, wide.operand.arrays, strict=True):
        device = call.context.by_id[device_id]
        chunks.append(None if array is None else device.adopt(array.reshape(region.shape), call.name))
    return Held.of(natural, chunks, dtype)


def _turned(
    call: Call, device: Device, work: Any, rows: Sequence[int], run: Range, n: int, sign: int, scale: float
) -> None:
    with device.active():
        _turn(call, device, work, rows, run, n, sign, scale)


def _real(call: Call, held: Held, n: int, rows: int, scale: float, dtype: Any) -> Held:
    """The first half of the sums for real data: half of the rows are computed, the others are their mirror images."""
    axis, columns = call.axis, n // rows
    wide = _unrolled(call, held, rows, columns)
    wide = _across(call, wide, "rfft", rows, columns, -1, scale, dtype)
    wide = wide.moved(call.context, call.cut(wide.operand.shape, axis), call.name)
    wide = _along(call, wide, -1, dtype)
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
                        mirror = array[call.at(row - run.start, slice(columns - 1, columns - 1 - size if size < columns else None, -1))]
                        places[device_id, piece] = mirror.conj()
    layout = call.context.layout(IndexMap(full, homes))
    strided = Held(Operand(layout, [places[place] for place in layout.chunks], dtype), wide.chunks)
    return _rearranged(call, strided, call.natural(full))


def _part(call: Call, held: Held, length: int) -> Held:
    """The first elements along the axis, in blocks."""
    found, axis = held.operand, call.axis
    shape = (*found.shape[:axis], length, *found.shape[axis + 1 :])
    wanted = Range.full(length)
    homes: dict[int, list[Region]] = {device: [] for device in call.devices}
    places: dict[tuple[int, Region], Any] = {}
    for (device_id, region), array in zip(found.layout.chunks, found.arrays, strict=True):
        run = region[axis].intersect(wanted)
        if run.size and region.size:
            piece = Region((*region[:axis], run, *region[axis + 1 :]))
            homes[device_id].append(piece)
            places[device_id, piece] = None if array is None else array[call.at(region[axis].locate(run).as_slice())]
    layout = call.context.layout(IndexMap(shape, homes))
    part = Held(Operand(layout, [places[place] for place in layout.chunks], found.dtype), held.chunks)
    return _rearranged(call, part, call.natural(shape))


def _real_inverse(call: Call, held: Held, n: int, norm: str, dtype: Any) -> Held:
    """Real sums from half of their transform: the mirrored half is added, and the complex sums' real part taken."""
    found, axis = held.operand, call.axis
    wide = np.result_type(dtype, np.complex64)
    half = n // 2 + 1
    shape = (*found.shape[:axis], n, *found.shape[axis + 1 :])
    layout = call.natural(shape)
    chunks: list[Chunk | None] = []
    homes: tuple[dict[int, list[Region]], ...] = ({}, {})
    places: tuple[dict[tuple[int, Region], Any], ...] = ({}, {})
    mirrored: list[tuple[Device, Any]] = []
    for device_id, region in layout.chunks:
        device, run = call.context.by_id[device_id], region[axis]
        own = device.process == call.context.process
        chunk = device.full(region.shape, wide, 0, call.name) if own else None
        chunks.append(chunk)
        for side, (low, high) in enumerate(((0, half), (half, n))):
            start, stop = max(run.start, low), min(run.stop, high)
            taken = Range.of(start, 1, max(0, stop - start)) if side == 0 else Range.of(n + 1 - stop, 1, max(0, stop - start))
            taken = taken.intersect(Range.full(found.shape[axis]))
            homes[side].setdefault(device_id, [])
            if not taken.size or not region.size:
                continue
            piece = Region((*region[:axis], taken, *region[axis + 1 :]))
            homes[side][device_id].append(piece)
            target = None
            if chunk is not None:
                first = taken.start - run.start if side == 0 else n - taken.last - run.start
                target = chunk.array[call.at(slice(first, first + taken.size))]
                if side:
                    mirrored.append((device, target))
                    target = target[call.at(slice(None, None, -1))]
            places[side][device_id, piece] = target
    source = _as_complex(call, held, wide)
    for home, place in zip(homes, places, strict=True):
        index_map = IndexMap(found.shape, home)
        arrays = [place[key] for key in index_map.chunks]
        copy_into(call.context, source.operand, call.context.layout(index_map), arrays, operation=call.name)
    for device, target in mirrored:
        with device.active():
            device.lib.conjugate(target, out=target)
    for (_, region), chunk in zip(layout.chunks, chunks, strict=True):  # what must be real is taken for real
        if chunk is not None and region.size:
            for k in {0, n // 2} if n % 2 == 0 else {0}:
                if region[axis].holds(k):
                    with chunk.device.active():
                        single = chunk.array[call.at(slice(k - region[axis].start, k - region[axis].start + 1))]
                        single.imag = 0
    whole = _complex(call, Held.of(layout, chunks, wide), n, 1, _scale("irfft", n, norm), wide)
    found = whole.operand
    results = []
    with call.context.reporting():
        for (device_id, _), array in zip(found.layout.chunks, found.arrays, strict=True):
            device = call.context.by_id[device_id]
            if array is None:
                results.append(None)
                continue
            with device.active():
                real = array.real.astype(dtype, copy=True)
            results.append(device.adopt(device.lib.ascontiguousarray(real), call.name))
    real_held = Held.of(found.layout, results, dtype)
    return real_held.moved(call.context, call.natural(shape), call.name)


def _as_complex(call: Call, held: Held, dtype: Any) -> Held:
    found = held.operand
    if found.dtype == dtype:
        return held
    arrays = []
    for (device_id, _), array in zip(found.layout.chunks, found.arrays, strict=True):
        with call.context.by_id[device_id].active():
            arrays.append(None if array is None else array.astype(dtype))
    return Held(Operand(found.layout, arrays, dtype))


def _convolved(call: Call, held: Held, n: int, sign: int, scale: float, dtype: Any) -> Held:
    """Bluestein's way: x[j] w[j], convolved with 1 / w, times w[k], where w[j] = exp(sign pi i j j / n)."""
    import scipy.fft

    devices = len(call.devices)
    long = devices * scipy.fft.next_fast_len(-(-(2 * n - 1) // devices))
    wide = np.result_type(dtype, np.complex64)
    shape = held.operand.shape
    full = (*shape[: call.axis], n, *shape[call.axis + 1 :])
    natural = call.natural(full)
    inputs = _padded(call, held, natural, wide)
    _times(call, inputs, lambda j: _chirp(j, n, sign))
    line = Call(call.context, call.devices, 0, call.name)
    kernel = _wrapped_chirp(line, long, n, -sign, wide)
    spectrum = _complex(call, inputs, long, -1, 1.0, wide)
    kernel = _complex(line, kernel, long, -1, 1.0 / long, wide)
    after = len(full) - call.axis - 1
    for (device_id, _), left, right in zip(spectrum.operand.layout.chunks, spectrum.operand.arrays, kernel.operand.arrays, strict=True):
        if left is not None and left.size:
            with call.context.by_id[device_id].active():
                left *= right.reshape(-1, *(1,) * after)
    result = _part(call, _complex(call, spectrum, long, 1, 1.0, wide), n)
    _times(call, result, lambda j: _chirp(j, n, sign) * scale)
    return result if wide == dtype else _as_complex(call, result, dtype)


def _chirp(j: Any, n: int, sign: int) -> Any:
    """exp(sign pi i j j / n); the squares are reduced before they lose bits."""
    return np.exp(sign * 1j * np.pi / n * (j * j % (2 * n)))


def _padded(call: Call, held: Held, target: Layout, dtype: Any) -> Held:
    """The values in `target`, of a longer or shorter axis, zeros where they end; chunks of their own."""
    found, axis = held.operand, call.axis
    chunks: list[Chunk | None] = []
    homes: dict[int, list[Region]] = {}
    places: dict[tuple[int, Region], Any] = {}
    source = _as_complex(call, held, dtype)
    for device_id, region in target.chunks:
        device = call.context.by_id[device_id]
        chunk = device.full(region.shape, dtype, 0, call.name) if device.process == call.context.process else None
        chunks.append(chunk)
        run = region[axis].intersect(Range.full(found.shape[axis]))
        homes.setdefault(device_id, [])
        if run.size and region.size:
            piece = Region((*region[:axis], run, *region[axis + 1 :]))
            homes[device_id].append(piece)
            places[device_id, piece] = None if chunk is None else chunk.array[call.at(slice(0, run.size))]
    index_map = IndexMap(found.shape, homes)
    arrays = [places[place] for place in index_map.chunks]
    copy_into(call.context, source.operand, call.context.layout(index_map), arrays, operation=call.name)
    return Held.of(target, chunks, dtype)


def _times(call: Call, held: Held, factors: Callable[[Any], Any]) -> None:
    """Multiply, in place, by a function of the place along the axis."""
    found, axis = held.operand, call.axis
    after = len(found.shape) - axis - 1

    def step(device: Device, array: Any, run: Range) -> None:
        table = factors(np.arange(run.start, run.start + run.size * run.step, run.step, dtype=np.int64))
        with device.active():
            array *= device.lib.asarray(table.astype(found.dtype)).reshape(-1, *(1,) * after)

    tasks = [
        (device_id, partial(step, call.context.by_id[device_id], array, region[axis]))
        for (device_id, region), array in zip(found.layout.chunks, found.arrays, strict=True)
        if array is not None and region.size
    ]
    run_by_device(call.context, tasks, math.prod(found.shape) * found.dtype.itemsize)


def _wrapped_chirp(line: Call, long: int, n: int, sign: int, dtype: Any) -> Held:
    """The chirp at j = 0, ±1, …, ±(n - 1), the negative ones counted from the end of `long` elements, in blocks."""
    layout = line.natural((long,))
    chunks: list[Chunk | None] = []
    for device_id, region in layout.chunks:
        device = line.context.by_id[device_id]
        if device.process != line.context.process:
            chunks.append(None)
            continue
        j = np.arange(region[0].start, region[0].start + region[0].size, dtype=np.int64)
        j = np.minimum(j, long - j)
        values = np.where(j < n, _chirp(j, n, sign), 0).astype(dtype)
        chunks.append(device.from_host(values))
    return Held.of(layout, chunks, dtype)
