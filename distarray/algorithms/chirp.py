"""Fourier transforms of any length along an axis that is cut over devices: a convolution, where no factor fits the devices.

With w[j] = exp(± pi i j j / n), element k of the transform of x is w[k] times the convolution of x[j] w[j] with 1 / w
(L. I. Bluestein, IEEE Trans. Audio Electroacoust. 18 (1970), 451-455). The convolution is cyclic, of a length of twice the
data or more, and would take memory for several arrays of that. So it is done in parts: modulo z^m - exp(2 pi i r / c) for
r = 0, …, c - 1, whose product is z^(c m) - 1, by transforms of length m, of which c are as long as the whole (the Chinese
remainder theorem for polynomials: H. J. Nussbaumer, Fast Fourier Transform and Convolution Algorithms, Springer 1982).
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from distarray.algorithms.four_step import SplitCall, rolled, strided_sums, unrolled, unrolled_sums
from distarray.algorithms.held import Held, run_by_device
from distarray.devices import Device
from distarray.devices.arrays import DeviceArray, Library
from distarray.geometry import Range

__all__ = ["convolved"]

LEAST = 1 << 20
"""Bytes on a device of a convolution that is done at once."""

BLOCK = 1 << 13
"""Elements for which the host makes tables at a time."""


class _Convolution(NamedTuple):
    """What is convolved: `taken` elements of the operand, for the first `length` of `n` sums, in `parts` parts of `width`."""

    call: SplitCall
    n: int
    sign: int
    taken: int
    length: int
    parts: int
    width: int

    @property
    def rows(self) -> int:
        """A part is a matrix in C order, which is cut along its columns, of one row for each device."""
        return len(self.call.devices)

    @property
    def columns(self) -> int:
        return self.width // self.rows

    def blocks(self, device: Device, run: Range) -> Iterator[tuple[int, slice, int]]:
        """The rows of a part and some of a device's columns at a time, and which element of the part the first is."""
        step = BLOCK if device.kind == "host" else run.size
        for row in range(self.rows):
            for low in range(0, run.size, step):
                yield row, slice(low, min(low + step, run.size)), row * self.columns + run.start + low


def convolved(
    call: SplitCall,
    held: Held,
    n: int,
    sign: int,
    scale: float,
    dtype: np.dtype[Any],
    *,
    length: int,
    half: bool = False,
) -> Held:
    """The first `length` of the sums of x[j] exp(sign 2 pi i j k / n), times `scale`, in blocks.

    Parameters
    ----------
    dtype : numpy.dtype
        Of the result.
    half : bool
        The operand is the first half of a transform of real data, and the sums are real.

    Notes
    -----
    Communication: the operand and the result once; six times the data between, of real sums four and a half times.

    Memory, besides operand and result: the operand once more, and three quarters of `n` complex numbers.
    """
    import scipy.fft

    devices = len(call.devices)
    shape = held.operand.shape
    taken = n // 2 + 1 if half else n
    wide = np.result_type(dtype, np.complex64)
    total = taken + length - 1
    others = math.prod(shape) // max(shape[call.axis], 1)
    parts = 1 if total * others * wide.itemsize <= devices * LEAST else -(-4 * total // n)
    width = devices * scipy.fft.next_fast_len(max(-(-total // (parts * devices)), devices))
    todo = _Convolution(call, n, sign, taken, length, parts, width)
    source = unrolled(call, held, -(-taken // width) * devices, todo.columns)
    layout = call.cut(call.folded(shape, -(-length // width) * devices, todo.columns), call.axis + 1)
    chunks = []
    with call.context.reporting():
        for device_id, region in layout.chunks:
            device = call.context.by_id[device_id]
            mine = device.process == call.context.process
            chunks.append(device.full(region.shape, dtype, 0, call.name) if mine else None)
    result = Held.of(layout, chunks, dtype)
    line = todo._replace(call=call._replace(axis=0))
    for part in range(parts):
        spectrum = strided_sums(call, _reduced(todo, source, part, half, wide), -1, 1.0, wide)
        _multiply(call, spectrum, strided_sums(line.call, _kernel(line, part, wide), -1, 1 / (parts * width), wide))
        _add(todo, result, unrolled_sums(call, spectrum, width, 1, 1.0, wide), part, scale)
        del spectrum
    del source
    return rolled(call, result, length)


# --- tables -------------------------------------------------------------------------------------------------------------


def _turns(lib: Library, count: int, step: float) -> Any:
    """exp(2 pi i step j) for j = 0, …, count - 1."""
    return lib.exp(2j * math.pi * step * lib.arange(count))


def _squares(lib: Library, count: int, n: int, sign: int) -> Any:
    """exp(sign pi i j j / n) for j = 0, …, count - 1; the squares are reduced before they lose bits."""
    place = lib.arange(count, dtype=np.int64)
    return lib.exp(sign * 1j * math.pi / n * (place * place % (2 * n)))


def _chirp(lib: Library, first: int, squares: DeviceArray, n: int, sign: int) -> Any:
    """exp(sign pi i j j / n) from j = `first` on, made of the values from 0 on by products of short tables."""
    count = len(squares)
    side = math.isqrt(max(count - 1, 0)) + 1
    place = lib.arange(side, dtype=np.int64)
    turn = sign * 2j * math.pi / n
    begin = cmath.exp(sign * 1j * math.pi / n * (first * first % (2 * n)))
    rows = lib.exp(turn * (first % n * side % n * place % n)) * begin
    columns = lib.exp(turn * (first % n * place % n))
    return (rows[:, None] * columns[None, :]).reshape(-1)[:count] * squares


def _phase(part: int, place: int, count: int) -> complex:
    """exp(2 pi i part place / count)."""
    return cmath.exp(2j * math.pi * (part * place % count) / count)


# --- parts --------------------------------------------------------------------------------------------------------------


def _reduced(todo: _Convolution, source: Held, part: int, half: bool, dtype: np.dtype[Any]) -> Held:
    """What x[j] w[j] leaves in a part of the ring, turned so that the part is cyclic; as it is unrolled."""
    call, found = todo.call, source.operand
    shape = found.shape
    layout = call.cut((*shape[: call.axis], todo.rows, *shape[call.axis + 1 :]), call.axis + 1)
    after = len(shape) - call.axis - 2
    times = shape[call.axis] // todo.rows
    whole = todo.parts * todo.width

    def fill(device: Device, array: DeviceArray, out: DeviceArray, run: Range) -> None:
        lib = device.lib
        with device.active():
            length = min(BLOCK, run.size) if device.kind == "host" else run.size
            squares, turns = _squares(lib, length, todo.n, todo.sign), _turns(lib, length, part / whole)
            for row, place, start in todo.blocks(device, run):
                size = place.stop - place.start
                into = out[call.at(row, place)]
                into[...] = 0
                for q in range(times):
                    first = q * todo.width + start
                    if first >= todo.taken:
                        break
                    factors = _chirp(lib, first, squares[:size], todo.n, todo.sign) * _phase(part, q, todo.parts)
                    factors[max(todo.taken - first, 0) :] = 0
                    if half:  # each element stands for itself and its mirror image, where that is another
                        factors *= 2
                        for single in {0, todo.n - todo.n // 2} if todo.n % 2 == 0 else {0}:
                            factors[max(single - first, 0) : max(single - first + 1, 0)] /= 2
                    factors *= turns[:size] * _phase(part, start, whole)
                    into += array[call.at(q * todo.rows + row, place)] * factors.astype(dtype).reshape(
                        -1, *(1,) * after
                    )

    chunks, tasks = [], []
    with call.context.reporting():
        for (device_id, region), array in zip(layout.chunks, found.arrays, strict=True):
            device = call.context.by_id[device_id]
            chunk = None if array is None else device.empty(region.shape, dtype, call.name)
            chunks.append(chunk)
            if chunk is not None and region.size:
                tasks.append((device_id, partial(fill, device, array, chunk.array, region[call.axis + 1])))
    run_by_device(call.context, tasks, math.prod(shape) * dtype.itemsize)
    return Held.of(layout, chunks, dtype)


def _kernel(todo: _Convolution, part: int, dtype: np.dtype[Any]) -> Held:
    """What 1 / w leaves in a part of the ring, turned likewise; its elements before 0 stand at the end of the whole."""
    call = todo.call
    layout = call.cut((todo.rows, todo.columns), 1)
    whole = todo.parts * todo.width

    def fill(device: Device, out: DeviceArray, run: Range) -> None:
        lib = device.lib
        with device.active():
            length = min(BLOCK, run.size) if device.kind == "host" else run.size
            squares, turns = _squares(lib, length, todo.n, -todo.sign), _turns(lib, length, part / whole)
            for row, place, start in todo.blocks(device, run):
                size = place.stop - place.start
                total = lib.zeros(size, np.complex128)
                for q in range(todo.parts):
                    first, phase = q * todo.width + start, _phase(part, q, todo.parts)
                    ahead = min(max(todo.length - first, 0), size)  # so many stand at their place
                    behind = min(max(whole - todo.taken + 1 - first, ahead), size)  # from there on at the end
                    if ahead:
                        total[:ahead] += phase * _chirp(lib, first, squares[:size], todo.n, -todo.sign)[:ahead]
                    if behind < size:
                        total[behind:] += (
                            phase * _chirp(lib, first - whole, squares[:size], todo.n, -todo.sign)[behind:]
                        )
                out[row, place] = (total * turns[:size] * _phase(part, start, whole)).astype(dtype)

    chunks, tasks = [], []
    with call.context.reporting():
        for device_id, region in layout.chunks:
            device = call.context.by_id[device_id]
            mine = device.process == call.context.process
            chunk = device.empty(region.shape, dtype, call.name) if mine else None
            chunks.append(chunk)
            if chunk is not None and region.size:
                tasks.append((device_id, partial(fill, device, chunk.array, region[1])))
    run_by_device(call.context, tasks, whole * dtype.itemsize)
    return Held.of(layout, chunks, dtype)


def _multiply(call: SplitCall, spectrum: Held, kernel: Held) -> None:
    """Multiply, in place, along the axis by an array of one axis."""
    found = spectrum.operand
    after = len(found.shape) - call.axis - 1

    def multiply(device: Device, left: DeviceArray, right: DeviceArray) -> None:
        with device.active():
            left *= right.reshape(-1, *(1,) * after)

    pairs = zip(found.layout.chunks, found.arrays, kernel.operand.arrays, strict=True)
    tasks = [
        (device_id, partial(multiply, call.context.by_id[device_id], left, right))
        for (device_id, _), left, right in pairs
        if left is not None and left.size
    ]
    run_by_device(call.context, tasks, math.prod(found.shape) * found.dtype.itemsize)


def _add(todo: _Convolution, result: Held, found: Held, part: int, scale: float) -> None:
    """Add a part's share of the sums: turned back, and times w."""
    call, whole = todo.call, todo.parts * todo.width
    after = len(found.operand.shape) - call.axis - 2
    real = result.operand.dtype.kind != "c"
    times = result.operand.shape[call.axis] // todo.rows

    def add(device: Device, array: DeviceArray, out: DeviceArray, run: Range) -> None:
        lib = device.lib
        with device.active():
            length = min(BLOCK, run.size) if device.kind == "host" else run.size
            squares, turns = _squares(lib, length, todo.n, todo.sign), _turns(lib, length, -part / whole)
            for row, place, start in todo.blocks(device, run):
                size = place.stop - place.start
                for q in range(times):
                    first = q * todo.width + start
                    if first >= todo.length:
                        break
                    phase = scale * _phase(part, -q, todo.parts) * _phase(part, -start, whole)
                    factors = _chirp(lib, first, squares[:size], todo.n, todo.sign) * (turns[:size] * phase)
                    share = array[call.at(row, place)] * factors.astype(array.dtype).reshape(-1, *(1,) * after)
                    out[call.at(q * todo.rows + row, place)] += share.real if real else share

    tasks = []
    for (device_id, region), array, out in zip(
        found.operand.layout.chunks, found.operand.arrays, result.operand.arrays, strict=True
    ):
        if array is not None and region.size:
            tasks.append((device_id, partial(add, call.context.by_id[device_id], array, out, region[call.axis + 1])))
    run_by_device(call.context, tasks, math.prod(result.operand.shape) * result.operand.dtype.itemsize)
