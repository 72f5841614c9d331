"""NumPy's older calls (``seed``, ``rand``, ``randint``, ...), on one generator a context."""

from __future__ import annotations

import inspect
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from distarray.array.aliases import DTypeLike
from distarray.array.documented import described_as
from distarray.context import Context
from distarray.current import current
from distarray.random.generator import _DRAWS, Generator, default_rng

_generators: WeakKeyDictionary[Context, RandomState] = WeakKeyDictionary()
"""One generator a context, gone with it: contexts lie below the generators and cannot hold them by type."""

_SAME = [name for name in (*_DRAWS, "bytes", "choice", "permutation", "shuffle") if name not in ("integers", "random")]
_OLDER = ["rand", "randint", "randn", "random", "random_sample"]

__all__ = [*_SAME, *_OLDER, "RandomState", "ranf", "sample", "seed"]


class RandomState(Generator):
    """A generator with the names of NumPy's older calls beside those of :class:`Generator`, as ``numpy.random.RandomState``.

    The values are those of :func:`default_rng` with the same seed, not those of NumPy's Mersenne twister.

    Parameters
    ----------
    seed : int, sequence of int, SeedSequence, BitGenerator or Generator, optional
        As for :func:`default_rng`.

    Notes
    -----
    Communication: as for :func:`default_rng`, and for :class:`Generator`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.random.RandomState(3).randint(0, 10, (2, 2)).shape
    (2, 2)
    """

    def __init__(self, seed: Any = None) -> None:
        super().__init__(default_rng(seed)._seed)

    def seed(self, seed: Any = None) -> None:
        """Begin anew.

        Parameters
        ----------
        seed : int, sequence of int, SeedSequence, BitGenerator or Generator, optional
            As for :func:`default_rng`.

        Notes
        -----
        Communication: as for :func:`default_rng`.
        """
        super().__init__(default_rng(seed)._seed)

    def random_sample(self, size: Any = None, *, layout: Any = None, device: Any = None) -> Any:
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
        return super().random(size, layout=layout, device=device)  # type: ignore[attr-defined]

    def rand(self, *shape: int, layout: Any = None, device: Any = None) -> Any:
        """Uniform numbers in [0, 1), of the shape that the arguments are.

        Parameters
        ----------
        *shape : int
            The lengths of the axes; without any the result is one number.
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
        return self.random_sample(shape or None, layout=layout, device=device)

    def randn(self, *shape: int, layout: Any = None, device: Any = None) -> Any:
        """Standard normal numbers, of the shape that the arguments are.

        Parameters
        ----------
        *shape : int
            The lengths of the axes; without any the result is one number.
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
        return self.standard_normal(shape or None, layout=layout, device=device)  # type: ignore[attr-defined]

    def randint(
        self,
        low: Any,
        high: Any = None,
        size: Any = None,
        dtype: DTypeLike = int,
        *,
        layout: Any = None,
        device: Any = None,
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
        layout : layout_like, optional
            As for :func:`distarray.zeros`; the values do not depend on it.
        device : device, optional
            As for :func:`distarray.zeros`; the values do not depend on it.

        Returns
        -------
        DistributedArray
            Of dtype `dtype`.

        Notes
        -----
        Communication: see :class:`Generator`.
        """
        return self.integers(low, high, size, np.dtype(dtype), layout=layout, device=device)  # type: ignore[attr-defined]

    random = random_sample


def _own() -> RandomState:
    """The generator of the current context; one with a fresh seed at first."""
    context = current()
    if context not in _generators:
        _generators[context] = RandomState()
    return _generators[context]


@described_as(RandomState.seed)
def seed(seed: Any = None) -> None:
    """Begin the sequence of these calls anew in the current context."""
    _generators[current()] = RandomState(seed)


def _forward(name: str) -> Any:
    """The method of the context's generator as a function."""
    method = getattr(RandomState, name)

    def function(*args: Any, **kwargs: Any) -> Any:
        return method(_own(), *args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = method.__doc__
    signature = inspect.signature(method)
    function.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])  # type: ignore[attr-defined]
    return function


globals().update({name: _forward(name) for name in (*_SAME, *_OLDER)})
ranf = sample = globals()["random_sample"]
