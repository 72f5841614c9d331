"""Products against NumPy over random layouts and modes, what they move, and what they refuse."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest

import distarray as da
from distarray.algorithms import rounds
from distarray.algorithms.contraction import Contraction, Problem, plan
from distarray.geometry import Region, blocks, replicated
from distarray.layout import Layout
from distarray.modes import Mode

DTYPES = ["int64", "int8", "uint16", "bool", "float16", "float32", "float64", "complex64", "complex128"]


def any_layout(rng: np.random.Generator, shape: tuple[int, ...], n: int) -> Any:
    """Blocks, uneven blocks with overlaps or empty chunks, cyclic, strided grids, replicas."""
    kind = rng.integers(6)
    if kind == 0 or not shape:
        return da.replicated()
    axis = int(rng.integers(len(shape)))
    lead = (slice(None),) * axis
    if kind == 1:
        return da.blocks(axis)
    if kind == 2:
        return da.cyclic(axis, int(rng.integers(1, 3)))
    if kind == 3:
        return {int(rng.integers(n)): slice(None)}
    if kind == 4:
        cuts = [0, *sorted(rng.integers(0, shape[axis] + 1, n - 1)), shape[axis]]
        halo = int(rng.integers(2))
        return {d: (*lead, slice(max(cuts[d] - halo, 0), cuts[d + 1] + halo)) for d in range(n)}
    found: dict[int, list[Any]] = {}
    half = shape[-1] // 2
    for part in range(4):
        key = [slice(None)] * len(shape)
        key[-1] = slice(0, half) if part // 2 else slice(half, None)
        if axis != len(shape) - 1:
            key[axis] = slice(part % 2, None, 2)
        found.setdefault(int(rng.integers(n)), []).append(tuple(key))
    return found


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    whole = rng.integers(0 if np.dtype(dtype).kind in "bu" else -4, 5, shape)
    if np.dtype(dtype).kind == "c":
        return (whole + 1j * rng.integers(-4, 5, shape)).astype(dtype)
    return whole.astype(dtype)


def place(rng: np.random.Generator, a: np.ndarray, n: int) -> Any:
    """`a` distributed: in any layout and mode, perhaps as a flipped and transposed view of another array."""
    turned = rng.random() < 0.3
    base = a.T[::-1] if turned and a.ndim else a
    x = da.asarray(base, layout=any_layout(rng, base.shape, n))
    if rng.random() < 0.3:
        x = x.change_mode(str(rng.choice(["sum", "min", "max"])))
    return x[::-1].T if turned and a.ndim else x


def same(got: Any, ref: Any) -> None:
    """Small whole numbers: products of every dtype are exact, in whatever order they are summed."""
    assert isinstance(got, da.DistributedArray)
    assert (got.dtype, got.shape) == (ref.dtype, ref.shape)
    np.testing.assert_array_equal(got.get(), ref)
    if got.mode == da.REPLICA:
        for device, chunks in got.all_chunks().items():
            for index, chunk in zip(got.index_map[device], chunks, strict=True):
                np.testing.assert_array_equal(chunk.get() if hasattr(chunk, "get") else chunk, np.asarray(ref)[index])


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("dtype", DTYPES)
def test_products_in_any_layout(ctx, n, dtype):
    rng = np.random.default_rng(n)
    with ctx(n):
        for _ in range(25):
            m, k, p = (int(rng.choice([1, 2, 3, 5, 8])) for _ in range(3))
            batch = [(), (2,), (3, 2)][rng.integers(3)]
            less = tuple(1 if rng.random() < 0.3 else s for s in batch[rng.integers(len(batch) + 1) :])
            first, second = (batch, less) if rng.random() < 0.5 else (less, batch)
            mixed = dtype if rng.random() < 0.7 else str(rng.choice(DTYPES))
            a, b = values(rng, (*first, m, k), dtype), values(rng, (*second, k, p), mixed)
            c = values(rng, (*second, k), mixed)
            x, y, v = place(rng, a, n), place(rng, b, n), place(rng, c, n)
            if rng.random() < 0.2:
                y, v = b, c
            same(x @ y, a @ b)
            same(np.matvec(x, v), np.matvec(a, c))
            same(np.vecdot(x[..., 0, :], v), np.vecdot(a[..., 0, :], c))
            same(np.vecmat(v, x.mT), np.vecmat(c, np.swapaxes(a, -1, -2)))
            same(np.dot(x, y), np.dot(a, b))
            same(np.inner(x, v), np.inner(a, c))
            same(np.tensordot(x, y, axes=([-1], [-2])), np.tensordot(a, b, axes=([-1], [-2])))
            same(np.vdot(x, x), np.vdot(a, a))


@pytest.mark.parametrize("n", [1, 3, 4])
def test_vectors(ctx, n):
    rng = np.random.default_rng(n)
    with ctx(n):
        for _ in range(20):
            a, b, c = values(rng, (6,), "int32"), values(rng, (6,), "float64"), values(rng, (6, 4), "float64")
            x, y, z = place(rng, a, n), place(rng, b, n), place(rng, c, n)
            same(x @ y, a @ b)
            assert (x @ y)._detached
            same(y @ z, b @ c)
            same(z.T @ y, c.T @ b)
            same(np.outer(x, y), np.outer(a, b))
            same(np.linalg.outer(x, y), np.linalg.outer(a, b))
            same(np.linalg.vecdot(z, z, axis=0), np.linalg.vecdot(c, c, axis=0))
            same(x.dot(y), a.dot(b))
            same(x.dot(3), a.dot(3))
            same(np.dot(2.5, x), np.dot(2.5, a))
            same(np.dot(y[0], x), np.dot(b[0], a))
            same(np.inner(x, 2), np.inner(a, 2))


@pytest.mark.parametrize(
    "axes", [0, 1, 2, ([0], [1]), ([2, 0], [0, 2]), (-1, 0), ([], []), ([1, 2], [1, 0])], ids=lambda axes: str(axes)
)
def test_tensordot(ctx, axes):
    rng = np.random.default_rng(5)
    with ctx(4):
        for _ in range(10):
            a, b = values(rng, (4, 3, 4), "int64"), values(rng, (4, 3, 4), "int64")
            if axes in (1, 2, (-1, 0)):
                b = b if axes != 2 else np.swapaxes(b, 0, 1)
            if axes == ([0], [1]):
                b = np.swapaxes(b, 0, 1)
            same(np.tensordot(place(rng, a, 4), place(rng, b, 4), axes=axes), np.tensordot(a, b, axes=axes))


@pytest.mark.parametrize(
    ("first", "second"),
    [((0, 3), (3, 2)), ((2, 0), (0, 3)), ((2, 3), (3, 0)), ((0,), (0,)), ((2, 0, 3), (3, 1)), ((0, 2, 3), (3, 2))],
)
def test_empty_axes(four, first, second):
    a, b = np.ones(first), np.ones(second)
    for layout in (da.blocks(0), da.replicated()):
        same(np.matmul(da.asarray(a, layout=layout), da.asarray(b, layout=layout)), np.matmul(a, b))


ALIGNED = {
    "rows @ replicated": (da.blocks(0), da.replicated(), "replica"),
    "replicated @ columns": (da.replicated(), da.blocks(1), "replica"),
    "columns @ rows": (da.blocks(1), da.blocks(0), "sum"),
    "cyclic columns @ cyclic rows": (da.cyclic(1), da.cyclic(0), "sum"),
    "replicated @ replicated": (da.replicated(), da.replicated(), "replica"),
    "replicated @ rows": (da.replicated(), da.blocks(0), "sum"),
}


@pytest.mark.parametrize("case", ALIGNED)
def test_what_meets_on_a_device_is_not_moved(four, case):
    first, second, mode = ALIGNED[case]
    a = np.arange(64.0).reshape(8, 8)
    x, y = da.asarray(a, layout=first), da.asarray(a, layout=second)
    with da.no_implicit_communication(), da.ledger() as log:
        z = x @ y
    assert log.bytes_moved == 0
    assert z.mode == da.Mode.of(mode)
    same(z, a @ a)


def test_results_stay_split_as_the_operand(four):
    a = np.arange(64.0).reshape(8, 8)
    rows, columns = da.asarray(a, layout=da.blocks(0)), da.asarray(a, layout=da.blocks(1))
    whole = da.asarray(a, layout=da.replicated())
    vector = da.asarray(a[0], layout=da.replicated())
    with da.no_implicit_communication():
        assert (rows @ whole).index_map == rows.index_map
        assert (whole @ columns).index_map == columns.index_map
        assert (rows @ vector).index_map == vector.reshard(da.blocks(0)).index_map
        assert (whole @ whole).layout.is_replicated


def test_gram_matrix_and_batches_move_nothing(four):
    a = np.arange(120.0).reshape(20, 6)
    x = da.asarray(a, layout={0: slice(0, 3), 1: slice(3, 11), 3: slice(11, None)})
    stack = np.arange(96.0).reshape(8, 3, 4)
    y = da.asarray(stack, layout=da.blocks(0))
    with da.no_implicit_communication(), da.ledger() as log:
        gram = x.T @ x
        product = y @ y.mT
        contracted = np.tensordot(x, x, axes=(0, 0))
        square = np.vdot(x, x)
    assert log.bytes_moved == 0
    assert gram.mode == contracted.mode == square.mode == da.SUM
    assert product.mode == da.REPLICA
    same(gram, a.T @ a)
    same(product, stack @ np.swapaxes(stack, 1, 2))
    same(contracted, a.T @ a)
    same(square, np.vdot(a, a))


def test_grids_meet_as_in_cupyx(four):
    """Blocks on a 2 x 2 grid, each device holding the two that meet; the result is in SUM mode."""
    a, b = np.arange(64).reshape(8, 8), np.arange(64)[::-1].reshape(8, 8)
    low, high = slice(0, 4), slice(4, 8)
    x = da.asarray(a, layout={0: (low, low), 1: (low, high), 2: (high, low), 3: (high, high)})
    y = da.asarray(b, layout={0: (low, ...), 1: (high, ...), 2: (low, ...), 3: (high, ...)})
    with da.no_implicit_communication():
        z = x @ y
    assert z.mode == da.SUM
    same(z, a @ b)
    for layout in ({0: low, 2: high}, da.grid((2, 2)), da.cyclic(1, 3)):
        same(x @ y.reshard(layout), a @ b)


def test_partial_products_of_one_device_share_a_chunk(four):
    a = np.arange(64).reshape(8, 8)
    x = da.asarray(
        a, layout={0: [(slice(None), slice(0, 3)), (slice(None), slice(5, 8))], 1: (slice(None), slice(3, 5))}
    )
    with da.no_implicit_communication():
        z = x @ da.asarray(a, layout=da.replicated())
    assert {device: len(chunks) for device, chunks in z.all_chunks().items()} == {0: 1, 1: 1}
    same(z, a @ a)


def test_the_cheaper_way_is_taken(four):
    """Rows @ rows: square matrices gather the second; a long summed axis and a small result sum partial results."""
    a = np.ones((64, 64))
    x = da.asarray(a, layout=da.blocks(0))
    with da.ledger() as log:
        assert (x @ x).mode == da.REPLICA
    assert log.bytes_moved == 3 * a.nbytes
    wide, tall = np.ones((4, 4000)), np.ones((4000, 4))
    p, q = da.asarray(wide, layout=da.blocks(0)), da.asarray(tall, layout=da.blocks(0))
    with da.ledger() as log:
        z = p @ q
    assert z.mode == da.SUM
    assert log.bytes_moved == 3 * wide.nbytes // 4
    same(z, wide @ tall)


def test_large_products_of_replicas_are_shared(four):
    a = np.arange(300.0 * 200).reshape(300, 200) % 7
    x = da.asarray(a, layout=da.replicated())
    with da.no_implicit_communication():
        z = x @ x.T
    assert [r.shape for _, r in z.layout.chunks] == [(75, 300)] * 4
    same(z, a @ a.T)


def test_host_operands_are_placed_where_they_are_needed(four):
    a = np.arange(6400.0).reshape(80, 80) % 11
    for layout in (da.blocks(0), da.blocks(1), da.grid((2, 2)), da.replicated()):
        x = da.asarray(a, layout=layout)
        with da.no_implicit_communication():
            left, right = x @ a, a @ x
        same(left, a @ a)
        same(right, a @ a)


def test_nothing_is_gathered(ctx):
    """Devices with room for their shares and half as much again."""
    rows, k, columns = 4096, 128, 128
    share = rows // 4 * (k + columns) * 8 + k * columns * 8
    with da.init(devices=4, kind="host", memory_limit=int(1.5 * share)) as context:
        x = da.asarray(np.ones((rows, k)), layout=da.blocks(0))
        y = da.asarray(np.ones((k, columns)), layout=da.replicated())
        z = x @ y
        assert max(device.peak for device in context.devices) <= share
        assert float(z[0, 0]) == k
        gram = z.T @ z
        assert float(gram[3, 4]) == rows * k**2
        del z, gram
        with pytest.raises(MemoryError, match="matmul"):
            np.matmul(x, da.asarray(np.ones((k, 2 * columns)), layout=da.replicated()))
        assert float(x[0, 0]) == 1


LAYOUTS = {
    "rows": da.blocks(0), "columns": da.blocks(1), "blocks": da.grid((4, 2)), "cyclic": da.cyclic(0, 16),
    "one": {0: [(slice(None), slice(None))]}, "uneven": da.blocks(0, sizes=(200, 0, 56, 0, 64, 32, 16, 16)),
}  # fmt: skip


@pytest.mark.parametrize("second", LAYOUTS)
@pytest.mark.parametrize("first", ["rows", "columns", "blocks", "cyclic"])
def test_products_of_any_layouts_are_bounded_in_memory_and_traffic(first, second):
    """Every device has room for 2.5 times its share of both operands and the result; what an operand's own layout puts on
    one device counts besides."""
    n, p = 384, 8
    a, b = (np.random.default_rng(i).standard_normal((n, n)) for i in range(2))
    room = 2.5 * 3 * a.nbytes / p
    own = 0 if second not in ("one", "uneven") else a.nbytes
    with da.init(devices=p, kind="host", memory_limit=int(room + own)) as context:
        context.WHOLE = 0  # however small
        x, y = da.asarray(a, layout=LAYOUTS[first]), da.asarray(b, layout=LAYOUTS[second])
        held = {device.id: device.allocated for device in context.devices}
        for device in context.devices:
            device.reset_peak()
        with da.ledger() as log:
            z = x @ y
        np.testing.assert_allclose(z.get(), a @ b, rtol=1e-10, atol=1e-10)
        assert log.bytes_moved <= (p - 1) * a.nbytes
        for device in context.devices:
            assert device.peak <= max(room, held[device.id] + room / 2)


@pytest.mark.parametrize("p", [2, 4, 7])
@pytest.mark.parametrize("times", [1, 2, 3, 6, 12])
def test_sums_over_a_split_axis_are_bounded_also_when_they_are_folded(times, p):
    """Partial sums, beside what they are folded to, where the summed axis is longer than the others."""
    n = 120
    a, b = np.random.default_rng(0).standard_normal((2, n, times * n))
    room = 2.5 * (a.nbytes + b.nbytes + n * n * 8) / p
    with da.init(devices=p, kind="host", memory_limit=int(room)) as context:
        context.WHOLE = 0  # however small
        z = da.asarray(a, layout=da.blocks(1)) @ da.asarray(b.T, layout=da.blocks(0))
        folded = z.change_mode("replica")
        np.testing.assert_allclose(folded.get(), a @ b.T, rtol=1e-10, atol=1e-10)
        assert float(z.max()) == pytest.approx((a @ b.T).max())


@pytest.mark.parametrize("dtype", ["float64", "int32", "complex64", "float16"])
@pytest.mark.parametrize(("subscripts", "shapes"), [
    ("bij,bjk->bik", ((6, 9, 12), (6, 12, 5))), ("bij,jk->bik", ((6, 9, 12), (12, 40))), ("ijk,kjl->il", ((9, 6, 8), (8, 6, 7))),
    ("i,j->ij", ((30,), (40,))), ("ij,j->i", ((30, 50), (50,))), ("abi,ibc->ac", ((4, 6, 30), (30, 6, 33))),
    ("ijk,ljk->il", ((9, 6, 8), (90, 6, 8))),
])  # fmt: skip
def test_products_in_rounds_of_any_axes(subscripts, shapes, dtype):
    rng = np.random.default_rng(5)
    for n in (2, 3, 7):
        with da.init(devices=n, kind="host", minimum_chunk=1) as context:
            context.WHOLE = 0
            for _ in range(3):
                a, b = (rng.integers(-2, 3, shape).astype(dtype) for shape in shapes)
                x, y = (da.asarray(v, layout=any_layout(rng, v.shape, n)) for v in (a, b))
                np.testing.assert_array_equal(np.einsum(subscripts, x, y).get(), np.einsum(subscripts, a, b))
                np.testing.assert_array_equal(np.einsum(subscripts, x, b).get(), np.einsum(subscripts, a, b))


@pytest.mark.parametrize("layout", [da.blocks(0), da.blocks(1), da.replicated()])
def test_out(four, layout):
    a = np.arange(36.0).reshape(6, 6)
    x = da.asarray(a, layout=da.blocks(0))
    out = da.asarray(np.zeros((6, 6)), layout=layout)
    assert np.matmul(x, x, out=out) is out
    same(out, a @ a)
    assert np.matmul(x, x, out=x) is x
    same(x, a @ a)
    host = np.zeros((6, 6), np.float32)
    assert np.matmul(out, a, out=host) is host
    np.testing.assert_array_equal(host, np.matmul(a @ a, a).astype(np.float32))
    view = da.asarray(np.zeros((2, 8, 6)), layout=layout)
    np.matmul(a, out, out=view[:, 1:7])
    np.testing.assert_array_equal(view.get()[1, 1:7], a @ (a @ a))
    np.testing.assert_array_equal(view.get()[:, [0, 7]], 0)
    exact = da.asarray(np.zeros((6, 6)), layout=layout)
    assert np.dot(out, a, out=exact) is exact
    same(exact, (a @ a) @ a)


def test_dtype_and_casting(four):
    a = np.arange(16).reshape(4, 4)
    x = da.asarray(a, layout=da.blocks(1))
    same(np.matmul(x, x, dtype="float32"), np.matmul(a, a, dtype="float32"))
    same(np.matmul(x, x, dtype="int8", casting="unsafe"), np.matmul(a, a, dtype="int8", casting="unsafe"))
    for bad in ({"dtype": "int8", "casting": "safe"}, {"out": da.asarray(np.zeros((4, 4), bool))}):
        with pytest.raises(TypeError, match="Cannot cast"):
            np.matmul(x, x, **bad)


REFUSED = [
    (np.matmul, (2, 3), (2, 3)), (np.matmul, (3,), (2,)), (np.matmul, (), (3,)), (np.matmul, (3,), ()),
    (np.matmul, (2, 3, 4), (3, 4, 2)), (np.vecdot, (3,), (2,)), (np.vecdot, (), (2,)), (np.matvec, (3,), (3,)),
    (np.vecmat, (2, 3), (2, 3)), (np.dot, (2, 3), (2, 3)), (np.dot, (3,), (2,)), (np.inner, (2, 3), (3, 2)),
    (np.vdot, (3,), (2,)),
]  # fmt: skip


@pytest.mark.parametrize(("function", "first", "second"), REFUSED)
def test_refusals_in_numpys_words(four, function, first, second):
    a, b = np.ones(first), np.ones(second)
    with pytest.raises(ValueError) as theirs:
        function(a, b)
    with pytest.raises(ValueError) as ours:
        function(da.asarray(a), da.asarray(b))
    assert type(ours.value) is type(theirs.value)
    assert str(ours.value) == str(theirs.value)


def test_refused_arguments(four):
    x = da.asarray(np.ones((4, 4)))
    with pytest.raises(TypeError, match="single shared core dimension"):
        np.matmul(x, x, axis=0)
    with pytest.raises(ValueError, match="shape"):
        np.matmul(x, x, out=da.asarray(np.ones((4, 5))))
    with pytest.raises(ValueError, match="not acceptable"):
        np.dot(x, x, out=da.asarray(np.ones((4, 4), "float32")))
    with pytest.raises(ValueError, match="shape-mismatch"):
        np.tensordot(x, da.asarray(np.ones((3, 4))), axes=1)
    with pytest.raises(ValueError, match="duplicate axes"):
        np.tensordot(x, x, axes=([0, 0], [0, 1]))
    with pytest.raises(ValueError, match="one-dimensional"):
        np.linalg.outer(x, x)
    with pytest.raises(np.exceptions.AxisError):
        np.vecdot(x, x, axis=2)
    other = da.init(devices=2, kind=x.device.kind)
    with other, pytest.raises(da.errors.DeviceError):
        x @ da.asarray(np.ones((4, 4)))


@pytest.mark.parametrize("n", [1, 3, 4])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int64"])
def test_norms(ctx, n, dtype):
    rng = np.random.default_rng(n)
    with ctx(n):
        a = values(rng, (5, 6), dtype)
        x = place(rng, a, n)
        close = {"rtol": 1e-5 if dtype == "float32" else 1e-12}
        for kwargs in (
            *(
                {"ord": o, "axis": i, "keepdims": k}
                for o in (None, 2, 1, 0, 3, np.inf, -np.inf)
                for i in (0, -1)
                for k in (0, 1)
            ),
            *({"ord": o, "keepdims": k} for o in (None, "fro", 1, -1, np.inf, -np.inf) for k in (False, True)),
            {"axis": (1, 0), "ord": 1},
        ):
            ref, got = np.linalg.norm(a, **kwargs), np.linalg.norm(x, **kwargs)
            assert (got.shape, got.dtype) == (ref.shape, ref.dtype)
            np.testing.assert_allclose(got.get(), ref, **close)
        np.testing.assert_allclose(np.linalg.vector_norm(x, axis=(0, 1)).get(), np.linalg.vector_norm(a), **close)
        np.testing.assert_allclose(np.linalg.vector_norm(x, axis=0, ord=1).get(), abs(a).sum(0), **close)
        np.testing.assert_allclose(np.linalg.matrix_norm(x, keepdims=True).get(), [[np.linalg.norm(a)]], **close)
        same(np.linalg.matrix_transpose(x), a.T)


def test_a_loop_of_products_keeps_constant_memory(ctx):
    with da.init(devices=4, kind="host") as context:
        a = da.asarray(np.eye(256) * 0.5, layout=da.blocks(0))
        x = da.asarray(np.ones((256, 64)), layout=da.replicated())
        for _ in range(3):
            x = (a @ x).reshard(da.replicated())
        peak = max(device.peak for device in context.devices)
        for _ in range(10):
            x = (a @ x).reshard(da.replicated())
        assert max(device.peak for device in context.devices) == peak
        assert float(x[0, 0]) == 0.5**13


def tasks(todo: Contraction, problem: Problem, maps: tuple[Any, Any]) -> list[tuple[int, Region, Region, Region]]:
    """(device, region of the first operand, of the second, of the result) of every job."""
    rows = []
    for step, device, job in [(s, d, job) for s in todo.steps for d, jobs in s.jobs for job in jobs]:
        read = []
        for piece, own, brought in zip((job.a, job.b), maps, step.bring, strict=True):
            where = brought if piece.brought else own
            holder, region = where.chunks[piece.chunk]
            assert holder == device
            read.append(region if piece.key is None else region.compose(Region.from_index(piece.key, region.shape)))
        holder, result = todo.index_map.chunks[job.chunk]
        assert holder == device
        if job.key is not None:
            result = result.compose(Region.from_index(job.key, result.shape))
        rows.append((device, *read, result))
    return rows


@pytest.mark.parametrize("make", [plan, partial(rounds.plan, least=0)], ids=["in one step", "in bounded memory"])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
def test_plans_form_each_product_once(ctx, n, make):
    rng = np.random.default_rng(n)
    with ctx(n):
        for _ in range(60):
            m, k, p = (int(rng.integers(1, 9)) for _ in range(3))
            problem = Problem((m, k, p), (0, 1, 1, 1), (0, 1), (1, 2))
            x = da.asarray(np.zeros((m, k)), layout=any_layout(rng, (m, k), n))
            y = da.asarray(np.zeros((k, p)), layout=any_layout(rng, (k, p), n))
            todo = make(problem, x.layout, y.layout, (8, 8, 8))
            maps = (x.layout.index_map, y.layout.index_map)
            formed = np.zeros((m, k, p), int)
            for _, (i, j), (j2, q), result in tasks(todo, problem, maps):
                assert j == j2
                assert result == (i, q)
                formed[i.as_slice(), j.as_slice(), q.as_slice()] += 1
            redundant = not todo.partial and todo.index_map.is_replicated
            assert (formed == (len(todo.index_map.devices) if redundant else 1)).all()
            assert todo.partial == (not redundant and not todo.index_map.is_disjoint)


def test_planning_scales_with_the_number_of_blocks():
    """Thousands of blocks that don't meet are planned without looking at all pairs."""
    shape = (4096, 4096)
    cyclic = Layout(da.cyclic(0, 2).resolve(shape, range(4)), Mode.REPLICA)
    many = Layout(blocks(0).resolve(shape, range(1024)), Mode.REPLICA)
    whole = Layout(replicated().resolve(shape, range(1024)), Mode.REPLICA)
    problem = Problem((4096,) * 3, (0, 1, 1, 1), (0, 1), (1, 2))
    assert not plan(problem, cyclic, cyclic, (8, 8, 8)).partial
    assert len(plan(problem, many, whole, (8, 8, 8)).steps[0].jobs) == 1024


def test_warnings_are_numpys(four):
    a = np.full((4, 4), 1e200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_array_equal((da.asarray(a, layout=da.blocks(1)) @ a).get(), a @ a)
