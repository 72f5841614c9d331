"""Whole programs under a real mpiexec: the same numbers, to the bit, on any number of processes; and what happens when
processes do not run the same program."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from conformance import launching
from conformance.launching import MPIEXEC

ROOT = Path(__file__).resolve().parents[2]
BLAS = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}

pytestmark = [
    pytest.mark.skipif(MPIEXEC is None, reason="no mpiexec: pip install mpich mpi4py"),
    pytest.mark.skipif(os.environ.get("DISTARRAY_TEST_KIND", "host") != "host", reason="host data moves through MPI"),
]


def mpiexec(n, *command, timeout=120, **env):
    pytest.importorskip("mpi4py", reason="needs mpi4py")
    settings = {**os.environ, "DISTARRAY_KIND": "host", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **env}
    return subprocess.run(
        [*launching.mpiexec(n), sys.executable, *command],
        capture_output=True, text=True, timeout=timeout, env=settings, cwd=ROOT,
    )  # fmt: skip


def run(n, code, **env):
    return mpiexec(n, "-c", textwrap.dedent(code), **env)


def bits(output):
    return re.search(r"^bits +(\w+)", output, re.M).group(1)


def test_the_example_gives_the_same_bits_on_1_and_2_processes():
    pytest.importorskip("sklearn", reason="needs scikit-learn")
    found = set()
    for n, devices in ((1, 4), (2, 2)):
        done = mpiexec(n, "examples/digits_pca.py", "--devices", str(devices), **BLAS)
        assert done.returncode == 0, done.stderr
        found.add(bits(done.stdout))
    assert len(found) == 1


def test_products_have_the_same_bits_on_1_2_and_4_processes():
    """BLAS has threads here: each device takes its share of them, whoever owns it."""
    code = """
        import sys, numpy as np, distarray as da
        from hashlib import blake2b
        da.init(devices={devices}, kind="host")
        rng = np.random.default_rng(0)
        x = da.asarray(rng.standard_normal((301, 257)), layout=da.blocks(0))
        y = da.asarray(rng.standard_normal((257, 31)), layout=da.replicated())
        z = da.asarray(rng.standard_normal((2000, 300)).astype("f4"), layout=da.blocks(0))
        products = x @ y, x.T @ x, z.T @ z, np.inner(z[:99], z[99:300])
        found = [blake2b(np.asarray(v).tobytes(), digest_size=8).hexdigest() for v in products]
        if da.process_index() == 0:
            print("bits", "".join(found))
    """
    found = set()
    for n, devices in ((1, 4), (2, 2), (4, 1)):
        done = run(n, code.replace("{devices}", str(devices)), **BLAS)
        assert done.returncode == 0, done.stderr
        found.add(bits(done.stdout))
    assert len(found) == 1


def test_values_agree_on_every_process():
    code = """
        import sys, numpy as np, distarray as da
        h = np.arange(30.0).reshape(10, 3)
        x = da.asarray(h, layout=da.blocks(0))
        y = x[1:] + x[:-1]
        x[1:] = x[:-1]
        h2 = h.copy(); h2[1:] = h[:-1]
        assert np.array_equal(y.get(), h[1:] + h[:-1]) and np.array_equal(x.get(), h2)
        assert float(x.sum()) == h2.sum() and np.array_equal(np.asarray(x[x > 9]), h2[h2 > 9])
        assert repr(x) == repr(da.asarray(h2)), repr(x)
        assert da.process_count() == 3
        sys.stdout.write(f"right {da.process_index()}" + chr(10))
    """
    done = run(3, code)
    assert done.returncode == 0, done.stderr
    assert sorted(re.findall(r"right (\d)", done.stdout)) == ["0", "1", "2"]


def test_one_process_gives_the_array():
    code = """
        import sys, numpy as np, distarray as da
        h = np.arange(12.0).reshape(4, 3)
        x = da.asarray(h if da.process_index() == 1 else None, root=1, layout=da.blocks(0))
        assert np.array_equal(x.get(), h)
        lo, hi = [(0, 1), (1, 4)][da.process_index()]
        y = da.from_local_chunks([((slice(lo, hi),), h[lo:hi])])
        assert np.array_equal(y.get(), h) and y.shape == (4, 3)
        try:
            da.from_local_chunks([(slice(lo, hi), h[lo:hi].astype("f4" if lo else "f8"))])
        except ValueError as error:
            assert "one dtype" in str(error)
        else:
            raise SystemExit("no error")
        sys.stdout.write(f"right {da.process_index()}" + chr(10))
    """
    done = run(2, code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("right") == 2


def test_mistakes_of_one_process_fail_on_both_and_they_go_on():
    code = """
        import sys, numpy as np, distarray as da
        rank = da.process_index()
        if rank == 0:
            import ml_dtypes

        def raised(call):
            try:
                call()
            except Exception as error:
                return type(error).__name__
            return "nothing"

        def meet():
            h = np.arange(256.0).repeat(10)
            b = h.astype(ml_dtypes.bfloat16) if rank == 0 else None
            for x in (da.asarray(b, root=0), da.from_local_chunks([((), b)] if rank == 0 else [])):
                assert x.dtype.name == "bfloat16" and np.array_equal(x.get().astype("f8"), h)
            twice = [(slice(0, 2), [1, 2]), (slice(np.int64(0), np.int64(2)), [10, 20])]
            assert da.from_local_chunks(twice, mode="sum").get().tolist() == [22, 44]

        meet()
        chunks = [(slice(0, 2), [1, 2])]
        found = []
        for call in (
            lambda: da.from_local_chunks([(7, [1, 2])] if rank else chunks),
            lambda: da.from_local_chunks(chunks, mode="mean" if rank else "sum"),
            lambda: da.from_local_chunks([(slice(0, 2), object())] if rank else chunks),
            lambda: da.asarray(object() if rank else None, root=1),
            lambda: da.asarray(np.ones(3), root="0" if rank else 0),
            lambda: da.from_local_chunks(chunks, mode="max" if rank else "sum"),
            lambda: da.from_local_chunks([(slice(1, 3), [1, 2])] if rank else chunks, (2,)),
        ):
            found.append(raised(call))
            meet()
        with da.ledger() as log:
            da.asarray(np.arange(1000000.0), root=0, layout=da.blocks(0))
        assert (log.messages, log.bytes_moved, log.rounds) == (1, 4000000, 1), log
        sys.stdout.write(f"found {rank} {' '.join(found)}" + chr(10))
    """
    done = run(2, code, DISTARRAY_TIMEOUT="20")
    assert done.returncode == 0, done.stderr
    found = dict(re.findall(r"found (\d) (.*)", done.stdout))
    assert found["0"].split() == ["RemoteError"] * 5 + ["ValueError"] * 2
    assert found["1"].split() == ["IndexMapError", "LayoutError", *["TypeError"] * 3, *["ValueError"] * 2]


def test_a_print_on_one_process_alone_ends_by_the_deadline_and_names_the_operation():
    code = """
        import numpy as np, distarray as da, time, sys, os
        x = da.asarray(np.arange(2000.0), layout=da.blocks(0))
        if da.process_index() == 0:
            try:
                print(x)
            except da.CommunicationError as error:
                sys.stderr.write("SAID " + type(error).__name__ + " " + str(error).replace(chr(10), " ")[:600] + chr(10))
                sys.stderr.flush()
                os._exit(3)
        time.sleep(8)
        os._exit(0)
    """
    done = run(2, code, DISTARRAY_TIMEOUT="2", timeout=60)
    assert done.returncode != 0
    said = re.search(r"SAID (\w+) (.*)", done.stderr)
    assert said is not None, done.stderr
    assert said.group(1) in ("PeerLostError", "CollectiveMismatchError")
    assert "a value for Python" in said.group(2)


def test_debug_mode_names_unseeded_random_data():
    code = """
        import numpy as np, distarray as da, sys
        h = np.random.default_rng(None).random(100)
        try:
            da.asarray(h, layout=da.blocks(0))
        except da.CollectiveMismatchError as error:
            print("SAID", error)
            sys.exit(0)
        sys.exit(5)
    """
    done = run(2, code, DISTARRAY_DEBUG="1")
    assert done.returncode == 0, done.stderr
    assert "seed random numbers alike" in done.stdout


@pytest.mark.parametrize(
    "differing",
    ["x + rng.random()", "(np.sin if me else np.cos)(x)", "da.full(100, float(me))", "x[rng.permutation(100)[:5]]",
     "da.arange(me, 100)", "da.linspace(0, 1 + me, 100)", "x.__setitem__(rng.permutation(100)[:5], -1)",
     "np.clip(x, 0, me + 1)", "x * np.array(rng.random())"],
)  # fmt: skip
def test_debug_mode_names_numbers_and_operations_that_differ(differing):
    code = f"""
        import numpy as np, distarray as da, sys
        x = da.arange(100.0, layout=da.blocks(0))
        me = da.process_index()
        rng = np.random.default_rng(me)
        try:
            {differing}
            float(x.sum())
        except da.CollectiveMismatchError as error:
            print("SAID", error)
            sys.exit(0)
        sys.exit(5)
    """
    done = run(2, code, DISTARRAY_DEBUG="1")
    assert done.returncode == 0, done.stderr
    assert "after operations" in done.stdout


@pytest.mark.parametrize("how", ["fork", "spawn", "forkserver"])
def test_a_child_of_a_process_has_a_context_of_its_own(how, tmp_path):
    """It takes nothing from its parent's messages, though it inherits the launcher's variables."""
    program = tmp_path / "children.py"
    program.write_text(
        textwrap.dedent("""
        import multiprocessing, sys
        import distarray as da

        def child(_):
            devices = len(da.init(devices=2).devices)
            return devices, da.process_count(), float(da.arange(20000.0).sum())

        if __name__ == "__main__":
            x = da.arange(20000.0)
            assert float(x.sum()) == 199990000.0
            with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
                assert pool.map(child, [0]) == [(2, 1, 199990000.0)]
            for i in range(100):
                assert float((x + i).sum()) == 199990000.0 + 20000 * i
            sys.stdout.write(f"right {da.process_index()}" + chr(10))
    """)
    )
    done = mpiexec(2, str(program), how, DISTARRAY_TIMEOUT="20", PYTHONPATH=str(ROOT))
    assert done.returncode == 0, done.stderr
    assert sorted(re.findall(r"right (\d)", done.stdout)) == ["0", "1"]


def test_a_process_that_has_finished_waits_for_one_that_computes():
    code = """
        import time, distarray as da
        x = da.arange(5000.0)
        assert float(x.sum()) == 12497500.0
        if da.process_index() == 0:
            time.sleep(14)
            print("saved", flush=True)
    """
    done = run(2, code, DISTARRAY_TIMEOUT="1")  # ten times which is no limit either
    assert (done.returncode, done.stdout) == (0, "saved\n"), done.stderr


def test_host_data_without_mpi_is_refused_with_the_reason():
    code = "import distarray as da; da.zeros(3)"
    env = {**os.environ, "RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511",
           "DISTARRAY_KIND": "host"}  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=env)
    assert done.returncode != 0
    assert "mpiexec" in done.stderr
    assert "through MPI" in done.stderr
