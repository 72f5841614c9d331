"""Factorizations under NumPy's names and the standard's: ``cholesky``, ``qr``, ``svd``, ``svdvals``."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from distarray.array.functions import implements
from distarray.array.state import DistributedArray
from distarray.linalg.matrices import arrays, common, each, matrix, real, square

__all__ = ["cholesky", "qr", "svd", "svdvals"]

QRResult: Any = type(np.linalg.qr(np.eye(1)))
SVDResult: Any = type(np.linalg.svd(np.eye(1)))


@implements(np.linalg.cholesky)
def cholesky(a: Any, /, *, upper: bool = False) -> DistributedArray:
    """Cholesky factor of positive definite matrices, as ``numpy.linalg.cholesky``.

    Parameters
    ----------
    a : DistributedArray
        Matrices (..., n, n), Hermitian: only the lower triangle is read, or (`upper`) the upper one.
    upper : bool
        Return U with ``a = U.mH @ U``, instead of L with ``a = L @ L.mH``.

    Returns
    -------
    DistributedArray
        (..., n, n), in the dtype of `a`; integers give float64.

    Raises
    ------
    LinAlgError
        `a` has fewer than two axes, is not square, or is not positive definite: on all processes.

    Notes
    -----
    Communication: none for stacks that are split over the batch.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.asarray(np.array([[4.0, 2.0], [2.0, 5.0]]), layout=da.blocks(0))
    ...     np.linalg.cholesky(x).get().tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    _, (x,) = arrays(a)
    square(x)
    (x,) = common(x)
    (found,) = each(
        "cholesky", [x], partial(_cholesky, upper=bool(upper)), [(x.shape[-2:], x.dtype)], [2], fallible=True
    )
    return found


def _cholesky(device: Any, a: Any, *, upper: bool) -> Any:
    lib = device.lib
    if not upper:
        return device.lapack.cholesky(a)
    # the lower triangle of the conjugate transpose is the upper one of `a`
    return lib.conjugate(lib.swapaxes(device.lapack.cholesky(lib.conjugate(lib.swapaxes(a, -1, -2))), -1, -2))


_MODES = ("reduced", "complete", "r", "raw")


@implements(np.linalg.qr)
def qr(a: Any, mode: str = "reduced") -> Any:
    """QR factorization, as ``numpy.linalg.qr``.

    Parameters
    ----------
    a : DistributedArray
        Matrices (..., m, n); k is min(m, n).
    mode : {"reduced", "complete", "r", "raw"}
        Q (..., m, k) and R (..., k, n); Q (..., m, m) and R (..., m, n); R alone (..., k, n); LAPACK's reflectors
        (..., n, m) and their factors (..., k).

    Returns
    -------
    QRResult, DistributedArray (mode "r") or tuple (mode "raw")

    Raises
    ------
    LinAlgError
        `a` has fewer than two axes.
    ValueError
        Another mode.

    Notes
    -----
    Communication: none for stacks that are split over the batch.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.asarray(np.arange(12.0).reshape(6, 2), layout=da.blocks(0))
    ...     q, r = np.linalg.qr(x)
    ...     bool(np.allclose(q @ r, x))
    True
    """
    if mode not in _MODES:
        raise ValueError(f"Unrecognized mode '{mode}': pass one of {_MODES}")
    _, (x,) = arrays(a)
    matrix(x)
    (x,) = common(x)
    m, n = x.shape[-2:]
    k = min(m, n)
    outputs: list[Any] = {
        "reduced": [((m, k), x.dtype), ((k, n), x.dtype)], "complete": [((m, m), x.dtype), ((m, n), x.dtype)],
        "r": [((k, n), x.dtype)], "raw": [((n, m), x.dtype), ((k,), x.dtype)],
    }[mode]  # fmt: skip
    found = each("qr", [x], partial(_qr, mode=mode), outputs, [2])
    if mode == "r":
        return found[0]
    return tuple(found) if mode == "raw" else QRResult(*found)


def _qr(device: Any, a: Any, *, mode: str) -> Any:
    found = device.lib.linalg.qr(a, mode=mode)
    return found if mode == "r" else tuple(found)


@implements(np.linalg.svd)
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """Singular value decomposition, as ``numpy.linalg.svd``.

    Parameters
    ----------
    a : DistributedArray
        Matrices (..., m, n); k is min(m, n).
    full_matrices : bool
        U (..., m, m) and Vh (..., n, n), instead of U (..., m, k) and Vh (..., k, n).
    compute_uv : bool
        False: the singular values (..., k) alone.
    hermitian : bool
        `a` is Hermitian: only its lower triangle is read, and the values come from its eigenvalues.

    Returns
    -------
    SVDResult or DistributedArray
        U, S (real, descending) and Vh with ``a = U @ diag(S) @ Vh``.

    Raises
    ------
    LinAlgError
        `a` has fewer than two axes, is not square though `hermitian`, or the iteration does not converge (NaN, inf).

    Notes
    -----
    Communication: none for stacks that are split over the batch.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.asarray(np.array([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]]), layout=da.blocks(0))
    ...     np.linalg.svd(x, compute_uv=False).get().tolist()
    [4.0, 3.0]
    """
    _, (x,) = arrays(a)
    if hermitian:
        square(x)
    matrix(x)
    (x,) = common(x)
    m, n = x.shape[-2:]
    k = min(m, n)
    values = ((k,), real(x.dtype))
    function = partial(_svd, full_matrices=bool(full_matrices), compute_uv=bool(compute_uv), hermitian=bool(hermitian))
    if not compute_uv:
        return each("svd", [x], function, [values], [2], fallible=True)[0]
    rows, columns = (m, n) if full_matrices else (k, k)
    outputs = [((m, rows), x.dtype), values, ((columns, n), x.dtype)]
    return SVDResult(*each("svd", [x], function, outputs, [2], fallible=True))


def _svd(device: Any, a: Any, *, full_matrices: bool, compute_uv: bool, hermitian: bool) -> Any:
    lib = device.lib
    with device.lapack.raising():
        if not hermitian:
            found = lib.linalg.svd(a, full_matrices=full_matrices, compute_uv=compute_uv)
            return tuple(found) if compute_uv else found
        if not compute_uv:
            return lib.sort(lib.abs(lib.linalg.eigvalsh(a)), axis=-1)[..., ::-1]
        s, u = lib.linalg.eigh(a)
    order = lib.argsort(lib.abs(s), axis=-1)[..., ::-1]
    s = lib.take_along_axis(s, order, axis=-1)
    u = lib.take_along_axis(u, order[..., None, :], axis=-1)
    signs = lib.where(s < 0, -1, 1).astype(s.dtype)
    return u, lib.abs(s), lib.conjugate(lib.swapaxes(u * signs[..., None, :], -1, -2))


@implements(np.linalg.svdvals)
def svdvals(x: Any, /) -> DistributedArray:
    """Singular values, descending, as ``numpy.linalg.svdvals``: those of :func:`svd`.

    Raises
    ------
    LinAlgError
        `x` has fewer than two axes, or the iteration does not converge.

    Notes
    -----
    Communication: as for :func:`svd`.
    """
    return svd(x, compute_uv=False)  # type: ignore[no-any-return]
