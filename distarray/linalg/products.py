"""Products over the last axes, broadcast over the others: ``matmul`` and ``@``, ``vecdot``, ``matvec``, ``vecmat``.

Each function checks shapes and dtypes as NumPy does and says which axes meet; one contraction (``algorithms/product.py``) does the
rest, for any layouts and any number of axes. Results of which the summed axis is split over devices are left in SUM
mode, so that nothing is folded before it is needed; those of half precision are added in a wider
dtype and rounded once.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from distarray.algorithms.again import again
from distarray.algorithms.contraction import Problem
from distarray.algorithms.product import contract, operands, view
from distarray.array.aliases import AnyArray, ArrayLike, Axis, DTypeLike, Out
from distarray.array.documented import described_as
from distarray.array.functions import implements
from distarray.array.shapes import broadcast_shape, memory_order
from distarray.array.state import DistributedArray
from distarray.array.writing import check_writable, overwrite
from distarray.context import Context
from distarray.ops.elementwise import generalized

__all__ = ["matmul", "matvec", "vecdot", "vecmat"]

_CORES: dict[np.ufunc, tuple[str, str]] = {
    np.matmul: ("mk", "kn"), np.vecdot: ("k", "k"), np.matvec: ("mk", "k"), np.vecmat: ("k", "kn")
}  # fmt: skip


@generalized(np.matmul)
@implements(np.matmul, np.linalg.matmul)
def matmul(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    out: Out = None,
    *,
    casting: str = "same_kind",
    order: str = "K",
    dtype: DTypeLike = None,
    subok: bool = True,
    signature: str | tuple[DTypeLike, ...] | None = None,
    axes: Sequence[int | tuple[int, ...]] | None = None,
    axis: Axis = None,
    keepdims: bool | None = None,
) -> Any:
    """Matrix product of two arrays, as ``numpy.matmul`` and ``@``.

    Parameters
    ----------
    x1, x2 : array_like
        Host arrays are placed as ``asarray`` places them. A 1-D operand is a row (first) or column (second); leading axes
        broadcast.
    out : DistributedArray or ndarray, optional
        Where the result is written, in every copy. It may overlap the operands.
    casting : str
        The rule for casts.
    order : str
        Accepted for NumPy's sake.
    dtype : dtype, optional
        Of the computation. Default: NumPy's common dtype.
    subok : bool
        Accepted for NumPy's sake.
    signature : str or tuple of dtype, optional
        The dtypes of the computation, as for NumPy's ufuncs.
    axes : list of tuple of int, optional
        Which axes of each operand and of the result are multiplied: by default their last ones.
    axis : int, optional
        Refused, as by NumPy, in its words.
    keepdims : bool, optional
        Refused, as by NumPy, in its words.

    Returns
    -------
    DistributedArray
        REPLICA where each element is summed by one device; SUM, with partial sums of each element on several devices,
        where the summed axis is split over them.

    Raises
    ------
    ValueError
        The shapes or the `axes` do not fit, in NumPy's words.

    Notes
    -----
    Communication: none for rows @ replicated, replicated @ columns, columns @ rows (cut alike), ``X.T @ X``, equally split
    batches, and whatever else meets on some device. Else the cheapest is chosen by bytes: to move to each device what its
    part of one operand meets of the other (rows @ rows of square matrices gathers the second), or to sum partial results
    later (rows @ rows where the summed axis is long and the result small). Partial operands are folded first.

    Memory on each device: at most 2.5 times its fair share of operands and result, whatever the layouts. Where more would be
    brought (from 1 MiB on a device), operands move and are multiplied in panels, one after the other; where partial
    results would be too much, the devices share the result in blocks instead: see ``distarray.algorithms.rounds``, also for the
    source.

    Results depend on the layouts by rounding only; products of replicated operands with a small result (64 KiB) are
    computed on every device, larger ones are shared.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.asarray(np.arange(8.0).reshape(4, 2), layout=da.blocks(0))
    ...     with da.no_implicit_communication():
    ...         gram = x.T @ x
    ...     gram.mode, gram.get().tolist()
    (SUM, [[56.0, 68.0], [68.0, 84.0]])
    """
    return _gufunc(np.matmul, x1, x2, out, casting, order, dtype, signature, axes, axis, keepdims)


@generalized(np.vecdot)
@implements(np.vecdot)
@described_as(matmul)
def vecdot(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    out: Out = None,
    *,
    casting: str = "same_kind",
    order: str = "K",
    dtype: DTypeLike = None,
    subok: bool = True,
    signature: str | tuple[DTypeLike, ...] | None = None,
    axes: Sequence[int | tuple[int, ...]] | None = None,
    axis: int | None = None,
    keepdims: bool | None = None,
) -> Any:
    """Dot products of vectors along an axis, the first operand conjugated, as ``numpy.vecdot``.

    Parameters
    ----------
    x1, x2 : array_like
        Host arrays are placed as ``asarray`` places them. The axes that remain are broadcast.
    axis : int, optional
        The axis of the vectors, counted in each operand. Default: the last.
    keepdims : bool, optional
        Keep that axis, with length 1.

    Returns
    -------
    DistributedArray
        In SUM mode where the vectors are split over devices.

    Raises
    ------
    ValueError
        The shapes do not fit.

    Notes
    -----
    Communication: as for :func:`matmul`; none where the operands have one layout.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.vecdot(da.asarray([[1, 2], [3, 4]]), [1, 1]).tolist()
    [3, 7]
    """
    return _gufunc(np.vecdot, x1, x2, out, casting, order, dtype, signature, axes, axis, keepdims)


@generalized(np.matvec)
@implements(np.matvec)
@described_as(matmul)
def matvec(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    out: Out = None,
    *,
    casting: str = "same_kind",
    order: str = "K",
    dtype: DTypeLike = None,
    subok: bool = True,
    signature: str | tuple[DTypeLike, ...] | None = None,
    axes: Sequence[int | tuple[int, ...]] | None = None,
    axis: Axis = None,
    keepdims: bool | None = None,
) -> Any:
    """Products of matrices and vectors, as ``numpy.matvec``.

    Notes
    -----
    Communication: as for :func:`matmul`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.matvec(da.asarray([[1, 2], [3, 4]]), [1, 1]).tolist()
    [3, 7]
    """
    return _gufunc(np.matvec, x1, x2, out, casting, order, dtype, signature, axes, axis, keepdims)


@generalized(np.vecmat)
@implements(np.vecmat)
@described_as(matmul)
def vecmat(
    x1: ArrayLike,
    x2: ArrayLike,
    /,
    out: Out = None,
    *,
    casting: str = "same_kind",
    order: str = "K",
    dtype: DTypeLike = None,
    subok: bool = True,
    signature: str | tuple[DTypeLike, ...] | None = None,
    axes: Sequence[int | tuple[int, ...]] | None = None,
    axis: Axis = None,
    keepdims: bool | None = None,
) -> Any:
    """Products of vectors, conjugated, and matrices, as ``numpy.vecmat``.

    Notes
    -----
    Communication: as for :func:`matmul`.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.vecmat(da.asarray([1, 1]), [[1, 2], [3, 4]]).tolist()
    [4, 6]
    """
    return _gufunc(np.vecmat, x1, x2, out, casting, order, dtype, signature, axes, axis, keepdims)


def _gufunc(
    ufunc: np.ufunc,
    x1: ArrayLike,
    x2: ArrayLike,
    out: Out,
    casting: str,
    order: str,
    dtype: DTypeLike,
    signature: str | tuple[DTypeLike, ...] | None,
    axes: Sequence[int | tuple[int, ...]] | None,
    axis: Axis,
    keepdims: bool | None,
) -> Any:
    if order != "K":
        memory_order(order)
    if isinstance(out, tuple):
        (out,) = out
    if ufunc is np.matmul and type(x1) is DistributedArray is type(x2) and casting == "same_kind":
        plain = all(item is None for item in (out, dtype, signature, axes, axis, keepdims))
        if plain and (ready := again(("product",), x1, x2)) is not None:
            return ready
    context, (a, b) = operands(x1, x2, out=out)
    if axes is None and axis is None and keepdims is None:
        return _on_last(context, ufunc, a, b, out, casting, dtype, signature)
    a, b, target = _placed(ufunc, a, b, {"axes": axes, "axis": axis, "keepdims": keepdims})
    inner = out
    if out is not None and hasattr(out, "ndim") and out.ndim >= len(target):
        inner = _to_last(out, [axis if axis < 0 else axis - out.ndim for axis in target])
        if keepdims and inner.shape[-1] == 1:
            inner = view(inner, index=(..., 0))
    value = _on_last(context, ufunc, a, b, inner, casting, dtype, signature)
    if out is not None:
        return out
    if keepdims:
        value = np.expand_dims(value, -1)
    return np.moveaxis(value, range(-len(target), 0), target) if target else value


def _placed(ufunc: np.ufunc, a: AnyArray, b: AnyArray, given: dict[str, Any]) -> tuple[Any, Any, tuple[int, ...]]:
    """The operands with their core axes last, and where those of the result belong; after NumPy itself has accepted or
    refused a call like it."""
    kwargs = {name: value for name, value in given.items() if value is not None}
    models = [np.zeros([n and 1 for n in array.shape], array.dtype) for array in (a, b)]
    with np.errstate(all="ignore"):
        result = ufunc(*models, **kwargs)
    axis = given["axis"]
    axes = given["axes"]
    if axes is None:
        axes = [-1 if axis is None else axis] * (3 if given["keepdims"] else 2)
    listed = [tuple(map(operator.index, each)) if np.iterable(each) else (operator.index(each),) for each in axes]
    batch = max(array.ndim - len(own) for array, own in zip((a, b), listed, strict=False))
    count = result.ndim - batch
    target = tuple(listed[2]) if len(listed) > 2 else tuple(range(-count, 0))
    return _to_last(a, listed[0]), _to_last(b, listed[1]), target


def within(a: DistributedArray, b: DistributedArray, nbytes: float) -> Any:
    """``a @ b`` of matrices, in so many bytes of all devices together: those that are left to it where others are kept."""
    if len(a.layout.devices) == 1 or not a.size or not b.size:
        return a @ b
    problem, _, dtype = _described(np.matmul, a, b, "same_kind", None, None)
    whole = a.nbytes + b.nbytes + prod(problem.shape) * dtype.itemsize
    return contract(a._context, "matmul", problem, a, b, dtype, bound=round(nbytes / max(whole, 1), 2))


def _on_last(
    context: Context,
    ufunc: np.ufunc,
    a: Any,
    b: Any,
    out: Out,
    casting: str,
    dtype: DTypeLike,
    signature: str | tuple[DTypeLike, ...] | None,
) -> Any:
    """The call over the last axes of the operands."""
    name = ufunc.__name__
    key = ("product", ufunc, a.shape, b.shape, a.dtype, b.dtype, casting, dtype, signature)
    known = context.layouts.remembered(key)
    if known is None:
        known = context.layouts.remember(key, _described(ufunc, a, b, casting, dtype, signature))
    problem, keys, result = known
    if out is not None:
        _check_out(ufunc, out, a.shape, b.shape, problem, result, casting)
    a, b = (array if key is None else view(array, index=key) for array, key in zip((a, b), keys))
    conjugate = ufunc in (np.vecdot, np.vecmat)
    value = contract(context, name, problem, a, b, result, conjugate=conjugate, detached=not problem.shape)
    return value if out is None else overwrite(out, value)


def _described(
    ufunc: np.ufunc,
    a: AnyArray,
    b: AnyArray,
    casting: str,
    dtype: DTypeLike,
    signature: str | tuple[DTypeLike, ...] | None,
) -> tuple[Problem, tuple[Any, Any], Any]:
    """What is contracted, the indices that drop broadcast axes, and the result's dtype."""
    cores = _CORES[ufunc]
    short = [core.replace(own, "") for core, own in zip(cores, "mn")]
    wanted = [s if ufunc is np.matmul and x.ndim == 1 else core for x, core, s in zip((a, b), cores, short)]
    problem, keys = _matching(ufunc, a.shape, b.shape, *wanted)
    kwargs: dict[str, Any] = {"casting": casting}
    if dtype is not None:
        kwargs["dtype"] = dtype
    if signature is not None:
        kwargs["signature"] = signature
    empties = [np.empty((0,) * len(core), array.dtype) for core, array in zip(cores, (a, b))]
    return problem, keys, ufunc(*empties, **kwargs).dtype


def _to_last(array: Any, axes: Sequence[int]) -> Any:
    """A view with `axes`, each in range, behind the others."""
    last = [axis % array.ndim for axis in axes]
    order = [i for i in range(array.ndim) if i not in last]
    return view(array, transpose=(*order, *last))


def _matching(
    ufunc: np.ufunc, a: tuple[int, ...], b: tuple[int, ...], first: str, second: str
) -> tuple[Problem, tuple[Any, Any]]:
    """The problem of two shapes with the core axes `first` and `second`, and for each operand the index that drops the
    batch axes along which it is broadcast (or None).
    """
    if len(a) < len(first) or len(b) < len(second):
        raise numpys_error(ufunc, a, b)
    sizes = dict(zip(first, a[len(a) - len(first) :]))
    for core, size in zip(second, b[len(b) - len(second) :]):
        if sizes.setdefault(core, size) != size:
            raise numpys_error(ufunc, a, b)
    batches = (a[: len(a) - len(first)], b[: len(b) - len(second)])
    try:
        batch = np.broadcast_shapes(*batches)
    except ValueError:
        raise numpys_error(ufunc, a, b) from None
    present = [core for core in "mkn" if core in sizes]
    number = {core: len(batch) + i for i, core in enumerate(present)}
    labels: list[tuple[int, ...]] = []
    keys: list[Any] = []
    for own, core in zip(batches, (first, second)):
        lead = len(batch) - len(own)
        dropped = [size == 1 and batch[lead + i] != 1 for i, size in enumerate(own)]
        kept = [lead + i for i, gone in enumerate(dropped) if not gone]
        labels.append((*kept, *(number[c] for c in core)))
        keys.append((*(0 if gone else slice(None) for gone in dropped), ...) if any(dropped) else None)
    counts = (len(batch), int("m" in sizes), 1, int("n" in sizes))
    problem = Problem((*batch, *(sizes[core] for core in present)), counts, labels[0], labels[1])
    return problem, (keys[0], keys[1])


def numpys_error(function: Callable[..., Any], a: tuple[int, ...], b: tuple[int, ...]) -> Exception:
    """What NumPy raises for operands of these shapes, which it refuses before it computes anything."""
    zero = np.zeros(())
    try:
        function(np.broadcast_to(zero, a), np.broadcast_to(zero, b))
    except Exception as error:
        return error
    raise AssertionError(f"{function.__name__} of shapes {a} and {b} is refused here and not by NumPy")


def _check_out(
    ufunc: np.ufunc, out: Any, a: tuple[int, ...], b: tuple[int, ...], problem: Problem, dtype: Any, casting: Any
) -> None:
    """Refuse an ``out=`` that the result does not fit."""
    if not isinstance(out, (DistributedArray, np.ndarray)):
        raise TypeError(f"return arrays must be of ArrayType, and out= of {ufunc.__name__} got {type(out).__name__}")
    if not np.can_cast(dtype, out.dtype, casting):
        raise TypeError(
            f"Cannot cast ufunc {ufunc.__name__!r} output from {dtype!r} to {out.dtype!r} with casting rule {casting!r}: "
            f"pass an out= of dtype {dtype}"
        )
    batch, end = problem.counts[0], len(out.shape) - len(problem.shape) + problem.counts[0]
    fits = end >= batch and out.shape[end:] == problem.shape[batch:]
    if not fits or broadcast_shape(out.shape[:end], problem.shape[:batch]) != out.shape[:end]:
        raise ValueError(
            f"{ufunc.__name__}: out= has shape {out.shape}, and the product of shapes {a} and {b} has shape "
            f"{problem.shape}: pass an array of that shape"
        )
    check_writable(out)
