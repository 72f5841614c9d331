"""PyTorch DTensor's column: a process for each GPU, started by mpirun. ``--kind host`` tries it on CPUs with gloo."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

import common
import numpy as np


class Bench:
    def __init__(self, kind: str, scale: int) -> None:
        self.team = team = common.Team.mpi()
        os.environ.update(RANK=str(team.rank), WORLD_SIZE=str(team.size), LOCAL_RANK=str(team.rank))
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        import torch
        import torch.distributed
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import DTensor, Replicate, Shard

        self.torch, self.DTensor, self.Replicate, self.Shard = torch, DTensor, Replicate, Shard
        self.cuda = kind == "cuda"
        self.device = f"cuda:{team.rank}" if self.cuda else "cpu"
        if self.cuda:
            torch.cuda.set_device(team.rank)
        torch.distributed.init_process_group("nccl" if self.cuda else "gloo", rank=team.rank, world_size=team.size)
        self.mesh = init_device_mesh("cuda" if self.cuda else "cpu", (team.size,))
        self.report = common.Report("dtensor", team)
        self.rows, self.columns, self.side = common.sizes(scale)

    def run(self) -> None:
        report = self.report
        report.row("add", self.add)
        report.row("sum0", self.sum0)
        report.row("columns", self.to_columns)
        report.row("small_add", self.small_add)
        report.row("small_sum", self.small_sum)
        report.row("gemm16", lambda: self.gemm("float16", self.Replicate()))
        report.row("gemm16_rows", lambda: self.gemm("float16", self.Shard(0)))
        report.row("gemm32", lambda: self.gemm("float32", self.Replicate()))
        report.row("gemm32_rows", lambda: self.gemm("float32", self.Shard(0)))
        self.torch.distributed.destroy_process_group()

    def sync(self) -> None:
        if self.cuda:
            self.torch.cuda.synchronize()

    def part(self, n: int) -> tuple[int, int]:
        return n * self.team.rank // self.team.size, n * (self.team.rank + 1) // self.team.size

    def make(self, shape: tuple[int, int], seed: int, dtype: str, placement: Any) -> Any:
        torch = self.torch
        first, end = (0, shape[0]) if placement == self.Replicate() else self.part(shape[0])
        i = torch.arange(first, end, dtype=torch.int32, device=self.device)[:, None]
        j = torch.arange(shape[1], dtype=torch.int32, device=self.device)[None, :]
        local = ((i * 31 + j * 17 + seed * 5) % common.PRIME - 48).to(getattr(torch, dtype)) / 64
        made = self.DTensor.from_local(local, self.mesh, [placement], run_check=False)
        self.sync()
        return made

    def verify(
        self, x: Any, expected: Callable[[Any, Any], Any], elements: int, tolerance: float = 0.0
    ) -> dict[str, Any]:
        local = x.to_local()
        start = [0, 0]
        for axis, n in enumerate(x.shape):
            if x.placements[0].is_shard(axis):
                start[axis] = self.part(n)[0]
        if x.ndim == 1:
            start = [0, start[0]]
        blocks = [(start[0], start[1], local.reshape(-1, local.shape[-1]))]
        return common.verify(
            self.team, blocks, lambda t: t.cpu().numpy().astype(np.float64), expected, elements, tolerance
        )

    def timed(
        self,
        call: Callable[[], Any],
        placement: Any,
        expected: Callable[[Any, Any], Any],
        elements: int,
        tolerance: float = 0.0,
        time: Callable[..., dict[str, float]] = common.large,
    ) -> dict[str, Any]:
        out = call()
        self.sync()
        if tuple(out.placements) != (placement,):
            return {"na": f"result is {out.placements}"}
        found = self.verify(out, expected, elements, tolerance)
        del out
        return {**time(self.team, call, self.sync), **found}

    def add(self) -> dict[str, Any]:
        a, b = (self.make((self.rows, self.columns), seed, "float32", self.Shard(0)) for seed in (1, 2))
        return self.timed(lambda: a + b, self.Shard(0), common.total(1, 2), self.rows * self.columns)

    def sum_to_all(self, x: Any) -> Any:
        return x.sum(0).redistribute(placements=[self.Replicate()])

    def sum0(self) -> dict[str, Any]:
        a = self.make((self.rows, self.columns), 1, "float32", self.Shard(0))
        expected = common.column_sums(self.rows, 1)
        return self.timed(lambda: self.sum_to_all(a), self.Replicate(), expected, self.team.size * self.columns)

    def to_columns(self) -> dict[str, Any]:
        a, target = self.make((self.rows, self.columns), 1, "float32", self.Shard(0)), [self.Shard(1)]
        return self.timed(
            lambda: a.redistribute(placements=target), self.Shard(1), common.values(1), self.rows * self.columns
        )

    def gemm(self, dtype: str, second: Any) -> dict[str, Any]:
        n, rows = self.side, [self.Shard(0)]
        a, b = self.make((n, n), 1, dtype, self.Shard(0)), self.make((n, n), 2, dtype, second)
        return self.timed(
            lambda: (a @ b).redistribute(placements=rows),
            self.Shard(0), common.product(n, 1, 2), n * n, common.TOLERANCE[dtype],
        )  # fmt: skip

    def small_add(self) -> dict[str, Any]:
        n = common.SMALL
        x = self.make((n, n), 1, "float32", self.Shard(0))
        expected = common.values(1)
        return self.timed(lambda: x + x, self.Shard(0), lambda i, j: 2 * expected(i, j), n * n, time=common.small)

    def small_sum(self) -> dict[str, Any]:
        n = common.SMALL
        x = self.make((n, n), 1, "float32", self.Shard(0))
        expected = common.column_sums(n, 1)
        return self.timed(lambda: self.sum_to_all(x), self.Replicate(), expected, self.team.size * n, time=common.small)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=("cuda", "host"), default="cuda")
    parser.add_argument("--scale", type=int, default=1, help="divides the sizes")
    options = parser.parse_args()
    Bench(options.kind, options.scale).run()


if __name__ == "__main__":
    main()
