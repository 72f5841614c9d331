"""The code in the README and the documentation runs, and the names that it mentions are there."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import distarray as da

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [
    pytest.param(code, id=f"{page.stem}-{number}")
    for page in PAGES
    for number, code in enumerate(
        re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    )
]
#: What the guide says is not there.
ABSENT = {"da.nditer", "x.data", "x.ctypes"}


def test_there_is_code() -> None:
    assert len(BLOCKS) >= 2


@pytest.mark.parametrize("code", BLOCKS)
def test_code_runs(code: str) -> None:
    with da.init(devices=3, kind="host", minimum_chunk=1):
        host_array = np.arange(2400.0).reshape(60, 40)
        exec(code, {"np": np, "da": da, "host_array": host_array, "x": da.asarray(host_array)})


def test_process_groups_as_the_guide_shows_them() -> None:
    arrays = [np.full(3, i) for i in range(4)]
    comms = da.init_all(4, kind="host")
    with da.group():
        for comm, x in zip(comms, arrays):
            comm.all_reduce(x, x)
    for comm in comms:
        comm.destroy()
    assert all(x.tolist() == [6, 6, 6] for x in arrays)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_names_are_there(page: Path) -> None:
    missing = set()
    for whole, owner, name in re.findall(r"(?<![\w/.])((da|x)\.([A-Za-z_]\w*))", page.read_text("utf-8")):
        if not hasattr(da if owner == "da" else da.DistributedArray, name) and whole not in ABSENT:
            missing.add(whole)
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_settings_are_read(page: Path) -> None:
    source = "".join(path.read_text("utf-8") for path in (ROOT / "distarray").rglob("*.py"))
    unread = {name for name in re.findall(r"DISTARRAY_[A-Z_]*[A-Z]", page.read_text("utf-8")) if name not in source}
    assert not unread
