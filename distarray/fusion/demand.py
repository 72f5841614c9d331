"""Demands: the one place where expressions are evaluated, and where they communicate.

``demand`` evaluates an expression into new chunks; ``write`` evaluates one into a view of an existing storage. Both
follow the same order: resolve the operands, align, enter the moves in the ledger, allocate everything, fetch, compute.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from distarray.devices import Chunk, in_turn
from distarray.errors import ReadOnlyError
from distarray.fusion.align import Alignment, Tile, align
from distarray.fusion.alike import evaluate_alike
from distarray.fusion.assembled import evaluate_assembled, write_assembled
from distarray.fusion.evaluate import Cell, evaluate_cells, evaluate_plain
from distarray.fusion.expr import Leaf, Node, fallible
from distarray.fusion.held import keep, shortened, stored, value_of
from distarray.fusion.kernels.later import lazily
from distarray.fusion.meeting import brought, meeting_place
from distarray.fusion.program import Instruction, Program
from distarray.geometry import ViewMap
from distarray.layout import Layout, follow
from distarray.storage import Operand, Storage, Version, duplicate, share
from distarray.transfer.execute import allocate, redistribute, resolve
from distarray.transfer.ledger import note, watching
from distarray.transfer.round import Round

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = [
    "alignment_of", "compile_expression", "demand", "message_itemsizes", "operands_of", "resolve_leaves", "write",
]  # fmt: skip


def demand(node: Node, target: Layout | None = None) -> Version:
    """The value of an expression, evaluated once; in layout `target` where one is named."""
    context = node.context
    with context.lock:
        if node.version is None:
            context.check()
            if target is None and (short := _short_way(context, node)) is not None:
                node.settle(Version(*short, node.dtype))
                return node.version  # type: ignore[return-value]
            program, leaves = compile_expression(node)
            resolve_leaves(context, program, leaves)
            settled, place = brought(context, program.name, node.shape, leaves, target)
            al = alignment_of(context, program, settled, place)
            label = program.name
            chunks = value_of(node, al.layout)
            if chunks is not None:  # others may have to compute it: they hear what they wait for
                if al.fetches:
                    _fetch(context, program, settled, al)
                with _guard(context, node):
                    pass
            elif (
                al.plain
                or not _is_uncounted(context)
                or (chunks := evaluate_assembled(context, program, settled, al.layout)) is None
            ):
                with context.reporting():
                    chunks = allocate(context, al.layout, node.dtype, label=label)
                outs = [None if c is None else c.array for c in chunks]
                _evaluate(context, program, settled, al, outs, _guard(context, node), chunks)
            version = Version(al.layout, chunks, node.dtype)
            if target is not None and al.layout is not target:
                version = _moved(context, version, target, program.name)
            node.settle(version)
        assert node.version is not None
        return node.version


def _computed(
    context: Context,
    program: Program,
    leaves: Sequence[Leaf],
    dtype: Any,
    guard: AbstractContextManager[None],
    lent: Container[int],
) -> tuple[Version, Exception | None]:
    """The value of a write in chunks of its own, where alignment puts it, and the floating-point error that it met."""
    al = alignment_of(context, program, leaves, None)
    with context.reporting():
        chunks = allocate(context, al.layout, dtype, label=program.name)
    outs = [None if c is None else c.array for c in chunks]
    failed = _evaluated(context, program, leaves, al, outs, guard, chunks, lent)
    return Version(al.layout, chunks, dtype), failed


def _moved(context: Context, version: Version, target: Layout, operation: str) -> Version:
    """A value that nobody else holds, in another layout."""
    arrays = [None if c is None else c.array for c in version.chunks]
    fresh = redistribute(
        context, Operand(version.layout, arrays, version.dtype), target, operation=operation, chunks=version.chunks
    )
    return Version(target, fresh, version.dtype)


def _guard(context: Context, node: Node) -> AbstractContextManager[None]:
    """Around the computation of a node: how the other processes learn that it failed here."""
    return context.guarding(node.ufunc.__name__, fallible=fallible(node))


def _is_uncounted(context: Context) -> bool:
    """Whether all is in this process's memory and no ledger is open: then nothing is sent, and nobody asks what would be."""
    return context.kind == "host" and context.communicator is None and watching.get() is None


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


class _Compiler:
    """Puts an expression's nodes in order. A class and not nested functions: those would hold themselves, and with them
    the leaves, until the garbage collector comes, and a leaf that lives on makes the next write copy."""

    __slots__ = ("leaves", "places", "slots", "steps")

    def __init__(self) -> None:
        self.steps: list[Instruction] = []
        self.leaves: list[Leaf] = []
        self.slots: dict[int, int] = {}
        self.places: dict[tuple[int, Any], int] = {}

    def visit(self, item: Any) -> tuple[str, Any]:
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


def compile_expression(root: Any) -> tuple[Program, list[Leaf]]:
    """The steps of an expression in order, each shared node once, and its distinct leaves."""
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
    groups = _groups(leaves)
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


def _groups(leaves: Sequence[Leaf]) -> list[int]:
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


def _by_group(leaves: Sequence[Leaf]) -> dict[int, Leaf]:
    found: dict[int, Leaf] = {}
    for leaf, group in zip(leaves, _groups(leaves), strict=True):
        found.setdefault(group, leaf)
    return found


def message_itemsizes(leaves: Sequence[Leaf]) -> dict[int, int]:
    """Bytes of an element of each group of an alignment's messages."""
    return {group: leaf.dtype.itemsize for group, leaf in _by_group(leaves).items()}


def _evaluate(
    context: Context,
    program: Program,
    leaves: Sequence[Leaf],
    al: Alignment,
    outs: Sequence[Any],
    guard: AbstractContextManager[None],
    whole: Sequence[Chunk | None] | None = None,
    lent: Container[int] | None = None,
) -> None:
    """Fetch what is missing, then compute every cell into the arrays `outs`, one for each chunk of the layout; what the
    program still holds of the steps is kept.

    `whole` are the chunks that `outs` are the arrays of, where they are such. `lent`, of a write: see `held.stored`.
    """
    buffers = _fetch(context, program, leaves, al) if al.fetches else []
    jobs: list[tuple[Any, list[Cell]]] = []
    chunks = al.layout.chunks
    nbytes = 0
    program, picks, kept = shortened(program, len(leaves), al.layout)
    values = stored(context, program, al.layout, lent or (), root=lent is not None)
    more = [*kept, *[each.chunks for each in values]]
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
        work: list[Cell] = []
        for cell in cells:
            operands = operands_of(leaves, al, buffers, cell, wait=device.kind != "host")
            if kept:
                operands = [operands[k] for k in picks]
            arrays = [out, *beside] if cell.key is None else [array[cell.key] for array in (out, *beside)]
            work.append((arrays[0], [*operands, *arrays[1 : 1 + len(kept)]], arrays[1 + len(kept) :]))
        jobs.append((device, work))
    strict = not al.layout.index_map.is_disjoint
    with guard:
        places = tuple([each.step for each in values])
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


def _fetch(context: Context, program: Program, leaves: Sequence[Leaf], al: Alignment) -> list[Chunk | None]:
    by_group = _by_group(leaves)
    sizes = message_itemsizes(leaves)
    messages: dict[tuple[int, int], int] = {}
    for (sender, receiver, group), count in al.messages.items():
        pair = (sender, receiver)
        messages[pair] = messages.get(pair, 0) + count * sizes[group]
    held: dict[int, int] = {}
    for fetch in al.fetches:
        held[fetch.device] = held.get(fetch.device, 0) + fetch.region.size * sizes[fetch.group]
    note(messages, 1, program.name, explicit=False, temporary=max(held.values()))
    me = context.process
    buffers: list[Chunk | None] = []
    with context.reporting():
        for fetch in al.fetches:
            device = context.by_id[fetch.device]
            if device.process != me:
                buffers.append(None)
                continue
            label = f"an operand of {program.name}"
            buffers.append(device.empty(fetch.region.shape, by_group[fetch.group].dtype, label))
    arrived = _exchange(context, program, by_group, al, buffers) if context.communicator is not None else {}
    work: dict[int, list[Any]] = {}
    for number, fetch in enumerate(al.fetches):
        buffer = buffers[number]
        if buffer is None:
            continue
        device = buffer.device
        version = by_group[fetch.group].version
        for turn, (giver, key, place) in enumerate(fetch.parts):
            if (number, turn) in arrived:
                if arrived[number, turn] is None:
                    continue
                part, origin = arrived[number, turn], context.local_devices[0]
            else:
                device_id, array = al.giver(fetch, giver, version)
                part, origin = array[key], context.by_id[device_id]
            work.setdefault(fetch.device, []).append(partial(device.copy, buffer.array[place], part, origin))
    with context.reporting():
        context.run([partial(in_turn, tasks) for tasks in work.values()], sum(held.values()), independent=True)
    return buffers


def _exchange(
    context: Context, program: Program, by_group: dict[int, Leaf], al: Alignment, buffers: Sequence[Chunk | None]
) -> dict[tuple[int, int], Any]:
    """Exchange between processes what the fetches need: (fetch, part number) → the piece that arrived, None where it was
    received in its buffer."""
    wire = Round(context)
    wire.mark(al.mark, *[leaf.version.dtype for leaf in by_group.values()])
    slots: dict[tuple[int, int], int] = {}
    places: dict[tuple[int, int], Any] = {}
    needed = False
    for number, fetch in enumerate(al.fetches):
        version = by_group[fetch.group].version
        receiver = context.by_id[fetch.device].process
        for turn, (giver, key, place) in enumerate(fetch.parts):
            device_id, array = al.giver(fetch, giver, version)
            sender = context.by_id[device_id].process
            if sender == receiver:
                continue
            needed = True
            data = array[key] if sender == context.process else None
            shape = tuple(len(range(k.start, k.stop, k.step)) for k in place if isinstance(k, slice))
            into = None
            if (buffer := buffers[number]) is not None:
                into = places[number, turn] = buffer.array[place]
            slot = wire.carry(sender, receiver, data, shape, version.dtype, into)
            if slot >= 0:
                slots[number, turn] = slot
    if needed:
        wire.run(program.name)
    arrived = {place: wire.received(slot) for place, slot in slots.items()}
    return {place: None if part is places.get(place) else part for place, part in arrived.items()}


def write(
    storage: Storage,
    view: ViewMap | None,
    value: Any,
    *,
    private: int = 0,
    casting: str = "unsafe",
    writable: bool = True,
) -> None:
    """Write an expression, leaf or scalar into a view of a storage, in every copy of every element.

    Parameters
    ----------
    private : int
        How many leaves of `value` that read this storage through this very view belong to the write alone (the left
        operand of ``x += y``), so that it may be overwritten as it is read.
    """
    if not writable:
        raise ReadOnlyError(
            "assignment destination is read-only: it is a copy where NumPy would have a view, a broadcast view, or was set so; "
            "write to x.copy() instead"
        )
    context = storage.context
    with context.lock:
        context.check()
        resolve(context, storage.version, "assignment")
        storage.prepare(private)
        version = storage.version
        layout = version.layout
        identity = ViewMap.identity(layout.shape) if view is None else view
        program, leaves = compile_expression(value)
        resolve_leaves(context, program, leaves)
        if not storage.exposed and _is_uncounted(context):
            done, failed = write_assembled(context, storage, view, program, leaves, private)
            if failed is not None:
                raise failed
            if done:
                return
        seen = context.layouts.visible(layout, identity)
        assert seen is not None
        settled, place = brought(context, program.name, identity.shape, leaves, seen.layout)
        guard = context.guarding("assignment", fallible=(type(value) is Node and fallible(value)) or None)
        lent = {id(value)} if type(value) is Node else set()
        if private and type(value) is Node:
            lent.update(map(id, value.args))
        early = None
        if place is None:  # cut for the target's many chunks the value would be computed in far more pieces than it has
            fresh, early = _computed(context, program, settled, value.dtype, guard, lent)
            fresh = _moved(context, fresh, seen.layout, program.name)
            program, settled = compile_expression(Leaf(fresh, None, identity.shape))
            guard = context.reporting()
        al = alignment_of(context, program, settled, seen.layout, identity.shape)
        mine = [leaf for leaf in settled if leaf.version is version]
        others = any((leaf.view or ViewMap.identity(layout.shape)) != identity for leaf in mine)
        in_place = not others and not version.pinned(by_writer=private)
        if storage.exposed and not in_place:
            _write_through(context, program, settled, al, version, seen, guard, lent)
            if early is not None:
                raise early
            return
        chunks = list(version.chunks)
        with context.reporting():
            outs = _targets(seen, layout, version, chunks, fresh=not in_place)
            twins = _twins(seen, chunks, fresh=not in_place)
        whole = chunks if view is None and seen.layout is layout else None
        failed = _evaluated(context, program, settled, al, outs, guard, whole, lent) or early
        for origin, array, device in twins:
            device.copy(array, outs[origin], device)
        watch = watching.get()
        if watch is not None:  # the block that counts what is recorded need not ask for it again
            watch.drop(value)
        if in_place:
            version.chunks = chunks
        else:
            after = Version(layout, chunks, version.dtype)
            if any(a is b is not None for a, b in zip(chunks, version.chunks, strict=True)):
                share(version)
            storage.replace(after)
        if failed is not None:
            raise failed


def _evaluated(*arguments: Any) -> Exception | None:
    """`_evaluate`, for a write. A floating-point error comes when every chunk has been written, as in NumPy; it is returned,
    so that the write is completed in every copy before it is raised."""
    try:
        _evaluate(*arguments)
    except (FloatingPointError, RuntimeWarning) as error:
        return error
    return None


def _targets(seen: Any, layout: Layout, version: Version, chunks: list[Chunk | None], *, fresh: bool) -> list[Any]:
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
                chunk = _around(chunk, seen.show(i, chunk.array, chunk.device.xp))
            chunks[source] = chunk
        outs.append(seen.show(i, chunk.array, chunk.device.xp))
    return outs


def _around(chunk: Chunk, shown: Any) -> Chunk:
    """A copy of a chunk that is about to be written where `shown`, a view of it, lies. A GPU copies a box's surroundings
    alone, so that an update of all but an edge does not pay for the array twice."""
    array, device = chunk.array, chunk.device
    if device.kind == "host" or shown.strides != array.strides or 2 * shown.size < array.size:
        return duplicate(chunk)
    fresh = device.empty(array.shape, array.dtype, "a copy on write")
    offset = shown.data.ptr - array.data.ptr
    head: tuple[slice, ...] = ()
    for stride, n in zip(array.strides, shown.shape, strict=True):
        start, offset = divmod(offset, stride)
        for part in (slice(0, start), slice(start + n, None)):
            beside = array[(*head, part)]
            if beside.size:
                device.copy(fresh.array[(*head, part)], beside, device)
        head = (*head, slice(start, start + n))
    return fresh


def _twins(seen: Any, chunks: list[Chunk | None], *, fresh: bool) -> list[tuple[int, Any, Any]]:
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


def _write_through(
    context: Context,
    program: Program,
    leaves: Sequence[Leaf],
    al: Alignment,
    version: Version,
    seen: Any,
    guard: AbstractContextManager[None],
    lent: Container[int],
) -> None:
    """Write into buffers that others hold, from values computed beforehand in buffers of our own."""
    with context.reporting():
        fresh = allocate(context, seen.layout, version.dtype, label="the value of an assignment")
    values = [None if c is None else c.array for c in fresh]
    failed = _evaluated(context, program, leaves, al, values, guard, None, lent)
    for i, source in enumerate(seen.sources):
        chunk = version.chunks[source]
        if chunk is not None:
            chunk.device.copy(seen.show(i, chunk.array, chunk.device.xp), values[i], chunk.device)
    for origin, array, device in _twins(seen, version.chunks, fresh=False):
        device.copy(array, values[origin], device)
    if failed is not None:
        raise failed
