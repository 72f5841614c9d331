"""Every function of sorting, sets, linear algebra and Fourier transforms that the array API standard asks for, and NumPy's
beside them: each with every keyword, with equal keys, NaN, nothing at all and 0-d, and with what NumPy refuses.

A table, so that none is left out: a function without a row, or a keyword without a value, fails. What is drawn at random,
layouts, modes and processes, is in the other files here; here values of factors that are not unique are not looked at.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest

import distarray as da
from conformance.checking import both, on_gpu, outcome
from conformance.contexts import context, spread
from conformance.launching import DEEP
from conformance.mpi import session

OUT = object()
"""Stands for an array that takes the result."""


class Row(NamedTuple):
    """How a function is called: with which values of its keywords, with what beside the array, and how results compare."""

    keywords: Mapping[str, Sequence[Any]] = MappingProxyType({})
    arguments: Callable[[Any], tuple[Any, ...]] = lambda a: (a,)
    how: str = "exact"
    direct: bool = False
    reference: Callable[..., Any] | None = None


AXES = [0, -1, 1, 5, None, 1.5]
KINDS = [None, "quicksort", "stable", "heapsort", "bubble", 3]
BOOLS = [True, False]
NORMS = [None, "backward", "ortho", "forward", "other"]
LENGTHS = [None, 1, 4, 9, 0, -1]
SHAPES = [None, (4,), (3, 5), (0, 2), (2, 2, 2, 2), 3]
SEVERAL = [None, (0,), (0, 1), (-1, 0), (1, 1), (7,)]
ORDERS = [None, 1, -1, 2, -2, np.inf, -np.inf, "fro", "nuc", 0, 3, "other"]


def pair(a: Any) -> tuple[Any, Any]:
    """The array, and some of its elements."""
    return a, a.reshape(-1)[::2]


def sides(a: Any) -> tuple[Any, Any]:
    """The array, and as many rows of right-hand sides."""
    return a, np.ones((*a.shape[:-1], 2), a.dtype)


def turned(a: Any) -> tuple[Any, Any]:
    """The array, and what it may be multiplied by."""
    return a, np.conjugate(np.moveaxis(a, -1, 0)) if a.ndim else a


def twice(a: Any) -> tuple[Any, Any]:
    return a, a[::-1] if a.ndim else a


def with_axes(a: Any) -> tuple[Any]:
    """The array, where it has axes: of 0-d NumPy's error is an accident."""
    if not a.ndim:
        raise IndexError
    return (a,)


def stable(a: Any, **how: Any) -> Any:
    """NumPy's order where equal keys stay in theirs, as they always do here."""
    return np.argsort(a, **(how if {"kind", "stable"} & {*how} else how | {"stable": True}))


ONE = Row({"n": LENGTHS, "axis": AXES, "norm": NORMS, "out": [OUT]}, how="close")
MANY = Row({"s": SHAPES, "axes": SEVERAL, "norm": NORMS, "out": [OUT]}, how="close")
SETS = {"assume_unique": BOOLS}
FALLING = {"descending": BOOLS} if "descending" in inspect.signature(np.sort).parameters else {}
"""What NumPy has from 2.5 on."""

MAIN = {
    "diff": Row({"n": [0, 1, 2, 9, -1], "axis": AXES[:4], "prepend": [3, np.ones((1, 1))], "append": [3, np.ones(2)]}, how="close"),
    "sort": Row({"axis": AXES, "kind": KINDS, "order": [None, "x"], "stable": [None, True, False], **FALLING}, how="unsigned"),
    "argsort": Row(
        {"axis": AXES, "kind": ["stable", "mergesort", 3], "order": [None, "x"], "stable": [True], **FALLING}, reference=stable
    ),
    "lexsort": Row({"axis": [0, -1, 1, 5]}, lambda a: ((a, a[::-1] if a.ndim else a),)),
    "partition": Row({"axis": AXES, "kind": ["introselect", "x"], "order": [None, "x"]}, lambda a: (a, 2), "form"),
    "argpartition": Row({"axis": AXES, "kind": ["introselect", "x"], "order": [None, "x"]}, lambda a: (a, -1), "form"),
    "searchsorted": Row(
        {"side": ["left", "right", "middle"], "sorter": [None, [0, 1], np.arange(7)[::-1].copy(), 1.5]},
        lambda a: (np.sort(a, None) if a.ndim == 1 else a, a),
    ),
    "isin": Row({**SETS, "invert": BOOLS, "kind": [None, "sort", "table", "x"]}, pair),
    "unique": Row({
        "return_index": BOOLS, "return_inverse": BOOLS, "return_counts": BOOLS, "axis": AXES, "equal_nan": BOOLS,
        "sorted": [True],
    }),
    "unique_all": Row(), "unique_counts": Row(), "unique_inverse": Row(), "unique_values": Row(how="sorted"),
    "intersect1d": Row({"return_indices": BOOLS}, pair), "union1d": Row({}, pair, "unsigned"),
    "setdiff1d": Row({}, pair), "setxor1d": Row({}, pair),
    "sort_complex": Row(how="unsigned"),
    "from_dlpack": Row({"device": [None], "copy": [None, True]}, direct=True),
    "tensordot": Row({"axes": [0, 1, ([0], [0]), ([5], [0]), 9]}, turned, "close"),
    "einsum": Row(
        {"out": [OUT], "optimize": [True, "greedy", "other"], "dtype": ["complex128"], "order": ["C"], "casting": ["no"]},
        lambda a: ("...i,...i->...", a, a), "close",
    ),
}  # fmt: skip

LINALG = {
    "cholesky": Row({"upper": BOOLS}, how="form"),
    "cross": Row({"axis": [0, -1, 5]}, twice, "close"),
    "det": Row(how="close"), "slogdet": Row(how="close"), "inv": Row(how="form"),
    "diagonal": Row({"offset": [0, 1, -2, 9]}),
    "trace": Row({"offset": [0, 1, -2, 9], "dtype": ["float32", "complex128"]}, how="close"),
    "eig": Row(how="form"), "eigvals": Row(how="form"),
    "eigh": Row({"UPLO": ["L", "U", "l", "A"]}, how="form"), "eigvalsh": Row({"UPLO": ["L", "u", "A"]}, how="form"),
    "matrix_power": Row({}, lambda a: (a, 3), "close"),
    "matrix_rank": Row({"tol": [1e-3, [1e-3]], "hermitian": BOOLS, "rtol": [1e-3]}, how="form"),
    "pinv": Row({"rcond": [1e-3, [1e-3]], "hermitian": BOOLS, "rtol": [1e-3]}, how="form"),
    "qr": Row({"mode": ["reduced", "complete", "r", "raw", "other"]}, how="form"),
    "solve": Row({}, sides, "form"),
    "svd": Row({"full_matrices": BOOLS, "compute_uv": BOOLS, "hermitian": BOOLS}, how="form"), "svdvals": Row(how="form"),
    "lstsq": Row({"rcond": [None, -1, 1e-3]}, sides, "form"),
    "cond": Row({"p": ORDERS}, how="form"),
    "norm": Row({"ord": ORDERS, "axis": [0, -1, (0, 1), (0, 0), 5], "keepdims": BOOLS}, how="close"),
    "matrix_norm": Row({"ord": ORDERS[1:9] + ["other"], "keepdims": BOOLS}, how="close"),
    "vector_norm": Row({"ord": [1, 2, 3, 0, np.inf, -np.inf, "fro"], "axis": [0, -1, (0, 1), 5], "keepdims": BOOLS}, how="close"),
    "multi_dot": Row({"out": [OUT]}, lambda a: ([a, np.conjugate(a.T), a],), "close"),
    "tensorinv": Row({"ind": [1, 2, 0]}, with_axes, "form"),
    "tensorsolve": Row({"axes": [None, (0,), (5,)]}, lambda a: (a, a[..., 0] if a.ndim else a), "form"),
    "outer": Row({}, lambda a: (a.reshape(-1), a.reshape(-1)), "close"), "matmul": Row({}, turned, "close"),
    "tensordot": Row({"axes": [0, 1]}, turned, "close"), "vecdot": Row({"axis": [0, -1, 5]}, twice, "close"),
    "matrix_transpose": Row(),
}  # fmt: skip

FFT = {
    **dict.fromkeys(["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"], ONE),
    **dict.fromkeys(["fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"], MANY),
    **dict.fromkeys(["fftshift", "ifftshift"], Row({"axes": [*SEVERAL, 0]}, with_axes)),
    **dict.fromkeys(
        ["fftfreq", "rfftfreq"], Row({"d": [1.0, 0.5], "device": [None]}, lambda a: (a.size or 1.5,), "close", True)
    ),
}

SPACES: dict[str, tuple[Any, Any, dict[str, Row]]] = {
    "": (da, np, MAIN), "linalg.": (da.linalg, np.linalg, LINALG), "fft.": (da.fft, np.fft, FFT)
}  # fmt: skip
ROWS = {
    space + name: (ours, theirs, row, name)
    for space, (ours, theirs, table) in SPACES.items()
    for name, row in table.items()
}

#: of the standard, version 2025.12: what this table is there for
STANDARD = {
    "": "diff sort argsort searchsorted isin unique_all unique_counts unique_inverse unique_values from_dlpack",
    "linalg.": "cholesky cross det diagonal eig eigvals eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank "
    "matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot trace vecdot vector_norm",
    "fft.": "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftfreq rfftfreq fftshift ifftshift",
}


def operands() -> dict[str, Any]:
    rng = np.random.default_rng(4)
    square = rng.integers(-3, 4, (4, 4)).astype(float)
    found = {
        "definite": square @ square.T + 5 * np.eye(4),
        "complex": (square @ square.T + 1j * (square - square.T)) + 9 * np.eye(4),
        "single": rng.integers(0, 3, (3, 5)).astype("float32"),
        "tall": rng.integers(0, 3, (5, 2)),
        "stack": rng.standard_normal((2, 3, 3)),
        "equal keys": rng.integers(0, 3, 7).astype("int32"),
        "missing": np.array([1.0, np.nan, -0.0, 0.0, np.nan, 1.0, -np.inf]),
        "singular": np.zeros((3, 3)),
        "bool": np.array([[True, False, True]] * 3),
        "half": np.array([[2.0, 1.0], [1.0, 3.0]], "float16"),
        "0-d": np.array(2.5),
    }
    shapes = [(0,), (0, 3), (3, 0), (0, 0), (2, 0, 0), (0, 3, 3)]
    return found | {f"empty {shape}": np.empty(shape) for shape in shapes}


def form(value: Any) -> Any:
    """Shapes and dtypes, in arrays of zeros: of what is not unique, or has rounding errors that others judge."""
    if isinstance(value, tuple):
        return tuple(int(v) if isinstance(v, np.integer) else form(v) for v in value)
    return np.zeros_like(value) if hasattr(value, "dtype") else value


def in_order(value: Any) -> Any:
    return np.sort(value)


COMPARED: dict[str, tuple[Callable[[Any], Any], dict[str, Any]]] = {
    "exact": (lambda value: value, {}), "sorted": (in_order, {}), "form": (form, {}),
    "unsigned": (lambda value: value, {"zero_sign": False}),
    "close": (lambda value: value, {"exact": False, "ulps": 1e3, "scale": 100.0, "zero_sign": False}),
}  # fmt: skip


def placed(value: Any, turn: int) -> Any:
    """Arrays on devices: in blocks, dealt out, on all devices, or as partial sums."""
    if isinstance(value, (tuple, list)):
        return type(value)(placed(v, turn + i) for i, v in enumerate(value))
    if not isinstance(value, np.ndarray):
        return value
    layout = [da.blocks(0), da.cyclic(0, 1), da.replicated(), da.blocks(-1)][turn % 4] if value.ndim else None
    x = da.asarray(value, layout=layout)
    return x.change_mode("sum") if turn % 5 == 4 and value.dtype.kind in "fi" else x


def open_on_gpus(name: str, kind: str, a: Any) -> bool:
    """Whether the library of GPUs gives something else: transforms in half precision, and how far a NaN spreads in transforms."""
    return a.dtype == np.float16 or (kind == "missing" and name.startswith("fft."))


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("name", ROWS)
def test_keywords_and_edges(name, large):
    ours, theirs, row, short = ROWS[name]
    if large and not name.startswith("linalg."):
        return
    finish, how = COMPARED[row.how]
    f, g = row.reference or getattr(theirs, short), getattr(ours if row.direct else theirs, short)
    calls: list[dict[str, Any]] = [{}, *({key: value} for key, values in row.keywords.items() for value in values)]
    few: list[dict[str, Any]] = [{}, *({key: values[0]} for key, values in row.keywords.items())]
    thin = session() is not None and not DEEP  # processes compute the same: a third of the operands each
    with context(3) as c, spread(c, 2, 1 if large else 64):
        for turn, (kind, a) in enumerate(operands().items()):
            if thin and (turn + len(name)) % 3:
                continue
            if (on_gpu() and open_on_gpus(name, kind, a)) or (large and (a.ndim != 2 or not a.size)):
                continue
            try:
                args = row.arguments(a)
            except (ValueError, IndexError):  # there is no such argument
                continue
            here = args if row.direct else placed(args, turn)
            for given in calls if a.size else few:
                if on_gpu() and ((name == "searchsorted" and np.ndim(given.get("sorter"))) or given.get("p") == "nuc"):
                    continue  # keys out of order; LAPACK says that NaN do not converge, cuSOLVER does not
                mine, his = dict(given), dict(given)
                if given.get("out") is OUT:
                    found, error = outcome(partial(f, *args))
                    if error is not None:  # it is refused with all keywords
                        continue
                    shape, dtype = np.shape(found), np.asarray(found).dtype
                    mine["out"], his["out"] = np.zeros(shape, dtype), da.zeros(shape, dtype)
                try:
                    both(partial(finished, finish, f, args, mine), partial(finished, finish, g, here, his), **how)
                except AssertionError as error:
                    raise AssertionError(f"{name} of {kind} with {given}") from error


def finished(finish: Callable[[Any], Any], f: Callable[..., Any], args: Any, how: dict[str, Any]) -> Any:
    return finish(f(*args, **how))


def test_every_function_has_a_row():
    for space, names in STANDARD.items():
        assert not set(names.split()) - set(SPACES[space][2])


@pytest.mark.parametrize("name", ROWS)
def test_every_keyword_has_values(name):
    _, theirs, row, short = ROWS[name]
    parameters = inspect.signature(getattr(theirs, short)).parameters.values()
    asked = {p.name for p in parameters if p.default is not p.empty} - (set(SETS) if name.endswith("1d") else set())
    assert asked <= set(row.keywords), f"{name} has no values of {asked - set(row.keywords)}"
