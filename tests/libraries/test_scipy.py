"""SciPy's functions of the array API take distributed arrays and give them: special functions, statistics, signals, images,
interpolation, rotations. ``tests/fft/test_scipy.py`` has the transforms."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def run(program: str) -> None:
    """A program of this folder, in a process in which SciPy looks for namespaces."""
    # BLAS with threads of its own waits long for a core on a busy machine
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    env = os.environ | threads | {"SCIPY_ARRAY_API": "1", "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    path = Path(__file__).parent / program
    done = subprocess.run([sys.executable, path], env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.strip() == "whole", done.stderr


def test_functions() -> None:
    pytest.importorskip("scipy.differentiate", reason="SciPy's array API reaches far enough from 1.15 on")
    run("scipy_program.py")


def test_estimators() -> None:
    pytest.importorskip("sklearn", minversion="1.9", reason="scikit-learn is in the extra 'test'")
    run("sklearn_program.py")
