"""Fixtures of the conformance suite. The options and profiles are in the root conftest, shared with ``tests/``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from conformance.contexts import context


@pytest.fixture(scope="session")
def ctx() -> Callable[[int], Any]:
    """``ctx(n)``: the cached context with n devices, for ``with ctx(4):``."""
    return context


@pytest.fixture
def four() -> Any:
    """The test runs with four devices."""
    with context(4) as made:
        yield made
