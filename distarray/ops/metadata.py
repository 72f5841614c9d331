"""Functions of NumPy that shapes and dtypes answer: nothing is evaluated or moved."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from distarray.array.aliases import Axis
from distarray.array.functions import implements
from distarray.array.state import DistributedArray

__all__: list[str] = []


@implements(np.shape)
def _shape(a: DistributedArray) -> tuple[int, ...]:
    return a.shape


@implements(np.ndim)
def _ndim(a: DistributedArray) -> int:
    return a.ndim


@implements(np.size)
def _size(a: DistributedArray, axis: Axis = None) -> int:
    if axis is None:
        return a.size
    return math.prod(a.shape[i] for i in np.lib.array_utils.normalize_axis_tuple(axis, a.ndim))


@implements(np.iscomplexobj)
def _iscomplexobj(x: DistributedArray) -> bool:
    return bool(x.dtype.kind == "c")


@implements(np.isrealobj)
def _isrealobj(x: DistributedArray) -> bool:
    return bool(x.dtype.kind != "c")


@implements(np.min_scalar_type)
def _min_scalar_type(a: DistributedArray) -> Any:
    return np.min_scalar_type(a.get()) if a.ndim == 0 else a.dtype


@implements(np.common_type)
def _common_type(*arrays: Any) -> Any:
    return np.common_type(*[np.empty(0, a.dtype) if isinstance(a, DistributedArray) else a for a in arrays])
