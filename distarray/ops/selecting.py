"""Arrays made of several, of which an index or a condition says which: ``choose``, ``select``, ``piecewise``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from distarray.array.aliases import ArrayLike, Arrays, Out
from distarray.array.functions import implements
from distarray.array.place import as_array
from distarray.array.shapes import PYTHON_SCALARS, broadcast_shape
from distarray.array.state import DistributedArray, copy_array, same_context
from distarray.array.writing import check_out
from distarray.fusion.conditions import WarningOnce
from distarray.ops import reductions
from distarray.ops.choosing import where
from distarray.ops.convert import asarray
from distarray.ops.creation import zeros_like
from distarray.ops.manipulation import broadcast_to
from distarray.ops.recording import into

__all__ = ["choose", "piecewise", "select"]


@implements(np.choose)
def choose(a: ArrayLike, choices: Arrays, out: Out = None, mode: str = "raise") -> Any:
    """From several arrays, the element of the one whose number `a` has there.

    Parameters
    ----------
    a : array_like of int
    choices : sequence of array_like, or array_like
        They and `a` are broadcast. Of an array, the choices are along its first axis.
    out : DistributedArray or numpy.ndarray, optional
        Where to put the result.
    mode : {"raise", "wrap", "clip"}
        What becomes of numbers without a choice.

    Returns
    -------
    DistributedArray
        Of the broadcast shape, in the choices' common dtype.

    Raises
    ------
    ValueError
        A number has no choice, with ``mode="raise"``.

    Notes
    -----
    Communication: what aligns the choices with `a`; with ``mode="raise"`` the extremes of `a`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.choose(da.asarray([0, 1, 0]), [10, [1, 2, 3]]).tolist()
    [10, 2, 10]
    """
    if out is not None:
        check_out(out)
    found = list(choices)
    context = same_context([x for x in (a, *found, out) if isinstance(x, DistributedArray)])
    number: Any = as_array(context, a)
    if not found:
        raise ValueError("0-length sequence.")
    if not np.can_cast(number.dtype, np.intp, "same_kind"):
        raise TypeError(
            f"Cannot cast array data from {number.dtype!r} to {np.dtype(np.intp)!r} according to the rule 'safe'"
        )
    n = len(found)
    arrays = [as_array(context, x) for x in found]
    models: list[Any] = [
        x if isinstance(x, PYTHON_SCALARS) else np.empty(0, y.dtype) for x, y in zip(found, arrays, strict=True)
    ]
    dtype: np.dtype[Any] = np.choose(np.zeros(0, np.intp), models).dtype  # numbers are weak, as NumPy has them here
    shape = broadcast_shape(number.shape, *[x.shape for x in arrays])
    if out is not None and tuple(out.shape) != shape:
        raise TypeError(f"choose: invalid shape for output array: it is {tuple(out.shape)}, and the result's {shape}")
    if mode == "raise":
        if 0 not in shape and not (int(reductions.min(number)) >= 0 and int(reductions.max(number)) < n):
            raise ValueError("invalid entry in choice array")
    elif mode == "wrap":
        number = np.mod(number.astype(np.intp), n)
    elif mode == "clip":
        number = np.clip(number, 0, n - 1)
    else:
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    result = broadcast_to(arrays[-1].astype(dtype), shape)
    for i in range(n - 2, -1, -1):
        result = where(number == i, arrays[i].astype(dtype), result)
    return into(result if n > 1 else copy_array(result), out, "unsafe")


@implements(np.select)
def select(condlist: Arrays, choicelist: Arrays, default: ArrayLike = 0) -> DistributedArray:
    """For each element the choice of the first condition that holds there, or the default.

    Parameters
    ----------
    condlist : list of array_like of bool
        The conditions, which are broadcast with all choices.
    choicelist : list of array_like
        As many choices.
    default : scalar or array_like
        What stands where no condition holds.

    Returns
    -------
    DistributedArray
        Of the broadcast shape, in the choices' common dtype.

    Raises
    ------
    ValueError, TypeError
        Lists of other lengths; conditions that are no bools.

    Notes
    -----
    Communication: none where the arrays have one layout; otherwise what aligns them, when the value is needed.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.arange(5)
    ...     da.select([x < 2, x > 3], [-x, x * 10], 7).tolist()
    [0, -1, 7, 7, 40]
    """
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if not len(condlist):
        raise ValueError("select with an empty condition list is not possible")
    context = same_context([x for x in (*condlist, *choicelist, default) if isinstance(x, DistributedArray)])
    scalars = (int, float, complex)
    choices: list[Any] = [x if type(x) in scalars else as_array(context, x) for x in (*choicelist, default)]
    dtype = np.result_type(*[x if type(x) in scalars else x.dtype for x in choices])
    for choice in choices[:-1]:
        if isinstance(choice, DistributedArray) and not np.can_cast(choice.dtype, dtype, "same_kind"):
            raise TypeError(
                f"Cannot cast array data from {choice.dtype!r} to {dtype!r} according to the rule 'same_kind': "
                "choose arrays of one kind"
            )
    conditions = [as_array(context, x) for x in condlist]
    for i, condition in enumerate(conditions):
        if condition.dtype != bool:
            raise TypeError(f"invalid entry {i} in condlist: should be boolean ndarray")
    with WarningOnce(context, "cast"):
        last = _number(choices[-1], dtype, True)
        numbers = [*[_number(x, dtype, False) for x in choices[:-1]], last]
    parts = [x.astype(dtype) if isinstance(x, DistributedArray) else x for x in numbers]
    shape = broadcast_shape(*[c.shape for c in conditions], *[np.shape(x) for x in parts])
    result = parts[-1] if isinstance(parts[-1], DistributedArray) else asarray(parts[-1])
    result = broadcast_to(result, shape)
    for condition, part in zip(conditions[::-1], parts[-2::-1], strict=True):
        result = where(condition, part, result)
    return result


def _number(
    choice: Any,  # a Python number, or an array
    dtype: np.dtype[Any],
    default: bool,
) -> Any:
    """A choice that is a Python number as a scalar of the result's dtype, into which NumPy copies choices as "same_kind" and the
    default unsafely."""
    if isinstance(choice, DistributedArray):
        return choice
    given = np.asarray(choice)
    if not default and not np.can_cast(given.dtype, dtype, "same_kind"):
        raise TypeError(
            f"Cannot cast array data from {given.dtype!r} to {dtype!r} according to the rule 'same_kind': choose numbers that "
            f"{dtype} holds"
        )
    return np.full((), given, dtype)[()]


@implements(np.piecewise)
def piecewise(x: ArrayLike, condlist: Arrays, funclist: Sequence[Any], *args: Any, **kw: Any) -> DistributedArray:
    """A function given piece by piece: where a condition holds, a constant or a function of the elements there.

    Parameters
    ----------
    x : array_like
    condlist : list of array_like of bool, or one
        Each of the shape of `x`.
    funclist : list of callable or scalar
        One for each condition, and one more where none holds.
    *args, **kw
        Passed to the functions, which get a DistributedArray of one axis.

    Returns
    -------
    DistributedArray
        Of the shape and dtype of `x`.

    Raises
    ------
    ValueError
        There are neither as many functions as conditions, nor one more.

    Notes
    -----
    Communication: that of ``x[condition]`` and of writing there.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.arange(5)
    ...     da.piecewise(x, [x < 2], [0, lambda part: part * 10]).tolist()
    [0, 0, 20, 30, 40]
    """
    a = asarray(x)
    context = a._context
    given: Any = condlist
    lone = isinstance(given, (DistributedArray, np.ndarray)) and given.ndim == a.ndim
    if np.isscalar(given) or lone or (not isinstance(given[0], (list, np.ndarray, DistributedArray)) and a.ndim):
        given = [given]
    conditions = [as_array(context, c).astype(bool) for c in given]
    n = len(conditions)
    if n == len(funclist) - 1:
        some = conditions[0]
        for condition in conditions[1:]:
            some = some | condition
        conditions.append(~some)
    elif n != len(funclist):
        raise ValueError(f"with {n} condition(s), either {n} or {n + 1} functions are expected")
    result = zeros_like(a)
    for condition, function in zip(conditions, funclist, strict=True):
        if not callable(function):
            result[condition] = function
            continue
        chosen = a[condition]
        if chosen.size:
            result[condition] = function(chosen, *args, **kw)
    return result
