"""What functions that are no ufuncs share with them: operands of any kind, a recorded call, and its ``out=``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from distarray.array.aliases import Out
from distarray.array.calls import recordable
from distarray.array.place import as_array, as_operand
from distarray.array.shapes import PYTHON_SCALARS, broadcast_shape
from distarray.array.state import DistributedArray, same_context
from distarray.array.writing import check_writable, deliver, overwrite, single
from distarray.context import Context
from distarray.current import current
from distarray.fusion.expr import record

__all__ = ["arguments_of", "context_of", "into", "recorded", "shape_of"]

_NUMBERS = frozenset((*PYTHON_SCALARS, type(None)))


def context_of(values: Sequence[Any]) -> Context:
    known = [v for v in values if isinstance(v, DistributedArray)]
    return same_context(known) if known else current()


def arguments_of(context: Context, values: Sequence[Any]) -> list[Any]:
    """Operands of an expression: arrays of the context, scalars as they are."""
    return [v if v is None or isinstance(v, PYTHON_SCALARS) else as_operand(context, v) for v in values]


def shape_of(arguments: Sequence[Any]) -> tuple[int, ...]:
    shapes = [a.shape for a in arguments if isinstance(a, DistributedArray)]
    return broadcast_shape(*shapes) if shapes else ()


def recorded(
    function: Any,  # NumPy's function, or what has its name
    values: Sequence[Any],
    **kwargs: Any,
) -> DistributedArray:
    """A call of an element-wise function of NumPy that takes ``out=`` and that CuPy has under the same name."""
    first = values[0]
    if type(first) is DistributedArray and first._shape and all(type(value) in _NUMBERS for value in values[1:]):
        context = first._context
        context.check()
        node = record(context, function, (first._arg(), *values[1:]), kwargs, first._shape)
        return DistributedArray._of_node(node)
    context = context_of(values)
    arguments = arguments_of(context, values)
    if not any(isinstance(a, DistributedArray) for a in arguments):
        arguments[0] = as_array(context, arguments[0])
    node = record(context, function, tuple([recordable(a) for a in arguments]), kwargs, shape_of(arguments))
    result: DistributedArray = deliver(DistributedArray._of_node(node), None)
    return result


def into(value: DistributedArray, out: Out | tuple[Out, ...], casting: str = "same_kind") -> Any:
    """`value`, written into `out` where there is one."""
    if out is None:
        return value
    out = single(out)
    if not isinstance(out, (DistributedArray, np.ndarray)):
        raise TypeError(f"return arrays must be of ArrayType, and out= is of type {type(out).__name__}")
    if broadcast_shape(out.shape, value.shape) != out.shape:
        raise ValueError(
            f"non-broadcastable output operand with shape {out.shape} doesn't match the broadcast shape {value.shape}"
        )
    if not np.can_cast(value.dtype, out.dtype, casting):  # type: ignore[arg-type]
        raise TypeError(f"Cannot cast output from {value.dtype!r} to {out.dtype!r} with casting rule {casting!r}")
    check_writable(out)
    return overwrite(out, value)
