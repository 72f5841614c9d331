"""What Python and NumPy call on an array, for what people write as syntax: ``x[key]``, ``len(x)``, ``np.add(x, y)``, ``float(x)``.

The methods that people call by name stand in ``methods/``, and operators in ``array/operators.py``.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Collection, Iterator
from types import FrameType
from typing import Any, NoReturn, TypeGuard

import numpy as np

from distarray.algorithms.again import number_of
from distarray.array import elements, short, whole
from distarray.array.aliases import ArrayLike, DTypeLike, Key
from distarray.array.fallback import falls_back, on_host
from distarray.array.functions import FUNCTIONS, SHORT
from distarray.array.hints import touched
from distarray.array.shapes import own_protocol
from distarray.array.shown import seen
from distarray.array.state import DistributedArray, copy_array, detach
from distarray.array.writing import assign, element_of
from distarray.context import current_context
from distarray.errors import UnsupportedError, absent
from distarray.fusion.expr import real_for, warn_complex
from distarray.fusion.kept import ASSIGNED, is_named
from distarray.ops import (
    convert,
    data_types,
    indexing,
    memory,
    printing,
    reductions,
    scans,
    sources,
    ufuncs,
)
from distarray.transfer.asking import called_name, ensure_asked, ensure_not_fetched, refuse_strides
from distarray.transfer.ledger import note_to_host, watching

__all__ = ["Protocols", "as_numpy"]

_ARRAY = np.ndarray
_ASKED = frozenset(("__array_struct__", "__array_interface__"))
_NUMPYS = np.empty(0)
"""An array of NumPy's: it says what became of attributes that it once had."""

_UFUNC_METHODS: dict[str, Callable[..., Any]] = {
    "__call__": ufuncs.call, "accumulate": scans.accumulate, "at": indexing.ufunc_at, "outer": ufuncs.outer,
    "reduce": reductions.reduce, "reduceat": scans.reduceat,
}  # fmt: skip
"""What ``__array_ufunc__`` calls, by the name that NumPy passes."""


class Protocols(DistributedArray):
    """Given to the array by ``distributed_array.py``."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if not kwargs and method == "__call__" and ufunc.nout == 1 and ufunc.ntypes > 1 and ufunc.signature is None:
            found = whole.call(ufunc, inputs)
            if found is not NotImplemented:
                return found
            found = ufuncs.beyond(ufunc, inputs, None, True, kwargs)
        else:
            found = _UFUNC_METHODS[method](ufunc, *inputs, **kwargs)
        if found is NotImplemented and any(
            _is_dask(item) for item in inputs
        ):  # Dask leaves what it does not know to them
            computed = [sources.from_dask(item) if _is_dask(item) else item for item in inputs]
            return _UFUNC_METHODS[method](ufunc, *computed, **kwargs)
        return found

    def __array_function__(
        self, func: Callable[..., Any], types: Collection[type], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        for kind in types:
            if kind is DistributedArray or kind is _ARRAY:
                continue
            if not issubclass(kind, (DistributedArray, np.ndarray, np.generic)) or own_protocol(kind):
                return NotImplemented
        implementation = FUNCTIONS.get(func)
        if implementation is None:
            name = f"{getattr(func, '__module__', 'numpy')}.{getattr(func, '__name__', func)}"
            if falls_back():
                return on_host(self._context, name, func, args, kwargs)
            raise UnsupportedError(
                f"{name} has no distributed implementation; nothing was gathered. To run it on one host, call it on "
                f"x.get(), or inside `with distarray.host_fallback():`; to run it on each chunk, use distarray.map_chunks"
            )
        if func in SHORT:
            ready = short.function(func, args, kwargs)
            if ready is not NotImplemented:
                return ready
            implementation = getattr(implementation, "__wrapped__", implementation)
        token = current_context.set(self._context)
        try:
            return implementation(*args, **kwargs)
        finally:
            current_context.reset(token)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return data_types.namespace(api_version)

    def __array__(self, dtype: DTypeLike = None, copy: bool | None = None) -> Any:
        if copy is False:
            raise ValueError("a distributed array can't become a NumPy array without a copy: use np.asarray(x)")
        frame = sys._getframe(1)
        if frame.f_code.co_name == "as_strided":
            refuse_strides(frame, self.shape, self.dtype.itemsize)
        if watching.get() is not None:
            ensure_asked(frame, self.nbytes)
        elif (dtype is None or dtype == self._dtype) and self._node is None and type(shown := seen(self)) is _ARRAY:
            return shown.copy()  # what NumPy fetches for `host[...] = x` too, where it passes the dtype on
        return self._value() if dtype is None else as_numpy(self, dtype)

    def __getattr__(self, name: str) -> NoReturn:
        if name in _ASKED:  # by NumPy, before it calls __array__
            raise AttributeError(name)
        if name.startswith("__"):
            raise AttributeError(f"DistributedArray has no attribute {name!r}", name=name, obj=self)
        reason = memory.ELSEWHERE.get(name, "it has no distributed implementation")
        if self._detached and not hasattr(np.ndarray, name):
            raise absent("DistributedArray", name, self._dtype.type, f"x.get()[()].{name}", self, reason)
        raise absent("DistributedArray", name, _NUMPYS, f"x.get().{name}", self, reason)

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Export the global value: copied to the host, or with ``copy=False`` the one chunk that holds all of it.

        Raises
        ------
        BufferError
            ``copy=False``, and no chunk of this process holds the whole array where `dl_device` says.
        """
        if copy is not False:
            ensure_asked(sys._getframe(1), self.nbytes)
        return convert.dlpack(self, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        """The device of a DLPack export: the host's memory, (1, 0)."""
        return (1, 0)

    def __getitem__(self, key: Key) -> DistributedArray:
        context = self._context
        if context.hints is not None:
            touched(self, key, "read")
        ready = elements.item(self, key) if context.kind == "host" else elements.viewed(self, key)
        if ready is not NotImplemented:
            return ready  # type: ignore[no-any-return]
        if not (elements.is_plain(key) or _is_basic(key)):
            if _names_fields(key):
                return memory.field(self, key)
            return indexing.getitem(self, key)
        view = elements.named(self, key)
        found = self._viewed(view)
        if not view.shape and not _has_ellipsis(key):
            if self._dtype.kind != "V":
                return detach(found)
            found._detached = True  # NumPy's scalar of a structure is a view: x[0]["a"] = 1 writes to x
        return found

    def __setitem__(self, key: Key, value: ArrayLike) -> None:
        if (
            type(key) is not tuple
            and isinstance(value, DistributedArray)
            and value._storage is self._storage is not None
        ):
            _refuse_shuffle(sys._getframe(1))  # shuffles exchange rows by keys of one number
        if self._context.hints is not None:
            touched(self, key, "written")
        if elements.assign(self, key, value):
            return
        if not (elements.is_plain(key) or _is_basic(key)):
            if _names_fields(key):
                memory.field(memory.attached(self), key)[...] = value
                return
            indexing.setitem(self, key, value)
            return
        view = elements.named(self, key)
        if not view.shape and not _has_ellipsis(key):
            value = element_of(self, value)
        pending = type(value) is DistributedArray and value._node is not None
        assign(self, view, value, named=pending and is_named(value, ASSIGNED))

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("len() of unsized object")
        return self._shape[0]

    def __iter__(self) -> Iterator[DistributedArray]:
        if not self._shape:
            raise TypeError("iteration over a 0-d array")
        if watching.get() is not None:
            ensure_not_fetched(sys._getframe(1), self.nbytes)
        return (self[i] for i in range(self._shape[0]))

    def __contains__(self, value: ArrayLike) -> bool:
        return bool(reductions.any(self == value))

    def __delitem__(self, key: Key) -> None:
        raise ValueError("cannot delete array elements")

    def _only(self, kind: str) -> Any:
        scalar = self._fresh
        if isinstance(scalar, np.generic):
            note_to_host(scalar.nbytes)
            return scalar
        if self._shape:
            if self.size != 1:
                if kind == "bool":
                    raise ValueError(
                        "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()"
                    )
                raise TypeError("only 0-dimensional arrays can be converted to Python scalars")
            if kind != "bool":
                raise TypeError("only 0-dimensional arrays can be converted to Python scalars")
        if (number := number_of(self)) is not None:
            return number
        return self.get().reshape(())[()]

    def __bool__(self) -> bool:
        scalar = self._fresh
        return bool(scalar if type(scalar) is np.bool and watching.get() is None else self._only("bool"))

    def __int__(self) -> int:
        return int(_real(self._only("int")))

    def __float__(self) -> float:
        return float(_real(self._only("float")))

    def __complex__(self) -> complex:
        return complex(self._only("complex"))

    def __index__(self) -> int:
        if self._dtype.kind not in "iu" or self.ndim:
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        return operator.index(self._only("index"))

    def __bytes__(self) -> bytes:
        if not self._shape and self._dtype.kind in "iu":  # so many zero bytes, as of NumPy's integers
            return bytes(operator.index(self))
        return self.tobytes()

    def __repr__(self) -> str:
        return printing.to_repr(self)

    def __str__(self) -> str:
        return printing.to_str(self)

    def __format__(self, spec: str) -> str:
        if not self._shape:
            value = self.get()[()]
            return format(value.item() if value.dtype.kind == "V" else value, spec)  # ml_dtypes' take no specification
        if spec:
            raise TypeError(
                f"unsupported format string {spec!r} passed to DistributedArray.__format__: format its elements"
            )
        return str(self)

    def __copy__(self) -> DistributedArray:
        return detach(self) if self._detached else copy_array(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> DistributedArray:
        return detach(self) if self._detached else copy_array(self)

    def __reduce__(self) -> tuple[Any, ...]:
        ensure_asked(sys._getframe(1), self.nbytes)
        return convert.pickled(self)


def _real(number: Any) -> Any:
    """A number on its way to a Python number without an imaginary part."""
    return real_for(number, _FLOAT) if isinstance(number, np.complexfloating) else number


_FLOAT = np.dtype(float)


def as_numpy(x: DistributedArray, dtype: DTypeLike) -> Any:
    """The global value on the host, cast as a program's own ``astype`` would: with its warnings at the program's line."""
    value = x.get()
    if dtype is None:
        return value
    if value.dtype.kind == "c" and np.dtype(dtype).kind not in "cb":
        warn_complex()  # at the caller's line
        value = value.real
    return value.astype(dtype, copy=False)


def _is_dask(item: object) -> bool:
    return (
        type(item).__module__.partition(".")[0] == "dask" and hasattr(item, "__dask_graph__") and hasattr(item, "shape")
    )


def _refuse_shuffle(frame: FrameType) -> None:
    """Refuse the in-place shuffles of NumPy and Python, which swap rows through views and so lose some of them."""
    if frame.f_code.co_name == "shuffle" or called_name(frame) == "shuffle":
        raise UnsupportedError(
            "shuffle swaps the rows of an array through views, and would lose rows; nothing was written: use "
            "x[...] = x[rng.permutation(len(x))]"
        )


def _is_basic(key: Any) -> bool:
    """Whether an index is basic: integers, slices, Ellipsis and None, alone or in a tuple."""
    if type(key) is tuple:
        return all(_is_basic_item(k) for k in key)
    return _is_basic_item(key)


def _names_fields(key: object) -> TypeGuard[str | list[str]]:
    """Whether an index is the name of a field, or a list of such."""
    return type(key) is str or (type(key) is list and bool(key) and all(type(name) is str for name in key))


def _is_basic_item(item: object) -> bool:
    if item is None or item is Ellipsis or type(item) is int or isinstance(item, (slice, np.integer)):
        return True
    if isinstance(item, (bool, np.bool_, list, tuple, np.ndarray)):
        return False
    if isinstance(item, DistributedArray):
        return item._detached and item._dtype.kind in "iu"
    return hasattr(item, "__index__")


def _has_ellipsis(key: Key) -> bool:
    return key is Ellipsis or (type(key) is tuple and any(k is Ellipsis for k in key))
