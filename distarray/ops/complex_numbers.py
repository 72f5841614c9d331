"""Parts of complex numbers: real, imaginary, conjugate, angle."""

from __future__ import annotations

import math
import warnings
from typing import Any, cast

import numpy as np

from distarray.array.functions import implements
from distarray.array.state import DistributedArray, from_chunks
from distarray.modes import Mode
from distarray.ops.convert import asarray
from distarray.ops.creation import zeros_like
from distarray.ops.recording import into
from distarray.storage import Operand
from distarray.transfer.execute import allocate, resolved_operand

__all__ = ["angle", "imag", "real"]


def _part(x: DistributedArray, name: str) -> DistributedArray:
    """A part of each chunk; partial sums keep their mode, for the part of a sum is the sum of the parts."""
    context, storage = x._context, x._own()
    with context.lock:
        keeps = storage.version.layout.mode is Mode.SUM
        source: Operand = resolved_operand(context, storage.version, x._view, name, partial_ok=keeps)
    dtype = np.empty(0, x.dtype).real.dtype
    chunks = allocate(context, source.layout, dtype, label=name)
    for chunk, array in zip(chunks, source.arrays, strict=True):
        if chunk is not None:
            with chunk.device.active():
                chunk.array[...] = getattr(array, name)
    part = from_chunks(context, source.layout, chunks, dtype)
    part._writable = False  # a write would be lost, where NumPy's reaches the complex array
    part._detached = x._detached
    return part


def set_part(x: DistributedArray, name: str, value: Any) -> None:
    """``x.real = value`` and ``x.imag = value``: one part is replaced, the other stays to the bit."""
    if not isinstance(value, DistributedArray):
        if isinstance(value, (int, float, complex, np.generic)):
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                setattr(np.zeros(1, x.dtype), name, value)  # from NumPy 2.5 on it refuses numbers that do not fit
        value = np.asarray(value)  # a Python number is not weak here
    if x.dtype.kind != "c":
        x[...] = value
        return
    x._operand(name)  # partial values are folded first: both parts are then where the array is
    parts = {"real": _part(x, "real"), "imag": _part(x, "imag")}
    parts[name]._writable = True
    parts[name][...] = value
    halves = {part: array._operand(name) for part, array in parts.items()}
    layout = halves[name].layout
    chunks = allocate(x._context, layout, x.dtype, label=name)
    for i, chunk in enumerate(chunks):
        if chunk is not None:
            with chunk.device.active():
                chunk.array.real[...] = halves["real"].arrays[i]
                chunk.array.imag[...] = halves["imag"].arrays[i]
    x[...] = from_chunks(x._context, layout, chunks, x.dtype)


@implements(np.real)
def real(val: Any) -> DistributedArray:
    """The real part: the array itself where it is real, else a read-only copy, where NumPy has a view.

    Parameters
    ----------
    val : array_like

    Returns
    -------
    DistributedArray

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.real(da.asarray([1 + 2j])).tolist()
    [1.0]
    """
    x = asarray(val)
    return _part(x, "real") if x.dtype.kind == "c" else x


@implements(np.imag)
def imag(val: Any) -> DistributedArray:
    """The imaginary part, a read-only copy, where NumPy has a view; zeros for real arrays.

    Parameters
    ----------
    val : array_like

    Returns
    -------
    DistributedArray

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.imag(da.asarray([1 + 2j])).tolist()
    [2.0]
    """
    x = asarray(val)
    if x.dtype.kind == "c":
        return _part(x, "imag")
    zeros = zeros_like(x)
    zeros._writable = False
    return zeros


def conj(x: DistributedArray, out: Any = None) -> Any:
    """The complex conjugate; recorded for complex arrays, the array itself for others.

    Parameters
    ----------
    x : DistributedArray
    out : DistributedArray or numpy.ndarray, optional
        Where to put the result.

    Returns
    -------
    DistributedArray

    Notes
    -----
    Communication: none.
    """
    if x.dtype.kind != "c":
        return x if out is None else into(x, out)
    return into(cast("DistributedArray", np.conjugate(x)), out)


@implements(np.angle)
def angle(z: Any, deg: bool = False) -> Any:
    """The angle of complex numbers in the plane, in radians or degrees.

    Parameters
    ----------
    z : array_like
    deg : bool
        In degrees.

    Returns
    -------
    DistributedArray

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.angle(da.asarray([1j, -1.0]), deg=True).tolist()
    [90.0, 180.0]
    """
    x = asarray(z)
    found = np.arctan2(imag(x), real(x)) if x.dtype.kind == "c" else np.arctan2(0, x)
    return found * (180 / math.pi) if deg else found
