"""Kernels' texts: loops over rows around the function of an element, and folds in the order in which NumPy adds.

All arguments are words of eight bytes behind one address: sizes, for each array its address and its strides in bytes along and
between rows, and scalars. Elements are loaded, computed and stored a few at a time, the rest one by one; every operation is
exact, so that both have the same bits.

References
----------
Higham, N. J. (1993), "The accuracy of floating point summation", SIAM J. Sci. Comput. 14(4): pairwise summation, which NumPy
does in halves of multiples of eight down to 128 elements, and there in eight sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from distarray.devices.arrays import AnyDType
from distarray.fusion.native.element import NativeElement
from distarray.fusion.native.operations import BOOL, PARTS, TYPES, Pair, Value, Writer, memory_type

__all__ = ["FOLDS", "elementwise_text", "fold_text", "kernel_text", "word"]

_KERNEL = """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
define i32 @kernel(ptr %a) {
  %s = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %s)
  %v = load i32, ptr %s
  %c = and i32 %v, -64
  store i32 %c, ptr %s
  call void @llvm.x86.sse.ldmxcsr(ptr %s)
  call void @body(ptr %a)
  call void @llvm.x86.sse.stmxcsr(ptr %s)
  %w = load i32, ptr %s
  %f = and i32 %w, 29
  ret i32 %f
}
"""
"""The door: clears the processor's notes of floating-point conditions before the work, and returns them."""


def word(name: str, place: int, dtype: str = "i64") -> list[str]:
    """Lines that read an argument."""
    return [
        f"{name}_at = getelementptr i64, ptr %a, i64 {place}",
        f"{name} = load {dtype}, ptr {name}_at",
    ]


def _opened(element: NativeElement, arrays: int) -> list[str]:
    """Lines that read the arguments behind the two sizes: `%b0, %r0, %e0, …` of arrays, `%c0, …` scalars."""
    lines = []
    for k in range(arrays):
        lines += word(f"%b{k}", 2 + 3 * k, "ptr") + word(f"%r{k}", 3 + 3 * k) + word(f"%e{k}", 4 + 3 * k)
    place = 2 + 3 * arrays
    for k, dtype in enumerate(element.scalars):
        for name in (f"%c{k}r", f"%c{k}i") if dtype in PARTS else (f"%c{k}",):
            if dtype == BOOL:
                lines += [*word(f"%m{k}", place, "i8"), f"{name} = trunc i8 %m{k} to i1"]
            else:
                lines += word(name, place, memory_type(dtype))
            place += 1
    return lines


def _scalars(element: NativeElement) -> list[Value]:
    return [Pair(f"%c{k}r", f"%c{k}i") if t in PARTS else f"%c{k}" for k, t in enumerate(element.scalars)]


def _spread(w: Writer, value: str | Pair, dtype: AnyDType) -> Any:
    """A scalar in all lanes."""
    if w.lanes == 1:
        return value
    if dtype in PARTS:
        return Pair(*[_spread(w, v, PARTS[dtype]) for v in value])
    own, wide = TYPES[dtype], w.of(dtype)
    first = w.put(f"insertelement {wide} poison, {own} {value}, i64 0")
    zeros = f"<{w.lanes} x i32> zeroinitializer"
    return w.put(f"shufflevector {wide} {first}, {wide} poison, {zeros}")


def _offset(w: Writer, step: str, place: str, lane: int) -> str:
    """Bytes from a row's start to an element that lies by a stride."""
    index = w.put(f"add i64 {place}, {lane}")
    return w.put(f"mul i64 {index}, {step}")


def _loaded(w: Writer, dtype: AnyDType, kind: str, base: str, step: str, place: str) -> Any:
    """The elements from `place` on of a row that starts at `base`."""
    held, align = memory_type(dtype), f"align {dtype.alignment}"
    if dtype in PARTS:
        return _loaded_pair(w, dtype, kind, base, step, place)
    if kind == "v":
        at = w.put(f"getelementptr {held}, ptr {base}, i64 {place}")
        value = w.put(f"load {w.wide(held)}, ptr {at}, {align}")
    elif kind == "s":
        value = w.put(f"load {held}, ptr {base}, {align}")
    else:
        value = "poison"
        for lane in range(w.lanes):
            at = w.put(f"getelementptr i8, ptr {base}, i64 {_offset(w, step, place, lane)}")
            one = w.put(f"load {held}, ptr {at}, {align}")
            value = one if w.lanes == 1 else w.put(f"insertelement {w.wide(held)} {value}, {held} {one}, i64 {lane}")
    if dtype == BOOL:
        value = w.put(f"icmp ne {w.wide('i8')} {value}, {w.number('i8', 0)}")
    return value


def _loaded_pair(w: Writer, dtype: AnyDType, kind: str, base: str, step: str, place: str) -> Pair:
    """The same of complex elements."""
    part = PARTS[dtype]
    own, lanes = TYPES[part], w.lanes
    if kind == "v" and lanes > 1:
        at = w.put(f"getelementptr {{{own}, {own}}}, ptr {base}, i64 {place}")
        row = f"<{2 * lanes} x {own}>"
        both = w.put(f"load {row}, ptr {at}, align {part.itemsize}")
        return Pair(*[w.put(f"shufflevector {row} {both}, {row} poison, {_every_other(k, lanes)}") for k in (0, 1)])
    if kind == "s":
        starts = [base]
    else:
        starts = [w.put(f"getelementptr i8, ptr {base}, i64 {_offset(w, step, place, lane)}") for lane in range(lanes)]
    found = []
    for k in (0, 1):
        value = "poison"
        for lane, start in enumerate(starts):
            at = w.put(f"getelementptr {own}, ptr {start}, i64 {k}")
            one = w.put(f"load {own}, ptr {at}, align {part.itemsize}")
            alone = len(starts) == 1
            value = one if alone else w.put(f"insertelement {w.of(part)} {value}, {own} {one}, i64 {lane}")
        found.append(value)
    return Pair(*found)


def _every_other(first: int, lanes: int) -> str:
    return f"<{lanes} x i32> <{', '.join([f'i32 {first + 2 * lane}' for lane in range(lanes)])}>"


def _stored(w: Writer, dtype: AnyDType, kind: str, base: str, step: str, place: str, value: Any) -> None:
    held, align = memory_type(dtype), f"align {PARTS.get(dtype, dtype).itemsize}"
    lanes = w.lanes
    if dtype == BOOL:
        value = w.put(f"zext {w.wide('i1')} {value} to {w.wide('i8')}")
    if kind == "v" and dtype in PARTS and lanes > 1:
        at = w.put(f"getelementptr {{{held}, {held}}}, ptr {base}, i64 {place}")
        order = ", ".join([f"i32 {lane + k * lanes}" for lane in range(lanes) for k in (0, 1)])
        row = w.wide(held)
        both = w.put(f"shufflevector {row} {value.real}, {row} {value.imag}, <{2 * lanes} x i32> <{order}>")
        w.lines.append(f"store <{2 * lanes} x {held}> {both}, ptr {at}, {align}")
        return
    if kind == "v" and dtype not in PARTS:
        at = w.put(f"getelementptr {held}, ptr {base}, i64 {place}")
        w.lines.append(f"store {w.wide(held)} {value}, ptr {at}, {align}")
        return
    for lane in range(lanes):
        start = w.put(f"getelementptr i8, ptr {base}, i64 {_offset(w, step, place, lane)}")
        for k, part in enumerate(value if dtype in PARTS else (value,)):
            at = w.put(f"getelementptr {held}, ptr {start}, i64 {k}")
            one = part if lanes == 1 else w.put(f"extractelement {w.wide(held)} {part}, i64 {lane}")
            w.lines.append(f"store {held} {one}, ptr {at}, {align}")


class _Row:
    """What is the same along a row, computed before its elements are: `lines` say how. `width`: for so many elements at a time
    the values are spread out, once too."""

    def __init__(self, element: NativeElement, kinds: str, bases: Sequence[str]) -> None:
        self.element, self.kinds, self.bases = element, kinds, bases
        self.still = element.still(kinds)
        one = Writer(1, "u")
        self.arrays = {
            k: _loaded(one, t, "s", bases[k], f"%e{k}", "0") for k, t in enumerate(element.arrays) if kinds[k] == "s"
        }
        self.values: dict[int, Value] = {}
        self.scalars = _scalars(element)
        element.write(one, self.arrays, self.scalars, self.values, self.still)
        self.lines = one.lines
        self.declared = one.declared

    def spread(self, lanes: int, prefix: str) -> tuple[Writer, dict[int, Value], list[Value], dict[int, Value]]:
        """The values for so many elements at a time."""
        w = Writer(lanes, prefix)
        element = self.element
        arrays = {k: _spread(w, v, element.arrays[k]) for k, v in self.arrays.items()}
        scalars = [_spread(w, v, t) for v, t in zip(self.scalars, element.scalars, strict=True)]
        lines = {i: _spread(w, v, element.lines[i].result) for i, v in self.values.items()}
        self.lines = [*self.lines, *w.lines]
        return w, arrays, scalars, lines

    def results(self, lanes: int, prefix: str, place: str) -> tuple[Writer, list[Any]]:
        """The results of the elements from `place` on, and the writer of their lines."""
        _, arrays, scalars, lines = self.spread(lanes, f"{prefix}w")
        w = Writer(lanes, prefix)
        element = self.element
        for k, (t, kind, base) in enumerate(zip(element.arrays, self.kinds, self.bases, strict=False)):
            if kind != "s":
                arrays[k] = _loaded(w, t, kind, base, f"%e{k}", place)
        element.write(w, arrays, scalars, lines, [not still for still in self.still])
        found = element.found(w, arrays, lines)
        self.declared |= w.declared
        return w, found


def elementwise_text(element: NativeElement, kinds: str) -> str:
    """A kernel that stores the function's results.

    `kinds`, for each array and each result, how it runs along rows: ``v`` one behind the other, ``s`` one element for all, ``x``
    with a stride of its own. Arguments: length of rows, their number, arrays, results, scalars.
    """
    count, lanes = len(kinds), element.lanes
    first = len(element.arrays)
    bases = [f"%p{k}" for k in range(count)]

    row = _Row(element, kinds, bases)

    def body(lanes: int, prefix: str, place: str) -> Writer:
        w, results = row.results(lanes, prefix, place)
        for k, (value, (_, _, t)) in enumerate(zip(results, element.results, strict=True), first):
            _stored(w, t, kinds[k], bases[k], f"%e{k}", place, value)
        return w

    many, one = body(lanes, "v", "%j"), body(1, "t", "%t")
    lines = [*word("%n", 0), *word("%rows", 1), *_opened(element, count)]
    lines += [f"%full = and i64 %n, -{lanes}", "%many = icmp sgt i64 %full, 0", "%rest = icmp slt i64 %full, %n"]
    lines += ["br label %row", "row:", "%i = phi i64 [0, %entry], [%i2, %end]"]
    lines += [f"%p{k} = phi ptr [%b{k}, %entry], [%q{k}, %end]" for k in range(count)]
    lines += [
        *row.lines,
        "br i1 %many, label %wide, label %check",
        "wide:",
        "%j = phi i64 [0, %row], [%j2, %wide]",
        *many.lines,
    ]
    lines += [f"%j2 = add i64 %j, {lanes}", "%more = icmp slt i64 %j2, %full"]
    lines += ["br i1 %more, label %wide, label %check", "check:", "br i1 %rest, label %tail, label %end"]
    lines += ["tail:", "%t = phi i64 [%full, %check], [%t2, %tail]", *one.lines]
    lines += ["%t2 = add i64 %t, 1", "%on = icmp slt i64 %t2, %n", "br i1 %on, label %tail, label %end", "end:"]
    lines += [f"%q{k} = getelementptr i8, ptr %p{k}, i64 %r{k}" for k in range(count)]
    lines += ["%i2 = add i64 %i, 1", "%again = icmp slt i64 %i2, %rows", "br i1 %again, label %row, label %done"]
    lines += ["done:", "ret void"]
    return _text(row.declared, "define void @body(ptr %a) noinline nounwind strictfp", lines)


def _text(declared: set[str], head: str, lines: Sequence[str], before: str = "") -> str:
    return "\n".join([*sorted(declared), before, f"{head} {{", "entry:", *lines, "}", _KERNEL])


def kernel_text(declared: set[str], lines: Sequence[str]) -> str:
    """A kernel of these lines."""
    return _text(declared, "define void @body(ptr %a) noinline nounwind strictfp", lines)


FOLDS = {"add": "add", "logical_or": "or", "logical_and": "and", "maximum": "max", "minimum": "min"}
"""Folds that have a kernel, by the ufunc; floating-point sums are pairwise, the others go in any order."""


def fold_text(element: NativeElement, kinds: str, ufunc: str, dtype: AnyDType) -> str:
    """A kernel that folds the function's one result over one row, of at least eight elements. Arguments: the row's length, a word
    that is not read, arrays, where the result goes, scalars."""
    if dtype.kind == "f":
        return _pairwise(element, kinds, dtype)
    count, lanes = len(element.arrays) + 1, element.lanes
    bases = [f"%b{k}" for k in range(count)]
    own = TYPES[dtype]
    held = element.results[0][2]
    how = FOLDS[ufunc]
    row = _Row(element, kinds, bases)
    wide, (value,) = row.results(lanes, "v", "%j")
    one, (single,) = row.results(1, "t", "%t")

    def joined(w: Writer, a: str, value: str) -> str:
        value = w.cast(value, held, dtype) or value
        if how in ("max", "min"):
            return w.call(("s" if dtype.kind == "i" else "u") + how, dtype, a, value)
        return w.put(f"{how} {w.of(dtype)} {a}, {value}")

    after, end = joined(wide, "%acc", value), joined(one, "%sum", single)
    many = f"<{lanes} x {own}>"
    name = (("s" if dtype.kind == "i" else "u") + how) if how in ("max", "min") else how
    whole = f"@llvm.vector.reduce.{name}.v{lanes}{own}"
    start = _identity(how, dtype)
    lines = [*word("%n", 0), *_opened(element, count), f"%full = and i64 %n, -{lanes}", *row.lines]
    lines += ["%many = icmp sgt i64 %full, 0", "br i1 %many, label %wide, label %check"]
    lines += ["wide:", "%j = phi i64 [0, %entry], [%j2, %wide]"]
    lines += [f"%acc = phi {many} [{wide.number(own, start)}, %entry], [{after}, %wide]", *wide.lines]
    lines += [f"%j2 = add i64 %j, {lanes}", "%more = icmp slt i64 %j2, %full", "br i1 %more, label %wide, label %check"]
    lines += ["check:", f"%all = phi {many} [{wide.number(own, start)}, %entry], [{after}, %wide]"]
    lines += [f"%first = call {own} {whole}({many} %all)", "%rest = icmp slt i64 %full, %n"]
    lines += ["br i1 %rest, label %tail, label %done", "tail:", "%t = phi i64 [%full, %check], [%t2, %tail]"]
    lines += [f"%sum = phi {own} [%first, %check], [{end}, %tail]", *one.lines, "%t2 = add i64 %t, 1"]
    lines += ["%on = icmp slt i64 %t2, %n", "br i1 %on, label %tail, label %done"]
    lines += ["done:", f"%out = phi {own} [%first, %check], [{end}, %tail]"]
    if dtype == BOOL:
        lines += ["%byte = zext i1 %out to i8", f"store i8 %byte, ptr %b{count - 1}"]
    else:
        lines.append(f"store {own} %out, ptr %b{count - 1}, align {dtype.itemsize}")
    lines.append("ret void")
    declared = {*row.declared, *wide.declared, *one.declared, f"declare {own} {whole}({many})"}
    return _text(declared, "define void @body(ptr %a) noinline nounwind strictfp", lines)


def _identity(how: str, dtype: AnyDType) -> int | str:
    if dtype == BOOL:
        return "true" if how == "and" else "false"
    if how in ("add", "or"):
        return 0
    bits: int = 8 * dtype.itemsize
    if dtype.kind == "u":
        return 0 if how == "max" else -1
    return -(1 << (bits - 1)) if how == "max" else (1 << (bits - 1)) - 1


def _pairwise(element: NativeElement, kinds: str, dtype: AnyDType) -> str:
    """NumPy's pairwise sum, as a function that calls itself on halves."""
    count = len(element.arrays) + 1
    bases = [f"%b{k}" for k in range(count)]
    own = TYPES[dtype]
    row = f"<8 x {own}>"
    still, last = _Row(element, kinds, bases), Writer(1, "h")
    start, (opening,) = still.results(8, "s", "%low")
    wide, (value,) = still.results(8, "v", "%j")
    one, (rest,) = still.results(1, "t", "%t")
    both = Writer(1, "b")
    total = both.exactly("fadd", dtype, "%left", "%right")
    after = wide.exactly("fadd", dtype, "%acc", value)
    end = one.exactly("fadd", dtype, "%sum", rest)
    parts = [last.put(f"extractelement {row} %all, i64 {k}") for k in range(8)]
    while len(parts) > 1:
        parts = [last.exactly("fadd", dtype, a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    lines = ["%big = icmp sgt i64 %n, 128", "br i1 %big, label %split, label %leaf", "split:"]
    lines += ["%lower = lshr i64 %n, 1", "%half = and i64 %lower, -8", "%upper = add i64 %low, %half"]
    lines += ["%size = sub i64 %n, %half", f"%left = call {own} @sum(ptr %a, i64 %low, i64 %half)"]
    lines += [f"%right = call {own} @sum(ptr %a, i64 %upper, i64 %size)", *both.lines]
    lines += [f"ret {own} {total}", "leaf:", *_opened(element, count), "%eights = and i64 %n, -8"]
    lines += [
        "%full = add i64 %low, %eights",
        "%stop = add i64 %low, %n",
        *still.lines,
        *start.lines,
        "%second = add i64 %low, 8",
    ]
    lines += ["%many = icmp slt i64 %second, %full", "br i1 %many, label %wide, label %check"]
    lines += ["wide:", "%j = phi i64 [%second, %leaf], [%j2, %wide]"]
    lines += [f"%acc = phi {row} [{opening}, %leaf], [{after}, %wide]", *wide.lines, "%j2 = add i64 %j, 8"]
    lines += ["%more = icmp slt i64 %j2, %full", "br i1 %more, label %wide, label %check"]
    lines += ["check:", f"%all = phi {row} [{opening}, %leaf], [{after}, %wide]", *last.lines]
    lines += ["%left_over = icmp slt i64 %full, %stop", "br i1 %left_over, label %tail, label %done"]
    lines += ["tail:", "%t = phi i64 [%full, %check], [%t2, %tail]"]
    lines += [f"%sum = phi {own} [{parts[0]}, %check], [{end}, %tail]", *one.lines, "%t2 = add i64 %t, 1"]
    lines += ["%on = icmp slt i64 %t2, %stop", "br i1 %on, label %tail, label %done"]
    lines += ["done:", f"%out = phi {own} [{parts[0]}, %check], [{end}, %tail]", f"ret {own} %out"]
    before = "\n".join(
        [f"define {own} @sum(ptr %a, i64 %low, i64 %n) noinline nounwind strictfp {{", "entry:", *lines, "}"]
    )
    place = 2 + 3 * (count - 1)
    calls = [*word("%n", 0), *word("%out", place, "ptr"), f"%v = call {own} @sum(ptr %a, i64 0, i64 %n)"]
    calls += [f"store {own} %v, ptr %out, align {dtype.itemsize}", "ret void"]
    declared = still.declared | last.declared | both.declared | wide.declared | one.declared
    return _text(declared, "define void @body(ptr %a) noinline nounwind strictfp", calls, before)
