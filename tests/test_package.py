"""The package as a whole: what it exports, and that importing it does nothing else."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import distarray as da

ROOT = Path(__file__).resolve().parents[1]

#: What the README and the first design promise at the top level.
PROMISED = [
    "init", "asarray", "distributed_array", "blocks", "grid", "cyclic", "replicated", "make_2d_index_map", "REPLICA",
    "MIN", "MAX", "SUM", "PROD", "ledger", "no_implicit_communication", "explain", "synchronize", "map_chunks",
    "DistributedArray", "zeros", "ones", "full", "empty", "arange", "linspace", "eye", "fromfunction", "zeros_like",
    "ones_like", "full_like", "empty_like",
]  # fmt: skip


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )


def test_names_in_all_exist() -> None:
    missing = [name for name in da.__all__ if not hasattr(da, name)]
    assert not missing
    assert len(set(da.__all__)) == len(da.__all__)


@pytest.mark.parametrize("name", PROMISED)
def test_promised_names(name: str) -> None:
    assert name in da.__all__
    assert hasattr(da, name)


def test_public_names_have_docstrings() -> None:
    bare = [name for name in da.__all__ if callable(getattr(da, name)) and not getattr(da, name).__doc__]
    assert not bare


def test_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert da.__version__ == project["version"]


def test_typed() -> None:
    assert (ROOT / "distarray" / "py.typed").exists()


def test_import_warns_of_nothing() -> None:
    done = python("-W", "error", "-c", "import distarray")
    assert done.returncode == 0, done.stderr


def test_import_without_cupy() -> None:
    blocked = "import sys; sys.modules.update(cupy=None, mpi4py=None, ml_dtypes=None, sklearn=None, hypothesis=None)"
    program = f"{blocked}; import numpy as np, distarray as da; da.init(devices=2, kind='host')"
    program += "; x = da.asarray(np.arange(4.0)); assert float((x + 1).sum()) == 10"
    done = python("-W", "error", "-c", program)
    assert done.returncode == 0, done.stderr


def test_import_starts_no_threads_and_no_context() -> None:
    done = python("-c", "import threading, distarray; assert threading.active_count() == 1, threading.enumerate()")
    assert done.returncode == 0, done.stderr


def test_the_table_of_functions_is_current(root) -> None:
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, str(root / "docs" / "generate_functions.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
