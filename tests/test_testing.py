"""Simulated ranks: the shared cases, and what only they promise: no thread waits for ever, the first exception is ours."""

from __future__ import annotations

import contextvars
import importlib.util
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import distarray as da
from distarray.comm.base import Message, Signature
from distarray.errors import CollectiveMismatchError, PeerLostError, RemoteError
from distarray.testing import InProcessCommunicator, ranks, run_ranks


def _cases() -> Any:
    path = Path(__file__).with_name("comm") / "communicator_cases.py"
    spec = importlib.util.spec_from_file_location("communicator_cases", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


cases = _cases()
HERE = cases.HERE
SIZES = [2, 3, 4, 7]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", cases.names(cases.Healthy))
def test_healthy(name: str, size: int) -> None:
    run_ranks(size, getattr(cases.Healthy, name), deadline=20)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", cases.names(cases.Failing))
def test_failing(name: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if name.startswith("debug"):
        monkeypatch.setenv("DISTARRAY_DEBUG", "1")
    run_ranks(size, getattr(cases.Failing, name), deadline=0.6 if name == "one_is_late" else 10)


def test_one_rank() -> None:
    for name in ("all_pairs", "gathers", "barriers", "to_itself"):
        run_ranks(1, getattr(cases.Healthy, name))


def test_results_come_by_rank_and_see_the_callers_context() -> None:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)
    variable.set(5)

    def program(comm: InProcessCommunicator) -> int:
        time.sleep(0.01 * (comm.size - comm.rank))
        return variable.get() * 10 + comm.rank

    assert run_ranks(4, program) == [50, 51, 52, 53]


def test_the_first_real_exception_is_raised() -> None:
    seen: list[BaseException] = []

    def program(comm: InProcessCommunicator) -> None:
        if comm.rank == 2:
            raise KeyError("mine")
        try:
            comm.barrier(HERE)
        except RemoteError as error:
            seen.append(error)
            raise

    with pytest.raises(KeyError, match="mine") as caught:
        run_ranks(4, program, deadline=20)
    assert caught.value.__notes__ == ["raised by simulated rank 2 of 4"]
    assert len(seen) == 3 and all("KeyError" in str(error) and "rank 2" in str(error) for error in seen)


def test_an_early_return_is_noticed_at_once() -> None:
    start = time.monotonic()
    with pytest.raises(PeerLostError, match=r"rank 1 .*returned, while rank 0 waits.*call 0"):
        run_ranks(2, lambda comm: comm.barrier(HERE) if comm.rank == 0 else None, deadline=60)
    assert time.monotonic() - start < 5


def test_a_rank_that_never_ends_is_named() -> None:
    end = threading.Event()
    with pytest.raises(PeerLostError, match=r"ranks \[1\] still run"):
        run_ranks(2, lambda comm: comm.rank == 0 or end.wait(30), deadline=0.3)
    end.set()


def test_the_ring_buffer_is_written_on_a_time_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "dump.txt"
    monkeypatch.setenv("DISTARRAY_DUMP", str(path))

    def program(comm: InProcessCommunicator) -> None:
        for number in range(70):
            comm.barrier(Signature(f"step {number}"))
        if comm.rank:
            comm.exchange([], [Message(0, np.empty(3))], HERE)
        else:
            time.sleep(1)

    with pytest.raises(
        PeerLostError, match=r"(?s)waited 0.3 s in call 70.*last 8 calls of rank 1 of 2.*step 69.*timed out"
    ):
        run_ranks(2, program, deadline=0.3)
    text = path.read_text()
    assert "last 64 calls of rank 1" in text and "'step 7'" in text and "'step 6'" not in text


def test_the_deadline_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ranks(2)[0].deadline == 30
    monkeypatch.setenv("DISTARRAY_TIMEOUT", "7.5")
    assert ranks(2)[0].deadline == 7.5
    assert ranks(2, deadline=3)[0].deadline == 3
    with pytest.raises(ValueError, match="1 or more"):
        ranks(0)


def test_a_mismatch_reaches_ranks_that_it_does_not_concern() -> None:
    def program(comm: InProcessCommunicator) -> None:
        peer = comm.rank ^ 1
        if comm.rank < 2:
            comm.exchange([Message(peer, np.zeros(1 + comm.rank))], [Message(peer, np.zeros(1 + comm.rank))], HERE)
        else:
            comm.exchange([], [], HERE)
        comm.barrier(HERE)

    with pytest.raises(CollectiveMismatchError, match=r"sends \d+ bytes where rank \d receives \d+"):
        run_ranks(3, program, deadline=20)


def test_importing_distarray_does_not_import_mpi4py() -> None:
    import subprocess
    import sys

    code = (
        "import sys, distarray, distarray.comm.mpi.communicator, distarray.testing; assert 'mpi4py' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_numpys_checks_take_arrays() -> None:
    """Also those that NumPy makes by comparing objects, where they are no arrays to it."""
    with da.init(devices=3, kind="host"):
        x = da.asarray(np.arange(6.0).reshape(2, 3), layout=da.blocks(0))
        check = da.testing.assert_equal
        check(x, x.get())
        check([x, {"a": x}], [x.get(), {"a": x}])
        check(da.asarray([1.0, np.nan]), [1.0, np.nan])
        check(x.sum(), 15)
        da.testing.assert_almost_equal(x, x + 1e-12)
        for name in ("assert_equal", "assert_almost_equal", "assert_array_equal", "assert_allclose"):
            with pytest.raises(AssertionError):
                getattr(da.testing, name)(x, x + 1)
        with pytest.raises(AssertionError):
            check(x, x.astype("f4"), strict=True)
