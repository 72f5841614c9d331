"""Factorizations under NumPy's names and the standard's: ``cholesky``, ``qr``, ``svd``, ``svdvals``."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from distarray.algorithms.cholesky import factorize
from distarray.algorithms.householder import Householder
from distarray.algorithms.jacobi import Jacobi
from distarray.algorithms.panels import diagonal, taking_part
from distarray.algorithms.tsqr import TSQR, is_tall
from distarray.array.aliases import ArrayLike
from distarray.array.functions import implements
from distarray.array.layouts import resolve_layout
from distarray.array.place import as_array
from distarray.array.state import DistributedArray, from_chunks
from distarray.devices.arrays import DeviceArray
from distarray.devices.base import Device
from distarray.linalg.matrices import (
    Linear,
    adjoint,
    arrays,
    collected,
    common,
    dealt,
    each,
    is_spread,
    matrix,
    real,
    square,
    to_scale,
)
from distarray.sites import call_site, warn_at
from distarray.transfer.execute import redistribute

__all__ = ["cholesky", "qr", "svd", "svdvals"]

WHOLE = 1024
"""Matrices of at most so many rows go whole to one device for Cholesky: with two cores it is done sooner there."""

WHOLE_QR = 768
"""The same for QR, of matrices that are not tall."""

WHOLE_SVD = 2048
"""The same for singular values, of matrices that are not tall: larger ones are spread for the sake of memory. Jacobi's
iteration takes about twelve times LAPACK's processor time, and wins where more cores share it."""

TALL = 2048
"""Matrices with more rows, and at least as many rows as columns for each device, are factorized where their rows lie."""

QRResult: Any = type(np.linalg.qr(np.eye(1)))
SVDResult: Any = type(np.linalg.svd(np.eye(1)))


@implements(np.linalg.cholesky)
def cholesky(a: ArrayLike, /, *, upper: bool = False) -> Any:
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
    Communication: none for stacks that are split over the batch. A matrix of at most 1024 rows goes whole to one device. A
    larger one is dealt to its devices in panels of columns, moves each panel to the devices to its right, n²/2 elements to
    each, in memory of one matrix more, and comes back; see ``distarray.algorithms.cholesky``, also for the source. The
    result is in the default layout, blocks of rows.

    Memory on each device, of a spread matrix: 2.5 times its share of it and the result.

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
    if is_spread(x, WHOLE):
        with x._context.lock:
            # the lower triangle of the conjugate is the upper one transposed, and its factor that of `a` transposed
            panels = dealt("cholesky", adjoint(x) if upper else x)
            if not factorize(x._context, panels):
                raise Linear("Matrix is not positive definite")
            lower = collected(panels)
        return adjoint(lower) if upper else lower
    (found,) = each(
        "cholesky", [x], partial(_cholesky, upper=bool(upper)), [(x.shape[-2:], x.dtype)], [2], fallible=True
    )
    return found


def _cholesky(device: Device, a: DeviceArray, *, upper: bool) -> Any:
    lib = device.lib
    if not upper:
        return device.lapack.cholesky(a)
    # the lower triangle of the conjugate transpose is the upper one of `a`
    return lib.conjugate(lib.swapaxes(device.lapack.cholesky(lib.conjugate(lib.swapaxes(a, -1, -2))), -1, -2))


_MODES = ("reduced", "complete", "r", "raw")
_OLD_MODES = {"f": "'reduced'", "full": "'reduced'", "e": "'raw'", "economic": "'raw'"}
"""Modes that NumPy still accepts, and those to pass instead."""


@implements(np.linalg.qr)
def qr(a: ArrayLike, mode: str = "reduced") -> Any:
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
    Communication: none for stacks that are split over the batch. A matrix of at most 768 rows or columns goes whole to one
    device, but for tall ones, of more than 2048 rows and as many rows as columns for each device: these are factorized
    where their rows lie, and each device sends at most n² log₂ p elements up a tree for R, and as many down it for Q, whose
    rows stay with those of `a`; see ``distarray.algorithms.tsqr``. Others are dealt to the devices in panels of columns,
    each sent to the devices to its right, once for R and once for Q; see ``distarray.algorithms.householder``. The results
    are in the default layout, blocks of rows.

    Memory on each device, of a spread matrix: 2.5 times its share of it and the results.

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
        if mode not in _OLD_MODES:
            raise ValueError(f"Unrecognized mode '{mode}': pass one of {_MODES}")
        warn_at(call_site(), f"The '{mode}' option of qr is deprecated: pass {_OLD_MODES[mode]}", DeprecationWarning)
        if mode in ("e", "economic"):
            return qr(a, "raw")[0].mT
        mode = "reduced"
    _, (x,) = arrays(a)
    matrix(x)
    (x,) = common(x)
    m, n = x.shape[-2:]
    k = min(m, n)
    outputs: list[Any] = {
        "reduced": [((m, k), x.dtype), ((k, n), x.dtype)], "complete": [((m, m), x.dtype), ((m, n), x.dtype)],
        "r": [((k, n), x.dtype)], "raw": [((n, m), x.dtype), ((k,), x.dtype)],
    }[mode]  # fmt: skip
    if x.ndim == 2 and (tall := _is_tall(x)) | is_spread(x, WHOLE_QR):
        with x._context.lock:
            return _spread_qr(x, mode, tall=tall and mode in ("reduced", "r"))
    found = each("qr", [x], partial(_qr, mode=mode), outputs, [2])
    if mode == "r":
        return found[0]
    return tuple(found) if mode == "raw" else QRResult(*found)


def _is_tall(x: DistributedArray) -> bool:
    """Whether QR begins on each device's own rows."""
    if x.ndim != 2 or max(x.shape) <= (TALL if x._context.WHOLE is None else x._context.WHOLE):
        return False
    layout = x.layout
    return len(taking_part(layout)) > 1 and is_tall(layout)


def _spread_qr(x: DistributedArray, mode: str, *, tall: bool) -> Any:
    """QR over all devices."""
    context = x._context
    if tall:
        factors = TSQR(context, x._operand("qr"), "qr")
        target = resolve_layout(context, None, factors.r.shape, itemsize=x.dtype.itemsize)
        r = from_chunks(context, target, redistribute(context, factors.r, target, operation="qr"), x.dtype)
        if mode == "r":
            return r
        return QRResult(from_chunks(context, factors.layout, factors.q(), x.dtype), r)
    panels = dealt("qr", x)
    reflectors = Householder(context, panels)
    if mode == "raw":
        found = panels.operand()
        results = []
        for operand in (found, reflectors.factors()):
            target = resolve_layout(context, None, operand.shape, itemsize=x.dtype.itemsize)
            results.append(
                from_chunks(context, target, redistribute(context, operand, target, operation="qr"), x.dtype)
            )
        return tuple(results)
    q = None if mode == "r" else collected(reflectors.q(x.shape[0] if mode == "complete" else reflectors.size))
    reflectors.keep_r()
    r = collected(panels, None if mode == "complete" else reflectors.size)
    return r if q is None else QRResult(q, r)


def _qr(device: Device, a: DeviceArray, *, mode: str) -> Any:
    found = device.lapack.qr(a, mode)
    return found if mode == "r" else tuple(found)


@implements(np.linalg.svd)
def svd(a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
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
        `a` has fewer than two axes, is not square though `hermitian`, or the iteration does not converge (NaN).

    Notes
    -----
    Of a matrix with infinities all results are NaN.

    Communication: none for stacks that are split over the batch. Tall matrices, and wide ones, begin with :func:`qr`, and
    one device does the rest. Others of at most 2048 rows or columns go whole to one device; larger ones take Jacobi's
    iteration on blocks of columns, in which each device sends two of them in each of 2p - 1 rounds a sweep, five to ten
    times; see ``distarray.algorithms.jacobi``, also for the source. Of matrices that are spread over devices
    ``full_matrices=True`` needs a complete :func:`qr`.

    Memory on each device, of a spread matrix: 2.5 times its share of `a`, U and Vh; for the singular values alone 2.5 times
    that of `a`.

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
    if x.ndim == 2 and (_is_tall(x) or _is_tall(x.mT) or is_spread(x, WHOLE_SVD)):
        with x._context.lock:
            if hermitian:
                return _hermitian_svd(x, vectors=bool(compute_uv))
            try:
                found = spread_svd(x, full=bool(full_matrices), vectors=bool(compute_uv))
            except Linear:
                if np.isnan(x).any() or not np.isinf(x).any():
                    raise
                found = _undefined(x, full=bool(full_matrices))
        return found[1] if not compute_uv else SVDResult(*found)
    m, n = x.shape[-2:]
    k = min(m, n)
    values = ((k,), real(x.dtype))
    function = partial(_svd, full_matrices=bool(full_matrices), compute_uv=bool(compute_uv), hermitian=bool(hermitian))
    if not compute_uv:
        return each("svd", [x], function, [values], [2], fallible=True)[0]
    rows, columns = (m, n) if full_matrices else (k, k)
    outputs: list[Any] = [((m, rows), x.dtype), values, ((columns, n), x.dtype)]
    return SVDResult(*each("svd", [x], function, outputs, [2], fallible=True))


def _undefined(x: DistributedArray, *, full: bool) -> tuple[Any, Any, Any]:
    """What is said of the singular values of a matrix with infinities: they are NaN, and so are the vectors here."""
    m, n = x.shape
    k = min(m, n)
    shapes = (m, m if full else k), (k,), (n if full else k, n)
    u, s, vh = (np.full_like(x, np.nan, real(x.dtype) if len(shape) == 1 else None, shape=shape) for shape in shapes)
    return u, s, vh


def spread_svd(x: DistributedArray, *, full: bool, vectors: bool) -> tuple[Any, Any, Any]:
    """U, the singular values and Vh over all devices; without `vectors` the values alone."""
    m, n = x.shape
    if m < n:
        u, s, vh = spread_svd(x.mT, full=full, vectors=vectors)
        return (vh.mT, s, u.mT) if vectors else (None, s, None)
    if vectors and full and m > n:
        q, r = _spread_qr(x, "complete", tall=False)
        u, s, vh = svd(r[:n], full_matrices=False)
        return np.concatenate([q[:, :n] @ u, q[:, n:]], axis=1), s, vh
    if _is_tall(x):
        return _tall_svd(x, vectors=vectors)
    context = x._context
    found = Jacobi(context, (n, m), x.dtype, taking_part(x.layout), "svd", vectors=vectors)
    found.fill(x.mT._operand("svd"))
    largest = float(np.max(found.sizes(np.inf)))
    if not np.isfinite(largest):
        raise Linear("SVD did not converge")
    factor = to_scale(largest, x.dtype)
    if factor != 1:
        found.scale(factor)
    if not found.converge():
        raise Linear("SVD did not converge")
    sizes = found.sizes()
    order = _descending(sizes)
    if not vectors:
        return None, as_array(context, (sizes[order] / factor).astype(sizes.dtype)), None
    columns, right = (from_chunks(context, *part, x.dtype) for part in (found.columns, found.right))
    del found
    # The columns are orthogonal but for rounding errors of the largest: QR makes them orthonormal, whatever their size, and
    # frees the sizes of small ones from what they have of large ones.
    columns = np.take(columns, order, axis=0)
    panels = dealt("svd", columns.mT)
    del columns
    reflectors = Householder(context, panels)
    turns = diagonal(panels)
    q_panels = reflectors.q(n)
    del reflectors, panels
    q = collected(q_panels)
    del q_panels
    sizes = np.absolute(turns)
    again = _descending(sizes)
    turns = np.where(sizes == 0, 1, turns / np.where(sizes == 0, 1, sizes)).astype(x.dtype)[again]
    if not np.array_equal(again, np.arange(len(again))):
        q = np.take(q, again, axis=1)
    np.multiply(q, turns, out=q)
    right = np.take(right, order[again], axis=0)
    if x.dtype.kind == "c":
        np.conjugate(right, out=right)
    return q, as_array(context, sizes[again] / factor), right


def _descending(sizes: DistributedArray) -> Any:
    """The order of numbers that all processes have, the largest first."""
    return np.argsort(-sizes, stable=True)


def _tall_svd(x: DistributedArray, *, vectors: bool) -> tuple[Any, Any, Any]:
    """The singular value decomposition of a tall matrix: QR of each device's rows, then the decomposition of the triangle."""
    context, n = x._context, x.shape[1]
    factors = TSQR(context, x._operand("svd"), "svd")
    root = factors.r.layout
    triangle = from_chunks(context, root, factors.r_chunks(), x.dtype)
    if n > (WHOLE_SVD if context.WHOLE is None else context.WHOLE):
        triangle = _settled(triangle, "svd")
    if not vectors:
        return None, _settled(svd(triangle, compute_uv=False), "svd"), None
    u, s, vh = svd(triangle, full_matrices=False)
    (right,) = redistribute(context, u._operand("svd"), root, operation="svd")
    chunks = factors.q(None if right is None else right.array)
    return from_chunks(context, factors.layout, chunks, x.dtype), _settled(s, "svd"), _settled(vh, "svd")


def _settled(x: DistributedArray, name: str) -> DistributedArray:
    """An array in the default layout."""
    context = x._context
    found = x._operand(name)
    target = resolve_layout(context, None, x.shape, itemsize=x.dtype.itemsize)
    if target == found.layout:
        return x
    return from_chunks(context, target, redistribute(context, found, target, operation=name), x.dtype)


def _hermitian_svd(x: DistributedArray, *, vectors: bool) -> Any:
    """The singular value decomposition of a Hermitian matrix, by its eigenvalues."""
    if not vectors:
        sizes = np.absolute(np.linalg.eigvalsh(x)).get()  # type: ignore[attr-defined]
        return as_array(x._context, np.sort(sizes)[::-1].copy())
    w, v = np.linalg.eigh(x)
    values = w.get()  # type: ignore[attr-defined]
    order = np.argsort(-np.abs(values), stable=True)
    u = np.take(v, order, axis=1)
    signs = np.where(values[order] < 0, -1, 1).astype(values.dtype)
    s = as_array(x._context, np.abs(values[order]))
    return SVDResult(u, s, adjoint(u * signs))


def _svd(device: Device, a: DeviceArray, *, full_matrices: bool, compute_uv: bool, hermitian: bool) -> Any:
    lib = device.lib
    with device.lapack.raising():
        if not hermitian:
            # LAPACK may go on for ever where there are infinities, and calls the singular values NaN where it does not
            if lib.isnan(a).any():  # cuSOLVER does not say that it found none
                raise Linear("SVD did not converge")
            endless = lib.isinf(a).any(axis=(-2, -1))
            if endless.any():
                a = lib.where(endless[..., None, None], 0, a)
            found = lib.linalg.svd(a, full_matrices=full_matrices, compute_uv=compute_uv)
            found = tuple(found) if compute_uv else (found,)
            if endless.any():
                for part in found:
                    part[endless] = lib.nan
            return found if compute_uv else found[0]
        if not compute_uv:
            return lib.sort(lib.abs(lib.linalg.eigvalsh(a)), axis=-1)[..., ::-1]
        s, u = lib.linalg.eigh(a)
    order = lib.argsort(lib.abs(s), axis=-1)[..., ::-1]
    s = lib.take_along_axis(s, order, axis=-1)
    u = lib.take_along_axis(u, order[..., None, :], axis=-1)
    signs = lib.where(s < 0, -1, 1).astype(s.dtype)
    return u, lib.abs(s), lib.conjugate(lib.swapaxes(u * signs[..., None, :], -1, -2))


@implements(np.linalg.svdvals)
def svdvals(x: ArrayLike, /) -> DistributedArray:
    """Singular values, descending, as ``numpy.linalg.svdvals``: those of :func:`svd`.

    Parameters
    ----------
    x : array_like
        Matrices (..., m, n); k is min(m, n).

    Returns
    -------
    DistributedArray
        (..., k), real.

    Raises
    ------
    LinAlgError
        `x` has fewer than two axes, or the iteration does not converge.

    Notes
    -----
    Communication: as for :func:`svd`.

    Memory on each device, of a spread matrix: 2.5 times its share of it.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.linalg.svdvals(da.asarray([[3.0, 0.0], [0.0, 4.0]])).round(6).tolist()
    [4.0, 3.0]
    """
    return svd(x, compute_uv=False)  # type: ignore[no-any-return]
