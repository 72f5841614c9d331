"""Reductions of small arrays on host devices that come again: what all of a kind share is found by one look-up, and each chunk
is one call of NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from distarray.algorithms.fold_plans import Reduction
from distarray.algorithms.folds import UNFOLDED, local_reduce
from distarray.array.in_parts import learn_number
from distarray.array.state import DistributedArray, from_chunks
from distarray.devices import Chunk, Device, arrays_of
from distarray.layout import Layout
from distarray.storage import Operand
from distarray.transfer.execute import allocate, is_uncounted
from distarray.transfer.partial_numbers import folded_number

__all__ = ["AT_ONCE", "fold_again", "fold_all", "learn_small_fold", "root_of"]

AT_ONCE = 1 << 16
"""Folds of fewer bytes in all are the calling thread's, one call of NumPy a chunk."""


class _Place(NamedTuple):
    """A chunk of the result, and the chunk that is folded into it."""

    number: int
    device: Device
    shape: tuple[int, ...]
    source: int


class _SmallFold(NamedTuple):
    """How reductions of a kind are computed. `call` is the `Reduction`, `places` are those of this process; `fold` is NumPy's own
    call, where it needs no more than the array and the result."""

    call: Any
    layout: Layout
    places: list[_Place]
    fold: Callable[..., Any] | None


def fold_all(call: Reduction, work: Sequence[tuple[Chunk, Any]]) -> None:
    """Fold an array into each chunk."""
    for chunk, array in work:
        local_reduce(chunk.device, call.ufunc, array, chunk.array, call.axes, call.given, call.initial, None)


def fold_again(key: tuple[Any, ...], x: DistributedArray) -> DistributedArray | None:
    """A reduction of `x`, where one of the kind has come before; None where the general way does it. `key` names the call."""
    storage, context = x._storage, x._context
    if storage is None or x._map is not None or context.kind != "host":
        return None
    version = storage.version
    known: _SmallFold | None = context.layouts.remembered((key, version.layout, version.dtype))
    if known is None:
        return None
    if context.communicator is not None and context.conditions_raise():
        return None
    call, layout, places, fold = known
    chunks: list[Chunk | None] = [None] * len(layout.chunks)
    held: Any = version.chunks
    work = []
    with context.lock, context.reporting():
        context.check()
        for number, device, shape, source in places:
            chunk = chunks[number] = device.empty(shape, call.dtype, "reduce")
            work.append((chunk, held[source].array))
        _, met = context.quiet(_fold_each, fold, work) if fold is not None else context.quiet(fold_all, call, work)
    return None if met else from_chunks(context, layout, chunks, call.dtype, detached=not layout.shape)


def _fold_each(fold: Callable[..., Any], work: Sequence[tuple[Chunk, Any]]) -> None:
    for chunk, array in work:
        fold(array, out=chunk.array)


def learn_small_fold(
    key: tuple[Any, ...], call: Reduction, x: DistributedArray, layout: Layout, sources: Sequence[Any]
) -> None:
    """Let reductions like this one of a small array go straight to NumPy. `layout`: of the result; `sources`: for each of its
    chunks, what it is folded from, as (chunk, key in it)."""
    storage, context = x._storage, x._context
    if storage is None or x._map is not None or not 0 < x.nbytes <= AT_ONCE:
        return
    version = storage.version
    if any(len(own) != 1 or own[0][1] is not None for own in sources):
        return
    places = []
    for number, ((device_id, region), ((source, _),)) in enumerate(zip(layout.chunks, sources, strict=True)):
        device = context.by_id[device_id]
        if device.process == context.process:
            places.append(_Place(number, device, region.shape, source))
    fold = None
    if call.ufunc not in UNFOLDED and (call.ufunc is not np.add or call.axes != (x.ndim - 1,) or x.ndim == 1):
        axis: Any = call.axes[0] if len(call.axes) == 1 else call.axes
        fold = partial(call.ufunc.reduce, axis=axis, dtype=call.given, keepdims=call.keepdims)
    context.layouts.remember((key, version.layout, version.dtype), _SmallFold(call, layout, places, fold))
    usual = call.given is None or call.ufunc.reduce(np.ones(1, version.dtype)).dtype == call.dtype
    if fold is not None and len(places) == 1 and usual and key == ("fold", call.ufunc, None, None, False):
        made: Any = call.ufunc.reduce if x.ndim == 1 else partial(call.ufunc.reduce, axis=call.axes)
        learn_number(context, (call.ufunc, version.dtype), version.layout, layout, places[0].source, call.dtype, made)


def root_of(number: DistributedArray) -> Any:
    """The square root of a number. Where host devices of this process hold it in parts, and nobody counts what moves, it is folded
    and its root taken at once; else recorded."""
    storage, context = number._storage, number._context
    if storage is not None and number._map is None and is_uncounted(context):
        version = storage.version
        layout = version.layout
        with context.lock:
            context.check()
            if layout.is_partial and not layout.shape:
                value = folded_number(context, Operand(layout, arrays_of(version.chunks), version.dtype))
                if value is not None:
                    root, met = context.quiet(np.sqrt, value)
                    if not met:
                        target = context.layout(layout.index_map.completed())
                        chunks = allocate(context, target, root.dtype, label="sqrt")
                        for chunk in chunks:
                            chunk.array[...] = root  # type: ignore[union-attr]
                        return from_chunks(context, target, chunks, root.dtype, detached=True)
    return np.sqrt(number)
