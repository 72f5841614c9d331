"""Parts of complex numbers: real, imaginary, conjugate, angle."""

from __future__ import annotations

import math
from operator import attrgetter
from typing import Any, cast

import numpy as np

from distarray.array import parts
from distarray.array.functions import implements
from distarray.array.state import DistributedArray
from distarray.ops.convert import asarray
from distarray.ops.creation import zeros_like
from distarray.ops.recording import into
from distarray.storage import Part

__all__ = ["angle", "imag", "real"]


def _part(x: DistributedArray, name: str) -> DistributedArray:
    """The view of one part of complex numbers."""
    return parts.same_shape(x, attrgetter(name), np.empty(0, x.dtype).real.dtype, name)


def set_part(x: DistributedArray, name: str, value: Any) -> None:
    """``x.real = value`` and ``x.imag = value``: one part is replaced, the other stays to the bit."""
    part = _part(x, name) if x.dtype.kind == "c" else x
    if isinstance(value, DistributedArray) and _shows(value, part):
        return  # ``x.real += 1`` has been written
    part[...] = value if isinstance(value, DistributedArray) else np.asarray(value)  # a Python number is not weak here


def _shows(a: DistributedArray, b: DistributedArray) -> bool:
    """Whether both are the same part of the same elements."""
    one, two = a._storage, b._storage
    if not isinstance(one, Part) or not isinstance(two, Part) or one.parent is not two.parent or a._view != b._view:
        return False
    return len(one.steps) == len(two.steps) and all(map(_same_step, one.steps, two.steps))


def _same_step(one: Any, two: Any) -> bool:
    return one is two or (type(one) is type(two) and one.__reduce__() == two.__reduce__())


@implements(np.real)
def real(val: Any) -> DistributedArray:
    """The real part: the array itself where it is real, else a view of it. Communication: partial values are folded first."""
    x = asarray(val)
    return _part(x, "real") if x.dtype.kind == "c" else x


@implements(np.imag)
def imag(val: Any) -> DistributedArray:
    """The imaginary part, a view; read-only zeros for real arrays. Communication: partial values are folded first."""
    x = asarray(val)
    if x.dtype.kind == "c":
        return _part(x, "imag")
    zeros = zeros_like(x)
    zeros._writable = False
    return zeros


def conj(x: DistributedArray, out: Any = None) -> Any:
    """The complex conjugate; recorded for complex arrays, the array itself for others. Communication: none."""
    if x.dtype.kind != "c":
        return x if out is None else into(x, out)
    return into(cast("DistributedArray", np.conjugate(x)), out)


@implements(np.angle)
def angle(z: Any, deg: bool = False) -> Any:
    """The angle of complex numbers in the plane, in radians or degrees. Communication: none."""
    x = asarray(z)
    found = np.arctan2(imag(x), real(x)) if x.dtype.kind == "c" else np.arctan2(0, x)
    return found * (180 / math.pi) if deg else found
