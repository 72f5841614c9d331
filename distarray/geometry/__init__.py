"""Which elements of a logical array live where: ranges, regions, index maps, the common layouts, views and reshapes.
Pure Python integers, so that every process computes the same answers without touching data or an array library."""

from __future__ import annotations

from distarray.geometry.index_map import Cell, IndexMap
from distarray.geometry.ranges import Range
from distarray.geometry.regions import Region, Slices
from distarray.geometry.reshape import contiguous_strides, flat_blocks, reshape_map, reshape_region, reshape_strides
from distarray.geometry.specs import Spec, as_spec, blocks, cyclic, grid, make_2d_index_map, replicated
from distarray.geometry.views import AxisMap, Pull, ViewMap

__all__ = [
    "AxisMap",
    "Cell",
    "IndexMap",
    "Pull",
    "Range",
    "Region",
    "Slices",
    "Spec",
    "ViewMap",
    "as_spec",
    "blocks",
    "contiguous_strides",
    "cyclic",
    "flat_blocks",
    "grid",
    "make_2d_index_map",
    "replicated",
    "reshape_map",
    "reshape_region",
    "reshape_strides",
]
