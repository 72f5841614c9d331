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
from distarray.linalg import decompositions, dots, eigen, einsum, least_squares, norms, polynomials, products, solving
from distarray.ops import (
    applying,
    binning,
    bits,
    choosing,
    chunks,
    comparing,
    complex_numbers,
    convert,
    coordinates,
    creation,
    data_types,
    diagonals,
    differences,
    editing,
    elementwise,
    explain,
    flat,
    flipping,
    grids,
    histograms,
    index_arrays,
    joining,
    loading,
    manipulation,
    moments,
    nans,
    numbers,
    numpy_names,
    padding,
    partitioning,
    placing,
    quantiles,
    reductions,
    refused,
    repeating,
    reshaping,
    saving,
    scans,
    scimath,
    searching,
    selecting,
    sequences,
    sets,
    signal,
    sorting,
    sources,
    splitting,
    statistics,
    taking,
    triangles,
    vectorizing,
    windows,
)
from distarray.polynomial import polynomial as power_series

CHAPTERS = {
    "Conversion and layout": [convert, explain],
    "Creation": [creation, sequences, coordinates, grids, windows],
    "Element-wise": [elementwise, vectorizing, choosing, complex_numbers, comparing, numbers],
    "Reductions and scans": [reductions, moments, scans, differences],
    "Without NaN": [nans],
    "Statistics": [statistics, quantiles, histograms, binning],
    "Neighbours along an axis": [signal],
    "Polynomials": [polynomials],
    "Power series (`distarray.polynomial.polynomial`)": [power_series],
    "Complex where needed (`distarray.emath`)": [scimath],
    "Sorting, searching and sets": [sorting, partitioning, searching, sets],
    "Products and norms": [products, dots, einsum, diagonals, norms],
    "Linear algebra": [decompositions, solving, least_squares, eigen],
    "Fourier transforms (`distarray.fft`)": [transforms, frequencies],
    "Shape and joining": [manipulation, flipping, reshaping, joining, repeating, splitting, padding],
    "Editing and choosing": [editing, selecting, bits],
    "Diagonals and triangles": [triangles],
    "Lines and windows": [applying],
    "Indexing": [taking, placing, index_arrays, flat],
    "Files and other libraries' arrays": [saving, loading, sources],
    "Chunks": [chunks],
    "Data types and NumPy's names": [data_types, numpy_names],
    "Process groups, beside the arrays": [join],
}


def communication(function: object) -> str:
    """The docstring's communication note, on one line."""
    doc = inspect.getdoc(function) or ""
    found = re.search(r"Communication:\s*(.+?)(?:\n\s*\n|\n[A-Z][a-z]+\n-+|\Z)", doc, re.S)
    return " ".join(found.group(1).split()) if found else ""


def memory(function: object) -> str:
    """The docstring's note on memory, on one line."""
    doc = inspect.getdoc(function) or ""
    found = re.search(r"Memory on each device[:,]\s*(.+?)(?:\n\s*\n|\n[A-Z][a-z]+\n-+|\Z)", doc, re.S)
    return " ".join(found.group(1).split()) if found else ""


def page() -> str:
    lines = [
        "# Functions",
        "",
        "What there is, and what it moves between devices. Where NumPy has a function of the name, it dispatches to this one; a",
        "NumPy function that is not here raises `TypeError` and gathers nothing. Memory is what a device needs besides its parts",
        "of operands and result, where that is more than buffers. Written by `docs/generate_functions.py`.",
    ]
    for title, modules in CHAPTERS.items():
        lines += ["", f"## {title}", "", "| function | communication | memory on each device |", "|---|---|---|"]
        if elementwise in modules:
            names = ", ".join(f"`{name}`" for name in elementwise.__all__)
            lines.append(
                f"| {names} | none where the operands have one layout; otherwise what aligns them, at the demand | |"
            )
        for module in modules:
            if module is elementwise:
                continue
            for name in module.__all__:
                function = getattr(module, name)
                if callable(function) and not inspect.isclass(function):
                    lines.append(f"| `{name}` | {communication(function) or 'none'} | {memory(function)} |")
    lines += [
        "",
        "## Refused",
        "",
        "These raise `TypeError` with the reason.",
        "",
        "| function | reason |",
        "|---|---|",
    ]
    for refused_function, reason in refused.REFUSED.items():
        lines.append(f"| `{refused_function.__module__}.{refused_function.__name__}` | {reason} |")
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
