"""Small arrays, and small views of larger ones, that are cut into few boxes, all in this process: a value is computed on whole
operands, put together from their chunks, and then dealt to the chunks of its layout, or to those that it is written to.

What is small and cut costs what its plans cost. Here there is none: where the boxes of a slice lie is arithmetic, so that
a window that moves costs the same at every position. Nothing is written before all is computed, and element by element the
bits are those of any other cut. Only what nobody counts goes this way: with a ledger open, moves are planned and entered.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from distarray.devices import Chunk
from distarray.devices.arrays import DeviceArray
from distarray.fusion.blocks import CUT_FREE
from distarray.fusion.evaluate import evaluate_cells
from distarray.fusion.expr import Leaf, real_part
from distarray.fusion.kept import is_idle
from distarray.fusion.notes import call_numpy
from distarray.fusion.program import Program
from distarray.geometry import ViewMap
from distarray.layout import Layout
from distarray.storage import Storage, Version, duplicate, writable_chunks
from distarray.transfer.execute import allocate

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = ["evaluate_assembled", "write_assembled"]

ELEMENTS = 1 << 14
"""More elements are not put together: copying them would cost more than planning."""

FEW = 8
"""Nor are arrays of more chunks."""

Bounds = tuple[tuple[int, int], ...]


class Boxes(NamedTuple):
    """The chunks of a layout as boxes.

    Attributes
    ----------
    parts : tuple
        For each chunk that is not empty: its number, its key in the whole array, its bounds along each axis.
    whole : int
        A chunk that holds everything; -1 where there is none.
    rows : bool
        The chunks lie one behind the other along the first axis.
    keys : tuple
        The key of each chunk in the whole array, those of empty ones too.
    """

    parts: tuple[tuple[int, tuple[slice, ...], Bounds], ...]
    whole: int
    rows: bool
    keys: tuple[tuple[slice, ...], ...]

    def array(self, version: Version) -> Any:
        """The whole value: a chunk that holds it, or a copy."""
        chunks: Any = version.chunks
        if self.whole >= 0:
            return chunks[self.whole].array
        if self.rows:
            return np.concatenate([chunks[i].array for i, _, _ in self.parts])
        out = np.empty(version.layout.shape, version.dtype)
        for i, key, _ in self.parts:
            out[key] = chunks[i].array
        return out

    def part(self, version: Version, view: ViewMap | None) -> Any:
        """A copy of what a view shows, or None where the view turns axes, or adds some."""
        places = _places(self, view, version.layout.shape)
        if places is None:
            return None
        chunks: Any = version.chunks
        out = np.empty(version.layout.shape if view is None else view.shape, version.dtype)
        for i, key, part in places:
            out[part] = chunks[i].array[key]
        return out


def write_assembled(
    context: Context, storage: Storage, view: ViewMap | None, program: Program, leaves: Sequence[Leaf], private: int
) -> tuple[bool, Exception | None]:
    """Write a compiled value into a view of a storage: whether that was done, and the floating-point error that it met.

    `private` as in ``demand.write``.
    """
    version = storage.version
    target = _frame(context, version.layout)
    if target is None:
        return False, None
    shape = version.layout.shape if view is None else view.shape
    if math.prod(shape) > ELEMENTS:
        return False, None
    places = _places(target, view, version.layout.shape)
    if places is None:
        return False, None
    found = _operands(context, leaves)
    if found is None:
        return False, None
    operands, copied = found
    failed: Exception | None = None
    if program.result[0] == "leaf" and copied and operands[0].dtype == version.dtype:  # nothing is computed
        out = operands[0] if operands[0].shape == shape else np.broadcast_to(operands[0], shape)
    else:
        out = np.empty(shape, version.dtype)
        try:
            _compute(context, program, operands, out)
        except (FloatingPointError, RuntimeWarning) as error:  # raised when all is written, as by NumPy
            failed = error
    if version.pinned(by_writer=private):
        version = writable_chunks(storage, [i for i, _, _ in places])
    chunks: Any = version.chunks
    for i, key, part in places:
        chunk = chunks[i]
        if chunk.shared:
            chunk = chunks[i] = duplicate(chunk)
        chunk.array[key] = out[part]
    return True, failed


def evaluate_assembled(
    context: Context, program: Program, leaves: Sequence[Leaf], layout: Layout
) -> list[Chunk | None] | None:
    """The value of a compiled expression in chunks of a layout; None where this way does not serve."""
    frame = _frame(context, layout)
    if frame is None or math.prod(layout.shape) > ELEMENTS or not is_idle(program):
        return None
    if any(step.loud or step.ufunc.__name__ not in CUT_FREE for step in program.steps):
        return None
    found = _operands(context, leaves)
    if found is None:
        return None
    out = np.empty(layout.shape, program.dtype)
    _compute(context, program, found[0], out)
    chunks = allocate(context, layout, program.dtype, label=program.name)
    for chunk, key in zip(chunks, frame.keys, strict=True):
        chunk.array[...] = out[key]  # type: ignore[union-attr]
    return chunks


def _operands(context: Context, leaves: Sequence[Leaf]) -> tuple[list[Any], bool] | None:
    """What leaves show, each in one array, and whether all of those are copies; None where that is not small, or reshaped."""
    known: dict[int, Any] = {}
    operands = []
    copied = True
    for leaf in leaves:
        array = known.get(id(leaf.version))
        shape = leaf.version.layout.shape
        if not _direct(leaf.view, shape) or math.prod(shape if leaf.view is None else leaf.view.shape) > ELEMENTS:
            return None
        if array is None:
            frame = _frame(context, leaf.version.layout)
            if frame is None:
                return None
            if frame.whole < 0 and math.prod(shape) > ELEMENTS:  # only what the view shows is put together
                part = frame.part(leaf.version, leaf.view)
                if part is None:
                    return None
                operands.append(part)
                continue
            array = known[id(leaf.version)] = frame.array(leaf.version)
            copied = copied and frame.whole < 0
        operands.append(array if leaf.view is None else _shown(array, leaf.view))
    return operands, copied


def _compute(context: Context, program: Program, operands: Sequence[Any], out: DeviceArray) -> None:
    """Run all steps. Where a condition is met or a step fails, everything is done again by what knows how to say it."""
    if not any(step.loud for step in program.steps):
        with suppress(Exception):  # it comes again
            _, met = context.quiet(_run, program, operands, out)
            if not met:
                return
    evaluate_cells(context, program, [(context.local_devices[0], [(out, operands, ())])], out.nbytes, False)


def _run(program: Program, operands: Sequence[Any], out: Any) -> None:
    kind, value = program.result
    done: list[Any] = []
    for number, step in enumerate(program.steps):
        args = [operands[v] if k == "leaf" else done[v] if k == "step" else v for k, v in step.args]
        last = kind == "step" and value == number == len(program.steps) - 1
        if last and step.dtype == out.dtype and not step.masked and type(step.ufunc) is np.ufunc:
            call_numpy(step, args, out)
            return
        done.append(call_numpy(step, args, None))
    result = done[value] if kind == "step" else operands[value] if kind == "leaf" else value
    np.copyto(out, real_part(result, out.dtype), casting="unsafe")


def _frame(context: Context, layout: Layout) -> Boxes | None:
    """A layout's chunks as boxes; None where it is not cut into few boxes, or is partial."""
    key = ("frame", layout)
    found: Any = context.layouts.remembered(key)
    if found is None:
        found = context.layouts.remember(key, (_framed(layout),))
    return found[0]  # type: ignore[no-any-return]


def _framed(layout: Layout) -> Boxes | None:
    held = [(i, region) for i, (_, region) in enumerate(layout.chunks) if region.size]
    shape = layout.shape
    if layout.is_partial or not 0 < len(held) <= FEW or not layout.index_map.covers:
        return None
    if any(r.step != 1 for _, region in held for r in region):
        return None
    parts = tuple([(i, region.slices, tuple([(r.start, r.stop) for r in region])) for i, region in held])
    whole = next((i for i, region in held if region.shape == shape), -1)
    rows = bool(shape) and all(region.shape[1:] == shape[1:] for _, region in held)
    if rows:
        at = 0
        for _, _, bounds in parts:
            rows = rows and bounds[0][0] == at
            at = bounds[0][1]
    return Boxes(parts, whole, rows, tuple([region.slices for _, region in layout.chunks]))


def _direct(view: ViewMap | None, shape: tuple[int, ...]) -> bool:
    """Whether a view indexes a storage of `shape` as it is."""
    return view is None or (view.inner is None and view.base == shape)


def _shown(array: DeviceArray, view: ViewMap) -> Any:
    """What a view shows of an array of its base's shape."""
    key: list[Any] = []
    order: list[int] = []
    shape = view.shape
    for axis, start, step in view.axes:
        if axis < 0:
            key.append(start)
            continue
        stop: int | None = start + step * shape[axis]
        if stop is not None and stop < 0:
            stop = None
        key.append(slice(start, stop, step))
        order.append(axis)
    part = array[(*key, ...)]
    if len(order) > 1 and order != sorted(order):
        part = part.transpose(sorted(range(len(order)), key=order.__getitem__))
    if len(order) < len(shape):
        part = part[tuple([slice(None) if axis in order else None for axis in range(len(shape))])]
        if part.shape != shape:
            part = np.broadcast_to(part, shape)
    return part


def _places(
    frame: Boxes, view: ViewMap | None, shape: tuple[int, ...]
) -> list[tuple[int, tuple[Any, ...], tuple[Any, ...]]] | None:
    """The parts of chunks that a view shows: chunk, key in it, key in the view. None where the view turns axes, or adds some."""
    if view is None:
        return [(i, (...,), (*key, ...)) for i, key, _ in frame.parts]
    if view.inner is not None or view.base != shape or 0 in view.shape:
        return None
    count = 0
    for axis, _, step in view.axes:
        if axis >= 0:
            if axis != count or step < 1:
                return None
            count += 1
    if count != len(view.shape):
        return None
    found = []
    for i, _, bounds in frame.parts:
        key: list[Any] = []
        part: list[Any] = []
        for (axis, start, step), (low, high) in zip(view.axes, bounds, strict=True):
            if axis < 0:
                if not low <= start < high:
                    break
                key.append(start - low)
                continue
            first = -((start - low) // step) if start < low else 0
            end = min(view.shape[axis], -((start - high) // step))
            if first >= end:
                break
            key.append(slice(start + first * step - low, start + (end - 1) * step - low + 1, step))
            part.append(slice(first, end))
        else:
            found.append((i, (*key, ...), (*part, ...)))
    return found
