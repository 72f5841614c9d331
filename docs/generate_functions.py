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

DISTRIBUTION = {
    "Conversion and layout": (
        "Each device receives its chunks of the layout asked for; by default blocks of rows, small arrays whole."
    ),
    "Creation": (
        "Each device makes its own chunks, by default blocks of rows, small arrays whole; `layout=` says otherwise."
    ),
    "Element-wise": "Each device computes what lies on it; the result lies as the operands do.",
    "Reductions and scans": (
        "Each device folds what it holds. Where a reduced axis is cut, the results stay partial values (in SUM, "
        "PROD, MIN or MAX mode) until they are needed. Scans and differences lie as the array does; along a cut "
        "axis one running slice passes from each device to the next."
    ),
    "Without NaN": "As the functions of the names without `nan`.",
    "Statistics": (
        "Each device counts, selects or sorts what it holds. Counts and sums stay in SUM mode until they are "
        "needed; of few long lines elements are selected where they lie."
    ),
    "Neighbours along an axis": "Each device computes its part from what it holds and the edges of its neighbours.",
    "Polynomials": (
        "Values at points are computed where the points lie. Coefficients are few: where a computation goes "
        "through them one by one, each process does it alone."
    ),
    "Power series (`distarray.polynomial.polynomial`)": "As polynomials.",
    "Complex where needed (`distarray.emath`)": "Element-wise.",
    "Sorting, searching and sets": (
        "Whole lines are sorted where they lie; cut ones by samples and one exchange, after which each device "
        "holds an interval of the order. Positions and counts are found in each device's own chunks."
    ),
    "Products and norms": (
        "Each device multiplies what it holds or receives. Where the summed axis is cut, results stay in SUM mode "
        "until they are needed."
    ),
    "Linear algebra": (
        "Stacks of matrices are shared out, whole matrices to a device; a large matrix is worked on by all devices."
    ),
    "Fourier transforms (`distarray.fft`)": (
        "Each device transforms whole lines; axes that are cut are exchanged for others first."
    ),
    "Shape and joining": (
        "Views where NumPy has views and the layout allows it. Otherwise each piece is written straight into its "
        "place in the result."
    ),
    "Editing and choosing": "Each device makes its part of the result.",
    "Diagonals and triangles": "Each device makes its part of the result.",
    "Lines and windows": "Lines are whole on a device when the function is called; windows are views.",
    "Indexing": "Each device reads and writes what it holds, and sends what others asked for by index.",
    "Files and other libraries' arrays": "Every device reads and writes its own part.",
    "Chunks": "The chunks themselves.",
    "Data types and NumPy's names": "No function of this chapter is distributed otherwise than those that it calls.",
    "Process groups, beside the arrays": "One process for each device, or one for all.",
}
"""How the functions of a chapter are distributed, and their results."""


def communication(function: object) -> str:
    """The docstring's communication note, on one line."""
    doc = inspect.getdoc(function) or ""
    found = re.search(r"Communication:\s*(.+?)(?:\n\s*\n|\n[A-Z][a-z]+\n-+|\Z)", doc, re.S)
    return " ".join(found.group(1).split()) if found else ""


def memory(function: object) -> str:
    """The docstring's note on memory, on one line; where it has none, that of the function whose communication it says it has."""
    doc = inspect.getdoc(function) or ""
    found = re.search(
        r"^Memory(.*?)(?:,? on each device)?[:,]\s+(.+?)(?:\n\s*\n|\n[A-Z][a-z]+\n-+|\Z)", doc, re.S | re.M
    )
    if found:
        return " ".join(f"{found[1]}: {found[2]}".removeprefix(": ").split())
    other = re.match(r"(?:as for|that of|as of|as|of) :func:`(\w+)`", communication(function))
    return memory(FUNCTIONS[other[1]]) if other and FUNCTIONS.get(other[1], function) is not function else ""


FUNCTIONS: dict[str, object] = {
    name: getattr(module, name) for modules in CHAPTERS.values() for module in modules for name in module.__all__
}
"""Every function that has a row, by its name."""


def page() -> str:
    lines = [
        "# Functions",
        "",
        "What there is, how it is distributed, and what it moves between devices. Where NumPy has a function of the name, it",
        "dispatches to this one; a NumPy function that is not here raises `TypeError` and gathers nothing. Memory is what a device",
        'needs besides its parts of operands and result, where that is more than buffers; "so many times its share" is all that',
        "it holds, where everything is in blocks. Written by `docs/generate_functions.py`.",
    ]
    for title, modules in CHAPTERS.items():
        lines += [
            "",
            f"## {title}",
            "",
            DISTRIBUTION[title],
            "",
            "| function | communication | memory on each device |",
            "|---|---|---|",
        ]
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
