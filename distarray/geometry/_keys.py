"""Reading of index expressions (ints, slices, Ellipsis, None and tuples of them), shared by index maps and views so
that both accept the same things and count axes alike."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import SupportsIndex, cast

from distarray.errors import IndexMapError

__all__ = ["as_int", "expand_key", "normalize_axes"]

_KINDS = (
    "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are valid "
    "indices"
)


def as_int(value: object) -> int | None:
    """`value` as a Python int where it is an integer (NumPy's included); None for bools and anything else."""
    if type(value) is int:
        return value
    if isinstance(value, bool):
        return None
    try:
        return operator.index(cast(SupportsIndex, value))
    except TypeError:
        return None


def expand_key(key: object, ndim: int, *, newaxis: bool) -> list[int | slice | None]:
    """`key` with one int or slice for each of `ndim` axes (and None for each new axis), Ellipsis written out."""
    items = key if isinstance(key, tuple) else (key,)
    out: list[int | slice | None] = []
    ellipsis = -1
    used = 0
    for item in items:
        if isinstance(item, slice):
            out.append(item)
            used += 1
        elif item is Ellipsis:
            if ellipsis >= 0:
                raise IndexMapError("an index can only have a single ellipsis ('...')")
            ellipsis = len(out)
        elif item is None and newaxis:
            out.append(None)
        else:
            i = as_int(item)
            if i is None:
                if newaxis:
                    raise IndexMapError(
                        f"{_KINDS}; got {item!r} of type {type(item).__name__}, which is no basic index"
                    )
                raise IndexMapError(
                    f"Invalid index on axis {used}: got {item!r} of type {type(item).__name__}; an index map takes "
                    "integers, slices, Ellipsis and tuples of them (a list only to give a device several chunks)"
                )
            out.append(i)
            used += 1
    if used > ndim:
        raise IndexMapError(f"too many indices for array: array is {ndim}-dimensional, but {used} were indexed")
    if ellipsis < 0:
        ellipsis = len(out)
    out[ellipsis:ellipsis] = [slice(None)] * (ndim - used)
    return out


def normalize_axes(axes: object, ndim: int) -> tuple[int, ...]:
    """`axes` (an int or a sequence of them) counted from the front, in the order given; repeats are refused."""
    single = as_int(axes)
    if single is None and not isinstance(axes, (tuple, list)):
        raise IndexMapError(f"axes must be an integer or a tuple of integers, got {axes!r}: pass for example axis=0")
    out: list[int] = []
    for item in (single,) if single is not None else cast(Sequence[object], axes):
        axis = as_int(item)
        if axis is None:
            raise IndexMapError(f"an axis must be an integer, got {item!r} of type {type(item).__name__}: pass an int")
        if not -ndim <= axis < ndim:
            raise IndexMapError(f"axis {axis} is out of bounds for array of dimension {ndim}")
        axis %= ndim
        if axis in out:
            raise IndexMapError(f"repeated axis {axis} in {axes!r}: name each axis once")
        out.append(axis)
    return tuple(out)
