"""The functions of the package on several processes: the same program on simulated ranks, against NumPy."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import distarray as da
from conformance.checking import assert_same
from conformance.contexts import examples, kind
from conformance.ranks import SHARES, on_ranks
from conformance.strategies import layouts

H = np.arange(1.0, 49.0).reshape(8, 6) / 7
V = np.arange(6.0)
POSITIONS = np.array([5, 0, 7, 7, -1])

UNARY = {
    "chain": lambda x: np.sqrt(x * 2 + 1) - x / 3,
    "stencil": lambda x: x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * x[1:-1, 1:-1],
    "transposed sum": lambda x: x.T[:, ::-1] + 1,
    "broadcast": lambda x: x - x[:, :1] + x[3],
    "divmod": lambda x: np.divmod(x, 2)[1],
    "outer": lambda x: np.add.outer(x[0], x[:, 1]),
    "where": lambda x: np.where(x > 3, x, -x),
    "sum": lambda x: np.sum(x),
    "sum0": lambda x: np.sum(x, axis=0) * 2,
    "sum1": lambda x: np.sum(x, axis=1, keepdims=True),
    "mean": lambda x: np.mean(x, axis=0),
    "var": lambda x: np.var(x, axis=(0, 1)),
    "max": lambda x: np.max(x, axis=-1),
    "any": lambda x: np.any(x > 6, axis=0),
    "argmax": lambda x: np.argmax(x % 3, axis=0),
    "argmin": lambda x: np.argmin(-x),
    "sum of axes": lambda x: np.sum(x.reshape(2, 4, 6), axis=(0, 2), where=V > 1, initial=2),
    "prod": lambda x: np.prod(x, axis=1, initial=0.5),
    "std": lambda x: np.std(x, axis=1, ddof=1, where=x > 0.3),
    "min": lambda x: np.min(x, initial=5, where=x > 1, axis=0),
    "ptp": lambda x: np.ptp(x, axis=1),
    "fmax.reduce": lambda x: np.fmax.reduce(x, axis=0),
    "bitwise_or.reduce": lambda x: np.bitwise_or.reduce(x.astype(int), axis=None),
    "subtract.reduce": lambda x: np.subtract.reduce(x, axis=0),
    "masked reduce": lambda x: np.subtract.reduce(x, axis=1, initial=1, where=x < 4),
    "logaddexp.reduce": lambda x: np.logaddexp.reduce(x, axis=(0, 1)),
    "cumsum": lambda x: np.cumsum(x, axis=0),
    "flat cumsum": lambda x: np.cumsum(x.T),
    "cumulative_sum": lambda x: np.cumulative_sum(x, axis=0, include_initial=True),
    "multiply.accumulate": lambda x: np.multiply.accumulate(x[:, :4], axis=1),
    "maximum.accumulate": lambda x: np.maximum.accumulate(x % 2, axis=0),
    "divide.accumulate": lambda x: np.divide.accumulate(x[1:], axis=0),
    "subtract.reduceat": lambda x: np.subtract.reduceat(x, [2, 0, 5], axis=1),
    "reduceat": lambda x: np.add.reduceat(x, [0, 3, 2, 7], axis=0),
    "count_nonzero": lambda x: np.count_nonzero(x > 3),
    "nonzero": lambda x: np.nonzero(x > 3)[1],
    "argwhere": lambda x: np.argwhere(x % 2 > 1),
    "flatnonzero": lambda x: np.flatnonzero(x.T > 5),
    "matmul": lambda x: x @ x.T,
    "gram": lambda x: x.T @ x,
    "matvec": lambda x: x @ x[2],
    "tensordot": lambda x: np.tensordot(x, x, axes=([0], [0])),
    "concatenate": lambda x: np.concatenate([x, x[::2], x * 2]),
    "stack": lambda x: np.stack([x, x + 1], axis=1),
    "reshape": lambda x: np.reshape(x, (4, 12)) + 1,
    "ravel": lambda x: np.ravel(x.T) * 2,
    "roll": lambda x: np.roll(x, 3, axis=0),
    "tile": lambda x: np.tile(x, (2, 1)),
    "repeat": lambda x: np.repeat(x, 2, axis=0),
    "pad": lambda x: np.pad(x, 1),
    "flip": lambda x: np.flip(x, 0) + x,
    "mask": lambda x: x[x > 3],
    "row mask": lambda x: x[x[:, 0] > 3],
    "take": lambda x: np.take(x, POSITIONS, axis=0),
    "ints": lambda x: x[POSITIONS, [0, 1, 2, 3, 5]],
    "column ints": lambda x: x[:, [5, 0, 0]],
    "column mask": lambda x: x[:, x[3] > 3],
    "column mask of the host": lambda x: x[::-1, V > 2],
    "host mask": lambda x: x[H % 1 > 0.4],
    "host row mask": lambda x: x.T[V % 2 > 0],
    "mask and int": lambda x: x[x[:, 0] > 3, 1],
    "mask of nothing": lambda x: x[x < 0],
    "distributed ints": lambda x: x[np.argmax(x % 3, axis=0), ::-1],
    "nested ints": lambda x: x[POSITIONS][:, [0, 2]].T[[[1, 0], [0, 1]], [[3], [4]]],
    "split ints": lambda x: x.reshape(2, 4, 6)[[0, 1, 1], :, [[5], [0]]],
    "ints of a replica": lambda x: (x[:2] * 1)[:, [0, 3]],
    "take wrapped": lambda x: x.take([[50, -1], [3, 3]], mode="wrap"),
    "compress": lambda x: np.compress([True, False, True], x, axis=1),
    "flat compress": lambda x: np.compress((x[:, 1] > 2), x),
    "extract": lambda x: np.extract(x.T % 1 > 0.5, x.T),
    "take_along rows": lambda x: np.take_along_axis(x, np.asarray(x[:3] * 0).astype(int) + [[1], [7], [-1]], axis=0),
    "take_along distributed": lambda x: np.take_along_axis(x, (x[:3] * 0).astype(int) - 2, axis=0),
    "take_along_axis": lambda x: np.take_along_axis(x, np.argmax(x, axis=1, keepdims=True), axis=1),
    "astype": lambda x: x.astype(np.int32),
    "clip": lambda x: np.clip(x, 2, 4),
    "round": lambda x: np.round(x, 1),
    "zeros_like": lambda x: np.zeros_like(x) + np.ones_like(x) * 3,
    "tril": lambda x: np.tril(x),
    "allclose": lambda x: np.asarray(np.allclose(x, x + 1e-12)),
    "norm": lambda x: np.linalg.norm(x),
    "python": lambda x: x * float(x[3, 3]),
}


def add_at(x):
    np.add.at(x, (POSITIONS, [0, 1, 2, 2, 5]), 2)


def multiply_at(x):
    np.multiply.at(x[::-1], (x[:, 2] > 3, slice(1, None, 2)), x[0, :3])


WRITES = {
    "scalar": lambda x: x.__setitem__(slice(1, 5), 9),
    "shift": lambda x: x.__setitem__(slice(1, None), x[:-1]),
    "in place": lambda x: x.__iadd__(V),
    "strided": lambda x: x[::2].__imul__(3),
    "mask": lambda x: x.__setitem__(x < 3, 0),
    "mask values": lambda x: x.__setitem__(x > 6, -x[x > 6]),
    "ints": lambda x: x.__setitem__([1, 1, 6], np.arange(18.0).reshape(3, 6)),
    "out": lambda x: np.multiply(x[1:], x[:-1], out=x[1:]),
    "column ints": lambda x: x.__setitem__((slice(None), [4, 0, 4]), np.arange(24.0).reshape(8, 3)),
    "ints of others": lambda x: x.__setitem__([0, 7, 3], x[[3, 0, 7]]),
    "ints of views": lambda x: x[::-1].__setitem__(([1, 5, 1], slice(None, None, -1)), x[2:5]),
    "row mask": lambda x: x.__setitem__(x[:, 0] > 3, x[0]),
    "row mask values": lambda x: x.__setitem__(x[:, 0] > 3, x[x[:, 0] > 3] * 2),
    "host mask values": lambda x: x.__setitem__(H > 5, np.arange(np.count_nonzero(H > 5))),
    "mask and int": lambda x: x.__setitem__((x[:, 0] > 3, 1), -x[x[:, 0] > 3, 2]),
    "put": lambda x: np.put(x, [5, -3, 5, 20], x[:2, 1]),
    "place": lambda x: np.place(x, x % 1 > 0.5, [1, 2, 3]),
    "place others": lambda x: np.place(x, x % 1 > 0.5, x[2] + 0),
    "putmask": lambda x: np.putmask(x, x > 2, x[1] + 0),
    "putmask alike": lambda x: np.putmask(x.T, x.T > 2, -x.T),
    "at": add_at,
    "at with values": lambda x: np.subtract.at(x, [[3, 3], [-1, 0]], x[4:6].reshape(2, 1, 6)),
    "at with a mask": multiply_at,
    "at with one": lambda x: np.negative.at(x, (2, [1, 1, 5])),
    "at with basic": lambda x: np.add.at(x, (slice(None, None, 2), 1), x[0, 1]),
    "fill": lambda x: x[2:4].fill(4),
}


@pytest.mark.parametrize("name", UNARY)
@examples(0.1)
@given(data=st.data())
def test_results(name, data):
    shares = data.draw(st.sampled_from(SHARES))
    layout = data.draw(layouts(H.shape, sum(shares)))
    f = UNARY[name]

    def program():
        return np.asarray(f(da.asarray(H, layout=layout)))

    for got in on_ranks(shares, program):
        assert_same(got, f(H), exact=False, ulps=64, scale=float(np.abs(H).sum() ** 2), local=True)


@pytest.mark.parametrize("name", WRITES)
@examples(0.1)
@given(data=st.data())
def test_writes(name, data):
    shares = data.draw(st.sampled_from(SHARES))
    layout = data.draw(layouts(H.shape, sum(shares)))
    expected = H.copy()
    WRITES[name](expected)

    def program():
        x = da.asarray(H, layout=layout)
        before = x + 0
        WRITES[name](x)
        return x.get(), before.get()

    for after, before in on_ranks(shares, program):
        assert_same(after, expected, local=True)
        assert_same(before, H, local=True)


@examples(0.5)
@given(data=st.data(), first=st.sampled_from([*da.Mode]), second=st.sampled_from([*da.Mode]))
def test_modes_and_resharding(data, first, second):
    shares = data.draw(st.sampled_from(SHARES))
    a, b = (data.draw(layouts(H.shape, sum(shares))) for _ in range(2))

    def program():
        x = da.distributed_array(H, a, first)
        y = x.change_mode(second).reshard(b)
        return y.get(), (y + x).get(), repr(x)

    for value, total, text in on_ranks(shares, program):
        assert_same(value, H, local=True)
        assert_same(total, H + H, local=True)
        assert text.startswith("DistributedArray([[")


N = np.arange(48).reshape(8, 6) - 40  # negative in the first rows alone

REFUSED = {
    "power": lambda x: x**x,
    "in place": lambda x: operator.ipow(x, x * 1),
    "in place, pending": lambda x: operator.ipow(x + 0, x * 1),
    "out": lambda x: np.power(x, x, out=da.zeros(x.shape, layout=da.blocks(0))),
    "out and where": lambda x: np.power(x, x, out=da.zeros(x.shape, layout=da.blocks(0)), where=x < 3),
    "accumulate": lambda x: np.power.accumulate(np.flip(x, 0)[:, ::-1] % 7 + 2 * (x < -34), axis=1) + x ** (x * 1),
    "divmod": lambda x: raising(np.divmod, x, np.maximum(x, 0)),
    "sum": lambda x: raising(np.sum, np.where(x < -34, 1.7e308, 1.0), axis=1),
    "quotient": lambda x: raising(np.true_divide, x, np.maximum(x, 0)),
    "cast": lambda x: raising(lambda: np.where(x < -34, 1e300, 1.0).astype("f4").evaluate()),
    "assigned": lambda x: raising(x.astype("f4").__setitem__, slice(None), np.where(x < -34, 1e300, 1.0)),
    "put": lambda x: raising(np.put, x.astype("f4"), np.arange(6), np.where(x < -34, 1e300, 1.0)[0]),
    "index": lambda x: raising(x.astype("f4").__setitem__, [0, 1], np.where(x < -34, 1e300, 1.0)[:2]),
    "mask": lambda x: raising(x.astype("f4").__setitem__, x < -30, 1e300),
    "fold": lambda x: raising(lambda: da.distributed_array(
        np.where(N < -34, 1.7e308, 1.0), da.blocks(0).resolve(N.shape, range(len(x.devices))), "sum") * 2),
    "power.accumulate": lambda x: np.power.accumulate(np.where(x < -34, -1, 2), axis=0)[0] ** (x[1] * 0 - 1),
    "power.reduce": lambda x: np.power.reduce(x[::-1], axis=0),
}  # fmt: skip
"""What NumPy refuses for the values of the first rows alone, which one rank holds."""

CONDITIONS = {"divmod", "sum", "quotient", "cast", "assigned", "put", "index", "mask", "fold"}
"""Of those, what is a floating-point condition."""


WARNED = {
    "quotient": lambda x: 1.0 / np.maximum(x, 0),
    "written": lambda x: operator.itruediv(x * 1.0, np.maximum(x, 0)),
    "cast": lambda x: (np.where(x < -34, np.nan, 1.0)).astype(int).evaluate(),
    "assigned": lambda x: (x * 1).__setitem__(slice(None), np.where(x < -34, np.nan, 1.0)),
    "divmod": lambda x: np.divmod(x * 1.0, np.maximum(x, 0)),
    "sum": lambda x: np.sum(np.where(x < -34, 1.7e308, 1.0), axis=1),
    "cumsum": lambda x: np.cumsum(np.where(x < -28, 1.7e308, 1.0), axis=0),
}  # fmt: skip
"""What NumPy warns of for the values of the first rows alone."""


def outcome(function, *errors):
    """What a call raises on this rank, which it must; GPUs record no floating-point conditions, and may give a result."""
    try:
        function()
    except errors as error:
        return f"{type(error).__name__}: {error}"
    if kind() == "host" or ValueError in errors:
        pytest.fail(f"raised none of {errors}")
    return "nothing"


@pytest.mark.parametrize("name", WARNED)
def test_warnings_that_are_errors_are_everyones(name):
    def program():
        x = da.asarray(N, layout=da.blocks(0))
        said = outcome(lambda: np.asarray(WARNED[name](x)), RuntimeWarning)
        assert_same((x[1:] + x[:-1]).get(), N[1:] + N[:-1], local=True)
        return said

    for shares in SHARES:
        assert len(set(on_ranks(shares, program))) == 1


def raising(function, *args, **kwargs):
    with np.errstate(all="raise"):
        return function(*args, **kwargs)


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_data_of_one_rank_make_fail_fails_on_all_and_they_go_on(name):
    def program():
        x = da.asarray(N, layout=da.blocks(0))
        said = outcome(lambda: REFUSED[name](x), FloatingPointError if name in CONDITIONS else ValueError)
        assert_same((x[1:] + x[:-1]).get(), N[1:] + N[:-1], local=True)
        return said

    for shares in SHARES:
        assert len(set(on_ranks(shares, program))) == 1


OWN = [(slice(0, 2), [1.0, 2.0])]


def chunks(mistaken, *args, right=OWN, **kwargs):
    """A call of `from_local_chunks` that is wrong where `mistaken`, on one rank."""
    return da.from_local_chunks(*args, **kwargs) if mistaken else da.from_local_chunks(right)


def unreadable():
    yield OWN[0]
    raise KeyError("no such chunk")


LOCAL_MISTAKES = {
    "no slice": (da.IndexMapError, lambda bad: chunks(bad, [("rows", [1.0, 2.0])])),
    "an int": (da.IndexMapError, lambda bad: chunks(bad, [(3, [1.0, 2.0])])),
    "a bound that is no integer": (da.IndexMapError, lambda bad: chunks(bad, [(slice(0.0, 2), [1.0, 2.0])])),
    "a step of 0": (da.IndexMapError, lambda bad: chunks(bad, [(slice(0, 2, 0), [1.0, 2.0])])),
    "too many axes": (da.IndexMapError, lambda bad: chunks(bad, [((slice(0, 2),) * 2, [1.0, 2.0])])),
    "no array": (TypeError, lambda bad: chunks(bad, [(slice(0, 2), object())])),
    "ragged": (ValueError, lambda bad: chunks(bad, [(slice(0, 2), [[1.0], [1.0, 2.0]])])),
    "strings": (TypeError, lambda bad: chunks(bad, [(slice(0, 2), ["a", "b"])])),
    "no pairs": (TypeError, lambda bad: chunks(bad, [1, 2])),
    "no chunks": (TypeError, lambda bad: chunks(bad, None)),
    "an iterator that fails": (KeyError, lambda bad: chunks(bad, unreadable())),
    "an unknown mode": (ValueError, lambda bad: chunks(bad, OWN, mode="mean")),
    "no shape": (TypeError, lambda bad: chunks(bad, OWN, (2.5,))),
    "a negative shape": (ValueError, lambda bad: chunks(bad, OWN, (-2,))),
    "a root that is no integer": (TypeError, lambda bad: da.asarray(H, root=0.0 if bad else 0)),
    "a root that is no process": (ValueError, lambda bad: da.asarray(H, root=99 if bad else 0)),
    "copy=False": (ValueError, lambda bad: da.asarray(H, root=0, copy=False if bad else None)),
    "a layout that does not exist": (da.LayoutError, lambda bad: da.asarray(H, root=0, layout=da.blocks(5 * bad))),
    "a bad root's array": (TypeError, lambda bad: da.asarray(object() if bad else H, root=da.process_count() - 1)),
    "a bad root's dtype": (TypeError, lambda bad: da.asarray(H, dtype="U3" if bad else None, root=da.process_count() - 1)),
}  # fmt: skip
"""What one rank alone does wrong, and the exception that it finds; the others find RemoteError."""

DISAGREEMENTS = {
    "modes": (
        "'max' on process 0, 'sum' on process",
        lambda bad: da.from_local_chunks(OWN, mode="sum" if bad else "max"),
    ),
    "dtypes": (
        "one dtype",
        lambda bad: da.from_local_chunks([(slice(0, 2), np.arange(2, dtype="f4" if bad else "f8"))]),
    ),
    "shapes": ("different shapes", lambda bad: da.from_local_chunks(OWN, (3 if bad else 2,), mode="sum")),
    "axes": ("axes", lambda bad: da.from_local_chunks([((), 1.0)] if bad else OWN)),
    "a chunk's shape": ("extent", lambda bad: da.from_local_chunks([(slice(0, 2), [1.0] * (2 + bad))])),
    "a region outside": ("extent", lambda bad: da.from_local_chunks([(slice(bad, 2 + bad), [1.0, 2.0])], (2,))),
    "a region twice": ("twice", lambda bad: da.from_local_chunks(OWN * (1 + bad))),
    "roots": ("root", lambda bad: da.asarray(H, root=int(bad))),
    "layouts": ("layout", lambda bad: da.asarray(H, root=0, layout=da.blocks(int(bad)))),
}
"""What the last rank says otherwise than the others: the same error on all."""


def go_on():
    """The ranks are at the same call, and a scatter and a join still give what they should."""
    last = da.process_count() - 1
    x = da.asarray(H if da.process_index() == last else None, root=last, layout=da.blocks(0))
    assert_same((x[1:] + x[:-1]).get(), H[1:] + H[:-1], local=True)
    assert_same(da.from_local_chunks(OWN, mode="max").get(), np.array([1.0, 2.0]), local=True)


@pytest.mark.parametrize("name", LOCAL_MISTAKES)
def test_what_one_rank_does_wrong_fails_on_all_and_they_go_on(name):
    own, wrong = LOCAL_MISTAKES[name]

    def program():
        bad = da.process_index() == da.process_count() - 1
        with pytest.raises(own if bad else da.RemoteError) as caught:
            wrong(bad)
        if not bad:
            assert f"process {da.process_count() - 1} raised" in str(caught.value)
        go_on()

    for shares in SHARES:
        on_ranks(shares, program)


@pytest.mark.parametrize("name", DISAGREEMENTS)
def test_what_the_ranks_say_otherwise_fails_on_all_and_they_go_on(name):
    text, wrong = DISAGREEMENTS[name]

    def program():
        with pytest.raises(ValueError, match=text) as caught:
            wrong(da.process_index() == da.process_count() - 1)
        go_on()
        return str(caught.value)

    for shares in SHARES:
        assert len(set(on_ranks(shares, program))) == 1


def test_a_failure_of_one_rank_reaches_the_others():
    def program():
        x = da.asarray(H, layout=da.blocks(0))
        context = x._context
        y = x.T.reshard(da.blocks(0))
        if context.process == 1:
            context.local_devices[0].memory_limit = context.local_devices[0].allocated + 100
        with pytest.raises((MemoryError, da.RemoteError)) as caught:
            (x + y.T).evaluate()
        if context.process == 0:
            assert "DeviceMemoryError" in str(caught.value)
        context.local_devices[0].memory_limit = None
        np.testing.assert_array_equal(
            next(c for own in x.all_chunks().values() for c in own), H[4 * context.process :][:4]
        )
        return type(caught.value).__name__

    assert on_ranks((1, 1), program) == ["RemoteError", "DeviceMemoryError"]


def test_survivors_go_on_in_a_context_of_their_own():
    def program():
        x = da.asarray(H, layout=da.blocks(0))
        context = x._context
        if context.process == 2:
            return None
        with pytest.raises(da.PeerLostError):
            x.reshard(da.blocks(1))
        own = next(c for chunks in x.all_chunks().values() for c in chunks)
        assert np.array_equal(own, H[x.layout.chunks[context.process][1].slices])
        with context.shrink([0, 1]):
            y = da.asarray(H, layout=da.blocks(0))
            return float((y[1:] + y[:-1]).sum())

    expected = float((H[1:] + H[:-1]).sum())
    first, second, third = on_ranks((1, 1, 1), program)
    assert third is None
    assert first == second == pytest.approx(expected)
