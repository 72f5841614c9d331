"""NumPy's older calls: the class ``RandomState``, and functions (``seed``, ``rand``, ...) on one such object a context."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from functools import wraps
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from distarray.array.aliases import AnyArray, ArrayLike, DeviceLike, DTypeLike, LayoutLike, ShapeLike
from distarray.array.documented import described_as
from distarray.context import Context
from distarray.current import current
from distarray.random.generator import _DRAWS, Generator, default_rng
from distarray.random.streams import Seed

_SAME = [name for name in (*_DRAWS, "bytes", "choice", "permutation") if name not in ("integers", "random")]


class RandomState:
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
        return self._generator.random(size, layout=layout, device=device)  # type: ignore[attr-defined]

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
        return self._generator.standard_normal(shape or None, layout=layout, device=device)  # type: ignore[attr-defined]

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
        draw = self._generator.integers  # type: ignore[attr-defined]
        return draw(low, high, size, np.dtype(dtype), layout=layout, device=device)

    @described_as(random_sample)
    def tomaxint(self, size: ShapeLike | None = None) -> Any:
        """Integers from 0 to the largest of int64, which is included.

        Returns
        -------
        DistributedArray
            Of dtype int64.
        """
        return self._generator.integers(0, sys.maxsize, size, np.int64, endpoint=True)  # type: ignore[attr-defined]

    @described_as(Generator.shuffle)
    def shuffle(self, x: AnyArray, axis: int = 0) -> None:
        """Bring the slices of an array along an axis into random order, in place; the slices stay whole."""
        self._generator.shuffle(x, axis)


def _of_generator(name: str) -> Any:
    """The method of ``Generator`` as one of ``RandomState``."""
    method = getattr(Generator, name)

    @wraps(method)
    def forward(self: RandomState, *args: Any, **kwargs: Any) -> Any:
        return method(self._generator, *args, **kwargs)

    forward.__qualname__ = f"RandomState.{name}"
    return forward


for _name in _SAME:
    setattr(RandomState, _name, _of_generator(_name))

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


_FUNCTIONS = [
    *_SAME, "get_state", "rand", "randint", "randn", "random", "random_sample", "seed", "set_state", "shuffle",
]  # fmt: skip

__all__ = [*_FUNCTIONS, "RandomState", "ranf", "sample"]

globals().update({name: _of_context(name) for name in _FUNCTIONS})

ranf = sample = globals()["random_sample"]
