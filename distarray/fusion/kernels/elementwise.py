"""One kernel for an expression: every element of the operands is loaded once, and every result stored once.

Axes that lie one behind the other in all arrays count as one. Along the last axis a thread takes as many elements as make
16 bytes of the widest array, where alignment allows, else four of them that lie apart, so that a warp's loads stay
together; the other axes are decoded once a thread. A thread reads all that it needs before it writes, so that the target
may be one of the operands.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from distarray.devices.kernels import Kernel, Kernels, collapse, extent
from distarray.fusion.kernels.element import Bound, Element
from distarray.fusion.kernels.formulas import TYPES

__all__ = ["launch", "source_of"]

_THREADS = 256
_APART = 4
"""Elements a thread takes where it can't load vectors."""

_KERNELS = Kernels()
_READY = Kernels(4096)
"""By how arrays lie: the kernel, and what it is passed."""


class Form(NamedTuple):
    """What a kernel is generated for, besides the function of an element.

    Attributes
    ----------
    kinds : str
        For each operand and the target, how it runs along the last axis: ``v`` one behind the other, ``s`` one element for
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


def source_of(element: Element, form: Form) -> tuple[str, str]:
    """A kernel's source, and the members of its argument."""
    kinds, lead, lanes, across, wide = form
    count = len(element.leaves)
    arrays = [*range(count), "o"]
    types = [TYPES[t] for t in element.leaves]
    out = TYPES[element.result]
    members = [f"const {t}* p{i};" for i, t in enumerate(types)] + [f"{out}* po;"]
    fields = "P" * (count + 1)
    members.append("long long n, rows, across;")
    fields += "qqq"
    for k in range(1, lead):
        members.append(f"long long size{k};")
        fields += "q"
    for a in arrays:
        for k in range(lead):
            members.append(f"long long t{a}_{k};")
            fields += "q"
    for a, kind in zip(arrays, kinds, strict=True):
        if kind == "x":
            members.append(f"long long x{a};")
            fields += "q"
    for i, (_, _, t) in enumerate(element.scalars):
        members.append(f"{TYPES[t]} c{i};")
        fields += t.char
    index = "long long" if wide else "int"
    lines = [f"struct Args {{ {' '.join(members)} }};", f"typedef {index} Index;"]
    lines.append(f'extern "C" __global__ void __launch_bounds__({_THREADS}) kernel(const __grid_constant__ Args a) {{')
    lines += [f"const {t}* q{i} = a.p{i};" for i, t in enumerate(types)] + [f"{out}* qo = a.po;"]
    lines.append("const Index n = a.n;")
    if lead:
        lines.append("const Index band = blockIdx.x / (Index)a.across, tile = blockIdx.x - band * (Index)a.across;")
        lines.append(f"Index row = band * {_THREADS // across} + threadIdx.x / {across};")
        lines.append("if (row >= (Index)a.rows) return;")
        for k in range(lead - 1, 0, -1):
            lines.append(f"{{ const Index up = row / (Index)a.size{k}, here = row - up * (Index)a.size{k};")
            lines += [f"q{b} += here * (Index)a.t{b}_{k};" for b in arrays]
            lines.append("row = up; }")
        lines += [f"q{b} += row * (Index)a.t{b}_0;" for b in arrays]
        lines.append(f"const Index lane = threadIdx.x % {across};")
    else:
        lines.append("const Index tile = blockIdx.x, lane = threadIdx.x;")

    def place(array: Any, kind: str, j: str) -> str:
        return {"v": f"q{array}[{j}]", "s": f"q{array}[0]", "x": f"q{array}[({j}) * (Index)a.x{array}]"}[kind]

    scalars = [f"a.c{i}" for i in range(len(element.scalars))]
    if lanes > 1:
        lines.append(f"Index j = (tile * {across} + lane) * {lanes};")
        lines.append(f"if (j + {lanes} <= n) {{")
        inputs = []
        for i, (t, kind) in enumerate(zip(types, kinds, strict=False)):
            if kind == "v":
                lines.append(f"const Pack<{t}, {lanes}> v{i} = *(const Pack<{t}, {lanes}>*)(q{i} + j);")
                inputs.append(f"v{i}.v[k]")
            elif kind == "s":
                lines.append(f"const {t} v{i} = q{i}[0];")
                inputs.append(f"v{i}")
            else:
                lines.append(f"{t} v{i}[{lanes}];")
                lines.append(f'_Pragma("unroll") for (int k = 0; k < {lanes}; ++k) v{i}[k] = {place(i, "x", "j + k")};')
                inputs.append(f"v{i}[k]")
        lines.append(f"Pack<{out}, {lanes}> r;")
        lines.append(
            f'_Pragma("unroll") for (int k = 0; k < {lanes}; ++k) r.v[k] = element({", ".join(inputs + scalars)});'
        )
        if kinds[-1] == "v":
            lines.append(f"*(Pack<{out}, {lanes}>*)(qo + j) = r;")
        else:
            lines.append(f'_Pragma("unroll") for (int k = 0; k < {lanes}; ++k) {place("o", "x", "j + k")} = r.v[k];')
        each = [place(i, kind, "j") for i, kind in enumerate(kinds[:-1])]
        lines.append(f"}} else for (; j < n; ++j) {place('o', kinds[-1], 'j')} = element({', '.join(each + scalars)});")
    else:
        lines.append(f"const Index first = tile * {across * _APART} + lane;")
        lines.append(f"{out} r[{_APART}];")
        for i, t in enumerate(types):
            lines.append(f"{t} v{i}[{_APART}];")
        lines.append(f'_Pragma("unroll") for (int k = 0; k < {_APART}; ++k) {{ const Index j = first + k * {across};')
        lines.append("if (j < n) {")
        lines += [f"v{i}[k] = {place(i, kind, 'j')};" for i, kind in enumerate(kinds[:-1])]
        lines.append("} }")
        inputs = [f"v{i}[k]" for i in range(count)]
        lines.append(f'_Pragma("unroll") for (int k = 0; k < {_APART}; ++k) {{ const Index j = first + k * {across};')
        lines.append(f"if (j < n) r[k] = element({', '.join(inputs + scalars)}); }}")
        lines.append(f'_Pragma("unroll") for (int k = 0; k < {_APART}; ++k) {{ const Index j = first + k * {across};')
        lines.append(f"if (j < n) {place('o', kinds[-1], 'j')} = r[k]; }}")
    lines.append("}")
    return element.source + "\n".join(lines) + "\n", fields


def launch(lib: Any, bound: Bound, operands: Any, out: Any) -> bool:
    """Compute `out` from arrays that broadcast to its shape, on the current device; False, and nothing is done, where an
    array's strides are no multiples of its elements."""
    arrays = [*operands, out]
    pointers = [array.data.ptr for array in arrays]
    element = bound.element
    lies = [(a.shape, a.strides, p % 16) for a, p in zip(arrays, pointers, strict=True)]
    ready = _READY.get((element.key, *lies), lambda: _prepared(lib, element, arrays))
    if ready is None:
        return False
    kernel, blocks, values = ready
    if blocks:
        kernel(blocks, _THREADS, *pointers, *values, *bound.scalars)
    return True


def _prepared(lib: Any, element: Element, arrays: list[Any]) -> tuple[Kernel, int, list[int]] | None:
    """The kernel for arrays that lie so, its blocks, and what it is passed besides addresses and scalars."""
    if any(s % a.dtype.itemsize for a in arrays for s in a.strides):
        return None
    shape = arrays[-1].shape
    strides = [_strides(array, shape) for array in arrays]
    sizes, steps = collapse(shape, strides)
    if not sizes:
        sizes, steps = [1], [[0] for _ in arrays]
        steps[-1] = [1]
    kinds = "".join(["v" if s[-1] == 1 else "s" if s[-1] == 0 else "x" for s in steps])
    return _arranged(lib, element, arrays, kinds, sizes, steps)


def _strides(array: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """An array's strides in elements, as it broadcasts to a shape."""
    item = array.dtype.itemsize
    own = [0 if n == 1 else s // item for n, s in zip(array.shape, array.strides, strict=True)]
    return (*[0] * (len(shape) - len(own)), *own)


def _arranged(
    lib: Any, element: Element, arrays: list[Any], kinds: str, sizes: list[int], steps: list[list[int]]
) -> tuple[Kernel, int, list[int]]:
    n, lead = sizes[-1], len(sizes) - 1
    rows = 1
    for size in sizes[:-1]:
        rows *= size
    widest = max([a.dtype.itemsize for a, kind in zip(arrays, kinds, strict=True) if kind == "v"], default=16)
    lanes = 16 // widest
    for array, kind, step in zip(arrays, kinds, steps, strict=True):
        if kind == "v" and (
            array.data.ptr % (lanes * array.dtype.itemsize) or any(s % lanes for s in step[:-1]) or n < lanes
        ):
            lanes = 1
            break
    across = _THREADS
    taken = lanes if lanes > 1 else _APART
    if lead:
        across = 1
        while across < _THREADS and across * taken < n:
            across *= 2
    wide = rows * n >= 1 << 30 or any(extent(sizes, s) >= 1 << 31 for s in steps)
    form = Form(kinds, lead, lanes, across, wide)
    kernel = _KERNELS.get((element.key, form), lambda: Kernel(lib, *source_of(element, form)))
    tiles = -(-n // (across * taken))
    bands = -(-rows // (_THREADS // across)) if lead else 1
    values = [n, rows, tiles, *sizes[1:-1]]
    for step in steps:
        values += step[:-1]
    values += [step[-1] for kind, step in zip(kinds, steps, strict=True) if kind == "x"]
    return kernel, tiles * bands, values
