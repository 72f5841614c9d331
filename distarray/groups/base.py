"""The process group of cupyx: one process for each device, and the collectives between them, on arrays that exist.

Beside the distributed array, not beneath it: for programs that hold their own pieces and reduce or exchange them, as with
``cupyx.distributed``, Horovod or mpi4py. Backend "nccl" moves GPU memory, "mpi" host memory; their methods and checks are
the same. Every argument is checked before anything is sent: a mistake raises on the process that made it, at once, and
sends nothing. With "mpi" what processes must have alike is compared too, and a call that raised counts as made: where it
raised on one process only, the others find that out instead of pairing their call with the next one.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, SupportsIndex

from distarray.groups import buffers, sparse
from distarray.groups.buffers import GroupArray, Stream, View
from distarray.groups.engine import Engine

__all__ = ["ProcessGroup"]


class ProcessGroup(Engine):
    """The collectives of a group of processes; made by `init_process_group`.

    All processes of the group call the same collectives in the same order, with the same `op`, `root`, `count` and data
    type, and in `all_reduce`, `reduce` and `broadcast` the same shape and memory order. Backend "mpi" raises
    CollectiveMismatchError on all of them where they do not, and gives the group up; ``DISTARRAY_DEBUG=1`` compares before
    anything is sent. A collective that raises still counts, as does a message to or from a process.

    GroupArray may be of any library that shares memory (DLPack, ``__cuda_array_interface__``, the buffer protocol), of any bool,
    integer, float, bfloat16 or complex type, C- or F-contiguous. Elements travel in C order, so that an F-contiguous array
    is copied; backend "mpi" reduces and broadcasts those in place and compares the order. Others are refused, as are outputs
    that cannot be written and distributed arrays. `all_reduce` and `reduce` may write over their input; that of `all_gather`
    may lie where its part of the output does, and the output of `reduce_scatter` where its part of the input does. Any other
    overlap of input and output is refused.

    Reductions (`op`) are "sum", "prod", "min", "max" and "avg". bool reduces as NumPy does: sum and max are *or*, prod and
    min *and*; avg is refused. avg of integers is the sum, wrapped to the type, divided by the number of processes and
    truncated toward zero. Complex types have sum and avg.

    `stream` is a CUDA stream that the GPU work is queued on, the current one by default: calls return when it is queued.
    Backend "mpi" ignores it: its calls return when the work is done.

    Sparse csr, csc and coo matrices (``cupyx.scipy.sparse`` or, for "mpi", ``scipy.sparse``) are taken by every method
    that takes arrays: `scatter`, `all_to_all` and `reduce_scatter` send a list of matrices, one for each process;
    `gather`, `all_gather` and `all_to_all` fill an empty list; elsewhere the output matrix is overwritten, its shape too.
    Reductions are the sum and, as ``op="prod"``, the matrix product in rank order.

    Attributes
    ----------
    rank, size, n_devices : int
        This process's number, and the number of processes (both names).
    deadline : float
        Seconds that a call waits for others before it raises; from ``DISTARRAY_TIMEOUT``.
    """

    deadline: float

    @property
    def n_devices(self) -> int:
        return self.size

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._abandon(error)
        self.stop()

    # ---- collectives

    def all_reduce(self, in_array: GroupArray, out_array: GroupArray, op: str = "sum", stream: Stream = None) -> None:
        """Reduce `in_array` over all processes, element by element, into `out_array` on each."""
        self._enter("all_reduce")
        if sparse.involved(in_array):
            return sparse.all_reduce(self, in_array, out_array, op, stream)
        src, dst = self._pair(in_array, out_array, stream)
        buffers.check_operation(op, src.dtype)
        self._refuse_overlap(src, dst, 0)
        src = self._reduced(src, stream)
        return self._filling(dst, stream, lambda into: self._all_reduce(src, into, op, stream), src)

    def reduce(
        self, in_array: GroupArray, out_array: GroupArray, root: int = 0, op: str = "sum", stream: Stream = None
    ) -> None:
        """Reduce `in_array` over all processes into `out_array` on `root`; on the others `out_array` may be None."""
        self._enter("reduce")
        root = buffers.check_peer(root, "root", self.size)
        if sparse.involved(in_array):
            return sparse.reduce(self, in_array, out_array, root, op, stream)
        out: View | None = None
        if self.rank == root:
            src, out = self._pair(in_array, out_array, stream)
            self._refuse_overlap(src, out, 0)
        else:
            src = self._view(in_array, "in_array", False, stream)
        buffers.check_operation(op, src.dtype)
        src = self._reduced(src, stream)
        if out is None:
            return self._reduce(src, None, op, root, stream)
        return self._filling(out, stream, lambda into: self._reduce(src, into, op, root, stream), src)

    def broadcast(self, in_out_array: GroupArray, root: int = 0, stream: Stream = None) -> None:
        """Copy `in_out_array` of `root` into that of every process."""
        self._enter("broadcast")
        root = buffers.check_peer(root, "root", self.size)
        if sparse.involved(in_out_array):
            return sparse.broadcast(self, in_out_array, root, stream)
        view = self._view(in_out_array, "in_out_array", self.rank != root, stream)
        if view.order == "F" and not self.compares_order:
            if self.rank != root:
                return self._filling(view, stream, lambda into: self._broadcast(into, root, stream))
            view = self._in_order(view, stream)
        return self._broadcast(view, root, stream)

    def reduce_scatter(
        self, in_array: GroupArray, out_array: GroupArray, count: int, op: str = "sum", stream: Stream = None
    ) -> None:
        """Reduce over all processes; the i-th `count` elements of the result go into `out_array` of process i."""
        self._enter("reduce_scatter")
        if sparse.involved(in_array):
            return sparse.reduce_scatter(self, in_array, out_array, op, stream)
        src, dst = self._pair(in_array, out_array, stream, sized=False)
        buffers.check_operation(op, src.dtype)
        count = buffers.check_count(count, in_array=(src, self.size), out_array=(dst, 1))
        self._refuse_overlap(src, dst, -self.rank * count)
        src = self._in_order(src, stream)
        return self._filling(dst, stream, lambda into: self._reduce_scatter(src, into, count, op, stream))

    def all_gather(self, in_array: GroupArray, out_array: GroupArray, count: int, stream: Stream = None) -> None:
        """Copy the first `count` elements of every process's `in_array`, in rank order, into `out_array` on each."""
        self._enter("all_gather")
        if sparse.involved(in_array):
            return sparse.all_gather(self, in_array, out_array, stream)
        src, dst = self._pair(in_array, out_array, stream, sized=False)
        count = buffers.check_count(count, in_array=(src, 1), out_array=(dst, self.size))
        self._refuse_overlap(src, dst, self.rank * count)
        src = self._in_order(src, stream)
        return self._filling(dst, stream, lambda into: self._all_gather(src, into, count, stream))

    def send(self, array: GroupArray, peer: int, stream: Stream = None) -> None:
        """Send `array` to `peer`, which calls `recv` with an array of as many elements of the same type."""
        peer = self._other(peer, "send_recv")
        self._enter("send", to=peer)
        if sparse.involved(array):
            return sparse.send(self, array, peer, stream)
        return self._send(self._in_order(self._view(array, "array", False, stream), stream), peer, stream)

    def recv(self, out_array: GroupArray, peer: int, stream: Stream = None) -> None:
        """Receive into `out_array` what `peer` sends."""
        peer = self._other(peer, "send_recv")
        self._enter("recv", source=peer)
        if sparse.involved(out_array):
            return sparse.recv(self, out_array, peer, stream)
        view = self._view(out_array, "out_array", True, stream)
        return self._filling(view, stream, lambda into: self._recv(into, peer, stream))

    def send_recv(self, in_array: GroupArray, out_array: GroupArray, peer: int, stream: Stream = None) -> None:
        """Send `in_array` to `peer` and receive from it into `out_array`, at once; `peer` calls it too."""
        peer = buffers.check_peer(peer, "peer", self.size)
        if peer != self.rank:
            self._enter("send_recv", to=peer, source=peer)
        if sparse.involved(in_array):
            return sparse.send_recv(self, in_array, out_array, peer, stream)
        src = self._view(in_array, "in_array", False, stream)
        dst = self._view(out_array, "out_array", True, stream)
        if peer == self.rank:
            buffers.check_pair(src, dst)
        self._refuse_overlap(src, dst)
        src = self._in_order(src, stream)
        return self._filling(dst, stream, lambda into: self._send_recv(src, into, peer, stream))

    def scatter(self, in_array: GroupArray, out_array: GroupArray, root: int = 0, stream: Stream = None) -> None:
        """Send ``in_array[i]`` of `root` to process i, into `out_array`; `in_array` may be None elsewhere."""
        self._enter("scatter")
        root = buffers.check_peer(root, "root", self.size)
        if sparse.involved(in_array if self.rank == root else out_array):
            return sparse.scatter(self, in_array, out_array, root, stream)
        dst = self._view(out_array, "out_array", True, stream)
        if self.rank != root:
            return self._filling(
                dst, stream, lambda into: self._exchange([], [(root, into.flat)], "scatter", stream, into, root)
            )
        src = buffers.check_leading(self._view(in_array, "in_array", False, stream), self.size, "scatter")
        buffers.check_pair(src, dst, alike=False)
        self._fits("scatter", src, "out_array", dst)
        self._refuse_overlap(src, dst)
        sends = list(enumerate(self._parts(self._in_order(src, stream))))
        return self._filling(
            dst, stream, lambda into: self._exchange(sends, [(root, into.flat)], "scatter", stream, into, root)
        )

    def gather(self, in_array: GroupArray, out_array: GroupArray, root: int = 0, stream: Stream = None) -> None:
        """Collect every process's `in_array` on `root`, as ``out_array[i]``; `out_array` may be None elsewhere."""
        self._enter("gather")
        root = buffers.check_peer(root, "root", self.size)
        if sparse.involved(in_array):
            return sparse.gather(self, in_array, out_array, root, stream)
        src = self._in_order(self._view(in_array, "in_array", False, stream), stream)
        if self.rank != root:
            return self._exchange([(root, src.flat)], [], "gather", stream, src, root)
        dst = buffers.check_leading(self._view(out_array, "out_array", True, stream), self.size, "gather")
        buffers.check_pair(src, dst, alike=False)
        self._fits("gather", dst, "in_array", src)
        self._refuse_overlap(src, dst)
        return self._filling(
            dst,
            stream,
            lambda into: self._exchange(
                [(root, src.flat)], list(enumerate(self._parts(into))), "gather", stream, src, root
            ),
        )

    def all_to_all(self, in_array: GroupArray, out_array: GroupArray, stream: Stream = None) -> None:
        """Send ``in_array[i]`` to process i, and receive from it into ``out_array[i]``."""
        self._enter("all_to_all")
        if sparse.involved(in_array):
            return sparse.all_to_all(self, in_array, out_array, stream)
        src, dst = self._pair(in_array, out_array, stream)
        buffers.check_leading(src, self.size, "all_to_all")
        buffers.check_leading(dst, self.size, "all_to_all")
        self._refuse_overlap(src, dst)
        src = self._in_order(src, stream)
        sends = list(enumerate(self._parts(src)))
        return self._filling(
            dst,
            stream,
            lambda into: self._exchange(sends, list(enumerate(self._parts(into))), "all_to_all", stream, src),
        )

    @abc.abstractmethod
    def barrier(self) -> None:
        """Wait on the host until every process has come here."""

    @abc.abstractmethod
    def stop(self) -> None:
        """Leave the group and release what it holds. May be called again; a later collective raises."""

    # ---- helpers

    def _other(self, peer: SupportsIndex, instead: str) -> int:
        rank = buffers.check_peer(peer, "peer", self.size)
        if rank == self.rank:
            raise ValueError(f"peer = {rank} is this process, and a blocking send to itself never ends; use {instead}")
        return rank

    def _pair(
        self, in_array: GroupArray, out_array: GroupArray, stream: Stream, sized: bool = True
    ) -> tuple[View, View]:
        src = self._view(in_array, "in_array", False, stream)
        dst = self._view(out_array, "out_array", True, stream)
        buffers.check_pair(src, dst, alike=sized)
        return src, dst

    def _in_order(self, view: View, stream: Stream) -> View:
        """An array whose elements lie in C order: this one, or a copy of it."""
        if view.order != "F":
            return view
        with self._at(stream):
            return view.in_c_order()

    def _reduced(self, view: View, stream: Stream) -> View:
        """What goes into a reduction: an array in C order, or in its own where the processes compare that."""
        return view if self.compares_order else self._in_order(view, stream)

    def _filling(self, view: View, stream: Stream, call: Callable[[View], None], like: View | None = None) -> None:
        """Make a call that fills an array in C order, or in that of `like`; one in the other order is filled from a copy."""
        order: buffers.MemoryOrder = "F" if like is not None and like.order == "F" else "C"
        if view.order in (order, "both"):
            return call(view)
        with self._at(stream):
            into = view._replace(array=view.array.copy(order=order), order=order)
        call(into)

        def finish() -> None:
            with self._at(stream):
                view.array[...] = into.array

        return self._later(finish)

    def _fits(self, operation: str, whole: View, name: str, part: View) -> None:
        if whole.size != self.size * part.size:
            raise ValueError(
                f"{operation}: {whole.name}[i] has {whole.size // self.size} elements (shape {whole.shape[1:]}) and {name} "
                f"has {part.size} (shape {part.shape}); they must be equal"
            )

    def _parts(self, view: View) -> list[Any]:
        step = view.size // self.size
        flat = view.flat
        return [flat[i * step : (i + 1) * step] for i in range(self.size)]

    def _refuse_overlap(self, src: View, dst: View, offset: int | None = None) -> None:
        """Refuses an input that lies in the output, unless it is exactly where NCCL works in place: `offset` elements in.

        A negative offset is that of the output in the input.
        """
        begin, other = self._address(src.array), self._address(dst.array)
        itemsize = src.dtype.itemsize
        if begin >= other + dst.size * itemsize or other >= begin + src.size * itemsize:
            return
        if offset is not None and begin == other + offset * itemsize:
            return
        raise ValueError(
            f"{src.name} and {dst.name} share memory, and what is received would overwrite what is still to be sent; "
            f"pass {src.name}.copy()"
        )
