"""Reductions that read their operands once: of an array, or of an expression that is never stored.

The array is seen as (outer, reduced, inner). Where neighbours along the reduced axis are neighbours in memory, threads of a
block walk a row together; else each walks down columns. Where there are too few rows or columns for the GPU, each is
cut in parts, whose running values a second kernel joins in order. What a thread takes depends on shapes and dtypes
alone, not on addresses, so that equal arrays give equal bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from distarray.devices.arrays import AnyDType, DeviceArray, Library
from distarray.devices.kernels import Kernel, Kernels, steps_of
from distarray.fusion.kernels.element import Bound, Element, element_of, headers_of
from distarray.fusion.kernels.folds import FOLDS, MOMENTS, Fold, fold_of
from distarray.fusion.kernels.formulas import TYPES
from distarray.fusion.kernels.pending import WHOLE, PendingProgram, as_array

__all__ = [
    "SHUFFLE", "arranged", "final_source", "reduce", "rows_form", "source_of", "spread", "sum_squares", "threads_of",
]  # fmt: skip

_THREADS = 256
_WIDEST = 512
"""Threads that share a long row: where a kernel keeps a row, it has twice the warps to wait for memory with."""

_BLOCKS = 132 * 8
"""Blocks that keep a large GPU busy."""

_KERNELS = Kernels()
_READY = Kernels(4096)
"""By how operands lie: kernels, and what they are passed."""


class FoldForm(NamedTuple):
    """What a kernel is generated for.

    Attributes
    ----------
    columns : bool
        Threads walk down columns; else along rows.
    kinds : str
        For each operand, along the axis that neighbouring threads share: ``v`` in vectors, ``e`` element by element one
        behind the other, ``s`` one element for all, ``x`` with a stride.
    lanes : int
        Elements that a thread takes at a time.
    width : int
        Threads that share a row, or neighbouring columns.
    parts : bool
        Whether rows or columns are cut in parts: the kernel then leaves running values.
    inner : bool
        Whether rows lie along two axes.
    """

    columns: bool
    kinds: str
    lanes: int
    width: int
    parts: bool
    inner: bool


def _members(element: Element) -> tuple[list[str], str]:
    members = [f"const {TYPES[t]}* p{i};" for i, t in enumerate(element.leaves)]
    members.append("void* out; long long outer, m, inner, part, parts, tiles; double n, divisor;")
    fields = "P" * (len(element.leaves) + 1) + "qqqqqqdd"
    for i in range(len(element.leaves)):
        members.append(f"long long o{i}, r{i}, i{i};")
        fields += "qqq"
    more, kinds = element.scalar_members()
    return [*members, *more], fields + kinds


def _load(element: Element, form: FoldForm, at: str, base: str, stride: str) -> tuple[list[str], list[str]]:
    """Lines that load the `lanes` elements from position `at` on of each operand, and the names of lane ``k``."""
    lines, names = [], []
    lanes = form.lanes
    for i, (t, kind) in enumerate(zip([TYPES[t] for t in element.leaves], form.kinds, strict=True)):
        if kind == "s":
            lines.append(f"const {t} v{i} = {base}{i}[0];")
            names.append(f"v{i}")
        elif kind == "v":
            lines.append(f"const Pack<{t}, {lanes}> v{i} = *(const Pack<{t}, {lanes}>*)({base}{i} + {at});")
            names.append(f"v{i}.v[k]")
        else:
            where = f"{at} + k" if kind == "e" else f"({at} + k) * a.{stride}{i}"
            lines.append(
                f'{t} v{i}[{lanes}]; _Pragma("unroll") for (int k = 0; k < {lanes}; ++k) v{i}[k] = {base}{i}[{where}];'
            )
            names.append(f"v{i}[k]")
    names += element.scalar_names()
    return lines, names


def _single(element: Element, form: FoldForm, at: str, base: str, stride: str) -> str:
    """The arguments of one element at position `at`."""
    names = []
    for i, kind in enumerate(form.kinds):
        where = {"s": "0", "x": f"({at}) * a.{stride}{i}"}.get(kind, at)
        names.append(f"{base}{i}[{where}]")
    return ", ".join(names + element.scalar_names())


def source_of(element: Element, fold: Fold, form: FoldForm) -> tuple[str, str]:
    """A kernel's source, and the members of its argument."""
    members, fields = _members(element)
    lines = [fold.source, f"struct Args {{ {' '.join(members)} }};"]
    threads = threads_of(form.width)
    lines.append(f'extern "C" __global__ void __launch_bounds__({threads}) kernel(const __grid_constant__ Args a) {{')
    lines += (_columns if form.columns else _rows)(element, form)
    lines.append("}")
    return element.source + SHUFFLE + "\n".join(lines) + "\n", fields


SHUFFLE = """
template <typename T> __device__ __forceinline__ T shuffled(const T& value, int distance, int width) {
    union Words { T whole; int parts[(sizeof(T) + 3) / 4]; __device__ Words() {} } from, to;
    from.whole = value;
    #pragma unroll
    for (int k = 0; k < int((sizeof(T) + 3) / 4); ++k)
        to.parts[k] = __shfl_down_sync(0xffffffffu, from.parts[k], distance, width);
    return to.whole;
}
"""

_UNROLLED = 4


def _unrolled(count: int, name: str) -> str:
    """The head of a loop that the compiler unrolls."""
    return f'_Pragma("unroll") for (int {name} = 0; {name} < {count}; ++{name})'


def _rows(element: Element, form: FoldForm) -> list[str]:
    """Threads walk along rows: `width` of them share one."""
    return [*_row_of_thread(element, form), *_along_row(element, form), *_row_joined(form)]


def _row_of_thread(element: Element, form: FoldForm) -> list[str]:
    """Lines that find the row of a thread, and which of its elements are to be folded."""
    lines = ["const long long rows = a.outer * a.inner;"]
    lines.append(f"const int lane = threadIdx.x % {form.width};")
    if form.parts:
        lines.append("const long long part = blockIdx.x % a.parts, row = blockIdx.x / a.parts;")
        lines.append("const long long first = part * a.part, last = min(first + a.part, a.m);")
    else:
        across = threads_of(form.width) // form.width
        lines.append(f"const long long row = blockIdx.x * {across}ll + threadIdx.x / {form.width};")
        lines.append("const long long first = 0, last = row < rows ? a.m : 0;")
    types = [TYPES[t] for t in element.leaves]
    if form.inner:
        lines.append("const long long up = row / a.inner, here = row - up * a.inner;")
        lines += [f"const {t}* q{i} = a.p{i} + up * a.o{i} + here * a.i{i};" for i, t in enumerate(types)]
    else:
        lines += [f"const {t}* q{i} = a.p{i} + row * a.o{i};" for i, t in enumerate(types)]
    return lines


def _along_row(element: Element, form: FoldForm) -> list[str]:
    """Lines by which a thread folds its elements of a row into ``total``: several packs at a time, then one, then what is left."""
    lanes, step = form.lanes, form.width * form.lanes
    each_lane, each_pack = _unrolled(lanes, "k"), _unrolled(_UNROLLED, "u")
    load, names = _load(element, form, "at", "q", "r")
    value = f"element({', '.join(names)})"
    single = f"element({_single(element, form, 'j', 'q', 'r')})"
    return [
        f"A acc[{lanes}]; {each_lane} acc[k] = none();",
        f"long long j = first + lane * {lanes};",
        f"for (; j + {(_UNROLLED - 1) * step + lanes} <= last; j += {_UNROLLED * step}) {{",
        f"E x[{_UNROLLED}][{lanes}];",
        f"{each_pack} {{ const long long at = j + u * {step};",
        *load,
        f"{each_lane} x[u][k] = {value}; }}",
        f"{each_pack} {each_lane}",
        f"acc[k] = join(acc[k], lift(x[u][k], j + u * {step} + k));",
        "}",
        f"for (; j + {lanes} <= last; j += {step}) {{ const long long at = j;",
        *load,
        f"{each_lane} acc[k] = join(acc[k], lift({value}, j + k)); }}",
        f"for (; j < last; ++j) acc[0] = join(acc[0], lift({single}, j));",
        f'A total = acc[0]; _Pragma("unroll") for (int k = 1; k < {lanes}; ++k) total = join(total, acc[k]);',
    ]


def _row_joined(form: FoldForm) -> list[str]:
    """Lines that join the totals of the threads that share a row, and store the row's."""
    width = form.width
    close = min(width, 32)
    lines = [
        f'_Pragma("unroll") for (int d = {close // 2}; d > 0; d /= 2) total = join(total, shuffled(total, d, {close}));'
    ]
    if width > 32:
        warps, groups = width // 32, threads_of(width) // 32
        lines.append(f"__shared__ __align__(16) unsigned char room[{groups} * sizeof(A)]; A* held = (A*)room;")
        lines.append("if (threadIdx.x % 32 == 0) held[threadIdx.x / 32] = total;")
        lines.append("__syncthreads();")
        lines.append(
            f"if (lane == 0) for (int k = 1; k < {warps}; ++k) total = join(total, held[threadIdx.x / 32 + k]);"
        )
    lines.append("if (lane == 0 && row < rows)")
    if form.parts:
        lines.append("((A*)a.out)[row * a.parts + part] = total;")
    else:
        lines.append("store(a.out, row, rows, total, a.n, a.divisor);")
    return lines


def _columns(element: Element, form: FoldForm) -> list[str]:
    """Threads walk down columns, `lanes` neighbouring ones each; ``256 / width`` threads share a column."""
    lanes, width = form.lanes, form.width
    return [
        "const long long tile = blockIdx.x % a.tiles, slab = blockIdx.x / a.tiles;",
        "const long long part = slab % a.parts, up = slab / a.parts;",
        f"const long long j = (tile * {width} + threadIdx.x % {width}) * {lanes};",
        "const long long first = part * a.part, last = min(first + a.part, a.m);",
        f"const int deep = threadIdx.x / {width};",
        f"A acc[{lanes}]; {_unrolled(lanes, 'k')} acc[k] = none();",
        *_down_columns(element, form),
        *_columns_joined(form),
    ]


def _down_columns(element: Element, form: FoldForm) -> list[str]:
    """Lines by which a thread folds its rows of `lanes` columns: several rows at a time, then one; at the edge, where there are
    fewer columns, each by itself."""
    lanes, down = form.lanes, _THREADS // form.width
    each_lane, each_row = _unrolled(lanes, "k"), _unrolled(_UNROLLED, "u")
    types = [TYPES[t] for t in element.leaves]
    load, names = _load(element, form, "j", "q", "i")
    value = f"element({', '.join(names)})"
    single = f"element({_single(element, form, 'j + k', 'q', 'i')})"
    several = [f"const {t}* q{i} = b{i} + (r + u * {down}) * a.r{i};" for i, t in enumerate(types)]
    one = [f"const {t}* q{i} = b{i} + r * a.r{i};" for i, t in enumerate(types)]
    return [
        *[f"const {t}* b{i} = a.p{i} + up * a.o{i};" for i, t in enumerate(types)],
        f"if (j + {lanes} <= a.inner) {{",
        "long long r = first + deep;",
        f"for (; r + {(_UNROLLED - 1) * down} < last; r += {_UNROLLED * down}) {{",
        f"E x[{_UNROLLED}][{lanes}];",
        f"{each_row} {{",
        *several,
        *load,
        f"{each_lane} x[u][k] = {value}; }}",
        f"{each_row} {each_lane}",
        f"acc[k] = join(acc[k], lift(x[u][k], r + u * {down}));",
        "}",
        f"for (; r < last; r += {down}) {{",
        *one,
        *load,
        f"{each_lane} acc[k] = join(acc[k], lift({value}, r));",
        "} } else {",
        f"{each_lane} if (j + k < a.inner)",
        f"for (long long r = first + deep; r < last; r += {down}) {{",
        *one,
        f"acc[k] = join(acc[k], lift({single}, r));",
        "} }",
    ]


def _columns_joined(form: FoldForm) -> list[str]:
    """Lines that join the totals of the threads that share columns, and store each column's."""
    lanes, width = form.lanes, form.width
    down = _THREADS // width
    each_lane, own = _unrolled(lanes, "k"), f"held[k * {_THREADS} + threadIdx.x]"
    lines = []
    if down > 1:
        lines.append(
            f"__shared__ __align__(16) unsigned char room[{_THREADS * lanes} * sizeof(A)]; A* held = (A*)room;"
        )
        lines.append(f"{each_lane} {own} = acc[k];")
        lines.append(f"for (int d = {down // 2}; d > 0; d /= 2) {{ __syncthreads(); if (deep < d)")
        lines.append(f"{each_lane} {own} =")
        lines.append(f"join({own}, held[k * {_THREADS} + threadIdx.x + d * {width}]); }}")
        lines.append("if (deep) return;")
        lines.append(f"{each_lane} acc[k] = {own};")
    if form.parts:
        value = "((A*)a.out)[(up * a.parts + part) * a.inner + j + k] = acc[k];"
    else:
        value = "store(a.out, up * a.inner + j + k, a.outer * a.inner, acc[k], a.n, a.divisor);"
    lines.append(f"{each_lane} if (j + k < a.inner) {value}")
    return lines


def final_source(fold: Fold) -> tuple[str, str]:
    """The kernel that joins running values: (outer, parts, inner) → (outer, inner), in order."""
    source = f"""{headers_of({fold.element, fold.result})}{SHUFFLE}{fold.source}
struct Args {{ const void* p; void* out; long long outer, parts, inner; double n, divisor; }};
extern "C" __global__ void __launch_bounds__({_THREADS}) kernel(const __grid_constant__ Args a) {{
    const int across = a.inner >= 32 ? 1 : 32;  // threads that share a result
    const long long place = (blockIdx.x * {_THREADS}ll + threadIdx.x) / across;
    const int lane = threadIdx.x % across;
    const bool mine = place < a.outer * a.inner;
    A total = none();
    if (mine) {{
        const long long up = place / a.inner, j = place - up * a.inner;
        const A* held = (const A*)a.p + up * a.parts * a.inner + j;
        #pragma unroll 8
        for (long long k = lane; k < a.parts; k += across) total = join(total, held[k * a.inner]);
    }}
    if (across > 1) for (int d = 16; d > 0; d /= 2) total = join(total, shuffled(total, d, 32));
    if (mine && lane == 0) store(a.out, place, a.outer * a.inner, total, a.n, a.divisor);
}}
"""
    return source, "PPqqqdd"


# --- calls ------------------------------------------------------------------------------------------------------------


class _Shape(NamedTuple):
    """An operand's axes as (outer, reduced, inner), with each array's strides along them."""

    outer: int
    m: int
    inner: int
    steps: list[tuple[int, int, int]]


def arranged(shape: tuple[int, ...], strides: list[tuple[int, ...]], axes: tuple[int, ...]) -> _Shape | None:
    """The axes joined, or None where they can't be."""
    groups: list[tuple[bool, int, list[int]]] = []
    for axis, n in enumerate(shape):
        if n == 1:
            continue
        inside, own = axis in axes, [s[axis] for s in strides]
        if groups and groups[-1][0] == inside:
            size, before = groups[-1][1], groups[-1][2]
            if any(b != n * mine for b, mine in zip(before, own, strict=True)):
                return None
            groups[-1] = (inside, size * n, own)
        else:
            groups.append((inside, n, own))
    pattern = "".join(["r" if g[0] else "k" for g in groups])
    if pattern not in ("", "r", "k", "kr", "rk", "krk"):
        return None
    none = (1, [0] * len(strides))
    places = {"": "", "r": "m", "k": "o", "kr": "om", "rk": "mi", "krk": "omi"}[pattern]
    found = dict(zip(places, [g[1:] for g in groups], strict=True))
    (outer, so), (m, sm), (inner, si) = found.get("o", none), found.get("m", none), found.get("i", none)
    return _Shape(outer, m, inner, list(zip(so, sm, si, strict=True)))


def rows_form(itemsize: int, rows: int, m: int, widest: int = _WIDEST) -> tuple[int, int, int]:
    """How rows of `m` elements are folded, of which the widest operand's have `itemsize` bytes: the elements that a thread takes
    at a time, the threads that share a row, at most `widest`, and the parts that a row is cut in."""
    lanes = _lanes(itemsize)
    width, parts = 1, 1
    while width < _THREADS and width * lanes * 2 < m:
        width *= 2
    if m >= widest * lanes * _UNROLLED:
        width = widest
    if width >= _THREADS:
        parts = max(1, min(-(-_BLOCKS * _THREADS // (width * rows)), -(-m // (width * lanes * _UNROLLED))))
    return lanes, width, parts


def threads_of(width: int) -> int:
    """Threads of a block in which so many share a row, or neighbouring columns."""
    return max(_THREADS, width)


LEAST = 1 << 10
"""Elements below which the library's own reductions serve: there a call costs more than the work. A bound of the shape
alone, since the order of additions differs."""


def reduce(
    lib: Library,
    name: str,
    array: DeviceArray | PendingProgram,
    out: DeviceArray,
    axes: tuple[int, ...],
    given: tuple[float, float] = (1.0, 1.0),
) -> bool:
    """``out = ufunc.reduce(array, axes)`` of an array or a pending expression, on the current device.

    Parameters
    ----------
    name : str
        Of the ufunc, or ``argmax``, ``argmin``, ``moments``, ``variance``, ``deviation``.
    array : cupy.ndarray or PendingProgram
    out : cupy.ndarray
        In C order; the reduced axes may be kept or dropped.
    given : tuple of float
        For ``variance`` and ``deviation``: the number of elements, and what the sum of squares is divided by.

    Returns
    -------
    bool
        False, and nothing is done, where these kernels do not serve.
    """
    if name not in FOLDS or array.size < LEAST:
        return False
    if isinstance(array, PendingProgram):
        program, operands = array.program, array.operands
    else:
        program, operands = WHOLE, (array,)
    bound = element_of(lib, program, tuple([a.dtype for a in operands]), _folded_in(name, array.dtype, out.dtype))
    return bound is not None and _fold(lib, name, bound, operands, array.shape, out, axes, given)


def _folded_in(name: str, dtype: AnyDType, result: object) -> Any:
    """The dtype in which elements of `dtype` are folded to a result."""
    if name in ("add", "multiply"):
        return result
    if name in ("logical_or", "logical_and"):
        return np.dtype(bool)
    return np.dtype(np.float64) if name in MOMENTS else dtype


def launch_of(
    lib: Library, name: str, array: DeviceArray | PendingProgram, out: DeviceArray, axes: tuple[int, ...]
) -> Any:
    """The kernel that `reduce` launches for an array by itself, its blocks and threads, and what it is passed behind the
    addresses of the array and of `out`; with the bytes that lie between it and the next one, and the same of that, where it takes
    two. None where it launches none."""
    if name not in FOLDS or array.size < LEAST or not axes or not out.flags.c_contiguous:
        return None
    bound = element_of(lib, WHOLE, (array.dtype,), _folded_in(name, array.dtype, out.dtype))
    ready = bound and _prepared(lib, name, bound.element, (array,), array.shape, out.dtype, axes)
    if not ready:
        return None
    first = ready.kernel, ready.blocks, ready.threads, (*ready.values, 1.0, 1.0, *ready.steps)
    last = None
    if ready.last is not None:
        last = ready.last, ready.last_blocks, _THREADS, (*ready.last_values, 1.0, 1.0)
    return first, ready.room, last


def spread(
    lib: Library,
    name: str,
    array: DeviceArray | PendingProgram,
    out: DeviceArray,
    axes: tuple[int, ...],
    given: tuple[float, float],
) -> None:
    """The variance or deviation along axes of double-precision numbers near zero; `given` as for `reduce`."""
    if reduce(lib, name, array, out, axes, given):
        return
    values = as_array(array)
    total = lib.sum(values, axis=axes)
    found = lib.maximum(lib.sum(values * values, axis=axes) - total * (total / given[0]), 0.0) / given[1]
    out[...] = (lib.sqrt(found.astype(out.dtype)) if name == "deviation" else found).reshape(out.shape)


def sum_squares(lib: Library, array: DeviceArray | PendingProgram, out: DeviceArray, axes: tuple[int, ...]) -> None:
    """Sums of double-precision numbers, and of their squares, into ``out[0]`` and ``out[1]``."""
    if reduce(lib, "moments", array, out, axes):
        return
    values = as_array(array)
    out[0] = lib.sum(values, axis=axes).reshape(out.shape[1:])
    out[1] = lib.sum(values * values, axis=axes).reshape(out.shape[1:])


class _Ready(NamedTuple):
    """A reduction of arrays that lie in one way: its kernels, and what they are passed besides addresses and scalars."""

    kernel: Kernel
    blocks: int
    threads: int
    values: list[int]
    steps: list[int]
    room: int  # bytes of running values; 0 where one kernel is enough
    last: Kernel | None
    last_blocks: int
    last_values: tuple[int, int, int]


def _fold(
    lib: Any, name: str, bound: Bound, operands: Any, shape: tuple[int, ...], out: Any, axes: Any, given: Any
) -> bool:
    """Reduce an expression over `axes` into `out`, on the current device. False, and nothing done, where it can't be.

    The element's dtype must be that of the fold. `shape` is that of the expression, which is not empty.
    """
    if not out.flags.c_contiguous:
        return False
    pointers = [array.data.ptr for array in operands]
    lies = [(a.shape, a.strides, p % 16) for a, p in zip(operands, pointers, strict=True)]
    key = (bound.element.key, name, shape, out.dtype, axes, *lies)
    ready: _Ready | None = _READY.get(
        key, lambda: _prepared(lib, name, bound.element, operands, shape, out.dtype, axes)
    )
    if ready is None:
        return False
    if ready.last is None:
        ready.kernel(
            ready.blocks, ready.threads, *pointers, out.data.ptr, *ready.values, *given, *ready.steps, *bound.scalars
        )
        return True
    room = lib.empty(ready.room, np.uint8)
    ready.kernel(
        ready.blocks, ready.threads, *pointers, room.data.ptr, *ready.values, *given, *ready.steps, *bound.scalars
    )
    ready.last(ready.last_blocks, _THREADS, room.data.ptr, out.data.ptr, *ready.last_values, *given)
    return True


def _prepared(
    lib: Library,
    name: str,
    element: Element,
    operands: Sequence[Any],
    shape: tuple[int, ...],
    dtype: AnyDType,
    axes: tuple[int, ...],
) -> _Ready | None:
    """How to reduce operands that lie so to results of `dtype`; None where that can't be."""
    folded = fold_of(name, element.result, dtype)
    if folded is None or folded.element != element.result:
        return None
    strides = [steps_of(array, shape) for array in operands]
    if None in strides:
        return None
    found = arranged(shape, cast("list[tuple[int, ...]]", strides), axes)
    if found is None:
        return None
    outer, m, inner, steps = found
    columns = inner > 1 and any(s[2] == 1 for s in steps)
    if not columns and outer == 1:
        outer, inner, steps = inner, 1, [(i, r, 0) for _, r, i in steps]
    widest = (
        _THREADS if name.startswith("arg") else _WIDEST
    )  # whose running values are large: more threads only take room
    cut = _cut(max([a.dtype.itemsize for a in operands] + [1]), columns, outer, m, inner, widest)
    parts = cut.parts
    kinds = _kinds(operands, steps, columns)
    form = FoldForm(columns, kinds, cut.lanes, cut.width, parts > 1, inner > 1)
    kernel = _KERNELS.get(
        (element.key, folded.name, folded.result, form), lambda: Kernel(lib, *source_of(element, folded, form))
    )
    values, lies = [outer, m, inner, cut.part, parts, cut.tiles], [s for step in steps for s in step]
    if parts == 1:
        return _Ready(kernel, cut.blocks, threads_of(cut.width), values, lies, 0, None, 0, (0, 0, 0))
    last = _KERNELS.get(("final", folded), lambda: Kernel(lib, *final_source(folded)))
    across, rows = (inner, outer) if columns else (1, outer * inner)
    wide = 1 if across >= 32 else 32
    room, last_blocks = outer * inner * parts * folded.size, -(-rows * across * wide // _THREADS)
    return _Ready(
        kernel, cut.blocks, threads_of(cut.width), values, lies, room, last, last_blocks, (rows, parts, across)
    )


def _lanes(itemsize: int) -> int:
    """The elements that a thread takes at a time, of which the widest operand's have `itemsize` bytes."""
    return max(1, min(16 // itemsize, 4))


def _kinds(operands: Sequence[Any], steps: list[tuple[int, int, int]], columns: bool) -> str:
    """How each operand runs along the axis that neighbouring threads share, as `FoldForm` has it."""
    side = 2 if columns else 1
    lanes = _lanes(max([a.dtype.itemsize for a in operands] + [1]))
    kinds = ""
    for array, step in zip(operands, steps, strict=True):
        if step[side] == 0:
            kinds += "s"
        elif step[side] != 1:
            kinds += "x"
        else:
            others = [s for k, s in enumerate(step) if k != side]
            aligned = not array.data.ptr % (lanes * array.dtype.itemsize) and not any(s % lanes for s in others)
            kinds += "v" if aligned else "e"
    return kinds


class _Cut(NamedTuple):
    """Who folds what: `lanes` and `width` as in `FoldForm`; parts of `part` elements; tiles of columns; blocks of threads."""

    lanes: int
    width: int
    part: int
    parts: int
    tiles: int
    blocks: int


def _cut(itemsize: int, columns: bool, outer: int, m: int, inner: int, widest: int) -> _Cut:
    """How rows or columns are shared by threads, and cut in parts where there are too few of them."""
    if columns:
        lanes, width = _lanes(itemsize), 1
        while width < _THREADS and width * lanes < inner:
            width *= 2
        tiles = -(-inner // (width * lanes))
        shortest = (_THREADS // width) * _UNROLLED * 2
        parts = max(1, min(-(-_BLOCKS // (tiles * outer)), -(-m // shortest)))
        blocks = tiles * outer
    else:
        rows, tiles = outer * inner, 1
        lanes, width, parts = rows_form(itemsize, rows, m, widest)
        blocks = -(-rows // (threads_of(width) // width))
    part = -(-m // parts)
    part = -(-part // lanes) * lanes
    parts = -(-m // part) if m else 1
    return _Cut(lanes, width, part, parts, tiles, blocks * parts)
