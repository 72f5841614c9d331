"""Lines of the caller's program: where a call came from, and warnings that are given there, as the line itself would give them."""

from __future__ import annotations

import sys
import warnings
from typing import Any

__all__ = ["Site", "call_site", "warn_at"]

Site = tuple[str, int, dict[str, Any]]
"""A line of the caller's program: file name, line number, and the globals that it sees."""


def warn_at(site: Site, text: str, category: type[Warning] = RuntimeWarning) -> None:
    """Give a warning as if the line itself had: with its module, and in that module's registry."""
    file, line, names = site
    module = names.get("__name__")
    if not isinstance(module, str):  # code in exec may have none: Python itself says "<string>" then
        module = "<string>"
    registry = names.setdefault("__warningregistry__", {})
    warnings.warn_explicit(text, category, file, line, module=module, registry=registry)


_INSIDE = ("distarray.", "numpy.")


def call_site() -> Site:
    """File, line and globals of the first frame outside the package and NumPy."""
    frame = sys._getframe(2)
    while str(frame.f_globals.get("__name__")).startswith(_INSIDE) and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno, frame.f_globals
