"""How the code is written: what no linter asks of functions, files, parameters, and the places that the documents name."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted((ROOT / "distarray").rglob("*.py"))
LONGEST_FUNCTION = 60
"""Lines of code below the signature, without docstring, comments and blank lines. Aim at 55."""
LONGEST_FILE = 620
"""Aim at 600."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def parsed(path: Path) -> tuple[list[str], ast.Module]:
    text = path.read_text(encoding="utf-8")
    return text.splitlines(), ast.parse(text)


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(parsed(path)[1]))


@cache
def functions(path: Path) -> list[Function]:
    """The functions of a file, nested ones and methods too."""
    return [node for node in nodes(path) if isinstance(node, Function)]


def members_of_protocols(path: Path) -> set[Function]:
    classes = [node for node in nodes(path) if isinstance(node, ast.ClassDef)]
    protocols = [c for c in classes if any("Protocol" in ast.unparse(base) for base in c.bases)]
    return {member for c in protocols for member in c.body if isinstance(member, Function)}


def public_functions(path: Path) -> set[Function]:
    """Those that others call: without an underscore, in no other function and in no private class."""
    found = set()
    todo: list[ast.AST] = [parsed(path)[1]]
    while todo:
        for node in ast.iter_child_nodes(todo.pop()):
            if isinstance(node, Function):
                if not node.name.startswith("_") or node.name.startswith("__"):
                    found.add(node)
            elif not isinstance(node, ast.ClassDef) or not node.name.startswith("_"):
                todo.append(node)
    return found


def lines_of_code(path: Path) -> set[int]:
    lines = parsed(path)[0]
    ignored = {
        tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER
    }  # fmt: skip
    found = set()
    for token in tokenize.generate_tokens(io.StringIO("\n".join(lines)).readline):
        if token.type not in ignored:
            found.update(range(token.start[0], token.end[0] + 1))
    for node in nodes(path):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return found


def test_functions_and_files_are_short() -> None:
    long = []
    for path in FILES:
        where = path.relative_to(ROOT)
        spans = [(f.name, f.body[0].lineno, f.end_lineno or 0) for f in functions(path)]
        spans = [(name, first, last) for name, first, last in spans if last - first >= LONGEST_FUNCTION]
        code = lines_of_code(path) if spans else set()
        for name, first, last in spans:
            size = len(code.intersection(range(first, last + 1)))
            if size > LONGEST_FUNCTION:
                long.append(f"{where}:{first} {name}: {size} lines of code")
        if len(parsed(path)[0]) > LONGEST_FILE:
            long.append(f"{where}: {len(parsed(path)[0])} lines")
    assert not long


MAY_BE_ANY = {
    "algorithms": (35, "arrays, expressions that stand for some, masks and numbers by turns"),
    "array": (20, "users' operands and keys, told apart by their class"),
    "comm": (10, "objects of mpi4py and NCCL's bindings, which have no types"),
    "devices": (5, "CuPy's objects, which have no types"),
    "fft": (5, "what NumPy takes for lengths and axes"),
    "fusion": (35, "llvmlite's values; arrays and what stands for them"),
    "groups": (20, "arrays and sparse matrices of any library"),
    "info.py": (5, "CuPy's runtime, or what says that there is none"),
    "linalg": (10, "arrays of either kind, and what NumPy takes for axes"),
    "ops": (95, "users' arguments before they are looked at, in every form that NumPy takes"),
    "polynomial": (5, "coefficients in every form that NumPy takes"),
    "protocols.py": (2, "keys, told apart by their class"),
    "random": (2, "arrays that numbers are drawn into"),
}
"""How many parameters of a room's private functions may be Any without a reason beside them, and the one that they have."""


def test_any_has_a_reason() -> None:
    """A parameter that may be anything says why on its line, or is one of the few that its room may have. What hands on ``*args``
    and ``**kwargs`` as they came may call them Any, and so may protocols, which describe other libraries' classes."""
    unexplained: dict[str, list[str]] = {}
    for path in FILES:
        lines, room = parsed(path)[0], path.relative_to(ROOT / "distarray").parts[0]
        exempt, public = members_of_protocols(path), public_functions(path)
        for function in functions(path):
            if function in exempt:
                continue
            arguments = function.args
            for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                if a.annotation is None:
                    explained = a.arg in ("self", "cls")
                else:
                    explained = ast.unparse(a.annotation) != "Any" or "  # " in lines[a.lineno - 1]
                if not explained:
                    where = f"{path.relative_to(ROOT)}:{a.lineno} {function.name}({a.arg})"
                    assert function not in public, where
                    unexplained.setdefault(room, []).append(where)
    assert {r: found for r, found in unexplained.items() if len(found) > MAY_BE_ANY.get(r, (0, ""))[0]} == {}


@pytest.mark.parametrize(
    "page", ["docs/design.md", "docs/guide.md", "docs/gpu.md", "docs/machines.md", "CONTRIBUTING.md"]
)
def test_files_that_the_documents_name_are_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = [
        name
        for name in re.findall(r"`([^`\n]+)`", text)
        if re.fullmatch(r"(?:[\w.]+/)+[\w.]*|[\w./]+\.(?:py|toml|md|yml)", name)
    ]
    missing = [name for name in named if not any((ROOT / base / name).exists() for base in ("", "distarray", "docs"))]
    assert missing == []


def test_exceptions_from_lint_rules_have_reasons() -> None:
    bare = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in FILES
        for number, line in enumerate(parsed(path)[0], 1)
        if re.search(r"# noqa: [A-Z]+\d+\b(?! - \w)", line)
    ]
    ignored = re.search(r"^ignore = \[\n(.*?)^\]", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.M | re.S)
    assert ignored
    assert [line for line in ignored[1].splitlines() if "  # " not in line] + bare == []


def test_names_in_docstrings_are_there() -> None:
    """What stands in single backticks is a parameter or a name of the code; a path is a file."""
    code = re.compile(r'""".*?"""|#[^\n]*', re.S)
    words = {path.stem for path in FILES} | {path.parent.name for path in FILES}
    for path in FILES:
        words.update(re.findall(r"\w+", code.sub("", "\n".join(parsed(path)[0]))))
    missing = []
    for path in FILES:
        for node in ast.walk(parsed(path)[1]):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                text = node.value.value
                names = re.findall(r"(?<!`)`([A-Za-z_][\w.]*)`(?!`)", text)
                missing += [f"{path}:{node.lineno} {name}" for name in names if name.split(".")[-1] not in words]
                files = re.findall(r"``(\w+/[\w/]+\.(?:py|md))``", text)
                missing += [
                    f"{path}:{node.lineno} {name}"
                    for name in files
                    if not (ROOT / name).exists() and not (ROOT / "distarray" / name).exists()
                ]
    assert missing == []


@pytest.mark.parametrize("page", ["docs/design.md", "CONTRIBUTING.md"])
def test_functions_that_the_documents_name_are_there(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    code = [line.partition("#")[0] for line in re.findall(r"^    (\S.*)$", text, re.M)] + re.findall(
        r"`([^`\n]+)`", text
    )
    words = {word for path in FILES for line in parsed(path)[0] for word in re.findall(r"\w+", line)}
    assert {name for line in code for name in re.findall(r"([A-Za-z_]\w+)\(", line)} - words == set()
