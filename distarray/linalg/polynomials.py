"""Polynomials by their coefficients, the highest power first: ``polyval``, ``polyfit``, ``polyadd``, ``roots`` and the others.

Coefficients are few: where a computation goes through them one by one, they are fetched, and each process does it alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from distarray.array.aliases import ArrayLike
from distarray.array.documented import described_as
from distarray.array.functions import implements
from distarray.array.place import fetched
from distarray.linalg.least_squares import lstsq
from distarray.linalg.solving import inv
from distarray.ops import reductions
from distarray.ops.convert import asarray
from distarray.ops.creation import zeros_like
from distarray.ops.triangles import vander
from distarray.sites import call_site, warn_at

__all__ = [
    "poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub", "polyval", "roots",
]  # fmt: skip


@implements(np.polyval)
def polyval(p: ArrayLike, x: ArrayLike) -> Any:
    """A polynomial's values, by Horner's scheme: recorded and evaluated in one pass.

    Parameters
    ----------
    p : array_like
        Coefficients, the highest power first.
    x : array_like, or numpy.poly1d
        Where.

    Returns
    -------
    DistributedArray, or numpy.poly1d
        Of the shape of `x`.

    Notes
    -----
    Communication: none; distributed coefficients are fetched to the host.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.polyval([1, 0, 1], da.arange(3)).tolist()
    [1, 2, 5]
    """
    coefficients = np.asarray(fetched(p))
    if isinstance(x, np.poly1d):
        return np.polyval(coefficients, x)
    places = asarray(x)
    value: Any = zeros_like(places)
    for coefficient in coefficients:
        value = value * places + coefficient
    return value


def _on_coefficients(function: Callable[..., Any]) -> Any:
    """A function of coefficients alone: computed by NumPy on each process from fetched ones, and placed again."""

    def call(*args: Any, **kwargs: Any) -> Any:
        found = function(*[fetched(a) for a in args], **{name: fetched(a) for name, a in kwargs.items()})
        if isinstance(found, tuple):
            return tuple([asarray(part) for part in found])
        return found if isinstance(found, np.poly1d) else asarray(found)

    return call


@implements(np.polyadd)
def polyadd(a1: ArrayLike, a2: ArrayLike) -> Any:
    """The sum of two polynomials.

    Parameters
    ----------
    a1, a2 : array_like or numpy.poly1d
        Coefficients, the highest power first.

    Returns
    -------
    DistributedArray, or numpy.poly1d

    Notes
    -----
    Communication: distributed coefficients are fetched to the host.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.polyadd([1, 2], [1, 0, 0]).tolist()
    [1, 1, 2]
    """
    return _on_coefficients(np.polyadd)(a1, a2)


@implements(np.polysub)
@described_as(polyadd)
def polysub(a1: ArrayLike, a2: ArrayLike) -> Any:
    """The difference of two polynomials.

    Notes
    -----
    Communication: distributed coefficients are fetched to the host.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.polysub([1, 2], [1, 0]).tolist()
    [0, 2]
    """
    return _on_coefficients(np.polysub)(a1, a2)


@implements(np.polymul)
@described_as(polyadd)
def polymul(a1: ArrayLike, a2: ArrayLike) -> Any:
    """The product of two polynomials.

    Notes
    -----
    Communication: distributed coefficients are fetched to the host; long ones are the matter of :func:`convolve`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.polymul([1, 2], [1, 0]).tolist()
    [1, 2, 0]
    """
    return _on_coefficients(np.polymul)(a1, a2)


@implements(np.polydiv)
def polydiv(u: ArrayLike, v: ArrayLike) -> Any:
    """Quotient and remainder of two polynomials.

    Parameters
    ----------
    u, v : array_like or numpy.poly1d
        Coefficients of the dividend and the divisor, the highest power first.

    Returns
    -------
    tuple of two DistributedArray, or of two numpy.poly1d

    Notes
    -----
    Communication: distributed coefficients are fetched to the host.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     [x.tolist() for x in da.polydiv([1.0, 3.0], [1.0, 1.0])]
    [[1.0], [2.0]]
    """
    return _on_coefficients(np.polydiv)(u, v)


@implements(np.polyder)
def polyder(p: ArrayLike, m: int = 1) -> Any:
    """A polynomial's `m`-th derivative.

    Parameters
    ----------
    p : array_like or numpy.poly1d
        Coefficients, the highest power first.
    m : int
        How often.

    Returns
    -------
    DistributedArray, or numpy.poly1d

    Raises
    ------
    ValueError
        `m` is negative.

    Notes
    -----
    Communication: distributed coefficients are fetched to the host.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.polyder([1, 2, 3]).tolist()
    [2, 2]
    """
    return _on_coefficients(np.polyder)(p, m)


@implements(np.polyint)
@described_as(polyder)
def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | None = None) -> Any:
    """A polynomial's `m`-th integral.

    Parameters
    ----------
    k : scalar or array_like, optional
        Constants of integration. Default: 0.

    Notes
    -----
    Communication: distributed coefficients are fetched to the host.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.polyint([2, 2]).tolist()
    [1.0, 2.0, 0.0]
    """
    return _on_coefficients(np.polyint)(p, m, k)


@implements(np.poly)
def poly(seq_of_zeros: ArrayLike) -> Any:
    """The polynomial with given roots, or the characteristic one of a matrix.

    Parameters
    ----------
    seq_of_zeros : array_like
        Roots, or a square matrix.

    Returns
    -------
    DistributedArray
        Coefficients, the highest power first.

    Notes
    -----
    Communication: roots and matrix are fetched to the host.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.poly([1, 2]).tolist()
    [1.0, -3.0, 2.0]
    """
    return _on_coefficients(np.poly)(seq_of_zeros)


@implements(np.roots)
def roots(p: ArrayLike) -> Any:
    """A polynomial's roots, the eigenvalues of its companion matrix.

    Parameters
    ----------
    p : array_like
        Coefficients, the highest power first.

    Returns
    -------
    DistributedArray

    Raises
    ------
    ValueError
        `p` has more than one axis.

    Notes
    -----
    Communication: coefficients are fetched to the host.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.roots([1, -3, 2]).tolist()
    [2.0, 1.0]
    """
    return _on_coefficients(np.roots)(p)


@implements(np.polyfit)
def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: ArrayLike | None = None,
    cov: bool | str = False,
) -> Any:
    """The polynomial of a degree that fits points best, by least squares.

    Parameters
    ----------
    x : array_like of N
    y : array_like of shape (N,) or (N, K)
    deg : int
        The degree.
    rcond : float, optional
        Singular values below this part of the largest count as 0.
    full : bool
        Also residuals, rank, singular values and `rcond`.
    w : array_like of N, optional
        Weights of the residuals.
    cov : bool or "unscaled"
        Also the covariances of the coefficients.

    Returns
    -------
    DistributedArray, or tuple
        Coefficients, the highest power first; with `full` or `cov` what else is asked for.

    Raises
    ------
    TypeError, ValueError
        The points do not fit each other, or `deg` is negative.

    Warns
    -----
    RankWarning
        "Polyfit may be poorly conditioned".

    Notes
    -----
    Communication: that of :func:`linalg.lstsq`, of a matrix of N × (`deg` + 1).

    Memory on each device: its rows of the Vandermonde matrix, three times.
    """
    order = int(deg) + 1
    a, b = asarray(x) + 0.0, asarray(y) + 0.0
    if deg < 0:
        raise ValueError("expected deg >= 0")
    if a.ndim != 1:
        raise TypeError("expected 1D vector for x")
    if a.size == 0:
        raise TypeError("expected non-empty vector for x")
    if not 1 <= b.ndim <= 2:
        raise TypeError("expected 1D or 2D array for y")
    if a.shape[0] != b.shape[0]:
        raise TypeError("expected x and y to have same length")
    if rcond is None:
        rcond = len(a) * np.finfo(a.dtype).eps
    left, right = vander(a, order), b
    if w is not None:
        weights = asarray(w) + 0.0
        if weights.ndim != 1:
            raise TypeError("expected a 1-d array for weights")
        if weights.shape[0] != b.shape[0]:
            raise TypeError("expected w and y to have the same length")
        left = left * weights[:, None]
        right = right * (weights[:, None] if right.ndim == 2 else weights)
    scale = np.sqrt(reductions.sum(left * left, axis=0))
    left = left / scale
    found, residuals, rank, values = lstsq(left, right, rcond)
    found = (found.T / scale).T
    if int(rank) != order and not full:
        warn_at(call_site(), "Polyfit may be poorly conditioned", np.exceptions.RankWarning)
    if full:
        return found, residuals, rank, values, rcond
    if not cov:
        return found
    base = inv(np.dot(left.T, left)) / np.multiply(scale[:, None], scale[None, :])
    factor: Any = 1
    if not (isinstance(cov, str) and cov == "unscaled"):
        if len(a) <= order:
            raise ValueError("the number of data points must exceed order to scale the covariance matrix")
        factor = residuals / (len(a) - order)
    return found, base * factor if b.ndim == 1 else base[:, :, None] * factor
