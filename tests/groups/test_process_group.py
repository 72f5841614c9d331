"""The process group on backend "mpi", in real processes under ``mpiexec``; and what is refused before any are needed.

This file is also the program that the processes run: ``mpiexec -n 3 python test_process_group.py good`` runs every case
below and prints a line for each. Programs in which a group is to fail are in `group_faults`.
"""

from __future__ import annotations

import array as stdlib_array
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from conformance.launching import DEEP
from distarray.groups.base import ProcessGroup
from distarray.groups.join import init_process_group

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES = ["bool", *INTEGERS, "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
CASES: dict[str, Callable[[ProcessGroup], None]] = {}

SIZES = [2, 3] if DEEP else [3]
"""Of the groups that are to fail: each starts its processes anew."""

FAULTS = Path(__file__).with_name("group_faults.py")
ROOT = Path(__file__).parents[2]

HAVE_MPI = importlib.util.find_spec("mpi4py") is not None
needs_mpi = pytest.mark.skipif(not HAVE_MPI, reason="needs mpi4py and an MPI library: pip install mpi4py mpich")


def case(function: Callable[[ProcessGroup], None]) -> Callable[[ProcessGroup], None]:
    CASES[function.__name__] = function
    return function


def array_cases() -> ModuleType:
    """This file is run as a program too, which has no package."""
    spec = importlib.util.spec_from_file_location("array_cases", Path(__file__).with_name("array_cases.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def programs(kind: str) -> tuple[str, ...]:
    """The names of the programs in `group_faults` with a decorator."""
    return tuple(re.findall(rf"^@{kind}\b.*\ndef (\w+)", FAULTS.read_text(), re.MULTILINE))


def dtype_of(name: str) -> np.dtype[Any]:
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def values(rank: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The same on every process for the same rank."""
    rng = np.random.default_rng(100 + rank)
    raw = np.asarray(rng.integers(0, 2 if dtype.kind == "b" else 100, shape))
    if dtype.kind == "i":
        raw = np.asarray(raw - 50)
    if dtype.kind == "c":
        return np.asarray(raw + 1j * rng.integers(-9, 9, shape), dtype)
    return np.asarray(raw, dtype)


def expected(op: str, parts: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    dtype = parts[0].dtype
    if dtype.itemsize == 2 and dtype.kind not in "iu":
        parts = [part.astype(np.float32) for part in parts]
    stacked = np.stack(parts)
    if dtype.kind == "b":
        return stacked.any(0) if op in ("sum", "max") else stacked.all(0)
    with np.errstate(all="ignore"):
        if op in ("sum", "avg"):
            total = stacked.sum(0, dtype=stacked.dtype)
            if op == "avg":
                # an independent path to truncation: through exact rational arithmetic of Python's integers
                if dtype.kind in "iu":
                    flat = [abs(int(v)) // len(parts) * (1 if int(v) >= 0 else -1) for v in total.ravel()]
                    return np.array(flat, dtype).reshape(total.shape)
                total = total / len(parts)
        elif op == "prod":
            total = stacked.prod(0, dtype=stacked.dtype)
        else:
            total = getattr(stacked, op)(0)
        return total.astype(dtype)


def raises(kind: type[BaseException], text: str, call: Callable[[], object]) -> None:
    with pytest.raises(kind, match=text):
        call()


# ---- the cases, each run by all processes together


@case
def all_reduce_every_dtype_and_op(group: ProcessGroup) -> None:
    for name in DTYPES:
        dtype = dtype_of(name)
        for op in ("sum", "prod", "min", "max", "avg"):
            if (dtype.kind == "c" and op not in ("sum", "avg")) or (dtype.kind == "b" and op == "avg"):
                continue
            large = [(1 << 16,)] if name in ("int8", "bfloat16", "float64", "complex64") and op != "avg" else []
            for shape in [(), (0,), (7,), (3, 5), *large]:
                parts = [values(i, shape, dtype) for i in range(group.size)]
                out = np.zeros(shape, dtype)
                group.all_reduce(parts[group.rank], out, op)
                want = expected(op, parts)
                np.testing.assert_allclose(
                    out.astype(np.complex128), want.astype(np.complex128), rtol=1e-6, err_msg=f"{name} {op} {shape}"
                )


@case
def all_reduce_gives_every_process_the_same_bits(group: ProcessGroup) -> None:
    mine = np.random.default_rng(group.rank).standard_normal(100_001)
    group.all_reduce(mine, mine)  # in place
    everyone = np.empty((group.size, mine.size))
    group.all_gather(mine, everyone, mine.size)
    for other in everyone:
        assert other.tobytes() == mine.tobytes()


@case
def fortran_order_is_kept(group: ProcessGroup) -> None:
    parts = [np.asfortranarray(values(i, (40, 300), np.dtype("f4"))) for i in range(group.size)]
    out = np.zeros((40, 300), "f4", order="F")
    group.all_reduce(parts[group.rank], out)
    np.testing.assert_array_equal(out, sum(parts))


@case
def every_array_of_every_call(group: ProcessGroup) -> None:
    for arrays in array_cases().CASES:
        arrays(group, np)


@case
def reduce_to_each_root(group: ProcessGroup) -> None:
    for root in range(group.size):
        for n in (5, 100_000):
            parts = [values(i, (n,), np.dtype("i8")) for i in range(group.size)]
            mine = parts[group.rank].copy()
            out = np.zeros(n, "i8") if group.rank == root else None
            group.reduce(mine, out, root, "max")
            np.testing.assert_array_equal(mine, parts[group.rank])
            if out is not None:
                np.testing.assert_array_equal(out, np.max(parts, axis=0))
            if group.rank == root:
                group.reduce(mine, mine, root)
                np.testing.assert_array_equal(mine, sum(parts))
            else:
                group.reduce(mine, None, root)


@case
def broadcast_from_each_root(group: ProcessGroup) -> None:
    for name in DTYPES:
        for root in range(group.size):
            for n in (3, 70_001):
                dtype = dtype_of(name)
                mine = values(group.rank, (n,), dtype)
                group.broadcast(mine, root)
                np.testing.assert_array_equal(mine, values(root, (n,), dtype))


@case
def reduce_scatter_and_all_gather(group: ProcessGroup) -> None:
    for count in (0, 1, 10, 40_000):
        parts = [values(i, (group.size, count), np.dtype("f8")) for i in range(group.size)]
        out = np.zeros(count)
        group.reduce_scatter(parts[group.rank], out, count)
        np.testing.assert_array_equal(out, sum(parts)[group.rank])
        back = np.zeros((group.size, count))
        group.all_gather(out, back, count)
        np.testing.assert_array_equal(back, sum(parts))
        back[group.rank] = group.rank
        group.all_gather(back[group.rank], back, count)  # in place
        np.testing.assert_array_equal(back, np.repeat(np.arange(group.size), count).reshape(back.shape))


@case
def send_and_recv_in_a_ring(group: ProcessGroup) -> None:
    if group.size == 1:
        raises(ValueError, "is this process", lambda: group.send(np.zeros(1), 0))
        return
    following, before = (group.rank + 1) % group.size, (group.rank - 1) % group.size
    for n in (1, 300_000):
        mine, out = np.full(n, group.rank, "u2"), np.zeros(n, "u2")
        if group.rank % 2 == 0 and group.rank != group.size - 1:
            group.send(mine, following)
            group.recv(out, before)
        else:
            group.recv(out, before)
            group.send(mine, following)
        np.testing.assert_array_equal(out, np.full(n, before, "u2"))


@case
def send_recv_with_oneself_and_a_partner(group: ProcessGroup) -> None:
    partner = group.rank ^ 1
    for peer in {group.rank, partner if partner < group.size else group.rank}:
        out = np.zeros(4, "c8")
        group.send_recv(np.full(4, group.rank, "c8"), out, peer)
        np.testing.assert_array_equal(out, np.full(4, peer, "c8"))


@case
def scatter_gather_all_to_all(group: ProcessGroup) -> None:
    n = group.size
    for root in range(n):
        whole = np.arange(n * 6, dtype="i4").reshape(n, 2, 3) + root
        out = np.zeros((2, 3), "i4")
        group.scatter(whole if group.rank == root else None, out, root)
        np.testing.assert_array_equal(out, whole[group.rank])
        back = np.zeros((n, 2, 3), "i4") if group.rank == root else None
        group.gather(out, back, root)
        if back is not None:
            np.testing.assert_array_equal(back, whole)
    mine = np.arange(n * 3).reshape(n, 3) + 100 * group.rank
    out = np.zeros_like(mine)
    group.all_to_all(mine, out)
    np.testing.assert_array_equal(out, [np.arange(3) + 3 * group.rank + 100 * i for i in range(n)])


@case
def barrier_waits_for_the_slowest(group: ProcessGroup) -> None:
    for slow in range(group.size):
        group.barrier()
        start = time.monotonic()
        if group.rank == slow:
            time.sleep(0.2)
        group.barrier()
        assert time.monotonic() - start > 0.15


@case
def anything_with_a_buffer(group: ProcessGroup) -> None:
    out = bytearray(3)
    group.all_reduce(stdlib_array.array("B", [1, 2, 3]), out)
    assert list(out) == [group.size, 2 * group.size, 3 * group.size]

    class Holder:
        def __init__(self, array: np.ndarray[Any, Any]) -> None:
            self.array = array

        def __dlpack__(self, **options: Any) -> Any:
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    held = np.zeros(2, "f4")
    group.all_reduce(Holder(np.ones(2, "f4")), Holder(held))
    np.testing.assert_array_equal(held, [group.size] * 2)


@case
def torch_tensors(group: ProcessGroup) -> None:
    if importlib.util.find_spec("torch") is None:
        return
    import torch

    for dtype in (torch.float32, torch.bfloat16):
        tensor = torch.full((4,), float(group.rank), dtype=dtype)
        group.all_reduce(tensor, tensor)
        assert tensor.tolist() == [sum(range(group.size))] * 4


@case
def wrong_arguments_send_nothing(group: ProcessGroup) -> None:
    n, ones = group.size, np.ones(4)
    raises(ValueError, "dtype float64 and out_array has float32", lambda: group.all_reduce(ones, np.ones(4, "f4")))
    raises(ValueError, "4 elements .* has 5", lambda: group.all_reduce(ones, np.ones(5)))
    raises(ValueError, "need C-contiguous", lambda: group.all_reduce(np.ones(6), np.ones((2, 3), order="F")))
    raises(ValueError, "neither C- nor F", lambda: group.all_reduce(np.ones(8)[::2], ones))
    raises(ValueError, "share memory", lambda: overlapping(group))
    raises(ValueError, "read-only", lambda: group.all_reduce(ones, frozen(ones)))
    raises(ValueError, "Unknown op 'median'", lambda: group.all_reduce(ones, ones, "median"))
    raises(ValueError, "only 'sum' and 'avg'", lambda: group.all_reduce(ones + 0j, ones + 0j, "max"))
    raises(ValueError, "avg' does not work on bool", lambda: group.all_reduce(ones > 0, ones > 0, "avg"))
    raises(TypeError, "is a list; an array", lambda: group.all_reduce([1.0], ones))
    raises(TypeError, "dtype", lambda: group.broadcast(np.array(["a"])))
    raises(TypeError, "dtype", lambda: group.broadcast(np.ones(3, ">f4")))
    raises(ValueError, f"root = {n} is not a rank", lambda: group.broadcast(ones, n))
    raises(ValueError, "root = -1", lambda: group.reduce(ones, ones, -1))
    raises(TypeError, "peer must be an integer", lambda: group.send(ones, 0.5))
    raises(ValueError, "peer", lambda: group.send(ones, group.rank))
    raises(
        ValueError,
        f"scatter requires in_array to have {n} elements",
        lambda: group.scatter(np.ones((n + 1, 2)), np.ones(2), group.rank),
    )
    raises(ValueError, r"in_array\[i\] has 3", lambda: group.scatter(np.ones((n, 3)), np.ones(2), group.rank))
    raises(ValueError, "gather requires out_array", lambda: group.gather(ones, np.ones((n + 1, 4)), group.rank))
    raises(ValueError, "all_to_all requires in_array", lambda: group.all_to_all(np.ones(n + 1), np.ones(n + 1)))
    raises(ValueError, f"needs {3 * n} elements", lambda: group.all_gather(np.ones(3), np.ones(3 * n - 1), 3))
    raises(ValueError, "negative", lambda: group.reduce_scatter(ones, ones, -1))
    raises(TypeError, "count", lambda: group.reduce_scatter(ones, ones, 1.5))
    group.barrier()  # and the group is none the worse


def overlapping(group: ProcessGroup) -> None:
    memory = np.ones(9)
    group.all_reduce(memory[:8], memory[1:])


def frozen(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def matrix(rank: int, form: str, dtype: str = "f8", array: bool = False) -> Any:
    import scipy.sparse

    rng = np.random.default_rng(7 + rank)
    dense = rng.integers(1, 9, (4, 4)) * (rng.random((4, 4)) < 0.2 + 0.1 * rank)
    kind = getattr(scipy.sparse, f"{form}_{'array' if array else 'matrix'}")
    return kind(dense.astype(dtype))


@case
def sparse_matrices(group: ProcessGroup) -> None:
    for form in ("csr", "csc", "coo"):
        for dtype in ("f4", "f8", "c8", "c16"):
            for array in (False, True):
                every_method_on_sparse(group, form, dtype, array)


def every_method_on_sparse(group: ProcessGroup, form: str, dtype: str, array: bool) -> None:
    n, rank = group.size, group.rank

    def make(i: int) -> Any:
        return matrix(i, form, dtype, array)

    def blank() -> Any:
        return type(make(0))((1, 1), dtype=dtype)

    def same(got: Any, want: Any) -> None:
        assert got.format == form and got.dtype == dtype and got.shape == want.shape
        np.testing.assert_allclose(got.toarray(), want.toarray(), rtol=1e-5)

    total, product = make(0), make(0)
    for i in range(1, n):
        total, product = total + make(i), product @ make(i)

    out = blank()
    group.all_reduce(make(rank), out)
    same(out, total)
    group.all_reduce(make(rank), out, "prod")
    same(out, product)
    out = blank()
    group.reduce(make(rank), out if rank == n - 1 else None, n - 1)
    if rank == n - 1:
        same(out, total)
    out = make(0) if rank == 0 else blank()
    group.broadcast(out, 0)
    same(out, make(0))
    out = blank()
    group.scatter([make(i) for i in range(n)] if rank == n - 1 else None, out, n - 1)
    same(out, make(rank))
    filled: list[Any] = []
    group.gather(make(rank), filled, 0)
    assert len(filled) == (n if rank == 0 else 0)
    for i, got in enumerate(filled):
        same(got, make(i))
    filled = []
    group.all_gather(make(rank), filled, 0)
    for i in range(n):
        same(filled[i], make(i))
    filled = []
    group.all_to_all([make(rank + i) for i in range(n)], filled)
    for i in range(n):
        same(filled[i], make(rank + i))
    out = blank()
    group.reduce_scatter([make(i) for i in range(n)], out, 0)
    same(out, make(rank) * n)
    peer = rank ^ 1 if rank ^ 1 < n else rank
    group.send_recv(make(rank), out, peer)
    same(out, make(peer))
    if n > 1 and rank == 0:
        group.send(make(5), 1)
    elif rank == 1:
        group.recv(out, 0)
        same(out, make(5))


@case
def sparse_arguments(group: ProcessGroup) -> None:
    import scipy.sparse

    a = matrix(0, "csr")
    raises(ValueError, "only supports sum/prod", lambda: group.all_reduce(a, a.copy(), "max"))
    raises(ValueError, "must be an empty list", lambda: group.all_gather(a, [1], 0))
    raises(ValueError, f"list of {group.size}", lambda: group.all_to_all([a] * (group.size + 1), []))
    raises(TypeError, "bsr format", lambda: group.broadcast(scipy.sparse.bsr_matrix(a)))
    raises(TypeError, "needs a sparse matrix", lambda: group.all_reduce(a, np.zeros((4, 4))))
    raises(ValueError, "square", lambda: group.all_reduce(a[:2], a[:2], "prod"))
    group.barrier()


@case
def large_arrays(group: ProcessGroup) -> None:
    mine = np.full(3_000_001, group.rank + 1, "f4")
    out = np.empty_like(mine)
    group.all_reduce(mine, out)
    np.testing.assert_array_equal(out, np.full_like(mine, sum(range(1, group.size + 1))))


# ---- under pytest


def test_what_no_group_can_be() -> None:
    for n in (0, -1):
        with pytest.raises(ValueError, match=f"Invalid number of devices {n}"):
            init_process_group(n, 0)
    for rank in (-1, 3):
        with pytest.raises(ValueError, match=f"Invalid number of rank {rank} 2"):
            init_process_group(2, rank)
    with pytest.raises(ValueError, match="gloo is not supported"):
        init_process_group(1, 0, backend="gloo")
    with pytest.raises(TypeError, match="rank must be an integer, not float"):
        init_process_group(1, 0.0)  # type: ignore[arg-type]


def test_nccl_without_a_gpu_says_what_is_missing() -> None:
    from distarray.devices.gpus import gpu_count

    if gpu_count():
        pytest.skip("there is a GPU here")
    with pytest.raises(RuntimeError, match=r"NCCL is not available: .*"):
        init_process_group(1, 0)
    with pytest.raises(RuntimeError, match=r"NCCL is not available: .*"):
        init_process_group(1, 0, use_mpi=True)


def test_mpi_without_mpi4py_says_so() -> None:
    if HAVE_MPI:
        script = "import sys; sys.modules['mpi4py'] = None\n"  # an interpreter without it, as far as imports can tell
    else:
        script = ""
    script += (
        "from distarray.groups.join import init_process_group\n"
        "try: init_process_group(1, 0, backend='mpi')\n"
        "except RuntimeError as error: assert 'mpi4py cannot be used' in str(error), error\n"
        "else: raise SystemExit('no error')\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_importing_brings_no_library() -> None:
    script = (
        "import distarray, distarray.groups.join, sys\n"
        "assert not {'mpi4py', 'cupy', 'torch', 'scipy', 'nccl'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def launch(
    n: int, *arguments: str, timeout: float = 240, deadline: float = 20, debug: bool = False, program: str = __file__
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(Path(program).resolve()), *arguments]
    if n > 1:
        beside = Path(sys.executable).parent / "mpiexec"
        mpiexec = str(beside) if beside.exists() else shutil.which("mpiexec")
        assert mpiexec, "mpi4py is here but no mpiexec: pip install mpich"
        root = ["--allow-run-as-root", "--oversubscribe"] if is_open_mpi(mpiexec) else []
        command = [mpiexec, *root, "-n", str(n), *command]
    environment = dict(os.environ, DISTARRAY_TIMEOUT=str(deadline), OMP_NUM_THREADS="1")
    environment |= {"DISTARRAY_DEBUG": "1" if debug else "", "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment)


@cache
def is_open_mpi(mpiexec: str) -> bool:
    return "Open MPI" in subprocess.run([mpiexec, "--version"], capture_output=True, text=True, timeout=60).stdout


@cache
def outcomes(n: int, debug: bool = False) -> dict[str, str]:
    """What became of each case on n processes: "" or the traceback of each process where it failed."""
    done = launch(n, "good", debug=debug)
    found: dict[str, str] = {}
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            record = json.loads(line)
            found[record["case"]] = found.get(record["case"], "") + record["error"]
    found["exit"] = (
        "" if done.returncode == 0 else f"exit {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    )
    return found


@needs_mpi
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("name", [*CASES, "exit"])
def test_case(name: str, n: int) -> None:
    found = outcomes(n)
    assert name in found, f"the case did not run: {found['exit']}"
    assert not found[name], found[name]


@needs_mpi
def test_cases_in_debug_mode() -> None:
    found = outcomes(2, True)
    assert set(found) == {*CASES, "exit"} and not any(found.values()), found


@cache
def held(n: int, kind: str, names: tuple[str, ...], debug: bool = False, deadline: float = 4) -> tuple[list[str], str]:
    """The lines that say whose assertions held, and all that the processes said, which run the programs one after another."""
    done = launch(n, kind, *names, timeout=280, deadline=deadline, debug=debug, program=str(FAULTS))
    return done.stdout.splitlines(), f"{done.stdout}\n{done.stderr}"


def hold(ranks: list[int], name: str, found: tuple[list[str], str]) -> None:
    lines, text = found
    assert sorted(line for line in lines if line.startswith(f"OK {name} ")) == [
        f"OK {name} {rank}" for rank in ranks
    ], text


@needs_mpi
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", programs("fault"))
def test_fault(name: str, n: int) -> None:
    hold([*range(n)], name, held(n, "fault", programs("fault")))


@needs_mpi
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", programs("departs"))
def test_one_that_departs_is_told_of(name: str, n: int) -> None:
    found = held(n, "fault", (name,), deadline=8)
    assert "AssertionError" not in found[1], found[1]
    hold([*range(n - 1)], name, found)


@needs_mpi
@pytest.mark.parametrize(("n", "debug"), list(product(SIZES, [False, True])) if DEEP else [(2, True), (3, False)])
@pytest.mark.parametrize("name", programs("differing"))
def test_calls_that_differ(name: str, n: int, debug: bool) -> None:
    hold([*range(n)], name, held(n, "differ", programs("differing"), debug))


@needs_mpi
def test_a_refused_call_in_debug_mode() -> None:
    hold([0, 1], "refused_on_one", held(2, "fault", ("refused_on_one",), True))


def main() -> None:
    from mpi4py import MPI

    n, rank = MPI.COMM_WORLD.Get_size(), MPI.COMM_WORLD.Get_rank()
    with init_process_group(n, rank, backend="mpi") as group:
        assert (group.rank, group.size, group.n_devices) == (rank, n, n)
        for name, function in CASES.items():
            error = ""
            try:
                function(group)
            except Exception:
                error = f"rank {rank}: {traceback.format_exc()}\n"
            sys.stdout.write(json.dumps({"case": name, "error": error}) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
