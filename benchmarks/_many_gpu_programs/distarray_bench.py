"""distarray's column: several GPUs of one process, or one GPU in each process of a launcher. ``--kind host`` tries it on CPUs."""

from __future__ import annotations

import argparse
import cProfile
import io
import pstats
from collections.abc import Callable, Iterator
from typing import Any

import common
import numpy as np

import distarray as da
from distarray.comm.base import Message, Signature


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=("cuda", "host"), default="cuda")
    parser.add_argument("--scale", type=int, default=1, help="divides the sizes")
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--processes", type=int, default=1, help="1, or as many as GPUs")
    options = parser.parse_args()
    context = da.init(kind=options.kind, devices=options.gpus if options.processes == 1 else 1)
    if len(context.devices) != options.gpus or context.process_count != options.processes:
        raise SystemExit(f"{context.process_count} processes and {len(context.devices)} devices came up")
    team = common.Team.mpi() if options.processes > 1 else common.Team()
    report = common.Report("distarray1" if options.processes == 1 else "distarrays", team)
    if options.kind == "cuda":
        import cupy

        lib: Any = cupy
        cupy.cuda.Device(context.local_devices[0].ordinal).use()
    else:
        lib = np
    Bench(context, team, report, lib, options.scale).run()


class Bench:
    def __init__(self, context: Any, team: common.Team, report: common.Report, lib: Any, scale: int) -> None:
        self.context, self.team, self.report, self.lib = context, team, report, lib
        self.rows, self.columns, self.side = common.sizes(scale)
        self.bytes = (1 << 30) // scale
        self.copies = len(context.devices)

    def run(self) -> None:
        report = self.report
        if self.context.process_count == 1:
            report.row("peer copy, one way", self.peer_copy, "fact")
            report.row("peer copy, both ways", self.peer_copies, "fact")
            report.row("reshard device 0 to 1, 1 GiB", self.move, "fact")
        else:
            report.row("NCCL exchange, 1 GiB each way", self.exchange, "fact")
        report.row("add", self.add)
        report.row("sum0", self.sum0)
        report.row("columns", self.to_columns)
        report.row(
            "small_add",
            lambda: self.tiny(lambda x: (x + x).evaluate(), "x + x", lambda i, j: 2 * common.values(1)(i, j)),
        )
        report.row("small_sum", lambda: self.tiny(_sum_to_all, "sum", common.column_sums(common.SMALL, 1)))
        report.row("gemm16", lambda: self.gemm("float16", da.replicated()))
        report.row("gemm16_rows", lambda: self.gemm("float16", da.blocks(0)))
        if self.context.process_count == 1:
            report.row("gemm16_alone", self.gemm_alone)
        report.row("gemm32", lambda: self.gemm("float32", da.replicated()))
        report.row("gemm32_rows", lambda: self.gemm("float32", da.blocks(0)))

    # ---- helpers

    def make(self, shape: tuple[int, int], seed: int, dtype: str, layout: Any) -> Any:
        whole = common.block(self.lib, (0, shape[0]), (0, shape[1]), seed, dtype)
        made = da.asarray(whole, layout=layout)
        self.sync()
        return made

    def sync(self) -> None:
        for device in self.context.local_devices:
            device.synchronize()

    def blocks(self, x: Any) -> Iterator[tuple[int, int, Any]]:
        indices = x.index_map
        for device_id, chunks in x.all_chunks().items():
            for index, data in zip(indices[device_id], chunks, strict=True):
                start = [0, *(s.start or 0 for s in index)][-2:]
                with self.context.by_id[device_id].active():
                    yield start[0], start[1], data.reshape(-1, data.shape[-1])

    def to_numpy(self, array: Any) -> Any:
        return array if self.lib is np else self.lib.asnumpy(array)

    def verify(
        self, x: Any, expected: Callable[[Any, Any], Any], elements: int, tolerance: float = 0.0
    ) -> dict[str, Any]:
        return common.verify(self.team, self.blocks(x), self.to_numpy, expected, elements, tolerance)

    def timed(
        self, call: Callable[[], Any], expected: Callable[[Any, Any], Any], elements: int, tolerance: float = 0.0
    ) -> Any:
        found = self.verify(call(), expected, elements, tolerance)
        return {**common.large(self.team, call, self.sync), **found}

    # ---- rows of the table

    def add(self) -> dict[str, Any]:
        shape = (self.rows, self.columns)
        a, b = (self.make(shape, seed, "float32", da.blocks(0)) for seed in (1, 2))
        return self.timed(lambda: (a + b).evaluate(), common.total(1, 2), a.size)

    def sum0(self) -> dict[str, Any]:
        a = self.make((self.rows, self.columns), 1, "float32", da.blocks(0))
        return self.timed(lambda: _sum_to_all(a), common.column_sums(self.rows, 1), self.copies * self.columns)

    def to_columns(self) -> dict[str, Any]:
        a = self.make((self.rows, self.columns), 1, "float32", da.blocks(0))
        target = da.blocks(1)
        return self.timed(lambda: a.reshard(target), common.values(1), a.size)

    def gemm(self, dtype: str, second: Any) -> dict[str, Any]:
        shape = (self.side, self.side)
        a, b = self.make(shape, 1, dtype, da.blocks(0)), self.make(shape, 2, dtype, second)
        rows = da.blocks(0)
        return self.timed(
            lambda: (a @ b).change_mode("replica").reshard(rows),
            common.product(self.side, 1, 2), a.size, common.TOLERANCE[dtype],
        )  # fmt: skip

    def gemm_alone(self) -> dict[str, Any]:
        """What the array library takes for the same products, of rows and copies that are there."""
        shape = (self.side, self.side)
        a, b = self.make(shape, 1, "float16", da.blocks(0)), self.make(shape, 2, "float16", da.replicated())
        works = []
        for device in self.context.local_devices:
            (left,), (right,) = a.all_chunks()[device.id], b.all_chunks()[device.id]
            works.append((device, left, right, device.empty(left.shape, left.dtype)))

        def call() -> None:
            for device, left, right, into in works:
                with device.active():
                    self.lib.matmul(left, right, out=into.array)

        return {**common.large(self.team, call, self.sync), "ok": True}

    def tiny(self, work: Callable[[Any], Any], name: str, expected: Callable[[Any, Any], Any]) -> dict[str, Any]:
        side = common.SMALL
        x = self.make((side, side), 1, "float32", da.blocks(0))
        out = work(x)
        found = self.verify(out, expected, side * side if out.ndim == 2 else self.copies * side)
        timed = common.small(self.team, lambda: work(x), self.sync)
        self.profile(lambda: work(x), name)
        return {**timed, **found}

    def profile(self, call: Callable[[], Any], name: str) -> None:
        """Where the host's time goes, for the log."""
        profiler = cProfile.Profile()
        profiler.enable()
        for _ in range(200):
            call()
        profiler.disable()
        self.sync()
        self.team.share()
        if self.team.rank == 0:
            text = io.StringIO()
            pstats.Stats(profiler, stream=text).sort_stats("tottime").print_stats(18)
            print(f"\nPROFILE of 200 calls of 64 x 64 {name}\n{text.getvalue()}", flush=True)

    # ---- bandwidths

    def speed(self, call: Callable[[], Any], nbytes: int, right: Callable[[], bool]) -> dict[str, Any]:
        found = common.large(self.team, call, self.sync)
        ok = all(self.team.share(bool(right())))
        return {"ok": ok, "ms": found["ms"], "value": nbytes / found["ms"] / 1e6, "unit": "GB/s"}

    def pair(self) -> tuple[Any, Any, Any, Any]:
        first, second = self.context.devices[:2]
        source, target = (device.empty((self.bytes,), np.uint8) for device in (first, second))
        first.fill(source.array, 7)
        second.fill(target.array, 3)
        self.sync()
        return first, second, source, target

    def peer_copy(self) -> dict[str, Any]:
        first, second, source, target = self.pair()
        found = self.speed(
            lambda: second.copy(target.array, source.array, first), self.bytes,
            lambda: bool((second.to_host(target.array[::4099]) == 7).all()),
        )  # fmt: skip
        if self.lib is not np:
            can = [self.lib.cuda.runtime.deviceCanAccessPeer(a, b) for a, b in ((0, 1), (1, 0))]
            found["note"] = f"peer access possible: {can}"
        return found

    def peer_copies(self) -> dict[str, Any]:
        first, second, source, target = self.pair()
        _, _, back, into = self.pair()
        second.fill(into.array, 9)
        self.sync()

        def call() -> None:
            second.copy(target.array, source.array, first)
            first.copy(back.array, into.array, second)

        right = [
            lambda: bool((second.to_host(target.array[::4099]) == 7).all()),
            lambda: bool((first.to_host(back.array[::4099]) == 9).all()),
        ]
        found = self.speed(call, 2 * self.bytes, lambda: all(one() for one in right))
        return {
            **found,
            "note": "one stream a GPU: the copies run one behind the other, unless the library overlaps them",
        }

    def move(self) -> dict[str, Any]:
        n = self.bytes // 4
        x = da.full(n, 7, dtype="float32", layout={0: slice(0, n)})
        y = x.reshard({1: slice(0, n)})
        right = bool((y.get()[::4099] == 7).all())
        return self.speed(lambda: x.reshard({1: slice(0, n)}), self.bytes, lambda: right)

    def exchange(self) -> dict[str, Any]:
        communicator, me = self.context.communicator, self.context.process
        device = self.context.local_devices[0]
        out, into = (device.empty((self.bytes,), np.uint8) for _ in range(2))
        device.fill(out.array, 7 + me)
        device.fill(into.array, 3)
        peer = me ^ 1 if (me ^ 1) < self.context.process_count else me - 1
        signature = Signature("bandwidth")
        return self.speed(
            lambda: communicator.exchange([Message(peer, out.array)], [Message(peer, into.array)], signature), self.bytes,
            lambda: bool((device.to_host(into.array[::4099]) == 7 + peer).all()),
        )  # fmt: skip


def _sum_to_all(x: Any) -> Any:
    return x.sum(axis=0).change_mode("replica")


if __name__ == "__main__":
    main()
