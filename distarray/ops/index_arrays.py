"""Arrays of indices made from other indices: open meshes, and flat indices from those of axes and back."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from distarray.array.aliases import ArrayLike, Arrays, ShapeLike
from distarray.array.functions import implements
from distarray.array.place import as_array
from distarray.array.shapes import memory_order
from distarray.array.state import DistributedArray, same_context
from distarray.ops import reductions
from distarray.ops.convert import asarray
from distarray.ops.manipulation import broadcast_arrays
from distarray.ops.searching import nonzero

__all__ = ["ix_", "ravel_multi_index", "unravel_index"]


def _lengths(shape: ShapeLike) -> tuple[int, ...]:
    given: Any = shape
    return (operator.index(given),) if np.ndim(given) == 0 else tuple(operator.index(n) for n in given)


@implements(np.ix_)
def ix_(*args: Any) -> tuple[DistributedArray, ...]:
    """Indices of one axis each, shaped so that together they index an open mesh.

    Parameters
    ----------
    *args : array_like of int or bool
        Of one axis each.

    Returns
    -------
    tuple of DistributedArray
        Integers, each of as many axes as there are arguments.

    Raises
    ------
    ValueError
        An argument has not one axis.

    Notes
    -----
    Communication: none; that of :func:`nonzero` for bools.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     [i.shape for i in da.ix_([0, 2], [1, 3, 4])]
    [(2, 1), (1, 3)]
    """
    context = same_context([x for x in args if isinstance(x, DistributedArray)])
    found = []
    for k, item in enumerate(args):
        new = item if isinstance(item, (DistributedArray, np.ndarray)) else np.asarray(item)
        if not isinstance(item, (DistributedArray, np.ndarray)) and not new.size:
            new = new.astype(np.intp)
        if new.ndim != 1:
            raise ValueError("Cross index must be 1 dimensional")
        x = as_array(context, new)
        if x.dtype == bool:
            (x,) = nonzero(x)
        found.append(x[tuple(slice(None) if i == k else None for i in range(len(args)))])
    return tuple(found)


@implements(np.unravel_index)
def unravel_index(indices: ArrayLike, shape: ShapeLike, order: str = "C") -> tuple[DistributedArray, ...]:
    """Flat indices as one array of indices for each axis.

    Parameters
    ----------
    indices : array_like of int
        Positions in the flat array.
    shape : int or sequence of int
        The array's.
    order : {"C", "F"}
        The order in which elements are counted.

    Returns
    -------
    tuple of DistributedArray
        Of ``int64``, each of the shape of `indices`.

    Raises
    ------
    ValueError
        An index is out of range.
    TypeError
        Indices are no integers.

    Notes
    -----
    Communication: the extremes of the indices.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     [i.tolist() for i in da.unravel_index(da.asarray([1, 5]), (2, 3))]
    [[0, 1], [1, 2]]
    """
    if isinstance(indices, (list, tuple)) and not np.size(indices):
        raise TypeError(
            "indices must be integral: the provided empty sequence was inferred as float. Wrap it with np.array(…, int)"
        )
    x = asarray(indices)
    lengths = _lengths(shape)
    if x.dtype.kind not in "iu":
        raise TypeError("only int indices permitted")
    order = memory_order(order, "CF")
    size = math.prod(lengths)
    if size > np.iinfo(np.intp).max:
        raise ValueError(
            "dimensions are too large; arrays and shapes with a total size greater than 'intp' are not supported."
        )
    if not lengths and x.ndim:
        raise ValueError("multiple indices are not supported for 0d array")
    if x.size and (int(reductions.min(x)) < 0 or int(reductions.max(x)) >= size):
        raise ValueError(f"index out of bounds for array with size {size}")
    rest, found = x.astype(np.intp), []
    for n in lengths[::-1] if order == "C" else lengths:
        found.append(rest % max(n, 1))
        rest = rest // max(n, 1)
    return tuple(found[::-1] if order == "C" else found)


@implements(np.ravel_multi_index)
def ravel_multi_index(
    multi_index: Arrays, dims: ShapeLike, mode: str | tuple[str, ...] = "raise", order: str = "C"
) -> DistributedArray:
    """Flat indices from one array of indices for each axis.

    Parameters
    ----------
    multi_index : tuple of array_like of int, or array_like
        The indices along each axis, which are broadcast.
    dims : tuple of int
        The array's shape.
    mode : {"raise", "wrap", "clip"}, or a tuple of them
        What becomes of indices out of range.
    order : {"C", "F"}
        The order in which elements are counted.

    Returns
    -------
    DistributedArray
        Of ``int64``, in the broadcast shape.

    Raises
    ------
    ValueError
        An index is out of range, with ``mode="raise"``.

    Notes
    -----
    Communication: what aligns the indices; with ``mode="raise"`` their extremes.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.ravel_multi_index((da.asarray([0, 1]), [1, 2]), (2, 3)).tolist()
    [1, 5]
    """
    parts = list(multi_index)
    lengths = _lengths(dims)
    modes = (mode,) * len(lengths) if isinstance(mode, str) else tuple(mode)
    if len(parts) != len(lengths):
        raise ValueError(f"parameter multi_index must be a sequence of length {len(lengths)}")
    order = memory_order(order, "CF")
    arrays = broadcast_arrays(*parts) if parts else ()
    flat: Any = None
    if 0 in lengths and arrays and arrays[0].size:
        raise ValueError("cannot unravel if shape has zero entries")
    pairs = list(zip(arrays, lengths, modes, strict=True))
    for x, n, how in pairs if order == "C" else pairs[::-1]:
        if x.dtype.kind not in "iu":
            raise TypeError("only int indices permitted")
        index: Any = x.astype(np.intp)
        if how == "raise":
            if index.size and (int(reductions.min(index)) < 0 or int(reductions.max(index)) >= n):
                raise ValueError("invalid entry in coordinates array")
        elif how == "wrap":
            index = index % n
        elif how == "clip":
            index = np.clip(index, 0, n - 1)
        else:
            raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {how!r})")
        flat = index if flat is None else flat * n + index
    return flat  # type: ignore[no-any-return]
