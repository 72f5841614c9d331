"""Running of products: moves what a plan of ``contraction`` says is missing, and multiplies on each device.

The functions in ``linalg`` say what is contracted (a :class:`~distarray.algorithms.contraction.Problem`); everything that touches
data is here, so that they share one path whatever the number of axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from math import prod
from typing import Any

import numpy as np

from distarray.algorithms.again import learn_product
from distarray.algorithms.contraction import Contraction, Factor, LocalProduct, Problem, Stage, needed
from distarray.algorithms.rounds import BOUND, FEW_ROWS, is_bearable, plan
from distarray.array.aliases import AnyArray, Out
from distarray.array.in_parts import PRODUCT, learn_number
from distarray.array.layouts import resolve_layout
from distarray.array.place import as_array, host_or_device_array, place
from distarray.array.state import DistributedArray, astype_node, from_chunks, same_context
from distarray.context import Context
from distarray.devices import Chunk, Device, arrays_of, error_states
from distarray.devices.arrays import AnyDType, DeviceArray, Library
from distarray.errors import UnsupportedError
from distarray.fusion.conditions import WarningOnce
from distarray.geometry import IndexMap
from distarray.layout import Layout
from distarray.modes import Mode, is_half, roomy
from distarray.storage import Operand
from distarray.transfer.execute import allocate, halfway, redistribute
from distarray.transfer.lending import lent

__all__ = ["contract", "operands", "product_dtype", "view"]

LEAST = 1 << 20
"""Where no device holds more bytes of a product, memory is not looked at."""

TILE = 1 << 24
"""At most so many bytes of a product are formed at a time where they are added to others."""


ALONE = 1 << 12
"""A product of fewer pairs of elements is the work of one thread, whatever limit BLAS has."""


def operands(*items: Any, out: Out = None) -> tuple[Context, list[Any]]:
    """The context, and the operands as arrays: distributed ones as they are, all others still on the host (or a GPU).

    Raises
    ------
    DeviceError
        They live in different contexts.
    """
    known = [item for item in (*items, out) if isinstance(item, DistributedArray)]
    context = same_context(known)
    arrays = [item if isinstance(item, DistributedArray) else host_or_device_array(item, None) for item in items]
    if not any(isinstance(array, DistributedArray) for array in arrays):
        arrays[0] = as_array(context, arrays[0])
    return context, arrays


MEETINGS = 1 << 9
"""In so many pieces operands that are multiplied element by element may meet before one goes to the other's layout."""


def product_dtype(function: Callable[..., Any], x: AnyArray, y: AnyArray) -> Any:
    """The dtype that NumPy gives a product of arrays of these dtypes."""
    return _product_dtype(function, x.dtype, y.dtype)


@lru_cache(1024)
def _product_dtype(function: Callable[..., Any], first: AnyDType, second: AnyDType) -> Any:
    product = function(np.empty(0, first), np.empty(0, second))
    if not isinstance(product, np.generic):  # it fell back to Python objects
        raise UnsupportedError(
            f"{function.__name__} of dtypes {first} and {second} gives Python objects in NumPy: convert an operand, for "
            f"instance with x.astype('float32')"
        )
    return product.dtype


def view(array: DeviceArray, *, index: tuple[Any, ...] | None = None, transpose: Sequence[int] | None = None) -> Any:
    """A view of an array of either kind."""
    if isinstance(array, DistributedArray):
        seen = array._view_map()
        return array._viewed(seen.index(index) if transpose is None else seen.transpose(tuple(transpose)))
    return array[index] if transpose is None else array.transpose(transpose)


def contract(
    context: Context,
    name: str,
    problem: Problem,
    a: AnyArray,
    b: AnyArray,
    dtype: AnyDType,
    *,
    conjugate: bool = False,
    detached: bool = False,
    bound: float = BOUND,
) -> DistributedArray:
    """The product of two arrays, of which one at least is distributed; `conjugate` the first one's values.

    A device may hold `bound` times its fair share of them and the result.

    Communication: none where some device holds both of whatever meets. Otherwise what is missing moves to whoever holds
    the rest, by the cheapest way that :func:`~distarray.algorithms.contraction.plan` finds. Host arrays are placed where they are
    needed.
    """
    if 0 in problem.sizes:
        return _nothing_added(context, name, problem, dtype, detached)
    with context.lock:
        context.check()
        sources = _placed_both(context, name, problem, a, b, dtype)
        todo, layout = _known(context, problem, *sources, dtype, bound)
        # partial sums of half precision would overflow where the whole does not
        whole, dtype = dtype, roomy(dtype) if is_half(dtype) and todo.added else dtype
        with context.reporting():
            chunks = allocate(context, layout, dtype, label=name)
        _run_all(context, name, problem, todo, sources, chunks, dtype, conjugate)
        if context.kind != "host" and name == "matmul" and not detached and not conjugate and dtype == whole:
            learn_product(context, a, b, todo, layout, dtype)
        if context.communicator is not None and dtype == whole and dtype.kind != "c":
            _learn_number(context, problem, a, b, todo, layout, dtype)
    product = from_chunks(context, layout, chunks, dtype, detached=detached)
    if dtype != whole:
        product = DistributedArray._of_node(astype_node(product, whole))
        product._detached = detached
    return product


def _learn_number(
    context: Context, problem: Problem, a: AnyArray, b: AnyArray, todo: Contraction, layout: Layout, dtype: AnyDType
) -> None:
    """Let products of small vectors that lie alike be made by the chunk, where processes have one each."""
    if problem.counts != (0, 0, 1, 0) or type(a) is not DistributedArray or type(b) is not DistributedArray:
        return
    first, second = a._storage, b._storage
    if first is None or second is None or a._map is not None or b._map is not None or a.ndim != 1 or b.ndim != 1:
        return
    version, other = first.version, second.version
    if (
        version.layout is not other.layout
        or version.layout.is_partial
        or version.dtype != dtype
        or other.dtype != dtype
    ):
        return
    if len(todo.steps) != 1 or todo.steps[0].work > ALONE or not _is_light(context, todo.steps[0], 20):
        return
    mine = [(device, jobs) for device, jobs in todo.steps[0].jobs if context.by_id[device].process == context.process]
    if len(mine) != 1 or len(mine[0][1]) != 1:
        return
    device, (job,) = context.by_id[mine[0][0]], mine[0][1]
    chunk = job.a.chunk
    if job.add or job.key is not None or (job.a, job.b) != ((False, chunk, None), (False, chunk, None)):
        return
    call = partial(_product_of, device, dtype)
    learn_number(context, (PRODUCT, dtype, dtype), version.layout, layout, chunk, dtype, call)


def _product_of(device: Device, dtype: AnyDType, left: DeviceArray, right: DeviceArray) -> Any:
    """Two vectors multiplied as `_multiply` does it; None where they do not lie in one piece."""
    if not (left.flags.c_contiguous and right.flags.c_contiguous):
        return None
    into = np.empty((1, 1), dtype)
    device.multiply(left.reshape(1, -1), right.reshape(-1, 1), into)
    return into[0, 0]


def _nothing_added(context: Context, name: str, problem: Problem, dtype: AnyDType, detached: bool) -> DistributedArray:
    """A product without elements, or whose elements are sums of nothing."""
    empty = resolve_layout(context, None, problem.shape, itemsize=dtype.itemsize)
    zeros = allocate(context, empty, dtype, label=name)
    for chunk in zeros:
        if chunk is not None:
            chunk.device.fill(chunk.array, 0)
    return from_chunks(context, empty, zeros, dtype, detached=detached)


def _placed_both(
    context: Context, name: str, problem: Problem, a: AnyArray, b: AnyArray, dtype: AnyDType
) -> tuple[Operand, Operand]:
    """Both arrays as operands: a host array is placed beside the other one, and what would meet in too many pieces comes to
    the other's layout."""
    first = a._operand(name) if isinstance(a, DistributedArray) else None
    second = b._operand(name) if isinstance(b, DistributedArray) else None
    if first is None:
        assert second is not None
        first = _placed(context, a, problem, second.layout, False, dtype, name)
    if second is None:
        second = _placed(context, b, problem, first.layout, True, dtype, name)
    unlike = first.layout is not second.layout and problem.a == problem.b
    if unlike and halfway(context, second.layout, first.layout, MEETINGS, 1):
        # cut where the two meet, there would be far more products than either has chunks
        beside = redistribute(context, second, first.layout, operation=name)
        second = Operand(first.layout, arrays_of(beside), second.dtype)
    return first, second


def _known(
    context: Context, problem: Problem, first: Operand, second: Operand, dtype: AnyDType, bound: float
) -> tuple[Contraction, Layout]:
    """What each device multiplies, and the layout of the product; kept by the layouts."""
    sizes = (first.dtype.itemsize, second.dtype.itemsize, dtype.itemsize)
    least = LEAST if context.WHOLE is None else 0
    key = ("contract", problem, first.layout, second.layout, sizes, least, bound)
    known: tuple[Contraction, Layout] | None = context.layouts.remembered(key)
    if known is None:
        made = plan(problem, first.layout, second.layout, sizes, least, ahead=_several_gpus(context), bound=bound)
        laid = context.layout(made.index_map, Mode.SUM if made.partial else Mode.REPLICA)
        known = context.layouts.remember(key, (made, laid))
    return known


def _run_all(
    context: Context,
    name: str,
    problem: Problem,
    todo: Contraction,
    sources: tuple[Operand, Operand],
    chunks: list[Chunk | None],
    dtype: AnyDType,
    conjugate: bool,
) -> None:
    """The steps of a plan: what a step needs is brought, on several GPUs while the one before it multiplies."""
    # BLAS multiplies about as many pairs in the time a core reads 2 bytes; NumPy's own loops are ten times slower
    weight = 2 if dtype.kind in "fc" and dtype.itemsize >= 4 else 20
    coming: list[list[Chunk | None]] | None = None
    for number, step in enumerate(todo.steps):
        brought = _brought(context, sources, step, name) if coming is None else coming
        if len(todo.steps) == 1 and _is_light(context, step, weight):
            arguments: Any = (problem, sources, brought, chunks, dtype, conjugate)
            with context.reporting():
                _, met = context.quiet(_multiply_all, context, step, arguments)
            if not met:
                continue
        arrived: Callable[[], None] | None = None
        if todo.ahead and number + 1 < len(todo.steps):
            with context.local_devices[0].ahead() as arrived:
                coming = _brought(context, sources, todo.steps[number + 1], name)
        tasks = [
            partial(_multiply, context.by_id[device], jobs, problem, sources, brought, chunks, dtype, conjugate)
            for device, jobs in step.jobs
            if context.by_id[device].process == context.process
        ]
        try:
            guard = context.guarding(name)  # by the error state outside
            with WarningOnce(context, name), guard:
                context.workers.run(tasks, step.work * weight, blas=step.work > ALONE)
        finally:
            if arrived is not None:
                arrived()
        del brought, tasks


def _is_light(context: Context, step: Stage, weight: int) -> bool:
    """Whether a step is so little work that the calling thread does it at once, where processes need not agree on what failed."""
    if step.work > ALONE or context.kind != "host" or step.work * weight >= context.workers.inline_bytes:
        return False
    return context.communicator is None or not (context.warnings_raise or "raise" in error_states().values())


def _multiply_all(context: Context, step: Stage, arguments: Sequence[Any]) -> None:
    for device_id, jobs in step.jobs:
        device = context.by_id[device_id]
        if device.process == context.process:
            _multiply(device, jobs, *arguments)


def _placed(
    context: Context, source: AnyArray, problem: Problem, held: Layout, first: bool, dtype: np.dtype[Any], name: str
) -> Operand:
    """A host operand where the other one, which stays, needs it; where that is too much for the devices, in even blocks."""
    layout = context.layout(needed(problem, held, first, dtype.itemsize))
    sizes = (np.dtype(source.dtype).itemsize, dtype.itemsize)
    if not is_bearable(problem, layout, held, sizes, LEAST if context.WHOLE is None else 0):
        layout = resolve_layout(context, None, source.shape, itemsize=sizes[0])
    return place(context, source, layout)._operand(name)


def _several_gpus(context: Context) -> bool:
    """Whether copies come from one GPU of this process to another, beside what these compute."""
    if context.kind == "host" or context.communicator is not None:
        return False
    first, *others = context.local_devices
    return not all(first.shares_memory(other) for other in others)


def _brought(context: Context, sources: tuple[Operand, Operand], step: Stage, name: str) -> list[list[Chunk | None]]:
    """What a step needs of both operands and devices lack."""
    return [_bring(context, source, where, name) for source, where in zip(sources, step.bring)]


def _bring(context: Context, source: Operand, where: IndexMap | None, name: str) -> list[Chunk | None]:
    if where is None:
        return []
    return lent(context, source, context.layout(where), operation=name)


def _multiply(
    device: Device,
    jobs: tuple[LocalProduct, ...],
    problem: Problem,
    sources: tuple[Operand, Operand],
    brought: Sequence[Sequence[Chunk | None]],
    chunks: Sequence[Chunk | None],
    dtype: np.dtype[Any],
    conjugate: bool,
) -> None:
    """One device's products. Partial sums for one chunk are added to it, in order."""
    lib = device.lib
    batch, m, k = problem.bounds
    end = len(problem.sizes)
    flat = problem.counts == (0, 0, 1, 0) and device.kind == "host"  # two vectors: there is little to find out
    with device.active():
        for job in jobs:
            left, right = _taken(job.a, sources[0], brought[0]), _taken(job.b, sources[1], brought[1])
            if flat and left.dtype == right.dtype == dtype and left.flags.c_contiguous and right.flags.c_contiguous:
                left, right = left.reshape(1, -1), right.reshape(-1, 1)
            else:
                left = _matrix(lib, left, problem.a, (batch, m, k), dtype)
                right = _matrix(lib, right, problem.b, (batch, k, end), dtype, m)
            if conjugate and dtype.kind == "c":
                left = lib.conjugate(left)
            chunk = chunks[job.chunk]
            assert chunk is not None
            part = chunk.array if job.key is None else chunk.array[job.key]
            shape = part.shape
            if batch or len(shape) != 2 or m != 1:
                part = part.reshape((*shape[:batch], prod(shape[batch:m]), prod(shape[m:])) if shape else (1, 1))
            into = part
            if job.add:
                _add(device, into, left, right)
            else:
                device.multiply(left, right, into)


def _add(device: Device, into: DeviceArray, left: DeviceArray, right: DeviceArray) -> None:
    """``into += left @ right``, some rows (of stacks: some matrices) at a time."""
    lib, high = device.lib, len(into)
    row = max(into.nbytes // max(high, 1), 1)
    step = min(max(min(into.nbytes // 4, TILE) // row, FEW_ROWS if into.ndim == 2 else 1), high)
    scratch = device.empty((step, *into.shape[1:]), into.dtype, "a partial product").array
    for top in range(0, high, step):
        rows = slice(top, min(top + step, high))
        product = scratch[: rows.stop - top]
        above, beside = left, right
        if len(left) > 1:
            above = left[rows]
        if into.ndim > 2 and len(right) > 1:
            beside = right[rows]
        lib.matmul(above, beside, out=product)
        lib.add(into[rows], product, out=into[rows])


def _taken(piece: Factor, source: Operand, brought: Sequence[Chunk | None]) -> Any:
    if piece.brought:
        chunk = brought[piece.chunk]
        assert chunk is not None
        return chunk.array
    array = source.arrays[piece.chunk]
    return array if piece.key is None else array[piece.key]


def _matrix(
    lib: Library,
    array: Any,
    labels: tuple[int, ...],
    ends: tuple[int, int, int],
    dtype: np.dtype[Any],
    start: int | None = None,
) -> Any:
    """An operand's part as a stack of matrices: batch axes (length 1 where it lacks the label), rows, columns.

    `ends` closes the batch, row and column labels; rows begin at `start`, by default where the batch ends.
    """
    order, shape = _form(labels, ends, ends[0] if start is None else start, array.shape)
    if order is not None:
        array = array.transpose(order)
    if array.shape != shape:
        array = array.reshape(shape)
    if array.dtype is not dtype and array.dtype != dtype:
        return array.astype(dtype)
    if (
        dtype.kind in "fc"
        and not array.flags.c_contiguous
        and not _direct(array.strides[-2:], shape[-2], shape[-1], array.itemsize)
    ):
        array = lib.ascontiguousarray(array)
    return array


@lru_cache(4096)
def _form(
    labels: tuple[int, ...], ends: tuple[int, int, int], begin: int, shape: tuple[int, ...]
) -> tuple[tuple[int, ...] | None, tuple[int, ...]]:
    """How the axes of an operand's part are turned, if they are, and then its shape as a stack of matrices."""
    batch, rows, columns = ends
    order = tuple(sorted(range(len(labels)), key=labels.__getitem__))
    lengths = {labels[axis]: shape[axis] for axis in order}
    tall, broad = (
        prod([lengths[label] for label in range(*span) if label in lengths])
        for span in ((begin, rows), (rows, columns))
    )
    turned = None if order == tuple(range(len(labels))) else order
    return turned, (*[lengths.get(label, 1) for label in range(batch)], tall, broad)


def _direct(strides: tuple[int, int], rows: int, columns: int, itemsize: int) -> bool:
    """Whether BLAS reads a matrix as it lies, one axis with unit stride and the other at least as far apart."""
    across, along = strides
    return (along == itemsize and across >= columns * itemsize) or (across == itemsize and along >= rows * itemsize)
