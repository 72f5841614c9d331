"""Shapes that broadcast, which objects are operands as they stand, and which take an array's value on the host."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from distarray.array.aliases import ArrayLike, Out
from distarray.errors import read_only

PYTHON_SCALARS = (bool, int, float, complex)


def memory_order(order: object, among: str = "CFAK", default: str = "C") -> str:
    """The letter of a memory order, whatever NumPy takes for one; `default` of None.

    Raises
    ------
    TypeError
        It is no str.
    ValueError
        None of the letters `among` is meant.
    """
    if order == "C" or order == "K" == among[-1]:
        return order
    if order is None:
        return default
    if isinstance(order, bytes):
        order = order.decode("latin1")
    if not isinstance(order, str):
        raise TypeError(f"order must be str, not {type(order).__name__}: pass one of {', '.join(map(repr, among))}")
    letter = order.upper()
    if len(letter) != 1 or letter not in among:
        raise ValueError(f"order must be one of {', '.join(map(repr, among))} (got {order!r})")
    return letter


def broadcast_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that `shapes` broadcast to, with NumPy's error."""
    first = shapes[0]
    if all(s == first for s in shapes[1:]):
        return first
    try:
        return _broadcast(shapes)
    except ValueError:
        listed = " ".join(str(s).replace(" ", "") for s in shapes)
        raise ValueError(f"operands could not be broadcast together with shapes {listed}") from None


@lru_cache(maxsize=1024)
def _broadcast(shapes: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    return np.broadcast_shapes(*shapes)


def own_protocol(kind: type) -> bool:
    """Whether a subclass of NumPy's array (with units, say) has NumPy ask it before anything is computed."""
    return issubclass(kind, np.ndarray) and (
        kind.__array_ufunc__ is not np.ndarray.__array_ufunc__
        or kind.__array_function__ is not np.ndarray.__array_function__
    )


def as_mask(where: ArrayLike) -> Any:
    """What ``where=`` means: arrays of bool as they are, all else (numbers, None, nested lists) by its truth values.

    Raises
    ------
    TypeError
        An array of another dtype.
    """
    if isinstance(where, np.generic) or not hasattr(where, "dtype"):
        return np.asarray(where, bool)
    if getattr(where.dtype, "kind", "b") != "b":
        raise TypeError(
            f"Cannot cast array data from {where.dtype!r} to dtype('bool') according to the rule 'safe': pass where != 0"
        )
    return where


def fits(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    try:
        return broadcast_shape(shape, target) == target
    except ValueError:
        return False


def check_host(out: Out, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Refuse an ``out=`` that can't take the value of an array."""
    if not isinstance(out, np.ndarray):
        raise TypeError(f"out= must be a numpy.ndarray, and is a {type(out).__name__}: pass np.empty(x.shape, x.dtype)")
    if out.dtype != dtype:
        raise TypeError(f"out= has dtype {out.dtype}, and the array has {dtype}: pass np.empty(x.shape, x.dtype)")
    if out.shape != shape:
        raise ValueError(f"out= has shape {out.shape}, and the array has {shape}: pass np.empty(x.shape, x.dtype)")
    if not out.flags.writeable:
        raise read_only("out=", "pass np.empty(x.shape, x.dtype)")
