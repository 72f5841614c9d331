"""Window functions of signals, from their positions: each device makes its own part."""

from __future__ import annotations

from typing import Any

import numpy as np

from distarray.array.documented import described_as
from distarray.array.state import DistributedArray
from distarray.ops.choosing import where
from distarray.ops.creation import ones
from distarray.ops.numbers import i0
from distarray.ops.sequences import arange

__all__ = ["bartlett", "blackman", "hamming", "hanning", "kaiser"]


def _positions(M: Any) -> Any:
    """``1 - M, 3 - M, …, M - 1`` as NumPy has them; None for at most one point, which every window answers alike."""
    M = np.array([0.0, M])[1]
    return None if M <= 1 else arange(1 - M, M, 2)


def _short(M: Any) -> DistributedArray:
    return ones(0 if M < 1 else 1, np.result_type(M, 0.0))


def bartlett(M: int) -> DistributedArray:
    """The Bartlett window, a triangle that ends in zeros.

    Parameters
    ----------
    M : int
        The number of points; below 1, the window is empty.

    Returns
    -------
    DistributedArray
        Of ``float64``, and one axis.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.bartlett(5).tolist()
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    n = _positions(M)
    if n is None:
        return _short(M)
    found: DistributedArray = where(n <= 0, 1 + n / (M - 1), 1 - n / (M - 1))
    return found


@described_as(bartlett)
def blackman(M: int) -> DistributedArray:
    """The Blackman window.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.blackman(3).round(6).tolist()
    [-0.0, 1.0, -0.0]
    """
    n = _positions(M)
    if n is None:
        return _short(M)
    found: DistributedArray = 0.42 + 0.5 * np.cos(np.pi * n / (M - 1)) + 0.08 * np.cos(2.0 * np.pi * n / (M - 1))
    return found


@described_as(bartlett)
def hamming(M: int) -> DistributedArray:
    """The Hamming window.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.hamming(3).round(6).tolist()
    [0.08, 1.0, 0.08]
    """
    n = _positions(M)
    found: DistributedArray = _short(M) if n is None else 0.54 + 0.46 * np.cos(np.pi * n / (M - 1))
    return found


@described_as(bartlett)
def hanning(M: int) -> DistributedArray:
    """The Hann window.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.hanning(5).round(6).tolist()
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    n = _positions(M)
    found: DistributedArray = _short(M) if n is None else 0.5 + 0.5 * np.cos(np.pi * n / (M - 1))
    return found


@described_as(bartlett)
def kaiser(M: int, beta: float) -> DistributedArray:
    """The Kaiser window.

    Parameters
    ----------
    beta : float
        The shape: the greater, the narrower.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.kaiser(3, 5.0).round(6).tolist()
    [0.036711, 1.0, 0.036711]
    """
    M, beta = np.array([0.0, M, beta])[1:]
    if M == 1:
        return ones(1, np.result_type(M, 0.0))
    alpha = (M - 1) / 2.0
    found: DistributedArray = i0(beta * np.sqrt(1 - ((arange(0, M) - alpha) / alpha) ** 2.0)) / np.i0(beta)
    return found
