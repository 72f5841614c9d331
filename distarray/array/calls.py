"""NumPy's operators and the calling of ufuncs: what turns ``x + y`` and ``np.add(x, y, out=…, where=…)`` into recorded
expressions.

The short way (one operator on arrays of one context), in-place operators, the general way (any ufunc call, with `out` and
`where`) and ufuncs of several outputs end in the same recording. Small whole arrays go by ``whole.py`` first.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray.array.aliases import AnyArray, ArrayLike, Shape
from distarray.array.place import as_array, as_operand, converts, is_foreign_array
from distarray.array.shapes import PYTHON_SCALARS, as_mask, broadcast_shape, memory_order, own_protocol
from distarray.array.state import DistributedArray, astype_node, from_chunks, same_context
from distarray.array.writing import assign, check_outputs, check_writable, store
from distarray.fusion import gpu_ufuncs
from distarray.fusion.conditions import WarningOnce
from distarray.fusion.demand import demand
from distarray.fusion.expr import (
    ASTYPE,
    COMPARISONS,
    Leaf,
    Node,
    forced,
    is_loud,
    probe,
    record,
    result_dtype,
    warn_complex,
)  # fmt: skip
from distarray.fusion.kept import UPDATED, is_named
from distarray.fusion.write import write
from distarray.modes import Mode, ModeOperand, preserved
from distarray.sites import call_site, warn_at
from distarray.storage import Version, operand
from distarray.transfer.execute import allocate

if TYPE_CHECKING:
    from distarray.context import Context


def _unwritten() -> str:
    """What NumPy (from 2.4) warns of ``where=`` without ``out=``."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        np.positive(np.empty(0), where=np.empty(0, bool))
    return str(caught[0].message) if caught else ""


_UNWRITTEN = _unwritten()

_LOUD = frozenset(("add", "subtract", "multiply", "divide", "true_divide", "sqrt"))
"""What the mode table has of float extrema and may overflow, or be invalid."""

__all__ = ["apply", "binary", "in_place", "known", "several", "takes"]


def apply(
    ufunc: np.ufunc,
    inputs: Sequence[Any],
    out: tuple[Any, ...] | None = None,
    where: ArrayLike = True,
    **kwargs: Any,
) -> Any:
    """Call an element-wise ufunc on arrays, scalars and whatever NumPy accepts.

    Communication: none where the operands have one layout; otherwise what aligns them, at the demand.
    """
    if out is None and where is True and not kwargs and ufunc.nout == 1 and len(inputs) < 3:
        plain = _recorded(ufunc, inputs)
        if plain is not None:
            return plain
    kwargs.pop("subok", None)
    memory_order(kwargs.pop("order", "K"))
    if kwargs.get("signature") is None:
        kwargs.pop("signature", None)
    context = same_context([a for a in (*inputs, *(out or ()), where) if isinstance(a, DistributedArray)])
    args = [_argument(context, item) for item in inputs]
    if kwargs.get("casting") == "unsafe" and any(isinstance(a, DistributedArray) and a.dtype.kind == "c" for a in args):
        args = _in_loop_dtypes(ufunc, args, kwargs)
    if out is not None and all(o is None for o in out):
        out = None
    mask = None if where is True else as_operand(context, as_mask(where))
    operands = tuple([recordable(a) for a in args])
    shape = _checked_shape(ufunc, operands, args, out, mask, kwargs)
    if kwargs.get("dtype") is not None or "signature" in kwargs:
        args, kwargs = _in_plain_loop(ufunc, args, kwargs, convert=context.kind != "host")
        operands = tuple([recordable(a) for a in args])
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
    if target is None:
        return DistributedArray._of_node(node)
    if forced(node) and not node.loud:  # a floating-point error comes when all is written, others before that
        demand(node)
    return store(node, target, operands)


def _recorded(ufunc: np.ufunc, inputs: Sequence[Any]) -> DistributedArray | None:
    """A call on arrays of one context and shape, and scalars, where no partial value goes into a partial one; None of others."""
    first: DistributedArray | None = None
    operands: list[Any] = []
    for item in inputs:
        if type(item) is DistributedArray:
            storage = item._storage
            if storage is not None and (layout := storage.version.layout).is_partial:
                described = (ModeOperand(layout.mode, item._dtype, None),)
                if len(inputs) > 1 or preserved(ufunc.__name__, described, covered=True) is not None:
                    return None
            if first is None:
                first = item
            elif item._context is not first._context or item._shape != first._shape:
                return None
            operands.append(item._arg())
        elif isinstance(item, (*PYTHON_SCALARS, np.generic)):
            operands.append(item)
        else:
            return None
    if first is None:
        return None
    first._context.check()
    return DistributedArray._of_node(record(first._context, ufunc, tuple(operands), {}, first._shape))


def _argument(context: Context, item: ArrayLike) -> Any:
    """An input as a scalar or an array of the context."""
    return item if isinstance(item, (*PYTHON_SCALARS, np.generic)) else as_operand(context, item)


def _asked_for(ufunc: np.ufunc, kwargs: dict[str, Any]) -> Any:
    """A call's ``signature=``, or what its ``dtype=`` means."""
    if kwargs.get("signature") is None and kwargs.get("dtype") is not None:
        return (*[None] * ufunc.nin, *[np.dtype(kwargs["dtype"])] * ufunc.nout)
    return kwargs.get("signature")


def _loop(
    ufunc: np.ufunc,
    args: Sequence[Any],
    signature: Any,  # a str, a tuple of dtypes, or None
    casting: Any,  # a str, which NumPy checks
) -> tuple[Any, ...] | None:
    """The dtypes of the loop that NumPy calls; None where there is none."""
    taken: list[Any] = []
    for a in args:
        kind = np.dtype(bool) if isinstance(a, bool) else type(a)
        taken.append(a.dtype if isinstance(a, (DistributedArray, np.generic)) else kind)
    asked: Any = {} if signature is None else {"signature": signature}
    try:
        return ufunc.resolve_dtypes((*taken, *[None] * ufunc.nout), casting=casting, **asked)
    except TypeError:  # the call itself raises this, in NumPy's words
        return None


def _in_plain_loop(
    ufunc: np.ufunc, args: list[Any], kwargs: dict[str, Any], convert: bool
) -> tuple[list[Any], dict[str, Any]]:
    """A call without ``dtype=`` and ``signature=`` where these ask for the loop that the operands have anyway. With `convert`, for
    libraries that find a loop by its result alone, also where they ask for another one: by operands in that one's dtypes."""
    casting = kwargs.get("casting", "same_kind")
    loop = _loop(ufunc, args, _asked_for(ufunc, kwargs), casting)
    if loop is None or any(t.kind not in "biufcmM" and t.name != "bfloat16" for t in loop):
        return args, kwargs
    rest = {name: value for name, value in kwargs.items() if name not in ("dtype", "signature")}
    compares = ufunc in COMPARISONS
    if compares and kwargs.get("signature") is None:  # a dtype of the result, which says nothing of the operands
        return args, rest
    if loop == _loop(ufunc, args, None, casting) and not (compares and any(type(a) is int for a in args)):
        return args, rest  # with a signature a comparison refuses integers beyond the dtype
    if not convert:
        return args, kwargs
    found: list[Any] = []
    for a, dtype in zip(args, loop, strict=False):
        if isinstance(a, DistributedArray):
            found.append(a if a.dtype == dtype else DistributedArray._of_node(astype_node(a, dtype)))
        else:
            with np.errstate(all="ignore"):
                found.append(np.full((), a, dtype)[()])  # a Python integer without room is refused
    rest.pop("casting", None)
    return found, rest


def _in_loop_dtypes(ufunc: np.ufunc, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """A call's operands, complex ones as the real numbers that the loop takes: warned of here, not by every block."""
    loop = _loop(ufunc, args, _asked_for(ufunc, kwargs), "unsafe")
    if loop is None:
        return list(args)
    found = []
    for a, dtype in zip(args, loop, strict=False):
        if isinstance(a, DistributedArray) and a.dtype.kind == "c" and dtype.kind in "iuf":
            warn_complex()
            a = DistributedArray._of_node(astype_node(a, dtype))
        found.append(a)
    return found


def _checked_shape(
    ufunc: np.ufunc,
    operands: tuple[Any, ...],
    args: Sequence[Any],
    out: tuple[Any, ...] | None,
    mask: AnyArray,
    kwargs: dict[str, Any],
) -> Shape:
    """The shape of a call's result, after NumPy has accepted a call of these dtypes: it speaks of dtypes before shapes."""
    shapes = [a._shape for a in (*args, mask) if isinstance(a, DistributedArray)]
    checks = dict(kwargs)
    if out is not None:
        for target in out:
            if target is not None and not isinstance(target, (DistributedArray, np.ndarray)):
                raise TypeError(f"return arrays must be of ArrayType, and out= got {type(target).__name__}")
        dummies = tuple(None if o is None else np.empty(0, o.dtype) for o in out)
        if kwargs.get("casting") == "unsafe" and ufunc.nout == 1 and out[0].dtype.kind in "iuf":
            made = probe(ufunc, operands, kwargs).dtype
            if made.kind == "c":  # any conversion is allowed, and this one is warned of here, once
                warn_complex()
                dummies = (np.empty(0, made),)
        checks["out"] = dummies if ufunc.nout > 1 else dummies[0]
    if mask is not None:
        checks["where"] = mask if isinstance(mask, np.generic) else np.empty(0, mask.dtype)
        if out is None:
            if _UNWRITTEN:
                warn_at(call_site(), _UNWRITTEN, UserWarning)
            checks["out"] = None if ufunc.nout == 1 else (None,) * ufunc.nout  # asks for no warning
    if checks != kwargs or len(set(shapes)) > 1:
        probe(ufunc, operands, checks)
    shape = broadcast_shape(*shapes) if shapes else ()
    if out is None:
        return shape
    check_outputs(out, shape)
    return next(o.shape for o in out if o is not None)


def _masked(
    context: Context,
    ufunc: np.ufunc,
    operands: Any,
    kwargs: dict[str, Any],
    shape: tuple[int, ...],
    mask: object,
    target: DistributedArray | None,
) -> Node:
    """A call with ``where=``: what stands where the mask is False is the target's, or zero where there is none."""
    dtype = probe(ufunc, operands, kwargs).dtype
    where = recordable(mask)
    zero = np.zeros((), dtype)[()]
    if target is None:
        return record(context, ufunc, operands, kwargs, shape, (where, zero))
    old = recordable(as_array(context, target))
    if target.dtype == dtype:
        return record(context, ufunc, operands, kwargs, shape, (where, old))
    value = record(context, ufunc, operands, kwargs, shape, (where, zero))
    return record(context, ASTYPE, (value,), {"dtype": target.dtype}, shape, (where, old))


def recordable(item: object) -> Any:
    """What stands for an operand in a recorded call."""
    return item._arg() if isinstance(item, DistributedArray) else item


def _several(
    context: Context,
    ufunc: np.ufunc,
    args: Sequence[Any],
    out: tuple[Any, ...] | None,
    mask: ArrayLike,
    shape: tuple[int, ...],
    kwargs: dict[str, Any],
) -> tuple[Any, ...]:
    """A ufunc of several outputs (``divmod``, ``modf``, ``frexp``): evaluated at the call, chunk by chunk.

    With a mask elements where it is False keep what stands in ``out=``, or are 0; the host computes none there.
    """
    results, failed = several(context, ufunc, args, shape, kwargs, mask)
    if failed is not None and out is None:
        raise failed
    targets = [None] * len(results) if out is None else out
    for target, result in zip(targets, results, strict=True):
        if target is not None and not np.can_cast(result.dtype, target.dtype, kwargs.get("casting", "same_kind")):
            raise TypeError(f"Cannot cast ufunc {ufunc.__name__!r} output from {result.dtype!r} to {target.dtype!r}")
    final = []
    for target, result in zip(targets, results, strict=True):
        chosen: Any = result
        if mask is not None:
            kept = np.zeros((), result.dtype)[()] if target is None else target
            chosen = np.where(mask, result.astype(kept.dtype), kept)
        final.append(chosen if target is None else store(chosen, target))
    if failed is not None:
        raise failed
    return tuple(final)


def _may_warn(ufunc: np.ufunc, operands: Sequence[ModeOperand]) -> bool:
    """Whether a call has floating-point conditions that somebody hears of: they are those of the folded values, and partial ones
    may meet others. Partial sums warn of nothing, and raise where that is asked for."""
    if ufunc.__name__ not in _LOUD:
        return False
    wanted = np.geterr().values()
    if "raise" not in wanted and not any(o.mode in (Mode.MIN, Mode.MAX) for o in operands):
        return False
    return any(how != "ignore" for how in wanted) and any(
        o.dtype is not None and o.dtype.kind in "fcV" for o in operands
    )


def _partial_result(context: Context, ufunc: np.ufunc, args: Sequence[Any]) -> Any:
    """The chunk-wise result on partial operands of one layout, where the mode table says that it is exact."""
    layouts = []
    covered = True
    described = []
    for a in args:
        if not isinstance(a, DistributedArray):
            described.append(ModeOperand(None, np.result_type(a), a))
            continue
        if a._storage is None or not a._storage.version.layout.is_partial:
            return None
        layout = a._storage.version.layout
        covered = covered and layout.index_map.covers
        described.append(ModeOperand(layout.mode, a._dtype, None))
    mode = preserved(ufunc.__name__, tuple(described), covered=covered)
    heard = mode is not None and context.kind == "host" and _may_warn(ufunc, described)
    if mode is None or (heard and context.communicator is not None):
        return None  # whether a condition is met in the folded value, one process does not know
    with context.lock:
        operands: list[Any] = []
        for a in args:
            if isinstance(a, DistributedArray):
                found = operand(context, a._own().version, a._view)
                if found is None or not found.layout.is_partial:
                    return None
                layouts.append(found.layout)
                operands.append(found.arrays)
            else:
                operands.append(a)
        if any(lo.index_map != layouts[0].index_map for lo in layouts):
            return None
        dtype = probe(ufunc, tuple([a._arg() if isinstance(a, DistributedArray) else a for a in args]), {}).dtype
        chunks: list[Any] = [None] * len(layouts[0].chunks)
        for i, device, region in context.local_regions(layouts[0]):
            chunk = chunks[i] = device.empty(region.shape, dtype, ufunc.__name__)
            with device.active():
                call = ufunc if device.kind == "host" else gpu_ufuncs.function_of(device.lib, ufunc)
                parts = [o[i] if isinstance(o, list) else o for o in operands]
                _, met = context.quiet(partial(call, out=chunk.array), *parts)
                if met and heard:
                    return None
        target = context.layout(layouts[0].index_map, mode)
    version = Version(target, list(chunks), dtype)
    return DistributedArray._of_version(context, version, detached=not target.shape)


def binary(
    ufunc: np.ufunc,
    left: Any,  # told apart by its class
    right: Any,  # told apart by its class
    array: DistributedArray,
) -> Any:
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
    elif takes(other):
        return ufunc(left, right)
    elif other is None or isinstance(other, (str, bytes)) or _is_opaque(other):
        if other is None and array._dtype.kind in "mM" and ufunc in _WITHOUT_COMMON_KIND:  # to NumPy, NaT equals None
            missing = apply(np.isnat, (array,))
            return missing if ufunc is np.equal else apply(np.logical_not, (missing,))
        return unlike(ufunc, array)  # no element equals None, text or an opaque object
    else:
        return NotImplemented
    context = array._context
    context.check()
    storage = array._storage
    if storage is not None and storage.version.layout.is_partial:
        return apply(ufunc, (left, right))
    first = array._arg()
    node = record(context, ufunc, (first, second) if left is array else (second, first), {}, shape)
    return DistributedArray._of_node(node)


_WITHOUT_COMMON_KIND: dict[np.ufunc, tuple[np.ufunc, bool]] = {
    np.equal: (np.logical_and, False),
    np.not_equal: (np.logical_or, True),
}
"""How comparisons of what can't be equal are computed: an operand's elements, and this."""


def unlike(ufunc: np.ufunc, array: DistributedArray, *others: object) -> Any:
    """What a comparison gives where nothing can be equal, in the shape to which the operands broadcast."""
    if ufunc not in _WITHOUT_COMMON_KIND:
        return NotImplemented
    combine, value = _WITHOUT_COMMON_KIND[ufunc]
    found = apply(combine, (array, value))
    for other in others:
        found = apply(combine, (found, other))
    return found


def _broadcast(ufunc: np.ufunc, left: Any, right: Any) -> tuple[int, ...]:
    """The operands' common shape; where there is none, NumPy's error, of dtypes before that of shapes."""
    try:
        return broadcast_shape(left._shape, right._shape)
    except ValueError:
        probe(ufunc, (left._arg(), right._arg()), {})
        raise


def known(other: object) -> bool:
    """Whether an object is an operand by itself: an array of ours or NumPy's or CuPy's, a scalar, nested lists,
    a sequence, or what NumPy makes an array of."""
    if isinstance(other, np.ndarray):
        return type(other) is np.ndarray or not own_protocol(type(other))
    if isinstance(other, (np.generic, DistributedArray, *PYTHON_SCALARS, list, tuple)):
        return True
    if isinstance(other, Sequence) or converts(other):  # ranges, deques, buffers, images
        return not isinstance(other, (str, bytes)) and not hasattr(type(other), "__array_ufunc__")
    return is_foreign_array(other)


def _is_opaque(other: Any) -> bool:
    """Whether an object knows no equality but identity, and is no array to NumPy."""
    equality: Any = type(other).__eq__
    arrays = ("__array__", "__array_interface__", "__array_struct__", "__array_ufunc__")
    return equality is object.__eq__ and not any(hasattr(type(other), name) for name in arrays)


def takes(other: object) -> bool:
    """Whether an operator goes on to the ufunc, by NEP 13: with known operands, and those with a protocol of their own."""
    return known(other) or getattr(type(other), "__array_ufunc__", None) is not None


def in_place(
    ufunc: np.ufunc,
    array: DistributedArray,
    other: Any,  # told apart by its class
) -> Any:
    """``array op= other``."""
    if array._detached:
        return apply(ufunc, (array, other))
    if not known(other):
        return ufunc(array, other, out=array) if takes(other) else NotImplemented
    check_writable(array, cure="write to x.copy()")
    named = type(other) is DistributedArray and other._node is not None and is_named(other, UPDATED)
    context = array._context
    if isinstance(other, (*PYTHON_SCALARS, np.generic)):
        second: Any = other
    else:
        second = as_array(context, other)
        if isinstance(second, DistributedArray):
            same_context((array, second))
            shape = second._shape
            if shape != array._shape:
                probe(ufunc, (array._arg(), recordable(second)), {"out": np.empty(0, array._dtype)})
            if shape != array._shape and broadcast_shape(array._shape, shape) != array._shape:
                raise ValueError(
                    f"non-broadcastable output operand with shape {array._shape} doesn't match the broadcast shape "
                    f"{broadcast_shape(array._shape, shape)}"
                )
    first = array._arg()
    argument = recordable(second)
    if type(first) is Node and is_loud(dict(np.geterr())):  # what raises is written all the same
        array._own()
        first = array._arg()
    result_dtype(ufunc, (first, argument), array._dtype)
    node = record(context, ufunc, (first, argument), {}, array._shape)
    if type(first) is Node:
        if node.dtype != array._dtype:
            node = record(context, ASTYPE, (node,), {"dtype": array._dtype}, array._shape)
        fresh = DistributedArray._of_node(node)
        array._node, array._storage = fresh._node, fresh._storage
        return array
    assert isinstance(first, Leaf)
    if node.ufunc is np.power and node.dtype.kind in "iu":
        # a negative exponent raises in the middle of a chunk: the value is computed before anything is written
        assign(array, array._view_map(), DistributedArray._of_node(node))
        return array
    private = 1 + (type(argument) is Leaf and argument.version is first.version and argument.view == first.view)
    write(array._own(), array._view, node, private=private, held=argument if named else None)
    return array


def several(
    context: Context,
    ufunc: np.ufunc,
    args: Sequence[Any],
    shape: tuple[int, ...],
    kwargs: dict[str, Any],
    mask: ArrayLike | None = None,
) -> tuple[list[DistributedArray], Exception | None]:
    """A ufunc of several outputs, computed at the call on aligned chunks, to the end; and the floating-point error that it met.

    Where a mask is False the results are 0 on the host, and anything on GPUs.
    """
    operands = tuple([a._arg() if isinstance(a, DistributedArray) else a for a in args])
    dtypes = [r.dtype for r in probe(ufunc, operands, kwargs)]
    arrays = [a for a in args if isinstance(a, DistributedArray)]
    # an expression of all operands decides the layout, and brings every operand there
    lead = max(arrays, key=lambda a: a.size)
    if lead.shape == shape:
        layout = context.layout(lead._operand(ufunc.__name__).layout.index_map)
    else:
        grown = record(context, ASTYPE, (lead._arg(),), {"dtype": lead.dtype}, shape)
        layout = demand(grown).layout
    local: list[Any] = []
    for a in (*args, True if mask is None else mask):
        if not isinstance(a, DistributedArray):
            local.append(a)
            continue
        version = a._own().version
        if a._view is not None or version.layout is not layout:
            version = demand(record(context, ASTYPE, (a._arg(),), {"dtype": a.dtype}, shape), layout)
        local.append([None if c is None else c.array for c in version.chunks])
    with context.reporting():
        outputs = [allocate(context, layout, dtype, label=ufunc.__name__) for dtype in dtypes]
    failed: Exception | None = None
    try:
        guard = context.guarding(ufunc.__name__)  # by the error state outside
        with WarningOnce(context, ufunc.__name__), guard:
            _run_several(ufunc, local, outputs, kwargs)
    except (FloatingPointError, RuntimeWarning) as error:
        failed = error
    found = [
        from_chunks(context, layout, chunks, dtype, detached=not shape)
        for chunks, dtype in zip(outputs, dtypes, strict=True)
    ]
    return found, failed


def _run_several(ufunc: np.ufunc, operands: Sequence[Any], outputs: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Call a ufunc on the operands' chunks, the last of which are the mask's; one that raises for what it met has written its
    outputs, and the others follow."""
    failed: FloatingPointError | None = None
    for i, chunks in enumerate(zip(*outputs, strict=True)):
        if chunks[0] is None:
            continue
        device = chunks[0].device
        with device.active():
            function = ufunc if device.kind == "host" else gpu_ufuncs.function_of(device.lib, ufunc)
            *given, mask = [a[i] if isinstance(a, list) else a for a in operands]
            masked = {}
            if mask is not True and device.kind == "host":
                masked["where"] = mask
                for chunk in chunks:
                    chunk.array[...] = 0
            try:
                function(*given, out=tuple([c.array for c in chunks]), **masked, **kwargs)
            except FloatingPointError as error:
                failed = failed or error
    if failed is not None:
        raise failed
