"""Differences of neighbours: ``diff`` and ``ediff1d``, recorded like other element-wise work over shifted views."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from distarray.array.aliases import ArrayLike
from distarray.array.functions import NOTHING, implements
from distarray.array.place import as_array
from distarray.array.state import DistributedArray, same_context
from distarray.ops.convert import asarray, astype
from distarray.ops.joining import concatenate
from distarray.ops.reshaping import ravel

__all__ = ["diff", "ediff1d"]


@implements(np.diff)
def diff(
    a: ArrayLike, n: int = 1, axis: int = -1, prepend: ArrayLike = NOTHING, append: ArrayLike = NOTHING
) -> DistributedArray:
    """The `n`-th differences of neighbours along an axis.

    Parameters
    ----------
    a : array_like
        Of at least one axis.
    n : int, optional
        How often to take differences; 0 returns `a`.
    axis : int, optional
        The axis along which elements are neighbours.
    prepend, append : array_like, optional
        Put before and behind `a` along the axis first. Scalars stand for one slice.

    Returns
    -------
    DistributedArray
        `n` shorter along the axis. Of bool arrays, whether neighbours differ.

    Raises
    ------
    ValueError
        `n` is negative, or `a` has no axes.
    AxisError
        There is no such axis.

    Notes
    -----
    Communication: none where the axis is not split, else a slice between devices that are neighbours along it; with
    `prepend` or `append` what joins them to `a`.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.diff(da.asarray([1, 2, 4, 7], layout=da.blocks(0))).get()
    array([1, 2, 3])
    """
    known = [item for item in (a, prepend, append) if isinstance(item, DistributedArray)]
    context = same_context(known) if known else asarray(a)._context
    x: DistributedArray = as_array(context, a)
    n = operator.index(n)
    if n == 0:
        return x
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n!r}")
    if not x.ndim:
        raise ValueError("diff requires input that is at least one dimensional")
    at = normalize_axis_index(axis, x.ndim)

    def joined(item: ArrayLike) -> list[DistributedArray]:
        if item is NOTHING or item is None:
            return []
        piece = as_array(context, item)
        if not piece.ndim:
            piece = piece._viewed(piece._view_map().broadcast_to((*x.shape[:at], 1, *x.shape[at + 1 :])))
        return [piece]

    pieces = [*joined(prepend), x, *joined(append)]
    if len(pieces) > 1:
        x = concatenate(pieces, axis=at)
    lead = (slice(None),) * at
    for _ in range(n):
        behind, before = x[(*lead, slice(1, None))], x[(*lead, slice(None, -1))]
        x = (np.not_equal if x.dtype.kind == "b" else np.subtract)(behind, before)  # type: ignore[assignment]
    return x


@implements(np.ediff1d)
def ediff1d(ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None) -> DistributedArray:
    """The differences of neighbours in the flattened array, with given numbers before and behind them.

    Parameters
    ----------
    ary : array_like
    to_end, to_begin : array_like, optional
        The numbers behind and before.

    Returns
    -------
    DistributedArray
        Of one axis, in the dtype of `ary`.

    Raises
    ------
    TypeError
        The numbers can't be cast to the array's dtype by the rule ``"same_kind"``; bools have no differences.

    Notes
    -----
    Communication: that of flattening the array, one element between neighbours, and what joins the given numbers.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.ediff1d(da.asarray([1, 2, 4]), to_begin=0).tolist()
    [0, 1, 2]
    """
    x = ravel(asarray(ary))
    result: Any = np.subtract(x[1:], x[:-1])

    def given(item: object, name: str) -> list[DistributedArray]:
        if item is None:
            return []
        # a Python number counts by its value, as NumPy's own cast does
        piece: DistributedArray = as_array(x._context, item)
        if not np.can_cast(piece.dtype, x.dtype, "same_kind"):
            raise TypeError(f"dtype of `{name}` must be compatible with input `ary` under the `same_kind` rule.")
        return [astype(ravel(piece), x.dtype)]

    pieces = [*given(to_begin, "to_begin"), result, *given(to_end, "to_end")]
    return concatenate(pieces) if len(pieces) > 1 else result  # type: ignore[no-any-return]
