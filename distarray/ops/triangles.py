"""Matrices by their diagonals and triangles: ``diag``, ``diagflat``, ``fill_diagonal``, ``vander``, ``kron``, and the indices of
diagonals and triangles."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from distarray.array.aliases import AnyArray, ArrayLike
from distarray.array.documented import described_as
from distarray.array.dtypes import filler
from distarray.array.functions import implements
from distarray.array.place import as_array, host_values
from distarray.array.state import DistributedArray, same_context
from distarray.array.writing import check_writable
from distarray.ops.choosing import where
from distarray.ops.convert import asarray
from distarray.ops.coordinates import eye
from distarray.ops.creation import empty, zeros
from distarray.ops.diagonals import diagonal
from distarray.ops.joining import concatenate
from distarray.ops.reshaping import ravel, reshape
from distarray.ops.scans import accumulate
from distarray.ops.sequences import arange

__all__ = [
    "diag", "diag_indices", "diag_indices_from", "diagflat", "fill_diagonal", "kron", "tril_indices", "tril_indices_from",
    "triu_indices", "triu_indices_from", "vander",
]  # fmt: skip


@implements(np.diag)
def diag(v: ArrayLike, k: int = 0) -> DistributedArray:
    """The `k`-th diagonal of a matrix, read-only; or the matrix of which `v` is the `k`-th diagonal.

    Parameters
    ----------
    v : array_like
        Of one axis or two.
    k : int
        Above (positive) or below the main diagonal.

    Returns
    -------
    DistributedArray

    Raises
    ------
    ValueError
        `v` has neither one axis nor two.

    Notes
    -----
    Communication: none for a diagonal; for a matrix, each device gets of `v` what its part shows.

    Memory on each device: its part of the result, and once more in bools.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.diag([1, 2]).get().tolist()
    [[1, 0], [0, 2]]
    """
    x = asarray(v)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        raise ValueError("Input must be 1- or 2-d.")
    k = operator.index(k)
    n = x.shape[0] + abs(k)
    rest = zeros(abs(k), x.dtype)
    row = concatenate((rest, x) if k > 0 else (x, rest)) if k else x
    return where(eye(n, k=k, dtype=bool, device=x.device), row[None, :], filler(x.dtype, 0)).astype(x.dtype, copy=False)  # type: ignore[no-any-return]


@implements(np.diagflat)
@described_as(diag)
def diagflat(v: ArrayLike, k: int = 0) -> DistributedArray:
    """The matrix of which the flattened array is the `k`-th diagonal.

    Parameters
    ----------
    v : array_like
        Of any shape.

    Notes
    -----
    Communication: as of :func:`diag`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.diagflat([[1, 2]]).tolist()
    [[1, 0], [0, 2]]
    """
    return diag(ravel(asarray(v)), k)


@implements(np.fill_diagonal)
def fill_diagonal(a: AnyArray, val: ArrayLike, wrap: bool = False) -> None:
    """Write to the main diagonal of an array, in place.

    Parameters
    ----------
    a : DistributedArray or numpy.ndarray
        Of two axes, or of more of one length.
    val : scalar or array_like
        Repeated where it is too short.
    wrap : bool
        Of a tall matrix: begin again one row below where the diagonal ends.

    Raises
    ------
    ValueError
        Fewer than two axes, or more of different lengths.

    Notes
    -----
    Communication: none; distributed values are fetched to the host.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.zeros((2, 2), int)
    ...     da.fill_diagonal(x, [1, 2])
    ...     x.tolist()
    [[1, 0], [0, 2]]
    """
    if isinstance(a, np.ndarray):
        np.fill_diagonal(a, host_values(val) if isinstance(val, DistributedArray) else val, wrap)
        return
    if a.ndim < 2:
        raise ValueError("array must be at least 2-d")
    if a.ndim > 2 and len(set(a.shape)) > 1:
        raise ValueError("All dimensions of input must be of equal length")
    check_writable(a)
    if isinstance(val, DistributedArray):
        value = host_values(val)
    else:
        value = np.asarray(val, a.dtype)  # converted, or refused, as NumPy does it
    if a.ndim == 2:
        end = a.size if wrap else min(a.shape[1] * a.shape[1], a.size)
        places = np.unravel_index(np.arange(0, end, a.shape[1] + 1), a.shape) if end else ()
    else:
        places = (np.arange(a.shape[0]),) * a.ndim
    if not places or not len(places[0]) or not value.size:
        return
    a[places] = value.reshape(())[()] if not value.ndim else np.resize(value, len(places[0]))


def diag_indices(n: int, ndim: int = 2) -> tuple[DistributedArray, ...]:
    """The indices of the main diagonal of an array of `ndim` axes of length `n`.

    Parameters
    ----------
    n : int
    ndim : int

    Returns
    -------
    tuple of DistributedArray
        One for each axis.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     [i.tolist() for i in da.diag_indices(3)]
    [[0, 1, 2], [0, 1, 2]]
    """
    return (arange(n),) * ndim


@implements(np.diag_indices_from)
def diag_indices_from(arr: AnyArray) -> tuple[DistributedArray, ...]:
    """The indices of an array's main diagonal.

    Parameters
    ----------
    arr : array
        Of two axes or more of one length.

    Returns
    -------
    tuple of DistributedArray
        One for each axis.

    Raises
    ------
    ValueError
        Fewer than two axes, or lengths that differ.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     [i.tolist() for i in da.diag_indices_from(da.eye(2))]
    [[0, 1], [0, 1]]
    """
    if not arr.ndim >= 2:
        raise ValueError("input array must be at least 2-d")
    if len(set(arr.shape)) > 1:
        raise ValueError("All dimensions of input must be of equal length")
    return diag_indices(arr.shape[0], arr.ndim)


def _indices(found: tuple[Any, ...]) -> tuple[DistributedArray, ...]:
    return tuple([asarray(i) for i in found])


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[DistributedArray, ...]:
    """The indices of the elements at and below the `k`-th diagonal of an n × m matrix.

    Parameters
    ----------
    n : int
        The number of rows.
    k : int
        Above (positive) or below the main diagonal.
    m : int, optional
        The number of columns. Default: `n`.

    Returns
    -------
    tuple of DistributedArray
        Rows and columns, in C order.

    Notes
    -----
    Communication: none. Each process makes them all, and keeps its part.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     [i.tolist() for i in da.tril_indices(2)]
    [[0, 1, 1], [0, 0, 1]]
    """
    return _indices(np.tril_indices(n, k, m))


@described_as(tril_indices)
def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[DistributedArray, ...]:
    """The indices of the elements at and above the `k`-th diagonal of an n × m matrix.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     [i.tolist() for i in da.triu_indices(2)]
    [[0, 0, 1], [0, 1, 1]]
    """
    return _indices(np.triu_indices(n, k, m))


@implements(np.tril_indices_from)
@described_as(tril_indices)
def tril_indices_from(arr: AnyArray, k: int = 0) -> tuple[DistributedArray, ...]:
    """The indices of a matrix's lower triangle.

    Parameters
    ----------
    arr : array
        Of two axes.

    Raises
    ------
    ValueError
        `arr` has not two axes.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     [i.tolist() for i in da.tril_indices_from(da.eye(2))]
    [[0, 1, 1], [0, 0, 1]]
    """
    if arr.ndim != 2:
        raise ValueError("input array must be 2-d")
    return tril_indices(arr.shape[-2], k=k, m=arr.shape[-1])


@implements(np.triu_indices_from)
@described_as(tril_indices_from)
def triu_indices_from(arr: AnyArray, k: int = 0) -> tuple[DistributedArray, ...]:
    """The indices of a matrix's upper triangle.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     [i.tolist() for i in da.triu_indices_from(da.eye(2))]
    [[0, 0, 1], [0, 1, 1]]
    """
    if arr.ndim != 2:
        raise ValueError("input array must be 2-d")
    return triu_indices(arr.shape[-2], k=k, m=arr.shape[-1])


@implements(np.vander)
def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> DistributedArray:
    """The Vandermonde matrix: powers of `x`, one column each.

    Parameters
    ----------
    x : array_like
        Of one axis.
    N : int, optional
        The number of columns. Default: the length of `x`.
    increasing : bool
        Whether the powers grow from left to right.

    Returns
    -------
    DistributedArray
        Of the shape ``(len(x), N)``.

    Raises
    ------
    ValueError
        `x` has not one axis, or `N` is negative.

    Notes
    -----
    Communication: none where `x` is split: a device has the rows of its elements.

    Memory on each device: its part of the result, twice.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.vander(da.asarray([1, 2, 3]), 3).tolist()
    [[1, 1, 1], [4, 2, 1], [9, 3, 1]]
    """
    v = asarray(x)
    if v.ndim != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    columns = len(v) if N is None else operator.index(N)
    if columns < 0:
        raise ValueError("negative dimensions are not allowed")
    dtype = np.promote_types(v.dtype, int)
    if not columns:
        return empty((len(v), 0), dtype)
    column = v.astype(dtype)[:, None]
    parts = [np.ones_like(column)]
    if columns > 1:
        wide = column._viewed(column._view_map().broadcast_to((len(v), columns - 1)))
        parts.append(accumulate(np.multiply, wide, 1))
    result = concatenate(parts, axis=1)
    return result if increasing else result[:, ::-1]  # type: ignore[no-any-return]


@implements(np.kron)
def kron(a: ArrayLike, b: ArrayLike) -> DistributedArray:
    """Kronecker product: each element of `a` replaced by its product with the whole of `b`.

    Parameters
    ----------
    a, b : array_like

    Returns
    -------
    DistributedArray
        Its lengths are the products of those of `a` and `b`.

    Notes
    -----
    Communication: what aligns `b` with the parts of `a`; then what the result's shape needs, where no view gives it.

    Memory on each device: its part of the result, twice.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.kron(da.asarray([1, 10]), [1, 2]).tolist()
    [1, 2, 10, 20]
    """
    context = same_context([x for x in (a, b) if isinstance(x, DistributedArray)])
    x, y = (as_array(context, item) for item in (a, b))
    if not x.ndim or not y.ndim:
        return np.multiply(x, y)  # type: ignore[return-value]
    ndim = max(x.ndim, y.ndim)
    x, y = (item[(*(None,) * (ndim - item.ndim), ...)] for item in (x, y))
    left = x[tuple(i for _ in range(ndim) for i in (slice(None), None))]
    right = y[tuple(i for _ in range(ndim) for i in (None, slice(None)))]
    shape = tuple(n * m for n, m in zip(x.shape, y.shape, strict=True))
    return reshape(np.multiply(left, right), shape)
