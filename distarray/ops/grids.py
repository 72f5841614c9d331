"""Arrays written as indices: ``mgrid[0:3, 0:4]``, ``ogrid``, ``r_[0:3, x, 5]``, ``c_``; and ``indices``. Each device makes its
own part of a grid, and what ``r_`` joins stays distributed."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from distarray.array.aliases import DeviceLike, DTypeLike, Key, LayoutLike
from distarray.array.documented import described_as
from distarray.array.dtypes import check_dtype
from distarray.array.shapes import PYTHON_SCALARS
from distarray.array.state import DistributedArray
from distarray.devices import Device
from distarray.devices.arrays import AnyDType, DeviceArray
from distarray.errors import UnsupportedError
from distarray.geometry import Region
from distarray.ops.convert import asarray
from distarray.ops.creation import empty, ones
from distarray.ops.generate import as_shape, generate, indices_of, placement
from distarray.ops.joining import concatenate
from distarray.ops.manipulation import expand_dims
from distarray.ops.reshaping import reshape
from distarray.ops.searching import nonzero
from distarray.ops.sequences import arange, linspace

__all__ = ["c_", "indices", "mask_indices", "mgrid", "ogrid", "r_"]


def _lattice(
    shape: tuple[int, ...],
    starts: Sequence[float],
    steps: Sequence[float],
    dtype: AnyDType,
    layout: LayoutLike = None,
    device: DeviceLike = None,
) -> DistributedArray:
    """``result[k, i, j, …]`` is the k-th of (i, j, …), times its step plus its start."""

    def make(device: Device, region: Region, out: DeviceArray) -> None:
        axes = range(region[0].start, region[0].stop, region[0].step)
        for at, axis in enumerate(axes):
            along = indices_of(device.lib, region[1 + axis]).astype(dtype)
            if steps[axis] != 1 or starts[axis] != 0:
                along = along * steps[axis] + starts[axis]
            out[at, ...] = along.reshape((-1,) + (1,) * (len(shape) - axis - 1))

    whole = (len(shape), *shape)
    return generate(*placement(whole, dtype, layout, device), dtype, make, "a grid")


@described_as(empty)
def indices(
    dimensions: Sequence[int],
    dtype: DTypeLike = int,
    sparse: bool = False,
    *,
    layout: LayoutLike = None,
    device: DeviceLike = None,
) -> Any:
    """The indices of a grid: ``result[k]`` is the k-th index of each element.

    Parameters
    ----------
    dimensions : sequence of int
        The grid's shape.
    dtype : dtype
        Of the indices.
    sparse : bool
        Return a tuple of arrays that broadcast to the grid.
    layout : specification, dict, IndexMap or Layout, optional
        Of the result with its first axis. Default: blocks of rows; small arrays are replicated.

    Returns
    -------
    DistributedArray, or tuple of DistributedArray
        With the number of axes as the first length.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.indices((2, 2))[1].get()
    array([[0, 1],
           [0, 1]])
    """
    shape, kind = as_shape(tuple(dimensions)), check_dtype(dtype)
    if sparse:
        return tuple([_open(arange(n, dtype=kind, device=device), k, len(shape)) for k, n in enumerate(shape)])
    return _lattice(shape, [0] * len(shape), [1] * len(shape), kind, layout, device)


def _open(x: DistributedArray, axis: int, ndim: int) -> DistributedArray:
    return expand_dims(x, tuple(i for i in range(ndim) if i != axis))


class _Grid:
    """``mgrid`` and ``ogrid``: a slice for each axis; a complex step is a number of points, with the last one among them.

    Notes
    -----
    Communication: none.
    """

    def __init__(self, sparse: bool) -> None:
        self.sparse = sparse

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return self._line(key)
        lengths, starts, steps = [], [], []
        kinds: list[Any] = [int]
        for item in key:
            start, stop = 0 if item.start is None else item.start, item.stop
            step: Any = 1 if item.step is None else item.step
            if isinstance(step, (complex, np.complexfloating)):
                n = int(abs(complex(step)))
                gap = float(stop - start)
                step = gap / (n - 1) if n > 1 else gap
                kinds.append(float)
            else:
                n = int(np.ceil((stop - start) / (step * 1.0)))
            kinds += [type(v) for v in (start, stop, step)]
            lengths.append(n)
            starts.append(start)
            steps.append(step)
        dtype = np.result_type(*kinds)
        if not self.sparse:
            return _lattice(tuple(lengths), starts, steps, dtype)
        axes = []
        for axis, (n, start, step) in enumerate(zip(lengths, starts, steps, strict=True)):
            line: Any = arange(n, dtype=dtype) * step + start
            axes.append(_open(line, axis, len(lengths)))
        return tuple(axes)

    def _line(self, item: slice) -> Any:
        start, step = 0 if item.start is None else item.start, 1 if item.step is None else item.step
        if not isinstance(step, (complex, np.complexfloating)):
            return arange(start, item.stop, step)
        n = int(abs(complex(step)))
        gap = (item.stop - start) / float(n - 1) if n > 1 else item.stop - start
        return arange(0, n, dtype=np.result_type(float, type(gap))) * gap + start

    def __repr__(self) -> str:
        return "distarray.ogrid" if self.sparse else "distarray.mgrid"


mgrid = _Grid(sparse=False)
ogrid = _Grid(sparse=True)


class _Join:
    """``r_`` and ``c_``: slices, arrays and numbers in brackets, joined along an axis.

    A first item ``"axis,ndim,place"`` says along which axis, with how many axes at least, and where new ones do not stand.

    Notes
    -----
    Communication: as of :func:`distarray.concatenate`; nothing is gathered.
    """

    def __init__(self, name: str, axis: int, ndim: int, place: int) -> None:
        self._name, self._defaults = name, (axis, ndim, place)

    def __getitem__(self, key: Key) -> Any:
        items = key if isinstance(key, tuple) else (key,)
        axis, ndim, place = self._defaults
        if items and isinstance(items[0], str):
            axis, ndim, place = self._directive(items[0])
            items = items[1:]
        parts, kinds = [], []
        for item in items:
            if isinstance(item, str):
                raise ValueError("special directives must be the first entry.")
            part = _points(item) if isinstance(item, slice) else item
            number = np.isscalar(part)
            kinds.append(part if isinstance(part, PYTHON_SCALARS) else np.asarray(part).dtype if number else None)
            parts.append(part if number else _lifted(asarray(part), ndim, place))
            if not number:
                kinds[-1] = parts[-1].dtype
        if not parts:
            raise ValueError("need at least one array to concatenate")
        dtype = np.result_type(*kinds)
        whole = [
            asarray(np.full((1,) * ndim, p, dtype)) if np.isscalar(p) else p.astype(dtype, copy=False) for p in parts
        ]
        return concatenate(whole, axis)

    def _directive(self, text: str) -> tuple[int, int, int]:
        numbers = text.split(",")
        if text in ("r", "c"):
            raise UnsupportedError(
                f"{self._name}[{text!r}, …] makes a numpy.matrix, which distributed arrays are not: use two axes"
            )
        try:
            found = [operator.index(int(n)) for n in numbers]
        except ValueError:
            raise ValueError(f"unknown special directive {text!r}") from None
        axis, ndim, place = self._defaults
        return (found + [axis, ndim, place][len(found) :])[:3]  # type: ignore[return-value]

    def __len__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return f"distarray.{self._name}"


def _points(item: slice) -> DistributedArray:
    start, step = 0 if item.start is None else item.start, 1 if item.step is None else item.step
    if isinstance(step, (complex, np.complexfloating)):
        return linspace(start, item.stop, int(abs(complex(step))))  # type: ignore[no-any-return]
    return arange(start, item.stop, step)


def _lifted(x: DistributedArray, ndim: int, place: int) -> DistributedArray:
    """`x` with new axes of length 1 to make `ndim`: its own begin at `place`, or end there where that is negative."""
    new = ndim - x.ndim
    if new <= 0:
        return x
    before = place if place >= 0 else new + place + 1
    return (
        reshape(x, (1,) * before + x.shape + (1,) * (new - before))
        if 0 <= before <= new
        else reshape(x, (1,) * new + x.shape)
    )


r_ = _Join("r_", 0, 1, -1)
c_ = _Join("c_", -1, 2, 0)


def mask_indices(n: int, mask_func: Callable[..., Any], k: object = 0) -> tuple[DistributedArray, ...]:
    """Where a function such as :func:`triu` leaves ones in an n × n matrix.

    Parameters
    ----------
    n : int
    mask_func : callable
        Called as ``mask_func(matrix, k)``.
    k : object
        Passed to `mask_func`.

    Returns
    -------
    tuple of DistributedArray
        As of :func:`nonzero`.

    Notes
    -----
    Communication: the numbers of the elements found.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     [i.tolist() for i in da.mask_indices(2, da.triu)]
    [[0, 0, 1], [0, 1, 1]]
    """
    return nonzero(mask_func(ones((n, n), int), k) != 0)
