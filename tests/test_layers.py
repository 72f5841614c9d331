"""The layer rule: each layer imports only those before it in docs/design.md, and geometry imports no array library."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "distarray"

#: Layers in order; a module belongs to the longest name that it starts with. A row of several is one layer;
#: docs/design.md names the first of each.
LAYERS = [
    ("errors",),
    ("geometry",),
    ("modes",),
    ("layout",),
    ("transfer",),  # plan and ledger, and whatever else there is but execute
    ("devices",),
    ("comm", "cluster"),
    ("rendezvous",),
    ("groups",),
    ("testing",),
    ("launch",),
    ("context",),
    ("storage",),
    ("transfer.execute", "transfer.round"),
    ("fusion",),
    ("array",),
    ("algorithms",),
    ("ops",),
    ("linalg", "fft", "random"),
    ("distributed_array",),
    ("", "info", "__main__"),  # distarray/__init__.py, and what stands on it
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
ARRAY_LIBRARIES = {"numpy", "cupy", "array_api_compat", "ml_dtypes", "scipy"}
#: The only places that know which array library a chunk is of.
KNOW_CUPY = ("devices", "comm", "groups", "fusion")


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    """The module's name inside the package: "geometry.ranges", "transfer", "" for the package itself."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def rank(module: str) -> int:
    """The layer of a module; KeyError for one that no layer names."""
    if not module:
        return RANK[""]
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        if ".".join(parts[:length]) in RANK:
            return RANK[".".join(parts[:length])]
    raise KeyError(module)


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Every import of a module, wherever it stands (functions and TYPE_CHECKING blocks too): line and absolute name."""
    package = ["distarray", *path.relative_to(PACKAGE).parent.parts]
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package[: len(package) - node.level + 1]
                base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                yield node.lineno, resolve(base, alias.name)


def resolve(base: str, name: str) -> str:
    """``from base import name``: the module meant, which is base.name where that is a module."""
    if base.split(".")[0] != "distarray":
        return base
    inner = PACKAGE.joinpath(*base.split(".")[1:])
    is_module = (inner / f"{name}.py").exists() or (inner / name).is_dir()
    return f"{base}.{name}" if is_module else base


def test_every_module_has_a_layer() -> None:
    unknown = []
    for path in modules():
        try:
            rank(name_of(path))
        except KeyError:
            unknown.append(str(path.relative_to(ROOT)))
    assert not unknown, f"no layer of docs/design.md holds {unknown}"


@pytest.mark.parametrize("path", modules(), ids=lambda p: name_of(p) or "__init__")
def test_imports_go_down(path: Path) -> None:
    module = name_of(path)
    wrong = []
    for line, name in imported(path):
        if name.split(".")[0] != "distarray":
            continue
        target = ".".join(name.split(".")[1:])
        if rank(target) > rank(module):
            wrong.append(f"{path.relative_to(ROOT)}:{line} imports {name}, a later layer")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", modules(), ids=lambda p: name_of(p) or "__init__")
def test_array_libraries_stay_where_they_belong(path: Path) -> None:
    module = name_of(path)
    libraries = {(line, name.split(".")[0]) for line, name in imported(path)}
    layer = module.split(".")[0]
    if layer == "geometry":
        assert not [found for found in libraries if found[1] in ARRAY_LIBRARIES], "geometry is pure Python"
    if layer not in KNOW_CUPY:
        assert "cupy" not in {name for _, name in libraries}, f"only {KNOW_CUPY} know CuPy"


def test_no_circle() -> None:
    """Neither at run time nor for types: modules can be put in one order in which each imports only those before it."""
    known = {name_of(path): path for path in modules()}
    needs = {
        module: {name.partition(".")[2] for _, name in imported(path) if name.startswith("distarray.")}
        & known.keys() - {module}
        for module, path in known.items()
    }
    while free := [module for module, others in needs.items() if not others & needs.keys()]:
        for module in free:
            del needs[module]
    assert not needs, f"these import each other, or what does: {sorted(needs)}"


def test_the_rule_is_the_documents() -> None:
    """The order above is the list in docs/design.md."""
    text = (ROOT / "docs" / "design.md").read_text()
    listed = " ".join(text.partition("enforces it):")[2].split("\n\n")[1].split()).replace("`", "").split(" · ")
    ours = [names[0] for names in LAYERS]
    firsts = [row.split(", ")[0].rstrip("/").replace("/", ".") for row in listed]
    names = {"transfer.{plan,ledger}": "transfer", "transfer.{execute,round}": "transfer.execute", "__init__": ""}
    assert [names.get(name, name) for name in firsts] == ours
