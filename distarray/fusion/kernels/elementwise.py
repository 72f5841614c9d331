"""One kernel for an expression: every element of the operands is loaded once, and every result stored once.

Axes that lie one behind the other in all arrays count as one. Along the last axis a thread takes as many elements as make
16 bytes of the widest array, where alignment allows, else four of them that lie apart, so that a warp's loads stay
together; the other axes are decoded once a thread. A thread reads all that it needs before it writes, so that the target
may be one of the operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from distarray.devices.arrays import DeviceArray, Library
from distarray.devices.kernels import Kernel, Kernels, collapse, extent, steps_of
from distarray.fusion.kernels.element import Bound, Element
from distarray.fusion.kernels.formulas import TYPES
from distarray.fusion.kernels.quick import FUNCTIONS, quick_lines

__all__ = ["THREADS", "launch", "prepared", "source_of"]

THREADS = 256
_APART = 4
"""Elements a thread takes where it can't load vectors."""

DEAR = 4
"""Steps of many instructions from which a thread takes twice as many elements."""

_KERNELS = Kernels()
_READY = Kernels(4096)
"""By how arrays lie: the kernel, and what it is passed."""


class ElementForm(NamedTuple):
    """What a kernel is generated for, besides the function of an element.

    Attributes
    ----------
    kinds : str
        For each operand and each target, how it runs along the last axis: ``v`` one behind the other, ``s`` one element for
        all, ``x`` with a stride of its own.
    lead : int
        Axes before the last.
    lanes : int
        Elements a thread takes, one behind the other; 1 for elements that lie apart.
    across : int
        Threads of a block along the last axis, a power of two.
    wide : bool
        Whether indices need 64 bits.
    """

    kinds: str
    lead: int
    lanes: int
    across: int
    wide: bool


def source_of(element: Element, form: ElementForm) -> tuple[str, str]:
    """A kernel's source, and the members of its argument."""
    members, fields = _members(element, form)
    names = _names(element)
    types = [TYPES[t] for t in (*element.leaves, element.result, *element.stored)]
    count = len(element.leaves)
    lines = [f"struct Args {{ {' '.join(members)} }};", f"typedef {'long long' if form.wide else 'int'} Index;"]
    lines.append(f'extern "C" __global__ void __launch_bounds__({THREADS}) kernel(const __grid_constant__ Args a) {{')
    lines += [f"const {t}* q{a} = a.p{a};" for a, t in zip(names[:count], types, strict=False)]
    lines += [f"{t}* q{a} = a.p{a};" for a, t in zip(names[count:], types[count:], strict=True)]
    lines.append("const Index n = a.n;")
    lines += _located(form, names)
    lines += (_packed if form.lanes > 1 else _apart)(element, form, names, types)
    lines.append("}")
    quick = FUNCTIONS + element.quick if _is_quick(element) else ""
    return element.source + quick + "\n".join(lines) + "\n", fields


def _is_quick(element: Element) -> bool:
    """Whether so much is computed that quotients and roots without branches gain: else the memory's bandwidth is the limit."""
    return bool(element.quick) and element.dear >= DEAR


def _names(element: Element) -> list[str]:
    """Of the operands, the target, and the targets of the steps whose values are kept."""
    return [*[str(i) for i in range(len(element.leaves))], "o", *[f"w{i}" for i in range(len(element.stored))]]


def _members(element: Element, form: ElementForm) -> tuple[list[str], str]:
    """The members of a kernel's argument, in C and as the module ``struct`` writes them."""
    names, count = _names(element), len(element.leaves)
    types = [TYPES[t] for t in (*element.leaves, element.result, *element.stored)]
    members = [f"const {t}* p{a};" for a, t in zip(names[:count], types, strict=False)]
    members += [f"{t}* p{a};" for a, t in zip(names[count:], types[count:], strict=True)]
    fields = "P" * len(names)
    numbers = ["n", "rows", "across", *[f"size{k}" for k in range(1, form.lead)]]
    numbers += [f"t{a}_{k}" for a in names for k in range(form.lead)]
    numbers += [f"x{a}" for a, kind in zip(names, form.kinds, strict=True) if kind == "x"]
    members.append(f"long long {', '.join(numbers)};")
    fields += "q" * len(numbers)
    more, kinds = element.scalar_members()
    return [*members, *more], fields + kinds


def _located(form: ElementForm, names: list[str]) -> list[str]:
    """Lines that find a thread's row, and its place in it."""
    if not form.lead:
        return ["const Index tile = blockIdx.x, lane = threadIdx.x;"]
    across = form.across
    lines = ["const Index band = blockIdx.x / (Index)a.across, tile = blockIdx.x - band * (Index)a.across;"]
    lines.append(f"Index row = band * {THREADS // across} + threadIdx.x / {across};")
    lines.append("if (row >= (Index)a.rows) return;")
    for k in range(form.lead - 1, 0, -1):
        lines.append(f"{{ const Index up = row / (Index)a.size{k}, here = row - up * (Index)a.size{k};")
        lines += [f"q{a} += here * (Index)a.t{a}_{k};" for a in names]
        lines.append("row = up; }")
    lines += [f"q{a} += row * (Index)a.t{a}_0;" for a in names]
    return [*lines, f"const Index lane = threadIdx.x % {across};"]


def _place(array: str, kind: str, j: str) -> str:
    """An array's element at position `j` of a row."""
    return {"v": f"q{array}[{j}]", "s": f"q{array}[0]", "x": f"q{array}[({j}) * (Index)a.x{array}]"}[kind]


def _packed(element: Element, form: ElementForm, names: list[str], types: list[str]) -> list[str]:
    """Lines for a thread that takes `lanes` neighbours at a time."""
    kinds, lanes, count = form.kinds, form.lanes, len(element.leaves)
    each = f'_Pragma("unroll") for (int k = 0; k < {lanes}; ++k)'
    scalars = element.scalar_names()
    lines = [f"Index j = (tile * {form.across} + lane) * {lanes};", f"if (j + {lanes} <= n) {{"]
    inputs = []
    for a, t, kind in zip(names[:count], types, kinds, strict=False):
        if kind == "v":
            lines.append(f"const Pack<{t}, {lanes}> v{a} = *(const Pack<{t}, {lanes}>*)(q{a} + j);")
            inputs.append(f"v{a}.v[k]")
        elif kind == "s":
            lines.append(f"const {t} v{a} = q{a}[0];")
            inputs.append(f"v{a}")
        else:
            lines.append(f"{t} v{a}[{lanes}];")
            lines.append(f"{each} v{a}[k] = {_place(a, 'x', 'j + k')};")
            inputs.append(f"v{a}[k]")
    lines += [f"Pack<{t}, {lanes}> r{a};" for a, t in zip(names[count:], types[count:], strict=True)]
    kept = [f"r{a}.v[k]" for a in names[count + 1 :]]
    if _is_quick(element):
        lines += quick_lines(each, "ro", ", ".join(inputs + scalars))
    else:
        lines.append(f"{each} ro.v[k] = element({', '.join(inputs + scalars + kept)});")
    for a, t, kind in zip(names[count:], types[count:], kinds[count:], strict=True):
        if kind == "v":
            lines.append(f"*(Pack<{t}, {lanes}>*)(q{a} + j) = r{a};")
        else:
            lines.append(f"{each} {_place(a, 'x', 'j + k')} = r{a}.v[k];")
    places = [_place(a, kind, "j") for a, kind in zip(names, kinds, strict=True)]
    call = f"element({', '.join(places[:count] + scalars + places[count + 1 :])})"
    return [*lines, f"}} else for (; j < n; ++j) {places[count]} = {call};"]


def _apart(element: Element, form: ElementForm, names: list[str], types: list[str]) -> list[str]:
    """Lines for a thread that takes elements which lie apart, so that a warp's are neighbours."""
    count = len(element.leaves)
    scalars = element.scalar_names()
    each = f'_Pragma("unroll") for (int k = 0; k < {_APART}; ++k) {{ const Index j = first + k * {form.across};'
    places = [_place(a, kind, "j") for a, kind in zip(names, form.kinds, strict=True)]
    lines = [f"const Index first = tile * {form.across * _APART} + lane;"]
    lines += [f"{t} v{a}[{_APART}];" for a, t in zip(names, types, strict=True)]
    lines += [each, "if (j < n) {"]
    lines += [f"v{a}[k] = {place};" for a, place in zip(names[:count], places, strict=False)]
    lines.append("} }")
    inputs = [f"v{a}[k]" for a in names]
    call = f"element({', '.join(inputs[:count] + scalars + inputs[count + 1 :])})"
    lines += [each, f"if (j < n) {inputs[count]} = {call}; }}"]
    lines += [each, "if (j < n) {"]
    lines += [f"{place} = {value};" for place, value in zip(places[count:], inputs[count:], strict=True)]
    return [*lines, "} }"]


def launch(lib: Library, bound: Bound, operands: Sequence[Any], out: DeviceArray, stores: Sequence[Any] = ()) -> bool:
    """Compute `out`, and `stores` of its shape, from arrays that broadcast to it, on the current device; False, and nothing is
    done, where an array's strides are no multiples of its elements."""
    arrays = [*operands, out, *stores]
    pointers = [array.data.ptr for array in arrays]
    element = bound.element
    lies = [(a.shape, a.strides, p % 16) for a, p in zip(arrays, pointers, strict=True)]
    ready = _READY.get((element.key, *lies), lambda: prepared(lib, element, arrays))
    if ready is None:
        return False
    kernel, blocks, values = ready
    if blocks:
        kernel(blocks, THREADS, *pointers, *values, *bound.scalars)
    return True


def prepared(lib: Library, element: Element, arrays: list[Any]) -> tuple[Kernel, int, list[int]] | None:
    """The kernel for arrays that lie so, its blocks, and what it is passed besides addresses and scalars."""
    out = len(element.leaves)
    shape = arrays[out].shape
    strides = []
    for array in arrays:
        if (own := steps_of(array, shape)) is None:
            return None
        strides.append(own)
    sizes, steps = collapse(shape, strides)
    if not sizes:
        sizes, steps = [1], [[0] for _ in arrays]
        steps[out:] = [[1] for _ in arrays[out:]]
    kinds = "".join(["v" if s[-1] == 1 else "s" if s[-1] == 0 else "x" for s in steps])
    return _arranged(lib, element, arrays, kinds, sizes, steps)


def _in_lanes(arrays: list[Any], kinds: str, steps: list[list[int]], n: int, lanes: int) -> bool:
    """Whether so many neighbours of each array that runs so lie aligned, in every row."""
    for array, kind, step in zip(arrays, kinds, steps, strict=True):
        if kind == "v" and (
            array.data.ptr % (lanes * array.dtype.itemsize) or any(s % lanes for s in step[:-1]) or n < lanes
        ):
            return False
    return True


def _arranged(
    lib: Library, element: Element, arrays: list[Any], kinds: str, sizes: list[int], steps: list[list[int]]
) -> tuple[Kernel, int, list[int]]:
    n, lead = sizes[-1], len(sizes) - 1
    rows = prod(sizes[:-1])
    widest = max([a.dtype.itemsize for a, kind in zip(arrays, kinds, strict=True) if kind == "v"], default=16)
    lanes = 16 // widest
    if not _in_lanes(arrays, kinds, steps, n, lanes):
        lanes = 1
    elif element.dear >= DEAR and _in_lanes(arrays, kinds, steps, n, 2 * lanes):
        lanes *= 2  # more to compute while loads are under way
    across = THREADS
    taken = lanes if lanes > 1 else _APART
    if lead:
        across = 1
        while across < THREADS and across * taken < n:
            across *= 2
    wide = rows * n >= 1 << 30 or any(extent(sizes, s) >= 1 << 31 for s in steps)
    form = ElementForm(kinds, lead, lanes, across, wide)
    kernel = _KERNELS.get((element.key, form), lambda: Kernel(lib, *source_of(element, form)))
    tiles = -(-n // (across * taken))
    bands = -(-rows // (THREADS // across)) if lead else 1
    values = [n, rows, tiles, *sizes[1:-1]]
    for step in steps:
        values += step[:-1]
    values += [step[-1] for kind, step in zip(kinds, steps, strict=True) if kind == "x"]
    return kernel, tiles * bands, values
