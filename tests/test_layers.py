"""The layers: what ``lint-imports`` enforces, by the contracts in ``pyproject.toml``, is what ``docs/design.md`` says."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

MIRRORED = {
    "base": "what a folder's other files build on",
    "communicator": "comm/mpi and comm/nccl",
    "control": "comm/mpi and rendezvous: who carries `comm.base.Control`",
    "host": "devices and groups: host memory",
    "element": "fusion/native and fusion/kernels: a program as a function of an element",
    "run": "fusion/native and fusion/kernels: when a program is compiled",
    "elementwise": "ops, and the kernels for it",
    "folds": "algorithms, and the kernels for it",
    "reductions": "ops, and the kernels for it",
    "scans": "ops, and the kernels for it",
    "scimath": "ops, and NumPy's module of the name",
    "sets": "ops, and the algorithms for it",
    "sorting": "ops, and the algorithms for it",
}
"""Names that two files share, since they stand for the same thing in two rooms."""


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


def test_a_name_means_one_thing() -> None:
    """Classes and names of types, private ones too; two files of one name are named with what they share."""
    named: dict[str, list[str]] = {}
    files: dict[str, list[str]] = {}
    for path in sorted((ROOT / "distarray").rglob("*.py")):
        where = path.relative_to(ROOT).as_posix()
        files.setdefault(path.stem, []).append(where)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        for node in tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            names += [t.id for t in targets if isinstance(t, ast.Name) and re.match("_?[A-Z]+[a-z]", t.id)]
        for name in names:
            named.setdefault(name, []).append(where)
    assert {name: found for name, found in named.items() if len(found) > 1} == {}
    assert {name for name, found in files.items() if len(found) > 1} == {*MIRRORED, "__init__"}
