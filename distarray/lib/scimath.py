"""``numpy.lib.scimath``, which is ``emath``."""

from distarray.ops.scimath import arccos, arcsin, arctanh, log, log2, log10, logn, power, sqrt

__all__ = ["arccos", "arcsin", "arctanh", "log", "log2", "log10", "logn", "power", "sqrt"]
