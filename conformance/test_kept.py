"""Values that a program holds while others are computed from them: computed once, and with the bits, the warnings and the
messages of a program that keeps nothing."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import distarray as da
from conformance import mpi
from conformance.checking import assert_same, on_gpu
from conformance.contexts import context, examples
from conformance.ranks import SHARES, on_ranks
from conformance.strategies import arrays, device_counts, pairs, shapes
from distarray.fusion import blocks, kept
from distarray.fusion.kernels import direct, run

UNARY = ["negative", "exp", "sqrt", "log", "square"]
BINARY = ["add", "subtract", "multiply", "divide", "maximum"]
NEVER = 1 << 40


@contextmanager
def tuned(worth: int, register: int) -> Iterator[None]:
    """In the block values are kept from another price on, and computed in blocks of another size; on GPUs by kernels of more or
    fewer steps, whatever the size."""
    settings: list[tuple[Any, str, Any]] = [
        (kept, "WORTH", dict.fromkeys(kept.WORTH, worth)),
        (kept, "LEAST", dict.fromkeys(kept.LEAST, 0)),
        (blocks, "REGISTER_BYTES", register),
        (blocks, "REGISTERS", blocks._Registers()),
        (run, "LEAST", 0 if register < 1 << 18 else run.LEAST),
        (direct, "MOST", 0),
    ]
    before = [getattr(module, name) for module, name, _ in settings]
    for module, name, value in settings:
        setattr(module, name, value)
    try:
        yield
    finally:
        for (module, name, _), value in zip(settings, before, strict=True):
            setattr(module, name, value)


@st.composite
def programs(draw: st.DrawFn, start: int) -> list[tuple[Any, ...]]:
    """Calls on values that there are, which make more; demands and writes between them; names that end."""
    actions: list[tuple[Any, ...]] = []
    count = start
    for _ in range(draw(st.integers(3, 14))):
        turn = draw(st.sampled_from(["binary", "binary", "binary", "unary", "where", "cast", "demand", "write", "end"]))
        i, j, k = (draw(st.sampled_from(range(max(0, count - 5), count))) for _ in range(3))
        base = draw(st.integers(0, start - 1))
        if turn == "binary":
            actions.append((turn, draw(st.sampled_from(BINARY)), i, draw(st.sampled_from([j, j, 2.0, -1]))))
        elif turn == "unary":
            actions.append((turn, draw(st.sampled_from(UNARY)), i))
        elif turn in ("where", "cast"):
            actions.append((turn, i, j, k))
        else:
            actions.append((turn, i, base, draw(st.sampled_from(["=", "+=", "part", "value"]))))
        count += turn in ("binary", "unary", "where", "cast")
    return actions


def played(
    program: list[tuple[Any, ...]],
    values: list[Any],
    spare: list[Any] | None = None,
    scope: AbstractContextManager[Any] | None = None,
) -> tuple[list[Any], Counter[str]]:
    """All values in the end, and the warnings with how often each came. `spare` takes what the program no longer names; in
    `scope`, a ledger's, all that was recorded is computed before it closes."""
    values = list(values)
    with warnings.catch_warnings(record=True) as caught, scope or nullcontext():
        warnings.simplefilter("always")
        for step, (turn, *how) in enumerate(program):
            if turn == "binary":
                name, i, j = how
                values.append(getattr(np, name)(values[i], values[j] if type(j) is int and j >= 0 else j))
            elif turn == "unary":
                values.append(getattr(np, how[0])(values[how[1]]))
            elif turn == "where":
                values.append(np.where(values[how[0]] > values[how[1]], values[how[1]], values[how[2]]))
            elif turn == "cast":
                values.append(values[how[0]].astype("float32" if step % 2 else "float64"))
            elif turn == "demand":
                np.asarray(values[how[0]])
            elif turn == "end":
                if spare is not None:
                    spare.append(values[how[0]])
                values[how[0]] = values[how[1]]
            else:
                i, base, kind = how
                target = values[base]
                if not target.ndim or np.broadcast_shapes(values[i].shape, target.shape) != target.shape:
                    continue
                if kind == "=":
                    target[...] = values[i]
                elif kind == "+=":
                    values[base] += values[i]
                elif kind == "part" and values[i].ndim == target.ndim:
                    target[1:] = values[i][1:]
                else:
                    target[...] = values[i] * 2
        found = [np.asarray(value) for value in values]
    return found, Counter(str(each.message) for each in caught)


def counted(program: list[tuple[Any, ...]], values: list[Any]) -> tuple[list[Any], Counter[str], da.Ledger]:
    """`played` with a ledger open, which is returned too."""
    stack = ExitStack()
    log = stack.enter_context(da.ledger())
    return *played(program, values, scope=stack), log


def same_bits(a: Any, b: Any) -> None:
    assert a.dtype == b.dtype
    assert_same(a, b, local=True)


@examples(3)
@given(
    data=st.data(), n=device_counts, worth=st.sampled_from([1, 1, 2, 8]), register=st.sampled_from([32, 64, 1 << 18])
)
def test_deferred_equals_eager(data, n, worth, register):
    shape = data.draw(shapes(max_dims=2, max_size=60))
    dtypes = [np.dtype(data.draw(st.sampled_from(["float64", "float64", "float32"]))) for _ in range(2)]
    with context(n) as c:
        both = [data.draw(pairs(data.draw(arrays(shape, dtype)), n, partial=False)) for dtype in dtypes]
        both.append(data.draw(pairs(data.draw(arrays(shape[1:], dtypes[0])), n, partial=False)))
        program = data.draw(programs(2))
        program.insert(data.draw(st.integers(0, len(program))), ("binary", "multiply", 1, 0))
        layouts = [pair.x.layout for pair in both]

        def ours() -> list[Any]:
            return [da.asarray(pair.ref, layout=layout, copy=True) for pair, layout in zip(both, layouts, strict=True)]

        with np.errstate(under="ignore"):
            theirs, np_warned = played(program, [pair.ref.copy() for pair in both])
            with tuned(worth, register):
                deferred, warned, log = counted(program, ours())
            with tuned(NEVER, register):
                again, _, without = counted(program, ours())
            c.eager = True
            try:
                eager, expected = played(program, ours())
            finally:
                c.eager = False
        if mpi.session() is None:
            assert warned == expected
        assert set(expected) <= set(np_warned)
        assert (log.moves, log.rounds) == (without.moves, without.rounds)
        for a, b, e, ref in zip(deferred, again, eager, theirs, strict=True):
            same_bits(a, e)
            same_bits(a, b)
            assert_same(a, ref, exact=False, local=True)


@pytest.mark.skipif(on_gpu(), reason="simulated ranks have host devices")
@examples(2)
@given(data=st.data(), shares=st.sampled_from(SHARES))
def test_processes_may_hold_different_values(data, shares):
    shape = data.draw(shapes(min_dims=1, max_dims=2, max_size=60))
    hosts = [data.draw(arrays(shape, np.dtype("float64"), extreme=False)) for _ in range(2)]
    program = data.draw(programs(2))

    def on_rank() -> Any:
        c = da.current.current()
        spare: list[Any] | None = [] if c.process % 2 else None
        values = [da.asarray(hosts[0], layout=da.blocks(0)), da.asarray(hosts[1], layout=da.blocks(len(shape) - 1))]
        return played(program, values, spare)[0]

    with np.errstate(all="ignore"), tuned(1, 64):
        theirs, _ = played(program, [h.copy() for h in hosts])
        for found in on_ranks(shares, on_rank):
            for a, ref in zip(found, theirs, strict=True):
                assert_same(a, ref, exact=False, local=True)
