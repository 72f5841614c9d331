"""The element-wise functions of the namespace, generated from one table of NumPy's ufuncs; a new function is one name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from distarray.array.calls import apply
from distarray.array.state import DistributedArray
from distarray.ops.convert import asarray

NAMES = """
abs absolute acos acosh add arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan atan2 atanh bitwise_and
bitwise_count bitwise_invert bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor cbrt ceil conj
conjugate copysign cos cosh deg2rad degrees divide divmod equal exp exp2 expm1 fabs float_power floor floor_divide fmax
fmin fmod frexp gcd greater greater_equal heaviside hypot invert isfinite isinf isnan lcm ldexp left_shift less less_equal
log log10 log1p log2 logaddexp logaddexp2 logical_and logical_not logical_or logical_xor maximum minimum mod modf multiply
negative nextafter not_equal positive pow power rad2deg radians reciprocal remainder right_shift rint sign signbit sin sinh
spacing sqrt square subtract tan tanh true_divide trunc
""".split()

__all__ = [*NAMES]


def _arrays(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """At least one input as a distributed array, so that the result is one."""
    if any(isinstance(x, DistributedArray) for x in inputs):
        return inputs
    return (asarray(inputs[0]), *inputs[1:])


def _function(name: str) -> Callable[..., Any]:
    ufunc = getattr(np, name)

    if ufunc.nin == 1:

        def unary(x: Any, /, out: Any = None, *, where: Any = True, dtype: Any = None, casting: Any = None) -> Any:
            return _call(ufunc, (x,), out, where, dtype, casting)

        function: Callable[..., Any] = unary
    else:

        def binary(
            x1: Any, x2: Any, /, out: Any = None, *, where: Any = True, dtype: Any = None, casting: Any = None
        ) -> Any:
            return _call(ufunc, (x1, x2), out, where, dtype, casting)

        function = binary
    function.__name__ = function.__qualname__ = name
    arguments = "x" if ufunc.nin == 1 else "x1, x2"
    function.__doc__ = f"""Element-wise ``numpy.{ufunc.__name__}({arguments})``, recorded and evaluated when its value is needed.

    Takes and returns what NumPy's ufunc does: same dtypes, broadcasting, ``out=``, ``where=``, ``dtype=``, ``casting=``.

    Notes
    -----
    Communication: none where the operands have one layout; otherwise what aligns them, when the value is needed.
    """
    return function


def _call(ufunc: np.ufunc, inputs: tuple[Any, ...], out: Any, where: Any, dtype: Any, casting: Any) -> Any:
    kwargs: dict[str, Any] = {}
    if dtype is not None:
        kwargs["dtype"] = dtype
    if casting is not None:
        kwargs["casting"] = casting
    if out is not None and not isinstance(out, tuple):
        out = (out,)
    return apply(ufunc, _arrays(inputs), out, where, **kwargs)


globals().update({name: _function(name) for name in NAMES})
