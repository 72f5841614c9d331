"""NumPy's classes of series (``Polynomial``, ``Chebyshev``, ...) called with distributed points, which stay where they are."""

from __future__ import annotations

from typing import Any

import numpy.polynomial as numpys

from distarray.array.state import DistributedArray
from distarray.polynomial.polynomial import polyfit, polyval

__all__ = ["Chebyshev", "Hermite", "HermiteE", "Laguerre", "Legendre", "Polynomial"]


class _Called:
    """Given to NumPy's classes: the values at distributed points are recorded."""

    domain: Any
    window: Any
    coef: Any

    def __call__(self, arg: Any) -> Any:
        """The values of the series at points: recorded and evaluated in one pass; nothing moves."""
        if not isinstance(arg, DistributedArray):
            return super().__call__(arg)  # type: ignore[misc]
        offset, scale = self.mapparms()  # type: ignore[attr-defined]
        return self._val(offset + scale * arg, self.coef)  # type: ignore[attr-defined]


class Polynomial(_Called, numpys.Polynomial):
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
    def fit(
        cls,
        x: Any,
        y: Any,
        deg: Any,
        domain: Any = None,
        rcond: float | None = None,
        full: bool = False,
        w: Any = None,
        window: Any = None,
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
            return super().fit(x, y, deg, domain, rcond, full, w, window, symbol)
        if domain is None:
            low, high = x.min().item(), x.max().item()
            domain = [low - 1, high + 1] if low == high else [low, high]
        elif isinstance(domain, list) and not domain:
            domain = cls.domain
        window = cls.window if window is None else window
        offset, scale = numpys.polyutils.mapparms(domain, window)
        found = polyfit(offset + scale * x, y, deg, rcond, full, w)
        made = cls((found[0] if full else found).get(), domain, window, symbol)
        return (made, found[1]) if full else made


class Chebyshev(_Called, numpys.Chebyshev):
    """A Chebyshev series, as ``numpy.polynomial.Chebyshev``; calls take distributed points."""


class Hermite(_Called, numpys.Hermite):
    """A Hermite series, as ``numpy.polynomial.Hermite``; calls take distributed points."""


class HermiteE(_Called, numpys.HermiteE):
    """A Hermite E series, as ``numpy.polynomial.HermiteE``; calls take distributed points."""


class Laguerre(_Called, numpys.Laguerre):
    """A Laguerre series, as ``numpy.polynomial.Laguerre``; calls take distributed points."""


class Legendre(_Called, numpys.Legendre):
    """A Legendre series, as ``numpy.polynomial.Legendre``; calls take distributed points."""
