"""Evaluators: run the steps of an expression over local views, in one pass.

Host: NumPy's own ufuncs, block by block, so that temporaries stay in cache; the same bits as NumPy. GPU: one kernel for
the whole expression where its steps are in C (``fusion/kernels/``), else CuPy's ufuncs, step by step, with the same bits.
Floating-point warnings are collected while devices work, and given once, in the caller's thread, with the line that
recorded the operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from distarray.fusion import gpu_ufuncs
from distarray.fusion.expr import Conversion, call_site, is_loud, real_part, warn_at
from distarray.fusion.kernels.run import fused
from distarray.fusion.program import Instruction, Program

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = ["Program", "Instruction", "evaluate_cells"]

BLOCK = 1 << 16
"""Elements of a host block: temporaries of this size stay in cache (measured best between 2¹⁵ and 2¹⁸)."""

CUT_FREE = frozenset(
    """add subtract multiply divide true_divide negative positive absolute fabs sqrt square reciprocal floor ceil trunc rint
    conjugate sign maximum minimum fmax fmin equal not_equal less less_equal greater greater_equal logical_and logical_or
    logical_xor logical_not bitwise_and bitwise_or bitwise_xor invert left_shift right_shift isnan isinf isfinite signbit
    copysign astype floor_divide remainder fmod divmod modf nextafter spacing gcd lcm bitwise_count""".split()
)
"""Ufuncs whose result for an element is the same bits however the array is strided; the others (exp, sin, …) may take
another code path for strided data, so that overlapping chunks feed them contiguous data."""


Jobs = Sequence[tuple[Any, Sequence[tuple[Any, Sequence[Any]]]]]
"""For each device, `(out, operands)` of every cell."""


def evaluate_cells(context: Context, program: Program, jobs: Jobs, nbytes: int, strict: bool) -> None:
    """Compute every cell. `strict`: overlapping copies must come out equal to the bit."""
    if context.kind != "host":
        for device, cells in jobs:
            with device.active():
                for out, operands in cells:
                    if context.eager or not fused(device.lib, program, operands, out):
                        _run(device.lib, program, operands, out, False)
        return
    notes = _Notes()
    if context.workers.threads_for(len(jobs), nbytes) <= 1:
        with notes.listening(program):
            for _, cells in jobs:
                for out, operands in cells:
                    _run_host(program, operands, out, strict, notes)
    else:
        tasks: list[Callable[[], None]] = [partial(_run_listening, program, cells, strict, notes) for _, cells in jobs]
        context.workers.run(tasks, nbytes)
    notes.finish()


def evaluate_plain(context: Context, node: Any, layout: Any) -> list[Any]:
    """New chunks for one ufunc call on whole arrays of `layout`, in the calling thread: the shortest way."""
    operands = [a.version.chunks if hasattr(a, "version") else a for a in node.args]
    ufunc, kwargs, dtype = node.ufunc, node.kwargs, node.dtype
    fresh: list[Any] = []
    if context.kind != "host":
        for i, (device_id, region) in enumerate(layout.chunks):
            device = context.by_id[device_id]
            if device.process != context.process:
                fresh.append(None)
                continue
            args = [a[i].array if type(a) is list else a for a in operands]
            with device.active():
                if device.memory_limit is None:
                    fresh.append(device.adopt(gpu_ufuncs.evaluate(device.lib, node, args, None), ufunc.__name__))
                else:
                    chunk = device.empty(region.shape, dtype, ufunc.__name__)
                    gpu_ufuncs.evaluate(device.lib, node, args, chunk.array)
                    fresh.append(chunk)
        return fresh
    notes = _Notes()
    notes.step = node
    with notes.listening_to(node.errors):
        for i, (device_id, region) in enumerate(layout.chunks):
            device = context.by_id[device_id]
            if device.process != context.process:
                fresh.append(None)
                continue
            chunk = device.empty(region.shape, dtype, ufunc.__name__)
            ufunc(*[a[i].array if type(a) is list else a for a in operands], out=chunk.array, **kwargs)
            fresh.append(chunk)
    notes.finish()
    return fresh


def _run_listening(program: Program, cells: Any, strict: bool, notes: _Notes) -> None:
    mine = _Notes()
    with mine.listening(program):
        for out, operands in cells:
            _run_host(program, operands, out, strict, mine)
    notes.seen.update(mine.seen)
    notes.failed = notes.failed or mine.failed


def _run_host(program: Program, operands: Sequence[Any], out: Any, strict: bool, notes: _Notes) -> None:
    steps = program.steps
    if len(steps) < 2 or out.size <= 2 * BLOCK or out.ndim == 0:
        _run(np, program, operands, out, strict, notes)
        return
    axis = max(range(out.ndim), key=lambda a: abs(out.strides[a]) if out.shape[a] > 1 else -1)
    rows = max(1, BLOCK // max(1, out.size // out.shape[axis]))
    head = (slice(None),) * axis
    for low in range(0, out.shape[axis], rows):
        part = (*head, slice(low, low + rows))
        blocks = []
        for array in operands:
            own = axis - (out.ndim - array.ndim)
            if own < 0 or array.shape[own] == 1:
                blocks.append(array)
            else:
                blocks.append(array[(slice(None),) * own + (slice(low, low + rows),)])
        _run(np, program, blocks, out[part], strict, notes)


def _run(
    lib: Any, program: Program, operands: Sequence[Any], out: Any, strict: bool, notes: _Notes | None = None
) -> None:
    """Run all steps on one cell or block; the last writes into `out`."""
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
        into = out if i == last and out.dtype == step.dtype else None
        if notes is not None:
            notes.step = step
            result = notes.loudly(step, args, into) if step.loud else _call_numpy(step, args, into)
        else:
            result = gpu_ufuncs.evaluate(lib, step, args, into)
        done.append(result)
    if done[last] is not out:
        done[last] = real_part(done[last], out.dtype)
        if notes is not None:
            notes.cast(out, done[last])
        else:
            out[...] = done[last].astype(out.dtype) if hasattr(done[last], "astype") else done[last]


def _call_numpy(step: Instruction, args: list[Any], into: Any) -> Any:
    if not step.masked:
        if into is None:
            return step.ufunc(*args, **step.kwargs)
        return step.ufunc(*args, out=into, **step.kwargs)
    *inputs, mask, initial = args
    if into is None or any(np.may_share_memory(into, a) for a in args if isinstance(a, np.ndarray)):
        fresh = np.empty(np.broadcast_shapes(*[np.shape(a) for a in args]), step.dtype)
    else:
        fresh = into
    np.copyto(fresh, initial, casting="unsafe")
    try:
        step.ufunc(*inputs, out=fresh, where=mask, **step.kwargs)
    except FloatingPointError:  # raised behind NumPy's loop: what is written in place is then written
        _hand_over(fresh, into)
        raise
    return _hand_over(fresh, into)


def _hand_over(fresh: Any, into: Any) -> Any:
    if into is None or fresh is into:
        return fresh
    np.copyto(into, fresh)
    return into


class _Notes:
    """Floating-point conditions met during an evaluation: (condition, step), each given as one warning afterwards."""

    _KINDS = ("divide", "over", "under", "invalid")
    _WORDS: ClassVar[dict[str, str]] = {
        "divide by zero": "divide",
        "overflow": "over",
        "underflow": "under",
        "invalid value": "invalid",
    }

    def __init__(self) -> None:
        self.seen: dict[tuple[str, int], Instruction] = {}
        self.step: Any = None
        self.handler: Any = np.geterrcall()
        self.now: dict[str, Any] = dict(np.geterr())
        self.failed: FloatingPointError | None = None

    def as_numpy(self, step: Instruction) -> Any:
        """A context in which NumPy does about conditions what the user asked for."""
        return np.errstate(call=self.handler, **step.errors)

    def loudly(self, step: Instruction, args: list[Any], into: Any) -> Any:
        """Call a step so, to its end in every chunk: an array that is written in place is then written whole, as NumPy
        does, which looks for errors behind its loops."""
        if into is None:
            into = np.empty(np.broadcast_shapes(*[np.shape(a) for a in args]), step.dtype)
        try:
            with self.as_numpy(step):
                return _call_numpy(step, args, into)
        except FloatingPointError as error:
            self.failed = self.failed or error
            return into

    def cast(self, out: Any, source: Any) -> None:
        """The last conversion, into the array that is written: in the state of the write, and also to its end."""
        self.step = None
        if is_loud(self.now):
            state = np.errstate(call=self.handler, **self.now)
        else:
            state = np.errstate(call=self, **{kind: "call" if how == "warn" else how for kind, how in self.now.items()})
        try:
            with state:
                np.copyto(out, source, casting="unsafe")
        except FloatingPointError as error:
            self.failed = self.failed or error

    def listening_to(self, errors: dict[str, Any]) -> Any:
        """A context in which NumPy reports here what one operation's `errors` warn of."""
        wanted: dict[str, Any] = {kind: "call" if how == "warn" else how for kind, how in errors.items()}
        if "call" not in wanted.values():
            return np.errstate(**wanted)
        if any(how not in ("call", "ignore") for how in wanted.values()) or "call" in errors.values():
            return np.errstate(**errors)
        return np.errstate(call=self, **wanted)

    def listening(self, program: Program) -> Any:
        """A context in which NumPy reports here what the quiet steps warn of."""
        quiet = [step.errors for step in program.steps if not step.loud]
        wanted: dict[str, Any] = {
            kind: "call" if any(errors[kind] == "warn" for errors in quiet) else "ignore" for kind in self._KINDS
        }
        return np.errstate(call=self, **wanted)

    def __call__(self, condition: str, flag: int) -> None:
        step = self.step
        if step is None:
            self.seen.setdefault((condition, 0), _CAST)
        elif step.errors[self._WORDS.get(condition, "invalid")] == "warn":
            self.seen.setdefault((condition, id(step)), step)

    def finish(self) -> None:
        """Raise what a loud step met; else warn, once for each condition and step."""
        if self.failed is not None:
            raise self.failed
        for (condition, _), step in self.seen.items():
            name = "cast" if step is _CAST or isinstance(step.ufunc, Conversion) else step.ufunc.__name__
            warn_at(call_site() if step is _CAST else step.site, f"{condition} encountered in {name}")


_CAST = Instruction(np.positive, (), {}, None, {}, ("", 0, {}), False, False)
