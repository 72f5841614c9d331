"""Products over axes that the function names: ``dot``, ``inner``, ``vdot``, ``outer``, ``tensordot``.

As in :mod:`distarray.linalg.products`, each checks as NumPy does and says which axes meet, and one contraction does the rest.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np

from distarray.algorithms.contraction import Problem
from distarray.algorithms.product import contract, operands, product_dtype, view
from distarray.array.aliases import AnyArray, ArrayLike, Out
from distarray.array.functions import implements
from distarray.array.state import DistributedArray
from distarray.array.writing import check_writable, overwrite
from distarray.context import Context
from distarray.devices.arrays import AnyDType
from distarray.linalg.products import numpys_error

__all__ = ["dot", "inner", "outer", "tensordot", "vdot"]


@implements(np.dot)
def dot(a: ArrayLike, b: ArrayLike, out: Out = None) -> Any:
    """Dot product, as ``numpy.dot``: over the last axis of `a` and the last but one (or only) of `b`.

    Parameters
    ----------
    a, b : array_like
        Host arrays are placed as ``asarray`` places them. With a 0-d operand it is ``multiply``.
    out : DistributedArray or ndarray, optional
        Of exactly the result's shape and dtype.

    Returns
    -------
    DistributedArray
        In SUM mode where the summed axis is split over devices.

    Raises
    ------
    ValueError
        The shapes are not aligned, in NumPy's words, or `out` does not fit.

    Notes
    -----
    Communication: as for :func:`matmul`.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=3, kind="host"):
    ...     x = da.asarray(np.arange(6.0), layout=da.blocks(0))
    ...     float(x.dot(x))
    55.0
    """
    context, (x, y) = operands(a, b, out=out)
    if not x.ndim or not y.ndim:
        left, right = (array if isinstance(array, DistributedArray) or array.ndim else array[()] for array in (x, y))
        value = np.multiply(left, right)
        assert isinstance(value, DistributedArray)
        value._detached = not value.ndim
    else:
        over = (x.ndim - 1,), (max(y.ndim - 2, 0),)
        if x.shape[-1] != y.shape[over[1][0]]:
            raise numpys_error(np.dot, x.shape, y.shape)
        dtype = product_dtype(np.dot, x, y)
        if out is not None:
            _check_exact(out, (*x.shape[:-1], *y.shape[:-2], *(y.shape[-1:] if y.ndim > 1 else ())), dtype)
        value = _tensor(context, "dot", x, y, *over, dtype)
        value._detached = not value.ndim
    if out is not None:
        _check_exact(out, value.shape, value.dtype)
    return value if out is None else overwrite(out, value)


def _check_exact(out: Out, shape: tuple[int, ...], dtype: AnyDType) -> None:
    if not isinstance(out, (DistributedArray, np.ndarray)):
        raise TypeError(f"'out' must be an array, and dot got {type(out).__name__}")
    if out.shape != shape or out.dtype != dtype:
        raise ValueError(
            f"output array is not acceptable (must have the right datatype and shape): it has dtype {out.dtype} and shape "
            f"{out.shape}, and the result has {dtype} and {shape}; pass distarray.empty({shape}, dtype={str(dtype)!r})"
        )
    check_writable(out)


def _tensor(
    context: Context,
    name: str,
    a: AnyArray,
    b: AnyArray,
    over_a: Sequence[int],
    over_b: Sequence[int],
    dtype: AnyDType,
    conjugate: bool = False,
) -> DistributedArray:
    """The sum over pairs of axes, those that remain of `a` before those of `b`."""
    problem = _summed(a.shape, b.shape, tuple(over_a), tuple(over_b))
    return contract(context, name, problem, a, b, dtype, conjugate=conjugate)


@lru_cache(1024)
def _summed(a: tuple[int, ...], b: tuple[int, ...], over_a: tuple[int, ...], over_b: tuple[int, ...]) -> Problem:
    """What is contracted of two shapes over pairs of axes."""
    rest_a = [axis for axis in range(len(a)) if axis not in over_a]
    rest_b = [axis for axis in range(len(b)) if axis not in over_b]
    m, k = len(rest_a), len(over_a)
    first, second = [0] * len(a), [0] * len(b)
    for labels, axes, begin in ((first, rest_a, 0), (first, over_a, m), (second, over_b, m), (second, rest_b, m + k)):
        for i, axis in enumerate(axes):
            labels[axis] = begin + i
    sizes = (*(a[i] for i in rest_a), *(a[i] for i in over_a), *(b[i] for i in rest_b))
    return Problem(sizes, (0, m, k, len(rest_b)), tuple(first), tuple(second))


@implements(np.inner)
def inner(a: ArrayLike, b: ArrayLike, /) -> Any:
    """Inner product, as ``numpy.inner``: over the last axes of both; with a 0-d operand it is ``multiply``.

    Parameters
    ----------
    a, b : array_like

    Returns
    -------
    DistributedArray
        In SUM mode where the summed axis is split over devices.

    Raises
    ------
    ValueError
        The last axes differ in length.

    Notes
    -----
    Communication: as for :func:`matmul`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     int(da.inner(da.asarray([1, 2]), [3, 4]))
    11
    """
    context, (x, y) = operands(a, b)
    if not x.ndim or not y.ndim:
        return dot(x, y)
    if x.shape[-1] != y.shape[-1]:
        raise numpys_error(np.inner, x.shape, y.shape)
    dtype = product_dtype(np.inner, x, y)
    value = _tensor(context, "inner", x, y, (x.ndim - 1,), (y.ndim - 1,), dtype)
    value._detached = not value.ndim
    return value


@implements(np.vdot)
def vdot(a: ArrayLike, b: ArrayLike, /) -> Any:
    """Dot product of two flattened arrays, the first conjugated, as ``numpy.vdot``.

    Parameters
    ----------
    a, b : array_like

    Returns
    -------
    DistributedArray
        A number.

    Raises
    ------
    ValueError
        The sizes differ.

    Notes
    -----
    Communication: none where the operands have one layout; the result is then a partial sum on each device. Operands of
    different shapes are flattened first.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     int(da.vdot(da.asarray([1, 2]), [3, 4]))
    11
    """
    context, (x, y) = operands(a, b)
    if x.size != y.size:
        raise numpys_error(np.vdot, x.shape, y.shape)
    if x.shape != y.shape:
        x, y = np.reshape(x, (-1,)), np.reshape(y, (-1,))
    dtype = product_dtype(np.vdot, x, y)
    axes = tuple(range(x.ndim))
    value = _tensor(context, "vdot", x, y, axes, axes, dtype, conjugate=True)
    value._detached = True
    return value


@implements(np.outer)
def outer(a: ArrayLike, b: ArrayLike, out: Out = None) -> Any:
    """Outer product of two flattened arrays, as ``numpy.outer``.

    Parameters
    ----------
    a, b : array_like
        Taken as flat.
    out : DistributedArray or numpy.ndarray, optional
        Where to put the result.

    Returns
    -------
    DistributedArray
        Of the shape ``(a.size, b.size)``.

    Notes
    -----
    Communication: that of ``numpy.multiply(a[:, None], b[None, :])``; recorded, so at the demand.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.outer(da.asarray([1, 2]), [3, 4]).tolist()
    [[3, 4], [6, 8]]
    """
    _, (x, y) = operands(a, b, out=out)
    x, y = (array if array.ndim == 1 else np.reshape(array, (-1,)) for array in (x, y))
    left, right = view(x, index=(slice(None), None)), view(y, index=(None, slice(None)))
    return np.multiply(left, right, out=cast("Any", out))


@implements(np.tensordot)
def tensordot(a: ArrayLike, b: ArrayLike, axes: int | Sequence[int] | Sequence[Sequence[int]] = 2) -> Any:
    """Sum of products over pairs of axes, as ``numpy.tensordot``.

    Parameters
    ----------
    a, b : array_like
        Host arrays are placed as ``asarray`` places them.
    axes : int or pair of int or pair of sequences of int
        The last and first so many axes, or the axes of `a` and those of `b`.

    Returns
    -------
    DistributedArray
        With the axes that remain of `a`, then those of `b`.

    Raises
    ------
    ValueError
        The axes differ in number or length, or one is named twice.

    Notes
    -----
    Communication: as for :func:`matmul`. Nothing is reshaped: the axes are cut as they lie.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.asarray(np.arange(24).reshape(2, 3, 4), layout=da.blocks(1))
    ...     np.tensordot(x, x, axes=([1, 2], [1, 2])).get().tolist()
    [[506, 1298], [1298, 3818]]
    """
    context, (x, y) = operands(a, b)
    over = _axis_pairs(axes)
    if len(over[0]) != len(over[1]):
        raise ValueError(f"shape-mismatch for sum: axes {over[0]} and {over[1]} differ in number: pass as many of both")
    pairs: list[list[int]] = []
    for array, chosen in zip((x, y), over):
        for axis in chosen:
            if not -array.ndim <= axis < array.ndim:
                raise IndexError(
                    f"tensordot: axis {axis} is out of range for an operand of {array.ndim} axes: pass axes from "
                    f"{-array.ndim} to {array.ndim - 1}"
                )
        pairs.append([axis % array.ndim for axis in chosen])
        if len(set(pairs[-1])) != len(chosen):
            raise ValueError("duplicate axes are not allowed in tensordot")
    if [x.shape[i] for i in pairs[0]] != [y.shape[i] for i in pairs[1]]:
        raise ValueError(
            f"shape-mismatch for sum: axes {over[0]} of shape {x.shape} and axes {over[1]} of shape {y.shape} must pair "
            f"axes of equal length"
        )
    dtype = product_dtype(np.dot, x, y)
    return _tensor(context, "tensordot", x, y, pairs[0], pairs[1], dtype)


def _axis_pairs(axes: int | Sequence[Any]) -> tuple[list[int], list[int]]:
    if not np.iterable(axes):
        count = operator.index(axes)
        return list(range(-count, 0)), list(range(count))
    first, second = axes
    return (
        [operator.index(axis) for axis in (first if np.iterable(first) else [first])],
        [operator.index(axis) for axis in (second if np.iterable(second) else [second])],
    )
