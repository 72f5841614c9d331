"""The short way of calls on whole arrays is the general way: the same values to the bit, dtypes, warnings at the same lines,
exceptions, and what stands in every array afterwards."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import distarray as da
from conformance.contexts import context, examples, whole
from conformance.ranks import SHARES, on_ranks
from conformance.strategies import arrays, axes, basic_indices, broadcastable, dtypes, scalars, shapes
from distarray.array.functions import FUNCTIONS as FUNCTIONS_OF_NUMPY
from distarray.array.functions import SHORT

BINARY = ["add", "subtract", "multiply", "divide", "floor_divide", "remainder", "power", "maximum", "fmin", "less", "equal",
          "logical_and", "bitwise_xor", "left_shift", "hypot", "arctan2", "copysign"]  # fmt: skip
UNARY = [
    "negative",
    "absolute",
    "exp",
    "log",
    "sqrt",
    "square",
    "reciprocal",
    "sin",
    "isnan",
    "invert",
    "sign",
    "conjugate",
]
FUNCTIONS = ["sum", "prod", "max", "min", "any", "all", "mean", "var", "std", "argmax", "cumsum", "ptp"]
STATES = st.sampled_from(["warn", "warn", "ignore", "raise", "call"])


def seen_by(program: Any, state: str, *hosts: Any, short: bool) -> Any:
    """What a program of one line gives in one of the two ways: values, dtypes, warnings, an exception, calls of a handler."""
    met: list[Any] = []
    scope = whole() if short else warnings.catch_warnings()
    with scope, context(1), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        xs = [da.asarray(h) if isinstance(h, np.ndarray) else h for h in hosts]
        outcome: Any
        with np.errstate(all=state, call=lambda text, flag: met.append(text)):  # type: ignore[call-overload]
            try:
                outcome = program(*xs)
                if isinstance(outcome, da.DistributedArray):
                    outcome.evaluate()
            except Exception as error:
                outcome = type(error), str(error)
        if isinstance(outcome, da.DistributedArray):
            outcome = (outcome.shape, outcome.dtype, outcome.get().tobytes(), outcome.writable)
        after = [x.get().tobytes() for x in xs if isinstance(x, da.DistributedArray)]
    said = sorted((w.category.__name__, str(w.message), w.lineno, w.filename) for w in caught)
    return outcome, after, said, met


def same(program: Any, state: str, *hosts: Any, converts: bool = False) -> None:
    """Both ways of a program agree. Where the result `converts` into ``out=``, conditions met there are the conversion's own in
    the general way and the operation's in NumPy's: they count without the name of what met them, and once."""
    short, long = (seen_by(program, state, *hosts, short=way) for way in (True, False))
    assert (_unnamed(short) if converts else short) == (_unnamed(long) if converts else long)


def _unnamed(seen: Any) -> Any:
    outcome, after, said, met = seen
    if outcome is not None and outcome[0] is FloatingPointError:
        outcome = (outcome[0], outcome[1].partition(" encountered in ")[0])
    return (
        outcome,
        after,
        {(kind, text.partition(" encountered in ")[0], *place) for kind, text, *place in said},
        set(met),
    )


@given(data=st.data(), state=STATES, name=st.sampled_from(BINARY))
@examples(3)
def test_operators(data: Any, state: str, name: str) -> None:
    shape, other = data.draw(broadcastable(2))
    a = data.draw(arrays(shape, data.draw(dtypes())))
    kind = data.draw(st.sampled_from(["array", "scalar", "itself", "host"]))
    f = getattr(np, name)
    if kind == "itself":
        same(lambda x: f(x, x), state, a)
        return
    b = data.draw(scalars(a.dtype)) if kind == "scalar" else data.draw(arrays(other, data.draw(dtypes())))
    if kind == "host":
        same(lambda x: f(x, b), state, a)
    else:
        same(lambda x, y: f(x, y), state, a, b)


@given(data=st.data(), state=STATES, name=st.sampled_from(UNARY))
@examples(2)
def test_functions_of_elements(data: Any, state: str, name: str) -> None:
    a = data.draw(arrays(data.draw(shapes(max_dims=3)), data.draw(dtypes())))
    key = data.draw(basic_indices(a.shape))
    f = getattr(np, name)
    same(lambda x: f(x[key]), state, a)


@given(data=st.data(), state=STATES, name=st.sampled_from(BINARY))
@examples(3)
def test_in_place(data: Any, state: str, name: str) -> None:
    """Into a view, from an array, a scalar or another view of the same one, with a copy and a recorded value beside it."""
    a = data.draw(arrays(data.draw(shapes(max_dims=3, min_dims=1)), data.draw(dtypes())))
    key = data.draw(basic_indices(a.shape))
    key = (*key, ...) if isinstance(key, tuple) and Ellipsis not in key else key
    f = getattr(np, name)
    kind = data.draw(st.sampled_from(["array", "scalar", "overlap"]))
    b = data.draw(scalars(a.dtype)) if kind == "scalar" else data.draw(arrays(a[key].shape, data.draw(dtypes())))

    def program(x: Any, y: Any) -> Any:
        held, copied = x + 0 if x.dtype.kind != "b" else x | False, x.copy()
        target = x[key]
        try:
            f(target, target[::-1] if kind == "overlap" and target.ndim else y, out=target)
        finally:
            assert held.get().tobytes() == copied.get().tobytes()
        return target

    same(program, state, a, b, converts=True)


@given(data=st.data(), state=STATES)
@examples(3)
def test_assignments(data: Any, state: str) -> None:
    a = data.draw(arrays(data.draw(shapes(max_dims=3)), data.draw(dtypes())))
    key = data.draw(basic_indices(a.shape))
    kind = data.draw(st.sampled_from(["array", "scalar", "host"]))
    if kind == "scalar":
        b = data.draw(scalars(data.draw(dtypes())))
    else:
        b = data.draw(arrays(data.draw(st.sampled_from([np.shape(a[key]), (1,), (), (2, 3)])), data.draw(dtypes())))
    if kind == "host":
        same(lambda x: x.__setitem__(key, b), state, a)
    else:
        same(lambda x, y: x.__setitem__(key, y), state, a, b)


@given(data=st.data(), state=STATES, name=st.sampled_from(FUNCTIONS))
@examples(2)
def test_reductions(data: Any, state: str, name: str) -> None:
    a = data.draw(arrays(data.draw(shapes(max_dims=3, min_dims=1)), data.draw(dtypes())))
    axis = data.draw(st.none() | axes(a.ndim))
    same(lambda x: getattr(np, name)(x, axis=axis), state, a)


LISTED: dict[str, Any] = {
    "append": lambda x, i, n: np.append(x, n),
    "argwhere": lambda x, i, n: np.argwhere(x),
    "bincount": lambda x, i, n: np.bincount(i),
    "column_stack": lambda x, i, n: np.column_stack([x, x]),
    "count_nonzero": lambda x, i, n: np.count_nonzero(x),
    "count_nonzero along": lambda x, i, n: np.count_nonzero(x, axis=-1, keepdims=True),
    "delete": lambda x, i, n: np.delete(x, n),
    "diag": lambda x, i, n: np.diag(x),
    "dstack": lambda x, i, n: np.dstack((x, x)),
    "flatnonzero": lambda x, i, n: np.flatnonzero(x),
    "flatten": lambda x, i, n: x[::-1].flatten() if x.ndim else x.flatten(),
    "insert": lambda x, i, n: np.insert(x, n, 3.5),
    "nonzero": lambda x, i, n: np.stack(np.nonzero(x)),
    "positions": lambda x, i, n: x[[n, 0]],
    "positions of NumPy's": lambda x, i, n: x[np.array([[0, n], [-1, 0]])],
    "mask of Python's": lambda x, i, n: x[[k % 2 == 0 for k in range(len(x))]],
    "ravel": lambda x, i, n: np.ravel(x[..., ::2] if x.ndim else x),
    "repeat": lambda x, i, n: np.repeat(x, n),
    "repeat along": lambda x, i, n: x.repeat(n, axis=0),
    "roll": lambda x, i, n: np.roll(x, n, axis=-1),
    "searchsorted": lambda x, i, n: np.searchsorted(np.sort(i), x, side="right"),
    "searchsorted one": lambda x, i, n: np.searchsorted(np.sort(i), n),
    "take": lambda x, i, n: np.take(x, i),
    "take along": lambda x, i, n: x.take(i, axis=-1, mode="wrap"),
    "take one": lambda x, i, n: np.take(x, n, axis=0),
    "tile": lambda x, i, n: np.tile(x, n),
    "where": lambda x, i, n: np.stack(np.where(x)),
    "write positions": lambda x, i, n: x.__setitem__([0, n], 1),
}  # fmt: skip


@pytest.mark.parametrize("name", LISTED)
@given(data=st.data(), state=STATES)
@examples(1)
def test_functions_of_the_table(name: str, data: Any, state: str) -> None:
    a = data.draw(arrays(data.draw(shapes(max_dims=2)), data.draw(dtypes())))
    i = data.draw(arrays((data.draw(st.integers(0, 6)),), np.dtype(np.int64))) % 5
    n = data.draw(st.integers(0, 4))
    same(lambda x, i: LISTED[name](x, i, n), state, a, i)


def test_the_functions_of_the_table_are_numpys() -> None:
    """And of the table, not of the general way, where nothing is counted; where it is, the ledger says the same as before."""
    x, i = np.linspace(-1, 1, 12).reshape(3, 4), np.array([3, 0, 2])
    with whole(), context(2):
        for name, program in LISTED.items():
            host = x[0] if name in ("diag", "insert") else x
            wanted, given = program(host.copy(), i, 2), program(da.asarray(host), da.asarray(i), 2)
            if wanted is not None:
                assert given.get().tobytes() == wanted.tobytes() and given.dtype == wanted.dtype, name
        with da.ledger() as log:
            np.take(da.asarray(x), da.asarray(i))
        assert log.bytes_to_host == i.nbytes


@given(data=st.data(), state=STATES)
def test_arrays_of_the_host_take_whole_arrays(data: Any, state: str) -> None:
    """``host[...] = x``, for which NumPy asks the array for its values in the host array's dtype."""
    a = data.draw(arrays(data.draw(shapes(max_dims=2)), data.draw(dtypes())))
    dtype = data.draw(st.sampled_from([a.dtype, np.dtype(np.float64), np.dtype(np.complex128)]))

    def program(x: Any) -> Any:
        host = np.zeros(x.shape, dtype)
        host[...] = x
        return host.tobytes(), np.asarray(x).tobytes()

    same(program, state, a)


@given(data=st.data())
def test_elements_go_to_python(data: Any) -> None:
    a = data.draw(arrays(data.draw(shapes(max_dims=2, min_dims=1)), data.draw(dtypes())))
    if a.size:
        index = tuple(data.draw(st.integers(0, n - 1)) for n in a.shape)
        for to in (bool, float, int, complex):
            same(lambda x: repr((to(x[index]), x[index].item())), "ignore", a)  # noqa: B023 - NaN is not itself


def test_what_a_result_shares_is_copied_on_write() -> None:
    with whole(), context(3):
        x = da.asarray(np.arange(6.0))
        y = x + 1
        z = y.copy()
        view = y[1:4]
        view += 10
        assert (z.get() == np.arange(6.0) + 1).all()
        assert (y.get()[1:4] == np.arange(2.0, 5.0) + 10).all()
        total = y.sum()
        kept = total
        total += 1
        assert float(kept) == float(total) - 1
        kept[...] = 3
        assert float(kept) == 3
        assert float(kept + 1) == 4


def test_exposed_memory_is_written_through() -> None:
    with whole(), context(2):
        x = da.asarray(np.arange(4.0))
        (chunk,) = next(own for own in x.all_chunks().values() if own)
        x[1:] += 1
        x[0] = 7
        assert chunk.tolist() == [7, 2, 3, 4]
        chunk[...] = 5
        assert (x + 1).get().tolist() == [6] * 4


def test_read_only_copies_refuse() -> None:
    with whole(), context(2):
        x = da.broadcast_to(da.asarray(np.arange(4.0)), (3, 4))
        for write in (lambda: x.__setitem__((0, 0), 1), lambda: x.__iadd__(1), lambda: np.add(x, 1, out=x)):
            with pytest.raises(da.errors.ReadOnlyError):
                write()


def test_layouts_that_are_named_are_obeyed() -> None:
    with whole(), context(4):
        x = da.asarray(np.arange(8.0), layout=da.blocks(0))
        assert [region.size for _, region in x.layout.chunks] == [2, 2, 2, 2]
        y = da.asarray(np.arange(8.0))
        assert [region.size for _, region in y.layout.chunks] == [8] * da.process_count()  # one copy each
        assert x.device == y.device == (y + 1).device == y.sum().device
        assert ((x + y).get() == np.arange(8.0) * 2).all()
        assert (x + y).layout == x.layout
        large = da.zeros(3 << 16)
        assert [region.size for _, region in large.layout.chunks] == [1 << 16] * 3


@pytest.mark.parametrize("shares", SHARES)
def test_small_work_sends_no_messages(shares: tuple[int, ...]) -> None:
    def program() -> Any:
        x = da.asarray(np.arange(12.0).reshape(3, 4))
        with da.ledger() as log, da.no_implicit_communication():
            y = (x + 1)[1:, ::2] * 2
            y[0, 0] -= float(y.sum()) / 8
            y[:, 1] = y[:, 0]
            value = (y @ y.T).get().tolist(), float(np.linalg.norm(y)), bool(y.max() > 3)
        assert log.messages == log.rounds == 0
        return value

    first, *others = on_ranks(shares, program, minimum_chunk=1 << 16)
    assert all(other == first for other in others)


def test_every_function_of_the_table_is_implemented() -> None:
    assert all(function in FUNCTIONS_OF_NUMPY for function in SHORT)
