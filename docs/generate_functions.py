"""Writes docs/functions.md: every public function, and what its docstring says it communicates.

python docs/generate_functions.py           # write
python docs/generate_functions.py --check   # exit 1 where the file is not current
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

import distarray as da
from distarray.fft import frequencies, transforms
from distarray.groups import join
from distarray.linalg import decompositions, diagonals, eigen, einsum, norms, products, solving
from distarray.ops import (
    choosing,
    chunks,
    comparing,
    complex_numbers,
    convert,
    coordinates,
    creation,
    data_types,
    differences,
    elementwise,
    explain,
    flat,
    grids,
    joining,
    manipulation,
    numpy_names,
    reductions,
    reshaping,
    saving,
    scans,
    searching,
    sets,
    sorting,
    taking,
    vectorizing,
    windows,
)

CHAPTERS = {
    "Conversion and layout": [convert, explain],
    "Creation": [creation, coordinates, grids, windows],
    "Element-wise": [elementwise, vectorizing, choosing, complex_numbers, comparing],
    "Reductions and scans": [reductions, scans, differences],
    "Sorting, searching and sets": [sorting, searching, sets],
    "Products and norms": [products, einsum, diagonals, norms],
    "Linear algebra": [decompositions, solving, eigen],
    "Fourier transforms (`distarray.fft`)": [transforms, frequencies],
    "Shape and joining": [manipulation, reshaping, joining],
    "Indexing": [taking, flat],
    "Files": [saving],
    "Chunks": [chunks],
    "Data types and NumPy's names": [data_types, numpy_names],
    "Process groups, beside the arrays": [join],
}


def communication(function: object) -> str:
    """The docstring's communication note, on one line."""
    doc = inspect.getdoc(function) or ""
    found = re.search(r"Communication:\s*(.+?)(?:\n\s*\n|\n[A-Z][a-z]+\n-+|\Z)", doc, re.S)
    return " ".join(found.group(1).split()) if found else ""


def page() -> str:
    lines = [
        "# Functions",
        "",
        "What there is, and what it moves between devices. NumPy's functions of the same names dispatch to these; a NumPy",
        "function that is not here raises `TypeError` and gathers nothing. Written by `docs/generate_functions.py`.",
    ]
    for title, modules in CHAPTERS.items():
        lines += ["", f"## {title}", "", "| function | communication |", "|---|---|"]
        if elementwise in modules:
            names = ", ".join(f"`{name}`" for name in elementwise.__all__)
            lines.append(
                f"| {names} | none where the operands have one layout; otherwise what aligns them, at the demand |"
            )
        for module in modules:
            if module is elementwise:
                continue
            for name in module.__all__:
                function = getattr(module, name)
                if callable(function) and not inspect.isclass(function):
                    lines.append(f"| `{name}` | {communication(function) or 'none'} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    assert da
    path = Path(__file__).with_name("functions.md")
    if "--check" in sys.argv:
        if path.read_text() != page():
            sys.exit(f"{path.name} is not current: run python docs/generate_functions.py")
        return
    path.write_text(page())


if __name__ == "__main__":
    main()
