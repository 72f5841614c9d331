"""``numpy.lib.stride_tricks`` for distributed arrays: windows are views; strides in bytes need the memory of one host."""

from distarray.errors import absent_from
from distarray.ops.applying import sliding_window_view

__all__ = ["sliding_window_view"]

_STRIDES = "it reaches by bytes through one host's memory: use sliding_window_view, broadcast_to or slices"

__getattr__ = absent_from(__name__, {"as_strided": _STRIDES})
