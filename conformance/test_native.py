"""Compiled expressions are those of NumPy's calls: bits, dtypes and warnings, over random programs, layouts and values."""

import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import distarray as da
from conformance.checking import on_gpu
from conformance.strategies import extremes, layouts
from distarray.algorithms import sorting
from distarray.algorithms.short_rows import START
from distarray.fusion import blocks
from distarray.fusion.native import folding, run, vectors
from distarray.fusion.native.element import Line, NativeElement
from distarray.fusion.native.machine import machine
from distarray.fusion.native.operations import OPERATIONS, PARTS, TYPES, is_known
from distarray.fusion.native.source import elementwise_text

pytestmark = [
    pytest.mark.skipif(on_gpu(), reason="GPUs have kernels of their own"),
    pytest.mark.skipif(machine() is None, reason="the extra `fast` is not installed, or not for this processor"),
]


@contextmanager
def compiled(nbytes=1 << 18, block=1 << 17):
    """In the block everything is compiled that can be; the cells and folds that kernels compute are counted."""
    count = []
    cell, fold = run.NativeCell.run, folding.NativeFold.parts

    def counted(function):
        def call(self, *args):
            count.append(1)
            return function(self, *args)

        return call

    with (
        mock.patch.multiple(run, LEAST=8, KEPT=0, COMPILED=0, BLOCK=block, TILE=max(64, block // 16)),
        mock.patch.multiple(folding, LEAST=8, BLOCK=block),
        mock.patch.multiple(blocks, REGISTER_BYTES=nbytes, REGISTERS=blocks._Registers()),
        mock.patch.object(run.NativeCell, "run", counted(cell)),
        mock.patch.object(folding.NativeFold, "parts", counted(fold)),
    ):
        yield count


@contextmanager
def by_numpy():
    """In the block nothing is compiled."""
    with (
        mock.patch.object(run, "is_offered", return_value=False),
        mock.patch.object(folding, "is_offered", return_value=False),
    ):
        yield


def same(a, b):
    """Equal to the bit; one NaN is as good as another."""
    return a.dtype == b.dtype and a.shape == b.shape and np.array_equal(canonical(a), canonical(b))


def canonical(a):
    a = np.array(a, order="C", ndmin=1)
    if a.dtype.kind == "c":
        a = a.view(a.real.dtype)
    if a.dtype.kind == "f":
        a[np.isnan(a)] = np.nan
    return a.view(f"u{a.dtype.itemsize}")


def pairs(dtype):
    """All pairs of a dtype's extreme values and some more, a few of them in a tail."""
    values = extremes(dtype)
    if dtype.kind == "f":
        info = np.finfo(dtype)
        more = [0.1, -0.1, 2.5, -2.5, 3.5, info.max, -info.max, info.tiny, info.smallest_subnormal, 1e3, 7.0]
        values = np.concatenate([values, np.array(more, dtype)])
    elif dtype.kind in "iu":
        values = np.concatenate([values, np.arange(2, 12).astype(dtype)])
    x, y = np.meshgrid(values, values)
    return np.tile(x.ravel(), 3), np.tile(y.ravel(), 3)


def computed(element, arrays):
    """The results of one kernel over whole arrays."""
    outs = [np.zeros(arrays[0].size, dtype) for _, _, dtype in element.results]
    words = [arrays[0].size, 1]
    for array in (*arrays, *outs):
        words += (array.__array_interface__["data"][0], 0, array.itemsize)
    kernel = machine().compiled(elementwise_text(element, "v" * (len(arrays) + len(outs))))
    kernel.call(run.packing(element, len(arrays) + len(outs))(*words))
    return outs


@pytest.mark.parametrize("dtype", [*TYPES, *PARTS], ids=str)
@np.errstate(all="ignore")
def test_every_operation_has_the_bits_of_numpy(dtype):
    x, y = pairs(dtype)
    lines, wanted = [], []
    for name in OPERATIONS:
        ufunc = getattr(np, name)
        given = (x, y)[: ufunc.nin]
        try:
            value = ufunc(*given)
        except TypeError:
            continue
        picks = tuple(("array", k) for k in range(ufunc.nin))
        line = Line(name, picks, (dtype,) * ufunc.nin, dtype, value.dtype, False)
        trial = NativeElement((dtype,) * 2, (), (line,), ((("line", 0), value.dtype, value.dtype),))
        if (
            is_known(value.dtype)
            and ufunc.resolve_dtypes((dtype,) * ufunc.nin + (None,))[0] == dtype
            and trial.is_possible()
        ):
            lines.append(line)
            wanted.append(value)
    assert len(lines) > (6 if dtype in PARTS else 15)
    results = tuple((("line", i), value.dtype, value.dtype) for i, value in enumerate(wanted))
    for line, value, found in zip(
        lines, wanted, computed(NativeElement((dtype,) * 2, (), tuple(lines), results), [x, y])
    ):
        assert same(found, value), line.name


@pytest.mark.parametrize("dtype", [*TYPES, *PARTS], ids=str)
@np.errstate(all="ignore")
def test_every_conversion_has_the_bits_of_numpy(dtype):
    x, _ = pairs(dtype)
    results = [(("array", 0), dtype, t) for t in (*TYPES, *PARTS)]
    results = [r for r in results if NativeElement((dtype,), (), (), (r,)).is_possible()]
    for (_, _, target), found in zip(results, computed(NativeElement((dtype,), (), (), tuple(results)), [x])):
        assert same(found, x.astype(target)), target


UNARY = [
    "negative",
    "conjugate",
    "absolute",
    "sqrt",
    "square",
    "rint",
    "isnan",
    "signbit",
    "logical_not",
    "exp",
    "sin",
    "invert",
]
BINARY = (
    "add add subtract subtract multiply multiply divide minimum maximum less greater_equal equal not_equal logical_and "
    "bitwise_or bitwise_xor copysign arctan2 floor_divide".split()
)
LEAVES = ["x", "y", "row", "column", "scalar", 2, 0.5, -3, True, np.float32(1.5), 2 - 1j]


@st.composite
def trees(draw, depth=4):
    """An expression as nested tuples."""
    if not depth or draw(st.integers(0, 5)) == 0:
        return draw(st.sampled_from(LEAVES[:2] if draw(st.booleans()) else LEAVES))
    kind = draw(st.sampled_from(["unary", "binary", "binary", "binary", "where", "astype"]))
    below = trees(depth=depth - 1)
    if kind == "unary":
        return (draw(st.sampled_from(UNARY)), draw(below))
    if kind == "binary":
        return (draw(st.sampled_from(BINARY)), draw(below), draw(below))
    if kind == "where":
        return ("where", ("less", draw(below), draw(below)), draw(below), draw(below))
    return ("astype", draw(below), draw(st.sampled_from(["f4", "f8", "i4", "i8", "u1", "?"])))


def evaluated(tree, names):
    if isinstance(tree, str):
        return names[tree]
    if not isinstance(tree, tuple):
        return tree
    name, *args = tree
    if name == "astype":
        value = evaluated(args[0], names)
        return value.astype(args[1]) if hasattr(value, "astype") else np.dtype(args[1]).type(value)
    return getattr(np, name)(*[evaluated(arg, names) for arg in args])


def whole(names, tree):
    """The value in the whole shape."""
    found = evaluated(tree, names)
    return found if getattr(found, "shape", ()) == names["x"].shape else np.add(found, names["y"])


def heard(call):
    """The bits that a call returns or writes, and the texts that it warns of; or its error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = call()
            found = found.get() if isinstance(found, da.DistributedArray) else np.asarray(found)
        except (TypeError, OverflowError, ValueError) as error:
            return None, str(error)
    return found, sorted(str(w.message) for w in caught)


USES = {
    "value": lambda names, tree: whole(names, tree),
    "into a view": lambda names, tree: names["x"].__setitem__((slice(1, None), slice(None)), whole(names, tree)[1:]),
    "in place": lambda names, tree: np.add(names["x"], whole(names, tree), out=names["x"], casting="unsafe"),
    "neighbours": lambda names, tree: names["x"].__setitem__(
        (slice(1, -1),), names["x"][:-2] * 2 + names["x"][2:] - whole(names, tree)[1:-1]
    ),
    "sum": lambda names, tree: whole(names, tree).sum(),
    "max": lambda names, tree: whole(names, tree).max(),
    "any": lambda names, tree: whole(names, tree).any(),
}


def held(names, tree):
    """A value that uses another which the program holds."""
    first = whole(names, tree)
    kept = np.add(first, names["y"]) * 3
    total = kept - first
    return np.concatenate([total, kept])


USES["held"] = held


@settings(max_examples=100, deadline=None)
@given(
    trees(),
    st.sampled_from(list(USES)),
    st.sampled_from(
        [
            ("f8", "f8"),
            ("f4", "f4"),
            ("f4", "f8"),
            ("i4", "f8"),
            ("i8", "i8"),
            ("u1", "i4"),
            ("?", "f4"),
            ("c16", "f8"),
            ("c8", "c8"),
        ]
    ),
    st.tuples(st.integers(3, 40), st.sampled_from([3, 8, 13, 40, 200])),
    st.sampled_from([1, 3]),
    st.sampled_from([None, da.blocks(0), da.blocks(1), da.replicated()]),
    st.sampled_from([(1 << 18, 1 << 17), (256, 100), (1024, 64)]),
    st.booleans(),
    st.integers(0, 99),
)
def test_compiled_programs_are_those_of_numpy_calls(tree, use, dtypes, shape, devices, layout, sizes, special, seed):
    rng = np.random.default_rng(seed)
    hosts = {}
    for name, dtype, form in zip(("x", "y", "row", "column", "scalar"), (*dtypes, *dtypes, dtypes[0]),
                                 (shape, shape, shape[1:], (shape[0], 1), ())):  # fmt: skip
        value = np.asarray(rng.random(form) * 9 - (0 if dtype in ("u1", "?") else 4))
        if special and dtype[0] in "fc" and value.size > 3:
            value.flat[rng.integers(0, value.size, 3)] = rng.choice([np.inf, -0.0, 0.0, np.nan, 1e300], 3)
        with np.errstate(all="ignore"):
            hosts[name] = value.astype(dtype)
    outcomes = []
    for ways in (False, True):
        with da.init(devices=devices, kind="host", minimum_chunk=1) as context, np.errstate(all="warn", under="ignore"):
            names = {name: da.asarray(host, layout=layout if host.ndim == 2 else None) for name, host in hosts.items()}
            context.workers.inline_bytes = 0
            with compiled(*sizes) if ways else by_numpy():
                found = heard(partial(USES[use], names, tree))
            outcomes.append((*found, names["x"].get()))
    (a, said, x), (b, told, other) = outcomes
    assert (a is None) == (b is None)
    assert a is None or a.dtype == object or same(a, b)
    assert said == told
    assert same(x, other)


def test_kernels_are_used_and_one_pass_serves_a_chain():
    with da.init(devices=2, kind="host", minimum_chunk=1), compiled() as count:
        a, b = (da.arange(300_000.0) + k for k in (0, 1))
        for x in (a, b):
            x.evaluate()
        count.clear()
        ((a + b) * 2 - b).evaluate()
        parts = len(count)  # one a device, or more where there are more cores
        assert parts >= 2
        chain = ((a * b + 2) * 0.5 - a / (b + 1)).evaluate()
        assert len(count) == 2 * parts
        assert (a * b).sum() > 0
        assert len(count) > 2 * parts
        assert (chain.get() == (a.get() * b.get() + 2) * 0.5 - a.get() / (b.get() + 1)).all()


SEQUENCES = {
    "cumsum": lambda x, mask, index: np.cumsum(x),
    "cumprod": lambda x, mask, index: np.cumprod(x),
    "by a mask": lambda x, mask, index: x[mask],
    "by number": lambda x, mask, index: x[index],
    "rows by number": lambda x, mask, index: x.reshape(-1, 3)[index],
    "columns by number": lambda x, mask, index: x.reshape(3, -1)[:, index],
}


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(list(SEQUENCES)),
    st.sampled_from(["f8", "f4", "f2", "i4", "i8", "u1", "?", "c16", "c8", "M8[s]"]),
    st.integers(3, 120),
    st.sampled_from([1, 2, 3, 7]),
    st.data(),
    st.sampled_from(["plain", "special", "huge"]),
    st.floats(0, 1),
    st.integers(0, 99),
)
def test_compiled_sequences_are_those_of_numpy_calls(use, dtype, n, devices, data, kind, share, seed):
    rng = np.random.default_rng(seed)
    x = rng.random(3 * n) * 9 - (0 if dtype in ("u1", "?", "M8[s]") else 4)
    if dtype[0] in "fc" and kind != "plain":
        x[rng.integers(0, x.size, 3)] = rng.choice(
            [np.inf, -0.0, 0.0, np.nan, 1e300] if kind == "special" else [1.7e308]
        )
    with np.errstate(all="ignore"):
        x = x.astype(dtype)
    if dtype == "M8[s]" and use.startswith("cum"):
        x = x.astype("m8[s]") if use == "cumsum" else x.astype("i8")
    mask, index = rng.random(3 * n) < share, rng.integers(0, n, rng.integers(1, 50))
    outcomes = [heard(partial(SEQUENCES[use], x, mask, index))]
    layout = data.draw(layouts(x.shape, devices))
    for ways in (False, True):
        with da.init(devices=devices, kind="host", minimum_chunk=1) as context, np.errstate(all="warn", under="ignore"):
            context.workers.inline_bytes = 0
            ours = da.asarray(x, layout=layout)
            with compiled() if ways else by_numpy():
                outcomes.append(heard(partial(SEQUENCES[use], ours, mask, index)))
    (wanted, _), (a, said), (b, told) = outcomes
    assert same(a, wanted)
    assert same(b, wanted)
    assert said == told


@pytest.mark.parametrize("use", list(SEQUENCES))
def test_sequences_are_compiled(use):
    x = np.arange(30_000.0) % 7
    mask, index = x > 3, np.arange(9_000)
    found = []
    function_of = run.function_of

    def noted(*args):
        found.append(function_of(*args))
        return found[-1]

    with da.init(devices=3, kind="host", minimum_chunk=1), mock.patch.object(run, "function_of", noted), compiled():
        ours = SEQUENCES[use](da.asarray(x, layout=da.blocks(0)), mask, index)
        np.testing.assert_array_equal(ours.get(), SEQUENCES[use](x, mask, index))
    assert None not in found
    assert found or use == "columns by number"


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "u8", "i4", "u4"])
@pytest.mark.parametrize(("keys", "distinct"), [(1, 2), (3, 2), (3, 1000), (15, 1000)])
@pytest.mark.parametrize("size", [1003, 1000, 15])
def test_elements_parted_by_keys(dtype, keys, distinct, size):
    rng = np.random.default_rng(keys)
    a = rng.integers(0, distinct, size).astype(dtype)
    if dtype[0] == "f":
        a[[5, 9]] = np.inf, -np.inf
    cuts = [(key, equals) for key in np.unique(rng.choice(a, keys)) for equals in (0, None)][:keys]
    out = np.empty_like(a)
    with compiled():
        found = vectors.parted(a, out, cuts)
        if dtype[0] == "f":
            for special in (np.nan, -0.0):
                for place in (7, size - 1):
                    odd = a.copy()
                    odd[place] = special
                    assert vectors.parted(odd, np.empty_like(a), cuts) is None
        else:
            assert vectors.parted(a, np.empty_like(a), [(np.iinfo(dtype).max, None)]) is None
        assert vectors.parted(a, np.empty_like(a), [(a[0], 1)]) is None
        assert vectors.parted(np.arange(99, dtype=dtype), np.empty(99, dtype), [(50, 0), (40, 0)]) is None
    assert found == [
        np.count_nonzero(a < key) + np.count_nonzero((a == key) & (equals is None)) for key, equals in cuts
    ]
    np.testing.assert_array_equal(np.sort(out), np.sort(a))
    for (key, _), place in zip(cuts, found, strict=True):
        assert (out[:place] <= key).all()
        assert (out[place:] >= key).all()


def test_elements_that_their_counts_do_not_hold_are_not_parted(monkeypatch):
    a, cuts = np.arange(100, dtype="i4"), [(50, 0)]
    with compiled():
        assert vectors.parted(a, np.empty_like(a), cuts) == [50]
        monkeypatch.setattr(vectors, "_COUNTABLE", 99)
        assert vectors.parted(a, np.empty_like(a), cuts) is None
        assert vectors.parted(a.astype("i8"), np.empty(100, "i8"), cuts) == [50]


def test_threads_part_elements_beside_each_other():
    """What a kernel reads lives as long as it runs, whatever other threads allocate."""
    arrays = [np.random.default_rng(k).random(20_000) for k in range(4)]
    wanted = [np.sort(a) for a in arrays]

    def task(k: int) -> bool:
        out = np.empty_like(arrays[k])
        cuts = [(key, 0) for key in wanted[k][[5_000, 10_000, 15_000]]]
        for _ in range(200):
            if (
                vectors.parted(arrays[k], out, cuts) != [5_000, 10_000, 15_000]
                or out[:5_000].sum() > wanted[k][:5_000].sum() + 1
            ):
                return False
        return np.array_equal(np.sort(out), wanted[k])

    with compiled(), ThreadPoolExecutor(4) as pool:
        assert all(pool.map(task, range(4)))


@pytest.mark.parametrize("distinct", [1, 3, 1 << 30])
def test_sorts_part_their_elements_by_kernels(distinct, monkeypatch):
    monkeypatch.setattr(sorting, "SHORT", 8)
    parted = []
    original = vectors.parted
    monkeypatch.setattr(vectors, "parted", lambda *args: parted.append(original(*args)) or parted[-1])
    for dtype in ("f8", "i4"):
        a = np.random.default_rng(0).integers(0, distinct, 2000).astype(dtype)
        with da.init(devices=4, kind="host", minimum_chunk=1), compiled():
            np.testing.assert_array_equal(np.sort(da.asarray(a, layout=da.blocks(0))).get(), np.sort(a))
    assert None in parted or distinct != 3
    assert any(found is not None for found in parted)


def test_a_result_of_one_short_row_is_written():
    """It is no row that is repeated, though it runs as such a one does."""
    a, b = np.random.default_rng(0).random((2, 5, 40))
    layout = {0: [(slice(0, 0),), (slice(0, 1),), (slice(1, 5),)]}
    with da.init(devices=1, kind="host"), compiled():
        x, y = (da.asarray(value, layout=layout) for value in (a, b))
        held = np.add(x, y) * 3
        total = (held - x).evaluate()
        np.testing.assert_array_equal(held.get(), (a + b) * 3)
        np.testing.assert_array_equal(total.get(), (a + b) * 3 - a)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("n", [2, 3, 7, 8])
def test_sums_of_short_rows_have_numpys_bits(dtype, n):
    rng = np.random.default_rng(n)
    host = ((rng.random((3001, n)) - 0.5) * 10.0 ** rng.integers(-9, 9, (3001, n))).astype(dtype)
    host[3:9], host[9, 0] = -0.0, np.inf
    found = np.empty(3001, dtype)
    with compiled():
        assert vectors.rows_summed(host, found, START)
        assert found.tobytes() == np.add.reduce(host, axis=1).tobytes()
        host[9, 1] = -np.inf  # a condition that somebody hears is NumPy's to meet
        with np.errstate(all="warn"):
            assert not vectors.rows_summed(host, found, START)
        with np.errstate(all="ignore"):
            assert vectors.rows_summed(host, found, START)
        with da.init(devices=2, kind="host"), pytest.warns(RuntimeWarning, match="invalid value encountered in reduce"):
            np.testing.assert_array_equal(da.asarray(host).sum(axis=1).get(), found)
