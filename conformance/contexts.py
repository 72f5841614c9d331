"""The contexts that the conformance tests run in: one for each number of devices, made at first use and then kept."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from hypothesis import settings

import distarray as da
from conformance import mpi


def device_numbers() -> list[int]:
    """The numbers of devices asked for by ``--devices``; under ``--mpi`` those that give each process one at least."""
    asked = [int(n) for n in os.environ.get("DISTARRAY_TEST_DEVICES", "1,2,3,4,7").split(",")]
    session = mpi.session()
    return asked if session is None else [n for n in asked if n >= session.size] or [session.size]


def kind() -> str:
    """The kind of devices asked for by ``--kind``."""
    return os.environ.get("DISTARRAY_TEST_KIND", "host")


LEAST = [1]
"""The last is the ``minimum_chunk`` of contexts: 1, so that small arrays are cut too."""


@contextmanager
def whole() -> Iterator[None]:
    """In the block, `context` gives those in which small arrays are whole, as users have them."""
    LEAST.append(1 << 16)
    try:
        yield
    finally:
        LEAST.pop()


def context(n: int) -> Any:
    """The context with n devices; ``with context(n):`` makes it the current one inside the block."""
    return _context(n, LEAST[-1])


@cache
def _context(n: int, least: int) -> Any:
    """The one context of n devices that cuts arrays into parts of at least so many elements.

    Under ``--mpi`` the devices are shared out unevenly among the processes, and there is one for each process at least.
    """
    session = mpi.session()
    if session is None:
        return da.init(devices=n, kind=kind(), minimum_chunk=least)
    return session.context(session.shares(n), least)


def examples(factor: float) -> settings:
    """The active profile with its number of examples multiplied: more for a test that draws from a table."""
    return settings(max_examples=max(1, int(settings.default.max_examples * factor)))


@contextmanager
def spread(c: Any, panel: int, whole: int = 1) -> Iterator[None]:
    """In a context, matrices with more rows than `whole` are factorized by all devices, `panel` columns at a time."""
    c.WHOLE, c.PANEL = whole, panel
    try:
        yield
    finally:
        del c.WHOLE, c.PANEL
