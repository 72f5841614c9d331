"""Backend "mpi": the process group on host arrays, over point-to-point messages of mpi4py.

Reductions are done here rather than by MPI: each process reduces one segment, in rank order, so that every process gets
the same bits whatever the library, half precision is added up in single precision, and two processes on one host take
half the time of MPI's own all-reduce. Small arrays go to everyone at once instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import _buffers as buffers
from ._buffers import View
from ._mpi_wire import connect_mpi
from .base import Signature
from .deadlines import collective_timeout
from .process_group import ProcessGroup

__all__ = ["MpiGroup", "fold"]

SMALL = 1 << 15
"""Bytes up to which one round of whole arrays beats two rounds of segments."""
KEPT_SCRATCH = 1 << 26
"""Bytes of scratch memory kept between calls: fresh pages cost as much as the message."""

Array = np.ndarray[Any, Any]


def fold(op: str, parts: Sequence[Array], out: Array) -> None:
    """Reduce arrays of one type in the order given, into `out`, which may be one of them."""
    dtype = out.dtype
    function = {"sum": np.add, "avg": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}[op]
    if dtype.kind == "b":
        function = np.logical_or if op in ("sum", "max") else np.logical_and
    with np.errstate(all="ignore"):
        if dtype.itemsize == 2 and dtype.kind not in "iu":  # float16 and bfloat16: round once, at the end
            wide = parts[0].astype(np.float32)
            for part in parts[1:]:
                function(wide, part.astype(np.float32), out=wide)
            if op == "avg":
                wide /= np.float32(len(parts))
            out[...] = wide
            return
        if len(parts) == 1:
            out[...] = parts[0]
        elif not any(np.may_share_memory(out, part) for part in parts[2:]):
            function(parts[0], parts[1], out=out)
            for part in parts[2:]:
                function(out, part, out=out)
        else:
            total = function(parts[0], parts[1])
            for part in parts[2:]:
                function(total, part, out=total)
            out[...] = total
        if op == "avg":
            if dtype.kind in "iu":
                n = dtype.type(len(parts))
                out -= np.fmod(out, n)  # the remainder has the sign of the sum: truncated toward zero
                out //= n
            else:
                out /= len(parts)


class MpiGroup(ProcessGroup):
    """A process group on host arrays; see `ProcessGroup`."""

    def __init__(self, n_devices: int, rank: int) -> None:
        self._wire = connect_mpi(n_devices, rank, collective_timeout())
        self.rank = rank
        self.size = n_devices
        self.deadline = self._wire.deadline
        self._scratch = np.empty(0, np.uint8)

    def barrier(self) -> None:
        self._wire.barrier(Signature("barrier"))

    def stop(self) -> None:
        self._wire.close()

    def _abandon(self, error: BaseException) -> None:
        self._wire.report(error)

    # ---- collectives

    def _view(self, value: Any, name: str, write: bool, stream: Any) -> View:
        return buffers.as_view(buffers.host_array(value, name, write=write), name)

    def _all_reduce(self, src: View, dst: View, op: str, stream: Any) -> None:
        mine, out = src.flat, dst.flat
        if self.size == 1:
            return fold(op, [mine], out)
        if mine.nbytes <= SMALL:
            parts = self._scratch_parts(mine.dtype, [mine.size] * self.size, skip=self.rank)
            parts[self.rank] = mine
            others = self._others()
            self._wire.exchange([(i, mine) for i in others], [(i, parts[i]) for i in others], "all_reduce")
            return fold(op, parts, out)
        bounds = self._bounds(mine.size)
        segment = out[bounds[self.rank] : bounds[self.rank + 1]]
        self._reduce_segment(mine, bounds, segment, op, "all_reduce")
        return self._share(out, bounds, "all_reduce")

    def _reduce(self, src: View, dst: View | None, op: str, root: int, stream: Any) -> None:
        mine = src.flat
        if self.size == 1 and dst is not None:
            return fold(op, [mine], dst.flat)
        bounds = self._bounds(mine.size) if mine.nbytes > SMALL else self._all_to(root, mine.size)
        length = bounds[self.rank + 1] - bounds[self.rank]
        segment = dst.flat[bounds[root] : bounds[root + 1]] if dst is not None else np.empty(length, mine.dtype)
        self._reduce_segment(mine, bounds, segment, op, "reduce")
        if mine.nbytes <= SMALL:
            return None
        if dst is None:
            return self._wire.exchange([(root, segment)], [], "reduce")
        out = dst.flat
        return self._wire.exchange([], [(i, out[bounds[i] : bounds[i + 1]]) for i in self._others()], "reduce")

    def _broadcast(self, view: View, root: int, stream: Any) -> None:
        flat = view.flat
        others = self._others()
        if self.size <= 2 or flat.nbytes <= SMALL:
            sends = [(i, flat) for i in others] if self.rank == root else []
            return self._wire.exchange(sends, [] if self.rank == root else [(root, flat)], "broadcast")
        bounds = self._bounds(flat.size)
        mine = flat[bounds[self.rank] : bounds[self.rank + 1]]
        if self.rank == root:
            self._wire.exchange([(i, flat[bounds[i] : bounds[i + 1]]) for i in others], [], "broadcast")
        else:
            self._wire.exchange([], [(root, mine)], "broadcast")
        not_root = [i for i in others if i != root]
        sends = [(i, mine) for i in not_root]
        receives = [] if self.rank == root else [(i, flat[bounds[i] : bounds[i + 1]]) for i in others]
        return self._wire.exchange(sends, receives, "broadcast")

    def _reduce_scatter(self, src: View, dst: View, count: int, op: str, stream: Any) -> None:
        bounds = [count * i for i in range(self.size + 1)]
        self._reduce_segment(src.flat[: bounds[-1]], bounds, dst.flat[:count], op, "reduce_scatter")

    def _all_gather(self, src: View, dst: View, count: int, stream: Any) -> None:
        bounds = [count * i for i in range(self.size + 1)]
        out = dst.flat[: bounds[-1]]
        out[bounds[self.rank] : bounds[self.rank + 1]] = src.flat[:count].copy()  # `src` may lie inside `dst`
        self._share(out, bounds, "all_gather")

    def _send(self, view: View, peer: int, stream: Any) -> None:
        self._wire.exchange([(peer, view.flat)], [], "send")

    def _recv(self, view: View, peer: int, stream: Any) -> None:
        self._wire.exchange([], [(peer, view.flat)], "send")

    def _exchange(
        self, sends: Sequence[tuple[int, Any]], receives: Sequence[tuple[int, Any]], operation: str, stream: Any
    ) -> None:
        inner = [array for peer, array in sends if peer == self.rank]
        for target, source in zip((array for peer, array in receives if peer == self.rank), inner):
            target[...] = source
        self._wire.exchange(
            [message for message in sends if message[0] != self.rank],
            [message for message in receives if message[0] != self.rank],
            operation,
        )

    def _post(self, peer: int, payload: bytes) -> None:
        self._wire.post(peer, payload)

    def _fetch(self, peer: int) -> bytes:
        return self._wire.fetch(peer)

    def _libraries(self) -> tuple[Any, Any]:
        import scipy.sparse

        return np, scipy.sparse

    def _address(self, array: Any) -> int:
        return int(array.__array_interface__["data"][0])

    # ---- segments

    def _others(self) -> list[int]:
        """The other processes, from the next one on, so that not all send to the first at once."""
        return [(self.rank + k) % self.size for k in range(1, self.size)]

    def _bounds(self, size: int) -> list[int]:
        return [size * i // self.size for i in range(self.size + 1)]

    def _all_to(self, root: int, size: int) -> list[int]:
        return [0 if i <= root else size for i in range(self.size + 1)]

    def _reduce_segment(self, mine: Array, bounds: list[int], out: Array, op: str, operation: str) -> None:
        """Each process reduces its segment of everyone's array, in rank order."""
        begin, end = bounds[self.rank], bounds[self.rank + 1]
        parts = self._scratch_parts(mine.dtype, [end - begin] * self.size, skip=self.rank)
        parts[self.rank] = mine[begin:end]
        others = self._others()
        self._wire.exchange(
            [(i, mine[bounds[i] : bounds[i + 1]]) for i in others if bounds[i + 1] > bounds[i]],
            [(i, parts[i]) for i in others if end > begin],
            operation,
        )
        if end > begin:
            fold(op, parts, out)

    def _share(self, out: Array, bounds: list[int], operation: str) -> None:
        """Everyone's segment of `out` to everyone."""
        others = self._others()
        mine = out[bounds[self.rank] : bounds[self.rank + 1]]
        self._wire.exchange(
            [(i, mine) for i in others], [(i, out[bounds[i] : bounds[i + 1]]) for i in others], operation
        )

    def _scratch_parts(self, dtype: np.dtype[Any], sizes: list[int], skip: int) -> list[Array]:
        """An array for each process but one, in memory that is used again."""
        lengths = [0 if i == skip else size for i, size in enumerate(sizes)]
        nbytes = sum(lengths) * dtype.itemsize
        scratch = self._scratch
        if scratch.nbytes < nbytes:
            scratch = np.empty(nbytes, np.uint8)
            if nbytes <= KEPT_SCRATCH:
                self._scratch = scratch
        parts, start = [], 0
        for length in lengths:
            stop = start + length * dtype.itemsize
            parts.append(scratch[start:stop].view(dtype))
            start = stop
        return parts
