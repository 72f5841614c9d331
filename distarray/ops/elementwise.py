"""The element-wise functions of the namespace, generated from one table of NumPy's ufuncs; a new function is one name.

They are objects, as NumPy's are, so that ``add.reduce`` and ``add.nin`` are there. NumPy's own would give host arrays where no
operand is distributed; these give distributed ones.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from distarray.array.aliases import AnyArray, ArrayLike, Axis, DTypeLike, Out
from distarray.array.functions import NOTHING
from distarray.array.state import DistributedArray
from distarray.ops import indexing, reductions, scans, ufuncs
from distarray.ops.convert import asarray

F = TypeVar("F", bound=Callable[..., Any])

NAMES = """
abs absolute acos acosh add arccos arccosh arcsin arcsinh arctan arctan2 arctanh asin asinh atan atan2 atanh bitwise_and
bitwise_count bitwise_invert bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor cbrt ceil conj
conjugate copysign cos cosh deg2rad degrees divide divmod equal exp exp2 expm1 fabs float_power floor floor_divide fmax
fmin fmod frexp gcd greater greater_equal heaviside hypot invert isfinite isinf isnan isnat lcm ldexp left_shift less less_equal
log log10 log1p log2 logaddexp logaddexp2 logical_and logical_not logical_or logical_xor maximum minimum mod modf multiply
negative nextafter not_equal positive pow power rad2deg radians reciprocal remainder right_shift rint sign signbit sin sinh
spacing sqrt square subtract tan tanh true_divide trunc
""".split()

__all__ = [*NAMES, "frompyfunc", "ufunc"]

_DATA = ("nin", "nout", "nargs", "ntypes", "types", "identity", "signature", "resolve_dtypes")
"""What a ufunc says of itself: NumPy's answers."""


def _unary(
    x: ArrayLike, /, out: Out = None, *, where: ArrayLike = True, dtype: DTypeLike = None, casting: str | None = None
) -> Any: ...


def _binary(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    out: Out = None,
    *,
    where: ArrayLike = True,
    dtype: DTypeLike = None,
    casting: str | None = None,
) -> Any: ...


_SIGNATURES = {1: inspect.signature(_unary), 2: inspect.signature(_binary)}


def _described(numpys: np.ufunc) -> str:
    """The docstring of a ufunc: NumPy's summary, and what is said of all."""
    name, inputs = numpys.__name__, ["x"] if numpys.nin == 1 else [f"x{i + 1}" for i in range(numpys.nin)]
    paragraphs = (numpys.__doc__ or "").split("\n\n")
    first = (
        " ".join(paragraphs[1].split()).split(". ")[0].rstrip(".")
        if len(paragraphs) > 2
        else f"Element-wise ``{name}``"
    )
    same = f"As ``numpy.{name}``, with the same dtypes and errors: recorded" if hasattr(np, name) else "Recorded"
    results = ", ".join([f"y{i + 1}" for i in range(numpys.nout)]) + " : " if numpys.nout > 1 else ""
    return inspect.cleandoc(f"""{first}.

    {same}, and evaluated when its value is needed.

    Parameters
    ----------
    {", ".join(inputs)} : array_like
        {"Of any shape." if numpys.nin == 1 else "They are broadcast to one shape."}
    out : DistributedArray, numpy.ndarray, or tuple of them, optional
        Where to put the result.
    where : array_like of bool, optional
        Where to compute; elsewhere stands what `out` holds, or zero.
    dtype : dtype, optional
        That of the computation. Default: as NumPy's promotion says.
    casting : str, optional
        The rule for casts. Default: ``"same_kind"``.

    Returns
    -------
    {results}DistributedArray
        Of the broadcast shape; a 0-d one that behaves as a number where NumPy returns a scalar.

    Raises
    ------
    TypeError
        There is no loop for the dtypes, or the rule forbids a cast.
    ValueError
        The shapes do not fit.

    Notes
    -----
    Communication: none where the operands have one layout; otherwise what aligns them, when the value is needed.
    """)


class ufunc:
    """An element-wise function of distributed arrays, with the attributes and methods of ``numpy.ufunc``.

    Parameters
    ----------
    numpys : numpy.ufunc
        NumPy's function of the same name.

    Attributes
    ----------
    nin, nout, nargs : int
        How many inputs, outputs, and both.
    types : list of str
        The dtypes that NumPy's ufunc has loops for; `ntypes` is their number.
    identity : object
        What a reduction of no elements gives; None where there is none.
    signature : str or None
        None: these work element by element.
    """

    def __init__(self, numpys: np.ufunc) -> None:
        self._numpys = numpys
        self.__name__ = self.__qualname__ = numpys.__name__
        if numpys.nin in _SIGNATURES:
            self.__signature__ = _SIGNATURES[numpys.nin]
        self.__doc__ = _described(numpys)

    def __call__(self, *inputs: Any, out: Out | tuple[Out, ...] = None, where: ArrayLike = True, **kwargs: Any) -> Any:
        numpys = self._numpys
        nin = numpys.nin
        if len(inputs) > nin and out is None:  # outputs may stand behind the inputs
            inputs, out = inputs[:nin], inputs[nin:]
        if len(inputs) != nin:
            raise TypeError(
                f"{self.__name__}() takes from {nin} to {numpys.nargs} positional arguments but {len(inputs)} were given"
            )
        if out is not None and not isinstance(out, tuple):
            out = (out,)
        if kwargs:
            kwargs = {name: value for name, value in kwargs.items() if value is not None}
        if not any(isinstance(x, DistributedArray) for x in inputs):
            inputs = (asarray(inputs[0]), *inputs[1:])
        found = ufuncs.call(numpys, *inputs, out=out, where=where, **kwargs)
        return numpys(*inputs, out=out, where=where, **kwargs) if found is NotImplemented else found

    def reduce(
        self,
        array: ArrayLike,
        axis: Axis = 0,
        dtype: DTypeLike = None,
        out: Out = None,
        keepdims: bool = False,
        initial: ArrayLike | None = NOTHING,
        where: ArrayLike = True,
    ) -> Any:
        """The elements along axes folded into one.

        Parameters
        ----------
        array : array_like
        axis : int or tuple of int, optional
            The axes that are reduced; None: all.
        dtype : dtype, optional
            Of the computation and the result. Default: as NumPy's ufunc says.
        out : DistributedArray or numpy.ndarray, optional
            Where to put the result.
        keepdims : bool
            Keep the reduced axes, with length 1.
        initial : scalar, optional
            The value to begin with.
        where : array_like of bool
            The elements to include.

        Returns
        -------
        DistributedArray

        Raises
        ------
        ValueError
            There is no element and no value to begin with.

        Notes
        -----
        Communication: none for sums, products and extremes, whose results stay partial; other functions pass
        running values along the
        devices of a split axis.

        Examples
        --------
        >>> import distarray as da
        >>> with da.init(devices=2, kind="host"):
        ...     da.add.reduce(da.arange(4)).get()
        array(6)
        """
        return reductions.reduce(self._numpys, asarray(array), axis, dtype, out, keepdims, initial, where)

    def accumulate(self, array: ArrayLike, axis: int = 0, dtype: DTypeLike = None, out: Out = None) -> Any:
        """The results of folding up to each element along an axis.

        Parameters
        ----------
        array : array_like
        axis : int
        dtype : dtype, optional
            Of the computation and the result. Default: as NumPy's ufunc says.
        out : DistributedArray or numpy.ndarray, optional
            Where to put the result.

        Returns
        -------
        DistributedArray
            Of the shape of `array`.

        Notes
        -----
        Communication: as of :func:`distarray.cumsum`.

        Examples
        --------
        >>> import distarray as da
        >>> with da.init(devices=2, kind="host"):
        ...     da.maximum.accumulate(da.asarray([1, 3, 2])).tolist()
        [1, 3, 3]
        """
        return scans.accumulate(self._numpys, asarray(array), axis, dtype, out)

    def reduceat(
        self, array: ArrayLike, indices: ArrayLike, axis: int = 0, dtype: DTypeLike = None, out: Out = None
    ) -> Any:
        """The elements between given indices along an axis folded.

        Parameters
        ----------
        array : array_like
        indices : array_like of int
            Where the slices begin: each ends at the next index, or holds one element where that is not greater.
        axis : int
        dtype : dtype, optional
            Of the computation and the result. Default: as NumPy's ufunc says.
        out : DistributedArray or numpy.ndarray, optional
            Where to put the result.

        Returns
        -------
        DistributedArray
            With one element for each index along the axis.

        Raises
        ------
        IndexError
            An index is out of bounds.

        Notes
        -----
        Communication: the slices that a device lacks.

        Examples
        --------
        >>> import distarray as da
        >>> with da.init(devices=2, kind="host"):
        ...     da.add.reduceat(da.arange(6), [0, 2, 4]).tolist()
        [1, 5, 9]
        """
        return scans.reduceat(self._numpys, asarray(array), indices, axis, dtype, out)

    def at(self, a: AnyArray, indices: ArrayLike, /, *b: ArrayLike) -> None:
        """Apply the function in place to the elements at `indices`, once for each time that an index stands there.

        Parameters
        ----------
        a : DistributedArray or numpy.ndarray
            Written to.
        indices : int, slice, array_like, or tuple of them
            As in ``a[indices]``.
        *b : array_like
            The second operand of a function of two.

        Notes
        -----
        Communication: the elements of a distributed `b` that the chunks lack; index arrays and masks are fetched.

        Examples
        --------
        >>> import distarray as da
        >>> with da.init(devices=2, kind="host"):
        ...     x = da.zeros(3, int)
        ...     da.add.at(x, [0, 0, 2], 1)
        ...     x.tolist()
        [2, 0, 1]
        """
        indexing.ufunc_at(self._numpys, a, indices, *b)

    def outer(self, A: ArrayLike, B: ArrayLike, /, **kwargs: Any) -> Any:
        """The function of every element of one array with every one of another.

        Parameters
        ----------
        A, B : array_like
        **kwargs : object
            As for a call.

        Returns
        -------
        DistributedArray
            With the axes of `A`, then those of `B`.

        Notes
        -----
        Communication: what broadcasting needs.

        Examples
        --------
        >>> import distarray as da
        >>> with da.init(devices=2, kind="host"):
        ...     da.multiply.outer(da.arange(3), [1, 10]).tolist()
        [[0, 0], [1, 10], [2, 20]]
        """
        return ufuncs.outer(self._numpys, asarray(A), B, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name in _DATA:
            return getattr(self._numpys, name)
        raise AttributeError(f"'ufunc' object has no attribute {name!r}", name=name, obj=self)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *_DATA]

    def __repr__(self) -> str:
        return f"<ufunc {self.__name__!r}>"

    def __reduce__(self) -> str:
        return self.__name__


class _Generalized(ufunc):
    """A product over the last axes, with what ``numpy.ufunc`` says of itself: its calls are those of a function."""

    def __init__(self, numpys: np.ufunc, implementation: Callable[..., Any]) -> None:
        self._numpys, self._implementation = numpys, implementation
        functools.update_wrapper(self, implementation)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._implementation(*args, **kwargs)


def generalized(numpys: np.ufunc) -> Callable[[F], F]:
    """Give a function the attributes of NumPy's generalised ufunc, so that ``matmul.signature`` is there."""

    def give(implementation: F) -> F:
        return cast("F", _Generalized(numpys, implementation))

    return give


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, **kwargs: Any) -> ufunc:
    """A ufunc of a Python function of `nin` scalars that returns `nout` numbers; it is called for each element.

    Parameters
    ----------
    func : callable
        Of scalars.
    nin, nout : int
        How many scalars it takes and returns.
    **kwargs
        ``identity=``, as of ``numpy.frompyfunc``.

    Returns
    -------
    ufunc

    Raises
    ------
    TypeError
        At a call: the function returns something but numbers, or numbers of different kinds for different elements.
        NumPy's result holds objects; distributed arrays hold numbers, so it has the numbers' dtype.

    Notes
    -----
    Communication: what aligns the operands. Each device calls the function for its own elements.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.frompyfunc(lambda a, b: a + 2 * b, 2, 1)(da.arange(3), 10)
    DistributedArray([20, 21, 22])
    """
    return ufunc(np.frompyfunc(func, nin, nout, **kwargs))


def _table() -> dict[str, ufunc]:
    """One object for each of NumPy's, under all its names."""
    made: dict[np.ufunc, ufunc] = {}
    for name in NAMES:
        numpys = getattr(np, name)
        made.setdefault(numpys, ufunc(numpys))
    return {name: made[getattr(np, name)] for name in NAMES}


globals().update(_table())
