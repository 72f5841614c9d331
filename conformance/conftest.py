"""Fixtures of the conformance suite. The options and profiles are in the root conftest, shared with ``tests/``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from conformance import mpi
from conformance.contexts import context


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "single_process(reason): cannot run under --mpi")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if (reason := mpi.SINGLE_PROCESS.get(getattr(item, "originalname", ""))) is not None:
            item.add_marker(pytest.mark.single_process(reason))
            if mpi.session() is not None:
                item.add_marker(pytest.mark.skip(reason=f"one process only: {reason}"))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Under ``--mpi``: what one rank finds in a test, all of them find."""
    if mpi.session() is None:
        return None
    mpi.run_item(pyfuncitem)
    return True


@pytest.fixture(scope="session")
def ctx() -> Callable[[int], Any]:
    """``ctx(n)``: the cached context with n devices, for ``with ctx(4):``."""
    return context


@pytest.fixture
def four() -> Any:
    """The test runs with four devices."""
    with context(4) as made:
        yield made
