"""Least squares, and what small singular values decide: ``lstsq``, ``pinv``, ``matrix_rank``, ``cond``."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from distarray.algorithms.rounds import BOUND
from distarray.array.aliases import ArrayLike
from distarray.array.functions import implements
from distarray.array.state import DistributedArray
from distarray.devices.arrays import DeviceArray
from distarray.devices.base import Device
from distarray.linalg.decompositions import svd
from distarray.linalg.matrices import Linear, adjoint, arrays, common, each, matrix, real, square
from distarray.linalg.norms import norm
from distarray.linalg.products import within
from distarray.linalg.solving import inv, inv_here

__all__ = ["cond", "lstsq", "matrix_rank", "pinv"]


@implements(np.linalg.lstsq)
def lstsq(a: ArrayLike, b: ArrayLike, rcond: float | None = None) -> tuple[Any, Any, np.int32, Any]:
    """Least-squares solution of ``a @ x = b`` of least norm, as ``numpy.linalg.lstsq``.

    Parameters
    ----------
    a : array_like
        (m, n).
    b : array_like
        (m,) or (m, k).
    rcond : float, optional
        Singular values of at most `rcond` times the largest count as zero; a negative one: the machine's precision.
        Default: precision times max(m, n).

    Returns
    -------
    x : DistributedArray
        (n,) or (n, k).
    residuals : DistributedArray
        Sums of squares (k,), or (1,); of shape (0,) where the rank is less than n or m is at most n.
    rank : int
    s : DistributedArray
        Singular values (min(m, n),).

    Raises
    ------
    LinAlgError
        An operand has another number of axes, the rows differ in number, or the iteration does not converge.

    Notes
    -----
    Communication: that of :func:`svd`, of the products of its factors with `b`, and the rank in one small round.

    Memory on each device, of a spread matrix: 2.5 times its share of `a`, `b` and the solution where these are as large as
    `a`. With few right-hand sides 4.3 times, since the factors are made beside `a`: the values and vectors that the iteration
    ends with, and the panels that make them orthonormal. Single precision is computed in double: twice that.
    """
    _, (x, y) = arrays(a, b)
    is_vector = y.ndim == 1
    for found in (x, y[:, None] if is_vector else y):
        if found.ndim != 2:
            raise Linear(f"{found.ndim}-dimensional array given. Array must be two-dimensional")
    m, n = x.shape
    if y.shape[0] != m:
        raise Linear(f"Incompatible dimensions: a has {m} rows and b has {y.shape[0]}; pass as many of both")
    x, y = common(x, y)
    dtype = x.dtype
    if is_vector:
        y = y[:, None]
    if dtype.name in ("float32", "complex64"):  # NumPy solves these in double precision: the rank depends on it
        x, y = (v.astype(np.result_type(v.dtype, np.float64)) for v in (x, y))
    eps = np.finfo(x.dtype).eps
    limit = eps * max(m, n) if rcond is None else float(rcond)
    if limit < 0:
        limit = float(eps)
    if not m or not n:
        u_y, s = np.zeros_like(x, shape=(min(m, n), y.shape[1])), np.zeros_like(x, real(x.dtype), shape=(0,))
        solution, rank = np.zeros_like(x, shape=(n, y.shape[1])), 0
    else:
        try:
            u, s, vh = svd(x, full_matrices=False)
        except Linear as error:
            raise Linear(_UNSOLVED) from error
        kept = s > limit * s[:1]
        inverse = np.where(kept, 1 / np.where(kept, s, 1), 0)
        room = BOUND * (x.nbytes + y.nbytes + n * y.shape[1] * y.itemsize)
        if not np.all(np.isfinite(y)):  # to LAPACK an infinity makes a NaN of its whole column
            y = np.where(np.isfinite(y), y, np.nan)
        u_y = within(_turned(u), y, room - x.nbytes - vh.nbytes)
        del u
        np.multiply(u_y, inverse[:, None], out=u_y)
        solution = within(_turned(vh), u_y, room - x.nbytes - y.nbytes)
        del u_y, vh
        rank = int(np.count_nonzero(kept))
        if not rank and np.isnan(s[0]):  # LAPACK says so of SVD itself for some of the matrices that have infinities
            raise Linear(_UNSOLVED)
    if rank == n and m > n:
        rest = np.square(np.absolute(y - x @ solution))
        residuals = np.sum(rest, axis=0)
    else:
        residuals = np.zeros_like(x, real(x.dtype), shape=(0,))
    if is_vector:
        solution = solution[:, 0]
    if dtype != x.dtype:
        solution, residuals, s = solution.astype(dtype), residuals.astype(real(dtype)), s.astype(real(dtype))
    return solution, residuals, np.int32(rank), s


_UNSOLVED = "SVD did not converge in Linear Least Squares"

_NOT_SET: Any = np._NoValue


@implements(np.linalg.pinv)
def pinv(
    a: ArrayLike, rcond: ArrayLike | None = None, hermitian: bool = False, *, rtol: ArrayLike | None = _NOT_SET
) -> Any:
    """Pseudo-inverse of matrices, as ``numpy.linalg.pinv``.

    Parameters
    ----------
    a : DistributedArray
        Matrices (..., m, n).
    rcond : float or array_like, optional
        Singular values of at most this times the largest count as zero; one number, or one for each matrix. Default:
        1e-15.
    hermitian : bool
        `a` is Hermitian.
    rtol : float or array_like, optional
        Another name of `rcond`; None: precision times max(m, n).

    Returns
    -------
    DistributedArray
        (..., n, m).

    Raises
    ------
    LinAlgError
        `a` has fewer than two axes, or the iteration does not converge.
    ValueError
        Both `rcond` and `rtol` are given.

    Notes
    -----
    Communication: that of :func:`svd` and of a product.

    Memory on each device, of a spread matrix: 2.5 times its share of it and the result.
    """
    _, (x,) = arrays(a)
    matrix(x)
    if rcond is None:
        rcond = 1e-15 if rtol is _NOT_SET else rtol
    elif rtol is not _NOT_SET:
        raise ValueError("`rtol` and `rcond` can't be both set: pass rtol=")
    m, n = x.shape[-2:]
    if not x.size:  # of the dtype of `a`, whatever that is
        return np.zeros_like(x, shape=(*x.shape[:-2], n, m))
    (x,) = common(x)
    if rcond is None:
        rcond = max(m, n) * np.finfo(x.dtype).eps
    if np.broadcast_shapes(np.shape(rcond), x.shape[:-2]) != x.shape[:-2]:
        raise ValueError(
            f"pinv: rcond has shape {np.shape(rcond)}, and the stack of matrices {x.shape[:-2]}: pass one number, or one for "
            f"each matrix"
        )
    u, s, vh = svd(x, full_matrices=False, hermitian=hermitian)
    large = s > np.asarray(rcond)[..., None] * np.max(s, axis=-1, keepdims=True)
    inverse = np.where(large, 1 / np.where(large, s, 1), 0)
    if x.ndim > 2:
        return adjoint(vh) @ (inverse[..., None] * adjoint(u))
    np.multiply(u, inverse, out=u)
    return within(_turned(vh), _turned(u), (2 * BOUND - 1) * x.nbytes)


def _turned(factor: DistributedArray) -> DistributedArray:
    """The conjugate transpose of a matrix that is needed no more as it was, without memory for another."""
    if factor.dtype.kind == "c":
        np.conjugate(factor, out=factor)  # type: ignore[call-overload]
    return factor.mT


@implements(np.linalg.matrix_rank)
def matrix_rank(
    A: ArrayLike, tol: ArrayLike | None = None, hermitian: bool = False, *, rtol: ArrayLike | None = None
) -> Any:
    """Rank of matrices by their singular values, as ``numpy.linalg.matrix_rank``.

    Parameters
    ----------
    A : DistributedArray
        Matrices (..., m, n); of fewer than two axes: 1 where any element differs from zero.
    tol : float or array_like, optional
        Singular values above it are counted.
    hermitian : bool
    rtol : float or array_like, optional
        Relative to the largest; default max(m, n) times the precision.

    Returns
    -------
    DistributedArray
        int64, (...,).

    Raises
    ------
    ValueError
        Both `tol` and `rtol` are given.
    LinAlgError
        The iteration does not converge.

    Notes
    -----
    Communication: that of :func:`svdvals`.

    Memory on each device, of a spread matrix: 2.5 times its share of it.
    """
    if rtol is not None and tol is not None:
        raise ValueError("`tol` and `rtol` can't be both set: pass one")
    _, (x,) = arrays(A)
    if x.ndim < 2:
        return int(bool(np.any(x != 0)))
    s = svd(x, compute_uv=False, hermitian=hermitian)
    if tol is None:
        if rtol is None:
            rtol = max(x.shape[-2:]) * np.finfo(s.dtype).eps
        else:
            rtol = np.asarray(rtol)[..., None]
        tol = np.max(s, axis=-1, keepdims=True, initial=0) * rtol
    else:
        tol = np.asarray(tol)[..., None]
    return np.count_nonzero(s > tol, axis=-1)


@implements(np.linalg.cond)
def cond(x: ArrayLike, p: float | str | None = None) -> Any:
    """Condition number of matrices, as ``numpy.linalg.cond``.

    Parameters
    ----------
    x : DistributedArray
        Matrices (..., m, n); square where `p` is not None, 2 or -2.
    p : {None, 1, -1, 2, -2, inf, -inf, "fro", "nuc"}
        The norm; None is 2.

    Returns
    -------
    DistributedArray
        Of the shape (...).

    Raises
    ------
    LinAlgError
        `x` is empty, has fewer than two axes, or is not square where it must be; before NumPy 2.5 also where it has NaN.
    ValueError
        There is no such norm.

    Notes
    -----
    Communication: that of :func:`svdvals`, or of :func:`inv` and two norms.

    Memory on each device, of a spread matrix: 2.5 times its share of it; with `p` other than None, 2 and -2, and its inverse's.
    """
    _, (a,) = arrays(x)
    if a.size == 0 and prod(a.shape[-2:]) == 0:
        raise Linear("cond is not defined on empty arrays: pass a matrix with elements")
    found: Any
    with np.errstate(all="ignore"):
        if p is None or p in (2, -2):
            s = _singular_values(a)
            found = s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
        else:
            square(a)
            (a,) = common(a)
            inverse = _inverse_or_nan(a)
            if p == "nuc" and _NAN_HAS_A_CONDITION:
                found = np.sum(_singular_values(a), axis=-1) * np.sum(_singular_values(inverse), axis=-1)
            else:
                found = norm(a, p, (-2, -1)) * norm(inverse, p, (-2, -1))
        found = np.where(np.isnan(found) & ~np.any(np.isnan(a), axis=(-2, -1)), np.inf, found).astype(found.dtype)
    if not found.ndim:
        found._detached = True
    return found


def _nan_has_a_condition() -> bool:
    try:
        np.linalg.cond(np.full((1, 1), np.nan))
    except Linear:
        return False
    return True


_NAN_HAS_A_CONDITION = _nan_has_a_condition()
"""Whether NumPy calls the condition of a matrix with NaN NaN, as from 2.5 on, or raises LinAlgError."""


def _singular_values(a: DistributedArray) -> Any:
    """The singular values; of matrices with NaN those are NaN where NumPy's ``cond`` has them so."""
    if not _NAN_HAS_A_CONDITION:
        return svd(a, compute_uv=False)
    odd: Any = np.any(np.isnan(a), axis=(-2, -1))
    s: Any = svd(np.where(odd[..., None, None], 0, a), compute_uv=False)
    return np.where(odd[..., None], np.nan, s).astype(s.dtype)


def _inverse_or_nan(x: DistributedArray) -> Any:
    """Inverses, with NaN in place of those of singular matrices."""
    if x.ndim > 2:
        return each("cond", [x], _inv_or_nan, [(x.shape[-2:], x.dtype)], [2])[0]
    try:
        return inv(x)
    except Linear:
        return np.full_like(x, np.nan)


def _inv_or_nan(device: Device, a: DeviceArray) -> Any:
    lib = device.lib
    found = lib.empty(a.shape, a.dtype)
    for index in np.ndindex(a.shape[:-2]):
        try:
            found[index] = inv_here(device, a[index])
        except Linear:
            found[index] = np.nan
    return found
