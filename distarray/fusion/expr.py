"""Expressions: element-wise computations that are recorded, not yet evaluated.

A :class:`Node` is one ufunc call on leaves, nodes and scalars. Its shape, dtype and their errors are found when it is
recorded, by calling the ufunc on empty arrays of the operands' dtypes: NumPy itself decides promotion, casting and
messages. A :class:`Leaf` is a version of a storage seen through a view; it pins the version, so that a later write does
not change what the expression reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from distarray.context import RAISING
from distarray.devices import error_states
from distarray.devices.arrays import AnyDType, DeviceArray
from distarray.errors import UnsupportedError
from distarray.fusion.forms import Form, base_form, grown, kind_of_number
from distarray.geometry import ViewMap
from distarray.sites import Site, call_site, warn_at
from distarray.storage import Version
from distarray.transfer.ledger import watching

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = [
    "ASTYPE",
    "COMPARISONS",
    "MAX_NODES",
    "Conversion",
    "Leaf",
    "Node",
    "filled",
    "forced",
    "probe",
    "real_for",
    "record",
    "warn_complex",
]

SILENT = {"divide": "ignore", "over": "ignore", "under": "ignore", "invalid": "ignore"}
"""GPUs report no floating-point conditions: nothing is asked for, and nothing is looked up."""

MAX_NODES = 48
"""An expression of more nodes is evaluated when it is recorded: a bound that metadata alone sets."""

_NUMBERS = frozenset((bool, int, float, np.float64))

COMPARISONS = frozenset((np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal))

_PLAIN = frozenset("biufc")
_OBJECT = np.dtype(object)
_EMPTY: dict[Any, Any] = {}


def empty_of(dtype: AnyDType) -> Any:
    """A zero-size array of a dtype, to ask NumPy what a ufunc would do with it."""
    found = _EMPTY.get(dtype)
    if found is None:
        found = _EMPTY.setdefault(dtype, np.empty(0, dtype))
    return found


def warn_complex() -> None:
    """NumPy's warning where an imaginary part is dropped, at the caller's line."""
    text = "Casting complex values to real discards the imaginary part"
    warn_at(call_site(), text, np.exceptions.ComplexWarning)


def real_for(
    value: Any,  # what is written: an array, a scalar, nested lists
    dtype: AnyDType,
) -> Any:
    """A value, without the imaginary part that `dtype` has no room for: warned of at the caller's line."""
    if dtype.kind not in "iuf" or getattr(getattr(value, "dtype", None), "kind", "") != "c":
        return value
    warn_complex()
    return value.real


def real_part(array: DeviceArray, dtype: AnyDType) -> Any:
    """`array`, or its real part where `dtype` has no room for more: the warning was given at the call."""
    if dtype.kind not in "cb" and getattr(array, "dtype", dtype).kind == "c":
        return array.real
    return array


def converted_into(
    out: np.ndarray[Any, Any], source: np.ndarray[Any, Any], where: np.ndarray[Any, Any] | bool = True
) -> None:
    """Write converted values to their end, also where a floating-point condition raises: NumPy looks at a 0-d source before it
    writes, and `out` may be memory that nothing stands in."""
    try:
        np.copyto(out, source, casting="unsafe", where=where)
    except FloatingPointError:
        with np.errstate(all="ignore"):
            np.copyto(out, source, casting="unsafe", where=where)
        raise


class Conversion:
    """A conversion to another dtype, in the place of a ufunc."""

    __name__ = "astype"

    def __call__(
        self,
        array: np.ndarray[Any, Any],
        *,
        dtype: AnyDType,
        out: np.ndarray[Any, Any] | None = None,
        where: np.ndarray[Any, Any] | bool = True,
    ) -> Any:
        array = real_part(array, dtype)
        if out is None:
            return np.asarray(array).astype(dtype)
        converted_into(out, array, where)
        return out


ASTYPE = Conversion()


class Leaf:
    """A version seen through a view. `view` is None for the identity."""

    __slots__ = ("dtype", "exposed", "shape", "token", "version", "view")

    def __init__(self, version: Version, view: ViewMap | None, shape: tuple[int, ...], exposed: bool = False) -> None:
        self.version = version
        self.token = version.token
        self.view = view
        self.shape = shape
        self.dtype = version.dtype
        self.exposed = exposed


class Node:
    """One recorded ufunc call.

    Attributes
    ----------
    ufunc : numpy.ufunc
    args : tuple of Leaf, Node or scalar
    kwargs : dict
        ``dtype`` and ``casting``, as they were given.
    masked : bool
        The last two `args` are a mask, and what stands where it is False.
    shape, dtype
        Of the result.
    size : int
        Nodes below and including this one. Shared ones count each time while that stays within ``MAX_NODES``; then once.
    errors : dict
        ``np.geterr()`` at the call.
    loud : bool
        Whether these ask for more than a warning.
    site : tuple of (file name, line)
        The caller's line, for warnings.
    version : Version or None
        The value, once it has been evaluated.
    read : bool
        Whether a reduction has computed it without keeping it.
    kept : Kept or None
        This process's part of the value, where another expression has computed it: see `fusion.kept`.
    spent : int
        What this process has spent on it as a part of other expressions, in bytes an element: see `fusion.kept`.
    warned : tuple of str
        The floating-point conditions that have been warned of: a call warns once, however often it is computed.
    form : Form or None
        On GPUs, what it shares with others of its kind: see `fusion.forms`.
    """

    kwargs: dict[str, Any] = {}  # noqa: RUF012 - nobody writes to it
    errors: dict[str, Any] = SILENT
    loud = False
    masked = False
    site: Site = ("", 0, {})
    version: Version | None = None
    read = False
    kept: Any = None
    spent = 0
    warned: tuple[str, ...] = ()
    token: Any = None
    form: Form | None = None

    def __init__(
        self,
        context: Context,
        ufunc: np.ufunc | Conversion,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        shape: tuple[int, ...],
        dtype: AnyDType,
        size: int,
        errors: dict[str, Any],
        masked: bool,
    ) -> None:
        self.context = context
        self.ufunc = ufunc
        self.args = args
        self.kwargs = kwargs
        self.shape = shape
        self.dtype = dtype
        self.size = size
        self.errors = errors
        self.loud = errors is not SILENT and is_loud(errors)
        self.masked = masked

    def settle(self, version: Version) -> None:
        """Keep the value, and let go of the operands."""
        self.version = version
        self.token = version.token
        self.args = ()
        self.kept = self.form = None
        watch = watching.get()
        if watch is not None:  # it has been counted, and the block must not keep the value alive
            watch.drop(self)


def probe(ufunc: np.ufunc | Conversion, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What NumPy makes of the operands' dtypes and scalars: empty results, or its own error.

    A scalar that a dtype has no room for is warned of when the operation is evaluated.
    """
    stand = [empty_of(a.dtype) if type(a) is Leaf or type(a) is Node else a for a in args]
    for a, b in zip(args, stand, strict=True):
        if a is b and not small(a):
            with np.errstate(all="ignore"):
                return ufunc(*stand, **kwargs)
    return ufunc(*stand, **kwargs)


def overflows_in_cast(node: Node) -> bool:
    """Whether a recorded call has a number that is too large for the dtype it is converted to, as NumPy finds before it calls the
    operation: without elements the operation itself overflows nowhere."""
    args = node.args[:-2] if node.masked else node.args
    if all(type(a) is Leaf or type(a) is Node or small(a) for a in args):
        return False
    stand = [empty_of(a.dtype) if type(a) is Leaf or type(a) is Node else a for a in args]
    try:
        with np.errstate(all="ignore", over="raise"):
            node.ufunc(*stand, **node.kwargs)
    except FloatingPointError:
        return True
    return False


_KINDS: dict[tuple[Any, ...], Any] = {}
"""Result dtypes by ufunc and operands' dtypes; of scalars that change nothing by their value, their type stands there."""

_MOST = 4096


def result_dtype(ufunc: np.ufunc | Conversion, args: tuple[Any, ...], out: DeviceArray | None = None) -> Any:
    """The dtype that NumPy gives a call's result, or its own error; with `out`, into an array of that dtype."""
    kinds: list[Any] = [ufunc, out]
    inexact, numbers = True, False
    for a in args:
        kind = type(a)
        if kind is Leaf or kind is Node:
            kinds.append(a.dtype)
            inexact = inexact and a.dtype.kind in "fc"
        elif kind in _NUMBERS and small(a):
            kinds.append(kind)
            numbers = True
        else:
            inexact, numbers = False, True
            break
    if numbers and not inexact:  # an integer's value may matter
        return probe(ufunc, args, {} if out is None else {"out": np.empty(0, out)}).dtype
    key = tuple(kinds)
    found = _KINDS.get(key)
    if found is None:
        if len(_KINDS) >= _MOST:
            _KINDS.clear()
        found = _KINDS[key] = probe(ufunc, args, {} if out is None else {"out": np.empty(0, out)}).dtype
    return found


def small(
    value: Any,  # a number of any kind
) -> bool:
    """Whether every floating dtype surely has room for a scalar."""
    return type(value) in _NUMBERS and -65504 <= value <= 65504


def _decided(ufunc: Any, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """A comparison with a Python integer that the other operand's dtype has no room for, which NumPy decides by itself, as one
    that kernels can compute: with the dtype's least number."""
    for place, number in enumerate(args):
        other = args[1 - place]
        dtype = None if type(number) is not int else getattr(other, "dtype", None)
        if dtype is None or dtype.kind not in "iu":
            continue
        limits = np.iinfo(dtype)
        if limits.min <= number <= limits.max:
            continue
        if ufunc is np.equal or ufunc is np.not_equal:
            holds = ufunc is np.not_equal
        else:
            is_less = (number > limits.max) == (place == 1)  # the first operand than the second
            holds = is_less == (ufunc is np.less or ufunc is np.less_equal)
        return (np.greater_equal if holds else np.less), (other, int(limits.min))
    return ufunc, args


def record(
    context: Context,
    ufunc: np.ufunc | Conversion,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    shape: tuple[int, ...],
    mask: tuple[Any, Any] | None = None,
) -> Node:
    """Record a ufunc call with one output; its dtype is what NumPy says.

    `mask` is a boolean operand and what the result holds where it is False.
    """
    if not kwargs:
        dtype = result_dtype(ufunc, args)
    elif ufunc is ASTYPE and kwargs["dtype"].kind in _PLAIN and getattr(args[0], "dtype", _OBJECT).kind in _PLAIN:
        dtype = kwargs["dtype"]
    else:
        dtype = probe(ufunc, args, kwargs).dtype
    if dtype.kind not in "biufcmM" and dtype.name != "bfloat16" and dtype.names is None:
        raise UnsupportedError(
            f"{ufunc.__name__} gives dtype {dtype} here, which can't be distributed: call it on x.get(), or on operands "
            f"and with a dtype= that are bool, integer, floating, complex or of times"
        )
    if ufunc in COMPARISONS and kwargs.get("signature") is None:
        ufunc, args = _decided(ufunc, args)
    if mask is not None:
        args = (*args, *mask)
    size = 1
    for arg in args:
        if type(arg) is Node and arg.version is None:
            size += arg.size
    if size > MAX_NODES:
        size = 1 + _distinct(args)
    if context.kind == "host":
        errors = error_states()
        node = Node(context, ufunc, args, kwargs, shape, dtype, size, errors, mask is not None)
        node.site = call_site()
    else:
        node = Node(context, ufunc, args, kwargs, shape, dtype, size, SILENT, mask is not None)
        _give_form(context, node)
    if context.debug:
        context.traced(ufunc.__name__, shape, *[arg for arg in args if type(arg) is not Node and type(arg) is not Leaf])
    watch = watching.get()
    if watch is not None:
        for arg in args:
            if type(arg) is Node:
                watch.drop(arg)
        watch.recorded[id(node)] = node
    return node


def _give_form(context: Context, node: Node) -> None:
    """Find the form of a call whose operands have the shape of its result."""
    if node.kwargs and node.ufunc is not ASTYPE:
        return
    kinds: list[Any] = []
    for arg in node.args:
        kind = type(arg)
        if kind is Leaf or kind is Node:
            if arg.shape != node.shape:
                return
            if kind is Node:
                kinds.append(arg.form)
            else:
                kinds.append(None if arg.exposed else base_form(context, arg.version.layout, arg.view, arg.dtype))
        else:
            kinds.append(kind_of_number(arg))
        if kinds[-1] is None:
            return
    node.form = grown(context, node.ufunc, kinds, node.kwargs, node.dtype, node.masked)


def filled(node: Node, leaves: list[Leaf], numbers: list[Any]) -> bool:
    """Append the operands and numbers of an expression that has a form, in the order of that; False where one of its calls has been
    evaluated since, and the form is no longer its own."""
    for arg in node.args:
        kind = type(arg)
        if kind is Leaf:
            leaves.append(arg)
        elif kind is not Node:
            numbers.append(arg)
        elif arg.version is not None or not filled(arg, leaves, numbers):
            return False
    return True


def _distinct(args: tuple[Any, ...]) -> int:
    """How many nodes there are to evaluate among some and below them."""
    seen: set[int] = set()
    todo = list(args)
    while todo:
        item = todo.pop()
        if type(item) is Node and item.version is None and id(item) not in seen:
            seen.add(id(item))
            todo.extend(item.args)
    return len(seen)


def fallible(node: Node) -> bool:
    """Whether data can make a call fail as NumPy's does, on some processes and not on others."""
    seen: set[int] = set()
    todo: list[Any] = [node]
    while todo:
        item = todo.pop()
        if not RAISING.isdisjoint(item.errors.values()) or (item.ufunc is np.power and item.dtype.kind in "iu"):
            return True
        if item.ufunc is ASTYPE:  # of a call that goes to an array of another dtype, before it was evaluated itself
            for arg in item.args:
                if type(arg) is Node and arg.version is None and id(arg) not in seen:
                    seen.add(id(arg))
                    todo.append(arg)
    return False


def forced(node: Node) -> bool:
    """Whether a node has to be evaluated at its call: data can make it fail, its errors are asked for at once, or its
    expression has grown to the bound. Decided from metadata alone."""
    if node.size > MAX_NODES or node.context.eager:
        return True
    if node.ufunc is np.power and node.dtype.kind in "iu":
        return True
    for arg in node.args:
        if type(arg) is Leaf and arg.exposed:
            return True
    return node.loud


def is_loud(errors: dict[str, Any]) -> bool:
    """Whether conditions are to raise, print or call: what only an evaluation at the call can do."""
    for how in errors.values():  # noqa: SIM110 - any() takes three times as long, at each recorded call
        if how != "warn" and how != "ignore":
            return True
    return False
