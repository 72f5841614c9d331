"""The shortest way of recording an operator on GPUs: of calls that have been recorded before, by their form.

What NumPy makes of the dtypes is known from the first time. Everything else goes the general way (``calls.py``), which
gives the next call of the kind its form.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from distarray.array.state import DistributedArray
from distarray.fusion.expr import MAX_NODES, SILENT, Leaf, Node
from distarray.transfer.ledger import watching

__all__ = ["binary"]

LARGEST = 65504
"""A number that every floating dtype has room for."""


def _recorded(x: DistributedArray) -> tuple[Any, Any, tuple[Leaf, ...], tuple[Any, ...], int] | None:
    """An array as an operand: its form, itself, its leaves and numbers, and how many calls it is made of."""
    node = x._node
    if node is not None:
        return None if node.form is None else (node.form, node, node.leaves, node.numbers, node.size)
    storage = x._storage
    if storage is None or storage.exposed:
        return None
    version = storage.version
    view: Any = x._map
    form = x._context.forms.get((id(version.layout), id(view), version.dtype))
    if form is None:
        return None
    leaf = Leaf(version, view, x._shape)
    return form, leaf, (leaf,), (), 0


def binary(ufunc: np.ufunc, left: Any, right: Any, array: DistributedArray) -> DistributedArray | None:
    """An operator of two operands, of which `array` is one; None where the general way has to record it."""
    context, shape = array._context, array._shape
    if not shape or context.eager or context.debug or watching.get() is not None:
        return None
    first = _recorded(array)
    if first is None:
        return None
    form, arg, leaves, numbers, size = first
    other = right if left is array else left
    kind = type(other)
    if kind is float or kind is int:
        if not form.inexact or not -LARGEST <= other <= LARGEST:
            return None
        if left is array:
            child = form.grown.get((ufunc, 0, kind))
            args, numbers = (arg, other), (*numbers, other)
        else:
            child = form.grown.get((ufunc, 1, kind))
            args, numbers = (other, arg), (other, *numbers)
    elif kind is DistributedArray and other._shape == shape and other._context is context:
        second = first if other is array else _recorded(other)
        if second is None:
            return None
        if left is not array:  # the operator of the right operand: the left one has been asked for it already
            first, second = second, first
            form, arg, leaves, numbers, size = first
        child = form.grown.get((ufunc, 0, second[0]))
        args = arg, second[1]
        leaves, numbers, size = leaves + second[2], numbers + second[3], size + second[4]
    else:
        return None
    if child is None or size >= MAX_NODES:
        return None
    node = Node(context, ufunc, args, {}, shape, child.dtype, size + 1, SILENT, False)
    node.form, node.leaves, node.numbers = child, leaves, numbers
    return DistributedArray._make(context, shape, child.dtype, node, None)
