"""Weighted means and covariances: ``average``, ``cov`` and ``corrcoef``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from distarray.array.aliases import ArrayLike, Axis, DTypeLike
from distarray.array.documented import described_as
from distarray.array.functions import NOTHING, implements, keeps_axes
from distarray.array.state import DistributedArray
from distarray.array.writing import deliver
from distarray.devices.arrays import AnyDType
from distarray.ops import moments, reductions
from distarray.ops.convert import asarray, astype
from distarray.ops.creation import zeros
from distarray.ops.diagonals import diagonal
from distarray.ops.joining import concatenate
from distarray.ops.manipulation import atleast_2d, broadcast_to, squeeze
from distarray.sites import call_site, warn_at

__all__ = ["average", "corrcoef", "cov"]


def fitting_weights(weights: ArrayLike, a: DistributedArray, axis: tuple[int, ...] | None) -> DistributedArray:
    """Weights in a shape that broadcasts to the array's."""
    w = asarray(weights)
    if w.shape == a.shape:
        return w
    if axis is None:
        raise TypeError("Axis must be specified when shapes of a and weights differ.")
    if w.shape != tuple(a.shape[i] for i in axis):
        raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
    w = w.transpose(tuple(int(i) for i in np.argsort(axis)))
    return w[tuple(slice(None) if i in axis else None for i in range(a.ndim))]


@implements(np.average)
def average(
    a: ArrayLike,
    axis: Axis = None,
    weights: ArrayLike | None = None,
    returned: bool = False,
    *,
    keepdims: bool = NOTHING,
) -> Any:
    """Weighted mean of the elements along axes.

    Parameters
    ----------
    a : array_like
    axis : int or tuple of int, optional
        The axes that are reduced. Default: all of them.
    weights : array_like, optional
        Of the shape of `a`, or of its lengths along `axis`. Default: all alike, as :func:`mean`.
    returned : bool
        Also the sum of the weights.
    keepdims : bool, optional
        Keep the reduced axes, with length 1.

    Returns
    -------
    DistributedArray, or tuple of two
        The mean; with `returned` the sums of the weights, too.

    Raises
    ------
    ZeroDivisionError
        Weights sum to zero.
    TypeError, ValueError
        The weights don't fit.

    Notes
    -----
    Communication: what aligns weights and array; the sums of weights are brought together; partial sums at the demand.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     float(np.average(da.asarray([1.0, 4.0], layout=da.blocks(0)), weights=[2, 1]))
    2.0
    """
    x = asarray(a)
    keepdims = keeps_axes(keepdims)
    if axis is not None:
        axis = normalize_axis_tuple(axis, x.ndim, argname="axis")
    scale: Any
    if weights is None:
        mean = moments.mean(x, axis, keepdims=keepdims)
        if returned:
            scale = mean.dtype.type(x.size / mean.size)
    else:
        w = fitting_weights(weights, x, axis)
        kinds = (x.dtype, w.dtype, "f8") if x.dtype.kind in "iub" else (x.dtype, w.dtype)
        dtype = np.result_type(*kinds)
        scale = reductions.sum(w, axis if w.shape == x.shape else _kept(axis, w), dtype, keepdims=keepdims)
        if bool(reductions.any(scale == 0.0)):
            raise ZeroDivisionError("Weights sum to zero, can't be normalized")
        product = np.multiply(x, w, dtype=dtype)
        mean = deliver(np.true_divide(reductions.sum(product, axis, keepdims=keepdims), scale), None)
    if not returned:
        return mean
    if isinstance(scale, DistributedArray):
        return mean, scale if scale.shape == mean.shape else broadcast_to(scale, mean.shape).copy()
    return mean, asarray(np.full(mean.shape, scale))


def _kept(axis: Axis, w: DistributedArray) -> Any:
    return axis if axis is not None else tuple(range(w.ndim))


def _cast(x: DistributedArray, dtype: AnyDType) -> DistributedArray:
    return x if x.dtype == dtype else astype(x, dtype)


@implements(np.cov)
def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    *,
    dtype: DTypeLike = None,
) -> Any:
    """Covariance matrix of variables, each a row of `m` (a column without `rowvar`) and of `y`.

    Parameters
    ----------
    m, y : array_like
        Of one or two axes.
    rowvar : bool
        Whether each row is a variable, and not each column.
    bias : bool
        Divide by the number of observations, and not by one less.
    ddof : int, optional
        What is taken from the number of observations: 1, or 0 with `bias`.
    fweights, aweights : array_like, optional
        How often each observation was made; how much it counts.
    dtype : dtype, optional
        Default: at least ``float64``.

    Returns
    -------
    DistributedArray
        A matrix; of one variable, a 0-d array.

    Warns
    -----
    RuntimeWarning
        "Degrees of freedom <= 0 for slice".

    Notes
    -----
    Communication: the means are brought together; then that of a matrix product, and where the observations are split its
    result, of the size of the matrix.

    Memory on each device: two arrays of the size of its part.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.cov(da.asarray([[1.0, 2.0, 3.0], [1.0, 0.0, -1.0]])).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    if ddof is not None and ddof != int(ddof):
        raise ValueError("ddof must be integer")
    x = asarray(m)
    if x.ndim > 2:
        raise ValueError("m has more than 2 dimensions")
    kinds = [x.dtype, np.dtype(np.float64)]
    if y is not None:
        y = asarray(y)
        if y.ndim > 2:
            raise ValueError("y has more than 2 dimensions")
        kinds.append(y.dtype)
    dtype = np.result_type(*kinds) if dtype is None else np.dtype(dtype)
    rows = atleast_2d(_cast(x, dtype))
    if not rowvar and x.ndim != 1:
        rows = rows.T
    if rows.shape[0] == 0:
        return zeros((0, 0))
    if y is not None:
        more = atleast_2d(_cast(y, dtype))
        rows = concatenate((rows, more.T if not rowvar and more.shape[0] != 1 else more), axis=0)
    if ddof is None:
        ddof = 0 if bias else 1
    w = _observation_weights(fweights, aweights, rows.shape[1])
    middle, weight = average(rows, axis=1, weights=w, returned=True)
    if w is None:
        factor: Any = rows.shape[1] - ddof
    else:
        total = weight[0].get()[()]
        if ddof == 0:
            factor = total
        elif aweights is None:
            factor = total - ddof
        else:
            factor = total - ddof * float(reductions.sum(w * asarray(aweights))) / total
    if factor <= 0:
        warn_at(call_site(), "Degrees of freedom <= 0 for slice")
        factor = 0.0
    # columns stay as they lie, and turn in the product
    apart = rows - middle[:, None] if rowvar or y is not None else (rows.T - middle).T
    if apart.dtype != dtype:
        apart = _cast(apart, dtype)
    other = (apart if w is None else apart * w).T
    product = np.dot(apart, np.conj(other) if dtype.kind == "c" else other)
    product = product * np.true_divide(asarray(1), factor)  # a division by zero is warned of at the caller's line
    return squeeze(_cast(product, dtype) if w is None else product)


def _observation_weights(fweights: ArrayLike | None, aweights: ArrayLike | None, n: int) -> Any:
    """One weight for each observation, or None."""
    w = None
    for name, given_weights in (("fweights", fweights), ("aweights", aweights)):
        if given_weights is None:
            continue
        found = asarray(given_weights, dtype=float)
        if name == "fweights" and not bool(reductions.all(found == np.rint(found))):
            raise TypeError("fweights must be integer")
        if found.ndim > 1:
            raise RuntimeError(f"cannot handle multidimensional {name}")
        if found.shape[0] != n:
            raise RuntimeError(f"incompatible numbers of samples and {name}")
        if bool(reductions.any(found < 0)):
            raise ValueError(f"{name} cannot be negative")
        w = found if w is None else w * found
    return w


@implements(np.corrcoef)
@described_as(cov)
def corrcoef(x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, *, dtype: DTypeLike = None) -> Any:
    """Correlation coefficients of variables.

    Parameters
    ----------
    x : array_like
        Variables, each a row, or a column without `rowvar`.
    y : array_like, optional
        More variables.

    Notes
    -----
    Communication: as of :func:`cov`; the coefficients are brought together.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.corrcoef(da.asarray([[1.0, 2.0, 4.0], [1.0, 0.0, -2.0]])).round(6).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    c = cov(x, y, rowvar, dtype=dtype)
    if c.ndim < 2:
        if c.ndim == 0:
            return c / c
        return c
    deviation = np.sqrt(diagonal(c).real)
    c = c / deviation[:, None] / deviation[None, :]
    if c.dtype.kind != "c":
        return np.clip(c, -1, 1)
    return _cast(np.clip(c.real, -1, 1) + 1j * np.clip(c.imag, -1, 1), c.dtype)
