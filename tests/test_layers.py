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
