"""The process group and the communicator on NCCL, for any number of processes: a GPU each.

    mpirun -n 2 python tests/groups/nccl_program.py mpi       the processes find each other through MPI
    mpirun -n 2 python tests/groups/nccl_program.py store     through the rendezvous store
    mpirun -n 2 python tests/groups/nccl_program.py shared    all on GPU 0: must be refused by name
    mpirun -n 2 python tests/groups/nccl_program.py lost      rank 1 stays away: deadline, abort, shrink
    mpirun -n 2 python tests/groups/nccl_program.py debug     debug mode finds plans that differ

Prints a line for each case and ends with status 1 where one failed. test_nccl.py runs the cases with one process.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128".split()
CASES: dict[str, Callable[[Any], None]] = {}


def case(function: Callable[[Any], None]) -> Callable[[Any], None]:
    CASES[function.__name__] = function
    return function


def dtype_of(name: str) -> np.dtype[Any]:
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def host(rank: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Small integers, whose sums are exact in every type; the same on every process for the same rank."""
    rng = np.random.default_rng(rank + 1)
    raw = np.asarray(rng.integers(0, 2 if dtype.kind == "b" else 5, shape))
    if dtype.kind == "c":
        return np.asarray(raw + 1j * rng.integers(0, 5, shape), dtype)
    return np.asarray(raw - 2 if dtype.kind == "i" else raw, dtype)


def gpu(array: np.ndarray[Any, Any]) -> Any:
    import cupy

    return cupy.asarray(array)


def expected(op: str, parts: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    dtype = parts[0].dtype
    if dtype.kind == "b":
        return np.any(parts, axis=0) if op in ("sum", "max") else np.all(parts, axis=0)
    wide = np.stack(parts).astype({"i": "i8", "u": "u8", "c": "c16"}.get(dtype.kind, "f8"))
    if op == "avg":
        total = wide.sum(0) / len(parts)
        return np.trunc(total).astype(dtype) if dtype.kind in "iu" else total.astype(dtype)
    return {"sum": wide.sum, "prod": wide.prod, "min": wide.min, "max": wide.max}[op](0).astype(dtype)


def same(got: Any, want: np.ndarray[Any, Any], note: str = "") -> None:
    import cupy

    found = cupy.asnumpy(got)
    assert found.dtype == want.dtype, f"{note}: {found.dtype} is not {want.dtype}"
    kind = np.complex128 if want.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(
        found.astype(kind), want.astype(kind), rtol=1e-2 if want.dtype.itemsize == 2 else 1e-6, err_msg=note
    )


def refused(kind: type[BaseException], text: str, call: Callable[[], object]) -> None:
    with pytest.raises(kind, match=text):
        call()


@case
def all_reduce_every_dtype_and_op(group: Any) -> None:
    import cupy

    for name in DTYPES:
        dtype = dtype_of(name)
        for op in ("sum", "prod", "min", "max", "avg"):
            if (dtype.kind == "c" and op not in ("sum", "avg")) or (dtype.kind == "b" and op == "avg"):
                continue
            for shape in [(), (0,), (7,), (3, 5), (100_003,)]:
                parts = [host(i, shape, dtype) for i in range(group.size)]
                src = gpu(parts[group.rank])
                out = cupy.zeros_like(src)
                group.all_reduce(src, out, op)
                group.all_reduce(src, src, op)
                same(out, expected(op, parts), f"{name} {op} {shape}")
                same(src, expected(op, parts), f"{name} {op} {shape} in place")


@case
def reduce_broadcast_each_root(group: Any) -> None:
    import cupy

    for name in DTYPES:
        dtype = dtype_of(name)
        for root in range(group.size):
            parts = [host(i, (50,), dtype) for i in range(group.size)]
            src = gpu(parts[group.rank])
            out = cupy.zeros_like(src) if group.rank == root else None
            group.reduce(src, out, root)
            if out is not None:
                same(out, expected("sum", parts), name)
            same(src, parts[group.rank], f"{name}: the input is as it was")
            group.broadcast(src, root)
            same(src, parts[root], name)


@case
def reduce_scatter_all_gather(group: Any) -> None:
    import cupy

    for name in DTYPES:
        dtype = dtype_of(name)
        for count in (0, 1, 1000):
            parts = [host(i, (group.size, count), dtype) for i in range(group.size)]
            out = cupy.zeros(count, dtype)
            group.reduce_scatter(gpu(parts[group.rank]), out, count)
            whole = expected("sum", parts)
            same(out, whole[group.rank], name)
            back = cupy.zeros((group.size, count), dtype)
            group.all_gather(out, back, count)
            same(back, whole, name)


@case
def messages(group: Any) -> None:
    import cupy

    n = group.size
    for name in DTYPES:
        dtype = dtype_of(name)
        whole = [host(i, (n, 2, 3), dtype) for i in range(n)]
        mine = gpu(whole[group.rank])
        out = cupy.zeros_like(mine)
        group.all_to_all(mine, out)
        same(out, np.stack([whole[i][group.rank] for i in range(n)]), name)
        for root in range(n):
            part = cupy.zeros((2, 3), dtype)
            group.scatter(mine if group.rank == root else None, part, root)
            same(part, whole[root][group.rank], name)
            back = cupy.zeros_like(mine) if group.rank == root else None
            group.gather(part, back, root)
            if back is not None:
                same(back, whole[root], name)
        peer = group.rank ^ 1 if group.rank ^ 1 < n else group.rank
        group.send_recv(mine, out, peer)
        same(out, whole[peer], name)
        if n > 1 and group.rank == 0:
            group.send(mine, 1)
            group.recv(out, 1)
            same(out, whole[1], name)
        elif group.rank == 1:
            group.recv(out, 0)
            same(out, whole[0], name)
            group.send(mine, 0)


@case
def fortran_order_and_streams(group: Any) -> None:
    import cupy

    parts = [host(i, (40, 30), np.dtype("f4")) for i in range(group.size)]
    src = cupy.asfortranarray(gpu(parts[group.rank]))
    out = cupy.zeros((40, 30), "f4", order="F")
    cupy.cuda.get_current_stream().synchronize()
    stream = cupy.cuda.Stream(non_blocking=True)
    group.all_reduce(src, out, stream=stream)
    wide = cupy.ones(4, "i2")
    group.all_reduce(wide, wide, stream=stream)
    stream.synchronize()
    same(out, expected("sum", parts))
    same(wide, np.full(4, group.size, "i2"))


@case
def every_array_of_every_call(group: Any) -> None:
    """Orders that differ between processes, which NCCL cannot compare, too."""
    import cupy

    path = Path(__file__).with_name("array_cases.py")
    spec = importlib.util.spec_from_file_location("array_cases", path)
    assert spec is not None and spec.loader is not None
    arrays = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(arrays)
    for function in (*arrays.CASES, arrays.reductions_in_orders_that_differ):
        function(group, cupy)
    held = cupy.zeros(4)

    class ReadOnly:
        __cuda_array_interface__ = {  # noqa: RUF012 - as the protocol has it
            **held.__cuda_array_interface__, "data": (held.data.ptr, True),
        }  # fmt: skip

    refused(ValueError, "read-only", lambda: group.all_reduce(cupy.ones(4), ReadOnly()))


@case
def foreign_arrays(group: Any) -> None:
    import cupy

    class Holder:
        def __init__(self, array: Any) -> None:
            self.array = array
            self.__cuda_array_interface__ = array.__cuda_array_interface__

    held = cupy.ones(5)
    group.all_reduce(Holder(held), Holder(held))
    same(held, np.full(5, float(group.size)))
    try:
        import torch
    except ImportError:
        return
    for kind in (torch.float32, torch.bfloat16, torch.int64):
        tensor = torch.full((4,), group.rank + 1, dtype=kind, device=f"cuda:{group.device}")
        group.all_reduce(tensor, tensor)
        torch.cuda.synchronize()
        assert tensor.tolist() == [sum(range(1, group.size + 1))] * 4, (kind, tensor)


@case
def sparse_matrices(group: Any) -> None:
    for form in ("csr", "csc", "coo"):
        for dtype in ("f4", "f8", "c8", "c16"):
            sparse_methods(group, form, dtype)


def sparse_methods(group: Any, form: str, dtype: str) -> None:
    import cupy
    import cupyx.scipy.sparse as sparse

    n, rank = group.size, group.rank

    def make(i: int) -> Any:
        rng = np.random.default_rng(7 + i)
        dense = rng.integers(1, 9, (4, 4)) * (rng.random((4, 4)) < 0.2 + 0.1 * i)
        return getattr(sparse, f"{form}_matrix")(cupy.asarray(dense.astype(dtype)))

    def blank() -> Any:
        return getattr(sparse, f"{form}_matrix")((1, 1), dtype=dtype)

    def equal(got: Any, want: Any) -> None:
        assert got.format == form and got.dtype == dtype and got.shape == want.shape, (got.format, got.dtype, got.shape)
        np.testing.assert_allclose(cupy.asnumpy(got.toarray()), cupy.asnumpy(want.toarray()), rtol=1e-5)

    total, product = make(0), make(0)
    for i in range(1, n):
        total, product = total + make(i), product @ make(i)
    out = blank()
    group.all_reduce(make(rank), out)
    equal(out, total)
    group.all_reduce(make(rank), out, "prod")
    equal(out, product)
    out = blank()
    group.reduce(make(rank), out if rank == n - 1 else None, n - 1)
    if rank == n - 1:
        equal(out, total)
    out = make(0) if rank == 0 else blank()
    group.broadcast(out, 0)
    equal(out, make(0))
    group.scatter([make(i) for i in range(n)] if rank == 0 else None, out, 0)
    equal(out, make(rank))
    for method in ("gather", "all_gather", "all_to_all"):
        filled: list[Any] = []
        if method == "gather":
            group.gather(make(rank), filled, 0)
        elif method == "all_gather":
            group.all_gather(make(rank), filled, 0)
        else:
            group.all_to_all([make(rank + i) for i in range(n)], filled)
        assert len(filled) == (n if method != "gather" or rank == 0 else 0)
        for i, got in enumerate(filled):
            equal(got, make(rank + i) if method == "all_to_all" else make(i))
    group.reduce_scatter([make(i) for i in range(n)], out, 0)
    equal(out, make(rank) * n)
    peer = rank ^ 1 if rank ^ 1 < n else rank
    group.send_recv(make(rank), out, peer)
    equal(out, make(peer))
    refused(ValueError, "only supports sum/prod", lambda: group.all_reduce(make(0), out, "max"))


@case
def wrong_arguments(group: Any) -> None:
    import cupy

    ones = cupy.ones(4)
    refused(ValueError, "dtype float64 and out_array has float32", lambda: group.all_reduce(ones, cupy.ones(4, "f4")))
    refused(ValueError, "4 elements", lambda: group.all_reduce(ones, cupy.ones(5)))
    refused(ValueError, "neither C- nor F", lambda: group.all_reduce(cupy.ones(8)[::2], ones))
    refused(ValueError, "need C-contiguous", lambda: group.all_reduce(cupy.ones(6), cupy.ones((2, 3), order="F")))
    whole = cupy.ones(9)
    refused(ValueError, "share memory", lambda: group.all_reduce(whole[:8], whole[1:]))
    refused(TypeError, "host memory", lambda: group.all_reduce(np.ones(4), ones))
    refused(TypeError, "an array is needed", lambda: group.all_reduce([1.0], ones))
    refused(TypeError, "stream", lambda: group.all_reduce(ones, ones, stream="0"))
    refused(ValueError, "only 'sum' and 'avg'", lambda: group.all_reduce(ones + 0j, ones + 0j, "max"))
    refused(ValueError, "Unknown op", lambda: group.all_reduce(ones, ones, "xor"))
    if cupy.cuda.runtime.getDeviceCount() > 1:
        other = (group.device + 1) % cupy.cuda.runtime.getDeviceCount()
        with cupy.cuda.Device(other):
            away = cupy.ones(4)
        refused(ValueError, f"is on GPU {other}", lambda: group.all_reduce(away, away))
    group.barrier()


@case
def the_communicator_of_arrays(group: Any) -> None:
    import cupy

    from distarray.comm.base import Message, Signature

    comm = group.communicator
    n, rank = comm.size, comm.rank
    for elements in (1, 1000, 3_000_001):
        out = [cupy.full(elements, 10 * rank + peer, "u2") for peer in range(n)]
        back = [cupy.zeros(elements, "u2") for _ in range(n)]
        comm.exchange(
            [Message(peer, out[peer]) for peer in range(n)],
            [Message(peer, back[peer]) for peer in range(n)],
            Signature("test"),
        )
        comm.wait()
        for peer in range(n):
            same(back[peer], np.full(elements, 10 * peer + rank, "u2"))
    comm.exchange([], [], Signature("nothing"))
    assert comm.all_gather(bytes([rank]), Signature("gather")) == [bytes([i]) for i in range(n)]
    comm.barrier(Signature("barrier"))
    refused(
        ValueError,
        "ascontiguousarray",
        lambda: comm.exchange([Message(0, cupy.ones(6)[::2])], [], Signature("strided")),
    )
    refused(ValueError, "one for each", lambda: comm.exchange([Message(n, cupy.ones(6))], [], Signature("peer")))


@case
def more_than_2_31_elements(group: Any) -> None:
    import cupy

    if cupy.cuda.Device().mem_info[0] < 3 * (1 << 31) + (1 << 30):
        return
    n = (1 << 31) + 5
    big = cupy.full(n, group.rank + 1, "i1")
    group.all_reduce(big, big, "max")
    assert int(big[-1]) == group.size and int(big.min()) == group.size
    cupy.get_default_memory_pool().free_all_blocks()


def call_costs(group: Any) -> tuple[float, float]:
    """Microseconds that one all_reduce of 4 KiB takes its caller, and that the binding's call alone takes; the least of rounds
    in turns."""
    import cupy

    from distarray.comm.nccl.binding import OP, TYPE

    src, out = cupy.ones(1024, "f4"), cupy.zeros(1024, "f4")
    where = int(cupy.cuda.get_current_stream().ptr)
    arguments = (src.data.ptr, out.data.ptr, src.size, TYPE["float32"], OP["sum"], where)
    ways = (lambda: group.all_reduce(src, out)), (lambda: group.communicator.calls.all_reduce(*arguments))
    best = [float("inf")] * 2
    for turn in range(60):
        cupy.cuda.Device().synchronize()
        way = ways[turn % 2]
        start = time.perf_counter()
        for _ in range(200):
            way()
        best[turn % 2] = min(best[turn % 2], (time.perf_counter() - start) / 200 * 1e6)
    cupy.cuda.Device().synchronize()
    return best[0], best[1]


# ---- as a program


def run(group: Any) -> int:
    failed = 0
    for name, function in CASES.items():
        try:
            function(group)
            print(f"rank {group.rank}: {name} ok", flush=True)
        except Exception:
            failed += 1
            print(f"rank {group.rank}: {name} FAILED\n{traceback.format_exc()}", flush=True)
    cost, bare = call_costs(group)
    print(f"rank {group.rank}: all_reduce of 4 KiB costs {cost:.1f} µs a call, {bare:.1f} bare", flush=True)
    return failed


def lost(group: Any) -> None:
    """Rank 1 never comes: the others' wait ends by the deadline, and they go on without it."""
    import cupy

    from distarray.errors import PeerLostError

    x = cupy.ones(1 << 20)
    group.all_reduce(x, x)
    group.communicator.wait()
    if group.rank == 1:
        time.sleep(20)
        os._exit(0)
    start = time.monotonic()
    group.all_reduce(x, x)
    refused(PeerLostError, "did not end within", group.communicator.wait)
    took = time.monotonic() - start
    assert took < 10, took
    refused(PeerLostError, "given up", lambda: group.all_reduce(x, x))
    survivors = [rank for rank in range(group.size) if rank != 1]
    smaller = group.communicator.shrink(survivors)
    assert smaller.size == group.size - 1
    print(f"rank {group.rank}: lost ok after {took:.2f} s, {smaller.size} of {group.size} left", flush=True)
    os._exit(0)


def debug(group: Any) -> None:
    """With DISTARRAY_DEBUG=1, processes that would exchange by different plans of equal sizes find it before they do."""
    import cupy

    from distarray.comm.base import Message, Signature
    from distarray.errors import CollectiveMismatchError

    comm, n, rank = group.communicator, group.size, group.rank
    into = cupy.zeros(4)
    signature = Signature("reshard", "plan of rows" if rank else "plan of columns", f"program.py:{rank}")
    sends, receives = [Message((rank + 1) % n, cupy.ones(4))], [Message((rank - 1) % n, into)]
    refused(
        CollectiveMismatchError,
        r"plan of (rows|columns)\) at program.py",
        lambda: comm.exchange(sends, receives, signature),
    )
    assert not into.any()
    print(f"rank {rank}: debug ok", flush=True)
    os._exit(0)


def main() -> None:
    import cupy

    from distarray.errors import DeviceError
    from distarray.groups.join import init_process_group

    get = os.environ.get
    size = int(get("OMPI_COMM_WORLD_SIZE") or get("PMI_SIZE") or "1")
    rank = int(get("OMPI_COMM_WORLD_RANK") or get("PMI_RANK") or "0")
    how = sys.argv[1] if len(sys.argv) > 1 else "mpi"
    os.environ.setdefault("DISTARRAY_SECRET", "only for this test on one machine")
    if how == "lost":
        os.environ["DISTARRAY_TIMEOUT"] = "4"
    if how == "debug":
        os.environ["DISTARRAY_DEBUG"] = "1"
    cupy.cuda.Device(0 if how == "shared" else rank % cupy.cuda.runtime.getDeviceCount()).use()
    if how == "shared":
        refused(DeviceError, "ranks 0 and 1 .* are both on GPU", lambda: init_process_group(size, rank))
        print(f"rank {rank}: shared ok", flush=True)
        return None
    start = time.perf_counter()
    group = init_process_group(size, rank, use_mpi=how == "mpi")
    with group:
        binding = group.communicator.binding
        print(
            f"rank {rank}: formed in {time.perf_counter() - start:.2f} s, {binding.name}, NCCL {binding.version}",
            flush=True,
        )
        if how in ("lost", "debug"):
            return (lost if how == "lost" else debug)(group)
        failed = run(group)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
