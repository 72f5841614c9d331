"""Names of ``numpy.linalg`` that are not new products: norms, which are element-wise operations and reductions, the
standard's forms of products that ``numpy`` itself has, and ``matrix_transpose``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from distarray.algorithms.product import operands
from distarray.algorithms.reduction import small
from distarray.algorithms.small_folds import root_of
from distarray.array.aliases import ArrayLike, Axis
from distarray.array.documented import described_as
from distarray.array.functions import implements
from distarray.array.state import DistributedArray
from distarray.array.writing import deliver
from distarray.linalg.decompositions import svdvals
from distarray.linalg.dots import outer, tensordot, vdot
from distarray.linalg.products import vecdot
from distarray.ops.convert import asarray
from distarray.ops.manipulation import matrix_transpose as transposed

__all__ = ["matrix_norm", "matrix_transpose", "norm", "vector_norm"]

Axes = tuple[int, ...]


@implements(np.linalg.outer)
def _outer(x1: ArrayLike, x2: ArrayLike, /) -> Any:
    """Products of all pairs of elements of two 1-D arrays, as ``numpy.linalg.outer``.

    Parameters
    ----------
    x1, x2 : array_like
        Of one axis: :func:`distarray.outer` flattens others.

    Returns
    -------
    DistributedArray
        Of the shape ``(x1.size, x2.size)``.

    Raises
    ------
    ValueError
        An array has not one axis.

    Notes
    -----
    Communication: that of ``numpy.multiply(x1[:, None], x2[None, :])``; recorded, so at the demand.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.linalg.outer(da.asarray([1, 2]), [3, 4]).tolist()
    [[3, 4], [6, 8]]
    """
    _, (a, b) = operands(x1, x2)
    if a.ndim != 1 or b.ndim != 1:
        raise ValueError(
            f"Input arrays must be one-dimensional, but they are x1.ndim={a.ndim} and x2.ndim={b.ndim}: use numpy.outer, "
            f"which flattens them"
        )
    return outer(a, b)


@implements(np.linalg.vecdot)
def _vecdot(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Any:
    return vecdot(x1, x2, axis=axis)


@implements(np.linalg.tensordot)
def _tensordot(x1: ArrayLike, x2: ArrayLike, /, *, axes: int | Sequence[Sequence[int]] = 2) -> Any:
    return tensordot(x1, x2, axes)


@implements(np.linalg.matrix_transpose)
def matrix_transpose(x: ArrayLike, /) -> Any:
    """The array with its last two axes exchanged: a view.

    Parameters
    ----------
    x : array_like
        Of two axes or more.

    Returns
    -------
    DistributedArray

    Raises
    ------
    ValueError
        The array has fewer than two axes.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.linalg.matrix_transpose(da.asarray([[1, 2], [3, 4]])).tolist()
    [[1, 3], [2, 4]]
    """
    return transposed(x)


@implements(np.linalg.norm)
def norm(x: ArrayLike, ord: float | str | None = None, axis: Axis = None, keepdims: bool = False) -> Any:
    """Norm of a vector or matrix, or of many, as ``numpy.linalg.norm``.

    Parameters
    ----------
    x : array_like
        Integers, booleans and bfloat16 are converted to float64.
    ord : number, "fro" or None
        For vectors any number; for matrices None, "fro", "nuc", 1, -1, 2, -2, inf or -inf.
    axis : int or pair of int, optional
        Default: a vector norm of a 1-D array, a matrix norm of a 2-D one; with ``ord=None`` the 2-norm of the flattened
        array of any shape.
    keepdims : bool
        Keep the reduced axes, with length 1.

    Returns
    -------
    DistributedArray
        Real.

    Raises
    ------
    ValueError
        `ord` does not exist for vectors, or for matrices; or there are neither one nor two axes.

    Notes
    -----
    Communication: that of a sum (or maximum) along the axes; partial results are left to be folded. The orders 2, -2 and
    "nuc" of matrices: that of :func:`svdvals`.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.asarray(np.array([3.0, 4.0]), layout=da.blocks(0))
    ...     float(np.linalg.norm(x))
    5.0
    """
    x, keepdims = _inexact(x), bool(keepdims)
    if ord is not None or axis is not None:
        _refused(np.linalg.norm, x, ord=ord, axis=axis, keepdims=keepdims)
    if axis is None:
        if ord is None or (ord in ("f", "fro") and x.ndim == 2) or (ord == 2 and x.ndim == 1):
            # part by part: the product of a complex infinity and its conjugate has a NaN part
            whole = x.dtype.kind != "c"
            value = root_of(vdot(x, x) if whole else vdot(x.real, x.real) + vdot(x.imag, x.imag))
            return np.reshape(value, (1,) * x.ndim) if keepdims else deliver(value, None)
        axes = tuple(range(x.ndim))
    else:
        axes = _axes(axis, x.ndim)
    if len(axes) == 1:
        return deliver(_of_vectors(x, 2 if ord is None else ord, axes, keepdims), None)
    return deliver(_of_matrices(x, ord, axes, keepdims), None)


@implements(np.linalg.vector_norm)
@described_as(norm)
def vector_norm(x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False, ord: float | str | None = 2) -> Any:
    """Norms of vectors, as ``numpy.linalg.vector_norm``: over all axes, one, or a tuple of them taken as one.

    Parameters
    ----------
    axis : int or tuple of int, optional
        Default: all, as one vector.
    ord : int or float
        The order.

    Raises
    ------
    ValueError
        `ord` is not a number.

    Notes
    -----
    Communication: that of a sum (or maximum) along the axes.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     float(da.linalg.vector_norm(da.asarray([3.0, 4.0])))
    5.0
    """
    x, keepdims = _inexact(x), bool(keepdims)
    if ord != 2 or axis is not None:
        _refused(np.linalg.vector_norm, x, ord=ord, axis=axis, keepdims=keepdims)
    axes = tuple(range(x.ndim)) if axis is None else _axes(axis, x.ndim)
    return deliver(_of_vectors(x, 2 if ord is None else ord, axes, keepdims), None)


@implements(np.linalg.matrix_norm)
@described_as(norm)
def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: float | str | None = "fro") -> Any:
    """Norms of matrices, those of the last two axes, as ``numpy.linalg.matrix_norm``.

    Parameters
    ----------
    ord : number, str or None
        None, "fro", "nuc", 1, -1, 2, -2, inf or -inf.

    Notes
    -----
    Communication: that of a sum (or maximum) along the axes.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     float(da.linalg.matrix_norm(da.asarray([[3.0, 4.0]])))
    5.0
    """
    return norm(x, ord, (-2, -1), keepdims)


def _inexact(x: ArrayLike) -> DistributedArray:
    """`x` with floating values."""
    placed = asarray(x)
    return placed if placed.dtype.kind in "fc" else asarray(placed, dtype=np.float64)


def _refused(function: Callable[..., Any], x: DistributedArray, **how: Any) -> None:
    """Raise what NumPy raises for these arguments, before anything moves."""
    with np.errstate(all="ignore"):
        function(small(x.shape, x.dtype), **how)


def _axes(axis: Any, ndim: int) -> Axes:
    """The axes that an accepted ``axis=`` names; a single one goes through `int` in NumPy."""
    return np.lib.array_utils.normalize_axis_tuple(axis if isinstance(axis, tuple) else int(axis), ndim)


def _of_vectors(x: DistributedArray, ord: Any, axes: Axes, keepdims: bool) -> Any:
    size = np.absolute(x)
    if ord == np.inf:
        return np.max(size, axis=axes, keepdims=keepdims, initial=0)
    if ord == -np.inf:
        return np.min(size, axis=axes, keepdims=keepdims)
    if ord == 0:
        return np.sum((x != 0).astype(size.dtype), axis=axes, keepdims=keepdims)
    if ord == 1:
        return np.sum(size, axis=axes, keepdims=keepdims)
    if ord == 2:
        squares = np.square(x.real) + np.square(x.imag) if x.dtype.kind == "c" else np.square(x)
        return np.sqrt(np.sum(squares, axis=axes, keepdims=keepdims))
    total = np.sum((size**ord).astype(size.dtype, copy=False), axis=axes, keepdims=keepdims)
    return total ** np.reciprocal(ord, dtype=total.dtype)


def _of_matrices(x: DistributedArray, ord: Any, axes: Axes, keepdims: bool) -> Any:
    rows, columns = axes
    if ord is None or ord in ("f", "fro"):
        return _of_vectors(x, 2, axes, keepdims)
    if ord in (2, -2, "nuc"):
        values = svdvals(x.transpose((*[axis for axis in range(x.ndim) if axis not in axes], rows, columns)))
        if ord == "nuc":
            found = np.sum(values, axis=-1)
        else:
            found = np.max(values, axis=-1, initial=0) if ord == 2 else np.min(values, axis=-1)
        return np.expand_dims(found, (min(rows, columns), max(rows, columns))) if keepdims else found
    inner, last = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = np.sum(np.absolute(x), axis=inner, keepdims=True)
    found = np.max(sums, axis=last, keepdims=True, initial=0) if ord > 0 else np.min(sums, axis=last, keepdims=True)
    if keepdims:
        return found
    return found[tuple(0 if axis in axes else slice(None) for axis in range(x.ndim))]
