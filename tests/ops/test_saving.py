"""Files: what NumPy reads is what was written, whoever wrote it and in whatever layout; a write that fails leaves what was."""

from __future__ import annotations

import abc
import builtins
import io
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import distarray as da
from conformance.contexts import context
from conformance.ranks import SHARES, on_ranks
from conformance.strategies import NUMPY, arrays, device_counts, dtypes, layouts, pairs
from distarray.ops import saving

FILES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@pytest.fixture(autouse=True, params=[1 << 24, 64], ids=["whole", "pieces"])
def piece(request: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "_PIECE", request.param)


@FILES
@given(data=st.data(), n=device_counts)
def test_npy(data, n, tmp_path):
    a = data.draw(arrays(dtype=data.draw(dtypes(NUMPY))))
    path = tmp_path / data.draw(st.sampled_from(["x.npy", "y"]))
    with context(n):
        x = data.draw(pairs(a, n)).x
        np.save(path, x)
        named = path if path.suffix else path.with_name("y.npy")
        back = np.load(named)
        assert back.dtype == a.dtype
        assert np.array_equal(back, a, equal_nan=a.dtype.kind in "fc")
        y = da.load(named, layout=data.draw(layouts(a.shape, n)))
        assert y.dtype == a.dtype
        assert np.array_equal(y.get(), a, equal_nan=a.dtype.kind in "fc")
        text = io.BytesIO()
        np.save(text, x)
        assert text.getvalue() == named.read_bytes()
        x.tofile(tmp_path / "raw")
        assert (tmp_path / "raw").read_bytes() == a.tobytes()
        assert x.tobytes() == a.tobytes()
        z = da.fromfile(tmp_path / "raw", a.dtype, offset=0)
        assert np.array_equal(z.get(), a.reshape(-1), equal_nan=a.dtype.kind in "fc")
    assert not list(tmp_path.glob(".*"))


@FILES
@given(data=st.data(), n=device_counts)
def test_archives_and_text(data, n, tmp_path):
    a = data.draw(arrays(shape=data.draw(st.sampled_from([(7,), (5, 3), (0, 2), (40, 1)])), dtype=np.dtype(float)))
    write = data.draw(st.sampled_from([np.savez, np.savez_compressed]))
    with context(n):
        x = data.draw(pairs(a, n)).x
        write(tmp_path / "z", x, named=x[::2])
        with np.load(tmp_path / "z.npz") as back:
            assert np.array_equal(back["arr_0"], a, equal_nan=True)
            assert np.array_equal(back["named"], a[::2], equal_nan=True)
        with da.load(tmp_path / "z.npz") as back:
            assert set(back) == {"arr_0", "named"}
            assert np.array_equal(back["named"].get(), a[::2], equal_nan=True)
        np.savetxt(tmp_path / "t", x, fmt="%.17g", delimiter=",", header="top", footer="end")
        np.savetxt(tmp_path / "n", a, fmt="%.17g", delimiter=",", header="top", footer="end")
        assert (tmp_path / "t").read_text() == (tmp_path / "n").read_text()
        x.tofile(tmp_path / "s", sep=" ", format="%.17g")
        a.tofile(tmp_path / "m", sep=" ", format="%.17g")
        assert (tmp_path / "s").read_text() == (tmp_path / "m").read_text()


def test_fortran_order_and_byte_order(tmp_path):
    a = np.asfortranarray(np.arange(12, dtype=">f8").reshape(3, 4))
    np.save(tmp_path / "f.npy", a)
    with context(3):
        x = da.load(tmp_path / "f.npy", layout=da.blocks(1))
        assert x.dtype == np.dtype("f8")
        assert np.array_equal(x.get(), a)


@pytest.mark.parametrize("shares", SHARES)
def test_processes_write_one_file(shares, tmp_path):
    a = np.random.default_rng(0).random((13, 7))

    def program() -> Any:
        x = da.asarray(a, layout=da.blocks(1))
        da.save(tmp_path / "x.npy", x)
        np.savez(tmp_path / "z.npz", x, x[0])
        np.savetxt(tmp_path / "t.txt", x)
        return da.load(tmp_path / "x.npy", layout=da.cyclic(0)).get()

    for got in on_ranks(shares, program):
        assert np.array_equal(got, a)
    assert np.array_equal(np.load(tmp_path / "x.npy"), a)
    assert np.array_equal(np.load(tmp_path / "z.npz")["arr_0"], a)
    assert np.array_equal(np.loadtxt(tmp_path / "t.txt"), a)


def test_errors_leave_what_was(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.arange(3))
    before = path.read_bytes()
    with context(2):
        x = da.asarray(np.arange(6.0), layout=da.blocks(0))
        with pytest.raises(FileNotFoundError):
            da.save(tmp_path / "nowhere" / "x.npy", x)
        with pytest.raises(TypeError, match="float32"):
            da.save(path, x.astype("bfloat16"))
        assert path.read_bytes() == before
        path.write_bytes(before[:-1])
        with pytest.raises(ValueError, match="cut short"):
            da.load(path)
        np.save(path, np.array([None]), allow_pickle=True)
        with pytest.raises(ValueError, match="Object arrays"):
            da.load(path)
        with pytest.raises(FileNotFoundError):
            da.load(tmp_path / "none.npy")
        with pytest.raises(ValueError, match="Expected 1D or 2D"):
            np.savetxt(path, x.reshape(1, 2, 3))
        with pytest.raises(ValueError, match="un-named"):
            np.savez(path, x, arr_0=x)
    assert list(tmp_path.iterdir()) == [path]


def test_an_open_archive_is_read():
    file = io.BytesIO()
    with context(2):
        np.savez(file, x=da.arange(3), y=da.zeros((2, 2)))
        file.seek(0)
        found = da.load(file)
        assert found.files == ["x", "y"]
        assert found["x"].tolist() == [0, 1, 2]
        assert found["y.npy"].shape == (2, 2)
        assert {name: a.shape for name, a in found.items()} == {"x": (3,), "y": (2, 2)}
        with pytest.raises(KeyError):
            found["z"]


class Full(io.BytesIO):
    """A file whose device is full."""

    def write(self, data: Any) -> int:
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("shares", [s for s in SHARES if len(s) > 1])
def test_an_oserror_is_one_on_every_process(shares, tmp_path):
    """What fails on one process raises on all, as ``except OSError`` expects, and they go on together."""
    for name in ("here.npy", "here.npz", "packed.npz"):
        save = {"here.npy": np.save, "here.npz": np.savez, "packed.npz": np.savez_compressed}[name]
        save(tmp_path / name, np.arange(3.0))

    def program() -> Any:
        x = da.asarray(np.arange(60.0).reshape(10, 6), layout=da.blocks(0))
        rank = x._context.process
        lost = tmp_path / "nowhere"
        mine = tmp_path / ("here.npy" if rank else "none.npy")  # rank 0 doesn't see the file
        calls = [
            lambda: da.save(lost / "x.npy", x),
            lambda: x.tofile(lost / "x"),
            lambda: x.tofile(lost / "x", sep=" "),
            lambda: np.savetxt(lost / "x", x),
            lambda: np.savez(lost / "x.npz", x, x),
            lambda: np.savez_compressed(lost / "x.npz", x),
            lambda: da.save(Full() if rank else io.BytesIO(), x),
            lambda: np.savetxt(io.StringIO() if rank else Full(), x),
            lambda: np.savez(Full() if rank else io.BytesIO(), x, x),
            lambda: da.load(mine),
            lambda: da.load(tmp_path / ("here.npz" if rank else "none.npz")),
            lambda: da.fromfile(mine),
        ]
        for call in calls:
            with pytest.raises(OSError, match=r"."):
                call()
        with pytest.raises(ValueError, match="another file"):
            da.load(tmp_path / ("here.npy" if rank else "here.npz"))
        return [x.sum().get()] + [float(da.load(tmp_path / f"{n}.npz")["arr_0"].sum()) for n in ("here", "packed")]

    for found in on_ranks(shares, program):
        assert found == [1770, 3, 3]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here.npy", "here.npz", "packed.npz"]


def test_a_killed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.arange(3))
    program = f"""
import os, numpy as np, distarray as da
from distarray.ops import saving
with da.init(devices=2, kind="host"):
    x = da.zeros(1000, layout=da.blocks(0))
    saving.os.replace = lambda *names: os._exit(9)  # killed when all is written and nothing renamed
    da.save({str(path)!r}, x)
"""
    done = subprocess.run([sys.executable, "-c", program], timeout=120, cwd=Path(__file__).parents[2])
    assert done.returncode == 9
    assert np.array_equal(np.load(path), np.arange(3))


def test_an_interrupt_of_a_large_write_stays_one(tmp_path, monkeypatch, four):
    """NumPy's ``tofile`` asks whether the file is a path, by Python code that may be interrupted, and takes yes for an answer."""
    usual = abc.ABCMeta.__instancecheck__

    def interrupted(cls: type, instance: object) -> bool:
        if cls is os.PathLike and isinstance(instance, io.FileIO):
            raise KeyboardInterrupt
        return usual(cls, instance)

    x = da.asarray(np.arange(100.0), layout=da.blocks(0))
    monkeypatch.setattr(saving, "_PIECE", 64)
    with monkeypatch.context() as patched:
        patched.setattr(abc.ABCMeta, "__instancecheck__", interrupted)
        with pytest.raises(KeyboardInterrupt):
            np.save(tmp_path / "x.npy", x)
    assert not list(tmp_path.iterdir())


def test_many_chunks_are_written_through_one_file(tmp_path, monkeypatch, four):
    opened = []
    monkeypatch.setattr(builtins, "open", lambda *a, usual=open, **kw: opened.append(a) or usual(*a, **kw))
    monkeypatch.setattr(np, "memmap", lambda *a, usual=np.memmap: opened.append(a) or usual(*a))
    h = np.arange(400.0).reshape(20, 20)
    for layout in (da.cyclic(0), da.cyclic(0, 2), da.cyclic(1, 2), {0: [slice(i, i + 1) for i in range(20)]}):
        opened.clear()
        np.save(tmp_path / "x.npy", da.asarray(h, layout=layout))
        np.testing.assert_array_equal(da.load(tmp_path / "x.npy", layout=layout).get(), h)
        assert len([a for a in opened if str(tmp_path) in str(a[0])]) <= 12  # three a device, and not one a chunk


def test_memory_is_one_piece_a_device(tmp_path):
    with da.init(devices=4, kind="host"):
        x = da.zeros((4096, 512), layout=da.blocks(0)) + 1
        x.evaluate()
        tracemalloc.start()
        np.save(tmp_path / "x.npy", x)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 2 * min(saving._PIECE, x.nbytes // 4) + (1 << 20)
    assert os.path.getsize(tmp_path / "x.npy") == 128 + 4096 * 512 * 8
