"""SciPy's functions of the array API take distributed arrays and give them: special functions, statistics, signals, images,
interpolation, rotations. So do scikit-learn's estimators. ``tests/fft/test_scipy.py`` has the transforms."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def started() -> Iterator[dict[str, subprocess.Popen[str]]]:
    """The programs of this folder, side by side: they spend their time on imports. SciPy looks for namespaces there."""
    # BLAS with threads of its own waits long for a core on a busy machine
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    env = os.environ | threads | {"SCIPY_ARRAY_API": "1", "PYTHONPATH": str(FOLDER.parents[1])}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    running = {
        name: subprocess.Popen([sys.executable, FOLDER / name], env=env, **pipes)
        for name in ("scipy_program.py", "sklearn_program.py")
    }
    yield running
    for process in running.values():
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[str]) -> None:
    told, errors = process.communicate(timeout=120)
    assert told.strip() == "whole", errors


def test_functions(started: dict[str, subprocess.Popen[str]]) -> None:
    pytest.importorskip("scipy.differentiate", reason="SciPy's array API reaches far enough from 1.15 on")
    ended(started["scipy_program.py"])


def test_estimators(started: dict[str, subprocess.Popen[str]]) -> None:
    pytest.importorskip("sklearn", minversion="1.9", reason="scikit-learn is in the extra 'test'")
    ended(started["sklearn_program.py"])
