"""Random numbers that do not depend on the layout: :func:`default_rng` and NumPy's distributions, and the older calls on a
generator that each context has of its own (``seed``, ``rand``, ``randn``, ``randint``, ...).
"""

from numpy.random import MT19937, PCG64, PCG64DXSM, SFC64, BitGenerator, Philox, SeedSequence

from distarray.errors import absent_from
from distarray.random.generator import Generator, default_rng
from distarray.random.legacy import *
from distarray.random.legacy import __all__ as _legacy

__all__ = [
    "BitGenerator", "Generator", "MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64", "SeedSequence", "default_rng", *_legacy,
]  # fmt: skip

_STATE = "the values depend on a seed and on how many calls came before: begin anew with seed(value)"
__getattr__ = absent_from(
    __name__, {"get_state": _STATE, "set_state": _STATE, "random_integers": "it is deprecated: use integers or randint"}
)
