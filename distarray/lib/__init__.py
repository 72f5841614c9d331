"""What programs reach under ``numpy.lib``: the windows of ``stride_tricks``, ``scimath``, and NumPy's helpers for classes."""

from numpy.lib import Arrayterator, NumpyVersion, add_docstring, add_newdoc, mixins

from distarray.errors import absent_from
from distarray.lib import scimath, stride_tricks

__all__ = ["Arrayterator", "NumpyVersion", "add_docstring", "add_newdoc", "mixins", "scimath", "stride_tricks"]

__getattr__ = absent_from(__name__)
