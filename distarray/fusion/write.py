"""Writes: an expression evaluated into a view of an existing storage, in every copy of every element.

The order is that of :mod:`distarray.fusion.demand`; before it the target is resolved, and what still reads the storage
keeps the old chunks. A value that reads the storage through another view is computed in chunks of its own first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

from distarray.devices import Chunk
from distarray.devices.arrays import AnyDType
from distarray.fusion.assembled import write_assembled
from distarray.fusion.compiled import alignment_of, compile_expression, groups_of, message_itemsizes, resolve_leaves
from distarray.fusion.demand import demand, evaluate_into, moved
from distarray.fusion.expr import Leaf, Node, fallible
from distarray.fusion.kernels.direct import around, written
from distarray.fusion.meeting import brought, meeting_place
from distarray.fusion.program import Program
from distarray.geometry import ViewMap
from distarray.layout import Layout, Visible, follow
from distarray.storage import Storage, Version, duplicate
from distarray.transfer.execute import allocate, is_uncounted, resolve
from distarray.transfer.ledger import watching
from distarray.transfer.plan import plan

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = ["write"]


def write(
    storage: Storage,
    view: ViewMap | None,
    value: Any,  # a Node, a Leaf or a number
    *,
    private: int = 0,
    held: object = None,
) -> None:
    """Write an expression, leaf or scalar into a view of a storage, in every copy of every element.

    Parameters
    ----------
    private : int
        How many leaves of `value` that read this storage through this very view belong to the write alone (the left
        operand of ``x += y``), so that it may be overwritten as it is read.
    held : Node, optional
        The value, or the operand of an update, that the program refers to beyond the statement: it may be kept at once.
    """
    context = storage.context
    with context.lock:
        context.check()
        resolve(context, storage.version, "assignment")
        storage.prepare(private)
        if type(value) is Node and value.form is not None and written(context, storage, view, value, private):
            return
        program, leaves = compile_expression(value)
        resolve_leaves(context, program, leaves)
        if not storage.exposed and is_uncounted(context):
            done, failed = write_assembled(context, storage, view, program, leaves, private)
            if failed is not None:
                raise failed
            if done:
                return
        _write_aligned(storage, view, value, private, program, leaves, held)


def _write_aligned(
    storage: Storage,
    view: ViewMap | None,
    value: Any,
    private: int,
    program: Program,
    leaves: Sequence[Leaf],
    held: object,
) -> None:
    """A write of a compiled value whose leaves are resolved, aligned with the layout that the view shows."""
    context, version = storage.context, storage.version
    layout = version.layout
    identity = ViewMap.identity(layout.shape) if view is None else view
    seen = context.layouts.visible(layout, identity)
    assert seen is not None
    if _comes_first(context, program, leaves, seen.layout, version):
        demand(value)  # for all that read it
        program, leaves = compile_expression(value)
        value = leaves[0]
    settled, place = brought(context, program.name, identity.shape, leaves, seen.layout)
    guard = context.guarding("assignment", fallible=(type(value) is Node and fallible(value)) or None)
    lent = {id(value)} if type(value) is Node else set()
    if private and type(value) is Node:
        lent.update(map(id, value.args))
    lent.discard(id(held))
    early = None
    if place is None:  # cut for the target's many chunks the value would be computed in far more pieces than it has
        fresh, early = _computed(context, program, settled, value.dtype, guard, lent)
        if fresh.layout.shape == identity.shape:
            fresh, spread = moved(context, fresh, seen.layout, program.name), None
        else:
            spread = ViewMap.identity(fresh.layout.shape).broadcast_to(identity.shape)
        program, settled = compile_expression(Leaf(fresh, spread, identity.shape))
        guard = context.reporting()
    al = alignment_of(context, program, settled, seen.layout, identity.shape)
    mine = [leaf for leaf in settled if leaf.version is version]
    others = any((leaf.view or ViewMap.identity(layout.shape)) != identity for leaf in mine)
    in_place = not others and not version.pinned(by_writer=private)
    evaluated = partial(_evaluated, context, program, settled, al, guard=guard, lent=lent)
    if storage.exposed and not in_place:
        failed = _write_through(context, version, seen, evaluated)
    else:
        failed = _write_chunks(
            storage, version, seen, evaluated, whole=view is None and seen.layout is layout, fresh=not in_place
        )
    watch = watching.get()
    if watch is not None:  # the block that counts what is recorded need not ask for it again
        watch.drop(value)
    failed = failed or early
    if failed is not None:
        raise failed


def _comes_first(context: Context, program: Program, leaves: Sequence[Leaf], target: Layout, written: Version) -> bool:
    """Whether a value is evaluated by itself, where its operands lie and all devices at once, and then moved: where they, or a
    good part of them and no less than the result, would be moved otherwise. Not where it reads what is written to, or an error
    is to be raised when all is written. Decided from metadata alone."""
    steps = program.steps
    if not steps or program.shape != target.shape or any(step.loud for step in steps):
        return False
    if any(leaf.version is written for leaf in leaves):
        return False
    described = [(leaf.version.layout, leaf.view, leaf.dtype.itemsize) for leaf in leaves]
    key = ("first", tuple(described), tuple(groups_of(leaves)), program.dtype.itemsize, target)
    found = context.layouts.remembered(key)
    if found is None:
        found = context.layouts.remember(key, _is_apart(context, program, leaves, target))
    return bool(found)


def _is_apart(context: Context, program: Program, leaves: Sequence[Leaf], target: Layout) -> bool:
    meeting = meeting_place(context, target.shape, [(leaf.version.layout, leaf.view) for leaf in leaves], target)
    if meeting.place is None or any(meeting.away):
        return True
    there = alignment_of(context, program, leaves, target)
    if 4 * sum(there.messages.values()) < math.prod(target.shape):
        return False
    here = alignment_of(context, program, leaves, None)
    sizes = message_itemsizes(leaves)
    fetched, before = (
        sum([count * sizes[group] for (_, _, group), count in al.messages.items()]) for al in (there, here)
    )
    return before + plan(here.layout, target).bytes_moved(program.dtype.itemsize) <= fetched


def _write_chunks(
    storage: Storage,
    version: Version,
    seen: Visible,
    evaluated: Callable[..., Exception | None],
    *,
    whole: bool,
    fresh: bool,
) -> Exception | None:
    """Write into the chunks of the current version, or, where it is still read (`fresh`), into new ones that replace them.

    `whole`: the view shows the chunks as they are.
    """
    context, layout, chunks = storage.context, version.layout, list(version.chunks)
    with context.reporting():
        outs = _targets(seen, layout, version, chunks, fresh=fresh)
        twins = _twins(seen, chunks, fresh=fresh)
    failed = evaluated(outs, whole=chunks if whole else None)
    for origin, array, device in twins:
        device.copy(array, outs[origin], device)
    storage.rewrite(version, chunks, fresh)
    return failed


def _write_through(
    context: Context, version: Version, seen: Any, evaluated: Callable[..., Exception | None]
) -> Exception | None:
    """Write into buffers that others hold, from values computed beforehand in buffers of our own."""
    with context.reporting():
        fresh = allocate(context, seen.layout, version.dtype, label="the value of an assignment")
    values = [None if c is None else c.array for c in fresh]
    failed = evaluated(values)
    for i, source in enumerate(seen.sources):
        chunk = version.chunks[source]
        if chunk is not None:
            chunk.device.copy(seen.show(i, chunk.array, chunk.device.xp), values[i], chunk.device)
    for origin, array, device in _twins(seen, version.chunks, fresh=False):
        device.copy(array, values[origin], device)
    return failed


def _computed(
    context: Context,
    program: Program,
    leaves: Sequence[Leaf],
    dtype: AnyDType,
    guard: AbstractContextManager[None],
    lent: Container[int],
) -> tuple[Version, Exception | None]:
    """The value of a write in chunks of its own, where alignment puts it, and the floating-point error that it met."""
    al = alignment_of(context, program, leaves, None)
    with context.reporting():
        chunks = allocate(context, al.layout, dtype, label=program.name)
    outs = [None if c is None else c.array for c in chunks]
    failed = _evaluated(context, program, leaves, al, outs, guard=guard, lent=lent, whole=chunks)
    return Version(al.layout, chunks, dtype), failed


def _evaluated(*arguments: Any, **named: Any) -> Exception | None:
    """`evaluate_into`, for a write. A floating-point error comes when every chunk has been written, as in NumPy; it is returned,
    so that the write is completed in every copy before it is raised."""
    try:
        evaluate_into(*arguments, **named)
    except (FloatingPointError, RuntimeWarning) as error:
        return error
    return None


def _targets(seen: Visible, layout: Layout, version: Version, chunks: list[Chunk | None], *, fresh: bool) -> list[Any]:
    """The arrays that a write goes to, one for each chunk of the view; `chunks` gets the chunks made for it."""
    outs: list[Any] = []
    for i, source in enumerate(seen.sources):
        chunk = chunks[source]
        if chunk is None:
            outs.append(None)
            continue
        if fresh or chunk.shared:
            if seen.layout.chunks[i][1].size == layout.chunks[source][1].size:
                chunk = chunk.device.empty(chunk.array.shape, version.dtype, "the target of an assignment")
            else:
                chunk = around(chunk, seen.show(i, chunk.array, chunk.device.xp))
            chunks[source] = chunk
        outs.append(seen.show(i, chunk.array, chunk.device.xp))
    return outs


def _twins(seen: Visible, chunks: list[Chunk | None], *, fresh: bool) -> list[tuple[int, Any, Any]]:
    """The other chunks of a device that show the same elements, made writable: `(chunk of the view, array, device)`."""
    rows = []
    for origin, source, path in seen.twins:
        chunk = chunks[source]
        if chunk is None:
            continue
        if fresh or chunk.shared:
            chunk = chunks[source] = duplicate(chunk)
        rows.append((origin, follow(path, chunk.array, chunk.device.xp), chunk.device))
    return rows
