"""NumPy's older calls (``seed``, ``rand``, ``randint``, ...), on one generator a context."""

from __future__ import annotations

import inspect
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from distarray.array.documented import described_as
from distarray.context import Context, current
from distarray.random.generator import _DRAWS, Generator, default_rng

_generators: WeakKeyDictionary[Context, Generator] = WeakKeyDictionary()

_SAME = [name for name in (*_DRAWS, "bytes", "choice", "permutation", "shuffle") if name not in ("integers", "random")]

__all__ = [*_SAME, "rand", "randint", "randn", "random", "random_sample", "ranf", "sample", "seed"]


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
        Default: a fresh seed, which the processes agree on.

    Notes
    -----
    Communication: without a seed, in several processes, one small round.
    """
    _generators[current()] = default_rng(seed)


def random_sample(size: Any = None, *, layout: Any = None, device: Any = None) -> Any:
    """Uniform numbers in [0, 1).

    Parameters
    ----------
    size : int or tuple of int, optional
        The shape. Default: one number.
    layout : specification, dict, IndexMap or Layout, optional
        Default: blocks of rows; small arrays are replicated.
    device : Group, int or list of int, optional
        The devices to use. Default: all of the current context.

    Returns
    -------
    DistributedArray

    Notes
    -----
    Communication: see :class:`Generator`.
    """
    return _own().random(size, layout=layout, device=device)  # type: ignore[attr-defined]


random = ranf = sample = random_sample


@described_as(random_sample)
def rand(*shape: int, layout: Any = None, device: Any = None) -> Any:
    """Uniform numbers in [0, 1), of the shape that the arguments are.

    Parameters
    ----------
    *shape : int
        Lengths of the axes. Default: one number.

    Notes
    -----
    Communication: see :class:`Generator`.
    """
    return random_sample(shape or None, layout=layout, device=device)


@described_as(rand)
def randn(*shape: int, layout: Any = None, device: Any = None) -> Any:
    """Standard normal numbers, of the shape that the arguments are.

    Notes
    -----
    Communication: see :class:`Generator`.
    """
    return _own().standard_normal(shape or None, layout=layout, device=device)  # type: ignore[attr-defined]


@described_as(random_sample)
def randint(
    low: Any, high: Any = None, size: Any = None, dtype: Any = int, *, layout: Any = None, device: Any = None
) -> Any:
    """Integers from `low` to `high`, which is excluded.

    Parameters
    ----------
    low : int or array_like
        The least; without `high` it is 0, and this is the bound.
    high : int or array_like, optional
        The bound.
    dtype : dtype
        Of the result.

    Raises
    ------
    ValueError
        There is no integer between the bounds.

    Notes
    -----
    Communication: see :class:`Generator`.
    """
    return _own().integers(low, high, size, np.dtype(dtype), layout=layout, device=device)  # type: ignore[attr-defined]


def _forward(name: str) -> Any:
    """The method of the context's generator as a function."""
    method = getattr(Generator, name)

    def function(*args: Any, **kwargs: Any) -> Any:
        return method(_own(), *args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = method.__doc__
    function.__wrapped__ = method  # type: ignore[attr-defined]
    signature = inspect.signature(method)
    function.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])  # type: ignore[attr-defined]
    return function


globals().update({name: _forward(name) for name in _SAME})
