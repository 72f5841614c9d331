"""Dtypes that can be distributed, and the text that names one to other processes."""

from __future__ import annotations

from typing import Any

import numpy as np

from distarray.errors import UnsupportedError


def check_dtype(dtype: Any) -> np.dtype[Any]:
    dtype = np.dtype(dtype)
    if dtype.kind not in "biufc" and dtype.name != "bfloat16":
        raise UnsupportedError(
            f"dtype {dtype} can't be distributed: use a bool, integer, floating or complex dtype, for instance with "
            f"np.asarray(x, dtype=float)"
        )
    return dtype  # type: ignore[no-any-return]


def dtype_name(dtype: Any) -> str:
    """The text that names a dtype to other processes, with its byte order; :func:`dtype_named` reads it."""
    dtype = np.dtype(dtype)
    return "bfloat16" if dtype.name == "bfloat16" else dtype.str  # ml_dtypes' types all say "<V" and their size


def dtype_named(name: str) -> np.dtype[Any]:
    """The dtype that another process named.

    Raises
    ------
    UnsupportedError
        This process has no ml_dtypes, which brings bfloat16.
    """
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
