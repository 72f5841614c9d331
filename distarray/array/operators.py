"""NumPy's operators of the array. Each is one call: of the short way, ``whole``, where all there is to it is a ufunc."""

from __future__ import annotations

from typing import Any

import numpy as np

from distarray.array.aliases import ArrayLike
from distarray.array.calls import takes
from distarray.array.equality import equality
from distarray.array.functions import FUNCTIONS
from distarray.array.state import DistributedArray
from distarray.array.structures import compare
from distarray.array.whole import apply, binary, call, in_place

__all__ = ["Operators"]


_REPEATED = frozenset((list, tuple, str, bytes, bytearray))
"""Sequences that Python repeats a number of times, as it does for NumPy's scalars; for arrays lists are operands."""


class Operators(DistributedArray):
    """Given to the array by ``distarray/distributed_array.py``."""

    __slots__ = ()

    def __add__(self, other: ArrayLike) -> Any:
        return binary(np.add, self, other, self)

    def __radd__(self, other: ArrayLike) -> Any:
        return binary(np.add, other, self, self)

    def __iadd__(self, other: ArrayLike) -> Any:
        return in_place(np.add, self, other)

    def __sub__(self, other: ArrayLike) -> Any:
        return binary(np.subtract, self, other, self)

    def __rsub__(self, other: ArrayLike) -> Any:
        return binary(np.subtract, other, self, self)

    def __isub__(self, other: ArrayLike) -> Any:
        return in_place(np.subtract, self, other)

    def __mul__(self, other: ArrayLike) -> Any:
        if self._detached and type(other) in _REPEATED:
            return NotImplemented
        return binary(np.multiply, self, other, self)

    def __rmul__(self, other: ArrayLike) -> Any:
        if self._detached and type(other) in _REPEATED:
            return NotImplemented
        return binary(np.multiply, other, self, self)

    def __imul__(self, other: ArrayLike) -> Any:
        return in_place(np.multiply, self, other)

    def __truediv__(self, other: ArrayLike) -> Any:
        return binary(np.divide, self, other, self)

    def __rtruediv__(self, other: ArrayLike) -> Any:
        return binary(np.divide, other, self, self)

    def __itruediv__(self, other: ArrayLike) -> Any:
        return in_place(np.divide, self, other)

    def __floordiv__(self, other: ArrayLike) -> Any:
        return binary(np.floor_divide, self, other, self)

    def __rfloordiv__(self, other: ArrayLike) -> Any:
        return binary(np.floor_divide, other, self, self)

    def __ifloordiv__(self, other: ArrayLike) -> Any:
        return in_place(np.floor_divide, self, other)

    def __mod__(self, other: ArrayLike) -> Any:
        return binary(np.remainder, self, other, self)

    def __rmod__(self, other: ArrayLike) -> Any:
        return binary(np.remainder, other, self, self)

    def __imod__(self, other: ArrayLike) -> Any:
        return in_place(np.remainder, self, other)

    def __lshift__(self, other: ArrayLike) -> Any:
        return binary(np.left_shift, self, other, self)

    def __rlshift__(self, other: ArrayLike) -> Any:
        return binary(np.left_shift, other, self, self)

    def __ilshift__(self, other: ArrayLike) -> Any:
        return in_place(np.left_shift, self, other)

    def __rshift__(self, other: ArrayLike) -> Any:
        return binary(np.right_shift, self, other, self)

    def __rrshift__(self, other: ArrayLike) -> Any:
        return binary(np.right_shift, other, self, self)

    def __irshift__(self, other: ArrayLike) -> Any:
        return in_place(np.right_shift, self, other)

    def __and__(self, other: ArrayLike) -> Any:
        return binary(np.bitwise_and, self, other, self)

    def __rand__(self, other: ArrayLike) -> Any:
        return binary(np.bitwise_and, other, self, self)

    def __iand__(self, other: ArrayLike) -> Any:
        return in_place(np.bitwise_and, self, other)

    def __or__(self, other: ArrayLike) -> Any:
        return binary(np.bitwise_or, self, other, self)

    def __ror__(self, other: ArrayLike) -> Any:
        return binary(np.bitwise_or, other, self, self)

    def __ior__(self, other: ArrayLike) -> Any:
        return in_place(np.bitwise_or, self, other)

    def __xor__(self, other: ArrayLike) -> Any:
        return binary(np.bitwise_xor, self, other, self)

    def __rxor__(self, other: ArrayLike) -> Any:
        return binary(np.bitwise_xor, other, self, self)

    def __ixor__(self, other: ArrayLike) -> Any:
        return in_place(np.bitwise_xor, self, other)

    def __pow__(self, other: ArrayLike) -> Any:
        shorter = _shorter_power(self._dtype.kind, other)
        return binary(np.power, self, other, self) if shorter is None else apply(shorter, (self,))

    def __rpow__(self, other: ArrayLike) -> Any:
        return binary(np.power, other, self, self)

    def __ipow__(self, other: ArrayLike) -> Any:
        shorter = _shorter_power(self._dtype.kind, other)
        if shorter is None:
            return in_place(np.power, self, other)
        return apply(shorter, (self,)) if self._detached else shorter(self, out=self)

    def __matmul__(self, other: ArrayLike) -> Any:
        if self._context.kind == "host":
            ready = call(np.matmul, (self, other))
            if ready is not NotImplemented:
                return ready
        if type(other) is DistributedArray:
            return FUNCTIONS[np.matmul].__wrapped__(self, other)  # type: ignore[attr-defined]  # without the short way
        return np.matmul(self, other) if takes(other) else NotImplemented

    def __rmatmul__(self, other: ArrayLike) -> Any:
        return np.matmul(other, self) if takes(other) else NotImplemented

    def __imatmul__(self, other: ArrayLike) -> Any:
        if self._detached or not takes(other):
            return NotImplemented
        if len(self.shape) and np.ndim(other) == 1:
            raise ValueError(
                "inplace matrix multiplication requires the first operand to have at least one and the second at least two "
                "dimensions."
            )
        product: Any = np.matmul
        return product(self, other, out=self)

    def __divmod__(self, other: ArrayLike) -> Any:
        return np.divmod(self, other) if takes(other) else NotImplemented

    def __rdivmod__(self, other: ArrayLike) -> Any:
        return np.divmod(other, self) if takes(other) else NotImplemented

    def __lt__(self, other: ArrayLike) -> Any:
        return binary(np.less, self, other, self)

    def __le__(self, other: ArrayLike) -> Any:
        return binary(np.less_equal, self, other, self)

    def __gt__(self, other: ArrayLike) -> Any:
        return binary(np.greater, self, other, self)

    def __ge__(self, other: ArrayLike) -> Any:
        return binary(np.greater_equal, self, other, self)

    def __eq__(self, other: object) -> Any:
        if self._dtype.type is np.void:
            return compare(np.equal, self, other)
        return equality(np.equal, self, other)

    def __ne__(self, other: object) -> Any:
        if self._dtype.type is np.void:
            return compare(np.not_equal, self, other)
        return equality(np.not_equal, self, other)

    def __neg__(self) -> Any:
        return apply(np.negative, (self,))

    def __pos__(self) -> Any:
        return apply(np.positive, (self,))

    def __abs__(self) -> Any:
        return apply(np.absolute, (self,))

    def __invert__(self) -> Any:
        return apply(np.invert, (self,))


def _shorter_power(kind: str, exponent: object) -> np.ufunc | None:
    """What NumPy's operator, but not ``np.power``, calls for some exponents that are Python numbers."""
    if type(exponent) is int:
        if exponent == 2 and kind in "biufc":
            return np.square
        return np.reciprocal if exponent == -1 and kind in "fc" else None
    if type(exponent) is float and kind in "fc":
        if exponent == 0.5:
            return np.sqrt
        if kind == "f":
            return np.square if exponent == 2.0 else np.reciprocal if exponent == -1.0 else None
    return None
