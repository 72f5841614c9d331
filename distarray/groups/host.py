"""The process group on host arrays, over rounds of messages that something else carries: mpi4py, or threads.

Reductions are done here rather than by MPI: each process reduces one segment, in rank order, so that every process gets
the same bits whatever the library, half precision is added up in single precision, and two processes on one host take
half the time of MPI's own all-reduce. Small arrays go to everyone at once instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from distarray.groups import buffers
from distarray.groups.base import ProcessGroup
from distarray.groups.buffers import GroupArray, Stream, View
from distarray.groups.compared import What, collective, message

__all__ = ["HostEngine", "Wire", "fold"]

SMALL = 1 << 15
"""Bytes up to which one round of whole arrays beats two rounds of segments."""
KEPT_SCRATCH = 1 << 26
"""Bytes of scratch memory kept between calls: fresh pages cost as much as the message."""

HostArray = np.ndarray[Any, Any]


def fold(op: str, parts: Sequence[HostArray], out: HostArray) -> None:
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


class Wire(Protocol):
    """What carries the calls of a host group: each is counted, then begun once its arguments are known to be good."""

    def count(self, method: str) -> None:
        """All processes come to a collective now."""

    def count_message(self, method: str, peer: int, out: bool, into: bool) -> None:
        """This process sends to a peer, receives from it, or both."""

    def making(self, what: What, inward: int | None = None) -> AbstractContextManager[None]:
        """Begin the call that was counted last; a block of rounds follows."""

    def round(self, sends: Sequence[tuple[int, Any]], receives: Sequence[tuple[int, Any]]) -> None:
        """Send and receive 1-d contiguous arrays, all at once; returns when all are sent and filled."""

    def usable(self) -> None:
        """Raise where the group was stopped or given up."""

    def letter(self, peer: int, payload: bytes) -> None:
        """Within a call, send a few bytes without waiting for the peer."""

    def read(self, peer: int) -> bytes:
        """Within a call, the peer's letter."""


class HostEngine(ProcessGroup):
    """The dense collectives on host arrays, between processes and between threads alike."""

    compares_order = True

    def _prepare(self, wire: Wire) -> None:
        self._wire = wire
        self._scratch = np.empty(0, np.uint8)

    # ---- collectives

    def _view(self, value: GroupArray, name: str, write: bool, stream: Stream) -> View:
        return buffers.as_view(buffers.host_array(value, name, write=write), name)

    def _enter(self, method: str, to: int = -1, source: int = -1) -> None:
        if to < 0 and source < 0:
            self._wire.count(method)
        else:
            self._wire.count_message(method, max(to, source), to >= 0, source >= 0)

    def _making_sparse(self, method: str, op: str = "", root: int = -1) -> AbstractContextManager[None]:
        if method in ("send", "recv", "send_recv"):
            return self._wire.making(message(method, None))
        return self._wire.making(collective(method, op, None, root=root))

    def _all_reduce(self, src: View, dst: View, op: str, stream: Stream) -> None:
        mine, out = src.flat, dst.flat
        if self.size == 1:
            return fold(op, [mine], out)
        with self._wire.making(collective("all_reduce", op, src.dtype, src.shape, src.order)):
            if mine.nbytes <= SMALL:
                parts = self._scratch_parts(mine.dtype, [mine.size] * self.size, skip=self.rank)
                parts[self.rank] = mine
                others = self._others()
                self._wire.round([(i, mine) for i in others], [(i, parts[i]) for i in others])
                fold(op, parts, out)
            else:
                bounds = self._bounds(mine.size)
                segment = out[bounds[self.rank] : bounds[self.rank + 1]]
                self._reduce_segment(mine, bounds, segment, op)
                self._share(out, bounds)
        return None

    def _reduce(self, src: View, dst: View | None, op: str, root: int, stream: Stream) -> None:
        mine = src.flat
        if self.size == 1 and dst is not None:
            return fold(op, [mine], dst.flat)
        bounds = self._bounds(mine.size) if mine.nbytes > SMALL else self._all_to(root, mine.size)
        length = bounds[self.rank + 1] - bounds[self.rank]
        segment = dst.flat[bounds[root] : bounds[root + 1]] if dst is not None else np.empty(length, mine.dtype)
        with self._wire.making(collective("reduce", op, src.dtype, src.shape, src.order, root)):
            self._reduce_segment(mine, bounds, segment, op)
            if mine.nbytes <= SMALL:
                return None
            if dst is None:
                self._wire.round([(root, segment)], [])
            else:
                out = dst.flat
                self._wire.round([], [(i, out[bounds[i] : bounds[i + 1]]) for i in self._others()])
        return None

    def _broadcast(self, view: View, root: int, stream: Stream) -> None:
        flat = view.flat
        others = self._others()
        with self._wire.making(collective("broadcast", "", view.dtype, view.shape, view.order, root)):
            if self.size <= 2 or flat.nbytes <= SMALL:
                sends = [(i, flat) for i in others] if self.rank == root else []
                return self._wire.round(sends, [] if self.rank == root else [(root, flat)])
            bounds = self._bounds(flat.size)
            mine = flat[bounds[self.rank] : bounds[self.rank + 1]]
            if self.rank == root:
                self._wire.round([(i, flat[bounds[i] : bounds[i + 1]]) for i in others], [])
            else:
                self._wire.round([], [(root, mine)])
            sends = [(i, mine) for i in others if i != root]
            receives = [] if self.rank == root else [(i, flat[bounds[i] : bounds[i + 1]]) for i in others]
            return self._wire.round(sends, receives)

    def _reduce_scatter(self, src: View, dst: View, count: int, op: str, stream: Stream) -> None:
        bounds = [count * i for i in range(self.size + 1)]
        with self._wire.making(collective("reduce_scatter", op, src.dtype, count)):
            self._reduce_segment(src.flat[: bounds[-1]], bounds, dst.flat[:count], op)

    def _all_gather(self, src: View, dst: View, count: int, stream: Stream) -> None:
        bounds = [count * i for i in range(self.size + 1)]
        out = dst.flat[: bounds[-1]]
        with self._wire.making(collective("all_gather", "", src.dtype, count)):
            out[bounds[self.rank] : bounds[self.rank + 1]] = src.flat[:count].copy()  # `src` may lie inside `dst`
            self._share(out, bounds)

    def _send(self, view: View, peer: int, stream: Stream) -> None:
        with self._wire.making(message("send", view.dtype, view.size)):
            self._wire.round([(peer, view.flat)], [])

    def _recv(self, view: View, peer: int, stream: Stream) -> None:
        with self._wire.making(message("recv", view.dtype, view.size)):
            self._wire.round([], [(peer, view.flat)])

    def _send_recv(self, src: View, dst: View, peer: int, stream: Stream) -> None:
        if peer == self.rank:
            self._wire.usable()
            return self._round([(peer, src.flat)], [(peer, dst.flat)])
        outward = message("send_recv", src.dtype, src.size)
        inward = message("send_recv", dst.dtype, dst.size)
        with self._wire.making(outward, inward[1]):
            return self._wire.round([(peer, src.flat)], [(peer, dst.flat)])

    def _exchange(
        self,
        sends: Sequence[tuple[int, Any]],
        receives: Sequence[tuple[int, Any]],
        operation: str,
        stream: Stream,
        part: View | None = None,
        root: int = -1,
    ) -> None:
        if part is None:
            return self._round(sends, receives)
        size = part.size if root >= 0 else part.size // self.size
        with self._wire.making(collective(operation, "", part.dtype, size, root=root)):
            return self._round(sends, receives)

    def _round(self, sends: Sequence[tuple[int, Any]], receives: Sequence[tuple[int, Any]]) -> None:
        inner = [array for peer, array in sends if peer == self.rank]
        for target, source in zip((array for peer, array in receives if peer == self.rank), inner):
            target[...] = source
        sends = [each for each in sends if each[0] != self.rank]
        receives = [each for each in receives if each[0] != self.rank]
        if sends or receives:
            self._wire.round(sends, receives)

    def _post(self, peer: int, payload: bytes) -> None:
        self._wire.letter(peer, payload)

    def _fetch(self, peer: int) -> bytes:
        return self._wire.read(peer)

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

    def _reduce_segment(self, mine: HostArray, bounds: list[int], out: HostArray, op: str) -> None:
        """Each process reduces its segment of everyone's array, in rank order."""
        begin, end = bounds[self.rank], bounds[self.rank + 1]
        parts = self._scratch_parts(mine.dtype, [end - begin] * self.size, skip=self.rank)
        parts[self.rank] = mine[begin:end]
        others = self._others()
        self._wire.round(
            [(i, mine[bounds[i] : bounds[i + 1]]) for i in others if bounds[i + 1] > bounds[i]],
            [(i, parts[i]) for i in others if end > begin],
        )
        if end > begin:
            fold(op, parts, out)

    def _share(self, out: HostArray, bounds: list[int]) -> None:
        """Send every process's segment of `out` to all others."""
        others = self._others()
        mine = out[bounds[self.rank] : bounds[self.rank + 1]]
        self._wire.round([(i, mine) for i in others], [(i, out[bounds[i] : bounds[i + 1]]) for i in others])

    def _scratch_parts(self, dtype: np.dtype[Any], sizes: list[int], skip: int) -> list[HostArray]:
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
