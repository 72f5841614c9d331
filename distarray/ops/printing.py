"""Printing, as NumPy prints; a long array fetches only the edges that are shown."""

from __future__ import annotations

from typing import Any

import numpy as np

from distarray.array.functions import implements
from distarray.array.state import DistributedArray

__all__: list[str] = []


def shown(x: DistributedArray, threshold: int | None = None, edge: int | None = None) -> tuple[Any, bool]:
    """A host array that prints as `x` does, and whether it is only the edges of `x`. Options of None are NumPy's current.

    Each axis that NumPy would shorten is cut to its edges and one more element in the middle, which is never printed.
    """
    options = np.get_printoptions()
    edge = options["edgeitems"] if edge is None else edge
    if x.size <= (options["threshold"] if threshold is None else threshold) or all(n <= 2 * edge for n in x.shape):
        return x.get(), False
    parts: list[tuple[tuple[slice, slice], ...]] = [()]
    for n in x.shape:
        if n <= 2 * edge + 1:
            cuts = [(slice(0, n), slice(0, n))]
        else:
            cuts = [(slice(0, edge + 1), slice(0, edge + 1)), (slice(n - edge, n), slice(edge + 1, 2 * edge + 1))]
        parts = [(*p, c) for p in parts for c in cuts]
    out = np.empty(tuple(min(n, 2 * edge + 1) for n in x.shape), x.dtype)
    for part in parts:
        out[tuple(to for _, to in part)] = x[tuple(frm for frm, _ in part)].get()
    return out, True


def _text(
    x: DistributedArray,
    separator: str,
    prefix: str,
    width: int | None = None,
    precision: int | None = None,
    small: bool | None = None,
) -> str:
    values, cut = shown(x)
    threshold = 0 if cut else None
    suffix = ")" if prefix else ""
    return np.array2string(values, width, precision, small, separator, prefix, threshold=threshold, suffix=suffix)


def to_str(x: DistributedArray) -> str:
    """``str(x)``: as NumPy prints the values."""
    return str(x.get()[()]) if not x.shape else _text(x, " ", "")


def to_repr(x: DistributedArray, *options: Any) -> str:
    """``repr(x)``: values, what was left out, and dtype where NumPy would say it. The options are those of ``np.array_repr``,
    in its order."""
    name = "DistributedArray("
    body = _text(x, ", ", name, *options) if x.size else "[]"
    more = []
    if (not x.size and x.shape != (0,)) or x.size > np.get_printoptions()["threshold"]:
        more.append(f"shape={x.shape}")
    if x.dtype not in (np.dtype(bool), np.dtype(int), np.dtype(float), np.dtype(complex)) or not x.size:
        more.append(f"dtype={_dtype_text(x.dtype)}")
    if not more:
        return f"{name}{body})"
    text, rest = f"{name}{body},", f"{', '.join(more)})"
    width = options[0] if options and options[0] is not None else np.get_printoptions()["linewidth"]
    breaks = len(text) - text.rfind("\n") + len(rest) > width
    return text + ("\n" + " " * len(name) if breaks else " ") + rest


def _dtype_text(dtype: np.dtype[Any]) -> str:
    """A dtype as NumPy writes it after ``dtype=``: between quotes where it is no name."""
    name = dtype.name if dtype.isnative and dtype.names is None else str(dtype)
    return name if name.isalnum() or dtype.names is not None else repr(name)


@implements(np.array2string)
def array2string(a: DistributedArray, *args: Any, **kwargs: Any) -> str:
    """``np.array2string``, on the edges that it shows."""
    values, cut = shown(a, kwargs.get("threshold"), kwargs.get("edgeitems"))
    if cut:
        kwargs["threshold"] = 0
    return np.array2string(values, *args, **kwargs)


@implements(np.array_repr)
def array_repr(
    arr: DistributedArray,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """``np.array_repr``."""
    return to_repr(arr, max_line_width, precision, suppress_small)


@implements(np.array_str)
def array_str(
    a: DistributedArray,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """``np.array_str``."""
    return to_str(a) if not a.shape else _text(a, " ", "", max_line_width, precision, suppress_small)
