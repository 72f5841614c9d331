"""The two deadlines, in one place: every wait in distarray ends by one of them unless the caller names another.

Bootstrap (processes find each other, 60 s) and collective (an operation between processes, 120 s) differ because the
first includes the launcher's start of the slowest process, and the second the longest local work between two operations.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping

from distarray.errors import CommunicationError

__all__ = ["BOOTSTRAP", "COLLECTIVE", "bootstrap_timeout", "collective_timeout", "left", "seconds"]

#: Environment variable and default of each deadline.
BOOTSTRAP = ("DISTARRAY_BOOTSTRAP_TIMEOUT", 60.0)
COLLECTIVE = ("DISTARRAY_TIMEOUT", 120.0)


def bootstrap_timeout(environ: Mapping[str, str] | None = None) -> float:
    """Seconds that processes have to find each other: DISTARRAY_BOOTSTRAP_TIMEOUT, by default 60."""
    return _from(os.environ if environ is None else environ, *BOOTSTRAP)


def collective_timeout(environ: Mapping[str, str] | None = None) -> float:
    """Seconds that an operation between processes may wait: DISTARRAY_TIMEOUT, by default 120."""
    return _from(os.environ if environ is None else environ, *COLLECTIVE)


def seconds(value: float, name: str = "deadline") -> float:
    """A deadline given by a caller, as a positive, finite number of seconds.

    Raises
    ------
    CommunicationError
        For anything else: a wait without an end is not offered.
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 < number < math.inf:
        raise CommunicationError(
            f"{name}={value!r}, but a deadline is a positive, finite number of seconds; pass such as 60"
        )
    return number


def left(due: float) -> float:
    """Seconds until a moment of ``time.monotonic()``, at least 0."""
    return max(0.0, due - time.monotonic())


def _from(environ: Mapping[str, str], variable: str, default: float) -> float:
    text = environ.get(variable, "").strip()
    if not text:
        return default
    try:
        return seconds(float(text), variable)
    except (ValueError, CommunicationError):
        raise CommunicationError(
            f"{variable}={text!r}, but a deadline is a positive, finite number of seconds; "
            f"set it to such as {default:g}, or unset it for that default"
        ) from None
