"""The layers: what ``lint-imports`` enforces, by the contracts in ``pyproject.toml``, is what ``docs/design.md`` says."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_the_contract_is_the_documents() -> None:
    with open(ROOT / "pyproject.toml", "rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    layers = next(c["layers"] for c in contracts if c["type"] == "layers")
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    listed = text.partition("`pyproject.toml`):")[2].split("\n\n")[1]
    rows = [sorted(re.findall(r"`(\w+)/?`", row)) for row in listed.split("·")]
    assert rows == [sorted(layer.split(" | ")) for layer in reversed(layers)]


def test_the_rooms_are_the_documents() -> None:
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    listed = []
    for room in re.split(r"^### ", text.partition("## Rooms")[2].partition("\n## ")[0], flags=re.MULTILINE)[1:]:
        folder = room.partition("\n")[0].removeprefix("distarray/")
        cells = [line.split("|")[1] for line in room.splitlines() if line.startswith("| `")]
        listed += [folder + name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    files = [path.relative_to(ROOT / "distarray").with_suffix("") for path in (ROOT / "distarray").rglob("*.py")]
    assert sorted(listed) == sorted(path.as_posix() for path in files if path.name != "__init__")
