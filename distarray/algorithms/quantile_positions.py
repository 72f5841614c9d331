"""Where quantiles lie among sorted elements, in each of NumPy's methods: arithmetic on numbers of elements, with NumPy or CuPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from distarray.devices.arrays import DeviceArray, Library

__all__ = ["POSITIONS", "between", "places"]


def _discrete(index: DeviceArray, at_previous: Callable[[Any, Any], Any], lib: Library) -> Any:
    """The whole position of a discontinuous method: the next one, or the previous one where the method says so."""
    previous = lib.floor(index)
    chosen = lib.where(at_previous(index - previous, index), previous, previous + 1).astype(np.intp)
    return lib.maximum(chosen, 0)


def _continuous(alpha: float, beta: float) -> Callable[[Any, Any, Any], Any]:
    return lambda n, q, lib: n * q + (alpha + q * (1 - alpha - beta)) - 1


POSITIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "inverted_cdf": lambda n, q, lib: _discrete(n * q - 1, lambda gamma, _: gamma == 0, lib),
    "averaged_inverted_cdf": lambda n, q, lib: n * q - 1,
    "closest_observation": lambda n, q, lib: _discrete(
        n * q - 1 - 0.5, lambda gamma, index: (gamma == 0) & (lib.floor(index) % 2 == 1), lib
    ),
    "interpolated_inverted_cdf": _continuous(0, 1),
    "hazen": _continuous(0.5, 0.5),
    "weibull": _continuous(0, 0),
    "linear": lambda n, q, lib: (n - 1) * q,
    "median_unbiased": _continuous(1 / 3.0, 1 / 3.0),
    "normal_unbiased": _continuous(3 / 8.0, 3 / 8.0),
    "lower": lambda n, q, lib: lib.floor((n - 1) * q).astype(np.intp),
    "higher": lambda n, q, lib: lib.ceil((n - 1) * q).astype(np.intp),
    "midpoint": lambda n, q, lib: 0.5 * (lib.floor((n - 1) * q) + lib.ceil((n - 1) * q)),
    "nearest": lambda n, q, lib: lib.around((n - 1) * q).astype(np.intp),
}
"""Method → where quantiles lie among n sorted elements. (R. J. Hyndman and Y. Fan, "Sample quantiles in statistical packages",
The American Statistician 50, 1996.)"""


_DISCRETE = ("inverted_cdf", "closest_observation", "lower", "higher", "nearest")


Middle = tuple[Any, Any, Any]
"""The elements before and after each quantile, and how far it lies between them; None where it is an element."""


def places(
    method: str,
    n: Any,  # an int, or an array of counts
    q: object,
    lib: Library = np,
) -> Middle:
    """Where the quantiles `q` lie among `n` sorted elements, of which a host or device array may say another number each."""
    index = lib.asarray(POSITIONS[method](n, q, lib))
    if method in _DISCRETE or (method == "linear" and index.dtype.kind in "iu"):
        return index, index, None
    previous = lib.floor(index)
    following = previous + 1
    last, first = index >= n - 1, index < 0
    previous, following = (lib.where(last, n - 1, lib.where(first, 0, p)) for p in (previous, following))
    whole = lib.where(last, -1, previous)  # NumPy measures from there beyond the last
    gamma = index - lib.where(first, 0, whole)
    if method == "averaged_inverted_cdf":
        gamma = lib.where(gamma == 0, 0.5, 1.0)
    elif method == "midpoint":
        gamma = lib.where(index % 1 == 0, 0.0, 0.5)
    return previous.astype(np.intp), following.astype(np.intp), gamma.astype(index.dtype)


def between(
    a: Any,  # arrays of either kind
    b: Any,  # as `a`
    t: Any,  # as `a`
    choose: Callable[..., Any],
) -> Any:
    """The value at `t` of the way from a to b, exact at both ends."""
    apart = b - a
    return choose(t >= 0.5, b - apart * (1 - t), a + apart * t)
