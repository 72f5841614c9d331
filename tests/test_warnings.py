"""Warnings are given once, at the caller's line, as code sees it that has a module's name, or none (``exec``, ``runpy``)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import distarray as da

LINES = {
    "astype": "x.astype(float)",
    "assignment": "r[...] = x",
    "ufunc": "np.add(x, x, out=r, casting='unsafe')",
    "full_like": "np.full_like(r, 1j)",
    "full": "xp.full(3, np.complex64(1j), dtype='i4')",
    "division": "str(r / 0)",
    "mean": "str(np.mean(r[:0]))",
    "var": "str(np.var(r[:1], ddof=1))",
    "std": "str(r.std(ddof=3))",
    "mean where": "str(np.mean(r, where=False))",
    "nanmax": "np.nanmax(r * np.nan)",
    "polyfit": "np.polyfit(r, r, 5)",
    "polynomial": "xp.polynomial.polynomial.polyfit(r, r, 5)",
    "pad": "np.pad(r, 0, 'mean', stat_length=0)",
    "pad with it": "np.pad(r, (0, 1), 'mean', stat_length=(1, 0))",
}
if np.lib.NumpyVersion(np.__version__) < "2.5.0":
    LINES["cross"] = "np.cross(r[:2], r[:2])"


def said(line: str, xp: Any, names: dict[str, Any], layout: Any) -> set[tuple[Any, ...]]:
    """(kind, text, file, line) of the warnings; what NumPy says of its own lines inside, ours says of the caller's."""
    arrays = {"x": np.array([1j, 2, 3]), "r": np.ones(3)}
    if xp is da:
        arrays = {name: da.asarray(array, layout=layout) for name, array in arrays.items()}
    code = compile(f"\n{line}\n", "a program", "exec")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec(code, {"np": np, "xp": xp, **arrays, **names})
    inside = f"{np.__path__[0]}/"
    return {
        (w.category, str(w.message).replace("scalar ", ""), *(("a program", 2) if xp is np and w.filename.startswith(inside)
         else (w.filename, w.lineno)))
        for w in caught
    }  # fmt: skip


@pytest.mark.parametrize("names", [{}, {"__name__": "prog"}, {"__name__": 5}], ids=["no name", "name", "a number"])
@pytest.mark.parametrize("line", LINES)
def test_warnings_are_given_at_the_callers_line(line: str, names: dict[str, Any]) -> None:
    for devices, layout in ((1, None), (3, None), (3, da.blocks(0)), (3, da.replicated())):
        with da.init(devices=devices, kind="host", minimum_chunk=1):
            assert said(LINES[line], da, names, layout) == said(LINES[line], np, names, None) != set()


@pytest.mark.parametrize(
    ("names", "module"), [({}, "<string>"), ({"__name__": "prog"}, "prog"), ({"__name__": 5}, "<string>")]
)
def test_a_filter_by_module_holds(names: dict[str, Any], module: str) -> None:
    for xp in (np, da):
        with da.init(devices=3, kind="host"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.filterwarnings("error", module=module)
            with pytest.raises(RuntimeWarning, match="divide by zero"):
                exec("str(x / 0)", {"x": xp.ones(3), **names})
