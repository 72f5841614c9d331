"""An expression as a program and its leaves, and where it will be evaluated: what is known of it before anything is computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from distarray.fusion.align import Alignment, align
from distarray.fusion.expr import Leaf, Node
from distarray.fusion.meeting import meeting_place
from distarray.fusion.program import Instruction, Program
from distarray.geometry import ViewMap
from distarray.layout import Layout
from distarray.storage import Version
from distarray.transfer.execute import resolve

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = [
    "alignment_of",
    "compile_expression",
    "expression_devices",
    "leaf_by_group",
    "message_itemsizes",
    "resolve_leaves",
]


class _Compiler:
    """Puts an expression's nodes in order. A class and not nested functions: those would hold themselves, and with them
    the leaves, until the garbage collector comes, and a leaf that lives on makes the next write copy."""

    __slots__ = ("leaves", "places", "slots", "steps")

    def __init__(self) -> None:
        self.steps: list[Instruction] = []
        self.leaves: list[Leaf] = []
        self.slots: dict[int, int] = {}
        self.places: dict[tuple[int, Any], int] = {}

    def visit(self, item: object) -> tuple[str, Any]:
        if type(item) is Leaf:
            return ("leaf", self.leaf(item))
        if type(item) is not Node:
            return ("const", item)
        if item.version is not None:
            return ("leaf", self.leaf(Leaf(item.version, None, item.shape)))
        done = self.slots.get(id(item))
        if done is None:
            args = tuple([self.visit(arg) for arg in item.args])
            done = self.slots[id(item)] = len(self.steps)
            self.steps.append(
                Instruction(
                    item.ufunc, args, item.kwargs, item.dtype, item.errors, item.site, item.masked, item.loud, item
                )
            )
        return ("step", done)

    def leaf(self, leaf: Leaf) -> int:
        key = (id(leaf.version), leaf.view)
        place = self.places.get(key)
        if place is None:
            place = self.places[key] = len(self.leaves)
            self.leaves.append(leaf)
        return place


def compile_expression(root: Node | Leaf) -> tuple[Program, list[Leaf]]:
    """The steps of an expression in order, each shared node once, and its distinct leaves."""
    if type(root) is Leaf:
        return Program((), ("leaf", 0), root.dtype, root.shape, "assignment"), [root]
    compiler = _Compiler()
    result = compiler.visit(root)
    name = root.ufunc.__name__ if type(root) is Node else "assignment"
    shape = getattr(root, "shape", ())
    return Program(tuple(compiler.steps), result, getattr(root, "dtype", None), shape, name), compiler.leaves


def resolve_leaves(context: Context, program: Program, leaves: Sequence[Leaf]) -> Sequence[Leaf]:
    for leaf in leaves:
        if leaf.version.layout.is_partial:
            resolve(context, leaf.version, program.name)
    return leaves


def alignment_of(
    context: Context,
    program: Program,
    leaves: Sequence[Leaf],
    target: Layout | None,
    shape: tuple[int, ...] | None = None,
    layouts: Sequence[Layout] | None = None,
    views: Sequence[ViewMap | None] | None = None,
) -> Alignment:
    """The alignment of a compiled expression; its leaves must be resolved and brought together, or `layouts` and `views` say
    how they will be."""
    held = [leaf.version.layout for leaf in leaves] if layouts is None else layouts
    groups = groups_of(leaves)
    seen = [leaf.view for leaf in leaves] if views is None else views
    described = list(zip(held, seen, groups, strict=True))
    shape = program.shape if shape is None else shape
    itemsize = 1 if program.dtype is None else program.dtype.itemsize
    return align(context, shape, itemsize * math.prod(shape), described, target)


def expression_devices(root: Node) -> tuple[int, ...]:
    """The devices on which an expression will be evaluated, from metadata alone."""
    context = root.context
    everywhere = context.group.ids
    seen: set[int] = set()
    todo: list[Any] = [root]
    while todo:
        item = todo.pop()
        if type(item) is Node and item.version is None:
            if id(item) not in seen:
                seen.add(id(item))
                todo.extend(item.args)
        elif isinstance(item, (Leaf, Node)) and cast("Version", item.version).layout.devices != everywhere:
            break
    else:
        return everywhere  # every layout that alignment considers names all devices
    program, leaves = compile_expression(root)
    layouts = [context.layout(leaf.version.layout.index_map.completed()) for leaf in leaves]
    described = [(layout, leaf.view) for layout, leaf in zip(layouts, leaves, strict=True)]
    place, _, stores = meeting_place(context, program.shape, described, None)
    if place is not None:
        return place.devices
    layouts = [layout if store is None else store for layout, store in zip(layouts, stores, strict=True)]
    return alignment_of(context, program, leaves, None, layouts=layouts).layout.devices


def groups_of(leaves: Sequence[Leaf]) -> list[int]:
    """An integer for each leaf: equal where two leaves read one version with the same shape of the storage, so that they
    share what is fetched."""
    numbers: dict[tuple[int, Any], int] = {}
    groups = []
    for leaf in leaves:
        base = None if leaf.view is None else (leaf.view.base, leaf.view.inner)
        if base == (leaf.version.layout.shape, None):
            base = None
        groups.append(numbers.setdefault((id(leaf.version), base), len(numbers)))
    return groups


def leaf_by_group(leaves: Sequence[Leaf]) -> dict[int, Leaf]:
    found: dict[int, Leaf] = {}
    for leaf, group in zip(leaves, groups_of(leaves), strict=True):
        found.setdefault(group, leaf)
    return found


def message_itemsizes(leaves: Sequence[Leaf]) -> dict[int, int]:
    """Bytes of an element of each group of an alignment's messages."""
    return {group: leaf.dtype.itemsize for group, leaf in leaf_by_group(leaves).items()}
