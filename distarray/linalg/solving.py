"""Systems of equations and what follows from their solution: ``solve``, ``inv``, ``det``, ``slogdet``, ``matrix_power``,
``tensorsolve``, ``tensorinv``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from distarray.algorithms.lu import LU
from distarray.array.aliases import ArrayLike
from distarray.array.functions import implements
from distarray.array.place import as_array
from distarray.array.shown import seen
from distarray.array.state import DistributedArray
from distarray.devices import Device
from distarray.devices.arrays import AnyDType, DeviceArray
from distarray.linalg.matrices import Linear, arrays, collected, common, dealt, each, identity, is_spread, real, square
from distarray.linalg.products import within

__all__ = ["det", "inv", "matrix_power", "slogdet", "solve", "tensorinv", "tensorsolve"]

WHOLE = 1024
"""Matrices of at most so many rows go whole to one device to be factorized: with two cores it is done sooner there."""

SlogdetResult: Any = type(np.linalg.slogdet(np.eye(1)))


@implements(np.linalg.solve)
def solve(a: ArrayLike, b: ArrayLike) -> DistributedArray:
    """Solve ``a @ x = b``, as ``numpy.linalg.solve``, by LU with partial pivoting.

    Parameters
    ----------
    a : array_like
        Matrices (..., n, n).
    b : array_like
        One vector (n,), or right-hand sides (..., n, k). Batches broadcast.

    Returns
    -------
    DistributedArray
        (..., n) or (..., n, k), in the dtype that both are computed in.

    Raises
    ------
    LinAlgError
        `a` has fewer than two axes, is not square, or is singular: on all processes.
    ValueError
        The shapes do not fit.

    Notes
    -----
    Communication: none for stacks that are split over the batch. A matrix of at most 1024 rows goes whole to one device, or,
    with more right-hand sides than rows, to each that has some of their columns. A larger one is dealt to its devices in
    panels of columns, and moves each panel to the devices to its right, n²/2 elements to each, and once more to the devices
    with right-hand sides, in memory of one matrix more. Where the devices have no room for that, half a matrix more is
    enough: the columns are then worked on in strips, and each panel moves once for each strip to its right, and to solve
    once more. See ``distarray.algorithms.lu``, also for the sources. The result is in the default layout, blocks of rows,
    or with many right-hand sides in theirs.

    Memory on each device, of a spread matrix: 2.5 times its share of the operands and the result.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.asarray(np.array([[2.0, 0.0], [0.0, 4.0]]), layout=da.blocks(0))
    ...     np.linalg.solve(x, np.array([2.0, 2.0])).get().tolist()
    [1.0, 0.5]
    """
    _, (x, y) = arrays(a, b)
    square(x)
    if not y.ndim:
        raise ValueError("solve: b must have an axis at least, and has shape (): pass a vector or a matrix")
    x, y = common(x, y)
    n = x.shape[-1]
    is_vector = y.ndim == 1
    if y.shape[0 if is_vector else -2] != n:
        raise ValueError(
            f"solve: Input operand 1 has a mismatch in its core dimension 0: a has shape {x.shape} and b {y.shape}; pass b "
            f"of shape ({n},) or (..., {n}, k)"
        )
    rest = () if is_vector else y.shape[-1:]
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[: y.ndim - 1 - len(rest)])
    x, y = _broadcast(x, (*batch, n, n)), _broadcast(y, (*batch, n, *rest))
    core = (n, *rest)
    if not batch and is_spread(x, WHOLE) and prod(core):
        with x._context.lock:
            source = x.mT._operand("solve")
            sides = dealt("solve", y[:, None] if is_vector else y, like=source)
            _regular(LU(x._context, source, "solve", sides)).solve()
            found = collected(sides)
        return found[:, 0] if is_vector else found
    here = seen(x) is not None and seen(y) is not None
    if (
        rest and not batch and rest[0] > n and prod(core) and not here
    ):  # many right-hand sides: solutions stay where these are
        return each("solve", [y.mT], _solve_rows, [((n,), x.dtype)], [1], shared=[x], fallible=True)[0].mT
    return each("solve", [x, y], _solve if rest or not batch else _solve_one, [(core, x.dtype)], [2, len(core)],
                fallible=True)[0]  # fmt: skip


def _regular(factors: LU) -> LU:
    """The factors, of which no pivot is zero."""
    if factors.is_singular:
        raise Linear("Singular matrix")
    return factors


def _broadcast(x: DistributedArray, shape: tuple[int, ...]) -> Any:
    return x if x.shape == shape else np.broadcast_to(x, shape)


def _solve(device: Device, a: DeviceArray, b: DeviceArray) -> Any:
    if device.kind != "host" and not b.size:  # CuPy divides by a stride of 0; NumPy refuses singular matrices here, too
        if a.size:
            inv_here(device, a)
        return device.lib.empty(b.shape, np.result_type(a.dtype, b.dtype))
    return _or_nan(device, a, lambda a: device.lib.linalg.solve(a, b))


def _or_nan(device: Device, a: DeviceArray, compute: Callable[[Any], Any]) -> Any:
    """What is computed of matrices; cuSOLVER calls some with infinities or NaN singular, of which LAPACK makes NaN."""
    lib = device.lib
    with device.lapack.raising():
        try:
            return compute(a)
        except Linear as error:
            if device.kind == "host":
                raise
            odd = ~lib.isfinite(a).all(axis=(-2, -1))[..., None, None]
            if not odd.any():
                raise Linear("Singular matrix") from error
            others = lib.where(odd, lib.eye(a.shape[-1], dtype=a.dtype), a)
            return lib.where(odd, lib.nan, _or_nan(device, others, compute))


def _solve_rows(device: Device, b: DeviceArray, a: DeviceArray) -> Any:
    return _solve(device, a, b.T).T


def _solve_one(device: Device, a: DeviceArray, b: DeviceArray) -> Any:
    return _solve(device, a, b[..., None])[..., 0]


@implements(np.linalg.inv)
def inv(a: ArrayLike) -> DistributedArray:
    """Inverse of square matrices, as ``numpy.linalg.inv``.

    Parameters
    ----------
    a : DistributedArray
        Matrices (..., n, n).

    Returns
    -------
    DistributedArray
        Of the shape of `a`.

    Raises
    ------
    LinAlgError
        `a` has fewer than two axes, is not square, or is singular: on all processes.

    Notes
    -----
    Communication: that of :func:`solve` with the identity's columns, which are made where they are needed.

    Memory on each device, of a spread matrix: 2.5 times its share of it and the result.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     np.linalg.inv(da.asarray(np.diag([2.0, 4.0]))).get().tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    _, (x,) = arrays(a)
    square(x)
    (x,) = common(x)
    if is_spread(x, WHOLE):
        with x._context.lock:
            source = x.mT._operand("inv")
            one = identity("inv", x, like=source)
            _regular(LU(x._context, source, "inv", one)).solve()
            return collected(one)
    return each("inv", [x], inv_here, [(x.shape[-2:], x.dtype)], [2], fallible=True)[0]


def inv_here(device: Device, a: DeviceArray) -> Any:
    return _or_nan(device, a, device.lib.linalg.inv)


@implements(np.linalg.slogdet)
def slogdet(a: ArrayLike) -> Any:
    """Sign and logarithm of the absolute value of the determinant, as ``numpy.linalg.slogdet``.

    Parameters
    ----------
    a : DistributedArray
        Matrices (..., n, n).

    Returns
    -------
    SlogdetResult
        sign (...,) in the dtype of `a` (a number on the unit circle where it is complex) and logabsdet (...,), real. Of a
        singular matrix they are 0 and -inf.

    Raises
    ------
    LinAlgError
        `a` has fewer than two axes, or is not square.

    Notes
    -----
    Communication: that of the factorization in :func:`solve`, and the diagonal of U to all processes.

    Memory on each device, of a spread matrix: 2.5 times its share of it.
    """
    _, (x,) = arrays(a)
    square(x)
    (x,) = common(x)
    if is_spread(x, WHOLE):
        with x._context.lock:
            sign, logarithm = LU(x._context, x.mT._operand("slogdet"), "slogdet").slogdet()
        return SlogdetResult(_value(x, sign, x.dtype), _value(x, logarithm, real(x.dtype)))
    return SlogdetResult(*each("slogdet", [x], _slogdet, [((), x.dtype), ((), real(x.dtype))], [2]))


def _slogdet(device: Device, a: DeviceArray) -> Any:
    return tuple(device.lib.linalg.slogdet(a))


@implements(np.linalg.det)
def det(a: ArrayLike) -> DistributedArray:
    """Determinant of square matrices, as ``numpy.linalg.det``: from the factors of LU.

    Parameters
    ----------
    a : array_like
        Matrices (..., n, n).

    Returns
    -------
    DistributedArray
        Of the shape (...).

    Raises
    ------
    LinAlgError
        `a` has fewer than two axes, or is not square.

    Notes
    -----
    Communication: as for :func:`slogdet`.

    Memory on each device, of a spread matrix: 2.5 times its share of it.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     round(float(np.linalg.det(da.asarray(np.diag([2.0, 4.0])))))
    8
    """
    _, (x,) = arrays(a)
    square(x)
    (x,) = common(x)
    if is_spread(x, WHOLE):
        with x._context.lock, np.errstate(all="ignore"):
            sign, logarithm = LU(x._context, x.mT._operand("det"), "det").slogdet()
            return _value(x, sign * np.exp(logarithm), x.dtype)
    return each("det", [x], _det, [((), x.dtype)], [2])[0]


def _value(x: DistributedArray, value: ArrayLike, dtype: AnyDType) -> DistributedArray:
    """A value that all processes know, as a 0-d array beside `x`."""
    found = as_array(x._context, np.asarray(value, dtype))
    found._detached = True
    return found


def _det(device: Device, a: DeviceArray) -> Any:
    return device.lib.linalg.det(a)


@implements(np.linalg.matrix_power)
def matrix_power(a: ArrayLike, n: int) -> Any:
    """Square matrices to an integer power, as ``numpy.linalg.matrix_power``, by repeated squaring.

    Parameters
    ----------
    a : array_like
        Matrices (..., n, n).
    n : int
        The power; negative for that of the inverse.

    Returns
    -------
    DistributedArray
        Of the shape of `a`.

    Raises
    ------
    LinAlgError
        `a` has fewer than two axes, is not square, or is singular and `n` negative.
    TypeError
        `n` is no integer.

    Notes
    -----
    Communication: that of up to ``2 log2(n)`` products (:func:`matmul`), after :func:`inv` where `n` is negative.

    Memory on each device, of a spread matrix: 2.5 times its share of it and the result.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     np.linalg.matrix_power(da.asarray(np.array([[1, 1], [0, 1]])), 5).get().tolist()
    [[1, 5], [0, 1]]
    """
    _, (x,) = arrays(a)
    square(x)
    try:
        n = operator.index(n)
    except TypeError as error:
        raise TypeError(f"exponent must be an integer, and is {n!r}") from error
    if n == 0:
        identity = np.zeros_like(x)
        identity[...] = np.eye(x.shape[-1], dtype=x.dtype)
        return identity
    if n < 0:
        x, n = inv(x), -n
    power: Any = x
    for digit in f"{n:b}"[1:]:
        power = _times(power, power)
        if digit == "1":
            power = _times(power, x)
    return np.copy(x) if power is a else power


def _times(power: Any, x: DistributedArray) -> Any:
    """A product beside which `x` is kept, too."""
    return within(power, x, MATRICES * x.nbytes) if x.ndim == 2 else power @ x


MATRICES = 5
"""A product in a power may take so many matrices' memory of all devices: two and a half times operand and result."""


@implements(np.linalg.tensorinv)
def tensorinv(a: ArrayLike, ind: int = 2) -> Any:
    """Inverse of an array seen as a matrix of its first `ind` and its other axes, as ``numpy.linalg.tensorinv``.

    Parameters
    ----------
    a : array_like
    ind : int
        How many of the first axes are the matrix's rows.

    Returns
    -------
    DistributedArray
        With the other axes of `a` first, then those `ind`.

    Raises
    ------
    LinAlgError
        The matrix is not square, or singular.
    ValueError
        `ind` is not positive.

    Notes
    -----
    Communication: that of :func:`inv` and of the reshapes.
    """
    _, (x,) = arrays(a)
    if ind <= 0:
        raise ValueError(f"Invalid ind argument: it is {ind!r}; pass how many axes, one at least")
    shape = x.shape
    found = inv(np.reshape(x, (prod(shape[ind:]), -1)))
    return np.reshape(found, (*shape[ind:], *shape[:ind]))


@implements(np.linalg.tensorsolve)
def tensorsolve(a: ArrayLike, b: ArrayLike, axes: Sequence[int] | None = None) -> Any:
    """Solve ``tensordot(a, x, x.ndim) = b``, as ``numpy.linalg.tensorsolve``.

    Parameters
    ----------
    a, b : array_like
        The axes of `a` are those of `b` and then those of the result.
    axes : sequence of int, optional
        Axes of `a` to move to its end first.

    Returns
    -------
    DistributedArray
        With the last axes of `a`.

    Raises
    ------
    LinAlgError
        The axes do not make a square matrix, or it is singular.

    Notes
    -----
    Communication: that of :func:`solve` and of the reshapes.
    """
    _, (x, y) = arrays(a, b)
    if axes is not None:
        order = list(range(x.ndim))
        for axis in axes:
            order.remove(axis)
            order.insert(x.ndim, axis)
        x = np.transpose(x, order)
    shape = x.shape[y.ndim - x.ndim :]
    size = prod(shape)
    if x.size != size**2:
        raise Linear(
            f"Input arrays must satisfy the requirement prod(a.shape[b.ndim:]) == prod(a.shape[:b.ndim]): a has shape "
            f"{x.shape} and b {y.shape}"
        )
    return np.reshape(solve(np.reshape(x, (size, size)), np.reshape(y, (-1,))), shape)
