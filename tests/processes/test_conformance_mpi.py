"""The conformance suite under a real mpiexec, every rank in the same pytest session; and that session's own promise: a
test that is wrong on one rank alone fails on all of them, with the same shrunk example, and the next test goes on.

``DISTARRAY_DEEP=1`` runs all of it, with more examples.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from conformance.launching import DEEP, MPIEXEC, mpiexec, outside
from conformance.mpi import SINGLE_PROCESS

ROOT = Path(__file__).resolve().parents[2]
ON_MORE = [f"conformance/test_{part}.py" for part in ("operators", "reductions", "indexing", "ranks", "state_machine")]
"""What runs on three ranks too, unless all is asked for."""

pytestmark = [
    pytest.mark.skipif(MPIEXEC is None, reason="no mpiexec: pip install mpich mpi4py"),
    pytest.mark.skipif(os.environ.get("DISTARRAY_TEST_KIND", "host") != "host", reason="host data moves through MPI"),
    pytest.mark.timeout(1500 if DEEP else 900),
]


def session(size: int, *arguments: str, examples: int, limit: float, **env: str) -> tuple[int, str]:
    """Run pytest on `size` processes; their exit code and output."""
    pytest.importorskip("mpi4py", reason="needs mpi4py")
    settings = outside()
    settings |= {
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "DISTARRAY_TEST_MPI_EXAMPLES": str(examples),
        **env,
    }
    command = [*mpiexec(size), sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--color=no", "--mpi"]
    command += ["--hypothesis-profile", "mpi", *arguments]
    process = subprocess.Popen(
        command,
        env=settings,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        pytest.fail(f"pytest on {size} ranks still ran after {limit} s:\n{output}")
    return process.returncode, output


@pytest.mark.parametrize("size", [2, 3, 4] if DEEP else [2, 3])
def test_the_suite_passes(size: int) -> None:
    whole = DEEP or size == 2
    chosen = (
        ["conformance", "--ignore=conformance/test_mode_table.py"] if whole else ON_MORE
    )  # the table has no processes
    code, output = session(size, *chosen, examples=6 if DEEP else 1, limit=1200 if DEEP else 800)
    assert code == 0, output
    said = re.search(r"(\d+) passed(?:, (\d+) skipped)?", output)
    assert said is not None, output
    if whole:
        assert int(said[1]) > 500, output
        reasons = set(re.findall(r"^SKIPPED \[\d+\] \S+ (.*)$", output, re.M))
        allowed = {f"one process only: {reason}" for reason in SINGLE_PROCESS.values()} | {"needs --kind=cuda"}
        others = {reason for reason in reasons - allowed if not reason.startswith("the extra `fast`")}
        assert len(reasons & allowed) > 3 and not others, output
    else:
        assert int(said[1]) > 100, output
    assert output.count(" passed, ") == 1, f"rank 0 alone speaks:\n{output}"


WRONG = """
    import numpy as np
    from hypothesis import given, strategies as st
    from hypothesis.stateful import RuleBasedStateMachine, rule
    import distarray as da
    from conformance.checking import assert_same
    from conformance.contexts import context
    from conformance.mpi import session
    from conformance.strategies import device_counts, layouts

    def on_one_rank():
        return session().rank == 1

    @given(data=st.data(), n=device_counts)
    def test_right(data, n):
        a = np.arange(8) * data.draw(st.integers(0, 9))
        with context(n):
            assert_same(da.asarray(a, layout=data.draw(layouts((8,), n))) * 2, a * 2)

    @given(data=st.data(), n=device_counts)
    def test_wrong_on_all(data, n):
        a = data.draw(st.integers(0, 1000))
        with context(n):
            x = da.asarray(np.full(8, a), layout=da.blocks(0))
            assert_same(x + x[::-1], np.full(8, min(2 * a, 40)))

    @given(data=st.data(), n=device_counts)
    def test_wrong_on_one(data, n):
        a = data.draw(st.integers(0, 1000))
        with context(n):
            x = da.asarray(np.full(8, a), layout=da.blocks(0))
            assert not (on_one_rank() and a > 16), f"a is {a}"
            assert_same(x + data.draw(st.integers(1, 5)), np.asarray(x) + 1, exact=False, ulps=1e30)

    @given(data=st.data(), n=device_counts)
    def test_a_call_too_many_on_one(data, n):
        a = data.draw(st.integers(0, 1000))
        with context(n):
            x = da.asarray(np.full(8, a), layout=da.blocks(0))
            if on_one_rank() and a > 16:
                x.get()
            x.reshard(da.blocks(0))

    def test_plain_wrong_on_one():
        with context(4):
            assert not on_one_rank(), "the plain one"
            da.asarray(np.arange(8.0), layout=da.blocks(0)).get()

    class Machine(RuleBasedStateMachine):
        @rule(a=st.integers(0, 1000))
        def grow(self, a):
            with context(4):
                x = da.asarray(np.full(8, a), layout=da.blocks(0))
                assert not (on_one_rank() and a > 16), f"step {a}"
                assert x.get()[0] == a

    TestMachine = Machine.TestCase
    test_right_again = test_right
"""

TELLER = """
    import os
    def pytest_runtest_logreport(report):
        if report.when == "call":
            from conformance.mpi import session
            with open(os.environ["TELL"] + f"/rank{session().rank}", "a") as file:
                file.write(f"=== {report.nodeid.rpartition(':')[2]} {report.outcome}\\n{report.longrepr or ''}\\n")
"""


def test_a_test_that_is_wrong_on_one_rank_fails_on_all_of_them_with_the_shrunk_example(tmp_path: Path) -> None:
    (tmp_path / "test_wrong.py").write_text(textwrap.dedent(WRONG))
    (tmp_path / "teller.py").write_text(textwrap.dedent(TELLER))
    code, output = session(
        3, "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), "-p", "conformance.conftest", "-p", "conftest",
        "-p", "teller", str(tmp_path / "test_wrong.py"), examples=20, limit=120,
        TELL=str(tmp_path), PYTHONPATH=f"{ROOT}{os.pathsep}{tmp_path}", DISTARRAY_TIMEOUT="5",
    )  # fmt: skip
    assert code == 1, output
    assert "5 failed, 2 passed" in output, output
    told = [(tmp_path / f"rank{rank}").read_text() for rank in range(3)]
    for text in told:
        found = dict(re.findall(r"=== (\w+) (\w+)\n", text))
        assert found == {
            "test_right": "passed", "test_wrong_on_all": "failed", "test_wrong_on_one": "failed",
            "test_a_call_too_many_on_one": "failed", "test_plain_wrong_on_one": "failed", "runTest": "failed",
            "test_right_again": "passed",
        }, text  # fmt: skip
        parts = dict(re.findall(r"=== (\w+) \w+\n(.*?)(?=\n=== |\Z)", text, re.DOTALL))
        assert "Draw 1: 21" in parts["test_wrong_on_all"], text
        assert "rank 1 failed" in parts["test_wrong_on_one"] and "a is 17" in parts["test_wrong_on_one"], text
        assert "Draw 1: 17" in parts["test_wrong_on_one"], text
        assert "conformance.mpi.CommunicationError: rank" in parts["test_a_call_too_many_on_one"], text
        assert "Draw 1: 17" in parts["test_a_call_too_many_on_one"], text
        assert "the plain one" in parts["test_plain_wrong_on_one"], text
        assert "step 17" in parts["runTest"] and "state.grow(a=17)" in parts["runTest"], text
    without_numbers = {re.sub(r"0x[0-9a-f]+|\(host \w+\)", "", text) for text in told}
    assert len(without_numbers) == 1, "the ranks report differently"
