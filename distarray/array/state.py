"""DistributedArray: one logical array over many devices, as a storage seen through a view map, or as an expression.

The class holds the state, what metadata answers, and placement. Its operators (``operators.py``), what Python and NumPy
call (``distarray/protocols.py``) and its methods (``distarray/methods/``) need functions that stand above this file.
They are given to the class by ``methods.py``; type checkers read of them in ``declared.py``.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from types import GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import ref

import numpy as np

from distarray.array.aliases import LayoutLike, Out
from distarray.array.layouts import resolve_layout
from distarray.array.posing import class_shown
from distarray.array.shapes import check_host
from distarray.array.shown import fresh_chunks, is_short, seen
from distarray.current import current
from distarray.devices import Chunk
from distarray.errors import DeviceError, UnsupportedError
from distarray.fusion.compiled import expression_devices
from distarray.fusion.demand import demand
from distarray.fusion.expr import ASTYPE, Leaf, Node, forced, record
from distarray.geometry import ViewMap
from distarray.layout import Layout
from distarray.modes import Mode
from distarray.storage import Apart, Operand, Storage, Version, operand
from distarray.transfer.execute import allocate, moved, resolve, resolved_operand
from distarray.transfer.ledger import note_to_host
from distarray.transfer.to_host import gather_to_host

if TYPE_CHECKING:
    from distarray.array.declared import Declared
    from distarray.context import Context, Group

    Declarations = Declared["DistributedArray"]
else:
    Declarations = object

__all__ = ["TURNED", "DistributedArray", "Permuted", "Reshaped"]


class DistributedArray(Declarations):
    """One logical array, spread over many devices, that behaves like a NumPy array.

    Made by :func:`distarray.asarray`, :func:`distarray.zeros` and the other creation functions, never by the constructor.

    Parameters
    ----------
    *args, **kwargs
        A Python number makes a 0-d value; anything else raises TypeError.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    layout : Layout
        Which device holds which elements, and how overlapping chunks combine.
    device : Group
        The devices the array lives on; any creation function takes it as ``device=``.
    """

    __slots__ = (
        "__weakref__", "_context", "_detached", "_dtype", "_fresh", "_home", "_kin", "_map", "_node", "_reach", "_shape",
        "_storage", "_writable",
    )  # fmt: skip

    __array_priority__ = 100.0
    __hash__: ClassVar[None] = None  # type: ignore[assignment]
    __class_getitem__: Any = classmethod(GenericAlias)

    _context: Context
    _shape: tuple[int, ...]
    _dtype: Any
    _node: Node | None
    _storage: Storage | None
    _map: ViewMap | tuple[Any, ...] | None  # the view; of `array.whole`, how to work it out
    _reach: (
        tuple[Callable[[Any], Any], ...] | None
    )  # the steps from a chunk that holds all to what the view shows, if known
    _fresh: Any  # of a whole array that is in no storage yet: its one chunk here, or a NumPy scalar
    _kin: Layout | None  # how it lies where one chunk of this process shows all of it, if that is known
    _home: int  # and the number of that chunk
    _writable: bool | Apart | None  # None: made read-only by the user
    _detached: bool

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Nothing is left to do: see ``__new__`` in ``array/scalars.py``."""

    @property  # type: ignore[misc]  # nobody sets it
    def __class__(self) -> type[DistributedArray]:
        """Its class, but for ``numpy.testing``, which is told NumPy's (``posing.py``)."""
        return class_shown(sys._getframe(1), DistributedArray, self._dtype, self._detached)

    # --- making one ---------------------------------------------------------------------------------------------------

    @classmethod
    def _make(
        cls,
        context: Context,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        node: Node | None,
        storage: Storage | None,
        view: ViewMap | None = None,
        writable: bool | Apart | None = True,
        detached: bool = False,
    ) -> DistributedArray:
        self = object.__new__(cls)
        self._context = context
        self._shape = shape
        self._dtype = dtype
        self._node = node
        self._storage = storage
        self._map = view
        self._reach = () if view is None else None
        self._fresh = None
        self._kin = None
        self._home = -1
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
        self = cls._make(context, version.layout.shape, version.dtype, None, storage, None, True, detached)
        storage.whole = ref(self)
        return self

    # --- state --------------------------------------------------------------------------------------------------------

    def _own(self) -> Storage:
        """The storage, evaluated where the array was an expression."""
        storage = self._storage
        if storage is None:
            with self._context.lock:
                if self._storage is None:
                    if self._fresh is not None:
                        assert self._kin is not None
                        layout = self._context.layouts.of_shape(self._kin, self._shape)
                        version = Version(layout, fresh_chunks(layout, self._fresh), self._dtype)
                    else:
                        assert self._node is not None
                        version = demand(self._node)
                    self._storage = Storage(self._context, version)
                    self._storage.whole = ref(self)
                    self._home = version.layout.home
                    self._node = self._fresh = None
                storage = self._storage
        return storage

    def _arg(self) -> Leaf | Node:
        """This array as an operand of an expression."""
        node = self._node
        if node is not None and node.version is None:
            return node
        storage = self._storage
        if storage is None:
            storage = self._own()
        view = self._map
        if type(view) is tuple:
            view = self._view
        return Leaf(storage.version, view, self._shape, storage.exposed and storage.volatile)  # type: ignore[arg-type]

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
        plain = None if view.is_identity and view.base == storage.layout.shape else view
        return self._make(self._context, view.shape, self._dtype, None, storage, plain, can)

    def _take(self, other: DistributedArray) -> None:
        """Become what another array is, as an in-place change of shape does."""
        self._shape, self._storage, self._node, self._fresh = other._shape, other._own(), None, None
        self._map, self._reach, self._kin, self._home = other._map, other._reach, other._kin, other._home

    @property
    def _view(self) -> ViewMap | None:
        """What is shown of the storage; None for all of it."""
        found = self._map
        if type(found) is tuple:
            found = self._map = _mapped(found)
        return found  # type: ignore[return-value]

    def _view_map(self) -> ViewMap:
        self._own()
        return ViewMap.identity(self._shape) if self._view is None else self._view

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        return self._shape

    @property
    def dtype(self) -> Any:
        """The dtype of the elements, a ``numpy.dtype``."""
        return self._dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._shape)

    @property
    def size(self) -> int:
        """The number of elements of the logical array."""
        return math.prod(self._shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
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
        """Each device's chunks: device id → their indices. :meth:`reshard` takes it."""
        return self.layout.index_map.to_dict()

    @property
    def devices(self) -> tuple[int, ...]:
        """Ids of the devices in the index map, ascending."""
        return self.layout.devices

    @property
    def device(self) -> Group:
        """The devices that its layout names, or will name where it is still to be evaluated: nothing is evaluated."""
        context, node = self._context, self._node
        if node is not None and node.version is None:
            return context.subgroup(expression_devices(node))
        return context.subgroup(self._own().layout.devices)

    @property
    def mT(self) -> DistributedArray:
        """The last two axes exchanged: a view."""
        if self.ndim < 2:
            raise ValueError("matrix transpose with ndim < 2 is undefined")
        axes = tuple(range(self.ndim))
        return self._viewed(self._view_map().transpose((*axes[:-2], axes[-1], axes[-2])))

    @property
    def writable(self) -> bool:
        """Whether the array may be written to.

        A copy that stands where NumPy would have a view may be once nobody holds the array that it was made of.
        """
        return bool(self._writable)

    def evaluate(self) -> DistributedArray:
        """Evaluate a recorded expression now.

        Returns
        -------
        DistributedArray
            The array itself.

        Notes
        -----
        Communication: what the expression needs; see :func:`distarray.explain`.
        """
        if self._fresh is None:  # else the value is there, if in no storage yet
            self._own()
        return self

    # --- placement ----------------------------------------------------------------------------------------------------

    def _whole(self) -> Storage:
        """A storage that this array is the identity view of: its own, or one of a copy of what the view shows."""
        storage = self._own()
        if self._view is None:
            return storage
        return copy_array(self)._own()

    def change_mode(self, mode: Mode | str | None) -> DistributedArray:
        """The same array with overlapping chunks in another mode; all 25 pairs.

        To REPLICA, partial values are folded: a reduce-scatter and an all-gather among the devices that overlap. From
        REPLICA to MIN or MAX, and between devices that do not overlap, nothing moves. The result shares buffers that
        stay as they are, copied on write.

        Parameters
        ----------
        mode : Mode, str or None
            The mode, or its name; None is ``"replica"``.

        Returns
        -------
        DistributedArray
            It shares buffers that stay as they are, copied on write.

        Raises
        ------
        ValueError
            There is no such mode.
        """
        target = Mode.of(mode)
        storage = self._whole()
        with self._context.lock:
            index_map = storage.version.layout.index_map
            if target is Mode.REPLICA:
                index_map = index_map.completed()
            version = moved(storage, self._context.layout(index_map, target), "change_mode")
        return self._of_version(self._context, version)

    def reshard(self, layout: LayoutLike) -> DistributedArray:
        """The same array in another layout.

        Parameters
        ----------
        layout : specification, dict or Layout
            Such as ``distarray.blocks(1)``, ``{0: slice(0, 3), 1: slice(3, None)}``, or another array's ``layout``.
            The mode stays, unless a Layout names another.

        Returns
        -------
        DistributedArray

        Raises
        ------
        LayoutError, IndexMapError, CoverageError
            The layout does not fit the shape.

        Notes
        -----
        Communication: elements that a device lacks move to it once, from the nearest holder. Buffers that stay as they
        are are shared, and copied on write.

        Examples
        --------
        >>> import distarray as da
        >>> with da.init(devices=2, kind="host"):
        ...     x = da.arange(4, layout=da.blocks(0))
        ...     x.reshard(da.cyclic(0)).index_map
        {0: [(slice(0, 3, 2),)], 1: [(slice(1, 4, 2),)]}
        """
        target = resolve_layout(self._context, layout, self._shape, mode=self.mode)
        storage = self._whole()
        with self._context.lock:
            version = moved(storage, target, "reshard")
        return self._of_version(self._context, version)

    def all_chunks(self) -> dict[int, list[Any]]:
        """The chunks of this process's devices: device id → live NumPy or CuPy arrays, in the order of ``index_map``.

        Writing to them writes the array. From then on expressions that read the array are evaluated at once.

        Returns
        -------
        dict of int to list of array

        Notes
        -----
        Communication: where expressions are still to be evaluated, or a view needs partial values folded, what that moves;
        else none. Called by all processes, also by those that need no chunk: one that did not call it would evaluate
        later expressions at other times, and come to other communications than those that did.
        """
        storage = self._own()
        with self._context.lock:
            self._context.check()
            storage.expose()
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

    def get(self, stream: object = None, order: str = "C", out: Out = None, blocking: bool = True) -> Any:
        """The global value as a new ``numpy.ndarray`` on the host. Each element is copied from one holder.

        Parameters
        ----------
        stream : None
            Nothing else: devices order their own work.
        order : str
            Memory order of the result, C or F; A is C.
        out : numpy.ndarray, optional
            Filled and returned instead: of this array's shape and dtype.
        blocking : bool
            Accepted for CuPy's sake: the values are there on return.

        Returns
        -------
        numpy.ndarray

        Raises
        ------
        ValueError
            `order` is none of C, F and A; the shape of `out` is another, or it is read-only.
        TypeError
            `out` is no NumPy array, or of another dtype; or a `stream` was passed.

        Notes
        -----
        Communication: the elements, to every process.

        Examples
        --------
        >>> import distarray as da
        >>> with da.init(devices=2, kind="host"):
        ...     da.arange(3).get()
        array([0, 1, 2])
        """
        if stream is not None:
            raise UnsupportedError("get takes no stream: devices order their own work; pass stream=None")
        if order not in ("C", "F", "A"):
            raise ValueError(f"order must be one of 'C', 'F' or 'A', and is {order!r}: pass order='C'")
        if out is not None:
            check_host(out, self._shape, self._dtype)
        value = self._value()
        if out is not None:
            out[...] = value
            return out
        return np.asfortranarray(value) if order == "F" and self.ndim else value

    def _value(self) -> Any:
        """The global value on the host, in C order."""
        if self._node is not None:  # once evaluated it may lie whole in every process, and then nothing is sent
            self._own()
        shown = seen(self)
        if shown is not None:
            note_to_host(shown.nbytes)
            return np.array(shown, order="C")
        with self._context.lock:
            self._context.check()
            storage = self._own()
            found = operand(self._context, storage.version, self._view)
            if found is None:
                found = self._operand("get")
            return gather_to_host(self._context, found)


TURNED = object()
"""In the place of a key: the view with its axes reversed."""


class Reshaped(tuple[int, ...]):
    """In the place of a key: the view in this shape, of which it is known that there is one."""

    __slots__ = ()


def _mapped(lazy: tuple[Any, ...]) -> ViewMap | None:
    """The view that a key of another view shows, or what lies within bounds of it: (that view, its shape, the key or the list
    of bounds, the storage's shape)."""
    outer, shape, key, whole_shape = lazy
    if type(outer) is tuple:
        outer = _mapped(outer)
    base = ViewMap.identity(shape) if outer is None else outer
    if type(key) is list:
        view = base.within(key)
    else:
        view = _other(base, key)
    return None if view.is_identity and view.base == whole_shape else view


class Permuted(tuple[int, ...]):
    """In the place of a key: the view with its axes in this order."""

    __slots__ = ()


def _other(base: ViewMap, key: Any) -> ViewMap:
    """What a key shows of a view, or what stands in the place of one."""
    if key is TURNED:
        return base.transpose()
    if type(key) is Permuted:
        return base.transpose(key)
    if type(key) is Reshaped:
        view = base.reshape(key)
        assert view is not None
        return view
    return base.index(key)


def same_context(arrays: Sequence[DistributedArray]) -> Context:
    """The context of the operands; the current one where none is distributed.

    Raises
    ------
    DeviceError
        They live in different contexts.
    """
    context: Context = arrays[0]._context if arrays else current()
    for array in arrays:
        if array._context is not context:
            raise DeviceError(
                f"operands live in different contexts, {context} and {array._context}: bring one over through the host, "
                f"with distarray.asarray(x.get())"
            )
    context.check()
    return context


def astype_node(array: DistributedArray, dtype: np.dtype[Any]) -> Node:
    """`array` converted to another dtype, recorded."""
    return record(array._context, ASTYPE, (array._arg(),), {"dtype": np.dtype(dtype)}, array._shape)


def from_chunks(
    context: Context, layout: Layout, chunks: Sequence[Chunk | None], dtype: np.dtype[Any], *, detached: bool = False
) -> DistributedArray:
    """The array of a layout's chunks, in its global order."""
    return DistributedArray._of_version(context, Version(layout, list(chunks), np.dtype(dtype)), detached=detached)


def fresh_array(context: Context, layout: Layout, array: np.ndarray[Any, Any]) -> DistributedArray:
    """The array of new memory in C order, in a layout of which `is_short` holds."""
    found = DistributedArray._make(context, array.shape, array.dtype, None, None)
    found._fresh, found._kin = array, layout
    return found


def copy_array(a: DistributedArray) -> DistributedArray:
    """A copy that shares what it can until one of the two is written to."""
    context = a._context
    if a._node is not None and a._node.version is None:
        return DistributedArray._of_node(a._node)
    storage = a._own()
    with context.lock:
        if (a._map is None or a._view is None) and not storage.exposed:
            return DistributedArray._of_version(context, storage.version)
        shown = seen(a)
        if type(shown) is np.ndarray and is_short(kin := context.layouts.of_shape(a._kin, a._shape), shown.nbytes):  # type: ignore[arg-type]
            return fresh_array(context, kin, np.array(shown, order="C"))
        found = a._operand("copy", partial_ok=True)
        chunks = allocate(context, found.layout, a.dtype, label="a copy")
        for chunk, array in zip(chunks, found.arrays, strict=True):
            if chunk is not None:
                chunk.device.copy(chunk.array, array, chunk.device)
        return from_chunks(context, found.layout, chunks, a.dtype)


def detach(a: DistributedArray) -> DistributedArray:
    """A 0-d value of its own, as NumPy's scalars are: in-place operators rebind it. Communication: none."""
    result = copy_array(a)
    result._detached = True
    return result
