"""Small expressions that come again, straight to their kernel: what all calls of a kind share is found by one look-up.

An expression of whole small arrays of one layout needs no alignment and fetches nothing; a program in a loop asks for it
thousands of times. The walk over its calls makes a key: what is called, of which dtypes, and where the arguments stand. Under the
key lie the kernel and what it is passed besides addresses and scalars, for each chunk. Values that the program holds are not kept
here: to compute a small one again takes no longer than to launch a kernel, and that has to be done anyway.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from distarray.devices import Chunk
from distarray.devices.kernels import Kernel, Kernels
from distarray.fusion.expr import Leaf, Node
from distarray.fusion.kernels.element import converted, element_of
from distarray.fusion.kernels.elementwise import THREADS, prepared
from distarray.fusion.kernels.formulas import literal_type
from distarray.fusion.program import Instruction, Program
from distarray.layout import Layout
from distarray.storage import Version

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = ["direct"]

MOST = 1 << 16
"""Elements above which the general way serves: it costs less than the work, and keeps what the program holds."""

OFTEN = {True: 16, False: 3}
"""How often an expression comes before it is compiled: of one call, for which the library has a kernel, and of several."""

_KNOWN = Kernels(4096)


class _Elsewhere(Exception):
    """The expression is not one of whole arrays of one layout."""


class _Walk:
    """An expression's calls in order, each shared one once: `key` says what they are."""

    __slots__ = ("key", "layout", "leaves", "places", "scalars", "shape", "steps")

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.key: list[Any] = []
        self.layout: Layout | None = None
        self.leaves: list[Version] = []
        self.places: dict[int, int] = {}
        self.scalars: list[Any] = []
        self.steps: list[Node] = []

    def leaf(self, version: Version) -> int:
        """The number of an operand."""
        place = self.places.get(id(version))
        if place is None:
            if self.layout is None:
                self.layout = version.layout
            elif version.layout is not self.layout:
                raise _Elsewhere
            place = self.places[id(version)] = len(self.leaves)
            self.leaves.append(version)
        return place

    def visit(self, node: Node) -> int:
        """The number of a call's value: -1 for the first."""
        done = self.places.get(id(node))
        if done is not None:
            return done
        codes: list[Any] = [node.ufunc, node.dtype, node.masked]
        literals = []
        for arg in node.args:
            kind = type(arg)
            if kind is Leaf:
                if arg.view is not None or arg.shape != self.shape:
                    raise _Elsewhere
                codes.append(self.leaf(arg.version))
            elif kind is Node:
                if arg.shape != self.shape:
                    raise _Elsewhere
                codes.append(self.visit(arg) if arg.version is None else self.leaf(arg.version))
            else:
                codes.append(literal_type(arg))
                literals.append(arg)
        if node.kwargs:
            codes.append(("dtype", node.kwargs.get("dtype")))
        self.key.extend(codes)
        self.scalars.extend(literals)
        self.steps.append(node)
        done = self.places[id(node)] = -len(self.steps)
        return done


class _Part(NamedTuple):
    """One chunk: its number, where it is, and its kernel with what that is passed."""

    number: int
    device: Any
    shape: tuple[int, ...]
    kernel: Kernel
    blocks: int
    values: list[int]


class _KindPlan(NamedTuple):
    """What all expressions of a kind share. `order`: for each scalar of the kernel, its place in the walk, and its dtype."""

    parts: list[_Part]
    order: list[tuple[int, Any]]


class _Kind:
    """What is known of a kind: how often it came, and what was made for it."""

    __slots__ = ("asked", "layout", "ready")

    def __init__(self, layout: Layout) -> None:
        self.asked = 0
        self.layout = layout  # held, since its id is a part of the key
        self.ready: _KindPlan | None = None


def direct(context: Context, root: Node) -> Version | None:
    """The value of a recorded expression, where it is one of whole small arrays of one layout that has come before; else None."""
    shape = root.shape
    if prod(shape) > MOST or context.eager:
        return None
    walk = _Walk(shape)
    try:
        walk.visit(root)
    except (_Elsewhere, AttributeError):  # or an argument that is no number
        return None
    layout = walk.layout
    if layout is None or layout.is_partial:
        return None
    leaves = walk.leaves
    key = (id(layout), *[version.dtype for version in leaves], *walk.key)
    kind: _Kind = _KNOWN.get(key, lambda: _Kind(layout))
    often = OFTEN[len(walk.steps) == 1]
    if kind.asked < often:
        kind.asked += 1
        if kind.asked == often:
            kind.ready = _made(context, walk, layout)
    ready = kind.ready
    if ready is None:
        return None
    taken, scalars = [], walk.scalars
    for part in ready.parts:
        arrays = [version.chunks[part.number].array for version in leaves]  # type: ignore[union-attr]
        pointers = [array.data.ptr for array in arrays]
        for array, pointer in zip(arrays, pointers, strict=True):
            if not array.flags.c_contiguous or pointer & 15:
                return None
        taken.append(pointers)
    values = [converted(scalars[place], dtype) for place, dtype in ready.order]
    chunks: list[Chunk | None] = [None] * len(layout.chunks)
    for part, pointers in zip(ready.parts, taken, strict=True):
        device = part.device
        with device.active():
            chunk = chunks[part.number] = device.empty(part.shape, root.dtype, root.ufunc.__name__)
            if part.blocks:
                part.kernel(part.blocks, THREADS, *pointers, chunk.array.data.ptr, *part.values, *values)
    return Version(layout, chunks, root.dtype)


def _made(context: Context, walk: _Walk, layout: Layout) -> _KindPlan | None:
    """Kernels for the chunks of this process, all of them in C order; None where an expression has none."""
    program, order = _program(walk)
    lib = context.local_devices[0].lib
    bound = element_of(lib, program, tuple([version.dtype for version in walk.leaves]), program.dtype)
    if bound is None:
        return None
    element = bound.element
    parts = []
    for number, (device_id, region) in enumerate(layout.chunks):
        device = context.by_id[device_id]
        if device.process != context.process:
            continue
        with device.active():
            arrays = [version.chunks[number].array for version in walk.leaves]  # type: ignore[union-attr]
            if any(not array.flags.c_contiguous or array.data.ptr & 15 for array in arrays):
                return None
            target = device.empty(region.shape, program.dtype, program.name)
            found = prepared(lib, element, [*arrays, target.array])
        if found is None:
            return None
        parts.append(_Part(number, device, region.shape, *found))
    return _KindPlan(parts, [(order[step, arg], dtype) for step, arg, dtype in element.scalars])


def _program(walk: _Walk) -> tuple[Program, dict[tuple[int, int], int]]:
    """The program of a walk, and the place among the walk's scalars of each that stands at (step, argument)."""
    order: dict[tuple[int, int], int] = {}
    steps = []
    for i, node in enumerate(walk.steps):
        args: list[tuple[str, Any]] = []
        for j, arg in enumerate(node.args):
            if type(arg) is Leaf:
                args.append(("leaf", walk.places[id(arg.version)]))
            elif type(arg) is not Node:
                args.append(("const", arg))
                order[i, j] = len(order)
            elif arg.version is None:
                args.append(("step", -1 - walk.places[id(arg)]))
            else:
                args.append(("leaf", walk.places[id(arg.version)]))
        steps.append(
            Instruction(
                node.ufunc, tuple(args), node.kwargs, node.dtype, node.errors, node.site, node.masked, False, node
            )
        )
    root = walk.steps[-1]
    return Program(tuple(steps), ("step", len(steps) - 1), root.dtype, root.shape, root.ufunc.__name__), order
