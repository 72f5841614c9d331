"""Random numbers that do not depend on the layout: :func:`default_rng` and NumPy's distributions, the older calls on an object
that each context has of its own (``seed``, ``rand``, ``randn``, ``randint``, ...), and NumPy's seeds and bit generators, which
seed ours.
"""

from numpy.random import MT19937, PCG64, PCG64DXSM, SFC64, BitGenerator, Philox, SeedSequence

from distarray.errors import absent_from
from distarray.random.generator import Generator, default_rng
from distarray.random.legacy import *
from distarray.random.legacy import __all__ as _legacy

__all__ = [
    "MT19937", "PCG64", "PCG64DXSM", "SFC64", "BitGenerator", "Generator", "Philox", "SeedSequence", "default_rng", *_legacy,
]  # fmt: skip

__getattr__ = absent_from(__name__, {"random_integers": "NumPy gave it up in 2015: use randint or integers"})
