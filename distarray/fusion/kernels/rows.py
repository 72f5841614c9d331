"""One kernel for an expression and the folds of rows that it uses, as in a softmax: a row is read once, folded, and used.

The threads that share a row keep what they read of it in registers. Each fold takes its elements in the order of
:mod:`distarray.fusion.kernels.reductions`, with as many threads and lanes, so that a fold has the same bits whether it was
used by an expression or asked for by itself; it is stored too.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from distarray.devices.kernels import Kernel, Kernels
from distarray.fusion.kernels.element import PACKS, Bound, Element, element_of, headers_of
from distarray.fusion.kernels.folds import Fold, fold_of
from distarray.fusion.kernels.formulas import TYPES
from distarray.fusion.kernels.later import Later, LaterChunk
from distarray.fusion.kernels.reductions import SHUFFLE, arranged, rows_form

__all__ = ["fused_rows", "source_of"]

_THREADS = 256
_HELD = 16
"""Packs of a row that a thread keeps, of all operands together."""

_KERNELS = Kernels(256)
_READY = Kernels(1024)

Place = tuple[str, int]
"""Where a function's argument comes from: ``("leaf", number)`` or ``("fold", number)``."""


class RowForm(NamedTuple):
    """What a kernel is generated for, besides its functions.

    Attributes
    ----------
    leaves : tuple of dtype
    kinds : str
        For each leaf and the target, along a row: ``v`` in vectors, ``e`` one behind the other, ``s`` one element for all, ``x``
        with a stride.
    sources : tuple of tuple of Place
        What each function takes: those of the folds, and that of the result last.
    lanes, width : int
        Elements that a thread takes at a time, and threads that share a row.
    packs : int
        How often a thread takes elements of a row.
    full : bool
        Whether all threads take as many.
    """

    leaves: tuple[Any, ...]
    kinds: str
    sources: tuple[tuple[Place, ...], ...]
    lanes: int
    width: int
    packs: int
    full: bool


def source_of(elements: tuple[Element, ...], folds: tuple[Fold, ...], form: RowForm) -> tuple[str, str]:
    """A kernel's source, and the members of its argument."""
    leaves, kinds, sources, lanes, width, packs, full = form
    types, out = [TYPES[t] for t in leaves], TYPES[elements[-1].result]
    arrays = [*range(len(leaves)), "o"]
    members = [f"const {t}* p{i};" for i, t in enumerate(types)] + [f"{out}* po;"]
    members += [f"void* f{i};" for i in range(len(folds))]
    members.append("long long rows, m;")
    fields = "P" * (len(leaves) + 1 + len(folds)) + "qq"
    for a in arrays:
        members.append(f"long long o{a}, x{a};")
        fields += "qq"
    for number, element in enumerate(elements):
        for i, (_, _, t) in enumerate(element.scalars):
            members.append(f"{TYPES[t]} c{number}_{i};")
            fields += t.char
    used = frozenset().union(*[e.used for e in elements], {t for f in folds for t in (f.element, f.result)})
    preambles = dict.fromkeys([text for e in elements for text in e.preambles])
    lines = [headers_of(set(used)), *preambles, PACKS, SHUFFLE]
    lines += [e.function.replace(" element(", f" element{n}(", 1) for n, e in enumerate(elements)]
    lines += [f"namespace fold{n} {{ {fold.source} }}" for n, fold in enumerate(folds)]
    lines.append(f"struct Args {{ {' '.join(members)} }};")
    lines.append(
        f'extern "C" __global__ void __launch_bounds__({_THREADS}, 2) kernel(const __grid_constant__ Args a) {{'
    )
    across = _THREADS // width
    lines.append(f"const int lane = threadIdx.x % {width}, mine = threadIdx.x / {width};")
    lines.append(f"const long long row = blockIdx.x * {across}ll + mine;")
    lines.append("const bool here = row < a.rows;")
    length = f"{packs * width * lanes}" if full else "a.m"
    lines.append(f"const int m = here ? (int){length} : 0;")
    lines += [f"const {t}* q{i} = a.p{i} + row * a.o{i};" for i, t in enumerate(types)]
    at = f"const int at = (u * {width} + lane) * {lanes};"
    each_pack = f'_Pragma("unroll") for (int u = 0; u < {packs}; ++u) {{ {at}'
    each_lane = f'_Pragma("unroll") for (int k = 0; k < {lanes}; ++k)'

    def place(array: Any, kind: str, j: str) -> str:
        return {"s": f"q{array}[0]", "x": f"q{array}[({j}) * a.x{array}]"}.get(kind, f"q{array}[{j}]")

    # what a row has is loaded before anything is computed
    for i, (t, kind) in enumerate(zip(types, kinds, strict=False)):
        if kind == "s":
            lines.append(f"{t} v{i}; if (here) v{i} = q{i}[0];")
            continue
        lines.append(f"Pack<{t}, {lanes}> v{i}[{packs}];")
        lines.append(each_pack)
        if kind == "v":
            lines.append(f"if (at + {lanes} <= m) v{i}[u] = *(const Pack<{t}, {lanes}>*)(q{i} + at); else")
        lines.append(f"{each_lane} if (at + k < m) v{i}[u].v[k] = {place(i, kind, 'at + k')}; }}")

    def arguments(number: int) -> str:
        names = []
        for where, i in sources[number]:
            names.append(f"r{i}" if where == "fold" else f"v{i}" if kinds[i] == "s" else f"v{i}[u].v[k]")
        return ", ".join(names + [f"a.c{number}_{i}" for i in range(len(elements[number].scalars))])

    close = min(width, 32)
    for n, fold in enumerate(folds):
        lifted = f"fold{n}::lift(element{n}({arguments(n)}), at + k)"
        lines.append(f"fold{n}::A acc{n}[{lanes}]; {each_lane} acc{n}[k] = fold{n}::none();")
        lines.append(each_pack)
        lines.append(f"if (at + {lanes} <= m) {{ {each_lane} acc{n}[k] = fold{n}::join(acc{n}[k], {lifted}); }}")
        lines.append(f"else {each_lane} if (at + k < m) acc{n}[0] = fold{n}::join(acc{n}[0], {lifted}); }}")
        lines.append(f"fold{n}::A t{n} = acc{n}[0];")
        lines.append(f'_Pragma("unroll") for (int k = 1; k < {lanes}; ++k) t{n} = fold{n}::join(t{n}, acc{n}[k]);')
        lines.append(f'_Pragma("unroll") for (int d = {close // 2}; d > 0; d /= 2)')
        lines.append(f"t{n} = fold{n}::join(t{n}, shuffled(t{n}, d, {close}));")
        if width > 32:
            lines.append(f"__shared__ fold{n}::A held{n}[{_THREADS // 32}], whole{n}[{across}];")
            lines.append(f"if (threadIdx.x % 32 == 0) held{n}[threadIdx.x / 32] = t{n};")
            lines.append("__syncthreads();")
            lines.append(f"if (lane == 0) {{ for (int k = 1; k < {width // 32}; ++k)")
            lines.append(f"t{n} = fold{n}::join(t{n}, held{n}[threadIdx.x / 32 + k]); whole{n}[mine] = t{n}; }}")
            lines.append("__syncthreads();")
            value = f"whole{n}[mine]"
        else:
            lines.append(f"t{n} = __shfl_sync(0xffffffffu, t{n}, 0, {close});")
            value = f"t{n}"
        lines.append(f"const {TYPES[fold.result]} r{n} = ({TYPES[fold.result]}){value};")
        lines.append(f"if (lane == 0 && here) (({TYPES[fold.result]}*)a.f{n})[row] = r{n};")
    last = len(folds)
    lines.append(f"{out}* qo = a.po + row * a.oo;")
    lines.append(each_pack)
    result = f"element{last}({arguments(last)})"
    if kinds[-1] == "v":
        lines.append(f"if (at + {lanes} <= m) {{ Pack<{out}, {lanes}> r; {each_lane} r.v[k] = {result};")
        lines.append(f"*(Pack<{out}, {lanes}>*)(qo + at) = r; }} else")
    lines.append(f"{each_lane} if (at + k < m) {place('o', kinds[-1], 'at + k')} = {result}; }}")
    lines.append("}")
    return "\n".join(lines) + "\n", fields


# --- calls ------------------------------------------------------------------------------------------------------------


class _Work(NamedTuple):
    """An expression and the folds that it waits for, each after those that it uses."""

    leaves: list[Any]
    folds: list[Later]
    bound: list[Bound]
    sources: list[tuple[Place, ...]]


def _gathered(lib: Any, program: Any, operands: Any, out: Any) -> _Work | None:
    """What to compute over the rows of `out`; folds that don't go together with it are computed on the way."""
    work = _Work([], [], [], [])
    numbers: dict[Any, Place] = {}

    def found(item: Any) -> Place:
        if type(item) is LaterChunk:
            later = item.later
            fits = later is not None and later.waits and later.shape == out.shape
            if fits:
                assert later is not None
                if id(later) not in numbers:
                    sources = tuple([found(each) for each in later.operands])
                    if not taken(later.program, sources, later.dtype):
                        return found(item.array)
                    numbers[id(later)] = ("fold", len(work.folds))
                    work.folds.append(later)
                return numbers[id(later)]
            item = item.array
        key = (item.data.ptr, item.shape, item.strides, item.dtype)
        if key not in numbers:
            numbers[key] = ("leaf", len(work.leaves))
            work.leaves.append(item)
        return numbers[key]

    def taken(program: Any, sources: tuple[Place, ...], dtype: Any) -> bool:
        types = [work.leaves[i].dtype if kind == "leaf" else work.folds[i].out.dtype for kind, i in sources]
        bound = element_of(lib, program, tuple(types), dtype)
        if bound is None:
            return False
        work.bound.append(bound)
        work.sources.append(sources)
        return True

    sources = tuple([found(item) for item in operands])
    return work if taken(program, sources, out.dtype) and work.folds else None


def fused_rows(lib: Any, program: Any, operands: Any, out: Any) -> bool:
    """Compute an expression, some of whose operands are folds of rows that wait, on the current device.

    Returns
    -------
    bool
        False, and `out` is not written, where this kernel does not serve.
    """
    if program.result[0] == "const" or out.ndim < 2:
        return False
    work = _gathered(lib, program, operands, out)
    if work is None:
        return False
    arrays = [*work.leaves, out]
    pointers = [array.data.ptr for array in arrays]
    lies = [(a.shape, a.strides, p % 16) for a, p in zip(arrays, pointers, strict=True)]
    kinds = [(later.name, later.out.dtype) for later in work.folds]
    key = (*[b.element.key for b in work.bound], *kinds, *work.sources, *lies)
    ready = _READY.get(key, lambda: _prepared(lib, work, out))
    if ready is None:
        return False
    kernel, blocks, values = ready
    scalars = [value for b in work.bound for value in b.scalars]
    kernel(blocks, _THREADS, *pointers, *[later.out.data.ptr for later in work.folds], *values, *scalars)
    for later in work.folds:
        later.done()
    return True


def _prepared(lib: Any, work: _Work, out: Any) -> tuple[Kernel, int, list[int]] | None:
    """The kernel for arrays that lie so, its blocks, and what it is passed besides addresses and scalars."""
    arrays, shape = [*work.leaves, out], out.shape
    strides = []
    for array in arrays:
        item = array.dtype.itemsize
        if any(s % item for s in array.strides):
            return None
        own = [0 if n == 1 else s // item for n, s in zip(array.shape, array.strides, strict=True)]
        strides.append((*[0] * (len(shape) - len(own)), *own))
    found = arranged(shape, strides, (len(shape) - 1,))
    if found is None or found.inner != 1 or found.m < 2 or found.m != shape[-1] or found.outer != prod(shape[:-1]):
        return None
    rows, m = found.outer, found.m
    if rows < 2:
        return None
    forms, folds = set(), []
    for later, bound, sources in zip(work.folds, work.bound, work.sources, strict=False):
        items = [work.leaves[i].dtype if kind == "leaf" else work.folds[i].out.dtype for kind, i in sources]
        forms.add(rows_form(max([t.itemsize for t in items] + [1]), rows, m))
        fold = fold_of(later.name, bound.element.result, later.out.dtype)
        if fold is None or fold.element != bound.element.result:
            return None
        folds.append(fold)
    if len(forms) != 1:
        return None
    ((lanes, width, parts),) = forms
    packs = -(-m // (width * lanes))
    kinds, held = "", 0
    for array, (outer, step, _) in zip(arrays, found.steps, strict=True):
        item = array.dtype.itemsize
        aligned = not array.data.ptr % (lanes * item) and not outer % lanes and lanes * item <= 16
        kinds += "s" if step == 0 else "x" if step != 1 else "v" if aligned else "e"
        if step and array is not out:
            held += packs * max(1, lanes * item // 16)
    if parts != 1 or held > _HELD or kinds[-1] == "s":
        return None
    form = RowForm(
        tuple([a.dtype for a in work.leaves]),
        kinds,
        tuple(work.sources),
        lanes,
        width,
        packs,
        m == packs * width * lanes,
    )
    elements = tuple([b.element for b in work.bound])
    key = (tuple([e.key for e in elements]), tuple([(f.name, f.result) for f in folds]), form)
    kernel = _KERNELS.get(key, lambda: Kernel(lib, *source_of(elements, tuple(folds), form)))
    values = [rows, m]
    for outer, step, _ in found.steps:
        values += [outer, step]
    return kernel, -(-rows // (_THREADS // width)), values
