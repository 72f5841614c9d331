"""How the array gets the methods whose bodies call what stands above its class: see ``distarray/distributed_array.py``."""

from __future__ import annotations

from types import FunctionType

from distarray.array.state import DistributedArray

__all__ = ["array_methods"]


def array_methods(methods: type[DistributedArray]) -> None:
    """Give every array the methods and properties of a class body: those that call what stands above this file.

    The class body exists for its definitions, which type checkers see as methods of an array; it has no instances.
    """
    for name, value in vars(methods).items():
        if isinstance(value, (FunctionType, property)):
            for function in (value,) if isinstance(value, FunctionType) else (value.fget, value.fset):
                if function is not None:
                    function.__qualname__ = f"{DistributedArray.__name__}.{name}"
            setattr(DistributedArray, name, value)
