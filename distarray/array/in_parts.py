"""Numbers that several processes hold in parts, made by one call of NumPy on the one chunk that each has of a small array: sums,
extremes, products of vectors. How a kind is made stands in its layout, where `algorithms` leave it; nothing is sent until the
number is asked for (:mod:`distarray.transfer.partial_numbers`)."""

from __future__ import annotations

from collections.abc import Callable
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from distarray.array.functions import NOTHING
from distarray.array.state import DistributedArray
from distarray.devices import Chunk
from distarray.devices.arrays import AnyDType
from distarray.layout import Layout
from distarray.storage import Version
from distarray.transfer.partial_numbers import PartsKnown, known_parts

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = ["PRODUCT", "learn_number", "product", "total"]

PRODUCT = "product"
"""In the place of a ufunc: the product of two vectors."""

_PLAIN: dict[Any, tuple[np.ufunc, tuple[Any, ...]]] = {
    **{f: (u, (None, None, None, NOTHING, NOTHING, NOTHING)) for f, u in ((np.sum, np.add), (np.prod, np.multiply))},
    **{f: (u, (None, None, NOTHING, NOTHING, NOTHING)) for f, u in ((np.max, np.maximum), (np.min, np.minimum))},
    **{f: (u, (None, None, NOTHING)) for f, u in ((np.any, np.logical_or), (np.all, np.logical_and))},
}
"""The ufunc of which a function is the reduction, and its arguments behind the array where none is given."""


class _Made(NamedTuple):
    """How a number is made of chunks of this process."""

    call: Callable[..., Any]
    source: int
    parts: PartsKnown


def total(called: Callable[..., Any], x: DistributedArray, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A reduction of all elements, such as ``np.sum(x)``; NotImplemented where the general way has to do it."""
    found = _PLAIN.get(called)
    if found is None or x._map is not None or x._context.communicator is None:
        return NotImplemented
    ufunc, plain = found
    if len(args) > len(plain) + 1 or not all(map(is_, args[1:], plain)):
        return NotImplemented
    if kwargs and any(value is not NOTHING for value in kwargs.values()):
        return NotImplemented
    storage = x._storage
    if storage is None:
        if x._node is None or not x.size:
            return NotImplemented
        storage = x._own()  # what is recorded is evaluated for it in any case
    version = storage.version
    known = version.layout.totals.get((ufunc, version.dtype))
    return NotImplemented if known is None else _number(x._context, known, version, None)


def product(x: DistributedArray, y: DistributedArray) -> Any:
    """The product of two real vectors; NotImplemented where the general way has to do it."""
    first, second = x._storage, y._storage
    if first is None or second is None or x._map is not None or y._map is not None:
        return NotImplemented
    version, other = first.version, second.version
    if version.layout is not other.layout or x._context is not y._context:
        return NotImplemented
    known = version.layout.totals.get((PRODUCT, version.dtype, other.dtype))
    return NotImplemented if known is None else _number(x._context, known, version, other)


def _number(context: Context, known: _Made, version: Version, other: Version | None) -> Any:
    if context.conditions_raise():
        return NotImplemented  # processes agree on what failed
    context.check()
    call, source, parts = known
    held: Any = [one.chunks[source] for one in (version, other) if one is not None]  # which lie alike
    try:
        with context.lock:
            value, met = context.quiet(call, *[chunk.array for chunk in held])
    except Exception as error:
        context.communicator.report(error)  # type: ignore[union-attr]  # there are several processes
        raise
    if met or value is None:
        return NotImplemented
    chunks: list[Chunk | None] = [None] * len(parts.order)
    chunks[parts.mine] = Chunk(parts.device, np.asarray(value))
    return DistributedArray._of_version(context, Version(parts.layout, chunks, parts.dtype), detached=True)  # type: ignore[arg-type]


def learn_number(
    context: Context,
    key: tuple[Any, ...],
    operand: Layout,
    layout: Layout,
    source: int,
    dtype: AnyDType,
    call: Callable[..., Any],
) -> None:
    """Let numbers of a kind be made so: from this process's one chunk, number `source` of a layout, where each process has one
    part of the result, which has a `layout` too."""
    if context.kind != "host" or context.communicator is None or layout.shape or context.debug:
        return
    parts = known_parts(context, layout, dtype)
    if parts.fold is not None and parts.device.memory_limit is None and operand.chunks[source][0] == parts.device.id:
        operand.totals[key] = _Made(call, source, parts)
