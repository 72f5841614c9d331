"""Fixtures of the unit tests. The options and profiles are in the root conftest, shared with ``conformance/``."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest


@cache
def _context(n: int) -> Any:
    import distarray as da

    return da.init(devices=n, kind=os.environ.get("DISTARRAY_TEST_KIND", "host"))


@pytest.fixture(scope="session")
def ctx() -> Callable[[int], Any]:
    """``ctx(n)``: the cached context with n devices of the kind under test, for ``with ctx(4):``."""
    return _context


@pytest.fixture
def four() -> Any:
    """The test runs with four devices."""
    with _context(4) as made:
        yield made


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the source tree."""
    return Path(__file__).resolve().parents[1]
