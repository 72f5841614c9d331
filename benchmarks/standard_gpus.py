"""Sorting and factorizing what is large, on several GPUs of one process, beside CuPy and JAX on one of them.

    python3 benchmarks/standard_gpus.py [--gpus 2] [--only NAME,...] [--out DIR]
    python3 benchmarks/standard_gpus.py --kind host --scale 64        # small sizes on CPUs, beside NumPy

2³⁰ float32 are sorted; a 32768² float32 matrix is factorized (Cholesky) and solved with. Each work is done once before it is
timed, and the least of three times is printed in milliseconds, with whether the result is right: in order and with the sum of
the input; the residual, relative to the matrix and the solution, below 100 units of rounding.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

TURNS = 3


class Library(NamedTuple):
    """An array library: its module, how its random numbers are made, and how its work is waited for."""

    name: str
    xp: Any
    random: Callable[[tuple[int, ...]], Any]
    wait: Callable[[Any], None]
    solved: Callable[[str], Callable[..., Any]]


def sort(library: Library, size: int) -> tuple[Callable[[], Any], Callable[[Any], bool]]:
    x = library.random((size,))
    call = library.solved("sort")

    def right(y: Any) -> bool:
        ordered = bool((y[1:] >= y[:-1]).all())
        return ordered and abs(float(y.sum(dtype="float64") - x.sum(dtype="float64"))) <= 1e-6 * size

    return lambda: call(x), right


def cholesky(library: Library, size: int) -> tuple[Callable[[], Any], Callable[[Any], bool]]:
    xp = library.xp
    place = xp.arange(size, dtype="int32")
    apart = xp.abs(xp.expand_dims(place, 1) - xp.expand_dims(place, 0))
    a = 1 / (1 + apart.astype("float32")) + (apart == 0)  # positive definite: convex and falling with the distance
    a = a.astype("float32")
    call = library.solved("cholesky")
    ones = xp.ones((size, 1), dtype="float32")

    def right(low: Any) -> bool:
        rest = low @ (low.T @ ones) - a @ ones
        return float(abs(rest).max()) <= 100 * 1.2e-7 * float(abs(a @ ones).max())

    return lambda: call(a), right


def solve(library: Library, size: int) -> tuple[Callable[[], Any], Callable[[Any], bool]]:
    a, b = library.random((size, size)), library.random((size, 1))
    call = library.solved("solve")

    def right(x: Any) -> bool:
        scale = float(abs(a).sum(axis=1).max()) * float(abs(x).max())
        return float(abs(a @ x - b).max()) <= 100 * 1.2e-7 * scale

    return lambda: call(a, b), right


WORKS: dict[str, tuple[int, Any]] = {"sort": (2**30, sort), "cholesky": (32768, cholesky), "solve": (32768, solve)}
"""Work -> its size, and what makes it."""


def ours(kind: str, gpus: int) -> Library:
    import distarray as da

    da.init(devices=gpus, kind=kind).__enter__()
    rng = da.random.default_rng(0)

    def random(shape: tuple[int, ...]) -> Any:
        return rng.random(shape, dtype="float32").reshard(da.blocks(0))

    def wait(value: Any) -> None:
        value.evaluate()
        da.synchronize()

    functions = {"sort": da.sort, "cholesky": da.linalg.cholesky, "solve": da.linalg.solve}
    return Library(f"distarray, {gpus} devices", da, random, wait, functions.__getitem__)


def numpy() -> Library:
    import numpy as np

    rng = np.random.default_rng(0)
    functions = {"sort": np.sort, "cholesky": np.linalg.cholesky, "solve": np.linalg.solve}
    return Library("NumPy", np, lambda s: rng.random(s, dtype="float32"), lambda v: None, functions.__getitem__)


def cupy() -> Library:
    import cupy as cp

    rng = cp.random.default_rng(0)
    functions = {"sort": cp.sort, "cholesky": cp.linalg.cholesky, "solve": cp.linalg.solve}
    return Library(
        "CuPy", cp, lambda s: rng.random(s, dtype="float32"), lambda v: cp.cuda.get_current_stream().synchronize(),
        functions.__getitem__,
    )  # fmt: skip


def jax() -> Library:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)  # sums of the check are double
    functions = {"sort": jnp.sort, "cholesky": jnp.linalg.cholesky, "solve": jnp.linalg.solve}
    return Library(
        "JAX", jnp, lambda s: jax.random.uniform(jax.random.key(0), s, "float32"), lambda v: v.block_until_ready(),
        lambda name: jax.jit(functions[name]),
    )  # fmt: skip


def measured(library: Library, work: str, scale: int) -> tuple[float, bool]:
    size, make = WORKS[work]
    call, right = make(library, size // (scale * scale if work == "sort" else scale))
    found = call()
    library.wait(found)
    good = right(found)
    del found
    times = []
    for _ in range(TURNS):
        start = time.perf_counter()
        library.wait(call())
        times.append(time.perf_counter() - start)
    return min(times) * 1e3, good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--kind", choices=("cuda", "host"), default="cuda")
    parser.add_argument("--scale", type=int, default=1, help="divides the side of the matrices, and twice the length")
    parser.add_argument("--only", default="", help="works, with commas")
    parser.add_argument("--out", type=Path, help="a folder for standard_gpus.json")
    options = parser.parse_args()
    works = [work for work in WORKS if not options.only or work in options.only.split(",")]
    peers = [numpy] if options.kind == "host" else [cupy, jax]
    makers: list[Callable[[], Library]] = [
        *peers,
        lambda: ours(options.kind, 1),
        lambda: ours(options.kind, options.gpus),
    ]
    results: dict[str, dict[str, Any]] = {}
    print("library | " + " | ".join(works))
    for make in makers:
        try:
            library = make()
        except ImportError as error:
            print(f"{make.__name__} | not installed: {error}", flush=True)
            continue
        row = results[library.name] = {}
        for work in works:
            try:
                ms, good = measured(library, work, options.scale)
                row[work] = {"ms": ms, "right": good}
            except Exception as error:  # a row that fails must not lose the others
                row[work] = {"error": f"{type(error).__name__}: {error}"[:300]}
        shown = [f"{r['ms']:.0f} ms{'' if r['right'] else ' WRONG'}" if "ms" in r else r["error"] for r in row.values()]
        print(f"{library.name} | " + " | ".join(shown), flush=True)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "standard_gpus.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
