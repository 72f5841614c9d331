"""How a process group begins and ends where it should not: who is named, and that nobody ends as if all were well."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .test_process_group import launch, needs_mpi

HERE = Path(__file__).parent


@needs_mpi
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("raises", r"PeerLostError: rank 1 ended its program with KeyError: 'the reason'"),
        (
            "wrong rank",
            r"PeerLostError: rank 1 ended its program with ValueError: rank = 0, but this process is rank 1",
        ),
        (
            "stays away",
            r"PeerLostError: rank 1 of 3 did not come .* within 3 s; .* or raise DISTARRAY_BOOTSTRAP_TIMEOUT",
        ),
        ("all come", "formed"),
    ],
)
def test_who_does_not_come_is_named(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISTARRAY_BOOTSTRAP_TIMEOUT", "3" if name == "stays away" else "40")
    done = launch(3, name, timeout=90, program=str(HERE / "forming_program.py"))
    said = dict(re.findall(r"^rank (\d) after [\d.]+ s: (.*)$", done.stdout, re.MULTILINE))
    ranks = "012" if name == "all come" else "02"
    assert sorted(said) == list(ranks), (done.stdout, done.stderr)
    assert all(re.match(text, said[rank]) for rank in ranks), said
    waited = [float(seconds) for seconds in re.findall(r"after ([\d.]+) s", done.stdout)]
    assert max(waited) < 15, waited


@needs_mpi
def test_a_process_that_never_starts_mpi_ends_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """They wait inside MPI_Init, where no Python runs."""
    monkeypatch.setenv("DISTARRAY_BOOTSTRAP_TIMEOUT", "2")
    done = launch(3, timeout=40, program=str(HERE / "early_program.py"))
    assert done.returncode != 0 and "formed" not in done.stdout, done.stdout
    assert "MPI did not start within 2 s: another process of this job has ended" in done.stderr, done.stderr
    assert "early_program.py" in done.stderr, done.stderr


@needs_mpi
@pytest.mark.parametrize(
    ("name", "end"),
    [("gather", "block"), ("gather", "stop"), ("gather", "end"), ("root", "block"), ("broadcast", "end"),
     ("sparse", "block"), ("reduce", "stop"), ("send", "block"), ("skipped", "end"), ("refused", "block"), ("refused", "end")],
)  # fmt: skip
def test_a_last_call_that_differs_is_everyones(name: str, end: str) -> None:
    done = launch(3, name, end, timeout=60, program=str(HERE / "last_call_program.py"))
    found = set(re.findall(r"^rank (\d) (?:raised|exit [1-9])", done.stdout, re.MULTILINE))
    assert done.returncode != 0, done.stdout
    assert found == {"0", "1", "2"}, (done.stdout, done.stderr[-3000:])
    if (name, end) == ("gather", "block"):  # each names both calls
        assert done.stdout.count("count 4") >= 3 and done.stdout.count("count 5") >= 3, done.stdout


@needs_mpi
@pytest.mark.parametrize("end", ["block", "end"])
def test_a_group_without_a_failure_ends_well(end: str) -> None:
    done = launch(3, "none", end, timeout=60, program=str(HERE / "last_call_program.py"))
    assert done.returncode == 0 and not done.stdout, (done.stdout, done.stderr)
    assert "distarray:" not in done.stderr
