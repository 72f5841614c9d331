"""Arrays element by element in C order: ``x.flat``, ``ndenumerate``, ``broadcast``. What is iterated over is fetched in pieces."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from distarray.array.aliases import ArrayLike, DTypeLike, Key
from distarray.array.place import host_nested, host_values, nested
from distarray.array.shapes import broadcast_shape
from distarray.array.state import DistributedArray, copy_array
from distarray.array.writing import ASSIGNED, check_writable
from distarray.ops.convert import asarray
from distarray.ops.joining import concatenate
from distarray.ops.manipulation import broadcast_to
from distarray.ops.placing import put
from distarray.ops.reshaping import flatten, ravel, reshape
from distarray.ops.taking import take

__all__ = ["broadcast", "ndenumerate"]

_PIECE = 1 << 16
"""Elements that are fetched at once."""


def _elements(x: DistributedArray) -> Iterator[Any]:
    """The elements as NumPy scalars."""
    flat = ravel(x)
    for start in range(0, x.size, _PIECE):
        yield from flat[start : start + _PIECE].get()


class Flat:
    """The elements in C order, as ``numpy.ndarray.flat``: to iterate over, to read and to write.

    Notes
    -----
    Communication: iterating brings the elements to every process, 65,536 at a time. Slices communicate as
    :func:`distarray.ravel`, index arrays as :func:`distarray.take` and :func:`distarray.put`.
    """

    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None  # so NumPy leaves comparisons to this class, and does not iterate over it

    def __init__(self, base: DistributedArray) -> None:
        self.base = base
        self.index = 0
        self._iterator: Iterator[Any] | None = None

    @property
    def coords(self) -> tuple[int, ...]:
        """Where the next element stands."""
        if not self.base.size or self.index >= self.base.size:
            return self.base.shape
        return tuple(int(i) for i in np.unravel_index(self.index, self.base.shape)) if self.base.ndim else ()

    def __len__(self) -> int:
        return self.base.size

    def __iter__(self) -> Flat:
        return Flat(self.base) if self._iterator is None else self

    def __next__(self) -> Any:
        if self._iterator is None:
            self._iterator = _elements(self.base)
        value = next(self._iterator)
        self.index += 1
        return value

    def copy(self) -> DistributedArray:
        """A copy in one axis."""
        return flatten(self.base)

    def __array__(self, dtype: DTypeLike = None, copy: bool | None = None) -> Any:
        return ravel(self.base).__array__(dtype, copy)

    def _place(self, key: Key) -> int | None:
        """The position that an index means; None for one that means several."""
        if isinstance(key, DistributedArray) and not key.ndim and key.dtype.kind in "iu":
            key = int(key)
        if not isinstance(key, (int, np.integer)) or isinstance(key, (bool, np.bool_)):
            return None
        size = self.base.size
        if not -size <= key < size:
            raise IndexError(f"index {key} is out of bounds for size {size}")
        return int(key) % size

    def _coordinates(self, place: int) -> tuple[int, ...]:
        return tuple(int(i) for i in np.unravel_index(place, self.base.shape)) if self.base.ndim else ()

    def __getitem__(self, key: Key) -> Any:
        if isinstance(key, tuple) and len(key) == 1:
            key = key[0]
        place = self._place(key)
        if place is not None:
            return self.base[self._coordinates(place)]
        if key is Ellipsis or isinstance(key, slice):
            return copy_array(ravel(self.base)[key])
        if isinstance(key, tuple):
            raise IndexError("unsupported iterator index")
        return take(self.base, self._places(key))

    def __setitem__(self, key: Key, value: ArrayLike) -> None:
        if isinstance(key, tuple) and len(key) == 1:
            key = key[0]
        x = self.base
        check_writable(x, *ASSIGNED)
        place = self._place(key)
        if place is not None:
            x[self._coordinates(place)] = _single(x, value)
            return
        if isinstance(key, tuple):
            raise IndexError("unsupported iterator index")
        places = key if key is Ellipsis or isinstance(key, slice) else self._places(key)
        if isinstance(value, (list, tuple)):
            value = nested(value, x.dtype)
        elif not isinstance(value, DistributedArray):
            value = np.asarray(value, x.dtype)  # wraps NumPy's numbers, and refuses Python's that do not fit
        given: Any = (
            ravel(asarray(value)) if value.ndim else value if isinstance(value, DistributedArray) else value[()]
        )
        whole = key is Ellipsis or (isinstance(key, slice) and key.indices(x.size) == (0, x.size, 1))
        if whole:
            if np.ndim(given) == 0:
                x[...] = given
            elif given.size:
                x[...] = reshape(_repeated(given, x.size), x.shape)
            return
        if np.ndim(given) and not given.size:
            return
        if isinstance(key, slice):
            flat = ravel(x)
            if flat._own() is x._own():
                n = len(range(*key.indices(x.size)))
                flat[key] = given if np.ndim(given) == 0 else _repeated(given, n)
                return
        put(x, self._places(key) if isinstance(key, slice) else places, given)

    def _places(self, key: Key) -> Any:
        """The positions that an index array, a mask or a slice means."""
        if isinstance(key, slice):
            return np.arange(self.base.size)[key]
        is_array = isinstance(key, (DistributedArray, np.ndarray))
        key = host_values(key) if isinstance(key, DistributedArray) else np.asarray(key)
        if key.dtype.kind == "b":
            if key.shape != (self.base.size,):
                raise IndexError(f"boolean index of shape {key.shape} for {self.base.size} elements in one axis")
            return np.flatnonzero(key)
        if not key.size and not is_array:
            return key.astype(np.intp)
        if key.dtype.kind not in "iu":
            raise IndexError("arrays used as indices must be of integer (or boolean) type")
        return key

    def __eq__(self, other: object) -> Any:
        return ravel(self.base) == _flattened(other)

    def __ne__(self, other: object) -> Any:
        return ravel(self.base) != _flattened(other)

    def __lt__(self, other: ArrayLike) -> Any:
        return ravel(self.base) < _flattened(other)

    def __le__(self, other: ArrayLike) -> Any:
        return ravel(self.base) <= _flattened(other)

    def __gt__(self, other: ArrayLike) -> Any:
        return ravel(self.base) > _flattened(other)

    def __ge__(self, other: ArrayLike) -> Any:
        return ravel(self.base) >= _flattened(other)


def _single(x: DistributedArray, value: object) -> Any:
    """A value for one element, converted or refused as by NumPy's iterator."""
    if isinstance(value, DistributedArray):
        if value.ndim and not (x.dtype.kind == "b" and value.size == 1):
            raise ValueError("Error setting single item of array.")
        return reshape(value, ())
    element = np.empty(1, x.dtype)
    element.flat[0] = host_nested(value) if isinstance(value, list) else value
    return element[0]


def _flattened(other: object) -> Any:
    return ravel(other.base) if isinstance(other, Flat) else other


def _repeated(value: DistributedArray, n: int) -> DistributedArray:
    """The first `n` elements of a vector that starts again where it ends."""
    if value.size < n:
        value = concatenate([value] * math.ceil(n / value.size))
    return value[:n]


def set_flat(x: DistributedArray, value: ArrayLike) -> None:
    """``x.flat = value``."""
    Flat(x)[...] = value


class ndenumerate:
    """Pairs of an index and the element there, in C order, as ``numpy.ndenumerate``.

    Parameters
    ----------
    arr : array_like

    Notes
    -----
    Communication: the elements to every process, 65,536 at a time.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     list(da.ndenumerate(da.asarray([[5, 6]])))
    [((0, 0), np.int64(5)), ((0, 1), np.int64(6))]
    """

    def __init__(self, arr: ArrayLike) -> None:
        x = asarray(arr)
        self.iter = Flat(x)
        self._pairs = zip(np.ndindex(*x.shape), self.iter, strict=True)

    def __next__(self) -> tuple[tuple[int, ...], Any]:
        return next(self._pairs)

    def __iter__(self) -> ndenumerate:
        return self


class broadcast:
    """Arrays broadcast against each other: their common shape, and tuples of their elements.

    Parameters
    ----------
    *args : array_like

    Attributes
    ----------
    shape : tuple of int
    size, ndim, nd, numiter : int
        `numiter` is the number of arrays.
    iters : tuple
        An iterator over the elements of each array.

    Notes
    -----
    Communication: none; iterating brings the elements to every process.

    Examples
    --------
    >>> import distarray as da
    >>> with da.init(devices=2, kind="host"):
    ...     da.broadcast(da.ones((2, 1)), da.ones(3)).shape
    (2, 3)
    """

    def __init__(self, *args: Any) -> None:
        arrays = [asarray(a) for a in args]
        self.shape = broadcast_shape(*[a.shape for a in arrays]) if arrays else ()
        self.size, self.ndim, self.numiter = math.prod(self.shape), len(self.shape), len(arrays)
        self.nd = self.ndim
        self._arrays = [broadcast_to(a, self.shape) for a in arrays]
        self.index = 0
        self.reset()

    def reset(self) -> None:
        """Begin again."""
        self.iters = tuple([Flat(a) for a in self._arrays])
        self._tuples = zip(*self.iters, strict=True)
        self.index = 0

    def __iter__(self) -> broadcast:
        return self

    def __next__(self) -> tuple[Any, ...]:
        found = next(self._tuples)
        self.index += 1
        return found
