"""Reshapes in C order that leave every chunk where it is. They exist to tell when ``reshape`` is a view, each chunk
reshaped on its own device, and to cut a flattened array in intervals that are boxes again."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from distarray.errors import LayoutError
from distarray.geometry.index_map import IndexMap
from distarray.geometry.ranges import EMPTY, Range
from distarray.geometry.regions import Region

__all__ = ["contiguous_strides", "flat_blocks", "reshape_map", "reshape_region", "reshape_strides"]


def reshape_region(region: Region, old: Sequence[int], new: Sequence[int]) -> Region | None:
    """Where the elements of `region` lie when an array of shape `old` is reshaped to `new` in C order.

    Returns
    -------
    Region or None
        The region of `new` with the same elements in the same C order, so that the chunk is just reshaped; None where
        they are not a box, or not in that order. An empty region stays empty (None for a 0-d `new`, which has none).

    Raises
    ------
    LayoutError
        If the shapes have different numbers of elements, or the region has not one range for each axis of `old`.

    Examples
    --------
    >>> print(reshape_region(Region.from_index(slice(2, 4), (4, 6)), (4, 6), (2, 2, 6)))
    [1:2, 0:2, 0:6]
    >>> reshape_region(Region.from_index((..., slice(2, 4)), (4, 6)), (4, 6), (24,)) is None
    True
    """
    old, new = tuple(old), tuple(new)
    if prod(old) != prod(new):
        raise LayoutError(
            f"cannot reshape array of size {prod(old)} into shape {new}: the array has shape {old}; "
            "pass a shape with as many elements"
        )
    if len(region) != len(old):
        raise LayoutError(
            f"region {region} has {len(region)} axes, the array has shape {old}: pass one range for each axis"
        )
    if old == new:
        return region
    if region == Region.full(old):
        return Region.full(new)
    if not region.size:
        return Region((EMPTY, *Region.full(new[1:]))) if new else None
    # The region as flat indices: offset + sum of i_k * stride_k over counts; axes that continue each other are merged.
    offset, stride = 0, 1
    runs: list[tuple[int, int]] = []  # (stride, count), innermost first
    for r, n in zip(reversed(region), reversed(old)):
        offset += r.start * stride
        if r.size > 1:
            jump = r.step * stride
            if runs and jump == runs[-1][0] * runs[-1][1]:
                runs[-1] = (runs[-1][0], runs[-1][1] * r.size)
            else:
                runs.append((jump, r.size))
        stride *= n
    # Written again in the digits of the new shape: a run lies in one axis, or fills axes to their ends and goes on.
    out = []
    stride = 1
    k = 0
    for n in reversed(new):
        offset, start = divmod(offset, n)
        r = Range(start, 1, 1)
        if k < len(runs) and runs[k][0] < stride * n:
            jump, count = runs[k]
            step, rest = divmod(jump, stride)
            if rest:
                return None
            if start + (count - 1) * step < n:
                r = Range(start, step, count)
                k += 1
            else:
                size, rest = divmod(n, step)
                if rest or start >= step or count % size:
                    return None
                r = Range.of(start, step, size)
                runs[k] = (stride * n, count // size)
        out.append(r)
        stride *= n
    return Region(out[::-1]) if k == len(runs) else None


def reshape_map(index_map: IndexMap, new_shape: Sequence[int]) -> IndexMap | None:
    """The map after a C-order reshape that moves nothing: chunk `i` of the result is chunk `i` of `index_map`,
    reshaped.

    Returns
    -------
    IndexMap or None
        None where a region's elements are not a box in the same order, or a device's chunks would change their order.

    Raises
    ------
    LayoutError
        If the shapes have different numbers of elements.
    """
    new = tuple(new_shape)
    if new == index_map.shape:
        return index_map
    if prod(new) != index_map.size:
        raise LayoutError(
            f"cannot reshape array of size {index_map.size} into shape {new}: the array has shape {index_map.shape}; "
            "pass a shape with as many elements"
        )
    mapping: dict[int, list[Region]] = {}
    for device in index_map.devices:
        images = mapping[device] = []
        for region in index_map.regions(device):
            image = reshape_region(region, index_map.shape, new)
            if image is None or (images and images[-1] >= image):
                return None
            images.append(image)
    return IndexMap(new, mapping)


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of an array in C order, in elements."""
    strides = []
    jump = 1
    for n in reversed(shape):
        strides.append(jump)
        jump *= n
    return tuple(strides[::-1])


def reshape_strides(shape: Sequence[int], strides: Sequence[int], new: Sequence[int]) -> tuple[int, ...] | None:
    """The strides with which an array of `shape` and `strides` is reshaped to `new` in C order and in place.

    Both shapes are walked in groups of axes of equal size. In each the old axes must continue each other; the new ones
    then divide the innermost stride. Axes of length 1 have any stride.

    Returns
    -------
    tuple of int or None
        None where only a copy has that shape.

    Examples
    --------
    >>> reshape_strides((2, 6), (12, 2), (4, 3))
    (6, 2)
    >>> reshape_strides((2, 3), (6, 1), (6,)) is None
    True
    """
    new = tuple(new)
    if 0 in new:
        return contiguous_strides(new)
    old = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    found = [0] * len(new)
    i = j = 0
    while i < len(old):
        first, begin = i, j
        size, filled = old[i][0], new[j]
        i, j = i + 1, j + 1
        while size != filled:
            if filled < size:
                filled *= new[j]
                j += 1
            else:
                size *= old[i][0]
                i += 1
        if any(old[k][1] != old[k + 1][0] * old[k + 1][1] for k in range(first, i - 1)):
            return None
        jump = old[i - 1][1]
        for axis in reversed(range(begin, j)):
            found[axis] = jump
            jump *= new[axis]
    return tuple(found)


def flat_blocks(shape: Sequence[int], bounds: Sequence[int]) -> list[list[Region]]:
    """The intervals ``[bounds[i], bounds[i+1])`` of the array flattened in C order, each as boxes in that order.

    An interval needs at most ``2*ndim - 1`` boxes, and an empty one none.

    Raises
    ------
    LayoutError
        If the bounds decrease or leave ``0 .. size``.

    Examples
    --------
    >>> [[str(box) for box in boxes] for boxes in flat_blocks((3, 4), [0, 6, 12])]
    [['[0:1, 0:4]', '[1:2, 0:2]'], ['[1:2, 2:4]', '[2:3, 0:4]']]
    """
    shape = tuple(shape)
    size = prod(shape)
    for low, high in pairwise(bounds):
        if low > high:
            raise LayoutError(f"bounds must not decrease, got {low} before {high} in {list(bounds)}: sort them")
    if bounds and not 0 <= bounds[0] <= bounds[-1] <= size:
        raise LayoutError(
            f"bounds {list(bounds)} leave 0..{size}, the flat indices of shape {shape}: clip them to that"
        )
    return [_boxes(shape, (), low, high) for low, high in pairwise(bounds)]


def _boxes(shape: tuple[int, ...], lead: tuple[Range, ...], low: int, high: int) -> list[Region]:
    """The interval ``[low, high)`` of an array of `shape`, below the single indices `lead` of outer axes."""
    if low >= high:
        return []
    if not shape:
        return [Region(lead)]
    inner = prod(shape[1:])
    first, begin = divmod(low, inner)
    last, end = divmod(high, inner)
    if first == last:
        return _boxes(shape[1:], (*lead, Range(first, 1, 1)), begin, end)
    out = []
    if begin:
        out += _boxes(shape[1:], (*lead, Range(first, 1, 1)), begin, inner)
        first += 1
    if first < last:
        out.append(Region((*lead, Range(first, 1, last - first), *Region.full(shape[1:]))))
    if end:
        out += _boxes(shape[1:], (*lead, Range(last, 1, 1)), 0, end)
    return out
