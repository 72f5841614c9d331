"""Eigenvalues and eigenvectors: ``eigh`` and ``eigvalsh`` of Hermitian matrices, ``eig`` and ``eigvals`` of all others."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from distarray.algorithms.jacobi import Jacobi
from distarray.algorithms.panels import taking_part
from distarray.array.aliases import ArrayLike
from distarray.array.documented import described_as
from distarray.array.functions import implements
from distarray.array.place import as_array
from distarray.array.state import DistributedArray, from_chunks
from distarray.devices.arrays import DeviceArray
from distarray.devices.base import Device
from distarray.linalg.matrices import Linear, arrays, common, each, is_spread, real, square, to_scale

__all__ = ["eig", "eigh", "eigvals", "eigvalsh"]

WHOLE = 2048
"""Matrices of at most so many rows go whole to one device for their eigenvalues: larger ones are spread for the sake of
memory. Jacobi's iteration takes about fifteen times LAPACK's processor time, and wins where more cores share it."""

EigResult: Any = type(np.linalg.eig(np.eye(1)))
EighResult: Any = type(np.linalg.eigh(np.eye(1)))


@implements(np.linalg.eigh)
def eigh(a: ArrayLike, UPLO: str = "L") -> Any:
    """Eigenvalues, ascending, and eigenvectors of Hermitian matrices, as ``numpy.linalg.eigh``.

    Parameters
    ----------
    a : DistributedArray
        Matrices (..., n, n).
    UPLO : {"L", "U"}
        Which triangle is read.

    Returns
    -------
    EighResult
        Eigenvalues (..., n), real, and eigenvectors (..., n, n), one a column.

    Raises
    ------
    ValueError
        Another UPLO.
    LinAlgError
        `a` has fewer than two axes, is not square, or the iteration does not converge.

    Notes
    -----
    Communication: none for stacks that are split over the batch. A matrix of at most 2048 rows goes whole to one device. A
    larger one takes Jacobi's iteration on blocks of columns, in which each device sends two of them, and two of the
    vectors, in each of 2p - 1 rounds a sweep, five to ten times; see ``distarray.algorithms.jacobi``, also for the source.
    The eigenvectors are in blocks of columns.

    Of a matrix with NaN or infinities all results are NaN where it is spread; one that goes whole to a device has what LAPACK
    says, which of up to 25 rows is an error. :func:`eigvalsh` of such a matrix raises, whatever its size.

    Memory on each device, of a spread matrix: 2.5 times its share of it and the vectors.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.asarray(np.diag([3.0, 1.0]), layout=da.blocks(0))
    ...     np.linalg.eigh(x).eigenvalues.get().tolist()
    [1.0, 3.0]
    """
    x, UPLO = _hermitian(a, UPLO)
    n = x.shape[-1]
    if is_spread(x, WHOLE):
        with x._context.lock:
            return EighResult(*_spread(x, UPLO, "eigh", vectors=True))
    outputs = [((n,), real(x.dtype)), ((n, n), x.dtype)]
    return EighResult(*each("eigh", [x], partial(_eigh, UPLO=UPLO), outputs, [2], fallible=True))


@implements(np.linalg.eigvalsh)
@described_as(eigh)
def eigvalsh(a: ArrayLike, UPLO: str = "L") -> DistributedArray:
    """Eigenvalues of Hermitian matrices, ascending, as ``numpy.linalg.eigvalsh``.

    Returns
    -------
    DistributedArray
        (..., n), real.

    Notes
    -----
    Communication: as for :func:`eigh`.

    Memory on each device, of a spread matrix: 2.5 times its share of it.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.linalg.eigvalsh(da.asarray([[3.0, 0.0], [0.0, 1.0]])).tolist()
    [1.0, 3.0]
    """
    x, UPLO = _hermitian(a, UPLO)
    if is_spread(x, WHOLE):
        with x._context.lock:
            return _spread(x, UPLO, "eigvalsh", vectors=False)[0]  # type: ignore[no-any-return]
    outputs = [(x.shape[-1:], real(x.dtype))]
    return each("eigvalsh", [x], partial(_eigvalsh, UPLO=UPLO), outputs, [2], fallible=True)[0]


def _hermitian(a: ArrayLike, UPLO: str) -> tuple[DistributedArray, str]:
    UPLO = UPLO.upper()
    if UPLO not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    _, (x,) = arrays(a)
    square(x)
    (x,) = common(x)
    return x, UPLO


def _spread(x: DistributedArray, UPLO: str, name: str, *, vectors: bool) -> tuple[Any, Any]:
    """Eigenvalues and eigenvectors over all devices.

    Jacobi's iteration on the matrix shifted by twice its norm, so that all eigenvalues are positive and within a factor of
    three of each other: they are the singular values then, and the columns that it ends with are eigenvectors. The norm is
    estimated by the power method; were it far too small, the sum of the eigenvalues would not be the trace, and the bound
    of the Frobenius norm is taken.
    """
    context, n = x._context, x.shape[0]
    found = _dealt(x, UPLO, name, vectors)
    factor = to_scale(float(np.max(found.sizes(np.inf))), x.dtype)
    if factor != 1:
        found.scale(factor)
    whole = from_chunks(context, *found.columns, x.dtype)
    size = float(np.linalg.norm(whole))
    if not np.isfinite(size):
        if not vectors:
            raise Linear("Eigenvalues did not converge")
        return np.full_like(x, np.nan, real(x.dtype), shape=(n,)), np.full_like(x, np.nan)
    if not size:
        return np.zeros_like(x, real(x.dtype), shape=(n,)), np.zeros_like(x) + np.eye(n, dtype=x.dtype)
    trace = float(np.trace(whole).real)
    shifts = (1.25 * _norm(whole), 1.25 * size)
    del whole
    for attempt, shift in enumerate(shifts):
        if attempt:
            found = _dealt(x, UPLO, name, vectors)
            if factor != 1:
                found.scale(factor)
        found.shift(shift)
        if not found.converge():
            raise Linear("Eigenvalues did not converge")
        sizes = found.sizes()
        right = from_chunks(context, *found.right, x.dtype) if vectors else None
        del found
        if np.sum(sizes - shift) - trace <= 1e3 * n * np.finfo(sizes.dtype).eps * shift:
            break
    order = np.argsort(sizes, stable=True)
    values = as_array(context, ((sizes[order] - shift) / factor).astype(sizes.dtype))
    return values, None if right is None else np.take(right, order, axis=0).mT


STRIPS = 8
"""In so many parts the other triangle comes to the one that is read, so that it needs little memory."""


def _dealt(x: DistributedArray, UPLO: str, name: str, vectors: bool) -> Jacobi:
    """The columns of the Hermitian matrix of which one triangle is given; what the other one has is not looked at."""
    context, n = x._context, x.shape[0]
    found = Jacobi(context, (n, n), x.dtype, taking_part(x.layout), name, vectors=vectors)
    whole = from_chunks(context, *found.columns, x.dtype)
    place = as_array(context, np.arange(n, dtype=np.int32))
    row, column = np.expand_dims(place, 0), np.expand_dims(place, 1)
    for low in range(0, n, -(-n // STRIPS)):
        rows = slice(low, min(low - (-n // STRIPS), n))
        held = row[:, rows] >= column if UPLO == "L" else row[:, rows] <= column
        whole[:, rows] = np.where(held, x.mT[:, rows], np.conjugate(x[:, rows]))
    found.shift(0.0)
    return found


def _norm(x: DistributedArray) -> float:
    """An estimate of the 2-norm of a Hermitian matrix, from below; the same on all processes."""
    v: Any = np.random.default_rng(0).standard_normal(x.shape[0]).astype(x.dtype)
    size = 0.0
    for _ in range(16):
        v = np.asarray(x @ (v / x.dtype.type(np.linalg.norm(v))))
        size = max(size, float(np.linalg.norm(v)))
        if not size:
            break
    return size


def _eigh(device: Device, a: DeviceArray, *, UPLO: str) -> Any:
    with device.lapack.raising():
        return tuple(device.lib.linalg.eigh(a, UPLO=UPLO))


def _eigvalsh(device: Device, a: DeviceArray, *, UPLO: str) -> Any:
    with device.lapack.raising():
        return device.lib.linalg.eigvalsh(a, UPLO=UPLO)


#: Up to NumPy 2.4 ``eig`` and ``eigvals`` return real arrays where all eigenvalues are; from 2.5 on always complex ones.
_REAL_WHERE_POSSIBLE = np.linalg.eigvals(np.eye(1)).dtype.kind != "c"


def eig(a: ArrayLike) -> Any:
    """Eigenvalues and right eigenvectors of square matrices, always complex.

    ``numpy.linalg.eig`` before NumPy 2.5 gives real ones of real matrices that have no others.

    Parameters
    ----------
    a : DistributedArray
        Matrices (..., n, n).

    Returns
    -------
    EigResult
        Eigenvalues (..., n) and eigenvectors (..., n, n), one a column. Of ``numpy.linalg.eig`` before NumPy 2.5
        they are real where `a` is real and so are all eigenvalues of all matrices.

    Raises
    ------
    LinAlgError
        `a` has fewer than two axes, is not square, has NaN or inf, or the iteration does not converge.

    Notes
    -----
    Communication: every matrix is gathered on one device, whatever its size, which ``no_implicit_communication`` refuses;
    none for stacks that are split over the batch. With ``numpy.linalg.eig`` then one small round, for the dtype that all
    processes return.
    """
    _, result, _ = _eigenpairs(a)
    return result


@implements(np.linalg.eig)
def _numpy_eig(a: ArrayLike) -> Any:
    """``numpy.linalg.eig``, whose dtype depends on the values before NumPy 2.5."""
    x, found, parts = _eigenpairs(a)
    if x.dtype.kind != "c" and _REAL_WHERE_POSSIBLE and not bool(np.any(parts)):
        return EigResult(found.eigenvalues.real.copy(), found.eigenvectors.real.copy())
    return found


def _eigenpairs(a: ArrayLike) -> tuple[DistributedArray, Any, Any]:
    """The matrices, their eigenvalues and vectors, and of which matrices some are not real."""
    x, dtype = _general(a)
    n = x.shape[-1]
    values, vectors, parts = each(
        "eig", [x], _eig, [((n,), dtype), ((n, n), dtype), ((), np.dtype(bool))], [2], fallible=True
    )
    return x, EigResult(values, vectors), parts


@described_as(eig)
def eigvals(a: ArrayLike) -> Any:
    """Eigenvalues of square matrices, always complex.

    Returns
    -------
    DistributedArray
        (..., n).

    Notes
    -----
    Communication: as for :func:`eig`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.linalg.eigvals(da.asarray([[3.0, 0.0], [0.0, 1.0]])).tolist()
    [(3+0j), (1+0j)]
    """
    _, values, _ = _eigenvalues(a)
    return values


@implements(np.linalg.eigvals)
def _numpy_eigvals(a: ArrayLike) -> Any:
    """``numpy.linalg.eigvals``, whose dtype depends on the values before NumPy 2.5."""
    x, values, parts = _eigenvalues(a)
    if x.dtype.kind != "c" and _REAL_WHERE_POSSIBLE and not bool(np.any(parts)):
        return values.real.copy()
    return values


def _eigenvalues(a: ArrayLike) -> tuple[DistributedArray, Any, Any]:
    x, dtype = _general(a)
    n = x.shape[-1]
    values, parts = each("eigvals", [x], _eigvals, [((n,), dtype), ((), np.dtype(bool))], [2], fallible=True)
    return x, values, parts


def _general(a: ArrayLike) -> tuple[DistributedArray, Any]:
    _, (x,) = arrays(a)
    square(x)
    (x,) = common(x)
    return x, np.result_type(x.dtype, np.complex64)


def _finite(device: Device, a: DeviceArray) -> None:
    """Refuse infinities and NaN as NumPy does: CuPy's library takes them."""
    if not bool(device.lib.isfinite(a).all()):
        raise Linear("Array must not contain infs or NaNs")


def _eig(device: Device, a: DeviceArray) -> Any:
    _finite(device, a)
    with device.lapack.raising():
        values, vectors = device.lib.linalg.eig(a)
    return values, vectors, (values.imag != 0).any(axis=-1)


def _eigvals(device: Device, a: DeviceArray) -> Any:
    _finite(device, a)
    with device.lapack.raising():
        values = device.lib.linalg.eigvals(a)
    return values, (values.imag != 0).any(axis=-1)
