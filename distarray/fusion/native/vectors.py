"""Loops over sequences, by kernels: running sums, sums of short rows, elements chosen by a mask, rows by number, counts of
integers, elements parted by keys.

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

__all__ = ["PIECES", "accumulated", "compressed", "integers_counted", "parted", "rows_summed", "rows_taken"]

_RUNNING = {"add": "fadd", "multiply": "fmul"}
PIECES = 8
"""Arrays among which a row is looked for."""

_AHEAD = 8
"""Rows that are asked for before they are copied."""

_TABLES = 4
"""Tables of counts: an element waits for the one that went to the same table before it."""

_KEYS = 15
"""At most so many keys part elements: each element is compared with all of them."""

_LANES = 8
"""Elements that are compared at a time while they are counted."""

_PARTED = 16
"""Steps of expressions that take NumPy as long as bringing an element to its part."""

_COUNTABLE = 2**32 - 1
"""So many elements are counted in four bytes."""

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
    return not _is_heard(call(pack("@6q", *words)))


def rows_summed(rows: np.ndarray[Any, Any], out: np.ndarray[Any, Any], start: float) -> bool:
    """The sums of a matrix's rows of two to eight elements, in NumPy's order and with what NumPy adds a row to; False, and nothing
    of use is written, where NumPy has to do it. Both lie in C order."""
    dtype, length = rows.dtype, rows.shape[1]
    if dtype.kind != "f" or dtype not in TYPES or not (rows.flags.aligned and out.flags.aligned and dtype.isnative):
        return False
    key = ("row sums", length, dtype, str(start))
    call = _function(key, partial(_sums_text, length, dtype, start), rows.size)
    if call is None:
        return False
    flags = call(pack("@3q", out.size, _address(rows), _address(out)))
    return not _is_heard(flags)


def _is_heard(flags: int) -> bool:
    """Whether the caller asks for more of any of the conditions than to pass over it."""
    state: Any = np.geterr()
    return any(flags & bit and state[kind] != "ignore" for kind, bit in CONDITIONS.items())


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


def parted(array: np.ndarray[Any, Any], out: DeviceArray, cuts: Sequence[tuple[Any, int | None]]) -> list[int] | None:
    """Write an array's elements to another one so that ascending keys cut it in parts, and say where the parts begin; None, and
    nothing of use is written, where NumPy has to do it, as where equal elements may be told apart (zeros of both signs, NaN).

    Parameters
    ----------
    cuts : sequence of (number, int or None)
        A key, and how many of its equals come before the cut; None: all of them.
    """
    dtype = array.dtype
    item, count = dtype.itemsize, len(cuts)
    if dtype.kind not in "iuf" or dtype not in TYPES or item < 4 or not 0 < count <= _KEYS or any(n for _, n in cuts):
        return None
    if not (array.ndim == 1 and array.flags.c_contiguous and out.flags.c_contiguous and array.flags.aligned):
        return None
    if array.size > _COUNTABLE and item == 4:
        return None
    keys = _least(dtype, cuts)
    if keys is None:
        return None
    steps = _PARTED * array.size
    first = _function(("parts", dtype, count), partial(_sizes_text, dtype, count), steps)
    second = _function(("parted", dtype, count), partial(_parted_text, dtype, count), steps)
    if first is None or second is None:
        return None
    whole = array.size - array.size % _LANES
    rest = array[whole:]
    behind = np.zeros(count, np.int64)
    special = np.zeros(1, np.int64)
    first(pack("@5q", whole, _address(array), _address(keys), _address(behind), _address(special)))
    if special[0] or (dtype.kind == "f" and bool((np.isnan(rest) | (np.signbit(rest) & (rest == 0))).any())):
        return None
    behind += [np.count_nonzero(rest >= key) for key in keys]
    if bool((behind[1:] > behind[:-1]).any()):  # keys that do not ascend
        return None
    places = array.size - behind
    # the table has a name, as the kernel reads it after this line has its address
    table = np.concatenate([np.zeros(1, np.int64), places])
    second(pack("@5q", array.size, _address(array), _address(keys), _address(table), _address(out)))
    found: list[int] = places.tolist()
    return found


def _least(dtype: np.dtype[Any], cuts: Sequence[tuple[Any, int | None]]) -> np.ndarray[Any, Any] | None:
    """For each cut the least element behind it, or NaN where there is none; None where a key says less than its bits."""
    keys = np.array([value for value, _ in cuts], dtype)
    after = np.array([equals is None for _, equals in cuts])
    if dtype.kind != "f":
        if bool((after & (keys == np.iinfo(dtype).max)).any()):
            return None
        least: np.ndarray[Any, Any] = keys + after.astype(dtype)
        return least
    if np.isnan(keys).any():
        return None
    with np.errstate(all="ignore"):
        larger = np.where(keys == np.inf, np.nan, np.nextafter(keys, np.inf, dtype=dtype))
    return np.where(after, larger, keys).astype(dtype)


# --- texts --------------------------------------------------------------------------------------------------------------


def _sums_text(length: int, dtype: AnyDType, start: float) -> str:
    """A kernel that adds the elements of each row: one by one, and eight in pairs."""
    w, own = Writer(1, "v"), TYPES[dtype]
    held = []
    for k in range(length):
        at = w.put(f"getelementptr {own}, ptr %p, i64 {k}")
        held.append(w.put(f"load {own}, ptr {at}, align {dtype.itemsize}"))
    if length == 8:
        while len(held) > 1:
            held = [w.exactly("fadd", dtype, a, b) for a, b in zip(held[::2], held[1::2], strict=True)]
    total = held[0]
    for value in held[1:]:
        total = w.exactly("fadd", dtype, total, value)
    total = w.exactly("fadd", dtype, total, str(start))
    lines = [*word("%n", 0), *word("%from", 1, "ptr"), *word("%to", 2, "ptr"), "br label %row", "row:"]
    lines += ["%i = phi i64 [0, %entry], [%i2, %row]", "%p = phi ptr [%from, %entry], [%p2, %row]", *w.lines]
    lines += [f"%at = getelementptr {own}, ptr %to, i64 %i", f"store {own} {total}, ptr %at, align {dtype.itemsize}"]
    lines += [f"%p2 = getelementptr {own}, ptr %p, i64 {length}", "%i2 = add i64 %i, 1"]
    lines += ["%more = icmp slt i64 %i2, %n", "br i1 %more, label %row, label %done", "done:", "ret void"]
    return kernel_text(w.declared, lines)


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


def _sizes_text(dtype: np.dtype[Any], keys: int) -> str:
    """How many elements each key or a larger one has, some at a time; whether there are any that have equals of other bits."""
    own, bits = TYPES[dtype], f"i{8 * dtype.itemsize}"
    many, wide = f"<{_LANES} x {own}>", f"<{_LANES} x {bits}>"
    lines = [*word("%n", 0), *word("%from", 1, "ptr"), *word("%keys", 2, "ptr"), *word("%behind", 3, "ptr")]
    lines += word("%special", 4, "ptr")
    for k in range(keys):
        lines += [f"%k{k}a = getelementptr {own}, ptr %keys, i64 {k}", f"%k{k} = load {own}, ptr %k{k}a"]
        lines += _everywhere(f"%v{k}", own, f"%k{k}")
        lines += [f"%b{k} = getelementptr i64, ptr %behind, i64 {k}"]
    lines += _everywhere("%low", bits, str(-(1 << (8 * dtype.itemsize - 1))))
    lines += ["%some = icmp sgt i64 %n, 0", "br i1 %some, label %loop, label %done", "loop:"]
    lines += [
        "%j = phi i64 [0, %entry], [%j2, %loop]",
        f"%odd = phi <{_LANES} x i1> [zeroinitializer, %entry], [%odd2, %loop]",
    ]
    lines += [f"%c{k} = phi {wide} [zeroinitializer, %entry], [%d{k}, %loop]" for k in range(keys)]
    lines += [f"%p = getelementptr {own}, ptr %from, i64 %j", f"%x = load {many}, ptr %p, align {dtype.itemsize}"]
    for k in range(keys):
        lines += [f"%g{k} = {_COMPARED[dtype.kind]} {many} %x, %v{k}", f"%s{k} = sext <{_LANES} x i1> %g{k} to {wide}"]
        lines += [f"%d{k} = sub {wide} %c{k}, %s{k}"]
    if dtype.kind == "f":
        lines += [
            f"%none = fcmp uno {many} %x, %x",
            f"%y = bitcast {many} %x to {wide}",
            f"%zero = icmp eq {wide} %y, %low",
        ]
        lines += [f"%bad = or <{_LANES} x i1> %none, %zero", f"%odd2 = or <{_LANES} x i1> %odd, %bad"]
    else:
        lines += [f"%odd2 = or <{_LANES} x i1> %odd, zeroinitializer"]
    lines += [
        f"%j2 = add i64 %j, {_LANES}",
        "%more = icmp slt i64 %j2, %n",
        "br i1 %more, label %loop, label %end",
        "end:",
    ]
    declared = {f"declare {bits} @llvm.vector.reduce.add.v{_LANES}{bits}({wide})"}
    for k in range(keys):
        lines += [f"%t{k} = call {bits} @llvm.vector.reduce.add.v{_LANES}{bits}({wide} %d{k})"]
        total = f"%t{k}"
        if bits != "i64":
            lines += [f"%u{k} = zext {bits} %t{k} to i64"]
            total = f"%u{k}"
        lines += [f"store i64 {total}, ptr %b{k}"]
    lines += [f"%met = bitcast <{_LANES} x i1> %odd2 to i{_LANES}", f"%word = zext i{_LANES} %met to i64"]
    return kernel_text(declared, [*lines, "store i64 %word, ptr %special", "br label %done", "done:", "ret void"])


_COMPARED = {"f": "fcmp oge", "i": "icmp sge", "u": "icmp uge"}


def _everywhere(name: str, own: str, value: str) -> list[str]:
    """Lines that make a vector of one value."""
    many = f"<{_LANES} x {own}>"
    return [
        f"{name}i = insertelement {many} undef, {own} {value}, i32 0",
        f"{name} = shufflevector {many} {name}i, {many} undef, <{_LANES} x i32> zeroinitializer",
    ]


def _parted_text(dtype: np.dtype[Any], keys: int) -> str:
    """Each element goes to the place that is next in its part, which is how many keys it reaches. The places stay in registers:
    neighbours of one part would wait for each other in memory."""
    own = TYPES[dtype]
    lines = [*word("%n", 0), *word("%from", 1, "ptr"), *word("%keys", 2, "ptr"), *word("%table", 3, "ptr")]
    lines += word("%to", 4, "ptr")
    for k in range(keys):
        lines += [f"%k{k}a = getelementptr {own}, ptr %keys, i64 {k}", f"%k{k} = load {own}, ptr %k{k}a"]
    for k in range(keys + 1):
        lines += [f"%t{k}a = getelementptr i64, ptr %table, i64 {k}", f"%t{k} = load i64, ptr %t{k}a"]
    lines += ["%some = icmp sgt i64 %n, 0", "br i1 %some, label %loop, label %done", "loop:"]
    lines += ["%j = phi i64 [0, %entry], [%j2, %loop]"]
    lines += [f"%c{k} = phi i64 [%t{k}, %entry], [%d{k}, %loop]" for k in range(keys + 1)]
    lines += [f"%p = getelementptr {own}, ptr %from, i64 %j", f"%x = load {own}, ptr %p"]
    place, reached = "%c0", "1"
    for k in range(keys):
        lines += [f"%g{k} = {_COMPARED[dtype.kind]} {own} %x, %k{k}", f"%z{k} = zext i1 %g{k} to i64"]
        lines += [f"%s{k} = select i1 %g{k}, i64 %c{k + 1}, i64 {place}"]
        lines += [f"%e{k} = sub i64 {reached}, %z{k}", f"%d{k} = add i64 %c{k}, %e{k}"]
        place, reached = f"%s{k}", f"%z{k}"
    lines += [f"%d{keys} = add i64 %c{keys}, {reached}", f"%o = getelementptr {own}, ptr %to, i64 {place}"]
    lines += [f"store {own} %x, ptr %o", "%j2 = add i64 %j, 1", "%more = icmp slt i64 %j2, %n"]
    return kernel_text(set(), [*lines, "br i1 %more, label %loop, label %done", "done:", "ret void"])
