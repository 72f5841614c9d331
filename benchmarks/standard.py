"""What the standard's larger functions take beside NumPy's, on four host devices, in turns within one run.

    python benchmarks/standard.py [NAME ...]      # rows whose names contain one of these; default: all

Prints one row a function: seconds here and there, the ratio of the best of each, the bar, and whether it is met. Every figure
includes evaluation. On a loaded machine the processor time column says more: what all threads took, of one core's seconds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import distarray as da

DEVICES = 4

PAUSE = 0.15
"""Seconds before each call. OpenBLAS's threads go on spinning for a tenth of a second after a call (its
``OPENBLAS_THREAD_TIMEOUT``), on a core that the next turn is timed on: without a pause a product of ours that follows one of
NumPy's takes a third longer, and so do two bare threads that each multiply half of the rows."""


class Row(NamedTuple):
    """A function and the times of NumPy's that it may take; `make` gives our call and NumPy's."""

    name: str
    bar: float
    make: Callable[[Any], tuple[Callable[[], Any], Callable[[], Any]]]


def _spread(a: np.ndarray) -> Any:
    return da.asarray(a, layout=da.blocks(0))


def sorting(function: str, dtype: str) -> Callable[[Any], tuple[Callable[[], Any], Callable[[], Any]]]:
    """A function of 2²² random numbers in blocks."""

    def make(rng: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
        a = rng.random(1 << 22) if dtype == "float64" else rng.integers(0, 1 << 40, 1 << 22)
        x = _spread(a)
        return lambda: getattr(da, function)(x), lambda: getattr(np, function)(a)

    return make


def searching(rng: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    a, v = np.sort(rng.random(1 << 22)), rng.random(1 << 20)
    x, y = _spread(a), _spread(v)
    return lambda: da.searchsorted(x, y), lambda: np.searchsorted(a, v)


def lines(axis: int) -> Callable[[Any], tuple[Callable[[], Any], Callable[[], Any]]]:
    """A sort along an axis that is not split, or with 0 along the one that is."""

    def make(rng: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
        a = rng.random((2048, 2048))
        x = _spread(a)
        return lambda: da.sort(x, axis=axis), lambda: np.sort(a, axis=axis)

    return make


def matrix(
    ours: Callable[[Any], Any],
    numpys: Callable[[Any], Any],
    shape: tuple[int, int] = (2048, 2048),
    definite: bool = False,
) -> Callable[[Any], tuple[Callable[[], Any], Callable[[], Any]]]:
    """A function of a random matrix in blocks of rows, or of a positive definite one."""

    def make(rng: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
        a = rng.standard_normal(shape)
        if definite:
            a = a @ a.T + len(a) * np.eye(len(a))
        x = _spread(a)
        return lambda: ours(x), lambda: numpys(a)

    return make


def product(a: Any) -> Any:
    """A chain of three matrices, all of it evaluated."""
    found = np.einsum("ij,jk,kl->il", a, a, a, optimize=True)
    return found.evaluate() if isinstance(found, da.DistributedArray) else found


def transform(
    function: str, shape: tuple[int, ...], dtype: str
) -> Callable[[Any], tuple[Callable[[], Any], Callable[[], Any]]]:
    """A Fourier transform of random numbers in blocks of the first axis."""

    def make(rng: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
        a = rng.random(shape).astype(dtype)
        x = _spread(a)
        return lambda: getattr(np.fft, function)(x), lambda: getattr(np.fft, function)(a)

    return make


ROWS = [
    Row("cholesky, 2048²", 1.5, matrix(np.linalg.cholesky, np.linalg.cholesky, definite=True)),
    Row(
        "solve, 2048²",
        1.5,
        matrix(lambda x: np.linalg.solve(x, np.ones(2048)), lambda a: np.linalg.solve(a, np.ones(2048))),
    ),
    Row("qr, 2048²", 1.8, matrix(np.linalg.qr, np.linalg.qr)),
    Row("svd, 20000 × 200", 1.2, matrix(*[lambda x: np.linalg.svd(x, full_matrices=False)] * 2, shape=(20000, 200))),
    Row("eigh, 1024²", 3.0, matrix(np.linalg.eigh, np.linalg.eigh, (1024, 1024), definite=True)),
    Row("einsum ij,jk,kl->il, 1024²", 1.1, matrix(product, product, (1024, 1024))),
    Row("sort, 2²² float64", 0.8, sorting("sort", "float64")),
    Row("argsort, 2²² float64", 1.0, sorting("argsort", "float64")),
    Row("unique, 2²² int64", 1.0, sorting("unique", "int64")),
    Row("searchsorted, 2²⁰ in 2²²", 0.8, searching),
    Row("sort along the unsplit axis, 2048²", 0.6, lines(1)),
    Row("sort along the split axis, 2048²", 1.0, lines(0)),
    Row("fft2, 4096² complex128", 0.8, transform("fft2", (4096, 4096), "complex128")),
    Row("rfft along the split axis, 2²²", 1.5, transform("rfft", (1 << 22,), "float64")),
]

GROWTH = [
    ("sort", lambda n, rng: (np.sort, rng.random(n))),
    ("argsort", lambda n, rng: (np.argsort, rng.random(n))),
    ("unique", lambda n, rng: (np.unique, rng.integers(0, 1 << 40, n))),
    ("fft", lambda n, rng: (np.fft.fft, rng.random(n).astype("complex128"))),
    ("rfft", lambda n, rng: (np.fft.rfft, rng.random(n))),
]  # fmt: skip
"""Work of n log n: of 2²⁰ and of 2²² elements; 4 times the data takes at most 4.6 times the time."""


def measured(ours: Callable[[], Any], numpys: Callable[[], Any], turns: int) -> tuple[list[float], list[float]]:
    """The least wall-clock and processor seconds of both, in `turns`, and more until two seconds are over.

    Machines that others share have slow spells of a second or so: of a row that is shorter one side would see little else.
    """
    wall, cores = [1e9, 1e9], [1e9, 1e9]
    end = time.perf_counter() + 2
    while turns > 0 or time.perf_counter() < end:
        turns -= 1
        for i, call in enumerate((ours, numpys)):
            time.sleep(PAUSE)
            start, used = time.perf_counter(), time.process_time()
            call()
            wall[i] = min(wall[i], time.perf_counter() - start)
            cores[i] = min(cores[i], time.process_time() - used)
    return wall, cores


def grown(name: str, make: Callable[[int, Any], tuple[Callable[[Any], Any], Any]]) -> None:
    """Print how much longer 4 times the data take, and how much longer they take NumPy."""
    rng = np.random.default_rng(0)
    times = []
    for n in (1 << 20, 1 << 22):
        f, a = make(n, rng)
        x = _spread(a)
        times.append(measured(lambda f=f, x=x: f(x), lambda f=f, a=a: f(a), turns=5)[0])  # type: ignore[misc]
    ours, numpys = (large / small for small, large in zip(*times))
    print(
        f"{name}, 4 × the data | {ours:.2f} | {numpys:.2f} | | ≤ 4.6 | {'yes' if ours <= 4.6 else 'NO'} |", flush=True
    )


def main() -> None:
    chosen = [row for row in ROWS if not sys.argv[1:] or any(word in row.name for word in sys.argv[1:])]
    print("function | here | NumPy | ratio | bar | met | processor time, ratio")
    with da.init(devices=DEVICES, kind="host"):
        for row in chosen:
            turns = 3 if "4096" in row.name else 5
            (ours, numpys), (cores, theirs) = measured(*row.make(np.random.default_rng(0)), turns=turns)
            ratio = ours / numpys
            print(
                f"{row.name} | {ours * 1e3:.0f} ms | {numpys * 1e3:.0f} ms | {ratio:.2f} | ≤ {row.bar} | "
                f"{'yes' if ratio <= row.bar else 'NO'} | {cores / theirs:.2f}",
                flush=True,
            )
        for name, make in GROWTH:
            if not sys.argv[1:] or any(word in f"growth of {name}" for word in sys.argv[1:]):
                grown(name, make)


if __name__ == "__main__":
    main()
