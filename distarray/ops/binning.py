"""Numbers as bins: ``bincount``, how often each integer stands there, and ``digitize``, which bin each element falls in."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from distarray.algorithms.counting import counted_integers
from distarray.algorithms.local import aligned
from distarray.array.aliases import ArrayLike
from distarray.array.functions import implements
from distarray.array.place import as_array
from distarray.array.state import DistributedArray, same_context
from distarray.ops import reductions, searching
from distarray.ops.sorting import searchsorted

__all__ = ["bincount", "digitize"]


@implements(np.bincount)
def bincount(x: ArrayLike, /, weights: ArrayLike | None = None, minlength: int = 0) -> DistributedArray:
    """How often each of the integers 0, 1, 2, … stands in an array.

    Parameters
    ----------
    x : array_like of non-negative integers
        Of one axis.
    weights : array_like, optional
        Of the shape of `x`: what each element counts; the result is then ``float64``.
    minlength : int, optional
        The least length of the result.

    Returns
    -------
    DistributedArray
        Of one axis: ``int64``, or ``float64`` with weights.

    Raises
    ------
    ValueError
        An element is negative; weights of another length; a negative `minlength`.
    TypeError
        Elements that no ``int64`` holds.

    Notes
    -----
    Communication: how many bins each device needs, and what aligns the weights. The counts stay in SUM mode until they are needed.
    Where there are far more bins than elements, each device learns the counts of all, and has a part of the result.

    Memory on each device: its counts.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     np.bincount(da.asarray([0, 2, 2, 1], layout=da.blocks(0))).get()
    array([1, 1, 2])
    """
    context = same_context([a for a in (x, weights) if isinstance(a, DistributedArray)])
    if not isinstance(x, DistributedArray):
        x = np.asarray(x)
        x = x.astype(np.intp) if not x.size and x.ndim == 1 else x
    a: DistributedArray = as_array(context, x)
    w: Any = None if weights is None else as_array(context, weights)
    small = None if w is None else np.zeros([min(n, 1) for n in w.shape], w.dtype)
    # NumPy checks what is given, without room for more than one bin
    least = minlength if minlength is None else operator.index(minlength)
    np.bincount(
        np.zeros([min(n, 1) for n in a.shape], a.dtype), None if a.size == 0 else small, least and min(least, 1)
    )
    if w is not None and w.shape != a.shape:
        raise ValueError("The weights and list don't have the same length.")
    dtype = np.dtype(np.float64 if w is not None and a.size else np.intp)
    with context.lock:
        source = a._operand("bincount")
        sources = [source.arrays] if w is None else [source.arrays, aligned(w, source.layout)]
        return counted_integers(context, source.layout, sources, least, dtype)


@implements(np.digitize)
def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False) -> DistributedArray:
    """The number of the bin that each element belongs to.

    Parameters
    ----------
    x : array_like
        Real, of any shape.
    bins : array_like
        Edges of one axis, ascending or descending.
    right : bool
        Whether a bin holds its right edge, instead of its left one.

    Returns
    -------
    DistributedArray
        Of ``int64``, in the shape of `x`; 0 before all bins, their number behind.

    Raises
    ------
    TypeError
        `x` is complex.
    ValueError
        `bins` are not monotonic.

    Notes
    -----
    Communication: whether the edges are in order; then that of :func:`searchsorted`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.digitize(da.asarray([0.5, 2.5]), [0, 1, 2]).tolist()
    [1, 3]
    """
    context = same_context([a for a in (x, bins) if isinstance(a, DistributedArray)])
    a: DistributedArray = as_array(context, x)
    edges: DistributedArray = as_array(context, bins)
    if a.dtype.kind == "c":
        raise TypeError("x may not be complex")
    if edges.dtype.kind == "c":
        raise TypeError("bins may not be complex: pass real edges")
    if edges.ndim != 1:
        raise ValueError(
            "object of too small depth for desired array" if not edges.ndim else "object too deep for desired array"
        )
    side = "left" if right else "right"
    before, behind = edges[:-1], edges[1:]
    if bool(reductions.all(before <= behind)):
        return searchsorted(edges, a, side=side)
    first = int(searching.argmax(before != behind))  # which tells whether edges rise; NaN, behind all, is no step back
    rises = bool(before[first] < behind[first])
    if not bool(reductions.any(before > behind if rises else before < behind)):
        return searchsorted(edges, a, side=side) if rises else len(edges) - searchsorted(edges[::-1], a, side=side)
    raise ValueError("bins must be monotonically increasing or decreasing")
