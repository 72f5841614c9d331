"""``numpy.polynomial`` for distributed points: power series in :mod:`distarray.polynomial.polynomial`, and the series' classes,
which are NumPy's own with calls that leave distributed points where they are. Coefficients are few, and every process has them.
"""

from numpy.polynomial import chebyshev, hermite, hermite_e, laguerre, legendre, polyutils, set_default_printstyle

from distarray.errors import absent_from
from distarray.polynomial import polynomial
from distarray.polynomial.series import Chebyshev, Hermite, HermiteE, Laguerre, Legendre, Polynomial

__all__ = [
    "Chebyshev", "Hermite", "HermiteE", "Laguerre", "Legendre", "Polynomial", "chebyshev", "hermite", "hermite_e", "laguerre",
    "legendre", "polynomial", "polyutils", "set_default_printstyle",
]  # fmt: skip

__getattr__ = absent_from(__name__)
