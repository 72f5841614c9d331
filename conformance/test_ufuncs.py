"""Every public NumPy ufunc, from NumPy's own table: calls with broadcasting, scalars, out, where, dtype and casting;
the methods reduce, accumulate, reduceat, outer and at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

import distarray as da
from conformance.checking import allowed, assert_same, both, on_gpu
from conformance.contexts import context, device_numbers, examples
from conformance.strategies import (
    BFLOAT16,
    BOOL,
    FLOATS,
    INTEGERS,
    NUMPY,
    arrays,
    axes,
    axis_sets,
    broadcastable,
    device_counts,
    dtypes,
    operands,
    pairs,
    scalars,
    shapes,
)

EVERY = sorted({f for f in vars(np).values() if isinstance(f, np.ufunc)}, key=lambda f: f.__name__)
TABLE = [f for f in EVERY if f.signature is None]
BINARY = [f for f in TABLE if (f.nin, f.nout) == (2, 1)]
MULTIPLE = [f for f in TABLE if f.nout > 1]
#: Not correctly rounded: another instruction may give other last bits. All others give the same bits on every path.
INEXACT = {
    "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "cbrt", "cos", "cosh", "exp", "exp2",
    "expm1", "float_power", "hypot", "log", "log10", "log1p", "log2", "logaddexp", "logaddexp2", "power", "sin", "sinh",
    "tan", "tanh",
}  # fmt: skip
#: Which of two equal zeros they return depends on whether NumPy took a vector instruction.
ZERO_SIGN = {"maximum", "minimum", "fmax", "fmin", "clip"}
#: Exact for complex operands too; the others multiply, and NumPy fuses multiply-adds where it can.
EXACT_COMPLEX = {
    "add", "subtract", "negative", "positive", "conjugate", "equal", "not_equal", "isfinite", "isinf", "isnan",
    "maximum", "minimum", "fmax", "fmin", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or",
    "logical_not", "logical_xor",
}  # fmt: skip
#: Their domain is the integers: draw those more often.
INTEGRAL = {"gcd", "lcm", "bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift", "right_shift"}


def how(ufunc: np.ufunc, *dtypes_: Any) -> dict[str, Any]:
    """How a ufunc's results are compared."""
    isc = any(np.dtype(t).kind == "c" for t in dtypes_)
    exact = ufunc.__name__ in EXACT_COMPLEX if isc else ufunc.__name__ not in INEXACT
    return allowed(ufunc.__name__, {"exact": exact, "ulps": 16, "zero_sign": ufunc.__name__ not in ZERO_SIGN})


def operand_dtypes(ufunc: np.ufunc) -> Any:
    """A dtype for an operand: mostly one that the ufunc takes."""
    if ufunc.__name__ in INTEGRAL:
        return dtypes(INTEGERS * 3 + BOOL + FLOATS)
    return dtypes(NUMPY)


def test_the_table_is_numpys():
    assert len(EVERY) >= 85, [f.__name__ for f in EVERY]
    assert {f.__name__ for f in EVERY if f.signature} == {"matmul", "vecdot", "matvec", "vecmat"}


def draw_operands(data: st.DataObject, ufunc: np.ufunc, n: int) -> tuple[list[Any], list[Any]]:
    """The operands of a call for NumPy and for us; at least one of ours is a distributed array."""
    refs: list[Any] = []
    ours: list[Any] = []
    same = data.draw(operand_dtypes(ufunc))
    mixed = data.draw(st.booleans())
    for number, shape in enumerate(data.draw(broadcastable(ufunc.nin))):
        dtype = data.draw(operand_dtypes(ufunc)) if mixed else same
        kind = data.draw(st.sampled_from(["dist", "dist", "dist", "scalar", "numpy"])) if number else "dist"
        if kind == "scalar":
            value = data.draw(scalars(dtype))
            refs.append(value)
            ours.append(value)
            continue
        a = data.draw(arrays(shape, dtype))
        refs.append(a)
        ours.append(a if kind == "numpy" else data.draw(pairs(a, n)).x)
    if data.draw(st.booleans()):
        refs.reverse()
        ours.reverse()
    return refs, ours


def dtypes_of(values: list[Any]) -> list[Any]:
    return [v.dtype if hasattr(v, "dtype") else np.result_type(v) for v in values]


@pytest.mark.parametrize("part", range(6))
@examples(8)
@given(data=st.data(), n=device_counts)
def test_call(part, data, n):
    ufunc = data.draw(st.sampled_from(TABLE[part::6]), label="ufunc")
    event(ufunc.__name__)
    with context(n):
        refs, ours = draw_operands(data, ufunc, n)
        both(lambda: ufunc(*refs), lambda: ufunc(*ours), **how(ufunc, *dtypes_of(refs)))


@pytest.mark.parametrize("ufunc", TABLE, ids=lambda f: f.__name__)
def test_each_ufunc_once_on_every_dtype(ufunc):
    """The table test draws; this one misses no ufunc."""
    with context(max(device_numbers())):
        for dtype in NUMPY:
            a = np.arange(7).astype(dtype)
            x = da.asarray(a, layout=da.blocks(0))
            both(lambda: ufunc(*[a] * ufunc.nin), lambda: ufunc(*[x] * ufunc.nin), **how(ufunc, dtype))  # noqa: B023 - called at once


@examples(8)
@given(data=st.data(), n=device_counts)
def test_out_where_dtype_casting(data, n):
    ufunc = data.draw(st.sampled_from(TABLE), label="ufunc")
    with context(n):
        refs, ours = draw_operands(data, ufunc, n)
        shape = np.broadcast_shapes(*(np.shape(r) for r in refs))
        ref_kw: dict[str, Any] = {}
        our_kw: dict[str, Any] = {}
        if data.draw(st.sampled_from([False, False, True])):
            ref_kw["dtype"] = our_kw["dtype"] = data.draw(dtypes())
        if data.draw(st.sampled_from([False, False, True])):
            ref_kw["casting"] = our_kw["casting"] = data.draw(st.sampled_from(["unsafe", "same_kind", "safe", "no"]))
        if data.draw(st.sampled_from([True, True, False])):
            outs = []
            for _ in range(ufunc.nout):
                bad = data.draw(st.sampled_from([False] * 9 + [True]))
                a = data.draw(arrays((2, *shape) if bad else shape, data.draw(dtypes()), extreme=False))
                outs.append(data.draw(pairs(a, n)))
            ref_kw["out"] = tuple(p.ref for p in outs)
            our_kw["out"] = tuple(p.x for p in outs)
            if data.draw(st.booleans()):
                where = data.draw(arrays(data.draw(st.sampled_from([shape, shape[-1:], ()])), bool))
                ref_kw["where"] = where
                our_kw["where"] = data.draw(pairs(where, n)).x if data.draw(st.booleans()) else where
        else:
            outs = []
        kinds = [*dtypes_of(refs), *([ref_kw["dtype"]] if "dtype" in ref_kw else []), *(p.ref.dtype for p in outs)]
        compare = how(ufunc, *kinds)
        if ref_kw.get("casting") == "unsafe":  # float to integer out of range is undefined in C, and so in NumPy
            targets = kinds[len(refs) :]
            assume(not any(np.dtype(t).kind in "fc" for t in kinds) or all(np.dtype(t).kind in "fc" for t in targets))
        # a result near an integer may be cast to either side of it
        assume(compare["exact"] or all(p.ref.dtype.kind in "fc" for p in outs))
        results: list[Any] = []
        before = [p.base_ref.copy() for p in outs]

        def ours_call() -> Any:
            results.append(ufunc(*ours, **our_kw))
            return results[0]

        done = both(lambda: ufunc(*refs, **ref_kw), ours_call, **compare)
        if done and outs:
            got = results[0] if ufunc.nout > 1 else (results[0],)
            assert all(g is p.x for g, p in zip(got, outs)), "out= must come back as the result"
        for p, old in zip(outs, before):  # NumPy itself may leave a half-written target where an operand fails
            if done or ufunc is not np.power:
                assert_same(p.base_x, p.base_ref if done else old, **compare)


@examples(2)
@given(data=st.data(), n=device_counts)
def test_several_outputs(data, n):
    ufunc = data.draw(st.sampled_from(MULTIPLE), label="ufunc")
    with context(n):
        refs, ours = draw_operands(data, ufunc, n)
        both(lambda: ufunc(*refs), lambda: ufunc(*ours), **how(ufunc, *dtypes_of(refs)))


@examples(2)
@given(data=st.data(), n=device_counts)
def test_bfloat16(data, n):
    names = "add subtract multiply negative absolute maximum minimum less equal isnan floor sqrt square divide sign"
    ufunc = getattr(np, data.draw(st.sampled_from(names.split())))
    with context(n):
        refs = [data.draw(arrays(shape, BFLOAT16)) for shape in data.draw(broadcastable(ufunc.nin))]
        ours = [data.draw(pairs(a, n)).x for a in refs]
        both(lambda: ufunc(*refs), lambda: ufunc(*ours), zero_sign=ufunc.__name__ not in ZERO_SIGN and not on_gpu())


FLOAT_REDUCERS = {"add", "subtract", "multiply", "divide", "maximum", "minimum", "fmax", "fmin", "logical_and",
                  "logical_or", "logical_xor", "hypot", "logaddexp"}  # fmt: skip


def reducing(data: st.DataObject, shape: tuple[int, ...]) -> tuple[np.ufunc, np.ndarray, dict[str, Any]]:
    """A binary ufunc, an array it reduces, and how the results compare: sums may differ in rounding."""
    # What NumPy's own loops reduce wrongly is held to plain loops in tests/test_regressions.py; a GPU's powers of powers
    # magnify rounding without a bound.
    known = [f for f in BINARY if f not in (np.arctan2, np.ldexp) and not (on_gpu() and f is np.float_power)]
    ufunc = data.draw(st.sampled_from(known), label="ufunc")
    floats = [np.dtype("float64"), np.dtype("float32"), np.dtype("complex128")]
    dtype = data.draw(dtypes(INTEGERS + BOOL + (floats if ufunc.__name__ in FLOAT_REDUCERS else [])))
    smooth = ufunc.__name__ in ("add", "subtract", "multiply", "divide", "hypot", "logaddexp")
    a = data.draw(arrays(shape, dtype, extreme=not (smooth and dtype.kind == "c"), top=3))
    compare = how(ufunc, dtype)
    if smooth:
        compare |= {"exact": False, "ulps": 16 * max(a.size, 1)}
        if ufunc.__name__ in ("add", "subtract"):
            with np.errstate(all="ignore"):
                compare["scale"] = np.abs(np.where(np.isfinite(a), a, 0).astype(complex)).max(initial=0)
    return ufunc, a, compare


def _settled(ufunc: np.ufunc, a: np.ndarray) -> None:
    """Leave out what depends on the order of rounding: products and quotients of many inexact values that overflow."""
    if ufunc.__name__ in ("multiply", "divide") and a.dtype.kind in "fc":
        assume(a.size <= 60)


@examples(6)
@given(data=st.data(), n=device_counts)
def test_reduce(data, n):
    with context(n):
        shape = data.draw(shapes(max_dims=3, max_size=120))
        ufunc, a, compare = reducing(data, shape)
        _settled(ufunc, a)
        pair = data.draw(pairs(a, n))
        ref_kw: dict[str, Any] = {}
        if data.draw(st.booleans()):
            ref_kw["axis"] = data.draw(axis_sets(a.ndim))
        if data.draw(st.booleans()):
            ref_kw["keepdims"] = data.draw(st.booleans())
        if data.draw(st.sampled_from([False, False, True])):
            ref_kw["initial"] = data.draw(st.sampled_from([0, 1, 2]))
        our_kw = dict(ref_kw)
        if data.draw(st.sampled_from([False, False, True])):
            where = data.draw(arrays(shape, bool))
            ref_kw["where"] = where
            our_kw["where"] = data.draw(pairs(where, n)).x if data.draw(st.booleans()) else where
        both(lambda: ufunc.reduce(a, **ref_kw), lambda: ufunc.reduce(pair.x, **our_kw), **compare)


@examples(4)
@given(data=st.data(), n=device_counts)
def test_accumulate_and_reduceat(data, n):
    with context(n):
        shape = data.draw(shapes(min_dims=data.draw(st.sampled_from([1, 1, 1, 0])), max_dims=3, max_size=120))
        ufunc, a, compare = reducing(data, shape)
        _settled(ufunc, a)
        pair = data.draw(pairs(a, n))
        kw = {"axis": data.draw(axes(a.ndim))} if a.ndim and data.draw(st.booleans()) else {}
        if data.draw(st.booleans()):
            both(lambda: ufunc.accumulate(a, **kw), lambda: ufunc.accumulate(pair.x, **kw), **compare)
            return
        size = a.shape[kw.get("axis", 0)] if a.ndim else 1
        top = size if data.draw(st.sampled_from([False] * 9 + [True])) else size - 1
        indices = data.draw(st.lists(st.integers(0, max(top, 0)), min_size=1, max_size=5))
        given_ = data.draw(st.sampled_from([list, np.array]))(indices)
        both(lambda: ufunc.reduceat(a, given_, **kw), lambda: ufunc.reduceat(pair.x, given_, **kw), **compare)


@examples(2)
@given(data=st.data(), n=device_counts)
def test_outer(data, n):
    ufunc = data.draw(st.sampled_from(BINARY), label="ufunc")
    with context(n):
        shape = data.draw(shapes(max_dims=2, max_size=30))
        pair = data.draw(operands(n, shape=shape, dtype=data.draw(operand_dtypes(ufunc))))
        b = data.draw(arrays(data.draw(shapes(max_dims=2, max_size=20)), data.draw(operand_dtypes(ufunc))))
        y = b if data.draw(st.booleans()) else data.draw(pairs(b, n)).x
        both(lambda: ufunc.outer(pair.ref, b), lambda: ufunc.outer(pair.x, y), **how(ufunc, pair.ref.dtype, b.dtype))


@examples(3)
@given(data=st.data(), n=device_counts)
def test_at(data, n):
    """Repeated indices count each time, unlike in ``x[idx] += v``."""
    ufunc = data.draw(st.sampled_from([f for f in TABLE if f.nout == 1 and f.nin <= 2]), label="ufunc")
    shape = data.draw(shapes(min_dims=1, max_dims=2, max_size=40))
    with context(n):
        pair = data.draw(operands(n, shape=shape, dtype=data.draw(dtypes(INTEGERS + FLOATS)), extreme=False))
        size = shape[0]
        over = data.draw(st.sampled_from([0] * 9 + [1]))
        low = min(-size, size - 1 + over)
        high = max(size - 1 + over, low)
        index: Any = data.draw(st.lists(st.integers(low, high), min_size=0 if size else 1, max_size=6))
        index = np.array(index, int) if data.draw(st.booleans()) or not index else index
        if data.draw(st.sampled_from([False, False, True])):
            index = slice(None, None, data.draw(st.sampled_from([1, 2])))
        rest: tuple[Any, ...] = ()
        if ufunc.nin == 2:
            kind = pair.ref.dtype
            if ufunc.__name__ in ("ldexp", "left_shift", "right_shift"):
                kind = np.dtype("int32")
            picked = pair.ref[index].shape if over == 0 and size else ()
            fits = data.draw(st.sampled_from([picked, picked[1:], ()]))
            rest = (data.draw(arrays(fits, kind, extreme=False, top=2)),)
        ours = tuple(data.draw(pairs(r, n)).x if data.draw(st.booleans()) else r for r in rest)
        compare = how(ufunc, pair.ref.dtype) | {"ulps": 64}
        done = both(lambda: ufunc.at(pair.ref, index, *rest), lambda: ufunc.at(pair.x, index, *ours), **compare)
        if done or ufunc is not np.power:  # where an integer power fails NumPy itself leaves a half-written target
            assert_same(pair.base_x, pair.base_ref, **compare)
