"""The table of NumPy's functions that have an implementation here (NEP 18): a new one is one decorated definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["FUNCTIONS", "implements"]

F = TypeVar("F", bound=Callable[..., Any])

FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {}
"""NumPy function → implementation, for ``__array_function__``."""


def implements(*functions: Callable[..., Any]) -> Callable[[F], F]:
    """Register the decorated function as the implementation of NumPy functions."""

    def register(implementation: F) -> F:
        for function in functions:
            FUNCTIONS[function] = implementation
        return implementation

    return register
