"""Generated kernels: their sources without a GPU; with one, a fused expression against its steps to the bit, and reductions,
scans, selections and transposed copies against NumPy, over layouts of memory and dtypes."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import distarray as da
from distarray.algorithms import reduction
from distarray.devices import Chunk, transposes
from distarray.devices.kernels import collapse
from distarray.fusion import kept
from distarray.fusion.expr import ASTYPE
from distarray.fusion.kernels import direct, elementwise, reductions, rows, run, scans, selections
from distarray.fusion.kernels.element import element_of
from distarray.fusion.kernels.folds import FOLDS, fold_of
from distarray.fusion.kernels.formulas import TYPES
from distarray.fusion.kernels.later import Later, LaterChunk, Readers, lazily
from distarray.fusion.kernels.pending import WHOLE, PendingProgram
from distarray.fusion.program import Instruction, Program

REAL = [np.dtype(t) for t in ("?", "i1", "u1", "i2", "i4", "u4", "i8", "u8", "f2", "f4", "f8")]
SIZES = {"P": 8, "q": 8, "?": 1, "b": 1, "B": 1, "h": 2, "H": 2, "i": 4, "I": 4, "l": 8, "L": 8, "e": 2, "f": 4, "d": 8}


def step(ufunc: Any, args: Any, dtype: str, masked: bool = False) -> Instruction:
    kwargs = {"dtype": np.dtype(dtype)} if ufunc is ASTYPE else {}
    return Instruction(ufunc, tuple(args), kwargs, np.dtype(dtype), {}, ("", 0, {}), masked, False)


def members(source: str) -> int:
    """The members of a kernel's argument, counted in its source."""
    found = re.findall(r"struct Args \{(.*?)\};", source, re.DOTALL)
    assert len(found) == 1
    return sum(len(line.split(",")) for line in found[0].split(";") if line.strip())


def well_formed(source: str, fields: str) -> None:
    assert source.count("{") == source.count("}") and source.count("(") == source.count(")")
    assert source.count("__global__") == 1
    assert members(source) == len(fields) and set(fields) <= set(SIZES)


# --- sources ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lead", [0, 1, 3])
@pytest.mark.parametrize("lanes", [1, 4])
def test_sources_of_expressions_declare_what_they_are_passed(lead: int, lanes: int) -> None:
    where = step(ASTYPE, [("leaf", 0), ("leaf", 1), ("const", 2.5)], "f4", masked=True)
    both = step(np.logical_and, [("step", 0), ("leaf", 2)], "?")
    program = Program((where, both), ("step", 1), np.dtype("?"), (), "x")
    bound = element_of(None, program, (np.dtype("f8"), np.dtype("?"), np.dtype("i2")), np.dtype("?"))
    assert bound is not None and bound.scalars == (2.5,)
    form = elementwise.ElementForm("vsxv", lead, lanes, 64, lead > 1)
    well_formed(*elementwise.source_of(bound.element, form))
    kept = element_of(None, program, (np.dtype("f8"), np.dtype("?"), np.dtype("i2")), np.dtype("?"), (0, 1))
    assert kept is not None and kept.element.stored == (np.dtype("f4"), np.dtype("?"))
    assert kept.element.key != bound.element.key
    well_formed(*elementwise.source_of(kept.element, form._replace(kinds="vsxvvx")))


def test_scalars_are_arguments() -> None:
    def program(value: Any) -> Program:
        chosen = step(ASTYPE, [("leaf", 0), ("leaf", 1), ("const", value)], "f4", masked=True)
        return Program((chosen,), ("step", 0), np.dtype("f4"), (), "x")

    leaves = (np.dtype("f4"), np.dtype("?"))
    one, two = (element_of(None, program(v), leaves, np.dtype("f4")) for v in (1.5, 2.5))
    assert one is not None and two is not None
    assert one.element is two.element and (one.scalars, two.scalars) == ((1.5,), (2.5,))


@pytest.mark.parametrize("name", sorted(FOLDS))
@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_sources_of_reductions(name: str, dtype: Any) -> None:
    result = {
        "argmax": np.dtype("i8"),
        "argmin": np.dtype("i8"),
        "logical_or": np.dtype("?"),
        "logical_and": np.dtype("?"),
        "moments": np.dtype("f8"),
        "variance": np.dtype("f4"),
        "deviation": np.dtype("f4"),
    }
    fold = fold_of(name, dtype, result.get(name, dtype))
    assert fold is not None
    bound = element_of(None, WHOLE, (dtype,), fold.element)
    assert bound is not None
    for columns in (False, True):
        form = reductions.FoldForm(columns, "e", 2, 32, True, False)
        well_formed(*reductions.source_of(bound.element, fold, form))
    well_formed(*reductions.final_source(fold))


def test_sources_of_moves() -> None:
    for itemsize in (1, 2, 4, 8, 16):
        well_formed(*transposes.source_of(itemsize))
        for source, fields in selections.sources(itemsize).values():
            well_formed(source, fields)
    for columns in (False, True):
        well_formed(*scans.source_of("add", np.dtype("i4"), np.dtype("i8"), 2, columns, True))


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
def test_joined_axes_reach_the_same_elements(shape: list[int], data: Any) -> None:
    arrays = []
    for _ in range(2):
        order = data.draw(st.permutations(range(len(shape))))
        base = np.arange(np.prod(shape)).reshape([shape[i] for i in order]).transpose(np.argsort(order))
        if data.draw(st.booleans()):
            base = np.broadcast_to(base[(slice(0, 1),) * len(shape)], shape)
        arrays.append(base)
    sizes, steps = collapse(tuple(shape), [tuple(s // 8 for s in a.strides) for a in arrays])
    for array, own in zip(arrays, steps, strict=True):
        offsets = np.zeros(sizes, int)
        for axis, (n, s) in enumerate(zip(sizes, own, strict=True)):
            offsets = offsets + np.arange(n).reshape([-1] + [1] * (len(sizes) - axis - 1)) * s
        np.testing.assert_array_equal(offsets.reshape(-1) + array.flat[0], array.reshape(-1))


def test_parts_of_pending_expressions() -> None:
    a, b = np.arange(12).reshape(3, 4), np.arange(4)
    part = PendingProgram(np, WHOLE, (a, b), (3, 4), a.dtype)[slice(1, 3), slice(0, 2), ...]
    assert part.shape == (2, 2)
    np.testing.assert_array_equal(part.operands[0], a[1:3, :2])
    np.testing.assert_array_equal(part.operands[1], b[:2])


@pytest.mark.parametrize("width", [1, 16, 64, 256, 512])
@pytest.mark.parametrize("full", [False, True])
def test_sources_of_rows(width: int, full: bool) -> None:
    scaled = step(ASTYPE, [("leaf", 0), ("leaf", 1), ("const", 2.5)], "f4", masked=True)
    program = Program((scaled,), ("step", 0), np.dtype("f4"), (), "x")
    single = np.dtype("f4")
    one = element_of(None, WHOLE, (single,), single)
    two = element_of(None, program, (single, np.dtype("?")), single)
    assert one is not None and two is not None
    folds = (fold_of("maximum", single, single), fold_of("add", single, single))
    sources = ((("leaf", 0),), (("fold", 0),), (("fold", 1), ("leaf", 1)))
    form = rows.RowForm((single, np.dtype("?")), "vxe", sources, 4, width, 3, full)  # type: ignore[arg-type]
    well_formed(*rows.source_of((one.element, one.element, two.element), folds, form))  # type: ignore[arg-type]


def test_folds_that_wait() -> None:
    """They are computed when they are asked for, before what they read is written, and when that is let go of."""
    with da.init(devices=1, kind="host") as context:
        (device,) = context.local_devices
        ran: list[int] = []

        def waiting(number: int) -> LaterChunk:
            out = np.zeros((3, 1))

            def task() -> None:
                ran.append(number)
                out[...] = number

            return LaterChunk(device, Later("add", WHOLE, (np.ones((3, 2)),), (3, 2), np.dtype("f8"), out, task))

        before = device.allocated
        asked, dropped, written, freed = map(waiting, range(4))
        assert device.allocated == before + 4 * 24
        assert lazily(asked) is asked and isinstance(asked, Chunk)
        assert ran == [] and asked.array[0, 0] == 0 and ran == [0]
        assert lazily(asked) is asked.array and asked.array is asked.array and ran == [0]
        del dropped
        x = da.asarray(np.ones((3, 2)))
        version = x._own().version
        version.readers = Readers()
        assert written.later is not None and freed.later is not None
        version.readers.add(written.later)
        x[0] = 5
        assert ran == [0, 2] and lazily(written) is written.array
        version = x._own().version
        version.readers = Readers()
        version.readers.add(freed.later)
        assert ran == [0, 2]
        del x, version
        assert ran == [0, 2, 3] and freed.array[0, 0] == 3


# --- on a GPU -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels for arrays of every size."""
    monkeypatch.setattr(run, "LEAST", 0)
    monkeypatch.setattr(kept, "LEAST", {"host": 0, "cuda": 0})
    monkeypatch.setattr(direct, "OFTEN", {True: 1, False: 1})
    monkeypatch.setattr(reductions, "LEAST", 0)
    monkeypatch.setattr(reduction, "WAIT_FROM", 0)
    monkeypatch.setattr(scans, "LEAST", 0)
    monkeypatch.setattr(scans, "_FEWEST", 0)
    monkeypatch.setattr(selections, "LEAST", 0)
    monkeypatch.setattr(transposes, "LEAST", 0)


GPU = settings(deadline=None, max_examples=30, suppress_health_check=list(HealthCheck))
UNARY = [np.negative, np.absolute, np.sqrt, np.exp, np.log, np.sin, np.tanh, np.floor, np.rint, np.square, np.sign, np.isnan,
         np.logical_not, np.degrees, np.cbrt]  # fmt: skip
BINARY = [np.add, np.subtract, np.multiply, np.divide, np.maximum, np.fmin, np.less, np.not_equal, np.floor_divide,
          np.remainder, np.arctan2, np.hypot, np.logical_xor, np.copysign, np.power]  # fmt: skip


def values(dtype: Any, shape: tuple[int, ...], seed: int) -> Any:
    random = np.random.default_rng(seed)
    if dtype.kind == "f":
        found = (random.standard_normal(shape) * 3).astype(dtype)
        found[random.random(shape) < 0.1] = random.choice(np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0], dtype))
        return found
    if dtype.kind == "b":
        return random.random(shape) < 0.5
    return random.integers(0 if dtype.kind == "u" else -9, 10, shape).astype(dtype)


@st.composite
def programs(draw: Any) -> Any:
    """A function of two arrays: a few steps, of which each may take scalars, views and masks."""
    plan = [
        (
            draw(st.integers(0, 3)),
            draw(st.integers(0, 99)),
            draw(st.integers(0, 99)),
            draw(st.sampled_from([0.5, 3, -2.0, True])),
        )
        for _ in range(draw(st.integers(1, 6)))
    ]

    def run(a: Any, b: Any) -> Any:
        held = [a, b]
        with np.errstate(all="ignore"):
            for kind, first, second, scalar in plan:
                x, y = held[first % len(held)], held[second % len(held)]
                try:
                    if kind == 0:
                        held.append(UNARY[second % len(UNARY)](x))
                    elif kind == 1:
                        held.append(BINARY[(first + second) % len(BINARY)](x, y))
                    elif kind == 2:
                        held.append(BINARY[second % (len(BINARY) - 1)](x, scalar))
                    else:
                        held.append(np.where(x > y, x, scalar))
                except (TypeError, ValueError, OverflowError):
                    continue
        return held[-1]

    return run


def views(x: Any, which: int) -> Any:
    return [x, x.T, x[1:], x[:, ::2], x[::-1], x[:1], x[:, 1:2], x[0]][which]


@pytest.mark.cuda
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("devices", [1, 3])
@pytest.mark.parametrize("straight", [False, True])
@given(
    programs(), st.sampled_from(REAL), st.sampled_from(REAL), st.integers(0, 7), st.integers(1, 40), st.integers(1, 700)
)
@GPU
def test_fused_is_equal_to_the_steps(
    monkeypatch: pytest.MonkeyPatch,
    straight: bool,
    devices: int,
    program: Any,
    one: Any,
    two: Any,
    which: int,
    m: int,
    n: int,
) -> None:
    monkeypatch.setattr(direct, "MOST", 1 << 16 if straight else 0)
    found = []
    a, b = values(one, (m, n), 1), values(two, (m, n), 2)
    for eager in (False, True):
        with da.init(devices=devices, kind="cuda", eager=eager):
            x, y = da.asarray(a, layout=da.blocks(0)), da.asarray(b, layout=da.blocks(0))
            try:
                found.append(program(views(x, which), views(y, which)).get())
            except ValueError as error:  # integer powers
                found.append(str(error))
    if isinstance(found[1], str):
        assert found[0] == found[1]
        return
    assert found[0].dtype == found[1].dtype
    np.testing.assert_array_equal(found[0], found[1])
    if found[0].dtype.kind == "f":
        same = np.isnan(found[0]) | (np.signbit(found[0]) == np.signbit(found[1]))
        assert same.all()


@pytest.mark.cuda
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("shape", [(300, 257), (64, 1024), (5, 7, 33)])
@pytest.mark.parametrize("dtypes", [("f4", "f4"), ("f8", "f4"), ("f2", "f8"), ("i4", "f4")])
def test_what_is_held_is_written_in_the_same_pass(
    monkeypatch: pytest.MonkeyPatch, shape: Any, dtypes: tuple[str, str]
) -> None:
    monkeypatch.setattr(kept, "WORTH", {"host": 1, "cuda": 1})
    monkeypatch.setattr(direct, "MOST", 0)
    a, b = (values(np.dtype(t), shape, i) for i, t in enumerate(dtypes))
    found = []
    for devices, eager in ((1, False), (3, False), (1, True)):
        with da.init(devices=devices, kind="cuda", eager=eager), np.errstate(all="ignore"):
            x, y = da.asarray(a, layout=da.blocks(0)), da.asarray(b, layout=da.blocks(0))
            first = x * 2 + y
            mask = first > x
            second = np.where(mask, first, 1.5) * y[:1]
            last = (second.astype("f4") + first).T[1:]
            values_of = [last.get()]
            if not eager:
                assert all(v._node.kept is not None for v in (first, mask, second))
                lies = [[c.array.data.ptr for c in v._node.kept.chunks] for v in (first, second)]
            values_of += [second.get(), mask.get(), first.get(), (first - second).get()]
            if not eager:
                assert [[c.array.data.ptr for c in v._own().version.chunks] for v in (first, second)] == lies
            total = (second * 3).sum(axis=0).get()
        found.append(values_of)
        with np.errstate(all="ignore"):
            wanted = (values_of[1] * 3).sum(axis=0)
        np.testing.assert_allclose(total, wanted, rtol=1e-2, atol=1e-2)
    for one in found[:2]:
        for mine, theirs in zip(one, found[2], strict=True):
            assert mine.dtype == theirs.dtype
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.cuda
@pytest.mark.usefixtures("always")
@given(
    st.sampled_from(["sum", "max", "min", "any", "all", "argmax", "argmin", "prod", "mean", "std"]),
    st.sampled_from([t for t in REAL if t != np.float16]), st.sampled_from([(), (0,), (1,), (2,), (0, 1), (1, 2)]),
    st.lists(st.integers(1, 60), min_size=3, max_size=3), st.booleans(), st.sampled_from([1, 2, 3]), st.booleans(),
)  # fmt: skip
@settings(deadline=None, max_examples=80, suppress_health_check=list(HealthCheck))
def test_reductions_on_gpus(
    name: str, dtype: Any, axes: Any, shape: list[int], turned: bool, devices: int, recorded: bool
) -> None:
    host = values(dtype, tuple(shape), 5)
    if name == "prod":
        host = np.abs(host).clip(0, 1) if dtype.kind == "f" else host
    axis: Any = None if not axes else axes[0] if len(axes) == 1 or name.startswith("arg") else axes
    with da.init(devices=devices, kind="cuda"), np.errstate(all="ignore"):
        x = da.asarray(host, layout=da.blocks(0))
        h = host
        if turned:
            x, h = x.T, h.T
        if recorded:
            x, h = np.where(x == x, x, x), np.where(h == h, h, h)
        mine = getattr(x, name)(axis=axis).get()
        theirs = getattr(h, name)(axis=axis)
    assert mine.dtype == theirs.dtype and mine.shape == np.shape(theirs)
    if (dtype.kind != "f" and name not in ("mean", "std")) or name.startswith(("arg", "a")):
        np.testing.assert_array_equal(mine, theirs)
    else:
        tolerance = 1e-4 if dtype == np.float32 else 1e-10
        np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance * 100)


@pytest.mark.cuda
@pytest.mark.parametrize("shape", [(300, 5000), (5000, 300), (3, 70, 130), (200, 4099), (4099, 203), (1 << 20,)])
@pytest.mark.parametrize("dtype", ["i4", "f4", "f8", "u1", "f2"])
def test_scans_on_gpus(shape: Any, dtype: str) -> None:
    host = values(np.dtype(dtype), shape, 3)
    host = np.where(np.isfinite(host), host, 1).astype(dtype) if dtype[0] == "f" else host
    for devices in (1, 2):
        with da.init(devices=devices, kind="cuda"):
            x = da.asarray(host, layout=da.blocks(0))
            for axis in range(host.ndim):
                for mine, theirs in ((x, host), (x.T, host.T)):
                    found, wanted = np.cumsum(mine, axis=axis).get(), np.cumsum(theirs, axis=axis)
                    assert found.dtype == wanted.dtype
                    if dtype[0] != "f":
                        np.testing.assert_array_equal(found, wanted)
                    elif dtype != "f2":
                        exact = np.cumsum(theirs.astype("f8"), axis=axis)
                        tolerance = 1e-3 if dtype == "f4" else 1e-9
                        np.testing.assert_allclose(found, exact, rtol=tolerance, atol=tolerance * 100)


@pytest.mark.cuda
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("dtype", ["?", "i2", "f4", "f8", "c16"])
@pytest.mark.parametrize("shape", [(333, 1025), (64, 64), (5, 70, 90), (1000, 17)])
def test_selections_and_turns_on_gpus(shape: Any, dtype: str) -> None:
    host = (np.random.default_rng(1).standard_normal(shape) * 9).astype(dtype)
    flags = np.random.default_rng(2).random(shape) < 0.3
    rows = np.random.default_rng(3).integers(0, shape[0], 77)
    for devices in (1, 3):
        with da.init(devices=devices, kind="cuda"):
            x, m = da.asarray(host, layout=da.blocks(0)), da.asarray(flags, layout=da.blocks(0))
            np.testing.assert_array_equal(x[m].get(), host[flags])
            np.testing.assert_array_equal(x[rows].get(), host[rows])
            np.testing.assert_array_equal(x.T.copy().get(), host.T)
            np.testing.assert_array_equal(np.swapaxes(x, 0, -1).copy().get(), np.swapaxes(host, 0, -1))
            np.testing.assert_array_equal((x.T[1:] + x.T[1:]).get(), host.T[1:] + host.T[1:])


@pytest.mark.cuda
@pytest.mark.usefixtures("always")
def test_writes_in_place_keep_numpys_meaning() -> None:
    host = np.random.default_rng(0).standard_normal((130, 257)).astype("f4")
    for devices in (1, 3):
        with da.init(devices=devices, kind="cuda"):
            x, h = da.asarray(host, layout=da.blocks(0)), host.copy()
            for a in (x, h):
                a[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
                a *= 2
                a[1:] += a[:-1]
                a[::2, 3:] = a[::2, 3:] - 1
            np.testing.assert_array_equal(x.get(), h)


@pytest.mark.cuda
def test_a_line_that_waits_for_the_compiler_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISTARRAY_HINTS", "1")
    monkeypatch.setattr("distarray.devices.kernels.NOTICED", 0.0)  # CuPy's cache on disk may have it
    host = np.linspace(0, 1, 1 << 17)
    with da.init(devices=2, kind="cuda"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        x = da.asarray(host, layout=da.blocks(0))
        first = [hint for hint in caught if issubclass(hint.category, da.errors.PerformanceHint)]
        for _ in range(3):
            y = (((x - 0.25) * x - 0.75) * x - 0.5).evaluate()
    assert not first
    assert [(hint.category, hint.filename) for hint in caught] == [(da.errors.PerformanceHint, __file__)]
    np.testing.assert_array_equal(y.get(), ((host - 0.25) * host - 0.75) * host - 0.5)


@pytest.mark.cuda
def test_a_reduction_stores_nothing_of_its_expression() -> None:
    with da.init(devices=1, kind="cuda"):
        x = da.asarray(np.ones((1024, 1024), "f4"))
        held = x * 2.0
        assert float(held.sum()) == 2 * 1024 * 1024
        assert held._node is not None and held._node.version is None
        assert float(held.max()) == 2.0
        assert float(held.get()[0, 0]) == 2.0


def test_names_of_types_cover_the_dtypes() -> None:
    assert {t for t in TYPES if t.kind != "V"} == set(REAL) | {np.dtype(t) for t in ("u2", "c8", "c16")}


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


ROWS = {
    "softmax": softmax,
    "centred": lambda x: x - x.mean(axis=-1, keepdims=True),
    "scaled": lambda x: (
        (x - x.min(axis=-1, keepdims=True)) / (x.max(axis=-1, keepdims=True) - x.min(axis=-1, keepdims=True))
    ),
    "norm": lambda x: x * 2.0 / np.sqrt((x * x).sum(axis=-1, keepdims=True)),
}


@pytest.mark.cuda
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize(
    "shape", [(3000, 16384), (1200, 999), (300, 9001), (300, 8192), (40, 64), (7, 5), (5, 30, 257), (1100, 4096)]
)
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
def test_rows_are_folded_and_used_in_one_pass(name: str, shape: Any, dtype: str) -> None:
    """With the bits of the steps, which are those of folds that were asked for by themselves."""
    host = np.random.default_rng(1).standard_normal(shape).astype(dtype)
    for turned in (False, True):
        found = []
        for devices, eager in ((1, False), (3, False), (1, True)):
            with da.init(devices=devices, kind="cuda", eager=eager), np.errstate(all="ignore"):
                x = da.asarray(host, layout=da.blocks(0))
                found.append(ROWS[name](x.T if turned else x).get())
        np.testing.assert_array_equal(found[0], found[2])
        with np.errstate(all="ignore"):
            wanted = ROWS[name]((host.T if turned else host).astype("f8"))
        for one in found:
            tolerance = {"f2": 2e-2, "f4": 1e-4, "f8": 1e-10}[dtype]
            np.testing.assert_allclose(one, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.cuda
@pytest.mark.usefixtures("always")
def test_folds_of_rows_keep_what_they_read() -> None:
    host = np.random.default_rng(1).standard_normal((2000, 600)).astype("f4")
    for devices in (1, 3):
        with da.init(devices=devices, kind="cuda"):
            x = da.asarray(host, layout=da.blocks(0))
            top = x.max(axis=1, keepdims=True)
            assert all(type(c) is LaterChunk and lazily(c) is c for c in top._own().version.chunks)
            x[:, 5] = 99.0
            np.testing.assert_array_equal(top.get(), host.max(axis=1, keepdims=True))
            x = da.asarray(host, layout=da.blocks(0))
            low, high = x.min(axis=1, keepdims=True), x.max(axis=1, keepdims=True)
            x -= high
            np.testing.assert_array_equal(x.get(), host - host.max(axis=1, keepdims=True))
            del x
            np.testing.assert_array_equal(low.get(), host.min(axis=1, keepdims=True))
            y = da.asarray(host, layout=da.blocks(0))
            sums = (y * 2).sum(axis=1, keepdims=True)
            y.all_chunks()[0][0][...] = 0
            np.testing.assert_allclose(sums.get(), (host * 2).sum(axis=1, keepdims=True), rtol=1e-3, atol=1e-3)
