"""Ufunc calls: ``np.add(x, y)`` and every other element-wise ufunc of NumPy, through ``__array_ufunc__``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from distarray.array import DistributedArray
from distarray.context import Context
from distarray.errors import UnsupportedError
from distarray.fusion import gpu_ufuncs
from distarray.fusion.demand import demand
from distarray.fusion.expr import ASTYPE, probe, record
from distarray.operators import apply, as_mask, known
from distarray.ops.convert import from_chunks
from distarray.registry import FUNCTIONS, METHODS, method
from distarray.transfer.execute import allocate

__all__: list[str] = []


@method("ufunc.__call__")
def call(ufunc: np.ufunc, *inputs: Any, out: tuple[Any, ...] | None = None, where: Any = True, **kwargs: Any) -> Any:
    """``ufunc(*inputs, **kwargs)``; generalised ufuncs (``matmul``, ``vecdot``) have implementations of their own."""
    if not all(known(x) for x in (*inputs, *(out or ())) if x is not None) or not known(as_mask(where)):
        return NotImplemented
    if ufunc.signature is not None:
        implementation = FUNCTIONS.get(ufunc)
        if implementation is None:
            raise UnsupportedError(
                f"numpy.{ufunc.__name__} has no distributed implementation; nothing was gathered. To run it on one host, "
                f"call it on x.get()"
            )
        if out is not None:
            kwargs["out"] = out[0]
        return implementation(*inputs, **kwargs)
    return apply(ufunc, inputs, out, where, **kwargs)


@method("ufunc.outer")
def outer(ufunc: np.ufunc, a: Any, b: Any, /, **kwargs: Any) -> Any:
    """``ufunc.outer(a, b)``: every element of `a` with every one of `b`. Communication: what broadcasting needs."""
    if ufunc.nin != 2 or ufunc.signature is not None:
        raise ValueError("outer product only supported for binary functions")
    context = next(x for x in (a, b) if isinstance(x, DistributedArray))._context
    first, second = (METHODS["as_operand"](context, x, None) for x in (a, b))
    if isinstance(first, DistributedArray) and isinstance(second, DistributedArray):
        view = first._view_map()
        first = first._viewed(view.expand_dims(tuple(range(first.ndim, first.ndim + second.ndim))))
    return call(ufunc, first, second, **kwargs)


@method("several")
def several(
    context: Context, ufunc: np.ufunc, args: Sequence[Any], shape: tuple[int, ...], kwargs: dict[str, Any]
) -> list[DistributedArray]:
    """A ufunc of several outputs, computed at the call on aligned chunks."""
    operands = tuple([a._arg() if isinstance(a, DistributedArray) else a for a in args])
    dtypes = [r.dtype for r in probe(ufunc, operands, kwargs)]
    arrays = [a for a in args if isinstance(a, DistributedArray)]
    # an expression of all operands decides the layout, and brings every operand there
    lead = max(arrays, key=lambda a: a.size)
    if lead.shape == shape:
        layout = context.layout(lead._operand(ufunc.__name__).layout.index_map)
    else:
        grown = record(context, ASTYPE, (lead._arg(),), {"dtype": lead.dtype}, shape)
        layout = demand(grown).layout
    local: list[Any] = []
    for a in args:
        if not isinstance(a, DistributedArray):
            local.append(a)
            continue
        node = record(context, ASTYPE, (a._arg(),), {"dtype": a.dtype}, shape)
        version = demand(node, layout)
        local.append([None if c is None else c.array for c in version.chunks])
    with context.reporting():
        outputs = [allocate(context, layout, dtype, label=ufunc.__name__) for dtype in dtypes]
    with context.guarding(ufunc.__name__):
        for i, chunks in enumerate(zip(*outputs, strict=True)):
            if chunks[0] is None:
                continue
            device = chunks[0].device
            with device.active():
                function = ufunc if device.kind == "host" else gpu_ufuncs.function_of(device.lib, ufunc)
                function(
                    *[a[i] if isinstance(a, list) else a for a in local], out=tuple(c.array for c in chunks), **kwargs
                )
    return [
        from_chunks(context, layout, chunks, dtype, detached=not shape)
        for chunks, dtype in zip(outputs, dtypes, strict=True)
    ]
