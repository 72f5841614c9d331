"""The class that people see: what an array is (``array/state.py``), given its operators, methods, and what Python calls."""

from __future__ import annotations

from distarray.array.methods import array_methods
from distarray.array.operators import Operators
from distarray.array.scalars import Scalars, new
from distarray.array.state import DistributedArray
from distarray.methods.calculation import CalculationMethods
from distarray.methods.conversion import ConversionMethods
from distarray.methods.items import ItemMethods
from distarray.methods.shape import ShapeMethods
from distarray.protocols import Protocols

__all__ = ["DistributedArray"]

for _methods in (Operators, Scalars, Protocols, ItemMethods, ConversionMethods, ShapeMethods, CalculationMethods):
    array_methods(_methods)
DistributedArray.__new__ = new  # type: ignore[method-assign, assignment]
