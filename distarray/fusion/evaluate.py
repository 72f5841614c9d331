"""Evaluators: run the steps of an expression over local views, in one pass.

Host: NumPy's own ufuncs, block by block, so that temporaries stay in cache; the same bits as NumPy. GPU: one kernel for
the whole expression where its steps are in C (``fusion/kernels/``), else CuPy's ufuncs, step by step, with the same bits.
Floating-point warnings are collected while devices work, and given once, in the caller's thread, with the line that
recorded the operation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray.devices.arrays import DeviceArray, Library
from distarray.fusion import gpu_ufuncs
from distarray.fusion.blocks import CUT_FREE, Schedule, run_blocks, schedule, worth_blocks
from distarray.fusion.expr import Node, real_part
from distarray.fusion.kernels.later import LaterChunk, settled
from distarray.fusion.kernels.rows import fused_rows
from distarray.fusion.kernels.run import fused
from distarray.fusion.native.run import NativeCell, native_cells
from distarray.fusion.notes import Notes, call_numpy
from distarray.fusion.program import Instruction, Program
from distarray.layout import Layout

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = ["CellArrays", "Instruction", "Program", "evaluate_cells", "evaluate_lines", "evaluate_plain"]

_NOTHING: Mapping[int, Any] = MappingProxyType({})

CellArrays = tuple[Any, Sequence[Any], Sequence[Any]]
"""`(out, operands, arrays for the steps whose values are kept)` of a part of a chunk."""

_NO_ARRAYS: CellArrays = (None, (), ())

Jobs = Sequence[tuple[Any, Sequence[CellArrays]]]
"""For each device, its cells."""


def evaluate_cells(
    context: Context, program: Program, jobs: Jobs, nbytes: int, strict: bool, stored: tuple[int, ...] = ()
) -> None:
    """Compute every cell. `strict`: overlapping copies must come out equal to the bit. `stored`: steps whose values are
    written to arrays of their own."""
    if context.kind != "host":
        for device, cells in jobs:
            with device.active():
                for out, operands, stores in cells:
                    _run_on_gpu(context, device.lib, program, operands, out, stored, stores)
        return
    notes = Notes()
    native = None if context.eager else native_cells(program, jobs, stored)
    if native is None:
        native = [[None] * len(cells) for _, cells in jobs]
    plan = _planned(program, jobs, stored) if any(None in kernels for kernels in native) else None
    if context.workers.threads_for(len(jobs), nbytes) <= 1:
        with notes.listening(program):
            for (_, cells), kernels in zip(jobs, native, strict=True):
                _run_host(program, plan, cells, kernels, strict, notes, stored)
    else:
        tasks: list[Callable[[], None]] = [
            partial(_run_listening, program, plan, cells, kernels, strict, notes, stored)
            for (_, cells), kernels in zip(jobs, native, strict=True)
        ]
        context.workers.run(tasks, nbytes)
    notes.finish()


def _run_on_gpu(
    context: Context,
    lib: Library,
    program: Program,
    operands: Sequence[Any],
    out: DeviceArray,
    stored: tuple[int, ...],
    stores: Sequence[Any],
) -> None:
    """One cell by the kernel that takes it whole, or step by step."""
    if any(type(item) is LaterChunk for item in operands):
        if not stored and fused_rows(lib, program, operands, out):
            return
        operands = settled(operands)
    if context.eager or not fused(lib, program, operands, out, stored, stores):
        _run(lib, program, operands, out, False, None, dict(zip(stored, stores, strict=True)))


def evaluate_lines(
    context: Context, program: Program, cells: Sequence[NativeCell], nbytes: int, strict: bool, stored: tuple[int, ...]
) -> None:
    """Compute cells that kernels take, on the host."""
    notes = Notes()
    threads = context.workers.threads_for(max(len(cells), context.workers.cores), nbytes)
    if threads <= 1:
        _run_lines(program, cells, strict, notes, stored)
    else:
        if len(cells) % threads:  # one thread would be left with a chunk more than others
            cells = [part for cell in cells for part in cell.cut(threads)]
        every = [notes.beside() for _ in cells]
        context.workers.run(
            [
                partial(_run_lines, program, (cell,), strict, mine, stored)
                for cell, mine in zip(cells, every, strict=True)
            ],
            nbytes,
        )
        for mine in every:
            notes.seen.update(mine.seen)
            notes.failed = notes.failed or mine.failed
    notes.finish()


def _run_lines(
    program: Program, cells: Sequence[NativeCell], strict: bool, notes: Notes, stored: tuple[int, ...]
) -> None:
    if cells[0].plan.mixed:
        with notes.listening(program):
            _run_host(program, None, [_NO_ARRAYS] * len(cells), cells, strict, notes, stored)
        return
    again = partial(_again_heard, program, strict, notes, stored)
    for cell in cells:
        cell.run(notes, again, strict)


def evaluate_plain(context: Context, node: Node, layout: Layout) -> list[Any]:
    """New chunks for one ufunc call on whole arrays of `layout` on GPUs: the shortest way."""
    operands = [a.version.chunks if hasattr(a, "version") else a for a in node.args]
    fresh: list[Any] = []
    for i, (device_id, region) in enumerate(layout.chunks):
        device = context.by_id[device_id]
        if device.process != context.process:
            fresh.append(None)
            continue
        args = [a[i].array if type(a) is list else a for a in operands]
        with device.active():
            if device.memory_limit is None:
                fresh.append(device.adopt(gpu_ufuncs.evaluate(device.lib, node, args, None), node.ufunc.__name__))
            else:
                chunk = device.empty(region.shape, node.dtype, node.ufunc.__name__)
                gpu_ufuncs.evaluate(device.lib, node, args, chunk.array)
                fresh.append(chunk)
    return fresh


def _planned(program: Program, jobs: Jobs, stored: tuple[int, ...]) -> Schedule | None:
    """How to go through the cells in blocks, where that gains something in any."""
    for _, cells in jobs:
        for out, operands, _ in cells:
            if worth_blocks(program, out):
                return schedule(program, len(operands), out.dtype, stored)
    return None


def _run_listening(
    program: Program,
    plan: Schedule | None,
    cells: Sequence[Any],
    kernels: Sequence[NativeCell | None],
    strict: bool,
    notes: Notes,
    stored: tuple[int, ...],
) -> None:
    mine = Notes()
    with mine.listening(program):
        _run_host(program, plan, cells, kernels, strict, mine, stored)
    notes.seen.update(mine.seen)
    notes.failed = notes.failed or mine.failed


def _run_host(
    program: Program,
    plan: Schedule | None,
    cells: Sequence[Any],
    kernels: Sequence[NativeCell | None],
    strict: bool,
    notes: Notes,
    stored: tuple[int, ...],
) -> None:
    for (out, operands, arrays), kernel in zip(cells, kernels, strict=True):
        if kernel is not None:
            kernel.run(notes, partial(_again, program, strict, notes, stored), strict)
        elif plan is not None and worth_blocks(program, out):
            run_blocks(plan, operands, out, strict, notes, arrays)
        else:
            _run(np, program, operands, out, strict, notes, dict(zip(stored, arrays, strict=True)))


def _again(
    program: Program,
    strict: bool,
    notes: Notes,
    stored: tuple[int, ...],
    operands: Sequence[Any],
    out: DeviceArray,
    arrays: Sequence[Any],
) -> None:
    """A block that a kernel leaves to NumPy."""
    _run(np, program, operands, out, strict, notes, dict(zip(stored, arrays, strict=True)))


def _again_heard(
    program: Program,
    strict: bool,
    notes: Notes,
    stored: tuple[int, ...],
    operands: Sequence[Any],
    out: DeviceArray,
    arrays: Sequence[Any],
) -> None:
    """The same, where nobody listens so far."""
    with notes.listening(program):
        _again(program, strict, notes, stored, operands, out, arrays)


def _run(
    lib: Library,
    program: Program,
    operands: Sequence[Any],
    out: Any,
    strict: bool,
    notes: Notes | None = None,
    stores: Mapping[int, Any] = _NOTHING,
) -> None:
    """Run all steps on one cell or block; the last writes into `out`, others into their `stores` where they have one."""
    steps = program.steps
    kind, value = program.result
    if kind != "step":
        source = real_part(operands[value] if kind == "leaf" else value, out.dtype)
        if notes is not None:
            notes.cast(out, source)
        elif hasattr(source, "strides") and not isinstance(source, np.generic):
            out[...] = source
        else:
            gpu_ufuncs.fill(lib, out, source)
        return
    done: list[Any] = []
    last = len(steps) - 1
    for i, step in enumerate(steps):
        args = [operands[v] if k == "leaf" else done[v] if k == "step" else v for k, v in step.args]
        if strict and step.ufunc.__name__ not in CUT_FREE:
            args = [np.ascontiguousarray(a) if isinstance(a, np.ndarray) and a.ndim else a for a in args]
        into = stores.get(i)
        if into is None and i == last and out.dtype == step.dtype:
            into = out
        if notes is not None:
            notes.step = step
            result = notes.loudly(step, args, into) if step.loud else call_numpy(step, args, into)
        else:
            result = gpu_ufuncs.evaluate(lib, step, args, into)
        done.append(result)
    if done[last] is not out:
        done[last] = real_part(done[last], out.dtype)
        if notes is not None:
            notes.cast(out, done[last])
        else:
            out[...] = done[last].astype(out.dtype) if hasattr(done[last], "astype") else done[last]
