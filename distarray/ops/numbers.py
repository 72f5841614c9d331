"""What kind of numbers there are, and what stands in for those that are none: ``isreal``, ``isposinf``, ``nan_to_num``, ``fix``,
``sinc``, ``i0`` and their kin; and which arrays share memory."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from distarray.algorithms.local import mapped
from distarray.array.aliases import ArrayLike, Out
from distarray.array.documented import described_as
from distarray.array.functions import implements
from distarray.array.state import DistributedArray
from distarray.array.writing import deliver
from distarray.devices.arrays import DeviceArray, Library
from distarray.geometry import Region
from distarray.ops import reductions
from distarray.ops.choosing import where
from distarray.ops.convert import asarray
from distarray.ops.creation import zeros_like
from distarray.ops.manipulation import broadcast_to
from distarray.ops.recording import into
from distarray.storage import PartStorage, Storage

__all__ = [
    "fix", "i0", "iscomplex", "isneginf", "isposinf", "isreal", "may_share_memory", "nan_to_num", "real_if_close",
    "shares_memory", "sinc",
]  # fmt: skip


@implements(np.isreal)
def isreal(x: ArrayLike) -> DistributedArray:
    """Where elements have no imaginary part.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    DistributedArray
        Of bool.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.isreal(da.asarray([1.0, 2j])).tolist()
    [True, False]
    """
    return asarray(x).imag == 0


@implements(np.iscomplex)
def iscomplex(x: ArrayLike) -> DistributedArray:
    """Where elements have an imaginary part.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    DistributedArray
        Of bool.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.iscomplex(da.asarray([1.0, 2j])).tolist()
    [False, True]
    """
    array = asarray(x)
    return array.imag != 0 if array.dtype.kind == "c" else zeros_like(array, dtype=bool)


def _infinite(x: ArrayLike, out: Out, negative: bool) -> Any:
    array = asarray(x)
    if array.dtype.kind in "cmM":
        raise TypeError(f"This operation is not supported for {array.dtype} values because it would be ambiguous.")
    sign = (
        np.signbit(array)
        if array.dtype.kind in "fV"
        else array < 0
        if array.dtype.kind == "i"
        else zeros_like(array, dtype=bool)
    )
    found: Any = np.isinf(array) & (sign if negative else ~sign)
    return found if out is None else into(found, out)


@implements(np.isposinf)
def isposinf(x: ArrayLike, out: Out = None) -> Any:
    """Where elements are +inf.

    Parameters
    ----------
    x : array_like
    out : DistributedArray or numpy.ndarray, optional
        Where to put the result.

    Returns
    -------
    DistributedArray
        Of bool.

    Raises
    ------
    TypeError
        The array is complex.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.isposinf(da.asarray([1.0, np.inf, -np.inf])).tolist()
    [False, True, False]
    """
    return _infinite(x, out, False)


@implements(np.isneginf)
def isneginf(x: ArrayLike, out: Out = None) -> Any:
    """Where elements are −inf.

    Parameters
    ----------
    x : array_like
    out : DistributedArray or numpy.ndarray, optional
        Where to put the result.

    Returns
    -------
    DistributedArray
        Of bool.

    Raises
    ------
    TypeError
        The array is complex.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.isneginf(da.asarray([1.0, np.inf, -np.inf])).tolist()
    [False, False, True]
    """
    return _infinite(x, out, True)


@implements(np.nan_to_num)
def nan_to_num(
    x: ArrayLike,
    copy: bool = True,
    nan: ArrayLike = 0.0,
    posinf: ArrayLike | None = None,
    neginf: ArrayLike | None = None,
) -> DistributedArray:
    """The array with NaN and infinities replaced.

    Parameters
    ----------
    x : array_like
    copy : bool
        False: in place.
    nan, posinf, neginf : scalar or array_like, optional
        What replaces them. Default: 0, and the largest and least finite numbers.

    Returns
    -------
    DistributedArray
        `x` itself with ``copy=False``.

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import numpy as np, distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     np.nan_to_num(da.asarray([1.0, np.nan]), nan=-1.0).get()
    array([ 1., -1.])
    """
    array = asarray(x)
    if array.dtype.kind not in "fc":
        return array.copy() if copy else array
    limits = np.finfo(array.dtype)
    high, low = limits.max if posinf is None else posinf, limits.min if neginf is None else neginf

    def replaced(part: DistributedArray) -> Any:
        kind = part.dtype
        for mask, value in ((np.isnan(part), nan), (isposinf(part), high), (isneginf(part), low)):
            fitting = asarray(value).astype(part.dtype) if np.ndim(value) else part.dtype.type(value)
            part = where(mask, fitting, part)
        return broadcast_to(part.astype(kind, copy=False), array.shape)

    result = array.copy() if copy else array
    if array.dtype.kind == "c":
        result.real, result.imag = replaced(array.real), replaced(array.imag)
    elif not copy:
        result[...] = replaced(array)
    else:
        result = replaced(array)
    return deliver(result, None) if copy else result


@implements(np.real_if_close)
def real_if_close(a: ArrayLike, tol: float = 100) -> DistributedArray:
    """The real part of a complex array all of whose imaginary parts are near zero; else the array.

    Parameters
    ----------
    a : array_like
    tol : float
        How near is near: so many times the dtype's epsilon where `tol` is above 1, else `tol` itself.

    Returns
    -------
    DistributedArray

    Notes
    -----
    Communication: whether all are near zero.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.real_if_close(da.asarray([1 + 1e-17j])).tolist()
    [1.0]
    """
    array = asarray(a)
    if array.dtype.kind != "c":
        return array
    bound = np.finfo(array.dtype).eps * tol if tol > 1 else tol
    return array.real if bool(reductions.all(np.absolute(array.imag) < bound)) else array


@implements(np.fix)
def fix(x: ArrayLike, out: Out = None) -> Any:
    """Elements rounded toward zero.

    Parameters
    ----------
    x : array_like
    out : DistributedArray or numpy.ndarray, optional
        Where to put the result.

    Returns
    -------
    DistributedArray

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.fix(da.asarray([1.7, -1.7])).tolist()
    [1.0, -1.0]
    """
    return np.trunc(asarray(x), out=cast("Any", out))


@implements(np.sinc)
def sinc(x: ArrayLike) -> DistributedArray:
    """The function sin(πx) / (πx), 1 at 0.

    Parameters
    ----------
    x : array_like

    Returns
    -------
    DistributedArray

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.sinc(da.asarray([0.0, 0.5])).round(3).tolist()
    [1.0, 0.637]
    """
    angle = np.pi * asarray(x)
    tiny = np.finfo(angle.dtype).eps if angle.dtype.kind == "f" else 1e-20
    angle = where(angle, angle, angle.dtype.type(tiny))
    return np.sin(angle) / angle  # type: ignore[no-any-return]


BESSEL_BLOCK = 1 << 15
"""Elements of which the intermediate arrays of `i0` stay in a core's cache."""


@implements(np.i0)
def i0(x: ArrayLike) -> DistributedArray:
    """Modified Bessel function of the first kind, order 0.

    Parameters
    ----------
    x : array_like
        Real.

    Returns
    -------
    DistributedArray

    Raises
    ------
    TypeError
        The array is complex.

    Notes
    -----
    Communication: none; evaluated at the call.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.i0(da.asarray([0.0, 1.0])).round(3).tolist()
    [1.0, 1.266]
    """
    array = asarray(x)
    if array.dtype.kind == "c":
        raise TypeError("i0 not supported for complex values")
    if array.dtype.kind != "f" or not array.dtype.isnative:
        array = array.astype(np.result_type(array.dtype) if array.dtype.kind == "f" else float)
    context = array._context
    with context.lock:
        source = array._operand("i0")
        return mapped(context, [source.arrays], source.layout, array.dtype, _bessel, "i0")


def _bessel(lib: Library, part: DeviceArray) -> Any:
    """The function on a chunk; on the host by blocks, since NumPy's makes a dozen arrays of the size of its argument."""
    if not isinstance(part, np.ndarray):
        return lib.i0(part)
    flat = part.reshape(-1)
    found = np.empty(flat.size, flat.dtype)
    for first in range(0, flat.size, BESSEL_BLOCK):
        found[first : first + BESSEL_BLOCK] = np.i0(flat[first : first + BESSEL_BLOCK])
    return found.reshape(part.shape)


def _parts_meet(one: Storage, two: Storage) -> bool:
    """Whether two parts of the same storage have bytes of an element in common."""
    whole = one.root.version.layout.shape
    if any(storage.version.layout.shape[: len(whole)] != whole for storage in (one, two)):
        return True  # windows, and elements of another size, count as sharing where they might
    sample = np.empty((1,) * len(one.root.version.layout.shape), one.root.version.dtype)
    first, second = [storage.show(sample) if isinstance(storage, PartStorage) else sample for storage in (one, two)]
    return bool(np.shares_memory(first, second))


def _share(a: ArrayLike, b: ArrayLike) -> bool:
    if not isinstance(a, DistributedArray) or not isinstance(b, DistributedArray) or a._own().root is not b._own().root:
        return False
    one, two = a._view_map(), b._view_map()
    if not a.size or not b.size:
        return False
    if a._own() is not b._own():  # both are parts of elements, such as ``x.real``
        return _parts_meet(a._own(), b._own())
    if one.inner is not None or two.inner is not None or one.base != two.base:
        return True
    return one.image(Region.full(a.shape)).intersect(two.image(Region.full(b.shape))) is not None


@implements(np.shares_memory)
def shares_memory(a: ArrayLike, b: ArrayLike, /, max_work: int = -1) -> bool:
    """Whether a write to one array shows in the other.

    Both are then views of one array, and show an element in common. Views of reshaped arrays count as sharing where
    they might.

    Parameters
    ----------
    a, b : array_like
    max_work : int
        Accepted for NumPy's sake.

    Returns
    -------
    bool

    Notes
    -----
    Communication: none.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     x = da.arange(4)
    ...     da.shares_memory(x, x[1:]), da.shares_memory(x[:2], x[2:])
    (True, False)
    """
    return _share(a, b)


@implements(np.may_share_memory)
@described_as(shares_memory)
def may_share_memory(a: ArrayLike, b: ArrayLike, /, max_work: int = 0) -> bool:
    """The same as :func:`shares_memory`.

    Notes
    -----
    Communication: none.
    """
    return _share(a, b)
