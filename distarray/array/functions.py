"""The table of NumPy's functions that have an implementation here (NEP 18): a new one is one decorated definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

__all__ = ["FUNCTIONS", "NOTHING", "given", "implements"]

F = TypeVar("F", bound=Callable[..., Any])

NOTHING: Any = np._NoValue
"""What NumPy passes for an argument that was not given."""

FUNCTIONS: dict[Callable[..., Any], Callable[..., Any]] = {}
"""NumPy function → implementation, for ``__array_function__``."""


def implements(*functions: Callable[..., Any]) -> Callable[[F], F]:
    """Register the decorated function as the implementation of NumPy functions."""

    def register(implementation: F) -> F:
        for function in functions:
            FUNCTIONS[function] = implementation
        return implementation

    return register


def given(value: Any, default: Any) -> Any:
    """An argument, or its default where it was not given."""
    return default if value is NOTHING else value
