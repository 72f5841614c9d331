"""``numpy.polynomial.polynomial``: power series with the lowest power first, at distributed points.

What is done with coefficients alone (sums, products, roots) is NumPy's own; distributed ones are fetched by it.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.polynomial.polynomial as numpys
from numpy.polynomial.polynomial import (
    polyadd,
    polycompanion,
    polyder,
    polydiv,
    polydomain,
    polyfromroots,
    polyint,
    polyline,
    polymul,
    polymulx,
    polyone,
    polypow,
    polyroots,
    polysub,
    polytrim,
    polyx,
    polyzero,
)
from numpy.polynomial.polyutils import mapparms

from distarray.array.aliases import ArrayLike
from distarray.array.documented import described_as
from distarray.array.functions import implements
from distarray.array.place import host_values
from distarray.array.state import DistributedArray
from distarray.linalg.least_squares import lstsq
from distarray.ops import reductions
from distarray.ops.convert import asarray
from distarray.ops.joining import stack
from distarray.polynomial.called import Called
from distarray.sites import call_site, warn_at

__all__ = [
    "Polynomial", "polyadd", "polycompanion", "polyder", "polydiv", "polydomain", "polyfit", "polyfromroots", "polygrid2d",
    "polygrid3d", "polyint", "polyline", "polymul", "polymulx", "polyone", "polypow", "polyroots", "polysub", "polytrim", "polyval",
    "polyval2d", "polyval3d", "polyvalfromroots", "polyvalnd", "polyvander", "polyvander2d", "polyvander3d", "polyx", "polyzero",
]  # fmt: skip

_SERIES: Any = numpys.Polynomial.__base__
"""What all of NumPy's classes of series are."""


def _coefficients(c: Any) -> Any:
    """Coefficients on the host, of at least one axis and no integers."""
    found = np.array(host_values(c) if isinstance(c, DistributedArray) else c, ndmin=1, copy=None)
    return found + 0.0 if found.dtype.kind in "biu" else found


def polyval(x: ArrayLike, c: ArrayLike, tensor: bool = True) -> Any:
    """The values of a power series at points, by Horner's scheme: recorded and evaluated in one pass.

    Parameters
    ----------
    x : array_like
        Where.
    c : array_like
        Coefficients along the first axis, the lowest power first; further axes hold further series.
    tensor : bool
        Every series at every point; False: `x` is broadcast over the further axes of `c`.

    Returns
    -------
    DistributedArray
        Of shape ``c.shape[1:] + x.shape``, or with `tensor` False of the broadcast one.

    Notes
    -----
    Communication: none; distributed coefficients of one axis are fetched.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.polynomial.polynomial.polyval(da.arange(3), [1, 0, 1]).tolist()
    [1.0, 2.0, 5.0]
    """
    if isinstance(x, _SERIES):  # one series of another: what `convert` is made of
        return numpys.polyval(x, _coefficients(c), tensor)
    return _horner(asarray(x), c, tensor)


def _horner(x: DistributedArray, c: Any, tensor: bool) -> Any:
    if not isinstance(c, DistributedArray) or c.ndim < 2:  # few: every process has them
        c = _coefficients(c)
    elif c.dtype.kind in "biu":
        c = c.astype(np.float64)
    if tensor:
        c = c.reshape(c.shape + (1,) * x.ndim)
    value = c[-1] + x * 0
    for coefficient in c[-2::-1]:
        value = coefficient + value * x
    return value


@implements(numpys.polyval2d)
@described_as(polyval)
def polyval2d(x: ArrayLike, y: ArrayLike, c: ArrayLike) -> Any:
    """The values of a power series of two variables at points.

    Parameters
    ----------
    x, y : array_like
        The points' coordinates, of one shape.
    c : array_like
        Coefficients: the power of each variable along an axis; further axes hold further series.

    Returns
    -------
    DistributedArray
        Of shape ``c.shape[2:] + x.shape``.

    Raises
    ------
    ValueError
        The shapes of the coordinates differ.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.polynomial.polynomial.polyval2d(da.arange(3), [1, 1, 1], [[0, 1], [2, 3]]).tolist()
    [1.0, 6.0, 11.0]
    """
    return _at_points(c, x, y)


@described_as(polyval)
def polyval3d(x: ArrayLike, y: ArrayLike, z: ArrayLike, c: ArrayLike) -> Any:
    """The values of a power series of three variables at points.

    Parameters
    ----------
    x, y, z : array_like
        The points' coordinates, of one shape.
    c : array_like
        Coefficients: the power of each variable along an axis; further axes hold further series.

    Returns
    -------
    DistributedArray
        Of shape ``c.shape[3:] + x.shape``.

    Raises
    ------
    ValueError
        The shapes of the coordinates differ.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.polynomial.polynomial.polyval3d(da.arange(3), [1, 1, 1], [2, 2, 2], [[[0, 1]], [[2, 3]]]).tolist()
    [2.0, 10.0, 18.0]
    """
    return _at_points(c, x, y, z)


def polyvalnd(pts: Sequence[ArrayLike], c: ArrayLike) -> Any:
    """The values of a power series of several variables at points, as NumPy has from 2.5 on.

    Parameters
    ----------
    pts : sequence of array_like
        The points' coordinates, one of each variable, of one shape.
    c : array_like
        Coefficients: the power of each variable along an axis; further axes hold further series.

    Returns
    -------
    DistributedArray
        Of shape ``c.shape[len(pts):] + pts[0].shape``.

    Raises
    ------
    ValueError
        The shapes of the coordinates differ.
    TypeError
        There are no coordinates.

    Notes
    -----
    Communication: what aligns the coordinates.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.polynomial.polynomial.polyvalnd([da.arange(3), [1, 1, 1]], [[0, 1], [2, 3]]).tolist()
    [1.0, 6.0, 11.0]
    """
    points = tuple(pts)
    if not points:
        raise TypeError("polyvalnd needs the coordinates of one variable at least")
    return _at_points(c, *points)


if hasattr(numpys, "polyvalnd"):
    implements(numpys.polyvalnd)(polyvalnd)


def _at_points(c: Any, *points: Any) -> Any:
    arrays = [asarray(p) for p in points]
    if any(a.shape != arrays[0].shape for a in arrays):
        names = ", ".join("xyz"[: len(arrays)]) if len(arrays) in (2, 3) else "ordinates"
        raise ValueError(f"{names} are incompatible: pass coordinates of one shape")
    value = _horner(arrays[0], _coefficients(c), True)
    for a in arrays[1:]:
        value = _horner_along(a, value)
    return value


def _horner_along(x: DistributedArray, c: DistributedArray) -> Any:
    """The series whose coefficients lie along the first axis of `c`, an element for each point; without axes a constant."""
    if not c.ndim:
        return c + x * 0
    value = c[-1] + x * 0
    for k in range(c.shape[0] - 2, -1, -1):
        value = c[k] + value * x
    return value


@implements(numpys.polygrid2d)
@described_as(polyval)
def polygrid2d(x: ArrayLike, y: ArrayLike, c: ArrayLike) -> Any:
    """The values of a power series of two variables on the grid of all pairs of coordinates.

    Parameters
    ----------
    x, y : array_like
        Coordinates.
    c : array_like
        Coefficients: the power of each variable along an axis; further axes hold further series.

    Returns
    -------
    DistributedArray
        Of shape ``c.shape[2:] + x.shape + y.shape``.

    Notes
    -----
    Communication: that of :func:`distarray.tensordot` of the powers of the coordinates.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.polynomial.polynomial.polygrid2d(da.arange(2), [0, 1, 2], [[0, 1], [2, 3]]).tolist()
    [[0.0, 1.0, 2.0], [2.0, 6.0, 10.0]]
    """
    return _on_grid(c, x, y)


@described_as(polygrid2d)
def polygrid3d(x: ArrayLike, y: ArrayLike, z: ArrayLike, c: ArrayLike) -> Any:
    """The values of a power series of three variables on the grid of all triples of coordinates.

    Parameters
    ----------
    x, y, z : array_like
        Coordinates.
    c : array_like
        Coefficients: the power of each variable along an axis; further axes hold further series.

    Returns
    -------
    DistributedArray
        Of shape ``c.shape[3:] + x.shape + y.shape + z.shape``.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.polynomial.polynomial.polygrid3d(da.arange(2), [1, 2], [3], [[[0, 1]], [[2, 3]]]).tolist()
    [[[3.0], [3.0]], [[14.0], [14.0]]]
    """
    return _on_grid(c, x, y, z)


def _on_grid(c: Any, *points: Any) -> Any:
    value: Any = _coefficients(c)
    for p in points:
        value = _horner(asarray(p), value, True)
    return value


def polyvalfromroots(x: ArrayLike, r: ArrayLike, tensor: bool = True) -> Any:
    """The values at points of the series that has given roots.

    Parameters
    ----------
    x : array_like
        Where.
    r : array_like
        Roots along the first axis; further axes hold further series.
    tensor : bool
        Every series at every point; False: `x` is broadcast over the further axes of `r`.

    Returns
    -------
    DistributedArray
        Of shape ``r.shape[1:] + x.shape``, or with `tensor` False of the broadcast one.

    Raises
    ------
    ValueError
        With `tensor` False, `x` has as many axes as `r`.

    Notes
    -----
    Communication: none; distributed roots are fetched.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.polynomial.polynomial.polyvalfromroots(da.arange(3, 6), [1, 2]).tolist()
    [2.0, 6.0, 12.0]
    """
    roots, places = _coefficients(r), asarray(x)
    if tensor:
        roots = roots.reshape(roots.shape + (1,) * places.ndim)
    elif places.ndim >= roots.ndim:
        raise ValueError("x.ndim must be < r.ndim when tensor == False")
    if not len(roots):
        return reductions.prod(places - roots, axis=0)
    return functools.reduce(operator.mul, [places - root for root in roots])


def polyvander(x: ArrayLike, deg: int) -> DistributedArray:
    """The powers of points along a new last axis, the lowest first.

    Parameters
    ----------
    x : array_like
        Points; a number is one.
    deg : int
        The highest power.

    Returns
    -------
    DistributedArray
        Of shape ``x.shape + (deg + 1,)``.

    Raises
    ------
    ValueError
        `deg` is negative.

    Notes
    -----
    Communication: none.

    Memory on each device: its part of the result, twice.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.polynomial.polynomial.polyvander(da.arange(3), 2).tolist()
    [[1.0, 0.0, 0.0], [1.0, 1.0, 1.0], [1.0, 2.0, 4.0]]
    """
    degree = operator.index(deg)
    if degree < 0:
        raise ValueError("deg must be non-negative")
    points = asarray(x) + 0.0
    points = points.reshape(1) if not points.ndim else points
    powers = [points * 0 + 1]
    for _ in range(degree):
        powers.append(powers[-1] * points)
    found: DistributedArray = stack(powers, axis=-1)
    return found


@described_as(polyvander)
def polyvander2d(x: ArrayLike, y: ArrayLike, deg: int | Sequence[int]) -> DistributedArray:
    """The products of the powers of two coordinates along a new last axis.

    Parameters
    ----------
    x, y : array_like
        The points' coordinates, of one shape.
    deg : sequence of int
        The highest power of each.

    Returns
    -------
    DistributedArray
        Of shape ``x.shape + (product of (deg + 1),)``.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.polynomial.polynomial.polyvander2d(da.asarray([2]), [3], [1, 1]).tolist()
    [[1.0, 3.0, 2.0, 6.0]]
    """
    return _products_of_powers((x, y), deg)


@described_as(polyvander)
def polyvander3d(x: ArrayLike, y: ArrayLike, z: ArrayLike, deg: int | Sequence[int]) -> DistributedArray:
    """The products of the powers of three coordinates along a new last axis.

    Parameters
    ----------
    x, y, z : array_like
        The points' coordinates, of one shape.
    deg : sequence of int
        The highest power of each.

    Returns
    -------
    DistributedArray
        Of shape ``x.shape + (product of (deg + 1),)``.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.polynomial.polynomial.polyvander3d(da.asarray([2]), [3], [5], [1, 0, 1]).tolist()
    [[1.0, 5.0, 2.0, 10.0]]
    """
    return _products_of_powers((x, y, z), deg)


def _products_of_powers(points: tuple[Any, ...], degrees: Any) -> DistributedArray:
    highest = [operator.index(d) for d in degrees]
    if len(highest) != len(points):
        raise ValueError(f"Expected {len(points)} dimensions of degrees, got {len(highest)}")
    arrays = [asarray(p) for p in points]
    if any(a.shape != arrays[0].shape for a in arrays):
        raise ValueError("the coordinates must have one shape")
    n = len(points)
    product: Any = None
    for i, (a, degree) in enumerate(zip(arrays, highest)):
        powers = polyvander(a, degree)
        own = powers[(..., *(slice(None) if j == i else None for j in range(n)))]
        product = own if product is None else product * own
    return product.reshape((*product.shape[:-n], -1))  # type: ignore[no-any-return]


def polyfit(
    x: ArrayLike,
    y: ArrayLike,
    deg: int | Sequence[int],
    rcond: float | None = None,
    full: bool = False,
    w: ArrayLike | None = None,
) -> Any:
    """The power series that fits points best, by least squares.

    Parameters
    ----------
    x : array_like of N
    y : array_like of shape (N,) or (N, K)
    deg : int or sequence of int
        The degree, or the powers to use.
    rcond : float, optional
        Singular values below this part of the largest count as 0.
    full : bool
        Also a list of residuals, rank, singular values and `rcond`.
    w : array_like of N, optional
        Weights of the residuals.

    Returns
    -------
    DistributedArray, or tuple
        Coefficients, the lowest power first; with `full` the list besides.

    Raises
    ------
    TypeError, ValueError
        The points do not fit each other, or `deg` is negative.

    Warns
    -----
    RankWarning
        "The fit may be poorly conditioned".

    Notes
    -----
    Communication: that of :func:`distarray.linalg.lstsq`, of a matrix of N × (`deg` + 1).

    Memory on each device: its rows of the matrix of powers, three times.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.arange(8.0)
    ...     da.polynomial.polynomial.polyfit(x, 1 + 2 * x, 1).round(6).tolist()
    [1.0, 2.0]
    """
    a, b, powers = asarray(x) + 0.0, asarray(y) + 0.0, np.asarray(deg)
    if powers.ndim > 1 or powers.dtype.kind not in "iu" or powers.size == 0:
        raise TypeError("deg must be an int or non-empty 1-D array of int")
    if powers.min() < 0:
        raise ValueError("expected deg >= 0")
    if a.ndim != 1:
        raise TypeError("expected 1D vector for x")
    if a.size == 0:
        raise TypeError("expected non-empty vector for x")
    if not 1 <= b.ndim <= 2:
        raise TypeError("expected 1D or 2D array for y")
    if len(a) != len(b):
        raise TypeError("expected x and y to have same length")
    highest = int(powers.max())
    left = polyvander(a, highest)
    if powers.ndim:
        powers = np.sort(powers)
        left = left[:, powers]
    if w is not None:
        weights = asarray(w) + 0.0
        if weights.ndim != 1:
            raise TypeError("expected 1D vector for w")
        if len(a) != len(weights):
            raise TypeError("expected x and w to have same length")
        left, b = left * weights[:, None], b * (weights[:, None] if b.ndim == 2 else weights)
    if rcond is None:
        rcond = len(a) * float(np.finfo(a.dtype).eps)
    scale = np.sqrt(reductions.sum(np.square(np.abs(left)), axis=0))
    scale = np.where(scale == 0, 1, scale)
    found, residuals, rank, values = lstsq(left / scale, b, rcond)
    found = (found.T / scale).T
    if int(rank) != left.shape[1] and not full:
        warn_at(call_site(), "The fit may be poorly conditioned", np.exceptions.RankWarning)
    if powers.ndim:
        spread = np.zeros((highest + 1, *found.shape[1:]), found.dtype)
        spread[powers] = found.get()
        found = asarray(spread)
    return (found, [residuals, rank, values, rcond]) if full else found


class Polynomial(Called, numpys.Polynomial):
    """A power series, as ``numpy.polynomial.Polynomial``; :meth:`fit` and calls take distributed points.

    Parameters
    ----------
    coef : array_like
        Coefficients, the lowest power first.
    domain, window : [float, float], optional
        The interval of the points, and that to which it is mapped; [-1, 1] by default.
    symbol : str
        What stands for the variable in print.
    """

    _val = staticmethod(polyval)
    _fit = staticmethod(polyfit)

    @classmethod
    def fit(  # type: ignore[override]  # NumPy's overloads, in one
        cls,
        x: Any,  # as NumPy's class, whose types leave distributed arrays out
        y: ArrayLike,
        deg: int | Sequence[int],
        domain: Any = None,  # what NumPy takes: two numbers, [] or None
        rcond: float | None = None,
        full: bool = False,
        w: ArrayLike | None = None,
        window: Any = None,  # two numbers, or None
        symbol: str = "x",
    ) -> Any:
        """The series that fits points best, by least squares.

        Parameters
        ----------
        x, y : array_like
            The points' coordinates.
        deg : int or array_like of int
            The degree, or the powers to use.
        domain : [float, float], optional
            Default: from the smallest to the largest `x`.
        rcond : float, optional
            Singular values below this part of the largest count as 0.
        full : bool
            Also residuals, rank, singular values and `rcond`.
        w : array_like, optional
            Weights of the residuals.
        window : [float, float], optional
            Default: the class's.
        symbol : str
            What stands for the variable in print.

        Returns
        -------
        Polynomial, or tuple

        Notes
        -----
        Communication: as for :func:`distarray.polynomial.polynomial.polyfit`, and the extremes of `x`.
        """
        if not isinstance(x, DistributedArray) or x.ndim != 1 or x.size == 0:
            return super().fit(x, y, deg, domain, rcond, full, w, window, symbol)  # type: ignore[call-overload, misc]
        if domain is None:
            low, high = x.min().item(), x.max().item()
            domain = [low - 1, high + 1] if low == high else [low, high]
        elif isinstance(domain, list) and not domain:
            domain = cls.domain
        window = cls.window if window is None else window
        offset, scale = mapparms(domain, window)
        found = polyfit(offset + scale * x, y, deg, rcond, full, w)
        made = cls((found[0] if full else found).get(), domain, window, symbol)
        return (made, found[1]) if full else made
