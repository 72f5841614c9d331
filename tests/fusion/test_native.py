"""The compiled back end: when it compiles, what it keeps on disk, what it leaves to NumPy."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

import distarray as da
from distarray.fusion.native import machine as machines
from distarray.fusion.native import run
from distarray.fusion.native.element import Line, NativeElement
from distarray.fusion.native.source import elementwise_text

pytest.importorskip("llvmlite", reason="the extra `fast` is not installed")
pytestmark = pytest.mark.skipif(machines.machine() is None, reason="not compiled for this processor, or turned off")

F8 = np.dtype(float)
TEXT = elementwise_text(
    NativeElement((F8,), (), (Line("square", (("array", 0),), (F8,), F8, F8, False),), ((("line", 0), F8, F8),)), "vv"
)


def squared(function):
    x, y = np.arange(20.0), np.zeros(20)
    words = [20, 1, x.ctypes.data, 0, 8, y.ctypes.data, 0, 8]
    function.call(np.array(words, np.int64).tobytes())
    return y.tolist() == (x * x).tolist()


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """A compiler with a folder of its own."""
    monkeypatch.setenv("DISTARRAY_CACHE", str(tmp_path))
    import llvmlite.binding as llvm

    return machines.Machine(llvm)


def test_kernels_are_kept_on_disk(fresh, tmp_path):
    assert fresh.kept(TEXT) is None
    assert squared(fresh.compiled(TEXT))
    assert squared(fresh.kept(TEXT))
    (file,) = tmp_path.glob("kernels/*")
    file.write_bytes(file.read_bytes()[:-1])
    assert fresh.kept(TEXT) is None


def test_the_folder_is_bounded(fresh, tmp_path, monkeypatch):
    monkeypatch.setattr(machines, "FILES", 4)
    for number in range(9):
        fresh.compiled(f"{TEXT}; {number}")
    assert len(list(tmp_path.glob("kernels/*"))) <= 4


def test_a_folder_that_others_write_to_is_not_used(fresh, tmp_path, monkeypatch):
    (tmp_path / "kernels").chmod(0o777)
    import llvmlite.binding as llvm

    other = machines.Machine(llvm)
    assert squared(other.compiled(TEXT))
    assert not list(tmp_path.glob("kernels/*"))


def test_the_compiler_is_not_loaded_for_little_work():
    code = (
        "import sys, numpy as np, distarray as da; x = da.ones(100_000); ((x + 1.5) * x - 3).evaluate();"
        "print('llvmlite' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.stdout.strip() == "False", found.stderr


@pytest.mark.parametrize("turned", ["0", "1"])
def test_the_environment_turns_it_off(turned):
    code = "from distarray.fusion.native.machine import machine; print(machine() is None)"
    found = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "DISTARRAY_COMPILED": turned}, capture_output=True, text=True
    )
    assert found.stdout.strip() == str(turned == "0")


def test_a_program_is_compiled_once_it_has_been_worth_it(monkeypatch):
    asked = []
    monkeypatch.setattr(run, "function_of", lambda key, text, spent: asked.append(spent))
    with da.init(devices=1, kind="host"):
        x = da.ones(1 << 17, dtype="float32")
        ((x + 1.25) * x - 3.5).evaluate()
        assert not asked  # fewer than `KEPT`
        for _ in range(6):
            ((x + 1.25) * x - 3.5).evaluate()
    assert asked
    assert asked == sorted(asked)


def test_conditions_are_reported_from_the_recorded_line(monkeypatch):
    monkeypatch.setattr(run, "KEPT", 0)
    monkeypatch.setattr(run, "COMPILED", 0)
    with da.init(devices=2, kind="host"):
        host = np.linspace(0, 1, 200_000)
        x = da.asarray(host)
        for _ in range(2):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                y = (1.5 / x - 2) * x
                found = y.get()
            assert [str(w.message) for w in caught] == [
                "divide by zero encountered in divide",
                "invalid value encountered in multiply",
            ]
            assert all(w.filename == __file__ for w in caught)
            with np.errstate(all="ignore"):
                assert np.array_equal(found, (1.5 / host - 2) * host, equal_nan=True)


def test_blocks_that_meet_conditions_are_left_to_numpy_where_most_do(monkeypatch):
    monkeypatch.setattr(run, "KEPT", 0)
    monkeypatch.setattr(run, "COMPILED", 0)
    monkeypatch.setattr(run, "BLOCK", 1 << 10)
    with da.init(devices=1, kind="host"), np.errstate(all="warn"):
        x = da.full(100_000, 1e-200)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert ((x * x) * x + x).get().tolist() == [1e-200] * 100_000
        assert {str(w.message) for w in caught} == {"underflow encountered in multiply"}


def test_an_operand_that_is_written_keeps_its_conditions(monkeypatch):
    monkeypatch.setattr(run, "KEPT", 0)
    monkeypatch.setattr(run, "COMPILED", 0)
    with da.init(devices=2, kind="host"):
        host = np.ones(200_000)
        host[70_000] = 0.0
        x = da.asarray(host)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            np.divide(x + 2.0, x, out=x)
        assert [str(w.message) for w in caught] == ["divide by zero encountered in divide"]
        with np.errstate(all="ignore"):
            assert (x.get() == (host + 2.0) / host).all()


def test_a_hint_names_the_line_that_waited(monkeypatch):
    from distarray.devices import kernels

    monkeypatch.setenv("DISTARRAY_HINTS", "1")
    monkeypatch.setattr(kernels, "NOTICED", 0)
    monkeypatch.setattr(run, "KEPT", 0)
    monkeypatch.setattr(run, "COMPILED", 0)
    monkeypatch.setattr(machines.machine(), "kept", lambda text: None)
    with da.init(devices=1, kind="host"):
        x = da.ones(100_000)
        with pytest.warns(da.PerformanceHint, match="to be compiled") as caught:
            ((x + 1.125) * (x - 3.75) + 7.5 * x).evaluate()
    assert caught[0].filename == __file__
