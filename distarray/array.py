"""DistributedArray: one logical array over many devices, as a storage seen through a view map, or as an expression.

The class holds state and NumPy's operators; everything else, its three protocols included, is looked up in the registry.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray.context import current_context
from distarray.errors import UnsupportedError
from distarray.fusion.demand import demand, write
from distarray.fusion.expr import Leaf, Node, forced, warn_complex
from distarray.geometry import ViewMap
from distarray.layout import Layout
from distarray.modes import Mode
from distarray.operators import Operators, broadcast_shape, own_protocol, same_context
from distarray.registry import FUNCTIONS, METHODS
from distarray.storage import Operand, Storage, Version, operand
from distarray.transfer.execute import gather_to_host, moved, resolve, resolved_operand

if TYPE_CHECKING:
    from distarray.context import Context, Group

__all__ = ["DistributedArray"]

_PYTHON = (bool, int, float, complex)


class DistributedArray(Operators):
    """One logical array, spread over many devices, that behaves like a NumPy array.

    Made by :func:`distarray.asarray`, :func:`distarray.zeros` and the other creation functions, never by the constructor.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    layout : Layout
        Which device holds which elements, and how overlapping chunks combine.
    device : Group
        The devices the array lives on; any creation function takes it as ``device=``.
    """

    __slots__ = ("__weakref__", "_context", "_detached", "_dtype", "_node", "_shape", "_storage", "_view", "_writable")

    __array_priority__ = 100.0

    _context: Context
    _shape: tuple[int, ...]
    _dtype: Any
    _node: Node | None
    _storage: Storage | None
    _view: ViewMap | None
    _writable: bool
    _detached: bool

    def __init__(self) -> None:
        raise TypeError("DistributedArray is not built by its constructor: use distarray.asarray(obj, layout=...)")

    # --- making one ---------------------------------------------------------------------------------------------------

    @classmethod
    def _make(
        cls,
        context: Context,
        shape: tuple[int, ...],
        dtype: Any,
        node: Node | None,
        storage: Storage | None,
        view: ViewMap | None = None,
        writable: bool = True,
        detached: bool = False,
    ) -> DistributedArray:
        self = object.__new__(cls)
        self._context = context
        self._shape = shape
        self._dtype = dtype
        self._node = node
        self._storage = storage
        self._view = view
        self._writable = writable
        self._detached = detached
        return self

    @classmethod
    def _of_node(cls, node: Node) -> DistributedArray:
        detached = not node.shape and isinstance(node.ufunc, np.ufunc)  # where NumPy returns a scalar
        if forced(node):
            version = demand(node)
            return cls._of_version(node.context, version, detached=detached)
        return cls._make(node.context, node.shape, node.dtype, node, None, None, True, detached)

    @classmethod
    def _of_version(cls, context: Context, version: Version, *, detached: bool = False) -> DistributedArray:
        storage = Storage(context, version)
        return cls._make(context, version.layout.shape, version.dtype, None, storage, None, True, detached)

    # --- state --------------------------------------------------------------------------------------------------------

    def _own(self) -> Storage:
        """The storage, evaluated where the array was an expression."""
        storage = self._storage
        if storage is None:
            with self._context.lock:
                if self._storage is None:
                    assert self._node is not None
                    version = demand(self._node)
                    self._storage = Storage(self._context, version)
                    self._node = None
                storage = self._storage
        return storage

    def _arg(self) -> Leaf | Node:
        """This array as an operand of an expression."""
        node = self._node
        if node is not None and node.version is None:
            return node
        storage = self._own()
        return Leaf(storage.version, self._view, self._shape, storage.exposed)

    def _operand(self, operation: str, *, partial_ok: bool = False) -> Operand:
        """The chunks in this array's own coordinates, resolved unless the caller can use partial values."""
        storage = self._own()
        with self._context.lock:
            return resolved_operand(self._context, storage.version, self._view, operation, partial_ok=partial_ok)

    def _viewed(self, view: ViewMap, *, writable: bool | None = None) -> DistributedArray:
        """Another view of the same storage."""
        storage = self._own()
        if self._detached:  # it stands for a scalar, which no view writes to
            storage = Storage(self._context, storage.version)
        can = self._writable if writable is None else writable
        plain = None if view.is_identity and view.base == storage.version.layout.shape else view
        return self._make(self._context, view.shape, self._dtype, None, storage, plain, can)

    def _view_map(self) -> ViewMap:
        self._own()
        return ViewMap.identity(self._shape) if self._view is None else self._view

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def dtype(self) -> Any:
        return self._dtype

    @property
    def ndim(self) -> int:
        return len(self._shape)

    @property
    def size(self) -> int:
        size = 1
        for n in self._shape:
            size *= n
        return size

    @property
    def itemsize(self) -> int:
        return int(self._dtype.itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes of the logical array; the devices hold more where chunks overlap."""
        return self.size * int(self._dtype.itemsize)

    @property
    def layout(self) -> Layout:
        """Which device holds which elements. Evaluates a recorded expression."""
        return self._operand("layout", partial_ok=True).layout

    @property
    def mode(self) -> Mode:
        """How overlapping chunks combine."""
        return self.layout.mode

    @property
    def index_map(self) -> dict[int, list[tuple[slice, ...]]]:
        """Device id → the indices of its chunks; :meth:`reshard` takes it."""
        return self.layout.index_map.to_dict()

    @property
    def devices(self) -> tuple[int, ...]:
        """Ids of the devices in the index map, ascending."""
        return self.layout.devices

    @property
    def device(self) -> Group:
        return self._context.group

    @property
    def T(self) -> DistributedArray:
        """The array with its axes reversed: a view."""
        return self._viewed(self._view_map().transpose(tuple(range(self.ndim))[::-1]))

    @property
    def mT(self) -> DistributedArray:
        """The last two axes exchanged: a view."""
        if self.ndim < 2:
            raise ValueError("matrix transpose with ndim < 2 is undefined")
        axes = tuple(range(self.ndim))
        return self._viewed(self._view_map().transpose((*axes[:-2], axes[-1], axes[-2])))

    @property
    def real(self) -> DistributedArray:
        """The real part; of complex arrays a read-only copy where NumPy has a view: write it by ``x.real = value``."""
        return METHODS["real"](self)  # type: ignore[no-any-return]

    @real.setter
    def real(self, value: Any) -> None:
        METHODS["set_part"](self, "real", value)

    @property
    def imag(self) -> DistributedArray:
        """The imaginary part, a read-only copy: write it by ``x.imag = value``."""
        return METHODS["imag"](self)  # type: ignore[no-any-return]

    @imag.setter
    def imag(self, value: Any) -> None:
        if self._dtype.kind != "c":
            raise TypeError("array does not have imaginary part to set")
        METHODS["set_part"](self, "imag", value)

    @property
    def writable(self) -> bool:
        """Whether the array may be written to; False for copies that stand where NumPy would have a view."""
        return self._writable

    def evaluate(self) -> DistributedArray:
        """Evaluate a recorded expression now, and return the array itself. May communicate; see ``distarray.explain``."""
        self._own()
        return self

    # --- placement ----------------------------------------------------------------------------------------------------

    def _whole(self) -> Storage:
        """A storage that this array is the identity view of: its own, or one of a copy of what the view shows."""
        storage = self._own()
        if self._view is None:
            return storage
        copy: DistributedArray = METHODS["copy"](self)
        return copy._own()

    def change_mode(self, mode: Mode | str | None) -> DistributedArray:
        """The same array with overlapping chunks in another mode; all 25 pairs.

        To REPLICA, partial values are folded: a reduce-scatter and an all-gather among the devices that overlap. From
        REPLICA to MIN or MAX, and between devices that do not overlap, nothing moves. The result shares buffers that
        stay as they are, copied on write.
        """
        target = Mode.of(mode)
        storage = self._whole()
        with self._context.lock:
            index_map = storage.version.layout.index_map
            if target is Mode.REPLICA:
                index_map = index_map.completed()
            version = moved(storage, self._context.layout(index_map, target), "change_mode")
        return self._of_version(self._context, version)

    def reshard(self, layout: Any) -> DistributedArray:
        """The same array in another layout.

        Parameters
        ----------
        layout : specification, dict or Layout
            Such as ``distarray.blocks(1)``, ``{0: slice(0, 3), 1: slice(3, None)}``, or another array's ``layout``.
            The mode stays, unless a Layout names another.

        Notes
        -----
        Communication: elements that a device lacks move to it once, from the nearest holder. Buffers that stay as they
        are are shared, and copied on write.
        """
        target: Layout = METHODS["resolve_layout"](self._context, layout, self._shape, mode=self.mode)
        storage = self._whole()
        with self._context.lock:
            version = moved(storage, target, "reshard")
        return self._of_version(self._context, version)

    def all_chunks(self) -> dict[int, list[Any]]:
        """Device id → its chunks, for the devices of this process: live NumPy or CuPy arrays in the order of ``index_map``.

        Writing to them writes the array. From then on expressions that read the array are evaluated at once.

        Notes
        -----
        Communication: where expressions are still to be evaluated, or a view needs partial values folded, what that moves;
        else none. Called by all processes, also by those that need no chunk: one that did not call it would evaluate
        later expressions at other times, and come to other communications than those that did.
        """
        storage = self._own()
        with self._context.lock:
            self._context.check()
            if not storage.exposed:
                storage.unshare()
                storage.exposed = True
            found = operand(self._context, storage.version, self._view)
            if found is None:
                resolve(self._context, storage.version, "all_chunks")
                found = operand(self._context, storage.version, self._view)
                assert found is not None
            chunks: dict[int, list[Any]] = {device: [] for device in found.layout.devices}
            for (device, _), array in zip(found.layout.chunks, found.arrays, strict=True):
                if array is not None:
                    chunks[device].append(array)
            return {d: own for d, own in chunks.items() if self._context.by_id[d].process == self._context.process}

    def get(self) -> Any:
        """The global value as a new ``numpy.ndarray`` on the host. Each element is copied from one holder."""
        with self._context.lock:
            self._context.check()
            storage = self._own()
            found = operand(self._context, storage.version, self._view)
            if found is None:
                found = self._operand("get")
            return gather_to_host(self._context, found)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if copy is False:
            raise ValueError("a distributed array can't become a NumPy array without a copy: use np.asarray(x)")
        value = self.get()
        return value if dtype is None else value.astype(dtype, copy=False)

    # --- protocols ----------------------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        handler = METHODS.get(f"ufunc.{method}")
        if handler is None:
            return NotImplemented
        return handler(ufunc, *inputs, **kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        for kind in types:
            if not issubclass(kind, (DistributedArray, np.ndarray, np.generic)) or own_protocol(kind):
                return NotImplemented
        implementation = FUNCTIONS.get(func)
        if implementation is None:
            name = f"{getattr(func, '__module__', 'numpy')}.{getattr(func, '__name__', func)}"
            raise UnsupportedError(
                f"{name} has no distributed implementation; nothing was gathered. To run it on one host, call it on "
                f"x.get(); to run it on each chunk, use distarray.map_chunks"
            )
        token = current_context.set(self._context)
        try:
            return implementation(*args, **kwargs)
        finally:
            current_context.reset(token)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return METHODS["namespace"](api_version)

    # --- indexing -----------------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> DistributedArray:
        if not _is_basic(key):
            return METHODS["getitem"](self, key)  # type: ignore[no-any-return]
        view = self._view_map().index(key)
        found = self._viewed(view)
        if not view.shape and not _has_ellipsis(key):
            return METHODS["detach"](found)  # type: ignore[no-any-return]
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        if not _is_basic(key):
            METHODS["setitem"](self, key, value)
            return
        view = self._view_map().index(key)
        several = getattr(value, "ndim", 0) != 0 and not (
            self._dtype.kind == "b" and value.size == 1
        )  # its truth value
        if not view.shape and several and not _has_ellipsis(key):
            if self._dtype.kind == "c":
                raise TypeError("only 0-dimensional arrays can be converted to Python scalars")
            raise ValueError("setting an array element with a sequence.")
        self._assign(view, value)

    def _assign(self, view: ViewMap, value: Any) -> None:
        """Write `value`, broadcast to the view's shape, into a view of this array's storage."""
        storage = self._own()
        if not self._writable:
            write(storage, view, None, writable=False)
        if isinstance(value, (list, tuple)):
            value = METHODS["nested"](value, self._dtype)
        if isinstance(value, (*_PYTHON, np.generic)):
            filled = np.empty((), self._dtype)
            filled[...] = value
            source: Any = filled[()]
        else:
            array = METHODS["as_operand"](self._context, value, view.shape)
            if array._context is not self._context:
                same_context((self, array))
            while array.ndim > len(view.shape) and array.shape[0] == 1:
                array = array[0, ...]
            if array.shape != view.shape and not _fits(array.shape, view.shape):
                raise ValueError(f"could not broadcast input array from shape {array.shape} into shape {view.shape}")
            if array._dtype.kind == "c" and self._dtype.kind not in "cb":
                warn_complex()
            source = array._arg()
        plain = None if view.is_identity and view.base == storage.version.layout.shape else view
        write(storage, plain, source)

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("len() of unsized object")
        return self._shape[0]

    def __iter__(self) -> Iterator[DistributedArray]:
        if not self._shape:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(self._shape[0]))

    def __contains__(self, value: Any) -> bool:
        return bool(METHODS["any"](self == value))

    # --- to Python ----------------------------------------------------------------------------------------------------

    def item(self, *args: Any) -> Any:
        """One element as a Python scalar."""
        if args:
            index = args if len(args) > 1 else args[0]
            if isinstance(index, tuple):
                index = tuple(operator.index(i) for i in index)
                if len(index) != self.ndim:
                    raise ValueError(f"incorrect number of indices for array: {len(index)} for {self.ndim} axes")
            else:
                flat = operator.index(index)
                if not -self.size <= flat < self.size:
                    raise IndexError(f"index {flat} is out of bounds for size {self.size}")
                index = np.unravel_index(flat % self.size, self._shape) if self._shape else ()
            return self[tuple(map(int, index))].get().item()
        if self.size != 1:
            raise ValueError("can only convert an array of size 1 to a Python scalar")
        return self.get().item()

    def tolist(self) -> Any:
        """The values as nested lists."""
        return self.get().tolist()

    def _only(self, kind: str) -> Any:
        if self.size != 1:
            if kind == "bool":
                raise ValueError(
                    "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()"
                )
            raise TypeError("only 0-dimensional arrays can be converted to Python scalars")
        if self.ndim and kind != "bool":
            raise TypeError("only 0-dimensional arrays can be converted to Python scalars")
        return self.get().reshape(())[()]

    def __bool__(self) -> bool:
        return bool(self._only("bool"))

    def __int__(self) -> int:
        return int(self._only("int"))

    def __float__(self) -> float:
        return float(self._only("float"))

    def __complex__(self) -> complex:
        return complex(self._only("complex"))

    def __index__(self) -> int:
        if self._dtype.kind not in "iu" or self.ndim:
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        return operator.index(self._only("index"))

    def __repr__(self) -> str:
        return str(METHODS["repr"](self))

    def __str__(self) -> str:
        return str(METHODS["str"](self))

    def __format__(self, spec: str) -> str:
        if not self._shape:
            return format(self.item(), spec)
        if spec:
            raise TypeError(
                f"unsupported format string {spec!r} passed to DistributedArray.__format__: format its elements"
            )
        return str(self)

    def __copy__(self) -> DistributedArray:
        return METHODS["copy"](self)  # type: ignore[no-any-return]

    def __deepcopy__(self, memo: dict[int, Any]) -> DistributedArray:
        return METHODS["copy"](self)  # type: ignore[no-any-return]

    def __reduce__(self) -> tuple[Any, ...]:
        return METHODS["pickled"](self)  # type: ignore[no-any-return]


def _is_basic(key: Any) -> bool:
    """Whether an index is basic: integers, slices, Ellipsis and None, alone or in a tuple."""
    if type(key) is tuple:
        return all(_is_basic_item(k) for k in key)
    return _is_basic_item(key)


def _is_basic_item(item: Any) -> bool:
    if item is None or item is Ellipsis or type(item) is int or isinstance(item, (slice, np.integer)):
        return True
    if isinstance(item, (bool, np.bool_, list, tuple, np.ndarray)):
        return False
    if isinstance(item, DistributedArray):
        return item._detached and item._dtype.kind in "iu"
    return hasattr(item, "__index__")


def _fits(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    try:
        return broadcast_shape(shape, target) == target
    except ValueError:
        return False


def _has_ellipsis(key: Any) -> bool:
    return key is Ellipsis or (type(key) is tuple and any(k is Ellipsis for k in key))


def _delegate(name: str) -> Any:
    def delegate(self: DistributedArray, *args: Any, **kwargs: Any) -> Any:
        return METHODS[name](self, *args, **kwargs)

    delegate.__name__ = name
    delegate.__qualname__ = f"DistributedArray.{name}"
    delegate.__doc__ = f"See ``distarray.{name}``, with this array as the first argument."
    return delegate


for _name in """sum prod min max any all mean var std argmin argmax dot transpose reshape ravel flatten squeeze swapaxes astype copy
    conj conjugate clip fill take repeat round to_device cumsum cumprod nonzero sort argsort partition argpartition searchsorted
    __dlpack__ __dlpack_device__""".split():
    setattr(DistributedArray, _name, _delegate(_name))
