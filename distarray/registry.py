"""The table in which ``ops/`` registers functions and the array's protocols look them up.

It exists so that the array does not import the functions, and a new function is one decorated definition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["FUNCTIONS", "METHODS", "implements", "method"]

F = TypeVar("F", bound=Callable[..., Any])

FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {}
"""NumPy function → implementation, for ``__array_function__``."""

METHODS: dict[str, Callable[..., Any]] = {}
"""Name → implementation, for what the array itself delegates: its methods, and the methods of ufuncs (``ufunc.reduce``)."""


def implements(*functions: Callable[..., Any]) -> Callable[[F], F]:
    """Register the decorated function as the implementation of NumPy functions."""

    def register(implementation: F) -> F:
        for function in functions:
            FUNCTIONS[function] = implementation
        return implementation

    return register


def method(*names: str) -> Callable[[F], F]:
    """Register the decorated function under names that the array delegates to."""

    def register(implementation: F) -> F:
        for name in names:
            METHODS[name] = implementation
        return implementation

    return register
