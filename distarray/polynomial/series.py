"""NumPy's classes of series (``Polynomial``, ``Chebyshev``, ...) called with distributed points, which stay where they are."""

import numpy.polynomial as numpys

from distarray.polynomial.called import Called
from distarray.polynomial.polynomial import Polynomial

__all__ = ["Chebyshev", "Hermite", "HermiteE", "Laguerre", "Legendre", "Polynomial"]


class Chebyshev(Called, numpys.Chebyshev):
    """A Chebyshev series, as ``numpy.polynomial.Chebyshev``; calls take distributed points."""


class Hermite(Called, numpys.Hermite):
    """A Hermite series, as ``numpy.polynomial.Hermite``; calls take distributed points."""


class HermiteE(Called, numpys.HermiteE):
    """A Hermite E series, as ``numpy.polynomial.HermiteE``; calls take distributed points."""


class Laguerre(Called, numpys.Laguerre):
    """A Laguerre series, as ``numpy.polynomial.Laguerre``; calls take distributed points."""


class Legendre(Called, numpys.Legendre):
    """A Legendre series, as ``numpy.polynomial.Legendre``; calls take distributed points."""
