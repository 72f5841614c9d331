"""Recipes: how expressions that come again are computed by kernels, found by one look-up of their form.

A loop records the same calls on arrays of the same layout again and again. What was found for the first of them, the plan, the
kernels and which values are kept, holds for all that have the same form; what differs is where the chunks lie, and the values of
scalars. So an expression is walked once, its form looked up, and what is left is memory for the result and a call of the
kernel for each chunk.

A recipe serves whole chunks that lie alike, of which one kernel computes everything; it is written down where the general way
(``demand.evaluate_into``) went that way. Where a floating-point condition is met that somebody wants to hear of, nothing has been
said or kept yet, and the general way computes all again.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from sys import getrefcount
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray.devices import Chunk
from distarray.fusion.expr import Leaf, Node, fallible
from distarray.fusion.kept import Kept, Stored
from distarray.fusion.native import run
from distarray.fusion.native.element import literal_type
from distarray.fusion.native.lines import line_places
from distarray.fusion.native.machine import CONDITIONS
from distarray.fusion.native.planning import settled_scalars
from distarray.fusion.program import Program
from distarray.layout import Layout

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = ["Walk", "followed", "learn", "references", "walked"]

FEW = 3
"""Layouts of more chunks a device are left to what makes and finds them in one piece of memory."""

PATIENCE = 2
"""So often a form may meet conditions that are heard; then it has no recipe."""


class Walk:
    """An expression in the order in which `compile_expression` puts it.

    Attributes
    ----------
    form : tuple
        What it is, but for its operands and numbers, and what is known of its values: the key of a recipe.
    layout : Layout
        Of all operands.
    leaves : list of Version
    nodes : list of Node
        Until it is said that the program alone refers to them.
    kept : list of (call, chunks)
        The values that are kept, in the layout.
    held : list of int
        The calls that more refers to than the expression.
    """

    __slots__ = ("codes", "form", "held", "kept", "layout", "leaves", "nodes", "places", "shape", "slots", "uses")

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.layout: Layout | None = None
        self.leaves: list[Any] = []
        self.nodes: list[Node] = []
        self.codes: list[Any] = []
        self.uses: list[int] = []
        self.slots: dict[int, int] = {}
        self.places: dict[int, int] = {}
        self.kept: list[tuple[int, list[Chunk | None]]] = []
        self.held: list[int] = []
        self.form: tuple[Any, ...] = ()

    def visit(self, node: Node) -> int:
        """Enter a call and what it needs; its number, or -1 where there is no recipe for it."""
        if node.loud or node.shape != self.shape:
            return -1
        codes: list[Any] = [node.ufunc, node.dtype, node.masked]
        if node.kwargs:
            codes += (len(node.kwargs), node.kwargs.get("dtype"))
        for arg in node.args:
            kind = type(arg)
            if kind is Leaf:
                if arg.view is not None or arg.exposed:
                    return -1
                version = arg.version
            elif kind is Node:
                version = arg.version
                if version is None:
                    slot = self.slots.get(id(arg))
                    if slot is None:
                        slot = self.visit(arg)
                        if slot < 0:
                            return -1
                    self.uses[slot] += 1
                    codes.append(-1 - slot)
                    continue
            else:
                literal = literal_type(arg)
                if literal is None:
                    return -1
                codes.append(literal)
                continue
            place = self.places.get(id(version))
            if place is None:
                layout = version.layout
                if self.layout is None:
                    if (
                        layout.is_partial
                        or layout.shape != self.shape
                        or len(layout.chunks) > FEW * len(layout.devices)
                    ):
                        return -1
                    self.layout = layout
                elif layout is not self.layout:
                    return -1
                place = self.places[id(version)] = len(self.leaves)
                self.leaves.append(version)
                codes += (place, version.dtype)
            else:
                codes.append(place)
        slot = self.slots[id(node)] = len(self.nodes)
        self.nodes.append(node)
        self.uses.append(0)
        self.codes += codes
        return slot

    def seal(self) -> None:
        """Find the form, with what is kept and what is held beyond the expression."""
        assert self.layout is not None
        known: list[Any] = []
        nodes = self.nodes
        for slot in range(len(nodes) - 1):
            kept = nodes[slot].kept
            if kept is not None and kept.layout.index_map is self.layout.index_map and kept.chunks is not None:
                self.kept.append((slot, kept.chunks))
                known += (slot, None)
            if references(nodes, slot) > self.uses[slot]:
                self.held.append(slot)
                known += (slot, nodes[slot].spent)
        self.form = ("recipe", self.layout, *self.codes, *known)


def references(nodes: Sequence[Any], slot: int) -> int:
    """How many references there are to an object of a list, besides the list's."""
    return getrefcount(nodes[slot]) - _ALONE


class _Unheld:
    """An object that a list alone refers to."""


_ALONE = 0
_ALONE = references([_Unheld()], 0)


class Recipe:
    """How expressions of one form are computed.

    Attributes
    ----------
    picks, kept : sequence of int
        The operands that the kernel reads: leaves, then calls whose values are kept.
    stored : list of (call, dtype)
        The calls whose values are written beside the result, to be kept.
    columns : tuple of int
        The kernel's arrays, in its order, among operands, stored values and the result.
    steps : list of int
        Bytes between the elements of these. `itemsizes`: bytes of an element.
    spent : list of (call, value)
        What is known afterwards of calls that the program holds.
    missed : int
        How often conditions were heard.
    """

    __slots__ = (
        "call", "columns",
        "itemsizes", "kept", "mask", "missed", "pack", "picks", "plan", "raising", "scalars", "spent", "steps", "stored",
    )  # fmt: skip

    plan: Any
    call: Any
    pack: Any
    picks: Sequence[int]
    kept: Sequence[int]
    stored: list[tuple[int, Any]]
    columns: tuple[int, ...]
    steps: list[int]
    itemsizes: list[int]
    scalars: list[tuple[int, int, Any]]
    spent: list[tuple[int, int]]
    raising: list[tuple[str, int | None]]
    mask: int
    missed: int


def walked(context: Context, root: Node) -> Walk | None:
    """An expression that may have a recipe; None of others."""
    if (
        context.eager
        or root.kept is not None
        or not root.shape
        or root.dtype.itemsize * prod(root.shape) < run.LEAST
        or not run.is_offered()
    ):
        return None
    if context.communicator is not None and (context.warnings_raise or fallible(root)):
        return None  # processes agree on what data do
    if any(device.memory_limit is not None for device in context.local_devices):
        return None
    walk = Walk(root.shape)
    if walk.visit(root) < 0 or walk.layout is None:
        return None
    walk.seal()
    return walk


def followed(context: Context, walk: Walk) -> list[Chunk | None] | None:
    """The value of an expression in its operands' layout; None where it has no recipe, or that does not serve now.

    Communication: none.
    """
    recipe: Recipe | None = context.layouts.remembered(walk.form)
    if recipe is None or recipe.missed > PATIENCE or recipe.plan.given_up > PATIENCE:
        return None
    layout, nodes, leaves = walk.layout, walk.nodes, walk.leaves
    assert layout is not None
    scalars = settled_scalars([(nodes[slot].args[place], dtype) for slot, place, dtype in recipe.scalars])
    if scalars is None:
        return None
    read: list[Any] = [leaves[k].chunks for k in recipe.picks]
    for slot in recipe.kept:
        read.append(nodes[slot].kept.chunks)
    dtypes = [*[dtype for _, dtype in recipe.stored], nodes[-1].dtype]
    fresh: list[list[Chunk | None]] = [[] for _ in dtypes]
    rows: list[Any] = []
    total = 0
    name = nodes[-1].ufunc.__name__
    with context.reporting():
        for i, (device_id, region) in enumerate(layout.chunks):
            device = context.by_id[device_id]
            if device.process != context.process:
                for made in fresh:
                    made.append(None)
                continue
            row = [chunks[i] for chunks in read]
            for made, dtype in zip(fresh, dtypes, strict=True):
                chunk = device.empty(region.shape, dtype, name)
                made.append(chunk)
                row.append(chunk)
            size = region.size
            if size:
                lines = line_places([row[k] for k in recipe.columns], recipe.itemsizes)
                if lines is None or lines[1] != recipe.steps:
                    return None
                rows.append((size, lines[0]))
                total += size
    met = _computed(context, recipe, rows, total * nodes[-1].dtype.itemsize, scalars) & recipe.mask
    if met and _is_heard(recipe, nodes, met):
        recipe.missed += 1
        return None
    for slot, spent in recipe.spent:
        nodes[slot].spent = spent
    for (slot, _), chunks in zip(recipe.stored, fresh, strict=False):
        held = nodes[slot].kept = Kept(layout, chunks)
        for device in context.local_devices:
            device.spares.add(held)
    return fresh[-1]


def _computed(context: Context, recipe: Recipe, rows: Sequence[Any], nbytes: int, scalars: Sequence[Any]) -> int:
    """Call the kernel for every chunk; the conditions that were met."""
    call, pack, steps = recipe.call, recipe.pack, recipe.steps
    workers = context.workers
    threads = workers.threads_for(max(len(rows), workers.cores), nbytes * len(steps))
    parts = threads if len(rows) % threads else 1
    flags: list[int] = []
    tasks = []
    for size, places in rows:
        share = -(-size // parts)
        for low in range(0, size, share):
            words = [min(share, size - low), 1]
            for place, step in zip(places, steps, strict=True):
                words += (place + low * step, 0, step)
            tasks.append(partial(_noting, flags, call, pack(*words, *scalars)))
    if threads <= 1:
        for task in tasks:
            task()
    else:
        workers.run(tasks, nbytes * len(steps))
    met = 0
    for flag in flags:
        met |= flag
    return met


def _noting(flags: list[int], call: Any, packed: bytes) -> None:
    flags.append(call(packed))


def _is_heard(recipe: Recipe, nodes: Sequence[Node], met: int) -> bool:
    """Whether any of the calls, or the conversion of the result, asks for more of a condition than to pass over it."""
    now: Any = np.geterr()
    return any(
        met & CONDITIONS[kind] and (now if slot is None else nodes[slot].errors)[kind] != "ignore"
        for kind, slot in recipe.raising
    )


def learn(
    context: Context, walk: Walk, layout: Layout, program: Program, picks: Sequence[int], kept: Sequence[Any],
    values: Sequence[Stored], cells: Sequence[Any],
) -> None:  # fmt: skip
    """Write down how an expression was computed, if whole chunks and one kernel did it.

    Parameters
    ----------
    walk : Walk
        As it was before.
    program : Program
        What was left of it beside kept values. `picks`, `kept`: what that reads.
    values : sequence of Stored
    cells : sequence of NativeCell
        What computed the chunks.
    """
    plan = cells[0].plan
    if layout is not walk.layout or len(plan.parts) > 1 or plan.parts[0].element is None or plan.given_up:
        return
    part = plan.parts[0]
    numbers = [*part.reads, *part.writes]
    steps = [cells[0].steps[v][-1] for v in numbers]
    for cell in cells:
        if [cell.steps[v][-1] for v in numbers] != steps:
            return
    operands = len(picks) + len(kept)
    places = {v: v for v in range(operands)}
    places.update({operands + each.step: operands + turn for turn, each in enumerate(values)})
    places[operands + len(program.steps)] = operands + len(values)
    slots = [walk.slots[id(step.node)] for step in program.steps]
    recipe = Recipe()
    recipe.plan, recipe.missed = plan, 0
    recipe.call, recipe.pack, _ = cells[0].calls[0]
    recipe.picks = tuple(picks)
    recipe.kept = [next(slot for slot, held in walk.kept if held is chunks) for chunks in kept]
    recipe.stored = [(slots[each.step], program.steps[each.step].dtype) for each in values]
    recipe.columns = tuple([places[v] for v in numbers])
    recipe.steps = steps
    recipe.itemsizes = [cells[0].arrays[v].itemsize for v in numbers]
    recipe.scalars = [(slots[step], place, dtype) for step, place, dtype in part.scalars]
    recipe.spent = [
        (slot, step.node.spent) for slot, step in zip(slots, program.steps, strict=True) if slot in walk.held
    ]
    recipe.raising = [(kind, None if step is None else slots[step]) for kind, step in plan.raising]
    recipe.mask = 0
    for kind, _ in recipe.raising:
        recipe.mask |= CONDITIONS[kind]
    context.layouts.remember(walk.form, recipe)
