"""How one device orders what it holds: sorts, searches and cuts of single arrays, the same for NumPy's and CuPy's.

Every order here is NumPy's, NaN last, and stable. Keys are *columns*: arrays of plain numbers, the most significant
first. Complex numbers are three columns and bfloat16 is one of float32, so that whatever compares keys knows only numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from distarray.devices.arrays import AnyDType, DeviceArray, Library
from distarray.devices.divisions import divide

__all__ = [
    "argsort", "begins", "bisect", "columns", "cut_at", "first", "is_member", "merge", "parts", "search", "sort_lines",
    "take",
]  # fmt: skip

_FEW = 1 << 12
"""Below so many elements NumPy's own stable sort is as fast as a vectorised one of keys and positions."""

_CACHED = 1 << 18
"""Bytes in which a search jumps about without missing the cache."""

_BLOCK = 1 << 14
"""Elements that are copied, counted and looked at together, while a core's cache holds them."""


def columns(lib: Library, array: DeviceArray) -> list[Any]:
    """The key columns of an array: NumPy's order of its elements is the lexicographic order of these."""
    if array.dtype.kind == "c":
        # NumPy's order: [R + Rj, R + nanj, nan + Rj, nan + nanj], each by the parts that are numbers
        real, imag = array.real, array.imag
        lost_real, lost_imag = lib.isnan(real), lib.isnan(imag)
        kind = lost_real.astype(np.int8) * np.int8(2) + lost_imag.astype(np.int8)
        zero = real.dtype.type(0)
        return [kind, lib.where(lost_real, zero, real), lib.where(lost_imag, zero, imag)]
    if array.dtype.name == "bfloat16":
        return [array.astype(np.float32)]
    return [array]


def take(lib: Library, array: DeviceArray, order: DeviceArray) -> Any:
    """`array` in an order along its last axis."""
    return array[order] if array.ndim == 1 else lib.take_along_axis(array, order, axis=-1)


# --- sorts --------------------------------------------------------------------------------------------------------------


def argsort(lib: Library, keys: Sequence[Any]) -> Any:
    """The stable order of key columns along their last axis, as int64 positions."""
    order = _argsort(lib, keys[-1])
    for key in keys[-2::-1]:
        order = take(lib, order, _argsort(lib, take(lib, key, order)))
    return order


def merge(lib: Library, keys: Sequence[Any]) -> Any:
    """As :func:`argsort`, of 1-d columns that are a few sorted runs one after the other."""
    if lib is np and len(keys) == 1 and keys[0].dtype.itemsize > 2:
        return np.argsort(keys[0], kind="stable")  # Timsort finds the runs
    return argsort(lib, keys)


def _argsort(lib: Library, key: DeviceArray) -> Any:
    if lib is not np:
        if (
            key.dtype.kind == "f" and key.ndim == 1
        ):  # it takes the NaN of a single line by their bits, those with a sign first
            key = lib.where(lib.isnan(key), key.dtype.type(np.nan), key)
        return lib.argsort(key, axis=-1).astype(np.int64, copy=False)  # CuPy's is stable
    bits = key.shape[-1].bit_length()
    if (
        key.size >= _FEW
        and key.dtype.kind in "iuf"
        and key.dtype.itemsize in (4, 8)
        and key.dtype.isnative
        and bits < 32
    ):
        order = _packed_argsort(np.ascontiguousarray(key), bits)
        if order is not None:
            return order
    return np.argsort(key, axis=-1, kind="stable")


def _packed_argsort(key: DeviceArray, bits: int) -> Any:
    """The stable order of numbers, by a vectorised sort of single ones: keys in the high bits, positions in the low `bits`.

    Keys of which more differ than the high bits can say are sorted without their last bits, and mended where that left equals;
    None where these are many.
    """
    whole = _ordinals(key)
    low, high = int(whole.min()), int(whole.max())
    packed = whole.view(np.uint64)
    packed -= np.uint64(low % (1 << 64))
    spare = (high - low).bit_length() + bits - 64
    is_cut = False
    if spare > 0:
        is_cut = bool((packed & np.uint64((1 << spare) - 1)).any())
        packed >>= np.uint64(spare)
    packed <<= np.uint64(bits)
    packed |= np.arange(key.shape[-1], dtype=np.uint64)
    packed.sort(axis=-1)
    order = (packed & np.uint64((1 << bits) - 1)).view(np.int64)
    if is_cut:
        packed >>= np.uint64(bits)
        follows = np.zeros(packed.shape, bool)
        follows[..., 1:] = packed[..., 1:] == packed[..., :-1]
        equal = follows.copy()
        equal[..., :-1] |= follows[..., 1:]
        at = np.flatnonzero(equal)
        if len(at) > key.size // 8:
            return None
        places = order.reshape(-1)
        found = places[at]
        values = key.reshape(-1)[at - at % key.shape[-1] + found]
        places[at] = found[np.lexsort((values, np.cumsum(~follows.reshape(-1)[at])))]
    return order


def _ordinals(key: DeviceArray) -> Any:
    """New 64-bit integers in the order of numbers, equal for those that are equal; NaN are equal, and the largest."""
    if key.dtype.kind != "f":
        return key.astype(np.int64 if key.dtype.kind == "i" else np.uint64)
    lost = np.isnan(key)
    integer = np.int64 if key.dtype.itemsize == 8 else np.int32
    with np.errstate(invalid="ignore"):
        whole = (key + key.dtype.type(0)).view(integer)  # -0.0 is 0.0
    most = integer(np.iinfo(integer).max)
    whole ^= (
        whole >> integer(8 * key.dtype.itemsize - 1)
    ) & most  # negative numbers are the larger, the larger their bits
    whole[lost] = most
    return whole.astype(np.int64, copy=False)


def sort_lines(lib: Library, out: DeviceArray, array: DeviceArray, *, alike: bool = False) -> None:
    """``out[...] = array``, sorted along the last axis, stably. `out` is contiguous, and may be `array` itself.

    `alike`: it is known that equal elements can't be told apart: there are neither zeros nor NaN.
    """
    if array.dtype.kind not in "biufc" or (array.dtype.kind == "c" and lib is not np):
        out[...] = take(lib, array, argsort(lib, columns(lib, array)))
        return
    if lib is not np:
        _sort_on_gpu(lib, out, array)
        return
    if out is not array:
        out[...] = array
    if array.dtype.kind == "c":
        out.sort(axis=-1, kind="stable")
        return
    special = _special(array) if out is array and array.dtype.kind == "f" and not alike else None
    out.sort(axis=-1)
    if out is not array and array.dtype.kind == "f" and _may_be_special(out):
        special = _special(array)
    if special is not None:
        _restore(out, special)


def _sort_on_gpu(lib: Library, out: DeviceArray, array: DeviceArray) -> None:
    """CuPy's sort is stable, but takes the NaN of a single line by their bits, those with a sign first."""
    lost = None
    odd = bool(out.size) and array.dtype.kind == "f" and array.ndim == 1
    if out is not array:
        out[...] = array
    elif odd and bool(lib.isnan(array.min())):
        lost = array[lib.isnan(array)]
    out.sort(axis=-1)
    if odd and out is not array and bool(lib.isnan(out[0]) | lib.isnan(out[-1])):
        lost = array[lib.isnan(array)]
    if lost is not None:
        numbers = out[~lib.isnan(out)]
        out[: numbers.size] = numbers
        out[numbers.size :] = lost


def _may_be_special(out: DeviceArray) -> bool:
    """Whether sorted lines may hold zeros or NaN: their ends tell of most that they do not."""
    return bool(out.size) and not bool((out[..., 0].min() > 0) | (out[..., -1].max() < 0))


def _special(array: DeviceArray) -> Any:
    """The zeros and NaNs of an array in C order, or None where there are none: equal keys that can be told apart."""
    low = array.min() if array.size else 1
    if low > 0:
        return None
    chosen = array == 0
    if bool(low != low):
        chosen |= array != array
    return array[chosen] if chosen.any() else None


def _restore(out: DeviceArray, special: DeviceArray) -> None:
    """Give zeros and NaNs, which a sort left in any order, the order that they had."""
    for mask, values in ((out == 0, special[special == 0]), (out != out, special[special != special])):
        if values.size:
            out[mask] = values


def parts(lib: Library, dtype: AnyDType) -> bool:
    """Whether the library puts single elements of a sort in place without the whole of it: CuPy's partition sorts."""
    return lib is np and dtype.kind in "biufc"


def first(lib: Library, array: DeviceArray, count: int, largest: bool) -> Any:
    """The positions of the `count` smallest (largest) elements of lines along the last axis, in order; of equal elements the
    first come first."""
    length = array.shape[-1]
    if lib is np and array.ndim == 1 and array.dtype.kind in "biuf" and 0 < count < length // 8:
        # only what may be among them is sorted
        bound = np.partition(array, length - count if largest else count - 1)[length - count if largest else count - 1]
        if bound == bound:
            kept = np.flatnonzero(~(array < bound) if largest else array <= bound)
            return (
                kept[first(lib, array[kept], count, largest)]
                if len(kept) < length
                else _ends(lib, array, count, largest)
            )
    return _ends(lib, array, count, largest)


def _ends(lib: Library, array: DeviceArray, count: int, largest: bool) -> Any:
    if not largest:
        return argsort(lib, columns(lib, array))[..., :count]
    # the mirror image, so that equal elements stay in their order
    order = argsort(lib, columns(lib, array[..., ::-1]))[..., ::-1][..., :count]
    return array.shape[-1] - 1 - order


# --- sorted columns -----------------------------------------------------------------------------------------------------


def begins(lib: Library, rows: DeviceArray, equal_nan: bool) -> Any:
    """Which of sorted elements, or rows, differ from the one before; with `equal_nan` all NaNs are equal."""
    same = rows[1:] == rows[:-1]
    if equal_nan and rows.dtype.kind not in "biu":
        missing = rows != rows
        same |= missing[1:] & missing[:-1]
    if same.ndim > 1:
        same = same.all(axis=1)
    return lib.concatenate([lib.ones(min(rows.shape[0], 1), bool), ~same])


def search(lib: Library, within: DeviceArray, values: DeviceArray, side: str) -> Any:
    """``searchsorted`` as int64, of many values in their own order, which a cache likes."""
    if within.dtype.name == "bfloat16":
        within, values = within.astype(np.float32), values.astype(np.float32)
    if lib is np and values.size >= _FEW and within.nbytes > _CACHED and not bool((values[1:] >= values[:-1]).all()):
        order = np.argsort(values)
        found = np.empty(values.shape, np.int64)
        found[order] = np.searchsorted(within, values[order], side=side)  # type: ignore[call-overload]
        return found
    return lib.searchsorted(within, values, side=side).astype(np.int64, copy=False)


def is_member(lib: Library, within: DeviceArray, values: DeviceArray) -> Any:
    """Whether values are among sorted elements, of which there is at least one."""
    place = lib.minimum(search(lib, within, values, "left"), within.shape[0] - 1)
    return within[place] == values


def bisect(lib: Library, keys: Sequence[Any], value: Sequence[Any], side: str) -> int:
    """Where a key of host numbers belongs in sorted 1-d columns: before its equals, or behind them (``"right"``)."""
    low, high = 0, int(keys[0].shape[0])
    for key, part in zip(keys, value, strict=True):
        probe = lib.asarray(np.asarray([part], key.dtype))
        within = key[low:high]
        first, last = (int(lib.searchsorted(within, probe, side=s)[0]) for s in ("left", "right"))
        low, high = low + first, low + last
    return low if side == "left" else high


# --- cuts of what is not sorted -----------------------------------------------------------------------------------------


def cut_at(
    lib: Library, array: DeviceArray, cuts: Sequence[tuple[Any, int | None]], source: DeviceArray | None = None
) -> tuple[list[int], bool]:
    """Rearrange a 1-d array so that ascending keys cut it in parts, and return where the parts begin, and whether it has
    equal elements that can be told apart (zeros, NaN).

    Parameters
    ----------
    array : array of bool, integer or floating dtype
        Rearranged in place. Of the equals of a key, those stay first that were first.
    cuts : sequence of (number, int or None)
        A key, and how many of its equals come before the cut; None: all of them.
    source : array, optional
        Copied to `array` first.

    Notes
    -----
    Halves at the middle key, then halves the halves: n log p steps for p cuts. NumPy's quickselect finds the rank of a key
    in a vectorised pass.
    """
    if lib is not np:
        return _cut_on_gpu(lib, array, cuts, source), True
    places = [0] * len(cuts)
    below: dict[Any, int] = {}

    special, counted = _filled(array, array if source is None else source, *cuts[len(cuts) // 2 :][:1])
    # no nested function that calls itself: it would keep the arrays until garbage is collected
    todo = [(0, int(array.shape[0]), 0, len(cuts))]
    while todo:
        low, high, first, last = todo.pop()
        if first == last:
            continue
        middle = (first + last) // 2
        value, equals = cuts[middle]
        within = array[low:high]
        if equals is None:
            rank = low + (_count(within, value, True) if counted is None else counted)
        else:
            name = None if value != value else value
            if name not in below:
                below[name] = low + (_count(within, value, False) if counted is None else counted)
            rank = below[name] + equals
        if low < rank < high:
            within.partition(rank - low)
        places[middle] = rank
        counted = None
        todo += [(rank, high, middle + 1, last), (low, rank, first, middle)]
    if special is not None:
        _restore(array, special)
    return places, special is not None


def _cut_on_gpu(
    lib: Library, array: DeviceArray, cuts: Sequence[tuple[Any, int | None]], source: DeviceArray | None
) -> list[int]:
    """`cut_at` on a GPU: the first cut copies what it divides."""
    places = [0] * len(cuts)
    below: dict[Any, int] = {}
    if source is not None and not (cuts and source.flags.c_contiguous):
        array[...] = source
        source = None

    todo = [(0, int(array.shape[0]), 0, len(cuts))]
    while todo:
        low, high, first, last = todo.pop()
        if first == last:
            continue
        middle = (first + last) // 2
        value, equals = cuts[middle]
        name = None if value != value else value
        wanted = below[name] + equals - low if equals is not None and name in below else None
        if source is None:
            less, rank = divide(lib, array[low:high], None, value, equals, wanted)
        else:
            less, rank = divide(lib, source, array, value, equals, wanted)
            source = None
        below.setdefault(name, low + less)
        places[middle] = low + rank
        todo += [(low + rank, high, middle + 1, last), (low, low + rank, first, middle)]
    return places


def _filled(array: Any, source: Any, *cut: tuple[Any, int | None]) -> tuple[Any, int | None]:
    """Copy, a block at a time: the zeros and NaNs that there are, as of ``_special``, and what a cut needs counted."""
    found, counted = [], 0
    for low in range(0, len(array), _BLOCK):
        block = array[low : low + _BLOCK]
        if source is not array:
            np.copyto(block, source[low : low + _BLOCK])
        for value, equals in cut:
            counted += _count(block, value, equals is None)
        if array.dtype.kind == "f" and (special := _special(block)) is not None:
            found.append(special)
    return (np.concatenate(found) if found else None), counted if cut else None


def _count(array: DeviceArray, value: DeviceArray, equals: bool) -> int:
    """How many elements come before a key, its equals among them or not; NaN is last."""
    if value != value:
        return int(array.shape[0]) if equals else int(np.count_nonzero(array == array))
    return int(np.count_nonzero(array <= value if equals else array < value))
