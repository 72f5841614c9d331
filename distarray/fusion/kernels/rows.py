"""One kernel for an expression and the folds of rows that it uses, as in a softmax: a row is read once, folded, and used.

The threads that share a row keep what they read of it in registers. Each fold takes its elements in the order of
:mod:`distarray.fusion.kernels.reductions`, with as many threads and lanes, so that a fold has the same bits whether it was
used by an expression or asked for by itself; it is stored too.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple, cast

from distarray.devices.arrays import AnyDType, DeviceArray, Library
from distarray.devices.kernels import Kernel, Kernels, steps_of
from distarray.fusion.kernels.element import PACKS, Bound, Element, element_of, headers_of
from distarray.fusion.kernels.folds import Fold, fold_of
from distarray.fusion.kernels.formulas import TYPES
from distarray.fusion.kernels.later import Later, LaterChunk
from distarray.fusion.kernels.quick import ENOUGH, FUNCTIONS
from distarray.fusion.kernels.reductions import SHUFFLE, arranged, rows_form, threads_of
from distarray.fusion.program import Program

__all__ = ["fused_rows", "source_of"]

_HELD = 16
"""Packs of a row that each of 256 threads keeps, of all operands together; half as many where more threads share a row."""

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
    members, fields = _members(elements, folds, form)
    width, each = form.width, threads_of(form.width) // form.width  # rows of a block
    length = f"{form.packs * width * form.lanes}" if form.full else "a.m"
    lines = [
        *_definitions(elements, folds),
        f"struct Args {{ {' '.join(members)} }};",
        f'extern "C" __global__ void __launch_bounds__({threads_of(width)}, 2) kernel(const __grid_constant__ Args a) {{',
        f"const int lane = threadIdx.x % {width}, mine = threadIdx.x / {width};",
        f"const long long row = blockIdx.x * {each}ll + mine;",
        f"const bool here = {'row < a.rows' if each > 1 else 'true'};",
        f"const int m = here ? (int){length} : 0;",
        *_loads(form),
    ]
    for number, (element, fold) in enumerate(zip(elements, folds, strict=False)):
        lines += _folding(number, fold, _value(number, element, form), form)
    lines += _result(elements[-1], len(folds), form)
    lines.append("}")
    return "\n".join(lines) + "\n", fields


def _members(elements: tuple[Element, ...], folds: tuple[Fold, ...], form: RowForm) -> tuple[list[str], str]:
    """The members of a kernel's argument, as C and as the module ``struct`` writes them."""
    count = len(form.leaves)
    members = [f"const {TYPES[t]}* p{i};" for i, t in enumerate(form.leaves)] + [f"{TYPES[elements[-1].result]}* po;"]
    members += [f"void* f{i};" for i in range(len(folds))]
    members.append("long long rows, m;")
    members += [f"long long o{a}, x{a};" for a in (*range(count), "o")]
    fields = "P" * (count + 1 + len(folds)) + "qq" * (count + 2)
    for number, element in enumerate(elements):
        more, kinds = element.scalar_members(f"c{number}_")
        members += more
        fields += kinds
    return members, fields


def _definitions(elements: tuple[Element, ...], folds: tuple[Fold, ...]) -> list[str]:
    """What stands before a kernel: headers, the function of each element under its number, each fold in a namespace."""
    used = frozenset().union(*[e.used for e in elements], {t for f in folds for t in (f.element, f.result)})
    preambles = dict.fromkeys([text for e in elements for text in e.preambles])
    lines = [headers_of(set(used)), *preambles, PACKS, SHUFFLE]
    lines += [e.function.replace(" element(", f" element{n}(", 1) for n, e in enumerate(elements)]
    if elements[-1].quick:
        lines += [FUNCTIONS, elements[-1].quick]
    lines += [f"namespace fold{n} {{ {fold.source} }}" for n, fold in enumerate(folds)]
    return lines


def _each_pack(form: RowForm) -> str:
    """The head of a loop over what a thread takes of a row, with the position ``at`` of the first lane; it opens a brace."""
    at = f"const int at = (u * {form.width} + lane) * {form.lanes};"
    return f'_Pragma("unroll") for (int u = 0; u < {form.packs}; ++u) {{ {at}'


def _each_lane(form: RowForm) -> str:
    return f'_Pragma("unroll") for (int k = 0; k < {form.lanes}; ++k)'


def _at(array: int | str, kind: str, j: str) -> str:
    """The element of an array at position `j` of a row."""
    return {"s": f"q{array}[0]", "x": f"q{array}[({j}) * a.x{array}]"}.get(kind, f"q{array}[{j}]")


def _loads(form: RowForm) -> list[str]:
    """Lines that load what a row has, before anything is computed."""
    types, lanes = [TYPES[t] for t in form.leaves], form.lanes
    lines = [f"const {t}* q{i} = a.p{i} + row * a.o{i};" for i, t in enumerate(types)]
    for i, (t, kind) in enumerate(zip(types, form.kinds, strict=False)):
        if kind == "s":
            lines.append(f"{t} v{i}; if (here) v{i} = q{i}[0];")
            continue
        lines.append(f"Pack<{t}, {lanes}> v{i}[{form.packs}];")
        lines.append(_each_pack(form))
        if kind == "v":
            lines.append(f"if (at + {lanes} <= m) v{i}[u] = *(const Pack<{t}, {lanes}>*)(q{i} + at); else")
        lines.append(f"{_each_lane(form)} if (at + k < m) v{i}[u].v[k] = {_at(i, kind, 'at + k')}; }}")
    return lines


def _value(number: int, element: Element, form: RowForm) -> str:
    """The function of that number, called."""
    return f"element{number}({_given(number, element, form)})"


def _given(number: int, element: Element, form: RowForm) -> str:
    """What the function of that number is called with: what was loaded, earlier folds and the kernel's scalars."""
    names = []
    for where, i in form.sources[number]:
        names.append(f"r{i}" if where == "fold" else f"v{i}" if form.kinds[i] == "s" else f"v{i}[u].v[k]")
    names += element.scalar_names(f"c{number}_")
    return ", ".join(names)


def _folding(n: int, fold: Fold, value: str, form: RowForm) -> list[str]:
    """Lines that fold `value` over a row, give the result ``r{n}`` to each of its threads, and store it."""
    lanes, width, close = form.lanes, form.width, min(form.width, 32)
    each_lane, result = _each_lane(form), TYPES[fold.result]
    lifted = f"fold{n}::lift({value}, at + k)"
    lines = [
        f"fold{n}::A acc{n}[{lanes}]; {each_lane} acc{n}[k] = fold{n}::none();",
        _each_pack(form),
        f"if (at + {lanes} <= m) {{ {each_lane} acc{n}[k] = fold{n}::join(acc{n}[k], {lifted}); }}",
        f"else {each_lane} if (at + k < m) acc{n}[0] = fold{n}::join(acc{n}[0], {lifted}); }}",
        f"fold{n}::A t{n} = acc{n}[0];",
        f'_Pragma("unroll") for (int k = 1; k < {lanes}; ++k) t{n} = fold{n}::join(t{n}, acc{n}[k]);',
        f'_Pragma("unroll") for (int d = {close // 2}; d > 0; d /= 2)',
        f"t{n} = fold{n}::join(t{n}, shuffled(t{n}, d, {close}));",
    ]
    if width > 32:
        lines.append(
            f"__shared__ fold{n}::A held{n}[{threads_of(width) // 32}], whole{n}[{threads_of(width) // width}];"
        )
        lines.append(f"if (threadIdx.x % 32 == 0) held{n}[threadIdx.x / 32] = t{n};")
        lines.append("__syncthreads();")
        lines.append(f"if (lane == 0) {{ for (int k = 1; k < {width // 32}; ++k)")
        lines.append(f"t{n} = fold{n}::join(t{n}, held{n}[threadIdx.x / 32 + k]); whole{n}[mine] = t{n}; }}")
        lines.append("__syncthreads();")
        total = f"whole{n}[mine]"
    else:
        lines.append(f"t{n} = __shfl_sync(0xffffffffu, t{n}, 0, {close});")
        total = f"t{n}"
    lines.append(f"const {result} r{n} = ({result}){total};")
    lines.append(f"if (lane == 0 && here) (({result}*)a.f{n})[row] = r{n};")
    return lines


def _result(element: Element, number: int, form: RowForm) -> list[str]:
    """Lines that store the value of the function of that number for each element of a row."""
    given = _given(number, element, form)
    lines = [f"{TYPES[element.result]}* qo = a.po + row * a.oo;"]
    if not element.quick or form.kinds[-1] != "v":
        return [*lines, *_stored(element, f"element{number}({given})", form)]
    lines += ["float least = 1;", *_stored(element, f"quick({given}, least)", form)]
    return [*lines, f"if (!(least >= {ENOUGH})) {{", *_stored(element, f"element{number}({given})", form), "}"]


def _stored(element: Element, value: str, form: RowForm) -> list[str]:
    """Lines that store `value` for each element of a row."""
    out, lanes, kind, each_lane = TYPES[element.result], form.lanes, form.kinds[-1], _each_lane(form)
    lines = [_each_pack(form)]
    if kind == "v":
        lines.append(f"if (at + {lanes} <= m) {{ Pack<{out}, {lanes}> r; {each_lane} r.v[k] = {value};")
        lines.append(f"*(Pack<{out}, {lanes}>*)(qo + at) = r; }} else")
    lines.append(f"{each_lane} if (at + k < m) {_at('o', kind, 'at + k')} = {value}; }}")
    return lines


# --- calls ------------------------------------------------------------------------------------------------------------


class _RowWork:
    """An expression and the folds that it waits for, each after those that it uses. Methods, not nested functions that call each
    other: these would keep all operands until garbage is collected."""

    __slots__ = ("bound", "folds", "leaves", "lib", "numbers", "shape", "sources")

    def __init__(self, lib: Library, shape: tuple[int, ...]) -> None:
        self.lib = lib
        self.shape = shape
        self.leaves: list[Any] = []
        self.folds: list[Later] = []
        self.bound: list[Bound] = []
        self.sources: list[tuple[Place, ...]] = []
        self.numbers: dict[Any, Place] = {}

    def place(self, item: Any) -> Place:
        """Where an operand comes from; folds that don't go together with the expression are computed on the way."""
        numbers = self.numbers
        if type(item) is LaterChunk:
            later = item.later
            if later is not None and later.waits and later.shape == self.shape:
                if id(later) not in numbers:
                    sources = tuple([self.place(each) for each in later.operands])
                    if not self.takes(later.program, sources, later.dtype):
                        return self.place(item.array)
                    numbers[id(later)] = ("fold", len(self.folds))
                    self.folds.append(later)
                return numbers[id(later)]
            item = item.array
        key = (item.data.ptr, item.shape, item.strides, item.dtype)
        if key not in numbers:
            numbers[key] = ("leaf", len(self.leaves))
            self.leaves.append(item)
        return numbers[key]

    def takes(self, program: Program, sources: tuple[Place, ...], dtype: AnyDType) -> bool:
        """Enter a function of what comes from `sources`; False, and nothing is entered, where it has no kernel."""
        types = [self.leaves[i].dtype if kind == "leaf" else self.folds[i].out.dtype for kind, i in sources]
        bound = element_of(self.lib, program, tuple(types), dtype)
        if bound is None:
            return False
        self.bound.append(bound)
        self.sources.append(sources)
        return True


def _gathered(lib: Library, program: Program, operands: Sequence[Any], out: DeviceArray) -> _RowWork | None:
    """What to compute over the rows of `out`."""
    work = _RowWork(lib, out.shape)
    sources = tuple([work.place(item) for item in operands])
    return work if work.takes(program, sources, out.dtype) and work.folds else None


def fused_rows(lib: Library, program: Program, operands: Sequence[Any], out: DeviceArray) -> bool:
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
    kernel, blocks, threads, values = ready
    scalars = [value for b in work.bound for value in b.scalars]
    kernel(blocks, threads, *pointers, *[later.out.data.ptr for later in work.folds], *values, *scalars)
    for later in work.folds:
        later.done()
    return True


def _prepared(lib: Library, work: _RowWork, out: DeviceArray) -> tuple[Kernel, int, int, list[int]] | None:
    """The kernel for arrays that lie so, its blocks and their threads, and what it is passed besides addresses and scalars."""
    arrays, shape = [*work.leaves, out], out.shape
    strides = [steps_of(array, shape) for array in arrays]
    if None in strides:
        return None
    found = arranged(shape, cast("list[tuple[int, ...]]", strides), (len(shape) - 1,))
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
        if fold is None or fold.element != bound.element.result or fold.element.kind == "c":
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
    if parts != 1 or held * threads_of(width) > 256 * _HELD or kinds[-1] == "s":
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
    threads = threads_of(width)
    return kernel, -(-rows // (threads // width)), threads, values
