"""NumPy's older calls: the class ``RandomState``, and functions (``seed``, ``rand``, ...) on one such object a context."""

from __future__ import annotations

import builtins
import inspect
import sys
from collections.abc import Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn
from weakref import WeakKeyDictionary

import numpy as np

from distarray.array.aliases import AnyArray, ArrayLike, DeviceLike, DTypeLike, LayoutLike, ShapeLike
from distarray.array.documented import described_as
from distarray.array.state import DistributedArray
from distarray.context import Context
from distarray.current import current
from distarray.errors import absent
from distarray.random.draws import Draws
from distarray.random.generator import Generator, default_rng
from distarray.random.streams import Seed


class RandomState(Draws):
    """Random arrays by NumPy's older methods; new programs call :func:`default_rng`.

    The values are those that :class:`Generator` draws, not those of ``numpy.random.RandomState``.

    Parameters
    ----------
    seed : int, sequence of int, SeedSequence, BitGenerator or Generator, optional
        As for :func:`default_rng`.

    Notes
    -----
    Communication: as for :class:`Generator`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     rng = da.random.RandomState(0)
    ...     rng.rand(4, 3).shape, rng.randint(0, 10, size=5).dtype
    ((4, 3), dtype('int64'))
    """

    def __init__(self, seed: Seed | Generator = None) -> None:
        self._generator = default_rng(seed)

    def __getattr__(self, name: str) -> NoReturn:
        cure = "numpy.random." + name
        raise absent(
            "RandomState", name, np.random.RandomState, cure, self, "NumPy gave it up: use randint or integers"
        )

    def __repr__(self) -> str:
        return f"RandomState({self._generator.bit_generator!r})"

    def seed(self, seed: Seed | Generator = None) -> None:
        """Begin the sequence of values anew.

        Parameters
        ----------
        seed : int, sequence of int, SeedSequence, BitGenerator or Generator, optional
            As for :func:`default_rng`.

        Notes
        -----
        Communication: as for :func:`default_rng`.
        """
        self._generator = default_rng(seed)

    def _draw(self, name: str, given: dict[str, Any], layout: LayoutLike, device: DeviceLike) -> DistributedArray:
        return self._generator._draw(name, given, layout, device)

    def get_state(self, legacy: bool = False) -> dict[str, Any]:
        """Where the sequence of values stands.

        Parameters
        ----------
        legacy : bool
            Accepted for NumPy's sake: there is no tuple form.

        Returns
        -------
        dict
            Plain values, for :meth:`set_state`.
        """
        return self._generator.bit_generator.state

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from where the sequence of values stood.

        Parameters
        ----------
        state : dict
            What :meth:`get_state` returned.

        Raises
        ------
        ValueError
            The state is of another generator: NumPy's draw other values.
        """
        self._generator.bit_generator.state = state

    def random_sample(
        self, size: ShapeLike | None = None, *, layout: LayoutLike = None, device: DeviceLike = None
    ) -> Any:
        """Uniform numbers in [0, 1).

        Parameters
        ----------
        size : int or tuple of int, optional
            The shape of the result; by default one number.
        layout : layout_like, optional
            As for :func:`distarray.zeros`; the values do not depend on it.
        device : device, optional
            As for :func:`distarray.zeros`; the values do not depend on it.

        Returns
        -------
        DistributedArray
            Of dtype float64.

        Notes
        -----
        Communication: see :class:`Generator`.
        """
        return self._generator.random(size, layout=layout, device=device)

    random = random_sample

    @described_as(random_sample)
    def rand(self, *shape: int, layout: LayoutLike = None, device: DeviceLike = None) -> Any:
        """Uniform numbers in [0, 1), of the shape that the arguments are.

        Parameters
        ----------
        *shape : int
            The lengths of the axes; without any the result is one number.
        """
        return self.random_sample(shape or None, layout=layout, device=device)

    @described_as(random_sample)
    def randn(self, *shape: int, layout: LayoutLike = None, device: DeviceLike = None) -> Any:
        """Standard normal numbers, of the shape that the arguments are.

        Parameters
        ----------
        *shape : int
            The lengths of the axes; without any the result is one number.
        """
        return self._generator.standard_normal(shape or None, layout=layout, device=device)

    @described_as(random_sample)
    def randint(
        self,
        low: ArrayLike,
        high: ArrayLike | None = None,
        size: ShapeLike | None = None,
        dtype: DTypeLike = int,
        *,
        layout: LayoutLike = None,
        device: DeviceLike = None,
    ) -> Any:
        """Integers from `low` to `high`, which is excluded.

        Parameters
        ----------
        low : int or array_like of ints
            The lowest; the integers go from 0 to `low` where `high` is None.
        high : int or array_like of ints, optional
            One above the highest.
        size : int or tuple of int, optional
            The shape of the result; by default that to which `low` and `high` broadcast.
        dtype : dtype_like
            An integer or boolean dtype.

        Returns
        -------
        DistributedArray
            Of dtype `dtype`.
        """
        draw = self._generator.integers
        return draw(low, high, size, np.dtype(dtype), layout=layout, device=device)

    @described_as(random_sample)
    def tomaxint(self, size: ShapeLike | None = None) -> Any:
        """Integers from 0 to the largest of int64, which is included.

        Returns
        -------
        DistributedArray
            Of dtype int64.
        """
        return self._generator.integers(0, sys.maxsize, size, np.int64, endpoint=True)

    @described_as(Generator.bytes)
    def bytes(self, length: int) -> builtins.bytes:
        """Random bytes, the same on all processes."""
        return self._generator.bytes(length)

    @described_as(Generator.choice)
    def choice(
        self,
        a: ArrayLike,
        size: ShapeLike | None = None,
        replace: bool = True,
        p: ArrayLike | None = None,
        axis: int = 0,
        shuffle: bool = True,
        *,
        layout: LayoutLike = None,
        device: DeviceLike = None,
    ) -> Any:
        """Elements of an array, or of ``range(a)``, at random."""
        return self._generator.choice(a, size, replace, p, axis, shuffle, layout=layout, device=device)

    @described_as(Generator.permutation)
    def permutation(self, x: ArrayLike, axis: int = 0) -> DistributedArray:
        """The slices of an array along an axis in random order."""
        return self._generator.permutation(x, axis)

    @described_as(Generator.shuffle)
    def shuffle(self, x: AnyArray, axis: int = 0) -> None:
        """Bring the slices of an array along an axis into random order, in place; the slices stay whole."""
        self._generator.shuffle(x, axis)


_states: WeakKeyDictionary[Context, RandomState] = WeakKeyDictionary()
"""One object a context, gone with it: contexts lie below the generators and cannot hold them by type."""


def _of_context(name: str) -> Any:
    """The method of the current context's ``RandomState`` as a function."""
    method = getattr(RandomState, name)

    @wraps(method)
    def function(*args: Any, **kwargs: Any) -> Any:
        context = current()
        if context not in _states:
            _states[context] = RandomState()
        return method(_states[context], *args, **kwargs)

    function.__qualname__ = name
    function.__module__ = __name__
    signature = inspect.signature(method)
    function.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])  # type: ignore[attr-defined]
    return function


__all__ = [
    "RandomState", "beta", "binomial", "bytes", "chisquare", "choice", "dirichlet", "exponential", "f", "gamma",
    "geometric", "get_state", "gumbel", "hypergeometric", "laplace", "logistic", "lognormal", "logseries",
    "multinomial", "multivariate_hypergeometric", "multivariate_normal", "negative_binomial", "noncentral_chisquare",
    "noncentral_f", "normal", "pareto", "permutation", "poisson", "power", "rand", "randint", "randn", "random",
    "random_sample", "rayleigh", "seed", "set_state", "shuffle", "standard_cauchy", "standard_exponential",
    "standard_gamma", "standard_normal", "standard_t", "triangular", "uniform", "vonmises", "wald", "weibull", "zipf",
    "ranf", "sample",
]  # fmt: skip

_FUNCTIONS = [name for name in __all__ if name not in ("RandomState", "ranf", "sample")]

globals().update({name: _of_context(name) for name in _FUNCTIONS})

if TYPE_CHECKING:  # the functions as type checkers see them: the methods of an object
    _state = RandomState()
    beta = _state.beta
    binomial = _state.binomial
    chisquare = _state.chisquare
    dirichlet = _state.dirichlet
    exponential = _state.exponential
    f = _state.f
    gamma = _state.gamma
    geometric = _state.geometric
    gumbel = _state.gumbel
    hypergeometric = _state.hypergeometric
    laplace = _state.laplace
    logistic = _state.logistic
    lognormal = _state.lognormal
    logseries = _state.logseries
    multinomial = _state.multinomial
    multivariate_hypergeometric = _state.multivariate_hypergeometric
    multivariate_normal = _state.multivariate_normal
    negative_binomial = _state.negative_binomial
    noncentral_chisquare = _state.noncentral_chisquare
    noncentral_f = _state.noncentral_f
    normal = _state.normal
    pareto = _state.pareto
    poisson = _state.poisson
    power = _state.power
    rayleigh = _state.rayleigh
    standard_cauchy = _state.standard_cauchy
    standard_exponential = _state.standard_exponential
    standard_gamma = _state.standard_gamma
    standard_normal = _state.standard_normal
    standard_t = _state.standard_t
    triangular = _state.triangular
    uniform = _state.uniform
    vonmises = _state.vonmises
    wald = _state.wald
    weibull = _state.weibull
    zipf = _state.zipf
    bytes = _state.bytes
    choice = _state.choice
    permutation = _state.permutation
    get_state = _state.get_state
    rand = _state.rand
    randint = _state.randint
    randn = _state.randn
    random = _state.random
    random_sample = _state.random_sample
    seed = _state.seed
    set_state = _state.set_state
    shuffle = _state.shuffle

ranf = sample = random_sample
