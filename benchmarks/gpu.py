"""What a program does between large moves, on one GPU: distarray beside CuPy and jitted JAX, in one run.

    python3 benchmarks/gpu.py --out DIR [--only ROW,...] [--scale 1]

Each row is timed as the median of rounds of calls, with one wait at the end of a round; every column's values are compared
with CuPy's on a sample. ``floor`` is the time in which the bytes that must move go through the GPU's memory at 4.1 TB/s
(matrix products: the operations, at the measured rates). DIR gets ``gpu.json``, ``gpu.txt`` and, where matplotlib is
installed, ``gpu.svg``. JAX is "n/a" where it is missing.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
BANDWIDTH = 4.1e12


class Row(NamedTuple):
    """One work: `function` takes a namespace and arrays; `words` counts arrays of the full size that must move."""

    name: str
    function: Callable[..., Any]
    operands: str
    words: float
    bar: float | None = None
    small: bool = False
    jit: bool = True
    steps: Callable[..., Any] | None = None  # what JAX does in the place of a function that writes to its operands


def black_scholes(xp: Any, a: Any, b: Any) -> Any:
    """24 element-wise steps with the profile of an option's price."""
    s, k = a + 20.0, b + 19.0
    d1 = (xp.log(s / k) + 0.055) / 0.3
    d2 = d1 - 0.3

    def cumulative(x: Any) -> Any:
        return 1.0 / (1.0 + xp.exp(-1.702 * x))

    return s * cumulative(d1) - k * math.exp(-0.03) * cumulative(d2) + xp.sqrt(xp.abs(d1 * d2)) * 0.001


def softmax(xp: Any, a: Any) -> Any:
    e = xp.exp(a - a.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def stencil(xp: Any, x: Any) -> Any:
    x[1:-1, 1:-1] = 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])
    return x


def stencil_jax(xp: Any, x: Any) -> Any:
    return x.at[1:-1, 1:-1].set(0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]))


def laplacian(x: Any) -> Any:
    return x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4.0 * x[1:-1, 1:-1]


def reaction(u: Any, v: Any) -> tuple[Any, Any]:
    """One step of the Gray–Scott model on the inner points."""
    a, b = u[1:-1, 1:-1], v[1:-1, 1:-1]
    both = a * b * b
    return a + (0.16 * laplacian(u) - both + 0.035 * (1.0 - a)), b + (0.08 * laplacian(v) + both - 0.1 * b)


def gray_scott(xp: Any, u: Any, v: Any) -> tuple[Any, Any]:
    more, less = reaction(u, v)
    u[1:-1, 1:-1] = more
    v[1:-1, 1:-1] = less
    return u, v


def gray_scott_jax(xp: Any, u: Any, v: Any) -> tuple[Any, Any]:
    more, less = reaction(u, v)
    return u.at[1:-1, 1:-1].set(more), v.at[1:-1, 1:-1].set(less)


def k_means(xp: Any, points: Any, centres: Any) -> Any:
    """The next centres: each the mean of the points that are nearest to it."""
    far = (centres * centres).sum(axis=1) - 2.0 * (points @ centres.T)
    chosen = (far.argmin(axis=1)[:, None] == xp.arange(8)).astype("float32")
    return (chosen.T @ points) / chosen.sum(axis=0)[:, None]


SIDE, POINTS = 2000, 10_000_000
GRAY_SCOTT = 4 * (SIDE / 16384) ** 2
K_MEANS = 2 * 16 * POINTS / 16384**2

ROWS = [
    Row("a + b", lambda xp, a, b: a + b, "ab", 3, 0.85),
    Row("(a*b+a)*0.5-b", lambda xp, a, b: (a * b + a) * 0.5 - b, "ab", 3, 0.85),
    Row("Black-Scholes", black_scholes, "ab", 3, 1.0),
    Row("complex chain, 8192^2", lambda xp, z: (z * z + z) * (0.5 + 1j) - z, "z", 1, 0.29),
    Row("exp", lambda xp, a: xp.exp(a), "a", 2, 0.566),
    Row("where(a > b, a, b)", lambda xp, a, b: xp.where(a > b, a, b), "ab", 3, 0.85),
    Row("a - a.mean(axis=0)", lambda xp, a: a - a.mean(axis=0), "a", 3, 1.1),
    Row("softmax", softmax, "a", 2, 0.58),
    Row("sum", lambda xp, a: a.sum(), "a", 1, 0.32),
    Row("sum(axis=0)", lambda xp, a: a.sum(axis=0), "a", 1, 0.32),
    Row("sum(axis=1)", lambda xp, a: a.sum(axis=1), "a", 1, 0.32),
    Row("max(axis=1)", lambda xp, a: a.max(axis=1), "a", 1, 0.32),
    Row("(a*b).sum()", lambda xp, a, b: (a * b).sum(), "ab", 2, 0.62),
    Row("std", lambda xp, a: a.std(), "a", 1, 0.32),
    Row("argmax(axis=1)", lambda xp, a: a.argmax(axis=1), "a", 1, 0.32),
    Row("cumsum(axis=1)", lambda xp, a: xp.cumsum(a, axis=1), "a", 2, 0.8),
    Row("cumsum(axis=0)", lambda xp, a: xp.cumsum(a, axis=0), "a", 2, 0.8),
    Row("transpose copy", lambda xp, a: a.T.copy(), "a", 2, 0.65),
    Row("x[mask]", lambda xp, a, m: a[m], "am", 1.75, 1.1, jit=False),
    Row("rows by index", lambda xp, a, i: a[i], "ai", 2, 0.65),
    Row("in-place stencil", stencil, "w", 2, 0.75, steps=stencil_jax),
    Row("Gray-Scott 2000^2", gray_scott, "uv", GRAY_SCOTT, 0.25, steps=gray_scott_jax),
    Row("k-means 10^7 x 16, 8", k_means, "pc", K_MEANS),
    Row("64: a + a", lambda xp, s: s + s, "s", 0, 0.014, True),
    Row("64: chain of 5", lambda xp, s: ((s * 2.0 + s) * 0.5 - s) * s, "s", 0, 0.016, True),
    Row("64: sum(axis=0)", lambda xp, s: s.sum(axis=0), "s", 0, 0.025, True),
    Row("64: @", lambda xp, s: s @ s, "s", 0, 0.022, True),
    Row("64: float(sum)", lambda xp, s: float(s.sum()), "s", 0, 0.020, True, jit=False),
]


def timed(call: Callable[[], Any], wait: Callable[[], None], small: bool) -> float:
    """Milliseconds a call, the median of rounds."""
    rounds, calls = (15, 200) if small else (7, 6)
    for _ in range(10 if small else 2):
        call()
    wait()
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            result = call()
        wait()
        found.append((time.perf_counter() - start) / calls)
        del result
    return statistics.median(found) * 1e3


def sample(value: Any) -> Any:
    """Some elements of a NumPy array, in double precision."""
    flat = np.asarray(value).reshape(-1)
    if flat.dtype.kind == "c":
        flat = flat.view(flat.real.dtype)
    return flat[:: max(1, flat.size // 9973)].astype(np.float64)


class Column:
    """One library's way of running the rows."""

    def __init__(self, name: str, arrays: dict[str, Any]) -> None:
        self.name, self.arrays = name, arrays

    def prepare(self, row: Row) -> Callable[[], Any]:
        raise NotImplementedError

    def wait(self) -> None:
        raise NotImplementedError

    def host(self, value: Any) -> Any:
        raise NotImplementedError


class Cupy(Column):
    def prepare(self, row: Row) -> Callable[[], Any]:
        import cupy

        operands = [self.arrays[k] for k in row.operands]
        return lambda: row.function(cupy, *operands)

    def wait(self) -> None:
        import cupy

        cupy.cuda.Stream.null.synchronize()

    def host(self, value: Any) -> Any:
        return value if isinstance(value, float) else value.get()


class Jax(Column):
    def prepare(self, row: Row) -> Callable[[], Any]:
        import jax
        import jax.numpy as jnp

        if not row.jit:
            raise RuntimeError("not jittable")
        function = row.steps or row.function
        donate = tuple(range(len(row.operands))) if row.steps else ()
        if row.name == "transpose copy":
            function = lambda xp, a: a.T + 0.0  # noqa: E731 - a case is one line
        jitted = jax.jit(lambda *arrays: function(jnp, *arrays), donate_argnums=donate)
        operands = [self.arrays[k] for k in row.operands]

        def call() -> Any:
            self.last = jitted(*operands)
            if donate:
                operands[:] = self.last if isinstance(self.last, tuple) else [self.last]
            return self.last

        return call

    def wait(self) -> None:
        import jax

        jax.block_until_ready(self.last)

    def host(self, value: Any) -> Any:
        return np.asarray(value)


class Distarray(Column):
    def __init__(self, name: str, context: Any, arrays: dict[str, Any]) -> None:
        super().__init__(name, arrays)
        self.context = context

    def prepare(self, row: Row) -> Callable[[], Any]:
        import distarray as da

        operands = [self.arrays[k] for k in row.operands]

        def call() -> Any:
            found = row.function(np, *operands)
            for value in found if isinstance(found, tuple) else (found,):
                if isinstance(value, da.DistributedArray):
                    value.evaluate()
            return found

        return call

    def wait(self) -> None:
        import cupy

        cupy.cuda.Stream.null.synchronize()

    def host(self, value: Any) -> Any:
        return value if isinstance(value, float) else value.get()


def columns(scale: int) -> list[Callable[[], Column]]:
    """Constructors of the columns: each makes its arrays from the same CuPy arrays."""
    import cupy

    n = 16384 // scale
    random = cupy.random.default_rng(7)
    base = {
        "a": random.standard_normal((n, n), dtype=np.float32),
        "b": random.standard_normal((n, n), dtype=np.float32),
        "s": random.standard_normal((64, 64), dtype=np.float32),
    }
    base["u"] = random.random((SIDE // scale, SIDE // scale), dtype=np.float32)
    base["v"] = random.random((SIDE // scale, SIDE // scale), dtype=np.float32) * np.float32(0.2)
    base["p"] = random.standard_normal((POINTS // scale**2, 16), dtype=np.float32)
    base["c"] = base["p"][:8].copy()
    base["m"] = base["a"] > 0
    half = slice(0, n // 2)
    base["z"] = base["a"][half, half] + base["b"][half, half] * np.complex64(1j)
    base["w"] = base["a"].copy()
    rows = np.random.default_rng(3).integers(0, n, n)
    base["i"] = cupy.asarray(rows)

    def jax_column() -> Column:
        import jax

        return Jax("jax", {k: jax.dlpack.from_dlpack(v.copy()) for k, v in base.items()})

    def ours(devices: int) -> Column:
        import distarray as da

        context = da.init(devices=devices, kind="cuda")
        with context:
            layouts = {"c": da.replicated()}
            arrays = {k: da.asarray(v.get(), layout=layouts.get(k, da.blocks(0))) for k, v in base.items() if k != "i"}
        return Distarray(f"da{devices}", context, {**arrays, "i": rows})

    return [lambda: Cupy("cupy", base), lambda: ours(1), lambda: ours(2), jax_column]


def plot(rows: list[Row], results: dict[str, dict[str, Any]], names: list[str], path: Path) -> None:
    """Each row's milliseconds on a logarithmic axis, beside its bar."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return
    figure = Figure(figsize=(8, 0.4 * len(rows) + 1), layout="constrained")
    axes = figure.subplots()
    labels = {"cupy": "CuPy", "da1": "distarray", "da2": "distarray, as two devices", "jax": "JAX jit"}
    for name in names:
        places = [i for i, row in enumerate(rows) if "ms" in results[row.name].get(name, {})]
        axes.plot([results[rows[i].name][name]["ms"] for i in places], places, "o", label=labels[name], markersize=5)
    barred = [i for i, row in enumerate(rows) if row.bar]
    axes.plot([rows[i].bar for i in barred], barred, "k|", markersize=12, label="bar")
    axes.set_xscale("log")
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds a call")
    axes.grid(axis="x", linewidth=0.4)
    axes.legend(fontsize="small")
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path())
    parser.add_argument("--only", default="")
    parser.add_argument("--scale", type=int, default=1, help="divides the side of the arrays")
    options = parser.parse_args()
    only = [name for name in options.only.split(",") if name]
    rows = [row for row in ROWS if not only or any(name in row.name for name in only)]
    results: dict[str, dict[str, Any]] = {row.name: {} for row in rows}
    expected: dict[str, Any] = {}
    names = []
    for make in columns(options.scale):
        try:
            column = make()
        except Exception:
            traceback.print_exc()
            continue
        names.append(column.name)
        for row in rows:
            try:
                call = column.prepare(row)
                first = sample(column.host(call())) if row.steps is None else None
                error = None
                if column.name == "cupy":
                    expected[row.name] = first
                elif first is not None:
                    error = float(
                        np.abs(first - expected[row.name]).max() / max(1e-30, np.abs(expected[row.name]).max())
                    )
                results[row.name][column.name] = {"ms": timed(call, column.wait, row.small), "error": error}
            except Exception as error:
                if not isinstance(error, RuntimeError):
                    traceback.print_exc()
                results[row.name][column.name] = {"na": f"{type(error).__name__}: {error}"[:200]}
            call = None
        del column
    lines = [f"{'work':22}{'floor':>8}" + "".join([f"{name:>10}" for name in names]) + f"{'bar':>8}   errors"]
    side = 16384 // options.scale
    for row in rows:
        floor = row.words * 4 * side * side / BANDWIDTH * 1e3
        cells, errors = "", ""
        for name in names:
            found = results[row.name].get(name, {})
            cells += f"{found['ms']:10.4f}" if "ms" in found else f"{'n/a':>10}"
            errors += f" {found['error']:.0e}" if found.get("error") is not None else " -"
        lines.append(f"{row.name:22}{floor:8.3f}{cells}{row.bar or 0:8.3f}  {errors}")
    table = "\n".join(lines)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "gpu.json").write_text(json.dumps(results, indent=1))
    (options.out / "gpu.txt").write_text(table + "\n")
    plot(rows, results, names, options.out / "gpu.svg")
    print(table)


if __name__ == "__main__":
    main()
