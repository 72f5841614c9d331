"""What the functions of linear algebra ask of their arguments, as NumPy asks it, and the choice between the ways to work.

NumPy's exceptions for shapes and dtypes are raised here, before anything moves. Stacks of matrices, and matrices that
one device does faster, go to ``algorithms.stacks``; larger ones to the distributed factorizations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from distarray.algorithms import stacks
from distarray.algorithms.panels import Panels, taking_part, width_for
from distarray.array.aliases import DTypeLike
from distarray.array.layouts import resolve_layout
from distarray.array.place import arrays
from distarray.array.shown import seen
from distarray.array.state import DistributedArray, from_chunks
from distarray.array.whole import meet, wrapped
from distarray.context import Context
from distarray.devices.arrays import AnyDType
from distarray.layout import Layout
from distarray.storage import Operand

__all__ = [
    "Linear", "adjoint", "arrays", "collected", "common", "dealt", "each", "identity", "is_spread", "matrix", "real", "square",
    "to_scale",
]  # fmt: skip

Linear = np.linalg.LinAlgError


def common(*found: DistributedArray) -> list[Any]:
    """The arrays in the one dtype that ``numpy.linalg`` computes them in.

    Raises
    ------
    TypeError
        float16 and longdouble, which LAPACK does not know, or what are no numbers.
    """
    single, is_complex = True, False
    for x in found:
        kind, name = x.dtype.kind, x.dtype.name
        if kind in "fc" and name != "bfloat16":
            if name not in ("float32", "float64", "complex64", "complex128"):
                raise TypeError(f"array type {name} is unsupported in linalg: convert it with x.astype('float32')")
            single = single and name in ("float32", "complex64")
            is_complex = is_complex or kind == "c"
        else:
            if kind not in "biu" and name != "bfloat16":
                raise TypeError(f"array type {name} is unsupported in linalg: its elements are no numbers")
            single = False
    dtype = np.dtype(("complex64" if single else "complex128") if is_complex else ("float32" if single else "float64"))
    return [x if x.dtype == dtype else x.astype(dtype) for x in found]


def to_scale(largest: float, dtype: AnyDType) -> float:
    """A power of two by which elements are multiplied where their squares would be lost or infinite; else 1."""
    info = np.finfo(dtype)
    if not 0 < largest < math.inf or float(info.tiny) ** 0.25 < largest < float(info.max) ** 0.25:
        return 1.0
    return math.ldexp(1.0, max(-math.frexp(largest)[1], 2 - info.maxexp))


def matrix(x: DistributedArray) -> None:
    """Refuse what is no matrix and no stack of matrices."""
    if x.ndim < 2:
        raise Linear(f"{x.ndim}-dimensional array given. Array must be at least two-dimensional: pass x[None, :]")


def square(x: DistributedArray) -> None:
    """Refuse what is no square matrix and no stack of them."""
    matrix(x)
    if x.shape[-1] != x.shape[-2]:
        raise Linear(f"Last 2 dimensions of the array must be square, and they are {x.shape[-2:]}")


def adjoint(x: DistributedArray) -> Any:
    """The conjugate transpose; of real matrices a view."""
    return np.conjugate(x.mT) if x.dtype.kind == "c" else x.mT


def real(dtype: DTypeLike) -> np.dtype[Any]:
    """The dtype of absolute values."""
    return np.empty(0, dtype).real.dtype


def is_spread(x: DistributedArray, bound: int) -> bool:
    """Whether a matrix is worked on by all its devices: its shorter side is longer than `bound`, and several hold it."""
    context = x._context
    if x.ndim != 2 or min(x.shape) <= (bound if context.WHOLE is None else context.WHOLE):
        return False
    return len(taking_part(x.layout)) > 1


def dealt(name: str, x: DistributedArray, *, like: Operand | None = None) -> Panels:
    """A matrix in panels; `like`: dealt as a square matrix, of which this is the transpose, would be."""
    operand = x.mT._operand(name)
    devices, width = _deal(x._context, operand if like is None else like)
    return Panels.of(operand, x._context, width, name, devices)


def identity(name: str, x: DistributedArray, *, like: Operand) -> Panels:
    """The identity in the shape of a square matrix, dealt as the matrix would be, whose transpose is `like`."""
    devices, width = _deal(x._context, like)
    return Panels.identity(x._context, x.shape, x.dtype, devices, width, name)  # type: ignore[arg-type]


def _deal(context: Context, transposed: Operand) -> tuple[tuple[int, ...], int]:
    """The devices that take part, and how many columns a panel has."""
    devices = taking_part(transposed.layout)
    return devices, width_for(context, transposed.shape[0], len(devices))


def collected(panels: Panels, rows: int | None = None) -> DistributedArray:
    """The matrix in panels, or its first `rows`, as an array in the default layout: equal blocks of rows."""
    context = panels.context
    shape = (panels.rows if rows is None else rows, panels.columns)
    layout = resolve_layout(context, None, shape, itemsize=panels.dtype.itemsize)
    return from_chunks(context, layout, panels.result(layout, rows), panels.dtype)


def each(
    name: str,
    operands: Sequence[DistributedArray],
    function: Callable[..., Any],
    outputs: Sequence[tuple[tuple[int, ...], Any]],
    cores: Sequence[int],
    *,
    shared: Sequence[DistributedArray] = (),
    fallible: bool = False,
) -> list[DistributedArray]:
    """`function` of the matrices of a stack, each on one device.

    Parameters
    ----------
    operands : sequence of DistributedArray
        Of one batch shape.
    function : callable
        Of an array library and the operands' chunks; returns an array or a tuple of them.
    outputs : sequence of (shape, dtype)
        Of the results, without the batch.
    cores : sequence of int
        How many of each operand's last axes make one matrix (or vector).
    shared : sequence of DistributedArray
        Operands that each device needs whole; `function` takes them last.
    fallible : bool
        Whether it may raise LinAlgError, which all processes then raise.
    """
    context = operands[0]._context
    ready = _at_once(context, (*operands, *shared), function, outputs)
    if ready is not None:
        return ready
    batch = operands[0].shape[: operands[0].ndim - cores[0]]
    with context.lock:
        context.check()
        found = [x._operand(name) for x in operands]
        whole = [x._operand(name) for x in shared]
        moved, results = stacks.apply(context, name, found, function, outputs, cores, shared=whole, fallible=fallible)
        done = []
        for (layout, chunks), (core, dtype) in zip(results, outputs):
            if moved and not batch:
                final = resolve_layout(context, None, core, itemsize=np.dtype(dtype).itemsize)
                chunks, layout = stacks.sent(context, name, layout, chunks, dtype, final), final
            done.append(from_chunks(context, layout, chunks, dtype, detached=not (*batch, *core)))
    return done


def _at_once(
    context: Context,
    operands: Sequence[DistributedArray],
    function: Callable[..., Any],
    outputs: Sequence[tuple[tuple[int, ...], Any]],
) -> list[DistributedArray] | None:
    """Work on whole arrays, done by the calling thread; None for others, and where there is something to raise or warn of."""
    first = operands[0]
    if context.kind != "host" or context.communicator is not None:
        return None
    values = [seen(x) for x in operands]
    if any(value is None or not 0 < value.size <= context.small for value in values):
        return None
    layout: Layout = first._kin  # type: ignore[assignment]
    if not all(meet(x, context, layout) for x in operands[1:]):
        return None
    try:
        with context.workers.limit_blas(context.workers.sharers):
            found, met = context.quiet(function, layout.keeper, *values)
    except Exception:
        return None
    if met:
        return None
    done = []
    for array, (_, dtype) in zip(found if isinstance(found, tuple) else (found,), outputs, strict=True):
        result = np.asarray(array, dtype)
        if any(np.may_share_memory(result, value) for value in values):
            result = result.copy()
        done.append(wrapped(first, layout, result if result.ndim else result[()]))
    return done
