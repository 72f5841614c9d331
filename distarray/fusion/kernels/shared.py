"""Expressions that have no form of their own, or a costly one: what they use several times stands there once.

A form takes an expression for a tree, which a long formula outgrows, and knows nothing of what the program keeps. Here an
expression is walked, each call once. Where the program refers to none of its calls but the last, there is nothing to keep, and
it goes straight to its kernel as others do; the form of those that are alike is found by what the walk says of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from distarray.fusion.expr import ASTYPE, Leaf, Node
from distarray.fusion.forms import OPERANDS, Form, FormStep, base_form, kind_of_number, remembered, whole_form
from distarray.fusion.kernels.element import is_reciprocal
from distarray.fusion.recipes import references

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = ["walked"]


class _Walk:
    """An expression as far as it has been walked. `codes` say what it is, but for its operands and numbers."""

    __slots__ = ("codes", "context", "leaves", "nodes", "numbers", "places", "shape", "slots", "steps", "uses")

    def __init__(self, context: Context, shape: tuple[int, ...]) -> None:
        self.context = context
        self.shape = shape
        self.codes: list[Any] = []
        self.leaves: list[Leaf] = []
        self.numbers: list[Any] = []
        self.nodes: list[Node] = []
        self.uses: list[int] = []
        self.steps: list[FormStep] = []
        self.slots: dict[int, int] = {}
        self.places: dict[tuple[int, int], int] = {}

    def visit(self, node: Node) -> int:
        """Enter a call and what it needs; its number, or -1 where the expression has no form."""
        if node.kept is not None or (node.kwargs and node.ufunc is not ASTYPE):
            return -1
        for arg in node.args:
            if (type(arg) is Node or type(arg) is Leaf) and arg.shape != self.shape:
                return -1
        codes: list[Any] = [node.ufunc, node.dtype, node.masked]
        args: list[tuple[str, int]] = []
        for arg in node.args:
            kind = type(arg)
            if kind is Node and arg.version is None:
                slot = self.slots.get(id(arg), -1)
                if slot < 0 and (slot := self.visit(arg)) < 0:
                    return -1
                self.uses[slot] += 1
                codes.append(-1 - slot)
                args.append(("step", slot))
            elif kind is Leaf or kind is Node:
                place = self._leaf(arg, codes)
                if place < 0:
                    return -1
                args.append(("leaf", place))
            else:
                known = kind_of_number(arg)
                if known is None:
                    return -1
                codes.append(("one", known) if not args and is_reciprocal(node.ufunc, node.dtype, arg) else known)
                args.append(("number", len(self.numbers)))
                self.numbers.append(arg)
        slot = self.slots[id(node)] = len(self.nodes)
        self.nodes.append(node)
        self.uses.append(0)
        self.steps.append(FormStep(node.ufunc, tuple(args), node.kwargs, node.dtype, node.masked))
        self.codes += codes
        return slot

    def _leaf(self, arg: Leaf | Node, codes: list[Any]) -> int:
        """Enter an operand; its number, or -1."""
        leaf = arg if type(arg) is Leaf else Leaf(arg.version, None, arg.shape)  # type: ignore[arg-type]
        key = id(leaf.version), id(leaf.view)
        place = self.places.get(key)
        if place is None:
            if leaf.exposed or len(self.leaves) == OPERANDS:
                return -1
            version = leaf.version
            view: Any = leaf.view
            base = (
                whole_form(self.context, version)
                if view is None
                else base_form(self.context, version.layout, view, version.dtype)
            )
            if base is None:
                return -1
            place = self.places[key] = len(self.leaves)
            self.leaves.append(leaf)
            codes.append(base)
        codes.append(place)
        return place


def walked(context: Context, root: Node) -> tuple[Form, list[Leaf], list[Any]] | None:
    """The form of an expression of which the program holds nothing but the value, its distinct operands and its numbers; None of
    others."""
    walk = _Walk(context, root.shape)
    if walk.visit(root) < 0:
        return None
    nodes, uses = walk.nodes, walk.uses
    for slot in range(len(nodes) - 1):
        if references(nodes, slot) > uses[slot]:
            return None
    form = remembered(context, ("walked", *walk.codes), lambda: _form(walk))
    return form, walk.leaves, walk.numbers


def _form(walk: _Walk) -> Form:
    bases = tuple([base for leaf in walk.leaves for base in _base(walk.context, leaf).bases])
    return Form(bases, len(walk.numbers), tuple(walk.steps), walk.steps[-1].dtype, True)


def _base(context: Context, leaf: Leaf) -> Form:
    found = base_form(context, leaf.version.layout, leaf.view, leaf.dtype)
    assert found is not None  # or the walk had ended there
    return found
