"""Creation functions that compute elements from their coordinates (``eye``, ``tri``, ``fromfunction``, ``meshgrid``), and
the conversions that ``like=`` dispatches."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from distarray.array.aliases import ArrayLike, DeviceLike, DTypeLike, LayoutLike, ShapeLike, SupportsDLPack
from distarray.array.documented import described_as
from distarray.array.dtypes import check_dtype, filler
from distarray.array.functions import implements
from distarray.array.layouts import resolve_layout
from distarray.array.shapes import broadcast_shape, fits, memory_order
from distarray.array.state import DistributedArray, copy_array, from_chunks
from distarray.devices import Device
from distarray.devices.arrays import DeviceArray, Library
from distarray.fusion.demand import demand
from distarray.fusion.expr import ASTYPE, record
from distarray.geometry import Range, Region
from distarray.ops.convert import asarray, astype
from distarray.ops.creation import empty
from distarray.ops.generate import as_shape, generate, indices_of, placement
from distarray.transfer.execute import allocate

__all__ = ["array", "eye", "fromfunction", "identity", "meshgrid", "tri", "tril", "triu"]


@implements(np.eye)
@described_as(empty)
def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: DTypeLike = float,
    order: str = "C",
    *,
    layout: LayoutLike = None,
    device: DeviceLike = None,
) -> DistributedArray:
    """A matrix of N × M with ones on the `k`-th diagonal and zeros elsewhere.

    Parameters
    ----------
    N, M : int
        Numbers of rows and columns; without `M` as many of both.
    k : int
        Above (positive) or below the main diagonal.
    dtype : dtype
        Of the matrix.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.eye(2, 3, 1, dtype=int).tolist()
    [[0, 1, 0], [0, 0, 1]]
    """
    memory_order(order, "CFA")
    shape = as_shape((N, N if M is None else M))
    dtype, k = check_dtype(dtype), _within(operator.index(k), shape)

    def make(device: Device, region: Region, out: DeviceArray) -> None:
        rows, columns = (indices_of(device.lib, r) for r in region)
        out[...] = (rows[:, None] + k == columns[None, :]).astype(dtype)

    return generate(*placement(shape, dtype, layout, device), dtype, make, "eye")


@implements(np.identity)
@described_as(eye)
def identity(
    n: int, dtype: DTypeLike = None, *, layout: LayoutLike = None, device: DeviceLike = None
) -> DistributedArray:
    """The n × n identity matrix.

    Parameters
    ----------
    n : int
        The number of rows and columns.
    dtype : dtype, optional
        Default: float64.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.identity(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return eye(n, dtype=dtype, layout=layout, device=device)


def _within(k: int, shape: Sequence[int]) -> int:
    """A diagonal's number, which may be any integer, as one that indices can be added to."""
    return min(max(k, -shape[-2]), shape[-1])


def _below(lib: Library, region: Region, k: int) -> Any:
    """Where a region of a matrix lies at or below the `k`-th diagonal."""
    rows, columns = (indices_of(lib, r) for r in region)
    return rows[:, None] + k >= columns[None, :]


@implements(np.tri)
@described_as(eye)
def tri(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: DTypeLike = float,
    *,
    layout: LayoutLike = None,
    device: DeviceLike = None,
) -> DistributedArray:
    """A matrix of N × M with ones at and below the `k`-th diagonal and zeros elsewhere.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.tri(2, 3).tolist()
    [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    """
    shape = as_shape([max(operator.index(n), 0) for n in (N, N if M is None else M)])
    dtype, k = check_dtype(dtype), _within(operator.index(k), shape)

    def make(device: Device, region: Region, out: DeviceArray) -> None:
        out[...] = _below(device.lib, region, k).astype(dtype)

    return generate(*placement(shape, dtype, layout, device), dtype, make, "tri")


@implements(np.tril)
def tril(m: ArrayLike, k: int = 0) -> DistributedArray:
    """The array with the elements above the `k`-th diagonal of its last two axes set to zero, in its layout.

    Parameters
    ----------
    m : array_like
        Of two axes or more; of one axis, the rows of a matrix.
    k : int
        Above (positive) or below the main diagonal.

    Returns
    -------
    DistributedArray
        A copy.

    Raises
    ------
    TypeError
        `m` has no axes.

    Notes
    -----
    Communication: none; partial values are resolved first.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.tril(da.ones((2, 2))).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    return _triangle(m, operator.index(k), True, "tril")


@implements(np.triu)
@described_as(tril)
def triu(m: ArrayLike, k: int = 0) -> DistributedArray:
    """The array with the elements below the `k`-th diagonal of its last two axes set to zero, in its layout.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.triu(da.ones((2, 2))).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    return _triangle(m, operator.index(k) - 1, False, "triu")


def _triangle(m: ArrayLike, k: int, lower: bool, name: str) -> DistributedArray:
    x = asarray(m)
    if not x.ndim:
        raise TypeError(f"{name} needs an array of at least one axis, got a 0-d array: pass a matrix")
    if x.ndim == 1:
        x = x._viewed(x._view_map().broadcast_to((x.shape[0], x.shape[0])))
    k = _within(k, x.shape)
    context, source = x._context, x._operand(name)
    chunks = allocate(context, source.layout, x.dtype, label=name)
    for chunk, (_, region), array in zip(chunks, source.layout.chunks, source.arrays, strict=True):
        if chunk is None:
            continue
        device = chunk.device
        with device.active():
            below = _below(device.lib, Region(region[-2:]), k)
            chunk.array[...] = device.lib.where(below if lower else ~below, array, filler(x.dtype, 0))
    made = from_chunks(context, source.layout, chunks, x.dtype)
    return made if x.dtype.isnative else astype(made, np.result_type(x.dtype))  # NumPy makes them by `where`


@implements(np.fromfunction)
@described_as(empty)
def fromfunction(
    function: Callable[..., Any],
    shape: ShapeLike,
    *,
    dtype: DTypeLike = float,
    layout: LayoutLike = None,
    device: DeviceLike = None,
    **kwargs: Any,
) -> DistributedArray:
    """An array from a function of the coordinates, called for each region, after a first call that finds the dtype.

    Parameters
    ----------
    function : callable
        Takes one array of coordinates for each axis, NumPy or CuPy as the device is, and returns the values there: an
        array of the same shape, or something that broadcasts to it.
    shape : int or sequence of int
    dtype : dtype
        Of the coordinates.
    **kwargs
        Passed to `function`.

    Raises
    ------
    ValueError
        The function returns another shape: it must work element by element.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.fromfunction(lambda i, j: 10 * i + j, (2, 3), dtype=int, layout=da.blocks(0))
    DistributedArray([[ 0,  1,  2],
                      [10, 11, 12]])
    """
    shape, dtype = as_shape(shape), check_dtype(dtype)
    context, target = placement(shape, dtype, layout, device)

    def values(device: Device, region: Region) -> Any:
        coordinates = []
        for axis, r in enumerate(region):
            along = indices_of(device.lib, r).astype(dtype).reshape((-1,) + (1,) * (len(region) - axis - 1))
            full = device.lib.empty(region.shape, dtype)
            full[...] = along
            coordinates.append(full)
        found = device.lib.asarray(function(*coordinates, **kwargs))
        if not fits(found.shape, region.shape):
            raise ValueError(
                f"the function of fromfunction returned shape {found.shape} for coordinates of shape {region.shape}: "
                f"it is called region by region and must return one value for each coordinate"
            )
        return found

    first = context.local_devices[0]
    with context.guarding("fromfunction", fallible=True), first.active():
        result = check_dtype(values(first, Region([Range.full(min(n, 1)) for n in shape])).dtype)

    def make(device: Device, region: Region, out: DeviceArray) -> None:
        found = values(device, region)
        if found.dtype != result:
            raise TypeError(
                f"the function of fromfunction returned dtype {found.dtype} for one region and {result} for another: "
                f"convert inside the function, with .astype(...)"
            )
        out[...] = found

    return generate(context, target, result, make, "fromfunction", by_cell=True, fallible=True)


@implements(np.meshgrid)
def meshgrid(
    *xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> tuple[DistributedArray, ...]:
    """Coordinate matrices from coordinate vectors.

    Parameters
    ----------
    *xi : array_like
        The vectors.
    copy : bool
        False: views of the vectors.
    sparse : bool
        Each of length 1 along the axes of the others; they broadcast to the grid.
    indexing : {"xy", "ij"}
        With "xy" the first two axes are exchanged, as for images.

    Returns
    -------
    tuple of DistributedArray
        One for each vector.

    Raises
    ------
    ValueError
        An unknown `indexing`.

    Notes
    -----
    Communication: none with ``copy=False`` or ``sparse=True``; else each device gets what it lacks of the vectors.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     [x.tolist() for x in da.meshgrid([1, 2], [3, 4, 5])]
    [[[1, 2], [1, 2], [1, 2]], [[3, 3], [4, 4], [5, 5]]]
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"Valid values for `indexing` are 'xy' and 'ij', got {indexing!r}")
    vectors = [asarray(x) for x in xi]
    ndim = len(vectors)
    found = []
    for axis, x in enumerate(vectors):
        if x.ndim > 1:
            x = x.reshape(-1)
        at = 1 - axis if indexing == "xy" and ndim > 1 and axis < 2 else axis
        view = x._view_map() if x.ndim else x._view_map().expand_dims(0)
        found.append(x._viewed(view.expand_dims(tuple(a for a in range(ndim) if a != at))))
    shape = broadcast_shape(*[x.shape for x in found]) if found else ()
    if sparse:
        return tuple([copy_array(x) if copy else x for x in found])
    if not copy:
        return tuple([x._viewed(x._view_map().broadcast_to(shape)) for x in found])
    return tuple([spread(x, shape) for x in found])


def spread(x: DistributedArray, shape: tuple[int, ...]) -> DistributedArray:
    """A copy of `x` broadcast to `shape` in the default layout on its devices; each element travels once, before it is repeated."""
    context = x._context
    target = resolve_layout(context, None, shape, device=x.device, itemsize=x.dtype.itemsize)
    version = demand(record(context, ASTYPE, (x._arg(),), {"dtype": x.dtype}, shape), target)
    return DistributedArray._of_version(context, version)


# --- conversions with like= -------------------------------------------------------------------------------------------


@implements(np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray)
def _asarray(
    a: ArrayLike,
    dtype: DTypeLike = None,
    order: str | None = None,
    *,
    device: DeviceLike = None,
    copy: bool | None = None,
) -> DistributedArray:
    """``np.asarray(a, like=x)``."""
    return asarray(a, dtype, order, device=device, copy=copy)


@implements(np.require)
def _require(
    a: ArrayLike, dtype: DTypeLike = None, requirements: str | Sequence[str] | None = None
) -> DistributedArray:
    """``np.require(a, like=x)``: chunks are C-contiguous, aligned and owned, whatever is required."""
    return asarray(a, dtype=dtype)


@implements(np.array)
def array(
    object: ArrayLike | SupportsDLPack,
    dtype: DTypeLike = None,
    *,
    copy: bool | None = True,
    order: str | None = None,
    subok: bool = False,
    ndmin: int = 0,
) -> DistributedArray:
    """A new array of an object's values, as ``numpy.array``; :func:`asarray` takes a layout.

    Parameters
    ----------
    object : array_like
    dtype : dtype, optional
        Default: as NumPy infers it.
    copy : bool, optional
        False: a DistributedArray that stays as it is is not copied.
    order : str, optional
        Accepted for NumPy's sake: chunks are C-contiguous.
    subok : bool
        Accepted for NumPy's sake.
    ndmin : int
        Axes of length 1 are put before, to have so many.

    Returns
    -------
    DistributedArray

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.array([[1, 2], [3, 4]], dtype=float)
    DistributedArray([[1., 2.],
                      [3., 4.]])
    """
    result = asarray(object, dtype, order, copy=copy or None)
    if result.ndim < ndmin:
        result = result._viewed(result._view_map().expand_dims(tuple(range(ndmin - result.ndim))))
    return result
