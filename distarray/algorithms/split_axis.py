"""The Fourier transform along one axis that is cut over devices, of any length, complex or real.

It chooses: the four-step method where the length has a fitting factor, else a convolution of a length that has one
(L. I. Bluestein, IEEE Trans. Audio Electroacoust. 18 (1970), 451-455). Real data whose transform is given go through a
complex transform of the whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from distarray.algorithms.four_step import SplitCall, complex_sums, factor, real_sums, rearranged
from distarray.algorithms.held import Held, run_by_device
from distarray.devices import Chunk, Device
from distarray.devices.arrays import DeviceArray
from distarray.geometry import IndexMap, Range, Region
from distarray.layout import Layout
from distarray.storage import Operand
from distarray.transfer.execute import copy_into

__all__ = ["along_split_axis"]


def along_split_axis(call: SplitCall, held: Held, kind: str, n: int, norm: str, dtype: np.dtype[Any]) -> Held:
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
    data are half as large; for ``irfft`` of even length four times, and for the others as for a complex transform of twice
    the data, mirrored first.
    """
    if kind == "irfft":
        if n % 2 == 0 and factor(n // 2, len(call.devices)) is not None:
            return _even_inverse(call, held, n, norm, dtype)
        return _real_inverse(call, held, n, norm, dtype)
    scale = _scale(kind, n, norm)
    sign = 1 if kind == "ifft" else -1
    if kind == "rfft":
        rows = factor(n, len(call.devices), at_least=8)
        if rows is not None:
            return real_sums(call, held, n, rows, scale, dtype)
        length = n // 2 + 1
        whole = _complex(call, held, n, sign, scale, dtype)
        return _part(call, whole, length)
    return _complex(call, held, n, sign, scale, dtype)


def _scale(kind: str, n: int, norm: str) -> float:
    """What the sums of an unscaled transform are multiplied by."""
    if norm == "ortho":
        return 1 / math.sqrt(n)
    return 1 / n if (norm == "forward") == (kind in ("fft", "rfft")) else 1.0


def _complex(call: SplitCall, held: Held, n: int, sign: int, scale: float, dtype: np.dtype[Any]) -> Held:
    """The sums of x[j] exp(sign 2 pi i j k / n), times `scale`, for any n."""
    if factor(n, len(call.devices)) is None:
        return _convolved(call, held, n, sign, scale, dtype)
    return complex_sums(call, held, n, sign, scale, dtype)


def _part(call: SplitCall, held: Held, length: int) -> Held:
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
    return rearranged(call, part, call.natural(shape))


def _real_inverse(call: SplitCall, held: Held, n: int, norm: str, dtype: np.dtype[Any]) -> Held:
    """Real sums from half of their transform: the mirrored half is added, and the complex sums' real part taken."""
    wide = np.result_type(dtype, np.complex64)
    mirrored = _mirrored(call, _as_complex(call, held, wide), n)
    whole = _complex(call, mirrored, n, 1, _scale("irfft", n, norm), wide)
    found = whole.operand
    results: list[Chunk | None] = []
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
    return real_held.moved(call.context, call.natural(found.shape), call.name)


def _even_inverse(call: SplitCall, held: Held, n: int, norm: str, dtype: np.dtype[Any]) -> Held:
    """Real sums of even length from half of their transform: complex sums of half the length, whose parts take turns."""
    half, axis = n // 2, call.axis
    wide = np.result_type(dtype, np.complex64)
    found = _as_complex(call, held, wide).operand
    layout = call.natural((*found.shape[:axis], half, *found.shape[axis + 1 :]))
    folded = _read(call, found, layout, 0, 1)
    mirror = _read(call, found, layout, half, -1)
    after = len(found.shape) - axis - 1

    def step(device: Device, one: DeviceArray, other: DeviceArray, run: Range) -> None:
        with device.active():
            if run.start == 0:  # elements 0 and n / 2 of a transform of real data are real
                for array in (one, other):
                    array[call.at(slice(0, 1))].imag = 0
            device.lib.conjugate(other, out=other)
            one += other
            other *= -2
            other += one  # the difference
            turns = 1j * np.exp(2j * np.pi / n * np.arange(run.start, run.stop, dtype=np.int64))
            other *= device.lib.asarray(turns.astype(wide)).reshape(-1, *(1,) * after)
            one += other

    tasks = [
        (device_id, partial(step, one.device, one.array, other.array, region[axis]))
        for (device_id, region), one, other in zip(layout.chunks, folded, mirror, strict=True)
        if one is not None and other is not None and region.size
    ]
    run_by_device(call.context, tasks, math.prod(layout.shape) * wide.itemsize)
    del mirror, tasks
    whole = _complex(call, Held.of(layout, folded, wide), half, 1, _scale("irfft", n, norm), wide)
    del folded
    whole = whole.moved(call.context, layout, call.name)
    homes: dict[int, list[Region]] = {}
    results: list[Chunk | None] = []
    with call.context.reporting():
        for (device_id, region), array in zip(layout.chunks, whole.operand.arrays, strict=True):
            run = region[axis]
            twice = Region((*region[:axis], Range.of(2 * run.start, 1, 2 * run.size), *region[axis + 1 :]))
            homes[device_id] = [twice]
            if array is None:
                results.append(None)
                continue
            device = call.context.by_id[device_id]
            with device.active():
                if after:
                    chunk = device.empty(twice.shape, dtype, call.name)
                    chunk.array[call.at(slice(0, None, 2))] = array.real
                    chunk.array[call.at(slice(1, None, 2))] = array.imag
                else:
                    real = array.view(array.real.dtype).astype(dtype, copy=False)
                    chunk = device.adopt(real.reshape(twice.shape), call.name)
            results.append(chunk)
    full = (*found.shape[:axis], n, *found.shape[axis + 1 :])
    paired = Held.of(call.context.layout(IndexMap(full, homes)), results, dtype)
    return paired.moved(call.context, call.natural(full), call.name)


def _read(call: SplitCall, found: Operand, layout: Layout, first: int, step: int) -> list[Chunk | None]:
    """Chunks of `layout` that hold at place k of the axis the element ``first + step k`` (`step` is 1 or -1), or zero."""
    axis = call.axis
    chunks: list[Chunk | None] = []
    homes: dict[int, list[Region]] = {}
    places: dict[tuple[int, Region], Any] = {}
    for device_id, region in layout.chunks:
        device, run = call.context.by_id[device_id], region[axis]
        own = device.process == call.context.process
        chunk = device.full(region.shape, found.dtype, 0, call.name) if own else None
        chunks.append(chunk)
        homes.setdefault(device_id, [])
        low, high = sorted((first + step * run.start, first + step * (run.stop - 1)))
        low, high = max(low, 0), min(high + 1, found.shape[axis])
        if high <= low or not region.size:
            continue
        piece = Region((*region[:axis], Range.of(low, 1, high - low), *region[axis + 1 :]))
        homes[device_id].append(piece)
        target = None
        if chunk is not None:
            place = (low if step == 1 else high - 1) - first
            place = step * place - run.start
            target = chunk.array[call.at(slice(place, place + high - low))][call.at(slice(None, None, step))]
        places[device_id, piece] = target
    index_map = IndexMap(found.shape, homes)
    arrays = [places[key] for key in index_map.chunks]
    copy_into(call.context, found, call.context.layout(index_map), arrays, operation=call.name)
    return chunks


def _mirrored(call: SplitCall, half: Held, n: int) -> Held:
    """The whole transform of real data, in blocks, of which the first ``n // 2 + 1`` elements along the axis are given."""
    found, axis = half.operand, call.axis
    layout = call.natural((*found.shape[:axis], n, *found.shape[axis + 1 :]))
    middle = n // 2 + 1
    chunks: list[Chunk | None] = []
    homes: tuple[dict[int, list[Region]], ...] = ({}, {})
    places: tuple[dict[tuple[int, Region], Any], ...] = ({}, {})
    behind: list[tuple[Device, Any]] = []
    for device_id, region in layout.chunks:
        device, run = call.context.by_id[device_id], region[axis]
        own = device.process == call.context.process
        chunk = device.full(region.shape, found.dtype, 0, call.name) if own else None
        chunks.append(chunk)
        for side, (low, high) in enumerate(((0, middle), (middle, n))):
            start, stop = max(run.start, low), min(run.stop, high)
            taken = Range.of(n + 1 - stop if side else start, 1, max(0, stop - start))
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
                    behind.append((device, target))
                    target = target[call.at(slice(None, None, -1))]
            places[side][device_id, piece] = target
    for home, place in zip(homes, places, strict=True):
        index_map = IndexMap(found.shape, home)
        arrays = [place[key] for key in index_map.chunks]
        copy_into(call.context, found, call.context.layout(index_map), arrays, operation=call.name)
    for device, target in behind:
        with device.active():
            device.lib.conjugate(target, out=target)
    _make_real(call, layout, chunks, n)
    return Held.of(layout, chunks, found.dtype)


def _make_real(call: SplitCall, layout: Layout, chunks: list[Chunk | None], n: int) -> None:
    """Take for real what a transform of real data has real: its first element, and the middle one of an even length."""
    for (_, region), chunk in zip(layout.chunks, chunks, strict=True):
        if chunk is None or not region.size:
            continue
        run = region[call.axis]
        for k in {0, n // 2} if n % 2 == 0 else {0}:
            if run.holds(k):
                with chunk.device.active():
                    single = chunk.array[call.at(slice(k - run.start, k - run.start + 1))]
                    single.imag = 0


def _as_complex(call: SplitCall, held: Held, dtype: np.dtype[Any]) -> Held:
    found = held.operand
    if found.dtype == dtype:
        return held
    arrays = []
    for (device_id, _), array in zip(found.layout.chunks, found.arrays, strict=True):
        if array is not None:
            with call.context.by_id[device_id].active():
                array = array.astype(dtype)
        arrays.append(array)
    return Held(Operand(found.layout, arrays, dtype))


def _convolved(call: SplitCall, held: Held, n: int, sign: int, scale: float, dtype: np.dtype[Any]) -> Held:
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
    line = SplitCall(call.context, call.devices, 0, call.name)
    kernel = _wrapped_chirp(line, long, n, -sign, wide)
    spectrum = _complex(call, inputs, long, -1, 1.0, wide)
    kernel = _complex(line, kernel, long, -1, 1.0 / long, wide)
    after = len(full) - call.axis - 1
    for (device_id, _), left, right in zip(
        spectrum.operand.layout.chunks, spectrum.operand.arrays, kernel.operand.arrays, strict=True
    ):
        if left is not None and left.size:
            with call.context.by_id[device_id].active():
                left *= right.reshape(-1, *(1,) * after)
    result = _part(call, _complex(call, spectrum, long, 1, 1.0, wide), n)
    _times(call, result, lambda j: _chirp(j, n, sign) * scale)
    return result if wide == dtype else _as_complex(call, result, dtype)


def _chirp(j: DeviceArray, n: int, sign: int) -> Any:
    """exp(sign pi i j j / n); the squares are reduced before they lose bits."""
    return np.exp(sign * 1j * np.pi / n * (j * j % (2 * n)))


def _padded(call: SplitCall, held: Held, target: Layout, dtype: np.dtype[Any]) -> Held:
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


def _times(call: SplitCall, held: Held, factors: Callable[[Any], Any]) -> None:
    """Multiply, in place, by a function of the place along the axis."""
    found, axis = held.operand, call.axis
    after = len(found.shape) - axis - 1

    def step(device: Device, array: DeviceArray, run: Range) -> None:
        table = factors(np.arange(run.start, run.start + run.size * run.step, run.step, dtype=np.int64))
        with device.active():
            array *= device.lib.asarray(table.astype(found.dtype)).reshape(-1, *(1,) * after)

    tasks = [
        (device_id, partial(step, call.context.by_id[device_id], array, region[axis]))
        for (device_id, region), array in zip(found.layout.chunks, found.arrays, strict=True)
        if array is not None and region.size
    ]
    run_by_device(call.context, tasks, math.prod(found.shape) * found.dtype.itemsize)


def _wrapped_chirp(line: SplitCall, long: int, n: int, sign: int, dtype: np.dtype[Any]) -> Held:
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
