"""Demands: where expressions are evaluated into new chunks, and where they communicate.

The order is one, here and in :mod:`distarray.fusion.write`, which evaluates into a view of an existing storage: resolve the
operands, align, enter the moves in the ledger, allocate everything, fetch, compute.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, cast

from distarray.devices import Chunk
from distarray.fusion.align import Alignment, Tile
from distarray.fusion.alike import evaluate_alike
from distarray.fusion.assembled import evaluate_assembled
from distarray.fusion.compiled import alignment_of, compile_expression, resolve_leaves
from distarray.fusion.evaluate import CellArrays, evaluate_cells, evaluate_lines, evaluate_plain
from distarray.fusion.expr import Leaf, Node, fallible
from distarray.fusion.fetch import fetch_operands
from distarray.fusion.kept import keep, shortened, stored, value_of
from distarray.fusion.kernels.direct import direct
from distarray.fusion.kernels.later import lazily
from distarray.fusion.meeting import brought
from distarray.fusion.native.lines import line_cells
from distarray.fusion.program import Program
from distarray.fusion.recipes import Walk, followed, learn, walked
from distarray.layout import Layout
from distarray.storage import Operand, Version
from distarray.transfer.execute import allocate, is_uncounted, redistribute

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = ["demand", "evaluate_into", "moved", "operands_of"]


def demand(node: Node, target: Layout | None = None) -> Version:
    """The value of an expression, evaluated once; in layout `target` where one is named."""
    context = node.context
    with context.lock:
        if node.version is None:
            context.check()
            if target is None and node.kept is None and context.kind != "host":
                # an expression that goes straight to its kernel communicates nothing and can't fail by its data
                with context.reporting():
                    launched = direct(context, node)
                if launched is not None:
                    node.settle(launched)
                    return launched
            if target is None and (short := _short_way(context, node)) is not None:
                node.settle(Version(*short, node.dtype))
                return node.version  # type: ignore[return-value]
            walk = walked(context, node) if target is None and context.kind == "host" else None
            if walk is not None:
                assert walk.layout is not None
                if (chunks := followed(context, walk)) is not None:
                    node.settle(Version(walk.layout, chunks, node.dtype))
                    return node.version  # type: ignore[return-value]
                walk.nodes.clear()  # what holds a call is counted below
            program, leaves = compile_expression(node)
            resolve_leaves(context, program, leaves)
            settled, place = brought(context, program.name, node.shape, leaves, target)
            al = alignment_of(context, program, settled, place)
            label = program.name
            chunks = value_of(node, al.layout)
            if (
                chunks is not None
            ):  # others may not have kept it: they compute it, with messages from here, and tell whether that failed
                if al.fetches:
                    fetch_operands(context, program, settled, al)
                with _guard(context, node):
                    pass
            elif (
                al.plain
                or not is_uncounted(context)
                or (chunks := evaluate_assembled(context, program, settled, al.layout)) is None
            ):
                with context.reporting():
                    chunks = allocate(context, al.layout, node.dtype, label=label)
                outs = [None if c is None else c.array for c in chunks]
                evaluate_into(context, program, settled, al, outs, _guard(context, node), chunks, walk=walk)
            version = Version(al.layout, chunks, node.dtype)
            if target is not None and al.layout is not target:
                version = moved(context, version, target, program.name)
            node.settle(version)
        assert node.version is not None
        return node.version


def moved(context: Context, version: Version, target: Layout, operation: str) -> Version:
    """A value that nobody else holds, in another layout."""
    arrays = [None if c is None else c.array for c in version.chunks]
    fresh = redistribute(
        context, Operand(version.layout, arrays, version.dtype), target, operation=operation, chunks=version.chunks
    )
    return Version(target, fresh, version.dtype)


def _guard(context: Context, node: Node) -> AbstractContextManager[None]:
    """The block around the computation of a node, by which the other processes learn that it failed here."""
    return context.guarding(node.ufunc.__name__, fallible=fallible(node))


def _short_way(context: Context, node: Node) -> tuple[Layout, list[Chunk | None]] | None:
    """The value of a small expression that needs no alignment, and its layout; None of others."""
    if context.kind == "host":
        return evaluate_alike(context, node)
    layout = _plain_layout(node)
    if layout is None:
        return None
    with _guard(context, node):
        return layout, evaluate_plain(context, node, layout)


def _plain_layout(node: Node) -> Layout | None:
    """The layout of the operands, where a node is one small call on whole arrays of one REPLICA layout: the common case,
    which needs no alignment."""
    if node.kept is not None:
        return None
    layout: Layout | None = None
    shape = node.shape
    for arg in node.args:
        if type(arg) is Leaf:
            if arg.view is not None or arg.shape != shape:
                return None
            version: Version | None = arg.version
        elif type(arg) is Node:
            version = arg.version
            if version is None or arg.shape != shape:
                return None
        else:
            continue
        assert version is not None
        if layout is None:
            layout = version.layout
        elif version.layout is not layout:
            return None
    if layout is None or layout.is_partial or node.masked:
        return None
    size = node.dtype.itemsize * math.prod(shape)
    return layout if size < node.context.workers.inline_bytes // 2 else None


def evaluate_into(
    context: Context,
    program: Program,
    leaves: Sequence[Leaf],
    al: Alignment,
    outs: Sequence[Any],
    guard: AbstractContextManager[None],
    whole: Sequence[Chunk | None] | None = None,
    lent: Container[int] | None = None,
    walk: Walk | None = None,
) -> None:
    """Fetch what is missing, then compute every cell into the arrays `outs`, one for each chunk of the layout; what the
    program still holds of the steps is kept.

    `whole` are the chunks that `outs` are the arrays of, where they are such. `lent`, of a write: see `kept.stored`. `walk`: the
    whole expression, of which a recipe may be written down.
    """
    buffers = fetch_operands(context, program, leaves, al) if al.fetches else []
    jobs: list[tuple[Any, list[CellArrays]]] = []
    chunks = al.layout.chunks
    nbytes = 0
    given = program  # the caller's, whose steps refer to the recorded calls as those of a shortened one do
    program, picks, kept = shortened(program, len(leaves), al.layout)
    programs = 1 if program is given else 2
    values = stored(context, program, al.layout, lent or (), root=lent is not None, programs=programs)
    more = [*kept, *[each.chunks for each in values]]
    strict = not al.layout.index_map.is_disjoint
    places = tuple([each.step for each in values])
    if al.plain and whole is not None and lent is None and context.kind == "host" and not context.eager:
        columns = [*[leaves[k].version.chunks for k in picks], *kept]
        lines = line_cells(program, columns, places, [*more[len(kept) :], whole])
        if lines is not None:
            nbytes = sum([cell.sizes[-1] for cell in lines]) * program.dtype.itemsize
            with guard:
                evaluate_lines(context, program, lines, nbytes * (1 + len(picks) + len(more)), strict, places)
            if walk is not None:
                learn(context, walk, al.layout, program, picks, kept, values, lines)
            keep(context, program, al.layout, values)
            return
    joined = _joined(context, [leaves[k] for k in picks], al, whole, more) if al.plain and whole is not None else {}
    for device_id, arrays in joined.items():
        split = len(picks) + len(kept)
        jobs.append((context.by_id[device_id], [(arrays[0], arrays[1 : 1 + split], arrays[1 + split :])]))
        nbytes += arrays[0].nbytes
    for i, cells in enumerate(al.cells):
        if chunks[i][0] in joined:
            continue
        device = context.by_id[chunks[i][0]]
        if not cells or device.process != context.process:
            continue
        out = outs[i]
        nbytes += out.nbytes
        beside = [cast("Chunk", each[i]).array for each in more]
        work: list[CellArrays] = []
        for cell in cells:
            operands = operands_of(leaves, al, buffers, cell, wait=device.kind != "host")
            if kept:
                operands = [operands[k] for k in picks]
            arrays = [out, *beside] if cell.key is None else [array[cell.key] for array in (out, *beside)]
            work.append((arrays[0], [*operands, *arrays[1 : 1 + len(kept)]], arrays[1 + len(kept) :]))
        jobs.append((device, work))
    with guard:
        evaluate_cells(context, program, jobs, nbytes * (1 + len(picks) + len(more)), strict, places)
    keep(context, program, al.layout, values)


def _joined(
    context: Context,
    leaves: Sequence[Leaf],
    al: Alignment,
    whole: Sequence[Chunk | None],
    more: Sequence[Sequence[Chunk | None]],
) -> dict[int, list[Any]]:
    """The result, the operands and `more`, for the devices on which the chunks of each array lie in one piece of memory:
    one cell for all."""
    found = {}
    for device in context.local_devices:
        span = al.layout.index_map.chunk_ids(device.id)
        if len(span) < 2:
            continue
        flat = []
        for chunks in (whole, *[leaf.version.chunks for leaf in leaves], *more):
            array = device.joined(cast("list[Chunk]", chunks[span.start : span.stop]))
            if array is None:
                break
            flat.append(array)
        else:
            found[device.id] = flat
    return found


def operands_of(
    leaves: Sequence[Leaf], al: Alignment, buffers: Sequence[Chunk | None], cell: Tile, *, wait: bool = False
) -> list[Any]:
    """The arrays of a cell's operands; `wait`: the chunks themselves where they are whole and wait to be computed."""
    operands = []
    for k, source in enumerate(cell.sources):
        if source.fetched:
            buffer = buffers[source.number]
            assert buffer is not None
            array = al.pulls[k][source.number].apply(buffer.array, buffer.device.xp)
        else:
            seen = al.seen[k]
            held = leaves[k].version.chunks
            if seen is None:
                chunk = held[source.number]
                assert chunk is not None
                if wait and source.key is None:
                    operands.append(lazily(chunk))
                    continue
                array = chunk.array
            else:
                chunk = held[seen.sources[source.number]]
                assert chunk is not None
                array = seen.show(source.number, chunk.array, chunk.device.xp)
        operands.append(array if source.key is None else array[source.key])
    return operands
