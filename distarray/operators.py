"""NumPy's operators and the calling of ufuncs: what turns ``x + y`` and ``np.add(x, y, out=…, where=…)`` into recorded
expressions.

:class:`Operators` is the mixin that gives the array its special methods. The short way (one operator on arrays of one
context) and the general one (any ufunc call) end in the same recording.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from distarray.errors import DeviceError, ReadOnlyError
from distarray.fusion.demand import write
from distarray.fusion.expr import ASTYPE, Leaf, Node, forced, probe, record
from distarray.modes import Operand as ModeOperand
from distarray.modes import preserved
from distarray.registry import METHODS
from distarray.storage import Version, operand

if TYPE_CHECKING:
    from distarray.array import DistributedArray
    from distarray.context import Context

__all__ = ["Operators", "apply", "as_mask", "astype_node", "broadcast_shape", "known", "same_context"]

PYTHON_SCALARS = (bool, int, float, complex)


def broadcast_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that `shapes` broadcast to, with NumPy's error."""
    first = shapes[0]
    if all(s == first for s in shapes[1:]):
        return first
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listed = " ".join(str(s).replace(" ", "") for s in shapes)
        raise ValueError(f"operands could not be broadcast together with shapes {listed}") from None


def same_context(arrays: Sequence[DistributedArray]) -> Context:
    """The context of the operands.

    Raises
    ------
    DeviceError
        They live in different contexts.
    """
    context: Context = arrays[0]._context
    for array in arrays:
        if array._context is not context:
            raise DeviceError(
                f"operands live in different contexts, {context} and {array._context}: bring one over through the host, "
                f"with distarray.asarray(x.get())"
            )
    context.check()
    return context


def apply(
    ufunc: np.ufunc,
    inputs: Sequence[Any],
    out: tuple[Any, ...] | None = None,
    where: Any = True,
    **kwargs: Any,
) -> Any:
    """Call an element-wise ufunc on arrays, scalars and whatever NumPy accepts.

    Communication: none where the operands have one layout; otherwise what aligns them, at the demand.
    """
    kwargs.pop("subok", None)
    kwargs.pop("order", None)
    if kwargs.get("signature") is None:
        kwargs.pop("signature", None)
    ours = [a for a in (*inputs, *(out or ()), where) if isinstance(a, Operators)]
    context = same_context(cast("list[DistributedArray]", ours))
    args: list[Any] = []
    arrays: list[DistributedArray] = []
    for item in inputs:
        if isinstance(item, (*PYTHON_SCALARS, np.generic)):
            args.append(item)
            continue
        array: DistributedArray = METHODS["as_operand"](context, item, None)
        if isinstance(array, np.generic):
            args.append(array)
            continue
        arrays.append(array)
        args.append(array)
    if out is not None and all(o is None for o in out):
        out = None
    shapes = [a._shape for a in arrays]
    mask = None
    if where is not True:
        mask = METHODS["as_operand"](context, as_mask(where), None)
        if not isinstance(mask, np.generic):
            shapes.append(mask._shape)
    # NumPy speaks of dtypes before shapes
    checks = dict(kwargs)
    if out is not None:
        for target in out:
            if target is not None and not isinstance(target, (Operators, np.ndarray)):
                raise TypeError(f"return arrays must be of ArrayType, and out= got {type(target).__name__}")
        dummies = tuple(None if o is None else np.empty(0, o.dtype) for o in out)
        checks["out"] = dummies if ufunc.nout > 1 else dummies[0]
    if mask is not None:
        checks["where"] = mask if isinstance(mask, np.generic) else np.empty(0, mask.dtype)
    operands = tuple([a._arg() if isinstance(a, Operators) else a for a in args])
    if checks != kwargs or len(set(shapes)) > 1:
        probe(ufunc, operands, checks)
    shape = broadcast_shape(*shapes) if shapes else ()
    if out is not None:
        _check_out(out, shape)
        shape = next(o.shape for o in out if o is not None)
    if ufunc.nout > 1:
        return _several(context, ufunc, args, out, mask, shape, kwargs)
    if out is None and mask is None and not kwargs:
        partial = _partial_result(context, ufunc, args)
        if partial is not None:
            return partial
    target = None if out is None else out[0]
    if mask is None:
        node = record(context, ufunc, operands, kwargs, shape)
    else:
        node = _masked(context, ufunc, operands, kwargs, shape, mask, target)
    kind = type(ours[0])
    if target is None:
        return cast("DistributedArray", kind)._of_node(node)
    if forced(node):
        from distarray.fusion.demand import demand

        demand(node)
    return _store(cast("DistributedArray", kind)._of_node(node), target, operands)


def as_mask(where: Any) -> Any:
    """What ``where=`` of a ufunc means: arrays as they are, all else (numbers, None, nested lists) by its truth values."""
    return where if hasattr(where, "dtype") else np.asarray(where, bool)


def _masked(
    context: Context,
    ufunc: np.ufunc,
    operands: Any,
    kwargs: dict[str, Any],
    shape: tuple[int, ...],
    mask: Any,
    target: Any,
) -> Node:
    """A call with ``where=``: what stands where the mask is False is the target's, or zero where there is none."""
    dtype = probe(ufunc, operands, kwargs).dtype
    where = _plain(mask)
    zero = np.zeros((), dtype)[()]
    if target is None:
        return record(context, ufunc, operands, kwargs, shape, (where, zero))
    old = _plain(METHODS["as_operand"](context, target, ()))
    if target.dtype == dtype:
        return record(context, ufunc, operands, kwargs, shape, (where, old))
    value = record(context, ufunc, operands, kwargs, shape, (where, zero))
    return record(context, ASTYPE, (value,), {"dtype": target.dtype}, shape, (where, old))


def _plain(item: Any) -> Any:
    return item._arg() if isinstance(item, Operators) else item


def _check_out(out: tuple[Any, ...], shape: tuple[int, ...]) -> None:
    whole = broadcast_shape(shape, *(target.shape for target in out if target is not None))
    for target in out:
        if target is None:
            continue
        if target.shape != whole:
            raise ValueError(
                f"non-broadcastable output operand with shape {target.shape} doesn't match the broadcast shape {whole}"
            )
        if isinstance(target, Operators) and not cast("DistributedArray", target)._writable:
            raise ReadOnlyError("output array is read-only: it stands where NumPy would have a view; pass x.copy()")


def _store(value: DistributedArray, target: Any, operands: Sequence[Any] = ()) -> Any:
    """Write a recorded result into an ``out=`` array of either kind, and return that array.

    `operands` are those of its call alone: where they are what is written to, as in ``np.add(x, 1, out=x)``, that may be
    overwritten as it is read.
    """
    if isinstance(target, np.ndarray):
        target[...] = value.get()
        return target
    array = cast("DistributedArray", target)
    storage = array._own()
    private = sum(type(a) is Leaf and a.version is storage.version and a.view == array._view for a in operands)
    write(storage, array._view, value._arg(), private=private)
    return target


def _several(
    context: Context,
    ufunc: np.ufunc,
    args: Sequence[Any],
    out: tuple[Any, ...] | None,
    mask: Any,
    shape: tuple[int, ...],
    kwargs: dict[str, Any],
) -> tuple[Any, ...]:
    """A ufunc of several outputs (``divmod``, ``modf``, ``frexp``): evaluated at the call, chunk by chunk.

    With a mask all elements are computed, in silence, and those where it is False keep what stands in ``out=``, or are 0.
    """
    with np.errstate(all="ignore") if mask is not None else nullcontext():
        results = METHODS["several"](context, ufunc, args, shape, kwargs)
    targets = [None] * len(results) if out is None else out
    for target, result in zip(targets, results, strict=True):
        if target is not None and not np.can_cast(result.dtype, target.dtype, kwargs.get("casting", "same_kind")):
            raise TypeError(f"Cannot cast ufunc {ufunc.__name__!r} output from {result.dtype!r} to {target.dtype!r}")
    final = []
    for target, result in zip(targets, results, strict=True):
        if mask is not None:
            kept = np.zeros((), result.dtype)[()] if target is None else target
            result = np.where(mask, METHODS["astype"](result, kept.dtype), kept)
        final.append(result if target is None else _store(result, target))
    return tuple(final)


def _partial_result(context: Context, ufunc: np.ufunc, args: Sequence[Any]) -> Any:
    """The chunk-wise result on partial operands of one layout, where the mode table says that it is exact."""
    layouts = []
    covered = True
    described = []
    for a in args:
        if not isinstance(a, Operators):
            described.append(ModeOperand(None, np.result_type(a), a))
            continue
        array = cast("DistributedArray", a)
        if array._storage is None or not array._storage.version.layout.is_partial:
            return None
        layout = array._storage.version.layout
        covered = covered and layout.index_map.covers
        described.append(ModeOperand(layout.mode, array._dtype, None))
    mode = preserved(ufunc.__name__, tuple(described), covered=covered)
    if mode is None:
        return None
    with context.lock:
        operands: list[Any] = []
        for a in args:
            if isinstance(a, Operators):
                array = cast("DistributedArray", a)
                found = operand(context, array._own().version, array._view)
                if found is None or not found.layout.is_partial:
                    return None
                layouts.append(found.layout)
                operands.append(found.arrays)
            else:
                operands.append(a)
        if any(lo.index_map != layouts[0].index_map for lo in layouts):
            return None
        dtype = probe(ufunc, tuple([a._arg() if isinstance(a, Operators) else a for a in args]), {}).dtype
        chunks: list[Any] = []
        for i, (device_id, region) in enumerate(layouts[0].chunks):
            device = context.by_id[device_id]
            if device.process != context.process:
                chunks.append(None)
                continue
            chunk = device.empty(region.shape, dtype, ufunc.__name__)
            with device.active(), np.errstate(all="ignore"):
                call = getattr(device.lib, ufunc.__name__)
                call(*[o[i] if isinstance(o, list) else o for o in operands], out=chunk.array)
            chunks.append(chunk)
        target = context.layout(layouts[0].index_map, mode)
    kind = next(type(a) for a in args if isinstance(a, Operators))
    version = Version(target, list(chunks), dtype)
    return cast("DistributedArray", kind)._of_version(context, version, detached=not target.shape)


def astype_node(array: DistributedArray, dtype: Any) -> Node:
    """`array` converted to another dtype, recorded."""
    return record(array._context, ASTYPE, (array._arg(),), {"dtype": dtype}, array._shape)


def binary(ufunc: np.ufunc, left: Any, right: Any, array: DistributedArray) -> Any:
    """The short way of an operator: `array` is one of the operands."""
    if left is array:
        other = right
    else:
        other = left
    kind = type(other)
    shape = array._shape
    if kind is type(array):
        if other._context is not array._context:
            same_context((array, other))
        if other._shape != shape:
            shape = _broadcast(ufunc, left, right)
        storage = other._storage
        if storage is not None and storage.version.layout.is_partial:
            return apply(ufunc, (left, right))
        second = other._arg()
    elif kind in PYTHON_SCALARS or isinstance(other, np.generic):
        second = other
    elif known(other):
        if isinstance(other, np.matrix) and (ufunc is np.multiply or ufunc is np.power):
            raise TypeError(f"{ufunc.__name__} means another thing to np.matrix: pass np.asarray(m), or use @")
        return apply(ufunc, (left, right))
    elif _takes(other):
        return ufunc(left, right)
    elif hasattr(kind, "__array__") and not hasattr(kind, "__array_ufunc__"):
        converted = np.asarray(other)
        return apply(ufunc, (left, converted) if left is array else (converted, right))
    elif other is None or isinstance(other, (str, bytes)) or _is_opaque(other):
        if ufunc is np.equal:  # no element is equal to these
            return apply(np.logical_and, (array, False))
        return apply(np.logical_or, (array, True)) if ufunc is np.not_equal else NotImplemented
    else:
        return NotImplemented
    context = array._context
    context.check()
    storage = array._storage
    if storage is not None and storage.version.layout.is_partial:
        return apply(ufunc, (left, right))
    first = array._arg()
    node = record(context, ufunc, (first, second) if left is array else (second, first), {}, shape)
    return type(array)._of_node(node)


def _broadcast(ufunc: np.ufunc, left: Any, right: Any) -> tuple[int, ...]:
    """The operands' common shape; where there is none, NumPy's error, of dtypes before that of shapes."""
    try:
        return broadcast_shape(left._shape, right._shape)
    except ValueError:
        probe(ufunc, (left._arg(), right._arg()), {})
        raise


def known(other: Any) -> bool:
    """Whether an object is an operand by itself: an array of ours or NumPy's or CuPy's, a scalar, nested lists."""
    if isinstance(other, np.ndarray):
        return type(other) is np.ndarray or not own_protocol(type(other))
    if isinstance(other, (np.generic, Operators, *PYTHON_SCALARS, list, tuple)):
        return True
    return METHODS["is_foreign_array"](other)  # type: ignore[no-any-return]


def own_protocol(kind: type) -> bool:
    """Whether a subclass of NumPy's array (with units, say) has NumPy ask it before anything is computed."""
    return issubclass(kind, np.ndarray) and (
        kind.__array_ufunc__ is not np.ndarray.__array_ufunc__
        or kind.__array_function__ is not np.ndarray.__array_function__
    )


def _is_opaque(other: Any) -> bool:
    """Whether an object knows no equality but identity, and is no array to NumPy."""
    equality: Any = type(other).__eq__
    arrays = ("__array__", "__array_interface__", "__array_struct__", "__array_ufunc__")
    return equality is object.__eq__ and not any(hasattr(type(other), name) for name in arrays)


def _takes(other: Any) -> bool:
    """Whether an operator goes on to the ufunc, by NEP 13: with known operands, and those with a protocol of their own."""
    return known(other) or getattr(type(other), "__array_ufunc__", None) is not None


def in_place(ufunc: np.ufunc, array: DistributedArray, other: Any) -> Any:
    """``array op= other``."""
    if array._detached:
        return apply(ufunc, (array, other))
    if not known(other):
        return ufunc(array, other, out=array) if _takes(other) else NotImplemented
    if not array._writable:
        raise ReadOnlyError("output array is read-only: it stands where NumPy would have a view; write to x.copy()")
    context = array._context
    if isinstance(other, (*PYTHON_SCALARS, np.generic)):
        second: Any = other
    else:
        second = METHODS["as_operand"](context, other, None if METHODS["is_masked"](other) else array._shape)
        if isinstance(second, Operators):
            same_context((array, cast("DistributedArray", second)))
            shape = cast("DistributedArray", second)._shape
            if shape != array._shape:
                probe(ufunc, (array._arg(), _plain(second)), {"out": np.empty(0, array._dtype)})
            if shape != array._shape and broadcast_shape(array._shape, shape) != array._shape:
                raise ValueError(
                    f"non-broadcastable output operand with shape {array._shape} doesn't match the broadcast shape "
                    f"{broadcast_shape(array._shape, shape)}"
                )
    first = array._arg()
    argument = _plain(second)
    probe(ufunc, (first, argument), {"out": np.empty(0, array._dtype)})
    node = record(context, ufunc, (first, argument), {}, array._shape)
    if type(first) is Node:
        if node.dtype != array._dtype:
            node = record(context, ASTYPE, (node,), {"dtype": array._dtype}, array._shape)
        fresh = type(array)._of_node(node)
        array._node, array._storage = fresh._node, fresh._storage
        return array
    assert isinstance(first, Leaf)
    if (
        node.ufunc is np.power and node.dtype.kind in "iu"
    ):  # it stops where it fails: nothing is written before that is known
        array._assign(array._view_map(), cast("DistributedArray", type(array))._of_node(node))
        return array
    private = 1 + (type(argument) is Leaf and argument.version is first.version and argument.view == first.view)
    write(array._own(), array._view, node, private=private)
    return array


_BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide, "floordiv": np.floor_divide,
    "mod": np.remainder, "pow": np.power, "lshift": np.left_shift, "rshift": np.right_shift, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "matmul": np.matmul, "divmod": np.divmod,
}  # fmt: skip
_COMPARE = {
    "lt": np.less, "le": np.less_equal, "eq": np.equal, "ne": np.not_equal, "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
_UNARY = {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}


class Operators:
    """NumPy's operators, from the tables above."""

    __slots__ = ()
    __hash__: ClassVar[None] = None  # type: ignore[assignment]

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
        def __add__(self, other: Any) -> Any: ...
        def __radd__(self, other: Any) -> Any: ...
        def __sub__(self, other: Any) -> Any: ...
        def __rsub__(self, other: Any) -> Any: ...
        def __mul__(self, other: Any) -> Any: ...
        def __rmul__(self, other: Any) -> Any: ...
        def __truediv__(self, other: Any) -> Any: ...
        def __rtruediv__(self, other: Any) -> Any: ...
        def __floordiv__(self, other: Any) -> Any: ...
        def __mod__(self, other: Any) -> Any: ...
        def __pow__(self, other: Any) -> Any: ...
        def __matmul__(self, other: Any) -> Any: ...
        def __rmatmul__(self, other: Any) -> Any: ...
        def __and__(self, other: Any) -> Any: ...
        def __or__(self, other: Any) -> Any: ...
        def __xor__(self, other: Any) -> Any: ...
        def __lshift__(self, other: Any) -> Any: ...
        def __rshift__(self, other: Any) -> Any: ...
        def __neg__(self) -> Any: ...
        def __pos__(self) -> Any: ...
        def __abs__(self) -> Any: ...
        def __invert__(self) -> Any: ...
        def __lt__(self, other: Any) -> Any: ...
        def __le__(self, other: Any) -> Any: ...
        def __gt__(self, other: Any) -> Any: ...
        def __ge__(self, other: Any) -> Any: ...
        def __eq__(self, other: object) -> Any: ...
        def __ne__(self, other: object) -> Any: ...


def _forward(ufunc: np.ufunc) -> Callable[[Any, Any], Any]:
    if ufunc is np.matmul or ufunc is np.divmod:

        def general(self: Any, other: Any) -> Any:
            return ufunc(self, other) if _takes(other) else NotImplemented

        return general

    if ufunc is np.power:

        def power(self: Any, other: Any) -> Any:
            shorter = _shorter_power(self._dtype.kind, other)
            return binary(ufunc, self, other, self) if shorter is None else apply(shorter, (self,))

        return power

    def forward(self: Any, other: Any) -> Any:
        return binary(ufunc, self, other, self)

    return forward


def _shorter_power(kind: str, exponent: Any) -> np.ufunc | None:
    """What NumPy's operator, but not ``np.power``, calls for some exponents that are Python numbers."""
    if type(exponent) is int:
        if exponent == 2 and kind in "biufc":
            return np.square
        return np.reciprocal if exponent == -1 and kind in "fc" else None
    if type(exponent) is float and kind in "fc":
        if exponent == 0.5:
            return np.sqrt
        if kind == "f":
            return np.square if exponent == 2.0 else np.reciprocal if exponent == -1.0 else None
    return None


def _reflected(ufunc: np.ufunc) -> Callable[[Any, Any], Any]:
    if ufunc is np.matmul or ufunc is np.divmod:

        def general(self: Any, other: Any) -> Any:
            return ufunc(other, self) if _takes(other) else NotImplemented

        return general

    def reflected(self: Any, other: Any) -> Any:
        return binary(ufunc, other, self, self)

    return reflected


def _assigning(ufunc: np.ufunc) -> Callable[[Any, Any], Any]:
    if ufunc is np.matmul:

        def product(self: Any, other: Any) -> Any:
            if self._detached or not _takes(other):
                return NotImplemented
            return np.matmul(self, other, out=self)

        return product

    if ufunc is np.power:

        def power(self: Any, other: Any) -> Any:
            shorter = _shorter_power(self._dtype.kind, other)
            if shorter is None:
                return in_place(ufunc, self, other)
            return apply(shorter, (self,)) if self._detached else shorter(self, out=self)

        return power

    def assigning(self: Any, other: Any) -> Any:
        return in_place(ufunc, self, other)

    return assigning


def _single(ufunc: np.ufunc) -> Callable[[Any], Any]:
    def single(self: Any) -> Any:
        return apply(ufunc, (self,))

    return single


def _install() -> None:
    def put(name: str, function: Any) -> None:
        function.__name__ = f"__{name}__"
        function.__qualname__ = f"Operators.__{name}__"
        setattr(Operators, f"__{name}__", function)

    for name, ufunc in _BINARY.items():
        put(name, _forward(ufunc))
        put(f"r{name}", _reflected(ufunc))
        if name != "divmod":
            put(f"i{name}", _assigning(ufunc))
    for name, ufunc in _COMPARE.items():
        put(name, _forward(ufunc))
    for name, ufunc in _UNARY.items():
        put(name, _single(ufunc))


_install()
