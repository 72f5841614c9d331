"""Expressions that come again, straight to their kernel: what all of a kind share is found by one look-up in its form.

An expression for which nothing has to move needs no alignment the second time: a recipe holds the kernel and what it is
passed besides addresses and numbers, for each part of the result or of the view that is written to. What a logical device
lacks and another one on the same GPU holds, such as a stencil's halo, is read where it lies, unless a ledger is open.
Values that the program holds are not kept here: to compute one of these again costs no more than a launch, and that has to
be done anyway.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from distarray.devices import Chunk
from distarray.devices.arrays import AnyDType, DeviceArray, Library
from distarray.devices.kernels import Kernel
from distarray.devices.moves import StreamOrder
from distarray.fusion.align import Alignment, Source, Tile
from distarray.fusion.blocks import CUT_FREE
from distarray.fusion.compiled import alignment_of
from distarray.fusion.expr import Leaf, Node, filled
from distarray.fusion.forms import Form
from distarray.fusion.kernels.element import PLAIN, Element, converted, element_of, flat
from distarray.fusion.kernels.elementwise import THREADS, prepared
from distarray.fusion.kernels.graphs import Graphs, KernelLaunch, Turn, turns_of
from distarray.fusion.kernels.shared import walked
from distarray.fusion.meeting import meeting_place
from distarray.fusion.program import Instruction, Program
from distarray.geometry import ViewMap, contiguous_strides
from distarray.layout import Layout, Visible
from distarray.storage import Storage, Version, duplicate
from distarray.transfer.ledger import watching

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = ["SMALL", "address_of", "around", "direct", "written"]

MOST = 1 << 30
"""Elements above which a plan costs nothing beside the work."""

LARGE = 1 << 23
DEAR = 64
"""An expression of more than `SMALL` elements whose calls count more, of more than `LARGE` a quarter of it, is walked first: a part
of it may be worth keeping."""

_WALKED = "walked"

SMALL = 1 << 16
"""Elements up to which a kernel takes longer to compile than CuPy's take to run a few times."""

OFTEN = {True: 16, False: 3}
"""How often a small expression comes before it is compiled: of one call, for which the library has a kernel, and of several."""

CELLS = 64
"""Launches in which an expression is computed: of more, the general way knows better."""

FAR = 1 << 18
"""Elements of a piece that a kernel reads where they lie on another GPU: a stencil's halo, but not much more."""

INEXACT = 8
"""What a call of a transcendental function counts."""


class _Target(NamedTuple):
    """A chunk that is written: its number in its layout and in what a view shows of that, its device and shape, and whether all of
    it is written."""

    number: int
    view: int
    device: int
    shape: tuple[int, ...]
    whole: bool


class _Cell(NamedTuple):
    """A launch: the chunk that is written, by its place among the targets, and the bytes from there on; the operands as
    (operand, chunk number, bytes from there on); and what the kernel is passed besides addresses and numbers."""

    target: int
    offset: int
    sources: list[tuple[int, int, int]]
    kernel: Kernel
    blocks: int
    values: list[int]


class _Recipe(NamedTuple):
    """How expressions of a form are computed whose operands are one and the same in the same places.

    Attributes
    ----------
    layout : Layout
        Of the result.
    targets : list of _Target
    cells : list of _Cell
    fetches : bool
        Whether a device reads what another one on the same GPU holds.
    order : list of (position, dtype)
        Which of the expression's numbers the kernels take, and as what.
    plain : bool
        Whether Python's floats are what they take.
    turns : list of Turn
        The cells of each GPU.
    written : tuple
        What is written to: held, since its id is a part of the key.
    seen : Visible or None
        What the view that is written shows.
    alone : bool
        Whether it is one launch into one new chunk, which reads nothing of other devices.
    across : StreamOrder or None
        The GPUs that read each other's memory.
    """

    layout: Layout
    targets: list[_Target]
    cells: list[_Cell]
    fetches: bool
    order: list[tuple[int, Any]]
    plain: bool
    turns: list[Turn]
    written: Any
    seen: Visible | None
    alone: bool
    across: StreamOrder | None


class _Like:
    """In the place of an array in C order that is still to be made."""

    def __init__(self, shape: tuple[int, ...], dtype: AnyDType) -> None:
        self.shape = shape
        self.dtype = dtype
        self.strides = tuple([step * dtype.itemsize for step in contiguous_strides(shape)])
        self.data = self
        self.ptr = 0

    def __getitem__(self, key: tuple[slice, ...]) -> _Like:
        part = _Like((), self.dtype)
        part.shape = tuple([len(range(*k.indices(n))) for k, n in zip(key, self.shape, strict=True)])
        part.strides = tuple([s * (k.step or 1) for k, s in zip(key, self.strides, strict=True)])
        part.ptr = self.ptr + sum([(k.start or 0) * s for k, s in zip(key, self.strides, strict=True)])
        return part


_Filling = tuple[tuple[int, ...], list[Leaf], list[Any]]
"""For each operand of an expression the first that is the same; the operands; the numbers."""


def address_of(
    chunk: Any,  # a Chunk, or what waits to be one
) -> int:
    """Where a chunk lies, in C order and at a multiple of 16 bytes; -1 of others."""
    found: int = chunk.address
    if not found:
        array = chunk.array
        pointer: int = array.data.ptr
        found = chunk.address = -1 if pointer & 15 or not array.flags.c_contiguous else pointer
    return found


def _pattern(leaves: list[Leaf]) -> tuple[int, ...]:
    """For each operand, the first that is the same."""
    count = len(leaves)
    if count == 1:
        return (0,)
    if count == 2:
        one, two = leaves
        return (0, 0) if one is two or (one.version is two.version and one.view is two.view) else (0, 1)
    version, view = leaves[0].version, leaves[0].view
    for leaf in leaves:
        if leaf.version is not version or leaf.view is not view:
            break
    else:
        return (0,) * count
    first: dict[tuple[int, int], int] = {}
    return tuple([first.setdefault((id(leaf.version), id(leaf.view)), i) for i, leaf in enumerate(leaves)])


def direct(context: Context, node: Node) -> Version | None:
    """The value of a recorded expression, where it is one that has come before; else None."""
    if context.eager:
        return None
    form = node.form
    leaves: list[Leaf] = []
    given: list[Any] = []
    recipe: Any = _WALKED
    if form is not None and form.bases:
        if not filled(node, leaves, given):
            return None
        pattern = _pattern(leaves)
        recipe = form.recipes.get(pattern)
    if recipe is _WALKED:
        found = walked(context, node)
        if found is None:
            return None
        form, leaves, given = found
        pattern = tuple(range(len(leaves)))
        recipe = form.recipes.get(pattern)
    if type(recipe) is not _Recipe:
        assert form is not None
        recipe = _asked(context, form, node, (pattern, leaves, given), None)
        if recipe is None:
            return None
    if recipe.alone:
        return _alone(context, recipe, node, leaves, given)
    addresses = _addresses(recipe, leaves)
    if addresses is None or (recipe.fetches and watching.get() is not None):
        return None
    numbers = _numbers(recipe, given)
    layout = recipe.layout
    chunks: list[Chunk | None] = [None] * len(layout.chunks)
    made = []
    dtype, name, by_id = node.dtype, node.ufunc.__name__, context.by_id
    for number, _, device_id, shape, _ in recipe.targets:
        chunk = chunks[number] = by_id[device_id].empty(shape, dtype, name)
        made.append(chunk)
    outs = [chunk.address or chunk.array.data.ptr for chunk in made]
    _launch(context, recipe, addresses, outs, numbers)
    return Version(layout, chunks, dtype)


def _alone(context: Context, recipe: _Recipe, node: Node, leaves: list[Leaf], given: list[Any]) -> Version | None:
    """The value of an expression that is one launch into one new chunk: `direct`, with nothing to go through."""
    ((number, _, device_id, shape, _),), ((_, offset, sources, kernel, blocks, values),) = recipe.targets, recipe.cells
    place = []
    for operand, chunk_number, before in sources:
        source: Any = leaves[operand].version.chunks[chunk_number]
        address = source.address or address_of(source)
        if address < 0:
            return None
        place.append(address + before)
    device: Any = context.by_id[device_id]
    chunk = device.empty(shape, node.dtype, node.ufunc.__name__)
    place.append((chunk.address or chunk.array.data.ptr) + offset)
    numbers = _numbers(recipe, given) if recipe.order else ()
    graphs = Graphs() if numbers and 0 in numbers else recipe.turns[0][0]
    graphs.run(device, ((kernel, blocks, THREADS, (*place, *values, *numbers)),))
    layout = recipe.layout
    chunks: list[Chunk | None] = [chunk]
    if len(layout.chunks) > 1:
        chunks = [None] * len(layout.chunks)
        chunks[number] = chunk
    return Version(layout, chunks, node.dtype)


def written(context: Context, storage: Storage, view: ViewMap | None, node: Node, private: int) -> bool:
    """Write a recorded expression into a view of a storage, in the order of :mod:`distarray.fusion.write`, where it is one that
    has come before; False, and nothing is done, of others. `private` as there."""
    form = node.form
    if form is None or not form.bases or context.eager or storage.exposed or watching.get() is not None:
        return False
    version = storage.version
    leaves: list[Leaf] = []
    given: list[Any] = []
    if not filled(node, leaves, given):
        return False
    pattern = _pattern(leaves)
    recipe = form.recipes.get((pattern, id(version.layout), id(view), version.dtype))
    if type(recipe) is not _Recipe:
        recipe = _asked(context, form, node, (pattern, leaves, given), (version, view))
        if recipe is None:
            return False
    addresses = _addresses(recipe, leaves)
    if addresses is None or not _reachable(recipe, version):
        return False
    numbers = _numbers(recipe, given)
    others = any(leaf.version is version and leaf.view is not view and leaf.view != view for leaf in leaves)
    fresh = others or version.pinned(by_writer=private)
    chunks = list(version.chunks)
    made: list[Any] = []
    with context.reporting():
        for target in recipe.targets:
            chunk: Any = chunks[target.number]
            if fresh or chunk.shared:
                chunk = chunks[target.number] = _replaced(recipe, target, chunk, version.dtype)
            made.append(chunk)
        _launch(context, recipe, addresses, [address_of(chunk) for chunk in made], numbers)
    storage.rewrite(version, chunks, fresh)
    return True


def _launch(context: Context, recipe: _Recipe, addresses: list[list[int]], outs: list[int], numbers: list[Any]) -> None:
    """Launch the kernels of a recipe, those of each GPU in turn."""
    launches: list[KernelLaunch] = []
    for (target, offset, _, kernel, blocks, values), given in zip(recipe.cells, addresses, strict=True):
        launches.append((kernel, blocks, THREADS, (*given, outs[target] + offset, *values, *numbers)))
    across = recipe.across
    if across is not None:
        across.keep()
    for graphs, device_id, first, last in recipe.turns:
        own = launches if last - first == len(launches) else launches[first:last]
        if 0 in numbers:  # and -0.0, which is equal to it
            graphs = Graphs()
        graphs.run(context.by_id[device_id], own)
    if across is not None:
        across.keep()


def _reachable(recipe: _Recipe, version: Version) -> bool:
    return all(address_of(version.chunks[target.number]) > 0 for target in recipe.targets)


def _replaced(recipe: _Recipe, target: _Target, chunk: Chunk, dtype: AnyDType) -> Chunk:
    """A chunk to write to in the place of one that is still read, with what is not written."""
    if target.whole:
        return chunk.device.empty(chunk.array.shape, dtype, "the target of an assignment")
    if recipe.seen is None or chunk.array.nbytes <= COPIED["cuda"]:
        device: Any = chunk.device
        copied: Chunk = device.duplicate(chunk)
        return copied
    return around(chunk, recipe.seen.show(target.view, chunk.array, chunk.device.xp))


def _addresses(recipe: _Recipe, leaves: list[Leaf]) -> list[list[int]] | None:
    """For each cell, where its operands lie; None where one lies otherwise than the recipe takes it."""
    found = []
    for cell in recipe.cells:
        given = []
        for operand, number, offset in cell.sources:
            chunk: Any = leaves[operand].version.chunks[number]
            address = chunk.address or address_of(chunk)
            if address < 0:
                return None
            given.append(address + offset)
        found.append(given)
    return found


def _numbers(recipe: _Recipe, numbers: list[Any]) -> list[Any]:
    """The numbers as the kernels take them."""
    if not recipe.order:
        return []
    if recipe.plain:
        found = [numbers[place] for place, _ in recipe.order]
        for number in found:
            if type(number) is not float or not -PLAIN < number < PLAIN:
                break
        else:
            return found
    return flat([converted(numbers[place], dtype) for place, dtype in recipe.order])


# --- how a recipe is found --------------------------------------------------------------------------------------------


def _asked(context: Context, form: Form, node: Node, filling: _Filling, place: Any) -> _Recipe | None:
    """The recipe of a kind that has come often enough for one; None of others, and of kinds that have none. `place` is the version
    and the view that are written to."""
    size, pattern = prod(node.shape), filling[0]
    target = None if place is None else (place[0].layout, place[1], place[0].dtype)
    key: Any = pattern if target is None else (pattern, id(target[0]), id(target[1]), target[2])
    count = form.recipes.get(key, 0)
    if count is None or not 0 < size <= MOST:
        return None
    often = OFTEN[len(form.steps) == 1] if size <= SMALL else 1
    if len(form.recipes) >= 64:  # of one expression, written to many places
        form.recipes.clear()
    if count + 1 < often:
        form.recipes[key] = count + 1
        return None
    if not form.once and size > SMALL and _cost(form) > (DEAR if size <= LARGE else DEAR // 4):
        form.recipes[key] = _WALKED if target is None else None
        return None
    found = form.recipes[key] = _Cook(context, form, node, filling, target).made(place)
    return found


def _cost(form: Form) -> int:
    return sum([1 if step.ufunc.__name__ in CUT_FREE else INEXACT for step in form.steps])


class _Cook:
    """Finds out how an expression is computed whose operands all lie on the GPU where they are needed."""

    def __init__(self, context: Context, form: Form, node: Node, filling: _Filling, target: Any) -> None:
        self.context, self.form, self.target = context, form, target
        pattern, leaves, numbers = filling
        self.operands = sorted(set(pattern))
        self.leaves = [leaves[operand] for operand in self.operands]
        self.program = _program(form, node, numbers, [self.operands.index(operand) for operand in pattern])
        self.dtype = node.dtype if target is None else target[2]
        self.gpus: set[int] = set()  # that read each other's memory

    def made(self, place: Any) -> _Recipe | None:
        """The recipe, or None."""
        context, target = self.context, self.target
        if self.program.name == "power" and self.program.dtype.kind in "iu":  # its exponents are looked at
            return None
        seen = None
        if target is not None:
            layout, view, _ = target
            if layout.is_partial or (view is not None and id(view) not in context.interned):
                return None
            seen = context.layouts.visible(layout, ViewMap.identity(layout.shape) if view is None else view)
            if seen is None or seen.twins or len(set(seen.sources)) < len(seen.sources):
                return None
        al = self._aligned(None if seen is None else seen.layout)
        lib = context.local_devices[0].lib
        dtypes = tuple([leaf.dtype for leaf in self.leaves])
        # other expressions of a form have other numbers, but where it has been walked, which tells them apart
        bound = element_of(lib, self.program, dtypes, self.dtype, fixed=self.form.once)
        if al is None or bound is None:
            return None
        targets, cells = [], []
        for i, tiles in enumerate(al.cells):
            device_id, region = al.layout.chunks[i]
            if context.by_id[device_id].process != context.process:
                continue
            number, shape = i, region.shape
            if seen is not None:
                number = seen.sources[i]
                shape = target[0].chunks[number][1].shape
            targets.append(_Target(number, i, device_id, shape, prod(shape) == region.size))
            out: Any = _Like(shape, self.dtype)
            base = 0
            if seen is not None:
                chunk = place[0].chunks[number]
                base = address_of(chunk)
                if base < 0:
                    return None
                out = seen.show(i, chunk.array, chunk.device.xp)
            for tile in tiles:
                into = out if tile.key is None else out[tile.key]
                cell = self._cell(lib, al, tile, context.by_id[device_id], len(targets) - 1, into, base, bound.element)
                if cell is None:
                    return None
                cells.append(cell)
        taken = [(self.form.steps[step].args[arg][1], kind) for step, arg, kind in bound.element.scalars]
        plain = all(kind.kind == "f" and kind.itemsize >= 4 for _, kind in taken)
        turns = turns_of(context.by_id, [targets[cell.target].device for cell in cells])
        alone = target is None and len(targets) == len(cells) == 1 and not al.fetches
        first: Any = context.local_devices[0]
        across = StreamOrder(first.runtime, self.gpus) if len(self.gpus) > 1 else None
        return _Recipe(al.layout, targets, cells, bool(al.fetches), taken, plain, turns, target, seen, alone, across)

    def _aligned(self, wanted: Layout | None) -> Any:
        """The alignment, where nothing has to move: what is fetched lies in one piece each."""
        context, program, leaves = self.context, self.program, self.leaves
        described = [(leaf.version.layout, leaf.view) for leaf in leaves]
        place, away, stores = meeting_place(context, program.shape, described, wanted)
        if place is not wanted or any(away) or any(stores):
            return None
        al = alignment_of(context, program, leaves, wanted, program.shape)
        if al.layout.is_partial or sum([len(tiles) for tiles in al.cells]) > CELLS:
            return None
        if al.fetches and (context.communicator is not None or any(len(f.parts) > 1 for f in al.fetches)):
            return None
        return None if self._far(al) else al

    def _far(self, al: Alignment) -> bool:
        """Whether so much would be read of another GPU that it is better copied first."""
        first, *others = self.context.local_devices
        if not al.fetches or all(first.shares_memory(other) for other in others):
            return False
        return any(fetch.region.size > FAR for fetch in al.fetches)

    def _cell(
        self,
        lib: Library,
        al: Alignment,
        tile: Tile,
        device: Any,
        target: int,
        out: DeviceArray,
        base: int,
        element: Element,
    ) -> _Cell | None:
        """One launch; None where an array lies so that kernels do not serve."""
        arrays, sources = [], []
        with device.active():
            for k, (leaf, operand, source) in enumerate(zip(self.leaves, self.operands, tile.sources, strict=True)):
                number, array = _source(al, leaf, k, source)
                chunk: Any = leaf.version.chunks[number]
                start = address_of(chunk)
                if start < 0 or not device.runtime.reaches(device.ordinal, chunk.device.ordinal):
                    return None
                if chunk.device.ordinal != device.ordinal:
                    self.gpus |= {device.ordinal, chunk.device.ordinal}
                arrays.append(array if source.key is None else array[source.key])
                sources.append((operand, number, arrays[-1].data.ptr - start))
            ready = prepared(lib, element, [*arrays, out])
        return None if ready is None else _Cell(target, out.data.ptr - base, sources, *ready)


def _source(al: Alignment, leaf: Leaf, k: int, source: Source) -> tuple[int, Any]:
    """The number of the chunk that an operand of a cell is read from, and what is shown of it: of what would be fetched, of the
    chunk that gives it."""
    version = leaf.version
    if not source.fetched:
        seen = al.seen[k]
        number = source.number if seen is None else seen.sources[source.number]
        chunk: Any = version.chunks[number]
        return number, chunk.array if seen is None else seen.show(source.number, chunk.array, chunk.device.xp)
    fetch = al.fetches[source.number]
    ((giver, key, _),) = fetch.parts
    base = al.bases[fetch.group]
    number = giver if base is None else base.sources[giver]
    chunk = version.chunks[number]
    _, array = al.giver(fetch, giver, version)
    return number, al.pulls[k][source.number].apply(array[key], chunk.device.xp)


def _program(form: Form, node: Node, numbers: list[Any], places: list[int]) -> Program:
    """The program of a form, and the numbers of one expression of it; `places`: of each operand among those that differ."""
    steps = []
    for step in form.steps:
        args: list[tuple[str, Any]] = []
        for kind, n in step.args:
            args.append(
                ("leaf", places[n]) if kind == "leaf" else (kind, n) if kind == "step" else ("const", numbers[n])
            )
        steps.append(Instruction(step.ufunc, tuple(args), step.kwargs, step.dtype, {}, node.site, step.masked, False))
    return Program(tuple(steps), ("step", len(steps) - 1), node.dtype, node.shape, node.ufunc.__name__)


# --- what is not written ----------------------------------------------------------------------------------------------

COPIED = {"cuda": 1 << 25, "host": 1 << 18}
"""Bytes of a chunk up to which a device copies it whole in no more time than it takes to ask for each edge."""


def _address(array: DeviceArray) -> int:
    if isinstance(array, np.ndarray):
        return array.__array_interface__["data"][0]  # type: ignore[no-any-return]
    return array.data.ptr  # type: ignore[no-any-return]


def around(chunk: Chunk, shown: DeviceArray) -> Chunk:
    """A copy of a chunk that is about to be written where `shown`, a view of it, lies: where that is a large box, its
    surroundings alone, so that an update of all but an edge does not pay for the array twice."""
    array, device = chunk.array, chunk.device
    if array.nbytes <= COPIED[device.kind] or shown.strides != array.strides or 2 * shown.size < array.size:
        return duplicate(chunk)
    fresh = device.empty(array.shape, array.dtype, "a copy on write")
    offset = _address(shown) - _address(array)
    head: tuple[slice, ...] = ()
    for stride, n in zip(array.strides, shown.shape, strict=True):
        start, offset = divmod(offset, stride)
        for part in (slice(0, start), slice(start + n, None)):
            beside = array[(*head, part)]
            if beside.size:
                device.copy(fresh.array[(*head, part)], beside, device)
        head = (*head, slice(start, start + n))
    return fresh
