"""The contexts that the conformance tests run in: one for each number of devices, made at first use and then kept."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from hypothesis import settings

import distarray as da


def device_numbers() -> list[int]:
    """The numbers of devices asked for by ``--devices``."""
    return [int(n) for n in os.environ.get("DISTARRAY_TEST_DEVICES", "1,2,3,4,7").split(",")]


def kind() -> str:
    """The kind of devices asked for by ``--kind``."""
    return os.environ.get("DISTARRAY_TEST_KIND", "host")


@cache
def context(n: int) -> Any:
    """The context with n devices; ``with context(n):`` makes it the current one inside the block."""
    return da.init(devices=n, kind=kind())


def examples(factor: float) -> settings:
    """The active profile with its number of examples multiplied: more for a test that draws from a table."""
    return settings(max_examples=max(1, int(settings.default.max_examples * factor)))
