"""Elements by rank: the lines of an array along axes, of which some positions in their order are wanted.

Where lines are whole on a device, it sorts its own; else they are brought together where there are enough lines for all
devices. Of few long lines, the elements of the wanted ranks are selected where they lie: nothing is sorted or gathered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from distarray.algorithms.local import arrays_in, mapped, whole_along
from distarray.algorithms.selection import candidates, selected
from distarray.array.aliases import Axis
from distarray.array.state import DistributedArray
from distarray.devices.arrays import AnyDType, DeviceArray, Library
from distarray.geometry import IndexMap, Range, Region
from distarray.layout import Layout
from distarray.ops.convert import asarray
from distarray.ops.reshaping import reshape

__all__ = ["RankedLines"]


class RankedLines:
    """An array's lines along axes, of which elements of some ranks are wanted.

    `shape` is that of the lines' arrangement, `n` their length; results have ranks along a new first axis.
    """

    def __init__(self, x: DistributedArray, axis: Axis, name: str) -> None:
        self.name = name
        self.axes = tuple(range(x.ndim)) if axis is None else normalize_axis_tuple(axis, x.ndim)
        self.kept = tuple(i for i in range(x.ndim) if i not in self.axes)
        self.shape = tuple(x.shape[i] for i in self.kept)
        self.n = math.prod(x.shape[i] for i in self.axes)
        self.x = x

    def few(self, layout: Layout) -> bool:
        """Whether the lines are split, and fewer than the devices, so that elements are selected."""
        if len(layout.devices) == 1 or self.x.dtype.kind not in "biuf" or not self.x.size:
            return False
        split = whole_along(self.x._context, layout, self.axes) is not layout
        return split and math.prod(self.shape) < len(layout.devices)

    def each(self) -> list[DistributedArray]:
        """The lines, one by one."""
        found = []
        for place in np.ndindex(*self.shape):
            key: list[Any] = [slice(None)] * self.x.ndim
            for axis, i in zip(self.kept, place, strict=True):
                key[axis] = slice(i, i + 1)
            found.append(self.x[tuple(key)])
        return found

    def ranked(self, ranks: Sequence[int], layout: Layout) -> DistributedArray:
        """The elements of given ranks, in order, of each line; then a row that is NaN where the line holds NaN.

        NaN have the last ranks.
        """
        context = self.x._context
        if self.few(layout):
            rows = []
            for line in self.each():
                found = candidates(context, line._operand(self.name))
                values = selected(found, [r for r in ranks if r < found.total])
                rows.append([*(values.get(r, np.nan) for r in ranks), 0 if found.total == self.n else np.nan])
            return asarray(np.array(rows, self.x.dtype).T.reshape(len(ranks) + 1, *self.shape), device=self.x.device)
        kth = [*ranks, self.n - 1]

        def local(lib: Library, lines: DeviceArray) -> Any:
            return lib.partition(lines, kth, axis=0)[lib.asarray(kth)]

        return self.mapped(local, len(kth), self.x.dtype)

    def mapped(self, call: Callable[[Any, Any], Any], rows: int, dtype: AnyDType) -> DistributedArray:
        """What a call makes of whole lines, along their first axis: `rows` for each."""
        context = self.x._context
        with context.lock:
            source = self.x._operand(self.name)
            layout = whole_along(context, source.layout, self.axes)
            arrays = arrays_in(context, source, layout, self.name)
            mapping: dict[int, list[Region]] = {device: [] for device in layout.devices}
            numbers: dict[tuple[int, Region], int] = {}
            for i, (device, region) in enumerate(layout.chunks):
                empty = self.n and not region.size
                made = Region((Range.full(0 if empty else rows), *(region[k] for k in self.kept)))
                mapping[device].append(made)
                numbers[device, made] = i
            target = context.layout(IndexMap((rows, *self.shape), mapping))

            def local(lib: Library, part: DeviceArray, region: Region) -> Any:
                if not region.size:
                    return lib.empty(region.shape, dtype)
                lines = lib.moveaxis(part, self.axes, tuple(range(len(self.axes))))
                return call(lib, lines.reshape(self.n, *lines.shape[len(self.axes) :]))

            order = [numbers[chunk] for chunk in target.chunks]
            regions = [region for _, region in target.chunks]
            return mapped(context, [[arrays[i] for i in order], regions], target, dtype, local, self.name)

    def shaped(self, value: DistributedArray, lead: tuple[int, ...], keepdims: bool) -> DistributedArray:
        """A result whose first axis is given the shape of the quantiles, and reduced axes length 1."""
        if lead == ():
            value = value[0, ...]
        elif len(lead) > 1:
            value = reshape(value, (*lead, *value.shape[1:]))
        if keepdims:
            key: list[Any] = [slice(None)] * len(lead)
            key += [None if i in self.axes else slice(None) for i in range(self.x.ndim)]
            value = value[tuple(key)] if key else value
        return value
