"""``numpy.lib.scimath``, which is ``emath``."""

from distarray.ops.scimath import *
from distarray.ops.scimath import __all__ as __all__
