"""Host devices beside NumPy: call cost (loops over slices and elements, small kernels), large arrays, and whole programs.

    python benchmarks/host.py                    # default layouts, four devices
    python benchmarks/host.py --part arrays cumsum RK4   # large arrays and programs alone, rows whose names contain a word
    python benchmarks/host.py --part calls --blocks      # call cost of the same arrays forced into four blocks
    python benchmarks/host.py --json host.json --plot host.svg

The programs of a row alternate in one run, so that a busy machine slows all. Call cost is the process's own time, in medians;
large arrays are measured by the wall clock, the best of several, beside numexpr, Dask and jitted JAX where they are
installed and can run the row (`--skip dask,jax` leaves some out), and beside `threads`, the floor of what NumPy's calls
allow: of folds that memory bounds NumPy's own in a bare thread for each core, of chains and programs what one would write
by hand for such threads, block by block into memory that is used again. `DISTARRAY_COMPILED=0` leaves compiled kernels out.
Prints the times, our ratio to NumPy's, the bar, and whether it is met.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import distarray as da

sys.path.insert(0, __file__.rpartition("/")[0])
import _host_arrays


class Row(NamedTuple):
    """A program of arrays that `make` gives, run on NumPy's and on ours. `bar`, `cut`: the ratio that it must reach, in
    default layouts and in four blocks."""

    name: str
    make: Callable[[], tuple[Any, ...]]
    program: Callable[..., Any]
    bar: float = 12
    cut: float = 60


def _vector() -> tuple[Any, ...]:
    return (np.linspace(1, 2, 1024, dtype=np.float32),)


def _square(n: int = 61) -> Callable[[], tuple[Any, ...]]:
    return lambda: (np.random.default_rng(1).random((n, n)) + n * np.eye(n),)


def update(u: Any) -> None:
    u[3, 4] -= u[3, 2] * u[2, 4]


def write(u: Any) -> None:
    u[5, 5] = 1.0


def slice_in_place(u: Any) -> None:
    u[1:-1] += 0.1


def boundary(u: Any) -> None:
    u[0, :] = u[1, :]
    u[:, 0] = u[:, 1]


class Moving:
    """``A[i, :j] @ A[j, :j]`` at positions that have not been before, until all have."""

    def __init__(self) -> None:
        self.turn = 0

    def __call__(self, u: Any) -> Any:
        self.turn += 1
        i, j = self.turn % 61, 1 + (7 * self.turn) % 60
        return u[i, :j] @ u[j, :j]


def stencil(u: Any) -> None:
    u[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])


def elimination(u: Any) -> None:
    """An LU decomposition by rows."""
    a = u.copy()
    for k in range(a.shape[0] - 1):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= a[k + 1 :, k, None] * a[k, k + 1 :]


def element_elimination(u: Any) -> None:
    """The same an element at a time, of the leading 8 × 8."""
    a = u[:8, :8].copy()
    for k in range(7):
        for i in range(k + 1, 8):
            a[i, k] /= a[k, k]
            for j in range(k + 1, 8):
                a[i, j] -= a[i, k] * a[k, j]


def shortest_paths(u: Any) -> None:
    """Floyd–Warshall."""
    d = u.copy()
    for k in range(d.shape[0]):
        d[:] = np.minimum(d, d[:, k, None] + d[k])


def column_sweep(u: Any) -> None:
    a = u.copy()
    for k in range(1, a.shape[1]):
        a[:, k] = 0.5 * a[:, k - 1] + 0.5 * a[:, k]


def power_iteration(u: Any) -> float:
    v = u[0]
    old = 0.0
    for _ in range(10):
        w = u @ v
        size = float(np.linalg.norm(w))
        v = w / size
        if abs(size - old) < 1e-15:
            break
        old = size
    return old


def column_statistics(u: Any) -> Any:
    centred = u - u.mean(axis=0)
    return np.sqrt((centred * centred).sum(axis=0) / u.shape[0])


ROWS = [
    Row("v + v, 1,024 float32", _vector, lambda v: v + v, 6),
    Row("float(u[5, 5])", _square(), lambda u: float(u[5, 5]), 25),
    Row("u[5, 5] = 1.0", _square(), write, 30),
    Row("u[i, j] -= u[i, k] * u[k, j]", _square(), update, 30),
    Row("u[1:-1] += 0.1", _square(), slice_in_place),
    Row("boundary copies", _square(), boundary),
    Row("A[i, :j] @ A[j, :j], moving", _square(), Moving()),
    Row("5-point stencil in place, 61²", _square(), stencil),
    Row("float(v @ v)", _vector, lambda v: float(v @ v)),
    Row("v / norm(v)", _vector, lambda v: v / np.linalg.norm(v)),
    Row("float(v.sum())", _vector, lambda v: float(v.sum())),
    Row("where, clip, mean", _vector, lambda v: np.where(v > 1.5, np.clip(v, 0, 2), v).mean()),
    Row("LU by rows, 61²", _square(), elimination),
    Row("LU by elements, 8²", _square(), element_elimination, 30),
    Row("Floyd–Warshall, 61²", _square(), shortest_paths),
    Row("column sweep, 61²", _square(), column_sweep),
    Row("power iteration, 61²", _square(), power_iteration),
    Row("column statistics, 61²", _square(), column_statistics),
]


def timed(program: Callable[..., Any], arrays: tuple[Any, ...], number: int) -> float:
    """Microseconds of a call, of this process's own time."""
    start = time.process_time()
    for _ in range(number):
        result = program(*arrays)
        if isinstance(result, da.DistributedArray):
            result.evaluate()
    return (time.process_time() - start) / number * 1e6


def measure(row: Row, layout: Any, rounds: int) -> tuple[float, float]:
    """Medians of NumPy's microseconds and ours, of alternating rounds."""
    hosts = row.make()
    ours = tuple(da.asarray(h, layout=layout) for h in hosts)
    number = max(1, int(4000 / max(timed(row.program, hosts, 3), 1)))
    timed(row.program, ours, 2)
    times: list[tuple[float, float]] = []
    for _ in range(rounds):
        times.append((timed(row.program, hosts, number), timed(row.program, ours, max(1, number // 4))))
    numpy, own = zip(*times, strict=True)
    return statistics.median(numpy), statistics.median(own)


def calls(asked: argparse.Namespace) -> list[dict[str, Any]]:
    rows = []
    print(f"{'':34}{'NumPy µs':>10}{'ours':>10}{'ratio':>8}{'bar':>6}")
    for row in ROWS:
        if not chosen(row.name, asked.words):
            continue
        numpy, own = measure(row, da.blocks(0) if asked.blocks else None, asked.rounds)
        bar = row.cut if asked.blocks else row.bar
        met = "" if own / numpy <= bar else "  missed"
        print(f"{row.name:34}{numpy:10.2f}{own:10.2f}{own / numpy:7.1f}×{bar:5.0f}×{met}", flush=True)
        rows.append({"name": row.name, "numpy_us": numpy, "ours_us": own, "ratio": own / numpy, "bar": bar})
    return rows


def arrays(asked: argparse.Namespace) -> list[dict[str, Any]]:
    rows = []
    skip = frozenset(asked.skip.split(","))
    print(f"{'':36}{'NumPy ms':>9}{'ours':>9}{'ratio':>7}{'bar':>6}   peers' ratios")
    for row in _host_arrays.ROWS:
        if not chosen(row.name, asked.words):
            continue
        best = _host_arrays.measure(row, asked.rounds, skip)
        numpy, own = best["numpy"], best["ours"]
        met = "" if own / numpy <= row.bar else "  missed"
        others = ", ".join(f"{name} {best[name] / numpy:.2f}" for name in best if name not in ("numpy", "ours"))
        line = f"{row.name:36}{numpy * 1e3:9.2f}{own * 1e3:9.2f}{own / numpy:6.2f}×{row.bar:5.2f}×"
        print(f"{line}   {others}{met}", flush=True)
        rows.append({"name": row.name, "seconds": best, "ratio": own / numpy, "bar": row.bar})
    return rows


def chosen(name: str, words: list[str]) -> bool:
    return not words or any(word in name for word in words)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--blocks", action="store_true", help="force every array into blocks of rows")
    parser.add_argument("--part", choices=["calls", "arrays", "all"], default="all")
    parser.add_argument("--skip", default="", help="peers to leave out, with commas between")
    parser.add_argument("--json", help="a file for the rows")
    parser.add_argument("--plot", help="a file for a plot of the large arrays and programs")
    parser.add_argument("words", nargs="*", help="parts of the names of rows; default: all rows")
    asked = parser.parse_args()
    with da.init(devices=asked.devices, kind="host"):
        rows = calls(asked) if asked.part != "arrays" else []
        large = arrays(asked) if asked.part != "calls" and not asked.blocks else []
    if asked.json:
        with open(asked.json, "w", encoding="utf-8") as file:
            json.dump({"devices": asked.devices, "blocks": asked.blocks, "rows": rows, "arrays": large}, file, indent=1)
    if asked.plot:
        _host_arrays.plot(large, asked.plot)


if __name__ == "__main__":
    main()
