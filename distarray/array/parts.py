"""Views of other dtypes: what of each chunk a step of the array library shows, such as ``attrgetter("real")``.

Parts of complex numbers, fields of structured elements, the same bytes as another dtype, windows of whole lines: each chunk
shows its own part, without a copy, and what is written to the part is written to the array. Where the layout cuts what the step
needs whole, the caller makes a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from distarray.array.standing import stand_for
from distarray.array.state import DistributedArray, copy_array
from distarray.geometry import IndexMap, Range, Region, ViewMap
from distarray.geometry.views import AxisMap
from distarray.layout import Layout
from distarray.storage import PartStorage
from distarray.transfer.execute import resolve

ArrayStep = Callable[[Any], Any]


def same_shape(x: DistributedArray, step: ArrayStep, dtype: np.dtype[Any], operation: str) -> DistributedArray:
    """The view of `x` whose elements are what `step` shows of each of its elements, in arrays of the same shape.

    Communication: partial values are folded first; else none.
    """
    if x._detached:
        part = same_shape(_settled(x), step, dtype, operation)
        part._detached = True
        return part
    view = x._view
    return _shown(x, step, dtype, operation, lambda layout: layout, view)


def with_axes(
    x: DistributedArray, step: ArrayStep, dtype: np.dtype[Any], axes: tuple[int, ...], operation: str
) -> DistributedArray:
    """The same, where what `step` shows of an element is an array of shape `axes`: they come last."""
    if x._detached:
        return _with_axes_of_copy(x, step, dtype, axes, operation)
    if _is_reshaped(x):
        make = partial(_with_axes_of_copy, step=step, dtype=dtype, axes=axes, operation=operation)
        return stand_for(x, make, step)  # a write would be lost, where NumPy's reaches the array
    full = tuple([Range.full(n) for n in axes])
    mine = x._view_map()
    n, old = len(mine.shape), len(mine.base)
    more = tuple([AxisMap(n + k, 0, 1) for k in range(len(axes))])
    view = ViewMap((*mine.shape, *axes), (*mine.base, *axes), (*mine.axes, *more), None)

    def layout_of(layout: Layout) -> Layout:
        return _mapped(x, layout, (*mine.base, *axes), lambda region: Region((*region, *full)))

    assert len(view.axes) == old + len(axes)
    return _shown(x, step, dtype, operation, layout_of, view)


def _with_axes_of_copy(
    x: DistributedArray, step: ArrayStep, dtype: np.dtype[Any], axes: tuple[int, ...], operation: str
) -> DistributedArray:
    part = with_axes(_settled(x), step, dtype, axes, operation)
    part._writable = False
    return part


def rescaled(x: DistributedArray, step: ArrayStep, dtype: np.dtype[Any], operation: str) -> DistributedArray | None:
    """The bytes of `x` as elements of another size, along its last axis; None where a chunk would cut them.

    The last axis of `x` must be contiguous, and hold whole elements of `dtype`.
    """
    old, new = x.itemsize, int(dtype.itemsize)
    mine = x._view_map()
    if x._detached or _is_reshaped(x) or not mine.axes:
        return None
    last = mine.axes[-1]
    if last.axis != len(mine.shape) - 1 or last.step != 1 or last.start * old % new or mine.base[-1] * old % new:
        return None
    layout = _resolved_layout(x, operation)
    if any(
        region.size and (region[-1].step != 1 or region[-1].start * old % new or region[-1].size * old % new)
        for _, region in layout.index_map.chunks
    ):
        return None
    base = (*mine.base[:-1], mine.base[-1] * old // new)

    def layout_of(layout: Layout) -> Layout:
        def scaled(region: Region) -> Region:
            r = region[-1]
            return Region((*region[:-1], Range.of(r.start * old // new, 1, r.size * old // new)))

        return _mapped(x, layout, base, scaled)

    shape = (*mine.shape[:-1], mine.shape[-1] * old // new)
    view = ViewMap(shape, base, (*mine.axes[:-1], AxisMap(last.axis, last.start * old // new, 1)), None)
    return _shown(x, step, dtype, operation, layout_of, view)


def windows(
    x: DistributedArray, step: ArrayStep, lengths: Sequence[tuple[int, int]], operation: str
) -> DistributedArray | None:
    """The view that `step` makes of whole lines: axis `a` gets shorter by `n` - 1, and an axis of `n` comes last, for each
    ``(a, n)`` of `lengths`; None where `x` is a view, or a chunk holds only a part of such an axis."""
    if x._detached or x._view is not None or any(n < 1 for _, n in lengths):
        return None
    layout = _resolved_layout(x, operation)
    axes = {axis for axis, _ in lengths}
    if any(not r.size or r[a].size != x.shape[a] for _, r in layout.index_map.chunks for a in axes):
        return None
    shape = list(x.shape)
    for axis, n in lengths:
        shape[axis] -= n - 1
    more = tuple([Range.full(n) for _, n in lengths])

    def layout_of(layout: Layout) -> Layout:
        return _mapped(
            x, layout, (*shape, *[n for _, n in lengths]),
            lambda region: Region((*[Range.full(shape[a]) if a in axes else r for a, r in enumerate(region)], *more)),
        )  # fmt: skip

    return _shown(x, step, x.dtype, operation, layout_of, None)


def _is_reshaped(x: DistributedArray) -> bool:
    """Whether `x` indexes into another shape than its storage's."""
    view = x._view_map()
    return view.inner is not None or view.base != x._own().layout.shape


def _settled(x: DistributedArray) -> DistributedArray:
    """A copy in a storage that it shows all of."""
    copy = copy_array(x)
    copy._detached = False
    return copy


def _resolved_layout(x: DistributedArray, operation: str) -> Layout:
    storage = x._own()
    with x._context.lock:
        resolve(x._context, storage.version, operation)
    return storage.version.layout


def _mapped(x: DistributedArray, layout: Layout, shape: Sequence[int], change: Callable[[Region], Region]) -> Layout:
    """A layout with each of its regions changed."""
    index_map = layout.index_map
    regions = {device: [change(region) for region in index_map.regions(device)] for device in index_map.devices}
    return x._context.layout(IndexMap(tuple(shape), regions))


def _shown(
    x: DistributedArray,
    step: ArrayStep,
    dtype: np.dtype[Any],
    operation: str,
    layout_of: Callable[[Layout], Layout],
    view: ViewMap | None,
) -> DistributedArray:
    layout = layout_of(_resolved_layout(x, operation))
    storage = x._own()
    steps = (*storage.steps, step) if isinstance(storage, PartStorage) else (step,)
    part = PartStorage(storage.root, steps, layout, np.dtype(dtype))
    plain = None if view is None or (view.is_identity and view.base == layout.shape) else view
    shape = layout.shape if view is None else view.shape
    return x._make(x._context, shape, part.version.dtype, None, part, plain, x._writable)
