"""``reshape``: a view where the layout allows it, and otherwise one move to where the reshaped chunks are to be, with no
device ever holding more than its part."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from operator import methodcaller
from typing import Any

import numpy as np

from distarray.array import elements
from distarray.array.aliases import ArrayLike, ShapeLike
from distarray.array.functions import implements
from distarray.array.memory_model import byte_strides, model
from distarray.array.shapes import memory_order
from distarray.array.shown import is_short, seen
from distarray.array.standing import settled, stand_for
from distarray.array.state import DistributedArray, copy_array, fresh_array, from_chunks
from distarray.geometry import IndexMap, Region, ViewMap, blocks, flat_blocks, reshape_map
from distarray.geometry.reshape import reshape_strides
from distarray.ops.convert import asarray
from distarray.ops.generate import lengths_of
from distarray.storage import Storage
from distarray.transfer.execute import allocate, copy_into

__all__ = ["ravel", "reshape"]


@implements(np.reshape)
def reshape(a: ArrayLike, /, shape: ShapeLike, order: str = "C", *, copy: bool | None = None) -> DistributedArray:
    """The elements in the same order, in another shape.

    Parameters
    ----------
    a : array_like
    shape : int or sequence of int
        One length may be negative, -1: it follows from the others.
    order : {"C", "F", "A"}
        In which order elements are read and put.
    copy : bool, optional
        True: always a copy. False: never; an error where one is needed.

    Returns
    -------
    DistributedArray
        A view where NumPy returns one and every chunk can be reshaped where it is. Where NumPy returns a view and the
        layout allows none: a copy that shows later writes to `a`, and is read-only as long as anybody holds `a` or a view of
        it, so that no write gets lost. Where NumPy copies: a copy.

    Raises
    ------
    ValueError
        The sizes differ, or ``copy=False`` and a copy is needed.

    Notes
    -----
    Communication: none for a view. Otherwise each element moves at most once, to the device that holds it afterwards; and
    again when what stands for a view is read after a write to `a`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.arange(12, layout=da.blocks(0))
    ...     x.reshape(4, 3).index_map
    {0: [(slice(0, 2, 1), slice(0, 3, 1))], 1: [(slice(2, 4, 1), slice(0, 3, 1))]}
    """
    x = asarray(a)
    found: tuple[int, ...] | None = None
    if order == "C" and copy is None and x._context.kind == "host":
        found = _resolved(x, shape)
        ready = elements.reshaped(x, found)
        if ready is not None:
            return ready
    order = memory_order(order, "CFA")
    if order == "A":
        flags = model(x).flags
        order = "F" if flags.f_contiguous and not flags.c_contiguous else "C"
    new = _resolved(x, shape) if found is None else found
    if order == "F":
        return reshape(x.T, new[::-1], copy=copy).T
    view = _view(x, new)
    if view is not None:
        return copy_array(x._viewed(view)) if copy else x._viewed(view)
    if copy is False and x.size:
        raise ValueError(
            f"Unable to avoid creating a copy while reshaping shape {x.shape} to {new} in layout {x.layout}: pass copy=None"
        )
    if copy or not x.size or not _is_view(x, new):
        return _copied(x, new)
    return stand_for(x, partial(_copied, new=new), methodcaller("reshape", new))


@implements(np.ravel)
def ravel(a: ArrayLike, order: str = "C") -> DistributedArray:
    """The elements in one axis.

    With order ``"K"`` they are read in the order of the strides that NumPy's view would have.

    It is :func:`reshape` to -1. With order ``"K"`` the elements are read in the order of the strides that NumPy's
    view would have.

    Parameters
    ----------
    a : array_like
    order : {"C", "F", "A", "K"}
        In which order elements are read.

    Returns
    -------
    DistributedArray
        A view, or a copy: where NumPy would have a view, one that shows later writes to `a`, and is read-only as long as
        anybody holds `a` or a view of it.

    Raises
    ------
    TypeError
        `order` is no str.

    Notes
    -----
    Communication: none for a view. Otherwise each element moves at most once.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.ravel(da.eye(2)).tolist()
    [1.0, 0.0, 0.0, 1.0]
    """
    x = asarray(a)
    order = memory_order(order)
    if order == "C" and x._context.kind == "host" and (ready := elements.reshaped(x, (x.size,))) is not None:
        return ready
    flags = model(x).flags
    if order == "K":
        strides = [stride if n > 1 else 0 for n, stride in zip(x.shape, byte_strides(x), strict=True)]
        x, order = x._viewed(x._view_map().transpose(_by_strides(strides))), "C"
        flags = model(x).flags
    elif order == "A":
        order = "F" if flags.f_contiguous and not flags.c_contiguous else "C"
    flat = reshape(x, -1, order)
    if flags.f_contiguous if order == "F" else flags.c_contiguous:
        return flat
    return (
        copy_array(flat) if flat._storage is x._storage else settled(flat)
    )  # NumPy copies here, and its copy may be written to


def _by_strides(strides: Sequence[int]) -> list[int]:
    """The axes as NumPy's iterator nests them, the longest strides outermost; axes of stride 0 stay beside those they are at."""
    order: list[int] = []  # the innermost first
    for axis in reversed(range(len(strides))):
        at = len(order)
        for place in reversed(range(len(order))):
            new, old = abs(strides[axis]), abs(strides[order[place]])
            if new and old:
                if old <= new:
                    break
                at = place
        order.insert(at, axis)
    return order[::-1]


def flatten(x: DistributedArray, order: str = "C") -> DistributedArray:
    """A copy of the elements in one axis.

    Parameters
    ----------
    x : DistributedArray
    order : {"C", "F", "A", "K"}
        In which order elements are read.

    Returns
    -------
    DistributedArray

    Notes
    -----
    Communication: none where every chunk can be reshaped where it is. Otherwise each element moves at most once.
    """
    if order == "C" and x._context.kind == "host" and type(shown := seen(x)) is np.ndarray:
        here = x._context.layouts.of_shape(x._kin, (x.size,))  # type: ignore[arg-type]
        if is_short(here, shown.nbytes):
            return fresh_array(x._context, here, shown.flatten())
    flat = ravel(x, order)
    return copy_array(flat) if flat._storage is x._storage else settled(flat)


def set_shape(x: DistributedArray, shape: ShapeLike) -> None:
    """``x.shape = shape``: this array reshaped in place. Communication: that of `reshape`.

    Raises
    ------
    AttributeError
        NumPy could not do it without a copy.
    """
    new = _resolved(x, shape)
    if x.size and not _is_view(x, new):  # an array without elements is reshaped without a copy
        raise AttributeError(
            f"Incompatible shape for in-place modification: an array of shape {x.shape} can't become {new} without a "
            f"copy, since it is not contiguous. Use `x = x.reshape({new})`"
        )
    result = reshape(x, new)
    x._take(result)
    x._writable = result._writable


def _resolved(x: DistributedArray, shape: Any) -> tuple[int, ...]:
    """The new shape, -1 filled in."""
    wanted = list(lengths_of(shape))
    known = math.prod([n for n in wanted if n >= 0])
    problem = f"cannot reshape array of size {x.size} into shape {tuple(wanted)}"
    negative = [i for i, n in enumerate(wanted) if n < 0]
    if len(negative) > 1:
        raise ValueError(f"can only specify one unknown dimension: got {tuple(wanted)}")
    if negative:
        if not known or x.size % known:
            raise ValueError(f"{problem}: the array has shape {x.shape}; pass a shape with as many elements")
        wanted[negative[0]] = x.size // known
    elif known != x.size:
        raise ValueError(f"{problem}: the array has shape {x.shape}; pass a shape with as many elements")
    return tuple(wanted)


def _view(x: DistributedArray, new: tuple[int, ...]) -> ViewMap | None:
    """The reshaped view, where NumPy's reshape is one and every chunk can be reshaped where it is."""
    view = x._view_map().reshape(new)
    if view is None or (view.inner is not None and not x.size):
        return None
    if type(x._storage) is not Storage and not _is_view(x, new):  # of a storage the view itself says so
        return None
    return view if x._context.layouts.allows(x._own().version.layout, view) else None


def _is_view(x: DistributedArray, new: tuple[int, ...]) -> bool:
    """Whether NumPy's reshape would be a view."""
    if type(x._storage) is Storage:
        return x._view_map().reshape(new) is not None
    return reshape_strides(x.shape, byte_strides(x), new) is not None


def _copied(x: DistributedArray, new: tuple[int, ...]) -> DistributedArray:
    """The reshaped array in new chunks: block rows where there are enough rows, else even intervals of the flat array."""
    context, source = x._context, x._operand("reshape", partial_ok=True)
    layout, old = source.layout, x.shape
    same = reshape_map(layout.index_map, new)
    if same is not None:
        reshaped = context.layout(same, layout.mode)
        kept = allocate(context, reshaped, x.dtype, label="reshape")
        for chunk, array in zip(kept, source.arrays, strict=True):
            if chunk is not None:
                chunk.device.copy(chunk.array.reshape(array.shape), array, chunk.device)
        return from_chunks(context, reshaped, kept, x.dtype)
    devices = layout.devices
    if not x.size:
        target = context.layout(blocks(0).resolve(new, devices))
        return from_chunks(context, target, allocate(context, target, x.dtype, label="reshape"), x.dtype)
    rows = new[0] if new and new[0] >= len(devices) else x.size
    each, more = divmod(rows, len(devices))
    bounds = [(i * each + min(i, more)) * (x.size // rows) for i in range(len(devices) + 1)]
    regions: dict[int, list[Region]] = dict(zip(devices, flat_blocks(new, bounds), strict=True))
    target = context.layout(IndexMap(new, regions))
    fill = layout.mode if layout.is_partial and not layout.index_map.covers else None
    with context.reporting():
        chunks = allocate(context, target, x.dtype, fill, "reshape")
    made = dict(zip(target.chunks, [None if c is None else c.array.reshape(-1) for c in chunks], strict=True))
    # each new chunk is an interval of the flat array, which the old shape cuts into boxes
    order = [(device_id, region) for device_id in devices for region in regions[device_id]]
    intervals = flat_blocks(old, [0, *accumulate(region.size for _, region in order)])
    places: dict[tuple[int, Region], Any] = {}
    for (device_id, region), boxes in zip(order, intervals, strict=True):
        at, flat = 0, made[device_id, region]
        for box in boxes:
            places[device_id, box] = None if flat is None else flat[at : at + box.size].reshape(box.shape)
            at += box.size
    held: dict[int, list[Region]] = {device_id: [] for device_id in devices}
    for device_id, box in places:
        held[device_id].append(box)
    boxed = context.layout(IndexMap(old, held))
    copy_into(context, source, boxed, [places[chunk] for chunk in boxed.chunks], operation="reshape")
    return from_chunks(context, target, chunks, x.dtype)
