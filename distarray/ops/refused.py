"""NumPy's functions that mean nothing for distributed arrays of numbers, each with the reason that its TypeError says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib import recfunctions

from distarray.array.functions import FUNCTIONS
from distarray.errors import UnsupportedError

__all__ = ["REFUSED"]

_DATES = "it counts the days of a calendar, which is one host's"
_TEXT = "it writes dates as text, which distributed arrays do not hold"
_FIELDS = "it builds other structures of host arrays; distributed arrays give their fields by x['f']"

_FIELD_FUNCTIONS = (
    "append_fields", "apply_along_fields", "assign_fields_by_name", "drop_fields", "find_duplicates", "join_by", "merge_arrays",
    "rec_append_fields", "rec_drop_fields", "rec_join", "recursive_fill_fields", "rename_fields", "repack_fields",
    "require_fields", "stack_arrays", "structured_to_unstructured", "unstructured_to_structured",
)  # fmt: skip

REFUSED: dict[Callable[..., Any], str] = {
    np.busday_count: _DATES,
    np.busday_offset: _DATES,
    np.is_busday: _DATES,
    np.datetime_as_string: _TEXT,
    **{getattr(recfunctions, name): _FIELDS for name in _FIELD_FUNCTIONS},
}
"""NumPy function → why it is refused."""


def _refusal(function: Callable[..., Any], reason: str) -> Callable[..., Any]:
    name = f"{function.__module__}.{function.__name__}"

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise UnsupportedError(f"{name} has no meaning for distributed arrays: {reason}. Call it on x.get()")

    return refuse


FUNCTIONS.update({function: _refusal(function, reason) for function, reason in REFUSED.items()})
