"""JAX's columns, eager and jit: arrays with a NamedSharding over the GPUs of one process."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import common
import numpy as np


class Bench:
    def __init__(self, scale: int, gpus: int) -> None:
        import jax
        import jax.numpy as jnp
        from jax.sharding import Mesh, NamedSharding, PartitionSpec

        self.jax, self.jnp = jax, jnp
        devices = np.array(jax.devices()[:gpus])
        if len(devices) != gpus:
            raise SystemExit(f"JAX sees {jax.devices()}")
        try:
            from jax.sharding import AxisType

            mesh = Mesh(devices, ("x",), axis_types=(AxisType.Auto,))
        except (ImportError, TypeError):
            mesh = Mesh(devices, ("x",))
        self.by_rows = NamedSharding(mesh, PartitionSpec("x", None))
        self.by_columns = NamedSharding(mesh, PartitionSpec(None, "x"))
        self.everywhere = NamedSharding(mesh, PartitionSpec())
        self.team = common.Team()
        self.eager, self.jit = common.Report("jax_eager", self.team), common.Report("jax_jit", self.team)
        self.rows, self.columns, self.side = common.sizes(scale)
        self.gpus = gpus
        self.pending: Any = None

    def run(self) -> None:
        for report, jitted in ((self.jit, True), (self.eager, False)):
            report.row("add", partial(self.add, jitted))
            report.row("sum0", partial(self.sum0, jitted))
            report.row("columns", partial(self.to_columns, jitted))
            report.row("small_add", partial(self.small_add, jitted))
            report.row("gemm16", partial(self.gemm, jitted, "float16", self.everywhere))
            report.row("gemm16_rows", partial(self.gemm, jitted, "float16", self.by_rows))
            report.row("gemm32", partial(self.gemm, jitted, "float32", self.everywhere))
            report.row("gemm32_rows", partial(self.gemm, jitted, "float32", self.by_rows))
        for report, jitted in ((self.jit, True), (self.eager, False)):  # last: many collectives in flight
            report.row("small_sum", partial(self.small_sum, jitted))

    def sync(self) -> None:
        if self.pending is not None:
            self.jax.block_until_ready(self.pending)
            self.pending = None

    def started(self, function: Callable[[], Any]) -> Callable[[], None]:
        """A call whose result `sync` waits for; the result of the call before is dropped."""

        def call() -> None:
            self.pending = function()

        return call

    def make(self, shape: tuple[int, int], seed: int, dtype: str, sharding: Any) -> Any:
        function = self.jax.jit(
            lambda: common.block(self.jnp, (0, shape[0]), (0, shape[1]), seed, dtype), out_shardings=sharding
        )
        return self.jax.block_until_ready(function())

    def blocks(self, x: Any) -> Iterator[tuple[int, int, Any]]:
        for shard in x.addressable_shards:
            start = [0, *(s.start or 0 for s in shard.index)][-2:]
            yield start[0], start[1], shard.data.reshape(-1, shard.data.shape[-1])

    def timed(
        self,
        function: Callable[[], Any],
        sharding: Any,
        expected: Callable[[Any, Any], Any],
        elements: int,
        tolerance: float = 0.0,
        time: Callable[..., dict[str, float]] = common.large,
    ) -> dict[str, Any]:
        out = self.jax.block_until_ready(function())
        if not out.sharding.is_equivalent_to(sharding, out.ndim):
            return {"na": f"result is {out.sharding.spec if hasattr(out.sharding, 'spec') else out.sharding}"}
        found = common.verify(self.team, self.blocks(out), np.asarray, expected, elements, tolerance)
        del out
        return {**time(self.team, self.started(function), self.sync), **found}

    def add(self, jitted: bool) -> dict[str, Any]:
        a, b = (self.make((self.rows, self.columns), seed, "float32", self.by_rows) for seed in (1, 2))
        add = self.jax.jit(lambda x, y: x + y) if jitted else lambda x, y: x + y
        return self.timed(lambda: add(a, b), self.by_rows, common.total(1, 2), a.size)

    def summed(self, jitted: bool) -> Callable[[Any], Any]:
        if jitted:
            return self.jax.jit(lambda x: self.jnp.sum(x, axis=0), out_shardings=self.everywhere)  # type: ignore[no-any-return]
        return lambda x: self.jax.device_put(self.jnp.sum(x, axis=0), self.everywhere)

    def sum0(self, jitted: bool) -> dict[str, Any]:
        a, summed = self.make((self.rows, self.columns), 1, "float32", self.by_rows), self.summed(jitted)
        return self.timed(
            lambda: summed(a), self.everywhere, common.column_sums(self.rows, 1), self.gpus * self.columns
        )

    def to_columns(self, jitted: bool) -> dict[str, Any]:
        a = self.make((self.rows, self.columns), 1, "float32", self.by_rows)
        if jitted:
            move = self.jax.jit(lambda x: x, out_shardings=self.by_columns)
        else:
            move = partial(self.jax.device_put, device=self.by_columns)
        return self.timed(lambda: move(a), self.by_columns, common.values(1), a.size)

    def gemm(self, jitted: bool, dtype: str, second: Any) -> dict[str, Any]:
        n = self.side
        a, b = self.make((n, n), 1, dtype, self.by_rows), self.make((n, n), 2, dtype, second)
        precision = "highest" if dtype == "float32" else None  # no TF32

        def multiply(x: Any, y: Any) -> Any:
            return self.jnp.matmul(x, y, precision=precision)

        product = self.jax.jit(multiply, out_shardings=self.by_rows) if jitted else multiply
        return self.timed(lambda: product(a, b), self.by_rows, common.product(n, 1, 2), n * n, common.TOLERANCE[dtype])

    def small_add(self, jitted: bool) -> dict[str, Any]:
        n = common.SMALL
        x = self.make((n, n), 1, "float32", self.by_rows)
        add = self.jax.jit(lambda y: y + y) if jitted else lambda y: y + y
        return self.timed(
            lambda: add(x), self.by_rows, lambda i, j: 2 * common.values(1)(i, j), n * n, time=common.small
        )

    def small_sum(self, jitted: bool) -> dict[str, Any]:
        n = common.SMALL
        x, summed = self.make((n, n), 1, "float32", self.by_rows), self.summed(jitted)
        # the CPU's collectives wait for each other when several are in flight
        time = partial(common.small, depth=1 if self.jax.devices()[0].platform == "cpu" else 300)
        return self.timed(lambda: summed(x), self.everywhere, common.column_sums(n, 1), self.gpus * n, time=time)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=1, help="divides the sizes")
    parser.add_argument("--gpus", type=int, default=2)
    options = parser.parse_args()
    Bench(options.scale, options.gpus).run()


if __name__ == "__main__":
    main()
