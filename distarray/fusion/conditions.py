"""Floating-point conditions of work that is done at the call, many chunks and threads to one operation: each is warned of
once, from the caller's line, as NumPy warns of an operation on one array. Recorded operations have `notes` for it."""

from __future__ import annotations

from contextlib import nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray.sites import call_site, warn_at

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = ["WarningOnce"]


class WarningOnce:
    """A block in which each floating-point condition that NumPy would warn about does so once, when the block ends."""

    def __init__(self, context: Context, name: str) -> None:
        self.context = context
        self.name = name
        self.seen: dict[str, None] = {}
        errors: dict[str, Any] = dict(np.geterr())
        self.state: Any
        if context.kind != "host" or {"call", "log", "print"} & set(errors.values()):  # GPUs report no conditions
            self.state = nullcontext()
        else:
            errors = {kind: "call" if how == "warn" else how for kind, how in errors.items()}
            seen = self.seen  # and not `self`, which would hold itself until garbage is collected
            self.state = np.errstate(call=lambda condition, _: seen.setdefault(condition), **errors)

    def __enter__(self) -> None:
        self.state.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.state.__exit__(kind, value, trace)
        if kind is None and self.context.kind == "host" and (self.seen or self.context.communicator is not None):
            with self.context.guarding(self.name):  # a filter may make an exception of it
                for condition in self.seen:
                    warn_at(call_site(), f"{condition} encountered in {self.name}")
