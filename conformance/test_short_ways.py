"""The short ways of small work on cut arrays (expressions, writes, moves, products, sums) are the general ways: the same values to
the bit, dtypes, layouts, warnings at the same lines, exceptions, and what stands in every array afterwards.

To the bit where NumPy's own results are: its loops for complex products and absolute values, and on some processors for
powers, logarithms and angles, round by how the operands lie in memory, which is where the two ways differ. Those are compared
within a few parts in a thousand.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import distarray as da
from conformance.contexts import context, examples
from conformance.ranks import SHARES, on_ranks
from conformance.strategies import arrays, basic_indices, device_counts, dtypes, layouts, scalars
from distarray.algorithms import again, product, reduction, small_folds
from distarray.array import elements
from distarray.fusion import demand, write
from distarray.transfer import execute, to_host

UNARY = ["negative", "sqrt", "reciprocal", "exp", "absolute", "log"]
BINARY = ["add", "subtract", "multiply", "divide", "maximum", "power", "floor_divide", "less", "arctan2"]
ROUNDED = frozenset({"exp", "log", "power", "arctan2"})
"""What NumPy need not round alike in memory that lies otherwise; of complex numbers that is everything but sums."""
STATES = st.sampled_from(["warn", "warn", "ignore", "raise"])
SHORT: list[tuple[Any, str, Any]] = [
    (demand, "evaluate_alike", None), (demand, "evaluate_assembled", None), (write, "write_assembled", (False, None)),
    (execute, "_together", None), (to_host, "folded_number", None), (product, "_is_light", False),
    (reduction, "_folded_at_once", False), (again, "folded_number", None), (small_folds, "folded_number", None),
    (small_folds, "fold_again", None), (elements, "_dealt", False),
]  # fmt: skip
"""Where short ways begin, and what they say where they do not serve."""


@contextmanager
def general() -> Iterator[None]:
    """In the block, no short way serves."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name, answer in SHORT:
            patch.setattr(module, name, lambda *args, answer=answer: answer)
        yield


def outcome(program: Callable[..., Any], n: int, state: str, hosts: Any, where: Any) -> Any:
    """All that a program of arrays shows."""
    with context(n), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        xs = [da.asarray(host, layout=layout) for host, layout in zip(hosts, where, strict=True)]
        found: Any
        with np.errstate(all=state):  # type: ignore[call-overload]
            try:
                value = program(*xs)
                found = (value.dtype, value.get(), str(_filled(value.layout)))
            except (TypeError, ValueError, OverflowError, FloatingPointError, IndexError) as error:
                found = type(error), str(error)
        after = [x.get() for x in xs]
    return found, after, sorted((str(w.message), w.lineno, w.filename) for w in caught)


def _filled(layout: Any) -> list[Any]:
    """The chunks that hold something, of a REPLICA layout: the mode of what the short way folds may be another."""
    return [chunk for chunk in layout.chunks if chunk[1].size and layout.mode is da.Mode.REPLICA]


def same(
    program: Callable[..., Any], n: int, state: str, hosts: Any, where: Any, rounded: bool = False, placed: bool = True
) -> None:
    """Both ways of a program agree; `rounded` says that NumPy may round its results by how they lie in memory, `placed` that
    both put the result in one place."""
    rounded = rounded or any(host.dtype.kind == "c" for host in hosts)
    found, after, told = outcome(program, n, state, hosts, where)
    with general():
        other, stands, said = outcome(program, n, state, hosts, where)
    assert told == said
    assert len(found) == len(other) and found[0] == other[0]
    if len(found) == 3:
        assert found[2] == other[2] or not placed
        equal(found[1], other[1], rounded)
    else:
        assert found == other
    for one, two in zip(after, stands, strict=True):
        equal(one, two, rounded)


def equal(one: Any, other: Any, rounded: bool) -> None:
    if not rounded or one.dtype.kind not in "fc":
        assert one.tobytes() == other.tobytes()
        return
    known = np.abs(one[np.isfinite(one)]).astype(float)
    np.testing.assert_allclose(one, other, rtol=4e-3, atol=4e-3 * float(known.max(initial=0)))


def _calls(data: Any, dtype: Any) -> list[Any]:
    """A chain of ufunc calls: names, the numbers of earlier values, and scalars."""
    number = st.integers(0, 6)
    kinds = st.one_of(
        st.tuples(st.just("unary"), st.sampled_from(UNARY), number),
        st.tuples(st.just("binary"), st.sampled_from(BINARY), number, number),
        st.tuples(st.just("scalar"), st.sampled_from(BINARY), number, scalars(dtype)),
        st.tuples(st.just("where"), st.just(""), number, number),
    )
    return data.draw(st.lists(kinds, min_size=1, max_size=4))  # type: ignore[no-any-return]


def _value(values: list[Any], calls: list[Any]) -> Any:
    for kind, name, i, *more in calls:
        a = values[i % len(values)]
        if kind == "unary":
            values.append(getattr(np, name)(a))
        elif kind == "scalar":
            values.append(getattr(np, name)(a, more[0]))
        else:
            b = values[more[0] % len(values)]
            values.append(np.where(a > 0, a, b) if kind == "where" else getattr(np, name)(a, b))
    return values[-1]


@given(data=st.data(), state=STATES, n=device_counts)
@examples(2)
def test_expressions(data: Any, state: str, n: int) -> None:
    shape = (data.draw(st.integers(1, 9)), data.draw(st.integers(1, 5)))
    hosts = [data.draw(arrays(shape, data.draw(dtypes()))) for _ in range(2)]
    layout = data.draw(layouts(shape, n))
    where = [layout, layout if data.draw(st.booleans()) else data.draw(layouts(shape, n))]
    keys = data.draw(st.lists(basic_indices(shape), max_size=2))
    calls = _calls(data, hosts[0].dtype)

    def program(x: Any, y: Any) -> Any:
        return _value([x, y, *[x[key] for key in keys], y[:, 0]], calls)

    same(program, n, state, hosts, where, any(name in ROUNDED for _, name, *_ in calls))


@given(data=st.data(), state=STATES, n=device_counts)
@examples(2)
def test_writes(data: Any, state: str, n: int) -> None:
    shape = (data.draw(st.integers(1, 9)), data.draw(st.integers(1, 5)))
    hosts = [data.draw(arrays(shape, data.draw(dtypes()))) for _ in range(2)]
    if hosts[0].dtype.kind in "iu" and hosts[1].dtype.kind in "fc":  # what has no room in an integer becomes anything
        small = (hosts[1].real >= 0) & (hosts[1].real < 50)
        hosts[1] = np.where(small, hosts[1], 1).astype(hosts[1].dtype)
    where = [data.draw(layouts(shape, n)) for _ in range(2)]
    key, other = data.draw(basic_indices(shape)), data.draw(basic_indices(shape))
    how = data.draw(st.sampled_from(["set", "add", "scalar", "itself"]))
    number = data.draw(scalars(hosts[0].dtype))

    def program(x: Any, y: Any) -> Any:
        before = x + 1
        if how == "set":
            x[key] = y[other]
        elif how == "add":
            x[key] += y[other] * 2
        elif how == "scalar":
            x[key] = number
        else:
            x[key] = x[other]
        return before

    same(program, n, state, hosts, where)


@given(data=st.data(), state=STATES, n=device_counts)
@examples(2)
def test_products_and_folds(data: Any, state: str, n: int) -> None:
    m, k = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9))
    dtype = data.draw(dtypes())
    hosts = [
        data.draw(arrays((m, k), dtype)),
        data.draw(arrays((k,), dtype)),
        data.draw(arrays((k,), data.draw(dtypes()))),
    ]
    where = [data.draw(layouts(host.shape, n)) for host in hosts]
    programs: dict[str, Callable[..., Any]] = {
        "a @ v": lambda a, v, w: a @ v,
        "v @ w": lambda a, v, w: v @ w,
        "a.T @ a": lambda a, v, w: a.T @ a,
        "v / norm(v)": lambda a, v, w: v / np.sqrt(np.vdot(v, v)),
        "sum": lambda a, v, w: v.sum() * w,
        "max": lambda a, v, w: a.max(axis=0),
        "prod": lambda a, v, w: a.prod(axis=1),
        "mean": lambda a, v, w: a.mean(),
        "outer": lambda a, v, w: np.outer(v, w),
        "reshard": lambda a, v, w: a.reshard(da.blocks(1)).copy(),
    }
    name = data.draw(st.sampled_from(sorted(programs)))
    # a number that is folded on the way goes to all devices, or where the other operand has an empty chunk only to its devices
    same(programs[name], n, state, hosts, where, placed=name not in ("sum", "v / norm(v)"))


@pytest.mark.parametrize("share", SHARES[:3])
def test_numbers_between_processes(share: Any) -> None:
    def program() -> list[bytes]:
        rng = np.random.default_rng(5)
        found = []
        for dtype in ("float64", "float16", "int32", "complex64", "bool"):
            host = (9 * rng.random(17) - 4).astype(dtype)
            for layout in (da.blocks(0), da.cyclic(0), {0: slice(0, 17)}, da.replicated()):
                x = da.asarray(host, layout=layout)
                for value in (x.sum(), x.prod(), x.max(), x @ x, x.any(), x * x.sum()):
                    found.append(value.get().tobytes())
        return found

    def run() -> Any:
        return on_ranks(share, program)

    short = run()
    with general():
        assert short == run()
