"""Advanced indexing, read and write, and ``ufunc.at``: keys with boolean masks and integer arrays, by NumPy's rules.

A key is split in a basic part, applied as a view that moves nothing, and indexed axes with host index arrays: metadata
that all processes agree on. ``x[mask]`` alone has a way of its own, which keeps the mask where it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import numpy as np

from distarray.algorithms.fancy import Fancy, has_arrays, lone_mask, read_key, split_key
from distarray.algorithms.gathering import (
    Index,
    Order,
    Request,
    fetch,
    local_index,
    project,
    rest_axes,
    split_target,
    upload,
)
from distarray.algorithms.masks import (
    assignable,
    check_dimensions,
    check_mask,
    mask_read,
    mask_write,
    mismatch,
    nothing,
)
from distarray.array.aliases import AnyArray, ArrayLike, Key
from distarray.array.layouts import resolve_layout
from distarray.array.place import host_nested, host_values, is_cupy, nested, place
from distarray.array.state import DistributedArray, copy_array, from_chunks, same_context
from distarray.array.writing import ASSIGNED, check_writable
from distarray.devices import Chunk, arrays_of
from distarray.devices.arrays import DeviceArray
from distarray.devices.base import Device
from distarray.fusion.conditions import WarningOnce
from distarray.fusion.expr import real_for, warn_complex
from distarray.geometry import Region
from distarray.layout import follow
from distarray.storage import writable_chunks
from distarray.transfer.execute import resolve
from distarray.transfer.ledger import note_to_host

__all__ = ["getitem", "read", "setitem", "store", "ufunc_at"]

# --- reading ----------------------------------------------------------------------------------------------------------


def getitem(x: DistributedArray, key: Key) -> DistributedArray:
    """``x[key]`` for keys with masks or index arrays: a copy, as in NumPy.

    Parameters
    ----------
    key : mask, integer array, or a tuple of these with ints, slices, None and Ellipsis
        Distributed, NumPy's, or nested lists.

    Raises
    ------
    IndexError
        Out of bounds, too many indices, a mask of another shape, arrays of another dtype.

    Notes
    -----
    Communication: none between devices where each holds the indexed axes whole, or ``x[mask]`` with array and mask in
    the same rows. Otherwise the selected elements that a device lacks, once; for ``x[mask]``, what brings array and mask
    in C-order intervals, and one count for each. Distributed index arrays, and masks that stand beside other indices, are
    fetched to the host: they are metadata that all processes must agree on.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.asarray(np.arange(6), layout=da.blocks(0))
    ...     x[[4, -6, 4]].get(), x[x > 2].get()
    (array([4, 0, 4]), array([3, 4, 5]))
    """
    items = read_key(key, x.shape)
    mask = lone_mask(items)
    if mask is not None:
        check_mask(mask.shape, x.shape)
        _same(x, mask)
        return mask_read(x, mask)
    if not has_arrays(items):
        result = copy_array(x._viewed(x._view_map().index(tuple(items))))
        result._detached = not result.shape and not any(i is Ellipsis for i in items)
        return result
    return read(x, split_key(x, items), "integer indexing")


def _same(x: DistributedArray, other: AnyArray) -> None:
    same_context([x, other] if isinstance(other, DistributedArray) else [x])


def read(x: DistributedArray, fancy: Fancy, operation: str) -> DistributedArray:
    """The elements that a split key selects, as a new array."""
    context = x._context
    context.check()
    with context.lock:
        shape = fancy.result
        if 0 in shape:
            return nothing(x, shape)
        source = x._viewed(fancy.view)._operand(operation)
        layout, parts = split_target(context, source.layout, fancy.axes, fancy.shape, fancy.at)
        requests = [Request(device, positions(fancy, cut), rest) for device, cut, rest in parts]
        fetched = fetch(context, source, fancy.axes, requests, operation)
        nb, nr = len(fancy.shape), len(shape) - len(fancy.shape)
        order = (*range(nb, nb + fancy.at), *range(nb), *range(nb + fancy.at, nb + nr))
        chunks: list[Chunk | None] = []
        with context.reporting():
            for chunk, (_, cut, rest) in zip(fetched, parts, strict=True):
                if chunk is None:
                    chunks.append(None)
                    continue
                device = chunk.device
                if nb == 1 and not fancy.at:  # it lies as it is asked for
                    chunks.append(chunk)
                    continue
                with device.active():
                    array = chunk.array.reshape((*cut.shape, *rest.shape)).transpose(order)
                    if not array.flags.c_contiguous:
                        array = device.lib.ascontiguousarray(array)
                chunks.append(device.adopt(array, operation))
        return from_chunks(context, layout, chunks, x.dtype)


def positions(fancy: Fancy, cut: Region) -> Index:
    """The index arrays for a region of the index dimensions."""
    if cut.shape == fancy.shape:
        return fancy.indices
    return tuple([np.ascontiguousarray(i.reshape(fancy.shape)[cut.slices].reshape(-1)) for i in fancy.indices])


# --- writing ----------------------------------------------------------------------------------------------------------


def value_of(
    x: DistributedArray,
    value: Any,  # anything that becomes an array
) -> Any:
    """A value to write: a NumPy scalar of the dtype of `x`, a host array, or a distributed one."""
    if isinstance(value, DistributedArray):
        _same(x, value)
        return real_for(value, x.dtype)
    if is_cupy(value):
        return place(x._context, value, resolve_layout(x._context, None, value.shape, itemsize=value.dtype.itemsize))
    if isinstance(value, (list, tuple)):
        value = nested(value, x.dtype)
    array = np.asarray(value)
    if array.ndim:
        return real_for(array, x.dtype)
    filled = np.empty(1, x.dtype)
    filled[[0]] = real_for(value, x.dtype)  # converted, or refused, as NumPy does it behind such a key
    return filled[0]


def setitem(x: DistributedArray, key: Key, value: ArrayLike) -> None:
    """``x[key] = value`` for keys with masks or index arrays; where an element is named twice, the last value stays.

    Notes
    -----
    Communication: none for scalars and host values, and for ``x[mask] = value`` where mask and value lie as `x` does.
    Otherwise the elements of a distributed value that their owners lack; for one value for each True of a mask, what
    brings mask and values in C-order intervals. Distributed index arrays are fetched to the host.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.asarray(np.arange(6), layout=da.blocks(0))
    ...     x[x > 3] = 0
    ...     x[[0, -1]] = [7, 8]
    ...     x.get()
    array([7, 1, 2, 3, 0, 8])
    """
    items = read_key(key, x.shape)
    check_writable(x, *ASSIGNED)
    mask = lone_mask(items)
    if mask is not None:
        check_mask(mask.shape, x.shape)
        _same(x, mask)
        mask_write(x, mask, value_of(x, value), only=len(items) == 1)
        return
    if not has_arrays(items):
        x[tuple(items)] = value
        return
    given = value_of(x, value)
    if not x.ndim and len(items) == 1 and not isinstance(given, np.generic):
        check_dimensions(given.ndim)
    store(x, split_key(x, items, partial(_check_fit, given)), given, "assignment")


def store(x: DistributedArray, fancy: Fancy, value: ArrayLike, operation: str) -> None:
    """Write a value (see :func:`value_of`) to what a split key selects."""
    value = _fitted(fancy, value)
    keep = np.arange(fancy.indices[0].size) if isinstance(value, np.generic) else _last(fancy)

    def assign(device: Device, target: DeviceArray, index: Index, part: DeviceArray) -> None:
        target[upload(device, index)] = part

    _update(x, fancy, keep, [value], assign, operation)


def _fitted(fancy: Fancy, value: Any) -> Any:
    """A value as it is if a scalar, else broadcast to the indexing result."""
    if isinstance(value, np.generic):
        return value
    given, shape = value.shape, fancy.result
    _check_fit(value, shape)
    if 0 in given:
        return np.zeros((), value.dtype)[()]
    while value.ndim > len(shape):
        value = value[0, ...]
    if isinstance(value, np.ndarray):
        return np.broadcast_to(value, shape)
    return value._viewed(value._view_map().broadcast_to(shape))


def _check_fit(value: Any, shape: tuple[int, ...]) -> None:
    if not isinstance(value, np.generic) and not assignable(value.shape, shape):
        raise mismatch(value.shape, shape)


def _last(fancy: Fancy) -> Any:
    """The positions that stay when later ones overwrite earlier ones of the same element."""
    sizes = [fancy.view.shape[a] for a in fancy.axes]
    flat = np.zeros(fancy.indices[0].size, np.int64)
    for size, values in zip(sizes, fancy.indices, strict=True):
        flat = flat * size + values
    if flat.size < 2 or (flat[1:] > flat[:-1]).all():
        return np.arange(flat.size)
    elements = math.prod(sizes)
    if elements <= 8 * flat.size:
        last = np.empty(elements, np.int64)
        last[flat] = np.arange(flat.size)
        return np.nonzero(last[flat] == np.arange(flat.size))[0]
    _, first = np.unique(flat[::-1], return_index=True)
    return np.sort(flat.size - 1 - first)


def _update(
    x: DistributedArray,
    fancy: Fancy,
    keep: DeviceArray,
    values: Sequence[Any],
    apply_to: Callable[..., Any],
    operation: str,
) -> None:
    """Call ``apply_to(device, target, index, *parts)`` on every chunk that holds elements of the positions `keep`.

    `target` is the chunk with the indexed axes first, `parts` are the values for it, of shape (positions, *other axes).
    Values are received, and copies of what others still read are made, before the first chunk is written.
    """
    context = x._context
    context.check()
    with context.lock:
        storage = x._own()
        resolve(context, storage.version, operation)
        if 0 in fancy.result:
            return
        seen = context.layouts.visible(storage.version.layout, fancy.view)
        assert seen is not None
        others = rest_axes(len(fancy.view.shape), fancy.axes)
        index = tuple([i[keep] for i in fancy.indices])
        boxes = sorted({project(region, fancy.axes) for _, region in seen.layout.chunks})
        chosen = {boxes[i]: found for i, found in Order(index).select(boxes)}
        held: list[tuple[int, Any, Request]] = []  # chunk of the view, positions, what it needs of the values
        for i, (device_id, region) in enumerate(seen.layout.chunks):
            found = chosen.get(project(region, fancy.axes))
            if found is not None and region.size:
                held.append((i, found, Request(device_id, _unravel(keep[found], fancy.shape), project(region, others))))
        parts = [_parts(x, fancy, value, held, operation) for value in values]
        twins = [t for t in seen.twins if t[0] in {i for i, _, _ in held}]
        touched = [seen.sources[i] for i, _, _ in held] + [t[1] for t in twins]
        with context.reporting():
            version = writable_chunks(storage, touched)
        failed: FloatingPointError | None = None
        guard = context.guarding(operation)  # by the error state outside
        with WarningOnce(context, operation.rpartition(".")[2]), guard:
            for turn, (i, found, _) in enumerate(held):
                chunk = version.chunks[seen.sources[i]]
                if chunk is None:
                    continue
                device = chunk.device
                region = seen.layout.chunks[i][1]
                local = local_index(index, project(region, fancy.axes), found)
                target = seen.show(i, chunk.array, device.xp)
                try:
                    with device.active():
                        apply_to(device, target.transpose((*fancy.axes, *others)), local, *[p[turn] for p in parts])
                except FloatingPointError as error:  # NumPy looks for them behind its loop: the others are written too
                    failed = failed or error
                for origin, source, path in twins:
                    twin = version.chunks[source]
                    if origin == i and twin is not None:
                        device.copy(follow(path, twin.array, device.xp), target, device)
            if failed is not None:
                raise failed


def _unravel(places: DeviceArray, shape: tuple[int, ...]) -> Index:
    return (places,) if len(shape) == 1 else tuple(np.unravel_index(places, shape))


def _parts(x: DistributedArray, fancy: Fancy, value: Any, held: Sequence[Any], operation: str) -> list[Any]:
    """The values that each chunk needs: the scalar itself, or an array on the chunk's device (None in other processes)."""
    context = x._context
    if isinstance(value, np.generic):
        return [value] * len(held)
    nb = len(fancy.shape)
    axes = tuple(range(fancy.at, fancy.at + nb))
    if isinstance(value, np.ndarray):
        front = value.transpose((*axes, *rest_axes(value.ndim, axes)))
        parts: list[Any] = []
        with context.reporting():
            for _, _, request in held:
                device = context.by_id[request.device]
                if device.process != context.process:
                    parts.append(None)
                    continue
                block = front[(*[slice(None)] * nb, *request.rest.slices)][request.indices]
                parts.append(device.from_host(block, label="values").array)
        return parts
    chunks = fetch(context, value._operand(operation), axes, [request for _, _, request in held], operation)
    return arrays_of(chunks)


# --- ufunc.at ---------------------------------------------------------------------------------------------------------


def ufunc_at(ufunc: np.ufunc, array: AnyArray, indices: ArrayLike, *values: Any) -> None:
    """``ufunc.at(array, indices, values)``: unbuffered, in place, in index order within each element.

    Every copy of an element gets the same sequence of updates, so that copies stay equal to the bit. On GPUs the touched
    elements of a chunk are updated on the host, since atomic updates there have no order.

    Notes
    -----
    Communication: the elements of a distributed value that the chunks lack; index arrays and masks are fetched.
    """
    if not isinstance(array, DistributedArray):
        check_writable(cast("Any", array))
        operands = [host_values(v) if isinstance(v, DistributedArray) else v for v in (indices, *values)]
        ufunc.at(cast("Any", array), *operands)
        return
    items = read_key(indices, array.shape)
    check_writable(array, *ASSIGNED)
    dropped = _probe(ufunc, array, values)
    if dropped:
        warn_complex()
    basic = not has_arrays(items)
    fancy = _one(array, items) if basic else split_key(array, items)
    fitted = []
    for value in values:
        if isinstance(value, DistributedArray):
            _same(array, value)
        elif not isinstance(value, np.generic):
            value = np.asarray(host_nested(value))
            if value.dtype.kind == "O":  # a number that no other type holds
                value = np.asarray(value, array.dtype)
            value = value if value.ndim else value[()]
        if not isinstance(value, np.generic):
            try:
                if value.ndim > len(fancy.result) - basic:
                    raise mismatch(value.shape, fancy.result)
                value = _fitted(fancy, value)
            except ValueError:
                raise ValueError("array is not broadcastable to correct shape") from None
        fitted.append(value)

    def update(device: Device, target: Any, index: Index, *parts: Any) -> None:
        if device.lib is np and not dropped:
            ufunc.at(target, index, *parts)
        else:
            _update_on_host(_at_real if dropped else np.ufunc.at, ufunc, device, target, index, parts)

    _update(array, fancy, np.arange(fancy.indices[0].size), fitted, update, f"{ufunc.__name__}.at")


def _one(x: DistributedArray, items: Sequence[Any]) -> Fancy:
    """A basic key as an index on a new first axis of length 1."""
    view = x._view_map().index((None, *items))
    return Fancy(view, (0,), (np.zeros(1, np.int64),), (1,), 0)


def _probe(ufunc: np.ufunc, array: DistributedArray, values: Sequence[Any]) -> bool:
    """Raise what NumPy raises for these dtypes and this number of operands; whether results lose an imaginary part."""
    operands = [np.ones(1, v.dtype) if isinstance(v, DistributedArray) else np.asarray(v) for v in values]
    known = [v.reshape(-1)[:1] if v.dtype.kind == "O" else np.ones(1, v.dtype) for v in operands]
    stand = np.ones(1, array.dtype)
    dropped = array.dtype.kind in "iuf" and any(v.dtype.kind == "c" for v in known)
    with np.errstate(all="ignore"):
        if dropped:
            dropped = ufunc(stand, *known).dtype.kind == "c"
            stand = ufunc(stand, *known) if dropped else stand
        ufunc.at(stand, [0], *known)
    return dropped


def _update_on_host(
    update: Callable[..., None],
    ufunc: np.ufunc,
    device: Device,
    target: DeviceArray,
    index: Index,
    parts: Sequence[Any],
) -> None:
    """``update(ufunc, touched, places, *values)`` on the touched elements of a chunk: of a GPU's, brought to the host and back."""
    flat = np.ravel_multi_index(index, target.shape[: len(index)])
    _, first, inverse = np.unique(flat, return_index=True, return_inverse=True)
    place = upload(device, tuple([i[first] for i in index]))
    touched = device.to_host(target[place])
    if device.kind != "host":
        note_to_host(touched.nbytes)
    values = [p if isinstance(p, np.generic) else device.to_host(p) for p in parts]
    update(ufunc, touched, inverse.reshape(-1), *values)
    target[place] = device.from_host(touched, label=f"{ufunc.__name__}.at").array


def _at_real(ufunc: np.ufunc, touched: np.ndarray[Any, Any], places: np.ndarray[Any, Any], *values: Any) -> None:
    """``ufunc.at`` of complex results into real elements, of which each keeps the real part before the next: the first update of
    each element, then the second, and so on. The caller has warned."""
    order = np.argsort(places, kind="stable")
    ranked = places[order]
    turn = np.empty(len(places), np.intp)
    turn[order] = np.arange(len(places)) - np.searchsorted(ranked, ranked)
    for k in range(int(turn.max(initial=-1)) + 1):
        now = turn == k
        taken = [v if isinstance(v, np.generic) else v[now] for v in values]
        touched[places[now]] = ufunc(touched[places[now]], *taken).real
