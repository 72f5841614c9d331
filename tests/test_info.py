"""``python -m distarray info``: it runs anywhere, says what it found, and keeps the secret."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from distarray.__main__ import main
from distarray.info import collect

SECRET = "a secret of this test, not to be printed"


def info(root: Path, *arguments: str, **environ: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "distarray", "info", *arguments],
        cwd=root, env={**os.environ, **environ}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout


def test_command(root: Path) -> None:
    text = info(root, DISTARRAY_SECRET=SECRET, OMPI_COMM_WORLD_RANK="1", OMPI_COMM_WORLD_SIZE="2",
                OMPI_COMM_WORLD_LOCAL_RANK="1", DISTARRAY_TIMEOUT="7")  # fmt: skip
    for word in (
        "devices",
        "links",
        "libraries",
        "numpy",
        "cupy",
        "nccl4py",
        "mpi4py",
        "openmpi",
        "1 of 2",
        "7 s",
        "60 s",
    ):
        assert word in text
    assert SECRET not in text
    assert "DISTARRAY_SECRET" in text


def test_a_broken_environment_is_reported_not_raised() -> None:
    sections = {
        section.title: dict(section.rows) for section in collect({"PMI_RANK": "0", "DISTARRAY_TIMEOUT": "soon"})
    }
    assert "PMI_SIZE is not set" in sections["launch"]["launcher"]
    assert "soon" in sections["deadlines and secret"]["collective deadline"]


def test_secret_file_that_others_can_read_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text(SECRET)
    path.chmod(0o644)
    sections = {section.title: dict(section.rows) for section in collect({"DISTARRAY_SECRET_FILE": str(path)})}
    said = sections["deadlines and secret"]["rendezvous secret"]
    assert "0644" in said and SECRET not in said


def test_makes_no_secret(tmp_path: Path) -> None:
    collect({"XDG_RUNTIME_DIR": str(tmp_path)})
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(importlib.util.find_spec("rich") is None, reason="rich is not installed")
def test_tables_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert main(["info"]) == 0
    assert "deadlines and secret" in capsys.readouterr().out


def test_without_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([])
    assert left.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_mpi_is_not_initialised(root: Path) -> None:
    code = (
        "import sys; from distarray.info import collect; collect();"
        "assert 'mpi4py.MPI' not in sys.modules, 'importing mpi4py.MPI calls MPI_Init'"
    )
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True, timeout=120)
