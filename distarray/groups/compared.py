"""What a call of a process group is, in the words and the number that processes compare.

The number is a hash of what must be equal (method, operation, data type, root, count, shape). It travels with the data,
so that the data of one call never lands in another's arrays.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from distarray.comm.base import Signature
from distarray.comm.mpi.control import Tags
from distarray.groups.buffers import MemoryOrder

__all__ = ["DIFFER", "SPARSE", "What", "collective", "message"]

SPARSE = "sparse matrix"
DIFFER = "the calls differ, and method, op, dtype, root, count, shape and order must be equal"

What = tuple[Signature, int]
"""A call, and what of it is hashed into tags."""


@lru_cache(4096)
def collective(
    method: str,
    op: str,
    dtype: np.dtype[Any] | None,
    size: tuple[int, ...] | int = 0,
    order: MemoryOrder = "C",
    root: int = -1,
) -> What:
    """A call that all processes must make alike: a shape, or a number of elements.

    Axes of length 1 are left out: they don't permute the elements.
    """
    facts = [op, dtype.name if dtype is not None else "sparse"]
    if dtype is not None:
        facts.append(f"count {size}" if isinstance(size, int) else str(tuple(n for n in size if n != 1)))
    if order == "F":
        facts.append("F-contiguous")
    if root >= 0:
        facts.append(f"root {root}")
    signature = Signature(method, " ".join(filter(None, facts)))
    return signature, Tags.number(signature)


@lru_cache(4096)
def message(method: str, dtype: np.dtype[Any] | None, size: int = 0) -> What:
    """One of two processes' messages. MPI tells their sizes itself, and more exactly than a hash."""
    kind = SPARSE if dtype is None else dtype.name
    both = Signature("send_recv" if method == "send_recv" else "send", kind)
    return Signature(method, kind if dtype is None else f"{size} of {kind}"), Tags.number(both)
