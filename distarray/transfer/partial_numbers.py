"""Partial values without axes: what reductions and products that go to Python leave. A number needs no plan: where each process
holds one part of it, each sends its own to all, in one round, and folds them in the order of the chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from distarray.comm.base import Numbers
from distarray.devices.arrays import AnyDType
from distarray.layout import Layout
from distarray.modes import Mode, is_half
from distarray.storage import Operand
from distarray.transfer.round import site

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = [
    "PartsKnown", "folded_number", "folded_on_gpus", "folded_whole", "folds_wide", "known_parts", "quiet",
]  # fmt: skip


def quiet() -> dict[str, Any]:
    """Folding partial values raises where the user asked for FloatingPointError, and warns of nothing: an intermediate
    sum may overflow where the whole does not."""
    return {kind: how if how == "raise" else "ignore" for kind, how in np.geterr().items()}


def folds_wide(mode: Mode, dtype: AnyDType) -> bool:
    """Whether several values are folded in a wider dtype, and rounded once: on the way half precisions overflow where the whole
    does not."""
    return mode in (Mode.SUM, Mode.PROD) and is_half(dtype)


FEW = 1 << 12
"""Bytes of numbers that come from GPUs in one way."""


def folded_number(context: Context, source: Operand) -> Any:
    """Partial values without axes, on the host, folded at once; None where they are folded as others are."""
    layout, dtype = source.layout, source.dtype
    if context.kind != "host":
        if context.communicator is not None:  # some parts are in other processes
            return None
        return folded_on_gpus(context, layout, dtype, [part.data.ptr for part in source.arrays])
    if context.debug:
        return None
    known = known_parts(context, layout, dtype)
    if known.fold is None:
        return None
    if context.communicator is None:
        return _folded(context, known.fold, source.arrays)
    return _together(context, known, source.arrays[known.mine])


def _together(
    context: Context,
    known: PartsKnown,
    mine: Any,  # a scalar of NumPy's, or an array without axes
) -> Any:
    """Parts of a number that stand one in each process, told to all and folded in the chunks' order."""
    communicator, numbers, fold, dtype = context.communicator, known.numbers, known.fold, known.dtype
    assert communicator is not None and numbers is not None and fold is not None
    if known.raw:
        told = communicator.tell_numbers(numbers, (mine.tobytes(),), site())
        return _folded(context, fold, [np.frombuffer(told[rank][2], dtype)[0] for rank in known.order])
    told = communicator.tell_numbers(numbers, (mine,), site())
    parts = [told[rank][2] for rank in known.order]
    if known.number is not None and (total := _added(parts, known.number)) is not None:
        return total
    return _folded(context, fold, list(np.array(parts, dtype)))


def _folded(context: Context, fold: np.ufunc, parts: Sequence[Any]) -> Any:
    value, met = context.quiet(_in_order, fold, parts)
    if met and "raise" in np.geterr().values():
        with np.errstate(**quiet()):
            return _in_order(fold, parts)
    return value


_SINGLE, _DOUBLE = np.dtype("float32"), np.dtype("float64")
_ROOM = 3e38
"""Sums below this in size overflow in no floating dtype of more than half precision."""


class _Read(NamedTuple):
    """How partial values of a kind come from GPUs, or None where they are folded as others are; `number` makes a sum of them."""

    fold: np.ufunc | None
    ordinals: tuple[int, ...]
    runtime: Any
    number: Any


def folded_on_gpus(context: Context, layout: Layout, dtype: AnyDType, addresses: Sequence[int]) -> Any:
    """Partial values without axes that stand at these addresses of this process's GPUs, on the host, folded at once; None where
    they are folded as others are."""
    key = ("read", layout, dtype)
    known: _Read | None = context.layouts.remembered(key)
    if known is None:
        known = context.layouts.remember(key, _reading(context, layout, dtype))
    if known.fold is None:
        return None
    parts = known.runtime.numbers(addresses, known.ordinals, dtype)
    total = None if known.number is None else _added(parts.tolist(), known.number)
    return _folded(context, known.fold, parts) if total is None else total


def _added(values: Sequence[float], number: Callable[[float], Any]) -> Any:
    """The sum of values that are a `number` each, in their order; None where one overflows."""
    total = values[0]
    for value in values[
        1:
    ]:  # Python adds double-precision numbers as NumPy does; twice as precise, a sum rounds but once
        total += value
        if not -_ROOM < total < _ROOM:
            return None
        total = float(number(total))
    return number(total)


def _reading(context: Context, layout: Layout, dtype: AnyDType) -> _Read:
    fold = layout.mode.fold
    devices: list[Any] = [context.by_id[device_id] for device_id, _ in layout.chunks]
    if (
        context.debug or context.communicator is not None or fold is None or not devices
        or dtype.kind not in "biufc" or len(devices) * dtype.itemsize > FEW
        or folds_wide(layout.mode, dtype) or not layout.mode.exact_identity(dtype)
    ):  # fmt: skip
        return _Read(None, (), None, None)
    number = dtype.type if layout.mode is Mode.SUM and dtype in (_SINGLE, _DOUBLE) else None
    return _Read(fold, tuple([device.ordinal for device in devices]), devices[0].runtime, number)


def folded_whole(context: Context, source: Operand) -> Any:
    """Small partial values of which every chunk is whole, all of this process, folded at once; None where they are folded as others
    are: the order is the chunks' there too."""
    layout, dtype = source.layout, source.dtype
    fold = layout.mode.fold
    if (
        context.kind != "host"
        or context.communicator is not None
        or fold is None
        or not 0 < layout.index_map.size <= MOST
    ):
        return None
    if not layout.chunks or any(shape != layout.shape for shape in layout.index_map.shapes):
        return None
    if folds_wide(layout.mode, dtype) or not layout.mode.exact_identity(dtype):
        return None
    value, met = context.quiet(_in_order, fold, source.arrays)
    return None if met else value


MOST = 1 << 14
"""Elements of what is folded at once: more is worth a thread a device."""


class PartsKnown(NamedTuple):
    """How partial values of a kind are folded, and come together, one of each process: what is kept of it from call to call."""

    fold: np.ufunc | None
    """None where they are folded as others are."""
    dtype: Any = None
    layout: Layout | None = None
    device: Any = None
    """This process's."""
    order: Sequence[int] = ()
    """The processes that hold the chunks."""
    mine: int = 0
    """Which chunk is this process's."""
    numbers: Numbers | None = None
    raw: bool = False
    """Whether they are told as bytes."""
    number: Any = None
    """What makes a sum of them."""


_LETTERS = {np.dtype(kind).newbyteorder("="): letter for kind, letter in zip(
    ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"), "?bhiqBHIQfd", strict=True)
}  # fmt: skip
"""Letters of :mod:`struct` for dtypes whose values Python's numbers hold."""


def known_parts(context: Context, layout: Layout, dtype: AnyDType) -> PartsKnown:
    """How partial values of a layout are folded."""
    key = ("told", layout, dtype)
    found: PartsKnown | None = context.layouts.remembered(key)
    return context.layouts.remember(key, _parts(context, layout, dtype)) if found is None else found


def _parts(context: Context, layout: Layout, dtype: AnyDType) -> PartsKnown:
    mode = layout.mode
    if mode.fold is None or not layout.chunks or folds_wide(mode, dtype) or not mode.exact_identity(dtype):
        return PartsKnown(None)
    if context.communicator is None:
        return PartsKnown(mode.fold)
    order = [context.by_id[device].process for device, _ in layout.chunks]
    if sorted(order) != list(range(context.process_count)):
        return PartsKnown(None)
    letter = _LETTERS.get(dtype)
    detail = f"plan of {layout.digest.hex()} {dtype}"
    numbers = Numbers("a value for Python", detail, letter or f"{dtype.itemsize}s")
    number = dtype.type if mode is Mode.SUM and dtype in (_SINGLE, _DOUBLE) else None
    mine = order.index(context.process)
    device = context.by_id[layout.chunks[mine][0]]
    return PartsKnown(mode.fold, dtype, layout, device, order, mine, numbers, letter is None, number)


def _in_order(fold: np.ufunc, parts: Sequence[Any]) -> Any:
    value = parts[0][()]
    for part in parts[1:]:
        value = fold(value, part)
    return value
