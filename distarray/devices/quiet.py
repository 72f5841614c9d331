"""NumPy called in silence: floating-point conditions are noted for the caller, who then decides what they mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Context as Variables
from functools import partial
from typing import Any

import numpy as np
from numpy._core import umath

__all__ = ["Quiet", "error_states"]

_VARIABLE: Any = getattr(umath, "_extobj_contextvar", None)
"""The context variable that NumPy keeps the error state in; None of a version that has it elsewhere."""

_seen: tuple[object, dict[str, Any]] = (None, {})
"""The error state that was asked for last, and what it says."""


def error_states() -> dict[str, Any]:
    """``np.geterr()``, read once of each state that the program sets: small calls ask many times. Nobody writes to it."""
    global _seen
    if _VARIABLE is None:
        return dict(np.geterr())
    state = _VARIABLE.get()
    known, states = _seen
    if known is not state:  # held there, so that no other state comes to its address
        states = dict(np.geterr())
        _seen = state, states
    return states


class Quiet:
    """Calls NumPy so that floating-point conditions are noted, whatever ``np.errstate`` the caller is in.

    The error state of NumPy is a context variable: each call runs in a context of its own that was prepared once, which
    costs nothing beside an ``errstate`` block. A context is entered by one thread at a time.
    """

    __slots__ = ("spare",)

    def __init__(self) -> None:
        self.spare: list[tuple[Any, list[tuple[str, int]]]] = []

    def take(self) -> tuple[Any, list[tuple[str, int]]]:
        """What runs a function in a prepared context, and where its conditions are noted; for `spare` afterwards."""
        try:
            return self.spare.pop()
        except IndexError:
            return self._runner()

    def __call__(
        self, function: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> tuple[Any, Sequence[tuple[str, int]]]:
        """What the function returns, and the conditions that were met, in NumPy's order."""
        runner = self.take()
        run, notes = runner
        met: Sequence[tuple[str, int]] = ()
        try:
            result = run(function, *args, **kwargs)
        finally:
            if notes:
                met = tuple(notes)
                notes.clear()
            self.spare.append(runner)
        return result, met

    @staticmethod
    def _runner() -> tuple[Any, list[tuple[str, int]]]:
        notes: list[tuple[str, int]] = []
        variables = Variables()
        variables.run(np.seterrcall, lambda condition, flag: notes.append((condition, flag)))
        variables.run(partial(np.seterr, all="call"))
        return variables.run, notes
