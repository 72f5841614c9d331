"""Changing shape: transpose, reshape, squeeze, expand_dims, flip, broadcast_to are views where NumPy's are;
concatenate, stack, where, astype and copy are new arrays."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import distarray as da
from conformance.checking import assert_same, both
from conformance.contexts import context, examples
from conformance.strategies import (
    ALL,
    FLOATS,
    INTEGERS,
    NUMPY,
    arrays,
    axes,
    broadcastable,
    device_counts,
    dtypes,
    operands,
    pairs,
    scalars,
    shapes,
)


@st.composite
def factorings(draw: st.DrawFn, size: int) -> tuple[int, ...]:
    """A shape with this many elements."""
    if size == 0:
        return draw(st.sampled_from([(0,), (2, 0), (0, 3, 1)]))
    shape: tuple[int, ...] = ()
    while size > 1 and len(shape) < 3:
        factor = draw(st.sampled_from([d for d in range(1, size + 1) if size % d == 0]))
        shape, size = (*shape, factor), size // factor
    return (*shape, size) if size > 1 or draw(st.booleans()) else shape


Call = Callable[[Any], Any]


def view_call(data: st.DataObject, a: np.ndarray) -> tuple[str, Call]:
    """A function that makes a view of the array, with arguments that are mostly right."""
    name = data.draw(st.sampled_from(["transpose", "T", "squeeze", "expand_dims", "flip", "broadcast_to", "swapaxes",
                                      "moveaxis", "reshape", "ravel", "transpose_method",
                                      "reshape_method"]))  # fmt: skip
    wrong = data.draw(st.sampled_from([False] * 12 + [True]))
    axis = data.draw(axes(a.ndim)) if a.ndim else 0
    other = data.draw(axes(a.ndim)) if a.ndim else 0
    if wrong:
        axis = a.ndim + 1
    perm = [data.draw(st.sampled_from([i, i - a.ndim])) for i in data.draw(st.permutations(range(a.ndim)))]
    if wrong and perm:
        perm[0] = perm[-1] if len(perm) > 1 else 1
    shape = data.draw(factorings(a.size))
    if shape and data.draw(st.booleans()) and 0 not in shape:
        shape = (-1, *shape[1:])
    if wrong:
        shape = (*shape, 2, 3)
    unit = tuple(i for i, s in enumerate(a.shape) if s == 1)
    calls: dict[str, Call] = {
        "transpose": lambda x: np.transpose(x, perm),
        "transpose_method": lambda x: x.transpose(*perm),
        "T": lambda x: x.T,
        "squeeze": lambda x: np.squeeze(x, axis) if wrong or not unit else np.squeeze(x, unit),
        "expand_dims": lambda x: np.expand_dims(x, (0, -1) if other % 2 else axis),
        "flip": lambda x: np.flip(x) if other % 2 else np.flip(x, axis),
        "broadcast_to": lambda x: np.broadcast_to(x, (3, *x.shape)) if not wrong else np.broadcast_to(x, (0, 5, 13)),
        "swapaxes": lambda x: np.swapaxes(x, axis, other),
        "moveaxis": lambda x: np.moveaxis(x, axis, other),
        "reshape": lambda x: np.reshape(x, shape),
        "reshape_method": lambda x: x.reshape(shape),
        "ravel": np.ravel,
    }
    return name, calls[name]


@examples(8)
@given(data=st.data(), n=device_counts)
def test_views(data, n):
    """The values; that a write reaches the base exactly where NumPy's does, or is refused as read-only."""
    pair = data.draw(operands(n, dtype=data.draw(dtypes(ALL)), extreme=False))
    one = np.ones((), pair.ref.dtype)
    with context(n):
        name, call = view_call(data, pair.ref)
        if not both(lambda: call(pair.ref), lambda: call(pair.x)):
            return
        ref, got = call(pair.ref), call(pair.x)
        assert_same(pair.base_x, pair.base_ref)
        if not isinstance(ref, np.ndarray):  # np.flip of no dimensions gives a scalar
            return
        if not ref.flags.writeable:
            with pytest.raises(ValueError):
                got[...] = one
            return
        try:
            got[...] = one
        except ValueError as error:  # where the layout allows no view, a copy that cannot be written to by mistake
            assert name in ("reshape", "reshape_method", "ravel"), name
            assert "copy" in str(error)  # noqa: PT017 - either outcome is right
            return
        ref[...] = one
        assert_same(got, ref)
        assert_same(pair.base_x, pair.base_ref)


@examples(2)
@given(data=st.data(), n=device_counts)
def test_views_see_later_writes(data, n):
    pair = data.draw(operands(n, shape=data.draw(shapes(min_dims=1)), dtype="int64"))
    with context(n):
        name, call = view_call(data, pair.ref)
        assume("reshape" not in name and name != "ravel")
        try:
            ref = call(pair.ref)
        except (ValueError, IndexError):
            assume(False)
        got = call(pair.x)
        assert isinstance(ref, np.ndarray)
        pair.ref[:1] = 5
        pair.x[:1] = 5
        assert_same(got, ref)


@examples(2)
@given(data=st.data(), n=device_counts)
def test_views_move_nothing(data, n):
    pair = data.draw(operands(n, dtype="float32"))
    with context(n):
        name, call = view_call(data, pair.ref)
        assume("reshape" not in name and name != "ravel")
        with da.ledger() as log:
            try:
                call(pair.x)
            except (ValueError, IndexError):
                return
        assert log.bytes_moved == 0


@examples(5)
@given(data=st.data(), n=device_counts)
def test_concatenate_and_stack(data, n):
    shape = data.draw(shapes(min_dims=1, max_dims=3, max_size=80))
    join = data.draw(st.sampled_from(["concatenate", "stack"]))
    axis = data.draw(axes(len(shape) + (join == "stack")))
    common = data.draw(dtypes())
    refs, ours = [], []
    with context(n):
        for number in range(data.draw(st.integers(1, 4))):
            size = list(shape)
            if join == "concatenate" and data.draw(st.booleans()):
                size[axis] = data.draw(st.integers(0, 4))
            if number and data.draw(st.sampled_from([False] * 15 + [True])):
                size[0] += 1
            a = data.draw(arrays(tuple(size), common if data.draw(st.booleans()) else data.draw(dtypes())))
            refs.append(a)
            ours.append(a if number and data.draw(st.sampled_from([False, False, True])) else data.draw(pairs(a, n)).x)
        f = getattr(np, join)
        axis = data.draw(st.sampled_from([axis] * 9 + [9] + [None] * 2)) if join == "concatenate" else axis
        both(lambda: f(refs, axis=axis), lambda: f(ours, axis=axis))


@examples(4)
@given(data=st.data(), n=device_counts)
def test_where(data, n):
    with context(n):
        condition, *rest = data.draw(broadcastable(3))
        c = data.draw(arrays(condition, data.draw(st.sampled_from([bool, bool, np.int64]))))
        dtype = data.draw(dtypes())
        refs, ours = [c], [data.draw(pairs(c, n)).x]
        for shape in rest:
            if data.draw(st.sampled_from([False, False, True])):
                refs.append(data.draw(scalars(dtype)))
                ours.append(refs[-1])
                continue
            a = data.draw(arrays(shape, dtype if data.draw(st.booleans()) else data.draw(dtypes())))
            refs.append(a)
            ours.append(data.draw(pairs(a, n)).x if data.draw(st.booleans()) else a)
        both(lambda: np.where(*refs), lambda: np.where(*ours))


@examples(4)
@given(data=st.data(), n=device_counts)
def test_astype(data, n):
    source = data.draw(dtypes(ALL))
    target = data.draw(dtypes(ALL))
    tame = source.kind in "fcV" and target.kind in "iu"  # float to int is undefined out of range
    a = data.draw(arrays(dtype=source, extreme=not tame))
    a = np.abs(a) if tame and source.kind != "c" else a
    assume(not (tame and source.kind == "c"))
    with context(n):
        x = data.draw(pairs(a, n)).x
        kw = {"copy": data.draw(st.booleans())} if data.draw(st.booleans()) else {}
        both(lambda: a.astype(target, **kw), lambda: x.astype(target, **kw))
        both(lambda: a.astype(target, casting="safe"), lambda: x.astype(target, casting="safe"))
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # NumPy's ComplexWarning
            y = x.astype(target)
        y[...] = np.ones((), target)
        assert_same(x, a)


@given(data=st.data(), n=device_counts)
def test_parts_of_complex_numbers(data, n):
    a = data.draw(arrays(dtype=data.draw(dtypes(NUMPY))))
    with context(n):
        x = data.draw(pairs(a, n)).x
        both(lambda: np.real(a), lambda: np.real(x))
        both(lambda: np.imag(a), lambda: np.imag(x))
        both(lambda: np.conj(a), lambda: np.conj(x))


@given(data=st.data(), n=device_counts)
def test_a_reshape_there_and_back(data, n):
    """No layout stands in the way of a value."""
    a = data.draw(arrays(data.draw(shapes(min_dims=1)), data.draw(dtypes(INTEGERS + FLOATS))))
    shape = data.draw(factorings(a.size))
    with context(n):
        x = data.draw(pairs(a, n)).x
        y = x.reshape(shape)
        assert_same(y, a.reshape(shape))
        assert_same(y.reshape(a.shape), a)
        assert math.prod(y.shape) == a.size
        z = y.copy()
        z[...] = 0
        assert_same(x, a)
