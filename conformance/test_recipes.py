"""Expressions that come again have the bits, the warnings and the kept values of those that are planned each time."""

import warnings
from functools import partial
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import distarray as da
from conformance.checking import on_gpu
from conformance.contexts import context
from conformance.strategies import device_counts, layouts
from conformance.test_native import by_numpy, compiled, heard, same, trees, whole
from distarray.fusion import demand, recipes
from distarray.fusion.native.machine import machine

pytestmark = [
    pytest.mark.skipif(on_gpu(), reason="GPUs have recipes of their own"),
    pytest.mark.skipif(machine() is None, reason="the extra `fast` is not installed, or not for this processor"),
]


def counted(count):
    """In the block the expressions that a recipe served are counted."""
    followed = recipes.followed

    def call(context, walk):
        found = followed(context, walk)
        if found is not None:
            count.append(walk.form)
        return found

    return mock.patch.object(demand, "followed", call)


def turn(names, tree, use, held):
    """One turn of a loop: the value of an expression, and what else the program does with it."""
    first = whole(names, tree)
    if use == "held":
        second = np.add(first, names["y"]) * 3
        total = (second - first).evaluate() if isinstance(second, da.DistributedArray) else second - first
        held[:] = [first, second]
        return np.concatenate([total, second])
    if use == "held before":
        before = held[0] if held else names["x"]
        held[:] = [first]
        return before * 2 - first
    if use == "written":
        value = np.add(first, names["x"])
        names["x"][...] = names["y"]
        return value
    if use == "parts" and first.dtype.kind == "c":
        value = first + names["y"]
        return value.real * value.imag - value.real
    return first * names["scalar"]


@settings(max_examples=60, deadline=None)
@given(
    trees(),
    st.sampled_from(["value", "held", "held before", "written", "parts"]),
    st.sampled_from([("f8", "f8"), ("f4", "f4"), ("f4", "f8"), ("i8", "i4"), ("?", "f8"), ("c16", "f8"), ("c8", "c8")]),
    st.sampled_from([(5, 40), (97,), (7, 3, 8)]),
    device_counts,
    st.data(),
    st.sampled_from([2.0, -3, True, np.float32(0.5)]),
    st.sampled_from(["plain", "special", "at the end"]),
    st.integers(0, 99),
)
def test_what_comes_again_is_as_it_was(tree, use, dtypes, shape, devices, data, number, kind, seed):
    layout = data.draw(layouts(shape, devices))
    outcomes = []
    for ways in (False, True):
        found = []
        rng = np.random.default_rng(seed)
        with (
            context(devices) as c,
            mock.patch.object(c.workers, "inline_bytes", 0),
            np.errstate(all="warn", under="ignore"),
        ):
            held = []
            with compiled() if ways else by_numpy():
                for round in range(4):
                    names = {}
                    for name, dtype in zip(("x", "y"), dtypes):
                        value = rng.random(shape) * 9 - (0 if dtype == "?" else 4)
                        if dtype[0] in "fc" and (kind == "special" or (kind == "at the end" and round == 3)):
                            value.flat[rng.integers(0, value.size, 3)] = rng.choice([np.inf, 0.0, np.nan, 1e300], 3)
                        with np.errstate(all="ignore"):
                            names[name] = da.asarray(value.astype(dtype), layout=layout)
                    names.update(row=names["y"], column=names["x"], scalar=number * (round + 1))
                    found.append(
                        (*heard(partial(turn, names, tree, use, held)), names["x"].get(), [h.get() for h in held])
                    )
        outcomes.append(found)
    for (a, said, x, first), (b, told, other, second) in zip(*outcomes):
        assert (a is None) == (b is None)
        assert a is None or a.dtype == object or same(a, b)
        assert said == told
        assert same(x, other)
        assert all(same(*both) for both in zip(first, second, strict=True))


def test_a_loop_is_planned_once():
    with da.init(devices=2, kind="host", minimum_chunk=1) as c, compiled():
        c.workers.inline_bytes = 0
        x = da.asarray(np.linspace(0, 1, 1000))
        count = []
        with counted(count):
            for k in range(6):
                y = x + k * x * x
                z = y - 1  # y is held, and worth keeping after some turns
                z.evaluate()
        assert len(count) >= 4
        value = x.get()
        np.testing.assert_array_equal(z.get(), value + 5 * value * value - 1)
        np.testing.assert_array_equal(y.get(), value + 5 * value * value)


def test_conditions_are_told_as_of_old():
    """A recipe says nothing: where a division meets a zero, the general way computes all again, and warns at the line."""
    with da.init(devices=2, kind="host", minimum_chunk=1) as c, compiled():
        c.workers.inline_bytes = 0
        count = []
        with counted(count):
            for zero in (False, False, True, False, True):
                host = np.arange(1.0, 1001)
                host[500] -= 501 * zero
                x = da.asarray(host)
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    y = (2 / x - x).evaluate()
                assert len(caught) == zero
                assert not zero or ("divide by zero" in str(caught[0].message) and caught[0].filename == __file__)
                with np.errstate(divide="ignore"):
                    np.testing.assert_array_equal(y.get(), 2 / host - host)
            with np.errstate(divide="ignore"):
                (2 / x - x).evaluate()
        assert len(count) == 3


def test_a_limit_of_memory_is_kept():
    """Under one every allocation is asked for, so that expressions go the general way."""
    with da.init(devices=2, kind="host", minimum_chunk=1, memory_limit=1 << 20) as c, compiled():
        c.workers.inline_bytes = 0
        x = da.asarray(np.ones(1000))
        count = []
        with counted(count):
            for _ in range(3):
                (x * 2 + x).evaluate()
        assert not count
