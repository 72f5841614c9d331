"""Running of products: moves what a plan of ``contraction`` says is missing, and multiplies on each device.

The functions in ``linalg`` say what is contracted (a :class:`~distarray.algorithms.contraction.Problem`); everything that touches
data is here, so that they share one path whatever the number of axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from math import prod
from typing import Any, cast

import numpy as np

from distarray.algorithms.contraction import Contraction, Factor, LocalProduct, Problem, needed, plan
from distarray.array.layouts import resolve_layout
from distarray.array.place import as_array, is_cupy, place
from distarray.array.state import DistributedArray, astype_node, from_chunks, same_context
from distarray.context import Context
from distarray.devices import Chunk, Device
from distarray.errors import UnsupportedError
from distarray.fusion.conditions import WarningOnce
from distarray.modes import Mode, is_half, roomy
from distarray.storage import Operand
from distarray.transfer.execute import allocate, redistribute

__all__ = ["contract", "operands", "product_dtype", "view"]


ALONE = 1 << 12
"""A product of fewer pairs of elements is the work of one thread, whatever limit BLAS has."""


def operands(*items: Any, out: Any = None) -> tuple[Context, list[Any]]:
    """The context, and the operands as arrays: distributed ones as they are, all others still on the host (or a GPU).

    Raises
    ------
    DeviceError
        They live in different contexts.
    """
    known = [item for item in (*items, out) if isinstance(item, DistributedArray)]
    context = same_context(known)
    arrays = [item if isinstance(item, DistributedArray) or is_cupy(item) else np.asarray(item) for item in items]
    if not any(isinstance(array, DistributedArray) for array in arrays):
        arrays[0] = as_array(context, arrays[0])
    return context, arrays


def product_dtype(function: Callable[..., Any], x: Any, y: Any) -> Any:
    """The dtype that NumPy gives a product of arrays of these dtypes."""
    product = function(np.empty(0, x.dtype), np.empty(0, y.dtype))
    if not isinstance(product, np.generic):  # it fell back to Python objects
        raise UnsupportedError(
            f"{function.__name__} of dtypes {x.dtype} and {y.dtype} gives Python objects in NumPy: convert an operand, for "
            f"instance with x.astype('float32')"
        )
    return product.dtype


def view(array: Any, *, index: Any = None, transpose: Sequence[int] | None = None) -> Any:
    """A view of an array of either kind."""
    if isinstance(array, DistributedArray):
        seen = array._view_map()
        return array._viewed(seen.index(index) if transpose is None else seen.transpose(tuple(transpose)))
    return array[index] if transpose is None else array.transpose(transpose)


def contract(
    context: Context,
    name: str,
    problem: Problem,
    a: Any,
    b: Any,
    dtype: Any,
    *,
    conjugate: bool = False,
    detached: bool = False,
) -> DistributedArray:
    """The product of two arrays, of which one at least is distributed; `conjugate` the first one's values.

    Communication: none where some device holds both of whatever meets. Otherwise what is missing moves to whoever holds
    the rest, by the cheapest way that :func:`~distarray.algorithms.contraction.plan` finds. Host arrays are placed where they are
    needed.
    """
    if 0 in problem.sizes:
        empty = resolve_layout(context, None, problem.shape, itemsize=dtype.itemsize)
        zeros = allocate(context, empty, dtype, label=name)
        for chunk in zeros:
            if chunk is not None:
                chunk.device.fill(chunk.array, 0)
        return from_chunks(context, empty, zeros, dtype, detached=detached)
    with context.lock:
        context.check()
        first = a._operand(name) if isinstance(a, DistributedArray) else None
        second = b._operand(name) if isinstance(b, DistributedArray) else None
        if first is None:
            assert second is not None
            first = _placed(context, a, needed(problem, second.layout, False, dtype.itemsize), name)
        if second is None:
            second = _placed(context, b, needed(problem, first.layout, True, dtype.itemsize), name)
        sizes = (first.dtype.itemsize, second.dtype.itemsize, dtype.itemsize)
        key = ("contract", problem, first.layout, second.layout, sizes)
        todo: Contraction | None = context.layouts.remembered(key)
        if todo is None:
            todo = cast("Contraction", context.layouts.remember(key, plan(problem, first.layout, second.layout, sizes)))
        layout = context.layout(todo.index_map, Mode.SUM if todo.partial else Mode.REPLICA)
        # partial sums of half precision would overflow where the whole does not
        whole, dtype = dtype, roomy(dtype) if is_half(dtype) and todo.added else dtype
        with context.reporting():
            chunks = allocate(context, layout, dtype, label=name)
        brought = [_bring(context, source, where, name) for source, where in zip((first, second), todo.bring)]
        tasks = [
            partial(_multiply, context.by_id[device], jobs, problem, (first, second), brought, chunks, dtype, conjugate)
            for device, jobs in todo.jobs
            if context.by_id[device].process == context.process
        ]
        # BLAS multiplies about as many pairs in the time a core reads 2 bytes; NumPy's own loops are ten times slower
        weight = 2 if dtype.kind in "fc" and dtype.itemsize >= 4 else 20
        with WarningOnce(context, name), context.guarding(name):
            context.workers.run(tasks, todo.work * weight, blas=todo.work > ALONE)
    product = from_chunks(context, layout, chunks, dtype, detached=detached)
    if dtype != whole:
        product = DistributedArray._of_node(astype_node(product, whole))
        product._detached = detached
    return product


def _placed(context: Context, source: Any, where: Any, name: str) -> Operand:
    return place(context, source, context.layout(where))._operand(name)


def _bring(context: Context, source: Operand, where: Any, name: str) -> list[Chunk | None]:
    if where is None:
        return []
    return redistribute(context, source, context.layout(where), operation=name)


def _multiply(
    device: Device,
    jobs: tuple[LocalProduct, ...],
    problem: Problem,
    sources: tuple[Operand, Operand],
    brought: Sequence[Sequence[Chunk | None]],
    chunks: Sequence[Chunk | None],
    dtype: Any,
    conjugate: bool,
) -> None:
    """One device's products. Partial sums for one chunk are added to it, in order."""
    lib = device.lib
    batch, m, k = problem.bounds
    end = len(problem.sizes)
    scratch: Chunk | None = None
    with device.active():
        for job in jobs:
            left = _matrix(lib, _taken(job.a, sources[0], brought[0]), problem.a, (batch, m, k), dtype)
            right = _matrix(lib, _taken(job.b, sources[1], brought[1]), problem.b, (batch, k, end), dtype, m)
            if conjugate and dtype.kind == "c":
                left = lib.conjugate(left)
            chunk = chunks[job.chunk]
            assert chunk is not None
            shape = chunk.array.shape
            into = chunk.array.reshape((*shape[:batch], prod(shape[batch:m]), prod(shape[m:])))
            if not job.add:
                lib.matmul(left, right, out=into)
                continue
            if scratch is None or scratch.array.shape != into.shape:
                scratch = device.empty(into.shape, dtype, "a partial product")
            lib.matmul(left, right, out=scratch.array)
            lib.add(into, scratch.array, out=into)


def _taken(piece: Factor, source: Operand, brought: Sequence[Chunk | None]) -> Any:
    if piece.brought:
        chunk = brought[piece.chunk]
        assert chunk is not None
        return chunk.array
    array = source.arrays[piece.chunk]
    return array if piece.key is None else array[piece.key]


def _matrix(
    lib: Any, array: Any, labels: tuple[int, ...], ends: tuple[int, int, int], dtype: Any, start: int | None = None
) -> Any:
    """An operand's part as a stack of matrices: batch axes (length 1 where it lacks the label), rows, columns.

    `ends` closes the batch, row and column labels; rows begin at `start`, by default where the batch ends.
    """
    order, stack, tall, broad = _axes(labels, ends, ends[0] if start is None else start)
    if order is not None:
        array = array.transpose(order)
    lengths = array.shape
    high, wide = prod([lengths[axis] for axis in tall]), prod([lengths[axis] for axis in broad])
    shape = (*[1 if axis is None else lengths[axis] for axis in stack], high, wide)
    if array.shape != shape:
        array = array.reshape(shape)
    if array.dtype != dtype:
        return array.astype(dtype)
    if dtype.kind in "fc" and not _direct(array.strides[-2:], high, wide, array.itemsize):
        array = lib.ascontiguousarray(array)
    return array


@lru_cache(1024)
def _axes(
    labels: tuple[int, ...], ends: tuple[int, int, int], begin: int
) -> tuple[tuple[int, ...] | None, tuple[int | None, ...], tuple[int, ...], tuple[int, ...]]:
    """How an operand's axes are turned, if they are, and which of them then make the stack, the rows and the columns."""
    batch, rows, columns = ends
    order = tuple(sorted(range(len(labels)), key=labels.__getitem__))
    place = {label: axis for axis, label in enumerate(sorted(labels))}
    tall, broad = (
        [place[label] for label in range(*span) if label in place] for span in ((begin, rows), (rows, columns))
    )
    turned = None if order == tuple(range(len(labels))) else order
    return turned, tuple([place.get(label) for label in range(batch)]), tuple(tall), tuple(broad)


def _direct(strides: tuple[int, int], rows: int, columns: int, itemsize: int) -> bool:
    """Whether BLAS reads a matrix as it lies, one axis with unit stride and the other at least as far apart."""
    across, along = strides
    return (along == itemsize and across >= columns * itemsize) or (across == itemsize and along >= rows * itemsize)
