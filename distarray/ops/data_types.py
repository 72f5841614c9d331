"""What the array API standard calls inspection and data type functions, its constants and its dtypes."""

from __future__ import annotations

import math
import sys
from functools import lru_cache
from types import ModuleType
from typing import Any, NamedTuple, cast

import numpy as np
from numpy import (
    bool,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

from distarray.array.aliases import ArrayLike, DeviceLike, DTypeLike
from distarray.array.functions import implements
from distarray.array.state import DistributedArray
from distarray.current import current

__all__ = [
    "Info", "__array_api_version__", "__array_namespace_info__", "bool", "can_cast", "complex128", "complex64", "e", "finfo",
    "float16", "float32", "float64", "iinfo", "inf", "int16", "int32", "int64", "int8", "isdtype", "nan", "newaxis", "pi",
    "result_type", "uint16", "uint32", "uint64", "uint8",
]  # fmt: skip

__array_api_version__ = "2025.12"

_DTYPES = {
    "bool": np.dtype("bool"),
    **{f"int{n}": np.dtype(f"int{n}") for n in (8, 16, 32, 64)},
    **{f"uint{n}": np.dtype(f"uint{n}") for n in (8, 16, 32, 64)},
    **{f"float{n}": np.dtype(f"float{n}") for n in (32, 64)},
    **{f"complex{n}": np.dtype(f"complex{n}") for n in (64, 128)},
}
e = math.e
inf, nan, pi, newaxis = float("inf"), float("nan"), float(np.pi), None


class _FInfo(NamedTuple):
    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(np.finfo(self.dtype), name)  # NumPy's object has more attributes than the standard's


class _IInfo(NamedTuple):
    bits: int
    max: int
    min: int
    dtype: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(np.iinfo(self.dtype), name)


def _dtype_of(kind: Any) -> np.dtype[Any]:
    found: np.dtype[Any] = np.dtype(kind.dtype if isinstance(kind, (DistributedArray, np.ndarray)) else kind)
    return found


@lru_cache
def _finfo(dtype: np.dtype[Any]) -> _FInfo:
    info = np.finfo(dtype)
    real = np.zeros(0, dtype).real.dtype
    values = (float(info.eps), float(info.max), float(info.min), float(info.smallest_normal))
    return _FInfo(int(info.bits), *values, real)


def finfo(type: DTypeLike | ArrayLike, /) -> _FInfo:
    """Limits of a floating-point dtype, as Python floats.

    Parameters
    ----------
    type : dtype or array_like

    Returns
    -------
    object
        With the attributes `bits`, `eps`, `max`, `min`, `smallest_normal` and `dtype`, and NumPy's others.

    Raises
    ------
    ValueError
        The dtype is none of floating-point numbers.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.finfo(da.float32).bits
    32
    """
    return _finfo(_dtype_of(type))


def iinfo(type: DTypeLike | ArrayLike, /) -> _IInfo:
    """Limits of an integer dtype, as Python ints.

    Parameters
    ----------
    type : dtype or array_like

    Returns
    -------
    object
        With the attributes `bits`, `max`, `min` and `dtype`, and NumPy's others.

    Raises
    ------
    ValueError
        The dtype is none of integers.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.iinfo(da.int8).max
    127
    """
    info = np.iinfo(_dtype_of(type))
    return _IInfo(int(info.bits), int(info.max), int(info.min), info.dtype)


def isdtype(dtype: DTypeLike, kind: DTypeLike | tuple[DTypeLike, ...]) -> Any:
    """Whether a dtype is of a kind, such as ``"integral"`` or ``"real floating"``.

    Parameters
    ----------
    dtype : dtype
    kind : dtype, str, or tuple of them
        A name of the standard's, such as ``"integral"``.

    Returns
    -------
    bool

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.isdtype(da.float32, "real floating")
    True
    """
    return np.isdtype(cast("Any", dtype), cast("Any", kind))


@implements(np.result_type)
def result_type(*arrays_and_dtypes: ArrayLike | DTypeLike) -> np.dtype[Any]:
    """The dtype that NumPy's promotion gives.

    Arrays count with their dtype; their values are not read.

    Parameters
    ----------
    *arrays_and_dtypes : array_like or dtype

    Returns
    -------
    numpy.dtype

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.result_type(da.arange(3), da.float32)
    dtype('float64')
    """
    return np.result_type(*[a.dtype if isinstance(a, DistributedArray) else a for a in arrays_and_dtypes])


@implements(np.can_cast)
def can_cast(from_: ArrayLike | DTypeLike, to: DTypeLike, casting: str = "safe") -> Any:
    """Whether a cast is allowed by a rule.

    Parameters
    ----------
    from_ : dtype or array_like
        An array counts with its dtype.
    to : dtype
    casting : {"no", "equiv", "safe", "same_kind", "unsafe"}
        The rule.

    Returns
    -------
    bool

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.can_cast(da.arange(3), da.float32, "same_kind")
    True
    """
    source: Any = from_.dtype if isinstance(from_, DistributedArray) else from_
    return np.can_cast(source, cast("Any", to), cast("Any", casting))


class Info:
    """The namespace's inspection object, ``__array_namespace_info__()``."""

    def capabilities(self) -> dict[str, Any]:
        """What optional parts of the standard are there.

        Returns
        -------
        dict
            Names of the standard's, and whether or how far they hold.
        """
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Any:
        """The group of all devices of the current context.

        Returns
        -------
        Group
        """
        return current().group

    def default_dtypes(self, *, device: DeviceLike = None) -> dict[str, Any]:
        """The dtypes of results that nothing else decides.

        Parameters
        ----------
        device : Group, optional
            Has no effect: all devices have the same.

        Returns
        -------
        dict of str to numpy.dtype
            By kind.
        """
        kinds = {"real floating": float64, "complex floating": complex128, "integral": int64, "indexing": int64}
        return {kind: np.dtype(type) for kind, type in kinds.items()}

    def devices(self) -> tuple[Any, ...]:
        """The group that arrays live on by default; and each device alone, where there are several.

        Returns
        -------
        tuple of Group
        """
        group = current().group
        alone = [group.context.subgroup((i,)) for i in group.ids] if len(group) > 1 else []
        return (group, *alone)

    def dtypes(self, *, device: DeviceLike = None, kind: str | None = None) -> dict[str, Any]:
        """The standard's dtypes, of one kind or of a tuple of kinds.

        Parameters
        ----------
        device : Group, optional
            Has no effect: all devices have the same.
        kind : str or tuple of str, optional
            Default: all.

        Returns
        -------
        dict of str to numpy.dtype
            By name.
        """
        if kind is None:
            return dict(_DTYPES)
        return {name: dtype for name, dtype in _DTYPES.items() if np.isdtype(dtype, kind)}


def __array_namespace_info__() -> Info:
    """The inspection object of the array API standard.

    Returns
    -------
    Info
    """
    return Info()


def namespace(api_version: str | None) -> ModuleType:
    """The module that is this array's namespace."""
    known = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
    if api_version is not None and api_version not in known:
        raise ValueError(f"array API version {api_version!r} is not known: pass None or one of {', '.join(known)}")
    return sys.modules["distarray"]
