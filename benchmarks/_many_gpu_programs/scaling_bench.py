"""distarray on growing numbers of GPUs: the same work on each (weak), and the work of one on all (strong).

    python scaling_bench.py --gpus 4                                 one process: 1, 2 and 4 devices
    mpirun -n 4 python scaling_bench.py --gpus 4 --processes 4       one process a GPU, at this number alone

A result's fingerprint is the mean size of its elements: equal for all numbers of GPUs where the work is the same.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import common
import numpy as np

import distarray as da

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import gpu as single

ROWS, COLUMNS, SQUARE = 8192, 16384, 8192
POINTS, KEYS, MODEL = 4_000_000, 1 << 25, 2000


class Sizes(NamedTuple):
    """Lengths for work of so many parts, a part being what one GPU has to do."""

    rows: int
    columns: int
    side: int
    points: int
    keys: int
    model: int
    order: int

    @classmethod
    def of(cls, parts: int, scale: int) -> Sizes:
        return cls(
            ROWS * parts // scale, COLUMNS // scale, SQUARE // scale, POINTS * parts // scale**2, KEYS * parts // scale**2,
            MODEL * parts // scale, round(SQUARE / 2 * parts ** (1 / 3)) // scale,
        )  # fmt: skip


Make = Callable[[tuple[int, int], int, str, Any], Any]
Work = Callable[[Make, Sizes], Callable[[], Any]]
BY_ROWS, BY_COLUMNS, ALL = da.blocks(0), da.blocks(1), da.replicated()


def two(make: Make, n: Sizes) -> tuple[Any, Any]:
    return tuple([make((n.rows, n.columns), seed, "float32", BY_ROWS) for seed in (1, 2)])  # type: ignore[return-value]


def add(make: Make, n: Sizes) -> Callable[[], Any]:
    a, b = two(make, n)
    return lambda: a + b


def chain(make: Make, n: Sizes) -> Callable[[], Any]:
    a, b = two(make, n)
    return lambda: (a * b + a) * 0.5 - b


def sum0(make: Make, n: Sizes) -> Callable[[], Any]:
    a, _ = two(make, n)
    return lambda: a.sum(axis=0).change_mode("replica")


def columns(make: Make, n: Sizes) -> Callable[[], Any]:
    a, _ = two(make, n)
    return lambda: a.reshard(BY_COLUMNS)


def transpose(make: Make, n: Sizes) -> Callable[[], Any]:
    a, _ = two(make, n)
    return lambda: a.T.reshard(BY_ROWS)


def stencil(make: Make, n: Sizes) -> Callable[[], Any]:
    a, _ = two(make, n)
    return lambda: single.stencil(np, a)


def gray_scott(make: Make, n: Sizes) -> Callable[[], Any]:
    u, v = (make((n.model, n.side), seed, "float32", BY_ROWS) for seed in (1, 2))
    u, v = (np.abs(x).evaluate() for x in (u, v))
    return lambda: single.gray_scott(np, u, v)[0]


def k_means(make: Make, n: Sizes) -> Callable[[], Any]:
    points = make((n.points, 16), 1, "float32", BY_ROWS)
    centres = points[:8].reshard(ALL)
    return lambda: single.k_means(np, points, centres)


def gemm(dtype: str, left: Any, right: Any) -> Work:
    def work(make: Make, n: Sizes) -> Callable[[], Any]:
        a, b = make((n.rows, n.side), 1, dtype, left), make((n.side, n.side), 2, dtype, right)
        return lambda: (a @ b).change_mode("replica")

    return work


def fft2(make: Make, n: Sizes) -> Callable[[], Any]:
    a = make((n.rows // 2, n.side), 1, "float32", BY_ROWS)
    return lambda: np.fft.fft2(a)


def sort(make: Make, n: Sizes) -> Callable[[], Any]:
    a = make((n.keys // 16, 16), 1, "float32", BY_ROWS).reshape(-1)
    keys = np.sin(a * 1e4).evaluate()
    return lambda: np.sort(keys)


def cholesky(make: Make, n: Sizes) -> Callable[[], Any]:
    a = make((n.order, n.order), 1, "float32", BY_ROWS)
    matrix = (a @ a.T).change_mode("replica") + np.float32(n.order) * da.eye(n.order, dtype="float32")
    matrix = matrix.reshard(BY_ROWS)
    return lambda: np.linalg.cholesky(matrix)


WORKS: dict[str, Work] = {
    "a + b": add, "(a*b+a)*0.5-b": chain, "sum(axis=0) to all": sum0, "rows -> columns": columns, "transpose": transpose,
    "stencil": stencil, "Gray-Scott": gray_scott, "k-means": k_means, "fft2": fft2, "sort": sort, "cholesky": cholesky,
    **{
        f"GEMM {'f16' if dtype == 'float16' else 'f32'}, {first} x {second}": gemm(dtype, left, right)
        for dtype in ("float16", "float32")
        for first, second, left, right in (
            ("rows", "all", BY_ROWS, ALL), ("rows", "rows", BY_ROWS, BY_ROWS), ("rows", "columns", BY_ROWS, BY_COLUMNS),
            ("columns", "rows", BY_COLUMNS, BY_ROWS),
        )
    },
}  # fmt: skip


def counts(gpus: int) -> list[int]:
    """1, 2, 4, … up to the number of GPUs."""
    return sorted({1, gpus, *[n for n in (2, 4, 8) if n < gpus]})


class Bench:
    """The works on the devices of one context. `parts`: of the strong form."""

    def __init__(self, context: Any, team: common.Team, lib: Any, scale: int, parts: int) -> None:
        self.context, self.team, self.lib, self.scale, self.parts = context, team, lib, scale, parts
        self.report = common.Report(f"scaling{context.process_count}", team)

    def sync(self) -> None:
        for device in self.context.local_devices:
            device.synchronize()

    def make(self, shape: tuple[int, int], seed: int, dtype: str, layout: Any) -> Any:
        """An array of the values of a seed, made part by part where it will lie."""
        n = len(self.context.devices)
        made = da.empty(shape, dtype=dtype, layout=layout)
        for low, high in ((shape[0] * i // n, shape[0] * (i + 1) // n) for i in range(n)):
            made[low:high] = common.block(np, (low, high), (0, shape[1]), seed, dtype)
        self.sync()
        return made

    def run(self, names: list[str]) -> None:
        n = len(self.context.devices)
        for name in names:
            for form, parts in (("weak", n), ("strong", self.parts)):
                if form == "strong" or parts != self.parts:
                    self.report.row(
                        name, lambda name=name, form=form, parts=parts: self.row(name, form, parts), "scaling"
                    )

    def row(self, name: str, form: str, parts: int) -> dict[str, Any]:
        call = WORKS[name](self.make, Sizes.of(parts, self.scale))
        result = call().evaluate()
        print_ = float(np.abs(result).astype("float64").mean())
        del result
        found = common.large(self.team, lambda: call().evaluate(), self.sync, seconds=0.25, most=20)
        return {
            **found, "form": form, "gpus": len(self.context.devices), "processes": self.context.process_count, "print": print_,
            "parts": parts, "ok": bool(np.isfinite(print_)),
        }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--kind", choices=("cuda", "host"), default="cuda")
    parser.add_argument("--scale", type=int, default=1, help="divides the sizes")
    parser.add_argument("--works", default="", help="names of works, or parts of them, with commas")
    options = parser.parse_args()
    wanted = [word for word in options.works.split(",") if word]
    names = [name for name in WORKS if not wanted or any(word in name for word in wanted)]
    lib: Any = np
    if options.kind == "cuda":
        import cupy

        lib = cupy
    if options.processes > 1:
        context = da.init(kind=options.kind, devices=1)
        if context.process_count != options.processes:
            raise SystemExit(f"{context.process_count} processes came up")
        Bench(context, common.Team.mpi(), lib, options.scale, options.gpus).run(names)
        return
    for n in counts(options.gpus):
        with da.init(devices=n, kind=options.kind) as context:
            Bench(context, common.Team(), lib, options.scale, options.gpus).run(names)


if __name__ == "__main__":
    main()
