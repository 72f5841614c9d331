"""Loops over sequences, by kernels: running sums, elements chosen by a mask, rows by number, counts of integers.

NumPy's own loops pass what they carry through memory, write positions down, or call for each row; these keep it in the
processor, and count in several tables, so that equal neighbours do not wait for each other. The bits are NumPy's: a running sum
adds one element after the other, and where a floating-point condition is met that somebody wants to hear of, NumPy does the work
again and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from struct import pack
from typing import Any

import numpy as np

from distarray.devices.arrays import AnyDType, DeviceArray
from distarray.fusion.native import run
from distarray.fusion.native.machine import CONDITIONS
from distarray.fusion.native.operations import TYPES, Writer
from distarray.fusion.native.source import kernel_text, word

__all__ = ["PIECES", "accumulated", "compressed", "integers_counted", "rows_taken"]

_RUNNING = {"add": "fadd", "multiply": "fmul"}
PIECES = 8
"""Arrays among which a row is looked for."""

_AHEAD = 8
"""Rows that are asked for before they are copied."""

_TABLES = 4
"""Tables of counts: an element waits for the one that went to the same table before it."""

_COUNTED = 4
"""Steps of expressions that take NumPy as long as counting an element."""

_spent: dict[tuple[Any, ...], int] = {}


def _function(key: tuple[Any, ...], text: Callable[[], str], elements: int) -> Any:
    """The function of a kernel; None as long as it is not worth one."""
    if elements < run.LEAST or not run.is_offered():
        return None
    if len(_spent) > 1000:
        _spent.clear()
    spent = _spent[key] = _spent.get(key, 0) + elements
    return run.function_of(key, text, spent) if run.is_due(spent) else None


def _address(array: Any) -> int:
    place: int = array.__array_interface__["data"][0]
    return place


def accumulated(
    ufunc: np.ufunc, before: np.ndarray[Any, Any], array: np.ndarray[Any, Any], out: np.ndarray[Any, Any]
) -> bool:
    """Running sums or products of a vector into another one of its dtype, from an element `before` where there is one; False, and
    nothing of use is written, where NumPy has to do it."""
    dtype = out.dtype
    if (
        ufunc.__name__ not in _RUNNING
        or array.ndim != 1
        or array.dtype != dtype
        or dtype.kind != "f"
        or dtype not in TYPES
    ):
        return False
    if not (array.flags.aligned and out.flags.aligned and dtype.isnative):
        return False
    first = int(before is None)
    key = ("running", ufunc.__name__, dtype)
    call = _function(key, partial(_running_text, ufunc.__name__, dtype), array.size - first)
    if call is None:
        return False
    if before is None:
        out[0] = array[0]
        start = out
    else:
        start = np.ascontiguousarray(before, dtype)
    step, far = array.strides[0], out.strides[0]
    words = (
        array.size - first,
        _address(start),
        _address(array) + first * step,
        step,
        _address(out) + first * far,
        far,
    )
    flags = call(pack("@6q", *words))
    state: Any = np.geterr()
    return not any(flags & bit and state[kind] != "ignore" for kind, bit in CONDITIONS.items())


def compressed(array: np.ndarray[Any, Any], mask: np.ndarray[Any, Any], out: np.ndarray[Any, Any]) -> bool:
    """``out[...] = array[mask]`` for vectors; False, and nothing is done, where NumPy has to do it. `out` has as many elements as
    the mask is True for."""
    item = array.dtype.itemsize
    if array.ndim != 1 or item not in (1, 2, 4, 8) or array.dtype.hasobject:
        return False
    if not (array.flags.c_contiguous and mask.flags.c_contiguous and out.flags.c_contiguous):
        return False
    call = _function(("chosen", item), partial(_chosen_text, 8 * item), mask.size)
    if call is None:
        return False
    if out.size:
        call(pack("@4q", _address(mask), _address(array), _address(out), out.size))
    return True


def rows_taken(
    arrays: Sequence[Any], starts: Sequence[int], index: np.ndarray[Any, Any], shape: tuple[int, ...]
) -> Callable[[Any], None] | None:
    """What writes ``whole[index]`` into an array of this shape and their dtype, in C order, for rows of a whole that lies in
    parts, each from one of its rows on; None where NumPy has to do it. The index is in range, and the parts outlive the call."""
    dtype = arrays[0].dtype
    row = dtype.itemsize * prod(shape[1:])
    if len(arrays) > PIECES or not row or dtype.hasobject or index.dtype != np.int64:
        return None
    if not all(a.flags.c_contiguous for a in (*arrays, index)):
        return None
    call = _function(("rows", len(arrays), row), partial(_rows_text, len(arrays), row), prod(shape))
    if call is None:
        return None
    places = [_address(a) - start * row for a, start in zip(arrays, starts, strict=True)]
    table = np.array([*places, *starts[1:]], np.int64)

    def taken(out: DeviceArray) -> None:
        call(pack("@4q", index.size, _address(index), _address(out), _address(table)))

    return taken


def integers_counted(array: np.ndarray[Any, Any], bins: int) -> np.ndarray[Any, Any] | None:
    """How often each of 0, 1, …, `bins` - 1 stands in a vector of ``int64``; None where NumPy has to count, as where an element
    is another number."""
    if array.dtype != np.int64 or array.ndim != 1 or not (array.flags.c_contiguous and array.flags.aligned):
        return None
    call = _function(("counts",), _counts_text, _COUNTED * array.size)
    if call is None:
        return None
    tables = np.zeros((_TABLES, bins), np.int64)
    counted = array.size - array.size % _TABLES
    stopped = np.zeros(1, np.int64)
    call(pack("@5q", counted, _address(array), _address(tables), bins, _address(stopped)))
    if stopped[0]:
        return None
    found: np.ndarray[Any, Any] = tables.sum(axis=0)
    for number in array[counted:].tolist():
        if not 0 <= number < bins:
            return None
        found[number] += 1
    return found


# --- texts --------------------------------------------------------------------------------------------------------------


def _running_text(name: str, dtype: AnyDType) -> str:
    own = TYPES[dtype]
    w = Writer(1, "r")
    after = w.exactly(_RUNNING[name], dtype, "%sum", "%x")
    lines = [*word("%n", 0), *word("%start", 1, "ptr"), *word("%from", 2, "ptr"), *word("%step", 3)]
    lines += [*word("%to", 4, "ptr"), *word("%far", 5), f"%first = load {own}, ptr %start"]
    lines += ["%some = icmp sgt i64 %n, 0", "br i1 %some, label %loop, label %done", "loop:"]
    lines += ["%j = phi i64 [0, %entry], [%j2, %loop]", f"%sum = phi {own} [%first, %entry], [{after}, %loop]"]
    lines += ["%p = phi ptr [%from, %entry], [%p2, %loop]", "%q = phi ptr [%to, %entry], [%q2, %loop]"]
    lines += [f"%x = load {own}, ptr %p", *w.lines, f"store {own} {after}, ptr %q"]
    lines += ["%p2 = getelementptr i8, ptr %p, i64 %step", "%q2 = getelementptr i8, ptr %q, i64 %far"]
    lines += ["%j2 = add i64 %j, 1", "%more = icmp slt i64 %j2, %n", "br i1 %more, label %loop, label %done"]
    return kernel_text(w.declared, [*lines, "done:", "ret void"])


def _chosen_text(bits: int) -> str:
    """An element is written where the next chosen one belongs, chosen or not, and the place goes on where it was. The last one
    chosen ends the loop: nothing is written behind it."""
    own = f"i{bits}"
    lines = [*word("%mask", 0, "ptr"), *word("%from", 1, "ptr"), *word("%to", 2, "ptr"), *word("%count", 3)]
    lines += ["br label %loop", "loop:", "%j = phi i64 [0, %entry], [%j2, %loop]"]
    lines += ["%k = phi i64 [0, %entry], [%k2, %loop]", "%m = getelementptr i8, ptr %mask, i64 %j"]
    lines += ["%flag = load i8, ptr %m", f"%p = getelementptr {own}, ptr %from, i64 %j"]
    lines += [f"%q = getelementptr {own}, ptr %to, i64 %k", f"%x = load {own}, ptr %p, align 1"]
    lines += [f"store {own} %x, ptr %q, align 1", "%chosen = icmp ne i8 %flag, 0", "%one = zext i1 %chosen to i64"]
    lines += ["%k2 = add i64 %k, %one", "%j2 = add i64 %j, 1", "%more = icmp slt i64 %k2, %count"]
    return kernel_text(set(), [*lines, "br i1 %more, label %loop, label %done", "done:", "ret void"])


def _rows_text(parts: int, row: int) -> str:
    """Rows of so many bytes. The table holds for each part where row 0 of the whole would lie, and then where the second part
    begins, the third, …"""
    lines = [*word("%n", 0), *word("%index", 1, "ptr"), *word("%to", 2, "ptr"), *word("%table", 3, "ptr")]
    for k in range(1, parts):
        lines += [f"%s{k}a = getelementptr i64, ptr %table, i64 {parts + k - 1}", f"%s{k} = load i64, ptr %s{k}a"]
    lines += ["%last = sub i64 %n, 1", "br label %loop", "loop:", "%i = phi i64 [0, %entry], [%i2, %end]"]
    lines += [f"%late = add i64 %i, {_AHEAD}", "%in = icmp slt i64 %late, %last"]
    lines += ["%ahead = select i1 %in, i64 %late, i64 %last", *_found("a", "%ahead", parts, row)]
    for line in range(0, min(row, 256), 64):
        lines += [f"%l{line} = getelementptr i8, ptr %pa, i64 {line}"]
        lines += [f"call void @llvm.prefetch.p0(ptr %l{line}, i32 0, i32 1, i32 1)"]
    lines += [*_found("b", "%i", parts, row), f"%off = mul i64 %i, {row}", "%q = getelementptr i8, ptr %to, i64 %off"]
    whole = row - row % 32
    if whole:
        lines += ["br label %copy", "copy:", "%c = phi i64 [0, %loop], [%c2, %copy]"]
        lines += ["%u = getelementptr i8, ptr %pb, i64 %c", "%v = getelementptr i8, ptr %q, i64 %c"]
        lines += ["%w = load <32 x i8>, ptr %u, align 1", "store <32 x i8> %w, ptr %v, align 1", "%c2 = add i64 %c, 32"]
        lines += [f"%on = icmp slt i64 %c2, {whole}", "br i1 %on, label %copy, label %rest"]
    else:
        lines += ["br label %rest"]
    lines.append("rest:")
    at = whole
    while at < row:
        size = next(n for n in (16, 8, 4, 2, 1) if n <= row - at)
        own = f"i{8 * size}"
        lines += [f"%u{at} = getelementptr i8, ptr %pb, i64 {at}", f"%v{at} = getelementptr i8, ptr %q, i64 {at}"]
        lines += [f"%w{at} = load {own}, ptr %u{at}, align 1", f"store {own} %w{at}, ptr %v{at}, align 1"]
        at += size
    lines += ["br label %end", "end:", "%i2 = add i64 %i, 1", "%more = icmp slt i64 %i2, %n"]
    lines += ["br i1 %more, label %loop, label %done", "done:", "ret void"]
    return kernel_text({"declare void @llvm.prefetch.p0(ptr, i32, i32, i32)"}, lines)


def _found(name: str, place: str, parts: int, row: int) -> list[str]:
    """Lines that find the row whose number stands at a place of the index."""
    lines = [f"%x{name}a = getelementptr i64, ptr %index, i64 {place}", f"%x{name} = load i64, ptr %x{name}a"]
    part = "0"
    for k in range(1, parts):
        lines += [f"%g{name}{k} = icmp sge i64 %x{name}, %s{k}", f"%z{name}{k} = zext i1 %g{name}{k} to i64"]
        lines += [f"%k{name}{k} = add i64 {part}, %z{name}{k}"]
        part = f"%k{name}{k}"
    lines += [f"%t{name} = getelementptr i64, ptr %table, i64 {part}", f"%o{name} = load i64, ptr %t{name}"]
    lines += [f"%d{name} = mul i64 %x{name}, {row}", f"%h{name} = add i64 %o{name}, %d{name}"]
    return [*lines, f"%p{name} = inttoptr i64 %h{name} to ptr"]


def _counts_text() -> str:
    """So many elements at a time as there are tables, once all of them are known to be bins; where one is none, that is noted and
    the loop left."""
    lines = [*word("%n", 0), *word("%from", 1, "ptr"), *word("%table", 2, "ptr"), *word("%bins", 3)]
    lines += [*word("%stopped", 4, "ptr")]
    for k in range(1, _TABLES):
        lines += [f"%o{k} = mul i64 %bins, {k}", f"%t{k} = getelementptr i64, ptr %table, i64 %o{k}"]
    lines += ["%some = icmp sgt i64 %n, 0", "br i1 %some, label %loop, label %done", "loop:"]
    lines += ["%j = phi i64 [0, %entry], [%j2, %count]"]
    bad = "false"
    for k in range(_TABLES):
        lines += [f"%i{k} = add i64 %j, {k}", f"%p{k} = getelementptr i64, ptr %from, i64 %i{k}"]
        lines += [f"%x{k} = load i64, ptr %p{k}", f"%b{k} = icmp uge i64 %x{k}, %bins", f"%a{k} = or i1 {bad}, %b{k}"]
        bad = f"%a{k}"
    lines += [f"br i1 {bad}, label %stop, label %count", "count:"]
    for k in range(_TABLES):
        lines += [
            f"%q{k} = getelementptr i64, ptr {f'%t{k}' if k else '%table'}, i64 %x{k}",
            f"%c{k} = load i64, ptr %q{k}",
        ]
        lines += [f"%d{k} = add i64 %c{k}, 1", f"store i64 %d{k}, ptr %q{k}"]
    lines += [f"%j2 = add i64 %j, {_TABLES}", "%more = icmp slt i64 %j2, %n", "br i1 %more, label %loop, label %done"]
    return kernel_text(set(), [*lines, "stop:", "store i64 1, ptr %stopped", "br label %done", "done:", "ret void"])
