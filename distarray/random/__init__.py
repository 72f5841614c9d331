"""Random numbers that do not depend on the layout: :func:`default_rng` and NumPy's distributions, and the older calls on a
generator that each context has of its own (``seed``, ``rand``, ``randn``, ``randint``, ...).
"""

from distarray.errors import absent_from
from distarray.random.generator import Generator, default_rng
from distarray.random.legacy import *
from distarray.random.legacy import __all__ as _legacy

__all__ = ["Generator", "default_rng", *_legacy]

__getattr__ = absent_from(__name__)
