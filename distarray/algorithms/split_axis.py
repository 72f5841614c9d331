"""The Fourier transform along one axis that is cut over devices, of any length, complex or real.

It chooses: the four-step method where the length has a fitting factor, else a convolution.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from distarray.algorithms.chirp import convolved
from distarray.algorithms.four_step import SplitCall, complex_sums, factor, real_inverse_sums, real_sums
from distarray.algorithms.held import Held

__all__ = ["along_split_axis"]


def along_split_axis(call: SplitCall, held: Held, kind: str, n: int, norm: str, dtype: np.dtype[Any]) -> Held:
    """Transform along one axis, whatever cuts it.

    Parameters
    ----------
    kind : {"fft", "ifft", "rfft", "irfft", "hfft"}
    n, norm
        As for a local transform.
    dtype : numpy.dtype
        Of the result.

    Returns
    -------
    Held
        ``fft`` and ``ifft``: cyclic along the axis where the number of devices divides `n`; from there, in blocks. Else
        blocks along the axis.

    Notes
    -----
    Communication: the data twice; a third time where the number of devices does not divide `n`, and for the real ones,
    whose data are half as large; where no factor of `n` fits, that of ``chirp.convolved``.
    """
    scale, devices = _scale(kind, n, norm), len(call.devices)
    sign = 1 if kind in ("ifft", "irfft") else -1
    if kind in ("fft", "ifft"):
        if factor(n, devices) is not None:
            return complex_sums(call, held, n, sign, scale, dtype)
        return convolved(call, held, n, sign, scale, dtype, length=n)
    rows = factor(n, devices, half=True)
    if kind == "rfft":
        if rows is not None:
            return real_sums(call, held, n, rows, scale, dtype)
        return convolved(call, held, n, sign, scale, dtype, length=n // 2 + 1)
    if rows is not None:
        return real_inverse_sums(call, held, n, rows, scale, dtype, sign)
    return convolved(call, held, n, sign, scale, dtype, length=n, half=True)


def _scale(kind: str, n: int, norm: str) -> float:
    """What the sums of an unscaled transform are multiplied by."""
    if norm == "ortho":
        return 1 / math.sqrt(n)
    return 1 / n if (norm == "forward") == (kind in ("fft", "rfft")) else 1.0
