"""Floating-point conditions on host devices: heard while devices work, and given once, in the caller's thread."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, ClassVar

import numpy as np

from distarray.devices.arrays import DeviceArray
from distarray.fusion.expr import Conversion, converted_into, is_loud, overflows_in_cast
from distarray.fusion.program import Instruction, Program
from distarray.sites import call_site, warn_at

__all__ = ["GAPPED", "Notes", "call_numpy", "is_same"]


GAPPED = frozenset({np.isnan, np.isinf, np.isfinite, np.signbit})
"""NumPy (2.1 to 2.5 at least) leaves elements of their result unwritten where those do not lie side by side."""


def call_numpy(step: Instruction, args: Sequence[Any], into: np.ndarray[Any, Any] | None) -> Any:
    """One step on the host, into an array where there is one; only where its mask holds, if it has one."""
    if into is not None and step.ufunc in GAPPED:
        return _tested(step, args, into)
    if not step.masked:
        if into is None:
            return step.ufunc(*args, **step.kwargs)
        return step.ufunc(*args, out=into, **step.kwargs)
    *inputs, mask, initial = args
    if into is not None and is_same(initial, into) and not _meet(mask, into):
        step.ufunc(*inputs, out=into, where=mask, **step.kwargs)  # what stands elsewhere is there
        return into
    if into is None or any(_meet(a, into) for a in args):
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


def _tested(step: Instruction, args: Sequence[Any], into: np.ndarray[Any, Any]) -> Any:
    """A step of `GAPPED`, which NumPy writes into memory of its own, unless all of it lies side by side."""
    if not step.masked:
        if into.flags.c_contiguous and (not isinstance(args[0], np.ndarray) or args[0].flags.c_contiguous):
            return step.ufunc(*args, out=into, **step.kwargs)
        found = step.ufunc(*args, **step.kwargs)
    else:
        *inputs, mask, initial = args
        found = np.where(mask, step.ufunc(*inputs, **step.kwargs), initial)
    np.copyto(into, found, casting="unsafe")
    return into


def _meet(array: DeviceArray, into: DeviceArray) -> bool:
    return isinstance(array, np.ndarray) and np.may_share_memory(into, array)


def is_same(array: object, into: np.ndarray[Any, Any]) -> bool:
    """Whether two arrays are the same elements of the same memory."""
    return isinstance(array, np.ndarray) and (
        array is into
        or (
            array.shape == into.shape
            and array.strides == into.strides
            and array.dtype == into.dtype
            and array.__array_interface__["data"] == into.__array_interface__["data"]
        )
    )


def _hand_over(fresh: Any, into: Any) -> Any:
    if into is None or fresh is into:
        return fresh
    np.copyto(into, fresh)
    return into


class Notes:
    """Floating-point conditions met during an evaluation: (condition, step), each given as one warning afterwards."""

    _KINDS = ("divide", "over", "under", "invalid")
    WORDS: ClassVar[dict[str, str]] = {
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

    def beside(self) -> Notes:
        """Notes of another thread, for the same caller."""
        mine = copy(self)
        mine.seen = {}
        return mine

    def as_numpy(self, step: Instruction) -> Any:
        """A context in which NumPy does about conditions what the user asked for."""
        return np.errstate(call=self.handler, **step.errors)

    def loudly(self, step: Instruction, args: Sequence[Any], into: np.ndarray[Any, Any] | None) -> Any:
        """Call a step as the user's error state says, and keep its error for `finish`: NumPy too writes an array to its end
        before it raises."""
        if into is None:
            into = np.empty(np.broadcast_shapes(*[np.shape(a) for a in args]), step.dtype)
        try:
            with self.as_numpy(step):
                return call_numpy(step, args, into)
        except FloatingPointError as error:
            self.failed = self.failed or error
            return into

    def cast(self, out: np.ndarray[Any, Any], source: np.ndarray[Any, Any]) -> None:
        """Convert a result into the array that is written, in the error state of the write; its error is kept as well."""
        self.step = None
        if is_loud(self.now):
            state = np.errstate(call=self.handler, **self.now)
        else:
            state = np.errstate(call=self, **{kind: "call" if how == "warn" else how for kind, how in self.now.items()})
        try:
            with state:
                converted_into(out, source)
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
        elif step.errors[self.WORDS.get(condition, "invalid")] == "warn":
            self.seen.setdefault((condition, id(step)), step)

    def finish(self) -> None:
        """Raise what a loud step met; else warn, once for each condition and recorded call."""
        if self.failed is not None:
            raise self.failed
        for (condition, _), step in self.seen.items():
            node: Any = getattr(step, "node", step)
            if node is not None and condition in node.warned:
                continue
            name = "cast" if _is_cast(condition, step) else step.ufunc.__name__
            warn_at(call_site() if step is _CAST else step.site, f"{condition} encountered in {name}")
            if node is not None:
                node.warned += (condition,)


def _is_cast(condition: str, step: Any) -> bool:
    """Whether NumPy says that a conversion met the condition, and not the operation that asked for it."""
    if step is _CAST or isinstance(step.ufunc, Conversion):
        return True
    node: Any = getattr(step, "node", step)
    return condition == "overflow" and node is not None and overflows_in_cast(node)


_CAST = Instruction(np.positive, (), {}, None, {}, ("", 0, {}), False, False)
