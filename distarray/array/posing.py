"""Which class an array says that it is: NumPy's, where ``numpy.testing`` asks.

``assert_equal`` and ``assert_almost_equal`` compare element by element what is a NumPy array, scalars of NumPy as numbers, and
anything else by one ``==`` whose truth an array has not; they dispatch to nobody. They ask by ``isinstance``, which reads
``__class__``: to them a distributed array says that it is an array, and a result that is a number that it is NumPy's scalar.
"""

from __future__ import annotations

from types import FrameType

import numpy as np

from distarray.devices.arrays import AnyDType

__all__ = ["class_shown"]

_ASSERTIONS = frozenset(("assert_almost_equal", "assert_equal"))


def class_shown(frame: FrameType, own: type, dtype: AnyDType, scalar: bool) -> type:
    """The class that an array shows to a frame.

    Parameters
    ----------
    frame
        Of what asks.
    own
        The array's own class.
    dtype
        Of the array.
    scalar
        Whether NumPy's result would be a scalar.

    Returns
    -------
    type
        `own`, but for the functions of ``numpy.testing`` that know no other arrays than NumPy's.
    """
    name = frame.f_code.co_name
    if name == "isscalar" and frame.f_back is not None:  # which they call
        frame = frame.f_back
        name = frame.f_code.co_name
    if name not in _ASSERTIONS or not str(frame.f_globals.get("__name__")).startswith("numpy.testing."):
        return own
    return dtype.type if scalar else np.ndarray
