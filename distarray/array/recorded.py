"""The shortest way of recording an operator on GPUs: of calls that have been recorded before, by their form.

What NumPy makes of the dtypes is known from the first time. Everything else goes the general way (``calls.py``), which
gives the next call of the kind its form.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from distarray.array.state import DistributedArray
from distarray.fusion.expr import MAX_NODES, Leaf, Node
from distarray.fusion.forms import whole_form
from distarray.transfer.ledger import watching

__all__ = ["ALONE", "binary"]

_new = object.__new__

ALONE = object()
"""In the place of an operand that there is not."""

LARGEST = 65504
"""A number that every floating dtype has room for."""


def _recorded(x: DistributedArray) -> tuple[Any, Any, int] | None:
    """An array as an operand: its form, itself, and how many calls it is made of."""
    node = x._node
    if node is not None:
        form = node.form
        return None if form is None else (form, node, node.size)
    storage = x._storage
    if storage is None or storage.exposed:
        return None
    version = storage.version
    view: Any = x._map
    if view is None:
        form = version.form
        if form is None or form.bases[0].layout is not version.layout:
            form = whole_form(x._context, version)
    else:
        form = x._context.forms.get((id(version.layout), id(view), version.dtype))
    return None if form is None else (form, Leaf(version, view, x._shape), 0)


def binary(
    ufunc: np.ufunc,
    left: Any,  # told apart by its class
    right: Any,  # told apart by its class
    array: DistributedArray,
) -> DistributedArray | None:
    """An operator of two operands, of which `array` is one, or with ALONE on the right a call of one; None where the general way
    has to record it."""
    context, shape = array._context, array._shape
    if not shape or context.eager or context.debug or watching.get() is not None:
        return None
    arg: Any = array._node
    if arg is not None:
        form, size = arg.form, arg.size
        if form is None:
            return None
    else:
        first = _recorded(array)
        if first is None:
            return None
        form, arg, size = first
    other = right if left is array else left
    kind = type(other)
    args: tuple[Any, ...]
    if kind is float or kind is int:
        if not form.inexact or not -LARGEST <= other <= LARGEST:
            return None
        if left is array:
            child, args = form.grown.get((ufunc, 0, kind)), (arg, other)
        else:
            child, args = form.grown.get((ufunc, 1, kind)), (other, arg)
    elif kind is DistributedArray and other._shape == shape and other._context is context:
        second = (form, arg, size) if other is array else _recorded(other)
        if second is None:
            return None
        if left is array:
            child, args = form.grown.get((ufunc, 0, second[0])), (arg, second[1])
        else:
            child, args = second[0].grown.get((ufunc, 0, form)), (second[1], arg)
        size += second[2]
    elif other is ALONE:
        child, args = form.grown.get((ufunc, 0)), (arg,)
    else:
        return None
    if child is None or size >= MAX_NODES or (ufunc is np.power and child.dtype.kind in "iu"):
        return None  # powers of integers are refused by their values
    # as the constructors would: at this place every call counts
    node: Node = _new(Node)
    node.context = context
    node.ufunc = ufunc
    node.args = args
    node.shape = shape
    node.dtype = dtype = child.dtype
    node.size = size + 1
    node.form = child
    found: DistributedArray = _new(DistributedArray)
    found._context = context
    found._shape = shape
    found._dtype = dtype
    found._node = node
    found._storage = found._map = found._fresh = found._kin = None
    found._reach = ()
    found._home = -1
    found._writable = True
    found._detached = False
    return found
