"""What NumPy's classes of series are given to be called with distributed points, which stay where they are."""

from __future__ import annotations

from typing import Any

from distarray.array.state import DistributedArray

__all__ = ["Called"]


class Called:
    """Given to NumPy's classes: the values at distributed points are recorded."""

    domain: Any
    window: Any
    coef: Any

    def __call__(self, arg: object) -> Any:
        """The values of the series at points: recorded and evaluated in one pass; nothing moves."""
        if not isinstance(arg, DistributedArray):
            return super().__call__(arg)  # type: ignore[misc]
        offset, scale = self.mapparms()  # type: ignore[attr-defined]
        return self._val(offset + scale * arg, self.coef)  # type: ignore[attr-defined]
