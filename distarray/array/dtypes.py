"""Dtypes that can be distributed, and the text that names one to other processes."""

from __future__ import annotations

from ast import literal_eval
from typing import Any

import numpy as np

from distarray.array.aliases import DTypeLike
from distarray.errors import UnsupportedError


def check_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """The dtype, if its elements can be distributed: numbers, dates and times, and structures of these.

    Raises
    ------
    UnsupportedError
        Text and Python objects can't, on their own or as fields. A TypeError.
    """
    dtype = np.dtype(dtype)
    if dtype.kind not in "biufcmM" and dtype.name != "bfloat16" and not _is_structure(dtype):
        raise UnsupportedError(
            f"dtype {dtype} can't be distributed: {_WHY.get(dtype.kind, 'its elements are no numbers')}; use a bool, integer, "
            f"floating, complex, datetime64 or timedelta64 dtype or a structure of these, for instance with "
            f"np.asarray(x, dtype=float)"
        )
    return dtype


_WHY = {
    "O": "Python objects live in one process",
    "U": "text has no arithmetic that devices share",
    "S": "text has no arithmetic that devices share",
    "T": "text of any length lies outside the array's memory",
}


def loop_dtype(dtype: np.dtype[Any] | None) -> Any:
    """What a ufunc takes as ``dtype=`` for results of `dtype`: of times the class alone, since the unit follows from operands."""
    return dtype.type if dtype is not None and dtype.kind in "mM" else dtype


def filler(dtype: np.dtype[Any], value: int) -> Any:
    """0 or 1 as a scalar of a dtype, of times and structures too."""
    return np.full(1, value, dtype)[0] if dtype.kind in "mMV" else dtype.type(value)


def _is_structure(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype has fields, all of which can be distributed."""
    if dtype.names is None:
        return False
    fields: Any = dtype.fields
    kinds = [fields[name][0].base for name in dtype.names]
    return all(kind.kind in "biufcmM" or kind.name == "bfloat16" or _is_structure(kind) for kind in kinds)


def dtype_name(dtype: DTypeLike) -> str:
    """The text that names a dtype to other processes, with its byte order; :func:`dtype_named` reads it."""
    dtype = np.dtype(dtype)
    if dtype.names is not None:
        return repr(np.lib.format.dtype_to_descr(dtype))
    return "bfloat16" if dtype.name == "bfloat16" else dtype.str  # ml_dtypes' types all say "<V" and their size


def dtype_named(name: str) -> np.dtype[Any]:
    """The dtype that another process named.

    Raises
    ------
    UnsupportedError
        This process has no ml_dtypes, which brings bfloat16.
    """
    if name.startswith(("[", "(", "{")):
        named: np.dtype[Any] = np.lib.format.descr_to_dtype(literal_eval(name))
        return named
    if name != "bfloat16":
        return np.dtype(name)
    try:
        import ml_dtypes  # NumPy knows the name only from here on
    except ImportError:
        raise UnsupportedError(
            "another process has bfloat16 data, and this one has no ml_dtypes to read them: pip install ml_dtypes"
        ) from None
    dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return dtype
