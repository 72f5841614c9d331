"""The column of cupyx.distributed.array: the GPUs of one process."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import common


class Bench:
    def __init__(self, scale: int, gpus: int) -> None:
        import cupy
        from cupyx.distributed import array

        warnings.simplefilter("ignore")
        self.cupy, self.array = cupy, array
        self.team = common.Team()
        self.rows, self.columns, self.side = common.sizes(scale)
        self.gpus = gpus

    def run(self) -> None:
        report = common.Report("cupyx", self.team)
        report.row("add", self.add)
        report.row("columns", self.to_columns)
        report.row("small_add", self.small_add)
        report.row("small_sum", self.small_sum)
        report.row("gemm16", lambda: self.gemm("float16"))
        report.row("gemm32", lambda: self.gemm("float32"))
        report.row("sum0", self.sum0)  # half a second a call
        for work in ("gemm16_rows", "gemm32_rows"):
            report.put(work, na="no device holds both blocks: refused")

    def sync(self) -> None:
        for device in range(self.gpus):
            with self.cupy.cuda.Device(device):
                self.cupy.cuda.runtime.deviceSynchronize()

    def cut(self, n: int) -> list[slice]:
        return [slice(n * i // self.gpus, n * (i + 1) // self.gpus) for i in range(self.gpus)]

    def by_rows(self, n: int) -> dict[int, Any]:
        return dict(enumerate(self.cut(n)))

    def make(self, shape: tuple[int, int], seed: int, dtype: str, index_map: dict[int, Any]) -> Any:
        with self.cupy.cuda.Device(0):
            whole = common.block(self.cupy, (0, shape[0]), (0, shape[1]), seed, dtype)
            made = self.array.distributed_array(whole, index_map)
        self.sync()
        return made

    def blocks(self, x: Any) -> Iterator[tuple[int, int, Any]]:
        indices = x.index_map
        for device, chunks in x.all_chunks().items():
            for index, data in zip(indices[device], chunks, strict=True):
                start = [0, *(s.start or 0 for s in index)][-2:]
                with self.cupy.cuda.Device(device):
                    yield start[0], start[1], data.reshape(-1, data.shape[-1])

    def timed(
        self, call: Callable[[], Any], expected: Callable[[Any, Any], Any], elements: int, tolerance: float = 0.0
    ) -> dict[str, Any]:
        out = call()
        self.sync()
        found = common.verify(self.team, self.blocks(out), self.cupy.asnumpy, expected, elements, tolerance)
        del out
        return {**common.large(self.team, call, self.sync), **found}

    def add(self) -> dict[str, Any]:
        a, b = (self.make((self.rows, self.columns), seed, "float32", self.by_rows(self.rows)) for seed in (1, 2))
        return self.timed(lambda: a + b, common.total(1, 2), self.rows * self.columns)

    def sum0(self) -> dict[str, Any]:
        a = self.make((self.rows, self.columns), 1, "float32", self.by_rows(self.rows))
        return self.timed(lambda: self.sum_to_all(a), common.column_sums(self.rows, 1), self.gpus * self.columns)

    def sum_to_all(self, x: Any) -> Any:
        return x.sum(axis=0).change_mode(self.array.REPLICA)

    def to_columns(self) -> dict[str, Any]:
        a = self.make((self.rows, self.columns), 1, "float32", self.by_rows(self.rows))
        target = {d: (slice(None), part) for d, part in enumerate(self.cut(self.columns))}

        def call() -> Any:
            out = a.reshard(target)
            out.all_chunks()  # reshard is lazy
            return out

        return self.timed(call, common.values(1), self.rows * self.columns)

    def gemm(self, dtype: str) -> dict[str, Any]:
        n = self.side
        a = self.make((n, n), 1, dtype, self.by_rows(n))
        b = self.make((n, n), 2, dtype, dict.fromkeys(range(self.gpus), slice(None)))
        return self.timed(lambda: a @ b, common.product(n, 1, 2), n * n, common.TOLERANCE[dtype])

    def small_add(self) -> dict[str, Any]:
        n = common.SMALL
        x = self.make((n, n), 1, "float32", self.by_rows(n))
        out = x + x
        self.sync()
        found = common.verify(
            self.team, self.blocks(out), self.cupy.asnumpy, lambda i, j: 2 * common.values(1)(i, j), n * n
        )
        return {**common.small(self.team, lambda: x + x, self.sync), **found}

    def small_sum(self) -> dict[str, Any]:
        n = common.SMALL
        x = self.make((n, n), 1, "float32", self.by_rows(n))
        out = self.sum_to_all(x)
        self.sync()
        found = common.verify(self.team, self.blocks(out), self.cupy.asnumpy, common.column_sums(n, 1), self.gpus * n)
        return {**common.small(self.team, lambda: self.sum_to_all(x), self.sync, rounds=5), **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=1, help="divides the sizes")
    parser.add_argument("--gpus", type=int, default=2)
    options = parser.parse_args()
    Bench(options.scale, options.gpus).run()


if __name__ == "__main__":
    main()
