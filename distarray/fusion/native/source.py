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

from distarray.fusion.native.element import Element
from distarray.fusion.native.operations import BOOL, TYPES, Writer, memory_type

__all__ = ["FOLDS", "elementwise_text", "fold_text"]

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


def _word(name: str, place: int, dtype: str = "i64") -> list[str]:
    return [
        f"{name}_at = getelementptr i64, ptr %a, i64 {place}",
        f"{name} = load {dtype}, ptr {name}_at",
    ]


def _opened(element: Element, arrays: int) -> list[str]:
    """Lines that read the arguments behind the two sizes: `%b0, %r0, %e0, …` of arrays, `%c0, …` scalars."""
    lines = []
    for k in range(arrays):
        lines += _word(f"%b{k}", 2 + 3 * k, "ptr") + _word(f"%r{k}", 3 + 3 * k) + _word(f"%e{k}", 4 + 3 * k)
    for k, dtype in enumerate(element.scalars):
        lines += _word(f"%m{k}", 2 + 3 * arrays + k, memory_type(dtype))
        lines.append(f"%c{k} = {'trunc i8 ' + f'%m{k}' + ' to i1' if dtype == BOOL else _kept(dtype, f'%m{k}')}")
    return lines


def _kept(dtype: Any, value: str) -> str:
    """A copy of a value, under a name of its own."""
    return f"select i1 true, {TYPES[dtype]} {value}, {TYPES[dtype]} {value}"


def _spread(w: Writer, value: str, dtype: Any) -> str:
    """A scalar in all lanes."""
    if w.lanes == 1:
        return value
    own, wide = TYPES[dtype], w.of(dtype)
    first = w.put(f"insertelement {wide} poison, {own} {value}, i64 0")
    zeros = f"<{w.lanes} x i32> zeroinitializer"
    return w.put(f"shufflevector {wide} {first}, {wide} poison, {zeros}")


def _loaded(w: Writer, dtype: Any, kind: str, base: str, step: str, place: str) -> str:
    """The elements from `place` on of a row that starts at `base`."""
    held = memory_type(dtype)
    if kind == "v":
        at = w.put(f"getelementptr {held}, ptr {base}, i64 {place}")
        value = w.put(f"load {w.wide(held)}, ptr {at}, align {dtype.itemsize}")
    elif kind == "s":
        value = w.put(f"load {held}, ptr {base}, align {dtype.itemsize}")
        value = _spread(w, value, dtype) if dtype != BOOL else _spread_byte(w, value)
    else:
        value = "poison"
        for lane in range(w.lanes):
            index = w.put(f"add i64 {place}, {lane}")
            offset = w.put(f"mul i64 {index}, {step}")
            at = w.put(f"getelementptr i8, ptr {base}, i64 {offset}")
            one = w.put(f"load {held}, ptr {at}, align {dtype.itemsize}")
            if w.lanes == 1:
                value = one
            else:
                value = w.put(f"insertelement {w.wide(held)} {value}, {held} {one}, i64 {lane}")
    if dtype == BOOL:
        value = w.put(f"icmp ne {w.wide('i8')} {value}, {w.number('i8', 0)}")
    return value


def _spread_byte(w: Writer, value: str) -> str:
    if w.lanes == 1:
        return value
    first = w.put(f"insertelement {w.wide('i8')} poison, i8 {value}, i64 0")
    return w.put(f"shufflevector {w.wide('i8')} {first}, {w.wide('i8')} poison, <{w.lanes} x i32> zeroinitializer")


def _stored(w: Writer, dtype: Any, kind: str, base: str, step: str, place: str, value: str) -> None:
    held = memory_type(dtype)
    if dtype == BOOL:
        value = w.put(f"zext {w.wide('i1')} {value} to {w.wide('i8')}")
    if kind == "v":
        at = w.put(f"getelementptr {held}, ptr {base}, i64 {place}")
        w.lines.append(f"store {w.wide(held)} {value}, ptr {at}, align {dtype.itemsize}")
        return
    for lane in range(w.lanes):
        index = w.put(f"add i64 {place}, {lane}")
        offset = w.put(f"mul i64 {index}, {step}")
        at = w.put(f"getelementptr i8, ptr {base}, i64 {offset}")
        one = value if w.lanes == 1 else w.put(f"extractelement {w.wide(held)} {value}, i64 {lane}")
        w.lines.append(f"store {held} {one}, ptr {at}, align {dtype.itemsize}")


def _values(w: Writer, element: Element, kinds: str, bases: Sequence[str], place: str) -> list[str]:
    """The results of the elements from `place` on."""
    arrays = [
        _loaded(w, t, kind, base, f"%e{k}", place)
        for k, (t, kind, base) in enumerate(zip(element.arrays, kinds, bases, strict=False))
    ]
    scalars = [_spread(w, f"%c{k}", t) for k, t in enumerate(element.scalars)]
    return element.write(w, arrays, scalars)


def elementwise_text(element: Element, kinds: str) -> str:
    """A kernel that stores the function's results.

    `kinds`, for each array and each result, how it runs along rows: ``v`` one behind the other, ``s`` one element for all, ``x``
    with a stride of its own. Arguments: length of rows, their number, arrays, results, scalars.
    """
    count, lanes = len(kinds), element.lanes
    first = len(element.arrays)
    bases = [f"%p{k}" for k in range(count)]

    def body(lanes: int, prefix: str, place: str) -> Writer:
        w = Writer(lanes, prefix)
        results = _values(w, element, kinds, bases, place)
        for k, (value, (_, _, t)) in enumerate(zip(results, element.results, strict=True), first):
            _stored(w, t, kinds[k], bases[k], f"%e{k}", place, value)
        return w

    many, one = body(lanes, "v", "%j"), body(1, "t", "%t")
    lines = [*_word("%n", 0), *_word("%rows", 1), *_opened(element, count)]
    lines += [f"%full = and i64 %n, -{lanes}", "%many = icmp sgt i64 %full, 0", "%rest = icmp slt i64 %full, %n"]
    lines += ["br label %row", "row:", "%i = phi i64 [0, %entry], [%i2, %end]"]
    lines += [f"%p{k} = phi ptr [%b{k}, %entry], [%q{k}, %end]" for k in range(count)]
    lines += ["br i1 %many, label %wide, label %check", "wide:", "%j = phi i64 [0, %row], [%j2, %wide]", *many.lines]
    lines += [f"%j2 = add i64 %j, {lanes}", "%more = icmp slt i64 %j2, %full"]
    lines += ["br i1 %more, label %wide, label %check", "check:", "br i1 %rest, label %tail, label %end"]
    lines += ["tail:", "%t = phi i64 [%full, %check], [%t2, %tail]", *one.lines]
    lines += ["%t2 = add i64 %t, 1", "%on = icmp slt i64 %t2, %n", "br i1 %on, label %tail, label %end", "end:"]
    lines += [f"%q{k} = getelementptr i8, ptr %p{k}, i64 %r{k}" for k in range(count)]
    lines += ["%i2 = add i64 %i, 1", "%again = icmp slt i64 %i2, %rows", "br i1 %again, label %row, label %done"]
    lines += ["done:", "ret void"]
    return _text({*many.declared, *one.declared}, "define void @body(ptr %a) noinline nounwind", lines)


def _text(declared: set[str], head: str, lines: Sequence[str], before: str = "") -> str:
    return "\n".join([*sorted(declared), before, f"{head} {{", "entry:", *lines, "}", _KERNEL])


FOLDS = {"add": "add", "logical_or": "or", "logical_and": "and", "maximum": "max", "minimum": "min"}
"""Folds that have a kernel, by the ufunc; floating-point sums are pairwise, the others go in any order."""


def fold_text(element: Element, kinds: str, ufunc: str, dtype: Any) -> str:
    """A kernel that folds the function's one result over one row, of at least eight elements. Arguments: the row's length, a word
    that is not read, arrays, where the result goes, scalars."""
    if dtype.kind == "f":
        return _pairwise(element, kinds, dtype)
    count, lanes = len(element.arrays) + 1, element.lanes
    bases = [f"%b{k}" for k in range(count)]
    own = TYPES[dtype]
    held = element.results[0][2]
    how = FOLDS[ufunc]
    wide, one = Writer(lanes, "v"), Writer(1, "t")

    def joined(w: Writer, a: str, value: str) -> str:
        value = w.cast(value, held, dtype) or value
        if how in ("max", "min"):
            return w.call(("s" if dtype.kind == "i" else "u") + how, dtype, a, value)
        return w.put(f"{how} {w.of(dtype)} {a}, {value}")

    after = joined(wide, "%acc", _values(wide, element, kinds, bases, "%j")[0])
    end = joined(one, "%sum", _values(one, element, kinds, bases, "%t")[0])
    row = f"<{lanes} x {own}>"
    name = (("s" if dtype.kind == "i" else "u") + how) if how in ("max", "min") else how
    whole = f"@llvm.vector.reduce.{name}.v{lanes}{own}"
    start = _identity(how, dtype)
    lines = [*_word("%n", 0), *_opened(element, count), f"%full = and i64 %n, -{lanes}"]
    lines += ["%many = icmp sgt i64 %full, 0", "br i1 %many, label %wide, label %check"]
    lines += ["wide:", "%j = phi i64 [0, %entry], [%j2, %wide]"]
    lines += [f"%acc = phi {row} [{wide.number(own, start)}, %entry], [{after}, %wide]", *wide.lines]
    lines += [f"%j2 = add i64 %j, {lanes}", "%more = icmp slt i64 %j2, %full", "br i1 %more, label %wide, label %check"]
    lines += ["check:", f"%all = phi {row} [{wide.number(own, start)}, %entry], [{after}, %wide]"]
    lines += [f"%first = call {own} {whole}({row} %all)", "%rest = icmp slt i64 %full, %n"]
    lines += ["br i1 %rest, label %tail, label %done", "tail:", "%t = phi i64 [%full, %check], [%t2, %tail]"]
    lines += [f"%sum = phi {own} [%first, %check], [{end}, %tail]", *one.lines, "%t2 = add i64 %t, 1"]
    lines += ["%on = icmp slt i64 %t2, %n", "br i1 %on, label %tail, label %done"]
    lines += ["done:", f"%out = phi {own} [%first, %check], [{end}, %tail]"]
    if dtype == BOOL:
        lines += ["%byte = zext i1 %out to i8", f"store i8 %byte, ptr %b{count - 1}"]
    else:
        lines.append(f"store {own} %out, ptr %b{count - 1}, align {dtype.itemsize}")
    lines.append("ret void")
    declared = {*wide.declared, *one.declared, f"declare {own} {whole}({row})"}
    return _text(declared, "define void @body(ptr %a) noinline nounwind", lines)


def _identity(how: str, dtype: Any) -> int | str:
    if dtype == BOOL:
        return "true" if how == "and" else "false"
    if how in ("add", "or"):
        return 0
    bits: int = 8 * dtype.itemsize
    if dtype.kind == "u":
        return 0 if how == "max" else -1
    return -(1 << (bits - 1)) if how == "max" else (1 << (bits - 1)) - 1


def _pairwise(element: Element, kinds: str, dtype: Any) -> str:
    """NumPy's pairwise sum, as a function that calls itself on halves."""
    count = len(element.arrays) + 1
    bases = [f"%b{k}" for k in range(count)]
    own = TYPES[dtype]
    row = f"<8 x {own}>"
    start, wide, one, last = Writer(8, "s"), Writer(8, "v"), Writer(1, "t"), Writer(1, "h")
    opening = _values(start, element, kinds, bases, "%low")[0]
    value = _values(wide, element, kinds, bases, "%j")[0]
    after = wide.put(f"fadd {row} %acc, {value}")
    rest = _values(one, element, kinds, bases, "%t")[0]
    end = one.put(f"fadd {own} %sum, {rest}")
    parts = [last.put(f"extractelement {row} %all, i64 {k}") for k in range(8)]
    while len(parts) > 1:
        parts = [last.put(f"fadd {own} {a}, {b}") for a, b in zip(parts[::2], parts[1::2], strict=True)]
    lines = ["%big = icmp sgt i64 %n, 128", "br i1 %big, label %split, label %leaf", "split:"]
    lines += ["%lower = lshr i64 %n, 1", "%half = and i64 %lower, -8", "%upper = add i64 %low, %half"]
    lines += ["%size = sub i64 %n, %half", f"%left = call {own} @sum(ptr %a, i64 %low, i64 %half)"]
    lines += [f"%right = call {own} @sum(ptr %a, i64 %upper, i64 %size)", f"%both = fadd {own} %left, %right"]
    lines += [f"ret {own} %both", "leaf:", *_opened(element, count), "%eights = and i64 %n, -8"]
    lines += ["%full = add i64 %low, %eights", "%stop = add i64 %low, %n", *start.lines, "%second = add i64 %low, 8"]
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
    before = "\n".join([f"define {own} @sum(ptr %a, i64 %low, i64 %n) noinline nounwind {{", "entry:", *lines, "}"])
    place = 2 + 3 * (count - 1)
    calls = [*_word("%n", 0), *_word("%out", place, "ptr"), f"%v = call {own} @sum(ptr %a, i64 0, i64 %n)"]
    calls += [f"store {own} %v, ptr %out, align {dtype.itemsize}", "ret void"]
    declared = {*start.declared, *wide.declared, *one.declared}
    return _text(declared, "define void @body(ptr %a) noinline nounwind", calls, before)
