"""Files, the host fallback, and dates and structures under a real mpiexec, on two and three processes."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from conformance import launching
from conformance.launching import MPIEXEC

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.skipif(MPIEXEC is None, reason="no mpiexec: pip install mpich mpi4py"),
    pytest.mark.skipif(os.environ.get("DISTARRAY_TEST_KIND", "host") != "host", reason="host data moves through MPI"),
]


def run(n, code):
    pytest.importorskip("mpi4py", reason="needs mpi4py")
    env = {**os.environ, "DISTARRAY_KIND": "host", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [*launching.mpiexec(n), sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=env, cwd=ROOT)


@pytest.mark.parametrize("n", [2, 3])
def test_processes_write_and_read_one_file(n, tmp_path):
    code = f"""
        import os, numpy as np, distarray as da
        os.chdir({str(tmp_path)!r})
        a = np.random.default_rng(0).random((13, 7))
        for layout in (da.blocks(0), da.blocks(1), da.cyclic(0), da.replicated()):
            x = da.asarray(a, layout=layout)
            np.save("x.npy", x)
            np.savez("z.npz", x, row=x[3])
            np.savez_compressed("c.npz", x)
            np.savetxt("t.txt", x, fmt="%.17g")
            x.tofile("raw")
            x.dump("pickled")
            for y in (da.load("x.npy", layout=da.cyclic(1)), da.load("z.npz")["arr_0"], da.load("c.npz")["arr_0"],
                      da.asarray(np.load("x.npy")), da.fromfile("raw").reshape(13, 7), np.fromfile("raw", like=x).reshape(13, 7),
                      da.asarray(np.loadtxt("t.txt"))):
                assert np.array_equal(y.get(), a)
            assert np.array_equal(da.load("z.npz")["row"].get(), a[3])
            try:
                np.save("nowhere/x.npy", x)
            except (FileNotFoundError, da.RemoteError):  # the process that writes the head raises its own
                pass
            else:
                raise AssertionError
            assert float(x.sum()) == float(da.asarray(a).sum()) or np.isclose(float(x.sum()), a.sum())
        print(sorted(os.listdir(".")))
    """
    done = run(n, code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("['c.npz', 'pickled', 'raw', 't.txt', 'x.npy', 'z.npz']") == n
    a = np.random.default_rng(0).random((13, 7))
    assert np.array_equal(np.load(tmp_path / "x.npy"), a)
    with np.load(tmp_path / "z.npz") as back:
        assert np.array_equal(back["row"], a[3])


@pytest.mark.parametrize("n", [2, 3])
def test_the_host_fallback_runs_on_every_process(n):
    code = """
        import warnings
        import numpy as np, distarray as da
        from numpy._core.overrides import array_function_dispatch

        @array_function_dispatch(lambda a: (a,), module="numpy")
        def peculiar(a):
            assert type(a) is np.ndarray
            return a[::-1] * 2, a.sum()

        a = np.arange(20.0)
        x = da.asarray(a, layout=da.blocks(0))
        try:
            peculiar(x)
        except TypeError as error:
            assert "host_fallback" in str(error)
        else:
            raise AssertionError
        with da.ledger() as log, da.host_fallback(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            turned, total = peculiar(x)
        assert [w.category for w in caught] == [da.HostFallbackWarning]
        assert isinstance(turned, da.DistributedArray)
        assert np.array_equal(turned.get(), a[::-1] * 2) and float(total) == a.sum()
        assert log.bytes_to_host == a.nbytes, log.bytes_to_host
        print("right")
    """
    done = run(n, code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("right") == n  # lines of several processes may run together


@pytest.mark.parametrize("n", [2, 3])
def test_dates_and_structures_cross_processes(n):
    code = """
        import numpy as np, distarray as da
        t = np.datetime64("2020-01-01") + np.arange(-12, 12).reshape(6, 4)[::-1] * np.timedelta64(1, "D")
        t[2, 1] = "NaT"
        s = np.zeros(9, [("a", "f4"), ("b", "i8", (2,))])
        s["a"], s["b"][:, 1] = range(9), range(9)
        for layout in (da.blocks(0), da.cyclic(0)):
            x, y = da.asarray(t, layout=layout), da.asarray(s, layout=layout)
            for call in (lambda v: v, lambda v: v.T, lambda v: np.sort(v, axis=0), lambda v: v[1:] - v[:-1],
                         lambda v: np.nanmax(v, axis=0), lambda v: np.unique(v), lambda v: v[v > v[3, 0]]):
                np.testing.assert_array_equal(np.asarray(call(x)), call(t))
            for call in (lambda v: v, lambda v: v["a"] * 2, lambda v: v["b"].sum(axis=1), lambda v: v == v[3], lambda v: v[[5, 0]]):
                np.testing.assert_array_equal(np.asarray(call(y)), call(s))
            y[4]["a"] = 50
            y[8] = s[1]
            wanted = s.copy()
            wanted[4]["a"], wanted[8] = 50, s[1]
            np.testing.assert_array_equal(y.get(), wanted)
        print("right")
    """
    done = run(n, code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("right") == n  # lines of several processes may run together
