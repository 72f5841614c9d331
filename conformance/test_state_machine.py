"""Programs: arrays, views of them and in-place writes in any order, deferred and eager, beside NumPy doing the same."""

from __future__ import annotations

import gc
import math
import warnings
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, precondition, rule

from conformance.checking import assert_same, both
from conformance.contexts import context, whole
from conformance.strategies import (
    Pair,
    arrays,
    axes,
    basic_indices,
    device_counts,
    layouts,
    modes,
    pairs,
    shapes,
)
from distarray.errors import ReadOnlyError

DTYPES = st.sampled_from([np.dtype(t) for t in ("int64", "float64", "int8", "uint16")])


def as_pair(x: Any, ref: np.ndarray) -> Pair:
    return Pair(x, ref, x, ref)


@st.composite
def reshapes(draw: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape of as many elements."""
    left, new = math.prod(shape), []
    if not left:
        return draw(st.sampled_from([(0,), (1, 0), (0, 3), shape]))
    for _ in range(draw(st.integers(0, 2))):
        new.append(draw(st.sampled_from([n for n in range(1, left + 1) if left % n == 0])))
        left //= new[-1]
    return tuple(draw(st.permutations([*new, left])))


class Programs(RuleBasedStateMachine):
    """Every rule does the same to a distributed array and to its NumPy model; values are compared as they go."""

    eager = False
    held = Bundle("held")

    def __init__(self) -> None:
        super().__init__()
        self.live: list[Pair] = []
        self.n = 1
        self.steps = 0

    @initialize(target=held, n=device_counts, data=st.data())
    def start(self, n: int, data: Any) -> Pair:
        self.n = n
        return self.make(data)

    def keep(self, pair: Pair) -> Pair:
        if self.eager:
            pair.x.evaluate()
        self.live.append(pair)
        return pair

    @rule(target=held, data=st.data())
    def create(self, data: Any) -> Pair:
        return self.make(data)

    def make(self, data: Any) -> Pair:
        a = data.draw(arrays(data.draw(shapes(max_dims=3, max_size=60)), data.draw(DTYPES), extreme=False))
        return self.keep(data.draw(pairs(a, self.n)))

    @rule(target=held, p=held, data=st.data())
    def view(self, p: Pair, data: Any) -> Pair:
        kind = data.draw(
            st.sampled_from(["index", "index", "T", "flip", "expand", "ravel", "reshape", "diagonal", "windows"])
        )
        if kind == "index":
            key = data.draw(basic_indices(p.ref.shape))
            key = key if isinstance(key, tuple) else (key,)
            key = key if Ellipsis in key else (*key, ...)
            try:
                return self.keep(as_pair(p.x[key], p.ref[key]))
            except IndexError:
                return p
        if kind == "T":
            return self.keep(as_pair(p.x.T, p.ref.T))
        if kind == "expand":
            return self.keep(as_pair(np.expand_dims(p.x, 0), np.expand_dims(p.ref, 0)))
        if kind == "flip" and p.ref.ndim:  # of no dimensions NumPy makes a scalar
            return self.keep(as_pair(np.flip(p.x), np.flip(p.ref)))
        if kind == "reshape":
            shape = data.draw(reshapes(p.ref.shape))
            return self.keep(as_pair(p.x.reshape(shape), p.ref.reshape(shape)))
        if kind == "diagonal" and p.ref.ndim > 1:
            return self.keep(as_pair(p.x.diagonal(), p.ref.diagonal()))
        if kind == "windows" and p.ref.ndim == 1 and 1 < p.ref.size < 100:
            windows = np.lib.stride_tricks.sliding_window_view
            return self.keep(as_pair(windows(p.x, 2), windows(p.ref, 2)))
        return self.keep(as_pair(p.x.reshape(-1).copy(), p.ref.reshape(-1).copy()))

    @rule(p=held, data=st.data())
    def set_shape(self, p: Pair, data: Any) -> None:
        shape = data.draw(reshapes(p.ref.shape))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                p.ref.shape = shape
        except AttributeError:  # also where NumPy's result lies in the order of its operands, and ours in C order
            with suppress(AttributeError):
                p.x.shape = shape
                p.x.shape = p.ref.shape
        else:
            p.x.shape = shape

    def may_write(self, p: Pair) -> bool:
        """Whether both can be written to: a copy that stands for a view can't while its origin lives, and says so."""
        if not p.x.writable:
            gc.collect()  # an origin that only a traceback still holds is dead, in this run and in its repetition
        if p.x.writable and p.ref.flags.writeable:
            return True
        with pytest.raises(ReadOnlyError):
            p.x[...] = p.x
        return False

    @rule(target=held, p=held, q=held, name=st.sampled_from(["add", "subtract", "multiply", "maximum", "less"]))
    def binary(self, p: Pair, q: Pair, name: str) -> Pair:
        f = getattr(np, name)
        with np.errstate(all="ignore"):
            try:
                ref = np.asarray(f(p.ref, q.ref), order="C")  # as ours, which decides what is a view of it
            except (ValueError, TypeError):  # shapes that do not broadcast; booleans do not subtract
                both(lambda: f(p.ref, q.ref), lambda: f(p.x, q.x))
                return p
            if ref.size > 500:
                return p
            x = f(p.x, q.x)
            return self.keep(
                as_pair(x if ref.ndim else x[...], ref)
            )  # NumPy makes a scalar; the array of one is a copy

    @rule(target=held, p=held, value=st.sampled_from([1, 2, -1]), name=st.sampled_from(["add", "multiply", "negative"]))
    def with_scalar(self, p: Pair, value: int, name: str) -> Pair:
        if p.ref.dtype.kind in "bu":
            value = abs(value)
        if name == "negative":
            both(lambda: np.negative(p.ref), lambda: np.negative(p.x))
            return p
        f = getattr(np, name)
        with np.errstate(all="ignore"):
            x, ref = f(p.x, value), np.asarray(f(p.ref, value), order="C")
            return self.keep(as_pair(x if ref.ndim else x[...], ref))

    @rule(p=held, q=held, name=st.sampled_from(["add", "subtract", "multiply"]))
    def in_place(self, p: Pair, q: Pair, name: str) -> None:
        if not self.may_write(p):
            return
        f = getattr(np, name)
        both(lambda: f(p.ref, q.ref, out=p.ref), lambda: f(p.x, q.x, out=p.x))

    @rule(p=held, data=st.data(), value=st.sampled_from([0, 1, 5]))
    def assign_scalar(self, p: Pair, data: Any, value: int) -> None:
        if not self.may_write(p):
            return
        key = data.draw(basic_indices(p.ref.shape))
        both(lambda: p.ref.__setitem__(key, value), lambda: p.x.__setitem__(key, value))

    @rule(p=held, q=held, data=st.data())
    def assign_array(self, p: Pair, q: Pair, data: Any) -> None:
        if not self.may_write(p):
            return
        if p.ref.dtype.kind in "iub" and q.ref.dtype.kind == "f":
            return  # float to int is undefined out of range
        key = data.draw(basic_indices(p.ref.shape))
        key = key if isinstance(key, tuple) else (key,)
        key = (
            key if Ellipsis in key else (*key, ...)
        )  # whether one element takes an array of one depends on NumPy's age
        source = q.ref.copy()  # NumPy's own copy through overlap is correct too; the model should not depend on it
        both(lambda: p.ref.__setitem__(key, source), lambda: p.x.__setitem__(key, q.x))

    @rule(p=held, data=st.data(), add=st.booleans())
    def shift_along_itself(self, p: Pair, data: Any, add: bool) -> None:
        """``x[1:] = x[:-1]`` and ``x[1:] += x[:-1]``, backwards too."""
        if not p.ref.ndim or p.ref.shape[0] < 2 or not self.may_write(p):
            return
        lag = data.draw(st.integers(1, p.ref.shape[0] - 1))
        flip = slice(None, None, data.draw(st.sampled_from([1, -1])))
        if add and p.ref.dtype.kind != "b":
            ref, x = p.ref[lag:], p.x[lag:]
            with np.errstate(all="ignore"):
                ref += p.ref[:-lag][flip].copy()
                x += p.x[:-lag][flip]
        else:
            p.ref[lag:] = p.ref[:-lag][flip].copy()
            p.x[lag:] = p.x[:-lag][flip]

    @rule(p=held)
    def mask(self, p: Pair) -> None:
        if p.ref.ndim and self.may_write(p):
            p.ref[p.ref < 1] = 2
            p.x[p.x < 1] = 2

    @rule(target=held, p=held, data=st.data(), name=st.sampled_from(["sum", "max", "any"]))
    def reduce(self, p: Pair, data: Any, name: str) -> Pair:
        if p.ref.ndim == 0 or p.ref.size == 0 or (name == "sum" and p.ref.dtype.kind == "f"):
            return p
        axis = data.draw(axes(p.ref.ndim))
        ref = np.asarray(getattr(np, name)(p.ref, axis=axis), order="C")
        return self.keep(as_pair(getattr(np, name)(p.x, axis=axis), ref)) if ref.ndim else p

    @rule(target=held, p=held, data=st.data())
    def reshard(self, p: Pair, data: Any) -> Pair:
        layout = data.draw(layouts(p.ref.shape, self.n, default=False))
        with context(self.n):
            return self.keep(as_pair(p.x.reshard(layout), p.ref.copy()))

    @rule(target=held, p=held, data=st.data())
    def change_mode(self, p: Pair, data: Any) -> Pair:
        return self.keep(as_pair(p.x.change_mode(data.draw(modes(p.ref.dtype))), p.ref.copy()))

    @rule(target=held, p=held)
    def copy(self, p: Pair) -> Pair:
        return self.keep(as_pair(p.x.copy(), p.ref.copy()))

    @rule(p=held)
    def evaluate(self, p: Pair) -> None:
        p.x.evaluate()

    @rule(p=held)
    def read(self, p: Pair) -> None:
        assert_same(p.x, p.ref, zero_sign=False)

    @precondition(lambda self: len(self.live) > 4)
    @rule(p=consumes(held))
    def delete(self, p: Pair) -> None:
        self.live = [kept for kept in self.live if kept is not p]

    @invariant()
    def all_are_as_in_numpy(self) -> None:
        self.steps += 1
        if self.steps % 6 == 0:
            self.compare()

    def compare(self) -> None:
        for pair in self.live:
            assert_same(pair.x, pair.ref, zero_sign=False)

    def teardown(self) -> None:
        self.compare()


class EagerPrograms(Programs):
    """The same programs, each result evaluated at once."""

    eager = True


class WholePrograms(Programs):
    """The same programs where small arrays are whole, and most calls are NumPy's own."""

    def __init__(self) -> None:
        self.scope = whole()
        self.scope.__enter__()
        super().__init__()

    def teardown(self) -> None:
        try:
            super().teardown()
        finally:
            self.scope.__exit__(None, None, None)


TestPrograms = Programs.TestCase
TestPrograms.settings = settings(max_examples=2 * settings.default.max_examples, stateful_step_count=30)
TestWholePrograms = WholePrograms.TestCase
TestWholePrograms.settings = settings(max_examples=2 * settings.default.max_examples, stateful_step_count=30)
TestEagerPrograms = EagerPrograms.TestCase
TestEagerPrograms.settings = settings(max_examples=settings.default.max_examples, stateful_step_count=30)
