"""NumPy's older calls (``seed``, ``rand``, ``randint``, ...), on one generator a context."""

from __future__ import annotations

import inspect
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from distarray.array.aliases import ArrayLike, DTypeLike
from distarray.array.documented import described_as
from distarray.context import Context
from distarray.current import current
from distarray.random.generator import _DRAWS, Generator, default_rng

_generators: WeakKeyDictionary[Context, Generator] = WeakKeyDictionary()
"""One generator a context, gone with it: contexts lie below the generators and cannot hold them by type."""

_SAME = [name for name in (*_DRAWS, "bytes", "choice", "permutation") if name not in ("integers", "random")]

__all__ = [*_SAME, "rand", "randint", "randn", "random", "random_sample", "ranf", "sample", "seed", "shuffle"]


def _own() -> Generator:
    """The generator of the current context; one with a fresh seed at first."""
    context = current()
    if context not in _generators:
        _generators[context] = default_rng()
    return _generators[context]


def seed(seed: Any = None) -> None:
    """Begin the sequence of these calls anew in the current context.

    Parameters
    ----------
    seed : int, sequence of int, SeedSequence, BitGenerator or Generator, optional
        As for :func:`default_rng`.

    Notes
    -----
    Communication: as for :func:`default_rng`.
    """
    _generators[current()] = default_rng(seed)


def random_sample(size: Any = None, *, layout: Any = None, device: Any = None) -> Any:
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
    return _own().random(size, layout=layout, device=device)  # type: ignore[attr-defined]


random = ranf = sample = random_sample


def rand(*shape: int, layout: Any = None, device: Any = None) -> Any:
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
    return random_sample(shape or None, layout=layout, device=device)


def randn(*shape: int, layout: Any = None, device: Any = None) -> Any:
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
    return _own().standard_normal(shape or None, layout=layout, device=device)  # type: ignore[attr-defined]


def randint(
    low: Any, high: Any = None, size: Any = None, dtype: DTypeLike = int, *, layout: Any = None, device: Any = None
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
    return _own().integers(low, high, size, np.dtype(dtype), layout=layout, device=device)  # type: ignore[attr-defined]


@described_as(Generator.shuffle)
def shuffle(x: ArrayLike, axis: int = 0) -> None:
    """Bring the slices of an array along an axis into random order, in place; the slices stay whole."""
    _own().shuffle(x, axis)


def _forward(name: str) -> Any:
    """The method of the context's generator as a function."""
    method = getattr(Generator, name)

    def function(*args: Any, **kwargs: Any) -> Any:
        return method(_own(), *args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = method.__doc__
    signature = inspect.signature(method)
    function.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])  # type: ignore[attr-defined]
    return function


globals().update({name: _forward(name) for name in _SAME})
