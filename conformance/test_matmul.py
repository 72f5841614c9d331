"""Products: matmul, ``@``, dot, vecdot, matvec, vecmat and tensordot, for any shapes, batch dimensions and layouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import distarray as da
from conformance.checking import assert_same, both
from conformance.contexts import context, examples
from conformance.strategies import BFLOAT16, BOOL, COMPLEX, FLOATS, INTEGERS, arrays, device_counts, dtypes, pairs

DTYPES = INTEGERS + FLOATS + COMPLEX + BOOL
sizes = st.sampled_from([1, 2, 3, 5, 8, 0])
#: name -> the core dimensions of the operands
SIGNATURES = {"matmul": ("mk", "kn"), "vecdot": ("k", "k"), "matvec": ("mk", "k"), "vecmat": ("k", "kn")}


def batches(data: st.DataObject) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two batch shapes that broadcast, most often empty."""
    full = data.draw(st.sampled_from([(), (), (2,), (3, 2), (0,)]))
    other = full[data.draw(st.integers(0, len(full))) :]
    other = tuple(1 if data.draw(st.booleans()) else s for s in other)
    return (full, other) if data.draw(st.booleans()) else (other, full)


def operands(data: st.DataObject, shapes: list[tuple[int, ...]], n: int) -> tuple[list[Any], list[Any]]:
    dtype = data.draw(dtypes(DTYPES))
    refs, ours = [], []
    for number, shape in enumerate(shapes):
        kind = data.draw(dtypes(DTYPES)) if data.draw(st.sampled_from([False, False, True])) else dtype
        a = data.draw(arrays(shape, kind, extreme=kind.kind in "biu"))
        refs.append(a)
        ours.append(a if number and data.draw(st.sampled_from([False, False, True])) else data.draw(pairs(a, n)).x)
    return refs, ours


def tolerance(k: int, *refs: Any) -> dict[str, Any]:
    """Products add up in another order: the error is relative to the size of what is added, not of the result."""
    sizes = [float(np.abs(np.nan_to_num(np.asarray(a).astype(complex))).max(initial=0)) for a in refs]
    scale = max(2 * 81.0, 2 * float(np.prod(sizes))) if sizes else 2 * 81.0
    return {"exact": False, "ulps": 4 * (k + 4), "scale": scale}


@examples(6)
@given(data=st.data(), n=device_counts)
def test_gufuncs(data, n):
    name = data.draw(st.sampled_from(["matmul", "matmul", "@", *SIGNATURES]))
    core = {letter: data.draw(sizes) for letter in "mkn"}
    first, second = SIGNATURES.get(name, SIGNATURES["matmul"])
    batch = batches(data)
    shapes = [(*b, *(core[c] for c in dims)) for b, dims in zip(batch, (first, second))]
    if data.draw(st.sampled_from([False] * 9 + [True])):
        shapes[1] = (*shapes[1][:-1], shapes[1][-1] + 1)
    with context(n):
        refs, ours = operands(data, shapes, n)
        if name == "@":
            both(lambda: refs[0] @ refs[1], lambda: ours[0] @ ours[1], **tolerance(core["k"], *refs))
        else:
            f = getattr(np, name)
            both(lambda: f(*refs), lambda: f(*ours), **tolerance(core["k"], *refs))


@examples(4)
@given(data=st.data(), n=device_counts)
def test_matmul_of_vectors_and_matrices(data, n):
    m, k, p = (data.draw(sizes) for _ in range(3))
    shapes = data.draw(st.sampled_from([[(k,), (k,)], [(m, k), (k,)], [(k,), (k, p)], [(m, k), (k, p)], [(), (k,)],
                                        [(k,), (2, k, p)], [(2, m, k), (k,)]]))  # fmt: skip
    with context(n):
        refs, ours = operands(data, shapes, n)
        for f in (np.matmul, np.dot):
            both(lambda: f(*refs), lambda: f(*ours), **tolerance(k, *refs))  # noqa: B023 - called at once
        if len(shapes[0]):
            both(lambda: refs[0].dot(refs[1]), lambda: ours[0].dot(ours[1]), **tolerance(k, *refs))


@examples(3)
@given(data=st.data(), n=device_counts)
def test_tensordot(data, n):
    full = [data.draw(sizes) for _ in range(4)]
    count = data.draw(st.integers(0, 2))
    if data.draw(st.booleans()):
        shapes, axes = [tuple(full[: 2 + count][:3]), ()], min(count, 2)
        shapes[1] = (*shapes[0][len(shapes[0]) - axes :], full[3])
    else:
        shapes = [(full[0], full[1], full[2]), (full[2], full[3], full[0])]
        axes = data.draw(st.sampled_from([([0, 2], [2, 0]), ([2], [0]), (2, 0), (-1, -3), ([], []), ([1], [1])]))
    k = max(full, default=1) ** 2
    with context(n):
        refs, ours = operands(data, shapes, n)
        both(lambda: np.tensordot(*refs, axes=axes), lambda: np.tensordot(*ours, axes=axes), **tolerance(k, *refs))


@examples(2)
@given(data=st.data(), n=device_counts)
def test_out(data, n):
    m, k, p = (data.draw(sizes) for _ in range(3))
    with context(n):
        refs, ours = operands(data, [(m, k), (k, p)], n)
        kind = data.draw(st.sampled_from([np.result_type(*refs), np.dtype("float64")]))
        out = data.draw(pairs(np.zeros((m, p), kind), n))
        loose = tolerance(k, *refs) | {"unit": np.result_type(*refs)}  # rounded in the operands' precision
        both(lambda: np.matmul(*refs, out=out.ref), lambda: np.matmul(*ours, out=out.x), **loose)
        assert_same(out.base_x, out.base_ref, **loose)
        if m == k == p and kind == refs[0].dtype:
            both(lambda: refs[0].__imatmul__(refs[1]), lambda: ours[0].__imatmul__(ours[1]), **tolerance(k, *refs))


@examples(2)
@given(data=st.data(), n=device_counts)
def test_products_of_products(data, n):
    """Results may be partial: what follows must still see whole values."""
    a, b, c = (data.draw(arrays((5, 5), "int64", extreme=False)) for _ in range(3))
    with context(n):
        x, y, z = (data.draw(pairs(v, n)).x for v in (a, b, c))
        assert_same((x @ y) @ z + x, (a @ b) @ c + a)
        assert_same(abs(x @ y).max(axis=0), abs(a @ b).max(axis=0))
        assert_same((x @ y).T[1:], (a @ b).T[1:])
        product, ref = x @ y, a @ b
        product += 1
        product[0] = 3
        ref += 1
        ref[0] = 3
        assert_same(product, ref)


def test_integers_wrap_as_in_numpy():
    a = np.full((4, 8), 100, np.int8)
    with context(4):
        for layout in (da.blocks(0), da.blocks(1), da.replicated()):
            x = da.asarray(a, layout=layout)
            assert_same(x @ x.T, a @ a.T)


def test_bfloat16():
    a = np.arange(12).reshape(3, 4).astype(BFLOAT16)
    with context(2):
        x = da.asarray(a, layout=da.blocks(1))
        both(lambda: np.matmul(a, a.T), lambda: np.matmul(x, x.T), exact=False, ulps=8)


def test_a_split_inner_dimension_ends_in_sum_mode_and_moves_nothing():
    """Both operands are cut along k on the same devices: each device multiplies its parts; the result is partial."""
    with context(4):
        a, b = np.arange(64.0).reshape(8, 8), np.arange(64.0)[::-1].reshape(8, 8)
        x, y = da.asarray(a, layout=da.blocks(1)), da.asarray(b, layout=da.blocks(0))
        with da.ledger() as log, da.no_implicit_communication():
            c = x @ y
        assert log.bytes_moved == 0
        assert c.mode == da.SUM
        assert_same(c, a @ b)


@pytest.mark.parametrize(("first", "second"), [(da.blocks(0), da.replicated()), (da.replicated(), da.blocks(1))])
def test_a_split_outer_dimension_moves_nothing(first, second):
    with context(4):
        a = np.arange(64.0).reshape(8, 8)
        x, y = da.asarray(a, layout=first), da.asarray(a, layout=second)
        with da.ledger() as log, da.no_implicit_communication():
            c = x @ y
        assert log.bytes_moved == 0
        assert_same(c, a @ a)
