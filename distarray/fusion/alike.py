"""The shortest way of evaluation: small expressions, and light ones, on the host whose operands all lie in the same chunks.

Nothing is aligned, moved, cut in blocks or given to threads there, and most calls of programs on small arrays are such. So
an expression is walked once, and its steps are called chunk by chunk: NumPy's own ufuncs, in the order and with the bits
of ``evaluate``. Values that the program holds, errors that have to be raised or printed, and layouts of many chunks are
left to that.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from math import prod
from sys import getrefcount
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from distarray.devices import Chunk
from distarray.fusion.blocks import LIGHT_BYTES, REGISTER_BYTES, is_light
from distarray.fusion.expr import Leaf, Node, fallible
from distarray.fusion.notes import Notes
from distarray.layout import Layout
from distarray.storage import Version
from distarray.transfer.execute import resolve

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = ["evaluate_alike"]

FEW = 64
"""Layouts of more chunks are left to what looks for chunks that lie in one piece of memory."""

LIGHT_CALLS = 2
"""So many light calls on few bytes are made one after the other, without a plan."""

_NOTHING: AbstractContextManager[None] = nullcontext()


class RowCall(NamedTuple):
    """A recorded call, where its arguments stand in the row of values, and whether it is an ordinary one of two operands."""

    node: Node
    picks: tuple[int, ...]
    plain: bool


class _RowWalk:
    """An expression in order of evaluation: a row of values has a place for each operand, constant and result. Values without
    axes are the same on all devices."""

    __slots__ = ("calls", "context", "large", "layout", "leaves", "name", "places", "row", "scalars", "shape", "uses")

    def __init__(self, context: Context, root: Node) -> None:
        self.context = context
        self.name = root.ufunc.__name__
        self.shape = root.shape
        self.large = False
        self.layout: Layout | None = None
        self.row: list[Any] = []
        self.leaves: list[tuple[int, list[Any]]] = []
        self.scalars: list[tuple[int, Version]] = []
        self.calls: list[RowCall] = []
        self.places: dict[int, int] = {}
        self.uses: dict[int, int] = {}

    def visit(self, node: Node) -> bool:
        """Enter a recorded call and what it needs; False where this way does not serve."""
        if node.loud or node.kept is not None:
            return False
        picks = []
        for arg in node.args:
            kind = type(arg)
            if kind is Leaf:
                if arg.view is not None:
                    return False
                version = arg.version
            elif kind is Node:
                version = arg.version
                if version is None:
                    key = id(arg)
                    if key not in self.places:
                        if (arg.shape and arg.shape != self.shape) or not self.visit(arg):
                            return False
                        self.uses[key] = 0
                    self.uses[key] += 1
                    picks.append(self.places[key])
                    continue
            else:
                picks.append(len(self.row))
                self.row.append(arg)
                continue
            place = self.places.get(id(version))
            if place is None:
                if not self.holds(version):
                    return False
                place = self.places[id(version)] = len(self.row)
                self.row.append(None)
                if arg.shape == self.shape:
                    self.leaves.append((place, version.chunks))
                else:
                    self.scalars.append((place, version))
            picks.append(place)
        self.places[id(node)] = len(self.row)
        self.row.append(None)
        plain = len(picks) == 2 and not node.kwargs and not node.masked and type(node.ufunc) is np.ufunc
        self.calls.append(RowCall(node, tuple(picks), plain))
        return True

    def holds(self, version: Version) -> bool:
        """Whether an operand lies as the others do, or is a number on every device."""
        layout = version.layout
        if layout is self.layout:
            return True
        if not layout.shape:
            if layout.is_partial:
                resolve(self.context, version, self.name)
                layout = version.layout
            if self.shape:
                return layout.index_map.is_replicated and layout.devices == self.context.group.ids
        if self.layout is not None or layout.is_partial or layout.shape != self.shape:
            return False
        self.layout = layout
        return True

    def operands(self, layout: Layout) -> list[tuple[int, list[Any]]]:
        """For each operand its place, and what is read for each chunk of the layout."""
        found = self.leaves
        for place, version in self.scalars:
            held = dict(zip(version.layout.devices, version.chunks, strict=True))
            found.append((place, [held[device] for device, _ in layout.chunks]))
        return found

    def is_held(self) -> bool:
        """Whether the program still holds one of the calls below the last: what it computes is then worth keeping."""
        calls = [call for call in self.calls[:-1] if call.node.shape or not self.shape]
        return any(_references(call) - _ALONE > self.uses[id(call.node)] for call in calls)


def _references(call: RowCall) -> int:
    return getrefcount(call.node)


class _UnheldNode:
    """An object that a call alone refers to."""


_ALONE = _references(RowCall(_UnheldNode(), (), False))  # type: ignore[arg-type]


def evaluate_alike(context: Context, root: Node) -> tuple[Layout, list[Chunk | None]] | None:
    """The value of an expression, and its layout; None where this way does not serve.

    Communication: none, but where data can make a call fail: then processes agree on that.
    """
    nbytes = root.dtype.itemsize * prod(root.shape)
    light = nbytes >= context.workers.inline_bytes // 2 and _is_light(context, root)
    if nbytes >= context.workers.inline_bytes and not light:
        return None
    walk = _RowWalk(context, root)
    if not walk.visit(root) or walk.layout is None:
        return None
    layout = walk.layout
    if walk.scalars and layout.is_replicated and layout.devices != context.group.ids:
        return None  # alignment may prefer where the numbers lie
    nbytes = root.dtype.itemsize * layout.index_map.size
    several = len(walk.calls) > 1
    walk.large = light and nbytes * (len(walk.calls) + len(walk.leaves)) <= LIGHT_BYTES
    inline = context.workers.inline_bytes
    small = nbytes <= REGISTER_BYTES and nbytes * (1 + len(walk.leaves)) < inline if several else nbytes < inline // 2
    if not (small or walk.large) or (several and walk.is_held()):
        return None
    places, full = _places(context, layout)
    if places is None or (several and not full):
        return None
    if context.communicator is None:
        return layout, _evaluated(context, walk, places)
    with context.guarding(root.ufunc.__name__, fallible=fallible(root)):
        return layout, _evaluated(context, walk, places)


def _is_light(context: Context, root: Node) -> bool:
    """Whether an expression is a few calls that end before other threads have taken up their part."""
    calls, operands, todo = 0, 0, [root]
    while todo:
        node = todo.pop()
        calls += 1
        if calls > LIGHT_CALLS or not is_light(node.ufunc, node.dtype):
            return False
        for arg in node.args:
            if type(arg) is Node and arg.version is None:
                todo.append(arg)
            elif isinstance(arg, (Leaf, Node)):
                operands += 1
    nbytes = root.dtype.itemsize * prod(root.shape) * (calls + operands)
    return nbytes <= LIGHT_BYTES and context.workers.inline_bytes > 0


def _evaluated(context: Context, walk: _RowWalk, places: tuple[Any, ...]) -> list[Chunk | None]:
    quiet = context.quiet
    runner = quiet.take()
    run, met = runner
    heard: list[tuple[str, Node]] = []
    try:
        chunks: list[Chunk | None] = run(_run, walk, places, met, heard)
    finally:
        met.clear()
        quiet.spare.append(runner)
    if heard:
        notes = Notes()
        for condition, node in heard:
            notes.step = node
            notes(condition, 0)
        notes.finish()
    return chunks


def _run(walk: _RowWalk, places: tuple[Any, ...], met: list[Any], heard: list[tuple[str, Node]]) -> list[Chunk | None]:
    assert walk.layout is not None
    leaves, first = walk.operands(walk.layout), walk.row
    *calls, (last, last_picks, last_plain) = walk.calls
    results = [walk.places[id(call.node)] for call in calls]
    dtype, ufunc = last.dtype, cast("Any", last.ufunc)
    chunks: list[Chunk | None] = []
    for i, (device, shape) in enumerate(places):
        if device is None:
            chunks.append(None)
            continue
        row = first.copy()
        for place, held in leaves:
            row[place] = held[i].array
        for (node, picks, plain), place in zip(calls, results, strict=True):
            if plain:
                function: Any = node.ufunc
                row[place] = function(row[picks[0]], row[picks[1]])
            else:
                row[place] = _called(
                    node, [row[k] for k in picks], np.empty(shape, node.dtype) if node.masked else None
                )
            if met:
                heard.extend([(condition, node) for condition, _ in met])
                met.clear()
        if device.memory_limit is None and not dtype.hasobject and not walk.large:
            chunk = Chunk(device, np.empty(shape, dtype))
        else:
            chunk = device.empty(shape, dtype, ufunc.__name__)
        if last_plain:
            ufunc(row[last_picks[0]], row[last_picks[1]], out=chunk.array)
        else:
            _called(last, [row[k] for k in last_picks], chunk.array)
        if met:
            heard.extend([(condition, last) for condition, _ in met])
            met.clear()
        chunks.append(chunk)
    return chunks


def _called(node: Node, args: list[Any], out: Any) -> Any:
    """A call into memory that nothing else shows."""
    if not node.masked:
        return node.ufunc(*args, out=out, **node.kwargs)
    *inputs, mask, initial = args
    np.copyto(out, initial, casting="unsafe")
    node.ufunc(*inputs, out=out, where=mask, **node.kwargs)
    return out


def _places(context: Context, layout: Layout) -> tuple[tuple[tuple[Any, tuple[int, ...]], ...] | None, bool]:
    """For each chunk of a layout the device of this process, or None, and the shape; None for all where there are many. And
    whether no chunk is empty: alignment leaves those out."""
    key = ("places", layout)
    found: Any = context.layouts.remembered(key)
    if found is None:
        rows = None
        if len(layout.chunks) <= FEW:
            devices = [context.by_id[device] for device, _ in layout.chunks]
            rows = tuple(
                [
                    (device if device.process == context.process else None, region.shape)
                    for device, (_, region) in zip(devices, layout.chunks, strict=True)
                ]
            )
        found = context.layouts.remember(key, (rows, all(region.size for _, region in layout.chunks)))
    return found  # type: ignore[no-any-return]
