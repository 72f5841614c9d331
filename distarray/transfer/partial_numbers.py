"""Partial values without axes: what reductions and products that go to Python leave. A number needs no plan: where each process
holds one part of it, each sends its own to all, in one round, and folds them in the order of the chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from distarray.comm.base import Message, Signature
from distarray.devices.arrays import AnyDType
from distarray.layout import Layout
from distarray.modes import Mode, is_half
from distarray.storage import Operand
from distarray.transfer.round import site

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = ["folded_number", "folded_on_gpus", "folded_whole", "folds_wide", "quiet"]


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
    known = _known(context, layout, dtype)
    if known.fold is None:
        return None
    parts = source.arrays
    if context.communicator is not None:
        held = known.held
        held[known.mine] = parts[known.mine]
        context.communicator.swap(known.sent, known.arrivals, Signature("a value for Python", known.detail, site()))
        if known.number is not None and (total := _added(held.tolist(), known.number)) is not None:
            return total
        parts = held
    return _folded(context, known.fold, parts)


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


class _Told(NamedTuple):
    """How partial values of a kind are folded, and come together, one of each process: what is kept of it from call to call."""

    fold: np.ufunc | None
    """None where they are folded as others are."""
    held: Any = None
    """The values, in the chunks' order."""
    mine: int = 0
    """Which of them, and which chunk, is this process's."""
    sent: Any = None
    """Its bytes in `held`."""
    arrivals: Sequence[Message] = ()
    """The others' bytes there."""
    detail: str = ""
    number: Any = None
    """What makes a sum of them."""


def _known(context: Context, layout: Layout, dtype: AnyDType) -> _Told:
    """How partial values of a layout are folded."""
    key = ("told", layout, dtype)
    found: _Told | None = context.layouts.remembered(key)
    return context.layouts.remember(key, _telling(context, layout, dtype)) if found is None else found


def _telling(context: Context, layout: Layout, dtype: AnyDType) -> _Told:
    mode = layout.mode
    if mode.fold is None or not layout.chunks or folds_wide(mode, dtype) or not mode.exact_identity(dtype):
        return _Told(None)
    if context.communicator is None:
        return _Told(mode.fold)
    order = [context.by_id[device].process for device, _ in layout.chunks]
    if sorted(order) != list(range(context.process_count)):
        return _Told(None)
    held = np.empty(len(order), dtype)
    each = held.view(np.uint8).reshape(len(order), -1)
    mine = order.index(context.process)
    arrivals = [Message(process, each[i]) for i, process in enumerate(order) if i != mine]
    number = dtype.type if mode is Mode.SUM and dtype in (_SINGLE, _DOUBLE) else None
    return _Told(mode.fold, held, mine, each[mine], arrivals, f"plan of {layout.digest.hex()} {dtype}", number)


def _in_order(fold: np.ufunc, parts: Sequence[Any]) -> Any:
    value = parts[0][()]
    for part in parts[1:]:
        value = fold(value, part)
    return value
