"""Expressions on host devices that a reduction reads block by block, not stored: ``(a * b).sum()`` reads its operands once.

The bits are NumPy's for the stored chunk. Its sums of floating-point values are pairwise: halves of multiples of eight, down to
128 elements; so blocks are cut where that tree is, and their sums are added as it says. Integers, and truth, fold in any order.

The second time that an expression is asked for it is evaluated and kept, so that nothing is computed a third time; one whose
steps the program holds, or that costs much, is evaluated at once.

References
----------
Higham, N. J. (1993), "The accuracy of floating point summation", SIAM J. Sci. Comput. 14(4): pairwise summation.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from distarray.devices.arrays import AnyDType, DeviceArray
from distarray.fusion import blocks
from distarray.fusion.compiled import alignment_of, compile_expression, resolve_leaves
from distarray.fusion.demand import operands_of
from distarray.fusion.expr import Node
from distarray.fusion.kept import INEXACT, WORTH, is_held
from distarray.fusion.meeting import is_crowd, meeting_place
from distarray.fusion.native import folding
from distarray.fusion.notes import Notes
from distarray.fusion.program import Program
from distarray.storage import Operand
from distarray.transfer.ledger import watching

if TYPE_CHECKING:
    from distarray.context import Context

__all__ = ["PendingFold", "unfolded"]

_EXACT: dict[Any, str] = {np.add: "biu", np.maximum: "iu", np.minimum: "iu", np.logical_or: "b", np.logical_and: "b"}
"""Folds whose order no bit shows, by the kinds of elements."""


class PendingFold:
    """A program over one chunk, to be folded as it is computed. `operands` lie in C order, or have one element."""

    __slots__ = ("dtype", "kernel", "notes", "operands", "program", "shape")

    def __init__(
        self,
        program: Program,
        operands: Sequence[Any],
        shape: tuple[int, ...],
        dtype: AnyDType,
        notes: Notes,
        kernel: folding.NativeFold | None,
    ) -> None:
        self.program = program
        self.operands = operands
        self.shape = shape
        self.dtype = dtype
        self.notes = notes
        self.kernel = kernel

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes that a pass reads."""
        return sum([array.nbytes for array in self.operands])

    def fold(self, ufunc: np.ufunc, dtype: AnyDType, out: DeviceArray) -> None:
        """``out[...] = ufunc.reduce(value, axis=None, dtype=dtype)``. Conditions of the steps are noted; those of the fold come
        as the caller asked for."""
        mine = Notes()
        size = self.size
        operands = [array.reshape(-1) if array.size > 1 or size == 1 else array.reshape(()) for array in self.operands]
        if self.kernel is None:
            found = self._folded(operands, ufunc, dtype, size, mine)
        else:
            most = max(folding.BLOCK, 128)
            sizes = _sizes(size, most, self.dtype.kind)
            again = partial(self._part, operands, ufunc, dtype, mine)
            parts = list(self.kernel.parts(operands, sizes, ufunc, out, mine.now, self.program, again))
            found = _whole(ufunc, parts, size, most, self.dtype.kind, out.dtype, dtype)
        out[...] = found
        self.notes.seen.update(mine.seen)

    def _folded(self, operands: Sequence[Any], ufunc: np.ufunc, dtype: AnyDType, size: int, notes: Notes) -> Any:
        """So many elements, folded by NumPy."""
        least = 128 if self.dtype.kind == "f" else 1
        most = max(least, blocks.REGISTER_BYTES // max(step.dtype.itemsize for step in self.program.steps))
        sizes = _sizes(size, most, self.dtype.kind)
        plan = blocks.schedule(self.program, len(operands), self.dtype)
        parts = []
        for block in blocks.fold_blocks(plan, operands, sizes, self.dtype, notes):
            parts.append(ufunc.reduce(block, axis=None, dtype=dtype))
        return _whole(ufunc, parts, size, most, self.dtype.kind, parts[0].dtype, dtype)

    def _part(
        self, operands: Sequence[Any], ufunc: np.ufunc, dtype: AnyDType, notes: Notes, low: int, size: int
    ) -> Any:
        """The elements from `low` on that a kernel leaves to NumPy."""
        given = [array[low : low + size] if array.ndim else array for array in operands]
        return self._folded(given, ufunc, dtype, size, notes)


def _sizes(size: int, most: int, kind: str) -> list[int]:
    """The lengths of blocks, none longer than `most`: for sums of floating-point numbers where NumPy's tree is cut."""
    if kind != "f":
        return [min(most, size - low) for low in range(0, size, most)]
    sizes: list[int] = []
    _leaves(size, most, sizes)
    return sizes


def _whole(
    ufunc: np.ufunc, parts: Sequence[Any], size: int, most: int, kind: str, held: DeviceArray, dtype: AnyDType
) -> Any:
    """The fold of the blocks' folds."""
    if kind == "f":
        return _added(ufunc, size, most, parts, 0)[0]
    return ufunc.reduce(np.array(parts, held), dtype=dtype)


def _half(size: int) -> int:
    """Where NumPy's pairwise sum cuts so many elements, more than 128, in two."""
    half = size // 2
    return half - half % 8


def _leaves(size: int, most: int, sizes: list[int]) -> None:
    """Append the lengths of the blocks, none longer than `most`, at which the tree of a sum stops here."""
    if size <= most:
        sizes.append(size)
        return
    half = _half(size)
    _leaves(half, most, sizes)
    _leaves(size - half, most, sizes)


def _added(ufunc: np.ufunc, size: int, most: int, parts: Sequence[Any], first: int) -> tuple[Any, int]:
    """The sum of the blocks from `first` on that make up so many elements, and the next block."""
    if size <= most:
        return parts[first], first + 1
    half = _half(size)
    left, first = _added(ufunc, half, most, parts, first)
    right, first = _added(ufunc, size - half, most, parts, first)
    return ufunc.reduce(np.array([left, right])), first


def _folds(ufunc: np.ufunc, held: Any, dtype: AnyDType) -> bool:
    if ufunc is np.add and held.kind == "f":
        return held.itemsize in (4, 8) and held.isnative and dtype == held
    return held.kind in _EXACT.get(ufunc, "") and (dtype == held or (ufunc is np.add and dtype.kind in "iu"))


def unfolded(context: Context, node: Node, ufunc: np.ufunc, dtype: AnyDType) -> Operand | None:
    """The chunks of a recorded expression as ones to be folded whole, or None where it has to be evaluated."""
    if context.kind != "host" or context.communicator is not None or context.eager or watching.get() is not None:
        return None
    if node.version is not None or node.kept is not None or node.read or not node.shape:
        return None
    itemsize = 8 if node.dtype.kind == "b" else node.dtype.itemsize  # what is compared is larger
    if itemsize * prod(node.shape) < context.workers.inline_bytes or not _folds(ufunc, node.dtype, dtype):
        return None
    program, leaves = compile_expression(node)
    steps = program.steps
    if sum([1 if step.ufunc.__name__ in blocks.CUT_FREE else INEXACT for step in steps]) > WORTH["host"]:
        return None
    large = [prod(step.node.shape) > 1 for step in steps]
    if any(step.loud for step in steps) or any(held and n for held, n in zip(is_held(program), large, strict=False)):
        return None
    settled = resolve_leaves(context, program, leaves)
    place, _, stores = meeting_place(context, node.shape, [(leaf.version.layout, leaf.view) for leaf in settled], None)
    if place is not None or any(stores):
        return None
    al = alignment_of(context, program, settled, None)
    if is_crowd(al.layout):  # the chunks of a device are evaluated in one call, and folded by one each
        return None
    if (
        al.fetches
        or not al.layout.index_map.is_disjoint
        or any(len(c) > 1 or c[0].key is not None for c in al.cells if c)
    ):
        return None
    notes = Notes()
    arrays: list[Any] = []
    for (_, region), cells in zip(al.layout.chunks, al.cells, strict=True):
        if not region.size or not cells:
            arrays.append(None)
            continue
        operands = operands_of(settled, al, (), cells[0])
        if any(a.size > 1 and (a.shape != region.shape or not a.flags.c_contiguous) for a in operands):
            return None
        kernel = folding.fold_of(program, operands, region.size, node.dtype, ufunc, dtype)
        arrays.append(PendingFold(program, operands, region.shape, node.dtype, notes, kernel))
    node.read = True
    return Operand(al.layout, arrays, node.dtype)
