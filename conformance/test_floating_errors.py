"""Floating-point conditions: each recorded call treats them as ``np.errstate`` said at the call, however late it is
evaluated and with whatever else: the same exceptions at the same call, the same warnings, the same calls of a handler."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance import mpi
from conformance.checking import assert_same, on_gpu
from conformance.contexts import context, examples
from conformance.strategies import arrays, device_counts, pairs, shapes

pytestmark = pytest.mark.skipif(on_gpu(), reason="GPUs report no floating-point conditions")

CALLS: dict[str, tuple[Any, int]] = {
    "divide": (np.divide, 2), "multiply": (np.multiply, 2), "subtract": (np.subtract, 2), "floor_divide": (np.floor_divide, 2),
    "sqrt": (np.sqrt, 1), "log": (np.log, 1), "exp": (np.exp, 1), "reciprocal": (np.reciprocal, 1), "power": (np.power, 2),
    "square": (np.square, 1),
}  # fmt: skip
KINDS = ("divide", "over", "invalid")


def states() -> st.SearchStrategy[dict[str, str]]:
    """A call that raises tells of one condition and drops the others: which one depends on where it looks first, so that
    raising is not mixed with warning. Whether underflow is noticed depends on the processor's instructions."""
    mixtures = [["ignore", "raise"], ["ignore", "warn"], ["ignore", "warn", "call"]]
    return st.sampled_from(mixtures).flatmap(
        lambda hows: st.fixed_dictionaries({"under": st.just("ignore"), **dict.fromkeys(KINDS, st.sampled_from(hows))})
    )


def steps(number: int) -> st.SearchStrategy[tuple[str, list[int], dict[str, str]]]:
    """A call, its operands among the values that there are, and the error state that it is made in."""
    places = st.lists(st.integers(0, number - 1), min_size=2, max_size=2)
    return st.tuples(st.sampled_from(sorted(CALLS)), places, states())


def run(program: list[Any], values: list[Any]) -> tuple[list[Any], list[str], set[str], set[str]]:
    """All values, what was raised and where, the warnings, and what the handler was told."""
    values, raised, called = list(values), [], set()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name, places, state in program:
            function, number = CALLS[name]
            with np.errstate(call=lambda condition, _: called.add(condition), **state):
                try:
                    values.append(function(*[values[i] for i in places[:number]]))
                    raised.append("")
                except (FloatingPointError, ValueError) as error:  # ValueError: integers to negative powers
                    values.append(values[places[0]])
                    raised.append(str(error))
        for value in values:
            np.asarray(value)
    return values, raised, {str(each.message) for each in caught}, called


def everywhere(found: set[str]) -> set[str]:
    """Warnings come, and handlers are called, on the processes whose elements met the condition."""
    session = mpi.session()
    return found if session is None else set().union(*session.gather(found))


@examples(6)
@given(data=st.data(), n=device_counts)
def test_each_call_keeps_its_error_state(data, n):
    shape = data.draw(shapes(max_dims=2, max_size=40))
    dtypes = [np.dtype(data.draw(st.sampled_from(["float64", "float32", "int64"]))) for _ in range(2)]
    with context(n):
        both = [data.draw(pairs(data.draw(arrays(shape, dtype)), n, partial=False)) for dtype in dtypes]
        program = [data.draw(steps(2 + i)) for i in range(data.draw(st.integers(1, 5)))]
        theirs, np_raised, np_warned, np_called = run(program, [pair.ref for pair in both])
        ours, raised, warned, called = run(program, [pair.x for pair in both])
        for (name, _, _), mine, other in zip(program, raised, np_raised, strict=True):
            assert bool(mine) == bool(other), f"{name}: {mine!r}, NumPy {other!r}"
            assert mine.partition(" encountered ")[2] == other.partition(" encountered ")[2]
        assert everywhere(warned) == np_warned
        assert everywhere(called) == np_called
        for mine, other in zip(ours, theirs, strict=True):
            assert_same(mine, other, exact=False)
