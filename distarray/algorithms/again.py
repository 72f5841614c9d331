"""Reductions, and products of small arrays, on GPUs that come again: their launches, without a plan.

What the general way does for whole chunks of one layout depends on nothing but that layout, the dtype and the call. It tells
this module what it did (`learn_fold`, `learn_product`); the next call of the kind finds it in the operand's form. Of several
processes each reduces its own chunks so, where none is asked to raise by what data are: what all agree on goes the general way.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from distarray.algorithms.fold_plans import Reduction
from distarray.array.aliases import AnyArray
from distarray.array.state import DistributedArray
from distarray.devices import Chunk, arrays_of
from distarray.devices.arrays import AnyDType
from distarray.devices.base import Device
from distarray.devices.small_products import small_product
from distarray.fusion.forms import Form, whole_form
from distarray.fusion.kernels import reductions
from distarray.fusion.kernels.direct import SMALL, address_of
from distarray.fusion.kernels.graphs import KernelLaunch, Turn, turns_of
from distarray.layout import Layout
from distarray.storage import Operand, Version
from distarray.transfer.ledger import note_to_host, watching
from distarray.transfer.partial_numbers import folded_number, folded_on_gpus

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = ["again", "learn_fold", "learn_product", "learn_waiting", "number_of"]

_SCALARS = {np.dtype(t): np.array([1, 0], t) for t in ("float32", "float64")}
"""What a product is multiplied by, and what stands in its place before."""

_BYTES = np.dtype(np.uint8)

_PLACES = {dtype: (held.ctypes.data, held.ctypes.data + held.itemsize) for dtype, held in _SCALARS.items()}
"""Where BLAS reads them."""


class _Fold(NamedTuple):
    """One chunk of a reduction: its number and shape, the chunk that is reduced, and the launches but for addresses: of one, or of
    two with so many bytes between them."""

    number: int
    device: int
    shape: tuple[int, ...]
    source: int
    first: KernelLaunch
    room: int
    last: KernelLaunch | None


class _Small(NamedTuple):
    """One chunk of a product in one launch: its number, the first factor's chunk and those of the second, and the launch but for
    addresses."""

    number: int
    device: int
    shape: tuple[int, int]
    first: int
    second: tuple[int, ...]
    launch: KernelLaunch


class _Product(NamedTuple):
    """One chunk of a product by BLAS: its number, the factors' chunks, and their sizes."""

    number: int
    device: int
    shape: tuple[int, int]
    first: int
    second: int
    summed: int


class _Known(NamedTuple):
    """What is known of a call."""

    layout: Layout
    dtype: Any
    name: str
    parts: list[Any]
    detached: bool
    gathered: tuple[tuple[int, int], list[tuple[int, int]]] | None = None
    """Of a second factor that lies in blocks of rows on one GPU: its shape, and for each chunk the bytes before it."""
    turns: tuple[Turn, ...] = ()
    """Of launches that are known: those on each GPU."""
    lends: bool = False
    """Whether a device reads what another one on the same GPU holds."""
    waits: Callable[[Any, Any], DistributedArray] | None = None
    """Of a fold that waits for the expression that uses it: what makes it, of a context and a storage."""


def _form(x: AnyArray) -> Form | None:
    """The form of an array that shows all of a storage of GPUs; None of others."""
    if type(x) is not DistributedArray or x._context.kind == "host":
        return None
    storage = x._storage
    if storage is None or x._map is not None:
        return None
    version = storage.version
    return whole_form(x._context, version)


def again(key: tuple[Any, ...], x: DistributedArray, y: DistributedArray | None = None) -> DistributedArray | None:
    """A reduction of `x` or a product of two arrays, where one of the kind has come before; else None. `key` names the call."""
    form = _form(x)
    if form is None:
        return None
    if y is not None:
        other = _form(y)
        if other is None or y._context is not x._context:
            return None
        key = (*key, other)
    known: _Known | None = form.recipes.get(key)
    context = x._context
    if known is None or context.eager or (known.lends and watching.get() is not None):
        return None
    if context.communicator is not None and "raise" in np.geterr().values():
        return None
    with context.lock, context.reporting():
        context.check()
        storage: Any = x._storage
        version = storage.version
        if known.waits is not None:
            return None if storage.exposed else known.waits(context, storage)
        whole = None if known.gathered is None else _gathered(context, known, y._storage.version)  # type: ignore[union-attr]
        if whole is None and known.gathered is not None:
            return None
        chunks: list[Chunk | None] = [None] * len(known.layout.chunks)
        launches: list[KernelLaunch] = []
        rooms: list[Chunk] = []  # until all is queued: then their memory may be used again, in the order of the stream
        for part in known.parts:
            device = context.by_id[part.device]
            chunk = chunks[part.number] = device.empty(part.shape, known.dtype, known.name)
            if y is None:
                done = _fold(device, part, known.name, version, chunk, launches, rooms)
            elif type(part) is _Small:
                done = _small(part, version, y._storage.version, chunk, launches)  # type: ignore[union-attr]
            else:
                done = _product(device, part, version, y._storage.version, chunk, whole)  # type: ignore[union-attr]
            if not done:
                return None
        for graphs, device_id, begin, end in known.turns:
            graphs.run(context.by_id[device_id], launches if end - begin == len(launches) else launches[begin:end])
    found = Version(known.layout, chunks, known.dtype)
    return DistributedArray._of_version(context, found, detached=known.detached)


def _fold(
    device: Any,
    part: _Fold,
    name: str,
    version: Version,
    chunk: Chunk,
    launches: list[KernelLaunch],
    rooms: list[Chunk],
) -> bool:
    """Add a reduction's launches, and the memory that they need; False where what is reduced lies otherwise."""
    address = address_of(version.chunks[part.source])
    if address < 0:
        return False
    target = chunk.address or chunk.array.data.ptr
    kernel, blocks, threads, values = part.first
    if part.last is not None:
        between: Any = device.empty((part.room,), _BYTES, name)
        place = between.address or between.array.data.ptr
        launches.append((kernel, blocks, threads, (address, place, *values)))
        rooms.append(between)
        kernel, blocks, threads, values = part.last
        address = place
    launches.append((kernel, blocks, threads, (address, target, *values)))
    return True


def _small(part: _Small, first: Version, second: Version, chunk: Chunk, launches: list[KernelLaunch]) -> bool:
    """Add a small product's launch; False where a factor lies otherwise."""
    addresses = [address_of(first.chunks[part.first]), chunk.address or chunk.array.data.ptr]
    addresses += [address_of(second.chunks[number]) for number in part.second]
    if min(addresses) < 0:
        return False
    kernel, blocks, threads, values = part.launch
    launches.append((kernel, blocks, threads, (*addresses, *values)))
    return True


def _gathered(context: Context, known: _Known, version: Version) -> Chunk | None:
    """The second factor in one piece; None where a chunk lies otherwise, or moves are counted."""
    assert known.gathered is not None
    shape, pieces = known.gathered
    addresses = [address_of(version.chunks[number]) for number, _ in pieces]
    if min(addresses) < 0 or watching.get() is not None:
        return None
    device: Any = context.by_id[known.parts[0].device]
    whole: Chunk = device.empty(shape, version.dtype, known.name)
    target, api = address_of(whole), device.runtime.api
    with device.active():
        for (number, offset), address in zip(pieces, addresses, strict=True):
            chunk: Any = version.chunks[number]
            api.memcpyAsync(target + offset, address, chunk.nbytes, api.memcpyDeviceToDevice, device.stream.ptr)
    return whole


def _product(
    device: Device, part: _Product, first: Version, second: Version, chunk: Chunk, whole: Chunk | None
) -> bool:
    a = address_of(first.chunks[part.first])
    b = address_of(second.chunks[part.second] if whole is None else whole)
    if a < 0 or b < 0:
        return False
    lib = device.lib
    rows, columns = part.shape
    one, nothing = _PLACES[first.dtype]
    cuda = lib.cuda
    multiply = cuda.cublas.sgemm if first.dtype.itemsize == 4 else cuda.cublas.dgemm
    with (
        device.active()
    ):  # BLAS counts by columns: the transposed product of the transposed factors, in the other order
        multiply(
            cuda.device.get_cublas_handle(), 0, 0, columns, rows, part.summed, one, b, columns, a, part.summed,
            nothing, chunk.array.data.ptr, columns,
        )  # fmt: skip
    return True


def number_of(x: DistributedArray) -> Any:
    """The one number of an array without axes, as a NumPy scalar: of this process alone, or partial values of hosts; None where
    those do not fold to it at once, and of others."""
    context, storage = x._context, x._storage
    if context.kind == "host":
        return None if storage is None or x._map is not None else _number_here(context, storage.version)
    if storage is None or x._map is not None or context.communicator is not None or watching.get() is not None:
        return None
    version = storage.version
    layout, chunks = version.layout, version.chunks
    with context.lock:
        context.check()
        if not layout.is_partial:
            chunk: Any = chunks[0] if len(chunks) == 1 else None
            if chunk is None:
                return None
            device, address = chunk.device, chunk.address
            return device.runtime.number(
                address if address > 0 else chunk.array.data.ptr, version.dtype, device.ordinal
            )
        if layout.shape:
            return None
        addresses = [chunk.address if chunk.address > 0 else chunk.array.data.ptr for chunk in chunks]  # type: ignore[union-attr]
        return folded_on_gpus(context, layout, version.dtype, addresses)


def _number_here(context: Context, version: Version) -> Any:
    """Partial values of host devices, folded; or the value, where this process is the only one."""
    layout, dtype = version.layout, version.dtype
    if layout.shape:
        return None
    if not layout.is_partial:
        chunk = version.chunks[0] if context.communicator is None else None
        if chunk is None:
            return None
        note_to_host(dtype.itemsize)
        return chunk.array[()]
    with context.lock:
        context.check()
        arrays = arrays_of(version.chunks)
        number = folded_number(context, Operand(layout, arrays, dtype))
        if number is not None:
            note_to_host(dtype.itemsize)
        return number


def _remember(form: Form, key: tuple[Any, ...], known: _Known) -> None:
    if len(form.recipes) >= 256:
        form.recipes.clear()
    form.recipes[key] = known


def learn_fold(
    key: tuple[Any, ...],
    x: Any,  # an array, which is asked for its form
    call: Reduction,
    sources: Sequence[Any],
    result: DistributedArray,
) -> None:
    """Take note of a reduction of an array that has been done. `sources`: for each chunk of the result, what it was
    reduced from, as (chunk, key in it)."""
    form = _form(x)
    if form is None or key in form.recipes or not prod(x._shape) or form.bases[0].layout.is_partial:
        return
    context, version, made = x._context, x._storage.version, result._storage
    if context.communicator is not None and "raise" in np.geterr().values():
        return
    if made is None or result._map is not None or any(len(own) != 1 or own[0][1] is not None for own in sources):
        return
    layout = made.version.layout
    parts = []
    for number, ((device_id, _), ((source, _),)) in enumerate(zip(layout.chunks, sources, strict=True)):
        if context.by_id[device_id].process != context.process:
            continue
        chunk: Any = version.chunks[source]
        out: Any = made.version.chunks[number]
        if address_of(chunk) < 0 or chunk.device.id != device_id or out.array.size == 0:
            return
        device = context.by_id[device_id]
        with device.active():
            launch = reductions.launch_of(device.lib, call.ufunc.__name__, chunk.array, out.array, call.axes)
        if launch is None:
            return
        parts.append(_Fold(number, device_id, out.array.shape, source, *launch))
    launched = [part.device for part in parts for _ in range(1 if part.last is None else 2)]
    turns = tuple(turns_of(context.by_id, launched))
    name, dtype = call.ufunc.__name__, made.version.dtype
    _remember(form, key, _Known(layout, dtype, name, parts, result._detached, turns=turns))


def learn_waiting(key: tuple[Any, ...], x: DistributedArray, waits: Callable[[Any, Any], DistributedArray]) -> None:
    """Take note of a fold that waits for the expression that uses it, of an array that is no partial value."""
    form = _form(x)
    if form is not None and not form.bases[0].layout.is_partial:
        _remember(form, key, _Known(form.bases[0].layout, form.dtype, "", [], False, waits=waits))


def learn_product(
    context: Context,
    a: Any,  # an array of either kind
    b: Any,  # an array of either kind
    todo: Any,  # a Contraction, of one step
    layout: Layout,
    dtype: AnyDType,
) -> None:
    """Take note of a product of two small matrices that has been done."""
    form, other = (None, None) if context.communicator is not None else (_form(a), _form(b))
    if form is None or other is None or dtype not in _SCALARS or form.dtype != dtype or other.dtype != dtype:
        return
    key = ("product", other)
    if key in form.recipes or a.ndim != 2 or b.ndim != 2 or max(prod(a._shape), prod(b._shape)) > SMALL:
        return
    if len(todo.steps) != 1 or todo.steps[0].bring[0] is not None or os.environ.get("CUPY_TF32", "0") != "0":
        return
    gathered: Any = None
    if todo.steps[0].bring[1] is not None:
        gathered = _rows_on_one_gpu(context, layout, b)
        if gathered is None:
            return
    first, second = a._storage.version, b._storage.version
    parts: list[_Small | _Product] = []
    for device_id, jobs in todo.steps[0].jobs:
        if len(jobs) != 1:
            return
        (job,) = jobs
        if job.add or job.key is not None or job.a != (False, job.a.chunk, None):
            return
        if job.b != (gathered is not None, job.b.chunk, None):
            return
        rows, columns = layout.chunks[job.chunk][1].shape
        left: Any = first.chunks[job.a.chunk]
        right: Any = second.chunks[job.b.chunk] if gathered is None else None
        summed = left.array.shape[1]
        held = b._shape if right is None else right.array.shape
        if address_of(left) < 0 or left.array.shape != (rows, summed) or (right and address_of(right) < 0):
            return
        if held != (summed, columns) or not rows * columns * summed:
            return
        device: Any = context.by_id[device_id]
        starts = [0] if gathered is None else [place // (columns * dtype.itemsize) for _, place in gathered[1]]
        with device.active():
            launch = small_product(device.lib, dtype, rows, columns, summed, [*starts[1:], summed])
        if launch is None:
            parts.append(_Product(job.chunk, device_id, (rows, columns), job.a.chunk, job.b.chunk, summed))
            continue
        numbers = (job.b.chunk,) if gathered is None else tuple([number for number, _ in gathered[1]])
        parts.append(_Small(job.chunk, device_id, (rows, columns), job.a.chunk, numbers, launch))
    if len(parts) != len([region for _, region in layout.chunks if region.size]) or len(parts) != len(layout.chunks):
        return
    alike = {type(part) for part in parts}
    if len(alike) > 1:
        return
    turns: tuple[Turn, ...] = ()
    lends = alike == {_Small} and gathered is not None
    if alike == {_Small}:
        turns, gathered = tuple(turns_of(context.by_id, [part.device for part in parts])), None
    _remember(form, key, _Known(layout, dtype, "matmul", parts, False, gathered, turns, lends))


def _rows_on_one_gpu(context: Context, result: Layout, b: DistributedArray) -> Any:
    """The shape of a matrix that lies in blocks of rows on the GPU of all devices of a result, and the bytes before each chunk."""
    layout = b._storage.version.layout  # type: ignore[union-attr]
    pieces, rows, row = [], 0, b._shape[1] * b._dtype.itemsize
    for number, (device_id, region) in enumerate(layout.chunks):
        if not region.size:
            continue
        if region[0].start != rows or region[0].step != 1 or region[1].size != b._shape[1]:
            return None
        pieces.append((number, rows * row))
        rows = region[0].stop
        device = context.by_id[device_id]
        if not all(device.shares_memory(context.by_id[other]) for other in result.devices):
            return None
    return (b._shape, pieces) if rows == b._shape[0] else None
