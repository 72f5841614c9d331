"""Types of what NumPy's functions take, under one name each, for the signatures of public functions and methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy.typing as npt

from distarray.geometry import IndexMap
from distarray.geometry.specs import Spec
from distarray.layout import Layout

__all__ = ["ArrayLike", "Axis", "DTypeLike", "LayoutLike", "Shape", "ShapeLike"]

ArrayLike: TypeAlias = npt.ArrayLike
"""What becomes an array: one of ours or NumPy's, nested sequences, scalars, any object with ``__array__``."""

Axis: TypeAlias = int | tuple[int, ...] | None
"""One axis, several, or all."""

DTypeLike: TypeAlias = npt.DTypeLike | None
"""What names a dtype; None for the default."""

LayoutLike: TypeAlias = Spec | IndexMap | Layout | Mapping[int, Any] | None
"""What ``layout=`` takes: a specification such as ``blocks(0)``, an index map, another array's layout."""

Shape: TypeAlias = tuple[int, ...]
"""What an array has."""

ShapeLike: TypeAlias = int | Sequence[int]
"""What names the shape of a new array."""
