"""Variances along lines that are cut over GPUs: one pass over what each holds, three numbers a line from each, one kernel.

Each part of a line is taken from its own first element: the sum of the distances and that of their squares, in double
precision, lose nothing to cancellation, and nothing has to be known of the whole line beforehand. The parts' means and sums of
squares are then joined, in the order of the devices, after Chan, Golub & LeVeque, "Algorithms for computing the sample variance"
(The American Statistician 37, 1983).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from distarray.algorithms.fold_plans import Reduction, Spread, fold_sources, whole_lines
from distarray.array.functions import NOTHING
from distarray.array.state import DistributedArray, from_chunks
from distarray.context import Context
from distarray.devices import arrays_of
from distarray.devices.arrays import DeviceArray
from distarray.devices.base import Device
from distarray.devices.kernels import Kernel, Kernels
from distarray.fusion.expr import ASTYPE, Conversion
from distarray.fusion.kernels.element import element_of
from distarray.fusion.kernels.elementwise import launch
from distarray.fusion.kernels.pending import WHOLE, PendingProgram
from distarray.fusion.kernels.reductions import sum_squares
from distarray.fusion.program import Instruction, Program
from distarray.geometry import IndexMap, Range, Region
from distarray.layout import Layout
from distarray.storage import Operand
from distarray.transfer.execute import allocate, redistribute
from distarray.transfer.ledger import watching

__all__ = ["joined_source", "split_spread"]

MOST = 16
"""Parts of a line that one kernel joins."""

_WIDE = np.dtype(np.float64)
_THREADS = 256
_KERNELS = Kernels(64)


def _step(ufunc: np.ufunc | Conversion, *args: tuple[str, int]) -> Instruction:
    kwargs = {"dtype": _WIDE} if ufunc is ASTYPE else {}
    return Instruction(ufunc, args, kwargs, _WIDE, {}, ("", 0, {}), False, False)


_APART = Program(
    (_step(ASTYPE, ("leaf", 0)), _step(ASTYPE, ("leaf", 1)), _step(np.subtract, ("step", 0), ("step", 1))),
    ("step", 2), _WIDE, (), "subtract",
)  # fmt: skip


class _Shares(NamedTuple):
    """Who contributes what.

    Attributes
    ----------
    parts : tuple of (device, ((chunk, key or None), ...))
        What each device holds of the lines.
    counts : tuple of int
        Elements along the axes, of each part.
    rows, all_rows, result : Layout
        Of the parts' numbers where they are computed, where they are joined, and of the result.
    """

    parts: tuple[tuple[int, tuple[tuple[int, Any], ...]], ...]
    counts: tuple[int, ...]
    rows: Layout
    all_rows: Layout
    result: Layout


def split_spread(
    context: Context, a: DistributedArray, axes: tuple[int, ...], keepdims: bool, made: Spread
) -> DistributedArray | None:
    """The variance or deviation of a single-precision array along axes that are cut, or None where they are not, or where the
    parts do not all lie in the same lines.

    Communication: three numbers in double precision for each result, from each part to each device.
    """
    with context.lock:
        context.check()
        found = a._operand("reduce")
        course = _planned(context, found.layout, axes, keepdims)
        if course is None:
            return None
        with context.reporting():
            rows = allocate(context, course.rows, _WIDE, label="reduce")
            for chunk, (device_id, sources) in zip(rows, course.parts, strict=True):
                if chunk is not None:
                    _summed(context.by_id[device_id], found, sources, chunk.array, axes)
        places = _on_one_gpu(context, course, rows)
        everywhere: list[Any] = []
        if places is None:
            source = Operand(course.rows, arrays_of(rows), _WIDE)
            everywhere = redistribute(context, source, course.all_rows, operation="reduce")
        with context.reporting():
            results = allocate(context, course.result, made.dtype, label="reduce")
            for i, result in enumerate(results):
                if result is not None:
                    given = _places([everywhere[i].array]) if places is None else places
                    _join(result.device, given, result.array, course.counts, made)
        return from_chunks(context, course.result, results, made.dtype)


def _places(arrays: Sequence[Any]) -> list[int]:
    """Where the numbers of each part lie, in arrays of one part or several."""
    return [array.data.ptr + k * array.strides[0] for array in arrays for k in range(len(array))]


def _on_one_gpu(context: Context, course: _Shares, rows: Sequence[Any]) -> list[int] | None:
    """Where the numbers of each part lie, if all lie on the GPU where they are joined, and nobody counts what moves."""
    if context.communicator is not None or watching.get() is not None:
        return None
    if not all(rows[0].device.shares_memory(chunk.device) for chunk in rows):
        return None
    return _places([chunk.array for chunk in rows])


def _planned(context: Context, layout: Layout, axes: tuple[int, ...], keepdims: bool) -> _Shares | None:
    key = ("spread", axes, keepdims, layout)
    found = context.layouts.remembered(key)
    if found is None:
        found = context.layouts.remember(key, (_plan(context, layout, axes, keepdims),))
    return found[0]  # type: ignore[no-any-return]


def _plan(context: Context, layout: Layout, axes: tuple[int, ...], keepdims: bool) -> _Shares | None:
    call = Reduction(np.add, axes, keepdims, _WIDE, None, NOTHING)
    if whole_lines(call, layout) is not None:
        return None
    shape = call.shape(layout.shape)
    whole = Region.full(shape)
    by_device: dict[int, list[tuple[int, Any]]] = {}
    counts: dict[int, list[int]] = {}
    for (device_id, part), pieces in fold_sources(call, layout).items():
        if part != whole:
            return None
        for piece in pieces:
            held = layout.chunks[piece.chunk][1]
            key = None if held == piece.region else held.locate(piece.region).slices
            by_device.setdefault(device_id, []).append((piece.chunk, key))
            counts.setdefault(device_id, []).append(prod([piece.region[axis].size for axis in axes]))
    total = sum([len(own) for own in by_device.values()])
    if total > MOST:
        return None
    devices = sorted(by_device)
    rest = Region([Range.full(3), *whole])
    rows: dict[int, list[Region]] = {device: [] for device in layout.devices}
    begin = 0
    for device in devices:
        own = len(by_device[device])
        rows[device] = [Region([Range.of(begin, 1, own), *rest])]
        begin += own
    every = Region([Range.full(total), *rest])

    def placed(over: tuple[int, ...], region: Region) -> Layout:
        return context.layout(IndexMap(over, {d: [region] if d in by_device else [] for d in layout.devices}))

    return _Shares(
        tuple([(device, tuple(by_device[device])) for device in devices]),
        tuple([n for device in devices for n in counts[device]]),
        context.layout(IndexMap((total, 3, *shape), rows)),
        placed((total, 3, *shape), every),
        placed(shape, whole),
    )


def _summed(device: Device, found: Operand, sources: Sequence[Any], out: DeviceArray, axes: tuple[int, ...]) -> None:
    """For each part: its first elements, and the sums of the distances from them and of their squares."""
    lib = device.lib
    with device.active():
        for row, (chunk, key) in zip(out, sources, strict=True):
            array = found.arrays[chunk] if key is None else found.arrays[chunk][key]
            first = array[tuple([slice(0, 1) if axis in axes else slice(None) for axis in range(array.ndim)])]
            sum_squares(lib, PendingProgram(lib, _APART, (array, first), array.shape, _WIDE), row[1:], axes)
            bound = element_of(lib, WHOLE, (array.dtype,), _WIDE)
            assert bound is not None
            launch(lib, bound, (first,), row[0].reshape(first.shape))


def joined_source(parts: int, root: bool) -> tuple[str, str]:
    """The kernel that joins the numbers of so many parts, and the members of its argument."""
    lines = [f"double mean = 0, all = 0, n = 0; const double counts[{parts}] = {{"]
    lines.append(", ".join([f"a.n{k}" for k in range(parts)]) + "};")
    lines.append(f"const double* const places[{parts}] = {{{', '.join([f'a.p{k}' for k in range(parts)])}}};")
    return (
        f"""
struct Args {{
    const double {", ".join([f"*p{k}" for k in range(parts)])};
    float* out; long long count; double divisor, {", ".join([f"n{k}" for k in range(parts)])};
}};
extern "C" __global__ void __launch_bounds__({_THREADS}) kernel(const __grid_constant__ Args a) {{
    const long long j = blockIdx.x * {_THREADS}ll + threadIdx.x;
    if (j >= a.count) return;
    {" ".join(lines)}
    #pragma unroll
    for (int k = 0; k < {parts}; ++k) {{
        const double* p = places[k] + j;
        const double m = counts[k], s = p[a.count], q = p[2 * a.count];
        const double own = p[0] + s / m, squares = q - s * (s / m), apart = own - mean, both = n + m;
        all = (k ? all + apart * apart * (n * m / both) : 0.0) + (squares < 0 ? 0.0 : squares);
        mean = k ? mean + apart * (m / both) : own;
        n = both;
    }}
    const float variance = float(all / a.divisor);
    a.out[j] = {"float(sqrt((double)variance))" if root else "variance"};
}}
""",
        "P" * parts + "Pqd" + "d" * parts,
    )


def _join(device: Device, places: list[int], out: DeviceArray, counts: tuple[int, ...], made: Spread) -> None:
    root = made.name == "deviation"
    with device.active():
        kernel = _KERNELS.get((len(counts), root), lambda: Kernel(device.lib, *joined_source(len(counts), root)))
        blocks = -(-out.size // _THREADS)
        kernel(blocks, _THREADS, *places, out.data.ptr, out.size, made.divisor, *map(float, counts))
