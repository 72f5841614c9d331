"""Types of what NumPy's functions take, under one name each, for the signatures of public functions and methods."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from types import EllipsisType
from typing import IO, Any, Protocol, TypeAlias

import numpy.typing as npt

from distarray.context import Group
from distarray.geometry import IndexMap
from distarray.geometry.specs import Spec
from distarray.layout import Layout

__all__ = [
    "ArrayLike",
    "Arrays",
    "Axis",
    "DTypeLike",
    "DeviceLike",
    "Fields",
    "File",
    "Key",
    "LayoutLike",
    "Out",
    "Shape",
    "ShapeLike",
    "AnyArray",
    "Sliceable",
    "SupportsDLPack",
]


class AnyArray(Protocol):
    """An array of ours or of NumPy's, which can be written to."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def dtype(self) -> Any: ...
    def __setitem__(self, key: Any, value: Any, /) -> None: ...


class Sliceable(Protocol):
    """What gives its parts by slices: a zarr array, an HDF5 dataset, a Dask array."""

    @property
    def shape(self) -> Any: ...
    @property
    def dtype(self) -> Any: ...
    def __getitem__(self, key: Any, /) -> Any: ...


class SupportsDLPack(Protocol):
    """What hands its memory to other libraries."""

    def __dlpack__(self, *, stream: Any = None) -> Any: ...


ArrayLike: TypeAlias = npt.ArrayLike
"""What becomes an array: one of ours or NumPy's, nested sequences, scalars, any object with ``__array__``."""

Arrays: TypeAlias = Collection[ArrayLike]
"""Several arrays: a list or tuple of them, or an array along whose first axis they lie."""

Axis: TypeAlias = int | tuple[int, ...] | None
"""One axis, several, or all."""

DTypeLike: TypeAlias = npt.DTypeLike | None
"""What names a dtype; None for the default."""

DeviceLike: TypeAlias = Group | int | Sequence[int] | None
"""What ``device=`` takes: another array's device, the id of one, several ids; None for all devices."""

Fields: TypeAlias = str | Sequence[str] | None
"""What ``order=`` names in sorting: the fields of structured elements that are compared, one after the other."""

File: TypeAlias = str | os.PathLike[str] | IO[Any]
"""A file's name, or an open file."""

Key: TypeAlias = slice | EllipsisType | ArrayLike | tuple[Any, ...] | None
"""What stands in ``x[key]``: positions, slices, masks, index arrays, fields, or a tuple of the first four with new axes."""

LayoutLike: TypeAlias = Spec | IndexMap | Layout | Mapping[int, Any] | None
"""What ``layout=`` takes: a specification such as ``blocks(0)``, an index map, another array's layout."""

Out: TypeAlias = AnyArray | None
"""What ``out=`` takes; None for a new array."""

Shape: TypeAlias = tuple[int, ...]
"""What an array has."""

ShapeLike: TypeAlias = int | Sequence[int]
"""What names the shape of a new array."""
