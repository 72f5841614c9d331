"""The table of NumPy's functions that have an implementation here (NEP 18): a new one is one decorated definition."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar, SupportsIndex, TypeVar, cast

import numpy as np

__all__ = ["FUNCTIONS", "NOTHING", "SHORT", "TOLD", "ShortWay", "given", "implements"]

F = TypeVar("F", bound=Callable[..., Any])

NOTHING: Any = np._NoValue
"""What NumPy passes for an argument that was not given."""

FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {}
"""NumPy function → implementation, for ``__array_function__``."""


SHORT: dict[Callable[..., Any], tuple[int, str]] = {
    **dict.fromkeys(
        (np.sum, np.prod, np.max, np.amax, np.min, np.amin, np.any, np.all, np.ptp, np.argmax, np.argmin,
         np.cumsum, np.cumprod, np.round, np.trace, np.triu, np.tril, np.linalg.norm), (1, "")
    ),
    **dict.fromkeys((np.mean, np.var, np.std), (1, "enough")),
    **dict.fromkeys((np.where, np.clip), (3, "broadcast")),
    **dict.fromkeys((np.matmul, np.dot, np.vdot, np.inner), (2, "product")),
    np.outer: (2, "outer"),
    **dict.fromkeys((np.concatenate, np.stack, np.vstack, np.hstack, np.column_stack, np.dstack), (1, "")),
    np.append: (2, ""),
    np.roll: (1, ""),
    np.searchsorted: (2, "sorted"),
    np.take: (2, "take"),
    np.repeat: (1, "repeat"),
    np.tile: (1, "repeat"),
    np.diag: (1, "line"),
    np.bincount: (1, "bins"),
    np.delete: (1, "at"),
    np.insert: (1, "at"),
    np.count_nonzero: (1, ""),
    **dict.fromkeys((np.nonzero, np.flatnonzero, np.argwhere), (1, "axes")),
}  # fmt: skip
"""Functions that NumPy itself computes where the operands are small and whole: how many of the first arguments are arrays, and
the rule that bounds the result (``array/short.py``). They give new arrays, and what they give of whole arrays is what they give
here."""

TOLD = frozenset({np.take, np.nonzero, np.flatnonzero, np.argwhere, np.where, np.searchsorted, np.bincount})
"""Those of them that fetch counts or indices in the general way: where that is counted, they go it."""


class ShortWay:
    """Where the short way of calls begins: ``array/whole.py``, which stands above this file, opens it."""

    call: ClassVar[Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]]


def _with_short_way(function: Callable[..., Any], implementation: F) -> F:
    @wraps(implementation)
    def opened(*args: Any, **kwargs: Any) -> Any:
        ready = ShortWay.call(function, args, kwargs)
        return implementation(*args, **kwargs) if ready is NotImplemented else ready

    return cast("F", opened)


def implements(*functions: Callable[..., Any]) -> Callable[[F], F]:
    """Register the decorated function as the implementation of NumPy functions."""

    def register(implementation: F) -> F:
        if functions[0] in SHORT:
            implementation = _with_short_way(functions[0], implementation)
        for function in functions:
            FUNCTIONS[function] = implementation
        return implementation

    return register


def given(value: object, default: object) -> Any:
    """An argument, or its default where it was not given."""
    return default if value is NOTHING else value


def keeps_axes(keepdims: SupportsIndex) -> bool:
    """Whether a reduction keeps its axes: an integer, as NumPy's reductions take it."""
    return keepdims is not NOTHING and bool(operator.index(keepdims))
