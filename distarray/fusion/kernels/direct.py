"""Expressions that come again, straight to their kernel: what all of a kind share is found by one look-up in its form.

An expression that fetches nothing, and whose chunks each see whole chunks of its operands, needs no alignment the second
time: a recipe holds the kernel and what it is passed besides addresses and numbers, for each chunk of the result or of the
view that is written to. Values that the program holds are not kept here: to compute one of these again costs no more than a
launch, and that has to be done anyway.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from distarray.devices import Chunk
from distarray.devices.kernels import Kernel
from distarray.fusion.blocks import CUT_FREE
from distarray.fusion.compiled import alignment_of
from distarray.fusion.expr import Leaf, Node
from distarray.fusion.forms import Form
from distarray.fusion.kernels.element import PLAIN, converted, element_of
from distarray.fusion.kernels.elementwise import THREADS, prepared
from distarray.fusion.meeting import meeting_place
from distarray.fusion.program import Instruction, Program
from distarray.geometry import ViewMap
from distarray.layout import Layout, Visible
from distarray.storage import Storage, Version, duplicate, share
from distarray.transfer.ledger import watching

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = ["SMALL", "address_of", "around", "direct", "written"]

MOST = 1 << 23
"""Elements above which the general way serves: there it costs less than the work, and keeps what the program holds."""

DEAR = 64
"""Nor is an expression of more than `SMALL` elements computed here whose calls count more: a part of it may be worth keeping."""

SMALL = 1 << 16
"""Elements up to which a kernel takes longer to compile than CuPy's take to run a few times."""

OFTEN = {True: 16, False: 3}
"""How often a small expression comes before it is compiled: of one call, for which the library has a kernel, and of several."""

INEXACT = 8
"""What a call of a transcendental function counts."""


class _Part(NamedTuple):
    """One chunk of the result, or of the view that is written.

    Attributes
    ----------
    number, device, shape
        Of the chunk that is written, in its layout.
    offset : int
        Bytes from there to what is written.
    view : int
        The number of the chunk in what the view shows.
    whole : bool
        Whether all of the chunk is written.
    sources : list of (operand, chunk number, bytes from there)
    kernel, blocks, values
        The launch, but for addresses and numbers.
    """

    number: int
    device: int
    shape: tuple[int, ...]
    offset: int
    view: int
    whole: bool
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
    parts : list of _Part
    order : list of (position, dtype)
        Which of the expression's numbers the kernel takes, and as what.
    plain : bool
        Whether Python's floats are what it takes.
    target : tuple
        What is written to: held, since its id is a part of the key.
    seen : Visible or None
        What the view that is written shows.
    """

    layout: Layout
    parts: list[_Part]
    order: list[tuple[int, Any]]
    plain: bool
    target: Any
    seen: Visible | None


def address_of(chunk: Any) -> int:
    """Where a chunk lies, in C order and at a multiple of 16 bytes; -1 of others."""
    found: int = chunk.address
    if not found:
        array = chunk.array
        pointer: int = array.data.ptr
        found = chunk.address = -1 if pointer & 15 or not array.flags.c_contiguous else pointer
    return found


def _pattern(leaves: tuple[Leaf, ...]) -> tuple[int, ...]:
    """For each operand, the first that is the same."""
    count = len(leaves)
    if count == 1:
        return (0,)
    if count == 2:
        one, two = leaves
        return (0, 0) if one.version is two.version and one.view is two.view else (0, 1)
    first: dict[tuple[int, int], int] = {}
    return tuple([first.setdefault((id(leaf.version), id(leaf.view)), i) for i, leaf in enumerate(leaves)])


def direct(context: Context, node: Node) -> Version | None:
    """The value of a recorded expression, where it is one that has come before; else None."""
    form = node.form
    if form is None or context.eager:
        return None
    leaves = node.leaves
    pattern = _pattern(leaves)
    recipe = form.recipes.get(pattern)
    if type(recipe) is not _Recipe:
        recipe = _asked(context, form, node, pattern, None)
        if recipe is None:
            return None
    addresses = _addresses(recipe, leaves)
    numbers = _numbers(recipe, node.numbers)
    if addresses is None or numbers is None:
        return None
    layout = recipe.layout
    chunks: list[Chunk | None] = [None] * len(layout.chunks)
    dtype, name = node.dtype, node.ufunc.__name__
    for part, given in zip(recipe.parts, addresses, strict=True):
        device = context.by_id[part.device]
        chunk = chunks[part.number] = device.empty(part.shape, dtype, name)
        if part.blocks:
            _launch(device, part, given, chunk.address or chunk.array.data.ptr, numbers)
    return Version(layout, chunks, dtype)


def written(context: Context, storage: Storage, view: ViewMap | None, node: Node, private: int) -> bool:
    """Write a recorded expression into a view of a storage, in the order of :mod:`distarray.fusion.write`, where it is one that
    has come before; False, and nothing is done, of others. `private` as there."""
    form = node.form
    if form is None or context.eager or storage.exposed or watching.get() is not None:
        return False
    version = storage.version
    leaves = node.leaves
    pattern = _pattern(leaves)
    target = (version.layout, view, version.dtype)
    recipe = form.recipes.get((pattern, id(version.layout), id(view), version.dtype))
    if type(recipe) is not _Recipe:
        recipe = _asked(context, form, node, pattern, target)
        if recipe is None:
            return False
    addresses = _addresses(recipe, leaves)
    numbers = _numbers(recipe, node.numbers)
    if addresses is None or numbers is None or not _reachable(recipe, version):
        return False
    others = any(leaf.version is version and leaf.view is not view and leaf.view != view for leaf in leaves)
    fresh = others or version.pinned(by_writer=private)
    chunks = list(version.chunks)
    with context.reporting():
        for part in recipe.parts:
            chunk: Any = chunks[part.number]
            if fresh or chunk.shared:
                chunks[part.number] = _replaced(recipe, part, chunk, version.dtype)
        for part, given in zip(recipe.parts, addresses, strict=True):
            chunk = chunks[part.number]
            if part.blocks:
                _launch(chunk.device, part, given, address_of(chunk) + part.offset, numbers)
    if fresh:
        after = Version(version.layout, chunks, version.dtype)
        if any(a is b is not None for a, b in zip(chunks, version.chunks, strict=True)):
            share(version)
        storage.replace(after)
    else:
        version.chunks = chunks
    return True


def _launch(device: Any, part: _Part, given: list[int], target: int, numbers: list[Any]) -> None:
    """Launch a part's kernel on the device's null stream, and switch the GPU only where it is another."""
    ordinal = device.ordinal
    if device.runtime.current() == ordinal:
        part.kernel.launch(ordinal, 0, part.blocks, THREADS, *given, target, *part.values, *numbers)
    else:
        with device.active():
            part.kernel.launch(ordinal, 0, part.blocks, THREADS, *given, target, *part.values, *numbers)


def _reachable(recipe: _Recipe, version: Version) -> bool:
    return all(address_of(version.chunks[part.number]) > 0 for part in recipe.parts)


def _replaced(recipe: _Recipe, part: _Part, chunk: Chunk, dtype: Any) -> Chunk:
    """A chunk to write to in the place of one that is still read, with what is not written."""
    if part.whole:
        return chunk.device.empty(chunk.array.shape, dtype, "the target of an assignment")
    if recipe.seen is None or chunk.array.nbytes <= COPIED:
        device: Any = chunk.device
        copied: Chunk = device.duplicate(chunk)
        return copied
    return around(chunk, recipe.seen.show(part.view, chunk.array, chunk.device.xp))


def _addresses(recipe: _Recipe, leaves: tuple[Leaf, ...]) -> list[list[int]] | None:
    """For each part, where its operands lie; None where one lies otherwise than the recipe takes it."""
    found = []
    for part in recipe.parts:
        given = []
        for operand, number, offset in part.sources:
            chunk: Any = leaves[operand].version.chunks[number]
            address = chunk.address or address_of(chunk)
            if address < 0:
                return None
            given.append(address + offset)
        found.append(given)
    return found


def _numbers(recipe: _Recipe, numbers: tuple[Any, ...]) -> list[Any] | None:
    """The numbers as the kernel takes them."""
    if recipe.plain:
        found = [numbers[place] for place, _ in recipe.order]
        for number in found:
            if type(number) is not float or not -PLAIN < number < PLAIN:
                break
        else:
            return found
    return [converted(numbers[place], dtype) for place, dtype in recipe.order]


# --- how a recipe is found --------------------------------------------------------------------------------------------


def _asked(context: Context, form: Form, node: Node, pattern: tuple[int, ...], target: Any) -> _Recipe | None:
    """The recipe of a kind that has come often enough for one; None of others, and of kinds that have none."""
    size = prod(node.shape)
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
    found = form.recipes[key] = (
        None if size > SMALL and _cost(form) > DEAR else _made(context, form, node, pattern, target)
    )
    return found


def _cost(form: Form) -> int:
    return sum([1 if step.ufunc.__name__ in CUT_FREE else INEXACT for step in form.steps])


def _made(context: Context, form: Form, node: Node, pattern: tuple[int, ...], target: Any) -> _Recipe | None:
    """How an expression is computed whose operands all lie where they are needed, each chunk in one piece."""
    places = {operand: i for i, operand in enumerate(sorted(set(pattern)))}
    leaves = [node.leaves[operand] for operand in places]
    program = _program(form, node, [places[operand] for operand in pattern])
    if program.steps[-1].ufunc.__name__ == "power" and node.dtype.kind in "iu":
        return None
    seen = None
    if target is not None:
        layout, view, _ = target
        if layout.is_partial or (view is not None and id(view) not in context.interned):
            return None
        seen = context.layouts.visible(layout, ViewMap.identity(layout.shape) if view is None else view)
        if seen is None or seen.twins or len(set(seen.sources)) < len(seen.sources):
            return None
    wanted = None if seen is None else seen.layout
    described = [(leaf.version.layout, leaf.view) for leaf in leaves]
    place, away, stores = meeting_place(context, node.shape, described, wanted)
    if place is not wanted or any(away) or any(stores):
        return None
    al = alignment_of(context, program, leaves, wanted, node.shape)
    if al.fetches or al.layout.is_partial or any(len(cells) > 1 or (cells and cells[0].key) for cells in al.cells):
        return None
    dtype = node.dtype if target is None else target[2]
    bound = element_of(context.local_devices[0].lib, program, tuple([leaf.dtype for leaf in leaves]), dtype)
    if bound is None:
        return None
    parts = []
    for i, cells in enumerate(al.cells):
        if context.by_id[al.layout.chunks[i][0]].process != context.process:
            continue
        part = _part(context, leaves, list(places), al, i, cells, bound.element, dtype, seen, target)
        if part is None:
            return None
        parts.append(part)
    taken = [(form.steps[step].args[arg][1], kind) for step, arg, kind in bound.element.scalars]
    plain = all(kind.kind == "f" and kind.itemsize >= 4 for _, kind in taken)
    return _Recipe(al.layout, parts, taken, plain, target, seen)


def _part(
    context: Context, leaves: list[Leaf], operands: list[int], al: Any, i: int, cells: Any, element: Any, dtype: Any,
    seen: Visible | None, target: Any,
) -> _Part | None:  # fmt: skip
    """One chunk of a recipe; None where an array lies so that kernels do not serve."""
    device_id, region = al.layout.chunks[i]
    device: Any = context.by_id[device_id]
    nothing = Kernel.__new__(Kernel)
    if not cells and target is None:  # an empty chunk
        return _Part(i, device_id, region.shape, 0, i, True, [], nothing, 0, [])
    if not cells:
        return None
    arrays, sources = [], []
    with device.active():
        for leaf, operand, known, source in zip(leaves, operands, al.seen, cells[0].sources, strict=True):
            number = source.number if known is None else known.sources[source.number]
            chunk: Any = leaf.version.chunks[number]
            base = address_of(chunk)
            array = chunk.array if known is None else known.show(source.number, chunk.array, chunk.device.xp)
            array = array if source.key is None else array[source.key]
            if base < 0 or chunk.device.ordinal != device.ordinal:
                return None
            arrays.append(array)
            sources.append((operand, number, array.data.ptr - base))
        number, whole = i, True
        if seen is None:
            out, offset = device.empty(region.shape, dtype, "").array, 0
        else:
            layout = target[0]
            number = seen.sources[i]
            chunk = device.empty(layout.chunks[number][1].shape, dtype, "")
            out = seen.show(i, chunk.array, device.xp)
            offset = out.data.ptr - chunk.array.data.ptr
            whole = region.size == layout.chunks[number][1].size
        ready = prepared(device.lib, element, [*arrays, out])
    if ready is None:
        return None
    return _Part(number, device_id, region.shape, offset, i, whole, sources, *ready)


def _program(form: Form, node: Node, places: list[int]) -> Program:
    """The program of a form, and the numbers of one expression of it; `places`: of each operand among those that differ."""
    steps = []
    for step in form.steps:
        args: list[tuple[str, Any]] = []
        for kind, n in step.args:
            args.append(
                ("leaf", places[n]) if kind == "leaf" else (kind, n) if kind == "step" else ("const", node.numbers[n])
            )
        steps.append(Instruction(step.ufunc, tuple(args), step.kwargs, step.dtype, {}, node.site, step.masked, False))
    return Program(tuple(steps), ("step", len(steps) - 1), node.dtype, node.shape, node.ufunc.__name__)


# --- what is not written ----------------------------------------------------------------------------------------------

COPIED = 1 << 25
"""Bytes of a chunk up to which a GPU copies it whole in no more time than it takes to ask for each edge."""


def around(chunk: Chunk, shown: Any) -> Chunk:
    """A copy of a chunk that is about to be written where `shown`, a view of it, lies. A GPU copies a box's surroundings
    alone, so that an update of all but an edge does not pay for the array twice."""
    array, device = chunk.array, chunk.device
    if device.kind == "host" or array.nbytes <= COPIED or shown.strides != array.strides or 2 * shown.size < array.size:
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
